"""`pad`, which adds margins to a tensor; it adds no program, because the result is a view."""

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
    """The kind of the elements that `pad` adds around a tensor.

    CONSTANT elements have a given value, EDGE repeats the nearest element, and REFLECT adds a
    mirror image. The mirror image does not repeat the element next to the margin.
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
    """Return x with lower[d] more elements before it, and upper[d] after it, in each dimension d.

    `padding` has the same meaning as in numpy's pad; in addition, a negative number removes
    elements. A CONSTANT margin consists of elements equal to `value`. They are mapped linearly,
    beginning on the tile of the nearest corner of x; if they were on a single tile, all of them
    would be sent through one exchange port. EDGE and REFLECT repeat elements of x, so the result
    can be read but not written.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    margins = [_checked(name, amounts, x) for name, amounts in (("lower", lower), ("upper", upper))]
    valid_value = check_number("value", value, x.dtype)
    for axis in range(x.rank):
        _check_room(x, axis, margins[0][axis], margins[1][axis], padding=padding)
    if padding is PaddingType.CONSTANT and x.num_elements:
        check_mapped(graph, "x", x)
    result = x
    for axis, (num_before, num_behind) in enumerate(zip(*margins, strict=True)):
        result = result.slice(max(-num_before, 0), result.shape[axis] - max(-num_behind, 0), axis)
        pieces = [
            _margin(
                graph, result, axis, num_before, before=True, padding=padding, number=valid_value
            ),
            result,
        ]
        pieces.append(
            _margin(
                graph, result, axis, num_behind, before=False, padding=padding, number=valid_value
            )
        )
        result = concat([piece for piece in pieces if piece is not None], axis)
    return result


def _checked(name: str, padding: Sequence[int], x: Tensor) -> list[int]:
    if (
        not isinstance(padding, (list, tuple))
        or len(padding) != x.rank
        or not all(is_whole(amount) for amount in padding)
    ):
        raise refused(f"""was given {shown(padding)} as {name} for {x.rank} dimensions.
            where: {x!r}
            next:  give a list with a whole number for each dimension.""")
    return [int(amount) for amount in padding]


def _check_room(x: Tensor, axis: int, before: int, behind: int, padding: PaddingType) -> None:
    length = x.shape[axis]
    remaining = length - max(-before, 0) - max(-behind, 0)
    max_margin = {
        PaddingType.CONSTANT: None,
        PaddingType.EDGE: None if remaining > 0 else 0,
        PaddingType.REFLECT: max(remaining - 1, 0),
    }[padding]
    if remaining < 0 or (max_margin is not None and max(before, behind) > max_margin):
        raise refused(f"""with {padding.name} was given lower {before} and upper {behind} for
            dimension {axis} of {length:,} elements.
            where: {x!r}
            next:  remove at most {length:,} elements. With EDGE, at least one element must
            remain. With REFLECT, more elements must remain than are added on either side.""")


def _margin(
    graph: Graph,
    x: Tensor,
    axis: int,
    count: int,
    before: bool,
    padding: PaddingType,
    number: float,
) -> Tensor | None:
    """Return the margin of `count` elements before or after x along `axis`; None if it is empty."""
    if count <= 0:
        return None
    length = x.shape[axis]
    if padding is PaddingType.EDGE:
        edge_slice = x.slice(0, 1, axis) if before else x.slice(length - 1, length, axis)
        return edge_slice.broadcast(count, axis)
    if padding is PaddingType.REFLECT:
        mirrored = (
            x.slice(1, count + 1, axis) if before else x.slice(length - 1 - count, length - 1, axis)
        )
        return mirrored.reverse(axis)
    shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]
    margin = graph.add_constant(x.dtype, shape, number, "pad")
    nearest_corner = x.flatten()[: 1 if before else None][-1:]
    map_tensor_linearly_with_offset(
        graph, margin, next(iter(graph.held_by_tile(nearest_corner)), 0)
    )
    return margin
