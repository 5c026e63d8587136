"""Losses and metrics by Keras' names."""

from __future__ import annotations

from typing import Any

from ipu_teach.arguments import check_calls
from ipu_teach.errors import ModelError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.session import checked_name, input_of
from ipu_teach.types import FLOAT, UNSIGNED_INT

EPSILON = 1e-7  # keras.backend.epsilon(): probabilities are clipped to [EPSILON, 1 - EPSILON]


class Loss:
    """A loss: what it is told of each sample (`target`), and its mean over a batch.

    Losses of classes take the scores that went into the model's last softmax or sigmoid. Of other
    outputs `from_logits` says whether they are scores, or probabilities, which are clipped as Keras
    does. All are worked out in FLOAT.
    """

    classes = False

    def __init__(self, from_logits: bool | None = None) -> None:
        self.from_logits = from_logits

    def target(self, g: Ir, out: Value) -> Value:
        """The input that it compares with."""
        if self.classes:
            return g.input(out.shape[:-1], "y", UNSIGNED_INT)
        return g.input(out.shape, "y")

    def scores(self, g: Ir, out: Value, kind: str) -> Value | None:
        """Return the scores, in FLOAT; None if the outputs are probabilities of another origin.
        Raises `ModelError` for outputs of which nothing says that they are."""
        scores = out if self.from_logits else input_of(g, out, kind)
        if scores is None and self.from_logits is None:
            raise ModelError(f"""{type(self).__name__} was given what no {kind} made.
                next:  end the model with Activation({kind!r}), or say from_logits=True, or
                from_logits=False if the outputs are probabilities.""")
        return None if scores is None else g.cast(scores, FLOAT)

    def clipped(self, g: Ir, probabilities: Value) -> Value:
        """Return probabilities of which no logarithm is infinite."""
        return g.op("clamp", probabilities, least=EPSILON, most=1 - EPSILON)

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        raise NotImplementedError


class SparseCategoricalCrossentropy(Loss):
    """Of class numbers."""

    classes = True

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        scores = self.scores(g, out, "softmax")
        if scores is None:  # their logarithms are scores, of which Keras takes the softmax again
            scores = g.op("log", self.clipped(g, g.cast(out, FLOAT)))
        return ir.cross_entropy(g, scores, y)


class CategoricalCrossentropy(Loss):
    """Of a probability for each class, as `to_categorical` makes them."""

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        scores = self.scores(g, out, "softmax")
        if scores is None:
            wide = g.cast(out, FLOAT)
            shares = g.op("div", wide, ir.reduced(g, "sum", wide, (-1,), True))
            logarithms = g.op("log", self.clipped(g, shares))
        else:
            logarithms = g.op("log_softmax", scores)
        each = ir.reduced(g, "sum", g.op("mul", y, logarithms), (-1,))
        return g.op("neg", ir.mean(g, each))


class BinaryCrossentropy(Loss):
    """Of 0 or 1, or what lies between."""

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        scores = self.scores(g, out, "sigmoid")
        if scores is not None:
            return ir.binary_cross_entropy(g, scores, y)
        p = self.clipped(g, g.cast(out, FLOAT))
        yes = g.op("mul", y, g.op("log", g.op("add", p, EPSILON)))
        no = g.op("mul", g.op("sub", 1.0, y), g.op("log", g.op("sub", 1 + EPSILON, p)))
        return g.op("neg", ir.mean(g, g.op("add", yes, no)))


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
    return given if isinstance(given, Loss) else LOSSES[checked_name("loss", given, [*LOSSES])]()


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
