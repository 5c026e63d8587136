"""The log of a run: its steps in order, and measured cycles where cycles depend on data.

All steps of a long run are counted, but the order of only the first `MOST_STEPS` is recorded.
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

# The maximum number of steps whose order the log contains; this order takes 16 MB.
MOST_STEPS = 2**22
MOST_RUNS = 2**16  # The maximum number of calls of Engine.run in the log.
# The maximum number of row numbers (of remote buffers) in the log.
MOST_ROWS = 2**20


@dataclass(frozen=True)
class ProgramRun:
    """One call of `Engine.run`: the program's number and name, and the steps that ran.

    The steps have the indices from `first` up to, but not including, `last`. `last` is None while
    the run has not ended.
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

    - `order` (int32) contains, for each of the first `MOST_STEPS` steps, the number of its compiled
      step.
    - `counts` (int64) has the number of executions of each compiled step. It is shorter than the
      list of compiled steps if the last compiled steps did not run.
    - `runs` has the first `MOST_RUNS` calls of `Engine.run`.
    - `unrecorded` is the number of steps that ran while profiling was disabled.
    - `runs_left_out` is the number of calls of `Engine.run` after those in `runs`.
    - `rows` has the row numbers of the first `MOST_ROWS` rows that were copied to or from remote
      buffers.
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
    """The log that an engine writes while it runs a program with `compiled_steps` compiled steps.

    - `measured` has executions of steps whose cycles depend on data. Executions with equal cycles
      are stored once. The step numbers of these entries follow the numbers of the compiled steps.
    - `most` is the maximum number of steps whose order is recorded.
    - `moves` (int64[compiled steps]) is the number of rows of remote buffers that each step copies.
    """

    def __init__(
        self, compiled_steps: int = 0, most: int = MOST_STEPS, moves: Array | None = None
    ) -> None:
        self.compiled_steps = compiled_steps
        self.most = most
        self._moves = np.zeros(compiled_steps, np.int64) if moves is None else moves
        # The indices of the rows that the current run has copied.
        self._moving = array("q")
        self.measured: list[Measured] = []
        self._numbers: dict[object, int] = {}
        # Maps each step with measurements to the step number and cycles of its latest execution.
        self._latest: dict[int, tuple[int, list[Array]]] = {}
        self.forget()

    def forget(self) -> None:
        """Discard the log, as if nothing had run. Measured steps keep their step numbers."""
        self.order = array("i")
        # The number of executions of each step that are missing in `order` because `order` was
        # full.
        self.more: Array = np.zeros(0, np.int64)
        self.runs: list[ProgramRun] = []
        self.runs_left_out = self.unrecorded = self.total = 0
        self._rows = array("q")
        self._all_rows = True

    def measure(self, step: int, cycles: Mapping[int, tuple[Array, Array]]) -> int:
        """Return the step number of an execution of compiled step `step` with measured cycles.

        If no earlier execution had the same cycles, the execution is stored under a new number.
        `cycles` maps the number of each group of vertices to a pair of arrays: the cycles of the
        vertices in the group, and the rows of these vertices in the vertex table. The vertices of a
        group have equal shapes.
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
        """Discard the numbers of the rows that the previous run copied, before a new run begins."""
        del self._moving[:]

    def moved(self, rows: Sequence[int]) -> None:
        """Record the numbers of the rows that were copied from or to a remote buffer."""
        if len(self._moving) < MOST_ROWS:
            self._moving.extend(rows)

    def _rows_of(self, step_numbers: Sequence[int]) -> tuple[array[int], bool]:
        """Return `(row numbers, is_complete)` for the steps `step_numbers` of the current run.

        The result has the numbers of the rows that these steps copied. `is_complete` is True if the
        numbers of all these rows are known. Rows of a step that was interrupted are left out.
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
        """Add to the log a run that has ended."""
        if len(self.runs) < MOST_RUNS:
            self.runs.append(run)
        else:
            self.runs_left_out += 1

    def counts(self) -> Array:
        """Return the number of executions of each step: int64[highest step number + 1]."""
        return _sum(self.more, np.bincount(self.order))

    def snapshot(self, current_steps: Sequence[int] = (), run: ProgramRun | None = None) -> RunLog:
        """Return the log so far, including the steps `current_steps` of a run that has not ended.

        `run` describes that run, or is None.
        """
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
