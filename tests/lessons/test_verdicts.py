"""Recording verdicts and comparing two records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import verdicts

from ipu_course.checking.quoting import LONGEST_CALL, call_text, python_code, quoted

KEY = ("00.1", "blank", "")
ROW = {"kind": "passed", "text": "12 cycles", "html": "<b>12</b>"}


def test_equal_records_do_not_differ() -> None:
    assert list(verdicts.differences({KEY: ROW}, {KEY: dict(ROW)})) == []


@pytest.mark.parametrize("part", ["kind", "text", "html"])
def test_each_part_of_a_verdict_is_compared(part: str) -> None:
    (line,) = verdicts.differences({KEY: ROW}, {KEY: ROW | {part: "other"}})
    assert line.startswith(f"00.1 blank : {part}\n") and "'other'" in line


def test_a_verdict_in_one_record_alone_is_named() -> None:
    assert list(verdicts.differences({KEY: ROW}, {})) == ["00.1 blank : only in the first record"]
    assert list(verdicts.differences({}, {KEY: ROW})) == ["00.1 blank : only in the second record"]


def test_a_record_reads_back(tmp_path: Path) -> None:
    answers = [answer for answer in verdicts.answers() if answer[0] == "00.1"]
    assert {source for _, source, *_ in answers} >= {"blank", "reference", "mistake"}
    rows = [verdicts.judged(answer) for answer in answers[:3]]
    file = tmp_path / "record.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    kinds = {key[1]: row["kind"] for key, row in verdicts.read(file).items()}
    assert kinds == {"blank": "not attempted", "reference": "passed", "mistake": "not yet"}


def test_a_call_is_quoted_so_that_it_can_be_typed_in() -> None:
    def held(ticks: list[list[tuple[str, int]]], stages: int) -> int:
        return stages

    ticks = [[("forward", k), ("backward", k)] for k in range(5)]
    assert eval(call_text(held, (ticks, 2)), {"held": held}) == 2
    assert call_text(held, (1901, 2)) == "held(1901, 2)"
    assert call_text(held, ([0.1 + 0.2], 2)) == "held([0.30000000000000004], 2)"
    assert call_text(lambda ticks: 2, (3,)) == "answer(3)"


def test_an_argument_that_is_too_long_is_described_behind_the_call() -> None:
    def held(ticks: list[int], stages: object) -> None: ...

    text = call_text(held, (list(range(200)), 2))
    assert text.startswith("held(ticks, 2), where ticks is [0, 1, 2, ") and len(text) < LONGEST_CALL
    assert text.endswith("…], 200 items")
    array = np.random.default_rng(1).random((9, 9))
    assert call_text(held, (array, 2)) == "held(ticks, 2), where ticks is an array of shape (9, 9)"
    assert call_text(held, ([1], object())) == "held([1], stages), where stages is <object object>"
    assert (
        call_text(max, (object(), 1)) == "max(argument_1, 1), where argument_1 is <object object>"
    )


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, "a", 1901, -2.5e-07, (), (1,), [], [1901, [2]], set(), {3}, {"a": (1, 2)}),
        *(np.int64(1901), np.float32(0.1), np.bool_(True), np.float64(0.5)),
        *(np.arange(3), np.eye(2), np.zeros((0, 2), np.float32), np.zeros((2, 0), int)),
        np.array([0.1, np.inf, -np.inf], np.float32),
        np.array([[True], [False]]),
    ],
    ids=repr,
)
def test_the_code_of_a_value_makes_this_value(value: Any) -> None:
    again = eval(python_code(value), {"np": np})
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype and again.shape == value.shape
        assert np.array_equal(again, value)
    else:
        assert again == value


def test_the_code_of_a_value_without_a_literal() -> None:
    assert np.isnan(eval(python_code(float("nan")))) and np.isnan(
        eval(python_code(np.array([np.nan])), {"np": np})
    )
    assert python_code([1, object()]) == python_code({1: object()}) == ""
    assert python_code(np.array(["a"])) == python_code(len) == ""


def price(elements: int) -> int:
    """Return a price."""
    return 1 + elements // 64


def test_a_function_of_one_expression_is_quoted_as_a_lambda() -> None:
    assert python_code(price) == "lambda elements: 1 + elements // 64"
    assert eval(python_code(price))(640) == price(640)

    def two_lines(elements: int) -> int:
        half = elements // 2
        return half

    def with_another_name(elements: int) -> int:
        return price(elements)

    assert python_code(two_lines) == python_code(with_another_name) == ""
    assert "where b is " in call_text(lambda a, b: 0, (1, two_lines))


def test_numbers_in_a_list_have_no_separators_of_thousands() -> None:
    assert quoted([1901, 2.5]) == quoted(np.array([1901, 2.5])) == "[1901, 2.5]"
    assert quoted(1901) == "1,901"
