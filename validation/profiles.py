"""Rows of published profiles: a halo exchange, a chain of products, and operations on a chip."""

from __future__ import annotations

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph.graph import Graph
from ipu_teach.program import Repeat
from ipu_teach.report import Report
from ipu_teach.types import FLOAT
from validation import halo, programs
from validation.programs import (
    UNPUBLISHED_SCHEDULE,
    chained_products,
    machine,
    operations,
    profile,
)
from validation.row import MODEL, SILICON, Row, Source

LBM = Source(MODEL, "thorbenlouw/lbm-graphcore, experiments/halo-exchange-approaches/results.txt")
TUT4 = Source(MODEL, "graphcore/tutorials, tutorials/poplar/tut4_profiling, screenshots").at(
    "tut4, three matrices, ipu2 model"
)
LIGHT = Source(SILICON, "graphcore/examples, tutorials/popvision/lightweight_profiling, README")
ROUNDED = "printed with two or three digits"
# A text: why a figure of a product is not modelled, and the kit's own figure.
PLAN = "PopLibs' plan of the products is not published; the kit's plan has {:,} "


def halos() -> list[Row]:
    """Return the table rows for the implicit halo exchange, on Graphcore's model of the GC2.

    The exchange goes ten times back and forth between two grids of 100 x 100 FLOAT on each tile.
    """
    graph = Graph(machine("ipu1"))
    report = profile(graph, halo.build(graph))
    source = LBM.at("halo exchange, implicit, ipu1 model")
    unit = "cycles, average of tiles"
    return [
        source.row(
            f"compute including idle threads ({unit})",
            12_000,
            modelled=float(report.compute_cycles_per_tile.mean()),
            tolerance=0,
            why="20 supersteps of one vertex of 100 cycles, six workers",
        ),
        source.row(
            f"compute excluding idle threads ({unit})",
            2_000,
            modelled=float(report.active_cycles_per_tile.mean()),
            tolerance=0,
            why="20 supersteps of one vertex of 100 cycles",
        ),
        source.row(
            f"exchange ({unit})",
            5_682,
            modelled=float(report.exchange_cycles_per_tile.mean()),
            tolerance=0.05,
            why=UNPUBLISHED_SCHEDULE,
        ),
        source.row(
            f"sync ({unit})",
            3_328,
            modelled=float(report.sync_cycles_per_tile.mean()),
            tolerance=0.05,
            why="fixed auto_sync_delay of ipu1",
            calibrates=True,
        ),
        source.row(
            "total (cycles)",
            21_010,
            modelled=report.total_cycles,
            tolerance=0.02,
            why="the model of the exchange is incomplete; the sync is 16 % of the "
            "figure, and fixed a constant",
        ),
        *_zeroing(),
    ]


def _zeroing() -> list[Row]:
    """Return the rows for those vertices of the halo exchange that write zeros."""
    reason = (
        "in 2020, the year of the profile, zeroing had an estimator of its own; the kit "
        "uses the estimator of PopLibs' Fill of 2023"
    )
    return [
        LBM.row(
            "halo exchange, ipu1 model: 48 vertices popops::Zero<float> of 17 elements (worker "
            "cycles)",
            1_368,
            modelled=48 * float(vertices.fill(17, FLOAT)),
            tolerance=0.15,
            why=reason,
        ),
        LBM.row(
            "halo exchange, ipu1 model: 14,592 vertices popops::Zero2d<float> of 17 x 1 (worker "
            "cycles)",
            4_961_280,
            modelled=14_592 * float(vertices.fill_2d([1] * 17, FLOAT)),
            tolerance=0.15,
            why=reason,
        ),
    ]


def products() -> list[Row]:
    """Return the table rows for a chain of two products, on Graphcore's model of the GC200."""
    report = profile(*chained_products(machine("ipu2")))
    return [
        *_matrices(report),
        *_work_of_products(report),
        *_memory_of_products(report),
        *_control_data(report),
    ]


def _matrices(report: Report) -> list[Row]:
    """Return the rows of the memory of the machine, and of the memory of each matrix."""
    target = report.target
    memory = report.memory.by_variable()
    return [
        TUT4.row(
            "memory of a tile (kB of 1,024 bytes)",
            624,
            modelled=target.bytes_per_tile / 1024,
            tolerance=0,
            why="one of two sources of memory_bytes_per_tile",
            calibrates=True,
        ),
        TUT4.row(
            "memory of the IPU (MB of 1,048,576 bytes)",
            897,
            modelled=target.num_tiles * target.bytes_per_tile / 2**20,
            tolerance=0.001,
            why=ROUNDED,
        ),
        TUT4.row(
            "m1, always live (MB)",
            1.5,
            modelled=memory["m1"] / 2**20,
            tolerance=0.034,
            why=ROUNDED,
        ),
        TUT4.row(
            "m2, always live (kB)", 781, modelled=memory["m2"] / 1024, tolerance=0.001, why=ROUNDED
        ),
        TUT4.row(
            "m3, always live (kB)", 313, modelled=memory["m3"] / 1024, tolerance=0.002, why=ROUNDED
        ),
    ]


def _work_of_products(report: Report) -> list[Row]:
    """Return the rows of the cycles of the products, and of the number of their vertices."""
    cycles_of_products = {
        name: sum(
            int(compute_set.cost.compute_cycles.sum())
            for compute_set in report.compute_sets
            if compute_set.name.startswith(name)
        )
        for name in ("m4", "m5")
    }
    return [
        TUT4.row(
            "total (cycles)",
            34_655,
            modelled=report.total_cycles,
            tolerance=0.15,
            why="PopLibs' plan is not published: the kit's plan computes less, exchanges "
            "more, and has no compute sets that rearrange",
        ),
        TUT4.unmodelled(
            "product m4 (cycles of all tiles)",
            29_772_428,
            PLAN.format(cycles_of_products["m4"]) + "of compute",
        ),
        TUT4.unmodelled(
            "product m5 (cycles of all tiles)",
            15_494_904,
            PLAN.format(cycles_of_products["m5"]) + "of compute",
        ),
        TUT4.unmodelled(
            "vertices", 16_877, PLAN.format(report.graph_size()["vertices"]) + "vertices"
        ),
    ]


def _memory_of_products(report: Report) -> list[Row]:
    """Return the rows of the bytes by category and by region, and of the tiles in use."""
    categories = report.memory.by_category()
    regions = report.memory.by_region()
    gaps = int(report.memory.gaps_per_tile.sum())
    tiles_in_use = int(np.count_nonzero(report.active_cycles_per_tile))
    return [
        TUT4.unmodelled(
            "variables (bytes)",
            6_624_000,
            PLAN.format(categories["Variables"]) + "bytes, because it stores more partial sums",
        ),
        TUT4.unmodelled(
            "all memory but gaps (bytes)",
            59_894_241,
            PLAN.format(sum(categories.values())) + "bytes, because it stores more partial sums",
        ),
        TUT4.unmodelled(
            "all memory with gaps (bytes)",
            307_309_104,
            "Poplar reserves parts of memory for some data, which leaves gaps; the kit "
            "has gaps only between "
            f"variables: {gaps:,}",
        ),
        TUT4.unmodelled(
            "non-interleaved memory (bytes)",
            50_934_241,
            PLAN.format(regions["Non-interleaved"]) + "bytes in this memory, which is all its data",
        ),
        TUT4.unmodelled(
            "interleaved memory (bytes)",
            8_960_000,
            "6,400 bytes on each of 1,400 tiles; the kit puts nothing there while there is room "
            "elsewhere",
        ),
        TUT4.row(
            "overflowed memory (bytes)", 0, modelled=regions["Overflow"], tolerance=0, why="it fits"
        ),
        TUT4.unmodelled(
            "constants (bytes)",
            99_000,
            "it is not published which constants these are; "
            f"the kit has {categories['Constants']:,} bytes",
        ),
        TUT4.unmodelled(
            "tiles that are used", 1_400, PLAN.format(tiles_in_use) + "tiles with vertices"
        ),
        TUT4.unmodelled(
            "memory of such a tile (kB)",
            41.8,
            PLAN.format(round(sum(categories.values()) / tiles_in_use)) + "bytes a tile",
        ),
    ]


def _control_data(report: Report) -> list[Row]:
    """Return the rows of the data that is always live and belongs to no tensor of the program."""
    pointer_reason = (
        "Poplar packs the fields of a vertex in its own way; the kit stores edge pointers, "
        f"{report.memory.by_category()['Edge pointers']:,} bytes"
    )
    return [
        TUT4.unmodelled(f"{name}, always live ({unit_of_size})", published, why)
        for name, published, unit_of_size, why in (
            ("vertexInstanceState", 271, "kB", pointer_reason),
            ("vertexFieldData", 222, "kB", pointer_reason),
            ("worklists", 96.7, "kB", "the kit's vertices have none"),
            ("instrumentationResults", 66, "kB", "profiling costs nothing in the kit"),
            (
                "hostExchangePacketHeader",
                12.1,
                "kB",
                "the kit's program begins and ends without the host, because it streams no matrix",
            ),
            ("copyDescriptor", 3.1, "kB", "the kit's copies have none"),
            ("controlId", 8, "bytes", "the kit has none: its host knows which program runs"),
        )
    ]


def two_operations() -> list[Row]:
    """Return the table rows for programs of one and of two operations on tile 0.

    Each operation takes about 3,600 cycles.
    """
    cycles_of_two, cycles_of_one = (
        profile(*operations(machine("ipu2"), num_operations)).total_cycles
        for num_operations in (2, 1)
    )
    reason = (
        "the kit's sync of 100 cycles a superstep is assumed; here sync and instrumentation "
        "together leave about {} a step"
    )
    source = LIGHT.at("lightweight profiling, ipu2 chip")
    return [
        source.row(
            "stage of two operations of about 3,600 (cycles)",
            7_238,
            modelled=cycles_of_two,
            tolerance=0.03,
            why=reason.format(19),
        ),
        source.row(
            "stage with a block inside (cycles)",
            7_377,
            modelled=cycles_of_two,
            tolerance=0.03,
            why=reason.format(90),
        ),
        source.row(
            "block of one operation of about 3,600 (cycles)",
            3_623,
            modelled=cycles_of_one,
            tolerance=0.03,
            why=reason.format(23),
        ),
        source.unmodelled(
            "instrumentation of a block (cycles)", 36, "profiling costs nothing in the kit"
        ),
        source.unmodelled(
            "middle of a StreamCopy (cycles)",
            1_513,
            "the model has the host's rate, but not its latency",
        ),
    ]


def growing_operations() -> list[Row]:
    """Return the table rows for an operation that makes one more pass in each execution, on tile 0.

    The cycles of the operation depend on data, so the program is run to count them.
    """
    published = (3_905, 7_555, 11_203, 14_857, 18_505)
    modelled = programs.growing(machine("ipu2"))
    source = LIGHT.at("lightweight profiling, ipu2 chip, a loop in memory, traced")
    reason = (
        "nothing fitted; missing are the chip's instrumentation and start of a vertex, about 95 "
        "cycles whatever the passes"
    )
    rows = [
        source.row(
            f"{passes} x 100 (cycles)",
            cycles_published,
            modelled=cycles_modelled,
            tolerance=round(110 / cycles_published, 4),
            why=reason,
        )
        for passes, (cycles_published, cycles_modelled) in enumerate(
            zip(published, modelled, strict=True), start=1
        )
    ]
    published_per_pass = (published[-1] - published[0]) / 4
    modelled_per_pass = (modelled[-1] - modelled[0]) / 4
    return [
        *rows,
        source.row(
            "a pass more (cycles)",
            published_per_pass,
            modelled=modelled_per_pass,
            tolerance=0.002,
            why=(
                "six instructions for each of 100 additions, six cycles each on the supervisor, "
                "and the loop around them"
            ),
        ),
    ]


def buffers() -> list[Row]:
    """Return the table rows for a hundred operations, which a chip recorded in a buffer.

    The kit has no such buffer and models only the number of operations.
    """
    graph, loop = operations(machine("ipu2"), 1)
    blocks = profile(graph, Repeat(100, loop)).execution.blocks(0, program_filter="^op1$")
    subject = "lightweight profiling, ipu2 chip, 100 operations, a buffer of 1,000 bytes"
    counts = (
        (": blocks that are kept", 42),
        (": overflows", 1),
        (", flushed: parts of flushes", 300),
        (", flushed: parts of other stream copies", 6),
    )
    reason = (
        "the kit computes blocks from the steps of a run: it records nothing else, so no "
        "buffer is filled or flushed"
    )
    return [
        LIGHT.row(
            f"{subject}, flushed: operations",
            100,
            modelled=len(blocks),
            tolerance=0,
            why="all of them: none is lost",
        ),
        *(LIGHT.unmodelled(f"{subject}{item}", published, reason) for item, published in counts),
    ]
