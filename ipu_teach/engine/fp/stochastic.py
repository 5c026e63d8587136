"""Stochastic rounding of values that codelets store in HALF fields, on tiles with the bit ESR set.

It applies where a codelet assigns a result of single or higher precision to a HALF field. A result
that is already a half, such as the sum of two halves, needs no rounding. Python's own numbers, such
as literals, are rounded to nearest.

Every worker has a random number generator (`Registers.generators`). If a vertex of a compute set
may round stochastically, every worker draws one random word each time that the compute set runs.
Vertex number n of the compute set uses the word of a single worker of its tile, the worker with the
id n modulo the number of workers (6 on the IPU). A MultiVertex uses the words of all workers.

The random bits of the vertex follow from the word and n, as `types.generator.counted` defines. Each
store uses 32 of these bits per element, in order, starting at the next multiple of 64 bits. So the
bits do not depend on the order in which vertices run, on how many run at a time, or on whether they
run as array calls or loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.trace import Op, Ref, Trace
from ipu_teach.engine.backend import Call, Operand
from ipu_teach.graph.registers import ESR, Registers
from ipu_teach.types import HALF, Array, generator, to_half
from ipu_teach.types.regions import OnePtrArray
from ipu_teach.types.rounding import AnyDType


class StochasticRounding:
    """The random bits for rounding in the vertices of one group.

    `keys` (uint64[vertices, workers]) determine the random words. They are replaced in each run of
    the compute set. `chosen` (bool[vertices]) is True for vertices that round stochastically, which
    depends on their tile. With `watched`, an overflow raises `FloatingPointError`.
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
        """Set new keys before a run of the compute set, so that this run uses new random words.

        `words` are the numbers that the workers have drawn: uint64[tiles, workers].
        """
        workers = self._vertices % words.shape[1] if self._workers is None else self._workers
        self.keys[...] = generator.key(words[self._tiles, workers], self._vertices)

    def rounded(self, values: Array, members: Array | slice, worker: int, first_word: int) -> Array:
        """Return `values` (vertices, ...) rounded to halves.

        `members` are the indices of the vertices in the group. Each vertex uses its key for the
        worker with index `worker`. The key determines a series of random words, which are used from
        number `first_word` on.

        :raises FloatingPointError: with `watched`, if a finite value becomes infinite.
        """
        keys = self.keys[members, worker]
        words = generator.counted(keys, first_word, values.size // max(1, len(keys)))
        halves = to_half(values, words=words.reshape(values.shape))
        if not self.everyone:
            rounds_stochastically = self.chosen[members].reshape(-1, *(1,) * (values.ndim - 1))
            halves = np.where(rounds_stochastically, halves, to_half(values))
        if self.watched and np.any(np.isinf(halves) & np.isfinite(values)):
            raise FloatingPointError("overflow encountered in a store of halves")
        return halves


def draw(registers: Registers, roundings: list[StochasticRounding]) -> None:
    """Let every worker draw a random number, and set the new keys of all `roundings`.

    This happens once in each run of a compute set.
    """
    words = registers.draw()
    for rounding in roundings:
        rounding.begin(words)


class RoundedStores:
    """The stores of a batch that round stochastically.

    `running` is the order in which the vertices run, or None for the order of the group.
    """

    def __init__(
        self, rounding: StochasticRounding, trace: Trace, worker: int, running: Array | None
    ) -> None:
        self._rounding = rounding
        self._worker = worker
        self._running = running
        # Maps the number of each store to the index of its first word in the vertex's random
        # stream.
        self._words: dict[int, int] = {}
        num_words = 0
        num_elements = 0
        for op_number, op in enumerate(trace.ops):
            if narrows(trace, op):
                self._words[op_number] = num_words
                store_elements = trace.samples[op.args[0].id].size
                num_words = num_words + words_of(store_elements)
                num_elements = num_elements + store_elements
        # The bytes for each element: half of a 64-bit random word, and one 32-bit word in each
        # temporary array.
        self.bytes_per_vertex = 16 * num_elements

    def call(self, store_number: int, place: Array, source: Array, rows: slice) -> Call | None:
        """Return the call that stores `source` into `place`, or None for rounding to nearest.

        `store_number` is the number of the store in the trace. The first axes of `place` are those
        of the vertices.
        """
        if store_number not in self._words:
            return None
        members = rows if self._running is None else self._running[rows]
        return self._store, (place, source, members, self._words[store_number])

    def _store(self, place: Array, source: Array, members: Array | slice, first: int) -> None:
        values = np.broadcast_to(source, place.shape).reshape(
            len(self._rounding.chosen[members]), -1
        )
        place[...] = self._rounding.rounded(values, members, self._worker, first).reshape(
            place.shape
        )


def words_of(elements: int) -> int:
    """Return the number of 64-bit random words that a store of `elements` elements uses."""
    return -(-elements // 2)


class StoredHalf(OnePtrArray):
    """A HALF field of one vertex, or a view of it, that rounds and checks values stored in it.

    `stream` is (key, number of the next random word) for rounding wider floats stochastically, or
    None for rounding to nearest. `overflows` lists the overflows since the last store. If there are
    any, a store replaces infinities by NaN, or raises `FloatingPointError` if `stops` is True. A
    field whose layout is ONE_PTR has no length.
    """

    stream: Array | None = None
    overflows: list[str] | None = None
    stops: bool = False

    def __array_finalize__(self, parent: object) -> None:
        # Only a view of a `StoredHalf`, which shares its memory, takes over its attributes.
        if isinstance(parent, StoredHalf) and np.may_share_memory(self, parent):
            self.stream = parent.stream
            self.overflows = parent.overflows
            self.stops = parent.stops

    def __setitem__(self, key: Any, value: Any) -> None:
        numbers = np.asarray(value)
        if self.stream is not None and _wide(value, numbers.dtype):
            broadcast_numbers = np.empty(np.shape(self[key]), numbers.dtype)
            broadcast_numbers[...] = numbers
            words = generator.counted(
                self.stream[:1], self.stream[1:], broadcast_numbers.size
            ).reshape(broadcast_numbers.shape)
            self.stream[1:] += np.uint64(words_of(broadcast_numbers.size))
            value = to_half(broadcast_numbers, words=words)
            if self.overflows is not None and np.any(
                np.isinf(value) & np.isfinite(broadcast_numbers)
            ):
                self.overflows.append("overflow")
        super().__setitem__(key, value)
        if self.overflows:
            self.overflows.clear()
            plain_array = self.view(np.ndarray)
            is_infinite = np.isinf(plain_array[key])
            if self.stops and np.any(is_infinite):
                raise FloatingPointError("overflow encountered in a store of halves")
            plain_array[key] = np.where(is_infinite, np.float16(np.nan), plain_array[key])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        call = getattr(ufunc, method)
        outs = kwargs.pop("out", ())
        plain_inputs = [_plain(input_value) for input_value in inputs]
        if len(outs) == 1 and isinstance(outs[0], StoredHalf) and "where" not in kwargs:
            outs[0][...] = call(*plain_inputs, **kwargs)
        elif outs:
            call(*plain_inputs, out=tuple(_plain(output) for output in outs), **kwargs)
        else:
            return call(*plain_inputs, **kwargs)
        return outs[0] if len(outs) == 1 else outs


def _plain(value: Any) -> Any:
    """Return a `StoredHalf` as a plain array, and any other value unchanged."""
    return value.view(np.ndarray) if isinstance(value, StoredHalf) else value


def stochastic_rounding(
    group: Group, registers: Registers, watched: bool
) -> StochasticRounding | None:
    """Return the stochastic rounding of `group` under the present floating-point behaviour.

    The result is None if no vertex of `group` rounds stochastically. If `watched`, an overflow
    raises `FloatingPointError`.
    """
    if not any(field.written and field.dtype is HALF for field in group.table.fields.values()):
        return None
    if not np.any(registers.behaviour[group.table.tiles[group.rows]] & np.uint32(ESR)):
        return None
    can_round = any(
        trace.stopped or any(narrows(trace, op) for op in trace.ops) for trace in group.traces
    )
    return StochasticRounding(group, registers, watched) if can_round else None


def narrows(trace: Trace, op: Op) -> bool:
    """Return whether an op stores a wider float in a HALF field."""
    if op.kind != "store" or trace.roots[op.args[0].id] not in trace.regions:
        return False
    if trace.samples[op.args[0].id].dtype != np.float16:
        return False
    value = op.args[1]
    stored = trace.samples[value.id] if isinstance(value, Ref) else value
    return _wide(stored, np.asarray(stored).dtype)


def _wide(value: Operand, dtype: AnyDType) -> bool:
    """Return whether a value is a float wider than half, but not a float of Python itself.

    The exact type is compared, because a numpy float64 is an instance of Python's float.
    """
    return type(value) is not float and dtype.kind == "f" and dtype.itemsize > 2
