"""Datasets: arrays of samples, divided into batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from ipu_teach.arguments import Between, Count, Extended, Natural, Numbers, check_calls, is_numeric
from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.ir.values import MAX_ELEMENTS, misuse
from ipu_teach.frontends.keras.layers.initializers import rng, set_random_seed
from ipu_teach.types import Array


@dataclass(frozen=True)
class Dataset:
    """Arrays of samples, divided into batches.

    The methods return new datasets. A shuffled dataset has a new order in each epoch.

    - `arrays`: the arrays; the first dimension of each array has an entry for each sample.
    - `size`: the number of samples in a batch, or 0 before `batch` is called.
    - `drop`: whether an incomplete last batch is dropped.
    - `shuffled`: whether the samples are in random order.
    - `times`: the number of repetitions.
    """

    arrays: tuple[Array, ...]
    size: Natural = 0
    drop: bool = False
    shuffled: bool = False
    times: Extended = 1

    @classmethod
    def from_tensor_slices(cls, arrays: object) -> Dataset:
        """Return a dataset of one array, or of a tuple of arrays with the same number of samples.

        :raises ModelError: for any other argument, and for arrays without samples.
        """
        array_tuple = arrays if isinstance(arrays, tuple) else (arrays,)
        for array in array_tuple:
            if not is_numeric(array) or not np.ndim(array):
                raise misuse(
                    f"from_tensor_slices() was given {shown(array)}, which is not an array of "
                    "samples.",
                    "pass an array of real numbers whose first dimension counts samples.",
                )
        dataset = cls(tuple(np.asarray(samples) for samples in array_tuple))
        if not array_tuple:
            raise misuse(
                "from_tensor_slices() was given an empty tuple.",
                "pass an array, or a tuple of arrays: from_tensor_slices((x, y)).",
            )
        if len({len(samples) for samples in dataset.arrays}) != 1 or not len(dataset.arrays[0]):
            lengths = " and ".join(f"{len(samples):,}" for samples in dataset.arrays)
            raise ModelError(f"""from_tensor_slices() was given arrays of {lengths} samples, but all
                arrays must have the same number of samples, at least 1.
                next:  pass arrays whose first dimensions are equal.""")
        return dataset

    def batch(self, size: Count, drop_remainder: bool = False) -> Dataset:
        """Return the dataset divided into batches of `size` samples.

        If `drop_remainder` is true, an incomplete last batch is dropped.
        """
        return replace(self, size=size, drop=drop_remainder)

    def shuffle(self, buffer_size: Natural = 0, seed: Natural | None = None) -> Dataset:
        """Return the dataset in random order.

        `buffer_size` has no effect: all samples are shuffled together, because all are in memory.
        `seed` is passed to `set_random_seed`.
        """
        if seed is not None:
            set_random_seed(seed)
        return replace(self, shuffled=True)

    def repeat(self, count: Annotated[int, Between(-1)] = -1) -> Dataset:
        """Return the dataset repeated `count` times, or endlessly if `count` is -1.

        For an endless dataset, `fit` needs `steps_per_epoch`, the number of batches in an epoch.
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
        """Yield the batches; if the dataset repeats endlessly, yield batches endlessly.

        An incomplete last batch is yielded too, unless `drop` is true.
        """
        round_number = 0
        while round_number < self.times:
            round_number += 1
            n = self.samples
            rows = rng().permutation(n) if self.shuffled else np.arange(n)
            end = n - self.size + 1 if self.drop else n
            for start in range(0, end, self.size):
                yield tuple(a[rows[start : start + self.size]] for a in self.arrays)


def to_categorical(classes: Numbers, num_classes: Count | None = None) -> Array:
    """Return the one-hot encoding of class numbers, an array [numbers, classes].

    Each row has a 1 in the column of its class number, and 0 elsewhere. If `num_classes` is None,
    there are as many columns as the largest class number needs.

    :raises ModelError: if a number is not an integer, is negative, or is at least `num_classes`.
    """
    numbers = np.asarray(classes).reshape(-1)
    if numbers.dtype.kind not in "iu" and not np.array_equal(numbers, np.floor(numbers)):
        raise misuse(
            f"to_categorical() was given the classes {shown(classes)}, but the classes must be "
            "whole numbers.",
            "number the classes with whole numbers: 0, 1, 2 and so on.",
        )
    if not numbers.size:
        return np.zeros((0, num_classes or 0), np.float32)
    count = int(numbers.max()) + 1 if num_classes is None else num_classes
    if numbers.size * count > MAX_ELEMENTS:
        raise misuse(
            f"to_categorical() was given {numbers.size:,} numbers and {count:,} classes, so its "
            f"result would have more than {MAX_ELEMENTS:,} elements.",
            "use fewer classes.",
        )
    if numbers.min() < 0 or numbers.max() >= count:
        raise ModelError(f"""to_categorical() was given class numbers from {numbers.min()} to
            {numbers.max()}, but {count} classes have the numbers 0 to {count - 1}.
            next:  number the classes from 0 to {count - 1}, or pass a larger num_classes.""")
    table = np.zeros((numbers.size, count), np.float32)
    table[np.arange(numbers.size), numbers.astype(np.int64)] = 1
    return table


check_calls(globals(), misuse)
