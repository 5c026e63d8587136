"""Each clause of an exercise's text has a wrong answer that breaks it, for the exercises gone through."""

from __future__ import annotations

import clauses
import pytest
from attempts import RIGHT, VARIANTS

from ipu_course.checking.naming import lesson_of

GONE_THROUGH = 95  # at least so many exercises; the number only grows


@pytest.mark.parametrize("name", clauses.silent())
def test_each_sentence_is_bound_or_asks_for_nothing(name: str) -> None:
    """That the answers are refused, test_exercises.py sees."""
    unbound = [sentence.words for sentence in clauses.clauses(name) if not sentence.is_bound]
    assert not unbound, "add `# clause:` to a wrong answer of mistakes.py or attempts.py"
    bound = [sentence.words for sentence in clauses.clauses(name) if sentence.broken_by]
    assert bound, f"{name} asks for something"
    listed = clauses.silent()[name]
    assert set(listed) <= set(clauses.text_of(name)), "a sentence that the text no longer has"
    assert not set(listed) & set(bound), "a sentence with a clause asks for something"


def test_each_clause_is_in_the_text_of_its_exercise() -> None:
    for name in clauses.NAMES:
        for wrong in clauses.refused(name):
            found = any(wrong.clause in words for words in clauses.text_of(name))
            assert found, f"{wrong.path}, {name} {wrong.about}: {wrong.clause!r}"
    assert not [answer.about for answer in (*RIGHT, *VARIANTS) if answer.clause]


def test_no_exercise_is_lost_and_all_are_in_order() -> None:
    names = list(clauses.silent())
    assert len(names) >= GONE_THROUGH and names == sorted(names, key=clauses.NAMES.index)


def test_each_exercise_has_a_text() -> None:
    for name in clauses.NAMES:
        assert len(clauses.text_of(name)) >= 2, name


def test_the_command_lists_a_clause_beside_its_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert clauses.main(["12.1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "12.1"
    row = next(i for i, line in enumerate(lines) if "any number of columns" in line)
    assert lines[row].startswith("  + ") and lines[row + 1] == (
        "      b columns of out (lesson12/mistakes.py)"
    )
    left = next(name for name in clauses.NAMES if name not in clauses.silent())
    assert clauses.main([left]) == (0 if clauses.refused(left) else 1)
    assert "  ? " in capsys.readouterr().out
    assert clauses.main([]) == 0
    assert "not gone through yet, " in capsys.readouterr().out
    assert clauses.main(["99.9"]) == 2 and lesson_of(left) in capsys.readouterr().out
