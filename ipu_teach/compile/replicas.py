"""Expand a replicated graph and its programs to the whole machine.

With R replicas, every vertex becomes R vertices, and a tensor of shape s becomes a tensor of shape
(R, *s). A copy between two tensors stays a single copy. So the expanded program has the same number
of steps as the program of one replica, and later compiler passes need no special code for replicas.
In the expanded memory, the replicas follow each other. The variables that only the top-level graph
has are after the last replica.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ipu_teach.graph import ComputeSet, DataStream, Graph, Tensor
from ipu_teach.graph.compute_set import Function
from ipu_teach.graph.host_handles import HostAccess
from ipu_teach.graph.layouts import Layout, ListLayout
from ipu_teach.graph.replicas import APART, whole_tensor
from ipu_teach.graph.source import RowLines
from ipu_teach.graph.tensor import concat
from ipu_teach.graph.tile_map import UNMAPPED
from ipu_teach.graph.variable_table import Variable, of_replica
from ipu_teach.graph.vertex_table import VertexTable
from ipu_teach.program import CrossReplicaCopy, Program
from ipu_teach.types import UNSIGNED_INT, Array

Address = TypeVar("Address", int, Array)


class Whole:
    """The graph of the whole machine, expanded from a replicated graph.

    `top` is the top-level graph, `part` is the graph of one replica, and `graph` is the expanded
    graph. `image` returns the counterpart in `graph` of an object from `top` or `part`.
    """

    def __init__(self, top: Graph, part: Graph) -> None:
        self.top = top
        self.part = part
        self.count = part.get_replication_factor()
        self.graph = graph = Graph(top.target)
        graph.replicas = self.count
        graph.codelets = top.codelets
        # The distance in bytes from one replica's memory to the next.
        self._step = part.memory_bytes
        self._layouts: dict[tuple[int, int], Layout | ListLayout] = {}
        # Maps id(original) to (original, image). The reference to the original prevents another
        # object from getting the same id.
        self._images: dict[int, tuple[object, object]] = {}
        for replica in range(self.count):
            for variable in part.variables:
                self._add_shifted(
                    replace(variable, name=of_replica(variable.name, replica, self.count)),
                    replica * self._step,
                )
        for variable in top.variables:
            self._add_shifted(variable, self.count * (self._step - APART))
        pieces = top.tile_map().pieces()
        is_mapped = pieces.tile != UNMAPPED
        image_starts = self._moved(pieces.start[is_mapped])
        image_stops = self._moved(pieces.stop[is_mapped])
        graph._mapping.extend(image_starts, image_stops, pieces.tile[is_mapped])
        for tensor, values in (*part.initial_values, *top.initial_values):
            image = self.image(tensor)
            graph.initial_values.append((image, np.broadcast_to(values, image.shape)))
        for compute_set in (*part.compute_sets, *top.compute_sets):
            self.image(compute_set)
        graph.streams.update(self.image(top.streams))
        graph.host_accesses.update(self.image(top.host_accesses))
        graph.remote_buffers.update(top.remote_buffers)

    def image(self, original: Any) -> Any:
        """Return the counterpart in `graph` of a tensor, a program, or a part of a program.

        The same original always has the same counterpart. An object of any other graph is returned
        unchanged. The counterpart of a list or dict contains the counterparts of its items.
        """
        match original:
            case list():
                return [self.image(item) for item in original]
            case dict():
                return {key: self.image(item) for key, item in original.items()}
            case Tensor() | ComputeSet() | Function() | DataStream() | HostAccess() | Program():
                key = id(original)
                if key not in self._images:
                    self._images[key] = original, original
                    self._images[key] = original, self._new_image(original)
                return self._images[key][1]
        return original

    def _new_image(self, original: Any) -> Any:
        match original:
            case HostAccess():
                return replace(original, tensor=self.image(original.tensor))
            case DataStream():
                return replace(original, num_elements=original.num_elements * original.replicas)
            case Program():
                image = copy(original)
                # The image is stored before its parts are built, because a program may contain
                # itself.
                self._images[id(original)] = original, image
                vars(image).update(self.image(vars(original)))
                if isinstance(image, CrossReplicaCopy) and len(image.sources) > 1:
                    image.source = concat([image.source[i : i + 1] for i in image.sources])
                return image
        if original.graph is not self.part and original.graph is not self.top:
            return original
        if isinstance(original, Function):
            return replace(original, graph=self.graph)
        if isinstance(original, Tensor):
            return self._tensor(original)
        return self._compute_set(original)

    def _add_shifted(self, variable: Variable, shift: int) -> None:
        """Add a copy of a variable to `graph`, with its address increased by `shift` bytes."""
        start = variable.start + shift
        stop = variable.stop + shift
        number = len(self.graph.variables)
        self.graph._variables.add(replace(variable, id=number, start=start, stop=stop))

    # Methods for addresses. In the top-level graph, the memory of each replica begins APART bytes
    # after that of the previous replica.

    def _moved(self, address: Address, size: int = 1, distance: bool = False) -> Address:
        """Return the address in `graph` that corresponds to an address in the top-level graph.

        Both addresses count elements of `size` bytes. With `distance`, `address` and the result are
        differences between two addresses.
        """
        apart = APART // size
        replica = (address + apart // 2 if distance else address) // apart
        moved: Address = address + replica * (self._step // size - apart)
        return moved

    def _tensor(self, tensor: Tensor) -> Tensor:
        if tensor.graph is self.part:
            return whole_tensor(tensor, self.graph, self.count, self._step)
        layout = self._layout(tensor.layout, tensor.dtype.size)
        assert isinstance(layout, Layout)
        offset = self._moved(tensor.offset, tensor.dtype.size)
        return Tensor.of(self.graph, tensor.dtype, offset, layout)

    def _layout(self, layout: Layout | ListLayout, size: int) -> Layout | ListLayout:
        """Return the layout in `graph` that replaces a layout of `top` or `part`.

        `size` is the number of bytes of an element for a layout of `top`, and 0 for a layout of
        `part`.
        """
        key = layout.id, size
        if key not in self._layouts:
            self._layouts[key] = self._new_layout(layout, size)
        return self._layouts[key]

    def _new_layout(self, layout: Layout | ListLayout, size: int) -> Layout | ListLayout:
        def moved(distance: Address) -> Address:
            return self._moved(distance, size, True) if size else distance

        if isinstance(layout, ListLayout):
            moved_parts = tuple(
                (moved(offset), self._layout(part, size)) for offset, part in layout.parts
            )
            return self.graph.list_layout(moved_parts)  # type: ignore[arg-type]
        if layout.strides is not None:
            return self.graph.strided(layout.shape, tuple(map(moved, layout.strides)))
        return self.graph.listed(UNSIGNED_INT, moved(layout.positions)).layout

    # Methods for compute sets and vertices

    def _compute_set(self, original: ComputeSet) -> ComputeSet:
        image = self.graph.add_compute_set(original.name)
        image.replicas = original.graph.get_replication_factor()
        image.num_vertices = original.num_vertices * image.replicas
        for codelet, table in original.tables.items():
            image.tables[codelet] = self._table(table, image)
        return image

    def _table(self, table: VertexTable, compute_set: ComputeSet) -> VertexTable:
        """Return a table with the vertices of all replicas, replica by replica."""
        image = VertexTable(self.graph, compute_set, table.codelet)
        num_rows = len(table)
        num_replicas = compute_set.replicas
        in_part = table.graph is self.part
        replica = np.arange(num_replicas)[:, None]
        for name, field in table.edges.items():
            element_bytes = field.dtype.size
            offsets = np.array(table.offsets[name], np.int64)
            layout_numbers, inverse = np.unique(
                np.array(table.layouts[name], np.int32), return_inverse=True
            )
            element_size = 0 if in_part else element_bytes
            image_ids = [
                layout_number
                if layout_number < 0
                else self._layout(table.graph.layouts[layout_number], element_size).id
                for layout_number in layout_numbers.tolist()
            ]
            if in_part:
                moved_offsets = offsets + replica * (self._step // element_bytes)
            else:
                moved_offsets = self._moved(offsets, element_bytes)
            image.offsets[name].frombytes(
                _bytes(np.where(offsets < 0, offsets, moved_offsets), np.int64)
            )
            layouts = np.array(image_ids, np.int32)[inverse.reshape(-1)]
            image.layouts[name].frombytes(_bytes(np.tile(layouts, num_replicas), np.int32))
        for name, values in table.state_values.items():
            image.state_values[name] = values * num_replicas
        # The first row of each replica in the new table.
        first_rows = [r * num_rows for r in range(num_replicas)]
        image.sizes = {
            (n, first + row): element_bytes
            for (n, row), element_bytes in table.sizes.items()
            for first in first_rows
        }
        order, tiles = (np.array(column, np.int64) for column in (table.order, table.tiles))
        order = order + replica * table.compute_set.num_vertices
        tiles = np.where(tiles < 0, tiles, tiles + replica * table.graph.target.num_tiles)
        image.order.frombytes(_bytes(order, np.int32))
        image.tiles.frombytes(_bytes(tiles, np.int32))
        if table.estimates is not None:
            num_missing = num_rows - len(table.estimates)
            image.estimates = (
                table.estimates + type(table.estimates)("q", [-1] * num_missing)
            ) * num_replicas
        image.added = _repeated(table.added, num_rows, first_rows)
        image.placed = _repeated(table.placed, num_rows, first_rows)
        return image


def _bytes(values: Array, dtype: type[np.integer]) -> bytes:
    return values.astype(dtype).tobytes()


def _repeated(lines: RowLines, rows: int, first_rows: list[int]) -> RowLines:
    """Return the source lines of the rows of a table that is repeated for each replica.

    `lines` are the source lines before the repetition, and `rows` is the number of rows before it.
    `first_rows` has the first row of each replica after the repetition.
    """
    repeated = RowLines()
    repeated.before = [
        (start + first_row, min(stop, rows) + first_row, line)
        for first_row in first_rows
        for start, stop, line in reversed(lines.spans())
    ]
    return repeated
