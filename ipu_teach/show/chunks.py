"""Where the bytes that IPUs send each other began, and which IPUs have added to them: followed byte
by byte through the copies and compute sets of a run.

A byte begins on the IPU of its tile. A copy hands its label on. A vertex whose fields are equally
long joins them element by element, another one all that it reads. A sum that holds a part of every
IPU of its group is complete: from then on it counts as begun where it was completed. A part that
meets itself in a sum belongs to a new collective, before which all labels are those of the tiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import NamedTuple

import numpy as np

from ipu_teach.compile import programs as p
from ipu_teach.compile.freeze import FrozenTable
from ipu_teach.cost import CostModel
from ipu_teach.graph.stream import DataStream
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.tile_map import expand
from ipu_teach.types import Array

Pair = tuple[int, int]  # from an IPU to an IPU


class Label(NamedTuple):
    """The IPU on which a byte began, the IPUs that have added to it (one bit each), and the round
    in which it arrived, or -1."""

    began: int
    parts: int
    round: int


class Chunk(NamedTuple):
    """A part of a message: where it began or, of a sum of all, was completed; and its bytes."""

    began: int
    complete: bool
    size: int


class Chunks:
    """Follows the bytes of the compiled steps of `model`. `group`: for each IPU the bits of those
    with which it shares a collective."""

    def __init__(self, model: CostModel, tiles_per_ipu: int, group: Mapping[int, int]) -> None:
        self.model, self.graph, self.group = model, model.compiled.graph, group
        tile = self.graph.tile_map.at(np.arange(self.graph.memory_bytes))
        self.ipu: Array = np.maximum(tile, 0) // tiles_per_ipu  # of each byte
        self.per_ipu = tiles_per_ipu
        self._numbers: dict[Label, int] = {}
        self._moves: dict[int, tuple[Array, Array]] = {}
        self.forget()

    def forget(self) -> None:
        """Let every byte begin on the IPU of its tile."""
        ipus = range(int(self.ipu.max(initial=0)) + 1)
        own: Array = np.array([self._number(Label(i, 1 << i, -1)) for i in ipus], np.int64)
        self.of = own[self.ipu]

    def _number(self, label: Label) -> int:
        return self._numbers.setdefault(label, len(self._numbers))

    @property
    def labels(self) -> list[Label]:
        """All labels by their numbers."""
        return list(self._numbers)

    def step(self, number: int, round_: int) -> tuple[dict[Pair, list[Chunk]], bool]:
        """(what goes from IPU to IPU in compiled step `number`; whether a part that arrived in the
        current round `round_` meets itself in a sum)."""
        sent: Counter[tuple[int, int, int]] = Counter()
        meets_itself, step = False, self.model.compiled_step(number)
        if (compute_set := self.model.compute_set(number)) is not None:
            changed = []
            for table in compute_set.tables:
                for at, labels, again in self._vertices(table, round_, sent):
                    changed.append((at, labels))
                    meets_itself |= again
            for at, labels in changed:
                self.of[at] = labels
        there, here = self._moved(number, step)
        labels = self.of[there]
        self._note(sent, there, self.ipu[here])
        self.of[here] = self._arrived(labels, self.ipu[there] != self.ipu[here], round_)
        for destination in _from_host(step):
            at = _bytes(destination)
            self.of[at] = [self._number(Label(i, 1 << i, -1)) for i in self.ipu[at].tolist()]
        known, chunks = self.labels, dict[Pair, list[Chunk]]()
        for (a, b, label), size in sent.items():
            complete = known[label].parts == self.group.get(a, 0)
            chunks.setdefault((a, b), []).append(Chunk(known[label].began, complete, size))
        return {pair: _merged(some) for pair, some in chunks.items()}, meets_itself

    def _moved(self, number: int, step: p.Step) -> tuple[Array, Array]:
        """The bytes that the copies of a step read, and those to which they go."""
        if number not in self._moves:
            sides = [(_bytes(a), _bytes(b)) for a, b in p.moves(step)] or [_NONE]
            there, here = (np.concatenate(side) for side in zip(*sides, strict=True))
            self._moves[number] = there, here
        return self._moves[number]

    def _note(self, sent: Counter[tuple[int, int, int]], at: Array, to: Array) -> None:
        """Count the bytes `at` that go to other IPUs, each once for an IPU that receives it."""
        away = self.ipu[at] != to
        to, at = _distinct((to[away], at[away]))
        rows = self.ipu[at], to, self.of[at]
        keys, counts = np.unique(_keys(rows), return_counts=True)
        for *key, count in zip(*_columns(keys, rows), counts.tolist(), strict=True):
            sent[key[0], key[1], key[2]] += count

    def _arrived(self, labels: Array, away: Array, round_: int) -> Array:
        """The labels of what was copied: of what comes from another IPU with this round."""
        known = self.labels
        arrived: Array = np.arange(len(known))
        for label in np.unique(labels[away]).tolist():
            arrived[label] = self._number(known[label]._replace(round=round_))
        found: Array = np.where(away, arrived[labels], labels)
        return found

    def _vertices(
        self, table: FrozenTable, round_: int, sent: Counter[tuple[int, int, int]]
    ) -> Iterator[tuple[Array, Array, bool]]:
        """(bytes, their labels, whether a part meets itself) of each field that vertices write."""
        ipu = table.tiles.astype(np.int64) // self.per_ipu
        reads, writes = [], []
        for name, field in table.fields.items():
            found = self.graph.intervals(table, name)
            which, at = expand(found.start, found.stop - found.start)
            row = found.row[which]
            if field.kind in ("input", "inout"):
                self._note(sent, at, ipu[row])
                labels = self._arrived(self.of[at], self.ipu[at] != ipu[row], round_)
                reads.append((row, labels))
            if field.kind in ("output", "inout"):
                writes.append((row, at))
        for row, at in writes:
            alike = [labels for other, labels in reads if np.array_equal(other, row)]
            if len(alike) == len(reads) and reads:
                labels, again = self._joined(alike, ipu[row], round_)
            else:
                labels, again = self._all_read(reads, row, ipu, round_), False
            yield at, labels, again

    def _joined(self, parts: list[Array], ipu: Array, round_: int) -> tuple[Array, bool]:
        """Labels joined element by element, on these IPUs; whether a part meets itself."""
        labels, again = parts[0], False
        for other in parts[1:]:
            rows = labels, other, ipu
            keys = _keys(rows)
            distinct = np.unique(keys)
            known, joined = self.labels, list[int]()
            for a, b, here in zip(*_columns(distinct, rows), strict=True):
                x, y = known[a], known[b]
                again |= bool(round_ in (x.round, y.round) and x.parts & y.parts)
                joined.append(self._number(self._join(x, y, here)))
            labels = np.array(joined, np.int64)[np.searchsorted(distinct, keys)]
        return labels, again

    def _all_read(self, reads: list[tuple[Array, Array]], row: Array, ipu: Array, _: int) -> Array:
        """Labels of what vertices write that read more, or less, than they write."""
        known, of_row = self.labels, dict[int, set[int]]()
        for rows, labels in reads:
            for r, label in np.stack(_distinct((rows, labels)), axis=1).tolist():
                of_row.setdefault(r, set()).add(label)
        written = dict[int, int]()
        for r in np.unique(row).tolist():
            here = int(ipu[r])
            some = [known[label] for label in sorted(of_row.get(r, ()))]
            some = some or [Label(here, 1 << here, -1)]
            written[r] = self._number(reduce(lambda x, y: self._join(x, y, here), some))
        return np.array([written[r] for r in row.tolist()], np.int64)

    def _join(self, x: Label, y: Label, here: int) -> Label:
        """The label of what is made of two on an IPU: it goes on as the part that came last."""
        if x == y:
            return x
        parts = x.parts | y.parts
        first = max(x, y, key=lambda one: (one.round, one.parts.bit_count(), one.began != here))
        began = here if parts == self.group.get(here, 0) else first.began
        return Label(began, parts, first.round)


def _keys(columns: tuple[Array, ...]) -> Array:
    """A number for each row of these columns, as numbers are sorted faster than rows are."""
    keys: Array = np.zeros_like(columns[0], np.int64)
    for column in columns:
        keys = keys * (1 + int(column.max(initial=0))) + column
    return keys


def _columns(keys: Array, columns: tuple[Array, ...]) -> list[list[int]]:
    """The rows of these keys, column by column."""
    shape = [1 + int(column.max(initial=0)) for column in columns]
    return [part.tolist() for part in np.unravel_index(keys, shape)]


def _distinct(columns: tuple[Array, Array]) -> tuple[Array, Array]:
    """The rows of two columns, each once."""
    keys = np.sort(_keys(columns))
    keys = keys[np.concatenate((np.ones(min(1, keys.size), bool), keys[1:] != keys[:-1]))]
    first, second = np.divmod(keys, 1 + int(columns[1].max(initial=0)))
    return first, second


_NONE: tuple[Array, Array] = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _bytes(tensor: Tensor) -> Array:
    """The bytes of a tensor, element by element."""
    size = tensor.dtype.size
    start = tensor.positions().reshape(-1, 1) * size
    found: Array = (start + np.arange(size)).reshape(-1)
    return found


def _from_host(step: p.Step) -> Iterator[Tensor]:
    """What a step writes with data of the host or of streaming memory."""
    for part in p.remote(step):
        if not part.store:
            yield part.tensor
    for copy in p.copies(step):
        if isinstance(copy.source, DataStream) and isinstance(copy.destination, Tensor):
            yield copy.destination


def _merged(chunks: list[Chunk]) -> list[Chunk]:
    """One for each origin, the largest first."""
    sizes: Counter[tuple[int, bool]] = Counter()
    for chunk in chunks:
        sizes[chunk.began, chunk.complete] += chunk.size
    return sorted((Chunk(*key, size) for key, size in sizes.items()), key=lambda c: -c.size)
