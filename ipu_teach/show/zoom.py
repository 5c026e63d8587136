"""A machine and its pipes, as shapes: for the renderers that draw stills. static/machine.js draws
the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipu_teach.show.measures import SIDE, SLOT, THICK
from ipu_teach.show.scene import Still, Zoom, label
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Stroke, Words, rectangles

SMALLEST = 3.0  # a part that is smaller than this is one of many


def paint_zoom(mark: Zoom, still: Still, level: int) -> Iterator[Shape]:
    """Yield the parts of one size, the first of them opened, and the pipes beside them."""
    yield Words(mark.x, mark.y - 8, mark.names[level], ink="soft")
    yield from _parts(mark, level, mark.x, mark.y, side=SIDE)
    left = mark.x + SIDE + 14
    right = mark.x + mark.width
    largest_rate = max(1, int(still.values["rate"].max()))
    for i, (name, rate) in enumerate(zip(mark.labels, still.values["rate"].tolist(), strict=True)):
        top = mark.y + SLOT * i
        yield Words(left, top + 11, f"{name} {mark.rates[level * len(mark.labels) + i]}")
        if rate:
            wide = max(1.0, THICK * rate / largest_rate)
            pipe = rectangles(left - 14, top + 28 - wide / 2, right - left + 14, wide)
            yield Boxes(mark.codes[i], pipe)
            yield Words(
                left,
                top + 52,
                label(mark.figures[i], int((right - left) / LETTER)),
                11,
                ink="soft",
            )


def _parts(mark: Zoom, level: int, x: float, y: float, side: float) -> Iterator[Shape]:
    """Yield equal parts, row by row in a square, which the last rows may not fill.

    Lines in the colour of the paper are between parts of at least `SMALLEST`. The first part shows
    its own parts while it is large.
    """
    count = mark.counts[level]
    columns = int(np.ceil(np.sqrt(mark.counts[level])))
    full, rest, cell = *divmod(count, columns), side / columns
    yield Boxes(mark.part, rectangles(x, y, side, full * cell))
    if rest:
        yield Boxes(mark.part, rectangles(x, y + full * cell, rest * cell, cell))
    if cell >= SMALLEST:
        for k in range(columns + 1):
            yield Stroke(((x + k * cell, y), (x + k * cell, y + side)), cell * 0.12, "paper")
            yield Stroke(((x, y + k * cell), (x + side, y + k * cell)), cell * 0.12, "paper")
    if level:
        x = x + cell * 0.06
        y = y + cell * 0.06
        side = cell * 0.88
        yield Boxes(mark.first, rectangles(x, y, side, side))
        if side > 12:
            yield from _parts(mark, level - 1, x + 2, y + 2, side=side - 4)
