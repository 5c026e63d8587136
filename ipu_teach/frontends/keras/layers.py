"""Keras layers, with the names and weights of Keras. Images are [rows, columns, channels].

Each layer adds its operations to a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, prod, sqrt
from typing import TYPE_CHECKING, Annotated, TypedDict

import numpy as np
from numpy.typing import ArrayLike

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
from ipu_teach.frontends.keras.ipu import current_stage
from ipu_teach.graph.source import caller
from ipu_teach.types import FLOAT, HALF, Array

if TYPE_CHECKING:
    from typing_extensions import Unpack

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
# The dtype in which layers compute, by the name of the policy.
POLICIES = {"float32": FLOAT, "mixed_float16": HALF}
_policy = ["float32"]
Policy = Annotated[str, Among(POLICIES)]


def set_global_policy(name: Policy) -> None:
    """Set the dtype in which layers that are created from now on compute.

    The policy "float32" means FLOAT, and "mixed_float16" means HALF. Weights are FLOAT in both
    cases.
    """
    _policy[0] = name


def set_random_seed(seed: Natural) -> None:
    """Set the seed of the random numbers for initial weights and for the order of samples."""
    global rng
    rng = np.random.default_rng(seed)


def _uniform(gain: float, with_outputs: bool) -> Callable[[Shape], Array]:
    """Return an initialiser that draws uniform random numbers from -limit to limit.

    limit is sqrt(gain / n), where n is the number of inputs of a unit. If `with_outputs`, n also
    includes the number of outputs.
    """

    def sample(shape: Shape) -> Array:
        fan_in = prod(shape[:-1])
        fan_out = prod((*shape[:-2], shape[-1]))
        limit = sqrt(gain / (fan_in + fan_out if with_outputs else fan_in))
        return rng.uniform(-limit, limit, shape)

    return sample


INITIALIZERS: dict[str, Callable[[Shape], Array]] = {
    "glorot_uniform": _uniform(6, True),
    "he_uniform": _uniform(6, False),
    "lecun_uniform": _uniform(3, False),
    "zeros": np.zeros,
    "ones": np.ones,
}
Initializer = Annotated[str, Among(INITIALIZERS)] | Callable[[Shape], ArrayLike]


@advised("give the result of a layer, or of Input((64,)).")
@dataclass(eq=False, frozen=True)
class Node:
    """The result of a layer that was called on `parents`, the results of other layers.

    The input of a model is a node without a layer. `shape` does not include the batch dimension.
    """

    shape: Shape
    layer: Layer | None = None
    parents: tuple[Node, ...] = ()


def Input(shape: Sequence[Size]) -> Node:
    """Return the input of a model. `shape` is the shape of one sample, without the batch."""
    return Node(tuple(shape))


class CommonOptions(TypedDict, total=False):
    """The arguments that all layers accept."""

    name: str
    trainable: bool
    dtype: str | None


class LayerOptions(CommonOptions, total=False):
    """The arguments of most layers: `input_shape`, and the arguments that all layers accept."""

    input_shape: Sequence[int] | None


@advised("give a layer, such as Dense(10).")
class Layer:
    """A layer: `build(shape)` creates its weights, and `call` adds its operations to a graph.

    - `name`: the name of the layer. If it is "", the model names the layer.
    - `trainable`: whether the optimiser changes the weights.
    - `dtype`: the policy, which is "float32" or "mixed_float16". The layer computes in FLOAT or
      HALF. The default is the global policy.
    - `stage`: the number of the IPU that the layer runs on.
    """

    fixed: tuple[str, ...] = ()  # weights that the optimiser does not change and that stay FLOAT

    def __init__(
        self,
        name: str = "",
        input_shape: Sequence[Size] | None = None,
        trainable: bool = True,
        dtype: Policy | None = None,
    ) -> None:
        self.name = name
        self.trainable = trainable
        self.dtype = dtype or _policy[0]
        self.input_shape = None if input_shape is None else tuple(input_shape)
        self.stage = current_stage()
        self.line = caller()
        self.weights: dict[str, Array] = {}
        self.built = False

    @property
    def kind(self) -> str:
        """The name of the class in snake case, such as "batch_normalization"."""
        name = type(self).__name__.replace("2D", "2d")
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")

    @property
    def count(self) -> int:
        """The number of elements of all weights together."""
        return sum(w.size for w in self.weights.values())

    def add_weight(self, name: str, shape: Sequence[Natural], initializer: Initializer) -> None:
        """Add a weight with the shape `shape`, whose elements the initialiser returns.

        The initialiser is a name in `INITIALIZERS`, or a function that takes the shape.
        """
        sample = initializer
        if not callable(sample):
            sample = INITIALIZERS[sample]
        self.weights[name] = np.asarray(sample(tuple(shape)), np.float32)

    def build(self, shape: Shape) -> None:
        """Create the weights for inputs of the shape `shape`, which does not include the batch."""

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        """Add the layer's operations on the inputs `x` to the graph `g`, and return the result.

        `w` contains the weights by name, in the dtype of the inputs. The weights in `fixed` are
        FLOAT.
        """
        raise NotImplementedError

    def add_to(self, graph: Ir, training: bool, *values: Value) -> Value:
        """Add the layer to a graph, with its weights as variables, and return its result.

        The inputs and weights are first cast to the dtype in which the layer computes.
        """
        path = self.name or self.kind
        dtype = POLICIES[self.dtype]
        with graph.at(path=path, stage=self.stage, line=self.line):
            weights = {}
            for weight_name, array in self.weights.items():
                variable_name = f"{path}.{weight_name}"
                variable = graph.variables.get(variable_name)
                weights[weight_name] = (
                    graph.variable(array, variable_name) if variable is None else variable
                )
            weights |= {n: graph.cast(v, dtype) for n, v in weights.items() if n not in self.fixed}
            return self.call(graph, weights, training, *(graph.cast(v, dtype) for v in values))

    def __call__(self, inputs: Node | Sequence[Node]) -> Node:
        """Return the node of the layer's result for one input node or several.

        :raises ModelError: if there is no input, or if the inputs do not fit the layer.
        """
        parents = (inputs,) if isinstance(inputs, Node) else tuple(inputs)
        if not parents:
            raise misuse(
                f"The layer {self.kind} was called on an empty list.",
                "call it on the result of a layer or of Input((64,)), or on a list of these.",
            )
        if not self.built:
            self.build(parents[0].shape)
            self.built = True
        shape_graph = Ir()  # a temporary graph, which only computes the shape of the result
        graph_inputs = [shape_graph.input((1, *p.shape), f"x{i}") for i, p in enumerate(parents)]
        return Node(self.add_to(shape_graph, False, *graph_inputs).shape[1:], self, parents)


def elementwise(g: Ir, x: Value, function: Callable[[Value], Value]) -> Value:
    """Return `function(x)`, where `function` acts on each element separately.

    If `x` is a permutation of a tensor, apply the function to this tensor and permute the result.
    The function then reads the elements in their order in memory.
    """
    producer = g.maker().get(x)
    if producer is None or producer.kind != "permute":
        return function(x)
    return g.op("permute", function(producer.inputs[0]), **producer.attrs)


def activate(g: Ir, name: str, x: Value) -> Value:
    """Return the result of the activation `name` for `x`."""
    operation = ACTIVATIONS[name]
    if "softmax" in name:
        return g.op(name, x)
    return elementwise(g, x, lambda v: g.op(operation, v)) if operation else x


class Activation(Layer):
    """A layer that applies an activation, such as "relu" or "softmax"."""

    def __init__(self, activation: Activated | None, **layer_options: Unpack[LayerOptions]) -> None:
        super().__init__(**layer_options)
        self.activation = activation or "linear"

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        return activate(g, self.activation, x[0])


class _Weighed(Activation):
    """The base class of layers with a kernel, a bias and an activation."""

    def __init__(
        self,
        units: Size,
        activation: Activated | None = None,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(activation, **layer_options)
        self.units = units
        self.use_bias = use_bias
        self.initializers = kernel_initializer, bias_initializer

    def _weights(self, kernel: Shape) -> None:
        """Add a kernel of the shape `kernel` and, if the layer uses one, a bias."""
        self.add_weight("kernel", kernel, self.initializers[0])
        if self.use_bias:
            self.add_weight("bias", (self.units,), self.initializers[1])


class Dense(_Weighed):
    """A layer that multiplies its input by a kernel [in, units], and adds a bias."""

    def build(self, shape: Shape) -> None:
        self._weights((shape[-1], self.units))

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        y = ir.linear(g, x[0], ir.turned(g, w["kernel"]), w.get("bias"))
        return activate(g, self.activation, y)


def _pair(size: Pair) -> tuple[int, int]:
    """Return `(rows, columns)`. A single number is used for both."""
    rows, columns = (size, size) if isinstance(size, (int, np.integer)) else size
    return int(rows), int(columns)


def _margins(
    padding: str, x: Value, kernel: Sequence[int], stride: Sequence[int]
) -> dict[str, list[int]]:
    """Return the padding of images: "lower" is [top, left], and "upper" is [bottom, right].

    `x` is [batch, channels, rows, columns]. The padding is 0 for "valid". For "same", the number of
    windows in each dimension is the length divided by the stride, rounded up. If the number of
    padding elements is odd, "upper" gets one more than "lower".
    """
    totals = [0] * len(kernel)
    if padding == "same":
        sizes = zip(x.shape[2:], kernel, stride, strict=True)
        totals = [max((ceil(n / s) - 1) * s + k - n, 0) for n, k, s in sizes]
    return {"lower": [n // 2 for n in totals], "upper": [n - n // 2 for n in totals]}


def _channels_first(g: Ir, x: Value) -> Value:
    """Return [batch, rows, columns, channels] as [batch, channels, rows, columns]."""
    rank = len(x.shape)
    return g.op("permute", x, dims=(0, rank - 1, *range(1, rank - 1)))


def _channels_last(g: Ir, x: Value) -> Value:
    """Return [batch, channels, rows, columns] as [batch, rows, columns, channels]."""
    return g.op("permute", x, dims=(0, *range(2, len(x.shape)), 1))


class Conv2D(_Weighed):
    """A layer that computes the convolution of images [rows, columns, channels].

    The kernel is [rows, columns, channels / groups, filters].
    """

    def __init__(
        self,
        filters: Size,
        kernel_size: Pair,
        strides: Pair = 1,
        padding: Padding = "valid",
        dilation_rate: Pair = 1,
        groups: Count = 1,
        activation: Activated | None = None,
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(filters, activation, **layer_options)
        self.kernel_size = _pair(kernel_size)
        self.strides = _pair(strides)
        self.dilation = _pair(dilation_rate)
        self.padding = padding
        self.groups = groups

    def build(self, shape: Shape) -> None:
        self._weights((*self.kernel_size, shape[-1] // self.groups, self.units))

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        image = _channels_first(g, x[0])
        kernel = g.op("permute", w["kernel"], dims=(3, 2, 0, 1))
        spans = [(k - 1) * d + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True)]
        y = ir.conv(
            g,
            image,
            kernel,
            w.get("bias"),
            stride=self.strides,
            dilation=self.dilation,
            groups=self.groups,
            **_margins(self.padding, image, spans, self.strides),
        )
        return activate(g, self.activation, _channels_last(g, y))


class _Pool(Layer):
    """The base class of layers that pool each channel separately.

    `pool` is the kind of the operation in `frontends.ir`, such as "max_pool".
    """

    pool = ""

    def __init__(
        self,
        pool_size: Pair = 2,
        strides: Pair | None = None,
        padding: Padding = "valid",
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**layer_options)
        self.pool_size = _pair(pool_size)
        self.strides = self.pool_size if strides is None else _pair(strides)
        self.padding = padding

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        image = _channels_first(g, x[0])
        margins = _margins(self.padding, image, self.pool_size, self.strides)
        y = ir.pool(
            g,
            self.pool,
            image,
            kernel=self.pool_size,
            stride=self.strides,
            lower=margins["lower"],
            upper=margins["upper"],
        )
        return _channels_last(g, y)


class MaxPooling2D(_Pool):
    """A layer that returns the maximum of each window."""

    pool = "max_pool"


class AveragePooling2D(_Pool):
    """A layer that returns the mean of each window. Elements of the padding do not count."""

    pool = "avg_pool"


class Flatten(Layer):
    """A layer that reshapes each sample to a vector."""

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        return g.op("reshape", x[0], shape=(x[0].shape[0], -1))


class Dropout(Layer):
    """A layer that sets elements to 0 with probability `rate` during training.

    It divides all other elements by 1 - rate. Outside of training, it returns its input.
    """

    def __init__(self, rate: Fraction, **layer_options: Unpack[LayerOptions]) -> None:
        super().__init__(**layer_options)
        self.rate = rate

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        return elementwise(g, x[0], lambda v: ir.dropout(g, v, self.rate)) if training else x[0]


class _Norm(Layer):
    """The base class of norms, which multiply each channel by `gamma` and add `beta`."""

    def __init__(self, epsilon: Epsilon = 1e-3, **layer_options: Unpack[LayerOptions]) -> None:
        super().__init__(**layer_options)
        self.epsilon = epsilon

    def build(self, shape: Shape) -> None:
        self.add_weight("gamma", shape[-1:], "ones")
        self.add_weight("beta", shape[-1:], "zeros")


class BatchNormalization(_Norm):
    """A layer that normalises each channel with the mean and variance of the batch.

    The channels are the last dimension. Training updates the moving mean and variance, which are
    used outside of training. `momentum` is the weight of their old values. The variance that
    updates the moving variance is divided by N - 1 for a batch of N elements per channel.
    """

    fixed = ("moving_mean", "moving_variance")

    def __init__(
        self, momentum: Share = 0.99, epsilon: Epsilon = 1e-3, **layer_options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(epsilon, **layer_options)
        self.momentum = momentum

    def build(self, shape: Shape) -> None:
        super().build(shape)
        self.add_weight("moving_mean", shape[-1:], "zeros")
        self.add_weight("moving_variance", shape[-1:], "ones")

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        image = _channels_first(g, x[0])
        gamma, beta, mean, variance = w.values()
        y = ir.batch_norm(
            g,
            image,
            gamma,
            beta,
            running_mean=mean,
            running_var=variance,
            training=training and self.trainable,
            momentum=1 - self.momentum,
            eps=self.epsilon,
        )
        return _channels_last(g, y)


class GroupNormalization(_Norm):
    """A layer that normalises each group of channels of a sample with its mean and variance."""

    def __init__(
        self, groups: Count = 32, epsilon: Epsilon = 1e-3, **layer_options: Unpack[LayerOptions]
    ) -> None:
        super().__init__(epsilon, **layer_options)
        self.groups = groups

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        image = _channels_first(g, x[0])
        y = ir.norm(
            g,
            "group",
            image,
            gamma=w["gamma"],
            beta=w["beta"],
            eps=self.epsilon,
            groups=self.groups,
        )
        return _channels_last(g, y)


class LayerNormalization(_Norm):
    """A layer that normalises each vector along the last dimension with its mean and variance."""

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        return ir.norm(g, "layer", x[0], gamma=w["gamma"], beta=w["beta"], eps=self.epsilon)


class Add(Layer):
    """A layer that returns the sum of its inputs."""

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        total = x[0]
        for term in x[1:]:
            total = g.op("add", total, term)
        return total


class InputLayer(Layer):
    """The first layer of a Sequential, which only defines the shape of the input."""

    def __init__(self, input_shape: Sequence[Size], **layer_options: Unpack[CommonOptions]) -> None:
        super().__init__(input_shape=input_shape, **layer_options)

    def call(self, g: Ir, w: dict[str, Value], training: bool, *x: Value) -> Value:
        return x[0]


__all__ = [
    "Activation", "Add", "AveragePooling2D", "BatchNormalization", "Conv2D", "Dense", "Dropout",
    "Flatten", "GroupNormalization", "Input", "InputLayer", "Layer", "LayerNormalization",
    "MaxPooling2D",
]  # fmt: skip


check_calls(globals(), misuse, without=("activate", "elementwise"))
