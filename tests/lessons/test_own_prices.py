"""Where cost decides it is what was counted: what an answer says itself of its vertices, by any of
three doors, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu_course import check
from ipu_course.checking.verdicts import Kind
from ipu_course.lesson06.checks import Total
from ipu_teach import FLOAT, Graph, Input, Output, Vector, Vertex
from ipu_teach.graph.vertex_table import VertexRange

# of answers that build on a graph
COSTING = ("01.4", "02.2", "03.3", "04.2", "05.3", "05.4", "06.3")
WITH_CODELETS = ("01.4", "04.2", "05.3")  # of the learner's own


def by_vertex(graph: Graph, table: Any, patch: pytest.MonkeyPatch) -> None:
    graph.set_perf_estimate(VertexRange(table, 0, len(table)), 1)


def by_codelet(graph: Graph, table: Any, patch: pytest.MonkeyPatch) -> None:
    graph.register_perf_estimator(table.codelet, lambda shapes, target: 1)


def by_class(graph: Graph, table: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table.codelet, "cycles", lambda self, target: 1, raising=False)


DOORS = {
    by_vertex: "set_perf_estimate",
    by_codelet: "register_perf_estimator",
    by_class: "cycles(self, target) of its own",
}
CASES = [
    (name, door) for door in DOORS for name in (WITH_CODELETS if door is by_class else COSTING)
]


@pytest.mark.parametrize(("name", "door"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_an_answer_does_not_say_itself_what_it_costs(
    name: str,
    door: Callable[..., None],
    solution: Callable[[str], tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest, *more = solution(name)

    def faked(graph: Graph, *given: Any) -> Any:
        made = honest(graph, *given)
        for table in [
            table for compute_set in graph.compute_sets for table in compute_set.tables.values()
        ]:
            door(graph, table, monkeypatch)
        return made

    verdict = check(name, faked, *more)
    rows = dict(verdict.rows)
    assert verdict.kind is Kind.NOT_YET, repr(verdict)
    assert (
        DOORS[door] in rows["came"]
        and rows["next"] == "leave that out: the model counts the cycles."
    )


def test_who_places_a_tensor_does_not_price_what_reads_it(
    solution: Callable[[str], tuple[Any, ...]],
) -> None:
    (honest,) = solution("06.6")

    def faked(graph: Graph, moments: int, channels: int) -> Any:
        graph.register_perf_estimator(Total, lambda shapes, target: 1)
        return honest(graph, moments, channels)

    assert "graph.register_perf_estimator sets the cycles of Total" in repr(check("06.6", faked))


class Priced(Vertex):
    """Prefix maxima that say what they cost."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = np.maximum.accumulate(self.x)

    def cycles(self, target: Any) -> int:
        return 1


def test_an_estimate_is_not_compared_with_a_codelet_that_says_it() -> None:
    assert "cycles(self, target) of its own" in repr(
        check("04.5", lambda length, new: 1 / 6, Priced)
    )


class Unpriced(Vertex):
    """A codelet whose cycles cannot be counted."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = np.sort(np.fft.fft(self.x).real)


def test_no_error_within_a_check_advises_an_estimate() -> None:
    said = repr(check("04.1", Unpriced))
    assert "MissingPerfEstimateError" in said and "use only operations that can be counted" in said
    assert not any(door in said for door in ("def cycles", "perf_estimat", "strict"))
