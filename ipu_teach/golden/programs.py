"""The programs behind the published profiles, built anew, and their profiles without a run.

A profile needs no values: a program is compiled, and the costs of its steps are added up in the order in which they would
run. So a program of gigabytes costs its graph alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipu_teach.compile import compile_graph
from ipu_teach.compile.programs import Node
from ipu_teach.cost import CostModel
from ipu_teach.device import IPUModel
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.vertex import Input, Output, SupervisorVertex, Vector, Vertex
from ipu_teach.poplibs import poplin, poputil
from ipu_teach.program import Execute, Program, Repeat, Sequence
from ipu_teach.report import Report
from ipu_teach.target import Target
from ipu_teach.types import FLOAT


def machine(version: str, **changes: object) -> Target:
    """The whole chip of that version."""
    return IPUModel(version, **changes).create_device().target


def profile(graph: Graph, program: Program) -> Report:
    """The report of `program` as if it had run once. It has no choices: sequences and counted loops alone."""
    compiled = compile_graph(graph, [program])
    return Report(CostModel(compiled), np.fromiter(_steps(compiled.programs[0]), np.int32))


def _steps(node: Node) -> Iterator[int]:
    if node.step >= 0:
        yield node.step
    else:
        for _ in range(node.count if node.kind == "Repeat" else 1):
            for child in node.children:
                yield from _steps(child)


# --- halo exchange: thorbenlouw/lbm-graphcore, main/HaloRegionApproaches.cpp, strategy "implicit" ---------------------


class ExtraHalos(Vertex):
    """A block and what its eight neighbours border it with."""

    block: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]
    n: Input[Vector[FLOAT]]
    s: Input[Vector[FLOAT]]
    e: Input[Vector[FLOAT]]
    w: Input[Vector[FLOAT]]
    nw: Input[FLOAT]
    ne: Input[FLOAT]
    sw: Input[FLOAT]
    se: Input[FLOAT]

    def compute(self) -> None:
        self.out = self.block


def halo(target: Target, block: int = 100, iterations: int = 10, columns: int = 2) -> tuple[Graph, Program]:
    """A grid two tiles wide, a block each, and steps forth and back between two grids; every vertex is said to take 100.

    Two columns are what the published list of vertices tells: a zeroing of 2 rows of blocks, and of the outer column of
    every block.
    """
    graph = Graph(target)
    rows = target.num_tiles // columns
    grids = [graph.add_variable(FLOAT, (rows * block, columns * block), name) for name in ("in", "out")]
    blocks = [[grid[r * block : (r + 1) * block, c * block : (c + 1) * block] for r in range(rows) for c in range(columns)]
              for grid in grids]  # fmt: skip
    zeros = graph.add_constant(FLOAT, (target.num_tiles, block), 0, "zeros")
    for tile in range(target.num_tiles):
        for part in (blocks[0][tile], blocks[1][tile], zeros[tile]):
            graph.set_tile_mapping(part, tile)
    sets = []
    for source, result in ((0, 1), (1, 0)):
        compute_set = graph.add_compute_set(f"implicit {source}")
        for tile in range(target.num_tiles):
            edges = {"block": blocks[source][tile], "out": blocks[result][tile]}
            edges |= _ring(blocks[source], zeros[tile], tile, rows, columns)
            vertex = graph.add_vertex(compute_set, ExtraHalos, edges)
            graph.set_tile_mapping(vertex, tile)
            graph.set_perf_estimate(vertex, 100)
        sets.append(Execute(compute_set))
    return graph, Repeat(iterations, Sequence(*sets))


def _ring(blocks: list[Tensor], zeros: Tensor, tile: int, rows: int, columns: int) -> dict[str, Tensor]:
    """What borders a block, from the neighbours that there are; zeros where the grid ends."""
    row, column = divmod(tile, columns)
    places = {"nw": (-1, -1), "n": (-1, 0), "ne": (-1, 1), "w": (0, -1), "e": (0, 1), "sw": (1, -1), "s": (1, 0), "se": (1, 1)}
    # What lies above is bordered by its last row, what lies to the left by its last column.
    part = {-1: -1, 0: slice(None), 1: 0}
    ring = {}
    for name, (down, right) in places.items():
        if 0 <= row + down < rows and 0 <= column + right < columns:
            ring[name] = blocks[tile + down * columns + right][part[down], part[right]]
        else:
            ring[name] = zeros[0] if down and right else zeros
    return ring


# --- profiling: graphcore/tutorials, tutorials/poplar/tut4_profiling --------------------------------------------------


def chained_products(target: Target) -> tuple[Graph, Program]:
    """Three matrices multiplied in a chain: 800 x 500, 500 x 400, 400 x 200."""
    graph, program = Graph(target), Sequence()
    matrices = []
    for name, shape in (("m1", (800, 500)), ("m2", (500, 400)), ("m3", (400, 200))):
        matrices.append(graph.add_variable(FLOAT, shape, name))
        poputil.map_tensor_linearly(graph, matrices[-1])
    m4 = poplin.mat_mul(graph, matrices[0], matrices[1], program, "m4")
    poplin.mat_mul(graph, m4, matrices[2], program, "m5")
    return graph, program


# --- lightweight profiling: graphcore/examples, tutorials/popvision/lightweight_profiling -----------------------------


class Busy(SupervisorVertex):
    """A vertex that counts to a hundred and leaves nothing."""

    def compute(self) -> None:
        return


def operations(target: Target, count: int, cycles: int = 3600) -> tuple[Graph, Program]:
    """Compute sets that follow each other, each with one vertex on tile 0 that is said to take `cycles`."""
    graph, program = Graph(target), Sequence()
    for number in range(count):
        compute_set = graph.add_compute_set(f"op{number + 1}")
        vertex = graph.add_vertex(compute_set, Busy)
        graph.set_tile_mapping(vertex, 0)
        graph.set_perf_estimate(vertex, cycles)
        program.add(Execute(compute_set))
    return graph, program
