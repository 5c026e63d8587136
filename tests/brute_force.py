"""Small random programs, and their costs counted one element at a time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from graphs import Space, Superstep
from hypothesis import HealthCheck, settings

from ipu_teach import BOOL, FLOAT, HALF, INT, Device, IPUModel
from ipu_teach.compile import compile_programs
from ipu_teach.cost import CostModel, StepCost
from ipu_teach.cost.exchange import Traffic
from ipu_teach.program import Program

RANDOMLY = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=80)


def random_device(rng: Random, **fields: Any) -> Device:
    """Return a device of one to three IPUs with one to five tiles each."""
    return IPUModel(
        tiles_per_ipu=rng.randint(1, 5), num_ipus=rng.randint(1, 3), **fields
    ).create_device()


def random_space(rng: Random, device: Device) -> Space:
    """Return a space with up to four small variables, so that random views often share one."""
    space = Space(device, rng)
    for _ in range(rng.randint(1, 4)):
        shape = [rng.choice([1, 2, 3, 5, 8, 13]) for _ in range(rng.randint(1, 3))]
        space.variable(rng.choice([FLOAT, FLOAT, HALF, INT, BOOL]), shape)
    return space


def step_cost(space: Space, program: Program) -> StepCost:
    """Return the modelled cost of the single step in `program`."""
    return CostModel(compile_programs(space.graph, [program])).step(0)


def expected_bytes(space: Space, wanted: Sequence[set[int]], per_ipu: int) -> list[list[int]]:
    """Return the bytes received and sent by tile, then those received and sent by IPU.

    Tile `t` must get the elements `wanted[t]`; `per_ipu` is the number of tiles of an IPU.
    """
    tiles = range(len(wanted))
    ipus = range(len(wanted) // per_ipu)
    received = [space.bytes_of({e for e in wanted[t] if space.tile[e] != t}) for t in tiles]
    sent = [
        space.bytes_of({e for t in tiles for e in wanted[t] if space.tile[e] == owner != t})
        for owner in tiles
    ]
    abroad = [{e for e in wanted[t] if space.tile[e] // per_ipu != t // per_ipu} for t in tiles]
    link_received = [
        sum(space.bytes_of(abroad[t]) for t in tiles if t // per_ipu == i) for i in ipus
    ]
    link_sent = [
        space.bytes_of({e for t in tiles for e in abroad[t] if space.tile[e] // per_ipu == i})
        for i in ipus
    ]
    return [received, sent, link_received, link_sent]


def traffic_bytes(traffic: Traffic) -> list[list[int]]:
    """Return the modelled bytes in the order of `expected_bytes`."""
    counts = (traffic.received, traffic.sent, traffic.link_received, traffic.link_sent)
    return [count.tolist() for count in counts]


def elements_by_tile(space: Space, step: Superstep, kinds: Sequence[str]) -> list[set[int]]:
    """Return for each tile the elements that its vertices touch through fields of these kinds."""
    wanted: list[set[int]] = [set() for _ in range(space.tiles)]
    for vertex in step.vertices:
        wanted[vertex.tile].update(*vertex.touched(kinds))
    return wanted


def local_addresses(space: Space) -> list[int]:
    """Return the byte address of each element in its tile's memory.

    Every tile keeps its elements in the order of the graph, without gaps.
    """
    used = [0] * space.tiles
    addresses = []
    for element, tile in enumerate(space.tile):
        addresses.append(used[tile])
        used[tile] += space.size[element]
    return addresses
