"""The cost of host data on the tiles: where packets arrive, and the exchange that distributes them.

The host link moves packets of `host_packet_bytes`, in the host's order. A packet with data of one
tile goes straight to that tile. A packet with data of several tiles arrives as a whole on one tile;
such packets are distributed evenly, in order. An exchange on the IPU then moves the parts to the
tiles that the tensor is mapped to. For data to the host, the same happens in reverse.

Poplar does the same. Its `Copy` rearranges on the device unless asked to save memory (API
reference, program::Copy, `optimiseMemory`), and PopLibs offers a layout that needs no
rearrangement, with entire packets on each tile (popops/HostSliceTensor.cpp). Each IPU has its own
host link, so no data moves between IPUs. The same holds for remote buffers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.programs import CopyStep, MergedStep, PrintStep, RemoteCopyStep, Step
from ipu_teach.cost.exchange import Traffic, moved, sends
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.tile_map import expand
from ipu_teach.target import Target
from ipu_teach.types import Array


@dataclass(frozen=True, eq=False)
class Landing:
    """A tensor's bytes in the host's order, in pieces that belong to one tile and one packet.

    `begin` and `end` are addresses, `owner` is the tile to which a piece is mapped, and `landed`
    the tile on which its packet arrives. `packets` (int64[tiles]) counts the packets that arrive on
    each tile.
    """

    begin: Array
    end: Array
    owner: Array
    landed: Array
    packets: Array


def landing(graph: FrozenGraph, *tensors: Tensor) -> Landing:
    """Return where the packets of transfers between `tensors` and the host arrive.

    The packets of each tensor are separate.
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
    target = graph.target
    packet_bytes = graph.target.host_packet_bytes
    starts, lengths = tensor.layout.runs
    start = (tensor.offset + starts) * tensor.dtype.size
    _, begin, end, owner = graph.tile_map.split(start, start + lengths * tensor.dtype.size)
    ipu = owner // target.tiles_per_ipu
    order = np.argsort(ipu, kind="stable")  # each IPU has its own stream of packets
    begin = begin[order]
    end = end[order]
    owner = owner[order].astype(np.int64)
    ipu = ipu[order]
    sizes = np.bincount(ipu, end - begin, target.num_ipus).astype(np.int64)
    packets = -(-sizes // packet_bytes)
    # places in one sequence of entire packets, those of IPU 0 first
    place = (
        np.cumsum(end - begin)
        - (end - begin)
        + (np.cumsum(packets) * packet_bytes - np.cumsum(sizes))[ipu]
    )
    place -= (packets * packet_bytes - sizes)[ipu]
    first = place // packet_bytes
    last = (place + end - begin - 1) // packet_bytes
    piece, packet = expand(first, last - first + 1)
    shift = np.maximum(packet * packet_bytes, place[piece]) - place[piece]
    until = np.minimum((packet + 1) * packet_bytes - place[piece], (end - begin)[piece])
    begin, end, owner = begin[piece] + shift, begin[piece] + until, owner[piece]
    return Landing(begin, end, owner, *_landed(target, packet, owner, packets))


def _landed(target: Target, packet: Array, owner: Array, packets: Array) -> tuple[Array, Array]:
    """Return (tile on which each piece arrives, packets by tile) of pieces sorted by packet.

    `packets` is the number of packets of each IPU.
    """
    if not len(packet):
        return owner, np.zeros(target.num_tiles, np.int64)
    first = np.flatnonzero(np.append(True, np.diff(packet) > 0))
    low = np.minimum.reduceat(owner, first)
    high = np.maximum.reduceat(owner, first)
    tile = low.copy()
    end = np.cumsum(packets)
    for ipu in range(target.num_ipus):
        mixed = np.arange(end[ipu] - packets[ipu], end[ipu])
        mixed = mixed[low[mixed] != high[mixed]]
        begin = ipu * target.tiles_per_ipu
        count = target.tiles_per_ipu
        if len(mixed) and high[mixed].max() < begin + target.io_tiles:
            count = target.io_tiles  # packets of I/O tiles arrive on I/O tiles only
        per_replica, remainder = divmod(len(mixed), count)
        tile[mixed] = begin + np.repeat(
            np.arange(count), per_replica + (np.arange(count) < remainder)
        )
    return tile[packet], np.bincount(tile, minlength=target.num_tiles).astype(np.int64)


def host_traffic(graph: FrozenGraph, tensors: Sequence[Tensor], to_device: bool) -> Traffic:
    """Return the exchange on the IPU for transfers between `tensors` and the host."""
    landing_places = landing(graph, *tensors)
    crossing = landing_places.owner != landing_places.landed
    begin, end, owner, landed = (
        a[crossing]
        for a in (
            landing_places.begin,
            landing_places.end,
            landing_places.owner,
            landing_places.landed,
        )
    )
    if to_device:
        return moved(graph.target, landed, owner, end - begin)
    order = np.lexsort((begin, owner))
    issued = sends(graph.tile_map, graph.target, owner[order], begin=begin[order], end=end[order])
    return replace(moved(graph.target, owner, landed, end - begin), **issued)


def with_host(step: Step) -> tuple[tuple[Tensor, ...], bool] | None:
    """Return (tensors, whether data moves to them) of a step that transfers data with the host.

    Remote buffers count too. Return None for other steps.
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
    """Return the bytes of transfers between `tensors` and the host, by `Target.sets`."""
    count = graph.target.num_sets
    if count == 1:
        return (sum(tensor.num_elements * tensor.dtype.size for tensor in tensors),)
    landed = landing(graph, *tensors)
    where = graph.target.set_of(landed.owner)
    return tuple(np.bincount(where, landed.end - landed.begin, count).astype(np.int64).tolist())


def host_cycles(links: Sequence[int], target: Target, streaming: bool = False) -> int:
    """Return the cycles of transfers on all host links at the same time, rounded up.

    `links` has the bytes of each IPU. With `streaming`, they are transfers with streaming memory.
    """
    rate = target.streaming_bytes_per_cycle if streaming else target.host_bytes_per_cycle
    return math.ceil(max(links, default=0) / rate)
