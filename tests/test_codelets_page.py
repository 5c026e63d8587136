"""docs/codelets.md: every example runs as the page says, with the bits and cycles of the plain
vertex loop."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from codelets import executed
from graphs import same_bits
from scalar_vertices import VertexRows

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))
import make_codelets  # noqa: E402

PAGE = make_codelets.PAGE.read_text(encoding="utf-8")
EXAMPLES = [
    (way, code)
    for way, part in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    for code in re.findall(r"```python\n(.*?)```", part, re.DOTALL)
]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs_as_the_page_says(number: int) -> None:
    way, code = EXAMPLES[number]
    scope = executed(code, f"codelets_page_{number}.py", {"np": np, "__name__": "page"})
    codelet = scope[re.findall(r"class (\w+)", code)[0]]
    rng = np.random.default_rng(number)
    values = {}
    for name, field in codelet.fields.items():
        drawn = rng.standard_normal((20, *(8,) * field.depth)) * 3
        values[name] = drawn.astype(field.dtype.numpy)
    built = VertexRows(codelet, values)
    (fast, found), (slow, expected) = (
        built.run(strict=False),
        built.run(strict=False, vertex_loop=True),
    )
    shown = fast.report.ways()[codelet.__name__].partition(": ")[0]
    assert {"CPython alone": "scalar"}.get(shown, shown) == way, fast.report.unbatched()
    assert all(same_bits(found[name], array) for name, array in expected.items())
    assert fast.report.total_cycles == slow.report.total_cycles
    assert fast.report.unknown_codelets == (() if way != "loop" else (codelet.__name__,))


def test_every_way_has_examples() -> None:
    assert {way for way, _ in EXAMPLES} == {"batch", "scalar", "loop"} and len(EXAMPLES) >= 15


def test_one_vertex_is_seen_as_the_page_says() -> None:
    scope = executed(
        next(code for _, code in EXAMPLES if "class FirstLarge" in code), "first_large.py", {}
    )
    call, printed = re.findall(
        r"seen = ([^\n]*)\nprint\(seen\)\n```\n\n```\n(.*?)\n```", PAGE, re.DOTALL
    )[0]
    assert str(eval(call, scope)) == printed


ROWS = [
    [cell.strip(" `") for cell in line.split("|")[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| `")
]


def test_the_table_has_all_codelets_and_equal_cycles_on_each_way() -> None:
    assert [row[0] for row in ROWS] == make_codelets.NAMES and len(ROWS) >= 40
    assert all(len(set(row[2:]) - {"-"}) == 1 for row in ROWS)


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row[0] for row in ROWS])
def test_a_row_of_the_table_is_up_to_date(number: int) -> None:
    """The plain loop, and what is compiled, are compared with this way where loops are tested."""
    name, way = ROWS[number][0], "batch or CPython"
    found = make_codelets.row(name, way)
    assert [found["runs as"], found[way]] == [ROWS[number][1], ROWS[number][3]], (
        "run docs/make_codelets.py"
    )
