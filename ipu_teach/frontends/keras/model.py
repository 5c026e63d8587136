"""Keras models, which connect layers, are trained on the device, and predict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from math import prod
from os import PathLike
from typing import Annotated, NamedTuple, NoReturn

import numpy as np

from ipu_teach.arguments import (
    Among,
    Argument,
    Between,
    Count,
    Natural,
    Share,
    Taken,
    check_calls,
)
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras import batches as data
from ipu_teach.frontends.keras.batches import ArrayFeed, Batch, Feed, IteratorFeed
from ipu_teach.frontends.keras.callbacks import Callback, History
from ipu_teach.frontends.keras.compiled import EVALUATE, FIT, PREDICT, Compiled
from ipu_teach.frontends.keras.layers.base import INPUT_DTYPES, Layer, Node
from ipu_teach.frontends.keras.layers.core import InputLayer
from ipu_teach.frontends.keras.network import Nodes
from ipu_teach.frontends.keras.objectives import Means, in_order
from ipu_teach.types import Array

Verbose = bool | Annotated[int, Between(0, 2)] | Annotated[str, Among(("auto",))]
Samples = Annotated[
    Argument,
    Taken(
        data.is_data,
        "give an array whose first dimension counts samples, a list or dict of arrays, a Dataset, "
        "a generator of batches, or a PyDataset.",
    ),
]
Logs = dict[str, float]


def _is_validation(value: Argument) -> bool:
    """Return whether a value is data in batches, or a tuple (x, y) or (x, y, sample_weight)."""
    if isinstance(value, (tuple, list)):
        return len(value) in (2, 3) and all(data.is_data(part) for part in value)
    return data.is_data(value) and not data.is_arrays(value)


Validation = Annotated[
    Argument,
    Taken(
        _is_validation,
        "give a tuple of arrays, (x, y) or (x, y, sample_weight), or data in batches.",
    ),
]
Targets = Annotated[
    Argument,
    Taken(
        lambda v: v is None or data.is_arrays(v),
        "give an array with a target for each sample, or a list or dict of arrays.",
    ),
]
Weights = Annotated[
    Argument,
    Taken(
        lambda v: v is None or data.is_arrays(v),
        "give an array with a weight for each sample.",
    ),
]
ClassWeights = Mapping[Annotated[int, Between(-(2**31))], float]
Callbacks = Sequence[Callback] | Callback | None
Frequency = Count | Sequence[Count]


class _Plan(NamedTuple):
    """The data for `fit`: training and validation batches, and the epochs that end with validation.

    `stream` is an iterator over the batches of all epochs, or None if each epoch reads the
    batches of `feed` from the start.
    """

    feed: Feed
    stream: Iterator[Batch] | None
    steps: int | None
    validation: Feed | None
    validation_steps: int | None
    validation_freq: int | Sequence[int]
    verbose: bool | int | str


class Model(Compiled):
    """A model: the layers that were called between inputs and outputs.

    `inputs` and `outputs` are nodes, or lists of nodes. `compiles` contains a sentence about each
    compilation for the device.

    :raises ModelError: if an output does not depend on the inputs, or also depends on another
        input, and if two layers have the same name.
    """

    def __init__(
        self,
        inputs: Nodes | None = None,
        outputs: Nodes | None = None,
        name: str | None = None,
    ) -> None:
        if inputs is None or outputs is None:
            raise misuse(
                f"{type(self).__name__}() was created without inputs and outputs.",
                "pass them: inputs = Input((64,)), then Model(inputs, Dense(10)(inputs)); for code "
                "of your own, write a Layer with a method call.",
            )
        super().__init__(inputs, outputs, name or "model")
        self.last_outputs: dict[str, Array] = {}

    # --- fit ---

    def fit(
        self,
        x: Samples,
        y: Targets = None,
        batch_size: Count | None = None,
        epochs: Natural = 1,
        verbose: Verbose = 1,
        callbacks: Callbacks = None,
        validation_split: Share = 0.0,
        validation_data: Validation | None = None,
        shuffle: bool = True,
        class_weight: ClassWeights | None = None,
        sample_weight: Weights = None,
        initial_epoch: Natural = 0,
        steps_per_epoch: Count | None = None,
        validation_steps: Count | None = None,
        validation_batch_size: Count | None = None,
        validation_freq: Frequency = 1,
    ) -> History:
        """Train the model, and return a record of the mean loss and metrics of each epoch.

        `x` is an array, a list or dict of arrays for a model with several inputs, a `Dataset`, a
        generator of batches, or a `PyDataset`. The epochs are numbered from `initial_epoch` to
        `epochs` - 1. `steps_per_epoch` is the number of batches in an epoch; by default, an epoch
        uses all batches. Each loss is multiplied by its `sample_weight`, or by the weight of its
        class in `class_weight`. `validation_data`, or the last `validation_split` of the samples,
        are evaluated after each epoch, or after each `validation_freq` epochs. Ctrl-C ends the
        training after the current run, and the model keeps the weights of that run.

        :raises ModelError: if the samples do not fill complete runs, before `compile` is called,
            and if the model was created outside of an IPUStrategy's scope.
        """
        self._check_compiled(FIT)
        if validation_split and validation_data is None:
            x, y, sample_weight, validation_data = self._split(
                x, y, sample_weight, validation_split
            )
        feed = data.feed_of(
            x,
            y,
            sample_weight,
            self.names,
            size=batch_size,
            is_shuffled=shuffle,
            class_weight=class_weight,
        )
        steps = self._steps_of(FIT, feed, steps_per_epoch)
        validation = self._validation(validation_data, validation_batch_size or batch_size)
        self._check_repeats(feed, steps, epochs - initial_epoch)
        stream = _forever(feed) if steps_per_epoch is not None else None
        plan = _Plan(feed, stream, steps, validation, validation_steps, validation_freq, verbose)
        return self._train(plan, range(initial_epoch, epochs), _listed(callbacks))

    def _train(self, plan: _Plan, epochs: range, callbacks: list[Callback]) -> History:
        """Train for the epochs with the given numbers, and return a record of these epochs."""
        history = History()
        self.stop_training = False
        all_callbacks = [*callbacks, history]
        for callback in all_callbacks:
            callback.model = self
            callback.on_train_begin({})
        logs: Logs = {}
        for epoch in epochs:
            plan.feed.begin()
            logs = self._train_epoch(plan, epoch, epochs.stop, all_callbacks)
            if plan.validation is not None and _is_due(epoch, plan.validation_freq):
                figures = self._evaluated(plan.validation, plan.validation_steps)
                logs |= {f"val_{name}": value for name, value in figures.items()}
            plan.feed.end()
            if plan.verbose:
                text = ", ".join(f"{name} {value:.4f}" for name, value in logs.items())
                print(f"Epoch {epoch + 1}/{epochs.stop}: {text}")
            for callback in all_callbacks:
                callback.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        for callback in all_callbacks:
            callback.on_train_end(logs)
        return history

    def _split(
        self, x: Argument, y: Argument, weights: Argument, part: float
    ) -> tuple[Argument, Argument, Argument, Argument]:
        """Split arrays for `validation_split`: return (x, y, sample_weight, validation data)."""
        if not data.is_arrays(x):
            raise misuse(
                f"validation_split was given together with data of the class {type(x).__name__}.",
                "pass arrays, or pass validation_data.",
            )
        training, validation = data.split(data.samples_of(x, y, weights, self.names), part)
        parts = [[list(arrays) or None for arrays in batch] for batch in (training, validation)]
        train_x, train_y, train_weights = parts[0]
        held_out = tuple(item for item in parts[1] if item is not None)
        return train_x, train_y, train_weights, held_out

    def _validation(self, validation: Argument, size: int | None) -> Feed | None:
        """Return the batches of validation data, or None if there are no validation data."""
        if validation is None:
            return None
        parts = validation if isinstance(validation, (tuple, list)) else (validation,)
        x, y, weights = (*parts, None, None)[:3]
        return data.feed_of(x, y, weights, self.names, size=size)

    def _check_repeats(self, feed: Feed, steps: int | None, epochs: int) -> None:
        """Raise `ModelError` if a generator is used for several epochs, but `steps` is None."""
        if isinstance(feed, IteratorFeed) and steps is None and epochs > 1:
            raise misuse(
                f"fit() was given a generator for {epochs} epochs, but not the number of batches "
                "in an epoch.",
                "pass steps_per_epoch, and a generator that yields batches for all epochs.",
            )

    def _train_epoch(
        self, plan: _Plan, epoch: int, epochs: int, callbacks: Sequence[Callback]
    ) -> Logs:
        """Train for one of `epochs` epochs, and return the mean loss and metrics by name."""
        for callback in callbacks:
            callback.on_epoch_begin(epoch, {})
        label = f"epoch {epoch + 1} of {epochs}"
        stream = plan.stream or plan.feed.epoch()
        means = Means()
        per_run = prod(self._factors(FIT).values())
        for number, (outputs, size) in enumerate(
            self._outputs(FIT, stream, plan.steps, label, plan.verbose)
        ):
            means.add(outputs, size)
            self.last_outputs = outputs
            for callback in callbacks:
                callback.on_train_batch_end((number + 1) * per_run - 1, means.logs)
        return means.logs

    # --- evaluate and predict ---

    def evaluate(
        self,
        x: Samples,
        y: Targets = None,
        batch_size: Count | None = None,
        verbose: Verbose = 0,
        sample_weight: Weights = None,
        steps: Count | None = None,
        callbacks: None = None,
        return_dict: bool = False,
    ) -> float | list[float] | dict[str, float]:
        """Return the loss, or a list of the loss and the metrics if there are metrics.

        If `return_dict`, return a dict with the loss and the metrics by name.

        :raises ModelError: if `compile` has not been called, or if there are fewer batches than
            `steps`.
        """
        self._check_compiled(EVALUATE)
        feed = data.feed_of(x, y, sample_weight, self.names, size=batch_size)
        logs = self._evaluated(feed, steps, verbose)
        return logs if return_dict else in_order(logs, len(self.outputs))

    def _evaluated(
        self, feed: Feed, steps: int | None, verbose: bool | int | str = 0
    ) -> dict[str, float]:
        """Return the loss and the metrics by name."""
        means = Means()
        count = self._steps_of(EVALUATE, feed, steps)
        for outputs, size in self._outputs(EVALUATE, feed.epoch(), count, EVALUATE, verbose):
            means.add(outputs, size)
        return means.logs

    def predict(
        self,
        x: Samples,
        batch_size: Count | None = None,
        verbose: Verbose = 0,
        steps: Count | None = None,
        callbacks: None = None,
    ) -> Array | list[Array]:
        """Return the model's output for each sample, or a list of outputs if the model has several.

        An incomplete last batch of arrays is filled with zeros, whose outputs are discarded.
        """
        feed = data.feed_of(x, None, None, self.names, size=batch_size)
        count = None
        if isinstance(feed, ArrayFeed):
            count = feed.samples
            feed = ArrayFeed(_padded(feed.batch, feed.size), feed.size, False)
        steps = self._steps_of(PREDICT, feed, steps)
        outputs = [o for o, _ in self._outputs(PREDICT, feed.epoch(), steps, PREDICT, verbose)]
        results = [
            np.concatenate([array[0] for array in arrays])[:count]
            for arrays in zip(*(output.values() for output in outputs), strict=True)
        ]
        return results[0] if len(results) == 1 else results

    def __call__(self, *inputs: object) -> NoReturn:
        """Raise `ModelError`, because a model cannot be called like a layer."""
        raise misuse(
            f"The model {self.name!r} was called.",
            "call model.predict(x) with arrays. To apply the model to the result of a layer, call "
            "its layers instead.",
        )

    # --- single batches ---

    def train_on_batch(
        self,
        x: Samples,
        y: Targets = None,
        sample_weight: Weights = None,
        class_weight: ClassWeights | None = None,
        return_dict: bool = False,
    ) -> float | list[float] | dict[str, float]:
        """Train with one batch, and return its loss and metrics as `evaluate` does.

        :raises ModelError: before `compile` is called, and if a run of `fit` takes several batches
            (several steps, accumulation or replicas).
        """
        factors = self._factors(FIT)
        if prod(factors.values()) > 1:
            raise misuse(
                "train_on_batch() was called, but a run takes several batches: "
                f"{' * '.join(f'{name} {n}' for name, n in factors.items())}.",
                "use fit(), or steps_per_execution=1 on one IPU without accumulation.",
            )
        return self._on_batch(FIT, (x, y, sample_weight), class_weight, return_dict)

    def test_on_batch(
        self,
        x: Samples,
        y: Targets = None,
        sample_weight: Weights = None,
        return_dict: bool = False,
    ) -> float | list[float] | dict[str, float]:
        """Return the loss and metrics of one batch, as `evaluate` does."""
        self._check_compiled(EVALUATE)
        return self._on_batch(EVALUATE, (x, y, sample_weight), None, return_dict)

    def _on_batch(
        self,
        mode: str,
        parts: tuple[Argument, Argument, Argument],
        class_weight: Mapping[int, float] | None,
        return_dict: bool,
    ) -> float | list[float] | dict[str, float]:
        """Run one batch, and return its loss and metrics."""
        batch = data.samples_of(*parts, self.names)
        if class_weight is not None:
            batch = data.class_weights(batch, class_weight)
        means = Means()
        for outputs, size in self._outputs(mode, iter([batch]), 1, f"{mode} a batch"):
            means.add(outputs, size)
        return means.logs if return_dict else in_order(means.logs, len(self.outputs))

    def predict_on_batch(self, x: Samples) -> Array | list[Array]:
        """Return the output of the model for each sample of one batch."""
        batch = data.samples_of(x, None, None, self.names)
        (outputs,) = [o for o, _ in self._outputs(PREDICT, iter([batch]), 1, PREDICT)]
        results = [array[0] for array in outputs.values()]
        return results[0] if len(results) == 1 else results

    # --- files ---

    def save(self, filepath: str | PathLike[str], overwrite: bool = True) -> None:
        """Write the model to a file in the format of `ipu_teach`, which `load_model` reads.

        The file contains the layers, the weights, the arguments of `compile` and the optimiser's
        state, so that a training can continue.

        :raises ModelError: for an argument that a file cannot contain, such as a function as a
            loss, metric or initialiser, and if the file exists and `overwrite` is False.
        """
        from ipu_teach.frontends.keras.saving import save_model

        save_model(self, filepath, overwrite)

    def save_weights(self, filepath: str | PathLike[str], overwrite: bool = True) -> None:
        """Write all weights to a file in the format of `ipu_teach`.

        The file contains a graph that has only variables.
        """
        from ipu_teach.frontends.keras.saving import save_weights

        save_weights(self, filepath, overwrite)

    def load_weights(self, filepath: str | PathLike[str]) -> None:
        """Set the weights to the arrays in a file that `save_weights` or `save` has written.

        They are assigned in the order of the layers.

        :raises ModelLoadError: if the file is damaged, or if a weight has another shape.
        """
        from ipu_teach.frontends.keras.saving import load_weights

        load_weights(self, filepath)


class Sequential(Model):
    """A model whose layers run one after another.

    The first layer needs an `input_shape`, or an `Input` before it. Layers may be added until the
    model is used.
    """

    def __init__(
        self, layers: Sequence[Layer | Node] | None = None, name: str | None = None
    ) -> None:
        self._parts = [*(layers or ())]
        self._title = name or "sequential"
        if self._parts:
            self._chain()

    def add(self, layer: Layer | Node) -> None:
        """Add a layer after the last layer."""
        self._parts.append(layer)
        self._chain()

    def __getattr__(self, name: str) -> NoReturn:
        if (
            name in ("layers", "outputs", "nodes", "_current_run", "_config", "objectives")
            and not self._parts
        ):
            raise ModelError("""The model has no layers yet.
                next:  add a layer: model.add(Dense(10, input_shape=(64,))).""")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _chain(self) -> None:
        """Build the model from the layers so far.

        :raises ModelError: if the shape of the input is unknown, if an item is not a layer, or if
            a layer returns several results.
        """
        first_part, *layers = self._parts
        if isinstance(first_part, Node):
            node = first_part
        elif isinstance(first_part, InputLayer):
            dtype = first_part.input_dtype
            node = Node(
                first_part.input_shape or (),
                INPUT_DTYPES[dtype or "float32"],
                is_declared=dtype is not None,
            )
        elif first_part.input_shape is not None:
            node = Node(first_part.input_shape)
            layers = self._parts
        else:
            raise ModelError(f"""The first layer of a Sequential, {first_part.kind}, has no input
                shape.
                next:  pass the shape of a sample to it, as in
                {type(first_part).__name__}(…, input_shape=(64,)), or put Input((64,)) before
                it.""")
        input_node = node
        for layer in layers:
            if not isinstance(layer, Layer):
                raise ModelError(f"""A Sequential was given {shown(layer)}, which is not a layer.
                    next:  pass layers, as in Sequential([Dense(10, input_shape=(64,))]).""")
            result = layer(node)
            if not isinstance(result, Node):
                raise misuse(
                    f"The layer {layer.kind} of a Sequential returns several results.",
                    "leave return_state out, or connect the layers with Model(inputs, outputs).",
                )
            node = result
        super().__init__(input_node, node, self._title)


def _listed(callbacks: Callbacks) -> list[Callback]:
    """Return a list of callbacks."""
    if callbacks is None:
        return []
    return [callbacks] if isinstance(callbacks, Callback) else [*callbacks]


def _forever(feed: Feed) -> Iterator[Batch]:
    """Yield the batches of one epoch after another. An iterator provides only one epoch."""
    if isinstance(feed, IteratorFeed):
        return feed.epoch()
    return chain.from_iterable(feed.epoch() for _ in repeat(None))


def _is_due(epoch: int, frequency: int | Sequence[int]) -> bool:
    """Return whether the validation data are evaluated after the epoch with this number."""
    if isinstance(frequency, (int, np.integer)):
        return not (epoch + 1) % frequency
    return epoch + 1 in frequency


def _padded(batch: Batch, size: int) -> Batch:
    """Return samples, extended with zeros so that they fill batches of `size` samples."""
    padding = -batch.size % size
    arrays = [np.asarray(array) for array in batch.x]
    return Batch(
        tuple(np.concatenate([a, np.zeros((padding, *a.shape[1:]), a.dtype)]) for a in arrays)
    )


check_calls(globals(), misuse)
