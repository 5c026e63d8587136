"""Lowering functions of pools.

The field is the part of a tensor that the windows move over: its last 2 or 3 dimensions.

The functions use the device's pools where these give the same results as torch's pools, and
otherwise a table of windows. A table of windows is an array [outputs, elements of a window]. It
contains positions in the flattened field, and -1 where a window has fewer elements. Such a table
can describe padding, dilation, windows that extend beyond the field, and the unequal windows of
adaptive pools.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.registry import Ints, Results, reshape, row
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT, Array

Sizes = dict[str, tuple[int, ...]]
Axis = list[list[int]]  # For each window along one dimension, a list of positions.


def _check_floats(x: Value) -> None:
    """Raise `Unfit` if `x` does not contain floats."""
    if not x.floating:
        raise Unfit(
            f"the device pools only floats, not {x.dtype.__name__}",
            "convert the input to floats: x.float().",
        )


def _batched(graph: Ir, x: Value, rank: int) -> Value:
    """Return `x` as [batch, channels, *field]; the field has `rank` dimensions."""
    return x if len(x.shape) == rank + 2 else reshape(graph, x, (1, *x.shape))


# --- windows --------------------------------------------------------------------------------------


def _axis(size: int, outputs: int, kernel: int, stride: int, padding: int, dilation: int) -> Axis:
    """Return the windows of a pool along one dimension: a list of positions per window.

    `size` is the length of the dimension. Positions outside of the dimension are left out.
    """
    window_starts = [i * stride - padding for i in range(outputs)]
    windows = [range(start, start + kernel * dilation, dilation) for start in window_starts]
    return [[position for position in window if 0 <= position < size] for window in windows]


def _adaptive_axis(size: int, outputs: int) -> Axis:
    """Return the windows of an adaptive pool along one dimension: a list of positions per window.

    `size` is the length of the dimension, and `outputs` the number of windows.
    """
    return [
        list(range(output * size // outputs, -(-(output + 1) * size // outputs)))
        for output in range(outputs)
    ]


def _table(field: Ints, axes: list[Axis]) -> Array:
    """Return the table of windows of a pool: an array [outputs, elements of a window].

    `field` is the shape of the field. `axes` contains the windows along each of its dimensions.
    """
    windows = []
    for output in np.ndindex(*map(len, axes)):
        positions_by_dim = [
            axis[output_index] for axis, output_index in zip(axes, output, strict=True)
        ]
        window_grid = np.ix_(*positions_by_dim) if all(positions_by_dim) else None
        field_positions = np.arange(int(np.prod(field))).reshape(tuple(field))
        windows.append(
            [] if window_grid is None else field_positions[window_grid].reshape(-1).tolist()
        )
    max_length = max(1, *map(len, windows))
    return np.array([window + [-1] * (max_length - len(window)) for window in windows])


class Windows:
    """The windows of a pool over x [batch, channels, *field].

    - `table`: the table of windows, as the module's docstring describes it.
    - `lead`: the product batch * channels.
    - `size`: the number of elements of the field.
    - `outputs`: the number of windows along each dimension of the field.
    """

    def __init__(self, graph: Ir, x: Value, axes: list[Axis]) -> None:
        self.graph = graph
        self.shape = x.shape
        self.rank = len(axes)
        self.field = x.shape[2:]
        self.lead = x.shape[0] * x.shape[1]
        self.outputs = tuple(map(len, axes))
        self.table = _table(self.field, axes)
        self.size = int(np.prod(self.field))

    @property
    def index(self) -> Value:
        """The flattened table of windows, in which `size` replaces -1.

        `gathered` and `scattered` add a row with the index `size` for the elements that windows
        lack.
        """
        places = np.where(self.table < 0, self.size, self.table)
        return self.graph.constant(places.reshape(-1), UNSIGNED_INT)

    def gathered(self, x: Value, outside: float) -> Value:
        """Return the elements of each window: [outputs, elements of a window, batch * channels].

        Elements that a window lacks have the value `outside`.
        """
        by_channel = reshape(self.graph, x, (self.lead, self.size))
        by_position = self.graph.op("permute", by_channel, dims=(1, 0))
        outside_row = self.graph.constant(outside, x.dtype, (1, self.lead))
        by_position = self.graph.op("concat", by_position, outside_row, dim=0)
        window_rows = self.graph.op("gather", by_position, self.index)
        return reshape(self.graph, window_rows, (*self.table.shape, self.lead))

    def scattered(self, updates: Value) -> Value:
        """Return the sum of the updates for each element of x, in the shape of x.

        `updates` [outputs, elements of a window, batch * channels] contains a number for each
        element of each window. An element may be in several windows.
        """
        update_rows = reshape(self.graph, updates, (self.table.size, self.lead))
        sums = self.graph.op("scatter", self.index, update_rows, shape=(self.size + 1, self.lead))
        sums = self.graph.op("slice", sums, dim=0, begin=0, end=self.size)
        return reshape(self.graph, self.graph.op("permute", sums, dims=(1, 0)), self.shape)

    def as_outputs(self, rows: Value) -> Value:
        """Return `rows` [outputs, batch * channels] as [batch, channels, *outputs]."""
        by_channel = self.graph.op("permute", rows, dims=(1, 0))
        return reshape(self.graph, by_channel, (*self.shape[:2], *self.outputs))

    def from_outputs(self, y: Value) -> Value:
        """Return `y` [batch, channels, *outputs] as [outputs, batch * channels]."""
        flat = reshape(self.graph, y, (self.lead, len(self.table)))
        return self.graph.op("permute", flat, dims=(1, 0))

    def largest(self, x: Value) -> tuple[Value, Value]:
        """Return `(maxima, positions)`; a position is an INT index into the flattened field.

        Both values are [batch, channels, *outputs].
        """
        elements = self.graph.op("permute", self.gathered(x, -float("inf")), dims=(0, 2, 1))
        values = self.graph.op("reduce_max", elements, dims=[2])
        shape = (len(self.table), self.lead)
        place_in_window = reshape(self.graph, self.graph.op("arg_max", elements), shape)
        first_entries = np.arange(len(self.table))[:, None] * self.table.shape[1]
        first_entry = self.graph.constant(
            np.broadcast_to(first_entries, shape).copy(), UNSIGNED_INT
        )
        flat_table = self.graph.constant(np.maximum(self.table, 0).reshape(-1, 1), INT)
        table_entry = self.graph.op("add", place_in_window, first_entry)
        field_positions = reshape(
            self.graph, self.graph.op("gather", flat_table, table_entry), shape
        )
        return self.as_outputs(values), self.as_outputs(field_positions)


# --- maxima ---------------------------------------------------------------------------------------


def _options(
    rank: int, x: Value, *, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool
) -> Sizes:
    """Return the attributes of the device's pool: "kernel", "stride", "lower" and "upper".

    "lower" and "upper" are the padding before and after the field. With `ceil_mode`, "upper" is
    enlarged until the last window is complete.
    """
    sizes = ir.sized(rank, kernel=kernel, stride=stride or kernel, lower=padding, upper=padding)
    if ceil_mode:
        upper = map(_complete, x.shape[-rank:], *sizes.values())
        sizes["upper"] = tuple(upper)
    return sizes


def _complete(field: int, kernel: int, stride: int, lower: int, upper: int) -> int:
    """Return the padding after a dimension that makes the last window complete, for `ceil_mode`.

    `field` is the length of the dimension. `lower` and `upper` are the padding before and after it
    without `ceil_mode`.
    """
    num_windows = -(-(field + lower + upper - kernel) // stride) + 1
    if (num_windows - 1) * stride >= field + lower:  # The last window would begin after the field.
        num_windows -= 1
    return max((num_windows - 1) * stride + kernel - field - lower, 0)


def _uses_places(results: Results, backward: str) -> bool:
    """Return whether the program needs the positions of a pool's maxima.

    The positions are not needed if only the pool's backward operation reads them. `backward` is the
    name of this operation.
    """
    readers = [
        reader
        for user in results.node.users
        if user.op == "call_function" and user.args[1:] == (1,)
        for reader in user.users
    ]
    return any(backward not in str(getattr(r, "target", "")) for r in readers)


def _max_pool_row(rank: int) -> None:
    """Register the lowering functions of a maximum pool over `rank` dimensions."""
    name = f"max_pool{rank}d_with_indices"

    @row(name)
    def forward(
        graph: Ir, results: Results, x: Value, kernel: Ints, stride: Ints = (), padding: Ints = 0,  # type: ignore[assignment]
        dilation: Ints = 1, ceil_mode: bool = False,  # type: ignore[assignment]
    ) -> list[Value]:  # fmt: skip
        _check_floats(x)
        full = _batched(graph, x, rank)
        sizes = ir.sized(rank, k=kernel, s=stride or kernel, p=padding, d=dilation)
        is_dilated = any(d != 1 for d in sizes["d"])
        if is_dilated or _uses_places(results, f"{name}_backward"):
            axes = map(_axis, full.shape[2:], results.shape[-rank:], *sizes.values())
            windows = Windows(graph, full, list(axes))
            return [reshape(graph, v, results.shape) for v in windows.largest(full)]
        options = _options(
            rank, full, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode
        )
        y = ir.pool(graph, "max_pool", full, count_padding=False, **options)
        unread = graph.constant(0, INT, results.shapes[1])
        return [reshape(graph, y, results.shape), unread]

    @row(f"{name}_backward")
    def backward(
        graph: Ir, results: Results, gradient: Value, x: Value, kernel: Ints, stride: Ints,
        padding: Ints, dilation: Ints, ceil_mode: bool, places: Value,
    ) -> Value:  # fmt: skip
        full = _batched(graph, x, rank)
        gradient = _batched(graph, gradient, rank)
        if any(d != 1 for d in ir.sized(rank, d=dilation)["d"]):
            y = _to_places(graph, full, gradient, _batched(graph, places, rank))
        else:
            # The maxima are computed again, but `simplify` merges this pool with the forward pool.
            options = _options(
                rank, full, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode
            )
            largest = ir.pool(graph, "max_pool", full, count_padding=False, **options)
            y = graph.op("max_pool_grad", full, largest, gradient, **options)
        return reshape(graph, y, results.shape)


def _to_places(graph: Ir, x: Value, gradient: Value, places: Value) -> Value:
    """Return the gradient of a maximum pool's input `x`.

    Each element of `gradient` is added to the element of `x` that was the maximum. `places`
    contains the positions of these maxima in the flattened field.
    """
    num_channels = x.shape[0] * x.shape[1]
    field_size = int(np.prod(x.shape[2:]))
    num_outputs = gradient.size // num_channels
    channel_starts = np.broadcast_to(
        np.arange(num_channels)[:, None] * field_size, (num_channels, num_outputs)
    ).copy()
    target = graph.op(
        "add",
        reshape(graph, places, (num_channels, num_outputs)),
        graph.constant(channel_starts, INT),
    )
    target = graph.op("reinterpret", reshape(graph, target, (gradient.size,)), dtype=UNSIGNED_INT)
    updates = reshape(graph, gradient, (gradient.size, 1))
    return reshape(graph, graph.op("scatter", target, updates, shape=(x.size, 1)), x.shape)


def _adaptive_max_row(rank: int) -> None:
    """Register the lowering functions of an adaptive maximum pool over `rank` dimensions."""

    @row(f"adaptive_max_pool{rank}d")
    def forward(graph: Ir, results: Results, x: Value, size: Ints) -> list[Value]:
        _check_floats(x)
        full = _batched(graph, x, rank)
        axes = list(map(_adaptive_axis, full.shape[2:], results.shape[-rank:]))
        return [reshape(graph, v, results.shape) for v in Windows(graph, full, axes).largest(full)]

    @row(f"adaptive_max_pool{rank}d_backward")
    def backward(graph: Ir, results: Results, gradient: Value, x: Value, places: Value) -> Value:
        values = [_batched(graph, v, rank) for v in (x, gradient, places)]
        return reshape(graph, _to_places(graph, *values), results.shape)


# --- averages -------------------------------------------------------------------------------------


def _mean_of(windows: Windows, x: Value, counts: Array) -> Value:
    """Return the mean of each window of `x`: the window's sum divided by its entry in `counts`.

    The means are computed in FLOAT.
    """
    graph = windows.graph
    window_sums = graph.op("sum", windows.gathered(graph.cast(x, FLOAT), 0.0), dims=[1])
    inverse_counts = graph.constant(1 / np.asarray(counts, np.float64)[:, None], FLOAT)
    return graph.cast(windows.as_outputs(graph.op("mul", window_sums, inverse_counts)), x.dtype)


def _mean_gradient(windows: Windows, gradient: Value, counts: Array) -> Value:
    """Return the gradient of `x`, the input of `_mean_of`.

    `gradient` is the gradient of the means. Each element of a window gets the gradient of the
    window's mean, divided by the window's entry in `counts`.
    """
    graph = windows.graph
    float_gradient = graph.cast(gradient, FLOAT)
    inverse_counts = graph.constant(1 / np.asarray(counts, np.float64)[:, None], FLOAT)
    gradient_rows = graph.op("mul", windows.from_outputs(float_gradient), inverse_counts)
    gradient_rows = reshape(graph, gradient_rows, (len(windows.table), 1, windows.lead))
    gradient_rows = graph.op("expand", gradient_rows, shape=(*windows.table.shape, windows.lead))
    return graph.cast(windows.scattered(gradient_rows), gradient.dtype)


def _avg_windows(
    graph: Ir, x: Value, outputs: Ints, sizes: Sizes, count_include_pad: bool,
    divisor: int | None,
) -> tuple[Windows, Array]:  # fmt: skip
    """Return `(windows, divisors)` of an average pool.

    `divisors` contains the number by which the sum of each window is divided.
    """
    window_sizes = (sizes[kernel] for kernel in ("kernel", "stride", "lower"))
    ones = (1,) * len(outputs)
    windows = Windows(graph, x, list(map(_axis, x.shape[2:], outputs, *window_sizes, ones)))
    if divisor:
        return windows, np.full(len(windows.table), divisor)
    if not count_include_pad:
        return windows, np.maximum((windows.table >= 0).sum(1), 1)
    # With ceil_mode, windows may extend beyond the padding. As in torch, the divisors do not count
    # elements there.
    lengths_by_dim = [
        [
            min(window * stride - lower + kernel, size + lower) - (window * stride - lower)
            for window in range(num_windows)
        ]
        for size, num_windows, kernel, stride, lower in zip(
            x.shape[2:], outputs, sizes["kernel"], sizes["stride"], sizes["lower"], strict=True
        )
    ]
    return windows, reduce(np.multiply.outer, map(np.array, lengths_by_dim)).reshape(-1)


def _avg_pool_row(rank: int) -> None:
    """Register the lowering functions of an average pool over `rank` dimensions."""

    def options(x: Value, kernel: Ints, stride: Ints, padding: Ints) -> Sizes:
        return _options(rank, x, kernel=kernel, stride=stride, padding=padding, ceil_mode=False)

    def is_plain(sizes: Sizes, x: Value, outputs: Ints, divisor: int | None) -> bool:
        """Return whether the device's average pool has the windows and divisors of torch's.

        This is true if there is no `divisor`, and if torch rounds the number of windows down.
        """
        names = ("kernel", "stride", "lower")
        rounded_down = [
            (n + 2 * p - k) // s + 1
            for n, k, s, p in zip(x.shape[2:], *(sizes[k] for k in names), strict=True)
        ]
        return not divisor and rounded_down == list(outputs)

    @row(f"avg_pool{rank}d")
    def forward(
        graph: Ir, results: Results, x: Value, kernel: Ints, stride: Ints = (), padding: Ints = 0,  # type: ignore[assignment]
        ceil_mode: bool = False, count_include_pad: bool = True, divisor: int | None = None,
    ) -> Value:  # fmt: skip
        _check_floats(x)
        full = _batched(graph, x, rank)
        outputs = results.shape[-rank:]
        sizes = options(full, kernel, stride, padding)
        if is_plain(sizes, full, outputs, divisor):
            y = ir.pool(graph, "avg_pool", full, count_padding=count_include_pad, **sizes)
        else:
            windows, counts = _avg_windows(
                graph, full, outputs, sizes, count_include_pad=count_include_pad, divisor=divisor
            )
            y = _mean_of(windows, full, counts)
        return reshape(graph, y, results.shape)

    @row(f"avg_pool{rank}d_backward")
    def backward(
        graph: Ir, results: Results, gradient: Value, x: Value, kernel: Ints, stride: Ints,
        padding: Ints, ceil_mode: bool, count_include_pad: bool, divisor: int | None = None,
    ) -> Value:  # fmt: skip
        full = _batched(graph, x, rank)
        gradient = _batched(graph, gradient, rank)
        sizes = options(full, kernel, stride, padding)
        outputs = gradient.shape[2:]
        if is_plain(sizes, full, outputs, divisor):
            y = _plain_gradient(graph, full, gradient, sizes, count_include_pad=count_include_pad)
        else:
            windows, counts = _avg_windows(
                graph, full, outputs, sizes, count_include_pad=count_include_pad, divisor=divisor
            )
            y = _mean_gradient(windows, gradient, counts)
        return reshape(graph, y, results.shape)


def _plain_gradient(
    graph: Ir, x: Value, gradient: Value, sizes: Sizes, count_include_pad: bool
) -> Value:
    """Return the gradient of `x`, the input of the device's average pool.

    If the averages include the padding, the gradient of the padded input is computed first, and the
    padding is then removed from it.
    """
    lower = sizes["lower"]
    upper = sizes["upper"]
    if not (count_include_pad and any((*lower, *upper))):
        return graph.op("avg_pool_grad", gradient, shape=x.shape, **sizes)
    field = [
        size + before + after for size, before, after in zip(x.shape[2:], lower, upper, strict=True)
    ]
    no_padding = {"lower": (0,) * len(lower), "upper": (0,) * len(lower)}
    shape = (*x.shape[:2], *field)
    y = graph.op("avg_pool_grad", gradient, shape=shape, **{**sizes, **no_padding})
    for dim, (size, begin) in enumerate(zip(x.shape[2:], lower, strict=True)):
        y = graph.op("slice", y, dim=dim + 2, begin=begin, end=begin + size)
    return y


def _adaptive_avg_row(rank: int) -> None:
    """Register the lowering functions of an adaptive average pool over `rank` dimensions."""

    def windows(graph: Ir, x: Value, outputs: Ints) -> tuple[Windows, Array]:
        adaptive = Windows(graph, x, list(map(_adaptive_axis, x.shape[2:], outputs)))
        return adaptive, (adaptive.table >= 0).sum(1)

    def divided(x: Value, outputs: Ints) -> list[int] | None:
        """Return the kernel of the average pool with equal windows that computes the same result.

        Return None if the lengths of the field are not multiples of the lengths of the output.
        """
        pairs = list(zip(x.shape[2:], outputs, strict=True))
        return None if any(not m or n % m for n, m in pairs) else [n // m for n, m in pairs]

    @row(f"_adaptive_avg_pool{rank}d", kept=True)
    def forward(graph: Ir, results: Results, x: Value, size: Ints) -> Value:
        _check_floats(x)
        full = _batched(graph, x, rank)
        outputs = results.shape[-rank:]
        if kernel := divided(full, outputs):
            y = ir.pool(graph, "avg_pool", full, kernel)
        else:
            y_windows, counts = windows(graph, full, outputs)
            y = _mean_of(y_windows, full, counts)
        return reshape(graph, y, results.shape)

    @row(f"_adaptive_avg_pool{rank}d_backward", kept=True)
    def backward(graph: Ir, results: Results, gradient: Value, x: Value) -> Value:
        full = _batched(graph, x, rank)
        gradient = _batched(graph, gradient, rank)
        if kernel := divided(full, gradient.shape[2:]):
            sizes = ir.sized(rank, kernel=kernel, stride=kernel, lower=0, upper=0)
            y = graph.op("avg_pool_grad", gradient, shape=full.shape, **sizes)
        else:
            y_windows, counts = windows(graph, full, gradient.shape[2:])
            y = _mean_gradient(y_windows, gradient, counts)
        return reshape(graph, y, results.shape)


for _rank in (2, 3):
    _max_pool_row(_rank)
    _adaptive_max_row(_rank)
    _avg_pool_row(_rank)
    _adaptive_avg_row(_rank)
