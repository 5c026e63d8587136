"""The views in JupyterLab and in exported pages: what is on screen, under the mouse and under the
keys."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from ipu_teach import show
from ipu_teach.show.paint import headline_height
from ipu_teach.show.scene import number

from . import programs
from .conftest import Lab, violations
from .player import HOSTILE, SETUP, is_playing, position, status

BSP = "show.bsp(programs.uneven())"
TILES = "matrix = programs.by_rows()\nshow.tiles(matrix, matrix.transpose())"


def mark(page: Any, name: str) -> dict[str, float]:
    """A mark as it is placed on the page."""
    found: dict[str, float] = page.evaluate(
        "name => document.querySelector('.ipu-live').ipuPlayer.marks[name]", name
    )
    return found


@pytest.mark.thorough
def test_a_run_in_jupyterlab(lab: Lab, page: Any) -> None:
    lab.write("bsp.ipynb", [SETUP, BSP, "1 + 1"])
    lab.open(page, "bsp.ipynb")
    lab.run(page)
    box = page.locator(".ipu-live")
    box.wait_for()
    assert page.locator(".ipu-view > img").is_hidden()
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    scene = show.bsp(programs.uneven()).scene
    frames = len(scene.frames)

    # The keys, and nothing but the keys: JupyterLab's own would insert, cut and run cells.
    box.focus()
    page.keyboard.press("Home")
    assert position(page) == 0
    stops = [0.0, *(f + scene.stills[n].at for f, n in enumerate(scene.frames.tolist()))]
    assert stops[3] < 3  # a step lands within an exchange
    for step in range(1, 4):
        page.keyboard.press("ArrowRight")
        assert position(page) == pytest.approx(stops[step], abs=1e-4)
        still = scene.stills[int(scene.frames[step - 1])]
        assert f"{still.label}, {number(still.cycles)} modelled cycles" in status(page)
    page.keyboard.press("ArrowLeft")
    assert position(page) == stops[2] == 2
    for key in ("a", "b", "x", "d", "d", "y", "m", "Enter", "z"):
        page.keyboard.press(key)
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells
    page.keyboard.press("End")
    assert position(page) == frames
    page.keyboard.press("PageUp")
    firsts = [f for f in range(frames) if scene.stills[int(scene.frames[f])].first]
    assert position(page) == firsts[-1] + 1
    page.keyboard.press("PageUp")
    assert position(page) == firsts[-2] + 1
    page.keyboard.press("PageDown")
    # the last phase of the superstep before, an exchange
    assert position(page) == pytest.approx(stops[firsts[-1]], abs=1e-4)

    # Buttons say the same.
    page.get_by_role("button", name="Step").click()
    assert position(page) == firsts[-1] + 1
    page.get_by_role("button", name="Back").click()
    assert position(page) == pytest.approx(stops[firsts[-1]], abs=1e-4)
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Previous superstep").click()
    page.get_by_role("button", name="Next superstep").click()
    assert position(page) == pytest.approx(stops[firsts[-1]], abs=1e-4)

    # Play goes forward in time, and pause stops where it is.
    page.keyboard.press("Tab")
    box.focus()
    page.keyboard.press("Home")
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert page.get_by_label("Speed", exact=True).input_value() == "4"
    page.keyboard.press(" ")
    page.wait_for_function("document.querySelector('.ipu-live').ipuPlayer.at > 2")
    assert is_playing(page)
    page.keyboard.press(" ")
    stopped = position(page)
    assert not is_playing(page) and 2 < stopped < frames
    page.wait_for_timeout(300)
    assert position(page) == stopped
    page.keyboard.press(" ")
    page.wait_for_function(
        f"document.querySelector('.ipu-live').ipuPlayer.at === {frames}", timeout=60_000
    )
    assert not is_playing(page)

    # The slider goes anywhere, and so does a click on the strip of the whole run.
    slider = page.locator(".ipu-live input[type=range]")
    slider.fill("5")
    assert position(page) == pytest.approx(stops[5], abs=1e-4)
    canvas = page.locator(".ipu-live > canvas")
    track = mark(page, "track")
    canvas.click(position={"x": track["x"] + track["width"] - 2, "y": track["y"] + 10})
    assert position(page) == frames

    # Reduced motion stops what moves.
    box.focus()
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    assert is_playing(page)
    page.emulate_media(reduced_motion="reduce")
    page.wait_for_function("!document.querySelector('.ipu-live').ipuPlayer.playing")
    page.keyboard.press(" ")
    page.wait_for_timeout(400)
    assert min(abs(position(page) - stop) for stop in stops) < 1e-4  # it goes from still to still
    page.emulate_media(reduced_motion="no-preference")

    # The buttons stay in sight of a picture that is taller than the window.
    page.set_viewport_size({"width": 1200, "height": 400})
    box.evaluate("box => box.scrollIntoView()")
    bar = page.locator(".ipu-live .bar").bounding_box()
    assert bar["y"] + bar["height"] <= 400 < canvas.bounding_box()["y"] + track["y"]


def test_the_numbers_on_screen_are_those_of_the_report(lab: Lab, page: Any) -> None:
    report = programs.uneven()
    lab.write("numbers.ipynb", [SETUP, BSP])
    lab.open(page, "numbers.ipynb")
    lab.run(page)
    box = page.locator(".ipu-live")
    box.focus()
    step = next(n for n in report.step_numbers.tolist() if report.step_cost(n).name == "total")
    cost = report.step_cost(step)
    page.keyboard.press("Home")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
        if "compute: total" in status(page):
            break
    assert f"{cost.compute_duration:,} modelled cycles" in status(page)
    assert f"tile {int(cost.compute_cycles.argmax())} is the slowest" in status(page)
    for tile in range(13):
        page.keyboard.press("ArrowDown")
        busy = int(cost.compute_cycles[tile])
        expected = (
            f"tile {tile}: compute, {busy:,} modelled cycles, then waits "
            f"{cost.compute_duration - busy:,}"
        )
        assert page.locator(".ipu-live p.soft").first.inner_text() == expected
    page.locator(".ipu-view > details > summary").first.click()
    text = page.locator(".ipu-view table").first.inner_text()
    assert re.search(rf"total\s+{report.compute_sets[0].executions}\s", text)


def seen(png: bytes) -> Any:
    """A screenshot as float[height, width, 3]."""
    from matplotlib.image import imread

    return imread(io.BytesIO(png), format="png")[:, :, :3]


@pytest.mark.parametrize("tiles", [13, 64, 1472])
def test_pictures_have_the_shares_that_the_words_say(page: Any, tmp_path: Path, tiles: int) -> None:
    """Live, and as SVG: of the computing, the part of the lanes that waits is what the sentence
    below says."""
    view = show.bsp(programs.some_wait(tiles))
    scene, where = view.scene, programs.the_wait(view.scene, "bsp")
    page.set_viewport_size({"width": 736, "height": 1400})
    page.goto(view.save(tmp_path / "view.html").as_uri())
    page.locator(".ipu-live").focus()
    page.keyboard.press("End")
    said = re.search(r"([\d.]+) % of the tiles' time in this phase is waiting", status(page))
    assert said and where.waiting == pytest.approx(float(said[1]) / 100, abs=0.003)
    live = seen(page.locator(".ipu-live > canvas").screenshot())
    assert programs.waiting_seen(live, scene, where, live.shape[1] / 720) == pytest.approx(
        where.waiting, abs=0.02
    )
    view.save(tmp_path / "view.svg", frame=len(scene.frames) - 1)
    (tmp_path / "large.html").write_text('<body style="margin:0"><img src="view.svg" width="2880">')
    page.set_viewport_size({"width": 2880, "height": 2000})
    for dark in (False, True):
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.goto((tmp_path / "large.html").as_uri())
        drawn = seen(page.screenshot())[round(4 * headline_height(scene)) :]  # below the title
        assert programs.waiting_seen(drawn, scene, where, 4, dark) == pytest.approx(
            where.waiting, abs=0.02
        )


@pytest.mark.parametrize("width", [1280, 380])
def test_nothing_moves_while_it_plays(page: Any, tmp_path: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 1400})
    page.goto(show.bsp(programs.uneven()).save(tmp_path / "view.html").as_uri())
    page.locator(".ipu-live").focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(100)
    where = (
        "[...document.querySelectorAll('.ipu-live canvas, .ipu-live button, summary')].map(n => "
        "n.getBoundingClientRect().top)"
    )
    places = page.evaluate(where)
    for _ in range(8):
        page.keyboard.press("ArrowRight")
        assert page.evaluate(where) == places


def test_two_runs_go_one_after_the_other(page: Any, tmp_path: Path) -> None:
    view = show.bsp(programs.uneven(repeats=1), programs.uneven(repeats=2))
    page.goto(view.save(tmp_path / "view.html").as_uri())
    page.locator(".ipu-live").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert "first report: StreamCopy" in status(page)
    page.keyboard.press("End")
    assert status(page).startswith("Superstep 8 of 8. second report: Execute everywhere")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "first report: Execute total" in status(page)
    first = view.scene.stills[1].about["first report"][1]["busy"][0]
    said = page.locator(".ipu-live p.soft").first.inner_text()
    assert (
        said
        == f"tile 0 of the first report: {first:,} modelled cycles of compute in this superstep"
    )


def test_an_element_lights_its_tile(lab: Lab, page: Any) -> None:
    lab.write("tiles.ipynb", [SETUP, TILES])
    lab.open(page, "tiles.ipynb")
    lab.run(page)
    canvas = page.locator(".ipu-live > canvas")
    canvas.wait_for()
    before = canvas.screenshot()
    first = mark(page, "elements 0")
    at = {"x": first["x"] + 2.5 * first["side"], "y": first["y"] + 5.5 * first["side"]}
    canvas.hover(position=at)
    said = page.locator(".ipu-live p.soft").first
    assert said.inner_text() == "element [5, 2] of matrix: byte 248 of its variable, tile 2"
    assert canvas.screenshot() != before


def test_an_exported_page_plays_with_no_kernel_and_no_network(page: Any, tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(s) for s in (SETUP, BSP, TILES)]
    )
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    exported, _ = HTMLExporter().from_notebook_node(notebook)
    path = tmp_path / "page.html"
    path.write_text(exported, encoding="utf-8")
    page.context.set_offline(True)
    page.goto(path.as_uri())
    page.locator(".ipu-live").nth(1).wait_for()
    page.locator(".ipu-live").first.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert position(page) == 1 and status(page).startswith("Superstep 1 of ")


def test_an_untrusted_notebook_shows_a_picture(lab: Lab, page: Any) -> None:
    view = show.bsp(programs.uneven())
    output = nbformat.v4.new_output(
        "execute_result",
        {"text/html": view._repr_html_(), "text/plain": repr(view)},
        execution_count=1,
    )
    lab.write("foreign.ipynb", [BSP], [[output]])
    lab.open(page, "foreign.ipynb")
    picture = page.locator(".jp-OutputArea img")
    picture.wait_for()
    assert page.locator(".ipu-live").count() == 0
    assert picture.get_attribute("alt") == repr(view)
    assert page.evaluate("document.querySelector('.jp-OutputArea img').naturalWidth") == 720


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_names_are_text_and_axe_finds_nothing(page: Any, tmp_path: Path, dark: bool) -> None:
    if "IPU_TEACH_AXE" not in os.environ:
        pytest.skip("IPU_TEACH_AXE is unset: it names axe-core's axe.min.js")
    page.emulate_media(color_scheme="dark" if dark else "light")
    for which, view in enumerate(
        (show.bsp(programs.uneven(name=HOSTILE)), show.tiles(programs.by_rows(HOSTILE)))
    ):
        path = view.save(tmp_path / f"{which}.html")
        page.goto(path.as_uri())
        page.locator(".ipu-live").wait_for()
        page.locator(".ipu-view > details > summary").click()
        assert page.evaluate("typeof hacked") == "undefined"
        assert "<script>hacked" in page.locator(".ipu-view").inner_text()
        assert violations(page) == []


def test_sliders_make_the_picture_anew(lab: Lab, page: Any) -> None:
    build = (
        "def build(rows):\n    return show.bsp(programs.uneven(rows=rows))\nshow.explore(build, "
        "rows=(13, 39, 13))"
    )
    lab.write("explore.ipynb", [SETUP, build])
    lab.open(page, "explore.ipynb")
    lab.run(page)
    page.wait_for_selector(".widget-slider, .widget-hslider")
    page.wait_for_function(
        "[...document.querySelectorAll('.ipu-live')].filter(b => b.offsetParent).length === 1"
    )
    handle = page.locator(".widget-hslider [role=slider], .widget-slider [role=slider]").first
    for rows in (13, 26, 39):
        scene = show.bsp(programs.uneven(rows=rows)).scene
        still = scene.stills[int(scene.frames[scene.poster])]
        assert still.note
        page.wait_for_function(
            "t => document.querySelector('.widget-vbox .ipu-live p').textContent.includes(t)",
            arg=f"{number(still.cycles)} modelled cycles; {still.note}",
        )
        handle.focus()
        page.keyboard.press("ArrowRight")
    page.evaluate("window.jupyterapp.shell.collapseLeft()")
    page.set_viewport_size({"width": 480, "height": 900})
    page.wait_for_function("""() => {
        const [box] = document.querySelectorAll('.widget-vbox'), cell = box.closest('.jp-Cell');
        return cell.clientWidth < 440 && box.getBoundingClientRect().right <= cell.getBoundingClientRect().right;
    }""")
