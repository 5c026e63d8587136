"""The sizes of a convolution: `ConvParams`, and classes of outputs that use the same weights."""

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
    """A class of outputs that use the same weights, in one dimension of a convolution's field.

    There are `count` outputs in the class, with the indices `first`, `first + period`, and so on.
    `taps` contains a pair for each weight that the outputs use: the index of the weight, and the
    index of the input element that it multiplies for the first output. For each further output, the
    index of the input element is larger by `step`.
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

    The input is [batch_size, in_channels, *input_field]. The weights are [num_groups, out_channels
    / num_groups, in_channels / num_groups, *kernel]. The output is [batch_size, out_channels,
    *output_field].

    `dtype`, FLOAT or HALF, is the dtype of the input and the weights. `out_type` is the dtype of
    the output, by default `dtype`. `in_channels` and `out_channels` count the channels of all
    groups together. Each of the following arguments is one value for all dimensions of the field,
    or a list with a value for each dimension:

    * `stride` is the distance in the input between the windows of neighbouring outputs.
    * `padding_lower` and `padding_upper` are the numbers of zeros before and after the field. A
      negative number removes elements instead.
    * `input_dilation` and `kernel_dilation` are distances between elements: with 3, there are 2
      zeros between neighbours. Padding is added afterwards.
    * `flip_input` reverses the padded field, and `flip_kernel` the kernel. Without `flip_kernel`,
      the operation is the cross-correlation, as in torch.

    :raises PoplibsError: if a size is invalid, or if the kernel is larger than the padded field.
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
        checked_values: dict[str, Any] = {
            "out_type": self.dtype if self.out_type is None else self.out_type
        }
        for name, checked_dtype in (("dtype", self.dtype), *checked_values.items()):
            if checked_dtype is not FLOAT and checked_dtype is not HALF:
                raise as_given(checked_dtype, name, "use FLOAT or HALF.")
        for name in ("batch_size", "in_channels", "out_channels", "num_groups"):
            checked_values[name] = _whole(name, getattr(self, name), 1)
        rank = len(self.input_field) if isinstance(self.input_field, (list, tuple)) else 1
        for name in ("input_field", "kernel", "stride", "input_dilation", "kernel_dilation"):
            checked_values[name] = tuple(_whole(name, size, 1) for size in self._each(name, rank))
        for name in ("padding_lower", "padding_upper"):
            checked_values[name] = tuple(_whole(name, size) for size in self._each(name, rank))
        for name in ("flip_input", "flip_kernel"):
            checked_values[name] = self._each(name, rank)
            for flag in checked_values[name]:
                if not isinstance(flag, bool):
                    raise as_given(flag, name, "give True or False.")
        for name, value in checked_values.items():
            object.__setattr__(self, name, value)
        for name in ("in_channels", "out_channels"):
            if checked_values[name] % self.num_groups:
                raise refused(f"""was given {name}={checked_values[name]:,} for
                    num_groups={self.num_groups:,}.
                    next:  give the channels of all groups together, a multiple of num_groups.""")
        for axis, (kernel, field) in enumerate(
            zip(self._dilated_kernel, self._padded, strict=True)
        ):
            if kernel > field:
                raise refused(f"""was given a kernel of {kernel:,} for a field of {field:,}
                    elements in dimension {axis}, counted with dilation and padding.
                    next:  use a smaller kernel, or pad the field.""")

    def _each(self, name: str, rank: int) -> tuple[Any, ...]:
        """Return the argument `name` as a tuple with a value for each dimension of the field.

        :raises PoplibsError: if it is a list of another length than `rank`.
        """
        value = getattr(self, name)
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,) * rank
        if len(values) != rank or not rank:
            raise refused(f"""was given {name}={shown(value)} for a field of {rank} dimensions.
                next:  give a number, or a list with a number for each dimension.""")
        return values

    def _sizes(self, *names: str) -> list[tuple[Any, ...]]:
        """Return a tuple for each field dimension, with the values of the named attributes."""
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
        return [
            (size - 1) * dilation + 1 for size, dilation in self._sizes("kernel", "kernel_dilation")
        ]

    @property
    def output_field(self) -> tuple[int, ...]:
        """The sizes of the output's field."""
        sizes = zip(self._padded, self._dilated_kernel, self._sizes("stride"), strict=True)
        return tuple((field - kernel) // stride + 1 for field, kernel, (stride,) in sizes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input: (batch_size, in_channels, *input_field)."""
        return (
            self.batch_size,
            self.in_channels,
            *(size for (size,) in self._sizes("input_field")),
        )

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The shape of the weights, with the channels of one group.

        It is (num_groups, out_channels / num_groups, in_channels / num_groups, *kernel).
        """
        channels = self.out_channels // self.num_groups, self.in_channels // self.num_groups
        return (self.num_groups, *channels, *(size for (size,) in self._sizes("kernel")))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output: (batch_size, out_channels, *output_field)."""
        return (self.batch_size, self.out_channels, *self.output_field)

    def canonicalize(self) -> ConvParams:
        """Return parameters of the same convolution, without padding and strides that do nothing.

        Padding after the last window is removed. In a dimension with one output, the stride becomes
        1.
        """
        names = "padding_lower", "padding_upper", "flip_input", "stride"
        lower_paddings = []
        upper_paddings = []
        strides = []
        lengths = zip(self.output_field, self._padded, self._dilated_kernel, strict=True)
        dimensions = zip(self._sizes(*names), lengths, strict=True)
        for (lower, upper, is_flipped, step_size), (
            num_outputs,
            padded_size,
            kernel_size,
        ) in dimensions:
            num_unread = padded_size - (num_outputs - 1) * step_size - kernel_size
            lower_paddings.append(lower - num_unread * is_flipped)
            upper_paddings.append(upper - num_unread * (not is_flipped))
            strides.append(step_size if num_outputs > 1 else 1)
        return replace(
            self, padding_lower=lower_paddings, padding_upper=upper_paddings, stride=strides
        )

    def gradient(self) -> ConvParams:
        """Return the parameters of the convolution that computes the gradient of the input.

        That convolution takes the gradient of the output as its input, and the result of
        `weights_transpose_chans_flip_xy` as its weights. In dimensions with `flip_input`, it
        computes the gradient of the flipped input.
        """
        names = "input_field", "input_dilation", "output_field", "stride"
        lower = [
            kernel_size - 1 - zeros_before
            for kernel_size, zeros_before in zip(self._dilated_kernel, self._before, strict=True)
        ]
        upper = [
            (size - 1) * dilation + zeros_before - (num_outputs - 1) * stride
            for (size, dilation, num_outputs, stride), zeros_before in zip(
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
        """The number of padding zeros before the input in each dimension of the field.

        If the input is flipped in a dimension, these are the zeros before the flipped input.
        """
        names = "padding_lower", "padding_upper", "flip_input"
        return [upper if flip else lower for lower, upper, flip in self._sizes(*names)]

    def classes(self) -> list[list[Class]]:
        """Return a list for each dimension of the field: the classes of outputs in this dimension.

        The zeros between the elements of a dilated input need not be multiplied. Therefore an
        output uses only some of the weights, and the outputs that use the same weights form a
        class. In a dimension, a weight belongs to at most one class. Without dilation there is one
        class.
        """
        classes_by_axis = []
        names = "kernel", "kernel_dilation", "flip_kernel", "input_dilation", "stride"
        dimensions = zip(self._sizes(*names), self.output_field, self._before, strict=True)
        for (
            kernel_size,
            kernel_dilation,
            is_flipped,
            dilation,
            stride,
        ), num_outputs, zeros_before in dimensions:
            period = dilation // gcd(dilation, stride)
            classes_of_axis = []
            for first_output in range(min(period, num_outputs)):
                padded_positions = (
                    (tap, first_output * stride + tap * kernel_dilation - zeros_before)
                    for tap in range(kernel_size)
                )
                taps = tuple(
                    (kernel_size - 1 - tap if is_flipped else tap, position // dilation)
                    for tap, position in padded_positions
                    if position % dilation == 0
                )
                num_outputs_of_class = -(-(num_outputs - first_output) // period)
                classes_of_axis.append(
                    Class(
                        first_output,
                        period,
                        num_outputs_of_class,
                        period * stride // dilation,
                        taps,
                    )
                )
            classes_by_axis.append(classes_of_axis)
        return classes_by_axis

    @property
    def macs(self) -> int:
        """The number of multiply-accumulates, each of an input element and a weight.

        Products with the zeros of padding and dilation do not count.
        """
        num_pairs: int = prod(
            sum(
                0 <= first_element + output * residue.step < size
                for residue in classes_of_axis
                for _, first_element in residue.taps
                for output in range(residue.count)
            )
            for classes_of_axis, (size,) in zip(
                self.classes(), self._sizes("input_field"), strict=True
            )
        )
        return (
            self.batch_size * self.out_channels * (self.in_channels // self.num_groups) * num_pairs
        )
