"""The instructor's pages: what they name exists, what they count is there, and what is made from
the tests is up to date."""

from __future__ import annotations

import builtins
import re
import sys
from pathlib import Path

import pytest

from ipu_course.checking.exercise import NUMBERS, catalogue
from ipu_course.checking.naming import LESSON, lesson_of
from ipu_course.checking.notebooks import NOTEBOOKS, lessons_in
from ipu_teach import errors

DOCS = Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS))
import make_mistakes  # noqa: E402

SYSTEMS = ("on_linux", "on_macos", "on_windows", "on_a_chromebook", "on_a_hub")
PAGES = (
    "workshop",
    "quiz",
    "quiz_answers",
    "glossary",
    "troubleshooting",
    "mistakes",
    "hub",
    *SYSTEMS,
)


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_the_mistakes_are_those_of_the_tests() -> None:
    assert make_mistakes.table() in page("mistakes"), "run docs/make_mistakes.py"


def test_exercises_without_a_timetable_are_left_for_home() -> None:
    workshop = page("workshop")
    sentence = make_mistakes.left_for_home(workshop)
    assert f"<!-- home -->\n{sentence}\n<!-- end -->" in workshop, "run docs/make_mistakes.py"
    fewer = workshop.replace("; 05.4", "").replace(", 05.4", "")
    assert "05.4" in make_mistakes.left_for_home(fewer)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page(name)):
        assert (DOCS / target).exists(), target


def test_exercises_that_are_named_exist() -> None:
    known = {item.name for lesson in catalogue() for item in lesson.items}
    assert set(re.findall(r"\b[01]\d[a-z]?\.\d\b", page("workshop"))) <= known


def test_minutes_of_a_timetable_go_up() -> None:
    tables = re.split(r"\| minute \|", page("workshop"))[1:]
    assert len(tables) == 7
    for table in tables:
        starts = re.findall(r"^\| (\d+) \|(.*)", table, re.MULTILINE)
        minutes = [int(start) for start, _ in starts]
        for (start, row), end in zip(starts, minutes[1:], strict=False):
            parts = [int(found) for found in re.findall(r"\*\*(\d+)\*\* ", row)]
            assert (
                not parts
                or parts[0] == int(start)
                and parts[-1] < end
                and parts == sorted(set(parts))
            )
        assert minutes[0] == 0 and minutes == sorted(set(minutes))


TERMS = re.findall(
    rf"^### (.+)\n\n(.+) \*(?:Lesson ({LESSON})|In no lesson yet)\*$",
    page("glossary"),
    re.MULTILINE,
)


def test_every_aha_is_told_and_every_lesson_is_in_the_two_days() -> None:
    timetables, said = page("workshop").split("## What to say at each aha")
    told = re.findall(r"^\* \*\*(\d\d[a-z]?|The machine in one file),", said, re.MULTILINE)
    assert told == [*NUMBERS[:5], "The machine in one file", *NUMBERS[5:]]
    two_days = timetables.split("## Two days")[1]
    exercises = {
        item.name
        for lesson in catalogue()
        for item in lesson.items
        if " " not in item.name and ".w" not in item.name  # those go with what they lead to
    }
    assert set(re.findall(r"\b[01]\d[a-z]?\.\d\b", two_days)) == exercises, (
        "run docs/make_mistakes.py; predictions are named in the two days of docs/workshop.md"
    )


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_page_for_a_system_states_what_was_tested_and_the_commands(name: str) -> None:
    text = page(name)
    assert (
        text.index("**Tested:**") < 200
        and "## Common problems" in text
        and f"({name}.md)" in page("workshop")
    )
    assert "**Not tested:**" in text or "**Tested:** nothing yet" in text
    if name != "on_a_hub":
        assert re.search(
            r"^    py(thon3)? run\.py doctor --workshop .*\n    py(thon3)? run\.py  ",
            text,
            re.MULTILINE,
        )


def test_a_term_is_told_once_in_two_sentences() -> None:
    terms = [term for term, _, _ in TERMS]
    assert len(terms) == len(set(terms)) == page("glossary").count("###") > 50 and terms == sorted(
        terms, key=str.casefold
    )
    for term, told, _ in TERMS:
        assert 1 <= len(re.findall(r"[.?](?= |$)", told)) <= 2, term
        # JupyterLab finds a heading by its words as they stand, the web by its words in small
        # letters.
        assert term == term.lower() or f'<a name="{term}"></a>\n### {term}\n' in page("glossary"), (
            term
        )


def test_a_term_is_linked_where_its_lesson_brings_it_in() -> None:
    lessons = {
        lesson_of(path.name): path.read_text(encoding="utf-8")
        for path in lessons_in(NOTEBOOKS / "solutions")
    }
    linked = {
        number: re.findall(r"\]\(../../docs/glossary\.md#([^)]+)\)", text)
        for number, text in lessons.items()
    }
    first = {(number, term.replace(" ", "-")) for term, _, number in TERMS if number}
    assert first == {(number, anchor) for number, anchors in linked.items() for anchor in anchors}
    assert all(len(anchors) == len(set(anchors)) for anchors in linked.values())


def test_every_question_has_its_answer() -> None:
    questions, answers = page("quiz"), page("quiz_answers")
    asked, answered = (re.findall(r"^(\d+)\. ", text, re.M) for text in (questions, answers))
    assert asked == answered == [str(number) for number in range(1, len(asked) + 1)]
    assert 20 <= len(asked) <= 25
    assert all(
        re.search(r"\(([01]\d[a-z]?(, )?)+\)$", line)
        for line in answers.splitlines()
        if re.match(r"\d", line)
    )


def test_errors_that_are_named_exist() -> None:
    # Python's own are there
    named = set(re.findall(r"`(\w+Error)`", page("troubleshooting"))) - set(dir(builtins))
    assert named and all(hasattr(errors, name) for name in named)
