"""Follow the chunks that IPUs send each other in a collective, and the sums that they contain.

A collective adds up a tensor over a group of IPUs. A chunk is a region of that tensor: the elements
whose sums are completed by the same IPU, which is the home of the chunk.

A `Label` follows each byte through the copies and compute sets of a run. It says on which IPU the
byte began, and which IPUs have contributed to its value:

- A byte begins at its own address, on the IPU of its tile. Once the byte has left its IPU, it keeps
  this origin. A copy also copies the label.
- If all fields of a vertex have the same length, the vertex joins their labels element by element.
  Any other vertex joins the labels of everything that it reads.
- A sum is complete if every IPU of the group has contributed to it.
- If an IPU contributes to a sum that already contains its value, a new collective has begun, and
  all labels start again.

The home of a byte is known only when its sum is complete, so a collective is followed twice: first
to find the home of each byte, and then to follow the chunks by their numbers. Chunks are numbered
in the order of their first elements in the tensor. A byte has no chunk number if it is part of no
complete sum, or if it is part of several sums that different IPUs complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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

Pair = tuple[int, int]  # A pair (sending IPU, receiving IPU).


# The home of a byte is the IPU that completes its sum. `UNKNOWN` means that no IPU completes it,
# and `SEVERAL` means that several IPUs do.
UNKNOWN, SEVERAL = -1, -2


class Label(NamedTuple):
    """The IPU on which a byte began, and the IPUs that have contributed to its value.

    Attributes:
        began: the number of the IPU on which the byte began; for a complete sum, the number of the
            IPU that completed it.
        parts: the IPUs whose values have been added up in the byte, as an integer: bit i stands for
            IPU i.
        round: the number of the round in which the byte last arrived from another IPU, or -1 if it
            has not left its IPU.
        number: the number of the chunk to which the byte belongs, or -1.
    """

    began: int
    parts: int
    round: int
    number: int


class Chunk(NamedTuple):
    """The bytes of a message that belong to the same chunk.

    Attributes:
        number: the number of the chunk, or -1 if the bytes belong to no numbered chunk.
        began: the number of the IPU on which the bytes began; for a complete sum, the number of the
            IPU that completed it.
        parts: the number of IPUs whose values have been added up in the bytes.
        complete: whether the values of all IPUs of the collective have been added up.
        size: the number of bytes.
    """

    number: int
    began: int
    parts: int
    complete: bool
    size: int


class Chunks:
    """The label of every byte of a program's memory, updated by each compiled step of `model`.

    `group[i]` is an integer whose bits are the IPUs of the collective to which IPU i belongs: bit k
    means IPU k.

    Attributes:
        ipu: for each byte address, the number of its IPU.
        first: for each byte address, the id of its initial label.
        of: for each byte address, the id of its current label.
        origin: for each byte address, the address where its current content began.
        joined: a record of all additions, in the order of the run. (origins, other origins, False):
            bytes that began at `origins` were added to bytes that began at `other origins`.
            (origins, IPUs, True): these IPUs completed the sums of bytes that began at `origins`.
    """

    def __init__(self, model: CostModel, tiles_per_ipu: int, group: Mapping[int, int]) -> None:
        self.model = model
        self.graph = model.compiled.graph
        self.group = group
        tile = self.graph.tile_map.at(np.arange(self.graph.memory_bytes))
        self.ipu: Array = np.maximum(tile, 0) // tiles_per_ipu
        self.per_ipu = tiles_per_ipu
        self._label_ids: dict[Label, int] = {}
        self._moves: dict[int, tuple[Array, Array]] = {}
        self.begin()

    def begin(self, numbers: Array | None = None) -> None:
        """Reset all labels: every byte begins at its own address.

        `numbers` has, for each byte, the number of the chunk to which the byte belongs, or -1. If
        `numbers` is None, it is -1 for all bytes.
        """
        if numbers is None:
            numbers = np.full(len(self.ipu), -1)
        known, inverse = np.unique(combined(self.ipu, numbers + 1), return_inverse=True)
        columns = _columns(known, (self.ipu, numbers + 1))
        label_ids = [
            self._label_id(Label(ipu, 1 << ipu, -1, number - 1))
            for ipu, number in zip(*columns, strict=True)
        ]
        self.first: Array = np.array(label_ids, np.int64)[inverse.reshape(-1)]
        self.of = self.first.copy()
        self.origin: Array = np.arange(len(self.ipu))
        self.joined: list[tuple[Array, Array, bool]] = []

    def _label_id(self, label: Label) -> int:
        """Return the id of a label. A new label gets the next integer."""
        return self._label_ids.setdefault(label, len(self._label_ids))

    @property
    def labels(self) -> list[Label]:
        """All labels, in the order of their ids."""
        return list(self._label_ids)

    def numbers(self, joins: int) -> Array:
        """Return, for each byte address, the number of the chunk to which it belongs, or -1.

        Only the first `joins` entries of the attribute `joined` are used.
        """
        homes = np.full(len(self.ipu), UNKNOWN)
        for origins, others, is_complete in reversed(self.joined[:joins]):
            values = others if is_complete else homes[others]
            is_known = values != UNKNOWN
            origins = origins[is_known]
            values = values[is_known]
            before = homes[origins]
            homes[origins] = np.where(before == UNKNOWN, values, before)
            homes[origins[homes[origins] != values]] = SEVERAL
        return self._numbered(homes)

    def _numbered(self, homes: Array) -> Array:
        """Return, for each byte address, the number of the chunk to which it belongs, or -1.

        `homes` has, for each byte, the IPU that completes its sum, or a negative number if there is
        not exactly one such IPU. The chunks of a group of IPUs are numbered by their position in
        the tensor. On an IPU, this position is the number of bytes, of all chunks, that precede the
        first byte of the chunk. An IPU that lacks some of the earlier chunks has fewer such bytes,
        so the position is the maximum over the IPUs.
        """
        at = np.flatnonzero(homes >= 0)
        at = at[np.argsort(self.ipu[at], kind="stable")]
        ipus = self.ipu[at]
        columns = ipus, homes[at]
        keys, firsts = np.unique(combined(*columns), return_index=True)
        begins = dict[int, int]()
        for ipu, home, first in zip(*_columns(keys, columns), firsts.tolist(), strict=True):
            offset = first - int(np.searchsorted(ipus, ipu))
            begins[home] = max(begins.get(home, 0), offset)
        # Chunks are sorted by group first. Groups are sorted by their first IPU, which is the
        # lowest bit of a group's integer.
        order = sorted(begins, key=lambda i: (self.group[i] & -self.group[i], begins[i], i))
        number_of = np.full(1 + max(begins, default=0), -1)
        number_of[order] = np.arange(len(order))
        result: Array = np.where(homes >= 0, number_of[np.maximum(homes, 0)], -1)
        return result

    def step(
        self, number: int, round_: int, noted: bool = True
    ) -> tuple[dict[Pair, list[Chunk]], bool]:
        """Update the labels for a compiled step, and return `(chunks, repeats)`.

        `chunks` maps (sending IPU, receiving IPU) to the chunks that the step sends between them;
        it is {} if `noted` is False. `repeats` is True if the step added two values to which the
        same IPU had contributed, and at least one of these values arrived in the current round,
        `round_`.
        """
        sent: Counter[tuple[int, int, int]] | None = Counter() if noted else None
        meets_itself = False
        step = self.model.compiled_step(number)
        if (compute_set := self.model.compute_set(number)) is not None:
            changed = []
            for table in compute_set.tables:
                for at, labels, origins, again in self._vertices(table, round_, sent):
                    changed.append((at, labels, origins))
                    meets_itself |= again
            for at, labels, origins in changed:
                self._write(at, labels, origins)
        source, target = self._moved(number, step)
        labels = self.of[source]
        self._note(sent, source, self.ipu[target])
        labels = self._arrived(labels, self.ipu[source] != self.ipu[target], round_)
        self._write(target, labels, self.origin[source])
        for destination in _from_host(step):
            at = _bytes(destination)
            self._write(at, self.first[at], at)
        known = self.labels
        chunks = dict[Pair, list[Chunk]]()
        for (a, b, label_id), size in (sent or {}).items():
            label = known[label_id]
            complete = label.parts == self.group.get(a, 0)
            chunk = Chunk(label.number, label.began, label.parts.bit_count(), complete, size)
            chunks.setdefault((a, b), []).append(chunk)
        return {pair: _merged(parts) for pair, parts in chunks.items()}, meets_itself

    def _write(self, at: Array, labels: Array, origins: Array) -> None:
        """Store the label ids and the origins of the bytes that were written to the addresses `at`.

        Bytes that have not left their IPU get their initial label instead, and their own address as
        the origin.
        """
        has_left = np.array([label.round >= 0 for label in self.labels])[labels]
        self.of[at] = np.where(has_left, labels, self.first[at])
        self.origin[at] = np.where(has_left, origins, at)

    def _moved(self, number: int, step: p.Step) -> tuple[Array, Array]:
        """Return `(sources, destinations)`: the byte addresses that a step copies from and to."""
        if number not in self._moves:
            sides = [(_bytes(a), _bytes(b)) for a, b in p.moves(step)] or [_NONE]
            source, target = (np.concatenate(side) for side in zip(*sides, strict=True))
            self._moves[number] = source, target
        return self._moves[number]

    def _note(self, sent: Counter[tuple[int, int, int]] | None, at: Array, to: Array) -> None:
        """Count in `sent` the bytes at the addresses `at`, which are sent to the IPUs `to`.

        The keys of `sent` are (sending IPU, receiving IPU, label id). A byte that several vertices
        of an IPU read counts once. If `sent` is None, nothing is counted.
        """
        if sent is None:
            return
        away = self.ipu[at] != to
        to, at = _distinct_rows(to[away], at[away])
        columns = self.ipu[at], to, self.of[at]
        keys, counts = np.unique(combined(*columns), return_counts=True)
        rows = zip(*_columns(keys, columns), counts.tolist(), strict=True)
        for source, target, label_id, count in rows:
            sent[source, target, label_id] += count

    def _arrived(self, labels: Array, away: Array, round_: int) -> Array:
        """Return the label ids of bytes after these were copied or read by a vertex.

        `labels` has the label ids before that. If a byte comes from another IPU (`away` is True for
        this byte), its new label has the round `round_`; otherwise the byte keeps its label.
        """
        known = self.labels
        arrived: Array = np.arange(len(known))
        for label_id in np.unique(labels[away]).tolist():
            arrived[label_id] = self._label_id(known[label_id]._replace(round=round_))
        result: Array = np.where(away, arrived[labels], labels)
        return result

    def _vertices(
        self, table: FrozenTable, round_: int, sent: Counter[tuple[int, int, int]] | None
    ) -> Iterator[tuple[Array, Array, Array, bool]]:
        """Yield `(addresses, labels, origins, repeats)` for each field that the vertices write.

        `addresses`, `labels` and `origins` have an entry for each byte of the field; `labels` are
        label ids. `repeats` is True if the vertices add two values to which the same IPU has
        contributed, and at least one of these values arrived in round `round_`.
        """
        ipu = table.tiles.astype(np.int64) // self.per_ipu
        reads: list[tuple[Array, Array, Array]] = []
        writes = []
        for name, field in table.fields.items():
            intervals = self.graph.intervals(table, name)
            index, at = expand(intervals.start, intervals.stop - intervals.start)
            row = intervals.row[index]
            if field.kind in ("input", "inout"):
                self._note(sent, at, ipu[row])
                labels = self._arrived(self.of[at], self.ipu[at] != ipu[row], round_)
                reads.append((row, labels, self.origin[at]))
            if field.kind in ("output", "inout"):
                writes.append((row, at))
        for row, at in writes:
            parts = [part for rows, *part in reads if np.array_equal(rows, row)]
            if len(parts) == len(reads) and reads:
                labels, origins, again = self._joined(parts, ipu[row], round_)
            else:
                labels, origins = self._all_read(reads, row, at, ipu)
                again = False
            yield at, labels, origins, again

    def _joined(
        self, parts: list[list[Array]], ipu: Array, round_: int
    ) -> tuple[Array, Array, bool]:
        """Return `(labels, origins, repeats)` of the sums of several fields, added byte by byte.

        `parts` has [label ids, origins] for each field that is added, and `ipu` is the IPU that
        adds each byte. `repeats` is True if a sum adds two values to which the same IPU has
        contributed, and at least one of these values arrived in round `round_`.
        """
        labels, origins = parts[0]
        again = False
        for added, added_origins in parts[1:]:
            rows = labels, added, ipu
            keys = combined(*rows)
            different = np.unique(keys)
            known = self.labels
            label_ids = list[int]()
            takes_added = list[bool]()
            completed = list[int]()  # The IPU that completes each sum, or -1.
            has_left = list[bool]()
            for a, b, own_ipu in zip(*_columns(different, rows), strict=True):
                x, y = known[a], known[b]
                again |= bool(round_ in (x.round, y.round) and x.parts & y.parts)
                label, newer = self._join(x, y, own_ipu)
                label_ids.append(self._label_id(label))
                takes_added.append(newer is not x)
                completed.append(own_ipu if self._completes(label, (x, y), own_ipu) else -1)
                has_left.append(label.round >= 0)
            inverse = np.searchsorted(different, keys)
            labels = np.array(label_ids, np.int64)[inverse]
            followed = np.array(takes_added)[inverse]
            kept = np.where(followed, added_origins, origins)
            dropped = np.where(followed, origins, added_origins)
            self._log(kept, dropped, np.array(completed)[inverse], np.array(has_left)[inverse])
            origins = kept
        return labels, origins, again

    def _log(self, kept: Array, dropped: Array, completed: Array, has_left: Array) -> None:
        """Record in `joined` which bytes were added to each other, and which sums are complete.

        Each sum has two summands, whose origins are in `kept` and `dropped`; the origin of the sum
        is `kept`. For each sum, `completed` is the IPU that completes it, or -1, and `has_left`
        says whether the sum contains a byte that has left its IPU.
        """
        at = np.flatnonzero(has_left & (completed < 0) & (kept != dropped))
        self.joined.append((dropped[at], kept[at], False))
        at = np.flatnonzero(completed >= 0)
        for origins in (kept[at], dropped[at]):
            self.joined.append((origins, completed[at], True))

    def _completes(self, label: Label, parts: Iterable[Label], own_ipu: int) -> bool:
        """Return whether a sum, but none of its summands, contains all IPUs of its collective.

        `label` is the label of the sum, `parts` are the labels of its summands, and `own_ipu` is
        the IPU that adds them.
        """
        group = self.group.get(own_ipu, 0)
        return label.parts == group and all(part.parts != group for part in parts)

    def _all_read(
        self, reads: list[tuple[Array, Array, Array]], row: Array, at: Array, ipu: Array
    ) -> tuple[Array, Array]:
        """Return `(labels, origins)` of bytes written by vertices with fields of different lengths.

        Every byte that a vertex writes gets the joined label of all bytes that the vertex reads.
        Its origin is the address of the first byte that the vertex writes. `reads` has one tuple of
        three arrays for each field that is read. For each byte of the field, they contain its
        vertex, its label id and its origin. For each byte that is written, `row` holds its vertex,
        and `at` holds its address. `ipu` holds the IPU of each vertex.
        """
        known = self.labels
        of_row = dict[int, set[int]]()
        for rows, labels, _ in reads:
            for r, label_id in np.stack(_distinct_rows(rows, labels), axis=1).tolist():
                of_row.setdefault(r, set()).add(label_id)
        written = dict[int, int]()
        completed = dict[int, int]()
        rows_written, firsts = np.unique(row, return_index=True)
        for r in rows_written.tolist():
            own_ipu = int(ipu[r])
            parts = [known[label_id] for label_id in sorted(of_row.get(r, ()))]
            parts = parts or [Label(own_ipu, 1 << own_ipu, -1, -1)]
            label = reduce(lambda x, y: self._join(x, y, own_ipu)[0], parts)
            written[r] = self._label_id(label)
            completed[r] = own_ipu if self._completes(label, parts, own_ipu) else -1
        of_rows = np.full(len(ipu), -1)  # The origin of the bytes that each vertex writes.
        of_rows[rows_written] = at[firsts]
        has_left = np.array([label.round >= 0 for label in self.labels])
        for rows, _, origins in reads:
            is_written = np.isin(rows, rows_written)
            rows = rows[is_written]
            ids = np.array([written[r] for r in rows.tolist()], np.int64)
            completed_on = np.array([completed[r] for r in rows.tolist()], np.int64)
            self._log(of_rows[rows], origins[is_written], completed_on, has_left[ids])
        return np.array([written[r] for r in row.tolist()], np.int64), of_rows[row]

    def _join(self, x: Label, y: Label, own_ipu: int) -> tuple[Label, Label]:
        """Return `(label, newer)`: the label of the sum of two values, and the newer label of both.

        `x` and `y` are the labels of the two values, which IPU `own_ipu` adds. `newer` is the
        label, `x` or `y`, that arrived in the later round. If both arrived in the same round, it is
        the label to which more IPUs have contributed.
        """
        if x == y:
            return x, x
        parts = x.parts | y.parts
        newer = max(
            x, y, key=lambda part: (part.round, part.parts.bit_count(), part.began != own_ipu)
        )
        number = newer.number if newer.number >= 0 else max(x.number, y.number)
        label = newer._replace(parts=parts, number=number)
        if self._completes(label, (x, y), own_ipu):
            label = label._replace(began=own_ipu)
        return label, newer


def _columns(keys: Array, columns: tuple[Array, ...]) -> list[list[int]]:
    """Unpack the integers `keys`, which `combined(*columns)` packed, into lists, one per column."""
    shape = [1 + int(column.max(initial=0)) for column in columns]
    return [part.tolist() for part in np.unravel_index(keys, shape)]


def _distinct_rows(first: Array, second: Array) -> tuple[Array, Array]:
    """Return the distinct pairs (`first[i]`, `second[i]`), as two columns."""
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
    """Return the chunks, largest first; chunks that differ only in size are added up."""
    sizes: Counter[Chunk] = Counter()
    for chunk in chunks:
        sizes[chunk._replace(size=0)] += chunk.size
    merged = (chunk._replace(size=size) for chunk, size in sizes.items())
    return sorted(merged, key=lambda chunk: (-chunk.size, chunk))
