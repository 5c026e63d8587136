"""Many IPUs, against published rules: memory and idle time of pipelines, and a ring's order.

Each rule is checked on objects that the kit builds: the ticks of a schedule, and a ring of IPUs.
"""

from __future__ import annotations

from ipu_teach.cost.links import ring_order
from ipu_teach.schedules import GROUPED, INTERLEAVED, pipeline_schedule, stash
from validation.row import RULE, Row, Source

STORED = Source(
    RULE, "graphcore/tensorflow, tensorflow/compiler/plugin/poplar/driver/tools/pipeline_util.cc"
)
RING = Source(RULE, "graphcore/poplibs, lib/popops/Collectives.cpp, createRing")
GPIPE = Source(
    RULE, "Huang et al., GPipe (2019), section 2.3: of K stages (K - 1) / (M + K - 1) is idle"
)
# The numbers of stages of the pipelines, and of IPUs in the rings, that are checked.
SIZES = range(2, 17)

# The total number of stages in all pipelines, which is also that of IPUs in all rings.
ALL = sum(SIZES)


def pipelines() -> list[Row]:
    """Return the table rows for pipelines: their stored micro-batches and their idle time.

    The stored micro-batches of a stage do not include the micro-batch on which the stage works.
    Idle time is a fraction of the total.
    """
    rows = []
    for schedule, factor in ((GROUPED, 2), (INTERLEAVED, 1)):
        num_equal = 0
        for num_stages in SIZES:
            num_stored = stash(pipeline_schedule(num_stages, 2 * num_stages, schedule), num_stages)
            num_equal += sum(
                num_batches - 1 == factor * (num_stages - 1 - stage)
                for stage, num_batches in enumerate(num_stored)
            )
        name = f"{schedule} pipelines of 2 to 16 stages: stages that store {factor} (S - 1 - s)"
        rows.append(STORED.row(name, ALL, modelled=num_equal, tolerance=0, why="exact"))
    for num_micro_batches in (4, 16, 64):
        ticks = pipeline_schedule(4, num_micro_batches, training=False)
        idle_share = (4 * len(ticks) - sum(map(len, ticks))) / (4 * len(ticks))
        name = f"a pipeline of 4 stages, {num_micro_batches} micro-batches: share of idle time"
        rows.append(
            GPIPE.row(
                name, 3 / (num_micro_batches + 3), modelled=idle_share, tolerance=0, why="exact"
            )
        )
    return rows


def rings() -> list[Row]:
    """Return the table row that compares the order of the IPUs in a ring with the published order.

    Clockwise, the published order is: the even numbers in ascending order, then the odd numbers in
    descending order.
    """
    num_equal = 0
    for num_ipus in SIZES:
        highest_odd = num_ipus - 1 if num_ipus % 2 == 0 else num_ipus - 2
        published_order = [
            2 * place if 2 * place < num_ipus else highest_odd - 2 * (place - (num_ipus + 1) // 2)
            for place in range(num_ipus)
        ]
        num_equal += sum(
            ipu == published_ipu
            for ipu, published_ipu in zip(ring_order(num_ipus), published_order, strict=True)
        )
    name = "rings of 2 to 16 IPUs: places that have the published IPU"
    return [RING.row(name, ALL, modelled=num_equal, tolerance=0, why="exact")]
