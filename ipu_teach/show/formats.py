"""The view `formats`: the values that a dtype loses, unscaled and multiplied by powers of two.

The bars count the values by their power of two, above the range of each dtype. From frame to frame,
the factor approaches the largest factor with which all values fit, and then exceeds it a little.
The view can also show a value that is rounded stochastically many times to one of its two
neighbours.
"""

from __future__ import annotations

from math import ceil, frexp, isfinite

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach._support.flags import checks
from ipu_teach.arguments import Natural
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.show import palette
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels, painted, side_by_side
from ipu_teach.show.scene import Painted, Still
from ipu_teach.show.shapes import Boxes, Shape, Stroke, Words, rectangles
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

# The first four codes are for the possible results of rounding a value to a dtype.
CODES = (
    palette.SO.lettered("h", "held"),
    palette.OTHERWISE.lettered("s", "subnormal: the steps no longer shrink"),
    palette.GAPS.lettered("0", "become 0"),
    palette.CHOSEN.lettered("!", "too large"),
    Code("where throws landed", "t", "#009e73", "#1cb288", pattern="."),
)
THROWN = 4
WIDE = 380.0
HIGH = 130.0
ROW = 24.0
UNDER = 26.0
COIN = 216.0
LEFT = 40.0
RIGHT = 314.0
BAR = 28.0
MOST_STEPS = 16
BEYOND = 3
MOST_DTYPES = 4
MOST_THROWS = 1_000_000


@checks("seed")
def formats(
    values: ArrayLike,
    *dtypes: type[DType],
    coin: float | None = None,
    throws: int = 10_000,
    thrown: ArrayLike | None = None,
    seed: Natural = 42,
) -> View:
    """Which values does a dtype lose, and by which factor does it keep them all?

    The view shows which of `values`, finite numbers of any shape, one to four dtypes can represent.
    The dtypes are FLOAT, HALF or QUARTER[format, scale]. The view shows the values as they are, and
    multiplied by powers of two. It rests at the largest factor with which all values fit the first
    dtype.

    If the number `coin` is given, it is rounded stochastically to the first dtype, `throws` times,
    with random words generated from `seed`, and the view also shows the results. Use `thrown` to
    show results that you computed yourself instead.

    :raises InvalidOptionError: if `values` or `thrown` is not an array of finite numbers, or if the
        number of dtypes or of `throws` is out of range. It is also raised unless `coin` is a finite
        number between two neighbouring numbers of the first dtype.
    :raises PoplarTypeError: if a dtype is none of the three above.
    """
    if not 1 <= len(dtypes) <= MOST_DTYPES:
        raise InvalidOptionError(f"""show.formats() was given {counted(len(dtypes), "dtype")},
            but it takes 1 to {MOST_DTYPES}.
            next:  give one to {MOST_DTYPES} dtypes: show.formats(values, HALF).""")
    grid, scale = grid_of(dtypes[0], "show.formats()")
    sizes = sizes_of(values, "show.formats()")
    best = fitting_power(float(sizes.max()), grid.largest * 2.0**scale)
    shift_step = -(-abs(best) // MOST_STEPS) or 1
    way = [
        *range(0, best, shift_step if best > 0 else -shift_step),
        *range(best, best + BEYOND + 1),
        best,
    ]
    histograms = [[histogram(np.ldexp(sizes, k), dtype) for dtype in dtypes] for k in way]
    sentence = f"{sizes.size:,} values {histograms[0][0]}; times 2^{best} {histograms[-1][0]}."
    panels = Panels()
    about = [dict[str, tuple[str, dict[str, Array]]]() for _ in way]
    if coin is not None:
        ends, landed = _landed(coin, dtypes[0], throws, thrown, seed=seed)
        many = np.rint(len(landed) ** (np.arange(len(way)) / (len(way) - 1))).astype(int).tolist()
        panels.put(_coin(float(coin), ends, landed, many), left=LEFT)
        for fate_text, n in zip(about, many, strict=True):
            fate_text["coin"] = "{label}: {n} of the throws", {"n": _on(ends, landed[:n])}
        sentence += _coin_sentence(coin, ends, landed)
    mark, bins = _histogram(way, sizes, dtypes)
    panels.put(mark, left=LEFT if coin is None else RIGHT)
    for fate_text, part in zip(about, bins, strict=True):
        fate_text["values"] = "{label}: {n} values", {"n": part}
    stills = [
        Still(f"times 2^{k}", "; ".join(map(str, row)), HELD, 0, first=True, about=fate_text,
              pictures=dict.fromkeys(fate_text, i))
        for i, (k, row, fate_text) in enumerate(zip(way, histograms, about, strict=True))
    ]  # fmt: skip
    return View(
        panels.scene(
            "formats",
            _title(histograms[0][0], histograms[-1][0], best),
            sentence,
            foot=12,
            codes=CODES,
            stills=stills,
            poster=len(way) - 1,
            group="factor",
            table=(
                ("dtype", "times", "become 0", "subnormal", "too large"),
                _rows(way, histograms),
            ),
        )
    )


def _title(unscaled: Histogram, scaled: Histogram, best: int) -> str:
    """Return the title: the values that the first dtype loses, unscaled and times 2**`best`."""
    if best == 0:
        return f"As {unscaled.dtype.__name__} {_lost(unscaled)}"
    name = unscaled.dtype.__name__
    if not (unscaled.underflow or unscaled.overflow):
        return f"{name} keeps all values, and also times each power of two up to 2^{best}"
    if not (scaled.underflow or scaled.overflow):
        return f"As {name} {_lost(unscaled)}; times 2^{best} it keeps them all"
    return f"As {name} {_lost(unscaled)}; times 2^{best} {_lost(scaled)}"


def _lost(histogram: Histogram) -> str:
    """Describe which shares of the values become 0 and become too large."""
    under, over = (
        f"{100 * share:.3g} %" if share else "none"
        for share in (histogram.underflow, histogram.overflow)
    )
    if under == over == "none":
        return "none become 0 or too large"
    return f"{under} become 0, {over} become too large"


def _landed(
    coin: float, dtype: type[DType], throws: int, thrown: ArrayLike | None, seed: int
) -> tuple[Array, Array]:
    """Return `(ends, results)` of rounding a value many times.

    `ends` is float[2]: the nearest numbers of the dtype below and above the value. `results` is
    float[n]: the results of stochastic rounding, or `thrown`.
    """
    number = isinstance(coin, (int, float)) and not isinstance(coin, bool) and isfinite(coin)
    if not number or not is_whole(throws) or not 1 <= throws <= MOST_THROWS:
        throws_text = (
            f"throws={shown(throws)}, which is not a whole number from 1 to {MOST_THROWS:,}"
        )
        subject = throws_text if number else f"coin={shown(coin)}, which is not a finite number"
        raise InvalidOptionError(f"""show.formats() was given {subject}.
            next:  give a finite number as coin=, and throws= from 1 to {MOST_THROWS:,}.""")
    grid, scale = grid_of(dtype, "show.formats()")
    words = np.random.default_rng(seed).integers(0, 2**32, throws, np.uint32)
    words = np.append(words, np.array([0, 2**32 - 1], np.uint32))
    landed = np.ldexp(grid.round(np.full(throws + 2, coin / 2.0**scale), words), scale)
    ends = np.sort(landed[-2:])
    if ends[0] == ends[1] or not np.isfinite(ends).all():
        raise InvalidOptionError(f"""show.formats() was given coin={shown(coin)}, which
            is not between two numbers of {dtype.__name__}.
            next:  give a number that must be rounded: show.formats(values, HALF, coin=0.1).""")
    if thrown is None:
        return ends, landed[:-2]
    sizes_of(thrown, "show.formats()")
    return ends, np.asarray(thrown, np.float64).ravel()[:MOST_THROWS]


def _coin_sentence(coin: float, ends: Array, landed: Array) -> str:
    """Return a sentence that says how often a value was rounded up and how often down.

    `ends` has the numbers below and above the value, and `landed` has the results of rounding.
    """
    low, high = _on(ends, landed) / len(landed)
    return (
        f" {coin:.6g}, rounded at random {len(landed):,} times, became {ends[1]:.6g} in "
        f"{100 * high:.1f} % of them and {ends[0]:.6g} in {100 * low:.1f} %: "
        f"{landed.mean():.6g} on average."
    )


def _rows(way: list[int], histograms: list[list[Histogram]]) -> list[tuple[str, ...]]:
    """Return the rows of the table, one for each factor and dtype.

    `way` has the power of two of each frame's factor. The last frame shows a factor that was
    already shown, so it has no rows.
    """
    return [
        (h.dtype.__name__, f"2^{k}")
        + tuple(f"{100 * share:.3g} %" for share in (h.underflow, h.subnormal, h.overflow))
        for k, row in zip(way[:-1], histograms, strict=False)
        for h in row
    ]


def _on(ends: Array, landed: Array) -> Array:
    """Return int[2]: how many of `landed` are equal to each of the two numbers `ends`."""
    return np.array([np.count_nonzero(landed == end) for end in ends])


def _coin(value: float, ends: Array, landed: Array, many: list[int]) -> Painted:
    """Return the mark for stochastic rounding, with a picture for each frame.

    A picture shows the value between two numbers, how often each number was the result, and the
    mean of the results. `many` has the number of results in each frame.
    """
    inner = np.array([BAR / 2 + 10, COIN - BAR / 2 - 10])
    drawn = list[tuple[Shape, ...]]()
    for n in many:
        mean = float(landed[:n].mean())
        at, mean_at = np.interp([value, mean], ends, inner).tolist()
        shapes: list[Shape] = [Stroke(((0, HIGH), (COIN, HIGH)), 1, "line")]
        for x, end, on in zip(inner.tolist(), ends, _on(ends, landed[:n]).tolist(), strict=True):
            tall = on / n * (HIGH - 40)
            box = rectangles(x - BAR / 2, HIGH - tall, BAR, tall)
            shapes += [Boxes(THROWN, box)] * bool(on)
            shapes.append(Words(x, HIGH - tall - 5, f"{on:,}", 11, anchor="middle"))
            shapes.append(Words(x, HIGH + 14, f"{end:.6g}", 11, anchor="middle", ink="soft"))
        shapes += [
            Stroke(((at, HIGH), (at, HIGH - 22)), 2),
            Words(at, HIGH - 26, f"{value:.6g}", 11, anchor="middle"),
            Stroke(((mean_at, HIGH + 22), (mean_at, HIGH + 2)), 2, arrow=True),
            Words(COIN / 2, HIGH + 36, f"mean {mean:.6g}", 11, anchor="middle"),
            Words(COIN / 2, 12, counted(n, "throw"), 11, anchor="middle", ink="soft"),
        ]
        drawn.append(tuple(shapes))
    places = rectangles(inner - BAR / 2, 20, BAR, HIGH)
    labels = [f"{end:.6g}" for end in ends]
    return painted(
        "coin", "rounded at random", COIN, HIGH + 40, pictures=drawn, places=places, labels=labels
    )


def _histogram(
    way: list[int], sizes: Array, dtypes: tuple[type[DType], ...]
) -> tuple[Painted, list[Array]]:
    """Return `(mark, bins)`: bars by powers of two, and the number of values in each bar.

    The mark has a picture for each frame. `way` has, for each frame, the power of two by which the
    values are multiplied. `bins` has an array for each frame. Below the bars is the range of each
    dtype.
    """
    reaches = []
    sizes = sizes[sizes > 0]
    for dtype in dtypes:
        grid, scale = grid_of(dtype, "show.formats()")
        lowest_exponent = grid.least_exponent + scale
        reaches.append(
            (lowest_exponent - grid.mantissa_bits, lowest_exponent, frexp(grid.largest)[1] + scale)
        )
    power = np.frexp(sizes)[1] - 1
    low = int(min(power.min(initial=0) + min(way), reaches[0][0])) - 2
    high = int(max(power.max(initial=0) + max(way) + 1, reaches[0][2])) + 2
    span = high - low
    pitch = WIDE / (high - low)
    top = np.bincount(power - power.min(initial=0)).max(initial=1)
    drawn = []
    counts = []
    below = _reaches(dtypes, reaches, low, high)
    for k in way:
        bins = np.zeros((len(CODES) - 1, span), np.int64)
        np.add.at(bins, (fates(np.ldexp(sizes, k), dtypes[0]), power + k - low), 1)
        counts.append(bins.sum(axis=0))
        tall = bins / top * (HIGH - 16)
        x = (np.arange(span) + 0.06) * pitch
        wide = 0.88 * pitch
        tops = HIGH - tall.cumsum(axis=0)
        boxes = [
            Boxes(code, rectangles(x, tops[code], wide, tall[code])[part > 0], upright=True)
            for code, part in enumerate(bins)
            if part.any()
        ]
        drawn.append((*below, *boxes, Words(WIDE, 12, f"times 2^{k}", 11, anchor="end")))
    heading = f"by powers of two, as {dtypes[0].__name__}"
    tall_ = HIGH + UNDER + ROW * len(reaches)
    places = side_by_side(span, WIDE, HIGH)
    labels = [f"2^{p} to 2^{p + 1}" for p in range(low, high)]
    return painted(
        "values", heading, WIDE, tall_, pictures=drawn, places=places, labels=labels
    ), counts


def _reaches(
    dtypes: tuple[type[DType], ...], reaches: list[tuple[int, int, int]], low: int, high: int
) -> list[Shape]:
    """Return the axis and, below it, the range of each dtype in powers of two.

    `reaches` has the exponents of the smallest, the smallest normal and the largest number of each
    dtype. The axis reaches from 2**`low` to 2**`high`.
    """
    pitch = WIDE / (high - low)
    shift_step = next(2**k for k in range(12) if (high - low) / 2**k <= 9)
    shapes: list[Shape] = [Stroke(((0, HIGH), (WIDE, HIGH)), 1, "line")]
    for p in range(ceil(low / shift_step) * shift_step, high + 1, shift_step):
        x = (p - low) * pitch
        shapes.append(Stroke(((x, HIGH), (x, HIGH + 4)), 1, "line"))
        shapes.append(Words(x, HIGH + 15, f"2^{p}", 11, anchor="middle", ink="soft"))
    for i, (dtype, ends) in enumerate(zip(dtypes, reaches, strict=True)):
        first, normal, last = ((min(max(p, low), high) - low) * pitch for p in ends)
        y = HIGH + UNDER + ROW * i
        for code, a, b in ((SUBNORMAL, first, normal), (HELD, normal, last)):
            shapes += [Boxes(code, rectangles(a, y, b - a, 7.0))] if b > a else []
        shapes.append(Words(normal, y + 17, dtype.__name__, 11))
    return shapes
