"""Memory for the values of a chunk of vertices, reused when a value is no longer needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from ipu_teach.compile.trace import Op, Ref, Trace, layout_independent
from ipu_teach.engine.backend import Backend
from ipu_teach.types import Array
from ipu_teach.types.rounding import AnyDType

BufferKey = tuple[AnyDType, int]  # The key of a pool of buffers: (dtype, elements per vertex).


def by_stride(strides: Iterable[int]) -> list[int]:
    """Return the numbers of the axes in the order of descending strides."""
    steps = list(strides)
    return sorted(range(len(steps)), key=lambda axis: -steps[axis])


class Buffers:
    """Buffers for the values of at most `capacity` vertices.

    A buffer is used again after the last use of its value. With `side_by_side`, the elements of all
    vertices that have the same index are next to each other in memory.
    """

    def __init__(self, xp: Backend, trace: Trace, last: dict[int, int], side_by_side: bool) -> None:
        self._xp = xp
        self._trace = trace
        self._last = last
        self._side_by_side = side_by_side
        self.capacity = 1
        self.pool: dict[BufferKey, list[Array]] = defaultdict(list)
        self._held: dict[int, tuple[BufferKey, Array]] = {}
        self._released: dict[int, list[int]] = defaultdict(list)
        for root, op_number in last.items():
            self._released[op_number].append(root)
        # With `side_by_side`, the elements of one vertex are not adjacent. This maps the id of each
        # value to the distance from one element of a vertex to the next, in elements.
        self.spread: dict[int, int] = {}

    def take(self, value: int, lead: tuple[int, ...], order: list[int]) -> Array:
        """Return a free buffer for a value of every vertex.

        Its first axes are those of the vertices, with the lengths `lead`. They are followed by the
        axes of the value. In memory, the axes of the value have the same order as in the trace's
        sample of the value. But if `order` lists all axes of the buffer, they are in this order in
        memory.
        """
        sample = np.asarray(self._trace.samples[value])
        axes_by_stride = by_stride(sample.strides)
        stored_shape = tuple(sample.shape[axis] for axis in axes_by_stride)
        elements_per_vertex = (
            1 << (sample.size - 1).bit_length()
            if self.capacity == 1 and sample.size
            else sample.size
        )
        # If a chunk has a single vertex, buffers have power-of-two sizes, so that more values can
        # share them.
        key = (sample.dtype, elements_per_vertex)
        free_blocks = self.pool[key]
        block = (
            free_blocks.pop()
            if free_blocks
            else self._xp.empty(self.capacity * elements_per_vertex, sample.dtype)
        )
        self._held[value] = (key, block)
        num_vertex_axes = len(lead)
        num_vertices = int(np.prod(lead, dtype=np.int64))
        used_part = block[: num_vertices * sample.size]
        inverse = _inverse(axes_by_stride)
        if len(order) == num_vertex_axes + sample.ndim:
            all_axes = (*lead, *sample.shape)
            buffer = used_part.reshape([all_axes[axis] for axis in order])
            axis_order = _inverse(order)
        elif self._side_by_side:
            self.spread[value] = num_vertices
            buffer = used_part.reshape(*stored_shape, *lead)
            axis_order = [*range(sample.ndim, sample.ndim + num_vertex_axes), *inverse]
        else:
            buffer = used_part.reshape(*lead, *stored_shape)
            axis_order = [
                *range(num_vertex_axes),
                *(num_vertex_axes + axis_position for axis_position in inverse),
            ]
        view: Array = buffer.transpose(axis_order)
        return view

    def hand_over(
        self,
        op_number: int,
        op: Op,
        values: dict[int, Array],
        lead: tuple[int, ...],
        down: Mapping[int, int],
    ) -> None:
        """Free the buffer of an operand, so that the result of op number `op_number` can use it.

        This is done only if the op is elementwise and uses the operand for the last time. `values`
        are the arrays of the values so far, and `lead` contains the lengths of the vertices' axes.
        `down` contains the values with a special memory order (see `GroupPlacement.down`).
        """
        sample = np.asarray(self._trace.samples[op.result])
        if op.kind != "ufunc" or not layout_independent(op.fn, sample.dtype):
            return
        for root in {
            argument.id for argument in op.args if isinstance(argument, Ref)
        } & self._held.keys() - self._trace.regions.keys():
            operand = np.asarray(self._trace.samples[root])
            is_same_layout = (
                operand.shape == sample.shape
                and operand.strides == sample.strides
                and operand.dtype == sample.dtype
                and down.get(root) == down.get(op.result)
            )
            is_last_use = self._last[root] == op_number
            if is_same_layout and is_last_use and values[root].shape[: len(lead)] == lead:
                self._give_back(root)
                return

    def release(self, number: int) -> None:
        """Free the buffers whose last use is op number `number`.

        The buffers of regions stay until the end of the chunk.
        """
        for root in self._released.get(number, ()):
            if root in self._held and root not in self._trace.regions:
                self._give_back(root)

    def release_all(self) -> None:
        """Free all buffers at the end of a chunk."""
        for root in list(self._held):
            self._give_back(root)
        self.spread.clear()

    def _give_back(self, root: int) -> None:
        key, buffer = self._held.pop(root)
        self.pool[key].append(buffer)


def _inverse(order: list[int]) -> list[int]:
    """Return the permutation of axes that undoes `order`."""
    return sorted(range(len(order)), key=order.__getitem__)
