"""Photographs of every view at rest, and of its poster: what does not fit, or covers a text, fails.

`python3 run.py test --photos FOLDER` builds the views of `every_view.py` and the large ones here,
opens each on a narrow and a wide page, light and dark, stores the photographs in the folder, and
fails if a page scrolls sideways, texts overlap, or a text is cut or covered. `--browser-all` does
the same without storing them; the suite takes none.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from all_reduces import all_reduce_report
from recorded_programs import replicated, stencil
from view_programs import pipeline_training

from ipu_teach import FLOAT, Graph, IPUModel, Tensor, show
from ipu_teach.poplibs import poputil
from ipu_teach.report import Report
from ipu_teach.schedules import pipeline_schedule
from ipu_teach.show.svg import svg
from ipu_teach.show.view import View

from . import programs
from .every_view import FURTHER_VIEWS, VIEWS

PAGES = list(product((480, 1100), ("light", "dark")))
SCRIPT = (Path(__file__).parent / "photos.js").read_text(encoding="utf-8")


def chip() -> Report:
    return programs.uneven(1472, 2944)


def pipeline() -> Report:
    return pipeline_training("interleaved", 4, 8)[0]


def on_all_tiles(tiles: int, ipus: int = 1) -> Tensor:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=ipus).create_device().target)
    table = graph.add_variable(FLOAT, (64, 24 * ipus), "table")
    poputil.map_tensor_linearly(graph, table)
    return table


LARGE_VIEWS: dict[str, Callable[[], View]] = {
    **{
        f"{view.__name__} of {name}": lambda view=view, report=report: view(report())
        for view in (show.balance, show.exchange, show.liveness, show.memory, show.tile)
        for name, report in (("the chip", chip), ("a pipeline", pipeline))
    },
    "bsp of a pipeline": lambda: show.bsp(pipeline()),
    "timeline of the chip": lambda: show.timeline(chip()),
    "timeline of a pipeline": lambda: show.timeline(pipeline()),
    "program of a pipeline": lambda: show.program(pipeline()),
    "host of a pipeline": lambda: show.host(pipeline()),
    "code of a pipeline": lambda: show.code(pipeline()),
    "run of 13 tiles": lambda: show.run(stencil(13, 3, 1)),
    "run of the chip": lambda: show.run(stencil(1472, 2, 1)),
    "run of four IPUs": lambda: show.run(stencil(64, 24, 4)),
    "run of replicas": lambda: show.run(replicated()),
    "tiles of 64 tiles": lambda: show.tiles(on_all_tiles(64)),
    "tiles of four IPUs": lambda: show.tiles(on_all_tiles(16, 4)),
    "tiles of the chip": lambda: show.tiles(on_all_tiles(1472)),
    "ring of 16 IPUs": lambda: show.ring(all_reduce_report(16, 160, "clockwise_ring")),
    "machine of 16 IPUs": lambda: show.machine(all_reduce_report(16, 160, "clockwise_ring")),
    "pipeline of 16 stages": lambda: show.pipeline(pipeline_schedule(16, 32)),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    options = metafunc.config.option
    cases = (
        {**VIEWS, **FURTHER_VIEWS, **LARGE_VIEWS} if options.browser_all or options.photos else {}
    )
    metafunc.parametrize(("name", "build"), cases.items())


def test_a_photograph_has_no_faults(
    chromium: Any,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    name: str,
    build: Callable[[], View],
) -> None:
    view, found = build(), list[Any]()
    address = view.save(tmp_path / "view.html").as_uri()
    folder = request.config.option.photos
    for width, scheme in PAGES:
        page = chromium.new_page(viewport={"width": width, "height": 3000}, color_scheme=scheme)
        page.add_init_script(SCRIPT)
        page.goto(address)
        page.locator(".ipu-live").wait_for()
        page.evaluate("document.querySelector('.ipu-live').ipuPlayer.draw()")
        count, faults = page.evaluate("faults()")
        assert count > 5
        found += [(width, scheme, *fault) for fault in faults]
        if folder:
            file = f"{name.replace(' ', '_')}_{width}_{scheme}.png"
            page.locator("main").screenshot(path=Path(folder) / file)
        page.close()
    page = chromium.new_page()
    page.add_init_script(SCRIPT)
    page.goto("about:blank")
    page.set_content(f"<body><div style='width:720px'>{svg(view.scene)}</div>")
    count, faults = page.evaluate("posterFaults()")
    page.close()
    assert count > 2 and found + [("poster", *fault) for fault in faults] == []
