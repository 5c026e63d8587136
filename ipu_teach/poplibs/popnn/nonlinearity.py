"""Non-linearities element by element, and their gradients.

One vertex a tile, on the elements that lie there. Values are worked out in single precision and rounded once. Cycles are
PopLibs' estimates of NonLinearity1D and NonLinearityGrad1D (popnn/popnnCycleEstimators.cpp). It has none of HARD_SIGMOID,
which is made of elementwise operations here as there, nor of GELU_ERF's gradient: that costs GELU_ERF and GELU's gradient.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.vertices.parts import Size
from ipu_teach.errors import PoplibsError
from ipu_teach.graph import Graph, InOut, Input, Output, SupervisorVertex, Tensor, Vector, Vertex, template
from ipu_teach.poplibs.checks import check_float
from ipu_teach.poplibs.popnn.kinds import FUNCTIONS, SLOPES, NonLinearityType, kind_of
from ipu_teach.poplibs.popnn.softmax import (
    SOFTMAX_SCALING,
    check_rows,
    probabilities,
    probabilities_in_place,
    softmax_input_gradient,
)
from ipu_teach.poplibs.poputil import check_call, check_mapped, check_same, clone, take, tile_pieces
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, DType

__all__ = [
    "gelu", "non_linearity", "non_linearity_in_place", "non_linearity_input_gradient", "relu", "sigmoid", "swish", "tanh",
]  # fmt: skip


class NonLinearity1D(SupervisorVertex):
    """out = f(x)."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    kind: ClassVar[str]

    def compute(self) -> None:
        self.out = FUNCTIONS[NonLinearityType[self.kind]](self.x.astype(np.float32))

    def cycles(self, target: Target) -> int:
        return int(_cycles(self.kind, len(self.out), self.fields["out"].dtype, target))


class NonLinearity1DInPlace(SupervisorVertex):
    """x = f(x)."""

    x: InOut[Vector[FLOAT]]
    kind: ClassVar[str]

    def compute(self) -> None:
        self.x = FUNCTIONS[NonLinearityType[self.kind]](self.x.astype(np.float32))

    def cycles(self, target: Target) -> int:
        return int(_cycles(self.kind, len(self.x), self.fields["x"].dtype, target))


class NonLinearityGrad1D(SupervisorVertex):
    """out = gradient times the slope of f where `act` is its input or its output, as f has it."""

    act: Input[Vector[FLOAT]]
    gradient: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    kind: ClassVar[str]

    def compute(self) -> None:
        slope = SLOPES[NonLinearityType[self.kind]]
        self.out = slope(self.act.astype(np.float32), self.gradient.astype(np.float32))

    def cycles(self, target: Target) -> int:
        n, dtype = len(self.out), self.fields["out"].dtype
        if self.kind == "HARD_SIGMOID":
            scaled = vertices.broadcast_scalar_1d("MULTIPLY", n, dtype, target)
            return int(scaled + target.num_worker_contexts * vertices.select([-(-n // target.num_worker_contexts)]))
        if self.kind == "GELU_ERF":
            again = vertices.non_linearity_1d("GELU_ERF", n, dtype, target)
            return int(again + vertices.non_linearity_grad_1d("GELU", n, dtype, target))
        return int(vertices.non_linearity_grad_1d(self.kind, n, dtype, target))


def _cycles(kind: str, n: int, dtype: type[DType], target: Target) -> Size:
    if kind == "HARD_SIGMOID":
        steps = ("MULTIPLY", "ADD", "MAXIMUM", "MINIMUM")
        return sum(vertices.broadcast_scalar_1d(op, n, dtype, target) for op in steps)
    return vertices.non_linearity_1d(kind, n, dtype, target)


def _scale(kind: NonLinearityType) -> float:
    return SOFTMAX_SCALING if kind is NonLinearityType.SOFTMAX_SCALED else 1.0


@cache
def _codelet(base: type[Vertex], kind: NonLinearityType, dtype: type[DType]) -> type[Vertex]:
    name = f"popnn::{base.__name__}<{dtype.__name__.lower()},{kind.name}>"
    return template(base, name, {FLOAT: dtype}, kind=kind.name)


def non_linearity(
    graph: Graph, kind: NonLinearityType | str, x: Tensor, prog: Program, debug_context: str = "non_linearity"
) -> Tensor:
    """f(x) for x of any shape, FLOAT or HALF; the result has x's shape, dtype and mapping.

    `kind`: a `NonLinearityType` or its name. SOFTMAX and its kin want x [batch, classes]; see `softmax`. SOFTMAX_SCALED gives
    `SOFTMAX_SCALING` times as much, which `calc_loss` is told as its `model_output_scaling`. Raises `PoplibsError`.
    """
    check_call("non_linearity", graph, prog, debug_context)
    chosen = kind_of("non_linearity", kind)
    if chosen.by_row:
        check_rows("non_linearity", graph, x, prog, debug_context)
        return probabilities(graph, x, _scale(chosen), prog, debug_context)
    return _new("non_linearity", graph, chosen, x, prog, debug_context)


def _new(function: str, graph: Graph, chosen: NonLinearityType, x: Tensor, prog: Program, debug_context: str) -> Tensor:
    check_call(function, graph, prog, debug_context)
    check_float(function, graph, "x", x)
    check_mapped(function, graph, "x", x)
    out = clone(graph, x, f"{debug_context}/out")
    _per_tile(graph, _codelet(NonLinearity1D, chosen, x.dtype), out, {"x": x, "out": out}, prog, debug_context)
    return out


def non_linearity_in_place(
    graph: Graph, kind: NonLinearityType | str, x: Tensor, prog: Program, debug_context: str = "non_linearity_in_place"
) -> None:
    """x = f(x), for x of any shape, FLOAT or HALF. Raises `PoplibsError`."""
    check_call("non_linearity_in_place", graph, prog, debug_context)
    chosen = kind_of("non_linearity_in_place", kind)
    if chosen.by_row:
        check_rows("non_linearity_in_place", graph, x, prog, debug_context)
        probabilities_in_place(graph, x, _scale(chosen), prog, debug_context)
        return
    check_float("non_linearity_in_place", graph, "x", x)
    check_mapped("non_linearity_in_place", graph, "x", x)
    _per_tile(graph, _codelet(NonLinearity1DInPlace, chosen, x.dtype), x, {"x": x}, prog, debug_context)


def non_linearity_input_gradient(
    graph: Graph,
    kind: NonLinearityType | str,
    act: Tensor,
    out_gradient: Tensor,
    prog: Program,
    debug_context: str = "non_linearity_input_gradient",
) -> Tensor:
    """The gradient at the input of f, from `out_gradient` at its output: a tensor with the shape and mapping of the latter.

    `act`: what came out of f, but for GELU, GELU_ERF and SWISH what went in. Same shape and dtype, FLOAT or HALF. RELU's slope
    at 0 is 0. Raises `PoplibsError`.
    """
    function = "non_linearity_input_gradient"
    check_call(function, graph, prog, debug_context)
    chosen = kind_of(function, kind)
    if chosen is NonLinearityType.SOFTMAX_SCALED:
        raise PoplibsError(f"""{function}() has no gradient of SOFTMAX_SCALED.
            next:  calc_loss writes the gradient before the softmax; tell it model_output_scaling=popnn.SOFTMAX_SCALING.""")
    if chosen.by_row:
        return softmax_input_gradient(graph, act, out_gradient, prog, debug_context)
    for name, tensor in (("act", act), ("out_gradient", out_gradient)):
        check_float(function, graph, name, tensor)
        check_mapped(function, graph, name, tensor)
    where = f"act {act!r} and out_gradient {out_gradient!r}"
    check_same(function, "shapes", act.shape, out_gradient.shape, where, "give what the forward call returned, or was given.")
    check_same(function, "dtypes", act.dtype, out_gradient.dtype, where, "cast one of them with popops.cast.")
    out = clone(graph, out_gradient, f"{debug_context}/out")
    operands = {"act": act, "gradient": out_gradient, "out": out}
    _per_tile(graph, _codelet(NonLinearityGrad1D, chosen, act.dtype), out, operands, prog, debug_context)
    return out


def relu(graph: Graph, x: Tensor, prog: Program, debug_context: str = "relu") -> Tensor:
    """max(x, 0); see `non_linearity`."""
    return _new("relu", graph, NonLinearityType.RELU, x, prog, debug_context)


def sigmoid(graph: Graph, x: Tensor, prog: Program, debug_context: str = "sigmoid") -> Tensor:
    """1 / (1 + e^-x); see `non_linearity`."""
    return _new("sigmoid", graph, NonLinearityType.SIGMOID, x, prog, debug_context)


def tanh(graph: Graph, x: Tensor, prog: Program, debug_context: str = "tanh") -> Tensor:
    """The hyperbolic tangent of x; see `non_linearity`."""
    return _new("tanh", graph, NonLinearityType.TANH, x, prog, debug_context)


def gelu(graph: Graph, x: Tensor, prog: Program, debug_context: str = "gelu") -> Tensor:
    """x times the normal distribution below x, approximated with tanh; see `non_linearity`."""
    return _new("gelu", graph, NonLinearityType.GELU, x, prog, debug_context)


def swish(graph: Graph, x: Tensor, prog: Program, debug_context: str = "swish") -> Tensor:
    """x / (1 + e^-x); see `non_linearity`."""
    return _new("swish", graph, NonLinearityType.SWISH, x, prog, debug_context)


def _per_tile(
    graph: Graph, codelet: type[Vertex], placed: Tensor, operands: dict[str, Tensor], prog: Program, name: str
) -> None:
    """One vertex on every tile that holds some of `placed`, on the matching elements of every operand."""
    flat = {field: tensor.flatten() for field, tensor in operands.items()}
    compute_set = graph.add_compute_set(name)
    for tile, pieces in tile_pieces(graph, placed):
        edges = {field: take(tensor, pieces) for field, tensor in flat.items()}
        graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, edges), tile)
    prog.add(Execute(compute_set))
