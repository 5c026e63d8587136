"""A saved executable read back: a `Graph` and programs made anew through the calls that a learner would use.

Nothing of the file is trusted. Numbers are checked against the tables they point into, views against the variables that they
should lie in, and the graph is compiled again after that, with every check.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from ipu_teach import program as p
from ipu_teach.archive import MOST_NODES, Part, unpack
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.engine.codelets import DTYPES, resolve
from ipu_teach.engine.options import parsed
from ipu_teach.engine.written import EXECUTABLE
from ipu_teach.errors import ExecutableLoadError, IPUTeachError, did_you_mean, shown
from ipu_teach.graph.compute_set import ComputeSet, table_of
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.layouts import MOST_DIMENSIONS, Layout, ListLayout
from ipu_teach.graph.mapping import Tiles
from ipu_teach.graph.stream import DataStream, ReplicatedStreamMode
from ipu_teach.graph.table import MOST_CYCLES, VertexTable
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.variables import ALIGNMENT, MOST_BYTES
from ipu_teach.graph.vertex import Vertex
from ipu_teach.target import Target, make_target
from ipu_teach.types import UNSIGNED_INT, Array, DType, dtype_named

MOST_PIECES = 2**28  # elements of a view that are looked at one by one

Read = tuple[Graph, list[p.Program], dict[str, bool], dict[str, Any]]


def rebuild(data: bytes, codelets: Iterable[type[Vertex]]) -> Read:
    """(graph, programs, checks, options) of a saved executable. Raises `ExecutableLoadError`."""
    listed = _listed(codelets)
    header, arrays = unpack(data, EXECUTABLE)
    try:
        return _Reader(header, arrays, listed).read()
    except ExecutableLoadError:
        raise
    except IPUTeachError as error:
        raise ExecutableLoadError(
            f"The executable is damaged: {error.tried}", where=error.where, next_step="save it again."
        ) from error
    except Exception as error:  # what slipped through the checks is damage too
        raise ExecutableLoadError(f"""The executable is damaged: {type(error).__name__}: {shown(str(error))}.
            next:  save it again.""") from error


def _listed(codelets: Iterable[type[Vertex]]) -> list[type[Vertex]]:
    found = list(codelets) if isinstance(codelets, Iterable) and not isinstance(codelets, (str, type)) else [None]
    if not all(isinstance(c, type) and issubclass(c, Vertex) for c in found):
        raise ExecutableLoadError(f"""codelets was given {shown(codelets)}.
            next:  give a list of vertex classes: codelets=[DotProduct].""")
    return [c for c in found if c is not None]


class _Reader:
    def __init__(self, header: Part, arrays: dict[str, Array], codelets: list[type[Vertex]]) -> None:
        self.header = header
        self.arrays = arrays
        self.codelets = [resolve(part, codelets) for part in header.items("codelets")]
        self.graph = Graph(self._target())

    def read(self) -> Read:
        header = self.header
        checks = {name: header["checks"].flag(name) for name in ("races", "uninitialised", "estimates")}
        options = parsed(header["options"].value)
        if header.whole("alignment", 1, 2**20) != ALIGNMENT:
            header["alignment"].fail(f"the alignment of this kit, {ALIGNMENT}")
        self.layouts: list[Layout | ListLayout] = []
        for part in header.items("layouts"):
            self.layouts.append(self._layout(part))
        self._variables()  # after the layouts, which keep their order so: groups of vertices come out as they were
        self.tensors = [self._tensor(part) for part in header.items("tensors")]
        self._mapping()
        for part in header.items("initial_values"):
            self._initial_value(part)
        for part in header.items("compute_sets"):
            self._compute_set(part)
        self._check_edges()
        self._host()
        programs = self._programs()
        return self.graph, programs, checks, options

    def _target(self) -> Target:
        part = self.header["target"]
        fields = {name: value.value for name, value in part.entries("fields")}
        return make_target(part.text("version"), **fields)

    def _numbers(self, part: Part, key: str | int, count: int) -> Array:
        """`count` numbers from the place that `key` says."""
        return self._slice("numbers", part, key, count)

    def _slice(self, name: str, part: Part, key: str | int, count: int) -> Array:
        if name not in self.arrays:
            self.header.fail(f"complete: {name}.npy is missing")
        stored = self.arrays[name]
        start = part.whole(key, 0, len(stored))
        if start + count > len(stored):
            part[key].fail(f"the start of {count:,} stored numbers")
        found: Array = stored[start : start + count]
        return found

    def _dtype(self, part: Part, key: str | int) -> type[DType]:
        name = part.text(key)
        found = dtype_named(name)
        if found is None:
            part[key].fail(f"a dtype ({did_you_mean(name, DTYPES)}known are {', '.join(DTYPES)})")
        return found

    # Variables and views

    def _variables(self) -> None:
        graph = self.graph
        for part in self.header.items("variables"):
            shape = part.numbers(2, 0, MOST_BYTES, MOST_DIMENSIONS)
            graph._new_variable(self._dtype(part, 1), shape, part.text(0), constant=part.flag(3))
        if graph.memory_bytes != self.header.whole("memory_bytes", 0, 2 * MOST_BYTES):
            self.header["memory_bytes"].fail(f"the size of its variables, {graph.memory_bytes:,} bytes")
        self._starts = np.array([v.start for v in graph.variables], np.int64)
        self._stops = np.array([v.stop for v in graph.variables], np.int64)
        self._before = np.concatenate(([0], np.cumsum(self._stops - self._starts)))

    def _covered(self, byte: Array) -> Array:
        """How many bytes of variables lie below each address."""
        index = np.searchsorted(self._starts, byte, "right") - 1
        known = np.maximum(index, 0)
        if not len(self._starts):
            return np.zeros(len(byte), np.int64)
        inside = np.minimum(byte, self._stops[known]) - self._starts[known]
        return np.where(index < 0, 0, self._before[known] + inside)

    def _inside(self, start: Array, stop: Array) -> bool:
        """True if every byte from each `start` to its `stop` belongs to a variable."""
        return bool(np.all(start >= 0) and np.all(self._covered(stop) - self._covered(start) == stop - start))

    def _layout(self, part: Part) -> Layout | ListLayout:
        graph = self.graph
        if isinstance(part.value, dict) and "parts" in part.value:
            parts = []
            for pair in part.items("parts"):
                inner = self.layouts[pair.whole(1, 0, len(self.layouts) - 1)] if self.layouts else part.fail("a list layout")
                if not isinstance(inner, Layout):
                    pair.fail("a part of a list")
                parts.append((pair.whole(0, -MOST_BYTES, MOST_BYTES), inner))
            return graph.list_layout(tuple(parts)) if parts and parts[0][0] == 0 else part.fail("a list layout")
        shape = part.numbers("shape", 0, MOST_BYTES, MOST_DIMENSIONS)
        size = prod(max(n, 1) for n in shape)
        if size > MOST_BYTES:
            part.fail("a shape that fits into memory")
        if "strides" in part.value:
            strides = part.numbers("strides", -MOST_BYTES, MOST_BYTES, MOST_DIMENSIONS)
            if len(strides) != len(shape) or sum(n * abs(s) for n, s in zip(shape, strides, strict=True)) > MOST_BYTES:
                part.fail("a layout")
            layout = graph.strided(shape, strides)
            if not layout.contiguous and size > MOST_PIECES and _pieces(shape, strides) > MOST_PIECES:
                part.fail(f"a layout of at most {MOST_PIECES:,} pieces")
            return layout
        positions = self._numbers(part, "at", prod(shape)).reshape(shape)
        if positions.size and (positions.flat[0] != 0 or np.abs(positions).max() > MOST_BYTES):
            part.fail("a list of positions")
        return graph.listed(UNSIGNED_INT, positions).layout

    def _tensor(self, part: Part) -> Tensor:
        dtype, layout = self._dtype(part, 0), self._at(part, 2, self.layouts)
        if not isinstance(layout, Layout):
            part.fail("a tensor")
        tensor = Tensor.of(self.graph, dtype, part.whole(1, 0, MOST_BYTES), layout)
        starts, lengths = layout.extent
        begin = (tensor.offset + starts) * dtype.size
        if not self._inside(begin, begin + lengths * dtype.size):
            part.fail("a view of the variables")
        return tensor

    def _at(self, part: Part, key: str | int, table: list[Any]) -> Any:
        """The entry of `table` that `key` names by its number."""
        if not table:
            part[key].fail("in its table, which is empty")
        return table[part.whole(key, 0, len(table) - 1)]

    def _maybe(self, part: Part, key: str) -> Tensor | None:
        return None if part[key].value is None else self._named_tensor(part, key)

    def _named_tensor(self, part: Part, key: str | int) -> Tensor:
        found = self._at(part, key, self.tensors)
        assert isinstance(found, Tensor)
        return found

    def _mapping(self) -> None:
        part = self.header["mapping"]
        count = part.whole(1, 0, len(self.arrays.get("numbers", ())))
        log = self._numbers(part, 0, 3 * count).reshape(-1, 3)
        start, stop, tile = log.T
        ordered = np.all(start >= 0) and np.all(start <= stop) and np.all(stop <= self.graph.memory_bytes)
        if not ordered or np.any((tile < 0) | (tile >= self.graph.target.num_tiles)):
            part.fail("a mapping to tiles")
        self.graph.mapping_log.frombytes(np.ascontiguousarray(log, np.int64).tobytes())

    def _initial_value(self, part: Part) -> None:
        tensor = self._named_tensor(part, 0)
        count = part.whole(2, 0, tensor.num_elements)
        if count not in (1, tensor.num_elements):
            part.fail("one value, or one for each element")
        values = self._values(part, 1, tensor.dtype, count)
        shaped = np.broadcast_to(values, tensor.shape) if count != tensor.num_elements else values.reshape(tensor.shape)
        self.graph.initial_values.append((tensor, shaped))

    def _values(self, part: Part, key: str | int, dtype: type[DType], count: int) -> Array:
        content = self._slice("values", part, key, count * dtype.size)
        if dtype.numpy.kind == "b" and np.any(content > 1):
            part[key].fail("the start of true and false")
        found: Array = content.copy().view(dtype.numpy)
        return found

    # Vertices

    def _compute_set(self, part: Part) -> None:
        compute_set = self.graph.add_compute_set(part.text("name"))
        orders = [self._table(compute_set, table) for table in part.items("tables")]
        order = np.sort(np.concatenate([np.zeros(0, np.int64), *orders]))
        if not np.array_equal(order, np.arange(len(order))):
            part.fail("a compute set whose vertices are numbered")
        compute_set.num_vertices = len(order)

    def _table(self, compute_set: ComputeSet, part: Part) -> Array:
        codelet: type[Vertex] = self._at(part, "codelet", self.codelets)
        if codelet in compute_set.tables:
            part.fail("a table of a codelet of its own")
        table = table_of(self.graph, compute_set, codelet)
        count = part.whole("vertices", 0, len(self.arrays.get("numbers", ())))
        names = {name for name, _ in part.entries("edges")}, {name for name, _ in part.entries("state")}
        if names != (set(table.edges), set(table.state)):
            part.fail(f"a table of {codelet.__name__}")
        for name, edge in part.entries("edges"):
            self._edge(table, name, edge, count)
        for name, field in table.state.items():
            table.state_values[name] = list(self._values(part["state"], name, field.dtype, count))
        tiles, order, estimates = (self._numbers(part, n, count) for n in ("tiles", "order", "estimates"))
        Tiles(self.graph.target.num_tiles).numbers(tiles, f"{part.where}.tiles")
        if np.any((estimates < -1) | (estimates > MOST_CYCLES)) or np.any((order < 0) | (order >= 2**31)):
            part.fail("a table of vertices")
        table.tiles = array("i", tiles.astype(np.int32).tobytes())
        table.order = array("i", order.astype(np.int32).tobytes())
        table.estimates = array("q", estimates.astype(np.int64).tobytes()) if np.any(estimates >= 0) else None
        return order

    def _edge(self, table: VertexTable, name: str, part: Part, count: int) -> None:
        offsets, numbers = self._numbers(part, 0, count), self._numbers(part, 1, count)
        if np.any((numbers < 0) | (numbers >= len(self.layouts))) or np.any((offsets < 0) | (offsets > MOST_BYTES)):
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
        """Every region of every vertex lies in variables."""
        frozen = FrozenGraph(self.graph)
        for compute_set, table in frozen.tables():
            for name, field in table.fields.items():
                edges = frozen.intervals(table, name)
                if field.kind != "state" and not self._inside(edges.start, edges.stop):
                    self.header["compute_sets"][compute_set.id].fail("a set of vertices whose views lie in variables")

    # Streams and programs

    def _host(self) -> None:
        modes = {mode.value: mode for mode in ReplicatedStreamMode}
        for part in self.header.items("streams"):
            handle, dtype = part.text(0), self._dtype(part, 1)
            size, depth = part.whole(2, 1, MOST_BYTES), part.whole(4, 1, 2**20)
            if part.flag(3):
                mode = modes.get(part.text(5)) or part.fail("a stream")
                self.graph.add_host_to_device_fifo(handle, dtype, size, mode, buffering_depth=depth)
            else:
                self.graph.add_device_to_host_fifo(handle, dtype, size, {"buffering_depth": depth})
        for part in self.header.items("host_accesses"):
            make = self.graph.create_host_write if part.flag(2) else self.graph.create_host_read
            make(part.text(0), self._named_tensor(part, 1))

        # Version 1 had none.
        for part in self.header.items("remote_buffers") if self.header.whole("version", 1, EXECUTABLE.version) > 1 else ():
            size, rows = part.whole(2, 1, MOST_BYTES), part.whole(3, 1, MOST_BYTES)
            self.graph.add_remote_buffer(part.text(0), self._dtype(part, 1), size, rows)

    def _programs(self) -> list[p.Program]:
        self._steps: list[p.Program] = [self._step(part) for part in self.header.items("steps")]
        self._nodes: list[p.Program] = []
        sizes: list[int] = []
        functions: dict[tuple[str, int], p.Call] = {}
        for part in self.header.items("nodes"):
            children = [] if "step" in part.value else part.numbers("children", 0, len(self._nodes) - 1, MOST_NODES)
            sizes.append(1 + sum(sizes[child] for child in children))
            if sizes[-1] > MOST_NODES:
                part.fail(f"a program of at most {MOST_NODES:,} parts")
            if "step" in part.value:
                self._nodes.append(self._at(part, "step", self._steps))
            elif part.text("kind") == "Call":
                key = (part.text("name"), children[0] if len(children) == 1 else part.fail("a call"))
                if key not in functions:
                    functions[key] = p.Call(self.graph.add_function(self._nodes[key[1]], key[0]))
                self._nodes.append(functions[key])
            else:
                self._nodes.append(self._composite(part, [self._nodes[child] for child in children]))
        roots = self.header["programs"]
        count = len(roots.value) if isinstance(roots.value, list) else roots.fail("a list")
        programs: list[p.Program] = [self._at(roots, i, self._nodes) for i in range(count)]
        if not programs:
            self.header["programs"].fail("a list of at least one program")
        return programs

    def _composite(self, part: Part, children: list[p.Program]) -> p.Program:
        kind, name = part.text("kind"), part.text("name")
        wanted = {"Repeat": 1, "RepeatWhileTrue": 2, "RepeatWhileFalse": 2, "If": 2, "Block": 1, "ErrorProgram": 2}
        if kind in wanted and len(children) != wanted[kind]:
            part.fail(f"a {kind}")
        match kind:
            case "Sequence":
                return p.Sequence(*children, name=name)
            case "Repeat":
                return p.Repeat(part.whole("count", 0, 2**63), children[0])
            case "RepeatWhileTrue" | "RepeatWhileFalse":
                loop = p.RepeatWhileTrue if kind == "RepeatWhileTrue" else p.RepeatWhileFalse
                return loop(children[0], self._named_tensor(part, "predicate"), children[1])
            case "If":
                return p.If(self._named_tensor(part, "predicate"), *children)
            case "Block":
                return p.Block(children[0], name)
            case "ErrorProgram":
                return p.ErrorProgram(name, children[0])
            case "Switch":
                cases = part.numbers("cases", -(2**63), 2**63, MOST_NODES)
                if len(children) != len(cases) + 1:
                    part.fail("a Switch")
                pairs = zip(cases, children, strict=False)
                switch = p.Switch(self._named_tensor(part, "predicate"), list(pairs), children[-1])
                switch.checked = part.flag("checked")
                return switch
        part["kind"].fail("a program that this kit knows")

    def _step(self, part: Part) -> p.Program:
        match part.text("kind"):
            case "Execute":
                return p.Execute(self._at(part, "compute_set", self.graph.compute_sets), self._maybe(part, "out"))
            case "Copy":
                return p.Copy(self._side(part, "source"), self._side(part, "destination"))
            case "RemoteCopy":
                tensor, offset = self._named_tensor(part, "tensor"), self._maybe(part, "offset")
                buffer = self.graph.remote_buffers.get(part.text("buffer")) or part["buffer"].fail("a remote buffer")
                return p.Copy(tensor, buffer, offset) if part.flag("store") else p.Copy(buffer, tensor, offset)
            case "PrintTensor":
                fmt = part["fmt"]
                numbers = [fmt.whole(i, 0, 2**31) for i in range(4)]
                made = p.PrintTensorFmt(*numbers, *(fmt.text(i) for i in range(4, 7)))  # type: ignore[arg-type]
                return p.PrintTensor(part.text("title"), self._named_tensor(part, "tensor"), made)
            case "WriteUndef":
                return p.WriteUndef(self._named_tensor(part, "tensor"))
            case "Sync":
                kinds = {kind.value: kind for kind in p.SyncType}
                return p.Sync(kinds.get(part.text("type")) or part["type"].fail("a kind of sync"))
            case "Abort":
                predicate = self._maybe(part, "predicate")
                message = part.text("message")
                return p.Abort(message) if predicate is None else p.AbortOnCondition(predicate, message)
            case "CycleStamp":
                tensor, since = self._named_tensor(part, "tensor"), self._maybe(part, "since")
                for stamp in (tensor, since or tensor):
                    if stamp.dtype is not UNSIGNED_INT or stamp.shape != (2,):
                        part.fail("a stamp of two UNSIGNED_INT")
                return p.CycleStamp(tensor, since)
        part["kind"].fail("a step that this kit knows")

    def _side(self, part: Part, key: str) -> Tensor | DataStream:
        name = part[key].value
        if isinstance(name, str):
            return self.graph.streams.get(name) or part[key].fail("a stream of the graph")
        return self._named_tensor(part, key)


def _pieces(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """At most how many elements a strided view touches: axes of stride 0 touch the same ones."""
    return prod(n for n, s in zip(shape, strides, strict=True) if s)
