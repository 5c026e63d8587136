"""Run elementwise codelets without regard to the boundaries between vertices.

If a codelet only has elementwise operations on complete regions, the bits of an element do not
depend on the vertex that computes it. So where the regions of neighbouring vertices are adjacent in
every field, they are joined to one long region, whatever their sizes. It is divided again into
pieces whose temporaries fit a core's cache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ipu_teach.compile.trace import Op, Ref, Trace, layout_independent
from ipu_teach.engine.backend import Call
from ipu_teach.engine.batch import batch_plan
from ipu_teach.engine.batch.buffers import BufferKey
from ipu_teach.engine.batch.chunk import Chunk
from ipu_teach.engine.batch.last_use import last_uses, live_bytes
from ipu_teach.engine.batch.placement import GroupPlacement
from ipu_teach.engine.site import Site
from ipu_teach.engine.views import LEAST_RUN, Nest, Region
from ipu_teach.types import Array


def bind_across_vertices(sites: Sequence[Site]) -> list[Call] | None:
    """Return the calls that run all vertices of one table's groups.

    Return None if the regions are not adjacent, or the codelet is not elementwise.
    """
    groups = [site.group for site in sites]
    site = sites[0]
    first = groups[0].trace
    runs = site.memory.backend.runs
    if any(
        g.way != "batch" or g.workers or not _elementwise(g.trace) or not runs(g.trace)
        for g in groups
    ):
        return None
    if any(_steps(g.trace) != _steps(first) for g in groups) or not first.regions:
        return None
    by_group = [
        {i: Region(g, site.graph, *first.regions[i]) for i in first.regions} for g in groups
    ]
    long = [i for i in first.regions if np.ndim(first.samples[i])]
    shared = [i for i in first.regions if i not in long]
    starts = {i: np.concatenate([regions[i].starts for regions in by_group]) for i in first.regions}
    if not long or not all(regions[i].contiguous for regions in by_group for i in long):
        return None
    if any(np.any(starts[i] != starts[i][0]) for i in shared):
        return None
    sizes = np.concatenate(
        [
            np.full(len(g.rows), regions[long[0]].size)
            for g, regions in zip(groups, by_group, strict=True)
        ]
    )
    order = np.argsort(starts[long[0]], kind="stable")
    sizes = sizes[order]
    columns = np.stack([starts[i][order] for i in long])
    breaks = np.flatnonzero(np.any(columns[:, 1:] != columns[:, :-1] + sizes[:-1], axis=0)) + 1
    if len(breaks) + 1 > max(1, len(sizes) // LEAST_RUN):
        return None
    begins = np.concatenate(([0], breaks))
    lengths = np.add.reduceat(sizes, begins)
    pieces = _Pieces(site, {i: by_group[0][i] for i in [*long, *shared]})
    for begin, length in zip(columns[:, begins].T, lengths.tolist(), strict=True):
        pieces.bind(
            np.concatenate((begin, [starts[i][0] for i in shared])),
            [1] * len(long) + [0] * len(shared),
            length,
        )
    return pieces.calls


class _Pieces:
    """Long regions, divided into pieces that fit a core's cache.

    Each piece runs as if it were a vertex of that length.
    """

    def __init__(self, site: Site, regions: dict[int, Region]) -> None:
        self._site = site
        self._regions = regions
        self._plans: dict[int, batch_plan.BatchPlan] = {}
        self._pool: dict[BufferKey, list[Array]] = defaultdict(list)
        self.calls: list[Call] = []
        trace = site.group.trace
        samples = [np.asarray(trace.samples[i]) for i in regions]
        touched = sum(s.itemsize for s in samples)
        length = max(s.size for s in samples)
        budget = site.memory.backend.chunk_bytes or batch_plan.CHUNK_BYTES
        self._limit = max(
            1, budget // (touched + live_bytes(trace, last_uses(trace)[0]) // max(1, length))
        )

    def bind(self, begins: Array, moving: list[int], length: int) -> None:
        """Append the calls for `length` elements.

        `begins` is the start of each region. `moving` is 0 for regions of one element, and 1 for
        all others.
        """
        for start in range(0, length, self._limit):
            base = begins + np.array(moving) * start
            nest = Nest(0, (1,), base, np.zeros((len(base), 1), np.int64))
            Chunk(self._plan(min(self._limit, length - start)), nest, nest, {}).bind()

    def _plan(self, length: int) -> batch_plan.BatchPlan:
        """Return the plan for pieces of `length` elements."""
        if length not in self._plans:
            trace = _resize(self._site.group.trace, length)
            column = {i: number for number, i in enumerate(self._regions)}
            placement = GroupPlacement(
                trace,
                memory=self._site.memory,
                regions=self._regions,
                nests=[],
                column=column,
                in_place=list(self._regions),
            )
            plan = batch_plan.BatchPlan(
                replace(self._site, group=replace(self._site.group, trace=trace)), placement
            )
            plan.calls = self.calls
            plan.buffers.pool = self._pool
            self._plans[length] = plan
        return self._plans[length]


def _resize(trace: Trace, length: int) -> Trace:
    """Return an elementwise trace changed to that of a vertex with `length` elements."""
    samples = list(trace.samples)
    for i, root in enumerate(trace.roots):
        if np.ndim(samples[i]):
            samples[i] = samples[root] if root < i else np.empty(length, samples[i].dtype)
    return replace(trace, samples=samples)


def _steps(trace: Trace) -> list[tuple[object, ...]]:
    """Return the operations of a trace, regardless of the size of its regions."""
    return [
        (op.kind, op.fn, op.args if op.kind != "view" else op.args[:1], op.result)
        for op in trace.ops
    ]


def _elementwise(trace: Trace) -> bool:
    """Return whether a trace consists of elementwise operations on regions of equal shape."""
    shapes = {np.shape(s) for s in (trace.samples[i] for i in trace.regions) if np.ndim(s)}
    if len(shapes) != 1 or trace.returned is not True:
        return False
    (shape,) = shapes
    return all(_simple(trace, op, shape) for op in trace.ops)


def _simple(trace: Trace, op: Op, shape: tuple[int, ...]) -> bool:
    """Return whether an operation is elementwise on complete regions of this shape."""
    if any(isinstance(a, np.ndarray) for a in op.args):
        return False
    if op.kind == "store":
        value = op.args[1]
        target = trace.samples[op.args[0].id]
        is_whole = np.shape(target) == shape
        if (
            isinstance(value, Ref)
            and target.dtype.kind == "u"
            and np.asarray(trace.samples[value.id]).dtype.kind == "f"
        ):
            return False  # kernels.store_unsigned handles unsigned types
        return (
            is_whole
            and not op.kwargs
            and (not isinstance(value, Ref) or np.shape(trace.samples[value.id]) in (shape, ()))
        )
    sample = trace.samples[op.result]
    if np.shape(sample) not in (shape, ()) or (np.ndim(sample) and not sample.flags.c_contiguous):
        return False
    if op.kind == "view":
        return bool(sample.ctypes.data == trace.samples[op.args[0].id].ctypes.data)
    if op.kind == "read":  # the number must be one that all vertices share
        return np.ndim(trace.samples[op.args[0].id]) == 0
    return op.kind == "region" or (
        op.kind == "ufunc" and not op.kwargs and layout_independent(op.fn, np.asarray(sample).dtype)
    )
