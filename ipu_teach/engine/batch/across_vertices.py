"""Run elementwise codelets without regard to the boundaries between vertices.

If a codelet has only elementwise operations on complete regions, the bits of an element do not
depend on which vertex computes it. So where the regions of neighbouring vertices are adjacent in
every field, they are joined to one long region, even if their sizes differ. The long region is
divided into pieces whose temporaries fit a core's cache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ipu_teach.compile.trace import Op, Ref, Trace, item_of, layout_independent
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
    """Return the calls that run all vertices of a vertex table as a few long regions, or None.

    `sites` has a site for each group of the table. The result is None for any of these reasons:

    * The codelet is not elementwise.
    * A field of a single element is not the same element in all vertices.
    * Too few neighbouring vertices have adjacent regions, so the joined regions would be short.
    """
    first_site = sites[0]
    groups = [site.group for site in sites]
    trace = groups[0].trace
    if not _can_join(sites):
        return None
    regions_by_group = [
        {
            number: Region(group, first_site.graph, *trace.regions[number])
            for number in trace.regions
        }
        for group in groups
    ]
    arrays = [number for number in trace.regions if np.ndim(trace.samples[number])]
    scalars = [number for number in trace.regions if number not in arrays]
    starts = {
        number: np.concatenate([regions[number].starts for regions in regions_by_group])
        for number in trace.regions
    }
    is_contiguous = all(
        regions[number].contiguous for regions in regions_by_group for number in arrays
    )
    has_own_scalars = any(np.any(starts[number] != starts[number][0]) for number in scalars)
    if not arrays or not is_contiguous or has_own_scalars:
        return None
    sizes = np.concatenate(
        [
            np.full(len(group.rows), regions[arrays[0]].size)
            for group, regions in zip(groups, regions_by_group, strict=True)
        ]
    )
    runs = _adjacent_runs(np.stack([starts[number] for number in arrays]), sizes)
    if runs is None:
        return None
    pieces = _Pieces(
        first_site, {number: regions_by_group[0][number] for number in [*arrays, *scalars]}
    )
    shared_starts = [starts[number][0] for number in scalars]
    for array_starts, length in zip(runs[0].T, runs[1].tolist(), strict=True):
        pieces.bind(
            np.concatenate((array_starts, shared_starts)),
            [1] * len(arrays) + [0] * len(scalars),
            length,
        )
    return pieces.calls


def _can_join(sites: Sequence[Site]) -> bool:
    """Return whether all groups run as batches with the same elementwise operations."""
    trace = sites[0].group.trace
    can_run = sites[0].memory.backend.runs
    groups = [site.group for site in sites]
    return bool(trace.regions) and all(
        group.way == "batch"
        and not group.workers
        and _elementwise(group.trace)
        and can_run(group.trace)
        and _steps(group.trace) == _steps(trace)
        for group in groups
    )


def _adjacent_runs(starts: Array, sizes: Array) -> tuple[Array, Array] | None:
    """Return `(starts, lengths)` of the joined regions, or None if they would be too short.

    `starts` is int64[arrays, vertices]. `sizes` (int64[vertices]) is the number of elements in a
    region of each vertex; all regions of a vertex have this size. Vertices whose regions are
    adjacent in every array are joined. The returned starts are int64[arrays, joined regions], and
    the lengths int64[joined regions].
    """
    memory_order = np.argsort(starts[0], kind="stable")
    starts, sizes = starts[:, memory_order], sizes[memory_order]
    is_gap = np.any(starts[:, 1:] != starts[:, :-1] + sizes[:-1], axis=0)
    gap_positions = np.flatnonzero(is_gap) + 1
    if len(gap_positions) + 1 > max(1, len(sizes) // LEAST_RUN):
        return None
    run_begins = np.concatenate(([0], gap_positions))
    return starts[:, run_begins], np.add.reduceat(sizes, run_begins)


class _Pieces:
    """Long regions, divided into pieces whose temporaries fit a core's cache.

    Each piece runs like a single vertex whose regions have the length of the piece.
    """

    def __init__(self, site: Site, regions: dict[int, Region]) -> None:
        self._site = site
        self._regions = regions
        self._plans: dict[int, batch_plan.BatchPlan] = {}
        self._pool: dict[BufferKey, list[Array]] = defaultdict(list)
        self.calls: list[Call] = []
        trace = site.group.trace
        samples = [np.asarray(trace.samples[region_id]) for region_id in regions]
        bytes_per_element = sum(sample.itemsize for sample in samples)
        elements_per_vertex = max(sample.size for sample in samples)
        chunk_bytes = site.memory.backend.chunk_bytes or batch_plan.CHUNK_BYTES
        self._limit = max(
            1,
            chunk_bytes
            // (
                bytes_per_element
                + live_bytes(trace, last_uses(trace)[0]) // max(1, elements_per_vertex)
            ),
        )

    def bind(self, begins: Array, moving: list[int], length: int) -> None:
        """Append the calls for regions of `length` elements.

        `begins` contains the start of each region. `moving` has a number for each region: 0 if it
        has a single element, which all pieces share, and 1 if it is divided into pieces.
        """
        for first_element in range(0, length, self._limit):
            piece_begins = begins + np.array(moving) * first_element
            nest = Nest(0, (1,), piece_begins, np.zeros((len(piece_begins), 1), np.int64))
            Chunk(self._plan(min(self._limit, length - first_element)), nest, nest, {}).bind()

    def _plan(self, length: int) -> batch_plan.BatchPlan:
        """Return the `BatchPlan` for a vertex with regions of `length` elements."""
        if length not in self._plans:
            trace = _resize(self._site.group.trace, length)
            column = {
                region_id: column_number for column_number, region_id in enumerate(self._regions)
            }
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
    """Return the elementwise trace `trace`, changed for regions of `length` elements."""
    samples = list(trace.samples)
    for i, root in enumerate(trace.roots):
        if np.ndim(samples[i]):
            samples[i] = samples[root] if root < i else np.empty(length, samples[i].dtype)
    # Each view selects a complete region (`_simple`), but its index may do so only for this length:
    # x[:3] is the complete region for 3 elements, and x[::2] for one. So replace all indices with
    # `...`.
    ops = [
        replace(op, fn=item_of, args=(op.args[0], Ellipsis)) if op.kind == "view" else op
        for op in trace.ops
    ]
    return replace(trace, ops=ops, samples=samples)


def _steps(trace: Trace) -> list[tuple[object, ...]]:
    """Return a description of a trace's operations that does not depend on the sizes of regions.

    Groups whose traces have equal descriptions can run as one group.
    """
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
    """Return whether an operation is elementwise on whole regions of shape `shape`."""
    if any(isinstance(argument, np.ndarray) for argument in op.args):
        return False
    if op.kind == "store":
        value = op.args[1]
        stored_sample = trace.samples[op.args[0].id]
        is_whole = np.shape(stored_sample) == shape
        if (
            isinstance(value, Ref)
            and stored_sample.dtype.kind == "u"
            and np.asarray(trace.samples[value.id]).dtype.kind == "f"
        ):
            # A store of floats in unsigned integers needs `kernels.store_unsigned`, so the op does
            # not count as elementwise.
            return False
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
    # Reading a single number is possible only if all vertices share it.
    if op.kind == "read":
        return np.ndim(trace.samples[op.args[0].id]) == 0
    return op.kind == "region" or (
        op.kind == "ufunc" and not op.kwargs and layout_independent(op.fn, np.asarray(sample).dtype)
    )
