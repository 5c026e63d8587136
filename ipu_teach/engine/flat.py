"""Elementwise codelets over memory that their vertices tile without gaps: the vertices' boundaries vanish.

A codelet that does nothing but operations on whole regions, element by element, gives every element the same bits whoever
computes it. So where regions of neighbouring vertices touch in every field alike, they are one long region, whatever their
sizes, and it is cut anew into pieces whose temporaries stay in a core's cache.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.trace import Op, Ref, Trace, is_ref, steady
from ipu_teach.engine import plan
from ipu_teach.engine.kernels import Call
from ipu_teach.engine.memory import Memory
from ipu_teach.engine.uses import last_uses, live_bytes
from ipu_teach.engine.views import LEAST_RUN, Region
from ipu_teach.types import Array


def bind_flat(groups: Sequence[Group], layouts: tuple[Any, ...], memory: Memory) -> list[Call] | None:
    """The calls that run all vertices of the groups of one table, or None if their regions do not lie so."""
    first = groups[0].trace
    if any(g.way != "batch" or g.workers or not _elementwise(g.trace) or memory.backend.lacks(g.trace) for g in groups):
        return None
    if any(_steps(g.trace) != _steps(first) for g in groups) or not first.regions:
        return None
    found = [{i: Region(g, layouts, *first.regions[i]) for i in first.regions} for g in groups]
    long = [i for i in first.regions if np.ndim(first.samples[i])]
    shared = [i for i in first.regions if i not in long]
    starts = {i: np.concatenate([regions[i].starts for regions in found]) for i in first.regions}
    if not long or not all(regions[i].contiguous for regions in found for i in long):
        return None
    if any(np.any(starts[i] != starts[i][0]) for i in shared):
        return None
    sizes = np.concatenate([np.full(len(g.rows), regions[long[0]].size) for g, regions in zip(groups, found, strict=True)])
    order = np.argsort(starts[long[0]], kind="stable")
    sizes = sizes[order]
    columns = np.stack([starts[i][order] for i in long])
    breaks = np.flatnonzero(np.any(columns[:, 1:] != columns[:, :-1] + sizes[:-1], axis=0)) + 1
    if len(breaks) + 1 > max(1, len(sizes) // LEAST_RUN):
        return None
    begins = np.concatenate(([0], breaks))
    lengths = np.add.reduceat(sizes, begins)
    binder = _Binder(first, memory, {i: int(starts[i][0]) for i in shared})
    for begin, length in zip(columns[:, begins].T.tolist(), lengths.tolist(), strict=True):
        binder.run(dict(zip(long, begin, strict=True)), length)
    return binder.calls


def _steps(trace: Trace) -> list[tuple[object, ...]]:
    """What a trace does, whatever the size of its regions."""
    return [(op.kind, op.fn, op.args if op.kind != "view" else op.args[:1], op.result) for op in trace.ops]


def _elementwise(trace: Trace) -> bool:
    shapes = {np.shape(s) for s in (trace.samples[i] for i in trace.regions) if np.ndim(s)}
    if len(shapes) != 1 or trace.returned is not True:
        return False
    (shape,) = shapes
    return all(_simple(trace, op, shape) for op in trace.ops)


def _simple(trace: Trace, op: Op, shape: tuple[int, ...]) -> bool:
    if any(isinstance(a, np.ndarray) for a in op.args):
        return False
    if op.kind == "store":
        value, target = op.args[1], trace.samples[op.args[0].id]
        whole = np.shape(target) == shape
        if isinstance(value, Ref) and target.dtype.kind == "u" and np.asarray(trace.samples[value.id]).dtype.kind == "f":
            return False  # see kernels.store_unsigned
        return whole and not op.kwargs and (not isinstance(value, Ref) or np.shape(trace.samples[value.id]) in (shape, ()))
    sample = trace.samples[op.result]
    if np.shape(sample) not in (shape, ()) or (np.ndim(sample) and not sample.flags.c_contiguous):
        return False
    if op.kind == "view":
        return bool(sample.ctypes.data == trace.samples[op.args[0].id].ctypes.data)
    if op.kind == "read":  # a single number that all vertices share
        return np.ndim(trace.samples[op.args[0].id]) == 0
    return op.kind == "region" or (op.kind == "ufunc" and not op.kwargs and steady(op.fn, np.asarray(sample).dtype))


class _Binder:
    def __init__(self, trace: Trace, memory: Memory, shared: dict[int, int]) -> None:
        self.trace, self.memory, self.shared = trace, memory, shared
        self.last, self.stores = last_uses(trace)
        self.calls: list[Call] = []
        self.pool: dict[Any, list[Array]] = defaultdict(list)
        samples = [np.asarray(trace.samples[i]) for i in trace.regions]
        touched, length = sum(s.itemsize for s in samples), max(s.size for s in samples)
        budget = memory.backend.chunk_bytes or plan.CHUNK_BYTES
        self.chunk = max(1, budget // (touched + live_bytes(trace, self.last) // max(1, length)))

    def run(self, begins: dict[int, int], length: int) -> None:
        """Append the calls for `length` elements from `begins` on, which are positions by region."""
        for start in range(0, length, self.chunk):
            self._piece({i: begin + start for i, begin in begins.items()}, min(self.chunk, length - start))

    def _piece(self, begins: dict[int, int], count: int) -> None:
        values: dict[int, Array] = {}
        buffers: dict[int, tuple[Any, Array]] = {}
        done: set[int] = set()
        trace = self.trace
        for number, op in enumerate(trace.ops):
            if op.kind == "region":
                flat = self.memory.flat(trace.codelet.fields[trace.regions[op.result][0]].dtype)
                at = begins.get(op.result, self.shared.get(op.result, 0))
                values[op.result] = flat[at : at + (count if op.result in begins else 1)]
            elif op.kind in ("view", "read"):
                values[op.result] = values[op.args[0].id]
            elif op.kind == "store":
                if number not in done:
                    place, value = values[op.args[0].id], op.args[1]
                    source = values[value.id] if isinstance(value, Ref) else self.memory.backend.operand(value)
                    self.calls.append((self.memory.backend.copyto, (place, source, "unsafe")))
            else:
                self._compute(number, op, values, buffers, done, count)
            for root in [r for r in buffers if self.last[r] == number]:
                key, buffer = buffers.pop(root)
                self.pool[key].append(buffer)
        for key, buffer in buffers.values():
            self.pool[key].append(buffer)

    def _compute(
        self,
        number: int,
        op: Op,
        values: dict[int, Array],
        buffers: dict[int, tuple[Any, Array]],
        done: set[int],
        count: int,
    ) -> None:
        sample = np.asarray(self.trace.samples[op.result])
        args = [values[a.id] if isinstance(a, Ref) else self.memory.backend.operand(a) for a in op.args]
        length = count if sample.ndim else 1
        store = self._direct(number, op)
        if store is not None and sample.ndim:
            done.add(store)
            target = self.trace.roots[self.trace.ops[store].args[0].id]
            out = values[target]
        else:
            for root in [r for r in buffers if self.last[r] == number and buffers[r][0] == (sample.dtype, sample.ndim > 0)]:
                key, buffer = buffers.pop(root)  # elementwise, an operand that dies may become the result
                self.pool[key].append(buffer)
            key = (sample.dtype, sample.ndim > 0)
            free = self.pool[key]
            whole = free.pop() if free else self.memory.backend.empty(self.chunk if sample.ndim else 1, sample.dtype)
            buffers[op.result] = (key, whole)
            out = whole[:length]
        values[op.result] = out
        self.calls.append(self.memory.backend.ufunc(op.fn, args, out, {}))

    def _direct(self, number: int, op: Op) -> int | None:
        """The number of the store that is all that becomes of a result, if it comes next and keeps its type."""
        ops, store = self.trace.ops, number + 1
        while store < len(ops) and ops[store].kind == "view":
            store += 1
        if store == len(ops) or ops[store].kind != "store" or not is_ref(ops[store].args[1], op.result):
            return None
        same = np.asarray(self.trace.samples[op.result]).dtype == self.trace.samples[ops[store].args[0].id].dtype
        return store if same and self.last[op.result] == store else None
