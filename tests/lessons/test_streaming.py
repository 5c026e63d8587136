"""What lesson 09 expects of answers: its budgets from the lesson's own programs, rows found by
going through a program, and steps by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from answers import Names

from ipu_course.lesson09 import checks as lesson

NamesOf = Callable[[str], Names]
Solution = Callable[[str], tuple[Any, ...]]


def test_the_budget_of_the_turns_is_what_the_lesson_s_own_take(
    names_of: NamesOf, solution: Solution
) -> None:
    names, (turns,) = names_of("09"), solution("09.3")
    pair = {p: names["two_ipus"](turns, 8, p)[1].total_cycles for p in ("FULL", "SINGLE_PIPELINE")}
    assert pair["SINGLE_PIPELINE"] == lesson.turn_cycles(8)
    assert pair == {
        "FULL": pytest.approx(101_531, rel=0.02),
        "SINGLE_PIPELINE": pytest.approx(65_665, rel=0.02),
    }


def test_the_budget_of_memory_has_room_for_one_layer_and_not_for_two(
    names_of: NamesOf, solution: Solution
) -> None:
    names, (deep,), budget = names_of("09"), solution("09.2"), lesson.one_layer(2)
    taken = {n: names["one_resident"](deep, n).memory.held_per_tile.max() for n in (8, 16)}
    assert taken[8] == taken[16] < budget
    # the second one's weights on a tile: 78 x 78 of 4 bytes over 13 tiles
    assert taken[8] + 78 * 78 * 4 // 13 > budget == lesson.one_layer() + 1872
    assert budget == pytest.approx(17_000, rel=0.02)


def test_rows_that_are_read_wrongly_are_named() -> None:
    def told(*events: lesson.Event, layers: int = 2) -> str:
        return " ".join(lesson.row_read_wrongly(events, layers))

    load, work, cross = ("load", 0, 0), ("compute", 0, 0), ("cross", 0, 0)
    other, theirs = ("load", 1, 1), ("compute", 0, 1)
    assert told(load, work, other, cross, theirs) == " "
    assert told(load, work, layers=1) == " "
    over = (
        "IPU 0 computes with row 1, but row 0 is next row 1 overwrote row 0 before layer 0 computed"
    )
    assert told(load, ("load", 1, 0), work).startswith(over)
    stale = "IPU 1 computes with row 0, but row 1 is next row 1 is not loaded yet"
    assert told(load, work, ("load", 0, 1), cross, theirs).startswith(stale)
    assert "layer 0 has already computed, but IPU 0 still has an earlier input" in told(
        load, work, ("load", 1, 0), work
    )
    assert told(work).startswith("IPU 0 computes before any row was loaded there")
    assert told(load, work, other, theirs).startswith("IPU 1 computes row 1, but it has no input")
    assert told(load, work, other, cross).startswith("the final result on IPU 1 has gone through 0")


def test_steps_by_hand_and_of_random_transfers_as_the_rule_says(solution: Solution) -> None:
    by_hand = [[0, 0], [0, 1], [0, 1], [0, 1], [0, 0, 1], [0, 1, 2], [0]]
    assert [lesson.steps_shared(lesson.listed(t)) for t in lesson.FIXED.values()] == by_hand
    (steps_of,), draw = solution("09.6"), np.random.default_rng(9)
    for _ in range(20):
        transfers = lesson._transfers(int(draw.integers(1, 14)), draw)
        assert steps_of(transfers) == lesson.steps_shared(transfers)


def test_a_step_of_training_in_whole_numbers_of_eighths() -> None:
    """What is expected is exact in FLOAT, so that bits are compared."""
    for name, var in lesson._training("a step", 30).tensors.items():
        assert np.array_equal(np.float32(var.after), var.after), name
