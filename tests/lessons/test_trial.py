"""One trial for all programs: what it reads, and what it refuses whatever the exercise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu_course.checking import trial as trial_module
from ipu_course.checking.calling import Broken
from ipu_course.checking.quoting import difference
from ipu_course.checking.trial import (
    COMPUTED,
    StreamIn,
    StreamOut,
    Trial,
    Var,
    appends,
    codelet,
    linearly,
    refuse_fixed_tiles,
    refuse_growing,
)
from ipu_course.checking.verdicts import NotAttempted, NotYet
from ipu_teach import FLOAT, INT, Graph, Input, IPUModel, Output, Tensor, Vector, Vertex
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence

ROWS = [np.arange(6.0), np.arange(6.0)[::-1]]


class Double(Vertex):
    """Twice what it reads."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = 2 * self.x


def doubling(**more: Any) -> Trial:
    """Two runs of a program that doubles x into out."""
    x = Var(FLOAT, 6, linearly, ROWS, kept=True)
    return Trial(
        "doubling",
        {"x": x, "out": Var(FLOAT, 6, linearly, right=[2 * row for row in ROWS])},
        runs=2,
        **more,
    )


def doubled(graph: Graph, x: Tensor, out: Tensor) -> Program:
    program = Sequence()
    program.add(Copy(popops.mul(graph, x, 2.0, program), out))
    return program


def on_tile(*tiles: int) -> Callable[..., Program]:
    """A vertex for each number, on these tiles in turn."""

    def build(graph: Graph, x: Tensor, out: Tensor) -> Program:
        work = graph.add_compute_set("double")
        for i in range(6):
            vertex = graph.add_vertex(work, Double, x=x[i : i + 1], out=out[i : i + 1])
            graph.set_tile_mapping(vertex, tiles[i % len(tiles)])
        return Execute(work)

    return build


def said(refused: pytest.ExceptionInfo[NotYet]) -> dict[str, str]:
    return dict(refused.value.rows)


def test_what_came_by_run_and_that_it_is_right() -> None:
    ran = doubling().of(doubled)
    assert [run["out"].tolist() for run in ran.came] == [(2 * row).tolist() for row in ROWS]
    assert ran.wrong("out") is None and ran.wrong("x") is None and not ran.unwritten("out")
    ran.refuse_changed("leave it.")
    assert ran.cycles == ran.report.total_cycles


def test_the_first_element_that_is_wrong() -> None:
    ran = doubling().of(lambda graph, x, out: Copy(x, out))
    found = ran.wrong("out")
    assert found is not None and (found.run, found.came, found.words) == (
        0,
        "out[1]: 1",
        "out[1]: 1, not 2",
    )
    assert found.expected == 2 and found.right.tolist() == (2 * ROWS[0]).tolist()


def test_nothing_written() -> None:
    ran = Trial("nothing", {"out": Var(FLOAT, 6, 0, right=[np.zeros(6)])}).of(
        lambda graph, out: Sequence()
    )
    found = ran.wrong("out")
    assert (
        ran.unwritten("out") and found is not None and found.came == "out[0]: nothing was written"
    )


def test_what_is_given_is_kept() -> None:
    def in_place(graph: Graph, x: Tensor, out: Tensor) -> Program:
        program = Sequence()
        popops.mul_in_place(graph, x, 2.0, program)
        program.add(Copy(x, out))
        return program

    with pytest.raises(NotYet) as refused:
        doubling().of(in_place).refuse_changed("leave it.")
    assert (
        said(refused)["came"] == "x is changed by the program"
        and said(refused)["next"] == "leave it."
    )


def test_what_is_no_program_and_what_raises() -> None:
    with pytest.raises(NotAttempted):
        doubling().of(lambda graph, x, out: ...)
    with pytest.raises(NotYet) as refused:
        doubling().of(lambda graph, x, out: None)
    assert said(refused)["expected"] == "a program"
    with pytest.raises(Broken) as broken:
        doubling().of(lambda graph, x, out: 1 / 0)
    assert isinstance(broken.value.error, ZeroDivisionError)


def test_what_an_answer_returns_has_a_shape() -> None:
    trial = Trial(
        "a sum", {"x": Var(FLOAT, 6, linearly, ROWS[:1])}, form=appends((), asks="the sum")
    )
    assert (
        trial.of(lambda graph, x, program: popops.reduce(graph, x, [0], program)).result
        == ROWS[0].sum()
    )
    with pytest.raises(NotYet) as refused:
        trial.of(lambda graph, x, program: x)
    assert (said(refused)["came"], said(refused)["expected"]) == (
        "a tensor of shape (6,)",
        "shape ()",
    )
    with pytest.raises(NotYet) as refused:
        trial.of(lambda graph, x, program: 15)
    assert said(refused)["expected"] == "the sum"


def test_a_codelet_by_the_names_of_its_fields() -> None:
    assert doubling(form=codelet, tiles=1).of(Double).wrong("out") is None


def test_streams_that_the_answer_is_given_and_makes() -> None:
    def of_hers(graph: Graph) -> Program:
        return through(
            graph,
            graph.add_host_to_device_fifo("in", FLOAT, 3),
            graph.add_device_to_host_fifo("back", FLOAT, 3),
        )

    def through(graph: Graph, into: Any, back: Any) -> Program:
        x = graph.add_variable(FLOAT, (3,), "x")
        graph.set_tile_mapping(x, 0)
        return Repeat(2, Sequence(Copy(into, x), Copy(x, back)))

    for hers, answer in ((False, through), (True, of_hers)):
        ran = Trial(
            "through",
            {},
            {"in": StreamIn(FLOAT, ROWS[0], 3, hers), "back": StreamOut(FLOAT, 3, hers)},
        ).of(answer)
        assert ran.sent["back"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert ran.steps == {"Repeat": 1, "Sequence": 1, "fetch": 1, "send": 1}


def test_ready_is_asked_once_it_is_loaded() -> None:
    seen: list[str] = []

    def ready(ran: Any) -> None:
        seen.extend(stream.handle for stream in ran.engine.list_streams())
        raise NotYet("ready", "no")

    with pytest.raises(NotYet):
        doubling(ready=ready).of(doubled)
    assert seen == []


def test_work_on_other_tiles_than_asked() -> None:
    ran = doubling().of(on_tile(2, 5))
    ran.refuse_other_tiles([2, 5], "", "")
    with pytest.raises(NotYet) as refused:
        ran.refuse_other_tiles([2], "why", "what next")
    assert (said(refused)["came"], said(refused)["expected"]) == (
        "work on tile 5",
        "all work on tile 2",
    )


def test_a_program_that_grows() -> None:
    def rounds(count: int) -> Trial:
        return Trial(f"{count} rounds", {}, {"in": StreamIn(FLOAT, ROWS[0][:count])}, (count,))

    def fetch(graph: Graph, into: Any, count: int) -> Program:
        x = graph.add_variable(FLOAT, (1,), "x")
        graph.set_tile_mapping(x, 0)
        return Repeat(count, Copy(into, x))

    def written_down(graph: Graph, into: Any, count: int) -> Program:
        one = fetch(graph, into, 1)
        return Sequence(*(one for _ in range(count)))

    refuse_growing({n: rounds(n).build(fetch) for n in (2, 5)}, "rounds", "", "")
    with pytest.raises(NotYet) as refused:
        refuse_growing(
            {n: rounds(n).build(written_down) for n in (2, 5)}, "rounds", "why", "what next"
        )
    assert said(refused)["came"] == "the program has 5 steps for 2 rounds, and 11 for 5"


def test_numbers_of_tiles_of_another_machine() -> None:
    refuse_fixed_tiles(doubling(), on_tile(0, 3), 7, "out")
    with pytest.raises(NotYet) as refused:
        refuse_fixed_tiles(doubling(), on_tile(0, 12), 7, "out")
    assert (
        said(refused)["tried"] == "doubling, on 7 tiles"
        and "There is no tile 12" in said(refused)["came"]
    )
    assert said(refused)["next"] == "use graph.target.num_tiles instead of a constant."


GRAPH = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
OTHERS = {"tensor": GRAPH.add_variable(FLOAT, (6,), "x"), "array": np.arange(99.0), "list": [0.0]}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_field_without_self_is_named_whatever_else_has_its_name(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tensor, an array or a list of the notebook's with the name of a field."""
    monkeypatch.setitem(globals(), "x", OTHERS[kind])

    class Lost(Vertex):
        x: Input[Vector[FLOAT]]
        out: Output[Vector[FLOAT]]

        def compute(self) -> None:
            for i in range(len(self.out)):
                self.out[i] = 2 * x[i]  # type: ignore[name-defined]  # noqa: F821

    tensors = {"x": Var(FLOAT, 6, 0, ROWS), "out": Var(FLOAT, 6, 0, right=[2 * r for r in ROWS])}
    trial = Trial("doubling", tensors, form=codelet, runs=2, tiles=1)
    try:
        why, advice = trial.reason(trial.of(Lost), "04.1")
    except NotYet as refused:
        why, advice = dict(refused.rows)["why"], dict(refused.rows)["next"]
    assert why == "x is a field of Lost, but without self. compute() uses another x."
    assert advice.startswith("write self.x: ")


class Sorted(Vertex):
    """What it reads, sorted: the same as a copy where that is in order."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = np.sort(self.x)


class Copies(Sorted):
    """What it reads, as it is."""

    def compute(self) -> None:
        self.out = self.x


class SortedWhole(Vertex):
    """What it reads, sorted, in whole numbers."""

    x: Input[Vector[INT]]
    out: Output[Vector[INT]]

    def compute(self) -> None:
        self.out = np.sort(self.x)


class CopiesWhole(SortedWhole):
    """What it reads, as it is, in whole numbers."""

    def compute(self) -> None:
        self.out = self.x


@pytest.mark.parametrize(
    ("dtype", "known", "other"), [(FLOAT, Sorted, Copies), (INT, SortedWhole, CopiesWhole)]
)
def test_a_reason_holds_in_a_second_case(
    dtype: Any, known: Any, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On values in order both give the same. Whole numbers may be indices: they stay as they are,
    unless the exercise has another trial."""
    x = np.arange(6).astype(np.float32 if dtype is FLOAT else np.int32)

    def on(words: str, values: Any, beside: Any = tuple) -> Trial:
        tensors = {"x": Var(dtype, 6, 0, [values]), "out": Var(dtype, 6, 0, right=[2 * values])}
        return Trial(words, tensors, form=codelet, tiles=1, beside=beside)

    class Known:
        """A known mistake, as the files have it."""

        answer = known

        @staticmethod
        def reason() -> tuple[str, str]:
            return "it is sorted.", "leave the order."

    monkeypatch.setattr(trial_module, "suspects", lambda *names: [Known])
    alone = on("alone", x)
    assert (alone.another() is None) == (dtype is INT)
    for trial in (alone, on("first", x, lambda: (on("first", x), on("second", x[::-1])))):
        second = trial.another()
        same = second is None
        assert trial.reason(trial.of(known), "x") == ("it is sorted.", "leave the order.")
        assert trial.reason(trial.of(other), "x")[0] == ("it is sorted." if same else "")
    assert doubling().another() is None  # it has two rows of values already


def test_a_nan_that_was_computed_was_written() -> None:
    def divided(graph: Graph, x: Tensor, out: Tensor) -> Program:
        program = Sequence()
        # The first element is 0 / 0, and the second half of `out` stays unwritten.
        program.add(Copy(popops.div(graph, x, x, program)[:3], out[:3]))
        return program

    tensors = {
        "x": Var(FLOAT, 6, 0, given=[np.arange(6)]),
        "out": Var(FLOAT, 6, 0, right=[np.ones(6)]),
    }
    ran = Trial("a quotient", tensors).of(divided)
    found = ran.wrong("out")
    assert found is not None and found.came == "out[0]: nan" and not ran.unwritten("out")
    assert ran.unwritten_at("out").tolist() == [False] * 3 + [True] * 3
    words = difference(ran.came[0]["out"], np.ones(6))
    assert ran.unwritten_in(words, "out") == ("element 0: nan, not 1", COMPUTED)
    half = np.s_[3:]
    words = difference(ran.came[0]["out"][half], np.ones(3))
    assert ran.unwritten_in(words, "out", part=half) == (
        "element 0: nothing was written, not 1",
        "",
    )
    assert ran.unwritten_in("", "out") == ("", "")
