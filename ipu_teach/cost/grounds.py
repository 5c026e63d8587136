"""The grounds of modelled cycles: the kinds of evidence for them.

A ground is a published formula, a count or an assumption, for example. The ground of a phase is the
weakest ground among the constants of the phase (`target.ground`). The ground of vertices depends on
where their cycles come from: a formula of PopLibs, a count of the codelet's operations, or a figure
given with the program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.cost.model import StepCost
from ipu_teach.cost.traced import of_library
from ipu_teach.target import COUNTED, GIVEN, GRAPHCORE, GROUNDS, Target, ground

_EXCHANGE = (
    "exchange_bytes_per_cycle",
    "exchange_latency_cycles",
    "exchange_cycles_per_row",
    "exchange_setup_instructions",
)


def codelet_ground(groups: Iterable[Group]) -> str:
    """Return the ground of a codelet's cycles: the weakest ground of its groups of vertices."""
    grounds: set[str] = set()
    for group in groups:
        codelet = group.table.codelet
        is_estimated = group.table.estimates[group.rows] >= 0
        has_cost_given = group.estimator is not None or hasattr(codelet, "cycles")
        if np.any(is_estimated):
            grounds.add(GIVEN)
        if not np.all(is_estimated):
            ground_without_estimate = GIVEN if has_cost_given else COUNTED
            grounds.add(GRAPHCORE if of_library(codelet) else ground_without_estimate)
    return weakest(grounds or {COUNTED})


def weakest(grounds: Iterable[str]) -> str:
    """Return the weakest of several grounds, by their order in `GROUNDS`."""
    return max(grounds, key=GROUNDS.index)


def step_grounds(
    step: StepCost,
    external: bool,
    codelets: Mapping[str, int],
    codelet_grounds: Mapping[str, str],
    target: Target,
) -> Counter[str]:
    """Return the cycles of one step, keyed by ground (the kind of evidence for the cycles).

    `external` is True if several IPUs wait for each other before the step. `codelets` maps the name
    of each codelet to its cycles, and `codelet_grounds` maps it to its ground.
    """

    def weakest_of(*names: str) -> str:
        return weakest(ground(target, name) for name in names)

    cycles_by_ground: Counter[str] = Counter()
    sync = "auto_sync_delay" if target.relative_sync_delay == "AUTO" else "min_ipu_sync_delay"
    cycles_by_ground[weakest_of(sync, *(["global_sync_cycles"] if external else []))] += (
        step.sync_cycles
    )
    cycles_by_ground[weakest_of(*_EXCHANGE)] += step.exchange_duration
    cycles_by_ground[weakest_of("link_bytes_per_cycle", "rail_bytes_per_cycle")] += (
        step.global_exchange_cycles
    )
    link_name = "streaming" if step.kind == "RemoteCopy" else "host"
    cycles_by_ground[weakest_of(f"{link_name}_bytes_per_second")] += step.host_cycles
    codelet_cycles = sum(codelets.values())
    remaining = step.compute_duration
    for name, cycles in codelets.items() if codelet_cycles else ():
        share = step.compute_duration * cycles // codelet_cycles
        cycles_by_ground[codelet_grounds[name]] += share
        remaining -= share
    largest_codelet = max(codelets, key=lambda name: codelets[name]) if codelet_cycles else ""
    # The remaining cycles come from rounding in the division, or from copies inside a tile.
    cycles_by_ground[
        codelet_grounds[largest_codelet]
        if largest_codelet
        else weakest_of("memcpy_bytes_per_cycle")
    ] += remaining
    return cycles_by_ground


# A step that ran: (number of executions, cost, whether several IPUs wait for each other before it,
# cycles by codelet, number of vertices by codelet).
StepRan = tuple[int, StepCost, bool, Mapping[str, int], Mapping[str, int]]


def shares(
    steps_run: Iterable[StepRan], resting: Mapping[str, str], target: Target
) -> dict[str, float]:
    """Return the fraction of a run's cycles that rests on each ground (kind of evidence).

    `resting` maps the name of each codelet to its ground. If vertices ran whose cycles are unknown,
    the key "no estimate" has their fraction of all vertices that ran.
    """
    cycles_by_ground: Counter[str] = Counter()
    missing = every = 0
    for times, cost, external, cycles, vertices in steps_run:
        every += times * sum(vertices.values())
        missing += times * sum(count for name, count in vertices.items() if name in cost.unknown)
        for name, spent in step_grounds(
            cost, external, cycles, codelet_grounds=resting, target=target
        ).items():
            cycles_by_ground[name] += times * spent
    total = sum(cycles_by_ground.values()) or 1
    return {name: cycles_by_ground[name] / total for name in GROUNDS if cycles_by_ground[name]} | (
        {"no estimate": missing / every} if missing else {}
    )
