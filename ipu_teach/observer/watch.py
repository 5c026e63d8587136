"""Observe a vertex while it runs: the cost of each line, and each iteration of its loops.

    seen = observe(DotProduct, a=[1, 2, 3], b=[4, 5, 6])
    print(seen)                  # cycles by line, and the iterations of its loops
    seen.turns[1].values         # {"acc": 14.0, "i": 1}
    seen.wrote("out")            # iterations that stored in a field or an element: wrote("y", 5)

`compute()` runs once to get the values, or once for each worker of a `MultiVertex`. If it can be
translated into a scalar loop, this loop runs too, as generated Python code that calls a `Watch` at
every iteration and store. For a traced codelet, the cost of the lines comes from its trace. If the
codelet defines its cycles itself, its lines have no cost.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

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
from ipu_teach.engine.scalar.count import marks_for
from ipu_teach.engine.scalar.fields import FieldArrays, index_of, parts_of
from ipu_teach.engine.scalar.function_text import python_text
from ipu_teach.engine.scalar.functions import FOREVER
from ipu_teach.graph.codelet_registry import said_cycles, vertex_class
from ipu_teach.graph.vertex import Vertex, regions_of, run_on, workers
from ipu_teach.target import Target, make_target
from ipu_teach.types import Array

# The value of a local variable of a codelet: a number, an array, or any other object.
Local: TypeAlias = Any
MOST_TURNS = 10_000  # The maximum number of recorded iterations of a vertex, from the first on.
MOST_NUMBERS = 16  # The maximum number of elements of an array variable that is recorded.
# The names of variables that the compiler generates: they end in "_m" (flags of written elements),
# or begin with "g_" (variables in a generator).
_GENERATED = re.compile("g_\\d+(?:[A-Zl]$|_)|.*_m$")


@checks("target")
def observe(codelet: type[Vertex], target: Target | None = None, /, **values: Any) -> Observed:
    """Run one vertex on host values, as `Vertex.call` does, and return its costs and iterations.

    `values` are the values of the vertex's fields. `target` is the machine that the cycles are for,
    by default an IPU Mk2.

    :raises CodeletError: if compute() fails.

    The errors of `Vertex.call` are raised too.
    """
    return observed(
        codelet, regions_of(vertex_class(codelet, "observe()"), values), target or make_target()
    )


def observed(codelet: type[Vertex], regions: Mapping[str, FieldArrays], target: Target) -> Observed:
    """Return the record of one run of a vertex.

    `regions` maps the name of a field to its array or, for a list of vectors, to a list of arrays.
    The arrays change as the vertex runs.
    """
    target = priced_for(codelet, target)
    shapes = {
        field_name: tuple(part.shape for part in arrays)
        if isinstance(arrays, list)
        else arrays.shape
        for field_name, arrays in regions.items()
    }
    calls = workers(codelet, target.num_worker_contexts)
    factor = factor_of(codelet, target)
    traces = [
        trace_codelet(codelet, shapes, codelet.__name__, num_workers=len(calls), worker=worker)
        for worker in calls
    ]
    code = scalar_code(
        codelet, frozenset(name for name, region in regions.items() if isinstance(region, list))
    )
    watches = [] if isinstance(code, str) else _watched(code, regions, target, len(calls))
    result = run_on(codelet, regions)
    slowest = max(watches, key=lambda watch: watch.cycles, default=None)
    estimate = said_cycles(codelet, None, shapes, target, codelet.__name__)
    traced_cycles = (
        None
        if any(trace.stopped for trace in traces)
        else max(trace_cycles(trace, target) for trace in traces)
    )
    cycles = UNKNOWN
    lines = LineCosts()
    launch = launch_cycles(codelet)
    if estimate is not None:
        cycles = int(estimate)
    elif traced_cycles is not None:
        cycles = factor * traced_cycles + launch
        lines = lines_of_traces(codelet, traces, target)
    elif slowest is not None:
        cycles = factor * slowest.cycles + launch
        lines = slowest.by_line(target)
    return Observed(
        codelet=codelet,
        result=result,
        cycles=cycles,
        start=start_of(codelet, target),
        lines=lines,
        turns=[] if slowest is None else slowest.turns,
        turned=0 if slowest is None else slowest.count,
        worker=0 if slowest is None else watches.index(slowest),
    )


def _watched(
    code: ScalarCode, regions: Mapping[str, FieldArrays], target: Target, count: int
) -> list[Watch]:
    """Run the scalar loop of a vertex as Python code, and return a `Watch` for each worker.

    `count` is the number of workers. The loop runs on copies of `regions`. The result is [] if the
    loop raises an error.
    """
    watches: list[Watch] = []
    copies = {
        n: [p.copy() for p in r] if isinstance(r, list) else r.copy() for n, r in regions.items()
    }
    text = compile(
        python_text(code, target, watched=True), f"<{code.codelet.__name__}, watched>", "exec"
    )
    marks, reads = marks_for(code, copies, count)
    for worker in range(count):
        watch = Watch(code, copies, target)
        space: dict[str, Local] = {"watch": watch}
        exec(text, space)
        watched_regions = [watch.noted(name, region) for name, region in copies.items()]
        try:
            with np.errstate(all="ignore"):
                cycles = space["vertex"](
                    worker, count, FOREVER, int, *watched_regions, *marks.values(), *reads.values()
                )
        # Ignore the error: either compute() raises the same error later, or it raises none, because
        # its integers may be larger than those of the generated code.
        except Exception:
            return []
        watch.cycles = -(-max(cycles, ~cycles) // UNIT)
        watches.append(watch)
    return watches


class Watch:
    """The records that the generated Python code of a scalar loop makes while it runs a vertex.

    `turns` has the first 10,000 iterations of loops, and `count` is the number of all iterations.
    """

    def __init__(
        self, code: ScalarCode, regions: Mapping[str, FieldArrays], target: Target
    ) -> None:
        self.code = code
        self.regions = regions
        self.factor = factor_of(code.codelet, target)
        self.target = target
        self.pieces = [0] * len(code.pieces)
        self.lines = [0] * len(code.lines)
        self.cycles = 0
        # The cost of operations on entire regions, in units of 1/16 cycle. The key is (counter,
        # index of the operation in `code.rates`).
        self.amounts: Counter[tuple[str, int]] = Counter()
        self.turns: list[Turn] = []
        self.count = 0
        # The loops that are running, outermost first: (number of the loop, current iteration,
        # cycles at its start in units of 1/16 cycle, whether the iteration is recorded).
        self.open: list[tuple[int, Turn, int, bool]] = []
        name = naming_of(code.codelet)
        self.heads = [(name(spot), prefix) for spot, prefix in code.heads]

    def by_line(self, target: Target) -> LineCosts:
        """Return the lines of the codelet with their cycles and numbers of executions."""
        return lines_of_pieces(
            self.code,
            target,
            cycles=self.cycles,
            pieces=self.pieces,
            times=self.lines,
            beside=self.amounts,
        )

    def count_work(self, counter: str, rate: int, amount: int) -> int:
        """Record the cost of an operation on an entire region, and return it.

        `amount` is the cost in units of 1/16 cycle, `counter` is "vec", "loads" or "stores", and
        `rate` is the index of the operation in `code.rates`.
        """
        self.amounts[{"vec": "vector"}.get(counter, counter), rate] += amount
        return amount

    def over(self, head: int, items: Iterable[Local] | bool) -> Iterable[Local] | bool:
        """Record the iterations of loop `head`: a `for` loop over `items`, or a `while` loop.

        For a `for` loop, return the items. For a `while` loop, the call is at the head of the loop,
        and `items` is True: start an iteration and return True. If the condition of the `while`
        loop is false, the generated code then calls `end_while`.
        """
        if not isinstance(items, bool):
            return self._watched_items(head, items)
        return self._turn(head, sys._getframe(1).f_locals)

    def _watched_items(self, head: int, items: Iterable[Local]) -> Iterator[Local]:
        """Yield the items of a `for` loop, and start an iteration before each item.

        The loop requests its next item at the end of an iteration. At this moment, the variables
        still have the values of that iteration, so they can be recorded.
        """
        for item in items:
            self._turn(head, sys._getframe(1).f_locals)
            yield item

    def end_while(self) -> None:
        """Remove the iteration that was started for a `while` loop whose condition was false."""
        _, turn, _, is_kept = self.open.pop()
        self.count -= 1
        if is_kept:
            self.turns.remove(turn)

    def leave(self, head: int | None = None) -> None:
        """Record that the loop `head` was left, or that all loops were left if `head` is None."""
        while self.open and head in (None, self.open[-1][0]):
            self._close(sys._getframe(1).f_locals)

    def _turn(self, head: int, names: Mapping[str, Local]) -> bool:
        """Start an iteration of loop `head`, and return True.

        `names` are the local variables of the generated code.
        """
        is_next = bool(self.open) and self.open[-1][0] == head
        iteration = self._close(names).number + 1 if is_next else 1
        turn = Turn(self.heads[head][0], iteration, len(self.open))
        self.count += 1
        is_kept = len(self.turns) < MOST_TURNS
        if is_kept:
            self.turns.append(turn)
        self.open.append((head, turn, self._cycles_so_far(names), is_kept))
        return True

    def _close(self, names: Mapping[str, Local]) -> Turn:
        """End the innermost iteration, and return its record with cycles, values and stores.

        `names` are the local variables of the generated code.
        """
        head, turn, cycles_before, is_kept = self.open.pop()
        if is_kept:
            turn.cycles = self.factor * (self._cycles_so_far(names) - cycles_before) / UNIT
            turn.values = _values(names, self.heads[head][1])
            for name, places in turn.stored.items():
                region: Local = self.regions[name]
                indices = [tuple(index_of(element, region)) for element in sorted(places)]
                turn.held[name] = [_element(region, index) for index in indices[:MOST_TOLD]]
                turn.stored[name] = [index[0] if len(index) == 1 else index for index in indices]
        return turn

    def _cycles_so_far(self, names: Mapping[str, Local]) -> int:
        """Return the cycles that the vertex has taken so far, in units of 1/16 cycle.

        The generated code counts them in its local variables, `names`.
        """
        vec, loads, stores = (int(names.get(counter, 0)) for counter in ("vec", "loads", "stores"))
        return int(names["cyc"] + together((vec, loads, stores), self.target))

    def noted(self, name: str, region: FieldArrays) -> FieldArrays:
        """Return field `name` as an array that calls `_store` for each store in it.

        If the codelet does not write the field, it is returned unchanged.
        """
        if not self.code.fields[name].written:
            return region
        parts: list[Array] = []
        first_element = 0
        for part in parts_of(region):
            reporting = part.view(_Reporting)
            reporting.report = partial(self._store, name, first_element, part)
            parts.append(reporting)
            first_element += part.size
        return parts if isinstance(region, list) else parts[0]

    def _store(self, name: str, first_element: int, array: Array, place: Array) -> None:
        """Record which elements the vertex stored.

        `place` is a view of these elements in `array`, which is field `name` or one of its vectors.
        `first_element` is the index of the first element of `array` in the whole field.
        """
        first_element += (
            place.__array_interface__["data"][0] - array.__array_interface__["data"][0]
        ) // array.itemsize
        axis_offsets = (
            np.arange(length) * (stride // array.itemsize)
            for length, stride in zip(place.shape, place.strides, strict=True)
        )
        numbers = (
            (first_element + sum(np.ix_(*axis_offsets), np.zeros(place.shape, np.int64)))
            .reshape(-1)
            .tolist()
        )
        for _, turn, _, is_kept in self.open:
            if is_kept:
                turn.stored.setdefault(name, set()).update(numbers)


class _Reporting(np.ndarray[tuple[int, ...], np.dtype[np.generic]]):
    """The array of a field, or a view of it, which calls `report(place)` after each store.

    `place` is a view of the elements that were stored.
    """

    report: Callable[[Array], None] | None = None

    def __array_finalize__(self, parent: Array | None) -> None:
        # If this array is a view of `parent`, assignments to the view are also reported.
        if isinstance(parent, _Reporting) and np.may_share_memory(self, parent):
            self.report = parent.report

    def __setitem__(self, key: Local, value: Local) -> None:
        super().__setitem__(key, value)
        if self.report is not None:
            keys = key if isinstance(key, tuple) else (key,)
            self.report(np.asarray(self)[keys if Ellipsis in keys else (*keys, ...)])


def _element(region: FieldArrays, index: tuple[int, ...]) -> Any:
    """Return the element of a field at `index`.

    If the field is a list of vectors, the first number of the index selects the vector.
    """
    if isinstance(region, list):
        return region[index[0]][index[1:]]
    return region[index]


def _values(names: Mapping[str, Local], prefix: str) -> dict[str, Local]:
    """Return the values of the codelet's local variables by name, without large arrays.

    `names` are the local variables of the generated code, in which the names of the codelet's
    variables begin with `prefix`. The prefix is removed.
    """
    values = {}
    for name, value in names.items():
        if not name.startswith(prefix) or _GENERATED.match(name, len(prefix)):
            continue
        if np.size(value) <= MOST_NUMBERS:
            values[name[len(prefix) :]] = np.array(value) if np.ndim(value) else value
    return values
