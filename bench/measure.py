"""Time a workload and its floor alternately in one process, and return the median of their ratios.

The floor is the code with which the workload is compared, such as the same work in plain numpy.
Time is this process's processor time, so that other programs on the machine have as little effect
as possible. If several threads work, it is wall-clock time.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

Work = Callable[[], object]
Clock = Callable[[], float]
Ratios = Callable[[], "Mapping[str, float] | str"]

# The project's root folder, in which rows that are separate programs run as `python -m bench.…`.
ROOT = Path(__file__).resolve().parents[1]
# The minimum time in a round, in seconds, for which the workload and its floor each run.
SHORTEST = 0.1
# The maximum number of calls in a round of the workload, and also of its floor.
MOST_CALLS = 20


@dataclass(frozen=True)
class Row:
    """A row of the benchmark: a workload, its floor and its goal, the largest allowed ratio.

    `prepare()` returns one of these:

    * (work, floor): two functions, whose times are compared;
    * a number: the figure of the row;
    * a text: why the row cannot be measured;
    * a function that measures one round and returns {workload: ratio}.

    In the last case, the figure of the row is the largest ratio. With a `worst_goal`, the figure is
    the median of the ratios, and `worst_goal` is the goal of the largest one.
    """

    id: str
    what: str
    floor: str
    goal: float
    prepare: Callable[[], tuple[Work, Work] | Ratios | float | str]
    most_rounds: int = 1000
    worst_goal: float | None = None
    threads: bool = False  # If several threads work, wall-clock time is measured.


@dataclass(frozen=True)
class Result:
    """A measured row: the median ratio as `value`, and the smallest and the largest ratio.

    All three are None if nothing was measured. Then `note` has the reason, and `failed` is True if
    the reason is an error. `worst` is the ratio of the worst workload, if there is a `worst_goal`.
    """

    row: Row
    value: float | None = None
    least: float | None = None
    largest: float | None = None
    note: str = ""
    failed: bool = False
    worst: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the row misses one of its goals."""
        over = self.value is not None and self.value > self.row.goal
        return over or (
            self.worst is not None
            and self.row.worst_goal is not None
            and self.worst > self.row.worst_goal
        )

    def as_dict(self) -> dict[str, object]:
        """Return the result as a dict for the JSON file."""
        spread = None if self.least is None else [self.least, self.largest]
        return (
            {
                "id": self.row.id,
                "what": self.row.what,
                "floor": self.row.floor,
                "goal": self.row.goal,
                "result": self.value,
                "spread": spread,
            }
            | ({"note": self.note} if self.note else {})
            | (
                {"worst": self.worst, "worst_goal": self.row.worst_goal}
                if self.worst is not None
                else {}
            )
        )


def measure(row: Row, rounds: int, tick: Callable[[], object]) -> Result:
    """Measure a row in `rounds` rounds, and return the result; call `tick()` after each round.

    If the row raises an error, the result has the error as its note, and other rows can be
    measured.
    """
    try:
        return _measured(row, min(rounds, row.most_rounds), tick)
    except MemoryError:
        return Result(row, note="needs more memory than there is")
    except Exception as error:
        reason = (str(error).splitlines() or ["no word"])[0]
        return Result(row, note=f"failed: {type(error).__name__}: {reason}", failed=True)


def _measured(row: Row, rounds: int, tick: Callable[[], object]) -> Result:
    prepared = row.prepare()
    if isinstance(prepared, str):
        return Result(row, note=prepared)
    if isinstance(prepared, float):
        tick()
        return Result(row, prepared)
    if callable(prepared):
        return _worst(row, prepared, rounds, tick)
    clock = time.perf_counter if row.threads else time.process_time
    one_round, ratios = in_turn({row.id: prepared}, clock), []
    for _ in range(rounds):
        ratios.append(one_round()[row.id])
        tick()
    return Result(row, median(ratios), min(ratios), max(ratios))


def in_turn(pairs: Mapping[str, tuple[Work, Work]], clock: Clock) -> Callable[[], dict[str, float]]:
    """Return a function that measures one round and returns {name: time ratio}.

    `pairs` maps each name to two functions. A ratio is the time of the first function, divided by
    the time of the second.
    """
    repeats = {name: [_repeats(call, clock) for call in pair] for name, pair in pairs.items()}

    def one_round() -> dict[str, float]:
        ratios = {}
        for name, pair in pairs.items():
            work, floor = (
                _least(call, times, clock) for call, times in zip(pair, repeats[name], strict=True)
            )
            ratios[name] = work / floor
        return ratios

    return one_round


def _worst(row: Row, one_round: Ratios, rounds: int, tick: Callable[[], object]) -> Result:
    """Return the result of a row with several workloads; its note has the median of each workload.

    The figure is the largest of these medians or, with a `worst_goal`, their median.
    """
    ratios_by_name: dict[str, list[float]] = {}
    for _ in range(rounds):
        ratios = one_round()
        if isinstance(ratios, str):
            return Result(row, note=ratios)
        for name, ratio in ratios.items():
            ratios_by_name.setdefault(name, []).append(ratio)
        tick()
    medians = {name: median(ratios) for name, ratios in ratios_by_name.items()}
    each = (
        ", ".join(f"{name} {ratio:.2g}" for name, ratio in medians.items())
        if len(ratios_by_name) > 1
        else ""
    )
    if row.worst_goal is None:
        worst = ratios_by_name[max(medians, key=lambda name: medians[name])]
        return Result(row, median(worst), min(worst), max(worst), each)
    by_round = [median(ratios) for ratios in zip(*ratios_by_name.values(), strict=True)]
    return Result(
        row,
        median(medians.values()),
        min(by_round),
        max(by_round),
        each,
        worst=max(medians.values()),
    )


def run_rows(rows: list[Row], rounds: int, tick: Callable[[str], object]) -> Iterator[Result]:
    """Measure all rows and yield their results; call `tick(id)` after each round of a row."""
    for row in rows:
        yield measure(row, rounds, lambda name=row.id: tick(name))  # type: ignore[misc]
        gc.collect()


def _repeats(call: Work, clock: Clock) -> int:
    """Return how many calls to make in one round. The first call also warms up."""
    call()
    return min(MOST_CALLS, max(1, int(SHORTEST / max(_least(call, 1, clock), 1e-7))))


def _least(call: Work, times: int, clock: Clock) -> float:
    """Return the seconds of the fastest of `times` calls, because other programs only add time."""
    taken = []
    for _ in range(times):
        begin = clock()
        call()
        taken.append(clock() - begin)
    return min(taken)
