"""How lessons and exercises are named: 07, 07b, 08; 07b.w1, 07b.1, 07b.10. And a lesson 07b, gone
through as a learner does."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipu_course import check, cli, progress
from ipu_course.checking import learner_calls, notebooks
from ipu_course.checking.exercise import Later, Lesson, asked_again_in, catalogue, find_exercise
from ipu_course.checking.gaps import gaps_in, read_notebook, reference, source_of
from ipu_course.checking.learner import as_text
from ipu_course.checking.learner_calls import share, verify
from ipu_course.checking.naming import (
    EXERCISE,
    exercise_meant,
    lesson_meant,
    lesson_of,
    number_of,
    sort_key,
)
from ipu_course.checking.shared import parsed
from ipu_course.checking.state import learned
from ipu_course.classroom.board import tables
from ipu_course.classroom.ladder import climbed
from ipu_course.classroom.replay import replay
from ipu_course.classroom.roster import called
from ipu_teach.errors import LessonError, UnknownExerciseError

NAMES = ("07b.w1", "07b.1", "07b.10")


def test_a_name_is_taken_apart() -> None:
    names = ("07.1", "07b.w1", "07b.10", "07b_more.ipynb", "10_last", "tiny")
    assert [lesson_of(name) for name in names] == ["07", "07b", "07b", "07b", "10", "tiny"]
    assert [number_of(name) for name in names[:-1]] == [7, 7, 7, 7, 10]
    with pytest.raises(ValueError):
        number_of("tiny")


def test_lessons_and_exercises_come_in_order() -> None:
    right = [
        "07.1",
        "07b.w1",
        "07b.w2",
        "07b.1",
        "07b.2",
        "07b.10",
        "08.1",
        "10.w1",
        "10.2",
        "10.10",
        "tiny",
    ]
    shuffled = right[::-1]
    assert sorted(shuffled, key=sort_key) == right
    assert sorted(["tiny", "10", "08", "07b", "07"], key=sort_key) == [
        "07",
        "07b",
        "08",
        "10",
        "tiny",
    ]


@pytest.mark.parametrize("name", ["07.1", "07b.1", "04.w1", "10.10", "07b.w12"])
def test_what_is_a_name(name: str) -> None:
    assert re.fullmatch(EXERCISE, name)


@pytest.mark.parametrize("name", ["7.1", "07", "07.", "07.w", "07B.1", "07bc.1", "07.x1", "07.1b"])
def test_what_is_none(name: str) -> None:
    assert not re.fullmatch(EXERCISE, name)


def test_what_somebody_means() -> None:
    assert [lesson_meant(word) for word in ("7", "07", "007", "7b", "07B", "10")] == [
        "07",
        "07",
        "07",
        "07b",
        "07b",
        "10",
    ]
    assert [lesson_meant(word) for word in ("", "mnist", "-1", "7.5", "1" * 5000, "7bc")] == [
        ""
    ] * 6
    said = ("7.1", "exercise 7 1", "7b.w1", "07b.10", "7", "1.2.3", "")
    assert [exercise_meant(text) for text in said] == [
        "07.1",
        "07.1",
        "07b.w1",
        "07b.10",
        "",
        "",
        "",
    ]


def cell(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "source": source,
        "outputs": [],
        "execution_count": 1,
        "metadata": {},
    }


def solved(title: str, *names: str) -> str:
    """A solved notebook of exercises that ask for the same: whichever exercise of the catalogue
    stands behind them."""
    first = reference("01.1")
    cells = [cell("from ipu_course import check\n")]
    for name in names:
        cells += [
            cell(first.cell.replace("01.1", name)),
            cell(f'check("{name}", {", ".join(first.answers)})'),
        ]
    return as_text({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lessons 07, 07b and 08, of which 07b has another's place in the catalogue: the exercise 01.1
    under other names."""
    first = find_exercise("01.1", "check")
    texts = {
        "07b_more": solved("more", *NAMES),
        "07_mnist": solved("mnist", "07.1"),
        "08_next": solved("next", "08.1"),
    }
    folder = tmp_path / "notebooks" / "solutions"
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.ipynb").write_text(text, encoding="utf-8")
    lessons = (
        *(lesson for lesson in catalogue() if lesson.number != "07b"),
        Lesson("07b", "More", 10, tuple(replace(first, name=name) for name in NAMES)),
    )
    for module in [
        module for name, module in sys.modules.items() if name.startswith("ipu_course.")
    ]:
        if getattr(module, "catalogue", None) is catalogue:
            monkeypatch.setattr(module, "catalogue", lambda: lessons)
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "ada" / "work"))
    assert cli.main(["learner"]) == 0
    return tmp_path


def test_a_lesson_with_a_letter_is_found_copied_and_reset(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [lesson_of(path.stem) for path in notebooks.lessons()] == ["07", "07b", "08"]
    for word, name in (
        ("07b", "07b_more"),
        ("7b", "07b_more"),
        ("more", "07b_more"),
        ("7", "07_mnist"),
        ("mnist", "07_mnist"),
        ("cnn", "07b_more"),
    ):
        assert notebooks.find_lesson(word).stem == name
    with pytest.raises(LessonError, match="no lesson '07c'"):
        notebooks.find_lesson("07c")
    blank = [
        source_of(one) for one in read_notebook(course / "notebooks" / "07b_more.ipynb")["cells"]
    ]
    assert not any(gaps_in(source) for source in blank)
    assert [name for name in NAMES if f"# {name} Your turn:" in "\n".join(blank)] == list(NAMES)
    notebooks.learners_copies(notebooks.find_lesson("07b"))
    copy = course / "ada" / "work" / "07b_more.ipynb"
    copy.write_text("mine", encoding="utf-8")
    learned().change("07b.w1", lambda record: record.update(state="solved"))
    learned().change("07.1", lambda record: record.update(state="solved"))
    capsys.readouterr()
    assert cli.main(["reset", "07b", "--progress"]) == 0
    assert "your progress in lesson 07b is deleted" in capsys.readouterr().out
    assert [path.read_text(encoding="utf-8") for path in copy.parent.glob("07b_more.kept-*")] == [
        "mine"
    ]
    assert json.loads(copy.read_text(encoding="utf-8"))["cells"]
    assert not learned().record("07b.w1") and learned().record("07.1") == {"state": "solved"}


def test_its_exercises_are_checked_listed_and_shared(course: Path) -> None:
    for name in NAMES:
        (answer,) = learner_calls.run_reference(name, {"__name__": "__main__"})
        assert check(name, answer).mark == "✓"
        line = str(dict(share(name).rows)["line"]).strip()
        assert line.startswith(f"{name} ") and parsed(line).name == name
        assert verify(line, answer).mark == "✓" and replay(line, reference(name).cell) == ""
        assert "the code" in replay(
            line.replace("code ", "code 0")[: len(line)], reference(name).cell
        )
    assert [row[:3:2] for row in progress("7b").rows] == [(name, "✓ solved") for name in NAMES]
    assert [row[0] for row in progress(7).rows if lesson_of(row[0]) != "07"] == [
        item.name for item in later_of("07")
    ]
    with pytest.raises(UnknownExerciseError, match=r"did you mean '07b\.w1'"):
        check("7b.w1", answer)
    (_, heads, rows), *_ = tables(called([str(course / "ada" / "work")]))
    assert heads[1:3] == ("07b", "is at") and rows[0][1:3] == ("3 of 3", "–")


def test_the_ladder_lists_them_in_order(course: Path) -> None:
    for name in reversed(NAMES):
        line = f"{name} 12 modelled cycles, digest 0123456789ab, code ba9876543210"
        learned().change(
            name, lambda record, line=line: record.update(shared={"line": line, "code": "1"})
        )  # type: ignore[misc]
    assert [rung.exercise for rung in climbed(called([str(course / "ada" / "work")]))] == list(
        NAMES
    )


def later_of(number: str) -> tuple[Later, ...]:
    return next(asked_again_in(lesson) for lesson in catalogue() if lesson.number == number)
