"""The optimisers of Keras that the device implements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from ipu_teach.arguments import Between, Fraction, Positive, Taken, check, check_calls
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.recorded import Recorded, refuse_options
from ipu_teach.frontends.session import checked_name

Rate = Annotated[float, Between(0)]
Decay = Annotated[float, Between(0)]
Static = Annotated[
    bool,
    Taken(
        lambda v: v is False,
        "give dynamic=False, and a constant scale, such as initial_scale=1024.",
    ),
]


Off = Annotated[bool, Taken(lambda v: v is False, "leave it out.")]


class Optimizer(Recorded):
    """The base class of optimisers.

    - `kind`: the name of the optimiser in a graph, such as "adam".
    - `learning_rate`: the learning rate. It can be changed at any time without recompiling the
      program.
    - `numbers`: the settings except the learning rate and the loss scale.
    - `scale`: the loss scale. Gradients are multiplied by it when they are computed, and divided by
      it before the update.
    """

    kind = "sgd"
    scale = 1.0

    def __init__(self, learning_rate: Rate, **numbers: float | bool) -> None:
        self.learning_rate = learning_rate
        self.numbers = numbers

    @property
    def learning_rate(self) -> float:
        """The learning rate."""
        return self._rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        check(type(self).__name__, "learning_rate", rate, Rate, refuse=misuse)
        self._rate = float(rate)

    lr = learning_rate


class SGD(Optimizer):
    """Gradient descent: w -= rate g. With a momentum above 0: v = momentum v + rate g, w -= v.

    w is a weight, g its gradient, rate the learning rate, and v the velocity.
    """

    def __init__(
        self, learning_rate: Rate = 0.01, momentum: Fraction = 0.0, **others: object
    ) -> None:
        _check_others("SGD", others)
        super().__init__(learning_rate, momentum=momentum, scaled_velocity=momentum > 0)


class Adam(Optimizer):
    """Adam, which uses moving averages of the gradient (m) and of its square (v).

    In step t, w -= rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon), where w is a
    weight and rate is the learning rate.
    """

    kind = "adam"

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: Fraction = 0.9,
        beta_2: Fraction = 0.999,
        epsilon: Decay = 1e-7,
        amsgrad: Off = False,
        weight_decay: Decay | None = None,
        **others: object,
    ) -> None:
        _check_others(type(self).__name__, others)
        super().__init__(
            learning_rate,
            beta1=beta_1,
            beta2=beta_2,
            eps=epsilon,
            eps_hat=True,
            **({"weight_decay": weight_decay} if weight_decay else {}),
        )
        # In Keras, the moving averages do not contain the weight decay.
        self.kind = "adamw" if weight_decay else "adam"


class AdamW(Adam):
    """Adam with a weight decay that changes the weights directly, not the moving averages."""

    kind = "adamw"

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        weight_decay: Decay = 0.004,
        beta_1: Fraction = 0.9,
        beta_2: Fraction = 0.999,
        epsilon: Decay = 1e-7,
        amsgrad: Off = False,
        **others: object,
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay, **others)


def _check_others(call: str, others: Mapping[str, object]) -> None:
    """Raise `ModelError` for an argument of an optimiser that the device does not implement."""
    options = {name: value for name, value in others.items() if name != "name"}
    refuse_options(call, options, ("learning_rate",))


def LossScaleOptimizer(
    inner_optimizer: object, dynamic: Static = False, initial_scale: Positive = 1024.0
) -> Optimizer:
    """Set the constant loss scale of an optimiser to `initial_scale`, and return the optimiser.

    :raises ModelError: for an unknown optimiser.
    """
    optimizer = optimizer_of(inner_optimizer)
    optimizer.scale = float(initial_scale)
    return optimizer


OPTIMIZERS: dict[str, Callable[[], Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def optimizer_of(optimizer: object) -> Optimizer:
    """Return an optimiser for `optimizer`, which is a name or already an `Optimizer`.

    :raises ModelError: for any other value.
    """
    if isinstance(optimizer, Optimizer):
        return optimizer
    return OPTIMIZERS[checked_name("The optimizer", optimizer, [*OPTIMIZERS])]()


__all__ = ["SGD", "Adam", "AdamW", "LossScaleOptimizer", "Optimizer"]


check_calls(globals(), misuse)
