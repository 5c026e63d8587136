"""Vertices that run on the host while the machine's memory lies on a GPU.

Scalar loops and the plain vertex loop run on a processor, and some of numpy's functions have no
form for many vertices at once. Such vertices run where they always can. What they reach is copied
to the host once before them and back once after them, in one piece each way; that is the only place
in an Execute where the GPU is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.groups import Group
from ipu_teach.engine.backend import Call
from ipu_teach.engine.tile_arrays import Memory
from ipu_teach.engine.views import regions_of


def visit(
    memory: Memory, groups: Iterable[Group], graph: FrozenGraph, calls: list[Call]
) -> list[Call]:
    """`calls`, which run `groups` in the host's copy of `memory`, between the copies there and
    back."""
    reached = [span for group in groups for span in spans(group, graph)]
    if not reached:
        return calls
    reach = min(start for start, _ in reached), max(stop for _, stop in reached)
    return [(memory.fetch, reach), *calls, (memory.send, reach)]


def spans(group: Group, graph: FrozenGraph, written: bool = False) -> Iterable[tuple[int, int]]:
    """From which byte to which each field of the vertices lies; with `written`, each field that
    they write."""
    for name, declared in group.table.fields.items():
        for region in regions_of(group, graph, name) if declared.written or not written else ():
            if region.size:
                first, last = region.reach
                yield first * declared.dtype.size, last * declared.dtype.size
