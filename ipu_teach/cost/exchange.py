"""What crosses between tiles, and how long it takes.

A vertex that reads an element of another tile receives it once, however many vertices of its tile read it (the union for
each destination). The owner sends it once, however many tiles receive it: a send may be heard by any number of tiles. Each
tile sends and receives at the same time, `exchange_bytes_per_cycle` each way, and the phase lasts as long as its busiest
tile. Rounding as in PopLibs' planner (lib/poplin/ExchangeEstimator.hpp): ceil(16 x bytes / round(16 x bytes a cycle)).
Not modelled yet: fixed overheads, distance, and pairs of tiles that share a bus.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_teach.compile.freeze import FrozenComputeSet, FrozenGraph
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.tile_map import TileMap
from ipu_teach.target import Target
from ipu_teach.types import Array


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes that each tile receives and sends (int64[tiles]), and those of them that cross between IPUs (int64[ipus])."""

    received: Array
    sent: Array
    link_received: Array
    link_sent: Array

    @property
    def total(self) -> int:
        """Bytes received by all tiles together."""
        return int(self.received.sum())

    def tile_cycles(self, target: Target) -> Array:
        """int64[tiles]: cycles that each tile needs to send and receive its bytes."""
        return exchange_cycles(np.maximum(self.received, self.sent), target)

    def link_cycles(self, target: Target) -> int:
        """Cycles that the busiest IPU needs for what crosses to other IPUs."""
        most = max(int(self.link_received.max()), int(self.link_sent.max()))
        return int(np.ceil(most / target.link_bytes_per_cycle))


def exchange_cycles(num_bytes: int | Array, target: Target) -> Array:
    """Cycles to move `num_bytes` (one number or an array) into or out of one tile, as PopLibs' planner rounds them."""
    rate = round(16 * target.exchange_bytes_per_cycle)
    return -(-16 * np.asarray(num_bytes) // rate)


def traffic(tile_map: TileMap, target: Target, tile: Array, start: Array, stop: Array) -> Traffic:
    """The traffic when tile `tile[i]` wants the bytes [start[i], stop[i]), wherever they lie."""
    tile, start, stop = union(tile.astype(np.int64), start, stop)
    source, begin, end, owner = tile_map.split(start, stop)
    wanted_by = tile[source]
    crossing = (owner != wanted_by) & (end > begin)
    owner, wanted_by = owner[crossing].astype(np.int64), wanted_by[crossing]
    begin, end = begin[crossing], end[crossing]
    size = end - begin
    tiles, ipus, per_ipu = target.num_tiles, target.num_ipus, target.tiles_per_ipu
    received = _sum(wanted_by, size, tiles)
    # Each byte leaves its owner once: the union over all who want it.
    sender, s_begin, s_end = union(owner, begin, end)
    sent = _sum(sender, s_end - s_begin, tiles)
    abroad = owner // per_ipu != wanted_by // per_ipu
    link_received = _sum(wanted_by[abroad] // per_ipu, size[abroad], ipus)
    exporter, e_begin, e_end = union(owner[abroad], begin[abroad], end[abroad])
    link_sent = _sum(exporter // per_ipu, e_end - e_begin, ipus)
    return Traffic(received, sent, link_received, link_sent)


def reads(graph: FrozenGraph, compute_set: FrozenComputeSet) -> Traffic:
    """What must arrive before a compute set may compute."""
    return _edges(graph, compute_set, written=False)


def writes(graph: FrozenGraph, compute_set: FrozenComputeSet) -> Traffic:
    """What leaves after it: results that belong on another tile than the vertex that made them."""
    return _edges(graph, compute_set, written=True)


def _edges(graph: FrozenGraph, compute_set: FrozenComputeSet, written: bool) -> Traffic:
    tile, start, stop = [], [], []
    for table in compute_set.tables:
        for name, field in table.fields.items():
            if field.kind == "state" or field.kind == ("input" if written else "output"):
                continue
            intervals = graph.intervals(table, name)
            tile.append(table.tiles[intervals.row])
            start.append(intervals.start)
            stop.append(intervals.stop)
    if not tile:
        tile, start, stop = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    found = traffic(graph.tile_map, graph.target, np.concatenate(tile), np.concatenate(start), np.concatenate(stop))
    if written:
        return Traffic(found.sent, found.received, found.link_sent, found.link_received)
    return found


def copy_traffic(graph: FrozenGraph, source: Tensor, destination: Tensor) -> tuple[Traffic, Array]:
    """(what a Copy exchanges, int64[tiles] bytes that it moves inside tiles)."""
    s_start, d_start, length = aligned_runs(source, destination)
    size = source.dtype.size
    s_start, d_start, length = s_start * size, d_start * size, length * size
    piece, d_begin, d_end, tile = graph.tile_map.split(d_start, d_start + length)
    s_begin = s_start[piece] + (d_begin - d_start[piece])
    s_end = s_begin + (d_end - d_begin)
    found = traffic(graph.tile_map, graph.target, tile, s_begin, s_end)
    part, begin, end, owner = graph.tile_map.split(s_begin, s_end)
    local = owner == tile[part]
    inside = _sum(owner[local].astype(np.int64), (end - begin)[local], graph.target.num_tiles)
    return found, inside


def aligned_runs(a: Tensor, b: Tensor) -> tuple[Array, Array, Array]:
    """(start in a, start in b, length) of the pieces over which both views run side by side, in view order."""
    a_start, a_length = a.layout.runs
    b_start, b_length = b.layout.runs
    a_first, b_first = np.cumsum(a_length) - a_length, np.cumsum(b_length) - b_length
    cuts = np.union1d(a_first, b_first)
    i, j = np.searchsorted(a_first, cuts, "right") - 1, np.searchsorted(b_first, cuts, "right") - 1
    length = np.diff(np.append(cuts, a.num_elements))
    return a.offset + a_start[i] + cuts - a_first[i], b.offset + b_start[j] + cuts - b_first[j], length


def union(key: Array, start: Array, stop: Array) -> tuple[Array, Array, Array]:
    """For each key the union of its intervals, as disjoint intervals."""
    keep = stop > start
    key, start, stop = key[keep], start[keep], stop[keep]
    if len(key) == 0:
        return key, start, stop
    span = int(stop.max()) + 1
    base = key * span  # keys side by side on one axis, so that one sort and one running maximum serve all
    order = np.argsort(base + start, kind="stable")
    low, high = (base + start)[order], (base + stop)[order]
    furthest = np.maximum.accumulate(high)
    first = np.append(True, low[1:] > furthest[:-1])
    last = np.append(np.flatnonzero(first)[1:] - 1, len(low) - 1)
    merged = key[order][first]
    return merged, low[first] - merged * span, furthest[last] - merged * span


def _sum(key: Array, size: Array, length: int) -> Array:
    total = np.zeros(length, np.int64)
    np.add.at(total, key, size)
    return total
