"""The losses of Keras that the device implements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from ipu_teach.arguments import Argument, Positive, Share, check_calls
from ipu_teach.errors import ModelError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.dimensions import move_dimension
from ipu_teach.frontends.ir.values import Shape, misuse
from ipu_teach.frontends.keras.recorded import Recorded, parameters_of, refuse_options
from ipu_teach.frontends.keras.tensors import Tensor, building, raw
from ipu_teach.frontends.session import checked_name, input_of
from ipu_teach.types import FLOAT, UNSIGNED_INT

if TYPE_CHECKING:
    from typing_extensions import Unpack


class LossOptions(TypedDict, total=False):
    """The arguments of all losses."""

    name: str | None
    reduction: str


# The value of keras.backend.epsilon(). `Loss.clipped` uses it.
EPSILON = 1e-7


class Loss(Recorded):
    """The base class of losses, which compare the outputs of a model with targets.

    A loss is the mean over the batch. A cross entropy is computed from scores, the inputs of the
    softmax or sigmoid at the end of the model. If the outputs come from another operation,
    `from_logits` decides whether the outputs are scores (True) or probabilities (False).
    Probabilities are clipped, as in Keras. All losses are computed in FLOAT.
    """

    classes = False
    name = "loss"

    def __init__(self, *, name: str | None = None, dtype: None = None, **others: object) -> None:
        refuse_options(type(self).__name__, others, parameters_of(type(self)))
        self.from_logits: bool | None = None
        self.name = name or self.name

    def target(self, g: Ir, out: Value, name: str, shape: Shape | None = None) -> Value:
        """Add the input `name`, the target for the output `out`, to the graph `g`, and return it.

        `shape` is the shape of the host's targets without the batch, or None if it is not known.
        """
        if self.classes:
            return g.input(out.shape[:-1], name, UNSIGNED_INT)
        return g.input(out.shape, name)

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

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        """Return the loss of each sample, or of each position of each sample, in FLOAT."""
        raise NotImplementedError

    def mean(self, g: Ir, out: Value, y: Value) -> Value:
        """Return the mean loss."""
        return ir.mean(g, self.values(g, out, y))

    def __call__(self, g: Ir, out: Value, y: Value, weights: Value | None = None) -> Value:
        """Return the mean loss. With `weights`, first multiply each loss by its weight."""
        if weights is None:
            return self.mean(g, out, y)
        values = self.values(g, out, y)
        return ir.mean(g, g.op("mul", values, weights_like(g, values, weights)))


def weights_like(g: Ir, values: Value, weights: Value) -> Value:
    """Return sample weights in the shape of `values`, the losses or metrics of the samples.

    :raises ModelError: if there is neither a weight for each sample nor one for each value.
    """
    if weights.size == values.size:
        return g.op("reshape", weights, shape=values.shape)
    raise misuse(
        f"sample_weight has the shape {list(weights.shape[1:])} for each sample, but a sample has "
        f"losses of shape {list(values.shape[1:])}.",
        f"pass sample_weight of shape {['samples', *values.shape[1:]]}.".replace("'", ""),
    )


def _last_mean(g: Ir, values: Value) -> Value:
    """Return the mean over the last dimension, or `values` itself if it has only the batch."""
    return ir.mean(g, values, (-1,)) if len(values.shape) > 1 else values


class SparseCategoricalCrossentropy(Loss):
    """The cross entropy of scores and class numbers."""

    classes = True
    name = "sparse_categorical_crossentropy"

    def __init__(self, from_logits: bool | None = None, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.from_logits = from_logits

    def _logits(self, g: Ir, out: Value) -> Value:
        scores = self.scores(g, out, "softmax")
        # Like Keras, use the logarithms of the probabilities as scores.
        if scores is None:
            scores = g.op("log", self.clipped(g, g.cast(out, FLOAT)))
        # Move the classes to dimension 1, because `cross_entropy` expects them there.
        return move_dimension(g, scores, -1, 1)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        return ir.cross_entropy(g, self._logits(g, out), y, "none")

    def mean(self, g: Ir, out: Value, y: Value) -> Value:
        return ir.cross_entropy(g, self._logits(g, out), y)


class CategoricalCrossentropy(Loss):
    """The cross entropy of scores and targets that give a probability for each class.

    `to_categorical` returns such targets. `label_smoothing` is the fraction of each target that is
    distributed equally over all classes.
    """

    name = "categorical_crossentropy"

    def __init__(
        self,
        from_logits: bool | None = None,
        label_smoothing: Share = 0.0,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.from_logits = from_logits
        self.label_smoothing = label_smoothing

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        if self.label_smoothing:
            y = g.op("mul", y, 1 - self.label_smoothing)
            y = g.op("add", y, self.label_smoothing / y.shape[-1])
        scores = self.scores(g, out, "softmax")
        if scores is None:
            probabilities = g.cast(out, FLOAT)
            normalised = g.op(
                "div", probabilities, ir.reduced(g, "sum", probabilities, (-1,), keep=True)
            )
            logarithms = g.op("log", self.clipped(g, normalised))
        else:
            logarithms = g.op("log_softmax", scores)
        return g.op("neg", ir.reduced(g, "sum", g.op("mul", y, logarithms), (-1,)))


class BinaryCrossentropy(Loss):
    """The binary cross entropy of scores and targets from 0 to 1.

    `label_smoothing` is the fraction of each target that is replaced by 1/2.
    """

    name = "binary_crossentropy"

    def __init__(
        self,
        from_logits: bool | None = None,
        label_smoothing: Share = 0.0,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        self.from_logits = from_logits
        self.label_smoothing = label_smoothing

    def _elements(self, g: Ir, out: Value, y: Value, reduction: str) -> Value:
        if self.label_smoothing:
            y = g.op("mul", y, 1 - self.label_smoothing)
            y = g.op("add", y, self.label_smoothing / 2)
        scores = self.scores(g, out, "sigmoid")
        if scores is not None:
            return ir.binary_cross_entropy(g, scores, y, reduction)
        probabilities = self.clipped(g, g.cast(out, FLOAT))
        of_ones = g.op("mul", y, g.op("log", g.op("add", probabilities, EPSILON)))
        of_zeros = g.op(
            "mul", g.op("sub", 1.0, y), g.op("log", g.op("sub", 1 + EPSILON, probabilities))
        )
        total = g.op("add", of_ones, of_zeros)
        return g.op("neg", ir.mean(g, total) if reduction == "mean" else total)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        return _last_mean(g, self._elements(g, out, y, "none"))

    def mean(self, g: Ir, out: Value, y: Value) -> Value:
        return self._elements(g, out, y, "mean")


class MeanSquaredError(Loss):
    """The mean of the squared differences between outputs and targets."""

    name = "mean_squared_error"

    def __init__(self, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        return _last_mean(g, ir.squared_error(g, g.cast(out, FLOAT), y, "none"))

    def mean(self, g: Ir, out: Value, y: Value) -> Value:
        return ir.squared_error(g, g.cast(out, FLOAT), y)


class MeanAbsoluteError(Loss):
    """The mean of the absolute differences between outputs and targets."""

    name = "mean_absolute_error"

    def __init__(self, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        return _last_mean(g, g.op("abs", g.op("sub", g.cast(out, FLOAT), y)))


class Huber(Loss):
    """The mean of a loss that is quadratic for errors up to `delta`, and linear for larger ones."""

    name = "huber_loss"

    def __init__(self, delta: Positive = 1.0, **options: Unpack[LossOptions]) -> None:
        super().__init__(**options)
        self.delta = float(delta)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        error = g.op("sub", g.cast(out, FLOAT), y)
        distance = g.op("abs", error)
        quadratic = g.op("mul", g.op("square", error), 0.5)
        linear = g.op("sub", g.op("mul", distance, self.delta), 0.5 * self.delta * self.delta)
        is_near = g.op("lteq", distance, self.delta)
        return _last_mean(g, g.op("select", is_near, quadratic, linear))


class FunctionLoss(Loss):
    """A user-defined loss: a function of targets and outputs, written with `keras.ops`.

    The function returns a loss for each sample, or for each position of each sample.
    """

    def __init__(self, function: Callable[..., Argument]) -> None:
        super().__init__(name=getattr(function, "__name__", "loss"))
        self.function = function

    def target(self, g: Ir, out: Value, name: str, shape: Shape | None = None) -> Value:
        return g.input(out.shape if shape is None else (out.shape[0], *shape), name)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        return called(g, self.function, out, y)


def called(g: Ir, function: Callable[..., Argument], out: Value, y: Value) -> Value:
    """Return the value, in FLOAT, that a function of targets and outputs computes."""
    with building(g, False):
        result = function(Tensor(g, g.cast(y, FLOAT)), Tensor(g, g.cast(out, FLOAT)))
    return g.cast(raw(g, result), FLOAT)


LOSSES: dict[str, type[Loss]] = {
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy,
    "categorical_crossentropy": CategoricalCrossentropy,
    "binary_crossentropy": BinaryCrossentropy,
    "mean_squared_error": MeanSquaredError,
    "mse": MeanSquaredError,
    "mean_absolute_error": MeanAbsoluteError,
    "mae": MeanAbsoluteError,
    "huber": Huber,
}


def loss_of(loss: object) -> Loss:
    """Return a `Loss` for `loss`, which is a name, a function or already a `Loss`.

    :raises ModelError: for any other value.
    """
    if isinstance(loss, Loss):
        return loss
    if callable(loss) and not isinstance(loss, type):
        return FunctionLoss(loss)
    return LOSSES[checked_name("The loss", loss, [*LOSSES])]()


check_calls(globals(), misuse, without=("called", "weights_like"))

__all__ = ["BinaryCrossentropy", "CategoricalCrossentropy", "Huber", "Loss", "MeanAbsoluteError"]
__all__ += ["MeanSquaredError", "SparseCategoricalCrossentropy"]
