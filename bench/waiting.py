"""Compare the time to build and load a graph with the same work in a plainer form."""

from __future__ import annotations

from functools import partial

import numpy as np

from bench import codelets
from bench.kernels import TILES, Chip, floats, source
from bench.measure import Row, Work
from ipu_teach.device import IPUModel
from ipu_teach.graph import Graph
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.program import Execute, Repeat, Sequence
from ipu_teach.types import FLOAT

_target = IPUModel().create_device().target


def add_after_mat_mul(size: int = 1024) -> tuple[Work, Work]:
    """Return two additions: to a tensor in blocks, as a product leaves it, and to one mapped
    linearly."""
    graph, prog = Graph(_target), Sequence()
    a, b, plain = (graph.add_variable(FLOAT, (size, size), name) for name in ("a", "b", "plain"))
    for tensor in (a, b, plain):
        poputil.map_tensor_linearly(graph, tensor)
    blocks, line = (
        partial(popops.add_in_place, graph, x, graph.clone(x), prog)
        for x in (poplin.mat_mul(graph, a, b, prog), plain)
    )
    return blocks, line


def reductions(rows: int = 1174, columns: int = 64) -> tuple[Work, Work]:
    """Return two reductions of a matrix with one row per tile: as one tensor per row, and as a
    single tensor."""

    def build(many: bool) -> None:
        graph, prog = Graph(_target), Sequence()
        matrix = graph.add_variable(FLOAT, (rows, columns), "matrix")
        graph.set_tile_mapping(matrix, np.arange(rows))
        if many:
            popops.reduce_many(
                graph, [popops.SingleReduceOp(matrix[i], [0]) for i in range(rows)], prog
            )
        else:
            out = graph.add_variable(FLOAT, (rows,), "out")
            graph.set_tile_mapping(out, np.arange(rows))
            popops.reduce_with_output(graph, matrix, out, [1], prog)

    return partial(build, True), partial(build, False)


def initial_values(count: int = 1200) -> tuple[Work, Work]:
    """Return two works: setting the initial values of variables in a graph with as many constants,
    and in one without constants."""

    def build(constants: int) -> Work:
        graph = Graph(_target)
        for _ in range(constants):
            graph.add_constant(FLOAT, (4,), 1.0)
        variables = [graph.add_variable(FLOAT, (4,)) for _ in range(count)]

        def give() -> None:
            for variable in variables:
                graph.set_initial_value(variable, 1.0)

        return give

    return build(count), build(0)


def mappings() -> tuple[Work, Work]:
    """Return a loop that maps a new variable and reads its mapping, for 1,600 and for 400
    variables."""

    def by_turns(count: int) -> None:
        graph = Graph(_target)
        for number in range(count):
            variable = graph.add_variable(FLOAT, (4,))
            graph.set_tile_mapping(variable, number % TILES)
            graph.get_tile_mapping(variable)

    return partial(by_turns, 1600), partial(by_turns, 400)


def slices() -> tuple[Work, Work]:
    """Return 17,664 vertices, added one by one on flattened 3-D slices, and the same on 2-D slices
    of equal size."""

    def build(rank: int) -> None:
        graph = Graph(_target)
        x = graph.add_variable(FLOAT, (92, 384, 8) if rank == 3 else (92, 3072), "x")
        out = graph.add_variable(FLOAT, (92, 192), "out")
        into = graph.add_compute_set()
        for i in range(92):
            for j in range(192):
                part = (
                    x[i, 2 * j : 2 * j + 2, 0:8].flatten()
                    if rank == 3
                    else x[i, 16 * j : 16 * j + 16]
                )
                vertex = graph.add_vertex(into, codelets.Sum, x=part, out=out[i, j])
                graph.set_tile_mapping(vertex, (i * 192 + j) // 12)

    return partial(build, 3), partial(build, 2)


def neighbourhoods(count: int = 9_900, fewest: int = 3, most: int = 12) -> tuple[Work, Work]:
    """Return two works: loading vertices that each read their own neighbours (a different number
    each), and 10 steps of them."""
    chip, random = Chip(), source()
    x, weights, out = (
        chip.variable(n, floats(*shape))
        for n, shape in (("x", (count,)), ("weights", (count, most)), ("out", (count,)))
    )
    step = chip.graph.add_compute_set("step")
    for i, degree in enumerate(random.integers(fewest, most + 1, count).tolist()):
        near = np.clip(
            i + np.sort(random.choice(np.arange(-50, 50), degree, replace=False)), 0, count - 1
        )
        vertex = chip.graph.add_vertex(
            step, codelets.Dot, a=x[near], b=weights[i, :degree], out=out[i]
        )
        chip.graph.set_tile_mapping(vertex, i * TILES // count)
    engine = chip.engine(Repeat(10, Execute(step)))
    return engine.load, engine.run


ROWS = [
    Row(
        "b2",
        "add_in_place built on what mat_mul laid out",
        "on what lies linearly",
        2,
        add_after_mat_mul,
    ),
    Row("b3", "reduce_many of 1,174 rows built", "one reduction of the matrix", 20, reductions),
    Row(
        "b4",
        "1,200 initial values beside 1,200 constants",
        "without constants",
        1.5,
        initial_values,
    ),
    Row("b5", "1,600 tile mappings set and asked for by turns", "400", 5, mappings),
    Row(
        "b7",
        "load of 9,900 vertices of unequal neighbourhoods",
        "10 steps of them",
        3,
        neighbourhoods,
    ),
    Row("b9", "17,664 vertices of 3-D slices, flattened, one by one", "of 2-D slices", 2, slices),
]
