"""Vertices that may share a kernel: the same codelet, and regions of the same shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenGraph, FrozenTable
from ipu_teach.compile.trace import Trace
from ipu_teach.compile.tracer import FieldShape, fork_codelet, trace_codelet
from ipu_teach.compile.workers import merged
from ipu_teach.graph.codelets import Estimator
from ipu_teach.graph.tensor import Layout
from ipu_teach.graph.vertex import workers
from ipu_teach.types import Array


@dataclass(frozen=True, eq=False)
class Group:
    """Rows of one table whose regions agree in shape, with the trace that serves them all.

    `workers`: for a MultiVertex, (id, trace) of each worker, in the order in which they run; `trace` is what they do
    together. `estimator`: the one registered for the codelet.
    """

    table: FrozenTable
    rows: Array
    shapes: dict[str, FieldShape]
    trace: Trace
    workers: tuple[tuple[int, Trace], ...] = ()
    estimator: Estimator | None = None
    # For a codelet with a few branches that depend on data: a trace for each way through them.
    paths: tuple[Trace, ...] = ()

    # Why these vertices may not run side by side, although their codelet could be traced.
    apart: str = ""

    @property
    def unbatched(self) -> str:
        """Why these vertices do not run as one batch: the line and what prevented the trace, or a race. Empty if they do."""
        return self.trace.stopped or self.apart

    @property
    def way(self) -> str:
        """How they run: "batch", "fork" (a batch for each way through the branches), or "loop" (one by one)."""
        return "loop" if self.apart else "batch" if not self.trace.stopped else "fork" if self.paths else "loop"


class Grouper:
    """Finds the groups of tables; traces each codelet once for each set of shapes, however many compute sets use it."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph
        self._traces: dict[object, tuple[Trace, ...]] = {}
        self._paths: dict[object, tuple[Trace, ...]] = {}
        self._shapes: list[FieldShape] = []
        numbers: dict[FieldShape, int] = {}
        ids = []
        for layout in graph.layouts:
            shape: FieldShape = layout.shape if isinstance(layout, Layout) else tuple(p.shape for _, p in layout.parts)
            if shape not in numbers:
                numbers[shape] = len(self._shapes)
                self._shapes.append(shape)
            ids.append(numbers[shape])
        self._shape_of_layout = np.array(ids, np.int64)

    def groups(self, table: FrozenTable) -> list[Group]:
        """The groups of one table, ordered by their first vertex."""
        key = np.zeros(len(table), np.int64)
        for layouts in table.layouts.values():
            # Renumbered after each field, so that the key stays small and two different ones never meet.
            _, key = np.unique(key * len(self._shapes) + self._shape_of_layout[layouts], return_inverse=True)
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        members = np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1)
        return [self._group(table, rows) for rows in sorted(members, key=lambda r: int(r[0]))]

    def _group(self, table: FrozenTable, rows: Array) -> Group:
        row = int(rows[0])
        shapes: dict[str, FieldShape] = {}
        for name, declared in table.fields.items():
            shape = self._shapes[self._shape_of_layout[table.layouts[name][row]]]
            shapes[name] = () if declared.depth == 0 else shape
        key = (table.codelet, tuple(shapes.items()))
        count = self.graph.target.num_worker_contexts
        if key not in self._traces:
            self._traces[key] = tuple(
                trace_codelet(table.codelet, shapes, vertex_name(table, row), count, worker)
                for worker in workers(table.codelet, count)
            )
        traces, estimator = self._traces[key], self.graph.estimators.get(table.codelet)
        if table.codelet.context != "multi":
            paths = self._forks(key, table, shapes, row) if traces[0].stopped else ()
            return Group(table, rows, shapes, traces[0], estimator=estimator, paths=paths)
        return Group(table, rows, shapes, merged(traces), tuple(enumerate(traces)), estimator)

    def _forks(self, key: object, table: FrozenTable, shapes: dict[str, FieldShape], row: int) -> tuple[Trace, ...]:
        if key not in self._paths:
            count = self.graph.target.num_worker_contexts
            self._paths[key] = fork_codelet(table.codelet, shapes, vertex_name(table, row), count)
        return self._paths[key]
