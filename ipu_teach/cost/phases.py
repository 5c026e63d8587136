"""The phases of a superstep, in order, computed from a `StepCost`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ipu_teach.cost.exchange import Traffic
from ipu_teach.cost.model import StepCost
from ipu_teach.target import Target
from ipu_teach.types import Array

SYNC = "sync"
EXCHANGE = "exchange"
COMPUTE = "compute"
LINKS = "exchange between IPUs"
HOST = "host exchange"
STREAMING = "streaming memory"


@dataclass(frozen=True, eq=False)
class Phase:
    """One phase of a superstep, which lasts `cycles` (modelled).

    - `kind` is `SYNC`, `EXCHANGE`, `COMPUTE`, `LINKS`, `HOST` or `STREAMING`.
    - `busy` (int64[tiles]) is the number of cycles for which each tile works in the phase. None
      means that all tiles are occupied for the entire phase.
    - `exchange` is the index of the phase's traffic in `StepCost.exchange`, or -1 if the phase is
      not an exchange.
    """

    kind: str
    cycles: int
    busy: Array | None = None
    exchange: int = -1


def phases(
    step: StepCost,
    target: Target,
    host_first: bool = False,
    own: int | None = None,
    meets: Array | None = None,
) -> tuple[Phase, ...]:
    """Return the phases of `step` that last at least one cycle; together they last `step.cycles`.

    The exchange of operands comes before the vertices or copies of a step, and the exchange of
    results after them. With `host_first`, the transfer with the host or with streaming memory comes
    before the exchange that moves its data to the tiles; otherwise, the transfer comes last.

    With `own`, an index of `Target.sets`, return only the phases of that set of tiles. This needs
    `meets` (int64[sets]), the first array that `StepCost.by_set` returns. In `meets`, sets that
    begin the step together have equal numbers, and a set that does not wait for others has -1.
    """
    is_local = is_waited_for = np.array(True)
    transfer_cycles = step.host_cycles
    if own is not None and meets is not None:
        set_of_tile = target.set_of(np.arange(target.num_tiles))
        is_local = set_of_tile == own
        is_waited_for = (set_of_tile == own) | (meets[own] >= 0) & (
            meets[set_of_tile] == meets[own]
        )
        transfer_cycles = link_cycles_of(step, target, own, meets)

    def phase(kind: str, done: Array, busy: Array, exchange: int = -1) -> Phase:
        cycles = int(np.max(done, where=is_waited_for, initial=0))
        return Phase(kind, cycles, np.where(is_local, busy, 0), exchange)

    moves = [
        phase(EXCHANGE, *_moving(t, target), exchange_index)
        for exchange_index, t in enumerate(step.exchange)
    ]
    work = phase(COMPUTE, step.compute_cycles, step.compute_cycles)
    host = Phase(STREAMING if step.streaming else HOST, transfer_cycles)
    before, after = ([host], []) if host_first else ([], [host])
    links = Phase(LINKS, step.global_exchange_cycles)
    order = [Phase(SYNC, step.sync_cycles), *before, *moves[:1], links, work, *moves[1:], *after]
    return tuple(p for p in order if p.cycles)


def link_cycles_of(step: StepCost, target: Target, own: int, meets: Array) -> int:
    """Return the cycles for which set `own` uses a link to the host or to streaming memory.

    The cycles are those of the slowest link among all IPUs that begin the step together with set
    `own`, an index of `Target.sets`. `meets` (int64[sets]) is the first array that
    `StepCost.by_set` returns: sets that begin the step together have equal numbers.
    """
    if meets[own] == 0:
        return step.host_cycles
    sets = np.flatnonzero(meets == meets[own]) if meets[own] > 0 else np.array([own])
    ipus = np.unique(sets * target.num_ipus // meets.size).tolist()
    return max(step.link_cycles(target, ipu) for ipu in ipus)


# Callers ask for the phases of a step once for each IPU, so the result is cached.
@lru_cache(maxsize=64)
def _moving(traffic: Traffic, target: Target) -> tuple[Array, Array]:
    return traffic.done(target), traffic.tile_cycles(target)
