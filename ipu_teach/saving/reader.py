"""Read a saved executable: rebuild its graph and programs with the calls that a learner would use.

All data in the file are checked: indices must be within their tables, and views must be within
variables. The graph is then compiled again, with all checks of the compiler.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ipu_teach import program as p
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.errors import ExecutableLoadError, shown
from ipu_teach.graph import Graph, ReplicatedStreamMode, Tensor, Vertex
from ipu_teach.graph.compute_set import ComputeSet, table_of
from ipu_teach.graph.layouts import MOST_DIMENSIONS, Layout, ListLayout
from ipu_teach.graph.mapping import Tiles
from ipu_teach.graph.tile_map import covered
from ipu_teach.graph.variable_table import ALIGNMENT, MOST_BYTES
from ipu_teach.graph.vertex_table import MOST_CYCLES, VertexTable
from ipu_teach.saving import schema as s, writer as w
from ipu_teach.saving.archive import MOST_NODES
from ipu_teach.saving.codelet_sources import resolve
from ipu_teach.types import UNSIGNED_INT, Array, DType

# The maximum number of different elements in a layout that is not contiguous.
MOST_PIECES = 2**28

Options = TypeVar("Options")  # The type of the engine's options, unknown to this package.
# A function that converts a value from a file to options, or raises an error.
Parsed: TypeAlias = Callable[[Any], Options]
Read: TypeAlias = tuple[Graph, list[p.Program], dict[str, bool], Options]


def rebuild(
    data: bytes, codelets: Iterable[type[Vertex]], parsed: Parsed[Options]
) -> Read[Options]:
    """Return `(graph, programs, checks, options)` of a saved executable.

    `programs` is the list of its programs, and `checks` maps the name of each of the compiler's
    checks to whether it is switched on. `options` are the engine's options, which are computed by
    `parsed(value)` from the `value` in the file. `codelets` are vertex classes that the executable
    may use, in addition to those that the process has defined.

    :raises ExecutableLoadError: if the file is damaged or needs other classes.
    """
    classes = _listed(codelets)
    return s.load(data, w.EXECUTABLE, lambda header: _Reader(header, classes).read(parsed))


def _listed(codelets: Iterable[type[Vertex]]) -> list[type[Vertex]]:
    entries = (
        list(codelets)
        if isinstance(codelets, Iterable) and not isinstance(codelets, (str, type))
        else [None]
    )
    if not all(isinstance(codelet, type) and issubclass(codelet, Vertex) for codelet in entries):
        raise ExecutableLoadError(f"""The argument codelets is {shown(codelets)}, which is not a
            list of vertex classes.
            next:  give a list of vertex classes: codelets=[DotProduct].""")
    return [codelet for codelet in entries if codelet is not None]


class _Reader:
    def __init__(self, header: s.HeaderValue, codelets: list[type[Vertex]]) -> None:
        self.header = header
        self.known = header.known
        self.known["codelets"] = [
            resolve(stored, codelets) for stored in header["codelets"].items()
        ]
        self.graph = Graph(s.TARGET.read(header["target"]))
        self.known.update(
            streams=self.graph.streams,
            remote_buffers=self.graph.remote_buffers,
            compute_sets=self.graph.compute_sets,
        )
        if self.known.version > 2:  # Files of version 2 and below have no replicas.
            self.graph.replicas = w.REPLICAS.read(header["replicas"])
        self._calls: dict[tuple[str, tuple[int, ...]], p.Program] = {}

    def read(self, parsed: Parsed[Options]) -> Read[Options]:
        header = self.header
        known = self.known
        checks = s.keyed(dict, races=s.FLAG, uninitialised=s.FLAG, estimates=s.FLAG).read(
            header["checks"]
        )
        options = parsed(header["options"].value)
        if header["alignment"].whole(1, 2**20) != ALIGNMENT:
            header["alignment"].fail(f"the alignment of this kit, {ALIGNMENT}")
        self.layouts: list[Layout | ListLayout] = []
        known["layouts"] = self.layouts
        for stored in header["layouts"].items():
            self.layouts.append(self._layout(stored))
        # Adding a variable to a graph also adds layouts. The layouts of the file are added first,
        # so that all layouts have the same order as in the saved graph. With the same order,
        # vertices form the same groups.
        self._variables()
        known["tensors"] = [self._tensor(stored) for stored in header["tensors"].items()]
        self._mapping(header["mapping"])
        for stored in header["initial_values"].items():
            self._initial_value(stored)
        for stored in header["compute_sets"].items():
            self._compute_set(stored)
        self._check_edges()
        self._host()
        return self.graph, self._programs(), checks, options

    def _numbers(self, stored: s.HeaderValue, count: int) -> Array:
        """Return `count` numbers of the column "numbers", starting at the index in `stored`."""
        return self._slice("numbers", stored, count)

    def _slice(self, name: str, stored: s.HeaderValue, count: int) -> Array:
        if name not in self.known.arrays:
            self.header.fail(f"complete: {name}.npy is missing")
        array = self.known.arrays[name]
        start = stored.whole(0, len(array))
        if start + count > len(array):
            stored.fail(f"the start of {count:,} stored numbers")
        return array[start : start + count]

    # The methods below read variables and views.

    def _variables(self) -> None:
        graph = self.graph
        stored_size = self.header["memory_bytes"]
        for stored in self.header["variables"].items():
            graph._new_variable(**w.VARIABLE.read(stored))
        if graph.memory_bytes != stored_size.whole(0, 2 * MOST_BYTES):
            stored_size.fail(f"the size of its variables, {graph.memory_bytes:,} bytes")
        self._starts = np.array([variable.start for variable in graph.variables], np.int64)
        self._stops = np.array([variable.stop for variable in graph.variables], np.int64)

    def _inside(self, start: Array, stop: Array) -> bool:
        """Return whether variables cover all bytes of the given ranges of memory.

        Range i is from the address `start[i]` to before `stop[i]`.
        """
        bytes_below = [covered(self._starts, self._stops, addresses) for addresses in (start, stop)]
        return bool(np.all(start >= 0) and np.all(bytes_below[1] - bytes_below[0] == stop - start))

    def _layout(self, stored: s.HeaderValue) -> Layout | ListLayout:
        graph = self.graph
        if isinstance(stored.value, dict) and "parts" in stored.value:
            placed_layouts = []
            for stored_part in stored["parts"].items():
                part_layout = (
                    self.layouts[stored_part[1].whole(0, len(self.layouts) - 1)]
                    if self.layouts
                    else stored.fail("a list layout")
                )
                if not isinstance(part_layout, Layout):
                    stored_part.fail("a part of a list")
                placed_layouts.append((stored_part[0].whole(-MOST_BYTES, MOST_BYTES), part_layout))
            if placed_layouts and placed_layouts[0][0] == 0:
                return graph.list_layout(tuple(placed_layouts))
            return stored.fail("a list layout")
        shape = w.SHAPE.read(stored["shape"])
        num_elements = prod(max(length, 1) for length in shape)
        if num_elements > MOST_BYTES:
            stored.fail("a shape that fits into memory")
        if "strides" in stored.value:
            strides = s.numbers(s.whole(-MOST_BYTES, MOST_BYTES), MOST_DIMENSIONS).read(
                stored["strides"]
            )
            if (
                len(strides) != len(shape)
                or sum(length * abs(stride) for length, stride in zip(shape, strides, strict=True))
                > MOST_BYTES
            ):
                stored.fail("a layout")
            layout = graph.strided(shape, strides)
            # An axis with stride 0 repeats the same elements.
            num_different = prod(
                length for length, stride in zip(shape, strides, strict=True) if stride
            )
            if not layout.contiguous and num_elements > MOST_PIECES and num_different > MOST_PIECES:
                stored.fail(f"a layout of at most {MOST_PIECES:,} pieces")
            return layout
        positions = self._numbers(stored["at"], prod(shape)).reshape(shape)
        if positions.size and (positions.flat[0] != 0 or np.abs(positions).max() > MOST_BYTES):
            stored.fail("a list of positions")
        return graph.listed(UNSIGNED_INT, positions).layout

    def _tensor(self, stored: s.HeaderValue) -> Tensor:
        view = w.VIEW.read(stored)
        if not isinstance(view["layout"], Layout):
            stored.fail("a tensor")
        tensor = Tensor.of(self.graph, **view)
        if not self._inside(*tensor.byte_extent()):
            stored.fail("a view of the variables")
        return tensor

    def _mapping(self, stored: s.HeaderValue) -> None:
        num_rows = stored[1].whole(0, len(self.known.arrays.get("numbers", ())))
        rows = self._numbers(stored[0], 3 * num_rows).reshape(-1, 3)
        starts, stops, tiles = rows.T
        are_in_memory = (
            np.all(starts >= 0)
            and np.all(starts <= stops)
            and np.all(stops <= self.graph.memory_bytes)
        )
        if not are_in_memory or np.any((tiles < 0) | (tiles >= self.graph.target.num_tiles)):
            stored.fail("a mapping to tiles")
        self.graph.mapping_log.frombytes(np.ascontiguousarray(rows, np.int64).tobytes())

    def _initial_value(self, stored: s.HeaderValue) -> None:
        tensor: Tensor = w.TENSOR.read(stored[0])
        num_values = stored[2].whole(0, tensor.num_elements)
        if num_values not in (1, tensor.num_elements):
            stored.fail("one value, or one for each element")
        values = self._values(stored[1], tensor.dtype, num_values)
        shaped_values = (
            np.broadcast_to(values, tensor.shape)
            if num_values != tensor.num_elements
            else values.reshape(tensor.shape)
        )
        self.graph.initial_values.append((tensor, shaped_values))

    def _values(self, stored: s.HeaderValue, dtype: type[DType], num_values: int) -> Array:
        stored_bytes = self._slice("values", stored, num_values * dtype.size)
        if dtype.numpy.kind == "b" and np.any(stored_bytes > 1):
            stored.fail("the index of values that are true or false")
        values: Array = stored_bytes.copy().view(dtype.numpy)
        return values

    # The methods below read vertices.

    def _compute_set(self, stored: s.HeaderValue) -> None:
        compute_set = self.graph.add_compute_set(s.TEXT.read(stored["name"]))
        if self.known.version > 2:
            compute_set.replicas = w.REPLICAS.read(stored["replicas"])
        orders_of_tables = [
            self._table(compute_set, stored_table) for stored_table in stored["tables"].items()
        ]
        sorted_order = np.sort(np.concatenate([np.zeros(0, np.int64), *orders_of_tables]))
        if not np.array_equal(sorted_order, np.arange(len(sorted_order))):
            stored.fail("a compute set whose vertices are numbered from 0")
        if any(len(sorted_order) % compute_set.replicas for sorted_order in orders_of_tables):
            stored.fail("a compute set with as many vertices in each replica")
        compute_set.num_vertices = len(sorted_order)

    def _table(self, compute_set: ComputeSet, stored: s.HeaderValue) -> Array:
        codelet: type[Vertex] = w.CODELET.read(stored["codelet"])
        if codelet in compute_set.tables:
            stored.fail("the only table of its codelet")
        table = table_of(self.graph, compute_set, codelet)
        num_vertices = stored["vertices"].whole(0, len(self.known.arrays.get("numbers", ())))
        edges, state = (dict(stored[name].entries()) for name in ("edges", "state"))
        if (set(edges), set(state)) != (set(table.edges), set(table.state)):
            stored.fail(f"a table of {codelet.__name__}")
        for name, stored_edge in edges.items():
            self._edge(table, name, stored_edge, num_vertices)
        for name, field in table.state.items():
            table.state_values[name] = list(self._values(state[name], field.dtype, num_vertices))
        tiles, order, estimates = (
            self._numbers(stored[name], num_vertices) for name in ("tiles", "order", "estimates")
        )
        Tiles(self.graph.target.num_tiles).numbers(tiles, f"{stored.where}.tiles")
        if np.any((estimates < -1) | (estimates > MOST_CYCLES)) or np.any(
            (order < 0) | (order >= 2**31)
        ):
            stored.fail("a table of vertices")
        table.tiles = array("i", tiles.astype(np.int32).tobytes())
        table.order = array("i", order.astype(np.int32).tobytes())
        table.estimates = (
            array("q", estimates.astype(np.int64).tobytes()) if np.any(estimates >= 0) else None
        )
        return order

    def _edge(
        self, table: VertexTable, name: str, stored: s.HeaderValue, num_vertices: int
    ) -> None:
        offsets, layout_numbers = (self._numbers(stored[i], num_vertices) for i in (0, 1))
        if np.any((layout_numbers < 0) | (layout_numbers >= len(self.layouts))) or np.any(
            (offsets < 0) | (offsets > MOST_BYTES)
        ):
            stored.fail("a column of views")
        depth = table.edges[name].depth
        ids_by_number = np.zeros(len(self.layouts), np.int32)
        for layout_number in np.unique(layout_numbers):
            layout = self.layouts[layout_number]
            ids_by_number[layout_number] = layout.id
            if isinstance(layout, ListLayout):
                is_valid = depth == 2 and all(len(part.shape) == 1 for _, part in layout.parts)
            else:
                is_valid = len(layout.shape) == depth or depth == 0 and layout.size == 1
            if not is_valid:
                stored.fail(f"a column of views for {table.edges[name].declaration()}")
        table.offsets[name] = array("q", offsets.astype(np.int64).tobytes())
        table.layouts[name] = array("i", ids_by_number[layout_numbers].tobytes())

    def _check_edges(self) -> None:
        """Check that vertices, apart from their own state, read and write only variables."""
        frozen = FrozenGraph(self.graph)
        for compute_set, table in frozen.tables():
            for name, field in table.fields.items():
                regions = frozen.intervals(table, name)
                if field.kind != "state" and not self._inside(regions.start, regions.stop):
                    self.header["compute_sets"][compute_set.id].fail(
                        "a compute set whose vertices access only variables"
                    )

    # The methods below read streams and programs.

    def _host(self) -> None:
        graph = self.graph
        modes = {mode.value: mode for mode in ReplicatedStreamMode}
        for stored in self.header["streams"].items():
            stream_fields = w.STREAM.read(stored)
            mode = stream_fields.pop("mode")
            depth = stream_fields.pop("buffering_depth")
            replicas = self._replicas(stored, stream_fields, stream_fields["num_elements"])
            if stream_fields.pop("to_device"):
                stream_mode = modes.get(s.TEXT.read(mode)) or stored.fail("a stream")
                new_stream = graph.add_host_to_device_fifo(
                    **stream_fields, mode=stream_mode, buffering_depth=depth
                )
            else:
                new_stream = graph.add_device_to_host_fifo(
                    **stream_fields, options={"buffering_depth": depth}
                )
            graph.streams[new_stream.handle] = replace(new_stream, replicas=replicas)
        for stored in self.header["host_accesses"].items():
            access_fields = w.HOST_ACCESS.read(stored)
            replicas = self._replicas(stored, access_fields, *access_fields["tensor"].shape[:1])
            (graph.create_host_write if access_fields.pop("write") else graph.create_host_read)(
                **access_fields
            )
            accesses = graph.host_accesses
            accesses[access_fields["handle"]] = replace(
                accesses[access_fields["handle"]], replicas=replicas
            )
        if self.known.version > 1:  # Files of version 1 have no remote buffers.
            for stored in self.header["remote_buffers"].items():
                buffer_fields = w.REMOTE_BUFFER.read(stored)
                replicas = self._replicas(stored, buffer_fields, self.graph.replicas)
                buffer = graph.add_remote_buffer(**buffer_fields)
                graph.remote_buffers[buffer.handle] = replace(buffer, replicas=replicas)

    def _replicas(
        self, stored: s.HeaderValue, fields: dict[str, s.Value], num_shared: int = 1
    ) -> int:
        """Remove the number of replicas from `fields`, and return it.

        `fields` are the fields of a stream, a remote buffer or a host access. The error of the file
        format is raised if `num_shared` elements or rows cannot be divided equally among the
        replicas.
        """
        num_replicas: int = fields.pop("replicas", 1)
        if num_replicas not in (1, self.graph.replicas) or num_shared % num_replicas:
            stored.fail("an object that can be divided equally among the replicas")
        return num_replicas

    def _programs(self) -> list[p.Program]:
        header = self.header
        known = self.known
        known["steps"] = s.many(w.STEP).read(header["steps"])
        known["nodes"] = nodes = []
        num_nodes_below: list[int] = []
        for stored in header["nodes"].items():
            children = () if "step" in stored.value else w.CHILDREN.read(stored["children"])
            num_nodes_below.append(1 + sum(num_nodes_below[child] for child in children))
            if num_nodes_below[-1] > MOST_NODES:
                stored.fail(f"a program of at most {MOST_NODES:,} nodes")
            nodes.append(
                w.in_table("steps").read(stored["step"])
                if "step" in stored.value
                else self._composite(stored, children)
            )
        programs = list(s.many(w.in_table("nodes")).read(header["programs"]))
        return programs or header["programs"].fail("a list of at least one program")

    def _composite(self, stored: s.HeaderValue, children: tuple[int, ...]) -> p.Program:
        kind = s.TEXT.read(stored["kind"])
        name = s.TEXT.read(stored["name"])
        if kind not in w.COMPOSITES:
            stored["kind"].fail("a program that this kit knows")
        make, num_children, fields_codec = w.COMPOSITES[kind]
        other_fields = fields_codec.read(stored)
        if kind == "Switch":
            num_children = len(other_fields["cases"]) + 1
        if num_children not in (None, len(children)):
            stored.fail("a call" if kind == "Call" else f"a {kind}")
        child_programs = [self.known["nodes"][child] for child in children]
        if kind != "Call":
            return make(name, *child_programs, **other_fields)
        if (name, children) not in self._calls:  # Equal calls share one program.
            self._calls[name, children] = make(self.graph.add_function(child_programs[0], name))
        return self._calls[name, children]
