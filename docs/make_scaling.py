"""Make the tables and pictures of docs/scaling.md: `python docs/make_scaling.py`.

It takes a minute or two, and less with `--processes 8`. With `--whole` it prints the tables of heat
on whole chips, which takes eight times as long.

Two programs run on 1 to 64 IPUs: once with the same total work on all machines (strong scaling),
and once with the same work per IPU (weak scaling). The training of ResNet-50 on 16 to 256 IPUs is
estimated, and compared with published throughput.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("scaling.md")
sys.path[:0] = str(PAGE.parent), str(PAGE.parents[1])

import numpy as np  # noqa: E402
from marks import write_between  # noqa: E402

from bench.heat import Heat  # noqa: E402
from ipu_teach import FLOAT, Device, Graph, Report, Sweep, show, sweep  # noqa: E402
from ipu_teach.estimate.result import Estimate  # noqa: E402
from ipu_teach.poplibs import gcl, poplin, poputil  # noqa: E402
from ipu_teach.program import Execute, Program, Sequence  # noqa: E402
from ipu_teach.show import palette  # noqa: E402
from ipu_teach.show.panels import Panels, painted, side_by_side  # noqa: E402
from ipu_teach.show.scene import Still  # noqa: E402
from ipu_teach.show.trend import trend  # noqa: E402
from ipu_teach.show.view import View  # noqa: E402
from validation.networks import RESNETS, Images, resnet  # noqa: E402

IPUS = (1, 2, 4, 8, 16, 32, 64)
# The number of tiles of a small IPU: an eighth of those of a full one.
EIGHTH = 184
# Maps each number of tiles per IPU to the (rows, columns) of their grid.
BLOCKS = {EIGHTH: (8, 23), 1472: (32, 46)}
SIDE = 64  # The side of a tile's block of the plate on one IPU, in points.
PART = 32  # The same on any number of IPUs, for a plate that grows with their number.
# The product is [ROWS, INNER] x [INNER, INNER].
ROWS, INNER = 1024, 512
EACH = 256  # The number of rows of each IPU if the product grows with the number of IPUs.
NAMES = {
    "compute": "compute",
    "exchange": "exchange",
    "exchange between IPUs": "links",
    "sync and waiting": "sync and waiting",
}


def halves(ipus: int) -> tuple[int, int]:
    """Return (rows, columns) of a grid of `ipus` IPUs, as square as powers of two allow."""
    down = 1 << ipus.bit_length() // 2
    return down, ipus // down


def heat(device: Device, grows: bool) -> tuple[Graph, Program]:
    """Return the graph and the program of a time step of the heat equation on a plate.

    Each IPU has a block of the plate, and each of its tiles has a block of that block. With
    `grows`, the plate grows with the number of IPUs.
    """
    graph, (down, across) = Graph(device), halves(device.target.num_ipus)
    part_height, part_width = (PART, PART) if grows else (SIDE // down, SIDE // across)
    tiles_per_ipu = device.target.tiles_per_ipu
    rows, columns = BLOCKS[tiles_per_ipu]
    shape = rows * down * part_height + 2, columns * across * part_width + 2
    current, following = (graph.add_variable(FLOAT, shape, name) for name in ("now", "then"))
    graph.set_initial_value(current, 1)
    step, workers = graph.add_compute_set("step"), device.target.num_worker_contexts
    row_bounds = [part_height * worker // workers for worker in range(workers + 1)]
    for tile_row, tile_column in product(range(rows * down), range(columns * across)):
        ipu, tile_in_ipu = (
            tile_row // rows * across + tile_column // columns,
            tile_row % rows * columns + tile_column % columns,
        )
        tile = ipu * tiles_per_ipu + tile_in_ipu
        top, left = 1 + tile_row * part_height, 1 + tile_column * part_width
        part_of_tile = (
            slice(top - (tile_row == 0), top + part_height + (tile_row == rows * down - 1)),
            slice(
                left - (tile_column == 0), left + part_width + (tile_column == columns * across - 1)
            ),
        )
        for plate in (current, following):
            graph.set_tile_mapping(plate[part_of_tile], tile)
        for first_row, end_row in zip(row_bounds[:-1], row_bounds[1:], strict=True):
            written = slice(top + first_row, top + end_row), slice(left, left + part_width)
            neighbourhood = (
                slice(top + first_row - 1, top + end_row + 1),
                slice(left - 1, left + part_width + 1),
            )
            vertex = graph.add_vertex(step, Heat, x=current[neighbourhood], y=following[written])
            graph.set_tile_mapping(vertex, tile)
    return graph, Execute(step)


def matrices(device: Device, grows: bool) -> tuple[Graph, Program]:
    """Return the graph and the program of a matrix product; each IPU has rows of both operands.

    Each IPU first gathers the entire right operand. With `grows`, the number of rows grows with the
    number of IPUs.
    """
    num_ipus, program = device.target.num_ipus, Sequence()
    graph, rows = Graph(device, num_ipus), EACH if grows else ROWS // num_ipus
    right_shape = INNER, INNER
    left = poplin.create_mat_mul_input_lhs(graph, FLOAT, (rows, INNER), right_shape, "left")
    share = graph.add_variable(FLOAT, (INNER // num_ipus, INNER), "share")
    poputil.map_tensor_linearly(graph, share)
    for tensor in (left, share):
        graph.set_initial_value(tensor, 1)
    right = share
    if num_ipus > 1:
        right = gcl.all_gather_cross_replica(graph, share, program).reshape(right_shape)
    poplin.mat_mul(graph, left, right, program)
    return graph, program


CURVES: dict[str, tuple[Callable[..., Any], bool]] = {
    "heat_strong": (heat, False),
    "heat_weak": (heat, True),
    "product_strong": (matrices, False),
    "product_weak": (matrices, True),
}


def found(
    name: str, ipus: Iterable[int] = IPUS, executor: Executor | None = None, tiles: int = EIGHTH
) -> Sweep:
    """Return a sweep: the reports of the program `name` for each number of IPUs in `ipus`."""
    build, grows = CURVES[name]
    program = partial(build, grows=grows)
    return sweep(program, num_ipus=ipus, tiles_per_ipu=tiles, executor=executor)


def row(report: Report, first: Report, grows: bool) -> str:
    """Return a table row for a report; `first` is the report of the same program on one IPU.

    `grows` is True if the work grows with the number of IPUs.
    """
    share_by_name = {name: report.proportions[part] for part, name in NAMES.items()}
    gain = first.total_cycles / report.total_cycles
    ideal = 1 if grows else report.target.num_ipus
    ideal_and_bound = (
        f"{gain / ideal:.0%}",
        max(share_by_name, key=lambda part: share_by_name[part]),
    )
    share_texts = (f"{share:.1%}" for share in share_by_name.values())
    speed_text = f"{gain * (report.target.num_ipus if grows else 1):.2f}"
    cells = (
        f"{report.target.num_ipus}",
        f"{report.total_cycles:,.0f}",
        speed_text,
        *ideal_and_bound,
        *share_texts,
    )
    return f"| {' | '.join(cells)} |"


def table(curve: Sweep, grows: bool) -> str:
    """Return a table with a row for each number of IPUs."""
    headings = (
        "IPUs",
        "modelled cycles",
        "speed-up",
        "efficiency",
        "bound by",
        *NAMES.values(),
    )
    return "\n".join(
        [
            f"| {' | '.join(headings)} |",
            "|" + "---|" * len(headings),
            *(row(report, curve.reports[0], grows) for report in curve.reports),
        ]
    )


# --- the training of ResNet-50 --------------------------------------------------------------------

TRAINING = "resnet50"
Runs = list[tuple[Images, Estimate]]


def training() -> Runs:
    """Return the published runs of MLPerf Training 1.1 with their estimates, by number of IPUs."""
    return [(run, resnet(run)) for run in RESNETS if run.optimiser == "lars"]


def training_table(runs: Runs) -> str:
    """Return a table with a row for each number of IPUs: published and estimated throughput."""
    headings = (
        "IPUs",
        "micro-batches in a step",
        "published images/s",
        "estimated images/s",
        "ratio",
        "published cycles of a step",
        "estimated cycles of a step",
        "of these, the update",
    )
    rows = [
        (
            f"{run.replicas}",
            f"{run.accumulation}",
            f"{run.published:,}",
            f"{estimate.throughput:,.0f}",
            f"{estimate.throughput / run.published:.2f}",
            *(
                f"{cycles / 1e6:.1f} M"
                for cycles in (_published_cycles(run, estimate), estimate.cycles, estimate.update)
            ),
        )
        for run, estimate in runs
    ]
    ruler = ("---",) * len(headings)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, ruler, *rows))


def _published_cycles(run: Images, estimate: Estimate) -> float:
    """Return the cycles of a step, from the published throughput and the clock of the estimate."""
    return estimate.samples_per_step / run.published * estimate.target.tile_clock_frequency


def training_picture(runs: Runs) -> View:
    """Return a picture of the images per second per IPU, published and estimated."""
    width, height, top = 652.0, 190.0, 2400
    estimated = [round(estimate.throughput / run.replicas) for run, estimate in runs]
    published = [round(run.published / run.replicas) for run, _ in runs]
    labels = [f"{run.replicas} IPUs" for run, _ in runs]
    texts = [
        f"{label}: {mine:,} images per second and IPU estimated, {theirs:,} published"
        for label, mine, theirs in zip(labels, estimated, published, strict=True)
    ]
    shapes = trend(
        np.array(estimated),
        top,
        {},
        labels,
        marked={k: f"{count:,}" for k, count in enumerate(estimated)},
        width=width,
        height=height,
        axis=f"to {top:,} images per second and IPU",
        foot="number of IPUs",
        ideal=np.array(published),
    )
    curve = painted(
        "runs",
        "dark: estimated, pale: published",
        width,
        height,
        pictures=[shapes],
        places=side_by_side(len(runs), width, height + 18),
        labels=texts,
        say="{label}",
    )
    panels = Panels()
    panels.put(curve, left=34)
    beside = "; ".join(
        f"{label}: {theirs:,}" for label, theirs in zip(labels, published, strict=True)
    )
    return View(
        panels.scene(
            "sweep",
            f"From {runs[0][0].replicas} to {runs[-1][0].replicas} IPUs, the estimate loses "
            f"{1 - estimated[-1] / estimated[0]:.0%} of its throughput per IPU, and the machines "
            f"lost {1 - published[-1] / published[0]:.0%}",
            "; ".join(texts) + ".",
            foot=38,
            codes=(palette.PAPER,),
            stills=(Still("published", beside, 0, 0, first=True),),
            table=(
                ("IPUs", "estimated", "published"),
                [
                    (label, f"{mine:,}", f"{theirs:,}")
                    for label, mine, theirs in zip(labels, estimated, published, strict=True)
                ],
            ),
            notes=("The dark line is the estimate. The pale line is the published throughput.",),
        )
    )


def main() -> None:
    """Write the tables into the page, and the pictures next to it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    names = [*CURVES, TRAINING]
    parser.add_argument("names", nargs="*", default=names, help=", ".join(names))
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        for name in options.names:
            if name == TRAINING:
                if not options.whole:
                    runs = training()
                    training_picture(runs).save(PAGE.with_name(f"scaling_{name}.svg"))
                    write_between(PAGE, name, training_table(runs))
                continue
            grows = CURVES[name][1]
            if options.whole:
                if "heat" in name:
                    print(table(found(name, executor=pool, tiles=1472), grows))
                continue
            curve = found(name, executor=pool)
            show.sweep(curve, weak=grows).save(PAGE.with_name(f"scaling_{name}.svg"))
            write_between(PAGE, name, table(curve, grows))


if __name__ == "__main__":
    main()
