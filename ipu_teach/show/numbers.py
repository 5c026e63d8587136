"""The view `numbers`: number lines of dtypes, and the number to which each dtype rounds a value.

The upper lines show the powers of two from the smallest to the largest number of each dtype. The
lower lines show the numbers around the value, with a narrow box for each number.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, copysign, floor, frexp, isfinite, ldexp, log2
from typing import Any

import numpy as np

from ipu_teach.arguments import is_finite
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.show import palette
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels, painted
from ipu_teach.show.scene import Painted, Scene, Still
from ipu_teach.show.shapes import Boxes, Shape, Stroke, Words, rectangles
from ipu_teach.show.view import View
from ipu_teach.types import DType
from ipu_teach.types.numbers import grid_of

CODES = (
    palette.OTHERWISE.lettered("e", "evenly spaced, about zero"),
    palette.SO.lettered("g", "spacing grows with the number"),
    Code("a number that there is", "n", "#59636e", "#a4adb7", pattern=""),
    Code("numbers too close to draw each", "c", "#bfc5cb", "#4a525c", pattern="|"),
    Code("a thousand times as many or more", "m", "#59636e", "#a4adb7", pattern="x"),
    palette.CHOSEN.lettered("L", "where the value lands"),
)
EVEN, GROWING, THERE, CLOSE, CLOSER, LANDS = range(6)
# If the window around the value contains more numbers than this, one bar stands for all of them.
MOST_NUMBERS = 120
MOST_TICKS = 9
WIDE = 652.0  # The width of a picture.
PITCH = 36.0  # The height of the row of a dtype.
TALL = 14.0  # The height of a bar.
BELOW = 18.0  # The distance from the top of a row to its bar, which leaves space for the text.
Window = tuple[float, float]


@dataclass(frozen=True)
class NumberLine:
    """The positive numbers of a dtype, and the number to which one value is rounded.

    Attributes:
        name: the name of the dtype.
        smallest, normal, largest: the smallest number, the smallest normal number, the largest
            number.
        steps: how many numbers there are from a power of two to the next power of two.
        lands: the number to which the value is rounded; infinite or NaN if the dtype cannot
            represent the value.
    """

    name: str
    smallest: float
    normal: float
    largest: float
    steps: int
    lands: float

    def spacing(self, value: float) -> float:
        """Return the distance from `value` to the next number that is further from zero."""
        magnitude = min(max(abs(value), self.normal), self.largest)
        return ldexp(1.0, frexp(magnitude)[1] - 1) / self.steps

    def from_zero(self, number: float) -> int:
        """Return the rank of a number of the dtype, counted from zero; negative below zero."""
        magnitude = abs(number)
        doubled = frexp(max(magnitude, self.normal))[1] - frexp(self.normal)[1]
        return int(copysign(magnitude / self.spacing(magnitude) + doubled * self.steps, number))

    def ends(self, window: Window) -> Window:
        """Return `(lowest, highest)`: the lowest and the highest number of the dtype in the window.

        If there is no number in the window, `lowest` is greater than `highest`.
        """
        low, high = (self.spacing(end) for end in window)
        first = ceil(window[0] / low) * low
        last = floor(window[1] / high) * high
        return max(first, -self.largest), min(last, self.largest)

    def many(self, window: Window) -> int:
        """Return how many numbers of the dtype are in the window."""
        first, last = self.ends(window)
        return self.from_zero(last) - self.from_zero(first) + 1 if first <= last else 0

    def within(self, window: Window, max_numbers: int) -> list[float]:
        """Return the lowest `max_numbers` numbers of the dtype in the window."""
        value, last = self.ends(window)
        inside = list[float]()
        while value <= last and len(inside) < max_numbers:
            inside.append(value)
            # Below zero, the loop approaches zero, so the spacing halves after each negative power
            # of two.
            step = self.spacing(value)
            begins = value < 0 and -value > self.normal and frexp(value)[0] == -0.5
            value += step / 2 if begins else step
        return inside


def numbers(*dtypes: type[DType], value: float = 0.1) -> View:
    """How far from a value does each dtype land?

    The view shows the number lines of FLOAT, HALF and QUARTER[format, scale], and the number to
    which each of these dtypes rounds `value`.

    :raises InvalidOptionError: if no dtype is given, or if `value` is not finite.
    :raises PoplarTypeError: if a dtype is none of the three above.
    """
    if not dtypes or not is_finite(value):
        subject = f"{shown(value)}, which is not a finite number" if dtypes else "no dtype"
        raise InvalidOptionError(f"""show.numbers() was given {subject}.
            next:  give dtypes and a finite number: show.numbers(FLOAT, HALF, value=0.1).""")
    lines = [_line(dtype, float(value)) for dtype in dtypes]
    return View(_scene(lines, float(value)))


def _line(dtype: Any, value: float) -> NumberLine:
    """Return the number line of a dtype, and the number to which it rounds a value."""
    grid, power = grid_of(dtype, "show.numbers()")
    scale = 2.0**power
    steps = 2**grid.mantissa_bits
    lands = scale * float(grid.round(np.array([value / scale]))[0])
    normal = 2.0**grid.least_exponent * scale
    return NumberLine(
        dtype.__name__, normal / steps, normal, grid.largest * scale, steps=steps, lands=lands
    )


def _scene(lines: list[NumberLine], value: float) -> Scene:
    """Return the scene of these number lines."""
    description = "; ".join(_rounding(line, value) for line in lines)
    low = min(frexp(line.smallest)[1] for line in lines) - 1
    span = max(frexp(line.largest)[1] for line in lines) - low
    half = max(line.spacing(value) for line in lines)
    window = (value - half, value + half)
    row = ("lands", "off", "spacing", "smallest", "normal", "largest", "to a power of two")
    tick_step = next(2**k for k in range(12) if span / 2**k <= MOST_TICKS)
    powers = [
        ((p - low) / span, f"2^{p}")
        for p in range(-(-low // tick_step) * tick_step, low + span + 1, tick_step)
    ]
    ends = [(part, f"{window[0] + 2 * half * part:.6g}") for part in (0.0, 0.5, 1.0)]
    panels = Panels()
    reach = "powers of two; numbers from each to the next"
    around = f"around {value:.6g}"
    panels.put(_rows("reach", reach, [_reach(line, low, span) for line in lines], powers), left=34)
    panels.below(54)
    panels.put(
        _rows("around", around, [_around(line, window, value) for line in lines], ends), left=34
    )
    return panels.scene(
        "numbers",
        _title(lines, value),
        f"{value:.9g} on {counted(len(lines), 'number line')}: {description}.",
        foot=22,
        codes=CODES,
        stills=(Still(f"where {value:.9g} lands", description, 0, 0, first=True),),
        table=(
            ("dtype", *row),
            ((line.name, *(f"{v:.9g}" for v in _row(line, value))) for line in lines),
        ),
        notes=("The negative numbers mirror the positive numbers.",),
    )


def _title(lines: list[NumberLine], value: float) -> str:
    """Return the title: the dtypes that cannot represent the value or have the largest error."""
    cannot = [line.name for line in lines if not isfinite(line.lands)]
    holding = [line for line in lines if isfinite(line.lands)]
    parts = [f"{' and '.join(cannot)} cannot hold {value:.9g}"] * bool(cannot)
    distance = max((abs(line.lands - value) for line in holding), default=0.0)
    furthest = [line.name for line in holding if abs(line.lands - value) == distance]
    if distance:
        names = " and ".join(furthest)
        lands = {line.lands for line in holding if abs(line.lands - value) == distance}
        where = f"becomes {min(lands):.9g} as" if len(lands) == 1 else "lands on either side as"
        most = f", the most of {len(lines)} dtypes" * (len(furthest) < len(lines))
        subject = f"{value:.9g}" if not cannot else "it"
        parts.append(f"{subject} {where} {names}, off by {distance:.3g}{most}")
    elif furthest:
        parts.append(f"{value:.9g} is a number of {', '.join(furthest)}")
    return "; ".join(parts)


def _row(line: NumberLine, value: float) -> tuple[float, ...]:
    """Return the columns of the table for a dtype: result, error, spacing, range, and steps.

    The range consists of the smallest, the smallest normal and the largest number. The steps are
    how many numbers there are from one power of two to the next.
    """
    around = line.lands, line.lands - value, line.spacing(value)
    return *around, line.smallest, line.normal, line.largest, line.steps


def _rounding(line: NumberLine, value: float) -> str:
    """Return a text with the number to which a dtype rounds a value, the error, and the spacing."""
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


# A row is (text, boxes). A box is (code, begin, length); begin and length are fractions of the
# width.
DtypeRow = tuple[str, list[tuple[int, float, float]]]


def _reach(line: NumberLine, low: int, span: int) -> DtypeRow:
    """Return the row with the range of a dtype in powers of two.

    The axis begins at 2**`low`, and its length is `span` powers of two.
    """
    begin, normal, end = (round(log2(v)) - low for v in (line.smallest, line.normal, line.largest))
    description = f"{line.name}: 2^{begin + low} to 2^{end + low}; {line.steps:,} numbers each"
    parts = ((EVEN, begin, normal - begin), (GROWING, normal, end - normal))
    return description, [(code, first / span, long / span) for code, first, long in parts]


def _around(line: NumberLine, window: Window, value: float) -> DtypeRow:
    """Return the row with a narrow box for each number in the window, and a box for the result.

    The result is the number to which the dtype rounds `value`. If there are too many numbers in the
    window, a single box stands for all of them.
    """

    def mark(code: int, number: float, wide: float) -> tuple[int, float, float]:
        return code, (number - window[0]) / (window[1] - window[0]) - wide / 2, wide

    many = line.many(window)
    boxes = [(CLOSE if many < 1000 * MOST_NUMBERS else CLOSER, 0.0, 1.0)]
    if many <= MOST_NUMBERS:
        boxes = [mark(THERE, number, 0.003) for number in line.within(window, many)]
    inside = window[0] <= line.lands <= window[1]
    off = abs(line.lands - value)
    lands = f"{off:.3g} off" if off else "exact"
    description = f"{line.name}, {lands if isfinite(off) else 'cannot hold it'}"
    return f"{description}: {counted(many, 'number')}", boxes + [
        mark(LANDS, line.lands, 0.012)
    ] * inside


def _rows(name: str, heading: str, rows: list[DtypeRow], ticks: list[tuple[float, str]]) -> Painted:
    """Return a mark with a row of boxes for each dtype, a text above each row, and an axis."""
    high = PITCH * len(rows)
    shapes = list[Shape]()
    for i, (description, boxes) in enumerate(rows):
        top = PITCH * i + BELOW
        foot = PITCH * (i + 1) + 2
        shapes += [Stroke(((WIDE * x, top), (WIDE * x, foot)), 1, "line") for x, _ in ticks]
        for code in sorted({code for code, *_ in boxes}):
            boxes_of_code = [
                (WIDE * x, top, WIDE * wide, TALL) for c, x, wide in boxes if c == code
            ]
            shapes.append(Boxes(code, np.array(boxes_of_code)))
        shapes.append(Words(0, top - 5, description, 11))
    shapes += [
        Words(WIDE * x, high + 14, text, 11, anchor="middle", ink="soft") for x, text in ticks
    ]
    places = rectangles(0, PITCH * np.arange(len(rows)), WIDE, PITCH)
    texts = tuple(description for description, _ in rows)
    return painted(
        name, heading, WIDE, high, pictures=[shapes], places=places, labels=texts, say="{label}."
    )
