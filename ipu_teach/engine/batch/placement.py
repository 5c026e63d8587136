"""Decide which regions of a group's vertices are used in place instead of copied.

A region is used in place only if the results then have the same bits as in the plain vertex loop.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from ipu_teach.compile.trace import Trace
from ipu_teach.engine.batch.last_use import delicate_roots, only_numbers, soft_roots, summed_down
from ipu_teach.engine.site import Site
from ipu_teach.engine.tile_arrays import Memory
from ipu_teach.engine.views import PREFIX, Nest, Region, find_nests, running_order
from ipu_teach.types import Array

# The maximum number of bytes of a shared region that is copied once per step for all vertices.
PACK_BYTES = 64 * 1024 * 1024
# Rows of at most this length are first copied to a buffer, because summing them in place takes
# longer.
SHORT_ROW = 8


@dataclass(eq=False)
class GroupPlacement:
    """The places in memory of a group's regions while its vertices run.

    A region is identified by its id in the trace, the id of its root.

    * `regions`: maps the id of each region to the region
    * `nests`: the vertices, as grids of vertices at regular distances (see `views.Nest`)
    * `column`: maps the id of each region at regular distances to its row in the arrays of the
      nests
    * `in_place`: the ids of the regions that are used in place
    * `strided`: the ids of the regions in place that are not contiguous
    * `running`: the order in which the vertices run, or None for the order of the group
    * `model`: the id of the region whose memory order the results get, or None
    * `side_by_side`: whether the elements of all vertices that have the same index are next to each
      other in buffers
    * `down`: the result of `last_use.summed_down`, {value: axis}; this axis of the value is
      outermost in its buffer's memory
    """

    trace: Trace
    memory: Memory
    regions: dict[int, Region]
    nests: list[Nest]
    column: dict[int, int]
    in_place: list[int]
    strided: Collection[int] = ()
    running: Array | None = None
    model: int | None = None
    side_by_side: bool = False
    down: dict[int, int] = field(default_factory=dict)

    def order(self, value: int, axes: int) -> list[int]:
        """Return the axes of a value's buffer in the order in which they are in memory.

        The first `axes` axes are those of the vertices. The result is [] if the value's axes have
        the same order as in the trace's sample.
        """
        axis = self.down.get(value)
        if axis is None:
            return []
        own = [axes + i for i in range(np.ndim(self.trace.samples[value])) if i != axis]
        return [axes + axis, *range(axes), *own]

    def packs(self, root: int, nest: Nest) -> bool:
        """Return whether a region is copied to a buffer once for all vertices of a nest.

        The region must be an input that several vertices of the nest share and that cannot be used
        in place. The copy must have at most `PACK_BYTES` bytes.
        """
        region = self.regions[root]
        if (
            root in self.in_place
            or root not in self.column
            or region.field.kind != "input"
            or self.side_by_side
        ):
            return False
        moving = nest.steps[self.column[root]] != 0
        count = int(np.prod(np.array(nest.shape)[moving], dtype=np.int64))
        return count < nest.count and count * region.bytes <= PACK_BYTES

    def copied_bytes(self) -> int:
        """Return the number of bytes that are copied separately for each vertex."""
        return sum(
            r.bytes
            for i, r in self.regions.items()
            if i not in self.in_place and not all(self.packs(i, nest) for nest in self.nests)
        )

    def place(self, root: int, nest: Nest) -> Array:
        """Return a strided view of the memory: the region with id `root` of every vertex of a nest.

        An axis along which all vertices share the region has length 1.
        """
        region = self.regions[root]
        column_number = self.column[root]
        one_region = self.trace.samples[root]
        itemsize = region.field.dtype.numpy.itemsize
        inner_strides = (
            one_region.strides
            if region.contiguous
            else tuple(stride * itemsize for stride in region.strides or ())
        )
        vertex_steps = nest.steps[column_number].tolist()
        lead_shape = tuple(
            1 if vertex_step == 0 else length
            for length, vertex_step in zip(nest.shape, vertex_steps, strict=True)
        )
        flat = self.memory.flat(region.field.dtype)[int(nest.base[column_number]) :]
        strides = (*(stride * itemsize for stride in vertex_steps), *inner_strides)
        view: Array = self.memory.backend.as_strided(
            flat, (*lead_shape, *one_region.shape), strides
        )
        return view


def place_group(site: Site) -> GroupPlacement:
    """Return which of a group's regions are used in place, and the order of its vertices."""
    group = site.group
    trace = site.group.trace
    regions = {
        root: Region(group, site.graph, name, region_index)
        for root, (name, region_index) in trace.regions.items()
    }
    vertex_order = running_order(list(regions.values()))
    if vertex_order is not None:
        for region in regions.values():
            region.put_in_order(vertex_order)
    nests, column = _nested(regions, trace, len(group.rows))
    placement = GroupPlacement(
        trace,
        memory=site.memory,
        regions=regions,
        nests=nests,
        column=column,
        in_place=[],
        running=vertex_order,
        side_by_side=only_numbers(trace),
        down=summed_down(trace) if site.memory.backend.on_host else {},
    )
    delicate = delicate_roots(trace, site.mode.exact)
    soft = soft_roots(trace, site.mode.exact)
    for root, column_number in column.items():
        region = regions[root]
        vertex_steps = np.concatenate(
            [nest.steps[column_number][np.array(nest.shape) > 1] for nest in nests]
        )
        is_shared_output = region.field.written and bool(np.any(vertex_steps == 0))
        is_scattered = placement.side_by_side and np.any(vertex_steps != 0)
        if (
            is_shared_output
            or is_scattered
            or np.any(vertex_steps < 0)
            or not (region.contiguous or root in soft)
        ):
            continue
        if root in placement.down and trace.samples[root].shape[-1] <= SHORT_ROW:
            continue
        if root in delicate:
            has_twin = any(
                other_root in delicate and np.any(regions[other_root].starts == region.starts)
                for other_root in placement.in_place
            )
            if has_twin or not region.is_separate:
                continue
        placement.in_place.append(root)
    placement.strided = {root for root in placement.in_place if not regions[root].contiguous}
    # If the layout of the results does not matter, they get the layout of the strided region with
    # the most axes, so that numpy can traverse all arrays row by row, across vertices.
    if placement.strided and not placement.side_by_side and soft >= set(trace.roots):
        placement.model = max(placement.strided, key=lambda root: np.ndim(trace.samples[root]))
    return placement


def _nested(
    regions: dict[int, Region], trace: Trace, count: int
) -> tuple[list[Nest], dict[int, int]]:
    """Return (nests, columns): a group's vertices as grids at regular distances.

    `columns` maps the id of each region with regular starts to its row in `Nest.base` and
    `Nest.steps`. Larger regions come first.
    """
    candidates = [
        root
        for root, region in regions.items()
        if region.size
        and (region.contiguous or len(region.strides or ()) == np.ndim(trace.samples[root]) > 0)
    ]
    # The first vertices are enough to recognise regions with irregular starts.
    ordered = (root for root in candidates if find_nests(regions[root].starts[None, :PREFIX]))
    candidates = sorted(ordered, key=lambda root: -regions[root].bytes)
    chosen = candidates
    nests = (
        find_nests(np.stack([regions[root].starts for root in candidates])) if candidates else None
    )
    if nests is None:
        chosen = []
        for root in candidates:
            nests_with_root = find_nests(
                np.stack([regions[chosen_root].starts for chosen_root in [*chosen, root]])
            )
            if nests_with_root is not None:
                chosen = [*chosen, root]
                nests = nests_with_root
    # If no region has regular starts, all vertices form a single nest without regions.
    single_nest = Nest(0, (count,), np.zeros(0, np.int64), np.zeros((0, 1), np.int64))
    return nests or [single_nest], {
        root: column_number for column_number, root in enumerate(chosen)
    }
