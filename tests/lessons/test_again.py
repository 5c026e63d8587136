"""Predictions of earlier lessons come back, with other numbers, and a run of the engine answers
them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from answers import SOLUTIONS

from ipu_course import predict, progress
from ipu_course.checking import exercise, overview
from ipu_course.checking.exercise import Lesson, asked_again_in, catalogue, find_question
from ipu_course.checking.gaps import read_notebook, source_of
from ipu_course.checking.state import learned
from ipu_teach.errors import AnswerKindError, UnknownExerciseError

LATER = [question for lesson in catalogue() for question in lesson.later]


def by_hand(name: str, asks: str) -> tuple[float, ...]:
    """The answer from the words of the question alone."""
    numbers = [int(n) for n in re.findall(r"\d+", re.sub(r"(?<=\d),(?=\d)", "", asks))]
    if name == "01.0 again":
        return (1 + numbers[2] / numbers[1],)
    if name == "01.3 again":
        work = numbers[1:14]
        return work.index(max(work)), round(sum(max(work) - w for w in work) / (13 * max(work)), 3)
    rows, columns = numbers[:2]
    return (4 * sum(i != j for i in range(rows) for j in range(columns)),)


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("question", LATER, ids=lambda q: q.name)
def test_the_engine_answers_what_is_asked(question: Any, seed: int | None) -> None:
    drawn = question.drawn() if seed is None else question.draw(np.random.default_rng(seed))
    assert question.values(drawn.answer()) == by_hand(question.name, drawn.asks)
    others = {question.draw(np.random.default_rng(s)).asks for s in range(5)}
    assert len(others) == 5 and question.drawn().asks == question.drawn().asks


def test_it_is_asked_until_it_is_answered_and_then_compared() -> None:
    asked = repr(predict("02.0 again", ...))
    assert asked == (
        "02.0 again: what a transpose moves, once it is copied\n  asked: Matrix a has 12 rows and 8 "
        "columns of FLOATs, with row i on tile i. Matrix b has 8 rows and\n         12 columns, "
        "also with row i on tile i. How many bytes does Copy(a.transpose(), b) send\n         "
        "between tiles?\n  next:  put your guess in place of the dots: a whole number from 0 "
        "on, such as 7."
    )
    assert repr(predict("02.0 again")) == asked and learned().record("02.0 again") == {}
    first = repr(predict("02.0 again", 100))
    # 12 x 8 elements of 4 bytes, but for 8 on the diagonal.
    assert (
        "compared" in first
        and "  you guessed: 100 bytes\n  it is:       352 bytes\n  why:" in first
    )
    # the first guess stays
    assert repr(predict("02.0 again", 352)) == repr(predict("02.0 again", ...)) == first
    assert learned().record("02.0 again") == {"prediction": [100]}
    assert "as you guessed" in repr(
        predict("01.0 again", by_hand("01.0 again", find_question("01.0 again").drawn().asks)[0])
    )


def test_wrong_calls_say_what_to_do() -> None:
    with pytest.raises(AnswerKindError) as caught:
        predict("01.0 again", actual=5)
    assert str(caught.value) == (
        "Prediction 01.0 again was given actual=, but the machine computes its answer.\n"
        "  next:  leave actual out."
    )
    with pytest.raises(UnknownExerciseError):
        predict("01.1 again", 5)


def test_they_come_two_lessons_on_and_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = catalogue()[1:3]
    third, fourth = Lesson("03", "three", 5, ()), Lesson("04", "four", 5, ())
    for module in (exercise, overview):
        monkeypatch.setattr(module, "catalogue", lambda: (*plain, third, fourth))
    assert [[q.name for q in asked_again_in(lesson)] for lesson in (*plain, third, fourth)] == [
        [],
        [],
        ["01.0 again", "01.3 again"],
        ["02.0 again"],
    ]
    predict("01.0", 3)
    predict("01.0 again", 3)
    text = repr(progress("03"))
    assert text.splitlines()[0] == "0 of 0 exercises solved; 1 of 2 asked again"
    assert [line.split("  ")[0] for line in text.splitlines()[2:]] == ["01.0 again", "01.3 again"]
    assert (
        repr(progress()).splitlines()[0]
        == f"0 of {sum(len(one.exercises) for one in plain)} exercises solved; 1 of 3 predictions made; 1 of 3 asked again"
    )
    assert "asked again" not in repr(progress("01"))
    learned().forget("01")
    assert "0 of 2 asked again" in repr(progress("03"))


@pytest.mark.parametrize("lesson", catalogue(), ids=lambda lesson: lesson.number)
def test_what_is_asked_again_stands_in_the_text_above(lesson: Lesson) -> None:
    """Whoever reads on can answer before running anything: there is one guess."""
    (path,) = SOLUTIONS.glob(f"{lesson.number}_*.ipynb")
    above = ""
    for cell in read_notebook(path)["cells"]:
        source = source_of(cell)
        found = re.match(r'predict\("(.*? again)", \.\.\.\)', source)
        if found:
            asks = find_question(found[1]).drawn().asks  # type: ignore[attr-defined]
            assert asks in " ".join(above.split())
        above += f"\n{source}" if cell["cell_type"] == "markdown" else ""
