"""The codelets that order rows: they sort chunks, merge sorted runs, and compute ranks.

A run is a sorted group of elements. Equal elements keep their order, or have the reverse order if
the result is reversed (see `order_of`). NaN is larger than any number. The module
`ipu_teach.cost.vertices.order` contains the cycles.
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
# Maps each value of a codelet's constant `largest` to the word for it in the codelet's name.
WORDS = {True: "largest", False: "smallest"}


def order_of(keys: Array, k: int, largest: bool, descending: bool) -> Array:
    """Return the columns of the k largest or smallest keys of each row: int64[rows, k].

    `keys` is [rows, n]. The keys in the returned columns are in descending or ascending order. The
    largest keys are selected in descending order, and the smallest in ascending order; in both
    cases, equal keys keep their order. If the opposite order is requested, the selected columns are
    reversed, so equal keys are reversed, too.
    """
    row_length = keys.shape[1]
    ascending_order = np.argsort(keys, axis=1, kind="stable")
    descending_order = (row_length - 1) - np.argsort(keys[:, ::-1], axis=1, kind="stable")[:, ::-1]
    selected: Array = (descending_order if largest else ascending_order)[:, :k]
    return selected if largest == descending else selected[:, ::-1]


def taken(rows: Array, order: Array) -> Array:
    """Return an array [rows, k] with the elements in the columns `order` of each row of `rows`.

    `rows` is [rows, n], and `order` [rows, k] contains k column numbers for each row.
    """
    row_starts = np.arange(len(rows)).reshape((len(rows), 1)) * rows.shape[1]
    elements: Array = np.take(rows.copy().reshape(rows.size), order + row_starts, mode="clip")
    return elements


class SortRows(SupervisorVertex, Generic[K]):
    """Set `out` to the k largest or smallest elements of each row of `keys`, in order.

    In a row, each group of `run` elements is sorted already.
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
    """Set `out` to the k largest or smallest keys of each row, and `picked` to these keys' values.

    The keys are in order. In a row, each group of `run` keys is sorted already.
    """

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
    """Count, for each key of two sorted runs, how many keys of the other run come before it.

    A key in `first` comes before an equal key in `second`.
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
            num_not_before = np.searchsorted(second[::-1], first, side="right")
            self.first_counts = len(second) - num_not_before
            self.second_counts = len(first) - np.searchsorted(first[::-1], second, side="left")
        else:
            self.first_counts = np.searchsorted(second, first, side="left")
            self.second_counts = np.searchsorted(first, second, side="right")

    def cycles(self, target: Target) -> int:
        dtype = self.fields["first"].dtype
        return vertices.rank_pair(len(self.first), len(self.second), dtype, target)


class SumRanks(SupervisorVertex):
    """Set `ranks` to the ranks of consecutive elements of a sorted run.

    The rank of an element is the sum of its counts plus its position in the run. `counts` has a
    column for each element, and a row for each other run. The first element has the position
    `begin`.
    """

    counts: Input[Vector[Vector[UNSIGNED_INT]]]
    begin: UNSIGNED_INT
    ranks: Output[Vector[UNSIGNED_INT]]

    def compute(self) -> None:
        positions = self.begin + np.arange(len(self.ranks))
        self.ranks = np.sum(self.counts, axis=0) + positions

    def cycles(self, target: Target) -> int:
        num_counts, num_elements = self.counts.shape
        return vertices.sum_ranks(num_counts, num_elements, target)


class ScatterRun(SupervisorVertex, Generic[K]):
    """Write the elements of a sorted run to `out`, at the positions of their ranks.

    `ranks` contains the rank of each element. The first element of `out` has the rank `begin`. At
    positions whose ranks belong to elements of other runs, `out` is 0.
    """

    ranks: Input[Vector[UNSIGNED_INT]]
    x: Input[Vector[K]]
    begin: UNSIGNED_INT
    out: Output[Vector[K]]

    def compute(self) -> None:
        block_ranks = self.begin + np.arange(len(self.out))
        positions = np.searchsorted(self.ranks, block_ranks)
        is_in_block = np.take(self.ranks, positions, mode="clip") == block_ranks
        self.out = np.where(is_in_block, np.take(self.x, positions, mode="clip"), 0)

    def cycles(self, target: Target) -> int:
        dtype = self.fields["x"].dtype
        return vertices.scatter_run(len(self.x), len(self.out), dtype, target)


class CombineRuns(SupervisorVertex, Generic[K]):
    """Set `out` to the only nonzero element of each column of x.

    x has an unsigned integer dtype, and contains the bits of the elements.
    """

    x: Input[Vector[Vector[K]]]
    out: Output[Vector[K]]
    backwards: ClassVar[bool]

    def compute(self) -> None:
        combined = np.max(self.x, axis=0)
        self.out = combined[::-1] if self.backwards else combined

    def cycles(self, target: Target) -> int:
        num_runs, num_elements = self.x.shape
        return vertices.combine_runs(num_runs, num_elements, self.fields["x"].dtype, target)


def _sort_cycles(shape: Shape, run: int, k: int, outputs: list[type[DType]], target: Target) -> int:
    """Return the cycles of a tile that sorts rows of shape `shape`, (rows, columns).

    In a row, each group of `run` elements is sorted already. `k` is the number of selected
    elements, and `outputs` contains the dtypes of the elements that are moved.
    """
    num_rows, row_length = shape
    return vertices.sort_rows(num_rows, row_length, run, k, dtypes=outputs, target=target)
