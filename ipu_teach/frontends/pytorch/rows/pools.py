"""Pooling: by the device's pools where they are equivalent, otherwise by tables of windows.

A table of windows is an array [outputs, elements of a window] of positions in a flattened field.
Shorter windows are filled up with -1. Such a table can describe padding, dilation, windows that
extend beyond the field, and the windows of unequal size of adaptive pools.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.registry import Ints, Results, reshape, row
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT, Array

Sizes = dict[str, tuple[int, ...]]
Axis = list[list[int]]  # the positions in each output's window, along one dimension


def _check_floats(x: Value) -> None:
    """Raise `Unfit` unless x contains floats."""
    if not x.floating:
        raise Unfit(f"pooling of {x.dtype.__name__}", "x.float() first.")


def _batched(graph: Ir, x: Value, rank: int) -> Value:
    """Return x as [batch, channels, *field]; `rank` is the number of dimensions of the field."""
    return x if len(x.shape) == rank + 2 else reshape(graph, x, (1, *x.shape))


# --- windows --------------------------------------------------------------------------------------


def _axis(size: int, outputs: int, kernel: int, stride: int, padding: int, dilation: int) -> Axis:
    """Return the windows along a dimension of length `size`, without positions outside of it."""
    starts = [i * stride - padding for i in range(outputs)]
    windows = [range(start, start + kernel * dilation, dilation) for start in starts]
    return [[place for place in window if 0 <= place < size] for window in windows]


def _adaptive_axis(size: int, outputs: int) -> Axis:
    """Return the windows of an adaptive pool along a dimension of length `size`."""
    return [list(range(i * size // outputs, -(-(i + 1) * size // outputs))) for i in range(outputs)]


def _table(field: Ints, axes: list[Axis]) -> Array:
    """Return the table of windows for the windows along each dimension of `field`."""
    windows = []
    for output in np.ndindex(*map(len, axes)):
        along = [axis[i] for axis, i in zip(axes, output, strict=True)]
        grid = np.ix_(*along) if all(along) else None
        flat = np.arange(int(np.prod(field))).reshape(tuple(field))
        windows.append([] if grid is None else flat[grid].reshape(-1).tolist())
    longest = max(1, *map(len, windows))
    return np.array([w + [-1] * (longest - len(w)) for w in windows])


class Windows:
    """The windows of a pool over x [batch, channels, *field], as rows for a gather.

    `lead` is batch * channels, `size` is the number of elements of the field, and `outputs` is the
    shape of the output's field.
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
        """The rows to gather. The row after the field stands for all positions outside of it."""
        places = np.where(self.table < 0, self.size, self.table)
        return self.graph.constant(places.reshape(-1), UNSIGNED_INT)

    def gathered(self, x: Value, outside: float) -> Value:
        """Return x as [outputs, positions, batch * channels].

        Positions outside of the field get the value `outside`.
        """
        flat = reshape(self.graph, x, (self.lead, self.size))
        rows = self.graph.op("permute", flat, dims=(1, 0))
        margin = self.graph.constant(outside, x.dtype, (1, self.lead))
        rows = self.graph.op("concat", rows, margin, dim=0)
        y = self.graph.op("gather", rows, self.index)
        return reshape(self.graph, y, (*self.table.shape, self.lead))

    def scattered(self, updates: Value) -> Value:
        """Return [outputs, positions, batch * channels], summed at each position.

        The result has the shape of x.
        """
        flat = reshape(self.graph, updates, (self.table.size, self.lead))
        y = self.graph.op("scatter", self.index, flat, shape=(self.size + 1, self.lead))
        y = self.graph.op("slice", y, dim=0, begin=0, end=self.size)
        return reshape(self.graph, self.graph.op("permute", y, dims=(1, 0)), self.shape)

    def as_outputs(self, rows: Value) -> Value:
        """Return [outputs, batch * channels] as [batch, channels, *outputs]."""
        by_channel = self.graph.op("permute", rows, dims=(1, 0))
        return reshape(self.graph, by_channel, (*self.shape[:2], *self.outputs))

    def from_outputs(self, y: Value) -> Value:
        """Return [batch, channels, *outputs] as [outputs, batch * channels]."""
        flat = reshape(self.graph, y, (self.lead, len(self.table)))
        return self.graph.op("permute", flat, dims=(1, 0))

    def largest(self, x: Value) -> tuple[Value, Value]:
        """Return the maximum of each window, and INT: its position in the flattened field."""
        elements = self.graph.op("permute", self.gathered(x, -float("inf")), dims=(0, 2, 1))
        values = self.graph.op("reduce_max", elements, dims=[2])
        shape = (len(self.table), self.lead)
        place_in_window = reshape(self.graph, self.graph.op("arg_max", elements), shape)
        starts = np.arange(len(self.table))[:, None] * self.table.shape[1]
        start = self.graph.constant(np.broadcast_to(starts, shape).copy(), UNSIGNED_INT)
        table = self.graph.constant(np.maximum(self.table, 0).reshape(-1, 1), INT)
        row = self.graph.op("add", place_in_window, start)
        places = reshape(self.graph, self.graph.op("gather", table, row), shape)
        return self.as_outputs(values), self.as_outputs(places)


# --- maxima ---------------------------------------------------------------------------------------


def _options(
    rank: int, x: Value, *, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool
) -> Sizes:
    """Return the sizes of the device's pool: kernel, stride, and padding before and after.

    With `ceil_mode`, the padding after the field completes the last window.
    """
    sizes = ir.sized(rank, kernel=kernel, stride=stride or kernel, lower=padding, upper=padding)
    if ceil_mode:
        upper = map(_complete, x.shape[-rank:], *sizes.values())
        sizes["upper"] = tuple(upper)
    return sizes


def _complete(field: int, kernel: int, stride: int, lower: int, upper: int) -> int:
    """Return the padding after a field that completes its last window.

    `lower` and `upper` are the padding before and after the field without `ceil_mode`.
    """
    count = -(-(field + lower + upper - kernel) // stride) + 1
    if (count - 1) * stride >= field + lower:  # a last window that would begin after the field
        count -= 1
    return max((count - 1) * stride + kernel - field - lower, 0)


def _uses_places(results: Results, backward: str) -> bool:
    """Return whether anything but the pool's own backward pass reads positions of maxima."""
    readers = [
        reader
        for user in results.node.users
        if user.op == "call_function" and user.args[1:] == (1,)
        for reader in user.users
    ]
    return any(backward not in str(getattr(r, "target", "")) for r in readers)


def _max_pool_row(rank: int) -> None:
    """Add the rows of a maximum pool over `rank` dimensions, forward and backward."""
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
        else:  # the pool of the forward pass again, which is merged with that one
            options = _options(
                rank, full, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode
            )
            largest = ir.pool(graph, "max_pool", full, count_padding=False, **options)
            y = graph.op("max_pool_grad", full, largest, gradient, **options)
        return reshape(graph, y, results.shape)


def _to_places(graph: Ir, x: Value, gradient: Value, places: Value) -> Value:
    """Return the sums of gradients at their positions in the field, in the shape of x."""
    lead = x.shape[0] * x.shape[1]
    size = int(np.prod(x.shape[2:]))
    outputs = gradient.size // lead
    starts = np.broadcast_to(np.arange(lead)[:, None] * size, (lead, outputs)).copy()
    index = graph.op("add", reshape(graph, places, (lead, outputs)), graph.constant(starts, INT))
    index = graph.op("reinterpret", reshape(graph, index, (gradient.size,)), dtype=UNSIGNED_INT)
    updates = reshape(graph, gradient, (gradient.size, 1))
    return reshape(graph, graph.op("scatter", index, updates, shape=(x.size, 1)), x.shape)


def _adaptive_max_row(rank: int) -> None:
    """Add the rows of an adaptive maximum pool over `rank` dimensions, forward and backward."""

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
    """Return the sum of each window, computed in FLOAT, divided by its entry in `counts`."""
    graph = windows.graph
    total = graph.op("sum", windows.gathered(graph.cast(x, FLOAT), 0.0), dims=[1])
    share = graph.constant(1 / np.asarray(counts, np.float64)[:, None], FLOAT)
    return graph.cast(windows.as_outputs(graph.op("mul", total, share)), x.dtype)


def _mean_gradient(windows: Windows, gradient: Value, counts: Array) -> Value:
    """Return the gradient of `_mean_of`."""
    graph = windows.graph
    wide = graph.cast(gradient, FLOAT)
    share = graph.constant(1 / np.asarray(counts, np.float64)[:, None], FLOAT)
    rows = graph.op("mul", windows.from_outputs(wide), share)
    rows = reshape(graph, rows, (len(windows.table), 1, windows.lead))
    rows = graph.op("expand", rows, shape=(*windows.table.shape, windows.lead))
    return graph.cast(windows.scattered(rows), gradient.dtype)


def _avg_windows(
    graph: Ir, x: Value, outputs: Ints, sizes: Sizes, count_include_pad: bool,
    divisor: int | None,
) -> tuple[Windows, Array]:  # fmt: skip
    """Return the windows of an average, and the divisor of the sum of each window."""
    names = (sizes[k] for k in ("kernel", "stride", "lower"))
    ones = (1,) * len(outputs)
    windows = Windows(graph, x, list(map(_axis, x.shape[2:], outputs, *names, ones)))
    if divisor:
        return windows, np.full(len(windows.table), divisor)
    if not count_include_pad:
        return windows, np.maximum((windows.table >= 0).sum(1), 1)
    # only up to the end of the padding, because the windows of ceil_mode may extend beyond it
    lengths = [
        [min(i * s - p + k, n + p) - (i * s - p) for i in range(count)]
        for n, count, k, s, p in zip(
            x.shape[2:], outputs, sizes["kernel"], sizes["stride"], sizes["lower"], strict=True
        )
    ]
    return windows, reduce(np.multiply.outer, map(np.array, lengths)).reshape(-1)


def _avg_pool_row(rank: int) -> None:
    """Add the rows of an average pool over `rank` dimensions, forward and backward."""

    def options(x: Value, kernel: Ints, stride: Ints, padding: Ints) -> Sizes:
        return _options(rank, x, kernel=kernel, stride=stride, padding=padding, ceil_mode=False)

    def is_plain(sizes: Sizes, x: Value, outputs: Ints, divisor: int | None) -> bool:
        """Return whether the device's own pool has these windows."""
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
    """Return the gradient of the device's average pool, with or without the padding."""
    lower = sizes["lower"]
    upper = sizes["upper"]
    if not (count_include_pad and any((*lower, *upper))):
        return graph.op("avg_pool_grad", gradient, shape=x.shape, **sizes)
    field = [n + a + b for n, a, b in zip(x.shape[2:], lower, upper, strict=True)]
    no_padding = {"lower": (0,) * len(lower), "upper": (0,) * len(lower)}
    shape = (*x.shape[:2], *field)
    y = graph.op("avg_pool_grad", gradient, shape=shape, **{**sizes, **no_padding})
    for dim, (n, start) in enumerate(zip(x.shape[2:], lower, strict=True)):
        y = graph.op("slice", y, dim=dim + 2, begin=start, end=start + n)
    return y


def _adaptive_avg_row(rank: int) -> None:
    """Add the rows of an adaptive average pool over `rank` dimensions, forward and backward."""

    def windows(graph: Ir, x: Value, outputs: Ints) -> tuple[Windows, Array]:
        adaptive = Windows(graph, x, list(map(_adaptive_axis, x.shape[2:], outputs)))
        return adaptive, (adaptive.table >= 0).sum(1)

    def divided(x: Value, outputs: Ints) -> list[int] | None:
        """Return the kernel of the equivalent pool if the field divides evenly, else None."""
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
