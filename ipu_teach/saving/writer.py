"""Write a compiled program in the form that `archive` stores and `reader` reads.

Views are stored in two tables. An entry of the table of layouts has the positions of elements. An
entry of the table of tensors has a dtype, an offset and the index of a layout. The tree of a
program is stored as a list of nodes. In the list, equal nodes appear once, and children come before
their parents. `LEAVES` has the codec of each kind of step, and `COMPOSITES` has the codec of each
kind of program that contains other programs. Both are used for writing and for reading.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields
from typing import NamedTuple, NoReturn

import numpy as np

from ipu_teach import program as p
from ipu_teach.compile import Compiled, programs as c
from ipu_teach.compile.freeze import FrozenGraph, FrozenTable
from ipu_teach.errors import ExecutableLoadError, NotOfferedError, did_you_mean
from ipu_teach.graph import DataStream, RemoteBuffer, Tensor
from ipu_teach.graph.layouts import MOST_DIMENSIONS, Layout, ListLayout
from ipu_teach.graph.replicas import MOST_REPLICAS
from ipu_teach.graph.variable_table import ALIGNMENT, MOST_BYTES
from ipu_teach.saving import schema as s
from ipu_teach.saving.archive import MOST_NODES, Format
from ipu_teach.saving.codelet_sources import DTYPES, described
from ipu_teach.types import UNSIGNED_INT, Array, DType, dtype_named

EXECUTABLE = Format(
    "executable",
    version=3,
    writer="Executable.save",
    error=ExecutableLoadError,
    missing=ExecutableLoadError,
)


def written(compiled: Compiled, checks: Mapping[str, bool], options: Mapping[str, s.Json]) -> bytes:
    """Return the contents of the file of an executable.

    `checks` maps the name of each of the compiler's checks to whether it is switched on. `options`
    are the options of the engine.

    :raises NotOfferedError: if the program cannot be saved.
    """
    return _Writer(compiled).file(checks, options)


def _refuse(subject: str) -> NoReturn:
    raise NotOfferedError(f"""{subject} cannot be saved in an executable.
        next:  build the graph and run it in the same process: Engine(graph, program).""")


# Codecs of values that are stored in tables of the file


def in_table(
    table: str, write: Callable[[s.Value, s.Columns], s.Json] = lambda value, _: value
) -> s.Codec:
    """Return the codec of an object that is an entry in one of the file's tables.

    The file stores the index of the entry in the table with the name `table`. `write(value,
    columns)` returns the index. If `write` is not given, the value itself must be the index.
    Reading returns the entry, or raises the error of the file format if there is none with that
    index.
    """
    index_codec = s.index(table)

    def read(stored: s.HeaderValue) -> s.Value:
        return (
            index_codec.read(stored)
            if stored.known[table]
            else stored.fail("in its table, which is empty")
        )

    return s.Codec(write, read)


def _read_dtype(stored: s.HeaderValue) -> type[DType]:
    name = s.TEXT.read(stored)
    return dtype_named(name) or stored.fail(
        f"a dtype ({did_you_mean(name, DTYPES)}known are {', '.join(DTYPES)})"
    )


def _write_layout(layout: Layout | ListLayout, columns: s.Columns) -> dict[str, s.Json]:
    if not isinstance(layout, Layout):
        return {
            "parts": [
                [delta, LAYOUT.write(layout_of_part, columns)]
                for delta, layout_of_part in layout.parts
            ]
        }
    shape = {"shape": list(layout.shape)}
    if layout.strides is not None:
        return shape | {"strides": list(layout.strides)}
    return shape | {"at": columns.put("numbers", layout.positions)}


DTYPE = s.Codec(lambda dtype, _: dtype.__name__, _read_dtype)
LAYOUT = in_table(
    "layouts",
    s.once("layouts", s.Codec(_write_layout, lambda _: None), lambda layout: layout.id).write,
)
VIEW = s.row(dict, dtype=DTYPE, offset=s.whole(most=MOST_BYTES), layout=LAYOUT)
TENSOR = in_table("tensors", s.once("tensors", VIEW, id).write)
CODELET = in_table(
    "codelets", s.once("codelets", s.Codec(lambda c, _: described(c), lambda _: None), id).write
)
MAYBE = s.maybe(TENSOR)


# Codecs of the parts of a graph

SHAPE = s.numbers(s.whole(most=MOST_BYTES), MOST_DIMENSIONS)
VARIABLE = s.row(dict, name=s.TEXT, dtype=DTYPE, shape=SHAPE, constant=s.FLAG)
SIZE = s.whole(1, MOST_BYTES)
REPLICAS = s.since(3)(s.whole(1, MOST_REPLICAS))
# This codec reads any value. The reader then checks the value, but only for streams to the device,
# because other streams have no mode.
MODE = s.Codec(lambda mode, _: mode.value, lambda part: part)
STREAM = s.row(
    dict,
    handle=s.TEXT,
    dtype=DTYPE,
    num_elements=SIZE,
    to_device=s.FLAG,
    buffering_depth=s.whole(1, 2**20),
    mode=MODE,
    replicas=REPLICAS,
)
HOST_ACCESS = s.row(dict, handle=s.TEXT, tensor=TENSOR, write=s.FLAG, replicas=REPLICAS)
REMOTE_BUFFER = s.row(
    dict, handle=s.TEXT, dtype=DTYPE, num_elements=SIZE, repeats=SIZE, replicas=REPLICAS
)


# Codecs of steps


def _handle(table: str, wanted: str) -> s.Codec:
    """Return the codec of a stream or a remote buffer, which the file stores as its handle.

    In the reader, `known[table]` is a dict from handles to these objects. `wanted` describes the
    objects in error messages.
    """

    def read(stored: s.HeaderValue) -> s.Value:
        return stored.known[table].get(s.TEXT.read(stored)) or stored.fail(wanted)

    return s.Codec(lambda value, _: value.handle, read)


STREAM_OF = _handle("streams", "a stream of the graph")
BUFFER_OF = _handle("remote_buffers", "a remote buffer")


def _write_side(side: p.Side, columns: s.Columns) -> s.Json:
    if not isinstance(side, (DataStream, Tensor)):
        _refuse(f"A copy of {type(side).__name__}")
    return (STREAM_OF if isinstance(side, DataStream) else TENSOR).write(side, columns)


def _remote_copy(
    tensor: Tensor, buffer: RemoteBuffer, offset: Tensor | None, store: bool
) -> p.Copy:
    return p.Copy(tensor, buffer, offset) if store else p.Copy(buffer, tensor, offset)


def _abort(message: str, predicate: Tensor | None) -> p.Program:
    return p.Abort(message) if predicate is None else p.AbortOnCondition(predicate, message)


def _is_dealt(copy: p.Copy) -> bool:
    buffer = copy.source if isinstance(copy.source, RemoteBuffer) else copy.destination
    assert isinstance(buffer, RemoteBuffer)
    return copy.offset is None or copy.offset.num_elements % buffer.replicas == 0


def _is_stamp(stamp: p.CycleStamp) -> bool:
    return all(
        tensor.dtype is UNSIGNED_INT
        and tensor.shape[-1:] == (2,)
        and tensor.shape == stamp.tensor.shape
        for tensor in (stamp.tensor, stamp.since)
        if tensor is not None
    )


def _read_side(stored: s.HeaderValue) -> s.Value:
    return (STREAM_OF if isinstance(stored.value, str) else TENSOR).read(stored)


def _read_sync(stored: s.HeaderValue) -> p.SyncType:
    kind_by_name = {kind.value: kind for kind in p.SyncType}
    return kind_by_name.get(s.TEXT.read(stored)) or stored.fail("a kind of sync")


def _key_of(step: c.Step) -> Hashable:
    """Return a hashable key of a step. Steps with equal keys are equal, and are stored once."""
    if isinstance(step, c.ExecuteStep):
        return step.compute_set, id(step.out)
    return id(step)


SIDE = s.Codec(_write_side, _read_side)
SYNC = s.Codec(lambda sync, _: sync.value, _read_sync)
FORMAT = s.row(
    p.PrintTensorFmt,
    **{
        f.name: s.whole(most=2**31) if f.type == "int" else s.TEXT for f in fields(p.PrintTensorFmt)
    },
)
LEAVES: dict[type, tuple[str, s.Codec]] = {
    c.ExecuteStep: (
        "Execute",
        s.checked(
            s.keyed(p.Execute, compute_set=in_table("compute_sets"), out=MAYBE),
            lambda e: e.out is None or e.out.num_elements == e.compute_set.replicas,
            "a compute set and its answers",
        ),
    ),
    c.CopyStep: ("Copy", s.keyed(p.Copy, source=SIDE, destination=SIDE)),
    c.RemoteCopyStep: (
        "RemoteCopy",
        s.checked(
            s.keyed(_remote_copy, tensor=TENSOR, buffer=BUFFER_OF, offset=MAYBE, store=s.FLAG),
            _is_dealt,
            "a copy of as many rows for each replica",
        ),
    ),
    c.PrintStep: ("PrintTensor", s.keyed(p.PrintTensor, title=s.TEXT, tensor=TENSOR, fmt=FORMAT)),
    c.UndefStep: ("WriteUndef", s.keyed(p.WriteUndef, tensor=TENSOR)),
    c.SyncStep: ("Sync", s.keyed(p.Sync, sync_type=s.key("type")(SYNC))),
    c.AbortStep: ("Abort", s.keyed(_abort, message=s.TEXT, predicate=MAYBE)),
    c.EqualStep: (
        "AssumeEqualAcrossReplicas",
        s.checked(
            s.keyed(p.AssumeEqualAcrossReplicas, tensor=TENSOR, name=s.TEXT),
            lambda step: step.tensor.graph.replicas in (1, *step.tensor.shape[:1]),
            "a tensor of all replicas",
        ),
    ),
    c.StampStep: (
        "CycleStamp",
        s.checked(
            s.keyed(p.CycleStamp, tensor=TENSOR, since=MAYBE),
            _is_stamp,
            "a stamp of two UNSIGNED_INT",
        ),
    ),
}
STEP = s.tagged(
    dict(LEAVES.values()), lambda step: LEAVES[type(step)][0], "a step that this kit knows"
)
STEPS = s.once("steps", STEP, _key_of)


# Codecs of programs that contain other programs


class Composite(NamedTuple):
    """A kind of program that contains other programs.

    `make(name, *programs, **fields)` builds such a program. `size` is the number of programs that
    it contains, or None if it may contain any number. `besides` is the codec of the fields that are
    not programs.
    """

    make: Callable[..., p.Program]
    size: int | None
    besides: s.Codec


def _of(num_programs: int | None, make: Callable[..., p.Program], **fields: s.Codec) -> Composite:
    return Composite(make, num_programs, s.keyed(dict, **fields))


def _switch(
    _: str, *branches: p.Program, predicate: Tensor, cases: tuple[int, ...], checked: bool
) -> p.Program:
    switch = p.Switch(predicate, list(zip(cases, branches, strict=False)), branches[-1])
    switch.checked = checked
    return switch


CASES = s.numbers(s.whole(-(2**63), 2**63))
# To make a Call, the reader passes a graph function to `make` instead of programs.
COMPOSITES = {
    "Sequence": _of(None, lambda name, *below: p.Sequence(*below, name=name)),
    "Repeat": _of(1, lambda _, body, count: p.Repeat(count, body), count=s.whole(most=2**63)),
    "RepeatWhileTrue": _of(
        2, lambda _, a, body, predicate: p.RepeatWhileTrue(a, predicate, body), predicate=TENSOR
    ),
    "RepeatWhileFalse": _of(
        2, lambda _, a, body, predicate: p.RepeatWhileFalse(a, predicate, body), predicate=TENSOR
    ),
    "If": _of(2, lambda _, then, other, predicate: p.If(predicate, then, other), predicate=TENSOR),
    "Switch": _of(None, _switch, predicate=TENSOR, cases=CASES, checked=s.FLAG),
    "Block": _of(1, lambda name, body: p.Block(body, name)),
    "ErrorProgram": _of(2, lambda name, body, _: p.ErrorProgram(name, body)),
    "Call": _of(1, p.Call),
}
CHILDREN = s.numbers(s.whole(below="nodes"))
NODES = s.once("nodes", s.Codec(lambda entry, _: entry, lambda _: None))


class _Writer:
    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.graph: FrozenGraph = compiled.graph
        # The file has two columns: "numbers" has the data of vertices, the positions of elements
        # and the tile mapping, and "values" has the initial values as bytes.
        self.out = s.Columns({"numbers": np.dtype("i8"), "values": np.dtype("u1")})
        self._parts = 0
        self._states = iter(self.graph.state_values)

    def file(self, checks: Mapping[str, bool], options: Mapping[str, s.Json]) -> bytes:
        graph = self.graph
        compiled = self.compiled
        columns = self.out
        self._number_layouts()
        # The hidden variables for the state fields of vertices come after all other variables.
        num_variables = len(graph.variables) - len(graph.state_values)
        end_of_variables = graph.state_values[0][1] if graph.state_values else graph.memory_bytes
        header = {
            "checks": dict(checks),
            "options": {
                name: value for name, value in options.items() if name != "target.saveArchive"
            },
            "target": s.TARGET.write(graph.target, columns),
            "alignment": ALIGNMENT,
            "memory_bytes": end_of_variables,
            "variables": s.many(VARIABLE).write(graph.variables[:num_variables], columns),
            "mapping": self._mapping(end_of_variables),
            "initial_values": [
                [TENSOR.write(tensor, columns), *self._value(values)]
                for tensor, values in graph.initial_values
            ],
            "compute_sets": [
                {
                    "name": compute_set.name,
                    "replicas": compute_set.replicas,
                    "tables": [*map(self._table, compute_set.tables)],
                }
                for compute_set in graph.compute_sets
            ],
            "replicas": graph.replicas,
            "streams": s.many(STREAM).write(compiled.streams.values(), columns),
            "host_accesses": s.many(HOST_ACCESS).write(compiled.host_accesses.values(), columns),
            "remote_buffers": s.many(REMOTE_BUFFER).write(
                compiled.remote_buffers.values(), columns
            ),
            "programs": [self._program(node) for node in compiled.programs],
        }
        tables = {
            name: columns.table(name)
            for name in ("nodes", "steps", "codelets", "layouts", "tensors")
        }
        return EXECUTABLE.pack(header | tables, columns.arrays())

    def _number_layouts(self) -> None:
        """Store the layouts that are in use, sorted by their numbers in the graph.

        The reader numbers layouts in the order of the file. Because this order is the same as in
        the graph, the reader forms the same groups of vertices.
        """
        numbers_in_use = {
            int(number)
            for _, table in self.graph.tables()
            for column in table.layouts.values()
            for number in np.unique(column)
        }
        numbers_in_use |= {tensor.layout.id for tensor in self._tensors_in_use()}
        for number in sorted(numbers_in_use):
            LAYOUT.write(self.graph.layouts[number], self.out)

    def _tensors_in_use(self) -> list[Tensor]:
        tensors = [tensor for tensor, _ in self.graph.initial_values] + [
            access.tensor for access in self.compiled.host_accesses.values()
        ]
        parts_of_steps = [part for step in self.compiled.steps for part in c.parts(step)]
        tensors += [
            value
            for part in parts_of_steps
            for value in vars(part).values()
            if isinstance(value, Tensor)
        ]
        return tensors + [
            tensor for program in self.compiled.programs for _, tensor in program.predicates()
        ]

    def _mapping(self, end: int) -> list[int]:
        tile_map = self.graph.tile_map
        stops = np.append(tile_map.start[1:], self.graph.memory_bytes)
        rows = np.stack((tile_map.start, np.minimum(stops, end), tile_map.tile), axis=1)[
            (tile_map.tile >= 0) & (tile_map.start < end)
        ]
        return [self._numbers(rows), len(rows)]

    def _value(self, values: Array) -> list[int]:
        """Store the values of a tensor, and return [first index, number of stored values].

        If all elements have the same value, this value is stored once.
        """
        is_repeated = values.size > 1 and not any(values.strides)
        stored_values = values.reshape(-1)[:1] if is_repeated else values
        return [self.out.put("values", stored_values), stored_values.size]

    def _numbers(self, values: Array) -> int:
        return self.out.put("numbers", values.astype(np.int64))

    def _table(self, table: FrozenTable) -> dict[str, s.Json]:
        file_numbers = np.full(len(self.graph.layouts), -1, np.int64)
        stored_layouts: dict[s.Value, tuple[int, s.Json]] = self.out.tables.get("layouts", {})
        file_numbers[list(stored_layouts)] = [number for number, _ in stored_layouts.values()]
        edges = {}
        state = {}
        for name, field in table.fields.items():
            if field.kind == "state":
                dtype, _, values = next(self._states)
                state[name] = self.out.put("values", values.astype(dtype.numpy))
            else:
                edges[name] = [
                    self._numbers(table.offsets[name]),
                    self._numbers(file_numbers[table.layouts[name]]),
                ]
        columns = {
            name: self._numbers(getattr(table, name)) for name in ("tiles", "order", "estimates")
        }
        codelet = CODELET.write(table.codelet, self.out)
        return {
            "codelet": codelet,
            "vertices": len(table),
            "edges": edges,
            "state": state,
            **columns,
        }

    def _program(self, node: c.Node) -> int:
        self._parts = 0
        (number,) = self._nodes(node)
        return number

    def _nodes(self, node: c.Node) -> list[int]:
        """Store a node of the program tree, and return the indices of its entries in the table.

        There is usually one entry. But if the compiler merged consecutive copies into one leaf,
        this leaf has an entry for each of the copies.
        """
        entries: list[dict[str, s.Json]]
        if node.step >= 0:
            entries = [
                {"step": STEPS.write(leaf_step, self.out)}
                for leaf_step in c.parts(self.compiled.steps[node.step])
            ]
        elif node.kind not in COMPOSITES:
            _refuse(f"The program {node.kind}")
        else:
            children = [
                child_number for child in node.children for child_number in self._nodes(child)
            ]
            other_fields = COMPOSITES[node.kind].besides.write(node, self.out)
            entries = [{"kind": node.kind, "name": node.name, "children": children, **other_fields}]
        self._parts += len(entries)
        if self._parts > MOST_NODES:
            _refuse(f"A program of more than {MOST_NODES:,} nodes")
        return [NODES.write(entry, self.out) for entry in entries]
