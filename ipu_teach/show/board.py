"""Draw a board as shapes, with its messages, list and history, for a frame of the view `run`.

A board is a mark with a box for each tile and numbers in the boxes. static/board.js draws the same
shapes in the player.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Context
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ipu_teach.show.measures import (
    BETWEEN,
    BROADEST,
    CELL,
    DIGITS,
    GUTTER,
    HEAD,
    LINE,
    MOST_ARROWS,
    MOST_PACKETS,
    OF_LETTER,
    ROW,
)
from ipu_teach.show.scene import Board, Detail, Flows, Message, Scene, Sheet, Trail, label
from ipu_teach.show.shapes import Boxes, Outline, Shape, Stroke, Words, rectangles
from ipu_teach.types import Array

# static/board.js has the same numbers.
FOOT = 22.0  # The height of the area of a box in which messages arrive.
# A marked cell that is narrower than this is underlined. A wider marked cell gets a rim.
NARROW = 10.0
# Maps a number of digits to a context that rounds half up, as browsers do.
ROUND = {digits: Context(digits, ROUND_HALF_UP) for digits in (1, 2, 3, 4, 5, 6)}


def value(text: str) -> float:
    """Convert a string to a number: 1 for "True", 0 for "False", NaN for "?" (unwritten)."""
    return (
        float(text == "True")
        if text in ("True", "False")
        else float("nan" if text == "?" else text)
    )


def short(text: str, room: float, digits: int = 4) -> str:
    """Shorten a number to at most `digits` significant digits, or fewer if `room` is narrow.

    `text` is the number as a string, and `room` is the width in units of the drawing. A whole
    number keeps up to six digits. The result is "" if not even one digit fits.
    """
    max_letters = int(room / OF_LETTER)
    if text == "?" or len(text) <= max_letters and not set(text) & set(".e"):
        return text if max_letters else ""
    tries = (
        [text, text[:1]]
        if text in ("True", "False")
        else [
            f"{float(ROUND[n].create_decimal(value(text))):g}"
            for n in (6 if value(text).is_integer() else digits, *range(digits, 0, -1))
        ]
    )
    return next((candidate for candidate in tries if len(candidate) <= max_letters), "")


class Places:
    """The positions of the boxes and cells of a board."""

    def __init__(self, board: Board) -> None:
        self.board = board
        gutter = GUTTER if board.block else 0.0
        self.wide = (board.width - gutter + BETWEEN) / board.across - BETWEEN
        # For each box: (column, row, number of IPU names above it).
        self.spots: list[tuple[int, int, int]] = []
        # For each IPU: its first box.
        self.heads: dict[int, int] = {}
        down = -1
        along = board.across
        for box in range(len(board.tiles)):
            if along + 1 >= board.across or board.ipu(box) not in self.heads:
                down = down + 1
                along = -1
            self.heads.setdefault(board.ipu(box), box)
            along += 1
            self.spots.append((along, down, len(self.heads) if board.block else 0))
        self.tall = (down + 1) * (board.high + BETWEEN) - BETWEEN + HEAD * self.spots[-1][2]
        room = self.wide - 8 - 32 * np.reshape(board.left, (-1, len(board.per))).any(axis=0)
        self.pitch = np.minimum(BROADEST, room / np.array(board.per))

    def corner(self, box: int) -> tuple[float, float]:
        """Return `(x, y)`: the upper left corner of a box."""
        along, down, heads = self.spots[box]
        y = self.board.y + down * (self.board.high + BETWEEN) + HEAD * heads
        return self.board.x + along * (self.wide + BETWEEN), y

    def cells(self) -> Array:
        """Return float[count, 4]: (x, y, width, height) of each cell."""
        corner = np.array([self.corner(b) for b in range(len(self.board.tiles))])[self.board.box]
        pitch = self.pitch[self.board.row]
        x = corner[:, 0] + 4 + self.board.place * pitch
        y = corner[:, 1] + HEAD + self.board.row * ROW
        return rectangles(x, y, np.maximum(pitch - 1, 0.5), CELL)


def value_codes(board: Board, texts: list[str]) -> Array:
    """Return int64[count]: the colour code for the number in each cell.

    `texts` has a string for each cell: a number, or "?" for an unwritten element.
    """
    codes = np.full(len(texts), board.unwritten)
    known = np.array([text != "?" for text in texts], bool)
    values = np.array([value(text) for text in texts if text != "?"])
    above = values[:, None] >= np.array(board.bounds)[board.row[known]]
    steps = np.where(np.isnan(values), board.unwritten + 1, board.steps + above.sum(axis=1))
    codes[known] = steps
    return codes


def outline(x: float, y: float, width: float, height: float) -> Array:
    """Return float[5, 2]: the four corners of a box's rim, followed by the first corner again."""
    return np.array([(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)])


def rim(
    x: float, y: float, width: float, height: float, thick: float, role: str = "ink"
) -> Iterator[Shape]:
    """Yield the rim of a box as four strokes, `thick` wide."""
    points = pairwise(outline(x, y, width, height).tolist())
    return (Stroke(((a, b), (c, d)), thick, role) for (a, b), (c, d) in points)


def paint_board(scene: Scene, board: Board, frame: int, progress: float) -> Iterator[Shape]:
    """Yield the boxes of the tiles with their states, and the cells with their numbers.

    `progress` (0 to 1) is the fraction of the frame that has passed.
    """
    still = scene.stills[int(scene.frames[frame])]
    places = Places(board)
    texts = scene.numbers[board.name].at(frame)
    cells = places.cells()
    yield Words(board.x, board.y - 8, board.heading, ink="soft")
    for flows in (m for m in scene.marks if isinstance(m, Flows) and m.between == board.name):
        messages, _ = under_way(scene, frame, progress, flows.name)
        if len(messages) > MOST_PACKETS and not any(map(board.link, messages)):
            # Arrows and lines are drawn first, so that cells cover them.
            yield from _arrows(places, messages)
        for packet in _packets(scene, flows.name, board, frame, progress):
            yield Stroke((packet.start, packet.end), 1, "line")
    code, until, then = still.cells.get(board.name, (0, 1, 0))
    busy = np.broadcast_to(np.asarray(until), len(board.tiles)) >= progress * still.cycles
    state = np.where(busy, np.broadcast_to(np.asarray(code), len(board.tiles)), then)
    yield from _tiles(scene, board, places, state)
    shown = value_codes(board, texts)
    for value in np.unique(shown):
        yield Boxes(int(value), cells[shown == value])
    yield from _rims(board, places, cells)
    yield from _touched(still.touches.get(board.name, ()), cells)
    yield from _corners(*cells[board.focus].tolist())
    digits = zip(cells.tolist(), texts, shown.tolist(), strict=True)
    words = [
        Words(x + w / 2, y + 11, short(t, w), 11, anchor="middle", ink=value)
        for (x, y, w, _), t, value in digits
        if w >= DIGITS
    ]
    yield from sorted(words, key=lambda w: (w.ink, w.y))


def _tiles(scene: Scene, board: Board, places: Places, state: Array) -> Iterator[Shape]:
    """Yield the rim and the name of each tile, and the letter of its state."""
    corners = np.array([places.corner(box) for box in range(len(board.tiles))])
    for ipu, box in places.heads.items() if board.block else ():
        yield Words(board.x, float(corners[box, 1]) - 6, f"IPU {ipu}")
    for x, y in corners.tolist():
        yield from rim(x, y, places.wide, board.high, thick=1, role="line")
    for (x, y), tile in zip(corners.tolist(), board.tiles, strict=True):
        yield Words(
            x + 4, y + 14, f"tile {tile}" if places.wide > 70 else f"{tile}", 11, ink="soft"
        )
    for value in np.unique(state).tolist():
        if scene.codes[value].letter:
            x, y = corners[state == value].T + np.array([[places.wide - 18], [3]])
            yield Boxes(value, rectangles(x, y, 14.0, 14.0))
            yield from (
                Words(a + 7, b + 11, scene.codes[value].letter, 11, anchor="middle", ink=value)
                for a, b in zip(x, y, strict=True)
            )


def _rims(board: Board, places: Places, cells: Array) -> Iterator[Shape]:
    """Yield a border around each tensor's cells in a tile, and texts about undrawn elements.

    A board with a single tensor has no such borders. A text about undrawn elements says how many
    elements of a tensor in a tile are not drawn.
    """
    rest = []
    for row, rim_code in enumerate(board.rims):
        for box in range(len(board.tiles)):
            inside = cells[(board.box == box) & (board.row == row)]
            if len(inside):
                wide = places.pitch[row] * len(inside) - 1
                if len(board.rims) > 1:
                    x, y = inside[0, 0] - 1.5, inside[0, 1] - 1.5
                    yield Outline(rim_code, outline(x, y, wide + 3, CELL + 3), False, 1.5)
                if left := int(board.left[box, row]):
                    x = float(inside[-1, 0] + places.pitch[row]) + 1
                    y = float(inside[0, 1]) + 11
                    rest.append(Words(x, y, f"+{left:,}", 11, ink="soft"))
    yield from rest


def _touched(touches: Sequence[Array], cells: Array) -> Iterator[Shape]:
    """Yield thin borders around cells that are read, and thick borders around written cells.

    `touches` is (cells that are read, cells that are written), or () if there are none.
    """
    for marked, width in zip(touches, (1.0, 2.5), strict=False):
        for x, y, wide, high in cells[marked].tolist():
            if wide < NARROW:
                yield Stroke(((x, y + high + 1), (x + wide + 1, y + high + 1)), width)
            else:
                yield from rim(x, y, wide, high, thick=width)


def under_way(
    scene: Scene, frame: int, progress: float, name: str
) -> tuple[tuple[Message, ...], float]:
    """Return `(messages, cycles)`: the messages of a frame, and the cycles since they were sent.

    `name` is the name of the mark with the messages. Messages that have arrived remain until the
    superstep changes a value. If the messages were sent in an earlier frame, `cycles` is infinite.
    If there are no messages, return `((), 0.0)`.
    """
    for back in range(frame, -1, -1):
        still = scene.stills[int(scene.frames[back])]
        if still.flows.get(name):
            return still.flows[name], progress * still.cycles if back == frame else np.inf
        if still.first or not still.cycles:
            break
    return (), 0.0


class _Packet(NamedTuple):
    """A message between the boxes of a board, drawn as a packet on a line.

    Attributes:
        text: the number that the message carries, or its bytes.
        start, end: the ends of the line.
        part: the fraction of the line that the packet has passed, from 0 to 1.
        code: the index of its colour in `Scene.codes`.
    """

    text: str
    start: tuple[float, float]
    end: tuple[float, float]
    part: float
    code: int


def _packets(
    scene: Scene, name: str, board: Board, frame: int, progress: float
) -> Iterator[_Packet]:
    """Yield the packets of a frame; none if there are many messages, or any between IPUs."""
    places = Places(board)
    messages, now = under_way(scene, frame, progress, name)
    if len(messages) > MOST_PACKETS or any(map(board.link, messages)):
        return
    cells = places.cells()
    still = scene.stills[int(scene.frames[frame])]
    begun = np.cumsum([scene.stills[i].first for i in scene.frames.tolist()])
    # `last` is the index of the last frame of the superstep of `frame`.
    last = int(np.searchsorted(begun, begun[frame], "right")) - 1
    before, after = (scene.numbers[board.name].at(f) for f in (frame, last))
    landed: Counter[int] = Counter()
    for message in messages:
        assert message.cells is not None
        # If no cell of the message is drawn, its number is unknown, and the packet shows its bytes.
        cell = int(message.cells[0]) if len(message.cells) else -1
        text = (
            short((after if message.after else before)[cell], 44)
            if message.count == 1 and cell >= 0
            else f"{message.size:,} B"
        )
        ends = list[tuple[float, float]]()
        for box in (message.source, int(message.receivers[0])):
            x, y = (board.x + board.width / 2, board.y - 12) if box < 0 else places.corner(box)
            if box >= 0 and cell >= 0 and board.box[cell] == box:
                x, y = float(cells[cell, 0] + cells[cell, 2] / 2), float(cells[cell, 1] + CELL / 2)
            elif box >= 0:
                fit = max(1, int((places.wide - 4) // 48))
                x = x + 4 + _width(text) / 2 + 48 * (landed[box] % fit if ends else 0)
                y = y + board.high - 11
                landed[box] += bool(ends)
            ends.append((x, y))
        part = min(1.0, max(0.0, (now - message.begin) / ((message.end - message.begin) or 1)))
        code = board.rims[int(board.row[cell])] if cell >= 0 else still.code
        yield _Packet(text, ends[0], ends[1], part, code)


def _width(text: str) -> float:
    """Return the width of a packet with this text."""
    return OF_LETTER * len(text) + 8


def paint_packets(
    scene: Scene, name: str, board: Board, frame: int, progress: float
) -> Iterator[Shape]:
    """Yield the messages between a board's boxes as packets labelled with a number or bytes.

    If there are messages between IPUs, the messages are drawn as arrows next to the boxes instead.
    `paint_board` draws the lines of the packets, and the arrows if there are many messages.
    """
    messages, _ = under_way(scene, frame, progress, name)
    if any(map(board.link, messages)):
        yield from _links(scene, Places(board), messages)
        return
    boxes: dict[int, list[tuple[float, float, float, float]]] = {}
    words = []
    for text, (x, y), (u, v), part, code in _packets(scene, name, board, frame, progress):
        x = x + part * (u - x)
        y = y + part * (v - y)
        wide = _width(text)
        boxes.setdefault(code, []).append((x - wide / 2, y - 8, wide, 16.0))
        words.append(Words(x, y + 4, text, 11, anchor="middle", ink=code))
    yield from (Boxes(code, np.array(marked)) for code, marked in boxes.items())
    yield from sorted(words, key=lambda w: w.ink)


def _arrows(places: Places, messages: tuple[Message, ...]) -> Iterator[Shape]:
    """Yield an arrow for each message between boxes, and a text with the total number and bytes.

    The arrows of the focused box are dark. Messages from or to the host have no arrow.
    """
    board = places.board
    focus = int(board.box[board.focus])
    size = sum(message.size for message in messages)
    words = f"{len(messages)} messages, {size:,} B"
    ends = [(m.source, int(m.receivers[0])) for m in messages]
    pairs = sorted((focus in pair, *pair) for pair in ends if -1 not in pair)
    if len(pairs) > MOST_ARROWS:
        pairs = [pair for pair in pairs if pair[0]]
        words += f"; arrows: tile {board.tiles[focus]}"
    yield Words(board.right, board.y - 8, words, anchor="end", ink="soft")
    for own_pair, source, to in pairs:
        x, y = places.corner(source)
        u, v = places.corner(to)
        ahead = source < to  # Messages in opposite directions have separate lines.
        raised = board.high - (11 if ahead else 5)
        start = (x + places.wide * 0.3, y + raised)
        end = (u + places.wide * 0.7, v + raised)
        thick, role = (1.5, "ink") if own_pair else (1.0, "line")
        # An arrow from the end of a row of boxes to the beginning of the next row has two parts.
        if abs(source - to) == 1 and y != v:
            rims = (board.right, board.x) if ahead else (board.x, board.right)
            yield Stroke((start, (rims[0], start[1])), thick, role)
            start = rims[1], end[1]
        yield Stroke((start, end), thick, role, True)


def _links(scene: Scene, places: Places, links: tuple[Message, ...]) -> Iterator[Shape]:
    """Yield an arrow next to the boxes for each message between IPUs.

    Each arrow has its own vertical line and its own two ends. If there are at most two arrows, each
    has a label with its bytes. If there are more, a text above the boxes has the number and the
    bytes of all these messages.
    """
    code = next((i for i, code in enumerate(scene.codes) if code.letter == "L"), 0)
    right = places.board.right
    ends = [box for link in links for box in (link.source, int(link.receivers[0]))]
    met: Counter[int] = Counter()
    if len(links) > 2:
        sizes = sorted(link.size for link in links)
        each = f"{sizes[0]:,} B each" if sizes[0] == sizes[-1] else f"{sum(sizes):,} B"
        y = places.board.y - 8
        yield Words(right, y, f"{len(links)} messages, {each}", anchor="end", ink="soft")
    for k, link in enumerate(links):
        heights = []
        for box in (link.source, int(link.receivers[0])):
            met[box] += 1
            part = met[box] / (ends.count(box) + 1)
            heights.append(places.corner(box)[1] + places.board.high * part)
        (a, b), left = heights, right - GUTTER + 6
        x = left + 12 + (GUTTER - 22) * k / max(1, len(links) - 1)
        yield Stroke(((left, a), (x, a)), 2)
        yield Stroke(((x, a), (x, b)), 2)
        yield Stroke(((x, b), (left + 2, b)), 2, arrow=True)
        if len(links) <= 2:
            y = (a + b) / 2 + 20 * k
            yield Boxes(code, rectangles(right - 56, y - 9, 56.0, 16.0))
            yield Words(right - 28, y + 3, f"{link.size:,} B", 11, anchor="middle", ink=code)


def paint_sheet(scene: Scene, mark: Sheet, frame: int) -> Iterator[Shape]:
    """Yield a tensor of two dimensions as an image, with a pixel for each cell of the board."""
    board = scene.mark(mark.of)
    assert isinstance(board, Board)
    yield Words(mark.x, mark.y - 8, mark.heading, ink="soft")
    codes = value_codes(board, scene.numbers[board.name].at(frame))
    rows = -(-len(mark.place) // mark.columns)
    side = min(mark.width / mark.columns, mark.height / rows)
    x = mark.x + mark.place % mark.columns * side
    y = mark.y + mark.place // mark.columns * side
    for code in np.unique(codes).tolist():
        at = codes == code
        yield Boxes(code, rectangles(x[at], y[at], side, side))
    yield from _corners(float(x[board.focus]), float(y[board.focus]), side, side)


def _corners(x: float, y: float, wide: float, high: float) -> Iterator[Shape]:
    """Yield four corners around a box, which mark the chosen element.

    The element gets no full border, because a thick border means "written".
    """
    long = min(5.0, wide / 3 + 2)
    for a, right in ((x - 3, 1), (x + wide + 3, -1)):
        for b, down in ((y - 3, 1), (y + high + 3, -1)):
            yield Stroke(((a - right, b), (a + right * long, b)), 2)
            yield Stroke(((a, b), (a, b + down * long)), 2)


def paint_detail(scene: Scene, mark: Detail, frame: int) -> Iterator[Shape]:
    """Yield the cells of the focused box as a list of names and numbers.

    If a number has just changed, its previous value is also shown, struck through.
    """
    board = scene.mark(mark.of)
    assert isinstance(board, Board)
    box = int(board.box[board.focus])
    yield Words(mark.x, mark.y - 8, f"tile {board.tiles[box]} holds", ink="soft")
    now, before = (scene.numbers[board.name].at(f) for f in (frame, frame - 1))
    inside = np.flatnonzero(board.box == box).tolist()
    fit = int(mark.height // LINE)
    shown = inside if len(inside) <= fit else inside[: fit - 1]
    for line, cell in enumerate(shown):
        room = mark.width - 8 - OF_LETTER * len(short(now[cell], 66, 6))
        if now[cell] != before[cell] and frame:
            room = mark.width - 140
        name = label(board.said(cell), int(room / OF_LETTER))
        yield Words(mark.x, mark.y + 12 + LINE * line, name, 12, ink="soft")
    for line, cell in enumerate(shown):
        y = mark.y + 12 + LINE * line
        right = mark.right
        yield Words(right, y, short(now[cell], 66, 6), 12, anchor="end")
        if now[cell] != before[cell] and frame:
            old = short(before[cell], 66, 6)
            yield Words(right - 70, y, old, 12, anchor="end", ink="soft")
            yield Stroke(((right - 70 - OF_LETTER * len(old), y - 4), (right - 70, y - 4)), 1)
    if len(shown) < len(inside):
        rest = f"and {len(inside) - len(shown):,} more"
        yield Words(mark.x, mark.y + 12 + LINE * len(shown), rest, 12, ink="soft")


def paint_trail(scene: Scene, mark: Trail, edges: Array) -> Iterator[Shape]:
    """Yield the history of the focused cell: how its number changes during the run.

    `edges` has the beginning of each frame as a fraction of the run.
    """
    board = scene.mark(mark.of)
    assert isinstance(board, Board)
    numbers = scene.numbers[board.name]
    cell = board.focus
    at = numbers.cell == cell
    texts = [numbers.texts[i] for i in (int(numbers.first[cell]), *numbers.value[at].tolist())]
    values = np.array([value(text) for text in texts])
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    changes = f"{int(at.sum()):,} change{'' if at.sum() == 1 else 's'}"
    where = f"{board.said(cell)} on tile {board.tiles[int(board.box[cell])]}"
    yield Words(mark.x, mark.y - 8, f"{where}: {changes}", ink="soft")
    if len(finite):
        ends = [short(str(end), 99, 6) for end in (low, high)]
        said = f"always {ends[0]}" if ends[0] == ends[1] else " to ".join(ends)
        yield Words(mark.right, mark.y - 8, said, anchor="end", ink="soft")
    x = mark.x + mark.width * np.append(0.0, edges[numbers.frame[at]])
    y = mark.y + mark.height * (1 - (values - low) / ((high - low) or 1))
    for i, (left, right) in enumerate(pairwise((*x.tolist(), mark.right))):
        if np.isfinite(values[i]):
            yield Stroke(((left, float(y[i])), (right, float(y[i]))), 1.5)
        if i:
            yield Stroke(((left, mark.bottom), (left, mark.bottom + 5)), 1.5)
    yield Stroke(((mark.x, mark.bottom), (mark.right, mark.bottom)), 1, "line")
