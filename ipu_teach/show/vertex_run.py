"""Observe a vertex of a recorded run by running it again on the values recorded for its fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph, FrozenTable
from ipu_teach.cost import CostModel
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
    """The execution of a vertex in one step of a run.

    `who` describes the vertex. `compiled` is the number of the compiled step, and `step` is the
    index of the step in the report. `seen` is the result of observing the vertex.
    """

    who: str
    tile: int
    compiled: int
    step: int
    seen: Observed


def ran(recording: Recording, vertex: object, step: int | None = None) -> VertexRun:
    """Return an observation of `vertex` in one step of a recorded run.

    `vertex` is a vertex of the graph, or (name of a compute set, index of the vertex in it). `step`
    is the index of the step in the report; by default, it is the last step that executed the
    vertex.

    :raises InvalidOptionError: if the vertex did not run while it was recorded, if a tensor that it
        reads or writes was not recorded, or if the vertex now writes other values than in the run.
    """
    if step is not None and not is_whole(step):
        raise InvalidOptionError(f"""show.turns() was given step={shown(step)}, which is not a
            whole number.
            next:  give the number of a step of the report, such as 0, or leave it out.""")
    model = model_of(recording.report, "turns")
    execution = _execution(recording, vertex, step, model)
    table = execution.table
    place = execution.places[-1]
    tile = int(table.tiles[execution.row])
    description = f"vertex {execution.number} of {label(execution.compute_set, 24)}"
    memory = _VertexMemory(recording, table, execution.row)
    _refuse_unknown(recording, table, memory.positions, description)
    # The state of the vertex may depend on its earlier executions, so the earlier executions are
    # repeated first.
    if any(declaration.kind == "state" for declaration in table.fields.values()):
        for earlier in execution.places[:-1]:
            memory.repeat(earlier)
    memory.put(place)
    regions = memory.regions()
    observation = observed(table.codelet, regions, model.target)
    memory.put(place + 1)
    if any(
        flat_memory[part_positions].tobytes() != part.tobytes()
        for flat_memory, part_positions, part in memory.parts_of_kinds(regions, "output", "inout")
    ):
        raise InvalidOptionError(f"""show.turns() ran {description} again, but the vertex wrote
            other values than in the run: it has state from before the recording, rounds
            stochastically, or is not the only vertex that writes to its elements.
            next:  record from the first run on, or show the class with values of your own:
            show.turns(MyVertex, …).""")
    title = f"{description} on tile {tile}, in step {execution.step:,} of the run"
    return VertexRun(
        title,
        tile,
        recording.steps[place],
        execution.step,
        seen=replace(observation, cycles=execution.cycles),
    )


class _Execution(NamedTuple):
    """The execution of the vertex with the index `number` in the compute set called `compute_set`.

    The vertex is row `row` of `table`. `places` are the indices, in the recording, of the steps
    that executed the vertex so far. `step` is the index in the report of the last of these steps,
    and `cycles` are the cycles of the vertex in that step.
    """

    compute_set: str
    number: int
    table: FrozenTable
    row: int
    places: list[int]
    step: int
    cycles: int


def _execution(
    recording: Recording, vertex: object, step: int | None, model: CostModel
) -> _Execution:
    """Return the execution of a vertex in step `step` of the report, by default in the last one.

    :raises InvalidOptionError: if the vertex did not run in that step while it was recorded.
    """
    graph = recording.compiled.graph
    report = recording.report
    name, vertex_number = vertex if isinstance(vertex, tuple) and len(vertex) == 2 else ("", -1)
    if isinstance(vertex, VertexRef):
        name = vertex.table.compute_set.name
        vertex_number = vertex.table.order[vertex.row]
    assert report is not None
    set_of_step = [facts.compute_set for facts in report.profile.steps]
    executed = [
        number != HOST
        and set_of_step[number] >= 0
        and graph.compute_sets[set_of_step[number]].name == name
        for number in recording.steps
    ]
    # The index in the report of each recorded step.
    step_indices = recording.first - 1 + np.cumsum(np.array(recording.steps) != HOST)
    candidate_places = [
        place
        for place in np.flatnonzero(executed).tolist()
        if step is None or step_indices[place] <= step
    ]
    matches = [
        (group.table, int(group.rows[match]), int(cycles[match]))
        for group, cycles in (
            model.vertices(recording.steps[candidate_places[-1]]) if candidate_places else ()
        )
        for match in np.flatnonzero(group.table.order[group.rows] == vertex_number).tolist()
    ]
    if not matches or step not in (None, step_indices[candidate_places[-1]]):
        step_text = "" if step is None else f" in step {shown(step)}"
        raise InvalidOptionError(f"""show.turns() was given the vertex {shown(vertex)}, which did
            not run{step_text} during the recording.
            next:  give a vertex that ran: a vertex of the graph, or (name of a compute set, index).
            Leave out step=, or give a step in which this vertex ran.""")
    [(table, row, cycles)] = matches
    last_step = int(step_indices[candidate_places[-1]])
    return _Execution(name, vertex_number, table, row, candidate_places, last_step, cycles)


class _VertexMemory:
    """A memory with the values of a vertex's fields at some step of a recording.

    Attributes:
        positions: for each field, the positions of its elements in memory, as one array for each
            vector of the field.
    """

    def __init__(self, recording: Recording, table: FrozenTable, row: int) -> None:
        self.recording = recording
        self.table = table
        self.row = row
        self.graph = recording.compiled.graph
        self.memory = Memory(self.graph, Backend())
        self.positions = {name: _places(self.graph, table, row, name) for name in table.fields}

    def put(self, place: int) -> None:
        """Write to the memory the values that the recorded tensors had before a step.

        `place` is the index of the step in the recording.
        """
        for track in self.recording.tracks:
            flat_memory = self.memory.flat(track.tensor.dtype)
            positions = track.address // track.tensor.dtype.size
            flat_memory[positions] = track.first
            for _, elements, values, _ in (change for change in track.changes if change[0] < place):
                flat_memory[positions[elements]] = values

    def repeat(self, place: int) -> None:
        """Run the vertex on the values before a step, and keep its new state in the memory.

        `place` is the index of the step in the recording.
        """
        self.put(place)
        regions = self.regions()
        run_on(self.table.codelet, regions)
        for flat_memory, part_positions, part in self.parts_of_kinds(regions, "state"):
            flat_memory[part_positions] = part

    def regions(self) -> dict[str, Any]:
        """Return the content of each field: an array or, for a list field, a list of arrays."""
        content_by_field = {
            field: [
                np.array(self.memory.flat(declaration.dtype)[part_positions])
                for part_positions in self.positions[field]
            ]
            for field, declaration in self.table.fields.items()
        }
        list_fields = {
            field
            for field in self.positions
            if not isinstance(self.graph.layouts[self.table.layouts[field][self.row]], Layout)
        }
        return {
            field: VectorList(parts) if field in list_fields else parts[0]
            for field, parts in content_by_field.items()
        }

    def parts_of_kinds(
        self, regions: dict[str, Any], *kinds: str
    ) -> list[tuple[Array, Array, Array]]:
        """Return `(memory, positions, content)` for each vector in the fields of the given kinds.

        `kinds` are kinds of fields, such as "output". `memory` is the flat memory of the field's
        dtype, `positions` has the positions of the vector's elements in this memory, and `content`
        is the vector in `regions`.
        """
        memory_by_field = {
            field: self.memory.flat(declaration.dtype)
            for field, declaration in self.table.fields.items()
            if declaration.kind in kinds
        }
        parts_by_field = {
            field: region if isinstance(region, list) else [region]
            for field, region in regions.items()
        }
        return [
            (flat_memory, part_positions, part)
            for field, flat_memory in memory_by_field.items()
            for part_positions, part in zip(
                self.positions[field], parts_by_field[field], strict=True
            )
        ]


def _places(graph: FrozenGraph, table: FrozenTable, row: int, name: str) -> list[Array]:
    """Return the positions of a field's elements in memory, as one array for each vector.

    A position is counted in elements of the field's dtype. A field that is not a list of vectors
    has one array, with the shape of the field.
    """
    layout = graph.layouts[table.layouts[name][row]]
    start = int(table.offsets[name][row])
    placed_layouts = [(0, layout)] if isinstance(layout, Layout) else layout.parts
    return [
        (start + delta + part.positions).reshape(part.shape if table.fields[name].depth else ())
        for delta, part in placed_layouts
    ]


def _refuse_unknown(
    recording: Recording, table: FrozenTable, positions: dict[str, list[Array]], description: str
) -> None:
    """Check that all elements that a vertex uses were recorded.

    Constants and the vertex's own state need not be recorded.

    :raises InvalidOptionError: if an element was not recorded.
    """
    graph = recording.compiled.graph
    recorded_bytes = np.concatenate([track.address for track in recording.tracks])
    missing = dict[str, str]()
    for name, parts in positions.items():
        first_bytes = (
            np.concatenate([part_positions.reshape(-1) for part_positions in parts])
            * table.fields[name].dtype.size
        )
        for byte in first_bytes[~np.isin(first_bytes, recorded_bytes)][:1].tolist():
            variable = graph.variable_at(byte)
            missing |= {} if variable.constant or variable.state else {name: variable.name}
    if missing:
        missing_text = ", ".join(f"{variable} (its {name})" for name, variable in missing.items())
        subject = description[0].upper() + description[1:]
        raise InvalidOptionError(f"""{subject} reads or writes elements that were not recorded:
            {missing_text}.
            next:  give these tensors to engine.record(…), too, and run again.""")
