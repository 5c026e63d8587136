"""What a scalar loop counts of a vertex that the plain loop runs: cycles, what it stores, what its workers touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.workers import race_of
from ipu_teach.cost.codelets import UNIT, UNKNOWN
from ipu_teach.engine.scalar.fields import elements, mark_of, meeting
from ipu_teach.engine.scalar.program import FOREVER, program_of
from ipu_teach.target import Target
from ipu_teach.types import Array


class Counting:
    """The scalar loop of a group, run beside the plain one. `cycles`, `defined`, `races`: see `site.Site`."""

    def __init__(self, group: Group, target: Target, defined: Array, cycles: Array | None, races: bool) -> None:
        assert group.scalar is not None
        self.group, self.code = group, group.scalar
        self.program = program_of(group.scalar, target)
        self.races = races
        self.workers = [number for number, _ in group.workers] or [0]
        self.cycles = np.zeros(len(group.rows), np.int64) if cycles is None else cycles
        self.defined = {name: elements(defined, self.code.fields[name].dtype.size) for name in self.code.marked}

    def vertex(
        self, number: int, regions: Mapping[str, Array], places: Mapping[str, Any], begin: Callable[[int], None]
    ) -> None:
        """Count vertex `number` on `regions`, which changes them. `places`: where they lie; `begin(worker)` comes first."""
        code, kind = self.code, np.uint8 if len(self.workers) <= 8 else np.uint64
        marks: dict[str, Array] = {
            name: np.zeros(regions[name].shape, kind if code.multi else flat.dtype) for name, flat in self.defined.items()
        }
        reads: dict[str, Array] = {name: np.zeros(regions[name].shape, kind) for name in code.fields} if code.multi else {}
        arguments = [*regions.values(), *marks.values(), *reads.values()]
        spent = []
        try:
            for worker in self.workers:
                begin(worker)
                spent.append(self.program.python(worker, len(self.workers), FOREVER, int, *arguments))
        except Exception:  # compute() itself came to its end
            self.cycles[number] = UNKNOWN
            return
        self.cycles[number] = -(-max(spent) // UNIT) * len(self.workers)
        for name, stored in marks.items():
            flat, place = self.defined[name], places[name]
            where = np.arange(place.start, place.stop) if isinstance(place, slice) else place
            flat[where[stored.reshape(-1) != 0]] = mark_of(flat)
            if code.multi and self.races:
                met = meeting(stored.reshape(-1), reads[name].reshape(-1))
                if met is not None:
                    index = [int(i) for i in np.unravel_index(met, stored.shape)]
                    bits = int(stored.reshape(-1)[met]), int(reads[name].reshape(-1)[met])
                    raise race_of(self.group, number, name, index, *bits)
