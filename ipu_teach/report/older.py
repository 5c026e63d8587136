"""A report in the JSON that Poplar's SDK wrote up to version 2.1: `graph.json` and `execution.json`.

The key names are those of Graphcore's "Poplar Profile Data" (docs.graphcore.ai/projects/profile-data), as far as this kit has
the figures; memory categories keep the kit's names. Later SDKs write a closed format, which this is not. Every figure of
cycles and bytes is modelled, and both files say so.
"""

from __future__ import annotations

from typing import Any

from ipu_teach.cost.phases import COMPUTE, EXCHANGE, HOST, LINKS, SYNC, Phase
from ipu_teach.errors import NotOfferedError
from ipu_teach.report.profile import ProgramNode
from ipu_teach.report.report import Report

MOST_CELLS = 10**7  # steps times tiles: about 50 MB of text
MOST_NODES = 10**5  # of the program trees
TYPES = {SYNC: "Sync", EXCHANGE: "DoExchange", COMPUTE: "OnTileExecute", LINKS: "GlobalExchange", HOST: "StreamCopy"}


def graph_profile(report: Report) -> dict[str, Any]:
    """What was compiled, as `graph.json` has it. Raises `NotOfferedError` for programs of more than 100,000 parts."""
    target, size, memory, profile = report.target, report.graph_size(), report.memory, report.profile
    parts = sum(1 for program in profile.programs for _ in program.walk())
    if parts > MOST_NODES:
        raise NotOfferedError(f"""A graph.json of a program of {parts:,} parts is not offered by this kit.
            next:  use report.save(path).""")
    delay = target.internal_sync_cycles
    return {
        "modelled": True,
        "target": {
            "type": target.type,
            "bytesPerIPU": target.bytes_per_ipu,
            "bytesPerTile": target.bytes_per_tile,
            "clockFrequency": target.clock_frequency,
            "numIPUs": target.num_ipus,
            "tilesPerIPU": target.tiles_per_ipu,
            "numTiles": target.num_tiles,
            "totalMemory": target.total_memory,
            "relativeSyncDelayByTile": [0] * target.num_tiles,
            "minSyncDelay": delay,
        },
        "graph": {
            "numComputeSets": size["compute sets"],
            "numEdges": size["edges"],
            "numVars": size["variables"],
            "numVertices": size["vertices"],
        },
        "vertexTypes": {"names": [c.name for c in profile.codelets]},
        "computeSets": {
            "names": [c.name for c in profile.compute_sets],
            "vertexCounts": [[p.vertices for p in c.parts] for c in profile.compute_sets],
            "vertexTypes": [[p.codelet for p in c.parts] for c in profile.compute_sets],
        },
        "exchanges": {
            "bytesReceivedByTile": [row.received.tolist() for row in report.exchanges],
            "bytesSentByTile": [row.sent.tolist() for row in report.exchanges],
        },
        "programs": [_program(program) for program in profile.programs],
        "memory": {
            "byTile": {
                "total": memory.bytes_per_tile.tolist(),
                "totalIncludingGaps": memory.held_per_tile.tolist(),
                "alwaysLive": memory.always_live_bytes_per_tile.tolist(),
            },
            "byCategory": {name: here.tolist() for name, here in memory.bytes_per_tile_by_category.items()},
        },
    }


def _program(node: ProgramNode) -> dict[str, Any]:
    """A program with its children in it; trees are not deeper than compiling allows."""
    found: dict[str, Any] = {"type": node.type, "name": node.name}
    if node.kind == "Repeat":
        found["repeatCount"] = node.count
    return {**found, "children": [_program(child) for child in node.children]} if node.children else found


def execution_profile(report: Report) -> dict[str, Any]:
    """What ran, as `execution.json` has it: a step for each sync, exchange, compute set and host's transfer, in order.

    Raises `NotOfferedError` for runs of more than ten million steps times tiles, and `ProfilingDisabledError`.
    """
    phases = sum(n * len(report.phases(step)) for step, n in enumerate(report.executions.tolist()) if n)
    if phases * report.target.num_tiles > MOST_CELLS:
        raise NotOfferedError(f"""An execution.json of {phases:,} steps on {report.target.num_tiles:,} tiles is not offered by
            this kit.
            next:  use report.save(path), or run fewer steps.""")
    steps = []
    for step in report.steps_between():
        for ipu, start in step.shares:
            for phase in report.phases(step.step, ipu):
                where = {} if ipu is None else {"ipu": ipu}
                found = _phase(report, step.step, phase, start)
                steps.append({"program": step.index, "name": step.name, **where, **found})
                start += phase.cycles
    return {
        "modelled": True,
        "profilerMode": "IPU_MODEL",
        "programTrace": report.step_numbers.tolist(),
        "simulation": {"cycles": report.total_cycles, "steps": steps},
    }


def _phase(report: Report, number: int, phase: Phase, start: float) -> dict[str, Any]:
    tiles = report.target.num_tiles
    busy = [phase.cycles] * tiles if phase.busy is None else phase.busy.tolist()
    found: dict[str, Any] = {
        "type": TYPES[phase.kind],
        "cycles": phase.cycles,
        "cyclesFrom": start,
        "cyclesTo": start + phase.cycles,
        "cyclesByTile": busy,
    }
    if phase.kind == COMPUTE:
        active = [cycles for cycles in busy if cycles]
        most = max(active, default=0)
        found["activeTiles"] = len(active)
        found["tileBalance"] = sum(busy) / (tiles * most) if most else 0.0
        found["activeTileBalance"] = sum(active) / (len(active) * most) if most else 0.0
        found["computeSet"] = report.profile.steps[number].compute_set
    if phase.kind == EXCHANGE:
        traffic = report.step_cost(number).exchange[phase.exchange]
        found["bytesSentByTile"], found["bytesReceivedByTile"] = traffic.sent.tolist(), traffic.received.tolist()
        found["totalData"] = traffic.total
    return found
