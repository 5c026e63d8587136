"""Vertices that may share a kernel: the same codelet, and regions of the same shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenGraph, FrozenTable
from ipu_teach.compile.scalar import ScalarCode, scalar_code
from ipu_teach.compile.trace import Trace
from ipu_teach.compile.tracer import FieldShape, is_list, trace_codelet
from ipu_teach.compile.workers import merged
from ipu_teach.graph.codelet_registry import Estimator
from ipu_teach.graph.registers import RegisterVertex
from ipu_teach.graph.tensor import Layout
from ipu_teach.graph.tile_map import order_of
from ipu_teach.graph.vertex import Vertex, workers
from ipu_teach.types import Array

MOST_WORKERS = 64  # that a scalar loop marks, a bit for each


@dataclass(frozen=True, eq=False)
class Group:
    """Rows of one table whose regions agree in shape, with the trace that serves them all.

    `workers`: for a MultiVertex, (id, trace) of each worker, in the order in which they run;
    `trace` is what they do together. `estimator`: the one registered for the codelet.
    """

    table: FrozenTable
    rows: Array
    shapes: dict[str, FieldShape]
    trace: Trace
    workers: tuple[tuple[int, Trace], ...] = ()
    estimator: Estimator | None = None
    # For a codelet that cannot be traced: the loop that its text gives, or why there is none.
    scalar: ScalarCode | None = None
    no_scalar: str = ""

    # Why these vertices may not run side by side, although their codelet could be traced.
    apart: str = ""

    @property
    def unbatched(self) -> str:
        """Why these vertices do not run as one batch: the line and what prevented the trace, or a
        race. Empty if they do.

        Of those that run one by one also what does not run as a scalar loop, with its line if that
        is another.
        """
        if self.at_once:
            return ""
        stopped = self.trace.stopped
        if self.no_scalar and stopped and not self.apart and self.way == "loop":
            return f"{stopped}; {self.no_scalar.removeprefix(stopped.split(': ')[0] + ': ')}"
        return self.trace.prints or stopped or self.apart

    @property
    def uncompiled(self) -> str:
        """Of a scalar loop that CPython alone can run, the line and the function that need it."""
        return self.scalar.uncompiled if self.scalar is not None and self.way == "scalar" else ""

    @property
    def at_once(self) -> bool:
        """True for codelets that are written for all vertices of a group, and so need no trace:
        those with registers."""
        return issubclass(self.table.codelet, RegisterVertex)

    @property
    def traces(self) -> list[Trace]:
        """All traces by which they run: of their workers, or the one."""
        return [trace for _, trace in self.workers] or [self.trace]

    @property
    def way(self) -> str:
        """How they run: "batch" (all at once), "scalar" (a loop over elements of each) or "loop"
        (plain Python)."""
        in_order = bool(self.apart or self.trace.prints)
        if self.at_once or not (in_order or self.trace.stopped):
            return "batch"
        return "scalar" if self.scalar is not None and not in_order else "loop"


def renumbered(numbers: Array) -> Array:
    """The same whole numbers of 0 or more, named anew from 0 on in their order, without a gap."""
    largest = int(numbers.max(initial=0))
    if largest > 8 * len(numbers):  # a table of them all would be larger than they are
        return np.unique(numbers, return_inverse=True)[1].reshape(-1)
    present = np.zeros(largest + 1, np.int64)
    present[numbers] = 1
    return (np.cumsum(present) - 1)[numbers]


class Grouper:
    """Finds the groups of tables; traces each codelet once for each set of shapes, however many
    compute sets use it."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph
        self._traces: dict[object, tuple[Trace, ...]] = {}
        self._shapes: list[FieldShape] = []
        numbers: dict[FieldShape, int] = {}
        ids = []
        for layout in graph.layouts:
            shape: FieldShape = (
                layout.shape
                if isinstance(layout, Layout)
                else tuple(p.shape for _, p in layout.parts)
            )
            if shape not in numbers:
                numbers[shape] = len(self._shapes)
                self._shapes.append(shape)
            ids.append(numbers[shape])
        self._shape_of_layout = np.array(ids, np.int64)

    def groups(self, table: FrozenTable) -> list[Group]:
        """The groups of one table, ordered by their first vertex."""
        key: Array = np.zeros(len(table), np.int64)
        for layouts in table.layouts.values():
            shapes = self._shape_of_layout[layouts]
            if np.any(shapes != shapes[0]):  # what all agree in tells none apart
                # Renumbered after each field, so that the key stays small and two different ones
                # never meet.
                key = renumbered(key * len(self._shapes) + shapes)
        if not key.any():
            return [self._group(table, np.arange(len(table)))] if len(table) else []
        order = order_of(key)
        members = np.split(order, np.flatnonzero(np.diff(key[order])) + 1)
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
            self._traces[key] = _traces(table, row, shapes, count)
        traces, estimator = self._traces[key], self.graph.estimators.get(table.codelet)
        multi = table.codelet.context == "multi"
        trace = merged(traces) if multi else traces[0]
        found = self._scalar(table.codelet, shapes, count) if trace.stopped else ""
        scalar, why = (found, "") if isinstance(found, ScalarCode) else (None, found)
        return Group(
            table,
            rows,
            shapes,
            trace,
            tuple(enumerate(traces)) if multi else (),
            estimator,
            scalar,
            why,
        )

    def _scalar(
        self, codelet: type[Vertex], shapes: dict[str, FieldShape], num_workers: int
    ) -> ScalarCode | str:
        """The scalar loop for vertices of these shapes, or why there is none."""
        lists = frozenset(name for name, shape in shapes.items() if is_list(shape))
        if codelet.context == "multi" and num_workers > MOST_WORKERS:
            return (
                f"{codelet.__name__}: more than {MOST_WORKERS} workers a tile do not run as a "
                "scalar loop"
            )
        return scalar_code(codelet, lists)


def _traces(
    table: FrozenTable, row: int, shapes: dict[str, FieldShape], num_workers: int
) -> tuple[Trace, ...]:
    """The traces of the vertex in a row: one, or those of the workers of a MultiVertex."""
    codelet, who = table.codelet, vertex_name(table, row)
    return tuple(
        trace_codelet(codelet, shapes, who, num_workers, worker)
        for worker in workers(codelet, num_workers)
    )


def with_workers(group: Group, num_workers: int) -> Group:
    """`group` as it would be on a tile with `num_workers` workers: the vertices of a MultiVertex
    divide their work anew."""
    if not group.workers:
        return group
    traces = _traces(group.table, int(group.rows[0]), group.shapes, num_workers)
    return replace(group, trace=merged(traces), workers=tuple(enumerate(traces)))
