"""What a scalar loop counts of a vertex that the plain loop runs: cycles, what it stores, what its
workers touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ipu_teach.compile.scalar import ScalarCode
from ipu_teach.compile.workers import race_of
from ipu_teach.cost.traced import UNIT, UNKNOWN
from ipu_teach.engine.fp.vertex_floats import VertexFloats
from ipu_teach.engine.scalar.fields import elements, index_of, mark_of, meeting, parts_of
from ipu_teach.engine.scalar.functions import FOREVER, program_of
from ipu_teach.engine.site import Site


class Counting:
    """The scalar loop of a group, run beside the plain one."""

    def __init__(self, site: Site) -> None:
        group = site.group
        assert group.scalar is not None
        self.group, self.code, self.races = group, group.scalar, site.how.races
        self.program = program_of(group.scalar, site.target)
        self.cycles = np.zeros(len(group.rows), np.int64) if site.cycles is None else site.cycles
        self.defined = {
            name: elements(site.defined, self.code.fields[name].dtype.size)
            for name in self.code.marked
        }

    def vertex(
        self,
        number: int,
        regions: Mapping[str, Any],
        places: Mapping[str, Any],
        numbers: VertexFloats | None,
    ) -> None:
        """Count vertex `number` on `regions`, which changes. `places`: where their parts lie."""
        code, workers = self.code, max(1, len(self.group.workers))
        marks, reads = beside(code, regions, workers)
        arguments = [*regions.values(), *marks.values(), *reads.values()]
        try:
            cycles = self.program.caller(workers, arguments, numbers, FOREVER)()
        except Exception:  # compute() itself came to its end
            self.cycles[number] = UNKNOWN
            return
        self.cycles[number] = -(-max(cycles, ~cycles) // UNIT) * workers
        for name, marked in marks.items():
            flat = self.defined[name]
            for stored, place in zip(parts_of(marked), places[name], strict=True):
                where = np.arange(place.start, place.stop) if isinstance(place, slice) else place
                flat[where[stored.reshape(-1) != 0]] = mark_of(flat)
            if code.multi and self.races:
                written, read = (
                    np.concatenate([p.reshape(-1) for p in parts_of(x)])
                    for x in (marked, reads[name])
                )
                met = meeting(written, read)
                if met is not None:
                    raise race_of(
                        self.group,
                        number,
                        name,
                        index_of(met, marked),
                        int(written[met]),
                        int(read[met]),
                    )


def beside(
    code: ScalarCode, regions: Mapping[str, Any], workers: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where stores into regions of one vertex are marked, and for a MultiVertex where its workers
    read of that."""

    def like(name: str) -> Any:
        size = code.fields[name].dtype.size if not code.multi else 1 if workers <= 8 else 8
        made = [np.zeros(part.shape, f"u{size}") for part in parts_of(regions[name])]
        return made if isinstance(regions[name], list) else made[0]

    return {name: like(name) for name in code.marked}, {
        name: like(name) for name in code.marked
    } if code.multi else {}
