"""Encode the shapes of painted marks for the player; equal shapes are stored once.

static/painted.js draws them. Lengths are in tenths of a unit. Neighbouring shapes of the same style
are stored together as the columns of one list. The first entry of such a list is the kind of the
shapes: "b" for boxes in the colour of a code, "r" for a raster, "w" for labels, "l" for lines, "o"
for an outline.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from ipu_teach.show.pack import pack
from ipu_teach.show.shapes import LETTER, Boxes, Outline, Raster, Shape, Stroke, Words
from ipu_teach.types import Array

ANCHORS = ("start", "middle", "end")


class Once:
    """The list `all` of the shapes of a scene, which contains equal shapes only once."""

    def __init__(self) -> None:
        self.all: list[list[Any]] = []
        self._number: dict[str, int] = {}

    def picture(self, shapes: Sequence[Shape]) -> list[Any]:
        """Add the shapes of a picture to the list `all`, and return `[count, indices]`.

        `indices` has the positions, in `all`, of the entries of which the picture consists, packed
        into a string by `pack`. `count` is the number of these indices.
        """
        shape_numbers = [self._of(_together(list(group))) for _, group in groupby(shapes, _style)]
        return [len(shape_numbers), pack(np.array(shape_numbers))]

    def _of(self, shape: list[Any]) -> int:
        number = self._number.setdefault(json.dumps(shape), len(self.all))
        self.all += [shape] if number == len(self.all) else []
        return number


def tenths(values: Any) -> Array:
    """Convert lengths to tenths of a unit, and return them rounded to int64."""
    return np.round(np.asarray(values, np.float64) * 10).astype(np.int64)


def _style(shape: Shape) -> object:
    match shape:
        case Boxes():
            return shape.boxes[:, ::2].tobytes()
        case Words():
            return shape.size, shape.anchor, shape.ink
        case Stroke():
            return shape.width, len(shape.points), shape.role, shape.arrow
    return id(shape)


def _together(shapes: list[Any]) -> list[Any]:
    shape = shapes[0]
    match shape:
        case Boxes():
            xs, _, widths, _ = [pack(tenths(side)) for side in shape.boxes.T]
            columns_of_shapes = (
                (other.code, *(pack(tenths(side)) for side in other.boxes.T[1::2]))
                for other in shapes
            )
            return [
                "b",
                len(shape.boxes),
                xs,
                widths,
                *(column for columns in columns_of_shapes for column in columns),
            ]
        case Raster():
            box = tenths((shape.x, shape.y, shape.width, shape.height)).tolist()
            return ["r", *box, *shape.codes.shape, pack(shape.codes)]
        case Words():
            xs, ys = (pack(tenths([getattr(other, axis) for other in shapes])) for axis in "xy")
            return [
                "w",
                len(shapes),
                xs,
                ys,
                shape.size,
                ANCHORS.index(shape.anchor),
                shape.ink,
                *(word.text for word in shapes),
            ]
        case Stroke():
            points = tenths([other.points for other in shapes])
            # Store the first point, and for each further point the difference from the point before
            # it.
            differences = np.diff(points, axis=1, prepend=0).reshape(len(shapes), -1)
            return [
                "l",
                len(shapes),
                shape.width,
                shape.role,
                int(shape.arrow),
                *(pack(column) for column in differences.T),
            ]
    assert isinstance(shape, Outline)
    xs, ys = (pack(tenths(column)) for column in shape.points.T)
    return ["o", shape.code, len(shape.points), xs, ys, int(shape.filled), shape.width]


def beside(pictures: Sequence[Sequence[Shape]]) -> int:
    """Return how far labels extend beyond a mark's left edge, rounded; 0 if none does."""
    texts = (shape for picture in pictures for shape in picture if isinstance(shape, Words))
    overlaps = (
        LETTER * len(text.text) * ANCHORS.index(text.anchor) / 2 - text.x
        for text in texts
        if text.x < 0
    )
    return round(max(overlaps, default=0))
