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
    cycles: int
    busy: Array | None = None
    exchange: int = -1


def phases(step: StepCost, target: Target, host_first: bool = False) -> tuple[Phase, ...]:
    """The phases of `step` that take any time; together they last `step.cycles`.

    What is exchanged before the vertices or the copies of a step work comes first, what they leave behind after. With
    `host_first` data comes from the host, and the exchange brings it to its place; else the host comes last.
    """
    busy = [t.tile_cycles(target) for t in step.exchange]
    moves = [
        Phase(EXCHANGE, t.duration(target), b, number) for number, (t, b) in enumerate(zip(step.exchange, busy, strict=True))
    ]
    work = Phase(COMPUTE, step.compute_duration, step.compute_cycles)
    host = Phase(HOST, step.host_cycles)
    before, after = ([host], []) if host_first else ([], [host])
    links = Phase(LINKS, step.global_exchange_cycles)
    order = [Phase(SYNC, step.sync_cycles), *before, *moves[:1], links, work, *moves[1:], *after]
    return tuple(p for p in order if p.cycles)
