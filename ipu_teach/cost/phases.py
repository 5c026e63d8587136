"""The phases of one superstep, in order: the durations of a `StepCost`, taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ipu_teach.cost.exchange import Traffic
from ipu_teach.cost.model import StepCost
from ipu_teach.target import Target
from ipu_teach.types import Array

SYNC, EXCHANGE, COMPUTE, LINKS, HOST = (
    "sync",
    "exchange",
    "compute",
    "exchange between IPUs",
    "host exchange",
)


@dataclass(frozen=True, eq=False)
class Phase:
    """One phase of a superstep: it lasts `cycles` (modelled); `busy` (int64[tiles], None: all, all
    the time) says how long each tile is at work in it. `exchange` numbers the traffic of an
    exchange phase in `StepCost.exchange`, else -1."""

    kind: str
    cycles: int
    busy: Array | None = None
    exchange: int = -1


def phases(
    step: StepCost, target: Target, host_first: bool = False, ipu: int | None = None
) -> tuple[Phase, ...]:
    """The phases of `step` that take any time; together they last `step.cycles`.

    What is exchanged before the vertices or the copies of a step work comes first, what they leave
    behind after. With `host_first` data comes from the host, and the exchange brings it to its
    place; else the host comes last. With `ipu` the phases of that IPU alone, in which other tiles
    have no part: those of its row, for a step that is not external.
    """
    own = (
        np.arange(target.num_tiles) // target.tiles_per_ipu == ipu
        if ipu is not None
        else np.array(True)
    )

    def phase(kind: str, done: Array, busy: Array, exchange: int = -1) -> Phase:
        return Phase(
            kind, int(np.max(done, where=own, initial=0)), np.where(own, busy, 0), exchange
        )

    moves = [phase(EXCHANGE, *_moving(t, target), number) for number, t in enumerate(step.exchange)]
    work = phase(COMPUTE, step.compute_cycles, step.compute_cycles)
    host = Phase(HOST, step.host_cycles)
    if ipu is not None and len(step.host_links) == target.num_ipus:
        host = Phase(HOST, step.link_cycles(step.host_links[ipu : ipu + 1], target))
    before, after = ([host], []) if host_first else ([], [host])
    links = Phase(LINKS, step.global_exchange_cycles)
    order = [Phase(SYNC, step.sync_cycles), *before, *moves[:1], links, work, *moves[1:], *after]
    return tuple(p for p in order if p.cycles)


@lru_cache(maxsize=64)  # of a step that several IPUs do apart each asks
def _moving(traffic: Traffic, target: Target) -> tuple[Array, Array]:
    return traffic.done(target), traffic.tile_cycles(target)
