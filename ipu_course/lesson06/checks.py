"""Lesson 06, Profiling: the reports in the questions, correct results and known mistakes.

The reports are of random programs that this module builds. The right answers (which variables are
live, the bytes per tile, what was changed) are derived from the random choices, not from the
reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from types import EllipsisType
from typing import Generic, TypeVar, cast

import numpy as np

from ipu_course.checking.bound import least_cycles
from ipu_course.checking.calling import Answer, Broken, answering, call_made
from ipu_course.checking.comparing import compare_value, gives_alike
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import Reason, first, suspects
from ipu_course.checking.programs import (
    OTHER,
    SYNC,
    TILES,
    graph_of,
    loaded,
    run_once,
    tiles_of,
)
from ipu_course.checking.quoting import difference, name_of, plain, quoted, returned, said_by
from ipu_course.checking.trial import (
    Built,
    Parts,
    Ran,
    Trial,
    Var,
    by_rows,
    narrowed,
    refuse_fixed_tiles,
)
from ipu_course.checking.verdict_panel import Bars, number
from ipu_course.checking.verdicts import MODELLED, NotYet, Passed, raise_first, refusing
from ipu_teach import (
    FLOAT,
    HALF,
    INT,
    Engine,
    Graph,
    Input,
    Output,
    Report,
    Tensor,
    Vector,
    Vertex,
)
from ipu_teach.errors import GraphMemoryAllocationError, StreamConnectionError, counted
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence
from ipu_teach.report.host_trace import (
    COPY,
    ENGINE,
    ON_THE_CLOCK,
    STREAMS,
    TO_DEVICE,
    TO_HOST,
    HostEvent,
    HostTrace,
)
from ipu_teach.types import Array, DType

FLOAT_BYTES = 4
# (index of the fullest tile, index of the fullest step, names of the largest live variables)
Peak = tuple[int, int, list[str]]
# (bytes that are always live, maximum of the other live bytes over all steps)
Split = tuple[int, int]
Parted = TypeVar("Parted", bound=tuple[object, ...])


def _parts(result: Parted, description: str, expected: str, length: int) -> Parted:
    """Return the parts of an answer's result as a tuple, with numbers as plain Python numbers.

    :raises NotYet: if the result does not have `length` parts.
    """
    if not isinstance(result, (tuple, list, np.ndarray)) or len(result) != length:
        raise NotYet(
            description,
            returned(result),
            expected=expected,
            next_step="return all of these, in this order, separated by commas.",
        )
    numbers = tuple(value if (number := plain(value)) is None else number for value in result)
    return cast(Parted, numbers)


# --- 06.1 and 06.2: programs whose liveness is known ----------------------------------------------

NAMES = ("pixels", "edges", "corners", "blobs", "tracks", "votes", "ranks", "labels")
TABLE = "palette"  # The name of the constant in each program.
# The seeds of programs for which the wrong results of the known mistakes differ from one another.
# A test checks this.
CLEAR = (401, 2762, 3302)


class Layer(Vertex):
    """Fills `out` with the sum of the first elements of two variables."""

    x: Input[Vector[FLOAT]]
    y: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.x[0] + self.y[0]


class Fill(Vertex):
    """Fills `out` with 1, on a tile that has no elements of the variables that the step reads."""

    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = 1.0


@dataclass(frozen=True, eq=False)
class Layers:
    """A random program whose steps each read two variables and overwrite a third one.

    `names` has the names of the variables. `sizes`, int[variables, tiles], is the number of FLOATs
    of each variable on each tile. The last variable is a constant. Each element of `steps` is
    ((first variable read, second variable read), variable written). `away` has for each step the
    distance, in tiles, between its vertices and their data. The host may write the variables
    `writable`; they are always live, like the constant.
    """

    names: tuple[str, ...]
    sizes: Array
    steps: tuple[tuple[tuple[int, int], int], ...]
    away: tuple[int, ...]
    writable: tuple[int, ...] = ()

    @property
    def live(self) -> Array:
        """bool[steps, variables]: which variables are live before, during or after a step.

        A variable is live if this step accesses it, or a later step reads its current value.
        """
        is_live = np.zeros((len(self.steps), len(self.names)), bool)
        needed: set[int] = set()
        for place in reversed(range(len(self.steps))):
            reads, writes = self.steps[place]
            is_live[place, [*needed, *reads, writes]] = True
            needed = needed - {writes} | set(reads)
        is_live[:, self.always] = True
        return is_live

    @property
    def always(self) -> list[int]:
        """The variables that are always live."""
        return [*self.writable, len(self.names) - 1]

    @property
    def bytes(self) -> Array:
        """int64[variables]: the bytes of each variable on all tiles together."""
        total: Array = FLOAT_BYTES * self.sizes.sum(axis=1)
        return total

    @property
    def held(self) -> Array:
        """int64[steps, tiles]: the bytes of the variables that are live."""
        bytes_per_step: Array = FLOAT_BYTES * self.live.astype(np.int64) @ self.sizes
        return bytes_per_step

    @property
    def copies(self) -> Array:
        """int64[steps, tiles]: the bytes that vertices copied from other tiles."""
        rows = [
            np.roll(self.sizes[list({*reads, writes})].sum(axis=0), away) * bool(away)
            for (reads, writes), away in zip(self.steps, self.away, strict=True)
        ]
        bytes_per_step: Array = FLOAT_BYTES * np.array(rows)
        return bytes_per_step

    @property
    def split(self) -> Split:
        """The pair (bytes that are always live, maximum of the other live bytes)."""
        live = self.live.astype(np.int64)
        live[:, self.always] = 0
        return int(self.bytes[self.always].sum()), int((live @ self.bytes).max())

    def largest(self, places: Array, sizes: Array) -> list[str]:
        """Return the names of the three largest selected variables, the largest first.

        `places` is a mask that selects variables, and `sizes` has the size of each variable.
        """
        order = [int(i) for i in np.argsort(-sizes, kind="stable") if places[i]]
        return [self.names[i] for i in order[:3]]

    def report(self) -> Report:
        """Return the report of the compiled program."""
        tiles = self.sizes.shape[1]
        graph = graph_of(tiles)
        program = Sequence()
        tensors = []
        ends = np.cumsum(np.pad(self.sizes, ((0, 0), (1, 0))), axis=1).tolist()
        for name, end in zip(self.names, ends, strict=True):
            size = end[-1]
            constant = name == TABLE
            tensor = (
                graph.add_constant(FLOAT, (size,), 1, name)
                if constant
                else graph.add_variable(FLOAT, (size,), name)
            )
            graph.set_tile_mapping(tensor, [[(a, b)] for a, b in zip(end, end[1:], strict=False)])
            tensors.append(tensor)
        for variable in self.writable:
            graph.create_host_write(self.names[variable], tensors[variable])
        for place, ((x, y), out) in enumerate(self.steps):
            compute_set = graph.add_compute_set(f"find {self.names[out]} {place}")
            for tile in range(tiles):
                parts = [tensors[i][ends[i][tile] : ends[i][tile + 1]] for i in (x, y, out)]
                fields = dict(zip(("x", "y", "out"), parts, strict=True))
                has_all = all(part.num_elements for part in parts)
                vertex = (
                    graph.add_vertex(compute_set, Layer, fields)
                    if has_all
                    else graph.add_vertex(compute_set, Fill, out=fields["out"])
                )
                graph.set_tile_mapping(vertex, (tile + self.away[place]) % tiles)
            program.add(Execute(compute_set))
        return Engine(graph, program).report


def _layers(
    draw: np.random.Generator, tiles: int, variables: int, away: int = 0, again: bool = False
) -> Layers:
    """Return a program of steps, each of which reads the result of the step before it.

    Some steps also read the result of an earlier step. The vertices of all steps are `away` tiles
    from their data. With `again`, the first two variables are written a second time.
    """
    sizes = (
        2
        * draw.permutation(np.arange(20, 120))[: variables + 1, None]
        * draw.integers(1, 9, (variables + 1, tiles))
    )
    written = [*range(variables), *((0, 1) if again else ())]
    steps = [((variables, variables), 0)]
    for place in range(1, len(written)):
        before = written[place - 1]
        early = written[draw.integers(max(0, place - 3), place)]
        steps.append(((before, before if again else early), written[place]))
    names = (*draw.permutation(NAMES)[:variables].tolist(), TABLE)
    return Layers(names, sizes, tuple(steps), (away,) * len(steps))


def _copying(draw: np.random.Generator, tiles: int) -> Layers:
    """Return a program of three steps, the last of which needs copies of other tiles' data.

    Without copies, most bytes are live at the second step; with copies, at the last step.
    """
    scale = draw.integers(90, 110)
    sizes = np.array([20, 12, 12, 1])[:, None] * scale + 2 * draw.integers(0, 50, (4, tiles))
    names = (*draw.permutation(NAMES)[:3].tolist(), TABLE)
    return Layers(names, sizes, (((3, 3), 0), ((0, 0), 1), ((1, 1), 2)), (0, 0, 1))


def _on_one_tile(draw: np.random.Generator, tiles: int) -> Layers:
    """Return a program whose constant is on one tile, where it is larger than each variable.

    On all tiles together, each variable is larger than the constant.
    """
    case = _layers(draw, tiles, 4)
    sizes = case.sizes.copy()
    sizes[-1] = 0
    sizes[-1, 0] = sizes[:-1].sum(axis=1).min() - 1
    return replace(case, sizes=sizes)


def _peak(case: Layers) -> tuple[int, int]:
    """Return `(fullest tile, fullest step)`.

    The fullest step is the one with the most live bytes on all tiles together.
    """
    bytes_held = case.held + case.copies
    return int(bytes_held.max(axis=0).argmax()), int(bytes_held.sum(axis=1).argmax())


COPIES = "the last step fetches copies of other tiles' data"
HOST_WRITES = "the host may write two of the variables"


@cache
def _peak_cases() -> tuple[tuple[str, Layers], ...]:
    copies = "each tile fetches copies of data from the tile before it"
    return (
        *(("", _layers(np.random.default_rng([601, draw]), TILES, 7)) for draw in CLEAR),
        ("there are five tiles", _layers(np.random.default_rng(611), 5, 4)),
        ("there is one tile", _layers(np.random.default_rng(612), 1, 5)),
        ("one variable is on one tile", _on_one_tile(np.random.default_rng(614), 7)),
        ("only two variables are live", _layers(np.random.default_rng(613), 7, 1)),
        (copies, _layers(np.random.default_rng(622), 7, 1, away=1)),
        (HOST_WRITES, replace(_layers(np.random.default_rng(615), 7, 6), writable=(0, 5))),
        (COPIES, _copying(np.random.default_rng(631), TILES)),
        (COPIES, _copying(np.random.default_rng(632), 7)),
    )


def _peaks(answer: Callable[[Report], Peak]) -> Passed:
    wrong: list[tuple[NotYet, str]] = []
    expected = "a tile, a step, and three names"
    for special, case in _peak_cases():
        tiles = case.sizes.shape[1]
        description = (
            f"{name_of(answer)}(report) on a program of {counted(len(case.steps), 'step')} and "
            f"{counted(tiles, 'tile')}"
        )
        report = case.report()
        tile, step, names = _parts(call_made(answer, description, report), description, expected, 3)
        if isinstance(names, (str, EllipsisType)) or not all(
            issubclass(type(name), str) for name in _rows(names)
        ):
            advice = "return a list of names: [variable.name for variable in …]."
            raise NotYet(
                description,
                returned(names, " for the names"),
                expected="a list of names",
                next_step=advice,
            )
        words = [*map(str.__str__, _rows(names))]
        fault = None
        if not wrong:
            fault = _told(answer, case, report, tile=tile, step=step, names=words)
        if fault is not None:
            wrong.append((NotYet(description, *fault), special))
    raise_first(wrong)
    return Passed(
        f"{len(_peak_cases())} reports: their fullest tile, their fullest step, and what is live "
        "there",
        evidence=[_peak(case) for _, case in _peak_cases()],
    )


def _rows(names: list[str]) -> tuple[str | None, ...]:
    """Return the names as a tuple; (None,) if they are not a list."""
    return tuple(names) if isinstance(names, (list, tuple, np.ndarray)) else (None,)


def _told(
    answer: Callable[[Report], Peak],
    case: Layers,
    report: Report,
    *,
    tile: int,
    step: int,
    names: list[str],
) -> tuple[str, str, str, str] | None:
    """Return (actual, expected, why, next step) for the first wrong part of an answer to 06.1.

    `tile`, `step` and `names` are the parts that the answer returned for the report. Return None if
    all of them are right.
    """
    first_tile, place = _peak(case)
    largest = case.largest(case.live[place], case.bytes)

    def known(parts: int, advice: str) -> Reason:
        def first_parts(function: Callable[[Report], Peak]) -> Callable[[Report], object]:
            def of(report: Report) -> object:
                tile, step, names = function(report)
                return (plain(tile), plain(step), [*map(str, names)])[:parts]

            return of

        others = [*_peak_cases()[:2], _peak_cases()[-1]]
        reports = [(report,), *((other.report(),) for _, other in others)]
        alike = gives_alike(first_parts(answer), *reports)
        why, better = first(
            suspects("06.1"), lambda like: alike(first_parts(like)), tile=first_tile
        )
        return why, better or advice

    for value, row, right in ((tile, "tile", first_tile), (step, "step", place)):
        if plain(value) is None:
            why = f"the exercise asks for the number of the {row}, not for its row or its name."
            return f"{row} {quoted(value)}", f"{row} {right}", why, f"return {row}.number."
    if tile != first_tile:
        advice = "use max(report.compilation.tiles, key=…), and write the key."
        return f"tile {quoted(tile)}", f"tile {first_tile}", *known(1, advice)
    if step != place:
        advice = "use max(report.compilation.liveness_program_steps, key=…), and write the key."
        return f"step {quoted(step)}", f"step {place}", *known(2, advice)
    if names == largest:
        return None
    why, advice = known(3, "use report.variables.live_at(…).largest(…).")
    if not why and len(names) != len(largest):
        why = f"the answer has {counted(len(names), 'name')}, and should have {len(largest)}."
    return ", ".join(names) or "no name", ", ".join(largest), why, advice


# --- 06.2 -----------------------------------------------------------------------------------------


@cache
def _split_cases() -> tuple[tuple[str, Layers], ...]:
    draw = np.random.default_rng(602)
    return (
        ("", _layers(draw, TILES, 6, away=1)),
        ("", _layers(draw, TILES, 7, again=True)),
        ("", _layers(draw, 7, 5, away=2, again=True)),
        ("there is one tile", _layers(draw, 1, 4)),
        ("there is one step", _layers(draw, TILES, 1)),
        (HOST_WRITES, replace(_layers(draw, 7, 6, away=1), writable=(0, 5))),
        (COPIES, _copying(draw, TILES)),
        (COPIES, _copying(draw, 7)),
    )


def _splits(answer: Callable[[Report], tuple[int, int]]) -> Passed:
    wrong: list[tuple[NotYet, str]] = []
    expected = "two numbers of bytes"
    for special, case in _split_cases():
        report = case.report()
        description = (
            f"{name_of(answer)}(report) on a program of {counted(len(case.steps), 'step')}"
        )
        actual = _parts(call_made(answer, description, report), description, expected, 2)
        if any(plain(value) is None for value in actual):
            raise NotYet(
                description,
                returned(actual),
                expected=expected,
                next_step="return numbers of bytes: add up variable.bytes.",
            )
        if actual != (right := case.split) and not wrong:
            pairs = [(report, actual, right)]
            for _, other in (*_split_cases()[:2], *_split_cases()[-3::2]):
                # If the answer fails for this program, the program is left out.
                with suppress(Exception):
                    always, most = answer(other_report := other.report())
                    pairs.append((other_report, (always, most), other.split))
            why, advice = _missplit(pairs)
            message = f"{number(actual[0])} bytes always live, {number(actual[1])} bytes of others"
            wrong.append(
                (
                    NotYet(
                        description,
                        message,
                        expected=f"{number(right[0])} and {number(right[1])}",
                        why=why,
                        next_step=advice,
                    ),
                    special,
                )
            )
    raise_first(wrong)
    return Passed(
        f"{len(_split_cases())} reports, five of them with copies of other tiles' data, two with "
        "variables used twice, one with variables that the host may write",
        evidence=[case.bytes for _, case in _split_cases()],
    )


def _missplit(cases: list[tuple[Report, Split, Split]]) -> Reason:
    """Return `(why, next step)` for two wrong numbers of bytes.

    The reason is a known mistake that gives both numbers. Otherwise it is a pair of mistakes, one
    for each number; the file of mistakes does not list all pairs. `cases` has (report, actual,
    right).
    """

    def told_of(numbers: Callable[[Split, Split], Split]) -> Reason:
        def alike(like: Callable[[Report], Split]) -> bool:
            return all(
                tuple(like(report)) == numbers(actual, right) for report, actual, right in cases
            )

        return first(suspects("06.2"), alike)

    why, advice = told_of(lambda actual, right: actual)
    if not why:
        halves = [
            told_of(lambda actual, right: (actual[0], right[1])),
            told_of(lambda actual, right: (right[0], actual[1])),
        ]
        if all(why for why, _ in halves):
            why = " ".join(why for why, _ in halves)
            advice = halves[1][1]
    return (
        why,
        advice
        or "print report.variables.live_at(number) for steps 0, 1, 2, …, and add up the bytes.",
    )


def _copied(answer: Callable[[Report, int], int]) -> Passed:
    cases = [case for special, case in _split_cases() if special in ("", HOST_WRITES, COPIES)]
    for case in cases:
        report = case.report()
        copies = case.copies.sum(axis=1).tolist()
        for place, (away, right) in enumerate(zip(case.away, copies, strict=True)):
            description = f"{name_of(answer)}(report, {place}), with vertices "
            description += (
                f"{counted(away, 'tile')} away from their data" if away else "on their data's tiles"
            )
            actual = call_made(answer, description, report, place)
            if plain(actual) != right:
                live = "subtract the bytes of the step's variables from the bytes of the step."
                reports = {case: report, cases[0]: cases[0].report()}
                places = [(r, k) for c, r in reports.items() for k in range(len(c.steps))]
                refused = refusing("06.w1", gives_alike(answer, *places))
                message = returned(actual) if plain(actual) is None else number(actual)
                raise refused(description, message, number(right), live)
    about = (
        f"{len(cases)} reports, step by step, with vertices on their data's tile and on other tiles"
    )
    return Passed(about, evidence=[case.bytes for case in cases if any(case.away)])


# --- 06.3 -----------------------------------------------------------------------------------------

SENSORS = 13  # The number of sensors in the program that does not fit.
READINGS = 13_000  # The number of readings of each sensor in the program that does not fit.
# The allowed cycles, as a multiple of the cycles that the program would take if it did fit.
LONGER = 1.2


def cycles_if_it_fitted(sensors: int, readings: int) -> int:
    """Return the modelled cycles of summing all rows on tile 0, if the tile had enough memory.

    The fixed cost of steps is left out. According to docs/model.md, a FLOAT takes one cycle to
    arrive, half a cycle to be copied on its tile, and one and a half to be added.
    """
    arrive = (sensors - 1) * readings
    add = 1.5 * (sensors - 1) * readings
    return round(arrive + add + 2 * readings / 2)


def _fits(answer: Callable[..., Program]) -> Passed:
    draw = np.random.default_rng(603)
    for sensors, readings in (
        (SENSORS, 7),
        (5, 29),
        (SENSORS, 1),
        (1, 30),
        (SENSORS, 1_500),
        (SENSORS, READINGS),
    ):
        rows = (
            2 * draw.permutation(sensors * readings).reshape(sensors, readings)[:, ::-1] % 9973
            + 4097.0
        )
        tensors = {
            "readings": Var(FLOAT, rows.shape, by_rows, [rows.astype(np.float32)]),
            "total": Var(FLOAT, readings, 0, right=[rows.sum(axis=0)] * 2),
        }
        description = f"{counted(sensors, 'sensor')} of {counted(readings, 'reading')}"
        runs = 1
        if readings < READINGS:
            description = f"{description}, run twice"
            runs = 2
        trial = Trial(description, tensors, runs=runs)
        try:
            run = trial.of(answer)
        except Broken as broken:
            raise _too_large(broken, sensors) from None
        if difference := run.wrong("total"):
            raise NotYet(
                trial.tried, difference.came, quoted(difference.expected), *_missummed(run, rows)
            )
        run.refuse_moved()
        if sensors < SENSORS:
            refuse_fixed_tiles(trial, answer, OTHER, "total")
    bars = Bars(round(LONGER * cycles_if_it_fitted(SENSORS, READINGS)), run.cycles, MODELLED)
    if bars.yours > bars.budget:
        steps = run.report.num_steps
        minimum = 2 * SENSORS
        why = "the program fits, but it takes too long."
        advice = "add whole rows: there is enough memory for one row at a time."
        if steps > minimum:
            why = (
                f"it fits, but it has {counted(steps, 'superstep')}, and each takes time to start."
            )
        elif np.sum(run.report.exchange_bytes_per_tile[0]) > 1.5 * FLOAT_BYTES * rows[1:].size:
            why = "each row is sent twice: to another tile first, and from there to tile 0."
            advice = "map your own variables to tile 0, like total."
        raise NotYet(trial.tried, "the right sums, too slow", why=why, next_step=advice, bars=bars)
    fullest = int(run.report.memory.held_per_tile.max())
    bound = least_cycles(run.report, 1, crossing=FLOAT_BYTES * (SENSORS - 1) * READINGS)
    words = (
        f"{SENSORS} sensors of {READINGS:,} readings, and smaller cases; the fullest tile holds "
        f"{number(fullest)} bytes"
    )
    return Passed(words, bars, (run.cycles, fullest), bound=bound)


def _too_large(broken: Broken, rows: int) -> Exception:
    """Return an out-of-memory error as `NotYet`, with advice on the rows of this exercise.

    Any other error is returned unchanged.
    """
    if not isinstance(error := broken.error, GraphMemoryAllocationError):
        return broken
    message = (
        [cause.text for cause in error.why().causes[:2]]
        if error.report is not None
        else [error.tried]
    )
    advice = f"add the {rows} rows one after another, so that tile 0 holds one at a time."
    return NotYet(
        broken.tried,
        f"the program still does not fit. {message[0]}",
        expected="a program that fits",
        why=" ".join(message[1:]),
        next_step=advice,
    )


def _missing_rows(actual: Array, rows: Array) -> list[str]:
    """Return the numbers of the rows that are missing from the sum `actual`; [] if none are found.

    `actual` is compared with the sums of all selections of `rows`: 8,192 selections for 13 rows.
    """
    choices = np.array([*product((0, 1), repeat=len(rows))])
    matches = np.flatnonzero((choices @ rows[:, :4] == actual[:4]).all(axis=1))
    for chosen in choices[matches]:
        if chosen.any() and np.array_equal(chosen @ rows, actual):
            return [str(row) for row in np.flatnonzero(chosen == 0)]
    return []


def _missummed(run: Ran, rows: Array) -> Reason:
    """Return `(why, next step)` for wrong sums.

    The reason is a known mistake, or rows or elements that were left out.
    """
    wrong = run.wrong("total")
    assert wrong is not None
    why, advice = run.trial.reason(run, "06.3", runs=wrong.run + 1)
    if wrong.run and not why:
        why = "the first run is right, and the second run starts from changed data."
        advice = "begin the program with Copy(readings[0], total), and write to no other input."
        return why, advice
    actual = run.came[0]["total"]
    sums = np.cumsum(rows, axis=0)
    if not why and not np.isnan(actual).any():
        why, advice = narrowed(actual, sums[-1])
    for n in range(2, len(rows)):
        if not why and np.array_equal(actual, sums[n - 1]):
            why = f"these are the sums of the first {counted(n, 'row')}, not of all {len(rows)}."
            advice = f"add all {len(rows)} rows, one after another."
    if not why and (missing := _missing_rows(actual, rows)):
        listed = f"rows {', '.join(missing[:-1])} and {missing[-1]} of {len(rows)} are"
        if len(missing) == 1:
            listed = f"row {missing[0]} of {len(rows)} is"
        why = f"{listed} missing from the sums."
        advice = f"follow row {missing[0]}: in which step is it added?"
    right = actual == sums[-1]
    if not why and run.unwritten("total"):
        why = (
            "the program writes nothing to the tensor `total`. `total = …` changes no tensor, it "
            "only gives the name `total` to another tensor."
        )
        advice = "write to `total`: with Copy(…, total), or with popops.add_in_place."
    if not why and right.any() and not right[int(np.argmin(right)) :].any():
        why = "the totals of the first moments are right, but the later ones are missing."
        advice = "add the remaining moments, too."
    return why, advice or "compute total[0] by hand, row by row, and compare."


# --- 06.4: a report, and one of the same program with something changed ---------------------------

# The names of the second inputs of the steps. The first input of each step is the readings.
SIDES = ("weights", "limits", "scales", "offsets")
STEPS = ("blend", "clip", "score", "rank")
MAPPING, TYPE, SPLIT = KINDS = ("mapping", "type", "split")
# The index of the pair in which a variable is larger than another one in FLOAT, but smaller in
# HALF.
OVERTAKING = 10
# The index of the pair in which a variable moves to other tiles, but to the same number of tiles.
AS_MANY = 5


@dataclass(frozen=True)
class ReportPair:
    """Two reports of one program, before and after a change.

    `changed` is (variable that changed, step that uses the variable, kind of change from `KINDS`).
    """

    before: Report
    after: Report
    changed: tuple[str, str, str]

    @property
    def as_many(self) -> bool:
        """Whether the changed variable is on other tiles, but on the same number of tiles."""
        tiles = [
            {row.name: row.tiles for row in report.variables}[self.changed[0]]
            for report in (self.before, self.after)
        ]
        return self.changed[2] == MAPPING and tiles[0] == tiles[1]


# The (reason, next step) for an answer that misses a variable which moved to other tiles, but to
# the same number of tiles.
COUNTED = (
    "one variable is on other tiles than before. The number of its tiles is the same, so that "
    "number does not show it.",
    'print compare(before, after).of("variables"): the note of this variable says what changed.',
)

T = TypeVar("T")


class Work(Vertex, Generic[T]):
    """A vertex that adds up a part of its step's two inputs: the readings, and `side`."""

    x: Input[Vector[FLOAT]]
    side: Input[Vector[T]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x.sum() + self.side.sum()


@dataclass(frozen=True)
class Task:
    """A step of the program: it adds up the readings and a second input.

    `step` is the name of the step, and `side` the name of the second input. On each tile,
    `vertices` vertices add up `size` elements of the second input, which are of type `dtype`.

    The second input has a row for each tile. `together` consecutive rows share a tile, and each row
    is `beside` tiles away from the tile that uses it.
    """

    step: str
    side: str
    size: int
    dtype: type[DType] = FLOAT
    together: int = 1
    beside: int = 0
    vertices: int = 3

    @property
    def out(self) -> str:
        """The name of the variable that the step writes, with one number per vertex."""
        return f"{self.step} sums"


def _ran(tasks: Iterable[Task], readings: int) -> Report:
    """Return the report of a run that executes several tasks in sequence."""
    graph = graph_of()
    program = Sequence()
    x = graph.add_variable(FLOAT, (TILES, readings), "readings")
    for task in tasks:
        side = graph.add_variable(task.dtype, (TILES, task.size), task.side)
        out = graph.add_variable(FLOAT, (TILES, task.vertices), task.out)
        compute_set = graph.add_compute_set(task.step)
        for tile in range(TILES):
            graph.set_tile_mapping(x[tile], tile)
            graph.set_tile_mapping(side[tile], (tile // task.together + task.beside) % TILES)
            graph.set_tile_mapping(out[tile], tile)
            codelet = Work[task.dtype]  # type: ignore[name-defined]
            for i in range(task.vertices):
                learner_parts = [
                    slice(i * n // task.vertices, (i + 1) * n // task.vertices)
                    for n in (readings, task.size)
                ]
                fields = {
                    "x": x[tile, learner_parts[0]],
                    "side": side[tile, learner_parts[1]],
                    "out": out[tile, i],
                }
                graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, fields), tile)
        graph.set_initial_value(side, 1)
        program.add(Execute(compute_set))
    graph.set_initial_value(x, 1)
    return run_once(graph, program).report


def _pair(seed: int, kind: str, dtype: type[DType] = HALF) -> ReportPair:
    """Return a pair of reports with the same largest variable and the same longest step.

    `kind` is the kind of change. If the type changes, it changes between FLOAT and `dtype`.
    """
    draw = np.random.default_rng([604, seed])
    sizes = 12 * draw.permutation(np.arange(8, 30))[: len(STEPS)]
    which, longest = draw.permutation(len(STEPS))[:2].tolist()
    sizes[longest] = 3000
    named = zip(
        draw.permutation(STEPS).tolist(),
        draw.permutation(SIDES).tolist(),
        sizes.tolist(),
        strict=True,
    )
    tasks = [Task(*task) for task in named]
    if seed == AS_MANY:
        tasks[which] = replace(tasks[which], together=2)
    old = tasks[which]
    new = {
        MAPPING: replace(old, together=2 + seed % 3) if seed != AS_MANY else replace(old, beside=6),
        TYPE: replace(old, dtype=dtype),
        SPLIT: replace(old, vertices=6),
    }[kind]
    others = [*tasks[:which], new, *tasks[which + 1 :]]
    first, second = (_ran(of, 240) for of in ((tasks, others) if seed % 2 else (others, tasks)))
    return ReportPair(first, second, (old.out if kind == SPLIT else old.side, old.step, kind))


def two_reports() -> tuple[Report, Report]:
    """Return the reports of a program, and of the same program with one change."""
    pair = _pair(7, MAPPING)
    return pair.before, pair.after


@cache
def _pairs() -> tuple[ReportPair, ...]:
    return tuple(
        _pair(seed, kind) for seed, kind in enumerate((MAPPING, TYPE, SPLIT, TYPE, SPLIT, MAPPING))
    )


@cache
def _same_bytes() -> ReportPair:
    """Return two reports between which a variable changes from FLOAT to INT, of the same size."""
    return _pair(8, TYPE, INT)


def _changes(answer: Callable[[Report, Report], tuple[str, str, str]]) -> Passed:
    for pair in _pairs():
        description = f"{name_of(answer)}(before, after) on two reports"
        try:
            returned_value = call_made(answer, description, pair.before, pair.after)
        except Broken as broken:
            if not pair.as_many:
                raise
            raise NotYet(
                description, said_by(broken.error), ", ".join(pair.changed), *COUNTED
            ) from None
        if returned_value is None and pair.as_many:
            raise NotYet(description, "None", ", ".join(pair.changed), *COUNTED)
        message = _parts(
            returned_value, description, "a variable, a step, and what kind of change", 3
        )
        names = (str(getattr(part, "name", part)) for part in message)
        actual = tuple(str.removeprefix(name, "Execute ") for name in names)
        if actual[2] not in KINDS and not (pair.as_many and actual[0] != pair.changed[0]):
            raise NotYet(
                description,
                f"{quoted(message[2])} for the kind",
                expected="'mapping', 'type' or 'split'",
                next_step="return one of these three words.",
            )
        if actual != pair.changed:
            raise NotYet(
                description,
                ", ".join(actual),
                ", ".join(pair.changed),
                *_change_mistake(pair, actual),
            )
    return Passed(
        f"{len(_pairs())} pairs of reports, two with each kind of change",
        evidence=[pair.changed for pair in _pairs()],
    )


@cache
def _overtaking() -> tuple[ReportPair, ReportPair]:
    """Return two pairs of reports in which a variable becomes larger or smaller than another one.

    The second pair has the reports of the first in reverse order.
    """
    pair = _pair(OVERTAKING, TYPE)
    return pair, ReportPair(pair.after, pair.before, pair.changed)


def _retyped(answer: Callable[[Report, Report], str]) -> Passed:
    types = [pair for pair in _pairs() if pair.changed[2] == TYPE]
    for pair in [*types, *_overtaking(), _same_bytes()]:
        description = f"{name_of(answer)}(before, after) on two reports"
        actual = call_made(answer, description, pair.before, pair.after)
        if difference(actual, pair.changed[0]):
            advice = "return the name of the row whose note contains dtype."
            reports = [(pair.before, pair.after) for pair in (*_pairs(), *_overtaking())]
            refused = refusing("06.w2", gives_alike(answer, *reports))
            raise refused(description, returned(actual), quoted(pair.changed[0]), advice)
    return Passed("five pairs of reports", evidence=[pair.changed for pair in _pairs()])


def _change_mistake(pair: ReportPair, actual: tuple[str, ...]) -> tuple[str, str]:
    """Return `(why, next step)` for a wrong description of the change between two reports."""
    variable, step, kind = pair.changed
    sizes = {row.name: row.bytes for row in pair.before.variables}
    steps = {run.name: run.cycles for run in pair.before.steps()}
    note = "read the kind from the note of that variable: a dtype, a shape, or tiles."
    message = (
        (actual[0] not in steps and actual[0] != variable and pair.as_many, *COUNTED),
        (
            actual[0] in steps,
            "this is the name of a step. The variable comes first.",
            "return variable, step, kind, in this order.",
        ),
        (
            actual[0] != variable and actual[0] == max(sizes, key=lambda name: sizes[name]),
            "this is the largest variable, and it is the same in both reports.",
            "look for the variable that is different, not for the largest one.",
        ),
        (
            actual[0] in SIDES and kind == SPLIT,
            "this variable did not change. If another number of vertices shares the "
            "work, the variable that they write has another shape.",
            'print compare(before, after).of("variables"): it lists the variables that changed.',
        ),
        (
            actual[0] != variable,
            "this variable is the same in both reports.",
            'use the first row of compare(before, after).of("variables").',
        ),
        (
            actual[1] != step and actual[1] == max(steps, key=lambda name: steps[name]),
            "this step takes the longest, but equally long in both reports.",
            "look for the step whose cycles changed.",
        ),
        (
            actual[1] != step,
            "this step takes as long as before.",
            'use the first row of compare(before, after).of("cycles").',
        ),
        (
            kind == TYPE,
            "its tiles and its shape are the same. The variable has another dtype.",
            note,
        ),
        (
            kind == SPLIT,
            "its shape is different, because the work was divided among another number of "
            "vertices.",
            note,
        ),
        (True, "its dtype and its shape are the same. The variable is on other tiles.", note),
    )
    return next((why, advice) for holds, why, advice in message if holds)


# --- 06.5: a host that is slower than the device --------------------------------------------------

ROW = 52  # The number of FLOATs in a row.
WORK = 5_500  # The modelled cycles that a worker thread takes for a row.
EACH_READ = 100e-6  # The time of a read without its rows, in seconds.
EACH_ROW = 0.2e-6  # The time that each row adds to a read, in seconds.
AT_ONCE = 256  # The maximum number of rows in a read.
# The maximum fraction of the time that the device may wait.
STARVED = 0.05


class Disc:
    """Rows of numbers on a simulated disc, which can only be read.

    A read takes 100 microseconds, and 0.2 microseconds more for each row. `seconds` is the sum of
    these times; no real time passes.
    """

    def __init__(self, rows: Array) -> None:
        # One entry per read: (range of the rows that it returned, number of rows requested).
        log = self._log = list[tuple[range, int]]()
        places = range(len(rows))

        def read(first: int, count: int) -> Array:
            returned_rows = slice(first, first + min(count, AT_ONCE))
            log.append((places[returned_rows], count))
            block: Array = rows[returned_rows].copy()
            return block

        self._read = read
        self._length = len(rows)

    def __len__(self) -> int:
        return self._length

    def read(self, first: int, count: int) -> Array:
        """Return the existing rows from first to first + count - 1, at most 256 of them."""
        return self._read(first, count)

    @property
    def reads(self) -> int:
        """The number of reads."""
        return len(self._log)

    @property
    def seconds(self) -> float:
        """The total time of all reads, in seconds."""
        return EACH_READ * self.reads + EACH_ROW * sum(len(places) for places, _ in self._log)


# A function that yields the rows of a disc.
Feed = Callable[[Disc], Iterable[Array]]


def on_the_clock(feed: Feed, disc: Disc) -> Report:
    """Return the report of a run that takes the rows of a disc one by one from `feed(disc)`.

    In its host timeline, a read takes the time of the simulated disc, and a step takes its modelled
    time. The timeline is therefore the same in every run.
    """
    return _fed(feed, disc, "feed(disc)").report


@dataclass(frozen=True)
class _Fed:
    """The result of a run that was fed with the rows of a disc.

    `seen` has the rows that reached the device, and `first` is the time of the first row in
    seconds. `more` is True if the answer yielded more rows than the disc has.
    """

    report: Report
    seen: Array
    first: float
    more: bool


def _fed(feed: Feed, disc: Disc, description: str) -> _Fed:
    """Feed a program from a disc, and return its report with the values that reached the device."""
    graph = graph_of()
    row, out = (
        graph.add_variable(FLOAT, (TILES, ROW // TILES), name) for name in ("row", "settled")
    )
    compute_set = graph.add_compute_set("settle")
    for tile in range(TILES):
        vertex = graph.add_vertex(compute_set, Layer, x=row[tile], y=row[tile], out=out[tile])
        # With this much work per row, the host keeps up if it reads many rows at once, but not if
        # it reads row by row.
        graph.set_perf_estimate(vertex, WORK)
        for mapped in (row[tile], out[tile], vertex):
            graph.set_tile_mapping(mapped, tile)
    rows = graph.add_host_to_device_fifo("rows", FLOAT, ROW)
    settled = graph.add_device_to_host_fifo("settled", FLOAT, ROW)
    engine = loaded(
        graph,
        Repeat(len(disc), Sequence(Copy(rows, row), Execute(compute_set), Copy(row, settled))),
        description,
    )
    batches: list[Array] = []
    waits: list[float] = []
    source = call_made(feed, description, disc)
    with answering(description):
        if source is None or isinstance(source, (str, dict)) or not hasattr(source, "__iter__"):
            raise NotYet(
                description,
                returned(source),
                expected="a generator, which yields one row after another",
                next_step="write a loop with `yield row` in it.",
            )
        rest = iter(source)
        engine.connect_stream("rows", _timed(rest, disc, waits))
        engine.connect_stream("settled", batches)
        engine.run()
        options = next(rest, None) is not None
    report = engine.report
    actual = np.array(batches).reshape(-1, ROW)
    return _Fed(replace(report, host=_clocked(report, waits)), actual, waits[0], options)


def _timed(source: Iterable[Array], disc: Disc, waits: list[float]) -> Iterator[Array]:
    """Yield the rows of `source`; append the seconds that the disc took for each row to `waits`."""
    before = 0.0
    for row in source:
        waits.append(disc.seconds - before)
        before = disc.seconds
        yield row


def _clocked(report: Report, waits: Iterable[float]) -> HostTrace:
    """Return a host timeline of a run with simulated times.

    A step takes its modelled time, and a read of a row takes the next number of seconds of `waits`.
    """
    now = 0.0
    reading = iter(waits)
    events = []
    for step in report.steps():
        length = step.cycles / report.target.tile_clock_frequency
        size = FLOAT_BYTES * ROW
        wait = next(reading) if step.name == "rows" else 0.0
        if step.kind == COPY:
            way = TO_DEVICE if step.name == "rows" else TO_HOST
            events.append(
                HostEvent(
                    STREAMS,
                    f"{step.name}: {COPY}",
                    start=now,
                    duration=wait + length,
                    depth=1,
                    thread=0,
                    bytes=size,
                    direction=way,
                )
            )
        if wait:
            name = f"{step.name}: disc.read()"
            events.append(HostEvent(STREAMS, name, start=now, duration=wait, depth=2, thread=0))
        now += wait + length
    engine = HostEvent(ENGINE, ON_THE_CLOCK, start=0.0, duration=now, depth=0, thread=0)
    return HostTrace(events=[engine, *events])


def _feeds(answer: Feed) -> Passed:
    draw = np.random.default_rng(605)
    for number_of_rows in (5, 1, 256, 300, 1000):
        rows = draw.permutation(number_of_rows * ROW).astype(np.float32).reshape(-1, ROW)
        description = f"{name_of(answer)}(disc), with {counted(number_of_rows, 'row')} on the disc"
        disc = Disc(rows)
        try:
            fed = _fed(answer, disc, description)
        except Broken as broken:
            if (
                not isinstance(broken.error, StreamConnectionError)
                or "ran dry" not in broken.error.tried
            ):
                raise Broken(description, broken.error.__cause__ or broken.error) from None
            why, advice = _why_dry(disc)
            actual = (
                "the rows ran out after "
                f"{counted(int(broken.error.tried.split('gave')[1].split()[0]), 'row')}"
            )
            raise NotYet(
                description,
                actual,
                expected=f"all {number_of_rows}",
                why=why,
                next_step=advice,
            ) from None
        if not np.array_equal(fed.seen, rows):
            raise NotYet(description, *_row_mistake(rows, fed.seen))
    if fed.more:
        why = "a program that takes all rows of this generator would never finish."
        advice = "end after the last row of the disc, without an outer loop."
        raise NotYet(
            description, "it yields more rows after the last one", why=why, next_step=advice
        )
    if fed.first >= disc.seconds:
        why = "the whole disc was read before the first row was yielded. The host has no memory "
        why += "for a whole disc."
        advice = "yield the rows of one read before you read again."
        raise NotYet(
            description, "the right rows, from a copy of the disc", why=why, next_step=advice
        )
    share = fed.report.host.starved_share
    bars = Bars(100 * STARVED, 100 * share, "% of the time, waiting for the disc")
    if share > STARVED:
        why = (
            f"the disc was read {counted(disc.reads, 'time')} for {len(disc):,} rows, and a read "
            f"takes {EACH_READ * 1e6:g} µs."
        )
        raise NotYet(
            description,
            f"the device starves {100 * share:.0f} % of the time",
            why=why,
            next_step="read more rows at a time.",
            bars=bars,
        )
    return Passed(f"discs of 5 to {number_of_rows:,} rows; below, the largest", bars, fed.seen)


def _why_dry(disc: Disc) -> Reason:
    """Return `(why, next step)` for an answer that yields too few rows."""
    if not disc.reads:
        why = "the answer never called disc.read()."
        if len(disc) < AT_ONCE:
            rows = counted(len(disc), "row")
            why = f"the answer never called disc.read(), although the disc has {rows}. The last "
            why += f"read of a disc may return fewer than {AT_ONCE} rows."
        return why, f"begin a read at each row of range(0, len(disc), {AT_ONCE})."
    read = {row for places, _ in disc._log for row in places}
    missing = next((row for row in range(len(disc)) if row not in read), None)
    if missing is None:
        return "all rows were read, but not all of them were yielded.", "yield every row of a read."
    advice = "begin the next read after the last row that was returned."
    if any(count > AT_ONCE for _, count in disc._log):
        return f"a read returns at most {AT_ONCE} rows.", advice
    return f"row {missing} was never read.", advice


def _row_mistake(rows: Array, actual_rows: Array) -> tuple[str, str, str, str]:
    """Return `(actual, expected, why, next step)` for wrong rows."""
    place = int(np.argmax((rows != actual_rows).any(axis=1)))
    which = next((i for i, row in enumerate(rows) if np.array_equal(row, actual_rows[place])), -1)
    actual = (
        f"in step {place} the device got {f'row {which}' if which >= 0 else 'no row of the disc'}"
    )
    seen = {row.tobytes() for row in actual_rows}
    reads = [rows[first : first + AT_ONCE][::-1] for first in range(0, len(rows), AT_ONCE)]
    if np.array_equal(np.concatenate(reads), actual_rows):
        why = "the rows of each read are in reverse order."
        return actual, f"row {place}", why, "yield the rows of a read from the first to the last."
    if seen.issuperset(row.tobytes() for row in rows):
        why = "all rows are there, but in another order."
        return actual, f"row {place}", why, "yield the rows in the order they have on the disc."
    if which > place and seen.isdisjoint(row.tobytes() for row in rows[place:which]):
        return (
            actual,
            f"row {place}",
            f"{counted(which - place, 'row')} were left out.",
            "yield every row that was read.",
        )
    if which > place:
        return actual, f"row {place}", "", "yield the rows in the order they have on the disc."
    if which >= 0:
        return (
            actual,
            f"row {place}",
            "the device got this row before.",
            "begin the next read where the last one ended: at first + 256.",
        )
    return actual, f"row {place}", "", "yield the rows as disc.read returns them."


# --- 06.6 -----------------------------------------------------------------------------------------

MOMENTS = 600
CHANNELS = 78


class Total(Vertex):
    """A vertex that sums one channel."""

    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x.sum()


def sums_in_place_cycles(moments: int, channels: int, tiles: int = TILES) -> int:
    """Return the modelled cycles of the sums if no data has to be copied.

    The readings of each channel are then contiguous on the tile that adds them. According to
    docs/model.md, a worker thread needs 12 cycles and one more cycle for each FLOAT. Six worker
    threads alternate, so each of these cycles takes six cycles of the tile.
    """
    rounds = -(-channels // (6 * tiles))
    return SYNC + 6 * rounds * (moments + 12)


def _summing(description: str, values: Array) -> Trial:
    """Return a trial of answer(graph, moments, channels), which creates the tensor of readings.

    The trial adds one vertex for each channel, on consecutive tiles, which sums the channel.
    """

    def form(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
        channels = values.shape[1]
        readings = _tensor(answer, description, graph, *values.shape)
        sums = graph.add_variable(FLOAT, channels, "check sums")
        compute_set = graph.add_compute_set("sums")
        for channel in range(channels):
            vertex = graph.add_vertex(compute_set, Total, x=readings[:, channel], out=sums[channel])
            for part in (sums[channel], vertex):
                graph.set_tile_mapping(part, channel * trial.tiles // channels)
        with answering(description):
            graph.create_host_write("check readings", readings)
        return Execute(compute_set), [sums]

    def ready(run: Ran) -> None:
        run.engine.write_tensor("check readings", values)

    return Trial(description, {}, form=form, ready=ready)


def _places(answer: Callable[[Graph, int, int], Tensor]) -> Passed:
    draw = np.random.default_rng(606)
    for moments, channels in ((7, 13), (31, 5), (1, 26), (MOMENTS, CHANNELS)):
        description = f"{name_of(answer)}(graph, {moments}, {channels})"
        values = draw.permutation(moments * channels).reshape(moments, channels).astype(np.float32)
        run = _summing(description, values).of(answer)
        if not np.array_equal(run.result, values.sum(axis=0)):
            why = "some elements are in it more than once, so one reading overwrites another."
            advice = "create a variable of moments * channels elements."
            raise NotYet(
                description,
                "other sums",
                expected="one element for each reading",
                why=why,
                next_step=advice,
            )
    bars = Bars(round(1.05 * sums_in_place_cycles(MOMENTS, CHANNELS)), run.cycles, MODELLED)
    if bars.yours > bars.budget:
        trials = [run.trial, _summing("26 channels", draw.random((40, 26)).astype(np.float32))]
        cycles = [trial.of(answer).report.total_cycles for trial in trials]

        def takes_as_long(like: Answer) -> bool:
            return [trial.of(like).report.total_cycles for trial in trials] == cycles

        crossing = number(int(run.report.exchange_bytes_per_tile[0].sum()))
        known = first(suspects("06.6"), takes_as_long, crossing=crossing)
        reason = known if any(known) else _why_late(run.report)
        raise NotYet(description, "the right sums, too slow", "", *reason, bars)
    for moments, channels in ((7, TILES), (MOMENTS, CHANNELS)):
        _refuse_other_machine(answer, moments, channels)
    bound = least_cycles(run.report, 1, touched=FLOAT_BYTES * MOMENTS * CHANNELS)
    return Passed(
        f"four sizes, and two on {OTHER} tiles; below, {CHANNELS} channels of {MOMENTS} readings",
        bars,
        run.cycles,
        bound=bound,
    )


def _refuse_other_machine(
    answer: Callable[[Graph, int, int], Tensor], moments: int, channels: int
) -> None:
    """Raise `NotYet` if the sums are wrong, or slow, on a machine with another number of tiles."""
    values = np.arange(moments * channels, dtype=np.float32).reshape(moments, channels) % 997
    trial = _summing(f"{name_of(answer)}(graph, {moments}, {channels})", values).elsewhere(OTHER)
    alike = gives_alike(partial(_tiles_of_channels, answer), *LAYOUTS)
    refused = refusing("06.6", lambda like: alike(partial(_tiles_of_channels, like)))
    advice = "map channel c to tile c * tiles // channels, and round down last."
    try:
        run = trial.of(answer)
    except Broken as broken:
        raise refused(
            trial.tried, said_by(broken.error), "the same sums as on 13 tiles", advice
        ) from None
    if not np.array_equal(run.result, values.sum(axis=0)):
        raise refused(trial.tried, "other sums", "the same as on 13 tiles", advice)
    budget = round(1.05 * sums_in_place_cycles(moments, channels, OTHER))
    if run.cycles > budget:
        learner_tiles = _tiles_of_channels(answer, OTHER, channels)
        right = [channel * OTHER // channels for channel in range(channels)]
        place = next((c for c in range(channels) if learner_tiles[c] != right[c]), 0)
        raise refused(
            trial.tried,
            f"the right sums, too slow: channel {place} is on tile {learner_tiles[place]}",
            f"on tile {right[place]}",
            advice,
            bars=Bars(budget, run.cycles, MODELLED),
        )


# Each item is (number of tiles, number of channels).
LAYOUTS = ((OTHER, TILES), (OTHER, CHANNELS), (2 * TILES, CHANNELS), (20, 30))


def _tiles_of_channels(
    answer: Callable[[Graph, int, int], Tensor], tiles: int, channels: int
) -> list[int]:
    """Return the tile of the first element of each channel."""
    graph = graph_of(tiles)
    first_moment: list[int] = tiles_of(graph, answer(graph, 2, channels))[0].tolist()
    return first_moment


def _tensor(
    answer: Callable[[Graph, int, int], Tensor],
    description: str,
    graph: Graph,
    moments: int,
    channels: int,
) -> Tensor:
    """Return the tensor that an answer creates."""
    returned_value = call_made(answer, description, graph, moments, channels)
    if not isinstance(returned_value, Tensor):
        raise NotYet(
            description,
            returned(returned_value, ", which is no tensor"),
            expected="a tensor",
            next_step="return the tensor of the readings.",
        )
    if returned_value.dtype is not FLOAT:
        raise NotYet(
            description,
            f"a tensor of {returned_value.dtype.__name__}",
            expected="a tensor of FLOAT",
            why="the field x of the vertices is FLOAT, so they read no other dtype.",
            next_step="create the variable with graph.add_variable(FLOAT, …).",
        )
    if returned_value.shape != (moments, channels):
        why = (
            "its first dimension is the channels."
            if returned_value.shape == (channels, moments)
            else ""
        )
        expected = f"the shape {(moments, channels)}"
        raise NotYet(
            description,
            f"the shape {returned_value.shape}",
            expected=expected,
            why=why,
            next_step="return a view of that shape: use transpose(), which moves nothing.",
        )
    return returned_value


def _why_late(report: Report) -> tuple[str, str]:
    """Return `(what takes the cycles of the sums, next step)`."""
    crossing = int(report.exchange_bytes_per_tile[0].sum())
    pieces = next(
        (cause.text for cause in report.why().causes if "within its memory" in cause.text), ""
    )
    # The text is a line of report.why(). Its pronouns refer to the lines before it, so they are
    # replaced.
    pieces = pieces.replace("It spends", "A tile spends").replace(" of them ", " cycles ")
    why = (
        f"nothing is exchanged. {pieces} The readings of a channel are on the right tile, but not "
        "contiguously."
    )
    if not pieces:
        why = (
            f"{number(crossing)} bytes are exchanged: readings are on other tiles than the "
            "vertices that add them up."
        )
    elif crossing:
        why = f"{number(crossing)} bytes are exchanged. And {pieces[0].lower()}{pieces[1:]}"
    advice = "create a variable of shape (channels, moments): the last index changes fastest."
    return (
        why,
        "map channel c to the tile that adds it up: c * tiles // channels." if crossing else advice,
    )


def _order(answer: tuple[int, int]) -> Passed:
    places = np.arange(6).reshape(2, 3)
    right = int(places[0, 1]), int(places.transpose()[0, 1])
    about = "[0, 1] of a 2 x 3 variable, and of its transpose"
    advice = "write down all six elements in the order in which they are in memory."
    return compare_value(answer, right, "06.w3", about=about, advice=advice)


LESSON = lesson(
    "06",
    question("06.0", (PredictedValue("", "bytes", whole=True),)),
    exercise("06.1", _peaks),
    exercise("06.w1", _copied),
    exercise("06.2", _splits),
    exercise("06.3", _fits),
    exercise("06.w2", _retyped),
    exercise("06.4", _changes),
    exercise("06.5", _feeds),
    exercise("06.w3", _order, takes=("two numbers",)),
    exercise("06.6", _places),
)
