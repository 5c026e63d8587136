"""Compare the waiting times of a class with those of a single learner."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

HIGH = 0.95  # the quantile of the goal


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


@dataclass(frozen=True)
class Cells:
    """The times of a class, in seconds and as factors: median, 95th percentile and maximum.

    A factor is relative to the same cell alone. `worst_cell` is the step whose own 95th percentile
    has the largest factor, and that factor.
    """

    answers: int
    seconds: tuple[float, float, float]
    times: tuple[float, float, float]
    worst_cell: tuple[int, float]


def compared(alone: Mapping[int, Sequence[float]], seen: Iterable[tuple[int, float]]) -> Cells:
    """Return the times of each step in a class, relative to the median of the same step alone."""
    base = {step: median(seconds) for step, seconds in alone.items()}
    pairs = list(seen)
    ratios = defaultdict(list)
    for step, seconds in pairs:
        ratios[step].append(seconds / base[step])
    factors = {step: quantile(times, HIGH) for step, times in ratios.items()}
    worst = max(factors, key=lambda step: factors[step])
    of_all = [time for times in ratios.values() for time in times]
    return Cells(len(pairs), _three([s for _, s in pairs]), _three(of_all), (worst, factors[worst]))


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    return quantile(values, 0.5), quantile(values, HIGH), max(values)
