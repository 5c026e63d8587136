"""The effects of compiled steps on a set of elements: which elements they read, write and copy.

Each element that a step writes has an origin. This is where the new value comes from: a vertex,
another element, or the host.
"""

from __future__ import annotations

from dataclasses import dataclass, field as column, replace
from functools import cached_property

import numpy as np

from ipu_teach.compile import programs as p
from ipu_teach.compile.freeze import FrozenTable
from ipu_teach.cost import CostModel
from ipu_teach.graph.stream import DataStream
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.tile_map import expand
from ipu_teach.show.scene import Origins, element
from ipu_teach.types import Array

HOST = -1  # The tile number that stands for the host as sender or receiver.

Pair = tuple[int, int]  # A pair (sending tile, receiving tile).


class Names:
    """Consecutive integers for the names of variables, codelets and streams, in order of first use.

    A name consists of a string and a shape. The shape is () unless it is the name of a variable.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, tuple[int, ...]], int] = {}

    def __call__(self, name: str, shape: tuple[int, ...] = ()) -> int:
        """Return the number of a name with a shape. A new name gets the next number."""
        return self._numbers.setdefault((name, shape), len(self._numbers))

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of their integers."""
        return tuple(name for name, _ in self._numbers)

    def element(self, number: int, index: int) -> str:
        """Return the name of an element of a variable, such as u[3, 4].

        `number` is the number of the variable's name, and `index` is the flat index of the element.
        """
        return element(*list(self._numbers)[number], index)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each name, in the order of their integers; () for a name without a shape."""
        return tuple(shape for _, shape in self._numbers)


@dataclass(frozen=True, eq=False)
class Step:
    """The elements that a compiled step reads, writes and moves, as indices in a set of elements.

    Attributes:
        reads, writes: the elements that the step reads and writes.
        origins: the origins of the new values of the written elements.
        comes: maps (sending tile, receiving tile) to the elements that are sent before the step
            computes.
        goes: maps (sending tile, receiving tile) to the elements that are sent after the step
            computes, or that the host receives.
        after: whether the elements in `comes` get their values only at the end of the step.
        by_host: whether the host is the sender or the receiver.
        copied: maps (sending tile, receiving tile) to the elements that copies move in a step that
            also executes a compute set.
    """

    reads: Array
    writes: Array
    origins: tuple[Origins, ...]
    comes: dict[Pair, Array]
    goes: dict[Pair, Array]
    after: bool = False
    by_host: bool = False
    copied: dict[Pair, Array] = column(default_factory=dict)


NONE: Array = np.zeros(0, np.int64)


class Elements:
    """A set of elements, which finds those that a compiled step reads, writes and copies.

    `address` has the byte address of each element, and `tile` has its tile. An element that a
    vertex reads from another tile is recorded as sent only if the vertex is on a tile in `seen`.
    """

    def __init__(self, model: CostModel, address: Array, names: Names, seen: Array) -> None:
        self.model = model
        self.graph = model.compiled.graph
        self.names = names
        self.address = address
        self.tile = self.graph.tile_map.at(address).astype(np.int64)
        self.seen = seen
        self._order = np.argsort(address, kind="stable")
        self._sorted = address[self._order]

    @cached_property
    def _starts(self) -> Array:
        return np.array([v.start for v in self.graph.variables], np.int64)

    def named(self, address: Array) -> tuple[Array, Array]:
        """Return `(names, indices)`: the variable at each byte address, and its flat index.

        A variable is given by the integer that `self.names` assigns to its name. The index is that
        of the element within the variable.
        """
        which = np.searchsorted(self._starts, address, "right") - 1
        variables = self.graph.variables
        size = np.array([v.dtype.size for v in variables], np.int64)
        name = np.array(
            [self.names(variables[i].name, tuple(variables[i].shape)) for i in which.tolist()],
            np.int64,
        )
        return name, (address - self._starts[which]) // size[which]

    def within(self, start: Array, stop: Array) -> tuple[Array, Array]:
        """Return `(intervals, elements)`: which elements begin in which byte interval.

        Interval i contains the bytes from `start[i]` to before `stop[i]`. Element `elements[k]`
        begins in the interval with the index `intervals[k]`.
        """
        low = np.searchsorted(self._sorted, start)
        high = np.searchsorted(self._sorted, stop)
        which, place = expand(low, high - low)
        return which, self._order[place]

    def step(self, number: int, compute_set: int) -> Step:
        """Return the elements that the compiled step with index `number` reads, writes and moves.

        `compute_set` is the index of the compute set that the step executes, or -1 for none.
        """
        if compute_set >= 0:
            does = self._execute(self.graph.compute_sets[compute_set].tables)
            besides = self._copy(p.moves(self.model.compiled_step(number)))
            reads, writes = (
                np.union1d(*both)
                for both in ((does.reads, besides.reads), (does.writes, besides.writes))
            )
            origins = (*does.origins, *besides.origins)
            return replace(does, reads=reads, writes=writes, origins=origins, copied=besides.comes)
        step = self.model.compiled_step(number)
        sides: list[tuple[Tensor | DataStream, Tensor | DataStream]] = [
            (c.source, c.destination) for c in p.copies(step)
        ]
        remote = [
            self._outside(part.tensor, not part.store, part.buffer.handle, "the remote buffer")
            for part in p.parts(step)
            if isinstance(part, p.RemoteCopyStep)
        ]
        if remote:
            return _all(remote)
        for source, destination in sides:
            if isinstance(source, DataStream) and isinstance(destination, Tensor):
                return self._outside(destination, True, source.handle, "the stream")
            if isinstance(destination, DataStream) and isinstance(source, Tensor):
                return self._outside(source, False, destination.handle, "the stream")
        return self._copy(p.moves(step))

    def _execute(self, tables: tuple[FrozenTable, ...]) -> Step:
        """Return the elements that the vertices in these tables read, write and exchange."""
        reads = [NONE]
        comes = [(NONE, NONE, NONE)]
        crossing_out = [(NONE, NONE, NONE)]
        written = [(NONE, NONE, NONE, NONE)]
        for table in tables:
            codelet = self.names(table.codelet.__name__)
            for name, field in table.fields.items():
                if field.kind in ("input", "inout"):
                    parts = self.graph.touched(table, name)
                    which, cell = self.within(parts.start, parts.stop)
                    reads.append(cell)
                    tile = table.tiles[parts.row[which]].astype(np.int64)
                    far = np.isin(tile, self.seen) & (tile != self.tile[cell])
                    comes.append((self.tile[cell][far], tile[far], cell[far]))
                if field.kind in ("output", "inout"):
                    parts = self.graph.intervals(table, name)
                    which, cell = self.within(parts.start, parts.stop)
                    row = parts.row[which]
                    tile = table.tiles[row].astype(np.int64)
                    written.append(
                        (cell, np.full(len(cell), codelet), table.order[row].astype(np.int64), tile)
                    )
                    crossing_out.append((tile, self.tile[cell], cell))
        phrase = "written by vertex {index} of {name} on tile {tile}"
        return Step(
            *_touched(phrase, False, reads, written), _crossing(comes), _crossing(crossing_out)
        )

    def _copy(self, sides: list[tuple[Tensor, Tensor]]) -> Step:
        """Return the elements that copies read, write and move.

        `sides` has (source, destination) of each copy.
        """
        written = [(NONE, NONE, NONE, NONE)]
        comes = [(NONE, NONE, NONE)]
        reads = [NONE]
        for source, destination in sides:
            source_bytes, target_bytes = (
                side.positions().reshape(-1) * side.dtype.size for side in (source, destination)
            )
            which, element_ids = self.within(target_bytes, target_bytes + 1)
            name, index = self.named(source_bytes[which])
            tile = self.graph.tile_map.at(source_bytes[which]).astype(np.int64)
            written.append((element_ids, name, index, tile))
            comes.append((tile, self.tile[element_ids], element_ids))
            reads.append(self.within(source_bytes, source_bytes + 1)[1])
        phrase = "copied from {name}[{index}] on tile {tile}"
        return Step(*_touched(phrase, True, reads, written), _crossing(comes), {}, True)

    def _outside(self, tensor: Tensor, into: bool, name: str, noun: str) -> Step:
        """Return the elements that a copy from or to a stream or remote buffer moves.

        `into` says whether the copy writes the tensor. `name` is the handle of the stream or remote
        buffer, and `noun` is "the stream" or "the remote buffer".
        """
        positions = tensor.positions().reshape(-1) * tensor.dtype.size
        which, cell = self.within(positions, positions + 1)
        away = np.full(len(cell), HOST)
        if not into:
            crossing_out = _crossing([(self.tile[cell], away, cell)])
            return Step(np.unique(cell), NONE, (), {}, goes=crossing_out, by_host=True)
        named = np.full(len(cell), self.names(name))
        phrase = f"element {{index}} of {noun} {{name}}"
        comes = _crossing([(away, self.tile[cell], cell)])
        touched = _touched(phrase, False, [NONE], [(cell, named, which, away)])
        return Step(*touched, comes, {}, True, True)


def _touched(
    phrase: str, element: bool, reads: list[Array], written: list[tuple[Array, Array, Array, Array]]
) -> tuple[Array, Array, tuple[Origins, ...]]:
    """Return `(reads, writes, origins)`, which are the first fields of a `Step`.

    `reads` are arrays of the elements that are read. An entry of `written` has four arrays: the
    elements that are written, and for each element the name, the index and the tile from which its
    value comes. `phrase` and `element` are the fields `how` and `element` of the resulting
    `Origins`.
    """
    cell, *columns = (np.concatenate(column) for column in zip(*written, strict=True))
    origins = (Origins(phrase, element, cell, *columns),) if len(cell) else ()
    return np.unique(np.concatenate(reads)), np.unique(cell), origins


def _all(steps: list[Step]) -> Step:
    """Return the elements that several simultaneous steps read, write and move in total."""
    reads, writes = (
        np.unique(np.concatenate(sides))
        for sides in zip(*((s.reads, s.writes) for s in steps), strict=True)
    )
    comes, crossing_out = (
        {
            pair: np.concatenate([way[pair] for way in ways if pair in way])
            for way in ways
            for pair in way
        }
        for ways in zip(*((s.comes, s.goes) for s in steps), strict=True)
    )
    origins = tuple(origin for s in steps for origin in s.origins)
    return replace(
        steps[0], reads=reads, writes=writes, origins=origins, comes=comes, goes=crossing_out
    )


def _crossing(parts: list[tuple[Array, Array, Array]]) -> dict[Pair, Array]:
    """Map each (sending tile, receiving tile) to the distinct elements sent between the two.

    Each of the `parts` is (sending tiles, receiving tiles, elements), three arrays with an entry
    for each element. Elements that stay on their tile are left out.
    """
    source, target, element = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows = np.unique(np.stack((source, target, element), axis=1)[source != target], axis=0)
    first = np.flatnonzero(
        np.append(True, np.any(rows[1:, :2] != rows[:-1, :2], axis=1))[: len(rows)]
    )
    return {
        (int(group[0, 0]), int(group[0, 1])): group[:, 2]
        for group in np.split(rows, first[1:])
        if len(group)
    }
