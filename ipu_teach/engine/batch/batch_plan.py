"""Convert a trace to a list of prepared array calls, each of which serves all vertices of a group.

The calls are prepared once, when the engine is loaded; every view and every buffer is created then.
Running a step is then only `for f, args in calls: f(*args)`. It allocates no memory, except to
gather long regions.

A region is used in place under two conditions. It must be at regular distances from vertex to
vertex (see `views`), and the use in place must not change any bit of the results (see `placement`).
Otherwise, it is copied into a buffer and back. The bits of the results are those of the plain
vertex loop, because in each vertex, every operand has the same memory order as if the vertex ran
alone, and no sum is reordered. With `exact=False`, products of matrices may be joined
(`joined_products`).

The first axes of an array are the vertex axes, which number the vertices. They are followed by the
axes of one vertex's value. A vertex axis along which all vertices share the value has length 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ipu_teach.engine.backend import Call
from ipu_teach.engine.batch.buffers import Buffers
from ipu_teach.engine.batch.chunk import Chunk
from ipu_teach.engine.batch.last_use import last_uses, live_bytes
from ipu_teach.engine.batch.placement import GroupPlacement, place_group
from ipu_teach.engine.batch.products import Products
from ipu_teach.engine.fp.stochastic import RoundedStores
from ipu_teach.engine.site import Site
from ipu_teach.engine.views import Nest
from ipu_teach.types import Array

# The number of bytes that the temporaries of a chunk take, so that they fit a core's second-level
# cache.
CHUNK_BYTES = 768 * 1024
# If the values of a vertex are single numbers, a chunk has at least this number of vertices. In
# smaller chunks, calling numpy would take longer than the computation.
LANES = 4096


def bind(site: Site) -> list[Call]:
    """Return the calls that run `compute()` for every vertex of a group."""
    group = site.group
    backend = site.memory.backend
    if not group.workers:
        return _bound(site)
    answers = backend.zeros((len(group.workers), len(group.rows)), bool)
    calls: list[Call] = []
    for worker_index, (worker, trace) in enumerate(group.workers):
        returned = None if site.returned is None else answers[worker_index]
        worker_group = replace(group, trace=trace)
        calls += _bound(replace(site, group=worker_group, returned=returned), worker)
    if site.returned is None:
        return calls
    return [*calls, backend.reduction(np.logical_and, answers, 0, site.returned)]


def _bound(site: Site, worker: int = 0) -> list[Call]:
    """Return the calls that run the vertices of a group, or one worker of each vertex."""
    placement = place_group(site)
    rounding = (
        None
        if site.rounding is None
        else RoundedStores(site.rounding, site.group.trace, worker, placement.running)
    )
    return BatchPlan(site, placement, rounding).bind()


class BatchPlan:
    """Builds the calls that run the vertices of a group as one batch.

    The vertices are divided into chunks, so that the temporaries of a chunk fit a core's cache.
    This object contains what all chunks share.
    """

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
        self.exact = site.mode.exact
        self.placement = placement
        self.last, self.stores = last_uses(self.trace)
        self.products = Products(self.xp, self.exact)
        self.buffers = Buffers(self.xp, self.trace, self.last, placement.side_by_side)
        self.calls: list[Call] = []

    def bind(self) -> list[Call]:
        """Return the calls that run all vertices, chunk by chunk."""
        bytes_per_vertex = self._bytes_per_vertex()
        vertices_per_chunk = (
            max(1, (self.xp.chunk_bytes or CHUNK_BYTES) // bytes_per_vertex)
            if bytes_per_vertex
            else len(self.rows)
        )
        vertices_per_chunk = (
            max(vertices_per_chunk, LANES) if self.placement.side_by_side else vertices_per_chunk
        )
        pieces = [(nest, list(nest.pieces(vertices_per_chunk))) for nest in self.placement.nests]
        self.buffers.capacity = max(
            piece.count for _, pieces_of_nest in pieces for piece in pieces_of_nest
        )
        for nest, pieces_of_nest in pieces:
            packed = self._pack(nest)
            for piece in pieces_of_nest:
                Chunk(self, nest, piece, packed).bind()
        return self.calls

    def _pack(self, nest: Nest) -> dict[int, Array]:
        """Append the calls that copy inputs shared by several vertices, and return the copies.

        The copies are a dict from region ids to buffers. `GroupPlacement.packs` decides which
        inputs are copied.
        """
        packed: dict[int, Array] = {}
        for root in self.placement.regions:
            if self.placement.packs(root, nest):
                place = self.placement.place(root, nest)
                packed[root] = self.xp.empty(place.shape, place.dtype)
                self.calls.append((self.xp.copyto, (packed[root], place)))
        return packed

    def _bytes_per_vertex(self) -> int:
        """Return the bytes of cache that one vertex needs, or 0 if it needs no temporaries."""
        placement = self.placement
        copied = placement.copied_bytes()
        results = [
            op for op in self.trace.ops if op.kind not in ("region", "view", "read", "store")
        ]
        stored = [self.trace.roots[op.args[0].id] for op in self.trace.ops if op.kind == "store"]
        drawn = 0 if self.rounding is None else self.rounding.bytes_per_vertex
        direct = len(results) == len(stored) == 1 and (
            stored[0] not in placement.strided or not self.exact
        )
        if not (copied or results or drawn) or (direct and not copied and not drawn):
            # The single result is computed directly in the memory of the region that it is stored
            # in, so it needs no temporary.
            return 0
        # Regions in place also need cache, if numpy traverses them element by element. A matrix
        # product does not: it divides its operands into blocks itself.
        through = placement.in_place if placement.model is not None else []
        return (
            copied
            + live_bytes(self.trace, self.last)
            + sum(placement.regions[i].bytes for i in through)
            + drawn
        )
