"""Lesson 05, Matrix-vector and matmul: questions, correct results and known mistakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import product
from math import ceil
from typing import NoReturn

import numpy as np

from ipu_course.checking.bound import least_cycles
from ipu_course.checking.calling import call
from ipu_course.checking.comparing import compare, compare_value
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import first, suspects
from ipu_course.checking.programs import OTHER, SYNC, TILES, WORKERS, tiles_of
from ipu_course.checking.quoting import quoted, returned
from ipu_course.checking.trial import (
    Ran,
    Trial,
    Var,
    appends,
    linearly,
    narrowed,
    refuse_fixed_tiles,
    sizes_of,
)
from ipu_course.checking.verdict_panel import Bars, number
from ipu_course.checking.verdicts import MODELLED, NotYet, Passed
from ipu_teach import FLOAT, Graph, Report, Tensor, concat, show
from ipu_teach.errors import counted
from ipu_teach.poplibs import poplin
from ipu_teach.program import Program, Sequence
from ipu_teach.report import ComputeSetProfile
from ipu_teach.types import Array

LARGER = 17  # The number of tiles of a third machine.
# A function that takes a number of elements, and returns the worker cycles of a vertex for them.
Price = Callable[[int], int]
# A plan is (rows, columns, pieces, tiles, price of a dot product, price of a sum).
Plan = tuple[int, int, int, int, Price, Price]
LATENCY = 69  # The cycles until the first element of an exchange arrives (see docs/model.md).


def _product(rows: int, cols: int, description: str, *more: int) -> Trial:
    """Return a trial of the product of a random matrix and vector, with a second run.

    The numbers are small enough for exact products in FLOAT. `more` has further arguments of the
    answer.
    """
    draw = np.random.default_rng([rows, cols])
    values = draw.permutation(rows * cols).reshape(rows, cols) - rows * cols // 2
    values = values if rows * cols < 4096 else values % 17 - 8
    # All numbers are odd, so none is 0.
    numbers = 2 * draw.permutation(cols) - cols // 4 * 2 + 1
    matrix = Var(FLOAT, (rows, cols), given=[values])
    vector = Var(FLOAT, (cols,), linearly, given=[numbers])
    return Trial(
        description,
        {
            "matrix": matrix,
            "vector": vector,
            "result": Var(FLOAT, (rows,), right=[values @ numbers]),
        },
        more=more,
    ).twice()


def _by_step(run: Ran) -> list[Array]:
    """Return a list with one int[tiles] per compute step: the number of vertices on each tile.

    A compute step executes a compute set. Executions with the same cycles count as one step.
    """
    profile = run.report.profile
    steps = np.unique(run.report.step_numbers).tolist()
    return [on[0] for step in steps if (on := profile.vertices_on(step)) is not None]


def _fetched(run: Ran, name: str) -> Array:
    """Return int[tiles]: the bytes of the tensor `name` that vertices read from other tiles."""
    tensor = run.tensors[name]
    home = tiles_of(run.graph, tensor).ravel()
    reads = np.zeros((run.trial.tiles, tensor.num_elements), bool)
    for table in (t for compute_set in run.graph.compute_sets for t in compute_set.tables.values()):
        for field in (name for name, edge in table.edges.items() if edge.kind != "output"):
            columns = table.tiles, table.offsets[field], table.layouts[field]
            for tile, offset, layout in zip(*columns, strict=True):
                for delta, part in run.graph.layouts[layout].parts if layout >= 0 else ():
                    places = offset + delta + part.positions.ravel() - tensor.offset
                    inside = (places >= 0) & (places < tensor.num_elements)
                    reads[tile, places[inside & (part.size > 0)]] = True
    reads &= home != np.arange(run.trial.tiles)[:, None]
    in_bytes: Array = FLOAT.size * reads.sum(axis=1)
    return in_bytes


def _vertices(run: Ran) -> Array:
    """Return int[tiles]: the number of vertices on each tile, summed over all steps."""
    total: Array = np.sum([np.zeros(run.trial.tiles, np.int64), *_by_step(run)], axis=0)
    return total


def _foreign(run: Ran) -> Array:
    """Return int[tiles]: the bytes of the vector that each tile must fetch from other tiles."""
    vector = run.tensors["vector"]
    local = np.bincount(tiles_of(run.graph, vector), minlength=run.trial.tiles)
    return FLOAT.size * (vector.num_elements - local)


def _refuse_wrong(run: Ran, exercise: str) -> None:
    """Raise `NotYet` for a product that is wrong, or that changes in the second run.

    The message quotes the first wrong row. The reason is a known mistake that gives the same wrong
    rows, if there is one.
    """
    if difference := run.wrong("result"):
        why, advice = run.trial.reason(run, exercise)
        if not why:  # The mistakes of 05.1 also apply to a product in pieces.
            advice = (
                "call your function with a matrix of 2 rows and 3 columns, and compute both "
                "results by hand."
            )
            why, advice = replace(run.trial, more=()).reason(run, "05.1", advice=advice)
        if not why and run.unwritten("result"):
            why = "nothing was written into `result`."
            advice = (
                "connect each vertex to an element of `result`, out=result[row], and store its "
                "product: self.out = …"
            )
        raise NotYet(
            run.trial.tried,
            difference.words,
            expected=quoted(difference.right),
            why=why,
            next_step=advice,
        )
    run.refuse_unrepeatable("result")


# --- 05.1 -----------------------------------------------------------------------------------------


def _one_per_row(answer: Callable[..., Program]) -> Passed:
    shapes = ((26, 64), (29, 12), (TILES, 20), (7, 5), (1, 3), (40, 6))
    for rows, cols in shapes:
        trial = _product(rows, cols, f"a matrix of {counted(rows, 'row')} and {cols} columns")
        if rows == shapes[-1][0]:
            refuse_fixed_tiles(trial, answer, OTHER, "result")
        trial = trial.elsewhere(LARGER if rows == shapes[-1][0] else TILES)
        description = trial.tried
        run = trial.of(answer)
        _refuse_wrong(run, "05.1")
        run.refuse_moved()
        on = _vertices(run)
        _refuse_unasked(run, int(on.sum()), description)
        _refuse_uneven(run, on)
        actual = np.asarray(run.report.exchange_bytes_per_tile[0])
        needs = np.where(on > 0, _foreign(run), 0)
        much = int(np.argmax(actual - needs))
        if actual[much] > needs[much]:
            why = (
                f"the tile needs only {number(float(needs[much]))} bytes of the vector. The other "
                "bytes are rows or results that are mapped to other tiles."
            )
            raise NotYet(
                description,
                f"tile {much} receives {number(float(actual[much]))} bytes",
                expected="only the vector",
                why=why,
                next_step="map matrix[row] and result[row] to the tile of their vertex.",
                draws=partial(show.tiles, run.tensors["matrix"]),
            )
    return Passed(
        f"{len(shapes)} shapes, among them 29 rows on 13 tiles, 7, and one row alone; and "
        f"{LARGER} tiles",
        evidence=run.report,
    )


def _refuse_unasked(run: Ran, vertices: int, description: str) -> None:
    """Raise `NotYet` unless a right product has one compute set of `vertices` vertices."""
    rows = run.tensors["result"].num_elements
    sets = len(run.report.compute_sets)
    if sets > 1:
        why = (
            f"{sets} compute sets follow one another, each with a sync, but the rows are "
            "independent."
        )
        raise NotYet(
            description,
            f"{sets} compute sets",
            expected="one",
            why=why,
            next_step="create one compute set before the loop, and add all vertices to it.",
        )
    if vertices != rows:
        why = (
            "the exercise asks for one vertex per row, since a single vertex runs on only one tile."
        )
        raise NotYet(
            description,
            counted(vertices, "vertex", "vertices"),
            expected=counted(rows, "vertex", "vertices"),
            why=why,
            next_step="add a vertex for each row, connected to matrix[row] and result[row].",
        )


def _refuse_uneven(run: Ran, on: Array) -> None:
    """Raise `NotYet` if the numbers of vertices on the tiles, `on`, differ by more than one."""
    full = int(np.argmax(on))
    empty = int(np.argmin(on))
    if on[full] - on[empty] <= 1:
        return
    idle = int((on == 0).sum())
    share, more = divmod(int(on.sum()), len(on))
    why = ""
    if idle:
        words = "has" if idle == 1 else "have"
        why = (
            f"{counted(idle, 'tile')} {words} no vertex, and must wait for the tile with the most "
            "vertices."
        )
    advice = "distribute the rows over the tiles as evenly as in 00.3 or 02.1."
    if len(on) != TILES and not on[TILES:].any():
        why = (
            f"on {TILES} tiles the rows are even, but here only {TILES} of the tiles have vertices."
        )
        advice = "use graph.target.num_tiles as the number of tiles."
    elif on.sum() == on[0]:
        why = f"all of the work is on tile 0, and {len(on) - 1} tiles are idle."
    elif np.all(on[:-1] == share) and on[-1] == share + more:
        why = "the last tile gets all rows of the remainder."
    elif on[full] == -(-on.sum() // len(on)) and np.array_equal(
        on, np.diff(np.minimum(np.arange(len(on) + 1) * on[full], on.sum()))
    ):
        why = (
            "the number of rows per tile is rounded up, so the first tiles get all rows, and the "
            "last tiles get none."
        )
    actual = (
        f"tile {full} has {on[full]}, tile {empty} has "
        f"{counted(int(on[empty]), 'vertex', 'vertices')}"
    )
    wanted = "tiles whose numbers of vertices differ by one at most"
    draws = partial(show.tiles, run.tensors["matrix"])
    raise NotYet(run.trial.tried, actual, expected=wanted, why=why, next_step=advice, draws=draws)


# --- 05.2 -----------------------------------------------------------------------------------------


def graphcores_guess(elements: int) -> int:
    """Return the worker cycles of a dot product, or of a sum, as tutorial 6 estimates them."""
    return 5 + (elements + 1) // 2


def compiled_dot(elements: int) -> int:
    """Return the worker cycles of `self.a @ self.b` for `elements` elements (see docs/model.md)."""
    return 12 + 4 * -(-elements // 2)


def compiled_sum(elements: int) -> int:
    """Return the worker cycles of `self.x.sum()` for `elements` elements (see docs/model.md)."""
    return 12 + 2 * -(-elements // 2)


def quick(elements: int) -> int:
    """Return the worker cycles of a fictional unit that processes 64 elements in a cycle."""
    return 1 + elements // 64


def plan_cycles(
    rows: int,
    cols: int,
    pieces: int,
    tiles: int,
    dot: Price,
    add: Price,
) -> int:
    """Return the cycles of a matrix-vector product, as tutorial 6 estimates them.

    Each row is cut into `pieces` pieces, which are distributed to tiles; each tile distributes its
    vertices to worker threads. The cycles are those of the fullest tile. `dot(n)` and `add(n)`
    return the worker cycles of a dot product and of a sum of n elements.
    """
    dealt = [len(range(tile, rows * pieces, tiles)) for tile in range(tiles)]
    summed = [len(range(tile, rows, tiles)) for tile in range(tiles)]
    longest = max(len(range(piece, cols, pieces)) for piece in range(pieces))

    def busiest(vertices: int) -> int:
        return max(len(range(worker, vertices, WORKERS)) for worker in range(WORKERS))

    # The number of pieces of the vector that the fullest tile needs.
    columns = len(range(0, max(dealt), rows))
    multiply = WORKERS * busiest(max(dealt)) * dot(longest)
    return (
        multiply
        + columns * longest
        + max(summed) * pieces
        + WORKERS * busiest(max(summed)) * add(pieces)
    )


@cache
def _plans() -> dict[str, Plan]:
    """Return {description: plan}: random products, tutorial 6's products, and special cases."""
    draw = np.random.default_rng(502)
    guess = (graphcores_guess, graphcores_guess)
    limits = ((40, 900), (300, 2000), (3, 40), (9, 60))
    shapes = []
    for _ in range(5):
        rows, columns, pieces, tiles = (int(draw.integers(low, high)) for low, high in limits)
        shapes.append((rows, columns, pieces, tiles))
    cases: dict[str, Plan] = {f"drawn {i}": (*shape, *guess) for i, shape in enumerate(shapes)}
    cases["drawn, few"] = (5, 44, 4, 3, *guess)
    cases |= {
        f"drawn {i}, compiled": (*shape, compiled_dot, compiled_sum)
        for i, shape in enumerate(shapes)
    }
    # In these cases, the exchange of the numbers takes longer than their products and sums.
    cases |= {
        "drawn, a quick product": (3, 600, 6, 3, quick, quick),
        "drawn, many pieces": (40, 300, 60, 13, quick, quick),
    }
    return cases | {
        "Graphcore's best, 3,996 cycles": (10_000, 1_000, 7, 1_472, *guess),
        "Graphcore's worst, 53,807 cycles": (10_000, 1_000, 999, 1_472, *guess),
        "a first-generation chip, 64,373 cycles": (10_000, 1_000, 999, 1_216, *guess),
        "the matrix has fewer rows than there are tiles": (5, 333, 11, 13, *guess),
        "each row is one piece": (29, 77, 1, 13, *guess),
        "there is only one tile": (7, 31, 5, 1, *guess),
    }


def _small_plans() -> list[Plan]:
    """Return plans with few rows, columns, pieces and tiles."""
    sizes = product(range(1, 6), (7, 12), (1, 2, 3, 5), (1, 2, 3, 4, 7))
    return [(*size, graphcores_guess, graphcores_guess) for size in sizes]


def _planned(answer: Callable[..., int]) -> Passed:
    parts = _beside_ours(answer)
    follow = (
        "correct the first of the four parts that is wrong."
        if parts
        else "compute the four parts separately, and return their sum."
    )
    try:
        comparison = compare(
            answer,
            plan_cycles,
            _plans(),
            suspects("05.2"),
            next_step=follow,
            more=(small := _small_plans()),
        )
    except NotYet as wrong:
        raise wrong.with_more(parts) from None
    return Passed(
        f"{len(_plans()) + len(small)} products, among them the tutorial's three",
        evidence=comparison.evidence,
    )


def _four_parts(
    plan: Callable[..., int],
    *sizes: int,
    dot: Price = graphcores_guess,
    add: Price = graphcores_guess,
) -> tuple[float, ...]:
    """Return the cycles of the four phases in the estimate `plan`, if the estimate is their sum.

    They are (vector's exchange, products, partial sums' exchange, sums). Each is a difference
    between calls of `plan`, in which a price or the number of columns is 0.
    """

    def free(_: int) -> int:
        return 0

    rows, _, pieces, tiles = sizes
    travel = call(plan, *sizes, free, free)
    back = call(plan, rows, 0, pieces, tiles, free, free)
    multiply = call(plan, *sizes, dot, free) - travel
    return travel - back, multiply, back, call(plan, *sizes, free, add) - travel


def _beside_ours(answer: Callable[..., int]) -> str:
    """Return a text that compares the four parts of the learner's estimate with the right ones.

    The text is "" if the learner's parts do not add up, or cannot be computed.
    """
    try:
        for sizes in (
            (40, 90, 5, 7),
            (3, 60, 6, 3),
            (8, 90, 9, 4),
            (5, 33, 11, 13),
            (60, 90, 5, 7),
        ):
            theirs, ours = (_four_parts(plan, *sizes) for plan in (answer, plan_cycles))
            if theirs != ours:
                break
        estimates = call(answer, *sizes, graphcores_guess, graphcores_guess)
        if abs(sum(theirs) - estimates) > 1e-6 or theirs == ours:
            return ""
        # If the estimate is a sum, a higher price of dot products changes only one part of it.
        dearer = call(answer, *sizes, lambda n: 2 * graphcores_guess(n), graphcores_guess)
        if abs(dearer - estimates - theirs[1]) > 1e-6:
            return ""
        parts = ("the vector", "multiply", "pieces back", "add up")
        message = [
            f"{part} {quoted(learner_part)}, not {quoted(right)}"
            if abs(learner_part - right) > 1e-6
            else f"{part} {right}"
            for part, learner_part, right in zip(parts, theirs, ours, strict=True)
        ]
    except Exception:  # The result is not a number, or the answer fails without columns.
        return ""
    rows, cols, pieces, tiles = sizes
    return (
        f"Another product shows which part is wrong. For {rows} rows and {cols} columns, with "
        f"{pieces} pieces per row, on {tiles} tiles, with Graphcore's guess as prices, your four "
        f"parts are: {'; '.join(message)}."
    )


def _parts_by_hand(answer: tuple[int, int, int, int]) -> Passed:
    right = _four_parts(plan_cycles, 3, 8, 4, 4, dot=lambda _: 7, add=lambda _: 9)
    about = "3 rows of 8, each split into 4, on 4 tiles"
    advice = "compute the four parts of the plan for tile 0, with its pieces 0, 1 and 2."

    def explains_the_first(mistake: tuple[int, ...]) -> bool:
        """Return whether `mistake` explains the first wrong part of `answer`.

        All other wrong parts of `mistake` must also be in `answer`.
        """
        parts = list(zip(answer, mistake, right, strict=True))
        value, wrong, _ = next(part for part in parts if part[0] != part[2])
        return value == wrong and all(
            value == wrong for value, wrong, correct in parts if wrong != correct
        )

    try:
        return compare_value(answer, right, "05.w1", about=about, advice=advice)
    except NotYet as refused:
        rows = dict(refused.rows)
        _, known = first(suspects("05.w1"), explains_the_first)
        if not known or rows["next"] != advice:
            raise
        raise NotYet(about, rows["came"], why=rows["why"], next_step=known) from None


# --- 05.3 -----------------------------------------------------------------------------------------

ROWS = TILES
COLS = 1_024
SLACK = 1.1


def split_cycles(pieces: int) -> int:
    """Return the modelled cycles of the product of ROWS x COLS, with `pieces` pieces per row.

    They are the estimate of `plan_cycles` plus two syncs and two latencies.
    """
    plan = plan_cycles(ROWS, COLS, pieces, TILES, dot=compiled_dot, add=compiled_sum)
    return 2 * (SYNC + LATENCY) + plan


def split_budget() -> int:
    """Return the budget in cycles, 10 % above a product with 2 * `WORKERS` pieces per row."""
    return round(SLACK * split_cycles(2 * WORKERS))


def _in_pieces(answer: Callable[..., Program]) -> Passed:
    shapes = ((26, 64, 4), (29, 30, 7), (TILES, 40, 13), (5, 30, 1), (3, 11, 5), (1, 7, 3))
    for rows, cols, pieces in shapes:
        description = (
            f"a matrix of {counted(rows, 'row')} and {cols} columns, with each row split into "
            f"{pieces}"
        )
        run = _product(rows, cols, description, pieces).of(answer)
        run.refuse_own_prices()
        _refuse_wrong(run, "05.3")
        maximum = max((profile.num_vertices for profile in run.report.compute_sets), default=0)
        if maximum != rows * pieces and pieces > 1:
            why = "the first compute set should have one vertex for each piece of each row."
            raise NotYet(
                description,
                f"{counted(maximum, 'vertex', 'vertices')} at most in a compute set",
                expected=f"{rows} x {pieces}",
                why=why,
                next_step=(
                    "split each row into the number of pieces that the argument `pieces` gives."
                ),
            )
        right = sorted(np.diff(np.arange(pieces + 1) * cols // pieces).tolist())
        if pieces > 1 and (actual := _lengths(run, rows * pieces)[::rows]) != right:
            why = (
                "piece p should begin at p * cols // pieces, so that lengths differ by at most one."
            )
            advice = "end piece p where the next one begins, at (p + 1) * cols // pieces."
            raise NotYet(
                description,
                f"pieces of {quoted(actual)} columns",
                expected=quoted(right),
                why=why,
                next_step=advice,
            )
    refuse_fixed_tiles(_product(29, 30, "29 rows of 30, split into 7", 7), answer, OTHER, "result")
    description = f"{ROWS} rows of {COLS:,} on {TILES} tiles, with pieces=None"
    run = _product(ROWS, COLS, description).of(answer)
    _refuse_wrong(run, "05.3")
    run.refuse_moved()
    bars = Bars(split_budget(), run.cycles, MODELLED)
    if bars.yours > bars.budget:
        draws = partial(show.tile, run.report, int(np.argmax(_vertices(run))))
        raise NotYet(
            description,
            "the right numbers, but too many cycles",
            "",
            *_too_late(run),
            bars,
            draws,
        )
    bound = least_cycles(run.report, 1, touched=FLOAT.size * ROWS * COLS)
    return Passed(
        f"six shapes, each split as requested; below, {description}", bars, run.report, bound=bound
    )


def _lengths(run: Ran, pieces: int) -> list[int]:
    """Return the sorted lengths of the pieces, in the compute set with `pieces` vertices."""
    sets = ([*compute_set.tables.values()] for compute_set in run.graph.compute_sets)
    lengths = list[int]()
    for table in next(tables for tables in sets if sum(map(len, tables)) == pieces):
        read = (n for f, n in sizes_of(run.graph, table).items() if table.edges[f].kind == "input")
        lengths += map(min, zip(*read, strict=True))
    return sorted(lengths)


# (whether the reason applies, the reason, the next step)
Reason = tuple[bool, str, str]


def _too_late(run: Ran) -> tuple[str, str]:
    """Return `(why, next step)` for a right product of ROWS x COLS that exceeds its budget."""
    first = max(run.report.compute_sets, key=lambda profile: profile.num_vertices)
    pieces = max(1, first.num_vertices // ROWS)
    rounds = -(-pieces // WORKERS)
    longest = -(-COLS // pieces)
    cycles_per_row = first.cost.compute_duration / WORKERS / rounds
    like_dot = compiled_dot(longest)
    reasons = (
        (
            pieces == 1,
            "the rows are not split: each tile has one vertex, so five of six workers are idle.",
            "split the rows, so that every worker has a piece.",
        ),
        (
            pieces >= COLS,
            "each piece is one number: starting a vertex takes longer than its product, and there "
            "are 13,312 vertices.",
            "use fewer and longer pieces: 12 per row, for example.",
        ),
        *_placement_reasons(run, first, pieces),
        (
            rounds * WORKERS > 1.2 * pieces,
            f"{pieces} pieces on a tile need {counted(rounds, 'round')} of six workers, and in the "
            "last round some workers are idle.",
            "use a multiple of six pieces, so that all rounds are full.",
        ),
        (
            cycles_per_row > 1.3 * like_dot,
            f"a vertex takes {number(round(cycles_per_row))} worker cycles for a piece of "
            f"{longest} numbers, but the codelet Dot takes {like_dot}.",
            "use the codelets Dot and Sum: they multiply and add with the vector unit.",
        ),
        (
            True,
            f"{pieces} pieces per row are too many: starting the vertices and adding up takes "
            "longer than the split saves.",
            "use the number of pieces with the smallest `planned`: min(range(1, 65), key=…)",
        ),
    )
    return next((why, advice) for holds, why, advice in reasons if holds)


def _placement_reasons(run: Ran, first: ComputeSetProfile, pieces: int) -> tuple[Reason, ...]:
    """Return the possible reasons, in the tile mapping, for a product that takes too long.

    `first` is the profile of the compute set that multiplies, with each row in `pieces` pieces.
    """
    on = _vertices(run)
    longest = -(-COLS // pieces)
    rows, received = (float(_fetched(run, name).max()) for name in ("matrix", "vector"))
    needs = float(np.max(_foreign(run)))
    adding = int(np.count_nonzero(_by_step(run)[-1]))
    return (
        (
            rows > needs / 10,
            (
                f"a tile receives {number(rows)} bytes of the matrix, since some pieces are mapped "
                "to other tiles than their vertices."
            ),
            "map the piece of the matrix, its vertex and its partial result to one tile.",
        ),
        (
            on.max() > 2 * on.min() + 1,
            f"one tile has {counted(int(on.max()), 'vertex', 'vertices')}, another has {on.min()}: "
            "all tiles wait for the fullest one.",
            "map piece number n to tile n * tiles // (rows * pieces), which distributes the pieces "
            "evenly.",
        ),
        (
            received > max(needs / 2, 10 * longest * ceil(pieces / ROWS)),
            f"a tile receives {number(received)} of the vector's {number(FLOAT.size * COLS)} "
            "bytes, since its pieces cover many columns.",
            "place pieces of the same columns on one tile: number n = piece * rows + row goes to "
            "tile n * tiles // (rows * pieces).",
        ),
        (
            first.cost.exchange[-1].total > 0,
            (
                "the products of pieces are mapped to other tiles than their vertices, so they are "
                "copied twice."
            ),
            "map partials[row, piece] to the tile of its vertex.",
        ),
        (
            adding < TILES // 2,
            (
                f"all {ROWS} rows are added up on {counted(adding, 'tile')}, while the other tiles "
                "are idle."
            ),
            "distribute the sums, too: map the vertex and result[row] to tile row * tiles // rows.",
        ),
    )


def _two_halves(answer: Callable[..., Program]) -> Passed:
    for size in (8, 7, 2):
        draw = np.random.default_rng([53, size])
        row = draw.permutation(size) + 2
        vector = 2 * draw.permutation(size) + 1
        halves = (slice(size // 2), slice(size // 2, size))
        ends = np.array([sum(row[half] * vector[half]) for half in halves])
        tensors = {
            "row": Var(FLOAT, size, 0, [row]),
            "vector": Var(FLOAT, size, 0, [vector]),
            "halves": Var(FLOAT, 2, 0, right=[ends]),
        }
        trial = Trial(f"a row of {size} numbers", tensors).twice()
        run = trial.of(answer)
        if difference := run.wrong("halves"):
            advice = f"compute the two dot products of a row of {size} numbers by hand."
            raise run.refused("05.w2", difference.words, quoted(difference.right), advice)
        run.refuse_unrepeatable("halves")
        if (maximum := max(profile.num_vertices for profile in run.report.compute_sets)) != 2:
            actual = f"{counted(maximum, 'vertex', 'vertices')} at most in a compute set"
            why = (
                "only vertices of the same compute set run at the same time, each on its own "
                "worker."
            )
            raise NotYet(
                trial.tried,
                actual,
                expected="2",
                why=why,
                next_step="create one compute set, and add both vertices to it.",
            )
        run.refuse_other_tiles(
            [0],
            "the row is on tile 0, but a vertex is on another tile.",
            "map both vertices to tile 0.",
        )
    return Passed("rows of 8, 7 and 2 numbers, in two pieces on one tile", evidence=run.report)


# --- 05.4 -----------------------------------------------------------------------------------------

M = 104
K = 256
N = 208
SHARE_OF_BYTES = 0.55  # The fraction of the fastest plan's bytes that the answer may use.
SHARE_OF_CYCLES = 1.2  # The multiple of the fastest plan's cycles that the answer may take.


def _matmul(m: int, k: int, n: int, description: str) -> tuple[Trial, Array]:
    """Return `(trial, right result)` for the product [m, k] x [k, n]."""
    draw = np.random.default_rng([m, k, n])
    # The left numbers are odd and above 2,048, so HALF cannot represent them. The right numbers are
    # small, so that sums are exact in FLOAT.
    left = 2 * draw.integers(1024, 2048, (m, k)) + 1
    right = draw.integers(-7, 8, (k, n))
    tensors = {
        "a": Var(FLOAT, (m, k), linearly, [left]),
        "b": Var(FLOAT, (k, n), linearly, [right]),
    }

    def message(result: object) -> str:
        if isinstance(result, Program):
            return "a program"
        return returned(result, ", which is no tensor")

    form = appends(
        (m, n),
        asks="the tensor c",
        step="return what mat_mul returns; its work is appended to prog.",
        message=message,
        expected="{}",
        advice="join pieces of columns with concat(…, 1), which puts them side by side.",
    )
    return Trial(description, tensors, form=form), left @ right


@cache
def _fastest_plan() -> Report:
    """Return the report of the library's product with the plan that ignores the memory limit."""
    return _matmul(M, K, N, "the fastest plan")[0].of(poplin.mat_mul).report


def frugal_budget() -> tuple[int, int]:
    """Return `(bytes of the fullest tile, modelled cycles)`: the budget of the product.

    Both are multiples of the figures of the fastest plan.
    """
    report = _fastest_plan()
    return round(SHARE_OF_BYTES * fullest(report)), round(SHARE_OF_CYCLES * report.total_cycles)


def fullest(report: Report) -> int:
    """Return the number of bytes on the fullest tile."""
    return int(report.memory.held_per_tile.max())


def _refuse_memory(
    answer: Callable[..., Tensor], description: str, run: Ran, peak_bytes: int
) -> NoReturn:
    """Raise `NotYet`, because the fullest tile has more than the allowed bytes."""
    num_steps = run.report.num_steps
    steps = counted(num_steps, "superstep")
    limit, budget = frugal_budget()
    why = f"the product takes {steps}, and the fullest tile still holds too many bytes."
    advice = IN_FOUR
    cut = _cut_of(answer, num_steps)
    if num_steps > 64:
        why = f"the product takes {steps}, and the code for all these steps fills the tile again."
        advice = "use fewer steps: give mat_mul a larger share of the memory, or use fewer pieces."
    elif cut:
        why = f"{why[:-1]}: {cut}"
    elif run.cycles < 1.01 * budget / SHARE_OF_CYCLES:
        why = (
            "this is the fastest plan, in which every tile receives all its blocks of `a` and "
            "`b` at once."
        )
        advice = IN_FOUR
    bars = Bars(limit, peak_bytes, "bytes of the fullest tile")
    raise NotYet(
        description,
        "the right numbers, but too many bytes",
        why=why,
        next_step=advice,
        bars=bars,
    )


def _frugal(answer: Callable[..., Tensor]) -> Passed:
    for m, k, n in ((40, 96, 64), (7, 13, 5), (6, 300, 10), (M, K, N)):
        description = f"[{m}, {k}] x [{k}, {n}] on {TILES} tiles"
        trial, exact = _matmul(m, k, n, description)
        run = trial.of(answer)
        if not np.array_equal(run.result, exact):
            raise NotYet(description, *_misproduced(run, exact))
    trial, small = _matmul(7, 13, 5, "[7, 13] x [13, 5]")

    def is_right(run: Ran) -> bool:
        return np.array_equal(run.result, small)

    refuse_fixed_tiles(trial, answer, OTHER, is_right)
    report = run.report
    limit, budget = frugal_budget()
    peak_bytes = fullest(report)
    cycles = run.cycles
    steps = counted(report.num_steps, "superstep")
    if peak_bytes > limit:
        _refuse_memory(answer, description, run, peak_bytes)
    bars = Bars(budget, cycles, MODELLED)
    if cycles > budget:
        learner_cycles, fastest_cycles = (
            number(round(r.compute_cycles_per_tile.mean())) for r in (report, _fastest_plan())
        )
        why = (
            f"the product fits in {steps}, but its small blocks are slow: a tile computes for "
            f"{learner_cycles} cycles on average, compared with {fastest_cycles} in the fastest "
            "plan."
        )
        if cut := _cut_of(answer, report.num_steps):
            why = f"{why} Here {cut}"
        raise NotYet(
            description,
            "the right numbers, but too many cycles",
            why=why,
            next_step=IN_FOUR,
            bars=bars,
        )
    held = f"its fullest tile holds {number(peak_bytes)} bytes of {number(limit)}"
    within = f"four sizes; below, {description}: {held}"
    return Passed(within, bars, report, bound=least_cycles(report, 1))


IN_FOUR = (
    "split the inner dimension into four pieces: call mat_mul for the first piece, and mat_mul_acc "
    "for the others."
)
NEEDS = {
    "rows": "the rows of `a` are split, so each piece needs all of `b`.",
    "columns": "the columns of `b` are split, so each piece needs all of `a`.",
    "inner": "the inner dimension is split into {} pieces.",
}


def _cut_of(answer: Callable[..., Tensor], steps: int) -> str:
    """Return which dimension an answer cuts, in words; "" if that is not clear.

    `steps` is the number of supersteps of the answer. The answer is compared with products that
    each cut one dimension into equal pieces. If such a product has the same bytes and cycles as the
    answer for two shapes, the answer cuts the same dimension.
    """
    trials = [_matmul(*shape, "a product in pieces")[0] for shape in ((M, K, N), (40, 96, 64))]
    for cut, pieces in (("rows", steps), ("columns", steps // 2), ("inner", (steps + 1) // 2)):
        if 1 < pieces <= 16 and all(
            _figures(trial, answer) == _figures(trial, _in_turn(cut, pieces)) for trial in trials
        ):
            return NEEDS[cut].format(pieces)
    return ""


def _figures(trial: Trial, answer: Callable[..., Tensor]) -> tuple[int, float]:
    """Return `(bytes of the fullest tile, cycles)` of an answer."""
    report = trial.of(answer).report
    return fullest(report), report.total_cycles


def _in_turn(cut: str, pieces: int = 4) -> Callable[[Graph, Tensor, Tensor, Sequence], Tensor]:
    """Return a function that multiplies two matrices in equal pieces, one after another.

    `cut` is the dimension that is cut: "rows", "columns", or "inner" for the inner dimension.
    """

    def product(graph: Graph, a: Tensor, b: Tensor, prog: Sequence) -> Tensor:
        size = {"rows": a.shape[0], "columns": b.shape[1], "inner": a.shape[1]}[cut]
        parts = [slice(i * size // pieces, (i + 1) * size // pieces) for i in range(pieces)]
        if cut == "rows":
            return concat([poplin.mat_mul(graph, a[part], b, prog) for part in parts], 0)
        if cut == "columns":
            return concat([poplin.mat_mul(graph, a, b[:, part], prog) for part in parts], 1)
        c = poplin.mat_mul(graph, a[:, parts[0]], b[parts[0]], prog)
        for part in parts[1:]:
            poplin.mat_mul_acc(graph, c, 1, a=a[:, part], b=b[part], prog=prog)
        return c

    return product


@cache
def _that_fit() -> list[str]:
    """Return the dimensions that a product may cut, from "rows", "columns" and "inner".

    A product that cuts one of these dimensions into four pieces is within the budgets of bytes and
    of cycles.
    """
    limit, budget = frugal_budget()
    trial, _ = _matmul(M, K, N, "a product in four pieces")
    reports = {cut: trial.of(_in_turn(cut)).report for cut in ("rows", "columns", "inner")}
    return [
        cut
        for cut, report in reports.items()
        if fullest(report) <= limit and report.total_cycles <= budget
    ]


def _which_cut(answer: str) -> Passed:
    (right,) = _that_fit()
    about = f"[{M}, {K}] x [{K}, {N}], in four pieces, one after another"
    advice = 'answer "rows", "columns" or "inner".'
    return compare_value(answer, right, "05.w3", about=about, advice=advice)


def _misproduced(run: Ran, exact: Array) -> tuple[str, str, str, str]:
    """Return `(position and value, expected value, why, next step)` of the first wrong element.

    `exact` is the right product.
    """
    actual = run.result
    left, right = (run.trial.tensors[name].given[0] for name in "ab")
    row, column = (int(i) for i in np.argwhere(actual != exact)[0])
    place = f"c[{row}, {column}]: {quoted(actual[row, column])}"
    k = left.shape[1]
    follow = f"print the begin and the end of each piece, for an inner dimension of {k}."
    why, advice = run.trial.reason(run, "05.4", advice=follow)
    if why:
        return place, quoted(exact[row, column]), why, advice
    if any(narrow := narrowed(actual, exact)):
        why, advice = narrow
    elif any(
        np.array_equal(actual, left[:, :end] @ right[:end])
        for end in (k // 4, k // 4 * 4, k // 8 * 8, k // 8, k - 1)
    ):
        why = "the last columns of `a` and the last rows of `b` are not multiplied."
        advice = "let the last piece end at a.shape[1]."
    elif any(
        np.array_equal(actual, left[:, begin:] @ right[begin:])
        for begin in (k - k // 4, k - k // 8, 3 * k // 4)
    ):
        why = "the result has only the last piece of the inner dimension."
        advice = "add up the products: mat_mul_acc(graph, c, 1, …)."
    elif end := _added_twice(actual - exact, left, right):
        why = f"the first {end} numbers of the inner dimension are added twice."
        advice = "let the loop begin where the first product ends."
    elif np.array_equal(np.sort(actual, axis=None), np.sort(exact, axis=None)):
        why = "the numbers are right, but in other positions."
        advice = "join the pieces in the order in which they were split."
    return place, quoted(exact[row, column]), why, advice


def _added_twice(excess: Array, left: Array, right: Array) -> int:
    """Return the n for which `excess` is the product over the first n inner indices.

    Return 0 if there is no such n. The answer then did not add its first piece twice.
    """
    ends = range(1, len(right))
    return next((n for n in ends if np.array_equal(excess, left[:, :n] @ right[:n])), 0)


# --- 05.5 -----------------------------------------------------------------------------------------


def cells_used(k: int, n: int, deep: int, wide: int) -> float:
    """Return the fraction of panel cells that contain a weight.

    The k x n weights are placed one by one into panels of deep x wide cells.
    """
    panels = {(i // deep, j // wide) for i in range(k) for j in range(n)}
    return k * n / (len(panels) * deep * wide)


@cache
def _weights() -> dict[str, tuple[int, ...]]:
    """Return {description: (k, n, deep, wide)} with the cases of the check.

    A case is a matrix of k x n weights, which are placed into panels of deep x wide cells.
    """
    draw = np.random.default_rng(505)
    cases: dict[str, tuple[int, ...]] = {}
    for i in range(6):
        deep, wide = (int(size) for size in draw.choice([6, 8, 10, 16, 24], 2, replace=False))
        cases[f"drawn {i}"] = (
            int(draw.integers(2, 5 * deep)),
            int(draw.integers(2, 5 * wide)),
            deep,
            wide,
        )
    return cases | {
        "a group of 6 in a panel of HALF": (6, 6, 16, 16),
        "a group of 1": (1, 1, 16, 16),
        "the panels are full": (32, 48, 16, 16),
        "one more than a panel holds": (17, 17, 16, 16),
        "FLOAT, whose panels are 8 deep": (12, 12, 8, 16),
    }


def _filled(answer: Callable[..., float]) -> Passed:
    return compare(
        answer,
        cells_used,
        _weights(),
        suspects("05.5"),
        next_step="draw the panels on paper, and mark the places that have a weight.",
        more=product(range(1, 8), range(1, 8), (1, 2, 4), (2, 3, 5)),
    )


LESSON = lesson(
    "05",
    question(
        "05.0",
        (
            PredictedValue("pieces", whole=True, low=1, high=COLS),
            PredictedValue("times as fast", low=0),
        ),
    ),
    exercise("05.1", _one_per_row),
    exercise("05.w1", _parts_by_hand, takes=("four numbers",)),
    exercise("05.2", _planned),
    exercise("05.w2", _two_halves),
    exercise("05.3", _in_pieces),
    exercise("05.w3", _which_cut, takes=("one of three words",)),
    exercise("05.4", _frugal),
    question("05.5", (PredictedValue("", "of the places", low=0, high=1),)),
    exercise("05.5", _filled),
)
