"""Count what a vertex does while the plain vertex loop runs it.

The counts are the vertex's cycles, its stores, and the elements that its workers access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ipu_teach.compile.scalar import ScalarCode
from ipu_teach.compile.workers import race_of
from ipu_teach.cost.traced import UNIT, UNKNOWN
from ipu_teach.engine.fp.vertex_floats import VertexFloats
from ipu_teach.engine.scalar.fields import (
    elements,
    first_conflict,
    index_of,
    mark_of,
    parts_of,
)
from ipu_teach.engine.scalar.functions import FOREVER, program_of
from ipu_teach.engine.site import Site
from ipu_teach.types import Array
from ipu_teach.types.regions import FieldArrays


class Counting:
    """The translated Python code of a group, which runs in addition to the plain vertex loop.

    It counts the cycles, the stores, and the elements that workers access.
    """

    def __init__(self, site: Site) -> None:
        group = site.group
        assert group.scalar is not None
        self.group = group
        self.code = group.scalar
        self.races = site.mode.checks_races
        self.program = program_of(group.scalar, site.target)
        self.cycles = np.zeros(len(group.rows), np.int64) if site.cycles is None else site.cycles
        self.defined = {
            name: elements(site.defined, self.code.fields[name].dtype.size)
            for name in self.code.marked
        }

    def vertex(
        self,
        vertex_number: int,
        regions: Mapping[str, FieldArrays],
        positions_by_field: Mapping[str, Sequence[slice | Array]],
        vertex_floats: VertexFloats | None,
    ) -> None:
        """Run the translated Python code of one vertex, and count what the vertex does.

        The counts are its cycles, its stores and the races between its workers. The code changes
        `regions` in the same way as compute() does. `vertex_number` is the index of the vertex in
        the group. `positions_by_field` maps the name of each field to the positions of its arrays
        in memory. If the code fails, the cycles are `UNKNOWN`, and nothing else is counted.

        :raises ComputeSetRaceError: if workers of the vertex race, and the engine checks races.
        """
        code = self.code
        workers = max(1, len(self.group.workers))
        marks, reads = marks_for(code, regions, workers)
        arguments = [*regions.values(), *marks.values(), *reads.values()]
        try:
            cycles = self.program.caller(workers, arguments, vertex_floats, FOREVER)()
        # compute() itself has ended without an error, so only its cycles are unknown.
        except Exception:
            self.cycles[vertex_number] = UNKNOWN
            return
        self.cycles[vertex_number] = -(-max(cycles, ~cycles) // UNIT) * workers
        for name, marked in marks.items():
            flat = self.defined[name]
            for stored, positions in zip(parts_of(marked), positions_by_field[name], strict=True):
                indices = (
                    np.arange(positions.start, positions.stop)
                    if isinstance(positions, slice)
                    else positions
                )
                flat[indices[stored.reshape(-1) != 0]] = mark_of(flat)
            if code.multi and self.races:
                written, read = (
                    np.concatenate(
                        [mark_part.reshape(-1) for mark_part in parts_of(marks_of_field)]
                    )
                    for marks_of_field in (marked, reads[name])
                )
                conflict = first_conflict(written, read)
                if conflict is not None:
                    raise race_of(
                        self.group,
                        vertex_number,
                        name,
                        index_of(conflict, marked),
                        written=int(written[conflict]),
                        read=int(read[conflict]),
                    )


def marks_for(
    code: ScalarCode, regions: Mapping[str, FieldArrays], workers: int
) -> tuple[dict[str, FieldArrays], dict[str, FieldArrays]]:
    """Return (arrays that mark stores, arrays that mark reads) for the regions of one vertex.

    Both are dicts whose keys are field names, with an integer for each element of the region. Reads
    are marked only in a MultiVertex, where each integer has one bit per worker.
    """
    # The bytes of a MultiVertex's mark for an element: an integer with one bit per worker.
    size_of_mark = 1 if workers <= 8 else 8

    def zeros(name: str) -> FieldArrays:
        bytes_per_mark = size_of_mark if code.multi else code.fields[name].dtype.size
        arrays = [
            np.zeros(region_part.shape, f"u{bytes_per_mark}")
            for region_part in parts_of(regions[name])
        ]
        return arrays if isinstance(regions[name], list) else arrays[0]

    marks = {name: zeros(name) for name in code.marked}
    reads = {name: zeros(name) for name in code.marked} if code.multi else {}
    return marks, reads
