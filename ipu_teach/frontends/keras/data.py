"""`ipu_teach.keras.data`: samples in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from ipu_teach.arguments import Between, Count, Extended, Natural, Numbers, check_calls, is_numeric
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import MAX_ELEMENTS, misuse
from ipu_teach.frontends.keras import layers


@dataclass(frozen=True)
class Dataset:
    """Arrays whose first dimension counts samples, and how they come: each method returns another
    one. What is shuffled has a new order in each epoch."""

    arrays: tuple[Any, ...]
    size: Natural = 0
    drop: bool = False
    shuffled: bool = False
    times: Extended = 1

    @classmethod
    def from_tensor_slices(cls, arrays: Any) -> Dataset:
        """Of one array, or of several that belong together. Raises `ModelError`."""
        several = arrays if isinstance(arrays, tuple) else (arrays,)
        for array in several:
            if not is_numeric(array) or not np.ndim(array):
                raise misuse(
                    f"from_tensor_slices() was given {shown(array)} as an array.",
                    "give an array of real numbers whose first dimension counts samples.",
                )
        made = cls(tuple(np.asarray(a) for a in several))
        if not several:
            raise misuse("from_tensor_slices() was given no arrays.", "give one or several.")
        if len({len(a) for a in made.arrays}) != 1 or not len(made.arrays[0]):
            lengths = " and ".join(f"{len(a):,}" for a in made.arrays)
            raise ModelError(f"""Arrays of {lengths} samples were given together.
                next:  give arrays with one entry for each sample, and at least one.""")
        return made

    def batch(self, size: Count, drop_remainder: bool = False) -> Dataset:
        """In batches; `drop_remainder`: without what is left behind the last whole one."""
        return replace(self, size=size, drop=drop_remainder)

    def shuffle(self, buffer_size: Natural = 0, seed: Natural | None = None) -> Dataset:
        """In any order. All samples are there, so it is of all of them whatever `buffer_size`."""
        if seed is not None:
            layers.set_random_seed(seed)
        return replace(self, shuffled=True)

    def repeat(self, count: Annotated[int, Between(-1)] = -1) -> Dataset:
        """Again and again; `steps_per_epoch` says where an epoch ends."""
        return replace(self, times=float("inf") if count < 0 else self.times * count)

    def prefetch(self, buffer_size: Annotated[int, Between(-1)] = 0) -> Dataset:
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


def to_categorical(classes: Numbers, num_classes: Count | None = None) -> Any:
    """A row for each class number: 1 at its place, and 0. Raises `ModelError`."""
    numbers = np.asarray(classes).reshape(-1)
    if numbers.dtype.kind not in "iu" and not np.array_equal(numbers, np.floor(numbers)):
        raise misuse(
            f"to_categorical() was given the classes {shown(classes)}.",
            "give whole numbers, from 0.",
        )
    if not numbers.size:
        return np.zeros((0, num_classes or 0), np.float32)
    count = int(numbers.max()) + 1 if num_classes is None else num_classes
    if numbers.size * count > MAX_ELEMENTS:
        raise misuse(
            f"to_categorical() was to make {numbers.size:,} rows of {count:,} classes.",
            "give fewer classes.",
        )
    if numbers.min() < 0 or numbers.max() >= count:
        raise ModelError(f"""to_categorical() was given the classes {numbers.min()} to
            {numbers.max()}, for {count} classes.
            next:  number the classes from 0 to {count - 1}.""")
    table = np.zeros((numbers.size, count), np.float32)
    table[np.arange(numbers.size), numbers.astype(np.int64)] = 1
    return table


check_calls(globals(), misuse)
