"""The kit on two pages: what is on it is what the kit says today, and it is two pages."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ipu_teach import errors, target
from ipu_teach.types import HALF

DOCS = Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS))
import make_cheat_sheet as sheet  # noqa: E402


class Cells(HTMLParser):
    """The text of each row's cells."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_the_sheet_is_the_one_that_is_made_and_says_what_the_kit_says() -> None:
    text = sheet.PAGE.read_text("utf-8")
    assert sheet.page() == text, "run python3 run.py cheatsheet"
    cells = Cells()
    cells.feed(text)
    told = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in cells.rows}
    machines = [target.make_target(name) for name in told[""]]
    assert {*told[""]} == {"ipu2", *target.PRESETS}
    assert told["memory of a tile, bytes"] == [f"{m.memory_bytes_per_tile:,}" for m in machines]
    assert told["FLOATs, HALFs at once"][0] == f"2, {machines[0].get_vector_width(HALF)}"
    assert told["clock, GHz"] == [f"{m.tile_clock_frequency / 1e9:.3g}" for m in machines]
    assert sum(bool(getattr(errors, name, None)) for name in told) == 16
    assert told["Repeat(3, Execute(cs))"] and told["graph.set_tile_mapping(t, 1)"]
    assert not re.search(r"(src|href)=.https?:", text)


@pytest.mark.slow
def test_it_is_two_pages_of_paper(tmp_path: Path) -> None:
    if sheet.find_chromium() is None:
        pytest.skip("Chromium is missing")
    target = tmp_path / "sheet.pdf"
    assert sheet.print_pdf(target) == (True, str(target))
    assert len(re.findall(rb"/Type\s*/Page\b", target.read_bytes())) == 2


def test_without_chromium_it_says_how_to_print(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sheet, "find_chromium", lambda: None)
    printed, message = sheet.print_pdf(tmp_path / "sheet.pdf")
    assert not printed and "Print the page on A4 without margins from any browser" in message
    assert sheet.print_pdf(tmp_path / "nosuch" / "sheet.pdf") == (
        False,
        f"no PDF: there is no folder {tmp_path / 'nosuch'}",
    )
