"""The codelets that order rows: sort chunks, merge sorted runs, and compute ranks.

Equal elements keep their order. NaN counts as larger than any number. For cycles, see
`ipu_teach.cost.vertices.order`.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Input, Output, Shape, SupervisorVertex, Vector
from ipu_teach.target import Target
from ipu_teach.types import UNSIGNED_INT, Array, DType

K = TypeVar("K")
V = TypeVar("V")
# in the names of codelets, by their constant `largest`
WORDS = {True: "largest", False: "smallest"}


def order_of(keys: Array, k: int, largest: bool, descending: bool) -> Array:
    """Return [rows, k]: the positions of the k largest or smallest elements of each row of `keys`.

    `keys` is [rows, n]. The elements at these positions descend or ascend.
    """
    n = keys.shape[1]
    up = np.argsort(keys, axis=1, kind="stable")
    down = (n - 1) - np.argsort(keys[:, ::-1], axis=1, kind="stable")[:, ::-1]
    first: Array = (down if largest else up)[:, :k]
    return first if largest == descending else first[:, ::-1]


def taken(rows: Array, order: Array) -> Array:
    """Return the elements of each row of `rows` [rows, n] at the positions `order`."""
    starts = np.arange(len(rows)).reshape((len(rows), 1)) * rows.shape[1]
    elements: Array = np.take(rows.copy().reshape(rows.size), order + starts, mode="clip")
    return elements


class SortRows(SupervisorVertex, Generic[K]):
    """out = the k largest, or smallest, elements of each row of keys, in order.

    Every `run` elements of a row are in order already.
    """

    keys: Input[Vector[Vector[K]]]
    out: Output[Vector[Vector[K]]]
    largest: ClassVar[bool]
    descending: ClassVar[bool]
    run: ClassVar[int]

    def compute(self) -> None:
        order = order_of(self.keys, self.out.shape[1], self.largest, self.descending)
        self.out = taken(self.keys, order)

    def cycles(self, target: Target) -> int:
        k = self.out.shape[1]
        return _sort_cycles(self.keys.shape, self.run, k, [self.fields["out"].dtype], target=target)


class SortRowsKV(SupervisorVertex, Generic[K, V]):
    """out, picked = the result of `SortRows` for keys, and the values at the same positions."""

    keys: Input[Vector[Vector[K]]]
    values: Input[Vector[Vector[V]]]
    out: Output[Vector[Vector[K]]]
    picked: Output[Vector[Vector[V]]]
    largest: ClassVar[bool]
    descending: ClassVar[bool]
    run: ClassVar[int]

    def compute(self) -> None:
        order = order_of(self.keys, self.out.shape[1], self.largest, self.descending)
        self.out = taken(self.keys, order)
        self.picked = taken(self.values, order)

    def cycles(self, target: Target) -> int:
        outputs = [self.fields["out"].dtype, self.fields["picked"].dtype]
        return _sort_cycles(self.keys.shape, self.run, self.out.shape[1], outputs, target=target)


class RankPair(SupervisorVertex, Generic[K]):
    """counts = for each key of two sorted runs, how many keys of the other run come before it.

    If keys are equal, those of `first` come first.
    """

    first: Input[Vector[K]]
    second: Input[Vector[K]]
    first_counts: Output[Vector[UNSIGNED_INT]]
    second_counts: Output[Vector[UNSIGNED_INT]]
    largest: ClassVar[bool]

    def compute(self) -> None:
        first = self.first
        second = self.second
        if self.largest:
            behind = np.searchsorted(second[::-1], first, side="right")
            self.first_counts = len(second) - behind
            self.second_counts = len(first) - np.searchsorted(first[::-1], second, side="left")
        else:
            self.first_counts = np.searchsorted(second, first, side="left")
            self.second_counts = np.searchsorted(first, second, side="right")

    def cycles(self, target: Target) -> int:
        dtype = self.fields["first"].dtype
        return vertices.rank_pair(len(self.first), len(self.second), dtype, target)


class SumRanks(SupervisorVertex):
    """ranks = the sum of each column of counts, plus the positions begin, begin + 1, ..."""

    counts: Input[Vector[Vector[UNSIGNED_INT]]]
    begin: UNSIGNED_INT
    ranks: Output[Vector[UNSIGNED_INT]]

    def compute(self) -> None:
        places = self.begin + np.arange(len(self.ranks))
        self.ranks = np.sum(self.counts, axis=0) + places

    def cycles(self, target: Target) -> int:
        counts, n = self.counts.shape
        return vertices.sum_ranks(counts, n, target)


class ScatterRun(SupervisorVertex, Generic[K]):
    """out = the elements of a run with the ranks begin, begin + 1, ...; 0 for other ranks."""

    ranks: Input[Vector[UNSIGNED_INT]]
    x: Input[Vector[K]]
    begin: UNSIGNED_INT
    out: Output[Vector[K]]

    def compute(self) -> None:
        wanted = self.begin + np.arange(len(self.out))
        places = np.searchsorted(self.ranks, wanted)
        is_here = np.take(self.ranks, places, mode="clip") == wanted
        self.out = np.where(is_here, np.take(self.x, places, mode="clip"), 0)

    def cycles(self, target: Target) -> int:
        dtype = self.fields["x"].dtype
        return vertices.scatter_run(len(self.x), len(self.out), dtype, target)


class CombineRuns(SupervisorVertex, Generic[K]):
    """out = the only element that is not 0 in each column of x, whose dtype is unsigned."""

    x: Input[Vector[Vector[K]]]
    out: Output[Vector[K]]
    backwards: ClassVar[bool]

    def compute(self) -> None:
        combined = np.max(self.x, axis=0)
        self.out = combined[::-1] if self.backwards else combined

    def cycles(self, target: Target) -> int:
        runs, n = self.x.shape
        return vertices.combine_runs(runs, n, self.fields["x"].dtype, target)


def _sort_cycles(shape: Shape, run: int, k: int, outputs: list[type[DType]], target: Target) -> int:
    """Return the tile cycles to find k elements in rows of this shape, in runs of length `run`.

    `outputs` are the dtypes of the elements that are moved.
    """
    rows, n = shape
    return vertices.sort_rows(rows, n, run, k, dtypes=outputs, target=target)
