"""The slides of every lesson in a browser: they fit, keys turn them, and the speaker has a window."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ipu_course.checking.notebooks import lessons
from ipu_course.checking.slides import page_of, slides

# The suite looks at the lessons with the highest pictures, `--browser-all` at all lessons.
HIGHEST = ("05", "09", "15")
SCREENS = (1024, 768), (1280, 720), (1920, 1080)
FITTED = "document.documentElement.dataset.fitted == fits && fits > 0"
# For each slide: the elements that the reader would see outside the space above the buttons, and
# the factor by which the picture is enlarged.
OUTSIDE = """slides.map((slide, i) => {
  turn(i);
  const floor = document.querySelector("nav").getBoundingClientRect().top + 1;
  const outside = [...slide.querySelectorAll("*")].filter((node) => {
    const { width, left, top, right, bottom } = node.getBoundingClientRect();
    return width && (left < -1 || top < -1 || right > innerWidth + 1 || bottom > floor);
  });
  const { scrollWidth, scrollHeight } = document.documentElement;
  const scrolls = scrollWidth > innerWidth || scrollHeight > innerHeight;
  return [outside.map((node) => node.outerHTML.slice(0, 80)), scrolls, partsOf(slide)[1]?.style.zoom || 1];
})"""


def fitted(page: Any, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(100)  # The event of the new size comes with the next frame.
    page.wait_for_function(FITTED)


@pytest.mark.parametrize("path", lessons(solved=True), ids=lambda path: path.stem)
def test_every_slide_fits_the_usual_screens(
    page: Any, tmp_path: Path, path: Path, request: pytest.FixtureRequest
) -> None:
    if not path.stem.startswith(HIGHEST) and not request.config.getoption("--browser-all"):
        pytest.skip("python3 run.py test --browser-all looks at the slides of all lessons")
    target = tmp_path / "slides.html"
    target.write_text(page_of(nbformat.read(path, as_version=4), path.stem), encoding="utf-8")
    page.goto(target.as_uri())
    for screen in SCREENS:
        fitted(page, *screen)
        for number, (outside, scrolls, zoom) in enumerate(page.evaluate(OUTSIDE), start=1):
            assert (outside, scrolls) == ([], False), (screen, number)
            assert float(zoom) > 0.55, (screen, number, "the words of the picture are too small")


def opened(page: Any, folder: Path) -> None:
    assert slides("05", str(folder / "slides.html")) == 0
    page.set_viewport_size({"width": 1366, "height": 768})
    page.goto((folder / "slides.html").as_uri())
    page.wait_for_selector(".ipu-live canvas", state="attached")
    page.wait_for_function(FITTED)


def at(page: Any) -> str:
    said: str = page.inner_text("nav [role=status]")
    return said


def violations(page: Any) -> list[Any]:
    if "IPU_TEACH_AXE" not in os.environ:
        return []
    page.add_script_tag(path=os.environ["IPU_TEACH_AXE"])
    found = "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
    violations: list[Any] = page.evaluate(found)
    return violations


def test_keys_turn_slides_and_players_keep_theirs(page: Any, tmp_path: Path) -> None:
    opened(page, tmp_path)
    assert at(page) == "1 of 8"
    for key in ("PageDown", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert at(page) == "4 of 8"
    # The keys are the player's while it has them, and the slides' after Escape.
    page.locator(".now .ipu-live").focus()
    before = page.evaluate("document.activeElement.ipuPlayer.at")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.ipuPlayer.at") != before and at(page) == "4 of 8"
    page.click(".now >> text=More")  # A slide that grows still fits.
    page.wait_for_timeout(100)
    assert page.evaluate("slides[3].scrollHeight <= slides[3].clientHeight")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowLeft")
    assert at(page) == "3 of 8"
    page.click("nav button >> nth=0")
    assert at(page) == "2 of 8"
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page) == []
    # On a narrow page the slides are below each other.
    page.set_viewport_size({"width": 380, "height": 768})
    page.wait_for_function("!document.documentElement.classList.contains('paged')")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("slides.filter(s => s.querySelector('canvas')).length") == 6
    assert violations(page) == []


def test_only_the_speaker_sees_notes_and_the_next_slide(page: Any, tmp_path: Path) -> None:
    opened(page, tmp_path)
    for _ in range(3):
        page.keyboard.press("PageDown")
    with page.expect_popup() as popup:
        page.keyboard.press("n")
    speaker = popup.value
    speaker.wait_for_load_state()
    speaker.wait_for_function(FITTED)
    speaker.wait_for_function("document.querySelector('nav [role=status]').innerText === '4 of 8'")
    heading = page.inner_text(".now h2")
    notes = page.evaluate("slides[3].querySelector('aside').textContent.trim().slice(0, 60)")
    assert heading in speaker.inner_text("#speaker h2 >> nth=0")
    assert notes in speaker.inner_text("#notes")
    following = page.evaluate("titleOf(slides[4])")
    assert speaker.inner_text("#speaker h2 >> nth=1") == f"Next: {following}"
    assert speaker.locator("main .now canvas").first.is_visible()
    assert notes not in page.inner_text("body") and page.locator("aside:visible").count() == 0
    assert page.locator("section section:visible").count() == 1
    # Each window turns the other.
    speaker.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('nav [role=status]').innerText === '5 of 8'")
    page.bring_to_front()
    page.keyboard.press("End")
    speaker.wait_for_function("document.querySelector('nav [role=status]').innerText === '8 of 8'")
    assert speaker.inner_text("#speaker h2 >> nth=1") == "This is the last slide."
    assert not speaker.is_visible("main") and page.is_visible(".now")
    assert violations(speaker) == []
