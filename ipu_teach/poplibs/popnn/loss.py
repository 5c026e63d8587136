"""Losses with their gradients, and counting correct answers."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.errors import shown
from ipu_teach.graph import Graph, InOut, Input, Output, Tensor, Vector, Vertex
from ipu_teach.poplibs.laying import Edges, Word, scalar, step, typed
from ipu_teach.poplibs.library import (
    OWN,
    Matrix,
    Row,
    as_given,
    check_alike,
    check_dtype,
    check_mapped,
    check_same,
    check_tensor,
    library,
    refused,
)
from ipu_teach.poplibs.popnn.rows import (
    best_parts,
    by_rows,
    by_workers,
    check_labels,
    check_matrix,
    parts_of_rows,
    reduction_cycles,
)
from ipu_teach.poplibs.popops.fills import MASKED_LABEL_CODE
from ipu_teach.poplibs.popops.operands import Operand, check_factor, check_finite
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, INT, UNSIGNED_INT, Array

__all__ = ["MASKED_LABEL_CODE", "LossType", "calc_accuracy", "calc_loss"]

# The numbers that are added to a probability, by its size in bytes, so that its logarithm is finite
# at 0 (EPS_LOG_N_HALF and EPS_LOG_N_FLOAT of popops/EncodingConstants.hpp)
ADDED = {2: np.float32(2.0**-24), 4: np.finfo(np.float32).tiny}


class LossType(Enum):
    """The kind of loss.

    CROSS_ENTROPY_LOSS is -log of the probability of the expected class, and SUM_SQUARED_LOSS half
    the sum of squared errors.
    """

    CROSS_ENTROPY_LOSS = "CROSS_ENTROPY_LOSS"
    SUM_SQUARED_LOSS = "SUM_SQUARED_LOSS"


def cross_entropy(
    outputs: Array,
    expected: Array,
    scale: Array,
    outputs_scale: Array | np.float32,
    first: int | Array = 0,
) -> tuple[Array, Array]:
    """Return (loss, deltas) in FLOAT for outputs [rows, classes] and expected classes [rows].

    `outputs` are probabilities times `outputs_scale`, of the classes from `first` on. The loss is
    -log of the probability of the expected class, and the deltas are `scale` times (probabilities,
    less 1 at the expected class). Both are 0 for rows of class `MASKED_LABEL_CODE`.
    """
    added = ADDED[outputs.dtype.itemsize]
    outputs = outputs.astype(np.float32)
    classes = np.arange(outputs.shape[1], dtype=np.uint32) + first
    column = expected.reshape(-1, 1)
    hit = column == classes
    errors = (outputs - hit * outputs_scale) * (scale / outputs_scale)
    picked = np.sum(np.where(hit, outputs, 0), axis=1)
    losses = -(np.log(picked + added) - np.log(outputs_scale))
    loss = np.where(expected != MASKED_LABEL_CODE, losses, 0)
    return loss, np.where(column != MASKED_LABEL_CODE, errors, 0)


class _CrossEntropy(Vertex):
    """The common part of the vertices of `cross_entropy`.

    HALF stands for the dtype of the outputs.
    """

    probabilities: Input[Vector[Vector[HALF]]]
    expected: Input[Vector[UNSIGNED_INT]]
    loss: Output[Vector[FLOAT]]
    deltas: Output[Vector[Vector[HALF]]]

    def cycles(self, target: Target) -> int:
        return int(
            vertices.loss_cross_entropy(self.probabilities.size, self.fields["probabilities"].dtype)
        )


class CrossEntropy(_CrossEntropy):
    """Loss and deltas of `cross_entropy`, for factors that are numbers. HALF stands for the
    outputs' type."""

    outputs_scale: ClassVar[float]

    scale: FLOAT

    def compute(self) -> None:
        scale = np.float32(self.outputs_scale)
        self.loss, self.deltas = cross_entropy(self.probabilities, self.expected, self.scale, scale)


class CrossEntropyScaled(_CrossEntropy):
    """Loss and deltas of `cross_entropy`, for factors that are tensors. HALF stands for the
    outputs' type."""

    scale: Input[FLOAT]
    outputs_scale: Input[FLOAT]

    def compute(self) -> None:
        self.loss, self.deltas = cross_entropy(
            self.probabilities, self.expected, self.scale, self.outputs_scale
        )


class CrossEntropyPart(CrossEntropy):
    """As `CrossEntropy`, for the classes from `first` on; the loss is that of `_of_part`."""

    first: UNSIGNED_INT
    classes: UNSIGNED_INT

    def compute(self) -> None:
        scale = np.float32(self.outputs_scale)
        losses, self.deltas = cross_entropy(
            self.probabilities, self.expected, self.scale, scale, self.first
        )
        size = self.probabilities.shape[1]
        self.loss = _of_part(losses, self.expected, size, self.first, self.classes)


class CrossEntropyScaledPart(CrossEntropyScaled):
    """As `CrossEntropyScaled`, for the classes from `first` on; the loss is that of `_of_part`."""

    first: UNSIGNED_INT
    classes: UNSIGNED_INT

    def compute(self) -> None:
        losses, self.deltas = cross_entropy(
            self.probabilities, self.expected, self.scale, self.outputs_scale, self.first
        )
        size = self.probabilities.shape[1]
        self.loss = _of_part(losses, self.expected, size, self.first, self.classes)


def _of_part(losses: Array, expected: Array, size: int, first: Array, classes: Array) -> Array:
    """Return the losses that a part of a row reports: 0 unless it contains the expected class.

    The part has `size` of all `classes`, from `first` on. The part from 0 on reports the loss of a
    class that does not exist.
    """
    reported = np.where(expected < classes, expected, 0)
    return np.where((reported >= first) & (reported - first < size), losses, 0)


class SumLosses(Vertex):
    """loss = the sum of the losses that the parts of a row report."""

    losses: Input[Vector[FLOAT]]
    loss: Output[FLOAT]

    def compute(self) -> None:
        self.loss = np.sum(self.losses)

    def cycles(self, target: Target) -> int:
        return reduction_cycles(len(self.losses), FLOAT, target)


class SumSquared(Vertex):
    """loss = half the sum of (outputs - expected)^2 of a row; deltas = scale (outputs - expected).

    HALF stands for the dtype of the outputs.
    """

    outputs: Input[Vector[Vector[HALF]]]
    expected: Input[Vector[Vector[HALF]]]
    loss: Output[Vector[FLOAT]]
    deltas: Output[Vector[Vector[HALF]]]
    scale: FLOAT

    def compute(self) -> None:
        errors = self.outputs.astype(np.float32) - self.expected.astype(np.float32)
        self.deltas = errors * self.scale
        self.loss = 0.5 * np.sum(errors * errors, axis=1)

    def cycles(self, target: Target) -> int:
        return int(vertices.loss_sum_squared(self.outputs.size, self.fields["outputs"].dtype))


class CountCorrect(Vertex):
    """count = the number of rows whose maximum is at the expected class."""

    x: Input[Vector[Vector[FLOAT]]]
    expected: Input[Vector[UNSIGNED_INT]]
    count: Output[INT]

    def compute(self) -> None:
        self.count = np.sum(np.argmax(self.x, axis=1) == self.expected)

    def cycles(self, target: Target) -> int:
        return int(
            len(self.x) * vertices.max_class(self.x.shape[1]) + vertices.calc_accuracy(len(self.x))
        )


class AddCounts(Vertex):
    """total += the sum of the counts."""

    counts: Input[Vector[INT]]
    total: InOut[INT]

    def compute(self) -> None:
        self.total += np.sum(self.counts)


AddCounts.__name__ = "popnn::AddCounts<float>"
SumLosses.__name__ = "popnn::SumLosses<float>"


@library
def calc_loss(
    graph: Graph,
    model_outputs: Matrix,
    expected: Tensor,
    loss: Row,
    deltas: Matrix,
    prog: Program,
    debug_context: str = OWN,
    *,
    loss_type: LossType | str = LossType.CROSS_ENTROPY_LOSS,
    deltas_scale: float | Tensor = 1.0,
    model_output_scaling: float | Tensor = 1.0,
    num_correct: Tensor | None = None,
) -> None:
    """Write the loss of each row of `model_outputs` [batch, classes] to `loss`, and its gradient.

    `model_outputs` are FLOAT or HALF. `loss` [batch] is FLOAT. `deltas` [batch, classes] receives
    the gradient and has the dtype of `model_outputs`. The gradient is for the sum over the batch,
    as in PopLibs: divide by the batch size in the update.

    * CROSS_ENTROPY_LOSS takes the output of softmax and class numbers `expected` [batch]
      (UNSIGNED_INT). The gradient is that before the softmax. As in PopLibs, the logarithm is that
      of the output plus 1.2e-38, or plus 6e-8 for HALF, so the maximum loss is 87.3, or 16.6. Rows
      of class `MASKED_LABEL_CODE` have loss and gradient 0. Any other class that does not exist
      gives the loss of an output of 0.
    * SUM_SQUARED_LOSS takes `expected` of the shape and dtype of `model_outputs`.

    `deltas_scale` multiplies the gradient and not the loss. Such loss scaling keeps small gradients
    of HALF from becoming 0. `model_output_scaling` is the factor by which the outputs exceed
    probabilities, as those of SOFTMAX_SCALED do; it does not change loss and gradient. Both are
    numbers, or for CROSS_ENTROPY_LOSS tensors of one FLOAT. `num_correct` is one INT, to which the
    number of correct answers is added as by `calc_accuracy`.

    Rows, or parts of long rows, are divided over the workers of all tiles. The cycles are those of
    PopLibs' loss transforms (popnnCycleEstimators.cpp), and of a reduction of the losses that the
    parts of a row report. Raises `PoplibsError`.
    """
    chosen = _loss_type(loss_type)
    squared = chosen is LossType.SUM_SQUARED_LOSS
    _check_operands(graph, model_outputs, expected, squared, loss=loss, deltas=deltas)
    factors = _factors(graph, squared, deltas_scale, model_output_scaling)
    tensors = any(isinstance(k, Tensor) for k in factors.values())
    operands = {
        "outputs" if squared else "probabilities": model_outputs,
        "expected": expected,
        "loss": loss,
        "deltas": deltas,
    }
    if num_correct is not None:
        _check_accuracy(graph, model_outputs, expected, num_correct)
    parts = _parts(graph, model_outputs, squared)
    base: type[Vertex] = SumSquared
    constants: dict[str, float] = {}
    words: list[Word] = [model_outputs.dtype]
    if tensors:
        base = CrossEntropyScaledPart if parts > 1 else CrossEntropyScaled
        for field, k in factors.items():  # a number next to a tensor becomes a tensor
            factors[field] = scalar(graph, FLOAT, k, f"{debug_context}/{field}")
    elif not squared:
        base = CrossEntropyPart if parts > 1 else CrossEntropy
        outputs_scale = factors.pop("outputs_scale")
        assert not isinstance(outputs_scale, Tensor)
        constants["outputs_scale"] = float(outputs_scale)
        if outputs_scale != 1:
            words.append(f"{float(outputs_scale):g}")
    vertex = typed(base, words, {HALF: model_outputs.dtype}, **constants)
    if parts > 1:
        state = {} if squared else {"classes": model_outputs.shape[1]}
        _by_parts(graph, vertex, operands, parts, prog, debug_context, factors | state)
    else:
        by_rows(graph, vertex, operands, prog, name=debug_context, results=(), **factors)
    if num_correct is not None:
        _count(graph, model_outputs, expected, num_correct, prog, debug_context)


def _check_operands(
    graph: Graph,
    model_outputs: Tensor,
    expected: Tensor,
    squared: bool,
    loss: Tensor,
    deltas: Tensor,
) -> None:
    """Raise `PoplibsError` unless the tensors of `calc_loss` fit; `squared`: SUM_SQUARED_LOSS."""
    check_matrix(graph, "model_outputs", model_outputs)
    if squared:
        check_matrix(graph, "expected", expected)
        check_alike("give a value for each output.", expected=expected, model_outputs=model_outputs)
    else:
        check_labels(graph, model_outputs, expected)
    check_dtype("loss", loss, FLOAT)
    check_dtype("deltas", deltas, FLOAT, HALF)
    where = f"loss {loss!r} and expected {expected!r}"
    advice = "give loss one element for each row."
    check_same("shapes", loss.shape, expected.shape[:1], where, advice=advice)
    shape, dtype = (f"give deltas the {aspect} of model_outputs." for aspect in ("shape", "dtype"))
    check_alike(shape, dtype, deltas=deltas, model_outputs=model_outputs)


def _factors(
    graph: Graph,
    squared: bool,
    deltas_scale: float | Tensor,
    model_output_scaling: float | Tensor,
) -> dict[str, Operand]:
    """Return the factors after a check, by field: "scale", and without `squared` "outputs_scale".

    Raises `PoplibsError`.
    """
    scale = check_factor(graph, "deltas_scale", deltas_scale, FLOAT)
    outputs_scale = check_factor(graph, "model_output_scaling", model_output_scaling, FLOAT)
    check_finite("deltas_scale", scale)
    check_finite("model_output_scaling", outputs_scale)
    if not squared:
        if not isinstance(outputs_scale, Tensor) and not outputs_scale > 0:
            raise as_given(
                model_output_scaling,
                "model_output_scaling",
                "give a number above 0, such as popnn.SOFTMAX_SCALING.",
            )
        return {"scale": scale, "outputs_scale": outputs_scale}
    if isinstance(scale, Tensor) or isinstance(outputs_scale, Tensor) or outputs_scale != 1:
        raise refused("""with SUM_SQUARED_LOSS was given a tensor as its scale, or
            model_output_scaling.
            next:  give deltas_scale as a number; the others are for CROSS_ENTROPY_LOSS.""")
    return {"scale": scale}


def _parts(graph: Graph, outputs: Tensor, squared: bool) -> int:
    """Return the number of parts of each row with the fewest modelled cycles."""
    transform = vertices.loss_sum_squared if squared else vertices.loss_cross_entropy

    def whole(rows: int) -> int:
        return int(transform(rows * outputs.shape[1], outputs.dtype))

    def split(size: int, parts: int) -> int:
        return int(transform(size, outputs.dtype)) + reduction_cycles(parts, FLOAT, graph.target)

    return best_parts(outputs.shape, graph.target, whole, split)


def _by_parts(
    graph: Graph,
    vertex: type[Vertex],
    operands: dict[str, Tensor],
    parts: int,
    prog: Program,
    name: str,
    state: dict[str, Any],
) -> None:
    """Append a vertex for each part of each row, and a second compute set that adds their losses.

    `state` contains the fields that are the same for all vertices.
    """
    loss = operands["loss"]
    losses = graph.add_variable(FLOAT, (loss.shape[0], parts), f"{name}/losses")
    work: list[tuple[int, Edges]] = []
    sums: list[tuple[int, Edges]] = []
    for piece in parts_of_rows(graph, operands["deltas"].shape, parts):
        row = slice(piece.row, piece.row + 1)
        columns = slice(piece.begin, piece.end)
        edges: Edges = {
            field: tensor[row, columns] if tensor.rank == 2 else tensor[row]
            for field, tensor in operands.items()
        }
        edges["loss"] = losses[piece.row, piece.part : piece.part + 1]
        first = {"first": piece.begin} if "first" in vertex.fields else {}
        work.append((piece.tile, edges | state | first))
        if piece.part == 0:
            sums.append((piece.tile, {"losses": losses[piece.row], "loss": loss[piece.row]}))
    step(graph, prog, name, vertex, work, ["loss"])
    step(graph, prog, f"{name}/sums", SumLosses, sums)


def _loss_type(loss_type: object) -> LossType:
    known = LossType.__members__
    if isinstance(loss_type, LossType):
        return loss_type
    if isinstance(loss_type, str) and loss_type.upper() in known:
        return known[loss_type.upper()]
    raise refused(
        f"was given loss_type={shown(loss_type)}.", next_step=f"use {' or '.join(known)}."
    )


@library
def calc_accuracy(
    graph: Graph,
    outputs: Tensor,
    expected: Tensor,
    num_correct: Tensor,
    prog: Program,
    debug_context: str = OWN,
) -> None:
    """Add the number of correct rows of `outputs` [batch, classes] to `num_correct`, one INT.

    A row is correct if its maximum is at the expected class; of equal elements, the first counts.
    `outputs` are FLOAT or HALF, and `expected` [batch] UNSIGNED_INT. The cycles are those of
    PopLibs' ReduceMaxClassGather and CalcAccuracy (popnnCycleEstimators.cpp). Raises
    `PoplibsError`.
    """
    check_matrix(graph, "outputs", outputs)
    _check_accuracy(graph, outputs, expected, num_correct)
    _count(graph, outputs, expected, num_correct, prog, debug_context)


def _check_accuracy(graph: Graph, outputs: Tensor, expected: Tensor, num_correct: Tensor) -> None:
    check_labels(graph, outputs, expected)
    check_tensor(graph, "num_correct", num_correct)
    if num_correct.num_elements != 1 or num_correct.dtype is not INT:
        raise refused(
            "needs a single INT as num_correct.",
            num_correct,
            "make it with graph.add_variable(INT, ()).",
        )
    check_mapped(graph, "num_correct", num_correct)


def _count(
    graph: Graph,
    outputs: Tensor,
    expected: Tensor,
    num_correct: Tensor,
    prog: Program,
    debug_context: str,
) -> None:
    if not outputs.shape[0]:
        return
    home = next(t for t, pieces in enumerate(graph.get_tile_mapping(num_correct)) if pieces)
    shares = by_workers(graph, {"x": outputs, "expected": expected})
    counts = graph.add_variable(INT, (len(shares),), f"{debug_context}/counts")
    work = [(tile, edges | {"count": counts[i]}) for i, (tile, edges) in enumerate(shares)]
    counter = typed(CountCorrect, [outputs.dtype], {FLOAT: outputs.dtype})
    step(graph, prog, f"{debug_context}/count", counter, work, ["count"])
    last = [(home, {"counts": counts, "total": num_correct})]
    step(graph, prog, f"{debug_context}/total", AddCounts, last)
