"""A chunk of vertices: a view or a buffer for every value of the trace, and the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu_teach.compile.checks import vertex_name as name_of_vertex
from ipu_teach.compile.trace import Op, Ref, is_ref, item_of, layout_independent
from ipu_teach.engine.batch.buffers import by_stride
from ipu_teach.engine.batch.kernels import check_fits, gather_windows, scatter, store_unsigned
from ipu_teach.engine.batch.operations import Operations
from ipu_teach.engine.batch.wide_items import LEAST_PUT, wide_items
from ipu_teach.engine.views import Nest, Region
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.engine.batch.batch_plan import BatchPlan

WINDOW = 16  # contiguous regions of at least this many elements are gathered as one window


class Chunk(Operations):
    """The vertices of `piece`, a part of `nest`.

    `packed` contains the regions that were copied once for all of `nest`.
    """

    def __init__(self, plan: BatchPlan, nest: Nest, piece: Nest, packed: dict[int, Array]) -> None:
        super().__init__(
            plan.xp, plan.trace, products=plan.products, calls=plan.calls, axes=len(piece.shape)
        )
        self.plan = plan
        self.nest = nest
        self.piece = piece
        self.packed = packed
        self.placement = plan.placement
        self.buffers = plan.buffers
        self.lead = piece.shape
        self.rows = slice(piece.first, piece.first + piece.count)
        # the memory order of the axes, if results have the layout of a region
        self.order: list[int] = []
        if self.placement.model is not None:
            self.order = by_stride(
                map(abs, self.placement.place(self.placement.model, piece).strides)
            )
        self.back: list[tuple[int, Array]] = []

    def vertex_name(self, number: int) -> str:
        return name_of_vertex(self.plan.table, int(self.plan.rows[self.rows][number]))

    def bind(self) -> None:
        """Append the calls for these vertices."""
        done: set[int] = set()  # the numbers of stores that the operation before them has done
        for number, op in enumerate(self.trace.ops):
            if op.kind == "region":
                self.values[op.result] = self._region(op.result)
            elif op.kind == "view":
                self.values[op.result] = self._view(op)
            elif op.kind == "read":
                self.values[op.result] = self._read(op, number)
            elif op.kind == "store":
                if number not in done:
                    self._store(number, op, self.values[op.args[0].id])
            else:
                self.values[op.result] = self._result(number, op, done)
            self.buffers.release(number)
        self._finish()
        self.buffers.release_all()

    def _finish(self) -> None:
        """Append the calls that write back regions, and the vertices' return values."""
        if self.plan.returned is not None:
            answer: Any = self.trace.returned
            if isinstance(answer, Ref):
                value = self.values[answer.id]
                answer = value.reshape(value.shape[: self.axes])
            self.calls.append(
                (
                    self.xp.copyto,
                    (self.plan.returned[self.rows].reshape(self.lead), answer, "unsafe"),
                )
            )
        for root, buffer in self.back:
            region = self.placement.regions[root]
            if root in self.placement.column:
                self.calls.append(
                    (self.xp.copyto, (self.placement.place(root, self.piece), buffer))
                )
            else:
                flat = self.plan.memory.flat(region.field.dtype)
                index = region.index(self.rows)
                wide = wide_items(flat, index, buffer, LEAST_PUT) if self.xp.on_host else None
                if wide is not None:
                    self.calls.append((np.put, (*wide, "clip")))
                else:
                    self.calls.append((scatter, (flat, self.xp.array(index), buffer)))

    def _result(self, number: int, op: Op, done: set[int]) -> Array:
        """Append the call of a computation, and return the place of its result.

        A value that depends only on shared regions is computed once, on axes of length 1, unless it
        is written to later.
        """
        leads = [self.values[a.id].shape[: self.axes] for a in op.args if isinstance(a, Ref)]
        lead = np.broadcast_shapes(*leads) if leads else self.lead
        store = self._direct(number, op)
        if store is None and lead == self.lead:
            self.buffers.hand_over(number, op, self.values, lead=lead, down=self.placement.down)
        if store is not None and lead == self.lead:
            done.add(store)
            out = self.values[self.trace.ops[store].args[0].id]
        else:
            out = self.buffers.take(
                op.result,
                self.lead if op.result in self.plan.stores else lead,
                self._order_of(op.result),
            )
        first = out[tuple(slice(n) for n in lead)]
        self.compute(op, first)
        if first.shape != out.shape:
            self.calls.append((self.xp.copyto, (out, first)))
        return out

    def _order_of(self, value: int) -> list[int]:
        """Return the order of all axes in memory of a buffer; see `Buffers.take`."""
        return self.order or self.placement.order(value, self.axes)

    # Regions, and views of values

    def _region(self, root: int) -> Array:
        """Return a region of these vertices: in place, from the packed regions, or in a buffer."""
        region = self.placement.regions[root]
        if root in self.placement.in_place:
            return self.placement.place(root, self.piece)
        if root in self.packed:
            packed = self.packed[root]
            at = np.unravel_index(self.piece.first - self.nest.first, self.nest.shape)
            key = tuple(
                slice(None) if n == 1 else slice(int(i), int(i) + m)
                for n, i, m in zip(packed.shape, at, self.lead, strict=False)
            )
            return packed[key]
        lead = self.lead
        if root in self.placement.column and not region.field.written:
            lead = self.placement.place(root, self.piece).shape[: self.axes]
        buffer = self.buffers.take(root, lead, self._order_of(root))
        written = self.trace.written.get(root)
        if region.size and (written is None or not written.all()):
            self._gather(root, region, buffer)
        if region.field.written and region.size:
            self.back.append((root, buffer))
        return buffer

    def _gather(self, root: int, region: Region, buffer: Array) -> None:
        """Append the call that copies a region of every vertex into a buffer."""
        flat = self.plan.memory.flat(region.field.dtype)
        # true if the rows of all vertices are next to each other and no vertices share the region
        down = root in self.placement.down and buffer.shape[: self.axes] == self.lead
        if root in self.placement.column and not down:
            self.calls.append((self.xp.copyto, (buffer, self.placement.place(root, self.piece))))
        elif (
            region.contiguous
            and not down
            and region.size >= WINDOW
            and self.xp.on_host
            and not self.placement.side_by_side
        ):
            size = flat.itemsize
            windows = self.xp.as_strided(
                flat, (len(flat) - region.size + 1, region.size), (size, size)
            )
            self.calls.append((gather_windows, (windows, region.starts[self.rows], buffer)))
        else:  # The elements are gathered in the memory order of the buffer.
            order = by_stride(buffer.strides)
            index = np.ascontiguousarray(
                region.index(self.rows).reshape(buffer.shape).transpose(order)
            )
            into = buffer.transpose(order)
            wide = wide_items(flat, index, into) if self.xp.on_host else None
            source, index, into = (flat, self.xp.array(index), into) if wide is None else wide
            self.calls.append((self.xp.take, (source, index, None, into, "clip")))

    def _view(self, op: Op) -> Array:
        """Return a view of a root, with the offset and strides of the sample's view."""
        root = self.trace.roots[op.result]
        axes = self.axes
        sample = self.trace.samples[op.result]
        base = self.values[root]
        source = self.values[op.args[0].id]
        lead = base.shape[:axes]
        steps = base.strides[:axes]
        if sample.size == 0:
            return self.xp.empty((*lead, *sample.shape), sample.dtype)
        if op.fn is item_of:
            return self.within(source, op.args[1])
        if op.fn is np.transpose and len(op.args) == 1:
            turned: Array = source.transpose(*range(axes), *range(source.ndim - 1, axes - 1, -1))
            return turned
        start = self.trace.samples[root].__array_interface__["data"][0]
        spread = self.buffers.spread.get(root, 1)
        distance = (sample.__array_interface__["data"][0] - start) // sample.itemsize * spread
        strides = (*steps, *(s * spread for s in sample.strides))
        # The root as one row, beginning with the view's first element. This is address arithmetic
        # only: the strides select the elements.
        anchor = self.xp.as_strided(base, (distance + 1,), (sample.itemsize,))[distance:]
        view: Array = self.xp.as_strided(anchor, (*lead, *sample.shape), strides)
        return view

    def _read(self, op: Op, number: int) -> Array:
        """Return one element: a view, or a copy if it is overwritten before its last use."""
        source, key = op.args
        place = self.within(self.values[source.id], key)
        root = self.trace.roots[source.id]
        if any(number < n <= self.plan.last[op.result] for n in self.plan.stores.get(root, ())):
            buffer = self.buffers.take(op.result, place.shape, self.order)
            self.calls.append((self.xp.copyto, (buffer, place)))
            return buffer
        return place

    # Stores

    def _direct(self, number: int, op: Op) -> int | None:
        """Return the number of a store that this result can be computed straight into, or None.

        The store must be the only use of the result, and store all of it.
        """
        if op.kind not in ("ufunc", "product", "reduce"):
            return None
        ops = self.trace.ops
        store = number + 1
        while store < len(ops) and ops[store].kind == "view":
            store += 1
        if (
            store == len(ops)
            or ops[store].kind != "store"
            or not is_ref(ops[store].args[1], op.result)
        ):
            return None
        place = ops[store].args[0].id
        root = self.trace.roots[place]
        sample = np.asarray(self.trace.samples[op.result])
        target = self.trace.samples[place]
        is_same_layout = (
            sample.shape == target.shape
            and sample.dtype == target.dtype
            and sample.strides == target.strides
        )
        is_layout_free = not self.plan.exact or (
            op.kind == "ufunc" and layout_independent(op.fn, sample.dtype)
        )
        is_read = any(self.trace.roots[a.id] == root for a in op.args if isinstance(a, Ref))
        is_viewed = any(
            self.trace.roots[view.result] == op.result for view in ops[number + 1 : store]
        )
        if (
            not is_same_layout
            or is_read
            or is_viewed
            or self.plan.last[op.result] > store
            or (root in self.placement.strided and not is_layout_free)
        ):
            return None
        for view in ops[number + 1 : store]:
            self.values[view.result] = self._view(view)
        into = self.values[place]
        is_overlapping = any(
            self.xp.may_share_memory(self.values[a.id], into) for a in op.args if isinstance(a, Ref)
        )
        if is_overlapping and op.kind == "ufunc" and not layout_independent(op.fn, sample.dtype):
            return None
        return store if into.shape[: self.axes] == self.lead else None

    def _store(self, number: int, op: Op, place: Array) -> None:
        """Append the calls of a store."""
        value = op.args[1]
        source = (
            self.operand(value, place.ndim - self.axes)
            if isinstance(value, Ref)
            else self.xp.array(np.asarray(value))
        )
        extra = source.ndim - place.ndim
        # an assignment drops leading axes of length 1, as in numpy
        if isinstance(value, Ref) and extra > 0:
            source = source.reshape(*source.shape[: self.axes], *source.shape[self.axes + extra :])
        if "line" in op.kwargs:
            numbers = np.broadcast_to(source, (*self.lead, *source.shape[self.axes :]))
            self.calls.append(
                (
                    check_fits,
                    (
                        numbers,
                        place.dtype,
                        op.kwargs["line"],
                        self.plan.table,
                        self.plan.rows[self.rows],
                    ),
                )
            )
        if not place.size:
            return
        rounded = None
        if self.plan.rounding is not None:
            rounded = self.plan.rounding.call(number, place, source, self.rows)
        if rounded is not None:
            self.calls.append(rounded)
        elif self.xp.on_host and place.dtype.kind == "u" and source.dtype.kind == "f":
            self.calls.append((store_unsigned, (place, source)))
        else:
            self.calls.append((self.xp.copyto, (place, source, "unsafe")))
