"""From a trace to a list of prebound array calls: one kernel for all vertices of a group.

Binding happens once, when the engine is loaded. Every view and every buffer is made then; a step is
`for f, args in calls: f(*args)` and allocates nothing but what a gather of long regions needs.

A region is used in place where the vertices' regions lie at equal distances, else gathered into a buffer and scattered
back. The bits are those of the plain vertex loop: per vertex, every operand has the memory order that the trace's sample
had, and no sum is reordered.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenTable
from ipu_teach.compile.groups import Group
from ipu_teach.compile.trace import ELEMENTWISE, Op, Ref, Trace, steady
from ipu_teach.compile.tracer import failed
from ipu_teach.engine.memory import Memory
from ipu_teach.graph.tensor import Layout
from ipu_teach.types import Array

Call = tuple[Callable[..., Any], tuple[Any, ...]]

CHUNK_BYTES = 512 * 1024  # temporaries of one chunk: stay inside a core's second-level cache
LEAST_RUN = 8  # vertices a zero-copy run must have on average to beat a gather
WINDOW = 16  # from this many elements on, a contiguous region is gathered as one window


def bind(group: Group, layouts: tuple[Any, ...], memory: Memory, returned: Array | None = None) -> list[Call]:
    """The calls that run `compute()` for every vertex of `group`.

    `returned`: bool[vertices], receives what each `compute()` returned; nothing counts as true.
    """
    if not group.workers:
        return _Binder(group, layouts, memory, returned).bind()
    answers = np.ones((len(group.workers), len(group.rows)), bool)
    calls: list[Call] = []
    for (_, trace), answer in zip(group.workers, answers, strict=True):
        calls += _Binder(replace(group, trace=trace), layouts, memory, None if returned is None else answer).bind()
    if returned is not None:
        calls.append((np.logical_and.reduce, (answers, 0, None, returned)))
    return calls


class _Region:
    """One region of every vertex: where it starts, how it lies, and whether it can be used in place."""

    def __init__(self, group: Group, layouts: tuple[Any, ...], name: str, part: int) -> None:
        table = group.table
        self.field = table.fields[name]
        offsets = table.offsets[name][group.rows]
        ids = table.layouts[name][group.rows]
        self.layouts: list[Layout] = []
        deltas = []
        distinct, self.which = np.unique(ids, return_inverse=True)
        for number in distinct:
            layout = layouts[number]
            delta, inner = (0, layout) if isinstance(layout, Layout) else layout.parts[part]
            deltas.append(delta)
            self.layouts.append(inner)
        self.starts: Array = offsets + np.array(deltas, np.int64)[self.which]
        self.size = self.layouts[0].size
        self.contiguous = all(layout.contiguous for layout in self.layouts)
        self.shared = len(group.rows) > 1 and bool(np.all(self.starts == self.starts[0])) and len(self.layouts) == 1

    def index(self, rows: slice) -> Array:
        """Positions of the elements of some vertices: int64 (vertices, size)."""
        relative = np.stack([layout.positions.reshape(-1) for layout in self.layouts])
        positions: Array = self.starts[rows][:, None] + relative[self.which[rows]]
        return positions


class _Binder:
    def __init__(self, group: Group, layouts: tuple[Any, ...], memory: Memory, returned: Array | None) -> None:
        self.group = group
        self.trace: Trace = group.trace
        self.memory = memory
        self.xp = memory.backend
        self.count = len(group.rows)
        self.returned = returned
        self.regions = {i: _Region(group, layouts, name, part) for i, (name, part) in self.trace.regions.items()}
        self.last, self.stores = _uses(self.trace)
        self.released: dict[int, list[int]] = defaultdict(list)
        for root, number in self.last.items():
            self.released[number].append(root)
        self.calls: list[Call] = []

    def bind(self) -> list[Call]:
        self.in_place, runs = self._runs()
        per_vertex = self._bytes_per_vertex()
        chunk = max(1, CHUNK_BYTES // per_vertex) if per_vertex else self.count
        self.pool: dict[Any, list[Array]] = defaultdict(list)
        for start, stop in runs:
            for begin in range(start, stop, chunk):
                self._chunk(slice(begin, min(begin + chunk, stop)), min(chunk, max(b - a for a, b in runs)))
        return self.calls

    # Where regions are used in place

    def _runs(self) -> tuple[set[int], list[tuple[int, int]]]:
        """Which regions to use in place, and the runs of vertices over which their distances are constant."""
        candidates = self._candidates()
        shared = {i for i in candidates if self.regions[i].shared}
        moving = [i for i in candidates if i not in shared]
        whole = [(0, self.count)]
        if not moving or self.count == 1:
            return set(candidates), whole
        steps = np.stack([np.diff(self.regions[i].starts) for i in moving])
        change = np.flatnonzero(np.any(steps[:, 1:] != steps[:, :-1], axis=0)) + 1
        if len(change) > 2 * self.count // LEAST_RUN:
            return shared, whole
        runs, start = [], 0
        for end in [*change.tolist(), self.count - 1]:
            if end >= start:
                runs.append((start, end + 1))
                start = end + 1
        backwards = any(np.any(np.diff(self.regions[i].starts[a:b]) < 0) for i in moving for a, b in runs)
        if backwards or len(runs) > max(1, self.count // LEAST_RUN):
            return shared, whole
        return set(candidates), runs

    def _candidates(self) -> list[int]:
        """Regions that lie side by side in memory and whose use in place cannot change a bit."""
        delicate = self._delicate()
        result: list[int] = []
        for i, region in self.regions.items():
            if not region.contiguous or region.size == 0:
                continue
            if i in delicate:
                order = np.sort(region.starts)
                overlap = self.count > 1 and not region.shared and bool(np.any(np.diff(order) < region.size))
                twin = any(j in delicate and np.any(self.regions[j].starts == region.starts) for j in result)
                if overlap or twin:
                    continue
            result.append(i)
        return result

    def _delicate(self) -> set[int]:
        """Roots that meet an operation whose order of summing depends on how its operands lie in memory."""
        found = set()
        for op in self.trace.ops:
            if op.kind in ("reduce", "product", "each"):
                found |= {self.trace.roots[a.id] for a in op.args if isinstance(a, Ref)}
        return found

    def _bytes_per_vertex(self) -> int:
        gathered = sum(r.size * r.field.dtype.size for i, r in self.regions.items() if i not in self.in_place)
        made = [self.trace.samples[op.result] for op in self.trace.ops if op.kind not in ("region", "view", "store")]
        return gathered + sum(np.asarray(sample).nbytes for sample in made if np.asarray(sample).nbytes > 0)

    # One chunk

    def _chunk(self, rows: slice, largest: int) -> None:
        """Append the calls for the vertices `rows`."""
        n = rows.stop - rows.start
        values: dict[int, Array] = {}
        buffers: dict[int, tuple[Any, Array]] = {}
        self._values, self._buffers, self._n, self._largest = values, buffers, n, largest
        scatter: list[tuple[_Region, Array]] = []
        done: set[int] = set()
        for number, op in enumerate(self.trace.ops):
            if op.kind == "region":
                values[op.result] = self._region(op.result, self.regions[op.result], rows, scatter)
            elif op.kind == "view":
                values[op.result] = self._view(op)
            elif op.kind == "read":
                values[op.result] = self._read(op, number)
            elif op.kind == "store":
                if number not in done:
                    self._store(op, values[op.args[0].id], rows)
            else:
                values[op.result] = self._result(number, op, done)
            self._release(number)
        if self.returned is not None:
            answer = self.trace.returned
            if isinstance(answer, Ref):
                self.calls.append((self.xp.copyto, (self.returned[rows], values[answer.id], "unsafe")))
            else:
                self.returned[rows] = answer
        for region, buffer in scatter:
            self.calls.append((_scatter, (self.memory.flat(region.field.dtype), region.index(rows), buffer)))
        for key, buffer in buffers.values():
            self.pool[key].append(buffer)

    def _result(self, number: int, op: Op, done: set[int]) -> Array:
        """Append the call of a computation and return where its result will be.

        What depends on shared regions alone is computed once, on a vertex axis of length 1, unless it is written to later.
        """
        lead = max((len(self._values[a.id]) for a in op.args if isinstance(a, Ref)), default=self._n)
        store = self._direct(number, op)
        if store is not None and lead == self._n:
            done.add(store)
            out = self._values[self.trace.ops[store].args[0].id]
        else:
            out = self._buffer(op.result, self._n if op.result in self.stores else lead)
        self._compute(op, out[:lead])
        if lead < len(out):
            self.calls.append((self.xp.copyto, (out, out[:1])))
        return out

    def _region(self, root: int, region: _Region, rows: slice, scatter: list[tuple[_Region, Array]]) -> Array:
        dtype, shape = region.field.dtype, self.trace.samples[root].shape
        flat, size = self.memory.flat(dtype), dtype.size
        inner = self.trace.samples[root].strides
        if root in self.in_place:
            starts = region.starts[rows]
            n = 1 if region.shared else len(starts)
            step = int(starts[1] - starts[0]) if n > 1 else region.size
            view: Array = self.xp.as_strided(flat[int(starts[0]) :], (n, *shape), (step * size, *inner))
            return view
        buffer = self._buffer(root, self._n)
        written = self.trace.written.get(root)
        if region.size and (written is None or not written.all()):
            self._gather(flat, region, rows, buffer)
        if region.field.written and region.size:
            scatter.append((region, buffer.reshape(len(buffer), -1)))
        return buffer

    def _gather(self, flat: Array, region: _Region, rows: slice, buffer: Array) -> None:
        flattened = buffer.reshape(len(buffer), -1)
        if region.contiguous and region.size >= WINDOW:
            size = region.field.dtype.size
            windows = self.xp.as_strided(flat, (len(flat) - region.size + 1, region.size), (size, size))
            self.calls.append((_gather_windows, (windows, region.starts[rows], flattened)))
        else:
            self.calls.append((self.xp.take, (flat, region.index(rows), None, flattened, "clip")))

    def _buffer(self, value: int, lead: int) -> Array:
        """A buffer for one value of every vertex, with the axes in the order in which the sample has them in memory."""
        sample = np.asarray(self.trace.samples[value])
        order = tuple(int(a) for a in np.argsort([-s for s in sample.strides], kind="stable"))
        key = (sample.dtype, tuple(sample.shape[a] for a in order))
        free = self.pool[key]
        whole = free.pop() if free else self.xp.empty((self._largest, *key[1]), sample.dtype)
        self._buffers[value] = (key, whole)
        inverse = np.argsort(order)
        view: Array = whole[:lead].transpose(0, *(1 + inverse))
        return view

    def _release(self, number: int) -> None:
        """Give back the buffers whose last use this was."""
        for root in self.released.get(number, ()):
            if root in self._buffers and root not in self.regions:
                key, buffer = self._buffers.pop(root)
                self.pool[key].append(buffer)

    def _view(self, op: Op) -> Array:
        """A view of a root, by the distance and strides that the sample's view has from the sample's root."""
        root = self.trace.roots[op.result]
        sample, base = self.trace.samples[op.result], self._values[root]
        if sample.size == 0:
            return self.xp.empty((len(base), *sample.shape), sample.dtype)  # type: ignore[no-any-return]
        start = self.trace.samples[root].__array_interface__["data"][0]
        distance = (sample.__array_interface__["data"][0] - start) // sample.itemsize
        strides = (base.strides[0], *sample.strides)
        # The root's elements as one row, from the view's first on. Only address arithmetic: the strides do the rest.
        anchor = self.xp.as_strided(base, (distance + 1,), (sample.itemsize,))[distance:]
        view: Array = self.xp.as_strided(anchor, (len(base), *sample.shape), strides)
        return view

    def _read(self, op: Op, number: int) -> Array:
        """One element: a view, or a copy if its place is written while the value is still needed."""
        source, key = op.args
        keys = key if isinstance(key, tuple) else (key,)
        place: Array
        everything: tuple[Any, ...] = (slice(None), *keys)
        place = self._values[source.id][everything]
        root = self.trace.roots[source.id]
        if any(number < n <= self.last[op.result] for n in self.stores.get(root, ())):
            buffer = self._buffer(op.result, len(place))
            self.calls.append((self.xp.copyto, (buffer, place)))
            return buffer
        return place

    def _direct(self, number: int, op: Op) -> int | None:
        """The number of a store that this result can be computed straight into: it is the result's only use, and whole."""
        if op.kind not in ("ufunc", "product", "reduce"):
            return None
        ops, store = self.trace.ops, number + 1
        while store < len(ops) and ops[store].kind == "view":
            store += 1
        if store == len(ops) or ops[store].kind != "store" or ops[store].args[1] != Ref(op.result):
            return None
        place = ops[store].args[0].id
        root = self.trace.roots[place]
        sample, target = np.asarray(self.trace.samples[op.result]), self.trace.samples[place]
        same = sample.shape == target.shape and sample.dtype == target.dtype and sample.strides == target.strides
        reads = any(self.trace.roots[a.id] == root for a in op.args if isinstance(a, Ref))
        viewed = any(self.trace.roots[view.result] == op.result for view in ops[number + 1 : store])
        if not same or reads or viewed or self.last[op.result] > store:
            return None
        for view in ops[number + 1 : store]:
            self._values[view.result] = self._view(view)
        into = self._values[place]
        mixed = any(self.xp.may_share_memory(self._values[a.id], into) for a in op.args if isinstance(a, Ref))
        if mixed and op.kind == "ufunc" and not steady(op.fn, sample.dtype):
            return None
        return store if len(into) == self._n else None

    def _store(self, op: Op, place: Array, rows: slice) -> None:
        value = op.args[1]
        source = self._operand(value, place.ndim - 1) if isinstance(value, Ref) else np.asarray(value)
        extra = source.ndim - place.ndim
        if isinstance(value, Ref) and extra > 0:  # leading axes of length 1, which numpy drops in an assignment
            source = source.reshape(len(source), *source.shape[1 + extra :])
        if "line" in op.kwargs:
            self.calls.append((_check_fits, (source, place.dtype, op.kwargs["line"], self.group.table, self.group.rows[rows])))
        if place.size:
            self.calls.append((self.xp.copyto, (place, source, "unsafe")))

    def _operand(self, value: Any, rank: int) -> Any:
        """An argument with its axes lined up: the vertex axis first, the value's own axes last."""
        if not isinstance(value, Ref):
            return value
        array = self._values[value.id]
        missing = rank - (array.ndim - 1)
        return array.reshape(len(array), *(1,) * missing, *array.shape[1:]) if missing > 0 else array

    def _compute(self, op: Op, out: Array) -> None:
        rank = out.ndim - 1
        if op.kind == "local":
            self.calls.append((self.xp.copyto, (out, op.args[0])))
        elif op.kind == "ufunc":
            self._ufunc(op, out, rank)
        elif op.kind == "elementwise":
            self._elementwise(op, out, rank)
        elif op.kind == "reduce":
            self._reduce(op, out)
        elif op.kind == "product":
            self._product(op, out)
        else:
            self._each(op, out)

    def _ufunc(self, op: Op, out: Array, rank: int) -> None:
        if not steady(op.fn, out.dtype) and self._alone_or_backwards(op):
            self._each(op, out)
            return
        args = tuple(self._operand(a, rank) for a in op.args)
        if op.kwargs or op.fn in (np.maximum, np.minimum):  # which take `out` by name only
            self.calls.append((partial(op.fn, out=out, **op.kwargs), args))
        else:
            self.calls.append((op.fn, (*args, out)))

    def _alone_or_backwards(self, op: Op) -> bool:
        """True if one vertex's operands make numpy choose another path than those of many vertices would."""
        result = np.asarray(self.trace.samples[op.result])
        power = op.fn in (np.power, operator.pow)
        if result.size == 1 and (power or result.dtype == np.float16):
            return True
        # numpy squares, inverts or takes the root where the one exponent is a 2, a -1 or a half.
        if power and isinstance(op.args[1], Ref) and np.ndim(self.trace.samples[op.args[1].id]) == 0:
            return True
        samples = [self.trace.samples[a.id] for a in op.args if isinstance(a, Ref)]
        return any(stride < 0 for sample in samples for stride in sample.strides)

    def _elementwise(self, op: Op, out: Array, rank: int) -> None:
        args = [self._operand(a, rank) for a in op.args]
        if op.fn is np.where:
            condition = args[0] if isinstance(op.args[0], Ref) else np.asarray(args[0], bool)
            if getattr(condition, "dtype", None) != np.bool_:
                self._each(op, out)
                return
            self.calls.append((self.xp.copyto, (out, args[2], "unsafe")))
            self.calls.append((self.xp.copyto, (out, args[1], "unsafe", condition)))
        elif op.fn in ELEMENTWISE:
            self.calls.append((self.xp.clip, (*args, out)))
        elif op.fn is operator.pow and self._alone_or_backwards(op):
            self._each(op, out)
        elif op.fn is operator.pow:
            self.calls.append((_apply, (op.fn, args, out)))
        else:
            self.calls.append((self.xp.copyto, (out, args[0], "unsafe")))

    def _reduce(self, op: Op, out: Array) -> None:
        (value,) = op.args
        array, sample = self._values[value.id], self.trace.samples[value.id]
        axis, keepdims = op.kwargs["axis"], op.kwargs["keepdims"]
        axes = tuple(range(sample.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        if len({a % sample.ndim for a in axes}) == sample.ndim:
            dense = sample.flags.c_contiguous or sample.flags.f_contiguous
            if not dense or sample.size == 0:
                self._each(op, out)
                return
            # All of the vertex's elements, in the order in which they lie in memory, as numpy sums them.
            row = self.xp.as_strided(array, (len(array), sample.size), (array.strides[0], sample.itemsize))
            self.calls.append((op.fn.reduce, (row, 1, None, out.reshape(len(out)))))
            return
        shifted = tuple(a % sample.ndim + 1 for a in axes)
        self.calls.append((op.fn.reduce, (array, shifted if len(shifted) > 1 else shifted[0], None, out, keepdims)))

    def _product(self, op: Op, out: Array) -> None:
        ranks = tuple(np.ndim(self.trace.samples[a.id]) if isinstance(a, Ref) else np.ndim(a) for a in op.args)
        if op.fn is not np.matmul or op.kwargs or not set(ranks) <= {1, 2}:
            self._each(op, out)
            return
        a, b = (self._operand(value, 0) for value in op.args)
        if ranks == (1, 1):
            self.calls.append((self.xp.vecdot, (a, b, out)))
        elif ranks == (2, 1):
            self.calls.append((self.xp.matmul, (a, b[..., None], out[..., None])))
        elif ranks == (1, 2):
            self.calls.append((self.xp.matmul, (a[..., None, :], b, out[..., None, :])))
        else:
            self.calls.append((self.xp.matmul, (a, b, out)))

    def _each(self, op: Op, out: Array) -> None:
        """Call the function vertex by vertex, on views that lie as the sample did: exact by construction."""
        fn = partial(op.fn.reduce, **op.kwargs) if op.kind == "reduce" else partial(op.fn, **op.kwargs)
        args: list[tuple[Any, Any]] = []
        for a in op.args:
            if isinstance(a, Ref):
                # An array of no dimensions stays one: numpy has other paths for numbers.
                index = (...,) if isinstance(self.trace.samples[a.id], np.ndarray) else ()
                args.append((index, self._values[a.id]))
            else:
                args.append((None, a))
        self.calls.append((_call_each, (fn, args, out)))


def _uses(trace: Trace) -> tuple[dict[int, int], dict[int, list[int]]]:
    """(for each root the op number of its last use, for each root the op numbers that store into it)."""
    last: dict[int, int] = {}
    stores: dict[int, list[int]] = defaultdict(list)
    for number, op in enumerate(trace.ops):
        touched = [op.result] if op.result >= 0 else []
        for value in touched + [a.id for a in op.args if isinstance(a, Ref)]:
            last[trace.roots[value]] = number
        if op.kind == "store":
            stores[trace.roots[op.args[0].id]].append(number)
    if isinstance(trace.returned, Ref):
        last[trace.roots[trace.returned.id]] = len(trace.ops)
    # A read may stay a view of its source, which then must live as long as the read does.
    for op in reversed(trace.ops):
        if op.kind == "read":
            source = trace.roots[op.args[0].id]
            last[source] = max(last[source], last[op.result])
    return last, stores


def _check_fits(numbers: Array, dtype: Any, line: str, table: FrozenTable, rows: Array) -> None:
    """Raise what the plain vertex loop raises where a number is stored in an integer that cannot hold it."""
    bounds = np.iinfo(dtype)
    low, high = int(bounds.min), int(bounds.max)
    if numbers.dtype.kind == "f":
        whole = np.trunc(numbers.astype(np.float64))
        fits = (whole >= float(low)) & (whole < float(high + 1))
    else:
        fits = (numbers >= low) & (numbers <= high)
    if not fits.all():
        first = int(np.argmin(fits.reshape(-1)))
        error = OverflowError(f"{numbers.reshape(-1)[first]} does not fit into {dtype}")
        raise failed(table.codelet, error, line, vertex_name(table, int(rows[first])))


def _scatter(flat: Array, index: Array, buffer: Array) -> None:
    flat[index] = buffer


def _gather_windows(windows: Array, starts: Array, buffer: Array) -> None:
    buffer[...] = windows[starts]


def _apply(fn: Callable[..., Any], args: list[Any], out: Array) -> None:
    out[...] = fn(*args)


def _call_each(fn: Callable[..., Any], args: list[tuple[Any, Any]], out: Array) -> None:
    for v in range(len(out)):
        out[v] = fn(*(a if index is None else a[(v % len(a),) + index] for index, a in args))
