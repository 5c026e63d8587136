"""The data of fit, evaluate and predict: arrays, datasets, generators and sequences of batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ipu_teach.arguments import Argument, is_numeric
from ipu_teach.errors import ModelError, counted, shown
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.data import Dataset
from ipu_teach.frontends.keras.layers.initializers import rng
from ipu_teach.types import Array

Arrays = tuple[Array | None, ...]


class Batch(NamedTuple):
    """Samples: arrays for the inputs, and for the targets and sample weights of the outputs.

    The first dimension of each array has an entry for each sample. A target or a weight may be
    None.
    """

    x: Arrays
    y: Arrays = ()
    weights: Arrays = ()

    @property
    def size(self) -> int:
        """The number of samples."""
        return next(len(array) for array in self.x if array is not None)

    def part(self, rows: Array | slice) -> Batch:
        """Return the samples whose indices are in `rows`."""
        return Batch(*(tuple(None if a is None else a[rows] for a in arrays) for arrays in self))


@dataclass(frozen=True)
class Names:
    """The names of a model's inputs and outputs: the keys of data that are passed as dicts."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@runtime_checkable
class Indexed(Protocol):
    """An object with batches that are read by index, such as `keras.utils.PyDataset`."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Argument: ...


class PyDataset:
    """The base class of data that return a batch for an index.

    A subclass defines `__len__`, the number of batches, and `__getitem__(index)`, which returns
    (inputs, targets) or (inputs, targets, sample_weights) as arrays.
    """

    def __len__(self) -> int:
        raise misuse(
            f"{type(self).__name__} does not define __len__.",
            "define __len__(self), which returns the number of batches.",
        )

    def __getitem__(self, index: int) -> Argument:
        raise misuse(
            f"{type(self).__name__} does not define __getitem__.",
            "define __getitem__(self, index), which returns (inputs, targets) of a batch.",
        )

    def on_epoch_begin(self) -> None:
        """Do nothing by default. `fit` calls this method at the start of an epoch."""

    def on_epoch_end(self) -> None:
        """Do nothing by default. `fit` calls this method at the end of an epoch."""


class Feed:
    """The batches that a call of fit, evaluate or predict uses.

    - `size`: the number of samples in a batch, or 0 if it is not known.
    - `samples`: the number of samples in an epoch, or None if it is not known.
    - `steps`: the number of batches in an epoch, or None if it is not known.
    - `is_endless`: whether the batches repeat endlessly.
    """

    size = 0
    samples: int | None = None
    steps: int | None = None
    is_endless = False

    def epoch(self) -> Iterator[Batch]:
        """Yield the batches of an epoch."""
        raise NotImplementedError

    def begin(self) -> None:
        """Prepare the data for an epoch."""

    def end(self) -> None:
        """Tell the data source that an epoch has ended."""


class ArrayFeed(Feed):
    """Batches of arrays, in the order of the samples or in random order."""

    def __init__(self, batch: Batch, size: int, is_shuffled: bool, drop: bool = False) -> None:
        self.batch = batch
        self.size = size
        self.is_shuffled = is_shuffled
        self.drop = drop
        self.samples = batch.size
        self.steps = batch.size // size if drop else ceil(batch.size / size)

    def epoch(self) -> Iterator[Batch]:
        n = self.batch.size
        rows = rng().permutation(n) if self.is_shuffled else np.arange(n)
        for start in range(0, n - self.size + 1 if self.drop else n, self.size):
            yield self.batch.part(rows[start : start + self.size])


class DatasetFeed(Feed):
    """The batches of a `Dataset` of (x,), (x, y) or (x, y, sample_weight)."""

    def __init__(self, dataset: Dataset) -> None:
        if not dataset.size:
            raise ModelError("""The dataset is not divided into batches.
                next:  divide it first: dataset.batch(32, drop_remainder=True).""")
        if not 1 <= len(dataset.arrays) <= 3:
            raise misuse(
                f"The dataset has {len(dataset.arrays)} arrays.",
                "create it from (x, y), or from (x, y, sample_weight). If a model has several "
                "inputs, pass their arrays to fit() as a list.",
            )
        self.dataset = dataset
        self.size = dataset.size
        self.samples = dataset.samples
        self.is_endless = dataset.times == float("inf")
        per_round = (floor if dataset.drop else ceil)(dataset.samples / dataset.size)
        self.steps = per_round if self.is_endless else int(per_round * dataset.times)
        self._batches: Iterator[Batch] | None = None

    def epoch(self) -> Iterator[Batch]:
        if self._batches is None or not self.is_endless:
            self._batches = (
                Batch(*((array,) for array in arrays)) for arrays in self.dataset.batches()
            )
        return self._batches


class IteratorFeed(Feed):
    """The batches that an iterator yields, as (x, y), (x, y, sample_weight) or x alone."""

    is_endless = True

    def __init__(self, iterator: Iterator[Argument], names: Names) -> None:
        self.iterator = iterator
        self.names = names

    def epoch(self) -> Iterator[Batch]:
        return (batch_of(item, self.names) for item in self.iterator)


class IndexedFeed(Feed):
    """The batches of an object that is read by index, in order or in random order."""

    def __init__(self, indexed: Indexed, names: Names, is_shuffled: bool) -> None:
        self.indexed = indexed
        self.names = names
        self.is_shuffled = is_shuffled
        self.steps = len(indexed)

    def epoch(self) -> Iterator[Batch]:
        count = len(self.indexed)
        numbers = rng().permutation(count) if self.is_shuffled else np.arange(count)
        for number in numbers.tolist():
            yield batch_of(self.indexed[number], self.names)

    def begin(self) -> None:
        if hasattr(self.indexed, "on_epoch_begin"):
            self.indexed.on_epoch_begin()

    def end(self) -> None:
        if hasattr(self.indexed, "on_epoch_end"):
            self.indexed.on_epoch_end()


def is_array(value: Argument) -> bool:
    """Return whether a value is an array or nested lists of numbers, but not a single number."""
    # numpy would read an object with batches element by element, maybe without end.
    if not isinstance(value, (np.ndarray, list, tuple, range)) and not hasattr(value, "__array__"):
        return False
    return is_numeric(value) and np.ndim(value) > 0


def is_data(value: Argument) -> bool:
    """Return whether a value is data for a model: arrays, a dataset, an iterator or batches."""
    if isinstance(value, (Dataset, Iterator)) or is_array(value):
        return True
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(is_array, value))
    if isinstance(value, Mapping):
        return bool(value) and all(map(is_array, value.values()))
    return isinstance(value, Indexed) and not isinstance(value, (str, bytes, set))


def _listed(role: str, value: Argument, names: Sequence[str]) -> Arrays:
    """Return a list with an array for each name in `names`.

    The arrays are passed as a single array, a list with an array for each name, or a dict. `role`
    is the argument's name in error messages.

    :raises ModelError: for another number of arrays, or other names.
    """
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise misuse(
                f"{role} was given for {', '.join(map(repr, value))}, but the names in the "
                f"model are {', '.join(map(repr, names))}.",
                f"pass a dict with an array for each of {', '.join(map(repr, names))}.",
            )
        value = [value[name] for name in names]
    if len(names) > 1:
        items = list(value) if isinstance(value, (list, tuple)) else [value]
    else:
        is_list = isinstance(value, (list, tuple)) and len(value) == 1
        items = list(value) if is_list and isinstance(value[0], np.ndarray) else [value]
    if len(items) != len(names):
        raise misuse(
            f"{role} was given {counted(len(items), 'array')}, but the model has "
            f"{', '.join(names)}.",
            f"pass a list of {counted(len(names), 'array')}, or a dict with these names as keys.",
        )
    for item in items:
        if item is not None and not is_array(item):
            raise misuse(
                f"{role} was given {shown(item)}, which is not an array of samples.",
                "pass an array of real numbers whose first dimension counts samples.",
            )
    return tuple(None if item is None else np.asarray(item) for item in items)


def _weights(value: Argument, names: Names) -> Arrays:
    """Return a weight array for each output. A single array is used for all outputs."""
    if is_array(value) and (isinstance(value, np.ndarray) or np.ndim(value) == 1):
        return (np.asarray(value),) * len(names.outputs)
    return _listed("sample_weight", value, names.outputs)


def batch_of(item: Argument, names: Names) -> Batch:
    """Return samples from (x, y), (x, y, sample_weight) or x alone, each an array, list or dict.

    :raises ModelError: for anything else, and for arrays with different numbers of samples.
    """
    parts = item if isinstance(item, tuple) and 1 <= len(item) <= 3 else (item,)
    x, y, weights = (*parts, None, None)[:3]
    return samples_of(x, y, weights, names)


def samples_of(x: Argument, y: Argument, weights: Argument, names: Names) -> Batch:
    """Return samples of the inputs `x`, the targets `y` and the sample weights.

    :raises ModelError: for arrays that do not fit the model's inputs and outputs, and for arrays
        with different numbers of samples.
    """
    batch = Batch(
        _listed("x", x, names.inputs),
        () if y is None else _listed("y", y, names.outputs),
        () if weights is None else _weights(weights, names),
    )
    arrays = [array for part in batch for array in part if array is not None]
    lengths = {len(array): None for array in arrays}
    if len(lengths) != 1 or not arrays or not len(arrays[0]):
        texts = " and ".join(f"{len(array):,}" for array in arrays)
        raise ModelError(f"""The call was given arrays of {texts} samples, but all arrays must have
            the same number of samples, at least 1.
            next:  pass arrays whose first dimensions are equal.""")
    return batch


def class_weights(batch: Batch, weights: Mapping[int, float]) -> Batch:
    """Return the samples of `batch`, each with the weight of its class.

    A class that is not in `weights` has the weight 1.

    :raises ModelError: for a model with several outputs, and if samples already have weights.
    """
    if len(batch.y) != 1 or batch.y[0] is None:
        raise misuse(
            f"class_weight was given for {counted(len(batch.y), 'target')}.",
            "pass sample_weight instead: a list with an array for each output.",
        )
    if batch.weights:
        raise misuse(
            "class_weight and sample_weight were both given.",
            "multiply sample_weight by the weights of the classes, and leave class_weight out.",
        )
    y = batch.y[0]
    if y.ndim > 1:
        y = y.argmax(-1) if y.shape[-1] != 1 else y[..., 0]
    if y.ndim != 1:
        raise misuse(
            "class_weight was given, but a sample has targets of shape "
            f"{list(batch.y[0].shape[1:])}.",
            "pass sample_weight instead, with a weight for each target.",
        )
    rows = [float(weights.get(int(number), 1.0)) for number in np.round(y)]
    return batch._replace(weights=(np.asarray(rows, np.float32),))


def split(batch: Batch, part: float) -> tuple[Batch, Batch]:
    """Split samples into those for training and those for validation, and return both.

    `part` is the fraction of the samples for validation, which are the last ones.

    :raises ModelError: if one of the two would be empty.
    """
    count = floor(batch.size * (1 - part))
    if count in (0, batch.size):
        raise misuse(
            f"validation_split={shown(part)} of {counted(batch.size, 'sample')} leaves {count} for "
            f"training and {batch.size - count} for validation.",
            "use more samples, or another validation_split, such as 0.2.",
        )
    return batch.part(slice(count)), batch.part(slice(count, None))


def feed_of(
    x: Argument,
    y: Argument,
    weights: Argument,
    names: Names,
    *,
    size: int | None,
    is_shuffled: bool = False,
    class_weight: Mapping[int, float] | None = None,
) -> Feed:
    """Return the batches of the data that are passed to fit, evaluate or predict.

    :raises ModelError: for arguments that the kind of data does not allow.
    """
    is_batched = isinstance(x, (Dataset, Iterator)) or (not is_arrays(x) and isinstance(x, Indexed))
    if is_batched:
        kind = type(x).__name__
        for name, value in (("y", y), ("sample_weight", weights), ("class_weight", class_weight)):
            if value is not None:
                raise misuse(
                    f"{name} was given together with data of the class {kind}, which has batches.",
                    f"leave out {name}, because the batches contain it: (x, y) or "
                    "(x, y, sample_weight).",
                )
        if isinstance(x, Dataset):
            return DatasetFeed(x)
        if isinstance(x, Iterator):
            return IteratorFeed(x, names)
        return IndexedFeed(x, names, is_shuffled)
    batch = samples_of(x, y, weights, names)
    if class_weight is not None:
        batch = class_weights(batch, class_weight)
    return ArrayFeed(batch, 32 if size is None else size, is_shuffled)


def is_arrays(x: Argument) -> bool:
    """Return whether a value is an array, or a list, tuple or dict of arrays."""
    return is_array(x) or isinstance(x, (list, tuple, Mapping))
