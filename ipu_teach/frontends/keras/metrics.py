"""The metrics of Keras that the device implements."""

from __future__ import annotations

from collections.abc import Callable

from ipu_teach.arguments import Argument, Count, check_calls
from ipu_teach.errors import did_you_mean, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.losses import LOSSES, Loss, called
from ipu_teach.frontends.keras.recorded import Recorded, parameters_of, refuse_options
from ipu_teach.types import FLOAT, UNSIGNED_INT


class Metric(Recorded):
    """The base class of metrics.

    The result for an epoch is the mean of `values` over all samples.
    """

    name = "metric"

    def __init__(self, *, name: str | None = None, dtype: None = None, **others: object) -> None:
        refuse_options(type(self).__name__, others, parameters_of(type(self)))
        self.name = name or self.name

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        """Return the metric of each sample, or of each position of each sample, in FLOAT."""
        raise NotImplementedError


def _target(g: Ir, metric: Metric, out: Value, y: Value) -> Value:
    """Return targets of floats in the shape of the output.

    :raises ModelError: for targets of another shape, such as class numbers.
    """
    y = g.cast(y, FLOAT)
    if y.shape == out.shape:
        return y
    raise misuse(
        f"The metric {metric.name!r} needs a target for each output, but a sample has targets of "
        f"the shape {list(y.shape[1:])} and outputs of shape {list(out.shape[1:])}.",
        "use a metric that fits the targets, such as 'accuracy', or convert the targets with "
        "to_categorical().",
    )


def _numbers(g: Ir, metric: Metric, out: Value, y: Value) -> Value:
    """Return class numbers of shape [batch, ...], for outputs [batch, ..., classes]."""
    shape = out.shape[:-1]
    if y.shape not in (shape, (*shape, 1)):
        raise misuse(
            f"The metric {metric.name!r} needs class numbers, but a sample has targets of the "
            f"shape {list(y.shape[1:])} and outputs of shape {list(out.shape[1:])}.",
            "use a metric for such targets, such as 'accuracy'.",
        )
    y = g.cast(y, UNSIGNED_INT)
    return y if y.shape == shape else g.op("reshape", y, shape=shape)


def _mean_of_last(g: Ir, is_correct: Value) -> Value:
    """Return the fraction of true elements along the last dimension, in FLOAT."""
    numbers = g.cast(is_correct, FLOAT)
    return ir.mean(g, numbers, (-1,)) if len(numbers.shape) > 1 else numbers


class Accuracy(Metric):
    """The fraction of the outputs that equal their targets."""

    name = "accuracy"

    def __init__(self, name: str | None = None, dtype: None = None, **others: object) -> None:
        super().__init__(name=name, dtype=dtype, **others)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        return _mean_of_last(g, g.op("eq", g.cast(out, FLOAT), _target(g, self, out, y)))


class BinaryAccuracy(Metric):
    """The fraction of the outputs that are correct when they are compared with `threshold`.

    An output is correct if it is above `threshold` and its target is 1, or if it is not above
    `threshold` and its target is 0.
    """

    name = "binary_accuracy"

    def __init__(
        self,
        name: str | None = None,
        dtype: None = None,
        threshold: float = 0.5,
        **others: object,
    ) -> None:
        super().__init__(name=name, dtype=dtype, **others)
        self.threshold = float(threshold)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        y = g.op("reshape", y, shape=out.shape) if y.size == out.size else y
        is_above = g.op("gt", g.cast(out, FLOAT), self.threshold)
        return _mean_of_last(g, g.op("eq", g.cast(is_above, FLOAT), _target(g, self, out, y)))


class CategoricalAccuracy(Metric):
    """The fraction of the samples whose largest output is at the index of their largest target."""

    name = "categorical_accuracy"

    def __init__(self, name: str | None = None, dtype: None = None, **others: object) -> None:
        super().__init__(name=name, dtype=dtype, **others)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        classes = g.op("arg_max", _target(g, self, out, y))
        return g.cast(g.op("eq", g.op("arg_max", out), classes), FLOAT)


class SparseCategoricalAccuracy(Metric):
    """The fraction of the samples whose largest output belongs to the target's class number."""

    name = "sparse_categorical_accuracy"

    def __init__(self, name: str | None = None, dtype: None = None, **others: object) -> None:
        super().__init__(name=name, dtype=dtype, **others)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        return g.cast(g.op("eq", g.op("arg_max", out), _numbers(g, self, out, y)), FLOAT)


class _TopK(Metric):
    """The base class of metrics that check whether the class is among the k largest outputs.

    A class whose output equals the k-th largest output counts as being among them.
    """

    def __init__(
        self, k: Count = 5, name: str | None = None, dtype: None = None, **others: object
    ) -> None:
        super().__init__(name=name, dtype=dtype, **others)
        self.k = k

    def numbers(self, g: Ir, out: Value, y: Value) -> Value:
        """Return the class number of each sample."""
        raise NotImplementedError

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        if self.k > out.shape[-1]:
            raise misuse(
                f"The metric {self.name!r} has k={self.k}, but there are {out.shape[-1]} classes.",
                f"use a metric with k of at most {out.shape[-1]}.",
            )
        classes = self.numbers(g, out, y)
        rows = g.op("reshape", g.cast(out, FLOAT), shape=(-1, out.shape[-1]))
        labels = g.op("reshape", classes, shape=(rows.shape[0],))
        outputs = g.op("reshape", g.op("pick", rows, labels), shape=(rows.shape[0], 1))
        above = ir.reduced(g, "sum", g.cast(g.op("gt", rows, outputs), FLOAT), (-1,))
        is_number = g.op("reshape", g.op("eq", outputs, outputs), shape=above.shape)
        is_correct = g.op("logical_and", g.op("lt", above, float(self.k)), is_number)
        return g.op("reshape", g.cast(is_correct, FLOAT), shape=classes.shape)


class TopKCategoricalAccuracy(_TopK):
    """The fraction of the samples whose class is among the k largest outputs.

    The class of a sample is the index of its largest target, as in one-hot targets.
    """

    name = "top_k_categorical_accuracy"

    def numbers(self, g: Ir, out: Value, y: Value) -> Value:
        return g.op("arg_max", _target(g, self, out, y))


class SparseTopKCategoricalAccuracy(_TopK):
    """The fraction of the samples whose class number is among the k largest outputs."""

    name = "sparse_top_k_categorical_accuracy"

    def numbers(self, g: Ir, out: Value, y: Value) -> Value:
        return _numbers(g, self, out, y)


class MeanSquaredError(Metric):
    """The mean of the squared differences between outputs and targets."""

    name = "mean_squared_error"

    def __init__(self, name: str | None = None, dtype: None = None, **others: object) -> None:
        super().__init__(name=name, dtype=dtype, **others)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        return LOSSES["mse"]().values(g, out, _target(g, self, out, y))


class MeanAbsoluteError(Metric):
    """The mean of the absolute differences between outputs and targets."""

    name = "mean_absolute_error"

    def __init__(self, name: str | None = None, dtype: None = None, **others: object) -> None:
        super().__init__(name=name, dtype=dtype, **others)

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        return LOSSES["mae"]().values(g, out, _target(g, self, out, y))


class LossMetric(Metric):
    """A loss as a metric: the mean of the losses of the samples."""

    def __init__(self, loss: Loss, name: str) -> None:
        super().__init__(name=name)
        self.loss = loss

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        y = _numbers(g, self, out, y) if self.loss.classes else _target(g, self, out, y)
        return self.loss.values(g, out, y)


class FunctionMetric(Metric):
    """A user-defined metric: a function of targets and outputs, written with `keras.ops`."""

    def __init__(self, function: Callable[..., Argument]) -> None:
        super().__init__(name=getattr(function, "__name__", "metric"))
        self.function = function

    def values(self, g: Ir, out: Value, y: Value) -> Value:
        return called(g, self.function, out, y)


METRICS: dict[str, Callable[[], Metric]] = {
    "binary_accuracy": BinaryAccuracy,
    "categorical_accuracy": CategoricalAccuracy,
    "sparse_categorical_accuracy": SparseCategoricalAccuracy,
    "top_k_categorical_accuracy": TopKCategoricalAccuracy,
    "sparse_top_k_categorical_accuracy": SparseTopKCategoricalAccuracy,
    "mean_squared_error": MeanSquaredError,
    "mse": MeanSquaredError,
    "mean_absolute_error": MeanAbsoluteError,
    "mae": MeanAbsoluteError,
}
ENTROPIES = [name for name in LOSSES if name.endswith("crossentropy")]
METRIC_NAMES = ("accuracy", "acc", *METRICS, *ENTROPIES)


def metric_of(metric: object, out: Value, y: Value) -> Metric:
    """Return a metric for `metric`, which is a name, a function, or already a metric or a loss.

    "accuracy" and "acc" become the accuracy that fits the shapes of the output and the target.

    :raises ModelError: for any other value.
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, Loss):
        return LossMetric(metric, metric.name)
    if not isinstance(metric, str):
        check_metric(metric)
        return FunctionMetric(metric)  # type: ignore[arg-type]
    if metric in ("accuracy", "acc"):
        is_sparse = len(y.shape) < len(out.shape) or y.shape[-1] == 1 < out.shape[-1]
        kind = SparseCategoricalAccuracy if is_sparse else CategoricalAccuracy
        return (BinaryAccuracy if out.shape[-1] == 1 else kind)(name=metric)
    check_metric(metric)
    if metric in ENTROPIES:
        return LossMetric(LOSSES[metric](), metric)
    named = METRICS[metric]()
    named.name = metric
    return named


def check_metric(metric: object) -> None:
    """Raise `ModelError` unless a value is a metric, a loss, a function, or a metric's name."""
    if isinstance(metric, (Metric, Loss)) or callable(metric) and not isinstance(metric, type):
        return
    if not isinstance(metric, str) or metric not in METRIC_NAMES:
        raise misuse(
            f"compile() was given the metric {shown(metric)}, which the device does not implement.",
            f"{did_you_mean(metric, METRIC_NAMES)}use one of {', '.join(METRIC_NAMES)}.",
        )


check_calls(globals(), misuse, without=("check_metric", "metric_of"))

__all__ = ["Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "MeanAbsoluteError"]
__all__ += ["MeanSquaredError", "Metric", "SparseCategoricalAccuracy"]
__all__ += ["SparseTopKCategoricalAccuracy", "TopKCategoricalAccuracy"]
