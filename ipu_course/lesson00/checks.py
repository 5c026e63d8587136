"""Lesson 00, Meet the machine: questions, correct results and known mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from math import isqrt
from types import EllipsisType

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.calling import Broken, answering
from ipu_course.checking.comparing import compare
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import first, suspects
from ipu_course.checking.programs import TILES, graph_of
from ipu_course.checking.verdicts import NotAttempted, NotYet, Passed, raise_first
from ipu_teach import FLOAT, HALF, Graph, Tensor, show
from ipu_teach.errors import counted

MEGA = 1_000_000  # The bytes of a MB, as in data sheets. A MiB would have 1,048,576.
# A function that maps a tensor, or returns `...` while the gap is blank.
Spread = Callable[[Graph, Tensor], EllipsisType | None]
FROM = ("own memory", "neighbour", "one for all", "other chip", "host")


# --- 00.1 -----------------------------------------------------------------------------------------


def _facts(tiles: int, workers: int, megabytes: int) -> tuple[int, int]:
    return tiles * workers, megabytes * MEGA // tiles


def _capacity(answer: Callable[..., tuple[int, int]]) -> Passed:
    draw = np.random.default_rng(1)
    cases: dict[str, tuple[int, ...]] = {
        f"drawn, {k}": (
            int(draw.integers(20, 2000)),
            int(draw.integers(2, 9)),
            int(draw.integers(50, 2000)),
        )
        for k in range(4)
    }
    cases |= {"a chip that is sold": (1472, 6, 900), "there is one tile": (1, 7, 3)}
    cases["there are more tiles than megabytes"] = (1216, 6, 300)
    # With these sizes, an answer that divides before it multiplies loses a byte by rounding.
    cases["the bytes divide without a remainder"] = (5, 1, 323)
    return compare(
        answer,
        _facts,
        cases,
        suspects("00.1"),
        next_step="work out this call on paper: first the threads, then the bytes of one tile.",
        more=product(range(1, 41), (1, 2, 6), (1, 2, 7, 300)),
    )


# --- 00.3 -----------------------------------------------------------------------------------------


def _spread(answer: Spread) -> Passed:
    draw = np.random.default_rng(3)
    sizes = [(int(draw.integers(120, 400)), TILES, "") for _ in range(2)] + [(45, TILES, "")]
    sizes += [(26, TILES, "the elements divide without a remainder"), (53, 4, "there are 4 tiles")]
    sizes += [(5, TILES, "there are fewer elements than tiles"), (1, TILES, "there is one element")]
    named = len(sizes)
    sizes += [(count, tiles, "") for tiles in (1, 2, 3, 5) for count in range(1, 2 * tiles + 2)]
    wrong: list[tuple[NotYet, str]] = []
    evidence = []
    for case, (count, tiles, special) in enumerate(sizes):
        if case == named:
            raise_first(wrong)
        description = f"{counted(count, 'element')} on {tiles} tiles"
        try:
            with answering(description):
                tensor, elements_per_tile = _laid_out(answer, count, tiles)
        except Broken as broken:
            raise _beyond(tiles, broken) from None
        evidence.append(tensor.graph.get_tile_mapping(tensor, require_complete=False))
        try:
            _even(description, tensor, elements_per_tile)
        except NotYet as found:
            wrong.append((found, special))
    raise_first(wrong)
    description = f"{len(sizes)} arrays of several sizes, down to one element"
    return Passed(description, evidence=evidence[:named])


def _beyond(tiles: int, broken: Broken) -> Exception:
    """Return an error about a tile after the last one as `NotYet`; any other error unchanged."""
    match = re.search(r"There is no tile (\d+)", str(broken.error))
    if match is None:
        return broken
    return NotYet(
        broken.tried,
        f"InvalidTileMappingError: there is no tile {match[1]}",
        expected=f"tiles from 0 to {tiles - 1}",
        why=f"the last of {tiles} tiles is tile {tiles - 1}, and this answer goes on to "
        f"{match[1]}.",
        next_step="start again at tile 0 after the last tile, as in the warm-up.",
    )


def _laid_out(answer: Spread, count: int, tiles: int) -> tuple[Tensor, list[int]]:
    """Call the answer on `count` elements; return `(tensor, number of elements on each tile)`.

    :raises NotAttempted: if the gap is still blank.
    """
    graph = graph_of(tiles)
    tensor = graph.add_variable(FLOAT, (count,), "data")
    if answer(graph, tensor) is ...:
        raise NotAttempted
    mapping = graph.get_tile_mapping(tensor, require_complete=False)
    return tensor, [sum(end - begin for begin, end in pieces) for pieces in mapping]


def _even(description: str, tensor: Tensor, elements_per_tile: list[int]) -> None:
    """Raise `NotYet` unless all elements are mapped, and spread as evenly as possible.

    The fullest tile must have the smallest possible number of elements.
    """
    count = tensor.num_elements
    minimum = -(-tensor.num_elements // len(elements_per_tile))
    missing = count - sum(elements_per_tile)
    if missing:
        tail = max(elements_per_tile) == min(elements_per_tile) > 0
        why = (
            "dividing with // drops the remainder, so the last elements are not mapped to any tile."
            if tail
            else ""
        )
        raise NotYet(
            description,
            f"{counted(missing, 'element')} not mapped to any tile"
            if missing < count
            else "no element is on a tile",
            why=why or ("the function maps nothing." if missing == count else ""),
            next_step="map each remaining element to another tile."
            if tail
            else "call graph.set_tile_mapping for every element of tensor.",
            draws=(lambda: show.tiles(tensor)) if missing < count else None,
        )
    if max(elements_per_tile) <= minimum:
        return
    full = elements_per_tile.index(max(elements_per_tile))
    empty = elements_per_tile.index(min(elements_per_tile))

    def spreads_alike(like: Spread) -> bool:
        return _laid_out(like, count, len(elements_per_tile))[1] == elements_per_tile

    why, advice = first(suspects("00.3"), spreads_alike)
    if max(elements_per_tile) == count:
        why = "all elements are on one tile, and the other tiles are empty."
    raise NotYet(
        description,
        f"tile {full} has {counted(elements_per_tile[full], 'element')}, and tile {empty} has "
        f"{elements_per_tile[empty]}",
        expected=f"no tile with more than {minimum}",
        why=why
        or f"tile {full} has more elements than necessary, and tile {empty} has room for more.",
        next_step=advice or "deal the elements like cards, as in the warm-up.",
        draws=lambda: show.tiles(tensor),
    )


# --- 00.4 -----------------------------------------------------------------------------------------


def _side(tiles: int, bytes_per_tile: int) -> int:
    return isqrt(tiles * bytes_per_tile // (2 * HALF.size))


def _largest(answer: Callable[..., int]) -> Passed:
    draw = np.random.default_rng(4)
    cases: dict[str, tuple[int, int]] = {
        # The number of bytes per tile is even, so that no HALF element is on two tiles.
        f"drawn, {k}": (int(draw.integers(2, 2000)), 2 * int(draw.integers(500, 350_000)))
        for k in range(5)
    }
    cases["drawn, small"] = (3, 40)
    cases["two matrices fill the memory to the last byte"] = (25, 4 * 14**2)
    cases["there are two bytes too few for that"] = (1, 4 * 70**2 - 2)
    cases["not even one element fits twice"] = (1, 2)
    cases["the last bytes of the tiles together make room for one more row"] = (3, 6)
    return compare(
        answer,
        _side,
        cases,
        suspects("00.4"),
        next_step="compute how many elements each matrix can have; take the square root of that.",
        more=[
            *product(range(1, 26), range(2, 42, 2)),
            *((1, 4 * side**2 - less) for side in (*range(2, 41), 999, 15_334) for less in (0, 2)),
        ],
    )


LESSON = lesson(
    "00",
    question("00.0", (PredictedValue("", "bytes", whole=True),)),
    exercise("00.1", _capacity),
    question(
        "00.2",
        tuple(
            PredictedValue(f"{place}:", choices=FROM)
            for place in ("first", "second", "third", "fourth", "last")
        ),
    ),
    exercise(
        "00.w1",
        warmups.formula(
            "00.w1",
            lambda i, tiles: i % tiles,
            (33, 13),
            (12, 13),
            (13, 13),
            (7, 1),
            (400, 17),
            more=product(range(41), range(1, 10)),
        ),
    ),
    exercise("00.3", _spread),
    exercise("00.4", _largest),
)
