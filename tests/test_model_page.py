"""docs/model.md: its tables are those that the package makes, and the figures in its text are
true."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ipu_teach.target import PRICES
from validation import matrix_vector, printed, single_vertices
from validation.row import REPRODUCED, Row
from validation.tut6 import DotProduct, LoopDotProduct, dot_cycles

DOCS = Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS))
import make_model  # noqa: E402

TEXT = make_model.PAGE.read_text(encoding="utf-8")


def between(name: str) -> str:
    return TEXT.split(f"<!-- {name} -->\n")[1].split("\n<!-- end -->")[0]


# the table of published figures, which takes long to work out: test_golden, which has it anyway
@pytest.mark.parametrize("name", sorted({*make_model.TABLES} - {"golden"}))
def test_a_table_is_up_to_date(name: str) -> None:
    assert between(name) == "\n".join(make_model.TABLES[name]()), "run docs/make_model.py"


def test_the_check_says_when_a_table_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(
        printed,
        "FAMILIES",
        (("Planted", "vertices", lambda: [Row("a|b", "silicon", "here", 2, 2, 0, "why")]),),
    )
    monkeypatch.setattr(make_model, "PAGE", tmp_path / "model.md")
    make_model.PAGE.write_text(
        "Before\n<!-- golden -->\nold\n<!-- end -->\nafter\n", encoding="utf-8"
    )
    assert make_model.main(["--check"]) == 1
    assert "run it" in capsys.readouterr().err
    assert make_model.main([]) == 0
    assert make_model.main(["--check"]) == 0
    made = make_model.PAGE.read_text(encoding="utf-8")
    assert made.startswith(
        "Before\n<!-- golden -->\n1 row: 1 reproduced.\n\n* vertices, within 10%: 1 reproduced, "
        "mean +0.0%"
    )
    assert (
        "| a\\|b | silicon | 2 | 2 | +0.00% | 0.00% | reproduced | why | here |\n<!-- end "
        "-->\nafter\n" in made
    )


def test_the_dot_product_of_the_page() -> None:
    vectorised, looped = (
        [single_vertices.traced_cycles(c, 143, p) for p in PRICES]
        for c in (DotProduct, LoopDotProduct)
    )
    assert f"| the tutorial's guess, 5 + n/2 | | {dot_cycles(143)} |" in TEXT
    assert f"| `self.out = self.a @ self.b` | {vectorised[0]} | {vectorised[1]} |" in TEXT
    assert f"| a loop, `total += self.a[i] * self.b[i]` | {looped[0]} | {looped[1]} |" in TEXT
    (row, *_) = matrix_vector.on_the_chip()
    assert row.verdict == REPRODUCED and row.modelled is not None and row.error is not None
    assert (
        f"comes to {row.modelled:,.1f} tile cycles, {-row.error:.1%} from the chip"
        in TEXT.replace(" %", "%").replace("\n", " ")
    )
    assert f"{row.published:,.1f} tile cycles for the whole program" in TEXT
