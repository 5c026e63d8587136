"""The losses and metrics of a model with one or several outputs, and their means over batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ipu_teach.arguments import Argument, is_finite
from ipu_teach.errors import counted, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import Shape, misuse
from ipu_teach.frontends.keras.losses import FunctionLoss, Loss, loss_of, weights_like
from ipu_teach.frontends.keras.metrics import check_metric, metric_of
from ipu_teach.types import FLOAT, Array

# The prefix that turns the name of a metric into the name of the sum of its sample weights.
WEIGHT_OF = "weight of "


class Shapes(NamedTuple):
    """The shapes of the host's targets and sample weights for each output, without the batch.

    A shape is None if there is no such array, or if the loss does not need to know the shape.
    """

    targets: tuple[Shape | None, ...] = ()
    weights: tuple[Shape | None, ...] = ()


@dataclass(frozen=True)
class Objective:
    """The loss and the metrics of one output.

    - `name`: the name of the output.
    - `loss`: the loss, or None.
    - `factor`: the factor of the loss in the total loss.
    - `metrics` and `weighted`: the metrics without and with sample weights.
    """

    name: str
    loss: Loss | None
    factor: float
    metrics: tuple[object, ...]
    weighted: tuple[object, ...]


def _by_output(role: str, value: Argument, names: Sequence[str]) -> list[Argument]:
    """Return a list with an item for each output.

    The items are passed as a list, as a dict, or as a single item that is used for all outputs.

    :raises ModelError: for another number of items, or other names.
    """
    if isinstance(value, Mapping):
        if not set(value) <= set(names):
            raise misuse(
                f"compile() was given {role} for {', '.join(map(repr, value))}, but the "
                f"outputs are {', '.join(map(repr, names))}.",
                f"use these names: {', '.join(map(repr, names))}.",
            )
        return [value.get(name) for name in names]
    if not isinstance(value, (list, tuple)):
        return [value] * len(names)
    if len(value) != len(names):
        raise misuse(
            f"compile() was given {counted(len(value), 'item')} in {role}, but the model has "
            f"{counted(len(names), 'output')}: {', '.join(names)}.",
            "pass a list with an item for each output, or a dict with these names as keys.",
        )
    return list(value)


def _metric_lists(role: str, metrics: Argument, names: Sequence[str]) -> list[tuple[object, ...]]:
    """Return a tuple of metrics for each output.

    If the model has several outputs, the metrics are passed as a list with an entry for each
    output, or as a dict. An output that the dict does not contain has no metrics.
    """
    if not metrics:
        return [()] * len(names)
    if isinstance(metrics, str) or not isinstance(metrics, (list, tuple, Mapping)):
        raise misuse(
            f"compile() was given {shown(metrics)} as {role}.",
            f"give a list, as in {role}=['accuracy'].",
        )
    if len(names) == 1 and not isinstance(metrics, Mapping):
        flat = [
            m for item in metrics for m in (item if isinstance(item, (list, tuple)) else [item])
        ]
        items: list[Argument] = [flat]
    else:
        items = _by_output(role, metrics, names)
    lists = [
        () if item is None else tuple(item) if isinstance(item, (list, tuple)) else (item,)
        for item in items
    ]
    for item in (metric for several in lists for metric in several):
        check_metric(item)
    return lists


def objectives_of(
    names: Sequence[str],
    loss: Argument,
    loss_weights: Argument,
    metrics: Argument,
    weighted_metrics: Argument,
) -> list[Objective]:
    """Return the losses and metrics of the outputs `names`, from the arguments of `compile`.

    :raises ModelError: for an unknown loss or metric, and for lists that do not fit the outputs.
    """
    losses = _by_output("loss", loss, names)
    if isinstance(loss, Mapping) and set(loss) != set(names):
        raise misuse(
            f"compile() was given losses for {', '.join(map(repr, loss))}, but the outputs are "
            f"{', '.join(map(repr, names))}.",
            "give each output a loss, or None.",
        )
    factors: list[Argument] = [1.0] * len(names)
    if loss_weights is not None:
        several = isinstance(loss_weights, (list, tuple, Mapping)) or len(names) == 1
        factors = _by_output("loss_weights", loss_weights, names) if several else [None]
        if isinstance(loss_weights, Mapping) and set(loss_weights) != set(names):
            factors = [None]
        if not all(map(is_finite, factors)):
            raise misuse(
                f"compile() was given {shown(loss_weights)} as loss_weights.",
                "give a number for each output, in a list or in a dict.",
            )
    plain = _metric_lists("metrics", metrics, names)
    weighted = _metric_lists("weighted_metrics", weighted_metrics, names)
    return [
        Objective(name, None if item is None else loss_of(item), float(factor), ours, theirs)
        for name, item, factor, ours, theirs in zip(
            names, losses, factors, plain, weighted, strict=True
        )
    ]


def key(letter: str, number: int, count: int) -> str:
    """Return the name of a target or of a sample weight in a graph.

    It is `letter`, "y" for a target or "w" for a weight. If `count` is not 1, the number is
    appended, as in "y_0".
    """
    return letter if count == 1 else f"{letter}_{number}"


def shapes_of(
    objectives: Sequence[Objective], y: Sequence[Array | None], weights: Sequence[Array | None]
) -> Shapes:
    """Return the shapes of a batch's targets and sample weights on which the graph depends."""
    is_free = [isinstance(o.loss, FunctionLoss) or o.loss is None for o in objectives]
    targets = tuple(
        array.shape[1:] if array is not None and free else None
        for array, free in zip(y, is_free, strict=False)
    )
    return Shapes(
        targets if any(shape is not None for shape in targets) else (),
        tuple(None if array is None else array.shape[1:] for array in weights),
    )


def add_objectives(
    g: Ir, objectives: Sequence[Objective], outs: Sequence[Value], shapes: Shapes, stage: int
) -> None:
    """Add the losses and metrics of the outputs `outs` to a graph, as outputs under their names.

    The total loss is "loss". If several outputs have a loss, each of these losses is an output,
    too.
    """
    count = len(objectives)
    targets: list[Value | None] = []
    weights: list[Value | None] = []
    losses: dict[str, Value] = {}
    batch = outs[0].shape[0]
    with g.at(path="loss", stage=stage):
        for number, (objective, out) in enumerate(zip(objectives, outs, strict=True)):
            shape = shapes.targets[number] if shapes.targets else None
            weight_shape = shapes.weights[number] if shapes.weights else None
            y, w = _feeds(g, objective, out, key("y", number, count), shape), None
            if weight_shape is not None and y is not None:
                w = g.input((batch, *weight_shape), key("w", number, count))
            targets.append(y)
            weights.append(w)
            if objective.loss is not None and y is not None:
                losses[objective.name] = objective.loss(g, out, y, w)
        total: Value | None = None
        for objective in objectives:
            if objective.name not in losses:
                continue
            value = losses[objective.name]
            term = value if objective.factor == 1 else g.op("mul", value, objective.factor)
            total = term if total is None else g.op("add", total, term)
        if total is not None:
            g.output("loss", total)
        if len(losses) > 1:
            for name, value in losses.items():
                g.output(f"{name}_loss", value)
    for is_weighted in (False, True):
        for objective, out, y, w in zip(objectives, outs, targets, weights, strict=True):
            listed = objective.weighted if is_weighted else objective.metrics
            for metric in listed:
                assert y is not None, "an output with a metric has a target"
                prefix = f"{objective.name}_" if count > 1 else ""
                _add_metric(
                    g, metric, out, y, w if is_weighted else None, prefix, is_weighted, stage
                )


def _feeds(g: Ir, objective: Objective, out: Value, name: str, shape: Shape | None) -> Value | None:
    """Return the target of an output, or None if neither a loss nor a metric needs one."""
    if objective.loss is not None:
        return objective.loss.target(g, out, name, shape)
    if not objective.metrics and not objective.weighted:
        return None
    return g.input(out.shape if shape is None else (out.shape[0], *shape), name)


def _add_metric(
    g: Ir,
    metric: object,
    out: Value,
    y: Value,
    w: Value | None,
    prefix: str,
    is_weighted: bool,
    stage: int,
) -> None:
    """Add a metric to a graph as an output, whose name is `prefix` and the metric's name.

    If this name is in use, "weighted_" is inserted after `prefix` for a weighted metric. If the
    name is still in use, a number is appended.
    """
    known = metric_of(metric, out, y)
    name = f"{prefix}{known.name}"
    if name in g.outputs and is_weighted:
        name = f"{prefix}weighted_{known.name}"
    base, number = name, 1
    while name in g.outputs:
        name, number = f"{base}_{number}", number + 1
    with g.at(path=name, stage=stage):
        values = known.values(g, g.cast(out, FLOAT), y)
        if w is None:
            g.output(name, ir.mean(g, values))
            return
        weights = weights_like(g, values, w)
        g.output(name, ir.reduced(g, "sum", g.op("mul", values, weights)))
        g.output(f"{WEIGHT_OF}{name}", ir.reduced(g, "sum", weights))


class Means:
    """The means of the losses and metrics over the samples of the batches so far.

    The values of a weighted metric are weighted by the sample weights.
    """

    def __init__(self) -> None:
        self._totals: dict[str, float] = {}
        self._weights: dict[str, float] = {}

    def add(self, outputs: Mapping[str, Array], samples: int) -> None:
        """Add the outputs of a run to the means. Each batch of the run has `samples` samples."""
        for name, array in outputs.items():
            if name.startswith(WEIGHT_OF):
                continue
            values = array.astype(np.float64)
            known = outputs.get(f"{WEIGHT_OF}{name}")
            weights = np.full(values.shape, samples, np.float64) if known is None else known
            total = (values * samples if known is None else values).sum()
            self._totals[name] = self._totals.get(name, 0.0) + float(total)
            self._weights[name] = self._weights.get(name, 0.0) + float(weights.sum())

    @property
    def logs(self) -> dict[str, float]:
        """The means by name. A weighted metric is 0 if its sample weights are all 0."""
        return {
            name: total / self._weights[name] if self._weights[name] else 0.0
            for name, total in self._totals.items()
        }


def in_order(logs: Mapping[str, float], count: int) -> float | list[float]:
    """Return the loss, or a list of the loss and the metrics, in Keras' order.

    For a model with several outputs, the list contains the total loss, then the losses of the
    outputs, then the metrics by name. `count` is the number of outputs.
    """
    names = list(logs)
    if count > 1:
        losses = [name for name in names if name == "loss" or name.endswith("_loss")]
        names = [*losses, *sorted(name for name in names if name not in losses)]
    return logs[names[0]] if len(names) == 1 else [logs[name] for name in names]
