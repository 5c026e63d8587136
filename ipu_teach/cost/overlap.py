"""Several sets of tiles, each with a row of steps: when each set reaches a step, and which sets
wait for which.

A set is the tiles of an IPU, or its computing tiles, with its I/O tiles as another set
(`Target.sets`).

A step is *external* if all IPUs take part in it together: an inter-IPU copy, an external sync, and
under the sync pattern FULL transfers with the host or with streaming memory. It begins when the
last IPU arrives. Under REPLICA_AND_LADDER, such a transfer belongs to all IPUs of a replica, which
wait for each other and for no other replica. Any other step delays only the IPUs that take part in
it, each for its own share; an IPU without a part in it goes on at once. All IPUs also wait for each
other where a run begins or ends and where a predicate is read, which must reach them all; that
takes no time of its own.

So a run is a row of stretches. All IPUs begin a stretch together, and it lasts as long as the IPU
with the most work in it.

I/O tiles delay computing tiles only in a step in which both take part. In such a step both sets of
that IPU begin together: the program's order decides what overlaps. A transfer always belongs to the
I/O tiles as well, as there is one link. An external step of I/O tiles alone is one of all I/O
tiles, and one of computing tiles alone is one of all computing tiles.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from ipu_teach.types import Array


def met(clocks: Array, meets: Array) -> Array:
    """Return the clocks of all sets, once those that begin a step together have waited for each
    other: those of the same number, and -1 for no other."""
    latest = np.zeros(len(clocks), np.int64)
    both = meets >= 0
    np.maximum.at(latest, meets[both], clocks[both])
    return np.where(both, latest[meets], clocks)


def of_all(meets: Array) -> Array:
    """Whether all sets begin a step together, of one or of several: `StepCost.by_set`."""
    return np.asarray((meets == 0).all(axis=-1))


class Overlap:
    """The clocks of all sets of tiles, here called IPUs, over a run.

    `order` (int[n]): the step that ran, by number. `meets` and `lasts` (int64[steps, ipus]):
    `StepCost.by_set` of each. `joints`: before which of the n all IPUs wait for each other, besides
    external ones. `at_work` (bool[steps, ipus]): which have a part in each; in an external
    step the others wait for the first of those.
    """

    def __init__(
        self,
        order: Array,
        lasts: Array,
        meets: Array,
        joints: Iterable[int] = (),
        at_work: Array | None = None,
    ) -> None:
        self.order = order
        self.lasts = lasts
        self.meets = meets
        # int64[steps, ipus], all executions together: how long steps that several begin together
        # keep each IPU, and how long of that it has no part in them
        self.shared: Array = (
            np.bincount(order, minlength=len(lasts))[:, None] * lasts * (meets >= 0)
        )
        external = of_all(meets)
        at_work = np.ones(lasts.shape, bool) if at_work is None else at_work
        self.idle: Array = np.where(at_work, 0, self.shared)
        # the IPU for which one without a part in a step waits, of those that begin it together
        self._first = np.repeat(at_work.argmax(axis=1)[:, None], lasts.shape[1], axis=1)
        for step, ipu in np.argwhere((meets > 0) & ~at_work).tolist():
            self._first[step, ipu] = (at_work & (meets == meets[step, ipu]))[step].argmax()
        meet = np.zeros(len(order) + 1, bool)  # before which of them all IPUs do
        meet[np.append(0, np.minimum(np.fromiter(joints, np.int64), len(order)))] = True
        meet[:-1] |= external[order]
        meet[1:] |= external[order]
        self.cuts: Array = np.flatnonzero(meet[:-1])  # the first step of each stretch
        # of each stretch, and the end of the last
        self.begins: Array
        self._walked: Array | None = None  # `starts` of all steps, where some meet within a stretch
        if ((meets >= 0).any(axis=1) & ~external)[order].any():
            self._walk(meet)
        else:
            longest = np.max([self._work(ipu) for ipu in range(lasts.shape[1])], axis=0)
            self.begins = np.append(0, np.cumsum(longest))
        self.total = int(self.begins[-1])

    def _walk(self, meet: Array) -> None:
        """Step by step, in an order in which some IPUs wait for each other and others do not."""
        steps, ipus = self.lasts.shape
        self._waited, self._held = np.zeros((ipus, ipus), np.int64), np.zeros((steps, ipus), int)
        every, before = np.zeros(ipus, np.int64), np.zeros(ipus, np.int64)
        clocks = every
        self._walked = np.zeros((len(self.order), ipus), np.int64)
        for place, step in enumerate([*self.order.tolist(), -1]):
            numbers = every if meet[place] or step < 0 else self.meets[step]
            now = met(clocks, numbers)
            for number in np.unique(numbers[now > clocks]).tolist():
                last = int(np.argmax(np.where(numbers == number, clocks, -1)))
                waits = np.where(numbers == number, now - clocks, 0)
                self._waited[:, last] += waits
                self._held[before[last], last] += waits.sum()
            if step >= 0:
                self._walked[place], clocks = now, now + self.lasts[step]
                before[self.lasts[step] > 0] = step
        self.begins = np.append(self._walked[self.cuts, 0], now[0])

    def _work(self, ipu: int) -> Array:
        """Return int64[stretches]: how long an IPU is at work in each."""
        if len(self.cuts):
            return np.add.reduceat(self.lasts[:, ipu][self.order], self.cuts)
        return self.cuts

    def starts(self, first: int, last: int, ipus: slice = slice(None)) -> Array:
        """Return int64[last - first, ipus]: when each IPU comes to each step from `first` up to
        `last`."""
        if first >= last:
            return self.lasts[:0, ipus]
        if self._walked is not None:
            return self._walked[first:last, ipus]
        stretch = int(np.searchsorted(self.cuts, first, "right")) - 1
        begin = int(self.cuts[stretch])
        steps = self.lasts[:, ipus][self.order[begin:last]]
        before = np.cumsum(steps, axis=0) - steps
        cuts = np.append(begin, self.cuts[(self.cuts > begin) & (self.cuts < last)])
        offset = self.begins[stretch : stretch + len(cuts), None] - before[cuts - begin]
        before += np.repeat(offset, np.diff(np.append(cuts, last)), axis=0)
        return before[first - begin :]

    def spans(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """`starts`, and int64[last - first] twice: when the first IPU that takes part begins, and
        when the last one ends."""
        starts = self.starts(first, last)
        steps = self.lasts[self.order[first:last]]
        # a step that delays no IPU is passed by all
        at = (steps > 0) | ~np.any(steps > 0, axis=1, keepdims=True)
        begin = np.min(starts, axis=1, where=at, initial=self.total)
        return (
            starts,
            begin,
            np.maximum(begin, np.max(starts + steps, axis=1, where=steps > 0, initial=0)),
        )

    def least(self, executions: Array) -> int:
        """Return the least that executions (int64[steps]) beyond those in `order` may take: each
        IPU does its own without waiting."""
        return int(
            ((executions - np.bincount(self.order, minlength=len(self.lasts))) @ self.lasts).max(
                initial=0
            )
        )

    @cached_property
    def _last(self) -> Array:
        """int64[stretches]: the IPU that is last to end each; of several the lowest."""
        last = np.zeros(len(self.cuts), np.int64)
        for ipu in reversed(range(self.lasts.shape[1])):
            last[self._work(ipu) == np.diff(self.begins)] = ipu
        return last

    @cached_property
    def waits(self) -> Array:
        """int64[ipus, ipus]: the time for which an IPU (first axis) waits for another one, which is
        the last to end a stretch, or works in an external step in which the first has no part."""
        lasts = np.diff(self.begins)
        ipus = self.lasts.shape[1]
        columns = zip(self._first.T, self.idle.T, strict=True)
        idle = [np.bincount(first, idle, ipus) for first, idle in columns]
        if self._walked is None:
            waited = [np.bincount(self._last, lasts - self._work(ipu), ipus) for ipu in range(ipus)]
        else:
            waited = list(self._waited)
        return np.add(waited, idle).astype(np.int64)

    def holding(self, ipu: int) -> Array:
        """Return int64[steps]: the time that steps of one IPU take, by number, while others wait
        for it: steps of the stretches that it ends, and external ones."""
        if self._walked is None:
            earliest = np.min([self._work(peer) for peer in range(self.lasts.shape[1])], axis=0)
            is_holding = (self._last == ipu) & (earliest < np.diff(self.begins))
            inside = np.repeat(is_holding, np.diff(np.append(self.cuts, len(self.order))))
            local = np.bincount(self.order[inside], minlength=len(self.lasts)) * self.lasts[:, ipu]
        else:
            local = self._held[:, ipu]
        waited = ((self.idle > 0) & (self._first == ipu)).any(axis=1)
        return np.asarray(local + np.where(waited, self.shared[:, ipu], 0))
