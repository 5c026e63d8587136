"""Callbacks: objects whose methods `fit` calls during training, such as after each epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated

from ipu_teach.arguments import Among, Between, Natural, Taken, advised, check_calls, is_finite
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.frontends.keras.model import Model

# Losses may be infinite or NaN if a training diverges.
Logs = dict[str, Annotated[float, Taken(lambda v: isinstance(v, float), "give a number.")]]
Mode = Annotated[str, Among(("auto", "min", "max"))]
Distance = Annotated[float, Between(0)]


@advised("give a keras.callbacks.Callback, such as EarlyStopping().")
class Callback:
    """The base class of callbacks, whose methods `fit` calls during training.

    To end the training after the current epoch, a callback sets `model.stop_training` to True.
    """

    model: Model = None  # type: ignore[assignment]  # set by fit

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Do nothing by default. `fit` calls this method at the start of a training."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Do nothing by default. `fit` calls this method at the start of an epoch.

        Epochs are numbered from 0.
        """

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Do nothing by default. `fit` calls this method at the end of an epoch.

        `logs` contains the mean loss and metrics over the epoch by name, such as "loss". If a
        callback adds a value to `logs`, the value becomes part of the history.
        """

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Do nothing by default. `fit` calls this method after each run of the device.

        `batch` is the number of the run's last batch in the epoch. `logs` contains the mean loss
        and metrics over the epoch so far. `model.last_outputs` maps the name of the loss and of
        each metric to an array with an entry for each batch of the run.
        """

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Do nothing by default. `fit` calls this method at the end of a training."""


class History(Callback):
    """A record of the mean loss and metrics of each epoch.

    `history` maps the name of the loss and of each metric to a list with an entry for each epoch.
    `epoch` is the list of the epochs' numbers.
    """

    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[float]] = {}

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)


@dataclass(eq=False)
class _Watch(Callback):
    """The base class of callbacks that watch the loss or metric with the name `monitor`.

    `best` is the best value so far, or None. In the mode "auto", higher values are better if the
    name contains "acc".
    """

    monitor: str
    mode: str
    min_delta: float
    verbose: int

    def start(self, best: float | None = None) -> None:
        """Set the best value to `best`, and the number of epochs without improvement to 0."""
        self.higher_is_better = self.mode == "max" or self.mode == "auto" and "acc" in self.monitor
        self.best = best
        self.waited = 0

    def value(self, logs: Logs | None) -> float:
        """Return the value of the loss or metric `monitor` in the logs of an epoch.

        :raises ModelError: if `logs` does not contain the name `monitor`.
        """
        if logs is None or self.monitor not in logs:
            raise ModelError(f"""{type(self).__name__} has monitor={shown(self.monitor)}, but the
                epochs have only the values {", ".join(logs or {})}.
                next:  set monitor to one of these. For val_loss, call fit() with
                validation_data=(x, y).""")
        return logs[self.monitor]

    def is_better(self, figure: float, reference: float | None) -> bool:
        """Return whether a value is better than `reference` by more than `min_delta`."""
        if reference is None:
            return True
        gain = figure - reference if self.higher_is_better else reference - figure
        return gain > abs(self.min_delta)

    def say(self, epoch: int, text: str) -> None:
        """Print a message about an epoch if `verbose` is not 0."""
        if self.verbose:
            print(f"Epoch {epoch + 1}: {text}")


class EarlyStopping(_Watch):
    """A callback that ends a training when a loss or metric stops improving.

    The training ends after `patience` epochs without an improvement, or after one such epoch if
    `patience` is 0. An epoch is an improvement if its value with the name `monitor` is better than
    the best value by more than `min_delta`. With a `baseline`, an improvement counts only if the
    value is also better than the baseline. Higher values are better in the mode "max", and lower
    values in "min". "auto" means "max" for names that contain "acc", and "min" for all others. The
    first `start_from_epoch` epochs do not count. If `restore_best_weights`, the model gets the
    weights of the best epoch at the end.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: Natural = 0,
        verbose: Natural = 0,
        mode: Mode = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: Natural = 0,
    ) -> None:
        super().__init__(monitor, mode, min_delta, verbose)
        self.patience = patience
        self.baseline = baseline
        self.restore_best_weights = restore_best_weights
        self.start_from_epoch = start_from_epoch
        self.stopped_epoch = 0
        self.best_epoch = 0
        self.best_weights: Sequence[Array] | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.start()
        self.stopped_epoch = 0
        self.best_epoch = 0
        self.best_weights = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        figure = self.value(logs)
        if epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights = self.model.get_weights()
            self.best_epoch = epoch
        self.waited += 1
        if self.is_better(figure, self.best):
            self.best = figure
            self.best_epoch = epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self.is_better(figure, self.baseline):
                self.waited = 0
        elif self.waited >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.stopped_epoch:
            self.say(self.stopped_epoch, "early stopping")
        if self.best_weights is not None:
            self.say(self.best_epoch, "the model has the weights of this epoch")
            self.model.set_weights(self.best_weights)


class ReduceLROnPlateau(_Watch):
    """A callback that reduces the learning rate when a loss or metric stops improving.

    After `patience` epochs without an improvement, the rate is multiplied by `factor`, but does not
    fall below `min_lr`. After a reduction, the next `cooldown` epochs do not count. `monitor`,
    `min_delta` and `mode` are as in `EarlyStopping`. The history contains the "learning_rate".
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: Annotated[float, Between(0, 1, is_open=True)] = 0.1,
        patience: Natural = 10,
        verbose: Natural = 0,
        mode: Mode = "auto",
        min_delta: float = 1e-4,
        cooldown: Natural = 0,
        min_lr: Distance = 0.0,
    ) -> None:
        super().__init__(monitor, mode, min_delta, verbose)
        self.factor = factor
        self.patience = patience
        self.cooldown = cooldown
        self.min_lr = min_lr
        self.cooldown_left = 0

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.start()
        self.cooldown_left = 0

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        optimizer = self.model.optimizer
        figure = self.value(logs)
        if logs is not None:
            logs["learning_rate"] = optimizer.learning_rate
        if self.cooldown_left:
            self.cooldown_left -= 1
            self.waited = 0
        if self.is_better(figure, self.best):
            self.best = figure
            self.waited = 0
        elif not self.cooldown_left:
            self.waited += 1
            if self.waited >= self.patience and optimizer.learning_rate > self.min_lr:
                optimizer.learning_rate = max(optimizer.learning_rate * self.factor, self.min_lr)
                self.say(epoch, f"the learning rate is now {optimizer.learning_rate:g}")
                self.cooldown_left = self.cooldown
                self.waited = 0


class LearningRateScheduler(Callback):
    """A callback that sets the learning rate at the start of each epoch.

    `schedule(epoch, rate)` or `schedule(epoch)` returns the new rate; epochs are numbered from 0.
    The history contains the "learning_rate".
    """

    def __init__(self, schedule: Callable[..., float], verbose: Natural = 0) -> None:
        self.schedule = schedule
        self.verbose = verbose

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        optimizer = self.model.optimizer
        try:
            signature(self.schedule).bind(epoch, optimizer.learning_rate)
            rate = self.schedule(epoch, optimizer.learning_rate)
        except TypeError:
            rate = self.schedule(epoch)
        if not is_finite(rate) or rate < 0:
            raise misuse(
                f"The schedule of LearningRateScheduler returned {shown(rate)} for epoch {epoch}.",
                "return a number of 0 or more, such as 0.1 * 0.9**epoch.",
            )
        optimizer.learning_rate = float(rate)
        if self.verbose:
            print(f"Epoch {epoch + 1}: the learning rate is now {optimizer.learning_rate:g}")

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs["learning_rate"] = self.model.optimizer.learning_rate


class ModelCheckpoint(_Watch):
    """A callback that saves the model, or only its weights, after each epoch.

    `filepath` may contain placeholders with names from the logs, as in
    "net-{epoch:02d}-{val_loss:.2f}", where the first epoch is 1. With `save_best_only`, only an
    epoch that improves the value with the name `monitor` is saved. `Model.save` writes
    the files, or `Model.save_weights` with `save_weights_only`.
    """

    def __init__(
        self,
        filepath: str | PathLike[str],
        monitor: str = "val_loss",
        verbose: Natural = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: Mode = "auto",
        save_freq: Annotated[str, Among(("epoch",))] = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:
        super().__init__(monitor, mode, 0.0, verbose)
        self.filepath = fspath(filepath)
        self.save_best_only = save_best_only
        self.save_weights_only = save_weights_only
        self.threshold = initial_value_threshold

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.start(self.threshold)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.save_best_only:
            figure = self.value(logs)
            if not self.is_better(figure, self.best):
                return
            self.best = figure
        try:
            path = self.filepath.format(**{**(logs or {}), "epoch": epoch + 1})
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise misuse(
                f"ModelCheckpoint cannot fill its filepath {shown(self.filepath)}: "
                f"{type(error).__name__} {error}.",
                f"use only the names epoch, {', '.join(logs or {})}, as in 'net-{{epoch:02d}}'.",
            ) from None
        (self.model.save_weights if self.save_weights_only else self.model.save)(path)
        self.say(epoch, f"saved to {path}")


__all__ = ["Callback", "EarlyStopping", "History", "LearningRateScheduler", "ModelCheckpoint"]
__all__ += ["ReduceLROnPlateau"]


check_calls(globals(), misuse)
