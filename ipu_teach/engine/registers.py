"""Vertices that reach the registers of their tiles: all of a group in one call of compute()."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.engine.chance import Chance
from ipu_teach.engine.memory import Memory
from ipu_teach.engine.views import Region
from ipu_teach.graph.registers import Registers, RegisterVertex
from ipu_teach.types import HALF, Array


class OnRegisters:
    """The vertices of a group, ready to run: one call of `compute()`, with the vertices as the first axis of every field.

    `chance`: rounds HALF fields, which compute() then fills with singles.
    """

    def __init__(
        self, group: Group, layouts: tuple[Any, ...], memory: Memory, registers: Registers, chance: Chance | None
    ) -> None:
        table = group.table
        self._codelet, self._tiles = table.codelet, table.tiles[group.rows]
        self._memory, self._registers, self._chance = memory, registers, chance
        self._fields = [
            (declared, (len(group.rows), *group.shapes[name]), memory.backend.array(_places(group, layouts, name)))
            for name, declared in table.fields.items()
        ]

    def run(self) -> None:
        memory, xp, chance = self._memory, self._memory.backend, self._chance
        regions: dict[str, Array] = {}
        for declared, shape, index in self._fields:
            values = xp.to_host(memory.flat(declared.dtype)[index]).reshape(shape)
            wide = declared.written and declared.dtype is HALF and chance is not None
            regions[declared.name] = values.astype(np.float32) if wide else values
            values.flags.writeable = declared.written
        vertex = self._codelet.bind(regions)
        assert isinstance(vertex, RegisterVertex)
        part = self._registers.of(self._tiles)
        vertex.compute_with(part)
        self._registers.put(self._tiles, part)
        for declared, _, index in self._fields:
            if declared.kind in ("output", "inout"):
                values = regions[declared.name]
                if chance is not None and declared.dtype is HALF:
                    values = chance.rounded(values, slice(None), 0, 0)
                memory.flat(declared.dtype)[index] = xp.array(values.reshape(index.shape))


def _places(group: Group, layouts: tuple[Any, ...], name: str) -> Array:
    """Where the elements of a field lie: int64 (vertices, elements)."""
    return Region(group, layouts, name, 0).index(slice(None))
