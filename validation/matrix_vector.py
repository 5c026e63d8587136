"""Rows of tutorial 6, a matrix times a vector: its planner, its profile, and its run on a chip."""

from __future__ import annotations

from dataclasses import replace

from ipu_teach.graph.graph import Graph
from ipu_teach.report import Report
from validation import tut6
from validation.programs import UNPUBLISHED_SCHEDULE, machine, profile
from validation.row import MODEL, SILICON, Row, Source

README = Source(MODEL, "graphcore/examples, tutorials/poplar/tut6_matrix_vector_opt, README")
TESTS = Source(MODEL, "graphcore/examples, tutorials/poplar/tut6_matrix_vector_opt, tests")
ON_MODEL = README.at("tut6 10000 1000, ipu2 model")
CHIP = replace(README, kind=SILICON).at("tut6 10000 1000, ipu2 chip")
UNIT = "cycles, average of tiles"
ROWS, COLS, SPLIT = 10_000, 1_000, 7


def planner() -> list[Row]:
    """Return the table rows for the tutorial's planner, which divides each row into pieces.

    The formulae of the planner are computed with the worker threads and the exchange of the kit's
    model.
    """
    plans_of_ipu1, plans_of_ipu2 = (
        tut6.plans(ROWS, COLS, machine(version)) for version in ("ipu1", "ipu2")
    )
    best = min(plans_of_ipu2, key=lambda plan: plan.total)
    reason = "the tutorial's own formulae, with the workers and the exchange of our machine"
    subject = "tut6 10000 1000, planner, ipu{}"
    source = README.at(subject.format(2))
    return [
        source.row("pieces of a row", 7, modelled=best.split, tolerance=0, why=reason),
        source.row(
            "compute cycles of the best", 3_696, modelled=best.multiply, tolerance=0, why=reason
        ),
        source.row(
            "exchange cycles of the best",
            143,
            modelled=best.exchange,
            tolerance=0,
            why="this figure fixed exchange_bytes_per_cycle: only the value 4 gives it",
            calibrates=True,
        ),
        source.row(
            "reduce exchange cycles of the best",
            49,
            modelled=best.reduce_exchange,
            tolerance=0,
            why=reason,
        ),
        source.row(
            "reduce compute cycles of the best", 108, modelled=best.reduce, tolerance=0, why=reason
        ),
        source.row("total cycles of the best", 3_996, modelled=best.total, tolerance=0, why=reason),
        *(
            TESTS.at(subject.format(generation)).row(
                "total cycles of the worst",
                most_cycles,
                modelled=max(plan.total for plan in plans),
                tolerance=0,
                why=reason,
            )
            for generation, most_cycles, plans in (
                (2, 53_807, plans_of_ipu2),
                (1, 64_373, plans_of_ipu1),
            )
        ),
    ]


def _profile(looped: bool = False) -> Report:
    """Return the report of the tutorial's program on a full chip, with the tutorial's sync delays.

    With `looped`, the codelet is a loop over elements.
    """
    graph = Graph(machine("ipu2", relative_sync_delay="NO_DELAY"))
    return profile(
        graph, tut6.build(graph, ROWS, COLS, SPLIT, tut6.LoopDotProduct if looped else None)
    )


def _phases(report: Report) -> list[Row]:
    """Return the rows of the cycles of each phase: compute, exchange, host exchange and sync."""
    return [
        ON_MODEL.row(
            f"compute including idle threads ({UNIT})",
            3_801.8,
            modelled=float(report.compute_cycles_per_tile.mean()),
            tolerance=0.005,
            why="it is not documented which worker runs which vertex",
        ),
        ON_MODEL.row(
            f"compute excluding idle threads ({UNIT})",
            3_717.6,
            modelled=float(report.active_cycles_per_tile.mean()),
            tolerance=0.001,
            why="some tiles have one or two vertices more than in the tutorial",
        ),
        ON_MODEL.row(
            f"exchange ({UNIT})",
            8_697.4,
            modelled=float(report.exchange_cycles_per_tile.mean()),
            tolerance=0.15,
            why=UNPUBLISHED_SCHEDULE,
        ),
        ON_MODEL.row(
            f"global exchange ({UNIT})",
            0,
            modelled=float(report.global_exchange_cycles),
            tolerance=0,
            why="one IPU uses no links",
        ),
        ON_MODEL.row(
            f"host exchange ({UNIT})",
            6_663_550.8,
            modelled=report.host_exchange_cycles,
            tolerance=0.002,
            why="fixed host_bytes_per_second, rounded to 8 GB/s",
            calibrates=True,
        ),
        ON_MODEL.row(
            f"sync ({UNIT})",
            1_134.8,
            modelled=float(report.sync_cycles_per_tile.mean()),
            tolerance=0.05,
            why=(
                "no delay is set, so all of it is waiting for tiles that compute or exchange longer"
            ),
        ),
    ]


def on_the_model() -> list[Row]:
    """Return the table rows for the profile of Graphcore's model, which tutorial 6 prints."""
    report = _profile()
    return [
        *_phases(report),
        ON_MODEL.row(
            "total (cycles)",
            6_681_766,
            modelled=report.total_cycles,
            tolerance=0.005,
            why="99.7 % of it is the host exchange, which fixed a constant",
            calibrates=True,
        ),
        ON_MODEL.row(
            "time of 6,681,766 cycles (microseconds)",
            5_023.9,
            modelled=6_681_766 / report.target.tile_clock_frequency * 1e6,
            tolerance=1e-4,
            why="fixed tile_clock_frequency of ipu2",
            calibrates=True,
        ),
        CHIP.row(
            f"exchange ({UNIT})",
            8_743.1,
            modelled=float(report.exchange_cycles_per_tile.mean()),
            tolerance=0.15,
            why=UNPUBLISHED_SCHEDULE,
        ),
    ]


def on_the_chip() -> list[Row]:
    """Return the table rows for tutorial 6 on an IPU.

    The tutorial's C++ vertex is a loop over elements.
    """
    report = _profile(looped=True)
    at_chip_rate = report.what_if(host_bytes_per_second=report.target.silicon_host_bytes_per_second)
    return [
        CHIP.row(
            f"compute including idle threads ({UNIT})",
            28_300.3,
            modelled=float(report.compute_cycles_per_tile.mean()),
            tolerance=0.05,
            why=(
                "counted from the loop: two loads, a product and a sum for each element; "
                "the work before and after the compiler's loop is a guess"
            ),
        ),
        CHIP.row(
            f"host exchange ({UNIT})",
            2_641_488.4,
            modelled=at_chip_rate.host_exchange_cycles,
            tolerance=0.002,
            why="fixed silicon_host_bytes_per_second, rounded to 20.2 GB/s",
            calibrates=True,
        ),
        CHIP.unmodelled(
            f"sync ({UNIT})",
            135_849.6,
            "the tiles wait for the host, and the kit has no model of the host",
        ),
        CHIP.unmodelled(
            "total (cycles)",
            25_444_984,
            "nine tenths of the time are the host's preparation of the streams, and the "
            "kit has no model of it",
        ),
    ]
