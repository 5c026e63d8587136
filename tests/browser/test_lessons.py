"""Lessons in JupyterLab as a learner meets them: an exercise solved by typing, the verdicts, and
both themes."""

from __future__ import annotations

import os
import shutil
from itertools import product
from typing import Any

import pytest
from sampling import one_in

from .conftest import ROOT, Lab, violations

LESSONS = (
    "01_bulk_synchronous_parallel",
    "02_variables_mapping_programs",
    "07_mnist_logistic_regression",
)
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
        page.wait_for_function(
            "text => document.body.innerText.includes(text)", arg=text, timeout=60_000
        )

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


@pytest.mark.parametrize(
    ("lesson", "theme"),
    one_in(5, list(product(LESSONS, ("light", "dark"))), "-".join),
)
def test_a_solved_lesson_has_no_barriers(page: Any, tmp_path: Any, lesson: str, theme: str) -> None:
    if "IPU_TEACH_AXE" not in os.environ:
        pytest.skip("IPU_TEACH_AXE is unset: it names axe-core's axe.min.js")
    import nbformat
    from nbconvert import HTMLExporter

    notebook = nbformat.read(ROOT / "notebooks" / "solutions" / f"{lesson}.ipynb", as_version=4)
    exported, _ = HTMLExporter(theme=theme).from_notebook_node(notebook)
    path = tmp_path / "lesson.html"
    path.write_text(exported, encoding="utf-8")
    page.goto(path.as_uri())
    page.locator(".ipu-live").first.wait_for()
    assert page.locator(".ipu-view").count() > 5
    assert violations(page) == []


REFUSED = """\
from ipu_course import check, progress, puzzle

def waiting_share(work):
    return 0.5

for _ in range(3):
    verdict = check("01.3", waiting_share)
verdict"""
SLOWEST, SHARE = (
    "slowest = max(work)",
    "return 1 - sum(work) / (len(work) * slowest) if slowest else 0",
)


@pytest.mark.thorough
def test_a_puzzle_is_solved_with_the_keyboard_alone(lab: Lab, page: Any) -> None:
    lab.write("puzzle.ipynb", [REFUSED, 'puzzle("01.3")', 'progress("01")'])
    shutil.rmtree(lab.folder / "work", ignore_errors=True)
    lab.open(page, "puzzle.ipynb")
    page.locator(".jp-Cell").nth(0).click()
    lab.run(page)
    lines = page.get_by_role("listbox", name="lines of the answer")
    lines.wait_for()
    assert page.locator(".ipu-view.stored").is_hidden()  # the text form makes room for the list
    assert (
        'puzzle("01.3") has the lines of a right answer'
        in page.locator(".jp-OutputArea").first.inner_text()
    )

    def texts() -> list[str]:
        return [
            str(name)
            for name in page.evaluate(
                "[...document.querySelectorAll('[role=option]')].map(o => o.ariaLabel)"
            )
        ]

    def choose(line: str) -> None:
        page.keyboard.press("Home")
        for _ in range(next(i for i, text in enumerate(texts()) if text.startswith(f"{line},"))):
            page.keyboard.press("ArrowDown")
        assert (
            page.locator('[role=option][aria-selected="true"]')
            .get_attribute("aria-label")
            .startswith(line)
        )

    lines.focus()
    for line in ("slowest = sum(work)", SHARE):  # a line of a wrong answer, and then the return
        choose(line)
        page.keyboard.press("x")
    assert texts()[1] == f"{SHARE}, place 2 of 2"
    page.keyboard.press("Enter")
    page.get_by_text("worked out: not yet in order").wait_for()
    choose("slowest = sum(work)")
    page.keyboard.press("X")  # out again
    choose(SLOWEST)
    page.keyboard.press("x")
    page.keyboard.press("Alt+ArrowUp")  # before the return
    assert texts()[:2] == [f"{SLOWEST}, place 1 of 2", f"{SHARE}, place 2 of 2"]
    assert "slowest = sum(work), left out" in texts()
    page.keyboard.press("Enter")
    page.get_by_text("worked out: solved, with help").wait_for()
    page.locator(".jp-CodeCell").filter(has_text='progress("01")').locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    page.get_by_text("0 of 7 exercises solved, 1 with help").wait_for()
    if "IPU_TEACH_AXE" in os.environ:
        for theme, light in (("Dark", "false"), ("Light", "true")):
            page.evaluate(
                f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab "
                f"{theme}'}})"
            )
            page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")
            assert violations(page) == []
