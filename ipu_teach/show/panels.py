"""Place the marks of a picture, such as lanes and cells, below each other.

For example:

    panels = Panels()
    panels.put(Lanes("lanes", "the tiles", count=13), left=64, high=200, drawing=drawing)
    panels.below()
    panels.put(Track(), high=22)
    return panels.scene("mine", title, sentence, foot=24, codes=CODES, stills=stills, table=table)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.errors import counted
from ipu_teach.show.measures import GAP
from ipu_teach.show.scene import (
    Bar,
    Cells,
    Drawing,
    Flame,
    Lanes,
    Mark,
    Painted,
    Placed,
    Rows,
    Scene,
    Still,
    Tree,
    label,
)
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Words, rectangles
from ipu_teach.target import Target
from ipu_teach.types import Array

LEFT = 16.0  # The left edge of panels.
RIGHT = 704.0  # The right edge of panels.
SMALLEST_ROW = 10.0  # The height up to which a row of boxes has no labels in its boxes.
TOP = 34.0  # The top of the first panel, with room for its heading above it.
ENDS = (("slowest", 0.0), ("fastest", 1.0))  # Labels beside sorted lanes.
# The minimum width of an IPU whose number is written above it, and the height of that number.
BROAD, NAMED = 52.0, 14.0

# A cell is (row, column, code, texts, description). The cell shows the first of its texts that
# fits.
Cell = tuple[int, int, int, tuple[str, ...], str]


Piece = tuple[int, int, int]  # (code, start, length) of one bar of a lane


class Panels:
    """The marks of a picture, which are placed one below the other.

    A mark is an element of the picture, such as lanes or a grid of cells. `y` is the y coordinate
    of the next mark. `lanes` can be used as `Still.lanes` for a still that shows all bars of all
    marks. `notes` are sentences about what the picture leaves out.
    """

    def __init__(self) -> None:
        self.y = self.bottom = TOP
        self.marks: list[Mark] = []
        self.drawings: list[Drawing] = []
        self.lanes: dict[str, tuple[int, float, float]] = {}
        self.notes: list[str] = []

    def put(
        self,
        mark: Placed,
        left: float = LEFT,
        right: float = RIGHT,
        *,
        high: float = 0,
        down: float = 0,
        drawing: Drawing | None = None,
    ) -> None:
        """Place a mark between the x coordinates `left` and `right`.

        Its upper edge is `down` units below the current `y`, and its height is `high`. But `Cells`
        and `Painted` keep their own width and height, and `Rows` keep their own height. `drawing`
        contains the bars of the mark.
        """
        y = self.y + down
        place_fields: dict[str, Any] = {"x": left, "y": y}
        if not isinstance(mark, Cells | Painted):
            place_fields["width"] = right - left
        if isinstance(mark, Cells | Rows | Painted):
            high = tall(mark)
        else:
            place_fields["height"] = high
        if drawing is not None:
            self.lanes[mark.name] = len(self.drawings), 0, drawing.span
            self.drawings.append(drawing)
        self.marks.append(replace(mark, **place_fields))  # type: ignore[arg-type]  # every kind of mark is one of these
        self.bottom = max(self.bottom, y + high)

    def lanes_of(
        self,
        name: str,
        heading: str,
        rows: Mapping[str, Sequence[Piece]],
        span: int,
        unit: str,
        *,
        left: float,
        pitch: float,
        say: str,
        without: int = -1,
    ) -> None:
        """Add a mark below the others, with one lane for each entry of `rows`.

        `rows` maps the name of a lane to its pieces, each of which is (code, start, length). `say`
        is the description of a lane, with two placeholders: {long} is the total length of the
        pieces, not counting pieces with the code `without`, and {pieces} is the number of all
        pieces.
        """
        lengths = [
            sum(length for code, _, length in pieces if code != without) for pieces in rows.values()
        ]
        values = {
            "long": np.array(lengths),
            "pieces": np.array([len(pieces) for pieces in rows.values()]),
        }
        mark = Lanes(
            name,
            heading,
            count=len(rows),
            labels=tuple(rows),
            say=say,
            values={noun: value for noun, value in values.items() if f"{{{noun}}}" in say},
            whole=True,
        )
        drawing = Drawing(span, bars(list(rows.values())), unit)
        self.below(40)
        self.put(mark, left=left, high=pitch * len(rows), drawing=drawing)

    def below(self, gap: float = 36) -> None:
        """Set `y` to `gap` units below all placed marks; without marks, leave `y` unchanged."""
        self.y = self.bottom + gap if self.marks else self.y

    def first(self, shown: int, of: int, noun: str, whose: str = "The picture shows") -> None:
        """Add a note that the picture shows only the first items, if `shown` is less than `of`.

        `shown` and `of` are numbers of items, and `noun` is their name in the plural. `whose` is
        the beginning of the note.
        """
        if shown < of:
            self.notes.append(f"{whose} the first {shown:,} of {of:,} {noun}.")

    def scene(
        self,
        view: str,
        title: str,
        sentence: str,
        *,
        foot: float,
        stills: Iterable[Still],
        table: tuple[Iterable[str], Iterable[Iterable[str]]],
        frames: Array | None = None,
        **scene_fields: Any,
    ) -> Scene:
        """Return a scene with these marks and `foot` units of space below them.

        `scene_fields` are further fields of `Scene`. By default, each still is shown in one frame.
        """
        height = max(self.y, self.bottom) + foot
        notes = tuple(dict.fromkeys((*self.notes, *scene_fields.pop("notes", ()))))
        drawings = tuple(self.drawings)
        stills = tuple(stills)
        headings, rows = table
        return Scene(
            view,
            title,
            sentence,
            height=height,
            marks=tuple(self.marks),
            stills=stills,
            frames=np.arange(len(stills)) if frames is None else frames,
            table=(tuple(headings), tuple(map(tuple, rows))),
            drawings=drawings,
            notes=notes,
            **scene_fields,
        )


def bars(rows: Sequence[Sequence[Piece]]) -> tuple[Bar, ...]:
    """Return the bars of lanes: bar k consists of piece k of each lane.

    `rows` has a list of pieces for each lane. A piece is (code, start, length).
    """
    max_pieces = max(map(len, rows))
    padded_rows: Array = np.array([[*row] + [(0, 0, 0)] * (max_pieces - len(row)) for row in rows])
    return tuple(
        Bar(padded_rows[:, place, 0], padded_rows[:, place, 1], padded_rows[:, place, 2], 0)
        for place in range(max_pieces)
    )


def grid(
    name: str,
    target: Target,
    room: float,
    heading: str = "",
    each_ipu: int = 0,
    *,
    largest: float = np.inf,
    **options: Any,
) -> Cells:
    """Return the tiles of a machine as cells in a square whose side is `room`, IPU by IPU.

    The number of each IPU is written above it, if there is room. `each_ipu` is the number of cells
    of an IPU; if it is 0, there is a cell for each tile. A cell is at most `largest` wide.
    `options` are fields of `Cells`.
    """
    ipus = target.num_ipus
    cells_per_ipu = each_ipu or target.tiles_per_ipu
    across = int(np.ceil(np.sqrt(ipus)))
    columns = int(np.ceil(np.sqrt(cells_per_ipu)))
    has_names = ipus > 1 and room / across >= BROAD
    gap = NAMED * (across - 1) if has_names else 0.0
    cell_side = room / (across * columns + GAP * (across - 1))
    cell_side = round(min(largest, cell_side, (room - gap) / (across * columns)), 3)
    if not heading:
        heading = counted(target.num_tiles, "tile")
        if ipus > 1:
            heading += f" on {ipus} IPUs"
        if cells_per_ipu < target.tiles_per_ipu:
            heading += f"; each square is {-(-target.tiles_per_ipu // cells_per_ipu)} tiles"
    return Cells(
        name,
        heading,
        side=cell_side,
        columns=columns,
        count=cells_per_ipu * ipus,
        block=cells_per_ipu,
        across=across,
        gap=round(max(GAP, NAMED / cell_side * has_names), 3),
        names=tuple(f"IPU {ipu}" for ipu in range(ipus)) if has_names else (),
        **options,
    )


def flame(
    name: str,
    heading: str,
    pitch: float,
    boxes: Sequence[tuple[int, float, float, str, int]],
    timed: bool,
    beside: tuple[str, ...] = (),
) -> Flame:
    """Return a mark of nested boxes, each given by (row, begin, end, title, code).

    `begin` and `end` are indices of frames or, if `timed` is True, modelled cycles. `beside` has
    the labels beside the rows.
    """
    number_of_title: dict[str, int] = {}
    rows = [
        (
            row,
            begin,
            end,
            number_of_title.setdefault(label(title_text, 48), len(number_of_title)),
            code,
        )
        for row, begin, end, title_text, code in boxes
    ]
    depth, begins, ends, title, code = np.array(rows, np.int64).reshape(-1, 5).T
    return Flame(
        name,
        heading,
        pitch=pitch,
        count=len(rows),
        depth=depth,
        first=begins,
        last=ends,
        title=title,
        names=tuple(number_of_title),
        code=code,
        timed=timed,
        rows=beside,
    )


def boxes_in_rows(
    name: str,
    heading: str,
    width: float,
    pitch: float,
    columns: int,
    rows: Sequence[str],
    cells: Sequence[Cell],
) -> Painted:
    """Return a mark with one box for each cell, and the names in `rows` beside the boxes.

    A cell is (row, column, code, texts, description). The box shows the first of its texts that
    fits.
    """
    column_width = width / columns
    codes = np.array([cell[2] for cell in cells])
    box_places = np.array(
        [
            (column_index * column_width, row_index * pitch, 0.94 * column_width, 0.9 * pitch)
            for row_index, column_index, *_ in cells
        ]
    )
    shapes: list[Shape] = [Boxes(int(code), box_places[codes == code]) for code in np.unique(codes)]
    # Sorted by code, texts on the same colour are neighbours and can be stored in one list.
    for row, column, code, texts, _ in sorted(cells, key=lambda cell: cell[2]):
        text = next((t for t in texts if has_room(t, column_width) and pitch > SMALLEST_ROW), "")
        text_position = (column + 0.47) * column_width, (row + 0.45) * pitch + 4
        if text:
            size = 11 if column_width > 36 else 9
            shapes.append(Words(*text_position, text, size, "middle", code))
    for row in range(0, len(rows), int(np.ceil(12 / pitch))):
        shapes.append(Words(-6, (row + 0.45) * pitch + 4, rows[row], 11, anchor="end"))
    cell_texts = [cell[-1] for cell in cells]
    return painted(
        name,
        heading,
        width,
        pitch * len(rows),
        pictures=[shapes],
        places=box_places,
        labels=cell_texts,
        say="{label}",
    )


def has_room(text: str, wide: float) -> bool:
    """Return whether `text`, at a size of 11 units, fits into a box that is `wide` units wide."""
    return (len(text) + 0.5) * LETTER < wide


def painted(
    name: str,
    heading: str,
    width: float,
    height: float,
    pictures: Iterable[Iterable[Shape]],
    places: Array | None = None,
    labels: Iterable[str] = (),
    say: str = "",
    **options: Any,
) -> Painted:
    """Return a mark of fixed shapes, which shows one of `pictures` at a time.

    Each picture is an iterable of shapes. `places`, `labels` and `say` describe the areas that a
    reader can point at, as in `Painted`. If `places` is None, there are no such areas. `options`
    are fields of `Painted`.
    """
    places = side_by_side(0, width, height) if places is None else places
    options |= {"pictures": tuple(map(tuple, pictures)), "count": len(places), "places": places}
    options |= {"width": width, "height": height, "labels": tuple(labels), "say": say}
    return Painted(name, heading, **options)


def side_by_side(count: int, width: float, height: float) -> Array:
    """Return float[count, 4]: (x, y, width, height) of `count` equal areas next to each other."""
    part_width = width / max(1, count)
    return rectangles(np.arange(count) * part_width, 0, part_width, height)


def tall(mark: Cells | Rows | Painted) -> float:
    """Return the height that the initially visible content of a mark needs."""
    if isinstance(mark, Painted):
        return mark.height
    if isinstance(mark, Cells):
        blocks = -(-mark.count // mark.block // mark.across)
        rows = -(-mark.block // mark.columns)
        return mark.side * (blocks * rows + mark.gap * (blocks - 1))
    rows = len(mark.visible()) if isinstance(mark, Tree) else int(mark.depth.max(initial=0)) + 1
    return mark.pitch * rows
