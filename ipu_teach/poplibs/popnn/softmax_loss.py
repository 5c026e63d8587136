"""Cross entropy from scores, for the front ends. PopLibs has no such function.

PopLibs' `calc_loss` takes probabilities, as `popnn.calc_loss` does: a probability that has been
rounded to 0 leaves no loss to report, and one near 1 few digits. Here the loss comes from the
scores, in FLOAT. A vertex costs what PopLibs' steps for softmax and for the loss cost, with a
logarithm and a difference for each row.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, Input, Output, Tensor, Vector, Vertex
from ipu_teach.poplibs.laying import typed
from ipu_teach.poplibs.library import OWN, library
from ipu_teach.poplibs.popnn.rows import by_rows, check_labels, check_matrix
from ipu_teach.poplibs.popops.fills import MASKED_LABEL_CODE
from ipu_teach.poplibs.poputil import like
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT

__all__ = ["softmax_cross_entropy"]


class SoftmaxCrossEntropy(Vertex):
    """loss = log(sum of exp(scores)) - the expected class's score; deltas = softmax(scores), less 1
    at the expected class. HALF stands for the scores' type.

    A row of class `MASKED_LABEL_CODE` has neither. The loss of a class that does not exist is NaN.
    """

    scores: Input[Vector[Vector[HALF]]]
    expected: Input[Vector[UNSIGNED_INT]]
    loss: Output[Vector[FLOAT]]
    deltas: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        scores, column = self.scores.astype(np.float32), self.expected.reshape(-1, 1)
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
        steps = vertices.softmax(rows, classes, FLOAT, target)
        steps += vertices.loss_cross_entropy(self.scores.size, FLOAT)
        steps += vertices.unary_op_2d("LOGARITHM", [rows], FLOAT, target)
        steps += vertices.binary_op_2d("SUBTRACT", [rows], FLOAT, target)
        if self.fields["scores"].dtype is HALF:
            workers = target.num_worker_contexts  # of whom each has as many elements as this one
            steps += vertices.cast_1d(self.scores.size * workers, HALF, FLOAT, target) // workers
        return int(steps)


@library
def softmax_cross_entropy(
    graph: Graph, scores: Tensor, expected: Tensor, prog: Program, debug_context: str = OWN
) -> list[Tensor]:
    """The loss [batch] of each row of `scores` [batch, classes], FLOAT or HALF, and its gradient
    [batch, classes]: both FLOAT.

    `expected` [batch]: class numbers, UNSIGNED_INT, or `MASKED_LABEL_CODE` for a row that does not
    count. The gradient is for the sum over the batch. Raises `PoplibsError`.
    """
    check_matrix(graph, "scores", scores)
    check_labels(graph, scores, expected)
    loss = like(graph, expected, f"{debug_context}/loss", FLOAT)
    deltas = like(graph, scores, f"{debug_context}/deltas", FLOAT)
    operands = {"scores": scores, "expected": expected, "loss": loss, "deltas": deltas}
    codelet = typed(SoftmaxCrossEntropy, [scores.dtype], {HALF: scores.dtype})
    by_rows(graph, codelet, operands, prog, debug_context, ["loss", "deltas"])
    return [loss, deltas]
