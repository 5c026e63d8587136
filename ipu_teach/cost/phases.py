"""The phases of one superstep, in order: the durations of a `StepCost`, taken apart."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_teach.cost.model import StepCost
from ipu_teach.target import Target
from ipu_teach.types import Array

SYNC, EXCHANGE, COMPUTE, LINKS, HOST = "sync", "exchange", "compute", "exchange between IPUs", "host exchange"


@dataclass(frozen=True, eq=False)
class Phase:
    """One phase of a superstep: it lasts `cycles` (modelled); `busy` (int64[tiles], None: all, all the time) says how long
    each tile is at work in it. `exchange` numbers the traffic of an exchange phase in `StepCost.exchange`, else -1."""

    kind: str
    cycles: float
    busy: Array | None = None
    exchange: int = -1


def phases(step: StepCost, target: Target) -> tuple[Phase, ...]:
    """The phases of `step` that take any time; together they last `step.cycles`."""
    found = [Phase(SYNC, step.sync_cycles)]
    busy = [t.tile_cycles(target) for t in step.exchange]
    lasts = [int(b.max(initial=0)) for b in busy]
    for number, (tiles, cycles) in enumerate(zip(busy, lasts, strict=True)):
        if number == 1:  # the first exchange brings what is computed on, the second takes away what came of it
            found.append(Phase(COMPUTE, step.compute_duration, step.compute_cycles))
        found.append(Phase(EXCHANGE, cycles, tiles, number))
    if len(busy) < 2:
        found.append(Phase(COMPUTE, step.compute_duration, step.compute_cycles))
    found += [Phase(LINKS, step.global_exchange_cycles), Phase(HOST, step.host_cycles)]
    return tuple(p for p in found if p.cycles)
