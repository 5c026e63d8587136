"""`ipu_teach.keras.data`: samples in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ipu_teach.errors import ModelError
from ipu_teach.frontends.keras import layers
from ipu_teach.frontends.session import whole


@dataclass(frozen=True)
class Dataset:
    """Arrays whose first dimension counts samples, and how they come: each method returns another
    one. What is shuffled has a new order in each epoch."""

    arrays: tuple[Any, ...]
    size: int = 0
    drop: bool = False
    shuffled: bool = False
    times: float = 1

    @classmethod
    def from_tensor_slices(cls, arrays: Any) -> Dataset:
        """Of one array, or of several that belong together. Raises `ModelError`."""
        several = arrays if isinstance(arrays, tuple) else (arrays,)
        made = cls(tuple(np.asarray(a) for a in several))
        if len({len(a) for a in made.arrays}) != 1 or not len(made.arrays[0]):
            lengths = " and ".join(f"{len(a):,}" for a in made.arrays)
            raise ModelError(f"""Arrays of {lengths} samples were given together.
                next:  give arrays with one entry for each sample, and at least one.""")
        return made

    def batch(self, size: int, drop_remainder: bool = False) -> Dataset:
        """In batches; `drop_remainder`: without what is left behind the last whole one."""
        return replace(self, size=whole("batch()", size), drop=drop_remainder)

    def shuffle(self, buffer_size: int = 0, seed: int | None = None) -> Dataset:
        """In any order. All samples are there, so it is of all of them whatever `buffer_size`."""
        if seed is not None:
            layers.set_random_seed(seed)
        return replace(self, shuffled=True)

    def repeat(self, count: int = -1) -> Dataset:
        """Again and again; `steps_per_epoch` says where an epoch ends."""
        return replace(self, times=float("inf") if count < 0 else self.times * count)

    def prefetch(self, buffer_size: int = 0) -> Dataset:
        """The same: there is nothing to wait for."""
        return self

    def cache(self) -> Dataset:
        """The same: all of it is in memory."""
        return self

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return len(self.arrays[0])

    def batches(self) -> Iterator[tuple[Any, ...]]:
        """The whole batches, without an end where it repeats."""
        time = 0
        while time < self.times:
            time += 1
            n = self.samples
            rows: Any = layers.rng.permutation(n) if self.shuffled else np.arange(n)
            for start in range(0, n - self.size + 1, self.size):
                yield tuple(a[rows[start : start + self.size]] for a in self.arrays)


def to_categorical(classes: Any, num_classes: int | None = None) -> Any:
    """A row for each class number: 1 at its place, and 0. Raises `ModelError`."""
    numbers = np.asarray(classes).reshape(-1)
    count = int(numbers.max()) + 1 if num_classes is None else num_classes
    if numbers.min() < 0 or numbers.max() >= count:
        raise ModelError(f"""to_categorical() was given the classes {numbers.min()} to
            {numbers.max()}, for {count} classes.
            next:  number the classes from 0 to {count - 1}.""")
    return np.eye(count, dtype=np.float32)[numbers]
