"""Callbacks for `ipu_teach.keras.callbacks`, called before and after each epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any

from ipu_teach.arguments import Among, Between, Natural, advised, check_calls
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.types import Array

Logs = Mapping[str, float]
Mode = Annotated[str, Among(("auto", "min", "max"))]
Distance = Annotated[float, Between(0)]


@advised("give a keras.callbacks.Callback, as EarlyStopping().")
class Callback:
    """A base of callbacks, whose methods `fit` calls.

    Setting `model.stop_training` to True ends the training.
    """

    model: Any = None

    def on_train_begin(self) -> None:
        """Called at the start of a training."""

    def on_epoch_begin(self, epoch: int) -> None:
        """Called at the start of an epoch."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Called at the end of an epoch, with its mean figures, such as "loss"."""

    def on_train_batch_end(self, logs: Mapping[str, Array]) -> None:
        """Called after a run of the device, with arrays of the figures of its batches."""

    def on_train_end(self) -> None:
        """Called at the end of a training."""


class History(Callback):
    """Records the mean figures of each epoch in `history`, as a list by name.

    `epoch` has the numbers of the epochs.
    """

    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[float]] = {}

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)


class _Watch(Callback):
    """A base of callbacks that watch a figure.

    It counts in `waited` for how many epochs the figure has not improved by more than `min_delta`.
    """

    monitor: str
    patience: int
    min_delta: float
    mode: str

    def __post_init__(self) -> None:
        self.higher_is_better = self.mode == "max" or self.mode == "auto" and "acc" in self.monitor

    def on_train_begin(self) -> None:
        """Reset the best value and the count."""
        self.best = -inf if self.higher_is_better else inf
        self.waited = 0

    def has_improved(self, logs: Logs) -> bool:
        """Return whether the figure is the best so far; if it is not, count one more epoch.

        Raises `ModelError` if an epoch has no such figure.
        """
        if self.monitor not in logs:
            raise ModelError(f"""{type(self).__name__} watches {shown(self.monitor)}, but an epoch
                has {", ".join(logs)}.
                next:  watch one of these; val_loss needs fit(…, validation_data=(x, y)).""")
        current = logs[self.monitor]
        gain = current - self.best if self.higher_is_better else self.best - current
        if gain > abs(self.min_delta):
            self.best = current
            self.waited = 0
            return True
        self.waited += 1
        return False


@dataclass(eq=False)
class EarlyStopping(_Watch):
    """Ends a training if a figure has not improved for `patience` epochs.

    With `restore_best_weights`, the model then has the weights of the best epoch.
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
    """Multiplies the learning rate by `factor` if a figure has not improved for `patience` epochs.

    The rate does not go below `min_lr`. After a change, the next `cooldown` epochs do not count.
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
