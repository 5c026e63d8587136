"""Every view, of a program that fits it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from all_reduces import all_reduce_report
from recorded_programs import kept_recording, shifted_sums_recording
from two_tile_ipus import uneven_ipus
from view_programs import Mixed, mixed_report, partitioner, pipeline_training, streaming_report

from ipu_course.lesson12.checks import drawn
from ipu_teach import FLOAT, HALF, IPUModel, show
from ipu_teach.estimate.result import Estimate
from ipu_teach.frontends import ir
from ipu_teach.graph.vertex_table import VertexRef
from ipu_teach.report import Recording
from ipu_teach.show.view import View

from . import programs

VIEWS: dict[str, Callable[[], View]] = {
    "bsp": lambda: show.bsp(programs.uneven()),
    "bsp of the chip": lambda: show.bsp(programs.some_wait(1472)),
    "bsp of two IPUs": lambda: show.bsp(uneven_ipus()),
    "balance of two IPUs": lambda: show.balance(uneven_ipus()),
    "program of two IPUs": lambda: show.program(uneven_ipus()),
    "bsp of two": lambda: show.bsp(programs.uneven(), programs.uneven(rows=39)),
    "timeline": lambda: show.timeline(programs.uneven()),
    "timeline of two": lambda: show.timeline(programs.uneven(), programs.uneven(rows=39)),
    "timeline of blocks": lambda: show.timeline(programs.branching()[0], blocks=1),
    "balance": lambda: show.balance(programs.some_wait(64)),
    "balance with causes": lambda: show.balance(
        programs.uneven(), why=programs.uneven().why("waiting")
    ),
    "exchange": lambda: show.exchange(programs.uneven()),
    "memory": lambda: show.memory(programs.uneven()),
    "liveness": lambda: show.liveness(programs.uneven()),
    "liveness of two": lambda: show.liveness(
        programs.uneven(), programs.branching()[0], always=False, axis="cycles"
    ),
    "program": lambda: show.program(programs.branching()[0]),
    "tiles": lambda: show.tiles(programs.by_rows()),
    "sweep": lambda: show.sweep(
        {"13 rows": programs.uneven(rows=13), "39 rows": programs.uneven(rows=39)}
    ),
    "host": lambda: show.host(programs.uneven()),
    "estimate": lambda: show.estimate(linear_estimate()),
    "estimates": lambda: show.estimates(
        {8: linear_estimate(), 16: linear_estimate(16)}, parameter="rows", samples=10**6
    ),
    "recompute": lambda: show.recompute(8, {"all": range(8), "every 3rd": range(0, 8, 3)}),
    "streaming": lambda: show.streaming(streaming_report("SINGLE_PIPELINE")),
    "pipeline": lambda: pipeline_training("grouped", 2, 4)[1],
    "ring": lambda: show.ring(all_reduce_report(4, 520, "clockwise_ring")),
    "patches": lambda: show.patches(*programs.patches()),
    "numbers": lambda: show.numbers(FLOAT, HALF, value=0.1),
    "formats": lambda: show.formats([3.0, 0.001, 250], HALF, coin=0.1),
    "sparse": lambda: show.sparse(partitioner(), drawn(15, 16, 4, 48, 1, range(6))),
    "crossing": lambda: show.crossing({"dense": {0.5: 9, 0.25: 9}, "sparse": {0.5: 10, 0.25: 5}}),
    "machine": lambda: show.machine(all_reduce_report(4, 520, "clockwise_ring")),
}


# Other tests of the suite look at these; only `--browser-all` takes them here, too.
FURTHER_VIEWS: dict[str, Callable[[], View]] = {
    "tile": lambda: show.tile(mixed_report()),
    "code": lambda: show.code(mixed_report(), Mixed),
    "turns of a vertex of a run": lambda: show.turns(*kept_vertex(), 3),
    "bsp with what messages carry": lambda: show.bsp(kept_recording("x", "y")[0]),
    "exchange with what messages carry": lambda: show.exchange(shifted_sums_recording()),
}


def linear_estimate(rows: int = 8) -> Estimate:
    """Return the estimate of two linear layers on 13 tiles."""
    graph = ir.Ir()
    h = graph.input((rows, 16), "x")
    for name in ("first", "second"):
        with graph.at(path=name):
            h = ir.linear(graph, h, graph.variable(np.zeros((16, 16), np.float32), name))
    graph.output("h", h)
    return ir.estimate(graph, IPUModel("ipu2", tiles_per_ipu=13).create_device())


def kept_vertex() -> tuple[Recording, VertexRef]:
    """Return a recording, and a vertex of its program."""
    recording, vertices = kept_recording("x", "y")
    return recording, vertices[0]
