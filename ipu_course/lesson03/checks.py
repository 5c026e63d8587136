"""Lesson 03, PopLibs operations and views: questions, correct results and known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.bound import Bound, least_cycles
from ipu_course.checking.calling import Answer, Broken, call_made
from ipu_course.checking.comparing import KEEP_WIDE, ROUNDED, rounding_or_logic
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.precision import Precision
from ipu_course.checking.programs import OTHER, SYNC, TILES, WORKERS, tiles_of
from ipu_course.checking.quoting import difference
from ipu_course.checking.trial import Answers, Built, Parts, Ran, Trial, Var, appends, by_rows
from ipu_course.checking.verdict_panel import Bars, number
from ipu_course.checking.verdicts import MODELLED, ORDINARY, NotYet, Passed
from ipu_teach import FLOAT, HALF, UNSIGNED_INT, Graph, Report, Tensor, show
from ipu_teach.errors import counted
from ipu_teach.poplibs import popops
from ipu_teach.program import Sequence as Steps
from ipu_teach.types import Array, DType

# The budget, as a multiple of a good answer's cost. Even an answer with expr.Square, which costs
# 10 % more, is within it.
SLACK = 1.15
# The maximum number of compute sets for the mean and the variance: one for the partial sums, one
# for the totals, and one for each result.
MOST_SETS = 4
BY_HAND = "calculate a small row by hand, and compare it with the result."
TOO_LARGE = "in float64 the result is right, but HALF ends at 65,504, and a sum is larger."
IN_FLOAT = (
    "compute both sums in FLOAT: it is the last argument of SingleReduceOp, and out_type of "
    "popops.reduce."
)
ERRORS = 4  # The allowed error of the fraction of kept elements, in standard errors.


def _compute_sets(report: Report) -> int:
    """Return the number of compute sets that ran."""
    return sum(profile.executions for profile in report.compute_sets)


def _crossing(report: Report) -> int:
    """Return the number of bytes that tiles received from other tiles."""
    return int(report.exchange_bytes_per_tile[0].sum())


def _drawn(seed: int, *shape: int) -> Array:
    """Return different random odd multiples of 1/8, of both signs, as an array of this shape."""
    count = int(np.prod(shape))
    numbers: Array = (np.random.default_rng(seed).permutation(2 * count) - count + 0.5)[:count] / 4
    return numbers.astype(np.float32).reshape(shape)


def _are_near(a: Array, b: Array) -> bool:
    """Return whether two arrays are equal except for rounding; nan equals nan."""
    return np.allclose(a, b, 1e-4, 1e-6, equal_nan=True)


def _trial(description: str, tensors: dict[str, Var], shapes: list[tuple[int, ...]]) -> Trial:
    """Return a trial of answers that append calls and return tensors of these `shapes`."""
    asks = "a tensor"
    step = "return the tensor that the last call returned."
    if len(shapes) > 1:
        asks = f"{len(shapes)} tensors"
        step = "return both, separated by a comma."
    why = "popops.reduce removes the dimensions in its list from the shape, and keeps the others."
    advice = "pass the list of the dimensions over which the call must add up or compare."
    form = appends(*shapes, asks=asks, step=step, why=why, advice=advice)
    return Trial(description, tensors, form=form)


def _ran(trial: Trial, answer: Answer) -> Ran:
    """Return a run of the answer.

    :raises NotYet: if the program changes the tensors that it received.
    """
    run = trial.of(answer)
    run.refuse_changed("use calls that return a new tensor, without in_place in their names.")
    return run


def _right(
    answer: Answer,
    exercise: str,
    description: str,
    *,
    inputs: dict[str, Array],
    results: list[Array],
    tolerance: float,
    special: str = "",
    dtype: type[DType] = FLOAT,
) -> Ran:
    """Return a run of the answer's program on `inputs`; row i of each input is on tile i.

    `results` has the right results, and `special` says what is special about the inputs.

    :raises NotYet: if the results are wrong.
    """
    right = np.array(results if len(results) > 1 else results[0])

    def agree(learner_run: Ran, reference_run: Ran) -> bool:
        return _are_near(reference_run.result, learner_run.result) and not _are_near(
            reference_run.result, right
        )

    tensors = {
        name: Var(dtype, values.shape, by_rows, [values], kept=True)
        for name, values in inputs.items()
    }
    trial = _trial(description, tensors, [result.shape for result in results])
    trial = replace(trial, agree=agree)
    run = _ran(trial, answer)

    def again() -> str:
        return difference(_ran(trial, answer).result, right, tolerance)

    if where := difference(run.result, right, tolerance):
        why, advice = trial.reason(run, exercise, advice=BY_HAND)
        why = why or rounding_or_logic(again)
        advice = KEEP_WIDE if why == ROUNDED else advice
        if why == ROUNDED and dtype == HALF:
            advice = IN_FLOAT
            why = why if np.isfinite(run.result).all() else TOO_LARGE
        if special and not why:
            why = f"the other inputs give right results. This input is special: {special}."
        raise NotYet(description, where, why=why, next_step=advice)
    return run


# --- 03.1 -----------------------------------------------------------------------------------------


def softmax_of(x: Array) -> Array:
    """Return the softmax of each row, in the dtype of x."""
    powers: Array = np.exp(x - x.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _scores() -> dict[str, Array]:
    """Return {description of a case: rows of scores}; ordinary cases come first."""
    cases: dict[str, Array] = {
        f"drawn {shape}": _drawn(301 + n, *shape) / 8
        for n, shape in enumerate(((TILES, 7), (5, 4), (31, 3)))
    }
    cases["the numbers are around 30"] = 30 + _drawn(303, 4, 6) / 8
    cases["the numbers are around 10,000"] = 1e4 + _drawn(304, 5, 6)
    levels = np.array([[0], [1e4], [-1e4]], np.float32)
    cases["the rows are far apart, at 0 and 10,000 and -10,000"] = levels + _drawn(305, 3, 5)
    alone = _drawn(306, 4, 6)
    alone[:, 2] += 300
    cases["one number in each row is 300 above the others"] = alone
    ends = np.array([[1], [-1]]) * [1, 0.875, 0.75, 0.625, 0.5]
    cases["the numbers reach the ends of FLOAT"] = np.float32(
        np.finfo(np.float32).max
    ) * ends.astype(np.float32)
    cases["there is one row"] = _drawn(307, 1, 6)
    cases["there is one number in a row"] = _drawn(308, 7, 1)
    return cases


SCORES = _scores()
SOFTMAX = Precision(softmax_of, [(x,) for name, x in SCORES.items() if name.startswith(ORDINARY)])


def _softmax(answer: Callable[..., Tensor]) -> Passed:
    reports = []
    tolerance = SOFTMAX.tolerance
    for name, x in SCORES.items():
        description = (
            f"{counted(x.shape[0], 'row')} of {counted(x.shape[1], 'number')}, from "
            f"{number(x.min())} to {number(x.max())}"
        )
        special = "" if name.startswith(ORDINARY) else name
        right = softmax_of(x.astype(float))
        run = _right(
            answer,
            "03.1",
            description,
            inputs={"x": x},
            results=[right],
            tolerance=tolerance,
            special=special,
        )
        reports.append(run.report)
    return Passed(f"{len(SCORES)} sets of rows, some of them around 10,000", evidence=reports)


# --- 03.2 -----------------------------------------------------------------------------------------


def _adds(values: Array) -> Answers:
    """Return a function that lets an answer map the tensor `a`, and builds a program that uses it.

    The program adds the tensor `a`, which has the values `values`, to its transpose.
    """

    def form(answer: Answer, trial: Trial, graph: Graph, parts: Parts) -> Built:
        (a,) = parts
        call_made(answer, trial.tried, graph, a)
        _refuse_unmapped(trial.tried, graph, a)
        program = Steps()
        total = popops.add(graph, a, a.transpose(), program)
        graph.set_initial_value(a, values)
        return program, [total]

    return form


def _refuse_unmapped(description: str, graph: Graph, a: Tensor) -> None:
    """Raise `NotYet` for the first element of `a` that is mapped to no tile."""
    is_mapped = np.zeros(a.num_elements, bool)
    for pieces in graph.get_tile_mapping(a, require_complete=False):
        for begin, end in pieces:
            is_mapped[begin:end] = True
    missing = np.argwhere(~is_mapped.reshape(a.shape))
    if not len(missing):
        return
    i, j = missing[0].tolist()
    why = ""
    advice = f"map a[{i}, {j}], too: both i and j run from 0 to {len(a) - 1}."
    half = len(a) * (len(a) - 1) // 2
    for is_half, where in (
        (missing[:, 0] < missing[:, 1], "j > i"),
        (missing[:, 0] > missing[:, 1], "i > j"),
    ):
        if len(missing) == half and is_half.all():
            why = (
                f"the elements a[i, j] with {where} are not mapped to any tile; all others are "
                "mapped."
            )
            advice = "map a[j, i] in the same iteration that maps a[i, j]."
    raise NotYet(
        description,
        f"a[{i}, {j}] is not mapped to any tile, the first of "
        f"{counted(len(missing), 'such element')}",
        expected=f"all {a.num_elements} elements on tiles",
        why=why,
        next_step=advice,
    )


def _held(graph: Graph, a: Tensor) -> list[int]:
    """Return the number of elements of `a` on each tile."""
    return [
        sum(end - begin for begin, end in pieces)
        for pieces in graph.get_tile_mapping(a, require_complete=False)
    ]


def _layout(answer: Callable[[Graph, Tensor], None]) -> Passed:
    reports = []
    sizes = ((26, TILES), (17, TILES), (7, TILES), (31, TILES), (17, OTHER))
    # A formula that is balanced on a prime number of tiles may overload one tile on a machine with
    # another number of tiles.
    for n, tiles in (*sizes, (11, 16), (8, 16), (21, 15), (19, 31)):
        description = f"a + a.transpose() with {n} x {n} numbers on {tiles} tiles"
        values = _drawn(320 + n, n, n)
        tensors = {"a": Var(FLOAT, (n, n))}
        run = Trial(description, tensors, form=_adds(values), tiles=tiles).of(answer)
        assert np.array_equal(run.result, values + values.T)  # a mapping never changes a value
        graph = run.graph
        a = run.tensors["a"]
        if crossing := _crossing(run.report):
            actual, why, advice = _apart(tiles_of(graph, a))
            bars = Bars(0, crossing, "bytes exchanged")
            raise NotYet(
                description,
                actual,
                why=why,
                next_step=advice,
                bars=bars,
                draws=partial(show.tiles, a),
            )
        share = -(-n * n // tiles)
        elements_per_tile = _held(graph, a)
        if max(elements_per_tile) > 2 * share:
            full = elements_per_tile.index(max(elements_per_tile))
            why = "nothing is sent, but some tiles have many more numbers than others."
            if max(elements_per_tile) == n * n:
                why = (
                    "nothing is sent, but only because all numbers are on one tile: the others "
                    "have no "
                    "work."
                )
            actual = (
                f"tile {full} holds {max(elements_per_tile)} of {n * n} numbers; an even share is "
                f"{share}"
            )
            bars = Bars(2 * share, max(elements_per_tile), "numbers on the fullest tile")
            raise NotYet(
                description,
                actual,
                expected=f"at most {2 * share}",
                why=why,
                next_step="use a number that is the same for (i, j) and (j, i), and rises along "
                "each row.",
                bars=bars,
                draws=partial(show.tiles, a),
            )
        reports.append(run.report)
    minimum = Bound(0, "bytes exchanged", "no program can send fewer than 0 bytes")
    return Passed(
        f"square matrices of 31 x 31 to 7 x 7 numbers, on {OTHER} to 31 tiles",
        Bars(0, 0, minimum.unit),
        reports,
        bound=minimum,
    )


def _apart(tiles: Array) -> tuple[str, str, str]:
    """Return `(what moves, why, next step)` if a[i, j] and a[j, i] are on different tiles.

    `tiles` has the tile of each element. The program adds the two elements, so they should share a
    tile.
    """
    i, j = (int(k) for k in np.argwhere(tiles != tiles.T)[0])
    actual = (
        f"{int((tiles != tiles.T).sum())} numbers are sent: a[{i}, {j}] is on tile {tiles[i, j]}, "
        f"and a[{j}, {i}] is on tile {tiles[j, i]}"
    )
    why = "the addition adds these two elements, so one of them has to be sent."
    advice = "map a[i, j] and a[j, i] to the same tile."
    if (tiles == tiles[:, :1]).all() or (tiles == tiles[:1]).all():
        why = "each row (or column) is on one tile, and a[i, j] and a[j, i] are in different ones."
    elif all((np.diagonal(tiles, k) == tiles[0, k]).all() for k in range(len(tiles))):
        why = (
            "elements with the same j - i are on the same tile. But for a[j, i] the "
            "difference is i - j."
        )
        advice = "compute the tile from a number that stays the same if you exchange i and j."
    return actual, why, advice


# --- 03.3 -----------------------------------------------------------------------------------------


def fused_cycles(elements: int) -> int:
    """Return the modelled cycles of sqrt(x * x + y * y) as one fused operation.

    They are the cycles of one sync, and of one vertex that six worker threads share. According to
    the rates of PopLibs' operations (poplibs/popops/fused.py), two elements take 15 cycles: one to
    load both tensors, one to store the result, one for each of the two products, one for the sum,
    and ten for the root.
    """
    pairs = ceil(ceil(elements / WORKERS) / 2)
    return SYNC + 20 + WORKERS * (17 + 15 * pairs)


def length_of(x: Array, y: Array) -> Array:
    """Return sqrt(x * x + y * y)."""
    lengths: Array = np.sqrt(x * x + y * y)
    return lengths


LENGTHS = Precision(length_of, [(_drawn(331, 700), _drawn(332, 700))])


def _refuse_several_sets(description: str, report: Report) -> None:
    """Raise `NotYet` if the lengths took more than one compute set."""
    sets = _compute_sets(report)
    if sets != 1:
        why = (
            "each operation is a separate call. Between two calls, the tiles store a tensor "
            "and wait for each other."
        )
        if sets < 4:
            why = (
                "only some of the operations are fused. Between two calls, the tiles store a "
                "tensor and wait for each other."
            )
        advice = "write all four operations as one expression, for one call of popops.map."
        if sets == 4 and all(name.name.startswith("map") for name in report.compute_sets):
            why = "the expression is not fused, because the option enableGenerateCodelet is off."
            advice = "leave out the options of popops.map."
        budget = Bars(1, sets, "compute sets")
        raise NotYet(
            description,
            f"the right lengths, in {counted(sets, 'compute set')}",
            expected="1 compute set",
            why=why,
            next_step=advice,
            bars=budget,
        )


def _fused(answer: Callable[..., Tensor]) -> Passed:
    runs = {}
    tolerance = LENGTHS.tolerance
    # The number of elements per tile.
    for per_tile in (100, 1, 7):
        shape = (TILES, per_tile) if per_tile > 1 else (5, 1)
        description = f"{counted(shape[0] * per_tile, 'arrow')}, on {shape[0]} tiles"
        inputs = {"x": _drawn(333, *shape), "y": _drawn(334, *shape)}
        right = length_of(*(v.astype(float) for v in inputs.values()))
        runs[per_tile] = _right(
            answer, "03.3", description, inputs=inputs, results=[right], tolerance=tolerance
        )
        report = runs[per_tile].report
        _refuse_several_sets(description, report)
        if crossing := _crossing(report):
            why = (
                "row i of x and of y is on one tile, and row i of the lengths could be there, too."
            )
            raise NotYet(
                description,
                f"{crossing} bytes are sent",
                expected="0 bytes",
                why=why,
                next_step="call popops.map with x and y, and do not copy them to other tiles.",
            )
    description = f"{100 * TILES:,} arrows, 100 on a tile"
    bars = Bars(round(SLACK * fused_cycles(100)), int(runs[100].cycles), MODELLED)
    if bars.yours > bars.budget:
        why = "the expression does more work for each arrow than two products, a sum and a root."
        raise NotYet(
            description,
            "",
            why=why,
            next_step="use no power: expr._1 * expr._1 for a square, and expr.Sqrt for the root.",
            bars=bars,
        )
    reports = [run.report for run in runs.values()]
    bound = least_cycles(reports[0], supersteps=1, touched=3 * 4 * 100 * TILES)
    return Passed(f"{description}, and fewer; in one compute set", bars, reports, bound=bound)


# --- 03.4 -----------------------------------------------------------------------------------------


def moments_of(x: Array) -> Array:
    """Return the mean and the variance of all elements, from their sum and their sum of squares.

    Each row is summed separately, and then the sums of the rows are summed.
    """
    mean, square = (
        (v / v.dtype.type(v.size)).cumsum(axis=1)[:, -1].cumsum()[-1] for v in (x, x * x)
    )
    return np.stack([mean, square - mean * mean])


def _readings(rows: int, per_row: int) -> Array:
    """Return random readings of about 40 degrees, with a separate mean for each row."""
    draw = np.random.default_rng(340 + per_row)
    readings: Array = 40 + 2 * np.cos(np.arange(rows))[:, None] + draw.normal(0, 2, (rows, per_row))
    return readings.astype(np.float16)


MOMENTS = Precision(moments_of, [(_readings(TILES, 250),)])


def _refuse_many_sets(description: str, report: Report) -> None:
    """Raise `NotYet` if right answers took more than `MOST_SETS` compute sets."""
    sets = _compute_sets(report)
    if sets > MOST_SETS:
        reducing = sum(p.executions for p in report.compute_sets if "reduce" in p.name)
        why = (
            "each reduction takes compute sets of its own, or the program reads the readings twice."
        )
        advice = "compute both sums with one popops.reduce_many, and then use one popops.map."
        if reducing <= 2:
            calls = sets - reducing
            why = (
                f"the reductions take {counted(reducing, 'compute set')}, and the calls after them "
                f"take {calls} more: one for each call."
            )
            advice = "put the calls after the reductions into one expression, for one popops.map."
        bars = Bars(MOST_SETS, sets, "compute sets")
        raise NotYet(
            description,
            f"both results are right, in {sets} compute sets",
            expected=f"at most {MOST_SETS}",
            why=why,
            next_step=advice,
            bars=bars,
        )


def _one_in_half(broken: Broken) -> Exception:
    """Return the error as `NotYet` if an operation got HALF and FLOAT; otherwise unchanged."""
    error = " ".join(str(broken.error).split())
    if not ("given two dtypes" in error and "HALF" in error and "FLOAT" in error):
        return broken
    line = dict(broken.rows).get("line", "")
    return NotYet(
        broken.tried,
        f"HALF and FLOAT in one operation{', in ' + line if line else ''}",
        why="one operand of this operation is FLOAT, and another one is still HALF.",
        next_step=(
            "use FLOAT for both: it is the last argument of SingleReduceOp, and out_type of "
            "popops.reduce; popops.cast converts a tensor."
        ),
    )


def _twice_and_one(answer: Answer) -> Passed:
    right = warmups.tensor_call("03.w2", lambda x: 2 * x + 1, "the tensor that popops.map returned")
    try:
        return right(answer)
    except Broken as broken:
        if "let the device do it: popops." not in " ".join(str(broken.error).split()):
            raise
        line = dict(broken.rows).get("line", "")
        raise NotYet(
            broken.tried,
            f"an operator of Python on the tensor x{', in ' + line if line else ''}",
            why="x has no numbers yet when Python executes this line.",
            next_step="write the operators on expr._1, and pass this expression to popops.map.",
        ) from None


def _mean_and_variance(answer: Callable[..., Sequence[Tensor]]) -> Passed:
    reports = []
    tolerance = MOMENTS.tolerance
    for rows, per_row in ((TILES, 250), (TILES, 31), (5, 7), (1, 1)):
        x = _readings(rows, per_row)
        description = f"mean and variance of {rows} x {per_row} readings of about 40"
        special = ""
        if rows < TILES:
            verb = "is" if rows == 1 else "are"
            special = f"there {verb} only {counted(rows, 'row')} of {per_row} on {TILES} tiles"
        right = [np.asarray(x.mean(dtype=float)), np.asarray(x.astype(float).var())]
        try:
            report = _right(
                answer,
                "03.4",
                description,
                inputs={"x": x},
                results=right,
                tolerance=tolerance,
                special=special,
                dtype=HALF,
            ).report
        except Broken as broken:
            raise _one_in_half(broken) from None
        crossing = _crossing(report)
        _refuse_many_sets(description, report)
        reports.append(report)
        if per_row == 250:
            budget = 2 * 4 * rows
            cross = Bars(budget, crossing, "bytes exchanged")
            if crossing > budget:
                why = (
                    "this is more than two numbers from each tile: the program sends readings to "
                    "other "
                    "tiles before it adds them up."
                )
                advice = "add up the readings of each tile first, and send only the sums."
                raise NotYet(
                    description,
                    f"both results are right, but {crossing:,} bytes are sent",
                    why=why,
                    next_step=advice,
                    bars=cross,
                )
    return Passed("4 sets of readings, at most two numbers sent from each tile", cross, reports)


# --- 03.5 -----------------------------------------------------------------------------------------

# Each of the later pairs differs from the first pair in one number.
SEEDS = (7, 11), (7, 5), (2024, 11)
HALF_A_ROW = "half a row further"


def _refuse_infinite(description: str, results: list[Array]) -> None:
    """Raise `NotYet` if a result of dropout is infinite or nan."""
    if not all(np.isfinite(values).all() for values in results):
        why = (
            "some results are infinite, because the program divides by the mask, which contains 0."
        )
        advice = "multiply x by the mask, and divide by `keep`."
        raise NotYet(
            description,
            "inf among the results",
            expected="only finite numbers",
            why=why,
            next_step=advice,
        )


def _refuse_fixed_masks(description: str, masks: list[Array], actual: list[Array]) -> None:
    """Raise `NotYet` if the mask stays the same when a number of the seed changes.

    `masks` and `actual` have the masks and the results of all runs. Run 0 has the first pair of
    `SEEDS`, and runs 2 and 3 have the other pairs.
    """
    again = [np.array_equal(masks[0], other) for other in masks[2:4]]
    if sum(again) == 1:
        place = "second" if again[0] else "first"
        raise NotYet(
            description,
            f"with another {place} number in the seed, the same mask",
            expected="another mask",
            why=f"the mask does not depend on the {place} number of the seed.",
            next_step="pass the whole seed tensor to the call, with both numbers.",
        )
    if all(again):
        why = (
            "the mask does not depend on the seed. Random numbers from Python are drawn once, "
            "while "
            "the program is created, and a constant seed gives the same mask in every run."
        )
        if not masks[0].any() or masks[0].all():
            outcome = "stays" if masks[0].all() else "becomes 0"
            why = f"every number {outcome}, for every seed."
        advice = "let the machine draw the mask: call poprand.bernoulli with the seed tensor."
        if masks[0].all() and not np.array_equal(actual[0], actual[2]):
            raise NotYet(
                description,
                "no number became 0",
                expected="0 where a number is dropped",
                why="the random numbers change the results, but none of the results is 0.",
                next_step="multiply x by the mask, so that the result is 0 if the mask is 0.",
            )
        raise NotYet(
            description,
            "with another seed, the same mask",
            expected="another mask",
            why=why,
            next_step=advice,
        )


def _dropout(answer: Callable[..., Tensor]) -> Passed:
    reports = []
    # Two rows share a tile, but must still get independent random numbers.
    rows = 2 * TILES
    for shape, keep in (((TILES, 400), 0.75), ((rows, 400), 0.5), ((7, 3), 0.9), ((1, 1), 0.5)):
        description = (
            f"{shape[0]} x {shape[1]} numbers, each of which stays with probability {keep}"
        )
        x = _drawn(351, *shape)
        second_input = _drawn(352, *shape)
        trial = _dropping(description, keep, [x, second_input, x, x], [SEEDS[0], *SEEDS])
        trial_run = _ran(trial, answer)
        runs = [*trial_run.came, *_ran(replace(trial, runs=1), answer).came]
        actual = [run["result 0"] for run in runs]
        masks = [values != 0 for values in actual]
        _refuse_infinite(description, actual)
        large = x.size > 1000
        if large:
            _refuse_fixed_masks(description, masks, actual)
        if not np.array_equal(masks[0], masks[1]) or not np.array_equal(masks[0], masks[4]):
            why = (
                "the mask depends on more than the seed: on the run before, or on the numbers in x."
            )
            raise NotYet(
                description,
                "with the same seed, another mask",
                expected="the same mask",
                why=why,
                next_step=(
                    "call poprand.bernoulli with the seed tensor, and use no other source of "
                    "random numbers."
                ),
            )
        if large:
            _look_drawn(description, masks, keep)
        right = np.where(masks[0], x.astype(float) / keep, 0)
        if where := difference(actual[0], right, KEPT.tolerance):
            why, advice = trial.reason(trial_run, "03.5", runs=1, advice=BY_HAND)
            share = masks[0].mean()
            if not why and _are_near(actual[0], np.where(masks[0], x / share, 0)):
                why = (
                    f"the program divides by {number(float(share))}, the share of the numbers that "
                )
                why += f"stayed in this run. `keep` is {keep}."
                advice = "divide by `keep`."
            raise NotYet(description, where, why=why, next_step=advice)
        reports.append(trial_run.engine.report)
    return Passed(
        "4 shapes with three seeds: the same seed gives the same mask, and the shares of numbers "
        "that stay are right",
        evidence=reports,
    )


KEPT = Precision(lambda x: x / np.asarray(0.75, x.dtype), [(_drawn(351, TILES, 400),)])


def _dropping(
    description: str, keep: float, numbers: list[Array], seeds: list[tuple[int, int]]
) -> Trial:
    """Return a trial of dropout: run i gets the array `numbers[i]` and the seed `seeds[i]`.

    Each answer draws its own masks, so only elements that both the learner's answer and the known
    mistake keep are compared.
    """
    x = numbers[0]
    right = numbers[0] / keep

    def agree(learner_run: Ran, reference_run: Ran) -> bool:
        learner_values, theirs = (run.came[0]["result 0"] for run in (learner_run, reference_run))
        both = (learner_values != 0) & (theirs != 0)
        return (
            bool(both.any())
            and _are_near(learner_values[both], theirs[both])
            and not _are_near(theirs[both], right[both])
        )

    tensors = {
        "x": Var(FLOAT, x.shape, by_rows, numbers, kept=True),
        "seed": Var(UNSIGNED_INT, (2,), 0, [np.array(pair) for pair in seeds], kept=True),
    }
    trial = _trial(description, tensors, [x.shape])
    return replace(trial, more=(keep,), runs=len(numbers), agree=agree)


def _look_drawn(description: str, masks: list[Array], keep: float) -> None:
    """Raise `NotYet` unless the masks look like independent random samples.

    The fraction of kept elements must be near `keep`, and each element must be drawn independently.
    """
    if not all(mask.all() for mask in masks) and all((m == m[:, :1]).all() for m in masks):
        raise NotYet(
            description,
            "all numbers of a row stay, or all become 0",
            expected="a random decision for each number",
            why="several numbers share one random decision.",
            next_step="draw for each number: pass x as the reference of poprand.bernoulli.",
        )
    count = masks[0].size
    share = float(masks[0].mean())
    error = float(np.sqrt(keep * (1 - keep) / count))
    if abs(share - keep) > ERRORS * error:
        percent = f"{100 * keep:g} %"
        why = f"if {count:,} numbers stay with probability {keep:g}, their share is near {percent}."
        advice = "draw once for each number, with probability keep that the number stays."
        if abs(1 - share - keep) <= ERRORS * error:
            why = "the numbers that should stay become 0, and the others stay."
            advice = (
                "pass keep as the probability: poprand.bernoulli returns a 1 with this probability."
            )
        actual = f"{number(100 * share)} % of the numbers stay"
        raise NotYet(
            description,
            actual,
            expected=f"{100 * keep:g} %, plus or minus {100 * ERRORS * error:.1f} %",
            why=why,
            next_step=advice,
        )
    # The probability that two independent elements are both kept or both dropped.
    equal_share = keep**2 + (1 - keep) ** 2
    far = ERRORS * 2 * float(np.sqrt(equal_share * (1 - equal_share) / count))
    for where, shifted in _elsewhere(masks[0]):
        same = float((masks[0] == shifted).mean())
        if abs(same - equal_share) <= far:
            continue
        actual = f"{number(100 * same)} % of the mask equals the mask {where}"
        why = "several numbers share one random decision."
        if same == 1 and where == HALF_A_ROW:
            why = (
                "both halves of each row have the same mask, because two calls with the same "
                "seed and the same number draw the same random numbers."
            )
        raise NotYet(
            description,
            actual,
            expected=f"about {number(100 * equal_share)} %",
            why=why,
            next_step="draw for each number: pass x as the reference of poprand.bernoulli.",
        )


def _elsewhere(mask: Array) -> Iterator[tuple[str, Array]]:
    """Yield `(description, other mask)`: the mask shifted by rows, by columns, and mirrored."""
    rows, columns = mask.shape
    for k in range(1, rows // 2 + 1):
        yield "in the next row" if k == 1 else f"{k} rows further", np.roll(mask, -k, 0)
    for k in sorted({1, 2, 3, *(columns // parts for parts in range(2, TILES + 1))}):
        where = HALF_A_ROW if 2 * k == columns else f"{counted(k, 'column')} further"
        yield where, np.roll(mask, -k, 1)
    half = columns // 2
    yield "in the mirrored row", mask[:, ::-1]
    yield "in the mirrored column", mask[::-1]
    yield "in the mirrored half", np.hstack([mask[:, half - 1 :: -1], mask[:, : half - 1 : -1]])


def _few_sets(judge: warmups.Judge, most: int, why: str, advice: str) -> warmups.Judge:
    """Return a check that extends `judge`: it also refuses more than `most` compute sets."""

    def judged(answer: Answer) -> Passed:
        passed = judge(answer)
        reports = passed.evidence
        assert isinstance(reports, list)
        sets = max(map(_compute_sets, reports))
        if sets > most:
            raise NotYet(
                passed.tried,
                f"the numbers are right, in {sets} compute sets",
                expected=f"{most}",
                why=why,
                next_step=advice,
                bars=Bars(most, sets, "compute sets"),
            )
        return passed

    return judged


def _by_columns(judge: warmups.Judge) -> warmups.Judge:
    """Return a check that extends `judge`: it explains a result with one number per row."""

    def judged(answer: Answer) -> Passed:
        try:
            return judge(answer)
        except NotYet as refusal:
            rows = dict(refusal.rows)
            if rows["came"] == "a tensor of shape ()":
                why = "this is one number for all of x, but x has 4 columns."
                advice = "add up only over dimension 0: pass the list [0]."
                raise NotYet(rows["tried"], rows["came"], rows["expected"], why, advice) from None
            if rows["came"] != f"a tensor of shape ({TILES},)":
                raise
            why = "this is one number for each of the 13 rows, but x has 4 columns."
            advice = "add up over the rows, dimension 0 of x: pass the list [0]."
            raise NotYet(rows["tried"], rows["came"], rows["expected"], why, advice) from None

    return judged


LESSON = lesson(
    "03",
    question("03.0", (PredictedValue("", "bytes", whole=True),)),
    exercise(
        "03.w1",
        _few_sets(
            warmups.tensor_call("03.w1", np.exp, "the tensor that popops.exp returned", 1e-5),
            1,
            "each call of the library has a compute set of its own, and one call is enough.",
            "leave out the other calls.",
        ),
    ),
    exercise("03.1", _softmax),
    exercise("03.2", _layout),
    exercise(
        "03.w2",
        _few_sets(
            _twice_and_one,
            1,
            "each call of the library has a compute set of its own.",
            "use one call: popops.map(graph, expression, [x], program), with expr._1 for x.",
        ),
    ),
    exercise("03.3", _fused),
    exercise(
        "03.w3",
        _few_sets(
            _by_columns(
                warmups.tensor_call(
                    "03.w3", lambda x: x.sum(axis=0), "the tensor that popops.reduce returned"
                )
            ),
            2,
            "one reduction takes at most two compute sets: the sums on each tile, and their total.",
            "use one call of popops.reduce for all rows.",
        ),
    ),
    exercise("03.4", _mean_and_variance),
    exercise("03.5", _dropout),
)
