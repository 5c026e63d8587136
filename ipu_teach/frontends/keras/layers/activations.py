"""Activations, and the layers that apply one to each element or row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from ipu_teach.arguments import Among, Between, check_calls
from ipu_teach.errors import shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.layers.base import Layer, LayerOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

Slope = Annotated[float, Between(0)]
ACTIVATIONS = {
    **{name: name for name in ("relu", "sigmoid", "tanh", "gelu", "silu", "exp", "softmax")},
    "log_softmax": "log_softmax",
    "exponential": "exp",
    "swish": "silu",
    "linear": "",
    "softplus": "softplus",
    "leaky_relu": "leaky_relu",
    "relu6": "relu6",
    "elu": "elu",
}
Activated = Annotated[str, Among(ACTIVATIONS)]


def elementwise(g: Ir, x: Value, function: Callable[[Value], Value]) -> Value:
    """Return `function(x)`, where `function` acts on each element separately.

    If `x` is a permutation of a tensor, apply the function to this tensor and permute the result.
    The function then reads the elements in their order in memory.
    """
    producer = g.maker().get(x)
    if producer is None or producer.kind != "permute":
        return function(x)
    return g.op("permute", function(producer.inputs[0]), **producer.attrs)


def leaky(g: Ir, x: Value, slope: float) -> Value:
    """Return x where it is above 0, and `slope` * x elsewhere. The gradient at 0 is `slope`."""
    return g.op("select", g.op("gt", x, 0.0), x, g.op("mul", x, slope))


def at_most(g: Ir, x: Value, limit: float) -> Value:
    """Return the minimum of x and `limit`. The gradient is 0 unless x is below `limit`."""
    # NaN is not below the limit, and stays NaN.
    passes = g.op("logical_not", g.op("gteq", x, limit))
    return g.op("select", passes, x, g.constant(limit, x.dtype))


def _elu(g: Ir, x: Value) -> Value:
    """Return x where it is above 0, and exp(x) - 1 elsewhere."""
    negative = g.op("expm1", g.op("min", x, 0.0))
    return g.op("select", g.op("gt", x, 0.0), x, negative)


COMPOSED: dict[str, Callable[[Ir, Value], Value]] = {
    "leaky_relu": lambda g, x: leaky(g, x, 0.2),
    "relu6": lambda g, x: at_most(g, g.op("relu", x), 6.0),
    "elu": _elu,
}


def activate(g: Ir, name: str, x: Value) -> Value:
    """Return the result of the activation `name` for `x`."""
    operation = ACTIVATIONS[name]
    if "softmax" in name:
        return g.op(name, x)
    if operation in COMPOSED:
        return elementwise(g, x, lambda v: COMPOSED[operation](g, v))
    return elementwise(g, x, lambda v: g.op(operation, v)) if operation else x


class Activation(Layer):
    """A layer that applies an activation, such as "relu" or "softmax"."""

    def __init__(self, activation: Activated | None, **layer_options: Unpack[LayerOptions]) -> None:
        super().__init__(**layer_options)
        self.activation = activation or "linear"

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        return activate(g, self.activation, x)


class ReLU(Layer):
    """A layer that returns `negative_slope` * x for negative x, else x, but at most `max_value`."""

    def __init__(
        self,
        max_value: Slope | None = None,
        negative_slope: Slope = 0.0,
        threshold: float = 0.0,
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**layer_options)
        if threshold != 0:
            raise misuse(
                f"ReLU() was given threshold={shown(threshold)}, but the device has only 0.",
                "leave out threshold, and subtract its value from the input with a bias.",
            )
        self.max_value = max_value
        self.negative_slope = float(negative_slope)

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        slope, limit = self.negative_slope, self.max_value

        def function(v: Value) -> Value:
            y = leaky(g, v, slope) if slope else g.op("relu", v)
            return y if limit is None else at_most(g, y, float(limit))

        return elementwise(g, x, function)


class LeakyReLU(Layer):
    """A layer that returns x where it is above 0, and `negative_slope` * x elsewhere."""

    def __init__(self, negative_slope: Slope = 0.3, **layer_options: Unpack[LayerOptions]) -> None:
        super().__init__(**layer_options)
        self.negative_slope = float(negative_slope)

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        return elementwise(g, x, lambda v: leaky(g, v, self.negative_slope))


class Softmax(Layer):
    """A layer that applies a softmax along the dimension `axis`; dimension 0 is the batch."""

    def __init__(self, axis: int = -1, **layer_options: Unpack[LayerOptions]) -> None:
        super().__init__(**layer_options)
        self.axis = axis

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        return ir.along(g, "softmax", x, self.axis)


check_calls(globals(), misuse, without=("activate", "at_most", "elementwise", "leaky"))
