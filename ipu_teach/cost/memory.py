"""Bytes on every tile: variables, constants, and the state of vertices.

Not modelled yet: code, edge pointers, stacks and exchange buffers. So a program that fits here may not fit a chip; one that
does not fit here fits no chip.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.errors import GraphMemoryAllocationError
from ipu_teach.types import Array


@dataclass(frozen=True, eq=False)
class MemoryLedger:
    """What lies where. `tile`, `variable` and `size` (bytes) are parallel: one row for each piece on one tile."""

    names: tuple[str, ...]
    categories: tuple[str, ...]
    num_tiles: int
    tile: Array
    variable: Array
    size: Array

    @cached_property
    def bytes_per_tile(self) -> Array:
        """int64[tiles]: modelled bytes on each tile."""
        return np.bincount(self.tile, self.size, self.num_tiles).astype(np.int64)

    def by_variable(self, tile: int | None = None) -> dict[str, int]:
        """Bytes by variable name, largest first, on one tile or on all."""
        rows = slice(None) if tile is None else self.tile == tile
        total = np.bincount(self.variable[rows], self.size[rows], len(self.names)).astype(np.int64)
        order = np.argsort(-total, kind="stable")
        result: dict[str, int] = {}
        for i in order[total[order] > 0].tolist():
            result[self.names[i]] = result.get(self.names[i], 0) + int(total[i])
        return result

    def tiles_of(self, name: str) -> list[int]:
        """The tiles that hold some of the variables of that name, ascending."""
        numbers = [i for i, other in enumerate(self.names) if other == name]
        return [int(t) for t in np.unique(self.tile[np.isin(self.variable, numbers)])]

    def by_category(self) -> dict[str, int]:
        """Bytes of all tiles together, by category."""
        total = {"Variables": 0, "Constants": 0, "Vertex state": 0}
        sums = np.bincount(self.variable, self.size, len(self.names))
        for category, size in zip(self.categories, sums.tolist(), strict=True):
            total[category] += int(size)
        return total


def ledger(graph: FrozenGraph) -> MemoryLedger:
    """The ledger of a frozen graph."""
    start = np.array([v.start for v in graph.variables], np.int64)
    stop = np.array([v.stop for v in graph.variables], np.int64)
    variable, begin, end, tile = graph.tile_map.split(start, stop)
    keep = (tile >= 0) & (end > begin)
    categories = tuple("Constants" if v.constant else "Vertex state" if v.state else "Variables" for v in graph.variables)
    names = tuple(v.name for v in graph.variables)
    return MemoryLedger(
        names, categories, graph.target.num_tiles, tile[keep].astype(np.int64), variable[keep], (end - begin)[keep]
    )


def check(memory: MemoryLedger, limit: int) -> None:
    """Raise `GraphMemoryAllocationError` if a tile holds more than `limit` bytes."""
    used = memory.bytes_per_tile
    full = int(np.argmax(used)) if len(used) else 0
    if len(used) and used[full] > limit:
        over = int(np.count_nonzero(used > limit))
        largest = list(memory.by_variable(full).items())[:3]
        error = GraphMemoryAllocationError(
            "Out of memory: Cannot fit all variable data onto one or more tiles. "
            f"{over} of {memory.num_tiles} tiles {'holds' if over == 1 else 'hold'} too much.",
            where=f"the fullest is tile {full}: {int(used[full]):,} of {limit:,} bytes, most of them "
            + ", ".join(f"{name!r} {size:,}" for name, size in largest),
            next_step="spread the variables over more tiles (poputil.map_tensor_linearly), use a smaller dtype, or more tiles.",
        )
        error.bytes_per_tile = used
        raise error
