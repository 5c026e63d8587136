"""The simple shapes that a frame of a scene is made of, for the renderers that draw stills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.types import Array

LETTER = 6.2  # width of a letter of 11 units, about


@dataclass(frozen=True, eq=False)
class Boxes:
    """Rectangles of one code: float[n, 4] of x, y, width and height. All have one height, or
    with `upright` one width."""

    code: int
    boxes: Array
    upright: bool = False


@dataclass(frozen=True, eq=False)
class Raster:
    """A picture of codes, one pixel a value, stretched over a rectangle."""

    x: float
    y: float
    width: float
    height: float
    codes: Array


@dataclass(frozen=True)
class Words:
    """A text. `anchor` ("start", "middle" or "end") is the part of it at x; `ink` is "ink",
    "soft", or the code behind it."""

    x: float
    y: float
    text: str
    size: float = 12
    anchor: str = "start"
    ink: str | int = "ink"


@dataclass(frozen=True)
class Stroke:
    """A curve through a start, a control point and an end, with a head if it is an arrow. `role`
    is "ink", "line" or "paper"."""

    points: tuple[tuple[float, float], ...]
    width: float
    role: str = "ink"
    arrow: bool = False


@dataclass(frozen=True, eq=False)
class Outline:
    """Straight lines through points, float[n, 2], in the colour of a code: an area if `filled`,
    else a line of this width."""

    code: int
    points: Array
    filled: bool
    width: float = 1.5


Shape = Boxes | Raster | Words | Stroke | Outline


def rectangles(
    x: Array | float, y: Array | float, width: Array | float, height: Array | float
) -> Array:
    """Return float[n, 4]: rectangles, given by x, y, width and height. A single number holds for
    all."""
    columns = np.broadcast_arrays(*map(np.atleast_1d, (x, y, width, height)))
    return np.stack(columns, axis=1).astype(np.float64)


def moved(shape: Shape, x: float, y: float) -> Shape:
    """Return a shape, moved to the right and down."""
    match shape:
        case Boxes():
            return replace(shape, boxes=shape.boxes + (x, y, 0, 0))
        case Outline():
            return replace(shape, points=shape.points + (x, y))
        case Stroke():
            return replace(shape, points=tuple((u + x, v + y) for u, v in shape.points))
    return replace(shape, x=shape.x + x, y=shape.y + y)


def colours_of(shapes: Sequence[Shape]) -> tuple[set[int], set[int]]:
    """Return (the codes of the shapes, the codes behind texts)."""
    codes: set[int] = set()
    inks = {
        shape.ink for shape in shapes if isinstance(shape, Words) and isinstance(shape.ink, int)
    }
    for shape in shapes:
        match shape:
            case Boxes() | Outline():
                codes.add(shape.code)
            case Raster():
                codes.update(int(c) for c in np.unique(shape.codes) if c >= 0)
    return codes | inks, inks
