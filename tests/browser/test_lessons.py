"""Lessons in JupyterLab as a learner meets them: an exercise solved by typing, the verdicts, and both themes."""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from .conftest import ROOT, Lab, violations

LESSONS = ("01_bulk_synchronous_parallel", "02_variables_mapping_programs", "07_mnist_logistic_regression")
WRONG = "    graph.set_tile_mapping(tensor, 0)"
RIGHT = """    tiles, flat = graph.target.num_tiles, tensor.flatten()
    grains = -(-tensor.num_elements // grain)
    for tile in range(tiles):
        begin = tile * grains // tiles * grain
        end = min((tile + 1) * grains // tiles * grain, tensor.num_elements)
        if begin < end:
            graph.set_tile_mapping(flat[begin:end], tile)"""


def verdict(page: Any) -> str:
    """The text of the last verdict of exercise 02.1."""
    panels = page.locator(".jp-OutputArea .ipu-view").filter(has_text="A linear mapping with grain")
    panels.first.wait_for()
    return str(panels.first.inner_text())


def test_an_exercise_is_solved_by_typing(lab: Lab, page: Any) -> None:
    name = f"{LESSONS[1]}.ipynb"
    shutil.copy(ROOT / "notebooks" / name, lab.folder / name)
    lab.open(page, name)
    gap = page.locator(".jp-CodeCell").filter(has_text="def map_linearly")
    check = page.locator(".jp-CodeCell").filter(has_text='check("02.1"')

    def run(cell: Any) -> None:
        cell.scroll_into_view_if_needed()
        cell.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")

    def answer(lines: str) -> None:
        """Put other lines into the cell of the gap, with the keyboard."""
        gap.scroll_into_view_if_needed()
        gap.locator(".cm-content").click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text("def map_linearly(graph, tensor, grain):\n" + lines)
        page.keyboard.press("Control+Enter")

    def says(text: str) -> None:
        page.wait_for_function("text => document.body.innerText.includes(text)", arg=text, timeout=60_000)

    gap.scroll_into_view_if_needed()
    gap.locator(".cm-content").click()
    lab.run(page, "Run All Above Selected Cell")
    run(gap)
    run(check)
    says("02.1 A linear mapping with grain: not attempted")
    answer(WRONG)
    run(check)
    says("02.1 A linear mapping with grain: not yet")
    assert "next" in verdict(page)
    answer(RIGHT)
    run(check)
    says("02.1 A linear mapping with grain: passed")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("lesson", LESSONS)
def test_a_solved_lesson_has_no_barriers(page: Any, tmp_path: Any, lesson: str, dark: bool) -> None:
    if "IPU_TEACH_AXE" not in os.environ:
        pytest.skip("IPU_TEACH_AXE is unset: it names axe-core's axe.min.js")
    import nbformat
    from nbconvert import HTMLExporter

    notebook = nbformat.read(ROOT / "notebooks" / "solutions" / f"{lesson}.ipynb", as_version=4)
    exported, _ = HTMLExporter(theme="dark" if dark else "light").from_notebook_node(notebook)
    path = tmp_path / "lesson.html"
    path.write_text(exported, encoding="utf-8")
    page.goto(path.as_uri())
    page.locator(".ipu-live").first.wait_for()
    assert page.locator(".ipu-view").count() > 5
    assert violations(page) == []
