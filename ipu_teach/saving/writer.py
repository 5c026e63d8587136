"""Write a compiled program in the form that `archive` stores and `reader` reads.

Views become numbers in two tables: layouts (the positions of elements) and tensors (a dtype, an
offset and a layout). A program's tree becomes a list of nodes, in which equal nodes appear once and
children come first. Each kind of step and of program is declared once, for writing and for reading.
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
    """Return the bytes of the file of an executable.

    Raises `NotOfferedError` for a program that cannot be saved.
    """
    return _Writer(compiled).file(checks, options)


def _refuse(subject: str) -> NoReturn:
    raise NotOfferedError(f"""{subject} in a saved executable is not offered by this kit.
        next:  run it from the graph, in the process that builds it: Engine(graph, program).""")


# Values in tables


def in_table(table: str, write: Callable[[s.Value, s.Columns], s.Json] = lambda v, _: v) -> s.Codec:
    """Return the codec of an entry of `table`, which may be empty, stored as its index."""
    index = s.index(table)

    def read(part: s.HeaderValue) -> s.Value:
        return index.read(part) if part.known[table] else part.fail("in its table, which is empty")

    return s.Codec(write, read)


def _read_dtype(part: s.HeaderValue) -> type[DType]:
    name = s.TEXT.read(part)
    return dtype_named(name) or part.fail(
        f"a dtype ({did_you_mean(name, DTYPES)}known are {', '.join(DTYPES)})"
    )


def _write_layout(layout: Layout | ListLayout, out: s.Columns) -> dict[str, s.Json]:
    if not isinstance(layout, Layout):
        return {"parts": [[delta, LAYOUT.write(part, out)] for delta, part in layout.parts]}
    shape = {"shape": list(layout.shape)}
    if layout.strides is not None:
        return shape | {"strides": list(layout.strides)}
    return shape | {"at": out.put("numbers", layout.positions)}


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


# The graph

SHAPE = s.numbers(s.whole(most=MOST_BYTES), MOST_DIMENSIONS)
VARIABLE = s.row(dict, name=s.TEXT, dtype=DTYPE, shape=SHAPE, constant=s.FLAG)
SIZE = s.whole(1, MOST_BYTES)
REPLICAS = s.since(3)(s.whole(1, MOST_REPLICAS))
# the reader parses it only for streams to the device
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


# Steps


def _handle(table: str, wanted: str) -> s.Codec:
    """Return the codec of an object recorded in `table`, stored as its handle."""

    def read(part: s.HeaderValue) -> s.Value:
        return part.known[table].get(s.TEXT.read(part)) or part.fail(wanted)

    return s.Codec(lambda v, _: v.handle, read)


STREAM_OF = _handle("streams", "a stream of the graph")
BUFFER_OF = _handle("remote_buffers", "a remote buffer")


def _write_side(side: p.Side, out: s.Columns) -> s.Json:
    if not isinstance(side, (DataStream, Tensor)):
        _refuse(f"A copy of {type(side).__name__}")
    return (STREAM_OF if isinstance(side, DataStream) else TENSOR).write(side, out)


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
        t.dtype is UNSIGNED_INT and t.shape[-1:] == (2,) and t.shape == stamp.tensor.shape
        for t in (stamp.tensor, stamp.since)
        if t is not None
    )


def _read_side(part: s.HeaderValue) -> s.Value:
    return (STREAM_OF if isinstance(part.value, str) else TENSOR).read(part)


def _read_sync(part: s.HeaderValue) -> p.SyncType:
    kinds = {kind.value: kind for kind in p.SyncType}
    return kinds.get(s.TEXT.read(part)) or part.fail("a kind of sync")


def _key_of(step: c.Step) -> Hashable:
    """Return equal keys for steps that are stored once."""
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


# Programs that contain others


class Composite(NamedTuple):
    """A kind of program that contains others.

    `make(name, *programs, **fields)` builds it. `size` is the number of programs in it, None for
    any number, and `besides` the codec of the fields.
    """

    make: Callable[..., p.Program]
    size: int | None
    besides: s.Codec


def _of(size: int | None, make: Callable[..., p.Program], **besides: s.Codec) -> Composite:
    return Composite(make, size, s.keyed(dict, **besides))


def _switch(
    _: str, *below: p.Program, predicate: Tensor, cases: tuple[int, ...], checked: bool
) -> p.Program:
    switch = p.Switch(predicate, list(zip(cases, below, strict=False)), below[-1])
    switch.checked = checked
    return switch


CASES = s.numbers(s.whole(-(2**63), 2**63))
COMPOSITES = {  # the reader adds the function of a Call
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
        # "numbers" are columns, positions and the mapping; "values" are initial values as bytes
        self.out = s.Columns({"numbers": np.dtype("i8"), "values": np.dtype("u1")})
        self._parts = 0
        self._states = iter(self.graph.state_values)

    def file(self, checks: Mapping[str, bool], options: Mapping[str, s.Json]) -> bytes:
        graph = self.graph
        compiled = self.compiled
        out = self.out
        self._number_layouts()
        # each state field has a hidden variable, after all others
        count = len(graph.variables) - len(graph.state_values)
        end = graph.state_values[0][1] if graph.state_values else graph.memory_bytes
        header = {
            "checks": dict(checks),
            "options": {
                name: value for name, value in options.items() if name != "target.saveArchive"
            },
            "target": s.TARGET.write(graph.target, out),
            "alignment": ALIGNMENT,
            "memory_bytes": end,
            "variables": s.many(VARIABLE).write(graph.variables[:count], out),
            "mapping": self._mapping(end),
            "initial_values": [
                [TENSOR.write(t, out), *self._value(v)] for t, v in graph.initial_values
            ],
            "compute_sets": [
                {"name": c.name, "replicas": c.replicas, "tables": [*map(self._table, c.tables)]}
                for c in graph.compute_sets
            ],
            "replicas": graph.replicas,
            "streams": s.many(STREAM).write(compiled.streams.values(), out),
            "host_accesses": s.many(HOST_ACCESS).write(compiled.host_accesses.values(), out),
            "remote_buffers": s.many(REMOTE_BUFFER).write(compiled.remote_buffers.values(), out),
            "programs": [self._program(node) for node in compiled.programs],
        }
        tables = {
            name: out.table(name) for name in ("nodes", "steps", "codelets", "layouts", "tensors")
        }
        return EXECUTABLE.pack(header | tables, out.arrays())

    def _number_layouts(self) -> None:
        """Store all layouts in use in the order of their numbers.

        Groups of vertices are then the same after reading.
        """
        used = {
            int(i) for _, t in self.graph.tables() for c in t.layouts.values() for i in np.unique(c)
        }
        used |= {t.layout.id for t in self._tensors_in_use()}
        for number in sorted(used):
            LAYOUT.write(self.graph.layouts[number], self.out)

    def _tensors_in_use(self) -> list[Tensor]:
        tensors = [t for t, _ in self.graph.initial_values] + [
            a.tensor for a in self.compiled.host_accesses.values()
        ]
        parts = [part for step in self.compiled.steps for part in c.parts(step)]
        tensors += [v for part in parts for v in vars(part).values() if isinstance(v, Tensor)]
        return tensors + [t for program in self.compiled.programs for _, t in program.predicates()]

    def _mapping(self, end: int) -> list[int]:
        tiles = self.graph.tile_map
        stop = np.append(tiles.start[1:], self.graph.memory_bytes)
        rows = np.stack((tiles.start, np.minimum(stop, end), tiles.tile), axis=1)[
            (tiles.tile >= 0) & (tiles.start < end)
        ]
        return [self._numbers(rows), len(rows)]

    def _value(self, values: Array) -> list[int]:
        """Return (first index, length) of stored values; one repeated value is stored once."""
        spread = values.size > 1 and not any(values.strides)
        stored = values.reshape(-1)[:1] if spread else values
        return [self.out.put("values", stored), stored.size]

    def _numbers(self, values: Array) -> int:
        return self.out.put("numbers", values.astype(np.int64))

    def _table(self, table: FrozenTable) -> dict[str, s.Json]:
        renumbered = np.full(len(self.graph.layouts), -1, np.int64)
        known: dict[s.Value, tuple[int, s.Json]] = self.out.tables.get("layouts", {})
        renumbered[list(known)] = [number for number, _ in known.values()]
        edges = {}
        state = {}
        for name, field in table.fields.items():
            if field.kind == "state":
                dtype, _, values = next(self._states)
                state[name] = self.out.put("values", values.astype(dtype.numpy))
            else:
                edges[name] = [
                    self._numbers(table.offsets[name]),
                    self._numbers(renumbered[table.layouts[name]]),
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
        """Return the numbers of a node's entries.

        A leaf has one for each copy that was merged into it, other nodes have one.
        """
        entries: list[dict[str, s.Json]]
        if node.step >= 0:
            entries = [
                {"step": STEPS.write(part, self.out)}
                for part in c.parts(self.compiled.steps[node.step])
            ]
        elif node.kind not in COMPOSITES:
            _refuse(f"The program {node.kind}")
        else:
            children = [number for child in node.children for number in self._nodes(child)]
            besides = COMPOSITES[node.kind].besides.write(node, self.out)
            entries = [{"kind": node.kind, "name": node.name, "children": children, **besides}]
        self._parts += len(entries)
        if self._parts > MOST_NODES:
            _refuse(f"A program of more than {MOST_NODES:,} parts")
        return [NODES.write(entry, self.out) for entry in entries]
