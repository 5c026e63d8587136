"""Softmax, its logarithm, and their gradients, along the rows of a batch.

PopLibs composes softmax of six library calls. Here one vertex a worker does all six for its rows,
and costs as much as its operations. Values are computed in single precision and rounded once.
Scaled probabilities cost as much as others: PopLibs adds the logarithm of the factor before the
exponential.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, InOut, Input, Output, Tensor, Vector, Vertex
from ipu_teach.poplibs.laying import typed
from ipu_teach.poplibs.library import OWN, check_alike, library
from ipu_teach.poplibs.popnn.rows import by_rows, check_matrix
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, DType

__all__ = [
    "SOFTMAX_SCALING",
    "log_softmax",
    "softmax",
    "softmax_in_place",
    "softmax_input_gradient",
]

SOFTMAX_SCALING = 62000.0  # near the largest half, 65504: popnn/NonLinearityInternal.hpp


class SoftmaxInPlace(Vertex):
    """Each row of x becomes probabilities, times `scale`."""

    x: InOut[Vector[Vector[FLOAT]]]
    scale: ClassVar[float]

    def compute(self) -> None:
        x = self.x.astype(np.float32)
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        self.x = _scaled(e / np.sum(e, axis=1, keepdims=True), self.scale)

    def cycles(self, target: Target) -> int:
        return int(vertices.softmax(len(self.x), self.x.shape[1], self.fields["x"].dtype, target))


class Softmax(SoftmaxInPlace):
    """out = `scale` times the probabilities of each row of x. The largest is subtracted first, so
    that nothing overflows."""

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        x = self.x.astype(np.float32)
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        self.out = _scaled(e / np.sum(e, axis=1, keepdims=True), self.scale)


def _scaled(probabilities: Any, scale: float) -> Any:
    return probabilities if scale == 1 else probabilities * np.float32(scale)


def _codelet(base: Any, dtype: type[DType], scale: float) -> type[Vertex]:
    return typed(base, [dtype, ("scaled" if scale != 1 else "")], {FLOAT: dtype}, scale=scale)


class SoftmaxGrad(Vertex):
    """out = y (gradient - the row's sum of gradient times y)."""

    y: Input[Vector[Vector[FLOAT]]]
    gradient: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        y = self.y.astype(np.float32)
        gradient = self.gradient.astype(np.float32)
        self.out = y * (gradient - np.sum(gradient * y, axis=1, keepdims=True))

    def cycles(self, target: Target) -> int:
        rows, classes = self.y.shape
        dtype = self.fields["y"].dtype
        regions = [self.y.shape[1]] * len(self.y)
        products = 2 * vertices.binary_op_2d("MULTIPLY", regions, dtype, target)
        total = vertices.reduce_contiguous(rows + 1, classes, dtype, target)
        return int(products + total + vertices.binary_op_2d("SUBTRACT", regions, dtype, target))


class LogSoftmax(Vertex):
    """out = x - the row's largest - the logarithm of the sum of the exponentials."""

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        x = self.x.astype(np.float32)
        x = x - np.max(x, axis=1, keepdims=True)
        self.out = x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))

    def cycles(self, target: Target) -> int:
        rows, classes = self.x.shape
        dtype = self.fields["x"].dtype
        regions = [self.x.shape[1]] * len(self.x)
        reduction = vertices.reduce_contiguous(rows + 1, classes, dtype, target)
        subtraction = vertices.binary_op_2d("SUBTRACT", regions, dtype, target)
        exponents = vertices.unary_op_2d("EXPONENT", regions, dtype, target)
        return int(
            2 * (reduction + subtraction)
            + exponents
            + vertices.unary_op_2d("LOGARITHM", [rows], dtype, target)
        )


@library
def softmax(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return the probabilities of each row of x [batch, classes], FLOAT or HALF. Each row of the
    result is on the tile that computed it.

    Rows are distributed evenly over the workers of all tiles. Modelled cycles: PopLibs' six steps
    (popnn/NonLinearity.cpp). Raises `PoplibsError`.
    """
    check_matrix(graph, "x", x)
    return probabilities(graph, x, 1.0, prog, debug_context)


@library
def log_softmax(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return the logarithm of `softmax`, without its underflow. Modelled cycles: PopLibs' steps
    (popnn/LogSoftmax.cpp)."""
    check_matrix(graph, "x", x)
    out = graph.add_variable(x.dtype, x.shape, f"{debug_context}/out")
    codelet = typed(LogSoftmax, [x.dtype], {FLOAT: x.dtype})
    by_rows(graph, codelet, {"x": x, "out": out}, prog, debug_context, ["out"])
    return out


def probabilities(graph: Graph, x: Tensor, scale: float, prog: Program, name: str) -> Tensor:
    """`scale` times the probabilities of each row of x, which is checked."""
    out = graph.add_variable(x.dtype, x.shape, f"{name}/out")
    by_rows(graph, _codelet(Softmax, x.dtype, scale), {"x": x, "out": out}, prog, name, ["out"])
    return out


def probabilities_in_place(graph: Graph, x: Tensor, scale: float, prog: Program, name: str) -> None:
    """Each row of x, which is checked, becomes its probabilities times `scale`."""
    by_rows(graph, _codelet(SoftmaxInPlace, x.dtype, scale), {"x": x}, prog, name)


@library
def softmax_in_place(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> None:
    """Replace each row of x [batch, classes], FLOAT or HALF, by its probabilities; see
    `softmax`."""
    check_matrix(graph, "x", x)
    probabilities_in_place(graph, x, 1.0, prog, debug_context)


@library
def softmax_input_gradient(
    graph: Graph, out: Tensor, out_gradient: Tensor, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return the gradient at the input of softmax, from its output `out` and the gradient there:
    [batch, classes], FLOAT or HALF.

    Do not use it with the gradient that `calc_loss` writes, which is already that at the input of
    the softmax. Raises `PoplibsError`.
    """
    for name, tensor in (("out", out), ("out_gradient", out_gradient)):
        check_matrix(graph, name, tensor)
    check_alike("give what softmax returned.", out=out, out_gradient=out_gradient)
    gradient = graph.add_variable(out.dtype, out.shape, f"{debug_context}/out")
    operands = {"y": out, "gradient": out_gradient, "out": gradient}
    codelet = typed(SoftmaxGrad, [out.dtype], {FLOAT: out.dtype})
    by_rows(graph, codelet, operands, prog, debug_context, ["out"])
    return gradient
