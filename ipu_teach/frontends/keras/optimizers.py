"""Optimisers by Keras' names."""

from __future__ import annotations

from typing import Annotated, Any

from ipu_teach.arguments import Between, Fraction, Positive, Taken, check, check_calls
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.session import checked_name

Rate = Annotated[float, Between(0)]
Decay = Annotated[float, Between(0)]
Static = Annotated[
    bool,
    Taken(
        lambda v: v is False, "say dynamic=False, and a scale that stays, as in initial_scale=1024."
    ),
]


class Optimizer:
    """An optimiser of the kit, `kind` with its `numbers`. `learning_rate` may change at any time:
    nothing is compiled for it. `scale`: so many times larger gradients are worked out."""

    kind, scale = "sgd", 1.0

    def __init__(self, learning_rate: Rate, **numbers: float | bool) -> None:
        self.learning_rate, self.numbers = learning_rate, numbers

    @property
    def learning_rate(self) -> float:
        """How far a step goes."""
        return self._rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        check(type(self).__name__, "learning_rate", rate, Rate, misuse)
        self._rate = float(rate)

    lr = learning_rate


class SGD(Optimizer):
    """w -= rate g; with momentum v = momentum v + rate g and w -= v."""

    def __init__(self, learning_rate: Rate = 0.01, momentum: Fraction = 0.0) -> None:
        super().__init__(learning_rate, momentum=momentum, scaled_velocity=momentum > 0)


class Adam(Optimizer):
    """By running means of the gradient and of its square.

    In step t, w -= rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon).
    """

    kind = "adam"

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: Fraction = 0.9,
        beta_2: Fraction = 0.999,
        epsilon: Decay = 1e-7,
        **more: float,
    ) -> None:
        super().__init__(
            learning_rate, beta1=beta_1, beta2=beta_2, eps=epsilon, eps_hat=True, **more
        )


class AdamW(Adam):
    """As Adam, and the weights decay apart from the gradient."""

    kind = "adamw"

    def __init__(self, learning_rate: Rate = 0.001, weight_decay: Decay = 0.004) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay)


def LossScaleOptimizer(
    inner_optimizer: Any, dynamic: Static = False, initial_scale: Positive = 1024.0
) -> Optimizer:
    """The optimiser, with gradients of halves worked out `initial_scale` times larger, which stays.
    Raises `ModelError`."""
    made = optimizer_of(inner_optimizer)
    made.scale = float(initial_scale)
    return made


OPTIMIZERS: dict[str, type[Any]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def optimizer_of(given: Any) -> Optimizer:
    """An optimiser by its name, or as it is. Raises `ModelError`."""
    if isinstance(given, Optimizer):
        return given
    made: Optimizer = OPTIMIZERS[checked_name("optimizer", given, [*OPTIMIZERS])]()
    return made


__all__ = ["SGD", "Adam", "AdamW", "LossScaleOptimizer", "Optimizer"]


check_calls(globals(), misuse)
