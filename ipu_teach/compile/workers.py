"""The workers of a MultiVertex: their traces, and races between them.

The workers (worker threads) of a vertex run at the same time and in no particular order. So there
is a race if one worker writes an element that another worker reads or writes. Races are found in
the traces, which list every element that a worker accesses. A codelet that cannot be traced runs as
a scalar loop. The loop records the elements that its workers access, and they are checked during
the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.trace import Ref, Trace
from ipu_teach.compile.tracer import is_list
from ipu_teach.errors import ComputeSetRaceError
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.compile.groups import Group


def merge_traces(traces: tuple[Trace, ...]) -> Trace:
    """Return the common trace of a MultiVertex's workers.

    It has the operations of the first worker. An element counts as written if any worker writes it,
    and the trace counts as stopped if the trace of any worker stopped.
    """
    stopped = next((t.stopped for t in traces if t.stopped), "")
    roots = traces[0].written.keys() & traces[0].regions.keys()
    written = {root: np.any([t.written[root] for t in traces], axis=0) for root in roots}
    return replace(traces[0], written=written, stopped=stopped)


def check_workers(group: Group) -> None:
    """Raise `ComputeSetRaceError` if two workers of a vertex of `group` conflict.

    Two workers conflict if one of them writes an element that the other reads or writes.
    """
    if group.trace.stopped:
        return
    touched = [(writer_id, *_touched(trace)) for writer_id, trace in group.workers]
    for region_id, (name, region_index) in group.trace.regions.items():
        for writer_id, _, writes in touched:
            for other_id, reads, rewrites in touched:
                for access, accessed in (
                    ("writes", rewrites[region_id]),
                    ("reads", reads[region_id]),
                ):
                    conflicts = np.flatnonzero(writes[region_id] & accessed)
                    if (
                        other_id == writer_id
                        or not conflicts.size
                        or (access == "writes" and other_id < writer_id)
                    ):
                        continue
                    shape = group.trace.samples[region_id].shape
                    index = [
                        int(coordinate) for coordinate in np.unravel_index(conflicts[0], shape)
                    ]
                    region_text = f"[{region_index}]" if is_list(group.shapes[name]) else ""
                    raise _race(
                        group,
                        0,
                        name,
                        index=f"{region_text}{index if shape else ''}",
                        conflict=(writer_id, access, other_id),
                    )


def race_of(
    group: Group, vertex: int, name: str, index: list[int], written: int, read: int
) -> ComputeSetRaceError:
    """Return the error for two workers that conflict in an element of field `name`.

    `vertex` is an index into the group's rows, and `index` is the index of the element. In the
    integer `written`, bit i is set if worker i wrote the element, and in `read`, bit i is set if
    worker i read it.
    """
    writer_id = (written & -written).bit_length() - 1
    access, other_workers = ("writes", written) if written & (written - 1) else ("reads", read)
    other_workers &= ~(1 << writer_id)
    return _race(
        group,
        vertex,
        name,
        index=str(index or ""),
        conflict=(writer_id, access, (other_workers & -other_workers).bit_length() - 1),
    )


def _race(
    group: Group, vertex: int, name: str, index: str, conflict: tuple[int, str, int]
) -> ComputeSetRaceError:
    """Return the error for a race between two workers.

    `index` is the index of the element as text. `conflict` is (id of the worker that writes,
    "reads" or "writes" for the other worker, id of the other worker).
    """
    writer_id, access_verb, other_id = conflict
    return ComputeSetRaceError(f"""Worker {writer_id} of {group.table.codelet.__name__} writes
        {name}{index}, and worker {other_id} {access_verb} it.
        where: {vertex_name(group.table, int(group.rows[vertex]), name)}
        next:  let each worker write elements of its own, chosen by worker_id; a worker that needs
        another worker's result reads it in a second compute set.""")


def _touched(trace: Trace) -> tuple[dict[int, Array], dict[int, Array]]:
    """Return (read, written): which elements of each region a trace reads, and which it writes.

    Both are dicts from the id of a region to a bool array.
    """
    read = {root: np.zeros(trace.samples[root].size, bool) for root in trace.regions}
    written = {root: np.zeros(trace.samples[root].size, bool) for root in trace.regions}
    for op in trace.ops:
        if op.kind == "read":
            source, key = op.args
            keys = key if isinstance(key, tuple) else (key,)
            _mark(
                read,
                trace,
                source.id,
                trace.samples[source.id][keys if Ellipsis in keys else (*keys, Ellipsis)],
            )
            continue
        if op.kind == "store":
            _mark(written, trace, op.args[0].id, trace.samples[op.args[0].id])
        if op.kind not in ("region", "view"):
            for argument in op.args[1:] if op.kind == "store" else op.args:
                if isinstance(argument, Ref):
                    _mark(read, trace, argument.id, trace.samples[argument.id])
    return read, written


def _mark(flags: dict[int, Array], trace: Trace, value: int, sample: Array) -> None:
    """Set the flags of all elements of a view to True.

    `flags` maps the id of each region to a bool array. `value` is the id of the view, and `sample`
    is the view itself. If the view belongs to an array that is not a region, nothing happens.
    """
    root = trace.roots[value]
    if root in flags and sample.size:
        root_sample = trace.samples[root]
        first_element = (
            sample.__array_interface__["data"][0] - root_sample.__array_interface__["data"][0]
        ) // root_sample.itemsize
        element_strides = tuple(stride // root_sample.itemsize for stride in sample.strides)
        np.lib.stride_tricks.as_strided(flags[root][first_element:], sample.shape, element_strides)[
            ...
        ] = True
