"""Transfers that run while tiles compute."""

from __future__ import annotations

from ipu_teach.graph import Graph
from ipu_teach.program import Copy, Execute, Program, Sequence
from ipu_teach.types import FLOAT
from validation.programs import CountToHundred, machine, profile
from validation.row import MODEL, Row

ROUNDS = 10


def rounds() -> int:
    """Return in how many of ten rounds a load and a store both run while the tiles compute.

    Each round loads, computes and stores, and an I/O tile executes the transfers.
    """
    graph = Graph(machine("ipu2", tiles_per_ipu=2, io_tiles=1))
    load_buffer, work_buffer, store_buffer = (
        graph.add_variable(FLOAT, (256,), name) for name in ("in", "x", "out")
    )
    for tensor, tile in ((load_buffer, 0), (work_buffer, 1), (store_buffer, 0)):
        graph.set_tile_mapping(tensor, tile)
    compute_set = graph.add_compute_set("work")
    vertex = graph.add_vertex(compute_set, CountToHundred)
    graph.set_tile_mapping(vertex, 1)
    graph.set_perf_estimate(vertex, 3600)
    load = Copy(graph.add_remote_buffer("load", FLOAT, 256), load_buffer)
    store = Copy(store_buffer, graph.add_remote_buffer("store", FLOAT, 256))
    steps: list[Program] = [load]
    for round_number in range(ROUNDS):
        steps += [
            Copy(load_buffer, work_buffer),
            *([store] if round_number > 0 else []),
            *([load] if round_number < ROUNDS - 1 else []),
        ]
        steps += [Execute(compute_set), Copy(work_buffer, store_buffer)]
    step_times = [
        (step.name, step.start, step.end)
        for step in profile(graph, Sequence(*steps, store)).steps()
    ]
    return sum(
        {"load", "store"}
        <= {
            transfer_name
            for transfer_name, transfer_start, transfer_end in step_times
            if work_start <= transfer_start and transfer_end <= work_end
        }
        for step_name, work_start, work_end in step_times
        if step_name == "work"
    )


def transfers() -> list[Row]:
    """Return the row for overlapped transfers: in how many rounds of a loop they overlap."""
    name = f"a loop of {ROUNDS} rounds with I/O tiles: rounds whose transfers overlap"
    published = "graphcore/examples, PopXL tutorial 6, overlapped I/O: N - 2 of N"
    why = "the first round stores nothing, and the last round loads nothing"
    return [
        Row(name, MODEL, published, published=ROUNDS - 2, modelled=rounds(), tolerance=0, why=why)
    ]
