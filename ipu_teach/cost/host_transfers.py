"""The cost of host transfers on the tiles: where packets arrive, and how they are distributed.

The host link moves packets of `host_packet_bytes`, in the host's order. A packet that has data for
only one tile goes straight to that tile. A packet that has data for several tiles arrives on one
tile; such packets are dealt out to the tiles evenly and in order. An exchange on the IPU then moves
the data to the tiles that the tensor is mapped to. For data to the host, the same happens in
reverse.

Poplar works in this way, too. Its `Copy` rearranges data on the device unless the program asks it
to save memory (API reference, program::Copy, `optimiseMemory`). PopLibs offers a layout that
needs no rearrangement, with entire packets on each tile (popops/HostSliceTensor.cpp). Each IPU has
its own host link, so no data moves between IPUs. All this also applies to transfers with remote
buffers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.programs import CopyStep, MergedStep, PrintStep, RemoteCopyStep, Step
from ipu_teach.cost.exchange import Traffic, moved, sends
from ipu_teach.cost.rearrange import RUNS_AT_A_TIME
from ipu_teach.graph.tensor import Tensor
from ipu_teach.target import Target
from ipu_teach.types import Array


@dataclass(frozen=True, eq=False)
class Landing:
    """A tensor's bytes in the host's order, in pieces; each piece is on one tile and in one packet.

    - `begin` and `end` are the addresses of each piece.
    - `owner` is the tile that each piece is mapped to, and `landed` is the tile on which its packet
      arrives.
    - `packets` (int64[tiles]) is the number of packets that arrive on each tile.
    """

    begin: Array
    end: Array
    owner: Array
    landed: Array
    packets: Array


def landing(graph: FrozenGraph, *tensors: Tensor) -> Landing:
    """Return where the packets of transfers between `tensors` and the host arrive.

    A packet has data of only one tensor.
    """
    if len(tensors) == 1:
        return _landing(graph, tensors[0])
    landings = [_landing(graph, tensor) for tensor in tensors]
    begin, end, owner, landed = (
        np.concatenate([getattr(item, name) for item in landings])
        for name in ("begin", "end", "owner", "landed")
    )
    return Landing(
        begin,
        end,
        owner=owner,
        landed=landed,
        packets=np.sum([item.packets for item in landings], axis=0),
    )


def _landing(graph: FrozenGraph, tensor: Tensor) -> Landing:
    """Return where the packets of a transfer between `tensor` and the host arrive.

    A tensor can have millions of pieces. To save memory, the function divides pieces at packet
    boundaries one column at a time, and changes columns in place.
    """
    target = graph.target
    packet_bytes = target.host_packet_bytes
    begin, end, owner = _pieces_by_ipu(graph, tensor)
    ipu = owner // target.tiles_per_ipu
    bytes_by_ipu = np.bincount(ipu, end - begin, target.num_ipus).astype(np.int64)
    packets_by_ipu = -(-bytes_by_ipu // packet_bytes)
    padding = packets_by_ipu * packet_bytes - bytes_by_ipu
    # All packets form one sequence of bytes, with the packets of IPU 0 first. `position` is the
    # position of the beginning of each piece in this sequence.
    position = np.cumsum(end - begin)
    position -= end - begin
    position += (np.cumsum(padding) - padding)[ipu]
    del ipu
    packet = position // packet_bytes
    num_packets = (position + (end - begin) - 1) // packet_bytes - packet + 1
    # From here on, `position` is the distance from the address of each piece to its position.
    position -= begin
    begin, end, owner, distance, packet = (
        np.repeat(column, num_packets) for column in (begin, end, owner, position, packet)
    )
    packet += np.arange(len(packet)) - np.repeat(np.cumsum(num_packets) - num_packets, num_packets)
    np.maximum(begin, packet * packet_bytes - distance, out=begin)
    np.minimum(end, (packet + 1) * packet_bytes - distance, out=end)
    return Landing(begin, end, owner, *_landed(target, packet, owner, packets_by_ipu))


def _pieces_by_ipu(graph: FrozenGraph, tensor: Tensor) -> tuple[Array, Array, Array]:
    """Return `(begin, end, tile)` of pieces of a tensor that are each on one tile, grouped by IPU.

    `begin` and `end` are byte addresses. Each IPU has its own host link, so the pieces of IPU 0
    come first, then those of IPU 1. The pieces of one IPU are in the order of the tensor's
    elements, which is the host's order.
    """
    run_starts, run_lengths = tensor.layout.runs
    pieces = []
    for first_run in range(0, max(len(run_starts), 1), RUNS_AT_A_TIME):
        runs = slice(first_run, first_run + RUNS_AT_A_TIME)
        begin = (tensor.offset + run_starts[runs]) * tensor.dtype.size
        end = begin + run_lengths[runs] * tensor.dtype.size
        pieces.append(graph.tile_map.split(begin, end)[1:])
    begin, end, tile = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    if graph.target.num_ipus > 1:
        order = np.argsort(tile // graph.target.tiles_per_ipu, kind="stable")
        begin = begin[order]
        end = end[order]
        tile = tile[order]
    return begin, end, tile.astype(np.int64)


def _landed(
    target: Target, packet: Array, owner: Array, packets_by_ipu: Array
) -> tuple[Array, Array]:
    """Return `(arrival_tile, packets)` for host data.

    `arrival_tile` is the tile on which the packet of each piece arrives. `packets` (int64[tiles])
    is the number of packets that arrive on each tile. The pieces are sorted by packet: piece i is
    in the packet with the number `packet[i]`, and is mapped to tile `owner[i]`. `packets_by_ipu` is
    the number of packets of each IPU.
    """
    if not len(packet):
        return owner, np.zeros(target.num_tiles, np.int64)
    packet_starts = np.flatnonzero(np.append(True, np.diff(packet) > 0))
    lowest_owner = np.minimum.reduceat(owner, packet_starts)
    highest_owner = np.maximum.reduceat(owner, packet_starts)
    arrival_tile = lowest_owner.copy()
    end_packet = np.cumsum(packets_by_ipu)
    for ipu in range(target.num_ipus):
        mixed_packets = np.arange(end_packet[ipu] - packets_by_ipu[ipu], end_packet[ipu])
        mixed_packets = mixed_packets[lowest_owner[mixed_packets] != highest_owner[mixed_packets]]
        first_tile = ipu * target.tiles_per_ipu
        num_tiles = target.tiles_per_ipu
        if len(mixed_packets) and highest_owner[mixed_packets].max() < first_tile + target.io_tiles:
            num_tiles = target.io_tiles  # Packets for I/O tiles arrive only on I/O tiles.
        packets_per_tile, remainder = divmod(len(mixed_packets), num_tiles)
        arrival_tile[mixed_packets] = first_tile + np.repeat(
            np.arange(num_tiles), packets_per_tile + (np.arange(num_tiles) < remainder)
        )
    return arrival_tile[packet], np.bincount(arrival_tile, minlength=target.num_tiles).astype(
        np.int64
    )


def host_traffic(graph: FrozenGraph, tensors: Sequence[Tensor], to_device: bool) -> Traffic:
    """Return the exchange on the IPU that a transfer between `tensors` and the host needs."""
    pieces = landing(graph, *tensors)
    is_elsewhere = pieces.owner != pieces.landed
    begin, end, owner, landed = (
        column[is_elsewhere] for column in (pieces.begin, pieces.end, pieces.owner, pieces.landed)
    )
    # Free the complete columns, which take 100 MB for a tensor with millions of pieces.
    del pieces
    if to_device:
        return moved(graph.target, landed, owner, end - begin)
    exchanged = moved(graph.target, owner, landed, end - begin)
    del landed
    order = np.lexsort((begin, owner))
    issued = sends(graph.tile_map, graph.target, owner[order], begin=begin[order], end=end[order])
    return replace(exchanged, **issued)


def with_host(step: Step) -> tuple[tuple[Tensor, ...], bool] | None:
    """Return `(tensors, to_device)` of a step that transfers data with the host, or None.

    `to_device` is True if the transfer writes to the tensors. A transfer with a remote buffer
    counts as a transfer with the host.
    """
    match step:
        case RemoteCopyStep():
            return (step.tensor,), not step.store
        case MergedStep(copies=(RemoteCopyStep(store=store), *_)):
            return tuple(c.tensor for c in step.copies if isinstance(c, RemoteCopyStep)), not store
        case PrintStep():
            return (step.tensor,), False
        case CopyStep(source=Tensor() as source) if not isinstance(step.destination, Tensor):
            return (source,), False
        case CopyStep(destination=Tensor() as destination) if not isinstance(step.source, Tensor):
            return (destination,), True
    return None


def host_links(graph: FrozenGraph, tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """Return the bytes that `tensors` exchange with the host, for each set in `Target.sets`."""
    num_sets = graph.target.num_sets
    if num_sets == 1:
        return (sum(tensor.num_elements * tensor.dtype.size for tensor in tensors),)
    pieces = landing(graph, *tensors)
    set_of_piece = graph.target.set_of(pieces.owner)
    return tuple(
        np.bincount(set_of_piece, pieces.end - pieces.begin, num_sets).astype(np.int64).tolist()
    )


def host_cycles(links: Sequence[int], target: Target, streaming: bool = False) -> int:
    """Return the cycles of transfers on all host links at the same time, rounded up.

    `links` has the bytes of each host link. If `streaming` is True, the transfers are with
    streaming memory instead of the host.
    """
    rate = target.streaming_bytes_per_cycle if streaming else target.host_bytes_per_cycle
    return math.ceil(max(links, default=0) / rate)
