"""A line over stacked parts, painted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ipu_teach.show.shapes import LETTER, Boxes, Shape, Stroke, Words
from ipu_teach.types import Array

DOT = 7.0  # side of a point of the line that is marked


def trend(
    heights: Array,
    top: float,
    parts: Mapping[int, Array],
    labels: Sequence[str],
    marked: Mapping[int, str],
    width: float,
    height: float,
    axis: str,
    foot: str,
) -> tuple[Shape, ...]:
    """A line through the middles of places, one for each of `labels`, at `heights`, or where there
    is none -1.

    Under it, from the bottom up, stand `parts`, by their code. `top` is the height of the box in
    words' and numbers' measure, and `axis` says so; `foot` says what `labels` are. `marked` are
    words above places.
    """
    count, scale, found = len(labels), height / top, list[Shape]()
    pitch = width / count
    middle, there = (np.arange(count) + 0.5) * pitch, heights >= 0
    found.append(Words(width, -8, axis, 12, "end", "soft"))
    below: Array = np.zeros(count)
    wide = 0.7 * pitch
    for code, part in parts.items():
        high, below = part * scale, below + part * scale
        boxes = np.stack((middle - wide / 2, height - below, np.full(count, wide), high), axis=1)
        found.append(Boxes(code, boxes[high > 0], upright=True))
    points = list(zip(middle.tolist(), (height - heights * scale).tolist(), strict=True))
    found += (
        Stroke((points[k], points[k + 1]), 2)
        for k in np.flatnonzero(there[1:] & there[:-1]).tolist()
    )
    found.append(Stroke(((0, height), (width, height)), 1, "line"))
    for k in np.flatnonzero(there).tolist():
        x, y = points[k]
        side = DOT if k in marked else DOT / 2
        found.append(Stroke(((x - side / 2, y), (x + side / 2, y)), side))
    for k, words in marked.items():
        x, y = _within(width, points[k][0], words), points[k][1] - DOT - 4
        half = LETTER * len(words) / 2 + 2
        found += (
            Stroke(((x - half, y - 4), (x + half, y - 4)), 13, "paper"),
            Words(x, y, words, 11, "middle"),
        )
    each = -(-int(LETTER * max(map(len, labels)) + 8) // max(1, int(pitch)))
    for k in range(0, count, max(1, each)):
        found.append(
            Words(
                _within(width, points[k][0], labels[k]),
                height + 14,
                labels[k],
                11,
                "middle",
                "soft",
            )
        )
    return (*found, Words(width, height + 29, foot, 12, "end", "soft"))


def _within(width: float, x: float, words: str) -> float:
    """The middle of words that are to stand at `x`, within the drawing, which begins and ends a
    little beside the box."""
    half = LETTER * len(words) / 2
    return max(half - 30, min(x, width + 12 - half))
