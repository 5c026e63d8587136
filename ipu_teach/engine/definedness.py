"""Which bytes have been written since load: reading one that has not is an error in strict mode.

Definedness only grows, but for a WriteUndef. So each step is checked the first time it runs, and
again only after a WriteUndef of something that it touches. Variables that are known to be whole are
not looked at.

A WriteUndef waits until a step meets its tensor. One that stores all of that anew, and looks at
none of it, makes it needless: so a loop spends nothing on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from ipu_teach.compile import Compiled, programs as p
from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenTable, numbers_in
from ipu_teach.compile.groups import Group
from ipu_teach.engine.views import regions_of
from ipu_teach.errors import UninitialisedReadError
from ipu_teach.graph import DataStream, Tensor
from ipu_teach.graph.source import NOWHERE, Line, in_words
from ipu_teach.graph.tile_map import covered, expand, joined
from ipu_teach.types import Array

T = TypeVar("T")
LONG = 64  # bytes from which on it is quicker to set the pieces of a region one by one

Bytes = tuple[Array, Array]  # where pieces start, and where they stop
WhoReads = tuple[str, str, Line]  # who reads, where that is, and the line of the program
# of what is read the pieces, and who reads each of them
Blame = Callable[[], tuple[Array, Array, Callable[[int], WhoReads]]]
NONE: Bytes = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class ByteSet:
    """Pieces of memory, ascending and apart, with the variables that they touch, and those that
    they fill from end to end."""

    start: Array
    stop: Array
    touches: frozenset[int]
    fills: frozenset[int]

    def common(self, other: ByteSet) -> int:
        """How many bytes are in both."""
        if self.touches.isdisjoint(other.touches):
            return 0
        inside: Array = covered(self.start, self.stop, other.stop) - covered(
            self.start, self.stop, other.start
        )
        return int(inside.sum())

    def is_set(self, bits: Array) -> bool:
        """True if all of its bytes are."""
        if len(self.start) > LONG:
            return not len(_holes(bits, self.start, self.stop))
        return all(
            bits[start:stop].all()
            for start, stop in zip(self.start.tolist(), self.stop.tolist(), strict=True)
        )

    def put(self, bits: Array, value: bool) -> None:
        """Set all of its bytes, or clear them."""
        if not len(self.start):
            return
        low, high = int(self.start[0]), int(self.stop[-1])
        if len(self.start) * LONG <= high - low:
            for start, stop in zip(self.start.tolist(), self.stop.tolist(), strict=True):
                bits[start:stop] = value
            return
        # +1 at each start, -1 at each stop: the running sum is 1 inside
        change = np.zeros(high - low, np.int8)
        change[self.start - low] = 1
        change[self.stop[:-1] - low] = -1
        bits[low:high][np.cumsum(change, dtype=np.int8).view(bool)] = value


class MemoryAccess:
    """What a step does to memory: what it `reads`, each region with who is to blame for it; what it
    `stores` for certain.

    `looks`: regions in which it may see, or may leave, what is there before: what it reads, and
    what it stores by data. `near`: the WriteUndefs of its variables.
    """

    def __init__(self, definedness: Definedness, step: p.Step | p.Node) -> None:
        self.definedness, self.graph = definedness, definedness.graph
        self.reads: list[tuple[ByteSet, Blame]] = []
        self.looks: list[ByteSet] = []
        self.near: set[int] = set()
        self._stored: list[Bytes] = []
        if isinstance(step, p.ExecuteStep):
            self._execute(step)
        for part in step.copies if isinstance(step, (p.ExecuteStep, p.MergedStep)) else (step,):
            self._move(part)
        self.looks += [region for region, _ in self.reads]
        self.sources: frozenset[int] = frozenset().union(
            *(region.touches for region, _ in self.reads)
        )
        self.stores = definedness.bytes_of(*self._stored)
        self.touches = self.stores.touches.union(*(look.touches for look in self.looks))

    def _read(self, tensor: Tensor, who: str, line: Line = NOWHERE) -> None:
        pieces = tensor.byte_extent()
        self.reads.append(
            (self.definedness.bytes_of(pieces), lambda: (*pieces, lambda _: (who, "", line)))
        )

    def _store(self, tensor: Tensor) -> None:
        self._stored.append(tensor.byte_extent())

    def _move(self, step: p.Step | p.Node) -> None:
        match step:
            case p.Node(predicate=Tensor() as predicate):
                self._read(predicate, f"{step.kind} looks at")
            case p.CopyStep(source=source, destination=target):
                if isinstance(source, Tensor):
                    to = (
                        f"stream {target.handle!r}"
                        if isinstance(target, DataStream)
                        else target.graph.describe(target)
                    )
                    self._read(source, f"Copy to {to} reads", step.line)
                if isinstance(target, Tensor):
                    self._store(target)
            case p.RemoteCopyStep():
                to = (
                    f"Copy {'to' if step.store else 'from'} the remote buffer "
                    f"{step.buffer.handle!r} reads"
                )
                if step.offset is not None:
                    self._read(step.offset, to)
                if step.store:
                    self._read(step.tensor, to)
                else:
                    self._store(step.tensor)
            case p.PrintStep():
                self._read(step.tensor, f"PrintTensor({step.title!r}) reads")
            case p.StampStep():
                self._store(step.tensor)
                if step.since is not None:
                    self.looks.append(self.definedness.bytes_of(step.since.byte_extent()))
            case p.AbortStep(predicate=Tensor() as predicate):
                self._read(predicate, "AbortOnCondition looks at")
            case p.EqualStep():
                self._read(step.tensor, "AssumeEqualAcrossReplicas looks at")

    def _execute(self, step: p.ExecuteStep) -> None:
        """What is stored for certain is so by what was traced. A scalar loop marks the elements of
        its Outputs while it runs; of what could be neither traced nor translated, all of the region
        is taken to be stored.
        """
        tables: dict[FrozenTable, list[Group]] = defaultdict(list)
        for group in self.definedness.compiled.groups[step.compute_set]:
            tables[group.table].append(group)
        for table, groups in tables.items():
            traced = not any(group.at_once or group.trace.stopped for group in groups)
            marked = [group for group in groups if group.scalar is not None and group.trace.stopped]
            for name, field in table.fields.items():
                if field.kind == "state":
                    continue
                touched = self.graph.touched(table, name)
                everything = self.definedness.bytes_of((touched.start, touched.stop))
                if field.kind != "output":  # an InOut is whole before
                    self.reads.append((everything, partial(self._edges, table, name)))
                    continue
                if not traced:
                    self.looks.append(everything)
                if marked or any(_in_part(group, name) for group in groups):
                    for group in groups:
                        self._stored += [] if group in marked else self._elements(group, name)
                else:
                    self._stored.append((everything.start, everything.stop))
        if step.out is not None:
            self._store(step.out)

    def _edges(
        self, table: FrozenTable, name: str
    ) -> tuple[Array, Array, Callable[[int], WhoReads]]:
        edges = self.graph.intervals(table, name)
        compute_set = self.graph.compute_sets[table.compute_set]

        def reader(piece: int) -> WhoReads:
            row = int(edges.row[piece])
            where = f"{vertex_name(table, row, name)} of compute set {compute_set.name!r}"
            return f"{table.codelet.__name__} reads", where, table.line(row)

        return edges.start, edges.stop, reader

    def _elements(self, group: Group, name: str) -> Iterator[Bytes]:
        """The elements of an Output that a group stores."""
        size, stored_in = group.table.fields[name].dtype.size, _in_part(group, name)
        for part, region in enumerate(regions_of(group, self.graph, name)):
            start = region.index(slice(None))[:, stored_in.get(part, ...)].reshape(-1) * size
            yield start, start + size


class Definedness:
    """One bit a byte, and the steps that are `checked`: what they read is written.

    `poison(tensor)` puts what unwritten memory holds into a tensor.
    """

    def __init__(self, compiled: Compiled, poison: Callable[[Tensor], None]) -> None:
        self.compiled, self.graph, self._poison = compiled, compiled.graph, poison
        ends = np.array([(v.start, v.stop) for v in self.graph.variables], np.int64).reshape(-1, 2)
        self._start, self._stop = np.ascontiguousarray(ends.T)
        # so that the system hands out the pages now
        self.defined = np.full(self.graph.memory_bytes, False)
        self.checked: set[int] = set()
        self._whole: set[int] = set()  # variables
        for tensor, _ in self.graph.initial_values:
            self._fill(self.bytes_of(tensor.byte_extent()))
        for dtype, start, values in self.graph.state_values:
            self._fill(
                self.bytes_of((np.array([start]), np.array([start + len(values) * dtype.size])))
            )
        undefs = (
            (n, step.tensor)
            for n, step in enumerate(compiled.steps)
            if isinstance(step, p.UndefStep)
        )
        self._undefs = {number: self.bytes_of(tensor.byte_extent()) for number, tensor in undefs}
        self._accesses: list[MemoryAccess] = []
        # by WriteUndef what is near it
        self._users: dict[int, set[int]] = {undef: set() for undef in self._undefs}
        for step in compiled.steps:
            self.add(step)
        self._waiting: set[int] = set()
        # those that wait and that the step which runs now makes so
        self._needless: set[int] = set()
        self._meetings: dict[tuple[int, int], str] = {}

    def add(self, step: p.Step | p.Node) -> int:
        """The number of a step; a node that looks at an element, to decide, gets one too."""
        access, number = MemoryAccess(self, step), len(self._accesses)
        access.near = {
            undef
            for undef, region in self._undefs.items()
            if not region.touches.isdisjoint(access.touches)
        }
        self._accesses.append(access)
        for undef in access.near:
            self._users[undef].add(number)
        return number

    def checking(self, number: int, act: Callable[[], T]) -> Callable[[], T]:
        """`act`, which is what step `number` does, with the check around it where that is not done
        yet."""

        def checked() -> T:
            if number in self.checked:
                return act()
            self.before(number)
            result = act()
            self.after(number)
            return result

        return checked

    def before(self, number: int) -> None:
        """Check what step `number` reads. Raises `UninitialisedReadError`."""
        self._needless.clear()
        for undef in self._waiting & self._accesses[number].near:
            self._meet(undef, number)
        access = self._accesses[number]
        if not access.sources <= self._whole:
            for region, blame in access.reads:
                self._check(region, blame)

    def after(self, number: int) -> None:
        """Step `number` has run: what it stores is there."""
        self._waiting -= self._needless
        region = self._accesses[number].stores
        if not region.touches <= self._whole:
            self._fill(region)
        self.checked.add(number)

    def undefine(self, number: int) -> None:
        """Let the WriteUndef that is step `number` wait."""
        if number not in self._waiting:
            self._waiting.add(number)
            self.checked -= self._users[number]

    def settle(self) -> None:
        """Let no WriteUndef wait any longer: somebody looks at memory."""
        for undef in list(self._waiting):
            self._undefine_now(undef)

    def write(self, tensor: Tensor) -> None:
        """All of `tensor` is written now by the host."""
        self._fill(self.bytes_of(tensor.byte_extent()))

    def check_host_read(self, tensor: Tensor, reader: str) -> None:
        """Raise `UninitialisedReadError` if the host reads an element that nothing has written.
        `reader`: the call that reads, as the error names it."""
        pieces = tensor.byte_extent()
        self._check(
            self.bytes_of(pieces), lambda: (*pieces, lambda _: (f"{reader} reads", "", NOWHERE))
        )

    # What waits

    def _meet(self, undef: int, number: int) -> None:
        """A WriteUndef waits, and a step comes that touches the same variable."""
        how = self._meetings.get((undef, number))
        if how is None:
            region, access = self._undefs[undef], self._accesses[number]
            common, looks = (
                access.stores.common(region),
                any(look.common(region) for look in access.looks),
            )
            whole = common == int((region.stop - region.start).sum())
            how = "now" if looks or (common and not whole) else "needless" if common else "apart"
            self._meetings[undef, number] = how
        if how == "needless":
            self._needless.add(undef)
        elif how == "now":
            self._undefine_now(undef)

    def _undefine_now(self, undef: int) -> None:
        step, region = self.compiled.steps[undef], self._undefs[undef]
        assert isinstance(step, p.UndefStep)
        self._poison(step.tensor)
        region.put(self.defined, False)
        self._whole -= region.touches
        self._waiting.discard(undef)

    # Bits

    def _fill(self, region: ByteSet) -> None:
        region.put(self.defined, True)
        self._whole |= region.fills

    def _check(self, region: ByteSet, blame: Blame) -> None:
        if not region.is_set(self.defined):
            start, stop, reader = blame()
            piece = int(_holes(self.defined, start, stop)[0])
            byte = int(start[piece] + np.argmin(self.defined[start[piece] : stop[piece]]))
            who, where, line = reader(piece)
            raise UninitialisedReadError(f"""{who} {self.graph.element(byte)}, which nothing has
                written.
                where: {where}
                line:  {in_words(line)}
                next:  write it first: a Copy, a compute set, graph.set_initial_value, or
                Engine.write_tensor.""")
        self._whole |= region.fills

    def bytes_of(self, *pieces: Bytes) -> ByteSet:
        """The bytes of some pieces, which may overlap."""
        # as it mostly is
        if len(pieces) == 1 and len(pieces[0][0]) == 1 and pieces[0][0] < pieces[0][1]:
            start, stop = pieces[0]
            number = int(np.searchsorted(self._start, pieces[0][0], "right")[0]) - 1
            if stop <= self._stop[number]:
                whole = start == self._start[number] and stop == self._stop[number]
                return ByteSet(
                    start, stop, frozenset([number]), frozenset([number] if whole else [])
                )
        start, stop = joined(*(np.concatenate(ends) for ends in zip(NONE, *pieces, strict=True)))
        first = np.searchsorted(self._start, start, "right") - 1
        last = np.searchsorted(self._start, stop)
        touched = np.array(numbers_in(expand(first, last - first)[1]), np.int64)
        low, high = self._start[touched], self._stop[touched]
        fills = touched[covered(start, stop, high) - covered(start, stop, low) == high - low]
        return ByteSet(start, stop, frozenset(touched.tolist()), frozenset(fills.tolist()))


def _in_part(group: Group, name: str) -> dict[int, Array]:
    """For each part of a field that the codelet does not store whole, which elements it does
    store."""
    if group.trace.stopped:
        return {}
    regions = [(root, part) for root, (field, part) in group.trace.regions.items() if field == name]
    return {
        part: m.reshape(-1)
        for root, part in regions
        if (m := group.trace.written.get(root)) is not None and not m.all()
    }


def _holes(bits: Array, start: Array, stop: Array) -> Array:
    """Which of the pieces hold a byte that is not set."""
    low, high = int(start.min()), int(stop.max())
    holes = low + np.flatnonzero(~bits[low:high])
    return np.flatnonzero(np.searchsorted(holes, stop) > np.searchsorted(holes, start))
