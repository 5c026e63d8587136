"""A lesson's slides in a browser: the keys turn pages and show notes, and the pictures are live."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ipu_teach.lessons.slides import slides


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("slides") / "slides.html"
    assert slides("05", str(path)) == 0
    return path.as_uri()


def at(page: Any) -> str:
    page.wait_for_timeout(100)
    said: str = page.inner_text("nav [role=status]")
    return said


def test_keys_turn_pages_and_show_notes_and_players_play(page: Any, file: str) -> None:
    page.set_viewport_size({"width": 1366, "height": 768})
    page.emulate_media(reduced_motion="reduce")  # pages jump, and do not glide
    page.goto(file)
    page.wait_for_selector(".ipu-live canvas")
    assert at(page) == "1 of 8" and not page.is_visible("aside")
    for key in ("PageDown", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        page.wait_for_timeout(100)
    assert at(page) == "4 of 8"
    page.keyboard.press("n")
    assert page.is_visible("aside") and at(page) == "4 of 8"
    assert "before you move the slider" in page.inner_text("section section:has(canvas) >> nth=3")
    # The keys are the player's while it has them, and the pages' after Escape.
    player = page.locator(".ipu-live").nth(2)
    player.focus()
    before = page.evaluate("document.activeElement.ipuPlayer.at")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.ipuPlayer.at") != before and at(page) == "4 of 8"
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowLeft")
    assert at(page) == "3 of 8"
    page.click("nav button >> nth=0")
    assert at(page) == "2 of 8"


@pytest.mark.parametrize("width", [380, 1366])
def test_slides_fit_the_page_and_axe_finds_nothing(page: Any, file: str, width: int) -> None:
    if "IPU_TEACH_AXE" not in os.environ:
        pytest.skip("IPU_TEACH_AXE is unset: it names axe-core's axe.min.js")
    page.set_viewport_size({"width": width, "height": 768})
    page.emulate_media(color_scheme="dark" if width == 380 else "light")
    page.goto(file)
    page.wait_for_selector(".ipu-live canvas")
    page.keyboard.press("n")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("slides.filter(s => s.querySelector('canvas')).length") == 6
    page.add_script_tag(path=str(Path(os.environ["IPU_TEACH_AXE"])))
    found = page.evaluate(
        "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
    )
    assert found == []
