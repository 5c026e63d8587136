"""Check that a program fits into this computer's memory, so that the computer does not swap."""

from __future__ import annotations

import warnings

from ipu_teach._support.places import all_memory, free_memory
from ipu_teach.compile import Compiled
from ipu_teach.errors import GraphMemoryAllocationError, HostMemoryWarning, IPUTeachError, counted
from ipu_teach.graph.source import caller

# The bytes of host memory that the data about one step on one tile need (its exchange, compute and
# cost). Measurements gave 116 bytes for copies only, and 224 to 271 bytes for an all-reduce on 4
# and on 16 full IPUs.
COST_BYTES = 256
LEAST = 1 << 25  # If fewer bytes than this are needed, the free memory is not checked.


def check_costs(compiled: Compiled) -> None:
    """Check that the cost model of all steps and tiles fits into this computer's memory.

    :raises GraphMemoryAllocationError: if the computer has less memory than needed. If it has
        enough, but not enough is free, there is a `HostMemoryWarning`.
    """
    steps = len(compiled.steps)
    tiles = compiled.graph.target.num_tiles
    needs = steps * tiles * COST_BYTES
    if needs >= LEAST:
        where = f"{counted(steps, 'step')} on {counted(tiles, 'tile')}"
        _check(
            needs,
            f"{where}, {COST_BYTES} bytes for the costs of each step on each tile",
            "Or use fewer steps: one Repeat instead of copies of its body",
        )


def check_variables(compiled: Compiled, marks: bool) -> None:
    """Check, before an engine is loaded, that its variables fit into this computer's memory.

    With `marks`, each byte of a variable needs a further byte that marks whether it was written.

    :raises GraphMemoryAllocationError: if the computer has less memory than needed. If it has
        enough, but not enough is free, there is a `HostMemoryWarning`.
    """
    memory_bytes = compiled.graph.memory_bytes
    num_tiles = compiled.graph.target.num_tiles
    needed_bytes = 2 * memory_bytes if marks else memory_bytes
    if needed_bytes >= LEAST:
        place = f"variables of {memory_bytes:,} bytes on {counted(num_tiles, 'tile')}"
        advice = "Or make the variables smaller"
        if marks:
            place += ", and a mark for each byte that shows whether it was written"
            advice += '. Or pass strict={"uninitialised": False}, which needs no marks'
        _check(needed_bytes, place, advice)


def _check(needed_bytes: int, place: str, advice: str) -> None:
    """Raise an error if this computer has less than `needed_bytes`. Warn if less is free.

    `place` and `advice` are parts of the error message.
    """
    free_bytes = free_memory()
    total_bytes = all_memory()
    is_beyond = total_bytes is not None and needed_bytes > total_bytes
    if not is_beyond and (free_bytes is None or needed_bytes <= free_bytes):
        return
    kind: type[IPUTeachError] = GraphMemoryAllocationError if is_beyond else HostMemoryWarning
    available_text = (
        f"{total_bytes:,}"
        if is_beyond
        else f"{free_bytes:,} free: it becomes slow, or the system ends it"
    )
    problem = kind(
        f"This program needs {needed_bytes:,} bytes of this computer's memory, which has "
        f"{available_text}.",
        where=place,
        next_step="give the model fewer tiles or IPUs: IPUModel(tiles_per_ipu=…, num_ipus=…). "
        f"{advice}.",
    )
    if not isinstance(problem, HostMemoryWarning):
        raise problem
    warnings.warn_explicit(problem, None, *caller())
