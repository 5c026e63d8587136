"""Compare the engine's time for a workload with plain numpy on the same numbers."""

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

# The number of tiles of a chip.
TILES = 1472
# The number of workers of a tile.
WORKERS = 6
_blas = ThreadpoolController()


def threads(num_threads: int, call: Work) -> Work:
    """Return a function that calls `call` with at most `num_threads` BLAS threads."""

    def call_with_limit() -> None:
        with _blas.limit(limits=num_threads):
            call()

    return call_with_limit


def source() -> np.random.Generator:
    return np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return source().standard_normal(shape, np.float32)


class Chip:
    """A device with `num_ipus` full chips, and an empty graph for it."""

    def __init__(self, num_ipus: int = 1, **fields: Any) -> None:
        self.device = IPUModel(num_ipus=num_ipus, **fields).create_device()
        self.graph = Graph(self.device)
        self.tiles = num_ipus * TILES

    def variable(
        self, name: str, values: Array, dtype: type[DType] = FLOAT, parts: int = 0
    ) -> Tensor:
        """Return a variable with `values`, divided into `parts` parts over the tiles.

        If `execute` adds `parts` vertices, part i is on the tile of vertex i. By default, each tile
        has one part.
        """
        tensor = self.graph.add_variable(dtype, values.shape, name)
        flat_tensor, num_elements, parts = (
            tensor.flatten(),
            values.size,
            parts or self.tiles,
        )
        for part in range(parts):
            start, stop = num_elements * part // parts, num_elements * (part + 1) // parts
            if stop > start:
                self.graph.set_tile_mapping(flat_tensor[start:stop], part * self.tiles // parts)
        self.graph.set_initial_value(tensor, values)
        return tensor

    def execute(self, name: str, codelet: type[Vertex], count: int, /, **fields: Any) -> Program:
        """Return a program that executes a compute set of `count` vertices on all tiles."""
        compute_set = self.graph.add_compute_set(name)
        self.graph.add_vertices(
            compute_set, codelet, np.arange(count) * self.tiles // count, **fields
        )
        return Execute(compute_set)

    def engine(self, program: Program | list[Program], **how: Any) -> Engine:
        engine = Engine(self.graph, program, **{"strict": False, "backend": "numpy", **how})
        engine.load(self.device)
        return engine


def matvec(dot: type[Vertex], add: type[Vertex], blas_threads: int) -> tuple[Work, Work]:
    """Return two functions to time: a matrix-vector product by codelets, and by BLAS.

    The matrix is 10,000 x 1,000.
    """
    rows, columns, num_parts = 10_000, 1_000, 7
    matrix, vector = floats(rows, columns), floats(columns)
    chip = Chip()
    matrix_tensor, vector_tensor = chip.variable("matrix", matrix), chip.variable("vector", vector)
    partials, result_tensor = (
        chip.variable("partials", np.zeros((rows, num_parts), np.float32)),
        chip.variable("out", np.zeros(rows)),
    )
    dots = chip.graph.add_compute_set("dots")
    length = -(-columns // num_parts)
    for part in range(num_parts):
        begin, end = part * length, min(columns, (part + 1) * length)
        chip.graph.add_vertices(
            dots,
            dot,
            np.arange(rows) * TILES // rows,
            a=matrix_tensor[:, begin:end],
            b=vector_tensor[begin:end].reshape((1, end - begin)),
            out=partials[:, part],
        )
    engine = chip.engine(
        Sequence(Execute(dots), chip.execute("sums", add, rows, x=partials, out=result_tensor))
    )
    result = np.empty(rows, np.float32)
    return engine.run, threads(blas_threads, lambda: np.matmul(matrix, vector, out=result))


def elementwise() -> tuple[Work, Work]:
    """Return two functions to time: relu(2.5 x + y) by codelets, and in numpy.

    The vertices process regions of two sizes.
    """
    num_vertices, num_elements = TILES * WORKERS, 8_840_000
    x, y = floats(num_elements), floats(num_elements)
    chip = Chip()
    tensors = [
        chip.variable(name, values)
        for name, values in (("x", x), ("y", y), ("out", np.zeros(num_elements, np.float32)))
    ]
    compute_set = chip.graph.add_compute_set("uneven")
    for vertex_number in range(num_vertices):
        begin, end = (
            num_elements * vertex_number // num_vertices,
            num_elements * (vertex_number + 1) // num_vertices,
        )
        edges = {
            name: tensor[begin:end] for name, tensor in zip(("x", "y", "out"), tensors, strict=True)
        }
        vertex = chip.graph.add_vertex(compute_set, codelets.AxpyRelu, edges)
        chip.graph.set_tile_mapping(vertex, vertex_number // WORKERS)
    return chip.engine(Execute(compute_set)).run, lambda: np.maximum(x * 2.5 + y, 0)


SIZE = 1024  # The matrices have SIZE x SIZE elements.


def product(exact: bool) -> tuple[Work, Work]:
    """Return two functions to time: a product of square matrices by codelets, and in numpy.

    Each vertex computes a block of the product.
    """
    size, block = SIZE, 32
    num_blocks = size // block
    left, right = floats(size, size), floats(size, size)
    chip = Chip()
    left_tensor, right_tensor, product_tensor = (
        chip.variable(name, values)
        for name, values in (("a", left), ("b", right), ("c", np.zeros_like(left)))
    )
    compute_set = chip.graph.add_compute_set("blocks")
    for i in range(num_blocks):
        for j in range(num_blocks):
            rows, columns = slice(i * block, (i + 1) * block), slice(j * block, (j + 1) * block)
            edges = {
                "a": left_tensor[rows],
                "b": right_tensor[:, columns],
                "out": product_tensor[rows, columns],
            }
            vertex = chip.graph.add_vertex(compute_set, codelets.BlockProduct, edges)
            chip.graph.set_tile_mapping(vertex, i * num_blocks + j)
    result = np.empty_like(left)
    return chip.engine(Execute(compute_set), exact=exact).run, threads(
        1, lambda: np.matmul(left, right, out=result)
    )


PIXELS, CLASSES, RATE = 784, 10, 0.1
SMALL_BATCH, SMALL_STEPS, LARGE_BATCH = 64, 100, 60_000


def plain_step(x: Array, labels: Array, xp: Any = np) -> Callable[[], Array]:
    """Return a step of logistic regression in numpy, a function that returns the weights.

    `x` has pictures, float[batch, PIXELS], and `labels` their labels, float[batch, CLASSES]. `xp`
    is numpy, or a module with the same functions.
    """
    x, labels = xp.asarray(x), xp.asarray(labels)
    weights: Array
    weights, bias = xp.zeros((PIXELS, CLASSES), np.float32), xp.zeros(CLASSES, np.float32)

    def step() -> Array:
        scores = x @ weights + bias
        exponentials = xp.exp(scores - scores.max(axis=1, keepdims=True))
        differences = exponentials / exponentials.sum(axis=1, keepdims=True) - labels
        xp.subtract(weights, x.T @ differences * np.float32(RATE), out=weights)
        xp.subtract(bias, differences.sum(axis=0) * np.float32(RATE), out=bias)
        return weights

    return step


def pictures_and_labels(batch: int) -> tuple[Array, Array]:
    """Return random pictures and their labels.

    Pictures are float[batch, PIXELS]; labels are float[batch, CLASSES], with a 1 at the class.
    """
    return floats(batch, PIXELS), np.eye(CLASSES, dtype=np.float32)[
        source().integers(0, CLASSES, batch)
    ]


def small_step(**how: Any) -> tuple[Engine, Work, int]:
    """Return (engine, step in numpy, steps per run) for logistic regression on 64 pictures.

    The graph has 905 vertices.
    """
    batch, pixels_per_block, num_steps = SMALL_BATCH, 14, SMALL_STEPS
    pictures, labels_values = pictures_and_labels(batch)
    chip = Chip()
    images, labels_tensor = chip.variable("x", pictures), chip.variable("wanted", labels_values)
    weights, bias = (
        chip.variable("weights", np.zeros((PIXELS, CLASSES))),
        chip.variable("bias", np.zeros(CLASSES)),
    )
    deltas, gradients = (
        chip.variable("deltas", np.zeros((batch, CLASSES))),
        chip.variable("slopes", np.zeros((PIXELS, CLASSES))),
    )
    num_blocks = PIXELS // pixels_per_block
    columns = images.reshape((batch, num_blocks, pixels_per_block)).dim_shuffle([1, 0, 2])
    learn = chip.graph.add_compute_set("learn")
    chip.graph.add_vertices(
        learn, codelets.Learn, np.arange(PIXELS), weights=weights, slopes=gradients
    )
    chip.graph.add_vertices(
        learn, codelets.LearnSums, 1, weights=bias.reshape((1, CLASSES)), slopes=deltas.expand([0])
    )
    program = Sequence(
        chip.execute(
            "deltas",
            codelets.RowDeltas,
            batch,
            x=images,
            weights=weights.expand([0]),
            bias=bias.expand([0]),
            wanted=labels_tensor,
            deltas=deltas,
        ),
        chip.execute(
            "slopes",
            codelets.Slopes,
            num_blocks,
            x=columns,
            deltas=deltas.expand([0]),
            out=gradients.reshape((num_blocks, pixels_per_block, CLASSES)),
        ),
        Execute(learn),
    )
    return (
        chip.engine(Repeat(num_steps, program), **how),
        threads(1, plain_step(pictures, labels_values)),
        num_steps,
    )


def small(exact: bool) -> tuple[Work, Work]:
    """Return two functions to time: logistic regression in the engine, and in numpy.

    Both compute a hundred steps on 64 pictures.
    """
    engine, step, num_steps = small_step(exact=exact)

    def numpy_steps() -> None:
        for _ in range(num_steps):
            step()

    return engine.run, numpy_steps


def large_step(pictures: Array, label_values: Array, **how: Any) -> Engine:
    """Return the engine for a step of logistic regression on pictures that are stored on the chip.

    The number of pictures must be a multiple of 400.
    """
    pictures_per_block, num_groups, num_pieces = 50, 8, 196
    num_blocks, piece_length = len(pictures) // pictures_per_block, PIXELS * CLASSES // num_pieces
    chip = Chip()
    # Each tile has one block of pictures with all its results. Two blocks would not fit.
    images = chip.variable("x", pictures, parts=num_blocks).reshape(
        (num_blocks, pictures_per_block, PIXELS)
    )
    labels = chip.variable("wanted", label_values, parts=num_blocks).reshape(
        (num_blocks, pictures_per_block, CLASSES)
    )
    weights, bias = (
        chip.variable("weights", np.zeros((PIXELS, CLASSES))),
        chip.variable("bias", np.zeros(CLASSES)),
    )
    deltas = chip.variable(
        "deltas", np.zeros((num_blocks, pictures_per_block, CLASSES)), parts=num_blocks
    )
    partials = chip.variable("partials", np.zeros((num_blocks, PIXELS, CLASSES)), parts=num_blocks)
    biases = chip.variable("biases", np.zeros((num_blocks, CLASSES)), parts=num_blocks)
    sums = chip.variable("sums", np.zeros((num_groups, PIXELS, CLASSES)))
    # The gradients of all blocks together are far larger than a tile's memory. So each vertex adds
    # up only one piece of the gradients, and only for a group of the blocks.
    by_piece = partials.reshape(
        (num_groups, num_blocks // num_groups, num_pieces, piece_length)
    ).dim_shuffle([0, 2, 1, 3])
    program = Sequence(
        chip.execute(
            "deltas",
            codelets.BlockDeltas,
            num_blocks,
            x=images,
            weights=weights.expand([0]),
            bias=bias.expand([0]),
            wanted=labels,
            deltas=deltas,
        ),
        chip.execute(
            "slopes",
            codelets.SlopesAndBias,
            num_blocks,
            x=images,
            deltas=deltas,
            out=partials,
            bias=biases,
        ),
        chip.execute(
            "sums",
            codelets.ColumnSums,
            num_groups * num_pieces,
            x=by_piece.flatten(0, 2),
            out=sums.reshape((num_groups * num_pieces, piece_length)),
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
    """Return the engine for ten steps of a stencil on `down` x `across` tiles.

    `picture` has one more row and column on each side.
    """
    side = (len(picture) - 2) // down
    chip = Chip(num_ipus)
    picture_tensor, result = (
        chip.variable("x", picture),
        chip.variable("out", np.zeros((down * side, across * side))),
    )
    compute_set = chip.graph.add_compute_set("stencil")
    for i in range(down):
        for j in range(across):
            top, left = i * side, j * side
            edges = {
                "x": picture_tensor[top : top + side + 2, left : left + side + 2],
                "out": result[top : top + side, left : left + side],
            }
            chip.graph.set_tile_mapping(
                chip.graph.add_vertex(compute_set, codelet, edges), i * across + j
            )
    return chip.engine(Repeat(STEPS, Execute(compute_set)), **how)


def plain_stencil(picture: Any) -> Callable[[], Any]:
    """Return a function that computes the steps of `stencil` in numpy or a similar module.

    The function returns the picture after the last step. Each picture is freed before the next
    step.
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
    """Return two functions to time: a stencil in the engine, and in numpy.

    The stencil runs on 1,472 tiles of `side` x `side` elements.
    """
    down, across = 32, 46
    picture = floats(down * side + 2, across * side + 2)
    return stencil(codelet, picture, down, across).run, plain_stencil(picture)


def collatz() -> tuple[Work, Work]:
    """Return two functions to time: a codelet in the engine, and a plain loop over its vertices.

    The codelet's own loop takes a different number of iterations in each vertex.
    """
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
    """Return two functions to time: a codelet in the engine, and a plain loop over its vertices."""
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
    """Return two functions to time: layers on two chips in turn, and the same layers in numpy.

    Each tile has `rows` rows of the activations. While one chip computes a layer, the other chip
    loads the weights of the next layer from streaming memory.
    """
    chip = Chip(2, sync_pattern="SINGLE_PIPELINE")
    graph, initial = chip.graph, floats(TILES, rows, width)
    weights = floats(layers, width, width) / np.float32(np.sqrt(width))
    buffer = graph.add_remote_buffer("weights", FLOAT, width * width, layers)
    row_numbers = graph.add_constant(UNSIGNED_INT, (layers,), np.arange(layers))
    graph.set_tile_mapping(row_numbers, 0)
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    weight_tensors, layer_programs = [], []
    for ipu in range(2):
        ipu_graph = graph.create_virtual_graph(ipu * TILES, (ipu + 1) * TILES)
        for tensors, name in ((inputs, "x"), (outputs, "y")):
            tensors.append(ipu_graph.add_variable(FLOAT, initial.shape, f"{name}{ipu}"))
            ipu_graph.set_tile_mapping(tensors[-1], np.arange(TILES))
        weight_tensors.append(ipu_graph.add_variable(FLOAT, (width, width), f"w{ipu}"))
        ipu_graph.set_tile_mapping(weight_tensors[-1], np.arange(width) * TILES // width)
        edges = {
            "x": inputs[ipu],
            "w": weight_tensors[ipu].reshape((1, width, width)),
            "out": outputs[ipu],
        }
        compute_set = ipu_graph.add_compute_set(f"layer{ipu}")
        ipu_graph.add_vertices(compute_set, codelets.Layer, np.arange(TILES), **edges)
        layer_programs.append(Execute(compute_set))
    program = Sequence(Copy(buffer, weight_tensors[0], row_numbers[0:1]))
    for layer in range(layers):
        next_ipu = (layer + 1) % 2
        program.add(layer_programs[layer % 2])
        if layer + 1 < layers:
            program.add(Copy(buffer, weight_tensors[next_ipu], row_numbers[layer + 1 : layer + 2]))
            program.add(Copy(outputs[layer % 2], inputs[next_ipu]))
    graph.set_initial_value(inputs[0], initial)
    engine, unwritten = chip.engine(program), list(enumerate(weights))

    def run() -> None:
        while unwritten:  # The host writes these values on the first run only.
            layer, values = unwritten.pop()
            engine.copy_to_remote_buffer(values.reshape(-1), "weights", layer)
        engine.run()

    def numpy_layers() -> None:
        activations = initial.reshape(-1, width)
        for values in weights:
            activations = np.tanh(activations @ values)

    return run, threads(1, numpy_layers)


def _warm(run: Work, floor: Work, runs: int) -> tuple[Work, Work]:
    """Return `(run, floor)`, where the first call of `run` executes the program `runs` times.

    During these runs, the engine compiles loops over elements, if that saves time and numba is
    installed.
    """
    extra_runs = [runs]

    def run_more() -> None:
        for _ in range(extra_runs.pop() if extra_runs else 1):
            run()

    return run_more, floor


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
