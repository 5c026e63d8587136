"""puzzle(): the lines of a right answer shuffled among wrong ones, for whoever is stuck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from answers import EXERCISES, Names, definitions
from sampling import one_in

from ipu_course import check, progress, puzzle
from ipu_course.checking import learner_calls
from ipu_course.checking.gaps import Reference, gaps_in, reference
from ipu_course.checking.naming import lesson_of
from ipu_course.checking.puzzles import Puzzle, statements_of, widget
from ipu_course.checking.state import learned
from ipu_teach.errors import AnswerKindError, LessonError, UnknownExerciseError

NamesOf = Callable[[str], Names]
PUZZLED = [exercise for exercise in EXERCISES if exercise.decoys]


def refused(name: str, times: int) -> str:
    for _ in range(times):
        text = repr(check(name, lambda *_: 1 / 0))
    return " ".join(text.split())


def lines_of(name: str) -> list[str]:
    (gap,) = gaps_in(reference(name).cell)
    return statements_of(gap.answer)


def in_order(made: Puzzle) -> list[int]:
    """The places of the reference's lines. Of two equal ones, either may come first."""
    places: list[int] = []
    for line in lines_of(made.exercise.name):
        places.append(
            next(i for i, one in enumerate(made.lines) if one == line and i not in places)
        )
    return places


def of(name: str, /, **names: Any) -> Any:
    """puzzle(name) as a cell of a notebook calls it."""
    return eval(f"puzzle({name!r})", {"puzzle": puzzle, **names})


def test_the_third_refusal_says_that_there_is_a_puzzle() -> None:
    assert "right answer, shuffled" not in refused("01.2", 2)
    text = repr(puzzle("01.2"))
    assert text == (
        "01.2 Rebalance the jobs: a puzzle for later\n  next: it opens after 1 more wrong answer; until "
        'then hint("01.2") helps.'
    )
    assert (
        'or: puzzle("01.2") has the lines of a right answer, shuffled among a few wrong ones.'
        in refused("01.2", 1)
    )
    assert isinstance(of("01.2"), Puzzle)
    assert "right answer, shuffled" not in refused("01.5", 4) and "its answer is 1 line" in repr(
        of("01.5")
    )
    check("01.1", ...)
    check("01.1", ...)
    check("01.1", ...)
    # what was not attempted was not refused
    assert "it opens after 3 more wrong answers" in repr(of("01.1"))


def test_the_text_form_has_a_letter_for_each_line() -> None:
    refused("01.2", 3)
    text = repr(of("01.2"))
    assert (
        "9 lines. 2 of them come from wrong answers: leave them out." in text
        and "def balance(jobs, tiles):" in text
    )
    assert (
        "e      load = [0] * tiles\n" in text
        and "\n          g          load[tile] += jobs[job]\n" in text
    )
    assert (
        repr(of("01.2")) == text
        and "<pre" in of("01.2")._repr_html_()
        and "&quot;&quot;&quot;Return a tile number" in of("01.2")._repr_html_()
    )


def test_an_order_is_tried_by_the_exercises_own_check() -> None:
    refused("01.2", 3)
    made = of("01.2")
    letters = [chr(ord("a") + place) for place in in_order(made)]
    numbers = [place + 1 for place in in_order(made)]
    for order in (
        " ".join(letters),
        "".join(letters).upper(),
        letters,
        numbers,
        ", ".join(map(str, numbers)),
    ):
        solved = puzzle("01.2", order)
        assert (
            solved
            and "solved, with help" in repr(solved)
            and 'check("01.2", …) counts that as solved' in repr(solved)
        )
    assert (
        learned().record("01.2")["state"] == "with help"
        and learned().record("01.2")["attempts"] == 3
    )
    late = repr(puzzle("01.2", letters[:2] + letters[3:4] + letters[2:3] + letters[4:]))
    assert (
        "not yet in order" in late
        and "IndentationError" in late
        and "in this order the lines are not valid Python" in late
    )
    assert "Traceback" not in late
    wrong = [place for place in range(9) if place not in in_order(made)]
    decoy = next(place for place in wrong if made.lines[place].strip() == "load[tile] += 1")
    swapped = [
        decoy if made.lines[place].strip() == "load[tile] += jobs[job]" else place
        for place in in_order(made)
    ]
    assert "not yet in order" in repr(made.tried(swapped)) and "the fullest tile works" in repr(
        made.tried(swapped)
    )


def test_solving_it_counts_as_with_help() -> None:
    refused("01.3", 3)
    made = of("01.3")
    made.tried(in_order(made))
    assert "0 of 7 exercises solved, 1 with help; " in repr(
        progress("01")
    ) and "✓ with help  3" in repr(progress("01"))
    refused("01.3", 1)
    learner_calls.given("01.3")
    assert learned().record("01.3")["state"] == "with help"
    check("01.3", lambda work: 1 - sum(work) / (len(work) * max(work)) if max(work) else 0)
    assert learned().record("01.3")["state"] == "solved"
    made.tried(in_order(made))
    assert learned().record("01.3")["state"] == "solved"


@pytest.mark.parametrize("exercise", one_in(3, PUZZLED, lambda e: e.name))
def test_the_lines_of_the_reference_solve_it_and_those_of_wrong_answers_do_not(
    exercise: Any, names_of: NamesOf
) -> None:
    made = Puzzle(exercise, names_of(lesson_of(exercise.name)))
    assert 2 <= made.wrong <= 3 and made.tried(in_order(made))
    assert made.lines[: len(in_order(made))] != lines_of(exercise.name)
    found = reference(exercise.name)
    for decoy, instead in exercise.decoys:
        assert found.cell.count(instead) == 1
        cell = found.cell.replace(instead, decoy)
        answers = learner_calls.run_cell(
            Reference(found.path, cell, found.answers),
            "<a decoy>",
            names_of(lesson_of(exercise.name)),
        )
        verdict = check(exercise.name, *answers)
        assert not verdict and verdict.kind is not learner_calls.Kind.NOT_ATTEMPTED, decoy


def test_each_answer_of_three_lines_has_a_puzzle() -> None:
    """README and the panel say so. The last exercise asks for a program of one's own."""
    long = {e.name for e in EXERCISES if len(lines_of(e.name)) >= 3}
    assert long - {"15.5"} <= {e.name for e in PUZZLED} and "15.5" in long
    assert "its answer is a program of your own choice" in repr(of("15.5"))


def test_a_statement_over_several_lines_is_one_line_of_a_puzzle() -> None:
    answer = "    a = [\n        1,\n    ]\n\n    # why\n    return a\n"
    assert statements_of(answer) == ["    a = [\n        1,\n    ]", "    # why\n    return a"]
    panel = repr(Puzzle(next(e for e in PUZZLED if e.name == "07.5"), dict(definitions("07"))))
    assert "class Ahead(StreamCallback):" in panel


def test_another_order_that_is_right_is_right_too(names_of: NamesOf) -> None:
    refused("02.2", 3)
    made = of("02.2", **names_of("02"))
    order = in_order(made)
    order[0], order[1] = order[1], order[0]  # which variable is made first does not matter
    assert made.tried(order)


ODD: list[Any] = [
    "",
    "z",
    "a a",
    "1 0",
    "99999999999999999999",
    [1, 1],
    [0],
    [1.5],
    7,
    None.__class__,
    ["a", None],
    "é",
]


@pytest.mark.parametrize(
    "order", ODD, ids=lambda order: f"{type(order).__name__} {len(str(order))}"
)
def test_what_is_no_order_is_said(order: Any) -> None:
    refused("01.1", 3)
    with pytest.raises(AnswerKindError) as caught:
        puzzle("01.1", order)
    assert "next:  give letters from a to d, or numbers from 1 to 4, each once at most." in str(
        caught.value
    )


def test_a_puzzle_needs_what_its_lesson_made_above() -> None:
    refused("02.4", 3)
    with pytest.raises(
        LessonError,
        match="needs RepeatWhileTrue, Sequence, popops, which this notebook has not defined",
    ):
        of("02.4")
    with pytest.raises(UnknownExerciseError):
        puzzle("01.0")


def test_the_list_answers_as_the_text_does() -> None:
    pytest.importorskip("anywidget", reason="the extra lab is not installed")
    refused("01.1", 3)
    made = of("01.1")
    shown = widget(made)
    assert shown.lines == made.lines and "def superstep_cycles" in shown.above
    shown.tried = [1, in_order(made)[::-1]]
    first = shown.verdict
    assert "not yet in order" in first
    shown.tried = [2, in_order(made)[::-1]]
    assert shown.verdict != first  # so that the page hears of it
    shown.tried = [3, []]
    assert 'role="alert"' in shown.verdict and "give letters from a to d" in shown.verdict
    shown.tried = [4, in_order(made)]
    assert "solved, with help" in shown.verdict
