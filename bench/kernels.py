"""Compare the tile engine's time for a workload with plain numpy on the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from bench import codelets
from bench.measure import Row, Work
from ipu_teach.device import IPUModel
from ipu_teach.engine import Engine
from ipu_teach.graph import Graph, Tensor, Vertex
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT, Array, DType

TILES = 1472
WORKERS = 6
_blas = ThreadpoolController()


def threads(count: int, call: Work) -> Work:
    """Return `call` limited to this many BLAS threads."""

    def limited() -> None:
        with _blas.limit(limits=count):
            call()

    return limited


def source() -> np.random.Generator:
    return np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return source().standard_normal(shape, np.float32)


class Chip:
    """One full chip, or several, with a graph to fill."""

    def __init__(self, num_ipus: int = 1, **fields: Any) -> None:
        self.device = IPUModel(num_ipus=num_ipus, **fields).create_device()
        self.graph = Graph(self.device)
        self.tiles = num_ipus * TILES

    def variable(
        self, name: str, values: Array, dtype: type[DType] = FLOAT, parts: int = 0
    ) -> Tensor:
        """Return a variable with `values`, in `parts` parts over the tiles.

        Part i is on the tile where `execute` puts vertex i of that many.
        """
        tensor = self.graph.add_variable(dtype, values.shape, name)
        flat, size, parts = tensor.flatten(), values.size, parts or self.tiles
        for part in range(parts):
            begin, end = size * part // parts, size * (part + 1) // parts
            if end > begin:
                self.graph.set_tile_mapping(flat[begin:end], part * self.tiles // parts)
        self.graph.set_initial_value(tensor, values)
        return tensor

    def execute(self, name: str, codelet: type[Vertex], count: int, /, **fields: Any) -> Program:
        """Return a compute set of `count` vertices, spread over the tiles."""
        compute_set = self.graph.add_compute_set(name)
        self.graph.add_vertices(
            compute_set, codelet, np.arange(count) * self.tiles // count, **fields
        )
        return Execute(compute_set)

    def engine(self, program: Program | list[Program], **how: Any) -> Engine:
        engine = Engine(self.graph, program, **{"strict": False, "backend": "numpy", **how})
        engine.load(self.device)
        return engine


def matvec(dot: type[Vertex], add: type[Vertex], blas: int) -> tuple[Work, Work]:
    """Return the product of a 10,000 x 1,000 matrix and a vector by codelets, and by BLAS."""
    rows, columns, parts = 10_000, 1_000, 7
    matrix, vector = floats(rows, columns), floats(columns)
    chip = Chip()
    a, b = chip.variable("matrix", matrix), chip.variable("vector", vector)
    partials, out = (
        chip.variable("partials", np.zeros((rows, parts), np.float32)),
        chip.variable("out", np.zeros(rows)),
    )
    dots = chip.graph.add_compute_set("dots")
    length = -(-columns // parts)
    for part in range(parts):
        begin, end = part * length, min(columns, (part + 1) * length)
        chip.graph.add_vertices(
            dots,
            dot,
            np.arange(rows) * TILES // rows,
            a=a[:, begin:end],
            b=b[begin:end].reshape((1, end - begin)),
            out=partials[:, part],
        )
    engine = chip.engine(
        Sequence(Execute(dots), chip.execute("sums", add, rows, x=partials, out=out))
    )
    result = np.empty(rows, np.float32)
    return engine.run, threads(blas, lambda: np.matmul(matrix, vector, out=result))


def elementwise() -> tuple[Work, Work]:
    """Return relu(a x + y) on regions whose sizes differ by one, and the same in numpy."""
    count, size = TILES * WORKERS, 8_840_000
    x, y = floats(size), floats(size)
    chip = Chip()
    tensors = [
        chip.variable(name, values)
        for name, values in (("x", x), ("y", y), ("out", np.zeros(size, np.float32)))
    ]
    compute_set = chip.graph.add_compute_set("uneven")
    for number in range(count):
        begin, end = size * number // count, size * (number + 1) // count
        edges = {
            name: tensor[begin:end] for name, tensor in zip(("x", "y", "out"), tensors, strict=True)
        }
        vertex = chip.graph.add_vertex(compute_set, codelets.AxpyRelu, edges)
        chip.graph.set_tile_mapping(vertex, number // WORKERS)
    return chip.engine(Execute(compute_set)).run, lambda: np.maximum(x * 2.5 + y, 0)


SIZE = 1024  # side of the matrices


def product(exact: bool) -> tuple[Work, Work]:
    """Return a product of square matrices in square blocks, and the same in numpy.

    There is one vertex per block.
    """
    size, block = SIZE, 32
    n = size // block
    left, right = floats(size, size), floats(size, size)
    chip = Chip()
    a, b, c = (
        chip.variable(name, v)
        for name, v in (("a", left), ("b", right), ("c", np.zeros_like(left)))
    )
    compute_set = chip.graph.add_compute_set("blocks")
    for i in range(n):
        for j in range(n):
            rows, columns = slice(i * block, (i + 1) * block), slice(j * block, (j + 1) * block)
            edges = {"a": a[rows], "b": b[:, columns], "out": c[rows, columns]}
            vertex = chip.graph.add_vertex(compute_set, codelets.BlockProduct, edges)
            chip.graph.set_tile_mapping(vertex, i * n + j)
    out = np.empty_like(left)
    return chip.engine(Execute(compute_set), exact=exact).run, threads(
        1, lambda: np.matmul(left, right, out=out)
    )


PIXELS, CLASSES, RATE = 784, 10, 0.1
SMALL_BATCH, SMALL_STEPS, LARGE_BATCH = 64, 100, 60_000


def plain_step(x: Array, wanted: Array, xp: Any = np) -> Callable[[], Array]:
    """Return a step of logistic regression as usual in numpy, which returns the weights.

    `xp` is numpy, or a module like it.
    """
    x, wanted = xp.asarray(x), xp.asarray(wanted)
    weights: Array
    weights, bias = xp.zeros((PIXELS, CLASSES), np.float32), xp.zeros(CLASSES, np.float32)

    def step() -> Array:
        scores = x @ weights + bias
        e = xp.exp(scores - scores.max(axis=1, keepdims=True))
        deltas = e / e.sum(axis=1, keepdims=True) - wanted
        xp.subtract(weights, x.T @ deltas * np.float32(RATE), out=weights)
        xp.subtract(bias, deltas.sum(axis=0) * np.float32(RATE), out=bias)
        return weights

    return step


def pictures_and_labels(batch: int) -> tuple[Array, Array]:
    """Return random pictures, one per row, and for each a row with a 1 at its class."""
    return floats(batch, PIXELS), np.eye(CLASSES, dtype=np.float32)[
        source().integers(0, CLASSES, batch)
    ]


def small_step(**how: Any) -> tuple[Engine, Work, int]:
    """Return (engine, numpy's step, steps of a run) of logistic regression on 64 pictures.

    The graph has 905 vertices.
    """
    batch, block, steps = SMALL_BATCH, 14, SMALL_STEPS
    x, wanted = pictures_and_labels(batch)
    chip = Chip()
    images, labels = chip.variable("x", x), chip.variable("wanted", wanted)
    weights, bias = (
        chip.variable("weights", np.zeros((PIXELS, CLASSES))),
        chip.variable("bias", np.zeros(CLASSES)),
    )
    deltas, slopes = (
        chip.variable("deltas", np.zeros((batch, CLASSES))),
        chip.variable("slopes", np.zeros((PIXELS, CLASSES))),
    )
    blocks = PIXELS // block
    columns = images.reshape((batch, blocks, block)).dim_shuffle([1, 0, 2])
    last = chip.graph.add_compute_set("learn")
    chip.graph.add_vertices(last, codelets.Learn, np.arange(PIXELS), weights=weights, slopes=slopes)
    chip.graph.add_vertices(
        last, codelets.LearnSums, 1, weights=bias.reshape((1, CLASSES)), slopes=deltas.expand([0])
    )
    program = Sequence(
        chip.execute(
            "deltas",
            codelets.RowDeltas,
            batch,
            x=images,
            weights=weights.expand([0]),
            bias=bias.expand([0]),
            wanted=labels,
            deltas=deltas,
        ),
        chip.execute(
            "slopes",
            codelets.Slopes,
            blocks,
            x=columns,
            deltas=deltas.expand([0]),
            out=slopes.reshape((blocks, block, CLASSES)),
        ),
        Execute(last),
    )
    return chip.engine(Repeat(steps, program), **how), threads(1, plain_step(x, wanted)), steps


def small(exact: bool) -> tuple[Work, Work]:
    """Return a hundred steps of logistic regression on 64 pictures, and the same in numpy."""
    engine, step, steps = small_step(exact=exact)

    def floor() -> None:
        for _ in range(steps):
            step()

    return engine.run, floor


def large_step(x: Array, wanted: Array, **how: Any) -> Engine:
    """Return a step of logistic regression on a multiple of 400 pictures, all on the chip."""
    rows, groups, pieces = 50, 8, 196
    blocks, wide = len(x) // rows, PIXELS * CLASSES // pieces
    chip = Chip()
    # A block of pictures and all its results are on the tile of its vertex, where two blocks would
    # not fit.
    images = chip.variable("x", x, parts=blocks).reshape((blocks, rows, PIXELS))
    labels = chip.variable("wanted", wanted, parts=blocks).reshape((blocks, rows, CLASSES))
    weights, bias = (
        chip.variable("weights", np.zeros((PIXELS, CLASSES))),
        chip.variable("bias", np.zeros(CLASSES)),
    )
    deltas = chip.variable("deltas", np.zeros((blocks, rows, CLASSES)), parts=blocks)
    partials = chip.variable("partials", np.zeros((blocks, PIXELS, CLASSES)), parts=blocks)
    biases = chip.variable("biases", np.zeros((blocks, CLASSES)), parts=blocks)
    sums = chip.variable("sums", np.zeros((groups, PIXELS, CLASSES)))
    # The gradients of all blocks are far larger than a tile's memory, so each vertex adds one piece
    # for a group of blocks.
    by_piece = partials.reshape((groups, blocks // groups, pieces, wide)).dim_shuffle([0, 2, 1, 3])
    program = Sequence(
        chip.execute(
            "deltas",
            codelets.BlockDeltas,
            blocks,
            x=images,
            weights=weights.expand([0]),
            bias=bias.expand([0]),
            wanted=labels,
            deltas=deltas,
        ),
        chip.execute(
            "slopes",
            codelets.SlopesAndBias,
            blocks,
            x=images,
            deltas=deltas,
            out=partials,
            bias=biases,
        ),
        chip.execute(
            "sums",
            codelets.ColumnSums,
            groups * pieces,
            x=by_piece.flatten(0, 2),
            out=sums.reshape((groups * pieces, wide)),
        ),
        chip.execute(
            "learn", codelets.LearnSums, PIXELS, weights=weights, slopes=sums.dim_shuffle([1, 0, 2])
        ),
        chip.execute(
            "learn bias", codelets.LearnSums, 1, weights=bias.expand([0]), slopes=biases.expand([0])
        ),
    )
    return chip.engine(program, **how)


def _large() -> tuple[Work, Work]:
    x, wanted = pictures_and_labels(LARGE_BATCH)
    return large_step(x, wanted).run, threads(1, plain_step(x, wanted))


STEPS = 10


def stencil(
    codelet: type[Vertex], picture: Array, down: int, across: int, num_ipus: int = 1, **how: Any
) -> Engine:
    """Return ten steps of a stencil on a picture of `down` x `across` tiles.

    The picture has one more element on each side.
    """
    side = (len(picture) - 2) // down
    chip = Chip(num_ipus)
    x, out = (
        chip.variable("x", picture),
        chip.variable("out", np.zeros((down * side, across * side))),
    )
    compute_set = chip.graph.add_compute_set("stencil")
    for i in range(down):
        for j in range(across):
            top, left = i * side, j * side
            edges = {
                "x": x[top : top + side + 2, left : left + side + 2],
                "out": out[top : top + side, left : left + side],
            }
            chip.graph.set_tile_mapping(
                chip.graph.add_vertex(compute_set, codelet, edges), i * across + j
            )
    return chip.engine(Repeat(STEPS, Execute(compute_set)), **how)


def plain_stencil(picture: Any) -> Callable[[], Any]:
    """Return the same steps on an array of numpy, or of a module like it.

    They return the last step's picture. The picture of a step is freed before the next one is made,
    as in the other rows.
    """

    def step() -> Any:
        return (
            picture[:-2, 1:-1] + picture[2:, 1:-1] + picture[1:-1, :-2] + picture[1:-1, 2:]
        ) * 0.25

    def steps() -> Any:
        for _ in range(STEPS - 1):
            step()
        return step()

    return steps


def pictures(codelet: type[Vertex], side: int) -> tuple[Work, Work]:
    """Return a stencil on 1,472 tiles of `side` x `side` elements, and the same in numpy."""
    down, across = 32, 46
    picture = floats(down * side + 2, across * side + 2)
    return stencil(codelet, picture, down, across).run, plain_stencil(picture)


def collatz() -> tuple[Work, Work]:
    """Return a codelet whose loop ends at a different time in every vertex, and the vertex loop."""
    numbers = source().integers(1, 100_000, TILES * WORKERS).astype(np.int32)
    return _diverging(codelets.Collatz, {"n": (numbers, INT), "out": (np.zeros_like(numbers), INT)})


def _first_past() -> tuple[Work, Work]:
    count, length = TILES * WORKERS, 143
    x, limit = np.abs(floats(count, length)), source().random(count, np.float32) * 100
    return _diverging(
        codelets.FirstPast,
        {"x": (x, FLOAT), "limit": (limit, FLOAT), "out": (np.zeros(count), UNSIGNED_INT)},
    )


def _diverging(
    codelet: type[Vertex], fields: dict[str, tuple[Array, type[DType]]]
) -> tuple[Work, Work]:
    """Return the codelet as the engine runs it, and the plain vertex loop."""
    engines = []
    for loop in (False, True):
        chip = Chip()
        tensors = {
            name: chip.variable(name, values, dtype) for name, (values, dtype) in fields.items()
        }
        engines.append(
            chip.engine(
                chip.execute("loops", codelet, TILES * WORKERS, **tensors), vertex_loop=loop
            )
        )
    return _warm(engines[0].run, engines[1].run, 12)


def ping_pong(layers: int = 64, width: int = 128, rows: int = 4) -> tuple[Work, Work]:
    """Return layers that alternate between two chips, and the same layers in numpy.

    Each tile has `rows` rows of the activations. While one chip computes, the other loads its next
    weights from streaming memory.
    """
    chip = Chip(2, sync_pattern="SINGLE_PIPELINE")
    graph, x = chip.graph, floats(TILES, rows, width)
    weights = floats(layers, width, width) / np.float32(np.sqrt(width))
    buffer = graph.add_remote_buffer("weights", FLOAT, width * width, layers)
    numbers = graph.add_constant(UNSIGNED_INT, (layers,), np.arange(layers))
    graph.set_tile_mapping(numbers, 0)
    given: list[Tensor] = []
    made: list[Tensor] = []
    w, work = [], []
    for ipu in range(2):
        part = graph.create_virtual_graph(ipu * TILES, (ipu + 1) * TILES)
        for into, name in ((given, "x"), (made, "y")):
            into.append(part.add_variable(FLOAT, x.shape, f"{name}{ipu}"))
            part.set_tile_mapping(into[-1], np.arange(TILES))
        w.append(part.add_variable(FLOAT, (width, width), f"w{ipu}"))
        part.set_tile_mapping(w[-1], np.arange(width) * TILES // width)
        edges = {"x": given[ipu], "w": w[ipu].reshape((1, width, width)), "out": made[ipu]}
        compute_set = part.add_compute_set(f"layer{ipu}")
        part.add_vertices(compute_set, codelets.Layer, np.arange(TILES), **edges)
        work.append(Execute(compute_set))
    program = Sequence(Copy(buffer, w[0], numbers[0:1]))
    for n in range(layers):
        there = (n + 1) % 2
        program.add(work[n % 2])
        if n + 1 < layers:
            program.add(Copy(buffer, w[there], numbers[n + 1 : n + 2]))
            program.add(Copy(made[n % 2], given[there]))
    graph.set_initial_value(given[0], x)
    engine, missing = chip.engine(program), list(enumerate(weights))

    def run() -> None:
        while missing:  # on the first run, the host writes them
            n, values = missing.pop()
            engine.copy_to_remote_buffer(values.reshape(-1), "weights", n)
        engine.run()

    def plain() -> None:
        y = x.reshape(-1, width)
        for values in weights:
            y = np.tanh(y @ values)

    return run, threads(1, plain)


def _warm(run: Work, floor: Work, runs: int) -> tuple[Work, Work]:
    """Return the pair with this many more runs in the first round.

    That is enough for a loop over elements to be compiled, if compiling pays and numba is
    installed.
    """
    waiting = [runs]

    def warm() -> None:
        for _ in range(waiting.pop() if waiting else 1):
            run()

    return warm, floor


ROWS = [
    Row(
        "w1a",
        "matvec 10,000 x 1,000, `a @ b`",
        "gemv, one thread",
        3.0,
        lambda: matvec(codelets.Dot, codelets.Sum, 1),
    ),
    Row(
        "w1b",
        "the same, loop style",
        "gemv, two threads",
        14,
        lambda: _warm(*matvec(codelets.DotLoop, codelets.SumLoop, 2), 160),
        threads=True,
    ),
    Row("w2", "relu(a x + y), 8.84 million elements, uneven", "plain numpy", 0.55, elementwise),
    Row(
        "w3",
        "matmul 1024, 32 x 32 blocks, exact=False",
        "sgemm on as many threads",
        1.1,
        lambda: product(False),
    ),
    Row("w3x", "the same, exact", "sgemm on as many threads", 2.6, lambda: product(True)),
    Row("w4a", "logistic step, batch 64, exact=False", "numpy", 1.5, lambda: small(False)),
    Row("w4ax", "the same, exact", "numpy", 3.5, lambda: small(True)),
    Row("w4b", "logistic step, batch 60,000", "numpy", 1.15, _large),
    Row(
        "w5a", "stencil, 1,472 tiles of 8 x 8", "numpy", 2.0, lambda: pictures(codelets.Stencil, 8)
    ),
    Row(
        "w5b",
        "stencil, 1,472 tiles of 64 x 64",
        "numpy",
        0.8,
        lambda: pictures(codelets.Stencil, 64),
    ),
    Row(
        "w5c",
        "stencil, 8 x 8, loop style",
        "numpy",
        3,
        lambda: _warm(*pictures(codelets.StencilLoop, 8), 2000),
    ),
    Row("w6i", "divergent integer codelet (Collatz)", "the vertex loop", 0.25, collatz),
    Row(
        "w6f", "divergent float codelet (first past a limit)", "the vertex loop", 0.125, _first_past
    ),
    Row("w7", "ping-pong of 64 layers, two chips", "numpy, one thread", 5, ping_pong),
]
