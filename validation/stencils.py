"""Published cycles of grids on many tiles, each as a row next to the kit's figure.

The figures are for a halo exchange by copies, on Graphcore's model, and for a blur on GC2 chips.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.cost.rearrange import copy_cycles
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.vertex import template
from ipu_teach.graph.vertex_table import FieldValue
from ipu_teach.target import COMPILED
from ipu_teach.types import FLOAT, HALF
from validation import blur, halo
from validation.profiles import LBM
from validation.programs import machine, one_vertex, profile
from validation.row import PROGRAMS, SILICON, TOLERANCES, VERTICES, Row, Source

PHASES_OF_BLUR = Source(
    SILICON, "thorbenlouw/lbm-graphcore, experiments/gaussian-blur-scaling/exchange-vs-compute.csv"
)
WITHIN = TOLERANCES[PROGRAMS]
PHASES = (
    ("total", 147_570),
    ("compute including idle threads", 129_556.1),
    ("compute excluding idle threads", 108_864.5),
    ("exchange", 9_262.3),
    ("sync", 8_751.6),
)
FIXED = (
    "fixed a constant, START or PIECE of cost/rearrange.py, by its copy vertices, which are most "
    "of it"
)
OTHERS = (
    ("explicitManyTensors", 315_370),
    ("explicitOneTensor", 178_569_036),
    ("explicitOneTensorGroupedDirs", 147_530),
)


def halos() -> list[Row]:
    """Return the table rows for the halo exchange by copies in two waves, on a model of the GC2.

    The exchange goes ten times back and forth between two grids of 100 x 100 FLOAT on each tile.
    """
    graph = Graph(machine("ipu1"))
    report = profile(graph, halo.two_waves(graph))
    cycles_per_tile = (
        report.compute_cycles_per_tile,
        report.active_cycles_per_tile,
        report.exchange_cycles_per_tile,
        report.sync_cycles_per_tile,
    )
    schedule_reason = (
        "Poplar's schedule of sends is not published; the model has a perfect schedule, "
        "without collisions between senders"
    )
    sync_reason = (
        "a handful of steps, each with the sync that the halo exchange above fixed, and waiting"
    )
    modelled_phases = (report.total_cycles, *(float(cycles.mean()) for cycles in cycles_per_tile))
    rows = [
        LBM.row(
            f"halo exchange, explicitOneTensor2Wave, ipu1 model: {phase} "
            f"(cycles{', average of tiles' * (phase != 'total')})",
            published,
            modelled=modelled,
            tolerance=WITHIN,
            why=why,
            calibrates=why == FIXED,
        )
        for (phase, published), modelled, why in zip(
            PHASES,
            modelled_phases,
            (FIXED, FIXED, FIXED, schedule_reason, sync_reason),
            strict=True,
        )
    ]
    in_sequence = (
        "Poplar runs many of these copies one after another, and its rule for this is not published"
    )
    return rows + [
        LBM.unmodelled(f"halo exchange, {name}, ipu1 model: total (cycles)", published, in_sequence)
        for name, published in OTHERS
    ]


# The copy vertices of the halo exchange: (name, pieces and bytes that six vertices move, average
# worker cycles of one vertex). The pieces and bytes are our guess.
COPIES = (
    ("DstStridedCopyDA32, a column of 102", 102, 408, 801.0),
    ("DstStridedCopyDA32, a column of 100", 100, 400, 786.0),
    ("ShortMemcpy", 1, 4, 83.04),
    ("DstLongStridedCopy", 100, 40_800, 1_579.2),
)


def copies() -> list[Row]:
    """Return the table rows for vertices that move data within a tile."""
    target = machine("ipu1")
    rows = []
    for name, pieces, num_bytes, published in COPIES:
        worker_cycles = float(
            copy_cycles(np.array([pieces]), np.array([num_bytes]), target)[1][0]
        ) / min(pieces, 6)
        reason = (
            FIXED
            if "column" in name
            else "computed with the constants that the rows for columns fixed; the data "
            "that it moves is our guess"
        )
        subject = f"poplar_rt::{name}, ipu1 model (worker cycles)"
        rows.append(
            LBM.row(
                subject,
                published,
                modelled=worker_cycles,
                tolerance=TOLERANCES[VERTICES],
                why=reason,
                calibrates=reason == FIXED,
            )
        )
    return rows


def blurs() -> list[Row]:
    """Return the table rows for a pass of a blur over 2,200 x 1,122 pixels with four channels.

    The pass was measured on one IPU and on sixteen IPUs.
    """
    half_blur = template(blur.VectorBlur, "HalfBlur", {FLOAT: HALF})
    codelets = (
        ("float", blur.Blur, 210_249, 13_152),
        ("float2", blur.VectorBlur, 100_257, 7_914),
        ("half4", half_blur, 63_531, 4_446),
    )
    rows = []
    float_cycles = 0
    reason = (
        "counted from one loop; the chip's has nine, for corners, edges and the middle, with "
        "addresses of their own"
    )
    for name, codelet, cycles_on_one, cycles_on_sixteen in codelets:
        # Each worker processes a sixth of a tile's pixels: 5 rows of 69 pixels on 1,216 tiles, or 3
        # rows of 7 pixels on 19,456 tiles.
        for ipus, published, (height, width) in (
            (1, cycles_on_one, (5, 69)),
            (16, cycles_on_sixteen, (3, 7)),
        ):
            shapes: dict[str, FieldValue] = {
                "inner": ((height + 2) * (width + 2) * 4,),
                "out": (height * width * 4,),
                "width": width,
            }
            cycles = one_vertex(codelet, shapes, "ipu1", codelet_prices=COMPILED)
            # The first item of the loop is "float" on one IPU.
            float_cycles = float_cycles or cycles
            rows.append(
                PHASES_OF_BLUR.row(
                    f"blur, {name}, {ipus} IPU{'s' * (ipus > 1)}: compute (cycles)",
                    published,
                    modelled=cycles,
                    tolerance=WITHIN,
                    why=reason,
                    explained=True,
                )
            )
    graph = Graph(machine("ipu1"))
    report = profile(graph, blur.build(graph, FLOAT, float_cycles // 6))
    cost = report.compute_sets[0].cost
    rows.append(
        PHASES_OF_BLUR.row(
            "blur, float, 1 IPU: exchange (cycles)",
            1_173,
            modelled=cost.exchange_duration,
            tolerance=WITHIN,
            why="it is not published how the image was divided into blocks; the blocks "
            "of the kit are nearly square",
        )
    )
    return rows
