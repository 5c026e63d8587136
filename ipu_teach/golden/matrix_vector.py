"""Tutorial 6, a matrix times a vector: its planner, its profile on Graphcore's model, and its run
on a chip."""

from __future__ import annotations

from ipu_teach.golden import tut6
from ipu_teach.golden.programs import machine, profile
from ipu_teach.golden.row import MODEL, SILICON, Row, not_modelled
from ipu_teach.graph.graph import Graph
from ipu_teach.report import Report

README = "graphcore/examples, tutorials/poplar/tut6_matrix_vector_opt, README"
TESTS = "graphcore/examples, tutorials/poplar/tut6_matrix_vector_opt, tests"
ROWS, COLS, SPLIT = 10_000, 1_000, 7


def planner() -> list[Row]:
    """The tutorial's estimates for cutting a row into pieces, from our machine's workers and
    exchange."""
    ipu1, ipu2 = (tut6.plans(ROWS, COLS, machine(version)) for version in ("ipu1", "ipu2"))
    best = min(ipu2, key=lambda plan: plan.total)
    exact = "the tutorial's own formulae, with the workers and the exchange of our machine"
    set_up = "tut6 10000 1000, planner"
    return [
        Row(f"{set_up}, ipu2: pieces of a row", MODEL, README, 7, best.split, 0, exact),
        Row(
            f"{set_up}, ipu2: compute cycles of the best",
            MODEL,
            README,
            3_696,
            best.multiply,
            0,
            exact,
        ),
        Row(
            f"{set_up}, ipu2: exchange cycles of the best",
            MODEL,
            README,
            143,
            best.exchange,
            0,
            "fixed exchange_bytes_per_cycle: only 4 gives it",
            calibrates=True,
        ),
        Row(
            f"{set_up}, ipu2: reduce exchange cycles of the best",
            MODEL,
            README,
            49,
            best.reduce_exchange,
            0,
            exact,
        ),
        Row(
            f"{set_up}, ipu2: reduce compute cycles of the best",
            MODEL,
            README,
            108,
            best.reduce,
            0,
            exact,
        ),
        Row(
            f"{set_up}, ipu2: total cycles of the best", MODEL, README, 3_996, best.total, 0, exact
        ),
        Row(
            f"{set_up}, ipu2: total cycles of the worst",
            MODEL,
            TESTS,
            53_807,
            max(p.total for p in ipu2),
            0,
            exact,
        ),
        Row(
            f"{set_up}, ipu1: total cycles of the worst",
            MODEL,
            TESTS,
            64_373,
            max(p.total for p in ipu1),
            0,
            exact,
        ),
    ]


def _profile(looped: bool = False) -> Report:
    """The tutorial's program on the whole chip, with the sync delays that the tutorial sets."""
    graph = Graph(machine("ipu2", relative_sync_delay="NO_DELAY"))
    return profile(
        graph, tut6.build(graph, ROWS, COLS, SPLIT, tut6.LoopDotProduct if looped else None)
    )


def on_the_model() -> list[Row]:
    """The profile that the tutorial prints."""
    report = _profile()
    average, set_up = "cycles, average of tiles", "tut6 10000 1000, ipu2 model"
    exchange = float(report.exchange_cycles_per_tile.mean())
    schedule = (
        "Poplar's schedule of sends is not published; ours is a perfect one, without collisions "
        "between senders"
    )
    return [
        Row(
            f"{set_up}: compute including idle threads ({average})",
            MODEL,
            README,
            3_801.8,
            float(report.compute_cycles_per_tile.mean()),
            0.005,
            "which vertex goes to which worker is not documented",
        ),
        Row(
            f"{set_up}: compute excluding idle threads ({average})",
            MODEL,
            README,
            3_717.6,
            float(report.active_cycles_per_tile.mean()),
            0.001,
            "a vertex or two more on some tiles than in the tutorial",
        ),
        Row(f"{set_up}: exchange ({average})", MODEL, README, 8_697.4, exchange, 0.15, schedule),
        Row(
            f"{set_up}: global exchange ({average})",
            MODEL,
            README,
            0,
            float(report.global_exchange_cycles),
            0,
            "one IPU uses no links",
        ),
        Row(
            f"{set_up}: host exchange ({average})",
            MODEL,
            README,
            6_663_550.8,
            report.host_exchange_cycles,
            0.002,
            "fixed host_bytes_per_second, rounded to 8 GB/s",
            calibrates=True,
        ),
        Row(
            f"{set_up}: sync ({average})",
            MODEL,
            README,
            1_134.8,
            float(report.sync_cycles_per_tile.mean()),
            0.05,
            "no delay is set, so all of it is waiting for tiles that compute or exchange longer",
        ),
        Row(
            f"{set_up}: total (cycles)",
            MODEL,
            README,
            6_681_766,
            report.total_cycles,
            0.005,
            "99.7 % of it is the host exchange, which fixed a constant",
            calibrates=True,
        ),
        Row(
            f"{set_up}: time of 6,681,766 cycles (microseconds)",
            MODEL,
            README,
            5_023.9,
            6_681_766 / report.target.tile_clock_frequency * 1e6,
            1e-4,
            "fixed tile_clock_frequency of ipu2",
            calibrates=True,
        ),
        Row(
            f"tut6 10000 1000, ipu2 chip: exchange ({average})",
            SILICON,
            README,
            8_743.1,
            exchange,
            0.15,
            schedule,
        ),
    ]


def on_the_chip() -> list[Row]:
    """The same program on an IPU, whose C++ vertex is a plain loop."""
    report = _profile(looped=True)
    faster = report.what_if(host_bytes_per_second=report.target.silicon_host_bytes_per_second)
    set_up = "tut6 10000 1000, ipu2 chip"
    return [
        Row(
            f"{set_up}: compute including idle threads (cycles, average of tiles)",
            SILICON,
            README,
            28_300.3,
            float(report.compute_cycles_per_tile.mean()),
            0.05,
            "counted from the loop: two loads, a product and a sum an element; what surrounds the "
            "compiler's loop is guessed",
        ),
        Row(
            f"{set_up}: host exchange (cycles, average of tiles)",
            SILICON,
            README,
            2_641_488.4,
            faster.host_exchange_cycles,
            0.002,
            "fixed silicon_host_bytes_per_second, rounded to 20.2 GB/s",
            calibrates=True,
        ),
        not_modelled(
            f"{set_up}: sync (cycles, average of tiles)",
            SILICON,
            README,
            135_849.6,
            "the tiles wait for the host, of which the kit has no model",
        ),
        not_modelled(
            f"{set_up}: total (cycles)",
            SILICON,
            README,
            25_444_984,
            "nine tenths are the host's preparation of the streams, of which the kit has no model",
        ),
    ]
