"""Vertices that run alike, where they are bound, and with what."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ipu_teach._support.interrupts import Interrupts
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.groups import Group
from ipu_teach.engine.fp.stochastic import StochasticRounding
from ipu_teach.engine.fp.traps import TrapWatch
from ipu_teach.engine.tile_arrays import Memory
from ipu_teach.graph.registers import Registers
from ipu_teach.target import Target
from ipu_teach.types import Array


@dataclass(frozen=True)
class How:
    """How an engine runs what it loads: see `Engine`. `reads` and `races`: these are checked.

    `behaviour`: bits of FP_CTL that all tiles start with, see `fp.traps`; `seed`: of their workers'
    generators.
    """

    exact: bool
    vertex_loop: bool
    shuffle: int | None
    threads: int
    reads: bool
    races: bool
    behaviour: int
    seed: int


@dataclass(frozen=True, eq=False)
class Site:
    """A group of vertices, where it is bound, and with what.

    `memory`: where its fields lie: the machine's, or the host's copy of that for a way that does
    not stay on a GPU. `registers`: those of the tiles, if they ever hold anything. `watch` and
    `rounding`: what traps on a vertex's tile, and stochastic rounding, as numbers behave now.
    `returned`: bool[vertices], receives what each `compute()` returned; nothing counts as true.
    `cycles`: int64[vertices], receives the worker cycles of each vertex where they depend on data.
    `defined`: of each byte of memory whether something was written there; scalar loops say so of
    what they store. `interrupts`: what a loop is open to, if nothing that came before it in its
    step would have to be put back with it.
    """

    group: Group
    memory: Memory
    graph: FrozenGraph
    target: Target
    compute_set: str
    how: How
    registers: Registers | None
    watch: TrapWatch | None
    rounding: StochasticRounding | None
    pool: ThreadPoolExecutor | None
    defined: Array
    interrupts: Interrupts
    returned: Array | None = None
    cycles: Array | None = None
