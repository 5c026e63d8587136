"""Elementwise non-linearities and their gradients.

Each tile has one vertex, which processes the tile's elements. Values are computed in FLOAT and
rounded once. Cycles are PopLibs' estimates of NonLinearity1D and NonLinearityGrad1D
(popnn/popnnCycleEstimators.cpp). PopLibs has no estimate for HARD_SIGMOID; the model counts the
cycles of the elementwise operations of which HARD_SIGMOID consists. PopLibs has no estimate for the
gradient of GELU_ERF either; the model counts the cycles of GELU_ERF plus those of the gradient of
GELU.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import (
    Graph,
    InOut,
    Input,
    Output,
    SupervisorVertex,
    Tensor,
    Vector,
    Vertex,
)
from ipu_teach.poplibs.laying import typed
from ipu_teach.poplibs.library import OWN, check_alike, check_dtype, library, refused
from ipu_teach.poplibs.popnn.kinds import FUNCTIONS, SLOPES, NonLinearityType, kind_of
from ipu_teach.poplibs.popnn.rows import check_matrix
from ipu_teach.poplibs.popnn.softmax import (
    SOFTMAX_SCALING,
    probabilities,
    probabilities_in_place,
    softmax_input_gradient,
)
from ipu_teach.poplibs.popops.elementwise_codelets import per_tile
from ipu_teach.poplibs.popops.operands import result_like
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, DType

__all__ = [
    "gelu",
    "non_linearity",
    "non_linearity_in_place",
    "non_linearity_input_gradient",
    "relu",
    "sigmoid",
    "swish",
    "tanh",
]


class NonLinearity1DInPlace(SupervisorVertex):
    """Replace x by f(x), where f is the non-linearity `kind`."""

    x: InOut[Vector[FLOAT]]
    kind: ClassVar[str]

    def compute(self) -> None:
        self.x = FUNCTIONS[NonLinearityType[self.kind]](self.x.astype(np.float32))

    def cycles(self, target: Target) -> int:
        num_elements = len(self.x)
        dtype = self.fields["x"].dtype
        if self.kind == "HARD_SIGMOID":
            steps = ("MULTIPLY", "ADD", "MAXIMUM", "MINIMUM")
            return int(
                sum(vertices.broadcast_scalar_1d(op, num_elements, dtype, target) for op in steps)
            )
        return int(vertices.non_linearity_1d(self.kind, num_elements, dtype, target))


class NonLinearity1D(NonLinearity1DInPlace):
    """Set `out` to f(x), where f is the non-linearity `kind`."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = FUNCTIONS[NonLinearityType[self.kind]](self.x.astype(np.float32))


class NonLinearityGrad1D(SupervisorVertex):
    """Set `out` to `gradient` times the derivative of the non-linearity `kind`.

    `act` is the output of the non-linearity or, for kinds with `NonLinearityType.slope_from_input`,
    its input.
    """

    act: Input[Vector[FLOAT]]
    gradient: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    kind: ClassVar[str]

    def compute(self) -> None:
        gradient_function = SLOPES[NonLinearityType[self.kind]]
        self.out = gradient_function(self.act.astype(np.float32), self.gradient.astype(np.float32))

    def cycles(self, target: Target) -> int:
        num_elements = len(self.out)
        dtype = self.fields["out"].dtype
        if self.kind == "HARD_SIGMOID":
            multiply_cycles = vertices.broadcast_scalar_1d("MULTIPLY", num_elements, dtype, target)
            return int(
                multiply_cycles
                + target.num_worker_contexts
                * vertices.select([-(-num_elements // target.num_worker_contexts)])
            )
        if self.kind == "GELU_ERF":
            gelu_erf_cycles = vertices.non_linearity_1d("GELU_ERF", num_elements, dtype, target)
            return int(
                gelu_erf_cycles
                + vertices.non_linearity_grad_1d("GELU", num_elements, dtype, target)
            )
        return int(vertices.non_linearity_grad_1d(self.kind, num_elements, dtype, target))


def _scale(kind: NonLinearityType) -> float:
    return SOFTMAX_SCALING if kind is NonLinearityType.SOFTMAX_SCALED else 1.0


def _codelet(base: type[Vertex], kind: NonLinearityType, dtype: type[DType]) -> type[Vertex]:
    return typed(base, [dtype, kind.name], {FLOAT: dtype}, kind=kind.name)


@library
def non_linearity(
    graph: Graph, kind: NonLinearityType | str, x: Tensor, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return f(x) for each element of x, where f is the non-linearity `kind`.

    `kind` is a `NonLinearityType` or its name. x has any shape and is FLOAT or HALF; the result has
    the shape, dtype and tile mapping of x. SOFTMAX and its variants need x [batch, classes], and
    their results are mapped as in `softmax`. SOFTMAX_SCALED multiplies the probabilities by
    `SOFTMAX_SCALING`; pass this factor to `calc_loss` as `model_output_scaling`.

    :raises PoplibsError: if `kind` is unknown, or if x has another dtype or number of dimensions.
    """
    valid_kind = kind_of(kind)
    if valid_kind.by_row:
        check_matrix(graph, "x", x)
        return probabilities(graph, x, _scale(valid_kind), prog, name=debug_context)
    return _new(graph, valid_kind, x, prog, debug_context=debug_context)


def _new(
    graph: Graph, valid_kind: NonLinearityType, x: Tensor, prog: Program, debug_context: str
) -> Tensor:
    check_dtype("x", x, FLOAT, HALF)
    out = result_like(graph, [x], x.shape, x.dtype, name=debug_context)
    activate(graph, valid_kind, x, out, prog, debug_context)
    return out


def activate(
    graph: Graph, kind: NonLinearityType, x: Tensor, out: Tensor, prog: Program, name: str
) -> None:
    """Write f(x) to `out`, where f is the elementwise non-linearity `kind`."""
    codelet = _codelet(NonLinearity1D, kind, x.dtype)
    per_tile(graph, codelet, out, {"x": x, "out": out}, prog=prog, name=name)


def activation_gradient(
    graph: Graph,
    kind: NonLinearityType,
    act: Tensor,
    gradient: Tensor,
    out: Tensor,
    prog: Program,
    name: str,
) -> None:
    """Write the gradient of the input of the elementwise non-linearity `kind` to `out`.

    `act` is the output of the non-linearity or, for kinds with `NonLinearityType.slope_from_input`,
    its input. `gradient` is the gradient of the output.
    """
    operands = {"act": act, "gradient": gradient, "out": out}
    codelet = _codelet(NonLinearityGrad1D, kind, act.dtype)
    per_tile(graph, codelet, out, operands, prog=prog, name=name)


@library
def non_linearity_in_place(
    graph: Graph, kind: NonLinearityType | str, x: Tensor, prog: Program, debug_context: str = OWN
) -> None:
    """Replace each element of x by f(x), where f is the non-linearity `kind`.

    `kind` is a `NonLinearityType` or its name. x is FLOAT or HALF; SOFTMAX and its variants need x
    [batch, classes].

    :raises PoplibsError: if `kind` is unknown, or if x has another dtype or number of dimensions.
    """
    valid_kind = kind_of(kind)
    if valid_kind.by_row:
        check_matrix(graph, "x", x)
        probabilities_in_place(graph, x, _scale(valid_kind), prog, name=debug_context)
        return
    check_dtype("x", x, FLOAT, HALF)
    codelet = _codelet(NonLinearity1DInPlace, valid_kind, x.dtype)
    per_tile(graph, codelet, x, {"x": x}, prog=prog, name=debug_context)


@library
def non_linearity_input_gradient(
    graph: Graph,
    kind: NonLinearityType | str,
    act: Tensor,
    out_gradient: Tensor,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return the gradient of the input of a non-linearity, from the gradient of its output.

    `kind` is the non-linearity, and `out_gradient` is the gradient of its output. `act` is the
    output of the non-linearity or, for GELU, GELU_ERF and SWISH, its input. Both tensors have the
    same shape and dtype, FLOAT or HALF. The gradient of RELU at 0 is 0.

    As in PopLibs, the result has the tile mapping of `act`. One reason is that `out_gradient` may
    be a repeating view on few tiles; the other is that norms need gradients on the tiles of the
    activations. For SOFTMAX and SOFTMAX_STABLE, `softmax_input_gradient` computes the result.

    :raises PoplibsError: if `kind` is unknown or SOFTMAX_SCALED, or if the tensors do not fit.
    """
    valid_kind = kind_of(kind)
    if valid_kind is NonLinearityType.SOFTMAX_SCALED:
        raise refused("""cannot compute the gradient of SOFTMAX_SCALED.
            next:  use calc_loss with model_output_scaling=popnn.SOFTMAX_SCALING; it writes the
            gradient of softmax's input.""")
    if valid_kind.by_row:
        return softmax_input_gradient(graph, act, out_gradient, prog, debug_context=debug_context)
    for name, tensor in (("act", act), ("out_gradient", out_gradient)):
        check_dtype(name, tensor, FLOAT, HALF)
    advice = "give the output or the input of the forward call as act."
    check_alike(advice, act=act, out_gradient=out_gradient)
    out = result_like(graph, [act], act.shape, act.dtype, name=debug_context)
    activation_gradient(graph, valid_kind, act, out_gradient, out, prog, debug_context)
    return out


@library
def relu(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return max(x, 0) for each element of x, which is FLOAT or HALF.

    The result has the shape, dtype and tile mapping of x.

    :raises PoplibsError: if x has another dtype.
    """
    return _new(graph, NonLinearityType.RELU, x, prog, debug_context=debug_context)


@library
def sigmoid(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return 1 / (1 + e^-x) for each element of x, which is FLOAT or HALF.

    The result has the shape, dtype and tile mapping of x.

    :raises PoplibsError: if x has another dtype.
    """
    return _new(graph, NonLinearityType.SIGMOID, x, prog, debug_context=debug_context)


@library
def tanh(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return the hyperbolic tangent of each element of x, which is FLOAT or HALF.

    The result has the shape, dtype and tile mapping of x.

    :raises PoplibsError: if x has another dtype.
    """
    return _new(graph, NonLinearityType.TANH, x, prog, debug_context=debug_context)


@library
def gelu(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return x times the probability that a standard normal number is below x, for each element.

    The probability is approximated with tanh. x is FLOAT or HALF, and the result has the shape,
    dtype and tile mapping of x.

    :raises PoplibsError: if x has another dtype.
    """
    return _new(graph, NonLinearityType.GELU, x, prog, debug_context=debug_context)


@library
def swish(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return x / (1 + e^-x) for each element of x, which is FLOAT or HALF.

    The result has the shape, dtype and tile mapping of x.

    :raises PoplibsError: if x has another dtype.
    """
    return _new(graph, NonLinearityType.SWISH, x, prog, debug_context=debug_context)
