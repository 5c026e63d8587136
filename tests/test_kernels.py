"""How kernels reach their regions: nests of vertices, pieces of a picture, long flat rows, and
products that are joined."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from codelets import Axpy
from engine_parts import step_action
from graphs import same_bits
from hypothesis import given, strategies as st
from vertex_loop import DEVICE, RANDOMLY, normal, small_limits

from ipu_teach import FLOAT, HALF, Engine, Graph, InOut, Input, Output, Vector, Vertex
from ipu_teach.engine import views
from ipu_teach.engine.batch import batch_plan
from ipu_teach.engine.batch.wide_items import wide_items
from ipu_teach.engine.views import find_nests
from ipu_teach.program import Execute, Repeat
from ipu_teach.types import Array


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_nests_are_the_starts_that_they_were_made_of(rng: Random) -> None:
    """Every vertex once, in order, and each field's starts by its steps; also after the nests are
    cut into pieces."""
    fields = rng.randint(1, 3)
    blocks = []
    for _ in range(rng.randint(1, 4)):
        shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
        steps = [[rng.choice([0, 1, 2, 5, 20, -3]) for _ in shape] for _ in range(fields)]
        index = np.indices(shape).reshape(len(shape), -1)
        blocks.append(np.array(steps) @ index + rng.randrange(50))
    starts = np.concatenate(blocks, axis=1)
    with small_limits(rng), pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "PREFIX", rng.choice([2, 5, 256]))
        nests = find_nests(starts)
    if nests is None:
        return
    for parts in (nests, [piece for nest in nests for piece in nest.pieces(rng.randint(1, 9))]):
        first = 0
        for nest in parts:
            assert nest.first == first and 1 <= len(nest.shape) <= 3
            index = np.indices(nest.shape).reshape(len(nest.shape), -1)
            found = nest.base[:, None] + nest.steps @ index
            np.testing.assert_array_equal(found, starts[:, first : first + nest.count])
            first += nest.count
        assert first == starts.shape[1]


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_wide_items_move_the_elements_that_their_positions_name(rng: Random) -> None:
    dtype = rng.choice([np.float16, np.float32, np.int64, np.uint8])
    flat = np.arange(400).astype(dtype)
    run, phase = rng.choice([1, 2, 3, 4, 8, 16]), rng.randrange(9)
    starts = np.array(rng.sample(range(0, 380 // run), rng.randint(1, 380 // run))) * run + phase
    index = (starts[:, None] + np.arange(run)).reshape(-1)
    spoiled = rng.random() < 0.2
    if spoiled:
        index[rng.randrange(len(index))] = 0
    buffer = np.zeros(len(index), dtype)
    wide = wide_items(flat, index, buffer)
    if wide is None:
        assert spoiled or run in (1, 3)
        return
    items, positions, into = wide
    assert items.itemsize > flat.itemsize
    np.take(items, positions, None, into, "clip")
    np.testing.assert_array_equal(buffer, flat[index])
    buffer[...] = np.arange(len(index))[::-1]
    expected = flat.copy()
    expected[index] = buffer
    np.put(items, positions, into, "clip")
    np.testing.assert_array_equal(flat, expected)


def test_a_regular_graph_is_one_nest() -> None:
    i, j = np.divmod(np.arange(35), 7)
    (nest,) = find_nests(np.stack([i * 1000 + j * 143, j * 143, i * 7 + j])) or ()
    assert nest.shape == (5, 7)
    assert nest.steps.tolist() == [[1000, 143], [0, 143], [7, 1]]


class Stencil(Vertex):
    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        near = self.x[:-2, 1:-1] + self.x[2:, 1:-1]
        self.out = (near + self.x[1:-1, :-2] + self.x[1:-1, 2:]) * 0.25


class StencilLoop(Vertex):
    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        rows, columns = self.out.shape
        for i in range(rows):
            for j in range(columns):
                near = self.x[i, j + 1] + self.x[i + 2, j + 1]
                self.out[i, j] = (near + self.x[i + 1, j] + self.x[i + 1, j + 2]) * 0.25


@pytest.mark.parametrize("codelet", [Stencil, StencilLoop])
@pytest.mark.parametrize("side", [1, 3, 8])
@pytest.mark.parametrize("chunk", [1, 3000, 524288])
def test_pieces_of_a_picture(
    codelet: type[Vertex], side: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows that overlap, read in place, and pieces written in place between their neighbours."""
    monkeypatch.setattr(batch_plan, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(batch_plan, "LANES", 7)
    down, across = 5, 6
    picture = normal(down * side + 2, across * side + 2)
    graph = Graph(DEVICE.target)
    x, out = (
        graph.add_constant(FLOAT, picture.shape, picture),
        graph.add_variable(FLOAT, (down * side, across * side)),
    )
    graph.set_tile_mapping(x, 0)
    graph.set_tile_mapping(out, 1)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set()
    for i in reversed(range(down)):
        for j in range(across):
            top, left = i * side, j * side
            edges = {
                "x": x[top : top + side + 2, left : left + side + 2],
                "out": out[top : top + side, left : left + side],
            }
            graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, edges), 2)
    engine = Engine(graph, Repeat(2, Execute(compute_set)))
    engine.load_and_run(DEVICE)
    near = picture[:-2, 1:-1] + picture[2:, 1:-1]
    expected = (near + picture[1:-1, :-2] + picture[1:-1, 2:]) * np.float32(0.25)
    assert same_bits(engine.read_tensor("out"), expected)


class RowsOfFloat(Vertex):
    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[FLOAT]]
    share: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        squares = self.x * self.x
        self.out = np.sum(squares, axis=0) - np.max(self.x, axis=0)
        first = np.argmax(self.x, axis=0) == np.arange(len(self.x)).reshape(-1, 1)
        self.share = np.where(first, self.x, 0) + np.where(squares <= 1, 0, self.x)


class RowsOfHalf(Vertex):
    x: Input[Vector[Vector[HALF]]]
    out: Output[Vector[HALF]]
    share: Output[Vector[Vector[HALF]]]

    def compute(self) -> None:
        self.out = np.sum(self.x, axis=0)
        self.share = np.where(self.x > 0, -0.0, self.x)


@pytest.mark.parametrize(("codelet", "dtype"), [(RowsOfFloat, FLOAT), (RowsOfHalf, HALF)])
@pytest.mark.parametrize("shape", [(3, 4), (12, 2), (2, 24), (9, 1), (1, 5)])
@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_are_summed_in_their_order(
    codelet: type[Vertex], dtype: Any, shape: tuple[int, int], shuffled: bool
) -> None:
    """The rows of all vertices are side by side in a buffer, and the bits are those of the plain
    loop: also of -0.0, infinities and NaN, gathered or in place."""
    count, (rows, columns) = 40, shape
    values = normal(count, rows, columns) * 100
    values.flat[::7], values.flat[::11], values.flat[::97] = -0.0, np.inf, np.nan
    order = np.random.default_rng(1).permutation(count) if shuffled else np.arange(count)
    outputs: list[list[Array]] = []
    for vertex_loop in (False, True):
        graph = Graph(DEVICE.target)
        x = graph.add_constant(dtype, values.shape, values)
        out, share = (graph.add_variable(dtype, size) for size in ((count, columns), values.shape))
        cs = graph.add_compute_set()
        for tensor, name in ((x, ""), (out, "out"), (share, "share")):
            graph.set_tile_mapping(tensor, 0)
            if name:
                graph.create_host_read(name, tensor)
        for number in range(count):
            source = x[int(order[number])]
            edges = {"x": source, "out": out[number], "share": share[number]}
            graph.set_tile_mapping(graph.add_vertex(cs, codelet, edges), 1)
        engine = Engine(graph, Execute(cs), vertex_loop=vertex_loop)
        engine.load_and_run(DEVICE)
        outputs.append([engine.read_tensor(name) for name in ("out", "share")])
    for batch, loop in zip(*outputs, strict=True):
        assert same_bits(batch, loop)


class Elementwise(Vertex):
    x: Input[Vector[FLOAT]]
    y: InOut[Vector[FLOAT]]
    scale: Input[FLOAT]

    def compute(self) -> None:
        part = self.x * self.scale + self.y
        self.y = np.maximum(part, 0) - part / 3
        self.y += 1


@pytest.mark.parametrize("chunk", [1, 100, 524288])
@pytest.mark.parametrize("gaps", [False, True])
def test_vertices_of_uneven_sizes_side_by_side(
    chunk: int, gaps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_plan, "CHUNK_BYTES", chunk)
    count, size = 40, 1003
    x, y, scale = normal(size), normal(size), normal(1)
    graph = Graph(DEVICE.target)
    tensors: dict[str, Any] = {
        n: graph.add_variable(FLOAT, v.shape, n) for n, v in (("x", x), ("y", y), ("scale", scale))
    }
    for name, values in (("x", x), ("y", y), ("scale", scale)):
        graph.set_initial_value(tensors[name], values)
        graph.set_tile_mapping(tensors[name], 0)
    graph.create_host_read("y", tensors["y"])
    compute_set = graph.add_compute_set()
    touched = np.zeros(size, bool)
    for number in reversed(range(count)):
        begin, end = (
            size * number // count,
            size * (number + 1) // count - (gaps and number % 16 == 0),
        )
        touched[begin:end] = True
        edges = {
            "x": tensors["x"][begin:end],
            "y": tensors["y"][begin:end],
            "scale": tensors["scale"][0],
        }
        graph.set_tile_mapping(graph.add_vertex(compute_set, Elementwise, edges), 1)
    engine = Engine(graph, Execute(compute_set))
    engine.load_and_run(DEVICE)
    part = x * scale + y
    expected = np.maximum(part, 0) - part / np.float32(3) + np.float32(1)
    assert same_bits(engine.read_tensor("y"), np.where(touched, expected, y))


class BlockProduct(Vertex):
    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = self.a @ self.b


class BlockTimesVector(Vertex):
    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.b @ self.a.T


class Dot(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


def product(
    codelet: type[Vertex], a: Array, b: Array, rows: int, columns: int, **how: Any
) -> tuple[Array, Engine]:
    """a @ b in blocks of so many rows and columns."""
    graph = Graph(DEVICE.target)
    left, right = graph.add_constant(FLOAT, a.shape, a), graph.add_constant(FLOAT, b.shape, b)
    out = graph.add_variable(FLOAT, (len(a), *b.shape[1:]))
    for tensor in (left, right, out):
        graph.set_tile_mapping(tensor, 0)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set()
    for i in range(0, len(a), rows):
        for j in range(0, b.shape[1] if b.ndim > 1 else 1, columns):
            block = slice(i, i + rows)
            across = (slice(j, j + columns),) if b.ndim > 1 else ()
            place = out[(block, *across)]
            edges = {
                "a": left[block] if codelet is not Dot else left[i],
                "b": right[(slice(None), *across)],
                "out": place if codelet is not Dot else out[i],
            }
            graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, edges), 1)
    engine = Engine(graph, Execute(compute_set), **how)
    engine.load_and_run(DEVICE)
    return engine.read_tensor("out"), engine


@pytest.mark.parametrize(("codelet", "rows"), [(BlockProduct, 8), (BlockTimesVector, 4), (Dot, 1)])
def test_joined_products_are_within_rounding_and_exact_ones_are_the_loops(
    codelet: type[Vertex], rows: int
) -> None:
    """The bound that Engine's docstring gives: k * 6e-8 of the sum of the terms' sizes."""
    k = 65
    a, b = normal(32, k), normal(k, 24) if codelet is BlockProduct else normal(k)
    wide = a.astype(np.float64) @ b.astype(np.float64)
    bound = k * 6e-8 * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    loop, exact, joined = (
        product(codelet, a, b, rows, 8, **how)
        for how in ({"vertex_loop": True}, {}, {"exact": False})
    )
    assert same_bits(exact[0], loop[0])
    assert np.all(np.abs(joined[0] - wide) <= bound)
    calls = [sum(f is np.matmul for f, _ in calls_of(engine)) for _, engine in (exact, joined)]
    assert calls[1] == 1


def calls_of(engine: Engine) -> list[Any]:
    """The prebound calls of the engine's first step."""
    action: Any = step_action(engine)  # partial(run_all, calls)
    calls: list[Any] = action.args[0]
    return calls


def test_a_joined_product_is_one_large_one() -> None:
    _, engine = product(BlockProduct, normal(32, 40), normal(40, 24), 8, 8, exact=False)
    (args,) = [args for f, args in calls_of(engine) if f is np.matmul]
    assert [a.shape[-2:] for a in args] == [(32, 40), (40, 24), (32, 24)]


@pytest.mark.parametrize("prefix", [2, 16, 256, 4096])
def test_nests_do_not_depend_on_how_many_vertices_are_looked_at_first(
    prefix: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures cut into tiles, rows of several lengths, and a nest that ends just where a prefix
    does."""
    i, j, k = np.indices((11, 24, 8)).reshape(3, -1)
    lone = np.random.default_rng(1).permutation(40)
    for starts in (
        [i * 5000 + j * 40 + k * 3],
        [i * 5000 + j * 40 + k * 3, k],
        [np.concatenate([np.arange(256) * 3, 10_000 + np.arange(300) * 7, 20_000 + i * 900 + k])],
        [np.concatenate([np.arange(64) * 3, lone * 11])],
    ):
        monkeypatch.setattr(views, "PREFIX", 10**9)
        whole = find_nests(np.stack(starts))
        monkeypatch.setattr(views, "PREFIX", prefix)
        found = find_nests(np.stack(starts))
        assert (found is None) == (whole is None)
        if found is not None and whole is not None:
            assert [(n.first, n.shape) for n in found] == [(n.first, n.shape) for n in whole]


class AddPositive(Vertex):
    x: Input[Vector[FLOAT]]
    y: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.y)):
            if self.x[i] > 0:
                self.y[i] += self.x[i]


@pytest.mark.parametrize("codelet", [Axpy, AddPositive])
@pytest.mark.parametrize("trapping", [False, True])
def test_vertices_that_reach_places_of_their_own(codelet: type[Vertex], trapping: bool) -> None:
    """Lists of places beside what lies side by side, and what lies in strides, backwards or not, in
    one group."""
    read = [[0, 1, 2], [1, 4, 7], [9, 2, 5], [3, 3, 8], [5, 4, 3]]
    written = [[0, 1, 2], [3, 6, 9], [5, 4, 7], [14, 8, 13], [12, 11, 10]]
    graph = Graph(DEVICE.target)
    x, y = graph.add_variable(FLOAT, (10,), "x"), graph.add_variable(FLOAT, (15,), "y")
    graph.set_initial_value(x, np.arange(10) - 4.0)
    graph.set_initial_value(y, np.arange(15) * 100.0)
    graph.set_tile_mapping(x, 0)
    graph.set_tile_mapping(y, 0)
    graph.create_host_read("y", y)
    cs = graph.add_compute_set("add")
    for number, (a, b) in enumerate(zip(read, written, strict=True)):
        graph.set_tile_mapping(graph.add_vertex(cs, codelet, x=x[a], y=y[b]), number % 2)
    expected = np.arange(15, dtype=np.float32) * 100
    for a, b in zip(read, written, strict=True):
        for i, j in zip(a, b, strict=True):
            expected[j] += 2.5 * (i - 4) if codelet is Axpy else max(i - 4, 0)
    for vertex_loop in (False, True):
        engine = Engine(
            graph, Execute(cs), {"debug.floatPointOpException": trapping}, vertex_loop=vertex_loop
        )
        engine.load_and_run(DEVICE)
        np.testing.assert_array_equal(engine.read_tensor("y"), expected)
