"""The losses and metrics of Keras that the device implements."""

from __future__ import annotations

from ipu_teach.arguments import check_calls
from ipu_teach.errors import ModelError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.session import checked_name, input_of
from ipu_teach.types import FLOAT, UNSIGNED_INT

EPSILON = 1e-7  # The value of keras.backend.epsilon(), which `Loss.clipped` uses.


class Loss:
    """The base class of losses, which compare the outputs of a model with targets.

    A loss is the mean over the batch. A cross entropy is computed from scores, the inputs of the
    softmax or sigmoid at the end of the model. If the outputs come from another operation,
    `from_logits` says whether they are scores (True) or probabilities (False). Probabilities are
    clipped, as in Keras. All losses are computed in FLOAT.
    """

    classes = False

    def __init__(self, from_logits: bool | None = None) -> None:
        self.from_logits = from_logits

    def target(self, g: Ir, out: Value) -> Value:
        """Add the input "y", the target for the output `out`, to the graph `g`, and return it."""
        if self.classes:
            return g.input(out.shape[:-1], "y", UNSIGNED_INT)
        return g.input(out.shape, "y")

    def scores(self, g: Ir, out: Value, kind: str) -> Value | None:
        """Return the scores, in FLOAT, or None if the outputs are probabilities.

        `kind` is the operation that turns scores into probabilities, "softmax" or "sigmoid".

        :raises ModelError: if the outputs come from another operation and `from_logits` is None.
        """
        scores = out if self.from_logits else input_of(g, out, kind)
        if scores is None and self.from_logits is None:
            raise ModelError(f"""The loss {type(self).__name__} cannot tell whether the model's
                outputs are scores or probabilities, because the model does not end with a {kind}.
                next:  add Activation({kind!r}) at the end of the model, or use
                {type(self).__name__}(from_logits=True) for scores and from_logits=False for
                probabilities.""")
        return None if scores is None else g.cast(scores, FLOAT)

    def clipped(self, g: Ir, probabilities: Value) -> Value:
        """Return probabilities clipped to [EPSILON, 1 - EPSILON], whose logarithms are finite."""
        return g.op("clamp", probabilities, least=EPSILON, most=1 - EPSILON)

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        raise NotImplementedError


class SparseCategoricalCrossentropy(Loss):
    """The cross entropy of scores and class numbers."""

    classes = True

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        scores = self.scores(g, out, "softmax")
        if scores is None:  # use the logarithms of the probabilities as scores, like Keras
            scores = g.op("log", self.clipped(g, g.cast(out, FLOAT)))
        return ir.cross_entropy(g, scores, y)


class CategoricalCrossentropy(Loss):
    """The cross entropy of scores and targets that give a probability for each class.

    `to_categorical` returns such targets.
    """

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        scores = self.scores(g, out, "softmax")
        if scores is None:
            probabilities = g.cast(out, FLOAT)
            normalised = g.op(
                "div", probabilities, ir.reduced(g, "sum", probabilities, (-1,), keep=True)
            )
            logarithms = g.op("log", self.clipped(g, normalised))
        else:
            logarithms = g.op("log_softmax", scores)
        sample_sums = ir.reduced(g, "sum", g.op("mul", y, logarithms), (-1,))
        return g.op("neg", ir.mean(g, sample_sums))


class BinaryCrossentropy(Loss):
    """The binary cross entropy of scores and targets from 0 to 1."""

    def __call__(self, g: Ir, out: Value, y: Value) -> Value:
        scores = self.scores(g, out, "sigmoid")
        if scores is not None:
            return ir.binary_cross_entropy(g, scores, y)
        probabilities = self.clipped(g, g.cast(out, FLOAT))
        of_ones = g.op("mul", y, g.op("log", g.op("add", probabilities, EPSILON)))
        of_zeros = g.op(
            "mul", g.op("sub", 1.0, y), g.op("log", g.op("sub", 1 + EPSILON, probabilities))
        )
        return g.op("neg", ir.mean(g, g.op("add", of_ones, of_zeros)))


class MeanSquaredError(Loss):
    """The mean of the squared differences between outputs and targets."""

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

    :raises ModelError: for any other value.
    """
    return loss if isinstance(loss, Loss) else LOSSES[checked_name("The loss", loss, [*LOSSES])]()


def accuracy(g: Ir, out: Value, y: Value) -> Value:
    """Return the fraction of the batch's samples whose predicted class is the target's class.

    A single output per sample predicts class 1 if it is above 0.5, and otherwise class 0.
    """
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
