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
    """Return two functions to time, which build an addition of two tensors.

    In the first, the tensors are mapped in blocks, as a matrix product maps its result. In the
    second, they are mapped linearly.
    """
    graph, prog = Graph(_target), Sequence()
    a, b, linear = (graph.add_variable(FLOAT, (size, size), name) for name in ("a", "b", "plain"))
    for tensor in (a, b, linear):
        poputil.map_tensor_linearly(graph, tensor)
    add_to_blocks, add_to_linear = (
        partial(popops.add_in_place, graph, addend, graph.clone(addend), prog)
        for addend in (poplin.mat_mul(graph, a, b, prog), linear)
    )
    return add_to_blocks, add_to_linear


def reductions(rows: int = 1174, columns: int = 64) -> tuple[Work, Work]:
    """Return two functions to time, which build a reduction of a matrix with one row on each tile.

    The first reduces each row as a separate tensor, the second the whole matrix at once.
    """

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
    """Return two functions to time, which set the initial values of `count` variables.

    The graph of the first also has `count` constants, and that of the second has none.
    """

    def build(num_constants: int) -> Work:
        graph = Graph(_target)
        for _ in range(num_constants):
            graph.add_constant(FLOAT, (4,), 1.0)
        variables = [graph.add_variable(FLOAT, (4,)) for _ in range(count)]

        def give() -> None:
            for variable in variables:
                graph.set_initial_value(variable, 1.0)

        return give

    return build(count), build(0)


def mappings() -> tuple[Work, Work]:
    """Return two functions to time, which add variables to a graph.

    They map each variable, and read its mapping. The first adds 1,600 variables, and the second
    400.
    """

    def by_turns(num_variables: int) -> None:
        graph = Graph(_target)
        for variable_number in range(num_variables):
            variable = graph.add_variable(FLOAT, (4,))
            graph.set_tile_mapping(variable, variable_number % TILES)
            graph.get_tile_mapping(variable)

    return partial(by_turns, 1600), partial(by_turns, 400)


def slices() -> tuple[Work, Work]:
    """Return two functions to time, which add 17,664 vertices; each vertex reads a slice.

    The first takes the slices from a 3-D tensor and flattens them. The second takes slices of the
    same size from a 2-D tensor.
    """

    def build(rank: int) -> None:
        graph = Graph(_target)
        x = graph.add_variable(FLOAT, (92, 384, 8) if rank == 3 else (92, 3072), "x")
        out = graph.add_variable(FLOAT, (92, 192), "out")
        compute_set = graph.add_compute_set()
        for row_number in range(92):
            for slice_number in range(192):
                slice_read = (
                    x[row_number, 2 * slice_number : 2 * slice_number + 2, 0:8].flatten()
                    if rank == 3
                    else x[row_number, 16 * slice_number : 16 * slice_number + 16]
                )
                vertex = graph.add_vertex(
                    compute_set, codelets.Sum, x=slice_read, out=out[row_number, slice_number]
                )
                graph.set_tile_mapping(vertex, (row_number * 192 + slice_number) // 12)

    return partial(build, 3), partial(build, 2)


def neighbourhoods(count: int = 9_900, fewest: int = 3, most: int = 12) -> tuple[Work, Work]:
    """Return two functions to time: loading a graph, and running 10 steps of it.

    Each of the graph's `count` vertices reads the elements of its neighbours. A vertex has from
    `fewest` to `most` neighbours.
    """
    chip, generator = Chip(), source()
    x, weights, out = (
        chip.variable(name, floats(*shape))
        for name, shape in (("x", (count,)), ("weights", (count, most)), ("out", (count,)))
    )
    step = chip.graph.add_compute_set("step")
    for vertex_number, degree in enumerate(generator.integers(fewest, most + 1, count).tolist()):
        neighbours = np.clip(
            vertex_number + np.sort(generator.choice(np.arange(-50, 50), degree, replace=False)),
            0,
            count - 1,
        )
        vertex = chip.graph.add_vertex(
            step,
            codelets.Dot,
            a=x[neighbours],
            b=weights[vertex_number, :degree],
            out=out[vertex_number],
        )
        chip.graph.set_tile_mapping(vertex, vertex_number * TILES // count)
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
