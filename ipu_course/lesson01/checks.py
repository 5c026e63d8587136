"""Lesson 01, Bulk synchronous parallel: questions, correct results and known mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from heapq import heapify, heapreplace
from itertools import product

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.bound import Bound, least_cycles
from ipu_course.checking.calling import Answer, Broken, call, call_made
from ipu_course.checking.comparing import Pairs, compare
from ipu_course.checking.exercise import Drawn, PredictedValue, exercise, later, lesson, question
from ipu_course.checking.mistakes import Reason, first, same, suspects
from ipu_course.checking.precision import Precision
from ipu_course.checking.programs import TILES, graph_of, run_once
from ipu_course.checking.quoting import (
    call_text,
    difference,
    name_of,
    plain,
    quoted,
    returned,
    said_by,
)
from ipu_course.checking.trial import Built, Parts, Ran, Trial, Var, by_rows
from ipu_course.checking.verdict_panel import Bars, number
from ipu_course.checking.verdicts import NotYet, Passed
from ipu_teach import FLOAT, ComputeSet, Engine, Graph, Output, SupervisorVertex, program, show
from ipu_teach.errors import (
    ComputeSetRaceError,
    UninitialisedReadError,
    counted,
    did_you_mean,
    shown,
)
from ipu_teach.graph.layouts import is_whole
from ipu_teach.program import Program
from ipu_teach.report import Report
from ipu_teach.show.touched import touched
from ipu_teach.show.view import View
from ipu_teach.types import Array

# The number of bytes that a tile sends in a cycle, and also the number that it receives: see
# Target.exchange_bytes_per_cycle.
BYTES_PER_CYCLE = 4
SLACK = 1.05  # The budget, as a multiple of the reference's cost.

ByTile = Sequence[int]
# A superstep is (work, bytes received, bytes sent, sync cycles). The first three are lists with a
# number for each tile.
Superstep = tuple[list[int], list[int], list[int], int]
# A function that returns the tile of each job.
Places = Callable[..., Sequence[int]]


def _step(work: ByTile, bytes_in: ByTile, bytes_out: ByTile, sync: int) -> int:
    """Return the modelled cycles of a superstep.

    They are the sum of the sync, the slowest exchange and the slowest tile's compute.
    """
    slowest = int(np.maximum(bytes_in, bytes_out).max())
    return int(sync + -(-slowest // BYTES_PER_CYCLE) + np.max(work))


def _distinct(draw: np.random.Generator, maximum: int, count: int) -> list[int]:
    """Return `count` distinct random numbers from 1 to `maximum` - 1.

    The numbers are distinct so that an answer with a wrong order does not pass.
    """
    return [int(n) + 1 for n in draw.permutation(maximum - 1)[:count]]


def _supersteps() -> dict[str, Superstep]:
    """Return {description: superstep} with the cases of the check, ordinary ones first.

    The cases have the numbers of the lesson, prime numbers, larger numbers, one tile, and more
    tiles than there is work.
    """
    draw = np.random.default_rng(101)
    cases = {}
    for name, tiles in (
        ("drawn", 3),
        ("drawn, 13", TILES),
        ("drawn, 7", 7),
        ("drawn, 31", 31),
        ("there is one tile", 1),
    ):
        work, bytes_in, bytes_out = (_distinct(draw, maximum, tiles) for maximum in (500, 900, 900))
        cases[name] = (work, bytes_in, bytes_out, int(draw.integers(20, 200)))
    idle = [0] * (TILES - 3)
    cases["most tiles have nothing to do"] = (
        [120, 45, 7, *idle],
        [0, 18, 3, *idle],
        [21, 0, 0, *idle],
        100,
    )
    cases["nothing is sent"] = ([120, 45, 7], [0, 0, 0], [0, 0, 0], 100)
    return cases


def _small_supersteps() -> list[Superstep]:
    """Return 200 random supersteps of 1 to 4 tiles, with numbers from 0 to 9."""
    draw = np.random.default_rng(111)
    cases = []
    for number_ in range(200):
        work, bytes_in, bytes_out = draw.integers(0, 10, (3, 1 + number_ % 4)).tolist()
        cases.append((work, bytes_in, bytes_out, int(draw.integers(1, 5))))
    return cases


# A variant of one part of the formula: (function, why it is wrong, what to do). Each list below has
# the right variant first, and then common mistakes. The mistakes are not in a file of complete
# answers, because two or three often occur together, and all 675 combinations are tried.
FormulaPart = tuple[Callable[..., float], str, str]
WORKS: tuple[FormulaPart, ...] = (
    (max, "", ""),
    (
        sum,
        "this adds the work of all tiles. They work at the same time, so only the slowest counts.",
        "take max(work), not the sum.",
    ),
    (
        lambda work: sum(work) / len(work),
        "this takes the mean of `work`. All tiles wait for the slowest one, so only that counts.",
        "take max(work).",
    ),
    (lambda work: work[0], "this uses only the work of tile 0.", "take max(work)."),
    (lambda work: 0, "the work is missing.", "add max(work)."),
)
BYTES: tuple[FormulaPart, ...] = (
    (lambda i, o: max(*i, *o), "", ""),
    (
        lambda i, o: max(a + b for a, b in zip(i, o, strict=True)),
        "this adds the bytes that a tile receives and sends. Both happen at the same time, each "
        "at 4 bytes per cycle.",
        "take the larger of the two for each tile.",
    ),
    (
        lambda i, o: max(i) + max(o),
        "this adds the most bytes received and the most bytes sent. Both happen at the same time.",
        "take the largest number in bytes_in and bytes_out together.",
    ),
    (
        lambda i, o: sum(max(a, b) for a, b in zip(i, o, strict=True)),
        "this adds the exchanges of all tiles. They happen at the same time.",
        "take the longest exchange of all tiles.",
    ),
    (
        lambda i, o: max(i),
        "this uses only bytes_in. Sending takes time, too.",
        "take the largest number in bytes_in and bytes_out together.",
    ),
    (
        lambda i, o: max(o),
        "this uses only bytes_out. Receiving takes time, too.",
        "take the largest number in bytes_in and bytes_out together.",
    ),
    (
        lambda i, o: sum(i),
        "this adds the bytes that all tiles receive, and leaves out the bytes that "
        "they send. All transfers happen at the same time.",
        "take the largest number in bytes_in and bytes_out together.",
    ),
    (
        lambda i, o: sum(o),
        "this adds the bytes that all tiles send, and leaves out the bytes that they "
        "receive. All transfers happen at the same time.",
        "take the largest number in bytes_in and bytes_out together.",
    ),
    (
        lambda i, o: 0,
        "the exchange is missing.",
        "add the longest exchange: the largest number of bytes, divided by 4 and rounded up.",
    ),
)
CYCLES: tuple[FormulaPart, ...] = (
    (lambda n: -(-n // BYTES_PER_CYCLE), "", ""),
    (
        lambda n: n // BYTES_PER_CYCLE,
        "this rounds the exchange down. A started cycle counts: 18 bytes take 5 cycles.",
        "round the exchange up: -(-bytes // 4), or math.ceil.",
    ),
    (
        lambda n: n / BYTES_PER_CYCLE,
        "the exchange has a fraction of a cycle. A started cycle counts: 18 bytes take 5 cycles.",
        "round the exchange up: -(-bytes // 4), or math.ceil.",
    ),
    (
        lambda n: n,
        "this counts each byte as a cycle.",
        "divide by 4, and round up.",
    ),
    (
        lambda n: n // BYTES_PER_CYCLE + 1,
        "this always adds a cycle to the exchange: 16 bytes take 4 cycles, not 5.",
        "round up instead: -(-bytes // 4), or math.ceil.",
    ),
)
SYNCS: tuple[FormulaPart, ...] = (
    (lambda sync: sync, "", ""),
    (
        lambda sync: 0,
        "the sync is missing. Every superstep begins with a sync.",
        "add sync.",
    ),
    (
        lambda sync: 2 * sync,
        "this counts the sync twice. A superstep has one sync.",
        "add sync once.",
    ),
)


def _of_parts(pairs: Pairs[Superstep, int]) -> Reason:
    """Return `(why, next step)` for the fewest mistakes that together explain the wrong results.

    Each mistake replaces a part of the formula.
    """
    mixed = sorted(
        product(WORKS, BYTES, CYCLES, SYNCS),
        key=lambda parts: sum(bool(why) for _, why, _ in parts),
    )
    for parts in mixed[1:]:
        (work_of, *_), (bytes_of, *_), (cycles_of, *_), (sync_of, *_) = parts
        if all(
            not difference(actual, sync_of(sync) + cycles_of(bytes_of(i, o)) + work_of(work))
            for (work, i, o, sync), actual in pairs
        ):
            message = [(why, advice) for _, why, advice in parts if why]
            return " And ".join(why for why, _ in message), " Then ".join(
                advice for _, advice in message
            )
    return _of_mixed_phases(pairs)


def _of_mixed_phases(pairs: Pairs[Superstep, int]) -> Reason:
    """Return `(why, next step)` if the results use the largest sum of one tile's exchange and work.

    The exchange in these sums may also contain another known mistake.
    """
    for (bytes_of, *_), (cycles_of, why, advice), (sync_of, *_) in product(BYTES, CYCLES, SYNCS):
        if all(
            not difference(
                actual,
                sync_of(sync)
                + max(
                    cycles_of(bytes_of([a], [b])) + w for w, a, b in zip(work, i, o, strict=True)
                ),
            )
            for (work, i, o, sync), actual in pairs
        ):
            mixed = (
                "this takes the largest sum of exchange and work of a tile. But no tile computes "
                "before the slowest exchange has ended."
            )
            separate = "add the slowest exchange of all tiles and the longest work of all tiles."
            return (
                f"{mixed} And {why}" if why else mixed,
                f"{separate} Then {advice}" if why else separate,
            )
    return "", ""


def _time(answer: Callable[..., int]) -> Passed:
    return compare(
        answer,
        _step,
        _supersteps(),
        suspects("01.1"),
        otherwise=_of_parts,
        more=_small_supersteps(),
    )


# --- 01.2 -----------------------------------------------------------------------------------------


def longest_first(jobs: ByTile, tiles: int) -> int:
    """Return the cycles of the fullest tile if the longest jobs are distributed first.

    Each job goes to the tile with the least load so far. The result is at most 4/3 - 1/(3 tiles)
    times the optimum (Graham, "Bounds on multiprocessing timing anomalies", 1969).
    """
    load = [0] * tiles
    heapify(load)
    for job in sorted(jobs, reverse=True):
        heapreplace(load, load[0] + job)
    return max(load)


def _job_lists() -> list[tuple[list[int], int]]:
    """Return the cases of the check as `(cycles of each job, number of tiles)`."""
    draw = np.random.default_rng(102)
    return [
        (_distinct(draw, 200, 97), TILES),
        # The jobs are sorted, so the longest ones come last.
        (sorted(_distinct(draw, 200, 40)), TILES),
        (_distinct(draw, 90, 5), TILES),
        ([*[10] * 24, *[100] * 3], 4),
        ([7], TILES),
        (_distinct(draw, 30, 11), 1),
    ]


def _balance(answer: Places) -> Passed:
    cases = _job_lists()
    results = [call(answer, *case) for case in cases]
    results = [
        list(placed) if isinstance(placed, (range, Iterator)) else placed for placed in results
    ]
    worst: Bars | None = None
    for (jobs, tiles), placed in zip(cases, results, strict=True):
        description = call_text(answer, (jobs, tiles))
        _all_placed(description, jobs, tiles, placed)
        load = np.bincount(np.array(placed), jobs, tiles)
        bars = Bars(SLACK * longest_first(jobs, tiles), float(load.max()), "modelled cycles")
        if worst is None or bars.yours / bars.budget > worst.yours / worst.budget:
            worst = bars
            closest = (jobs, tiles)
            where = (description, int(load.argmax()), int(load.argmin()), load)
    assert worst is not None
    if worst.yours <= worst.budget:
        lists = f"{len(cases)} lists of jobs; below, the list with the tightest budget"
        description = f"{name_of(answer)} on {lists}"
        return Passed(description, worst, tuple(map(tuple, results)), bound=_least_load(*closest))
    description, maximum, minimum, load = where
    fullest = f"the fullest tile works for {number(worst.yours)} cycles"
    if all(_fits_when_sorted(*case, placed) for case, placed in zip(cases, results, strict=True)):
        why = (
            "these tiles suit the sorted jobs: the list is in the order of the sorted "
            "jobs, not in that of `jobs`."
        )
        raise NotYet(
            description,
            fullest,
            why=why,
            next_step="store each tile under the number of its job: placed[job] = tile.",
            bars=worst,
            draws=partial(_drawn, load),
        )
    answered = list(zip(cases, map(list, results), strict=True))

    def places_alike(like: Places) -> bool:
        return all(like(*deepcopy(case)) == placed for case, placed in answered)

    why, advice = first(suspects("01.2"), places_alike)
    why = why or (
        f"tile {maximum} has {number(load[maximum])} cycles of work, and tile {minimum} has only "
        f"{number(load[minimum])}."
    )
    raise NotYet(
        description,
        fullest,
        why=why,
        next_step=advice or "try that call in a new cell, and print the jobs of each tile.",
        bars=worst,
        draws=partial(_drawn, load),
    )


def _drawn(load: Array) -> View:
    """Return a view of a superstep in which tile t computes for `load[t]` cycles."""
    return show.bsp(_worked(load.astype(int).tolist()))


def _least_load(jobs: ByTile, tiles: int) -> Bound:
    """Return a lower bound on the load of the fullest tile, for any distribution of the jobs."""
    even = -(-sum(jobs) // tiles)
    if max(jobs) > even:
        return Bound(max(jobs), "modelled cycles", "the longest job alone takes that long")
    return Bound(
        even,
        "modelled cycles",
        f"all {number(sum(jobs))} cycles of work, shared evenly among {counted(tiles, 'tile')}",
    )


def _fits_when_sorted(jobs: ByTile, tiles: int, placed: Sequence[int]) -> bool:
    """Return whether `placed` would be within the budget for the same jobs in sorted order."""
    budget = SLACK * longest_first(jobs, tiles)
    return any(
        np.bincount(np.array(placed), sorted(jobs, reverse=down), tiles).max() <= budget
        for down in (True, False)
    )


def _all_placed(description: str, jobs: ByTile, tiles: int, placed: Sequence[int]) -> None:
    """Raise `NotYet` unless the answer gives one tile for each job."""
    if not isinstance(placed, (list, tuple, np.ndarray)):
        raise NotYet(
            description,
            returned(placed),
            expected="a list with a tile for each job",
            next_step="return the list of tile numbers.",
        )
    if len(placed) and all(isinstance(part, (list, tuple, np.ndarray)) for part in placed):
        why = (
            "this looks like a list of jobs for each tile. The exercise asks for a tile for each "
            "job."
        )
        raise NotYet(
            description,
            shown(placed),
            expected="a list with a tile for each job",
            why=why,
            next_step="write placed[job] = tile for each job.",
        )
    if len(placed) != len(jobs):
        raise NotYet(
            description,
            f"{counted(len(placed), 'tile number')} for {counted(len(jobs), 'job')}",
            why="some jobs have no tile."
            if len(placed) < len(jobs)
            else "there are more tiles than jobs.",
            next_step="return one tile number for each job, in the order of jobs.",
        )
    odd = [tile for tile in placed if not is_whole(tile)]
    if odd:
        why = "" if odd[0] is not None else "an element is still None: its job has no tile."
        raise NotYet(
            description,
            f"{shown(odd[0])} for a tile",
            expected="whole numbers",
            why=why,
            next_step="return a whole number for each job.",
        )
    strays = [tile for tile in placed if not 0 <= tile < tiles]
    if strays:
        advice = (
            "count the tiles from 0."
            if max(strays) == tiles
            else f"place each job on a tile from 0 to {tiles - 1}."
        )
        raise NotYet(
            description,
            f"the answer puts a job on tile {shown(strays[0])}, which does not exist",
            expected=f"tiles from 0 to {tiles - 1}",
            next_step=advice,
        )


# --- 01.3 -----------------------------------------------------------------------------------------


def _waiting(work: ByTile) -> float:
    """Return the fraction of the time that an average tile waits; 0 if no tile has work."""
    slowest = np.max(work)
    return float(1 - np.mean(work) / slowest) if slowest else 0.0


def _workloads() -> dict[str, tuple[list[int]]]:
    draw = np.random.default_rng(103)
    cases: dict[str, tuple[list[int]]] = {
        f"drawn, {tiles}": (_distinct(draw, 999, tiles),) for tiles in (TILES, 2, 7, 31)
    }
    cases["there is one tile"] = ([418],)
    cases["most tiles have nothing to do"] = ([0] * 10 + [50, 20, 5],)
    cases["no tile has work: then nobody waits, and the share is 0"] = ([0] * TILES,)
    return cases


SHARE = Precision(_waiting, tuple(_workloads().values()))


def _share(answer: Callable[..., float]) -> Passed:
    cases = _workloads()
    some_work = {name: case for name, case in cases.items() if any(case[0])}
    # Explain other faults before a division by 0.
    compare(answer, _waiting, some_work, suspects("01.3"), tolerance=SHARE.tolerance)
    more = [(list(work),) for tiles in (1, 2, 3) for work in product(range(5), repeat=tiles)]
    try:
        known = suspects("01.3")
        return compare(answer, _waiting, cases, known, tolerance=SHARE.tolerance, more=more)
    except Broken as broken:
        if not isinstance(broken.error, ZeroDivisionError):
            raise
        why = "if no tile has work, this divides by 0."
        advice = "treat this case before the division; the docstring says what to return."
        raise NotYet(
            broken.tried, said_by(broken.error), expected="0", why=why, next_step=advice
        ) from None


# --- 01.4 -----------------------------------------------------------------------------------------


def _merge(answer: Callable[..., Program]) -> Passed:
    draw = np.random.default_rng(104)
    runs = []
    for count in (TILES, 5, 1, 29):
        # The values are all different, and none is 0.
        values = (draw.permutation(99)[:count] + 1).astype(np.float32) * draw.choice([-1, 1])
        runs.append(_two_supersteps(answer, values))
    reports = [run.report for run in runs]
    maximum = max(report.num_steps for report in reports)
    description = (
        f"the values of 4 rows of `readings`, and {counted(maximum, 'superstep')} in each run"
    )
    # Each tile needs one number from its right neighbour, and reads or writes four numbers.
    bound = least_cycles(
        reports[0], supersteps=2, crossing=FLOAT.size * TILES, touched=4 * FLOAT.size * TILES
    )
    return Passed(
        description,
        bars=Bars(2, maximum, "supersteps"),
        evidence=reports,
        figure=runs[0].cycles,
        bound=bound,
    )


def _one_program(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
    """Call answer(graph, readings, doubled, pairs, flipped); return `(program, [])`.

    :raises NotYet: if the answer does not return one program.
    """
    result: Program = call_made(answer, trial.tried, graph, *parts)
    if result is None:
        advice = "return Sequence(Execute(…), Execute(…))."
        raise NotYet(
            trial.tried, "nothing: is there a `return`?", expected="a program", next_step=advice
        )
    if isinstance(result, (list, tuple)):
        why = "this is a list of several programs. The exercise asks for one program."
        advice = "put them into a Sequence: Sequence(a, b)."
        if any(isinstance(part, ComputeSet) for part in result):
            why = "a compute set is not a program. Execute(compute_set) is a program that runs it."
            advice = "return Sequence(Execute(…), Execute(…))."
        raise NotYet(trial.tried, shown(result), expected="one program", why=why, next_step=advice)
    return result, []


def _two_supersteps(answer: Callable[..., Program], values: Array) -> Ran:
    """Run the answer on `values`, and return the run if its results are right in two supersteps.

    :raises NotYet: if a result is wrong, or there are more supersteps.
    """
    right = {
        "readings": values,
        "doubled": 2 * values,
        "pairs": 2 * values + 2 * np.roll(values, -1),
        "flipped": -values,
    }
    tensors = {
        name: Var(FLOAT, len(values), by_rows, right=[expected]) for name, expected in right.items()
    }
    # The tensor is written just before the run. This overwrites initial values that an answer may
    # have set.
    tensors["readings"] = replace(tensors["readings"], given=[values])
    trial = Trial(f"a program for {counted(len(values), 'reading')}", tensors, form=_one_program)
    try:
        run = trial.of(answer)
    except Broken as broken:
        raise _explained(trial.tried, broken) from None
    _refuse_wrong(run, right)
    kinds = [step.kind for step in run.report.steps()]
    if len(kinds) > 2:
        why, advice = _too_many(run)
        bars = Bars(2, len(kinds), "supersteps")
        raise NotYet(
            trial.tried,
            f"{len(kinds)} supersteps: {', '.join(kinds)}",
            expected="2",
            why=why,
            next_step=advice,
            bars=bars,
        )
    return run


def _too_many(run: Ran) -> Reason:
    """Return (why, next step) for a right program with more than two supersteps."""
    if any(profile.executions > 1 for profile in run.report.compute_sets):
        return (
            "a compute set is executed more than once, and each execution is a superstep.",
            "execute each compute set once.",
        )
    sharing = [
        {table.codelet.__name__ for table in compute_set.tables.values()}
        for compute_set in run.graph.compute_sets
    ]
    if {"Flip"} in sharing:
        return (
            "Flip has a superstep of its own, but it could share a compute set with another step.",
            "place Flip in the compute set of Double or of Pair, because it reads only `readings`.",
        )
    return "", "write down what each superstep reads and writes, and let two share a compute set."


def _refuse_wrong(run: Ran, right: dict[str, Array]) -> None:
    """Raise `NotYet` for the first wrong tensor; `right` is {tensor name: right values}."""
    trial = run.trial
    values = right["readings"]
    for name, expected in right.items():
        actual = run.came[0][name]
        blank = np.isnan(actual)
        if blank.all():
            why = f"no vertex in the program writes {name}."
            raise NotYet(
                trial.tried,
                f"{name} has no values",
                expected=quoted(expected),
                why=why,
                next_step=f"let the program execute vertices that write {name}.",
            )
        if where := difference(actual, expected, 0):
            advice = f"compare the place(…) call of {name} with that in three()."
            if name == "readings":
                why = "the program overwrites `readings`. It may only read them."
                advice = "leave out the step that writes to `readings`."
            elif blank.any():
                why = (
                    f"{counted(int(blank.sum()), 'element')} without a value: some vertices are "
                    "missing."
                )
            else:
                other = trial.another() or trial
                cases = [(trial, actual), (other, other.of(run.answer).came[0][name])]
                why, _ = first(suspects("01.4"), partial(_holds, cases, name))
                why = why or (_made_of(actual, values) if name == "pairs" else "")
            raise NotYet(
                trial.tried,
                f"{name}: {where}",
                expected=quoted(expected),
                why=why,
                next_step=advice,
            )


def _holds(cases: list[tuple[Trial, Array]], name: str, like: Answer) -> bool:
    """Return whether the answer `like` gives the learner's values of tensor `name` in each trial.

    `cases` has pairs (trial, the learner's values).
    """
    return all(same(trial.of(like).came[0][name], actual) for trial, actual in cases)


def _made_of(pairs: Array, readings: Array) -> str:
    """Return a formula that gives `pairs` from the readings, as text; "" if none is found.

    The formulas tried are sums of multiples of a reading and its two neighbours.
    """
    parts = {
        "reading": readings,
        "right neighbour's": np.roll(readings, -1),
        "left neighbour's": np.roll(readings, 1),
    }
    columns = np.stack(list(parts.values()), axis=1).astype(float)
    if len(readings) < 5 or np.isnan(pairs).any():
        return ""
    times = np.linalg.lstsq(columns, pairs.astype(float), rcond=None)[0].round()
    if difference(pairs, columns @ times):
        return ""
    fault = " plus ".join(
        f"{number(n)} times the {name}" for n, name in zip(times, parts, strict=True) if n
    )
    return (
        f"`pairs` is {fault}. It should be 2 times the reading plus 2 times the right neighbour's."
        if fault
        else ""
    )


def _explained(description: str, broken: Broken) -> Exception:
    """Return the error of an answer as `NotYet` if it is a race or a read of unwritten memory.

    The text uses the names of this exercise. Any other error is returned unchanged.
    """
    error = broken.error
    if isinstance(error, ComputeSetRaceError):
        why = (
            "one of these vertices reads what the other writes. That is a true dependency: there "
            "must be a sync between them."
        )
        advice = "place the step that reads in the second compute set."
        if "twice" in error.tried:
            why = "two vertices of a compute set write the same number."
            advice = "give each place(…) call its own tensor for `out`."
        return NotYet(description, f"ComputeSetRaceError: {error.tried}", why=why, next_step=advice)
    if isinstance(error, UninitialisedReadError):
        return NotYet(
            description,
            f"UninitialisedReadError: {error.tried}",
            why="a superstep reads numbers that no earlier superstep writes.",
            next_step="execute the step that writes these numbers first.",
        )
    return broken


# --- 01.5 -----------------------------------------------------------------------------------------

THIRDS = 5  # The number of vertices in the compute set "thirds".
INNOCENT = {
    "shift": (
        "some vertices of shift read the same element, but that is no race: every "
        "element is written "
        "only once."
    ),
    "mirror": (
        "the vertices of mirror write in reverse order, but each element is written only once."
    ),
}


def _culprit(answer: tuple[str, int, int], graph: Graph) -> Passed:
    description = f"the race detector on all compute sets, compared with {shown(answer)}"
    if not isinstance(graph, Graph):
        raise NotYet(
            description,
            f"{shown(graph)} is no graph",
            next_step='call check("01.5", culprit, graph).',
        )
    fits = isinstance(answer, (tuple, list)) and len(answer) == 3 and isinstance(answer[0], str)
    if not fits or not all(is_whole(vertex) for vertex in answer[1:]):
        raise NotYet(
            description,
            shown(answer),
            expected='("name of the compute set", one vertex, the other)',
            next_step="give the name and the two numbers in round brackets.",
        )
    try:
        Engine(graph, program.Sequence())
    except ComputeSetRaceError as error:
        race = error
    else:
        raise NotYet(
            description,
            "the race detector finds no race in this graph",
            next_step="run the cell that builds the graph again.",
        )
    pair = {int(v) for v in re.findall(r"vertex (\d+)", race.where)}

    def draws() -> View | None:
        (chosen,) = (
            compute_set for compute_set in graph.compute_sets if compute_set.name == answer[0]
        )
        pointed = [int(vertex) for vertex in answer[1:]]
        known = answer[1] != answer[2] and all(0 <= k < chosen.num_vertices for k in pointed)
        return touched(graph, chosen, pointed) if known else None

    if f"compute set {answer[0]!r}" not in str(race):
        actual = f"{answer[0]!r}, but the detector finds the race in another compute set"
        if answer[0] in INNOCENT:
            raise NotYet(
                description,
                actual,
                why=INNOCENT[answer[0]],
                next_step="look for a compute set in which the outputs of two vertices overlap.",
                draws=draws,
            )
        near = did_you_mean(answer[0], (*INNOCENT, "thirds"))
        raise NotYet(
            description,
            actual,
            why="no compute set has that name.",
            next_step=near + "The names are shift, mirror and thirds.",
        )
    if set(map(plain, answer[1:])) != pair:
        why, advice = _wrong_pair(int(answer[1]), int(answer[2]))
        actual = (
            f"vertices {shown(answer[1])} and {shown(answer[2])}, but the detector finds two others"
        )
        raise NotYet(description, actual, why=why, next_step=advice, draws=draws)
    return Passed(f"the race detector agrees. {race.tried} {race.where}", evidence=race.where)


def _wrong_pair(lower: int, second: int) -> tuple[str, str]:
    """Return `(why, next step)` for two numbers that are not the vertices in the race."""
    pair = sorted((lower, second))
    why, advice = first(suspects("01.5"), lambda like: sorted(like[1:]) == pair)
    if why:
        return why, advice
    if lower == second:
        return "this is one vertex. A race needs two vertices.", "give the numbers of two vertices."
    if not 0 <= pair[0] <= pair[1] < THIRDS:
        return (
            f"thirds has only the vertices 0 to {THIRDS - 1}.",
            "count the vertices of that compute set, from 0.",
        )
    return (
        "these two vertices write different elements.",
        "write down where the range of each vertex begins and ends, and find two that overlap.",
    )


# --- asked again ----------------------------------------------------------------------------------


class Busy(SupervisorVertex):
    """A vertex that works for a given number of cycles."""

    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = 1.0


def _worked(*works: ByTile) -> Report:
    """Return the report of a run in which tile t works for `works[i][t]` cycles in superstep i."""
    graph = graph_of(len(works[0]))
    steps = program.Sequence()
    out = graph.add_variable(FLOAT, len(works[0]), "out")
    for work in works:
        busy = graph.add_compute_set("busy")
        for tile, cycles in enumerate(work):
            vertex = graph.add_vertex(busy, Busy, out=out[tile])
            graph.set_perf_estimate(vertex, cycles)
            graph.set_tile_mapping(vertex, tile)
            graph.set_tile_mapping(out[tile], tile)
        steps.add(program.Execute(busy))
    return run_once(graph, steps).report


def _one_slow_tile(draw: np.random.Generator) -> Drawn:
    tiles = int(draw.integers(20, 200))
    cycles = 100 * int(draw.integers(2, 9))
    extra = cycles * int(draw.integers(2, 8))
    even = [cycles] * tiles
    uneven = [*even[1:], cycles + extra]

    def answer() -> tuple[float]:
        even_cycles, uneven_cycles = (
            step.cost.compute_duration for step in _worked(even, uneven).steps()
        )
        return (round(uneven_cycles / even_cycles, 2),)

    asks = (
        f"{tiles} tiles work for {cycles} cycles each. Then one of them gets {extra:,} cycles more "
        "to do. How many times as long does the work of the whole machine take?"
    )
    return Drawn(asks, answer)


def _last_and_waiting(draw: np.random.Generator) -> Drawn:
    work = [10 * n for n in _distinct(draw, 60, TILES)]

    def answer() -> tuple[int, float]:
        worked = _worked(work).compute_sets[0].cycles_per_tile
        return int(worked.argmax()), round(1 - float(worked.mean() / worked.max()), 3)

    asks = (
        f"{TILES} tiles work for {', '.join(map(str, work))} cycles. Which of them finishes last, "
        "counted from 0, and which share of all tile-time is waiting?"
    )
    return Drawn(asks, answer)


SLOW_TILE = (PredictedValue("", "times as long"),)
WAITING = (
    PredictedValue("tile", whole=True, low=0, high=TILES - 1),
    PredictedValue("waiting share", low=0, high=1),
)
LATER = (
    later("01.0 again", SLOW_TILE, _one_slow_tile),
    later("01.3 again", WAITING, _last_and_waiting),
)

LESSON = lesson(
    "01",
    question("01.0", SLOW_TILE),
    exercise(
        "01.w1",
        warmups.formula(
            "01.w1",
            lambda size: -(-size // 4),
            (18,),
            (16,),
            (1,),
            (0,),
            (1001,),
            (12,),
            more=[(size,) for size in range(401)],
        ),
    ),
    exercise("01.1", _time),
    exercise(
        "01.w2",
        warmups.formula(
            "01.w2",
            lambda load: int(np.argmin(load)),
            ([30, 12, 45, 20],),
            ([5, 9, 5],),
            ([7],),
            ([60, 50, 40, 30, 20, 10],),
            ([2000, 1500],),
            ([5, 9, 3],),
            more=[(list(load),) for n in (1, 2, 3, 4) for load in product(range(1, 5), repeat=n)],
        ),
    ),
    exercise("01.2", _balance),
    question("01.3", WAITING),
    exercise("01.3", _share, precision=SHARE),
    exercise("01.4", _merge),
    exercise("01.5", _culprit, takes=("a value", "a graph")),
    later=LATER,
)
