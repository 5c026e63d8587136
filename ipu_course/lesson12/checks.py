"""The exercises of lesson 12, PopSparse: correct results and known mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product as cartesian
from typing import Any
from unittest import mock

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.calling import Broken, call, call_all, call_made
from ipu_course.checking.comparing import Pairs, compare, refuse_floats
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import Reason, suspects
from ipu_course.checking.quoting import (
    Number,
    call_text,
    difference,
    name_of,
    plain,
    quoted,
    returned,
    said_by,
)
from ipu_course.checking.trial import Trial, Var, codelet
from ipu_course.checking.verdict_panel import Bars
from ipu_course.checking.verdicts import NotYet, Passed, refusing
from ipu_teach import FLOAT, HALF, INT, Engine, IPUModel, Target, Vertex, show
from ipu_teach.errors import PoplibsError, counted
from ipu_teach.poplibs.poplin import plan_mat_mul
from ipu_teach.poplibs.popsparse import CSRMatrix, dynamic
from ipu_teach.poplibs.popsparse.static_plan import expected
from ipu_teach.show.view import View
from ipu_teach.types import Array

# A function that returns the first row of each tile.
Bands = Callable[[list[int], int], Sequence[int]]
# A function that returns a list with the product for each pattern. The item is None for a pattern
# with more blocks than the budget.
Multiplies = Callable[..., list[Array | None]]
# A layer is (present blocks, weights, gradients, number of blocks to move).
Regrowth = tuple[Array, Array, Array, int]

# --- 12.1 -----------------------------------------------------------------------------------------


def drawn(
    rows: int, columns: int, b: int, blocks: int, seed: int, empty: Sequence[int] = ()
) -> CSRMatrix:
    """Return a random sparse matrix of `rows` by `columns` blocks, each of `b` by `b` numbers.

    `blocks` of the blocks are present, but none in the rows of blocks listed in `empty`. The values
    are whole numbers plus a half, from -29.5 to 30.5, so that none is 0.
    """
    draw = np.random.default_rng(seed)
    free = [r * columns + c for r in range(rows) if r not in empty for c in range(columns)]
    places = np.sort(draw.choice(free, blocks, replace=False))
    offsets = np.searchsorted(places, np.arange(rows + 1) * columns)
    values = draw.permutation(blocks * b * b).reshape(blocks, b, b) % 61 - 29.5
    shape = rows * b, columns * b
    return CSRMatrix(
        shape,
        row_offsets=offsets,
        columns=places % columns,
        values=values.astype(np.float32),
        block=(b, b),
    )


@cache
def _products() -> tuple[Trial, ...]:
    """Return trials that multiply a sparse matrix by `x` on one vertex, ordinary trials first."""
    trials = []
    for message, sizes, n, empty in (
        ("7 of 20 blocks of 2 x 2", (4, 5, 2, 7), 5, ()),
        ("9 of 12 blocks of 3 x 3", (3, 4, 3, 9), 3, ()),
        ("rows 0 and 2 without blocks", (4, 3, 2, 4), 2, (0, 2)),
        ("one block", (3, 2, 4, 1), 1, ()),
        ("all blocks there", (2, 3, 2, 6), 4, ()),
        ("blocks of 1 x 1", (5, 6, 1, 11), 2, (4,)),
        ("more columns than x has rows", (3, 2, 2, 4), 7, ()),
    ):
        csr = drawn(*sizes, seed=1201 + n, empty=empty)
        x = np.random.default_rng(n).permutation(csr.shape[1] * n).reshape(-1, n) - 7.0
        right = csr.to_dense().astype(float) @ x
        tensors = {
            "values": Var(FLOAT, csr.num_nz, 0, [csr.values.ravel()]),
            "offsets": Var(INT, len(csr.row_offsets), 0, [csr.row_offsets]),
            "columns": Var(INT, csr.num_blocks, 0, [csr.columns]),
            "x": Var(FLOAT, x.shape, 0, [x]),
            "b": Var(INT, (), 0, [np.array(sizes[2])]),
            "out": Var(FLOAT, right.shape, 0, right=[right]),
        }
        words = f"{message}, times {csr.shape[1]} x {n}"
        trials.append(Trial(words, tensors, form=codelet, tiles=1, beside=_products).twice())
    return tuple(trials)


def _by_hand(answer: type[Vertex]) -> Passed:
    reports = []
    for number, trial in enumerate(_products()):
        run = trial.through(answer, "12.1")
        if difference := run.wrong("out"):
            why = (
                f"the ordinary matrices are right, but this special one is wrong: {trial.tried}."
                if number > 1
                else ""
            )
            advice = (
                "follow one block by hand: which values it has, which rows of x it reads, and to "
                "which rows of `out` it adds."
            )
            row = int(np.argwhere(run.came[0]["out"] != difference.right)[0, 0])
            expected = f"row {row}: {quoted(difference.right[row])}"
            raise run.refused("12.1", difference.words, expected, advice=advice, why=why)
        run.refuse_unrepeatable("out")
        reports.append(run.report)
    return Passed(f"{len(reports)} matrices", evidence=reports)


# --- 12.2 -----------------------------------------------------------------------------------------

NEAR = 1.1  # The allowed number of blocks on the fullest tile, relative to the minimum.


@cache
def _patterns() -> tuple[tuple[str, list[int], int], ...]:
    """Return (description, number of blocks in each row, number of tiles) of each case."""
    draw = np.random.default_rng(1202)
    even = draw.integers(6, 15, 60)
    skewed = np.sort(draw.integers(1, 40, 52) ** 2 // 30)[::-1]
    heavy = np.append(draw.integers(0, 6, 40), draw.integers(20, 60, 12))
    return (
        ("60 rows of similar length", even.tolist(), 13),
        ("52 rows that get shorter", skewed.tolist(), 13),
        ("many short rows, then a few long ones", heavy.tolist(), 7),
        ("as many rows as tiles", [3, 9, 1, 4, 2], 5),
        ("more tiles than rows", [4, 2, 7], 5),
    )


def least(counts: Sequence[int], parts: int) -> int:
    """Return the minimum size of the fullest band, over all divisions of the rows.

    A division has `parts` bands, and each band is a group of consecutive rows. `counts` has the
    number of blocks in each row. The method is dynamic programming over the bands.
    """
    ends = np.concatenate(([0], np.cumsum(counts)))
    best = ends.copy()
    for _ in range(parts - 1):
        best = np.array([
            np.maximum(best[: i + 1], ends[i] - ends[: i + 1]).min() for i in range(len(ends))
        ])  # fmt: skip
    return int(best[-1])


def _bands(answer: Bands) -> Passed:
    _, yours, budget, actual = _judged_bands(answer, _patterns())
    draw = np.random.default_rng(1212)
    # Short patterns, some of which have rows without blocks. They are tried only if the large cases
    # are right.
    short = [
        ("", [*draw.integers(0, 6, rows - 1).tolist(), 3], parts)
        for rows in range(1, 8)
        for parts in range(1, 6)
    ]
    cases, *_ = _judged_bands(answer, short)
    words = f"{len(_patterns()) + len(cases)} patterns; below, the {len(_patterns())} large ones"
    unit = "blocks on the fullest tiles"
    return Passed(words, Bars(budget, yours, unit), actual)


def _judged_bands(
    answer: Bands, patterns: Sequence[tuple[str, list[int], int]]
) -> tuple[list[tuple[list[int], int]], int, int, list[Sequence[int]]]:
    """Return (cases, blocks on the fullest tiles, limit for these blocks, results) of an answer.

    Both numbers of blocks are sums over all patterns.

    :raises NotYet: if a result is not a division of the rows, or if a tile has too many blocks.
    """
    cases = [(counts, parts) for _, counts, parts in patterns]
    actual = call_all(answer, cases)

    def divides_alike(like: Bands) -> bool:
        expected = [like(list(counts), parts) for counts, parts in cases]
        return all(map(np.array_equal, expected, actual))

    refused = refusing("12.2", divides_alike)
    yours = budget = 0
    for (message, counts, parts), rows in zip(patterns, actual, strict=True):
        numbers = [plain(b) for b in rows] if isinstance(rows, (list, tuple, np.ndarray)) else []
        fault = f"{message}, {parts} tiles" if message else call_text(answer, (counts, parts))
        wrong = _no_bands(numbers, len(counts), parts) if numbers else returned(rows, "")
        begins = [n for n in numbers if isinstance(n, int)]
        if wrong:
            if numbers and None not in numbers:
                refuse_floats(fault, rows)
            wanted = f"{parts} whole numbers that start at 0 and never decrease"
            raise refused(
                fault,
                wrong,
                wanted,
                "return a list with the index of the first row of each tile.",
            )
        loads = [sum(counts[a:b]) for a, b in zip(begins, [*begins[1:], len(counts)], strict=True)]
        best = least(counts, parts)
        maximum = max(loads)
        limit = int(NEAR * best)
        yours = yours + maximum
        budget = budget + limit
        if maximum > limit:
            bars = Bars(limit, maximum, "blocks on the fullest tile")
            place = int(np.argmax(loads))
            words = f"tile {place} has {loads[place]} blocks"
            wanted = f"{best} is possible, and {limit} is allowed"
            advice = "set a limit for every tile, and look for the lowest limit that works."
            raise refused(fault, words, wanted, advice, bars=bars)
    return cases, yours, budget, actual


def _no_bands(begins: Sequence[Number | None], rows: int, parts: int) -> str:
    """Return the wrong part of an answer as text; "" if `begins` is a valid answer."""
    if len(begins) != parts:
        return f"{counted(len(begins), 'number')}"
    last = 0
    for begin in begins:
        if not isinstance(begin, int) or not last <= begin <= rows or begins[0]:
            return quoted(begins)
        last = begin
    return ""


# --- 12.3 -----------------------------------------------------------------------------------------

DENSITIES = tuple(1 / 2**i for i in range(1, 8))


@cache
def _chip() -> Target:
    """Return the target for which the dense and the sparse plans are compared."""
    return IPUModel("bow").create_device().target


@cache
def planned(size: int, n: int, block: int) -> tuple[int, dict[float, int]]:
    """Return the modelled cycles of the product [size, size] x [size, n], dense and sparse.

    The result is (cycles of the dense product, {density: cycles of the static sparse product}). The
    sparse matrix has blocks of block x block elements.
    """
    dense = plan_mat_mul(size, size, n, _chip(), dtype=HALF, partials_type=HALF).cycles
    blocks = {d: -(-((size // block) ** 2) // round(1 / d)) for d in DENSITIES}
    plan_arguments = (HALF, HALF), _chip()
    sparse = {
        d: expected((size, size, n), block, blocks[d], *plan_arguments).cycles for d in DENSITIES
    }
    return dense, sparse


def overtakes(size: int, n: int, block: int) -> float:
    """Return the largest density at which the static sparse product beats the dense product."""
    dense, sparse = planned(size, n, block)
    densest: float = max(density for density in DENSITIES if sparse[density] < dense)
    return densest


def _both(size: int, n: int, block: int) -> View:
    """Return a view of the cycles of the dense and the static sparse product, by density.

    The product is [size, size] x [size, n], with blocks of block x block elements.
    """
    dense, sparse = planned(size, n, block)
    return show.crossing({"dense": dict.fromkeys(DENSITIES, dense), f"blocks of {block}": sparse})


def _break_even(answer: Callable[[int, int, int], float]) -> Passed:
    cases = {
        "drawn, single values": (512, 256, 1),
        "drawn, blocks of 4": (512, 128, 4),
        "drawn, blocks of 16": (512, 64, 16),
        "drawn, many columns": (256, 1024, 1),
        "drawn, few columns": (512, 64, 1),
        "drawn, a small matrix": (64, 1024, 16),
        "drawn, a smaller one": (256, 256, 4),
    }
    known = suspects("12.3")
    advice = "print dense_cycles and sparse_cycles for each density of that call."
    return compare(answer, overtakes, cases, known, advice, tolerance=1e-12, draws=_both)


# --- 12.4 -----------------------------------------------------------------------------------------

BUDGET = 12  # The maximum number of blocks of a pattern.
TOO_MANY = (3, 8)  # The indices of the patterns with more blocks than `BUDGET`.


@cache
def _ten() -> tuple[Array, list[CSRMatrix]]:
    """Return `(x, patterns)`: the dense operand, and ten sparse matrices of 5 x 6 blocks.

    Each block has 4 x 4 numbers.
    """
    patterns = []
    for number in range(10):
        # The pattern with exactly `BUDGET` blocks is not the first one.
        blocks = BUDGET + number // 2 if number in TOO_MANY else BUDGET - abs(number - 2)
        patterns.append(drawn(5, 6, 4, blocks, seed=1240 + number, empty=range(number % 3)))
    return np.random.default_rng(1204).standard_normal((24, 4)), patterns


@dataclass
class Watched:
    """A record of an answer: the numbers of its engines and their runs, and the arrays it read."""

    engines: int = 0
    runs: int = 0
    reads: list[Array] = field(default_factory=list)


def _compiled(
    answer: Multiplies, description: str, first_ones: int = 10
) -> tuple[list[Array | None], Watched]:
    """Return an answer's results for the patterns, and a record of its engines and runs."""
    x, patterns = _ten()
    m, k = patterns[0].shape
    n = x.shape[1]
    params = dynamic.MatMulParams.create_with_num_non_zero_values(
        m, k, n, num_nz=BUDGET * 16, block=(4, 4)
    )
    watched = Watched()
    begin, run, read = Engine.__init__, Engine.run, Engine.read_tensor

    def begins(self: Engine, *arguments: Any, **options: Any) -> None:
        watched.engines += 1
        begin(self, *arguments, **options)

    def runs(self: Engine, *arguments: Any, **options: Any) -> None:
        watched.runs += 1
        run(self, *arguments, **options)

    def reads(self: Engine, handle: str) -> Array:
        values = read(self, handle)
        watched.reads.append(values.copy())
        return values

    def in_full(*arguments: object) -> list[Array | None]:
        products = answer(*arguments)
        return list(products) if isinstance(products, Iterator) else products

    with mock.patch.multiple(Engine, __init__=begins, run=runs, read_tensor=reads):
        chosen = patterns[:first_ones]
        products = call_made(in_full, description, params, chosen, x.copy())
    return products, watched


def _refuse_engines(description: str, engines: int) -> None:
    """Raise `NotYet` unless the answer created exactly one engine."""
    if not engines:
        advice = (
            "create an engine with dynamic_engine(params); then write the pattern, run the engine "
            "and read `out`."
        )
        raise NotYet(
            description,
            "no engine compiled",
            expected="one",
            why="the exercise asks for products that the device computes.",
            next_step=advice,
        )
    if engines > 1:
        why = "compiling takes longer than ten runs, and one engine can multiply all patterns."
        advice = "create the engine before the loop, and only write, run and read in the loop."
        raise NotYet(
            description,
            f"{counted(engines, 'engine')} compiled",
            expected="one",
            why=why,
            next_step=advice,
        )


def _refuse_host(description: str, results: Sequence[Array | None], watched: Watched) -> None:
    """Raise `NotYet` unless the engine ran for each product, and each product was read from it."""
    count = sum(product is not None for product in results)
    if watched.runs < count:
        raise NotYet(
            description,
            f"the answer returns {counted(count, 'product')} after "
            f"{counted(watched.runs, 'run')} of the engine",
            expected="a run of the engine for each product",
            why="the products are right, but the device did not compute all of them.",
            next_step="write the pattern, run the engine, and read `out`.",
        )
    for number, product in enumerate(results):
        if product is not None and not any(map(partial(np.array_equal, product), watched.reads)):
            raise NotYet(
                description,
                f"pattern {number}: a product that was not read from the engine",
                expected='what engine.read_tensor("out") returns',
                why=(
                    "the product is right, but its rounding shows that the device did not compute "
                    "it."
                ),
                next_step='append engine.read_tensor("out") after each run.',
            )


def _stopped(description: str, error: BaseException) -> NotYet:
    """Return the verdict on an answer that stops with a `PoplibsError`."""
    message = said_by(error)
    if "its parameters are for" in message:
        return NotYet(
            description,
            message,
            why=(
                "the partitioner has other parameters than `params`, such as those of the "
                "notebook's partitioner."
            ),
            next_step=(
                "create dynamic.Partitioner(params, FLOAT, device.target) in the function, and use "
                "its encode()."
            ),
        )
    return NotYet(
        description,
        message,
        expected="None",
        why="encode() raises this error for a pattern that exceeds the budget.",
        next_step=(
            "put try: … except PoplibsError: around encode(), and append None in the except."
        ),
    )


def _one_engine(answer: Multiplies) -> Passed:
    description = (
        f"{name_of(answer)} on ten patterns, of which numbers {TOO_MANY[0]} and {TOO_MANY[1]} "
    )
    description += "are beyond the budget"
    try:
        results, watched = _compiled(answer, description)
    except Broken as broken:
        if not isinstance(broken.error, PoplibsError):
            raise
        raise _stopped(description, broken.error) from None
    x, patterns = _ten()
    if not isinstance(results, (list, tuple)):
        raise NotYet(
            description,
            returned(results, ""),
            expected="a list of ten",
            next_step="append the result of each pattern to a list, and return the list.",
        )

    @cache
    def first_products() -> list[Array | None]:
        """Return an answer's results for the first five patterns, enough to recognise mistakes."""
        return _compiled(answer, description, 5)[0]

    def multiplies_alike(like: Multiplies) -> bool:
        products = _compiled(like, description, 5)[0]
        learner_products = first_products()
        return len(products) == len(learner_products) and all(
            map(_are_near, products, learner_products)
        )

    refused = partial(refusing("12.4", multiplies_alike), description)
    _refuse_engines(description, watched.engines)
    if len(results) != len(patterns):
        advice = "append one entry for each pattern: its product, or None."
        raise refused(f"{counted(len(results), 'entry', 'entries')}", "ten", advice)
    for number, (product, csr) in enumerate(zip(results, patterns, strict=True)):
        right = csr.to_dense().astype(float) @ x
        if number in TOO_MANY:
            if product is not None:
                why = f"this pattern has {csr.num_blocks} blocks, but the budget is only {BUDGET}."
                actual = f"pattern {number}: {returned(product, '')}"
                advice = "append None if encode() raises PoplibsError."
                raise refused(actual, "None", advice, why)
        elif product is None or (difference(product, right, 1e-5)):
            actual = difference(product, right, 1e-5)
            advice = "for each pattern, write the meta_info and nz_values of its encode(), run the "
            advice += "engine, and read `out`."
            expected = f"an array of shape {right.shape}"
            if product is None:
                actual, advice = "None", "append None only if encode() raises PoplibsError."
            elif np.shape(product) == right.shape:
                row = int(np.abs(np.asarray(product, float) - right).max(axis=1).argmax())
                expected = f"row {row}: {quoted(right[row])}"
            raise refused(f"pattern {number}: {actual}", expected, advice)
    _refuse_host(description, results, watched)
    return Passed("ten patterns, one engine", evidence=[m for m in results if m is not None])


def _are_near(first: Array | None, second: Array | None) -> bool:
    """Return whether two products are equal except for rounding, or both are None."""
    if first is None or second is None:
        return first is second
    return np.shape(first) == np.shape(second) and np.allclose(first, second, atol=1e-3)


# --- 12.w2 ----------------------------------------------------------------------------------------


def _room(blocks: int, buckets: int) -> int:
    return -(-blocks * 13 // (10 * buckets))


def _of_floats(pairs: Pairs[tuple[int, int], int]) -> Reason:
    """Return (why, next step) if an answer rounds up a product of floats."""
    if all(
        result in {math.ceil(n) for n in (1.3 * a / b, a / b * 1.3, 1.3 / b * a)}
        for (a, b), result in pairs
    ):
        why = "1.3 is no exact float. A product that should be a whole number is a little larger "
        return why + "here, and is rounded up to the next.", "compute 13 * blocks / (10 * buckets)."
    return "", ""


def _slots(answer: Callable[[int, int], int]) -> Passed:
    drawn = ((60, 12), (64, 12), (1, 13), (101, 7), (40, 4), (37, 12), (27, 4))
    cases = {f"drawn, {case}": case for case in drawn}
    more = [(70, 13), (140, 13), (140, 26), *cartesian(range(1, 41), range(1, 14))]
    return compare(answer, _room, cases, suspects("12.w2"), otherwise=_of_floats, more=more)


# --- 12.5 -----------------------------------------------------------------------------------------


def rounds(counts: Sequence[int], slots: int) -> int:
    """Return how many steps the buckets move around the ring until every block is stored.

    `counts` has the number of blocks of each bucket, and `slots` is the number of blocks that a
    bucket can store. The function moves the remaining blocks one by one.
    """
    parts = len(counts)
    room = [slots - min(slots, n) for n in counts]
    remaining = [n - min(slots, n) for n in counts]
    step = 0
    while sum(remaining):
        step += 1
        for part in range(parts):
            while remaining[part] and room[part - step]:
                remaining[part] -= 1
                room[part - step] -= 1
    return step


def _steps(answer: Callable[[list[int], int], int]) -> Passed:
    draw = np.random.default_rng(1205)
    counts = [draw.multinomial(n, draw.dirichlet([0.6] * parts)).tolist() for n, parts in
            ((50, 12), (40, 8), (70, 13))]  # fmt: skip
    cases = {
        "drawn": (counts[0], 6),
        "drawn, eight": (counts[1], 7),
        "drawn, thirteen": (counts[2], 7),
        "drawn, two neighbours": ([2, 9, 9, 1, 0, 3], 5),
        "drawn, by hand": ([8, 0, 5, 0, 9, 2], 5),
        "nothing spills": ([4, 5, 2, 0], 5),
        "just full": ([5, 5, 5], 5),
        "all blocks are in the first part": ([20, 0, 0, 0, 0], 4),
        "there is only one part": ([3], 3),
    }
    more = [
        (list(counts), slots)
        for parts, most in ((1, 4), (2, 4), (3, 4), (4, 3))
        for slots in range(1, 4)
        for counts in cartesian(range(most + 1), repeat=parts)
        if sum(counts) <= parts * slots
    ]
    advice = "list on paper the blocks left and the room of each part after each step of this call."
    return compare(answer, rounds, cases, suspects("12.5"), advice, more=more)


# --- 12.6 -----------------------------------------------------------------------------------------


# Each layer is (rows, columns, length of a block, blocks present, blocks that move).
LAYERS = (
    *((6, 7, 4, 18, 5), (5, 4, 2, 9, 1), (3, 8, 1, 10, 4)),
    *((4, 4, 2, 12, 4), (4, 5, 2, 6, 0)),
    *((rows, rows + 1, 1 + rows % 2, rows, moved) for rows in (1, 2, 3, 4) for moved in (0, 1)),
)


def moved_blocks(
    is_present: Array, weights: Array, slopes: Array, moved: int
) -> tuple[Array, Array]:
    """Return `(present, weights)` after the move: present blocks, and values of all blocks.

    `moved` blocks are removed, and the same number is added.
    """

    def sizes(blocks: Array, place: tuple[int, ...]) -> float:
        return float((blocks[place] ** 2).sum())

    places = [tuple(int(i) for i in place) for place in np.argwhere(is_present)]
    free = [tuple(int(i) for i in place) for place in np.argwhere(~is_present)]
    places.sort(key=lambda place: sizes(weights, place))
    free.sort(key=lambda place: -sizes(slopes, place))
    after = is_present.copy()
    values = weights.copy()
    for place in places[:moved]:
        after[place] = False
        values[place] = 0
    for place in free[:moved]:
        after[place] = True
    return after, values


@cache
def _layer(rows: int, columns: int, b: int, blocks: int, moved: int) -> Regrowth:
    """Return a random layer: (present blocks, weights, gradients, number of blocks to move)."""
    draw = np.random.default_rng(1206 + rows)
    is_present = draw.permutation(rows * columns).reshape(rows, columns) < blocks
    weights = draw.standard_normal((rows, columns, b, b)) * is_present[:, :, None, None]
    weights += 0.3 * is_present[:, :, None, None]
    slopes = draw.standard_normal((rows, columns, b, b)) * draw.random((rows, columns, 1, 1))
    return is_present, weights, slopes, moved


def _refuse_more_than_moved(answer: Callable[..., tuple[Array, Array]]) -> None:
    """Raise `NotYet` unless exactly `moved` blocks are removed and `moved` others are added.

    All blocks have equal magnitudes here, so an answer may choose any of them.
    """
    is_present = np.arange(12).reshape(3, 4) % 2 == 0
    signs = np.where(np.arange(4).reshape(2, 2) % 2, -0.5, 0.5)
    weights = is_present[:, :, None, None] * signs
    moved = 2
    description = f"6 of 3 x 4 blocks of 2 x 2, all of one size, {moved} to move"
    after, values = call(
        answer, is_present.copy(), weights.copy(), np.tile(signs, (3, 4, 1, 1)), moved
    )
    after = np.asarray(after)
    gone, grown = (int(n.sum()) for n in (is_present & ~after, after & ~is_present))
    if (gone, grown) != (moved, moved):
        raise NotYet(
            description,
            f"{counted(gone, 'block')} gone, and {grown} grown",
            expected=f"{moved} gone, and {moved} grown",
            why="the other layers are right, but in this one all blocks have the same size.",
            next_step="use the first `moved` of np.argsort, which also orders equal sizes.",
        )
    right = weights * (after & is_present)[:, :, None, None]
    if where := difference(np.asarray(values), right):
        raise NotYet(
            description,
            f"weights: {where}",
            expected="kept blocks unchanged, and 0 elsewhere",
            why="the other layers are right, but in this one all blocks have the same size.",
            next_step=(
                "set the weights to 0 in every block that was missing before or is missing now."
            ),
        )


def _moved(
    answer: Callable[..., tuple[Array, Array]], description: str, layer: Regrowth
) -> tuple[Array, Array]:
    """Return the `(present, weights)` that an answer returns for a layer.

    :raises NotYet: if their shapes or dtypes differ from those of the layer.
    """
    returned_value = call(answer, *layer)
    parts = [*returned_value] if isinstance(returned_value, (tuple, list)) else []
    shapes = [np.shape(part) for part in parts]
    if shapes != [layer[0].shape, layer[1].shape]:
        actual = f"shapes {shapes}" if parts else returned(returned_value, "")
        wanted = f"there and weights, of shapes {layer[0].shape} and {layer[1].shape}"
        raise NotYet(
            description,
            actual,
            expected=wanted,
            next_step="return `there` and `weights`, separated by a comma.",
        )
    is_present = np.asarray(parts[0])
    if is_present.dtype != bool:
        raise NotYet(
            description,
            f"there is an array of {is_present.dtype}",
            expected="an array of bool",
            why="the array is not boolean: as an index, numbers select other elements than True "
            "and False.",
            next_step="return there.astype(bool), or start from there.copy().",
        )
    return is_present, np.asarray(parts[1])


def _regrown(answer: Callable[..., tuple[Array, Array]]) -> Passed:
    answers = []
    for case in LAYERS:
        arguments = _layer(*case)
        description = (
            f"{case[3]} of {case[0]} x {case[1]} blocks of {case[2]} x {case[2]}, {case[4]} to move"
        )
        answers.append((description, arguments, *_moved(answer, description, arguments)))

    def moves_alike(like: Callable[..., tuple[Array, Array]]) -> bool:
        pairs = (
            (like(*arguments), is_present, weights) for _, arguments, is_present, weights in answers
        )
        return all(
            np.array_equal(expected[0], is_present) and np.allclose(expected[1], weights)
            for expected, is_present, weights in pairs
        )

    for description, arguments, is_present, weights in answers:
        after, values = moved_blocks(*arguments)
        actual = wanted = why = ""
        before, *_, moved = arguments
        if is_present.sum() != after.sum():
            actual = f"{is_present.sum()} blocks are present"
            wanted = f"{after.sum()}, as before"
            lost, new = (before & ~is_present).sum(), (is_present & ~before).sum()
            why = f"you removed {lost} of the blocks, and added {new}; both should be {moved}."
            advice = "remove only blocks that are present, and add only where there was no block."
        elif (is_present != after).any():
            row, column = min(
                np.argwhere(is_present != after), key=lambda at: not before[tuple(at)]
            )
            message = ("present", "missing")[:: 1 if is_present[row, column] else -1]
            large = "among" if after[row, column] != before[row, column] else "not among"
            why = f"there was no block, and the gradients here are {large} the {moved} largest."
            advice = "sort the sizes of the gradients where there was no block."
            if before[row, column]:
                why = f"there was a block, and its weights are {large} the {moved} smallest."
                advice = "sort the sizes of the present blocks; add none where there was a block."
            actual = f"the block in row {row}, column {column} is {message[0]}"
            wanted = message[1]
        elif words := difference(weights, values):
            actual = f"weights: {words}"
            wanted = "kept blocks unchanged, and 0 elsewhere"
            advice = (
                "set the weights to 0 in every block that was missing before or is missing now."
            )
        if actual:
            raise refusing("12.6", moves_alike)(description, actual, wanted, advice, why)
    _refuse_more_than_moved(answer)
    return Passed(f"{len(answers)} layers", evidence=[weights for *_, weights in answers])


LESSON = lesson(
    "12",
    question(
        "12.0",
        (PredictedValue("blocks of 16", "times"), PredictedValue("single values", "times")),
    ),
    exercise(
        "12.w1",
        warmups.formula(
            "12.w1",
            lambda offsets, row: offsets[row + 1] - offsets[row],
            ([0, 2, 2, 7, 8], 2),
            ([0, 2, 2, 7, 8], 1),
            ([0, 3, 4], 0),
            ([0, 0, 5, 9], 2),
            more=[
                ([0, first, first + second, first + second + 2], row)
                for first in range(4)
                for second in range(4)
                for row in range(3)
            ],
        ),
    ),
    exercise("12.1", _by_hand, takes=("a codelet",)),
    exercise("12.2", _bands),
    question(
        "12.3",
        (
            PredictedValue("single values", low=0, high=1),
            PredictedValue("blocks of 16", low=0, high=1),
        ),
    ),
    exercise("12.3", _break_even),
    exercise("12.4", _one_engine),
    exercise("12.w2", _slots),
    exercise("12.5", _steps),
    exercise("12.6", _regrown),
)
