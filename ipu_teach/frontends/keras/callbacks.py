"""`ipu_teach.keras.callbacks`: what is asked after each epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any

from ipu_teach.arguments import Among, Between, Natural, advised, check_calls
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import misuse

Logs = Mapping[str, float]
Mode = Annotated[str, Among(("auto", "min", "max"))]
Distance = Annotated[float, Between(0)]


@advised("give a keras.callbacks.Callback, as EarlyStopping().")
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

    monitor: str
    patience: int
    min_delta: float
    mode: str

    def __post_init__(self) -> None:
        self.up = self.mode == "max" or self.mode == "auto" and "acc" in self.monitor

    def on_train_begin(self) -> None:
        """Forget what was seen."""
        self.best, self.waited = (-inf if self.up else inf), 0

    def better(self, logs: Logs) -> bool:
        """Whether it is the best so far; if not, one more was waited for."""
        if self.monitor not in logs:
            raise ModelError(f"""{type(self).__name__} watches {shown(self.monitor)}, and an epoch
                has {", ".join(logs)}.
                next:  watch one of these; val_loss wants fit(…, validation_data=(x, y)).""")
        now = logs[self.monitor]
        if (now - self.best if self.up else self.best - now) > abs(self.min_delta):
            self.best, self.waited = now, 0
            return True
        self.waited += 1
        return False


@dataclass(eq=False)
class EarlyStopping(_Watch):
    """Ends a training after `patience` epochs that were not better; `restore_best_weights`: with
    those of the best."""

    monitor: str = "val_loss"
    min_delta: float = 0.0
    patience: Natural = 0
    mode: Mode = "auto"
    restore_best_weights: bool = False
    stopped_epoch = 0
    kept: Sequence[Any] = field(default=(), init=False, repr=False)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        if self.better(logs):
            self.kept = self.model.get_weights() if self.restore_best_weights else ()
        elif self.waited >= max(self.patience, 1):
            self.stopped_epoch, self.model.stop_training = epoch, True

    def on_train_end(self) -> None:
        if self.kept and self.model.stop_training:
            self.model.set_weights(self.kept)


@dataclass(eq=False)
class ReduceLROnPlateau(_Watch):
    """The rate times `factor` after `patience` epochs that were not better, down to `min_lr`."""

    monitor: str = "val_loss"
    factor: Distance = 0.1
    patience: Natural = 10
    mode: Mode = "auto"
    min_delta: float = 1e-4
    cooldown: Natural = 0
    min_lr: Distance = 0.0
    rest = 0

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        better = self.better(logs)
        if self.rest:
            self.rest, self.waited = self.rest - 1, 0
        elif not better and self.waited >= max(self.patience, 1):
            optimizer = self.model.optimizer
            optimizer.learning_rate = max(optimizer.learning_rate * self.factor, self.min_lr)
            self.rest, self.waited = self.cooldown, 0


__all__ = ["Callback", "EarlyStopping", "History", "ReduceLROnPlateau"]


check_calls(globals(), misuse)
