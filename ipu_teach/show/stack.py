"""Paint stacks of bars next to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ipu_teach.show.measures import MOST_RECTANGLES, SMALLEST_LABEL
from ipu_teach.show.scene import number
from ipu_teach.show.shapes import Boxes, Raster, Shape, Stroke, Words, rectangles
from ipu_teach.types import Array

ROWS = 96  # The number of rows in the raster of many stacks.
SMALLEST_BOX = 0.15  # The height below which a box is invisible.


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
    """Return the shapes of stacks of bars in a box of the size `width` x `height`.

    The full height represents `top`, which is measured in `unit`. `parts` has (code, float[stacks]
    amounts) of each layer, from the bottom up. A line marks `limit` if it is not above `top`.
    `level`, float[stacks], is the height at which each stack has a line, or 0 for none. `ends` has
    the labels below the first and the last stack, which replace the numbers of the stacks if there
    is no room for all of them.
    """
    count = len(parts[0][1])
    scale = height / (top or 1)
    shapes = list[Shape]()
    pitch = width / count
    bar_width = stack_width(pitch)
    shapes.append(Words(width, -8, f"to {number(round(top))} {unit}", 12, anchor="end", ink="soft"))
    if count > MOST_RECTANGLES:
        shapes.append(Raster(0, 0, width, height, codes=stack_raster(parts, top)))
    else:
        shapes += _layers(parts, pitch, height, scale)
        if level is not None:
            shapes += _level_lines(level, pitch, height, scale)
    shapes.append(Stroke(((0, height), (width, height)), 1, "line"))
    if limit <= top:
        y = height - limit * scale
        shapes += (
            Stroke(((0, y), (width, y)), 2),
            Words(width, y + 13, f"limit {number(limit)}", 11, anchor="end"),
        )
    if pitch >= SMALLEST_LABEL:
        numbers = (
            Words(n * pitch + bar_width / 2, height + 14, f"{n}", 11, anchor="middle", ink="soft")
            for n in range(count)
        )
        return (*shapes, *numbers)
    return (
        *shapes,
        Words(0, height + 14, ends[0], 11, anchor="start", ink="soft"),
        Words(width, height + 14, ends[1], 11, anchor="end", ink="soft"),
    )


def _layers(
    parts: Sequence[tuple[int, Array]], pitch: float, height: float, scale: float
) -> Iterator[Shape]:
    """Yield the boxes of each layer of the stacks, without boxes that are too small to be seen.

    `parts` has (code, float[stacks] amounts) of each layer, from the bottom up. `pitch` is the
    distance between stacks, `height` is that of the picture, and `scale` is the height of an amount
    of 1.
    """
    bar_width = stack_width(pitch)
    lower: Array = np.zeros(len(parts[0][1]))
    for code, heights in parts:
        upper = lower + heights
        bar_heights = (upper - lower) * scale
        stack_numbers = np.arange(len(lower))
        boxes = rectangles(stack_numbers * pitch, height - upper * scale, bar_width, bar_heights)
        is_visible = bar_heights >= SMALLEST_BOX
        lower = upper
        if is_visible.any():
            yield Boxes(code, boxes[is_visible], upright=True)


def _level_lines(level: Array, pitch: float, height: float, scale: float) -> Iterator[Shape]:
    """Yield a line across each group of neighbouring stacks that have the same level above 0.

    `pitch` is the distance between stacks, `height` is that of the picture, and `scale` is the
    height of a level of 1.
    """
    bar_width = stack_width(pitch)
    first_stacks = np.flatnonzero(np.append(True, np.diff(level) != 0))
    end_stacks = np.append(first_stacks[1:], len(level))
    for first, end in zip(first_stacks.tolist(), end_stacks.tolist(), strict=True):
        y = height - float(level[first]) * scale
        if level[first]:
            yield Stroke(((first * pitch - 2, y), ((end - 1) * pitch + bar_width + 2, y)), 1.5)


def stack_places(count: int, width: float, height: float) -> Array:
    """Return float[count, 4]: (x, y, width, height) of the area that selects each stack."""
    pitch = width / count
    return rectangles(np.arange(count) * pitch, 0, stack_width(pitch), height)


def stack_width(pitch: float) -> float:
    """Return the width of a stack if the distance between stacks is `pitch`.

    The width of a wide stack is an even integer, so that its middle is at an integer.
    """
    return float(2 * int(pitch * 0.43)) if pitch >= 8 else pitch * (0.86 if pitch > 4 else 1)


def stack_raster(parts: Sequence[tuple[int, Array]], top: float) -> Array:
    """Return int[rows, columns]: the code of each pixel of many stacks, with row 0 at the top.

    `parts` has (code, float[columns] amounts) of each layer, from the bottom up. The full height
    represents `top`. An empty pixel is -1.
    """
    codes: Array = np.array([code for code, _ in parts])
    pixels = stacked_pixels(np.array([heights for _, heights in parts]) * ROWS / (top or 1), ROWS)
    # In each column, the codes are sorted so that the first layer is at the bottom and empty pixels
    # are at the top.
    order = np.argsort(np.where(pixels < 0, -1, len(codes) - pixels), axis=0, kind="stable")
    pixels = np.take_along_axis(pixels, order, axis=0)
    return np.where(pixels < 0, -1, codes[pixels])


def stacked_pixels(amounts: Array, rows: int) -> Array:
    """Return int[rows, columns]: the index of the amount that each pixel shows.

    Each column shows a stack of amounts. The index is -1 for a pixel that stays empty. `amounts`,
    float[amounts, columns], are heights in pixels. The rounding error of a column is carried to the
    next column, so that over all columns each amount gets the right number of pixels.
    """
    # A new row 0 of the amounts has the height that stays empty.
    amounts = np.concatenate((rows - amounts.sum(axis=0, keepdims=True), amounts))
    pixels = np.zeros((rows, amounts.shape[1]), np.int64)
    owed_pixels = np.zeros(len(amounts))
    for column in range(amounts.shape[1]):
        owed_pixels += amounts[:, column]
        num_pixels: Array = np.maximum(np.floor(owed_pixels), 0).astype(np.int64)
        while (num_missing := rows - int(num_pixels.sum())) != 0:
            excess = (
                owed_pixels - num_pixels
                if num_missing > 0
                else np.where(num_pixels > 0, num_pixels - owed_pixels, -np.inf)
            )
            num_pixels[int(np.argmax(excess))] += 1 if num_missing > 0 else -1
        pixels[:, column] = np.repeat(np.arange(len(num_pixels)), num_pixels) - 1
        owed_pixels -= num_pixels
    return pixels
