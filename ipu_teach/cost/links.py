"""The links between IPUs: a ladder, as PopLibs' tools model it (lib/poplibs_test/Util.cpp).

IPUs 2k and 2k + 1 share a card. The link between them is a rung of the ladder. The rails of the
ladder join IPU i with IPUs i + 2 and i - 2. A message that must change to the other rail does so at
its start or at its end, whichever is on the lower rung. In a torus, the ends of the rails are
joined and a message takes the shorter direction. If it passes the joined ends, it changes on the
higher rung. All links work at the same time, in both directions, and messages over one link share
its rate. The exchange between IPUs lasts as long as the busiest link, plus the latency of the
longest route. The latency is 15 ns for each link. This is half the time of a sync, which crosses
the link and returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from ipu_teach.target import TORUS, Target
from ipu_teach.types import Array

Link = tuple[int, int]  # A link in one direction: (from this IPU, to this neighbouring IPU).


def route(source: int, destination: int, ring: int = 0) -> Iterator[Link]:
    """Yield the links on the route from one IPU to another.

    `ring` is the result of `around`: the number of IPUs if the ends of the ladder are joined, else
    0.
    """
    up = destination // 2 - source // 2
    rungs = ring // 2
    ipu = source
    # In a torus, the message takes the other direction if that is shorter.
    if rungs and 2 * abs(up) > rungs:
        up -= rungs if up > 0 else -rungs
    across = source % 2 != destination % 2
    for hop in range(abs(up) + across):
        crosses = across and hop == (0 if up >= 0 else -up)
        next_ipu = ipu ^ 1 if crosses else ipu + (2 if up > 0 else -2)
        next_ipu = next_ipu % ring if ring else next_ipu
        yield ipu, next_ipu
        ipu = next_ipu


def ring_order(count: int) -> list[int]:
    """Return the IPUs in order around the ladder, as PopLibs' createRing orders them.

    With six IPUs, the order is 0 2 4 (up one rail), then 5 3 1 (down the other rail). Neighbours in
    the list share a link.
    """
    return [*range(0, count, 2), *reversed(range(1, count, 2))]


def around(target: Target) -> int:
    """Return the number of IPUs of `target` if the ends of its ladder are joined, else 0."""
    return target.num_ipus if target.ipu_link_topology == TORUS else 0


def links_of(target: Target) -> list[Link]:
    """Return all links of a machine in both directions, those within cards (rungs) first."""
    n = target.num_ipus
    ring = around(target)
    pairs = [(i, i + 1) for i in range(0, n - 1, 2)] + [(i, i + 2) for i in range(n - 2)]
    pairs += [(ring - 2, 0), (ring - 1, 1)] if ring > 4 else []
    return [way for a, b in pairs for way in ((a, b), (b, a))]


def link_rate(link: Link, target: Target) -> float:
    """Return the bytes per cycle of a link, which depend on whether it is within a card."""
    rung = link[0] ^ link[1] == 1
    return target.link_bytes_per_cycle if rung else target.rail_bytes_per_cycle


def link_load(flows: Array, target: Target) -> tuple[Counter[Link], int]:
    """Return `(load, longest)` for messages between IPUs.

    `flows[i, j]` is the number of bytes from IPU i to IPU j. `load` maps each link in use to the
    bytes over it, and `longest` is the number of links on the longest route.
    """
    load = Counter[Link]()
    longest = 0
    ring = around(target)
    for source, destination in np.argwhere(flows).tolist():
        way = list(route(source, destination, ring))
        longest = max(longest, len(way))
        for link in way:
            load[link] += int(flows[source, destination])
    return load, longest


def busy_cycles(link: Link, size: int, target: Target) -> int:
    """Return the cycles for which `size` bytes occupy a link."""
    return int(np.ceil(size / link_rate(link, target)))


def link_cycles(flows: Array, target: Target) -> int:
    """Return the cycles of an exchange between IPUs, from its busiest link and longest route.

    `flows[i, j]` is the number of bytes from IPU i to IPU j.
    """
    load, longest = link_load(flows, target)
    latency = int(
        np.ceil(longest * target.global_sync_seconds_per_hop / 2 * target.tile_clock_frequency)
    )
    return latency + max(
        (busy_cycles(*direction_load, target) for direction_load in load.items()), default=0
    )
