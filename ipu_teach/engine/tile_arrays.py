"""The memory of a loaded machine: one flat array of bytes, viewed as any dtype."""

from __future__ import annotations

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.engine.backend import Backend
from ipu_teach.graph.tensor import Layout, Tensor
from ipu_teach.types import Array, DType, poison


class Memory:
    """The memory of all variables of a graph, with their initial values.

    If the memory is on the host, `host` is this object itself. Otherwise, the memory is on a GPU,
    and `host` is a copy of it on the host: `fetch` updates the copy, and `send` updates the memory.
    """

    def __init__(self, graph: FrozenGraph, backend: Backend) -> None:
        self.backend = backend
        self._flat: dict[type[DType], Array] = {}
        self.host = self if backend.on_host else Memory(graph, Backend())
        if self.host is not self:
            self.bytes: Array = backend.array(self.host.bytes)
            return
        self.bytes = backend.zeros((graph.memory_bytes,), np.uint8)
        for variable in graph.variables:
            element_bytes = variable.dtype.size
            self.flat(variable.dtype)[
                variable.start // element_bytes : variable.stop // element_bytes
            ] = poison(variable.dtype)
        for tensor, values in graph.initial_values:
            self.write(tensor, values)
        for dtype, first_byte, values in graph.state_values:
            self.flat(dtype)[first_byte // dtype.size : first_byte // dtype.size + len(values)] = (
                values
            )

    def flat(self, dtype: type[DType]) -> Array:
        """Return the complete memory as elements of `dtype`."""
        if dtype not in self._flat:
            length = len(self.bytes) // dtype.size * dtype.numpy.itemsize
            # In a check that computes FLOAT or HALF in float64, the elements need more bytes than
            # the memory has. So they are in a separate array.
            row = self.bytes if length <= len(self.bytes) else np.zeros(length, np.uint8)
            self._flat[dtype] = row[:length].view(dtype.numpy)
        return self._flat[dtype]

    def view(self, dtype: type[DType], offset: int, layout: Layout) -> Array | None:
        """Return a view of a layout's elements; None if the layout has no strides or no elements.

        `offset` is the index of the layout's first element in `flat(dtype)`.
        """
        if layout.strides is None or layout.size == 0:
            return None
        strides = tuple(s * dtype.numpy.itemsize for s in layout.strides)
        view: Array = self.backend.as_strided(self.flat(dtype)[offset:], layout.shape, strides)
        return view

    def write(self, tensor: Tensor, values: Array) -> None:
        """Write `values` into a tensor. `values` must have as many elements as the tensor."""
        view = self.view(tensor.dtype, tensor.offset, tensor.layout)
        shaped = self.backend.array(values).reshape(tensor.shape)
        if view is not None:
            view[...] = shaped
        else:
            self.flat(tensor.dtype)[self.backend.array(tensor.positions())] = shaped

    def read(self, tensor: Tensor) -> Array:
        """Return a copy of a tensor's elements, in its shape, as a numpy array."""
        view = self.view(tensor.dtype, tensor.offset, tensor.layout)
        return self.backend.to_host(
            self.flat(tensor.dtype)[self.backend.array(tensor.positions())]
            if view is None
            else view
        )

    def poison(self, tensor: Tensor) -> None:
        """Fill a tensor with the value of unwritten memory."""
        self.write(tensor, np.full(tensor.shape, poison(tensor.dtype), tensor.dtype.numpy))

    def fetch(self, start: int, stop: int) -> None:
        """Copy some bytes of this memory to `host`."""
        self.host.bytes[start:stop] = self.backend.to_host(self.bytes[start:stop])

    def send(self, start: int, stop: int) -> None:
        """Copy some bytes of `host` to this memory."""
        self.bytes[start:stop] = self.backend.array(self.host.bytes[start:stop])
