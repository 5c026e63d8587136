"""The view `patches`: a window over an image, its row in the patch matrix, and its memory.

A patch is the part of the image in the window. The view shows where the elements of the row are in
memory. A switch shows where the same elements are in another tensor, such as one with its channels
first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph import Tensor
from ipu_teach.show.palette import NOWHERE, OTHERWISE, REST, SO
from ipu_teach.show.panels import Panels, painted
from ipu_teach.show.scene import Painted, Scene, Still
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

    The view shows an image, a window over it, the row of the window in the matrix, and the
    positions of its elements in memory. `x` is the image, of shape [1, rows, columns,
    channels], with at most 256 elements. `matrix`, of shape [windows, numbers], is a view of
    the image. `other` is a tensor of the shape of `x` with another layout or tile mapping; a switch
    shows the positions of the same elements in it. At most 36 windows are drawn. If there are more,
    a note below the picture says so.

    :raises InvalidOptionError: if an argument is not such a tensor.
    """
    for tensor in (x, matrix, *([] if other is None else [other])):
        if not isinstance(tensor, Tensor):
            raise InvalidOptionError(f"""show.patches() was given {shown(tensor)}, which is not a
                tensor.
                next:  give an image tensor, and a matrix that is a view of that image.""")
    if x.rank != 4 or x.shape[0] != 1 or not 0 < x.num_elements <= MOST_ELEMENTS:
        raise InvalidOptionError(f"""show.patches() was given an image of shape {x.shape}, which
            it cannot draw.
            next:  give an image of shape [1, rows, columns, channels] with at most {MOST_ELEMENTS}
            elements.""")
    if matrix.rank != 2 or not matrix.num_elements:
        raise InvalidOptionError(f"""show.patches() was given a matrix of shape {matrix.shape},
            which does not have rows and columns.
            next:  give a matrix of shape [windows, numbers], with a row for each window.""")
    if other is not None and other.shape != x.shape:
        raise InvalidOptionError(f"""show.patches() was given an image of shape {x.shape} and
            another image of shape {other.shape}.
            next:  give the second image the same shape, for example with dim_shuffle.""")
    return View(_Windows(x, matrix, other).scene())


@dataclass(frozen=True, eq=False)
class _Layout:
    """The positions of an image's elements in memory.

    Attributes:
        tile: the tile of each element.
        place: the rank of each element, by address, among the elements on the same tile.
        longest: the number of elements on the fullest tile.
    """

    tile: Array
    place: Array
    longest: int

    @classmethod
    def of(cls, tensor: Tensor) -> _Layout:
        """Return the positions of the elements of an image in memory."""
        address = (tensor.offset + tensor.layout.positions).reshape(-1)
        tile = tensor.graph.tile_map().at(address * tensor.dtype.size).astype(np.int64)
        place = np.zeros(len(address), np.int64)
        for number in np.unique(tile):
            on_tile = tile == number
            place[on_tile] = np.argsort(np.argsort(address[on_tile]))
        return cls(tile, place, int(np.bincount(np.maximum(tile, 0)).max()))

    def pieces(self, elements: Array) -> int:
        """Return the number of pieces of memory that these elements occupy.

        Two elements belong to the same piece if they are on the same tile and all elements of the
        image between their addresses are among `elements`.
        """
        key = np.unique(self.tile[elements] * 10**6 + self.place[elements])
        return int(1 + (np.diff(key) > 1).sum()) if len(key) else 0


class _Windows:
    """The windows over an image, each of which is a row of the patch matrix.

    `rows`, int64[windows, numbers], has the flat index of an image element for each number in the
    matrix, or -1 for a number that is not an element of the image.
    """

    def __init__(self, x: Tensor, matrix: Tensor, other: Tensor | None) -> None:
        self.x = x
        self.layouts = [_Layout.of(tensor) for tensor in (x, other) if tensor is not None]
        address = (x.offset + x.layout.positions).reshape(-1)
        order = np.argsort(address)
        wanted = matrix.offset + matrix.layout.positions
        nearest = np.minimum(np.searchsorted(address[order], wanted), len(order) - 1)
        hits = address[order][nearest] == wanted
        self.rows: Array = np.where(hits, order[nearest], -1)
        if (self.rows < 0).all() or x.graph is not matrix.graph:
            raise InvalidOptionError("""show.patches() was given a matrix that contains no element
                of the image.
                next:  give a matrix that is a view of the image.""")

    def elements(self, row: int) -> tuple[Array, Array]:
        """Return `(elements, shared)`: the flat indices of the image elements in window `row`.

        `shared` has the flat indices of those that the previous window also contains.
        """
        elements = np.unique(self.rows[row][self.rows[row] >= 0])
        return elements, np.intersect1d(elements, self.rows[row - 1]) if row else elements[:0]

    def description(self, row: int) -> tuple[str, str]:
        """Return two texts about window `row`: its rows and columns, and its pieces of memory."""
        elements, shared = self.elements(row)
        _, down, across, channels = self.x.shape
        _, i, j, _ = np.unravel_index(elements, (1, down, across, channels))
        where = "constants alone"
        if len(elements):
            where = f"rows {i.min()} to {i.max()}, columns {j.min()} to {j.max()}"
        pieces, *other = (layout.pieces(elements) for layout in self.layouts)
        tiles = counted(len(np.unique(self.layouts[0].tile[elements])), "tile")
        before = f"; the window before has {len(shared)} of them, too" * bool(row)
        text = f"{counted(len(elements), 'element')} in {counted(pieces, 'piece')} on {tiles}"
        return where, f"{text}{f', in the other layout {other[0]}' if other else ''}{before}"

    def _mean_pieces(self) -> list[float]:
        """Return, for each layout, the mean number of pieces of memory in a window."""
        elements = [self.elements(row)[0] for row in range(len(self.rows))]
        return [float(np.mean([layout.pieces(e) for e in elements])) for layout in self.layouts]

    def sentence(self) -> str:
        """Return a sentence on how many numbers the matrix and the memory contain.

        The sentence also states from how many pieces of memory a matrix row is gathered on average.
        """
        windows, numbers = self.rows.shape
        pieces, *other = self._mean_pieces()
        text = (
            f"{counted(windows, 'window')} of {numbers} numbers: {windows * numbers:,} in the "
            f"matrix, and {self.x.num_elements} in memory, each once. A row is picked from "
            f"{pieces:.3g} pieces of memory on average"
        )
        return f"{text}, in the other layout from {other[0]:.3g}." if other else f"{text}."

    def _title(self) -> str:
        """Return the title: the average number of memory pieces from which a window is gathered."""
        pieces, *other = self._mean_pieces()
        text = f"A window is picked from {pieces:.3g} pieces of memory on average"
        return f"{text}, in the other layout from {other[0]:.3g}" if other else text

    def scene(self) -> Scene:
        """Return the scene, with a frame for each window over the image."""
        panels = Panels()
        shown_ = min(len(self.rows), MOST_ROWS)
        panels.first(shown_, len(self.rows), "windows")
        panels.put(self._mark(shown_))
        stills = (
            Still(*self.description(row), NEW, 0, True, pictures={"patches": row})
            for row in range(shown_)
        )
        rows = (
            [
                row + 1,
                len(elements),
                len(shared),
                *(layout.pieces(elements) for layout in self.layouts),
            ]
            for row in range(len(self.rows))
            for elements, shared in (self.elements(row),)
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
            table=(heads[: 3 + len(self.layouts)], (map(str, row) for row in rows)),
        )

    def _mark(self, shown_: int) -> Painted:
        """Return a mark with the image, the matrix and the memory.

        There is one picture for each of the first `shown_` windows in each layout. A switch selects
        the layout.
        """
        _, down, across, channels = self.x.shape
        side = min(SIDE, (MATRIX - 24) / (channels * (across + 1)), 200 / down)
        _, i, j, c = np.unravel_index(np.arange(self.x.num_elements), self.x.shape)
        wide = (WIDE - MATRIX) / self.rows.shape[1]
        high = min(14.0, 200 / shown_)
        low = max(side * down, high * shown_) + 72
        tiles = sorted({t for layout in self.layouts for t in layout.tile.tolist()})
        memory = self._memory(tiles, low)
        still = [
            Words(0, -6, "the image, a square for each channel", 11, anchor="start", ink="soft"),
            Words(MATRIX, -6, "the matrix: a row for each window", 11, anchor="start", ink="soft"),
        ]
        still += [
            Words(EDGE - 5, low + 40 * n + 13, f"tile {t}", 11, "end") for n, t in enumerate(tiles)
        ]
        squares = rectangles(side * (j + c * (across + 1)), side * i, 0.94 * side, 0.94 * side)
        pictures = [
            (*still, *self._window(row, shown_, squares, (wide, high), *memory[way]))
            for row in range(shown_)
            for way in range(len(memory))
        ]
        labels = [
            f"row {a}, column {b}, channel {d}: number {p} of tile {t}"
            for a, b, d, p, t in zip(
                i, j, c, self.layouts[0].place, self.layouts[0].tile, strict=True
            )
        ]
        return painted(
            "patches",
            "",
            WIDE,
            low + 40 * len(tiles),
            pictures=pictures,
            places=squares,
            labels=labels,
            say="{label}",
            switches=(SWITCH,) * (len(memory) - 1),
        )

    def _memory(self, tiles: list[int], low: float) -> list[tuple[Array, float]]:
        """Return, for each layout, `(positions, pitch)`: how the elements in memory are drawn.

        `positions` is float[elements, 2], the coordinates of each element, and `pitch` is the width
        of an element. The elements on a tile are drawn in one line. The line of the first tile is
        at the y coordinate `low`.
        """
        memory = []
        for layout in self.layouts:
            pitch = (WIDE - EDGE) / layout.longest
            line = np.searchsorted(tiles, layout.tile)
            memory.append((np.stack((EDGE + pitch * layout.place, low + 40 * line), 1), pitch))
        return memory

    def _window(
        self,
        row: int,
        rows: int,
        squares: Array,
        cell: tuple[float, float],
        memory: Array,
        pitch: float,
    ) -> list[Shape]:
        """Return the shapes of a window: its elements in the image, in the matrix and in memory.

        Lines connect the row of the matrix with the memory. `squares` are the elements in the
        image, `cell` is (width, height) of a number in the matrix, and `memory` has x and y of each
        element in memory.
        """
        elements, shared = self.elements(row)
        kind = np.full(len(squares), PLAIN)
        kind[elements] = NEW
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
