"""Dense and embedding layers, and the layers that only change a shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Annotated

from ipu_teach.arguments import Between, Fraction, check_calls
from ipu_teach.errors import shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.layers.activations import (
    Activated,
    Activation,
    activate,
    elementwise,
)
from ipu_teach.frontends.keras.layers.base import (
    InputDtype,
    Layer,
    LayerOptions,
    Shape,
    Size,
)
from ipu_teach.frontends.keras.layers.initializers import Initializer
from ipu_teach.frontends.keras.recorded import refuse_options
from ipu_teach.types import INT

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Weighed(Activation):
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

    def add_weights(self, kernel: Shape) -> None:
        """Add a kernel of shape `kernel` and, if the layer uses one, a bias."""
        self.add_weight(kernel, self.initializers[0], name="kernel")
        if self.use_bias:
            self.add_weight((self.units,), self.initializers[1], name="bias")


class Dense(Weighed):
    """A layer that multiplies its input by a kernel [in, units], and adds a bias."""

    def create(self, shape: Shape) -> None:
        if not shape:
            raise misuse(
                "Dense() was called on an input whose samples are single numbers.",
                "give each sample a dimension: Input((1,)), and x.reshape(-1, 1) for the data.",
            )
        self.add_weights((shape[-1], self.units))

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        y = ir.linear(g, x, ir.turned(g, w["kernel"]), w.get("bias"))
        return activate(g, self.activation, y)


class Embedding(Layer):
    """A layer that returns the rows of a table [input_dim, output_dim] for integer indices."""

    reads_indices = True

    def __init__(
        self,
        input_dim: Size,
        output_dim: Size,
        embeddings_initializer: Initializer = "uniform",
        mask_zero: bool = False,
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**layer_options)
        if mask_zero:
            raise misuse(
                "Embedding() was given mask_zero=True, but the device has no masks.",
                "leave mask_zero out, and give padded positions the sample weight 0.",
            )
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.initializer = embeddings_initializer

    def create(self, shape: Shape) -> None:
        self.add_weight((self.input_dim, self.output_dim), self.initializer, name="embeddings")

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        if x.floating:
            raise misuse(
                f"The layer {self.name or self.kind} was called on {x.dtype.__name__} numbers, but "
                "its input must be integer indices.",
                "call it on Input(shape, dtype='int32').",
            )
        return ir.embedding(g, w["embeddings"], g.cast(x, INT))


class Flatten(Layer):
    """A layer that reshapes each sample to a vector."""

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        return g.op("reshape", x, shape=(x.shape[0], prod(x.shape[1:])))


class Reshape(Layer):
    """A layer that reshapes each sample to `target_shape`. One of its sizes may be -1."""

    def __init__(
        self,
        target_shape: Sequence[Annotated[int, Between(-1)]],
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**layer_options)
        self.target_shape = tuple(target_shape)

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        sizes, size = self.target_shape, prod(x.shape[1:])
        known = prod(n for n in sizes if n != -1)
        fits = sizes.count(-1) == 1 and known and size % known == 0 or known == size
        if not fits or sizes.count(-1) > 1:
            raise misuse(
                f"Reshape({shown(sizes)}) was called on samples of shape {list(x.shape[1:])}, "
                f"which have {size:,} elements.",
                f"use sizes whose product is {size:,}; one of them may be -1.",
            )
        rest = size // known if known else 0
        return g.op("reshape", x, shape=(x.shape[0], *(rest if n == -1 else n for n in sizes)))


class Permute(Layer):
    """A layer that permutes the dimensions of each sample; `dims` is 1-based, as 0 is the batch."""

    def __init__(self, dims: Sequence[int], **layer_options: Unpack[LayerOptions]) -> None:
        super().__init__(**layer_options)
        self.dims = tuple(dims)
        if sorted(self.dims) != [*range(1, len(self.dims) + 1)]:
            raise misuse(
                f"Permute() was given dims={shown(self.dims)}.",
                f"use each number from 1 to {max(len(self.dims), 1)} once.",
            )

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        return g.op("permute", x, dims=(0, *self.dims))


class RepeatVector(Layer):
    """A layer that repeats a vector [features] `n` times: [n, features]."""

    def __init__(self, n: Size, **layer_options: Unpack[LayerOptions]) -> None:
        super().__init__(**layer_options)
        self.n = n

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        if len(x.shape) != 2:
            raise misuse(
                f"RepeatVector() was called on samples of shape {list(x.shape[1:])}.",
                "call it on vectors, such as the result of Flatten().",
            )
        row = g.op("reshape", x, shape=(x.shape[0], 1, x.shape[1]))
        return g.op("expand", row, shape=(x.shape[0], self.n, x.shape[1]))


class Dropout(Layer):
    """A layer that sets elements to 0 with probability `rate` during training.

    It divides all other elements by 1 - rate. Outside of training, it returns its input.
    """

    def __init__(self, rate: Fraction, **layer_options: Unpack[LayerOptions]) -> None:
        super().__init__(**layer_options)
        self.rate = rate

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        return elementwise(g, x, lambda v: ir.dropout(g, v, self.rate)) if training else x


class InputLayer(Layer):
    """The first layer of a Sequential, which only defines the shape and dtype of the input."""

    def __init__(
        self,
        shape: Sequence[Size] | None = None,
        dtype: InputDtype | None = None,
        *,
        input_shape: Sequence[Size] | None = None,
        name: str | None = None,
        trainable: bool = True,
        **others: object,
    ) -> None:
        super().__init__(name=name, input_shape=shape or input_shape, trainable=trainable)
        refuse_options("InputLayer", others, ("shape", "dtype", "input_shape", "name"))
        self.input_dtype = dtype
        if self.input_shape is None:
            raise misuse(
                "InputLayer() was created without a shape.",
                "pass the shape of a sample: InputLayer((64,)).",
            )

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        return x


check_calls(globals(), misuse)
