"""The fuzzer of record, a thousandth of what it is run for, and that it finds, makes small and prints what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzz import compare, shrink, writer
from fuzz.__main__ import smaller, tried

FUZZ = Path(__file__).parent / "fuzz"


@pytest.mark.parametrize("chunk", range(5))
def test_random_programs_on_every_way(chunk: int) -> None:
    for seed in range(chunk * 50, chunk * 50 + 50):
        _, wrong = compare.difference(writer.Writer(seed).lines, *compare.WAYS)
        assert wrong is None, (seed, wrong)


def test_random_programs_end_in_all_the_ways_they_may() -> None:
    ends = {compare.difference(writer.Writer(seed).lines)[0].partition(":")[0] for seed in range(120)}
    assert ends >= {"", "ComputeSetRaceError", "UninitialisedReadError", "ApplicationRuntimeError"}


def test_a_program_that_differs_is_made_small_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that forgets the last byte that a copy brings."""
    right = compare.ran

    def wrong(names: dict[str, Any], how: dict[str, Any]) -> compare.Outcome:
        came = right(names, how)
        for step in came.received:
            if step:
                step[next(iter(step))] -= 1
        return came

    monkeypatch.setattr(compare, "ran", wrong)
    seed = next(s for s in range(100) if compare.difference(writer.Writer(s).lines, "batched")[1] is not None)
    lines = writer.Writer(seed).lines
    found = compare.difference(lines, "batched")[1]
    assert found is not None and found.kind == "batched: bytes"
    text = smaller(lines, found, ["batched"])
    assert len(text.splitlines()) < len(lines) and len(text.splitlines()) <= 25
    assert "program.add(" in text and text.splitlines()[-1].startswith("# batched: bytes")
    code = [line for line in text.splitlines() if line in lines]
    assert tried(code, ["batched"]) is not None


def test_smallest_leaves_out_all_that_can_go() -> None:
    lines = [str(number) for number in range(40)]
    assert shrink.smallest(lines, lambda rest: {"3", "17", "39"} <= set(rest)) == ["3", "17", "39"]
    assert shrink.smallest(["1"], lambda rest: True) == ["1"]


def test_the_command_says_what_it_did() -> None:
    said = subprocess.run(
        [sys.executable, str(FUZZ), "--seed", "5", "--graphs", "3"], capture_output=True, text=True, timeout=200
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.splitlines()[0] == "seed 5" and "3 programs from seed 5" in said.stdout and "none differs" in said.stdout
