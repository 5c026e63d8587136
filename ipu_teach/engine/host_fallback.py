"""Vertices that run on the host while the machine's memory lies on a GPU.

Scalar loops and the plain vertex loop run on a processor, and some of numpy's functions have no
form for many vertices at once. Such vertices run where they always can. What they reach is copied to the host once before
them and back once after them, in one piece each way; that is the only place in an Execute where the GPU is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.trace import Trace
from ipu_teach.engine.batch.kernels import Call
from ipu_teach.engine.memory import Memory


def traces_of(group: Group) -> list[Trace]:
    """All traces by which a group runs: of its workers, or the one."""
    return [trace for _, trace in group.workers] or [group.trace]


def visit(memory: Memory, groups: Iterable[Group], layouts: tuple[Any, ...], calls: list[Call]) -> list[Call]:
    """`calls`, which run `groups` in the host's copy of `memory`, between the copies there and back."""
    reached = [span for group in groups for span in spans(group, layouts)]
    if not reached:
        return calls
    reach = min(start for start, _ in reached), max(stop for _, stop in reached)
    return [(memory.fetch, reach), *calls, (memory.send, reach)]


def spans(group: Group, layouts: tuple[Any, ...], written: bool = False) -> Iterable[tuple[int, int]]:
    """From which byte to which each field of the vertices lies; with `written`, each field that they write."""
    table = group.table
    for name, declared in table.fields.items():
        if written and not declared.written:
            continue
        ids, offsets, size = table.layouts[name][group.rows], table.offsets[name][group.rows], declared.dtype.size
        for number in np.unique(ids):
            starts = offsets[ids == number]
            for delta, part in layouts[number].parts:
                if part.size:
                    first, last = starts.min() + delta + part.positions.min(), starts.max() + delta + part.positions.max()
                    yield int(first) * size, int(last + 1) * size
