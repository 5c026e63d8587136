"""The content of a picture before it is drawn: marks with their places, and their state by frame.

A `Scene` is drawn by three renderers: `svg` (posters and stills), `mpl` (png, gif and pdf for
slides) and `static/player.js` (live, in the notebook). A view may add marks and keys of its own to
the player in `static/<view>.js`.

Marks do not move. The parts that change from frame to frame are *channels*: the code (colour,
letter and pattern) of each cell and how long the cell has it, the bars of each lane, the messages
and the texts. A *still* is a set of all channels. A frame is the number of a still, so that the
repetitions of a program are stored once. Equal stills do not share the values of a run, which are
`CellTexts`: the texts in the first frame, and the changes frame by frame. A renderer stores all
texts every few frames. An `Aside` shows details of the part that is chosen in another mark.

Lengths are in units of the drawing, which is 720 units wide. A frame lasts for the modelled cycles
of its still.
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
LONGEST_LABEL = 80  # A label has at most this many characters.
MOST_COLUMNS = 172  # The strip of a long run has about this many columns.
MOST_PERIODS = 64  # The search for the period of a run tries at most this many.
WORDS = ("label", "note", "say")  # The texts of a still.
SHORT = 8  # A text of at most this length is stored again, not by its number.
FEW_FRAMES = 16  # A run of at most this many frames is drawn piece by piece.
WHOLE = re.compile(r"0|-?[1-9]\d{0,14}")

Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]  # headings, rows


@dataclass(frozen=True, eq=False)
class Placed:
    """A mark under a heading, whose upper left corner is at (x, y); `Panels.put` places it."""

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
        """The x of the right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of the lower edge."""
        return self.y + self.height


@dataclass(frozen=True, eq=False, kw_only=True)
class Box(Sized):
    """A mark that fills a box, with `count` items in it."""

    count: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows(Placed):
    """A mark of rows, each `pitch` high, with `count` items in them.

    `depth` (int[count]) is the row of each item, or its level in a tree.
    """

    width: float = 0.0
    pitch: float
    count: int
    depth: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells(Placed):
    """Equal squares in rows of `columns` cells, grouped into blocks.

    - `side` is the side of a cell. A block has `block` cells; `across` blocks are next to each
      other, and blocks are `gap` cells apart. `names` are written above the blocks.
    - `key` has a number for each cell: cells, and lanes, with equal keys are highlighted together.
    - `same` is a second key. It marks the partner of a cell in another group, such as the same
      element in another view.
    - `labels` has a text for each cell, which is drawn if there is room.
    - `say` and `values` replace those of the still for these cells, if they are not empty.
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
        """Return (x, y): the upper left corner of each cell in `numbers`, as two float arrays."""
        block = numbers // self.block
        cell_in_block = numbers % self.block
        rows_in_block = -(-self.block // self.columns)
        x = cell_in_block % self.columns + block % self.across * (self.columns + self.gap)
        y = cell_in_block // self.columns + block // self.across * (rows_in_block + self.gap)
        return self.x + x * self.side, self.y + y * self.side


@dataclass(frozen=True, eq=False, kw_only=True)
class Lanes(Box):
    """Horizontal lanes below each other, with bars in them.

    - `key`, `labels`, `say` and `values` are as in `Cells`.
    - With `whole`, all bars are drawn from the first frame on, and time only moves the cursor.
    - `ends` are texts beside the first and the last lane.
    - `limit`, if it is not 0, is a length at which a line is drawn.
    - `axis`, if it is not 0, is the length of the full width, instead of the span of the drawing.
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
    """A bar in each lane, from `start` with the length `length`, in the colour of `code`.

    It is followed by a second bar up to `end`, which has the code `rest`, or is missing if that is
    -1. An array has a value for each lane.
    """

    code: int | Array
    start: float | Array
    length: float | Array
    end: float
    rest: int = -1

    def of(self, count: int) -> tuple[Array, Array, Array]:
        """Return (code, begin, end) of the first bar in each of `count` lanes, as three arrays."""
        code = np.broadcast_to(np.asarray(self.code), count)
        begin = np.broadcast_to(np.asarray(self.start, np.float64), count)
        return code, begin, begin + np.asarray(self.length, np.float64)


@dataclass(frozen=True, eq=False)
class Drawing:
    """The bars of all lanes. `span` is the length that the full width stands for, in `unit`s."""

    span: float
    bars: tuple[Bar, ...]
    unit: str


@dataclass(frozen=True, eq=False)
class Flows:
    """Messages between the cells of the mark that is named `between`."""

    name: str
    between: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Track(Sized):
    """The entire run as a strip, with a cursor."""

    name: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Flame(Rows):
    """Nested boxes above the time axis.

    Box i is in row `depth[i]`, and lasts from frame `first[i]` until frame `last[i]` begins. With
    `timed`, these two are modelled cycles since the first frame. The name of the box is
    `names[title[i]]`, and its code `code[i]`. `rows` are the texts beside the rows. `span` is as in
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
    """Lanes over the entire run, in which each frame has its drawing in its part of the width.

    A frame without a drawing in `Still.lanes` is left out. `span`, if it is not 0, is the number of
    cycles of the full width. `ends` is as in `Lanes`. `named`, if it is not 0, is how far the names
    of the steps are above the lanes; the heading is then above the names.
    """

    labels: tuple[str, ...] = ()
    span: float = 0
    ends: tuple[str, ...] = ()
    named: float = 0


@dataclass(frozen=True, eq=False)
class Series:
    """A value for each frame, in the colour of `code`.

    The area between `values` and `base` is filled. If `base` is None, a line is drawn.
    """

    name: str
    code: int
    values: Array
    base: Array | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(Box):
    """Values frame by frame, drawn as steps.

    `top` is the value at the full height. If `limit` is not 0, a line is drawn at that value. With
    `named`, frames have their labels below the curve, as far as there is room. A label begins with
    the number of the frame or, if `each` is not 0, with the cycle at which the frame begins; each
    frame is then `each` cycles long.
    """

    top: float
    unit: str
    series: tuple[Series, ...]
    limit: float = 0
    named: bool = False
    each: float = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Painted(Box):
    """Fixed shapes, whose coordinates are relative to the upper left corner of the mark.

    `Still.pictures` has the number of the picture that a still shows, 0 by default. `places`,
    float[count, 4], has (x, y, width, height) of each part that a reader can point at. `key`,
    `labels`, `say` and `values` are as in `Cells`. If a page changes the width of the mark, the
    shapes are stretched; texts keep their size, and marks beside the mark keep their distance.

    `switches` also choose a picture. Each has its key, its title, the effect of the key, and
    whether it is on at first. With k switches, each still has 2^k pictures. Picture 2^i of them is
    the one in which only switch i differs from its first state.
    """

    pictures: tuple[tuple[Shape, ...], ...]
    places: Array
    key: Array | None = None
    labels: tuple[str, ...] = ()
    say: str = ""
    values: Mapping[str, Array] = field(default_factory=dict)
    switches: tuple[tuple[str, str, str, bool], ...] = ()

    def shown(self, still: Still) -> tuple[Shape, ...]:
        """Return the picture that a still shows, with all switches in their first state."""
        return self.pictures[still.pictures.get(self.name, 0) * 2 ** len(self.switches)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tree(Rows):
    """Rows of a tree that can be folded.

    Row i is at level `depth[i]`, and a child of the nearest row above it with a lower level.
    `labels` are the names of the rows. `columns` are the headings of columns that are `column`
    wide, and `cells` the texts in them, row by row. Each row has a bar: `parts` has the length of
    its pieces from left to right by the number of their code, in thousandths of the longest bar.
    `open` (bool[count]) is whether a row shows its children at first.
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
        """Return the numbers of the rows that are visible at first."""
        visible_rows, hidden = [], 0  # if not 0, rows from this level on are hidden
        for row, (depth, is_open) in enumerate(
            zip(self.depth.tolist(), self.open.tolist(), strict=True)
        ):
            if hidden and depth >= hidden:
                continue
            visible_rows.append(row)
            hidden = 0 if is_open else depth + 1
        return visible_rows

    def has_children(self) -> Array:
        """Return bool[count]: whether each row has children."""
        is_parent: Array = np.append(self.depth[1:] > self.depth[:-1], False)
        return is_parent


@dataclass(frozen=True, eq=False, kw_only=True)
class Zoom(Box):
    """A machine in several sizes, with a frame for each size.

    A size is drawn as a square of equal parts, the first of which is the size before, and as pipes
    beside it. `names` and `counts` have the name and the number of parts of each size. `labels`,
    `figures` and `codes` have the label, the figure and the code of each pipe. `rates` has the rate
    of each pipe as text, size by size, and `Still.values` has it as a number, under "rate". `told`
    has a sentence for each size. `part` and `first` are the codes of a part, and of the first.
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
    """A matrix of `bins` x `bins` squares for `tiles` tiles: senders across, receivers down.

    `each` tiles share a row and a column. `Still.cells` has the codes of the squares. In the
    drawing in `Still.lanes`, the first bar shows the bytes that each column sends and is drawn
    above the columns; the second shows the bytes that each row receives and is drawn beside the
    rows. `ticks` are numbers of tiles at equal distances. On several IPUs they are numbers of IPUs;
    `ipu` rows belong to each IPU, and `link` is the code of messages between IPUs.
    """

    bins: int
    tiles: int
    each: int
    ticks: tuple[str, ...]
    ipu: int = 0
    link: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Aside(Sized):
    """A mark about the part that is chosen in the mark named `of`."""

    of: str


class Partners(Aside):
    """The chosen tile of a matrix, or else the busiest, amid those that it exchanges most with."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Board(Box):
    """Tiles as boxes, with `count` cells of numbers in them.

    - `across` boxes are next to each other, and each is `high` high. Box b is tile `tiles[b]`.
    - Cell i is in box `box[i]`, in its row `row[i]`, at place `place[i]`. A row has the elements of
      one tensor: at most `per[row]` of them, whose rims have the code `rims[row]`. `left`
      (int[boxes, rows]) is the number of elements that are not drawn.
    - Cell i is element `index[i]` of variable v = `named[i]`, which is called `names[v]` and has
      the shape `shapes[v]`. The index is that of the flattened variable.
    - The code of a value is `steps` plus the number of its row's `bounds` that are not above the
      value. An unwritten element has the code `unwritten`, and NaN has the code after that.
    - `focus` is the cell that is shown in detail if none is chosen.
    - `block` is the number of tiles of an IPU, or 0 if there is only one IPU. Each of several IPUs
      begins a new row of boxes, below its name.
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
        """Return the IPU of a box; -1 for the host, which is box -1, or if there is one IPU."""
        return self.tiles[box] // self.block if self.block and box >= 0 else -1

    def link(self, message: Message) -> bool:
        """Return whether a message is sent from one IPU to another."""
        ipus_of_ends = self.ipu(message.source), self.ipu(int(message.receivers[0]))
        return -1 not in ipus_of_ends and ipus_of_ends[0] != ipus_of_ends[1]

    def said(self, cell: int) -> str:
        """Return the name of the element in a cell, such as u[3, 4]."""
        return self.element(int(self.named[cell]), int(self.index[cell]))

    def element(self, name: int, index: int) -> str:
        """Return the name of element `index` (flat) of variable number `name`, such as u[3, 4]."""
        return element(self.names[name], self.shapes[name], index)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sheet(Aside):
    """The cells of a board as an image with `columns` columns.

    Cell i of the board is pixel `place[i]`; pixels are counted row by row.
    """

    columns: int
    place: Array


class Detail(Aside):
    """The cells of a board that are in the same box as the chosen cell, as a list of numbers."""


class Trail(Aside):
    """The number in the chosen cell of a board, over all frames."""


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
    """A message of `size` bytes from the cell `source` to the cells `receivers`.

    On a board, source and receivers are boxes, and -1 is the host. The message is shown from cycle
    `begin` to cycle `end` of its still. It contains `count` numbers, among them the numbers in
    `cells`: their values in the frame or, with `after`, at the end of the group of frames.
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
    """The texts in the cells of a mark, and their changes frame by frame.

    In the first frame, cell i contains `texts[first[i]]`. From frame `frame[k]` on, cell `cell[k]`
    contains `texts[value[k]]`; frames are in ascending order. A text is a number as Python writes
    it, True or False, or "?" for an unwritten element.
    """

    texts: tuple[str, ...]
    first: Array
    frame: Array
    cell: Array
    value: Array

    def at(self, frame: int) -> list[str]:
        """Return the text of each cell in frame `frame`."""
        text_numbers = self.first.copy()
        num_changes = int(np.searchsorted(self.frame, frame, "right"))
        text_numbers[self.cell[:num_changes]] = self.value[:num_changes]
        return [self.texts[text_number] for text_number in text_numbers.tolist()]


@dataclass(frozen=True, eq=False)
class Origins:
    """The origins of the values that are written into the cells `cell` of a board.

    `how` is a text that quotes {name}, {index} and {tile}, which have a value for each cell. With
    `element`, name and index are quoted together, as the name of an element.
    """

    how: str
    element: bool
    cell: Array
    name: Array
    index: Array
    tile: Array


@dataclass(frozen=True, eq=False)
class Still:
    """A set of all channels, which a frame shows for `cycles` modelled cycles.

    - `label` and `note` are texts, and `code` is the code of the frame on the track.
    - `first` is True if a group of frames begins here.
    - `source` is an index of the scene's `sources`, or -1.
    - `at` is the fraction of the still that is over where a step, or a picture, stops.
    - `say` is a text about one cell, which quotes arrays in `values`: "{i}" is the number of the
      cell, "{name}" its value, and "{-name}" the cycles that remain. `about` has (text, values)
      that replace these for a mark.

    The other fields have an entry for each mark, by its name:

    - `cells`: (code, end cycle, code afterwards), where the first two are numbers or arrays.
    - `lanes`: (number of the drawing, begin, end) of the part that appears during the frame.
    - `flows`: the messages.
    - `touches`: the cells of a board that are read, and those that are written.
    - `origins`: the origins of the values that are written.
    - `pictures`: the number of the picture of a painted mark.
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
    """A picture, as data.

    - `sentence` states in words what the picture shows, with the main numbers. `table` has all of
      them: (headings, rows).
    - `poster` is the frame that stands for the picture where it cannot move.
    - `notes` are sentences about what was left out or merged.
    - `group` is the noun for the frames from one whose still is `first` to before the next of them.
    - `sources` are texts of several lines that are shown below the picture.
    - `data` has further data for the scripts of a view, by name. "link" is the key that connects
      views of the same report. "window" is the first frame, and the frame after the last, of the
      part of the run that an axis of time shows.
    - `clock`, float[frames + 1], is None unless frames overlap in time. It has the cycle at which
      each frame begins, and the end of the run.
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
        """The cycle at which each frame begins, and the end of the last: float[frames + 1]."""
        cycles = np.array([still.cycles for still in self.stills])[self.frames]
        return np.append(0.0, np.cumsum(cycles)) if self.clock is None else self.clock

    @cached_property
    def columns(self) -> Array | None:
        """The edges of the columns of a long run's strip, in cycles: float[columns + 1].

        It is None unless a part of the run repeats itself. Then each repetition has the same
        number of columns, or each column the same number of repetitions.
        """
        first_frame, period, num_rounds = _rounds(self.frames)
        if not num_rounds:
            return None
        round_starts = [
            self.begins[first_frame + round_number * period]
            for round_number in range(num_rounds + 1)
        ]
        repetition_start = round_starts[0]
        repetition_end = round_starts[-1]
        run_cycles = self.begins[-1] or 1
        num_columns = max(1, round(MOST_COLUMNS * (repetition_end - repetition_start) / run_cycles))
        # A column holds several rounds, or a round has several columns: one of these numbers is 1.
        columns_per_round = max(1, num_columns // num_rounds)
        rounds_per_column = -(-num_rounds // num_columns)
        edge_starts = (
            [*round_starts[::rounds_per_column], repetition_end]
            if rounds_per_column > 1
            else round_starts
        )
        edges = [
            np.linspace(start, stop, columns_per_round + 1)[:-1]
            for start, stop in pairwise(edge_starts)
        ]
        for start, stop, position in (
            (0.0, repetition_start, 0),
            (repetition_end, self.begins[-1], len(edges) + 1),
        ):
            num_columns_outside = max(1, round(MOST_COLUMNS * (stop - start) / run_cycles))
            edges.insert(position, np.linspace(start, stop, num_columns_outside + 1)[:-1])
        all_edges: Array = np.unique(np.append(np.concatenate(edges), self.begins[-1]))
        return all_edges

    @cached_property
    def legend(self) -> list[int]:
        """The numbers of the codes in the legend: those that some part of the scene shows.

        Codes without a letter are left out, unless they are `listed`.
        """
        has_track = any(isinstance(mark, Track) for mark in self.marks)
        codes_shown = {still.code for still in self.stills if has_track}
        for still in self.stills:
            for code, _, second_code in still.cells.values():
                codes_shown |= {second_code, *np.unique(code).tolist()}
        for bar in (bar for drawing in self.drawings for bar in drawing.bars):
            code, length = np.broadcast_arrays(bar.code, bar.length)
            codes_shown |= {bar.rest, *np.unique(code[length > 0]).tolist()}
        for mark in self.marks:
            codes_shown |= (
                {series.code for series in mark.series} if isinstance(mark, Curve) else set()
            )
            codes_shown |= set(mark.code.tolist()) if isinstance(mark, Flame) else set()
            parts = mark.parts if isinstance(mark, Tree) else {}
            codes_shown |= {int(code) for code, part in parts.items() if part.any()}
            for picture in mark.pictures if isinstance(mark, Painted) else ():
                codes_shown |= colours_of(picture)[0]
            codes_shown |= {mark.part, mark.first, *mark.codes} if isinstance(mark, Zoom) else set()
            codes_shown |= {mark.link} if isinstance(mark, Matrix) else set()
            if isinstance(mark, Board):
                codes_shown |= {
                    *(mark.rims if len(mark.rims) > 1 else ()),
                    mark.unwritten,
                    *range(mark.steps, mark.steps + max(map(len, mark.bounds)) + 1),
                }
                has_nan = any(text == "nan" for text in self.numbers[mark.name].texts)
                codes_shown |= {mark.unwritten + 1} if has_nan else set()
        return [
            code_number
            for code_number, code in enumerate(self.codes)
            if code_number in codes_shown and (code.letter or code.listed)
        ]

    def json(self) -> str:
        """Return the scene for the player: a line of ASCII that is safe inside a script element."""
        shapes = Once()
        data: dict[str, Any] = {
            "v": VERSION,
            "view": self.view,
            "title": self.title,
            "size": [WIDTH, self.height],
            "codes": [
                [code.name, code.letter, code.light, code.dark, code.pattern] for code in self.codes
            ],
            "marks": [_mark(m, shapes) for m in self.marks],
            "drawings": [_drawing(drawing) for drawing in self.drawings],
            "stills": [_still(still) for still in self.stills],
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
        has_track = any(isinstance(mark, Track) for mark in self.marks)
        if has_track and len(self.frames) > FEW_FRAMES and (edges := self.columns) is not None:
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
        """Return the mark named `name`."""
        return next(m for m in self.marks if m.name == name)


def _rounds(frames: Array) -> tuple[int, int, int]:
    """Return (first frame, frames of a round, number of rounds) of the longest repetition in a run.

    The number of rounds is 0 if no part of the run repeats itself.
    """
    longest = (0, 0, 0)
    if not len(frames):
        return longest
    same_frames = np.flatnonzero(frames == frames[len(frames) // 2])[:MOST_PERIODS]
    frames_covered = 0
    for period in (int(later_frame - same_frames[0]) for later_frame in same_frames[1:]):
        repeats = np.append(frames[:-period] == frames[period:], False)
        changes = np.flatnonzero(np.diff(repeats, prepend=False))
        for first_frame, end_frame in changes[: len(changes) // 2 * 2].reshape(-1, 2).tolist():
            rounds = (end_frame - first_frame) // period + 1
            if rounds > 1 and rounds * period > frames_covered:
                longest = (first_frame, period, rounds)
                frames_covered = rounds * period
    return longest


# the name of several copies in one step, after its kind
COPIES = re.compile(r"(?:\bCopy )?\b([\d,]+) copies: (.*), …$")


def label(text: object, longest: int = LONGEST_LABEL) -> str:
    """Return a name as a picture shows it: on a line, at most `longest` characters, all visible."""
    line = " ".join(
        "".join(character if character.isprintable() else " " for character in str(text)).split()
    )
    line = COPIES.sub(r"\1 copies, the first \2", line)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def element(name: str, shape: tuple[int, ...], index: int) -> str:
    """Return the name of element `index` (flat) of variable `name`, such as u[3, 4]."""
    return f"{name}[{', '.join(map(str, np.unravel_index(index, shape)))}]" if shape else name


def means(values: Array, count: int) -> Array:
    """Return int64[…, count]: the means of `count` equal parts of `values` along the last axis.

    A value on the border of two parts contributes its share to each. Rounding keeps the sum: the
    sum of all parts is off by less than one.
    """
    part_length = values.shape[-1] / count
    sums_below = np.cumsum(np.insert(values, 0, 0, axis=-1), axis=-1)
    bounds = np.arange(count + 1) * part_length
    value_index = np.minimum(bounds.astype(np.int64), values.shape[-1] - 1)
    sums_at_bounds = sums_below[..., value_index] + values[..., value_index] * (
        bounds - value_index
    )
    rounded_means: Array = np.diff(np.round(sums_at_bounds / part_length), axis=-1).astype(np.int64)
    return rounded_means


def quantiles(values: Array, count: int) -> Array:
    """Return int64[…, count]: the means of `count` equal parts of `values`, sorted descending."""
    return means(np.sort(values)[..., ::-1], count)


def number(value: float) -> str:
    """Return a number of cycles as text, with one digit after the point unless it is an integer."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def _numbers(value: float | Array) -> Any:
    if isinstance(value, np.ndarray):
        return pack(value)
    return int(value) if float(value).is_integer() else value


def _mark(mark: Mark, shapes: Once) -> dict[str, Any]:
    """Return the fields of a mark for the player, without empty ones."""
    fields_of_mark: dict[str, Any] = {"kind": type(mark).__name__.lower()}
    for name, value in vars(mark).items():
        if isinstance(mark, Painted) and name in ("pictures", "places"):
            fields_of_mark[name] = (
                [shapes.picture(picture) for picture in value]
                if name == "pictures"
                else [pack(tenths(column)) for column in value.T]
            )
        elif isinstance(value, np.ndarray):
            fields_of_mark[name] = pack(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Series):
            fields_of_mark[name] = [
                [
                    series.name,
                    series.code,
                    pack(series.values),
                    *([] if series.base is None else [pack(series.base)]),
                ]
                for series in value
            ]
        elif isinstance(value, Mapping):
            fields_of_mark |= (
                {name: {key: pack(column) for key, column in value.items()}} if value else {}
            )
        elif value not in (None, (), "") and value is not False:
            fields_of_mark[name] = _numbers(round(value, 3)) if isinstance(value, float) else value
    if isinstance(mark, Painted) and (overlap := beside(mark.pictures)):
        fields_of_mark["left"] = overlap
    return fields_of_mark


def _drawing(drawing: Drawing) -> list[Any]:
    bars = []
    for bar in drawing.bars:
        fields_of_bar = [_numbers(bar.code), _numbers(bar.start), _numbers(bar.length)]
        if bar.rest >= 0 or bar.end:  # without these two, the player draws no second bar
            fields_of_bar += [_numbers(bar.end), bar.rest]
        bars.append(fields_of_bar)
    return [_numbers(drawing.span), drawing.unit, bars]


def _still(still: Still) -> dict[str, Any]:
    data: dict[str, Any] = {
        "label": still.label,
        "code": still.code,
        "cycles": _numbers(still.cycles),
    }
    messages = {"note": still.note, "first": int(still.first), "say": still.say}
    data |= {name: array for name, array in messages.items() if array}
    if still.source >= 0:
        data["source"] = still.source
    if still.at != 1:
        data["at"] = round(still.at, 4)
    values = {name: pack(array) for name, array in still.values.items()}
    # The end cycles of the first mark's cells are in `cells`, so they are left out of `values`.
    busy = next((_numbers(until) for _, until, _ in still.cells.values()), None)
    busy = busy if isinstance(busy, str) else None
    channels: dict[str, Mapping[str, Any]] = {
        "cells": {
            name: [_numbers(code), _numbers(until), then]
            for name, (code, until, then) in still.cells.items()
        },
        "lanes": {
            name: [drawing_number, _numbers(appears_from), _numbers(appears_to)]
            for name, (drawing_number, appears_from, appears_to) in still.lanes.items()
        },
        "flows": {name: _messages(ms) for name, ms in still.flows.items()},
        "values": {name: array for name, array in values.items() if array != busy},
        "pictures": still.pictures,
        "about": {
            name: [say, {drawing_number: pack(array) for drawing_number, array in values.items()}]
            for name, (say, values) in still.about.items()
        },
        "touches": {
            name: [_listed(messages) for messages in read_and_written]
            for name, read_and_written in still.touches.items()
        },
        "origins": {
            name: [
                [
                    o.how,
                    int(o.element),
                    len(o.cell),
                    *(pack(array) for array in (o.cell, o.name, o.index, o.tile)),
                ]
                for o in messages
            ]
            for name, messages in still.origins.items()
        },
    }
    return data | {name: array for name, array in channels.items() if array}


def _told_once(stills: list[dict[str, Any]]) -> list[str]:
    """Return the texts that several stills share, and replace them in the stills by numbers."""
    count_by_text = Counter(still[key] for still in stills for key in WORDS if still.get(key))
    shared = [text for text, count in count_by_text.items() if count > 1 and len(text) > SHORT]
    numbers = {text: number for number, text in enumerate(shared)}
    for still in stills:
        still |= {key: numbers[still[key]] for key in WORDS if still.get(key) in numbers}
    return shared


def _texts(cell_texts: CellTexts) -> list[Any]:
    """Return the texts in cells for the player: [texts, first texts, number of changes, changes].

    The texts are [number of integers, the integers, the ending of their texts, other texts]. The
    first texts are the number of each cell's text in the first frame. The changes are three
    columns: frames, cells, and numbers of texts.
    """
    ending = ".0" if any(text.endswith(".0") for text in cell_texts.texts) else ""
    whole_numbers = [
        text
        for text in cell_texts.texts
        if WHOLE.fullmatch(text.removesuffix(ending)) and text.endswith(ending)
    ]
    texts = dict.fromkeys((*whole_numbers, *cell_texts.texts))
    number = {text: number for number, text in enumerate(texts)}
    number_of_text = np.array([number[text] for text in cell_texts.texts], np.int64)
    whole_values = np.array([int(text.removesuffix(ending)) for text in whole_numbers], np.int64)
    text_list = [len(whole_numbers), pack(whole_values), ending, *[*texts][len(whole_numbers) :]]
    changes = cell_texts.frame, cell_texts.cell, number_of_text[cell_texts.value]
    return [
        text_list,
        pack(number_of_text[cell_texts.first]),
        len(cell_texts.cell),
        *map(pack, changes),
    ]


def _messages(items: Sequence[Message]) -> list[Any]:
    """Return the messages for the player: their number, followed by columns.

    The columns are the numbers of receivers, the receivers of all messages, the numbers of cells,
    the cells of all messages, and then source, size, begin, end, after and count.
    """
    cells_of_messages = [
        np.zeros(0, np.int64) if message.cells is None else message.cells for message in items
    ]
    lists = ([message.receivers for message in items], cells_of_messages)
    lengths_and_values = (
        (np.array(list(map(len, lists_of_messages))), np.concatenate(lists_of_messages))
        for lists_of_messages in lists
    )
    packed = (pack(array) for pair in lengths_and_values for array in pair)
    columns = [
        (message.source, message.size, message.begin, message.end, message.after, message.count)
        for message in items
    ]
    return [len(items), *packed, *map(pack, np.array(columns, np.int64).T)]


def _listed(items: Array) -> Any:
    """Return a single number as it is, and any other amount as [number of items, packed items]."""
    return int(items[0]) if len(items) == 1 else [len(items), pack(items)]
