"""Read a saved executable: build a `Graph` and programs through the calls that a learner would use.

Everything in the file is checked: numbers against the tables that they are indices of, and views
against the variables that they are part of. The graph is then compiled again, with all checks of
the compiler.
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

MOST_PIECES = 2**28  # elements of a view that are checked one by one

Options = TypeVar("Options")  # the type of the engine's options, which only the engine knows
# it takes whatever the file has, and refuses what is not options
Parsed: TypeAlias = Callable[[Any], Options]
Read: TypeAlias = tuple[Graph, list[p.Program], dict[str, bool], Options]


def rebuild(
    data: bytes, codelets: Iterable[type[Vertex]], parsed: Parsed[Options]
) -> Read[Options]:
    """Return (graph, programs, checks, options) of a saved executable.

    `parsed` checks the options, whose meaning is up to the engine. Raises `ExecutableLoadError`.
    """
    listed = _listed(codelets)
    return s.load(data, w.EXECUTABLE, lambda header: _Reader(header, listed).read(parsed))


def _listed(codelets: Iterable[type[Vertex]]) -> list[type[Vertex]]:
    entries = (
        list(codelets)
        if isinstance(codelets, Iterable) and not isinstance(codelets, (str, type))
        else [None]
    )
    if not all(isinstance(c, type) and issubclass(c, Vertex) for c in entries):
        raise ExecutableLoadError(f"""codelets was given {shown(codelets)}.
            next:  give a list of vertex classes: codelets=[DotProduct].""")
    return [c for c in entries if c is not None]


class _Reader:
    def __init__(self, header: s.HeaderValue, codelets: list[type[Vertex]]) -> None:
        self.header = header
        self.known = header.known
        self.known["codelets"] = [resolve(part, codelets) for part in header["codelets"].items()]
        self.graph = Graph(s.TARGET.read(header["target"]))
        self.known.update(
            streams=self.graph.streams,
            remote_buffers=self.graph.remote_buffers,
            compute_sets=self.graph.compute_sets,
        )
        if self.known.version > 2:  # version 2 and older have no replicas
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
        for part in header["layouts"].items():
            self.layouts.append(self._layout(part))
        # after the layouts, which must get their old order, so that groups of vertices stay the
        # same
        self._variables()
        known["tensors"] = [self._tensor(part) for part in header["tensors"].items()]
        self._mapping(header["mapping"])
        for part in header["initial_values"].items():
            self._initial_value(part)
        for part in header["compute_sets"].items():
            self._compute_set(part)
        self._check_edges()
        self._host()
        return self.graph, self._programs(), checks, options

    def _numbers(self, part: s.HeaderValue, count: int) -> Array:
        """Return `count` numbers that begin at the place that `part` gives."""
        return self._slice("numbers", part, count)

    def _slice(self, name: str, part: s.HeaderValue, count: int) -> Array:
        if name not in self.known.arrays:
            self.header.fail(f"complete: {name}.npy is missing")
        stored = self.known.arrays[name]
        start = part.whole(0, len(stored))
        if start + count > len(stored):
            part.fail(f"the start of {count:,} stored numbers")
        return stored[start : start + count]

    # Variables and views

    def _variables(self) -> None:
        graph = self.graph
        size = self.header["memory_bytes"]
        for part in self.header["variables"].items():
            graph._new_variable(**w.VARIABLE.read(part))
        if graph.memory_bytes != size.whole(0, 2 * MOST_BYTES):
            size.fail(f"the size of its variables, {graph.memory_bytes:,} bytes")
        self._starts = np.array([v.start for v in graph.variables], np.int64)
        self._stops = np.array([v.stop for v in graph.variables], np.int64)

    def _inside(self, start: Array, stop: Array) -> bool:
        """Return whether every byte from each `start` to its `stop` belongs to a variable."""
        below = [covered(self._starts, self._stops, place) for place in (start, stop)]
        return bool(np.all(start >= 0) and np.all(below[1] - below[0] == stop - start))

    def _layout(self, part: s.HeaderValue) -> Layout | ListLayout:
        graph = self.graph
        if isinstance(part.value, dict) and "parts" in part.value:
            parts = []
            for pair in part["parts"].items():
                inner = (
                    self.layouts[pair[1].whole(0, len(self.layouts) - 1)]
                    if self.layouts
                    else part.fail("a list layout")
                )
                if not isinstance(inner, Layout):
                    pair.fail("a part of a list")
                parts.append((pair[0].whole(-MOST_BYTES, MOST_BYTES), inner))
            if parts and parts[0][0] == 0:
                return graph.list_layout(tuple(parts))
            return part.fail("a list layout")
        shape = w.SHAPE.read(part["shape"])
        size = prod(max(n, 1) for n in shape)
        if size > MOST_BYTES:
            part.fail("a shape that fits into memory")
        if "strides" in part.value:
            strides = s.numbers(s.whole(-MOST_BYTES, MOST_BYTES), MOST_DIMENSIONS).read(
                part["strides"]
            )
            if (
                len(strides) != len(shape)
                or sum(n * abs(x) for n, x in zip(shape, strides, strict=True)) > MOST_BYTES
            ):
                part.fail("a layout")
            layout = graph.strided(shape, strides)
            # only different elements count: axes of stride 0 repeat the same ones
            touched = prod(n for n, stride in zip(shape, strides, strict=True) if stride)
            if not layout.contiguous and size > MOST_PIECES and touched > MOST_PIECES:
                part.fail(f"a layout of at most {MOST_PIECES:,} pieces")
            return layout
        positions = self._numbers(part["at"], prod(shape)).reshape(shape)
        if positions.size and (positions.flat[0] != 0 or np.abs(positions).max() > MOST_BYTES):
            part.fail("a list of positions")
        return graph.listed(UNSIGNED_INT, positions).layout

    def _tensor(self, part: s.HeaderValue) -> Tensor:
        view = w.VIEW.read(part)
        if not isinstance(view["layout"], Layout):
            part.fail("a tensor")
        tensor = Tensor.of(self.graph, **view)
        if not self._inside(*tensor.byte_extent()):
            part.fail("a view of the variables")
        return tensor

    def _mapping(self, part: s.HeaderValue) -> None:
        count = part[1].whole(0, len(self.known.arrays.get("numbers", ())))
        log = self._numbers(part[0], 3 * count).reshape(-1, 3)
        start, stop, tile = log.T
        ordered = (
            np.all(start >= 0) and np.all(start <= stop) and np.all(stop <= self.graph.memory_bytes)
        )
        if not ordered or np.any((tile < 0) | (tile >= self.graph.target.num_tiles)):
            part.fail("a mapping to tiles")
        self.graph.mapping_log.frombytes(np.ascontiguousarray(log, np.int64).tobytes())

    def _initial_value(self, part: s.HeaderValue) -> None:
        tensor: Tensor = w.TENSOR.read(part[0])
        count = part[2].whole(0, tensor.num_elements)
        if count not in (1, tensor.num_elements):
            part.fail("one value, or one for each element")
        values = self._values(part[1], tensor.dtype, count)
        shaped = (
            np.broadcast_to(values, tensor.shape)
            if count != tensor.num_elements
            else values.reshape(tensor.shape)
        )
        self.graph.initial_values.append((tensor, shaped))

    def _values(self, part: s.HeaderValue, dtype: type[DType], count: int) -> Array:
        content = self._slice("values", part, count * dtype.size)
        if dtype.numpy.kind == "b" and np.any(content > 1):
            part.fail("the start of true and false")
        values: Array = content.copy().view(dtype.numpy)
        return values

    # Vertices

    def _compute_set(self, part: s.HeaderValue) -> None:
        compute_set = self.graph.add_compute_set(s.TEXT.read(part["name"]))
        if self.known.version > 2:
            compute_set.replicas = w.REPLICAS.read(part["replicas"])
        orders = [self._table(compute_set, table) for table in part["tables"].items()]
        order = np.sort(np.concatenate([np.zeros(0, np.int64), *orders]))
        if not np.array_equal(order, np.arange(len(order))):
            part.fail("a compute set whose vertices are numbered")
        if any(len(order) % compute_set.replicas for order in orders):
            part.fail("a compute set with as many vertices in each replica")
        compute_set.num_vertices = len(order)

    def _table(self, compute_set: ComputeSet, part: s.HeaderValue) -> Array:
        codelet: type[Vertex] = w.CODELET.read(part["codelet"])
        if codelet in compute_set.tables:
            part.fail("a table of a codelet of its own")
        table = table_of(self.graph, compute_set, codelet)
        count = part["vertices"].whole(0, len(self.known.arrays.get("numbers", ())))
        edges, state = (dict(part[name].entries()) for name in ("edges", "state"))
        if (set(edges), set(state)) != (set(table.edges), set(table.state)):
            part.fail(f"a table of {codelet.__name__}")
        for name, edge in edges.items():
            self._edge(table, name, edge, count)
        for name, field in table.state.items():
            table.state_values[name] = list(self._values(state[name], field.dtype, count))
        tiles, order, estimates = (
            self._numbers(part[name], count) for name in ("tiles", "order", "estimates")
        )
        Tiles(self.graph.target.num_tiles).numbers(tiles, f"{part.where}.tiles")
        if np.any((estimates < -1) | (estimates > MOST_CYCLES)) or np.any(
            (order < 0) | (order >= 2**31)
        ):
            part.fail("a table of vertices")
        table.tiles = array("i", tiles.astype(np.int32).tobytes())
        table.order = array("i", order.astype(np.int32).tobytes())
        table.estimates = (
            array("q", estimates.astype(np.int64).tobytes()) if np.any(estimates >= 0) else None
        )
        return order

    def _edge(self, table: VertexTable, name: str, part: s.HeaderValue, count: int) -> None:
        offsets, numbers = (self._numbers(part[i], count) for i in (0, 1))
        if np.any((numbers < 0) | (numbers >= len(self.layouts))) or np.any(
            (offsets < 0) | (offsets > MOST_BYTES)
        ):
            part.fail("a column of views")
        depth = table.edges[name].depth
        ids = np.zeros(len(self.layouts), np.int32)
        for number in np.unique(numbers):
            layout = self.layouts[number]
            ids[number] = layout.id
            if isinstance(layout, ListLayout):
                fits = depth == 2 and all(len(inner.shape) == 1 for _, inner in layout.parts)
            else:
                fits = len(layout.shape) == depth or depth == 0 and layout.size == 1
            if not fits:
                part.fail(f"a column of views for {table.edges[name].declaration()}")
        table.offsets[name] = array("q", offsets.astype(np.int64).tobytes())
        table.layouts[name] = array("i", ids[numbers].tobytes())

    def _check_edges(self) -> None:
        """Check that every region of every vertex is inside variables."""
        frozen = FrozenGraph(self.graph)
        for compute_set, table in frozen.tables():
            for name, field in table.fields.items():
                edges = frozen.intervals(table, name)
                if field.kind != "state" and not self._inside(edges.start, edges.stop):
                    self.header["compute_sets"][compute_set.id].fail(
                        "a set of vertices whose views lie in variables"
                    )

    # Streams and programs

    def _host(self) -> None:
        graph = self.graph
        modes = {mode.value: mode for mode in ReplicatedStreamMode}
        for part in self.header["streams"].items():
            stream = w.STREAM.read(part)
            mode = stream.pop("mode")
            depth = stream.pop("buffering_depth")
            replicas = self._replicas(part, stream, stream["num_elements"])
            if stream.pop("to_device"):
                stream_mode = modes.get(s.TEXT.read(mode)) or part.fail("a stream")
                new_stream = graph.add_host_to_device_fifo(
                    **stream, mode=stream_mode, buffering_depth=depth
                )
            else:
                new_stream = graph.add_device_to_host_fifo(
                    **stream, options={"buffering_depth": depth}
                )
            graph.streams[new_stream.handle] = replace(new_stream, replicas=replicas)
        for part in self.header["host_accesses"].items():
            access = w.HOST_ACCESS.read(part)
            replicas = self._replicas(part, access, *access["tensor"].shape[:1])
            (graph.create_host_write if access.pop("write") else graph.create_host_read)(**access)
            known = graph.host_accesses
            known[access["handle"]] = replace(known[access["handle"]], replicas=replicas)
        if self.known.version > 1:  # version 1 has no remote buffers
            for part in self.header["remote_buffers"].items():
                fields = w.REMOTE_BUFFER.read(part)
                replicas = self._replicas(part, fields, self.graph.replicas)
                buffer = graph.add_remote_buffer(**fields)
                graph.remote_buffers[buffer.handle] = replace(buffer, replicas=replicas)

    def _replicas(self, part: s.HeaderValue, fields: dict[str, s.Value], shared: int = 1) -> int:
        """Return the number of replicas that share an object, and remove it from `fields`.

        It is an error if `shared` cannot be divided between them.
        """
        count: int = fields.pop("replicas", 1)
        if count not in (1, self.graph.replicas) or shared % count:
            part.fail("something that replicas have equal shares of")
        return count

    def _programs(self) -> list[p.Program]:
        header = self.header
        known = self.known
        known["steps"] = s.many(w.STEP).read(header["steps"])
        known["nodes"] = nodes = []
        sizes: list[int] = []
        for part in header["nodes"].items():
            children = () if "step" in part.value else w.CHILDREN.read(part["children"])
            sizes.append(1 + sum(sizes[child] for child in children))
            if sizes[-1] > MOST_NODES:
                part.fail(f"a program of at most {MOST_NODES:,} parts")
            nodes.append(
                w.in_table("steps").read(part["step"])
                if "step" in part.value
                else self._composite(part, children)
            )
        programs = list(s.many(w.in_table("nodes")).read(header["programs"]))
        return programs or header["programs"].fail("a list of at least one program")

    def _composite(self, part: s.HeaderValue, children: tuple[int, ...]) -> p.Program:
        kind = s.TEXT.read(part["kind"])
        name = s.TEXT.read(part["name"])
        if kind not in w.COMPOSITES:
            part["kind"].fail("a program that this kit knows")
        make, size, codec = w.COMPOSITES[kind]
        besides = codec.read(part)
        if kind == "Switch":
            size = len(besides["cases"]) + 1
        if size not in (None, len(children)):
            part.fail("a call" if kind == "Call" else f"a {kind}")
        below = [self.known["nodes"][child] for child in children]
        if kind != "Call":
            return make(name, *below, **besides)
        if (name, children) not in self._calls:  # equal calls of a function are one program
            self._calls[name, children] = make(self.graph.add_function(below[0], name))
        return self._calls[name, children]
