"""Look at one vertex while it runs: what each line costs, and what each turn of its loops did.

    seen = observe(DotProduct, a=[1, 2, 3], b=[4, 5, 6])
    print(seen)                  # cycles by line, and the turns of its loops
    seen.turns[1].values         # {"acc": 14.0, "i": 1}
    seen.wrote("out")            # the turns that stored in a field, or in an element: wrote("y", 5)

`compute()` runs plainly, for the values. What is a scalar loop runs once more by CPython's text,
which then tells what it does. The lines of what is traced are those of its trace.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial, reduce
from operator import getitem
from typing import Any

import numpy as np

from ipu_teach._support.flags import checks
from ipu_teach.compile.scalar import ScalarCode, scalar_code
from ipu_teach.compile.tracer import trace_codelet
from ipu_teach.cost.lines import (
    MOST_TOLD,
    LineCosts,
    Observed,
    Turn,
    factor_of,
    lines_of_pieces,
    lines_of_traces,
    naming_of,
    start_of,
)
from ipu_teach.cost.traced import UNIT, UNKNOWN, launch_cycles, priced_for, together, trace_cycles
from ipu_teach.engine.scalar.count import beside
from ipu_teach.engine.scalar.fields import index_of, parts_of
from ipu_teach.engine.scalar.function_text import python_text
from ipu_teach.engine.scalar.functions import FOREVER
from ipu_teach.graph.codelet_registry import said_cycles, vertex_class
from ipu_teach.graph.vertex import Vertex, regions_of, run_on, workers
from ipu_teach.target import Target, make_target
from ipu_teach.types import Array

MOST_TURNS = 10_000  # that are kept of a vertex; all are counted
MOST_NUMBERS = 16  # of an array among the locals
# variables of the walk's own, and what begins the names of those in a generator
_OWN = re.compile("g_\\d+(?:[A-Zl]$|_)|.*_m$")


@checks("target")
def observe(codelet: type[Vertex], target: Target | None = None, /, **values: Any) -> Observed:
    """Run one vertex on host values, as `Vertex.call` does, and tell what its lines cost and what
    its loops did.

    `target`: the machine whose prices count; an IPU Mk2 if none is given. Raises what `Vertex.call`
    raises, or `CodeletError`.
    """
    return observed(
        codelet, regions_of(vertex_class(codelet, "observe()"), values), target or make_target()
    )


def observed(codelet: type[Vertex], regions: Mapping[str, Any], target: Target) -> Observed:
    """The same for host arrays of the fields, lists of them for lists of vectors. They change as
    the vertex runs."""
    target = priced_for(codelet, target)
    shapes = {
        n: tuple(p.shape for p in r) if isinstance(r, list) else r.shape for n, r in regions.items()
    }
    calls, factor = workers(codelet, target.num_worker_contexts), factor_of(codelet, target)
    traces = [
        trace_codelet(codelet, shapes, codelet.__name__, len(calls), worker) for worker in calls
    ]
    code = scalar_code(
        codelet, frozenset(name for name, region in regions.items() if isinstance(region, list))
    )
    watches = [] if isinstance(code, str) else _watched(code, regions, target, len(calls))
    result = run_on(codelet, regions)
    slowest = max(watches, key=lambda watch: watch.cycles, default=None)
    said = said_cycles(codelet, None, shapes, target, codelet.__name__)
    traced = (
        None
        if any(trace.stopped for trace in traces)
        else max(trace_cycles(trace, target) for trace in traces)
    )
    cycles, lines, launch = UNKNOWN, LineCosts(), launch_cycles(codelet)
    if said is not None:
        cycles = int(said)
    elif traced is not None:
        cycles, lines = factor * traced + launch, lines_of_traces(codelet, traces, target)
    elif slowest is not None:
        cycles, lines = factor * slowest.cycles + launch, slowest.by_line(target)
    seen = ([], 0, 0) if slowest is None else (slowest.turns, slowest.count, watches.index(slowest))
    return Observed(codelet, result, cycles, start_of(codelet, target), lines, *seen)


def _watched(
    code: ScalarCode, regions: Mapping[str, Any], target: Target, count: int
) -> list[Watch]:
    """The vertex by CPython's text, on copies: what was seen of each worker. Empty where it cannot
    go on."""
    found: list[Watch] = []
    copies = {
        n: [p.copy() for p in r] if isinstance(r, list) else r.copy() for n, r in regions.items()
    }
    text = compile(
        python_text(code, target, watched=True), f"<{code.codelet.__name__}, watched>", "exec"
    )
    marks, reads = beside(code, copies, count)
    for worker in range(count):
        watch = Watch(code, copies, target)
        space: dict[str, Any] = {"watch": watch}
        exec(text, space)
        given = [watch.noted(name, region) for name, region in copies.items()]
        try:
            with np.errstate(all="ignore"):
                cycles = space["vertex"](
                    worker, count, FOREVER, int, *given, *marks.values(), *reads.values()
                )
        except Exception:  # compute() raises, too, or goes on with larger integers
            return []
        watch.cycles = -(-max(cycles, ~cycles) // UNIT)
        found.append(watch)
    return found


class Watch:
    """What CPython's text tells while it runs a vertex. `turns`: see `Observed`; `count`: how many
    there were."""

    def __init__(self, code: ScalarCode, regions: Mapping[str, Any], target: Target) -> None:
        self.code, self.regions, self.factor = code, regions, factor_of(code.codelet, target)
        self.target = target
        self.pieces, self.lines, self.cycles = [0] * len(code.pieces), [0] * len(code.lines), 0
        # of work on whole regions, by counter and rate
        self.amounts: Counter[tuple[str, int]] = Counter()
        self.turns: list[Turn] = []
        self.count = 0
        # The loops that turn: their head, the turn, after how many units of cycles it began, and if
        # it is kept.
        self.open: list[tuple[int, Turn, int, bool]] = []
        name = naming_of(code.codelet)
        self.heads = [(name(spot), prefix) for spot, prefix in code.heads]

    def by_line(self, target: Target) -> LineCosts:
        return lines_of_pieces(
            self.code, target, self.cycles, self.pieces, self.lines, self.amounts
        )

    def beside(self, counter: str, rate: int, amount: int) -> int:
        """Work on a whole region."""
        self.amounts[{"vec": "vector"}.get(counter, counter), rate] += amount
        return amount

    def over(self, head: int, items: Any) -> Any:
        """What a `for` runs over, or true: a `while` begins a turn, or finds that it ends."""
        if items is not True:
            return self._each(head, items)
        return self._turn(head, sys._getframe(1).f_locals)

    def _each(self, head: int, items: Iterable[Any]) -> Iterator[Any]:
        """The items of a `for`. It asks for the next one when a turn is over, and before that item
        has a name."""
        for item in items:
            self._turn(head, sys._getframe(1).f_locals)
            yield item

    def failed(self) -> None:
        """It did not hold: that is no turn."""
        _, turn, _, kept = self.open.pop()
        self.count -= 1
        if kept:
            self.turns.remove(turn)

    def left(self, head: int | None = None) -> None:
        """A loop was left, or all were."""
        while self.open and head in (None, self.open[-1][0]):
            self._close(sys._getframe(1).f_locals)

    def _turn(self, head: int, names: Mapping[str, Any]) -> bool:
        again = bool(self.open) and self.open[-1][0] == head
        number = self._close(names).number + 1 if again else 1
        turn = Turn(self.heads[head][0], number, len(self.open))
        self.count, kept = self.count + 1, len(self.turns) < MOST_TURNS
        if kept:
            self.turns.append(turn)
        self.open.append((head, turn, self._so_far(names), kept))
        return True

    def _close(self, names: Mapping[str, Any]) -> Turn:
        head, turn, begun, kept = self.open.pop()
        if kept:
            turn.cycles = self.factor * (self._so_far(names) - begun) / UNIT
            turn.values = _values(names, self.heads[head][1])
            for name, places in turn.stored.items():
                region = self.regions[name]
                indices = [tuple(index_of(place, region)) for place in sorted(places)]
                turn.held[name] = [reduce(getitem, (*i, ()), region) for i in indices[:MOST_TOLD]]
                turn.stored[name] = [index[0] if len(index) == 1 else index for index in indices]
        return turn

    def _so_far(self, names: Mapping[str, Any]) -> int:
        """Units of cycles that a text has counted."""
        vec, loads, stores = (int(names.get(counter, 0)) for counter in ("vec", "loads", "stores"))
        return int(names["cyc"] + together((vec, loads, stores), self.target))

    def noted(self, name: str, region: Any) -> Any:
        """A field such that it is noted what is stored in it."""
        if not self.code.fields[name].written:
            return region
        parts, first = [], 0
        for part in parts_of(region):
            parts.append(part.view(_Noted))
            parts[-1].tell = partial(self._store, name, first, part)
            first += part.size
        return parts if isinstance(region, list) else parts[0]

    def _store(self, name: str, first: int, whole: Array, place: Array) -> None:
        """A `place` in a field was stored in. `first`: the number of the first element of `whole`,
        in which it lies."""
        first += (
            place.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        ) // whole.itemsize
        steps = (
            np.arange(n) * (s // whole.itemsize)
            for n, s in zip(place.shape, place.strides, strict=True)
        )
        numbers = (
            (first + sum(np.ix_(*steps), np.zeros(place.shape, np.int64))).reshape(-1).tolist()
        )
        for _, turn, _, kept in self.open:
            if kept:
                turn.stored.setdefault(name, set()).update(numbers)


class _Noted(np.ndarray[Any, np.dtype[Any]]):
    """A field of one vertex, and views of it. `tell(place)` is told where something is stored."""

    tell: Any = None

    def __array_finalize__(self, parent: Any) -> None:
        if isinstance(parent, _Noted) and np.may_share_memory(self, parent):  # a view, no copy
            self.tell = parent.tell

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        if self.tell is not None:
            keys = key if isinstance(key, tuple) else (key,)
            self.tell(np.asarray(self)[keys if Ellipsis in keys else (*keys, ...)])


def _values(names: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The learner's variables among the names of a text, as they are now."""
    found = {}
    for name, value in names.items():
        own = _OWN.match(name, len(prefix)) if name.startswith(prefix) else None
        if name.startswith(prefix) and not own and np.size(value) <= MOST_NUMBERS:
            found[name[len(prefix) :]] = np.array(value) if np.ndim(value) else value
    return found
