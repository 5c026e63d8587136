"""The view `patches`: the window over an image, its row in the matrix of patches, and that row's
elements in memory.

A switch shows the same elements in the memory order of another tensor, such as one with channels
first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph import Tensor
from ipu_teach.show.palette import NOWHERE, OTHERWISE, REST, SO
from ipu_teach.show.panels import Panels, painted
from ipu_teach.show.scene import Scene, Still
from ipu_teach.show.shapes import Boxes, Shape, Stroke, Words, rectangles
from ipu_teach.show.view import View
from ipu_teach.types import Array

PLAIN, NEW, SHARED, ZERO = range(4)
CODES = (
    replace(REST, name="not in this window", listed=True),
    SO.lettered("N", "in this window"),
    OTHERWISE.lettered("B", "in this window and in the one before"),
    replace(NOWHERE, name="a constant around the image", letter="0"),
)
MOST_ELEMENTS = 256
MOST_ROWS = 36
WIDE = 688.0
MATRIX = 372.0
SIDE = 20.0
LANE = 18.0
EDGE = 52.0
SWITCH = ("c", "Channels the other way", "shows the other layout and back", False)


def patches(x: Tensor, matrix: Tensor, other: Tensor | None = None) -> View:
    """From which places in memory is each row of a matrix of patches picked?

    The view shows how a matrix of patches is taken from an image: window by window its row, and
    where the elements of that row are. `x` [1, rows, columns, channels] or a view of that shape has
    at most 256 elements; `matrix` [windows, numbers] is a view of it. `other` is a tensor like x
    with another layout or mapping; a switch shows where the same elements would be there. 36
    windows are drawn; the view says so.

    Raises `InvalidOptionError` for any other argument.
    """
    for tensor in (x, matrix, *([] if other is None else [other])):
        if not isinstance(tensor, Tensor):
            raise InvalidOptionError(f"""show.patches() was given {shown(tensor)}, which is not a
                tensor.
                next:  give an image tensor, and a matrix that is a view of that image.""")
    if x.rank != 4 or x.shape[0] != 1 or not 0 < x.num_elements <= MOST_ELEMENTS:
        raise InvalidOptionError(f"""show.patches() was given an image of shape {x.shape}.
            next:  give one of shape [1, rows, columns, channels], with at most {MOST_ELEMENTS}
            elements.""")
    if matrix.rank != 2 or not matrix.num_elements:
        raise InvalidOptionError(f"""show.patches() was given a matrix of shape {matrix.shape}.
            next:  give one with a row for each window.""")
    if other is not None and other.shape != x.shape:
        raise InvalidOptionError(f"""show.patches() was given an image of shape {x.shape} and
            another of shape {other.shape}.
            next:  give both the same shape, as by dim_shuffle.""")
    return View(_Windows(x, matrix, other).scene())


@dataclass(frozen=True, eq=False)
class _Lies:
    """The places of an image's elements: for each element its tile and its position on it."""

    tile: Array
    place: Array
    each: int  # elements of the fullest tile

    @classmethod
    def of(cls, tensor: Tensor) -> _Lies:
        address = (tensor.offset + tensor.layout.positions).reshape(-1)
        tile = tensor.graph.tile_map().at(address * tensor.dtype.size).astype(np.int64)
        place = np.zeros(len(address), np.int64)
        for layout in np.unique(tile):
            place[tile == layout] = np.argsort(np.argsort(address[tile == layout]))
        return cls(tile, place, int(np.bincount(np.maximum(tile, 0)).max()))

    def pieces(self, elements: Array) -> int:
        """Return how many pieces of memory these elements are: neighbours on a tile are one."""
        key = np.unique(self.tile[elements] * 10**6 + self.place[elements])
        return int(1 + (np.diff(key) > 1).sum()) if len(key) else 0


class _Windows:
    """The rows of a matrix as elements of the image, -1 for an element that is not in it."""

    def __init__(self, x: Tensor, matrix: Tensor, other: Tensor | None) -> None:
        self.x = x
        self.lies = [_Lies.of(layout) for layout in (x, other) if layout is not None]
        address = (x.offset + x.layout.positions).reshape(-1)
        order = np.argsort(address)
        wanted = matrix.offset + matrix.layout.positions
        nearest = np.minimum(np.searchsorted(address[order], wanted), len(order) - 1)
        hits = address[order][nearest] == wanted
        self.rows: Array = np.where(hits, order[nearest], -1)
        if (self.rows < 0).all() or x.graph is not matrix.graph:
            raise InvalidOptionError("""show.patches() was given a matrix without elements of the
                image.
                next:  give a view of it, as patches(x, 3).""")

    def seen(self, row: int) -> tuple[Array, Array]:
        """Return (the elements of a window, those that the window before it has, too)."""
        own_cells = np.unique(self.rows[row][self.rows[row] >= 0])
        return own_cells, np.intersect1d(own_cells, self.rows[row - 1]) if row else own_cells[:0]

    def told(self, row: int) -> tuple[str, str]:
        """Return where a window is, and which elements it covers."""
        own_cells, shared = self.seen(row)
        _, down, across, channels = self.x.shape
        _, i, j, _ = np.unravel_index(own_cells, (1, down, across, channels))
        where = "constants alone"
        if len(own_cells):
            where = f"rows {i.min()} to {i.max()}, columns {j.min()} to {j.max()}"
        pieces, *other = (lies.pieces(own_cells) for lies in self.lies)
        tiles = counted(len(np.unique(self.lies[0].tile[own_cells])), "tile")
        before = f"; the window before has {len(shared)} of them, too" * bool(row)
        text = f"{counted(len(own_cells), 'element')} in {counted(pieces, 'piece')} on {tiles}"
        return where, f"{text}{f', in the other layout {other[0]}' if other else ''}{before}"

    def sentence(self) -> str:
        """Return what the matrix would take as a copy, and of how many pieces a row is."""
        windows, numbers = self.rows.shape
        ways = [
            np.mean([lies.pieces(self.seen(row)[0]) for row in range(windows)])
            for lies in self.lies
        ]
        text = (
            f"{counted(windows, 'window')} of {numbers} numbers: {windows * numbers:,} in the "
            f"matrix, and {self.x.num_elements} in memory, each once. A row is picked from "
            f"{ways[0]:.3g} pieces of memory on average"
        )
        return f"{text}, in the other layout from {ways[1]:.3g}." if ways[1:] else f"{text}."

    def _title(self) -> str:
        """From how many pieces of memory a window is picked."""
        windows = len(self.rows)
        ways = [
            np.mean([lies.pieces(self.seen(row)[0]) for row in range(windows)])
            for lies in self.lies
        ]
        other = f", in the other layout from {ways[1]:.3g}" if ways[1:] else ""
        return f"A window is picked from {ways[0]:.3g} pieces of memory on average{other}"

    def scene(self) -> Scene:
        """Return one frame a window."""
        panels = Panels()
        shown_ = min(len(self.rows), MOST_ROWS)
        panels.first(shown_, len(self.rows), "windows")
        _, down, across, channels = self.x.shape
        side = min(SIDE, (MATRIX - 24) / (channels * (across + 1)), 200 / down)
        _, i, j, c = np.unravel_index(np.arange(self.x.num_elements), self.x.shape)
        image = np.stack((side * (j + c * (across + 1)), side * i), axis=1)
        wide = (WIDE - MATRIX) / self.rows.shape[1]
        high = min(14.0, 200 / shown_)
        low = max(side * down, high * shown_) + 72
        tiles = sorted({t for lies in self.lies for t in lies.tile.tolist()})
        memory = []
        for lies in self.lies:
            pitch = (WIDE - EDGE) / lies.each
            line = np.searchsorted(tiles, lies.tile)
            memory.append((np.stack((EDGE + pitch * lies.place, low + 40 * line), 1), pitch))
        still = [
            Words(0, -6, "the image, a square for each channel", 11, anchor="start", ink="soft")
        ]
        still += [
            Words(MATRIX, -6, "the matrix: a row for each window", 11, anchor="start", ink="soft")
        ]
        still += [Words(0, low + 40 * n + 13, f"tile {t}", 11) for n, t in enumerate(tiles)]
        squares = rectangles(image[:, 0], image[:, 1], 0.94 * side, 0.94 * side)
        pictures = [
            (*still, *self._window(row, shown_, squares, (wide, high), *memory[way]))
            for row in range(shown_)
            for way in range(len(memory))
        ]
        labels = [
            f"row {a}, column {b}, channel {d}: number {p} of tile {t}"
            for a, b, d, p, t in zip(i, j, c, self.lies[0].place, self.lies[0].tile, strict=True)
        ]
        high = low + 40 * len(tiles)
        switches = (SWITCH,) * (len(memory) - 1)
        mark = painted(
            "patches",
            "",
            WIDE,
            high,
            pictures=pictures,
            places=squares,
            labels=labels,
            say="{label}",
            switches=switches,
        )
        panels.put(mark)
        stills = (
            Still(*self.told(row), NEW, 0, True, pictures={"patches": row}) for row in range(shown_)
        )
        rows = (
            [row + 1, len(own_cells), len(shared), *(lies.pieces(own_cells) for lies in self.lies)]
            for row in range(len(self.rows))
            for own_cells, shared in (self.seen(row),)
        )
        heads = ("window", "elements", "of the window before", "pieces", "pieces otherwise")
        return panels.scene(
            "patches",
            self._title(),
            self.sentence(),
            foot=12,
            codes=CODES,
            stills=stills,
            group="window",
            table=(heads[: 3 + len(self.lies)], (map(str, row) for row in rows)),
        )

    def _window(
        self,
        row: int,
        rows: int,
        squares: Array,
        cell: tuple[float, float],
        memory: Array,
        pitch: float,
    ) -> list[Shape]:
        """Return the image, the matrix and the memory with the elements of a window, and lines to
        them."""
        own_cells, shared = self.seen(row)
        kind = np.full(len(squares), PLAIN)
        kind[own_cells] = NEW
        kind[shared] = SHARED
        boxes = rectangles(memory[:, 0], memory[:, 1], 0.9 * pitch, LANE)
        wide, high = cell
        numbers = self.rows[row]
        x = MATRIX + wide * np.arange(len(numbers))
        own_boxes = rectangles(x, high * row, 0.9 * wide, 0.9 * high)
        lit = np.where(numbers < 0, ZERO, kind[numbers])
        others = np.delete(np.arange(rows), row)
        plain = rectangles(MATRIX, high * others, WIDE - MATRIX, 0.9 * high)
        nearest: list[Shape] = [Boxes(PLAIN, plain)]
        for code in (PLAIN, NEW, SHARED, ZERO):
            for which, part in ((kind, squares), (kind, boxes), (lit, own_boxes)):
                if (which == code).any():
                    nearest.append(Boxes(code, part[which == code]))
        for n, element in enumerate(numbers.tolist()):
            if element >= 0:
                start = float(MATRIX + wide * (n + 0.45)), float(high * (row + 0.95))
                end = float(memory[element, 0] + 0.45 * pitch), float(memory[element, 1])
                middle = (start[0] + end[0]) / 2, end[1] - 30
                nearest.append(Stroke((start, middle, end), 1, "ink"))
        return nearest
