"""Datasets for `ipu_teach.keras.data`: samples in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from ipu_teach.arguments import Between, Count, Extended, Natural, Numbers, check_calls, is_numeric
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import MAX_ELEMENTS, misuse
from ipu_teach.frontends.keras import layers
from ipu_teach.types import Array


@dataclass(frozen=True)
class Dataset:
    """Arrays whose first dimension counts samples, and how they are divided into batches.

    Each method returns another dataset. A shuffled dataset has a new order in each epoch.
    """

    arrays: tuple[Any, ...]
    size: Natural = 0
    drop: bool = False
    shuffled: bool = False
    times: Extended = 1

    @classmethod
    def from_tensor_slices(cls, arrays: object) -> Dataset:
        """Return a dataset of one array, or of a tuple of arrays with as many samples each.

        Raises `ModelError`.
        """
        parts = arrays if isinstance(arrays, tuple) else (arrays,)
        for array in parts:
            if not is_numeric(array) or not np.ndim(array):
                raise misuse(
                    f"from_tensor_slices() was given {shown(array)} as an array.",
                    "give an array of real numbers whose first dimension counts samples.",
                )
        dataset = cls(tuple(np.asarray(a) for a in parts))
        if not parts:
            raise misuse("from_tensor_slices() was given no arrays.", "give one or several.")
        if len({len(a) for a in dataset.arrays}) != 1 or not len(dataset.arrays[0]):
            lengths = " and ".join(f"{len(a):,}" for a in dataset.arrays)
            raise ModelError(f"""from_tensor_slices() was given arrays of {lengths} samples.
                next:  give arrays with one entry for each sample, and at least one.""")
        return dataset

    def batch(self, size: Count, drop_remainder: bool = False) -> Dataset:
        """Return a dataset in batches of `size`.

        With `drop_remainder`, the samples of an incomplete last batch are dropped.
        """
        return replace(self, size=size, drop=drop_remainder)

    def shuffle(self, buffer_size: Natural = 0, seed: Natural | None = None) -> Dataset:
        """Return a dataset in random order.

        All samples are shuffled together, whatever the `buffer_size`, because all are in memory.
        """
        if seed is not None:
            layers.set_random_seed(seed)
        return replace(self, shuffled=True)

    def repeat(self, count: Annotated[int, Between(-1)] = -1) -> Dataset:
        """Return a dataset that repeats `count` times; -1 means without end.

        `steps_per_epoch` of `fit` then gives the length of an epoch.
        """
        return replace(self, times=float("inf") if count < 0 else self.times * count)

    def prefetch(self, buffer_size: Annotated[int, Between(-1)] = 0) -> Dataset:
        """Return the same dataset, because all samples are in memory."""
        return self

    def cache(self) -> Dataset:
        """Return the same dataset, because all samples are in memory."""
        return self

    @property
    def samples(self) -> int:
        """The number of samples."""
        return len(self.arrays[0])

    def batches(self) -> Iterator[tuple[Array, ...]]:
        """Yield the complete batches, without end if the dataset repeats without end."""
        round_number = 0
        while round_number < self.times:
            round_number += 1
            n = self.samples
            rows = layers.rng.permutation(n) if self.shuffled else np.arange(n)
            for start in range(0, n - self.size + 1, self.size):
                yield tuple(a[rows[start : start + self.size]] for a in self.arrays)


def to_categorical(classes: Numbers, num_classes: Count | None = None) -> Array:
    """Return a row for each class number: 1 at the place of the class, and 0 elsewhere.

    By default there are as many classes as the largest number needs. Raises `ModelError`.
    """
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
            f"to_categorical() was given {numbers.size:,} numbers of {count:,} classes, whose "
            f"table has more than {MAX_ELEMENTS:,} elements.",
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
