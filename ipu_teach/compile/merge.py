"""Merge independent copies into one superstep, with one sync and one exchange.

Consecutive copies of one Sequence form a group. A copy starts a new group if it conflicts with a
copy in the current group: if either copy writes bytes that the other reads or writes. So the order
in which a program lists its copies affects the cost, but never the values.

All copies of a group are of the same kind. These kinds are distinguished:

- Copies within an IPU, and copies between IPUs. If they were merged, a copy within one IPU would
  make all IPUs wait. A copy whose tensors are on several IPUs counts as between IPUs, even if no
  byte is copied to another IPU.
- Copies from remote buffers, and copies to them. Two copies to one buffer are never merged, because
  they may write the same row.
- Copies on I/O tiles only, on compute tiles only, and between the two kinds of tiles. If they were
  merged, one kind would make the other wait.

Any other program ends the group, and so does a copy from or to a data stream.

The superstep of a compute set absorbs some copies of the group that follows it directly. These are
the copies within an IPU that conflict neither with this compute set nor with the compute set after
the copies.
The data of absorbed copies is exchanged before the compute phase.
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

# The byte intervals of several tensors: (pointers, starts, stops). Tensor i has the intervals with
# the indices from pointers[i] to before pointers[i + 1].
Pieces = tuple[Array, Array, Array]
Extent = tuple[Array, Array]  # The byte intervals of one tensor: (starts, stops).
# The kinds of copies; only copies of the same kind are merged. Copies between tiles are
# distinguished by their distance, and copies with a remote buffer by their direction.
WITHIN_AN_IPU = "within"
BETWEEN_IPUS = "between"
LOAD = "load"
STORE = "store"


def merge_copy_steps(
    graph: FrozenGraph, programs: Iterable[Node], steps: Sequence[Step]
) -> tuple[tuple[Node, ...], tuple[Step, ...]]:
    """Return (programs, steps) in which independent copies are merged.

    The remaining steps are numbered again from 0.
    """
    merger = _Merger(graph, steps)
    return tuple(map(merger.node, programs)), tuple(merger.kept)


def several(count: int, first: str) -> str:
    """Return the name of a step that merges `count` copies.

    `first` is the name of the first copy.
    """
    return first if count == 1 else f"{count:,} copies: {first}, …"


class _Merger:
    """Merges the copies in programs, and collects the resulting steps in the list `kept`."""

    def __init__(self, graph: FrozenGraph, steps: Sequence[Step]) -> None:
        self.graph = graph
        self.steps = steps
        self.kept: list[Step] = []
        # Maps the indices of the old steps that a new step merges to the index of the new step in
        # `kept`.
        self._numbers: dict[tuple[int, ...], int] = {}
        # Maps the number of each compute set's step to (bytes read, bytes written).
        self._bytes: dict[int, tuple[Extent, ...]] = {}
        # Maps the handle of each remote buffer to a number that identifies the buffer.
        self._buffers: dict[str, int] = {}

    def node(self, node: Node) -> Node:
        """Return a copy of the node in which the copies below it are merged."""
        if node.step >= 0:
            return replace(node, step=self._number((node.step,)))
        parts = (
            self._parts(node.children) if node.kind == "Sequence" else map(self.node, node.children)
        )
        return replace(node, children=tuple(parts))

    def _number(self, members: tuple[int, ...]) -> int:
        """Return the number of the new step that merges the old steps with the numbers `members`.

        A new step is added to the list `kept`, and its number is its index there.
        """
        if members not in self._numbers:
            self._numbers[members] = len(self.kept)
            first_step, *further_steps = map(self.steps.__getitem__, members)
            copies = tuple(step for step in further_steps if isinstance(step, CopyStep))
            transfers = tuple(
                step
                for step in (first_step, *further_steps)
                if isinstance(step, (CopyStep, RemoteCopyStep))
            )
            if isinstance(first_step, ExecuteStep):
                self.kept.append(replace(first_step, copies=copies))
            else:
                self.kept.append(MergedStep(transfers) if further_steps else first_step)
        return self._numbers[members]

    def _parts(self, children: Sequence[Node]) -> Iterator[Node]:
        """Yield the nodes of a Sequence, with one node for each group of independent copies."""
        # The compute set before the copies, if it can absorb copies; otherwise the list is empty.
        absorbing: list[Node] = []
        num_visited = 0
        for copy_kind, nodes in groupby(children, self._kind):
            copies = list(nodes)
            num_visited += len(copies)
            if copy_kind is None:
                can_absorb = self._can_absorb(copies[-1]) and num_visited < len(children)
                absorbing = copies[-1:] if can_absorb else []
                yield from map(self.node, copies[: len(copies) - len(absorbing)])
                continue
            # A compute set absorbs only copies within an IPU.
            if copy_kind != WITHIN_AN_IPU and absorbing:
                yield self._merged_node(absorbing)
                absorbing = []
            extents = [self._extents(self.steps[copy.step]) for copy in copies]
            read, written = (
                _pieces([extent[extent_index] for extent in extents]) for extent_index in (0, 1)
            )
            first_copy = 0
            while first_copy < len(copies):
                group_size = _independent(read, written, first_copy, len(copies))
                group = copies[first_copy : first_copy + group_size]
                first_copy = first_copy + group_size
                if absorbing:
                    neighbours = *absorbing, *children[num_visited : num_visited + 1]
                    conflicts = self._conflicting(read, written, neighbours)[: len(group)].tolist()
                    absorbed = [
                        node_of_copy
                        for node_of_copy, conflict in zip(group, conflicts, strict=True)
                        if not conflict
                    ]
                    yield self._merged_node([*absorbing, *absorbed])
                    group = [
                        node_of_copy
                        for node_of_copy, conflict in zip(group, conflicts, strict=True)
                        if conflict
                    ]
                    absorbing = []
                if group:
                    yield self._merged_node(group)

    def _conflicting(self, read: Pieces, written: Pieces, around: Sequence[Node]) -> Array:
        """Return, for each copy, whether it conflicts with a compute set in `around`: bool[copies].

        A copy and a compute set conflict if one of them writes bytes that the other reads or
        writes. `read` and `written` are the byte intervals that each copy reads and writes.
        """
        sets = filter(None, map(self._touched, around))
        conflicts: Array = np.any(
            [
                _overlaps(read, *w) | _overlaps(written, *r) | _overlaps(written, *w)
                for r, w in sets
            ],
            axis=0,
        )
        return conflicts

    def _merged_node(self, members: list[Node]) -> Node:
        """Return the node that merges several copies, or a compute set with absorbed copies."""
        first_node = members[0]
        step_number = self._number(tuple(member.step for member in members))
        if len(members) == 1:
            return replace(first_node, step=step_number)
        copies = tuple(replace(node, step=-1) for node in members if node.kind == "Copy")
        if len(copies) == len(members):
            name = several(len(members), first_node.name)
        else:
            name = f"{first_node.name}, with {counted(len(copies), 'copy', 'copies')}"
        return Node(first_node.kind, name, copies, step=step_number)

    def _touched(self, node: Node) -> tuple[Extent, ...]:
        """Return (bytes read, bytes written) by a node's compute set, or () if it has none."""
        compute_step = self.steps[node.step] if node.step >= 0 else None
        if not isinstance(compute_step, ExecuteStep):
            return ()
        if node.step not in self._bytes:
            compute_set = self.graph.compute_sets[compute_step.compute_set]
            (_, *read), (_, *written) = (
                self.graph.edge_bytes(compute_set, kind) for kind in ("output", "input")
            )
            written = [*map(np.append, written, extent_of((compute_step.out,)))]
            self._bytes[node.step] = joined(*read), joined(*written)
        return self._bytes[node.step]

    def _can_absorb(self, node: Node) -> bool:
        """Return whether a node is a compute set whose superstep can absorb copies.

        A compute set with vertices on I/O tiles cannot absorb copies.
        """
        step = self.steps[node.step] if node.step >= 0 else None
        return isinstance(step, ExecuteStep) and not any(
            self._tile_kind(table.tiles) for table in self.graph.executed(step)
        )

    def _tile_kind(self, tiles: Array) -> str:
        """Return the ending of a copy's kind: whether `tiles` are I/O tiles.

        The ending is "" if none of the tiles is an I/O tile, " of I/O tiles" if all are, and " of
        both" otherwise.
        """
        target = self.graph.target
        is_io = tiles % target.tiles_per_ipu < target.io_tiles
        if not is_io.any():
            return ""
        return " of I/O tiles" if is_io.all() else " of both"

    def _kind(self, node: Node) -> str | None:
        """Return the kind of a copy, or None if the node is not a copy.

        The kind is `WITHIN_AN_IPU`, `BETWEEN_IPUS`, `LOAD` or `STORE`, followed by the result of
        `_tile_kind`.
        """
        step = self.steps[node.step] if node.step >= 0 else None
        target = self.graph.target
        if remote := isinstance(step, RemoteCopyStep):
            tensors = (step.tensor, step.tensor)
            kind = STORE if step.store else LOAD
        elif step is None or not moves(step):
            return None
        else:
            tensors = moves(step)[0]
            kind = WITHIN_AN_IPU
        if remote and not target.io_tiles or target.num_sets == 1:
            return kind
        by_replica: list[Sequence[Tensor]] = [tensors]
        # If the first axis of the tensors is the replica, look at the tensors of each replica
        # separately.
        if all(tensor.shape[:1] == (self.graph.replicas,) for tensor in tensors):
            by_replica = [
                [tensor[replica] for tensor in tensors] for replica in range(self.graph.replicas)
            ]
        tiles = [self._tiles(of_replica) for of_replica in by_replica]
        if not remote and any(
            np.unique(tensor // target.tiles_per_ipu).size > 1 for tensor in tiles
        ):
            kind = BETWEEN_IPUS
        return kind + self._tile_kind(np.concatenate(tiles))

    def _tiles(self, tensors: Sequence[Tensor]) -> Array:
        """Return the tiles of the tensors' elements; a tile may occur several times."""
        return self.graph.tile_map.split(*extent_of(tensors))[3]

    def _extents(self, step: Step) -> tuple[Extent, Extent]:
        """Return (bytes read, bytes written) by a copy.

        A remote buffer is represented by one byte whose address is beyond the memory of all tiles.
        """
        read, written = map(extent_of, touched(step))
        if isinstance(step, RemoteCopyStep):
            buffer_number = self._buffers.setdefault(step.buffer.handle, len(self._buffers))
            buffer_byte = self.graph.memory_bytes + buffer_number
            start, stop = map(
                np.append, written if step.store else read, (buffer_byte, buffer_byte + 1)
            )
            read, written = (read, (start, stop)) if step.store else ((start, stop), written)
        return read, written


def _pieces(extents: Sequence[Extent]) -> Pieces:
    """Return the byte intervals of several tensors in one table: (pointers, starts, stops).

    Tensor i has the intervals with the indices from pointers[i] to before pointers[i + 1].
    """
    start, stop = zip(*extents, strict=True)
    return np.cumsum([0, *map(len, start)]), np.concatenate(start), np.concatenate(stop)


def _overlaps(pieces: Pieces, start: Array, stop: Array) -> Array:
    """Return, for each tensor in `pieces`, whether it overlaps an interval: bool[tensors].

    The intervals are [start[i], stop[i]). They must be disjoint and in ascending order.
    """
    pointers, piece_starts, piece_stops = pieces
    hits_before = np.cumsum(
        np.append(
            0, np.searchsorted(start, piece_stops) > np.searchsorted(stop, piece_starts, "right")
        )
    )
    return hits_before[pointers[1:]] > hits_before[pointers[:-1]]


def _independent(read: Pieces, written: Pieces, first_copy: int, end_copy: int) -> int:
    """Return how many consecutive copies, from copy number `first_copy` on, are independent.

    Only copies before number `end_copy` count. The result is found by an exponential search.
    """

    def fits(count: int) -> bool:
        (read_start, read_stop), (write_start, write_stop) = (
            [
                bounds[pointers[first_copy] : pointers[first_copy + count]]
                for bounds in starts_and_stops
            ]
            for pointers, *starts_and_stops in (read, written)
        )
        order = np.argsort(write_start, kind="stable")
        write_start = write_start[order]
        write_stop = write_stop[order]
        return not np.any(write_start[1:] < write_stop[:-1]) and not meet(
            write_start, write_stop, read_start, read_stop
        )

    count = 1
    stride = 1
    while first_copy + count + stride <= end_copy and fits(count + stride):
        count = count + stride
        stride = 2 * stride
    while stride := stride // 2:
        if first_copy + count + stride <= end_copy and fits(count + stride):
            count += stride
    return count
