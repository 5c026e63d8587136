"""A line over stacked parts, as shapes: for the renderers that draw stills. static/sweep.js draws
the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipu_teach.show.scene import Trend
from ipu_teach.show.shapes import LETTER, Boxes, Line, Shape, Words
from ipu_teach.types import Array

DOT = 7.0  # side of a point of the line that is marked


def paint_trend(mark: Trend) -> Iterator[Shape]:
    """The stacks, the line over them, what is marked on it, and the axes."""
    pitch, bottom, scale = mark.width / mark.count, mark.y + mark.height, mark.height / mark.top
    middle, there = mark.x + (np.arange(mark.count) + 0.5) * pitch, mark.heights >= 0
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    yield Words(mark.x + mark.width, mark.y - 8, mark.axis, 12, "end", "soft")
    below: Array = np.zeros(mark.count)
    wide = 0.7 * pitch
    for code, part in mark.parts.items():
        high, below = part * scale, below + part * scale
        seen = high > 0
        boxes = np.stack(
            (middle - wide / 2, bottom - below, np.full(mark.count, wide), high), axis=1
        )
        yield Boxes(int(code), boxes[seen], upright=True)
    points = list(zip(middle.tolist(), (bottom - mark.heights * scale).tolist(), strict=True))
    for k in np.flatnonzero(there[1:] & there[:-1]).tolist():
        yield Line((points[k], points[k + 1]), 2)
    yield Line(((mark.x, bottom), (mark.x + mark.width, bottom)), 1, "line")
    for k in np.flatnonzero(there).tolist():
        x, y = points[k]
        side = DOT if k in dict(mark.marked) else DOT / 2
        yield Line(((x - side / 2, y), (x + side / 2, y)), side)
    for k, words in mark.marked:
        x, y = _within(mark, points[k][0], words), points[k][1] - DOT - 4
        half = LETTER * len(words) / 2 + 2
        yield Line(((x - half, y - 4), (x + half, y - 4)), 13, "paper")
        yield Words(x, y, words, 11, "middle")
    each = -(-int(LETTER * max(map(len, mark.labels)) + 8) // max(1, int(pitch)))
    for k in range(0, mark.count, max(1, each)):
        yield Words(
            _within(mark, points[k][0], mark.labels[k]),
            bottom + 14,
            mark.labels[k],
            11,
            "middle",
            "soft",
        )
    yield Words(mark.x + mark.width, bottom + 29, mark.foot, 12, "end", "soft")


def _within(mark: Trend, x: float, words: str) -> float:
    """The middle of words that are to stand at `x`, within the drawing."""
    half = LETTER * len(words) / 2
    return max(4 + half, min(x, mark.x + mark.width + 12 - half))
