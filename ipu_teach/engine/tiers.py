"""Run a group's vertices by array calls at first, and by a compiled loop if that is faster.

This is done for codelets that loop over single elements. Their batch consists of many array calls,
each for few numbers. The batch can start at once, whereas a compiled loop must wait for the
compiler. So the batch runs until it has used as much processor time as the compiler would need.
From then on, the faster of the batch and the compiled loop runs, as in the tiers of a just-in-time
compiler. Both give the same bits.
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

# The CPU seconds that the batch may use before compiling the loop is considered.
LOOK = 0.05
LEAST_OPS = 64  # The minimum number of ops in a trace. A batch of fewer ops is fast enough.
# The number of times that the compiled loop is tried before the faster of loop and batch is chosen.
# The first of these times includes waiting for the compiler.
TRIALS = 4


def loops_over_elements(group: Group) -> bool:
    """Return whether a compiled loop could be faster than the batch of a group.

    The trace must consist of many operations on single numbers. None of these operations may be
    able to raise an error.
    """
    trace = group.trace
    if group.workers or trace.returned is not True or any(map(is_list, group.shapes.values())):
        return False
    return (
        len(trace.ops) >= LEAST_OPS
        and only_numbers(trace)
        and not any(op.kind == "store" and op.kwargs for op in trace.ops)
    )


class Tiers:
    """Runs the vertices of a group either as a batch or by a compiled loop, whichever is faster.

    `calls` are the calls of the batch. `make()` returns the compiled loop, or None if it cannot be
    compiled.
    """

    def __init__(self, calls: list[Call], make: Callable[[], ScalarRun | None]) -> None:
        self._calls = calls
        self._make = make
        self._loop: ScalarRun | None = None
        self._spent = 0.0
        self._best = inf
        self._look = LOOK
        self._compiled = False
        self._trials = [inf]

    def run(self) -> None:
        """Run the batch or the compiled loop once, and measure the time that it takes."""
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
                self._compiled = self._loop.pays()
                self._spent = 0.0
