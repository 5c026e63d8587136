"""check, hint, predict, given, progress: what each says, and what it remembers."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers import EXERCISES, SOLUTIONS, Names

from ipu_course import check, given, hint, predict, progress
from ipu_course.checking import learner_calls, mistakes
from ipu_course.checking.calling import call, is_blank
from ipu_course.checking.comparing import compare
from ipu_course.checking.exercise import Lesson, Question, catalogue
from ipu_course.checking.gaps import read_notebook, reference, source_of
from ipu_course.checking.quoting import difference
from ipu_course.checking.state import learned
from ipu_course.checking.verdict_panel import Bars, Panel
from ipu_course.checking.verdicts import Kind, NotYet
from ipu_course.lesson01 import checks as lesson01
from ipu_teach import FLOAT, Graph, IPUModel
from ipu_teach.errors import LessonError, UnknownExerciseError


def right(work: list[int], bytes_in: list[int], bytes_out: list[int], sync: int) -> int:
    return sync + -(-max([*bytes_in, *bytes_out]) // 4) + max(work)


def blank(work: Any, bytes_in: Any, bytes_out: Any, sync: Any) -> Any:
    """With a docstring, as it comes."""
    ...


class Tags(HTMLParser):
    """The text of an HTML piece, and whether every tag in it is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.attributes: list[dict[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.attributes.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


# --- check ----------------------------------------------------------------------------------------


def test_a_verdict_as_text() -> None:
    assert repr(check("01.1", right)) == (
        "01.1 The time of a superstep: passed\n  tried:   right on 207 fixed sets of numbers\n"
        "  further: a tile can work longer for free, as long as another tile is slower. For tile 4, "
        "this\n           spare time is max(work) - work[4] cycles."
    )
    assert repr(check("01.1", blank)) == (
        '01.1 The time of a superstep: not attempted\n  next: fill the gap; hint("01.1") helps.'
    )
    assert repr(
        check("01.1", lambda work, i, o, sync: sync + -(-max(*i, *o) // 4) + sum(work))
    ) == (
        "01.1 The time of a superstep: not yet\n"
        "  tried:    answer([479, 25, 113], [198, 68, 504], [891, 198, 543], 138)\n"
        "  came:     978\n"  # 138 + ceil(891 / 4) + 479 + 25 + 113
        "  expected: 840\n"  # 138 + ceil(891 / 4) + 479
        "  why:      this adds the work of all tiles. They work at the same time, so only the slowest "
        "counts.\n  next:     take max(work), not the sum."
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda load: min([]), "it got no items, so there is nothing to choose from."),
        (lambda load: max(iter(())), "it got no items, so there is nothing to choose from."),
        (lambda load: next(iter(())), "next() found no item."),
        (lambda load: np.zeros(3)[3:].max(), "a part of an array has no elements."),
    ],
)
def test_an_error_of_a_call_that_got_nothing_is_explained(
    answer: Callable[[list[int]], Any], why: str
) -> None:
    verdict = check("01.w2", answer)
    rows = dict(verdict.rows)
    assert verdict.kind is Kind.ERROR and rows["why"] == why and rows["next"].startswith("print ")


def test_an_answers_own_error_is_a_verdict_with_its_line() -> None:
    def broken(work: Any, bytes_in: Any, bytes_out: Any, sync: Any) -> Any:
        return work["sync"]

    text = repr(check("01.1", broken))
    assert (
        "error in the answer" in text
        and "TypeError: list indices must be integers or slices, not str" in text
    )
    assert (
        re.search(r'line: +test_desk\.py, line \d+: return work\["sync"\]', text)
        and "Traceback" not in text
    )


def test_an_error_of_the_kit_keeps_its_advice(names_of: Callable[[str], Names]) -> None:
    def off_the_chip(graph: Any, tensor: Any, grain: Any) -> None:
        graph.set_tile_mapping(tensor, 99)

    text = " ".join(repr(check("02.1", off_the_chip)).split())
    assert "InvalidTileMappingError: There is no tile 99." in text and "next:" in text
    assert "test_desk.py" in text and "graph.set_tile_mapping(tensor, 99)" in text


def test_a_name_that_a_cell_above_makes() -> None:
    names: dict[str, Any] = {}
    exec("def train(engine, data, epochs):\n    connect(engine, data)", names)
    text = " ".join(repr(check("07.3", names["train"])).split())
    assert "next: run the cells above: one of them defines connect." in text


def test_stopping_a_check_stops_it() -> None:
    def stopped(work: Any, bytes_in: Any, bytes_out: Any, sync: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("01.1", stopped)
    assert learned().record("01.1") == {}


def test_a_verdict_as_html_says_the_same() -> None:
    for verdict in (
        check("01.1", right),
        check("01.1", lambda *a: "<b>&"),
        check("01.2", lambda jobs, tiles: [0] * len(jobs)),
    ):
        html = replace(verdict, picture=None)._repr_html_()  # a view leaves out end tags
        parsed = Tags(html)
        assert parsed.open == [] and html.startswith(
            '<div class="ipu-view" role="group" aria-label="'
        )
        words = "".join(parsed.text.split())
        for label, text in verdict.rows:
            assert label in words and "".join(text.split()) in words
        # the page's own colours, light or dark
        assert "<b>&" not in html and not re.search(r"(?<!-)color:(?!inherit)", html)
        hidden = [a for a in parsed.attributes if a.get("aria-hidden") == "true"]
        assert hidden, "signs and bars are for the eye only; their words stand beside them"


def test_a_cost_shows_its_budget_and_the_bar_between() -> None:
    text = repr(check("01.2", lambda jobs, tiles: [0] * len(jobs)))
    budget, yours = (line for line in text.splitlines() if "|" in line)
    assert budget.count("#") < yours.count("#") == 30 and "% over" in yours and "over" not in budget
    assert "modelled cycles" in budget and "modelled cycles" in yours
    assert repr(Panel("x", bars=Bars(0, 8, "bytes"))).endswith(
        f"  yours:  |{'#' * 30}| 8 bytes, over"
    )
    assert "| 9 bytes, 10 % under" in repr(Panel("x", bars=Bars(10, 9, "bytes")))
    edges = [
        re.findall("border-left-color:(#......)", check("01.1", answer)._repr_html_())
        for answer in (right, blank, len)
    ]
    assert len(edges[0]) == len(edges[2]) == 1 and edges[0] != edges[2] and edges[1] == []
    assert f"|{' ' * 30}| 0 bytes" in repr(Panel("x", bars=Bars(0, 0, "bytes")))
    assert (
        "width:50%" in Bars(10, 20, "bytes").html() and "100 % over" in Bars(10, 20, "bytes").html()
    )


def test_attempts_are_counted_and_solved_stays_solved() -> None:
    check("01.1", blank)
    assert learned().record("01.1") == {}
    check("01.1", lambda *a: 0)
    once = learned().record("01.1")
    (why,) = once.pop("said")
    assert why.startswith("the work is missing") and once == {
        "attempts": 1,
        "state": "not yet",
        "kinds": {"not yet": 1},
    }
    check("01.1", right)
    check("01.1", lambda *a: 0)
    check("01.1", lambda *a: 1 / 0)
    kinds = {"passed": 1, "not yet": 2, "error in the answer": 1}
    said = {why: 2, "ZeroDivisionError": 1}
    assert learned().record("01.1") == {
        "built": inspect.getsource(right),
        "attempts": 4,
        "state": "solved",
        "kinds": kinds,
        "said": said,
    }


def test_records_that_were_edited_by_hand_do_no_harm() -> None:
    learned().change(
        "01.1", lambda r: r.update(attempts="many", hints=-3, prediction={}, state=[], kinds=[3])
    )
    learned().change("01.3", lambda r: r.update(prediction=["x", None]))
    check("01.1", right)
    assert "hint 1 of 4" in repr(hint("01.1"))
    assert "no prediction yet" in repr(predict("01.3", ...))
    assert "✓ solved" in repr(progress())
    assert learned().record("01.1")["attempts"] == 1


@pytest.mark.parametrize("value", [..., None, blank, lambda: None, (1, ...)])
def test_what_counts_as_blank(value: object) -> None:
    assert is_blank(value)


def test_what_does_not_count_as_blank() -> None:
    def named(a: Any) -> Any:
        return a

    def loop() -> None:
        for _ in ():
            pass

    for value in (right, named, loop, 0, "", (), [], np.zeros(3), print, lambda: 0):
        assert not is_blank(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "7",
        b"7",
        [7],
        {7},
        {"a": 7},
        7j,
        True,
        np.array([7, 7]),
        [[1], [2, 3]],
        object(),
        float("nan"),
        float("inf"),
        10**400,
    ],
    ids=lambda value: f"{type(value).__name__} {str(value)[:9]}",
)
def test_no_return_value_upsets_a_comparison(value: Any) -> None:
    text = repr(check("01.1", lambda *a: value))
    assert "not yet" in text and "expected: " in text


def test_tolerance_is_scaled_to_the_answer() -> None:
    assert difference(1e-12, 2e-12) and not difference(1e12 + 1, 1e12)
    assert not difference(np.float32(0.1), 0.1) and difference(0.1001, 0.1)
    assert difference([1e-9, 0], [0.0, 0]) and not difference([1, 1e-9], [1.0, 0])
    # whole numbers are exact
    assert difference(617.0005, 617) == "617.0005" and not difference(617.0, 617)
    for right in (Fraction(3, 4), np.array(0.75), np.float32(0.75), np.array([0.75])[0]):
        assert not difference(right, 0.75)
    # what FLOAT rounds to passes, and what HALF does not
    coarser = np.float16(1 / 3), np.float32(1 / 3)
    assert [bool(difference(mine, 1 / 3)) for mine in coarser] == [True, False]
    assert difference([1, 2, 4], [1, 2, 3]) == "element 2: 4, not 3"
    assert difference([[1, 2], [3, 5]], np.array([[1, 2], [3, 4]])) == "element (1, 1): 5, not 4"
    assert difference([13766, 1], [13766.4, 1]) == "element 0: 13,766, not 13766.4"
    assert difference([1, 2], [1, 2, 3]) == "2 numbers, not 3"
    assert "not a list or array of numbers" in difference(
        Graph(IPUModel("ipu2").create_device()).add_variable(FLOAT, 1), [1]
    )
    assert (
        difference(0, 0.0) == ""
        and difference("a", "a") == ""
        and difference("a", "b") == "'b'".replace("b", "a")
    )


def test_a_suspect_must_explain_every_case(tmp_path: Path) -> None:
    cases = {"drawn": (1,), "drawn, 2": (2,), "it is large": (5,)}
    path = tmp_path / "mistakes.py"
    head = "# %% given\n\n# %% 00.1: one more\n# why:  one too many\n# next: take one away\n"
    path.write_text(f"{head}def same(x):\n    return x + 1\n", encoding="utf-8")
    said = [
        (lambda x: x + 1, "one too many"),
        (lambda x: x + 1 + (x > 4), ""),
        (lambda x: x + (x > 4), "the ordinary cases are right. Special in this case: it is large."),
        (lambda x: 9, "the function returned the same number for all arguments that were tried."),
        (
            lambda x: x if x < 5 else None,
            "for these arguments, the function ends without a `return`; for others it returns a value.",
        ),
    ]
    for answer, why in said:
        with pytest.raises(NotYet) as caught:
            compare(answer, lambda x: x, cases, mistakes.read(path))
        assert dict(caught.value.rows)["why"] == why


def test_elements_of_a_check_are_distinct() -> None:
    """A wrong order must not pass."""
    for work, bytes_in, bytes_out, _ in [
        c for name, c in lesson01._supersteps().items() if name.startswith("drawn")
    ]:
        assert (
            len({*work}) == len(work)
            and len({*bytes_in}) == len(bytes_in)
            and len({*bytes_out}) == len(bytes_out)
        )
    for name, (work,) in lesson01._workloads().items():
        assert len({*work}) == len(work) or not name.startswith("drawn")


# --- wrong calls ----------------------------------------------------------------------------------

LESSONS = ", ".join(lesson.number for lesson in catalogue())
REFUSED = [
    (
        lambda: check("1.1", right),
        UnknownExerciseError,
        f"""\
There is no exercise '1.1'.
  next:  did you mean '01.1'? Names are strings, such as '00.1'. The lessons with exercises are {LESSONS}.""",
    ),
    (
        lambda: check(1.1, right),
        UnknownExerciseError,
        f"""\
There is no exercise 1.1.
  next:  did you mean '01.1'? Names are strings, such as '00.1'. The lessons with exercises are {LESSONS}.""",
    ),  # type: ignore[arg-type]
    (lambda: hint("01.9"), UnknownExerciseError, "There is no exercise '01.9'."),
    (lambda: given(None), UnknownExerciseError, "There is no exercise None."),  # type: ignore[arg-type]
    (
        lambda: check("01.0", 5),
        UnknownExerciseError,
        """\
01.0 is a prediction, but check() takes an exercise.
  next:  predict("01.0", …).""",
    ),
    (
        lambda: predict("01.1", 5),
        UnknownExerciseError,
        """\
01.1 is an exercise, but predict() takes a prediction.
  next:  check("01.1", …).""",
    ),
    (lambda: predict("01.7", 5), UnknownExerciseError, "There is no prediction '01.7'."),
    (
        lambda: progress("17"),
        UnknownExerciseError,
        f"""\
There are no exercises for the lesson '17'.
  next:  the lessons with exercises are {LESSONS}.""",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "text"), REFUSED, ids=[text.splitlines()[0] for _, _, text in REFUSED]
)
def test_calls_without_sense_say_what_to_do(
    call: Callable[[], Any], kind: type[LessonError], text: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    said = str(caught.value)
    assert said == text if "\n" in text else said.splitlines()[0] == text


# --- hint -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_hints_come_one_at_a_time_and_are_remembered(exercise: Any) -> None:
    count = len(exercise.hints) + 1
    assert count >= 3
    for number in range(1, count + 2):
        panel = hint(exercise.name)
        text = " ".join(repr(panel).split())
        last = min(number, count)
        assert f"hint {last} of {count}" in text
        assert [" ".join(step.split()) in text for step in exercise.hints] == [
            i < last for i in range(count - 1)
        ]
        assert ("this is the last hint" in text) == bool(panel.code) == (last == count)
    assert learned().record(exercise.name)["hints"] == count


def test_a_hint_first_repeats_what_the_last_check_advised() -> None:
    assert "your last check says" not in repr(hint("01.3"))

    def waiting_share(work: list[int]) -> float:
        return sum(work) / (len(work) * max(work)) if max(work) else 0

    assert not check("01.3", waiting_share)
    line = repr(hint("01.3")).splitlines()[1]
    assert " ".join(line.split()) == "first: your last check says: subtract this share from 1."
    assert not check("01.3", lambda work: 1 / 0)
    assert "your last check says" not in repr(hint("01.3"))  # An error has a line to correct.
    assert not check("01.3", waiting_share)
    assert check("01.3", lambda work: 1 - sum(work) / (len(work) * max(work)) if max(work) else 0)
    assert "your last check says" not in repr(hint("01.3"))


def test_without_the_solved_notebook_the_last_hint_is_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ipu_course.checking import notebooks

    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path)
    panels = [hint("01.1") for _ in range(4)]
    assert repr(panels[-1]).splitlines()[0].endswith("hint 3 of 3") and not panels[-1].code


# --- predict --------------------------------------------------------------------------------------


def test_a_prediction_is_locked_and_compared() -> None:
    assert "put your guess in place of the dots" in repr(predict("01.3", ...))
    assert "predict first" in repr(predict("01.3", actual=(5, 0.54)))
    first = repr(predict("01.3", (4, 0.25)))
    assert first == (
        "01.3 The last tile, and the share of waiting: locked\n"
        "  you guessed: tile 4, waiting share 0.25\n"
        "  next:        now run it and see."
    )
    second = " ".join(repr(predict("01.3", (5, 0.5))).split())
    assert (
        "you guessed: tile 4, waiting share 0.25" in second
        and "your first guess stays locked" in second
    )
    assert "locked already" in repr(predict("01.3", (4, 0.25)))
    assert "you guessed: tile 4" in " ".join(repr(predict("01.3", ...)).split())
    compared = repr(predict("01.3", actual=(5, 0.54)))
    assert compared.splitlines()[1:3] == [
        "  you guessed: tile 4, waiting share 0.25",
        "  it is:       tile 5, waiting share 0.54",
    ]
    assert "why:" in compared and "the tile with the most work" in compared
    assert learned().record("01.3") == {"prediction": [4, 0.25]}


def test_predictions_take_numpys_numbers() -> None:
    predict("01.3", (np.int64(4), np.float32(0.25)))
    assert learned().record("01.3") == {"prediction": [4, 0.25]}
    predict("01.0", np.array(7.5))
    assert learned().record("01.0") == {"prediction": [7.5]}


@pytest.mark.parametrize("said", ["6.25 %", "6.25%", "6.25 per cent", 6.25, 0.0625])
def test_a_share_may_be_said_in_per_cent(said: object) -> None:
    predict("05.5", said)
    assert learned().record("05.5") == {"prediction": [0.0625]}


@pytest.mark.parametrize(
    ("name", "said", "locked"),
    [
        ("10.7", (64,), ["64"]),
        ("10.7", ("64 samples",), ["64"]),
        ("10.0", (0.5, 0.8), [0.5, 0.8]),
        ("10.0", ("50 %, 80 %",), [0.5, 0.8]),
        ("10.0", ("(0.5, 80)",), [0.5, 0.8]),
        ("13.5", ("Yes", "no", " NO", "yes"), ["yes", "no", "no", "yes"]),
        ("02.0", ("1,352 bytes",), [1352]),
        ("07.0", ("97 %",), [97]),
        ("07.0", ("0.97 %",), [0.97]),
        ("07.0", (97.5,), [97.5]),
    ],
)
def test_numbers_and_words_may_be_written_in_several_ways(
    name: str, said: tuple[Any, ...], locked: list[Any]
) -> None:
    guess = repr(predict(name, *said))
    assert learned().record(name) == {"prediction": locked}
    assert repr(predict(name)).splitlines()[1] == guess.splitlines()[1]  # read again from the file


QUESTIONS = [
    (lesson.number, item)
    for lesson in catalogue()
    for item in (*lesson.items, *lesson.later)
    if isinstance(item, Question)
]


@pytest.mark.parametrize(
    ("lesson", "question"), QUESTIONS, ids=lambda part: getattr(part, "name", "")
)
def test_a_question_shows_how_to_answer_and_not_the_answer(lesson: str, question: Question) -> None:
    text = " ".join(repr(predict(question.name, ...)).split())
    example = re.search(r"such as (\(.*?\)|'.*?'|[\d.]+)[;.]", text)
    assert example is not None
    assert question.values(eval(example[1]))
    (path,) = SOLUTIONS.glob(f"{lesson}_*.ipynb")
    outputs = [
        "".join(output.get("data", {}).get("text/plain", ()))
        for cell in read_notebook(path)["cells"]
        for output in cell.get("outputs", ())
    ]
    answers = [" ".join(text.split()) for text in outputs if text.startswith(question.name + " ")]
    said = question.said(question.values(eval(example[1])))
    assert not any(f"it is: {said}" in answer for answer in answers)


@pytest.mark.parametrize("lesson", catalogue(), ids=lambda lesson: lesson.number)
def test_the_verdict_on_a_prediction_is_shown_and_each_has_one(lesson: Lesson) -> None:
    """A notebook shows the value of a cell's last line."""
    (path,) = SOLUTIONS.glob(f"{lesson.number}_*.ipynb")
    sources = [source_of(c) for c in read_notebook(path)["cells"] if c["cell_type"] == "code"]
    shown = re.compile(r'^predict\("([^"]+)", actual=.*\)\s*\Z', re.MULTILINE)
    answered = [match[1] for source in sources if (match := shown.search(source))]
    assert sum("actual=" in source and "predict(" in source for source in sources) == len(answered)
    assert answered == [item.name for item in lesson.items if isinstance(item, Question)]


def test_a_prediction_counts_for_being_made() -> None:
    predict("01.0", 1)
    row = next(line for line in repr(progress("01")).splitlines() if line.startswith("01.0"))
    assert row.split("One slow tile")[1].strip() == "✓ predicted"


# --- given ----------------------------------------------------------------------------------------


def adds_in_place(x: Any) -> Any:
    if isinstance(x, dict):
        x["a"] = 2
    elif isinstance(x, np.ndarray):
        x += 1
    else:
        x[0] += [1] if isinstance(x[0], list) else 1
    return x


@pytest.mark.parametrize(
    ("argument", "advice"),
    [
        (np.arange(3), "x_copy = x.copy()"),
        (np.eye(2), "x_copy = x.copy()"),
        ([np.arange(3)], "x_copy = [a.copy() for a in x]"),
        ([[1, 2], [3]], "x_copy = [list(row) for row in x]"),
        ({"a": 1}, "x_copy = x.copy()"),
        ([1, 2], "x_copy = list(x)"),
    ],
    ids=str,
)
def test_an_argument_that_was_changed_is_to_be_copied_as_its_type_is(
    argument: Any, advice: str
) -> None:
    """The advice, typed in, leaves the argument as it was."""
    with pytest.raises(NotYet) as caught:
        call(adds_in_place, argument)
    assert advice in dict(caught.value.rows)["next"]
    names = {"x": argument}
    before = repr(argument)
    exec(f"{advice}\nchanges(x_copy)", {"changes": adds_in_place}, names)
    assert repr(argument) == before


def test_given_is_the_reference_until_ones_own_passes(capsys: pytest.CaptureFixture[str]) -> None:
    handed = given("01.1")
    assert handed([3, 9], [8, 0], [0, 5], 10) == 21
    assert capsys.readouterr().out == (
        "01.1: the reference answer, so that the lesson can continue. When your answer passes, it is "
        "used instead.\n"
    )
    assert learned().record("01.1") == {"state": "given"}
    verdict = check("01.1", handed)
    assert not verdict and verdict.kind is Kind.SHOWN
    assert repr(verdict).splitlines()[0] == "01.1 The time of a superstep: shown, not solved"
    assert learned().record("01.1") == {"state": "given"}  # which is not solved
    check("01.1", right)
    assert given("01.1") is right
    assert capsys.readouterr().out == "01.1: your own answer, which passed.\n"
    assert learned().record("01.1")["state"] == "solved"


def test_an_answer_of_ones_own_counts_beside_what_the_lesson_gave(
    names_of: Callable[[str], Names],
) -> None:
    graph = names_of("01")["graph"]
    handed = eval("given('01.5')", {**names_of("01"), "given": given})
    assert handed == ("thirds", 3, 4)
    assert check("01.5", handed, graph).kind is Kind.SHOWN
    assert check("01.5", ("thirds", 4, int("3")), graph).kind is Kind.PASSED
    assert learned().record("01.5")["state"] == "solved"


@pytest.mark.parametrize("lesson", catalogue(), ids=lambda lesson: lesson.number)
def test_what_is_given_is_shown_and_not_solved(
    lesson: Lesson, names_of: Callable[[str], Names]
) -> None:
    """In every lesson, for the first exercise and the last whose check takes the answer alone."""
    names = names_of(lesson.number) | {"given": given}
    alone = [e.name for e in lesson.exercises if len(reference(e.name).answers) == 1]
    for exercise in (alone[0], alone[-1]):
        verdict = check(exercise, eval(f"given({exercise!r})", names))
        assert not verdict and "shown, not solved" in repr(verdict)
        assert learned().record(exercise) == {"state": "given"}


def test_given_says_which_names_are_missing() -> None:
    with pytest.raises(LessonError) as caught:
        given("01.4")
    assert str(caught.value) == (
        "The reference answer to 01.4 needs Double, Execute, Flip, Pair, Sequence, neighbours, "
        "place, which this notebook has not defined yet.\n  where: "
        "01_bulk_synchronous_parallel.ipynb\n  next:  run the cells above this one first."
    )


def test_given_without_the_solved_notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from ipu_course.checking import notebooks

    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path)
    with pytest.raises(UnknownExerciseError, match="is missing, so there is no reference answer"):
        given("01.1")


# --- progress -------------------------------------------------------------------------------------


def test_progress_is_a_table() -> None:
    check("01.1", right)
    check("01.2", lambda jobs, tiles: [0] * len(jobs))
    hint("01.2")
    learner_calls.given("01.3")
    text = repr(progress("01"))
    lines = {line[:5].strip(): line for line in text.splitlines()}
    assert text.splitlines()[0] == "1 of 7 exercises solved, 1 given; 0 of 2 predictions made"
    assert lines["01.1"].split()[-3:] == ["✓", "solved", "1"]
    assert lines["01.2"].split()[-4:] == ["not", "yet", "1", "1"]
    assert lines["01.3"].split()[-2:] == ["→", "given"]
    assert lines["01.4"].split()[-1] == "–"
    assert progress(1).rows == progress("01").rows and len(progress().rows) > len(progress(1).rows)
    parsed = Tags(progress()._repr_html_())
    assert parsed.open == [] and sum(a.get("scope") == "col" for a in parsed.attributes) == 5


@pytest.mark.parametrize(
    ("prompt", "said"), [("", True), ("sys.ps1 = '>>> '; ", False)], ids=["script", "shell"]
)
def test_a_script_that_is_run_has_the_verdict_printed(
    tmp_path: Path, prompt: str, said: bool
) -> None:
    lines = f'import sys; {prompt}from ipu_course import check\ncheck("01.1", lambda *a: 0)\n'
    (tmp_path / "mine.py").write_text(lines, encoding="utf-8")
    env = dict(os.environ, IPU_TEACH_WORK=str(tmp_path), PYTHONPATH=str(Path(__file__).parents[2]))
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert ("01.1 The time of a superstep: not yet" in done.stdout) is said


@pytest.mark.parametrize(
    ("name", "value", "asks"),
    [
        ("01.0", "long", "give a number from 0 on, such as 1.5."),
        ("01.0", float("nan"), "a number from 0 on"),
        ("01.0", np.inf, "a number from 0 on"),
        ("01.0", 10**400, "a number from 0 on"),
        ("01.0", [1, 2], "give a number from 0 on"),
        ("07.0", 0.97, 'can be read in two ways. next: give "0.97 %" or 97, whichever you mean.'),
        ("07.0", "0.97", 'give "0.97 %" or 97'),
        (
            "10.0",
            0.5,
            "give a pair of shares (with 4 micro-batches; with 16 micro-batches), such as",
        ),
        ("10.6", "ring", "give 3 words (for 520; for 5,200; for 52,000), such as ('everybody',"),
        ("01.0", "20 %", "a number from 0 on"),
        ("02.0", "1.5", "a whole number from 0 on"),
        ("01.0", True, "a number from 0 on"),
        ("01.3", 5, "give a pair (tile; waiting share), such as (6, 0.8); tile: a whole number"),
        ("01.3", (13, 0.5), "from 0 to 12"),
        ("01.3", (5, 400), 'a number from 0 to 1, or per cent, as "20 %"'),
        ("05.5", "6.2.5 %", "from 0 to 1, or per cent"),
        ("05.5", "625 %", "from 0 to 1, or per cent"),
        ("05.5", 101, "from 0 to 1, or per cent"),
        ("01.3 again", 5, "give a pair (tile; waiting share)"),
    ],
    ids=str,
)
def test_what_is_no_prediction_is_a_panel_and_is_not_locked(
    name: str, value: Any, asks: str
) -> None:
    text = " ".join(repr(predict(name, value)).split())
    assert "no prediction yet" in text and f"Prediction {name} was given" in text and asks in text
    assert learned().record(name) == {} and ("asked: " in text) == name.endswith("again")
