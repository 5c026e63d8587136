"""`map`: an expression of several operations in one compute set, with one vertex per tile.

Each operation rounds its result to its dtype, so the values are those of separate operations. The
gain is that intermediate results are neither stored nor loaded, and that there is one superstep
instead of one for each operation. PopLibs generates a codelet for the expression and has no
estimate for it. The cycles are therefore assumed to be the sum of:

* PopLibs' inner loop of every operation, without the loop's own instructions;
* one load of each tensor and one store of the result, a data path per cycle, with two loads at a
  time;
* for each conversion, the loop of PopLibs' Cast1D. It includes the load of a tensor that is only
  converted, and the store if the conversion is the last step. The cycles before such loops count
  once.
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
# cycles around the vertex and around a worker's loop, as in UnaryOp1D
_SUPERVISOR = 20
_WORKER = 17


def run(code: str, inputs: Sequence[Array]) -> Array:
    """Return the value of an expression's steps (`Expr.code`, joined by spaces) for arrays."""

    def cast(operand: Array, dtype: type[DType], place: int) -> Array:
        return operand.astype(np.dtype(dtype.numpy))

    def apply(operation: str, operands: list[Array], place: int) -> Array:
        return evaluate(operation, *operands)

    return composed.walk(code, inputs, number=lambda value, dtype: value, cast=cast, apply=apply)


def loop_cycles(
    code: str, inputs: Sequence[type[DType]], out: type[DType], n: int, target: Target
) -> int:
    """Return the worker cycles of the loop over `n` elements; see the module's docstring."""
    steps = code.split()
    starts = [0]
    loops = [0]

    def convert(operand: type[DType] | None, dtype: type[DType], place: int) -> type[DType] | None:
        if operand is None:  # the compiler converts a constant
            return None
        start, loop = vertices.cast_loop(n, operand, dtype, target)
        starts.append(int(start))
        loops.append(int(loop))
        return dtype

    def apply(operation: str, operands: list[type[DType] | None], place: int) -> type[DType]:
        dtype = dtype_named(steps[place].partition("@")[2])
        assert dtype is not None, steps[place]
        loops.append(_operation_cycles(operation, dtype, n, target))
        return OPERATIONS[operation].result(dtype)

    operands: list[type[DType] | None] = list(inputs)
    composed.walk(code, operands, number=lambda value, dtype: None, cast=convert, apply=apply)
    # a conversion's loop itself loads its operand and stores its result
    loaded_steps = {
        step for step, following in pairwise([*steps, ""]) if not following.startswith("CAST")
    }
    loaded = [dtype for number, dtype in enumerate(inputs, 1) if f"_{number}" in loaded_steps]
    stored = [] if steps[-1].startswith("CAST") else [out]
    loads, stores = (
        sum(-(-n // target.get_vector_width(dtype)) for dtype in dtypes)
        for dtypes in (loaded, stored)
    )
    return max(starts) + sum(loops) - (-loads // 2) + stores


def _operation_cycles(operation: str, dtype: type[DType], n: int, target: Target) -> int:
    """Return the worker cycles of an operation on `n` elements, without loads and stores."""
    if operation == "SELECT":
        return 5 * n  # the cost of PopLibs' Select
    if operation == "CLAMP":
        return int(vertices.clamp_loop(n, dtype, target))
    table = rates.UNARY if OPERATIONS[operation].arity == 1 else rates.BINARY
    like, kind = rated(table, OPERATIONS[operation], dtype)
    rate = find(table, like, kind, "MapExpression")
    return rate.cycles * -(-n // rate.width(kind, target))


class _Map(SupervisorVertex):
    """An expression of the inputs, element by element; `code` contains its steps."""

    code: ClassVar[str]

    def cycles(self, target: Target) -> int:
        inputs = [f.dtype for name, f in self.fields.items() if name != "out"]
        out = self.fields["out" if "out" in self.fields else "x1"].dtype
        elements = len(getattr(self, "out" if "out" in self.fields else "x1"))
        workers = target.num_worker_contexts
        return _SUPERVISOR + workers * (
            _WORKER + loop_cycles(self.code, inputs, out, -(-elements // workers), target=target)
        )


class _MapNew(_Map):
    """`out` becomes the expression of all other fields."""

    def compute(self) -> None:
        inputs = [getattr(self, name) for name in self.fields if name != "out"]
        self.out = run(self.code, inputs)


class _MapInPlace(_Map):
    """`x1` becomes the expression of all fields."""

    def compute(self) -> None:
        setattr(self, "x1", run(self.code, [getattr(self, name) for name in self.fields]))  # noqa: B010


_open: Any = TypeVar
_DTYPES = [_open(f"T{n}") for n in range(1, MOST_TENSORS + 1)]
_RESULT = _open("Result")


def _base(count: int, in_place: bool) -> type[Vertex]:
    """Return the codelet for an expression of `count` tensors; their dtypes are type variables."""
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
    code: str, says: str, inputs: tuple[type[DType], ...], out: type[DType] | None
) -> type[Vertex]:
    """Return the codelet of an expression for tensors of the dtypes `inputs`.

    `says` is the text of the expression. If `out` is None, the codelet works in place.
    """
    dtypes = dict(zip(_DTYPES, inputs, strict=False))
    if out is not None:
        dtypes[_RESULT] = out
    name = "MapExpressionInPlace" if out is None else "MapExpression"
    return typed(_BASES[len(inputs), out is None], [says, *inputs], dtypes, name, code=code)


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

    There is one compute set, with one vertex per tile. `expression` is built with `popops.expr`;
    `tensors` are up to 8, broadcast to one shape. The expression determines the dtype of the
    result. The result is mapped like a tensor of its shape: as in PopLibs, the one with the fewest
    elements on its fullest tile, or linearly if all of them repeat elements.

    `options` may contain "enableGenerateCodelet" (default True). If it is False, each operation is
    a separate library call with its own compute set and intermediate tensor: the results are the
    same bits, and the profile shows what fusing saves. Raises `PoplibsError` and
    `InvalidOptionError`.
    """
    dtype, shape, code = _checked(graph, expression, tensors)
    if not settled(OPTIONS, options)["enableGenerateCodelet"]:
        return composed.new(graph, code, tensors, shape, dtype=dtype, prog=prog, name=debug_context)
    out = result_like(graph, tensors, shape, dtype, name=debug_context)
    _write(graph, expression, code, tensors, out=out, prog=prog, name=debug_context, fused=True)
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
    """Replace the first tensor by the value of `expression` for all tensors; see `map`."""
    dtype, shape, code = _checked(graph, expression, tensors)
    fused = settled(OPTIONS, options)["enableGenerateCodelet"]
    first = tensors[0]
    if dtype is not first.dtype or shape != first.shape:
        raise refused(f"""gives {dtype.__name__} of shape {shape}, and its first tensor is
            {first.dtype.__name__} of shape {first.shape}.
            where: {expression} of {first!r}
            next:  use map(), which makes a new tensor; or expr.Cast.""")
    _write(
        graph,
        expression,
        code,
        tensors,
        out=first,
        prog=prog,
        name=debug_context,
        fused=fused,
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
    """Write the value of `expression` for the tensors to `out`; see `map`.

    `out` must have the shape and dtype of the result.
    """
    dtype, shape, code = _checked(graph, expression, tensors)
    fused = settled(OPTIONS, options)["enableGenerateCodelet"]
    check_output(out, shape, dtype)
    _write(graph, expression, code, tensors, out=out, prog=prog, name=debug_context, fused=fused)


def _checked(
    graph: Graph, expression: Expr, tensors: Sequence[Tensor]
) -> tuple[type[DType], Shape, str]:
    """Return (dtype of the result, its shape, the steps) after a check of the arguments."""
    checked = as_expr(expression, f"{calling()}()")
    if not isinstance(tensors, (list, tuple)) or not 1 <= len(tensors) <= MOST_TENSORS:
        raise refused(f"""was given the tensors {shown(tensors)}.
            next:  give a list of 1 to {MOST_TENSORS} tensors; the expression's _1 is the first.""")
    for number, tensor in enumerate(tensors, 1):
        check_tensor(graph, f"_{number}", tensor)
        if issubclass(tensor.dtype, QUARTER):
            raise refused(f"""does not compute with {tensor.dtype}, the dtype of _{number}.
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
    fused: bool,
    in_place: bool = False,
) -> None:
    if not fused:
        composed.write(graph, code, tensors, out, prog=prog, name=name)
        return
    dtypes = tuple(t.dtype for t in tensors)
    vertex = _codelet(code, str(expression), dtypes, None if in_place else out.dtype)
    operands = {f"x{n + 1}": seen_in(t, out.shape) for n, t in enumerate(tensors)}
    per_tile(
        graph, vertex, out, operands | ({} if in_place else {"out": out}), prog=prog, name=name
    )
