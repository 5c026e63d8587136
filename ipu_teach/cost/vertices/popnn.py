"""Cycles of vertices for neural networks.

Source: graphcore/poplibs, lib/popnn/popnnCycleEstimators.cpp and PerformanceEstimation.hpp.
"""

from __future__ import annotations

from ipu_teach.cost.vertices.parts import Size, bit, ceil_div, either, known_row, share
from ipu_teach.cost.vertices.popops import binary_op_2d, unary_op_2d
from ipu_teach.cost.vertices.reduce import reduce_contiguous
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, DType

# Each pair is (cycles to fill the pipeline, cycles for a vector), first for FLOAT, then for HALF.
_OP = {
    "RELU": ((1, 1), (1, 1)),
    "SIGMOID": ((5, 10), (2, 4)),
    "TANH": ((5, 10), (1, 2)),
    "GELU": ((10, 10), (5, 5)),
    "GELU_ERF": ((30, 30), (15, 15)),
    "SWISH": ((6, 11), (3, 5)),
}
_GRADIENT = {"RELU": (3, 3), "SIGMOID": (3, 3), "TANH": (3, 3), "GELU": (10, 5), "SWISH": (15, 9)}


def non_linearity_1d(
    kind: str, n: Size, dtype: type[DType], target: Target, *, unpack: int = 0
) -> Size:
    """Return the tile cycles of NonLinearity1D, which applies `kind` to `n` elements.

    `kind` is a function such as "GELU". `unpack` is the number of cycles to unpack the pointers of
    the vertex.
    """
    first_cycles, cycles_per_iteration = known_row(_OP, kind, "NonLinearity1D")[dtype is HALF]
    elements_per_path = target.get_vector_width(dtype)
    iterations = share(n // elements_per_path, target)
    remainder = n % elements_per_path
    body_cycles = either(
        iterations == 0,
        0,
        2 + first_cycles + (iterations - 1) * cycles_per_iteration + 1 + first_cycles,
    )
    tail_cycles = (
        3 + remainder * (2 + first_cycles)
        if dtype is FLOAT
        else 4 + bit(remainder, 2) * (2 + first_cycles) + bit(remainder, 1) * (3 + first_cycles)
    )
    return 9 + target.num_worker_contexts * (20 + unpack + body_cycles + tail_cycles)


def non_linearity_grad_1d(kind: str, n: Size, dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles of NonLinearityGrad1D: the gradient of `kind` for `n` elements.

    `kind` is a function such as "GELU".
    """
    cycles_per_iteration = known_row(_GRADIENT, kind, "NonLinearityGrad1D")[dtype is HALF]
    elements_per_path = target.get_vector_width(dtype)
    iterations = share(n // elements_per_path, target)
    remainder = n % elements_per_path
    body_cycles = either(iterations == 0, 0, 4 + (iterations - 1) * cycles_per_iteration + 1)
    tail_cycles = (
        4 + remainder * (cycles_per_iteration + 1)
        if dtype is FLOAT
        else 6
        + bit(remainder, 2) * (cycles_per_iteration + 2)
        + bit(remainder, 1) * (cycles_per_iteration + 4)
    )
    return 9 + target.num_worker_contexts * (20 + body_cycles + tail_cycles)


def softmax(rows: int, classes: int, dtype: type[DType], target: Target) -> Size:
    """Return the worker cycles of softmax on [rows, classes], all on one worker.

    Softmax has six steps: compute each row's maximum, subtract it, compute the exponentials, sum
    them, invert the sum, and multiply the exponentials by this inverse. Source:
    popnn/NonLinearity.cpp.
    """
    regions = [classes] * rows
    # `reduce_contiguous` subtracts one from the number of outputs, so add one before the call.
    reduction = reduce_contiguous(rows + 1, classes, dtype, target)
    return (
        2 * reduction
        + binary_op_2d("SUBTRACT", regions, dtype, target)
        + unary_op_2d("EXPONENT", regions, dtype, target)
        + unary_op_2d("INVERSE", [rows], dtype, target)
        + binary_op_2d("MULTIPLY", regions, dtype, target)
    )


def loss_cross_entropy(n: Size, dtype: type[DType]) -> Size:
    """Return the worker cycles of LossCrossEntropyTransform for `n` probabilities."""
    return _loss(n, dtype, 6, 9)


def loss_sum_squared(n: Size, dtype: type[DType]) -> Size:
    """Return the worker cycles of LossSumSquaredTransform for `n` values."""
    return _loss(n, dtype, 5, 4)


def _loss(n: Size, dtype: type[DType], pointers: int, per_element: int) -> Size:
    if dtype is HALF:
        return 5 + pointers + 5 + 1 + 2 + 1 + per_element * n // 2 + 2 + 11 * (n % 2) + 1
    return 5 + pointers + 5 + 2 + 1 + per_element * n + 1


def max_class(n: Size) -> Size:
    """Return the worker cycles in which one worker finds the largest of `n` elements.

    This search is one worker's part of ReduceMaxClassGather.
    """
    return 30 + 3 * (either(n > 1, n, 1) - 1)


def calc_accuracy(rows: Size) -> Size:
    """Return the worker cycles of CalcAccuracy, which compares the classes of `rows` rows."""
    return 14 + 4 * rows


def pooling(
    kind: str,
    rows: Size,
    items: Size,
    elements: Size,
    target: Target,
    *,
    vectors: Size = 1,
    groups: Size = 1,
    outputs: Size = 0,
) -> Size:
    """Return the tile cycles of MaxPooling ("MAX"), SumPooling ("AVG") or MaxPoolingGrad ("GRAD").

    - `rows` is the number of rows of output positions that the busiest worker processes.
    - `items` is the number of pairs (row, window element) for which there is work to do.
    - `elements` is the number of pairs (output position, window element) for which there is work to
      do.
    - `groups` is the number of groups of channels, and `vectors` is the number of data paths that
      the channels of one group fill.
    - `outputs` is the number of elements that the tile first sets to zero.

    Source: getPoolingCycles.
    """
    start_cycles, cycles_per_element = known_row(
        {"MAX": (4, 3), "AVG": (5, 3), "GRAD": (7, 5)}, kind, "Pooling"
    )
    average = kind == "AVG"
    gradient = kind == "GRAD"
    workers = target.num_worker_contexts
    fixed_cycles = 28 + groups * (4 + ceil_div(outputs * vectors, workers))
    item_cycles = 23 + 2 * groups + (groups - 1) * (6 if gradient else 4)
    loop_cycles = (
        groups
        * vectors
        * ((3 + start_cycles - cycles_per_element) * items + cycles_per_element * elements)
    )
    busy_cycles = 13 + average + 10 * gradient + 15 * rows + item_cycles * items + loop_cycles
    return 13 + workers * (fixed_cycles + either(rows > 0, busy_cycles, 0))


# The cycles in which a worker adds and multiplies two numbers that are stored as logarithms.
_LOG_ADD, _LOG_MULTIPLY = 16, 1


def ctc_alpha(positions: Size) -> Size:
    """Return the worker cycles of CTCAlpha or CTCBeta for one time step.

    `positions` is the number of positions that the vertex computes. A position is a class of the
    label or a blank: there is a blank before each class, and one at the end. A class and the blank
    before it take 10 cycles to read, decide and write, plus two additions and two multiplications.
    The last blank takes one addition and one multiplication. Source: alphaCycles.
    """
    pair = 10 + 2 * (_LOG_ADD + _LOG_MULTIPLY)
    return positions // 2 * pair + positions % 2 * (_LOG_ADD + _LOG_MULTIPLY)


def ctc_gradient(positions: Size, classes: Size) -> Size:
    """Return the worker cycles of a CTC gradient for one time step, given alpha and beta.

    `positions` is the number of classes of the label and of blanks before, between and after them.
    Their cycles are the difference between gradGivenAlphaCycles and betaCycles. PopLibs computes
    the softmax part of the gradient with popops. For that part, each of `classes` classes is
    assumed to take an exponential, a subtraction, a load and a store, as in the inner loops of
    popops.
    """
    pair = 6 + 2 * (_LOG_ADD + _LOG_MULTIPLY)
    of_positions = positions // 2 * pair + positions % 2 * (_LOG_ADD + _LOG_MULTIPLY)
    return of_positions + 6 * classes


def ctc_log_sum() -> int:
    """Return the worker cycles in which two numbers that are stored as logarithms are added."""
    return 2 + _LOG_ADD
