"""Losses with their gradients, and a count of correct answers."""

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

# Maps the size in bytes of the probabilities' dtype to the number that is added to each
# probability, so that the logarithm of a probability of 0 is finite. The numbers are EPS_LOG_N_HALF
# and EPS_LOG_N_FLOAT in PopLibs (popops/EncodingConstants.hpp).
ADDED = {2: np.float32(2.0**-24), 4: np.finfo(np.float32).tiny}


class LossType(Enum):
    """The kind of loss.

    * CROSS_ENTROPY_LOSS is minus the logarithm of the probability of the expected class.
    * SUM_SQUARED_LOSS is half the sum of the squared errors.
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
    """Return `(loss, deltas)`: the cross-entropy of some rows, and its gradient, in FLOAT.

    `outputs` [rows, classes] are probabilities times `outputs_scale`, and their first column is
    class number `first`. `expected` [rows] contains the number of each row's expected class. The
    loss [rows] is minus the logarithm of the expected class's probability; a small number from
    `ADDED` is added first, so that the logarithm is finite. The deltas [rows, classes] are `scale`
    times the gradient with respect to the input of softmax: the probability minus 1 for the
    expected class, and the probability for all other classes. Loss and deltas are 0 for rows whose
    expected class is `MASKED_LABEL_CODE`.
    """
    added_number = ADDED[outputs.dtype.itemsize]
    outputs = outputs.astype(np.float32)
    classes = np.arange(outputs.shape[1], dtype=np.uint32) + first
    expected_column = expected.reshape(-1, 1)
    is_expected = expected_column == classes
    errors = (outputs - is_expected * outputs_scale) * (scale / outputs_scale)
    expected_outputs = np.sum(np.where(is_expected, outputs, 0), axis=1)
    losses = -(np.log(expected_outputs + added_number) - np.log(outputs_scale))
    loss = np.where(expected != MASKED_LABEL_CODE, losses, 0)
    return loss, np.where(expected_column != MASKED_LABEL_CODE, errors, 0)


class _CrossEntropy(Vertex):
    """The base class of vertices that compute `cross_entropy` for some rows.

    In the field annotations, HALF is a placeholder for the dtype of the probabilities and the
    deltas; the function `typed` replaces it by the actual dtype.
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
    """Compute `cross_entropy` for some rows, with `scale` and `outputs_scale` as numbers."""

    outputs_scale: ClassVar[float]

    scale: FLOAT

    def compute(self) -> None:
        scale = np.float32(self.outputs_scale)
        self.loss, self.deltas = cross_entropy(self.probabilities, self.expected, self.scale, scale)


class CrossEntropyScaled(_CrossEntropy):
    """Compute `cross_entropy` for some rows, with `scale` and `outputs_scale` as tensors."""

    scale: Input[FLOAT]
    outputs_scale: Input[FLOAT]

    def compute(self) -> None:
        self.loss, self.deltas = cross_entropy(
            self.probabilities, self.expected, self.scale, self.outputs_scale
        )


class CrossEntropyPart(CrossEntropy):
    """Compute `cross_entropy` for a part of a row, with `scale` and `outputs_scale` as numbers.

    `first` is the class of the part's first column, and `classes` the number of classes in the
    whole row. `loss` is 0 unless the expected class is in the part. If the expected class is
    `classes` or more, the part that begins with class 0 writes the loss.
    """

    first: UNSIGNED_INT
    classes: UNSIGNED_INT

    def compute(self) -> None:
        valid_scale = np.float32(self.outputs_scale)
        losses, self.deltas = cross_entropy(
            self.probabilities, self.expected, self.scale, valid_scale, self.first
        )
        part_length = self.probabilities.shape[1]
        self.loss = _of_part(losses, self.expected, part_length, self.first, self.classes)


class CrossEntropyScaledPart(CrossEntropyScaled):
    """Compute `cross_entropy` for a part of a row, with `scale` and `outputs_scale` as tensors.

    `first` is the class of the part's first column, and `classes` the number of classes in the
    whole row. `loss` is 0 unless the expected class is in the part. If the expected class is
    `classes` or more, the part that begins with class 0 writes the loss.
    """

    first: UNSIGNED_INT
    classes: UNSIGNED_INT

    def compute(self) -> None:
        losses, self.deltas = cross_entropy(
            self.probabilities, self.expected, self.scale, self.outputs_scale, self.first
        )
        part_length = self.probabilities.shape[1]
        self.loss = _of_part(losses, self.expected, part_length, self.first, self.classes)


def _of_part(losses: Array, expected: Array, size: int, first: Array, classes: Array) -> Array:
    """Return the losses that one part of the columns reports: 0 for rows that another part reports.

    The part has `size` classes and begins with class number `first`, of `classes` classes in total.
    The part that contains the expected class reports the loss. If the expected class is `classes`
    or more, the part that begins with class 0 reports it.
    """
    reporting_class = np.where(expected < classes, expected, 0)
    return np.where((reporting_class >= first) & (reporting_class - first < size), losses, 0)


class SumLosses(Vertex):
    """Set `loss` to the sum of the losses of all parts of a row."""

    losses: Input[Vector[FLOAT]]
    loss: Output[FLOAT]

    def compute(self) -> None:
        self.loss = np.sum(self.losses)

    def cycles(self, target: Target) -> int:
        return reduction_cycles(len(self.losses), FLOAT, target)


class SumSquared(Vertex):
    """Set `loss` to half the sum of (outputs - expected)^2 for each row.

    `deltas` receives scale * (outputs - expected). In the field annotations, HALF stands for the
    dtype of the outputs.
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
    """Set `count` to the number of rows whose largest element is that of the expected class."""

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
    """Add the sum of `counts` to `total`."""

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
    """Write the loss of each row of `model_outputs` to `loss`, and its gradient to `deltas`.

    `model_outputs` [batch, classes] is FLOAT or HALF, and `loss` [batch] is FLOAT. `deltas` [batch,
    classes] receives the gradient, and has the dtype of `model_outputs`. As in PopLibs, the
    gradient is that of the sum over the batch; divide it by the batch size in the update.

    * For CROSS_ENTROPY_LOSS, `model_outputs` is the output of softmax, and `expected` [batch]
      (UNSIGNED_INT) contains class numbers. The gradient is that of softmax's input. As in PopLibs,
      the loss is -log(output + 1.2e-38), or -log(output + 6e-8) for HALF. Without
      `model_output_scaling`, it is at most 87.3 (16.6 for HALF). In rows whose class number is
      `MASKED_LABEL_CODE`, loss and gradient are 0. Any other class number that is too large gives
      the same loss as an output of 0.
    * For SUM_SQUARED_LOSS, `expected` has the shape and dtype of `model_outputs`. The loss is half
      the sum of the squared errors.

    `deltas_scale` multiplies the gradient, but not the loss; such loss scaling keeps small HALF
    gradients from becoming 0. `model_output_scaling` is the factor by which the outputs are larger
    than probabilities, as after SOFTMAX_SCALED; loss and gradient are still those of the
    probabilities. The two factors are numbers or, for CROSS_ENTROPY_LOSS, FLOAT tensors of one
    element.

    `num_correct` is an INT tensor of one element, to which the number of correct rows is added.
    They are counted as in `calc_accuracy`.

    Rows, or parts of long rows, are distributed over the workers of all tiles. The cycles are those
    of PopLibs' loss transforms (popnnCycleEstimators.cpp). If rows are divided into parts, the
    cycles of a reduction are added.

    :raises PoplibsError: if a shape, dtype, factor or `loss_type` does not fit.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    valid_type = _loss_type(loss_type)
    is_squared = valid_type is LossType.SUM_SQUARED_LOSS
    _check_operands(graph, model_outputs, expected, is_squared, loss=loss, deltas=deltas)
    factors = _factors(graph, is_squared, deltas_scale, model_output_scaling)
    has_tensors = any(isinstance(factor, Tensor) for factor in factors.values())
    operands = {
        "outputs" if is_squared else "probabilities": model_outputs,
        "expected": expected,
        "loss": loss,
        "deltas": deltas,
    }
    if num_correct is not None:
        _check_accuracy(graph, model_outputs, expected, num_correct)
    num_parts = _parts(graph, model_outputs, is_squared)
    base_codelet: type[Vertex] = SumSquared
    constants: dict[str, float] = {}
    name_words: list[Word] = [model_outputs.dtype]
    if has_tensors:
        base_codelet = CrossEntropyScaledPart if num_parts > 1 else CrossEntropyScaled
        # The codelet needs tensors for both factors, so a number becomes a constant.
        for field, factor in factors.items():
            factors[field] = scalar(graph, FLOAT, factor, f"{debug_context}/{field}")
    elif not is_squared:
        base_codelet = CrossEntropyPart if num_parts > 1 else CrossEntropy
        outputs_scale = factors.pop("outputs_scale")
        assert not isinstance(outputs_scale, Tensor)
        constants["outputs_scale"] = float(outputs_scale)
        if outputs_scale != 1:
            name_words.append(f"{float(outputs_scale):g}")
    codelet = typed(base_codelet, name_words, {HALF: model_outputs.dtype}, **constants)
    if num_parts > 1:
        state = {} if is_squared else {"classes": model_outputs.shape[1]}
        _by_parts(graph, codelet, operands, num_parts, prog, debug_context, factors | state)
    else:
        by_rows(graph, codelet, operands, prog, name=debug_context, results=(), **factors)
    if num_correct is not None:
        _count(graph, model_outputs, expected, num_correct, prog, debug_context)


def _check_operands(
    graph: Graph,
    model_outputs: Tensor,
    expected: Tensor,
    is_squared: bool,
    loss: Tensor,
    deltas: Tensor,
) -> None:
    """Raise `PoplibsError` unless the tensors of `calc_loss` fit.

    `is_squared` is whether the loss is SUM_SQUARED_LOSS.
    """
    check_matrix(graph, "model_outputs", model_outputs)
    if is_squared:
        check_matrix(graph, "expected", expected)
        check_alike(
            "give expected the shape of model_outputs.",
            expected=expected,
            model_outputs=model_outputs,
        )
    else:
        check_labels(graph, model_outputs, expected)
    check_dtype("loss", loss, FLOAT)
    check_dtype("deltas", deltas, FLOAT, HALF)
    context = f"loss {loss!r} and expected {expected!r}"
    advice = "give loss one element for each row."
    check_same("shapes", loss.shape, expected.shape[:1], context, advice=advice)
    shape, dtype = (f"give deltas the {aspect} of model_outputs." for aspect in ("shape", "dtype"))
    check_alike(shape, dtype, deltas=deltas, model_outputs=model_outputs)


def _factors(
    graph: Graph,
    is_squared: bool,
    deltas_scale: float | Tensor,
    model_output_scaling: float | Tensor,
) -> dict[str, Operand]:
    """Return a dict of the checked factors: "scale" and, for cross-entropy, "outputs_scale".

    `is_squared` is whether the loss is SUM_SQUARED_LOSS.

    :raises PoplibsError: if a factor is invalid, or not possible with SUM_SQUARED_LOSS.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    scale = check_factor(graph, "deltas_scale", deltas_scale, FLOAT)
    outputs_scale = check_factor(graph, "model_output_scaling", model_output_scaling, FLOAT)
    check_finite("deltas_scale", scale)
    check_finite("model_output_scaling", outputs_scale)
    if not is_squared:
        if not isinstance(outputs_scale, Tensor) and not outputs_scale > 0:
            raise as_given(
                model_output_scaling,
                "model_output_scaling",
                "give a number above 0, such as popnn.SOFTMAX_SCALING.",
            )
        return {"scale": scale, "outputs_scale": outputs_scale}
    if isinstance(scale, Tensor) or isinstance(outputs_scale, Tensor) or outputs_scale != 1:
        raise refused("""cannot use model_output_scaling, or a tensor as deltas_scale, with
            SUM_SQUARED_LOSS.
            next:  give deltas_scale as a number, without model_output_scaling.""")
    return {"scale": scale}


def _parts(graph: Graph, outputs: Tensor, is_squared: bool) -> int:
    """Return the number of parts per row that takes the fewest modelled cycles.

    `outputs` is [rows, classes], and `is_squared` is whether the loss is SUM_SQUARED_LOSS.
    """
    transform_cycles = vertices.loss_sum_squared if is_squared else vertices.loss_cross_entropy

    def row_cycles(num_rows: int) -> int:
        return int(transform_cycles(num_rows * outputs.shape[1], outputs.dtype))

    def part_cycles(part_length: int, num_parts: int) -> int:
        return int(transform_cycles(part_length, outputs.dtype)) + reduction_cycles(
            num_parts, FLOAT, graph.target
        )

    return best_parts(outputs.shape, graph.target, row_cycles, part_cycles)


def _by_parts(
    graph: Graph,
    codelet: type[Vertex],
    operands: dict[str, Tensor],
    num_parts: int,
    prog: Program,
    name: str,
    state: dict[str, Any],
) -> None:
    """Append a compute set for the parts of all rows, and another that adds the parts' losses.

    Each row is divided into `num_parts` parts. In the first compute set, each part has a vertex; in
    the second, each row has one. `operands` maps names of fields to tensors. `state` contains
    the fields that have the same value in all vertices.
    """
    loss = operands["loss"]
    losses = graph.add_variable(FLOAT, (loss.shape[0], num_parts), f"{name}/losses")
    loss_work: list[tuple[int, Edges]] = []
    sum_work: list[tuple[int, Edges]] = []
    for row_part in parts_of_rows(graph, operands["deltas"].shape, num_parts):
        row = slice(row_part.row, row_part.row + 1)
        columns = slice(row_part.begin, row_part.end)
        edges: Edges = {
            field: tensor[row, columns] if tensor.rank == 2 else tensor[row]
            for field, tensor in operands.items()
        }
        edges["loss"] = losses[row_part.row, row_part.part : row_part.part + 1]
        first_class = {"first": row_part.begin} if "first" in codelet.fields else {}
        loss_work.append((row_part.tile, edges | state | first_class))
        if row_part.part == 0:
            sum_work.append(
                (row_part.tile, {"losses": losses[row_part.row], "loss": loss[row_part.row]})
            )
    step(graph, prog, name, codelet, loss_work, ["loss"])
    step(graph, prog, f"{name}/sums", SumLosses, sum_work)


def _loss_type(loss_type: object) -> LossType:
    types_by_name = LossType.__members__
    if isinstance(loss_type, LossType):
        return loss_type
    if isinstance(loss_type, str) and loss_type.upper() in types_by_name:
        return types_by_name[loss_type.upper()]
    raise refused(
        f"was given {shown(loss_type)} as loss_type.",
        next_step=f"use {' or '.join(types_by_name)}.",
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
    """Add the number of correct rows of `outputs` [batch, classes] to `num_correct`, an INT tensor.

    A row is correct if its largest element is that of the expected class; among several equal
    largest elements, the first counts. `outputs` is FLOAT or HALF, `expected` [batch] is
    UNSIGNED_INT, and `num_correct` has one element. The cycles are those of PopLibs'
    ReduceMaxClassGather and CalcAccuracy (popnnCycleEstimators.cpp).

    :raises PoplibsError: if a shape or dtype does not fit.
    """
    check_matrix(graph, "outputs", outputs)
    _check_accuracy(graph, outputs, expected, num_correct)
    _count(graph, outputs, expected, num_correct, prog, debug_context)


def _check_accuracy(graph: Graph, outputs: Tensor, expected: Tensor, num_correct: Tensor) -> None:
    check_labels(graph, outputs, expected)
    check_tensor(graph, "num_correct", num_correct)
    if num_correct.num_elements != 1 or num_correct.dtype is not INT:
        raise refused(
            "needs an INT tensor of one element as num_correct.",
            num_correct,
            "create num_correct with graph.add_variable(INT, ()).",
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
    total_tile = next(
        candidate
        for candidate, intervals in enumerate(graph.get_tile_mapping(num_correct))
        if intervals
    )
    shares = by_workers(graph, {"x": outputs, "expected": expected})
    counts = graph.add_variable(INT, (len(shares),), f"{debug_context}/counts")
    count_work = [(tile, edges | {"count": counts[i]}) for i, (tile, edges) in enumerate(shares)]
    counter = typed(CountCorrect, [outputs.dtype], {FLOAT: outputs.dtype})
    step(graph, prog, f"{debug_context}/count", counter, count_work, ["count"])
    total_work = [(total_tile, {"counts": counts, "total": num_correct})]
    step(graph, prog, f"{debug_context}/total", AddCounts, total_work)
