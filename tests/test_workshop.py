"""The instructor's pages: what they name exists, what they count is there, and what is made from the tests is up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ipu_teach import errors
from ipu_teach.lessons.exercise import catalogue

DOCS = Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS))
import make_mistakes  # noqa: E402

PAGES = ("workshop", "quiz", "glossary", "troubleshooting", "mistakes", "hub")


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_the_mistakes_are_those_of_the_tests() -> None:
    assert make_mistakes.table() in page("mistakes")


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page(name)):
        assert (DOCS / target).exists(), target


def test_exercises_that_are_named_exist() -> None:
    known = {item.name for lesson in catalogue() for item in lesson.items}
    assert set(re.findall(r"\b0\d\.\d\b", page("workshop"))) <= known


def test_minutes_of_a_timetable_go_up() -> None:
    tables = re.split(r"\| minute \|", page("workshop"))[1:]
    assert len(tables) == 4
    for table in tables:
        minutes = [int(found) for found in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)]
        assert minutes[0] == 0 and minutes == sorted(set(minutes))


def test_a_term_is_told_once_in_two_sentences() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (\d\d) \|$", page("glossary"), re.MULTILINE)
    terms = [term for term, _, _ in rows]
    assert len(terms) == len(set(terms)) > 40 and terms == sorted(terms, key=str.casefold)
    for term, told, _ in rows:
        assert 1 <= len(re.findall(r"[.?](?= |$)", told)) <= 2, term


def test_every_question_has_its_answer() -> None:
    questions, answers = page("quiz").split("## Answers")
    numbers = [str(number) for number in range(1, 21)]
    assert (
        re.findall(r"^(\d+)\. .+\?$|^(\d+)\. ", questions, re.MULTILINE) and len(re.findall(r"^\d+\. ", questions, re.M)) == 20
    )
    assert re.findall(r"^(\d+)\. ", answers, re.MULTILINE) == numbers
    assert all(re.search(r"\((0\d(, )?)+\)$", line) for line in answers.splitlines() if re.match(r"\d", line))


def test_errors_that_are_named_exist() -> None:
    named = set(re.findall(r"`(\w+Error)`", page("troubleshooting"))) - {"ModuleNotFoundError", "NameError"}
    assert named and all(hasattr(errors, name) for name in named)
