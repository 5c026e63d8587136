"""The links between the replicas of a model, and the rounds in which they exchange gradients."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from ipu_teach.cost.links import link_cycles, ring_order
from ipu_teach.poplibs.gcl.ring import choose, ways
from ipu_teach.target import Target, sync_of


class Replicas:
    """The links between `replicas` copies of a model with `stages` IPUs each, on `target`."""

    def __init__(self, target: Target, replicas: int, stages: int) -> None:
        self.target = replace(target, num_ipus=max(1, replicas * stages))
        self.replicas, self.stages = replicas, stages

    @property
    def sync(self) -> int:
        """The cycles of a sync of all IPUs."""
        if self.target.num_ipus == 1:
            return self.target.internal_sync_cycles
        return self.target.internal_sync_cycles + sync_of(self.target.num_ipus, self.target)

    def rounds(self, num_bytes: int, gather: bool) -> list[tuple[int, int]]:
        """Return (link cycles, paths) for each round of a ring collective of `num_bytes` bytes.

        `paths` is the number of chunks that an IPU receives in the round.
        """
        count = self.replicas
        method = choose("auto", count, num_bytes, self.stages, gather)
        chunk = ceil(num_bytes / count)
        ring = ring_order(count)
        paths = [path for group in ways(method, count) for path in group]
        parts = len({part for part, *_ in paths})
        # Rounds in which chunks move on the same paths take the same time.
        by_paths: dict[tuple[int, ...], tuple[int, int]] = {}
        cycles = []
        for number in range(max(hops for *_, hops in paths)):
            directions = tuple(direction for _, direction, hops in paths if number < hops)
            if directions not in by_paths:
                flows = np.zeros((self.target.num_ipus,) * 2, np.int64)
                for direction in directions:
                    for place in range(count):
                        source, destination = ring[place], ring[(place + direction) % count]
                        flows[source * self.stages, destination * self.stages] += chunk // parts
                duration = link_cycles(flows, self.target)
                by_paths[directions] = duration, max(1, len(directions) // parts)
            cycles.append(by_paths[directions])
        return cycles
