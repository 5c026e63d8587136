"""The registers of a tile: a floating-point control register, and a random generator per worker.

The bits of the control register are those of the chip's FP_CTL (graphcore/ipu_assembly_support):
which exceptions stop a run (INV, DIV0, OFLO), whether results stored as HALF are rounded
stochastically (ESR), and whether halves that overflow become NaN (NANOO). The generators are
xoroshiro128aox. The state of a worker has four words of 32 bits, as in the registers PRNG_0_0,
PRNG_0_1, PRNG_1_0 and PRNG_1_1.

Codelets access these registers through `RegisterVertex`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.graph.vertex import WORKERS, Input, Output, SupervisorVertex, Vector
from ipu_teach.target import Target
from ipu_teach.types import UNSIGNED_INT, Array, generator

INV = 1 << 0
DIV0 = 1 << 1
OFLO = 1 << 2
ESR = 1 << 19
NANOO = 1 << 20
# If this bit is set, the run stops where a half that overflowed is stored. The bit affects no other
# exceptions. Poplar does not have this bit.
STOP_ON_NANOO = 1 << 31
SEED_WORDS = 4  # The number of words in the state of a worker's generator.


@flagged
@dataclass(frozen=True)
class FloatingPointBehaviour:
    """The handling of exceptional results in floating-point arithmetic.

    The fields are Poplar's, and by default all are on. `inv`, `div0` and `oflo` stop the run at an
    invalid operation such as 0 / 0, at a division by zero, and at an overflow. With `esr`, values
    stored as HALF are rounded stochastically. With `nanoo`, halves that overflow become NaN instead
    of infinity.
    """

    inv: bool = True
    div0: bool = True
    oflo: bool = True
    esr: bool = True
    nanoo: bool = True

    @property
    def bits(self) -> int:
        """The behaviour as the bits of FP_CTL."""
        bits = {"inv": INV, "div0": DIV0, "oflo": OFLO, "esr": ESR, "nanoo": NANOO}
        return sum(bit for name, bit in bits.items() if getattr(self, name))


class Registers:
    """The registers of some tiles.

    `behaviour` is uint32[tiles], and `generators` is uint64[tiles, workers, 2].
    """

    def __init__(self, tiles: int, workers: int, behaviour: int = 0, seed: int = 0) -> None:
        self.behaviour: Array = np.full(tiles, behaviour, np.uint32)
        self._make: Callable[[], Array] = partial(generator.worker_states, seed, tiles, workers)

    @cached_property
    def generators(self) -> Array:
        """The states of the random generators: uint64[tiles, workers, 2].

        The states are built on first access, as that takes a while for a large machine.
        """
        return self._make()

    def draw(self) -> Array:
        """Return the next random word of every worker's generator: uint64[tiles, workers]."""
        return generator.draw(self.generators, 1)[..., 0]

    def of(self, tiles: Array) -> Registers:
        """Return a copy of the registers of `tiles`."""
        part = Registers(0, 0)
        part.behaviour = self.behaviour[tiles]
        part._make = lambda: self.generators[tiles]
        return part

    def put(self, tiles: Array, part: Registers) -> None:
        """Set the registers of `tiles` to `part`, a copy that `of` returned for the same tiles."""
        self.behaviour[tiles] = part.behaviour
        if "generators" in part.__dict__:
            self.generators[tiles] = part.generators


class RegisterVertex(SupervisorVertex):
    """A codelet that reads or sets registers of its tile.

    The engine runs all vertices with equal shapes in a single call of compute(). In this call, each
    field, and the registers, have an additional first axis, which numbers the vertices. compute()
    must work with this axis, and also without it for a single vertex.
    """

    @property
    def registers(self) -> Registers:
        """The registers of the tiles of the running vertices.

        A vertex that runs alone has the registers of a tile that was just switched on.
        """
        if "_registers" not in self.__dict__:
            self.__dict__["_registers"] = Registers(1, WORKERS)
        table: Registers = self.__dict__["_registers"]
        return table

    def compute_with(self, registers: Registers) -> None:
        """Run compute() with `registers`."""
        self.__dict__["_registers"] = registers
        self.compute()


class SetFloatingPointBehaviour(RegisterVertex):
    """Clear the bits `clear` of FP_CTL on every worker, and then set the bits `on`."""

    clear: UNSIGNED_INT
    on: UNSIGNED_INT

    def compute(self) -> None:
        control = self.registers.behaviour
        control[...] = control & ~self.clear | self.on

    def cycles(self, target: Target) -> int:
        """Return an assumed number of cycles.

        The number is that of PopLibs' SetSeed, but with 8 instructions for each worker instead of
        27, since one register is set instead of four.
        """
        return 14 + 8 * target.num_worker_contexts


class GetHwSeeds(RegisterVertex):
    """Write the state words of all generators of the tile to `out`, worker by worker."""

    out: Output[Vector[UNSIGNED_INT]]

    def compute(self) -> None:
        words = self.registers.generators.astype("<u8").view("<u4")
        self.out = words.reshape(self.out.shape)

    def cycles(self, target: Target) -> int:
        """Return an assumed number of cycles: as many as setting the registers takes."""
        return 14 + 27 * target.num_worker_contexts


class SetHwSeeds(RegisterVertex):
    """Set the state words of all generators of the tile to `seeds`, worker by worker."""

    seeds: Input[Vector[UNSIGNED_INT]]

    def compute(self) -> None:
        states = self.registers.generators
        states[...] = np.ascontiguousarray(self.seeds, "<u4").view("<u8").reshape(states.shape)

    def cycles(self, target: Target) -> int:
        """Return PopLibs' estimate for SetSeed (poprandCycleEstimators.cpp)."""
        return 14 + 27 * target.num_worker_contexts
