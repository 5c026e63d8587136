"""What comes after an answer has passed: the machine's own bound, one more thought, and a line that
anybody can replay."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from answers import EXERCISES, Names, verdict_on
from attempts import RIGHT

from ipu_course import check, share, verify
from ipu_course.checking import learner_calls
from ipu_course.checking.bound import Bound, least_cycles
from ipu_course.checking.exercise import find_exercise
from ipu_course.checking.judging import judged
from ipu_course.checking.shared import code_of, text_of
from ipu_course.checking.state import learned
from ipu_course.checking.verdict_panel import Bars
from ipu_course.checking.verdicts import Kind, Passed
from ipu_course.lesson03.checks import fused_cycles
from ipu_course.lesson05 import checks as lesson05
from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex
from ipu_teach.errors import LessonError, UnknownExerciseError
from ipu_teach.poplibs import poplin
from ipu_teach.program import Sequence
from ipu_teach.report import Report
from ipu_teach.target import make_target

LARGE = [exercise for exercise in EXERCISES if ".w" not in exercise.name]


def right(work: list[int], bytes_in: list[int], bytes_out: list[int], sync: int) -> int:
    return sync + -(-max([*bytes_in, *bytes_out]) // 4) + max(work)


def longest_first(jobs: Any, tiles: int) -> Any:
    load, placed = [0] * tiles, [0] * len(jobs)
    for job in np.argsort(-np.array(jobs), kind="stable"):
        placed[job] = int(np.argmin(load))
        load[placed[job]] += jobs[job]
    return placed


def in_order(jobs: Any, tiles: int) -> Any:
    """Another right answer, with another placing."""
    load, placed = [0] * tiles, [0] * len(jobs)
    for job in sorted(range(len(jobs)), key=lambda j: -jobs[j]):
        placed[job] = tiles - 1 - load[::-1].index(min(load))
        load[placed[job]] += jobs[job]
    return placed


# --- the machine's bound --------------------------------------------------------------------------


def product(size: int) -> Report:
    """The report of a FLOAT product of two square matrices on 13 tiles."""
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph, program = Graph(device), Sequence()
    a, b = (graph.add_variable(FLOAT, (size, size), name) for name in "ab")
    for tensor in (a, b):
        graph.set_initial_value(tensor, 1)
        for row in range(size):
            graph.set_tile_mapping(tensor[row], row % 13)
    poplin.mat_mul(graph, a, b, program)
    engine = Engine(graph, program)
    engine.load(device)
    engine.run()
    return engine.report


def test_a_bound_by_hand() -> None:
    """39 x 39 x 39: at least 2 * 39**3 operations, 2 * 4 * 16 of HALF a cycle and tile; three
    matrices to touch."""
    report, size = product(39), 39
    bound = least_cycles(
        report, supersteps=1, crossing=4 * size * size, touched=3 * 4 * size * size
    )
    counted = sum(profile.flops * profile.executions for profile in report.compute_sets)
    assert counted >= 2 * size**3
    arithmetic, memory = -(-counted // (13 * 2 * 64)), -(-3 * 4 * size * size // (13 * 24))
    assert (
        bound.least
        == 100 + -(-4 * size * size // (13 * 4)) + max(arithmetic, memory)
        < report.total_cycles
    )
    assert (
        bound.unit == "modelled cycles"
        and "1 sync (100), 6,084 bytes to exchange (117)" in bound.why
    )
    idle = least_cycles(report, supersteps=2, touched=13 * 24 * 1000)
    assert idle.least == 200 + 1000 and idle.why == "2 syncs (200), 312,000 bytes of memory (1,000)"


def test_how_near_an_answer_comes_is_said() -> None:
    bound = Bound(76, "modelled cycles", "one sync")
    assert bound.said(100) == "" and not bound.is_near(100)
    assert bound.said(79.8) == (
        "any answer needs at least 76 modelled cycles: one sync. Yours needs 5 % more."
    )
    assert bound.said(76) == "this is the lowest possible number of modelled cycles: one sync."
    assert Bound(0, "bytes", "nothing").said(8) == ""
    assert bound.refuses(75.9) and not bound.refuses(76)


def test_what_no_machine_can_do_is_refused() -> None:
    """A product whose vertices claim to take no time."""
    report = product(39)
    bound = least_cycles(report, supersteps=1, touched=3 * 4 * 39 * 39)
    found = judged(lambda _: Passed("a product", figure=50, bound=bound), [right])
    assert found.kind is Kind.NOT_YET
    said = dict(found.rows)
    assert said["came"].startswith("50 modelled cycles, but the machine needs at least ")
    assert said["why"].startswith("no program for this exercise can cost less (1 sync (100), ")
    assert (
        judged(lambda _: Passed("a product", figure=report.total_cycles, bound=bound), [right]).kind
        is Kind.PASSED
    )


def test_passing_shows_the_budget_the_bound_and_one_more_thought() -> None:
    verdict = check("01.2", longest_first)
    text = " ".join(repr(verdict).split())
    budget, yours, least = (line for line in repr(verdict).splitlines() if "|" in line)
    assert (
        "% under" in yours
        and least.strip().startswith("at least:")
        and "713 modelled cycles" in least
    )
    # 9,257 cycles of jobs are 712.1 on each of 13 tiles.
    assert (
        "any answer needs at least 713 modelled cycles: all 9,257 cycles of work" in text
        and "13 tiles. Yours needs 0.7 % more." in text
        and "further: " in text
    )
    html = verdict._repr_html_()
    assert (
        "linear-gradient(90deg,#1a9850" in html and "background:#1a9850;opacity" in html and budget
    )
    refused = check("01.2", lambda jobs, tiles: [0] * len(jobs))._repr_html_()
    assert "#1a9850" not in refused and "further" not in refused


@pytest.mark.parametrize("exercise", LARGE, ids=lambda e: e.name)
def test_there_is_one_more_thought(exercise: Any) -> None:
    assert len(exercise.thought.split()) >= 10 and exercise.thought not in exercise.hints


def test_a_program_is_measured_against_the_machine(
    names_of: Callable[[str], Names], solution: Any
) -> None:
    """Two syncs of 100, 13 numbers to 13 tiles at 4 bytes a cycle, 26 additions."""
    bound = find_exercise("01.4", "check").judge(*solution("01.4")).bound
    assert bound is not None
    assert make_target("ipu2", tiles_per_ipu=13).internal_sync_cycles == 100
    assert bound.why == "2 syncs (200), 52 bytes to exchange (1), 26 floating-point operations (1)"
    assert bound.least == 202
    text = repr(check("01.4", *solution("01.4")))
    assert "machine:" not in text  # 372 cycles are too far above 202 for a comparison


def test_the_budgets_of_lesson_05_are_made_of_what_things_cost(
    names_of: Callable[[str], Names], solution: Any
) -> None:
    """The prices in its formula are the engine's, the formula is near the best program, and the
    fastest plan is over budget."""
    names = names_of("05")
    lengths = [*range(1, 9), 85, 86, 1024]
    assert [lesson05.compiled_dot(n) for n in lengths] == [names["dot"](n) for n in lengths]
    assert [lesson05.compiled_sum(n) for n in lengths] == [names["add"](n) for n in lengths]
    assert [lesson05.graphcores_guess(n) for n in lengths] == [names["guess"](n) for n in lengths]
    split, frugal = (
        find_exercise(name, "check").judge(*solution(name)).bars for name in ("05.3", "05.4")
    )
    assert (
        abs(split.yours / lesson05.split_cycles(12) - 1) < 0.02
        and split.budget == lesson05.split_budget()
    )
    fastest = names["multiply"](names["within"](0.6))
    assert (
        lesson05.frugal_budget() == (round(0.55 * fastest[0]), round(1.2 * fastest[1]))
        and frugal.yours > fastest[1]
    )
    # the tutorial's own figure
    assert lesson05.plan_cycles(10_000, 1_000, 7, 1_472, names["guess"], names["guess"]) == 3_996


def test_the_budget_of_a_fused_map_is_made_of_the_reference_s_cycles(solution: Any) -> None:
    """1,300 arrows on 13 tiles: the formula gives what the engine's run of the reference answer
    takes."""
    (yours,) = (
        line for line in repr(check("03.3", *solution("03.3"))).splitlines() if "yours" in line
    )
    assert (
        fused_cycles(100) == 100 + 20 + 6 * (17 + 15 * 9) == 1032
        and "1,032 modelled cycles" in yours
    )


# --- share and verify -----------------------------------------------------------------------------


def line_of(name: str) -> str:
    return str(learner_calls._shared[name])


def test_a_line_is_replayed() -> None:
    assert "nothing to share yet" in repr(share("01.2"))
    check("01.2", longest_first)
    text = repr(share("01.2"))
    line = line_of("01.2")
    assert line in text and line.startswith("01.2 718 modelled cycles, digest ")
    assert repr(verify(line, longest_first)) == (
        "01.2 Rebalance the jobs: verified\n  same: 718 modelled cycles, what it does, and the code"
    )
    assert learned().record("01.2")["attempts"] == 1  # verifying is not an attempt
    other = " ".join(repr(verify(line, in_order)).split())
    assert (
        "passes, but is not the answer that was shared" in other
        and "what it does: " in other
        and "the code: " in other
    )
    assert "cost:" not in other
    wrong = repr(verify(line, lambda jobs, tiles: [0] * len(jobs)))
    assert "not verified" in wrong and "this answer does not pass: not yet" in wrong


def test_comments_and_spaces_are_not_code() -> None:
    def answer(work, bytes_in, bytes_out, sync):  # type: ignore[no-untyped-def]
        return sync + -(-max([*bytes_in, *bytes_out]) // 4) + max(work)

    check("01.1", answer)
    line = line_of("01.1")

    def answer(work, bytes_in, bytes_out, sync):  # type: ignore[no-untyped-def, no-redef]
        # the slowest of all

        return sync + -(-max([*bytes_in, *bytes_out]) // 4) + max(work)

    assert "verified" in repr(verify(line, answer)).splitlines()[0]

    def answer(work, bytes_in, bytes_out, sync):  # type: ignore[no-untyped-def, no-redef]
        return max(work) + sync + -(-max([*bytes_in, *bytes_out]) // 4)

    assert "the code: " in repr(verify(line, answer)) and "what it does" not in repr(
        verify(line, answer)
    )


def test_a_changed_cost_is_seen() -> None:
    check("01.2", longest_first)
    text = repr(verify(line_of("01.2").replace("718", "700"), longest_first))
    assert "cost: the line has 700 modelled cycles, but this answer has 718 modelled cycles" in text


def test_code_that_cannot_be_read_is_not_shared() -> None:
    names: dict[str, Any] = {}
    exec("def made(work, i, o, sync):\n    return sync + -(-max([*i, *o]) // 4) + max(work)", names)
    assert check("01.1", names["made"])
    assert "cannot be read" in repr(share("01.1"))
    check("01.1", right)
    assert "it cannot be read" in repr(verify(line_of("01.1"), names["made"]))


def test_the_reference_is_not_ones_own_to_share(solution: Any) -> None:
    handed = learner_calls.given("01.1")
    check("01.1", handed)
    assert "nothing to share yet" in repr(share("01.1"))


@pytest.mark.parametrize(
    "line",
    ["", 7, None, "01.2 718 cycles", "01.2 718 modelled cycles, digest abc, code 8e4d0f2b61aa"],
)
def test_what_is_no_line_is_said(line: Any) -> None:
    with pytest.raises(LessonError) as caught:
        verify(line, right)
    assert "is not a line that share() returned.\n  next:  give the whole line as text" in str(
        caught.value
    )


def test_a_line_of_an_unknown_exercise() -> None:
    with pytest.raises(UnknownExerciseError):
        verify("09.9 digest 1f0c2a77d3b9, code 8e4d0f2b61aa", right)
    with pytest.raises(UnknownExerciseError):
        share("01.0")


def test_an_answer_in_another_style_leaves_the_same_digest() -> None:
    """What the check saw are numbers: of numpy's kinds or Python's, they are the same."""
    check("01.1", right)
    first = learner_calls._shared["01.1"]
    check("01.1", lambda w, i, o, s: np.int64(right(w, i, o, s)))
    second = learner_calls._shared["01.1"]
    assert (
        first is not None
        and second is not None
        and first.digest == second.digest
        and first.code != second.code
    )


def test_bars_show_the_least() -> None:
    assert [label for label, _ in Bars(10, 9, "bytes", 5).text()] == ["budget", "yours", "at least"]
    assert "width:50%" in Bars(10, 9, "bytes", 5).html()


# --- evidence -------------------------------------------------------------------------------------


def test_right_answers_that_do_other_things_have_other_digests(names_of: Any) -> None:
    """Two right answers to each of these, which lay things out, or compute them, otherwise."""
    digests: dict[str, set[str]] = {}
    for right in RIGHT:
        if right.exercise in ("00.3", "04.1", "04.2", "04.3", "04.5"):
            assert verdict_on(right, names_of)
            line = learner_calls._shared[right.exercise]
            digests.setdefault(right.exercise, set()).add(line.digest if line else "")
    assert all(len(found) >= 2 for found in digests.values()) and len(digests) == 5


class Widest(Vertex):
    """A class is read too, of a cell as of a file."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self) -> None:
        for i in range(len(self.x)):
            self.best = max(self.best, self.x[i])  # the larger
            self.out[i] = self.best


def test_a_codelet_of_a_cell_is_shared() -> None:
    assert check("04.1", Widest) and "class Widest(Vertex):" in code_of(Widest)  # type: ignore[operator]
    cell = f"# of a notebook\n{text_of(Widest)}\n\nclass Other(Vertex):\n    pass\n"
    linecache.cache["<cell 7>"] = (len(cell), None, cell.splitlines(keepends=True), "<cell 7>")
    names = {"__name__": "__main__", **{n: globals()[n] for n in ("Vertex", "Input", "Output")}}
    names |= {"Vector": Vector, "FLOAT": FLOAT, "np": np}
    exec(compile(cell, "<cell 7>", "exec"), names)
    assert text_of(names["Widest"]) == text_of(Widest) and "# the larger" in text_of(Widest)
    assert code_of(names["Widest"]) == code_of(Widest) and code_of(names["Other"]) is None
