"""The vertices that order rows: they sort a chunk of each, merge sorted runs, and leave half of a
pair of sorted chunks.

Equal elements keep their order. Where chunks do not come in the order of the row, the places of
their elements decide. NaN counts as larger than all. Cycles: `ipu_teach.cost.vertices.order`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Input, Output, SupervisorVertex, Vector, Vertex
from ipu_teach.target import Target
from ipu_teach.types import UNSIGNED_INT, DType

K = TypeVar("K")
V = TypeVar("V")

OUTPUTS = {"keys": "out", "places": "at", "values": "picked"}


def order_of(keys: Any, k: int, largest: bool, descending: bool) -> Any:
    """[rows, k]: the places in each row of keys [rows, n] of its k largest or smallest elements, in
    that order."""
    n = keys.shape[1]
    up = np.argsort(keys, axis=1, kind="stable")
    down = (n - 1) - np.argsort(keys[:, ::-1], axis=1, kind="stable")[:, ::-1]
    first = (down if largest else up)[:, :k]
    return first if largest == descending else first[:, ::-1]


def taken(rows: Any, order: Any) -> Any:
    """Of each row of [rows, n] the elements at these places."""
    starts = np.arange(len(rows)).reshape((len(rows), 1)) * rows.shape[1]
    return np.take(rows.copy().reshape(rows.size), order + starts, mode="clip")


def order_of_pair(keys: Any, places: Any, largest: bool) -> Any:
    """[rows, n]: the order of all elements of each row, equal ones by their places."""
    by_place = np.argsort(places, axis=1, kind="stable")
    n = keys.shape[1]
    return taken(by_place, order_of(taken(keys, by_place), n, largest, largest))


def joined(near: Any, far: Any) -> Any:
    """The rows of two chunks side by side."""
    return np.concatenate((near, far), axis=1)


def half_of(order: Any, is_upper: bool, size: int) -> Any:
    """The first or the last `size` places of each row."""
    return order[:, order.shape[1] - size :] if is_upper else order[:, :size]


def _dtypes(vertex: Vertex) -> tuple[type[DType], ...]:
    """The dtypes of what a vertex orders, its keys' first."""
    return tuple(vertex.fields[out].dtype for out in OUTPUTS.values() if out in vertex.fields)


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


class SortRowsAt(SupervisorVertex, Generic[K]):
    """As `SortRows`, and at = the places beside these elements."""

    keys: Input[Vector[Vector[K]]]
    places: Input[Vector[Vector[UNSIGNED_INT]]]
    out: Output[Vector[Vector[K]]]
    at: Output[Vector[Vector[UNSIGNED_INT]]]
    largest: ClassVar[bool]
    descending: ClassVar[bool]
    run: ClassVar[int]

    def compute(self) -> None:
        order = order_of(self.keys, self.out.shape[1], self.largest, self.descending)
        self.out = taken(self.keys, order)
        self.at = taken(self.places, order)

    def cycles(self, target: Target) -> int:
        return _sort_cycles(self, target)


class SortRowsAtKV(SupervisorVertex, Generic[K, V]):
    """As `SortRows`, and at and picked = the places and the values beside these elements."""

    keys: Input[Vector[Vector[K]]]
    places: Input[Vector[Vector[UNSIGNED_INT]]]
    values: Input[Vector[Vector[V]]]
    out: Output[Vector[Vector[K]]]
    at: Output[Vector[Vector[UNSIGNED_INT]]]
    picked: Output[Vector[Vector[V]]]
    largest: ClassVar[bool]
    descending: ClassVar[bool]
    run: ClassVar[int]

    def compute(self) -> None:
        order = order_of(self.keys, self.out.shape[1], self.largest, self.descending)
        self.out = taken(self.keys, order)
        self.at = taken(self.places, order)
        self.picked = taken(self.values, order)

    def cycles(self, target: Target) -> int:
        return _sort_cycles(self, target)


class MergeHalf(SupervisorVertex, Generic[K]):
    """out = the lower, or upper, part of each row of two sorted chunks together, in the order of
    `largest`. Equal keys are alike in every bit: integers."""

    near_keys: Input[Vector[Vector[K]]]
    far_keys: Input[Vector[Vector[K]]]
    out: Output[Vector[Vector[K]]]
    largest: ClassVar[bool]
    upper: ClassVar[bool]

    def compute(self) -> None:
        keys = joined(self.near_keys, self.far_keys)
        order = order_of(keys, keys.shape[1], self.largest, self.largest)
        self.out = taken(keys, half_of(order, self.upper, self.out.shape[1]))

    def cycles(self, target: Target) -> int:
        return _half_cycles(self, target)


class MergeHalfAt(SupervisorVertex, Generic[K]):
    """As `MergeHalf`, and at = the places beside these elements. Of equal keys the one with the
    lower place comes first."""

    near_keys: Input[Vector[Vector[K]]]
    far_keys: Input[Vector[Vector[K]]]
    near_places: Input[Vector[Vector[UNSIGNED_INT]]]
    far_places: Input[Vector[Vector[UNSIGNED_INT]]]
    out: Output[Vector[Vector[K]]]
    at: Output[Vector[Vector[UNSIGNED_INT]]]
    largest: ClassVar[bool]
    upper: ClassVar[bool]

    def compute(self) -> None:
        keys = joined(self.near_keys, self.far_keys)
        places = joined(self.near_places, self.far_places)
        order = half_of(order_of_pair(keys, places, self.largest), self.upper, self.out.shape[1])
        self.out = taken(keys, order)
        self.at = taken(places, order)

    def cycles(self, target: Target) -> int:
        return _half_cycles(self, target)


class MergeHalfAtKV(SupervisorVertex, Generic[K, V]):
    """As `MergeHalfAt`, and picked = the values beside these elements."""

    near_keys: Input[Vector[Vector[K]]]
    far_keys: Input[Vector[Vector[K]]]
    near_places: Input[Vector[Vector[UNSIGNED_INT]]]
    far_places: Input[Vector[Vector[UNSIGNED_INT]]]
    near_values: Input[Vector[Vector[V]]]
    far_values: Input[Vector[Vector[V]]]
    out: Output[Vector[Vector[K]]]
    at: Output[Vector[Vector[UNSIGNED_INT]]]
    picked: Output[Vector[Vector[V]]]
    largest: ClassVar[bool]
    upper: ClassVar[bool]

    def compute(self) -> None:
        keys = joined(self.near_keys, self.far_keys)
        places = joined(self.near_places, self.far_places)
        order = half_of(order_of_pair(keys, places, self.largest), self.upper, self.out.shape[1])
        self.out = taken(keys, order)
        self.at = taken(places, order)
        self.picked = taken(joined(self.near_values, self.far_values), order)

    def cycles(self, target: Target) -> int:
        return _half_cycles(self, target)


class ReverseRows(SupervisorVertex, Generic[K]):
    """out = each row of x from its end to its beginning."""

    x: Input[Vector[Vector[K]]]
    out: Output[Vector[Vector[K]]]

    def compute(self) -> None:
        self.out = self.x[:, ::-1]

    def cycles(self, target: Target) -> int:
        rows, n = self.x.shape
        return vertices.merge_runs(rows, n, 0, _dtypes(self), target)


SORTS = {
    (): SortRows,
    ("values",): SortRowsKV,
    ("places",): SortRowsAt,
    ("places", "values"): SortRowsAtKV,
}
MERGES = {(): MergeHalf, ("places",): MergeHalfAt, ("places", "values"): MergeHalfAtKV}


def _sort_cycles(vertex: Any, target: Target) -> int:
    rows, n = vertex.keys.shape
    k = vertex.out.shape[1]
    return vertices.sort_rows(rows, n, vertex.run, k, _dtypes(vertex), target)


def _half_cycles(vertex: Any, target: Target) -> int:
    rows, kept = vertex.out.shape
    length = max(vertex.near_keys.shape[1], vertex.far_keys.shape[1])
    return vertices.merge_runs(rows, kept, length, _dtypes(vertex), target)
