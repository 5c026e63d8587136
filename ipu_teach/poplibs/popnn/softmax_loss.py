"""Softmax and cross-entropy in one step, for the front ends. PopLibs has no such function.

PopLibs' `calc_loss`, like `popnn.calc_loss`, takes probabilities. If the probability of the
expected class is rounded to 0, its logarithm is wrong; if it is near 1, the loss has few correct
digits. Here the loss is computed from the scores, in FLOAT. A vertex costs as much as PopLibs'
steps for softmax plus, for each row, these operations on one element: a logarithm, two differences
and two selections.

A worker processes complete rows if they are short, in one compute set. If there are only a few,
long rows, rows are divided into parts, in two compute sets. The first compute set computes the
exponentials of each part, relative to the part's maximum. The second computes the gradient and the
loss from the maxima and sums of all parts of the row.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, InOut, Input, Output, Tensor, Vector, Vertex
from ipu_teach.poplibs.laying import Edges, put, step, typed
from ipu_teach.poplibs.library import OWN, library
from ipu_teach.poplibs.popnn.rows import (
    RowPart,
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

# A list of pairs (tile, edges), one for each vertex.
Work = list[tuple[int, Edges]]
STATISTICS = "maximum", "total", "picked"  # The names of the numbers that `SoftmaxPart` computes.


class SoftmaxCrossEntropy(Vertex):
    """Set `loss` to log(sum(exp(scores))) minus the score of the expected class, for each row.

    `deltas` is the gradient of the loss: softmax(scores), minus 1 at the expected class. The loss
    is 0 for rows whose expected class is `MASKED_LABEL_CODE`. The gradient of these rows is 0 too,
    unless a score of the row is NaN or +infinity: then the gradient is NaN. Any other class number
    that is too large gives the loss NaN. In the field annotations, HALF stands for the dtype of the
    scores.
    """

    scores: Input[Vector[Vector[HALF]]]
    expected: Input[Vector[UNSIGNED_INT]]
    loss: Output[Vector[FLOAT]]
    deltas: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        scores = self.scores.astype(np.float32)
        expected_column = self.expected.reshape(-1, 1)
        shifted = scores - np.max(scores, axis=1, keepdims=True)
        exponentials = np.exp(shifted)
        total = np.sum(exponentials, axis=1, keepdims=True)
        is_expected = expected_column == np.arange(scores.shape[1], dtype=np.uint32)
        losses = np.log(total) - np.sum(np.where(is_expected, shifted, 0), axis=1, keepdims=True)
        losses = np.where(expected_column < scores.shape[1], losses, np.float32(np.nan))
        is_masked = expected_column == MASKED_LABEL_CODE
        self.loss = np.where(is_masked, 0, losses).reshape(-1)
        probabilities = exponentials / total
        # The factor 0 keeps NaN: a masked row with NaN has the gradient NaN, as in PyTorch.
        self.deltas = np.where(is_masked, probabilities * 0, probabilities - is_expected)

    def cycles(self, target: Target) -> int:
        num_rows, num_classes = self.scores.shape
        return _row_cycles(num_rows, num_classes, self.fields["scores"].dtype, target)


class SoftmaxPart(Vertex):
    """Set `exponentials` to exp(scores - maximum) for a part of a row, and `total` to their sum.

    `maximum` is the maximum of the part. `picked` is the score of the expected class, or 0 if this
    class is in another part. `first` is the class number of the part's first score. If all scores
    are -infinity, the exponentials are 0. In the field annotations, HALF stands for the dtype of
    the scores.
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
        is_expected = np.arange(scores.shape[0], dtype=np.uint32) + self.first == self.expected
        self.exponentials = exponentials
        self.maximum = maximum
        self.total = np.sum(exponentials)
        self.picked = np.sum(np.where(is_expected, scores, 0))

    def cycles(self, target: Target) -> int:
        return _part_cycles(len(self.scores), self.fields["scores"].dtype, target)


class SoftmaxDeltas(Vertex):
    """Replace the exponentials of a part of a row, in `deltas`, by the gradient of the loss.

    `maximum` is the maximum of the part. `maxima` and `totals` contain the maximum and the sum of
    each part of the row. `first` is the class number of the part's first element. The gradient is 0
    if the expected class is `MASKED_LABEL_CODE`.
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
        probabilities = self.deltas * (np.exp(self.maximum - largest) / total)
        is_expected = (
            np.arange(probabilities.shape[0], dtype=np.uint32) + self.first == self.expected
        )
        self.deltas = np.where(
            self.expected == MASKED_LABEL_CODE, probabilities * 0, probabilities - is_expected
        )

    def cycles(self, target: Target) -> int:
        return _deltas_cycles(len(self.deltas), len(self.maxima), target)


class SoftmaxRowLoss(Vertex):
    """Set `loss` to the cross-entropy of a row, from the maxima and sums of its parts.

    `picked` contains the score of the expected class in the entry of its part, and 0 in all other
    entries. The loss is 0 if the expected class is `MASKED_LABEL_CODE`. For any other number that
    is `classes` or more, the loss is NaN.
    """

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
        num_parts = len(self.maxima)
        return (
            _merge_cycles(num_parts, target)
            + _expected_cycles(1, target)
            + reduction_cycles(num_parts, FLOAT, target)
        )


# --- worker cycles ---


def _shift_and_exponents(elements: int, target: Target) -> int:
    shift = vertices.binary_op_2d("SUBTRACT", [elements], FLOAT, target)
    return int(shift + vertices.unary_op_2d("EXPONENT", [elements], FLOAT, target))


def _expected_cycles(rows: int, target: Target) -> int:
    """Return a worker's cycles for the steps that select the expected class in `rows` rows.

    These steps are a logarithm, two differences and two selections for each row.
    """
    row_regions = [1] * rows
    differences = 2 * vertices.binary_op_2d("SUBTRACT", row_regions, FLOAT, target)
    logarithm = vertices.unary_op_2d("LOGARITHM", [rows], FLOAT, target)
    return int(logarithm + differences + 2 * vertices.select(row_regions))


def _widening(elements: int, dtype: type[DType], target: Target) -> int:
    """Return the worker cycles to convert scores to FLOAT, or 0 if they are FLOAT already."""
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
    """Return the worker cycles to compute a row's maximum and sum from the values of its parts."""
    products = vertices.binary_op_2d("MULTIPLY", [parts], FLOAT, target)
    return int(
        2 * reduction_cycles(parts, FLOAT, target) + _shift_and_exponents(parts, target) + products
    )


def _deltas_cycles(elements: int, parts: int, target: Target) -> int:
    product_cycles = vertices.binary_op_2d("MULTIPLY", [elements], FLOAT, target)
    factor_cycles = _shift_and_exponents(1, target) + vertices.binary_op_2d(
        "DIVIDE", [1], FLOAT, target
    )
    label_cycles = vertices.binary_op_2d("SUBTRACT", [1], FLOAT, target) + 2 * vertices.select([1])
    return _merge_cycles(parts, target) + int(product_cycles + factor_cycles + label_cycles)


def _parts(shape: tuple[int, ...], dtype: type[DType], target: Target) -> int:
    """Return the number of parts per row that takes the fewest modelled cycles.

    `shape` is (rows, classes), and `dtype` is the dtype of the scores.
    """

    def part_cycles(part_length: int, num_parts: int) -> int:
        return _part_cycles(part_length, dtype, target) + _deltas_cycles(
            part_length, num_parts, target
        )

    def row_cycles(num_rows: int) -> int:
        return _row_cycles(num_rows, shape[1], dtype, target)

    return best_parts(shape, target, row_cycles, part_cycles)


@library
def softmax_cross_entropy(
    graph: Graph, scores: Tensor, expected: Tensor, prog: Program, debug_context: str = OWN
) -> list[Tensor]:
    """Return the list [loss, gradient] of two tensors, FLOAT[batch] and FLOAT[batch, classes].

    `scores` is a FLOAT or HALF tensor [batch, classes]. `expected` is UNSIGNED_INT[batch] and
    contains the class number of each row. In a row whose class number is `MASKED_LABEL_CODE`, loss
    and gradient are 0. Any other number that is not a class gives the loss NaN. The gradient is
    that of the sum of the losses over the batch.

    :raises PoplibsError: if a shape or dtype does not fit, or if there are no classes.
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
    num_parts: int,
    prog: Program,
    name: str,
) -> None:
    statistics = {
        field: graph.add_variable(FLOAT, (scores.shape[0], num_parts), f"{name}/{field}")
        for field in STATISTICS
    }
    part_work, delta_work, loss_work = _work_of_parts(
        parts_of_rows(graph, scores.shape, num_parts), scores, expected, loss, deltas, statistics
    )
    part_codelet = typed(SoftmaxPart, [scores.dtype], {HALF: scores.dtype})
    step(graph, prog, f"{name}/parts", part_codelet, part_work, ["exponentials", *STATISTICS])
    compute_set = graph.add_compute_set(f"{name}/deltas")
    for tile, edges in delta_work:
        put(graph, compute_set, tile, SoftmaxDeltas, edges)
    for tile, edges in loss_work:
        put(graph, compute_set, tile, SoftmaxRowLoss, edges, edges["loss"])
    prog.add(Execute(compute_set))


def _work_of_parts(
    row_parts: list[RowPart],
    scores: Tensor,
    expected: Tensor,
    loss: Tensor,
    deltas: Tensor,
    statistics: dict[str, Tensor],
) -> tuple[Work, Work, Work]:
    """Return three lists of (tile, edges), for `SoftmaxPart`, `SoftmaxDeltas` and `SoftmaxRowLoss`.

    `row_parts` contains the parts of all rows. `statistics` maps each name in `STATISTICS` to a
    tensor [rows, parts].
    """
    part_work: Work = []
    delta_work: Work = []
    loss_work: Work = []
    for row_part in row_parts:
        row_number = row_part.row
        part_deltas = row_part.of(deltas)
        label: Edges = {"expected": expected[row_number]}
        row_edges: Edges = {
            "maxima": statistics["maximum"][row_number],
            "totals": statistics["total"][row_number],
        }
        part_edges = {
            field: statistic[row_number, row_part.part] for field, statistic in statistics.items()
        }
        common_edges = label | {"first": row_part.begin}
        part_work.append(
            (
                row_part.tile,
                common_edges
                | part_edges
                | {"scores": row_part.of(scores), "exponentials": part_deltas},
            )
        )
        delta_work.append(
            (
                row_part.tile,
                common_edges
                | row_edges
                | {"deltas": part_deltas, "maximum": part_edges["maximum"]},
            )
        )
        if row_part.part == 0:
            loss_edges = {
                "picked": statistics["picked"][row_number],
                "classes": scores.shape[1],
                "loss": loss[row_number],
            }
            loss_work.append((row_part.tile, label | row_edges | loss_edges))
    return part_work, delta_work, loss_work
