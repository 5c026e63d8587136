"""Groups of vertices that share a kernel: same codelet, regions of equal shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenGraph, FrozenTable
from ipu_teach.compile.scalar import ScalarCode, scalar_code
from ipu_teach.compile.trace import Trace
from ipu_teach.compile.tracer import FieldShape, is_list, trace_codelet
from ipu_teach.compile.workers import merge_traces
from ipu_teach.graph.codelet_registry import Estimator
from ipu_teach.graph.registers import RegisterVertex
from ipu_teach.graph.tensor import Layout
from ipu_teach.graph.tile_map import order_of
from ipu_teach.graph.vertex import Vertex, workers
from ipu_teach.types import Array

MOST_WORKERS = 64  # a scalar loop marks workers by the bits of one integer


@dataclass(frozen=True, eq=False)
class Group:
    """Rows of one table whose regions have equal shapes, with the trace that serves them all.

    `workers`: for a MultiVertex, (id, trace) of each worker, in the order in which they run;
    `trace` is then their union. `estimator`: the cycle estimator registered for the codelet.
    """

    table: FrozenTable
    rows: Array
    shapes: dict[str, FieldShape]
    trace: Trace
    workers: tuple[tuple[int, Trace], ...] = ()
    estimator: Estimator | None = None
    # For a codelet that cannot be traced: the loop that its source gives, or the reason why not.
    scalar: ScalarCode | None = None
    no_scalar: str = ""

    # The race because of which these vertices must run one after the other, even if traced.
    race: str = ""

    @property
    def unbatched(self) -> str:
        """The reason why these vertices do not run as one batch: the line that stopped the trace
        and why, or a race. It is empty if they do.

        If they run one by one, the reason why they are no scalar loop follows, with its line if
        that is another one.
        """
        if self.is_bulk:
            return ""
        stopped = self.trace.stopped
        if self.no_scalar and stopped and not self.race and self.way == "loop":
            return f"{stopped}; {self.no_scalar.removeprefix(stopped.split(': ')[0] + ': ')}"
        return self.trace.prints or stopped or self.race

    @property
    def uncompiled(self) -> str:
        """For a scalar loop that only CPython can run: the line and the function that need it; else
        empty."""
        return self.scalar.uncompiled if self.scalar is not None and self.way == "scalar" else ""

    @property
    def is_bulk(self) -> bool:
        """Whether the codelet is written for all vertices of a group, and so needs no trace: one
        with registers."""
        return issubclass(self.table.codelet, RegisterVertex)

    @property
    def traces(self) -> list[Trace]:
        """The traces by which they run: those of their workers, or the only one."""
        return [trace for _, trace in self.workers] or [self.trace]

    @property
    def way(self) -> str:
        """The way they run: "batch" (all together), "scalar" (a loop over the elements of each
        vertex) or "loop" (plain Python)."""
        in_order = bool(self.race or self.trace.prints)
        if self.is_bulk or not (in_order or self.trace.stopped):
            return "batch"
        return "scalar" if self.scalar is not None and not in_order else "loop"


def renumbered(numbers: Array) -> Array:
    """Return non-negative integers renumbered from 0 without gaps; their order stays the same."""
    largest = int(numbers.max(initial=0))
    if largest > 8 * len(numbers):  # a table of all values would be larger than the array
        return np.unique(numbers, return_inverse=True)[1].reshape(-1)
    present = np.zeros(largest + 1, np.int64)
    present[numbers] = 1
    return (np.cumsum(present) - 1)[numbers]


class Grouper:
    """Finds the groups of tables.

    Each codelet is traced once for each set of shapes, however many compute sets use it.
    """

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
        """Return the groups of one table, ordered by their first vertex."""
        key: Array = np.zeros(len(table), np.int64)
        for layouts in table.layouts.values():
            shapes = self._shape_of_layout[layouts]
            if np.any(shapes != shapes[0]):  # a shape that all share divides nothing
                # Renumbered after each field, so that the key stays small enough for int64.
                key = renumbered(key * len(self._shapes) + shapes)
        if not key.any():
            return [self._group(table, np.arange(len(table)))] if len(table) else []
        order = order_of(key)
        members = np.split(order, np.flatnonzero(np.diff(key[order])) + 1)
        return [self._group(table, rows) for rows in sorted(members, key=lambda r: int(r[0]))]

    def _group(self, table: FrozenTable, rows: Array) -> Group:
        """Return the group of these rows; the codelet is traced if their shapes are new."""
        row = int(rows[0])
        shapes: dict[str, FieldShape] = {}
        for name, declared in table.fields.items():
            shape = self._shapes[self._shape_of_layout[table.layouts[name][row]]]
            shapes[name] = () if declared.depth == 0 else shape
        key = (table.codelet, tuple(shapes.items()))
        count = self.graph.target.num_worker_contexts
        if key not in self._traces:
            self._traces[key] = _traces(table, row, shapes, count)
        traces = self._traces[key]
        estimator = self.graph.estimators.get(table.codelet)
        is_multi = table.codelet.context == "multi"
        trace = merge_traces(traces) if is_multi else traces[0]
        code = self._scalar(table.codelet, shapes, count) if trace.stopped else ""
        return Group(
            table=table,
            rows=rows,
            shapes=shapes,
            trace=trace,
            workers=tuple(enumerate(traces)) if is_multi else (),
            estimator=estimator,
            scalar=code if isinstance(code, ScalarCode) else None,
            no_scalar=code if isinstance(code, str) else "",
        )

    def _scalar(
        self, codelet: type[Vertex], shapes: dict[str, FieldShape], num_workers: int
    ) -> ScalarCode | str:
        """Return the scalar loop for vertices of these shapes, or the reason why there is none."""
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
    """Return the traces of the vertex in a row: one, or one per worker of a MultiVertex."""
    codelet = table.codelet
    vertex = vertex_name(table, row)
    return tuple(
        trace_codelet(codelet, shapes, vertex, num_workers=num_workers, worker=worker)
        for worker in workers(codelet, num_workers)
    )


def with_workers(group: Group, num_workers: int) -> Group:
    """Return `group` for a tile with `num_workers` workers.

    The vertices of a MultiVertex then divide their work among that many.
    """
    if not group.workers:
        return group
    traces = _traces(group.table, int(group.rows[0]), group.shapes, num_workers)
    return replace(group, trace=merge_traces(traces), workers=tuple(enumerate(traces)))
