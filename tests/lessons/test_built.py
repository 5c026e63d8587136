"""built(): what passed in one lesson is called in another, in another kernel; and what was kept of
it may be old, damaged or hostile."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

from ipu_course import built, check, given, solution
from ipu_course.checking import gaps, learner_calls
from ipu_course.checking.exercise import catalogue
from ipu_course.checking.mistakes import given_to
from ipu_course.checking.notebooks import find_lesson
from ipu_course.checking.shared import LONGEST_KEPT
from ipu_course.checking.state import learned
from ipu_course.checking.verdicts import Kind
from ipu_teach import FLOAT, Graph, IPUModel
from ipu_teach.errors import UnknownExerciseError

IMPORTS = """\
import heapq as piles
from math import ceil
from ipu_teach import FLOAT, Input, Output, Vector, Vertex
from ipu_teach.program import Execute
STEP = 4
"""
HELPERS = """\
def larger(a, b):
    return a if a > b else smaller(b, a)

def smaller(a, b):
    return a if a < b else larger(a, b) if a > b else a

up = ceil
"""
FORMULA = """\
def superstep_cycles(work, bytes_in, bytes_out, sync):
    most = max(larger(a, b) for a, b in zip(bytes_in, bytes_out))
    return sync + max(work) + up(most / STEP)
"""
PILES = """\
def balance(jobs, tiles):
    placed, free = [0] * len(jobs), [(0, t) for t in range(tiles)]
    for job in sorted(range(len(jobs)), key=lambda j: -jobs[j]):
        load, placed[job] = piles.heappop(free)
        piles.heappush(free, (load + jobs[job], placed[job]))
    return placed
"""
CODELET = """\
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out = self.x / 2
"""
ROWS = """\
class Product(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b
"""
MADE_OF_ROWS = """\
def one_per_row(graph, matrix, vector, result):
    work = graph.add_compute_set("rows")
    for row in range(len(matrix)):
        vertex = graph.add_vertex(work, Product, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(work)
"""
CASES = {
    "01.1": (HELPERS, FORMULA),
    "01.2": (PILES,),
    "04.w1": (CODELET,),
    "05.1": (ROWS, MADE_OF_ROWS),
}


def written(*cells: str) -> Any:
    """What the last of these cells of one notebook defines."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate((IMPORTS, *cells)):
        path = f"<cell {number}>"
        linecache.cache[path] = (len(cell), None, cell.splitlines(keepends=True), path)
        exec(compile(cell, path, "exec"), names)
    return list(names.values())[-1]


def another_kernel() -> None:
    """As if the learner had opened the next lesson."""
    learner_calls._passed.clear()


@pytest.mark.parametrize("name", CASES)
def test_what_passed_in_one_lesson_is_called_in_another(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = written(*CASES[name])
    assert check(name, answer)
    assert built(name) is answer
    another_kernel()
    before = learned().records()
    hers = built(name)
    assert hers is not answer and hers.__name__ == answer.__name__
    assert capsys.readouterr().out == f"{name}: your own answer, which passed.\n" * 2
    assert learned().records() == before and before[name]["attempts"] == 1
    assert check(name, hers), "and it can be handed in again"


def test_the_last_that_passed_is_hers() -> None:
    check("01.w1", written("def first(size):\n    return (size + 3) // 4\n"))
    check("01.w1", written("def second(size):\n    return -(-size // 4)\n"))
    check("01.w1", written("def third(size):\n    return size // 4\n"))
    another_kernel()
    assert built("01.w1").__name__ == "second"
    assert "def second" in dict(solution("01.w1").code)["yours"]


def test_without_one_it_is_the_reference_or_what_the_lesson_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device())
    rod = graph.add_variable(FLOAT, (39,), "rod")
    built("00.3")(graph, rod)
    assert [len(pieces) for pieces in graph.get_tile_mapping(rod)] == [3] * 13
    assert built("00.3", np.sort) is np.sort
    assert capsys.readouterr().out == (
        "00.3: the reference answer, until an answer of yours has passed.\n"
        "00.3: sort, until an answer of yours has passed.\n"
    )
    assert not learned().records(), "nothing is given, nothing is done"


def test_the_reference_stays_the_references(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("01.2", given("01.2")).kind is Kind.SHOWN
    another_kernel()
    built("01.2")
    assert capsys.readouterr().out.endswith(
        "reference answer, until an answer of yours has passed.\n"
    )


def test_each_reference_runs_among_what_its_lesson_gives() -> None:
    left = []
    for exercise in (one for lesson in catalogue() for one in lesson.exercises):
        names = given_to(exercise.name)
        if exercise.takes == ("a function",):
            left += [exercise.name] * bool(
                gaps.names_needed(gaps.reference(exercise.name).cell) - names.keys()
            )
    assert left == ["00.4", "05.3"], "which no later lesson calls"


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (7, "is damaged"),
        ({"code": "x"}, "is damaged"),
        ("x = 1\n" * LONGEST_KEPT, "is damaged"),
        ("", "it defines nothing"),
        ("def balance(", "SyntaxError"),
        ("def balance(jobs, tiles):\n    return \x00", "null bytes"),
        ("(" * 3000 + ")" * 3000, ""),
        ("import os\nos.abort()\n", "the text does not have the form that check() stores"),
        ("def balance(jobs, tiles, more=exit()):\n    return []", "SystemExit"),
        ("def balance(jobs, tiles):\n    raise SystemExit", "SystemExit"),
        ("def balance(jobs, tiles):\n    return helper(jobs, tiles)", "helper"),
        ("from no_such import balance", ""),
        ("balance = 7", "was given 7"),
        (PILES.replace("-jobs", "jobs").replace("piles", "heapq"), "heapq"),
        ("import heapq as piles\n" + PILES.replace("-jobs", "jobs"), "cycles"),
    ],
)
def test_what_does_not_pass_again_is_a_sentence(
    kept: object, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    learned().change("01.2", lambda record: record.update(built=kept, state="solved"))
    before = learned().records()
    assert built("01.2")([3, 1, 2], 2) == [0, 1, 1], "the reference's"
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and said.startswith(
        "01.2: the reference answer, because your stored answer"
    )
    assert why in said and said.endswith(
        "Once your answer passes its check again, it is returned.\n"
    )
    assert len(said) < 400 and learned().records() == before


def test_where_the_solved_notebook_is_not_at_hand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gaps, "lessons", lambda solved: [find_lesson("01")])
    with pytest.raises(UnknownExerciseError, match=r"solved notebook of 01\.2 is missing"):
        built("01.2")
    assert built("01.2", min) is min
    assert check("01.2", written(PILES))
    another_kernel()
    assert built("01.2").__name__ == "balance"


@pytest.mark.parametrize(
    "cell",
    [
        "import functools\nbalance = functools.partial(max, 1)",
        "state = object()\ndef balance(jobs, tiles):\n    return state",
        f"def balance(jobs, tiles):\n    '''{'long ' * LONGEST_KEPT}'''",
    ],
)
def test_what_cannot_be_written_down_is_not_kept(cell: str) -> None:
    from ipu_course.checking.shared import alone

    assert alone(written(cell)) is None


def test_forgetting_a_lesson_forgets_what_was_built() -> None:
    check("01.2", written(PILES))
    learned().forget("01")
    another_kernel()
    assert built("01.2", min) is min
