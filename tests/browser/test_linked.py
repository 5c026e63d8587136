"""Views of one report on a page follow each other, and no view follows one of another report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded_programs import kept_recording

from ipu_teach import Report, show
from ipu_teach.show.view import View

from . import programs
from .player import press


def together(page: Any, folder: Path, views: list[View]) -> list[Any]:
    """The players of several views on one page, in order."""
    text = "".join(view._repr_html_() for view in views)
    (folder / "page.html").write_text(
        f'<!doctype html><html lang="en"><title>views</title><body>{text}', encoding="utf-8"
    )
    page.set_viewport_size({"width": 1000, "height": 1400})
    page.goto((folder / "page.html").as_uri())
    page.wait_for_function(f"document.querySelectorAll('.ipu-live').length === {len(views)}")
    return [page.locator(".ipu-live").nth(i) for i in range(len(views))]


def words_of(box: Any) -> tuple[str, str]:
    """(where a view stands, what is chosen)."""
    return box.locator(":scope > p").nth(0).inner_text(), box.locator("p.soft").first.inner_text()


def every(report: Report) -> dict[str, View]:
    names = ("bsp", "timeline", "balance", "memory", "exchange", "liveness", "program")
    return {name: getattr(show, name)(report) for name in names}


def test_views_go_to_the_same_superstep_and_tile(page: Any, tmp_path: Path) -> None:
    report, other = programs.uneven(), programs.uneven(rows=39)
    views = every(report)
    boxes = dict(
        zip(
            [*views, "other"],
            together(page, tmp_path, [*views.values(), show.bsp(other)]),
            strict=True,
        )
    )
    stranger = words_of(boxes["other"])
    page.evaluate(
        "heard = []; document.addEventListener('ipu-select', e => heard.push([e.detail.tile, "
        "e.detail.cycle]))"
    )
    starts = [step.start for step in report.steps()]
    boxes["timeline"].focus()
    # at the end of superstep 5: "total" for the second time... counted from 1
    press(page, "Home", *["ArrowRight"] * 5)
    assert words_of(boxes["bsp"])[0].startswith("Superstep 5 of 7, phase 1 of ")
    name = f"{report.steps()[4].kind} {report.steps()[4].name}"
    assert words_of(boxes["balance"])[0].startswith(f"Superstep 5 of 7. {name}")
    assert f". {name}; " in words_of(boxes["liveness"])[0]
    assert f"{report.steps()[4].name}, level " in words_of(boxes["program"])[1]
    assert f"{report.steps()[4].name}, 3 times" in words_of(boxes["exchange"])[0]
    assert page.evaluate("heard.at(-1)") == [None, starts[4]]
    boxes["memory"].focus()
    press(page, *["ArrowDown"] * 4)
    for which in ("bsp", "timeline", "balance", "memory"):
        assert words_of(boxes[which])[1].startswith("tile 3: "), which
    assert page.evaluate("heard.at(-1)[0]") == 3
    press(page, "Escape")
    assert words_of(boxes["bsp"])[1].startswith("Point at a part of the picture")
    assert words_of(boxes["other"]) == stranger
    boxes["program"].focus()
    press(page, "Home", "ArrowDown")  # the stream's copy, which is the first superstep
    assert words_of(boxes["bsp"])[0].startswith("Superstep 1 of 7, phase 1 of ")
    boxes["bsp"].focus()
    press(page, "End")
    assert words_of(boxes["timeline"])[0].startswith("Superstep 7 of 7")


def test_a_view_that_plays_takes_the_others_along(page: Any, tmp_path: Path) -> None:
    report = programs.uneven()
    first, second = together(page, tmp_path, [show.bsp(report), show.timeline(report)])
    first.focus()
    press(page, "Home", " ")
    page.wait_for_function(
        "[...document.querySelectorAll('.ipu-live')].every(b => b.ipuPlayer.at > 1)"
    )
    press(page, " ")
    second.focus()
    press(page, " ")
    page.wait_for_function("document.querySelectorAll('.ipu-live')[1].ipuPlayer.playing")
    first.focus()
    press(page, "End")  # who is told to go somewhere stops
    page.wait_for_function("!document.querySelectorAll('.ipu-live')[1].ipuPlayer.playing")


@pytest.mark.parametrize("tiles", [64, 400])
def test_lanes_that_are_no_tiles_follow_no_tile(page: Any, tmp_path: Path, tiles: int) -> None:
    report = programs.some_wait(tiles)
    bsp, timeline = together(page, tmp_path, [show.bsp(report), show.timeline(report)])
    bsp.focus()
    press(page, "ArrowDown")
    assert words_of(bsp)[1].startswith("tile 0: ")
    assert words_of(timeline)[1].startswith(
        "tile 0: " if tiles == 64 else "Point at a part of the picture"
    )


def test_what_is_about_one_tile_tells_of_it_and_goes_along(page: Any, tmp_path: Path) -> None:
    report, (recording, vertices) = programs.uneven(), kept_recording("x", "y")
    assert recording.report is not None
    views = [show.bsp(report), show.tile(report, 1), show.code(report, "Total")]
    views += [show.bsp(recording.report), show.turns(recording, vertices[1], 2, step=2)]
    bsp, tile, code, other, turns = together(page, tmp_path, views)
    for whole, box in ((bsp, tile), (other, turns)):
        box.focus()
        press(page, "ArrowDown")
        assert words_of(whole)[1].startswith("tile 1: ")
        press(page, "Escape")
        assert words_of(whole)[1].startswith("Point at a part of the picture")
    assert words_of(other)[0].startswith("Superstep 3 of 6, ")  # in which the vertex ran
    bsp.focus()
    press(page, "Home", *["PageDown"] * 3)
    assert ". everywhere on tile 1" in words_of(tile)[0] and words_of(code)[1].startswith(
        "Total, level 1: "
    )
    code.focus()
    press(page, "Escape", "Home")  # its first row: where Total runs first
    assert words_of(bsp)[0].startswith("Superstep 2 of 7, ")
