"""Each clause of an exercise's text has a wrong answer that breaks it."""

from __future__ import annotations

import clauses
import pytest
from attempts import RIGHT, VARIANTS


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


def test_all_exercises_are_in_the_file_of_clauses_in_order() -> None:
    assert list(clauses.silent()) == clauses.NAMES


def test_each_exercise_has_a_text() -> None:
    for name in clauses.NAMES:
        assert len(clauses.text_of(name)) >= 2, name


def test_the_command_lists_a_clause_beside_its_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clauses.main(["12.1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "12.1"
    row = next(i for i, line in enumerate(lines) if "any number of columns" in line)
    assert lines[row].startswith("  + ") and lines[row + 1] == (
        "      b columns of out (lesson12/mistakes.py)"
    )
    assert clauses.main([]) == 0 and "not gone through" not in capsys.readouterr().out
    rest = {name: words for name, words in clauses.silent().items() if name != "12.4"}
    monkeypatch.setattr(clauses, "silent", lambda: rest)
    assert clauses.main([]) == 0
    assert f"not gone through yet, 1 of {len(clauses.NAMES)}: 12.4" in capsys.readouterr().out
    assert clauses.main(["12.4"]) == 1
    assert "  ? return a list of arrays." in capsys.readouterr().out
    assert clauses.main(["99.9"]) == 2 and "There are: 00.1" in capsys.readouterr().out
