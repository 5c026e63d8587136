"""Draw as shapes: a matrix of senders and receivers, and one tile with its partners.

static/exchange.js draws the same shapes in the player.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipu_teach.show.board import outline
from ipu_teach.show.measures import LINK, MARGIN, MOST_PARTNERS, MOST_RECTANGLES, NAME
from ipu_teach.show.scene import Drawing, Matrix, Partners, Scene, Still
from ipu_teach.show.shapes import Boxes, Outline, Raster, Shape, Stroke, Words, rectangles
from ipu_teach.types import Array


def paint_matrix(scene: Scene, mark: Matrix, still: Still) -> Iterator[Shape]:
    """Yield the shapes of a matrix: its squares, the bars above and beside it, ticks and lines."""
    side = mark.width / mark.bins
    drawing = scene.drawings[still.lanes[mark.name][0]]
    codes = np.broadcast_to(still.cells[mark.name][0], mark.count).reshape(mark.bins, mark.bins)
    yield Words(mark.x, mark.y - MARGIN - 16, mark.heading, ink="soft")
    if mark.count > MOST_RECTANGLES:
        yield Raster(mark.x, mark.y, mark.width, mark.height, codes=codes)
    else:
        for code in np.unique(codes):
            row, column = np.nonzero(codes == code)
            x = mark.x + column * side
            y = mark.y + row * side
            yield Boxes(int(code), rectangles(x, y, side, side))
    right = mark.right
    bottom = mark.bottom
    for bar, upright in zip(drawing.bars, (True, False), strict=True):
        length = np.broadcast_to(bar.length, mark.bins) / (drawing.span or 1) * MARGIN
        start = np.arange(mark.bins) * side + 0.04 * side
        wide = 0.92 * side
        boxes = (
            rectangles(mark.x + start, mark.y - 3 - length, wide, length)
            if upright
            else rectangles(right + 3, mark.y + start, length, wide)
        )
        assert isinstance(bar.code, int)
        yield Boxes(bar.code, boxes[length > 0], upright)
    first = (mark.x, mark.y)
    last = (right, bottom)
    above = (right, mark.y)
    below = (mark.x, bottom)
    for ends in ((first, above), (first, below), (first, last), (above, last), (below, last)):
        yield Stroke(ends, 1, "line")
    block = mark.ipu * side
    for to, source in links(mark, codes) if mark.ipu else ():
        x = mark.x + source * block
        y = mark.y + to * block
        yield Outline(mark.link, outline(x, y, block, block), False)
    for text in mark.ticks:
        at = (int(text.replace(",", "")) // mark.each + 0.5) * side
        name = text
        if mark.ipu:
            name = f"IPU {text}"
            at = (int(text) + 0.5) * block
        yield Words(mark.x + at, bottom + 14, name, 11, anchor="middle", ink="soft")
        yield Words(mark.x - 5, mark.y + at + 4, name, 11, anchor="end", ink="soft")
    by = "IPU" if mark.ipu else "tile"
    axes = f"columns: senders, rows: receivers, by {by}"
    yield Words(right, bottom + 30, axes, 12, anchor="end", ink="soft")


def links(mark: Matrix, codes: Array) -> Array:
    """Return int[n, 2]: (receiver, sender) of each pair of IPUs between which bytes are sent.

    `codes` has the code of each square of the matrix, where 0 means no bytes.
    """
    ipus = mark.bins // mark.ipu
    sectors = np.asarray(codes.reshape(ipus, mark.ipu, ipus, mark.ipu).any(axis=(1, 3)))
    return np.argwhere(sectors & ~np.eye(ipus, dtype=bool))


def around(sizes: Array, middle: int) -> list[tuple[int, int, int]]:
    """Return `(partner, received, sent)` for each group that exchanges bytes with group `middle`.

    A group consists of the tiles that share a row and a column of the matrix; `middle` and
    `partner` are indices of groups. `received` and `sent` are the bytes that group `middle`
    received from the partner and sent to it. Partners with the most bytes come first. `sizes` is
    int[receivers, senders], in bytes.
    """
    received = sizes[middle]
    sent = sizes[:, middle]
    both = received + sent
    both[middle] = 0
    order = np.argsort(-both, kind="stable")
    return [(int(i), int(received[i]), int(sent[i])) for i in order.tolist() if both[i]]


def busiest(drawing: Drawing) -> int:
    """Return the index of the group of tiles that sends and receives the most bytes in total.

    As a sender, group i is column i of the matrix. As a receiver, it is row i. If several groups
    have the same total, the first of them is returned.
    """
    delivered, received = (np.asarray(bar.length) for bar in drawing.bars)
    return int(np.argmax(delivered + received))


def bin_name(mark: Matrix, which: int) -> str:
    """Return a text with the numbers of the tiles that share row or column `which`."""
    first = which * mark.each
    last = min((which + 1) * mark.each, mark.tiles) - 1
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def paint_partners(scene: Scene, mark: Partners, still: Still) -> Iterator[Shape]:
    """Yield the shapes of the busiest tile, with a column of its partners on each side."""
    matrix = scene.mark(mark.of)
    assert isinstance(matrix, Matrix)
    middle = busiest(scene.drawings[still.lanes[matrix.name][0]])
    sizes: Array = np.broadcast_to(still.values["bytes"], matrix.count).reshape(
        matrix.bins, matrix.bins
    )
    sectors = around(sizes, middle)
    tiles = "tile" if matrix.each == 1 else "tiles"
    bin_label = bin_name(matrix, middle)
    on = f"of IPU {middle // matrix.ipu} " if matrix.ipu else ""
    yield Words(mark.x, mark.y - 8, f"bytes between {tiles} {bin_label} {on}and others", ink="soft")
    most = max((max(a, b) for _, a, b in sectors), default=1)
    x = mark.x + mark.width / 2
    y = mark.y + mark.height / 2
    shown = sectors[:MOST_PARTNERS]
    told = [
        [bin_name(matrix, i), *([f"{a:,} in"] if a > 0 else []), *([f"{b:,} out"] if b > 0 else [])]
        + [f"IPU {i // (matrix.ipu or 1)}"] * bool(matrix.ipu)
        for i, a, b in shown
    ]
    wide = NAME * max((len(t) for t in sum(told, [])), default=0) + 6
    half = -(-len(shown) // 2)
    for place, ((which, received, sent), lines) in enumerate(zip(shown, told, strict=True)):
        # The first half of the partners is drawn on the right, the second half on the left.
        way, k = (-1, place) if place < half else (1, place - half)
        rows = half if way < 0 else len(shown) - half
        v = mark.y + (k + 0.5) / rows * mark.height
        edge = x - way * mark.width / 2
        far = (edge + way * wide, v)
        near = (x - way * (NAME * len(bin_label) / 2 + 8), y + (v - y) / 4)
        across = near[0] - far[0]
        down = near[1] - far[1]
        # Arrows in both directions are drawn next to each other.
        both = 4.0 if received and sent else 0.0
        if matrix.ipu and which // matrix.ipu != middle // matrix.ipu:
            yield Outline(matrix.link, np.array((far, near)), False, LINK)
        for size, inward, shift in ((received, True, both), (sent, False, -both)):
            if size:
                part = shift / (across**2 + down**2) ** 0.5
                ends = [
                    (p[0] - part * down, p[1] + part * across)
                    for p in ((far, near) if inward else (near, far))
                ]
                yield Stroke((ends[0], ends[1]), 1 + 2.5 * (size / most) ** 0.5, arrow=True)
        for line, text in enumerate(lines):
            up = v + 4 + 13 * (line - (len(lines) - 1) / 2)
            anchor = "end" if way < 0 else "start"
            yield Words(
                edge, up, text, 11 if line else 12, anchor=anchor, ink="soft" if line else "ink"
            )
    yield Words(x, y + 5, bin_label, 14, anchor="middle")
    if len(sectors) > len(shown):
        rest = f"and {len(sectors) - len(shown):,} others"
        yield Words(mark.right, mark.bottom + 12, rest, 12, anchor="end", ink="soft")
