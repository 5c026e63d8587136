"""Functions for neural networks: softmax, cross-entropy loss with its gradient, and counting correct answers.

Rows of a batch are shared evenly among the workers of all tiles, one vertex a worker. PopLibs composes softmax of six
library calls; here one vertex does all six for its rows, and costs what its operations cost.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.errors import PoplibsError
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.vertex import InOut, Input, Output, Vector, Vertex
from ipu_teach.poplibs.poputil import balanced_partition, check_call, check_same, check_tensor
from ipu_teach.program import Execute
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT

SMALLEST_PROBABILITY = np.finfo(np.float32).tiny  # keeps the logarithm of a probability that has run down to 0 finite


class Softmax(Vertex):
    """Each row of x becomes probabilities. The largest element is subtracted first, so that nothing overflows."""

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        e = np.exp(self.x - np.max(self.x, axis=1, keepdims=True))
        self.out = e / np.sum(e, axis=1, keepdims=True)

    def cycles(self, target: Target) -> int:
        return int(vertices.softmax(len(self.x), self.x.shape[1], FLOAT, target))


class CrossEntropy(Vertex):
    """loss = -log of the expected class's probability; deltas = probabilities, less 1 at the expected class."""

    probabilities: Input[Vector[Vector[FLOAT]]]
    expected: Input[Vector[UNSIGNED_INT]]
    loss: Output[Vector[FLOAT]]
    deltas: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        classes = np.arange(self.probabilities.shape[1], dtype=np.uint32)
        hit = self.expected.reshape(-1, 1) == classes
        self.deltas = self.probabilities - hit
        picked = np.sum(np.where(hit, self.probabilities, 0), axis=1)
        self.loss = -np.log(np.maximum(picked, SMALLEST_PROBABILITY))

    def cycles(self, target: Target) -> int:
        return int(vertices.loss_cross_entropy(self.probabilities.size, FLOAT))


class CountCorrect(Vertex):
    """How many rows have their largest element at the expected class."""

    x: Input[Vector[Vector[FLOAT]]]
    expected: Input[Vector[UNSIGNED_INT]]
    count: Output[INT]

    def compute(self) -> None:
        self.count = np.sum(np.argmax(self.x, axis=1) == self.expected)

    def cycles(self, target: Target) -> int:
        return int(len(self.x) * vertices.max_class(self.x.shape[1]) + vertices.calc_accuracy(len(self.x)))


class AddCounts(Vertex):
    """total += the sum of the counts."""

    counts: Input[Vector[INT]]
    total: InOut[INT]

    def compute(self) -> None:
        self.total += np.sum(self.counts)


for _codelet in (Softmax, CrossEntropy, CountCorrect, AddCounts):
    _codelet.__name__ = f"popnn::{_codelet.__name__}<float>"


def softmax(graph: Graph, x: Tensor, prog: Program, debug_context: str = "softmax") -> Tensor:
    """Probabilities of each row of x [batch, classes], FLOAT. Each row of the result lies on the tile that made it."""
    check_call("softmax", graph, prog, debug_context)
    _check_matrix("softmax", graph, "x", x)
    out = graph.add_variable(FLOAT, x.shape, f"{debug_context}/out")
    compute_set = graph.add_compute_set(debug_context)
    for tile, (begin, end) in _shares(graph, x.shape[0]):
        graph.set_tile_mapping(graph.add_vertex(compute_set, Softmax, x=x[begin:end], out=out[begin:end]), tile)
        graph.set_tile_mapping(out[begin:end], tile)
    prog.add(Execute(compute_set))
    return out


def calc_loss(
    graph: Graph,
    model_outputs: Tensor,
    expected: Tensor,
    loss: Tensor,
    deltas: Tensor,
    prog: Program,
    debug_context: str = "calc_loss",
) -> None:
    """Cross-entropy of `model_outputs` [batch, classes] (the output of softmax) and its gradient before the softmax.

    `expected` [batch] holds class numbers (UNSIGNED_INT). `loss` [batch] and `deltas` [batch, classes] are written;
    the gradient is for the sum over the batch, as in PopLibs: divide by the batch size in the update. A class number that
    does not exist gives loss -log of the smallest FLOAT and no hit.
    """
    check_call("calc_loss", graph, prog, debug_context)
    _check_matrix("calc_loss", graph, "model_outputs", model_outputs)
    _check_labels("calc_loss", graph, model_outputs, expected)
    _check_float("calc_loss", graph, "loss", loss, 1)
    _check_float("calc_loss", graph, "deltas", deltas, 2)
    where = f"loss {loss!r} and expected {expected!r}"
    check_same("calc_loss", "shapes", loss.shape, expected.shape, where, "give loss one element for each row.")
    where = f"deltas {deltas!r} and model_outputs {model_outputs!r}"
    check_same("calc_loss", "shapes", deltas.shape, model_outputs.shape, where, "give deltas the shape of model_outputs.")
    compute_set = graph.add_compute_set(debug_context)
    for tile, (begin, end) in _shares(graph, model_outputs.shape[0]):
        vertex = graph.add_vertex(
            compute_set, CrossEntropy, probabilities=model_outputs[begin:end], expected=expected[begin:end],
            loss=loss[begin:end], deltas=deltas[begin:end],
        )  # fmt: skip
        graph.set_tile_mapping(vertex, tile)
    prog.add(Execute(compute_set))


def calc_accuracy(
    graph: Graph, outputs: Tensor, expected: Tensor, num_correct: Tensor, prog: Program, debug_context: str = "calc_accuracy"
) -> None:
    """Add to `num_correct` (one INT) the rows of `outputs` [batch, classes] whose largest element is the expected class."""
    check_call("calc_accuracy", graph, prog, debug_context)
    _check_matrix("calc_accuracy", graph, "outputs", outputs)
    _check_labels("calc_accuracy", graph, outputs, expected)
    check_tensor("calc_accuracy", graph, "num_correct", num_correct)
    if num_correct.num_elements != 1 or num_correct.dtype is not INT:
        raise PoplibsError(
            "calc_accuracy() wants one INT as num_correct.",
            where=repr(num_correct),
            next_step="make it with graph.add_variable(INT, ()).",
        )
    home = next(t for t, pieces in enumerate(graph.get_tile_mapping(num_correct)) if pieces)
    shares = _shares(graph, outputs.shape[0])
    counts = graph.add_variable(INT, (len(shares),), f"{debug_context}/counts")
    count, total = graph.add_compute_set(f"{debug_context}/count"), graph.add_compute_set(f"{debug_context}/total")
    for i, (tile, (begin, end)) in enumerate(shares):
        vertex = graph.add_vertex(count, CountCorrect, x=outputs[begin:end], expected=expected[begin:end], count=counts[i])
        graph.set_tile_mapping(vertex, tile)
        graph.set_tile_mapping(counts[i], tile)
    graph.set_tile_mapping(graph.add_vertex(total, AddCounts, counts=counts, total=num_correct), home)
    prog.add(Execute(count)).add(Execute(total))


def _shares(graph: Graph, rows: int) -> list[tuple[int, tuple[int, int]]]:
    """(tile, its rows) for as many workers as there are rows, or all of them."""
    target = graph.target
    parts = min(rows, target.num_tiles * target.num_worker_contexts)
    return [(i * target.num_tiles // parts, share) for i, share in enumerate(balanced_partition(rows, parts))]


def _check_matrix(function: str, graph: Graph, argument: str, tensor: Tensor) -> None:
    _check_float(function, graph, argument, tensor, 2)
    if tensor.num_elements == 0:
        raise PoplibsError(
            f"{function}() was given no elements in {argument}.",
            where=repr(tensor),
            next_step="give at least one row, and one class.",
        )


def _check_float(function: str, graph: Graph, argument: str, tensor: Tensor, rank: int) -> None:
    check_tensor(function, graph, argument, tensor, (rank,))
    if tensor.dtype is not FLOAT:
        raise PoplibsError(
            f"{function}() works on FLOAT; {argument} is {tensor.dtype.__name__}.",
            where=repr(tensor),
            next_step="cast it with popops.cast.",
        )


def _check_labels(function: str, graph: Graph, outputs: Tensor, expected: Tensor) -> None:
    check_tensor(function, graph, "expected", expected, (1,))
    if expected.dtype is not UNSIGNED_INT or expected.shape[0] != outputs.shape[0]:
        raise PoplibsError(
            f"{function}() wants expected as {outputs.shape[0]} class numbers (UNSIGNED_INT); it was given "
            f"{expected.shape[0]} of {expected.dtype.__name__}.",
            where=repr(expected),
            next_step="give one for each row; cast them with popops.cast.",
        )
