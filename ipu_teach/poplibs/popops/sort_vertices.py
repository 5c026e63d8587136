"""The vertices that order rows: they sort a chunk of each, merge sorted runs, and find the ranks of
the elements of many runs.

Equal elements keep their order. NaN counts as larger than all. Cycles:
`ipu_teach.cost.vertices.order`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Input, Output, SupervisorVertex, Vector
from ipu_teach.target import Target
from ipu_teach.types import UNSIGNED_INT

K = TypeVar("K")
V = TypeVar("V")
WORDS = {True: "largest", False: "smallest"}  # in the names of codelets, by their `largest`


def order_of(keys: Any, k: int, largest: bool, descending: bool) -> Any:
    """Return [rows, k]: the places in each row of keys [rows, n] of its k largest or smallest
    elements, in that order."""
    n = keys.shape[1]
    up = np.argsort(keys, axis=1, kind="stable")
    down = (n - 1) - np.argsort(keys[:, ::-1], axis=1, kind="stable")[:, ::-1]
    first = (down if largest else up)[:, :k]
    return first if largest == descending else first[:, ::-1]


def taken(rows: Any, order: Any) -> Any:
    """Return the elements of each row of [rows, n] at these places."""
    starts = np.arange(len(rows)).reshape((len(rows), 1)) * rows.shape[1]
    return np.take(rows.copy().reshape(rows.size), order + starts, mode="clip")


class SortRows(SupervisorVertex, Generic[K]):
    """out = the k largest, or smallest, elements of each row of keys. Every `run` elements of a row
    are in order already."""

    keys: Input[Vector[Vector[K]]]
    out: Output[Vector[Vector[K]]]
    largest: ClassVar[bool]
    descending: ClassVar[bool]
    run: ClassVar[int]

    def compute(self) -> None:
        order = order_of(self.keys, self.out.shape[1], self.largest, self.descending)
        self.out = taken(self.keys, order)

    def cycles(self, target: Target) -> int:
        return _sort_cycles(self, target)


class SortRowsKV(SupervisorVertex, Generic[K, V]):
    """As `SortRows`, and picked = the values beside these elements."""

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
        return _sort_cycles(self, target)


class RankPair(SupervisorVertex, Generic[K]):
    """For each key of two sorted runs how many keys of the other one come before it: of equal keys
    those of `first` do."""

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
    """ranks = the sum of each column of counts, and the places begin, begin + 1, ... in the run."""

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
    """out = those elements of a run whose ranks are begin, begin + 1, ...; 0 for other ranks."""

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
    """out = of each column of x, unsigned, the only element that is not 0."""

    x: Input[Vector[Vector[K]]]
    out: Output[Vector[K]]
    backwards: ClassVar[bool]

    def compute(self) -> None:
        combined = np.max(self.x, axis=0)
        self.out = combined[::-1] if self.backwards else combined

    def cycles(self, target: Target) -> int:
        runs, n = self.x.shape
        return vertices.combine_runs(runs, n, self.fields["x"].dtype, target)


def _sort_cycles(vertex: Any, target: Target) -> int:
    rows, n = vertex.keys.shape
    outputs = [vertex.fields[name].dtype for name in ("out", "picked") if name in vertex.fields]
    return vertices.sort_rows(rows, n, vertex.run, vertex.out.shape[1], outputs, target)
