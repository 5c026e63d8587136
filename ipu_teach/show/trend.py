"""Draw a curve over stacked bars."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from ipu_teach.show.shapes import LETTER, Boxes, Shape, Stroke, Words, rectangles
from ipu_teach.types import Array

DOT = 7.0  # The size of a large dot.
NARROWEST = 0.6  # The smallest fraction of its width to which a page shrinks the picture.


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
    """Return the shapes of a curve over stacked bars, with a point for each of `labels`.

    - `heights` has the value of each point, or -1 for none. A pale curve shows the values `ideal`.
    - `parts` maps a code to the values of one layer of the bars, from the bottom up.
    - The full height of the box represents `top`; anything higher is cut off.
    - `axis` is a text about the vertical axis, and `foot` is a text about the labels.
    - `marked` maps a point to a text above it. A text that would overlap an earlier text is left
      out.
    - The points in `large` have larger dots.
    """
    places = _Places(heights, top, width, height)
    shapes: list[Shape] = [Words(width, -8, axis, 12, anchor="end", ink="soft")]
    shapes += places.bars(parts)
    for line, thick, role in ((ideal, 1.5, "line"), (heights, 2.0, "ink")):
        if line is not None:
            shapes += places.line(line, thick, role)
    shapes.append(Stroke(((0, height), (width, height)), 1, "line"))
    shapes += places.dots(large)
    shapes += places.marks(marked)
    pitch = width / len(labels)
    label_step = -(-int(LETTER * max(map(len, labels)) + 8) // max(1, int(pitch)))
    for k in range(0, len(labels), max(1, label_step)):
        text = labels[k]
        x = _within(width, places.points[k][0], text)
        shapes.append(Words(x, height + 14, text, 11, anchor="middle", ink="soft"))
    return (*shapes, Words(width, height + 29, foot, 12, anchor="end", ink="soft"))


def stacks(
    parts: Mapping[int, Array], middle: Array, width: float, height: float, scale: float
) -> Iterator[Boxes]:
    """Yield the boxes of stacked bars around the x coordinates `middle`.

    `parts` maps a code to the values of one layer, from the bottom up. The bars begin at the y
    coordinate `height`, grow upwards, and are cut off at the y coordinate 0. A value of 1 is
    `scale` units high.
    """
    below: Array = np.zeros(len(middle))
    for code, part in parts.items():
        low = np.minimum(below, height)
        below = below + part * scale
        high = np.minimum(below, height) - low
        boxes = rectangles(middle - width / 2, height - low - high, width, high)
        if (high > 0).any():
            yield Boxes(code, boxes[high > 0], upright=True)


class _Places:
    """The points of a curve, next to each other in a box of `width` x `height` units.

    Attributes:
        middle: float[places]: the x coordinate of each point.
        points: (x, y) of each point.
        is_cut: bool[places]: whether the point is above the box.
        has_dot: bool[places]: whether the point has a dot, because it has a value and is in the
            box.
    """

    def __init__(self, heights: Array, top: float, width: float, height: float) -> None:
        count = len(heights)
        self.top = top
        self.width = width
        self.height = height
        self.scale = height / top
        self.bar_width = 0.7 * width / count
        self.middle = (np.arange(count) + 0.5) * (width / count)
        self.has_value = heights >= 0
        self.is_cut = heights > top
        self.has_dot = self.has_value & ~self.is_cut
        y = height - heights * self.scale
        self.points = list(zip(self.middle.tolist(), y.tolist(), strict=True))

    def bars(self, parts: Mapping[int, Array]) -> list[Shape]:
        """Return a stack of bars below each point. A stack that is cut off has a gap near its top.

        `parts` maps a code to the values of one layer, from the bottom up.
        """
        shapes: list[Shape] = [*stacks(parts, self.middle, self.bar_width, self.height, self.scale)]
        half = self.bar_width / 2
        for x in self.middle[self.is_cut].tolist():
            shapes.append(Stroke(((x - half - 2, 10), (x + half + 2, 4)), 3, "paper"))
        return shapes

    def line(self, line: Array, thick: float, role: str) -> Iterator[Shape]:
        """Yield the segments of a curve through the values `line`, clipped to the box."""
        y = self.height - line * self.scale
        is_above = line > self.top
        is_drawn = self.has_value[1:] & self.has_value[:-1] & ~(is_above[1:] & is_above[:-1])
        for k in np.flatnonzero(is_drawn).tolist():
            ends = [(float(self.middle[i]), float(y[i])) for i in (k, k + 1)]
            yield Stroke((_into(*ends), _into(*ends[::-1])), thick, role)

    def dots(self, large: Collection[int]) -> Iterator[Shape]:
        """Yield the dots of the points. The dots of the points in `large` are larger."""
        for k in np.flatnonzero(self.has_dot).tolist():
            x, y = self.points[k]
            side = DOT if k in large else DOT / 2
            yield Stroke(((x - side / 2, y), (x + side / 2, y)), side)

    def marks(self, marked: Mapping[int, str]) -> Iterator[Shape]:
        """Yield the texts above points, except texts that would overlap an earlier text."""
        texts = list[tuple[float, float, float]]()
        for k, text in marked.items():
            x = _within(self.width, self.points[k][0], text)
            y = max(self.points[k][1] - DOT, 26.0 * self.is_cut[k]) - 4
            half = LETTER * len(text) / 2 + 2
            heights_below = [  # The text is placed above all points that it could cover.
                self.points[j][1]
                for j in np.flatnonzero(self.has_dot).tolist()
                if abs(self.points[j][0] - x) < half + self.bar_width / 2
            ]
            y = min(y, max(12.0, min(heights_below, default=y) - DOT - 4))
            if any(
                abs(y - other_y) < 14 and abs(x - other_x) * NARROWEST < half + other_half
                for other_x, other_y, other_half in texts
            ):
                continue
            texts.append((x, y, half))
            yield Words(x, y, text, 11, anchor="middle")


def _into(point: tuple[float, float], toward: tuple[float, float]) -> tuple[float, float]:
    """Return `point` or, if it is above the box, the point where its line to `toward` enters it."""
    x, y = point
    u, v = toward
    return (x + (u - x) * y / (y - v), 0.0) if y < 0 <= v else point


def _within(width: float, x: float, text: str) -> float:
    """Return the x coordinate of the middle of a text, which is `x` if there is room.

    The text is moved if it would leave the drawing, which is a little wider than the box.
    """
    half = LETTER * len(text) / 2
    return max(half - 30, min(x, width + 12 - half))
