"""From a trace to a list of prebound array calls: one kernel for all vertices of a group.

Binding happens once, when the engine is loaded. Every view and every buffer is made then; a step is
`for f, args in calls: f(*args)` and allocates nothing but what a gather of long regions needs.

A region is used in place where its vertices form a nest (`views`) and where that cannot change a bit, else copied into a
buffer and back. The bits are those of the plain vertex loop: per vertex, every operand has the memory order that the
trace's sample had, and no sum is reordered. With `exact=False` products of matrices may be joined (`fold`).

Values have the axes of the nest first, then those that the vertex's own value has. An axis along which all vertices share
the value has length 1.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.trace import ELEMENTWISE, Op, Ref, Trace, is_ref, item_of, steady
from ipu_teach.engine.chance import Chance, first_words
from ipu_teach.engine.kernels import Call, apply, call_each, call_rows, check_fits, gather_windows, scatter, store_unsigned
from ipu_teach.engine.memory import Memory
from ipu_teach.engine.products import Products
from ipu_teach.engine.uses import alone_or_backwards, by_rows, delicate_roots, last_uses, live_bytes, only_numbers, soft_roots
from ipu_teach.engine.views import Nest, Region, find_nests, running_order, single_row
from ipu_teach.types import Array

CHUNK_BYTES = 768 * 1024  # temporaries of one chunk: stay inside a core's second-level cache
WINDOW = 16  # from this many elements on, a contiguous region is gathered as one window
LANES = 4096  # vertices that a chunk of single numbers has at least: below, a call costs more than its work
PACK_BYTES = 64 * 1024 * 1024  # operands that vertices share are laid out once a step, up to this size


def bind(
    group: Group,
    layouts: tuple[Any, ...],
    memory: Memory,
    returned: Array | None = None,
    *,
    exact: bool = True,
    chance: Chance | None = None,
) -> list[Call]:
    """The calls that run `compute()` for every vertex of `group`. `chance`: rounds what is stored in halves.

    `returned`: bool[vertices], receives what each `compute()` returned; nothing counts as true.
    """
    if not group.workers:
        return _Binder(group, layouts, memory, returned, exact, chance).bind()
    answers = memory.backend.zeros((len(group.workers), len(group.rows)), bool)
    calls = []
    for number, (worker, trace) in enumerate(group.workers):
        wanted = None if returned is None else answers[number]
        calls += _Binder(replace(group, trace=trace), layouts, memory, wanted, exact, chance, worker).bind()
    if returned is not None:
        calls.append(memory.backend.reduction(np.logical_and, answers, 0, returned))
    return calls


class _Binder:
    def __init__(
        self,
        group: Group,
        layouts: tuple[Any, ...],
        memory: Memory,
        returned: Array | None,
        exact: bool,
        chance: Chance | None,
        worker: int = 0,
    ) -> None:
        self.group, self.memory, self.xp, self.exact = group, memory, memory.backend, exact
        self.trace: Trace = group.trace
        self.rows, self.count = group.rows, len(group.rows)
        self.chance, self.worker, self.words = chance, worker, first_words(self.trace) if chance is not None else {}
        self.running: Array | None = None  # the order in which the vertices run, if it is not their own
        self.returned = returned
        self.regions = {i: Region(group, layouts, name, part) for i, (name, part) in self.trace.regions.items()}
        self.last, self.stores = last_uses(self.trace)
        self.released: dict[int, list[int]] = defaultdict(list)
        for root, number in self.last.items():
            self.released[number].append(root)
        self.lanes_last = only_numbers(self.trace)
        self.calls: list[Call] = []
        self.products = Products(self.xp, exact)
        self.pool: dict[Any, list[Array]] = defaultdict(list)

    def bind(self) -> list[Call]:
        order = running_order(list(self.regions.values()))
        if order is not None:
            self.rows, self.running = self.rows[order], order
            for region in self.regions.values():
                region.put_in_order(order)
        self._nest()
        self._choose()
        per_vertex = self._bytes_per_vertex()
        chunk = max(1, (self.xp.chunk_bytes or CHUNK_BYTES) // per_vertex) if per_vertex else self.count
        chunk = max(chunk, LANES) if self.lanes_last else chunk
        pieces = [(nest, list(nest.pieces(chunk))) for nest in self.nests]
        self.largest = max(piece.count for _, parts in pieces for piece in parts)
        for nest, parts in pieces:
            self._pack(nest)
            for piece in parts:
                self._chunk(nest, piece)
        return self.calls

    # Where regions are used in place

    def _nest(self) -> None:
        """Find the nests, and which regions take part in them: `column` gives each one's number in a nest."""
        able = [i for i, r in self.regions.items() if r.size and (r.contiguous or self._strided(i))]
        able.sort(key=lambda i: -self.regions[i].size * self.regions[i].field.dtype.size)
        chosen: list[int] = []
        nests = find_nests(np.stack([self.regions[i].starts for i in able])) if able else None
        if nests is not None:
            chosen = able
        for i in able if nests is None else ():
            found = find_nests(np.stack([self.regions[j].starts for j in [*chosen, i]]))
            if found is not None:
                chosen, nests = [*chosen, i], found
        self.nests = nests if nests is not None else [single_row(self.count)]
        self.column = {i: number for number, i in enumerate(chosen)}

    def _strided(self, root: int) -> bool:
        region = self.regions[root]
        return region.strides is not None and len(region.strides) == np.ndim(self.trace.samples[root])

    def _choose(self) -> None:
        """Which of the nested regions are used in place: those whose use cannot change a bit."""
        delicate, soft = delicate_roots(self.trace, self.exact), soft_roots(self.trace, self.exact)
        self.here: list[int] = []
        for i, number in self.column.items():
            region = self.regions[i]
            steps = np.concatenate([nest.steps[number][np.array(nest.shape) > 1] for nest in self.nests])
            mirrored = region.field.written and bool(np.any(steps == 0))
            scattered = self.lanes_last and np.any(steps != 0)
            if mirrored or scattered or np.any(steps < 0) or not (region.contiguous or i in soft):
                continue
            if i in delicate:
                twin = any(j in delicate and np.any(self.regions[j].starts == region.starts) for j in self.here)
                if twin or not region.apart:
                    continue
            self.here.append(i)
        self.strided = {i for i in self.here if not self.regions[i].contiguous}
        # If nothing depends on how elements lie, results lie as the strided region does that has most axes: numpy then
        # goes through all of them row by row, across the vertices' boundaries.
        able = self.strided and not self.lanes_last and soft >= set(self.trace.roots)
        self.model = max(self.strided, key=lambda i: np.ndim(self.trace.samples[i])) if able else None

    def _packs(self, root: int, nest: Nest) -> bool:
        """True for a region that vertices of a nest share and that cannot be used in place: it is laid out ahead of them."""
        region = self.regions[root]
        if root in self.here or root not in self.column or region.field.kind != "input" or self.lanes_last:
            return False
        moving = nest.steps[self.column[root]] != 0
        count = int(np.prod(np.array(nest.shape)[moving], dtype=np.int64))
        return count < nest.count and count * region.size * region.field.dtype.size <= PACK_BYTES

    def _bytes_per_vertex(self) -> int:
        own = [i for i in self.regions if i not in self.here and not all(self._packs(i, nest) for nest in self.nests)]
        copied = sum(self.regions[i].size * self.regions[i].field.dtype.size for i in own)
        made = [op for op in self.trace.ops if op.kind not in ("region", "view", "read", "store")]
        stored = [self.trace.roots[op.args[0].id] for op in self.trace.ops if op.kind == "store"]
        # What is rounded by chance passes through words of 64 bits, half as many as numbers, and some of 32.
        drawn = 16 * sum(self.trace.samples[self.trace.ops[number].args[0].id].size for number in self.words)
        direct = len(made) == len(stored) == 1 and (stored[0] not in self.strided or not self.exact)
        if direct and not copied and not drawn:
            return 0  # the one result goes straight to its place
        # What is gone through element by element counts too; a product cuts its operands for itself.
        through = self.here if self.model is not None else []
        touched = sum(self.regions[i].size * self.regions[i].field.dtype.size for i in through)
        return copied + live_bytes(self.trace, self.last) + touched + drawn if copied or made or drawn else 0

    # One chunk

    def _pack(self, nest: Nest) -> None:
        """Append the calls that lay out, once a step, what the vertices of a nest share."""
        self.packed: dict[int, Array] = {}
        for root in self.regions:
            if self._packs(root, nest):
                place = self._place(root, nest)
                self.packed[root] = self.xp.empty(place.shape, place.dtype)
                self.calls.append((self.xp.copyto, (self.packed[root], place)))

    def _chunk(self, nest: Nest, piece: Nest) -> None:
        """Append the calls for the vertices of `piece`, a part of `nest`."""
        values: dict[int, Array] = {}
        self._values, self._lead, self._axes = values, piece.shape, len(piece.shape)
        self._buffers: dict[int, tuple[Any, Array]] = {}
        self._spread: dict[int, int] = {}
        self._rows = slice(piece.first, piece.first + piece.count)
        self._order: list[int] = []
        self._ordered: set[int] = set()
        if self.model is not None:
            self._order = [int(a) for a in np.argsort([-abs(s) for s in self._place(self.model, piece).strides], kind="stable")]
        self._back: list[tuple[int, Array]] = []
        done: set[int] = set()
        for number, op in enumerate(self.trace.ops):
            if op.kind == "region":
                values[op.result] = self._region(op.result, nest, piece)
            elif op.kind == "view":
                values[op.result] = self._view(op)
            elif op.kind == "read":
                values[op.result] = self._read(op, number)
            elif op.kind == "store":
                if number not in done:
                    self._store(number, op, values[op.args[0].id])
            else:
                values[op.result] = self._result(number, op, done)
            self._release(number)
        self._finish(piece)
        for key, buffer in self._buffers.values():
            self.pool[key].append(buffer)

    def _finish(self, piece: Nest) -> None:
        """Append what brings written regions back to their places, and what is said of each vertex."""
        if self.returned is not None:
            answer, place = self.trace.returned, self.returned[self._rows].reshape(self._lead)
            if isinstance(answer, Ref):
                value = self._values[answer.id]
                value = value.reshape(value.shape[: self._axes])
                self.calls.append((self.xp.copyto, (place, value, "unsafe")))
            else:
                place[...] = answer
        for root, buffer in self._back:
            region = self.regions[root]
            if root in self.column:
                self.calls.append((self.xp.copyto, (self._place(root, piece), buffer)))
            else:
                flat, index = self.memory.flat(region.field.dtype), self.xp.array(region.index(self._rows))
                self.calls.append((scatter, (flat, index, buffer)))

    def _result(self, number: int, op: Op, done: set[int]) -> Array:
        """Append the call of a computation and return where its result will be.

        What depends on shared regions alone is computed once, on axes of length 1, unless it is written to later.
        """
        leads = [self._values[a.id].shape[: self._axes] for a in op.args if isinstance(a, Ref)]
        lead = np.broadcast_shapes(*leads) if leads else self._lead
        store = self._direct(number, op)
        if store is None and lead == self._lead:
            self._hand_over(number, op)
        if store is not None and lead == self._lead:
            done.add(store)
            out = self._values[self.trace.ops[store].args[0].id]
        else:
            out = self._buffer(op.result, self._lead if op.result in self.stores else lead)
        first = out[tuple(slice(n) for n in lead)]
        self._compute(op, first)
        if first.shape != out.shape:
            self.calls.append((self.xp.copyto, (out, first)))
        return out

    def _place(self, root: int, nest: Nest) -> Array:
        """A region of every vertex of a nest, as it lies in memory."""
        region, number = self.regions[root], self.column[root]
        sample, size = self.trace.samples[root], region.field.dtype.size
        inner = sample.strides if region.contiguous else tuple(s * size for s in region.strides or ())
        steps = nest.steps[number].tolist()
        lead = tuple(1 if step == 0 else n for n, step in zip(nest.shape, steps, strict=True))
        flat = self.memory.flat(region.field.dtype)[int(nest.base[number]) :]
        view: Array = self.xp.as_strided(flat, (*lead, *sample.shape), (*(s * size for s in steps), *inner))
        return view

    def _region(self, root: int, nest: Nest, piece: Nest) -> Array:
        region = self.regions[root]
        if root in self.here:
            return self._place(root, piece)
        if root in self.packed:
            packed = self.packed[root]
            at = np.unravel_index(piece.first - nest.first, nest.shape)
            key = tuple(slice(None) if n == 1 else slice(int(i), int(i) + m)
                        for n, i, m in zip(packed.shape, at, piece.shape, strict=False))  # fmt: skip
            return packed[key]
        lead = self._lead
        if root in self.column and not region.field.written:
            lead = self._place(root, piece).shape[: self._axes]
        buffer = self._buffer(root, lead)
        written = self.trace.written.get(root)
        if region.size and (written is None or not written.all()):
            self._gather(root, region, piece, buffer)
        if region.field.written and region.size:
            self._back.append((root, buffer))
        return buffer

    def _gather(self, root: int, region: Region, piece: Nest, buffer: Array) -> None:
        """Append the call that copies a region of every vertex into a buffer."""
        flat = self.memory.flat(region.field.dtype)
        if root in self.column:
            self.calls.append((self.xp.copyto, (buffer, self._place(root, piece))))
        elif self.lanes_last:
            index = self.xp.array(np.ascontiguousarray(region.index(self._rows).T))
            self.calls.append(
                (self.xp.take, (flat, index, None, self._buffers[root][1][: index.size].reshape(index.shape), "clip"))
            )
        elif region.contiguous and region.size >= WINDOW and self.xp.on_host:
            size = region.field.dtype.size
            windows = self.xp.as_strided(flat, (len(flat) - region.size + 1, region.size), (size, size))
            flattened = self._flattened(buffer, region.size)
            self.calls.append((gather_windows, (windows, region.starts[self._rows], flattened)))
            self._unflatten(buffer, flattened)
        else:
            index = self.xp.array(region.index(self._rows))
            flattened = self._flattened(buffer, region.size)
            self.calls.append((self.xp.take, (flat, index, None, flattened, "clip")))
            self._unflatten(buffer, flattened)

    def _flattened(self, buffer: Array, size: int) -> Array:
        """A buffer as a row for each vertex: itself, or a place beside it where its axes lie in another order."""
        flattened: Array = buffer.reshape(-1, size)
        return flattened if self.xp.may_share_memory(flattened, buffer) else self.xp.empty(flattened.shape, buffer.dtype)

    def _unflatten(self, buffer: Array, flattened: Array) -> None:
        if not self.xp.may_share_memory(flattened, buffer):
            self.calls.append((self.xp.copyto, (buffer, flattened.reshape(buffer.shape))))

    def _buffer(self, value: int, lead: tuple[int, ...]) -> Array:
        """A buffer for one value of every vertex, with the axes in the order in which the sample has them in memory."""
        sample = np.asarray(self.trace.samples[value])
        order = tuple(int(a) for a in np.argsort([-s for s in sample.strides], kind="stable"))
        ordered = tuple(sample.shape[a] for a in order)
        key = (sample.dtype, sample.size)
        free = self.pool[key]
        whole = free.pop() if free else self.xp.empty(self.largest * sample.size, sample.dtype)
        self._buffers[value] = (key, whole)
        count = int(np.prod(lead, dtype=np.int64))
        used, inverse = whole[: count * sample.size], [int(a) for a in np.argsort(order)]
        axes = len(lead)
        if len(self._order) == axes + sample.ndim:
            self._ordered.add(value)
            shape = (*lead, *sample.shape)
            buffer: Array = used.reshape([shape[a] for a in self._order])
            turned = [int(a) for a in np.argsort(self._order)]
        elif self.lanes_last:  # one element of all vertices side by side
            self._spread[value] = count
            buffer, turned = used.reshape(*ordered, *lead), [*range(sample.ndim, sample.ndim + axes), *inverse]
        else:
            buffer, turned = used.reshape(*lead, *ordered), [*range(axes), *(axes + i for i in inverse)]
        view: Array = buffer.transpose(turned)
        return view

    def _hand_over(self, number: int, op: Op) -> None:
        """Give back the buffer of an operand that dies here: element by element, the result may take its place."""
        sample = np.asarray(self.trace.samples[op.result])
        if op.kind != "ufunc" or not steady(op.fn, sample.dtype):
            return
        for root in {a.id for a in op.args if isinstance(a, Ref)} & self._buffers.keys() - self.regions.keys():
            own = np.asarray(self.trace.samples[root])
            alike = own.shape == sample.shape and own.strides == sample.strides and own.dtype == sample.dtype
            if alike and self.last[root] == number and self._values[root].shape[: self._axes] == self._lead:
                key, buffer = self._buffers.pop(root)
                self.pool[key].append(buffer)
                return

    def _release(self, number: int) -> None:
        """Give back the buffers whose last use this was."""
        for root in self.released.get(number, ()):
            if root in self._buffers and root not in self.regions:
                key, buffer = self._buffers.pop(root)
                self.pool[key].append(buffer)

    def _view(self, op: Op) -> Array:
        """A view of a root, by the distance and strides that the sample's view has from the sample's root."""
        root, axes = self.trace.roots[op.result], self._axes
        sample, base = self.trace.samples[op.result], self._values[root]
        lead, steps = base.shape[:axes], base.strides[:axes]
        if sample.size == 0:
            return self.xp.empty((*lead, *sample.shape), sample.dtype)  # type: ignore[no-any-return]
        if root in self.strided or root in self._ordered:
            source: Array = self._values[op.args[0].id]
            if op.fn is item_of:
                key = op.args[1]
                return self._within(source, key)
            turned: Array = source.transpose(*range(axes), *range(source.ndim - 1, axes - 1, -1))
            return turned
        start = self.trace.samples[root].__array_interface__["data"][0]
        spread = self._spread.get(root, 1)
        distance = (sample.__array_interface__["data"][0] - start) // sample.itemsize * spread
        strides = (*steps, *(s * spread for s in sample.strides))
        # The root's elements as one row, from the view's first on. Only address arithmetic: the strides do the rest.
        anchor = self.xp.as_strided(base, (distance + 1,), (sample.itemsize,))[distance:]
        view: Array = self.xp.as_strided(anchor, (*lead, *sample.shape), strides)
        return view

    def _within(self, values: Array, key: Any) -> Array:
        """values[key] of every vertex."""
        inside: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)
        result: Array = values[(slice(None),) * self._axes + inside]
        return result

    def _read(self, op: Op, number: int) -> Array:
        """One element: a view, or a copy if its place is written while the value is still needed."""
        source, key = op.args
        place = self._within(self._values[source.id], key)
        root = self.trace.roots[source.id]
        if any(number < n <= self.last[op.result] for n in self.stores.get(root, ())):
            buffer = self._buffer(op.result, place.shape)
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
        if store == len(ops) or ops[store].kind != "store" or not is_ref(ops[store].args[1], op.result):
            return None
        place = ops[store].args[0].id
        root = self.trace.roots[place]
        sample, target = np.asarray(self.trace.samples[op.result]), self.trace.samples[place]
        same = sample.shape == target.shape and sample.dtype == target.dtype and sample.strides == target.strides
        soft = not self.exact or op.kind == "ufunc" and steady(op.fn, sample.dtype)
        reads = any(self.trace.roots[a.id] == root for a in op.args if isinstance(a, Ref))
        viewed = any(self.trace.roots[view.result] == op.result for view in ops[number + 1 : store])
        if not same or reads or viewed or self.last[op.result] > store or (root in self.strided and not soft):
            return None
        for view in ops[number + 1 : store]:
            self._values[view.result] = self._view(view)
        into = self._values[place]
        mixed = any(self.xp.may_share_memory(self._values[a.id], into) for a in op.args if isinstance(a, Ref))
        if mixed and op.kind == "ufunc" and not steady(op.fn, sample.dtype):
            return None
        return store if into.shape[: self._axes] == self._lead else None

    def _store(self, number: int, op: Op, place: Array) -> None:
        value = op.args[1]
        source = self._operand(value, place.ndim - self._axes) if isinstance(value, Ref) else self.xp.array(np.asarray(value))
        extra = source.ndim - place.ndim
        if isinstance(value, Ref) and extra > 0:  # leading axes of length 1, which numpy drops in an assignment
            source = source.reshape(*source.shape[: self._axes], *source.shape[self._axes + extra :])
        if "line" in op.kwargs:
            rows = self.rows[self._rows]
            numbers = np.broadcast_to(source, (*self._lead, *source.shape[self._axes :]))
            self.calls.append((check_fits, (numbers, place.dtype, op.kwargs["line"], self.group.table, rows)))
        if place.size and self.chance is not None and number in self.words:
            members = self._rows if self.running is None else self.running[self._rows]
            self.calls.append((self.chance.store, (place, source, members, self.worker, self.words[number])))
        elif place.size and self.xp.on_host and place.dtype.kind == "u" and source.dtype.kind == "f":
            self.calls.append((store_unsigned, (place, source)))
        elif place.size:
            self.calls.append((self.xp.copyto, (place, source, "unsafe")))

    def _operand(self, value: Any, rank: int) -> Any:
        """An argument with its axes lined up: the nest's axes first, the value's own axes last."""
        if not isinstance(value, Ref):
            return self.xp.operand(value)
        array, axes = self._values[value.id], self._axes
        missing = rank - (array.ndim - axes)
        return self._within(array, (None,) * missing) if missing > 0 else array

    # Computations

    def _compute(self, op: Op, out: Array) -> None:
        rank = out.ndim - self._axes
        if op.kind == "local":
            self.calls.append((self.xp.copyto, (out, self.xp.operand(op.args[0]))))
        elif op.kind == "ufunc":
            self._ufunc(op, out, rank)
        elif op.fn is operator.pow and not self.xp.on_host:
            self.calls.append(self.xp.ufunc(np.power, [self._operand(a, rank) for a in op.args], out, {}))
        elif op.kind == "elementwise":
            self._elementwise(op, out, rank)
        elif op.kind == "reduce":
            self._reduce(op, out)
        elif op.kind == "product":
            self._product(op, out)
        else:
            self._each(op, out)

    def _ufunc(self, op: Op, out: Array, rank: int) -> None:
        if self.xp.on_host and not steady(op.fn, out.dtype) and alone_or_backwards(self.trace, op):
            self._each(op, out)
        else:
            self.calls.append(self.xp.ufunc(op.fn, [self._operand(a, rank) for a in op.args], out, op.kwargs))

    def _elementwise(self, op: Op, out: Array, rank: int) -> None:
        args = [self._operand(a, rank) for a in op.args]
        if op.fn is np.where:
            condition = args[0] if isinstance(op.args[0], Ref) else self.xp.array(np.asarray(op.args[0], bool))
            if getattr(condition, "dtype", None) != np.bool_:
                self._each(op, out)
                return
            # np.where casts a plain number that does not fit, where an assignment would refuse it.
            one, other = (self.xp.array(np.asarray(a).astype(out.dtype)) if type(a) is int else a for a in args[1:])
            self.calls.append((self.xp.copyto, (out, other, "unsafe")))
            self.calls.append((self.xp.copyto, (out, one, "unsafe", condition)))
        elif op.fn in ELEMENTWISE:
            self.calls.append((self.xp.clip, (self.xp.array(args[0]), *args[1:], out)))
        elif op.fn is operator.pow and alone_or_backwards(self.trace, op):
            self._each(op, out)
        elif op.fn is operator.pow:
            self.calls.append((apply, (op.fn, args, out)))
        else:
            self.calls.append((self.xp.copyto, (out, args[0], "unsafe")))

    def _reduce(self, op: Op, out: Array) -> None:
        (value,) = op.args
        array, sample, axes = self._values[value.id], self.trace.samples[value.id], self._axes
        axis, keepdims = op.kwargs["axis"], op.kwargs["keepdims"]
        reduced = tuple(range(sample.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        if self.xp.on_host and len({a % sample.ndim for a in reduced}) == sample.ndim:
            dense = sample.flags.c_contiguous or sample.flags.f_contiguous
            if not dense or sample.size == 0:
                self._each(op, out)
                return
            # All of the vertex's elements, in the order in which they lie in memory, as numpy sums them.
            lead = array.shape[:axes]
            row = self.xp.as_strided(array, (*lead, sample.size), (*array.strides[:axes], sample.itemsize))
            self.calls.append(self.xp.reduction(op.fn, row, axes, out.reshape(lead)))
            return
        shifted = tuple(a % sample.ndim + axes for a in reduced)
        self.calls.append(self.xp.reduction(op.fn, array, shifted if len(shifted) > 1 else shifted[0], out, keepdims))

    def _product(self, op: Op, out: Array) -> None:
        ranks = tuple(np.ndim(self.trace.samples[a.id]) if isinstance(a, Ref) else np.ndim(a) for a in op.args)
        if op.fn is not np.matmul or op.kwargs or not set(ranks) <= {1, 2}:
            self._each(op, out)
            return
        a, b = (self._operand(value, 0) for value in op.args)
        self.calls += self.products.calls(a, b, out, ranks, joins=all(isinstance(value, Ref) for value in op.args))

    def _each(self, op: Op, out: Array) -> None:
        """Call the function vertex by vertex, on views that lie as the sample did: exact by construction."""
        if by_rows(self.trace, op):
            kept = {name: value for name, value in op.kwargs.items() if name != "axis"}
            self.calls.append((call_rows, (partial(op.fn, **kept), self._values[op.args[0].id], out)))
            return
        fn = partial(op.fn.reduce, **op.kwargs) if op.kind == "reduce" else partial(op.fn, **op.kwargs)
        lead = out.shape[: self._axes]
        args: list[tuple[Any, Any]] = []
        for a in op.args:
            if isinstance(a, Ref):
                # An array of no dimensions stays one: numpy has other paths for numbers.
                index = (...,) if isinstance(self.trace.samples[a.id], np.ndarray) else ()
                value = self._values[a.id]
                args.append((index, np.broadcast_to(value, (*lead, *value.shape[self._axes :]))))
            else:
                args.append((None, a))
        self.calls.append((call_each, (fn, args, out, self._axes)))
