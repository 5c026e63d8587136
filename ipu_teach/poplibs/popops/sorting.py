"""Sorting along a dimension: `top_k`, `sort` and variants, and the positions of extremes.

A long row is divided into chunks, which are sorted on different tiles and merged. The module
`sort_plan` chooses the number of chunks and how they are merged. Many rows are distributed evenly
over the tiles. Equal elements keep their order if the largest are returned in descending order, or
the smallest in ascending order; otherwise their order is reversed. When elements are sorted, NaN is
larger than any number. The module `extremes` searches for the largest or smallest element, and
returns NaN if a row contains NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ipu_teach.errors import shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.library import OWN, advised, check_alike, described, library, refused
from ipu_teach.poplibs.popops.extremes import add_extremes
from ipu_teach.poplibs.popops.operands import check_takes
from ipu_teach.poplibs.popops.ordering import Ordering
from ipu_teach.program import Copy, Sequence as Program
from ipu_teach.types import QUARTER

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


class SortOrder(Enum):
    """The order of the results of `top_k`.

    NONE permits any order. This kit then uses DESCENDING for the largest elements, and ASCENDING
    for the smallest elements.
    """

    NONE = "NONE"
    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"


@advised("give TopKParams(k).")
@described
@dataclass(frozen=True)
class TopKParams:
    """The parameters of `top_k`: `k`, whether to select the largest elements, and their order."""

    k: int
    largest: bool = True
    sort_order: SortOrder = SortOrder.NONE

    @property
    def descending(self) -> bool:
        """Whether the largest element comes first."""
        return self.sort_order is SortOrder.DESCENDING or (
            self.sort_order is SortOrder.NONE and self.largest
        )


@library
def top_k(
    graph: Graph, params: TopKParams, x: Tensor, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return a tensor [..., k]: the k largest or smallest elements of each row of x.

    A row is a vector along the last dimension of x, which may have any numeric dtype except 8-bit
    floats. `params` contains k, whether the largest or smallest elements are selected, and their
    order. The result is on the tiles that compute it.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    _check_params(params, "x", x)
    return _sorted(graph, x, None, params, prog=prog, name=debug_context)[0]


@library
def top_k_key_value(
    graph: Graph,
    params: TopKParams,
    keys: Tensor,
    values: Tensor,
    prog: Program,
    debug_context: str = OWN,
) -> tuple[Tensor, Tensor]:
    """Return `(keys, values)`: the k largest or smallest keys of each row, and their values.

    The first tensor is the result of `top_k` for `keys`. The second contains the elements of
    `values` at the same positions. `values` has the shape of `keys`, and any dtype except 8-bit
    floats.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    _check_params(params, "keys", keys)
    _check_values(keys, values)
    return _sorted(graph, keys, values, params, prog=prog, name=debug_context)


@library
def top_k_with_permutation(
    graph: Graph, params: TopKParams, x: Tensor, prog: Program, debug_context: str = OWN
) -> tuple[Tensor, Tensor]:
    """Return `(elements, positions)`: the k largest or smallest elements of each row of x.

    The first tensor is the result of `top_k` for x. The second contains the positions of these
    elements in their rows, as UNSIGNED_INT.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    _check_params(params, "x", x)
    return _sorted(graph, x, None, params, prog=prog, name=debug_context, with_places=True)


@library
def sort(graph: Graph, x: Tensor, dim: int, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return x in ascending order along the dimension `dim`, in a new tensor.

    :raises PoplibsError: if x is BOOL or has an 8-bit float dtype.
    :raises PoplarIndexError: if x has no dimension `dim`.
    """
    return _ascended(graph, "x", x, None, dim=dim, prog=prog, name=debug_context)[0]


@library
def sort_in_place(
    graph: Graph, x: Tensor, dim: int, prog: Program, debug_context: str = OWN
) -> None:
    """Sort x in ascending order along the dimension `dim`, and copy the result back to x.

    :raises PoplibsError: if x is BOOL or has an 8-bit float dtype.
    :raises PoplarIndexError: if x has no dimension `dim`.
    """
    out, _ = _ascended(graph, "x", x, None, dim=dim, prog=prog, name=debug_context)
    prog.add(Copy(out, x))


@library
def sort_key_value(
    graph: Graph, keys: Tensor, values: Tensor, dim: int, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return a new tensor: `values` in the order that sorts `keys` in ascending order along `dim`.

    `values` has the shape of `keys`, and any dtype except 8-bit floats.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    return _ascended(graph, "keys", keys, values, dim=dim, prog=prog, name=debug_context)[1]


@library
def sort_key_value_in_place(
    graph: Graph, keys: Tensor, values: Tensor, dim: int, prog: Program, debug_context: str = OWN
) -> None:
    """Sort `keys` in ascending order along `dim`, and reorder `values` in the same way.

    `values` has the shape of `keys`, and any dtype except 8-bit floats. Both results are copied
    back to the two tensors.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    ordered, moved = _ascended(graph, "keys", keys, values, dim=dim, prog=prog, name=debug_context)
    prog.add(Copy(ordered, keys)).add(Copy(moved, values))


@library
def arg_max(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return the position of the largest element of each row of x, as UNSIGNED_INT.

    A row is a vector along the last dimension of x. If several elements are equal to the largest,
    the result is the first of their positions. If a row contains NaN, the result is the position of
    the first NaN.

    :raises PoplibsError: if x is BOOL or has an 8-bit float dtype, or if its rows have no elements.
    """
    return _extreme(graph, x, True, prog, name=debug_context)[0]


@library
def arg_min(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return the position of the smallest element of each row of x, as UNSIGNED_INT.

    A row is a vector along the last dimension of x. If several elements are equal to the smallest,
    the result is the first of their positions. If a row contains NaN, the result is the position of
    the first NaN.

    :raises PoplibsError: if x is BOOL or has an 8-bit float dtype, or if its rows have no elements.
    """
    return _extreme(graph, x, False, prog, name=debug_context)[0]


@library
def max_and_arg_max(
    graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN
) -> tuple[Tensor, Tensor]:
    """Return `(elements, positions)`: the largest element of each row of x, and its position.

    A row is a vector along the last dimension of x. The positions are those of `arg_max`.

    :raises PoplibsError: if x is BOOL or has an 8-bit float dtype, or if its rows have no elements.
    """
    place, best = _extreme(graph, x, True, prog, name=debug_context)
    return best, place


@library
def min_and_arg_min(
    graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN
) -> tuple[Tensor, Tensor]:
    """Return `(elements, positions)`: the smallest element of each row of x, and its position.

    A row is a vector along the last dimension of x. The positions are those of `arg_min`.

    :raises PoplibsError: if x is BOOL or has an 8-bit float dtype, or if its rows have no elements.
    """
    place, best = _extreme(graph, x, False, prog, name=debug_context)
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
    """Return `(keys, values)`, both in ascending order of the keys along `dim`.

    If `values` is None, return `(keys, keys)`. `argument` is the name of the keys in errors.
    """
    axis = keys._axis(dim)
    last_dim = keys.rank - 1
    _check_order(argument, keys)
    if values is not None:
        _check_values(keys, values)
        values = values.dim_roll(axis, last_dim)
    params = TopKParams(keys.shape[axis], False, SortOrder.ASCENDING)
    sorted_tensors = _sorted(
        graph, keys.dim_roll(axis, last_dim), values, params, prog=prog, name=name
    )
    return sorted_tensors[0].dim_roll(last_dim, axis), sorted_tensors[1].dim_roll(last_dim, axis)


def _sorted(
    graph: Graph,
    keys: Tensor,
    values: Tensor | None,
    params: TopKParams,
    prog: Program,
    name: str,
    with_places: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return `(keys, values)`: the k keys of each row that `params` selects, and their values.

    If `values` is None, the second tensor depends on `with_places`: if `with_places` is true, it
    contains the positions of the keys in their rows; otherwise, it is the same tensor as the first.
    """
    rows = {"keys": keys.reshape((_rows(keys), keys.shape[-1]))}
    if values is not None:
        rows["values"] = values.reshape((_rows(keys), keys.shape[-1]))
    ordering = Ordering(
        graph=graph,
        prog=prog,
        name=name,
        k=params.k,
        largest=bool(params.largest),
        descending=params.descending,
    )
    results = ordering.order(rows, with_places)
    shape = (*keys.shape[:-1], params.k)
    sorted_keys, *others = (
        results[field].reshape(shape) for field in ("keys", "values") if field in results
    )
    return sorted_keys, others[-1] if others else sorted_keys


def _extreme(
    graph: Graph, x: Tensor, largest: bool, prog: Program, name: str
) -> tuple[Tensor, Tensor]:
    _check_order("x", x)
    if x.rank == 0 or x.shape[-1] == 0:
        raise refused("was given rows without elements.", x, "give rows of at least one element.")
    places, best = add_extremes(graph, x.reshape((_rows(x), x.shape[-1])), largest, prog, name=name)
    return places.reshape(x.shape[:-1]), best.reshape(x.shape[:-1])


def _rows(x: Tensor) -> int:
    return x.num_elements // x.shape[-1] if x.shape[-1] else 0


def _check_params(params: TopKParams, argument: str, tensor: Tensor) -> None:
    _check_order(argument, tensor)
    length = tensor.shape[-1] if tensor.rank else 0
    if not is_whole(params.k) or not 0 <= params.k <= length or tensor.rank == 0:
        raise refused(f"""was given k={shown(params.k)} for rows of {length:,} elements.
            where: {tensor!r}
            next:  give a k from 0 to {length:,}, the length of the last dimension.""")


def _check_order(argument: str, x: Tensor) -> None:
    check_takes(argument, x)
    _check_quarter(x)


def _check_quarter(x: Tensor) -> None:
    if issubclass(x.dtype, QUARTER):
        raise refused(f"cannot order {x.dtype}.", x, "cast it with popops.cast to HALF first.")


def _check_values(keys: Tensor, values: Tensor) -> None:
    check_alike("give a value for each key.", "", keys=keys, values=values)
    _check_quarter(values)
