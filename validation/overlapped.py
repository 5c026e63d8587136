"""Transfers that run while tiles compute."""

from __future__ import annotations

from ipu_teach.graph import Graph
from ipu_teach.program import Copy, Execute, Program, Sequence
from ipu_teach.types import FLOAT
from validation.programs import CountToHundred, machine, profile
from validation.row import MODEL, Row

ROUNDS = 10


def rounds() -> int:
    """Return the number of rounds, of ten, in which a load and a store overlap with the work.

    The loop loads, works and stores, with the transfers through an I/O tile.
    """
    graph = Graph(machine("ipu2", tiles_per_ipu=2, io_tiles=1))
    loaded, working, stored = (
        graph.add_variable(FLOAT, (256,), name) for name in ("in", "x", "out")
    )
    for tensor, tile in ((loaded, 0), (working, 1), (stored, 0)):
        graph.set_tile_mapping(tensor, tile)
    compute_set = graph.add_compute_set("work")
    vertex = graph.add_vertex(compute_set, CountToHundred)
    graph.set_tile_mapping(vertex, 1)
    graph.set_perf_estimate(vertex, 3600)
    load = Copy(graph.add_remote_buffer("load", FLOAT, 256), loaded)
    store = Copy(stored, graph.add_remote_buffer("store", FLOAT, 256))
    steps: list[Program] = [load]
    for number in range(ROUNDS):
        steps += [
            Copy(loaded, working),
            *([store] if number > 0 else []),
            *([load] if number < ROUNDS - 1 else []),
        ]
        steps += [Execute(compute_set), Copy(working, stored)]
    steps_run = [(s.name, s.start, s.end) for s in profile(graph, Sequence(*steps, store)).steps()]
    return sum(
        {"load", "store"} <= {name for name, a, b in steps_run if begin <= a and b <= end}
        for what, begin, end in steps_run
        if what == "work"
    )


def transfers() -> list[Row]:
    """Return the row of a loop with I/O tiles."""
    name = f"a loop of {ROUNDS} rounds with I/O tiles: rounds whose transfers overlap"
    published = "graphcore/examples, PopXL tutorial 6, overlapped I/O: N - 2 of N"
    why = "the first round has nothing to store yet, and the last nothing more to load"
    return [
        Row(name, MODEL, published, published=ROUNDS - 2, modelled=rounds(), tolerance=0, why=why)
    ]
