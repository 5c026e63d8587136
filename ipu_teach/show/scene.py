"""The content of a picture, before it is drawn: marks with their places, and for each frame their
state.

A `Scene` is drawn by three renderers: `svg` (posters and stills), `mpl` (png, gif and pdf for
slides) and `static/player.js` (live, in the notebook), to which a view may add marks and keys of
its own in `static/<view>.js`. Marks are placed once. The parts that change from frame to frame are
*channels*: the code (colour, letter, pattern) of each cell and how long it keeps it, the bars of
each lane, the messages, the words. A *still* is one such set of channels; a frame is the number of
a still, so that a program's repetitions are stored once. The values of a run, which equal stills do
not share, are `CellTexts`: the texts at first, and the changes frame by frame; a renderer keeps a
full set every few frames. A mark `of` another one shows details of the part chosen there.

Lengths are in units of the drawing, 720 wide; a frame lasts `cycles` modelled cycles.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ipu_teach.show.measures import GAP
from ipu_teach.show.pack import pack
from ipu_teach.show.painted import Once, beside, tenths
from ipu_teach.show.palette import Code
from ipu_teach.show.shapes import Shape, colours_of
from ipu_teach.types import Array

WIDTH = 720
VERSION = 1
LONGEST_LABEL = 80
MOST_COLUMNS = 172  # of the strip of a long run, about
MOST_PERIODS = 64  # of which one is looked for in a run
WORDS = ("label", "note", "say")  # of a still
SHORT = 8  # shorter words are said again
FEW_FRAMES = 16  # a shorter run is drawn piece by piece
WHOLE = re.compile(r"0|-?[1-9]\d{0,14}")

Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]  # headings, rows


@dataclass(frozen=True, eq=False)
class Placed:
    """A mark at a place of the drawing, given by its upper left corner, under a heading.
    `Panels.put` gives the place."""

    name: str
    heading: str = ""
    x: float = field(default=0.0, kw_only=True)
    y: float = field(default=0.0, kw_only=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sized(Placed):
    """A mark with a width and a height."""

    width: float = 0.0
    height: float = 0.0

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.height


@dataclass(frozen=True, eq=False, kw_only=True)
class Box(Sized):
    """A mark that fills a box, with `count` things in it."""

    count: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows(Placed):
    """A mark of rows, each `pitch` high, with `count` things in them, in `depth` rows or levels of
    a tree."""

    width: float = 0.0
    pitch: float
    count: int
    depth: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells(Placed):
    """Equal squares in rows of `columns`, `block` of them to a block, blocks `across` to a row and
    `gap` cells apart; `names`, if given, are above the blocks.

    `key` (one for each cell): cells, and lanes, with equal keys light up together. `same` is a
    second key, which marks the partner in another group, such as the same element in another view.
    `labels` has a word for each, drawn where there is room. `say` and `values`, if given, replace
    the still's for these cells.
    """

    side: float
    columns: int
    count: int
    block: int
    across: int = 1
    gap: float = GAP
    names: tuple[str, ...] = ()
    key: Array | None = None
    same: Array | None = None
    labels: tuple[str, ...] = ()
    say: str = ""
    values: Mapping[str, Array] = field(default_factory=dict)

    def place(self, numbers: Array) -> tuple[Array, Array]:
        """Return (x, y) of the upper left corner of each cell."""
        block = numbers // self.block
        within = numbers % self.block
        rows = -(-self.block // self.columns)
        x = within % self.columns + block % self.across * (self.columns + self.gap)
        y = within // self.columns + block // self.across * (rows + self.gap)
        return self.x + x * self.side, self.y + y * self.side


@dataclass(frozen=True, eq=False, kw_only=True)
class Lanes(Box):
    """Horizontal lanes, one below the other, with bars in them. `key`, `labels`, `say` and `values`
    as for `Cells`.

    With `whole` they are there from the first frame, and time only moves the cursor. `ends` are
    words beside the first and the last lane, `limit`, if not 0, is a length with a line. `axis`, if
    not 0, is what the whole width stands for, in place of the span of the drawing.
    """

    key: Array | None = None
    labels: tuple[str, ...] = ()
    say: str = ""
    values: Mapping[str, Array] = field(default_factory=dict)
    whole: bool = False
    ends: tuple[str, ...] = ()
    limit: float = 0
    axis: float = 0


@dataclass(frozen=True, eq=False)
class Bar:
    """In every lane a bar from `start`, `length` long, and from there to `end` another that says
    `rest` (a code, -1: none)."""

    code: int | Array
    start: float | Array
    length: float | Array
    end: float
    rest: int = -1

    def of(self, count: int) -> tuple[Array, Array, Array]:
        """Return (code, from, to) in each of `count` lanes, without the rest that follows."""
        code = np.broadcast_to(np.asarray(self.code), count)
        begin = np.broadcast_to(np.asarray(self.start, np.float64), count)
        return code, begin, begin + np.asarray(self.length, np.float64)


@dataclass(frozen=True, eq=False)
class Drawing:
    """The bars of all lanes together. `span` is the length of their whole width, in `unit`s."""

    span: float
    bars: tuple[Bar, ...]
    unit: str


@dataclass(frozen=True, eq=False)
class Flows:
    """Messages between the cells of the group `between`."""

    name: str
    between: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Track(Sized):
    """The whole run as one strip, with a cursor."""

    name: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Flame(Rows):
    """Nested boxes above the time axis: box i is in row `depth[i]` and lasts from frame `first[i]`
    until `last[i]` begins.

    With `timed` those two are modelled cycles since the first frame. Its name is `names[title[i]]`,
    its colour `code[i]`. Rows are `pitch` high, and `rows` are the texts beside them. `span` as for
    `Tape`.
    """

    first: Array
    last: Array
    title: Array
    names: tuple[str, ...]
    code: Array
    timed: bool = False
    rows: tuple[str, ...] = ()
    span: float = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Tape(Box):
    """Lanes over the whole run: each frame shows its drawing (`Still.lanes`) in its part of the
    width.

    Frames without a drawing are left out. `span`, if not 0, is the number of cycles of the whole
    width; `ends` as for `Lanes`. `named`, if not 0, is the height at which the names of its steps
    are, with the heading above them.
    """

    labels: tuple[str, ...] = ()
    span: float = 0
    ends: tuple[str, ...] = ()
    named: float = 0


@dataclass(frozen=True, eq=False)
class Series:
    """A value for each frame, in the colour of `code`: filled down to `base`, or (None) a line."""

    name: str
    code: int
    values: Array
    base: Array | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(Box):
    """Values frame by frame, as steps; `top` is the value at the full height, and `limit`, if not
    0, gets a line.

    With `named` the labels of frames are below it, as far as there is room, each with its number,
    or where a frame is `each` cycles wide with the cycle at which it begins.
    """

    top: float
    unit: str
    series: tuple[Series, ...]
    limit: float = 0
    named: bool = False
    each: float = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Painted(Box):
    """Fixed shapes: their coordinates count from the upper left corner of the mark.

    A still shows one of the `pictures` (`Still.pictures`, the first by default). `places` are those
    of the parts that one can point at, float[count, 4] of x, y, width and height; `key`, `labels`,
    `say` and `values` as for `Cells`. A page that gives the mark another width stretches it; words
    keep their size, and marks beside it keep their distance.

    `switches` choose among pictures too: each has its key, its title, the effect of the key, and
    whether it is on at first. With k switches, each still has 2^k pictures, of which number 2^k is
    the one where only switch k is turned.
    """

    pictures: tuple[tuple[Shape, ...], ...]
    places: Array
    key: Array | None = None
    labels: tuple[str, ...] = ()
    say: str = ""
    values: Mapping[str, Array] = field(default_factory=dict)
    switches: tuple[tuple[str, str, str, bool], ...] = ()

    def shown(self, still: Still) -> tuple[Shape, ...]:
        """Return what a still shows of it, before a switch is turned."""
        return self.pictures[still.pictures.get(self.name, 0) * 2 ** len(self.switches)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tree(Rows):
    """Rows that fold: row i is at depth `depth[i]`, under the nearest row above that is less deep.

    `columns` are headings, `cells` the texts below them, row by row; `parts` are the pieces of the
    rows' bars from left to right, thousandths of the longest by the number of their code. `open`
    says which rows show their children at first; columns are `column` wide.
    """

    labels: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[str, ...]
    parts: Mapping[str, Array]
    open: Array
    say: str = ""
    values: Mapping[str, Array] = field(default_factory=dict)
    column: float = 112

    def visible(self) -> list[int]:
        """Return the rows that show at first."""
        data, hidden = [], 0  # rows deeper than `hidden` are folded away, if it is not 0
        for row, (depth, opened) in enumerate(
            zip(self.depth.tolist(), self.open.tolist(), strict=True)
        ):
            if hidden and depth >= hidden:
                continue
            data.append(row)
            hidden = 0 if opened else depth + 1
        return data

    def has_children(self) -> Array:
        """Return bool[count]."""
        data: Array = np.append(self.depth[1:] > self.depth[:-1], False)
        return data


@dataclass(frozen=True, eq=False, kw_only=True)
class Zoom(Box):
    """A machine in several sizes, a frame each: a square of equal parts, the first of which is the
    size before, and its pipes.

    Of each size its name and how many parts it has; of each pipe its `labels`, `figures` and the
    number of its code; and `rates`, size by size, how wide each pipe is, in words, and `told`, a
    sentence; `Still.values` has that as "rate". `part` and `first` are codes.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    labels: tuple[str, ...]
    figures: tuple[str, ...]
    rates: tuple[str, ...]
    told: tuple[str, ...]
    codes: tuple[int, ...]
    part: int
    first: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Matrix(Box):
    """Squares, `bins` across and down, for `tiles` of which `each` share a row and a column:
    senders across, receivers down.

    `Still.cells` has their codes. In its drawing (`Still.lanes`), the first bars show the bytes
    that every column sends, drawn above it, and the second the bytes that every row receives,
    beside it. `ticks` are the first tiles at equal distances, or for several IPUs their numbers;
    then `ipu` rows belong to one, and `link` is the code of inter-IPU messages.
    """

    bins: int
    tiles: int
    each: int
    ticks: tuple[str, ...]
    ipu: int = 0
    link: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Aside(Sized):
    """A mark beside the mark `of`, about the part chosen there."""

    of: str


class Partners(Aside):
    """A tile of a matrix, in the middle of those that it exchanges most with: the chosen one, else
    the busiest."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Board(Box):
    """Tiles as boxes, `across` to a row and `high` each, with `count` cells of numbers in them.

    Box b is tile `tiles[b]`. Cell i is in box `box[i]`, in its row `row[i]` (of one tensor, whose
    rim has the code `rims[row]`), at place `place[i]` of at most `per[row]`. It is element
    `index[i]` of `names[named[i]]`, flat in `shapes`. `left` (boxes x rows) counts the elements of
    a row that are not drawn. A value has the code `steps` + how many of its row's `bounds` are not
    above it; an unwritten element has the code `unwritten`, and NaN the one after. `focus` is the
    cell that is meant if none is chosen. `block` is the number of tiles of an IPU, or 0 if there is
    only one; each of several IPUs begins a row of boxes, below its name.
    """

    tiles: tuple[int, ...]
    across: int
    high: float
    per: tuple[int, ...]
    box: Array
    row: Array
    place: Array
    named: Array
    index: Array
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    rims: tuple[int, ...]
    left: Array
    bounds: tuple[tuple[float, ...], ...]
    steps: int
    unwritten: int
    focus: int
    block: int = 0

    def ipu(self, box: int) -> int:
        """On which IPU a box is; the host, box -1, is on none."""
        return self.tiles[box] // self.block if self.block and box >= 0 else -1

    def link(self, message: Message) -> bool:
        """Whether a message goes from one IPU to another."""
        ends = self.ipu(message.source), self.ipu(int(message.receivers[0]))
        return -1 not in ends and ends[0] != ends[1]

    def said(self, cell: int) -> str:
        """Return the element in a cell by its name: u[3, 4]."""
        return self.element(int(self.named[cell]), int(self.index[cell]))

    def element(self, name: int, index: int) -> str:
        """Return an element of one of the variables."""
        return element(self.names[name], self.shapes[name], index)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sheet(Aside):
    """The cells of a board as an image of `columns` columns: cell i of the board is pixel
    `place[i]`, row by row."""

    columns: int
    place: Array


class Detail(Aside):
    """The cells of the box of a board that contains the chosen cell, as a list with their
    numbers."""


class Trail(Aside):
    """The number of the chosen cell of a board, over all frames."""


Mark = (
    Cells
    | Lanes
    | Flows
    | Sheet
    | Track
    | Flame
    | Tape
    | Curve
    | Painted
    | Tree
    | Zoom
    | Matrix
    | Board
    | Aside
)


@dataclass(frozen=True, eq=False)
class Message:
    """`size` bytes from one cell to `receivers`; on a board these are boxes, and -1 is the host.

    On a board it is under way from cycle `begin` to `end` of its still, and carries `count`
    numbers, those of `cells` among them: as they are in the frame, or with `after` as they are when
    the group of frames ends.
    """

    source: int
    receivers: Array
    size: int
    begin: float = 0
    end: float = 0
    cells: Array | None = None
    count: int = 0
    after: bool = False


@dataclass(frozen=True, eq=False)
class CellTexts:
    """The texts in the cells of a mark: `texts[first[i]]` at first. From frame `frame[k]` on
    (ascending), cell `cell[k]` contains `texts[value[k]]`. A text is a number as Python writes it,
    True or False, or "?" for an unwritten element."""

    texts: tuple[str, ...]
    first: Array
    frame: Array
    cell: Array
    value: Array

    def at(self, frame: int) -> list[str]:
        """Return the text of each cell in a frame."""
        now = self.first.copy()
        done = int(np.searchsorted(self.frame, frame, "right"))
        now[self.cell[:done]] = self.value[:done]
        return [self.texts[i] for i in now.tolist()]


@dataclass(frozen=True, eq=False)
class Origins:
    """The origins of the values written into some cells of a board: `how` quotes {name}, {index}
    and {tile}, one for each cell.

    With `element` name and index are those of an element, else they are quoted as they are.
    """

    how: str
    element: bool
    cell: Array
    name: Array
    index: Array
    tile: Array


@dataclass(frozen=True, eq=False)
class Still:
    """One set of channels. A still of 0 cycles takes no time; `source` numbers a text of the
    scene's `sources`, or is -1.

    `at` is the fraction of it that is over where a step, or a picture of the frame, stops. `about`
    gives (text, values) for a group in place of `say` and `values`.

    `cells`: for each group (code, how long in cycles, code afterwards), numbers or arrays. `lanes`:
    for each group (number of its drawing, from, to): the part that appears during the frame.
    `flows`: for each group its messages. `touches`: for each board the cells that are read and
    those that are written. `origins`: where these come from. `pictures`: for painted marks the
    number of the picture. `values` are arrays that `say` quotes for one cell: "{i}" is its number,
    "{name}" its value, "{-name}" the rest of the cycles.
    """

    label: str
    note: str
    code: int
    cycles: float
    first: bool
    cells: Mapping[str, tuple[int | Array, float | Array, int]] = field(default_factory=dict)
    lanes: Mapping[str, tuple[int, float, float]] = field(default_factory=dict)
    flows: Mapping[str, tuple[Message, ...]] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    say: str = ""
    source: int = -1
    at: float = 1
    about: Mapping[str, tuple[str, Mapping[str, Array]]] = field(default_factory=dict)
    touches: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    origins: Mapping[str, tuple[Origins, ...]] = field(default_factory=dict)
    pictures: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Scene:
    """A picture. `sentence` says in words what it shows, with its numbers; `table` has all of them:
    (headings, rows).

    `poster` is the frame that represents the whole. `notes` say what was left out or merged.
    `group` is the noun for a sequence of frames up to the next `first` one. `sources` are texts of
    several lines, shown below. `data` has further facts for the scripts of a view, by name: "link"
    is the key by which views of one report follow each other, "window" the first and last frame of
    the shown part of an axis of time. `clock` is for frames that overlap in time: when each begins,
    and the end.
    """

    view: str
    title: str
    sentence: str
    _: KW_ONLY
    height: float
    codes: tuple[Code, ...]
    marks: tuple[Mark, ...]
    stills: tuple[Still, ...]
    frames: Array
    table: Table
    drawings: tuple[Drawing, ...] = ()
    poster: int = 0
    notes: tuple[str, ...] = ()
    group: str = "superstep"
    sources: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, CellTexts] = field(default_factory=dict)
    clock: Array | None = None

    @cached_property
    def begins(self) -> Array:
        """float[frames + 1]: the cycle at which each frame begins, and the last one ends."""
        cycles = np.array([still.cycles for still in self.stills])[self.frames]
        return np.append(0.0, np.cumsum(cycles)) if self.clock is None else self.clock

    @cached_property
    def columns(self) -> Array | None:
        """float[columns + 1]: the edges of the columns of a long run's strip, in cycles, where the
        run repeats itself, else None. Each round has equal columns, or each column equal rounds."""
        first, period, rounds = _rounds(self.frames)
        if not rounds:
            return None
        marks = [self.begins[first + k * period] for k in range(rounds + 1)]
        begin = marks[0]
        end = marks[-1]
        whole_numbers = self.begins[-1] or 1
        room = max(1, round(MOST_COLUMNS * (end - begin) / whole_numbers))
        per_round, gap = max(1, room // rounds), -(-rounds // room)  # columns of a round, or rounds
        inner = [*marks[::gap], end] if gap > 1 else marks
        parts = [np.linspace(a, b, per_round + 1)[:-1] for a, b in pairwise(inner)]
        for a, b, place in ((0.0, begin, 0), (end, self.begins[-1], len(parts) + 1)):
            count = max(1, round(MOST_COLUMNS * (b - a) / whole_numbers))
            parts.insert(place, np.linspace(a, b, count + 1)[:-1])
        columns: Array = np.unique(np.append(np.concatenate(parts), self.begins[-1]))
        return columns

    @cached_property
    def legend(self) -> list[int]:
        """Of the codes that some part of the scene shows those with a letter, and those listed
        without one."""
        strip = any(isinstance(mark, Track) for mark in self.marks)
        data = {s.code for s in self.stills if strip}
        for still in self.stills:
            for code, _, then in still.cells.values():
                data |= {then, *np.unique(code).tolist()}
        for bar in (bar for drawing in self.drawings for bar in drawing.bars):
            code, length = np.broadcast_arrays(bar.code, bar.length)
            data |= {bar.rest, *np.unique(code[length > 0]).tolist()}
        for mark in self.marks:
            data |= {s.code for s in mark.series} if isinstance(mark, Curve) else set()
            data |= set(mark.code.tolist()) if isinstance(mark, Flame) else set()
            tree = mark.parts if isinstance(mark, Tree) else {}
            data |= {int(code) for code, part in tree.items() if part.any()}
            for picture in mark.pictures if isinstance(mark, Painted) else ():
                data |= colours_of(picture)[0]
            data |= {mark.part, mark.first, *mark.codes} if isinstance(mark, Zoom) else set()
            data |= {mark.link} if isinstance(mark, Matrix) else set()
            if isinstance(mark, Board):
                data |= {
                    *(mark.rims if len(mark.rims) > 1 else ()),
                    mark.unwritten,
                    *range(mark.steps, mark.steps + max(map(len, mark.bounds)) + 1),
                }
                nan = any(text == "nan" for text in self.numbers[mark.name].texts)
                data |= {mark.unwritten + 1} if nan else set()
        return [
            i for i, code in enumerate(self.codes) if i in data and (code.letter or code.listed)
        ]

    def json(self) -> str:
        """Return the scene for the player: one line of ASCII that is safe inside a script
        element."""
        shapes = Once()
        data: dict[str, Any] = {
            "v": VERSION,
            "view": self.view,
            "title": self.title,
            "size": [WIDTH, self.height],
            "codes": [[c.name, c.letter, c.light, c.dark, c.pattern] for c in self.codes],
            "marks": [_mark(m, shapes) for m in self.marks],
            "drawings": [_drawing(d) for d in self.drawings],
            "stills": [_still(s) for s in self.stills],
            "frames": [len(self.frames), pack(self.frames)],
            "poster": self.poster,
            "notes": self.notes,
            "group": self.group,
            "legend": self.legend,
        }
        if texts := _told_once(data["stills"]):
            data["texts"] = texts
        if shapes.all:
            data["shapes"] = shapes.all
        strip = any(isinstance(mark, Track) for mark in self.marks)
        if strip and len(self.frames) > FEW_FRAMES and (edges := self.columns) is not None:
            data["columns"] = [len(edges), pack(np.round(edges).astype(np.int64))]
        if self.clock is not None:
            data["clock"] = pack(self.clock)
        if self.sources:
            data["sources"] = self.sources
        if self.numbers:
            data["numbers"] = {
                name: _texts(cell_texts) for name, cell_texts in self.numbers.items()
            }
        data |= self.data
        text = json.dumps(data, separators=(",", ":"))
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

    def mark(self, name: str) -> Mark:
        """Return the mark of that name."""
        return next(m for m in self.marks if m.name == name)


def _rounds(frames: Array) -> tuple[int, int, int]:
    """Return (the first frame, frames in a round, rounds) of the longest part of a run that repeats
    itself; 0 rounds if none does."""
    data = (0, 0, 0)
    if not len(frames):
        return data
    places = np.flatnonzero(frames == frames[len(frames) // 2])[:MOST_PERIODS]
    covered = 0
    for period in (int(place - places[0]) for place in places[1:]):
        again = np.append(frames[:-period] == frames[period:], False)
        ends = np.flatnonzero(np.diff(again, prepend=False))
        for first, last in ends[: len(ends) // 2 * 2].reshape(-1, 2).tolist():
            rounds = (last - first) // period + 1
            if rounds > 1 and rounds * period > covered:
                data = (first, period, rounds)
                covered = rounds * period
    return data


def label(text: object, longest: int = LONGEST_LABEL) -> str:
    """Return a name as a picture shows it: on one line, without characters that cannot be seen,
    shortened if need be."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def element(name: str, shape: tuple[int, ...], index: int) -> str:
    """Return an element of a variable by its name: u[3, 4]."""
    return f"{name}[{', '.join(map(str, np.unravel_index(index, shape)))}]" if shape else name


def means(values: Array, count: int) -> Array:
    """Return int64[…, count]: the means of `count` equal parts of `values`, along the last axis, in
    their order.

    A value on the border of two parts has its share in each. Rounding keeps the sum: all parts
    together are off by less than one.
    """
    part = values.shape[-1] / count
    below = np.cumsum(np.insert(values, 0, 0, axis=-1), axis=-1)
    at = np.arange(count + 1) * part
    number = np.minimum(at.astype(np.int64), values.shape[-1] - 1)
    edges = below[..., number] + values[..., number] * (at - number)
    data: Array = np.diff(np.round(edges / part), axis=-1).astype(np.int64)
    return data


def quantiles(values: Array, count: int) -> Array:
    """Return int64[…, count]: the means of `values` from the largest down."""
    return means(np.sort(values)[..., ::-1], count)


def number(value: float) -> str:
    """Return the cycles as text: whole, or with one digit after the point where they are not."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def _numbers(value: float | Array) -> Any:
    if isinstance(value, np.ndarray):
        return pack(value)
    return int(value) if float(value).is_integer() else value


def _mark(mark: Mark, shapes: Once) -> dict[str, Any]:
    """Return the fields of a mark that say something."""
    data: dict[str, Any] = {"kind": type(mark).__name__.lower()}
    for name, value in vars(mark).items():
        if isinstance(mark, Painted) and name in ("pictures", "places"):
            data[name] = (
                [shapes.picture(p) for p in value]
                if name == "pictures"
                else [pack(tenths(v)) for v in value.T]
            )
        elif isinstance(value, np.ndarray):
            data[name] = pack(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Series):
            data[name] = [
                [s.name, s.code, pack(s.values), *([] if s.base is None else [pack(s.base)])]
                for s in value
            ]
        elif isinstance(value, Mapping):
            data |= {name: {k: pack(v) for k, v in value.items()}} if value else {}
        elif value not in (None, (), "") and value is not False:
            data[name] = _numbers(round(value, 3)) if isinstance(value, float) else value
    if isinstance(mark, Painted) and (overlap := beside(mark.pictures)):
        data["left"] = overlap
    return data


def _drawing(drawing: Drawing) -> list[Any]:
    bars = []
    for b in drawing.bars:
        bar = [_numbers(b.code), _numbers(b.start), _numbers(b.length)]
        if b.rest >= 0 or b.end:  # else nothing follows, as the player takes for granted
            bar += [_numbers(b.end), b.rest]
        bars.append(bar)
    return [_numbers(drawing.span), drawing.unit, bars]


def _still(still: Still) -> dict[str, Any]:
    data: dict[str, Any] = {
        "label": still.label,
        "code": still.code,
        "cycles": _numbers(still.cycles),
    }
    items = {"note": still.note, "first": int(still.first), "say": still.say}
    data |= {k: v for k, v in items.items() if v}
    if still.source >= 0:
        data["source"] = still.source
    if still.at != 1:
        data["at"] = round(still.at, 4)
    values = {k: pack(v) for k, v in still.values.items()}
    # How long the cells of the first group keep their code is said there, and not once more among
    # the values.
    busy = next((_numbers(until) for _, until, _ in still.cells.values()), None)
    busy = busy if isinstance(busy, str) else None
    channels: dict[str, Mapping[str, Any]] = {
        "cells": {
            k: [_numbers(code), _numbers(until), then]
            for k, (code, until, then) in still.cells.items()
        },
        "lanes": {
            k: [n, _numbers(start), _numbers(stop)] for k, (n, start, stop) in still.lanes.items()
        },
        "flows": {k: _messages(ms) for k, ms in still.flows.items()},
        "values": {k: v for k, v in values.items() if v != busy},
        "pictures": still.pictures,
        "about": {
            k: [say, {n: pack(v) for n, v in values.items()}]
            for k, (say, values) in still.about.items()
        },
        "touches": {k: [_listed(items) for items in both] for k, both in still.touches.items()},
        "origins": {
            k: [
                [
                    o.how,
                    int(o.element),
                    len(o.cell),
                    *(pack(v) for v in (o.cell, o.name, o.index, o.tile)),
                ]
                for o in items
            ]
            for k, items in still.origins.items()
        },
    }
    return data | {k: v for k, v in channels.items() if v}


def _told_once(stills: list[dict[str, Any]]) -> list[str]:
    """Return the words that several stills share. In their place these get numbers."""
    often = Counter(still[k] for still in stills for k in WORDS if still.get(k))
    shared = [text for text, n in often.items() if n > 1 and len(text) > SHORT]
    numbers = {text: i for i, text in enumerate(shared)}
    for still in stills:
        still |= {k: numbers[still[k]] for k in WORDS if still.get(k) in numbers}
    return shared


def _texts(cell_texts: CellTexts) -> list[Any]:
    """Return [how many whole numbers, packed, the end of each, other texts]; of each cell the text
    that it has at first; how many changes, and when, which cell, and to what."""
    end = ".0" if any(text.endswith(".0") for text in cell_texts.texts) else ""
    whole_numbers = [
        t for t in cell_texts.texts if WHOLE.fullmatch(t.removesuffix(end)) and t.endswith(end)
    ]
    texts = dict.fromkeys((*whole_numbers, *cell_texts.texts))
    number = {text: i for i, text in enumerate(texts)}
    place = np.array([number[text] for text in cell_texts.texts], np.int64)
    sizes = np.array([int(text.removesuffix(end)) for text in whole_numbers], np.int64)
    named = [len(whole_numbers), pack(sizes), end, *[*texts][len(whole_numbers) :]]
    changes = cell_texts.frame, cell_texts.cell, place[cell_texts.value]
    return [named, pack(place[cell_texts.first]), len(cell_texts.cell), *map(pack, changes)]


def _messages(items: Sequence[Message]) -> list[Any]:
    """Return how many they are, then column by column: how many receive each, and who; how many
    cells it carries, and which; source, size, begin, end, whether the cells are those after, and
    how many there were."""
    cells = [np.zeros(0, np.int64) if m.cells is None else m.cells for m in items]
    lists = ([m.receivers for m in items], cells)
    parts = (
        (np.array(list(map(len, per_round))), np.concatenate(per_round)) for per_round in lists
    )
    packed = (pack(part) for both in parts for part in both)
    columns = [(m.source, m.size, m.begin, m.end, m.after, m.count) for m in items]
    return [len(items), *packed, *map(pack, np.array(columns, np.int64).T)]


def _listed(items: Array) -> Any:
    """Return one number as it is, several or none as [how many, packed]."""
    return int(items[0]) if len(items) == 1 else [len(items), pack(items)]
