"""Where the machine's own lower bound lies: what no answer can go below, and so how much of it an
answer reaches.

`least_cycles` takes from the report of the check's run the machine (its tiles, its sync, how many
bytes a tile moves in a cycle, its units of multiply-add) and the floating-point operations of the
compute sets that ran. What follows from the task and not from the run comes from the exercise: how
many supersteps its true dependencies ask for, how many bytes must cross, how many must be read or
written. Phases follow each other, so their least times add up. Within compute, arithmetic and
memory go on at once, so the larger of the two counts; both as if they were shared among all tiles
without a remainder.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ipu_course.checking.verdict_panel import number
from ipu_teach.report import Report

# of a tile: two loads and a store of 64 bits; golden/chips.py has the published rates
MEMORY_BYTES_PER_CYCLE = 24
# in a cycle; Target has the units and their sources
MULTIPLY_ADDS_PER_UNIT = {"fp32": 1, "fp16": 4}


@dataclass(frozen=True)
class Bound:
    """The least of something, in `unit`, and what sets it."""

    least: float
    unit: str
    why: str

    def refuses(self, yours: float) -> bool:
        """Whether `yours` is less than possible."""
        return yours < self.least * (1 - 1e-9)

    def said(self, yours: float) -> str:
        """Return how near `yours` comes, in words."""
        if yours <= self.least:
            return f"this is the best that this machine can do: {self.why}."
        share = (
            f"{number(round(100 * self.least / yours))} % of what this machine can do. "
            if self.least
            else ""
        )
        return (
            f"{share}At least {number(self.least)} {self.unit} remain for any answer: {self.why}."
        )


def least_cycles(report: Report, supersteps: int, crossing: int = 0, touched: int = 0) -> Bound:
    """Return the least modelled cycles of what a run did; see above.

    `crossing`: bytes that must go to another tile; `touched`: bytes that must be read or written on
    some tile.
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
    """Return what compute takes, by what sets it."""
    arithmetic, memory = (
        ceil(flops / (tiles * flops_per_cycle)),
        ceil(touched / (tiles * MEMORY_BYTES_PER_CYCLE)),
    )
    if memory > arithmetic:
        return {f"{number(touched)} bytes of memory": memory}
    return {f"{number(flops)} floating-point operations": arithmetic}
