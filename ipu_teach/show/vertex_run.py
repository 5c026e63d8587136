"""One vertex of a recorded run: it runs once more on what its fields held, and is looked at
meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph, FrozenTable
from ipu_teach.cost.lines import Observed
from ipu_teach.engine.backend import Backend
from ipu_teach.engine.tile_arrays import Memory
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.tensor import Layout
from ipu_teach.graph.vertex import VectorList, run_on
from ipu_teach.graph.vertex_table import VertexRef
from ipu_teach.observer import observed
from ipu_teach.report import Recording
from ipu_teach.report.recording import HOST
from ipu_teach.show.report_facts import model_of
from ipu_teach.show.scene import label
from ipu_teach.types import Array


class VertexRun(NamedTuple):
    """A vertex in a step of a run: its description in words, its tile, the number of the step,
    compiled and in the run, and the observation."""

    who: str
    tile: int
    compiled: int
    step: int
    seen: Observed


def ran(recording: Recording, vertex: object, step: int | None = None) -> VertexRun:
    """Return a vertex, or (name of a compute set, its number there), in a recorded step: that
    number of the report, else the last.

    Raises `InvalidOptionError` for what did not run, where the recording lacks a tensor that the
    vertex reads or writes, and where what it wrote is not what it writes now.
    """
    if step is not None and not is_whole(step):
        raise InvalidOptionError(f"""show.turns() was given step={shown(step)}.
            next:  give the number of a step of the report, such as 0, or leave it out.""")
    model = model_of(recording.report, "turns")
    graph = recording.compiled.graph
    report = recording.report
    name, number = vertex if isinstance(vertex, tuple) and len(vertex) == 2 else ("", -1)
    if isinstance(vertex, VertexRef):
        name = vertex.table.compute_set.name
        number = vertex.table.order[vertex.row]
    assert report is not None
    sets = [s.compute_set for s in report.profile.steps]
    executed = [
        n != HOST and sets[n] >= 0 and graph.compute_sets[sets[n]].name == name
        for n in recording.steps
    ]
    # the number of each in the report
    counts = recording.first - 1 + np.cumsum(np.array(recording.steps) != HOST)
    upto = [
        place
        for place in np.flatnonzero(executed).tolist()
        if step is None or counts[place] <= step
    ]
    candidates = [
        (group.table, int(group.rows[i]), int(cycles[i]))
        for group, cycles in (model.vertices(recording.steps[upto[-1]]) if upto else ())
        for i in np.flatnonzero(group.table.order[group.rows] == number).tolist()
    ]
    if not candidates or step not in (None, counts[upto[-1]]):
        at = "" if step is None else f" in step {shown(step)}"
        raise InvalidOptionError(f"""show.turns() was asked for {shown(vertex)}, which did not
            run{at} while it was recorded.
            next:  give a vertex of the graph, or (name of a compute set, number), and no step or
            one that executes it.""")
    [(table, row, cycles)] = candidates
    place = upto[-1]
    memory = Memory(graph, Backend())
    tile = int(table.tiles[row])
    who = f"vertex {number} of {label(name, 24)}"
    where = {name: _places(graph, table, row, name) for name in table.fields}
    _refuse_unknown(recording, table, where, who)

    def held() -> dict[str, Any]:
        copies = {
            n: [np.array(memory.flat(f.dtype)[w]) for w in where[n]]
            for n, f in table.fields.items()
        }
        several = {n for n in where if not isinstance(graph.layouts[table.layouts[n][row]], Layout)}
        return {n: VectorList(parts) if n in several else parts[0] for n, parts in copies.items()}

    def parts(regions: dict[str, Any], *kinds: str) -> list[tuple[Array, Array, Array]]:
        """Return (memory, positions in it, content) of the fields of some kinds."""
        views = {n: memory.flat(f.dtype) for n, f in table.fields.items() if f.kind in kinds}
        lists = {n: r if isinstance(r, list) else [r] for n, r in regions.items()}
        return [
            (flat, w, part)
            for n, flat in views.items()
            for w, part in zip(where[n], lists[n], strict=True)
        ]

    # it may remember
    for earlier in upto[:-1] if any(f.kind == "state" for f in table.fields.values()) else ():
        _put(recording, memory, earlier)
        regions = held()
        run_on(table.codelet, regions)
        for flat, w, part in parts(regions, "state"):
            flat[w] = part
    _put(recording, memory, place)
    regions = held()
    observation = observed(table.codelet, regions, model.target)
    _put(recording, memory, place + 1)
    if any(
        flat[w].tobytes() != part.tobytes() for flat, w, part in parts(regions, "output", "inout")
    ):
        raise InvalidOptionError(f"""In the run {who} wrote other values than it writes now: it
            has state from before the recording, rounds stochastically, or is not the only vertex
            that writes there.
            next:  record from the first run on; or show.turns(the class, …) with values of your
            own.""")
    title = f"{who} on tile {tile}, in step {counts[place]:,} of the run"
    return VertexRun(
        title,
        tile,
        recording.steps[place],
        int(counts[place]),
        seen=replace(observation, cycles=cycles),
    )


def _put(recording: Recording, memory: Memory, place: int) -> None:
    """Let the memory hold what the recorded tensors held before that place of the recording."""
    for track in recording.tracks:
        flat = memory.flat(track.tensor.dtype)
        where = track.address // track.tensor.dtype.size
        flat[where] = track.first
        for _, elements, values, _ in (change for change in track.changes if change[0] < place):
            flat[where[elements]] = values


def _places(graph: FrozenGraph, table: FrozenTable, row: int, name: str) -> list[Array]:
    """Return the positions of a field's parts, in elements of its dtype, in its shape."""
    layout = graph.layouts[table.layouts[name][row]]
    start = int(table.offsets[name][row])
    candidates = [(0, layout)] if isinstance(layout, Layout) else layout.parts
    return [
        (start + delta + p.positions).reshape(p.shape if table.fields[name].depth else ())
        for delta, p in candidates
    ]


def _refuse_unknown(
    recording: Recording, table: FrozenTable, where: dict[str, list[Array]], who: str
) -> None:
    """Raise `InvalidOptionError` if something that a vertex reads or writes was not recorded, and
    may have changed."""
    graph = recording.compiled.graph
    known = np.concatenate([t.address for t in recording.tracks])
    missing = dict[str, str]()
    for name, parts in where.items():
        first = np.concatenate([w.reshape(-1) for w in parts]) * table.fields[name].dtype.size
        for byte in first[~np.isin(first, known)][:1].tolist():
            variable = graph.variable_at(byte)
            missing |= {} if variable.constant or variable.state else {name: variable.name}
    if missing:
        lost = ", ".join(f"{variable} (its {name})" for name, variable in missing.items())
        requested = who[0].upper() + who[1:]
        raise InvalidOptionError(f"""{requested} reads or writes elements that were not recorded:
            {lost}.
            next:  record them too, with engine.record(…), and run again.""")
