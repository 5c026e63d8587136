"""Layers with several inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu_teach.arguments import check_calls
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.layers.base import Layer, LayerOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Merge(Layer):
    """The base class of layers that combine their inputs with an operation of two operands."""

    operation = ""

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, *x: Value) -> Value:
        result = x[0]
        for operand in x[1:]:
            result = g.op(self.operation, result, operand)
        return result


class Add(_Merge):
    """A layer that returns the sum of its inputs."""

    operation = "add"


class Multiply(_Merge):
    """A layer that returns the product of its inputs."""

    operation = "mul"


class Maximum(_Merge):
    """A layer that returns the maximum of its inputs."""

    operation = "max"


class Minimum(_Merge):
    """A layer that returns the minimum of its inputs."""

    operation = "min"


class Subtract(_Merge):
    """A layer that returns the difference of its two inputs."""

    operation = "sub"

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, *x: Value) -> Value:
        if len(x) != 2:
            raise misuse(
                f"Subtract() was called on {len(x)} inputs.", "call it on a list of two inputs."
            )
        return super().lower(g, w, training, *x)


class Average(_Merge):
    """A layer that returns the mean of its inputs."""

    operation = "add"

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, *x: Value) -> Value:
        return g.op("div", super().lower(g, w, training, *x), float(len(x)))


class Concatenate(Layer):
    """A layer that concatenates its inputs along `axis`; dimension 0 is the batch."""

    def __init__(self, axis: int = -1, **layer_options: Unpack[LayerOptions]) -> None:
        super().__init__(**layer_options)
        self.axis = axis

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, *x: Value) -> Value:
        rank = len(x[0].shape)
        if not -rank <= self.axis < rank or not self.axis % rank:
            raise misuse(
                f"Concatenate(axis={self.axis}) was called on tensors of {rank} dimensions, "
                "the first of which is the batch.",
                f"use an axis from 1 to {rank - 1}, or from {1 - rank} to -1.",
            )
        return g.op("concat", *x, dim=self.axis) if len(x) > 1 else x[0]


check_calls(globals(), misuse)
