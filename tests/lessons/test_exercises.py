"""The verdicts on known answers: a blank is not attempted, right answers pass with no mistake tried on
them, and each known mistake is refused with its own reason.

The suite judges a third of the wrong answers and half of the right ones, and `python3 run.py test --thorough` all of them.

A known mistake always matches itself. So `lessonNN/attempts.py` repeats mistakes with other loops, names
and helpers: they have to get the same reason.
"""

from __future__ import annotations

import ast
import re

import pytest
from answers import EXERCISES, NamesOf, blank_cell, run_cell, verdict_on
from attempts import REFUSED, RIGHT, VARIANTS, WRONG, says_expected
from sampling import one_in

from ipu_course import check, hint, progress
from ipu_course.checking import learner_calls
from ipu_course.checking.exercise import Exercise, Lesson, catalogue
from ipu_course.checking.gaps import gaps_in, read_notebook, reference, source_of
from ipu_course.checking.learner_calls import Kind, Verdict
from ipu_course.checking.mistakes import Mistake
from ipu_course.checking.naming import lesson_of
from ipu_course.checking.notebooks import lessons
from ipu_course.checking.shared import line_for
from ipu_teach import FLOAT, Graph, Input, Output, Tensor, Vector, Vertex, show
from ipu_teach.poplibs import poputil

ENOUGH = 12  # variants of mistakes in each lesson

# What a known mistake is told, why and what next, by its exercise and what it is about: each is judged once.
REASONS: dict[tuple[str, str], tuple[str, str]] = {}


def title(answer: Mistake) -> str:
    return f"{answer.exercise} {answer.about}"


def reason(verdict: Verdict) -> tuple[str, str]:
    rows = dict(verdict.rows)
    return rows.get("why", ""), rows.get("next", "")


@pytest.mark.parametrize("name", [e.name for e in EXERCISES])
def test_a_blank_is_not_attempted(name: str, names_of: NamesOf) -> None:
    verdict = check(name, *run_cell(blank_cell(name), names_of(lesson_of(name)), name))
    assert verdict.kind is Kind.NOT_ATTEMPTED and not verdict
    assert f'hint("{name}")' in repr(verdict)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Mistake]:
    """The known mistakes that a check tries."""
    found: list[Mistake] = []
    monkeypatch.setattr(Mistake, "answer", property(found.append))
    return found


def passes(verdict: Verdict) -> bool:
    return verdict.kind is Kind.PASSED and bool(verdict) and "why" not in dict(verdict.rows)


@pytest.mark.parametrize("name", [e.name for e in EXERCISES])
def test_the_reference_passes(name: str, names_of: NamesOf, tried: list[Mistake]) -> None:
    """Typed in as the last hint has it, and at once: nothing is tried on it. The digest of its line
    is that of something: an empty one would be the same for all that anybody does."""
    (exercise,) = (e for e in EXERCISES if e.name == name)
    for _ in range(len(exercise.hints) + 1):
        panel = hint(name)
    (code,) = [text for _, text in panel.code]
    gap = re.compile(
        rf"^ *# {re.escape(name)} Your turn:.*\n( *# .*\n)*( *(\w+ = )?\.\.\.\n?)+", re.M
    )
    cell, count = gap.subn(lambda _: code + "\n", blank_cell(name) + "\n")
    assert count == 1
    verdict = check(name, *run_cell(cell, names_of(lesson_of(name)), name))
    assert passes(verdict) and not tried, repr(verdict)
    line = learner_calls._shared[name]
    nothing = {line_for(name, None, "", empty, "").digest for empty in ((), [], None, "")}  # type: ignore[union-attr]
    assert line is not None and line.digest not in nothing


@pytest.mark.parametrize("wrong", one_in(3, WRONG, title))
def test_a_known_mistake_is_called_by_its_own_name(wrong: Mistake, names_of: NamesOf) -> None:
    verdict = verdict_on(wrong, names_of)
    REASONS[wrong.exercise, wrong.about] = reason(verdict)
    text = " ".join(repr(verdict).split())
    assert verdict.kind.value == wrong.kind, text
    assert says_expected(wrong, text), text
    assert not verdict and text.startswith(f"{wrong.exercise} ")
    same = [
        other for other in WRONG if other.exercise == wrong.exercise and says_expected(other, text)
    ]
    others = [other.about for other in same if other.says not in wrong.says]
    assert others == [], f"{wrong.about} is answered like {others}: {text}"


@pytest.mark.parametrize("variant", one_in(3, VARIANTS, title))
def test_a_mistake_written_otherwise_gets_the_same_reason(
    variant: Mistake, names_of: NamesOf
) -> None:
    (known,) = (
        wrong
        for wrong in WRONG
        if (wrong.exercise, wrong.about) == (variant.exercise, variant.says)
    )
    assert ast.dump(ast.parse(variant.code)) != ast.dump(ast.parse(known.code))
    key = known.exercise, known.about
    if key not in REASONS:  # this test runs alone
        REASONS[key] = reason(verdict_on(known, names_of))
    assert REASONS[key][0] and reason(verdict_on(variant, names_of)) == REASONS[key]


@pytest.mark.parametrize("lesson", [lesson.number for lesson in catalogue()])
def test_every_lesson_has_enough_of_them(lesson: str) -> None:
    count = sum(lesson_of(variant.exercise) == lesson for variant in VARIANTS)
    assert count >= ENOUGH, (
        f"at least {ENOUGH} `# like:` in tests/lessons/lesson{lesson}/attempts.py"
    )


@pytest.mark.parametrize("attempt", one_in(3, REFUSED, title))
def test_other_wrong_answers_are_refused(attempt: Mistake, names_of: NamesOf) -> None:
    verdict = verdict_on(attempt, names_of)
    text = " ".join(repr(verdict).split())
    assert verdict.kind.value == attempt.kind and not verdict, text
    assert says_expected(attempt, text), text


@pytest.mark.parametrize("right", one_in(2, RIGHT, title))
def test_right_answers_of_other_kinds_pass(
    right: Mistake, names_of: NamesOf, tried: list[Mistake]
) -> None:
    verdict = verdict_on(right, names_of)
    assert passes(verdict) and right.says in " ".join(repr(verdict).split()), repr(verdict)
    assert not tried


@pytest.mark.parametrize("name", [e.name for e in EXERCISES])
def test_every_exercise_has_enough_of_both(name: str) -> None:
    """Six and three, and a warm-up two and one."""
    wrong, right = (2, 1) if ".w" in name else (6, 3)
    there = [sum(known.exercise == name for known in found) for found in (WRONG, RIGHT)]
    assert there[0] >= wrong, "known mistakes: ipu_course/lessonNN/mistakes.py"
    assert there[1] >= right, "right answers of other kinds: tests/lessons/lessonNN/attempts.py"


@pytest.mark.parametrize("lesson", catalogue(), ids=lambda lesson: lesson.number)
def test_the_items_of_a_lesson_stand_in_the_order_of_its_notebook(lesson: Lesson) -> None:
    (path,) = (p for p in lessons(solved=True) if lesson_of(p.stem) == lesson.number)
    text = "\n".join(
        source_of(cell) for cell in read_notebook(path)["cells"] if cell["cell_type"] == "code"
    )
    names = {item.name for item in lesson.items}
    asked = re.findall(r'(?:check|predict)\("([^"]+)"', text)
    # a question may be asked of what an exercise of the same name has made
    items = list(dict.fromkeys(item.name for item in lesson.items))
    assert items == list(dict.fromkeys(name for name in asked if name in names))


def test_there_are_warm_ups_in_every_lesson_that_count_in_progress() -> None:
    warm = [exercise.name for exercise in EXERCISES if ".w" in exercise.name]
    assert len([name for name in warm if name < "05"]) >= 12
    assert repr(progress("04")).count("04.w") == sum(name < "05" and name > "04" for name in warm)
    assert "of 8 exercises solved" in repr(progress("04"))


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_hints_go_on_step_by_step_and_leave_something_to_do(exercise: Exercise) -> None:
    """In words; the last one is code, and replaces the gap (test_the_reference_passes)."""
    least = 2 if ".w" in exercise.name else 3
    assert len(exercise.hints) >= least and len(set(exercise.hints)) == len(exercise.hints)
    (gap,) = gaps_in(reference(exercise.name).cell)
    statements = {"".join(line.split()) for line in gap.answer.splitlines()}
    given_away = {
        s
        for s in statements
        if len(s) > 12 and any(s in "".join(hint.split()) for hint in exercise.hints)
    }
    assert len(given_away) <= len(statements) / 2


class OneWrong(Vertex):
    """Prefix maxima, but for the sixth."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -float("inf")

    def compute(self) -> None:
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]
            self.out[i] = self.best + (i == 5)


def test_a_verdict_that_names_an_element_opens_the_turn_that_wrote_it() -> None:
    rows = dict(check("04.1", OneWrong).rows)
    assert rows["came"].startswith("in run 1, out[5]: ")
    call, end = rows["next"].split(" shows ")
    view = eval(call, {"show": show, "OneWrong": OneWrong})
    assert end == "the iteration that wrote it." and [
        i for i, row in enumerate(view.data) if row["wrote"]
    ] == [5]


def test_what_crosses_is_counted_and_the_first_of_it_named() -> None:
    seen: list[tuple[Graph, Tensor, Tensor]] = []

    def linearly(graph: Graph, a: Tensor, b: Tensor) -> None:
        poputil.map_tensor_linearly(graph, b)
        seen.append((graph, a, b))

    came = dict(check("02.3", linearly).rows)["came"]
    graph, a, b = seen[-1]

    def tiles(tensor: Tensor) -> list[int]:
        found = [-1] * tensor.num_elements
        for tile, pieces in enumerate(graph.get_tile_mapping(tensor)):
            for begin, end in pieces:
                found[begin:end] = [tile] * (end - begin)
        return found

    (rows, columns), here, there = a.shape, tiles(b), tiles(a)
    pairs = [
        (i, j, there[i * columns + j], here[j * rows + i])
        for i in range(rows)
        for j in range(columns)
    ]
    cross = [pair for pair in pairs if pair[2] != pair[3]]
    i, j, from_, to = cross[0]
    assert 0 < len(cross) < len(pairs) != 2 * len(cross)
    assert came == (
        f"{len(cross)} of {len(pairs)} elements are sent, the first of them a[{i}, {j}]: it is on tile "
        f"{from_}, and b[{j}, {i}] is on tile {to}"
    )


def test_parts_that_are_equal_are_not_told_as_different(names_of: NamesOf) -> None:
    """A mean over the tiles makes floats, whose last digits are nobody's fault."""
    (mean,) = (w for w in WRONG if w.exercise == "05.2" and "mean number of pieces" in w.says)
    text = " ".join(repr(verdict_on(mean, names_of)).split())
    assert "the vector 18; multiply" in text and "pieces back 28.57, not 30" in text
