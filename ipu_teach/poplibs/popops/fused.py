"""`map`: an expression of several operations in one compute set, with one vertex per tile.

Each operation rounds its result to its dtype, so the values are equal to those of separate
operations. Fusing has two advantages: intermediate results are neither stored nor loaded, and there
is one superstep instead of one for each operation.

PopLibs generates a codelet for the expression, but has no cycle estimate for this codelet. The
model adds up these cycles of a worker thread:

* For each operation, PopLibs' cycles for its inner loop (`cost/vertices/rates.py`). If PopLibs adds
  further cycles for the instructions around the loop, the model leaves them out.
* The loads of the tensors and the store of the result. In a cycle, a worker loads two vectors or
  stores one.
* For each conversion, the inner loop of PopLibs' Cast1D. This loop already contains the load of a
  tensor that is only converted, and the store of the result if the conversion is the last step.
* The cycles before the inner loop of Cast1D. If there are several conversions, the largest of these
  start-up costs is counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.vertices import rates
from ipu_teach.cost.vertices.parts import find
from ipu_teach.errors import shown
from ipu_teach.graph import (
    Graph,
    InOut,
    Input,
    Output,
    Shape,
    SupervisorVertex,
    Tensor,
    Vector,
    Vertex,
)
from ipu_teach.poplibs.laying import typed
from ipu_teach.poplibs.library import OWN, calling, check_mapped, check_tensor, library, refused
from ipu_teach.poplibs.options import Option, Options, settled
from ipu_teach.poplibs.popops import composed
from ipu_teach.poplibs.popops.elementwise_codelets import per_tile
from ipu_teach.poplibs.popops.expr import MOST_TENSORS, Expr, as_expr
from ipu_teach.poplibs.popops.operands import check_output, common_shape, result_like
from ipu_teach.poplibs.popops.operations import OPERATIONS, evaluate, rated
from ipu_teach.poplibs.poputil import seen_in
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import QUARTER, Array, DType, dtype_named

__all__ = ["map", "map_in_place", "map_with_output"]

OPTIONS = (Option("enableGenerateCodelet", bool, True),)
# The cycles of the supervisor, and those of a worker outside its loop, in PopLibs' UnaryOp1D.
_SUPERVISOR = 20
_WORKER = 17


def run(code: str, inputs: Sequence[Array]) -> Array:
    """Return the value of an expression for numpy arrays, element by element.

    `code` contains the steps of the expression, separated by spaces.
    """

    def cast(operand: Array, dtype: type[DType], step_number: int) -> Array:
        return operand.astype(np.dtype(dtype.numpy))

    def apply(operation: str, operands: list[Array], step_number: int) -> Array:
        return evaluate(operation, *operands)

    return composed.walk(code, inputs, number=lambda value, dtype: value, cast=cast, apply=apply)


def loop_cycles(
    code: str, inputs: Sequence[type[DType]], out: type[DType], n: int, target: Target
) -> int:
    """Return the cycles of a worker in an expression's loop over `n` elements.

    `code` contains the steps of the expression, separated by spaces. `inputs` and `out` are the
    dtypes of the tensors and of the result. The module's docstring explains the model.
    """
    steps = code.split()
    loop_starts = [0]
    loop_bodies = [0]

    def convert(
        operand: type[DType] | None, dtype: type[DType], step_number: int
    ) -> type[DType] | None:
        if operand is None:  # A constant is converted at compile time, without cycles.
            return None
        start, loop = vertices.cast_loop(n, operand, dtype, target)
        loop_starts.append(int(start))
        loop_bodies.append(int(loop))
        return dtype

    def apply(operation: str, operands: list[type[DType] | None], step_number: int) -> type[DType]:
        dtype = dtype_named(steps[step_number].partition("@")[2])
        assert dtype is not None, steps[step_number]
        loop_bodies.append(_operation_cycles(operation, dtype, n, target))
        return OPERATIONS[operation].result(dtype)

    operands: list[type[DType] | None] = list(inputs)
    composed.walk(code, operands, number=lambda value, dtype: None, cast=convert, apply=apply)
    # The loop of a conversion already contains the load of its operand and the store of its result.
    loaded_steps = {
        step for step, following in pairwise([*steps, ""]) if not following.startswith("CAST")
    }
    loaded_dtypes = [
        dtype
        for tensor_number, dtype in enumerate(inputs, 1)
        if f"_{tensor_number}" in loaded_steps
    ]
    stored_dtypes = [] if steps[-1].startswith("CAST") else [out]
    load_cycles, store_cycles = (
        sum(-(-n // target.get_vector_width(dtype)) for dtype in dtypes)
        for dtypes in (loaded_dtypes, stored_dtypes)
    )
    return max(loop_starts) + sum(loop_bodies) - (-load_cycles // 2) + store_cycles


def _operation_cycles(operation: str, dtype: type[DType], n: int, target: Target) -> int:
    """Return the worker cycles of an operation on `n` elements, without loads and stores."""
    if operation == "SELECT":
        return 5 * n  # PopLibs' Select takes 5 cycles per element.
    if operation == "CLAMP":
        return int(vertices.clamp_loop(n, dtype, target))
    rate_table = rates.UNARY if OPERATIONS[operation].arity == 1 else rates.BINARY
    rated_name, rated_dtype = rated(rate_table, OPERATIONS[operation], dtype)
    rate = find(rate_table, rated_name, rated_dtype, "MapExpression")
    return rate.cycles * -(-n // rate.width(rated_dtype, target))


class _Map(SupervisorVertex):
    """The base class of vertices that evaluate an expression element by element.

    `code` contains the steps of the expression, separated by spaces, as returned by `Expr.code`.
    """

    code: ClassVar[str]

    def cycles(self, target: Target) -> int:
        inputs = [field.dtype for name, field in self.fields.items() if name != "out"]
        out = self.fields["out" if "out" in self.fields else "x1"].dtype
        num_elements = len(getattr(self, "out" if "out" in self.fields else "x1"))
        num_workers = target.num_worker_contexts
        return _SUPERVISOR + num_workers * (
            _WORKER
            + loop_cycles(self.code, inputs, out, -(-num_elements // num_workers), target=target)
        )


class _MapNew(_Map):
    """Set `out` to the value of the expression for the tensors `x1`, `x2`, …."""

    def compute(self) -> None:
        inputs = [getattr(self, name) for name in self.fields if name != "out"]
        self.out = run(self.code, inputs)


class _MapInPlace(_Map):
    """Replace `x1` by the value of the expression for the tensors `x1`, `x2`, …."""

    def compute(self) -> None:
        setattr(self, "x1", run(self.code, [getattr(self, name) for name in self.fields]))  # noqa: B010


_open: Any = TypeVar
_DTYPES = [_open(f"T{n}") for n in range(1, MOST_TENSORS + 1)]
_RESULT = _open("Result")


def _base(count: int, in_place: bool) -> type[Vertex]:
    """Return a codelet for expressions of `count` tensors; their dtypes are type variables.

    The codelet writes its result to the first tensor if `in_place`, and otherwise to a field `out`.
    """
    vector: Any = Vector
    fields: dict[str, Any] = {f"x{n + 1}": Input[vector[_DTYPES[n]]] for n in range(count)}
    if in_place:
        fields["x1"] = InOut[vector[_DTYPES[0]]]
    else:
        fields["out"] = Output[vector[_RESULT]]
    name = f"Map{'InPlace' if in_place else ''}{count}"
    return type(
        name,
        (_MapInPlace if in_place else _MapNew,),
        {"__annotations__": fields, "__module__": __name__},
    )


_BASES = {
    (count, place): _base(count, place)
    for count in range(1, MOST_TENSORS + 1)
    for place in (False, True)
}


def _codelet(
    code: str, text: str, inputs: tuple[type[DType], ...], out: type[DType] | None
) -> type[Vertex]:
    """Return the codelet of an expression for tensors of the dtypes `inputs`.

    `code` contains the steps of the expression, separated by spaces; `text` is the expression as
    the user sees it. `out` is the dtype of the result; if it is None, the codelet works in place.
    """
    dtypes = dict(zip(_DTYPES, inputs, strict=False))
    if out is not None:
        dtypes[_RESULT] = out
    name = "MapExpressionInPlace" if out is None else "MapExpression"
    return typed(_BASES[len(inputs), out is None], [text, *inputs], dtypes, name, code=code)


@library
def map(
    graph: Graph,
    expression: Expr,
    tensors: Sequence[Tensor],
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
) -> Tensor:
    """Return the value of `expression` for the tensors, element by element, in a new tensor.

    `expression` is built with `popops.expr`, and determines the dtype of the result. `tensors`
    contains 1 to 8 tensors, which are broadcast to a common shape. The call adds one compute set
    with one vertex per tile. As in PopLibs, the result is mapped like the tensor of its shape that
    has the fewest elements on its fullest tile. Constants and views that repeat elements are not
    considered; if no tensor remains, the result is mapped linearly.

    `options` may contain "enableGenerateCodelet" (default True). If it is False, each operation is
    a separate library call with its own compute set and intermediate tensor. The results are the
    same, bit for bit, and a comparison of the profiles shows how much time and memory fusing saves.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is wrong.
    """
    dtype, shape, code = _checked(graph, expression, tensors)
    if not settled(OPTIONS, options)["enableGenerateCodelet"]:
        return composed.new(graph, code, tensors, shape, dtype=dtype, prog=prog, name=debug_context)
    out = result_like(graph, tensors, shape, dtype, name=debug_context)
    _write(graph, expression, code, tensors, out=out, prog=prog, name=debug_context, is_fused=True)
    return out


@library
def map_in_place(
    graph: Graph,
    expression: Expr,
    tensors: Sequence[Tensor],
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
) -> None:
    """Replace the first tensor by the value of `expression` for all tensors, element by element.

    The value and the arguments are those of `map`. The value must have the dtype and shape of the
    first tensor.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is wrong.
    """
    dtype, shape, code = _checked(graph, expression, tensors)
    is_fused = settled(OPTIONS, options)["enableGenerateCodelet"]
    first_tensor = tensors[0]
    if dtype is not first_tensor.dtype or shape != first_tensor.shape:
        raise refused(f"""cannot write its result, {dtype.__name__} of shape {shape}, to its first
            tensor, which is {first_tensor.dtype.__name__} of shape {first_tensor.shape}.
            where: {expression} of {first_tensor!r}
            next:  use map(), which returns a new tensor, or convert with expr.Cast.""")
    _write(
        graph,
        expression,
        code,
        tensors,
        out=first_tensor,
        prog=prog,
        name=debug_context,
        is_fused=is_fused,
        in_place=True,
    )


@library
def map_with_output(
    graph: Graph,
    expression: Expr,
    tensors: Sequence[Tensor],
    out: Tensor,
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
) -> None:
    """Write the value of `expression` for the tensors to `out`, element by element.

    The value and the arguments are those of `map`. `out` must have the shape and dtype of the
    value.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is wrong.
    """
    dtype, shape, code = _checked(graph, expression, tensors)
    is_fused = settled(OPTIONS, options)["enableGenerateCodelet"]
    check_output(out, shape, dtype)
    _write(
        graph, expression, code, tensors, out=out, prog=prog, name=debug_context, is_fused=is_fused
    )


def _checked(
    graph: Graph, expression: Expr, tensors: Sequence[Tensor]
) -> tuple[type[DType], Shape, str]:
    """Check the arguments of a `map` function; return `(dtype, shape, code)` of the result.

    `code` contains the steps of the expression, separated by spaces.
    """
    checked = as_expr(expression, f"{calling()}()")
    if not isinstance(tensors, (list, tuple)) or not 1 <= len(tensors) <= MOST_TENSORS:
        raise refused(f"""was given the tensors {shown(tensors)}.
            next:  give a list of 1 to {MOST_TENSORS} tensors; _1 in the expression is the first
            tensor.""")
    for number, tensor in enumerate(tensors, 1):
        check_tensor(graph, f"_{number}", tensor)
        if issubclass(tensor.dtype, QUARTER):
            raise refused(f"""cannot compute with {tensor.dtype}, the dtype of _{number}.
                next:  convert to HALF or FLOAT with popops.cast first.""")
        check_mapped(graph, f"_{number}", tensor)
    dtypes = [t.dtype for t in tensors]
    dtype = checked.dtype(dtypes) or checked.own
    return dtype, common_shape(tensors), " ".join(checked.code(dtypes, dtype))


def _write(
    graph: Graph,
    expression: Expr,
    code: str,
    tensors: Sequence[Tensor],
    out: Tensor,
    prog: Program,
    name: str,
    is_fused: bool,
    in_place: bool = False,
) -> None:
    if not is_fused:
        composed.write(graph, code, tensors, out, prog=prog, name=name)
        return
    dtypes = tuple(tensor.dtype for tensor in tensors)
    codelet = _codelet(code, str(expression), dtypes, None if in_place else out.dtype)
    operands = {f"x{index + 1}": seen_in(tensor, out.shape) for index, tensor in enumerate(tensors)}
    per_tile(
        graph, codelet, out, operands | ({} if in_place else {"out": out}), prog=prog, name=name
    )
