"""The simple shapes that a frame of a scene is made of, for the renderers that draw stills."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_teach.types import Array

LETTER = 6.2  # width of a letter of 11 units, about
MOST_RECTANGLES = 64  # of one group of marks; more become a raster of one pixel a value


@dataclass(frozen=True, eq=False)
class Boxes:
    """Rectangles of one code and of one height, or if `upright` of one width: float[n, 4] of x, y,
    width, height."""

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
    """Text at its left end, middle or right end (`anchor`: "start", "middle", "end"); `ink`: "ink",
    "soft", or on a code."""

    x: float
    y: float
    text: str
    size: float = 12
    anchor: str = "start"
    ink: str | int = "ink"


@dataclass(frozen=True)
class Line:
    """A curve through a start, a control point and an end; with a head if it is an arrow. `role`:
    "ink", "line" or "paper"."""

    points: tuple[tuple[float, float], ...]
    width: float
    role: str = "ink"
    arrow: bool = False


@dataclass(frozen=True, eq=False)
class Outline:
    """Straight lines through points, float[n, 2], in the colour of a code: an area if `filled`,
    else a line `width` thick."""

    code: int
    points: Array
    filled: bool
    width: float = 1.5


Shape = Boxes | Raster | Words | Line | Outline
