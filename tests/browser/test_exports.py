"""Pages that leave the kit: a lesson's page, a saved view, a report, and the cheat sheet in print.

They have both themes, a heading and no dead link, and axe-core finds nothing on them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from small_reports import chain_report

from ipu_course.checking.headless import page_of
from ipu_course.checking.notebooks import find_lesson
from ipu_teach import show

from .conftest import ROOT

SHEET = ROOT / "docs" / "cheat_sheet.html"
# The tables of which a column of the sheet has one row only, and the lines of each call that breaks.
SPLIT = """[...document.querySelectorAll("table")].map((table) => {
  const columns = {};
  for (const row of table.rows) {
    const { left } = row.getClientRects()[0];
    columns[left] = (columns[left] || 0) + 1;
  }
  return table.rows.length > 1 && Object.values(columns).includes(1) ? table.className : "";
}).filter(Boolean)"""
LINES = """[...document.querySelectorAll("td:first-child code, pre")].map((code) => {
  const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), lines = [""];
  let before = null;
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    for (let i = 0; i < node.length; i++) {
      const range = document.createRange();
      range.setStart(node, i);
      range.setEnd(node, i + 1);
      const [box] = range.getClientRects();
      if (box?.width && before !== null && box.top > before + 4) lines.push("");
      if (box?.width) before = box.top;
      lines[lines.length - 1] += node.data[i];
    }
  return lines;
})"""


def saved(name: str, folder: Path) -> Path:
    target = folder / "page.html"
    if name == "lesson":
        path = find_lesson("mnist", solved=True)
        target.write_text(page_of(nbformat.read(path, as_version=4), path.stem), encoding="utf-8")
    elif name == "view":
        show.bsp(chain_report()).save(target)
    else:
        return SHEET
    return target


@pytest.mark.parametrize("name", ["lesson", "view", "sheet"])
def test_an_export_has_both_themes_a_heading_and_links_that_work(
    page: Any, tmp_path: Path, name: str
) -> None:
    target = saved(name, tmp_path)
    papers = set()
    for scheme, width in (("light", 1280), ("dark", 480), ("dark", 380)):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.goto(target.as_uri())
        if name != "sheet":
            page.wait_for_selector(".ipu-live")
            papers.add(
                page.evaluate("getComputedStyle(document.querySelector('.ipu-live')).background")
            )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if "IPU_TEACH_AXE" in os.environ:
            page.add_script_tag(path=os.environ["IPU_TEACH_AXE"])
            found = "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
            assert page.evaluate(found) == []
    assert page.locator("h1").count() == 1
    assert len(papers) == (0 if name == "sheet" else 2)  # The picture follows the page.
    links = page.evaluate("[...document.links].map((link) => link.getAttribute('href'))")
    names = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    for link in links:
        assert link.startswith("http") or link.removeprefix("#") in names, link


def test_the_sheet_in_print_has_no_orphaned_row_and_breaks_no_argument(page: Any) -> None:
    page.set_viewport_size({"width": 726, "height": 1055})  # the part of A4 within the margins
    page.emulate_media(media="print")
    page.goto(SHEET.as_uri())
    assert page.evaluate(SPLIT) == []
    broken = page.evaluate(LINES)
    assert sum(len(lines) > 1 for lines in broken) > 10
    for lines in broken:
        for number, line in enumerate(lines[:-1], start=1):
            # A line ends with an argument, with a bracket, within a long name, or as in the source,
            # and never within a list or a dict.
            assert re.search(r"(, |\(|^[\w.(]+[._]|\n)$", line), lines
            above = "".join(lines[:number])
            assert all(above.count(pair[0]) == above.count(pair[1]) for pair in ("[]", "{}")), lines
