"""Pooling: the largest element, the sum or the average of each window of a field; and gradients.

    params = pooling.PoolParams("MAX", (28, 28), (2, 2), (2, 2), (0, 0), (0, 0), 8, 4, FLOAT)
    pooled = pooling.pool(graph, params, x, prog)                       # x is [4, 8, 28, 28]
    slope = pooling.pool_input_gradient(graph, params, x, pooled, dy, prog)

A result is spread over the tiles in the order in which x lies in memory. Each tile is sent the
windows of its elements; what is padding it has by itself. Cycles are PopLibs' estimates of the
pooling vertices (popnn/PerformanceEstimation.hpp), with the data paths of a tile dealt to its
workers in one row each, and a piece of work for each place of the window; where a gradient's place
has no window (a stride, a margin), it is counted all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph import (
    Graph,
    Input,
    Output,
    Shape,
    SupervisorVertex,
    Tensor,
    Vector,
    Vertex,
    concat,
    template,
)
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.library import (
    OWN,
    Free,
    as_given,
    check_mapped,
    check_same,
    check_tensor,
    is_count,
    library,
    refused,
)
from ipu_teach.poplibs.placing import in_memory_order
from ipu_teach.poplibs.poputil import map_tensor_linearly, tile_pieces
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import BOOL, FLOAT, HALF, UNSIGNED_SHORT, Array, DType

__all__ = ["PoolParams", "PoolingType", "pool", "pool_input_gradient"]

_FAR = -(2**50)  # a distance below all places
_TIES = ("all", "first")


class PoolingType(Enum):
    """What becomes of a window: its largest element, MAX; its sum, SUM; its average, AVG."""

    MAX = "MAX"
    AVG = "AVG"
    SUM = "SUM"


@dataclass(frozen=True)
class PoolParams:
    """A pooling of [batch_size, channels, *input_field], of `dtype` FLOAT or HALF.

    `kind`: a `PoolingType` or its name. `kernel`, `stride`, `padding_lower` and `padding_upper`
    have a number for each dimension of the field; negative padding cuts elements off. Padding is
    never the largest. AVG divides by the places of the window that lie within the field, as PopLibs
    does; torch's average counts padding, too, unless it is told `count_include_pad=False`. Raises
    `PoplibsError`, where a window does not fit, or lies in padding alone.
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
        if self.dtype not in (FLOAT, HALF):
            raise _wrong("dtype", self.dtype, "pooling is of FLOAT or HALF.")
        for name in ("channels", "batch_size"):
            if not is_count(getattr(self, name), 1):
                raise _wrong(name, getattr(self, name), "give a whole number of 1 or more.")
        for name in ("input_field", "kernel", "stride", "padding_lower", "padding_upper"):
            given = getattr(self, name)
            if not isinstance(given, (list, tuple)) or not given or not all(map(is_whole, given)):
                advice = "give a list with a whole number for each dimension of the field."
                raise _wrong(name, given, advice)
            if len(given) != len(self.input_field):
                wants = f"for {len(given)} of {len(self.input_field)} dimensions of the field"
                raise _wrong(name, given, "give a number for each.", f" {wants}")
            if not name.startswith("padding") and min(given) < 1:
                raise _wrong(name, given, "1 is the least.")
            object.__setattr__(self, name, tuple(map(int, given)))
        for d, (size, kernel, _, low, high) in enumerate(self._axes()):
            where = f"in dimension {d} of the field"
            if min(size + low, size + high, size + low + high) < 1:
                advice = f"leave one at least of its {size} elements."
                raise _wrong("padding", (low, high), advice, f" {where}")
            if kernel > size + low + high:
                says = f" {where}, which has {size + low + high} elements with its padding"
                raise _wrong("a kernel of", kernel, "make it smaller, or pad the field.", says)
            if not self._inside(d).all():
                says = f" {where}, with a kernel of {kernel}: some windows have padding alone"
                raise _wrong("padding", (low, high), "pad by less than the kernel.", says)

    def _axes(self) -> list[tuple[int, ...]]:
        given = (self.input_field, self.kernel, self.stride, self.padding_lower, self.padding_upper)
        return list(zip(*given, strict=True))

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
        """[kernel, windows]: where in dimension d of the field each place of a window lies, or
        -1."""
        size, kernel, stride, low, high = self._axes()[d]
        at = np.arange(self.output_field[d]) * stride + np.arange(kernel)[:, None] - low
        inside = (at >= max(-low, 0)) & (at < size - max(-high, 0))
        return np.where(inside, at, -1)

    def _seen_by(self, d: int) -> tuple[Array, Array]:
        """Two of [most windows, input_field]: the windows that an element of dimension d is in, and
        its place in each; or -1."""
        size, kernel, stride, low, _ = self._axes()[d]
        at = np.arange(size) + low
        window = at // stride - np.arange(-(-kernel // stride))[:, None]
        place = at - window * stride
        good = (window >= 0) & (window < self.output_field[d]) & (place < kernel)
        return np.where(good, window, -1), np.where(good, place, -1)

    def _inside(self, d: int) -> Array:
        """[windows]: how many places of each lie within dimension d of the field."""
        return np.asarray((self._seen(d) >= 0).sum(axis=0))


def _cycles(kind: str, places: int, n: int, dtype: type[DType], target: Target) -> int:
    paths = -(-n // target.get_vector_width(dtype))
    share = -(-paths // target.num_worker_contexts)
    return int(vertices.pooling(kind, share, target, items=places))


class _Windows(SupervisorVertex):
    """A window in each column of x. FLOAT stands for what comes in, HALF for what goes out."""

    x: Input[Vector[Vector[FLOAT]]]

    def cycles(self, target: Target) -> int:
        kind = "MAX" if type(self).__name__.startswith("popnn::Max") else "AVG"
        places, n = self.x.shape
        return _cycles(kind, places, n, self.fields["x"].dtype, target)


class MaxPooling(_Windows):
    """out = the largest of each column of x; NaN if one is NaN."""

    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = np.max(self.x, axis=0)


class SumPooling(_Windows):
    """out = the sum of each column of x, in single precision, times scale."""

    out: Output[Vector[HALF]]
    scale: FLOAT

    def compute(self) -> None:
        self.out = np.sum(self.x.astype(np.float32), axis=0) * self.scale


class SelectiveScaling(SupervisorVertex):
    """out = x / counts. Costs what SumPooling does of windows of one place: PopLibs has no estimate
    of it."""

    x: Input[Vector[FLOAT]]
    counts: Input[Vector[UNSIGNED_SHORT]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = self.x.astype(np.float32) / self.counts.astype(np.float32)

    def cycles(self, target: Target) -> int:
        return _cycles("AVG", 1, len(self.x), self.fields["x"].dtype, target)


class MaxPoolingGrad(SupervisorVertex):
    """out = the sum of the gradients of those windows whose largest element x is."""

    x: Input[Vector[FLOAT]]
    pooled: Input[Vector[Vector[FLOAT]]]
    gradient: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        here = np.where(self.pooled == self.x, self.gradient, 0)
        self.out = np.sum(here.astype(np.float32), axis=0)

    def cycles(self, target: Target) -> int:
        places, n = self.pooled.shape
        return _cycles("GRAD", places, n, self.fields["x"].dtype, target)


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


@cache
def _codelet(base: Any, dtype: type[DType], result: type[DType]) -> type[Vertex]:
    words = dtype.__name__.lower(), result.__name__.lower()
    named = f"popnn::{base.__name__}<{','.join(words if dtype is not result else words[:1])}>"
    return template(base, named, {FLOAT: dtype, HALF: result})


class _Tables:
    """Where in a flat tensor the elements lie that each of some others wants: for each dimension
    [how many, length] distances, which add up, or -1."""

    def __init__(self, each: list[Array]) -> None:
        self._each = [np.where(table < 0, _FAR, table) for table in each]
        self._shape = tuple(table.shape[1] for table in each)
        self.margin = any(bool((table < 0).any()) for table in each)

    def of(self, begin: int, end: int) -> Array:
        """[wanted, end - begin]: those of the elements from `begin` to before `end`."""
        found = np.zeros((1, end - begin), np.int64)
        places = np.unravel_index(np.arange(begin, end), self._shape)
        for table, at in zip(self._each, places, strict=True):
            found = (found[:, None] + table[:, at]).reshape(-1, end - begin)
        return found


Gathered = tuple[Tensor, _Tables, float]  # a flat tensor, what is wanted of it, and what is nowhere


class _Call:
    """What all compute sets of a call share. Tensors are flat, in the order in which x lies."""

    def __init__(
        self, graph: Graph, params: PoolParams, like: Tensor, prog: Program, name: str
    ) -> None:
        self.graph, self.params, self.prog, self.name = graph, params, prog, name
        order = in_memory_order(like)  # of equal elements the first is found by the field's order
        self.order = order if [d for d in order if d > 1] == sorted(order)[2:] else sorted(order)

    def flat(self, tensor: Tensor) -> Tensor:
        return tensor.dim_shuffle(self.order).flatten()

    def seen(self, flat: Tensor, shape: Shape) -> Tensor:
        """A flat tensor as one of that shape."""
        back = [self.order.index(d) for d in range(len(shape))]
        return flat.reshape([shape[d] for d in self.order]).dim_shuffle(back)

    def new(self, size: int, name: str, dtype: type[DType] | None = None) -> Tensor:
        """A new flat tensor, spread over the tiles."""
        made = self.graph.add_variable(dtype or self.params.dtype, (size,), f"{self.name}/{name}")
        self.spread(made)
        return made

    def spread(self, flat: Tensor) -> None:
        grain = self.graph.target.get_vector_width(self.params.dtype)
        map_tensor_linearly(self.graph, flat, grain_size=grain)

    def counts(self) -> tuple[float, Tensor | None]:
        """(1 / the places that every window has within the field, None); where they differ, (1, a
        tensor of them). A sum's are (1, None)."""
        params = self.params
        inside: Array = np.ones((), np.int64)
        if params.kind is PoolingType.SUM:
            return 1.0, None
        for d in self.order:
            more = params._inside(d - 2) if d > 1 else np.ones(params.input_shape[d], np.int64)
            inside = inside[..., None] * more
        if inside.min() == inside.max():
            return 1 / float(inside.max()), None
        name = f"{self.name}/counts"
        made = self.graph.add_constant(UNSIGNED_SHORT, (inside.size,), inside.reshape(-1), name)
        self.spread(made)
        return 1.0, made

    def windows(self) -> _Tables:
        """What each window has of x."""
        shape, params = self.params.input_shape, self.params
        return self._tables(shape, lambda d: params._seen(d) * self._stride(shape, d + 2))

    def windows_of(self, apart: bool = False) -> _Tables:
        """What each element of x has of the windows. `apart`: of [places, windows], a row for each
        place of a window."""
        shape, params = self.params.output_shape, self.params
        kernel = (1, 1, *params.kernel)

        def distances(d: int) -> Array:
            window, place = params._seen_by(d)
            row = prod(shape) * self._stride(kernel, d + 2) if apart else 0
            return np.asarray(window * self._stride(shape, d + 2) + place * row)

        return self._tables(shape, distances)

    def _stride(self, shape: Shape, d: int) -> int:
        return prod(shape[other] for other in self.order[self.order.index(d) + 1 :])

    def _tables(self, shape: Shape, of_field: Callable[[int], Array]) -> _Tables:
        return _Tables(
            [
                of_field(d - 2) if d > 1 else np.arange(shape[d])[None] * self._stride(shape, d)
                for d in self.order
            ]
        )

    def run(
        self,
        base: Any,
        out: Tensor,
        alike: dict[str, Tensor],
        wanted: dict[str, Gathered],
        **state: Any,
    ) -> None:
        """A vertex on each tile that holds some of `out`, on the same elements of what is `alike`,
        and on what they want of others."""
        graph, edges = self.graph, {**alike, "out": out}
        first = next(flat for flat in [*(w[0] for w in wanted.values()), *alike.values()])
        made = _codelet(base, first.dtype, out.dtype)
        compute_set = graph.add_compute_set(f"{self.name}/{base.__name__}")
        sources = {
            field: concat([flat, self._margin(flat, fill)]) if tables.margin else flat
            for field, (flat, tables, fill) in wanted.items()
        }
        for tile, [(begin, end)] in tile_pieces(graph, out[0] if out.rank > 1 else out):
            ends = {field: flat[..., begin:end] for field, flat in edges.items()}
            for field, (flat, tables, _) in wanted.items():
                at = tables.of(begin, end)
                at = np.where(at < 0, flat.num_elements + tile, at)
                ends[field] = sources[field][at.reshape(-1)].reshape(at.shape)
            graph.set_tile_mapping(graph.add_vertex(compute_set, made, ends, **state), tile)
        self.prog.add(Execute(compute_set))

    def _margin(self, flat: Tensor, fill: float) -> Tensor:
        """An element for each tile, which has it to itself: one for all would be sent to all."""
        tiles = self.graph.target.num_tiles
        made = self.graph.add_constant(flat.dtype, (tiles,), fill, f"{self.name}/margin")
        self.graph.set_tile_mapping(made, np.arange(tiles))
        return made


@library
def pool(
    graph: Graph,
    params: PoolParams,
    x: Free,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """The windows of x [batch, channels, *field], pooled: [batch, channels, *params.output_field].

    Sums of HALF are carried in FLOAT and rounded once. Raises
    `PoplibsError`.
    """
    _check(graph, params, "x", x, "input_shape")
    call = _Call(graph, params, x, prog, debug_context)
    out = call.new(prod(params.output_shape), "out")
    windows = (call.flat(x), call.windows())
    if params.kind is PoolingType.MAX:
        call.run(MaxPooling, out, {}, {"x": (*windows, -np.inf)})
        return call.seen(out, params.output_shape)
    scale, counts = call.counts()
    sums = out if counts is None else call.new(out.num_elements, "sums", FLOAT)
    call.run(SumPooling, sums, {}, {"x": (*windows, 0.0)}, scale=scale)
    if counts is not None:
        call.run(SelectiveScaling, out, {"x": sums, "counts": counts}, {})
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
    """The gradient at the input of `pool`, from `dy` at its output: a tensor of x's shape.

    MAX takes what went in, `x`, and what came out, `pooled`; AVG and SUM take None for both. Where
    several elements are the largest of a window, each gets its gradient, as in PopLibs; by
    `use_scaled_gradient` they share it, and with `ties="first"` the first has it alone, as in
    torch. Where windows overlap, gradients add up. Raises `PoplibsError`.
    """
    _check(graph, params, "dy", dy, "output_shape")
    if ties not in _TIES:
        raise as_given(ties, "ties", f"give {' or '.join(map(repr, _TIES))}.")
    if params.kind is PoolingType.MAX:
        _check(graph, params, "x", x, "input_shape")
        _check(graph, params, "pooled", pooled, "output_shape")
        if use_scaled_gradient and ties == "first":
            raise refused(
                "was given use_scaled_gradient, and ties='first'.",
                next_step="equal elements share the gradient, or the first has it: give one.",
            )
    elif x is not None or pooled is not None or use_scaled_gradient or ties != "all":
        raise refused(
            f"was given x, pooled or a rule for ties, and {PoolingType(params.kind).name} pooling.",
            next_step="give None for x and pooled: only MAX asks which element was the largest.",
        )
    call = _Call(graph, params, dy if x is None else x, prog, debug_context)
    out, slope = call.new(prod(params.input_shape), "out"), call.flat(dy)
    if params.kind is not PoolingType.MAX:
        scale, counts = call.counts()
        if counts is not None:
            given, slope = slope, call.new(slope.num_elements, "shares", FLOAT)
            call.run(SelectiveScaling, slope, {"x": given, "counts": counts}, {})
        call.run(SumPooling, out, {}, {"x": (slope, call.windows_of(), 0.0)}, scale=scale)
        return call.seen(out, params.input_shape)
    whole, largest = call.flat(x), call.flat(pooled)
    if use_scaled_gradient or ties == "first":
        size = prod(params.kernel)
        apart = graph.add_variable(slope.dtype, (size, len(slope)), f"{debug_context}/apart")
        for place in range(size):
            call.spread(apart[place])
        windows = {"x": (whole, call.windows(), -np.inf)}
        call.run(MaxPoolingShares, apart, {"gradient": slope}, windows, first=ties == "first")
        wanted = {"x": (apart.flatten(), call.windows_of(apart=True), 0.0)}
        call.run(SumPooling, out, {}, wanted, scale=1.0)
        return call.seen(out, params.input_shape)
    beside = {
        "pooled": (largest, call.windows_of(), 0.0),
        "gradient": (slope, call.windows_of(), 0.0),
    }
    call.run(MaxPoolingGrad, out, {"x": whole}, beside)
    return call.seen(out, params.input_shape)


def _check(graph: Graph, params: object, name: str, tensor: Any, shape: str) -> None:
    """Raise `PoplibsError` unless the tensor is what the parameters say."""
    if not isinstance(params, PoolParams):
        raise as_given(params, "params", "give pooling.PoolParams(…).")
    wanted: Shape = getattr(params, shape)
    check_tensor(graph, name, tensor, (len(wanted),))
    advice = f"give {name} the {shape} of the parameters."
    check_same("shapes", tensor.shape, wanted, f"{name} {tensor!r}", advice)
    advice = "cast it with popops.cast, or say so in the parameters."
    names = tensor.dtype.__name__, params.dtype.__name__
    check_same("dtypes", *names, f"{name} {tensor!r}", advice)
    check_mapped(graph, name, tensor)


def _wrong(name: str, given: object, advice: str, says: str = "") -> PoplibsError:
    text = f"PoolParams() was given {name} {shown(given)}{says}."
    return PoplibsError(text, next_step=advice)
