"""Which bytes have been written since load: reading one that has not is an error in strict mode.

Definedness only grows, but for a WriteUndef. So each step is checked the first time it runs, and again only after a
WriteUndef; nothing is added to the steps that follow.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ipu_teach.compile import Compiled
from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenTable, Intervals
from ipu_teach.compile.groups import Group
from ipu_teach.compile.programs import (
    AbortStep,
    CopyStep,
    ExecuteStep,
    Node,
    PrintStep,
    RemoteCopyStep,
    StampStep,
    Step,
    UndefStep,
)
from ipu_teach.errors import UninitialisedReadError
from ipu_teach.graph.graph import DataStream
from ipu_teach.graph.source import NOWHERE, Line, in_words
from ipu_teach.graph.tensor import Layout, Tensor
from ipu_teach.types import Array


class Definedness:
    """One bit a byte. `before(step)` is called ahead of every step that has not been checked yet."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.graph = compiled.graph
        self.defined = np.ones(self.graph.memory_bytes, bool)
        for variable in self.graph.variables:
            self.defined[variable.start : variable.stop] = False
        for tensor, _ in self.graph.initial_values:
            self.write(tensor)
        for dtype, start, values in self.graph.state_values:
            self.defined[start : start + len(values) * dtype.size] = True
        self.checked: set[int] = set()

    def write(self, tensor: Tensor) -> None:
        """All of `tensor` has been written."""
        for start, stop in _intervals(tensor):
            self.defined[start:stop] = True

    def before(self, number: int) -> None:
        """Check what step `number` reads and note what it writes. Raises `UninitialisedReadError`."""
        step = self.compiled.steps[number]
        if isinstance(step, UndefStep):
            for start, stop in _intervals(step.tensor):
                self.defined[start:stop] = False
            self.checked.clear()
            return
        if isinstance(step, ExecuteStep):
            self._execute(step)
        else:
            self._move(step)
        self.checked.add(number)

    def predicate(self, node: Node, tensor: Tensor) -> None:
        """Check the element that decides for `node`."""
        self._read(tensor, f"{node.kind} looks at")

    def _move(self, step: Step) -> None:
        match step:
            case CopyStep():
                if isinstance(step.source, Tensor):
                    target = step.destination
                    to = f"stream {target.handle!r}" if isinstance(target, DataStream) else self._describe(target)
                    self._read(step.source, f"Copy to {to} reads", step.line)
                if isinstance(step.destination, Tensor):
                    self.write(step.destination)
            case RemoteCopyStep():
                to = f"Copy {'to' if step.store else 'from'} the remote buffer {step.buffer.handle!r} reads"
                if step.offset is not None:
                    self._read(step.offset, to)
                if step.store:
                    self._read(step.tensor, to)
                else:
                    self.write(step.tensor)
            case PrintStep():
                self._read(step.tensor, f"PrintTensor({step.title!r}) reads")
            case StampStep():
                self.write(step.tensor)
            case AbortStep(predicate=Tensor() as predicate):
                self._read(predicate, "AbortOnCondition looks at")

    def _describe(self, tensor: Tensor) -> str:
        return tensor.graph.describe(tensor)

    def _read(self, tensor: Tensor, who: str, line: Line = NOWHERE) -> None:
        for start, stop in _intervals(tensor):
            if not self.defined[start:stop].all():
                byte = start + int(np.argmin(self.defined[start:stop]))
                raise UninitialisedReadError(f"""{who} {self.graph.element(byte)}, which nothing has written.
                    line:  {in_words(line)}
                    next:  write it first: a Copy, a compute set, graph.set_initial_value, or Engine.write_tensor.""")

    def _execute(self, step: ExecuteStep) -> None:
        tables: dict[FrozenTable, list[Group]] = defaultdict(list)
        for group in self.compiled.groups[step.compute_set]:
            tables[group.table].append(group)
        for table in tables:
            for name, field in table.fields.items():
                if field.kind in ("input", "inout"):
                    self._read_edges(table, name)
        for table, groups in tables.items():
            for name, field in table.fields.items():
                if field.written:
                    self._write_edges(table, groups, name)
        if step.out is not None:
            self.write(step.out)

    def _read_edges(self, table: FrozenTable, name: str) -> None:
        if not self._holes(self.graph.touched(table, name)).size:
            return
        edges = self.graph.intervals(table, name)
        bad = self._holes(edges)
        if bad.size:
            start, stop, row = int(edges.start[bad[0]]), int(edges.stop[bad[0]]), int(edges.row[bad[0]])
            byte = start + int(np.argmin(self.defined[start:stop]))
            compute_set = self.graph.compute_sets[table.compute_set]
            raise UninitialisedReadError(f"""{table.codelet.__name__} reads {self.graph.element(byte)}, which nothing has
                written.
                where: {vertex_name(table, row, name)} of compute set {compute_set.name!r}
                line:  {in_words(table.line(row))}
                next:  write it first: a Copy, a compute set, graph.set_initial_value, or Engine.write_tensor.""")

    def _holes(self, edges: Intervals) -> Array:
        """Which of the intervals hold a byte that is not defined."""
        if len(edges) == 0:
            return np.zeros(0, np.int64)
        low, high = int(edges.start.min()), int(edges.stop.max())
        holes = low + np.flatnonzero(~self.defined[low:high])
        return np.flatnonzero(np.searchsorted(holes, edges.stop) > np.searchsorted(holes, edges.start))

    def _write_edges(self, table: FrozenTable, groups: list[Group], name: str) -> None:
        """What the codelet stores is defined. A scalar loop marks the elements of its Outputs while it runs; of what could be
        neither traced nor translated, all of the region is taken to be stored.
        """
        marked = table.fields[name].kind == "output"
        groups = [g for g in groups if not (marked and g.scalar is not None and g.trace.stopped)]
        if not groups:
            return
        partial = [_partly(group, name) for group in groups]
        if not any(partial) and sum(len(g.rows) for g in groups) == len(table):
            edges = self.graph.touched(table, name)
            _fill(self.defined, edges.start, edges.stop)
            return
        whole = [group.rows for group, parts in zip(groups, partial, strict=True) if not parts]
        if whole:
            edges = self.graph.intervals(table, name)
            members = np.isin(edges.row, np.concatenate(whole))
            _fill(self.defined, edges.start[members], edges.stop[members])
        for group, parts in zip(groups, partial, strict=True):
            self._write_parts(group, name, parts)

    def _write_parts(self, group: Group, name: str, partial: dict[int, Array]) -> None:
        """Define, of each part of a field, the elements that the codelet stores."""
        table, size = group.table, group.table.fields[name].dtype.size
        for row in group.rows if partial else ():
            layout = self.graph.layouts[table.layouts[name][row]]
            parts = [(0, layout)] if isinstance(layout, Layout) else layout.parts
            for number, (delta, inner) in enumerate(parts):
                stored = partial.get(number)
                positions = inner.positions if stored is None else inner.positions[stored.reshape(inner.positions.shape)]
                first = (int(table.offsets[name][row]) + delta + positions.reshape(-1)) * size
                for byte in range(size):
                    self.defined[first + byte] = True


def _partly(group: Group, name: str) -> dict[int, Array]:
    """For each part of a field that the codelet does not store whole, which elements it does store."""
    if group.trace.stopped:
        return {}
    regions = [(root, part) for root, (field, part) in group.trace.regions.items() if field == name]
    return {part: m for root, part in regions if (m := group.trace.written.get(root)) is not None and not m.all()}


def _fill(defined: Array, start: Array, stop: Array) -> None:
    """Set many intervals at once: +1 at each start, -1 at each stop, and the running sum is positive inside."""
    if len(start) == 0:
        return
    low, high = int(start.min()), int(stop.max())
    change = np.zeros(high - low + 1, np.int32)
    np.add.at(change, start - low, 1)
    np.add.at(change, stop - low, -1)
    defined[low:high] |= np.cumsum(change)[:-1] > 0


def _intervals(tensor: Tensor) -> list[tuple[int, int]]:
    starts, lengths = tensor.layout.extent
    begin = (tensor.offset + starts) * tensor.dtype.size
    return list(zip(begin.tolist(), (begin + lengths * tensor.dtype.size).tolist(), strict=True))
