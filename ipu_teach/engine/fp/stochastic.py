"""Stochastic rounding: what codelets store in halves goes up or down by chance, on tiles whose bit
ESR is set.

It takes place where a codelet assigns results of single precision or wider to a HALF field. What is
a half already stays, also the results of arithmetic on halves; Python's own numbers, as in the
codelet's text, round to nearest.

Every worker has a generator (`Registers.generators`). Whenever a compute set runs in which a vertex
may round so, each worker draws one word. A vertex's own random bits follow from such a word and its
number n in the compute set: from the word of worker n modulo 6 of its tile, of a MultiVertex from
each worker's own; `types.generator.counted` says how. Each store takes as many 32-bit words as it
has elements, in their order, from the next whole 64-bit word on. So no bit depends on the order in
which vertices run, on how many run at a time, or on the way they run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.trace import Op, Ref, Trace
from ipu_teach.engine.backend import Call
from ipu_teach.graph.registers import ESR, Registers
from ipu_teach.types import HALF, Array, generator, to_half
from ipu_teach.types.regions import OnePtrArray


class StochasticRounding:
    """The random bits of one group's vertices. `keys`: uint64 (vertices, workers), new for each run
    of their compute set.

    `chosen`: which of the vertices round by chance, by their tiles. `watched`: an overflow raises
    `FloatingPointError`.
    """

    def __init__(self, group: Group, registers: Registers, watched: bool) -> None:
        table = group.table
        self._vertices = table.order[group.rows][:, None]
        self._tiles = table.tiles[group.rows][:, None]
        self._workers = np.arange(len(group.workers)) if group.workers else None
        self.chosen: Array = registers.behaviour[self._tiles[:, 0]] & np.uint32(ESR) != 0
        self.everyone = bool(self.chosen.all())
        self.keys: Array = np.zeros((len(group.rows), max(1, len(group.workers))), np.uint64)
        self.watched = watched

    def begin(self, words: Array) -> None:
        """The compute set runs once more; `words` is what the workers drew for it: uint64 (tiles,
        workers)."""
        workers = self._vertices % words.shape[1] if self._workers is None else self._workers
        self.keys[...] = generator.key(words[self._tiles, workers], self._vertices)

    def rounded(self, values: Array, members: Any, worker: int, first: Any) -> Array:
        """`values` (vertices, ...), as halves; the vertices are `members` of the group, their words
        start at `first`."""
        keys = self.keys[members, worker]
        words = generator.counted(keys, first, values.size // max(1, len(keys)))
        halves = to_half(values, words=words.reshape(values.shape))
        if not self.everyone:
            chosen = self.chosen[members].reshape(-1, *(1,) * (values.ndim - 1))
            halves = np.where(chosen, halves, to_half(values))
        if self.watched and np.any(np.isinf(halves) & np.isfinite(values)):
            raise FloatingPointError("overflow encountered in a store of halves")
        return halves


def draw(registers: Registers, roundings: list[StochasticRounding]) -> None:
    """Let every worker draw the word from which this run of a compute set rounds by chance."""
    words = registers.draw()
    for rounding in roundings:
        rounding.begin(words)


class RoundedStores:
    """The stores of a batch that round by chance. `running`: the order in which the group's
    vertices run, if not their own."""

    def __init__(
        self, rounding: StochasticRounding, trace: Trace, worker: int, running: Array | None
    ) -> None:
        self._rounding, self._worker, self._running = rounding, worker, running
        # by number of the store: where its words start in the vertex's stream
        self._words: dict[int, int] = {}
        taken = elements = 0
        for number, op in enumerate(trace.ops):
            if narrows(trace, op):
                self._words[number] = taken
                size = trace.samples[op.args[0].id].size
                taken, elements = taken + words_of(size), elements + size
        # What is rounded passes through words of 64 bits, half as many as numbers, and some of 32.
        self.bytes_per_vertex = 16 * elements

    def call(self, number: int, place: Array, source: Array, rows: slice) -> Call | None:
        """The call that puts `source` into the fields of some vertices, `place`, whose first axes
        are theirs.

        None if store `number` of the trace rounds to nearest.
        """
        if number not in self._words:
            return None
        members = rows if self._running is None else self._running[rows]
        return self._store, (place, source, members, self._words[number])

    def _store(self, place: Array, source: Array, members: Any, first: int) -> None:
        values = np.broadcast_to(source, place.shape).reshape(
            len(self._rounding.chosen[members]), -1
        )
        place[...] = self._rounding.rounded(values, members, self._worker, first).reshape(
            place.shape
        )


def words_of(elements: int) -> int:
    """How many words of 64 bits a store of so many elements takes."""
    return -(-elements // 2)


class StoredHalf(OnePtrArray):
    """A float16 array, and views of it, that looks at what is stored in it: a HALF field of one
    vertex.

    Wider floats are rounded by chance, with words from `stream` (a key, and the number of the next
    word). If something was noted in `overflows` since the last store, infinities become NaN, or
    raise `FloatingPointError` if that `stops`. It may be laid out as ONE_PTR, and tells its length
    unless it is.
    """

    stream: Array | None = None
    overflows: list[str] | None = None
    stops: bool = False

    def __array_finalize__(self, parent: Any) -> None:
        if isinstance(parent, StoredHalf) and np.may_share_memory(self, parent):  # a view, no copy
            self.stream, self.overflows, self.stops = parent.stream, parent.overflows, parent.stops

    def __setitem__(self, key: Any, value: Any) -> None:
        given = np.asarray(value)
        if self.stream is not None and _wide(value, given.dtype):
            spread = np.empty(np.shape(self[key]), given.dtype)
            spread[...] = given
            words = generator.counted(self.stream[:1], self.stream[1:], spread.size).reshape(
                spread.shape
            )
            self.stream[1:] += np.uint64(words_of(spread.size))
            value = to_half(spread, words=words)
            if self.overflows is not None and np.any(np.isinf(value) & np.isfinite(spread)):
                self.overflows.append("overflow")
        super().__setitem__(key, value)
        if self.overflows:
            self.overflows.clear()
            plain = self.view(np.ndarray)
            lost = np.isinf(plain[key])
            if self.stops and np.any(lost):
                raise FloatingPointError("overflow encountered in a store of halves")
            plain[key] = np.where(lost, np.float16(np.nan), plain[key])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        call, outs = getattr(ufunc, method), kwargs.pop("out", ())
        plain = [_plain(i) for i in inputs]
        if len(outs) == 1 and isinstance(outs[0], StoredHalf) and "where" not in kwargs:
            outs[0][...] = call(*plain, **kwargs)
        elif outs:
            call(*plain, out=tuple(_plain(o) for o in outs), **kwargs)
        else:
            return call(*plain, **kwargs)
        return outs[0] if len(outs) == 1 else outs


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, StoredHalf) else value


def stochastic_rounding(
    group: Group, registers: Registers, watched: bool
) -> StochasticRounding | None:
    """What vertices of `group` round by chance with, as numbers behave now; None if none of them
    does.

    `watched`: an overflow raises `FloatingPointError`.
    """
    if not any(field.written and field.dtype is HALF for field in group.table.fields.values()):
        return None
    if not np.any(registers.behaviour[group.table.tiles[group.rows]] & np.uint32(ESR)):
        return None
    may = any(
        trace.stopped or any(narrows(trace, op) for op in trace.ops) for trace in group.traces
    )
    return StochasticRounding(group, registers, watched) if may else None


def narrows(trace: Trace, op: Op) -> bool:
    """True for a store of something wider in a HALF field."""
    if op.kind != "store" or trace.roots[op.args[0].id] not in trace.regions:
        return False
    if trace.samples[op.args[0].id].dtype != np.float16:
        return False
    value = op.args[1]
    given = trace.samples[value.id] if isinstance(value, Ref) else value
    return _wide(given, np.asarray(given).dtype)


def _wide(value: Any, dtype: np.dtype[Any]) -> bool:
    """True for a float wider than half, unless it is Python's own; numpy's float64 is a kind of
    that."""
    return type(value) is not float and dtype.kind == "f" and dtype.itemsize > 2
