"""Callbacks: objects whose methods `fit` calls during a training, such as after each epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Annotated

from ipu_teach.arguments import Among, Between, Natural, advised, check_calls
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.frontends.keras.model import Model

Logs = Mapping[str, float]
Mode = Annotated[str, Among(("auto", "min", "max"))]
Distance = Annotated[float, Between(0)]


@advised("give a keras.callbacks.Callback, such as EarlyStopping().")
class Callback:
    """The base class of callbacks, whose methods `fit` calls.

    To end the training after the current epoch, a callback sets `model.stop_training` to True.
    """

    model: Model = None  # type: ignore[assignment]  # set by fit

    def on_train_begin(self) -> None:
        """Do nothing by default. `fit` calls this method at the start of a training."""

    def on_epoch_begin(self, epoch: int) -> None:
        """Do nothing by default. `fit` calls this method at the start of an epoch.

        Epochs are numbered from 0.
        """

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Do nothing by default. `fit` calls this method at the end of an epoch.

        `logs` contains the mean loss and metrics over the epoch by name, such as "loss".
        """

    def on_train_batch_end(self, logs: Mapping[str, Array]) -> None:
        """Do nothing by default. `fit` calls this method after each run of the device.

        `logs` maps the name of the loss and of each metric to an array with an entry for each batch
        of the run.
        """

    def on_train_end(self) -> None:
        """Do nothing by default. `fit` calls this method at the end of a training."""


class History(Callback):
    """A record of the mean loss and metrics of each epoch.

    `history` maps the name of the loss and of each metric to a list with an entry for each epoch.
    `epoch` is the list of the epochs' numbers.
    """

    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[float]] = {}

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)


class _Watch(Callback):
    """The base class of callbacks that watch the loss or metric with the name `monitor`.

    `waited` is the number of epochs since the last improvement by more than `min_delta`. In the
    mode "auto", higher values are better if the name contains "acc".
    """

    monitor: str
    patience: int
    min_delta: float
    mode: str

    def __post_init__(self) -> None:
        self.higher_is_better = self.mode == "max" or self.mode == "auto" and "acc" in self.monitor

    def on_train_begin(self) -> None:
        """Forget the best value, and set the number of epochs without improvement to 0."""
        self.best = -inf if self.higher_is_better else inf
        self.waited = 0

    def has_improved(self, logs: Logs) -> bool:
        """Return whether `logs[monitor]` is better than the best value by more than `min_delta`.

        If it is better, it becomes the best value, and `waited` becomes 0. Otherwise, `waited`
        increases by 1. `logs` contains the loss and the metrics of an epoch.

        :raises ModelError: if `logs` does not contain the name `monitor`.
        """
        if self.monitor not in logs:
            raise ModelError(f"""{type(self).__name__} has monitor={shown(self.monitor)}, but the
                epochs have only the values {", ".join(logs)}.
                next:  set monitor to one of these. For val_loss, call fit() with
                validation_data=(x, y).""")
        figure = logs[self.monitor]
        gain = figure - self.best if self.higher_is_better else self.best - figure
        if gain > abs(self.min_delta):
            self.best = figure
            self.waited = 0
            return True
        self.waited += 1
        return False


@dataclass(eq=False)
class EarlyStopping(_Watch):
    """A callback that ends a training when a loss or metric stops improving.

    The training ends after `patience` epochs without an improvement, or after one such epoch if
    `patience` is 0. An epoch improves the value with the name `monitor` if it is better than the
    best value by more than `min_delta`. Higher values are better in the mode "max", and lower
    values in "min". "auto" means "max" for names that contain "acc", and "min" for all others. If
    `restore_best_weights` and a callback has ended the training, the model gets the weights of the
    best epoch. They are not restored after the last of all epochs.
    """

    monitor: str = "val_loss"
    min_delta: float = 0.0
    patience: Natural = 0
    mode: Mode = "auto"
    restore_best_weights: bool = False
    stopped_epoch = 0
    best_weights: Sequence[Array] = field(default=(), init=False, repr=False)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self.has_improved(logs):
            self.best_weights = self.model.get_weights() if self.restore_best_weights else ()
        elif self.waited >= max(self.patience, 1):
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self) -> None:
        if self.best_weights and self.model.stop_training:
            self.model.set_weights(self.best_weights)


@dataclass(eq=False)
class ReduceLROnPlateau(_Watch):
    """A callback that reduces the learning rate when a loss or metric stops improving.

    After `patience` epochs without an improvement, the rate is multiplied by `factor`, but does not
    fall below `min_lr`. After a reduction, the next `cooldown` epochs do not count. `monitor`,
    `min_delta` and `mode` are as in `EarlyStopping`.
    """

    monitor: str = "val_loss"
    factor: Distance = 0.1
    patience: Natural = 10
    mode: Mode = "auto"
    min_delta: float = 1e-4
    cooldown: Natural = 0
    min_lr: Distance = 0.0
    cooldown_left = 0

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        has_improved = self.has_improved(logs)
        if self.cooldown_left:
            self.cooldown_left -= 1
            self.waited = 0
        elif not has_improved and self.waited >= max(self.patience, 1):
            optimizer = self.model.optimizer
            optimizer.learning_rate = max(optimizer.learning_rate * self.factor, self.min_lr)
            self.cooldown_left = self.cooldown
            self.waited = 0


__all__ = ["Callback", "EarlyStopping", "History", "ReduceLROnPlateau"]


check_calls(globals(), misuse)
