"""Datasets for `ipu_teach.keras.data`: arrays of samples, divided into batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from ipu_teach.arguments import Between, Count, Extended, Natural, Numbers, check_calls, is_numeric
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import MAX_ELEMENTS, misuse
from ipu_teach.frontends.keras import layers
from ipu_teach.types import Array


@dataclass(frozen=True)
class Dataset:
    """Arrays of samples, and how they are divided into batches.

    The first dimension of each array counts samples. `size` is the number of samples in a batch, or
    0 before `batch` is called, `drop` says whether to drop an incomplete last batch, and `times` is
    the number of repetitions. Each method returns another dataset. A shuffled dataset has a new
    order in each epoch.
    """

    arrays: tuple[Array, ...]
    size: Natural = 0
    drop: bool = False
    shuffled: bool = False
    times: Extended = 1

    @classmethod
    def from_tensor_slices(cls, arrays: object) -> Dataset:
        """Return a dataset of one array, or of a tuple of arrays with equally many samples.

        Raises `ModelError` for anything else, and for arrays without samples.
        """
        array_tuple = arrays if isinstance(arrays, tuple) else (arrays,)
        for array in array_tuple:
            if not is_numeric(array) or not np.ndim(array):
                raise misuse(
                    f"from_tensor_slices() was given {shown(array)} as an array.",
                    "give an array of real numbers whose first dimension counts samples.",
                )
        dataset = cls(tuple(np.asarray(samples) for samples in array_tuple))
        if not array_tuple:
            raise misuse("from_tensor_slices() was given no arrays.", "give one or several.")
        if len({len(samples) for samples in dataset.arrays}) != 1 or not len(dataset.arrays[0]):
            lengths = " and ".join(f"{len(samples):,}" for samples in dataset.arrays)
            raise ModelError(f"""from_tensor_slices() was given arrays of {lengths} samples.
                next:  give arrays with one entry for each sample, and at least one.""")
        return dataset

    def batch(self, size: Count, drop_remainder: bool = False) -> Dataset:
        """Return the dataset divided into batches of `size` samples.

        With `drop_remainder`, the samples of an incomplete last batch are left out.
        """
        return replace(self, size=size, drop=drop_remainder)

    def shuffle(self, buffer_size: Natural = 0, seed: Natural | None = None) -> Dataset:
        """Return the dataset in random order.

        All samples are shuffled together, whatever the `buffer_size`, because all are in memory.
        `seed` is passed to `set_random_seed`.
        """
        if seed is not None:
            layers.set_random_seed(seed)
        return replace(self, shuffled=True)

    def repeat(self, count: Annotated[int, Between(-1)] = -1) -> Dataset:
        """Return the dataset repeated `count` times, or endlessly if `count` is -1.

        For an endless dataset, `steps_per_epoch` of `fit` is the length of an epoch.
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
        """Yield the complete batches, endlessly if the dataset repeats endlessly."""
        round_number = 0
        while round_number < self.times:
            round_number += 1
            n = self.samples
            rows = layers.rng.permutation(n) if self.shuffled else np.arange(n)
            for start in range(0, n - self.size + 1, self.size):
                yield tuple(a[rows[start : start + self.size]] for a in self.arrays)


def to_categorical(classes: Numbers, num_classes: Count | None = None) -> Array:
    """Return one row per class number, with a 1 in the column of the class and 0 elsewhere.

    By default, there are as many columns as the largest class number needs. Raises `ModelError` for
    numbers that are not integers, that are negative, or that are `num_classes` or more.
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
