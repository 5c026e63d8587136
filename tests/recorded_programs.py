"""Programs whose recordings several tests draw, or compare with a plain loop."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ipu_teach import (
    FLOAT,
    INT,
    Device,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Report,
    Tensor,
    Vector,
    Vertex,
    concat,
)
from ipu_teach.poplibs import gcl
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence
from ipu_teach.report import Recording
from ipu_teach.types import Array

CELLS = 12  # of the smoothing program
TILES = 4
ROUND_TILES = 12  # of the round trips
ROUNDS = 60  # more than the views can show all messages of


class Smooth(Vertex):
    """The mean of a cell and its neighbours."""

    left: Input[FLOAT]
    here: Input[FLOAT]
    right: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = 0.25 * self.left + 0.5 * self.here + 0.25 * self.right


def smoothing_program(repeats: int = 5, **options: Any) -> tuple[Engine, Tensor, Tensor, Device]:
    """Return an engine that is not loaded, its tensors `u` and `v`, and the device.

    In each iteration, `v` becomes the mean of each cell of `u` and its neighbours; then it is copied
    to `u`.
    """
    device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    graph = Graph(device.target)
    u, v = graph.add_variable(FLOAT, (CELLS,), "u"), graph.add_variable(FLOAT, (CELLS,), "v")
    graph.set_initial_value(u, np.eye(1, CELLS, 4, dtype=np.float32)[0] * 3)
    smooth = graph.add_compute_set("smooth")
    for i in range(CELLS):
        for tensor in (u[i], v[i]):
            graph.set_tile_mapping(tensor, i * TILES // CELLS)
        vertex = graph.add_vertex(
            smooth,
            Smooth,
            left=u[max(i - 1, 0)],
            here=u[i],
            right=u[min(i + 1, CELLS - 1)],
            out=v[i],
        )
        graph.set_tile_mapping(vertex, i * TILES // CELLS)
    graph.create_host_write("u", u)
    program = Repeat(repeats, Sequence(Execute(smooth), Copy(v, u)))
    return Engine(graph, program, **options), u, v, device


def smoothed_by_hand(repeats: int, u: Array | None = None) -> list[tuple[Array, Array]]:
    """Return `u` and `v` after each step of the smoothing program, by a plain loop in float32."""
    f = np.float32
    u = np.array([3 if i == 4 else 0 for i in range(CELLS)], f) if u is None else u.astype(f)
    v, states = np.full(CELLS, np.nan, f), []
    for _ in range(repeats):
        for i in range(CELLS):
            v[i] = f(0.25) * u[max(i - 1, 0)] + f(0.5) * u[i] + f(0.25) * u[min(i + 1, CELLS - 1)]
        states.append((u.copy(), v.copy()))
        u = v.copy()
        states.append((u.copy(), v.copy()))
    return states


class Sums(Vertex):
    """Adds two numbers into an element on another tile, and counts."""

    values: Input[Vector[FLOAT]]
    out: Output[FLOAT]
    count: InOut[INT]

    def compute(self) -> None:
        self.out = self.values[0] + self.values[1]
        self.count += 1


def halo_recording() -> tuple[Recording, Report, dict[str, Any]]:
    """Return a recording, its report, and the recorded tensors by name.

    A Copy sends 0.75 from tile 1 to tile 3; a vertex on tile 2 reads tiles 1 and 3 and writes to
    tile 0.
    """
    device = IPUModel("ipu2", tiles_per_ipu=5).create_device()
    graph = Graph(device.target)
    made = {name: graph.add_variable(FLOAT, (2,), name) for name in ("a", "b")}
    made |= {
        "sum": graph.add_variable(FLOAT, (), "sum"),
        "count": graph.add_variable(INT, (), "count"),
    }
    for name, tile in (("a", 1), ("b", 3), ("sum", 0), ("count", 2)):
        graph.set_tile_mapping(made[name], tile)
    graph.set_initial_value(made["count"], 7)
    stream = graph.add_host_to_device_fifo("in", FLOAT, 2)
    work = graph.add_compute_set("work")
    both = concat(made["a"][1].expand([0]), made["b"][0].expand([0]))
    vertex = graph.add_vertex(work, Sums, values=both, out=made["sum"], count=made["count"])
    graph.set_tile_mapping(vertex, 2)
    program: Program = Sequence(Copy(stream, made["a"]), Copy(made["a"], made["b"]), Execute(work))
    engine = Engine(graph, program)
    recording = engine.record(*made.values())
    engine.load(device)
    engine.connect_stream("in", np.array([0.75, -2], np.float32))
    engine.run()
    return recording, engine.report, made


def merged_copy_recording() -> Recording:
    """Return a recording of one superstep with a vertex and an independent Copy.

    Tile 2 adds two numbers while the Copy sends those of tile 1 to tile 3.
    """
    device = IPUModel("ipu2", tiles_per_ipu=5).create_device()
    graph = Graph(device.target)
    x, total, count = (
        graph.add_variable(t, s, n)
        for t, s, n in ((FLOAT, (2,), "x"), (FLOAT, (), "sum"), (INT, (), "count"))
    )
    a, b = graph.add_variable(FLOAT, (2,), "a"), graph.add_variable(FLOAT, (2,), "b")
    for tensor, tile in ((x, 2), (total, 2), (count, 2), (a, 1), (b, 3)):
        graph.set_tile_mapping(tensor, tile)
    for tensor, value in ((x, (1, 2)), (count, 7), (a, (0.75, -2))):
        graph.set_initial_value(tensor, value)
    work = graph.add_compute_set("work")
    graph.set_tile_mapping(graph.add_vertex(work, Sums, values=x, out=total, count=count), 2)
    engine = Engine(graph, Sequence(Execute(work), Copy(a, b)))
    recording = engine.record(total, a, b)
    engine.load(device)
    engine.run()
    return recording


def large_recording(tiles: int, cells: int, repeats: int) -> Recording:
    """Return a recording of `cells` elements over `tiles` tiles, all of which change in each step."""
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device.target)
    a, b = (graph.add_variable(FLOAT, (cells,), name) for name in "ab")
    graph.set_initial_value(a, np.random.default_rng(1).normal(size=cells))
    graph.set_initial_value(b, np.random.default_rng(2).normal(size=cells))
    each = -(-cells // tiles)
    add = graph.add_compute_set("add")
    for tile in range(tiles):
        part = slice(tile * each, (tile + 1) * each)
        graph.set_tile_mapping(a[part], tile)
        graph.set_tile_mapping(b[part], (tile + 1) % tiles)
        graph.set_tile_mapping(graph.add_vertex(add, Add, a=a[part], b=b[part]), tile)
    engine = Engine(graph, Repeat(repeats, Execute(add)))
    recording = engine.record(a, b, most=1_000_000)
    engine.load(device)
    engine.run()
    return recording


class Add(Vertex):
    """Adds one vector to another."""

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]

    def compute(self) -> None:
        self.a[:] = self.a[:] + self.b[:]


def ring_recording(ipus: int = 3, tiles: int = 6, repeats: int = 2) -> tuple[Recording, Report]:
    """Return a recording and its report: each IPU computes, then sends its data to the next one.

    There is one vertex on each tile; those of IPU 1 are slow.
    """
    device = IPUModel("ipu2", num_ipus=ipus, tiles_per_ipu=tiles).create_device()
    graph = Graph(device)
    a, b = (graph.add_variable(FLOAT, (ipus, tiles, 4), name) for name in "ab")
    graph.set_initial_value(a, np.arange(a.num_elements) - 7.0)
    graph.set_initial_value(b, 1e6)
    steps = []
    for ipu in range(ipus):
        work = graph.add_compute_set(f"work {ipu}")
        for tile in range(tiles):
            at = ipu * tiles + tile
            graph.set_tile_mapping(a[ipu, tile], at)
            graph.set_tile_mapping(b[ipu, tile], at)
            vertex = graph.add_vertex(work, Add, a=a[ipu, tile], b=b[ipu, tile])
            graph.set_tile_mapping(vertex, at)
            graph.set_perf_estimate(vertex, 500 if ipu == 1 else 50)
        steps.append(Execute(work))
    turned = Copy(a, concat([b[(ipu + 1) % ipus] for ipu in range(ipus)]).reshape(b.shape))
    engine = Engine(graph, Repeat(repeats, Sequence(*steps, turned)))
    recording = engine.record(a, b)
    engine.load(device)
    engine.run()
    return recording, engine.report


class Summed(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x[0] + self.x[len(self.x) - 1]


def shifted_sums_recording() -> Recording:
    """Return a recording of sums of neighbours, each of which is written two tiles further on.

    `w` is a copy of `u` one tile further on, which comes back to `u` in reverse order.
    """
    device = IPUModel("ipu2", tiles_per_ipu=5).create_device()
    graph = Graph(device)
    u, w, s = (
        graph.add_variable(FLOAT, (size,), name) for size, name in ((10, "u"), (10, "w"), (5, "s"))
    )
    graph.set_initial_value(u, np.arange(10) / 4)
    compute_set = graph.add_compute_set("add")
    for t in range(5):
        for part, tile in (
            (u[2 * t : 2 * t + 2], t),
            (w[2 * t : 2 * t + 2], (t + 1) % 5),
            (s[t], (t + 2) % 5),
        ):
            graph.set_tile_mapping(part, tile)
        vertex = graph.add_vertex(
            compute_set, Summed, x=u[max(0, 2 * t - 1) : min(10, 2 * t + 3)], out=s[t]
        )
        graph.set_tile_mapping(vertex, t)
    engine = Engine(
        graph, Repeat(2, Sequence(Execute(compute_set), Copy(u, w), Copy(w.reverse(0), u)))
    )
    recording = engine.record(u, w, s)
    engine.load(device)
    engine.run()
    return recording


class More(Vertex):
    before: Input[FLOAT]
    after: Output[FLOAT]

    def compute(self) -> None:
        self.after = self.before + 1


@cache
def round_trip_recording(host: bool, ipus: int) -> Recording:
    """Return a recording of `x`, which travels between neighbouring tiles.

    In each of `ROUNDS` rounds, each element goes one tile on and comes back plus 1. Then it goes two
    tiles on. `host`: `x` comes from the host, and the result goes to it.
    """
    device = IPUModel("ipu2", num_ipus=ipus, tiles_per_ipu=ROUND_TILES // ipus).create_device()
    graph = Graph(device)
    x, y, z = (graph.add_variable(FLOAT, (ROUND_TILES,), name) for name in "xyz")
    graph.set_initial_value(x, np.arange(ROUND_TILES))
    more = graph.add_compute_set("more")
    for tile in range(ROUND_TILES):
        vertex = graph.add_vertex(more, More, before=y[tile], after=x[tile])
        for part, on in ((x[tile], 0), (y[tile], 1), (z[tile], 2), (vertex, 0)):
            graph.set_tile_mapping(part, (tile + on) % ROUND_TILES)
    steps = Sequence(Repeat(ROUNDS, Sequence(Copy(x, y), Execute(more))), Copy(x, z))
    if host:
        into, out = (
            graph.add_host_to_device_fifo("in", FLOAT, ROUND_TILES),
            graph.add_device_to_host_fifo("out", FLOAT, ROUND_TILES),
        )
        steps = Sequence(Copy(into, x), steps, Copy(z, out))
    engine = Engine(graph, steps)
    engine.load(device)
    if host:
        engine.connect_stream("in", np.arange(ROUND_TILES, dtype=np.float32))
        engine.connect_stream("out", np.empty(ROUND_TILES, np.float32))
    recording = engine.record(x, y, z)
    engine.run()
    return recording


class Kept(Vertex):
    x: Input[Vector[FLOAT]]
    y: InOut[Vector[FLOAT]]
    total: FLOAT = 0.0

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > 0:
                self.total += self.x[i]
            self.y[i] += self.total


def kept_recording(*names: str, first: int = 0) -> tuple[Recording, list[Any]]:
    """Return a recording of the tensors `names`, and the two vertices of the program.

    The program executes `Kept` on two tiles three times; each time, `y` is copied to `x`. It runs
    `first` times before the recording.
    """
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    graph = Graph(device)
    of = {name: graph.add_variable(FLOAT, (14,), name) for name in ("x", "y")}
    compute_set, vertices = graph.add_compute_set("kept"), []
    graph.set_initial_value(of["x"], np.arange(14) - 2.0)
    graph.set_initial_value(of["y"], 0.5)
    for tile in range(2):
        x, y = (variable[7 * tile : 7 * tile + 7] for variable in of.values())
        vertices.append(graph.add_vertex(compute_set, Kept, x=x, y=y.reverse(0)))
        for part in (x, y, vertices[-1]):
            graph.set_tile_mapping(part, tile)
    engine = Engine(graph, Repeat(3, Sequence(Execute(compute_set), Copy(of["y"], of["x"]))))
    engine.load(device)
    for _ in range(first):
        engine.run()
    recording = engine.record(*(of[name] for name in names))
    engine.run()
    return recording, vertices


class Blur(Vertex):
    """The mean of each element and its neighbours, of a stretch of a line."""

    left: Input[Vector[FLOAT]]
    middle: Input[Vector[FLOAT]]
    right: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        padded = np.concatenate((self.left, self.middle, self.right))
        self.out[:] = (padded[:-2] + padded[1:-1] + padded[2:]) / 3


def stencil(tiles: int, floats: int, ipus: int, repeats: int = 3) -> Recording:
    """A line of `floats` elements a tile, each tile beside its neighbours, blurred to and fro."""
    device = IPUModel("ipu2", tiles_per_ipu=tiles // ipus, num_ipus=ipus).create_device()
    graph, n = Graph(device.target), tiles * floats
    lines = [graph.add_variable(FLOAT, (n + 2,), name) for name in ("even", "odd")]
    rng = np.random.default_rng(0)
    for line in lines:
        graph.set_tile_mapping(line[0], 0)
        graph.set_tile_mapping(line[n + 1], tiles - 1)
        graph.set_initial_value(line, rng.normal(size=n + 2))
    body = []
    for here, there in (lines, lines[::-1]):
        blur = graph.add_compute_set("blur")
        for tile in range(tiles):
            first, last = 1 + tile * floats, 1 + (tile + 1) * floats
            graph.set_tile_mapping(here[first:last], tile)
            fields = {"left": here[first - 1 : first], "right": here[last : last + 1]}
            fields |= {"middle": here[first:last], "out": there[first:last]}
            graph.set_tile_mapping(graph.add_vertex(blur, Blur, **fields), tile)
        body.append(Execute(blur))
    engine = Engine(graph, Repeat(repeats, Sequence(*body)))
    recording = engine.record(*lines)
    engine.load(device)
    engine.run()
    return recording


def replicated() -> Recording:
    """An all-reduce over four replicas of two tiles."""
    graph = Graph(IPUModel(num_ipus=4, tiles_per_ipu=2).create_device(), replication_factor=4)
    x, prog = graph.add_variable(FLOAT, (8,), "x"), Sequence()
    graph.set_tile_mapping(x, 0)
    graph.set_initial_value(x, 1.0)
    y = graph.add_variable(FLOAT, (8,), "y")
    graph.set_tile_mapping(y, 1)
    prog.add(Copy(x, y))
    result = gcl.all_reduce_cross_replica(graph, y, "ADD", prog)
    engine = Engine(graph, prog)
    recording = engine.record(x, y, result)
    engine.load(IPUModel(num_ipus=4, tiles_per_ipu=2).create_device())
    engine.run()
    return recording
