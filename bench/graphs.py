"""Measure the host's time to build graphs, compile them, run them and compute profiles."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np

from bench import codelets
from bench.kernels import TILES, WORKERS, Chip, floats, small_step
from bench.measure import Ratios, Row, Work, in_turn
from ipu_teach.compile import compile_programs
from ipu_teach.cost import CostModel
from ipu_teach.device import Device, IPUModel
from ipu_teach.engine import Engine
from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs import poplin
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence, WriteUndef
from ipu_teach.target import Target
from ipu_teach.types import FLOAT

# The number of parts into which each row of the matrix is divided.
PARTS = 7
_target: Target = IPUModel().create_device().target


def _variables(graph: Graph, rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the matrix, vector, partial sums and result of a matrix-vector product.

    Only the vector is mapped to tiles.
    """
    matrix = graph.add_variable(FLOAT, (rows, columns), "matrix")
    vector = graph.add_variable(FLOAT, (columns,), "vector")
    partials = graph.add_variable(FLOAT, (rows, PARTS), "partials")
    result = graph.add_variable(FLOAT, (rows,), "out")
    graph.set_tile_mapping(vector, 0)
    return matrix, vector, partials, result


def bulk(rows: int, columns: int = 140) -> tuple[Graph, Program]:
    """Return `(graph, program)`; the graph has 8 vertices per row, which 8 bulk calls add."""
    graph = Graph(_target)
    matrix, vector, partials, result = _variables(graph, rows, columns)
    tiles, length = np.arange(rows) * TILES // rows, columns // PARTS
    for tensor in (matrix, partials, result):
        graph.set_tile_mapping(tensor, tiles)
    dots, sums = graph.add_compute_set("dots"), graph.add_compute_set("sums")
    for part in range(PARTS):
        columns_of_part = slice(part * length, (part + 1) * length)
        graph.add_vertices(
            dots,
            codelets.Dot,
            tiles,
            a=matrix[:, columns_of_part],
            b=vector[columns_of_part].reshape((1, length)),
            out=partials[:, part],
        )
    graph.add_vertices(sums, codelets.Sum, tiles, x=partials, out=result)
    return graph, Sequence(Execute(dots), Execute(sums))


def one_by_one(rows: int = 10_000, columns: int = 140) -> Graph:
    """Return the same graph as `bulk`, but add each vertex in a separate call."""
    graph = Graph(_target)
    matrix, vector, partials, result = _variables(graph, rows, columns)
    length = columns // PARTS
    for tile in range(TILES):
        begin, end = -(-rows * tile // TILES), -(-rows * (tile + 1) // TILES)
        if end > begin:
            for tensor in (matrix, partials, result):
                graph.set_tile_mapping(tensor[begin:end], tile)
    dots, sums = graph.add_compute_set("dots"), graph.add_compute_set("sums")
    for row in range(rows):
        tile = row * TILES // rows
        for part in range(PARTS):
            begin, end = part * length, (part + 1) * length
            vertex = graph.add_vertex(
                dots,
                codelets.Dot,
                a=matrix[row, begin:end],
                b=vector[begin:end],
                out=partials[row, part],
            )
            graph.set_tile_mapping(vertex, tile)
        graph.set_tile_mapping(
            graph.add_vertex(sums, codelets.Sum, x=partials[row], out=result[row]), tile
        )
    return graph


def bare_loop(rows: int = 10_000, columns: int = 140) -> int:
    """Run the double loop of `one_by_one` without a graph; return the sum of its indices."""
    count, length = 0, columns // PARTS
    for row in range(rows):
        tile = row * TILES // rows
        for part in range(PARTS):
            begin, end = part * length, (part + 1) * length
            count += tile + begin + end
        count += row
    return count


def analyses(graph: Graph, program: Program) -> Work:
    """Return a function to time: it compiles a graph and computes its memory and costs.

    The compilation includes all checks.
    """

    def analyse() -> None:
        cost = CostModel(compile_programs(graph, [program]))
        cost.check_memory()
        for step_number in range(len(cost.compiled.steps)):
            cost.step(step_number)

    return analyse


# The numbers of matrix rows for which the graphs have 80,000 and 1.1 million vertices.
SMALL, LARGE = 10_000, 137_500


def _profiled() -> tuple[Work, Work]:
    engines = [small_step()[0] for _ in range(2)]
    engines[1].disable_execution_profiling()
    return engines[0].run, engines[1].run


def _bytes_per_vertex() -> float:
    """Return the bytes that a vertex with three edges takes in the graph, without its tensors."""
    graph = Graph(_target)
    rows, length = 100_000, 4
    left = graph.add_variable(FLOAT, (rows, length))
    right = graph.add_variable(FLOAT, (rows, length))
    result = graph.add_variable(FLOAT, (rows,))
    compute_set = graph.add_compute_set()
    tiles = np.arange(rows) * TILES // rows
    gc.collect()
    tracemalloc.start()
    try:
        bytes_before = tracemalloc.get_traced_memory()[0]
        graph.add_vertices(compute_set, codelets.Dot, tiles, a=left, b=right, out=result)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - bytes_before) / rows
    finally:
        tracemalloc.stop()


def _allocations() -> float:
    """Return the peak kilobytes that the engine allocates in one of a hundred steps after loading.

    numpy allocates a buffer if it broadcasts an operand. The size of that buffer, measured for a
    multiplication of arrays, is subtracted.
    """
    engine, _, _ = small_step()
    gradients, rate = np.ones((784, 10), np.float32), np.ones((784, 1), np.float32)
    product = np.empty_like(gradients)
    numpy_bytes = _peak(lambda: np.multiply(gradients, rate, out=product))
    machine = engine._machine
    assert machine is not None
    return float(max(0, _peak(lambda: machine.run(0)) - numpy_bytes) // 1024)


def _peak(call: Work) -> int:
    """Return the peak bytes that the second run of `call` allocates and frees.

    A stored record of steps is not freed, so the first run does not count.
    """
    call()
    gc.collect()
    tracemalloc.start()
    try:
        call()
        bytes_before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        call()
        bytes_after, peak = tracemalloc.get_traced_memory()
        return peak - max(bytes_before, bytes_after)
    finally:
        tracemalloc.stop()


def pod_graph(num_ipus: int) -> tuple[Device, Graph, Program]:
    """Return (device, graph, program): a vertex for each worker, a halo exchange, a total."""
    device = IPUModel(num_ipus=num_ipus).create_device()
    graph = Graph(device)
    num_tiles = num_ipus * TILES
    num_vertices, length = num_tiles * WORKERS, 4
    x = graph.add_variable(FLOAT, (num_vertices, length), "x")
    left, right = (graph.add_variable(FLOAT, (num_vertices,), name) for name in ("left", "right"))
    sums, total = (
        graph.add_variable(FLOAT, (num_tiles,), "sums"),
        graph.add_variable(FLOAT, (), "total"),
    )
    per_ipu = graph.add_variable(FLOAT, (num_ipus,), "per IPU")
    for tile in range(num_tiles):
        elements_of_tile = slice(tile * WORKERS, (tile + 1) * WORKERS)
        for tensor in (x, left, right):
            graph.set_tile_mapping(tensor[elements_of_tile], tile)
        graph.set_tile_mapping(sums[tile], tile)
    for ipu in range(num_ipus):
        graph.set_tile_mapping(per_ipu[ipu], ipu * TILES)
    graph.set_tile_mapping(total, 0)
    graph.set_initial_value(x, 1.0)
    graph.set_initial_value(left, 1.0)
    graph.set_initial_value(right, 1.0)
    relax, sum_tiles = graph.add_compute_set("relax"), graph.add_compute_set("sums")
    sum_ipus, sum_all = graph.add_compute_set("sums of IPUs"), graph.add_compute_set("total")
    tile_of_vertex = np.arange(num_vertices) // WORKERS
    graph.add_vertices(relax, codelets.Relax, tile_of_vertex, left=left, right=right, x=x)
    graph.add_vertices(
        sum_tiles,
        codelets.Sum,
        np.arange(num_tiles),
        x=x.reshape((num_tiles, WORKERS * length)),
        out=sums,
    )
    graph.add_vertices(
        sum_ipus,
        codelets.Sum,
        np.arange(num_ipus) * TILES,
        x=sums.reshape((num_ipus, TILES)),
        out=per_ipu,
    )
    graph.add_vertices(
        sum_all, codelets.Sum, 0, x=per_ipu.reshape((1, num_ipus)), out=total.reshape((1,))
    )
    halo = Sequence(Copy(x[:-1, length - 1], left[1:]), Copy(x[1:, 0], right[:-1]))
    steps = Repeat(10, Sequence(Execute(relax), halo))
    return device, graph, Sequence(steps, Execute(sum_tiles), Execute(sum_ipus), Execute(sum_all))


def pod(num_ipus: int) -> None:
    """Build and run the program of `pod_graph`, and compute its report."""
    device, graph, program = pod_graph(num_ipus)
    engine = Engine(graph, program, backend="numpy")
    engine.load_and_run(device)
    report = engine.report
    assert report.total_cycles > 0 and report.exchange_bytes_per_tile[0].sum() > 0


GATHERS = 100  # The number of numpy gathers with which one compilation is compared.
# The number of inputs of each vertex.
INPUTS = 8


def irregular() -> tuple[Work, Work]:
    """Return two functions to time: a compilation, and 100 gathers in numpy.

    The compiled graph has 100,000 vertices, each of which reads random elements. numpy gathers the
    same elements.
    """
    num_vertices = 100_000
    graph, values = Graph(_target), np.zeros(num_vertices, np.float32)
    x, result = (
        graph.add_variable(FLOAT, (num_vertices,), "x"),
        graph.add_variable(FLOAT, (num_vertices,), "out"),
    )
    tiles = np.arange(num_vertices) * TILES // num_vertices
    inputs = np.random.default_rng(0).integers(0, num_vertices, (num_vertices, INPUTS))
    compute_set = graph.add_compute_set("irregular")
    for tensor in (x, result):
        graph.set_tile_mapping(tensor, tiles)
    graph.add_vertices(compute_set, codelets.Sum, tiles, x=x[inputs], out=result)

    def compile_again() -> None:
        CostModel(compile_programs(graph, [Execute(compute_set)])).check_memory()

    def gather() -> None:
        for _ in range(GATHERS):
            values[inputs]

    return compile_again, gather


MOST_IPUS = 64


def _pod() -> Ratios:
    """Return a function that measures the seconds for a pod relative to 64 times one IPU."""
    pod(1)

    def one_round() -> dict[str, float]:
        one = min(_seconds(lambda: pod(1)) for _ in range(3))
        return {"pod": _seconds(lambda: pod(MOST_IPUS)) / (MOST_IPUS * one)}

    return one_round


def first_run() -> Ratios:
    """Return a function that measures a matrix product's first run relative to its second."""
    chip, program = Chip(), Sequence()
    a, b = (chip.variable(name, floats(1024, 1024)) for name in "ab")
    poplin.mat_mul(chip.graph, a, b, program)
    engine = chip.engine(program, strict=True)

    def one_round() -> dict[str, float]:
        engine.load()
        return {"b1": _seconds(engine.run) / _seconds(engine.run)}

    return one_round


def undefined() -> dict[str, tuple[Work, Work]]:
    """Return {label: (loop with a WriteUndef, loop without it)} as functions to time.

    Each loop runs the same compute set 50 times. The first loop also declares the output undefined
    before each execution. A label names the number of elements per vertex, such as "16 numbers".
    """
    found: dict[str, tuple[Work, Work]] = {}
    for length in (1, 16, 1000):
        chip, count = Chip(), TILES * WORKERS
        x, y, out = (chip.variable(name, floats(count, length)) for name in ("x", "y", "out"))
        work = chip.execute("work", codelets.AxpyRelu, count, x=x, y=y, out=out)
        engine = chip.engine(
            [Repeat(50, Sequence(WriteUndef(out), work)), Repeat(50, Sequence(work))], strict=True
        )
        found[f"{length} numbers"] = partial(engine.run, 0), partial(engine.run, 1)
    return found


def _seconds(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


ROWS = [
    Row(
        "c1",
        "80,000 vertices one by one",
        "the bare double loop",
        45,
        lambda: (one_by_one, bare_loop),
    ),
    Row(
        "c2",
        "80,000 vertices in bulk",
        "one by one",
        0.02,
        lambda: (lambda: bulk(SMALL), one_by_one),
    ),
    Row(
        "c2m",
        "1.1 million vertices in bulk",
        "80,000 in bulk",
        40,
        lambda: (lambda: bulk(LARGE), lambda: bulk(SMALL)),
    ),
    Row(
        "c3",
        "all analyses of 80,000 vertices",
        "one by one",
        0.3,
        lambda: (analyses(*bulk(SMALL)), one_by_one),
    ),
    Row(
        "c3m",
        "all analyses of 1.1 million",
        "those of 80,000",
        15,
        lambda: (analyses(*bulk(LARGE)), analyses(*bulk(SMALL))),
    ),
    Row(
        "c4",
        "compiling 100,000 vertices with 8 random inputs each",
        "100 gathers of the same numbers by numpy",
        35,
        irregular,
    ),
    Row("p1", "logistic step with a profile", "without", 1.02, _profiled),
    Row("m1", "bytes of a vertex with three edges", "one byte", 48, _bytes_per_vertex),
    Row("m2", "kilobytes allocated by a step", "one kilobyte", 0, _allocations),
    Row("b1", "first run of a 1,024 x 1,024 mat_mul", "its second run", 2, first_run),
    Row(
        "b6",
        "a loop of a WriteUndef and a compute set that overwrites it",
        "the same without WriteUndef",
        1.3,
        lambda: in_turn(undefined(), time.process_time),
    ),
    Row("pod", "64 IPUs: build, run, profile", "64 times one IPU", 1.2, _pod),
]
