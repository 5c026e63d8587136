"""A frame of a scene as a list of simple shapes, for the renderers that draw stills."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

import numpy as np

from ipu_teach.show.board import (
    paint_board,
    paint_detail,
    paint_packets,
    paint_sheet,
    paint_trail,
    rim,
)
from ipu_teach.show.measures import (
    BAR,
    MOST_RECTANGLES,
    MOST_SPOKES,
    NAME,
    NAMED,
    SMALLEST_LABEL,
    TICK,
    TWO_LINES,
)
from ipu_teach.show.partners import paint_matrix, paint_partners
from ipu_teach.show.scene import (
    WIDTH,
    Board,
    Cells,
    Curve,
    Detail,
    Drawing,
    Flame,
    Flows,
    Lanes,
    Matrix,
    Message,
    Painted,
    Partners,
    Scene,
    Sheet,
    Still,
    Tape,
    Track,
    Trail,
    Tree,
    Zoom,
    label,
    number,
)
from ipu_teach.show.shapes import (
    LETTER,
    Boxes,
    Outline,
    Raster,
    Shape,
    Stroke,
    Words,
    moved,
    rectangles,
)
from ipu_teach.show.stack import stacked_pixels
from ipu_teach.show.zoom import paint_zoom
from ipu_teach.types import Array

WAITS = "waits for "  # how the name of a box begins in which an IPU waits
MOST_PIECES = 900  # of a tape, drawn one by one
STRIP = (172, 16)  # columns and rows of the raster of a long run
COLUMNS = 320  # of the raster of a tape


def paint(
    scene: Scene, frame: int, progress: float | None = None, is_whole: bool = False
) -> Iterator[Shape]:
    """Yield the shapes of frame number `frame` when a share `progress` (0 to 1) of it is over;
    by default, the share at which a step stops. With `is_whole`, all lanes of the frame are
    shown."""
    still = scene.stills[int(scene.frames[frame])]
    progress = still.at if progress is None else progress
    for mark in scene.marks:
        match mark:
            case Cells():
                yield from _cells(scene, mark, still, progress)
            case Lanes():
                yield from _lanes(scene, mark, still, progress, is_whole=is_whole)
            case Flows():
                yield from _flows(scene, mark, still, frame, progress=progress)
            case Track():
                yield from _track(scene, mark, frame, progress)
            case Flame():
                yield from _flame(scene, mark)
            case Tape():
                yield from _tape(scene, mark, frame, progress)
            case Curve():
                yield from _curve(scene, mark, frame)
            case Painted():
                yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
                yield from (moved(shape, mark.x, mark.y) for shape in mark.shown(still))
            case Tree():
                yield from _tree(mark)
            case Zoom():
                yield from paint_zoom(mark, still, int(scene.frames[frame]))
            case Matrix():
                yield from paint_matrix(scene, mark, still)
            case Board():
                yield from paint_board(scene, mark, frame, progress)
            case Sheet():
                yield from paint_sheet(scene, mark, frame)
            case Detail():
                yield from paint_detail(scene, mark, frame)
            case Trail():
                yield from paint_trail(scene, mark, track_edges(scene))
            case Partners():
                yield from paint_partners(scene, mark, still)
    for mark in scene.marks:  # above the arrows
        if (
            isinstance(mark, Cells)
            and mark.name in still.cells
            and mark.count <= MOST_RECTANGLES
            and mark.side >= SMALLEST_LABEL
        ):
            yield from _cell_labels(scene, mark, cell_codes(mark, still, progress))


def cell_codes(mark: Cells, still: Still, progress: float) -> Array:
    """Return int[count]: the code of each cell. A cell has its first code until its time is
    over, and its second code after that."""
    code, until, then = still.cells[mark.name]
    now = progress * still.cycles
    until = np.broadcast_to(np.asarray(until), mark.count)
    return np.where(
        (until > 0) & (until >= now), np.broadcast_to(np.asarray(code), mark.count), then
    )


def _cells(scene: Scene, mark: Cells, still: Still, progress: float) -> Iterator[Shape]:
    if mark.name not in still.cells:  # cells of another report
        return
    if mark.heading:
        yield Words(mark.x, mark.y - (20 if mark.names else 8), mark.heading, ink="soft")
    for block, name in enumerate(mark.names):
        row_left, top = (float(v) for v in mark.place(np.array(block * mark.block)))
        yield Words(row_left, top - 4, name, 11, ink="soft")
    codes = cell_codes(mark, still, progress)
    if mark.count > MOST_RECTANGLES:
        rows = -(-mark.block // mark.columns)
        for first in range(0, mark.count, mark.block):
            part = codes[first : first + mark.block]
            pixels = np.full((rows, mark.columns), -1)
            pixels.flat[: len(part)] = part
            row_left, top = map(float, mark.place(np.array(first)))
            yield Raster(row_left, top, mark.columns * mark.side, rows * mark.side, codes=pixels)
        return
    x, y = mark.place(np.arange(mark.count))
    for code in np.unique(codes):
        at = codes == code
        yield Boxes(int(code), rectangles(x[at], y[at], mark.side * 0.94, mark.side * 0.94))


def _cell_labels(scene: Scene, mark: Cells, codes: Array) -> Iterator[Shape]:
    """Yield the label of each cell and the letter of its code; a small cell has only one of
    them."""
    x, y = mark.place(np.arange(mark.count))
    tall = mark.side >= 2 * SMALLEST_LABEL
    two = mark.side >= TWO_LINES * SMALLEST_LABEL
    lines: list[Words] = []
    for i, code in enumerate(codes.tolist()):
        letter = scene.codes[code].letter
        name = mark.labels[i] if mark.labels else f"{i}"
        fits = NAME * len(name) < mark.side
        size = 12 if tall else 11
        both = bool(two and letter and fits)
        text = name if fits and (both or not letter) else letter
        middle = float(x[i] + mark.side * 0.47)
        part = 0.42 if both else 0.6 if tall else 0.47 + 4 / mark.side
        lines.append(
            Words(middle, float(y[i] + mark.side * part), text, size, anchor="middle", ink=code)
        )
        if both:
            lines.append(
                Words(
                    middle, float(y[i] + mark.side * 0.78), letter, size, anchor="middle", ink=code
                )
            )
    yield from sorted(lines, key=lambda w: (str(w.ink), w.size, w.y))


def _lanes(
    scene: Scene, mark: Lanes, still: Still, progress: float, is_whole: bool
) -> Iterator[Shape]:
    chosen, start, stop = still.lanes[mark.name]
    drawing = scene.drawings[chosen]
    shown = drawing.span if is_whole or mark.whole else start + progress * (stop - start)
    full = mark.axis or drawing.span  # the length of the whole width
    if mark.heading:
        yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
        span = f"{number(drawing.span)} {drawing.unit}"
        yield Words(mark.right, mark.y - 8, span, anchor="end", ink="soft")
    bottom = mark.bottom
    yield Stroke(((mark.x, mark.y), (mark.x, bottom)), 1, "line")
    yield Stroke(((mark.right, mark.y), (mark.right, bottom)), 1, "line")
    scale = mark.width / full if full else 0.0
    if mark.axis and drawing.span < mark.axis:  # the part that continues in all lanes
        x = mark.x + drawing.span * scale
        yield Stroke(((x, mark.y - 3), (x, bottom + 3)), 1.5)
    yield from _lane_boxes(mark, [(0.0, drawing)], scale, shown)
    yield from _lane_labels(mark)
    if mark.limit:
        x = mark.x + mark.limit * scale
        yield Stroke(((x, mark.y - 3), (x, bottom + 3)), 2)
    if mark.whole and len(scene.frames) > 1:
        x = mark.x + (start + stop) / 2 * scale
        yield Stroke(((x, mark.y - 3), (x, bottom + 3)), 1.5)


def _lane_labels(mark: Lanes | Tape) -> Iterator[Shape]:
    pitch = mark.height / mark.count
    every = next((n for n in (1, 2, 5, 10, 20, 50) if n * pitch >= 9), 0)
    for i in range(0, mark.count, every) if every and not mark.ends else ():
        words = mark.labels[i] if mark.labels else f"{i}"
        yield Words(mark.x - 5, mark.y + (i + 0.72) * pitch, words, 11, anchor="end", ink="soft")
    for k, words in enumerate(mark.ends):  # the first at the top, the last at the bottom
        down = 9 + k * (mark.height - 10) / (len(mark.ends) - 1)
        yield Words(mark.x - 5, mark.y + down, words, 11, anchor="end", ink="soft")


def _layers(drawing: Drawing, count: int) -> Iterator[tuple[bool, Array, Array, Array]]:
    """Yield (whether it is on top, code, begin, end) of the boxes of every bar: the rest that
    follows the bar, then the bar."""
    for bar in drawing.bars:
        code, begin, middle = bar.of(count)
        if bar.rest >= 0:
            yield False, np.full(count, bar.rest), begin, np.full(count, float(bar.end))
        yield True, code, begin, middle


def pixels_in_turn(spent: Array) -> Array:
    """Return int[rows, columns]: the code of each pixel, so that every code of a row gets its
    share of the pixels, also if its pieces are short. `spent` is float[rows, codes, columns];
    each pixel takes the code that is owed most."""
    rows, _, columns = spent.shape
    pixels = np.zeros((rows, columns), np.int64)
    owed = np.zeros(spent.shape[:2])
    for column in range(columns):
        owed += spent[:, :, column]
        # never what the column has nothing of
        backlog = np.where(spent[:, :, column] > 0, owed, -np.inf)
        pixels[:, column] = np.argmax(backlog, axis=1)
        owed[np.arange(rows), pixels[:, column]] -= spent[:, :, column].sum(axis=1)
    return pixels


def _flows(scene: Scene, mark: Flows, still: Still, frame: int, progress: float) -> Iterator[Shape]:
    cells = scene.mark(mark.between)
    if isinstance(cells, Board):
        yield from paint_packets(scene, mark.name, cells, frame, progress=progress)
        return
    assert isinstance(cells, Cells)
    messages = still.flows.get(mark.name, ())
    largest = max((m.size for m in messages), default=1)
    thin = min(1.0, max(0.4, cells.side / 30)) * min(1.0, max(0.4, 20 / max(1, len(messages))))
    fan = len(messages) > MOST_SPOKES and cells.side < SMALLEST_LABEL
    for message in messages:
        width = (1 + 2.5 * (message.size / largest) ** 0.5) * thin
        many = len(message.receivers)
        yield from _message(cells, message, width, fan or many > MOST_SPOKES)


def _message(cells: Cells, message: Message, width: float, folded: bool) -> Iterator[Shape]:
    half = cells.side * 0.47
    x, y = (float(v) + half for v in cells.place(np.array(message.source)))
    to_x, to_y = ((v + half).tolist() for v in cells.place(message.receivers))
    if folded:  # the sender gets a frame, each receiver a dot
        yield from rim(x - half, y - half, 2 * half, 2 * half, thick=1.5)
        dot = cells.side * 0.15
        yield from (
            Stroke(((u - dot, v), (u + dot, v)), 2 * dot) for u, v in zip(to_x, to_y, strict=True)
        )
        return
    for u, v in zip(to_x, to_y, strict=True):
        # From beside the sender's number to the rim of the receiver; a message to several leaves
        # straight.
        middle = bend(x, y, u, v) if len(to_x) == 1 else ((x + u) / 2, (y + v) / 2)
        line = (
            _toward((x, y), middle, 0.28 * cells.side),
            middle,
            _toward((u, v), middle, half + min(1, 0.03 * cells.side)),
        )
        yield Stroke(
            line if len(to_x) == 1 else line[::2], width if len(to_x) == 1 else 0.8, arrow=True
        )


def _toward(
    start: tuple[float, float], end: tuple[float, float], reach: float
) -> tuple[float, float]:
    """Return the point on the way from `start` to `end` at the edge of a square around `start`,
    which reaches `reach` to each side; at most `end`."""
    x = end[0] - start[0]
    y = end[1] - start[1]
    part = min(1.0, reach / (max(abs(x), abs(y)) or 1))
    return start[0] + part * x, start[1] + part * y


def bend(x: float, y: float, to_x: float, to_y: float) -> tuple[float, float]:
    """Return the control point of a curve that runs slightly to the left of the straight line,
    so that both directions can be seen."""
    return (x + to_x) / 2 + 0.18 * (to_y - y), (y + to_y) / 2 - 0.18 * (to_x - x)


def track_edges(scene: Scene) -> Array:
    """Return float[frames + 1]: the beginning of each frame on the track, 0 to 1. A frame
    without cycles has no width."""
    edges = scene.begins
    return edges / edges[-1] if edges[-1] else np.linspace(0, 1, len(edges))


def pieces(scene: Scene) -> tuple[Array, Array]:
    """Return (code, cycles) of every piece of the run: the phases of its frames if a tape has
    their drawings, else its frames."""
    if scene.clock is not None:
        return np.array([s.code for s in scene.stills])[scene.frames], np.diff(scene.clock)
    pieces_found = []
    tapes = [m for m in scene.marks if isinstance(m, Tape)]
    for still in scene.stills:
        drawn = [
            scene.drawings[n].bars
            for n, *_ in (still.lanes[m.name] for m in tapes if m.name in still.lanes)
        ]
        bars = (
            [(int(np.max(b.code)), b.end - float(np.max(b.start))) for b in drawn[0]]
            if drawn
            else []
        )
        pieces_found.append(np.array(bars or [(still.code, still.cycles)], np.float64))
    run = np.concatenate([pieces_found[i] for i in scene.frames.tolist()])
    return run[:, 0].astype(np.int64), run[:, 1]


def _track(scene: Scene, mark: Track, frame: int, progress: float) -> Iterator[Shape]:
    edges = mark.x + track_edges(scene) * mark.width
    codes, cycles = pieces(scene)
    ends = np.append(0.0, np.cumsum(cycles))
    if len(codes) > MOST_RECTANGLES and scene.columns is not None:
        yield from _strip(mark, scene.columns, codes, cycles)
    elif len(codes) > MOST_RECTANGLES:
        columns, rows = STRIP
        places = np.linspace(0, ends[-1], columns + 1)
        pieces_found = np.unique(codes)
        spent = [
            np.diff(np.interp(places, ends, np.append(0.0, np.cumsum(cycles * (codes == c)))))
            for c in pieces_found
        ]
        pixels = stacked_pixels(np.array(spent) * columns / ends[-1] * rows, rows)
        yield Raster(
            mark.x,
            mark.y,
            mark.width,
            mark.height,
            codes=np.where(pixels < 0, -1, pieces_found[pixels]),
        )
    else:
        row_left = mark.x + ends * mark.width / (ends[-1] or 1)
        for code in np.unique(codes):
            at = np.flatnonzero(codes == code)
            wide = row_left[at + 1] - row_left[at]
            yield Boxes(int(code), rectangles(row_left[at], mark.y, wide, mark.height))
    cursor = float(edges[frame] + progress * (edges[frame + 1] - edges[frame]))
    yield Stroke(((cursor, mark.y - 4), (cursor, mark.bottom + 4)), 2)
    below = mark.bottom + 16
    is_whole = f"{number(ends[-1])} modelled cycles"
    yield Words(mark.x, below, "0", 11, ink="soft")
    yield Words(mark.right, below, is_whole, 11, anchor="end", ink="soft")


def _strip(mark: Track, edges: Array, codes: Array, cycles: Array) -> Iterator[Shape]:
    """Yield the columns of a long run between `edges`. Each column shows its shares above each
    other; equal neighbours are one box."""
    ends = np.append(0.0, np.cumsum(cycles))
    known = np.unique(codes)
    parts = np.array(
        [
            np.diff(np.interp(edges, ends, np.append(0.0, np.cumsum(cycles * (codes == c)))))
            for c in known
        ]
    ) / np.diff(edges)
    tops = np.vstack((np.zeros(parts.shape[1]), np.cumsum(parts, axis=0)))
    new = np.abs(np.diff(tops, axis=1)).max(axis=0) * mark.height > 0.01
    firsts = np.flatnonzero(np.append(True, new))
    x = mark.x + edges * mark.width / (ends[-1] or 1)
    row_left = x[firsts]
    right = x[np.append(firsts[1:], parts.shape[1])]
    for i, code in enumerate(known.tolist()):
        top = tops[i, firsts] * mark.height
        high = parts[i, firsts] * mark.height
        boxes = rectangles(row_left, mark.y + top, right - row_left, high)
        for tall in np.unique(np.round(high, 1)):
            same_height = (np.round(high, 1) == tall) & (high > 0.05)
            if same_height.any():
                yield Boxes(code, boxes[same_height])


def _flame(scene: Scene, mark: Flame) -> Iterator[Shape]:
    before = scene.begins
    begin = 0 if mark.timed else min(mark.first.tolist(), default=0)
    begin, end = scene.data.get("window", (begin, len(scene.frames)))
    span = mark.span or float(before[end] - before[begin]) or 1
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    for row, name in enumerate(mark.rows):
        yield Words(
            mark.x - 5, mark.y + (row + 0.68) * mark.pitch, name, 11, anchor="end", ink="soft"
        )
    ends = (mark.first, mark.last) if mark.timed else (before[mark.first], before[mark.last])
    shown = [np.clip((end - before[begin]) / span, 0, 1) for end in ends]
    row_left, right = (mark.x + mark.width * part for part in shown)
    top = mark.y + mark.depth * mark.pitch
    gap = np.where(right - row_left > 4, 0.8, 0)  # between neighbours
    wide = np.maximum(right - row_left - gap, 0.3)
    for code in np.unique(mark.code):
        at = (mark.code == code) & ((right > row_left) | (ends[0] == ends[1]))
        yield Boxes(int(code), rectangles(row_left[at], top[at], wide[at], mark.pitch - 1.5))
    lines = []
    for i in np.flatnonzero(wide > 30).tolist():
        name = mark.names[int(mark.title[i])]
        max_letters = int((wide[i] - 8) / NAME)
        # the pattern says that it waits; where room is short the name says for whom
        words = label(name if len(name) <= max_letters else name.removeprefix(WAITS), max_letters)
        if len(words) < 5 and words.endswith("…"):  # too little of the name to know it by
            continue
        x = float(row_left[i]) + 4
        y = float(top[i] + mark.pitch * 0.68)
        lines.append(Words(x, y, words, 11, anchor="start", ink=int(mark.code[i])))
    yield from sorted(lines, key=lambda w: w.ink)


def _tape(scene: Scene, mark: Tape, frame: int, progress: float) -> Iterator[Shape]:
    frames = np.flatnonzero([mark.name in scene.stills[i].lanes for i in scene.frames.tolist()])
    frames = frames[slice(*scene.data.get("window", (0, None)))]
    before = scene.begins - scene.begins[frames[0]]
    scale = mark.width / (mark.span or before[frames[-1] + 1] or 1)
    names = 28 if mark.named > 0 else 0
    yield Words(mark.x, mark.y - 8 - names, mark.heading, ink="soft")
    if "window" in scene.data:
        first, last = (number(scene.begins[at]) for at in scene.data["window"])
        words = f"cycles {first} to {last}"
        yield Words(mark.right, mark.y - 8, words, anchor="end", ink="soft")
    for f in frames.tolist() if mark.named else ():
        name = scene.stills[int(scene.frames[f])].label.partition(": ")[2].partition(" ")[2]
        wide = (before[f + 1] - before[f]) * scale - 4
        if wide > NAMED:
            at = float(mark.x + before[f] * scale) + 2
            yield Words(at, mark.y - mark.named, label(name, int(wide / NAME)), 11)
    drawings = [
        scene.drawings[s.lanes[mark.name][0]] if mark.name in s.lanes else None
        for s in scene.stills
    ]
    run = [(f, d) for f in frames.tolist() if (d := drawings[int(scene.frames[f])]) is not None]
    if sum(1 + (bar.rest >= 0) for _, d in run for bar in d.bars) * mark.count <= MOST_PIECES:
        drawn = [(float(before[frame]), drawing) for frame, drawing in run]
        yield from _lane_boxes(mark, drawn, scale)
    else:
        yield from _tape_raster(mark, run, before, scale, codes=len(scene.codes))
    yield from _lane_labels(mark)
    if frame in frames:
        cursor = float(
            mark.x + scale * (before[frame] + progress * (before[frame + 1] - before[frame]))
        )
        yield Stroke(((cursor, mark.y - 4), (cursor, mark.y + mark.height + 4)), 2)


def _lane_boxes(
    mark: Lanes | Tape, drawings: list[tuple[float, Drawing]], scale: float, shown: float = np.inf
) -> Iterator[Shape]:
    """Yield the bars of drawings from a cycle on, up to `shown`. Equal neighbours are one box,
    with lines in the colour of the paper between lanes. The rest of a bar is drawn below it,
    as wide as both, which takes less data."""
    pitch = mark.height / mark.count
    gap = pitch * 0.08 if pitch > 5 else 0.0
    within: set[int] = set()  # lanes that begin within a box
    # on top, code, how many lanes
    boxes: dict[tuple[bool, int, int], list[tuple[float, float, float, float]]] = {}
    parts = [
        (top, code, mark.x + (first + begin) * scale, (np.minimum(end, shown) - begin) * scale)
        for first, drawing in drawings
        for top, code, begin, end in _layers(drawing, mark.count)
    ]
    for top, code, x, wide in parts:
        new = (np.diff(x) != 0) | (np.diff(wide) != 0) | (np.diff(code) != 0)
        starts = np.flatnonzero(np.append(True, new))
        for lane, lanes in zip(
            starts.tolist(), np.diff(np.append(starts, mark.count)).tolist(), strict=True
        ):
            y = mark.y + lane * pitch + gap
            high = lanes * pitch - 2 * gap
            box = (float(x[lane]), y, float(wide[lane]), high)
            if box[2] > 0:
                boxes.setdefault((top, int(code[lane]), lanes), []).append(box)
                within.update(range(lane + 1, lane + lanes))
    for (_, key_part, _), pieces_found in sorted(boxes.items()):
        yield Boxes(key_part, np.array(pieces_found))
    for lane in sorted(within) if gap else ():
        y = mark.y + lane * pitch
        yield Stroke(((mark.x, y), (mark.x + mark.width, y)), 2 * gap, "paper")


def _tape_raster(
    mark: Tape, run: list[tuple[int, Drawing]], before: Array, scale: float, codes: int
) -> Iterator[Shape]:
    """Return the raster of a run that is too long to be drawn bar by bar. Every lane has the
    shares of its whole run."""
    first = run[0][0]
    last = run[-1][0] + 1
    wide = before[last] * scale
    columns = max(1, round(COLUMNS * wide / mark.width))
    at = np.linspace(0, before[last], columns + 1)
    # the frame of each edge
    within = np.clip(np.searchsorted(before[first : last + 1], at, "right") - 1, 0, len(run) - 1)
    rasters: dict[int, Array] = {}  # for each drawing float[lanes, codes]: the time of each code
    spent = np.zeros((mark.count, codes, columns + 1))
    total = np.zeros((mark.count, codes))
    edges_of = np.split(np.arange(columns + 1), np.searchsorted(within, np.arange(1, len(run))))
    for (frame, drawing), edges in zip(run, edges_of, strict=True):
        if len(edges):
            spent[:, :, edges] = total[:, :, None] + _spent(
                drawing, mark.count, codes, at[edges] - before[frame]
            )
        if id(drawing) not in rasters:
            rasters[id(drawing)] = _spent(drawing, mark.count, codes, np.array([np.inf]))[:, :, 0]
        total += rasters[id(drawing)]
    pixels = pixels_in_turn(np.diff(spent, axis=2))
    pitch = mark.height / mark.count
    if total.sum(axis=1).all():
        yield Raster(mark.x, mark.y, wide, mark.height, codes=pixels)
        return
    for lane in np.flatnonzero(total.sum(axis=1)).tolist():  # the others are those of another tape
        yield Raster(mark.x, mark.y + lane * pitch, wide, pitch, codes=pixels[lane : lane + 1])


def _spent(drawing: Drawing, count: int, codes: int, until: Array) -> Array:
    """Return float[lanes, codes, times]: the time that each lane has had each code, up to some
    times of the drawing."""
    pieces_found = np.zeros((count, codes, len(until)))
    lanes = np.arange(count)
    for bar in drawing.bars:
        code, begin, middle = (part[:, None] for part in bar.of(count))
        pieces_found[lanes, code[:, 0]] += np.clip(np.minimum(until, middle) - begin, 0, None)
        if bar.rest >= 0:
            pieces_found[lanes, bar.rest] += np.clip(np.minimum(until, bar.end) - middle, 0, None)
    return pieces_found


def _steps(mark: Curve, values: Array) -> Array:
    """Return float[2n, 2]: the points of a line that keeps each value over the width of a frame."""
    edges = mark.x + np.arange(len(values) + 1) * (mark.width / mark.count)
    x = np.repeat(edges, 2)[1:-1]
    return np.stack(
        (x, np.repeat(mark.y + mark.height * (1 - values / (mark.top or 1)), 2)), axis=1
    )


def _curve(scene: Scene, mark: Curve, frame: int) -> Iterator[Shape]:
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    yield Words(
        mark.x - 5, mark.y + 9, f"{number(mark.top)} {mark.unit}", 11, anchor="end", ink="soft"
    )
    yield Words(mark.x - 5, mark.y + mark.height, f"0 {mark.unit}", 11, anchor="end", ink="soft")
    for series in mark.series:
        upper = _steps(mark, series.values)
        if series.base is None:
            yield Outline(series.code, upper, False, 2.5)
        else:
            yield Outline(
                series.code, np.concatenate((upper, _steps(mark, series.base)[::-1])), True
            )
    if 0 < mark.limit <= mark.top:
        y = mark.y + mark.height * (1 - mark.limit / mark.top)
        yield Stroke(((mark.x, y), (mark.x + mark.width, y)), 1.5)
    bottom = mark.bottom
    yield Stroke(((mark.x, bottom), (mark.right, bottom)), 1, "line")
    gap = -(-mark.count // max(1, min(mark.count, int(mark.width / TICK))))
    for i in range(0, mark.count, gap) if mark.named else ():
        name = scene.stills[int(scene.frames[i])].label.split(" ", 1)[-1]
        where = number(round(i * mark.each)) if mark.each else f"{i + 1}"
        text = f"{where} {name}"
        if LETTER * len(text) > min(gap, mark.count - i) * mark.width / mark.count:
            text = where  # a name that has no room is left out, not cut
        yield Words(mark.x + i * mark.width / mark.count, bottom + 12, text, 11, ink="soft")
    if len(scene.frames) > 1:
        x = mark.x + (frame + 0.5) * mark.width / mark.count
        yield Stroke(((x, mark.y - 3), (x, bottom + 3)), 1.5)


def bar_width(mark: Tree) -> float:
    """Return the width of the longest bar of a tree: the room beside its texts, at most half of
    the tree. static/tree.js has the same formula."""
    columns = len(mark.columns)
    words = zip(mark.labels, mark.depth.tolist(), strict=True)
    longest = max(NAME * len(text) + 14 * depth + 14 for text, depth in words)
    lead = max(52, 30 + NAME * max(map(len, mark.cells[::columns])))
    room = mark.width - longest - lead - mark.column * (columns - 1) - 12
    return float(min(max(BAR, room), mark.width / 2))


def _tree(mark: Tree) -> Iterator[Shape]:
    right = mark.x + mark.width
    bar = bar_width(mark)
    starts = [
        right - bar - 12 - mark.column * (len(mark.columns) - 1 - i)
        for i in range(len(mark.columns))
    ]
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    for x, words in zip(starts, mark.columns, strict=True):
        yield Words(x, mark.y - 8, words, 12, anchor="end", ink="soft")
    rows = mark.visible()
    inner = mark.has_children()
    first = max(54, NAME * max(map(len, mark.cells[:: len(starts)])))
    for row, i in enumerate(rows):
        top = mark.y + row * mark.pitch
        x = mark.x + 14 * int(mark.depth[i])
        if inner[i]:
            yield Words(x, top + mark.pitch * 0.7, "−" if mark.open[i] else "+", 13, ink="soft")
        room = int((starts[0] - first - 16 - x) / NAME)
        yield Words(x + 14, top + mark.pitch * 0.7, label(mark.labels[i], room), 12)
        for k, start in enumerate(starts):
            yield Words(
                start, top + mark.pitch * 0.7, mark.cells[i * len(starts) + k], 12, anchor="end"
            )
    row_left: Array = np.full(len(rows), right - bar)
    upper = mark.y + (np.arange(len(rows)) + 0.2) * mark.pitch
    for code, part in mark.parts.items():
        wide = bar * part[rows] / 1000
        yield Boxes(int(code), rectangles(row_left, upper, wide, mark.pitch * 0.6)[wide > 0])
        row_left = row_left + wide


def headline(scene: Scene) -> Iterator[Words]:
    """Yield the title above the drawing, in at most two lines."""
    lines = wrap(scene.title, OF_TITLE, max_lines=2, placeholder=" …")
    for row, line in enumerate(lines):
        y = 22 - headline_height(scene) + TITLE_LINE * row
        yield Words(16, y, line, TITLE_SIZE)


def headline_height(scene: Scene) -> float:
    """Return the height of the title above the drawing."""
    return 10 + TITLE_LINE * len(wrap(scene.title, OF_TITLE, max_lines=2, placeholder=" …"))


def caption(scene: Scene, frame: int) -> Iterator[Shape]:
    """Yield the shapes below the drawing: a description of the frame, and the legend."""
    still = scene.stills[int(scene.frames[frame])]
    y = scene.height + 14
    head = f"{still.label}, {number(still.cycles)} modelled cycles" if still.cycles else still.label
    for row, line in enumerate(_lines(head, 1)):
        yield Words(16, y + LINE * row, line)
    for row, line in enumerate(_lines(still.note, MOST_LINES)):
        yield Words(16, y + LINE * (1 + row), line, ink="soft")
    top = y + 14 + LINE * note_lines(scene)
    for code, x, row in legend_places(scene):
        yield Boxes(code, rectangles(x, top + LEGEND_ROW * row, 14.0, 14.0))
    for code, x, row in legend_places(scene):
        yield Words(x + 19, top + LEGEND_ROW * row + 11, legend_words(scene, code), ink="soft")


LEGEND_ROW = 20.0
TITLE_SIZE, TITLE_LINE, OF_TITLE = 16, 22.0, 76  # its size, its line, letters to a line
LINE = 18.0
MOST_LINES = 3  # lines of the note


def legend_words(scene: Scene, code: int) -> str:
    """Return the letter and the name of a code, as the legend shows them."""
    return f"{scene.codes[code].letter} {scene.codes[code].name}".strip()


def legend_places(scene: Scene) -> list[tuple[int, float, int]]:
    """Return (code, x, row) of each entry of the legend."""
    pieces_found = []
    x = 16.0
    row = 0
    for code in scene.legend:
        wide = 34 + 6.6 * len(legend_words(scene, code))
        if x > 16 and x + wide > WIDTH:
            x = 16.0
            row = row + 1
        pieces_found.append((code, x, row))
        x += wide
    return pieces_found


def caption_height(scene: Scene) -> float:
    """Return the height of the texts and the legend below the drawing."""
    return (
        50
        + LINE * note_lines(scene)
        + LEGEND_ROW * max((row for *_, row in legend_places(scene)), default=0)
    )


def note_lines(scene: Scene) -> int:
    """Return the number of lines of the longest note. Every frame has that many, so that nothing
    moves between frames."""
    return max(1, *(len(_lines(still.note, MOST_LINES)) for still in scene.stills))


def _lines(text: str, max_lines: int) -> list[str]:
    """Return a text in at most `max_lines` lines that fit the width."""
    return wrap(text, 104, max_lines=max_lines, placeholder=" …")
