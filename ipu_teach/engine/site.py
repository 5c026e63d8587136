"""A group of vertices together with all objects that are needed to run it."""

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
class RunMode:
    """The settings with which an engine runs a program; see `Engine`.

    `checks_reads` is True if reads of unwritten memory are errors, and `checks_races` if races are
    errors. `behaviour` contains the initial bits of FP_CTL on all tiles; see `fp.traps`. `seed` is
    the seed of the random number generators; each worker of each tile has one.
    """

    exact: bool
    vertex_loop: bool
    shuffle: int | None
    threads: int
    checks_reads: bool
    checks_races: bool
    behaviour: int
    seed: int


@dataclass(frozen=True, eq=False)
class Site:
    """A group of vertices, with all objects that are needed to run it.

    * `memory`: the machine's memory, or the host's copy of it if the group cannot run on a GPU
    * `registers`: the registers of the tiles, or None if they are always zero
    * `watch`, `rounding`: traps and stochastic rounding under the present floating-point behaviour,
      or None
    * `pool`: the threads that compute a large batch, or None
    * `returned`: bool[vertices], receives the results of `compute()`, or None if they are not
      needed
    * `cycles`: int64[vertices], receives the worker cycles of each vertex if they depend on data
    * `defined`: bool[bytes of memory], whether each byte was written; scalar loops set the bytes
      that they store
    * `interrupts`: lets Ctrl-C stop the loop of this group, if the loop can undo everything that
      the step has changed so far
    """

    group: Group
    memory: Memory
    graph: FrozenGraph
    target: Target
    compute_set: str
    mode: RunMode
    registers: Registers | None
    watch: TrapWatch | None
    rounding: StochasticRounding | None
    pool: ThreadPoolExecutor | None
    defined: Array
    interrupts: Interrupts
    returned: Array | None = None
    cycles: Array | None = None
