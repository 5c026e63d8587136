"""A matrix of senders and receivers, and one tile among its partners, as shapes: for the renderers
that draw stills."""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, pi, sin

import numpy as np

from ipu_teach.show.measures import MARGIN, MOST_PARTNERS, MOST_RECTANGLES
from ipu_teach.show.scene import Drawing, Matrix, Partners, Scene, Still
from ipu_teach.show.shapes import Boxes, Raster, Shape, Stroke, Words
from ipu_teach.types import Array


def paint_matrix(scene: Scene, mark: Matrix, still: Still) -> Iterator[Shape]:
    """The squares, the bars above and beside them, the ticks and the diagonal."""
    side, drawing = mark.width / mark.bins, scene.drawings[still.lanes[mark.name][0]]
    codes = np.broadcast_to(still.cells[mark.name][0], mark.count).reshape(mark.bins, mark.bins)
    yield Words(mark.x, mark.y - MARGIN - 16, mark.heading, ink="soft")
    if mark.count > MOST_RECTANGLES:
        yield Raster(mark.x, mark.y, mark.width, mark.height, codes)
    else:
        for code in np.unique(codes):
            row, column = np.nonzero(codes == code)
            size = np.full(len(row), side)
            yield Boxes(
                int(code),
                np.stack((mark.x + column * side, mark.y + row * side, size, size), axis=1),
            )
    right, bottom = mark.x + mark.width, mark.y + mark.height
    for bar, upright in zip(drawing.bars, (True, False), strict=True):
        length = np.broadcast_to(bar.length, mark.bins) / (drawing.span or 1) * MARGIN
        start, wide = np.arange(mark.bins) * side + 0.04 * side, np.full(mark.bins, 0.92 * side)
        if upright:
            boxes = np.stack((mark.x + start, mark.y - 3 - length, wide, length), axis=1)
        else:
            boxes = np.stack((np.full(mark.bins, right + 3), mark.y + start, length, wide), axis=1)
        assert isinstance(bar.code, int)
        yield Boxes(bar.code, boxes[length > 0], upright)
    for a, b in (
        ((mark.x, mark.y), (right, mark.y)),
        ((mark.x, mark.y), (mark.x, bottom)),
        ((mark.x, mark.y), (right, bottom)),
    ):
        yield Stroke((a, b), 1, "line")
    for a, b in (((right, mark.y), (right, bottom)), ((mark.x, bottom), (right, bottom))):
        yield Stroke((a, b), 1, "line")
    for text in mark.ticks:
        at = (int(text.replace(",", "")) // mark.each + 0.5) * side
        yield Words(mark.x + at, bottom + 14, text, 11, "middle", "soft")
        yield Words(mark.x - 5, mark.y + at + 4, text, 11, "end", "soft")
    yield Words(right, bottom + 30, "senders, by tile", 12, "end", "soft")
    yield Words(mark.x - 5, mark.y - 8, "receivers", 11, "end", "soft")


def around(sizes: Array, middle: int) -> list[tuple[int, int, int]]:
    """(partner, bytes from it, bytes to it) of bin `middle` of a matrix of bytes, those with most
    first."""
    received, sent = sizes[middle], sizes[:, middle]
    both = received + sent
    both[middle] = 0
    order = np.argsort(-both, kind="stable")
    return [(int(i), int(received[i]), int(sent[i])) for i in order.tolist() if both[i]]


def busiest(drawing: Drawing) -> int:
    """The bin that sends and receives most."""
    sent, received = (np.asarray(bar.length) for bar in drawing.bars)
    return int(np.argmax(sent + received))


def bin_name(mark: Matrix, which: int) -> str:
    """The tiles of a row or column."""
    first, last = which * mark.each, min((which + 1) * mark.each, mark.tiles) - 1
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def paint_partners(scene: Scene, mark: Partners, still: Still) -> Iterator[Shape]:
    """The busiest tile in the middle, its partners around it."""
    matrix = scene.mark(mark.of)
    assert isinstance(matrix, Matrix)
    middle = busiest(scene.drawings[still.lanes[matrix.name][0]])
    sizes: Array = np.broadcast_to(still.values["bytes"], matrix.count).reshape(
        matrix.bins, matrix.bins
    )
    found = around(sizes, middle)
    tiles = "tile" if matrix.each == 1 else "tiles"
    yield Words(
        mark.x,
        mark.y - 8,
        f"bytes between {tiles} {bin_name(matrix, middle)} and others",
        ink="soft",
    )
    most = max((max(a, b) for _, a, b in found), default=1)
    x, y = mark.x + mark.width / 2, mark.y + mark.height / 2
    shown = found[:MOST_PARTNERS]
    for place, (which, received, sent) in enumerate(shown):
        angle = 2 * pi * place / len(shown) - pi / 2
        across, down = cos(angle), sin(angle)
        u, v = x + (mark.width / 2 - 36) * across, y + (mark.height / 2 - 30) * down
        both = 4.0 if received and sent else 0.0  # beside each other
        for size, inward, shift in ((received, True, both), (sent, False, -both)):
            if size:
                near, far = (x + 34 * across, y + 26 * down), (u - 34 * across, v - 26 * down)
                ends = [
                    (p[0] - shift * down, p[1] + shift * across)
                    for p in ((far, near) if inward else (near, far))
                ]
                yield Stroke((ends[0], ends[1]), 1 + 2.5 * (size / most) ** 0.5, arrow=True)
        yield Words(u, v, bin_name(matrix, which), 12, "middle")
        text = " ".join([f"{received:,} in"] * (received > 0) + [f"{sent:,} out"] * (sent > 0))
        yield Words(u, v + 13, text, 11, "middle", "soft")
    yield Words(x, y + 5, bin_name(matrix, middle), 14, "middle")
    if len(found) > len(shown):
        yield Words(
            mark.x + mark.width,
            mark.y + mark.height + 12,
            f"and {len(found) - len(shown):,} others",
            12,
            "end",
            "soft",
        )
