"""solution(): the reference answer beside one's own, once that has passed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from answers import EXERCISES, SOLUTIONS

from ipu_course import check, solution
from ipu_course.checking import afterwards, learner_calls
from ipu_course.checking.exercise import Lesson, catalogue
from ipu_course.checking.gaps import gaps_in, read_notebook, reference, source_of
from ipu_course.checking.naming import lesson_of
from ipu_course.checking.state import learned
from ipu_teach.errors import UnknownExerciseError

WRITTEN = [name for name in (e.name for e in EXERCISES) if ".w" not in name]


def waiting_share(work: Any) -> Any:
    # mine, and not the reference's
    longest = max(work)
    return sum(longest - w for w in work) / (len(work) * longest) if longest > 0 else 0


def test_before_a_pass_it_shows_nothing_and_says_how_to_get_there() -> None:
    check("01.3", lambda work: 1)
    panel = solution("01.3")
    assert not panel.code and "slowest" not in repr(panel)
    text = " ".join(repr(panel).split())
    assert all(call in text for call in ('check("01.3", …)', 'hint("01.3")', 'given("01.3")'))


def test_after_a_pass_both_stand_beside_each_other_with_two_sentences_why() -> None:
    assert check("01.3", waiting_share)
    panel = solution("01.3")
    (_, hers), (_, reference_) = panel.code
    assert hers.startswith("def waiting_share(work") and "# mine, and not the reference's" in hers
    (gap,) = gaps_in(reference("01.3").cell)
    assert gap.answer in reference_ and "SOLUTION" not in reference_
    rows = dict(panel.rows)
    assert list(rows) == ["why", "thought"]
    text, html = repr(panel), panel._repr_html_()
    assert "    # mine, and not the reference's" in text and "would divide 0 by 0" in text
    assert html.count("<pre") == 2 and "mine, and not the reference&#x27;s" in html


def test_what_passed_earlier_opens_it_too_and_a_value_is_shown_as_one() -> None:
    learned().change("01.5", lambda record: record.update(state="solved"))
    assert "an earlier session" in solution("01.5").code[0][1]
    learner_calls._passed["01.5"] = ("thirds", 4, 3)
    assert solution("01.5").code[0] == ("yours", "('thirds', 4, 3)")
    learner_calls._passed["01.2"] = max
    assert solution("01.2").code[0] == ("yours", "its code cannot be read.")


def test_without_the_solved_notebook_there_is_one_sentence(monkeypatch: Any) -> None:
    def gone(name: str) -> Any:
        raise UnknownExerciseError("It is not here.")

    assert check("01.3", waiting_share)
    monkeypatch.setattr(afterwards, "reference", gone)
    assert repr(solution("01.3")) == (
        "01.3 The share of waiting, worked out: the solved notebook of this lesson is missing."
    )
    with pytest.raises(UnknownExerciseError):
        solution("01.9")


@pytest.mark.parametrize("name", WRITTEN)
def test_there_are_two_sentences_why_and_a_thought(name: str) -> None:
    said = afterwards.words(lesson_of(name))
    assert name in said, "write it in ipu_course/lessonNN/words.md"
    why, thought = said[name]
    assert len(re.findall(r"[.](?: |$)", why)) == 2 and len(thought.split()) >= 15


@pytest.mark.parametrize("lesson", catalogue(), ids=lambda lesson: lesson.number)
def test_every_lesson_imports_the_calls_that_its_verdicts_name(lesson: Lesson) -> None:
    (path,) = SOLUTIONS.glob(f"{lesson.number}_*.ipynb")
    sources = [source_of(c) for c in read_notebook(path)["cells"] if c["cell_type"] == "code"]
    imported = re.search(r"^from ipu_course import (.+)$", "\n".join(sources), re.MULTILINE)
    assert imported is not None
    calls = "check", "given", "hint", "predict", "progress", "puzzle", "share", "solution"
    assert set(calls) <= set(imported[1].split(", "))
