"""The view `formats`: which of some values a dtype holds, and how one factor brings them all back;
beside it, a value between two numbers that is rounded by chance ten thousand times.

Values stand by their power of two, over the reach of each dtype. Frame by frame they are multiplied
by 2, until the largest fits, and a little further, where it no longer does.
"""

from __future__ import annotations

from math import ceil, frexp, isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.show import palette
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels
from ipu_teach.show.scene import Painted, Still
from ipu_teach.show.shapes import Boxes, Shape, Stroke, Words
from ipu_teach.show.view import View
from ipu_teach.types import Array, DType
from ipu_teach.types.numbers import (
    HELD,
    SUBNORMAL,
    Histogram,
    fates,
    fitting_power,
    grid_of,
    histogram,
    sizes_of,
)

CODES = (
    Code("held", "h", "#56b4e9", "#3b9ad3", ""),
    Code("subnormal: the steps no longer shrink", "s", "#e69f00", "#e0a21f", "/"),
    palette.GAPS.lettered("0", "become 0"),
    Code("too large", "!", "#d55e00", "#e8792b", "x"),
    Code("where throws landed", "t", "#009e73", "#1cb288", "."),
)
THROWN = len(CODES) - 1  # the others are fates
WIDE, HIGH, ROW, UNDER = 380.0, 130.0, 24.0, 26.0
COIN, LEFT, RIGHT = 216.0, 40.0, 314.0
MOST_STEPS, BEYOND, MOST_DTYPES = 16, 3, 4
MOST_THROWS = 1_000_000


def formats(
    values: ArrayLike,
    *dtypes: type[DType],
    coin: float | None = None,
    throws: int = 10_000,
    seed: int = 42,
) -> View:
    """Which of `values` (finite numbers of any shape) FLOAT, HALF and QUARTER[format, scale] hold:
    as they are, and times powers of two up to the largest that fits the first dtype, where it
    rests.

    `coin`: a value that is rounded stochastically to the first dtype, so many `throws` in all, with
    words drawn from `seed`. At most four dtypes. Raises `InvalidOptionError`, and `PoplarTypeError`
    for another dtype.
    """
    if not 1 <= len(dtypes) <= MOST_DTYPES:
        raise InvalidOptionError(f"""show.formats() was given {counted(len(dtypes), "dtype")}.
            next:  give one to {MOST_DTYPES}: show.formats(values, HALF).""")
    (grid, scale), sizes = grid_of(dtypes[0], "show.formats()"), sizes_of(values, "show.formats()")
    end, given = grid.largest * 2.0**scale, np.asarray(values, np.float64)
    best = fitting_power(float(sizes.max()), end)
    each = -(-abs(best) // MOST_STEPS) or 1
    way = [*range(0, best, each if best > 0 else -each), *range(best, best + BEYOND + 1), best]
    found = [[histogram(np.ldexp(given, k), dtype) for dtype in dtypes] for k in way]
    panels, pictures = (
        Panels(),
        dict.fromkeys(("values", "coin") if coin is not None else ("values",)),
    )
    mark, counts = _histogram(way, found, given)
    many = np.rint(throws ** (np.arange(len(way)) / (len(way) - 1))).astype(int)
    if coin is not None:
        thrown = _throws(coin, grid.round, 2.0**scale, throws, seed)
        panels.put(_coin(float(coin), *thrown, many), left=LEFT)
    panels.put(mark, left=RIGHT if coin is not None else LEFT)
    stills, rows = [], []
    for i, (k, here) in enumerate(zip(way, found, strict=True)):
        about = {"values": ("{label}: {n} values", {"n": counts[i]})}
        told = "; ".join(map(str, here))
        if coin is not None:
            up = thrown[2][: many[i]]
            about["coin"] = "{label}: {n} of the throws", {"n": np.array([(~up).sum(), up.sum()])}
            told += f"; {counted(int(many[i]), 'throw')}"
        shows = dict.fromkeys(pictures, i)
        stills.append(Still(f"times 2^{k}", told, HELD, 0, True, about=about, pictures=shows))
        if i < len(way) - 1:
            rows += [(h.dtype.__name__, f"2^{k}", *_shares(h)) for h in here]
    said = f"{sizes.size:,} values {found[0][0]}; times 2^{best} {found[-1][0]}."
    if coin is not None:
        low, high, up = thrown
        mean = low + (high - low) * up.mean()
        said += (
            f" {coin:.6g}, rounded by chance {throws:,} times, became {high:.6g} in "
            f"{100 * up.mean():.1f} % of them and {low:.6g} in the others: {mean:.6g} on average."
        )
    heads = ("dtype", "times", "become 0", "subnormal", "too large")
    return View(
        panels.scene(
            "formats",
            f"Values beside the numbers of {', '.join(d.__name__ for d in dtypes)}",
            said,
            foot=12,
            codes=CODES,
            stills=tuple(stills),
            frames=np.arange(len(stills)),
            poster=len(stills) - 1,
            group="factor",
            table=(heads, tuple(rows)),
        )
    )


def _shares(h: Histogram) -> tuple[str, ...]:
    return tuple(f"{100 * share:.3g} %" for share in (h.underflow, h.subnormal, h.overflow))


def _throws(
    coin: object, rounds: Any, scale: float, throws: object, seed: object
) -> tuple[float, float, Array]:
    """(the number below, the one above, whether each throw went up)."""
    number = isinstance(coin, (int, float)) and not isinstance(coin, bool) and isfinite(coin)
    if not number or not is_whole(throws) or not 1 <= throws <= MOST_THROWS:
        what = f"{shown(throws)} throws" if number else f"the coin {shown(coin)}"
        raise InvalidOptionError(f"""show.formats() was given {what}.
            next:  give a finite number, and 1 to {MOST_THROWS:,} throws.""")
    words = np.random.default_rng(seed).integers(0, 2**32, throws, np.uint32)
    exact = np.full(throws, coin, np.float64) / scale
    ends = np.sort([rounds(exact[:1], np.array([w], np.uint32))[0] for w in (0, 2**32 - 1)])
    if ends[0] == ends[1] or not np.isfinite(ends).all():
        raise InvalidOptionError(f"""show.formats() was given the coin {shown(coin)}, which does not
            lie between two numbers of the first dtype.
            next:  give one that it has to round: show.formats(values, HALF, coin=0.1).""")
    return float(ends[0]) * scale, float(ends[1]) * scale, rounds(exact, words) == ends[1]


def _coin(value: float, low: float, high: float, up: Array, many: Array) -> Painted:
    """A number line with two numbers and the value; how many throws landed on each, and their
    mean."""
    inner, wide = (24.0, COIN - 24), 28.0
    reach, foot = inner[1] - inner[0], HIGH
    drawn = []
    for n in many.tolist():
        share, shapes = float(up[:n].mean()), list[Shape]()
        shapes.append(Stroke(((0, foot), (COIN, foot)), 1, "line"))
        for x, number, part in zip(inner, (low, high), (1 - share, share), strict=True):
            tall = part * (foot - 40)
            box = np.array([[x - wide / 2, foot - tall, wide, tall]])
            shapes += [Boxes(THROWN, box)] * bool(tall)
            shapes.append(Words(x, foot - tall - 5, f"{part * n:,.0f}", 11, "middle"))
            shapes.append(Words(x, foot + 14, f"{number:.6g}", 11, "middle", "soft"))
        at = inner[0] + reach * (value - low) / (high - low)
        mean = inner[0] + reach * share
        shapes.append(Stroke(((at, foot), (at, foot - 22)), 2))
        shapes.append(Words(at, foot - 26, f"{value:.6g}", 11, "middle"))
        shapes.append(Stroke(((mean, foot + 22), (mean, foot + 2)), 2, arrow=True))
        words = f"mean {low + (high - low) * share:.6g}"
        shapes.append(Words(COIN / 2, foot + 36, words, 11, "middle"))
        shapes.append(Words(COIN / 2, 12, counted(n, "throw"), 11, "middle", "soft"))
        drawn.append(tuple(shapes))
    places = np.array([(x - wide / 2, 20, wide, foot) for x in inner])
    return Painted(
        *("coin", "rounded by chance"),
        width=COIN,
        height=HIGH + 40,
        count=2,
        places=places,
        pictures=tuple(drawn),
        labels=(f"{low:.6g}", f"{high:.6g}"),
    )


def _histogram(
    way: list[int], found: list[list[Histogram]], given: Array
) -> tuple[Painted, list[Array]]:
    """Bars by powers of two over the reach of each dtype; and how many values stand in each, frame
    by frame."""
    reaches = []
    for h in found[0]:
        grid, scale = grid_of(h.dtype, "")
        least = grid.least_exponent + scale
        reaches.append((least - grid.mantissa_bits, least, frexp(grid.largest)[1] + scale))
    powers = [p for row in found for p in row[0].powers] or [0]
    low = min(min(powers), reaches[0][0]) - 2
    high = max(max(powers) + 1, reaches[0][2]) + 2
    pitch, span = WIDE / (high - low), high - low
    top = max(n for row in found for n in (*row[0].counts, 1))
    drawn, counts = [], []
    for k, row in zip(way, found, strict=True):
        bins = _bins(np.ldexp(given, k), row[0], low, span)
        counts.append(bins.sum(axis=0))
        base, shapes = np.zeros(span), list[Shape]()
        for code, part in enumerate(bins):
            tall = part / top * (HIGH - 16)
            boxes = np.stack(
                (
                    (np.arange(span) + 0.06) * pitch,
                    HIGH - base - tall,
                    np.full(span, 0.88 * pitch),
                    tall,
                ),
                axis=1,
            )
            base += tall
            shapes += [Boxes(code, boxes[tall > 0], upright=True)] * bool(tall.any())
        drawn.append((*_beside(row, reaches, low, high), *shapes, _words(k)))
    places = np.array([(i * pitch, 0, pitch, HIGH) for i in range(span)])
    mark = Painted(
        *("values", f"by powers of two, as {found[0][0].dtype.__name__}"),
        width=WIDE,
        height=HIGH + UNDER + ROW * len(reaches),
        count=span,
        places=places,
        pictures=tuple(drawn),
        labels=tuple(f"2^{p} to 2^{p + 1}" for p in range(low, high)),
    )
    return mark, counts


def _words(power: int) -> Words:
    return Words(WIDE, 12, f"times 2^{power}", 11, "end")


def _bins(values: Array, h: Histogram, low: int, span: int) -> Array:
    """int[codes, powers]: how many values of each power are held, subnormal, lost and too large."""
    sizes, found = np.abs(values[values != 0]), np.zeros((4, span), np.int64)
    np.add.at(found, (fates(sizes, h.dtype), np.frexp(sizes)[1] - 1 - low), 1)
    return found


def _beside(
    row: list[Histogram], reaches: list[tuple[int, int, int]], low: int, high: int
) -> list[Shape]:
    """The axis, and of each dtype the reach below it."""
    pitch = WIDE / (high - low)
    each = next(2**k for k in range(12) if (high - low) / 2**k <= 9)
    shapes: list[Shape] = [Stroke(((0, HIGH), (WIDE, HIGH)), 1, "line")]
    for p in range(ceil(low / each) * each, high + 1, each):
        x = (p - low) * pitch
        shapes.append(Stroke(((x, HIGH), (x, HIGH + 4)), 1, "line"))
        shapes.append(Words(x, HIGH + 15, f"2^{p}", 11, "middle", "soft"))
    for i, (h, ends) in enumerate(zip(row, reaches, strict=True)):
        first, normal, last = ((min(max(p, low), high) - low) * pitch for p in ends)
        y = HIGH + UNDER + ROW * i
        for code, a, b in ((SUBNORMAL, first, normal), (HELD, normal, last)):
            shapes += [Boxes(code, np.array([[a, y, b - a, 7.0]]))] * (b > a)
        shapes.append(Words(max(0.0, normal), y + 17, f"{h.dtype.__name__}", 11))
    return shapes
