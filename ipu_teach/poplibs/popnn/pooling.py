"""Pooling: the maximum, sum or average of each window of a field, and its gradients.

    params = pooling.PoolParams("MAX", (28, 28), (2, 2), (2, 2), (0, 0), (0, 0), 8, 4, FLOAT)
    pooled = pooling.pool(graph, params, x, prog)                       # x is [4, 8, 28, 28]
    slope = pooling.pool_input_gradient(graph, params, x, pooled, dy, prog)

A result is distributed in blocks, one per tile, as PopLibs plans it (`pool_plan`). Each tile
receives the windows of its elements; padding is local. Cycles are PopLibs' estimates of the pooling
vertices (popnn/PerformanceEstimation.hpp): six workers divide the rows of a block, and process them
once for each place of the window that has work there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np

from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph import (
    Graph,
    Input,
    Output,
    Shape,
    SupervisorVertex,
    Tensor,
    Vector,
    concat,
)
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.laying import typed
from ipu_teach.poplibs.library import (
    OWN,
    Free,
    advised,
    as_given,
    check_mapped,
    check_same,
    check_tensor,
    is_count,
    library,
    refused,
)
from ipu_teach.poplibs.popnn.pool_plan import Ranges, channels_side_by_side, planned
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.types import BOOL, FLOAT, HALF, UNSIGNED_INT, UNSIGNED_SHORT, Array, DType

__all__ = ["PoolParams", "PoolingType", "pool", "pool_input_gradient"]

_FAR = -(2**50)  # an offset so large that every sum with it is negative
_TIES = ("all", "first")
MOST_PLACES = 2**26  # limit of kernel size times number of windows, in one dimension


class PoolingType(Enum):
    """The result of a window: its maximum (MAX), its sum (SUM) or its average (AVG)."""

    MAX = "MAX"
    AVG = "AVG"
    SUM = "SUM"


@advised("give pooling.PoolParams(…).")
@dataclass(frozen=True)
class PoolParams:
    """The parameters of a pooling of [batch_size, channels, *input_field], FLOAT or HALF.

    `kind` is a `PoolingType` or its name. `kernel`, `stride`, `padding_lower` and `padding_upper`
    have a number for each dimension of the field; negative padding removes elements. Padding is
    never the maximum. AVG divides by the number of places of the window inside the field, as in
    PopLibs; torch's average also counts padding, unless `count_include_pad=False`. Raises
    `PoplibsError` if a window does not fit, or covers only padding.
    """

    kind: PoolingType | str
    input_field: Sequence[int]
    kernel: Sequence[int]
    stride: Sequence[int]
    padding_lower: Sequence[int]
    padding_upper: Sequence[int]
    channels: int
    batch_size: int
    dtype: type[DType]

    def __post_init__(self) -> None:
        kind = PoolingType.__members__.get(str(self.kind).upper(), self.kind)
        object.__setattr__(self, "kind", kind)
        if not isinstance(kind, PoolingType):
            raise _wrong("kind", kind, f"use {', '.join(PoolingType.__members__)}.")
        if self.dtype is not FLOAT and self.dtype is not HALF:
            raise _wrong("dtype", self.dtype, "use FLOAT or HALF.")
        for name in ("channels", "batch_size"):
            if not is_count(getattr(self, name), 1):
                raise _wrong(name, getattr(self, name), "give a whole number of 1 or more.")
        for name in ("input_field", "kernel", "stride", "padding_lower", "padding_upper"):
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)) or not value or not all(map(is_whole, value)):
                advice = "give a list with a whole number for each dimension of the field."
                raise _wrong(name, value, advice)
            if len(value) != len(self.input_field):
                wants = f"for {len(value)} of {len(self.input_field)} dimensions of the field"
                raise _wrong(name, value, "give a number for each.", f" {wants}")
            if not name.startswith("padding") and min(value) < 1:
                raise _wrong(name, value, "give 1 or more.")
            object.__setattr__(self, name, tuple(map(int, value)))
        for d, (size, kernel, _, low, high) in enumerate(self._axes()):
            where = f"in dimension {d} of the field"
            if min(size + low, size + high, size + low + high) < 1:
                advice = f"keep at least one of its {size} elements."
                raise _wrong("padding", (low, high), advice, f" {where}")
            if kernel > size + low + high:
                says = f" {where}, which has {size + low + high} elements with its padding"
                raise _wrong("a kernel of", kernel, "make it smaller, or pad the field.", says)
            if (places := kernel * self.output_field[d]) > MOST_PLACES:
                says = f" {where}: its windows have {places:,} places"
                raise _wrong("a kernel of", kernel, "make the kernel or the field smaller.", says)
            if not self._inside(d).all():
                says = f" {where}, with a kernel of {kernel}: some windows contain only padding"
                raise _wrong("padding", (low, high), "pad by less than the kernel.", says)

    def _axes(self) -> list[tuple[int, ...]]:
        lists = (self.input_field, self.kernel, self.stride, self.padding_lower, self.padding_upper)
        return list(zip(*lists, strict=True))

    @property
    def output_field(self) -> Shape:
        """The field of the result: the number of windows in each dimension."""
        return tuple((size + a + b - k) // s + 1 for size, k, s, a, b in self._axes())

    @property
    def input_shape(self) -> Shape:
        """The shape of the input: [batch_size, channels, *input_field]."""
        return (self.batch_size, self.channels, *self.input_field)

    @property
    def output_shape(self) -> Shape:
        """The shape of the result: [batch_size, channels, *output_field]."""
        return (self.batch_size, self.channels, *self.output_field)

    def _seen(self, d: int) -> Array:
        """Return int[kernel, windows]: the position of each place in dimension d of the field.

        It is -1 for places outside the field.
        """
        size, kernel, stride, low, high = self._axes()[d]
        at = np.arange(self.output_field[d]) * stride + np.arange(kernel)[:, None] - low
        inside = (at >= max(-low, 0)) & (at < size - max(-high, 0))
        return np.where(inside, at, -1)

    def _seen_by(self, d: int) -> tuple[Array, Array]:
        """Return (windows, places), each int[windows per element, input_field].

        They are the windows that contain each element of dimension d, and its place in them; or -1.
        """
        size, kernel, stride, low, _ = self._axes()[d]
        at = np.arange(size) + low
        window = at // stride - np.arange(-(-kernel // stride))[:, None]
        place = at - window * stride
        good = (window >= 0) & (window < self.output_field[d]) & (place < kernel)
        return np.where(good, window, -1), np.where(good, place, -1)

    def _work(self, d: int) -> Array:
        """Return bool[kernel, windows]: whether a place is inside dimension d of the field."""
        return self._seen(d) >= 0

    def _work_of(self, d: int) -> Array:
        """Return bool[kernel, input_field]: whether an element has this place in a window."""
        place = self._seen_by(d)[1]
        return np.asarray((place == np.arange(self.kernel[d])[:, None, None]).any(1))

    def _inside(self, d: int) -> Array:
        """Return int[windows]: the number of places inside dimension d of the field."""
        return np.asarray(self._work(d).sum(axis=0))


class _Windows(SupervisorVertex):
    """A vertex with a window in each column of x.

    FLOAT stands for the dtype of the input, HALF for that of the output.
    """

    x: Input[Vector[Vector[FLOAT]]]


class MaxPooling(_Windows):
    """out = the maximum of each column of x; NaN if the column contains NaN."""

    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = np.max(self.x, axis=0)


class SumPooling(_Windows):
    """out = the sum of each column of x, in FLOAT, divided by `divisor`."""

    out: Output[Vector[HALF]]
    divisor: UNSIGNED_INT  # not the inverse, which would be rounded before the product

    def compute(self) -> None:
        self.out = np.sum(self.x.astype(np.float32), axis=0) / self.divisor.astype(np.float32)


class SelectiveScaling(SupervisorVertex):
    """out = x / counts.

    PopLibs has no estimate of it; it costs SumPooling with windows of one place.
    """

    x: Input[Vector[FLOAT]]
    counts: Input[Vector[UNSIGNED_SHORT]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = self.x.astype(np.float32) / self.counts.astype(np.float32)


class MaxPoolingGrad(SupervisorVertex):
    """out = the sum of the gradients of the windows whose maximum is x."""

    x: Input[Vector[FLOAT]]
    pooled: Input[Vector[Vector[FLOAT]]]
    gradient: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        gradient_of_maximum = np.where(self.pooled == self.x, self.gradient, 0)
        self.out = np.sum(gradient_of_maximum.astype(np.float32), axis=0)


class MaxPoolingShares(_Windows):
    """out = gradient, divided over the maxima of each column of x, or only for the first of them.

    PopLibs has no estimate of its MaxPoolingGradientScale; it costs MaxPooling.
    """

    gradient: Input[Vector[FLOAT]]
    out: Output[Vector[Vector[HALF]]]
    first: BOOL

    def compute(self) -> None:
        hit = (self.x == np.max(self.x, axis=0)).astype(np.float32)
        first = np.argmax(self.x, axis=0) == np.arange(len(self.x)).reshape(-1, 1)
        share = np.where(self.first, first, hit / np.maximum(np.sum(hit, axis=0), 1))
        self.out = np.where(share > 0, self.gradient.astype(np.float32) * share, 0)


class _Tables:
    """The places in a flat tensor of the elements that other elements need.

    For each dimension there are distances [count, length], which are added; -1 means no element.
    """

    def __init__(self, each: list[Array]) -> None:
        self._each = [np.where(table < 0, _FAR, table) for table in each]
        self.margin = any(bool((table < 0).any()) for table in each)

    def of(self, ranges: Ranges) -> Array:
        """Return int[count, elements]: the places that a block needs, with all its channels."""
        indices: Array = np.zeros((1, 1), np.int64)
        for table, (begin, end) in zip(self._each, (*ranges, (0, None)), strict=True):
            both = indices[:, None, :, None] + table[:, None, begin:end]
            indices = both.reshape(both.shape[0] * both.shape[1], -1)
        return indices


# a flat tensor, the places that are needed of it, and the value for missing elements
Gathered = tuple[Tensor, _Tables, float]


class _Call:
    """The common part of all compute sets of a call.

    Tensors are flat, in the order of the output's plan: groups of channels, samples, the field, the
    channels of a group.
    """

    def __init__(
        self,
        graph: Graph,
        params: PoolParams,
        x: Tensor,
        prog: Program,
        name: str,
        kind: str,
        forward: bool = True,
    ) -> None:
        self.graph = graph
        self.params = params
        self.prog = prog
        self.name = name
        shape = params.output_shape if forward else params.input_shape
        facts = params.kernel, params.stride, forward, channels_side_by_side(x)
        self.plan = planned(kind, shape, *facts, params.dtype, graph.target)
        self.group = self.plan.shape[-1]
        self.blocks = self.plan.blocks()
        places_of_block = [self.plan.places(ranges) for _, ranges in self.blocks]
        self.order = np.concatenate(places_of_block)
        self.ends = np.cumsum([0, *map(len, places_of_block)])
        work = params._work if forward else params._work_of
        self.work = [work(d) for d in range(len(params.kernel))]

    def flat(self, tensor: Tensor) -> Tensor:
        batch, channels, *field = tensor.shape
        grouped = tensor.reshape((batch, channels // self.group, self.group, *field))
        return grouped.dim_shuffle([1, 0, *range(3, grouped.rank), 2]).flatten()

    def seen(self, flat: Tensor, shape: Shape) -> Tensor:
        """Return a flat tensor as a tensor of this shape."""
        back = flat.reshape(self._shape(shape))
        return back.dim_shuffle([1, 0, back.rank - 1, *range(2, back.rank - 1)]).reshape(shape)

    def _shape(self, shape: Shape) -> Shape:
        return (shape[1] // self.group, shape[0], *shape[2:], self.group)

    def new(
        self, name: str, dtype: type[DType] | None = None, values: Array | None = None
    ) -> Tensor:
        """Return a new flat tensor, mapped by the plan; it is a constant if it has values."""
        dtype = dtype or self.params.dtype
        name = f"{self.name}/{name}"
        shape = (prod(self.plan.shape),)
        if values is None:
            tensor = self.graph.add_variable(dtype, shape, name)
        else:
            tensor = self.graph.add_constant(dtype, shape, values, name)
        self.spread(tensor)
        return tensor

    def spread(self, flat: Tensor) -> None:
        tiles = np.empty(len(self.order), np.int64)
        tiles[self.order] = np.repeat([tile for tile, _ in self.blocks], np.diff(self.ends))
        self.graph.set_tile_mapping(flat, tiles)

    def counts(self) -> tuple[int, Tensor | None]:
        """Return (divisor, counts) for the average of each window.

        If all windows have equally many places inside the field, the divisor is their number and
        counts is None. Otherwise the divisor is 1 and counts a tensor of their numbers. For a sum
        it is (1, None).
        """
        params = self.params
        if params.kind is PoolingType.SUM:
            return 1, None
        inside: Array = np.ones((), np.int64)
        for d in range(len(params.kernel)):
            inside = inside[..., None] * params._inside(d)
        if inside.min() == inside.max():
            return int(inside.max()), None
        full = self._shape(params.output_shape)
        values = np.broadcast_to(inside[..., None], full).reshape(-1)
        return 1, self.new("counts", UNSIGNED_SHORT, values)

    def windows(self) -> _Tables:
        """Return the places of the elements of x that each window contains."""
        params = self.params
        return self._tables(params.input_shape, params._seen)

    def windows_of(self, per_window: bool = False) -> _Tables:
        """Return the places of the windows that contain each element of x.

        With `per_window`, they are places of [kernel places, windows], with a row for each place of
        a window.
        """
        shape = self.params.output_shape
        params = self.params
        rows = prod(shape) * np.cumprod([1, *params.kernel[:0:-1]])[::-1]
        stride = self._strides(shape)[2:]

        def distances(d: int) -> Array:
            window, place = params._seen_by(d)
            far = window * stride[d] + per_window * place * rows[d]
            return np.where(window < 0, -1, far)

        return self._tables(shape, distances, False)

    def _strides(self, shape: Shape) -> list[int]:
        full = self._shape(shape)
        return [prod(full[d + 1 :]) for d in range(len(full))]

    def _tables(
        self, shape: Shape, of_field: Callable[[int], Array], scaled: bool = True
    ) -> _Tables:
        full = self._shape(shape)
        strides = self._strides(shape)
        starts = [np.arange(n)[None] * stride for n, stride in zip(full, strides, strict=True)]
        for d in range(len(self.params.kernel)):
            at = of_field(d)
            starts[d + 2] = np.where(at < 0, -1, at * strides[d + 2]) if scaled else at
        return _Tables(starts)

    def run(
        self,
        base: type[SupervisorVertex],
        kind: str,
        out: Tensor,
        same_shape: dict[str, Tensor],
        wanted: dict[str, Gathered],
        **state: int,
    ) -> None:
        """Append a compute set with a vertex on each tile with elements of `out`.

        A vertex works on the same elements of the tensors in `same_shape`, and on the elements that
        it needs of those in `wanted`. It costs PopLibs' vertex of the `kind`.
        """
        graph = self.graph
        first = next(flat for flat in [*(w[0] for w in wanted.values()), *same_shape.values()])
        types = {FLOAT: first.dtype, HALF: out.dtype}
        vertex_class = typed(base, dict.fromkeys(types.values()), types)
        compute_set = graph.add_compute_set(f"{self.name}/{base.__name__}")
        sources = {
            field: concat([flat, self._margin(flat, fill)]) if tables.margin else flat
            for field, (flat, tables, fill) in wanted.items()
        }
        # a vertex that works on single places processes each once
        work: list[Array] = [np.ones((1, n), bool) for n in self.plan.shape[2:-1]]
        if wanted:
            work = self.work
        edges = {field: flat[..., self.order] for field, flat in {**same_shape, "out": out}.items()}
        # the cycles, by the sizes and the work on which they depend
        estimates: dict[tuple[int | bytes, ...], int] = {}
        for number, (tile, ranges) in enumerate(self.blocks):
            begin, end = self.ends[number : number + 2].tolist()
            ends = {field: flat[..., begin:end] for field, flat in edges.items()}
            for field, (flat, tables, _) in wanted.items():
                at = tables.of(ranges)
                at = np.where(at < 0, flat.num_elements + tile, at)
                ends[field] = sources[field][at.reshape(-1)].reshape(at.shape)
            vertex = graph.add_vertex(compute_set, vertex_class, {**ends, **state})
            graph.set_tile_mapping(vertex, tile)
            pairs = zip(work, ranges[2:], strict=True)
            key: tuple[int | bytes, ...] = (
                *(high - low for low, high in ranges),
                *(places[:, low:high].tobytes() for places, (low, high) in pairs),
            )
            if key not in estimates:
                estimates[key] = self.plan.cycles(
                    kind, work, ranges, first.dtype, target=graph.target
                )
            graph.set_perf_estimate(vertex, estimates[key])
        self.prog.add(Execute(compute_set))

    def _margin(self, flat: Tensor, fill: float) -> Tensor:
        """Return a constant with an element on each tile; a single one would be sent to all."""
        tiles = self.graph.target.num_tiles
        margin = self.graph.add_constant(flat.dtype, (tiles,), fill, f"{self.name}/margin")
        self.graph.set_tile_mapping(margin, np.arange(tiles))
        return margin


@library
def pool(
    graph: Graph,
    params: PoolParams,
    x: Free,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return the pooled windows of x [batch, channels, *field].

    The result is [batch, channels, *params.output_field]. Sums and averages of HALF are accumulated
    in FLOAT, and rounded to HALF once. Raises `PoplibsError`.
    """
    _check(graph, params, "x", x, shape="input_shape")
    largest = params.kind is PoolingType.MAX
    call = _Call(graph, params, x, prog, name=debug_context, kind="MAX" if largest else "AVG")
    out = call.new("out")
    windows = (call.flat(x), call.windows())
    if largest:
        call.run(MaxPooling, "MAX", out, {}, wanted={"x": (*windows, -np.inf)})
        return call.seen(out, params.output_shape)
    divisor, counts = call.counts()
    sums = out if counts is None else call.new("sums", FLOAT)
    call.run(SumPooling, "AVG", sums, {}, wanted={"x": (*windows, 0.0)}, divisor=divisor)
    if counts is not None:
        call.run(SelectiveScaling, "AVG", out, {"x": sums, "counts": counts}, wanted={})
    return call.seen(out, params.output_shape)


@library
def pool_input_gradient(
    graph: Graph,
    params: PoolParams,
    x: Free,
    pooled: Free,
    dy: Free,
    prog: Program,
    debug_context: str = OWN,
    use_scaled_gradient: bool = False,
    ties: str = "all",
) -> Tensor:
    """Return the gradient at the input of `pool`, from `dy` at its output: a tensor of x's shape.

    MAX needs the input `x` and the result `pooled`; for AVG and SUM both are None. If several
    elements are the maximum of a window, each gets its gradient, as in PopLibs. With
    `use_scaled_gradient` the gradient is divided over them, and with `ties="first"` only the first
    gets it, as in torch. Where windows overlap, gradients are added. Sums and shares of HALF are
    accumulated in FLOAT, and rounded to HALF once. Raises `PoplibsError`.
    """
    _check_gradient(graph, params, x, pooled, dy=dy, is_scaled=use_scaled_gradient, ties=ties)
    is_maximum = params.kind is PoolingType.MAX
    per_window = use_scaled_gradient or ties == "first"
    if is_maximum and not per_window:
        call = _Call(graph, params, dy, prog, name=debug_context, kind="GRAD", forward=False)
        out = call.new("out")
        windows = {
            "pooled": (call.flat(pooled), call.windows_of(), 0.0),
            "gradient": (call.flat(dy), call.windows_of(), 0.0),
        }
        call.run(MaxPoolingGrad, "GRAD", out, {"x": call.flat(x)}, wanted=windows)
        return call.seen(out, params.input_shape)
    call = _Call(graph, params, dy, prog, name=debug_context, kind="AVG", forward=False)
    out = call.new("out")
    divisor = 1
    if per_window:
        slopes = _shared_slopes(
            graph, params, x, dy, prog=prog, name=debug_context, first=ties == "first"
        )
    else:
        slope_of_window, divisor = _averaged_slope(graph, params, dy, prog, name=debug_context)
        slopes = [slope_of_window]
    slope = concat([call.flat(slope_of_place) for slope_of_place in slopes])
    wanted = {"x": (slope, call.windows_of(per_window), 0.0)}
    call.run(SumPooling, "AVG", out, {}, wanted=wanted, divisor=divisor)
    return call.seen(out, params.input_shape)


def _shared_slopes(
    graph: Graph,
    params: PoolParams,
    x: Tensor,
    dy: Tensor,
    prog: Program,
    name: str,
    first: bool,
) -> list[Tensor]:
    """Return the gradient of each place of a window for MAX: tensors of the output's shape.

    The maxima of a window share its gradient, or the `first` gets it.
    """
    windows = _Call(graph, params, dy, prog, name=name, kind="MAX")
    dtype = dy.dtype if first else FLOAT  # a share is rounded with its sum
    size = prod(params.kernel)
    places = graph.add_variable(dtype, (size, dy.num_elements), f"{name}/apart")
    slope_of_place = [places[number] for number in range(size)]
    slopes = [windows.seen(place, params.output_shape) for place in slope_of_place]
    for place in slope_of_place:
        windows.spread(place)
    wanted = {"x": (windows.flat(x), windows.windows(), -np.inf)}
    same_shape = {"gradient": windows.flat(dy)}
    windows.run(MaxPoolingShares, "MAX", places, same_shape, wanted=wanted, first=first)
    return slopes


def _averaged_slope(
    graph: Graph, params: PoolParams, dy: Tensor, prog: Program, name: str
) -> tuple[Tensor, int]:
    """Return (gradient of each window's elements, divisor) for AVG and SUM.

    The gradient is already divided if windows have different numbers of elements.
    """
    windows = _Call(graph, params, dy, prog, name=name, kind="AVG")
    divisor, counts = windows.counts()
    if counts is None:
        return dy, divisor
    shared = windows.new("shares", FLOAT)
    same_shape = {"x": windows.flat(dy), "counts": counts}
    windows.run(SelectiveScaling, "AVG", shared, same_shape, wanted={})
    return windows.seen(shared, params.output_shape), divisor


def _check_gradient(
    graph: Graph,
    params: PoolParams,
    x: Tensor | None,
    pooled: Tensor | None,
    dy: Tensor,
    is_scaled: bool,
    ties: str,
) -> None:
    """Raise `PoplibsError` unless the arguments of `pool_input_gradient` fit."""
    _check(graph, params, "dy", dy, shape="output_shape")
    if not isinstance(ties, str) or ties not in _TIES:
        raise as_given(ties, "ties", f"give {' or '.join(map(repr, _TIES))}.")
    if params.kind is PoolingType.MAX:
        _check(graph, params, "x", x, shape="input_shape")
        _check(graph, params, "pooled", pooled, shape="output_shape")
        if is_scaled and ties == "first":
            raise refused(
                "was given use_scaled_gradient, and ties='first'.",
                next_step="give one: equal elements share the gradient, or the first gets it.",
            )
    elif x is not None or pooled is not None or is_scaled or ties != "all":
        raise refused(
            f"was given x, pooled or ties for {PoolingType(params.kind).name} pooling.",
            next_step="leave them out, with None for x and pooled: only MAX has a largest element.",
        )


def _check(graph: Graph, params: PoolParams, name: str, tensor: Tensor | None, shape: str) -> None:
    """Raise `PoplibsError` unless `tensor` has the dtype of the parameters, and their `shape`.

    `shape` is the name of one of their attributes.
    """
    wanted: Shape = getattr(params, shape)
    check_tensor(graph, name, tensor, (len(wanted),))
    assert tensor is not None
    advice = f"give {name} the {shape} of the parameters."
    check_same("shapes", tensor.shape, wanted, f"{name} {tensor!r}", advice=advice)
    advice = "cast it with popops.cast, or say so in the parameters."
    names = tensor.dtype.__name__, params.dtype.__name__
    check_same("dtypes", *names, f"{name} {tensor!r}", advice)
    check_mapped(graph, name, tensor)


def _wrong(name: str, value: object, advice: str, says: str = "") -> PoplibsError:
    text = f"PoolParams() was given {name} {shown(value)}{says}."
    return PoplibsError(text, next_step=advice)
