"""print() in a codelet: every vertex shows its own numbers, in order, and costs what it costs
without it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codelets import executed
from scalar_vertices import VertexRows

from ipu_teach.errors import MissingPerfEstimateError

PAGE = (Path(__file__).parents[1] / "docs" / "codelets.md").read_text(encoding="utf-8")

TWICE = """
def twice(v):
    print("twice", v)
    return v * 2

"""


def made(code: str, name: str) -> Any:
    """The class of that name in `code`, whose text can be looked up."""
    return executed(code, f"printing_{abs(hash(code))}.py", {"__name__": "printing"})[name]


def test_the_example_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    code = re.findall(r"^## To print\n.*?```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)[0]
    given = {
        "x": np.float32([[1, 3, 2, 4], [8, 7, 6, 5], [0, 0, -1, 9]]),
        "largest": np.zeros(3, np.float32),
    }
    cycles = []
    for text, way in (
        (code, "loop"),
        (code.replace('print(f"{best:.1f} at {i}")', "pass"), "scalar"),
    ):
        built = VertexRows(made(text, "Printed"), given)
        for engine, found in (built.run(), built.run(vertex_loop=True)):
            assert found["largest"].tolist() == [4, 8, 9]
            cycles.append(engine.report.total_cycles)
        assert built.run()[0].report.ways() == {"Printed": way}
    assert len(set(cycles)) == 1 and cycles[0] > 0
    assert capsys.readouterr().out == "3.0 at 1\n4.0 at 3\n9.0 at 3\n" * 3


@pytest.mark.parametrize(
    ("body", "printed", "values"),
    [
        ("print(self.x); self.x *= 2", "[1. 2.]\n[3. 4.]\n", [[2, 4], [6, 8]]),
        (
            "print(f'{self.x.sum():.1f}', len(self.x), sep='/'); self.x *= 2",
            "3.0/2\n7.0/2\n",
            [[2, 4], [6, 8]],
        ),
        ("self.x[:] = twice(self.x)", "twice [1. 2.]\ntwice [3. 4.]\n", [[2, 4], [6, 8]]),
        (
            "for i in range(2): self.x[i] = twice(self.x[i])",
            "".join(f"twice {v}.0\n" for v in (1, 2, 3, 4)),
            [[2, 4], [6, 8]],
        ),
    ],
)
def test_what_prints_costs_as_if_it_did_not(
    body: str, printed: str, values: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        f"{TWICE}class V(Vertex):\n    x: InOut[Vector[FLOAT]]\n    def compute(self):\n        "
        f"{body}\n"
    )
    found = {}
    for text in (code, re.sub(r"print\(.*?\)(?=;|\n)", "pass", code)):
        engine, got = VertexRows(made(text, "V"), {"x": np.float32([[1, 2], [3, 4]])}).run()
        assert got["x"].tolist() == values
        found[text] = engine
    loud, quiet = found.values()
    assert capsys.readouterr().out == printed
    assert loud.report.total_cycles == quiet.report.total_cycles > 0
    assert (
        loud.report.ways() == {"V": "loop"}
        and "print() shows each vertex's own numbers" in loud.report.unbatched()["V"]
    )
    assert quiet.report.ways()["V"] != "loop"


@pytest.mark.parametrize("shown", ["twice(self.x[0])", "y := self.x[0]", "self.own()"])
def test_what_does_more_than_to_show_has_no_cost(shown: str) -> None:
    code = f"""{TWICE}class V(Vertex):
    x: InOut[Vector[FLOAT]]
    def own(self):
        return 1
    def compute(self):
        if self.x[0] > 0:
            print({shown})
"""
    with pytest.raises(
        MissingPerfEstimateError, match="print\\(\\) of the result of your own function"
    ) as caught:
        VertexRows(made(code, "V"), {"x": np.float32([[1, 2]])}).run()
    assert "write print(…) of a variable instead" in str(caught.value) and "V.compute" in str(
        caught.value
    )


def test_a_print_of_the_learners_own_is_a_function_like_any_other() -> None:
    code = """
def print(v):
    return v + 1

class V(Vertex):
    x: InOut[Vector[FLOAT]]
    def compute(self):
        self.x = print(self.x)
"""
    engine, got = VertexRows(made(code, "V"), {"x": np.float32([[1, 2]])}).run()
    assert got["x"].tolist() == [[2, 3]] and engine.report.ways() == {"V": "batch"}
