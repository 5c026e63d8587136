"""The messages of one exchange, with their senders, receivers and sizes.

A tile that needs bytes of another tile receives them once, even if it uses them several times. If
several tiles need the same bytes, the bytes are sent once, and all of these tiles receive them. So
an exchange is a list of messages, each with a sender, a set of receivers and a size. Messages with
the same sender and the same receivers are merged.
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

# The model looks for common receivers only up to this number of pieces of memory. A piece counts
# once for each of its receivers. With more pieces, each receiver gets its own message.
MOST_PIECES = 4_000_000


@dataclass(frozen=True, eq=False)
class Transfers:
    """The messages of one exchange, the largest first.

    Message i sends `size[i]` bytes from tile `source[i]` to the tiles `receivers[i]`.
    """

    source: Array
    size: Array
    receivers: tuple[Array, ...]

    def __len__(self) -> int:
        return len(self.source)

    @property
    def received(self) -> int:
        """The total bytes that all tiles receive."""
        return sum(int(size) * len(to) for size, to in zip(self.size, self.receivers, strict=True))


NOTHING = Transfers(np.zeros(0, np.int64), np.zeros(0, np.int64), ())


# Callers ask for the messages of a step once for each IPU, so the result is cached.
@lru_cache(maxsize=8)
def transfers(graph: FrozenGraph, step: Step) -> tuple[Transfers, ...]:
    """Return the messages of each exchange of a step, in the order of `StepCost.exchange`.

    A compute set has two exchanges: before and after its vertices run.
    """
    if isinstance(step, ExecuteStep):
        compute_set = graph.compute_sets[step.compute_set]
        arriving = _messages(
            graph.tile_map, *edge_requests(graph, compute_set, "output", moves(step))
        )
        # Results for another tile are sent by the vertex's tile to the tile that owns the bytes.
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
    """Return the messages in which each tile receives the bytes that it needs from other tiles.

    Tile `tile[i]` needs the bytes [start[i], stop[i]). Bytes with the same sender and the same
    receivers form one message. But if there are more than `MOST_PIECES` pieces, each pair of a
    sender and a receiver gets its own message.
    """
    receiver, begin, end, owner = crossing(tile_map, tile, start, stop)
    if not len(owner):
        return NOTHING
    cuts = np.unique(np.concatenate((begin, end)))
    first_cuts = np.searchsorted(cuts, begin)
    end_cuts = np.searchsorted(cuts, end)
    if int((end_cuts - first_cuts).sum()) > MOST_PIECES:
        return _pairs(owner, receiver, end - begin)
    interval, piece = expand(first_cuts, end_cuts - first_cuts)
    # A set of receivers is identified by the sum of its tiles' hashes, because a sum does not
    # depend on the order of the tiles.
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
    """Return a message for each pair of tiles; `size[i]` bytes go from `source[i]` to `to[i]`."""
    pairs, inverse = np.unique(source * 2**32 + to, return_inverse=True)
    total = np.bincount(inverse, size, len(pairs)).astype(np.int64)
    return _sorted(pairs // 2**32, total, tuple((pairs % 2**32).reshape(-1, 1)))


def _sorted(source: Array, size: Array, receivers: tuple[Array, ...]) -> Transfers:
    order = np.lexsort((source, -size))
    return Transfers(source[order], size[order], tuple(receivers[i] for i in order.tolist()))


def _mix(x: Array) -> Array:
    """Return a 64-bit hash of each number. Different numbers have different hashes.

    It is the finaliser of splitmix64.
    """
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = x ^ (x >> np.uint64(31))
    return mixed
