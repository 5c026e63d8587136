"""Tensors are views: every call on one is held against the same call on a numpy array of element
ids."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ipu_teach import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    Graph,
    Input,
    IPUModel,
    IPUTeachError,
    Output,
    Tensor,
    Vector,
    Vertex,
    concat,
)
from ipu_teach.errors import DeviceValueError
from ipu_teach.graph.tensor import Layout
from ipu_teach.types import Array


class Scale(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    factor: FLOAT = 2.0

    def compute(self) -> None:
        self.out = self.x * self.factor


class Rows(Vertex):
    rows: Input[Vector[Vector[FLOAT]]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.rows[0][0]


class Bare(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]
    bias: FLOAT

    def compute(self) -> None:
        self.out = self.x[0] + self.bias


def new_graph(tiles: int = 4) -> Graph:
    return Graph(IPUModel(tiles_per_ipu=tiles).create_device())


# --- views against numpy --------------------------------------------------------------------------


class Pair:
    """A tensor and the element ids that it should hold, which go through the same calls."""

    def __init__(self, tensor: Tensor, ids: Array) -> None:
        self.tensor = tensor
        self.ids = ids

    def check(self) -> None:
        tensor, ids, layout = self.tensor, self.ids, self.tensor.layout
        assert tensor.shape == ids.shape and tensor.rank == ids.ndim
        assert tensor.num_elements == layout.size == ids.size
        assert [tensor.dim(i) for i in range(tensor.rank)] == list(ids.shape)
        assert np.array_equal(tensor.positions(), ids)
        assert layout is tensor.graph.layouts[layout.id]
        flat = ids.reshape(-1) - tensor.offset
        if layout.contiguous:
            assert np.array_equal(flat, np.arange(flat.size)) or flat.size == 1
        starts, lengths = layout.runs
        assert np.array_equal(
            np.concatenate(
                [np.arange(a, a + n) for a, n in zip(starts, lengths, strict=True)] or [flat]
            ),
            flat,
        )
        starts, lengths = layout.extent
        assert np.array_equal(
            np.concatenate(
                [np.arange(a, a + n) for a, n in zip(starts, lengths, strict=True)] or [flat]
            ),
            np.unique(flat),
        )
        assert np.all(starts[1:] > (starts + lengths)[:-1])
        assert layout.aliased == (len(np.unique(flat)) < flat.size)
        if flat.size:
            assert layout.bounds == (flat.min(), flat.max())


@st.composite
def slices(draw: st.DrawFn, length: int) -> slice:
    bounds = st.none() | st.integers(-length - 2, length + 2)
    return slice(draw(bounds), draw(bounds), draw(st.none() | st.sampled_from([1, 2, 3, -1, -2])))


def indexed(draw: st.DrawFn, pair: Pair) -> Pair:
    key: list[Any] = []
    for length in pair.ids.shape[: draw(st.integers(0, pair.ids.ndim))]:
        key.append(
            draw(slices(length))
            if length == 0 or draw(st.booleans())
            else draw(st.integers(-length, length - 1))
        )
    # an array, or a list, in the place of the first
    if key and pair.ids.shape[0] and draw(st.integers(0, 2)) == 0:
        numbers = st.lists(st.integers(-pair.ids.shape[0], pair.ids.shape[0] - 1), max_size=4)
        bools = st.lists(st.booleans(), min_size=pair.ids.shape[0], max_size=pair.ids.shape[0])
        key[0] = draw(numbers | numbers.map(lambda n: np.array(n, np.int64)) | bools)
    if draw(st.integers(0, 3)) == 0:
        key.insert(draw(st.integers(0, len(key))), Ellipsis)
        rest = pair.ids.ndim - (len(key) - 1)
        where = [part is Ellipsis for part in key].index(True)
        # these now meet other axes: shorten what no longer fits
        for i, part in enumerate(key[where + 1 :], where + 1):
            length = pair.ids.shape[i - 1 + rest]
            key[i] = (
                slice(None) if length == 0 or not isinstance(part, slice) else draw(slices(length))
            )
    chosen: Any = tuple(
        np.int64(k) if isinstance(k, int) and draw(st.booleans()) else k for k in key
    )
    if len(chosen) == 1 and draw(st.booleans()):
        chosen = chosen[0]
    return Pair(pair.tensor[chosen], np.asarray(pair.ids[chosen]))


def reshaped(draw: st.DrawFn, pair: Pair) -> Pair:
    rest, shape = pair.ids.size, []
    while rest > 1 and draw(st.booleans()):
        part = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
        shape.append(part)
        rest //= part
    shape.append(rest)
    wanted: Any = shape[0] if len(shape) == 1 and draw(st.booleans()) else tuple(shape)
    return Pair(pair.tensor.reshape(wanted), pair.ids.reshape(wanted))


def flattened(draw: st.DrawFn, pair: Pair) -> Pair:
    begin = draw(st.integers(0, pair.ids.ndim))
    end = draw(st.none() | st.integers(begin, pair.ids.ndim))
    shape = pair.ids.shape
    stop = len(shape) if end is None else end
    return Pair(
        pair.tensor.flatten(begin, end),
        pair.ids.reshape((*shape[:begin], math.prod(shape[begin:stop]), *shape[stop:])),
    )


def shuffled(draw: st.DrawFn, pair: Pair) -> Pair:
    order = draw(st.permutations(range(pair.ids.ndim)))
    return Pair(pair.tensor.dim_shuffle(order), pair.ids.transpose(order))


def transposed(draw: st.DrawFn, pair: Pair) -> Pair:
    return Pair(pair.tensor.T, pair.ids.T) if pair.ids.ndim == 2 else shuffled(draw, pair)


def sliced(draw: st.DrawFn, pair: Pair) -> Pair:
    if not pair.ids.ndim:
        return pair
    axis = draw(st.integers(-pair.ids.ndim, pair.ids.ndim - 1))
    length = pair.ids.shape[axis]
    begin = draw(st.integers(0, length))
    end = draw(st.integers(begin, length))
    return Pair(pair.tensor.slice(begin, end, axis), np.take(pair.ids, np.arange(begin, end), axis))


def joined(draw: st.DrawFn, pair: Pair, other: Pair) -> Pair:
    if not pair.ids.ndim or pair.ids.size > 200:
        return pair
    axis = draw(st.integers(0, pair.ids.ndim - 1))
    parts = [pair]
    for _ in range(draw(st.integers(0, 2))):
        parts.append(sliced_along(draw, pair, axis))
    # The other variable, cut to the same shape.
    if pair.ids.size and pair.ids.size <= other.ids.size and draw(st.booleans()):
        flat = Pair(other.tensor[: pair.ids.size], other.ids[: pair.ids.size])
        parts.append(Pair(flat.tensor.reshape(pair.ids.shape), flat.ids.reshape(pair.ids.shape)))
    return Pair(
        concat([p.tensor for p in parts], axis), np.concatenate([p.ids for p in parts], axis)
    )


def sliced_along(draw: st.DrawFn, pair: Pair, axis: int) -> Pair:
    begin = draw(st.integers(0, pair.ids.shape[axis]))
    key = (slice(None),) * axis + (slice(begin, None),)
    return Pair(pair.tensor[key], pair.ids[key])


STEPS: list[Callable[[st.DrawFn, Pair], Pair]] = [
    indexed,
    reshaped,
    flattened,
    shuffled,
    transposed,
    sliced,
]


@given(st.data(), st.lists(st.integers(0, 5), max_size=4))
@settings(max_examples=400)
def test_views_are_numpys(data: st.DataObject, shape: list[int]) -> None:
    draw = data.draw
    graph = new_graph()
    graph.add_variable(HALF, 3)
    tensor = graph.add_variable(FLOAT, shape, "t")
    other = graph.add_variable(FLOAT, 70, "other")
    count = math.prod(shape)
    pair = Pair(tensor, tensor.offset + np.arange(count).reshape(shape))
    neighbour = Pair(other, other.offset + np.arange(70))
    pair.check()
    for _ in range(draw(st.integers(1, 6))):
        step = draw(st.integers(0, len(STEPS)))
        pair = STEPS[step](draw, pair) if step < len(STEPS) else joined(draw, pair, neighbour)
        pair.check()
    assert [p.tensor.offset for p in (pair,)] == [pair.tensor.offset]
    assert repr(pair.tensor).startswith("Tensor(")


def test_parts_by_number_and_length() -> None:
    matrix = new_graph().add_variable(INT, (3, 4))
    assert len(matrix) == 3
    rows = [matrix[i] for i in range(len(matrix))]
    assert [r.shape for r in rows] == [(4,)] * 3
    assert np.array_equal(np.stack([r.positions() for r in rows]), matrix.positions())
    assert matrix.element_type is INT and matrix.dtype is INT


ASKED: dict[str, Callable[[Any], Any]] = {
    "if": lambda t: 1 if t else 0,
    "==": lambda t: t == 0,
    "!=": lambda t: t != "a",
    "in": lambda t: t in [3],
    "<=": lambda t: np.int32(1) <= t,
    ">": lambda t: t > np.arange(3),
    "+": lambda t: t + t,
    "numpy +": lambda t: np.int32(1) + t,
    "array @": lambda t: np.ones(3) @ t,
    "-=": lambda t: t.__isub__(1),
    "**=": lambda t: t.__ipow__(2),
    "<<": lambda t: 1 << t,
    "-": lambda t: -t,
    "abs": abs,
    "float": float,
    "int": int,
    "round": round,
    "index": lambda t: [1, 2][t],
    "range": range,
    "for": lambda t: [0 for _ in t],
    "unpacked": lambda t: max(*t),
    "zip": lambda t: list(zip(t, [1], strict=False)),
    "a number in": lambda t: 3 in t,
    "reversed": reversed,
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_what_python_asks_of_a_number_is_refused(ask: Callable[[Any], Any]) -> None:
    graph = new_graph()
    for shape in ((), (3,)):
        with pytest.raises(DeviceValueError) as caught:
            ask(graph.add_variable(INT, shape))
        assert isinstance(caught.value, TypeError)
        assert "test_graph.py, line " in caught.value.line and caught.value.next_step


def test_equal_tensors_are_the_same_view() -> None:
    graph = new_graph()
    matrix, other = graph.add_variable(INT, (3, 4)), graph.add_variable(INT, (3, 4))
    listed = concat([matrix[i] for i in (0, 2)]), concat([matrix[0], matrix[1:][1]])
    for a, b in ((matrix, matrix.flatten().reshape((3, 4))), (matrix[:0], other[:0]), listed):
        assert a == b and (a != b) is False and hash(a) == hash(b) and {a: 1}[b] == 1
    for c in (other, matrix.transpose(), matrix[0], matrix.flatten(), None):
        assert matrix != c and (matrix == c) is False


def test_slices_end_where_the_tensor_does() -> None:
    vector = new_graph().add_variable(INT, (7,))
    assert [vector[a:b].shape[0] for a, b in ((5, 99), (9, 12), (-99, 2), (3, None))] == [
        2,
        0,
        2,
        4,
    ]
    assert vector.slice(4) == vector[4:] and vector.reshape((7, 1)).slice(0, dim=1).shape == (7, 1)


def test_layouts_are_interned() -> None:
    graph = new_graph()
    matrix = graph.add_variable(FLOAT, (100, 8))
    before = len(graph.layouts)
    rows = [matrix[i] for i in range(100)]
    columns = [matrix[:, j] for j in range(8)]
    assert len({id(r.layout) for r in rows}) == 1 and len({id(c.layout) for c in columns}) == 1
    assert len(graph.layouts) == before + 2
    # Lists of positions too: the same zigzag at two places is one layout.
    first = concat([matrix[0, 1:], matrix[0, :1]])
    second = concat([matrix[7, 1:], matrix[7, :1]])
    assert first.layout is second.layout and first.layout.strides is None
    # Neighbours joined again are a plain strided view, the very one they were cut from.
    assert concat([matrix[:50], matrix[50:]]).layout is matrix.layout


def test_large_views_need_no_list() -> None:
    """A transpose of a whole chip's memory is described, sliced and mapped without a list of its
    elements."""
    graph = Graph(IPUModel().create_device())
    huge = graph.add_variable(FLOAT, (20_000, 10_000), "huge")
    turned = huge.T
    starts, lengths = turned.layout.extent
    assert (starts.tolist(), lengths.tolist()) == ([0], [200_000_000])
    graph.set_tile_mapping(turned, 3)
    assert repr(turned) == "Tensor('huge', FLOAT, shape (10000, 20000))"
    assert repr(turned[5]) == "Tensor(a view of 'huge', FLOAT, shape (20000,))"
    assert turned[7, 9].offset == huge.offset + 9 * 10_000 + 7
    block = turned[0:100, ::-2]
    starts, lengths = block.layout.extent
    assert len(starts) == 10_000 and set(lengths.tolist()) == {100}


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(-40, 40)), max_size=4))
def test_extent_of_any_strides(axes: list[tuple[int, int]]) -> None:
    """Strides that interleave or repeat elements, as a broadcast would make them, too."""
    shape, strides = tuple(n for n, _ in axes), tuple(s for _, s in axes)
    layout = Layout(0, shape, strides, None)
    found = [
        p
        for a, n in zip(*(x.tolist() for x in layout.extent), strict=True)
        for p in range(a, a + n)
    ]
    assert found == np.unique(layout.positions).tolist()
    assert layout.bounds == (layout.positions.min(), layout.positions.max())
    assert layout.aliased == (len(found) < layout.size)


# --- variables ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [5, (5,), [5], np.array([5]), (np.int64(5),), range(5, 6)])
def test_a_shape_may_be_written_in_many_ways(shape: Any) -> None:
    assert new_graph().add_variable(FLOAT, shape).shape == (5,)


def test_variables_do_not_overlap() -> None:
    graph = new_graph()
    tensors = [
        graph.add_variable(dtype, n, f"v{n}")
        for n, dtype in enumerate([CHAR, FLOAT, HALF, INT] * 8)
    ]
    spans = sorted((v.start, v.stop) for v in graph.variables)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    assert all(v.start % v.dtype.size == 0 for v in graph.variables)
    assert [graph.describe(t) for t in tensors[1:]] == [f"'v{n}'" for n in range(1, 32)]
    assert graph.describe(tensors[0]) == "empty tensor"


def test_names() -> None:
    graph = new_graph()
    graph.add_variable(FLOAT, 3)
    graph.add_constant(FLOAT, 3, 1.5)
    assert [v.name for v in graph.variables] == ["variable0", "constant1"]
    assert graph.add_compute_set().name == "compute_set0"


def test_one_number_for_many_elements_takes_no_room() -> None:
    graph = Graph(IPUModel().create_device())
    big = graph.add_constant(FLOAT, (10_000, 10_000), 0.5, "big")
    _, values = graph.initial_values[0]
    assert values.shape == big.shape and values.base is not None and values.base.size == 1


def test_numbers_are_rounded_to_the_dtype() -> None:
    graph = new_graph()
    for values, dtype, expected in [
        (10**30, FLOAT, np.float32(1e30)),
        (-(10**30), FLOAT, np.float32(-1e30)),
        (0.1, HALF, np.float16(0.1)),
        (65_519, HALF, np.float16(65_504)),
        (float("-inf"), HALF, np.float16("-inf")),
        (True, INT, np.int32(1)),
        (2.0**31 - 1, INT, np.int32(2**31 - 1)),
        (2**63 - 1, LONGLONG, np.int64(2**63 - 1)),
        (-0.0, CHAR, np.int8(0)),
        (1.0, BOOL, np.True_),
    ]:
        graph.add_constant(dtype, (), values)
        found = graph.initial_values[-1][1]
        assert found.dtype == dtype.numpy and found == expected, (values, dtype)


def test_initial_values_are_copies() -> None:
    graph = new_graph()
    source = np.arange(3, dtype=np.float32)
    variable = graph.add_variable(FLOAT, 3)
    graph.set_initial_value(variable, source)
    constant = graph.add_constant(FLOAT, 3, source)
    source[:] = -1
    for tensor in (variable, constant):
        assert [v.tolist() for t, v in graph.initial_values if t is tensor] == [[0, 1, 2]]


# --- tile mapping ---------------------------------------------------------------------------------


def tiles_of(graph: Graph, tensor: Tensor) -> list[int]:
    """The tile of each element, in the tensor's order; -1 for none."""
    found = graph.tile_map().at(tensor.positions().reshape(-1) * tensor.dtype.size)
    return [int(t) for t in found]


def test_mapping_the_whole_and_parts() -> None:
    graph = new_graph()
    matrix = graph.add_variable(HALF, (3, 4), "m")
    assert tiles_of(graph, matrix) == [-1] * 12
    graph.set_tile_mapping(matrix[1], 2)
    assert tiles_of(graph, matrix) == [-1] * 4 + [2] * 4 + [-1] * 4
    graph.set_tile_mapping(matrix, 0)
    graph.set_tile_mapping(matrix[:, 1], 1)
    graph.set_tile_mapping(matrix[2, ::-2], np.int32(3))
    assert tiles_of(graph, matrix) == [0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 0, 3]
    assert graph.get_tile_mapping(matrix) == [
        [(0, 1), (2, 5), (6, 9), (10, 11)],
        [(1, 2), (5, 6)],
        [],
        [(9, 10), (11, 12)],
    ]


def test_mapping_by_intervals_of_the_view() -> None:
    graph = new_graph()
    matrix = graph.add_variable(FLOAT, (2, 3), "m")
    graph.set_tile_mapping(matrix.T, [[(0, 2)], [(2, 3), (5, 6)], [], [(3, 5)]])
    # In the order of the transpose: elements 00 10 | 01 | 11 02 | 12.
    assert tiles_of(graph, matrix.T) == [0, 0, 1, 3, 3, 1]
    assert tiles_of(graph, matrix) == [0, 1, 3, 0, 3, 1]
    assert graph.get_tile_mapping(matrix.T) == [[(0, 2)], [(2, 3), (5, 6)], [], [(3, 5)]]
    assert graph.get_tile_mapping(matrix.T[1:]) == [[], [(0, 1), (3, 4)], [], [(1, 3)]]


@given(
    st.integers(0, 6),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_a_tile_for_each_row_is_as_row_by_row(
    rows: int, columns: int, turned: bool, back: bool, random: Random
) -> None:
    found = []
    tiles = [random.randrange(4) for _ in range(rows)]
    for at_once in (False, True):
        graph = new_graph()
        graph.add_variable(INT, 3)
        tensor = graph.add_variable(
            FLOAT, (columns, 2, rows) if turned else (rows, 2, columns), "t"
        )
        view = tensor.dim_shuffle([2, 1, 0]) if turned else tensor
        view = view.reverse(0) if back else view
        if at_once:
            graph.set_tile_mapping(view, np.array(tiles, np.int64))
        else:
            for row, tile in enumerate(tiles):
                graph.set_tile_mapping(view[row], tile)
        found.append(tiles_of(graph, tensor))
    assert found[0] == found[1]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(1, 4), st.booleans())
def test_pieces_from_anywhere_in_bulk_are_as_one_by_one(
    starts: list[int], length: int, ragged: bool
) -> None:
    found = []
    for bulk in (False, True):
        graph = new_graph()
        x, out = (
            graph.add_variable(FLOAT, 24, "x"),
            graph.add_variable(FLOAT, (len(starts), length), "out"),
        )
        step = [2 if ragged and start % 2 and start + 2 * length <= 24 else 1 for start in starts]
        pieces = [
            x[start : min(start + length * by, 24) : by]
            for start, by in zip(starts, step, strict=True)
        ]
        compute_set = graph.add_compute_set()
        if bulk:
            graph.add_vertices(
                compute_set, Scale, 0, x=concat([piece.expand(0) for piece in pieces]), out=out
            )
        else:
            for row, piece in enumerate(pieces):
                graph.set_tile_mapping(
                    graph.add_vertex(compute_set, Scale, x=piece, out=out[row]), 0
                )
        found.append(columns(graph))
    assert found[0] == found[1]


def test_a_tile_for_each_row_in_a_virtual_graph() -> None:
    graph = new_graph()
    vector = graph.add_variable(FLOAT, 3, "v")
    graph.create_virtual_graph([3, 1]).set_tile_mapping(vector, np.array([1, 0, 1]))
    assert tiles_of(graph, vector) == [1, 3, 1]


def test_an_incomplete_mapping_can_be_asked_for() -> None:
    graph = new_graph()
    vector = graph.add_variable(FLOAT, 4, "v")
    graph.set_tile_mapping(vector[1:3], 2)
    assert graph.get_tile_mapping(vector, require_complete=False) == [[], [], [(1, 3)], []]
    with pytest.raises(IPUTeachError) as caught:
        graph.get_tile_mapping(vector)
    assert caught.value.tried == "2 of the 4 elements of 'v' are not mapped to any tile."


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 3), st.integers(0, 3)),
        max_size=12,
    )
)
def test_the_last_mapping_wins(calls: list[tuple[int, int, int, int]]) -> None:
    graph = new_graph()
    graph.add_variable(FLOAT, 5)
    vector = graph.add_variable(INT, 30, "v")
    expected = np.full(30, -1)
    for a, b, step, tile in calls:
        graph.set_tile_mapping(vector[min(a, b) : max(a, b) : step], tile)
        expected[min(a, b) : max(a, b) : step] = tile
        assert tiles_of(graph, vector) == expected.tolist()
    mapping = graph.get_tile_mapping(vector, require_complete=False)
    for tile, intervals in enumerate(mapping):
        covered = [i for begin, end in intervals for i in range(begin, end)]
        assert covered == np.flatnonzero(expected == tile).tolist()
        assert all(a[1] < b[0] for a, b in zip(intervals, intervals[1:], strict=False))
    graph.set_tile_mapping(vector, mapping)
    assert tiles_of(graph, vector) == expected.tolist()


def test_vertices_on_tiles() -> None:
    graph = new_graph()
    x, out = graph.add_variable(FLOAT, (4, 3)), graph.add_variable(FLOAT, (4, 3))
    cs = graph.add_compute_set("cs")
    vertices = graph.add_vertices(cs, Scale, [0, 1, 2, 3], x=x, out=out)
    table = cs.tables[Scale]
    graph.set_tile_mapping(vertices, 2)
    assert table.tiles.tolist() == [2, 2, 2, 2]
    graph.set_tile_mapping(vertices, np.array([3, 0, 3, 0]))
    graph.set_tile_mapping(vertices[-1], 1)
    assert table.tiles.tolist() == [3, 0, 3, 1]
    assert [repr(v) for v in vertices][1] == "vertex 1 (Scale) of compute set 'cs'"


# --- vertices, one at a time and in bulk ----------------------------------------------------------


def columns(graph: Graph, number: int = 0) -> dict[str, Any]:
    """Everything that the tables of a compute set hold, with layouts spelled out."""

    def spell(number: int) -> Any:
        layout = graph.layouts[number] if number >= 0 else None
        if isinstance(layout, Layout):
            return layout.shape, layout.positions.tolist()
        return layout and [
            (delta, part.shape, part.positions.tolist()) for delta, part in layout.parts
        ]

    found = {}
    for codelet, table in graph.compute_sets[number].tables.items():
        if len(table):
            found[codelet.__name__] = {
                "offsets": {n: c.tolist() for n, c in table.offsets.items()},
                "layouts": {n: [spell(i) for i in c] for n, c in table.layouts.items()},
                "state": {
                    n: [None if v is None else v.item() for v in c]
                    for n, c in table.state_values.items()
                },
                "tiles": table.tiles.tolist(),
                "order": table.order.tolist(),
                "estimates": None if table.estimates is None else table.estimates.tolist(),
            }
    return found


def test_bulk_equals_one_by_one() -> None:
    singly, bulk = new_graph(), new_graph()
    tensors = []
    for graph in (singly, bulk):
        x, out = graph.add_variable(FLOAT, (6, 3), "x"), graph.add_variable(FLOAT, (3, 6), "out")
        cs = graph.add_compute_set("cs")
        tensors.append((cs, x, out.T))
    cs, x, out = tensors[0]
    for i in range(6):
        v = singly.add_vertex(cs, Scale, x=x[i], out=out[i], factor=i * 0.5)
        singly.set_tile_mapping(v, i % 4)
        singly.set_perf_estimate(v, 10 + i)
    v = singly.add_vertex(cs, Scale, x=x[0], out=out[0])
    singly.set_tile_mapping(v, 3)
    cs, x, out = tensors[1]
    many = bulk.add_vertices(cs, Scale, np.arange(6) % 4, x=x, out=out, factor=np.arange(6) * 0.5)
    bulk.set_perf_estimate(many, np.arange(10, 16))
    bulk.add_vertices(cs, Scale, 3, x=x[:1], out=out[:1])
    assert columns(singly) == columns(bulk)
    assert repr(many) == "6 vertices (Scale) of compute set 'cs'" and len(many) == 6


def test_bulk_with_lists_and_shared_regions() -> None:
    singly, bulk = new_graph(), new_graph()
    for graph in (singly, bulk):
        graph.add_variable(FLOAT, (4, 3), "a")
        graph.add_variable(FLOAT, (4, 5), "b")
        graph.add_variable(FLOAT, (4,), "out")
        graph.add_compute_set("cs")

    def tensors(graph: Graph) -> list[Tensor]:
        return [
            Tensor.of(
                graph,
                v.dtype,
                v.start // v.dtype.size,
                graph.strided(v.shape, (v.shape[1], 1) if len(v.shape) > 1 else (1,)),
            )
            for v in graph.variables
        ]

    a, b, out = tensors(singly)
    for i in range(4):
        v = singly.add_vertex(singly.compute_sets[0], Rows, rows=[a[i], b[0]], out=out[i])
        singly.set_tile_mapping(v, 1)
    a, b, out = tensors(bulk)
    bulk.add_vertices(bulk.compute_sets[0], Rows, 1, rows=[a, b[:1]], out=out)
    assert columns(singly) == columns(bulk)


def test_bulk_rows_of_a_list_of_places() -> None:
    """The leading axis of a concatenation, whose rows lie this way and that; a field and a state
    left for later."""
    singly, bulk = new_graph(), new_graph()
    for graph in (singly, bulk):
        x, y = graph.add_variable(FLOAT, (4, 3), "x"), graph.add_variable(FLOAT, (4, 3), "y")
        rows = concat([x[::-1], y[:, ::-1], concat([x[0, 1:], y[0, :1]]).reshape((1, 3))])
        cs = graph.add_compute_set("cs")
        if graph is bulk:
            vertices = graph.add_vertices(cs, Bare, 2, x=rows)
            graph.connect(vertices[3]["out"], y[1, 1])
            graph.connect(vertices[0]["bias"], 4)
        else:
            for i in range(9):
                v = graph.add_vertex(cs, Bare, x=rows[i])
                graph.set_tile_mapping(v, 2)
                if i == 3:
                    graph.connect(v["out"], y[1, 1])
                if i == 0:
                    graph.set_initial_value(v["bias"], 4)
    assert columns(singly) == columns(bulk)
    assert columns(bulk)["Bare"]["state"]["bias"] == [4] + [None] * 8


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_mixing_both_ways_keeps_the_order(kinds: list[bool]) -> None:
    graph = new_graph()
    x, out = graph.add_variable(FLOAT, (2, 3)), graph.add_variable(FLOAT, (2, 3))
    cs = graph.add_compute_set()
    for many in kinds:
        if many:
            graph.add_vertices(cs, Scale, [0, 1], x=x, out=out)
        else:
            graph.add_vertex(cs, Scale, x=x[0], out=out[0])
    assert cs.num_vertices == len(cs.tables[Scale]) == sum(2 if k else 1 for k in kinds)
    assert cs.tables[Scale].order.tolist() == list(range(cs.num_vertices))


def test_connections_in_a_dict_and_later() -> None:
    graph = new_graph()
    x, out = graph.add_variable(FLOAT, 3), graph.add_variable(FLOAT, 3)
    cs = graph.add_compute_set()
    graph.add_vertex(cs, Scale, {"x": x, "out": out}, factor=7)
    v = graph.add_vertex(cs, Scale)
    graph.connect(v["x"], x)
    graph.connect(v["out"], out)
    graph.connect(v["factor"], 5)
    graph.set_initial_value(v["factor"], 7)
    assert repr(v["x"]) == "field 'x' of vertex 1 (Scale) of compute set 'compute_set0'"
    rows = columns(graph)["Scale"]
    assert rows["offsets"]["x"] == [x.offset] * 2 and rows["state"]["factor"] == [7, 7]


# --- a failed call changes nothing ----------------------------------------------------------------


def state_of(graph: Graph) -> Any:
    return (
        [columns(graph, i) for i in range(len(graph.compute_sets))],
        graph.mapping_log.tolist(),
        list(graph.variables),
        graph.memory_bytes,
        [(t.offset, t.layout, v.tolist()) for t, v in graph.initial_values],
        list(graph.streams),
        list(graph.host_accesses),
        [repr(cs) for cs in graph.compute_sets],
        repr(graph),
    )


class Move(Vertex):
    """No state: a second vertex like the first is added without a second look."""

    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x[0]


def test_what_does_not_fit_is_refused_after_many_that_did() -> None:
    graph, other = new_graph(), new_graph()
    x, whole = graph.add_variable(FLOAT, (4, 3), "x"), graph.add_variable(INT, (4, 3), "whole")
    foreign = other.add_variable(FLOAT, (4, 3), "x")
    cs = graph.add_compute_set("cs")
    for i in range(3):
        graph.add_vertex(cs, Move, x=x[i], out=x[3, i])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"x": whole[0], "out": x[3, 0]}, "Move.x holds FLOAT, but was given a tensor of INT."),
        ({"x": foreign[0], "out": x[3, 0]}, "Move.x was given a tensor of another graph."),
        (
            {"x": x[0], "out": x[3]},
            "Move.out is declared as Output[FLOAT], which takes a single element, but was given",
        ),
        (
            {"x": x[0, 0], "out": x[3, 0]},
            "Move.x is declared as Input[Vector[FLOAT]], which takes one dimension, but was given",
        ),
        (
            {"x": [x[0]], "out": x[3, 0]},
            "Move.x is declared as Input[Vector[FLOAT]], but was given [Tensor(",
        ),
        ({"x": x[0], "oot": x[3, 0]}, "Move has no field 'oot'."),
        ({"x": x[0], "out": x[3, 0], "more": x[0]}, "Move has no field 'more'."),
    ]
    for edges, words in cases:
        before = state_of(graph)
        with pytest.raises(IPUTeachError) as caught:
            graph.add_vertex(cs, Move, edges)
        assert caught.value.tried.startswith(words) and caught.value.__context__ is None
        assert state_of(graph) == before
    graph.add_vertex(cs, Move, x=x[0])  # to be connected later
    table = cs.tables[Move]
    assert [
        len(c) for c in (*table.offsets.values(), *table.layouts.values(), table.tiles, table.order)
    ] == [4] * 6
    assert table.offsets["out"][3] == -1


def test_an_interrupt_leaves_no_half_vertex() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (4, 3), "x")
    cs = graph.add_compute_set("cs")
    graph.add_vertex(cs, Move, x=x[0], out=x[3, 0])
    before = state_of(graph)
    table = cs.tables[Move]
    name, known, add_layout, add_offset = table.columns[1]

    def interrupted(offset: int) -> None:
        raise KeyboardInterrupt

    table.columns[1] = (name, known, add_layout, interrupted)
    with pytest.raises(KeyboardInterrupt):
        graph.add_vertex(cs, Move, x=x[1], out=x[3, 1])
    table.columns[1] = (name, known, add_layout, add_offset)
    assert state_of(graph) == before
    graph.add_vertex(cs, Move, x=x[1], out=x[3, 1])
    assert len(table) == 2


def test_a_failed_call_leaves_the_graph_as_it_was() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (4, 3), "x")
    whole = graph.add_variable(INT, 3, "whole")
    fixed = graph.add_constant(FLOAT, 3, 1, "fixed")
    cs = graph.add_compute_set("cs")
    empty = graph.add_compute_set("empty")
    v = graph.add_vertex(cs, Scale, x=x[0], out=x[1])
    stream = graph.add_host_to_device_fifo("in", FLOAT, 3)
    graph.create_host_read("read", x)
    assert repr(stream) == "DataStream('in', host to device, 3 FLOAT)"
    calls: list[Callable[[], Any]] = [
        lambda: graph.add_vertex(cs, Scale, x=x[0], out=whole),
        lambda: graph.add_vertex(cs, Scale, x=x[0], out=x[1], nought=x[0]),
        lambda: graph.add_vertex(cs, Scale, x=x[0], out=x[1], factor="two"),
        lambda: graph.add_vertex(cs, Scale, x=x[0], out=x[1], factor=[1, 2]),
        lambda: graph.add_vertex(empty, Scale, x=5),
        lambda: graph.add_vertices(cs, Scale, [0, 9], x=x[:2], out=x[2:]),
        lambda: graph.add_vertices(cs, Scale, 0, x=x, out=x[:3]),
        lambda: graph.add_vertices(empty, Scale, 0, x=x, out=x[:3]),
        lambda: graph.add_vertices(cs, Scale, 0, x=x, out=x, factor=["a"] * 4),
        lambda: graph.set_tile_mapping(x, [[(0, 4)], [(4, 99)]]),
        lambda: graph.set_tile_mapping(x, [[]] * 5),
        lambda: graph.set_tile_mapping(x, np.array([0, 1, 4, 0])),
        lambda: graph.set_tile_mapping(x, np.array([0, 1])),
        lambda: graph.set_tile_mapping(v, 4),
        lambda: graph.set_perf_estimate(v, -1),
        lambda: graph.add_constant(INT, 3, [1.5, 2, 3]),
        lambda: graph.add_constant(INT, 3, [1, 2]),
        lambda: graph.add_variable(FLOAT, (10**9, 10**9)),
        lambda: graph.add_variable(FLOAT, -1),
        lambda: graph.set_initial_value(x, "no"),
        lambda: graph.set_initial_value(fixed, 2),
        lambda: graph.set_initial_value(v["factor"], None),
        lambda: graph.connect(v["x"], whole),
        lambda: graph.add_host_to_device_fifo("in", FLOAT, 3),
        lambda: graph.add_device_to_host_fifo("out", FLOAT, 0),
        lambda: graph.create_host_write("w", fixed),
        lambda: graph.create_host_read("read", x),
    ]
    before = state_of(graph)
    for number, call in enumerate(calls):
        with pytest.raises(IPUTeachError):
            call()
        assert state_of(graph) == before, number


# --- what things print ----------------------------------------------------------------------------


def test_reprs() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (4, 3), "x")
    y = graph.add_variable(FLOAT, (4, 3), "y")
    cs = graph.add_compute_set("scale")
    assert repr(cs) == "ComputeSet('scale', no vertices)"
    graph.add_vertices(cs, Scale, 0, x=x, out=y)
    graph.add_vertex(cs, Rows, rows=x, out=y[0, 0])
    assert repr(cs) == "ComputeSet('scale', 4 Scale, 1 Rows)"
    assert repr(graph) == "Graph(2 variables, 1 compute set, 5 vertices)"
    assert repr(x) == "Tensor('x', FLOAT, shape (4, 3))"
    assert repr(x.T) == "Tensor('x', FLOAT, shape (3, 4))"
    assert repr(x[1]) == "Tensor(a view of 'x', FLOAT, shape (3,))"
    assert repr(concat([x, y])) == "Tensor(a view of 'x' and others, FLOAT, shape (8, 3))"
    assert repr(x[:0]) == "Tensor(empty tensor, FLOAT, shape (0, 3))"
    out = graph.add_device_to_host_fifo("out", HALF, 12_000)
    assert repr(out) == "DataStream('out', device to host, 12,000 HALF)"
    assert (
        repr(IPUModel("bow", tiles_per_ipu=13, num_ipus=2))
        == "IPUModel('bow', tiles_per_ipu=13, num_ipus=2)"
    )
    assert (
        repr(IPUModel("bow", tiles_per_ipu=13, num_ipus=2).create_device())
        == "Device(bow model, 2 IPUs, 26 tiles)"
    )
    assert repr(FLOAT) == str(FLOAT) == "FLOAT"
    assert "0x" not in repr((graph, cs, x, out))


def test_a_graph_may_be_made_from_a_device_or_its_target() -> None:
    device = IPUModel(tiles_per_ipu=3).create_device()
    assert Graph(device).target is Graph(device.target).target is device.target
