"""Every view, on a narrow and a wide page, light and dark: play, step, back, scrub, by the keyboard
alone, with reduced motion.

`python3 run.py test --browser-all` takes all of it, the suite a spread: a third of the views once, all
widths and schemes among them. A new view is a row of `VIEWS`.
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import violations
from .every_view import FURTHER_VIEWS, VIEWS
from .player import canvas_texts, press, reduce_motion

PAGES = list(product((380, 1280), ("light", "dark")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = [(name, *page) for name in (*VIEWS, *FURTHER_VIEWS) for page in PAGES]
    spread = [(name, *PAGES[i % len(PAGES)]) for i, name in enumerate([*VIEWS][::3])]
    metafunc.parametrize(
        ("name", "width", "scheme"), every if metafunc.config.getoption("--browser-all") else spread
    )


def at(page: Any) -> float:
    return float(page.evaluate("document.querySelector('.ipu-live').ipuPlayer.at"))


def test_a_view_can_be_used(page: Any, tmp_path: Path, name: str, width: int, scheme: Any) -> None:
    view = (VIEWS | FURTHER_VIEWS)[name]()
    scene, count = view.scene, len(view.scene.frames)
    stops = [0.0, *(i + scene.stills[still].at for i, still in enumerate(scene.frames.tolist()))]
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.goto(view.save(tmp_path / "view.html").as_uri())
    page.locator(".ipu-live").wait_for()
    for _ in range(3):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "ipu-live":
            break
    assert page.evaluate("document.activeElement.className") == "ipu-live"
    colour = page.evaluate("getComputedStyle(document.querySelector('.ipu-live')).backgroundColor")
    assert colour == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 26)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert len([w for w in canvas_texts(page) if w.strip()]) >= 3
    picture = page.locator(".ipu-live > canvas").screenshot()
    press(page, "ArrowDown")
    said = page.locator(".ipu-live p.soft").first
    assert (
        not said.inner_text().startswith("Point at a part")
        and page.locator(".ipu-live > canvas").screenshot() != picture
    )
    press(page, "Escape")
    assert said.inner_text().startswith("Point at a part")
    if count > 1:
        it_plays(page, stops)
    if "IPU_TEACH_AXE" in os.environ:
        page.locator(".ipu-view > details > summary").click()
        assert violations(page) == []


def it_plays(page: Any, stops: list[float]) -> None:
    """Step, back, scrub, play and pause by the keyboard, and what reduced motion leaves of it."""
    count = len(stops) - 1
    press(page, "Home")
    assert at(page) == 0
    for which in (1, min(2, count)):
        press(page, "ArrowRight") if at(page) < stops[which] - 1e-9 else None
        assert at(page) == pytest.approx(stops[which], abs=1e-4)
    press(page, "ArrowLeft")
    assert at(page) == pytest.approx(stops[max(0, min(2, count) - 1)], abs=1e-4)
    press(page, "End")
    assert at(page) == count
    page.locator(".ipu-live input[type=range]").focus()
    press(page, "Home", "ArrowRight")
    assert at(page) == pytest.approx(stops[1], abs=1e-4)
    page.locator(".ipu-live").focus()
    press(page, "Home", " ")
    page.wait_for_function("document.querySelector('.ipu-live').ipuPlayer.at > 0.05")
    press(page, " ")
    assert (
        not page.evaluate("document.querySelector('.ipu-live').ipuPlayer.playing")
        and 0 < at(page) <= count
    )
    reduce_motion(page)
    press(page, "Home", " ")
    page.wait_for_function("document.querySelector('.ipu-live').ipuPlayer.at > 0")
    assert np.abs(np.array(stops) - at(page)).min() < 1e-4  # from still to still
    press(page, "End")
