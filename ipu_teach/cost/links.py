"""The links between IPUs: a ladder, as PopLibs' tools model it (lib/poplibs_test/Util.cpp).

IPUs 2k and 2k + 1 share a card and make a rung; rails join IPU i with i + 2 and i - 2. A message
goes along a rail and crosses on the lower of the two rungs; in a torus, where the rails' ends meet,
it goes the shorter way round. Links work at the same time, each way,
and what goes over one shares its rate; the exchange between IPUs lasts as long as its busiest link,
and as the longest way takes: 15 ns a link, half of what a sync takes there and back.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipu_teach.target import TORUS, Target
from ipu_teach.types import Array


def route(source: int, destination: int, around: int = 0) -> Iterator[tuple[int, int]]:
    """The links on the way from one IPU to another, as pairs of neighbours. `around`: how many IPUs
    there are, where the ends of the ladder meet."""
    up, rungs, here = destination // 2 - source // 2, around // 2, source
    if rungs and 2 * abs(up) > rungs:  # the other way round is nearer
        up -= rungs if up > 0 else -rungs
    across = source % 2 != destination % 2
    for hop in range(abs(up) + across):
        crosses = across and hop == (0 if up >= 0 else -up)
        there = here ^ 1 if crosses else here + (2 if up > 0 else -2)
        there = there % around if around else there
        yield here, there
        here = there


def ring_order(count: int) -> list[int]:
    """IPUs clockwise round the ladder, as PopLibs' createRing has them: up one rail, 0 2 4, and
    down the other, 5 3 1. Every hop is one link."""
    return [*range(0, count, 2), *reversed(range(1, count, 2))]


def link_cycles(flows: Array, target: Target) -> int:
    """Cycles of the busiest link and the longest way. `flows`: bytes from each IPU (first axis) to
    each other one."""
    load: dict[tuple[int, int], int] = {}
    longest, around = 0, target.num_ipus if target.ipu_link_topology == TORUS else 0
    for source, destination in np.argwhere(flows).tolist():
        way = list(route(source, destination, around))
        longest = max(longest, len(way))
        for link in way:
            load[link] = load.get(link, 0) + int(flows[source, destination])
    rung, rail = target.link_bytes_per_cycle, target.rail_bytes_per_cycle
    latency = int(
        np.ceil(longest * target.global_sync_seconds_per_hop / 2 * target.tile_clock_frequency)
    )
    return latency + max(
        (int(np.ceil(size / (rung if a ^ b == 1 else rail))) for (a, b), size in load.items()),
        default=0,
    )
