"""The exercises of lesson 01, Bulk synchronous parallel: what is asked, what is right, and known mistakes by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from heapq import heapify, heapreplace
from typing import Any

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Tensor, program
from ipu_teach.errors import ComputeSetRaceError, UninitialisedReadError, counted, did_you_mean, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.lessons.exercise import Exercise, Lesson, Part, Question
from ipu_teach.lessons.judging import (
    Broken,
    NotAttempted,
    NotYet,
    Passed,
    Suspect,
    answering,
    call,
    call_text,
    compare,
    difference,
    quoted,
)
from ipu_teach.lessons.panel import Bars, number

TILES = 13
BYTES_PER_CYCLE = 4  # each way and tile; derived from the tests of Graphcore's tutorial 6, see Target.exchange_bytes_per_cycle
SLACK = 1.05  # of the reference's cost

Row = Sequence[int]


def _step(work: Row, bytes_in: Row, bytes_out: Row, sync: int) -> int:
    slowest = int(np.maximum(bytes_in, bytes_out).max())
    return int(sync + -(-slowest // BYTES_PER_CYCLE) + np.max(work))


def _supersteps() -> list[tuple[list[int], list[int], list[int], int]]:
    """One tile, primes, as many as the lesson has, and more tiles than have anything to do."""
    draw = np.random.default_rng(101)
    cases = []
    for tiles in (1, 2, 7, TILES, TILES, 31):
        work, bytes_in, bytes_out = (draw.integers(1, most, tiles).tolist() for most in (500, 900, 900))
        cases.append((work, bytes_in, bytes_out, int(draw.integers(20, 200))))
    idle = [0] * (TILES - 3)
    cases.append(([120, 45, 7, *idle], [0, 18, 3, *idle], [21, 0, 0, *idle], 100))
    return cases


def _exchange(bytes_in: Row, bytes_out: Row) -> int:
    return -(-max(*bytes_in, *bytes_out) // BYTES_PER_CYCLE)


SUPERSTEP_MISTAKES = (
    Suspect(
        lambda work, i, o, sync: sync + _exchange(i, o) + sum(work),
        "the work of all tiles was added up. They work at the same time, so only the slowest counts.",
        "take the largest of work, not the sum.",
    ),
    Suspect(
        lambda work, i, o, sync: _exchange(i, o) + max(work),
        "the sync is missing: every superstep pays for the meeting, even if nobody is late.",
        "add sync.",
    ),
    Suspect(
        lambda work, i, o, sync: sync + -(-max(a + b for a, b in zip(i, o, strict=True)) // 4) + max(work),
        "what a tile receives and what it sends were added up. Both go on at the same time, each at 4 bytes a cycle.",
        "the exchange of a tile takes as long as the larger of the two.",
    ),
    Suspect(
        lambda work, i, o, sync: sync + max(*i, *o) // 4 + max(work),
        "some bytes were dropped: 18 bytes are 4 cycles and a half, and there is no half cycle.",
        "round the exchange up: -(-bytes // 4), or math.ceil.",
    ),
    Suspect(
        lambda work, i, o, sync: sync + max(*i, *o) / 4 + max(work),
        "a part of a cycle came out: 18 bytes are 4 cycles and a half, and there is no half cycle.",
        "round the exchange up: -(-bytes // 4), or math.ceil.",
    ),
    Suspect(
        lambda work, i, o, sync: sync + max(*i, *o) + max(work),
        "bytes were counted as cycles.",
        "a tile moves 4 bytes in a cycle: divide, and round up.",
    ),
    Suspect(
        lambda work, i, o, sync: sync + max(w + -(-max(a, b) // 4) for w, a, b in zip(work, i, o, strict=True)),
        "the two phases were added up tile by tile, as if a tile could compute while another still exchanges.",
        "take the slowest exchange of all tiles, then the slowest work of all tiles, and add the two.",
    ),
)


def _time(answer: Callable[..., Any]) -> Passed:
    return compare(answer, _step, _supersteps(), SUPERSTEP_MISTAKES)


# --- 01.2 -------------------------------------------------------------------------------------------------------------


def longest_first(jobs: Row, tiles: int) -> int:
    """Cycles of the fullest tile when jobs are dealt out longest first, each to the tile that has least so far.

    That is at most 4/3 - 1/(3 tiles) of the best there is (Graham, "Bounds on multiprocessing timing anomalies", 1969).
    """
    load = [0] * tiles
    heapify(load)
    for job in sorted(jobs, reverse=True):
        heapreplace(load, load[0] + job)
    return max(load)


def _in_given_order(jobs: Row, tiles: int) -> list[int]:
    load, placed = [0] * tiles, []
    for job in jobs:
        placed.append(load.index(min(load)))
        load[placed[-1]] += job
    return placed


def _job_lists() -> list[tuple[list[int], int]]:
    draw = np.random.default_rng(102)
    return [
        ([7], TILES),
        (draw.integers(1, 90, 5).tolist(), TILES),
        (draw.integers(1, 90, 97).tolist(), TILES),
        (sorted(draw.integers(1, 200, 40).tolist()), TILES),  # the long ones last
        ([*[10] * 24, *[100] * 3], 4),
        (draw.integers(1, 30, 11).tolist(), 1),
    ]


BALANCE_MISTAKES = (
    (lambda jobs, tiles: [i % tiles for i in range(len(jobs))], "this deals the jobs out in turn, however long each is."),
    (lambda jobs, tiles: [0] * len(jobs), "everything is on tile 0, and the other tiles wait for it."),
    (
        lambda jobs, tiles: [i * tiles // len(jobs) for i in range(len(jobs))],
        "each tile gets equally many jobs. Equally many are not equally long.",
    ),
    (_in_given_order, "each job goes to the emptiest tile, and yet the long ones come last, when there is no room left."),
)


def _balance(answer: Callable[..., Any]) -> Passed:
    cases = _job_lists()
    results = [call(answer, *case) for case in cases]
    worst: Bars | None = None
    for (jobs, tiles), placed in zip(cases, results, strict=True):
        tried = call_text(answer, (jobs, tiles))
        _all_placed(tried, jobs, tiles, placed)
        load = np.bincount(np.array(placed), jobs, tiles)
        bars = Bars(SLACK * longest_first(jobs, tiles), float(load.max()), "modelled cycles")
        if worst is None or bars.yours / bars.budget > worst.yours / worst.budget:
            worst, where = bars, (tried, int(load.argmax()), int(load.argmin()), load)
    assert worst is not None
    if worst.yours <= worst.budget:
        return Passed(f"{getattr(answer, '__name__', 'answer')} on {len(cases)} lists of jobs; below, the closest call", worst)
    tried, most, least, load = where
    why = next(
        (
            text
            for like, text in BALANCE_MISTAKES
            if all(list(like(*case)) == list(placed) for case, placed in zip(cases, results, strict=True))
        ),
        f"tile {most} has {number(load[most])} cycles to work, and tile {least} {number(load[least])}.",
    )
    advice = "which job is the hardest to place late? Place that one first."
    raise NotYet(tried, f"the fullest tile works {number(worst.yours)} cycles", "", why, advice, worst)


def _all_placed(tried: str, jobs: Row, tiles: int, placed: Any) -> None:
    """Raise `NotYet` unless there is one tile for each job."""
    if not isinstance(placed, (list, tuple, np.ndarray)):
        came = "nothing: is there a `return`?" if placed is None else shown(placed)
        raise NotYet(tried, came, "a list with a tile for each job", next_step="return the list of tile numbers.")
    if len(placed) != len(jobs):
        raise NotYet(
            tried,
            f"{counted(len(placed), 'tile number')} for {counted(len(jobs), 'job')}",
            why="a job without a tile is never done." if len(placed) < len(jobs) else "there are more tiles than jobs.",
            next_step="return one tile number for each job, in the order of jobs.",
        )
    strays = [tile for tile in placed if not is_whole(tile) or not 0 <= tile < tiles]
    if strays:
        raise NotYet(
            tried, f"a job on tile {shown(strays[0])}", f"tiles from 0 to {tiles - 1}", next_step="tiles count from 0."
        )


# --- 01.3 -------------------------------------------------------------------------------------------------------------


def _waiting(work: Row) -> float:
    slowest = np.max(work)
    return float(1 - np.mean(work) / slowest) if slowest else 0.0


def _workloads() -> list[tuple[list[int]]]:
    draw = np.random.default_rng(103)
    drawn = [(draw.integers(1, 999, tiles).tolist(),) for tiles in (1, 2, 7, TILES, 31)]
    return [*drawn, ([0] * 10 + [50, 20, 5],), ([0] * TILES,)]


def _or_zero(formula: Callable[[Row], float]) -> Callable[[Row], float]:
    return lambda work: formula(work) if max(work) else 0.0


WAITING_MISTAKES = (
    Suspect(
        _or_zero(lambda work: sum(work) / len(work) / max(work)),
        "this is the share of the time in which tiles work. The rest is waiting.",
        "subtract it from 1.",
    ),
    Suspect(
        _or_zero(lambda work: (max(work) - min(work)) / max(work)),
        "this is what the least busy tile waits. The others wait less.",
        "add up what every tile waits, and divide by all tile-time: tiles times the slowest.",
    ),
    Suspect(
        _or_zero(lambda work: sum(max(work) - w for w in work) / max(work)),
        "waiting was added up over all tiles, and divided by the time of one.",
        "divide by the number of tiles too.",
    ),
    Suspect(
        _or_zero(lambda work: sum(max(work) - w for w in work) / sum(work)),
        "this compares waiting with working. Asked is its share of everything, waiting and working together.",
        "divide by tiles times the slowest.",
    ),
    Suspect(
        lambda work: float(sum(max(work) - w for w in work)),
        "these are the cycles in which tiles wait, and not yet a share of all.",
        "divide by all tile-time: tiles times the slowest.",
    ),
)


def _share(answer: Callable[..., Any]) -> Passed:
    return compare(answer, _waiting, _workloads(), WAITING_MISTAKES)


# --- 01.4 -------------------------------------------------------------------------------------------------------------


def _merge(answer: Callable[..., Any]) -> Passed:
    draw = np.random.default_rng(104)
    steps = []
    for count in (TILES, 5, 1, 29):
        values = draw.integers(-9, 9, count).astype(np.float32)
        steps.append(_two_supersteps(answer, values))
    return Passed(f"the values of 4 rows of readings, and {max(steps)} supersteps in each run")


def _two_supersteps(answer: Callable[..., Any], values: Any) -> int:
    device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    graph, count = Graph(device), len(values)
    named: dict[str, Tensor] = {}
    for name in ("readings", "doubled", "pairs", "flipped"):
        named[name] = graph.add_variable(FLOAT, count, name)
        for i in range(count):
            graph.set_tile_mapping(named[name][i], i % TILES)
        graph.create_host_read(name, named[name])
    graph.set_initial_value(named["readings"], values)
    tried = f"a program for {counted(count, 'reading')}"
    with answering(tried):
        made = answer(graph, *named.values())
    if made is ...:
        raise NotAttempted
    if made is None:
        raise NotYet(tried, "nothing: is there a `return`?", "a program", next_step="return Sequence(Execute(…), Execute(…)).")
    try:
        with answering(tried):
            engine = Engine(graph, made)
            engine.load(device)
            engine.run()
    except Broken as broken:
        raise _explained(tried, broken) from None
    kinds = [step.kind for step in engine.report.steps()]
    right = {"doubled": 2 * values, "pairs": 2 * values + 2 * np.roll(values, -1), "flipped": -values}
    for name, expected in right.items():
        came = engine.read_tensor(name)
        if np.isnan(came).all():
            why = "no vertex writes it: merging supersteps keeps all of the work."
            raise NotYet(tried, f"{name} holds nothing", quoted(expected), why, f"put the vertices of {name} back.")
        where = difference(came, expected)
        if where:
            why = "it was made from readings, and not from doubled." if name == "pairs" else "the wrong vertices write it."
            raise NotYet(tried, f"{name}: {where}", quoted(expected), why, "compare with the three supersteps.")
    if len(kinds) > 2:
        why = "two of these steps do not need each other, and could share a compute set."
        advice = "which of the three reads only what was there from the beginning?"
        raise NotYet(tried, f"{len(kinds)} supersteps: {', '.join(kinds)}", "2", why, advice, Bars(2, len(kinds), "supersteps"))
    return len(kinds)


def _explained(tried: str, broken: Broken) -> Exception:
    """A race, or a read that comes too early, in the words of this exercise; any other error as it is."""
    error = broken.error
    if isinstance(error, ComputeSetRaceError):
        return NotYet(
            tried,
            f"ComputeSetRaceError: {error.tried}",
            why="one of these vertices needs what the other makes. That is a true dependency: a sync must lie between them.",
            next_step="put what reads doubled into the second compute set.",
        )
    if isinstance(error, UninitialisedReadError):
        return NotYet(
            tried,
            f"UninitialisedReadError: {error.tried}",
            why="a superstep reads what only a later one writes.",
            next_step="exchange the two Execute steps, or what is in them.",
        )
    return broken


# --- 01.5 -------------------------------------------------------------------------------------------------------------

INNOCENT = {
    "shift": "its vertices read the same elements, and reading together is no race: nobody's value changes by it.",
    "mirror": "its vertices write in another order than they read, but each element is written once.",
}


def _culprit(answer: Any, graph: Any) -> Passed:
    tried = f"the detector on every compute set, beside {shown(answer)}"
    if not isinstance(graph, Graph):
        raise NotYet(tried, f"{shown(graph)} is no graph", next_step='check("01.5", culprit, graph).')
    fits = isinstance(answer, (tuple, list)) and len(answer) == 3 and isinstance(answer[0], str)
    if not fits or not all(is_whole(vertex) for vertex in answer[1:]):
        raise NotYet(tried, shown(answer), '("name of the compute set", one vertex, the other)', next_step="give those three.")
    try:
        Engine(graph, program.Sequence())
    except ComputeSetRaceError as error:
        race = error
    else:
        raise NotYet(tried, "the detector finds nothing in this graph", next_step="run the cell that builds the graph again.")
    pair = {int(v) for v in re.findall(r"vertex (\d+)", race.where)}
    if f"compute set {answer[0]!r}" not in str(race):
        came = f"{answer[0]!r}, and the detector names another"
        if answer[0] in INNOCENT:
            raise NotYet(tried, came, "", INNOCENT[answer[0]], "look for a compute set in which two ranges of outputs overlap.")
        near = did_you_mean(answer[0], (*INNOCENT, "thirds"))
        raise NotYet(
            tried, came, "", "there is no compute set of that name.", near + "Names are those that the graph was given."
        )
    if set(answer[1:]) != pair:
        raise NotYet(
            tried,
            f"vertices {shown(answer[1])} and {shown(answer[2])}, and the detector names others",
            why="these two write different elements.",
            next_step="write down, for each vertex, where its range begins and ends.",
        )
    return Passed(f"the detector says the same. {race.tried} {race.where}")


LESSON = Lesson(
    "01",
    "Bulk synchronous parallel",
    45,
    (
        Question("01.0", "One slow tile", (Part("", "times as long"),)),
        Exercise(
            "01.1",
            "The time of a superstep",
            ("a function",),
            _time,
            (
                "Three things follow each other: sync, exchange, compute. None begins before the one before it has ended.",
                "Compute ends when the slowest tile is done. Which function of work is that?",
                "A tile's exchange takes as long as the larger of what it receives and what it sends, at 4 bytes a cycle, "
                "rounded up. The exchange ends with its slowest tile. Add the three.",
            ),
        ),
        Exercise(
            "01.2",
            "Rebalance the jobs",
            ("a function",),
            _balance,
            (
                "The superstep lasts as long as the fullest tile. So the next job belongs on the emptiest.",
                "Keep a list with the load of each tile; load.index(min(load)) is the emptiest one.",
                "The order matters: a long job that comes late sticks out. sorted(range(len(jobs)), key=…) gives the jobs' "
                "numbers in any order you like, and result[number] = tile puts each answer in its place.",
            ),
        ),
        Question("01.3", "The last tile, and the share of waiting", (
            Part("tile", whole=True, low=0, high=TILES - 1),
            Part("waiting share", low=0, high=1),
        )),
        Exercise(
            "01.3",
            "The share of waiting, worked out",
            ("a function",),
            _share,
            (
                "A tile that works for w cycles waits for max(work) - w.",
                "All tile-time is len(work) * max(work).",
                "Add up what all tiles wait and divide by all tile-time. Where max(work) is 0, there is nothing to divide by.",
            ),
        ),
        Exercise(
            "01.4",
            "Three supersteps into two",
            ("a function",),
            _merge,
            (
                "Write down for each of the three steps what it reads and what it writes.",
                "Two steps may share a compute set if neither reads or writes what the other writes.",
                "pairs reads doubled, so doubled must be ready. flipped reads only readings: it can go with either of the two.",
            ),
        ),
        Exercise(
            "01.5",
            "Point at the race",
            ("a value", "a graph"),
            _culprit,
            (
                "A race needs a writer. Compute sets in which vertices only read the same element are innocent.",
                "Follow the code for the last two vertices of each compute set: ends are where ranges go wrong.",
                "min(3 * i, 10) is there so that the last range does not run over the end. Where does it begin, and where did "
                "the one before it end?",
            ),
        ),
    ),
)  # fmt: skip
