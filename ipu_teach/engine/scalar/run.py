"""Run a scalar loop for every vertex of a group.

CPython's text runs vertex by vertex. Where it fails, the vertex's fields are put back and the plain loop runs that one: it
raises the learner's own error. An interruption puts back the fields of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.workers import race_of
from ipu_teach.cost.codelets import UNIT, UNKNOWN
from ipu_teach.engine.memory import Memory
from ipu_teach.engine.scalar.fields import Fields
from ipu_teach.engine.scalar.program import FOREVER, program_of
from ipu_teach.target import Target
from ipu_teach.types import Array

MOST_VIEWS = 1 << 14  # of fields that are made once and kept


class ScalarRun:
    """The vertices of a group, ready to run. `plainly(v)` runs vertex v in the plain loop.

    `cycles`: int64[vertices], receives the worker cycles of each; of a MultiVertex, those of its tile. `races`: that workers
    meet in an element is an error.
    """

    def __init__(
        self,
        group: Group,
        layouts: tuple[Any, ...],
        memory: Memory,
        target: Target,
        defined: Array,
        cycles: Array | None,
        races: bool,
        plainly: Callable[[Group], None],
    ) -> None:
        assert group.scalar is not None
        self.group, self.plainly, self.races = group, plainly, races and group.scalar.multi
        self.program = program_of(group.scalar, target)
        self.fields = Fields(group, group.scalar, layouts, memory, defined)
        self.count = len(group.rows)
        self.cycles = np.zeros(self.count, np.int64) if cycles is None else cycles
        self.workers = [number for number, _ in group.workers] or [0]
        few = self.count * len(self.fields.places) <= MOST_VIEWS
        self.views = [self.fields.arguments(v) for v in range(self.count)] if few else None

    def run(self) -> None:
        """Run `compute()` of every vertex."""
        fields = self.fields
        fields.load()
        self.stored = 0
        try:
            self._by_python(0, self.count)
        except KeyboardInterrupt:
            fields.restore()
            raise
        fields.store(self.stored, self.count)
        if self.races:
            met = fields.race()
            if met is not None:
                raise race_of(self.group, *met)

    def _by_python(self, first: int, last: int) -> None:
        vertex, views, number = self.program.python, self.views, len(self.workers)
        for v in range(first, last):
            arguments = views[v] if views is not None else self.fields.arguments(v)
            try:
                spent = max([vertex(worker, number, FOREVER, *arguments) for worker in self.workers])
            except Exception:
                self._by_referee(v)
                continue
            self.cycles[v] = -(-spent // UNIT) * number

    def _by_referee(self, v: int) -> None:
        """Let the plain loop run a vertex, on what it had before: it says what is wrong."""
        self.fields.restore(v)
        self.fields.store(self.stored, v)
        self.stored = v + 1
        self.cycles[v] = UNKNOWN
        self.plainly(replace(self.group, rows=self.group.rows[v : v + 1]))
