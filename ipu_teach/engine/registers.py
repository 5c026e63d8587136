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


def reaches_registers(group: Group) -> bool:
    """True for vertices that `run_on_registers` runs."""
    return issubclass(group.table.codelet, RegisterVertex)


def run_on_registers(
    group: Group, layouts: tuple[Any, ...], memory: Memory, registers: Registers, chance: Chance | None
) -> None:
    """Run `compute()` once for all vertices of `group`, with the vertices as the first axis of every field.

    `chance`: rounds HALF fields, which compute() then fills with singles.
    """
    table, xp = group.table, memory.backend
    regions: dict[str, Array] = {}
    back: list[tuple[str, Any]] = []
    for name, declared in table.fields.items():
        index = xp.array(Region(group, layouts, name, 0).index(slice(None)))
        values = xp.to_host(memory.flat(declared.dtype)[index]).reshape(len(group.rows), *group.shapes[name])
        values.flags.writeable = declared.written
        wide = declared.written and declared.dtype is HALF and chance is not None
        regions[name] = values.astype(np.float32) if wide else values
        if declared.kind in ("output", "inout"):
            back.append((name, index))
    vertex = table.codelet.bind(regions)
    assert isinstance(vertex, RegisterVertex)
    tiles = table.tiles[group.rows]
    part = registers.of(tiles)
    vertex.compute_with(part)
    registers.put(tiles, part)
    for name, index in back:
        dtype, values = table.fields[name].dtype, regions[name]
        if chance is not None and dtype is HALF:
            values = chance.rounded(values, slice(None), 0, 0)
        memory.flat(dtype)[index] = xp.array(values.reshape(index.shape))
