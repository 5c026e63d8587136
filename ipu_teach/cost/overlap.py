"""The clocks of sets of tiles that run independently, and how long the sets wait for each other.

A set consists of all tiles of an IPU, unless there are I/O tiles. With I/O tiles, each IPU has two
sets: its I/O tiles and its computing tiles (`Target.sets`).

A step is *external* if all IPUs take part in it together. Such steps are inter-IPU copies, external
syncs, and, under the sync pattern FULL, transfers with the host or with streaming memory. An
external step begins when the last IPU is ready. Under REPLICA_AND_LADDER, a transfer belongs to all
IPUs of a replica, which wait for each other but not for other replicas. Any other step delays only
the IPUs that take part in it, each for the duration of its own work. Other IPUs continue at once.
All IPUs also wait for each other where a run begins or ends, and where a predicate is read, because
all IPUs need its value. This costs no cycles apart from the waiting itself.

So a run is a sequence of *stretches*: groups of consecutive steps that all IPUs begin together. A
stretch ends when the IPU with the most work in it is done.

I/O tiles delay computing tiles only in a step in which both take part. In such a step, both sets of
the IPU begin together. So the order of the steps in the program decides which computing overlaps
with which transfer. A transfer always involves the I/O tiles too, because an IPU has a single link.
If only I/O tiles take part in an external step, the I/O tiles of all IPUs begin the step together.
The same holds for computing tiles.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from ipu_teach.types import Array


def met(clocks: Array, meets: Array) -> Array:
    """Return the cycle at which each set of tiles can begin a step: int64[sets].

    `clocks` (int64[sets]) is the cycle at which each set has finished its earlier steps. Sets with
    the same number in `meets` begin the step together, so they all wait for the last of these sets.
    A set with the number -1 waits for no other set.
    """
    latest = np.zeros(len(clocks), np.int64)
    both = meets >= 0
    np.maximum.at(latest, meets[both], clocks[both])
    return np.where(both, latest[meets], clocks)


def of_all(meets: Array) -> Array:
    """Return whether all sets begin a step together.

    `meets` is int64[sets], the first array that `StepCost.by_set` returns. If `meets` is
    int64[steps, sets] instead, the result is bool[steps].
    """
    return np.asarray((meets == 0).all(axis=-1))


class Overlap:
    """The clocks of all sets of tiles over a run. The sets are called IPUs here.

    An external step is a step that all IPUs begin together.

    - `order` (int[n]) contains the numbers of the steps that ran, in this order.
    - `meets` and `lasts` (int64[steps, ipus]) are the two arrays of `StepCost.by_set` for each
      step: which IPUs begin it together, and for how many cycles it occupies each IPU.
    - `joints` are indices into `order`. All IPUs wait for each other before the steps at these
      indices, and before every external step.
    - `at_work` (bool[steps, ipus]) says which IPUs take part in each step. In an external step, the
      other IPUs wait for the first IPU that takes part.
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
        # `shared` (int64[steps, ipus]) contains, for steps that several IPUs begin together, the
        # cycles for which the step occupies each IPU, over all executions. `idle` contains the
        # cycles in `shared` of IPUs that take no part in the step, and 0 for the others.
        self.shared: Array = (
            np.bincount(order, minlength=len(lasts))[:, None] * lasts * (meets >= 0)
        )
        external = of_all(meets)
        at_work = np.ones(lasts.shape, bool) if at_work is None else at_work
        self.idle: Array = np.where(at_work, 0, self.shared)
        # Some IPUs begin a step together with others but do nothing in it. Such an IPU waits for
        # the first IPU that works: `_first` (int64[steps, ipus]) is the index of that IPU.
        self._first = np.repeat(at_work.argmax(axis=1)[:, None], lasts.shape[1], axis=1)
        for step, ipu in np.argwhere((meets > 0) & ~at_work).tolist():
            self._first[step, ipu] = (at_work & (meets == meets[step, ipu]))[step].argmax()
        # `meet[i]` is True if all IPUs wait for each other before step i of the run.
        meet = np.zeros(len(order) + 1, bool)
        meet[np.append(0, np.minimum(np.fromiter(joints, np.int64), len(order)))] = True
        meet[:-1] |= external[order]
        meet[1:] |= external[order]
        # A stretch is a group of steps that all IPUs begin together. `cuts` contains the index of
        # the first step of each stretch. `begins` contains the cycle at which each stretch begins,
        # and finally the cycle at which the last stretch ends.
        self.cuts: Array = np.flatnonzero(meet[:-1])
        self.begins: Array
        # The `starts` of all steps, if some IPUs wait for each other within a stretch; otherwise
        # None.
        self._walked: Array | None = None
        if ((meets >= 0).any(axis=1) & ~external)[order].any():
            self._walk(meet)
        else:
            longest = np.max([self._work(ipu) for ipu in range(lasts.shape[1])], axis=0)
            self.begins = np.append(0, np.cumsum(longest))
        self.total = int(self.begins[-1])

    def _walk(self, meet: Array) -> None:
        """Compute the clocks step by step, for runs with steps before which only some IPUs wait."""
        num_steps, num_ipus = self.lasts.shape
        self._waited = np.zeros((num_ipus, num_ipus), np.int64)
        self._held = np.zeros((num_steps, num_ipus), int)
        zeros = np.zeros(num_ipus, np.int64)
        previous_step = np.zeros(num_ipus, np.int64)
        clocks = zeros
        self._walked = np.zeros((len(self.order), num_ipus), np.int64)
        for position, step in enumerate([*self.order.tolist(), -1]):
            groups = zeros if meet[position] or step < 0 else self.meets[step]
            begins = met(clocks, groups)
            for group in np.unique(groups[begins > clocks]).tolist():
                slowest_ipu = int(np.argmax(np.where(groups == group, clocks, -1)))
                waits = np.where(groups == group, begins - clocks, 0)
                self._waited[:, slowest_ipu] += waits
                self._held[previous_step[slowest_ipu], slowest_ipu] += waits.sum()
            if step >= 0:
                self._walked[position], clocks = begins, begins + self.lasts[step]
                previous_step[self.lasts[step] > 0] = step
        self.begins = np.append(self._walked[self.cuts, 0], begins[0])

    def _work(self, ipu: int) -> Array:
        """Return the number of cycles for which an IPU works in each stretch: int64[stretches].

        A stretch is a group of consecutive steps that all IPUs begin together.
        """
        if len(self.cuts):
            return np.add.reduceat(self.lasts[:, ipu][self.order], self.cuts)
        return self.cuts

    def starts(self, first: int, last: int, ipus: slice = slice(None)) -> Array:
        """Return the cycle at which each IPU begins each of the steps `first` to `last - 1`.

        The array is int64[last - first, ipus].
        """
        if first >= last:
            return self.lasts[:0, ipus]
        if self._walked is not None:
            return self._walked[first:last, ipus]
        stretch = int(np.searchsorted(self.cuts, first, "right")) - 1
        stretch_first = int(self.cuts[stretch])
        durations = self.lasts[:, ipus][self.order[stretch_first:last]]
        elapsed = np.cumsum(durations, axis=0) - durations
        stretch_starts = np.append(
            stretch_first, self.cuts[(self.cuts > stretch_first) & (self.cuts < last)]
        )
        offsets = (
            self.begins[stretch : stretch + len(stretch_starts), None]
            - elapsed[stretch_starts - stretch_first]
        )
        elapsed += np.repeat(offsets, np.diff(np.append(stretch_starts, last)), axis=0)
        return elapsed[first - stretch_first :]

    def spans(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """Return `(starts, first_begins, last_ends)` of steps `first` to `last - 1`, in cycles.

        `starts` is int64[last - first, ipus], the cycle at which each IPU begins each step. The
        other two are int64[last - first]: the cycles at which the first IPU begins and the last IPU
        ends each step. For these two arrays, only the IPUs that take part in the step count.
        """
        starts = self.starts(first, last)
        durations = self.lasts[self.order[first:last]]
        # If a step occupies no IPU, all IPUs count as taking part.
        takes_part = (durations > 0) | ~np.any(durations > 0, axis=1, keepdims=True)
        first_begins = np.min(starts, axis=1, where=takes_part, initial=self.total)
        return (
            starts,
            first_begins,
            np.maximum(
                first_begins, np.max(starts + durations, axis=1, where=durations > 0, initial=0)
            ),
        )

    def least(self, executions: Array) -> int:
        """Return a lower bound for the cycles of the executions that are not in `order`.

        `executions` is int64[steps], the number of all executions of each step, including those in
        `order`. The bound assumes that each IPU runs its own steps without waiting.
        """
        return int(
            ((executions - np.bincount(self.order, minlength=len(self.lasts))) @ self.lasts).max(
                initial=0
            )
        )

    @cached_property
    def _last(self) -> Array:
        """The IPU that ends each stretch (group of steps) last: int64[stretches].

        If several IPUs end a stretch last, it is the IPU with the lowest number.
        """
        last = np.zeros(len(self.cuts), np.int64)
        for ipu in reversed(range(self.lasts.shape[1])):
            last[self._work(ipu) == np.diff(self.begins)] = ipu
        return last

    @cached_property
    def waits(self) -> Array:
        """The cycles for which each IPU (first axis) waits for each other IPU: int64[ipus, ipus].

        At the end of a stretch (a group of steps), an IPU waits for the IPU that ends the stretch
        last. In an external step in which an IPU takes no part, it waits for the first IPU that
        takes part.
        """
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
        """Return the cycles of each step in which other IPUs wait for IPU `ipu`: int64[steps].

        Two kinds of steps count. The first are this IPU's steps in a stretch that it ends last; a
        stretch is a group of consecutive steps that all IPUs begin together. The second are
        external steps in which this IPU takes part and others do not, because all IPUs wait for an
        external step.
        """
        if self._walked is None:
            earliest = np.min([self._work(peer) for peer in range(self.lasts.shape[1])], axis=0)
            is_holding = (self._last == ipu) & (earliest < np.diff(self.begins))
            inside = np.repeat(is_holding, np.diff(np.append(self.cuts, len(self.order))))
            local = np.bincount(self.order[inside], minlength=len(self.lasts)) * self.lasts[:, ipu]
        else:
            local = self._held[:, ipu]
        waited = ((self.idle > 0) & (self._first == ipu)).any(axis=1)
        return np.asarray(local + np.where(waited, self.shared[:, ipu], 0))
