"""What crosses between tiles, and how long it takes.

A vertex that reads an element of another tile receives it once, however many vertices of its tile
read it (the union for each destination). The owner sends it once, however many tiles receive it: a
send may be heard by any number of tiles. Each tile sends and receives at the same time,
`exchange_bytes_per_cycle` each way. Two tiles share a bus: PopLibs' planner lets what both of them
hear at once come at twice the rate, if no tile outside such a pair listens too. Then a second
receiver would make a broadcast faster and a third slower; so `shared_bus_speedup` is 1 unless it is
asked for. A tile is also held up by its own instructions: a SEND moves at most
`exchange_send_words`, and turning to another sender takes `exchange_setup_instructions`. The first
word comes `exchange_latency_cycles` after the phase began, later on far rows and from far senders
(`lag`), and the last word of a sender as long after it left. The phase lasts as long as its busiest
tile or way. Rounding as in PopLibs' planner (lib/poplin/ExchangeEstimator.hpp): ceil(16 x bytes /
round(16 x bytes a cycle)).

Not modelled: two senders that want one receiver at the same time. The schedule is taken to be
perfect, what is near filling the time until what is far is there, so that data which is scattered a
lot comes out too fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from ipu_teach.compile.freeze import FrozenComputeSet, FrozenGraph
from ipu_teach.cost.links import link_cycles
from ipu_teach.cost.rearrange import copied, copy_cycles, edges, local
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.tile_map import TileMap, covered, joined, order_of, union
from ipu_teach.saving.schema import PerIpu, PerTile, column, since
from ipu_teach.target import Target
from ipu_teach.types import Array

WORD = 4  # bytes that an exchange bus carries at once
COLUMNS = 16  # of tiles: four on each row of one


@dataclass(frozen=True, eq=False)
class Traffic:
    """One exchange. int64[tiles] unless it says otherwise.

    `received` and `sent`: bytes; `together_received` and `together_sent`: those of them that both
    tiles of a pair hear. `sources`: how often a tile turns to another sender; `sends`: SEND
    instructions; `words`: of memory, that are sent. `link_received` and `link_sent` (int64[ipus]):
    bytes that its tiles get from other IPUs, and that they send there. `links` (int64[ipus, ipus],
    from and to): bytes on their way, where what several tiles of an IPU want crosses once.
    `stayed`: bytes that their tile moves within its memory, and `pieces` in how many pieces: see
    `rearrange`. `far`: bytes from the one sender that holds a tile up longest, at the rate at which
    this was made, and `late`: how many cycles after a near one's its first word comes.
    """

    received: PerTile
    sent: PerTile
    together_received: PerTile
    together_sent: PerTile
    sources: PerTile
    sends: PerTile
    link_received: PerIpu
    link_sent: PerIpu
    links: Annotated[Array, column("ipus", "ipus")]
    stayed: PerTile
    pieces: Annotated[PerTile, since(3)] = None  # type: ignore[assignment]
    late: Annotated[PerTile, since(4)] = None  # type: ignore[assignment]
    far: Annotated[PerTile, since(4)] = None  # type: ignore[assignment]
    words: Annotated[PerTile, since(4)] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name in ("pieces", "late", "far", "words"):
            if getattr(self, name) is None:  # in an older file
                object.__setattr__(
                    self,
                    name,
                    -(-self.sent // WORD) if name == "words" else np.zeros_like(self.stayed),
                )

    @property
    def total(self) -> int:
        """Bytes received by all tiles together."""
        return int(self.received.sum())

    def tile_cycles(self, target: Target) -> Array:
        """int64[tiles]: cycles until each tile has sent and received its bytes. 0 for a tile that
        takes no part."""
        waiting: Array = np.where(self.received > 0, arrival_cycles(target), 0)
        busy: Array = np.maximum.reduce(self.bounds(target))
        return waiting + busy

    def bounds(self, target: Target) -> tuple[Array, Array, Array]:
        """int64[tiles] each: cycles to receive, to send, and to issue the instructions for both.
        The longest counts."""
        receiving = _effective(self.received, self.together_received, target)
        from_far = self.late + exchange_cycles(np.minimum(self.far, receiving), target)
        issuing = self.sources * target.exchange_setup_instructions + -(
            -self.words // target.exchange_send_words
        )
        return (
            np.maximum(exchange_cycles(receiving, target), from_far),
            self._sending(target),
            issuing,
        )

    def done(self, target: Target) -> Array:
        """int64[tiles]: cycles until each tile is done, and the last word that it sent has
        arrived."""
        arrived = np.where(self.sent > 0, self._sending(target) + target.exchange_latency_cycles, 0)
        done_at: Array = np.maximum(self.tile_cycles(target), arrived)
        return done_at

    def duration(self, target: Target) -> int:
        """Cycles of the phase: until every tile is done."""
        return int(self.done(target).max(initial=0))

    def _sending(self, target: Target) -> Array:
        """int64[tiles]: cycles to send, whole words."""
        sent = _effective(np.maximum(self.sent, WORD * self.words), self.together_sent, target)
        return exchange_cycles(sent, target)

    def copy_cycles(self, target: Target) -> tuple[Array, Array]:
        """int64[tiles] each: (tile cycles, worker cycles) of what tiles move within their
        memory."""
        return copy_cycles(self.pieces, self.stayed, target)

    def link_cycles(self, target: Target) -> int:
        """Cycles that the busiest link between two IPUs needs."""
        return link_cycles(self.links, target)


def exchange_cycles(num_bytes: int | Array, target: Target) -> Array:
    """Cycles to move `num_bytes` (one number or an array) into or out of one tile, as PopLibs'
    planner rounds them."""
    rate = round(16 * target.exchange_bytes_per_cycle)
    return -(-16 * np.asarray(num_bytes) // rate)


def arrival_cycles(target: Target) -> Array:
    """int64[tiles]: cycles from the start of a phase to the first word that a tile can receive: it
    has turned to a sender."""
    row, *_ = _place(np.arange(target.num_tiles), target)
    first: Array = target.exchange_latency_cycles + target.exchange_cycles_per_row * row
    return first


def _place(tile: Array, target: Target) -> tuple[Array, Array, Array]:
    """(row, block of its column, column) of tiles. Pairs stand on rows, `exchange_rows` to a block,
    up one block and down the next; two blocks are a column."""
    block, row = np.divmod(tile % target.tiles_per_ipu // 2, target.exchange_rows)
    return (
        np.where(block % 2 == 1, target.exchange_rows - 1 - row, row),
        block % 2,
        block // 2 % COLUMNS,
    )


def lag(source: Array, destination: Array, target: Target) -> Array:
    """Cycles from a SEND of each source until the destination has to turn to it, for two tiles of
    an IPU; less than 0: before.

    By the rows and columns of both, and the turn from one to the other, as osmarks/ipu-stack has it
    (topology.rs, of a C600; its tests hold ways of Poplar's). The columns are folded, so that the
    last is beside the first.
    """
    (s_row, s_side, s_column), (d_row, d_side, d_column) = (
        _place(tile, target) for tile in (source, destination)
    )
    s_half, d_half = s_column // 8, d_column // 8
    s_fold, d_fold = (np.minimum(column, COLUMNS - 1 - column) for column in (s_column, d_column))
    end = np.where(
        destination % target.tiles_per_ipu % 2,
        np.where(d_half == d_side, 2, 4),
        np.where(d_half == d_side, 1, 5),
    )
    along = np.abs(6 * (d_fold - s_fold - (s_half ^ s_side)) + end)
    turn = np.where(s_half == d_half, s_column % 8 + 1, 16 - s_column % 8)
    latest: Array = (
        target.exchange_cycles_per_row * (s_row - d_row)
        + 4 * (s_fold - d_fold)
        + 8 * s_half
        - d_column
        + turn
        + along
    )
    return latest - 31


def _effective(total: Array, merged: Array, target: Target) -> Array:
    """Bytes that take as long, with those at the higher rate counted for less."""
    shortened: Array = -(-merged // target.shared_bus_speedup)
    return total - merged + shortened


def traffic(tile_map: TileMap, target: Target, tile: Array, start: Array, stop: Array) -> Traffic:
    """The traffic when tile `tile[i]` wants the bytes [start[i], stop[i]), wherever they lie."""
    wanted_by, begin, end, owner = crossing(tile_map, tile, start, stop)
    # Each byte leaves its owner once: the union over all who want it.
    sender, s_begin, s_end = union(owner, begin, end)
    moved_bytes = moved(target, owner, wanted_by, end - begin)
    together_received, together_sent = _heard_together(tile_map, target, wanted_by, begin, end)
    abroad = owner // target.tiles_per_ipu != wanted_by // target.tiles_per_ipu
    exporter, e_begin, e_end = union(owner[abroad], begin[abroad], end[abroad])
    way = (
        owner[abroad] // target.tiles_per_ipu * target.num_ipus
        + wanted_by[abroad] // target.tiles_per_ipu
    )
    way, w_begin, w_end = union(way, begin[abroad], end[abroad])
    return replace(
        moved_bytes,
        sent=total_of(sender, s_end - s_begin, target.num_tiles),
        together_received=together_received,
        together_sent=together_sent,
        **sends(tile_map, target, sender, s_begin, s_end),
        link_sent=total_of(exporter // target.tiles_per_ipu, e_end - e_begin, target.num_ipus),
        links=total_of(way, w_end - w_begin, target.num_ipus**2).reshape(target.num_ipus, -1),
    )


def moved(target: Target, source: Array, destination: Array, size: Array) -> Traffic:
    """The traffic of pieces of `size` bytes, each from one tile to another, in the order in which
    they arrive at each.

    Nothing in it is heard by two. `sends` counts as if all that a tile sends lay side by side in
    its memory.
    """
    none = np.zeros(target.num_tiles, np.int64)
    sent = total_of(source, size, target.num_tiles)
    order = order_of(destination)
    turns = np.flatnonzero(
        np.append(True, np.diff(destination[order]) | np.diff(source[order]))[: len(order)]
    )
    ipus = target.num_ipus
    home = source // target.tiles_per_ipu
    away = destination // target.tiles_per_ipu
    links = total_of(home * ipus + away, np.where(home == away, 0, size), ipus**2).reshape(
        ipus, ipus
    )
    way = (destination * target.num_tiles + source)[order][turns]
    late, far = _far(target, way, np.add.reduceat(size[order], turns) if len(turns) else size[:0])
    return Traffic(
        received=total_of(destination, size, target.num_tiles),
        sent=sent,
        together_received=none,
        together_sent=none,
        sources=np.bincount(destination[order][turns], minlength=target.num_tiles).astype(np.int64),
        sends=-(-sent // (WORD * target.exchange_send_words)),
        link_received=links.sum(0),
        link_sent=links.sum(1),
        links=links,
        stayed=none,
        late=late,
        far=far,
    )


def _far(target: Target, way: Array, size: Array) -> tuple[Array, Array]:
    """`late` and `far` of a `Traffic`, of so many bytes on each way: destination x tiles +
    source."""
    late, far = np.zeros((2, target.num_tiles), np.int64)
    way, which = np.unique(way, return_inverse=True)
    destination, source = np.divmod(way, target.num_tiles)
    after = np.where(
        destination // target.tiles_per_ipu == source // target.tiles_per_ipu,
        lag(source, destination, target),
        0,
    )
    size, after = total_of(which, size, len(way)), np.maximum(after, 0)
    order = np.lexsort((after + exchange_cycles(size, target), destination))
    # the last of each tile's
    longest = order[np.append(np.diff(destination) > 0, True)[: len(way)]]
    late[destination[longest]], far[destination[longest]] = after[longest], size[longest]
    return late, far


def sends(
    tile_map: TileMap, target: Target, sender: Array, begin: Array, end: Array
) -> dict[str, Array]:
    """`sends` and `words` of a `Traffic`, for the bytes [begin, end), sorted by sender, then by
    address.

    Pieces that are neighbours in the memory of their tile go in one SEND, up to its limit of words.
    """
    place = local(tile_map, begin)
    is_contiguous = place[1:] == place[:-1] + (end - begin)[:-1]
    same_sender = sender[1:] == sender[:-1]
    first = np.flatnonzero(np.append(True, ~(is_contiguous & same_sender))[: len(begin)])
    run = np.add.reduceat(end - begin, first) if len(first) else begin
    low, high = place // WORD, -(-(place + end - begin) // WORD)
    low[1:] = np.where(same_sender, np.maximum(low[1:], high[:-1]), low[1:])  # a word goes once
    issued = total_of(
        sender[first], -(-run // (WORD * target.exchange_send_words)), target.num_tiles
    )
    return {"sends": issued, "words": total_of(sender, high - low, target.num_tiles)}


def reads(
    graph: FrozenGraph, compute_set: FrozenComputeSet, copies: Sequence[tuple[Tensor, Tensor]] = ()
) -> Traffic:
    """What must arrive before a compute set may compute, and what tiles gather then; with the
    copies that go with it."""
    pieces, stayed = edges(graph, compute_set, "output")
    if copies:
        pieces, stayed = np.add(
            (pieces, stayed), copied(graph.tile_map, graph.target, *copied_runs(copies))
        )
    incoming = traffic(
        graph.tile_map, graph.target, *edge_requests(graph, compute_set, "output", copies)
    )
    return replace(incoming, pieces=pieces, stayed=stayed)


def writes(graph: FrozenGraph, compute_set: FrozenComputeSet) -> Traffic:
    """What leaves after it: results that belong on another tile than the vertex that made them.
    Also what tiles scatter."""
    made_on, begin, end, owner = crossing(
        graph.tile_map, *edge_requests(graph, compute_set, "input")
    )
    order = np.argsort(begin, kind="stable")
    pieces, stayed = edges(graph, compute_set, "input")
    outgoing = moved(graph.target, made_on[order], owner[order], (end - begin)[order])
    return replace(outgoing, pieces=pieces, stayed=stayed)


def edge_requests(
    graph: FrozenGraph,
    compute_set: FrozenComputeSet,
    without: str,
    copies: Sequence[tuple[Tensor, Tensor]] = (),
) -> tuple[Array, Array, Array]:
    """`FrozenGraph.edge_bytes`, and after those of the copies that go with the compute set."""
    edge_requests_found = graph.edge_bytes(compute_set, without)
    if not copies:
        return edge_requests_found
    tile, start, stop = map(
        np.concatenate, zip(copy_requests(graph, copies), edge_requests_found, strict=True)
    )
    return tile, start, stop


def copy_traffic(graph: FrozenGraph, copies: Sequence[tuple[Tensor, Tensor]]) -> Traffic:
    """What copies, each from a source to a destination, exchange in one step, and what they move
    inside tiles."""
    pieces, stayed = copied(graph.tile_map, graph.target, *copied_runs(copies))
    copy_bytes = traffic(graph.tile_map, graph.target, *copy_requests(graph, copies))
    return replace(copy_bytes, pieces=pieces, stayed=stayed)


def copy_requests(
    graph: FrozenGraph, copies: Sequence[tuple[Tensor, Tensor]]
) -> tuple[Array, Array, Array]:
    """(tile, start, stop): the bytes of sources that each tile wants, which holds their places in
    the destinations."""
    s_start, d_start, length, _ = copied_runs(copies)
    piece, d_begin, d_end, tile = graph.tile_map.split(d_start, d_start + length)
    begin = s_start[piece] + (d_begin - d_start[piece])
    return tile.astype(np.int64), begin, begin + (d_end - d_begin)


def copied_runs(copies: Sequence[tuple[Tensor, Tensor]]) -> tuple[Array, Array, Array, Array]:
    """(start in the source, start in the destination, length) in bytes of what copies move in one
    piece, and which does."""
    runs_of_copy = [
        [part * source.dtype.size for part in aligned_runs(source, destination)]
        for source, destination in copies
    ]
    start, into, length = (np.concatenate(parts) for parts in zip(*runs_of_copy, strict=True))
    return (
        start,
        into,
        length,
        np.repeat(np.arange(len(copies)), [len(parts[0]) for parts in runs_of_copy]),
    )


def aligned_runs(a: Tensor, b: Tensor) -> tuple[Array, Array, Array]:
    """(start in a, start in b, length) of the pieces over which both views run side by side, in
    view order."""
    if a.num_elements and a.layout.contiguous and b.layout.contiguous:  # as most are
        return np.array([a.offset]), np.array([b.offset]), np.array([a.num_elements])
    a_start, a_length = a.layout.runs
    b_start, b_length = b.layout.runs
    a_first, b_first = np.cumsum(a_length) - a_length, np.cumsum(b_length) - b_length
    cuts = np.union1d(a_first, b_first)
    i, j = np.searchsorted(a_first, cuts, "right") - 1, np.searchsorted(b_first, cuts, "right") - 1
    length = np.diff(np.append(cuts, a.num_elements))
    return (
        a.offset + a_start[i] + cuts - a_first[i],
        b.offset + b_start[j] + cuts - b_first[j],
        length,
    )


def _heard_together(
    tile_map: TileMap, target: Target, tile: Array, begin: Array, end: Array
) -> tuple[Array, Array]:
    """(received, sent), int64[tiles] each: bytes that only whole pairs of tiles hear. A tile's
    intervals are disjoint."""
    none = np.zeros(target.num_tiles, np.int64)
    if not len(tile):
        return none, none
    ipu, local = np.divmod(tile, target.tiles_per_ipu)
    pairs = -(-target.tiles_per_ipu // 2)
    span = int(end.max()) + 1
    base = (ipu * pairs + local // 2) * span
    # The last bit tells ends from beginnings, so that what is sorted is plain numbers. A tile's are
    # in order already.
    edge = np.sort(
        np.stack((base + begin << 1, base + end << 1 | 1), axis=1).reshape(-1), kind="stable"
    )
    edge, listening = edge >> 1, np.cumsum(1 - 2 * (edge & 1))
    pair, start = np.divmod(edge[:-1], span)
    stop = start + np.diff(edge)
    alone = (listening[:-1] == 1) & (stop > start)
    both = (listening[:-1] == 2) & (stop > start)
    # What one tile hears without its partner is sent at the plain rate, for whoever else hears it.
    s_start, s_stop = joined(start[alone], stop[alone])
    pair, start, stop = pair[both], start[both], stop[both]
    fast = stop - start - (covered(s_start, s_stop, stop) - covered(s_start, s_stop, start))
    first = pair // pairs * target.tiles_per_ipu + pair % pairs * 2
    received = total_of(first, fast, target.num_tiles) + total_of(first + 1, fast, target.num_tiles)
    u_start, u_stop = joined(start, stop)
    piece, u_start, u_stop, owner = tile_map.split(u_start, u_stop)
    fast = u_stop - u_start - (covered(s_start, s_stop, u_stop) - covered(s_start, s_stop, u_start))
    return received, total_of(owner.astype(np.int64), fast, target.num_tiles)


def crossing(
    tile_map: TileMap, tile: Array, start: Array, stop: Array
) -> tuple[Array, Array, Array, Array]:
    """(tile, start, stop, owner) of what tile `tile[i]` touches in [start[i], stop[i]) and another
    owns.

    Each byte once for each tile that touches it; sorted by tile, then by address; cut where the
    owner changes.
    """
    piece = np.searchsorted(tile_map.start, start, "right") - 1
    until = tile_map.stop[piece]
    # most edges are local: they need no sorting
    away = (tile_map.tile[piece] != tile) | (stop > until)
    tile, start, stop = union(tile[away].astype(np.int64), start[away], stop[away])
    source, begin, end, owner = tile_map.split(start, stop)
    keep = np.flatnonzero(owner != tile[source])
    return tile[source[keep]], begin[keep], end[keep], owner[keep].astype(np.int64)


def total_of(key: Array, size: Array, length: int) -> Array:
    """int64[length]: `size` summed by `key`."""
    return np.bincount(key, size, length).astype(np.int64)
