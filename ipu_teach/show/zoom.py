"""Draw a machine and its pipes as shapes, as static/machine.js does in the player."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipu_teach.show.measures import SIDE, SLOT, THICK
from ipu_teach.show.scene import Still, Zoom, label
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Stroke, Words, rectangles

# The minimum side of parts that are separated by lines.
SMALLEST = 3.0


def paint_zoom(mark: Zoom, still: Still, level: int) -> Iterator[Shape]:
    """Yield the shapes of one size of a machine: its parts, and the pipes next to them.

    `level` is the index of the size. The first part shows its own parts.
    """
    yield Words(mark.x, mark.y - 8, mark.names[level], ink="soft")
    yield from _parts(mark, level, mark.x, mark.y, side=SIDE)
    left = mark.x + SIDE + 14
    right = mark.x + mark.width
    largest_rate = max(1, int(still.values["rate"].max()))
    for pipe_number, (name, rate) in enumerate(
        zip(mark.labels, still.values["rate"].tolist(), strict=True)
    ):
        top = mark.y + SLOT * pipe_number
        yield Words(left, top + 11, f"{name} {mark.rates[level * len(mark.labels) + pipe_number]}")
        if rate:
            thickness = max(1.0, THICK * rate / largest_rate)
            pipe = rectangles(left - 14, top + 28 - thickness / 2, right - left + 14, thickness)
            yield Boxes(mark.codes[pipe_number], pipe)
            yield Words(
                left,
                top + 52,
                label(mark.figures[pipe_number], int((right - left) / LETTER)),
                11,
                ink="soft",
            )


def _parts(mark: Zoom, level: int, x: float, y: float, side: float) -> Iterator[Shape]:
    """Yield a square at (x, y) with the parts of a machine, row by row.

    `level` is the index of the machine's size in `mark`. The last rows may not be full. Parts that
    are at least `SMALLEST` wide are separated by lines in the colour of the background. The first
    part shows its own parts if it is large enough.
    """
    num_parts = mark.counts[level]
    columns = int(np.ceil(np.sqrt(mark.counts[level])))
    full_rows, remainder, cell_side = *divmod(num_parts, columns), side / columns
    yield Boxes(mark.part, rectangles(x, y, side, full_rows * cell_side))
    if remainder:
        yield Boxes(
            mark.part, rectangles(x, y + full_rows * cell_side, remainder * cell_side, cell_side)
        )
    if cell_side >= SMALLEST:
        for line_number in range(columns + 1):
            yield Stroke(
                ((x + line_number * cell_side, y), (x + line_number * cell_side, y + side)),
                cell_side * 0.12,
                "paper",
            )
            yield Stroke(
                ((x, y + line_number * cell_side), (x + side, y + line_number * cell_side)),
                cell_side * 0.12,
                "paper",
            )
    if level:
        x = x + cell_side * 0.06
        y = y + cell_side * 0.06
        side = cell_side * 0.88
        yield Boxes(mark.first, rectangles(x, y, side, side))
        if side > 12:
            yield from _parts(mark, level - 1, x + 2, y + 2, side=side - 4)
