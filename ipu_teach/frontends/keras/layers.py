"""`ipu_teach.keras.layers`: names and weights as in Keras, channels last; each adds its operations
to a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod, sqrt
from typing import Annotated, Any

import numpy as np

from ipu_teach.arguments import (
    Among,
    Between,
    Count,
    Fraction,
    Natural,
    Share,
    advised,
    check_calls,
)
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.ipu import stage_here
from ipu_teach.graph.source import caller
from ipu_teach.types import FLOAT, HALF

Shape = tuple[int, ...]
Size = Annotated[int, Between(1, 2**24)]
Pair = Size | tuple[Size, Size]
ACTIVATIONS = {
    **{name: name for name in ("relu", "sigmoid", "tanh", "gelu", "silu", "exp", "softmax")},
    "log_softmax": "log_softmax",
    "swish": "silu",
    "linear": "",
}
rng = np.random.default_rng()


Activated = Annotated[str, Among(ACTIVATIONS)]
Padding = Annotated[str, Among(("valid", "same"))]
Epsilon = Annotated[float, Between(0)]
POLICIES = {"float32": FLOAT, "mixed_float16": HALF}  # what a layer computes in; its weights: FLOAT
_policy = ["float32"]
Policy = Annotated[str, Among(POLICIES)]


def set_global_policy(name: Policy) -> None:
    """Layers made from now on compute in this: "float32", or "mixed_float16"."""
    _policy[0] = name


def set_random_seed(seed: Natural) -> None:
    """Weights, orders of samples and dropout are drawn from here on."""
    global rng
    rng = np.random.default_rng(seed)


def _uniform(gain: float, both: bool) -> Callable[[Shape], Any]:
    def draw(shape: Shape) -> Any:
        fan_in, fan_out = prod(shape[:-1]), prod((*shape[:-2], shape[-1]))
        limit = sqrt(gain / (fan_in + fan_out if both else fan_in))
        return rng.uniform(-limit, limit, shape)

    return draw


INITIALIZERS: dict[str, Callable[[Shape], Any]] = {
    "glorot_uniform": _uniform(6, True),
    "he_uniform": _uniform(6, False),
    "lecun_uniform": _uniform(3, False),
    "zeros": np.zeros,
    "ones": np.ones,
}
Initializer = Annotated[str, Among(INITIALIZERS)] | Callable[..., Any]


@advised("give what a layer or Input((…)) returns.")
@dataclass(eq=False, frozen=True)
class Node:
    """What a layer makes of other nodes; of `shape` without the batch. The first has no layer."""

    shape: Shape
    layer: Layer | None = None
    parents: tuple[Node, ...] = ()


def Input(shape: Sequence[Size]) -> Node:
    """What a model is fed, without the batch."""
    return Node(tuple(shape))


@advised("give a layer, as Dense(10).")
class Layer:
    """A layer: `call(graph, weights, training, *values)` adds it to a graph, and `build(shape)`
    makes its weights.

    `name` it gets from the model, if not here. `stage`: the IPU. `trainable`: whether it learns.
    `dtype`: what it computes in, "float32" or "mixed_float16"; by default the global policy.
    """

    fixed: tuple[str, ...] = ()  # weights that no optimiser changes

    def __init__(
        self,
        name: str = "",
        input_shape: Sequence[Size] | None = None,
        trainable: bool = True,
        dtype: Policy | None = None,
    ) -> None:
        self.name, self.trainable = name, trainable
        self.dtype = dtype or _policy[0]
        self.input_shape = None if input_shape is None else tuple(input_shape)
        self.stage, self.line = stage_here(), caller()
        self.weights: dict[str, Any] = {}
        self.built = False

    @property
    def kind(self) -> str:
        """Its class as a name: `batch_normalization`."""
        name = type(self).__name__.replace("2D", "2d")
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")

    @property
    def count(self) -> int:
        """How many numbers its weights are."""
        return sum(w.size for w in self.weights.values())

    def add_weight(self, name: str, shape: Sequence[Natural], initializer: Initializer) -> None:
        """A weight, of an initializer's name or function."""
        draw = initializer
        if not callable(draw):
            draw = INITIALIZERS[draw]
        self.weights[name] = np.asarray(draw(tuple(shape)), np.float32)

    def build(self, shape: Shape) -> None:
        """Make the weights, for an input of that shape without the batch."""

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        """Add the operations."""
        raise NotImplementedError

    def add_to(self, graph: Ir, training: bool, *values: Value) -> Value:
        """The layer in a graph, with its weights as variables."""
        path, dtype = self.name or self.kind, POLICIES[self.dtype]
        with graph.at(path=path, stage=self.stage, line=self.line):
            names = {short: f"{path}.{short}" for short in self.weights}
            there = graph.variables
            w = {
                short: there[name] if name in there else graph.variable(self.weights[short], name)
                for short, name in names.items()
            }
            w |= {n: graph.cast(v, dtype) for n, v in w.items() if n not in self.fixed}
            return self.call(graph, w, training, *(graph.cast(v, dtype) for v in values))

    def __call__(self, inputs: Node | Sequence[Node]) -> Node:
        """The node that the layer makes of one, or of several."""
        parents = (inputs,) if isinstance(inputs, Node) else tuple(inputs)
        if not parents:
            raise misuse(f"{self.kind} was called on nothing.", "call it on one Input or several.")
        if not self.built:
            self.build(parents[0].shape)
            self.built = True
        scratch = Ir()  # the operations know what shape comes out
        given = [scratch.input((1, *p.shape), f"x{i}") for i, p in enumerate(parents)]
        return Node(self.add_to(scratch, False, *given).shape[1:], self, parents)


def each(g: Ir, x: Value, make: Callable[[Value], Value]) -> Value:
    """What `make` does to each element, as they lie: a turned tensor is turned again behind it."""
    turn = g.maker().get(x)
    if turn is None or turn.kind != "permute":
        return make(x)
    return g.op("permute", make(turn.inputs[0]), **turn.attrs)


def activate(g: Ir, name: str, x: Value) -> Value:
    """An activation by its name."""
    if "softmax" in name or not ACTIVATIONS[name]:
        return g.op(name, x) if ACTIVATIONS[name] else x
    return each(g, x, lambda v: g.op(ACTIVATIONS[name], v))


class Activation(Layer):
    """An activation by its name."""

    def __init__(self, activation: Activated | None, **more: Any) -> None:
        super().__init__(**more)
        self.activation = activation or "linear"

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        return activate(g, self.activation, x[0])


class _Weighed(Activation):
    """A product with a kernel, a bias, and an activation."""

    def __init__(
        self,
        units: Size,
        activation: Activated | None = None,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **more: Any,
    ) -> None:
        super().__init__(activation, **more)
        self.units, self.use_bias = units, use_bias
        self.initializers = kernel_initializer, bias_initializer

    def _weights(self, kernel: Shape) -> None:
        self.add_weight("kernel", kernel, self.initializers[0])
        if self.use_bias:
            self.add_weight("bias", (self.units,), self.initializers[1])


class Dense(_Weighed):
    """x times a kernel [in, units], plus a bias."""

    def build(self, shape: Shape) -> None:
        self._weights((shape[-1], self.units))

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        y = ir.linear(g, x[0], ir.turned(g, w["kernel"]), w.get("bias"))
        return activate(g, self.activation, y)


def _pair(given: Pair) -> tuple[int, int]:
    """Return a size for rows and one for columns, of both or of one for both."""
    rows, columns = (given, given) if isinstance(given, (int, np.integer)) else given
    return int(rows), int(columns)


def _margins(
    padding: str, x: Value, kernel: Sequence[int], stride: Sequence[int]
) -> dict[str, Any]:
    """Nothing, or what makes as many windows as strides fit: half of it before, the rest behind."""
    both = [
        max((ceil(n / s) - 1) * s + k - n, 0) if padding == "same" else 0
        for n, k, s in zip(x.shape[2:], kernel, stride, strict=True)
    ]
    return {"lower": [b // 2 for b in both], "upper": [b - b // 2 for b in both]}


def _channels_first(g: Ir, x: Value) -> Value:
    rank = len(x.shape)
    return g.op("permute", x, dims=(0, rank - 1, *range(1, rank - 1)))


def _channels_last(g: Ir, x: Value) -> Value:
    return g.op("permute", x, dims=(0, *range(2, len(x.shape)), 1))


class Conv2D(_Weighed):
    """Of [rows, columns, channels], with a kernel [rows, columns, in / groups, filters]."""

    def __init__(
        self,
        filters: Size,
        kernel_size: Pair,
        strides: Pair = 1,
        padding: Padding = "valid",
        dilation_rate: Pair = 1,
        groups: Count = 1,
        activation: Activated | None = None,
        **more: Any,
    ) -> None:
        super().__init__(filters, activation, **more)
        self.kernel_size = _pair(kernel_size)
        self.strides, self.dilation = _pair(strides), _pair(dilation_rate)
        self.padding = padding
        self.groups = groups

    def build(self, shape: Shape) -> None:
        self._weights((*self.kernel_size, shape[-1] // self.groups, self.units))

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        seen, kernel = _channels_first(g, x[0]), g.op("permute", w["kernel"], dims=(3, 2, 0, 1))
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True)]
        margins = _margins(self.padding, seen, reach, self.strides)
        how: Any = {"stride": self.strides, "dilation": self.dilation, "groups": self.groups}
        y = ir.conv(g, seen, kernel, w.get("bias"), **margins, **how)
        return activate(g, self.activation, _channels_last(g, y))


class _Pool(Layer):
    pool = ""

    def __init__(
        self,
        pool_size: Pair = 2,
        strides: Pair | None = None,
        padding: Padding = "valid",
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.pool_size = _pair(pool_size)
        self.strides = self.pool_size if strides is None else _pair(strides)
        self.padding = padding

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        seen = _channels_first(g, x[0])
        margins = _margins(self.padding, seen, self.pool_size, self.strides)
        y = ir.pool(g, self.pool, seen, self.pool_size, self.strides, **margins)
        return _channels_last(g, y)


class MaxPooling2D(_Pool):
    """The largest of each window."""

    pool = "max_pool"


class AveragePooling2D(_Pool):
    """The mean of each window; what lies beyond the edge does not count."""

    pool = "avg_pool"


class Flatten(Layer):
    """All numbers of a sample in one row."""

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        return g.op("reshape", x[0], shape=(x[0].shape[0], -1))


class Dropout(Layer):
    """While training: numbers left out with probability `rate`, the others divided by 1 - rate."""

    def __init__(self, rate: Fraction, **more: Any) -> None:
        super().__init__(**more)
        self.rate = rate

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        return each(g, x[0], lambda v: ir.dropout(g, v, self.rate)) if training else x[0]


class _Norm(Layer):
    def __init__(self, epsilon: Epsilon = 1e-3, **more: Any) -> None:
        super().__init__(**more)
        self.epsilon = epsilon

    def build(self, shape: Shape) -> None:
        self.add_weight("gamma", shape[-1:], "ones")
        self.add_weight("beta", shape[-1:], "zeros")


class BatchNormalization(_Norm):
    """By mean and variance of a batch, in each channel, the last dimension. `momentum`: the part of
    the moving ones that remains; the variance that moves is that of N - 1."""

    fixed = ("moving_mean", "moving_variance")

    def __init__(self, momentum: Share = 0.99, epsilon: Epsilon = 1e-3, **more: Any) -> None:
        super().__init__(epsilon, **more)
        self.momentum = momentum

    def build(self, shape: Shape) -> None:
        super().build(shape)
        self.add_weight("moving_mean", shape[-1:], "zeros")
        self.add_weight("moving_variance", shape[-1:], "ones")

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        seen, (gamma, beta, mean, var) = _channels_first(g, x[0]), w.values()
        how = training and self.trainable, 1 - self.momentum, self.epsilon
        return _channels_last(g, ir.batch_norm(g, seen, gamma, beta, mean, var, *how))


class GroupNormalization(_Norm):
    """By mean and variance of each sample, in groups of channels."""

    def __init__(self, groups: Count = 32, epsilon: Epsilon = 1e-3, **more: Any) -> None:
        super().__init__(epsilon, **more)
        self.groups = groups

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        seen, how = _channels_first(g, x[0]), (self.epsilon, self.groups)
        return _channels_last(g, ir.norm(g, "group", seen, w["gamma"], w["beta"], *how))


class LayerNormalization(_Norm):
    """By mean and variance of each row, the last dimension."""

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        return ir.norm(g, "layer", x[0], w["gamma"], w["beta"], self.epsilon)


class Add(Layer):
    """The sum of several."""

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        total = x[0]
        for other in x[1:]:
            total = g.op("add", total, other)
        return total


class InputLayer(Layer):
    """The first of a Sequential, which says what it is fed."""

    def __init__(self, input_shape: Sequence[Size], **more: Any) -> None:
        super().__init__(input_shape=input_shape, **more)

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        return x[0]


__all__ = [
    "Activation", "Add", "AveragePooling2D", "BatchNormalization", "Conv2D", "Dense", "Dropout",
    "Flatten", "GroupNormalization", "Input", "InputLayer", "Layer", "LayerNormalization",
    "MaxPooling2D",
]  # fmt: skip


check_calls(globals(), misuse, without=("activate", "each"))
