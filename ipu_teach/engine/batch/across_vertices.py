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
    groups = [first_site.group for first_site in sites]
    first_site = sites[0]
    first_trace = groups[0].trace
    can_run = first_site.memory.backend.runs
    if any(
        group.way != "batch"
        or group.workers
        or not _elementwise(group.trace)
        or not can_run(group.trace)
        for group in groups
    ):
        return None
    if (
        any(_steps(group.trace) != _steps(first_trace) for group in groups)
        or not first_trace.regions
    ):
        return None
    regions_by_group = [
        {
            region_id: Region(group, first_site.graph, *first_trace.regions[region_id])
            for region_id in first_trace.regions
        }
        for group in groups
    ]
    array_ids = [
        region_id for region_id in first_trace.regions if np.ndim(first_trace.samples[region_id])
    ]
    scalar_ids = [region_id for region_id in first_trace.regions if region_id not in array_ids]
    starts = {
        region_id: np.concatenate([regions[region_id].starts for regions in regions_by_group])
        for region_id in first_trace.regions
    }
    if not array_ids or not all(
        regions[region_id].contiguous for regions in regions_by_group for region_id in array_ids
    ):
        return None
    if any(np.any(starts[region_id] != starts[region_id][0]) for region_id in scalar_ids):
        return None
    elements_of_vertex = np.concatenate(
        [
            np.full(len(group.rows), regions[array_ids[0]].size)
            for group, regions in zip(groups, regions_by_group, strict=True)
        ]
    )
    memory_order = np.argsort(starts[array_ids[0]], kind="stable")
    elements_of_vertex = elements_of_vertex[memory_order]
    starts_of_arrays = np.stack([starts[region_id][memory_order] for region_id in array_ids])
    gap_positions = (
        np.flatnonzero(
            np.any(
                starts_of_arrays[:, 1:] != starts_of_arrays[:, :-1] + elements_of_vertex[:-1],
                axis=0,
            )
        )
        + 1
    )
    if len(gap_positions) + 1 > max(1, len(elements_of_vertex) // LEAST_RUN):
        return None
    run_begins = np.concatenate(([0], gap_positions))
    run_lengths = np.add.reduceat(elements_of_vertex, run_begins)
    pieces = _Pieces(
        first_site,
        {region_id: regions_by_group[0][region_id] for region_id in [*array_ids, *scalar_ids]},
    )
    for array_starts, run_length in zip(
        starts_of_arrays[:, run_begins].T, run_lengths.tolist(), strict=True
    ):
        pieces.bind(
            np.concatenate((array_starts, [starts[region_id][0] for region_id in scalar_ids])),
            [1] * len(array_ids) + [0] * len(scalar_ids),
            run_length,
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
        """Append the calls for `length` elements.

        `begins` is the start of each region. `moving` is 0 for regions of one element, and 1 for
        all others.
        """
        for first_element in range(0, length, self._limit):
            piece_begins = begins + np.array(moving) * first_element
            nest = Nest(0, (1,), piece_begins, np.zeros((len(piece_begins), 1), np.int64))
            Chunk(self._plan(min(self._limit, length - first_element)), nest, nest, {}).bind()

    def _plan(self, length: int) -> batch_plan.BatchPlan:
        """Return the plan for pieces of `length` elements."""
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
