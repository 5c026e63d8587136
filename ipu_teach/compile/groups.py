"""Groups of vertices that have the same kernel: the same codelet, and regions of equal shapes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenGraph, FrozenTable
from ipu_teach.compile.scalar import ScalarCode, scalar_code
from ipu_teach.compile.trace import Trace
from ipu_teach.compile.tracer import is_list, trace_codelet
from ipu_teach.compile.workers import merge_traces
from ipu_teach.graph.codelet_registry import Estimator, RegionShape
from ipu_teach.graph.registers import RegisterVertex
from ipu_teach.graph.tensor import Layout
from ipu_teach.graph.tile_map import order_of
from ipu_teach.graph.vertex import Vertex, workers
from ipu_teach.types import Array

MOST_WORKERS = 64  # The bits of one integer, which stores a set of workers in a scalar loop.


@dataclass(frozen=True, eq=False)
class Group:
    """Vertices of one table that have a common trace, because their regions have equal shapes.

    `rows` are the rows of the vertices in the table. For a MultiVertex, `workers` contains (id,
    trace) of each worker in the order in which the workers run, and `trace` is their merged trace
    (see `merge_traces`). For other vertices, `workers` is empty. `estimator` is the cycle estimator
    that is registered for the codelet, or None.
    """

    table: FrozenTable
    rows: Array
    shapes: dict[str, RegionShape]
    trace: Trace
    workers: tuple[tuple[int, Trace], ...] = ()
    estimator: Estimator | None = None
    # If the codelet cannot be traced: the loop into which its source is translated, or the reason
    # why its source cannot be translated.
    scalar: ScalarCode | None = None
    no_scalar: str = ""

    # A description of the race between vertices of the compute set, or "" if there is none. If
    # there is a race, the vertices run one after the other.
    race: str = ""

    @property
    def unbatched(self) -> str:
        """The reason why these vertices do not run as one batch, or "" if they do.

        A possible reason is that compute() prints, that its trace stopped, or that vertices race.
        If the trace stopped and the vertices run in the plain vertex loop, the text also says why
        there is no scalar loop.
        """
        if self.is_bulk:
            return ""
        stopped = self.trace.stopped
        if self.no_scalar and stopped and not self.race and self.way == "loop":
            return f"{stopped}; {self.no_scalar.removeprefix(stopped.split(': ')[0] + ': ')}"
        return self.trace.prints or stopped or self.race

    @property
    def uncompiled(self) -> str:
        """The first code for which numba would give other bits than Python, with its line, or "".

        The text is also "" if the vertices do not run as a scalar loop.
        """
        return self.scalar.uncompiled if self.scalar is not None and self.way == "scalar" else ""

    @property
    def is_bulk(self) -> bool:
        """Whether one call of compute() handles all vertices, as it does for a `RegisterVertex`.

        A codelet of this kind needs no trace.
        """
        return issubclass(self.table.codelet, RegisterVertex)

    @property
    def traces(self) -> list[Trace]:
        """The traces that run: one for each worker of a MultiVertex, else a single one."""
        return [trace for _, trace in self.workers] or [self.trace]

    @property
    def way(self) -> str:
        """The way in which the vertices run: "batch", "scalar" or "loop".

        "batch" runs all vertices together in calls for whole arrays. "scalar" runs the loop over
        elements into which the source was translated, vertex by vertex. "loop" calls the learner's
        compute() for each vertex.
        """
        in_order = bool(self.race or self.trace.prints)
        if self.is_bulk or not (in_order or self.trace.stopped):
            return "batch"
        return "scalar" if self.scalar is not None and not in_order else "loop"


def renumbered(numbers: Array) -> Array:
    """Return the array with its distinct values replaced by 0, 1, 2, … in ascending order.

    The values are non-negative integers.
    """
    largest = int(numbers.max(initial=0))
    if largest > 8 * len(numbers):  # A look-up table would be much larger than the array.
        return np.unique(numbers, return_inverse=True)[1].reshape(-1)
    present = np.zeros(largest + 1, np.int64)
    present[numbers] = 1
    return (np.cumsum(present) - 1)[numbers]


class Grouper:
    """Divides tables into groups.

    A codelet is traced once for each combination of shapes, even if many compute sets use it.
    """

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph
        self._traces: dict[Hashable, tuple[Trace, ...]] = {}
        self._shapes: list[RegionShape] = []
        index_of_shape: dict[RegionShape, int] = {}
        shape_indices = []
        for layout in graph.layouts:
            shape: RegionShape = (
                layout.shape
                if isinstance(layout, Layout)
                else tuple(part.shape for _, part in layout.parts)
            )
            if shape not in index_of_shape:
                index_of_shape[shape] = len(self._shapes)
                self._shapes.append(shape)
            shape_indices.append(index_of_shape[shape])
        self._shape_of_layout = np.array(shape_indices, np.int64)

    def groups(self, table: FrozenTable) -> list[Group]:
        """Return the groups of one table, ordered by their first vertex."""
        key: Array = np.zeros(len(table), np.int64)
        for layouts in table.layouts.values():
            shapes = self._shape_of_layout[layouts]
            # If all vertices have the same shape for this field, the field does not divide them
            # into groups.
            if np.any(shapes != shapes[0]):
                # The keys are renumbered after each field, so that they stay small enough for
                # int64.
                key = renumbered(key * len(self._shapes) + shapes)
        if not key.any():
            return [self._group(table, np.arange(len(table)))] if len(table) else []
        order = order_of(key)
        members = np.split(order, np.flatnonzero(np.diff(key[order])) + 1)
        return [self._group(table, rows) for rows in sorted(members, key=lambda r: int(r[0]))]

    def _group(self, table: FrozenTable, rows: Array) -> Group:
        """Return the group of the vertices in these rows.

        The codelet is traced here if no earlier group had the same codelet and the same shapes.
        """
        row = int(rows[0])
        shapes: dict[str, RegionShape] = {}
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
        self, codelet: type[Vertex], shapes: dict[str, RegionShape], num_workers: int
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
    table: FrozenTable, row: int, shapes: dict[str, RegionShape], num_workers: int
) -> tuple[Trace, ...]:
    """Return the traces of the vertex in a row.

    A MultiVertex has a trace for each worker; any other vertex has one trace.
    """
    codelet = table.codelet
    vertex = vertex_name(table, row)
    return tuple(
        trace_codelet(codelet, shapes, vertex, num_workers=num_workers, worker=worker)
        for worker in workers(codelet, num_workers)
    )


def with_workers(group: Group, num_workers: int) -> Group:
    """Return `group` as it would be on tiles with `num_workers` workers.

    Only the group of a MultiVertex changes, whose workers divide the work of a vertex.
    """
    if not group.workers:
        return group
    traces = _traces(group.table, int(group.rows[0]), group.shapes, num_workers)
    return replace(group, trace=merge_traces(traces), workers=tuple(enumerate(traces)))
