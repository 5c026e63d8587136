"""Cross-entropy from scores, for the front ends. PopLibs has no such function.

PopLibs' `calc_loss`, like `popnn.calc_loss`, takes probabilities. If the probability of the
expected class is rounded to 0, its loss is lost, and if it is near 1, few digits are left. Here the
loss is computed from the scores, in FLOAT. A vertex costs as much as PopLibs' steps for softmax,
plus for each row the steps for one element: a logarithm, two differences and two selections.

One worker processes a short row, in one compute set. A row that is long for the machine is divided
into parts, in two compute sets: first the exponentials of each part, relative to its own maximum,
and then the gradient from the maxima and sums of all parts of the row.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, InOut, Input, Output, Tensor, Vector, Vertex
from ipu_teach.poplibs.laying import Edges, put, step, typed
from ipu_teach.poplibs.library import OWN, library
from ipu_teach.poplibs.popnn.rows import (
    best_parts,
    by_rows,
    check_labels,
    check_matrix,
    parts_of_rows,
    reduction_cycles,
)
from ipu_teach.poplibs.popops.fills import MASKED_LABEL_CODE
from ipu_teach.poplibs.poputil import like
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, DType

__all__ = ["softmax_cross_entropy"]


class SoftmaxCrossEntropy(Vertex):
    """loss = log(sum of exp(scores)) - the expected class's score; deltas = its gradient.

    The gradient is softmax(scores), less 1 at the expected class. Both are 0 for rows of class
    `MASKED_LABEL_CODE`. The loss of a class that does not exist is NaN. HALF stands for the dtype
    of the scores.
    """

    scores: Input[Vector[Vector[HALF]]]
    expected: Input[Vector[UNSIGNED_INT]]
    loss: Output[Vector[FLOAT]]
    deltas: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        scores = self.scores.astype(np.float32)
        column = self.expected.reshape(-1, 1)
        shifted = scores - np.max(scores, axis=1, keepdims=True)
        exponentials = np.exp(shifted)
        total = np.sum(exponentials, axis=1, keepdims=True)
        hit = column == np.arange(scores.shape[1], dtype=np.uint32)
        losses = np.log(total) - np.sum(np.where(hit, shifted, 0), axis=1, keepdims=True)
        losses = np.where(column < scores.shape[1], losses, np.float32(np.nan))
        is_masked = column == MASKED_LABEL_CODE
        self.loss = np.where(is_masked, 0, losses).reshape(-1)
        shares = exponentials / total
        self.deltas = np.where(is_masked, shares * 0, shares - hit)  # 0, or NaN as in PyTorch

    def cycles(self, target: Target) -> int:
        rows, classes = self.scores.shape
        return _row_cycles(rows, classes, self.fields["scores"].dtype, target)


class SoftmaxPart(Vertex):
    """exponentials = exp(scores - maximum) in a part of a row; total = their sum; picked = a score.

    `picked` is the score of the expected class, or 0 if it is in another part. `first` is the class
    of the first score. A part of nothing but -infinity has exponentials of 0. HALF stands for the
    dtype of the scores.
    """

    scores: Input[Vector[HALF]]
    expected: Input[UNSIGNED_INT]
    exponentials: Output[Vector[FLOAT]]
    maximum: Output[FLOAT]
    total: Output[FLOAT]
    picked: Output[FLOAT]
    first: UNSIGNED_INT

    def compute(self) -> None:
        scores = self.scores.astype(np.float32)
        maximum = np.max(scores)
        shift = np.where(maximum == -np.inf, np.float32(0), maximum)
        exponentials = np.exp(scores - shift)
        hit = np.arange(scores.shape[0], dtype=np.uint32) + self.first == self.expected
        self.exponentials = exponentials
        self.maximum = maximum
        self.total = np.sum(exponentials)
        self.picked = np.sum(np.where(hit, scores, 0))

    def cycles(self, target: Target) -> int:
        return _part_cycles(len(self.scores), self.fields["scores"].dtype, target)


class SoftmaxDeltas(Vertex):
    """deltas = deltas exp(maximum - row maximum) / row sum, less 1 at the expected class.

    `first` is the class of the first element. The deltas are 0 for rows of class
    `MASKED_LABEL_CODE`.
    """

    deltas: InOut[Vector[FLOAT]]
    expected: Input[UNSIGNED_INT]
    maximum: Input[FLOAT]
    maxima: Input[Vector[FLOAT]]
    totals: Input[Vector[FLOAT]]
    first: UNSIGNED_INT

    def compute(self) -> None:
        largest = np.max(self.maxima)
        total = np.sum(self.totals * np.exp(self.maxima - largest))
        shares = self.deltas * (np.exp(self.maximum - largest) / total)
        hit = np.arange(shares.shape[0], dtype=np.uint32) + self.first == self.expected
        self.deltas = np.where(self.expected == MASKED_LABEL_CODE, shares * 0, shares - hit)

    def cycles(self, target: Target) -> int:
        return _deltas_cycles(len(self.deltas), len(self.maxima), target)


class SoftmaxRowLoss(Vertex):
    """loss = log(row sum) - the expected class's score, as in `SoftmaxCrossEntropy`."""

    expected: Input[UNSIGNED_INT]
    maxima: Input[Vector[FLOAT]]
    totals: Input[Vector[FLOAT]]
    picked: Input[Vector[FLOAT]]
    loss: Output[FLOAT]
    classes: UNSIGNED_INT

    def compute(self) -> None:
        largest = np.max(self.maxima)
        total = np.sum(self.totals * np.exp(self.maxima - largest))
        loss = np.log(total) - (np.sum(self.picked) - largest)
        loss = np.where(self.expected < self.classes, loss, np.float32(np.nan))
        self.loss = np.where(self.expected == MASKED_LABEL_CODE, 0, loss)

    def cycles(self, target: Target) -> int:
        parts = len(self.maxima)
        return (
            _merge_cycles(parts, target)
            + _expected_cycles(1, target)
            + reduction_cycles(parts, FLOAT, target)
        )


# --- worker cycles ---


def _shift_and_exponents(elements: int, target: Target) -> int:
    shift = vertices.binary_op_2d("SUBTRACT", [elements], FLOAT, target)
    return int(shift + vertices.unary_op_2d("EXPONENT", [elements], FLOAT, target))


def _expected_cycles(rows: int, target: Target) -> int:
    """Return the worker cycles of a logarithm, two differences and two selections for each row."""
    ones = [1] * rows
    differences = 2 * vertices.binary_op_2d("SUBTRACT", ones, FLOAT, target)
    logarithm = vertices.unary_op_2d("LOGARITHM", [rows], FLOAT, target)
    return int(logarithm + differences + 2 * vertices.select(ones))


def _widening(elements: int, dtype: type[DType], target: Target) -> int:
    """Return the worker cycles of the conversion of scores to FLOAT."""
    if dtype is not HALF:
        return 0
    return sum(map(int, vertices.cast_loop(elements, dtype, FLOAT, target)))


def _row_cycles(rows: int, classes: int, dtype: type[DType], target: Target) -> int:
    steps = vertices.softmax(rows, classes, FLOAT, target) + _expected_cycles(rows, target)
    return int(steps) + _widening(rows * classes, dtype, target)


def _part_cycles(elements: int, dtype: type[DType], target: Target) -> int:
    shifted = 2 * reduction_cycles(elements, FLOAT, target) + _shift_and_exponents(elements, target)
    return shifted + _widening(elements, dtype, target) + int(vertices.select([1]))


def _merge_cycles(parts: int, target: Target) -> int:
    """Return the worker cycles of the maximum and the sum of a row, from those of its parts."""
    products = vertices.binary_op_2d("MULTIPLY", [parts], FLOAT, target)
    return int(
        2 * reduction_cycles(parts, FLOAT, target) + _shift_and_exponents(parts, target) + products
    )


def _deltas_cycles(elements: int, parts: int, target: Target) -> int:
    shares = vertices.binary_op_2d("MULTIPLY", [elements], FLOAT, target)
    factor = _shift_and_exponents(1, target) + vertices.binary_op_2d("DIVIDE", [1], FLOAT, target)
    last = vertices.binary_op_2d("SUBTRACT", [1], FLOAT, target) + 2 * vertices.select([1])
    return _merge_cycles(parts, target) + int(shares + factor + last)


def _parts(shape: tuple[int, ...], dtype: type[DType], target: Target) -> int:
    """Return the number of parts of each row of scores with the fewest modelled cycles."""

    def split(size: int, parts: int) -> int:
        return _part_cycles(size, dtype, target) + _deltas_cycles(size, parts, target)

    def whole(rows: int) -> int:
        return _row_cycles(rows, shape[1], dtype, target)

    return best_parts(shape, target, whole, split)


@library
def softmax_cross_entropy(
    graph: Graph, scores: Tensor, expected: Tensor, prog: Program, debug_context: str = OWN
) -> list[Tensor]:
    """Return [loss, gradient] of each row of `scores` [batch, classes], FLOAT or HALF.

    The loss is [batch] and the gradient [batch, classes], both FLOAT. `expected` [batch] are class
    numbers (UNSIGNED_INT), or `MASKED_LABEL_CODE` for a row that does not count. The gradient is
    for the sum over the batch. Raises `PoplibsError`.
    """
    check_matrix(graph, "scores", scores)
    check_labels(graph, scores, expected)
    loss = like(graph, expected, f"{debug_context}/loss", FLOAT)
    deltas = like(graph, scores, f"{debug_context}/deltas", FLOAT)
    parts = _parts(scores.shape, scores.dtype, graph.target)
    if parts > 1:
        _by_parts(graph, scores, expected, loss, deltas, parts, prog, debug_context)
        return [loss, deltas]
    operands = {"scores": scores, "expected": expected, "loss": loss, "deltas": deltas}
    codelet = typed(SoftmaxCrossEntropy, [scores.dtype], {HALF: scores.dtype})
    by_rows(graph, codelet, operands, prog, debug_context, ["loss", "deltas"])
    return [loss, deltas]


def _by_parts(
    graph: Graph,
    scores: Tensor,
    expected: Tensor,
    loss: Tensor,
    deltas: Tensor,
    parts: int,
    prog: Program,
    name: str,
) -> None:
    rows, classes = scores.shape
    fields = ("maximum", "total", "picked")
    facts = {field: graph.add_variable(FLOAT, (rows, parts), f"{name}/{field}") for field in fields}
    work: list[tuple[int, Edges]] = []
    merge: list[tuple[int, Edges]] = []
    losses: list[tuple[int, Edges]] = []
    for piece in parts_of_rows(graph, scores.shape, parts):
        row = piece.row
        columns = piece.of(deltas)
        label: Edges = {"expected": expected[row]}
        whole_row: Edges = {"maxima": facts["maximum"][row], "totals": facts["total"][row]}
        part_edges = {field: facts[field][row, piece.part] for field in fields}
        shared = label | {"first": piece.begin}
        work.append(
            (
                piece.tile,
                shared | part_edges | {"scores": piece.of(scores), "exponentials": columns},
            )
        )
        merge.append(
            (piece.tile, shared | whole_row | {"deltas": columns, "maximum": part_edges["maximum"]})
        )
        if piece.part == 0:
            ends = {"picked": facts["picked"][row], "classes": classes, "loss": loss[row]}
            losses.append((piece.tile, label | whole_row | ends))
    first = typed(SoftmaxPart, [scores.dtype], {HALF: scores.dtype})
    step(graph, prog, f"{name}/parts", first, work, ["exponentials", *fields])
    into = graph.add_compute_set(f"{name}/deltas")
    for tile, edges in merge:
        put(graph, into, tile, SoftmaxDeltas, edges)
    for tile, edges in losses:
        put(graph, into, tile, SoftmaxRowLoss, edges, edges["loss"])
    prog.add(Execute(into))
