"""The executions of a run, grouped by the leaves of the programs.

A leaf is a program node that executes a compiled step. If the cycles of a leaf depend on data, the
profile has one compiled step for each different measurement of the leaf. This module adds up the
executions of these compiled steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipu_teach.report.report import Report


@dataclass(frozen=True)
class Executions:
    """All executions of one compiled step, over all leaves of the programs that execute it.

    `step` is the number of the compiled step. `times` maps step numbers to numbers of executions.
    Its only key is usually `step`. But if the cycles of the step depend on data, each different
    measurement has its own compiled step, so `times` has an entry for each measurement.
    """

    step: int
    times: dict[int, int]

    @property
    def count(self) -> int:
        """The total number of executions: the sum of the values in `times`."""
        return sum(self.times.values())

    def total(self, amount: Callable[[int], float]) -> float:
        """Return the sum of `amount(n)` over all executions; `n` is the compiled step's number."""
        return sum(times * amount(number) for number, times in self.times.items())

    def longest(self, amount: Callable[[int], float]) -> int:
        """Return the number of the compiled step in `times` for which `amount` is largest in total.

        The total is `amount(number)` times the number of executions of that compiled step.
        """
        return max(self.times, key=lambda number: self.times[number] * amount(number))


def executions(report: Report) -> list[Executions]:
    """Return an `Executions` object for each compiled step that ran.

    Leaves that execute the same compiled step share one object.
    """
    by_step: dict[int, dict[int, int]] = {}
    for number, times in enumerate(report.executions.tolist()):
        if times:
            by_step.setdefault(report.profile.origin(number), {})[number] = times
    return [Executions(step, times) for step, times in by_step.items()]
