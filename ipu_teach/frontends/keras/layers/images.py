"""Layers of images [rows, columns, channels] and sequences [steps, channels]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np

from ipu_teach.arguments import Among, Count, check_calls
from ipu_teach.errors import shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.dimensions import move_dimension, same_padding
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.layers.activations import Activated, activate
from ipu_teach.frontends.keras.layers.base import Layer, LayerOptions, Shape, Size
from ipu_teach.frontends.keras.layers.core import Weighed
from ipu_teach.frontends.keras.layers.initializers import Initializer

if TYPE_CHECKING:
    from typing_extensions import Unpack

Sizes = Size | Sequence[Size]
Padding = Annotated[str, Among(("valid", "same"))]
Causal = Annotated[str, Among(("valid", "same", "causal"))]
ChannelsLast = Annotated[str, Among(("channels_last",))]


def _sizes(layer: Layer, name: str, size: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return a tuple with a size for each of `rank` dimensions.

    A single number is used for all dimensions. The error names the argument `name`.

    :raises ModelError: if the number of sizes is not `rank`.
    """
    sizes = (size,) * rank if isinstance(size, (int, np.integer)) else tuple(size)
    if len(sizes) != rank:
        raise misuse(
            f"{type(layer).__name__}() was given {name}={shown(size)}.",
            f"give one number, or a tuple of {rank} numbers.",
        )
    return tuple(map(int, sizes))


def margins(
    padding: str, x: Value, kernel: Sequence[int], stride: Sequence[int]
) -> dict[str, list[int]]:
    """Return a dict with the padding of images: "lower" and "upper", each a list.

    For images, "lower" is [top, left] and "upper" is [bottom, right]. `x` is [batch, channels,
    *field]. The padding is 0 for "valid". For "same", the number of windows in each dimension is
    the length divided by the stride, rounded up. If the number of padding elements is odd, "upper"
    gets one more than "lower". For "causal", the window of an element ends with this element.
    """
    if padding == "causal":
        return {"lower": [k - 1 for k in kernel], "upper": [0] * len(kernel)}
    totals = [0] * len(kernel)
    if padding == "same":
        sizes = zip(x.shape[2:], kernel, stride, strict=True)
        totals = [same_padding(*size) for size in sizes]
    return {"lower": [n // 2 for n in totals], "upper": [n - n // 2 for n in totals]}


def channels_first(g: Ir, x: Value) -> Value:
    """Return [batch, *field, channels] as [batch, channels, *field]."""
    return move_dimension(g, x, -1, 1)


def channels_last(g: Ir, x: Value) -> Value:
    """Return [batch, channels, *field] as [batch, *field, channels]."""
    return move_dimension(g, x, 1, -1)


def _check_rank(layer: Layer, shape: Shape, rank: int) -> None:
    """Raise `ModelError` unless samples have `rank` dimensions and a channel dimension."""
    if len(shape) != rank + 1:
        expected = "[rows, columns, channels]" if rank == 2 else "[steps, channels]"
        raise misuse(
            f"{type(layer).__name__}() was called on samples of shape {list(shape)}, but it "
            f"needs {expected}.",
            f"call it on samples {expected}, for example after a Reshape layer.",
        )


class _Conv(Weighed):
    """The base class of convolutions. The kernel is [*size, channels / groups, filters]."""

    rank = 2

    def __init__(
        self,
        filters: Size,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: Causal = "valid",
        data_format: ChannelsLast | None = None,
        dilation_rate: Sizes = 1,
        groups: Count = 1,
        activation: Activated | None = None,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            filters, activation, use_bias, kernel_initializer, bias_initializer, **layer_options
        )
        self.kernel_size = _sizes(self, "kernel_size", kernel_size, self.rank)
        self.strides = _sizes(self, "strides", strides, self.rank)
        self.dilation = _sizes(self, "dilation_rate", dilation_rate, self.rank)
        self.padding = padding
        self.groups = groups
        name = type(self).__name__
        if padding == "causal" and self.rank > 1:
            raise misuse(f"{name}() was given padding='causal'.", "give 'valid' or 'same'.")
        if filters % groups:
            raise misuse(
                f"{name}() was given {filters} filters and {groups} groups.",
                "use a number of filters that is a multiple of groups.",
            )
        if max(self.strides) > 1 and max(self.dilation) > 1:
            raise misuse(
                f"{name}() was given both strides and dilation_rate above 1.",
                "leave out strides or dilation_rate.",
            )

    def create(self, shape: Shape) -> None:
        _check_rank(self, shape, self.rank)
        if shape[-1] % self.groups:
            raise misuse(
                f"{type(self).__name__}() has {self.groups} groups, but its input has {shape[-1]} "
                "channels.",
                "use a number of groups that divides the channels.",
            )
        self.add_weights((*self.kernel_size, shape[-1] // self.groups, self.units))

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        image = channels_first(g, x)
        kernel = g.op("permute", w["kernel"], dims=(self.rank + 1, self.rank, *range(self.rank)))
        spans = [(k - 1) * d + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True)]
        y = ir.conv(
            g,
            image,
            kernel,
            w.get("bias"),
            stride=self.strides,
            dilation=self.dilation,
            groups=self.groups,
            **margins(self.padding, image, spans, self.strides),
        )
        return activate(g, self.activation, channels_last(g, y))


class Conv2D(_Conv):
    """A layer that computes the convolution of images [rows, columns, channels].

    The kernel is [rows, columns, channels / groups, filters].
    """


class Conv1D(_Conv):
    """A layer that computes the convolution of sequences [steps, channels].

    The kernel is [size, channels / groups, filters]. With the padding "causal", an element of the
    result depends only on the elements up to its own step.
    """

    rank = 1


class _Pool(Layer):
    """The base class of layers that pool each channel separately.

    `pool` is the kind of the operation in `frontends.ir`, such as "max_pool".
    """

    pool = ""
    rank = 2

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: Padding = "valid",
        data_format: ChannelsLast | None = None,
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**layer_options)
        self.pool_size = _sizes(self, "pool_size", pool_size, self.rank)
        self.strides = (
            self.pool_size if strides is None else _sizes(self, "strides", strides, self.rank)
        )
        self.padding = padding

    def create(self, shape: Shape) -> None:
        _check_rank(self, shape, self.rank)

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        image = channels_first(g, x)
        edges = margins(self.padding, image, self.pool_size, self.strides)
        y = ir.pool(
            g,
            self.pool,
            image,
            kernel=self.pool_size,
            stride=self.strides,
            lower=edges["lower"],
            upper=edges["upper"],
        )
        return channels_last(g, y)


class MaxPooling2D(_Pool):
    """A layer that returns the maximum of each window of an image."""

    pool = "max_pool"


class AveragePooling2D(_Pool):
    """A layer that returns the mean of each window of an image, without padding elements."""

    pool = "avg_pool"


class MaxPooling1D(_Pool):
    """A layer that returns the maximum of each window of a sequence."""

    pool = "max_pool"
    rank = 1


class AveragePooling1D(_Pool):
    """A layer that returns the mean of each window of a sequence, without padding elements."""

    pool = "avg_pool"
    rank = 1


class _GlobalPool(Layer):
    """The base class of layers that reduce all positions of each channel to one number."""

    rank = 2

    def __init__(
        self,
        data_format: ChannelsLast | None = None,
        keepdims: bool = False,
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**layer_options)
        self.keepdims = keepdims

    def create(self, shape: Shape) -> None:
        _check_rank(self, shape, self.rank)


class GlobalAveragePooling2D(_GlobalPool):
    """A layer that returns the mean of each channel of an image."""

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        return ir.mean(g, x, [*range(1, 1 + self.rank)], keep=self.keepdims)


class GlobalAveragePooling1D(GlobalAveragePooling2D):
    """A layer that returns the mean of each channel of a sequence."""

    rank = 1


class GlobalMaxPooling2D(_GlobalPool):
    """A layer that returns the maximum of each channel of an image."""

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        return ir.reduced(g, "reduce_max", x, [*range(1, 1 + self.rank)], keep=self.keepdims)


class GlobalMaxPooling1D(GlobalMaxPooling2D):
    """A layer that returns the maximum of each channel of a sequence."""

    rank = 1


check_calls(globals(), misuse, without=("channels_first", "channels_last", "margins"))
