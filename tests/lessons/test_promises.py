"""Restrictions in the texts of exercises make the reference right, and simpler answers as well.

Each restriction is compared here with an independent computation, over more sizes than a check has.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from ipu_course.checking.programs import graph_of
from ipu_teach import FLOAT
from ipu_teach.schedules import recompute

Solution = Callable[[str], tuple[Any, ...]]


@pytest.mark.parametrize("tiles", [2, 7, 13, 16, 31])
def test_matrices_with_half_as_many_rows_as_tiles_are_shared_evenly(
    tiles: int, solution: Solution
) -> None:
    """03.2: "The matrix has at least half as many rows as there are tiles"."""
    (place,) = solution("03.2")
    for rows in (-(-tiles // 2), -(-tiles // 2) + 1, tiles - 1, tiles, tiles + 2):
        graph = graph_of(tiles)
        a = graph.add_variable(FLOAT, (rows, rows), "a")
        place(graph, a)
        held = [sum(e - b for b, e in pieces) for pieces in graph.get_tile_mapping(a)]
        assert sum(held) == rows * rows and max(held) <= 2 * -(-rows * rows // tiles)


def test_windows_no_wider_than_the_image_are_counted(solution: Solution) -> None:
    """07b.w1: "With its zeros, the image is at least `k` elements wide"."""
    (windows,) = solution("07b.w1")
    for size in range(1, 9):
        for padding in range(3):
            for k in range(1, size + 2 * padding + 1):
                for stride in range(1, 5):
                    left_ends = range(0, size + 2 * padding, stride)
                    fitting = [left for left in left_ends if left + k <= size + 2 * padding]
                    assert windows(size, k, stride, padding) == len(fitting)


@pytest.mark.parametrize("layers", range(1, 8))
def test_lists_of_recompute_make_nothing_in_vain(layers: int) -> None:
    """08.w1 and 08.1: "a list that `recompute` returns".

    In such a list each input that a step makes is read by a later step before it is made again, and
    the last read of an input is its backward. So the input of layer 0 is needed to the end.
    """
    for count in range(layers):
        for keep in combinations(range(1, layers), count):
            steps = [tuple(step) for step in recompute(layers, [0, *keep])]
            for layer in range(layers):
                reads = [p for p, (_, i) in enumerate(steps) if i == layer]
                writes = [p for p, (k, i) in enumerate(steps) if k != "backward" and i + 1 == layer]
                for begin, end in zip(writes, [*writes[1:], len(steps)], strict=False):
                    assert any(begin < read < end for read in reads)
                assert steps[reads[-1]] == ("backward", layer)
            assert steps[-1] == ("backward", 0)
