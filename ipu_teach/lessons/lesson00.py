"""The exercises of lesson 00, Meet the machine: what is asked, what is right, and known mistakes by
name."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from ipu_teach import FLOAT, HALF
from ipu_teach.errors import counted
from ipu_teach.lessons.exercise import Exercise, Lesson, Part, Question
from ipu_teach.lessons.judging import (
    NotAttempted,
    NotYet,
    Passed,
    Suspect,
    answering,
    compare,
    raise_first,
)
from ipu_teach.lessons.programs import TILES, graph_of

MEGA = 1_000_000  # bytes of a data sheet's MB; 1,048,576 would be a MiB
FROM = ("own memory", "neighbour", "one for all", "other chip", "host")


# --- 00.1 -----------------------------------------------------------------------------------------


def _facts(tiles: int, workers: int, megabytes: int) -> tuple[int, int]:
    return tiles * workers, megabytes * MEGA // tiles


FACTS_MISTAKES = (
    Suspect(
        lambda tiles, workers, megabytes: (8832, megabytes * MEGA // 1472),
        "these are the figures of one chip, 1,472 tiles of 6 workers, whatever chip was asked for.",
        "use tiles and workers in place of the numbers.",
    ),
    Suspect(
        lambda tiles, workers, megabytes: (tiles * workers, megabytes * 1024 * 1024 // tiles),
        "a MB was taken as 1,048,576 bytes. That is a MiB; the sheet says MB.",
        "multiply by 1,000,000.",
    ),
    Suspect(
        lambda tiles, workers, megabytes: (tiles * workers, megabytes * 1024 * 1000 // tiles),
        "1,000 and 1,024 are mixed: a MB is 1,000 times 1,000 bytes.",
        "multiply by 1,000,000.",
    ),
    Suspect(
        lambda tiles, workers, megabytes: (tiles * workers, megabytes * MEGA / tiles),
        "a part of a byte came out, and no tile can hold one.",
        "round down: // divides to a whole number.",
    ),
    Suspect(
        lambda tiles, workers, megabytes: (tiles * workers, -(-megabytes * MEGA // tiles)),
        (
            "the bytes of a tile were rounded up. All tiles together would then hold more than the "
            "chip has."
        ),
        "round down: // divides to a whole number.",
    ),
    Suspect(
        lambda tiles, workers, megabytes: (tiles * workers, megabytes * MEGA // tiles // workers),
        "this is the memory of one worker. The workers of a tile share its memory.",
        "divide by the tiles alone.",
    ),
    Suspect(
        lambda tiles, workers, megabytes: (tiles * workers, megabytes * MEGA),
        "this is the memory of the whole chip.",
        "divide it by the tiles.",
    ),
    Suspect(
        lambda tiles, workers, megabytes: (tiles * workers, megabytes // tiles),
        "the megabytes were divided, and what is less than one of them was lost.",
        "make bytes of them first: 1 MB is 1,000,000 bytes.",
    ),
    Suspect(
        lambda tiles, workers, megabytes: (megabytes * MEGA // tiles, tiles * workers),
        "both numbers are right, and in the other order.",
        "return the threads first.",
    ),
    Suspect(
        lambda tiles, workers, megabytes: (workers, megabytes * MEGA // tiles),
        "these are the threads of one tile.",
        "multiply by the tiles.",
    ),
    Suspect(
        lambda tiles, workers, megabytes: (tiles, megabytes * MEGA // tiles),
        (
            "a tile was counted as one thread. It has several workers, and each runs a program of "
            "its "
            "own."
        ),
        "multiply by the workers.",
    ),
)


def _capacity(answer: Callable[..., Any]) -> Passed:
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
    return compare(
        answer,
        _facts,
        cases,
        FACTS_MISTAKES,
        "multiply tiles by workers; divide the chip's bytes by its tiles.",
    )


# --- 00.3 -----------------------------------------------------------------------------------------


def _spread(answer: Callable[..., Any]) -> Passed:
    draw = np.random.default_rng(3)
    sizes = [(int(draw.integers(120, 400)), TILES, "") for _ in range(3)]
    sizes += [(26, TILES, "the elements come out even"), (53, 4, "there are 4 tiles")]
    sizes += [(5, TILES, "there are fewer elements than tiles"), (1, TILES, "there is one element")]
    wrong: list[tuple[NotYet, str]] = []
    for count, tiles, special in sizes:
        graph = graph_of(tiles)
        tensor = graph.add_variable(FLOAT, (count,), "data")
        tried = f"{counted(count, 'element')} on {tiles} tiles"
        with answering(tried):
            if answer(graph, tensor) is ...:
                raise NotAttempted
            pieces = graph.get_tile_mapping(tensor, require_complete=False)
        try:
            _even(tried, [sum(end - begin for begin, end in piece) for piece in pieces], count)
        except NotYet as found:
            wrong.append((found, special))
    raise_first(wrong)
    return Passed(f"{len(sizes)} arrays of several sizes, down to one element")


def _even(tried: str, held: list[int], count: int) -> None:
    """Raise `NotYet` unless all elements have a tile, and no tile has two more than another."""
    missing = count - sum(held)
    if missing:
        tail = max(held) == min(held) > 0
        why = (
            "the rest was left over: dividing with // drops what does not come out even."
            if tail
            else ""
        )
        raise NotYet(
            tried,
            f"{counted(missing, 'element')} on no tile"
            if missing < count
            else "no element is on a tile",
            why=why or ("nothing was mapped." if missing == count else ""),
            next_step="give each of the elements that remain to another tile, one each."
            if tail
            else "go through all of tensor, and call graph.set_tile_mapping for every piece.",
        )
    if max(held) - min(held) <= 1:
        return
    full, empty = held.index(max(held)), held.index(min(held))
    share, why = (
        -(-count // len(held)),
        f"tile {full} would be full while there is room on tile {empty}.",
    )
    if max(held) == count:
        why = "everything lies on one tile, and the others are empty."
    elif held[: count // share] == [share] * (count // share):
        why = (
            "the share of a tile was rounded up, so the first tiles take all before the last "
            "are reached."
        )
    elif held[-1] == max(held) and len(set(held[:-1])) == 1:
        why = "the share of a tile was rounded down, and the last tile got all that remained."
    raise NotYet(
        tried,
        f"tile {full} holds {counted(held[full], 'element')}, and tile {empty} holds {held[empty]}",
        "numbers that differ by 1 at most",
        why,
        "deal the elements out one by one, as cards: element i to tile i % tiles.",
    )


# --- 00.4 -----------------------------------------------------------------------------------------


def _side(tiles: int, bytes_per_tile: int) -> int:
    return isqrt(tiles * bytes_per_tile // (2 * HALF.size))


def _as_square(
    elements: Callable[[int], float], rounding: Callable[[float], int] = int
) -> Callable[[int, int], int]:
    """A mistaken answer: the side of a square of so many elements, of the chip's bytes."""
    return lambda tiles, bytes_per_tile: rounding(elements(tiles * bytes_per_tile) ** 0.5)


SIDE_MISTAKES = (
    Suspect(
        _as_square(lambda size: size // 2),
        "this fits once. Asked is a matrix of which there is room for two.",
        "divide the memory by two first.",
    ),
    Suspect(
        _as_square(lambda size: size // 8),
        "an element was counted as 4 bytes, as in FLOAT. In HALF it takes 2.",
        "divide by 2 bytes an element.",
    ),
    Suspect(
        _as_square(lambda size: size),
        "a byte was counted as an element, and one matrix as two.",
        "an element of HALF takes 2 bytes, and there are two matrices.",
    ),
    Suspect(
        lambda tiles, bytes_per_tile: tiles * bytes_per_tile // 4,
        "this is how many elements each may have. Asked is the side of the square.",
        "take the square root, rounded down.",
    ),
    Suspect(
        lambda tiles, bytes_per_tile: isqrt(bytes_per_tile // 4),
        "this is what fits into one tile. The matrices may lie on all of them.",
        "multiply the bytes of a tile by the tiles.",
    ),
    Suspect(
        lambda tiles, bytes_per_tile: isqrt(tiles * bytes_per_tile // 4) // 2,
        "the side was halved. Half the side is a quarter of the matrix.",
        "halve the memory, and not the side.",
    ),
    Suspect(
        _as_square(lambda size: size / 4, lambda root: -int(-root // 1)),
        "the side was rounded up, and such a matrix is a little too large.",
        "round down: math.isqrt does, and never errs.",
    ),
    Suspect(
        _as_square(lambda size: size / 4, round),
        "the side was rounded to the nearest number, and such a matrix may be a little too large.",
        "round down: math.isqrt does, and never errs.",
    ),
    Suspect(
        lambda tiles, bytes_per_tile: (tiles * bytes_per_tile / 4) ** 0.5,
        "a part of a row came out.",
        "round down: math.isqrt does, and never errs.",
    ),
)


def _largest(answer: Callable[..., Any]) -> Passed:
    draw = np.random.default_rng(4)
    cases: dict[str, tuple[int, int]] = {
        f"drawn, {k}": (int(draw.integers(2, 2000)), int(draw.integers(1000, 700_000)))
        for k in range(5)
    }
    cases["two matrices fill it to the last byte"] = (25, 4 * 14**2)
    cases["a byte less than that"] = (1, 4 * 70**2 - 1)
    cases["not even one element fits twice"] = (1, 3)
    return compare(
        answer,
        _side,
        cases,
        SIDE_MISTAKES,
        "how many elements may each of the two have? The side is the root of it.",
    )


LESSON = Lesson(
    "00",
    "Meet the machine",
    35,
    (
        Question(
            "00.0",
            "What one tile can read",
            (Part("", "bytes", whole=True),),
            (
                "a tile reads its own memory, and nothing else. What lies on another tile has to "
                "be "
                "sent to it first."
            ),
        ),
        Exercise(
            "00.1",
            "Figures of a chip",
            ("a function",),
            _capacity,
            (
                "Each tile has so many workers, and each worker runs a thread of its own.",
                "The chip's memory is the memory of all tiles together, and all have equally much.",
                (
                    "Make bytes of the megabytes first: times 1,000,000. Then divide with //, "
                    "which "
                    "rounds down."
                ),
            ),
            "half a megabyte is little for a program of today, and yet no byte of it is further "
            "away than another. What "
            "would your own programs have to give up to fit?",
        ),
        Question(
            "00.2",
            "Five ways to 4,000 bytes",
            tuple(
                Part(f"{place}:", choices=FROM)
                for place in ("first", "second", "third", "fourth", "last")
            ),
            "on a chip every tile has a path of its own, so all 1,472 take as long as one. The "
            "links to another chip are "
            "shared by its tiles, and so is the host's, which is narrower still.",
        ),
        Exercise(
            "00.3",
            "Nobody is fuller than need be",
            ("a function",),
            _spread,
            (
                (
                    "The fullest tile holds least when all tiles hold equally much, or nearly: one "
                    "more here and there."
                ),
                (
                    "tensor[i] is one element, and graph.set_tile_mapping(tensor[i], tile) gives "
                    "it a "
                    "tile."
                ),
                (
                    "Count i from 0 to tensor.num_elements. i % tiles goes round: 0, 1, 2, …, and "
                    "from the last tile back to 0."
                ),
            ),
            "dealt out one by one, neighbours lie on different tiles. Would you rather have them "
            "side by side? Tile t then "
            "gets the elements from n * t // tiles up to n * (t + 1) // tiles.",
            decoys=(
                ("for i in range(graph.target.num_tiles):", "for i in range(tensor.num_elements):"),
                (
                    "graph.set_tile_mapping(tensor[i], i // graph.target.num_tiles)",
                    "graph.set_tile_mapping(tensor[i], i % graph.target.num_tiles)",
                ),
            ),
        ),
        Exercise(
            "00.4",
            "The largest square that fits twice",
            ("a function",),
            _largest,
            (
                "How many bytes has the chip? How many of them may one of the two matrices have?",
                "An element of HALF takes 2 bytes, and a square of side n has n * n elements.",
                (
                    "So n * n is at most the chip's bytes divided by 4. math.isqrt gives the root "
                    "of "
                    "a whole number, rounded down."
                ),
            ),
            "twice the memory holds a matrix of 1.4 times the side, and to multiply two of them "
            "takes 2.8 times the work. "
            "Memory is soon the smaller worry.",
        ),
    ),
)
