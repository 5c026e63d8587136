"""Track which bytes were written since load. In strict mode, reading any other byte is an error.

A byte is defined if it was written since load, or has an initial value. Only a WriteUndef makes
bytes undefined again. So a step is checked when it first runs, and checked again only after a
WriteUndef of a variable that the step accesses. Variables that are known to be completely defined
are not checked.

A WriteUndef is delayed until a step accesses its tensor, until the host reads or writes any tensor,
or until the run ends. If a step overwrites the complete tensor without reading it, the WriteUndef
is dropped. So a WriteUndef in a loop usually costs nothing.
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
# A limit with two uses. If an interval and the gap after it have at least this number of bytes on
# average, it is faster to set the bits interval by interval. If there are at most this number of
# intervals, it is faster to test the bits interval by interval.
LONG = 64

Bytes = tuple[Array, Array]  # Intervals of memory: (starts, stops), in bytes.
# The reader of an interval of bytes, for errors: (description, location, program line).
Reader = tuple[str, str, Line]
# A function that describes a read. It is called only if the read is an error. It returns (starts,
# stops, function): the intervals that are read, and a function from i to the `Reader` of interval
# number i.
Blame = Callable[[], tuple[Array, Array, Callable[[int], Reader]]]
NONE: Bytes = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class ByteSet:
    """Disjoint byte intervals of memory, in ascending order.

    `touches` has the numbers of the variables that overlap an interval, and `fills` those of the
    variables that the intervals cover completely.
    """

    start: Array
    stop: Array
    touches: frozenset[int]
    fills: frozenset[int]

    def common(self, other: ByteSet) -> int:
        """Return the number of bytes that are in both sets."""
        if self.touches.isdisjoint(other.touches):
            return 0
        inside: Array = covered(self.start, self.stop, other.stop) - covered(
            self.start, self.stop, other.start
        )
        return int(inside.sum())

    def is_set(self, bits: Array) -> bool:
        """Return whether `bits`, bool[bytes of memory], is True for all bytes in the intervals."""
        if len(self.start) > LONG:
            return not len(_holes(bits, self.start, self.stop))
        return all(
            bits[start:stop].all()
            for start, stop in zip(self.start.tolist(), self.stop.tolist(), strict=True)
        )

    def put(self, bits: Array, value: bool) -> None:
        """Set `bits` to `value` for all bytes of the intervals."""
        if not len(self.start):
            return
        lowest = int(self.start[0])
        highest = int(self.stop[-1])
        if len(self.start) * LONG <= highest - lowest:
            for piece_start, piece_stop in zip(
                self.start.tolist(), self.stop.tolist(), strict=True
            ):
                bits[piece_start:piece_stop] = value
            return
        # `changes` has +1 at each start and -1 at each stop, so that its running sum is 1 inside
        # the intervals.
        changes = np.zeros(highest - lowest, np.int8)
        changes[self.start - lowest] = 1
        changes[self.stop[:-1] - lowest] = -1
        bits[lowest:highest][np.cumsum(changes, dtype=np.int8).view(bool)] = value


class MemoryAccess:
    """The memory accesses of a step, which are the same each time that it runs.

    * `reads`: pairs (bytes, function): bytes that must have been written before the step, and a
      function that describes their reader
    * `stores`: the bytes that the step certainly overwrites, or is assumed to overwrite (see
      `_execute`)
    * `looks`: the bytes whose earlier content may still matter after the step begins. These are the
      bytes in `reads`, the bytes that the step may or may not overwrite, depending on data, and the
      earlier stamp that a CycleStamp subtracts
    * `near`: the numbers of the WriteUndef steps whose variables the step accesses
    * `sources`, `touches`: the numbers of the variables that the step reads, and of those that it
      accesses in any way
    """

    def __init__(self, definedness: Definedness, step: p.Step | p.Node) -> None:
        self.definedness = definedness
        self.graph = definedness.graph
        self.reads: list[tuple[ByteSet, Blame]] = []
        self.looks: list[ByteSet] = []
        self.near: set[int] = set()
        self._stored: list[Bytes] = []
        if isinstance(step, p.ExecuteStep):
            self._execute(step)
        for copy_step in (
            step.copies if isinstance(step, (p.ExecuteStep, p.MergedStep)) else (step,)
        ):
            self._move(copy_step)
        self.looks += [region for region, _ in self.reads]
        self.sources: frozenset[int] = frozenset().union(
            *(region.touches for region, _ in self.reads)
        )
        self.stores = definedness.bytes_of(*self._stored)
        self.touches = self.stores.touches.union(*(looked_at.touches for looked_at in self.looks))

    def _read(self, tensor: Tensor, reader: str, line: Line = NOWHERE) -> None:
        """Add a read of a complete tensor.

        An error about this read begins with the string `reader`, such as "Copy to x reads".
        """
        pieces = tensor.byte_extent()
        self.reads.append((self.definedness.bytes_of(pieces), _blame_for(pieces, reader, line)))

    def _store(self, tensor: Tensor) -> None:
        """Add a store into a complete tensor."""
        self._stored.append(tensor.byte_extent())

    def _move(self, step: p.Step | p.Node) -> None:
        """Add the accesses of a step that is not a compute set.

        If `step` is a program node instead, add the read of its predicate.
        """
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
        """Add the accesses of a compute set.

        For traced codelets, the trace shows which elements are certainly stored. A scalar loop
        marks the elements of its Outputs during the run. If a codelet could be neither traced nor
        translated, the Outputs of its vertices count as completely stored.
        """
        tables: dict[FrozenTable, list[Group]] = defaultdict(list)
        for group in self.definedness.compiled.groups[step.compute_set]:
            tables[group.table].append(group)
        for table, groups in tables.items():
            is_traced = not any(group.is_bulk or group.trace.stopped for group in groups)
            marked_groups = [
                group for group in groups if group.scalar is not None and group.trace.stopped
            ]
            for name, field in table.fields.items():
                if field.kind == "state":
                    continue
                intervals = self.graph.touched(table, name)
                field_bytes = self.definedness.bytes_of((intervals.start, intervals.stop))
                # An InOut is also read, so it must be defined before the step.
                if field.kind != "output":
                    self.reads.append((field_bytes, partial(self._edges, table, name)))
                    continue
                if not is_traced:
                    self.looks.append(field_bytes)
                if marked_groups or any(_in_part(group, name) for group in groups):
                    for group in groups:
                        self._stored += (
                            [] if group in marked_groups else self._elements(group, name)
                        )
                else:
                    self._stored.append((field_bytes.start, field_bytes.stop))
        if step.out is not None:
            self._store(step.out)

    def _edges(self, table: FrozenTable, name: str) -> tuple[Array, Array, Callable[[int], Reader]]:
        """Return (starts, stops, function) for the bytes that vertices access through a field.

        The function maps i to the `Reader` of interval number i.
        """
        intervals = self.graph.intervals(table, name)
        compute_set = self.graph.compute_sets[table.compute_set]

        def reader(interval: int) -> Reader:
            row = int(intervals.row[interval])
            place = f"{vertex_name(table, row, name)} of compute set {compute_set.name!r}"
            return f"{table.codelet.__name__} reads", place, table.line(row)

        return intervals.start, intervals.stop, reader

    def _elements(self, group: Group, name: str) -> Iterator[Bytes]:
        """Yield the byte intervals of an Output that the vertices of a group certainly store."""
        size = group.table.fields[name].dtype.size
        stored_in = _in_part(group, name)
        for part, region in enumerate(regions_of(group, self.graph, name)):
            start = region.index(slice(None))[:, stored_in.get(part, ...)].reshape(-1) * size
            yield start, start + size


class Definedness:
    """A record of which bytes of memory are defined: `defined` is bool[bytes of memory].

    `checked` contains the numbers of the steps that need no check the next time they run. The
    function `poison` fills a tensor with the value that stands for unwritten memory.
    """

    def __init__(self, compiled: Compiled, poison: Callable[[Tensor], None]) -> None:
        self.compiled = compiled
        self.graph = compiled.graph
        self._poison = poison
        variable_bounds = np.array(
            [(variable.start, variable.stop) for variable in self.graph.variables], np.int64
        ).reshape(-1, 2)
        self._start, self._stop = np.ascontiguousarray(variable_bounds.T)
        # np.full makes the system allocate all memory now, whereas np.zeros would delay that to the
        # run.
        self.defined = np.full(self.graph.memory_bytes, False)
        self.checked: set[int] = set()
        # The indices of the variables that are completely defined.
        self._whole: set[int] = set()
        for tensor, _ in self.graph.initial_values:
            self._fill(self.bytes_of(tensor.byte_extent()))
        for dtype, start, values in self.graph.state_values:
            self._fill(
                self.bytes_of((np.array([start]), np.array([start + len(values) * dtype.size])))
            )
        undefs = (
            (step_number, step.tensor)
            for step_number, step in enumerate(compiled.steps)
            if isinstance(step, p.UndefStep)
        )
        self._undefs = {
            undef_number: self.bytes_of(tensor.byte_extent()) for undef_number, tensor in undefs
        }
        self._accesses: list[MemoryAccess] = []
        # Maps the index of each WriteUndef to the indices of the steps that access its variables.
        self._users: dict[int, set[int]] = {undef: set() for undef in self._undefs}
        for step in compiled.steps:
            self.add(step)
        self._waiting: set[int] = set()
        # The delayed WriteUndefs that the running step makes needless, because it overwrites all
        # their bytes.
        self._needless: set[int] = set()
        self._meetings: dict[tuple[int, int], str] = {}

    def add(self, step: p.Step | p.Node) -> int:
        """Add the accesses of a step, and return the number under which they are checked.

        `step` may also be a program node, which reads a predicate.
        """
        access = MemoryAccess(self, step)
        access_number = len(self._accesses)
        access.near = {
            undef
            for undef, region in self._undefs.items()
            if not region.touches.isdisjoint(access.touches)
        }
        self._accesses.append(access)
        for undef in access.near:
            self._users[undef].add(access_number)
        return access_number

    def checking(self, number: int, act: Callable[[], T]) -> Callable[[], T]:
        """Return a function that calls `act`, which runs step `number`, and returns its result.

        If the step is not in `checked`, the function first checks that the bytes which the step
        reads are defined. After the step, the function marks the bytes that the step has stored as
        defined.
        """

        def checked() -> T:
            if number in self.checked:
                return act()
            self.before(number)
            result = act()
            self.after(number)
            return result

        return checked

    def before(self, number: int) -> None:
        """Check the reads of step `number`, just before it runs.

        :raises UninitialisedReadError: if the step reads undefined bytes.
        """
        self._needless.clear()
        for undef in self._waiting & self._accesses[number].near:
            self._meet(undef, number)
        access = self._accesses[number]
        if not access.sources <= self._whole:
            for region, blame in access.reads:
                self._check(region, blame)

    def after(self, number: int) -> None:
        """Mark the bytes that step `number` has stored as defined."""
        self._waiting -= self._needless
        region = self._accesses[number].stores
        if not region.touches <= self._whole:
            self._fill(region)
        self.checked.add(number)

    def undefine(self, number: int) -> None:
        """Delay the WriteUndef step `number`.

        The steps that access the variable of this WriteUndef are checked again the next time they
        run.
        """
        if number not in self._waiting:
            self._waiting.add(number)
            self.checked -= self._users[number]

    def settle(self) -> None:
        """Carry out all delayed WriteUndefs.

        This happens before the host accesses memory, and at the end of a run.
        """
        for undef in list(self._waiting):
            self._undefine_now(undef)

    def write(self, tensor: Tensor) -> None:
        """Mark all of `tensor` as defined, because the host has written it."""
        self._fill(self.bytes_of(tensor.byte_extent()))

    def check_host_read(self, tensor: Tensor, reader: str) -> None:
        """Raise `UninitialisedReadError` if the host reads an element that was never written.

        `reader` is the name of the reading call, for the error.
        """
        pieces = tensor.byte_extent()
        self._check(self.bytes_of(pieces), _blame_for(pieces, f"{reader} reads", NOWHERE))

    # Methods for WriteUndefs that are carried out later, when a step reads or writes their bytes

    def _meet(self, undef: int, number: int) -> None:
        """Decide on the delayed WriteUndef `undef` before step `number`.

        The WriteUndef is carried out now if the step may read a byte of its tensor, or overwrites
        only some of the tensor's bytes. It becomes needless if the step overwrites all of these
        bytes without reading any. It stays delayed if the step accesses none of them. The decision
        is cached for each pair of steps.
        """
        effect = self._meetings.get((undef, number))
        if effect is None:
            region = self._undefs[undef]
            access = self._accesses[number]
            common = access.stores.common(region)
            has_looks = any(look.common(region) for look in access.looks)
            is_overwritten = common == int((region.stop - region.start).sum())
            if has_looks or (common and not is_overwritten):
                effect = "now"
            else:
                effect = "needless" if common else "independent"
            self._meetings[undef, number] = effect
        if effect == "needless":
            self._needless.add(undef)
        elif effect == "now":
            self._undefine_now(undef)

    def _undefine_now(self, undef: int) -> None:
        """Carry out a delayed WriteUndef."""
        step = self.compiled.steps[undef]
        region = self._undefs[undef]
        assert isinstance(step, p.UndefStep)
        self._poison(step.tensor)
        region.put(self.defined, False)
        self._whole -= region.touches
        self._waiting.discard(undef)

    # Methods that read or write the array `defined`

    def _fill(self, region: ByteSet) -> None:
        """Mark bytes as defined."""
        region.put(self.defined, True)
        self._whole |= region.fills

    def _check(self, region: ByteSet, blame: Blame) -> None:
        """Raise `UninitialisedReadError` if a byte of a region is not defined.

        `blame` is a function that describes the read. It is called only if there is an error.
        """
        if not region.is_set(self.defined):
            starts, stops, reader = blame()
            interval = int(_holes(self.defined, starts, stops)[0])
            undefined_byte = int(
                starts[interval] + np.argmin(self.defined[starts[interval] : stops[interval]])
            )
            reader_name, place, line = reader(interval)
            raise UninitialisedReadError(f"""{reader_name} {self.graph.element(undefined_byte)},
                which nothing has written.
                where: {place}
                line:  {in_words(line)}
                next:  write it first: a Copy, a compute set, graph.set_initial_value, or
                Engine.write_tensor.""")
        self._whole |= region.fills

    def bytes_of(self, *pieces: Bytes) -> ByteSet:
        """Return the union of intervals, which may overlap, as a `ByteSet`."""
        # Fast path for the usual case: a single interval within one variable.
        if len(pieces) == 1 and len(pieces[0][0]) == 1 and pieces[0][0] < pieces[0][1]:
            start, stop = pieces[0]
            variable_number = int(np.searchsorted(self._start, pieces[0][0], "right")[0]) - 1
            if stop <= self._stop[variable_number]:
                is_filled = (
                    start == self._start[variable_number] and stop == self._stop[variable_number]
                )
                return ByteSet(
                    start,
                    stop,
                    frozenset([variable_number]),
                    frozenset([variable_number] if is_filled else []),
                )
        start, stop = joined(
            *(np.concatenate(column) for column in zip(NONE, *pieces, strict=True))
        )
        first_variables = np.searchsorted(self._start, start, "right") - 1
        end_variables = np.searchsorted(self._start, stop)
        touched_variables = np.array(
            numbers_in(expand(first_variables, end_variables - first_variables)[1]), np.int64
        )
        variable_starts = self._start[touched_variables]
        variable_stops = self._stop[touched_variables]
        filled_variables = touched_variables[
            covered(start, stop, variable_stops) - covered(start, stop, variable_starts)
            == variable_stops - variable_starts
        ]
        return ByteSet(
            start, stop, frozenset(touched_variables.tolist()), frozenset(filled_variables.tolist())
        )


def _blame_for(pieces: Bytes, reader: str, line: Line) -> Blame:
    """Return a `Blame` for one reader that reads all of the intervals `pieces`."""

    def blame() -> tuple[Array, Array, Callable[[int], Reader]]:
        return (*pieces, lambda _: (reader, "", line))

    return blame


def _in_part(group: Group, name: str) -> dict[int, Array]:
    """Return which elements of a field the vertices of a group certainly store.

    The result maps the index of an array in a list field (0 for any other field) to a bool array:
    which elements are certainly stored. Arrays that are completely stored are left out. If the
    trace stopped, the result is empty too, although nothing is known about the stores.
    """
    if group.trace.stopped:
        return {}
    regions = [
        (region_id, region_index)
        for region_id, (field, region_index) in group.trace.regions.items()
        if field == name
    ]
    return {
        region_index: is_stored.reshape(-1)
        for region_id, region_index in regions
        if (is_stored := group.trace.written.get(region_id)) is not None and not is_stored.all()
    }


def _holes(bits: Array, start: Array, stop: Array) -> Array:
    """Return the indices of the intervals [start, stop) in which at least one bit is not set."""
    low = int(start.min())
    high = int(stop.max())
    holes = low + np.flatnonzero(~bits[low:high])
    return np.flatnonzero(np.searchsorted(holes, stop) > np.searchsorted(holes, start))
