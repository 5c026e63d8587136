"""Programs that the browser tests run twice: here and in the kernel of a notebook."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.browser import Total
from ipu_teach import (
    FLOAT,
    INT,
    Engine,
    Graph,
    InOut,
    IPUModel,
    Output,
    Report,
    Tensor,
    Vertex,
    concat,
)
from ipu_teach.poplibs import poputil
from ipu_teach.program import (
    Block,
    Call,
    Copy,
    Execute,
    If,
    Program,
    Repeat,
    RepeatWhileTrue,
    Sequence,
    Switch,
)
from ipu_teach.show.scene import Lanes, Scene, Tape
from ipu_teach.types import Array


def uneven(
    tiles: int = 13,
    rows: int = 26,
    repeats: int = 3,
    name: str = "total",
    called: str | None = None,
) -> Report:
    """Return the report of sums of rows of different lengths.

    The sums are copied to other tiles, and a vector is copied from one tile to all.
    """
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device.target)
    matrix, sums = (
        graph.add_variable(FLOAT, (rows, 64), "matrix"),
        graph.add_variable(FLOAT, (rows,), "sums"),
    )
    vector, totals = (
        graph.add_variable(FLOAT, (64,), "vector"),
        graph.add_variable(FLOAT, (tiles,), "totals"),
    )
    graph.set_tile_mapping(vector, 0)
    graph.set_initial_value(vector, 1.0)
    first, second = graph.add_compute_set(name), graph.add_compute_set("everywhere")
    for row in range(rows):
        tile = row * tiles // rows
        graph.set_tile_mapping(matrix[row], tile)
        graph.set_tile_mapping(sums[row], (row * 5 + 1) % tiles)
        vertex = graph.add_vertex(first, Total, values=matrix[row][: 64 - row % 32], out=sums[row])
        graph.set_tile_mapping(vertex, tile)
    for tile in range(tiles):
        graph.set_tile_mapping(totals[tile], tile)
        graph.set_tile_mapping(
            graph.add_vertex(second, Total, values=vector, out=totals[tile]), tile
        )
    stream = graph.add_host_to_device_fifo("rows", FLOAT, rows * 64)
    body = Sequence(Execute(first), Execute(second))
    return _run(
        graph,
        device,
        Sequence(Copy(stream, matrix), Repeat(repeats, body)),
        np.ones(rows * 64, np.float32),
        called,
    )


def some_wait(tiles: int) -> Report:
    """Return the report of a program in which every third tile computes and the others wait.

    Before, a row is copied to the neighbouring tile.
    """
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device.target)
    rows, sums = (
        graph.add_variable(FLOAT, (tiles, 1200), "rows"),
        graph.add_variable(FLOAT, (tiles,), "sums"),
    )
    graph.set_initial_value(rows, 1.0)
    work = graph.add_compute_set("some work")
    for tile in range(tiles):
        graph.set_tile_mapping(rows[tile], tile)
        graph.set_tile_mapping(sums[tile], tile)
    for tile in range(0, tiles, 3):
        source = rows[(tile + tile % 2) % tiles, : 300 + 900 * (tile % 5) // 4]
        graph.set_tile_mapping(graph.add_vertex(work, Total, values=source, out=sums[tile]), tile)
    engine = Engine(graph, Execute(work))
    engine.load(device)
    engine.run()
    return engine.report


@dataclass(frozen=True)
class Seen:
    """A phase in a picture, in units of the drawing, and its share of waiting by the caption."""

    left: float
    right: float
    top: float
    bottom: float
    waiting: float


def the_wait(scene: Scene, view: str) -> Seen:
    """Return the phase of computing in a picture of `some_wait`."""
    mark = scene.mark("lanes" if view == "bsp" else "tiles")
    assert isinstance(mark, (Lanes, Tape))
    drawing = scene.drawings[0]
    bar = next(b for b in drawing.bars if scene.codes[int(b.code)].name == "compute")
    scale = mark.width / drawing.span
    lengths = np.broadcast_to(bar.length, mark.count)
    start = float(bar.start)
    share = 1 - float(lengths.mean()) / (bar.end - start)
    return Seen(
        mark.x + start * scale, mark.x + bar.end * scale, mark.y, mark.y + mark.height, share
    )


def waiting_seen(
    pixels: Array, scene: Scene, where: Seen, scale: float, dark: bool = False
) -> float:
    """Return the share of a part of a picture that has the colour of waiting.

    `pixels` are float[height, width, 3] from 0 to 1. A pattern darkens some pixels of a colour, so
    the code of a pixel is the one whose line from its colour to darker ones is nearest.
    """
    part = pixels[
        round(where.top * scale) : round(where.bottom * scale),
        round(where.left * scale) : round(where.right * scale),
    ]
    flat = part.reshape(-1, 3)
    codes = [c for c in scene.codes if c.name in ("waiting", "compute")]
    far = []
    for code in codes:
        colour = np.array([int(code.colour(dark)[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        along = np.clip(flat @ colour / (colour @ colour), 0.6, 1)
        far.append(np.abs(flat - along[:, None] * colour).max(axis=1))
    near = np.array(far)
    known = near.min(axis=0) < 0.08  # all other pixels are background between lanes
    return float((near.argmin(axis=0) == [c.name for c in codes].index("waiting"))[known].mean())


class Down(Vertex):
    """Counts down, and outputs whether anything is left, and whether that is odd."""

    count: InOut[INT]
    left: Output[INT]
    odd: Output[INT]

    def compute(self) -> None:
        self.count = self.count - 1
        self.left = self.count > 0
        self.odd = self.count % 2


class Note(Vertex):
    """Adds one."""

    value: InOut[INT]

    def compute(self) -> None:
        self.value = self.value + 1


def branching(start: int = 5, outer: int = 2) -> tuple[Report, dict[str, int]]:
    """Return the report of a program with every kind of node.

    Return also how often each compute set ran, as counters on the device show.
    """
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph = Graph(device.target)
    state = {name: graph.add_variable(INT, (), name) for name in ("count", "left", "odd", "first")}
    notes = {
        name: graph.add_variable(INT, (), name)
        for name in ("even", "uneven", "zero", "one", "always", "called")
    }
    sets = {name: Execute(graph.add_compute_set(name)) for name in ("down", *notes)}
    for variable in (*state.values(), *notes.values()):
        graph.set_tile_mapping(variable, 1)
        graph.set_initial_value(variable, 0)
    graph.set_initial_value(state["first"], start)
    down = graph.add_vertex(
        sets["down"].compute_set, Down, **{n: state[n] for n in ("count", "left", "odd")}
    )
    graph.set_tile_mapping(down, 1)
    for name, value in notes.items():
        graph.set_tile_mapping(graph.add_vertex(sets[name].compute_set, Note, value=value), 1)
        graph.create_host_read(name, value)
    function = graph.add_function(Sequence(sets["called"], sets["always"]))
    body = Sequence(
        If(state["odd"], sets["uneven"], Sequence(sets["even"], Repeat(2, sets["always"]))),
        Switch(state["odd"], {0: sets["zero"]}, sets["one"]),
        If(state["odd"], Call(function)),
    )
    loop = RepeatWhileTrue(sets["down"], state["left"], body)
    engine = Engine(
        graph,
        Repeat(outer, Sequence(Copy(state["first"], state["count"]), Block(loop, "the loop"))),
    )
    engine.load(device)
    engine.run()
    counted = {name: int(engine.read_tensor(name)) for name in notes}
    return engine.report, counted


def _run(
    graph: Graph, device: object, program: Program, values: object, called: str | None = None
) -> Report:
    engine = Engine(graph, program)
    engine.load(device)  # type: ignore[arg-type]
    engine.connect_stream("rows", values)  # type: ignore[arg-type]
    engine.run(name=called)
    return engine.report


def by_rows(name: str = "matrix") -> Tensor:
    """Return a matrix of 8 x 12 elements with two rows on each of the first four tiles."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device().target)
    matrix = graph.add_variable(FLOAT, (8, 12), name)
    for row in range(8):
        graph.set_tile_mapping(matrix[row], row // 2)
    return matrix


def patches() -> tuple[Tensor, Tensor, Tensor]:
    """Return an image, the matrix of its patches, and the image with its channels first."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    x, planes = graph.add_variable(FLOAT, (1, 5, 5, 2)), graph.add_variable(FLOAT, (1, 2, 5, 5))
    for tensor in (x, planes):
        poputil.map_tensor_linearly(graph, tensor)
    seen = [x[:, i : i + 3, j : j + 3] for i in range(3) for j in range(3)]
    return x, concat(seen, 3).reshape((9, 18)), planes.dim_shuffle([0, 2, 3, 1])
