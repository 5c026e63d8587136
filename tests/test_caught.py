"""Planted mistakes: each is caught with the words that docs/caught.md shows, or goes through for
the reason it gives."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mistakes import MISTAKES, NEVER, Mistake

DOCS = Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS))

import make_caught  # noqa: E402

ROWS = [
    line
    for line in make_caught.PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ")
][1:]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.plant.__name__)
def test_a_mistake_gets_the_words_of_the_page(mistake: Mistake) -> None:
    assert make_caught.row(mistake) in ROWS


def test_the_page_has_a_row_for_each_mistake_and_counts_them() -> None:
    assert len(ROWS) == len(MISTAKES) == len({mistake.title for mistake in MISTAKES})
    assert f"{len(MISTAKES)} mistakes: " in make_caught.PAGE.read_text(encoding="utf-8")
    assert all(
        mistake.why.endswith((".", "next row.")) for mistake in MISTAKES if mistake.when == NEVER
    )
