"""The bytes that tiles exchange, and the cycles that the exchange takes.

* A tile receives a byte of another tile once, even if several of its vertices read it. The owner of
  the byte (the tile that it is mapped to) sends it once, because any number of tiles can listen to
  a send.
* Each tile can send and receive at the same time, at `exchange_bytes_per_cycle` in each direction.
* Two tiles form a pair and share a bus. In PopLibs' planner, bytes that both tiles of a pair
  receive together arrive at twice the rate. This does not hold if the same bytes also go to only
  one tile of another pair. With this rule, a broadcast to two tiles would be faster than to one
  tile or to three. So the default of `shared_bus_speedup` is 1, which has no effect.
* A tile also waits for its own instructions: a SEND instruction moves at most
  `exchange_send_words`, and selecting another sender takes `exchange_setup_instructions`.
* The first word arrives `exchange_latency_cycles` after the phase began. It arrives later on far
  rows of tiles and from far senders (`lag`). The last word of a sender arrives
  `exchange_latency_cycles` after the tile has sent it.
* The phase lasts as long as its busiest tile, in the direction that takes longer.
* Rounding is that of PopLibs' planner (lib/poplin/ExchangeEstimator.hpp): ceil(16 x bytes /
  round(16 x bytes per cycle)).

The model ignores that two senders may need one receiver at the same time. It assumes a perfect
schedule, in which a tile receives data from near tiles until the data from far tiles arrives. So
the model's exchange is too fast for widely scattered data.
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

WORD = 4  # The number of bytes that an exchange bus carries at once.
COLUMNS = 16  # The number of columns of tiles on a chip; a column has four tiles in each row.


@dataclass(frozen=True, eq=False)
class Traffic:
    """The bytes and instructions of one exchange.

    Attributes are int64[tiles] unless another shape is given.

    - `received`, `sent`: the bytes that each tile receives and sends.
    - `together_received`, `together_sent`: how many of these bytes both tiles of a pair receive
      together (see `_heard_together`).
    - `sources`: how often a tile selects another sender.
    - `sends`: the number of SEND instructions.
    - `link_received`, `link_sent`: int64[ipus], the bytes that the tiles of an IPU receive from
      other IPUs, and send to them.
    - `links`: int64[sending IPU, receiving IPU], the bytes that one IPU sends to another. A byte
      for several tiles of an IPU is counted once.
    - `stayed`, `pieces`: the bytes that a tile moves within its memory, and the number of
      contiguous pieces of these bytes (see `rearrange`).
    - `late`, `far`: about the sender for which a tile waits longest. `late` is how many cycles
      later this sender's first word arrives than the first word of a near sender, and `far` is the
      number of bytes from this sender. Which sender it is depends on the rates of the target, but
      the attributes are not computed again for another target.
    - `words`: the number of words of memory that are sent.
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
            if getattr(self, name) is not None:
                continue
            # Report files of older versions do not contain these attributes.
            value = -(-self.sent // WORD) if name == "words" else np.zeros_like(self.stayed)
            object.__setattr__(self, name, value)

    @property
    def total(self) -> int:
        """The bytes received by all tiles together."""
        return int(self.received.sum())

    def tile_cycles(self, target: Target) -> Array:
        """Return int64[tiles]: the cycles until each tile has sent and received all its bytes.

        For a tile that takes no part in the exchange, the number is 0.
        """
        waiting: Array = np.where(self.received > 0, arrival_cycles(target), 0)
        busy: Array = np.maximum.reduce(self.bounds(target))
        return waiting + busy

    def bounds(self, target: Target) -> tuple[Array, Array, Array]:
        """Return `(receiving, sending, issuing)`: three lower bounds for `tile_cycles`.

        They are the cycles to receive, to send, and to issue the instructions for both,
        int64[tiles] each. The largest of them determines `tile_cycles`.
        """
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
        """Return int64[tiles]: the cycles until a tile is done and its last word has arrived.

        For a tile that takes no part in the exchange, the number is 0.
        """
        arrived = np.where(self.sent > 0, self._sending(target) + target.exchange_latency_cycles, 0)
        finished: Array = np.maximum(self.tile_cycles(target), arrived)
        return finished

    def duration(self, target: Target) -> int:
        """Return the cycles until the exchange ends, which is when the last tile is done."""
        return int(self.done(target).max(initial=0))

    def _sending(self, target: Target) -> Array:
        """Return int64[tiles]: the cycles until each tile has sent its bytes, in whole words."""
        sent = _effective(np.maximum(self.sent, WORD * self.words), self.together_sent, target)
        return exchange_cycles(sent, target)

    def copy_cycles(self, target: Target) -> tuple[Array, Array]:
        """Return `(tile_cycles, worker_cycles)` of the moves within each tile's memory.

        Both are int64[tiles]. The worker cycles are summed over all workers.
        """
        return copy_cycles(self.pieces, self.stayed, target)

    def link_cycles(self, target: Target) -> int:
        """Return the cycles of the exchange over the links between IPUs."""
        return link_cycles(self.links, target)


def exchange_cycles(num_bytes: int | Array, target: Target) -> Array:
    """Return the cycles that `num_bytes` take into or out of a tile, rounded as PopLibs does.

    `num_bytes` is a number or an array.
    """
    rate = round(16 * target.exchange_bytes_per_cycle)
    return -(-16 * np.asarray(num_bytes) // rate)


def arrival_cycles(target: Target) -> Array:
    """Return int64[tiles]: how many cycles after an exchange begins the first word can arrive.

    These cycles include the time in which the tile selects its first sender.
    """
    row, *_ = _place(np.arange(target.num_tiles), target)
    first: Array = target.exchange_latency_cycles + target.exchange_cycles_per_row * row
    return first


def _place(tile: Array, target: Target) -> tuple[Array, Array, Array]:
    """Return `(row, block, column)` of each tile on the chip; `block` is 0 or 1 in each column.

    The two tiles of a pair are in the same row. A block has `exchange_rows` rows, which are
    numbered upwards in one block and downwards in the next. Two blocks form a column.
    """
    block, row = np.divmod(tile % target.tiles_per_ipu // 2, target.exchange_rows)
    return (
        np.where(block % 2 == 1, target.exchange_rows - 1 - row, row),
        block % 2,
        block // 2 % COLUMNS,
    )


def lag(source: Array, destination: Array, target: Target) -> Array:
    """Return how many cycles after the SEND of a source its destination must select this source.

    Tile `source[i]` sends to tile `destination[i]`, and both tiles are on the same IPU. A negative
    number means that the destination selects the source before the SEND.

    The delay depends on the rows and columns of both tiles, and on the route between them, as in
    osmarks/ipu-stack (topology.rs, for a C600; the tests of ipu-stack contain routes that Poplar
    chose). The columns are folded, so that the last column is next to the first.
    """
    (
        (source_row, source_side, source_column),
        (destination_row, destination_side, destination_column),
    ) = (_place(tile, target) for tile in (source, destination))
    source_half = source_column // 8
    destination_half = destination_column // 8
    source_fold, destination_fold = (
        np.minimum(column, COLUMNS - 1 - column) for column in (source_column, destination_column)
    )
    end_cycles = np.where(
        destination % target.tiles_per_ipu % 2,
        np.where(destination_half == destination_side, 2, 4),
        np.where(destination_half == destination_side, 1, 5),
    )
    row_cycles = np.abs(
        6 * (destination_fold - source_fold - (source_half ^ source_side)) + end_cycles
    )
    turn_cycles = np.where(
        source_half == destination_half, source_column % 8 + 1, 16 - source_column % 8
    )
    cycles: Array = (
        target.exchange_cycles_per_row * (source_row - destination_row)
        + 4 * (source_fold - destination_fold)
        + 8 * source_half
        - destination_column
        + turn_cycles
        + row_cycles
    )
    return cycles - 31


def _effective(total_bytes: Array, fast_bytes: Array, target: Target) -> Array:
    """Return how many bytes at the normal rate take the same time as these bytes.

    `fast_bytes` of the `total_bytes` arrive `shared_bus_speedup` times as fast, so they count as
    fewer bytes.
    """
    equivalent_bytes: Array = -(-fast_bytes // target.shared_bus_speedup)
    return total_bytes - fast_bytes + equivalent_bytes


def traffic(tile_map: TileMap, target: Target, tile: Array, start: Array, stop: Array) -> Traffic:
    """Return the traffic of an exchange in which tile `tile[i]` needs bytes [start[i], stop[i]).

    The bytes may be on any tile, including tile `tile[i]` itself, where they need no exchange.
    """
    receiver, begin, end, owner = crossing(tile_map, tile, start, stop)
    together_received, together_sent = _heard_together(
        tile_map, target, receiver, begin=begin, end=end
    )
    separate = moved(target, owner, receiver, end - begin)
    # Each byte is sent once, so `sender` and its intervals are the union over all receivers.
    sender, sent_begin, sent_end = union(owner, begin, end)
    owner_ipu = owner // target.tiles_per_ipu
    receiver_ipu = receiver // target.tiles_per_ipu
    is_between_ipus = owner_ipu != receiver_ipu
    exporter, exported_begin, exported_end = union(
        owner[is_between_ipus], begin[is_between_ipus], end[is_between_ipus]
    )
    link_number = owner_ipu[is_between_ipus] * target.num_ipus + receiver_ipu[is_between_ipus]
    link_number, link_begin, link_end = union(
        link_number, begin[is_between_ipus], end[is_between_ipus]
    )
    return replace(
        separate,
        sent=total_of(sender, sent_end - sent_begin, target.num_tiles),
        together_received=together_received,
        together_sent=together_sent,
        **sends(tile_map, target, sender, begin=sent_begin, end=sent_end),
        link_sent=total_of(
            exporter // target.tiles_per_ipu, exported_end - exported_begin, target.num_ipus
        ),
        links=total_of(link_number, link_end - link_begin, target.num_ipus**2).reshape(
            target.num_ipus, -1
        ),
    )


def moved(target: Target, source: Array, destination: Array, size: Array) -> Traffic:
    """Return the traffic of pieces of `size` bytes, each sent from one tile to one other tile.

    The pieces are in the order in which they arrive at each destination. `sends` is counted as if
    all bytes that a tile sends were contiguous in its memory.
    """
    zeros = np.zeros(target.num_tiles, np.int64)
    sent = total_of(source, size, target.num_tiles)
    order = order_of(destination)
    route_starts = np.flatnonzero(
        np.append(True, np.diff(destination[order]) | np.diff(source[order]))[: len(order)]
    )
    num_ipus = target.num_ipus
    source_ipu = source // target.tiles_per_ipu
    destination_ipu = destination // target.tiles_per_ipu
    links = total_of(
        source_ipu * num_ipus + destination_ipu,
        np.where(source_ipu == destination_ipu, 0, size),
        num_ipus**2,
    ).reshape(num_ipus, num_ipus)
    route = (destination * target.num_tiles + source)[order][route_starts]
    late, far = _far(
        target, route, np.add.reduceat(size[order], route_starts) if len(route_starts) else size[:0]
    )
    return Traffic(
        received=total_of(destination, size, target.num_tiles),
        sent=sent,
        together_received=zeros,
        together_sent=zeros,
        sources=np.bincount(destination[order][route_starts], minlength=target.num_tiles).astype(
            np.int64
        ),
        sends=-(-sent // (WORD * target.exchange_send_words)),
        link_received=links.sum(0),
        link_sent=links.sum(1),
        links=links,
        stayed=zeros,
        late=late,
        far=far,
    )


def _far(target: Target, route: Array, size: Array) -> tuple[Array, Array]:
    """Return `(late, far)`, int64[tiles] each, about the sender that each tile waits for longest.

    `late` is the delay of this sender's first word in cycles (see `lag`), and `far` is the number
    of bytes that this sender sends to the tile. Message i has `size[i]` bytes, and `route[i]` is
    the number of its receiving tile times the number of all tiles, plus the number of its sending
    tile.
    """
    late, far = np.zeros((2, target.num_tiles), np.int64)
    route, inverse = np.unique(route, return_inverse=True)
    destination, source = np.divmod(route, target.num_tiles)
    delay = np.where(
        destination // target.tiles_per_ipu == source // target.tiles_per_ipu,
        lag(source, destination, target),
        0,
    )
    delay = np.maximum(delay, 0)
    size = total_of(inverse, size, len(route))
    order = np.lexsort((delay + exchange_cycles(size, target), destination))
    # Routes are sorted by destination, then by cycles, so a tile's last route is its slowest.
    longest = order[np.append(np.diff(destination) > 0, True)[: len(route)]]
    late[destination[longest]] = delay[longest]
    far[destination[longest]] = size[longest]
    return late, far


def sends(
    tile_map: TileMap, target: Target, sender: Array, begin: Array, end: Array
) -> dict[str, Array]:
    """Return how many SEND instructions ("sends") and words ("words") each tile issues.

    Both are int64[tiles]. Tile `sender[i]` sends the bytes [begin[i], end[i]). These pieces must be
    sorted by sender, then by address. Pieces that are adjacent in the memory of their tile share
    SEND instructions, each of which moves at most `exchange_send_words` words.
    """
    local_begin = local(tile_map, begin)
    is_adjacent = local_begin[1:] == local_begin[:-1] + (end - begin)[:-1]
    same_sender = sender[1:] == sender[:-1]
    run_starts = np.flatnonzero(np.append(True, ~(is_adjacent & same_sender))[: len(begin)])
    run_bytes = np.add.reduceat(end - begin, run_starts) if len(run_starts) else begin
    first_word = local_begin // WORD
    end_word = -(-(local_begin + end - begin) // WORD)
    # If two pieces share a word, the word is sent once.
    first_word[1:] = np.where(
        same_sender, np.maximum(first_word[1:], end_word[:-1]), first_word[1:]
    )
    issued = total_of(
        sender[run_starts], -(-run_bytes // (WORD * target.exchange_send_words)), target.num_tiles
    )
    return {"sends": issued, "words": total_of(sender, end_word - first_word, target.num_tiles)}


def reads(
    graph: FrozenGraph, compute_set: FrozenComputeSet, copies: Sequence[tuple[Tensor, Tensor]] = ()
) -> Traffic:
    """Return the traffic before a compute set runs: the exchange of its operands.

    The exchange moves operands to the tiles of the vertices that read them. The attributes `pieces`
    and `stayed` count the data that tiles gather within their own memory. `copies` are pairs
    (source, destination) that are copied in the same superstep.
    """
    pieces, stayed = edges(graph, compute_set, "output")
    if copies:
        pieces, stayed = np.add(
            (pieces, stayed), copied(graph.tile_map, graph.target, *copied_runs(copies))
        )
    arriving = traffic(
        graph.tile_map, graph.target, *edge_requests(graph, compute_set, "output", copies)
    )
    return replace(arriving, pieces=pieces, stayed=stayed)


def writes(graph: FrozenGraph, compute_set: FrozenComputeSet) -> Traffic:
    """Return the traffic after a compute set has run: the exchange of its results.

    The exchange moves those results that are not mapped to the tile of the vertex that computed
    them. The attributes `pieces` and `stayed` count the data that tiles scatter within their own
    memory.
    """
    vertex_tile, begin, end, owner = crossing(
        graph.tile_map, *edge_requests(graph, compute_set, "input")
    )
    order = np.argsort(begin, kind="stable")
    pieces, stayed = edges(graph, compute_set, "input")
    leaving = moved(graph.target, vertex_tile[order], owner[order], (end - begin)[order])
    return replace(leaving, pieces=pieces, stayed=stayed)


def edge_requests(
    graph: FrozenGraph,
    compute_set: FrozenComputeSet,
    without: str,
    copies: Sequence[tuple[Tensor, Tensor]] = (),
) -> tuple[Array, Array, Array]:
    """Return `(tile, start, stop)`: the bytes that vertices access, and those that copies read.

    Tile `tile[i]` accesses the bytes [start[i], stop[i]). The bytes that `copies` read in the same
    superstep come first, each with the tile of its destination. Vertex fields of the kind `without`
    ("input" or "output") are left out.
    """
    requests = graph.edge_bytes(compute_set, without)
    if not copies:
        return requests
    columns = zip(copy_requests(graph, copies), requests, strict=True)
    tile, start, stop = map(np.concatenate, columns)
    return tile, start, stop


def copy_traffic(graph: FrozenGraph, copies: Sequence[tuple[Tensor, Tensor]]) -> Traffic:
    """Return the traffic of `copies`, pairs (source, destination) that are copied in one step.

    The attributes `pieces` and `stayed` count the data that tiles move within their own memory.
    """
    pieces, stayed = copied(graph.tile_map, graph.target, *copied_runs(copies))
    exchanged = traffic(graph.tile_map, graph.target, *copy_requests(graph, copies))
    return replace(exchanged, pieces=pieces, stayed=stayed)


def copy_requests(
    graph: FrozenGraph, copies: Sequence[tuple[Tensor, Tensor]]
) -> tuple[Array, Array, Array]:
    """Return `(tile, start, stop)`: the source bytes that each tile needs for its destinations.

    Tile `tile[i]` needs the bytes [start[i], stop[i]).
    """
    s_start, d_start, length, _ = copied_runs(copies)
    piece, d_begin, d_end, tile = graph.tile_map.split(d_start, d_start + length)
    begin = s_start[piece] + (d_begin - d_start[piece])
    return tile.astype(np.int64), begin, begin + (d_end - d_begin)


def copied_runs(copies: Sequence[tuple[Tensor, Tensor]]) -> tuple[Array, Array, Array, Array]:
    """Return `(source_starts, destination_starts, lengths, copy)` of the runs that copies move.

    A run is contiguous in the source and in the destination. Starts and lengths are in bytes.
    `copy` is the index of the copy that moves the run.
    """
    runs_by_copy = [
        [in_elements * source.dtype.size for in_elements in aligned_runs(source, destination)]
        for source, destination in copies
    ]
    source_starts, destination_starts, run_bytes = (
        np.concatenate(column) for column in zip(*runs_by_copy, strict=True)
    )
    counts = [len(run_starts) for run_starts, _, _ in runs_by_copy]
    return source_starts, destination_starts, run_bytes, np.repeat(np.arange(len(copies)), counts)


def aligned_runs(a: Tensor, b: Tensor) -> tuple[Array, Array, Array]:
    """Return `(a_starts, b_starts, lengths)` of the runs that are contiguous in both tensors.

    The runs are in the order of the tensors' elements. Starts and lengths count elements.
    """
    # Most views are contiguous, so this case is handled first and without searches.
    if a.num_elements and a.layout.contiguous and b.layout.contiguous:
        return np.array([a.offset]), np.array([b.offset]), np.array([a.num_elements])
    a_run_starts, a_run_lengths = a.layout.runs
    b_run_starts, b_run_lengths = b.layout.runs
    a_view_starts = np.cumsum(a_run_lengths) - a_run_lengths
    b_view_starts = np.cumsum(b_run_lengths) - b_run_lengths
    view_starts = np.union1d(a_view_starts, b_view_starts)
    a_run = np.searchsorted(a_view_starts, view_starts, "right") - 1
    b_run = np.searchsorted(b_view_starts, view_starts, "right") - 1
    lengths = np.diff(np.append(view_starts, a.num_elements))
    return (
        a.offset + a_run_starts[a_run] + view_starts - a_view_starts[a_run],
        b.offset + b_run_starts[b_run] + view_starts - b_view_starts[b_run],
        lengths,
    )


def _heard_together(
    tile_map: TileMap, target: Target, tile: Array, begin: Array, end: Array
) -> tuple[Array, Array]:
    """Return `(received, sent)`: the bytes that can arrive at the higher rate of a shared bus.

    Both are int64[tiles]. Two tiles that share an exchange bus form a pair. A byte counts if both
    tiles of a pair receive it, and if no tile receives it without the other tile of its pair. Tile
    `tile[i]` receives the bytes [begin[i], end[i]); the intervals of each tile are disjoint.
    """
    zeros = np.zeros(target.num_tiles, np.int64)
    if not len(tile):
        return zeros, zeros
    ipu, tile_on_ipu = np.divmod(tile, target.tiles_per_ipu)
    pairs_per_ipu = -(-target.tiles_per_ipu // 2)
    span = int(end.max()) + 1
    # The beginnings and ends of all intervals are converted to numbers that can be sorted together.
    # Each pair of tiles has its own range of `span` numbers, and the last bit distinguishes ends
    # from beginnings. The numbers of each tile are already in order, so a stable sort is fast.
    base = (ipu * pairs_per_ipu + tile_on_ipu // 2) * span
    bounds = np.stack((base + begin << 1, base + end << 1 | 1), axis=1).reshape(-1)
    del ipu, tile_on_ipu, base
    bounds.sort(kind="stable")
    # For the bytes between each bound and the next: how many tiles of the pair (0 to 2) receive
    # them.
    num_receivers = np.cumsum(1 - 2 * (bounds & 1).astype(np.int8), dtype=np.int8)[:-1]
    bounds >>= 1
    interval_bytes = np.diff(bounds)
    alone_at = np.flatnonzero((num_receivers == 1) & (interval_bytes > 0))
    both_at = np.flatnonzero((num_receivers == 2) & (interval_bytes > 0))
    # If a tile receives bytes without the other tile of its pair, the bytes are sent at the normal
    # rate to all receivers, also to complete pairs.
    alone_start = bounds[alone_at] % span
    alone_start, alone_stop = joined(alone_start, alone_start + interval_bytes[alone_at])
    pair, both_start = np.divmod(bounds[both_at], span)
    both_stop = both_start + interval_bytes[both_at]
    del bounds, num_receivers, interval_bytes, alone_at, both_at

    def fast_bytes(start: Array, stop: Array) -> Array:
        """Return how many bytes of each [start, stop) are received by complete pairs only."""
        slow: Array = covered(alone_start, alone_stop, stop)
        slow = slow - covered(alone_start, alone_stop, start)
        return stop - start - slow

    first_tile = pair // pairs_per_ipu * target.tiles_per_ipu + pair % pairs_per_ipu * 2
    fast = fast_bytes(both_start, both_stop)
    received = total_of(first_tile, fast, target.num_tiles)
    received += total_of(first_tile + 1, fast, target.num_tiles)
    _, start, stop, owner = tile_map.split(*joined(both_start, both_stop))
    sent = total_of(owner.astype(np.int64), fast_bytes(start, stop), target.num_tiles)
    return received, sent


def crossing(
    tile_map: TileMap, tile: Array, start: Array, stop: Array
) -> tuple[Array, Array, Array, Array]:
    """Return `(tile, start, stop, owner)`: bytes that a tile accesses and another tile owns.

    `tile[i]` accesses the bytes [start[i], stop[i]). In the result, each byte occurs once for each
    accessing tile, sorted by tile, then by address. Intervals are divided where the owner changes.
    """
    map_piece = np.searchsorted(tile_map.start, start, "right") - 1
    piece_stop = tile_map.stop[map_piece]
    # Most accesses are to bytes of the tile itself. They are left out before the sorting.
    leaves_tile = (tile_map.tile[map_piece] != tile) | (stop > piece_stop)
    tile, start, stop = union(
        tile[leaves_tile].astype(np.int64), start[leaves_tile], stop[leaves_tile]
    )
    interval, begin, end, owner = tile_map.split(start, stop)
    is_remote = np.flatnonzero(owner != tile[interval])
    return (
        tile[interval[is_remote]],
        begin[is_remote],
        end[is_remote],
        owner[is_remote].astype(np.int64),
    )


def total_of(key: Array, size: Array, length: int) -> Array:
    """Return int64[length]: for each key from 0 to `length` - 1, the sum of its sizes."""
    return np.bincount(key, size, length).astype(np.int64)
