"""Losses and metrics by Keras' names."""

from __future__ import annotations

from typing import Any

from ipu_teach.arguments import check_calls
from ipu_teach.errors import ModelError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.session import among, below
from ipu_teach.types import FLOAT, UNSIGNED_INT


class Loss:
    """A loss: what it is told of each sample (`target`), and its mean over a batch."""

    classes = False

    def __init__(self, from_logits: bool = False) -> None:
        self.from_logits = from_logits

    def target(self, g: Ir, out: Value) -> Value:
        """The input that it compares with."""
        if self.classes:
            return g.input(out.shape[:-1], "y", UNSIGNED_INT)
        return g.input(out.shape, "y")

    def logits(self, g: Ir, out: Value, kind: str) -> Value:
        """What went into the softmax or sigmoid. Raises `ModelError` where there is none."""
        found = out if self.from_logits else below(g, out, kind)
        if found is None:
            raise ModelError(f"""{type(self).__name__} was given what no {kind} made.
                next:  end the model with Activation({kind!r}), or say from_logits=True.""")
        return g.cast(found, FLOAT)

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        raise NotImplementedError


class SparseCategoricalCrossentropy(Loss):
    """Of class numbers."""

    classes = True

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        return ir.cross_entropy(g, self.logits(g, out, "softmax"), y)


class CategoricalCrossentropy(Loss):
    """Of a probability for each class, as `to_categorical` makes them."""

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        chances = g.op("log_softmax", self.logits(g, out, "softmax"))
        each = ir.reduced(g, "sum", g.op("mul", y, chances), (-1,))
        return g.op("neg", ir.mean(g, each))


class BinaryCrossentropy(Loss):
    """Of 0 or 1, or what lies between."""

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        return ir.binary_cross_entropy(g, self.logits(g, out, "sigmoid"), y)


class MeanSquaredError(Loss):
    """The mean of the squares."""

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        return ir.squared_error(g, g.cast(out, FLOAT), y)


LOSSES: dict[str, type[Loss]] = {
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy,
    "categorical_crossentropy": CategoricalCrossentropy,
    "binary_crossentropy": BinaryCrossentropy,
    "mean_squared_error": MeanSquaredError,
    "mse": MeanSquaredError,
}


def loss_of(given: Any) -> Loss:
    """A loss by its name, or as it is. Raises `ModelError`."""
    return given if isinstance(given, Loss) else LOSSES[among("loss", given, [*LOSSES])]()


def accuracy(g: Ir, out: Value, y: Value) -> Value:
    """The part of a batch whose class is the one that was meant."""
    if out.shape[-1] == 1:
        same = g.op("eq", g.op("gt", out, 0.5), g.op("gt", y, 0.5))
    else:
        meant = y if y.dtype is UNSIGNED_INT else g.op("arg_max", y)
        same = g.op("eq", g.op("arg_max", out), meant)
    return ir.mean(g, g.op("cast", same, dtype=FLOAT))


check_calls(globals(), misuse)
METRICS = {"accuracy": accuracy, "acc": accuracy}

__all__ = ["BinaryCrossentropy", "CategoricalCrossentropy", "Loss", "MeanSquaredError"]
__all__ += ["SparseCategoricalCrossentropy"]
