"""Every method of Tensor against the same call on a numpy array of element ids, and what clones and
joins make of them."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
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
    UNSIGNED_INT,
    Engine,
    Graph,
    IPUModel,
    IPUTeachError,
    Tensor,
    TensorCloneMethod,
    UpsampleMethod,
    append,
    concat,
    program as programs,
    same_view,
)
from ipu_teach.poplibs import poputil
from ipu_teach.program import Copy
from ipu_teach.types import Array


def new_graph(tiles: int = 4) -> Graph:
    return Graph(IPUModel(tiles_per_ipu=tiles).create_device())


# --- views against numpy --------------------------------------------------------------------------

Step = Callable[[st.DrawFn, Tensor, Array], tuple[Tensor, Array]]


def axis_of(draw: st.DrawFn, ids: Array) -> int:
    return draw(st.integers(-ids.ndim, ids.ndim - 1))


def needs_axes(step: Step) -> Step:
    def guarded(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
        return step(draw, t, ids) if ids.ndim else (t, ids)

    return guarded


@needs_axes
def slice_one(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    axis = axis_of(draw, ids)
    low = draw(st.integers(0, ids.shape[axis]))
    high = draw(st.integers(low, ids.shape[axis]))
    cut = t.slice((low, high), dim=axis) if draw(st.booleans()) else t.slice(low, high, axis)
    return cut, np.take(ids, range(low, high), axis)


def slice_all(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    count = draw(st.integers(0, ids.ndim))
    lows = [draw(st.integers(0, n)) for n in ids.shape[:count]]
    highs = [draw(st.integers(low, n)) for low, n in zip(lows, ids.shape, strict=False)]
    return t.slice(lows, highs), ids[tuple(slice(a, b) for a, b in zip(lows, highs, strict=True))]


@needs_axes
def several_slices(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    axis = axis_of(draw, ids)
    spans = []
    for _ in range(draw(st.integers(1, 3))):
        low = draw(st.integers(0, ids.shape[axis]))
        spans.append((low, draw(st.integers(low, ids.shape[axis]))))
    joined = np.concatenate([np.take(ids, range(a, b), axis) for a, b in spans], axis)
    return concat(t.slices(spans, axis), axis), joined


def element(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    if not ids.size or draw(st.integers(0, 4)):
        return t, ids
    place = tuple(draw(st.integers(0, n - 1)) for n in ids.shape[: draw(st.integers(0, ids.ndim))])
    return (t.index(place) if draw(st.booleans()) else t.index(*place)), np.asarray(ids[place])


def moved(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    count = draw(st.integers(0, ids.ndim))
    source = draw(st.permutations(range(ids.ndim)))[:count]
    places = draw(st.permutations(range(ids.ndim)))[:count]
    return t.dim_shuffle_partial(source, places), np.moveaxis(ids, source, places)


@needs_axes
def rolled(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    dim, new = axis_of(draw, ids), axis_of(draw, ids)
    return t.dim_roll(dim, new), np.moveaxis(ids, dim, new)


def reshaped(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    low = draw(st.integers(0, ids.ndim))
    high = draw(st.integers(low, ids.ndim))
    count = math.prod(ids.shape[low:high])
    factor = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0] or [1]))
    new = (factor, count // factor) if draw(st.booleans()) else (count // factor, 1, factor)
    return t.reshape_partial(low, high, new), ids.reshape(*ids.shape[:low], *new, *ids.shape[high:])


def expanded(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    if ids.ndim > 5:
        return t, ids
    dims = draw(st.lists(st.integers(0, ids.ndim), max_size=2))
    wide = ids
    for dim in sorted(dims, reverse=True):
        wide = np.expand_dims(wide, dim)
    return t.expand(dims), wide


def squeezed(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    single = [i for i, n in enumerate(ids.shape) if n == 1]
    if draw(st.booleans()):
        return t.squeeze(), ids.squeeze()
    chosen = draw(st.lists(st.sampled_from(single), unique=True)) if single else []
    return t.squeeze(chosen), ids.squeeze(tuple(chosen))


@needs_axes
def broadcast(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    if ids.size > 200:
        return t, ids
    axis, count = axis_of(draw, ids), draw(st.integers(0 if ids.size < 3 else 1, 3))
    return t.broadcast(count, axis), np.concatenate([ids] * count, axis) if count else np.take(
        ids, [], axis
    )


@needs_axes
def upsampled(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    if ids.size > 200:
        return t, ids
    axis, scale = axis_of(draw, ids), draw(st.integers(1, 3))
    return t.upsample(scale, axis, UpsampleMethod.REPEAT), np.repeat(ids, scale, axis)


@needs_axes
def sampled(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    axis, stride = axis_of(draw, ids), draw(st.integers(1, 3))
    return t.sub_sample(stride, axis), np.take(ids, range(0, ids.shape[axis], stride), axis)


@needs_axes
def reversed_(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    axis = axis_of(draw, ids)
    return t.reverse(axis), np.flip(ids, axis)


@needs_axes
def appended(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    axis = draw(st.integers(0, ids.ndim - 1))
    if ids.size > 200 or not ids.shape[axis]:
        return t, ids
    last = ids.take(0, axis)
    return append(t, t[(slice(None),) * axis + (0,)], axis), np.concatenate(
        [ids, np.expand_dims(last, axis)], axis
    )


@needs_axes
def joined(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    axis = draw(st.integers(0, ids.ndim - 1))
    if ids.size > 200:
        return t, ids
    both = np.concatenate([ids, np.flip(ids, axis)], axis)
    back = t.reverse(axis)
    return draw(
        st.sampled_from([concat(t, back, axis), concat(t, back, dim=axis), concat([t, back], axis)])
    ), both


def matched(draw: st.DrawFn, t: Tensor, ids: Array) -> tuple[Tensor, Array]:
    if ids.size > 100 or ids.ndim > 5:
        return t, ids
    shape = tuple(draw(st.integers(0, 3)) if n == 1 else n for n in ids.shape)
    shape = tuple(draw(st.lists(st.integers(1, 2), max_size=1))) + shape
    return poputil.broadcast_to_match(t, shape), np.broadcast_to(ids, shape)


STEPS: list[Step] = [
    slice_one,
    slice_all,
    several_slices,
    element,
    moved,
    rolled,
    reshaped,
    expanded,
    squeezed,
    broadcast,
    upsampled,
    sampled,
    reversed_,
    appended,
    joined,
    matched,
]


@st.composite
def views(draw: st.DrawFn) -> tuple[Graph, Tensor, Array, Array]:
    """(graph, a view of x and y joined, its element ids, the ids where a variable begins)."""
    graph = new_graph()
    graph.add_variable(HALF, 3, "first")
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    x = graph.add_variable(FLOAT, shape, "x")
    y = graph.add_constant(FLOAT, shape, 1, "y")
    tensor, ids = x, x.positions()
    if shape and draw(st.booleans()):
        tensor, ids = concat(x, y, 0), np.concatenate([x.positions(), y.positions()])
    for _ in range(draw(st.integers(0, 5))):
        tensor, ids = draw(st.sampled_from(STEPS))(draw, tensor, ids)
        assert tensor.shape == ids.shape
        assert np.array_equal(tensor.positions(), ids)
    return graph, tensor, ids, np.array([v.start // 4 for v in graph.variables])


@given(views())
@settings(max_examples=400)
def test_every_method_is_numpys(view: tuple[Graph, Tensor, Array, Array]) -> None:
    graph, tensor, ids, starts = view
    flat = ids.reshape(-1)
    constant = graph.variables[2]
    inside = (flat >= constant.start // 4) & (flat < constant.stop // 4)
    aliased = len(np.unique(flat)) < flat.size
    assert tensor.contains_aliases() == aliased
    assert tensor.contains_constant() == bool(inside.any())
    assert graph.is_constant(tensor) == bool(flat.size and inside.all())
    assert tensor.is_parallel_writeable() == (not aliased and not inside.any())
    assert tensor.valid() is True
    # Regions, element by element.
    owner = np.array(
        [max(v.id for v in graph.variables if v.start <= 4 * i) for i in flat.tolist()], int
    )
    breaks = [
        i for i in range(1, flat.size) if flat[i] != flat[i - 1] + 1 or owner[i] != owner[i - 1]
    ]
    cuts = [0, *breaks, flat.size] if flat.size else []
    assert tensor.get_contiguous_regions() == list(zip(cuts, cuts[1:], strict=False))
    assert tensor.is_contiguous() == (len(cuts) <= 2)
    found = [(r.var.id, list(range(*r.interval))) for r in tensor.get_var_regions()]
    parts = [range(a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
    assert found == [(owner[p[0]], [int(flat[i] - starts[owner[p[0]]]) for i in p]) for p in parts]
    assert same_view(tensor, tensor.flatten().reshape(tensor.shape))
    assert tensor.shape_to_string() == "[" + ",".join(map(str, ids.shape)) + "]"
    bits = tensor.reinterpret(INT)
    assert (
        bits.dtype is INT
        and np.array_equal(bits.positions(), ids)
        and bits.intersects_with(tensor) == bool(flat.size)
    )
    assert (f"shape {tensor.shape}" in str(tensor)) and "<table>" in tensor._repr_html_()


@given(views(), st.data())
def test_intersections(view: tuple[Graph, Tensor, Array, Array], data: st.DataObject) -> None:
    _, tensor, ids, _ = view
    flat = tensor.flatten()
    a, b, c, d = (data.draw(st.integers(0, len(flat))) for _ in range(4))
    one, two = slice(min(a, b), max(a, b)), slice(min(c, d), max(c, d))
    shared = set(ids.reshape(-1)[one].tolist()) & set(ids.reshape(-1)[two].tolist())
    assert flat[one].intersects_with(flat[two]) == bool(shared)


# --- clones ---------------------------------------------------------------------------------------


def tile_of_each(graph: Graph, tensor: Tensor) -> Array:
    return graph.tile_map().at(tensor.positions() * tensor.dtype.size)


@given(
    views(),
    st.data(),
    st.sampled_from(TensorCloneMethod),
    st.sampled_from([None, HALF, UNSIGNED_INT]),
)
@settings(max_examples=200)
def test_clones(
    view: tuple[Graph, Tensor, Array, Array],
    data: st.DataObject,
    method: TensorCloneMethod,
    dtype: Any,
) -> None:
    graph, tensor, ids, _ = view
    for part in tensor.flatten().slices([(i, i + 1) for i in range(min(tensor.num_elements, 20))]):
        tile = data.draw(st.integers(-1, 3))
        if tile >= 0:
            graph.set_tile_mapping(part, tile)
    before, count = tile_of_each(graph, tensor), len(graph.variables)
    made = graph.clone(tensor, "twin", method, dtype=dtype, debug_context="scope")
    assert (
        made.shape == tensor.shape
        and made.dtype is (dtype or tensor.dtype)
        and len(graph.variables) == count + 1
    )
    variable = graph.variables[-1]
    assert variable.name == "scope/twin" and not variable.constant
    assert np.array_equal(tile_of_each(graph, made), before) and np.array_equal(
        tile_of_each(graph, tensor), before
    )
    place = made.positions().reshape(-1) - variable.start // made.dtype.size
    flat = ids.reshape(-1)
    size = (variable.stop - variable.start) // made.dtype.size
    assert set(place.tolist()) == set(range(size))
    aliases = len(np.unique(flat)) < flat.size
    if method is TensorCloneMethod.CREATE_NEW_ORDER or (
        method is TensorCloneMethod.PRESERVE_ORDER_UNLESS_ALIASES and aliases
    ):
        assert place.tolist() == list(range(flat.size))
        return
    order = np.unique(flat)
    if method is TensorCloneMethod.GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES:
        order = order[np.argsort(graph.tile_map().at(order * 4), kind="stable")]
    assert place.tolist() == [order.tolist().index(i) for i in flat.tolist()]


def test_clone_n() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (2, 3), "x")
    graph.set_tile_mapping(x[0], 1)
    graph.set_tile_mapping(x[1], 3)
    copies = graph.clone_n(x, 4, "copies")
    assert (
        copies.shape == (4, 2, 3)
        and not copies.intersects_with(x)
        and not copies.contains_aliases()
    )
    assert [tile_of_each(graph, copies[i]).tolist() for i in range(4)] == [[[1] * 3, [3] * 3]] * 4


# --- views cost nothing ---------------------------------------------------------------------------


def test_views_cost_nothing() -> None:
    """A copy through seven views between tensors that lie alike moves nothing between tiles, and
    moves the right values."""
    device = IPUModel(tiles_per_ipu=4).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, (4, 6), "x")
    for row in range(4):
        graph.set_tile_mapping(x[row], row)
    out = graph.clone(x, "out")

    def seen(t: Tensor) -> Tensor:
        t = (
            t.reshape_partial(1, 2, (2, 3))
            .dim_roll(2, 1)
            .reverse(1)
            .expand(0)
            .squeeze(0)
            .dim_shuffle_partial([0], [2])
        )
        return concat(t.slices([(2, 3), (0, 2)], 0), 0)

    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    graph.set_initial_value(x, values)
    graph.create_host_read("out", out)
    before = len(graph.variables), list(graph.mapping_log)
    source, destination = seen(x), seen(out)
    assert (len(graph.variables), list(graph.mapping_log)) == before
    engine = Engine(graph, Copy(source, destination))
    engine.load(device)
    engine.run()
    assert np.array_equal(engine.read_tensor("out"), values)
    received, sent = engine.report.exchange_bytes_per_tile
    assert not received.any() and not sent.any()


def test_large_views_need_no_list() -> None:
    graph = Graph(IPUModel().create_device())
    huge = graph.add_variable(FLOAT, (20_000, 10_000), "huge")
    for view in (
        huge.reverse(1),
        huge.T.sub_sample(2),
        huge.dim_roll(1),
        huge.expand((0, 2)).squeeze(),
        huge[:1].broadcast(50),
    ):
        assert view.layout.strides is not None and not view.contains_constant()
    assert (
        str(huge.T) == "Tensor('huge', FLOAT, shape (10000, 20000), 800,000,000 bytes on no tile)"
    )


# --- same_view, and text about where elements lie -------------------------------------------------


def test_same_view() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (3, 4), "x")
    assert (
        same_view(x, x.T.T)
        and same_view(x[1], x[1:2].squeeze())
        and same_view(x.flatten(), concat(x[0], x[1:].flatten()))
    )
    assert same_view(x[:, :1], x[:, 0].expand(1)) and same_view(x[:0], x[3:])
    assert (
        not same_view(x, x.reverse(0))
        and not same_view(x, x.reinterpret(INT))
        and not same_view(x[0], x[1])
    )
    assert not same_view(x, x.reshape((4, 3))) and not same_view(
        x[:0], new_graph().add_variable(FLOAT, (0, 4))
    )


def test_debug_text() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, 16, "x")  # 64 bytes: y begins where it ends
    y = graph.add_variable(FLOAT, (2, 3), "y")
    graph.set_tile_mapping(x, 2)
    both = concat([x[14:], y.flatten(), x[:1]])
    assert both.get_debug_str() == "x, y"
    assert both.get_var_str() == "x[14:16], y[0:6], x[0:1]"
    assert both.get_contiguous_regions() == [(0, 2), (2, 8), (8, 9)]
    assert [(str(r.var), r.interval) for r in both.get_var_regions()] == [
        ("Variable('x', FLOAT, shape (16,), 64 bytes)", (14, 16)),
        ("Variable('y', FLOAT, shape (2, 3), 24 bytes)", (0, 6)),
        ("Variable('x', FLOAT, shape (16,), 64 bytes)", (0, 1)),
    ]
    assert y.shape_to_string() == "[2,3]" and y[0, 0].shape_to_string() == "[]"
    out = io.StringIO()
    both.dump(out)
    both.dump_regions(out)
    assert out.getvalue() == (
        "Tensor(a view of 'x' and others, FLOAT, shape (9,), 36 bytes on tile 2, 24 of them on "
        "none)\n[0:2] is x[14:16]\n[2:8] is y[0:6]\n[8:9] is x[0:1]\n"
    )


# --- errors ---------------------------------------------------------------------------------------


def test_errors() -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, (4, 3), "x")
    b = graph.add_variable(BOOL, 2, "b")
    c = graph.add_variable(CHAR, 2, "c")
    here = "\n  where: Tensor('x', FLOAT, shape (4, 3))\n  next:  "
    texts: list[tuple[Callable[[], Any], str]] = [
        (
            lambda: x.slice((1, 2, 3)),
            "slice((1, 2, 3)) does not select a part of shape (4, 3)."
            + here
            + "give (begin, end), with 0 <= begin <= end.",
        ),
        (
            lambda: x.slice((1,), (2, 3)),
            "slice((1,), (2, 3)) does not select a part of shape (4, 3)."
            + here
            + "give as many begins as ends, at most 2.",
        ),
        (
            lambda: x.slice(1, 9),
            "slice(1, 9) does not fit dimension 0, which has 4 elements."
            + here
            + "use 0 <= begin <= end <= 4.",
        ),
        (
            lambda: x.slices(5),
            "slices(5) does not select parts of shape (4, 3)."
            + here
            + "give a list of intervals, as in [(0, 2), (5, 6)].",
        ),
        (
            lambda: x.index("a"),
            "index() was given 'a', which is not an index."
            + here
            + "give whole numbers, none negative.",
        ),
        (
            lambda: x.sub_sample(0),
            "sub_sample() was given the stride 0, which is not valid."
            + here
            + "use a whole number of 1 or more.",
        ),
        (
            lambda: x.reverse(2),
            "There is no dimension 2 in a tensor of shape (4, 3)." + here + "use 0 to 1.",
        ),
        (
            lambda: x.reshape_partial(0, 3, 4),
            "reshape_partial(0, 3) does not fit shape (4, 3)."
            + here
            + "use 0 <= dim_begin <= dim_end <= 2.",
        ),
        (
            lambda: x.reshape_partial(0, 1, (3, 1)),
            "reshape_partial(0, 1) of shape (4, 3) has 4 elements to rearrange and "
            "cannot take the shape (3, 1)."
            + here
            + "give whole numbers, none negative, whose product is the number of "
            "elements.",
        ),
        (
            lambda: x.expand(3),
            "expand(3) does not fit shape (4, 3)." + here + "use whole numbers from 0 to 2.",
        ),
        (
            lambda: x.squeeze([1]),
            "squeeze([1]) does not fit shape (4, 3)." + here + "no dimension has length 1.",
        ),
        (
            lambda: x[:1].squeeze(1),
            "squeeze(1) does not fit shape (1, 3).\n  where: Tensor(a view of 'x', FLOAT, shape "
            "(1, 3))\n  next:  the dimensions of length 1 are [0].",
        ),
        (
            lambda: x.broadcast(-1),
            "broadcast() was asked for -1 repetitions, which is not possible."
            + here
            + "use a whole number, none negative.",
        ),
        (
            lambda: x.broadcast(10**9),
            "A view of 12,000,000,000 separate pieces is too large to work with."
            "\n  next:  use a smaller tensor: at most 268,435,456 pieces.",
        ),
        (
            lambda: x.upsample(2, 0, "REPEAT"),
            "upsample() was given the method 'REPEAT', which is not an UpsampleMethod."
            + here
            + "use UpsampleMethod.REPEAT.",
        ),
        (
            lambda: x.reinterpret(HALF),
            "reinterpret() cannot read FLOAT (4 bytes) as HALF (2)."
            + here
            + "choose a dtype of the same size, or convert the values with popops.cast.",
        ),
        (
            lambda: c.reinterpret(BOOL),
            "reinterpret() cannot read CHAR as BOOL, in which only the bits of 0 and 1 are valid."
            "\n  where: Tensor('c', CHAR, shape (2,))\n  next:  convert the values with "
            "popops.cast.",
        ),
        (
            lambda: x.dim_shuffle_partial([0], [0, 1]),
            "dim_shuffle_partial([0], [0, 1]) does not fit shape (4, 3)."
            + here
            + "give two lists of equal length, in which each of [0, 1] occurs at most once.",
        ),
        (
            lambda: x.intersects_with(3),
            "intersects_with() was given 3, which is not a tensor." + here + "give a tensor.",
        ),
        (
            lambda: append(x, x[0], 1),
            "append() along dimension 1 of shape (4, 3) takes an entry of shape (4,), not (3,).\n  "
            "where: Tensor('x', FLOAT, shape (4, 3)) and Tensor(a view of 'x', FLOAT, shape (3,))"
            "\n  next:  reshape the entry, or use concat() for several entries at once.",
        ),
        (
            lambda: append(x, 1),
            "append() was given 1, which is not a tensor.\n  next:  give two tensors.",
        ),
        (
            lambda: same_view(x, 1),
            "same_view() was given 1, which is not a tensor.\n  next:  give two tensors.",
        ),
        (
            lambda: concat(x, x, "b"),
            "There is no dimension 'b' in a tensor of shape (4, 3)." + here + "use 0 to 1.",
        ),
        (
            lambda: concat(),
            "concat() was given (), which is not a list of tensors.\n  next:  give a list of tensors, as in concat([a, b]).",
        ),
        (
            lambda: graph.clone(x, "y", "all"),
            "clone() was given 'all' as method, which is not a TensorCloneMethod.\n  next:  use TensorCloneMethod."
            "PRESERVE_ORDER_AND_ALIASES, CREATE_NEW_ORDER, PRESERVE_ORDER_UNLESS_ALIASES, "
            "GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES.",
        ),
        (
            lambda: graph.clone_n(x, 0),
            "clone_n() was asked for 0 clones, which is not possible.\n  next:  give a whole number of 1 or more.",
        ),
    ]
    assert b.reinterpret(CHAR).dtype is CHAR
    for call, text in texts:
        with pytest.raises(IPUTeachError) as error:
            call()
        assert str(error.value) == text


@given(st.data())
@settings(max_examples=150)
def test_bad_arguments_end_in_errors_of_the_kit(data: st.DataObject) -> None:
    graph = new_graph()
    x = graph.add_variable(FLOAT, data.draw(st.lists(st.integers(0, 3), max_size=3)), "x")
    anything: st.SearchStrategy[Any] = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 5),
        st.floats(),
        st.text(max_size=2),
        st.just(x),
        st.just(np.arange(3)),
        st.lists(st.integers(-1, 4), max_size=3),
        st.tuples(st.none() | st.integers(), st.just("a")),
        st.just(10**40),
    )
    names: Sequence[str] = (
        "slice",
        "slices",
        "index",
        "sub_sample",
        "reverse",
        "reshape_partial",
        "expand",
        "squeeze",
        "broadcast",
        "upsample",
        "reinterpret",
        "dim_shuffle_partial",
        "dim_roll",
        "intersects_with",
        "flatten",
        "reshape",
        "dim_shuffle",
    )
    name = data.draw(st.sampled_from(names))
    args = data.draw(st.lists(anything, min_size=1, max_size=3))
    calls: list[Callable[..., Any]] = [
        getattr(x, name),
        concat,
        append,
        same_view,
        graph.clone,
        graph.clone_n,
    ]
    for call in calls:
        try:
            call(*args)
        except IPUTeachError:
            pass
        except TypeError as error:  # only Python's own, for the number of arguments
            assert "argument" in str(error)


def test_programs_are_appended_as_to_a_list() -> None:
    first = programs.Sequence()
    assert first.append(programs.Sync()).append(programs.Sequence()) is first
    assert [type(program).__name__ for program in first.children()] == ["Sync", "Sequence"]
