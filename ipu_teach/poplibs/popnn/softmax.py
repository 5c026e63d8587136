"""Softmax, its logarithm and the gradient of softmax, for each row of a batch.

PopLibs composes softmax of six library calls. Here, one vertex per worker performs all six steps
for its rows, and costs as much as the six calls. Values are computed in FLOAT and rounded once.
Scaled probabilities cost as much as unscaled ones, because PopLibs adds the logarithm of the factor
before the exponential.

If there are only a few, long rows, each row is divided into parts for several workers. As in
PopLibs, every reduction ends a compute set. The first compute set finds the maximum of each part.
The second computes the exponentials relative to the maximum of the row, and their sums. The third
computes the results. The gradient takes two compute sets. The results differ from those of
undivided rows only because the elements of a row are added in another order.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, InOut, Input, Output, Tensor, Vector, Vertex
from ipu_teach.poplibs.laying import typed
from ipu_teach.poplibs.library import OWN, check_alike, library
from ipu_teach.poplibs.popnn.rows import (
    RowPartColumns,
    best_parts,
    by_rows,
    check_matrix,
    reduction_cycles,
)
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, Array, DType

__all__ = [
    "SOFTMAX_SCALING",
    "log_softmax",
    "softmax",
    "softmax_in_place",
    "softmax_input_gradient",
]

# PopLibs' factor for scaled probabilities (popnn/NonLinearityInternal.hpp). It is near 65504, the
# largest HALF.
SOFTMAX_SCALING = 62000.0


class SoftmaxInPlace(Vertex):
    """Replace each row of x by `scale` times the softmax of the row."""

    x: InOut[Vector[Vector[FLOAT]]]
    scale: ClassVar[float]

    def compute(self) -> None:
        x = self.x.astype(np.float32)
        exponentials = np.exp(x - np.max(x, axis=1, keepdims=True))
        self.x = _scaled(exponentials / np.sum(exponentials, axis=1, keepdims=True), self.scale)

    def cycles(self, target: Target) -> int:
        return int(vertices.softmax(len(self.x), self.x.shape[1], self.fields["x"].dtype, target))


class Softmax(SoftmaxInPlace):
    """Set each row of `out` to `scale` times the softmax of the same row of x.

    The maximum of the row is subtracted first, so that no exponential overflows.
    """

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        x = self.x.astype(np.float32)
        exponentials = np.exp(x - np.max(x, axis=1, keepdims=True))
        self.out = _scaled(exponentials / np.sum(exponentials, axis=1, keepdims=True), self.scale)


def _scaled(probabilities: Array, scale: float) -> Array:
    return probabilities if scale == 1 else probabilities * np.float32(scale)


def _codelet(base: type[Vertex], dtype: type[DType], scale: float) -> type[Vertex]:
    return typed(base, [dtype, ("scaled" if scale != 1 else "")], {FLOAT: dtype}, scale=scale)


class SoftmaxGrad(Vertex):
    """Set each row of `out` to y * (gradient - sum(gradient * y)), where y is an output of softmax.

    The sum is over the elements of the row, and `gradient` is the gradient of y.
    """

    y: Input[Vector[Vector[FLOAT]]]
    gradient: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        y = self.y.astype(np.float32)
        gradient = self.gradient.astype(np.float32)
        self.out = y * (gradient - np.sum(gradient * y, axis=1, keepdims=True))

    def cycles(self, target: Target) -> int:
        num_rows, num_classes = self.y.shape
        return _gradient_cycles(num_rows, num_classes, self.fields["y"].dtype, target)


class LogSoftmax(Vertex):
    """Set each row of `out` to z - log(sum(exp(z))), where z is the row of x minus its maximum."""

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        x = self.x.astype(np.float32)
        x = x - np.max(x, axis=1, keepdims=True)
        self.out = x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))

    def cycles(self, target: Target) -> int:
        num_rows, num_classes = self.x.shape
        return _logarithm_cycles(num_rows, num_classes, self.fields["x"].dtype, target)


# --- parts of rows ---


class SoftmaxPartMaximum(Vertex):
    """Set `maximum` to the maximum of x, a part of a row.

    In the field annotations, HALF stands for the dtype of x; `typed` replaces it.
    """

    x: Input[Vector[HALF]]
    maximum: Output[FLOAT]

    def compute(self) -> None:
        self.maximum = np.max(self.x)

    def cycles(self, target: Target) -> int:
        return reduction_cycles(len(self.x), self.fields["x"].dtype, target)


class SoftmaxPartSum(Vertex):
    """Set `total` to the sum of exp(x - maximum of the row) over x, a part of a row.

    `terms` receives these exponentials or, with `logarithm`, their exponents x - maximum. `maxima`
    contains the maximum of each part of the row. In the field annotations, HALF stands for the
    dtype of x.
    """

    x: Input[Vector[HALF]]
    maxima: Input[Vector[FLOAT]]
    terms: Output[Vector[FLOAT]]
    total: Output[FLOAT]
    logarithm: ClassVar[bool]

    def compute(self) -> None:
        shifted = self.x.astype(np.float32) - np.max(self.maxima)
        exponentials = np.exp(shifted)
        self.terms = shifted if self.logarithm else exponentials
        self.total = np.sum(exponentials)

    def cycles(self, target: Target) -> int:
        return _sum_cycles(len(self.x), len(self.maxima), self.fields["x"].dtype, target)


class SoftmaxPartResult(Vertex):
    """Set `out` to the softmax of a part of a row, or to its logarithm.

    `totals` contains the sum of each part of the row, and S is their sum. Without `logarithm`,
    `terms` are the exponentials, and `out` is `scale` * `terms` / S. With `logarithm`, `terms` are
    the exponents, and `out` is `terms` - log(S). In the field annotations, HALF stands for the
    dtype of `out`.
    """

    terms: Input[Vector[FLOAT]]
    totals: Input[Vector[FLOAT]]
    out: Output[Vector[HALF]]
    scale: ClassVar[float]
    logarithm: ClassVar[bool]

    def compute(self) -> None:
        total = np.sum(self.totals)
        if self.logarithm:
            self.out = self.terms - np.log(total)
        else:
            self.out = _scaled(self.terms / total, self.scale)

    def cycles(self, target: Target) -> int:
        sizes = len(self.out), len(self.totals)
        return _result_cycles(*sizes, self.fields["out"].dtype, self.logarithm, target)


class SoftmaxGradPartSum(Vertex):
    """Set `total` to the sum of gradient * y over a part of a row.

    In the field annotations, HALF stands for the dtype of y and `gradient`.
    """

    y: Input[Vector[HALF]]
    gradient: Input[Vector[HALF]]
    total: Output[FLOAT]

    def compute(self) -> None:
        self.total = np.sum(self.gradient.astype(np.float32) * self.y.astype(np.float32))

    def cycles(self, target: Target) -> int:
        return _gradient_sum_cycles(len(self.y), self.fields["y"].dtype, target)


class SoftmaxGradPart(Vertex):
    """Set `out` to y * (gradient - sum of gradient * y over the row), for a part of the row.

    `totals` contains the sum of gradient * y over each part of the row. In the field annotations,
    HALF stands for the dtype of y, `gradient` and `out`.
    """

    y: Input[Vector[HALF]]
    gradient: Input[Vector[HALF]]
    totals: Input[Vector[FLOAT]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        y = self.y.astype(np.float32)
        self.out = y * (self.gradient.astype(np.float32) - np.sum(self.totals))

    def cycles(self, target: Target) -> int:
        sizes = len(self.y), len(self.totals)
        return _gradient_part_cycles(*sizes, self.fields["y"].dtype, target)


# --- worker cycles ---


def _logarithm_cycles(rows: int, classes: int, dtype: type[DType], target: Target) -> int:
    regions = [classes] * rows
    reduction = vertices.reduce_contiguous(rows + 1, classes, dtype, target)
    subtraction = vertices.binary_op_2d("SUBTRACT", regions, dtype, target)
    exponents = vertices.unary_op_2d("EXPONENT", regions, dtype, target)
    logarithms = vertices.unary_op_2d("LOGARITHM", [rows], dtype, target)
    return int(2 * (reduction + subtraction) + exponents + logarithms)


def _gradient_cycles(rows: int, classes: int, dtype: type[DType], target: Target) -> int:
    regions = [classes] * rows
    products = 2 * vertices.binary_op_2d("MULTIPLY", regions, dtype, target)
    total = vertices.reduce_contiguous(rows + 1, classes, dtype, target)
    return int(products + total + vertices.binary_op_2d("SUBTRACT", regions, dtype, target))


def _sum_cycles(elements: int, parts: int, dtype: type[DType], target: Target) -> int:
    """Return the worker cycles of `SoftmaxPartSum`: differences, exponentials, and their sum."""
    shift = vertices.binary_op_2d("SUBTRACT", [elements], dtype, target)
    exponents = vertices.unary_op_2d("EXPONENT", [elements], dtype, target)
    sums = reduction_cycles(elements, dtype, target) + reduction_cycles(parts, FLOAT, target)
    return int(shift + exponents) + sums


def _result_cycles(
    elements: int, parts: int, dtype: type[DType], logarithm: bool, target: Target
) -> int:
    """Return the worker cycles of `SoftmaxPartResult` for a part with `elements` elements.

    The vertex adds the sums of the parts and takes the inverse or, with `logarithm`, the logarithm
    of the result. It then multiplies each element by the inverse, or subtracts the logarithm from
    each element.
    """
    of_row = vertices.unary_op_2d("LOGARITHM" if logarithm else "INVERSE", [1], dtype, target)
    of_element = "SUBTRACT" if logarithm else "MULTIPLY"
    results = vertices.binary_op_2d(of_element, [elements], dtype, target)
    return int(results + of_row) + reduction_cycles(parts, FLOAT, target)


def _gradient_sum_cycles(elements: int, dtype: type[DType], target: Target) -> int:
    products = vertices.binary_op_2d("MULTIPLY", [elements], dtype, target)
    return int(products) + reduction_cycles(elements, dtype, target)


def _gradient_part_cycles(elements: int, parts: int, dtype: type[DType], target: Target) -> int:
    products = vertices.binary_op_2d("MULTIPLY", [elements], dtype, target)
    differences = vertices.binary_op_2d("SUBTRACT", [elements], dtype, target)
    return int(products + differences) + reduction_cycles(parts, FLOAT, target)


# --- the functions ---


@library
def softmax(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return the softmax of each row of x [batch, classes], FLOAT or HALF: the probabilities.

    Rows, or parts of long rows, are divided evenly over the workers of all tiles. Each element of
    the result is mapped to the tile that computes it. The cycles are those of PopLibs' six steps
    (popnn/NonLinearity.cpp).

    :raises PoplibsError: if x is not a FLOAT or HALF matrix, or has no classes.
    """
    check_matrix(graph, "x", x)
    return probabilities(graph, x, 1.0, prog, debug_context)


@library
def log_softmax(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return the logarithm of the softmax of each row of x [batch, classes], FLOAT or HALF.

    The result is accurate even where a probability would round to 0. The cycles are those of
    PopLibs' steps (popnn/LogSoftmax.cpp).

    :raises PoplibsError: if x is not a FLOAT or HALF matrix, or has no classes.
    """
    check_matrix(graph, "x", x)
    out = graph.add_variable(x.dtype, x.shape, f"{debug_context}/out")
    codelet = typed(LogSoftmax, [x.dtype], {FLOAT: x.dtype})
    if not _by_parts(graph, x, out, True, prog, debug_context, True):
        by_rows(graph, codelet, {"x": x, "out": out}, prog, debug_context, ["out"])
    return out


def probabilities(graph: Graph, x: Tensor, scale: float, prog: Program, name: str) -> Tensor:
    """Return `scale` times the softmax of each row of x. The arguments are not checked."""
    out = graph.add_variable(x.dtype, x.shape, f"{name}/out")
    if not _by_parts(graph, x, out, True, prog, name, False, scale):
        by_rows(graph, _codelet(Softmax, x.dtype, scale), {"x": x, "out": out}, prog, name, ["out"])
    return out


def probabilities_in_place(graph: Graph, x: Tensor, scale: float, prog: Program, name: str) -> None:
    """Replace each row of x by `scale` times its softmax. Arguments are not checked."""
    if not _by_parts(graph, x, x, False, prog, name, False, scale):
        by_rows(graph, _codelet(SoftmaxInPlace, x.dtype, scale), {"x": x}, prog, name)


def _num_parts(shape: tuple[int, ...], dtype: type[DType], logarithm: bool, target: Target) -> int:
    """Return the number of parts per row that takes the fewest modelled cycles.

    `shape` is (rows, classes). With `logarithm`, the cycles are those of `log_softmax`.
    """

    def row_cycles(num_rows: int) -> int:
        cycles = _logarithm_cycles if logarithm else vertices.softmax
        return int(cycles(num_rows, shape[1], dtype, target))

    def part_cycles(part_length: int, num_parts: int) -> int:
        cycles = reduction_cycles(part_length, dtype, target)
        cycles += _sum_cycles(part_length, num_parts, dtype, target)
        return cycles + _result_cycles(part_length, num_parts, dtype, logarithm, target)

    return best_parts(shape, target, row_cycles, part_cycles, 2)


def _part_codelets(
    dtype: type[DType], logarithm: bool, scale: float
) -> tuple[type[Vertex], type[Vertex], type[Vertex]]:
    """Return three codelets that compute the maxima, the sums and the results of parts of rows."""
    name_words = [dtype, "log" if logarithm else ""]
    maximum_codelet = typed(SoftmaxPartMaximum, [dtype], {HALF: dtype})
    sum_codelet = typed(SoftmaxPartSum, name_words, {HALF: dtype}, logarithm=logarithm)
    result_codelet = typed(
        SoftmaxPartResult,
        [*name_words, "scaled" if scale != 1 else ""],
        {HALF: dtype},
        logarithm=logarithm,
        scale=scale,
    )
    return maximum_codelet, sum_codelet, result_codelet


def _by_parts(
    graph: Graph,
    x: Tensor,
    out: Tensor,
    is_new: bool,
    prog: Program,
    name: str,
    logarithm: bool,
    scale: float = 1.0,
) -> bool:
    """Write the softmax of x, or its logarithm, to `out`, but only if dividing rows is faster.

    Return whether it is faster to divide rows into parts. If not, the graph is not changed. If
    `is_new`, each part of `out` is mapped to the tile that computes it.
    """
    dtype = x.dtype
    num_parts = _num_parts(x.shape, dtype, logarithm, graph.target)
    if num_parts == 1:
        return False
    num_rows = x.shape[0]
    maxima = graph.add_variable(FLOAT, (num_rows, num_parts), f"{name}/maxima")
    totals = graph.add_variable(FLOAT, (num_rows, num_parts), f"{name}/totals")
    terms = graph.add_variable(
        FLOAT, x.shape, f"{name}/{'exponents' if logarithm else 'exponentials'}"
    )
    columns = RowPartColumns(graph, x.shape, num_parts)
    for cells in (maxima, totals):
        columns.map_cells(cells)
    columns.map_elements(terms)
    if is_new:
        columns.map_elements(out)
    maximum_codelet, sum_codelet, result_codelet = _part_codelets(dtype, logarithm, scale)
    x_column = columns.elements(x)
    terms_column = columns.elements(terms)
    edges = {"x": x_column, "maximum": columns.cells(maxima)}
    columns.step(prog, f"{name}/maxima", maximum_codelet, edges)
    columns.step(
        prog,
        f"{name}/sums",
        sum_codelet,
        {
            "x": x_column,
            "terms": terms_column,
            "maxima": columns.rows(maxima),
            "total": columns.cells(totals),
        },
    )
    columns.step(
        prog,
        name,
        result_codelet,
        {"terms": terms_column, "totals": columns.rows(totals), "out": columns.elements(out)},
    )
    return True


@library
def softmax_in_place(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> None:
    """Replace each row of x [batch, classes], FLOAT or HALF, by its softmax: the probabilities.

    :raises PoplibsError: if x is not a FLOAT or HALF matrix, or has no classes.
    """
    check_matrix(graph, "x", x)
    probabilities_in_place(graph, x, 1.0, prog, debug_context)


@library
def softmax_input_gradient(
    graph: Graph, out: Tensor, out_gradient: Tensor, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return the gradient of the input of softmax.

    `out` is the output of softmax, and `out_gradient` is the gradient of that output. Both and the
    result are [batch, classes], FLOAT or HALF. Do not pass the gradient that `calc_loss` writes,
    which is already the gradient of softmax's input.

    :raises PoplibsError: if the shapes or dtypes differ, or if a tensor is not FLOAT or HALF.
    """
    for name, tensor in (("out", out), ("out_gradient", out_gradient)):
        check_matrix(graph, name, tensor)
    check_alike("give the result of softmax as out.", out=out, out_gradient=out_gradient)
    gradient = graph.add_variable(out.dtype, out.shape, f"{debug_context}/out")
    target = graph.target

    def row_cycles(rows: int) -> int:
        return _gradient_cycles(rows, out.shape[1], out.dtype, target)

    def part_cycles(part_length: int, num_parts: int) -> int:
        cycles = _gradient_sum_cycles(part_length, out.dtype, target)
        return cycles + _gradient_part_cycles(part_length, num_parts, out.dtype, target)

    num_parts = best_parts(out.shape, target, row_cycles, part_cycles)
    if num_parts > 1:
        _gradient_by_parts(graph, out, out_gradient, gradient, num_parts, prog, debug_context)
        return gradient
    operands = {"y": out, "gradient": out_gradient, "out": gradient}
    codelet = typed(SoftmaxGrad, [out.dtype], {FLOAT: out.dtype})
    by_rows(graph, codelet, operands, prog, debug_context, ["out"])
    return gradient


def _gradient_by_parts(
    graph: Graph,
    y: Tensor,
    out_gradient: Tensor,
    gradient: Tensor,
    num_parts: int,
    prog: Program,
    name: str,
) -> None:
    totals = graph.add_variable(FLOAT, (y.shape[0], num_parts), f"{name}/totals")
    columns = RowPartColumns(graph, y.shape, num_parts)
    columns.map_cells(totals)
    columns.map_elements(gradient)
    sum_codelet = typed(SoftmaxGradPartSum, [y.dtype], {HALF: y.dtype})
    result_codelet = typed(SoftmaxGradPart, [y.dtype], {HALF: y.dtype})
    operands = {"y": columns.elements(y), "gradient": columns.elements(out_gradient)}
    columns.step(prog, f"{name}/sums", sum_codelet, operands | {"total": columns.cells(totals)})
    results = {"totals": columns.rows(totals), "out": columns.elements(gradient)}
    columns.step(prog, name, result_codelet, operands | results)
