"""The executions of a run by step of the programs.

If the cycles of a step depend on data, the profile has several compiled steps for it, one for each
measurement. This module adds up their executions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipu_teach.report.report import Report


@dataclass(frozen=True)
class Executions:
    """All executions of one step of the programs.

    `step` is its number. `times` maps the number of each of its compiled steps to how often that
    ran. The step has several compiled steps if its cycles depend on data: one for each different
    measurement.
    """

    step: int
    times: dict[int, int]

    @property
    def count(self) -> int:
        """The number of executions of the step."""
        return sum(self.times.values())

    def total(self, amount: Callable[[int], float]) -> float:
        """Return the sum of `amount(number of the compiled step)` over all executions."""
        return sum(times * amount(number) for number, times in self.times.items())

    def longest(self, amount: Callable[[int], float]) -> int:
        """Return the compiled step whose executions have the largest sum of `amount(number)`."""
        return max(self.times, key=lambda number: self.times[number] * amount(number))


def executions(report: Report) -> list[Executions]:
    """Return the steps of the programs that ran, each with all its executions."""
    by_step: dict[int, dict[int, int]] = {}
    for number, times in enumerate(report.executions.tolist()):
        if times:
            by_step.setdefault(report.profile.origin(number), {})[number] = times
    return [Executions(step, times) for step, times in by_step.items()]
