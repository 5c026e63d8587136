"""Convert a frame of a scene to simple shapes.

The renderers that draw single frames use these shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
    Placed,
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

WAITS = "waits for "  # The beginning of the name of a box in which an IPU waits.
MOST_PIECES = 900  # A tape with more bars than this is drawn as a raster.
STRIP = (172, 16)  # The columns and rows of the raster as which a long run is drawn.
COLUMNS = 320  # The number of columns of the raster of a tape.


def paint(
    scene: Scene, frame: int, progress: float | None = None, is_whole: bool = False
) -> Iterator[Shape]:
    """Yield the shapes of a frame of a scene at a moment within the frame.

    `progress` (0 to 1) is the fraction of the frame that has passed; by default, it is `Still.at`.
    If `is_whole` is True, the bars of lanes are drawn completely at every moment.
    """
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
                shapes = mark.shown(still)
                yield from _heading(mark, _room_above(mark, shapes))
                yield from (moved(shape, mark.x, mark.y) for shape in shapes)
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
    for mark in scene.marks:  # Labels are drawn last, so that arrows do not cover them.
        if (
            isinstance(mark, Cells)
            and mark.name in still.cells
            and mark.count <= MOST_RECTANGLES
            and mark.side >= SMALLEST_LABEL
        ):
            yield from _cell_labels(scene, mark, cell_codes(mark, still, progress))


def _room_above(mark: Painted, shapes: Sequence[Shape]) -> float:
    """Return the width that is available for the heading of a mark.

    The heading may reach to the edge of the drawing, or to the beginning of a text at the right end
    of the same line.
    """
    words = [s for s in shapes if isinstance(s, Words) and s.y == -8 and s.anchor == "end"]
    return min([WIDTH - 8 - mark.x, *(word.x - LETTER * len(word.text) for word in words)])


def _heading(mark: Placed, room: float) -> Iterator[Words]:
    """Yield the heading of a mark, in one line or in two.

    The part after "; " explains the heading. This part gets its own line if both parts together are
    wider than `room`.
    """
    first, _, rest = mark.heading.partition("; ")
    is_wide = bool(rest) and OF_HEADING * len(mark.heading) > room
    lines = [first, rest] if is_wide else [mark.heading]
    for line, text in enumerate(reversed(lines)):
        yield Words(mark.x, mark.y - 8 - 15 * line, text, ink="soft")


def cell_codes(mark: Cells, still: Still, progress: float) -> Array:
    """Return int[cells]: the code of each cell of `mark` at a moment of a still.

    A code is an index in `Scene.codes`. `progress` (0 to 1) is the fraction of the still that has
    passed. A cell has its first code until its end cycle, and its second code after that.
    """
    first_code, end_cycles, second_code = still.cells[mark.name]
    cycle = progress * still.cycles
    end_cycles = np.broadcast_to(np.asarray(end_cycles), mark.count)
    return np.where(
        (end_cycles > 0) & (end_cycles >= cycle),
        np.broadcast_to(np.asarray(first_code), mark.count),
        second_code,
    )


def _cells(scene: Scene, mark: Cells, still: Still, progress: float) -> Iterator[Shape]:
    if mark.name not in still.cells:  # The cells are missing if they belong to another report.
        return
    if mark.heading:
        yield Words(mark.x, mark.y - (20 if mark.names else 8), mark.heading, ink="soft")
    for block, name in enumerate(mark.names):
        left, top = (float(v) for v in mark.place(np.array(block * mark.block)))
        yield Words(left, top - 4, name, 11, ink="soft")
    codes = cell_codes(mark, still, progress)
    if mark.count > MOST_RECTANGLES:
        rows = -(-mark.block // mark.columns)
        for first_cell in range(0, mark.count, mark.block):
            block_codes = codes[first_cell : first_cell + mark.block]
            pixels = np.full((rows, mark.columns), -1)
            pixels.flat[: len(block_codes)] = block_codes
            left, top = map(float, mark.place(np.array(first_cell)))
            yield Raster(left, top, mark.columns * mark.side, rows * mark.side, codes=pixels)
        return
    x, y = mark.place(np.arange(mark.count))
    for code in np.unique(codes):
        has_code = codes == code
        yield Boxes(
            int(code), rectangles(x[has_code], y[has_code], mark.side * 0.94, mark.side * 0.94)
        )


def _cell_labels(scene: Scene, mark: Cells, codes: Array) -> Iterator[Shape]:
    """Yield each cell's label and the letter of its colour, or only one of both in a small cell."""
    x, y = mark.place(np.arange(mark.count))
    has_large_text = mark.side >= 2 * SMALLEST_LABEL
    has_two_lines = mark.side >= TWO_LINES * SMALLEST_LABEL
    lines: list[Words] = []
    for cell, code in enumerate(codes.tolist()):
        letter = scene.codes[code].letter
        name = mark.labels[cell] if mark.labels else f"{cell}"
        name_fits = NAME * len(name) + 3 < mark.side
        font_size = 12 if has_large_text else 11
        shows_both = bool(has_two_lines and letter and name_fits)
        text = name if name_fits and (shows_both or not letter) else letter
        center = float(x[cell] + mark.side * 0.47)
        baseline = 0.42 if shows_both else 0.6 if has_large_text else 0.47 + 4 / mark.side
        lines.append(
            Words(
                center,
                float(y[cell] + mark.side * baseline),
                text,
                font_size,
                anchor="middle",
                ink=code,
            )
        )
        if shows_both:
            lines.append(
                Words(
                    center,
                    float(y[cell] + mark.side * 0.78),
                    letter,
                    font_size,
                    anchor="middle",
                    ink=code,
                )
            )
    yield from sorted(lines, key=lambda words: (str(words.ink), words.size, words.y))


def _lanes(
    scene: Scene, mark: Lanes, still: Still, progress: float, is_whole: bool
) -> Iterator[Shape]:
    drawing_number, appears_from, appears_to = still.lanes[mark.name]
    drawing = scene.drawings[drawing_number]
    shown_until = (
        drawing.span
        if is_whole or mark.whole
        else appears_from + progress * (appears_to - appears_from)
    )
    full_span = mark.axis or drawing.span
    if mark.heading:
        span_text = f"{number(drawing.span)} {drawing.unit}"
        needed = OF_HEADING * len(mark.heading + span_text) + 16
        # The text with the length is above the end of the lanes, or further right if the heading is
        # long.
        drawn = mark.width * (drawing.span / full_span if full_span else 1)
        right = mark.x + min(mark.width, max(drawn, needed))
        first, _, rest = mark.heading.partition("; ")
        has_two_lines = needed > mark.width and bool(rest)
        y = mark.y - (23 if has_two_lines else 8)
        yield Words(mark.x, y, first if has_two_lines else mark.heading, ink="soft")
        yield Words(right, y, span_text, anchor="end", ink="soft")
        if has_two_lines:
            yield Words(mark.x, mark.y - 8, rest, ink="soft")
    bottom = mark.bottom
    yield Stroke(((mark.x, mark.y), (mark.x, bottom)), 1, "line")
    yield Stroke(((mark.right, mark.y), (mark.right, bottom)), 1, "line")
    scale = mark.width / full_span if full_span else 0.0
    # A line marks the end of a drawing that is shorter than the axis.
    if mark.axis and drawing.span < mark.axis:
        x = mark.x + drawing.span * scale
        yield Stroke(((x, mark.y - 3), (x, bottom + 3)), 1.5)
    yield from _lane_boxes(mark, [(0.0, drawing)], scale, shown_until)
    yield from _lane_labels(mark)
    if mark.limit:
        x = mark.x + mark.limit * scale
        yield Stroke(((x, mark.y - 3), (x, bottom + 3)), 2)
    if mark.whole and len(scene.frames) > 1:
        x = mark.x + (appears_from + appears_to) / 2 * scale
        yield Stroke(((x, mark.y - 3), (x, bottom + 3)), 1.5)


def _lane_labels(mark: Lanes | Tape) -> Iterator[Shape]:
    pitch = mark.height / mark.count
    spacing = next((candidate for candidate in (1, 2, 5, 10, 20, 50) if candidate * pitch >= 9), 0)
    for lane in range(0, mark.count, spacing) if spacing and not mark.ends else ():
        text = mark.labels[lane] if mark.labels else f"{lane}"
        yield Words(mark.x - 5, mark.y + (lane + 0.72) * pitch, text, 11, anchor="end", ink="soft")
    for text, part in mark.ends:
        baseline = max(9.0, min(mark.height - 1, part * mark.height + 4))
        yield Words(mark.x - 5, mark.y + baseline, text, 11, anchor="end", ink="soft")


def _layers(drawing: Drawing, count: int) -> Iterator[tuple[bool, Array, Array, Array]]:
    """Yield the boxes of each bar in all lanes, in the order in which they are drawn.

    If a bar is followed by a second bar, the second bar is drawn first, behind the other. An item
    is (whether it is drawn on top, int[lanes] codes, float[lanes] begins, float[lanes] ends).
    `count` is the number of lanes.
    """
    for bar in drawing.bars:
        code, begin, bar_end = bar.of(count)
        if bar.rest >= 0:
            yield False, np.full(count, bar.rest), begin, np.full(count, float(bar.end))
        yield True, code, begin, bar_end


def pixels_in_turn(spent: Array) -> Array:
    """Return int[rows, columns]: the code of each pixel.

    `spent`, float[rows, codes, columns], is the time of each code in a pixel. Each code gets about
    its share of the pixels in a row, even if it occurs only for short times. For this, each pixel
    gets one of the codes that have time in the pixel: the code to which the pixels so far owe the
    most.
    """
    rows, _, columns = spent.shape
    pixels = np.zeros((rows, columns), np.int64)
    owed_pixels = np.zeros(spent.shape[:2])
    for column in range(columns):
        owed_pixels += spent[:, :, column]
        # A pixel only shows codes that take some of its time.
        backlog = np.where(spent[:, :, column] > 0, owed_pixels, -np.inf)
        pixels[:, column] = np.argmax(backlog, axis=1)
        owed_pixels[np.arange(rows), pixels[:, column]] -= spent[:, :, column].sum(axis=1)
    return pixels


def _flows(scene: Scene, mark: Flows, still: Still, frame: int, progress: float) -> Iterator[Shape]:
    cells = scene.mark(mark.between)
    if isinstance(cells, Board):
        yield from paint_packets(scene, mark.name, cells, frame, progress=progress)
        return
    assert isinstance(cells, Cells)
    messages = still.flows.get(mark.name, ())
    largest = max((m.size for m in messages), default=1)
    thickness = min(1.0, max(0.4, cells.side / 30)) * min(1.0, max(0.4, 20 / max(1, len(messages))))
    is_crowded = len(messages) > MOST_SPOKES and cells.side < SMALLEST_LABEL
    for message in messages:
        width = (1 + 2.5 * (message.size / largest) ** 0.5) * thickness
        num_receivers = len(message.receivers)
        yield from _message(cells, message, width, is_crowded or num_receivers > MOST_SPOKES)


def _message(cells: Cells, message: Message, width: float, folded: bool) -> Iterator[Shape]:
    half_side = cells.side * 0.47
    x, y = (float(receiver_y) + half_side for receiver_y in cells.place(np.array(message.source)))
    to_x, to_y = (
        (receiver_y + half_side).tolist() for receiver_y in cells.place(message.receivers)
    )
    # Instead of arrows, a border marks the sender, and a dot marks each receiver.
    if folded:
        yield from rim(x - half_side, y - half_side, 2 * half_side, 2 * half_side, thick=1.5)
        dot_radius = cells.side * 0.15
        yield from (
            Stroke(
                ((receiver_x - dot_radius, receiver_y), (receiver_x + dot_radius, receiver_y)),
                2 * dot_radius,
            )
            for receiver_x, receiver_y in zip(to_x, to_y, strict=True)
        )
        return
    for receiver_x, receiver_y in zip(to_x, to_y, strict=True):
        # An arrow leads from beside the sender's number to the rim of the receiver. It is bent, or
        # straight if there are several receivers.
        middle = (
            bend(x, y, receiver_x, receiver_y)
            if len(to_x) == 1
            else ((x + receiver_x) / 2, (y + receiver_y) / 2)
        )
        distance = ((x - receiver_x) ** 2 + (y - receiver_y) ** 2) ** 0.5
        # An arrow to a near cell begins in the middle of the sender.
        is_near = distance < 1.5 * cells.side
        line = (
            _toward((x, y), middle, 0.0 if is_near else 0.28 * cells.side),
            middle,
            _toward((receiver_x, receiver_y), middle, half_side + min(1, 0.03 * cells.side)),
        )
        # An arrowhead is five times as long as its line is wide, and must be shorter than the
        # arrow.
        width = min(width, 0.05 * distance)
        yield Stroke(
            line if len(to_x) == 1 else line[::2], width if len(to_x) == 1 else 0.8, arrow=True
        )


def _toward(
    start: tuple[float, float], end: tuple[float, float], reach: float
) -> tuple[float, float]:
    """Return the point at which the line from `start` to `end` leaves a square around `start`.

    The sides of the square are `2 * reach` long. If `end` is inside the square, return `end`.
    """
    dx = end[0] - start[0]
    dy = end[1] - start[1]
    fraction = min(1.0, reach / (max(abs(dx), abs(dy)) or 1))
    return start[0] + fraction * dx, start[1] + fraction * dy


def bend(x: float, y: float, to_x: float, to_y: float) -> tuple[float, float]:
    """Return the control point of a curve that is bent a little to the left of the straight line.

    The bend separates the arrows of the two directions.
    """
    return (x + to_x) / 2 + 0.18 * (to_y - y), (y + to_y) / 2 - 0.18 * (to_x - x)


def track_edges(scene: Scene) -> Array:
    """Return float[frames + 1]: where each frame begins on the strip of the run, and its end.

    The positions are from 0 to 1. A frame without cycles has no width, unless all frames are
    without cycles.
    """
    edges = scene.begins
    return edges / edges[-1] if edges[-1] else np.linspace(0, 1, len(edges))


def pieces(scene: Scene) -> tuple[Array, Array]:
    """Return `(codes, cycles)`: the pieces of the strip of a run, in order.

    `codes` (int[n]) has the code of each piece, and `cycles` (float[n]) has its length. If a frame
    has a drawing on a `Tape` mark, each bar of that drawing is a piece. If it has none, or if
    frames overlap in time, the entire frame is a piece.
    """
    if scene.clock is not None:
        return np.array([s.code for s in scene.stills])[scene.frames], np.diff(scene.clock)
    pieces_of_stills = []
    tapes = [mark for mark in scene.marks if isinstance(mark, Tape)]
    for still in scene.stills:
        drawn_bars = [
            scene.drawings[drawing_number].bars
            for drawing_number, *_ in (
                still.lanes[mark.name] for mark in tapes if mark.name in still.lanes
            )
        ]
        bars = (
            [(int(np.max(bar.code)), bar.end - float(np.max(bar.start))) for bar in drawn_bars[0]]
            if drawn_bars
            else []
        )
        pieces_of_stills.append(np.array(bars or [(still.code, still.cycles)], np.float64))
    run_pieces = np.concatenate(
        [pieces_of_stills[still_number] for still_number in scene.frames.tolist()]
    )
    return run_pieces[:, 0].astype(np.int64), run_pieces[:, 1]


def _track(scene: Scene, mark: Track, frame: int, progress: float) -> Iterator[Shape]:
    edges = mark.x + track_edges(scene) * mark.width
    codes, cycles = pieces(scene)
    end_cycles = np.append(0.0, np.cumsum(cycles))
    if len(codes) > MOST_RECTANGLES and scene.columns is not None:
        yield from _strip(mark, scene.columns, codes, cycles)
    elif len(codes) > MOST_RECTANGLES:
        columns, rows = STRIP
        column_edges = np.linspace(0, end_cycles[-1], columns + 1)
        codes_present = np.unique(codes)
        cycles_by_code = [
            np.diff(
                np.interp(
                    column_edges, end_cycles, np.append(0.0, np.cumsum(cycles * (codes == present)))
                )
            )
            for present in codes_present
        ]
        pixels = stacked_pixels(np.array(cycles_by_code) * columns / end_cycles[-1] * rows, rows)
        yield Raster(
            mark.x,
            mark.y,
            mark.width,
            mark.height,
            codes=np.where(pixels < 0, -1, codes_present[pixels]),
        )
    else:
        left_edges = mark.x + end_cycles * mark.width / (end_cycles[-1] or 1)
        for code in np.unique(codes):
            pieces_with_code = np.flatnonzero(codes == code)
            widths = left_edges[pieces_with_code + 1] - left_edges[pieces_with_code]
            yield Boxes(
                int(code), rectangles(left_edges[pieces_with_code], mark.y, widths, mark.height)
            )
    cursor = float(edges[frame] + progress * (edges[frame + 1] - edges[frame]))
    yield Stroke(((cursor, mark.y - 4), (cursor, mark.bottom + 4)), 2)
    below = mark.bottom + 16
    total_text = f"{number(end_cycles[-1])} modelled cycles"
    yield Words(mark.x, below, "0", 11, ink="soft")
    yield Words(mark.right, below, total_text, 11, anchor="end", ink="soft")


def _strip(mark: Track, edges: Array, codes: Array, cycles: Array) -> Iterator[Shape]:
    """Yield the boxes of a long run's strip, which is divided into columns at the cycles `edges`.

    In a column, the boxes are stacked. The height of a box is the fraction of the column's cycles
    that its code takes. `codes` and `cycles` are the result of `pieces`. Neighbouring columns with
    equal boxes are drawn as one column.
    """
    end_cycles = np.append(0.0, np.cumsum(cycles))
    codes_present = np.unique(codes)
    shares = np.array(
        [
            np.diff(
                np.interp(edges, end_cycles, np.append(0.0, np.cumsum(cycles * (codes == present))))
            )
            for present in codes_present
        ]
    ) / np.diff(edges)
    tops = np.vstack((np.zeros(shares.shape[1]), np.cumsum(shares, axis=0)))
    is_new = np.abs(np.diff(tops, axis=1)).max(axis=0) * mark.height > 0.01
    first_columns = np.flatnonzero(np.append(True, is_new))
    column_edges = mark.x + edges * mark.width / (end_cycles[-1] or 1)
    left_edges = column_edges[first_columns]
    right_edges = column_edges[np.append(first_columns[1:], shares.shape[1])]
    for row, code in enumerate(codes_present.tolist()):
        top_edges = tops[row, first_columns] * mark.height
        heights = shares[row, first_columns] * mark.height
        boxes = rectangles(left_edges, mark.y + top_edges, right_edges - left_edges, heights)
        for height in np.unique(np.round(heights, 1)):
            same_height = (np.round(heights, 1) == height) & (heights > 0.05)
            if same_height.any():
                yield Boxes(code, boxes[same_height])


def _flame(scene: Scene, mark: Flame) -> Iterator[Shape]:
    begin_cycles = scene.begins
    first_frame = 0 if mark.timed else min(mark.first.tolist(), default=0)
    first_frame, last_frame = scene.data.get("window", (first_frame, len(scene.frames)))
    span = mark.span or float(begin_cycles[last_frame] - begin_cycles[first_frame]) or 1
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    for row, name in enumerate(mark.rows):
        yield Words(
            mark.x - 5, mark.y + (row + 0.68) * mark.pitch, name, 11, anchor="end", ink="soft"
        )
    box_times = (
        (mark.first, mark.last)
        if mark.timed
        else (begin_cycles[mark.first], begin_cycles[mark.last])
    )
    fractions = [np.clip((times - begin_cycles[first_frame]) / span, 0, 1) for times in box_times]
    left_edges, right_edges = (mark.x + mark.width * fraction for fraction in fractions)
    top_edges = mark.y + mark.depth * mark.pitch
    gap = np.where(right_edges - left_edges > 4, 0.8, 0)
    widths = np.maximum(right_edges - left_edges - gap, 0.3)
    for code in np.unique(mark.code):
        has_code = (mark.code == code) & (
            (right_edges > left_edges) | (box_times[0] == box_times[1])
        )
        yield Boxes(
            int(code),
            rectangles(
                left_edges[has_code], top_edges[has_code], widths[has_code], mark.pitch - 1.5
            ),
        )
    lines = []
    for box in np.flatnonzero(widths > 30).tolist():
        name = mark.names[int(mark.title[box])]
        max_letters = int((widths[box] - 8) / NAME)
        # The pattern already shows that an IPU waits, so a short label only names the IPU for which
        # it waits.
        label_text = label(
            name if len(name) <= max_letters else name.removeprefix(WAITS), max_letters
        )
        # A name that is cut to fewer than four letters cannot be recognised.
        if len(label_text) < 5 and label_text.endswith("…"):
            continue
        x = float(left_edges[box]) + 4
        y = float(top_edges[box] + mark.pitch * 0.68)
        lines.append(Words(x, y, label_text, 11, anchor="start", ink=int(mark.code[box])))
    yield from sorted(lines, key=lambda w: w.ink)


def _tape(scene: Scene, mark: Tape, frame: int, progress: float) -> Iterator[Shape]:
    frames = np.flatnonzero([mark.name in scene.stills[i].lanes for i in scene.frames.tolist()])
    frames = frames[slice(*scene.data.get("window", (0, None)))]
    begin_cycles = scene.begins - scene.begins[frames[0]]
    scale = mark.width / (mark.span or begin_cycles[frames[-1] + 1] or 1)
    names_height = 28 if mark.named > 0 else 0
    yield from _heading(replace(mark, y=mark.y - names_height), mark.width)
    if "window" in scene.data:
        first_cycle, last_cycle = (number(scene.begins[text_x]) for text_x in scene.data["window"])
        words = f"cycles {first_cycle} to {last_cycle}"
        yield Words(mark.right, mark.y - 8, words, anchor="end", ink="soft")
    for frame_shown in frames.tolist() if mark.named else ():
        name = (
            scene.stills[int(scene.frames[frame_shown])].label.partition(": ")[2].partition(" ")[2]
        )
        width = (begin_cycles[frame_shown + 1] - begin_cycles[frame_shown]) * scale - 4
        if width > NAMED:
            text_x = float(mark.x + begin_cycles[frame_shown] * scale) + 2
            yield Words(text_x, mark.y - mark.named, label(name, int(width / NAME)), 11)
    drawings = [
        scene.drawings[still.lanes[mark.name][0]] if mark.name in still.lanes else None
        for still in scene.stills
    ]
    drawings_by_frame = [
        (frame_shown, d)
        for frame_shown in frames.tolist()
        if (d := drawings[int(scene.frames[frame_shown])]) is not None
    ]
    if (
        sum(1 + (bar.rest >= 0) for _, d in drawings_by_frame for bar in d.bars) * mark.count
        <= MOST_PIECES
    ):
        placed_drawings = [
            (float(begin_cycles[frame]), drawing) for frame, drawing in drawings_by_frame
        ]
        yield from _lane_boxes(mark, placed_drawings, scale)
    else:
        yield from _tape_raster(
            mark, drawings_by_frame, begin_cycles, scale, codes=len(scene.codes)
        )
    yield from _lane_labels(mark)
    if frame in frames:
        cursor = float(
            mark.x
            + scale
            * (begin_cycles[frame] + progress * (begin_cycles[frame + 1] - begin_cycles[frame]))
        )
        yield Stroke(((cursor, mark.y - 4), (cursor, mark.y + mark.height + 4)), 2)


def _lane_boxes(
    mark: Lanes | Tape, drawings: list[tuple[float, Drawing]], scale: float, shown: float = np.inf
) -> Iterator[Shape]:
    """Yield the bars of `drawings` up to `shown`, which is a position on the axis.

    An entry of `drawings` is (cycle at which it begins, drawing). `scale` is the width of a cycle.
    Equal bars in neighbouring lanes become one box, with lines in the colour of the background
    between the lanes. If a bar is followed by a second bar, a box as long as both bars is drawn
    first, and then the first bar on top of it, because this takes less data.
    """
    pitch = mark.height / mark.count
    gap = pitch * 0.08 if pitch > 5 else 0.0
    lanes_inside_box: set[int] = set()  # Lanes whose upper edge is inside a box.
    # Maps (whether boxes are drawn on top, their colour code, their number of lanes) to these
    # boxes.
    boxes: dict[tuple[bool, int, int], list[tuple[float, float, float, float]]] = {}
    layers = [
        (
            is_top,
            code,
            mark.x + (first_cycle + begins) * scale,
            (np.minimum(ends, shown) - begins) * scale,
        )
        for first_cycle, drawing in drawings
        for is_top, code, begins, ends in _layers(drawing, mark.count)
    ]
    for is_top, code, x, widths in layers:
        is_new = (np.diff(x) != 0) | (np.diff(widths) != 0) | (np.diff(code) != 0)
        starts = np.flatnonzero(np.append(True, is_new))
        for lane, num_lanes in zip(
            starts.tolist(), np.diff(np.append(starts, mark.count)).tolist(), strict=True
        ):
            y = mark.y + lane * pitch + gap
            height = num_lanes * pitch - 2 * gap
            box = (float(x[lane]), y, float(widths[lane]), height)
            if box[2] > 0:
                boxes.setdefault((is_top, int(code[lane]), num_lanes), []).append(box)
                lanes_inside_box.update(range(lane + 1, lane + num_lanes))
    for (_, style_code, _), boxes_of_style in sorted(boxes.items()):
        yield Boxes(style_code, np.array(boxes_of_style))
    for lane in sorted(lanes_inside_box) if gap else ():
        y = mark.y + lane * pitch
        yield Stroke(((mark.x, y), (mark.x + mark.width, y)), 2 * gap, "paper")


def _tape_raster(
    mark: Tape, run: list[tuple[int, Drawing]], before: Array, scale: float, codes: int
) -> Iterator[Shape]:
    """Yield the rasters of a run's tape that has too many bars to draw each bar.

    `run` has (frame, drawing) pairs, `before` is the cycle at which each frame begins, `scale` is
    the width of a cycle, and `codes` is the number of codes. In each lane, every code gets its
    share of the pixels.
    """
    first_frame = run[0][0]
    end_frame = run[-1][0] + 1
    width = before[end_frame] * scale
    columns = max(1, round(COLUMNS * width / mark.width))
    edge_cycles = np.linspace(0, before[end_frame], columns + 1)
    # For each edge, the index in `run` of the frame that contains the edge.
    frame_of_edge = np.clip(
        np.searchsorted(before[first_frame : end_frame + 1], edge_cycles, "right") - 1,
        0,
        len(run) - 1,
    )
    # Maps the id of each drawing to the cycles of each code: float[lanes, codes].
    cycles_of_drawing: dict[int, Array] = {}
    cycles_at_edges = np.zeros((mark.count, codes, columns + 1))
    cycles_so_far = np.zeros((mark.count, codes))
    edges_by_frame = np.split(
        np.arange(columns + 1), np.searchsorted(frame_of_edge, np.arange(1, len(run)))
    )
    for (frame, drawing), edges in zip(run, edges_by_frame, strict=True):
        if len(edges):
            cycles_at_edges[:, :, edges] = cycles_so_far[:, :, None] + _spent(
                drawing, mark.count, codes, edge_cycles[edges] - before[frame]
            )
        if id(drawing) not in cycles_of_drawing:
            cycles_of_drawing[id(drawing)] = _spent(drawing, mark.count, codes, np.array([np.inf]))[
                :, :, 0
            ]
        cycles_so_far += cycles_of_drawing[id(drawing)]
    pixels = pixels_in_turn(np.diff(cycles_at_edges, axis=2))
    pitch = mark.height / mark.count
    if cycles_so_far.sum(axis=1).all():
        yield Raster(mark.x, mark.y, width, mark.height, codes=pixels)
        return
    # A lane without cycles is left out, because it belongs to the tape of another run.
    for lane in np.flatnonzero(cycles_so_far.sum(axis=1)).tolist():
        yield Raster(mark.x, mark.y + lane * pitch, width, pitch, codes=pixels[lane : lane + 1])


def _spent(drawing: Drawing, num_lanes: int, num_codes: int, times: Array) -> Array:
    """Return float[lanes, codes, times]: the cycles for which each lane has had each code so far.

    `times` are in cycles from the beginning of the drawing.
    """
    cycles_by_code = np.zeros((num_lanes, num_codes, len(times)))
    lanes = np.arange(num_lanes)
    for bar in drawing.bars:
        code, begin, bar_end = (array[:, None] for array in bar.of(num_lanes))
        cycles_by_code[lanes, code[:, 0]] += np.clip(np.minimum(times, bar_end) - begin, 0, None)
        if bar.rest >= 0:
            cycles_by_code[lanes, bar.rest] += np.clip(
                np.minimum(times, bar.end) - bar_end, 0, None
            )
    return cycles_by_code


def _steps(mark: Curve, values: Array) -> Array:
    """Return float[2n, 2]: the (x, y) points of a line with n steps, one for each of n values."""
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
    spacing = -(-mark.count // max(1, min(mark.count, int(mark.width / TICK))))
    for frame_shown in range(0, mark.count, spacing) if mark.named else ():
        name = scene.stills[int(scene.frames[frame_shown])].label.split(" ", 1)[-1]
        position = number(round(frame_shown * mark.each)) if mark.each else f"{frame_shown + 1}"
        text = f"{position} {name}"
        if LETTER * len(text) > min(spacing, mark.count - frame_shown) * mark.width / mark.count:
            text = position  # There is no room for the full name.
        yield Words(
            mark.x + frame_shown * mark.width / mark.count, bottom + 12, text, 11, ink="soft"
        )
    if len(scene.frames) > 1:
        x = mark.x + (frame + 0.5) * mark.width / mark.count
        yield Stroke(((x, mark.y - 3), (x, bottom + 3)), 1.5)


def bar_width(mark: Tree) -> float:
    """Return the width of the longest bar of a tree.

    The result is the width that the texts of the tree leave free, but at least `BAR` and at most
    half of the tree's width. static/tree.js has the same formula.
    """
    columns = len(mark.columns)
    labels_and_depths = zip(mark.labels, mark.depth.tolist(), strict=True)
    label_width = max(NAME * len(text) + 14 * depth + 14 for text, depth in labels_and_depths)
    first_column_width = max(52, 30 + NAME * max(map(len, mark.cells[::columns])))
    remaining_width = (
        mark.width - label_width - first_column_width - mark.column * (columns - 1) - 12
    )
    return float(min(max(BAR, remaining_width), mark.width / 2))


def _tree(mark: Tree) -> Iterator[Shape]:
    right = mark.x + mark.width
    bar_length = bar_width(mark)
    column_ends = [
        right - bar_length - 12 - mark.column * (len(mark.columns) - 1 - tree_row)
        for tree_row in range(len(mark.columns))
    ]
    room = column_ends[0] - LETTER * len(mark.columns[0]) - mark.x
    heading_y = mark.y - (23 if OF_HEADING * len(mark.heading) > room else 8)
    yield Words(mark.x, heading_y, mark.heading, ink="soft")
    for x, words in zip(column_ends, mark.columns, strict=True):
        yield Words(x, mark.y - 8, words, 12, anchor="end", ink="soft")
    rows = mark.visible()
    has_children = mark.has_children()
    first_column_width = max(54, NAME * max(map(len, mark.cells[:: len(column_ends)])))
    for row, tree_row in enumerate(rows):
        top = mark.y + row * mark.pitch
        x = mark.x + 14 * int(mark.depth[tree_row])
        if has_children[tree_row]:
            yield Words(
                x, top + mark.pitch * 0.7, "−" if mark.open[tree_row] else "+", 13, ink="soft"
            )
        max_letters = int((column_ends[0] - first_column_width - 16 - x) / NAME)
        yield Words(x + 14, top + mark.pitch * 0.7, label(mark.labels[tree_row], max_letters), 12)
        for column_number, column_end in enumerate(column_ends):
            yield Words(
                column_end,
                top + mark.pitch * 0.7,
                mark.cells[tree_row * len(column_ends) + column_number],
                12,
                anchor="end",
            )
    left_edges: Array = np.full(len(rows), right - bar_length)
    upper = mark.y + (np.arange(len(rows)) + 0.2) * mark.pitch
    for code, thousandths in mark.parts.items():
        widths = bar_length * thousandths[rows] / 1000
        yield Boxes(int(code), rectangles(left_edges, upper, widths, mark.pitch * 0.6)[widths > 0])
        left_edges = left_edges + widths


def headline(scene: Scene) -> Iterator[Words]:
    """Yield the lines of the title above the drawing."""
    for row, line in enumerate(_title_lines(scene)):
        y = 22 - headline_height(scene) + TITLE_LINE * row
        yield Words(16, y, line, TITLE_SIZE)


def headline_height(scene: Scene) -> float:
    """Return the height of the title above the drawing."""
    return 10 + TITLE_LINE * len(_title_lines(scene))


def _title_lines(scene: Scene) -> list[str]:
    return wrap(scene.title, OF_TITLE, max_lines=TITLE_LINES, placeholder=" …")


def caption(scene: Scene, frame: int) -> Iterator[Shape]:
    """Yield the shapes below the drawing: a description of the frame, and the legend."""
    still = scene.stills[int(scene.frames[frame])]
    y = scene.height + 14
    head = f"{still.label}, {number(still.cycles)} modelled cycles" if still.cycles else still.label
    for row, line in enumerate(_lines(head, 1)):
        yield Words(16, y + LINE * row, line)
    for row, line in enumerate(_lines(still.note, MOST_LINES)):
        yield Words(16, y + LINE * (1 + row), line, ink="soft")
    top = y - 4 + LINE * text_lines(scene)
    places = legend_places(scene)
    for code, _, x, row in places:
        yield Boxes(code, rectangles(x, top + LEGEND_ROW * row, 14.0, 14.0))
    for _, words, x, row in places:
        yield Words(x + 19, top + LEGEND_ROW * row + 11, words, ink="soft")


LEGEND_ROW = 20.0
OF_HEADING = 6.6  # The approximate width of a letter in a heading.
TITLE_SIZE, TITLE_LINE, OF_TITLE = 16, 22.0, 72  # Font size, height of a line, letters in a line.
TITLE_LINES = 3  # The maximum number of lines of a title.
LINE = 18.0  # The height of a line of text.
MOST_LINES = 3  # The maximum number of lines of the note.


def legend_words(scene: Scene) -> dict[int, str]:
    """Return a dict that maps the index of each code in the legend to the code's text.

    The text is the name of the code. If a cell shows the letter of the code, the text begins with
    the letter.
    """
    codes = ((code, scene.codes[code]) for code in scene.legend)
    return {i: f"{code.letter * (i in scene.lettered)} {code.name}".strip() for i, code in codes}


def legend_places(scene: Scene) -> list[tuple[int, str, float, int]]:
    """Return a list with `(code, text, x, row)` for each entry of the legend.

    `x` is in units of the drawing, and `row` is the index of the line of the legend.
    """
    entries = []
    x = 16.0
    row = 0
    for code, words in legend_words(scene).items():
        width = 34 + 6.6 * len(words)
        if x > 16 and x + width > WIDTH:
            x = 16.0
            row = row + 1
        entries.append((code, words, x, row))
        x += width
    return entries


def caption_height(scene: Scene) -> float:
    """Return the height of the texts and the legend below the drawing."""
    return (
        32
        + LINE * text_lines(scene)
        + LEGEND_ROW * max((row for *_, row in legend_places(scene)), default=0)
    )


def text_lines(scene: Scene) -> int:
    """Return the number of lines that each frame reserves for its label and its note.

    There is a line for the label, and as many lines as the longest note of the scene needs, so that
    nothing moves between frames. The result is 0 if no frame has a label or a note.
    """
    if not any(still.label or still.cycles or still.note for still in scene.stills):
        return 0
    return 1 + max(1, *(len(_lines(still.note, MOST_LINES)) for still in scene.stills))


def _lines(text: str, max_lines: int) -> list[str]:
    """Break a text into at most `max_lines` lines that are not wider than the drawing."""
    return wrap(text, 104, max_lines=max_lines, placeholder=" …")
