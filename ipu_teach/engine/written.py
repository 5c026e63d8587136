"""A compiled program written down: what `archive` stores, from what `Compiled` holds. `rebuild` reads it back.

Views become numbers in two tables: layouts (how elements lie) and tensors (a dtype, an offset and a layout). A program's
tree becomes a list of nodes in which equal ones appear once, children first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple
from typing import Any, NoReturn

import numpy as np

from ipu_teach.archive import MOST_NODES, Format
from ipu_teach.compile import Compiled
from ipu_teach.compile.freeze import FrozenComputeSet, FrozenGraph, FrozenTable
from ipu_teach.compile.programs import (
    AbortStep,
    CopyStep,
    ExecuteStep,
    Node,
    PrintStep,
    RemoteCopyStep,
    StampStep,
    Step,
    SyncStep,
    UndefStep,
)
from ipu_teach.engine.codelets import described
from ipu_teach.errors import ExecutableLoadError, NotOfferedError
from ipu_teach.graph.layouts import Layout
from ipu_teach.graph.stream import DataStream
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.variables import ALIGNMENT
from ipu_teach.graph.vertex import Vertex
from ipu_teach.types import Array

EXECUTABLE = Format("executable", 2, "Executable.save", ExecutableLoadError, ExecutableLoadError)

# Programs that `rebuild` knows. Leaves are known by their steps.
COMPOSITES = (
    "Sequence", "Repeat", "RepeatWhileTrue", "RepeatWhileFalse", "If", "Switch", "Call", "Block", "ErrorProgram"
)  # fmt: skip


def written(compiled: Compiled, checks: Mapping[str, bool], options: Mapping[str, Any]) -> bytes:
    """The file of an executable. Raises `NotOfferedError` for a program that cannot be written down."""
    return _Writer(compiled).file(checks, options)


class _Blob:
    """Arrays end to end: `add` returns where one starts."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.parts: list[Array] = []
        self.size = 0

    def add(self, values: Array) -> int:
        flat = np.ascontiguousarray(values).reshape(-1).view(self.dtype)
        self.parts.append(flat)
        self.size += len(flat)
        return self.size - len(flat)

    def whole(self) -> Array:
        return np.concatenate([np.zeros(0, self.dtype), *self.parts])


class _Writer:
    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.graph: FrozenGraph = compiled.graph
        self.numbers = _Blob(np.int64)  # columns, positions, the mapping
        self.values = _Blob(np.uint8)  # initial values, in the bytes of their dtypes
        self.layouts: list[Any] = []
        self._layout_ids: dict[int, int] = {}
        self.tensors: list[list[Any]] = []
        self._tensor_ids: dict[int, int] = {}
        self.codelets: list[dict[str, Any]] = []
        self._codelet_ids: dict[type[Vertex], int] = {}
        self.nodes: list[dict[str, Any]] = []
        self._node_ids: dict[Any, int] = {}
        self._parts = 0
        self._states = iter(self.graph.state_values)

    def file(self, checks: Mapping[str, bool], options: Mapping[str, Any]) -> bytes:
        self._number_layouts()
        graph, target = self.graph, asdict(self.graph.target)
        count = len(graph.variables) - len(graph.state_values)  # each state has a hidden variable at the end
        end = graph.state_values[0][1] if graph.state_values else graph.memory_bytes
        header = {
            "checks": dict(checks),
            "options": {name: value for name, value in options.items() if name != "target.saveArchive"},
            "target": {"version": target.pop("ipu_version"), "fields": target},
            "alignment": ALIGNMENT,
            "memory_bytes": end,
            "variables": [[v.name, v.dtype.__name__, list(v.shape), v.constant] for v in graph.variables[:count]],
            "mapping": self._mapping(end),
            "initial_values": [[self._tensor(t), *self._value(v)] for t, v in graph.initial_values],
            "compute_sets": [self._compute_set(cs) for cs in graph.compute_sets],
            "streams": [
                [s.handle, s.dtype.__name__, s.num_elements, s.to_device, s.buffering_depth, s.mode.value]
                for s in self.compiled.streams.values()
            ],
            "host_accesses": [[a.handle, self._tensor(a.tensor), a.write] for a in self.compiled.host_accesses.values()],
            "remote_buffers": [
                [b.handle, b.dtype.__name__, b.num_elements, b.repeats] for b in self.compiled.remote_buffers.values()
            ],
            "steps": [self._step(step) for step in self.compiled.steps],
            "programs": [self._program(node) for node in self.compiled.programs],
        }
        header.update(nodes=self.nodes, codelets=self.codelets, layouts=self.layouts, tensors=self.tensors)
        return EXECUTABLE.pack(header, {"numbers": self.numbers.whole(), "values": self.values.whole()})

    # The graph

    def _number_layouts(self) -> None:
        """All layouts in use, in the order of their making: groups of vertices come out in the same order again."""
        used = {int(i) for _, t in self.graph.tables() for c in t.layouts.values() for i in np.unique(c)}
        used |= {t.layout.id for t in self._tensors_in_use()}
        for number in sorted(used):
            self._layout(self.graph.layouts[number])

    def _tensors_in_use(self) -> list[Tensor]:
        found = [t for t, _ in self.graph.initial_values] + [a.tensor for a in self.compiled.host_accesses.values()]
        found += [v for step in self.compiled.steps for v in vars(step).values() if isinstance(v, Tensor)]
        return found + [t for program in self.compiled.programs for _, t in program.predicates()]

    def _layout(self, layout: Any) -> int:
        known = self._layout_ids.get(layout.id)
        if known is not None:
            return known
        entry: dict[str, Any]
        if not isinstance(layout, Layout):
            entry = {"parts": [[delta, self._layout(part)] for delta, part in layout.parts]}
        elif layout.strides is not None:
            entry = {"shape": list(layout.shape), "strides": list(layout.strides)}
        else:
            entry = {"shape": list(layout.shape), "at": self.numbers.add(layout.positions)}
        self._layout_ids[layout.id] = len(self.layouts)
        self.layouts.append(entry)
        return len(self.layouts) - 1

    def _tensor(self, tensor: Tensor) -> int:
        if id(tensor) not in self._tensor_ids:
            self._tensor_ids[id(tensor)] = len(self.tensors)
            self.tensors.append([tensor.dtype.__name__, tensor.offset, self._layout(tensor.layout)])
        return self._tensor_ids[id(tensor)]

    def _mapping(self, end: int) -> list[int]:
        tiles = self.graph.tile_map
        stop = np.append(tiles.start[1:], self.graph.memory_bytes)
        rows = np.stack((tiles.start, np.minimum(stop, end), tiles.tile), axis=1)[(tiles.tile >= 0) & (tiles.start < end)]
        return [self.numbers.add(rows.astype(np.int64)), len(rows)]

    def _value(self, values: Array) -> list[int]:
        """(where, how many): one value that is spread over a tensor is stored once."""
        spread = values.size > 1 and not any(values.strides)
        stored = values.reshape(-1)[:1] if spread else values
        return [self.values.add(stored), stored.size]

    def _compute_set(self, compute_set: FrozenComputeSet) -> dict[str, Any]:
        return {"name": compute_set.name, "tables": [self._table(t) for t in compute_set.tables]}

    def _table(self, table: FrozenTable) -> dict[str, Any]:
        renumbered = np.full(len(self.graph.layouts), -1, np.int64)
        renumbered[list(self._layout_ids)] = list(self._layout_ids.values())
        edges, state = {}, {}
        for name, field in table.fields.items():
            if field.kind == "state":
                dtype, _, values = next(self._states)
                state[name] = self.values.add(values.astype(dtype.numpy))
            else:
                edges[name] = [self.numbers.add(table.offsets[name]), self.numbers.add(renumbered[table.layouts[name]])]
        columns = {n: self.numbers.add(getattr(table, n).astype(np.int64)) for n in ("tiles", "order", "estimates")}
        return {"codelet": self._codelet(table.codelet), "vertices": len(table), "edges": edges, "state": state, **columns}

    def _codelet(self, codelet: type[Vertex]) -> int:
        if codelet not in self._codelet_ids:
            self._codelet_ids[codelet] = len(self.codelets)
            self.codelets.append(described(codelet))
        return self._codelet_ids[codelet]

    # The programs

    def _step(self, step: Step) -> dict[str, Any]:
        def maybe(tensor: Tensor | None) -> int | None:
            return None if tensor is None else self._tensor(tensor)

        def side(what: object) -> int | str:
            if isinstance(what, DataStream):
                return what.handle
            return self._tensor(what) if isinstance(what, Tensor) else _refuse(f"A copy of {type(what).__name__}")

        match step:
            case ExecuteStep():
                return {"kind": "Execute", "compute_set": step.compute_set, "out": maybe(step.out)}
            case CopyStep():
                return {"kind": "Copy", "source": side(step.source), "destination": side(step.destination)}
            case RemoteCopyStep():
                tensor, offset = self._tensor(step.tensor), maybe(step.offset)
                named = {"tensor": tensor, "buffer": step.buffer.handle, "offset": offset}
                return {"kind": "RemoteCopy", **named, "store": step.store}
            case PrintStep():
                return {"kind": "PrintTensor", "title": step.title, "tensor": maybe(step.tensor), "fmt": astuple(step.fmt)}
            case UndefStep():
                return {"kind": "WriteUndef", "tensor": maybe(step.tensor)}
            case SyncStep():
                return {"kind": "Sync", "type": step.sync_type.value}
            case AbortStep():
                return {"kind": "Abort", "message": step.message, "predicate": maybe(step.predicate)}
            case StampStep():
                return {"kind": "CycleStamp", "tensor": maybe(step.tensor), "since": maybe(step.since)}
        _refuse(f"The step {type(step).__name__}")

    def _program(self, node: Node) -> int:
        self._parts = 0
        return self._node(node)

    def _node(self, node: Node) -> int:
        self._parts += 1
        if self._parts > MOST_NODES:
            _refuse(f"A program of more than {MOST_NODES:,} parts")
        children = [self._node(child) for child in node.children]
        entry: dict[str, Any] = {"kind": node.kind, "name": node.name}
        if node.step >= 0:
            entry = {"step": node.step}
        elif node.kind not in COMPOSITES:
            _refuse(f"The program {node.kind}")
        else:
            entry["children"] = children
            if node.kind == "Repeat":
                entry["count"] = node.count
            if node.predicate is not None:
                entry["predicate"] = self._tensor(node.predicate)
            if node.kind == "Switch":
                entry.update(cases=list(node.cases), checked=node.checked)
        key = repr(entry)
        if key not in self._node_ids:
            self._node_ids[key] = len(self.nodes)
            self.nodes.append(entry)
        return self._node_ids[key]


def _refuse(what: str) -> NoReturn:
    raise NotOfferedError(f"""{what} in a saved executable is not offered by this kit.
        next:  run it from the graph, in the process that builds it: Engine(graph, program).""")
