"""Which regions of a group's vertices are used where they lie in memory: those whose use there
cannot change a bit."""

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

# operands that vertices share are laid out once a step, up to this size
PACK_BYTES = 64 * 1024 * 1024
# elements of a row: longer ones are summed in place as fast as they would be gathered
SHORT_ROW = 8


@dataclass(eq=False)
class GroupPlacement:
    """Where the regions of a group's vertices are taken from, in the order in which the vertices
    run.

    `nests`: the vertices as nests, `column` each region's number in them, if it takes part; `here`:
    regions used in place, `strided` those of them that have gaps. `running`: the order of the
    vertices, if it is not their own. `model`: the region after which results lie. `side_by_side`:
    one element of all vertices after the other. `down`: of values whose rows are summed, by root,
    the axis that comes before those of the vertices.
    """

    trace: Trace
    memory: Memory
    regions: dict[int, Region]
    nests: list[Nest]
    column: dict[int, int]
    here: list[int]
    strided: Collection[int] = ()
    running: Array | None = None
    model: int | None = None
    side_by_side: bool = False
    down: dict[int, int] = field(default_factory=dict)

    def order(self, value: int, axes: int) -> list[int]:
        """Return the order in memory of the axes of a value's buffer: `axes` of vertices, then its
        own. Empty where it is the sample's."""
        axis = self.down.get(value)
        if axis is None:
            return []
        own = [axes + i for i in range(np.ndim(self.trace.samples[value])) if i != axis]
        return [axes + axis, *range(axes), *own]

    def packs(self, root: int, nest: Nest) -> bool:
        """True for a region that vertices of a nest share and that cannot be used in place: it is
        laid out ahead of them."""
        region = self.regions[root]
        if (
            root in self.here
            or root not in self.column
            or region.field.kind != "input"
            or self.side_by_side
        ):
            return False
        moving = nest.steps[self.column[root]] != 0
        count = int(np.prod(np.array(nest.shape)[moving], dtype=np.int64))
        return count < nest.count and count * region.bytes <= PACK_BYTES

    def copied_bytes(self) -> int:
        """Bytes of a vertex's regions that are copied for it."""
        return sum(
            r.bytes
            for i, r in self.regions.items()
            if i not in self.here and not all(self.packs(i, nest) for nest in self.nests)
        )

    def place(self, root: int, nest: Nest) -> Array:
        """A region of every vertex of a nest, as it lies in memory."""
        region, number = self.regions[root], self.column[root]
        sample, size = self.trace.samples[root], region.field.dtype.numpy.itemsize
        inner = (
            sample.strides if region.contiguous else tuple(s * size for s in region.strides or ())
        )
        steps = nest.steps[number].tolist()
        lead = tuple(1 if step == 0 else n for n, step in zip(nest.shape, steps, strict=True))
        flat = self.memory.flat(region.field.dtype)[int(nest.base[number]) :]
        strides = (*(s * size for s in steps), *inner)
        view: Array = self.memory.backend.as_strided(flat, (*lead, *sample.shape), strides)
        return view


def placed(site: Site) -> GroupPlacement:
    """The placement of a group."""
    group, trace = site.group, site.group.trace
    regions = {
        i: Region(group, site.graph, name, part) for i, (name, part) in trace.regions.items()
    }
    running = running_order(list(regions.values()))
    if running is not None:
        for region in regions.values():
            region.put_in_order(running)
    nests, column = _nested(regions, trace, len(group.rows))
    found = GroupPlacement(
        trace,
        site.memory,
        regions,
        nests,
        column,
        [],
        running=running,
        side_by_side=only_numbers(trace),
        down=summed_down(trace) if site.memory.backend.on_host else {},
    )
    delicate, soft = delicate_roots(trace, site.how.exact), soft_roots(trace, site.how.exact)
    for i, number in column.items():
        region = regions[i]
        steps = np.concatenate([nest.steps[number][np.array(nest.shape) > 1] for nest in nests])
        mirrored = region.field.written and bool(np.any(steps == 0))
        scattered = found.side_by_side and np.any(steps != 0)
        if mirrored or scattered or np.any(steps < 0) or not (region.contiguous or i in soft):
            continue
        if i in found.down and trace.samples[i].shape[-1] <= SHORT_ROW:
            continue
        if i in delicate:
            twin = any(
                j in delicate and np.any(regions[j].starts == region.starts) for j in found.here
            )
            if twin or not region.apart:
                continue
        found.here.append(i)
    found.strided = {i for i in found.here if not regions[i].contiguous}
    # If nothing depends on how elements lie, results lie as the strided region does that has most
    # axes: numpy then goes through all of them row by row, across the vertices' boundaries.
    if found.strided and not found.side_by_side and soft >= set(trace.roots):
        found.model = max(found.strided, key=lambda i: np.ndim(trace.samples[i]))
    return found


def _nested(
    regions: dict[int, Region], trace: Trace, count: int
) -> tuple[list[Nest], dict[int, int]]:
    """(the nests, which of the regions take part in them: the larger ones go first)."""
    able = [
        i
        for i, r in regions.items()
        if r.size and (r.contiguous or len(r.strides or ()) == np.ndim(trace.samples[i]) > 0)
    ]
    # what has no order shows it soon
    ordered = (i for i in able if find_nests(regions[i].starts[None, :PREFIX]))
    able = sorted(ordered, key=lambda i: -regions[i].bytes)
    chosen, nests = able, find_nests(np.stack([regions[i].starts for i in able])) if able else None
    if nests is None:
        chosen = []
        for i in able:
            found = find_nests(np.stack([regions[j].starts for j in [*chosen, i]]))
            if found is not None:
                chosen, nests = [*chosen, i], found
    # of all vertices, with no region in it
    row = Nest(0, (count,), np.zeros(0, np.int64), np.zeros((0, 1), np.int64))
    return nests or [row], {i: number for number, i in enumerate(chosen)}
