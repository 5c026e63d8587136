"""The origin of the bytes that IPUs send each other, and the IPUs that have added to them.

Bytes are followed through the copies and compute sets of a run by labels:

* A byte begins on the IPU of its tile, and a copy passes its label on.
* A vertex whose fields are equally long joins their labels element by element. Any other vertex
  joins the labels of all that it reads.
* A sum with a part of every IPU of its group is complete, and has its origin on the IPU that
  completed it.
* If a part is added to a sum that contains it already, a new collective has begun, and all labels
  start again.
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
from ipu_teach.graph.tile_map import combined, distinct, expand
from ipu_teach.types import Array

Pair = tuple[int, int]  # from an IPU to an IPU


class Label(NamedTuple):
    """The IPU on which a byte began, the IPUs that have added to it (one bit each), and the round
    in which it arrived, or -1."""

    began: int
    parts: int
    round: int


class Chunk(NamedTuple):
    """A part of a message: the IPU where it began or was completed, and its bytes."""

    began: int
    complete: bool
    size: int


class Chunks:
    """The labels of all bytes, which follow the compiled steps of `model`.

    `group` has, for each IPU, one bit for each IPU of its collective.
    """

    def __init__(self, model: CostModel, tiles_per_ipu: int, group: Mapping[int, int]) -> None:
        self.model = model
        self.graph = model.compiled.graph
        self.group = group
        tile = self.graph.tile_map.at(np.arange(self.graph.memory_bytes))
        self.ipu: Array = np.maximum(tile, 0) // tiles_per_ipu  # the IPU of each byte
        self.per_ipu = tiles_per_ipu
        self._numbers: dict[Label, int] = {}
        self._moves: dict[int, tuple[Array, Array]] = {}
        self.forget()

    def forget(self) -> None:
        """Let every byte begin on the IPU of its tile."""
        ipus = range(int(self.ipu.max(initial=0)) + 1)
        numbers: Array = np.array([self._number(Label(i, 1 << i, -1)) for i in ipus], np.int64)
        self.of = numbers[self.ipu]

    def _number(self, label: Label) -> int:
        return self._numbers.setdefault(label, len(self._numbers))

    @property
    def labels(self) -> list[Label]:
        """All labels, in the order of their numbers."""
        return list(self._numbers)

    def step(self, number: int, round_: int) -> tuple[dict[Pair, list[Chunk]], bool]:
        """Return the chunks that a compiled step sends between IPUs, by pair of IPUs.

        The second value is whether a part that arrived in the current round, `round_`, is added to
        a sum that contains it.
        """
        sent: Counter[tuple[int, int, int]] = Counter()
        meets_itself = False
        step = self.model.compiled_step(number)
        if (compute_set := self.model.compute_set(number)) is not None:
            changed = []
            for table in compute_set.tables:
                for at, labels, again in self._vertices(table, round_, sent):
                    changed.append((at, labels))
                    meets_itself |= again
            for at, labels in changed:
                self.of[at] = labels
        source, target = self._moved(number, step)
        labels = self.of[source]
        self._note(sent, source, self.ipu[target])
        self.of[target] = self._arrived(labels, self.ipu[source] != self.ipu[target], round_)
        for destination in _from_host(step):
            at = _bytes(destination)
            self.of[at] = [self._number(Label(i, 1 << i, -1)) for i in self.ipu[at].tolist()]
        known = self.labels
        chunks = dict[Pair, list[Chunk]]()
        for (a, b, label), size in sent.items():
            complete = known[label].parts == self.group.get(a, 0)
            chunks.setdefault((a, b), []).append(Chunk(known[label].began, complete, size))
        return {pair: _merged(parts) for pair, parts in chunks.items()}, meets_itself

    def _moved(self, number: int, step: p.Step) -> tuple[Array, Array]:
        """Return the bytes that the copies of a step read, and the bytes that they write."""
        if number not in self._moves:
            sides = [(_bytes(a), _bytes(b)) for a, b in p.moves(step)] or [_NONE]
            source, target = (np.concatenate(side) for side in zip(*sides, strict=True))
            self._moves[number] = source, target
        return self._moves[number]

    def _note(self, sent: Counter[tuple[int, int, int]], at: Array, to: Array) -> None:
        """Count the bytes `at` that go to other IPUs, once for each IPU that receives them."""
        away = self.ipu[at] != to
        to, at = _distinct_rows(to[away], at[away])
        rows = self.ipu[at], to, self.of[at]
        keys, counts = np.unique(combined(*rows), return_counts=True)
        for *key, count in zip(*_columns(keys, rows), counts.tolist(), strict=True):
            sent[key[0], key[1], key[2]] += count

    def _arrived(self, labels: Array, away: Array, round_: int) -> Array:
        """Return the labels of copied bytes; those from another IPU get this round."""
        known = self.labels
        arrived: Array = np.arange(len(known))
        for label in np.unique(labels[away]).tolist():
            arrived[label] = self._number(known[label]._replace(round=round_))
        result: Array = np.where(away, arrived[labels], labels)
        return result

    def _vertices(
        self, table: FrozenTable, round_: int, sent: Counter[tuple[int, int, int]]
    ) -> Iterator[tuple[Array, Array, bool]]:
        """Yield (bytes, labels, whether a sum repeats a part) of each field that vertices write."""
        ipu = table.tiles.astype(np.int64) // self.per_ipu
        reads = []
        writes = []
        for name, field in table.fields.items():
            intervals = self.graph.intervals(table, name)
            index, at = expand(intervals.start, intervals.stop - intervals.start)
            row = intervals.row[index]
            if field.kind in ("input", "inout"):
                self._note(sent, at, ipu[row])
                labels = self._arrived(self.of[at], self.ipu[at] != ipu[row], round_)
                reads.append((row, labels))
            if field.kind in ("output", "inout"):
                writes.append((row, at))
        for row, at in writes:
            parts = [labels for rows, labels in reads if np.array_equal(rows, row)]
            if len(parts) == len(reads) and reads:
                labels, again = self._joined(parts, ipu[row], round_)
            else:
                labels = self._all_read(reads, row, ipu)
                again = False
            yield at, labels, again

    def _joined(self, parts: list[Array], ipu: Array, round_: int) -> tuple[Array, bool]:
        """Return (labels joined element by element on these IPUs, whether a part is added twice).

        A part counts as added twice if it arrived in `round_` and the sum already contains it.
        """
        labels = parts[0]
        again = False
        for added in parts[1:]:
            rows = labels, added, ipu
            keys = combined(*rows)
            different = np.unique(keys)
            known = self.labels
            joined = list[int]()
            for a, b, own_ipu in zip(*_columns(different, rows), strict=True):
                x, y = known[a], known[b]
                again |= bool(round_ in (x.round, y.round) and x.parts & y.parts)
                joined.append(self._number(self._join(x, y, own_ipu)))
            labels = np.array(joined, np.int64)[np.searchsorted(different, keys)]
        return labels, again

    def _all_read(self, reads: list[tuple[Array, Array]], row: Array, ipu: Array) -> Array:
        """Return the labels that vertices write whose fields are not equally long."""
        known = self.labels
        of_row = dict[int, set[int]]()
        for rows, labels in reads:
            for r, label in np.stack(_distinct_rows(rows, labels), axis=1).tolist():
                of_row.setdefault(r, set()).add(label)
        written = dict[int, int]()
        for r in np.unique(row).tolist():
            own_ipu = int(ipu[r])
            joined = [known[label] for label in sorted(of_row.get(r, ()))]
            joined = joined or [Label(own_ipu, 1 << own_ipu, -1)]
            written[r] = self._number(reduce(lambda x, y: self._join(x, y, own_ipu), joined))
        return np.array([written[r] for r in row.tolist()], np.int64)

    def _join(self, x: Label, y: Label, own_ipu: int) -> Label:
        """Return the label of two parts that an IPU joins, with the origin of the newer part."""
        if x == y:
            return x
        parts = x.parts | y.parts
        newer = max(
            x, y, key=lambda part: (part.round, part.parts.bit_count(), part.began != own_ipu)
        )
        began = own_ipu if parts == self.group.get(own_ipu, 0) else newer.began
        return Label(began, parts, newer.round)


def _columns(keys: Array, columns: tuple[Array, ...]) -> list[list[int]]:
    """Return the rows of which `combined` made these keys, column by column."""
    shape = [1 + int(column.max(initial=0)) for column in columns]
    return [part.tolist() for part in np.unravel_index(keys, shape)]


def _distinct_rows(first: Array, second: Array) -> tuple[Array, Array]:
    """Return the rows of two columns, each once."""
    keys = distinct(combined(first, second))
    firsts, seconds = np.divmod(keys, 1 + int(second.max(initial=0)))
    return firsts, seconds


_NONE: tuple[Array, Array] = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _bytes(tensor: Tensor) -> Array:
    """Return the byte addresses of a tensor, element by element."""
    size = tensor.dtype.size
    start = tensor.positions().reshape(-1, 1) * size
    addresses: Array = (start + np.arange(size)).reshape(-1)
    return addresses


def _from_host(step: p.Step) -> Iterator[Tensor]:
    """Yield the tensors that a step fills from the host or from streaming memory."""
    for part in p.remote(step):
        if not part.store:
            yield part.tensor
    for copy in p.copies(step):
        if isinstance(copy.source, DataStream) and isinstance(copy.destination, Tensor):
            yield copy.destination


def _merged(chunks: list[Chunk]) -> list[Chunk]:
    """Join the chunks of each origin; return the largest first."""
    sizes: Counter[tuple[int, bool]] = Counter()
    for chunk in chunks:
        sizes[chunk.began, chunk.complete] += chunk.size
    return sorted((Chunk(*key, size) for key, size in sizes.items()), key=lambda c: -c.size)
