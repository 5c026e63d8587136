"""The files of known mistakes, and trying what stands in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu_course.checking import mistakes
from ipu_course.checking.comparing import gives_alike
from ipu_course.checking.mistakes import alike, all_mistakes, first, read, same, suspects
from ipu_course.checking.naming import lesson_of

FILE = """# %% given
from math import pi


# %% 00.1: a function and its helper
# why:  it is {much} too much, and these words go on
#   in a second line.
# next: take {much} away.
def helper(x):
    return x + pi


def answer(x):
    return helper(x)


# %% 00.1: a value
# why:  a pair.
# next: give one.
answer = (1, 2)

# %% 00.1: ends with an error
# why:  nobody is told.
# next: nothing.
def answer(x):
    return x / 0


# %% 00.2: quoted
# error in the answer: ZeroDivisionError
class Answer:
    pass
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "mistakes_00.py"
    file.write_text(FILE, encoding="utf-8")
    return file


def test_a_cell_is_a_mistake(path: Path) -> None:
    function, value, error, quoted = read(path)
    assert [m.about for m in read(path)] == [
        "a function and its helper",
        "a value",
        "ends with an error",
        "quoted",
    ]
    assert (
        function.why
        == function.says
        == "it is {much} too much, and these words go on in a second line."
    )
    assert function.reason(much=3) == (
        "it is 3 too much, and these words go on in a second line.",
        "take 3 away.",
    )
    assert function.answer(1) == pytest.approx(4.14, abs=0.01) and value.answer == (1, 2)
    assert (quoted.exercise, quoted.kind, quoted.says, quoted.why) == (
        "00.2",
        "error in the answer",
        "ZeroDivisionError",
        "",
    )
    with pytest.raises(ZeroDivisionError) as caught:
        error.answer(1)
    last = caught.traceback[-1]
    assert str(last.path) == str(path) and FILE.splitlines()[last.lineno].strip() == "return x / 0"


def test_the_first_that_comes_to_the_same_is_told_and_errors_come_to_nothing(path: Path) -> None:
    function, value, error, _ = read(path)
    assert first([error, function], lambda like: like(0) > 3, much="a lot")[1] == "take a lot away."
    assert first([value, value], lambda like: like == (1, 2)) == ("a pair.", "give one.")
    assert first([error], lambda like: like(0) == 0) == ("", "")


def test_trying_stops_in_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mistakes, "PATIENCE", 0.0)
    tried: list[Any] = []
    assert (
        list(alike(read(path)[:2], lambda like: tried.append(like) is not None)) == []
        and len(tried) == 1
    )


def test_an_interruption_is_the_learners(path: Path) -> None:
    def interrupted(like: Any) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first(read(path), interrupted)


def test_outcomes() -> None:
    nothing = float("nan")
    # a number of Python's that is none is not itself
    assert same([1, [nothing]], (1, [nothing])) is False
    assert same([mistakes.np.array([1, nothing]), "a"], (mistakes.np.array([1, nothing]), "a"))
    assert not same([1], [1, 2]) and not same(mistakes.np.zeros(2), mistakes.np.zeros(3))


def test_what_is_tried_has_words_and_stands_in_its_own_lesson() -> None:
    for mistake in all_mistakes():
        assert mistake.path.parent.name == f"lesson{lesson_of(mistake.exercise)}"
        assert bool(mistake.why) == bool(mistake.next_step) and mistake.says
    assert list(suspects("01.3"))[0].about == "the busy share"


def test_results_are_compared_in_each_of_two_cases() -> None:
    def total(row: list[int]) -> int:
        row.append(0)  # the cases are copied
        return sum(row)

    twos, others = ([2, 2],), ([3, 1, 2],)
    assert gives_alike(total, twos)(np.prod)
    assert not gives_alike(total, twos, others)(len)
    assert not gives_alike(total, twos, ([5, 1],))(np.prod)
    assert gives_alike(total, twos, others)(lambda row: sum(row[::-1])) and others == ([3, 1, 2],)
    assert gives_alike(lambda row: row[9], twos)(lambda row: row[7])  # an error of one type
    assert not gives_alike(lambda row: row[9], twos)(lambda row: 1 / 0)
