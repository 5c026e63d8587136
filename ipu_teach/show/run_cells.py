"""The tiles and the elements that the view `run` draws.

The elements of all tensors are numbered consecutively. A cell is an element that is drawn, and a
box is a tile that is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ipu_teach.graph.variable_table import without_replica
from ipu_teach.report import Recording
from ipu_teach.report.recording import Track as Recorded
from ipu_teach.show.origins import Elements, Names
from ipu_teach.show.report_facts import (
    model_of,
)
from ipu_teach.show.scene import (
    Origins,
)
from ipu_teach.types import Array

MOST_TILES = 64
MOST_CELLS = 512


class DrawnCells:
    """The tiles and the elements of a recording that are drawn.

    At most `per` elements of a tensor are drawn on a tile, and at most 512 elements on at most 64
    tiles in all.

    Attributes:
        held: the tiles that contain elements of the tensors.
        most: the maximum number of tiles of an IPU that are drawn.
        tiles: the tile of each box.
        per: for each tensor, the maximum number of its cells in a box.
        left: int[boxes, tensors], the number of elements that are not drawn.
        own: for each tensor, the indices of the elements that are drawn.
        box, row, place: for each cell, its box, the index of its tensor, and its position among the
            cells of that tensor in the box.
        cell: for each element, its cell, or -1.
        size: for each element, its bytes.
    """

    def __init__(self, recording: Recording, tracks: list[Recorded], per: int) -> None:
        assert recording.report is not None
        self.recording = recording
        self.report = recording.report
        self.tracks = tracks
        self.names = Names()
        self.ipus = self.report.target.num_ipus
        self.per_ipu = self.report.target.tiles_per_ipu
        self._choose(per)
        self._name()

    def _choose(self, per: int) -> None:
        """Choose the tiles and elements to draw: at most `per` elements of a tensor on a tile."""
        tile_map = self.recording.compiled.graph.tile_map
        tiles = [tile_map.at(track.address).astype(np.int64) for track in self.tracks]
        distinct_tiles = np.unique(np.concatenate(tiles))
        self.held = distinct_tiles[distinct_tiles >= 0]
        ipu = self.held // self.per_ipu
        # `rank` is the position of each tile among the tiles of its IPU that contain elements.
        rank = np.arange(len(ipu)) - np.searchsorted(ipu, ipu)
        self.most = max(1, MOST_TILES // self.ipus)
        self.tiles = self.held[rank < self.most][:MOST_TILES]
        # `counts` is int[boxes, tensors]: the number of elements of each tensor on each tile.
        counts = np.array(
            [[np.count_nonzero(t == tile) for t in tiles] for tile in self.tiles.tolist()]
        )
        while np.minimum(counts, per).sum() > MOST_CELLS and per > 1:
            per //= 2
        self.per = np.minimum(per, counts.max(axis=0))
        self.left = np.maximum(counts - self.per, 0)
        self.own: list[Array] = []
        boxes = []
        rows = []
        places = []
        for row, tile in enumerate(tiles):
            order = np.argsort(tile, kind="stable")
            order = order[np.isin(tile[order], self.tiles)]
            within = np.arange(len(order)) - np.searchsorted(tile[order], tile[order])
            drawn = order[within < per]
            self.own.append(drawn)
            boxes.append(np.searchsorted(self.tiles, tile[drawn]))
            rows.append(np.full(len(drawn), row))
            places.append(within[within < per])
        self.box = np.concatenate(boxes)
        self.row = np.concatenate(rows)
        self.place = np.concatenate(places)

    def _name(self) -> None:
        """Number the elements of all tensors, and find the names of those that are drawn."""
        self.elements = Elements(
            model_of(self.report, "run"),
            np.concatenate([track.address for track in self.tracks]),
            self.names,
            self.tiles,
        )
        before = np.cumsum([0, *(len(track.address) for track in self.tracks)])
        drawn = np.concatenate(
            [first + own_cells for first, own_cells in zip(before, self.own, strict=False)]
        )
        self.cell = np.full(before[-1], -1)
        self.cell[drawn] = np.arange(len(drawn))
        self.named, self.index = self.elements.named(self.elements.address[drawn])
        names_by_row = [
            [self.names.names[i] for i in np.unique(self.named[self.row == row]).tolist()]
            for row in range(len(self.tracks))
        ]
        self.titles = [_joined(names) for names in names_by_row]
        self.size = np.repeat([track.tensor.dtype.size for track in self.tracks], np.diff(before))

    def element_names(self, addresses: Array) -> list[str]:
        """Return the names of the elements at `addresses`, such as `u[3]`."""
        named, index = self.elements.named(addresses)
        return [
            self.names.element(name, i)
            for name, i in zip(named.tolist(), index.tolist(), strict=True)
        ]

    def drawn(self, elements: Array) -> Array:
        """Return the cells of `elements`; elements that are not drawn are left out."""
        cells = self.cell[elements]
        return cells[cells >= 0]

    def origins(self, origins: tuple[Origins, ...]) -> dict[str, tuple[Origins, ...]]:
        """Return `{"board": origins}`, the origins of drawn elements; {} if no element is drawn.

        In the argument, `Origins.cell` has element numbers. In the result, it has cells.
        """
        drawn = []
        for origin in origins:
            is_drawn = np.flatnonzero(self.cell[origin.cell] >= 0)
            columns = {key: getattr(origin, key)[is_drawn] for key in ("name", "index", "tile")}
            if len(is_drawn):
                drawn.append(replace(origin, cell=self.cell[origin.cell[is_drawn]], **columns))
        return {"board": tuple(drawn)} if drawn else {}


def _joined(names: Sequence[str]) -> str:
    """Return the names of a tensor's variables as a text.

    If all replicas of a variable are among them, its name appears once with the number of replicas.
    """
    members: dict[tuple[str, int], list[str]] = {}
    for name in names:
        members.setdefault(without_replica(name), []).append(name)
    parts: list[str] = []
    for (plain, replicas), full_names in members.items():
        is_complete = len(full_names) == replicas > 1
        parts += [f"{plain} of {replicas} replicas"] if is_complete else full_names
    return " and ".join(parts)
