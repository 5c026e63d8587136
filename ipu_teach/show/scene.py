"""The content of a picture before it is drawn: the class `Scene` and the classes of its parts.

Three renderers draw a `Scene`: `svg` (posters and other single frames), `mpl` (png, gif and pdf for
slides) and `static/player.js` (live, in the notebook). A view can extend the player in
`static/<view>.js`, with further drawings and keyboard commands.

These words are used in this module:

- A mark is a graphical element with a fixed position, such as a grid of cells or a curve.
- A code is a colour with a name, a letter and a pattern. Other objects contain its index in
  `Scene.codes`.
- A still is the state of everything that changes during the run: the codes of cells, the bars of
  lanes, the messages, and the texts.
- A frame is a moment of the run. A frame only contains the index of its still, so a still that
  occurs repeatedly is stored only once.

The recorded values of a run change even between frames that show the same still. They are therefore
stored in `CellTexts`: the texts in the first frame, and the changes in each later frame. The player
caches all texts of every 32nd frame. An `Aside` is a mark that shows details of the item that the
reader chose in another mark.

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

from ipu_teach.show.measures import GAP, SMALLEST_LABEL
from ipu_teach.show.pack import pack
from ipu_teach.show.painted import Once, beside, tenths
from ipu_teach.show.palette import Code
from ipu_teach.show.shapes import Shape, colours_of
from ipu_teach.types import Array

WIDTH = 720
VERSION = 1
LONGEST_LABEL = 80  # The maximum number of characters in a label.
MOST_COLUMNS = 172  # The approximate number of columns in the strip of a long run.
MOST_PERIODS = 64  # The maximum number of periods that are tried for a run.
# The names of the fields of a still that are texts.
WORDS = ("label", "note", "say")
SHORT = 8  # Texts with at most this many characters are never replaced by an index.
FEW_FRAMES = 16  # The strip of a run with at most this many frames is never divided into columns.
WHOLE = re.compile(r"0|-?[1-9]\d{0,14}")

# (headings, rows)
Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]


@dataclass(frozen=True, eq=False)
class Placed:
    """A mark with a heading. Its upper left corner is at (x, y), which `Panels.put` sets."""

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
        """The x coordinate of the right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y coordinate of the lower edge."""
        return self.y + self.height


@dataclass(frozen=True, eq=False, kw_only=True)
class Box(Sized):
    """A rectangular mark that contains `count` items."""

    count: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows(Placed):
    """A mark that consists of rows of height `pitch`, with `count` items in them.

    `depth` (int[count]) is the row of each item or, in a tree, its level.
    """

    width: float = 0.0
    pitch: float
    count: int
    depth: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells(Placed):
    """Equal squares in rows of `columns` cells, grouped into blocks.

    - `side` is the side length of a cell. A block has `block` cells, and `across` blocks are next
      to each other. The gap between blocks is as wide as `gap` cells. `names` has the text above
      each block.
    - `key` has an integer for each cell. Cells and lanes with the same key are highlighted
      together.
    - `same` has another integer for each cell. If a reader points at a cell, cells with the same
      integer in other marks are highlighted too. Such cells may show the same element in another
      view of a tensor.
    - `labels` has a text for each cell, which is drawn if there is room.
    - If `say` and `values` are not empty, they replace `Still.say` and `Still.values` for these
      cells.
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
        """Return `(x, y)`, the upper left corners of the cells with indices `numbers`."""
        block = numbers // self.block
        cell_in_block = numbers % self.block
        rows_in_block = -(-self.block // self.columns)
        x = cell_in_block % self.columns + block % self.across * (self.columns + self.gap)
        y = cell_in_block // self.columns + block // self.across * (rows_in_block + self.gap)
        return self.x + x * self.side, self.y + y * self.side


@dataclass(frozen=True, eq=False, kw_only=True)
class Lanes(Box):
    """Horizontal lanes below each other, with bars in them.

    - `key` has an integer for each lane. Cells and lanes with the same key are highlighted
      together.
    - `labels` has a text for each lane, which is drawn if there is room.
    - If `say` and `values` are not empty, they replace `Still.say` and `Still.values` for these
      lanes.
    - If `whole` is True, all bars are visible from the first frame on, and only the cursor moves.
    - `ends` has (text, fraction) pairs. Each text is drawn to the left of the lanes, at that
      fraction of their height.
    - If `limit` is not 0, a vertical line is drawn at that length.
    - `axis` is the length that the full width represents. If it is 0, that length is
      `Drawing.span`.
    """

    key: Array | None = None
    labels: tuple[str, ...] = ()
    say: str = ""
    values: Mapping[str, Array] = field(default_factory=dict)
    whole: bool = False
    ends: tuple[tuple[str, float], ...] = ()
    limit: float = 0
    axis: float = 0


@dataclass(frozen=True, eq=False)
class Bar:
    """A bar in each lane of a mark, each of which may be followed by a second bar.

    The first bar begins at `start` and is `length` long. The second bar begins where the first bar
    ends, and ends at `end`. `code` and `rest` are the codes of the two bars: indices in
    `Scene.codes`. If `rest` is -1, there is no second bar. The strip of a run shows the time from
    `start` to `end`.

    A field is either one number for all lanes or an array with a value for each lane. Positions and
    lengths are in `Drawing.unit`.
    """

    code: int | Array
    start: float | Array
    length: float | Array
    end: float
    rest: int = -1

    def of(self, count: int) -> tuple[Array, Array, Array]:
        """Return `(code, begin, end)` of the first bar: arrays with an entry for each lane.

        `count` is the number of lanes.
        """
        code = np.broadcast_to(np.asarray(self.code), count)
        begin = np.broadcast_to(np.asarray(self.start, np.float64), count)
        return code, begin, begin + np.asarray(self.length, np.float64)


@dataclass(frozen=True, eq=False)
class Drawing:
    """The bars of all lanes of a mark.

    The full width of the mark represents the length `span`, in `unit`, such as "bytes".
    """

    span: float
    bars: tuple[Bar, ...]
    unit: str


@dataclass(frozen=True, eq=False)
class Flows:
    """The messages between the cells of the mark whose name is `between`."""

    name: str
    between: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Track(Sized):
    """A strip that shows the entire run, with a cursor."""

    name: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Flame(Rows):
    """Nested boxes above the time axis.

    Box i is in row `depth[i]`. It begins at the start of frame `first[i]` and ends at the start of
    frame `last[i]`. If `timed` is True, `first` and `last` are instead modelled cycles since the
    first frame. The name of box i is `names[title[i]]`, and its code is `code[i]`, an index in
    `Scene.codes`. `rows` has the text to the left of each row. If `span` is not 0, it is the number
    of cycles that the full width represents.
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
    """Lanes over the entire run: each frame has its drawing in its part of the width.

    A frame is left out if `Still.lanes` has no drawing for this mark. If `span` is not 0, it is the
    number of cycles that the full width represents. `ends` has (text, fraction) pairs: each text is
    drawn to the left of the lanes, at that fraction of their height. If `named` is not 0, the names
    of the steps are `named` units above the lanes, and the heading is above the names.
    """

    labels: tuple[str, ...] = ()
    span: float = 0
    ends: tuple[tuple[str, float], ...] = ()
    named: float = 0


@dataclass(frozen=True, eq=False)
class Series:
    """One curve of a `Curve` mark, with a value for each frame.

    `code` is the index of the curve's colour in `Scene.codes`. The area between `values` and `base`
    is filled. If `base` is None, a line through `values` is drawn instead.
    """

    name: str
    code: int
    values: Array
    base: Array | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(Box):
    """A curve or several curves with a value for each frame, drawn as steps.

    - `top` is the value at the full height. If `limit` is not 0, a horizontal line is drawn at that
      value.
    - If `named` is True, the labels of the frames are below the curve where there is room. A label
      begins with the position of the frame, counted from 1.
    - If `each` is not 0, each frame lasts `each` cycles, and its label begins with the first of
      these cycles.
    """

    top: float
    unit: str
    series: tuple[Series, ...]
    limit: float = 0
    named: bool = False
    each: float = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Painted(Box):
    """A mark that consists of fixed shapes; coordinates are relative to its upper left corner.

    - `pictures` has the shapes of each picture. `Still.pictures` has the index of the picture that
      a still shows, by default 0.
    - `places`, float[count, 4], is (x, y, width, height) of each area that a reader can point at.
    - `key` has an integer for each area. Areas, cells and lanes with the same key are highlighted
      together.
    - `labels` has a text for each area. If `say` and `values` are not empty, they replace
      `Still.say` and `Still.values` for these areas.
    - `switches` let the reader choose between pictures with keys of the keyboard. A switch is (key,
      title, effect of the key, whether it is on at first). With k switches, each still has 2^k
      pictures: in picture 2^i of a still, only switch i differs from its initial state.

    If a page changes the width of the mark, the shapes are stretched, but texts keep their size,
    and the distances between marks do not change.
    """

    pictures: tuple[tuple[Shape, ...], ...]
    places: Array
    key: Array | None = None
    labels: tuple[str, ...] = ()
    say: str = ""
    values: Mapping[str, Array] = field(default_factory=dict)
    switches: tuple[tuple[str, str, str, bool], ...] = ()

    def shown(self, still: Still) -> tuple[Shape, ...]:
        """Return the shapes that a still shows while all switches are in their initial state."""
        return self.pictures[still.pictures.get(self.name, 0) * 2 ** len(self.switches)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tree(Rows):
    """The rows of a tree whose branches can be folded.

    - Row i is at level `depth[i]`. Its parent is the nearest row above it with a lower level.
    - `labels` has the name of each row, and `open` (bool[count]) whether its children are visible
      at first.
    - `columns` has the headings of the columns, each of which is `column` units wide. `cells` has
      the texts in the columns, row by row.
    - Each row has a bar that consists of coloured pieces. `parts` maps a code (an index in
      `Scene.codes`) to int[count]: the length of the piece with that code in each row, in
      thousandths of the longest bar.
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
        """Return the indices of the rows that are visible at first.

        They are the rows whose ancestors are all open.
        """
        # Below a folded row, rows with a level of at least `hidden` are invisible. 0 hides nothing.
        visible_rows, hidden = [], 0
        for row, (depth, is_open) in enumerate(
            zip(self.depth.tolist(), self.open.tolist(), strict=True)
        ):
            if hidden and depth >= hidden:
                continue
            visible_rows.append(row)
            hidden = 0 if is_open else depth + 1
        return visible_rows

    def has_children(self) -> Array:
        """Return bool[count]: whether each row of the tree has children."""
        is_parent: Array = np.append(self.depth[1:] > self.depth[:-1], False)
        return is_parent


@dataclass(frozen=True, eq=False, kw_only=True)
class Zoom(Box):
    """A machine in several sizes, with a frame for each size.

    A size, such as an IPU, is drawn as a square that consists of equal parts. The first of these
    parts shows the next smaller size. Next to the square are pipes. A pipe stands for a kind of
    connection, such as the links between IPUs, and its width is proportional to the bandwidth.

    - `names` has the name of each size, and `counts` the number of its parts.
    - `labels` has the name of each pipe, and `codes` the index of its colour in `Scene.codes`.
      `figures` has a text for each pipe: the bandwidth of one tile, link or IPU, and the source of
      this number.
    - `rates` has the bandwidth of each pipe as text, size by size. `Still.values["rate"]` has the
      bandwidth as a number.
    - `told` has a sentence for each pipe, size by size.
    - `first` is the code of the first part, and `part` is the code of the other parts.
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
    """A matrix of squares for `tiles` tiles, whose columns are senders and rows are receivers.

    The matrix has `bins` x `bins` squares. Each row, and each column, stands for `each`
    neighbouring tiles. `Still.cells` has the codes of the squares. `Still.lanes` has a drawing with
    two bars. The first bar is drawn above each column and shows the bytes that the column sends.
    The second bar is drawn next to each row and shows the bytes that the row receives.

    `ticks` are tile numbers at equal distances, or IPU numbers if there are several IPUs. Each IPU
    has `ipu` rows. `link` is the code of messages between IPUs.
    """

    bins: int
    tiles: int
    each: int
    ticks: tuple[str, ...]
    ipu: int = 0
    link: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Aside(Sized):
    """A mark with details of the item that the reader chose in the mark whose name is `of`."""

    of: str


class Partners(Aside):
    """A mark that shows one tile of a matrix, surrounded by its main communication partners.

    The tile in the middle is the one that the reader chose or, by default, the one that exchanges
    the most bytes.
    """


@dataclass(frozen=True, eq=False, kw_only=True)
class Board(Box):
    """Tiles as boxes with cells in them; each of the `count` cells shows one number.

    - `across` boxes are next to each other, and each is `high` high. Box b is tile `tiles[b]`.
    - Cell i is in box `box[i]`, in row `row[i]` of that box, at position `place[i]` of the row. A
      row contains at most `per[row]` elements of one tensor, whose borders have the code
      `rims[row]`. `left` (int[boxes, rows]) is the number of elements of each row that are not
      drawn.
    - Cell i shows an element of variable v = `named[i]`. The variable has the name `names[v]` and
      the shape `shapes[v]`, and the element has the index `index[i]` in the flattened variable.
    - `bounds[row]` are the values that separate the colours of a row. The code of a value is
      `steps` plus the number of bounds that are less than or equal to the value. An unwritten
      element has the code `unwritten`, and NaN has the code `unwritten + 1`.
    - `focus` is the cell whose details are shown while no cell is chosen.
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
        """Return the index of the IPU of a box, or -1 if there is only one IPU.

        The result is also -1 for box -1, which is the host.
        """
        return self.tiles[box] // self.block if self.block and box >= 0 else -1

    def link(self, message: Message) -> bool:
        """Return whether a message is sent from one IPU to another."""
        ipus_of_ends = self.ipu(message.source), self.ipu(int(message.receivers[0]))
        return -1 not in ipus_of_ends and ipus_of_ends[0] != ipus_of_ends[1]

    def said(self, cell: int) -> str:
        """Return the name of the element in a cell, such as u[3, 4]."""
        return self.element(int(self.named[cell]), int(self.index[cell]))

    def element(self, name: int, index: int) -> str:
        """Return the name of an element, such as u[3, 4].

        `name` is the index of the variable in `names`, and `index` is the flat index of the
        element.
        """
        return element(self.names[name], self.shapes[name], index)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sheet(Aside):
    """The cells of a board as the pixels of an image with `columns` columns.

    Cell i of the board is pixel `place[i]`. Pixels are counted row by row.
    """

    columns: int
    place: Array


class Detail(Aside):
    """A mark that lists the values in the box of the chosen cell of a board."""


class Trail(Aside):
    """A mark that shows the history of the chosen cell of a board: its value in each frame."""


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

    On a `Board`, `source` and `receivers` are the indices of boxes, and -1 is the host. The message
    is visible from cycle `begin` to cycle `end` of its still. It carries `count` values, some of
    which are in the cells `cells` of the board. The message shows the values that these cells have
    in the current frame or, if `after` is True, at the end of the group of frames, such as a
    superstep.
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
    contains `texts[value[k]]`. `frame` is sorted in ascending order. A text is a number as Python
    prints it, "True" or "False", or "?" for an unwritten element.
    """

    texts: tuple[str, ...]
    first: Array
    frame: Array
    cell: Array
    value: Array

    def at(self, frame: int) -> list[str]:
        """Return the text of each cell in the frame with index `frame`."""
        text_numbers = self.first.copy()
        num_changes = int(np.searchsorted(self.frame, frame, "right"))
        text_numbers[self.cell[:num_changes]] = self.value[:num_changes]
        return [self.texts[text_number] for text_number in text_numbers.tolist()]


@dataclass(frozen=True, eq=False)
class Origins:
    """The sources of the values that are written into the cells `cell` of a board.

    `how` is a text with the placeholders {name}, {index} and {tile}. The arrays `name`, `index` and
    `tile` have the values of the placeholders, cell by cell; `name` contains indices of names. If
    `element` is True, the text shows the name and the index together, such as u[3, 4].
    """

    how: str
    element: bool
    cell: Array
    name: Array
    index: Array
    tile: Array


@dataclass(frozen=True, eq=False)
class Still:
    """The state of all marks, which a frame shows for `cycles` modelled cycles.

    - `label` and `note` are texts. `code` is the index in `Scene.codes` of the colour of the frame
      in the strip of the run.
    - `first` is whether a group of frames, such as a superstep, begins with this still.
    - `source` is an index into `Scene.sources`, or -1.
    - `at` is the fraction of the still's cycles at which stepping stops, and which a picture shows.
    - `say` is a text about one cell with placeholders: "{i}" is the index of the cell, "{name}" is
      its value in `values[name]`, and "{-name}" is `cycles` minus that value. `about` maps the name
      of a mark to (text, values) that replace `say` and `values` for that mark.

    The other fields are dicts that map the name of a mark to its part of the state:

    - `cells`: (first code, end cycle, second code). A cell has the first code until the end cycle,
      and then the second code. The first code and the end cycle are numbers for all cells, or
      arrays.
    - `lanes`: (index of the drawing, begin, end) of the part that appears during the frame.
    - `flows`: the messages.
    - `touches`: (cells of a board that are read, cells that are written).
    - `origins`: the sources of the values that are written.
    - `pictures`: the index of the picture of a `Painted` mark.
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

    - `sentence` states what the picture shows, with the main numbers. `table` is (headings, rows)
      with all numbers.
    - `frames` has the index of the still of each frame. `poster` is the frame that is shown where
      the picture cannot move.
    - `notes` are sentences about what was left out or merged.
    - `group` is the noun for a group of consecutive frames, such as "superstep". A group begins
      with each frame whose `Still.first` is True.
    - `sources` are texts of several lines that are shown below the picture.
    - `data` contains further data for the scripts of a view, by name. The entry "link" connects
      views of the same report. The entry "window" is (first frame, frame after the last) of the
      part of the run that a time axis shows.
    - `clock`, float[frames + 1], has the cycle at which each frame begins, and the end of the run.
      It is None unless frames overlap in time.
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
        """float[frames + 1]: the cycle at which each frame begins, and the end of the last one."""
        cycles = np.array([still.cycles for still in self.stills])[self.frames]
        return np.append(0.0, np.cumsum(cycles)) if self.clock is None else self.clock

    @cached_property
    def columns(self) -> Array | None:
        """The edges of the columns of a long run's strip, in cycles: float[columns + 1].

        None if `_rounds` finds no repetition in the frames. If there are few repetitions, each is
        divided into the same number of columns. If there are many, each column contains the same
        number of repetitions, except that the last column may contain fewer.
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
        # At least one of these two numbers is 1, because either a round has several columns, or a
        # column contains several rounds.
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
    def lettered(self) -> set[int]:
        """The indices of the codes that occur in cells with room for a letter, in any still."""
        names = {
            mark.name
            for mark in self.marks
            if isinstance(mark, Board) or (isinstance(mark, Cells) and mark.side >= SMALLEST_LABEL)
        }
        codes: set[int] = set()
        for still in self.stills:
            for name in names & still.cells.keys():
                first, _, then = still.cells[name]
                codes.update(np.unique(np.append(first, then)).tolist())
        return codes

    @cached_property
    def legend(self) -> list[int]:
        """The indices of the codes in the legend: all codes that a mark, a bar or a still shows.

        A code without a letter is left out, unless its field `listed` is True.
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
        """Return the scene as JSON for the player: one ASCII line, safe in a `<script>` element."""
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
        """Return the mark with the name `name`."""
        return next(m for m in self.marks if m.name == name)


def _rounds(frames: Array) -> tuple[int, int, int]:
    """Return `(first frame, frames per repetition, repetitions)` of the main repeated sequence.

    The main one is the sequence whose repetitions cover the most frames. The only periods that are
    tried are distances from the first frame with the middle frame's still to later such frames, at
    most `MOST_PERIODS` of them. All three numbers are 0 if none of these periods repeats.
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


# This matches the name of a step with several copies.
COPIES = re.compile(r"(?:\bCopy )?\b([\d,]+) copies: (.*), …$")


def label(text: object, longest: int = LONGEST_LABEL) -> str:
    """Return a text without unprintable characters, in one line of at most `longest` characters.

    The name of a step with several copies becomes shorter: "3 copies: a, …" becomes "3 copies, the
    first a".
    """
    line = " ".join(
        "".join(character if character.isprintable() else " " for character in str(text)).split()
    )
    line = COPIES.sub(r"\1 copies, the first \2", line)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def element(name: str, shape: tuple[int, ...], index: int) -> str:
    """Return the name of an element of a variable, such as u[3, 4]; for a scalar, only its name.

    `name` and `shape` are those of the variable, and `index` is the flat index of the element.
    """
    return f"{name}[{', '.join(map(str, np.unravel_index(index, shape)))}]" if shape else name


def means(values: Array, count: int) -> Array:
    """Divide the last axis of `values` into `count` equal parts, and return their means.

    The result is int64[…, count]. A value on the border of two parts contributes to both in
    proportion. The means are rounded so that their cumulative sum is off by at most one half.
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
    """Sort `values` in descending order, and return the `means` of `count` equal groups."""
    return means(np.sort(values)[..., ::-1], count)


def number(value: float) -> str:
    """Return a number as text, such as "1,234" or "0.5".

    It has thousands separators, and one decimal place unless it is an integer.
    """
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def _numbers(value: float | Array) -> Any:
    if isinstance(value, np.ndarray):
        return pack(value)
    return int(value) if float(value).is_integer() else value


def _mark(mark: Mark, shapes: Once) -> dict[str, Any]:
    """Return the fields of a mark that are not empty, as the player in the browser reads them."""
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
        # The player draws a second bar only if the end and the code of that bar are present.
        if bar.rest >= 0 or bar.end:
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
    # `cells` already has the cycles at which the first mark's cells end, so `values` omits them.
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
    """Return the texts that occur in several stills, and replace them in `stills` with indices.

    Texts of at most `SHORT` characters stay in the stills.
    """
    count_by_text = Counter(still[key] for still in stills for key in WORDS if still.get(key))
    shared = [text for text, count in count_by_text.items() if count > 1 and len(text) > SHORT]
    numbers = {text: number for number, text in enumerate(shared)}
    for still in stills:
        still |= {key: numbers[still[key]] for key in WORDS if still.get(key) in numbers}
    return shared


def _texts(cell_texts: CellTexts) -> list[Any]:
    """Return the texts in cells as the player in the browser reads them.

    The result is [texts, first texts, number of changes, frames, cells, new texts].

    - `texts` is [number of integers, the integers, a suffix that follows each integer, other
      texts].
    - `first texts` has the index of each cell's text in the first frame.
    - The last three entries are columns: for each change, its frame, its cell, and the index of the
      new text.
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
    """Return messages as the player in the browser reads them: their number, followed by columns.

    These columns are: the number of receivers of each message, the receivers of all messages, the
    number of cells of each message, and the cells of all messages. They are followed by a column
    for each of the fields `source`, `size`, `begin`, `end`, `after` and `count`.
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
    """Return an array as the player in the browser reads it.

    An array of one item becomes this item, and any other becomes [number of items, packed items].
    """
    return int(items[0]) if len(items) == 1 else [len(items), pack(items)]
