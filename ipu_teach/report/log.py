"""The steps that ran, in order, and the measured cycles of steps whose cycles depend on data.

All steps of a long run are counted, but only the first `MOST_STEPS` are kept in order.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated

import numpy as np

from ipu_teach.cost import Measured
from ipu_teach.saving.schema import NOTE, checked, column, many, row, told, whole
from ipu_teach.types import Array

MOST_STEPS = 2**22  # steps whose order is kept: 16 MB
MOST_RUNS = 2**16  # calls of Engine.run that are kept separately
MOST_ROWS = 2**20  # row numbers of remote buffers that are kept


@dataclass(frozen=True)
class ProgramRun:
    """One call of `Engine.run`: the number and name of the program, and its steps.

    The steps are those from `first` up to, but not including, `last`.
    """

    program: Annotated[int, whole(below="programs")]
    name: str
    first: Annotated[int, told("first", whole(most="ran"))]
    last: Annotated[int, whole("first", "ran")] | None


RUNS = checked(
    many(row(ProgramRun)),
    lambda runs: len(runs) <= MOST_RUNS,
    f"a list of at most {MOST_RUNS:,} runs",
)


@dataclass(frozen=True, eq=False)
class RunLog:
    """The log of a run in a report.

    - `order` (int32) has the number of each step, up to `MOST_STEPS` of them.
    - `counts` (int64[up to compiled steps]) is how often each step ran in total.
    - `unrecorded` is the number of steps that ran while profiling was disabled.
    - `runs_left_out` is the number of runs after the first `MOST_RUNS`.
    - `rows` has the numbers of the rows that remote buffers moved, in order, up to `MOST_ROWS`.
    """

    order: Annotated[Array, column(below="steps")]
    counts: Annotated[Array, column()]
    runs: Annotated[tuple[ProgramRun, ...], RUNS] = ()
    unrecorded: int = 0
    runs_left_out: int = 0
    rows: Annotated[Array, NOTE] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def total(self) -> int:
        """The number of steps that were recorded."""
        return int(self.counts.sum())


class StepLog:
    """The log that an engine writes while it runs a program of `compiled_steps` steps.

    `measured` has the executions of steps whose cycles depend on data; equal ones are stored once.
    Their numbers follow those of the compiled steps. `moves` (int64[compiled steps]) is the number
    of rows of remote buffers that each step moves.
    """

    def __init__(
        self, compiled_steps: int = 0, most: int = MOST_STEPS, moves: Array | None = None
    ) -> None:
        self.compiled_steps = compiled_steps
        self.most = most
        self._moves = np.zeros(compiled_steps, np.int64) if moves is None else moves
        self._moving = array("q")  # row numbers moved by the current run
        self.measured: list[Measured] = []
        self._numbers: dict[object, int] = {}
        # the number and the cycles of the last measured execution, by step
        self._latest: dict[int, tuple[int, list[Array]]] = {}
        self.forget()

    def forget(self) -> None:
        """Discard the log, as if nothing had run. The numbers of measured steps do not change."""
        self.order = array("i")
        # how often each step ran beyond those in `order`
        self.more: Array = np.zeros(0, np.int64)
        self.runs: list[ProgramRun] = []
        self.runs_left_out = self.unrecorded = self.total = 0
        self._rows = array("q")
        self._all_rows = True

    def measure(self, step: int, cycles: Mapping[int, tuple[Array, Array]]) -> int:
        """Return the number of a measured execution of compiled step `step`.

        `cycles` maps each group of vertices to (their cycles, their rows in the table).
        """
        known, before = self._latest.get(step, (0, []))
        now = [array for array, _ in cycles.values()]
        if len(before) == len(now) and all(map(np.array_equal, before, now)):
            return known
        key = (step, *(blake2b(array.tobytes()).digest() for array in now))
        if key not in self._numbers:
            in_order = {
                group: array[np.argsort(rows)].astype(np.int32)
                for group, (array, rows) in cycles.items()
            }
            self._numbers[key] = self.compiled_steps + len(self.measured)
            self.measured.append(Measured(step, in_order))
        self._latest[step] = self._numbers[key], [array.copy() for array in now]
        return self._numbers[key]

    def begin(self) -> None:
        """Prepare for the steps of a new run."""
        del self._moving[:]

    def moved(self, rows: Sequence[int]) -> None:
        """Record the rows of a remote buffer that a copy has moved."""
        if len(self._moving) < MOST_ROWS:
            self._moving.extend(rows)

    def _rows_of(self, step_numbers: Sequence[int]) -> tuple[array[int], bool]:
        """Return the row numbers that steps of the current run moved, and whether all are known.

        An interrupted step has none.
        """
        if not self._moving:
            return self._moving, True
        steps = np.array(step_numbers, np.int64)
        count = int(self._moves[steps[steps < self.compiled_steps]].sum())
        return self._moving[:count], count <= len(self._moving)

    def add(self, steps: array[int]) -> None:
        """Add the steps of a run, in the order in which they ran."""
        rows, is_complete = self._rows_of(steps)
        if self._all_rows:
            self._rows.extend(rows[: MOST_ROWS - len(self._rows)])
        self._all_rows &= is_complete and len(self._rows) < MOST_ROWS
        room = max(0, self.most - len(self.order))
        self.order.extend(steps[:room] if room < len(steps) else steps)
        if room < len(steps):
            self.more = _sum(self.more, np.bincount(steps[room:]))
        self.total += len(steps)

    def note(self, run: ProgramRun) -> None:
        """Add a run that has ended."""
        if len(self.runs) < MOST_RUNS:
            self.runs.append(run)
        else:
            self.runs_left_out += 1

    def counts(self) -> Array:
        """Return how often each step ran: int64[highest number + 1]."""
        return _sum(self.more, np.bincount(self.order))

    def snapshot(self, going: Sequence[int] = (), run: ProgramRun | None = None) -> RunLog:
        """Return the log so far, including the steps `going` of the current `run`."""
        order = np.array(self.order, np.int32)
        tail = np.array(going, np.int32)
        counts = _sum(self.counts(), np.bincount(tail))
        order = np.concatenate((order, tail[: self.most - len(order)]))
        rows = self._rows + self._rows_of(going)[0] if self._all_rows else self._rows
        order.flags.writeable = counts.flags.writeable = False
        return RunLog(
            order,
            counts,
            runs=(*self.runs, *([run] if run else [])),
            unrecorded=self.unrecorded,
            runs_left_out=self.runs_left_out,
            rows=np.array(rows[:MOST_ROWS], np.int64),
        )


def _sum(a: Array, b: Array) -> Array:
    """Return the sum of two arrays of counts, which may have different lengths."""
    total = np.zeros(max(len(a), len(b)), np.int64)
    total[: len(a)] += a
    total[: len(b)] += b
    return total
