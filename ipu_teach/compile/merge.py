"""Copies that do not disturb each other are one superstep: one sync, one exchange.

A run of copies that stand side by side in one Sequence is merged up to the first that reads or
writes what one of them writes, or writes what one of them reads: that one begins a new run. So the
order in which a program lists its copies matters, and values never depend on it. Copies within an
IPU are one run and those between IPUs another: in one step with them, a copy within would hold up
all IPUs. A copy that lies on several is of the second kind, even where each byte stays on its IPU.
Copies from remote buffers are a run, and copies to them; of the latter no two go to one buffer, in
which both may name the same row. Everything else ends a run. What concerns I/O tiles alone, what
concerns computing tiles alone and what joins both are runs of their own, too: in one step the one
would hold up the other.

Of the first run after a compute set, those copies within an IPU that disturb neither it nor a
compute set that stands behind all of them go into its superstep: what they bring comes with the
exchange before it computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.programs import (
    CopyStep,
    ExecuteStep,
    MergedStep,
    Node,
    RemoteCopyStep,
    Step,
    extent_of,
    moves,
    touched,
)
from ipu_teach.errors import counted
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.tile_map import joined, meet
from ipu_teach.types import Array

# of several tensors: where the pieces of each begin in the other two, starts, stops
Pieces = tuple[Array, Array, Array]
Extent = tuple[Array, Array]  # of byte intervals, starts and stops
# kinds of copies that may be one step: how far they go, or which way between tiles and a buffer
WITHIN_AN_IPU, BETWEEN_IPUS, LOAD, STORE = "within", "between", "load", "store"


def merged(
    graph: FrozenGraph, programs: Iterable[Node], steps: Sequence[Step]
) -> tuple[tuple[Node, ...], tuple[Step, ...]]:
    """The same programs with their copies merged, and the steps that are left, numbered anew."""
    merger = _Merger(graph, steps)
    return tuple(map(merger.node, programs)), tuple(merger.kept)


def several(count: int, first: str) -> str:
    """What a step of `count` copies is called, after the first of them."""
    return first if count == 1 else f"{count:,} copies: {first}, …"


class _Merger:
    def __init__(self, graph: FrozenGraph, steps: Sequence[Step]) -> None:
        self.graph, self.steps = graph, steps
        self.kept: list[Step] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._bytes: dict[int, tuple[tuple[Array, Array], ...]] = {}
        self._buffers: dict[str, int] = {}

    def node(self, node: Node) -> Node:
        if node.step >= 0:
            return replace(node, step=self._number((node.step,)))
        parts = (
            self._parts(node.children) if node.kind == "Sequence" else map(self.node, node.children)
        )
        return replace(node, children=tuple(parts))

    def _number(self, members: tuple[int, ...]) -> int:
        if members not in self._numbers:
            self._numbers[members] = len(self.kept)
            first, *others = map(self.steps.__getitem__, members)
            copies = tuple(step for step in others if isinstance(step, CopyStep))
            together = tuple(
                step for step in (first, *others) if isinstance(step, (CopyStep, RemoteCopyStep))
            )
            alone = MergedStep(together) if others else first
            self.kept.append(
                replace(first, copies=copies) if isinstance(first, ExecuteStep) else alone
            )
        return self._numbers[members]

    def _parts(self, children: Sequence[Node]) -> Iterator[Node]:
        """The parts of a Sequence, runs of copies as one."""
        before: list[Node] = []  # the compute set that stands there
        done = 0
        for reach, found in groupby(children, self._reach):
            copies = list(found)
            done += len(copies)
            if reach is None:
                before = copies[-1:] if self._takes(copies[-1]) and done < len(children) else []
                yield from map(self.node, copies[: len(copies) - len(before)])
                continue
            if reach != WITHIN_AN_IPU and before:  # of these a compute set takes none along
                yield self._together(before)
                before = []
            sides = [self._sides(self.steps[copy.step]) for copy in copies]
            read, written = (_pieces([pair[side] for pair in sides]) for side in (0, 1))
            first = 0
            while first < len(copies):
                count = _apart(read, written, first, len(copies))
                run, first = copies[first : first + count], first + count
                if before:
                    stays = self._disturbing(read, written, (*before, *children[done : done + 1]))
                    yield self._together(
                        [*before, *(copy for copy, its in zip(run, stays, strict=False) if not its)]
                    )
                    before, run = [], [copy for copy, its in zip(run, stays, strict=False) if its]
                if run:
                    yield self._together(run)

    def _disturbing(self, read: Pieces, written: Pieces, around: Sequence[Node]) -> Array:
        """bool: which copies read what a compute set among the nodes writes, or write what it reads
        or writes."""
        sets = filter(None, map(self._touched, around))
        met: Array = np.any(
            [_meeting(read, *w) | _meeting(written, *r) | _meeting(written, *w) for r, w in sets],
            axis=0,
        )
        return met

    def _together(self, run: list[Node]) -> Node:
        """One step: of several copies, or of a compute set and the copies that go with it."""
        first, number = run[0], self._number(tuple(part.step for part in run))
        if len(run) == 1:
            return replace(first, step=number)
        parts = tuple(replace(part, step=-1) for part in run if part.kind == "Copy")
        with_set = f"{first.name}, with {counted(len(parts), 'copy', 'copies')}"
        return Node(
            first.kind,
            several(len(run), first.name) if len(run) == len(parts) else with_set,
            parts,
            step=number,
        )

    def _touched(self, node: Node) -> tuple[tuple[Array, Array], ...]:
        """(start, stop) of the bytes that the compute set of a node reads, and of those that it
        writes; () if it has none."""
        step = self.steps[node.step] if node.step >= 0 else None
        if not isinstance(step, ExecuteStep):
            return ()
        if node.step not in self._bytes:
            compute_set = self.graph.compute_sets[step.compute_set]
            (_, *read), (_, *written) = (
                self.graph.edge_bytes(compute_set, kind) for kind in ("output", "input")
            )
            written = [*map(np.append, written, extent_of((step.out,)))]
            self._bytes[node.step] = joined(*read), joined(*written)
        return self._bytes[node.step]

    def _takes(self, node: Node) -> bool:
        """Whether copies go with the compute set of a node: there is one, and not on I/O tiles."""
        step = self.steps[node.step] if node.step >= 0 else None
        return isinstance(step, ExecuteStep) and not any(
            self._aside(table.tiles) for table in self.graph.executed(step)
        )

    def _aside(self, tiles: Array) -> str:
        """Which of some tiles are I/O tiles, none, all or some."""
        target = self.graph.target
        found = tiles % target.tiles_per_ipu < target.io_tiles
        return "" if not found.any() else " of I/O tiles" if found.all() else " of both"

    def _reach(self, node: Node) -> str | None:
        """What kind of run a node may be in: of copies whose two sides lie `WITHIN_AN_IPU` or not,
        of copies from remote buffers, or to them; and on which tiles. None for any other node."""
        step, target = self.steps[node.step] if node.step >= 0 else None, self.graph.target
        if remote := isinstance(step, RemoteCopyStep):
            sides, reach = (step.tensor, step.tensor), STORE if step.store else LOAD
        elif step is None or not moves(step):
            return None
        else:
            sides, reach = moves(step)[0], WITHIN_AN_IPU
        if remote and not target.io_tiles or target.num_sets == 1:
            return reach
        each: list[Sequence[Tensor]] = [sides]
        if all(t.shape[:1] == (self.graph.replicas,) for t in sides):  # of each replica its own
            each = [[t[r] for t in sides] for r in range(self.graph.replicas)]
        found = [self._tiles(some) for some in each]
        if not remote and any(np.unique(tiles // target.tiles_per_ipu).size > 1 for tiles in found):
            reach = BETWEEN_IPUS
        return reach + self._aside(np.concatenate(found))

    def _tiles(self, tensors: Sequence[Tensor]) -> Array:
        """The tiles on which tensors lie, some of them several times."""
        return self.graph.tile_map.split(*extent_of(tensors))[3]

    def _sides(self, step: Step) -> tuple[Extent, Extent]:
        """(start, stop) of the bytes that a copy reads, and of those that it writes. Beyond the
        tiles' memory a remote buffer has a byte of its own."""
        read, written = map(extent_of, touched(step))
        if isinstance(step, RemoteCopyStep):
            place = self._buffers.setdefault(step.buffer.handle, len(self._buffers))
            beyond = self.graph.memory_bytes + place
            start, stop = map(np.append, written if step.store else read, (beyond, beyond + 1))
            read, written = (read, (start, stop)) if step.store else ((start, stop), written)
        return read, written


def _pieces(extents: Sequence[Extent]) -> Pieces:
    start, stop = zip(*extents, strict=True)
    return np.cumsum([0, *map(len, start)]), np.concatenate(start), np.concatenate(stop)


def _meeting(pieces: Pieces, start: Array, stop: Array) -> Array:
    """bool: which tensors have a byte in common with one of the disjoint, ascending [start,
    stop)."""
    at, low, high = pieces
    met = np.cumsum(
        np.append(0, np.searchsorted(start, high) > np.searchsorted(stop, low, "right"))
    )
    return met[at[1:]] > met[at[:-1]]


def _apart(read: Pieces, written: Pieces, first: int, end: int) -> int:
    """How many copies, from number `first` on, do not disturb each other: found in strides that
    grow, then shrink."""

    def fits(count: int) -> bool:
        (r_start, r_stop), (start, stop) = (
            [ends[at[first] : at[first + count]] for ends in both] for at, *both in (read, written)
        )
        order = np.argsort(start, kind="stable")
        start, stop = start[order], stop[order]
        return not np.any(start[1:] < stop[:-1]) and not meet(start, stop, r_start, r_stop)

    count, stride = 1, 1
    while first + count + stride <= end and fits(count + stride):
        count, stride = count + stride, 2 * stride
    while stride := stride // 2:
        if first + count + stride <= end and fits(count + stride):
            count += stride
    return count
