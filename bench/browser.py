"""Measure the cost of a view in a browser: the player's time per frame, and the size of its data.

The other benchmarks print ratios. This one prints milliseconds and kilobytes, because a display has
60 frames a second on any machine, and the size of a notebook does not depend on the machine. The
times need Chromium and Playwright (the extra `e2e`).
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from statistics import median

import numpy as np

from bench.measure import Row, Work
from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Report, Vector, Vertex, show
from ipu_teach.errors import InvalidOptionError
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.show import View
from ipu_teach.show.view import page, player

ROUNDS = 7
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
]

# A JavaScript function that draws each frame of the run, halfway through the frame, and returns the
# mean milliseconds per frame.
DRAW_ALL = """() => {
  const player = document.querySelector(".ipu-live").ipuPlayer;
  const begin = performance.now();
  for (let frame = 0; frame < player.count; frame++) player.go(frame + 0.5);
  return (performance.now() - begin) / player.count;
}"""


class Total(Vertex):
    """A vertex that sums a region."""

    values: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = np.sum(self.values)


def busy_machine(tiles: int, distinct: int, supersteps: int) -> View:
    """Return the view of a run of `distinct` compute sets with random work and destinations.

    The compute sets are repeated one after another until there are `supersteps` supersteps.
    """
    rng = np.random.default_rng(3)
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device.target)
    values, out = (
        graph.add_variable(FLOAT, (tiles, 64), "values"),
        graph.add_variable(FLOAT, (distinct, tiles), "out"),
    )
    for tile in range(tiles):
        graph.set_tile_mapping(values[tile], tile)
    graph.set_initial_value(values, 1.0)
    sets = []
    for which in range(distinct):
        compute_set = graph.add_compute_set(f"set {which}")
        for tile, (to, length) in enumerate(
            zip(rng.permutation(tiles), rng.integers(1, 64, tiles), strict=True)
        ):
            graph.set_tile_mapping(out[which, tile], int(to))
            vertex = graph.add_vertex(
                compute_set, Total, values=values[tile, : int(length)], out=out[which, tile]
            )
            graph.set_tile_mapping(vertex, tile)
        sets.append(Execute(compute_set))
    engine = Engine(graph, Repeat(supersteps // distinct, Sequence(*sets)))
    engine.load(device)
    engine.run()
    return show.bsp(engine.report)


def whole_chip() -> View:
    """Return the view of a run on 1,472 tiles with 200 supersteps, 8 of them distinct."""
    return busy_machine(1472, 8, 200)


def forty_thousand() -> Engine:
    """Return a loaded engine on 13 tiles with 20,000 rounds of a compute set and a copy."""
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph = Graph(device.target)
    values, sums, received = (
        graph.add_variable(FLOAT, shape, "v") for shape in ((13, 64), (13,), (13,))
    )
    graph.set_initial_value(values, 1.0)
    compute_set = graph.add_compute_set("total")
    for tile in range(13):
        vertex = graph.add_vertex(
            compute_set, Total, values=values[tile, : 64 - 3 * tile], out=sums[tile]
        )
        for mapped in (vertex, values[tile], sums[tile], received[(tile + 1) % 13]):
            graph.set_tile_mapping(mapped, tile)
    engine = Engine(graph, Repeat(20_000, Sequence(Execute(compute_set), Copy(sums, received))))
    engine.load(device)
    return engine


def long_run() -> tuple[Work, Work]:
    """Return two functions to time: making the view of 40,000 supersteps, and running them.

    The run includes its report.
    """
    engine = forty_thousand()
    report = _ran(engine)
    return lambda: show.bsp(replace(report))._repr_html_(), lambda: _ran(engine)


def _ran(engine: Engine) -> Report:
    engine.reset_execution_profile()
    engine.run()
    return engine.report


def kilobytes(view: View) -> float:
    """Return the size of a view in a notebook, in kilobytes.

    It includes the data, the poster, the table and the compressed player.
    """
    return len(view._repr_html_().encode()) / 1000


def find_chromium() -> str | None:
    """Return the path of a Chromium on PATH, or None if there is none."""
    return (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )


def milliseconds_a_frame() -> float:
    """Return the median milliseconds that the player takes to draw a frame of a full chip.

    The frames include the texts of the view.

    :raises InvalidOptionError: if Playwright or Chromium is missing.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise InvalidOptionError("""--browser needs Playwright, which is not installed.
            next:  python -m pip install -e .[e2e]""") from None
    chromium = find_chromium()
    if chromium is None:
        raise InvalidOptionError(
            "--browser needs Chromium, which is not on PATH.",
            next_step="install your system's Chromium.",
        )
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        opened = browser.new_page()
        opened.set_content(page(whole_chip()))
        opened.wait_for_selector(".ipu-live")
        # This first call also draws the parts that later calls read from a cache.
        opened.evaluate(DRAW_ALL)
        taken = [float(opened.evaluate(DRAW_ALL)) for _ in range(ROUNDS)]
        browser.close()
    return median(taken)


ROWS = [
    Row(
        "v1",
        "JavaScript of a frame, 1,472 tiles x 200 supersteps",
        "milliseconds",
        4.0,
        milliseconds_a_frame,
        1,
    ),
    Row("v2", "the player itself", "kB", 25.0, lambda: len(player().encode()) / 1000, 1),
    Row(
        "v3",
        "the view of a run on 13 tiles, whole",
        "kB",
        30.0,
        lambda: kilobytes(busy_machine(13, 3, 9)),
        1,
    ),
    Row(
        "v4",
        "the same, 1,472 tiles x 200 supersteps, 8 distinct",
        "kB",
        150.0,
        lambda: kilobytes(whole_chip()),
        1,
    ),
    Row("v5", "the view of a run of 40,000 supersteps", "the run and its report", 0.5, long_run),
    Row(
        "v6",
        "the same view, whole",
        "kB",
        150.0,
        lambda: kilobytes(show.bsp(_ran(forty_thousand()))),
        1,
    ),
]
