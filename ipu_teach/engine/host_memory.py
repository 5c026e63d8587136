"""What a program needs of this computer's own memory, said before the computer swaps or the system
ends Python."""

from __future__ import annotations

import warnings

from ipu_teach._support.places import all_memory, free_memory
from ipu_teach.compile import Compiled
from ipu_teach.errors import GraphMemoryAllocationError, HostMemoryWarning, IPUTeachError, counted
from ipu_teach.graph.source import caller

# bytes of each tile for each step: what it exchanges, computes and costs there. Measured: 116 of
# copies alone, 224 to 271 of an all-reduce on 4 and on 16 full IPUs.
EACH = 256
LEAST = 1 << 25  # bytes for which nobody looks what is free


def check_costs(compiled: Compiled) -> None:
    """Say so if what the steps of a program cost, tile by tile, does not fit into this computer's
    memory: a `HostMemoryWarning` if it is more than is free, a `GraphMemoryAllocationError` if it
    is more than there is."""
    steps, tiles = len(compiled.steps), compiled.graph.target.num_tiles
    if (needs := steps * tiles * EACH) >= LEAST:
        where = f"{counted(steps, 'step')} on {counted(tiles, 'tile')}"
        _check(
            needs,
            f"{where}, {EACH} bytes for what each costs on each",
            "or the program fewer steps: one Repeat of what is written out",
        )


def check_variables(compiled: Compiled, marks: bool) -> None:
    """The same for the variables, which `Engine.load` makes; with `marks`, which of their bytes are
    written."""
    size, tiles = compiled.graph.memory_bytes, compiled.graph.target.num_tiles
    if (needs := size * (1 + marks)) >= LEAST:
        marked = ", each byte with a mark whether it is written" * marks
        none = '; strict={"uninitialised": False} keeps no marks, half of it' * marks
        _check(
            needs,
            f"variables of {size:,} bytes on {counted(tiles, 'tile')}{marked}",
            f"or make the variables smaller{none}",
        )


def _check(needs: int, where: str, instead: str) -> None:
    free, every = free_memory(), all_memory()
    beyond = every is not None and needs > every
    if not beyond and (free is None or needs <= free):
        return
    kind: type[IPUTeachError] = GraphMemoryAllocationError if beyond else HostMemoryWarning
    has = f"{every:,}" if beyond else f"{free:,} free: it becomes slow, or the system ends it"
    said = kind(
        f"This program needs {needs:,} bytes of this computer's memory, which has {has}.",
        where=where,
        next_step="give the model fewer tiles or IPUs, IPUModel(tiles_per_ipu=…, num_ipus=…), "
        f"{instead}.",
    )
    if not isinstance(said, HostMemoryWarning):
        raise said
    warnings.warn_explicit(said, None, *caller())
