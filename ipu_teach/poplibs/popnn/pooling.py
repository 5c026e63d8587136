"""Pooling: the largest element, the sum or the average of each window of a field; and gradients.

    params = pooling.PoolParams("MAX", (28, 28), (2, 2), (2, 2), (0, 0), (0, 0), 8, 4, FLOAT)
    pooled = pooling.pool(graph, params, x, prog)                       # x is [4, 8, 28, 28]
    slope = pooling.pool_input_gradient(graph, params, x, pooled, dy, prog)

A result is distributed in blocks, one a tile, as PopLibs plans it (`pool_plan`). Each tile is sent
the windows of its elements; padding is local. Cycles are PopLibs' estimates of the pooling vertices
(popnn/PerformanceEstimation.hpp): six workers share the rows of a block, and go through them for
each place of the window that has work there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any

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

_FAR = -(2**50)  # a distance below all places
_TIES = ("all", "first")
MOST_PLACES = 2**26  # limit of kernel size times number of windows, in one dimension


class PoolingType(Enum):
    """The result of a window: its largest element, MAX; its sum, SUM; its average, AVG."""

    MAX = "MAX"
    AVG = "AVG"
    SUM = "SUM"


@advised("give pooling.PoolParams(…).")
@dataclass(frozen=True)
class PoolParams:
    """A pooling of [batch_size, channels, *input_field], of `dtype` FLOAT or HALF.

    `kind` is a `PoolingType` or its name. `kernel`, `stride`, `padding_lower` and `padding_upper`
    have a number for each dimension of the field; negative padding cuts elements off. Padding is
    never the largest element. AVG divides by the number of places of the window inside the field,
    as PopLibs does; torch's average counts padding too, unless it is given
    `count_include_pad=False`. Raises `PoplibsError` if a window does not fit, or covers only
    padding.
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
        """The field of the result: how many windows there are in each dimension."""
        return tuple((size + a + b - k) // s + 1 for size, k, s, a, b in self._axes())

    @property
    def input_shape(self) -> Shape:
        """[batch_size, channels, *input_field]."""
        return (self.batch_size, self.channels, *self.input_field)

    @property
    def output_shape(self) -> Shape:
        """[batch_size, channels, *output_field]."""
        return (self.batch_size, self.channels, *self.output_field)

    def _seen(self, d: int) -> Array:
        """Return [kernel, windows]: the position in dimension d of the field of each place of a
        window, or -1."""
        size, kernel, stride, low, high = self._axes()[d]
        at = np.arange(self.output_field[d]) * stride + np.arange(kernel)[:, None] - low
        inside = (at >= max(-low, 0)) & (at < size - max(-high, 0))
        return np.where(inside, at, -1)

    def _seen_by(self, d: int) -> tuple[Array, Array]:
        """Return two of [most windows, input_field]: the windows that an element of dimension d is
        in, and its place in each; or -1."""
        size, kernel, stride, low, _ = self._axes()[d]
        at = np.arange(size) + low
        window = at // stride - np.arange(-(-kernel // stride))[:, None]
        place = at - window * stride
        good = (window >= 0) & (window < self.output_field[d]) & (place < kernel)
        return np.where(good, window, -1), np.where(good, place, -1)

    def _work(self, d: int) -> Array:
        """Return bool[kernel, windows]: whether a place of a window is inside dimension d of the
        field."""
        return self._seen(d) >= 0

    def _work_of(self, d: int) -> Array:
        """Return bool[kernel, input_field]: whether an element is at that place of a window."""
        place = self._seen_by(d)[1]
        return np.asarray((place == np.arange(self.kernel[d])[:, None, None]).any(1))

    def _inside(self, d: int) -> Array:
        """Return [windows]: how many places of each are inside dimension d of the field."""
        return np.asarray(self._work(d).sum(axis=0))


class _Windows(SupervisorVertex):
    """A window in each column of x. FLOAT stands for the dtype of the input, HALF for that of the
    output."""

    x: Input[Vector[Vector[FLOAT]]]


class MaxPooling(_Windows):
    """out = the largest of each column of x; NaN if one is NaN."""

    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = np.max(self.x, axis=0)


class SumPooling(_Windows):
    """out = the sum of each column of x, in single precision, divided by `divisor`."""

    out: Output[Vector[HALF]]
    divisor: UNSIGNED_INT  # the number, not its inverse, which would be rounded before the product

    def compute(self) -> None:
        self.out = np.sum(self.x.astype(np.float32), axis=0) / self.divisor.astype(np.float32)


class SelectiveScaling(SupervisorVertex):
    """out = x / counts. Costs what SumPooling does of windows of one place: PopLibs has no estimate
    of it."""

    x: Input[Vector[FLOAT]]
    counts: Input[Vector[UNSIGNED_SHORT]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = self.x.astype(np.float32) / self.counts.astype(np.float32)


class MaxPoolingGrad(SupervisorVertex):
    """out = the sum of the gradients of those windows whose largest element x is."""

    x: Input[Vector[FLOAT]]
    pooled: Input[Vector[Vector[FLOAT]]]
    gradient: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        gradient_of_maximum = np.where(self.pooled == self.x, self.gradient, 0)
        self.out = np.sum(gradient_of_maximum.astype(np.float32), axis=0)


class MaxPoolingShares(_Windows):
    """out = gradient shared among the largest of each of x's columns, or the first of them has it.
    Costs what MaxPooling does: PopLibs has no estimate of its MaxPoolingGradientScale."""

    gradient: Input[Vector[FLOAT]]
    out: Output[Vector[Vector[HALF]]]
    first: BOOL

    def compute(self) -> None:
        hit = (self.x == np.max(self.x, axis=0)).astype(np.float32)
        first = np.argmax(self.x, axis=0) == np.arange(len(self.x)).reshape(-1, 1)
        share = np.where(self.first, first, hit / np.maximum(np.sum(hit, axis=0), 1))
        self.out = np.where(share > 0, self.gradient.astype(np.float32) * share, 0)


class _Tables:
    """The places in a flat tensor of the elements that other elements need: for each dimension
    [count, length] distances, which add up, or -1."""

    def __init__(self, each: list[Array]) -> None:
        self._each = [np.where(table < 0, _FAR, table) for table in each]
        self.margin = any(bool((table < 0).any()) for table in each)

    def of(self, ranges: Ranges) -> Array:
        """Return [wanted, elements]: those of a block, with all channels of its groups."""
        indices: Array = np.zeros((1, 1), np.int64)
        for table, (begin, end) in zip(self._each, (*ranges, (0, None)), strict=True):
            both = indices[:, None, :, None] + table[:, None, begin:end]
            indices = both.reshape(both.shape[0] * both.shape[1], -1)
        return indices


# a flat tensor, the places needed of it, and the value of missing ones
Gathered = tuple[Tensor, _Tables, float]


class _Call:
    """The common part of all compute sets of a call. Tensors are flat, in the order of the output's
    plan: groups of channels, samples, the field, the channels of a group."""

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
        """Return a flat tensor as one of that shape."""
        back = flat.reshape(self._shape(shape))
        return back.dim_shuffle([1, 0, back.rank - 1, *range(2, back.rank - 1)]).reshape(shape)

    def _shape(self, shape: Shape) -> Shape:
        return (shape[1] // self.group, shape[0], *shape[2:], self.group)

    def new(
        self, name: str, dtype: type[DType] | None = None, values: Array | None = None
    ) -> Tensor:
        """Return a new flat tensor, by the plan; a constant, if it has values."""
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
        """Return (the number of places that every window has inside the field, None). If windows
        differ, return (1, a tensor of their numbers); for a sum (1, None)."""
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
        """Return what each window has of x."""
        shape = self.params.input_shape
        params = self.params
        return self._tables(shape, lambda d: params._seen(d))

    def windows_of(self, per_window: bool = False) -> _Tables:
        """Return what each element of x has of the windows. `apart`: of [places, windows], a row
        for each place of a window."""
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
        base: Any,
        kind: str,
        out: Tensor,
        same_shape: dict[str, Tensor],
        wanted: dict[str, Gathered],
        **state: Any,
    ) -> None:
        """Add a vertex on each tile with elements of `out`, on the same elements of the tensors in
        `same_shape`, and on the elements that they need of others; priced as PopLibs' vertex of
        that kind."""
        graph = self.graph
        first = next(flat for flat in [*(w[0] for w in wanted.values()), *same_shape.values()])
        types = {FLOAT: first.dtype, HALF: out.dtype}
        vertex_class = typed(base, dict.fromkeys(types.values()), types)
        compute_set = graph.add_compute_set(f"{self.name}/{base.__name__}")
        sources = {
            field: concat([flat, self._margin(flat, fill)]) if tables.margin else flat
            for field, (flat, tables, fill) in wanted.items()
        }
        # a vertex that works on single places goes through each once
        work: list[Array] = [np.ones((1, n), bool) for n in self.plan.shape[2:-1]]
        if wanted:
            work = self.work
        edges = {field: flat[..., self.order] for field, flat in {**same_shape, "out": out}.items()}
        estimates: dict[object, int] = {}  # cycles, by the sizes and work that they depend on
        for number, (tile, ranges) in enumerate(self.blocks):
            begin, end = self.ends[number : number + 2].tolist()
            ends = {field: flat[..., begin:end] for field, flat in edges.items()}
            for field, (flat, tables, _) in wanted.items():
                at = tables.of(ranges)
                at = np.where(at < 0, flat.num_elements + tile, at)
                ends[field] = sources[field][at.reshape(-1)].reshape(at.shape)
            vertex = graph.add_vertex(compute_set, vertex_class, ends, **state)
            graph.set_tile_mapping(vertex, tile)
            pairs = zip(work, ranges[2:], strict=True)
            key = (
                *(high - low for low, high in ranges),
                *(there[:, low:high].tobytes() for there, (low, high) in pairs),
            )
            if key not in estimates:
                estimates[key] = self.plan.cycles(kind, work, ranges, first.dtype, graph.target)
            graph.set_perf_estimate(vertex, estimates[key])
        self.prog.add(Execute(compute_set))

    def _margin(self, flat: Tensor, fill: float) -> Tensor:
        """Return an element for each tile, which has it to itself: one for all would be sent to
        all."""
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
    """Return the windows of x [batch, channels, *field], pooled: [batch, channels,
    *params.output_field].

    Sums and averages of HALF are carried in FLOAT, and rounded to HALF once. Raises `PoplibsError`.
    """
    _check(graph, params, "x", x, "input_shape")
    largest = params.kind is PoolingType.MAX
    call = _Call(graph, params, x, prog, debug_context, "MAX" if largest else "AVG")
    out = call.new("out")
    windows = (call.flat(x), call.windows())
    if largest:
        call.run(MaxPooling, "MAX", out, {}, {"x": (*windows, -np.inf)})
        return call.seen(out, params.output_shape)
    divisor, counts = call.counts()
    sums = out if counts is None else call.new("sums", FLOAT)
    call.run(SumPooling, "AVG", sums, {}, {"x": (*windows, 0.0)}, divisor=divisor)
    if counts is not None:
        call.run(SelectiveScaling, "AVG", out, {"x": sums, "counts": counts}, {})
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

    MAX takes what went in, `x`, and what came out, `pooled`; AVG and SUM take None for both. Where
    several elements are the largest of a window, each gets its gradient, as in PopLibs; by
    `use_scaled_gradient` they share it, and with `ties="first"` the first has it alone, as in
    torch. Where windows overlap, gradients add up. Sums and shares of HALF are carried in FLOAT,
    and rounded to HALF once. Raises `PoplibsError`.
    """
    _check(graph, params, "dy", dy, "output_shape")
    if not isinstance(ties, str) or ties not in _TIES:
        raise as_given(ties, "ties", f"give {' or '.join(map(repr, _TIES))}.")
    if params.kind is PoolingType.MAX:
        _check(graph, params, "x", x, "input_shape")
        _check(graph, params, "pooled", pooled, "output_shape")
        if use_scaled_gradient and ties == "first":
            raise refused(
                "was given use_scaled_gradient, and ties='first'.",
                next_step="give one: equal elements share the gradient, or the first gets it.",
            )
    elif x is not None or pooled is not None or use_scaled_gradient or ties != "all":
        raise refused(
            f"was given x, pooled or ties for {PoolingType(params.kind).name} pooling.",
            next_step="leave them out, with None for x and pooled: only MAX has a largest element.",
        )
    arguments = graph, params, dy, prog, debug_context
    per_window = use_scaled_gradient or ties == "first"
    largest = params.kind is PoolingType.MAX and not per_window
    call = _Call(*arguments, "GRAD" if largest else "AVG", forward=False)
    out = call.new("out")
    if largest:
        beside = {
            "pooled": (call.flat(pooled), call.windows_of(), 0.0),
            "gradient": (call.flat(dy), call.windows_of(), 0.0),
        }
        call.run(MaxPoolingGrad, "GRAD", out, {"x": call.flat(x)}, beside)
        return call.seen(out, params.input_shape)
    windows = _Call(*arguments, "MAX" if per_window else "AVG")
    divisor = 1
    slopes = [dy]
    if per_window:  # the gradient of each place of a window
        size = prod(params.kernel)
        dtype = FLOAT if use_scaled_gradient else dy.dtype  # a share is rounded with its sum
        places = graph.add_variable(dtype, (size, dy.num_elements), f"{debug_context}/apart")
        slope_of_window = [places[number] for number in range(size)]
        slopes = [windows.seen(place, params.output_shape) for place in slope_of_window]
        for place in slope_of_window:
            windows.spread(place)
        wanted = {"x": (windows.flat(x), windows.windows(), -np.inf)}
        same_shape = {"gradient": windows.flat(dy)}
        windows.run(MaxPoolingShares, "MAX", places, same_shape, wanted, first=ties == "first")
    else:
        divisor, counts = windows.counts()
        if counts is not None:
            shared = windows.new("shares", FLOAT)
            windows.run(
                SelectiveScaling, "AVG", shared, {"x": windows.flat(dy), "counts": counts}, {}
            )
            slopes = [windows.seen(shared, params.output_shape)]
    slope = concat([call.flat(slope_of_window) for slope_of_window in slopes])
    wanted = {"x": (slope, call.windows_of(per_window), 0.0)}
    call.run(SumPooling, "AVG", out, {}, wanted, divisor=divisor)
    return call.seen(out, params.input_shape)


def _check(graph: Graph, params: PoolParams, name: str, tensor: Any, shape: str) -> None:
    """Raise `PoplibsError` unless the tensor is what the parameters say."""
    wanted: Shape = getattr(params, shape)
    check_tensor(graph, name, tensor, (len(wanted),))
    advice = f"give {name} the {shape} of the parameters."
    check_same("shapes", tensor.shape, wanted, f"{name} {tensor!r}", advice)
    advice = "cast it with popops.cast, or say so in the parameters."
    names = tensor.dtype.__name__, params.dtype.__name__
    check_same("dtypes", *names, f"{name} {tensor!r}", advice)
    check_mapped(graph, name, tensor)


def _wrong(name: str, value: object, advice: str, says: str = "") -> PoplibsError:
    text = f"PoolParams() was given {name} {shown(value)}{says}."
    return PoplibsError(text, next_step=advice)
