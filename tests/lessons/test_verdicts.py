"""Recording verdicts and comparing two records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import verdicts

from ipu_course.checking.quoting import LONGEST_CALL, call_text

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


def test_a_call_in_plain_values_is_quoted_so_that_it_can_be_typed_in() -> None:
    def held(ticks: list[list[tuple[str, int]]], stages: int) -> int:
        return stages

    ticks = [[("forward", k), ("backward", k)] for k in range(5)]
    assert eval(call_text(held, (ticks, 2)), {"held": held}) == 2
    assert call_text(held, (ticks * 9, 2)).endswith("…, 2)")  # too long to be read
    assert len(call_text(held, (list(range(200)), 2))) <= LONGEST_CALL
    assert call_text(held, ([0.1 + 0.2], 2)) == "held([0.3], 2)"
