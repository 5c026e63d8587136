"""The executions of a run, grouped by the leaves of the programs.

A leaf is a program node that executes a compiled step. If the cycles of a leaf depend on data, the
profile has several compiled steps for it: one for each different measurement. This module adds up
their executions.
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

    `step` is the number of the compiled step. `times` maps numbers of compiled steps to the number
    of their executions. If the cycles of the step depend on data, `times` has several entries, one
    for each different measurement.
    """

    step: int
    times: dict[int, int]

    @property
    def count(self) -> int:
        """The number of executions in `times`, added up."""
        return sum(self.times.values())

    def total(self, amount: Callable[[int], float]) -> float:
        """Return the sum of `amount(number of the compiled step)` over all executions."""
        return sum(times * amount(number) for number, times in self.times.items())

    def longest(self, amount: Callable[[int], float]) -> int:
        """Return the number of the compiled step for which the sum of `amount` is largest.

        The sum is over all executions of that compiled step.
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
