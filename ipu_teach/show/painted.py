"""Shapes as a page carries them, each once: static/painted.js draws what this writes.

Lengths are in tenths of a unit. Neighbours of one style are columns of one shape. By its first
letter: "b", boxes of a code; "r", a raster; "w", words; "l", lines; "o", an outline.
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
    """The shapes of a scene, each stored once."""

    def __init__(self) -> None:
        self.all: list[list[Any]] = []
        self._number: dict[str, int] = {}

    def picture(self, shapes: Sequence[Shape]) -> list[Any]:
        """Return [the number of shapes, the number of each shape in `all`]."""
        numbers = [self._of(_together(list(group))) for _, group in groupby(shapes, _style)]
        return [len(numbers), pack(np.array(numbers))]

    def _of(self, shape: list[Any]) -> int:
        number = self._number.setdefault(json.dumps(shape), len(self.all))
        self.all += [shape] if number == len(self.all) else []
        return number


def tenths(values: Any) -> Array:
    """Return int64: lengths in tenths of a unit."""
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
            x, _, wide, _ = [pack(tenths(side)) for side in shape.boxes.T]
            parts = ((s.code, *(pack(tenths(side)) for side in s.boxes.T[1::2])) for s in shapes)
            return [
                "b",
                len(shape.boxes),
                x,
                wide,
                *(part for part_list in parts for part in part_list),
            ]
        case Raster():
            place = tenths((shape.x, shape.y, shape.width, shape.height)).tolist()
            return ["r", *place, *shape.codes.shape, pack(shape.codes)]
        case Words():
            x, y = (pack(tenths([getattr(one, along) for one in shapes])) for along in "xy")
            return [
                "w",
                len(shapes),
                x,
                y,
                shape.size,
                ANCHORS.index(shape.anchor),
                shape.ink,
                *(w.text for w in shapes),
            ]
        case Stroke():
            points = tenths([one.points for one in shapes])
            # from each point to the next
            steps = np.diff(points, axis=1, prepend=0).reshape(len(shapes), -1)
            return [
                "l",
                len(shapes),
                shape.width,
                shape.role,
                int(shape.arrow),
                *(pack(column) for column in steps.T),
            ]
    assert isinstance(shape, Outline)
    x, y = (pack(tenths(column)) for column in shape.points.T)
    return ["o", shape.code, len(shape.points), x, y, int(shape.filled), shape.width]


def beside(pictures: Sequence[Sequence[Shape]]) -> int:
    """Return how far texts reach to the left of the beginning of their mark."""
    words = (shape for picture in pictures for shape in picture if isinstance(shape, Words))
    reach = (LETTER * len(w.text) * ANCHORS.index(w.anchor) / 2 - w.x for w in words if w.x < 0)
    return round(max(reach, default=0))
