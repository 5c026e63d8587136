"""Order along a dimension: `top_k`, `sort` and their kin, and the places of largest and smallest
elements.

Each row is sorted whole on one tile; rows are shared evenly among the tiles. PopLibs sorts one row
on many tiles in many supersteps (a bitonic sort), which pays for long rows; here a row must fit on
a tile, and a worker sorts it. Cycles: PopLibs' HeapSortVertex in its worst case
(popopsCycleEstimators.cpp); a search for the largest costs its 3 cycles an element. Equal elements
keep their order, also when the largest come first. NaN counts as larger than all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.errors import shown
from ipu_teach.graph import Graph, Input, Output, SupervisorVertex, Tensor, Vector
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.laying import beside, shared, step, typed
from ipu_teach.poplibs.library import OWN, advised, check_alike, described, library, refused
from ipu_teach.poplibs.popops.operands import check_takes
from ipu_teach.program import Copy, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import QUARTER, UNSIGNED_INT

__all__ = [
    "SortOrder",
    "TopKParams",
    "arg_max",
    "arg_min",
    "max_and_arg_max",
    "min_and_arg_min",
    "sort",
    "sort_in_place",
    "sort_key_value",
    "sort_key_value_in_place",
    "top_k",
    "top_k_key_value",
    "top_k_with_permutation",
]

K = TypeVar("K")
V = TypeVar("V")
_WORDS = {True: "largest", False: "smallest"}


class SortOrder(Enum):
    """The order of what `top_k` gives; NONE leaves it open, and is DESCENDING for the largest,
    ASCENDING for the smallest."""

    NONE = "NONE"
    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"


@advised("give TopKParams(k).")
@described
@dataclass(frozen=True)
class TopKParams:
    """What `top_k` gives: the `k` largest, or smallest, elements, and their order."""

    k: int
    largest: bool = True
    sort_order: SortOrder = SortOrder.NONE

    @property
    def descending(self) -> bool:
        """Whether the largest comes first."""
        return self.sort_order is SortOrder.DESCENDING or (
            self.sort_order is SortOrder.NONE and self.largest
        )


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


class SortRows(SupervisorVertex, Generic[K]):
    """out = the k largest, or smallest, elements of each row of keys."""

    keys: Input[Vector[Vector[K]]]
    out: Output[Vector[Vector[K]]]
    largest: ClassVar[bool]
    descending: ClassVar[bool]

    def compute(self) -> None:
        order = order_of(self.keys, self.out.shape[1], self.largest, self.descending)
        self.out = taken(self.keys, order)

    def cycles(self, target: Target) -> int:
        return _sort_cycles(self.keys.shape, target)


class SortRowsKV(SupervisorVertex, Generic[K, V]):
    """out = the k largest, or smallest, elements of each row of keys; picked = the values that
    stand beside them."""

    keys: Input[Vector[Vector[K]]]
    values: Input[Vector[Vector[V]]]
    out: Output[Vector[Vector[K]]]
    picked: Output[Vector[Vector[V]]]
    largest: ClassVar[bool]
    descending: ClassVar[bool]

    def compute(self) -> None:
        order = order_of(self.keys, self.out.shape[1], self.largest, self.descending)
        self.out = taken(self.keys, order)
        self.picked = taken(self.values, order)

    def cycles(self, target: Target) -> int:
        return _sort_cycles(self.keys.shape, target, True)


class Extreme(SupervisorVertex, Generic[K]):
    """place = where the largest (or smallest) element of each row stands, the first of equals; best
    = that element."""

    x: Input[Vector[Vector[K]]]
    place: Output[Vector[UNSIGNED_INT]]
    best: Output[Vector[K]]
    largest: ClassVar[bool]

    def compute(self) -> None:
        self.place = np.argmax(self.x, axis=1) if self.largest else np.argmin(self.x, axis=1)
        self.best = np.max(self.x, axis=1) if self.largest else np.min(self.x, axis=1)

    def cycles(self, target: Target) -> int:
        workers = target.num_worker_contexts
        return workers * -(-len(self.x) // workers) * int(vertices.max_class(self.x.shape[1]))


def _sort_cycles(shape: tuple[int, ...], target: Target, key_value: bool = False) -> int:
    rows, n = shape
    workers = target.num_worker_contexts
    return workers * -(-rows // workers) * vertices.heap_sort(n, key_value=key_value)


@library
def top_k(
    graph: Graph, params: TopKParams, x: Tensor, prog: Program, debug_context: str = OWN
) -> Tensor:
    """[…, k]: of each row of x, along its last dimension, the k largest or smallest elements.
    Numbers of any dtype.

    The result lies where the rows were sorted. One compute set. Raises `PoplibsError`.
    """
    _check_params(params, "x", x)
    return _sorted(graph, x, None, params, prog, debug_context)[0]


@library
def top_k_key_value(
    graph: Graph,
    params: TopKParams,
    keys: Tensor,
    values: Tensor,
    prog: Program,
    debug_context: str = OWN,
) -> tuple[Tensor, Tensor]:
    """As `top_k` of `keys`, and beside it the elements of `values` (of the same shape, any dtype)
    at these places."""
    _check_params(params, "keys", keys)
    _check_values(keys, values)
    return _sorted(graph, keys, values, params, prog, debug_context)


@library
def top_k_with_permutation(
    graph: Graph, params: TopKParams, x: Tensor, prog: Program, debug_context: str = OWN
) -> tuple[Tensor, Tensor]:
    """As `top_k`, and beside it where in its row each element stood (UNSIGNED_INT)."""
    _check_params(params, "x", x)
    places = np.arange(x.shape[-1])
    numbers = beside(graph, x, UNSIGNED_INT, places, f"{debug_context}/places")
    return _sorted(graph, x, numbers, params, prog, debug_context)


@library
def sort(graph: Graph, x: Tensor, dim: int, prog: Program, debug_context: str = OWN) -> Tensor:
    """x in ascending order along the dimension `dim`, in a new tensor. One compute set. Raises
    `PoplibsError`."""
    return _ascended(graph, "x", x, None, dim, prog, debug_context)[0]


@library
def sort_in_place(
    graph: Graph, x: Tensor, dim: int, prog: Program, debug_context: str = OWN
) -> None:
    """x becomes ascending along the dimension `dim`. As `sort`, and a copy back to where x lies."""
    out, _ = _ascended(graph, "x", x, None, dim, prog, debug_context)
    prog.add(Copy(out, x))


@library
def sort_key_value(
    graph: Graph, keys: Tensor, values: Tensor, dim: int, prog: Program, debug_context: str = OWN
) -> Tensor:
    """`values` in the order that makes `keys`, of the same shape, ascend along `dim`; a new tensor.
    Otherwise as `sort`."""
    return _ascended(graph, "keys", keys, values, dim, prog, debug_context)[1]


@library
def sort_key_value_in_place(
    graph: Graph, keys: Tensor, values: Tensor, dim: int, prog: Program, debug_context: str = OWN
) -> None:
    """`keys` becomes ascending along `dim`, and `values` goes along with it. As `sort_key_value`,
    and copies back."""
    ordered, moved = _ascended(graph, "keys", keys, values, dim, prog, debug_context)
    prog.add(Copy(ordered, keys)).add(Copy(moved, values))


@library
def arg_max(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """[…]: where in each row of x, along its last dimension, the largest element stands
    (UNSIGNED_INT)."""
    return _extreme(graph, x, True, prog, debug_context)[0]


@library
def arg_min(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """[…]: where in each row of x, along its last dimension, the smallest element stands
    (UNSIGNED_INT)."""
    return _extreme(graph, x, False, prog, debug_context)[0]


@library
def max_and_arg_max(
    graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN
) -> tuple[Tensor, Tensor]:
    """The largest element of each row of x, along its last dimension, and where it stands
    (UNSIGNED_INT)."""
    place, best = _extreme(graph, x, True, prog, debug_context)
    return best, place


@library
def min_and_arg_min(
    graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN
) -> tuple[Tensor, Tensor]:
    """The smallest element of each row of x, along its last dimension, and where it stands
    (UNSIGNED_INT)."""
    place, best = _extreme(graph, x, False, prog, debug_context)
    return best, place


def _ascended(
    graph: Graph,
    argument: str,
    keys: Tensor,
    values: Tensor | None,
    dim: int,
    prog: Program,
    name: str,
) -> tuple[Tensor, Tensor]:
    """(keys, values) in ascending order of keys along `dim`; the keys twice without values."""
    axis, last = keys._axis(dim), keys.rank - 1
    _check_order(argument, keys)
    if values is not None:
        _check_values(keys, values)
        values = values.dim_roll(axis, last)
    params = TopKParams(keys.shape[axis], False, SortOrder.ASCENDING)
    made = _sorted(graph, keys.dim_roll(axis, last), values, params, prog, name)
    return made[0].dim_roll(last, axis), made[1].dim_roll(last, axis)


def _sorted(
    graph: Graph, keys: Tensor, values: Tensor | None, params: TopKParams, prog: Program, name: str
) -> tuple[Tensor, Tensor]:
    """(keys, values) of the first k places; the keys twice if there are no values."""
    shape = (*keys.shape[:-1], params.k)
    sides = {"keys": keys} if values is None else {"keys": keys, "values": values}
    outputs = {"keys": "out", "values": "picked"}
    results = {
        outputs[field]: graph.add_variable(t.dtype, shape, f"{name}/{outputs[field]}")
        for field, t in sides.items()
    }
    dtypes = tuple(t.dtype for t in sides.values())
    largest, descending = bool(params.largest), params.descending
    words = [*dtypes, _WORDS[largest], "reversed" * (largest != descending)]
    codelet = typed(
        SortRows if values is None else SortRowsKV,
        words,
        dict(zip((K, V), dtypes, strict=False)),
        largest=largest,
        descending=descending,
    )
    flat = {
        field: t.reshape((_rows(keys), t.shape[-1])) for field, t in {**sides, **results}.items()
    }
    work = shared(graph, flat, graph.target.num_tiles)
    step(graph, prog, name, codelet, work, list(results))
    return results["out"], results.get("picked", results["out"])


def _extreme(
    graph: Graph, x: Tensor, largest: bool, prog: Program, name: str
) -> tuple[Tensor, Tensor]:
    _check_order("x", x)
    if x.rank == 0 or x.shape[-1] == 0:
        raise refused("was given rows without elements.", x, "give a tensor with a last dimension.")
    place = graph.add_variable(UNSIGNED_INT, x.shape[:-1], f"{name}/place")
    best = graph.add_variable(x.dtype, x.shape[:-1], f"{name}/best")
    fields = {
        "x": x.reshape((_rows(x), x.shape[-1])),
        "place": place.flatten(),
        "best": best.flatten(),
    }
    codelet = typed(Extreme, [x.dtype, _WORDS[largest]], {K: x.dtype}, largest=largest)
    work = shared(graph, fields, graph.target.num_tiles)
    step(graph, prog, name, codelet, work, ["place", "best"])
    return place, best


def _rows(x: Tensor) -> int:
    return x.num_elements // x.shape[-1] if x.shape[-1] else 0


def _check_params(params: TopKParams, argument: str, tensor: Tensor) -> None:
    _check_order(argument, tensor)
    most = tensor.shape[-1] if tensor.rank else 0
    if not is_whole(params.k) or not 0 <= params.k <= most or tensor.rank == 0:
        raise refused(f"""was asked for {shown(params.k)} of {most:,} elements a row.
            where: {tensor!r}
            next:  give a k from 0 to the length of the last dimension.""")


def _check_order(argument: str, x: Tensor) -> None:
    check_takes(argument, x)
    _check_quarter(x)


def _check_quarter(x: Tensor) -> None:
    if issubclass(x.dtype, QUARTER):
        raise refused(f"does not order {x.dtype}.", x, "cast it with popops.cast to HALF first.")


def _check_values(keys: Tensor, values: Tensor) -> None:
    check_alike("give a value beside each key.", "", keys=keys, values=values)
    _check_quarter(values)
