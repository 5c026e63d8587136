"""The simple shapes from which the renderers draw a single frame of a scene."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.types import Array

LETTER = 6.2  # The approximate width of a letter at a font size of 11.


@dataclass(frozen=True, eq=False)
class Boxes:
    """Rectangles in the colour of a code: float[n, 4] of (x, y, width, height).

    All rectangles have the same height or, if `upright`, the same width.
    """

    code: int
    boxes: Array
    upright: bool = False


@dataclass(frozen=True, eq=False)
class Raster:
    """A rectangle filled with an image of int[rows, columns] codes; code -1 is the background."""

    x: float
    y: float
    width: float
    height: float
    codes: Array


@dataclass(frozen=True)
class Words:
    """A text at (x, y). `anchor` is the part of the text at x: "start", "middle" or "end".

    `ink` is the colour: "ink", "soft", or the index of the code of the box behind the text. On a
    box, a readable colour is chosen.
    """

    x: float
    y: float
    text: str
    size: float = 12
    anchor: str = "start"
    ink: str | int = "ink"


@dataclass(frozen=True)
class Stroke:
    """A straight line (two points), or a quadratic curve (start, control point, end).

    With `arrow`, it has an arrowhead. `role` is its colour: "ink", "line" or "paper" (the
    background).
    """

    points: tuple[tuple[float, float], ...]
    width: float
    role: str = "ink"
    arrow: bool = False


@dataclass(frozen=True, eq=False)
class Outline:
    """A polygon, or a line through several points, in the colour of a code.

    `points` is float[n, 2]. With `filled`, the shape is the area that the points surround.
    Otherwise, it consists of lines of width `width` from point to point.
    """

    code: int
    points: Array
    filled: bool
    width: float = 1.5


Shape = Boxes | Raster | Words | Stroke | Outline


def rectangles(
    x: Array | float, y: Array | float, width: Array | float, height: Array | float
) -> Array:
    """Return rectangles as float[n, 4]. A scalar argument applies to all rectangles."""
    columns = np.broadcast_arrays(*map(np.atleast_1d, (x, y, width, height)))
    return np.stack(columns, axis=1).astype(np.float64)


def moved(shape: Shape, x: float, y: float) -> Shape:
    """Return a copy of a shape, moved to the right by `x` and down by `y`."""
    match shape:
        case Boxes():
            return replace(shape, boxes=shape.boxes + (x, y, 0, 0))
        case Outline():
            return replace(shape, points=shape.points + (x, y))
        case Stroke():
            return replace(
                shape, points=tuple((point_x + x, point_y + y) for point_x, point_y in shape.points)
            )
    return replace(shape, x=shape.x + x, y=shape.y + y)


def colours_of(shapes: Sequence[Shape]) -> tuple[set[int], set[int]]:
    """Return `(codes of all shapes, codes behind texts)`; the second set is part of the first."""
    codes: set[int] = set()
    text_codes = {
        shape.ink for shape in shapes if isinstance(shape, Words) and isinstance(shape.ink, int)
    }
    for shape in shapes:
        match shape:
            case Boxes() | Outline():
                codes.add(shape.code)
            case Raster():
                codes.update(int(code) for code in np.unique(shape.codes) if code >= 0)
    return codes | text_codes, text_codes
