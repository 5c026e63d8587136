"""Lesson 02, Variables, mapping, programs: questions, correct results and known mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import permutations, product
from types import EllipsisType

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.bound import Bound
from ipu_course.checking.calling import Answer, Broken, answering
from ipu_course.checking.comparing import KEEP_WIDE, ROUNDED, gives_alike, rounding_or_logic
from ipu_course.checking.exercise import Drawn, PredictedValue, exercise, later, lesson, question
from ipu_course.checking.mistakes import first, same, suspects
from ipu_course.checking.programs import (
    TILES,
    all_of,
    graph_of,
    loaded,
    program_of,
    run_once,
    tiles_of,
)
from ipu_course.checking.quoting import difference, quoted, said_by
from ipu_course.checking.trial import Ran, StreamIn, StreamOut, Trial, Var, refuse_growing
from ipu_course.checking.verdict_panel import Bars, number
from ipu_course.checking.verdicts import NotAttempted, NotYet, Passed, raise_first
from ipu_teach import FLOAT, INT, Engine, Graph, Tensor, show
from ipu_teach.errors import (
    DeviceValueError,
    InvalidTileMappingError,
    StreamConnectionError,
    UninitialisedReadError,
    counted,
)
from ipu_teach.program import Copy, If, Program, RepeatWhileFalse, RepeatWhileTrue
from ipu_teach.types import Array

# The maximum number of rounds of a loop whose end the device decides. The check stops a longer loop
# as endless.
MOST_ROUNDS = 1000
# A function that maps the tensor b so that a and b need no exchange.
MapsB = Callable[[Graph, Tensor, Tensor], EllipsisType | None]


# --- 02.1 -----------------------------------------------------------------------------------------


def _linear(answer: Maps) -> Passed:
    draw = np.random.default_rng(201)
    cases = [((101,), 4, TILES, ""), ((9, 14), 4, TILES, ""), ((14,), 1, TILES, "")]
    cases += [
        ((int(draw.integers(30, 400)),), int(draw.integers(2, 9)), TILES, "") for _ in range(3)
    ]
    cases += [
        ((53,), 7, 4, "there are 4 tiles"),
        ((5,), 2, TILES, "there are fewer grains than tiles"),
    ]
    cases += [((1,), 4, TILES, "there is one element, less than a grain")]
    named = len(cases)
    small = product(range(1, 9), (1, 2, 3), (1, 2, 3))
    cases += [((count,), grain, tiles, "") for count, grain, tiles in small]
    wrong: list[tuple[NotYet, str]] = []
    mappings = []
    for case, (shape, grain, tiles, special) in enumerate(cases):
        if case == named:
            raise_first(wrong)
        graph = graph_of(tiles)
        tensor = graph.add_variable(FLOAT, shape, "data")
        description = (
            f"{counted(tensor.num_elements, 'element')} in grains of {grain}, on {tiles} tiles"
        )
        try:
            with answering(description):
                result = answer(graph, tensor, grain)
        except Broken:
            # A mistake that was found for an earlier tensor is reported instead of this error.
            if wrong:
                break
            raise
        if result is ...:
            raise NotAttempted
        mappings.append(graph.get_tile_mapping(tensor, require_complete=False))
        try:
            _balanced_grains(description, mappings[-1], tensor.num_elements, grain)
        except NotYet as found:
            if not wrong:
                found = _explained(found, answer, shape, grain)
            found.draws = partial(show.tiles, tensor) if any(mappings[-1]) else None
            wrong.append((found, special))
    raise_first(wrong)
    description = f"{len(cases)} variables of several shapes and grains"
    return Passed(description, evidence=mappings[:named])


# Lists the pieces of each tile, each piece as (begin, end).
TileMapping = list[list[tuple[int, int]]]
Maps = Callable[[Graph, Tensor, int], EllipsisType | None]


def _explained(refusal: NotYet, answer: Maps, shape: tuple[int, ...], grain: int) -> NotYet:
    """Return the refusal of a mapping, explained by a known mistake if there is one.

    The mistake must give the same mapping as the answer for this tensor and for two others.
    """

    def mapping_of(maps: Maps, shape: tuple[int, ...], grain: int) -> TileMapping:
        graph = graph_of()
        tensor = graph.add_variable(FLOAT, shape, "data")
        maps(graph, tensor, grain)
        return graph.get_tile_mapping(tensor, require_complete=False)

    alike = gives_alike(partial(mapping_of, answer), (shape, grain), ((9, 14), 4), ((40, 3), 5))
    why, advice = first(suspects("02.1"), lambda like: alike(partial(mapping_of, like)))
    rows = dict(refusal.rows)
    return (
        NotYet(rows["tried"], rows["came"], rows.get("expected", ""), why, advice)
        if why
        else refusal
    )


def _balanced_grains(description: str, mapping: TileMapping, count: int, grain: int) -> None:
    """Raise `NotYet` unless the mapping is linear and even, and keeps each grain on one tile.

    A grain is a group of `grain` consecutive elements; `count` is the number of elements.
    """
    sizes = [sum(end - begin for begin, end in pieces) for pieces in mapping]
    _refuse_unmapped(description, mapping, sizes, count)
    _refuse_cut_grains(description, mapping, sizes, count, grain)
    _refuse_other_orders(description, mapping)
    _refuse_uneven(description, mapping, sizes, grain)


def _refuse_unmapped(description: str, mapping: TileMapping, sizes: list[int], count: int) -> None:
    """Raise `NotYet` if an element is mapped to no tile."""
    if sum(sizes) < count:
        covered = np.zeros(count, bool)
        for begin, end in (piece for pieces in mapping for piece in pieces):
            covered[begin:end] = True
        missing = int(np.argmin(covered))
        tail = bool(covered[:missing].all() and not covered[missing:].any()) and missing
        why = (
            "the last elements are not mapped to any tile: // rounds down, so it drops the "
            "remainder."
            if tail
            else ""
        )
        raise NotYet(
            description,
            f"{counted(count - sum(sizes), 'element')} not mapped to any tile, the first of them "
            f"element {missing}",
            why=why,
            next_step="count the short last grain, too, and distribute all grains."
            if tail
            else f"map element {missing}, too: call graph.set_tile_mapping for each part of "
            "tensor.flatten().",
        )


def _refuse_cut_grains(
    description: str, mapping: TileMapping, sizes: list[int], count: int, grain: int
) -> None:
    """Raise `NotYet` if a grain (`grain` consecutive elements) is divided between tiles."""
    for tile, pieces in enumerate(mapping):
        for begin, end in pieces:
            if begin % grain or (end % grain and end != count):
                even = max(sizes) - min(sizes) <= 1
                raise NotYet(
                    description,
                    f"tile {tile} holds elements {begin} to {end - 1}",
                    expected=f"ranges that begin at a multiple of {grain}",
                    why="a grain is divided between two tiles"
                    + (
                        ": the tiles have equal numbers of elements, but not whole grains."
                        if even
                        else "."
                    ),
                    next_step="begin each part at a multiple of `grain`: count grains, then "
                    "multiply by `grain`.",
                )


def _refuse_other_orders(description: str, mapping: TileMapping) -> None:
    """Raise `NotYet` if the elements are not mapped to the tiles in order."""
    begins = [(begin, tile) for tile, pieces in enumerate(mapping) for begin, _ in pieces]
    if [tile for _, tile in sorted(begins)] != [tile for _, tile in begins]:
        why = (
            "the elements are not in order: in a linear mapping each tile has one "
            "interval, and the next tile continues where this interval ends."
        )
        place = next(
            tile
            for (_, tile), (_, sorted_tile) in zip(sorted(begins), begins, strict=True)
            if tile != sorted_tile
        )
        advice = "begin the interval of each tile where the interval of the previous tile ends."
        raise NotYet(
            description,
            f"tile {place} holds elements {mapping[place][0][0]} to {mapping[place][0][1] - 1}",
            why=why,
            next_step=advice,
        )


def _refuse_uneven(description: str, mapping: TileMapping, sizes: list[int], grain: int) -> None:
    """Raise `NotYet` if the numbers of grains on the tiles differ by more than 1."""
    grains = [-(-size // grain) for size in sizes]
    if max(grains) - min(grains) > 1:
        full = grains.index(max(grains))
        empty = grains.index(min(grains))
        share = -(-sum(grains) // len(grains))
        per_tile, remainder = divmod(sum(grains), len(grains))
        why = "the tile with the most grains makes the other tiles wait."
        if grains[: sum(grains) // share] == [share] * (sum(grains) // share):
            why = (
                "the number of grains per tile is rounded up, so the first tiles use up the "
                "grains, and the last tiles get too few or none."
            )
        if max(grains) == sum(grains):
            why = "all elements are on one tile, so the other tiles have no work."
        raise NotYet(
            description,
            f"tile {full} holds {grains[full]} grains, and tile {empty} holds {grains[empty]}",
            expected="numbers of grains that differ by at most 1",
            why=why,
            next_step=f"give {counted(remainder, 'tile')} {per_tile + 1} of the {sum(grains)} "
            f"grains each, and the other tiles {per_tile or 'none'}.",
        )


# --- 02.2 -----------------------------------------------------------------------------------------


def _sum(values: Array) -> Trial:
    """Return a trial of programs that send the running sum of `values` to the host."""
    streams: dict[str, StreamIn | StreamOut] = {
        "numbers": StreamIn(FLOAT, values.astype(float)),
        "sums": StreamOut(FLOAT),
    }
    return Trial(
        f"a program for {counted(len(values), 'number')}", {}, streams, more=(len(values),)
    )


def _sums(answer: Callable[..., Program], values: Array) -> Ran:
    """Return a run of the answer's program for `values`.

    :raises NotYet: if the program takes more numbers from the stream than there are.
    """
    run = _sum(values).build(answer)
    try:
        run.run()
    except Broken as broken:
        description = f"{run.trial.tried}, and one engine.run()"
        if not isinstance(broken.error, StreamConnectionError):
            raise Broken(description, broken.error) from None
        message = (
            f"{broken.error.tried} The program had sent {counted(len(run.sent['sums']), 'sum')}."
        )
        why, advice = run.trial.reason(run, "02.2")
        if not why:
            why = "the program fetches more numbers than it sends sums."
            advice = "use one Copy from `numbers` and one Copy into `sums` in each iteration."
        raise NotYet(description, message, why=why, next_step=advice) from None
    return run


def _running_sum(answer: Callable[..., Program]) -> Passed:
    draw = np.random.default_rng(202)
    sizes = {count: _sum(np.zeros(count)) for count in (2, 23)}
    built = {count: trial.build(answer) for count, trial in sizes.items()}
    runs = {}
    for count in (7, 23, 1):
        # The values are different whole numbers. Their sums are too large for HALF.
        values = draw.permutation(9999)[:count] + 1
        values[1::2] *= -1
        run = _sums(answer, values)
        if difference(run.sent["sums"].reshape(-1), np.cumsum(values)):
            raise _wrong_sums(run, values, partial(_off, answer, values))
        runs[count] = run
    why = (
        "a Python loop appends every iteration to the program, so the code of the program needs "
        "memory for each of them."
    )
    refuse_growing(
        built, "numbers", why, "write the program of one iteration, and return Repeat(count, body)."
    )
    description = (
        "7, 23 and 1 numbers, each list in one engine.run(), with a program of constant size"
    )
    evidence = [run.report for run in runs.values()]
    return Passed(
        description,
        evidence=evidence,
        figure=runs[23].cycles,
        unit="modelled cycles for 23 numbers",
    )


def _off(answer: Callable[..., Program], values: Array) -> str:
    """Return how the answer's sums differ from the right ones, in words; "" if they are right."""
    return difference(_sums(answer, values).sent["sums"].reshape(-1), np.cumsum(values))


def _wrong_sums(run: Ran, values: Array, again: Callable[[], str]) -> NotYet:
    """Return the refusal of wrong sums.

    The reason is a known mistake, or a fault that the sums or the program's steps show. If there is
    none, `again()` decides whether rounding is the reason: it runs the program once more and
    returns the difference in words.
    """
    description = f"{run.trial.tried}, and one engine.run()"
    actual = run.sent["sums"].reshape(-1)
    right = np.cumsum(values)
    count = len(values)
    steps = run.steps
    why, advice = run.trial.reason(run, "02.2", nearest=True)
    if len(actual) != count:
        if not steps["fetch"]:
            why = "nothing in the program fetches a number."
            advice = "begin the body with Copy(numbers, number), for a variable of one FLOAT."
        return NotYet(
            description,
            f"{len(actual)} of {counted(count, 'sum')}",
            why=why,
            next_step=advice
            or "count the numbers that the program fetches and the sums that it sends: each number "
            "needs one Copy(total, sums).",
        )
    off = actual - right
    if not why and (off == off[0]).all():
        why = f"every sum is off by {number(off[0])}: the total does not start at 0."
        advice = "write 0 into the total before the loop: graph.set_initial_value(total, 0)."
    elif not why:
        why = rounding_or_logic(again)
        follow = "print the tensor that you send, with PrintTensor directly before its Copy."
        advice = KEEP_WIDE if why == ROUNDED else follow
    return NotYet(
        description, difference(actual, right), expected=quoted(right), why=why, next_step=advice
    )


# --- 02.3 -----------------------------------------------------------------------------------------


def _no_exchange(answer: MapsB) -> Passed:
    draw = np.random.default_rng(203)
    crossing = 0
    reports = []
    for rows, columns in ((TILES, 4), (7, 5), (1, 1), (3, 2), (29, 8)):
        graph = graph_of()
        a = graph.add_variable(FLOAT, (rows, columns), "a")
        b = graph.add_variable(FLOAT, (columns, rows), "b")
        for row in range(rows):
            graph.set_tile_mapping(a[row], int(draw.integers(TILES)))
        before = graph.get_tile_mapping(a)
        description = f"Copy(a.transpose(), b) with {rows} rows of {columns}"
        try:
            with answering(description):
                result = answer(graph, a, b)
        except Broken:
            _refuse_known_error(answer, rows, columns)
            raise
        if result is ...:
            raise NotAttempted
        if graph.get_tile_mapping(a) != before:
            why = (
                "your function changed the mapping of `a`. Other programs use this mapping: map "
                "only b."
            )
            raise NotYet(
                description,
                "another mapping of `a`",
                expected="the mapping of a unchanged",
                why=why,
                next_step="call set_tile_mapping only for `b` or parts of `b`.",
            )
        _whole_rows(graph, a, b, description)
        graph.create_host_read("check of 02.3", b)
        values = draw.normal(size=(rows, columns)).astype(np.float32)
        graph.set_initial_value(a, values)
        engine = loaded(graph, Copy(a.transpose(), b), description)
        engine.run()
        # A mapping never changes a value, so this is a check of the simulator.
        assert np.array_equal(engine.read_tensor("check of 02.3"), values.T)
        received, _ = engine.report.exchange_bytes_per_tile
        crossing = max(crossing, int(received.sum()))
        reports.append(engine.report)
        if crossing:
            actual, why, advice = _why_crossing(graph, a, b)
            bars = Bars(0, crossing, "bytes exchanged")
            draws = partial(show.tiles, a, b.transpose())
            raise NotYet(description, actual, why=why, next_step=advice, bars=bars, draws=draws)
    minimum = Bound(0, "bytes exchanged", "no program can send fewer than 0 bytes")
    return Passed(
        "5 fixed matrices, whose rows are on tiles in no order",
        Bars(0, 0, minimum.unit),
        reports,
        bound=minimum,
    )


def _refuse_known_error(answer: MapsB, rows: int, columns: int) -> None:
    """Raise `NotYet` if the answer and a known mistake raise the same error.

    Row r of `a` is on tile r % 13.
    """

    def error_of(maps_b: MapsB) -> tuple[str, Broken | None]:
        graph = graph_of()
        a = graph.add_variable(FLOAT, (rows, columns), "a")
        b = graph.add_variable(FLOAT, (columns, rows), "b")
        for row in range(rows):
            graph.set_tile_mapping(a[row], row % TILES)
        try:
            with answering(f"Copy(a.transpose(), b) with {rows} rows of {columns}"):
                maps_b(graph, a, b)
        except Broken as broken:
            return said_by(broken.error), broken
        return "", None

    message, broken = error_of(answer)
    if broken is not None:
        why, advice = first(suspects("02.3"), lambda like: error_of(like)[0] == message)
        if why:
            raise NotYet(broken.tried, message, why=why, next_step=advice)


def _whole_rows(graph: Graph, a: Tensor, b: Tensor, description: str) -> None:
    """Raise `NotYet` if the answer took each interval of a tile for a single row of `a`.

    Such an answer maps column r of `b` only if an interval of `a` begins with row r. The columns
    for the other rows of the interval are not mapped.
    """
    columns = a.shape[1]
    mapping = graph.get_tile_mapping(a)
    inner = {
        row
        for pieces in mapping
        for begin, end in pieces
        for row in range(begin // columns + 1, end // columns)
    }
    pieces_per_tile = graph.get_tile_mapping(b.transpose(), require_complete=False)
    on_own_tile = {
        place // columns
        for pieces in pieces_per_tile
        for begin, end in pieces
        for place in range(begin, end)
    }
    if inner and on_own_tile == set(range(len(a))) - inner:
        row = min(inner)
        raise NotYet(
            description,
            f"b[:, {row}] is not mapped to any tile",
            why=f"neighbouring rows on the same tile share one interval: row {row} is in the "
            "interval "
            f"of row {row - 1}.",
            next_step="map all (end - begin) // columns rows of each interval.",
            draws=partial(show.tiles, a, b.transpose()),
        )


def _why_crossing(graph: Graph, a: Tensor, b: Tensor) -> tuple[str, str, str]:
    """Return `(what moves between tiles, why, next step)`."""
    tiles_of_a = tiles_of(graph, a)
    tiles_of_b = tiles_of(graph, b)
    i, j = (int(n) for n in np.argwhere(tiles_of_a != tiles_of_b.T)[0])
    actual = (
        f"{int((tiles_of_a != tiles_of_b.T).sum())} of {a.num_elements} elements are sent, the "
        "first "
        f"of them a[{i}, {j}]: it is on tile {tiles_of_a[i, j]}, and b[{j}, {i}] is on tile "
        f"{tiles_of_b[j, i]}"
    )

    def gives_the_same(like: MapsB) -> bool:
        like(graph, a, twin := graph.clone(b))
        return same(tiles_of(graph, twin), tiles_of_b)

    why, advice = first(suspects("02.3"), gives_the_same)
    if not why and (tiles_of_b == tiles_of_b[0, 0]).all():
        return (
            actual,
            "all of `b` is on one tile, so the elements of `a` on other tiles are sent to "
            "this tile.",
            "map each column of `b` to the tile of its row of `a`.",
        )
    why = why or f"b[{j}, {i}] receives a[{i}, {j}], but the two are on different tiles."
    return (
        actual,
        why,
        advice or "use graph.get_tile_mapping(a): it returns the tiles of `a`.",
    )


# --- 02.4 -----------------------------------------------------------------------------------------


STARTS = (5, 10, 17, 1, 0, 301)
EACH_START = [np.array(start) for start in STARTS]
ZERO = np.array(0)


def _countdown(answer: Callable[..., Program]) -> Passed:
    counter = Var(INT, (), 0, given=EACH_START, right=[ZERO] * len(STARTS))
    ticks = Var(INT, (), 0, given=[ZERO] * len(STARTS), right=EACH_START)
    trial = Trial(
        "a countdown", {"left": counter, "ticks": ticks}, runs=len(STARTS), most_rounds=MOST_ROUNDS
    )
    try:
        run = trial.of(answer)
    except Broken as broken:
        raise _looked_early(broken) from None
    wrong = [
        (start, MOST_ROUNDS + 1 if endless else int(actual["ticks"]), int(actual["left"]))
        for start, actual, endless in zip(STARTS, run.came, run.endless, strict=True)
        if endless or (int(actual["ticks"]), int(actual["left"])) != (start, 0)
    ]
    if wrong:
        raise _counted_wrongly(wrong, run)
    if not any(isinstance(p, (RepeatWhileTrue, RepeatWhileFalse)) for p in all_of(run.program)):
        why = (
            "no loop of the program ends by a decision of the device: the largest number of "
            "iterations is fixed in the program."
        )
        advice = "use a loop that looks at `left` before every iteration."
        actual = "right numbers, from a program with a fixed number of iterations"
        raise NotYet(
            "a countdown", actual, expected="a loop that looks at `left`", why=why, next_step=advice
        )
    _refuse_ticks_at_once(answer)
    description = f"countdowns from {', '.join(map(str, STARTS))}, all with one compiled program"
    return Passed(description, evidence=run.engine.report)


def _looked_early(
    broken: Broken, kind: str = "a loop that looks", name: str = "RepeatWhileTrue"
) -> Exception:
    """Return the error as `NotYet` if Python or Repeat needs the number in `left` too early.

    Any other error is returned unchanged. The advice quotes `kind` and `name`, a description and
    the class of the program that reads `left` on the device.
    """
    error = " ".join(str(broken.error).split())
    repeated = "Repeat was given the count Tensor('left'" in error
    looked = isinstance(broken.error, DeviceValueError) and re.search(
        r"in (a condition|place of a whole number|tensor [!=<>]=?)[:. ]", error
    )
    if not (looked or repeated):
        return broken
    why = (
        "Python would look at `left` only once, while you write the program. The host writes "
        "the number later, and only the device sees it."
    )
    if repeated:
        why = (
            "Repeat needs the number of iterations while you write the program. The host writes "
            "the number in `left` later, and only the device sees it."
        )
    line = dict(broken.rows).get("line", "")
    return NotYet(
        broken.tried,
        f"{'Repeat needs' if repeated else 'Python looked at'} `left`, in {line}" if line else "",
        why=why,
        next_step=f"use {kind} at `left` on the device: {name}.",
    )


def _refuse_ticks_at_once(answer: Callable[..., Program]) -> None:
    """Raise `NotYet` unless a countdown counts one tick in each round.

    The countdown is stopped before its end, so that a program which adds all ticks at once gives a
    wrong result.
    """
    start = np.array(2 * MOST_ROUNDS)
    tensors = {"left": Var(INT, (), 0, [start], [ZERO]), "ticks": Var(INT, (), 0, [ZERO], [start])}
    run = Trial("a countdown", tensors, most_rounds=MOST_ROUNDS).of(answer)
    ticks, left = int(run.came[0]["ticks"]), int(run.came[0]["left"])
    if abs(start - left - run.rounds) > 1:
        raise NotYet(
            f"a countdown from {start:,}, stopped after at most {MOST_ROUNDS:,} iterations",
            f"{start - left:,} subtracted from `left` in {counted(run.rounds, 'iteration')}",
            expected="1 in each iteration",
            why=(
                "an iteration must subtract exactly 1 from `left`, and this program subtracts "
                "another number."
            ),
            next_step="subtract 1 from `left` and add 1 to `ticks` in the same iteration.",
        )
    if abs(ticks + left - start) > 1:
        raise NotYet(
            f"a countdown from {start:,}, stopped after {run.rounds:,} iterations",
            f"{ticks:,} ticks, and {left:,} left",
            expected=f"{start - left:,} ticks",
            why="`ticks` does not grow by 1 in each iteration.",
            next_step="subtract 1 from `left` and add 1 to `ticks` in the same iteration.",
        )


def _counted_wrongly(wrong: list[tuple[int, int, int]], run: Ran) -> NotYet:
    """Return the refusal of wrong countdowns.

    `wrong` has (start, ticks, final value of `left`) for each countdown. More than `MOST_ROUNDS`
    ticks mean an endless loop.
    """
    start, ticks, rest = wrong[0]
    description = "countdowns one after another, from " + ", ".join(map(str, STARTS))
    endless = ticks > MOST_ROUNDS
    actual = f"from {start}: " + (
        f"still running after {MOST_ROUNDS:,} iterations"
        if endless
        else f"{counted(ticks, 'tick')}, and {number(rest)} left"
    )
    why, advice = run.trial.reason(
        run,
        "02.4",
        advice="print `left` and `ticks` in each iteration, with PrintTensor.",
        nearest=True,
    )
    if run.steps["Repeat"] and len(wrong) > 1 and len({done for _, done, _ in wrong}) == 1:
        why = (
            f"the program runs {ticks} iterations for any number in `left`: the number of "
            "iterations is "
            "fixed in the program."
        )
        advice = "use a loop that looks at `left` before every iteration."
    elif not why and endless:
        why = f"from {start} the loop never ends: its predicate never has the value that ends it."
        advice = f"write down the value of the predicate in each iteration, from {start} on."
    elif not why and len(wrong) == 1 and start == max(STARTS):
        why = (
            f"the smaller countdowns are right. A countdown from {start} needs more iterations "
            "than "
            "the program has."
        )
        advice = "use a loop that looks at `left` before every iteration."
    return NotYet(
        description,
        actual,
        expected=f"{counted(start, 'tick')}, and 0 left",
        why=why,
        next_step=advice,
    )


# --- 02.5 -----------------------------------------------------------------------------------------

FAULTS = {
    (False, True): (InvalidTileMappingError, "source is not mapped to any tile"),
    (True, False): (UninitialisedReadError, "nothing is written into source"),
}
ONLY_IF: dict[type[Exception], str] = {
    InvalidTileMappingError: "map source only if mapped is true.",
    UninitialisedReadError: "write values into `source` only if `written` is true.",
}
WHENEVER: dict[type[Exception], str] = {
    InvalidTileMappingError: ("map source if mapped is true: graph.set_tile_mapping(source, 0)."),
    UninitialisedReadError: (
        "write the values if written is true: graph.set_initial_value(source, values)."
    ),
}


def _faults(answer: Callable[..., Program]) -> Passed:
    for (mapped, written), (error_type, omission) in FAULTS.items():
        description = f"the program with mapped={mapped}, written={written}"
        error = _fired(answer, mapped, written, description)
        if error is None:
            why = "in this case the error must occur, but the program works without an error."
            raise NotYet(
                description,
                "no error",
                expected=error_type.__name__,
                why=why,
                next_step=ONLY_IF[error_type],
            )
        if not isinstance(error, error_type):
            why = f"a different error occurred. In this case the only fault may be that {omission}."
            raise NotYet(
                description,
                f"{type(error).__name__}: {getattr(error, 'tried', error)}",
                expected=error_type.__name__,
                why=why,
                next_step=WHENEVER[type(error)],
            )
    description = "the program with mapped=True, written=True"
    error = _fired(answer, True, True, description)
    if error is not None:
        why = "with mapped=True and written=True, no error may occur."
        raise NotYet(
            description,
            f"{type(error).__name__}: {getattr(error, 'tried', error)}",
            expected="no error",
            why=why,
            next_step=WHENEVER[type(error)],
        )
    for (mapped, written), (_, omission) in FAULTS.items():
        description = f"the program with mapped={mapped}, written={written}, where {omission}"
        _refuse_more_missing(answer, mapped, written, description)
    return Passed(
        "each of the two errors, and then a run without an error",
        evidence=[error_type.__name__ for error_type, _ in FAULTS.values()],
    )


def _fired(
    answer: Callable[..., Program], mapped: bool, written: bool, description: str
) -> Exception | None:
    """Compile and run the program, and return its error; None if there is none.

    :raises NotYet: if there is no error but the values are wrong, or if the error is about another
    tensor than `source`.
    """
    graph = graph_of()
    values, later = np.random.default_rng(205).normal(size=(2, 7)).astype(np.float32)
    source = graph.add_variable(FLOAT, 7, "source")
    target = graph.add_variable(FLOAT, 7, "target")
    for name, tensor in (("source", source), ("target", target)):
        graph.create_host_read(f"check {name}", tensor)
        graph.create_host_write(f"set {name}", tensor)
    try:
        tensors = (source, target)
        program = program_of(answer, description, graph, *tensors, values, mapped, written)
    except Broken as broken:
        if isinstance(broken.error, tuple(kind for kind, _ in FAULTS.values())):
            why = (
                "this error occurs in your function itself. The function must return a program "
                "with "
                "the fault, and the machine must find it."
            )
            advice = "leave out the line that prevents the error, and return the program."
            raise NotYet(
                description, said_by(broken.error), expected="a program", why=why, next_step=advice
            ) from None
        raise
    try:
        engine = loaded(graph, program, description)
        with answering(description):
            engine.run()
    except Broken as broken:
        if isinstance(broken.error, (InvalidTileMappingError, UninitialisedReadError)):
            if (
                "variable 'source'" not in broken.error.tried
                and "of 'source'" not in broken.error.tried
            ):
                why = "only source may have a fault, but another variable has a fault, too."
                advice = "always map target: graph.set_tile_mapping(target, 0)."
                if broken.error.tried.startswith("Copy to 'source' reads"):
                    why = (
                        "this copies `target` into `source`, and nothing is written into `target`."
                    )
                    advice = (
                        "return Copy(source, target): the first tensor is copied into the second."
                    )
                raise NotYet(
                    description,
                    said_by(broken.error),
                    expected="an error about source",
                    why=why,
                    next_step=advice,
                ) from None
            return broken.error
        raise
    if not written:
        _refuse_other_source(engine, description, values)
    _refuse_other_target(engine, description, values)
    if written:
        _refuse_no_copy(engine, description, values, later)
    return None


def _refuse_more_missing(
    answer: Callable[..., Program], mapped: bool, written: bool, description: str
) -> None:
    """Raise `NotYet` if the program has a second fault that the first one hides.

    The first fault is that `source` is unmapped or unwritten. The check repairs it and writes the
    values; then the program must work.
    """
    graph = graph_of()
    values = np.random.default_rng(206).normal(size=7).astype(np.float32)
    source = graph.add_variable(FLOAT, 7, "source")
    target = graph.add_variable(FLOAT, 7, "target")
    graph.create_host_write("set source", source)
    graph.create_host_read("check target", target)
    program = program_of(answer, description, graph, source, target, values, mapped, written)
    _refuse_partly(graph, source, mapped, written, description)
    if not mapped:
        graph.set_tile_mapping(source, 0)
    elements = {
        name: sum(
            end - begin for part in graph.get_tile_mapping(tensor, False) for begin, end in part
        )
        for name, tensor in (("source", source), ("target", target))
    }
    for name, count in elements.items():
        if count < 7:
            raise NotYet(
                description,
                f"{name} is not mapped to any tile, either"
                if name == "target"
                else "a part of `source` is not mapped to any tile",
                expected="only source is not mapped to any tile",
                next_step=f"always map {name}: graph.set_tile_mapping({name}, 0)."
                if name == "target"
                else WHENEVER[InvalidTileMappingError],
            )
    engine = loaded(graph, program, description)
    engine.write_tensor("set source", values)
    with answering(description):
        engine.run()
    if where := difference(_target_of(engine, description), values, 0):
        done = "writes" if mapped else "maps and writes"
        raise NotYet(
            f"{description}, and the check {done} source",
            f"target: {where}",
            expected=quoted(values),
            next_step="always return Copy(source, target).",
        )


def _refuse_partly(
    graph: Graph, source: Tensor, mapped: bool, written: bool, description: str
) -> None:
    """Raise `NotYet` if a part of `source` is mapped or written although it must not be.

    No element may be mapped if `mapped` is False, and none may be written if `written` is False.
    """
    pieces = [part for parts in graph.get_tile_mapping(source, False) for part in parts]
    if not mapped and pieces:
        raise NotYet(
            description,
            f"{counted(sum(end - begin for begin, end in pieces), 'element')} of source on a tile",
            expected="none of them",
            why="in this case no part of `source` may be mapped.",
            next_step=ONLY_IF[InvalidTileMappingError],
        )
    places = [
        tensor.positions().ravel()
        for tensor, _ in graph.initial_values
        if isinstance(tensor, Tensor) and tensor.dtype is source.dtype
    ]
    filled = int(np.isin(source.positions(), np.concatenate([*places, []])).sum())
    if not written and filled:
        raise NotYet(
            description,
            f"{counted(filled, 'element')} of source with an initial value",
            expected="none of them",
            why="in this case no part of `source` may be written.",
            next_step=ONLY_IF[UninitialisedReadError],
        )


def _target_of(engine: Engine, description: str) -> Array:
    """Return the values of the tensor `target` after the run.

    :raises NotYet: if the program has not written all of it.
    """
    try:
        return engine.read_tensor("check target")
    except UninitialisedReadError:
        raise NotYet(
            description,
            "target has elements that were never written",
            expected="a program that copies source into target",
            why="the program writes nothing into `target`, or only a part of it.",
            next_step="always return Copy(source, target).",
        ) from None


def _refuse_other_source(engine: Engine, description: str, values: Array) -> None:
    """Raise `NotYet` if the program wrote numbers other than `values` into `source`.

    A program that writes nothing into `source` is accepted.
    """
    source = engine._peek("check source")
    if not np.isnan(source).all() and difference(source, values, 0):
        why = "in this case nothing may be written into source, but it has other numbers."
        if (source == source[0]).all():
            filling = number(float(source[0]))
            why = (
                f"in this case nothing may be written into source, but it is filled with {filling}."
            )
        raise NotYet(
            description,
            "no error",
            expected=UninitialisedReadError.__name__,
            why=why,
            next_step=ONLY_IF[UninitialisedReadError],
        )


def _refuse_other_target(engine: Engine, description: str, values: Array) -> None:
    """Raise `NotYet` if `target` has values other than `values`."""
    actual = _target_of(engine, description)
    if where := difference(actual, values, 0):
        blank = np.isnan(actual).all()
        turned = not difference(actual, values[::-1], 0)
        sentence = f"source is filled with {number(float(actual[0]))} instead of `values`."
        why = ""
        advice = "copy `source` into `target`: Copy(source, target)."
        if blank:
            why = "the program writes nothing into `target`."
        elif turned:
            why = "the elements are in reverse order."
        elif (actual == actual[0]).all():
            why = sentence
            advice = "if written is true, call graph.set_initial_value(source, values)."
        elif np.array_equal(engine._peek("check source"), actual):
            why = "`target` is a copy of `source`, but `source` has other numbers than `values`."
            advice = "if written is true, call graph.set_initial_value(source, values)."
        raise NotYet(
            description,
            f"target: {where}",
            expected=quoted(values),
            why=why,
            next_step=advice,
        )


def _refuse_no_copy(engine: Engine, description: str, values: Array, later: Array) -> None:
    """Raise `NotYet` if `target` has the right values although they are not copied from `source`.

    The program runs again with the values `later` in `source`.
    """
    with answering(description):
        engine.write_tensor("set source", later)
        engine.write_tensor("set target", -later)
        engine.run()
    where = difference(engine.read_tensor("check target"), later, 0)
    # If a program fills `source` itself, it overwrites the values `later`.
    if where and any(
        difference(engine.read_tensor(name), values, 0) for name in ("check source", "check target")
    ):
        why = (
            "`target` has the values, but not from a copy of `source`: with other values in "
            "`source`, target does not change."
        )
        raise NotYet(
            f"{description}, and then other values in source",
            f"target: {where}",
            expected=quoted(later),
            why=why,
            next_step="return Copy(source, target).",
        )


# --- asked again ----------------------------------------------------------------------------------


def _transposed(draw: np.random.Generator) -> Drawn:
    rows, columns = (int(n) for n in draw.choice(range(3, TILES), 2, replace=False))

    def answer() -> tuple[int]:
        graph = graph_of()
        a = graph.add_variable(FLOAT, (rows, columns), "a")
        b = graph.add_variable(FLOAT, (columns, rows), "b")
        for tensor in (a, b):
            for row in range(len(tensor)):
                graph.set_tile_mapping(tensor[row], row)
        graph.set_initial_value(a, 1)
        received, _ = run_once(graph, Copy(a.transpose(), b)).report.exchange_bytes_per_tile
        return (int(received.sum()),)

    asks = (
        f"Matrix a has {rows} rows and {columns} columns of FLOATs, with row i on tile i. Matrix b "
        f"has {columns} rows and {rows} columns, also with row i on tile i. How many bytes does "
        "Copy(a.transpose(), b) send between tiles?"
    )
    return Drawn(asks, answer)


BYTES = (PredictedValue("", "bytes", whole=True),)


def _one_less(answer: Answer) -> Passed:
    try:
        return warmups.program("02.w3", LESS, "left", _decides)(answer)
    except Broken as broken:
        raise _looked_early(broken, "a program that looks", "If") from None


def _decides(answer: Answer, run: Ran) -> None:
    """Raise `NotYet` unless the program contains an If, or a loop whose end the device decides."""
    if not any(run.steps[kind.__name__] for kind in (If, RepeatWhileTrue, RepeatWhileFalse)):
        raise NotYet(
            run.trial.tried,
            "no If",
            expected="one",
            why="the program always computes the same, without a decision on the device.",
            next_step="use If: it looks at `left` on the device.",
        )


LEFT = [np.array(n) for n in (3, 7, 0, 1)]
RIGHT = [np.array(n) for n in (2, 6, 0, 0)]
LESS = Trial(
    "left from 3, 7, 0 and 1",
    {"left": Var(INT, (), 0, given=LEFT, right=RIGHT)},
    runs=len(LEFT),
    most_rounds=100,
)


def _around(grain: int) -> list[int]:
    """Return the numbers of elements of 1 and 2 grains, and one less and one more than each."""
    return [whole * grain + more for whole in (1, 2) for more in (-1, 0, 1)]


LATER = (later("02.0 again", BYTES, _transposed),)

LESSON = lesson(
    "02",
    question("02.0", BYTES),
    exercise(
        "02.w1",
        warmups.formula(
            "02.w1",
            lambda count, grain: -(-count // grain),
            (101, 4),
            (8, 4),
            (3, 4),
            (50, 7),
            (0, 4),
            more=[
                *product(range(41), range(1, 14)),
                *((count, grain) for grain in (16, 32, 128, 1000) for count in _around(grain)),
            ],
        ),
    ),
    exercise("02.1", _linear),
    exercise("02.2", _running_sum),
    exercise(
        "02.w2",
        warmups.formula(
            "02.w2",
            lambda rows, i, j: rows[j],
            ([4, 9, 2, 7], 1, 2),
            ([5, 3], 1, 0),
            ([6, 1, 8], 1, 0),
            ([2, 7, 11, 3, 5], 0, 3),
            more=[
                (list(rows), i, j)
                for count in (1, 2, 3)
                for rows in permutations(range(4), count)
                for i in range(4)
                for j in range(count)
            ],
        ),
    ),
    exercise("02.3", _no_exchange),
    exercise("02.w3", _one_less),
    exercise("02.4", _countdown),
    exercise("02.5", _faults),
    later=LATER,
)
