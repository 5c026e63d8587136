"""Bind a group of vertices to lanes: fields in, the codelet's functions, fields out."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.tracer import is_list
from ipu_teach.cost.codelets import UNKNOWN, VERTEX_OVERHEAD, single_cycles
from ipu_teach.engine.chance import Chance
from ipu_teach.engine.floating import Watch
from ipu_teach.engine.kernels import Call
from ipu_teach.engine.lane_code import Builder
from ipu_teach.engine.lane_values import LaneStop
from ipu_teach.engine.lanes import Field, Lanes
from ipu_teach.engine.loop import run_loop
from ipu_teach.engine.memory import Memory
from ipu_teach.engine.views import Region, find_nests
from ipu_teach.graph.vector_layout import VectorLayout
from ipu_teach.graph.vertex import VectorList, Vertex
from ipu_teach.target import Target
from ipu_teach.types import HALF, Array

LANE_BYTES = 16 * 1024 * 1024  # fields of the vertices that run side by side


def bind_lanes(
    group: Group,
    layouts: tuple[Any, ...],
    memory: Memory,
    returned: Array | None,
    cycles: Array | None,
    target: Target,
    stopped: dict[type[Vertex], str],
    chance: Chance | None = None,
    watch: Watch | None = None,
    compute_set: str = "",
) -> list[Call]:
    """The calls that run `compute()` for every vertex of `group`, in lanes. Arguments as for `plan.bind` and `run_loop`.

    `stopped`: receives, for a codelet whose lanes had to stop in the middle of a run, the line and the reason.
    """
    code = group.lanes
    assert code is not None
    program = Builder(code)
    names = {name: _parts(group, name) for name in group.table.fields}
    width = sum(int(np.prod(shape, dtype=np.int64)) * group.table.fields[name].dtype.size
                for name, shapes in names.items() for shape in shapes)  # fmt: skip
    most = max(1, LANE_BYTES // max(width, 1))
    calls: list[Call] = []
    for begin in range(0, len(group.rows), most):
        rows = slice(begin, begin + most)
        by_chance = None if chance is None else chance.part(rows)
        watched = None if watch is None else watch.part(rows)
        bound = _Bound(
            group, rows, layouts, memory, program, names, returned, cycles, target, stopped, by_chance, watched, compute_set
        )
        calls.append((bound.run, ()))
    return calls


def _parts(group: Group, name: str) -> list[tuple[int, ...]]:
    shape: Any = group.shapes[name]
    return list(shape) if is_list(shape) else [shape]


class _Bound:
    """Some vertices of a group, ready to run."""

    def __init__(
        self,
        group: Group,
        rows: slice,
        layouts: tuple[Any, ...],
        memory: Memory,
        program: Builder,
        names: dict[str, list[tuple[int, ...]]],
        returned: Array | None,
        cycles: Array | None,
        target: Target,
        stopped: dict[type[Vertex], str],
        chance: Chance | None,
        watch: Watch | None,
        compute_set: str,
    ) -> None:
        self.stopped = stopped
        self.chance, self.watch, self.compute_set = chance, watch, compute_set
        self.group = replace(group, rows=group.rows[rows])
        self.count = len(self.group.rows)
        self.layouts, self.memory, self.program = layouts, memory, program
        self.returned = None if returned is None else returned[rows]
        self.cycles = None if cycles is None else cycles[rows]
        self.weights: dict[tuple[str, Any], float] = {}
        self.target = target
        self.looping = False
        self.fields = {name: [self._buffer(name, part, shape) for part, shape in enumerate(shapes)]
                       for name, shapes in names.items()}  # fmt: skip

    def _buffer(self, name: str, part: int, shape: tuple[int, ...]) -> tuple[Array, list[tuple[Array, Array]], Any]:
        """(the field with the vertices last, its places in memory with the parts of the buffer, or None and an index)."""
        region = Region(self.group, self.layouts, name, part)
        dtype = region.field.dtype
        buffer = self.memory.backend.empty((*shape, self.count), dtype.numpy)
        strides = region.strides or () if shape else ()
        nests = find_nests(region.starts[None]) if region.size and len(strides) == len(shape) else None
        if nests is None:
            return buffer, [], np.ascontiguousarray(region.index(slice(None)).T).reshape(buffer.shape)
        pairs = []
        for nest in nests:
            flat = self.memory.flat(dtype)[int(nest.base[0]) :]
            steps = [*nest.steps[0].tolist(), *strides]
            place = self.memory.backend.as_strided(flat, (*nest.shape, *shape), [s * dtype.size for s in steps])
            axes = len(nest.shape)
            inside = buffer[..., nest.first : nest.first + nest.count].reshape(*shape, *nest.shape)
            pairs.append((place.transpose(*range(axes, place.ndim), *range(axes)), inside))
        return buffer, pairs, None

    def run(self) -> None:
        """Run the vertices; vertex by vertex if the lanes have to stop."""
        if not self.looping:
            try:
                self._run()
                return
            except LaneStop as stop:
                reason = f"{stop.line}: {stop} does not run in lanes"
        if self.cycles is not None:
            self.cycles[...] = UNKNOWN
        run_loop(self.group, self.layouts, self.memory, self.returned, self.chance, self.watch, self.compute_set)
        if not self.looping:  # the loop had nothing against it, so it is lanes that cannot do it
            self.looping = True
            codelet = self.group.table.codelet
            self.stopped.setdefault(codelet, reason)
            warnings.warn(f"{codelet.__name__} runs vertex by vertex: {reason}.", RuntimeWarning, stacklevel=2)

    def _run(self) -> None:
        lanes = Lanes(self.count, self._weigh, self.chance, self.watch is not None)
        for name, parts in self.fields.items():
            declared = self.group.table.fields[name]
            loaded = [self._load(lanes, declared, part) for part in parts]
            lanes.fields[name] = VectorList(loaded) if is_list(self.group.shapes[name]) else loaded[0]
        self.program.run(lanes)
        lanes.book()
        for name, parts in self.fields.items():
            if self.group.table.fields[name].written:
                for buffer, pairs, index in parts:
                    for place, inside in pairs:
                        place[...] = inside
                    if index is not None:
                        self.memory.flat(self.group.table.fields[name].dtype)[index] = buffer
        if self.returned is not None:
            self.returned[...] = True
        if self.cycles is not None:
            self.cycles[...] = VERTEX_OVERHEAD + np.ceil(lanes.spent)

    def _load(self, lanes: Lanes, declared: Any, part: tuple[Array, list[tuple[Array, Array]], Any]) -> Field:
        buffer, pairs, index = part
        for place, inside in pairs:
            inside[...] = place
        if index is not None:
            self.memory.backend.take(self.memory.flat(declared.dtype), index, None, buffer, "clip")
        sized = VectorLayout.ONE_PTR not in declared.layouts[:1]
        rounds = self.chance is not None and declared.dtype is HALF
        return Field(lanes, buffer, declared.kind != "output", declared.written, sized, rounds)

    def _weigh(self, name: str, dtype: Any) -> float:
        key = (name, dtype)
        if key not in self.weights:
            self.weights[key] = single_cycles(name, dtype, self.target)
        return self.weights[key]
