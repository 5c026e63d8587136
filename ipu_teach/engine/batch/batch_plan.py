"""From a trace to a list of prebound array calls: one kernel for all vertices of a group.

Binding happens once, when the engine is loaded. Every view and every buffer is made then; a step is
`for f, args in calls: f(*args)` and allocates nothing but what a gather of long regions needs.

A region is used in place where its vertices form a nest (`views`) and where that cannot change a
bit (`placement`), else copied into a buffer and back. The bits are those of the plain vertex loop:
per vertex, every operand has the memory order that the trace's sample had, and no sum is reordered.
With `exact=False` products of matrices may be joined (`joined_products`).

Values have the axes of the nest first, then those that the vertex's own value has. An axis along
which all vertices share the value has length 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ipu_teach.engine.backend import Call
from ipu_teach.engine.batch.buffers import Buffers
from ipu_teach.engine.batch.chunk import Chunk
from ipu_teach.engine.batch.last_use import last_uses, live_bytes
from ipu_teach.engine.batch.placement import GroupPlacement, placed
from ipu_teach.engine.batch.products import Products
from ipu_teach.engine.fp.stochastic import RoundedStores
from ipu_teach.engine.site import Site
from ipu_teach.engine.views import Nest
from ipu_teach.types import Array

CHUNK_BYTES = 768 * 1024  # temporaries of one chunk: stay inside a core's second-level cache
# vertices that a chunk of single numbers has at least: below, a call costs more than its work
LANES = 4096


def bind(site: Site) -> list[Call]:
    """The calls that run `compute()` for every vertex of a group."""
    group, xp = site.group, site.memory.backend
    if not group.workers:
        return _bound(site)
    answers, calls = xp.zeros((len(group.workers), len(group.rows)), bool), []
    for number, (worker, trace) in enumerate(group.workers):
        wanted = None if site.returned is None else answers[number]
        calls += _bound(replace(site, group=replace(group, trace=trace), returned=wanted), worker)
    if site.returned is None:
        return calls
    return [*calls, xp.reduction(np.logical_and, answers, 0, site.returned)]


def _bound(site: Site, worker: int = 0) -> list[Call]:
    placement = placed(site)
    rounding = (
        None
        if site.rounding is None
        else RoundedStores(site.rounding, site.group.trace, worker, placement.running)
    )
    return BatchPlan(site, placement, rounding).bind()


class BatchPlan:
    """How the vertices of a group run as one batch: what all chunks of them have in common."""

    def __init__(
        self, site: Site, placement: GroupPlacement, rounding: RoundedStores | None = None
    ) -> None:
        group = site.group
        self.table = group.table
        self.trace = group.trace
        self.returned = site.returned
        self.rounding = rounding
        self.rows = group.rows if placement.running is None else group.rows[placement.running]
        self.memory = site.memory
        self.xp = site.memory.backend
        self.exact = site.how.exact
        self.placement = placement
        self.last, self.stores = last_uses(self.trace)
        self.products = Products(self.xp, self.exact)
        self.buffers = Buffers(self.xp, self.trace, self.last, placement.side_by_side)
        self.calls: list[Call] = []

    def bind(self) -> list[Call]:
        """The calls that run all vertices, chunk by chunk."""
        per_vertex = self._bytes_per_vertex()
        chunk = (
            max(1, (self.xp.chunk_bytes or CHUNK_BYTES) // per_vertex)
            if per_vertex
            else len(self.rows)
        )
        chunk = max(chunk, LANES) if self.placement.side_by_side else chunk
        pieces = [(nest, list(nest.pieces(chunk))) for nest in self.placement.nests]
        self.buffers.most = max(piece.count for _, parts in pieces for piece in parts)
        for nest, parts in pieces:
            packed = self._pack(nest)
            for piece in parts:
                Chunk(self, nest, piece, packed).bind()
        return self.calls

    def _pack(self, nest: Nest) -> dict[int, Array]:
        """Append the calls that lay out, once a step, what the vertices of a nest share."""
        packed: dict[int, Array] = {}
        for root in self.placement.regions:
            if self.placement.packs(root, nest):
                place = self.placement.place(root, nest)
                packed[root] = self.xp.empty(place.shape, place.dtype)
                self.calls.append((self.xp.copyto, (packed[root], place)))
        return packed

    def _bytes_per_vertex(self) -> int:
        """What a vertex needs of a core's cache; 0 where nothing is kept beside memory itself."""
        placement, copied = self.placement, self.placement.copied_bytes()
        made = [op for op in self.trace.ops if op.kind not in ("region", "view", "read", "store")]
        stored = [self.trace.roots[op.args[0].id] for op in self.trace.ops if op.kind == "store"]
        drawn = 0 if self.rounding is None else self.rounding.bytes_per_vertex
        direct = len(made) == len(stored) == 1 and (
            stored[0] not in placement.strided or not self.exact
        )
        if not (copied or made or drawn) or (direct and not copied and not drawn):
            return 0  # the one result goes straight to its place
        # What is gone through element by element counts too; a product cuts its operands for
        # itself.
        through = placement.here if placement.model is not None else []
        return (
            copied
            + live_bytes(self.trace, self.last)
            + sum(placement.regions[i].bytes for i in through)
            + drawn
        )
