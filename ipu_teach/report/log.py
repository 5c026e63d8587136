"""The log of a run: its steps in order, and the cycles measured where cycles depend on data.

All steps of a long run are counted, but the order is kept only of the first `MOST_STEPS`.
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

MOST_STEPS = 2**22  # The order of this many steps is kept, which takes 16 MB.
MOST_RUNS = 2**16  # This many calls of Engine.run are kept.
MOST_ROWS = 2**20  # This many row numbers of remote buffers are kept.


@dataclass(frozen=True)
class ProgramRun:
    """One call of `Engine.run`: the number and name of the program, and its steps.

    The steps have the indices from `first` up to, but not including, `last`. `last` is None while
    the run goes on.
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

    - `order` (int32) has the number of the compiled step of each of the first `MOST_STEPS` steps.
    - `counts` (int64) has the number of executions of each compiled step. It may end early, if the
      last compiled steps did not run.
    - `runs` has the first `MOST_RUNS` runs.
    - `unrecorded` is the number of steps that ran while profiling was disabled.
    - `runs_left_out` is the number of runs after these.
    - `rows` has the numbers of the first `MOST_ROWS` rows that remote buffers copied, in order.
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

    `measured` has the executions of steps whose cycles depend on data. Equal executions are stored
    once, and their numbers follow the numbers of the compiled steps. `most` is the number of steps
    whose order is kept. `moves` (int64[compiled steps]) is the number of rows of remote buffers
    that each step copies.
    """

    def __init__(
        self, compiled_steps: int = 0, most: int = MOST_STEPS, moves: Array | None = None
    ) -> None:
        self.compiled_steps = compiled_steps
        self.most = most
        self._moves = np.zeros(compiled_steps, np.int64) if moves is None else moves
        self._moving = array("q")  # numbers of the rows that the current run copied
        self.measured: list[Measured] = []
        self._numbers: dict[object, int] = {}
        # Each step with measured executions has the number and the cycles of the last of them.
        self._latest: dict[int, tuple[int, list[Array]]] = {}
        self.forget()

    def forget(self) -> None:
        """Discard the log, as if nothing had run. The numbers of measured steps do not change."""
        self.order = array("i")
        # Here, executions of each step are counted that are not in `order`.
        self.more: Array = np.zeros(0, np.int64)
        self.runs: list[ProgramRun] = []
        self.runs_left_out = self.unrecorded = self.total = 0
        self._rows = array("q")
        self._all_rows = True

    def measure(self, step: int, cycles: Mapping[int, tuple[Array, Array]]) -> int:
        """Return the number of a measured execution of compiled step `step`; store it if it is new.

        `cycles` maps each group of vertices to (their cycles, their rows in the table).
        """
        latest_number, latest_cycles = self._latest.get(step, (0, []))
        current_cycles = [cycles_of_group for cycles_of_group, _ in cycles.values()]
        if len(latest_cycles) == len(current_cycles) and all(
            map(np.array_equal, latest_cycles, current_cycles)
        ):
            return latest_number
        key = (
            step,
            *(blake2b(cycles_of_group.tobytes()).digest() for cycles_of_group in current_cycles),
        )
        if key not in self._numbers:
            cycles_by_group = {
                group: cycles_of_group[np.argsort(rows)].astype(np.int32)
                for group, (cycles_of_group, rows) in cycles.items()
            }
            self._numbers[key] = self.compiled_steps + len(self.measured)
            self.measured.append(Measured(step, cycles_by_group))
        self._latest[step] = (
            self._numbers[key],
            [cycles_of_group.copy() for cycles_of_group in current_cycles],
        )
        return self._numbers[key]

    def begin(self) -> None:
        """Prepare for the steps of a new run."""
        del self._moving[:]

    def moved(self, rows: Sequence[int]) -> None:
        """Record the numbers of the rows that a copy with a remote buffer has moved."""
        if len(self._moving) < MOST_ROWS:
            self._moving.extend(rows)

    def _rows_of(self, step_numbers: Sequence[int]) -> tuple[array[int], bool]:
        """Return the row numbers that steps of the current run moved, and whether all are known.

        Rows of a step that was interrupted are left out.
        """
        if not self._moving:
            return self._moving, True
        steps = np.array(step_numbers, np.int64)
        num_rows = int(self._moves[steps[steps < self.compiled_steps]].sum())
        return self._moving[:num_rows], num_rows <= len(self._moving)

    def add(self, steps: array[int]) -> None:
        """Add the steps of a run, in the order in which they ran."""
        rows, is_complete = self._rows_of(steps)
        if self._all_rows:
            self._rows.extend(rows[: MOST_ROWS - len(self._rows)])
        self._all_rows &= is_complete and len(self._rows) < MOST_ROWS
        num_free = max(0, self.most - len(self.order))
        self.order.extend(steps[:num_free] if num_free < len(steps) else steps)
        if num_free < len(steps):
            self.more = _sum(self.more, np.bincount(steps[num_free:]))
        self.total += len(steps)

    def note(self, run: ProgramRun) -> None:
        """Add a run that has ended."""
        if len(self.runs) < MOST_RUNS:
            self.runs.append(run)
        else:
            self.runs_left_out += 1

    def counts(self) -> Array:
        """Return the number of executions of each step: int64[highest step number + 1]."""
        return _sum(self.more, np.bincount(self.order))

    def snapshot(self, current_steps: Sequence[int] = (), run: ProgramRun | None = None) -> RunLog:
        """Return the log so far, including the steps `current_steps` of the current `run`."""
        step_numbers = np.array(self.order, np.int32)
        unfinished = np.array(current_steps, np.int32)
        counts = _sum(self.counts(), np.bincount(unfinished))
        step_numbers = np.concatenate((step_numbers, unfinished[: self.most - len(step_numbers)]))
        row_numbers = self._rows + self._rows_of(current_steps)[0] if self._all_rows else self._rows
        step_numbers.flags.writeable = counts.flags.writeable = False
        return RunLog(
            step_numbers,
            counts,
            runs=(*self.runs, *([run] if run else [])),
            unrecorded=self.unrecorded,
            runs_left_out=self.runs_left_out,
            rows=np.array(row_numbers[:MOST_ROWS], np.int64),
        )


def _sum(counts: Array, other_counts: Array) -> Array:
    """Return the sum of two arrays of counts, which may have different lengths."""
    total = np.zeros(max(len(counts), len(other_counts)), np.int64)
    total[: len(counts)] += counts
    total[: len(other_counts)] += other_counts
    return total
