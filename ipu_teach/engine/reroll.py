"""Loops over single elements, found again in a trace and computed on whole regions.

A trace has a loop unrolled: the same few ops over and over, each time at the next elements. Here such a run becomes views,
one operation on all the elements at a time, and one store. A value that a loop carries, `acc = acc + f(x[i])`, becomes an op
of kind "chain": its terms are laid out with the vertices side by side, the value that it starts from as the first row, and
`add.reduce(axis=0)` over those rows adds in the order in which the loop does.

The bits stay those of the loop, so what is not certain is left as it is: a running value that is used on the way, an index
that moves in two dimensions at once, an element that an earlier round has written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ipu_teach.compile.trace import Op, Ref, Trace, item_of, steady
from ipu_teach.engine.kernels import Call
from ipu_teach.engine.views import Nest, find_nests
from ipu_teach.types import Array

LEAST_ROUNDS = 4
LONGEST_ROUND = 64  # ops
PATIENCE = 8  # times the length of a trace: so many ops are compared, then the rest is left as it is
GAIN = 4  # a trace that does not become shorter by this factor keeps its single numbers, which lie well side by side
CHAINS = {np.add, np.multiply, np.maximum, np.minimum}


class _NotALoop(Exception):
    """This run of ops cannot be computed on whole regions."""


def rerolled(trace: Trace) -> Trace:
    """`trace` with its loops over single elements as operations on whole regions, or itself where that gains nothing."""
    finder = _Finder(trace)
    result = finder.result()
    if len(result.made) * GAIN > len(finder.work):
        return trace
    return replace(trace, ops=finder.views_for(result) + result.made, samples=result.samples, roots=result.roots)


class _Result:
    """The ops of the new trace. Values keep their numbers; new ones come after those of the old trace."""

    def __init__(self, trace: Trace) -> None:
        self.made: list[Op] = []
        self.samples, self.roots = list(trace.samples), list(trace.roots)

    def add(self, kind: str, fn: Any, args: tuple[Any, ...], sample: Any, root: int = -1) -> int:
        number = len(self.samples)
        self.samples.append(sample)
        self.roots.append(number if root < 0 else root)
        self.made.append(Op(kind, fn, args, {}, number))
        return number


@dataclass(frozen=True)
class _Run:
    """`rounds` times `length` ops from number `start` on. `pattern`: what each argument of the second round's ops is."""

    start: int
    length: int
    rounds: int
    pattern: tuple[tuple[tuple[Any, ...], ...], ...]

    @property
    def end(self) -> int:
        return self.start + self.length * self.rounds

    def numbers(self, slot: int) -> range:
        """The numbers of the ops at one place of the round."""
        return range(self.start + slot, self.end, self.length)


class _Finder:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        # A view of a region is the same wherever it is taken, so views come first and loops are bare.
        self.views = [op for op in trace.ops if self._fixed(op)]
        self.work = [op for op in trace.ops if not self._fixed(op)]
        self.made_at = {op.result: number for number, op in enumerate(self.work) if op.result >= 0}
        self.uses: dict[int, list[int]] = defaultdict(list)
        for number, op in enumerate(self.work):
            for value in {a.id for a in op.args if isinstance(a, Ref)}:
                self.uses[value].append(number)
        if isinstance(trace.returned, Ref):
            self.uses[trace.returned.id].append(len(self.work))
        numbers: dict[Any, int] = {}
        self.kinds = [numbers.setdefault((op.kind, op.fn, len(op.args), bool(op.kwargs)), len(numbers)) for op in self.work]
        self.able = {n for (kind, *_, more), n in numbers.items() if kind in ("read", "ufunc", "store") and not more}
        self.patience = PATIENCE * len(self.work)

    def _fixed(self, op: Op) -> bool:
        return op.kind == "region" or (op.kind == "view" and self.trace.roots[op.result] in self.trace.regions)

    def result(self) -> _Result:
        """The new ops, without those views that were there before."""
        result = _Result(self.trace)
        number = 0
        while number < len(self.work):
            found = None
            for run in self._runs(number):
                kept = len(result.made), len(result.samples)
                try:
                    _Loop(self, run, result).emit()
                    found = run
                    break
                except _NotALoop:
                    self.patience -= run.end - run.start
                    del result.made[kept[0] :], result.samples[kept[1] :], result.roots[kept[1] :]
            if found is None:
                result.made.append(self.work[number])
            number = number + 1 if found is None else found.end
        return result

    def views_for(self, result: _Result) -> list[Op]:
        """The regions, and those of the old views that the new ops need."""
        needed = {a.id for op in result.made for a in op.args if isinstance(a, Ref)}
        needed |= {self.trace.returned.id} if isinstance(self.trace.returned, Ref) else set()
        kept: list[Op] = []
        for op in reversed(self.views):
            if op.kind == "region" or op.result in needed:
                kept.insert(0, op)
                needed |= {a.id for a in op.args if isinstance(a, Ref)}
        return kept

    def _runs(self, start: int) -> Iterator[_Run]:
        """The runs of repeated ops that begin at `start`, those with the shortest round first."""
        kinds = self.kinds
        for length in range(1, min(LONGEST_ROUND, (len(kinds) - start) // LEAST_ROUNDS) + 1):
            if self.patience < 0 or kinds[start + length - 1] not in self.able:
                return
            first = kinds[start : start + length]
            if kinds[start + length : start + LEAST_ROUNDS * length] != first * (LEAST_ROUNDS - 1):
                continue
            pattern = self._pattern(start, length, 1)
            if not all(map(_begins, self._pattern(start, length, 0), pattern)):
                continue
            rounds = 2
            while start + (rounds + 1) * length <= len(kinds) and self._pattern(start, length, rounds) == pattern:
                rounds += 1
            if rounds >= LEAST_ROUNDS:
                yield _Run(start, length, rounds, pattern)

    def _pattern(self, start: int, length: int, number: int) -> tuple[tuple[tuple[Any, ...], ...], ...]:
        """What each argument of the ops of round `number` is, said so that it is the same in every round of a loop."""
        self.patience -= length
        first = start + number * length
        ops = self.work[first : first + length]
        return tuple(((op.kind, op.fn), *(self._relation(op, i, first, length) for i in range(len(op.args)))) for op in ops)

    def _relation(self, op: Op, position: int, first: int, length: int) -> tuple[Any, ...]:
        value = op.args[position]
        if op.kind in ("read", "store") and position == 0:
            return ("in", self.trace.roots[value.id])
        if op.kind == "read":
            return ("key",)
        if not isinstance(value, Ref):
            return ("number", type(value), repr(value))
        at = self.made_at.get(value.id, -1)
        if first <= at < first + length:
            return ("here", at - first)
        if first - length <= at < first:
            return ("before", at - first + length)
        return ("outside", value.id)


def _begins(first: tuple[Any, ...], later: tuple[Any, ...]) -> bool:
    """True if an op of the first round is as those of later rounds are, but for what it starts from."""
    return len(first) == len(later) and all(a == b or (b[0] == "before" and a[0] != "here")
                                            for a, b in zip(first, later, strict=True))  # fmt: skip


class _Loop:
    """One run, on its way to operations on whole regions."""

    def __init__(self, finder: _Finder, run: _Run, result: _Result) -> None:
        self.finder, self.run, self.result = finder, run, result
        self.trace, self.work = finder.trace, finder.work
        self.body = self.work[run.start : run.start + run.length]
        self.stored = {self.trace.roots[op.args[0].id] for op in self.body if op.kind == "store"}
        self.chains = {slot for slot in range(run.length) if ("before", slot) in run.pattern[slot]}

    def emit(self) -> None:
        """Append the ops of the whole loop. Raises `_NotALoop`."""
        for slot, op in enumerate(self.body):
            self._check_values(slot, op)
        places = {slot: self._places(slot) for slot, op in enumerate(self.body) if op.kind != "ufunc"}
        if not places:
            raise _NotALoop
        self._check_places(places)
        nests = find_nests(np.concatenate(list(places.values())))
        if nests is None or len(nests) != 1:
            raise _NotALoop
        (self.nest,) = nests
        self.column = dict(zip(places, np.cumsum([0, *(len(p) for p in places.values())]), strict=False))
        self.values: dict[int, int] = {}
        for slot, op in enumerate(self.body):
            if op.kind == "read":
                self._read(slot, op)
            elif op.kind == "store":
                view = self._view(slot, op)
                if self.result.samples[view].size != self.run.rounds:
                    raise _NotALoop  # one place is written several times
                self.result.made.append(Op("store", None, (Ref(view), self._argument(slot, 1)), {}, -1))
            elif slot in self.chains:
                self._chain(slot, op)
            else:
                self._compute(slot, op)

    def _check_values(self, slot: int, op: Op) -> None:
        """Single numbers only, used in their own round only; but for chains, whose last value is used after the loop."""
        samples, run = self.trace.samples, self.run
        for (what, *rest), value in zip(run.pattern[slot][1:], op.args, strict=True):
            if what == "before" and (slot not in self.chains or rest != [slot]):
                raise _NotALoop
            if what == "number" and not isinstance(value, (bool, int, float, np.generic)):
                raise _NotALoop
            if what == "outside" and (np.ndim(samples[rest[0]]) or self.trace.roots[rest[0]] in self.stored):
                raise _NotALoop
        if op.kind == "store":
            return
        if np.ndim(samples[op.result]) or (op.kind == "ufunc" and not steady(op.fn, np.asarray(samples[op.result]).dtype)):
            raise _NotALoop
        for k, number in enumerate(run.numbers(slot)):
            uses = self.finder.uses.get(self.work[number].result, [])
            if slot in self.chains:
                good = uses == [number + run.length] if k < run.rounds - 1 else all(use >= run.end for use in uses)
            else:
                first = run.start + k * run.length
                good = all(first <= use < first + run.length for use in uses)
            if not good:
                raise _NotALoop

    def _places(self, slot: int) -> Array:
        """Which element the op reads or writes in each round: indices in its region, int64 (dimensions, rounds)."""
        samples = self.trace.samples
        root = self.trace.roots[self.body[slot].args[0].id]
        if root not in self.trace.regions:
            raise _NotALoop
        start, offsets = samples[root].__array_interface__["data"][0], []
        for number in self.run.numbers(slot):
            op = self.work[number]
            place = samples[op.args[0].id]
            if op.kind == "read":
                place = place[(*op.args[1], ...) if isinstance(op.args[1], tuple) else (op.args[1], ...)]
            if place.ndim:
                raise _NotALoop
            offsets.append((place.__array_interface__["data"][0] - start) // place.itemsize)
        shape = samples[root].shape
        return np.array(np.unravel_index(offsets, shape) if shape else np.zeros((0, len(offsets))), np.int64)

    def _check_places(self, places: dict[int, Array]) -> None:
        """No element that one round writes is read or written by another."""
        for root in self.stored:
            by = [places[slot].T.tolist() for slot in places if self.trace.roots[self.body[slot].args[0].id] == root]
            writes = [places[slot].T.tolist() for slot in places
                      if self.body[slot].kind == "store" and self.trace.roots[self.body[slot].args[0].id] == root]  # fmt: skip
            owner = {tuple(place): k for rounds in writes for k, place in enumerate(rounds)}
            if any(owner.get(tuple(place), k) != k for rounds in by for k, place in enumerate(rounds)):
                raise _NotALoop

    def _view(self, slot: int, op: Op) -> int:
        """All the elements that the op goes through, with the axes of the nest."""
        root = self.trace.roots[op.args[0].id]
        sample = self.trace.samples[root]
        key = _key(self.nest, int(self.column[slot]), sample.ndim)
        return self.result.add("view", item_of, (Ref(root), key), sample[key], root)

    def _read(self, slot: int, op: Op) -> None:
        view = self._view(slot, op)
        if self.trace.roots[op.args[0].id] in self.stored:  # what was read stays what it was
            view = self.result.add("elementwise", np.copy, (Ref(view),), self.result.samples[view].copy())
        self.values[slot] = view

    def _argument(self, slot: int, position: int) -> Any:
        what, *rest = self.run.pattern[slot][position + 1]
        return Ref(self.values[rest[0]]) if what == "here" else self.body[slot].args[position]

    def _compute(self, slot: int, op: Op) -> None:
        args = tuple(self._argument(slot, i) for i in range(len(op.args)))
        with np.errstate(all="ignore"):
            sample = op.fn(*(self.result.samples[a.id] if isinstance(a, Ref) else a for a in args))
        if sample.dtype != self.trace.samples[op.result].dtype:
            raise _NotALoop
        self.values[slot] = self.result.add("ufunc", op.fn, args, sample)

    def _chain(self, slot: int, op: Op) -> None:
        (carried, term), init = self.run.pattern[slot][1:], op.args[0]
        if op.fn not in CHAINS or carried != ("before", slot) or term[0] != "here" or term[1] in self.chains:
            raise _NotALoop
        last = self.work[self.run.numbers(slot)[-1]].result
        value = Ref(self.values[term[1]])
        dtypes = {np.asarray(self.trace.samples[i]).dtype for i in (op.result, last)} | {self.result.samples[value.id].dtype}
        if isinstance(init, Ref):
            sample = self.trace.samples[init.id]
            if np.ndim(sample) or self.trace.roots[init.id] in self.stored:
                raise _NotALoop
            dtypes.add(np.asarray(sample).dtype)
        elif type(init) not in (bool, int, float):
            raise _NotALoop
        if len(dtypes) > 1:
            raise _NotALoop
        self.result.made.append(Op("chain", op.fn, (init, value), {"shape": self.nest.shape}, last))


def _key(nest: Nest, first: int, dimensions: int) -> tuple[Any, ...]:
    """The index that selects what a nest goes through: an axis of length 1 where the element stays the same."""
    rows = slice(first, first + dimensions)
    base, steps = nest.base[rows].tolist(), nest.steps[rows]
    key: list[Any] = []
    for axis, length in enumerate(nest.shape):
        moving = np.flatnonzero(steps[:, axis]).tolist()
        done = sum(part is not None for part in key)
        if not moving:
            key.append(None)
            continue
        if len(moving) > 1 or moving[0] < done:
            raise _NotALoop
        key += base[done : moving[0]]
        start, step = base[moving[0]], int(steps[moving[0], axis])
        stop = start + step * length
        key.append(slice(start, stop if stop >= 0 else None, step))
    done = sum(part is not None for part in key)
    return (*key, *base[done:])


def chain_calls(xp: Any, op: Op, init: Any, terms: Array, out: Array, whole: Array) -> list[Call]:
    """The calls that add (or multiply, …) up the terms of every vertex one after the other.

    `terms`: the nest's axes, then the loop's; `out`: the nest's axes; `whole`: room for `chain_size` elements.
    """
    shape, axes = op.kwargs["shape"], out.ndim
    rounds, lanes = int(np.prod(shape)), max(2, out.size)  # of a single lane numpy would make pairs
    rows = whole[: (rounds + 2) * lanes].reshape(rounds + 2, lanes)
    used = rows[:, : out.size].reshape(rounds + 2, *out.shape)
    terms = terms[(slice(None),) * axes + (None,) * (axes + len(shape) - terms.ndim)]
    turned = terms.transpose(*range(axes, terms.ndim), *range(axes))
    calls: list[Call] = [] if lanes == out.size else [(rows.fill, (0,))]
    calls.append((xp.copyto, (used[0], init)))
    calls.append((xp.copyto, (used[1:-1].reshape(*shape, *out.shape), turned)))
    calls.append((op.fn.reduce, (rows[:-1], 0, rows.dtype, rows[-1])))
    calls.append((xp.copyto, (out, used[-1])))
    return calls


def chain_size(op: Op, vertices: int) -> int:
    """Elements of the room that a chain of so many vertices needs: its terms, the first value and the last."""
    return (int(np.prod(op.kwargs["shape"])) + 2) * max(2, vertices)
