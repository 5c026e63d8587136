"""`pad`: a tensor with margins. Nothing runs: the result is a view of the tensor and constants."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

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
    """The content of a margin: a CONSTANT, the nearest element (EDGE), or a mirror image (REFLECT).

    The mirror image does not repeat the element at the edge.
    """

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
    """Return x with lower[d] elements before it and upper[d] behind it in each dimension d.

    It works like numpy's pad, and a negative number removes elements. The elements of a CONSTANT
    margin are a constant, mapped linearly beginning on the tile of the nearest corner of x; on a
    single tile, all of them would have to leave through one exchange port. EDGE and REFLECT repeat
    elements of x, so the result can be read but not written. Raises `PoplibsError`.
    """
    margins = [_checked(name, amounts, x) for name, amounts in (("lower", lower), ("upper", upper))]
    number = check_number("value", value, x.dtype)
    for axis in range(x.rank):
        _check_room(x, axis, margins[0][axis], margins[1][axis], padding=padding)
    if padding is PaddingType.CONSTANT and x.num_elements:
        check_mapped(graph, "x", x)
    result = x
    for axis, (before, behind) in enumerate(zip(*margins, strict=True)):
        result = result.slice(max(-before, 0), result.shape[axis] - max(-behind, 0), axis)
        parts = [
            _margin(graph, result, axis, before, before=True, padding=padding, number=number),
            result,
        ]
        parts.append(
            _margin(graph, result, axis, behind, before=False, padding=padding, number=number)
        )
        result = concat([p for p in parts if p is not None], axis)
    return result


def _checked(name: str, padding: Sequence[int], x: Tensor) -> list[int]:
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
    graph: Graph,
    x: Tensor,
    axis: int,
    count: int,
    before: bool,
    padding: PaddingType,
    number: float,
) -> Tensor | None:
    """Return `count` elements to put before or behind x along an axis; None if there are none."""
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
