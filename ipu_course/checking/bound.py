"""Compute the lowest possible cost of a task on the simulated machine, for comparison with answers.

`least_cycles` reads two things from the report of the run: the properties of the machine (number of
tiles, sync cycles, bytes that a tile exchanges in a cycle, multiply-add units), and the
floating-point operations of the compute sets that ran. The check states the properties of the task:
how many supersteps its dependencies require, how many bytes must move to another tile,
and how many bytes must be read or written.

The phases of a superstep follow each other, so their lower bounds are added. In the compute
phase, arithmetic and memory accesses happen at the same time, so only the larger bound
counts. Both bounds assume that the work is divided equally among all tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ipu_course.checking.verdict_panel import number
from ipu_teach.report import Report

# The maximum number of bytes that a tile accesses in a cycle: two loads and one store of 64 bits.
# `validation/chips.py` has the published rates.
MEMORY_BYTES_PER_CYCLE = 24
# The number of multiply-adds that an AMP unit (matrix-multiply unit) performs in a cycle. The
# number of units on a tile, and its source, are in `ipu_teach/target.py`: see the fields
# `conv_units_fp32` and `conv_units_fp16`.
MULTIPLY_ADDS_PER_UNIT = {"fp32": 1, "fp16": 4}


@dataclass(frozen=True)
class Bound:
    """A lower bound `least` on a cost, its `unit`, and a text with the reason for the bound."""

    least: float
    unit: str
    why: str

    def refuses(self, yours: float) -> bool:
        """Return whether the cost `yours` is below the bound. Such a cost is impossible."""
        return yours < self.least * (1 - 1e-9)

    def is_near(self, yours: float) -> bool:
        """Return whether the cost `yours` is near the bound: at most 20 % above it."""
        return yours <= 1.2 * self.least

    def said(self, yours: float) -> str:
        """Return a text that compares the cost `yours` with the bound, or "" if it is far above."""
        if yours <= self.least:
            return f"this is the lowest possible number of {self.unit}: {self.why}."
        if not self.is_near(yours):
            return ""
        excess = number(round(100 * (yours / self.least - 1), 1))
        least = f"any answer needs at least {number(self.least)} {self.unit}: {self.why}."
        return f"{least} Yours needs {excess} % more."


def least_cycles(report: Report, supersteps: int, crossing: int = 0, touched: int = 0) -> Bound:
    """Return the lower bound on the modelled cycles of a run.

    `supersteps` is the minimum number of supersteps for the task. `crossing` is the number of bytes
    that must move to another tile, and `touched` is the number of bytes that must be read or
    written on some tile. The module's docstring describes the method.
    """
    target = report.target
    flops = sum(max(0, profile.flops) * profile.executions for profile in report.compute_sets)
    units = max(
        target.conv_units_fp32 * MULTIPLY_ADDS_PER_UNIT["fp32"],
        target.conv_units_fp16 * MULTIPLY_ADDS_PER_UNIT["fp16"],
    )
    parts = {
        f"{number(supersteps)} sync" + ("s" if supersteps != 1 else ""): supersteps
        * target.internal_sync_cycles,
        f"{number(crossing)} bytes to exchange": ceil(
            crossing / (target.exchange_bytes_per_cycle * target.num_tiles)
        ),
        **_compute(target.num_tiles, flops, 2 * units, touched),
    }
    paid = {part: cycles for part, cycles in parts.items() if cycles}
    return Bound(
        sum(paid.values()),
        "modelled cycles",
        ", ".join(f"{part} ({number(n)})" for part, n in paid.items()),
    )


def _compute(tiles: int, flops: int, flops_per_cycle: int, touched: int) -> dict[str, int]:
    """Return {limit: cycles}, where the only key describes what limits the compute phase.

    The limit is either arithmetic or memory accesses, whichever takes longer.
    """
    arithmetic = ceil(flops / (tiles * flops_per_cycle))
    memory = ceil(touched / (tiles * MEMORY_BYTES_PER_CYCLE))
    if memory > arithmetic:
        return {f"{number(touched)} bytes of memory": memory}
    return {f"{number(flops)} floating-point operations": arithmetic}
