"""Stacks side by side, painted: a bar on the other, in each of many columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ipu_teach.show.measures import MOST_RECTANGLES, SMALLEST_LABEL
from ipu_teach.show.scene import number
from ipu_teach.show.shapes import Boxes, Raster, Shape, Stroke, Words, rectangles
from ipu_teach.types import Array

ROWS = 96  # of the raster of many stacks
SMALLEST_BOX = 0.15  # smaller ones cannot be seen


def stacks(
    parts: Sequence[tuple[int, Array]],
    width: float,
    height: float,
    top: float,
    unit: str,
    ends: tuple[str, str],
    limit: float = np.inf,
    level: Array | None = None,
) -> tuple[Shape, ...]:
    """Return the stacks of `parts`, (code, how much in each stack) from below, in a box whose
    height stands for `top`.

    A line at `limit`, where it fits; each stack has a line across at its `level`, where stacks are
    wide enough. `ends` are words below the first and the last, where there is no room for all of
    their numbers.
    """
    count = len(parts[0][1])
    scale = height / (top or 1)
    shapes = list[Shape]()
    pitch = width / count
    rows = np.arange(count)
    wide = stack_width(pitch)
    shapes.append(Words(width, -8, f"to {number(round(top))} {unit}", 12, anchor="end", ink="soft"))
    if count > MOST_RECTANGLES:
        shapes.append(Raster(0, 0, width, height, codes=stack_raster(parts, top)))
    else:
        begin: Array = np.zeros(count)
        for code, heights in parts:
            end = begin + heights
            high = (end - begin) * scale
            boxes = rectangles(rows * pitch, height - end * scale, wide, high)
            is_visible = high >= SMALLEST_BOX
            begin = end
            shapes += [Boxes(code, boxes[is_visible], upright=True)] * bool(is_visible.any())
        level = np.zeros(count) if level is None else level
        starts = np.flatnonzero(np.append(True, np.diff(level) != 0))
        for first, last in zip(starts.tolist(), np.append(starts[1:], count).tolist(), strict=True):
            y = height - float(level[first]) * scale
            line = Stroke(((first * pitch - 2, y), ((last - 1) * pitch + wide + 2, y)), 1.5)
            shapes += [line] * bool(level[first])  # a box on the ground has its own line
    shapes.append(Stroke(((0, height), (width, height)), 1, "line"))
    if limit <= top:
        y = height - limit * scale
        shapes += (
            Stroke(((0, y), (width, y)), 2),
            Words(width, y + 13, f"limit {number(limit)}", 11, anchor="end"),
        )
    if pitch >= SMALLEST_LABEL:
        return (
            *shapes,
            *(
                Words(i * pitch + wide / 2, height + 14, f"{i}", 11, anchor="middle", ink="soft")
                for i in range(count)
            ),
        )
    return (
        *shapes,
        Words(0, height + 14, ends[0], 11, anchor="start", ink="soft"),
        Words(width, height + 14, ends[1], 11, anchor="end", ink="soft"),
    )


def stack_places(count: int, width: float, height: float) -> Array:
    """Return float[count, 4]: x, y, width and height of the part of each stack that can be
    pointed at."""
    pitch = width / count
    return rectangles(np.arange(count) * pitch, 0, stack_width(pitch), height)


def stack_width(pitch: float) -> float:
    """Return the width of a stack, whose neighbours are `pitch` apart. A wide one has an even
    width, so that its middle is at a whole unit."""
    return float(2 * int(pitch * 0.43)) if pitch >= 8 else pitch * (0.86 if pitch > 4 else 1)


def stack_raster(parts: Sequence[tuple[int, Array]], top: float) -> Array:
    """Return int[rows, columns]: the code of each pixel, with row 0 at the top."""
    codes: Array = np.array([code for code, _ in parts])
    pixels = stacked_pixels(np.array([heights for _, heights in parts]) * ROWS / (top or 1), ROWS)
    # From below: the empty rows, which come first, are on top.
    order = np.argsort(np.where(pixels < 0, -1, len(codes) - pixels), axis=0, kind="stable")
    pixels = np.take_along_axis(pixels, order, axis=0)
    return np.where(pixels < 0, -1, codes[pixels])


def stacked_pixels(amounts: Array, rows: int) -> Array:
    """Return int[rows, columns]: `amounts` (float[codes, columns], in rows) as pixels, one above
    the other; -1 for empty pixels.

    The next column makes up for what rounding adds to or takes from one, so that shares of the
    whole are kept.
    """
    # first what stays empty
    amounts = np.concatenate((rows - amounts.sum(axis=0, keepdims=True), amounts))
    pixels = np.zeros((rows, amounts.shape[1]), np.int64)
    owed = np.zeros(len(amounts))
    for column in range(amounts.shape[1]):
        owed += amounts[:, column]
        given: Array = np.maximum(np.floor(owed), 0).astype(np.int64)
        while (short := rows - int(given.sum())) != 0:
            excess = owed - given if short > 0 else np.where(given > 0, given - owed, -np.inf)
            given[int(np.argmax(excess))] += 1 if short > 0 else -1
        pixels[:, column] = np.repeat(np.arange(len(given)), given) - 1
        owed -= given
    return pixels
