"""Lesson 04, Vertices, codelets, compute sets: questions, correct results and known mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from types import EllipsisType
from typing import Protocol

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.bound import MEMORY_BYTES_PER_CYCLE, Bound
from ipu_course.checking.calling import Answer, Broken, answering, call, call_all
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import given_to, same
from ipu_course.checking.precision import in_float64
from ipu_course.checking.programs import SYNC, TILES, WORKERS
from ipu_course.checking.quoting import call_text, name_of, plain, quoted, returned, said_by
from ipu_course.checking.trial import Ran, Trial, Var, by_rows, codelet, codelet_of, sizes_of
from ipu_course.checking.verdict_panel import Bars, number
from ipu_course.checking.verdicts import MODELLED, NotAttempted, NotYet, Passed, refusing
from ipu_teach import FLOAT, Graph, InOut, Input, Output, Report, Vector, Vertex, show
from ipu_teach.cost.traced import VERTEX_OVERHEAD
from ipu_teach.errors import ComputeSetRaceError, UninitialisedReadError, counted
from ipu_teach.program import Program
from ipu_teach.show.touched import touched
from ipu_teach.show.view import View
from ipu_teach.types import Array

SLACK = 1.15  # The budget, as a multiple of the cycles that six workers need.
# The number of elements in the row whose cycles are measured.
MANY = 600
# The number of elements in a short row, where the remainder of the division by six matters most.
FEW = 11
NEAR = 0.1  # The allowed error, relative to the engine's cycles.

LOWEST = np.finfo(np.float32).min

accumulate = np.maximum.accumulate


# A function that returns (begin, end) of one of the pieces of a row.
Piece = Callable[[int, int], tuple[int, int]]
# A function that returns whether a codelet is right, or `...` while the gap is blank.
Test = Callable[[type[Vertex]], bool | EllipsisType]
BY_HAND = "trace the first few numbers by hand."


def _drawn(draw: np.random.Generator, *shape: int) -> Array:
    """Return different random multiples of 1/4, of both signs, as an array of this shape."""
    count = int(np.prod(shape))
    numbers: Array = (draw.permutation(4 * count + 60)[:count] - 2 * count) / 4
    return numbers.astype(np.float32).reshape(shape)


def _row(count: int, values: Sequence[Array], right: Sequence[Array], description: str) -> Trial:
    """Return a trial with a row `x` on tile 0, and a row `out` of the same length on the same tile.

    There is one run for each row of `values`; after run i, `out` must be `right[i]`.
    """
    tensors = {"x": Var(FLOAT, count, 0, values), "out": Var(FLOAT, count, 0, right=right)}
    return Trial(description, tensors, runs=len(values))


# --- 04.1 -----------------------------------------------------------------------------------------


def _rows_of_readings() -> dict[str, Array]:
    """Return {description of a case: three rows}, with one run for each row.

    The ordinary cases come first, and their rows begin far below 0.
    """
    draw = np.random.default_rng(401)
    cases = {f"of {length}": _drawn(draw, 3, length) for length in (TILES, 7, 97)}
    for rows in cases.values():
        rows[:, 0] = -99.5, -100.25, -101.75
        # In this row, the number with the largest absolute value is positive, so it is not the
        # smallest.
        rows[2, -2] = 120.25
    cases["all numbers are below 0"] = -np.abs(_drawn(draw, 3, 5))
    cases["the numbers have more digits than HALF"] = 1000 + _drawn(draw, 3, 5) / 64
    far = -np.abs(_drawn(draw, 3, 5)) * np.float32(2) ** 110
    far[:, 0] = LOWEST * np.array([1, 0.75, 0.5])
    cases["the numbers reach down to the lowest FLOAT"] = far
    cases["each row has only one number"] = _drawn(draw, 3, 1)
    cases["the numbers rise from left to right"] = np.sort(_drawn(draw, 27)).reshape(3, 9)
    cases["the numbers fall from left to right"] = -cases["the numbers rise from left to right"]
    return cases


def _one_long(rows: Array) -> Array:
    """Join all rows, and return the prefix maxima of this long row in the shape of `rows`."""
    maxima: Array = accumulate(rows.ravel()).reshape(rows.shape)
    return maxima


def _began(trial_run: Ran, rows: Array) -> tuple[str, str]:
    """Return `(why, next step)` if the maximum seems to begin with the first result of run 0.

    `why` is "" for any other result.
    """
    actual = [run["out"] for run in trial_run.came]
    first = actual[0][0]
    words = (
        f"the maximum begins at {number(float(first))}, as if that number was in front of the row"
    )
    if same(
        actual,
        list(_one_long(np.concatenate([np.full_like(rows[:, :1], first), rows], axis=1))[:, 1:]),
    ):
        return (
            f"{words}: it ignores all numbers below.",
            "let `best` begin below every number, at -np.inf.",
        )
    if same(actual, [np.maximum(first, accumulate(row)) for row in rows]):
        why = (
            f"each row begins at {number(float(first))} instead of the largest number of all "
            "earlier rows."
        )
        return why, "let `best` begin at -np.inf, and keep the largest number in it."
    return "", BY_HAND


def _refuse_constants(cls: type[Vertex]) -> None:
    """Raise `NotYet` if a class attribute is a number without a dtype.

    Without a dtype it is a constant of the class, and not a field of the vertex.
    """
    for name, value in vars(cls).items():
        if plain(value) is not None:
            why = (
                f"without a dtype, {name} is a constant of the class and not a field, so a vertex "
                "cannot store it."
            )
            declaration = f"{name}: FLOAT = {str(value).replace('inf', 'np.inf')}"
            advice = f"declare it as state: {declaration}"
            raise NotYet(
                "the fields of your codelet",
                f"{name} = {value}",
                expected=declaration,
                why=why,
                next_step=advice,
            )


def _prefix_max(answer: type[Vertex]) -> Passed:
    cls = codelet_of(answer, 'check("04.1")')
    _refuse_constants(cls)
    cases = _rows_of_readings()
    reports = []
    for special, rows in cases.items():
        description = (
            f"{len(rows)} rows of {counted(rows.shape[1], 'number')}, a run for each; the first "
            f"row is {quoted(rows[0])}"
        )
        trial = _row(rows.shape[1], [*rows], [*_one_long(rows)], description)
        trial = replace(trial, form=codelet, tiles=1)
        trial_run = trial.of(cls)
        reports.append(trial_run.report)
        if (difference := trial_run.wrong("out")) is None:
            continue
        run = difference.run
        right = difference.right
        actual = trial_run.came[run]["out"]
        why, advice = trial.reason(trial_run, "04.1")
        # This exercise is about the state that a vertex keeps, so the reason must name the state.
        if why.startswith("the first run is right"):
            why = (
                "the first row is right, but the second row should continue from the value of best."
            )
            advice = "trace best from the end of the first row into the second."
        empty = np.flatnonzero(np.isnan(actual))
        if not why and trial_run.unwritten("out"):
            why = "nothing is stored in `out`."
            advice = "write self.out[i] = … in the loop."
        elif not why and run == 0 and 1 < len(empty) == len(actual) - empty[0]:
            why = f"from index {empty[0]} on, nothing is stored."
            advice = "loop over all of x: range(len(self.x))."
        elif not why:
            why, advice = _began(trial_run, rows)
        if not why and run == 0 and np.array_equal(actual[:-1], right[:-1]):
            why = "only the last element is wrong."
            advice = "let the loop include the last index: range(n) ends at n - 1."
        elif not why and not special.startswith("of "):
            why = f"the ordinary rows are right. Special in these rows: {special}."
        place = int(np.argmax(actual != right))
        # show.turns() shows a single run, but in later runs the fault may come from earlier rows.
        if advice == BY_HAND and run == 0 and not np.isnan(actual[place]):
            call_shape = f'("out", {place}), x={rows[0].tolist()}, out={len(rows[0])}'
            advice = f"show.turns({cls.__name__}, {call_shape}) shows the iteration that wrote it."
        raise NotYet(
            description,
            f"in run {run + 1}, {difference.words}",
            expected=quoted(right),
            why=why,
            next_step=advice,
        )
    description = f"{len(cases)} times three rows of numbers, an engine run for each row"
    return Passed(description, evidence=reports)


# --- 04.2 -----------------------------------------------------------------------------------------


def six_workers_cycles(length: int) -> int:
    """Return the modelled cycles of the prefix maximum of `length` numbers on six threads.

    The threads compute the maximum of each sixth, and then the prefix maxima. According to
    docs/model.md, a loop iteration that compares takes 3 cycles, one that also stores takes 4, and
    a new maximum takes 1 more. Among n random numbers there are about ln(n) + 1/2 new maxima.
    """
    share = -(-length // WORKERS)
    new = round(float(np.log(share)) + 0.5)
    largest = VERTEX_OVERHEAD + 3 * share + new + 1
    prefix = VERTEX_OVERHEAD + 3 * (WORKERS - 1) + new + 4 * share
    return 2 * SYNC + WORKERS * (largest + prefix)


# A row length that is divisible by six, so that all ways to divide the row evenly give the same
# pieces. With such a row, mistakes other than wrong pieces can be recognised.
EVEN = 30


def _six(length: int, draw: np.random.Generator, description: str = "") -> Trial:
    """Return a trial with two rows, in which every number of row 1 is far below all of row 0.

    Row 1 begins with the lowest FLOAT. If a maximum is left over from the run of row 0, it is
    therefore larger than the right result for row 1, and the trial fails.
    """
    rows = _drawn(draw, 2, length)
    rows[1] = (rows[1] - np.float32(2 * np.abs(rows).max())) * np.float32(2) ** 110
    rows[1, 0] = LOWEST
    words = (
        f"{counted(length, 'number')}, and then {length} others"
        if length > 1
        else "one number, and then another"
    )
    return _row(length, [*rows], [*accumulate(rows, axis=1)], description or words)


def _in_six(answer: Callable[..., Program]) -> Passed:
    # With this seed, the maxima of the six pieces rise and fall if there are 97 numbers. So the
    # results of all known mistakes differ.
    draw = np.random.default_rng(4591)
    lengths = (97, 30, 7, 6, 5, 1)
    reports = []
    for length in lengths:
        trial = _six(length, draw)
        # The known mistakes give wrong results at the first length, so only the first trial looks
        # for them.
        known = length == lengths[0]
        trial_run = _through(answer, trial) if known else _through_short(answer, trial, length)
        reports.append(trial_run.report)
        _refuse_other_maxima(answer, trial_run, draw)
        why = (
            "some vertices are on other tiles, but the exercise is about the six workers of tile 0."
        )
        trial_run.refuse_other_tiles([0], why, "map every vertex and variable to tile 0.")
    many = _drawn(draw, 1, MANY)
    description = f"the cycles for {MANY} numbers"
    trial = _row(MANY, [*many], [*accumulate(many, axis=1)], description)
    trial_run = _through(answer, trial)
    _refuse_other_maxima(answer, trial_run, draw)
    bars = Bars(round(SLACK * six_workers_cycles(MANY)), trial_run.cycles, "modelled cycles")
    if bars.yours > bars.budget:
        why, advice = _idle_workers(trial_run.graph, trial_run.report)
        draws = partial(show.tile, trial_run.report, 0)
        raise NotYet(
            description,
            "the right numbers, but with too many cycles",
            why=why,
            next_step=advice,
            bars=bars,
            draws=draws,
        )
    _refuse_uneven_pieces(answer, draw)
    return Passed(
        f"{', '.join(map(str, lengths))} numbers, two runs each; below, {MANY} numbers",
        bars,
        [*reports, trial_run.report],
        bound=_least_on_one_tile(MANY),
    )


def _refuse_other_maxima(
    answer: Callable[..., Program], trial_run: Ran, draw: np.random.Generator
) -> None:
    """Raise `NotYet` if a run of the answer gave wrong maxima."""
    difference = trial_run.wrong("out")
    if difference is None:
        return
    trial = trial_run.trial
    length = len(difference.right)
    why, advice = trial.reason(trial_run, "04.2", runs=difference.run + 1)
    if not why and (even := _through(answer, _six(EVEN, draw))).wrong("out"):
        why, advice = even.trial.reason(even, "04.2", runs=difference.run + 1)
    if not why and length < WORKERS:
        why = _few(length)
    raise NotYet(
        trial.tried,
        f"in run {difference.run + 1}, {difference.words}",
        why=why,
        next_step=advice or BY_HAND,
    )


def _refuse_uneven_pieces(answer: Callable[..., Program], draw: np.random.Generator) -> None:
    """Raise `NotYet` if a short row takes too long because of the lengths of its pieces."""
    row = _drawn(draw, FEW)
    description = f"the cycles for {len(row)} numbers"
    run = _through(answer, _row(len(row), [row], [accumulate(row)], description))
    _refuse_other_maxima(answer, run, draw)
    bars = Bars(round(SLACK * six_workers_cycles(len(row))), run.cycles, "modelled cycles")
    pieces = [
        sizes
        for compute_set in run.graph.compute_sets
        for table in compute_set.tables.values()
        for field, sizes in sizes_of(run.graph, table).items()
        if table.edges[field].kind == "output" and max(sizes) - min(sizes) > 1
    ]
    if bars.yours > bars.budget and pieces:
        raise NotYet(
            description,
            "the right numbers, but with too many cycles",
            why=f"the pieces have {min(pieces[0])} to {max(pieces[0])} numbers, so the other "
            "workers wait for the longest.",
            next_step="let the lengths of the pieces differ by at most one.",
            bars=bars,
        )


def _least_on_one_tile(length: int) -> Bound:
    """Return a lower bound on the cycles to read and write `length` elements on one tile."""
    touched = 2 * FLOAT.size * length
    memory = -(-touched // MEMORY_BYTES_PER_CYCLE)
    why = f"1 sync ({SYNC}), {number(touched)} bytes of memory of one tile ({memory})"
    return Bound(SYNC + memory, MODELLED, why)


def _through(answer: Callable[..., Program], trial: Trial) -> Ran:
    """Return a run of the answer, which executes the program once for each row.

    :raises NotYet: if the answer fails in the same way as a known mistake.
    """
    run = trial.build(answer)
    try:
        run.run()
    except Broken as broken:
        raise trial.explained(run, broken, "04.2") from None
    return run


def _through_short(answer: Callable[..., Program], trial: Trial, length: int) -> Ran:
    """Return a run of an answer that was right for longer rows.

    :raises NotYet: if it reads unwritten elements, and there are fewer numbers than workers.
    """
    try:
        return trial.of(answer)
    except Broken as broken:
        if length >= WORKERS or not isinstance(broken.error, UninitialisedReadError):
            raise
        raise NotYet(
            trial.tried,
            said_by(broken.error),
            why=_few(length),
            next_step="write down (begin, end) of each piece of this row, and which vertex writes "
            "what another vertex reads.",
        ) from None


def _few(length: int) -> str:
    return f"longer rows are right, but this one has {counted(length, 'number')} for six workers."


def _reads_ahead(graph: Graph, name: str) -> tuple[str, str] | None:
    """Return `(why, next step)` if a vertex reads more than twice as much as any vertex writes.

    Only the compute set called `name` counts, and only if the numbers of elements that its vertices
    write differ by at most 1. In all other cases, return None.
    """
    sizes: dict[str, list[int]] = {"input": [], "output": []}
    for table in (
        t
        for compute_set in graph.compute_sets
        if compute_set.name == name
        for t in compute_set.tables.values()
    ):
        for field, field_sizes in sizes_of(graph, table).items():
            sizes.get(table.edges[field].kind, []).extend(field_sizes)
    read = sizes["input"]
    wrote = sizes["output"]
    if not wrote or max(wrote) - min(wrote) > 1 or max(read, default=0) <= 2 * max(wrote):
        return None
    why = (
        f"a vertex reads up to {max(read)} numbers before its own piece, so the last vertex takes "
        "longest."
    )
    return (
        why,
        "first let one vertex per piece find its largest number; then read only these numbers.",
    )


def _idle_workers(graph: Graph, report: Report) -> tuple[str, str]:
    """Return (why, next step) for a right program that takes too long on its tile."""
    sets = report.compute_sets
    maximum = max(profile.num_vertices for profile in sets)
    if len(sets) >= WORKERS and maximum < WORKERS:
        why = (
            f"{len(sets)} compute sets follow each other, and in each of them five workers "
            "are idle."
        )
        return why, "add independent vertices to the same compute set."
    if maximum < WORKERS:
        vertices = counted(maximum, "vertex", "vertices")
        return (
            f"no compute set has more than {vertices}, and a tile has six workers.",
            "divide the row into six pieces, with one vertex each.",
        )
    if maximum > WORKERS:
        return (
            f"there are {maximum} vertices in a compute set. A tile has six workers, and starting "
            "each vertex costs cycles.",
            "divide the row into six pieces, with one vertex each.",
        )
    cost = max((profile.cost for profile in sets), key=lambda cost: cost.compute_duration)
    busy = float(cost.active_cycles[0] / cost.compute_duration)
    longest = max(sets, key=lambda profile: profile.cost.compute_duration)
    if busy < 0.8 and (words := _reads_ahead(graph, longest.name)):
        return words
    if busy < 0.8:
        return (
            f"in the longest superstep the workers are busy for {100 * busy:.0f} % of the time.",
            "make the pieces equally long.",
        )
    return (
        "all six work, but each iteration of their loops costs too much.",
        "find the most expensive line of your codelets: show.code(observe(…)).",
    )


# --- 04.3 -----------------------------------------------------------------------------------------

# The maximum number of steps of a repaired program: copy, compute, copy back, and one to spare.
STEPS = 4


def _smoothed(row: Array) -> Array:
    """Return the average of each element and its right neighbour, computed from the old values."""
    return np.append((row[:-1] + row[1:]) / 2, row[-1:])


def _repaired(answer: Callable[..., Program]) -> Passed:
    draw = np.random.default_rng(403)
    reports = []
    for count in (TILES, 7, 29, 1):
        row: Array = (draw.permutation(16 * count)[:count] * 4).astype(np.float32)
        right = [_smoothed(row), _smoothed(_smoothed(row))]
        for shuffle in (None, 1, 2):
            order = (
                "in the order in which they were added" if shuffle is None else "in a random order"
            )
            description = f"{counted(count, 'number')} smoothed twice, with the vertices {order}"
            tensors = {"a": Var(FLOAT, count, by_rows, given=[row], right=right)}
            trial = Trial(description, tensors, runs=2, options={"shuffle": shuffle})
            try:
                run = trial.of(answer)
            except Broken as broken:
                raise _raced(trial, answer, broken) from None
            if difference := run.wrong("a"):
                why = (
                    "longer rows are right, but a row of one number has no neighbour."
                    if count == 1
                    else ""
                )
                message = f"in run {difference.run + 1}, {difference.words}"
                advice = BY_HAND
                if count > 1 and same(list(run.came[0]["a"][:-1]), list(right[0][:-1])):
                    advice = "leave the last number unchanged: it has no right neighbour."
                raise run.refused("04.3", message, quoted(difference.right), advice=advice, why=why)
            reports.append(run.report)
            steps = len(run.report.steps())
            if steps > STEPS:
                why = (
                    "each vertex runs in its own superstep: there is no race, but nothing is "
                    "parallel either."
                )
                advice = (
                    "put all vertices into one compute set, and let them read a copy of a that no "
                    "vertex writes."
                )
                bars = Bars(STEPS, steps, "supersteps")
                raise NotYet(
                    description,
                    f"right, in {counted(steps, 'superstep')}",
                    why=why,
                    next_step=advice,
                    bars=bars,
                )
    return Passed(
        "13, 7, 29 and 1 numbers, two runs each, with the vertices in three orders; the detector "
        "is silent",
        evidence=reports,
    )


def _raced(trial: Trial, answer: Callable[..., Program], broken: Broken) -> Exception:
    """Return the refusal of a race, with the results of a run without the race check.

    Any other error is returned unchanged.
    """
    error = broken.error
    if not isinstance(error, ComputeSetRaceError):
        return broken
    unchecked = [
        replace(trial, options={"strict": {"races": False}, "shuffle": seed}).of(answer)
        for seed in (None, 1)
    ]
    why = "one vertex writes a number that another vertex reads, and their order is not defined."
    if [run.wrong("a") is None for run in unchecked] == [True, False]:
        why += (
            " Without the check for races, the result is right if the vertices run in the order in "
            "which you added them, and wrong in another order."
        )
    advice = "let the vertices read from a variable that none of them writes."
    if "twice" in error.tried:
        why = "two vertices write the same number."
        advice = "let only one vertex write each number."
    message = f"ComputeSetRaceError: {error.tried} {error.where}"
    return NotYet(
        trial.tried,
        message,
        why=why,
        next_step=advice,
        draws=partial(_who_raced, trial, answer, error),
    )


def _who_raced(
    trial: Trial, answer: Callable[..., Program], error: ComputeSetRaceError
) -> View | None:
    """Return a view of the elements that the two racing vertices access.

    Return None if the error does not name two vertices.
    """
    pair = [int(number) for number in re.findall(r"vertex (\d+)", error.where)]
    name = re.search(r"compute set '(.*?)'", str(error))
    graph = trial.build(answer).graph
    named = [
        compute_set for compute_set in graph.compute_sets if name and compute_set.name == name[1]
    ]
    return touched(graph, named[0], pair) if named and len(pair) == 2 else None


# --- 04.4 -----------------------------------------------------------------------------------------


# Two of these codelets are right. Each of the others differs from a right one in one detail. The
# codelets have the same name, fields and docstring, and are in a new random order for each check.


class Row(Protocol):
    """The fields of the codelets below, as compute() sees them."""

    x: Array
    out: Array


def _right_loop(self: Row) -> None:
    best = np.float32(-np.inf)
    for i in range(len(self.x)):
        best = np.maximum(best, self.x[i])
        self.out[i] = best


def _right_backwards(self: Row) -> None:
    for i in range(len(self.x) - 1, -1, -1):
        self.out[i] = max(self.x[: i + 1])


def _off_by_one(self: Row) -> None:
    best = np.float32(-np.inf)
    for i in range(len(self.x)):
        if i == 0:
            best = self.x[0]
        self.out[i] = best
        if self.x[i] > best:
            best = self.x[i]


def _last_ignored(self: Row) -> None:
    best = np.float32(-np.inf)
    for i in range(len(self.x)):
        if (i == 0 or i < len(self.x) - 1) and self.x[i] > best:
            best = self.x[i]
        self.out[i] = best


def _from_zero(self: Row) -> None:
    best = np.float32(0)
    for i in range(len(self.x)):
        best = np.maximum(best, self.x[i])
        self.out[i] = best


def _from_far_below(self: Row) -> None:
    best = np.float32(-1000)
    for i in range(len(self.x)):
        best = np.maximum(best, self.x[i])
        self.out[i] = best


def _in_place(self: Row) -> None:
    for i in range(1, len(self.x)):
        self.x[i] = np.maximum(self.x[i - 1], self.x[i])
    self.out = self.x


def _whole_numbers(self: Row) -> None:
    best = np.int32(-(2**31))
    for i in range(len(self.x)):
        best = np.maximum(best, np.int32(self.x[i]))
        self.out[i] = best


def _nothing_right(self: Row) -> None:
    for i in range(len(self.x)):
        self.out[i] = min(self.x) - 1


def _codelet(compute: Callable[[Row], None]) -> type[Vertex]:
    """Return a codelet with this compute(); its name and fields do not reveal what it does.

    Some right and some faulty codelets have `x` as an InOut; the other codelets have it as an
    Input.
    """
    free = (_right_backwards, _in_place, _from_zero, _last_ignored)
    x = InOut[Vector[FLOAT]] if compute in free else Input[Vector[FLOAT]]
    fields = {"x": x, "out": Output[Vector[FLOAT]]}
    compute.__name__ = compute.__qualname__ = "compute"
    return type(
        "Candidate",
        (Vertex,),
        {"__annotations__": fields, "compute": compute, "__module__": __name__},
    )


RIGHT = (_right_loop, _right_backwards)
MUTANTS: tuple[tuple[Callable[[Row], None], str, str], ...] = (
    (
        _from_zero,
        "begins at 0 instead of the first number.",
        "add a row in which every number is below 0.",
    ),
    (
        _from_far_below,
        "begins at -1,000 instead of the first number, which is not low enough for every row.",
        "add a row in which every number is far below -1,000.",
    ),
    (
        _whole_numbers,
        "keeps its largest number as an integer, so fractions are lost.",
        "add a row of numbers with fractions.",
    ),
    (
        _last_ignored,
        "never looks at the last number.",
        "add a row whose last number is the largest.",
    ),
    (
        _off_by_one,
        "is one index late: element i leaves out number i.",
        "compare every element, in a row that rises in the middle.",
    ),
    (
        _in_place,
        "gives the right out, but changes x.",
        'compare the "x" that run_one returns with the row.',
    ),
)


def _accepts(answer: Test, codelet: type[Vertex]) -> bool:
    """Return whether the learner's test accepts a codelet; a failed assert rejects it.

    :raises NotYet: if the test returns neither True nor False.
    """
    description = f"{name_of(answer)} on a codelet"
    with answering(description):
        try:
            message = answer(codelet)
        except AssertionError:
            return False
    if message is ...:
        raise NotAttempted
    if not isinstance(message, (bool, np.bool_)):
        advice = "return False if something is wrong, and end with `return True`."
        if isinstance(message, np.ndarray) and message.dtype == bool:
            advice = (
                "an array of comparisons has one answer per element. np.array_equal returns one "
                "for the whole array."
            )
        raise NotYet(description, returned(message), expected="True or False", next_step=advice)
    return bool(message)


def _kills(answer: Test) -> Passed:
    description = "your test on two codelets that are right, and on six with a fault each"
    explanation = {}
    candidates = [*RIGHT, *(compute for compute, *_ in MUTANTS)]
    for place in np.random.default_rng().permutation(len(candidates)).tolist():
        of = _survives if place >= len(RIGHT) else _accepts
        compute = candidates[place]
        explanation[compute] = of(answer, _codelet(compute))
    right = [explanation[compute] for compute in RIGHT]
    alive = [(fault, advice) for compute, fault, advice in MUTANTS if explanation[compute]]
    _refuse_rejected(answer, description, right, alive)
    _refuse_accepted(answer, description, alive)
    evidence = [bool(explanation[compute]) for compute in candidates]
    return Passed(f"{description}: all six were found", evidence=evidence)


def _refuse_rejected(
    answer: Test,
    description: str,
    right: Sequence[bool | EllipsisType],
    alive: list[tuple[str, str]],
) -> None:
    """Raise `NotYet` if the learner's test rejects a right codelet.

    `right` has the test's verdicts on the right codelets. `alive` has (fault, advice) for each
    faulty codelet that the test accepts.
    """
    if not any(right) and len(alive) == len(MUTANTS):
        raise NotYet(
            description,
            "False for the right codelets, and True for all six faulty ones",
            expected="True for the right ones",
            why="True and False are swapped.",
            next_step="return True if everything is right, and False if something is not.",
        )
    if not any(right):
        why = "the test rejects every codelet, also the right ones."
        advice = "work out an expected row by hand: 3 1 4 gives 3 3 4."
        if alive:
            why = (
                f"the test rejects the right codelets, and accepts {len(alive)} of six faulty ones."
            )
            advice = "return True if everything is right, and False if something is not."
        with suppress(Broken), in_float64():
            if _accepts(answer, _codelet(RIGHT[0])):
                why = (
                    "the test rejects a right codelet, because it compares FLOAT results with "
                    "float64 "
                    "numbers."
                )
                advice = "convert the row to FLOAT first: np.asarray(row, np.float32)."
        raise NotYet(
            description,
            "False for a right codelet",
            expected="True",
            why=why,
            next_step=advice,
        )
    if not all(right):
        why = (
            "the test rejects one of the two right codelets. They compute the same in two "
            "ways, and one "
            "of them declares x as InOut."
        )
        raise NotYet(
            description,
            "False for a right codelet",
            expected="True",
            why=why,
            next_step="compare only values: x and out after the run.",
        )


def _refuse_accepted(answer: Test, description: str, alive: list[tuple[str, str]]) -> None:
    """Raise `NotYet` if the learner's test accepts a faulty codelet.

    `alive` has (fault, advice) for each such codelet.
    """
    if len(alive) == len(MUTANTS) and not _survives(answer, _codelet(_nothing_right)):
        raise NotYet(
            description,
            "True for all six faulty ones",
            expected="False",
            why="the test rejects a codelet that is wrong everywhere, but accepts codelets in "
            "which only "
            "some elements are wrong.",
            next_step="return False as soon as one row is wrong.",
        )
    if len(alive) == len(MUTANTS):
        why = "the test accepts every codelet."
        raise NotYet(
            description,
            "True for all six faulty ones",
            expected="False",
            why=why,
            next_step="run the codelet, and compare its result with the expected one.",
        )
    if alive:
        fault, advice = alive[0]
        verb = "was" if len(alive) == 1 else "were"
        actual = f"{len(alive)} of {len(MUTANTS)} faulty codelets {verb} accepted"
        raise NotYet(
            description,
            actual,
            expected="none",
            why=f"the first of these codelets {fault}".replace("..", "."),
            next_step=advice,
        )


def _survives(answer: Test, codelet: type[Vertex]) -> bool:
    """Return whether the learner's test accepts a faulty codelet.

    A test that ends with an error rejects the codelet.
    """
    try:
        return _accepts(answer, codelet)
    except Broken:
        return False


# --- 04.5 -----------------------------------------------------------------------------------------

# Each item is (number of elements in a row, number of new maxima among them).
LENGTHS = ((30, 4), (101, 5), (1000, 9), (64, 64), (40, 1), (7, 2), (2, 2), (1, 1))


@cache
def _measured(cls: type[Vertex], length: int, new: int) -> float:
    """Return the worker cycles of one vertex, as an engine counts them.

    The vertex's row has `length` numbers, the first `new` of which are new maxima.
    """
    description = f"the codelet on {counted(length, 'number')}"
    row = np.append(np.arange(1, new + 1), np.zeros(length - new)).astype(np.float32)
    trial = replace(_row(length, [row], [row], description), form=codelet, tiles=1)
    run = trial.of(cls)
    run.refuse_own_prices()
    return float(run.report.compute_sets[0].cost.compute_duration / WORKERS)


def _estimate(answer: Callable[..., float], codelets: type[Vertex]) -> Passed:
    cls = codelet_of(codelets, 'check("04.5")')
    right = [_measured(given_to("04.5")["Peaks"], *case) for case in LENGTHS]
    # mypy confuses Vertex.__hash__ with the hash of the class.
    if [_measured(cls, *case) for case in LENGTHS] != right:  # type: ignore[arg-type]
        raise NotYet(
            f"the codelet {cls.__name__}",
            "its cycles differ from those of the lesson's Peaks",
            expected="Peaks",
            why="the exercise asks for the cycles of Peaks as the lesson's cell defines it.",
            next_step='run the cell of Peaks again, and call check("04.5", estimate, Peaks).',
        )
    actual = []
    for case in LENGTHS:
        message = call(answer, *case)
        value = plain(message)
        # The value is NaN, infinite, or larger than every float.
        if value is None or not -1e300 < value < 1e300:
            words = returned(message, ", which is no number")
            raise NotYet(
                call_text(answer, case),
                words,
                expected="worker cycles, a number",
                next_step="return a number.",
            )
        actual.append(float(value))
    off = [abs(estimate - engine) / engine for estimate, engine in zip(actual, right, strict=True)]
    if max(off) <= NEAR:
        worst = int(np.argmax(off))
        farthest = counted(LENGTHS[worst][0], "number")
        return Passed(
            f"{len(LENGTHS)} lengths; the farthest off is {number(round(100 * off[worst], 1))} %, "
            f"for {farthest}",
            evidence=actual,
        )
    first = next(i for i, far in enumerate(off) if far > NEAR)
    why, advice = _misjudged(np.array(actual), np.array(right))
    length, new = LENGTHS[first]
    description = (
        f"{call_text(answer, LENGTHS[first])}: {counted(length, 'number')}, {new} of them larger "
        "than all before"
    )
    raise NotYet(
        description,
        f"{number(actual[first])} worker cycles",
        expected=f"{number(right[first])}, or within 10 %",
        why=why,
        next_step=advice,
    )


def _misjudged(actual: Array, right: Array) -> tuple[str, str]:
    """Return `(what the wrong estimate leaves out, next step)`."""
    lengths, new = np.array(LENGTHS).T

    def near(estimate: Array) -> bool:
        return bool((np.abs(actual - estimate) <= 0.02 * estimate + 0.5).all())

    if near(WORKERS * right):
        return (
            "these are cycles of the tile, six for each worker cycle.",
            "leave out the 6: the exercise asks for worker cycles.",
        )
    if near(right / WORKERS):
        return "this is divided by six, but a vertex has one worker.", "leave out the division."
    if near(right[0] - 4 * lengths[0] - new[0] + 4 * new):
        return (
            (
                "the cycles of an iteration are counted only for new largest numbers, not for all "
                "numbers."
            ),
            "multiply the cycles of an iteration by `length`, and add `new`.",
        )
    if near(right + lengths - 2 * new):
        why = (
            "one cycle is added for each number that is not a new largest number, but only the new "
            "ones cost that cycle."
        )
        return why, "add `new`, not `length - new`."
    if near(right + new):
        return (
            "each new largest number costs one cycle more, but this counts two."
        ), "add `new` once."
    if near(right - new):
        return (
            "each new largest number costs one cycle more, and this leaves the cycle out.",
            "add `new` once.",
        )
    if near(right - new + lengths):
        return (
            "the extra cycle of a new largest number is counted in every iteration, but it occurs "
            "only `new` times.",
            "add `new`, not `length`, for it.",
        )
    return _misjudged_lengths(actual, right, lengths, new)


def _misjudged_lengths(actual: Array, right: Array, lengths: Array, new: Array) -> tuple[str, str]:
    """Return `(what is wrong with how the estimate grows with the length, next step)`."""
    missing = right - actual
    if missing.min() > 0 and missing.max() - missing.min() <= 0.5:
        why = (
            f"{number(missing[0])} cycles are missing, at any length: they belong to the work "
            "outside the loop, which is done once."
        )
        return why, "add the cycles of the lines outside the loop, and of the start."
    if missing.max() < 0 and missing.max() - missing.min() <= 0.5:
        return (
            f"there are {number(-missing[0])} cycles too many, at any length.",
            "subtract these cycles: they do not grow with the length, so they are not in the loop.",
        )
    if reason := _of_new_ones(actual, lengths, new):
        return reason
    if np.ptp(actual) == 0:
        return (
            "the estimate is the same for every length."
        ), "multiply the cycles of an iteration by length."
    if np.ptp(actual / lengths) <= 1e-9 * np.abs(actual).max():
        return (
            "the estimate is proportional to the length, but the cycles outside the loop do not "
            "grow with the length.",
            (
                "compare the cycles of observe(…) for rows of 1 and of 2 numbers: the difference "
                "is one iteration."
            ),
        )
    return "", (
        "subtract observe(Peaks, x=[2], out=1).cycles from observe(Peaks, x=[2, 1], out=2).cycles: "
        "that is an iteration without a new largest number."
    )


def _of_new_ones(actual: Array, lengths: Array, new: Array) -> tuple[str, str] | None:
    """Return (why, next step) if the cycles per element are right, and no other mistake is known.

    The estimate is then `once + 4 * length + per_new * new`, for some `once` and `per_new`.
    """
    columns = np.stack([np.ones(len(new)), lengths, new], axis=1)
    (once, per_number, per_new), *_ = np.linalg.lstsq(columns, actual, rcond=None)
    fitted = columns @ np.array([once, per_number, per_new])
    if not np.allclose(fitted, actual, atol=1e-3) or abs(per_number - 4) > 1e-3:
        return None
    if abs(per_new - 1) < 1e-3:
        return None
    extra = f"{number(round(per_new, 2))} more" if abs(per_new) > 1e-3 else "nothing more"
    rest = f"{number(round(once, 2))} are" if abs(once) > 1e-3 else "nothing is"
    return (
        f"the cycles for each number are right. But here each new largest number costs {extra}, "
        f"and {rest} added once.",
        "subtract observe(Peaks, x=[2, 1], out=2).cycles from observe(Peaks, x=[1, 2], "
        "out=2).cycles: that is what one new largest number costs. The rest is done once.",
    )


def _on_tile_3(_: Answer, run: Ran) -> None:
    run.refuse_other_tiles(
        [3],
        "the vertex is mapped to another tile.",
        "map the vertex to tile 3: graph.set_tile_mapping(vertex, 3).",
    )
    count = sum(
        len(table)
        for compute_set in run.graph.compute_sets
        for table in compute_set.tables.values()
    )
    if count > 1:
        raise NotYet(
            run.trial.tried,
            f"out is right, but there are {count} vertices",
            expected="1",
            next_step="call graph.add_vertex once.",
        )
    run.refuse_unrepeatable("out")


def _pieces(answer: Piece) -> Passed:
    """Accept six consecutive pieces whose sizes differ by at most one.

    Several divisions satisfy this.
    """
    named = _even_pieces(answer, (97, 30, 5, 100))
    _even_pieces(answer, range(1, 61))
    return Passed(
        "97, 30, 5 and 100 numbers, and 1 to 60, in six pieces each", evidence=[*named.values()]
    )


def _even_pieces(answer: Piece, counts: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
    """Return {n: the six pieces of n numbers}.

    :raises NotYet: if they do not divide the numbers evenly.
    """
    counts = list(counts)
    pieces_of = call_all(answer, [(n, k) for n in counts for k in range(6)])
    actual = {n: pieces_of[6 * i : 6 * i + 6] for i, n in enumerate(counts)}

    def gives_the_same(like: Piece) -> bool:
        return all([like(n, k) for k in range(6)] == pieces for n, pieces in actual.items())

    for n, pieces in actual.items():
        if fault := _uneven(answer, n, pieces):
            advice = (
                f"write down (begin, end) of all six pieces of {n} numbers, and compare with what "
                "is expected."
            )
            raise refusing("04.w3", gives_the_same)(*fault, advice)
    return actual


def _uneven(answer: Piece, n: int, pieces: list[tuple[int, int]]) -> tuple[str, str, str] | None:
    """Return `(call, actual, expected)` if six pieces do not divide `n` elements evenly, else None.

    What is expected depends only on `n`, not on the other pieces.
    """
    pairs = list[tuple[int, int]]()
    for k, piece in enumerate(pieces):
        ends = [plain(end) for end in piece] if isinstance(piece, (tuple, list)) else []
        if len(ends) != 2 or not all(isinstance(end, int) for end in ends):
            return call_text(answer, (n, k)), quoted(piece), "(begin, end), two whole numbers"
        pairs.append((int(ends[0] or 0), int(ends[1] or 0)))
    sizes = [end - begin for begin, end in pairs]
    is_joined = [0, *(end for _, end in pairs)] == [*(begin for begin, _ in pairs), n]
    if is_joined and max(sizes) - min(sizes) <= 1:
        return None
    if is_joined:
        actual = f"pieces of {', '.join(map(str, sizes))}"
        return f"six pieces of {n}", actual, "sizes that differ by one at most"
    for k, (begin, end) in enumerate(pairs):
        for place, verb, at in ((k, "begins", begin), (k + 1, "ends", end)):
            if at not in (right := _borders(n, place)):
                expected = f"a piece that {verb} at {' or '.join(map(str, right))}"
                return call_text(answer, (n, k)), quoted(pairs[k]), expected
    k = next(k for k in range(5) if pairs[k][1] != pairs[k + 1][0])
    return (
        f"{name_of(answer)}({n}, {k}) and {name_of(answer)}({n}, {k + 1})",
        f"{pairs[k]} and {pairs[k + 1]}",
        "a piece that begins where the one before it ends",
    )


def _borders(n: int, place: int) -> range:
    """Return the elements at which a piece may begin if `n` elements are cut into six even pieces.

    `place` is the index of the piece. Pieces are even if their sizes differ by at most 1.
    """
    share, longer = divmod(n, 6)
    # The minimum number of earlier pieces that are longer by one.
    fewest = max(0, place - (6 - longer))
    return range(place * share + fewest, place * share + min(place, longer) + 1)


ROW = np.array([-1.5, 3, 0.25, 8, -6], np.float32)
HALF_A_ROW = {"x": Var(FLOAT, 5, 0, [ROW], kept=True), "out": Var(FLOAT, 5, 0, right=[ROW / 2])}
HALVES = Trial("5 numbers", HALF_A_ROW, form=codelet, tiles=1).twice()
# Maps the place of the largest number in a row to a row of 5 numbers.
WHERE = {"inside": ROW, "at the beginning": np.sort(ROW)[::-1], "at the end": np.sort(ROW)}
ONE_VERTEX = [
    Trial(
        f"a row of 5 numbers, with the largest {where}",
        {"x": Var(FLOAT, 5, 3, [row]), "out": Var(FLOAT, (), 3, right=[np.array(8.0)])},
    ).twice()
    for where, row in WHERE.items()
]


def _halves(answer: type[Vertex]) -> Passed:
    passed = warmups.vertex("04.w1", HALVES, "out")(answer)
    run = HALVES.of(answer)
    run.refuse_changed("read self.x[i], and store only in self.out[i].")
    run.refuse_unrepeatable("out")
    return passed


def _one_vertex(answer: Answer) -> Passed:
    evidence = [
        warmups.program("04.w2", trial, "out", _on_tile_3)(answer).evidence for trial in ONE_VERTEX
    ]
    return Passed(
        "rows of 5 numbers, with the largest inside, at the beginning and at the end",
        evidence=evidence,
    )


LESSON = lesson(
    "04",
    question("04.0", (PredictedValue("", "times as long"),)),
    exercise("04.w1", _halves, takes=("a codelet",)),
    exercise("04.1", _prefix_max, takes=("a codelet",)),
    exercise("04.w2", _one_vertex),
    exercise("04.w3", _pieces),
    exercise("04.2", _in_six),
    exercise("04.3", _repaired),
    exercise("04.4", _kills),
    exercise("04.5", _estimate, takes=("a function", "a codelet")),
)
