"""The exercises of lesson 04, Vertices, codelets, compute sets: what is asked, what is right, and
known mistakes by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from ipu_teach import (
    FLOAT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Report,
    Tensor,
    Vector,
    Vertex,
)
from ipu_teach.cost.codelets import VERTEX_OVERHEAD
from ipu_teach.errors import (
    AnswerKindError,
    ComputeSetRaceError,
    UninitialisedReadError,
    counted,
    shown,
)
from ipu_teach.lessons.exercise import Exercise, Lesson, Part, Question
from ipu_teach.lessons.judging import (
    Broken,
    Mistake,
    NotAttempted,
    NotYet,
    Passed,
    answering,
    call,
    call_text,
    is_blank,
    known,
    name_of,
    plain,
    quoted,
    returned,
)
from ipu_teach.lessons.panel import Bars, number
from ipu_teach.lessons.programs import SYNC, TILES, WORKERS, graph_of, loaded, program_of
from ipu_teach.program import Execute, Program

SLACK = 1.15  # of what six workers need
MANY = 600  # numbers in the row whose cycles count
NEAR = 0.1  # of the engine's cycles

accumulate = np.maximum.accumulate


BY_HAND = "follow the first few numbers by hand."


def _known(mistakes: Iterable[Mistake], given: Any, came: Any) -> tuple[str, str]:
    """Why `came` is wrong and what to do, if it is what a known mistake makes of `given`."""
    return known(
        mistakes, lambda wrong: np.array_equal(wrong, came, equal_nan=True), BY_HAND, given
    )


def _drawn(draw: np.random.Generator, *shape: int) -> Any:
    """Numbers with quarters, of both signs, no two alike."""
    count = int(np.prod(shape))
    return (
        ((draw.permutation(4 * count + 60)[:count] - 2 * count) / 4)
        .astype(np.float32)
        .reshape(shape)
    )


def _codelet(answer: Any, call: str) -> type[Vertex]:
    """The answer, if it is a codelet that does something."""
    if not isinstance(answer, type) or not issubclass(answer, Vertex):
        advice = "give the class itself, which derives from Vertex, without brackets."
        raise AnswerKindError(
            f"{call} takes a codelet and was given {shown(answer)}.", next_step=advice
        )
    if answer.compute is Vertex.compute or is_blank(answer.compute):
        raise NotAttempted
    return answer


def _alone(codelet: type[Vertex], length: int, tried: str) -> Engine:
    """An engine with one vertex on one tile, from `check x` to `check out`."""
    graph = graph_of(1)
    x, out = (graph.add_variable(FLOAT, length, name) for name in ("x", "out"))
    compute_set = graph.add_compute_set("check")
    with answering(tried):
        vertex = graph.add_vertex(compute_set, codelet, x=x, out=out)
    for part in (x, out, vertex):
        graph.set_tile_mapping(part, 0)
    _handles(graph, x, out)
    return loaded(graph, Execute(compute_set), tried)


def _handles(graph: Graph, x: Tensor, out: Tensor) -> None:
    graph.create_host_write("check x", x)
    graph.create_host_read("check out", out)


def _run(engine: Engine, x: Any, tried: str) -> Any:
    """What `check out` holds after a run with these numbers."""
    with answering(tried):
        engine.write_tensor("check x", x)
        engine.run()
    return engine.read_tensor("check out")


def _where(came: Any, right: Any) -> tuple[int, str]:
    """The first place at which two rows differ, and what stands there, in words."""
    place = int(np.argmax(came != right))
    value = "nothing was written" if np.isnan(came[place]) else quoted(came[place])
    return place, f"out[{place}]: {value}, not {quoted(right[place])}"


# --- 04.1 -----------------------------------------------------------------------------------------


def _rows_of_readings() -> dict[str, Any]:
    """Three rows for each case, one for each run. The ordinary cases come first, and begin far
    below 0."""
    draw = np.random.default_rng(401)
    cases = {f"of {length}": _drawn(draw, 3, length) for length in (TILES, 7, 31)}
    for rows in cases.values():
        rows[:, 0] = -99.5, -100.25, -101.75
    cases["all of them are below 0"] = -np.abs(_drawn(draw, 3, 5))
    cases["there is one number in a row"] = _drawn(draw, 3, 1)
    cases["they rise all the time"] = np.sort(_drawn(draw, 27)).reshape(3, 9)
    cases["they fall all the time"] = -cases["they rise all the time"]
    return cases


def _one_by_one(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda rows: np.stack([one(row) for row in rows])


def _one_long(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda rows: one(rows.ravel()).reshape(rows.shape)


def _remembering(start: float, keep: Callable[[Any, Any], float]) -> Callable[[Any], Any]:
    """Prefix maxima that begin at `start` and then at what is kept of a row and its own prefix
    maxima."""

    def like(rows: Any) -> Any:
        found, best = [], start
        for row in rows:
            found.append(accumulate(np.append(np.float32(best), row))[1:])
            best = keep(row, found[-1])
        return np.stack(found)

    return like


def _only_new(rows: Any) -> Any:
    """What is in `out` if only a new largest is stored."""
    out, best, found = np.full_like(rows[0], np.nan), -np.inf, []
    for row in rows:
        for i, value in enumerate(row):
            if value > best:
                best = out[i] = value
        found.append(out.copy())
    return np.stack(found)


PREFIX_MISTAKES: tuple[Mistake, ...] = (
    (
        _remembering(-np.inf, lambda row, line: -np.inf),
        "each row begins anew: what was largest in the rows before is forgotten.",
        "begin with self.best, and see that self.best holds the largest when the row is over.",
    ),
    (
        _remembering(-np.inf, lambda row, line: row[-1]),
        "what it keeps for the next row is the last number, and not the largest.",
        "put the largest so far into self.best.",
    ),
    (
        _one_by_one(lambda x: accumulate(x[::-1])[::-1]),
        (
            "this looks at what comes after: the largest from each place to the end, the suffix "
            "maximum."
        ),
        "go through x from the front.",
    ),
    (
        _one_long(lambda x: np.append(np.float32(-np.inf), accumulate(x)[:-1])),
        (
            "each place holds the largest of those before it, without its own number: it is "
            "stored a "
            "line too early."
        ),
        "compare first, then store.",
    ),
    (
        _only_new,
        "something is stored only where a new largest comes. The places between get nothing.",
        "store in every turn of the loop: the line stands outside the if.",
    ),
    (
        lambda rows: np.full_like(rows, -np.inf),
        "the largest so far never changes: no number is ever taken for larger.",
        "which way round is the comparison?",
    ),
    (
        _one_long(np.minimum.accumulate),
        "these are the smallest so far.",
        "turn the comparison round.",
    ),
    (
        _one_by_one(lambda x: np.full_like(x, x.max())),
        "every place holds the largest of the whole row, as if it knew what comes.",
        "store within the loop, while the largest is still growing.",
    ),
    (
        lambda rows: rows,
        "out is x, as it came.",
        "store the largest so far, and not the number itself.",
    ),
    (
        _one_by_one(lambda x: np.maximum(x, np.append(x[0], x[:-1]))),
        "each number is compared with its neighbour alone.",
        "compare it with the largest of all before it: keep that in a variable.",
    ),
    (
        _one_long(lambda x: accumulate(np.trunc(x))),
        "the fractions are cut off on the way.",
        "keep the number as it is: best is a FLOAT, and int() is not needed.",
    ),
    (
        _one_long(np.cumsum),
        "the numbers are added up, as in RunningSum.",
        "keep the larger of the two instead of the sum.",
    ),
)


def _beginning(first: float) -> tuple[Mistake, ...]:
    """What goes wrong when the largest so far begins at `first`."""
    words = f"it begins at {number(first)}, as if there had been a {number(first)} before"
    return (
        (
            _remembering(first, lambda row, line: line[-1]),
            f"{words}: numbers below it never count.",
            "let best begin below every number: -np.inf.",
        ),
        (
            _remembering(first, lambda row, line: first),
            f"{words}, and that in each row. What the rows before had is forgotten, too.",
            "let best begin at -np.inf, and keep the largest in it.",
        ),
    )


def _prefix_max(answer: Any) -> Passed:
    codelet = _codelet(answer, 'check("04.1")')
    for name, value in vars(codelet).items():
        if plain(value) is not None:
            why = (
                "without a dtype it is a constant of the class, and no field: a vertex has no "
                "memory for it."
            )
            advice = f"declare it as state: {name}: FLOAT = {value}"
            raise NotYet(
                "the fields of your codelet",
                f"{name} = {value}",
                f"{name}: FLOAT = {value}",
                why,
                advice,
            )
    cases = _rows_of_readings()
    for special, rows in cases.items():
        tried = (
            f"{len(rows)} rows of {counted(rows.shape[1], 'number')}, a run for each; the "
            f"first row is {quoted(rows[0])}"
        )
        engine = _alone(codelet, rows.shape[1], tried)
        came = np.stack([_run(engine, row, tried) for row in rows])
        right = _one_long(accumulate)(rows)
        if np.array_equal(came, right):
            continue
        run = int(np.argmax((came != right).any(axis=1)))
        place, where = _where(came[run], right[run])
        why, advice = _known((*PREFIX_MISTAKES, *_beginning(float(came[0, 0]))), rows, came)
        if not why and run == 0 and np.array_equal(came[0][:-1], right[0][:-1]):
            why, advice = (
                "the last place is wrong, and only that one.",
                "where does the loop end? range(n) ends at n - 1.",
            )
        elif not why and np.isnan(came[run]).all():
            why, advice = "nothing was stored in out.", "write self.out[i] = … in the loop."
        elif not why and not special.startswith("of "):
            why = f"the other rows are right. What is special here: {special}."
        # a later row depends on those before
        if advice == BY_HAND and run == 0 and not np.isnan(came[0][place]):
            given = f'("out", {place}), x={rows[0].tolist()}, out={len(rows[0])}'
            advice = f"show.turns({codelet.__name__}, {given}) opens the turn that wrote it."
        raise NotYet(tried, f"in run {run + 1}, {where}", quoted(right[run]), why, advice)
    return Passed(f"{len(cases)} times three rows of numbers, an engine run for each row")


# --- 04.2 -----------------------------------------------------------------------------------------


def six_workers_cycles(length: int) -> int:
    """Modelled cycles of the prefix maximum of `length` drawn numbers on six workers: the largest
    of each sixth, then the rest.

    By docs/model.md: a turn that compares costs 3, one that stores as well 4, and a new largest 1
    more, of which n drawn numbers have some ln(n) + 1/2."""
    share = -(-length // WORKERS)
    new = round(float(np.log(share)) + 0.5)
    largest = VERTEX_OVERHEAD + 3 * share + new + 1
    prefix = VERTEX_OVERHEAD + 3 * (WORKERS - 1) + new + 4 * share
    return 2 * SYNC + WORKERS * (largest + prefix)


def _cuts(length: int) -> Iterator[list[int]]:
    """Where people cut a row into six; the last one drops the tail."""
    share = length // WORKERS
    yield [k * length // WORKERS for k in range(WORKERS + 1)]
    yield [min(k * -(-length // WORKERS), length) for k in range(WORKERS + 1)]
    yield [*(k * share for k in range(WORKERS)), length]
    yield [k * share + min(k, length % WORKERS) for k in range(WORKERS + 1)]
    yield [k * share for k in range(WORKERS + 1)]


def _pieced(cut: list[int], begins: Callable[[Any, int], float]) -> Callable[[Any], Any]:
    """Prefix maxima by pieces; `begins` says with what piece k begins, of the largest number of
    each piece."""

    def like(rows: Any) -> Any:
        found = []
        for row in rows:
            pieces = [row[a:b] for a, b in zip(cut, cut[1:], strict=False)]
            most = np.array([piece.max(initial=-np.inf) for piece in pieces], np.float32)
            line = [
                accumulate(np.append(np.float32(begins(most, k)), piece))[1:]
                for k, piece in enumerate(pieces)
            ]
            found.append(np.concatenate([*line, np.full(len(row) - cut[-1], np.nan, np.float32)]))
        return np.stack(found)

    return like


PIECE_MISTAKES: tuple[tuple[Callable[[Any, int], float], str, str], ...] = (
    (
        lambda most, k: -np.inf,
        "each piece begins anew, as if nothing had come before it: the merge is missing.",
        "give each piece the largest numbers of all pieces before it: before=most[:k].",
    ),
    (
        lambda most, k: most[k - 1] if k else -np.inf,
        "each piece knows of the piece before it, and of none before that.",
        "the largest may have come much earlier: before=most[:k] has all of them.",
    ),
    (
        lambda most, k: most[: k + 1].max(),
        "a piece begins with its own largest number, which it has not met yet.",
        "leave its own out: most[:k] ends before piece k.",
    ),
    (
        lambda most, k: most.max(),
        "every piece begins with the largest of all pieces, those after it too.",
        "piece k needs what came before it: most[:k].",
    ),
    (
        lambda most, k: most[: max(k - 1, 0)].max(initial=-np.inf),
        "each piece leaves out the piece just before it.",
        "most[:k] holds the pieces 0 to k - 1.",
    ),
)


def _six_mistakes(length: int) -> Iterator[Mistake]:
    """Each mistake about how a piece begins, by every cut; the tail that was dropped; the state
    that was kept."""
    dropped = (
        "the last numbers belong to no piece: dividing with // drops what does not come out even."
    )
    cuts = list(_cuts(length))
    for cut in cuts:
        for begins, why, advice in PIECE_MISTAKES:
            yield _pieced(cut, begins), why if cut[-1] == length else f"{why} And {dropped}", advice
    right = _pieced(cuts[-1], lambda most, k: most[:k].max(initial=-np.inf))
    yield right, dropped, "let piece k begin at k * n // 6; then the last one ends at n."
    why = (
        "the second run goes on where the first one ended. State lives from run to run, and "
        "these are two different rows."
    )
    yield _one_long(accumulate), why, "use codelets without state here."


def _in_six(answer: Callable[..., Any]) -> Passed:
    # the largest of the sixths of 97 rise and fall, so that no two mistakes give the same
    draw = np.random.default_rng(4591)
    lengths = (97, 30, 7, 6, 5, 1)
    for length in lengths:
        rows = _drawn(draw, 2, length)
        rows[1] -= np.float32(2 * np.abs(rows).max())  # so that what is left of the first run shows
        tried = (
            f"{counted(length, 'number')}, and then {length} others"
            if length > 1
            else "one number, and then another"
        )
        came, report = _through(answer, rows, tried)
        right = _one_by_one(accumulate)(rows)
        if not np.array_equal(came, right):
            run = int(np.argmax((came != right).any(axis=1)))
            why, advice = _known(_six_mistakes(length), rows[: run + 1], came[: run + 1])
            if not why and length < WORKERS:
                why = (
                    f"longer rows are right. What is special here: {counted(length, 'number')} "
                    f"for six workers."
                )
            raise NotYet(
                tried, f"in run {run + 1}, {_where(came[run], right[run])[1]}", "", why, advice
            )
        away = np.flatnonzero(np.asarray(report.compute_cycles_per_tile)[1:])
        if len(away):
            why = (
                "this is about the six workers of one tile: the numbers lie on tile 0, and each "
                "vertex belongs beside them."
            )
            raise NotYet(
                tried,
                f"work on tile {away[0] + 1}",
                "all of it on tile 0",
                why,
                "map every vertex and variable to tile 0.",
            )
    _, report = _through(answer, _drawn(draw, 1, MANY), tried := f"the cycles for {MANY} numbers")
    bars = Bars(
        round(SLACK * six_workers_cycles(MANY)), float(report.total_cycles), "modelled cycles"
    )
    if bars.yours > bars.budget:
        why, advice = _idle_workers(report)
        raise NotYet(tried, "the right numbers, too late", "", why, advice, bars)
    return Passed(
        f"{', '.join(map(str, lengths))} numbers, two runs each; below, {MANY} numbers", bars
    )


def _through(answer: Callable[..., Any], rows: Any, tried: str) -> tuple[Any, Report]:
    """What is in `out` after a run for each row, and the last report."""
    graph = graph_of()
    x, out = (graph.add_variable(FLOAT, rows.shape[1], name) for name in ("x", "out"))
    for tensor in (x, out):
        graph.set_tile_mapping(tensor, 0)
    _handles(graph, x, out)
    program = program_of(answer, tried, graph, x, out)
    try:
        engine = loaded(graph, program, tried)
        came = np.stack([_run(engine, row, tried) for row in rows])
        return came, engine.report
    except Broken as broken:
        error = broken.error
        if isinstance(error, ComputeSetRaceError):
            why = (
                "one vertex writes what another of the same compute set reads or writes: nobody "
                "knows who comes first."
            )
            advice = (
                "what reads the largest numbers goes into a second compute set. Does each "
                "piece have places of its own?"
            )
        elif isinstance(error, UninitialisedReadError):
            why = "it is read before it was written."
            advice = (
                "Sequence does things in the order in which they stand: first the largest "
                "numbers, then what reads them."
            )
        else:
            raise
        raise NotYet(tried, f"{type(error).__name__}: {error.tried}", "", why, advice) from None


def _idle_workers(report: Report) -> tuple[str, str]:
    """Why a right program takes too long on its tile, and what to do."""
    sets = report.compute_sets
    most = max(profile.num_vertices for profile in sets)
    if len(sets) >= WORKERS and most < WORKERS:
        why = (
            f"{len(sets)} compute sets follow each other, and in each of them five workers look on."
        )
        return why, "vertices that need not wait for each other go into one compute set."
    if most < WORKERS:
        return (
            (
                f"there are never more than {counted(most, 'vertex', 'vertices')} in a compute "
                f"set, "
                f"and a tile has six workers."
            ),
            "cut the row into six pieces, with a vertex each.",
        )
    cost = max((profile.cost for profile in sets), key=lambda cost: cost.compute_duration)
    busy = float(cost.active_cycles[0] / cost.compute_duration)
    if busy < 0.8:
        return (
            f"in the longest step the workers work for {100 * busy:.0f} % of the time.",
            "make the pieces equally long.",
        )
    return (
        "all six work, and each turn of their loops costs too much.",
        "what does observe say of your codelets, line by line?",
    )


# --- 04.3 -----------------------------------------------------------------------------------------

STEPS = 4  # of a repaired program at most: copy, compute, copy back, and one to spare


def _smoothed(row: Any, order: Iterable[int] | None = None) -> Any:
    """Each number and its right neighbour averaged: all from the old numbers, or in place in that
    order."""
    old = row.copy() if order is None else None
    new = row.copy()
    for i in range(len(row) - 1) if order is None else order:
        new[i] = (new[i] + (new if old is None else old)[i + 1]) / 2
    return new


def _twice(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda row: np.stack([one(row), one(one(row))])


SMOOTH_MISTAKES: tuple[Mistake, ...] = (
    (
        _twice(lambda x: x),
        "a is as it was: the new numbers did not get there.",
        "end with a Copy into a.",
    ),
    (
        _twice(lambda x: _smoothed(x, [*range(0, len(x) - 1, 2), *range(1, len(x) - 1, 2)])),
        (
            "the even places come first, so that the odd ones are averaged with neighbours that "
            "are "
            "new already."
        ),
        "every place needs its neighbour's old number: keep a copy of the old ones.",
    ),
    (
        _twice(lambda x: _smoothed(x, [*range(1, len(x) - 1, 2), *range(0, len(x) - 1, 2)])),
        (
            "the odd places come first, so that the even ones are averaged with neighbours that "
            "are "
            "new already."
        ),
        "every place needs its neighbour's old number: keep a copy of the old ones.",
    ),
    (
        _twice(lambda x: _smoothed(x, reversed(range(len(x) - 1)))),
        "from the last place to the first, each is averaged with a neighbour that is new already.",
        "every place needs its neighbour's old number: keep a copy of the old ones.",
    ),
    (
        _twice(lambda x: np.append(x[:1], (x[1:] + x[:-1]) / 2)),
        "each is averaged with its left neighbour, and not with its right one.",
        "the neighbour of place i is i + 1.",
    ),
    (
        _twice(lambda x: (x + np.roll(x, -1)) / 2),
        "the last number was averaged with the first. It has no right neighbour, and stays.",
        "there is one vertex less than there are numbers.",
    ),
    (
        _twice(lambda x: _smoothed(_smoothed(x))),
        "it was smoothed twice.",
        "execute the compute set once.",
    ),
)


def _repaired(answer: Callable[..., Any]) -> Passed:
    draw = np.random.default_rng(403)
    for count in (TILES, 7, 29, 1):
        row = np.float32(draw.permutation(16 * count)[:count] * 4)
        right = _twice(_smoothed)(row)
        for shuffle in (None, 1, 2):
            order = (
                "in the order in which they were added"
                if shuffle is None
                else "in an order drawn by chance"
            )
            tried = f"{counted(count, 'number')} smoothed twice, with the vertices {order}"
            graph, a = graph_of(), None
            a = graph.add_variable(FLOAT, count, "a")
            for i in range(count):
                graph.set_tile_mapping(a[i], i % TILES)
            _handles(graph, a, a)
            program = program_of(answer, tried, graph, a)
            came, report = _smooth_runs(graph, program, row, right, tried, shuffle)
            if not np.array_equal(came, right):
                run = int(np.argmax((came != right).any(axis=1)))
                why, advice = _known(SMOOTH_MISTAKES, row, came)
                where = _where(came[run], right[run])[1].replace("out[", "a[")
                if not why and count == 1:
                    why = (
                        "longer rows are right. What is special here: there is one number, and "
                        "it has no neighbour."
                    )
                raise NotYet(tried, f"in run {run + 1}, {where}", quoted(right[run]), why, advice)
            steps = len(report.steps())
            if steps > STEPS:
                why = (
                    "they come one after another: that is no race, and no parallel machine "
                    "either. Each waits for a sync."
                )
                advice = (
                    "let all of them work in one compute set, on numbers that nobody changes "
                    "meanwhile."
                )
                bars = Bars(STEPS, steps, "supersteps")
                raise NotYet(
                    tried, f"right, in {counted(steps, 'superstep')}", "", why, advice, bars
                )
    return Passed(
        "13, 7, 29 and 1 numbers, two runs each, with the vertices in three orders; the "
        "detector "
        "is silent"
    )


def _smooth_runs(
    graph: Graph,
    program: Program,
    row: Any,
    right: Any,
    tried: str,
    shuffle: int | None,
    **checks: Any,
) -> tuple[Any, Report]:
    """What `a` holds after the first run and after the second, and the report of the first."""

    def ran(**options: Any) -> tuple[Any, Report]:
        with answering(tried):
            engine = Engine(graph, program, **options)
            engine.load(IPUModel("ipu2", tiles_per_ipu=TILES).create_device())
            came = [_run(engine, row, tried)]
            report = engine.report
            engine.run()
        return np.stack([*came, engine.read_tensor("check out")]), report

    try:
        return ran(shuffle=shuffle)
    except Broken as broken:
        error = broken.error
        if not isinstance(error, ComputeSetRaceError):
            raise
        unseen = [
            np.array_equal(ran(strict={"races": False}, shuffle=seed)[0], right)
            for seed in (None, 1)
        ]
        why = "one vertex writes what another one reads, and nobody knows who comes first."
        if unseen == [True, False]:
            why += (
                " Unchecked, it is right in the order in which the vertices were added, and "
                "wrong in another."
            )
        advice = (
            "let the vertices read from somewhere that none of them writes: a copy of the "
            "old numbers."
        )
        if "twice" in error.tried:
            why, advice = "two vertices write the same number.", "give each number to one vertex."
        raise NotYet(
            tried, f"ComputeSetRaceError: {error.tried} {error.where}", "", why, advice
        ) from None


# --- 04.4 -----------------------------------------------------------------------------------------


class RightLoop(Vertex):
    """Right: a loop that reads each number once."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        best = self.x[0]
        for i in range(len(self.x)):
            best = np.maximum(best, self.x[i])
            self.out[i] = best


class RightBackwards(Vertex):
    """Right: for each place, from the last one on, it looks at all before it; and x is an InOut
    that it leaves alone."""

    x: InOut[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x) - 1, -1, -1):
            self.out[i] = max(self.x[: i + 1])


class OffByOne(RightLoop):
    """Faulty: each place lacks its own number."""

    def compute(self) -> None:
        best = self.x[0]
        for i in range(len(self.x)):
            self.out[i] = best
            if self.x[i] > best:
                best = self.x[i]


class LastIgnored(RightLoop):
    """Faulty: the last number is never looked at."""

    def compute(self) -> None:
        best = self.x[0]
        for i in range(len(self.x)):
            if i < len(self.x) - 1 and self.x[i] > best:
                best = self.x[i]
            self.out[i] = best


class FromZero(RightLoop):
    """Faulty: begins at 0."""

    def compute(self) -> None:
        best = np.float32(0)
        for i in range(len(self.x)):
            best = np.maximum(best, self.x[i])
            self.out[i] = best


class InPlace(RightBackwards):
    """Faulty: uses x as its scratch paper."""

    def compute(self) -> None:
        for i in range(1, len(self.x)):
            self.x[i] = np.maximum(self.x[i - 1], self.x[i])
        self.out = self.x


class WholeNumbers(RightLoop):
    """Faulty: holds the largest so far in a whole number."""

    def compute(self) -> None:
        best = np.int32(self.x[0])
        for i in range(len(self.x)):
            best = np.maximum(best, np.int32(self.x[i]))
            self.out[i] = best


MUTANTS: tuple[tuple[type[Vertex], str, str], ...] = (
    (
        FromZero,
        "begins at 0 instead of the first number.",
        "is there a row among yours in which every number is below 0?",
    ),
    (
        WholeNumbers,
        "holds its largest in a whole number, so that fractions are cut off.",
        "use numbers with fractions.",
    ),
    (
        LastIgnored,
        "never looks at the last number.",
        "that shows only where the last number is the largest.",
    ),
    (
        OffByOne,
        "is one place late: each place lacks its own number.",
        "compare every place, in a row that rises somewhere in the middle.",
    ),
    (
        InPlace,
        "gives the right out, and changes x on the way.",
        'x is an input, and others read it too: look at what run_one gives back as "x".',
    ),
)


def _accepts(answer: Callable[..., Any], codelet: type[Vertex]) -> bool:
    """Whether the learner's test accepts a codelet. A failed assert is a no."""
    tried = f"{name_of(answer)} on a codelet"
    with answering(tried):
        try:
            said = answer(codelet)
        except AssertionError:
            return False
    if said is ...:
        raise NotAttempted
    if not isinstance(said, (bool, np.bool_)):
        advice = "end with `return True`, and `return False` where something is wrong."
        if isinstance(said, np.ndarray) and said.dtype == bool:
            advice = (
                "an array of comparisons has one answer for each place: np.array_equal gives "
                "one for all."
            )
        raise NotYet(tried, returned(said), "True or False", next_step=advice)
    return bool(said)


def _kills(answer: Callable[..., Any]) -> Passed:
    tried = "your test on two codelets that are right, and on five with a fault each"
    right = [_accepts(answer, codelet) for codelet in (RightLoop, RightBackwards)]
    alive = [(fault, advice) for codelet, fault, advice in MUTANTS if _survives(answer, codelet)]
    if not any(right):
        why = "it says no to a codelet that is right." + (
            "" if alive else " It says no to everything."
        )
        raise NotYet(
            tried,
            "False for a right codelet",
            "True",
            why,
            "work the expected row out by hand: 3 1 4 gives 3 3 4.",
        )
    if not all(right):
        why = (
            "of two right codelets it accepts one. The other does the same in another way, with "
            "x declared as InOut."
        )
        raise NotYet(
            tried,
            "False for a right codelet",
            "True",
            why,
            "look at values alone: x and out after the run.",
        )
    if len(alive) == len(MUTANTS):
        why = "it says yes to everything."
        raise NotYet(
            tried,
            "True for all five faulty ones",
            "False",
            why,
            "run the codelet, and compare what came.",
        )
    if alive:
        fault, advice = alive[0]
        came = f"{counted(len(alive), 'faulty codelet')} of 5 got through"
        raise NotYet(tried, came, "none", f"the first of them {fault}".replace("..", "."), advice)
    return Passed(f"{tried}: all five were found")


def _survives(answer: Callable[..., Any], codelet: type[Vertex]) -> bool:
    """Whether a faulty codelet gets through. A test that breaks off with an error lets nothing
    through."""
    try:
        return _accepts(answer, codelet)
    except Broken:
        return False


# --- 04.5 -----------------------------------------------------------------------------------------

# numbers, and new largest among them
LENGTHS = ((30, 4), (101, 5), (1000, 9), (64, 64), (40, 1), (7, 2), (2, 2), (1, 1))


@cache
def _measured(codelet: type[Vertex], length: int, new: int) -> float:
    """Worker cycles of one vertex in an engine, for a row with so many new largest numbers."""
    tried = f"the codelet on {counted(length, 'number')}"
    engine = _alone(codelet, length, tried)
    _run(engine, np.append(np.arange(1, new + 1), np.zeros(length - new)).astype(np.float32), tried)
    return float(engine.report.compute_sets[0].cost.compute_duration / WORKERS)


def _estimate(answer: Callable[..., Any], codelet: Any) -> Passed:
    codelet = _codelet(codelet, 'check("04.5")')
    right = [_measured(codelet, *case) for case in LENGTHS]
    came = []
    for case in LENGTHS:
        said = call(answer, *case)
        value = plain(said)
        if value is None:
            words = returned(said, ", which is no number")
            raise NotYet(
                call_text(answer, case),
                words,
                "worker cycles, a number",
                next_step="return a number.",
            )
        came.append(float(value))
    off = [abs(mine - engine) / engine for mine, engine in zip(came, right, strict=True)]
    if max(off) <= NEAR:
        worst = int(np.argmax(off))
        farthest = counted(LENGTHS[worst][0], "number")
        return Passed(
            f"{len(LENGTHS)} lengths; the farthest off is "
            f"{number(round(100 * off[worst], 1))} %, "
            f"for {farthest}"
        )
    first = next(i for i, far in enumerate(off) if far > NEAR)
    why, advice = _misjudged(np.array(came), np.array(right))
    length, new = LENGTHS[first]
    tried = (
        f"{call_text(answer, LENGTHS[first])}: {counted(length, 'number')}, {new} of them "
        f"larger than all before"
    )
    raise NotYet(
        tried,
        f"{number(came[first])} worker cycles",
        f"{number(right[first])}, or within 10 %",
        why,
        advice,
    )


def _misjudged(came: Any, right: Any) -> tuple[str, str]:
    """What a wrong estimate has forgotten, and what to do."""
    lengths, new = np.array(LENGTHS).T

    def near(other: Any) -> bool:
        return bool((np.abs(came - other) <= 0.02 * other + 0.5).all())

    if near(WORKERS * right):
        return (
            "these are cycles of the tile, six for each of its worker's.",
            "leave out the 6: asked are worker cycles.",
        )
    if near(right - new):
        return (
            "a new largest number costs a cycle more, for it is read once more.",
            "where does `new` belong?",
        )
    if near(right - new + lengths):
        return (
            (
                "a new largest is counted in every turn. It comes only now and then: that is what "
                "`new` says."
            ),
            "count it new times.",
        )
    missing = right - came
    if missing.min() > 0 and missing.max() - missing.min() <= 0.5:
        why = (
            f"{number(missing[0])} cycles are missing, whatever the length: what a vertex does "
            f"once, before and after its loop."
        )
        return why, "add what stands outside the loop, and the start of the vertex."
    if missing.max() < 0 and missing.max() - missing.min() <= 0.5:
        return (
            f"{number(-missing[0])} cycles too many, whatever the length.",
            "what does the vertex do once?",
        )
    if np.ptp(came) == 0:
        return "it is the same for every length.", "what does one turn of the loop cost?"
    if np.ptp(came / lengths) <= 1e-9 * np.abs(came).max():
        return (
            (
                "it grows with the length and with nothing else. That fits for one length: there "
                "is a "
                "part that does not grow."
            ),
            "compare observe for two lengths: the difference is the loop's, and the rest is not.",
        )
    return "", "what do the lines cost in observe, for a row of 1 and for a row of 2?"


LESSON = Lesson(
    "04",
    "Vertices, codelets, compute sets",
    55,
    (
        Question(
            "04.0",
            "Seven vertices on a tile",
            (Part("", "times as long"),),
            "six workers take turns, and each has a turn in six whether the others work or not. "
            "So one vertex takes as long as "
            "six, and the seventh has to wait until a worker is free.",
        ),
        Exercise(
            "04.1",
            "Prefix maximum",
            ("a codelet",),
            _prefix_max,
            (
                (
                    "RunningSum does nearly the same: it keeps a sum and stores it in every turn. "
                    "Keep the largest number instead."
                ),
                (
                    "State begins with what the class says: best: FLOAT = … What is a good largest "
                    "number before there was any?"
                ),
                "In each turn: if self.x[i] is larger than self.best, it becomes self.best. Then, "
                "in every case, self.best "
                "goes into out at place i.",
            ),
            "a vertex that remembers gives another answer the second time. Where a run shall not "
            "depend on the one before, keep it "
            "in a local variable.",
            decoys=(
                ("best: FLOAT = 0", "best: FLOAT = -np.inf"),
                ("if self.x[i] < self.best:", "if self.x[i] > self.best:"),
                ("self.out[i] = self.x[i]", "self.out[i] = self.best"),
            ),
        ),
        Exercise(
            "04.2",
            "Six workers on one row",
            ("a function",),
            _in_six,
            (
                (
                    "Two things have to be done, and the second needs what the first has found. "
                    "So: "
                    "two compute sets."
                ),
                "You need a variable of six numbers for the largest of each piece, on tile 0. "
                "Piece k goes from k * n // 6 "
                "up to (k + 1) * n // 6.",
                "For each k, one Largest into most[k] in the first compute set, and one "
                "PrefixFrom in the second, with "
                "before=most[:k] and the same piece of x and of out. Map all twelve vertices, and "
                "return a Sequence of both.",
            ),
            (
                "the work has nearly doubled, and the time is a third. A parallel program often "
                "does "
                "more in all, and is done sooner."
            ),
            decoys=(
                (
                    "piece = slice(k * (n // 6), (k + 1) * (n // 6))",
                    "piece = slice(k * n // 6, (k + 1) * n // 6)",
                ),
                (
                    "return Sequence(Execute(prefix), Execute(largest))",
                    "return Sequence(Execute(largest), Execute(prefix))",
                ),
            ),
        ),
        Exercise(
            "04.3",
            "Repair a race",
            ("a function",),
            _repaired,
            (
                (
                    "Who reads what somebody else writes? The vertex of place i reads a[i + 1], "
                    "and "
                    "its neighbour writes it."
                ),
                (
                    "If the vertices read from a second variable that nobody changes, the order "
                    "plays "
                    "no part."
                ),
                "graph.clone(a) makes a variable of the same shape on the same tiles. Before the "
                "compute set runs, Copy the "
                "old numbers into it; right= takes its elements instead of a's.",
            ),
            "two variables that change places from step to step are called a double buffer. With "
            "one, the copy is saved: read the "
            "first and write the second, and the other way round the next time.",
            decoys=(
                (
                    "vertex = graph.add_vertex(means, Mean, here=a[i], right=a[i + 1])",
                    "vertex = graph.add_vertex(means, Mean, here=a[i], right=old[i + 1])",
                ),
                (
                    "return Sequence(Execute(means), Copy(a, old))",
                    "return Sequence(Copy(a, old), Execute(means))",
                ),
            ),
        ),
        Exercise(
            "04.4",
            "A test that finds faults",
            ("a function",),
            _kills,
            (
                (
                    "A test runs the codelet on rows of your choosing and compares what came with "
                    "what should have come."
                ),
                (
                    "What should have come: for place i, max(row[: i + 1]). And whatever the "
                    "codelet "
                    "does, x should be as it was."
                ),
                "One row is not enough. Think of rows with fractions; with numbers that are all "
                "below 0; whose last number is "
                'the largest. run_one gives a dict, and list(after["out"]) == … compares all '
                "places at once.",
            ),
            "this kit tests its own checks in this way: python3 run.py mutants damages every "
            "reference answer, and sees that none "
            "of the damaged ones passes.",
        ),
        Exercise(
            "04.5",
            "An estimate of cycles",
            ("a function", "a codelet"),
            _estimate,
            (
                (
                    "Try observe(Peaks, x=…, out=…) on rows of 1, 2 and 3 numbers. What grows, and "
                    "what stays?"
                ),
                (
                    "Three kinds of cycles: once in a vertex, in every turn, and only where a new "
                    "largest is found."
                ),
                "The once: the start, and the lines outside the loop. Every turn: the lines of "
                "the if and of the store. Now "
                "and then: the line inside the if, `new` times.",
            ),
            "on a row in falling order a new largest is found once, on one in rising order every "
            "time. By how much does the time of "
            "a row depend on its order?",
        ),
    ),
)
