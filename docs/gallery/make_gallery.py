"""Make the pictures of the gallery: python docs/gallery/make_gallery.py [--moving] [--lessons]

The views are SVG files, with equal bytes on every machine; a test compares them. `--moving` makes
the animation at the top of the project's README, for light and for dark pages.
`--lessons` photographs two lessons in Chromium, light and dark; it needs Playwright (the extra
`e2e`) and Chromium.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from bench.browser import Total, find_chromium  # noqa: E402
from ipu_course.checking.naming import lesson_of  # noqa: E402
from ipu_teach import (  # noqa: E402
    FLOAT,
    HALF,
    QUARTER,
    Engine,
    Graph,
    Input,
    IPUModel,
    Output,
    QuarterFormat,
    Report,
    SupervisorVertex,
    Vector,
    concat,
    show,
)
from ipu_teach.poplibs import gcl, poplin, poputil  # noqa: E402
from ipu_teach.poplibs.popsparse import CSRMatrix, dynamic  # noqa: E402
from ipu_teach.program import Copy, Execute, Repeat, Sequence  # noqa: E402
from ipu_teach.schedules import pipeline_schedule  # noqa: E402
from ipu_teach.show import View  # noqa: E402

LESSONS = ("01_bulk_synchronous_parallel", "02_variables_mapping_programs")


def rows_of_different_lengths(tiles: int, rounds: int = 3) -> Report:
    """Return the report of a program that sums two rows per tile and copies the sums elsewhere.

    Some rows are shorter than others. The sums are copied to other tiles.
    """
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device.target)
    rows = graph.add_variable(FLOAT, (2 * tiles, 256), "rows")
    sums = graph.add_variable(FLOAT, (2 * tiles,), "sums")
    again = graph.add_variable(FLOAT, (2 * tiles,), "sums again")
    compute_set = graph.add_compute_set("total")
    for row in range(2 * tiles):
        graph.set_tile_mapping(rows[row], row // 2)
        graph.set_tile_mapping(sums[row], row // 2)
        graph.set_tile_mapping(again[row], (row * 5 + 3) % tiles)
        vertex = graph.add_vertex(
            compute_set, Total, values=rows[row, : 256 - row * 37 % 200], out=sums[row]
        )
        graph.set_tile_mapping(vertex, row // 2)
    graph.set_initial_value(rows, 1.0)
    engine = Engine(graph, Repeat(rounds, Sequence(Execute(compute_set), Copy(sums, again))))
    engine.load(device)
    engine.run()
    return engine.report


def products(tiles: int, *, keep: bool = False) -> Report:
    """Return the report of a chain of seven matrix products.

    With `keep`, the host may read every product, so that all products stay in memory.
    """
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph, program = Graph(device.target), Sequence()
    product = graph.add_variable(FLOAT, (96, 80), "m0")
    poputil.map_tensor_linearly(graph, product)
    graph.set_initial_value(product, 0.5)
    for number, columns in enumerate((64, 112, 48, 96, 40, 72), start=1):
        factor = graph.add_variable(FLOAT, (product.shape[1], columns), f"m{number}")
        poputil.map_tensor_linearly(graph, factor)
        graph.set_initial_value(factor, 0.5)
        product = poplin.mat_mul(graph, product, factor, program, f"product {number}")
        if keep:
            graph.create_host_read(f"product {number}", product)
    graph.create_host_read("result", product)
    engine = Engine(graph, program)
    engine.load(device)
    engine.run()
    return engine.report


def readme_run() -> View:
    """Return a view of the recorded run of the program in the project's README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    source = next(
        block
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "engine.run()" in block
    )
    names: dict[str, Any] = {"__name__": "readme"}
    exec(source.split("engine.run()")[0], names)
    recording = names["engine"].record(*(names[name] for name in ("matrix", "vector", "result")))
    names["engine"].run()
    return show.run(recording)


class Job(SupervisorVertex):
    """Adds up the elements of a message. As a supervisor vertex, it runs alone on its tile."""

    message: Input[Vector[FLOAT]]
    total: Output[FLOAT]

    def compute(self) -> None:
        self.total = self.message.sum()


def slow_tile() -> View:
    """Return a view of two supersteps on 13 tiles.

    Tile 4 computes seven times as long as the other tiles.
    """
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph = Graph(device.target)
    messages = graph.add_variable(FLOAT, (13, 64), "messages")
    totals = graph.add_variable(FLOAT, (13,), "totals")
    jobs = graph.add_compute_set("jobs")
    for tile in range(13):
        job = graph.add_vertex(jobs, Job, message=messages[(tile + 1) % 13], total=totals[tile])
        graph.set_perf_estimate(job, 700 if tile == 4 else 100)
        for part in (job, messages[tile], totals[tile]):
            graph.set_tile_mapping(part, tile)
    graph.set_initial_value(messages, 1.0)
    engine = Engine(graph, Repeat(2, Execute(jobs)))
    engine.load(device)
    engine.run()
    return show.bsp(engine.report)


def patches_of_an_image() -> View:
    """Return a view of the 3 x 3 windows of an image of 6 x 6 with two channels.

    The elements of a pixel are next to each other in memory, or apart.
    """
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    beside = graph.add_variable(FLOAT, (1, 6, 6, 2), "beside")
    apart = graph.add_variable(FLOAT, (1, 2, 6, 6), "apart")
    for tensor in (beside, apart):
        poputil.map_tensor_linearly(graph, tensor)
    slices = [beside[:, i : i + 4, j : j + 4] for i in range(3) for j in range(3)]
    return show.patches(
        beside, concat(slices, 3).reshape((16, 18)), apart.dim_shuffle([0, 2, 3, 1])
    )


def a_pattern_that_spills() -> View:
    """Return a view of how the blocks of a sparse matrix fill the buckets of the tiles.

    All blocks fit. But most blocks are in a few rows, so the buckets of those rows are too small,
    and some blocks spill into the buckets of other tiles.
    """
    target = IPUModel("ipu2", tiles_per_ipu=13).create_device().target
    params = dynamic.MatMulParams.create_with_num_non_zero_values(60, 64, 8, 960, (4, 4))
    rng = np.random.default_rng(12)
    crowded = np.zeros((15, 16), bool)
    crowded[:4, :8] = True
    crowded.flat[64 + rng.permutation(176)[:24]] = True
    csr = CSRMatrix.from_dense(np.kron(crowded, np.ones((4, 4))), (4, 4))
    return show.sparse(dynamic.Partitioner(params, FLOAT, target), csr)


def all_reduced(ipus: int) -> Report:
    """Return the report of an all-reduce, by a ring, of 520 numbers on each of several IPUs."""
    device = IPUModel("ipu2", tiles_per_ipu=13, num_ipus=ipus).create_device()
    graph = Graph(device)
    tensors, program = [], Sequence()
    for ipu in range(ipus):
        part = graph.create_virtual_graph(13 * ipu, 13 * (ipu + 1))
        tensors.append(part.add_variable(FLOAT, (520,), f"on IPU {ipu}"))
        poputil.map_tensor_linearly(part, tensors[-1])
        graph.set_initial_value(tensors[-1], 1.0)
        graph.create_host_read(f"on IPU {ipu}", tensors[-1])
    options = {"method": "clockwise_ring"}
    gcl.all_reduce_in_place_within_replica(graph, tensors, "ADD", program, options=options)
    engine = Engine(graph, program)
    engine.load(device)
    engine.run()
    return engine.report


def a_matrix_and_its_transpose() -> View:
    """Return a view of a variable and its transpose, with two rows on each tile."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device().target)
    matrix = graph.add_variable(FLOAT, (8, 14), "matrix")
    for row in range(8):
        graph.set_tile_mapping(matrix[row], row // 2)
    return show.tiles(matrix, matrix.transpose())


VIEWS = {
    "bsp.svg": lambda: show.bsp(rows_of_different_lengths(13)),
    "bsp_chip.svg": lambda: show.bsp(rows_of_different_lengths(1472)),
    "run.svg": readme_run,
    "bsp_two.svg": lambda: show.bsp(
        rows_of_different_lengths(13), rows_of_different_lengths(13, 5)
    ),
    "balance.svg": lambda: show.balance(rows_of_different_lengths(1472)),
    "exchange.svg": lambda: show.exchange(rows_of_different_lengths(13)),
    "timeline.svg": lambda: show.timeline(rows_of_different_lengths(13)),
    "timeline_blocks.svg": lambda: show.timeline(
        rows_of_different_lengths(13), blocks=[0, 12], program_filter="^[a-z]+$"
    ),
    "program.svg": lambda: show.program(rows_of_different_lengths(13)),
    "memory.svg": lambda: show.memory(products(13)),
    "liveness.svg": lambda: show.liveness(products(13)),
    "liveness_two.svg": lambda: show.liveness(products(13), products(13, keep=True)),
    "tiles.svg": a_matrix_and_its_transpose,
    "sweep.svg": lambda: show.sweep(
        {n: products(n) for n in (2, 4, 8, 13, 26, 52)}, parameter="tiles"
    ),
    "numbers.svg": lambda: show.numbers(
        FLOAT, HALF, QUARTER[QuarterFormat.F143, 0], QUARTER[QuarterFormat.F152, 0], value=0.1
    ),
    "formats.svg": lambda: show.formats(
        np.random.default_rng(11).standard_normal(4096) / 500,
        QUARTER[QuarterFormat.F143, 0],
        QUARTER[QuarterFormat.F152, 0],
        coin=0.4,
    ),
    "patches.svg": patches_of_an_image,
    "sparse.svg": a_pattern_that_spills,
    "pipeline.svg": lambda: show.pipeline(pipeline_schedule(4, 8)),
    "ring.svg": lambda: show.ring(all_reduced(4)),
    "machine.svg": lambda: show.machine(IPUModel("ipu2").create_device()),
}


def photograph_lessons() -> None:
    """Photograph the first view of each lesson, and the text around it, light and dark."""
    from nbconvert import HTMLExporter
    from nbformat import read
    from playwright.sync_api import sync_playwright

    chromium = find_chromium()
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for lesson in LESSONS:
            notebook = read(ROOT / "notebooks" / "solutions" / f"{lesson}.ipynb", as_version=4)
            for theme in ("light", "dark"):
                text, _ = HTMLExporter(theme=theme).from_notebook_node(notebook)
                path = Path(folder) / "lesson.html"
                path.write_text(text, encoding="utf-8")
                page = browser.new_page(viewport={"width": 900, "height": 1000}, color_scheme=theme)
                page.route("http*://**", lambda route: route.abort())
                page.goto(path.as_uri())
                page.locator(".ipu-live").first.evaluate(
                    "box => scrollTo(0, box.getBoundingClientRect().top - 280)"
                )
                page.wait_for_timeout(300)
                page.screenshot(path=HERE / f"lesson_{lesson_of(lesson)}_{theme}.png")
                page.close()
        browser.close()


def question(view: View) -> str:
    """Return the question that a view answers: the first line of its function's docstring."""
    return str(getattr(show, view.scene.view).__doc__).strip().splitlines()[0]


def with_questions(text: str, views: dict[str, View]) -> str:
    """Return the text of a page with a question above each picture, and the answer below it.

    The question is that of the picture's view (see `question`), and the answer is the view's title.
    `views` maps the file name of each picture to its view.
    """
    text = re.sub(r"\*Question: .*\*\n\n|\n\n\*Answer: .*\*(?=\n)", "", text)

    def around(found: re.Match[str]) -> str:
        view = views[found[2]]
        answer = view.scene.title.replace("*", r"\*")
        return f"*Question: {question(view)}*\n\n{found[1]}\n\n*Answer: {answer}.*"

    names = "|".join(map(re.escape, views))
    return re.sub(rf"(!\[[^\]]*\]\(({names})\))", around, text)


def main() -> None:
    """Write the views and their questions; `--moving` and `--lessons` add pictures."""
    views = {name: make() for name, make in VIEWS.items()}
    for name, view in views.items():
        view.save(HERE / name)
    page = HERE / "README.md"
    page.write_text(with_questions(page.read_text("utf-8"), views), encoding="utf-8")
    if "--moving" in sys.argv[1:]:
        for theme in ("light", "dark"):
            slow_tile().save(HERE / f"slow_tile_{theme}.gif", dark=theme == "dark")
    if "--lessons" in sys.argv[1:]:
        photograph_lessons()


if __name__ == "__main__":
    main()
