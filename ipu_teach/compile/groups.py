"""Vertices that may share a kernel: the same codelet, and regions of the same shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenGraph, FrozenTable
from ipu_teach.compile.trace import Trace
from ipu_teach.compile.tracer import FieldShape, trace_codelet
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

    # Why these vertices may not run side by side, although their codelet could be traced.
    apart: str = ""

    @property
    def unbatched(self) -> str:
        """Why these vertices run one by one: the line and what prevented the trace, or a race. Empty if they are batched."""
        return self.trace.stopped or self.apart


class Grouper:
    """Finds the groups of tables; traces each codelet once for each set of shapes, however many compute sets use it."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph
        self._traces: dict[object, tuple[Trace, ...]] = {}
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
            shapes = self._shape_of_layout[layouts]
            if np.any(shapes != shapes[0]):  # what all agree in tells none apart
                # Renumbered after each field, so that the key stays small and two different ones never meet.
                _, key = np.unique(key * len(self._shapes) + shapes, return_inverse=True)
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
            return Group(table, rows, shapes, traces[0], estimator=estimator)
        return Group(table, rows, shapes, merged(traces), tuple(enumerate(traces)), estimator)


def with_workers(group: Group, num_workers: int) -> Group:
    """`group` as it would be on a tile with `num_workers` workers: the vertices of a MultiVertex divide their work anew."""
    if not group.workers:
        return group
    codelet, who = group.table.codelet, vertex_name(group.table, int(group.rows[0]))
    traces = tuple(trace_codelet(codelet, group.shapes, who, num_workers, worker) for worker in workers(codelet, num_workers))
    return replace(group, trace=merged(traces), workers=tuple(enumerate(traces)))
