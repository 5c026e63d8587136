"""`show.run` in a browser: numbers on the canvas are those of a plain loop, forwards and backwards,
by keys alone."""

from __future__ import annotations

import os
import re
from decimal import ROUND_HALF_UP, Context
from pathlib import Path
from typing import Any

import pytest
from recorded_programs import (
    CELLS,
    TILES,
    halo_recording,
    large_recording,
    merged_copy_recording,
    ring_recording,
    smoothed_by_hand,
    smoothing_program,
)

from ipu_teach import show
from ipu_teach.report import Recording

from .conftest import violations
from .player import canvas_texts, description, is_playing, position, press, reduce_motion, status


@pytest.fixture(scope="module")
def recording() -> Recording:
    engine, u, v, device = smoothing_program(4)
    recording = engine.record(u, v)
    engine.load(device)
    engine.run()
    return recording


def open_view(page: Any, tmp_path: Path, recording: Recording, width: int = 1100) -> list[float]:
    """Opens it as a page of its own, at the beginning; where its steps stop."""
    page.set_viewport_size({"width": width, "height": 1400})
    view = show.run(recording)
    page.goto(view.save(tmp_path / "view.html").as_uri())
    page.locator(".ipu-live").focus()
    press(page, "Home")
    return [0.0, *(f + view.scene.stills[n].at for f, n in enumerate(view.scene.frames.tolist()))]


def listed(page: Any) -> dict[str, str]:
    """The list of the chosen tile, as it is written on the canvas."""
    written = canvas_texts(page)
    start = next(i for i, text in enumerate(written) if re.fullmatch(r"tile \d+ holds", text))
    found, name = {}, ""
    for text in written[start + 1 :]:
        if re.fullmatch(r"\w+(\[\d+\])?", text) and not re.fullmatch(r"[\d.]+|\?", text):
            name = text
        elif name and name not in found:  # the new number stands first, then the one before
            found[name] = text
    return found


def story(page: Any) -> str:
    return str(page.locator(".ipu-live .row ~ p:not(.soft)").last.inner_text())


def watched(page: Any) -> str:
    return str(page.locator(".ipu-live .row ~ p:not(.soft)").nth(-2).inner_text())


def shown(value: float, digits: int = 4) -> str:
    """At most four digits; half of the last one is rounded up."""
    rounded = float(Context(digits, ROUND_HALF_UP).create_decimal(value)) if value == value else 0
    return f"{rounded:g}" if value == value else "?"


def test_every_tile_holds_what_a_plain_loop_gives_both_ways(
    page: Any, tmp_path: Path, recording: Recording
) -> None:
    open_view(page, tmp_path, recording)
    expected = smoothed_by_hand(4)

    def check(step: int) -> None:
        u, v = expected[step]
        for tile in range(TILES):
            held = {
                f"{name}[{i}]": shown(float(values[i]), 6)
                for name, values in (("u", u), ("v", v))
                for i in range(CELLS)
                if i * TILES // CELLS == tile
            }
            assert listed(page) == held, (step, tile)
            press(page, "]")

    press(page, "ArrowDown")
    assert description(page) == "u[0] on tile 0: 0.0, as at the beginning."
    for step in range(8):
        press(page, "PageDown")
        while "change: " not in status(page):
            press(page, "ArrowRight")
        assert status(page).startswith(f"Superstep {step + 1} of 8, ")
        check(step)
    for step in range(6, -1, -1):
        press(page, "PageUp", "ArrowLeft")
        assert "change: " in status(page) and status(page).startswith(
            f"Superstep {step + 1} of 8, "
        )
        if step % 3 == 0:
            check(step)


def test_a_number_leaves_a_tile_arrives_on_another_and_says_where_it_came_from(
    page: Any, tmp_path: Path
) -> None:
    made, _, _ = halo_recording()
    open_view(page, tmp_path, made)
    while "exchange: Copy" not in status(page) or "host" in status(page):
        press(page, "ArrowRight")
    assert position(page) % 1 == pytest.approx(0.9)  # nearly there, beside no name
    assert story(page) == "b[0] = 0.75 and 1 more comes from tile 1 to tile 3."
    assert "8 B" in canvas_texts(page)
    while "change: Execute" not in status(page):
        press(page, "ArrowRight")
    for _ in range(7):
        press(page, "ArrowDown")
        if description(page).startswith("b[0]"):
            break
    assert (
        description(page) == "b[0] on tile 3: 0.75, since superstep 2, copied from a[0] on tile 1."
    )
    press(page, "b")  # back to where it got it
    assert "Superstep 2 of 3" in status(page) and "change: Copy 'a' to 'b'" in status(page)
    assert listed(page)["b[0]"] == "0.75"
    press(page, "ArrowLeft")
    assert listed(page)["b[0]"] == "?"
    press(page, "End")
    for _ in range(7):
        press(page, "ArrowDown")
        if description(page).startswith("sum"):
            break
    assert description(page) == (
        "sum on tile 0: -1.25, since superstep 3, written by vertex 0 of Sums on tile 2."
    )
    code = page.locator(".ipu-live pre")
    assert "Sums.compute" in code.inner_text() and "add_vertex" in code.inner_text()


def test_a_number_that_a_joined_copy_brought_says_where_it_is_from(
    page: Any, tmp_path: Path
) -> None:
    open_view(page, tmp_path, merged_copy_recording())
    press(page, "End")
    told = {}
    for _ in range(5):
        press(page, "ArrowDown")
        told[description(page).split(" ")[0]] = description(page)
    assert told["b[0]"] == "b[0] on tile 3: 0.75, since superstep 1, copied from a[0] on tile 1."
    assert (
        told["sum"]
        == "sum on tile 2: 3.0, since superstep 1, written by vertex 0 of Sums on tile 2."
    )


def test_it_plays_stops_where_it_is_told_and_goes_anywhere(
    page: Any, tmp_path: Path, recording: Recording
) -> None:
    stops = open_view(page, tmp_path, recording)
    frames = len(stops) - 1
    press(page, "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown")
    assert description(page).startswith("u[4] on tile 1: 3.0")
    page.get_by_label("Stop when the watched cell, or any").select_option("it is below")
    page.get_by_label("Number to compare with").fill("1.2")
    expected = next(step for step, (u, _) in enumerate(smoothed_by_hand(4)) if u[4] < 1.2)
    page.locator(".ipu-live").focus()
    press(page, "+", "+", " ")
    page.wait_for_function("!document.querySelector('.ipu-live').ipuPlayer.playing", timeout=60_000)
    assert status(page).startswith(f"Superstep {expected + 1} of 8, ") and "change: Copy" in status(
        page
    )
    assert (
        float(description(page).split(": ")[1].split(",")[0])
        == smoothed_by_hand(4)[expected][0][4]
        < 1.2
    )
    page.get_by_label("Stop when the watched cell, or any").select_option("never")
    page.get_by_role("button", name="Last change").click()
    assert status(page).startswith("Superstep 2 of 8, ")
    page.get_by_role("button", name="Next change").click()
    assert status(page).startswith("Superstep 4 of 8, ")
    page.locator(".ipu-live").focus()
    press(page, "r")
    assert status(page).startswith("Superstep 6 of 8, ") and story(page).startswith(
        "Round 3 of 4 of this step."
    )
    page.locator(".ipu-live input[type=range]").fill("3")
    assert position(page) == pytest.approx(stops[3], abs=1e-4)
    page.locator(".ipu-live").focus()
    press(page, "Escape", " ")
    page.wait_for_function(
        f"document.querySelector('.ipu-live').ipuPlayer.at === {frames}", timeout=60_000
    )
    assert not is_playing(page)
    reduce_motion(page)
    press(page, "Home", " ")
    page.wait_for_function("document.querySelector('.ipu-live').ipuPlayer.at > 1")
    # from still to still: messages are nearly there
    assert min(abs(position(page) - stop) for stop in stops) < 1e-4
    press(page, " ")
    page.emulate_media(reduced_motion="no-preference")
    press(page, "Home", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown")
    trail = page.evaluate("document.querySelector('.ipu-live').ipuPlayer.marks.trail")
    canvas = page.locator(".ipu-live > canvas")
    canvas.click(position={"x": trail["x"] + trail["width"] - 3, "y": trail["y"] + 10})
    assert status(page).startswith("Superstep 8 of 8, ")  # where u[4] changed last
    box = page.evaluate("document.querySelector('.ipu-live').ipuPlayer.marks.board")
    canvas.hover(position={"x": box["x"] + 10, "y": box["y"] + 20 + 7})
    assert description(page).startswith("u[0] on tile 0: ")
    canvas.hover(position={"x": trail["x"], "y": trail["y"]})
    assert watched(page).startswith("Watching u[4] on tile 1: ")  # what was reached by keys stays
    canvas.click(position={"x": box["x"] + 10, "y": box["y"] + 20 + 7})
    canvas.hover(position={"x": trail["x"], "y": trail["y"]})
    assert watched(page).startswith("Watching u[0] on tile 0: ")
    page.locator(".ipu-live").focus()
    press(page, "Escape")
    assert not watched(page).startswith("Watching")


def test_ipus_stand_apart_with_links_between_them_and_buttons_stay_in_sight(
    page: Any, tmp_path: Path
) -> None:
    made, _ = ring_recording()
    open_view(page, tmp_path, made, 480)
    while "exchange between IPUs" not in status(page):
        press(page, "ArrowRight")
    texts = canvas_texts(page)
    assert {"IPU 0", "IPU 1", "IPU 2"} <= set(texts)
    assert [text for text in texts if "96 B" in text] == ["3 messages, 96 B each"]
    assert story(page).startswith("Round 1 of 2 of this step. b[1, 0, 0] = ")
    assert " and 23 more comes from IPU 0 to IPU 1; " in story(page)
    page.set_viewport_size({"width": 900, "height": 700})
    page.evaluate("scrollTo(0, 0)")
    bar = page.locator(".ipu-live .bar").bounding_box()
    assert bar["y"] > 0 and bar["y"] + bar["height"] <= 700
    assert page.evaluate("document.documentElement.scrollHeight") > 900


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (380, True)])
def test_it_fits_the_page_and_axe_finds_nothing(
    page: Any, tmp_path: Path, recording: Recording, width: int, dark: bool
) -> None:
    page.emulate_media(color_scheme="dark" if dark else "light")
    open_view(page, tmp_path, recording, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    nodes = "[...document.querySelectorAll('.ipu-live canvas, .ipu-live button, summary')]"
    where = f"{nodes}.map(n => n.getBoundingClientRect().top)"
    places = page.evaluate(where)
    for _ in range(7):
        press(page, "ArrowRight")
        assert page.evaluate(where) == places
    marks = page.evaluate("document.querySelector('.ipu-live').ipuPlayer.marks")
    beside = marks["detail"]["y"] == marks["board"]["y"]
    assert beside == (width > 640)
    assert marks["trail"]["y"] >= marks["board"]["y"] + marks["board"]["height"]
    if "IPU_TEACH_AXE" in os.environ:
        page.locator(".ipu-view > details > summary").click()
        assert violations(page) == []


def test_a_large_board_draws_fast_enough_and_says_what_it_leaves_out(
    page: Any, tmp_path: Path
) -> None:
    open_view(page, tmp_path, large_recording(40, 400, 3), 380)
    assert "elements on these tiles" in page.locator(".ipu-live").inner_text() or "+" in "".join(
        canvas_texts(page)
    )
    press(page, "ArrowRight", "ArrowRight")
    assert "exchange: Execute add" in status(page)
