"""The messages of one exchange: senders, receivers and sizes.

A tile that needs bytes of another tile receives them once, however often it uses them. Bytes that
several tiles need are sent once and received by all of them. So an exchange is a list of messages,
each with one sender, the set of its receivers and a size. Messages with the same sender and the
same receivers are merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.programs import ExecuteStep, Step, moves
from ipu_teach.cost.exchange import copy_requests, crossing, edge_requests
from ipu_teach.cost.host_transfers import landing, with_host
from ipu_teach.graph.tile_map import TileMap, expand
from ipu_teach.types import Array

# the limit of pieces of memory, counted once for each receiver; above it, each receiver has its own
# message
MOST_PIECES = 4_000_000


@dataclass(frozen=True, eq=False)
class Transfers:
    """The messages of one exchange, largest first.

    Message i has `size[i]` bytes, from tile `source[i]` to the tiles `receivers[i]`.
    """

    source: Array
    size: Array
    receivers: tuple[Array, ...]

    def __len__(self) -> int:
        return len(self.source)

    @property
    def received(self) -> int:
        """The bytes received by all tiles together."""
        return sum(int(size) * len(to) for size, to in zip(self.size, self.receivers, strict=True))


NOTHING = Transfers(np.zeros(0, np.int64), np.zeros(0, np.int64), ())


@lru_cache(maxsize=8)  # the same step is requested for each of several IPUs
def transfers(graph: FrozenGraph, step: Step) -> tuple[Transfers, ...]:
    """Return the messages of each exchange of a step, in the order of `StepCost.exchange`.

    For a compute set, these are the exchanges before and after it.
    """
    if isinstance(step, ExecuteStep):
        compute_set = graph.compute_sets[step.compute_set]
        arriving = _messages(
            graph.tile_map, *edge_requests(graph, compute_set, "output", moves(step))
        )
        # data written on another tile moves from the vertex's tile to the owner's
        vertex_tiles, begin, end, owner_tiles = crossing(
            graph.tile_map, *edge_requests(graph, compute_set, "input")
        )
        return arriving, _pairs(vertex_tiles, owner_tiles, end - begin)
    transfer = with_host(step)
    if transfer is not None:
        tensors, to_device = transfer
        pieces = landing(graph, *tensors)
        is_elsewhere = pieces.owner != pieces.landed
        owners = pieces.owner[is_elsewhere]
        landed_on = pieces.landed[is_elsewhere]
        piece_bytes = (pieces.end - pieces.begin)[is_elsewhere]
        return (
            _pairs(landed_on, owners, piece_bytes)
            if to_device
            else _pairs(owners, landed_on, piece_bytes),
        )
    copies = moves(step)
    return (_messages(graph.tile_map, *copy_requests(graph, copies)),) if copies else ()


def _messages(tile_map: TileMap, tile: Array, start: Array, stop: Array) -> Transfers:
    """Return one message for each owner and set of tiles that need the same bytes."""
    receiver, begin, end, owner = crossing(tile_map, tile, start, stop)
    if not len(owner):
        return NOTHING
    cuts = np.unique(np.concatenate((begin, end)))
    first_cuts = np.searchsorted(cuts, begin)
    end_cuts = np.searchsorted(cuts, end)
    if int((end_cuts - first_cuts).sum()) > MOST_PIECES:
        return _pairs(owner, receiver, end - begin)
    interval, piece = expand(first_cuts, end_cuts - first_cuts)
    # A set of receivers is identified by the sum of a hash of each: equal sets have equal sums.
    receiver_hash = _mix(receiver.astype(np.uint64))[interval]
    order = np.argsort(piece, kind="stable")
    message_starts = np.flatnonzero(np.append(True, piece[order][1:] != piece[order][:-1]))
    receiver_sums = np.add.reduceat(receiver_hash[order], message_starts)
    num_receivers = np.diff(np.append(message_starts, len(order)))
    piece_numbers = piece[order][message_starts]
    sender = owner[interval][order][message_starts]
    key = _mix(
        receiver_sums
        + _mix(sender.astype(np.uint64) * np.uint64(2**32) + num_receivers.astype(np.uint64))
    )
    _, example_piece, message = np.unique(key, return_index=True, return_inverse=True)
    message_bytes = np.bincount(message, (cuts[1:] - cuts[:-1])[piece_numbers]).astype(np.int64)
    receivers_by_piece = receiver[interval][order]
    receivers = tuple(
        np.sort(receivers_by_piece[message_starts[i] : message_starts[i] + num_receivers[i]])
        for i in example_piece.tolist()
    )
    return _sorted(sender[example_piece], message_bytes, receivers)


def _pairs(source: Array, to: Array, size: Array) -> Transfers:
    """Return one message for each pair of tiles."""
    pairs, inverse = np.unique(source * 2**32 + to, return_inverse=True)
    total = np.bincount(inverse, size, len(pairs)).astype(np.int64)
    return _sorted(pairs // 2**32, total, tuple((pairs % 2**32).reshape(-1, 1)))


def _sorted(source: Array, size: Array, receivers: tuple[Array, ...]) -> Transfers:
    order = np.lexsort((source, -size))
    return Transfers(source[order], size[order], tuple(receivers[i] for i in order.tolist()))


def _mix(x: Array) -> Array:
    """Return a hash of 64 bits that differs for any two numbers: the finaliser of splitmix64."""
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = x ^ (x >> np.uint64(31))
    return mixed
