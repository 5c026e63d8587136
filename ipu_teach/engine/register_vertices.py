"""Run vertices that access the registers of their tiles, with one call of compute() per group."""

from __future__ import annotations

import numpy as np

from ipu_teach.engine.site import Site
from ipu_teach.engine.views import Region
from ipu_teach.graph.registers import RegisterVertex
from ipu_teach.types import HALF, Array


class OnRegisters:
    """The vertices of a group, ready to run in one call of `compute()`.

    The first axis of every field numbers the vertices. If `site` rounds stochastically, the written
    HALF fields are arrays of singles while compute() runs, and are rounded to halves afterwards.
    """

    def __init__(self, site: Site) -> None:
        group = site.group
        table = site.group.table
        assert site.registers is not None
        self._codelet = table.codelet
        self._tiles = table.tiles[group.rows]
        self._memory = site.memory
        self._registers = site.registers
        self._rounding = site.rounding
        self._fields = []
        for name, declared in table.fields.items():
            # The positions of each vertex's elements in memory: int64[vertices, elements].
            index = Region(group, site.graph, name).index(slice(None))
            self._fields.append(
                (declared, (len(group.rows), *group.shapes[name]), site.memory.backend.array(index))
            )

    def run(self) -> None:
        memory = self._memory
        backend = self._memory.backend
        rounding = self._rounding
        regions: dict[str, Array] = {}
        for declared, shape, index in self._fields:
            values = backend.to_host(memory.flat(declared.dtype)[index]).reshape(shape)
            is_rounded_half = declared.written and declared.dtype is HALF and rounding is not None
            regions[declared.name] = values.astype(np.float32) if is_rounded_half else values
            values.flags.writeable = declared.written
        vertex = self._codelet.bind(regions)
        assert isinstance(vertex, RegisterVertex)
        tile_registers = self._registers.of(self._tiles)
        vertex.compute_with(tile_registers)
        self._registers.put(self._tiles, tile_registers)
        for declared, _, index in self._fields:
            if declared.kind in ("output", "inout"):
                values = regions[declared.name]
                if rounding is not None and declared.dtype is HALF:
                    values = rounding.rounded(values, slice(None), 0, 0)
                memory.flat(declared.dtype)[index] = backend.array(values.reshape(index.shape))
