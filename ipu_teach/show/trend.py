"""A line over stacked parts, painted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ipu_teach.show.shapes import LETTER, Boxes, Shape, Stroke, Words, rectangles
from ipu_teach.types import Array

DOT = 7.0  # side of a point of the line that is marked
NARROWEST = 0.6  # of its width, to which a page may press the picture


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
    large: Collection[int] = (),
    ideal: Array | None = None,
) -> tuple[Shape, ...]:
    """Return a line through the middles of places, one for each of `labels`, at `heights` (-1 for
    none), and a pale one at `ideal`.

    Under it, from the bottom up, are `parts`, by their code. `top` is the height of the box in the
    unit of the numbers, which `axis` names; `foot` says what `labels` are. `marked` are words above
    places; the first have priority where room is short. `large` have a larger dot. Anything higher
    than the box is cut there.
    """
    count = len(labels)
    scale = height / top
    shapes = list[Shape]()
    pitch = width / count
    middle = (np.arange(count) + 0.5) * pitch
    has_value = heights >= 0
    shapes.append(Words(width, -8, axis, 12, anchor="end", ink="soft"))
    below: Array = np.zeros(count)
    bar_width = 0.7 * pitch
    is_cut = heights > top
    for code, part in parts.items():
        low = np.minimum(below, height)
        below = below + part * scale
        high = np.minimum(below, height) - low
        boxes = rectangles(middle - bar_width / 2, height - low - high, bar_width, high)
        shapes.append(Boxes(code, boxes[high > 0], upright=True))
    for x in middle[is_cut].tolist():  # a gap in the bar
        shapes.append(Stroke(((x - bar_width / 2 - 2, 10), (x + bar_width / 2 + 2, 4)), 3, "paper"))
    for line, thick, role in ((ideal, 1.5, "line"), (heights, 2.0, "ink")):
        if line is None:
            continue
        y_of_line = height - line * scale
        is_above = line > top
        for k in np.flatnonzero(
            has_value[1:] & has_value[:-1] & ~(is_above[1:] & is_above[:-1])
        ).tolist():
            ends = [(float(middle[i]), float(y_of_line[i])) for i in (k, k + 1)]
            shapes.append(Stroke((_into(*ends), _into(*ends[::-1])), thick, role))
    points = list(zip(middle.tolist(), (height - heights * scale).tolist(), strict=True))
    shapes.append(Stroke(((0, height), (width, height)), 1, "line"))
    for k in np.flatnonzero(has_value & ~is_cut).tolist():
        x, y = points[k]
        side = DOT if k in large else DOT / 2
        shapes.append(Stroke(((x - side / 2, y), (x + side / 2, y)), side))
    texts = list[tuple[float, float, float]]()
    for k, text in marked.items():
        x = _within(width, points[k][0], text)
        y = max(points[k][1] - DOT, 26.0 * is_cut[k]) - 4
        half = LETTER * len(text) / 2 + 2
        heights_below = [  # the text is above every point below it
            points[j][1]
            for j in np.flatnonzero(has_value & ~is_cut).tolist()
            if abs(points[j][0] - x) < half + bar_width / 2
        ]
        y = min(y, max(12.0, min(heights_below, default=y) - DOT - 4))
        if any(
            abs(y - other_y) < 14 and abs(x - other_x) * NARROWEST < half + other_half
            for other_x, other_y, other_half in texts
        ):
            continue
        texts.append((x, y, half))
        shapes.append(Words(x, y, text, 11, anchor="middle"))
    label_step = -(-int(LETTER * max(map(len, labels)) + 8) // max(1, int(pitch)))
    for k in range(0, count, max(1, label_step)):
        x = _within(width, points[k][0], labels[k])
        text = labels[k]
        shapes.append(Words(x, height + 14, text, 11, anchor="middle", ink="soft"))
    return (*shapes, Words(width, height + 29, foot, 12, anchor="end", ink="soft"))


def _into(point: tuple[float, float], toward: tuple[float, float]) -> tuple[float, float]:
    """Return a point that is above the box, as far down towards the other as to be in it."""
    x, y = point
    u, v = toward
    return (x + (u - x) * y / (y - v), 0.0) if y < 0 <= v else point


def _within(width: float, x: float, text: str) -> float:
    """Return the middle of a text that should be at `x`, moved into the drawing.

    The drawing is a little wider than the box.
    """
    half = LETTER * len(text) / 2
    return max(half - 30, min(x, width + 12 - half))
