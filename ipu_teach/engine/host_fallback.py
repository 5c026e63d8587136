"""Run vertices on the host while the machine's memory is on a GPU.

Scalar loops and the plain vertex loop run on a processor, and some numpy functions have no form for
many vertices together. So these vertices run on the host. The memory that they access is copied to
the host in one piece before they run, and copied back in one piece afterwards. An Execute waits for
the GPU only at these two copies.
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
    """Return `calls`, with a copy of memory to the host before them and a copy back after them.

    The calls run the vertices of `groups` in the host's copy of `memory`.
    """
    byte_spans = [span for group in groups for span in spans(group, graph)]
    if not byte_spans:
        return calls
    byte_range = min(start for start, _ in byte_spans), max(stop for _, stop in byte_spans)
    return [(memory.fetch, byte_range), *calls, (memory.send, byte_range)]


def spans(group: Group, graph: FrozenGraph, written: bool = False) -> Iterable[tuple[int, int]]:
    """Yield (first byte, end) for each field, or only for the fields that compute() writes.

    Each interval contains the field's regions in all vertices. Empty regions are left out.
    """
    for name, declared in group.table.fields.items():
        for region in regions_of(group, graph, name) if declared.written or not written else ():
            if region.size:
                first, last = region.reach
                yield first * declared.dtype.size, last * declared.dtype.size
