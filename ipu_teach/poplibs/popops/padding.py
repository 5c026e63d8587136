"""A tensor with a margin: `pad`. Nothing runs; the result is a view of the tensor and, for
CONSTANT, of new constants."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from ipu_teach.errors import shown
from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.library import (
    Loose,
    advised,
    check_mapped,
    check_number,
    library,
    refused,
)
from ipu_teach.poplibs.poputil import map_tensor_linearly_with_offset

__all__ = ["PaddingType", "pad"]


@advised("use PaddingType.CONSTANT, EDGE or REFLECT.")
class PaddingType(Enum):
    """The content of the margin: a CONSTANT; the nearest element, EDGE; or the mirrored elements,
    REFLECT (without the edge)."""

    CONSTANT = "CONSTANT"
    EDGE = "EDGE"
    REFLECT = "REFLECT"


@library
def pad(
    graph: Graph,
    x: Loose,
    lower: Sequence[int],
    upper: Sequence[int],
    padding: PaddingType = PaddingType.CONSTANT,
    value: float = 0,
) -> Tensor:
    """x with lower[d] elements before, and upper[d] behind it, in each dimension d. As numpy's pad.

    A negative number cuts elements off. The elements of a CONSTANT margin are a constant, spread
    over the tiles from that of the nearest corner of x on: on one tile, they would all leave by its
    one way out. EDGE and REFLECT repeat elements of x, so that the result can be read but not
    written. Raises `PoplibsError`.
    """
    margins = [_checked(name, amounts, x) for name, amounts in (("lower", lower), ("upper", upper))]
    number = check_number("value", value, x.dtype)
    for axis in range(x.rank):
        _check_room(x, axis, margins[0][axis], margins[1][axis], padding)
    if padding is PaddingType.CONSTANT and x.num_elements:
        check_mapped(graph, "x", x)
    result = x
    for axis, (before, behind) in enumerate(zip(*margins, strict=True)):
        result = result.slice(max(-before, 0), result.shape[axis] - max(-behind, 0), axis)
        parts = [_margin(graph, result, axis, before, True, padding, number), result]
        parts.append(_margin(graph, result, axis, behind, False, padding, number))
        result = concat([p for p in parts if p is not None], axis)
    return result


def _checked(name: str, padding: Any, x: Tensor) -> list[int]:
    if (
        not isinstance(padding, (list, tuple))
        or len(padding) != x.rank
        or not all(is_whole(n) for n in padding)
    ):
        raise refused(f"""was given {name} {shown(padding)} for {x.rank} dimensions.
            where: {x!r}
            next:  give a list with a whole number for each dimension.""")
    return [int(n) for n in padding]


def _check_room(x: Tensor, axis: int, before: int, behind: int, padding: PaddingType) -> None:
    length = x.shape[axis]
    remaining = length - max(-before, 0) - max(-behind, 0)
    largest = {
        PaddingType.CONSTANT: None,
        PaddingType.EDGE: None if remaining > 0 else 0,
        PaddingType.REFLECT: max(remaining - 1, 0),
    }[padding]
    if remaining < 0 or (largest is not None and max(before, behind) > largest):
        raise refused(f"""with {padding.name} was given {before} and {behind} for dimension {axis}
            of {length:,} elements.
            where: {x!r}
            next:  remove at most all elements; EDGE needs at least one element, and REFLECT more
            elements than it adds on a side.""")


def _margin(
    graph: Graph, x: Tensor, axis: int, count: int, before: bool, padding: PaddingType, number: Any
) -> Tensor | None:
    """Return the elements to put before, or behind, x along an axis; None if there are none."""
    if count <= 0:
        return None
    length = x.shape[axis]
    if padding is PaddingType.EDGE:
        edge = x.slice(0, 1, axis) if before else x.slice(length - 1, length, axis)
        return edge.broadcast(count, axis)
    if padding is PaddingType.REFLECT:
        part = (
            x.slice(1, count + 1, axis) if before else x.slice(length - 1 - count, length - 1, axis)
        )
        return part.reverse(axis)
    shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]
    margin = graph.add_constant(x.dtype, shape, number, "pad")
    corner = x.flatten()[: 1 if before else None][-1:]
    map_tensor_linearly_with_offset(graph, margin, next(iter(graph.held_by_tile(corner)), 0))
    return margin
