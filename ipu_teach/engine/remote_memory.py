"""Streaming memory: the rows of remote buffers, and the copies to and from these rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach._support.places import free_memory
from ipu_teach.compile.programs import RemoteCopyStep
from ipu_teach.engine.tile_arrays import Memory
from ipu_teach.errors import (
    ApplicationRuntimeError,
    GraphMemoryAllocationError,
    TensorIOStateError,
    UninitialisedReadError,
    counted,
    did_you_mean,
    shown,
)
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.remote_buffer import RemoteBuffer
from ipu_teach.graph.tensor import Tensor
from ipu_teach.types import Array, poison, to_host_array

# The number of bytes that may be written between two checks of the free memory. Each check requires
# that at least this number of bytes stays free after the write.
FIRST = 2**26


def remote_rows(
    buffers: Mapping[str, RemoteBuffer], memory: Memory, strict: bool, note: Callable[[Any], None]
) -> dict[str, RemoteRows]:
    """Return the rows of all remote buffers, by handle.

    For each copy, `note` is called with the indices of the copied rows.

    :raises GraphMemoryAllocationError: if this computer does not have the memory.
    """
    try:
        return {
            handle: RemoteRows(buffer, memory, strict, note) for handle, buffer in buffers.items()
        }
    except MemoryError:
        total_bytes = sum(buffer.bytes for buffer in buffers.values())
        raise GraphMemoryAllocationError(f"""The remote buffers take {total_bytes:,} bytes, which
            this computer does not have.
            where: {", ".join(map(repr, buffers.values()))}
            next:  give them fewer rows, or shorter ones.""") from None


class RemoteRows:
    """The rows of a remote buffer.

    If `strict` is True, reading a row that was never written is an error. Otherwise, such a row has
    the values of unwritten memory. For each copy, `note` is called with the indices of the copied
    rows.
    """

    def __init__(
        self, buffer: RemoteBuffer, memory: Memory, strict: bool, note: Callable[[Any], None]
    ) -> None:
        self.buffer = buffer
        self._note = note
        self._memory = memory
        self._strict = strict
        # The number of bytes that may be written before the next check of the free memory.
        self._room = FIRST
        # The buffer begins as zeros, because the system allocates memory for zeros only when they
        # are overwritten. So unwritten rows cannot be recognised by their values: a separate array
        # marks the written rows. All rows of one replica precede those of the next.
        rows = buffer.replicas * buffer.repeats
        self._values = memory.host.backend.zeros((rows, buffer.num_elements), buffer.dtype.numpy)
        self._written = memory.host.backend.zeros((rows,), bool)

    def load(self, rows: Array | list[int], reader: str) -> Array:
        """Return a copy of the rows with the indices `rows`, in this order.

        `reader` is the reader's description for the error.

        :raises UninitialisedReadError: in strict mode, if a row was never written.
        """
        values: Array = self._values[rows]
        unwritten = ~self._written[rows]
        if unwritten.any():
            if self._strict:
                replica, row = divmod(int(rows[unwritten.argmax()]), self.buffer.repeats)
                of = f" of replica {replica}" if self.buffer.replicas > 1 else ""
                raise UninitialisedReadError(f"""{reader} reads row {row:,}{of}
                    of the remote buffer {self.buffer.handle!r}, which nothing has written.
                    where: {self.buffer!r}
                    next:  write it first: Copy(tensor, buffer, offset), or
                    engine.copy_to_remote_buffer.""")
            values[unwritten] = poison(self.buffer.dtype)
        return values

    def store(self, rows: Array | list[int], values: Array) -> None:
        """Write `values` to the rows with the indices `rows`.

        If an index occurs twice, the later values remain.

        :raises GraphMemoryAllocationError: if so little memory is free that this computer would
            have to swap.
        """
        row = self.buffer.num_elements * self.buffer.dtype.size
        touched = int((~self._written[rows]).sum()) * row
        if touched > self._room:
            free = free_memory()
            if free is not None and touched > free - FIRST:
                raise GraphMemoryAllocationError(f"""This computer's memory is full:
                    {free:,} bytes are free, but {touched:,} must be written.
                    where: {self.buffer!r}, of which {int(self._written.sum()):,} rows are written
                    next:  give the buffer fewer rows, or shorter ones, or close other programs.""")
            self._room = FIRST
        else:
            self._room -= touched
        self._values[rows] = values.reshape(len(rows), self.buffer.num_elements)
        self._written[rows] = True

    def bind(self, step: RemoteCopyStep) -> Callable[[], None]:
        """Return a function that runs a copy. In each run, it reads the row indices from memory."""
        memory = self._memory
        tensor = step.tensor
        reader = f"Copy to {tensor.graph.describe(tensor)}"

        def move() -> None:
            rows = self._chosen(step)
            if step.store:
                self.store(rows, memory.read(tensor))
            else:
                memory.write(tensor, self.load(rows, reader))
            self._note(rows)

        return move

    def _chosen(self, step: RemoteCopyStep) -> Array:
        """Return the indices of the rows that a copy transfers, computed from its offset in memory.

        A copy without an offset transfers row 0 of each replica.

        :raises ApplicationRuntimeError: if the buffer has no such row.
        """
        buffer = self.buffer
        offset = step.offset
        first_rows = np.arange(buffer.replicas) * buffer.repeats
        if offset is None:
            return first_rows
        rows = self._memory.read(offset).reshape(-1)
        is_out_of_range = (rows < 0) | (rows >= buffer.repeats)
        if is_out_of_range.any():
            wrong_index = is_out_of_range.tolist().index(True)
            direction = "to" if step.store else "from"
            last_row = buffer.repeats - 1
            advice = "0, or make the buffer with more rows: repeats=…"
            if last_row:
                advice = f"numbers from 0 to {last_row:,}."
            raise ApplicationRuntimeError(f"""Copy {direction} the remote buffer
                {buffer.handle!r} was given row {int(rows[wrong_index]):,}, but the buffer has
                {counted(buffer.repeats, "row")}.
                where: element [{wrong_index}] of its offset {offset.graph.describe(offset)}
                next:  give row {advice}""")
        row_numbers: Array = (rows.reshape(len(first_rows), -1) + first_rows[:, None]).reshape(-1)
        return row_numbers


def host_values(
    call: str, values: ArrayLike, into: Tensor | RemoteBuffer, advice: str, replicas: int = 1
) -> Array:
    """Return the host's values for a tensor or a row of a remote buffer, as an array of its dtype.

    `values` may have any shape with `into.num_elements` elements, and the result has the same
    shape. If there are only enough values for a single replica, they are flattened and repeated for
    all `replicas` replicas. For an error message, `call` is the name of the call, and `advice` is
    the next step.

    :raises TensorIOStateError: if the number of values is wrong, or the dtype cannot represent
        them.
    """
    host_array = to_host_array(values, into.dtype, call, TensorIOStateError)
    if host_array.size * replicas == into.num_elements:
        host_array = np.tile(host_array.reshape(-1), replicas)
    if host_array.size != into.num_elements:
        raise TensorIOStateError(f"""{call} was given {counted(host_array.size, "value")} for
            {counted(into.num_elements, "element")}.
            where: {into!r}
            next:  {advice}.""")
    return host_array


def find_buffer(
    buffers: Mapping[str, RemoteBuffer], handle: str, row: int, replica: int, call: str
) -> tuple[RemoteBuffer, int]:
    """Return (remote buffer with this handle, index of the row among the rows of all replicas).

    `call` is the name of the call in an error message.

    :raises TensorIOStateError: if there is no such buffer, row or replica.
    """
    buffer = buffers.get(handle) if isinstance(handle, str) else None
    if buffer is None:
        known = (
            f"The remote buffers are {', '.join(map(repr, sorted(buffers)))}." if buffers else ""
        )
        advice = f"{did_you_mean(handle, buffers)}{known}"
        if isinstance(handle, RemoteBuffer):
            advice = f"name it by its handle, {handle.handle!r}."
        raise TensorIOStateError(f"""{call} was given the handle {shown(handle)}, but there is no
            such remote buffer.
            next:  {advice or "create it with graph.add_remote_buffer, before the engine."}""")
    if not is_whole(row) or not 0 <= row < buffer.repeats:
        advice = (
            f"give a whole number from 0 to {buffer.repeats - 1:,}"
            if buffer.repeats > 1
            else "its only row is 0"
        )
        raise TensorIOStateError(f"""{call} was given row {shown(row)} of the remote buffer
            {buffer.handle!r}, which has {counted(buffer.repeats, "row")}.
            where: {buffer!r}
            next:  {advice}.""")
    if not is_whole(replica) or not 0 <= replica < buffer.replicas:
        raise TensorIOStateError(f"""{call} was given the replica {shown(replica)} of
            {buffer.handle!r}, which has {counted(buffer.replicas, "replica")}.
            next:  give a whole number from 0 to {buffer.replicas - 1:,}.""")
    return buffer, int(replica) * buffer.repeats + int(row)
