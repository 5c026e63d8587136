"""Layers that normalise their input with a mean and a variance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ipu_teach.arguments import Between, Share, check_calls
from ipu_teach.errors import shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.layers.base import Layer, LayerOptions, Shape
from ipu_teach.frontends.keras.layers.images import channels_first, channels_last
from ipu_teach.frontends.keras.layers.initializers import Initializer

if TYPE_CHECKING:
    from typing_extensions import Unpack

Epsilon = Annotated[float, Between(0)]


class _Norm(Layer):
    """The base class of normalisation layers, which scale each channel by `gamma` and add `beta`.

    The channels are the last dimension. Without `scale`, there is no gamma; without `center`, there
    is no beta.
    """

    def __init__(
        self,
        axis: int = -1,
        epsilon: Epsilon = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Initializer = "zeros",
        gamma_initializer: Initializer = "ones",
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**layer_options)
        self.axis = axis
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.initializers = beta_initializer, gamma_initializer

    def create(self, shape: Shape) -> None:
        if self.axis not in (-1, len(shape)):
            raise misuse(
                f"{type(self).__name__}() was given axis={shown(self.axis)}, but the device "
                "normalises along the last dimension.",
                "leave axis out, and move the dimension to the end with a Permute layer.",
            )
        beta, gamma = self.initializers
        if self.scale:
            self.add_weight(shape[-1:], gamma, name="gamma")
        if self.center:
            self.add_weight(shape[-1:], beta, name="beta")


class BatchNormalization(_Norm):
    """A layer that normalises each channel with the mean and variance of the batch.

    The channels are the last dimension. Training updates the moving mean and variance, which are
    used outside of training. `momentum` is the weight of their old values.
    """

    def __init__(
        self,
        axis: int = -1,
        momentum: Share = 0.99,
        epsilon: Epsilon = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Initializer = "zeros",
        gamma_initializer: Initializer = "ones",
        moving_mean_initializer: Initializer = "zeros",
        moving_variance_initializer: Initializer = "ones",
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            axis, epsilon, center, scale, beta_initializer, gamma_initializer, **layer_options
        )
        self.momentum = momentum
        self.moving_initializers = moving_mean_initializer, moving_variance_initializer

    def create(self, shape: Shape) -> None:
        super().create(shape)
        mean, variance = self.moving_initializers
        self.add_weight(shape[-1:], mean, trainable=False, name="moving_mean")
        self.add_weight(shape[-1:], variance, trainable=False, name="moving_variance")

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        y = ir.batch_norm(
            g,
            channels_first(g, x),
            w.get("gamma"),
            w.get("beta"),
            running_mean=w["moving_mean"],
            running_var=w["moving_variance"],
            training=training and self.trainable,
            momentum=1 - self.momentum,
            eps=self.epsilon,
            unbiased=False,
        )
        return channels_last(g, y)


class GroupNormalization(_Norm):
    """A layer that normalises groups of channels with the mean and variance of each group.

    The channels of each sample are divided into `groups` groups. If `groups` is -1, each channel is
    a group.
    """

    def __init__(
        self,
        groups: Annotated[int, Between(-1)] = 32,
        axis: int = -1,
        epsilon: Epsilon = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Initializer = "zeros",
        gamma_initializer: Initializer = "ones",
        **layer_options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(
            axis, epsilon, center, scale, beta_initializer, gamma_initializer, **layer_options
        )
        self.groups = groups

    def create(self, shape: Shape) -> None:
        super().create(shape)
        if self.groups == 0 or self.groups > 0 and shape[-1] % self.groups:
            raise misuse(
                f"GroupNormalization() has {self.groups} groups, but its input has {shape[-1]} "
                "channels.",
                "use a number of groups that divides the channels.",
            )

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        y = ir.norm(
            g,
            "group",
            channels_first(g, x),
            gamma=w.get("gamma"),
            beta=w.get("beta"),
            eps=self.epsilon,
            groups=x.shape[-1] if self.groups == -1 else self.groups,
        )
        return channels_last(g, y)


class LayerNormalization(_Norm):
    """A layer that normalises each vector along the last dimension with its mean and variance."""

    def lower(self, g: Ir, w: dict[str, Value], training: bool, /, x: Value) -> Value:
        gamma, beta = w.get("gamma"), w.get("beta")
        return ir.norm(g, "layer", x, gamma=gamma, beta=beta, eps=self.epsilon)


check_calls(globals(), misuse)
