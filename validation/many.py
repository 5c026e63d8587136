"""Many IPUs: the memory and idle time of pipelines, and the order of a ring, by published rules.

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
SIZES = range(2, 17)
ALL = sum(SIZES)


def pipelines() -> list[Row]:
    """Return the rows of pipelines: their stored micro-batches, and the share of idle time.

    Micro-batches are counted for each stage, without the one that it works on.
    """
    rows = []
    for schedule, times in ((GROUPED, 2), (INTERLEAVED, 1)):
        equal = 0
        for stages in SIZES:
            stored = stash(pipeline_schedule(stages, 2 * stages, schedule), stages)
            equal += sum(m - 1 == times * (stages - 1 - s) for s, m in enumerate(stored))
        name = f"{schedule} pipelines of 2 to 16 stages: stages that store {times} (S - 1 - s)"
        rows.append(STORED.row(name, ALL, modelled=equal, tolerance=0, why="exact"))
    for batches in (4, 16, 64):
        ticks = pipeline_schedule(4, batches, training=False)
        idle = (4 * len(ticks) - sum(map(len, ticks))) / (4 * len(ticks))
        name = f"a pipeline of 4 stages, {batches} micro-batches: share of idle time"
        rows.append(GPIPE.row(name, 3 / (batches + 3), modelled=idle, tolerance=0, why="exact"))
    return rows


def rings() -> list[Row]:
    """Return the row of the IPUs' order in a ring.

    Clockwise, the published rule has the even numbers going up, and then the odd ones going down.
    """
    equal = 0
    for ipus in SIZES:
        top = ipus - 1 if ipus % 2 == 0 else ipus - 2
        published = [
            2 * i if 2 * i < ipus else top - 2 * (i - (ipus + 1) // 2) for i in range(ipus)
        ]
        equal += sum(a == b for a, b in zip(ring_order(ipus), published, strict=True))
    name = "rings of 2 to 16 IPUs: places that have the published IPU"
    return [RING.row(name, ALL, modelled=equal, tolerance=0, why="exact")]
