"""Batches of loops over single elements, which go on as compiled loops where that is quicker.

Such a batch is many short array calls, or few vertices' numbers in each. It runs at once, where a
compiled loop has to be waited for. So it runs until it has taken as much of the processor's time as
the compiler would; from then on the quicker of the two does, as in the tiers of a just-in-time
compiler. Both have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import perf_counter, process_time

from ipu_teach.compile.groups import Group
from ipu_teach.compile.tracer import is_list
from ipu_teach.engine.backend import Call, run_all
from ipu_teach.engine.batch.last_use import only_numbers
from ipu_teach.engine.scalar.run import ScalarRun

LOOK = 0.05  # CPU seconds of batches after which the compiled loop is first thought of
LEAST_OPS = 64  # of a trace: below, a batch has little to lose
# runs of the compiled loop, the first of which waits for the compiler, until it must have been the
# quicker one
TRIALS = 4


def loops_over_elements(group: Group) -> bool:
    """True if the vertices of a batch do nothing but many operations on single elements, which
    raise nothing."""
    trace = group.trace
    if group.workers or trace.returned is not True or any(map(is_list, group.shapes.values())):
        return False
    return (
        len(trace.ops) >= LEAST_OPS
        and only_numbers(trace)
        and not any(op.kind == "store" and op.kwargs for op in trace.ops)
    )


class Tiers:
    """A batch, `calls`, and the scalar loop that `make()` makes of the same vertices; None if it
    cannot."""

    def __init__(self, calls: list[Call], make: Callable[[], ScalarRun | None]) -> None:
        self._calls, self._make = calls, make
        self._loop: ScalarRun | None = None
        self._spent, self._best, self._look = 0.0, inf, LOOK
        self._compiled, self._trials = False, [inf]

    def run(self) -> None:
        begin = perf_counter()
        if self._compiled and self._loop is not None:
            self._loop.run()
            if len(self._trials) <= TRIALS:
                self._trials.append(perf_counter() - begin)
                self._compiled = len(self._trials) <= TRIALS or min(self._trials) < self._best
            return
        spent = process_time()
        run_all(self._calls)
        self._spent += process_time() - spent
        self._best = min(self._best, perf_counter() - begin)
        if self._spent > self._look and len(self._trials) <= TRIALS:
            self._look = 1.5 * self._look
            self._loop = self._loop or self._make()
            if self._loop is not None:
                self._loop.program.spent += self._spent
                self._compiled, self._spent = self._loop.pays(), 0.0
