"""The panels of a picture, one below the other: a view says what they are, and this where they
stand.

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

# where panels begin and end; above the first there is room for its heading
LEFT = 16.0
RIGHT = 704.0
TOP = 34.0
ENDS = ("slowest", "fastest")  # of lanes that are sorted
BROAD, NAMED = 52.0, 14.0  # an IPU with its number above it, and the room for that

# row, column, code, the texts of which it has the first for which there is room, what is said of it
Cell = tuple[int, int, int, tuple[str, ...], str]


Piece = tuple[int, int, int]  # code, start, length


class Panels:
    """The marks of a picture, which are placed from the top to the bottom. `y` is where the next
    ones begin. `lanes` are the bars that were given with marks, for a `Still` that shows all
    of them. `notes` tell what the picture leaves out."""

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
        """Place a mark from `left` to `right`, `down` below `y`, and `high` units high, unless
        the mark has a size of its own. `drawing` has the bars that the mark shows."""
        y = self.y + down
        where: dict[str, Any] = {"x": left, "y": y}
        if not isinstance(mark, Cells | Painted):
            where["width"] = right - left
        if isinstance(mark, Cells | Rows | Painted):
            high = tall(mark)
        else:
            where["height"] = high
        if drawing is not None:
            self.lanes[mark.name] = len(self.drawings), 0, drawing.span
            self.drawings.append(drawing)
        self.marks.append(replace(mark, **where))  # type: ignore[arg-type]  # every kind of mark is one of these
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
        """Put lanes with their pieces below the other panels. `say` may quote "long", the length
        of the pieces without those of the code `without`, and "pieces", their number."""
        long = [sum(n for code, _, n in pieces if code != without) for pieces in rows.values()]
        values = {
            "long": np.array(long),
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
        """Continue below all marks that were put, if there are any."""
        self.y = self.bottom + gap if self.marks else self.y

    def first(self, shown: int, of: int, noun: str, whose: str = "The picture shows") -> None:
        """Add a note that only the first `shown` of `of` items are shown, if some are left out."""
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
        **rest: Any,
    ) -> Scene:
        """Return the scene of these panels, which is `foot` higher than their content. `rest`
        are fields of `Scene`. By default, each still is a frame."""
        height = max(self.y, self.bottom) + foot
        notes = tuple(dict.fromkeys((*self.notes, *rest.pop("notes", ()))))
        drawings = tuple(self.drawings)
        stills = tuple(stills)
        heads, rows = table
        return Scene(
            view,
            title,
            sentence,
            height=height,
            marks=tuple(self.marks),
            stills=stills,
            frames=np.arange(len(stills)) if frames is None else frames,
            table=(tuple(heads), tuple(map(tuple, rows))),
            drawings=drawings,
            notes=notes,
            **rest,
        )


def bars(rows: Sequence[Sequence[Piece]]) -> tuple[Bar, ...]:
    """Return the bars of lanes: bar k has the k-th piece of every lane."""
    longest = max(map(len, rows))
    pieces: Array = np.array([[*row] + [(0, 0, 0)] * (longest - len(row)) for row in rows])
    return tuple(Bar(pieces[:, i, 0], pieces[:, i, 1], pieces[:, i, 2], 0) for i in range(longest))


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
    """Return the tiles of a machine as a square of side `room`, IPU by IPU, each IPU below its
    number if there is room. `each_ipu` is the number of cells of an IPU; by default, each
    tile has a cell."""
    ipus = target.num_ipus
    cells = each_ipu or target.tiles_per_ipu
    across = int(np.ceil(np.sqrt(ipus)))
    columns = int(np.ceil(np.sqrt(cells)))
    named = ipus > 1 and room / across >= BROAD
    gap = NAMED * (across - 1) if named else 0.0
    side = room / (across * columns + GAP * (across - 1))
    side = round(min(largest, side, (room - gap) / (across * columns)), 3)
    heading = heading or counted(target.num_tiles, "tile") + (
        f" on {ipus} IPUs" if ipus > 1 else ""
    )
    return Cells(
        name,
        heading,
        side=side,
        columns=columns,
        count=cells * ipus,
        block=cells,
        across=across,
        gap=round(max(GAP, NAMED / side * named), 3),
        names=tuple(f"IPU {ipu}" for ipu in range(ipus)) if named else (),
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
    """Return nested boxes, each given by its row, begin, end, title and code."""
    names: dict[str, int] = {}
    rows = [
        (row, first, last, names.setdefault(label(noun, 48), len(names)), code)
        for row, first, last, noun, code in boxes
    ]
    depth, first, last, title, code = np.array(rows, np.int64).reshape(-1, 5).T
    return Flame(
        name,
        heading,
        pitch=pitch,
        count=len(rows),
        depth=depth,
        first=first,
        last=last,
        title=title,
        names=tuple(names),
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
    """Return a mark with a box for each cell, and the names of the rows beside them."""
    wide = width / columns
    codes = np.array([cell[2] for cell in cells])
    places = np.array([(c * wide, r * pitch, 0.94 * wide, 0.9 * pitch) for r, c, *_ in cells])
    shapes: list[Shape] = [Boxes(int(code), places[codes == code]) for code in np.unique(codes)]
    for row, column, code, texts, _ in cells:
        text = next((t for t in texts if has_room(t, wide) and pitch > 10), "")
        at = (column + 0.47) * wide, (row + 0.45) * pitch + 4
        shapes += [Words(*at, text, 11 if wide > 36 else 9, "middle", code)] * bool(text)
    for row in range(0, len(rows), int(np.ceil(12 / pitch))):
        shapes.append(Words(-6, (row + 0.45) * pitch + 4, rows[row], 11, anchor="end"))
    cell_texts = [cell[-1] for cell in cells]
    return painted(
        name,
        heading,
        width,
        pitch * len(rows),
        pictures=[shapes],
        places=places,
        labels=cell_texts,
        say="{label}",
    )


def has_room(text: str, wide: float) -> bool:
    """Return whether a box of this width has room for a text of 11 units."""
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
    """Return a mark of fixed shapes, with a tuple of shapes for each picture. `places` and
    `labels` are those of the parts that can be pointed at, and `say` is the text about a
    part. `options` are fields of `Painted`."""
    places = side_by_side(0, width, height) if places is None else places
    options |= {"pictures": tuple(map(tuple, pictures)), "count": len(places), "places": places}
    options |= {"width": width, "height": height, "labels": tuple(labels), "say": say}
    return Painted(name, heading, **options)


def side_by_side(count: int, width: float, height: float) -> Array:
    """Return the places of `count` parts side by side."""
    wide = width / max(1, count)
    return rectangles(np.arange(count) * wide, 0, wide, height)


def tall(mark: Cells | Rows | Painted) -> float:
    """Return the height of a mark whose content decides it, as the mark is shown at first."""
    if isinstance(mark, Painted):
        return mark.height
    if isinstance(mark, Cells):
        blocks = -(-mark.count // mark.block // mark.across)
        rows = -(-mark.block // mark.columns)
        return mark.side * (blocks * rows + mark.gap * (blocks - 1))
    rows = len(mark.visible()) if isinstance(mark, Tree) else int(mark.depth.max(initial=0)) + 1
    return mark.pitch * rows
