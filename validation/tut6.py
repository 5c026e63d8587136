"""A matrix-vector product whose rows are split into pieces, and the planner for their number.

The program is that of Graphcore's tutorial 6 (graphcore/examples,
tutorials/poplar/tut6_matrix_vector_opt). Every row of the matrix is divided into `split` pieces.
One vertex multiplies a piece by its part of the vector, and a second compute set adds up the pieces
of each row. With more pieces, the work is distributed more evenly, but the second compute set takes
longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.cost.schedule import even_tile_cycles
from ipu_teach.graph import Graph, Input, Output, Tensor, Vector, Vertex
from ipu_teach.program import Copy, Execute, Sequence
from ipu_teach.target import Target
from ipu_teach.types import FLOAT


class DotProduct(Vertex):
    """The dot product out = a b, written as one operation on vectors."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


class LoopDotProduct(Vertex):
    """The dot product as a loop over single elements, as in the tutorial's C++ vertex."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        total = np.float32(0)
        for i in range(len(self.a)):
            total += self.a[i] * self.b[i]
        self.out = total


class Sum(Vertex):
    """The sum of x, added up element by element."""

    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        total = np.float32(0)
        for value in self.x:
            total += value
        self.out = total


def dot_cycles(elements: int) -> int:
    """Return the tutorial's guess of the worker cycles of a dot product.

    The guess is five cycles plus a loop that processes two elements per cycle.
    """
    return 5 + (elements + 1) // 2


@dataclass(frozen=True)
class PhaseEstimates:
    """The estimated tile cycles of the four phases of a plan with `split` pieces."""

    split: int
    multiply: int
    exchange: int
    reduce_exchange: int
    reduce: int

    @property
    def total(self) -> int:
        return self.multiply + self.exchange + self.reduce_exchange + self.reduce


def estimate(rows: int, cols: int, split: int, target: Target) -> PhaseEstimates:
    """Return the estimated cycles on the tile with the most work, for rows in `split` pieces."""
    workers = target.num_worker_contexts
    pieces = -(-rows * split // target.num_tiles)
    piece = -(-cols // split)
    # Pieces of different rows that start at the same column share their part of the vector.
    received = -(-pieces // rows) * piece * FLOAT.size
    sums = -(-rows // target.num_tiles)
    return PhaseEstimates(
        split,
        even_tile_cycles(pieces, dot_cycles(piece), workers),
        exchange=int(exchange_cycles(received, target)),
        reduce_exchange=int(exchange_cycles(sums * split * FLOAT.size, target)),
        reduce=even_tile_cycles(sums, dot_cycles(split), workers),
    )


def plans(rows: int, cols: int, target: Target) -> list[PhaseEstimates]:
    """Return the estimates for 1 to `cols` - 1 pieces per row, in this order."""
    return [estimate(rows, cols, split, target) for split in range(1, cols)]


def build(
    graph: Graph, rows: int, cols: int, split: int, multiplier: type[Vertex] | None = None
) -> Sequence:
    """Build the program, with the streams "matrix", "vector" and "result".

    By default, each vertex costs as much as the tutorial guesses. With a `multiplier`, each vertex
    costs as much as its operations.
    """
    tiles = graph.target.num_tiles
    matrix = graph.add_variable(FLOAT, (rows, cols), "matrix")
    vector = graph.add_variable(FLOAT, (cols,), "vector")
    partials = graph.add_variable(FLOAT, (rows, split), "partials")
    result = graph.add_variable(FLOAT, (rows,), "result")
    for i in range(cols):
        graph.set_tile_mapping(vector[i], i * tiles // cols)
    multiply = graph.add_compute_set("multiply")
    reduce = graph.add_compute_set("reduce")
    for piece in range(split):
        begin = piece * cols // split
        end = (piece + 1) * cols // split
        for row in range(rows):
            a = matrix[row, begin:end]
            out = partials[row, piece]
            vertex = graph.add_vertex(
                multiply, multiplier or DotProduct, a=a, b=vector[begin:end], out=out
            )
            tile = (piece * rows + row) * tiles // (split * rows)
            for mapped in (vertex, a, out):
                graph.set_tile_mapping(mapped, tile)
            if multiplier is None:
                graph.set_perf_estimate(vertex, dot_cycles(end - begin))
    for row in range(rows):
        vertex = graph.add_vertex(reduce, Sum, x=partials[row], out=result[row])
        for mapped in (vertex, result[row]):
            graph.set_tile_mapping(mapped, row * tiles // rows)
        if multiplier is None:
            graph.set_perf_estimate(vertex, dot_cycles(split))
    return Sequence(
        _from_host(graph, vector, "vector"),
        _from_host(graph, matrix, "matrix"),
        Execute(multiply),
        Execute(reduce),
        Copy(result, graph.add_device_to_host_fifo("result", FLOAT, rows)),
    )


def _from_host(graph: Graph, tensor: Tensor, handle: str) -> Copy:
    return Copy(graph.add_host_to_device_fifo(handle, FLOAT, tensor.num_elements), tensor)
