"""The view `numbers`: number lines of dtypes. How far each reaches, how far apart its numbers are,
and where a value lands.

Above, the powers of two from the smallest number to the largest; below, the numbers around the
value, a mark for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, frexp, isfinite, ldexp, log2
from typing import Any

import numpy as np

from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels
from ipu_teach.show.scene import Bar, Drawing, Lanes, Scene, Still
from ipu_teach.show.view import View
from ipu_teach.types import FLOAT, HALF, QUARTER, Array, DType, from_quarter, to_quarter

CODES = (
    Code("evenly spaced, about zero", "e", "#e69f00", "#e0a21f", "/"),
    Code("spacing grows with the number", "g", "#56b4e9", "#3b9ad3", ""),
    Code("a number that there is", "n", "#59636e", "#a4adb7", ""),
    Code("where the value lands", "L", "#d55e00", "#e8792b", ""),
)
EVEN, GROWING, THERE, LANDS = range(4)
FINE = 10_000  # units of the window around the value
MOST_NUMBERS = 120  # in it; closer ones are drawn as one bar
Window = tuple[float, float]


@dataclass(frozen=True)
class NumberLine:
    """The positive numbers of a dtype, and one value as it holds it. `lands` is infinite, or NaN,
    where it cannot."""

    name: str
    smallest: float
    normal: float
    largest: float
    steps: int  # from a power of two to the next
    lands: float

    def spacing(self, value: float) -> float:
        """How far `value` is from the next number further from zero."""
        held = min(max(abs(value), self.normal), self.largest)
        return ldexp(1.0, frexp(held)[1] - 1) / self.steps

    def within(self, window: Window, most: int) -> list[float]:
        """Its numbers from the first end of the window to the second, the lowest `most` of them."""
        first = self.spacing(window[0])
        here, found = max(ceil(window[0] / first) * first, -self.largest), list[float]()
        while here <= min(window[1], self.largest) and len(found) < most:
            found.append(here)
            # below zero, the next one is nearer to it: half as far where a power of two begins
            step = self.spacing(here)
            begins = here < 0 and -here > self.normal and frexp(here)[0] == -0.5
            here += step / 2 if begins else step
        return found


def numbers(*dtypes: type[DType], value: float = 0.1) -> View:
    """The number lines of FLOAT, HALF and QUARTER[format, scale], and where `value` lands in each,
    rounded to nearest.

    Raises `InvalidOptionError` for no dtype, for one that has no such line, and for a value that is
    not finite.
    """
    if (
        not dtypes
        or isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not isfinite(value)
    ):
        what = f"the value {shown(value)}" if dtypes else "no dtype"
        raise InvalidOptionError(f"""show.numbers() was given {what}.
            next:  give dtypes and a finite number: show.numbers(FLOAT, HALF, value=0.1).""")
    lines = [_line(dtype, float(value)) for dtype in dtypes]
    return View(_scene(lines, float(value)))


def _line(dtype: Any, value: float) -> NumberLine:
    if dtype in (FLOAT, HALF):
        info = np.finfo(dtype.numpy)
        with np.errstate(over="ignore"):
            lands = float(np.array(value).astype(dtype.numpy))
        return NumberLine(
            dtype.__name__,
            float(info.smallest_subnormal),
            float(info.tiny),
            float(info.max),
            2**info.nmant,
            lands,
        )
    if isinstance(dtype, type) and issubclass(dtype, QUARTER) and hasattr(dtype, "metadata"):
        grid, scale = dtype.metadata.format.grid, 2.0**dtype.metadata.scale
        normal, steps = 2.0**grid.least_exponent * scale, 2**grid.mantissa_bits
        lands = float(from_quarter(to_quarter([value], dtype.metadata), dtype.metadata)[0])
        return NumberLine(
            dtype.__name__, normal / steps, normal, grid.largest * scale, steps, lands
        )
    raise InvalidOptionError(f"""show.numbers() was given {shown(dtype)}, which has no number line
        of powers of two.
        next:  give FLOAT, HALF, or QUARTER with a format and a scale.""")


def _scene(lines: list[NumberLine], value: float) -> Scene:
    names, said = (
        tuple(line.name for line in lines),
        "; ".join(_told(line, value) for line in lines),
    )
    low = min(frexp(line.smallest)[1] for line in lines) - 1
    span = max(frexp(line.largest)[1] for line in lines) - low
    begin, normal, end = (
        np.array([round(log2(length)) - low for length in lengths])
        for lengths in zip(
            *((line.smallest, line.normal, line.largest) for line in lines), strict=True
        )
    )
    half = max(line.spacing(value) for line in lines)
    window, high = (value - half, value + half), 26.0 * len(lines)
    heads = f"from 2^{low} to 2^{low + span}", f"the line: {value:.6g}, +-{half:.2g}"
    row = ("lands", "off", "spacing", "smallest", "normal", "largest")
    reach = Drawing(
        span,
        (Bar(EVEN, begin, normal - begin, 0), Bar(GROWING, normal, end - normal, 0)),
        "powers of two",
    )
    around = Drawing(FINE, _marks(lines, window), f"parts of {2 * half:.3g}")
    panels = Panels()
    for name, heading, limit, drawing in (
        ("reach", heads[0], 0, reach),
        ("around", heads[1], FINE // 2, around),
    ):
        lanes = Lanes(
            name, heading, count=len(lines), labels=names, say="{label}", limit=limit, whole=True
        )
        panels.below(40)
        panels.put(lanes, left=150, high=high, drawing=drawing)
    return panels.scene(
        "numbers",
        f"Number lines of {', '.join(names)}",
        f"{value:.9g} on {counted(len(lines), 'number line')}: {said}.",
        foot=22,
        codes=CODES,
        stills=(Still(f"where {value:.9g} lands", said, 0, 0, True, lanes=panels.lanes),),
        table=(
            ("dtype", *row),
            tuple((line.name, *(f"{v:.9g}" for v in _row(line, value))) for line in lines),
        ),
        notes=(
            "A whole bar is more numbers than the picture could tell apart. The negative numbers "
            "are the same again.",
        ),
    )


def _row(line: NumberLine, value: float) -> tuple[float, ...]:
    return (
        line.lands,
        line.lands - value,
        line.spacing(value),
        line.smallest,
        line.normal,
        line.largest,
    )


def _told(line: NumberLine, value: float) -> str:
    if not isfinite(line.lands):
        return f"{line.name} cannot hold it, its largest is {line.largest:.6g}"
    off = abs(line.lands - value)
    exact = (
        "exactly"
        if not off
        else f"off by {off:.3g}" + (f", {100 * off / abs(value):.3g} %" if value else "")
    )
    return (
        f"{line.name} holds {line.lands:.9g}, {exact}; the next number is "
        f"{line.spacing(value):.3g} further"
    )


def _marks(lines: list[NumberLine], window: Window) -> tuple[Bar, ...]:
    """In every lane a mark for each number in the window, or one bar where they are too close; and
    where the value lands."""

    def place(number: float) -> int:
        return round(FINE * (number - window[0]) / (window[1] - window[0]))

    found = [line.within(window, MOST_NUMBERS + 1) for line in lines]
    rows = [
        [(0, FINE)] if len(here) > MOST_NUMBERS else [(place(n) - 15, 30) for n in here]
        for here in found
    ]
    most = max(map(len, rows))
    pieces: Array = np.array([row + [(0, 0)] * (most - len(row)) for row in rows]).reshape(
        len(lines), most, 2
    )
    inside = [window[0] <= line.lands <= window[1] for line in lines]
    at = np.array(
        [place(line.lands) - 100 if ok else 0 for line, ok in zip(lines, inside, strict=True)]
    )
    lands = Bar(LANDS, at, np.where(inside, 200, 0), 0)
    return (*(Bar(THERE, pieces[:, i, 0], pieces[:, i, 1], 0) for i in range(most)), lands)
