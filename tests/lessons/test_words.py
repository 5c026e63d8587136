"""A lesson's file of words: every line of it is read, and a line that cannot be is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipu_course.checking import words
from ipu_course.checking.exercise import catalogue
from ipu_course.checking.words import LABELS, parsed, section
from ipu_teach.errors import LessonSourceError

TEXT = """# A title
minutes: 7

## predict 05.0: A guess
why: a first line
  and a second.

## check 05.1: A task
hint: look.
hint: look again: a colon stays.
decoy: a = 1
for: a = 2
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "words.md"


def test_sections_entries_and_continuations_are_read(path: Path) -> None:
    path.write_text(TEXT, encoding="utf-8")
    assert {key: dict(entries) for key, entries in parsed(path).items()} == {
        "lesson": {"title": ["A title"], "minutes": ["7"]},
        "predict 05.0": {"title": ["A guess"], "why": ["a first line and a second."]},
        "check 05.1": {
            "title": ["A task"],
            "hint": ["look.", "look again: a colon stays."],
            "decoy": ["a = 1"],
            "for": ["a = 2"],
        },
    }


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("hint: a hint of no exercise", 3),
        ("a line without a label", 13),
        ("why: a label of predictions", 13),
        ("## check 5.1: a name without its zero", 13),
    ],
)
def test_a_line_that_would_be_lost_is_an_error(path: Path, line: str, number: int) -> None:
    lines = TEXT.splitlines()
    lines.insert(number - 1, line)
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(LessonSourceError) as caught:
        parsed(path)
    assert f"words.md, line {number}" in str(caught.value) and line in str(caught.value)


def test_a_section_stands_once_and_is_there(path: Path) -> None:
    path.write_text(TEXT + "## check 05.1: Again\n", encoding="utf-8")
    with pytest.raises(LessonSourceError, match="occurs twice"):
        parsed(path)
    with pytest.raises(LessonSourceError) as caught:
        section("05", "check 05.99")
    assert 'add the heading "## check 05.99: TITLE"' in str(caught.value)


@pytest.mark.parametrize("lesson", catalogue(), ids=lambda lesson: lesson.number)
def test_every_section_belongs_to_an_item_of_its_lesson(lesson: object) -> None:
    number, items = lesson.number, lesson.items  # type: ignore[attr-defined]
    kinds = {"Exercise": "check", "Question": "predict"}
    named = {f"{kinds[type(item).__name__]} {item.name}" for item in items}
    named |= {f"predict {item.name}" for item in lesson.later}  # type: ignore[attr-defined]
    sections = words.words(number)
    assert set(sections) == named | {"lesson"}
    for key, entries in sections.items():
        assert set(entries) <= {"title", *LABELS[key.split()[0]]}
