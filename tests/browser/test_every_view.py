"""Every view, on a narrow and a wide page, light and dark: play, step, back, scrub, by the keyboard
alone, with reduced motion.

`python3 run.py test --browser-all` takes all of it, the suite a spread: each view once, all widths
and schemes among them. A new view is a row of `VIEWS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from all_reduces import all_reduce_report
from recorded_programs import kept_recording, shifted_sums_recording
from two_tile_ipus import uneven_ipus
from view_programs import (
    Mixed,
    mixed_report,
    partitioner,
    pipeline_training,
    streaming_report as streamed,
)

from ipu_course.lesson12.checks import drawn
from ipu_teach import FLOAT, HALF, show
from ipu_teach.graph.vertex_table import VertexRef
from ipu_teach.report import Recording
from ipu_teach.show.view import View

from . import programs
from .conftest import violations
from .test_views_more import press, reduce_motion, words

VIEWS: dict[str, Callable[[], View]] = {
    "bsp": lambda: show.bsp(programs.uneven()),
    "bsp of the chip": lambda: show.bsp(programs.some_wait(1472)),
    "bsp of two IPUs": lambda: show.bsp(uneven_ipus()),
    "balance of two IPUs": lambda: show.balance(uneven_ipus()),
    "program of two IPUs": lambda: show.program(uneven_ipus()),
    "bsp of two": lambda: show.bsp(programs.uneven(), programs.uneven(rows=39)),
    "timeline": lambda: show.timeline(programs.uneven()),
    "timeline of two": lambda: show.timeline(programs.uneven(), programs.uneven(rows=39)),
    "timeline of blocks": lambda: show.timeline(programs.branching()[0], blocks=1),
    "balance": lambda: show.balance(programs.some_wait(64)),
    "balance with causes": lambda: show.balance(
        programs.uneven(), why=programs.uneven().why("waiting")
    ),
    "exchange": lambda: show.exchange(programs.uneven()),
    "memory": lambda: show.memory(programs.uneven()),
    "liveness": lambda: show.liveness(programs.uneven()),
    "liveness of two": lambda: show.liveness(
        programs.uneven(), programs.branching()[0], always=False, axis="cycles"
    ),
    "program": lambda: show.program(programs.branching()[0]),
    "tiles": lambda: show.tiles(programs.by_rows()),
    "sweep": lambda: show.sweep(
        {"13 rows": programs.uneven(rows=13), "39 rows": programs.uneven(rows=39)}
    ),
    "host": lambda: show.host(programs.uneven()),
    "recompute": lambda: show.recompute(8, {"all": range(8), "every 3rd": range(0, 8, 3)}),
    "streaming": lambda: show.streaming(streamed("SINGLE_PIPELINE")),
    "pipeline": lambda: pipeline_training("grouped", 2, 4)[1],
    "ring": lambda: show.ring(all_reduce_report(4, 520, "clockwise_ring")),
    "patches": lambda: show.patches(*programs.patches()),
    "numbers": lambda: show.numbers(FLOAT, HALF, value=0.1),
    "formats": lambda: show.formats([3.0, 0.001, 250], HALF, coin=0.1),
    "sparse": lambda: show.sparse(partitioner(), drawn(15, 16, 4, 48, 1, range(6))),
    "crossing": lambda: show.crossing({"dense": {0.5: 9, 0.25: 9}, "sparse": {0.5: 10, 0.25: 5}}),
    "machine": lambda: show.machine(all_reduce_report(4, 520, "clockwise_ring")),
}
# These have tests of their own in the suite, and are taken only where all of it is.
BESIDES: dict[str, Callable[[], View]] = {
    "tile": lambda: show.tile(mixed_report()),
    "code": lambda: show.code(mixed_report(), Mixed),
    "turns of a vertex of a run": lambda: show.turns(*kept_vertex(), 3),
    "bsp with what messages carry": lambda: show.bsp(kept_recording("x", "y")[0]),
    "exchange with what messages carry": lambda: show.exchange(shifted_sums_recording()),
}
PAGES = list(product((380, 1280), ("light", "dark")))


def kept_vertex() -> tuple[Recording, VertexRef]:
    recording, vertices = kept_recording("x", "y")
    return recording, vertices[0]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = [(name, *page) for name in (*VIEWS, *BESIDES) for page in PAGES]
    spread = [(name, *PAGES[i % len(PAGES)]) for i, name in enumerate(VIEWS)]
    metafunc.parametrize(
        ("name", "width", "scheme"), every if metafunc.config.getoption("--browser-all") else spread
    )


def at(page: Any) -> float:
    return float(page.evaluate("document.querySelector('.ipu-live').ipuPlayer.at"))


def test_a_view_can_be_used(page: Any, tmp_path: Path, name: str, width: int, scheme: Any) -> None:
    view = (VIEWS | BESIDES)[name]()
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
    assert len([w for w in words(page) if w.strip()]) >= 3
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
