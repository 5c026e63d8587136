"""Measure the host time of graphs, analyses and profiles."""

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

PARTS = 7  # segments of a row of the matrix
_target: Target = IPUModel().create_device().target


def _variables(graph: Graph, rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the matrix, vector, partial sums and result of a product; the vector is already on a
    tile."""
    matrix = graph.add_variable(FLOAT, (rows, columns), "matrix")
    vector = graph.add_variable(FLOAT, (columns,), "vector")
    partials = graph.add_variable(FLOAT, (rows, PARTS), "partials")
    out = graph.add_variable(FLOAT, (rows,), "out")
    graph.set_tile_mapping(vector, 0)
    return matrix, vector, partials, out


def bulk(rows: int, columns: int = 140) -> tuple[Graph, Program]:
    """Return 8 vertices for each row, in 8 calls."""
    graph = Graph(_target)
    matrix, vector, partials, out = _variables(graph, rows, columns)
    tiles, length = np.arange(rows) * TILES // rows, columns // PARTS
    for tensor in (matrix, partials, out):
        graph.set_tile_mapping(tensor, tiles)
    dots, sums = graph.add_compute_set("dots"), graph.add_compute_set("sums")
    for part in range(PARTS):
        inside = slice(part * length, (part + 1) * length)
        graph.add_vertices(
            dots,
            codelets.Dot,
            tiles,
            a=matrix[:, inside],
            b=vector[inside].reshape((1, length)),
            out=partials[:, part],
        )
    graph.add_vertices(sums, codelets.Sum, tiles, x=partials, out=out)
    return graph, Sequence(Execute(dots), Execute(sums))


def one_by_one(rows: int = 10_000, columns: int = 140) -> Graph:
    """Return the same graph, built vertex by vertex."""
    graph = Graph(_target)
    matrix, vector, partials, out = _variables(graph, rows, columns)
    length = columns // PARTS
    for tile in range(TILES):
        begin, end = -(-rows * tile // TILES), -(-rows * (tile + 1) // TILES)
        if end > begin:
            for tensor in (matrix, partials, out):
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
            graph.add_vertex(sums, codelets.Sum, x=partials[row], out=out[row]), tile
        )
    return graph


def bare_loop(rows: int = 10_000, columns: int = 140) -> int:
    """Return the same double loop with only its own sums in it."""
    count, length = 0, columns // PARTS
    for row in range(rows):
        tile = row * TILES // rows
        for part in range(PARTS):
            begin, end = part * length, (part + 1) * length
            count += tile + begin + end
        count += row
    return count


def analyses(graph: Graph, program: Program) -> Work:
    """Return a work that runs all checks, groups and traces, and computes memory and costs."""

    def analyse() -> None:
        cost = CostModel(compile_programs(graph, [program]))
        cost.check_memory()
        for number in range(len(cost.compiled.steps)):
            cost.step(number)

    return analyse


SMALL, LARGE = 10_000, 137_500  # rows: 80,000 and 1.1 million vertices


def _profiled() -> tuple[Work, Work]:
    engines = [small_step()[0] for _ in range(2)]
    engines[1].disable_execution_profiling()
    return engines[0].run, engines[1].run


def _bytes_per_vertex() -> float:
    """Return the bytes of a vertex with three edges in the graph, without its tensors."""
    graph = Graph(_target)
    rows, length = 100_000, 4
    a = graph.add_variable(FLOAT, (rows, length))
    b = graph.add_variable(FLOAT, (rows, length))
    out = graph.add_variable(FLOAT, (rows,))
    compute_set = graph.add_compute_set()
    tiles = np.arange(rows) * TILES // rows
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        graph.add_vertices(compute_set, codelets.Dot, tiles, a=a, b=b, out=out)
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / rows
    finally:
        tracemalloc.stop()


def _allocations() -> float:
    """Return the peak kilobytes of one of a hundred steps, beyond what was bound at load.

    The buffer that numpy's own loop allocates where it broadcasts an operand is subtracted; it is
    measured on a plain multiplication.
    """
    engine, _, _ = small_step()
    slopes, rate = np.ones((784, 10), np.float32), np.ones((784, 1), np.float32)
    out = np.empty_like(slopes)
    own = _peak(lambda: np.multiply(slopes, rate, out=out))
    machine = engine._machine
    assert machine is not None
    return float(max(0, _peak(lambda: machine.run(0)) - own) // 1024)


def _peak(call: Work) -> int:
    """Return the peak bytes that the second run of `call` allocates and frees.

    A stored record of steps is not freed, so the first run does not count.
    """
    call()
    gc.collect()
    tracemalloc.start()
    try:
        call()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        call()
        after, most = tracemalloc.get_traced_memory()
        return most - max(before, after)
    finally:
        tracemalloc.stop()


def pod_graph(num_ipus: int) -> tuple[Device, Graph, Program]:
    """Return a graph with a vertex for each worker, copies of the neighbours' ends, and a total."""
    device = IPUModel(num_ipus=num_ipus).create_device()
    graph = Graph(device)
    tiles = num_ipus * TILES
    count, length = tiles * WORKERS, 4
    x = graph.add_variable(FLOAT, (count, length), "x")
    left, right = (graph.add_variable(FLOAT, (count,), name) for name in ("left", "right"))
    sums, total = (
        graph.add_variable(FLOAT, (tiles,), "sums"),
        graph.add_variable(FLOAT, (), "total"),
    )
    per_ipu = graph.add_variable(FLOAT, (num_ipus,), "per IPU")
    for tile in range(tiles):
        own = slice(tile * WORKERS, (tile + 1) * WORKERS)
        for tensor in (x, left, right):
            graph.set_tile_mapping(tensor[own], tile)
        graph.set_tile_mapping(sums[tile], tile)
    for ipu in range(num_ipus):
        graph.set_tile_mapping(per_ipu[ipu], ipu * TILES)
    graph.set_tile_mapping(total, 0)
    graph.set_initial_value(x, 1.0)
    graph.set_initial_value(left, 1.0)
    graph.set_initial_value(right, 1.0)
    relax, first = graph.add_compute_set("relax"), graph.add_compute_set("sums")
    second, third = graph.add_compute_set("sums of IPUs"), graph.add_compute_set("total")
    everyone = np.arange(count) // WORKERS
    graph.add_vertices(relax, codelets.Relax, everyone, left=left, right=right, x=x)
    graph.add_vertices(
        first, codelets.Sum, np.arange(tiles), x=x.reshape((tiles, WORKERS * length)), out=sums
    )
    graph.add_vertices(
        second,
        codelets.Sum,
        np.arange(num_ipus) * TILES,
        x=sums.reshape((num_ipus, TILES)),
        out=per_ipu,
    )
    graph.add_vertices(
        third, codelets.Sum, 0, x=per_ipu.reshape((1, num_ipus)), out=total.reshape((1,))
    )
    halo = Sequence(Copy(x[:-1, length - 1], left[1:]), Copy(x[1:, 0], right[:-1]))
    steps = Repeat(10, Sequence(Execute(relax), halo))
    return device, graph, Sequence(steps, Execute(first), Execute(second), Execute(third))


def pod(num_ipus: int) -> None:
    """Build, run and profile a graph."""
    device, graph, program = pod_graph(num_ipus)
    engine = Engine(graph, program, backend="numpy")
    engine.load_and_run(device)
    report = engine.report
    assert report.total_cycles > 0 and report.exchange_bytes_per_tile[0].sum() > 0


GATHERS, INPUTS = 100, 8  # numpy gathers compared with one compilation; inputs of each vertex


def irregular() -> tuple[Work, Work]:
    """Return two works: compiling 100,000 vertices with random inputs, and 100 gathers of numpy."""
    count = 100_000
    graph, numbers = Graph(_target), np.zeros(count, np.float32)
    x, out = graph.add_variable(FLOAT, (count,), "x"), graph.add_variable(FLOAT, (count,), "out")
    tiles = np.arange(count) * TILES // count
    inputs = np.random.default_rng(0).integers(0, count, (count, INPUTS))
    compute_set = graph.add_compute_set("irregular")
    for tensor in (x, out):
        graph.set_tile_mapping(tensor, tiles)
    graph.add_vertices(compute_set, codelets.Sum, tiles, x=x[inputs], out=out)

    def compile_anew() -> None:
        CostModel(compile_programs(graph, [Execute(compute_set)])).check_memory()

    def gather() -> None:
        for _ in range(GATHERS):
            numbers[inputs]

    return compile_anew, gather


MOST_IPUS = 64


def _pod() -> Ratios:
    """Return a function that measures the seconds of the pod relative to 64 single IPUs."""
    pod(1)

    def one_round() -> dict[str, float]:
        one = min(_seconds(lambda: pod(1)) for _ in range(3))
        return {"pod": _seconds(lambda: pod(MOST_IPUS)) / (MOST_IPUS * one)}

    return one_round


def first_run() -> Ratios:
    """Return a function that measures the first run of a poplin matrix product relative to its
    second."""
    chip, program = Chip(), Sequence()
    a, b = (chip.variable(name, floats(1024, 1024)) for name in "ab")
    poplin.mat_mul(chip.graph, a, b, program)
    engine = chip.engine(program, strict=True)

    def one_round() -> dict[str, float]:
        engine.load()
        return {"b1": _seconds(engine.run) / _seconds(engine.run)}

    return one_round


def undefined() -> dict[str, tuple[Work, Work]]:
    """Return loops around a compute set, with and without a WriteUndef of its output.

    Their vertices have several lengths.
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
