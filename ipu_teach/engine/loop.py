"""The plain vertex loop: every vertex by itself, in order, on local copies. Slow, and the referee of every faster path."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenTable
from ipu_teach.compile.groups import Group
from ipu_teach.compile.tracer import failed, located, source_line
from ipu_teach.engine.chance import Chance, StoredHalf
from ipu_teach.engine.floating import FloatingPoint, Watch, trapped
from ipu_teach.engine.memory import Memory
from ipu_teach.engine.scalar.count import Counting
from ipu_teach.errors import CodeletError
from ipu_teach.graph.tensor import Layout
from ipu_teach.graph.vertex import VectorList
from ipu_teach.types import HALF, Array

Back = list[tuple[Array, Any, Array]]  # (memory, where in it, what is to be written there)


def run_loop(
    group: Group,
    layouts: tuple[Any, ...],
    memory: Memory,
    returned: Array | None = None,
    chance: Chance | None = None,
    watch: Watch | None = None,
    compute_set: str = "",
    count: Counting | None = None,
) -> None:
    """Run `compute()` of every vertex of `group`. Raises `CodeletError` that names line, vertex and tile.

    `returned`: bool[vertices], receives what each `compute()` returned; nothing counts as true. `chance`: rounds what is
    stored in halves stochastically. `watch`: raises `FloatingPointTrapError`, or stores NaN, where it says so. `count`: what
    the vertices' scalar loop counts, on copies of its own.
    """
    for number, row in enumerate(group.rows.tolist()):
        floating = watch.of(number) if watch is not None else None
        keys = None if chance is None or not chance.chosen[number] else chance.keys[number]
        vertex = _Vertex(group, layouts, memory, row, keys, floating, watch is not None)
        twin = None if count is None else _Vertex(group, layouts, memory, row, keys, floating, watch is not None)
        try:
            answer = vertex.run()
            if returned is not None:
                returned[number] = answer
        except CodeletError as error:
            raise located(error, source_line(group.table.codelet), vertex_name(group.table, row)) from None
        except Exception as error:
            place = source_line(group.table.codelet)
            if floating is not None and isinstance(error, FloatingPointError):
                values = _untrapped(_Vertex(group, layouts, memory, row, keys, None, True))
                raise trapped(group.table, row, error, place, compute_set, values) from error
            raise failed(group.table.codelet, error, place, vertex_name(group.table, row)) from error
        if count is not None and twin is not None:
            twin.count(number, count)
        for flat, where, array in vertex.back:
            flat[where] = array.reshape(-1)


class _Vertex:
    """One vertex on local copies of its regions. `back`: what to write where, when it is done.

    `keys`: of what it rounds by chance. `watched`: somebody looks at floating-point errors, if only for other vertices.
    """

    def __init__(
        self,
        group: Group,
        layouts: tuple[Any, ...],
        memory: Memory,
        row: int,
        keys: Array | None,
        floating: FloatingPoint | None,
        watched: bool,
    ) -> None:
        self.table: FrozenTable = group.table
        self.workers: list[tuple[int, ...]] = [(worker,) for worker, _ in group.workers] or [()]
        self.keys, self.floating, self.watched = keys, floating, watched
        self.stream = np.zeros(2, np.uint64)  # of the worker that runs now
        self.overflows: list[str] = []  # since the last store in a half
        self.regions: dict[str, Any] = {}
        self.places: dict[str, list[Any]] = {}  # of the parts of each field
        self.back: Back = []
        for name, declared in self.table.fields.items():
            flat, offset = memory.flat(declared.dtype), int(self.table.offsets[name][row])
            layout = layouts[self.table.layouts[name][row]]
            parts = [(0, layout)] if isinstance(layout, Layout) else layout.parts
            local = []
            for delta, part in parts:
                start = offset + delta
                where: Any = slice(start, start + part.size) if part.contiguous else start + part.positions.reshape(-1)
                array = flat[where].copy().reshape(() if declared.depth == 0 else part.shape)
                array.flags.writeable = declared.written
                if declared.dtype is HALF and (keys is not None or floating is not None):
                    array = self._looked_at(array)
                if declared.written:
                    self.back.append((flat, where, array))
                self.places.setdefault(name, []).append(where)
                local.append(array)
            self.regions[name] = local[0] if isinstance(layout, Layout) else VectorList(local)

    def _looked_at(self, array: Array) -> StoredHalf:
        stored, floating = array.view(StoredHalf), self.floating
        stored.stream = None if self.keys is None else self.stream
        stored.overflows = self.overflows if floating is not None and floating.looks_at_stores else None
        stored.stops = floating is not None and (floating.oflo or floating.stops)
        return stored

    def run(self) -> bool:
        """Call compute(), for each worker of a MultiVertex. Returns its answer."""
        vertex, results = self.table.codelet.bind(self.regions, len(self.workers)), []
        for worker in self.workers:
            if self.keys is not None:
                self.stream[...] = self.keys[worker or 0], 0
            self.overflows.clear()
            with self._errors():
                results.append(vertex.compute(*worker))
        return all(result is None or bool(result) for result in results)

    def count(self, number: int, count: Counting) -> None:
        """Count vertex `number` of its group, by its scalar loop."""

        def begin(worker: int) -> None:
            if self.keys is not None:
                self.stream[...] = self.keys[worker], 0
            self.overflows.clear()

        with self._errors():
            count.vertex(number, self.regions, self.places, begin)

    def _errors(self) -> AbstractContextManager[object]:
        if self.floating is not None:
            return self.floating.watch(self.overflows)
        return np.errstate(all="ignore") if self.watched else nullcontext()


def _untrapped(vertex: _Vertex) -> dict[str, Any]:
    """(before, after) of each written field of a vertex, where nothing stops it. Empty if it cannot end."""
    written = {name: region for name, region in vertex.regions.items() if vertex.table.fields[name].written}
    before = {n: [np.array(p) for p in r] if isinstance(r, list) else np.array(r) for n, r in written.items()}
    try:
        vertex.run()
    except Exception:
        return {}
    return {name: (before[name], region) for name, region in written.items()}
