"""Pooling: the maximum, sum or average of each window of a field, and its gradients.

    params = pooling.PoolParams("MAX", (28, 28), (2, 2), (2, 2), (0, 0), (0, 0), 8, 4, FLOAT)
    pooled = pooling.pool(graph, params, x, prog)                       # x is [4, 8, 28, 28]
    gradient = pooling.pool_input_gradient(graph, params, x, pooled, dy, prog)

The result is divided into blocks, one per tile, by PopLibs' plan (`pool_plan`). Each tile receives
the windows of its block. The value of the padding is a constant on every tile, so it is never sent.
Cycles are PopLibs' estimates of the pooling vertices (popnn/PerformanceEstimation.hpp): six workers
divide the rows of a block, and process a row once for each element of the window that is inside the
field.
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

# `_Tables` replaces -1, the offset of a missing element, by this offset. It is so low that its sum
# with any other offsets is still negative.
_FAR = -(2**50)
_TIES = ("all", "first")
# The maximum product of the kernel size and the number of windows, in one dimension of the field.
MOST_PLACES = 2**26


class PoolingType(Enum):
    """The result of a window: its maximum (MAX), its sum (SUM) or its average (AVG)."""

    MAX = "MAX"
    AVG = "AVG"
    SUM = "SUM"


@advised("give pooling.PoolParams(…).")
@dataclass(frozen=True)
class PoolParams:
    """The parameters of a pooling of a FLOAT or HALF tensor [batch_size, channels, *input_field].

    `kind` is a `PoolingType` or its name. `kernel`, `stride`, `padding_lower` and `padding_upper`
    contain a number for each dimension of the field. Negative padding removes elements. MAX ignores
    padding. AVG divides the sum of a window by the number of its elements that are not padding, as
    PopLibs does. torch's average also counts padding, unless `count_include_pad=False`.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, if a window does not
        fit, or if a window contains only padding.
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
        pooling_type = PoolingType.__members__.get(str(self.kind).upper(), self.kind)
        object.__setattr__(self, "kind", pooling_type)
        if not isinstance(pooling_type, PoolingType):
            raise _wrong("kind", pooling_type, f"use {', '.join(PoolingType.__members__)}.")
        if self.dtype is not FLOAT and self.dtype is not HALF:
            raise _wrong("dtype", self.dtype, "use FLOAT or HALF.")
        for name in ("channels", "batch_size"):
            if not is_count(getattr(self, name), 1):
                raise _wrong(
                    name, getattr(self, name), f"give {name} as a whole number of 1 or more."
                )
            # Convert numpy's integers to int, because they would overflow when sizes are added and
            # multiplied.
            object.__setattr__(self, name, int(getattr(self, name)))
        for name in ("input_field", "kernel", "stride", "padding_lower", "padding_upper"):
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)) or not value or not all(map(is_whole, value)):
                advice = "give a list with a whole number for each dimension of the field."
                raise _wrong(name, value, advice)
            if len(value) != len(self.input_field):
                problem = f", but the field has {len(self.input_field)} dimensions"
                raise _wrong(name, value, "give a number for each dimension.", problem)
            if not name.startswith("padding") and min(value) < 1:
                raise _wrong(name, value, "give numbers of 1 or more.")
            object.__setattr__(self, name, tuple(map(int, value)))
        for d, (size, kernel, _, padding_lower, padding_upper) in enumerate(self._axes()):
            context = f"in dimension {d} of the field"
            padded_size = size + padding_lower + padding_upper
            if min(size + padding_lower, size + padding_upper, padded_size) < 1:
                problem = f" {context}, which removes all elements of the field"
                advice = f"keep at least one of the {size} elements of the field."
                raise _wrong("padding", (padding_lower, padding_upper), advice, problem)
            if kernel > padded_size:
                problem = f" {context}, which has {padded_size} elements with its padding"
                raise _wrong(
                    "a kernel of", kernel, "make the kernel smaller, or pad the field.", problem
                )
            if (num_places := kernel * self.output_field[d]) > MOST_PLACES:
                problem = (
                    f" {context}: its windows have {num_places:,} elements in all, and the limit "
                    f"is {MOST_PLACES:,}"
                )
                raise _wrong(
                    "a kernel of", kernel, "make the kernel or the field smaller.", problem
                )
            if not self._num_inside(d).all():
                problem = (
                    f" {context}, with a kernel of {kernel}: some windows contain only padding"
                )
                raise _wrong(
                    "padding",
                    (padding_lower, padding_upper),
                    "give padding that is smaller than the kernel.",
                    problem,
                )

    def _axes(self) -> list[tuple[int, ...]]:
        lists = (self.input_field, self.kernel, self.stride, self.padding_lower, self.padding_upper)
        return list(zip(*lists, strict=True))

    @property
    def output_field(self) -> Shape:
        """The field of the result: the number of windows in each dimension."""
        return tuple(
            (size + padding_lower + padding_upper - k) // s + 1
            for size, k, s, padding_lower, padding_upper in self._axes()
        )

    @property
    def input_shape(self) -> Shape:
        """The shape of the input: [batch_size, channels, *input_field]."""
        return (self.batch_size, self.channels, *self.input_field)

    @property
    def output_shape(self) -> Shape:
        """The shape of the result: [batch_size, channels, *output_field]."""
        return (self.batch_size, self.channels, *self.output_field)

    def _field_positions(self, d: int) -> Array:
        """Return int[kernel, windows]: the field position of each element of each window.

        Only dimension `d` of the field is considered. An element outside the field has the position
        -1.
        """
        size, kernel, stride, padding_lower, padding_upper = self._axes()[d]
        field_position = (
            np.arange(self.output_field[d]) * stride + np.arange(kernel)[:, None] - padding_lower
        )
        is_inside = (field_position >= max(-padding_lower, 0)) & (
            field_position < size - max(-padding_upper, 0)
        )
        return np.where(is_inside, field_position, -1)

    def _windows_of_elements(self, d: int) -> tuple[Array, Array]:
        """Return `(windows, indices)`: the windows that contain each element of the field.

        Only dimension `d` of the field is considered. Both arrays are int[windows per element,
        input_field]. Column i of `windows` contains the indices of the windows that contain element
        i. Column i of `indices` contains the index of element i within each of these windows.
        Unused entries are -1.
        """
        size, kernel, stride, padding_lower, _ = self._axes()[d]
        padded_position = np.arange(size) + padding_lower
        window = padded_position // stride - np.arange(-(-kernel // stride))[:, None]
        place_in_window = padded_position - window * stride
        is_in_window = (window >= 0) & (window < self.output_field[d]) & (place_in_window < kernel)
        return np.where(is_in_window, window, -1), np.where(is_in_window, place_in_window, -1)

    def _is_inside(self, d: int) -> Array:
        """Return bool[kernel, windows]: whether each element of each window is inside the field.

        Only dimension `d` of the field is considered. Elements outside the field are padding.
        """
        return self._field_positions(d) >= 0

    def _has_index(self, d: int) -> Array:
        """Return bool[kernel, input_field]: whether field element i is element k of a window.

        The result for k and i is at position [k, i]. Only dimension `d` of the field is considered.
        """
        place = self._windows_of_elements(d)[1]
        return np.asarray((place == np.arange(self.kernel[d])[:, None, None]).any(1))

    def _num_inside(self, d: int) -> Array:
        """Return int[windows]: the number of elements of each window that are inside the field.

        Only dimension `d` of the field is considered.
        """
        return np.asarray(self._is_inside(d).sum(axis=0))


class _Windows(SupervisorVertex):
    """The base class of vertices whose input x contains a window in each column.

    The shape of x is [elements of a window, windows]. In the field annotations, FLOAT is a
    placeholder for the dtype of x, and HALF for the dtype of the output; the function `typed`
    replaces both by the actual dtypes.
    """

    x: Input[Vector[Vector[FLOAT]]]


class MaxPooling(_Windows):
    """Set `out` to the maximum of each column of x, or to NaN if the column contains NaN."""

    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = np.max(self.x, axis=0)


class SumPooling(_Windows):
    """Set `out` to the sum of each column of x divided by `divisor`, computed in FLOAT."""

    out: Output[Vector[HALF]]
    # The vertex divides, because multiplying by a rounded inverse would give other results.
    divisor: UNSIGNED_INT

    def compute(self) -> None:
        self.out = np.sum(self.x.astype(np.float32), axis=0) / self.divisor.astype(np.float32)


class SelectiveScaling(SupervisorVertex):
    """Set `out` to x / counts, element by element.

    PopLibs' own cycle estimate for this vertex is a placeholder of 10 cycles. Here it costs as much
    as SumPooling with windows of one element.
    """

    x: Input[Vector[FLOAT]]
    counts: Input[Vector[UNSIGNED_SHORT]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = self.x.astype(np.float32) / self.counts.astype(np.float32)


class MaxPoolingGrad(SupervisorVertex):
    """Pass the gradient of each window to the elements of x that equal the window's maximum.

    Element i of `out` is the sum of the gradients that element i of x receives. Column i of
    `pooled` contains the maxima of the windows that contain this element, and column i of
    `gradient` the gradients of these windows. A gradient is added if the window's maximum equals
    element i of x.
    """

    x: Input[Vector[FLOAT]]
    pooled: Input[Vector[Vector[FLOAT]]]
    gradient: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        gradient_of_maximum = np.where(self.pooled == self.x, self.gradient, 0)
        self.out = np.sum(gradient_of_maximum.astype(np.float32), axis=0)


class MaxPoolingShares(_Windows):
    """Divide the gradient of each window over the elements of x that are its maximum.

    Column i of x is window i, and element i of `gradient` is its gradient. If several elements of a
    window equal its maximum, each receives an equal fraction of the window's gradient; with
    `first`, the first of these elements gets the complete gradient. PopLibs has no cycle estimate
    for its MaxPoolingGradientScale; this vertex costs as much as MaxPooling.
    """

    gradient: Input[Vector[FLOAT]]
    out: Output[Vector[Vector[HALF]]]
    first: BOOL

    def compute(self) -> None:
        is_maximum = (self.x == np.max(self.x, axis=0)).astype(np.float32)
        is_first_maximum = np.argmax(self.x, axis=0) == np.arange(len(self.x)).reshape(-1, 1)
        share = np.where(
            self.first, is_first_maximum, is_maximum / np.maximum(np.sum(is_maximum, axis=0), 1)
        )
        self.out = np.where(share > 0, self.gradient.astype(np.float32) * share, 0)


class _Tables:
    """A table: for each element of a result, the indices of the input elements that it needs.

    The indices are positions in a flat tensor. `tables_of_dims` contains, for each dimension of the
    result, an array int[needed elements, size of the dimension] of offsets. The index of an element
    is the sum of one offset from each array. The offset -1 stands for a missing element, such as
    padding. The attribute `margin` is true if any element is missing.
    """

    def __init__(self, tables_of_dims: list[Array]) -> None:
        self._each = [np.where(table < 0, _FAR, table) for table in tables_of_dims]
        self.margin = any(bool((table < 0).any()) for table in tables_of_dims)

    def of(self, ranges: Ranges) -> Array:
        """Return int[needed elements, block elements]: the indices for a block of the result.

        `ranges` contains the interval (begin, end) of the block in each dimension except the last.
        A block always contains the last dimension completely. A negative index stands for a missing
        element.
        """
        indices: Array = np.zeros((1, 1), np.int64)
        for table, (begin, end) in zip(self._each, (*ranges, (0, None)), strict=True):
            combined = indices[:, None, :, None] + table[:, None, begin:end]
            indices = combined.reshape(combined.shape[0] * combined.shape[1], -1)
        return indices


# An operand of a vertex, as a tuple (flat tensor, indices of the needed elements, value of missing
# elements).
Gathered = tuple[Tensor, _Tables, float]


class _Call:
    """The state of a call of `pool` or `pool_input_gradient`; all its compute sets use one plan.

    The plan orders the elements as [channel groups, samples, *field, channels of a group]. A "flat"
    tensor has one dimension, and contains the elements in this order. `kind` is the kind of vertex
    whose cycles the plan estimates: "MAX", "AVG" or "GRAD". `forward` is true if the result is the
    output of the pooling, and false if it is the gradient of the input.
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
        plan_arguments = params.kernel, params.stride, forward, channels_side_by_side(x)
        self.plan = planned(kind, shape, *plan_arguments, params.dtype, graph.target)
        self.group = self.plan.shape[-1]
        self.blocks = self.plan.blocks()
        places_of_block = [self.plan.places(ranges) for _, ranges in self.blocks]
        self.order = np.concatenate(places_of_block)
        self.ends = np.cumsum([0, *map(len, places_of_block)])
        places_inside = params._is_inside if forward else params._has_index
        self.work = [places_inside(d) for d in range(len(params.kernel))]

    def flat(self, tensor: Tensor) -> Tensor:
        batch, channels, *field = tensor.shape
        grouped = tensor.reshape((batch, channels // self.group, self.group, *field))
        return grouped.dim_shuffle([1, 0, *range(3, grouped.rank), 2]).flatten()

    def view(self, flat: Tensor, shape: Shape) -> Tensor:
        """Return a view of a flat tensor in the shape (batch, channels, *field)."""
        grouped = flat.reshape(self._shape(shape))
        return grouped.dim_shuffle([1, 0, grouped.rank - 1, *range(2, grouped.rank - 1)]).reshape(
            shape
        )

    def _shape(self, shape: Shape) -> Shape:
        return (shape[1] // self.group, shape[0], *shape[2:], self.group)

    def new(
        self, name: str, dtype: type[DType] | None = None, values: Array | None = None
    ) -> Tensor:
        """Return a new flat tensor, mapped to the tiles of the plan's blocks.

        If `values` is given, the tensor is a constant with these values; otherwise, it is a
        variable.
        """
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
        """Return `(divisor, counts)`: the numbers by which the sums of the windows are divided.

        If all windows contain the same number of field elements, `divisor` is this number and
        `counts` is None. Otherwise `divisor` is 1, and `counts` is a flat tensor with the number of
        field elements of each window. For SUM, the result is (1, None).
        """
        params = self.params
        if params.kind is PoolingType.SUM:
            return 1, None
        num_inside: Array = np.ones((), np.int64)
        for d in range(len(params.kernel)):
            num_inside = num_inside[..., None] * params._num_inside(d)
        if num_inside.min() == num_inside.max():
            return int(num_inside.max()), None
        grouped_shape = self._shape(params.output_shape)
        values = np.broadcast_to(num_inside[..., None], grouped_shape).reshape(-1)
        return 1, self.new("counts", UNSIGNED_SHORT, values)

    def windows(self) -> _Tables:
        """Return a table with the indices of the elements of x that each window contains."""
        params = self.params
        return self._tables(params.input_shape, params._field_positions)

    def windows_of(self, per_window: bool = False) -> _Tables:
        """Return a table with the indices of the window values that each element of x needs.

        If `per_window` is false, a window has one value, and an index is the number of a window
        that contains the element. If `per_window` is true, a window has a separate value for each
        of its elements: the values are a tensor [elements of a window, windows], and an index is
        the position of a value in this tensor, flattened.
        """
        shape = self.params.output_shape
        params = self.params
        place_strides = prod(shape) * np.cumprod([1, *params.kernel[:0:-1]])[::-1]
        field_strides = self._strides(shape)[2:]

        def distances(d: int) -> Array:
            window, place_in_window = params._windows_of_elements(d)
            distance = window * field_strides[d] + per_window * place_in_window * place_strides[d]
            return np.where(window < 0, -1, distance)

        return self._tables(shape, distances, False)

    def _strides(self, shape: Shape) -> list[int]:
        grouped_shape = self._shape(shape)
        return [prod(grouped_shape[d + 1 :]) for d in range(len(grouped_shape))]

    def _tables(
        self, shape: Shape, of_field: Callable[[int], Array], scaled: bool = True
    ) -> _Tables:
        grouped_shape = self._shape(shape)
        strides = self._strides(shape)
        distances_of_dims = [
            np.arange(size)[None] * stride
            for size, stride in zip(grouped_shape, strides, strict=True)
        ]
        for d in range(len(self.params.kernel)):
            distances = of_field(d)
            distances_of_dims[d + 2] = (
                np.where(distances < 0, -1, distances * strides[d + 2]) if scaled else distances
            )
        return _Tables(distances_of_dims)

    def run(
        self,
        base: type[SupervisorVertex],
        vertex_kind: str,
        out: Tensor,
        same_shape: dict[str, Tensor],
        gathered: dict[str, Gathered],
        **state: int,
    ) -> None:
        """Append a compute set with a vertex of the class `base` for each block of `out`.

        `same_shape` maps names of fields to flat tensors, from which a vertex gets the elements at
        the positions of its block. `gathered` maps names of fields to tuples (tensor, table, value
        of missing elements). From these tensors, a vertex gets the elements whose indices the table
        contains for the block. `state` contains fields with the same value in all vertices. The
        cycles are PopLibs' estimate for the pooling vertex `vertex_kind` ("MAX", "AVG" or "GRAD").
        """
        graph = self.graph
        first_input = next(
            flat for flat in [*(entry[0] for entry in gathered.values()), *same_shape.values()]
        )
        dtypes = {FLOAT: first_input.dtype, HALF: out.dtype}
        vertex_class = typed(base, dict.fromkeys(dtypes.values()), dtypes)
        compute_set = graph.add_compute_set(f"{self.name}/{base.__name__}")
        sources = {
            field: concat([flat, self._margin(flat, missing_value)]) if tables.margin else flat
            for field, (flat, tables, missing_value) in gathered.items()
        }
        # If there is no operand in `gathered`, a vertex processes each element of its block once.
        places_inside: list[Array] = [np.ones((1, size), bool) for size in self.plan.shape[2:-1]]
        if gathered:
            places_inside = self.work
        edges = {field: flat[..., self.order] for field, flat in {**same_shape, "out": out}.items()}
        # Equal blocks cost the same number of cycles, so the cycles are computed once and stored.
        # The key consists of the block's sizes and of flags that show which elements of its windows
        # are inside the field.
        estimates: dict[tuple[int | bytes, ...], int] = {}
        for block_number, (tile, ranges) in enumerate(self.blocks):
            block_begin, block_end = self.ends[block_number : block_number + 2].tolist()
            vertex_edges = {
                field: flat[..., block_begin:block_end] for field, flat in edges.items()
            }
            for field, (flat, tables, _) in gathered.items():
                indices = tables.of(ranges)
                indices = np.where(indices < 0, flat.num_elements + tile, indices)
                vertex_edges[field] = sources[field][indices.reshape(-1)].reshape(indices.shape)
            vertex = graph.add_vertex(compute_set, vertex_class, {**vertex_edges, **state})
            graph.set_tile_mapping(vertex, tile)
            dim_ranges = zip(places_inside, ranges[2:], strict=True)
            estimate_key: tuple[int | bytes, ...] = (
                *(range_end - range_begin for range_begin, range_end in ranges),
                *(
                    dim_places[:, range_begin:range_end].tobytes()
                    for dim_places, (range_begin, range_end) in dim_ranges
                ),
            )
            if estimate_key not in estimates:
                estimates[estimate_key] = self.plan.cycles(
                    vertex_kind, places_inside, ranges, first_input.dtype, target=graph.target
                )
            graph.set_perf_estimate(vertex, estimates[estimate_key])
        self.prog.add(Execute(compute_set))

    def _margin(self, flat: Tensor, fill: float) -> Tensor:
        """Return a constant that has one element of the value `fill` on each tile.

        Vertices read this element where an element of `flat` is missing. Because each tile has its
        own copy, the element is never sent.
        """
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
    """Return the maximum, sum or average of each window of x [batch, channels, *field].

    The result is [batch, channels, *params.output_field] and has the dtype of x. Sums and averages
    of HALF are accumulated in FLOAT; they are rounded to HALF once, at the end.

    :raises PoplibsError: if x does not have the shape and dtype of `params`.
    :raises InvalidTileMappingError: if x is not mapped to tiles.
    """
    _check(graph, params, "x", x, shape="input_shape")
    is_maximum = params.kind is PoolingType.MAX
    call = _Call(graph, params, x, prog, name=debug_context, kind="MAX" if is_maximum else "AVG")
    out = call.new("out")
    windows = (call.flat(x), call.windows())
    if is_maximum:
        call.run(MaxPooling, "MAX", out, {}, gathered={"x": (*windows, -np.inf)})
        return call.view(out, params.output_shape)
    divisor, counts = call.counts()
    sums = out if counts is None else call.new("sums", FLOAT)
    call.run(SumPooling, "AVG", sums, {}, gathered={"x": (*windows, 0.0)}, divisor=divisor)
    if counts is not None:
        call.run(SelectiveScaling, "AVG", out, {"x": sums, "counts": counts}, gathered={})
    return call.view(out, params.output_shape)


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
    """Return the gradient of the input of `pool`, from `dy`, the gradient of its output.

    The result has the shape `params.input_shape`. MAX needs the input `x` and the output `pooled`
    of `pool`; for AVG and SUM, both are None. If several elements of a window equal its maximum,
    each of them receives the whole gradient of the window, as in PopLibs. With
    `use_scaled_gradient`, each receives an equal fraction of it instead. With `ties="first"`, only
    the first of these elements receives the gradient, as in torch. Gradients from overlapping
    windows are added. Sums of HALF are accumulated in FLOAT and rounded to HALF once.

    :raises PoplibsError: if a tensor does not fit `params`, or if the other arguments do not fit
        its kind of pooling.
    :raises InvalidTileMappingError: if a tensor is not mapped to tiles.
    """
    _check_gradient(graph, params, x, pooled, dy=dy, is_scaled=use_scaled_gradient, ties=ties)
    is_maximum = params.kind is PoolingType.MAX
    per_window = use_scaled_gradient or ties == "first"
    if is_maximum and not per_window:
        call = _Call(graph, params, dy, prog, name=debug_context, kind="GRAD", forward=False)
        out = call.new("out")
        window_tensors = {
            "pooled": (call.flat(pooled), call.windows_of(), 0.0),
            "gradient": (call.flat(dy), call.windows_of(), 0.0),
        }
        call.run(MaxPoolingGrad, "GRAD", out, {"x": call.flat(x)}, gathered=window_tensors)
        return call.view(out, params.input_shape)
    call = _Call(graph, params, dy, prog, name=debug_context, kind="AVG", forward=False)
    out = call.new("out")
    divisor = 1
    if per_window:
        gradients_of_places = _shared_gradients(
            graph, params, x, dy, prog=prog, name=debug_context, is_first_only=ties == "first"
        )
    else:
        gradient_of_window, divisor = _averaged_gradient(
            graph, params, dy, prog, name=debug_context
        )
        gradients_of_places = [gradient_of_window]
    gradient_of_windows = concat(
        [call.flat(place_gradient) for place_gradient in gradients_of_places]
    )
    gathered = {"x": (gradient_of_windows, call.windows_of(per_window), 0.0)}
    call.run(SumPooling, "AVG", out, {}, gathered=gathered, divisor=divisor)
    return call.view(out, params.input_shape)


def _shared_gradients(
    graph: Graph,
    params: PoolParams,
    x: Tensor,
    dy: Tensor,
    prog: Program,
    name: str,
    is_first_only: bool,
) -> list[Tensor]:
    """Return the gradients that MAX pooling passes to the elements of each window.

    The list contains a tensor for each index within a window. Each tensor has the shape of the
    output, and contains the gradient of the element with this index in every window. All elements
    that equal the maximum of a window get equal fractions of the window's gradient; if
    `is_first_only` is true, the first of these elements gets the complete gradient instead.
    """
    windows = _Call(graph, params, dy, prog, name=name, kind="MAX")
    # If a gradient is the sum of several partial gradients, the partial gradients are FLOAT, and
    # only their sum is rounded to the dtype of dy.
    dtype = dy.dtype if is_first_only else FLOAT
    num_places = prod(params.kernel)
    place_gradients = graph.add_variable(dtype, (num_places, dy.num_elements), f"{name}/apart")
    flat_gradients = [place_gradients[place_number] for place_number in range(num_places)]
    gradients = [
        windows.view(place_gradient, params.output_shape) for place_gradient in flat_gradients
    ]
    for place_gradient in flat_gradients:
        windows.spread(place_gradient)
    gathered = {"x": (windows.flat(x), windows.windows(), -np.inf)}
    same_shape = {"gradient": windows.flat(dy)}
    windows.run(
        MaxPoolingShares, "MAX", place_gradients, same_shape, gathered=gathered, first=is_first_only
    )
    return gradients


def _averaged_gradient(
    graph: Graph, params: PoolParams, dy: Tensor, prog: Program, name: str
) -> tuple[Tensor, int]:
    """Return `(gradients, divisor)` for AVG or SUM, where `gradients` has the shape of the output.

    Each element of a window receives the window's entry in `gradients`, divided by `divisor`. If
    windows contain different numbers of field elements, the entries have already been divided by
    these numbers, and `divisor` is 1.
    """
    windows = _Call(graph, params, dy, prog, name=name, kind="AVG")
    divisor, counts = windows.counts()
    if counts is None:
        return dy, divisor
    window_gradients = windows.new("shares", FLOAT)
    same_shape = {"x": windows.flat(dy), "counts": counts}
    windows.run(SelectiveScaling, "AVG", window_gradients, same_shape, gathered={})
    return windows.view(window_gradients, params.output_shape), divisor


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
                "was given both use_scaled_gradient and ties='first'.",
                next_step=(
                    "give use_scaled_gradient to share the gradient between equal elements, or "
                    "ties='first' to give it to the first."
                ),
            )
    elif x is not None or pooled is not None or is_scaled or ties != "all":
        raise refused(
            f"was given x, pooled, use_scaled_gradient or ties for "
            f"{PoolingType(params.kind).name} pooling, but only MAX uses them.",
            next_step="give None for x and pooled, and leave out use_scaled_gradient and ties.",
        )


def _check(graph: Graph, params: PoolParams, name: str, tensor: Tensor | None, shape: str) -> None:
    """Check that `tensor` is mapped, and has the dtype and one of the shapes of `params`.

    `shape` is the name of the property of `params` that contains the shape: "input_shape" or
    "output_shape". `name` is the name of the tensor in errors.

    :raises PoplibsError: if `tensor` is not a tensor of the graph with this shape and dtype.
    :raises InvalidTileMappingError: if it is not mapped to tiles.
    """
    wanted_shape: Shape = getattr(params, shape)
    check_tensor(graph, name, tensor, (len(wanted_shape),))
    assert tensor is not None
    advice = f"give {name} the shape params.{shape}."
    check_same("shapes", tensor.shape, wanted_shape, f"{name} {tensor!r}", advice=advice)
    advice = f"cast {name} with popops.cast, or change the dtype of params."
    dtype_names = tensor.dtype.__name__, params.dtype.__name__
    check_same("dtypes", *dtype_names, f"{name} {tensor!r}", advice)
    check_mapped(graph, name, tensor)


def _wrong(name: str, value: object, advice: str, context: str = "") -> PoplibsError:
    text = f"PoolParams() was given {name} {shown(value)}{context}."
    return PoplibsError(text, next_step=advice)
