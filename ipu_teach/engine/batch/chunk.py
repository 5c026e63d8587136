"""The calls for a chunk of vertices, with a view or a buffer for each value of the trace."""

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

WINDOW = 16  # The number of elements from which a contiguous region is gathered as one window.


class Chunk(Operations):
    """The calls for a chunk of vertices.

    The vertices are those of the grid `piece`, which is a part of the larger grid `nest`. `packed`
    maps region ids to the copies of inputs that several vertices of `nest` share.
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
        # The memory order of the axes of the region `placement.model`. The results of operations
        # get the same layout. If there is no such region, the list is empty, and each operation
        # chooses its own layout.
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
        # The indices of store ops that are not needed, because their value was computed directly in
        # the target of the store.
        done: set[int] = set()
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
        """Append the calls that copy written regions and return values from buffers to memory."""
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

    def _result(self, op_number: int, op: Op, done_stores: set[int]) -> Array:
        """Append the calls that compute the result of an op, and return its array.

        A value that depends only on shared regions is computed only once, with vertex axes of
        length 1. It is then copied for every vertex if a later op writes to it. If the result is
        computed directly in the target of a store op, the store op is no longer needed, and its
        number is added to `done_stores`.
        """
        leads = [self.values[a.id].shape[: self.axes] for a in op.args if isinstance(a, Ref)]
        lead = np.broadcast_shapes(*leads) if leads else self.lead
        store = self._direct(op_number, op)
        if store is None and lead == self.lead:
            self.buffers.hand_over(op_number, op, self.values, lead=lead, down=self.placement.down)
        if store is not None and lead == self.lead:
            done_stores.add(store)
            out = self.values[self.trace.ops[store].args[0].id]
        else:
            out = self.buffers.take(
                op.result,
                self.lead if op.result in self.plan.stores else lead,
                self._order_of(op.result),
            )
        distinct_part = out[tuple(slice(length) for length in lead)]
        self.compute(op, distinct_part)
        if distinct_part.shape != out.shape:
            self.calls.append((self.xp.copyto, (out, distinct_part)))
        return out

    def _order_of(self, value: int) -> list[int]:
        """Return a buffer's axes in memory order, or [] if it is the order of the trace's sample.

        `value` is the id of the value that the buffer is for.
        """
        return self.order or self.placement.order(value, self.axes)

    # Methods for regions and for views of values

    def _region(self, root: int) -> Array:
        """Return the region with id `root` of all vertices of the chunk as one array.

        The array is a view of the memory in place, a part of the packed copy, or a buffer.
        """
        region = self.placement.regions[root]
        if root in self.placement.in_place:
            return self.placement.place(root, self.piece)
        if root in self.packed:
            packed = self.packed[root]
            position = np.unravel_index(self.piece.first - self.nest.first, self.nest.shape)
            slices = tuple(
                slice(None) if packed_length == 1 else slice(int(index), int(index) + length)
                for packed_length, index, length in zip(
                    packed.shape, position, self.lead, strict=False
                )
            )
            return packed[slices]
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
        """Append the call that copies the region `root` of every vertex into a buffer."""
        flat = self.plan.memory.flat(region.field.dtype)
        # Whether each vertex has its own region, and the buffer places rows with the same index,
        # one of each vertex, next to each other.
        runs_down = root in self.placement.down and buffer.shape[: self.axes] == self.lead
        if root in self.placement.column and not runs_down:
            self.calls.append((self.xp.copyto, (buffer, self.placement.place(root, self.piece))))
        elif (
            region.contiguous
            and not runs_down
            and region.size >= WINDOW
            and self.xp.on_host
            and not self.placement.side_by_side
        ):
            itemsize = flat.itemsize
            windows = self.xp.as_strided(
                flat, (len(flat) - region.size + 1, region.size), (itemsize, itemsize)
            )
            self.calls.append((gather_windows, (windows, region.starts[self.rows], buffer)))
        else:  # The elements are gathered in the memory order of the buffer.
            order = by_stride(buffer.strides)
            index = np.ascontiguousarray(
                region.index(self.rows).reshape(buffer.shape).transpose(order)
            )
            destination = buffer.transpose(order)
            items = wide_items(flat, index, destination) if self.xp.on_host else None
            source, index, destination = (
                (flat, self.xp.array(index), destination) if items is None else items
            )
            self.calls.append((self.xp.take, (source, index, None, destination, "clip")))

    def _view(self, op: Op) -> Array:
        """Return the view that `op` makes of a value, for all vertices of the chunk."""
        root = self.trace.roots[op.result]
        axes = self.axes
        sample = self.trace.samples[op.result]
        root_array = self.values[root]
        source = self.values[op.args[0].id]
        lead = root_array.shape[:axes]
        lead_strides = root_array.strides[:axes]
        if sample.size == 0:
            return self.xp.empty((*lead, *sample.shape), sample.dtype)
        if op.fn is item_of:
            return self.within(source, op.args[1])
        if op.fn is np.transpose and len(op.args) == 1:
            transposed: Array = source.transpose(
                *range(axes), *range(source.ndim - 1, axes - 1, -1)
            )
            return transposed
        root_address = self.trace.samples[root].__array_interface__["data"][0]
        element_distance = self.buffers.spread.get(root, 1)
        element_offset = (
            (sample.__array_interface__["data"][0] - root_address)
            // sample.itemsize
            * element_distance
        )
        strides = (*lead_strides, *(stride * element_distance for stride in sample.strides))
        # `anchor` is a row that begins at the first element of the view. Only the address of
        # `anchor` is used: the strides select the elements.
        anchor = self.xp.as_strided(root_array, (element_offset + 1,), (sample.itemsize,))[
            element_offset:
        ]
        view: Array = self.xp.as_strided(anchor, (*lead, *sample.shape), strides)
        return view

    def _read(self, op: Op, op_number: int) -> Array:
        """Return one element of every vertex: a view, or a copy.

        A copy is returned if the element is overwritten before its last use.
        """
        source, index = op.args
        element = self.within(self.values[source.id], index)
        root = self.trace.roots[source.id]
        if any(
            op_number < store_number <= self.plan.last[op.result]
            for store_number in self.plan.stores.get(root, ())
        ):
            buffer = self.buffers.take(op.result, element.shape, self.order)
            self.calls.append((self.xp.copyto, (buffer, element)))
            return buffer
        return element

    # Methods for stores

    def _direct(self, op_number: int, op: Op) -> int | None:
        """Return the number of the store op whose target can receive this result directly, or None.

        The store op must be the only use of the result, and must store all of it.
        """
        if op.kind not in ("ufunc", "product", "reduce"):
            return None
        ops = self.trace.ops
        store_number = op_number + 1
        while store_number < len(ops) and ops[store_number].kind == "view":
            store_number += 1
        if (
            store_number == len(ops)
            or ops[store_number].kind != "store"
            or not is_ref(ops[store_number].args[1], op.result)
        ):
            return None
        stored_id = ops[store_number].args[0].id
        root = self.trace.roots[stored_id]
        sample = np.asarray(self.trace.samples[op.result])
        stored_sample = self.trace.samples[stored_id]
        is_same_layout = (
            sample.shape == stored_sample.shape
            and sample.dtype == stored_sample.dtype
            and sample.strides == stored_sample.strides
        )
        is_layout_free = not self.plan.exact or (
            op.kind == "ufunc" and layout_independent(op.fn, sample.dtype)
        )
        is_read = any(
            self.trace.roots[argument.id] == root
            for argument in op.args
            if isinstance(argument, Ref)
        )
        is_viewed = any(
            self.trace.roots[view.result] == op.result for view in ops[op_number + 1 : store_number]
        )
        if (
            not is_same_layout
            or is_read
            or is_viewed
            or self.plan.last[op.result] > store_number
            or (root in self.placement.strided and not is_layout_free)
        ):
            return None
        for view in ops[op_number + 1 : store_number]:
            self.values[view.result] = self._view(view)
        destination = self.values[stored_id]
        is_overlapping = any(
            self.xp.may_share_memory(self.values[argument.id], destination)
            for argument in op.args
            if isinstance(argument, Ref)
        )
        if is_overlapping and op.kind == "ufunc" and not layout_independent(op.fn, sample.dtype):
            return None
        return store_number if destination.shape[: self.axes] == self.lead else None

    def _store(self, op_number: int, op: Op, destination: Array) -> None:
        """Append the calls that store a value in the view `destination`."""
        value = op.args[1]
        source = (
            self.operand(value, destination.ndim - self.axes)
            if isinstance(value, Ref)
            else self.xp.array(np.asarray(value))
        )
        extra_axes = source.ndim - destination.ndim
        # An assignment drops leading axes of length 1, as in numpy.
        if isinstance(value, Ref) and extra_axes > 0:
            source = source.reshape(
                *source.shape[: self.axes], *source.shape[self.axes + extra_axes :]
            )
        if "line" in op.kwargs:
            numbers = np.broadcast_to(source, (*self.lead, *source.shape[self.axes :]))
            self.calls.append(
                (
                    check_fits,
                    (
                        numbers,
                        destination.dtype,
                        op.kwargs["line"],
                        self.plan.table,
                        self.plan.rows[self.rows],
                    ),
                )
            )
        if not destination.size:
            return
        rounded = None
        if self.plan.rounding is not None:
            rounded = self.plan.rounding.call(op_number, destination, source, self.rows)
        if rounded is not None:
            self.calls.append(rounded)
        elif self.xp.on_host and destination.dtype.kind == "u" and source.dtype.kind == "f":
            self.calls.append((store_unsigned, (destination, source)))
        else:
            self.calls.append((self.xp.copyto, (destination, source, "unsafe")))
