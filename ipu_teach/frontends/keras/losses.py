"""Losses and metrics, by the names of Keras."""

from __future__ import annotations

from ipu_teach.arguments import check_calls
from ipu_teach.errors import ModelError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.session import checked_name, input_of
from ipu_teach.types import FLOAT, UNSIGNED_INT

EPSILON = 1e-7  # keras.backend.epsilon(): probabilities are clipped to [EPSILON, 1 - EPSILON]


class Loss:
    """A loss: the mean over a batch of a comparison of outputs with targets.

    Losses of classes use scores, the inputs of the softmax or sigmoid at the end of the model. If
    the outputs come from another operation, `from_logits` says whether they are scores or
    probabilities. Probabilities are clipped, as in Keras. All losses are computed in FLOAT.
    """

    classes = False

    def __init__(self, from_logits: bool | None = None) -> None:
        self.from_logits = from_logits

    def target(self, g: Ir, out: Value) -> Value:
        """Add the input "y", with which the loss compares the output, and return it."""
        if self.classes:
            return g.input(out.shape[:-1], "y", UNSIGNED_INT)
        return g.input(out.shape, "y")

    def scores(self, g: Ir, out: Value, kind: str) -> Value | None:
        """Return the scores, in FLOAT, or None if the outputs are probabilities.

        `kind` is the operation, "softmax" or "sigmoid", whose inputs are scores. Raises
        `ModelError` if outputs of another operation may be either.
        """
        scores = out if self.from_logits else input_of(g, out, kind)
        if scores is None and self.from_logits is None:
            raise ModelError(f"""{type(self).__name__} was given outputs that no {kind} made.
                next:  end the model with Activation({kind!r}), or give from_logits=True, or
                from_logits=False if the outputs are probabilities.""")
        return None if scores is None else g.cast(scores, FLOAT)

    def clipped(self, g: Ir, probabilities: Value) -> Value:
        """Return probabilities clipped to [EPSILON, 1 - EPSILON], so that logarithms are finite."""
        return g.op("clamp", probabilities, least=EPSILON, most=1 - EPSILON)

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        raise NotImplementedError


class SparseCategoricalCrossentropy(Loss):
    """The cross entropy of class numbers."""

    classes = True

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        scores = self.scores(g, out, "softmax")
        if scores is None:  # Keras, too, takes the softmax of the logarithms
            scores = g.op("log", self.clipped(g, g.cast(out, FLOAT)))
        return ir.cross_entropy(g, scores, y)


class CategoricalCrossentropy(Loss):
    """The cross entropy of a probability per class, as `to_categorical` returns them."""

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        scores = self.scores(g, out, "softmax")
        if scores is None:
            probabilities = g.cast(out, FLOAT)
            shares = g.op(
                "div", probabilities, ir.reduced(g, "sum", probabilities, (-1,), keep=True)
            )
            logarithms = g.op("log", self.clipped(g, shares))
        else:
            logarithms = g.op("log_softmax", scores)
        by_sample = ir.reduced(g, "sum", g.op("mul", y, logarithms), (-1,))
        return g.op("neg", ir.mean(g, by_sample))


class BinaryCrossentropy(Loss):
    """The binary cross entropy of targets from 0 to 1."""

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        scores = self.scores(g, out, "sigmoid")
        if scores is not None:
            return ir.binary_cross_entropy(g, scores, y)
        p = self.clipped(g, g.cast(out, FLOAT))
        yes = g.op("mul", y, g.op("log", g.op("add", p, EPSILON)))
        no = g.op("mul", g.op("sub", 1.0, y), g.op("log", g.op("sub", 1 + EPSILON, p)))
        return g.op("neg", ir.mean(g, g.op("add", yes, no)))


class MeanSquaredError(Loss):
    """The mean of the squared differences."""

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        return ir.squared_error(g, g.cast(out, FLOAT), y)


LOSSES: dict[str, type[Loss]] = {
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy,
    "categorical_crossentropy": CategoricalCrossentropy,
    "binary_crossentropy": BinaryCrossentropy,
    "mean_squared_error": MeanSquaredError,
    "mse": MeanSquaredError,
}


def loss_of(loss: object) -> Loss:
    """Return the loss with this name, or `loss` itself if it is a `Loss`.

    Raises `ModelError` for anything else.
    """
    return loss if isinstance(loss, Loss) else LOSSES[checked_name("loss", loss, [*LOSSES])]()


def accuracy(g: Ir, out: Value, y: Value) -> Value:
    """Return the fraction of samples in a batch whose predicted class is that of the target."""
    if out.shape[-1] == 1:
        is_correct = g.op("eq", g.op("gt", out, 0.5), g.op("gt", y, 0.5))
    else:
        classes = y if y.dtype is UNSIGNED_INT else g.op("arg_max", y)
        is_correct = g.op("eq", g.op("arg_max", out), classes)
    return ir.mean(g, g.op("cast", is_correct, dtype=FLOAT))


check_calls(globals(), misuse)
METRICS = {"accuracy": accuracy, "acc": accuracy}

__all__ = ["BinaryCrossentropy", "CategoricalCrossentropy", "Loss", "MeanSquaredError"]
__all__ += ["SparseCategoricalCrossentropy"]
