"""The operations of PopART's Builder: ONNX's by their lower-case names, and Graphcore's own.

A function of the tables `ONNX` and `GRAPHCORE` has the arguments `(graph, *inputs, **attributes)`.
It adds operations of `frontends.ir` to the graph, and returns a result or a list of results. The
default of an attribute is ONNX's. A result that the host knows, such as a shape, is an array.

ONNX passes some settings, such as the shape of a reshape, as tensors. Here these are attributes,
too: `STATIC` lists them in the order of ONNX's inputs. A Builder passes the elements of a constant.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import ceil, inf, prod
from typing import Annotated, Any

import numpy as np

from ipu_teach.arguments import Among, Between, Count, Extended, Natural, Numbers, Share
from ipu_teach.errors import did_you_mean
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.ir.dimensions import move_dimension, same_padding
from ipu_teach.frontends.ir.indices import unsigned
from ipu_teach.frontends.ir.rows import axes as sorted_axes
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.session import input_of
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, Array, DType

Ints = Sequence[int]
Make = Callable[..., Any]
TYPES: dict[str, type[DType]] = {"FLOAT": FLOAT, "FLOAT16": HALF, "INT32": INT, "BOOL": BOOL}
TYPES |= {"UINT32": UNSIGNED_INT, "INT64": INT}
Type = Annotated[str, Among(TYPES)]
Size = Annotated[int, Between(1, 2**24)]
Sizes = Size | Sequence[Size]
Switch = bool | Annotated[int, Between(0, 1)]
Epsilon = Annotated[float, Between(0)]
Ratio = Annotated[float, Between(0, 1)]
Depth = Annotated[float, Between(1, 2**24)]  # ONNX permits floats here.
AutoPad = Annotated[str, Among(("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))]
Reduction = Annotated[str, Among(("Mean", "Sum", "None"))]
# The attributes that ONNX passes as inputs after the tensors. Each line below contains the name of
# an operation and its attributes.
STATIC = {
    name: attributes
    for name, *attributes in map(
        str.split,
        """clip min max
        constantofshape shape
        cumsum axis
        dropout ratio training_mode
        expand shape
        onehot depth values
        pad pads constant_value axes
        reshape shape
        resize roi scales sizes
        slice starts ends axes steps
        split split
        squeeze axes
        tile repeats
        topk k
        unsqueeze axes""".splitlines(),
    )
}
# The attributes in `STATIC` that are a single number. All others are lists.
NUMBERS = ("axis", "constant_value", "depth", "k", "max", "min", "ratio", "training_mode")
# Advice for operations that the device, or a graph of fixed shapes, cannot compute.
REFUSED = {
    "nonzero": "keep all elements, and set the others to 0 with where.",
    "nonmaxsuppression": "select boxes with numpy, from the scores that the model returns.",
    "loop": "write out all steps, or use lstm, gru or rnn.",
    "if": "compute both branches, and choose with where.",
    "einsum": "write it with transpose, reshape and matmul.",
    "upsample": "use resize, with nearest_mode='floor' and asymmetric coordinates.",
    "reducelogsumexp": "write it as log(reducesum(exp(x - m))) + m, where m is reducemax(x).",
    "quantizelinear": "keep the values in FLOAT or FLOAT16.",
}


def _axis(x: Value, axis: int) -> int:
    """Return the dimension `axis` of `x`, counted from 0."""
    (dim,) = sorted_axes(x, [axis])
    return dim


# --- shapes ---------------------------------------------------------------------------------------


def _reshape(g: Ir, x: Value, *, shape: Ints, allowzero: Switch = 0) -> Value:
    """Return `x` in another shape. A size of 0 keeps the old length, unless `allowzero` is true."""
    old_shape = () if allowzero else x.shape
    sizes = [n or old_shape[d] if d < len(old_shape) else n for d, n in enumerate(shape)]
    return g.op("reshape", x, shape=tuple(sizes))


def _flatten(g: Ir, x: Value, *, axis: int = 1) -> Value:
    before, after = np.split(np.array(x.shape, int), [axis])
    return g.op("reshape", x, shape=(prod(before), prod(after)))


def _squeeze(g: Ir, x: Value, *, axes: Ints | None = None) -> Value:
    shape = np.squeeze(np.empty((0, *x.shape)), _shifted(x, axes)).shape[1:]
    return g.op("reshape", x, shape=shape)


def _shifted(x: Value, axes: Ints | None) -> tuple[int, ...]:
    """Return the numbers of the dimensions `axes` after a dimension is added in front of them.

    By default, `axes` are all dimensions of length 1.
    """
    if axes is None:
        return tuple(d + 1 for d, n in enumerate(x.shape) if n == 1)
    return tuple(d + 1 for d in sorted_axes(x, axes))


def _unsqueeze(g: Ir, x: Value, *, axes: Ints) -> Value:
    return g.op("reshape", x, shape=np.expand_dims(np.broadcast_to(0, x.shape), tuple(axes)).shape)


def _transpose(g: Ir, x: Value, *, perm: Ints | None = None) -> Value:
    return g.op("permute", x, dims=tuple(range(len(x.shape))[::-1] if perm is None else perm))


def _concat(g: Ir, *x: Value, axis: int) -> Value:
    return g.op("concat", *x, dim=axis)


def _split(
    g: Ir, x: Value, *, axis: int = 0, split: Sequence[Natural] = (), num_outputs: Count = 1
) -> list[Value]:
    """Return parts of `x` along `axis`, with the lengths in `split` or with equal lengths.

    Without `split`, `x` is divided into parts of equal length, but the last part may be shorter.
    """
    length = x.shape[_axis(x, axis)]
    size = ceil(length / num_outputs)
    sizes = split or [min(size, length - begin) for begin in range(0, length, size)]
    if sum(sizes) != length:
        raise Unfit(
            f"the lengths {list(sizes)} do not have the sum {length}", "use lengths with this sum."
        )
    return ir.split(g, x, sizes, axis)


def _slice(
    g: Ir, x: Value, *, starts: Ints, ends: Ints, axes: Ints = (), steps: Ints = ()
) -> Value:
    """Return `x[start:end:step]` along each of `axes`, by default along the first dimensions."""
    bounds = zip(starts, ends, steps or [1] * len(starts), strict=True)
    for axis, bound in zip(axes or range(len(starts)), bounds, strict=True):
        dim = _axis(x, axis)
        chosen = range(x.shape[dim])[slice(*bound)]
        ordered = sorted(chosen)
        begin, end = (ordered[0], ordered[-1] + 1) if ordered else (0, 0)
        x = g.op("slice", x, dim=dim, begin=begin, end=end, step=abs(chosen.step))
        x = x if chosen.step > 0 else g.op("reverse", x, dim=dim)
    return x


def _expand(g: Ir, x: Value, *, shape: Ints) -> Value:
    return g.op("expand", x, shape=np.broadcast_shapes(x.shape, tuple(shape)))


def _tile(g: Ir, x: Value, *, repeats: Sequence[Count]) -> Value:
    for (dim, _), count in zip(enumerate(x.shape), repeats, strict=True):
        x = x if count == 1 else g.op("concat", *[x] * count, dim=dim)
    return x


def _pad(
    g: Ir,
    x: Value,
    *,
    pads: Sequence[Natural],
    constant_value: float = 0.0,
    axes: Ints | None = None,
    mode: Annotated[str, Among(("constant", "reflect", "edge", "wrap"))] = "constant",
) -> Value:
    """Return `x` with padding; `pads` has the lengths before the dimensions, then those after."""
    margins = np.zeros((2, len(x.shape)), int)
    margins[:, slice(None) if axes is None else [*axes]] = np.reshape(pads, (2, -1))
    if mode == "constant":
        return g.op("pad", x, lower=[*margins[0]], upper=[*margins[1]], value=constant_value)
    for dim, margin in enumerate(margins.T):
        x = _taken(g, x, np.pad(np.arange(x.shape[dim]), margin, mode), dim)  # type: ignore[call-overload]
    return x


def _taken(g: Ir, x: Value, places: Array, dim: int) -> Value:
    """Return the slices of `x` at `places` along the dimension `dim`."""
    index = g.constant(places, UNSIGNED_INT)
    return move_dimension(g, g.op("gather", move_dimension(g, x, dim, 0), index), 0, dim)


def _shape(g: Ir, x: Value, *, start: int = 0, end: int | None = None) -> Array:
    return np.array(x.shape[start:end], np.int64)


def _constant_of_shape(g: Ir, *, shape: Ints, value: Numbers = ()) -> Array:
    return np.full(tuple(shape), np.resize(np.asarray(value, None if np.size(value) else "f"), ()))


# --- elements -------------------------------------------------------------------------------------


def _plain(kind: str) -> Make:
    """Return a function that adds the operation `kind` to a graph, without attributes."""
    return lambda g, *inputs: g.op(kind, *inputs)


def _folded(kind: str) -> Make:
    """Return a function that combines any number of inputs with an operation, such as "add"."""
    return lambda g, *x: reduce(partial(g.op, kind), x)


def _cast(g: Ir, x: Value, *, to: Type) -> Value:
    is_truth = to == "BOOL" and x.dtype is not BOOL
    return g.op("neq", x, 0) if is_truth else g.op("cast", x, dtype=TYPES[to])


def _elu(g: Ir, x: Value, *, alpha: float = 1.0) -> Value:
    """Return x, or alpha * (exp(x) - 1) for a negative x. The exponential never overflows."""
    is_positive = g.op("gt", x, 0.0)
    exponential = g.op("expm1", g.op("select", is_positive, g.constant(0.0, x.dtype), x))
    return g.op("select", is_positive, x, g.op("mul", exponential, alpha))


def _selu(
    g: Ir, x: Value, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805
) -> Value:
    return g.op("mul", _elu(g, x, alpha=alpha), gamma)


def _is_inf(g: Ir, x: Value, *, detect_negative: Switch = 1, detect_positive: Switch = 1) -> Value:
    """Return whether `x` is infinite. Each sign counts only if its argument `detect_…` is 1."""
    if not detect_positive:
        x = g.op("neg", x) if detect_negative else g.constant(0.0, x.dtype, x.shape)
    elif detect_negative:
        x = g.op("abs", x)
    return g.op("eq", x, inf)


def _prelu(g: Ir, x: Value, slope: Value | float) -> Value:
    return g.op("select", g.op("lt", x, 0.0), g.op("mul", x, slope), x)


def _leaky_relu(g: Ir, x: Value, *, alpha: float = 0.01) -> Value:
    return _prelu(g, x, alpha)


def _clip(g: Ir, x: Value, *, min: Extended | None = None, max: Extended | None = None) -> Value:
    for exceeds, bound in (("lt", min), ("gt", max)):
        if bound is not None:
            x = g.op("select", g.op(exceeds, x, bound), g.constant(bound, x.dtype), x)
    return x


def _hard_sigmoid(g: Ir, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return _clip(g, g.op("add", g.op("mul", x, alpha), beta), min=0.0, max=1.0)


def _gelu(g: Ir, x: Value, *, approximate: str = "none") -> Value:
    return g.op("gelu_tanh" if approximate == "tanh" else "gelu", x)


def _pow(g: Ir, x: Value, exponent: Value) -> Value:
    """Return x ** exponent in the dtype of x."""
    if exponent.floating > x.floating:
        raise Unfit(
            "an integer cannot have a float exponent", "cast x to FLOAT, and the result back."
        )
    square = exponent.number == 2
    return g.op("square", x) if square else g.op("pow", x, g.cast(exponent, x.dtype))


def _mod(g: Ir, a: Value, b: Value, *, fmod: Switch = 0) -> Value:
    """Return the remainder of `a` / `b`. It has the sign of `b`, or of `a` if `fmod` is 1."""
    rest = g.op("rem", a, b)
    if fmod or a.dtype is UNSIGNED_INT:
        return rest
    if a.floating:
        raise Unfit(
            "a remainder of floats cannot have the sign of b",
            "pass fmod=1, which keeps the sign of a.",
        )
    differs = g.op("neq", g.op("lt", rest, 0), g.op("lt", b, 0))
    is_other = g.op("logical_and", g.op("neq", rest, 0), differs)
    return g.op("select", is_other, g.op("add", rest, b), rest)


# --- reductions and order -------------------------------------------------------------------------


def _reduced(kind: str, before: str = "", after: Make | None = None) -> Make:
    """Return a function that reduces a tensor over `axes`, or over all dimensions.

    `before` is an operation that is applied to the elements before the reduction. `after` is a
    function of the graph and the result of the reduction.
    """

    def operation(
        g: Ir,
        x: Value,
        *,
        axes: Ints | None = None,
        keepdims: Switch = 1,
        noop_with_empty_axes: Switch = 0,
    ) -> Value:
        x = g.op(before, x) if before else x
        if axes or not noop_with_empty_axes:
            call = ir.mean if kind == "mean" else partial(ir.reduced, kind=kind)
            x = call(g, x=x, dims=axes or None, keep=bool(keepdims))
        return after(g, x) if after else x

    return operation


def _root(g: Ir, square: Value) -> Value:
    """Return the square root of `square`. Its gradient is 0 where `square` is 0."""
    is_zero = g.op("eq", square, 0.0)
    safe = g.op("select", is_zero, g.constant(1.0, square.dtype), square)
    return g.op("select", is_zero, square, g.op("sqrt", safe))


def _extreme_place(kind: str) -> Make:
    """Return argmax or argmin; `kind` is "arg_max" or "arg_min"."""

    def operation(
        g: Ir, x: Value, *, axis: int = 0, keepdims: Switch = 1, select_last_index: Switch = 0
    ) -> Value:
        dim = _axis(x, axis)
        rows = move_dimension(g, x, dim, len(x.shape) - 1)
        rows = g.op("reverse", rows, dim=-1) if select_last_index else rows
        place = g.op("reinterpret", g.op(kind, rows), dtype=INT)
        if select_last_index:
            place = g.op("sub", g.constant(x.shape[dim] - 1, INT), place)
        return _unsqueeze(g, place, axes=[dim]) if keepdims else place

    return operation


def _top_k(
    g: Ir, x: Value, *, k: int, axis: int = -1, largest: Switch = 1, sorted: Switch = 1
) -> list[Value]:
    """Return [values, positions] of the largest or smallest `k` elements along `axis`, in order."""
    dim, last = _axis(x, axis), len(x.shape) - 1
    values, places = g.emit("top_k", move_dimension(g, x, dim, last), k=k, largest=bool(largest))
    return [
        move_dimension(g, v, last, dim) for v in (values, g.op("reinterpret", places, dtype=INT))
    ]


def _cumsum(g: Ir, x: Value, *, axis: int, exclusive: Switch = 0, reverse: Switch = 0) -> Value:
    dim, last = _axis(x, axis), len(x.shape) - 1
    rows = g.cast(move_dimension(g, x, dim, last), FLOAT if x.floating else x.dtype)
    rows = g.op("reverse", rows, dim=-1) if reverse else rows
    flat = g.op("reshape", rows, shape=(prod(rows.shape[:-1]), rows.shape[-1]))
    if exclusive:
        flat = g.op("pad", flat, lower=[0, 1], upper=[0, 0])
        flat = g.op("slice", flat, dim=1, begin=0, end=rows.shape[-1])
    sums = ir.running_results(g, flat, partial(g.op, "add"))
    y = g.op("reshape", g.cast(sums, x.dtype), shape=rows.shape)
    return move_dimension(g, g.op("reverse", y, dim=-1) if reverse else y, last, dim)


def _along(kind: str) -> Make:
    """Return a function that adds the operation `kind` along a dimension, by default the last."""

    def along(g: Ir, x: Value, *, axis: int = -1) -> Value:
        return ir.along(g, kind, x, axis)

    return along


# --- look-ups -------------------------------------------------------------------------------------


def _gather(g: Ir, x: Value, index: Value, *, axis: int = 0) -> Value:
    """Return the slices of `x` along `axis` that `index` selects. Index -1 is the last slice."""
    dim = _axis(x, axis)
    index = unsigned(g, index, x.shape[dim], True)
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    if index.initial is not None and index.size == 1:  # A view needs no exchange.
        place = int(index.initial.item())
        return g.op("reshape", g.op("slice", x, dim=dim, begin=place, end=place + 1), shape=shape)
    flat = index if dim == 0 else g.op("reshape", index, shape=(index.size,))
    y = move_dimension(g, g.op("gather", move_dimension(g, x, dim, 0), flat), 0, dim)
    return y if dim == 0 else g.op("reshape", y, shape=shape)


def _element_places(g: Ir, x: Value, index: Value, axis: int) -> Value:
    """Return the positions in the flattened `x` of the elements that `index` selects."""
    dim = _axis(x, axis)
    strides = [prod(x.shape[d + 1 :]) for d in range(len(x.shape))]
    places = g.op("mul", unsigned(g, index, x.shape[dim], True), strides[dim])
    strides[dim] = 0
    others = g.constant(np.tensordot(strides, np.indices(index.shape), 1), UNSIGNED_INT)
    return g.op("reshape", g.op("add", places, others), shape=(index.size,))


def _gather_elements(g: Ir, x: Value, index: Value, *, axis: int = 0) -> Value:
    column = g.op("reshape", x, shape=(x.size, 1))
    y = g.op("gather", column, _element_places(g, x, index, axis))
    return g.op("reshape", y, shape=index.shape)


def _row_places(g: Ir, x: Value, index: Value) -> Value:
    """Return the row numbers in `x` that the multi-dimensional indices in `index` select.

    The last dimension of `index` contains an index for each of the leading dimensions of `x` that
    are indexed.
    """
    lengths = x.shape[: index.shape[-1]]
    # The columns have different limits. The columns of a copy are no views of an input, so they
    # set no limits for the input, and the host does not check them.
    numbers = g.op("copy", index) if len(lengths) > 1 else index
    places = None
    for column, length in zip(ir.split(g, numbers, [1] * len(lengths), -1), lengths, strict=True):
        column = unsigned(g, g.op("reshape", column, shape=(-1,)), length, True)
        places = column if places is None else g.op("add", g.op("mul", places, length), column)
    assert places is not None, "an index has at least one number"
    return places


def _rows(g: Ir, x: Value, index: Value) -> Value:
    depth = index.shape[-1]
    return g.op("reshape", x, shape=(prod(x.shape[:depth]), *x.shape[depth:]))


def _gather_nd(g: Ir, x: Value, index: Value) -> Value:
    y = g.op("gather", _rows(g, x, index), _row_places(g, x, index))
    return g.op("reshape", y, shape=(*index.shape[:-1], *y.shape[1:]))


KINDS = {"none": "scatter_set", "add": "scatter_add", "max": "scatter_max"}
Scatter = Annotated[str, Among(KINDS)]


def _scattered(g: Ir, x: Value, rows: Value, places: Value, updates: Value, kind: str) -> Value:
    """Return `x` with `updates` written to the rows `places`; `rows` is `x` as an array of rows."""
    updates = g.op("reshape", updates, shape=(places.size, *rows.shape[1:]))
    return g.op("reshape", g.op(KINDS[kind], rows, places, updates), shape=x.shape)


def _scatter_elements(
    g: Ir, x: Value, index: Value, updates: Value, *, axis: int = 0, reduction: Scatter = "none"
) -> Value:
    rows, places = g.op("reshape", x, shape=(x.size, 1)), _element_places(g, x, index, axis)
    return _scattered(g, x, rows, places, updates, reduction)


def _scatter_nd(
    g: Ir, x: Value, index: Value, updates: Value, *, reduction: Scatter = "none"
) -> Value:
    return _scattered(g, x, _rows(g, x, index), _row_places(g, x, index), updates, reduction)


def _one_hot(g: Ir, index: Value, *, depth: Depth, values: Numbers, axis: int = -1) -> Value:
    """Return the one-hot encoding of `index`: `values[1]` at the index, and `values[0]` elsewhere.

    The new dimension `axis` has the length `depth`.
    """
    off_on = np.asarray(values)
    column = _unsqueeze(g, index, axes=[axis])
    is_last = g.op("lt", column, 0)
    column = g.op("select", is_last, g.op("add", column, int(depth)), column)
    steps = np.moveaxis(np.arange(int(depth)).reshape(-1, *[1] * len(index.shape)), 0, axis)
    off, on = (g.constant(v, ir.values.dtype_of(off_on, "values")) for v in off_on)
    return g.op("select", g.op("eq", column, g.constant(steps, index.dtype)), on, off)


# --- layers ---------------------------------------------------------------------------------------


def _windows(
    x: Value,
    kernel: Ints,
    pads: Ints,
    strides: Ints | int,
    dilations: Ints | int,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> dict[str, list[int]]:
    """Return the stride, dilation, and padding before and after each dimension of the field of `x`.

    The field consists of the dimensions after the first two.
    """
    field = x.shape[2:]
    stride, dilation = (np.resize(v, len(field)).tolist() for v in (strides, dilations))
    lower, upper = np.resize(pads if len(pads) else 0, (2, len(field))).tolist()
    for d, length in enumerate(field):
        reach = (kernel[d] - 1) * dilation[d] + 1
        if auto_pad.startswith("SAME"):
            total = same_padding(length, reach, stride[d])
            lower[d] = (total + (auto_pad == "SAME_LOWER")) // 2
            upper[d] = total - lower[d]
        elif ceil_mode:
            steps = ceil((length + lower[d] + upper[d] - reach) / stride[d])
            steps -= steps * stride[d] >= length + lower[d]  # No window may begin after the field.
            upper[d] = max(steps * stride[d] + reach - length - lower[d], 0)
    return {"stride": stride, "dilation": dilation, "lower": lower, "upper": upper}


def _pool(kind: str) -> Make:
    """Return a function that adds a pool to a graph; `kind` is "max_pool" or "avg_pool"."""

    def pool(
        g: Ir,
        x: Value,
        *,
        kernel_shape: Sequence[Size],
        auto_pad: AutoPad = "NOTSET",
        ceil_mode: Switch = 0,
        count_include_pad: Switch = 0,
        dilations: Sizes = 1,
        pads: Sequence[Natural] = (),
        strides: Sizes = 1,
    ) -> Value:
        if ceil_mode and count_include_pad or np.max(dilations) > 1:
            raise Unfit(
                "windows with dilations above 1, or with ceil_mode and count_include_pad, are not "
                "supported",
                "use a dilation of 1, and leave out ceil_mode.",
            )
        sizes = _windows(x, kernel_shape, pads, strides, 1, auto_pad, ceil_mode)
        del sizes["dilation"]
        return ir.pool(
            g, kind, x, kernel=kernel_shape, count_padding=bool(count_include_pad), **sizes
        )

    return pool


def _global(reduction: Make) -> Make:
    """Return a function that reduces the whole field of each channel."""
    return lambda g, x: reduction(g, x, axes=range(2, len(x.shape)))


def _conv(
    g: Ir,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    auto_pad: AutoPad = "NOTSET",
    dilations: Sizes = 1,
    group: Count = 1,
    kernel_shape: Sequence[Size] = (),
    pads: Sequence[Natural] = (),
    strides: Sizes = 1,
) -> Value:
    sizes = _windows(x, w.shape[2:], pads, strides, dilations, auto_pad)
    return ir.conv(g, x, w, b, groups=group, **sizes)


def _conv_transpose(
    g: Ir,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    dilations: Sizes = 1,
    group: Count = 1,
    kernel_shape: Sequence[Size] = (),
    output_padding: Sequence[Natural] = (0,),
    pads: Sequence[Natural] = (),
    strides: Sizes = 1,
) -> Value:
    """Return the transposed convolution of `x`: the gradient of a convolution's input.

    The output padding first restores elements that the padding has cut off, and then adds zeros.
    """
    sizes = _windows(x, w.shape[2:], pads, strides, dilations)
    stride, dilation, lower, upper = map(np.array, sizes.values())
    reached = (np.array(x.shape[2:]) - 1) * stride + (np.array(w.shape[2:]) - 1) * dilation + 1
    wanted = reached - upper + np.resize(output_padding, len(upper))
    sizes["upper"] = np.maximum(reached - wanted, 0).tolist()
    field = (np.minimum(reached, wanted) - lower).tolist()
    shape = (x.shape[0], w.shape[1] * group, *field)
    y = g.op("conv_input_grad", x, w, field=shape, groups=group, **sizes)
    margins = [0, 0, *np.maximum(wanted - reached, 0).tolist()]
    y = g.op("pad", y, lower=[0] * len(margins), upper=margins) if any(margins) else y
    return y if b is None else g.op("add", y, _unsqueeze(g, b, axes=range(1, len(field) + 1)))


def _batch_norm(
    g: Ir,
    x: Value,
    gamma: Value,
    beta: Value,
    mean: Value,
    variance: Value,
    *,
    num_outputs: Count = 1,
    epsilon: Epsilon = 1e-5,
    momentum: Share = 0.9,
    training_mode: Switch | None = None,
) -> Value:
    """Return the batch norm of `x`.

    The norm is in training mode if `training_mode` is 1; if `training_mode` is None, `num_outputs`
    above 1 selects training mode. In training mode, the norm uses the mean and variance of the
    batch, and updates `mean` and `variance`. Otherwise, it uses `mean` and `variance`.
    """
    training = num_outputs > 1 if training_mode is None else bool(training_mode)
    return ir.batch_norm(
        g,
        x,
        gamma,
        beta,
        training=training,
        momentum=1 - momentum,
        eps=epsilon,
        unbiased=False,
        running_mean=mean,
        running_var=variance,
    )


def _group_norm(
    g: Ir, x: Value, gamma: Value, beta: Value, *, num_groups: Count, epsilon: Epsilon = 1e-5
) -> Value:
    return ir.norm(g, "group", x, gamma=gamma, beta=beta, eps=epsilon, groups=num_groups)


def _instance_norm(g: Ir, x: Value, gamma: Value, beta: Value, *, epsilon: Epsilon = 1e-5) -> Value:
    return ir.norm(g, "instance", x, gamma=gamma, beta=beta, eps=epsilon)


def _layer_norm(
    g: Ir,
    x: Value,
    scale: Value,
    bias: Value | None = None,
    *,
    axis: int = -1,
    epsilon: Epsilon = 1e-5,
    num_outputs: Count = 1,
) -> list[Value]:
    """Return `x`, normalised over the dimensions from `axis` on.

    With `num_outputs` above 1, the mean and the inverse standard deviation are returned, too.
    """
    dim = _axis(x, axis)
    rows = _flatten(g, x, axis=dim)
    gamma, beta = (
        v and g.op("reshape", _expand(g, v, shape=x.shape[dim:]), shape=rows.shape[1:])
        for v in (scale, bias)
    )
    y = ir.norm(g, "layer", rows, gamma=gamma, beta=beta, eps=epsilon)
    results = [g.op("reshape", y, shape=x.shape)]
    if num_outputs > 1:
        rows = g.cast(rows, FLOAT)
        mean = ir.mean(g, rows, [1], True)
        square = g.op("square", g.op("sub", rows, mean))
        variance = g.op("add", ir.mean(g, square, [1], True), epsilon)
        shape = (*x.shape[:dim], *[1] * (len(x.shape) - dim))
        for v in (mean, g.op("inv", g.op("sqrt", variance))):
            results.append(g.op("reshape", v, shape=shape))
    return results


def _dropout(
    g: Ir,
    x: Value,
    *,
    num_outputs: Count = 1,
    ratio: Ratio = 0.5,
    seed: int = 0,
    training_mode: Switch = 1,
) -> Value:
    return ir.dropout(g, x, ratio) if training_mode else g.op("copy", x)


def _gemm(
    g: Ir,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: Switch = 0,
    transB: Switch = 0,
) -> Value:
    """Return alpha * a @ b + beta * c. With `transA` or `transB`, a or b is transposed first."""
    a = ir.turned(g, a) if transA else a
    b = ir.turned(g, b) if transB else b
    y = g.op("matmul", a, b)
    y = y if alpha == 1 else g.op("mul", y, alpha)
    if c is None:
        return y
    return g.op("add", y, c if beta == 1 else g.op("mul", c, beta))


def _matmul(g: Ir, a: Value, b: Value) -> Value:
    """Return the matrix product; a left vector is used as a row, and a right vector as a column."""
    removed = [-2] * (len(a.shape) == 1) + [-1] * (len(b.shape) == 1)
    a = _unsqueeze(g, a, axes=[0]) if len(a.shape) == 1 else a
    b = _unsqueeze(g, b, axes=[1]) if len(b.shape) == 1 else b
    y = g.op("matmul", a, b)
    return _squeeze(g, y, axes=removed) if removed else y


# --- resizing -------------------------------------------------------------------------------------

# Maps each coordinate mode to a function that returns the position in x of output number i, for the
# scale and the length n of x.
POSITIONS: dict[str, Callable[[Array, float, int], Array]] = {
    "half_pixel": lambda i, scale, n: (i + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda i, scale, n: (i + 0.5) / scale - 0.5 if n * scale > 1 else 0 * i,
    "align_corners": lambda i, scale, n: i * (n - 1) / (n * scale - 1) if n * scale > 1 else 0 * i,
    "asymmetric": lambda i, scale, n: i / scale,
}
ROUNDINGS: dict[str, Make] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _resize(
    g: Ir,
    x: Value,
    *,
    roi: object = None,
    scales: Sequence[Epsilon] = (),
    sizes: Sequence[Count] = (),
    axes: Ints | None = None,
    coordinate_transformation_mode: Annotated[str, Among(POSITIONS)] = "half_pixel",
    mode: Annotated[str, Among(("nearest", "linear"))] = "nearest",
    nearest_mode: Annotated[str, Among(ROUNDINGS)] = "round_prefer_floor",
) -> Value:
    """Return `x` resized, by nearest elements or by linear interpolation of two neighbours.

    `scales` or `sizes` contains an entry for each of `axes`, or for each dimension of `x`.
    """
    dims = range(len(x.shape)) if axes is None else [_axis(x, axis) for axis in axes]
    for i, dim in enumerate(dims):
        n = x.shape[dim]
        m = sizes[i] if sizes else int(n * scales[i])
        if n == m:
            continue
        scale = m / n if sizes else scales[i]
        places = POSITIONS[coordinate_transformation_mode](np.arange(m), scale, n)
        places = ROUNDINGS[nearest_mode](places) if mode == "nearest" else places
        places = np.clip(places, 0, n - 1)
        first = places.astype(int)
        lower = _taken(g, x, first, dim)
        if mode == "linear":
            upper = _taken(g, x, np.minimum(first + 1, n - 1), dim)
            share = (places - first).reshape(-1, *[1] * (len(x.shape) - 1 - dim))
            step = g.op("mul", g.op("sub", upper, lower), g.constant(share, x.dtype))
            lower = g.op("add", lower, step)
        x = lower
    return x


# --- recurrent layers -----------------------------------------------------------------------------

# Maps each kind of layer to (the positions of its gates in ONNX, in the order of `frontends.ir`;
# the only activations that are supported, by ONNX's names in lower case).
GATES = {
    "lstm": ((0, 2, 3, 1), ["sigmoid", "tanh", "tanh"]),
    "gru": ((1, 0, 2), ["sigmoid", "tanh"]),
    "tanh": ((0,), ["tanh"]),
    "relu": ((0,), ["relu"]),
}


def _one_direction(
    g: Ir, kind: str, x: Value, inputs: Sequence[Value | None], reverse: bool
) -> list[Value]:
    """Return [outputs, *last states] of a layer; `inputs` are w, r, b and the initial states."""
    order = GATES[kind][0]

    def ordered(v: Value) -> Value:
        parts = ir.split(g, v, [v.shape[0] // len(order)] * len(order))
        return g.op("concat", *(parts[gate] for gate in order), dim=0)

    w, r, b, *states = inputs
    assert w and r, "the weights are not optional"
    zeros = g.constant(0.0, x.dtype, (x.shape[1], r.shape[-1]))
    biases = map(ordered, ir.split(g, b, [b.size // 2] * 2)) if b else ()
    x = g.op("reverse", x, dim=0) if reverse else x
    state = [v or zeros for v in states]
    y, last = ir.recurrent(g, kind, x, state, ordered(w), ordered(r), *biases)
    return [g.op("reverse", y, dim=0) if reverse else y, *last]


def _recurrent(name: str) -> Make:
    """Return ONNX's operation "lstm", "gru" or "rnn": [all outputs, *last state]."""

    def operation(
        g: Ir,
        x: Value,
        w: Value,
        r: Value,
        b: Value | None = None,
        lengths: Value | None = None,
        h: Value | None = None,
        c: Value | None = None,
        peepholes: Value | None = None,
        *,
        activations: Sequence[str] = (),
        direction: Annotated[str, Among(("forward", "reverse", "bidirectional"))] = "forward",
        hidden_size: Count = 1,
        linear_before_reset: Switch = 0,
        num_outputs: Count = 1,
    ) -> list[Value]:
        directions = range(w.shape[0])
        functions = [v.lower() for v in activations]
        kind = name if name != "rnn" else functions[0] if functions else "tanh"
        if kind not in GATES or functions not in ([], GATES[kind][1] * len(directions)):
            raise Unfit(f"the activations {functions} are not supported", "leave them out.")
        if lengths or peepholes or name == "gru" and not linear_before_reset:
            raise Unfit(
                "the layer has sequence lengths, peepholes, or a GRU's reset before the product",
                "leave out these inputs, and pass linear_before_reset=1, as torch's GRU does.",
            )
        inputs = [w, r, b, h, c][: 5 if name == "lstm" else 4]
        sides = [
            _one_direction(
                g,
                kind,
                x,
                [v and _gather(g, v, g.constant(d, INT)) for v in inputs],
                d == 1 or direction == "reverse",
            )
            for d in directions
        ]
        y, *last = zip(*sides, strict=True)
        parts = [(1, y), *((0, state) for state in last)]
        return [_concat(g, *(_unsqueeze(g, v, axes=[a]) for v in p), axis=a) for a, p in parts]

    return operation


# --- losses, and Graphcore's operations -----------------------------------------------------------


def _l1_loss(g: Ir, x: Value, *, scale: float = 1.0) -> Value:
    return g.op("mul", ir.reduced(g, "sum", g.op("abs", x)), scale)


def _identity_loss(g: Ir, x: Value, *, reduction: Reduction = "Mean") -> Value:
    return ir.mean(g, x) if reduction == "Mean" else ir.reduced(g, "sum", x)


def _nll(
    g: Ir,
    x: Value,
    labels: Value,
    *,
    reduction: Reduction = "Mean",
    ignoreIndex: int | None = None,
    inputIsLogProbability: Switch = False,
) -> Value:
    """Return the negative log likelihood for `x`: probabilities, or log probabilities.

    If `x` is the result of a softmax (or a log softmax), the loss is computed from the softmax's
    input, in FLOAT. Otherwise, as in PopART, probabilities below 1e-7 are replaced by 1e-7, so a
    loss is at most 16.2. In FLOAT16 the bound is 6.104e-5, and a loss is at most 9.71. Log
    probabilities have no bound.
    """
    if labels.dtype is INT:
        g.classes(labels, x.shape[min(len(x.shape) - 1, 1)], ignoreIndex)
        if ignoreIndex is not None:
            masked = g.constant(-1, INT)  # -1 has the bits of MASKED_LABEL_CODE.
            labels = g.op("select", g.op("eq", labels, ignoreIndex), masked, labels)
        labels = g.op("reinterpret", labels, dtype=UNSIGNED_INT)
    scores = input_of(g, x, "log_softmax" if inputIsLogProbability else "softmax")
    if scores is not None:
        return ir.cross_entropy(g, scores, labels, reduction.lower(), ignored=ignoreIndex)
    logarithms = x if inputIsLogProbability else _logarithms(g, x)
    return ir.nll(g, logarithms, labels, reduction.lower(), ignored=ignoreIndex)


def _logarithms(g: Ir, x: Value) -> Value:
    """Return the logarithms of the probabilities `x`, in FLOAT, with PopART's lower bounds.

    Probabilities below `least_probability` are replaced by `least_probability`. The gradient is 1 /
    x, or 1 / `least_divisor` where x is below `least_divisor`.
    """
    least_probability, least_divisor = (6.104e-5, 6.104e-5) if x.dtype is HALF else (1e-7, 1e-10)

    def with_gradient_of(source: Value, value: Value) -> Value:
        """Return a value that has the elements of `value` but the gradient of `source`."""
        difference = g.op("sub", value, source)
        return g.op("add", source, g.op("stop", difference))

    x = g.cast(x, FLOAT)
    divisor = with_gradient_of(x, g.op("max", x, least_divisor))
    return with_gradient_of(g.op("log", divisor), g.op("log", g.op("max", x, least_probability)))


def _print(g: Ir, x: Value, *, title: str = "") -> Value:
    return g.op("print", x, title=title)


# --- tables ---------------------------------------------------------------------------------------

# ONNX's operations that `frontends.ir` also has, with the same name or under another name.
SAME_NAME = "neg abs exp log sqrt relu sigmoid tanh erf softplus sin cos floor ceil sub div"
OTHER_NAME = """identity=copy reciprocal=inv round=nearby_int sign=signum isnan=is_nan
    not=logical_not and=logical_and or=logical_or xor=neq where=select equal=eq less=lt greater=gt
    lessorequal=lteq greaterorequal=gteq"""
ONNX: dict[str, Make] = {
    **{name: _plain(name) for name in SAME_NAME.split()},
    **{name: _plain(kind) for name, kind in re.findall(r"(\w+)=(\w+)", OTHER_NAME)},
    **{name: _folded(name) for name in ("add", "mul", "max", "min")},
    "sum": _folded("add"),
    "mean": lambda g, *x: g.op("mul", _folded("add")(g, *x), 1 / len(x)),
    "pow": _pow,
    "mod": _mod,
    "cast": _cast,
    "clip": _clip,
    "gelu": _gelu,
    "elu": _elu,
    "selu": _selu,
    "softsign": lambda g, x: g.op("div", x, g.op("add", g.op("abs", x), 1.0)),
    "leakyrelu": _leaky_relu,
    "prelu": _prelu,
    "hardsigmoid": _hard_sigmoid,
    "hardswish": lambda g, x: g.op("mul", x, _hard_sigmoid(g, x, alpha=1 / 6)),
    "isinf": _is_inf,
    "softmax": _along("softmax"),
    "logsoftmax": _along("log_softmax"),
    "matmul": _matmul,
    "gemm": _gemm,
    "conv": _conv,
    "convtranspose": _conv_transpose,
    "maxpool": _pool("max_pool"),
    "averagepool": _pool("avg_pool"),
    "globalmaxpool": _global(_reduced("reduce_max")),
    "globalaveragepool": _global(_reduced("mean")),
    "batchnormalization": _batch_norm,
    "instancenormalization": _instance_norm,
    "layernormalization": _layer_norm,
    "groupnormalization": _group_norm,
    "dropout": _dropout,
    "lstm": _recurrent("lstm"),
    "gru": _recurrent("gru"),
    "rnn": _recurrent("rnn"),
    "reshape": _reshape,
    "flatten": _flatten,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "transpose": _transpose,
    "concat": _concat,
    "split": _split,
    "slice": _slice,
    "expand": _expand,
    "tile": _tile,
    "pad": _pad,
    "shape": _shape,
    "size": lambda g, x: np.array(x.size, np.int64),
    "constantofshape": _constant_of_shape,
    "resize": _resize,
    "reducesum": _reduced("sum"),
    "reducemean": _reduced("mean"),
    "reducemax": _reduced("reduce_max"),
    "reducemin": _reduced("reduce_min"),
    "reduceprod": _reduced("reduce_prod"),
    "reducel1": _reduced("sum", "abs"),
    "reducel2": _reduced("sum", "square", _root),
    "reducesumsquare": _reduced("sum", "square"),
    "reducelogsum": _reduced("sum", after=_plain("log")),
    "argmax": _extreme_place("arg_max"),
    "argmin": _extreme_place("arg_min"),
    "topk": _top_k,
    "cumsum": _cumsum,
    "gather": _gather,
    "gatherelements": _gather_elements,
    "gathernd": _gather_nd,
    "scatterelements": _scatter_elements,
    "scatternd": _scatter_nd,
    "onehot": _one_hot,
}
STATIC |= {name: ["axes"] for name in ONNX if name.startswith("reduce")}
GRAPHCORE: dict[str, Make] = {
    "nllloss": _nll,
    "l1loss": _l1_loss,
    "identityloss": _identity_loss,
    "groupnormalization": _group_norm,
    "gelu": _plain("gelu"),
    "printtensor": _print,
}
TABLES = {"": ONNX, "ai.graphcore": GRAPHCORE}  # The keys are ONNX domains.


def operation_of(domain: str, name: str) -> Make:
    """Return the operation `name` of a domain: "" for ONNX, or "ai.graphcore".

    :raises ModelError: if there is no such operation. The error message shows another way to
        compute the operation, or names the most similar operation.
    """
    table = TABLES.get(domain, {})
    if name not in table:
        similar = did_you_mean(name, table) or "write it with other operations: "
        raise misuse(
            f"There is no operation {name!r} in the domain {domain or 'ai.onnx'}.",
            REFUSED.get(name, f"{similar}dir(popart.Builder().aiOnnx) lists them."),
        )
    return table[name]


def parameters_of(make: Make) -> tuple[int, list[str]]:
    """Return the maximum number of tensors of an operation, and the names of its attributes."""
    parameters = [*inspect.signature(make).parameters.values()][1:]
    tensors = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    is_any = any(p.kind is p.VAR_POSITIONAL for p in tensors)
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return (2**31 if is_any else len(tensors)), names
