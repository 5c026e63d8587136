"""`ipu_teach.keras.callbacks`: what is asked after each epoch."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.session import among

Logs = Mapping[str, float]


class Callback:
    """Asked before and after a training and each of its epochs; `model.stop_training = True` ends
    it."""

    model: Any = None

    def on_train_begin(self) -> None:
        """A training begins."""

    def on_epoch_begin(self, epoch: int) -> None:
        """An epoch begins."""

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """An epoch has ended, with these figures."""

    def on_train_batch_end(self, logs: Mapping[str, Any]) -> None:
        """A run of the device has ended, with the figures of each of its batches."""

    def on_train_end(self) -> None:
        """A training has ended."""


class History(Callback):
    """`history`: the figures of each epoch, a list for each name; `epoch`: their numbers."""

    def __init__(self) -> None:
        self.epoch: list[int] = []
        self.history: dict[str, list[float]] = {}

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)


class _Watch(Callback):
    """Asks whether a figure is better than the best by `min_delta`, and for how many epochs it was
    not."""

    def __init__(self, monitor: str, patience: int, min_delta: float, mode: str) -> None:
        self.monitor, self.patience, self.min_delta = monitor, patience, abs(min_delta)
        among("mode", mode, ["auto", "min", "max"])
        self.up = mode == "max" or mode == "auto" and "acc" in monitor
        self.begin()

    def begin(self) -> None:
        """Forget what was seen."""
        self.best, self.waited = (-inf if self.up else inf), 0

    def on_train_begin(self) -> None:
        self.begin()

    def better(self, logs: Logs) -> bool:
        """Whether it is the best so far; if not, one more was waited for."""
        if self.monitor not in logs:
            raise ModelError(f"""{type(self).__name__} watches {shown(self.monitor)}, and an epoch
                has {", ".join(logs)}.
                next:  watch one of these; val_loss wants fit(…, validation_data=(x, y)).""")
        now = logs[self.monitor]
        if now > self.best + self.min_delta if self.up else now < self.best - self.min_delta:
            self.best, self.waited = now, 0
            return True
        self.waited += 1
        return False


class EarlyStopping(_Watch):
    """Ends a training after `patience` epochs that were not better; `restore_best_weights`: with
    those of the best."""

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        mode: str = "auto",
        restore_best_weights: bool = False,
    ) -> None:
        super().__init__(monitor, patience, min_delta, mode)
        self.restore, self.stopped_epoch = restore_best_weights, 0
        self.kept: list[Any] = []

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self.better(logs):
            self.kept = self.model.get_weights() if self.restore else []
        elif self.waited >= max(self.patience, 1):
            self.stopped_epoch, self.model.stop_training = epoch, True

    def on_train_end(self) -> None:
        if self.kept and self.model.stop_training:
            self.model.set_weights(self.kept)


class ReduceLROnPlateau(_Watch):
    """The rate times `factor` after `patience` epochs that were not better, down to `min_lr`."""

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        super().__init__(monitor, patience, min_delta, mode)
        self.factor, self.cooldown, self.min_lr, self.rest = factor, cooldown, min_lr, 0

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        better = self.better(logs)
        if self.rest:
            self.rest, self.waited = self.rest - 1, 0
        elif not better and self.waited >= max(self.patience, 1):
            optimizer = self.model.optimizer
            optimizer.learning_rate = max(optimizer.learning_rate * self.factor, self.min_lr)
            self.rest, self.waited = self.cooldown, 0


__all__ = ["Callback", "EarlyStopping", "History", "ReduceLROnPlateau"]
