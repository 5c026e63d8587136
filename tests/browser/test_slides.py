"""A lesson's slides in a browser: the keys turn pages and show notes, and the pictures are live."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ipu_course.checking.slides import slides


def at(page: Any) -> str:
    page.wait_for_timeout(100)
    said: str = page.inner_text("nav [role=status]")
    return said


def test_keys_turn_pages_and_show_notes_players_play_and_axe_finds_nothing(
    page: Any, tmp_path: Path
) -> None:
    assert slides("05", str(tmp_path / "slides.html")) == 0
    page.set_viewport_size({"width": 1366, "height": 768})
    page.emulate_media(reduced_motion="reduce")  # pages jump, and do not glide
    page.goto((tmp_path / "slides.html").as_uri())
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
    # On a narrow page, a dark one, with all notes shown.
    page.set_viewport_size({"width": 380, "height": 768})
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("slides.filter(s => s.querySelector('canvas')).length") == 6
    if "IPU_TEACH_AXE" in os.environ:
        page.add_script_tag(path=os.environ["IPU_TEACH_AXE"])
        found = "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
        assert page.evaluate(found) == []
