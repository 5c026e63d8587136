"""The sizes of a convolution: `ConvParams`, its operations, and its classes of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from math import gcd, prod
from typing import Any

from ipu_teach.errors import shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.library import advised, as_given, library, refused
from ipu_teach.types import FLOAT, HALF, DType

__all__ = ["ConvParams"]

Ints = int | Sequence[int]
Flags = bool | Sequence[bool]


def _whole(name: str, value: object, minimum: int | None = None) -> int:
    if not is_whole(value) or (minimum is not None and value < minimum):
        limit_text = "" if minimum is None else f" of {minimum} or more"
        raise as_given(value, name, f"give a whole number{limit_text}.")
    return int(value)


@dataclass(frozen=True)
class Class:
    """A class of outputs in one dimension that use the same weights.

    They are `count` outputs: `first`, `first + period`, … `taps` contains (index of the weight,
    element of the input for the first output). Each further output uses the element that is `step`
    further on.
    """

    first: int
    period: int
    count: int
    step: int
    taps: tuple[tuple[int, int], ...]


@advised("give a poplin.ConvParams.")
@dataclass(frozen=True)
class ConvParams:
    """The sizes of a convolution, in any number of field dimensions.

    An input [batch_size, in_channels, *input_field] and weights [num_groups, out_channels /
    num_groups, in_channels / num_groups, *kernel] give an output [batch_size, out_channels,
    *output_field].

    `dtype` of input and weights is FLOAT or HALF; `out_type` is that of the output, by default the
    same. The channels are those of all groups together. The following arguments are one number for
    all dimensions, or a list with one for each:

    * `stride` is the distance between outputs.
    * `padding_lower` and `padding_upper` are the zeros before and behind the field, or, if
      negative, the number of its elements that are removed.
    * `input_dilation` and `kernel_dilation` insert that number less one of zeros between
      neighbours, before any padding.
    * `flip_input` reverses the padded field, and `flip_kernel` the kernel. Without it a convolution
      is torch's, the cross-correlation.

    Raises `PoplibsError`.
    """

    dtype: type[DType]
    batch_size: int
    input_field: Ints
    kernel: Ints
    in_channels: int
    out_channels: int
    num_groups: int = 1
    _: KW_ONLY
    stride: Ints = 1
    padding_lower: Ints = 0
    padding_upper: Ints = 0
    input_dilation: Ints = 1
    kernel_dilation: Ints = 1
    flip_input: Flags = False
    flip_kernel: Flags = False
    out_type: type[DType] | None = None

    @library
    def __post_init__(self) -> None:
        settled: dict[str, Any] = {
            "out_type": self.dtype if self.out_type is None else self.out_type
        }
        for name, kind in (("dtype", self.dtype), *settled.items()):
            if kind is not FLOAT and kind is not HALF:
                raise as_given(kind, name, "use FLOAT or HALF.")
        for name in ("batch_size", "in_channels", "out_channels", "num_groups"):
            settled[name] = _whole(name, getattr(self, name), 1)
        rank = len(self.input_field) if isinstance(self.input_field, (list, tuple)) else 1
        for name in ("input_field", "kernel", "stride", "input_dilation", "kernel_dilation"):
            settled[name] = tuple(_whole(name, n, 1) for n in self._each(name, rank))
        for name in ("padding_lower", "padding_upper"):
            settled[name] = tuple(_whole(name, n) for n in self._each(name, rank))
        for name in ("flip_input", "flip_kernel"):
            settled[name] = self._each(name, rank)
            for flag in settled[name]:
                if not isinstance(flag, bool):
                    raise as_given(flag, name, "give True or False.")
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        for name in ("in_channels", "out_channels"):
            if settled[name] % self.num_groups:
                raise refused(f"""was given {name}={settled[name]:,} for
                    num_groups={self.num_groups:,}.
                    next:  give the channels of all groups together, a multiple of num_groups.""")
        for axis, sizes in enumerate(zip(self._dilated_kernel, self._padded, strict=True)):
            if sizes[0] > sizes[1]:
                raise refused(f"""was given a kernel of {sizes[0]:,} for a field of {sizes[1]:,}
                    elements in dimension {axis}, counted with dilation and padding.
                    next:  use a smaller kernel, or pad the field.""")

    def _each(self, name: str, rank: int) -> tuple[Any, ...]:
        """Return an attribute as a tuple with a value for each dimension of the field."""
        value = getattr(self, name)
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,) * rank
        if len(values) != rank or not rank:
            raise refused(f"""was given {name}={shown(value)} for a field of {rank} dimensions.
                next:  give a number, or one for each dimension.""")
        return values

    def _sizes(self, *names: str) -> list[tuple[Any, ...]]:
        """Return the values of these attributes for each dimension."""
        return list(zip(*(getattr(self, name) for name in names), strict=True))

    @property
    def _padded(self) -> list[int]:
        names = "input_field", "input_dilation", "padding_lower", "padding_upper"
        return [
            (size - 1) * dilation + 1 + lower + upper
            for size, dilation, lower, upper in self._sizes(*names)
        ]

    @property
    def _dilated_kernel(self) -> list[int]:
        return [(n - 1) * dilation + 1 for n, dilation in self._sizes("kernel", "kernel_dilation")]

    @property
    def output_field(self) -> tuple[int, ...]:
        """The sizes of the output's field."""
        sizes = zip(self._padded, self._dilated_kernel, self._sizes("stride"), strict=True)
        return tuple((field - kernel) // stride + 1 for field, kernel, (stride,) in sizes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input: (batch_size, in_channels, *input_field)."""
        return (self.batch_size, self.in_channels, *(n for (n,) in self._sizes("input_field")))

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The shape of the weights, with the channels of one group.

        It is (num_groups, out_channels / num_groups, in_channels / num_groups, *kernel).
        """
        channels = self.out_channels // self.num_groups, self.in_channels // self.num_groups
        return (self.num_groups, *channels, *(n for (n,) in self._sizes("kernel")))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output: (batch_size, out_channels, *output_field)."""
        return (self.batch_size, self.out_channels, *self.output_field)

    def canonicalize(self) -> ConvParams:
        """Return the same convolution without parameters that have no effect.

        They are padding behind the last window, and the stride of a single output.
        """
        names = "padding_lower", "padding_upper", "flip_input", "stride"
        lower = []
        upper = []
        stride = []
        lengths = zip(self.output_field, self._padded, self._dilated_kernel, strict=True)
        both = zip(self._sizes(*names), lengths, strict=True)
        for (first, last, flip, step), (size, field, kernel) in both:
            unread = field - (size - 1) * step - kernel
            lower.append(first - unread * flip)
            upper.append(last - unread * (not flip))
            stride.append(step if size > 1 else 1)
        return replace(self, padding_lower=lower, padding_upper=upper, stride=stride)

    def gradient(self) -> ConvParams:
        """Return the convolution that computes the gradient of the input.

        Its input is the gradient of the output, and its weights are those of
        `weights_transpose_chans_flip_xy`. Where the input is flipped, its result is the gradient of
        the flipped input.
        """
        names = "input_field", "input_dilation", "output_field", "stride"
        lower = [n - 1 - first for n, first in zip(self._dilated_kernel, self._before, strict=True)]
        upper = [
            (size - 1) * dilation + first - (out - 1) * stride
            for (size, dilation, out, stride), first in zip(
                self._sizes(*names), self._before, strict=True
            )
        ]
        return ConvParams(
            self.dtype,
            self.batch_size,
            self.output_field,
            self.kernel,
            self.out_channels,
            self.in_channels,
            self.num_groups,
            stride=self.input_dilation,
            padding_lower=lower,
            padding_upper=upper,
            input_dilation=self.stride,
            kernel_dilation=self.kernel_dilation,
            flip_kernel=self.flip_kernel,
        )

    @property
    def _before(self) -> list[int]:
        """The zeros before each dimension of the input, after it is flipped."""
        names = "padding_lower", "padding_upper", "flip_input"
        return [upper if flip else lower for lower, upper, flip in self._sizes(*names)]

    def classes(self) -> list[list[Class]]:
        """Return the classes of outputs for each dimension.

        Every weight is in at most one class of a dimension. Between the elements of a dilated input
        are zeros, which need not be multiplied: outputs use only some of the weights, the same ones
        again after a period. Without dilation there is one class.
        """
        classes_by_axis = []
        names = "kernel", "kernel_dilation", "flip_kernel", "input_dilation", "stride"
        outs = zip(self._sizes(*names), self.output_field, self._before, strict=True)
        for (kernel, spread, turned, dilation, stride), outputs, lower in outs:
            period = dilation // gcd(dilation, stride)
            classes_of_axis = []
            for first in range(min(period, outputs)):
                places = ((t, first * stride + t * spread - lower) for t in range(kernel))
                taps = tuple(
                    (kernel - 1 - t if turned else t, place // dilation)
                    for t, place in places
                    if place % dilation == 0
                )
                count = -(-(outputs - first) // period)
                classes_of_axis.append(
                    Class(first, period, count, period * stride // dilation, taps)
                )
            classes_by_axis.append(classes_of_axis)
        return classes_by_axis

    @property
    def macs(self) -> int:
        """The number of products of an element of the input and a weight.

        Products with padding, or with the zeros of dilation, do not count.
        """
        pairs: int = prod(
            sum(
                0 <= start + i * residue.step < size
                for residue in classes_of_axis
                for _, start in residue.taps
                for i in range(residue.count)
            )
            for classes_of_axis, (size,) in zip(
                self.classes(), self._sizes("input_field"), strict=True
            )
        )
        return self.batch_size * self.out_channels * (self.in_channels // self.num_groups) * pairs
