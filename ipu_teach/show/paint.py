"""A frame of a scene as a list of simple shapes, for the renderers that draw stills."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ipu_teach.show.scene import Cells, Drawing, Flows, Lanes, Message, Scene, Still, Track, number
from ipu_teach.types import Array

MOST_RECTANGLES = 64  # of one group of marks; more become a raster of one pixel a value
RASTER = (160, 128)  # widest and highest raster of lanes, in pixels
MOST_SPOKES = 24  # of a message to many; beyond that its receivers get one frame around them all
SMALLEST_LABEL = 13.0  # cells and lanes smaller than this are not labelled


@dataclass(frozen=True, eq=False)
class Boxes:
    """Rectangles of one code and of one height: float[n, 4] of x, y, width, height."""

    code: int
    boxes: Array


@dataclass(frozen=True, eq=False)
class Raster:
    """A picture of codes, one pixel a value, stretched over a rectangle."""

    x: float
    y: float
    width: float
    height: float
    codes: Array


@dataclass(frozen=True)
class Words:
    """Text at its left end, middle or right end (`anchor`: "start", "middle", "end"); `ink`: "ink", "soft", or on a code."""

    x: float
    y: float
    text: str
    size: float = 12
    anchor: str = "start"
    ink: str | int = "ink"


@dataclass(frozen=True)
class Line:
    """A curve through a start, a control point and an end; with a head where it is an arrow. `role`: "ink" or "line"."""

    points: tuple[tuple[float, float], ...]
    width: float
    role: str = "ink"
    arrow: bool = False


Shape = Boxes | Raster | Words | Line


def paint(scene: Scene, frame: int, progress: float = 1.0, whole: bool = False) -> Iterator[Shape]:
    """The shapes of frame number `frame` when `progress` (0 to 1) of it is over; `whole` shows all of its lanes."""
    still = scene.stills[int(scene.frames[frame])]
    for mark in scene.marks:
        match mark:
            case Cells():
                yield from _cells(scene, mark, still, progress)
            case Lanes():
                yield from _lanes(scene, mark, still, progress, whole)
            case Flows():
                yield from _flows(scene, mark, still)
            case Track():
                yield from _track(scene, mark, frame, progress)


def cell_codes(mark: Cells, still: Still, progress: float) -> Array:
    """int[count]: the code of each cell. A cell keeps its first code until its time is over, then it has the second."""
    code, until, then = still.cells[mark.name]
    now = progress * still.cycles
    until = np.broadcast_to(np.asarray(until), mark.count)
    return np.where((until > 0) & (until >= now), np.broadcast_to(np.asarray(code), mark.count), then)


def _cells(scene: Scene, mark: Cells, still: Still, progress: float) -> Iterator[Shape]:
    if mark.heading:
        yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    codes = cell_codes(mark, still, progress)
    if mark.count > MOST_RECTANGLES:
        rows = -(-mark.block // mark.columns)
        for first in range(0, mark.count, mark.block):
            part = codes[first : first + mark.block]
            pixels = np.full(rows * mark.columns, -1)
            pixels[: len(part)] = part
            x, y = mark.place(np.array(first))
            yield Raster(float(x), float(y), mark.columns * mark.side, rows * mark.side, pixels.reshape(rows, mark.columns))
        return
    x, y = mark.place(np.arange(mark.count))
    inset = mark.side * 0.94
    for code in np.unique(codes):
        at = codes == code
        side = np.full(int(at.sum()), inset)
        yield Boxes(int(code), np.stack((x[at], y[at], side, side), axis=1))
    if mark.side >= SMALLEST_LABEL:
        yield from _cell_labels(scene, mark, codes)


def _cell_labels(scene: Scene, mark: Cells, codes: Array) -> Iterator[Shape]:
    """The label of each cell and the letter of its code, or of a small cell one of them."""
    x, y = mark.place(np.arange(mark.count))
    tall = mark.side >= 2 * SMALLEST_LABEL
    lines: list[Words] = []
    for i, code in enumerate(codes.tolist()):
        letter, name = scene.codes[code].letter, mark.labels[i] if mark.labels else f"{i}"
        text = name if tall or not letter else letter
        size = min(12.0, mark.side * 0.42, 1.5 * mark.side / max(1, len(text)))
        middle = float(x[i] + mark.side * 0.47)
        lines.append(Words(middle, float(y[i] + mark.side * (0.42 if tall and letter else 0.6)), text, size, "middle", code))
        if tall and letter:
            lines.append(Words(middle, float(y[i] + mark.side * 0.78), letter, size, "middle", code))
    yield from sorted(lines, key=lambda w: (str(w.ink), w.size))


def _lanes(scene: Scene, mark: Lanes, still: Still, progress: float, whole: bool) -> Iterator[Shape]:
    chosen, start, stop = still.lanes[mark.name]
    drawing = scene.drawings[chosen]
    shown = drawing.span if whole else start + progress * (stop - start)
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    yield Words(mark.x + mark.width, mark.y - 8, f"{number(drawing.span)} {drawing.unit}", anchor="end", ink="soft")
    bottom = mark.y + mark.height
    yield Line(((mark.x, mark.y), (mark.x, bottom)), 1, "line")
    yield Line(((mark.x + mark.width, mark.y), (mark.x + mark.width, bottom)), 1, "line")
    pitch = mark.height / mark.count
    if mark.count > MOST_RECTANGLES:
        yield Raster(mark.x, mark.y, mark.width, mark.height, lane_raster(mark, drawing, shown))
        return
    scale = mark.width / drawing.span if drawing.span else 0.0
    top = mark.y + np.arange(mark.count) * pitch
    for code, begin, end in _pieces(drawing, mark.count):
        end = np.minimum(end, shown)
        keep = end > begin
        for one in np.unique(code[keep]):
            at = keep & (code == one)
            x, width = mark.x + begin[at] * scale, (end - begin)[at] * scale
            yield Boxes(int(one), np.stack((x, top[at] + pitch * 0.08, width, np.full(len(x), pitch * 0.84)), axis=1))
    if pitch >= SMALLEST_LABEL * 0.7:
        for i in range(mark.count):
            words = mark.labels[i] if mark.labels else f"{i}"
            yield Words(mark.x - 5, float(top[i] + pitch * 0.72), words, min(11.0, pitch * 0.8), "end", "soft")


def _pieces(drawing: Drawing, count: int) -> Iterator[tuple[Array, Array, Array]]:
    """(code, begin, end) of every lane's piece, bar by bar."""
    for bar in drawing.bars:
        begin = np.full(count, float(bar.start))
        middle = begin + np.broadcast_to(np.asarray(bar.length, np.float64), count)
        yield np.broadcast_to(np.asarray(bar.code), count), begin, middle
        if bar.rest >= 0:
            yield np.full(count, bar.rest), middle, np.full(count, float(bar.end))


def lane_raster(mark: Lanes, drawing: Drawing, shown: float) -> Array:
    """Codes by (row, column): several lanes share a row, which shows the code of the first of them; -1 where there is none."""
    columns, rows = RASTER[0], min(RASTER[1], mark.count)
    lanes = np.arange(rows) * mark.count // rows
    at = (np.arange(columns) + 0.5) / columns * drawing.span
    pixels = np.full((rows, columns), -1)
    for code, begin, end in _pieces(drawing, mark.count):
        inside = (at >= begin[lanes, None]) & (at < np.minimum(end[lanes, None], shown))
        pixels = np.where(inside, code[lanes, None], pixels)
    return pixels


def _flows(scene: Scene, mark: Flows, still: Still) -> Iterator[Shape]:
    cells = scene.mark(mark.between)
    assert isinstance(cells, Cells)
    messages = still.flows.get(mark.name, ())
    largest = max((m.size for m in messages), default=1)
    for message in messages:
        yield from _message(cells, message, 1 + 2.5 * (message.size / largest) ** 0.5)


def _message(cells: Cells, message: Message, width: float) -> Iterator[Shape]:
    x, y = (float(v) + cells.side * 0.47 for v in cells.place(np.array(message.source)))
    to_x, to_y = (v + cells.side * 0.47 for v in cells.place(message.receivers))
    if len(message.receivers) == 1:
        yield Line(((x, y), bend(x, y, float(to_x[0]), float(to_y[0])), (float(to_x[0]), float(to_y[0]))), width, arrow=True)
        return
    # Sent once, heard by many: one trunk to a point on the way to their middle, and from there a thin line to each.
    fork = (x + 0.45 * (float(to_x.mean()) - x), y + 0.45 * (float(to_y.mean()) - y))
    yield Line(((x, y), fork), width + 0.5)
    if len(message.receivers) <= MOST_SPOKES:
        for end in zip(to_x.tolist(), to_y.tolist(), strict=True):
            yield Line((fork, end), 0.8, arrow=True)
        return
    half = cells.side / 2
    left, right, top, bottom = to_x.min() - half, to_x.max() + half, to_y.min() - half, to_y.max() + half
    corners = ((left, top), (right, top), (right, bottom), (left, bottom), (left, top))
    for a, b in zip(corners, corners[1:], strict=False):
        yield Line(((float(a[0]), float(a[1])), (float(b[0]), float(b[1]))), 1.5)


def bend(x: float, y: float, to_x: float, to_y: float) -> tuple[float, float]:
    """The control point of a curve that leaves the straight line a little to its left, so that both directions are seen."""
    return (x + to_x) / 2 + 0.18 * (to_y - y), (y + to_y) / 2 - 0.18 * (to_x - x)


def track_edges(scene: Scene) -> Array:
    """float[frames + 1]: where each frame begins on the track, from 0 to 1. A frame without cycles has no width."""
    cycles = np.array([s.cycles for s in scene.stills])[scene.frames]
    edges = np.append(0.0, np.cumsum(cycles))
    return edges / edges[-1] if edges[-1] else np.linspace(0, 1, len(edges))


def _track(scene: Scene, mark: Track, frame: int, progress: float) -> Iterator[Shape]:
    edges = mark.x + track_edges(scene) * mark.width
    codes: Array = np.array([s.code for s in scene.stills])[scene.frames]
    if len(codes) > MOST_RECTANGLES:
        middle = mark.x + (np.arange(RASTER[0]) + 0.5) / RASTER[0] * mark.width
        found = codes[np.minimum(np.searchsorted(edges, middle, "right") - 1, len(codes) - 1)]
        yield Raster(mark.x, mark.y, mark.width, mark.height, found[None, :])
    else:
        for code in np.unique(codes):
            at = np.flatnonzero(codes == code)
            size = np.full(len(at), mark.height)
            yield Boxes(int(code), np.stack((edges[at], np.full(len(at), mark.y), edges[at + 1] - edges[at], size), axis=1))
    cursor = float(edges[frame] + progress * (edges[frame + 1] - edges[frame]))
    yield Line(((cursor, mark.y - 4), (cursor, mark.y + mark.height + 4)), 2)
    total = float(np.array([s.cycles for s in scene.stills])[scene.frames].sum())
    yield Words(mark.x, mark.y + mark.height + 16, "0", 11, ink="soft")
    yield Words(mark.x + mark.width, mark.y + mark.height + 16, f"{number(total)} modelled cycles", 11, "end", "soft")


def colours_of(shapes: list[Shape]) -> set[int]:
    """The codes that occur in some shapes."""
    found: set[int] = set()
    for shape in shapes:
        match shape:
            case Boxes():
                found.add(shape.code)
            case Raster():
                found.update(int(c) for c in np.unique(shape.codes) if c >= 0)
            case Words() if isinstance(shape.ink, int):
                found.add(shape.ink)
    return found


def caption(scene: Scene, frame: int) -> Iterator[Shape]:
    """Below the drawing: what the frame is, in words, and what the codes mean that the scene uses."""
    still = scene.stills[int(scene.frames[frame])]
    y = scene.height + 14
    yield Words(16, y, _fitting(f"{still.label}, {number(still.cycles)} modelled cycles" if still.cycles else still.label))
    yield Words(16, y + 18, _fitting(still.note), ink="soft")
    x = 16.0
    for code in used_codes(scene):
        name = f"{scene.codes[code].letter} {scene.codes[code].name}"
        yield Boxes(code, np.array([[x, y + 32.0, 14.0, 14.0]]))
        yield Words(x + 19, y + 43, name, ink="soft")
        x += 34 + 6.6 * len(name)


def used_codes(scene: Scene) -> list[int]:
    """The codes with a letter that a frame or a lane of the scene shows, in the order of the palette."""
    found = {s.code for s in scene.stills}
    for drawing in scene.drawings:
        for bar in drawing.bars:
            found |= {bar.rest, *np.unique(bar.code).tolist()}
    return [i for i, code in enumerate(scene.codes) if i in found and code.letter]


def _fitting(text: str, most: int = 112) -> str:
    """A line of text that fits the width."""
    return text if len(text) <= most else text[: most - 1] + "…"
