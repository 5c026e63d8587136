"""A frame of a scene as a list of simple shapes, for the renderers that draw stills."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ipu_teach.show.scene import (
    WIDTH,
    Cells,
    Curve,
    Drawing,
    Flame,
    Flows,
    Lanes,
    Message,
    Scene,
    Stack,
    Still,
    Tape,
    Track,
    Tree,
    label,
    number,
)
from ipu_teach.types import Array

MOST_RECTANGLES = 64  # of one group of marks; more become a raster of one pixel a value
MOST_PIECES = 900  # of a tape, drawn one by one
RASTER = (160, 128)  # widest and highest raster of lanes, in pixels
MOST_SPOKES = 24  # of a message to many; beyond that its receivers get one frame around them all
SMALLEST_BOX = 0.15  # of a stack; smaller ones cannot be seen
SMALLEST_LABEL = 13.0  # cells and lanes smaller than this are not labelled


@dataclass(frozen=True, eq=False)
class Boxes:
    """Rectangles of one code and of one height, or if `upright` of one width: float[n, 4] of x, y, width, height."""

    code: int
    boxes: Array
    upright: bool = False


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


@dataclass(frozen=True, eq=False)
class Outline:
    """Straight lines through points, float[n, 2], in the colour of a code: an area if `filled`, else a line `width` thick."""

    code: int
    points: Array
    filled: bool
    width: float = 1.5


Shape = Boxes | Raster | Words | Line | Outline


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
            case Flame():
                yield from _flame(scene, mark)
            case Tape():
                yield from _tape(scene, mark, frame, progress)
            case Curve():
                yield from _curve(mark, frame, len(scene.frames) > 1)
            case Stack():
                yield from _stack(scene, mark, still)
            case Tree():
                yield from _tree(mark)


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
    yield from sorted(lines, key=lambda w: (str(w.ink), w.size, w.y))


def _lanes(scene: Scene, mark: Lanes, still: Still, progress: float, whole: bool) -> Iterator[Shape]:
    chosen, start, stop = still.lanes[mark.name]
    drawing = scene.drawings[chosen]
    shown = drawing.span if whole or mark.whole else start + progress * (stop - start)
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
    yield from _lane_labels(mark)
    if mark.whole and len(scene.frames) > 1:
        x = mark.x + (start + stop) / 2 * scale
        yield Line(((x, mark.y - 3), (x, bottom + 3)), 1.5)


def _lane_labels(mark: Lanes | Tape) -> Iterator[Shape]:
    pitch = mark.height / mark.count
    if pitch >= SMALLEST_LABEL * 0.7:
        for i in range(mark.count):
            words = mark.labels[i] if mark.labels else f"{i}"
            yield Words(mark.x - 5, mark.y + (i + 0.72) * pitch, words, min(11.0, pitch * 0.8), "end", "soft")


def _pieces(drawing: Drawing, count: int) -> Iterator[tuple[Array, Array, Array]]:
    """(code, begin, end) of every lane's piece, bar by bar."""
    for bar in drawing.bars:
        begin = np.broadcast_to(np.asarray(bar.start, np.float64), count)
        middle = begin + np.broadcast_to(np.asarray(bar.length, np.float64), count)
        yield np.broadcast_to(np.asarray(bar.code), count), begin, middle
        if bar.rest >= 0:
            yield np.full(count, bar.rest), middle, np.full(count, float(bar.end))


def lane_raster(mark: Lanes, drawing: Drawing, shown: float) -> Array:
    """Codes by (row, column): several lanes share a row, which shows the code of the first of them; -1 where there is none."""
    columns, rows = RASTER[0], min(RASTER[1], mark.count)
    lanes = np.arange(rows) * mark.count // rows
    at = (np.arange(columns) + 0.5) / columns * drawing.span
    pixels: Array = np.full((rows, columns), -1)
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


def cycles_before(scene: Scene) -> Array:
    """float[frames + 1]: modelled cycles before each frame, and at the end."""
    return np.append(0.0, np.cumsum(np.array([s.cycles for s in scene.stills])[scene.frames]))


def _flame(scene: Scene, mark: Flame) -> Iterator[Shape]:
    before = cycles_before(scene)
    scale = mark.width / (before[-1] or 1)
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    start, stop = (mark.first, np.minimum(mark.last, before[-1])) if mark.timed else (before[mark.first], before[mark.last])
    left, right = mark.x + start * scale, mark.x + stop * scale
    top = mark.y + mark.depth * mark.pitch
    gap = np.where(right - left > 4, 0.8, 0)  # between neighbours
    wide = np.maximum(right - left - gap, 0.3)
    for code in np.unique(mark.code):
        at = mark.code == code
        yield Boxes(int(code), np.stack((left[at], top[at], wide[at], np.full(int(at.sum()), mark.pitch - 1.5)), axis=1))
    lines = []
    for i in np.flatnonzero(wide > 30).tolist():
        words = label(mark.names[int(mark.title[i])], int((wide[i] - 8) / 6.4))
        lines.append(Words(float(left[i]) + 4, float(top[i] + mark.pitch * 0.68), words, 11, "start", int(mark.code[i])))
    yield from sorted(lines, key=lambda w: w.ink)


def _tape(scene: Scene, mark: Tape, frame: int, progress: float) -> Iterator[Shape]:
    before = cycles_before(scene)
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    yield from _tape_boxes(scene, mark, before) if _few(scene, mark) else [_tape_raster(scene, mark, before)]
    yield from _lane_labels(mark)
    cursor = float(mark.x + mark.width * (before[frame] + progress * (before[frame + 1] - before[frame])) / (before[-1] or 1))
    yield Line(((cursor, mark.y - 4), (cursor, mark.y + mark.height + 4)), 2)


def _drawings_of(scene: Scene, mark: Tape) -> list[Drawing | None]:
    """The drawing of each still, None for one without."""
    return [scene.drawings[s.lanes[mark.name][0]] if mark.name in s.lanes else None for s in scene.stills]


def _few(scene: Scene, mark: Tape) -> bool:
    """Whether the lanes of a tape can be drawn bar by bar."""
    pieces = [0 if d is None else sum(1 + (bar.rest >= 0) for bar in d.bars) for d in _drawings_of(scene, mark)]
    return int(np.array(pieces)[scene.frames].sum()) * mark.count <= MOST_PIECES


def _tape_boxes(scene: Scene, mark: Tape, before: Array) -> Iterator[Shape]:
    scale, pitch = mark.width / (before[-1] or 1), mark.height / mark.count
    boxes: dict[tuple[int, int], list[tuple[float, float, float, float]]] = {}  # by code and by how many lanes they cover
    drawings = _drawings_of(scene, mark)
    for frame, still in enumerate(scene.frames.tolist()):
        drawing = drawings[still]
        for code, begin, end in _pieces(drawing, mark.count) if drawing is not None else ():
            x, wide = mark.x + (before[frame] + begin) * scale, (end - begin) * scale
            new = (np.diff(x) != 0) | (np.diff(wide) != 0) | (np.diff(code) != 0)
            starts = np.flatnonzero(np.append(True, new))
            for lane, lanes in zip(starts.tolist(), np.diff(np.append(starts, mark.count)).tolist(), strict=True):
                box = (float(x[lane]), mark.y + lane * pitch, float(wide[lane]), lanes * pitch)
                if box[2] > 0:
                    boxes.setdefault((int(code[lane]), lanes), []).append(box)
    for (one, _), found in sorted(boxes.items()):
        yield Boxes(one, np.array(found))


def _tape_raster(scene: Scene, mark: Tape, before: Array) -> Raster:
    rows, columns = min(RASTER[1], mark.count), 2 * RASTER[0]
    lanes = np.arange(rows) * mark.count // rows
    at = (np.arange(columns) + 0.5) / columns * before[-1]
    which = np.minimum(np.searchsorted(before, at, "right") - 1, len(scene.frames) - 1)
    within, still = at - before[which], scene.frames[which]
    pixels = np.full((rows, columns), -1)
    drawings = _drawings_of(scene, mark)
    for one in np.unique(still).tolist():
        here, drawing = np.flatnonzero(still == one), drawings[one]
        for code, begin, end in _pieces(drawing, mark.count) if drawing is not None else ():
            inside = (within[here] >= begin[lanes, None]) & (within[here] < end[lanes, None])
            pixels[:, here] = np.where(inside, code[lanes, None], pixels[:, here])
    return Raster(mark.x, mark.y, mark.width, mark.height, pixels)


def _steps(mark: Curve, values: Array) -> Array:
    """float[2n, 2]: the points of a line that keeps each value for the width of a frame."""
    edges = mark.x + np.arange(len(values) + 1) * (mark.width / mark.count)
    x = np.repeat(edges, 2)[1:-1]
    return np.stack((x, np.repeat(mark.y + mark.height * (1 - values / (mark.top or 1)), 2)), axis=1)


def _curve(mark: Curve, frame: int, moving: bool) -> Iterator[Shape]:
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    yield Words(mark.x - 5, mark.y + 9, number(mark.top), 11, "end", "soft")
    yield Words(mark.x - 5, mark.y + mark.height, f"0 {mark.unit}", 11, "end", "soft")
    for series in mark.series:
        upper = _steps(mark, series.values)
        if series.base is None:
            yield Outline(series.code, upper, False, 2.5)
        else:
            yield Outline(series.code, np.concatenate((upper, _steps(mark, series.base)[::-1])), True)
    if 0 < mark.limit <= mark.top:
        y = mark.y + mark.height * (1 - mark.limit / mark.top)
        yield Line(((mark.x, y), (mark.x + mark.width, y)), 1.5)
    bottom = mark.y + mark.height
    yield Line(((mark.x, bottom), (mark.x + mark.width, bottom)), 1, "line")
    if moving:
        x = mark.x + (frame + 0.5) * mark.width / mark.count
        yield Line(((x, mark.y - 3), (x, bottom + 3)), 1.5)


def _stack(scene: Scene, mark: Stack, still: Still) -> Iterator[Shape]:
    drawing = scene.drawings[still.lanes[mark.name][0]]
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    yield Words(mark.x + mark.width, mark.y - 8, f"to {number(drawing.span)} {drawing.unit}", 12, "end", "soft")
    bottom, scale = mark.y + mark.height, mark.height / (drawing.span or 1)
    pitch = mark.width / mark.count
    wide, rows = stack_width(pitch), np.arange(mark.count)
    if mark.count > MOST_RECTANGLES:
        yield Raster(mark.x, mark.y, mark.width, mark.height, stack_raster(mark, drawing))
    else:
        for code, begin, end in _stacked(drawing, mark.count):
            boxes = np.stack(
                (mark.x + rows * pitch, bottom - end * scale, np.full(mark.count, wide), (end - begin) * scale), axis=1
            )
            seen = boxes[:, 3] >= SMALLEST_BOX
            if seen.any():
                yield Boxes(code, boxes[seen], upright=True)
        starts = np.flatnonzero(np.append(True, np.diff(mark.level) != 0))
        for first, last in zip(starts.tolist(), np.append(starts[1:], mark.count).tolist(), strict=True):
            y = bottom - float(mark.level[first]) * scale
            yield Line(((mark.x + first * pitch - 2, y), (mark.x + (last - 1) * pitch + wide + 2, y)), 1.5)
    yield Line(((mark.x, bottom), (mark.x + mark.width, bottom)), 1, "line")
    if mark.limit <= drawing.span:
        y = bottom - mark.limit * scale
        yield Line(((mark.x, y), (mark.x + mark.width, y)), 2)
    if pitch >= SMALLEST_LABEL:
        for i in range(mark.count):
            yield Words(mark.x + i * pitch + wide / 2, bottom + 14, f"{i}", 11, "middle", "soft")
    else:
        yield Words(mark.x, bottom + 14, "tile 0", 11, "start", "soft")
        yield Words(mark.x + mark.width, bottom + 14, f"tile {mark.count - 1:,}", 11, "end", "soft")


def stack_width(pitch: float) -> float:
    """How wide a stack is, of `pitch` from one to the next: even, so that its middle is on a whole unit, where it is wide."""
    return float(2 * int(pitch * 0.43)) if pitch >= 8 else pitch * (0.86 if pitch > 4 else 1)


def _stacked(drawing: Drawing, count: int) -> Iterator[tuple[int, Array, Array]]:
    """(code, begin, end) of each bar of all stacks, from below."""
    begin: Array = np.zeros(count)
    for bar in drawing.bars:
        assert isinstance(bar.code, int)
        end = begin + bar.length
        yield bar.code, begin, end
        begin = end


def stack_raster(mark: Stack, drawing: Drawing) -> Array:
    """Codes by (row, column), upright; of several bars in a column the highest is shown."""
    columns, rows = min(mark.count, 3 * RASTER[0]), RASTER[1]
    total = np.max([end for _, _, end in _stacked(drawing, mark.count)], axis=0)
    first = np.arange(columns + 1) * mark.count // columns
    bars = np.array([a + int(np.argmax(total[a:b])) for a, b in zip(first, first[1:], strict=False)])
    at = (rows - 0.5 - np.arange(rows)) / rows * drawing.span
    pixels = np.full((rows, columns), -1)
    for code, begin, end in _stacked(drawing, mark.count):
        pixels[(at[:, None] >= begin[bars]) & (at[:, None] < end[bars])] = code
    return pixels


BAR = 90.0  # width of a tree's column of bars
COLUMN = 112.0  # width of a tree's column of numbers


def _tree(mark: Tree) -> Iterator[Shape]:
    right = mark.x + mark.width
    starts = [right - BAR - 12 - COLUMN * (len(mark.columns) - 1 - i) for i in range(len(mark.columns))]
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    for x, words in zip(starts, mark.columns, strict=True):
        yield Words(x, mark.y - 8, words, 12, "end", "soft")
    rows, inner = mark.visible(), mark.has_children()
    for row, i in enumerate(rows):
        top = mark.y + row * mark.pitch
        x = mark.x + 14 * int(mark.depth[i])
        if inner[i]:
            yield Words(x, top + mark.pitch * 0.7, "−" if mark.open[i] else "+", 13, ink="soft")
        room = int((starts[0] - 70 - x) / 6.4)
        yield Words(x + 14, top + mark.pitch * 0.7, label(mark.labels[i], room), 12)
        for k, start in enumerate(starts):
            yield Words(start, top + mark.pitch * 0.7, mark.cells[i * len(starts) + k], 12, "end")
    for code in np.unique(mark.code[rows]):
        at = [(row, i) for row, i in enumerate(rows) if mark.code[i] == code and mark.share[i]]
        if at:
            high = mark.pitch * 0.6
            boxes = [
                (right - BAR, mark.y + row * mark.pitch + mark.pitch * 0.2, max(1.0, BAR * mark.share[i] / 1000), high)
                for row, i in at
            ]
            yield Boxes(int(code), np.array(boxes))


def colours_of(shapes: list[Shape]) -> tuple[set[int], set[int]]:
    """(the codes that occur in some shapes, those on which words stand)."""
    found: set[int] = set()
    inks = {shape.ink for shape in shapes if isinstance(shape, Words) and isinstance(shape.ink, int)}
    for shape in shapes:
        match shape:
            case Boxes() | Outline():
                found.add(shape.code)
            case Raster():
                found.update(int(c) for c in np.unique(shape.codes) if c >= 0)
    return found | inks, inks


def caption(scene: Scene, frame: int) -> Iterator[Shape]:
    """Below the drawing: what the frame is, in words, and what the codes mean that the scene uses."""
    still = scene.stills[int(scene.frames[frame])]
    y = scene.height + 14
    yield Words(16, y, _fitting(f"{still.label}, {number(still.cycles)} modelled cycles" if still.cycles else still.label))
    yield Words(16, y + 18, _fitting(still.note), ink="soft")
    for code, x, row in legend_places(scene):
        top = y + 32 + LEGEND_ROW * row
        yield Boxes(code, np.array([[x, top, 14.0, 14.0]]))
        yield Words(x + 19, top + 11, legend_words(scene, code), ink="soft")


LEGEND_ROW = 20.0


def legend_words(scene: Scene, code: int) -> str:
    """A code as the legend names it."""
    return f"{scene.codes[code].letter} {scene.codes[code].name}"


def legend_places(scene: Scene) -> list[tuple[int, float, int]]:
    """(code, x, row) of each entry of the legend."""
    found, x, row = [], 16.0, 0
    for code in scene.legend:
        wide = 34 + 6.6 * len(legend_words(scene, code))
        if x > 16 and x + wide > WIDTH:
            x, row = 16.0, row + 1
        found.append((code, x, row))
        x += wide
    return found


def caption_height(scene: Scene) -> float:
    """Height of the words and the legend below the drawing."""
    return 68 + LEGEND_ROW * max((row for *_, row in legend_places(scene)), default=0)


def _fitting(text: str, most: int = 112) -> str:
    """A line of text that fits the width."""
    return text if len(text) <= most else text[: most - 1] + "…"
