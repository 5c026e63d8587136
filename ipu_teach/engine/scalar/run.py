"""Run a scalar loop for every vertex of a group, by CPython's text and by the compiled one.

A run starts with CPython's text, vertex by vertex, and measures processor time, which other
programs on the machine do not lengthen. If the remaining vertices would take longer than compiling,
the compiled loop continues from there. Vertices are independent, so a run may change between two of
them. It may also change within a vertex of very many iterations, which is then restored and started
again.

If the compiled loop cannot continue with a vertex, that vertex is restored and CPython's text runs
it. If that fails, the plain loop runs it, and raises the learner's own error. An interruption
restores the fields of all vertices.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, TimeoutError as StillRunning
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from math import inf
from time import perf_counter, process_time

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.matrices import NOTED, warn_of_noted
from ipu_teach.compile.workers import race_of
from ipu_teach.cost.traced import UNIT, UNKNOWN
from ipu_teach.engine.fp.vertex_floats import VertexFloats
from ipu_teach.engine.loop import run_loop
from ipu_teach.engine.scalar.compiled import Loop
from ipu_teach.engine.scalar.fields import Fields
from ipu_teach.engine.scalar.function_text import compiled_text
from ipu_teach.engine.scalar.functions import Caller, program_of
from ipu_teach.engine.site import Site
from ipu_teach.types import Array

MOST_VIEWS = 1 << 12  # maximum number of vertices whose views of fields are created once and stored
LOOK = 1 << 20  # after this many units of cycles, a long vertex checks the time
FIRST_LOOK = 0.002  # in seconds; after this time, the remaining time can be estimated
# In total, the short runs of a loop may take this many times as long as compiling.
PATIENCE = 1.0
CHECK = 0.05  # in seconds: the time between two checks for an interruption
PIECE = 1024  # the number of vertices that a compiled loop runs at a time, at first
# "python" or "compiled" to override the measurement; see `chosen`
CHOSEN = ContextVar("way of scalar loops", default="")


@contextmanager
def chosen(way: str) -> Iterator[None]:
    """Return a context in which scalar loops run by "python" or "compiled", whatever the time.

    It is for tests, and within checks.
    """
    before = CHOSEN.set(way)
    try:
        yield
    finally:
        CHOSEN.reset(before)


class _Long(BaseException):
    """Raised when a vertex takes so long that compiling pays."""


class _Patience:
    """The processor time, `until`, at which the loop in CPython has to give up a vertex."""

    until = inf

    def longer(self, cycles: int) -> int:
        """Return the cycle count at which to call this again. Loops call it at their heads."""
        if process_time() > self.until:
            raise _Long
        return cycles + LOOK


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the thread pool of a process for compiled loops.

    An interruption reaches the main thread, which waits for the pool.
    """
    return ThreadPoolExecutor(thread_name_prefix="ipu_teach loop")


class ScalarRun:
    """The vertices of a group, ready to run at a site.

    Only CPython's text runs vertices with traps or stochastic rounding.
    """

    def __init__(self, site: Site) -> None:
        group = site.group
        assert group.scalar is not None
        self.group = group
        self.site = site
        self.races = site.mode.checks_races and group.scalar.multi
        self.program = program_of(group.scalar, site.target)
        self.plain = site.rounding is None and site.watch is None
        self.fields = Fields(
            group, group.scalar, graph=site.graph, memory=site.memory, defined=site.defined
        )
        self.count = len(group.rows)
        self.cycles = np.zeros(self.count, np.int64) if site.cycles is None else site.cycles
        self.returned = np.ones(self.count, bool) if site.returned is None else site.returned
        self.number = max(1, len(group.workers))  # the number of workers that share a vertex
        self.endless = group.scalar.endless
        self.patience = _Patience()
        self.calls: dict[int, Caller] = {}
        unit = frozenset(name for name, place in self.fields.places.items() if place.unit)
        self.text = compiled_text(group.scalar, site.target, unit, self.number <= 8)
        self.arguments: list[
            int | Array
        ] = []  # arguments of the compiled loop, except the first two

    def run(self) -> None:
        """Run `compute()` of every vertex."""
        fields = self.fields
        fields.load()
        self.stored = 0
        self.returned.fill(True)
        try:
            self.site.interrupts.within(self._all)
        except KeyboardInterrupt:
            fields.restore()
            raise
        fields.store(self.stored, self.count)
        if self.races:
            race = fields.race()
            if race is not None:
                raise race_of(self.group, *race)

    def _all(self) -> None:
        """Run all vertices, by either text."""
        begin = process_time()
        first = 0
        if not self.pays():
            first = self._by_python(0, self.count, self._wait())
        if first < self.count:
            self._by_compiled(first)
        else:
            self.program.spent += process_time() - begin

    # By CPython

    def pays(self) -> bool:
        """Return whether to use the compiled loop at once.

        That is so if there is no wait for the compiler, or if past runs took long enough to be
        worth it.
        """
        wait = self._wait()
        return wait == 0 or self.program.spent > PATIENCE * wait

    def _wait(self) -> float:
        """Return the seconds until a compiled loop could run, or infinity if none may run."""
        way = CHOSEN.get()
        if not self.plain or not self.program.compiles or way == "python":
            return inf
        return 0.0 if way else self.program.seconds_to_compile(self.text)

    def _by_python(self, first: int, last: int, wait: float = inf) -> int:
        """Run the vertices from `first` to before `last` by CPython's text.

        Return the first vertex that is left to a compiled loop, which could run after `wait`
        seconds.
        """
        begin = process_time()
        look = FIRST_LOOK
        end = first
        calls = self.calls
        counted = self.cycles.data
        self.patience.until = begin + wait
        noted = NOTED.faults
        for v in range(first, last):
            try:
                counted[v] = (calls[v] if v in calls else self._call(v))()
                if noted:
                    self._warn(v)
            except _Long:
                self.fields.restore(v)
                break
            except Exception:
                self._by_referee(v)
            end = v + 1
            if wait < inf and (elapsed := process_time() - begin) > look:
                if elapsed / (end - first) * (last - end) > wait:
                    break
                look = 1.5 * elapsed
        spent = self.cycles[first:end]
        # the count is inverted if compute() returns false
        self.returned[first:end][spent < UNKNOWN] = False
        np.copyto(
            spent, -(-np.maximum(spent, ~spent) // UNIT) * self.number, where=spent != UNKNOWN
        )
        return end

    def _call(self, v: int) -> Caller:
        """Return the function that runs a vertex; those of the first vertices are stored.

        It returns the count, inverted (~) if compute() returns false.
        """
        numbers = None if self.plain else VertexFloats(self.site, v)
        regions = self.fields.arguments(v, numbers)
        call = self.program.caller(
            self.number, regions, numbers=numbers, limit=LOOK, longer=self.patience.longer
        )
        if len(self.calls) < MOST_VIEWS:
            self.calls[v] = call
        return call

    def _warn(self, v: int) -> None:
        """Show warnings about the faults of matrices in a vertex."""
        table = self.group.table
        row = int(self.group.rows[v])
        warn_of_noted(table.codelet, lambda: vertex_name(table, row))

    def _by_referee(self, v: int) -> None:
        """Restore a vertex and let the plain loop run it, which raises the learner's error."""
        NOTED.faults.clear()
        self.fields.restore(v)
        self.fields.store(self.stored, v)
        self.stored = v + 1
        self.cycles[v] = UNKNOWN
        run_loop(self.site, only=v)

    # By compiled code

    def _by_compiled(self, first: int) -> None:
        """Run the vertices from `first` on, by CPython's text if they cannot be compiled."""
        if not self.arguments:
            self._prepare()
        run = self.program.compiled(self.text, lambda: (0, 0, *self.arguments))
        self.cycles[first:] = 0  # each worker takes the maximum with this value
        while first < self.count:
            if run is None:
                end = first
            elif self.endless:
                end = self._beside(run, first)
            else:
                end = self._in_pieces(run, first)
            if self.number > 1:
                self.cycles[first:end] *= self.number
            if end < self.count:
                self.fields.restore(end)
                end = self._by_python(end, end + 1)
            first = end

    def _prepare(self) -> None:
        """Build the arguments of the compiled loop."""
        fields = self.fields
        count = self.count
        places = self.fields.places.values()
        starts = (
            np.array([place.offsets for place in places], np.int64)
            .reshape(len(places), count)
            .T.copy()
        )
        dims: list[int] = []
        # from the index in `dims` of a list's first entry to (start, length) of each of its vectors
        tables: dict[int, list[int]] = {}
        for place in places:
            dims += [number for axis in place.dims for number in axis]
            if place.rows:
                tables[len(dims)] = [number for row in place.rows for number in row]
                dims.append(0)
        for at, table in tables.items():
            dims[at] = len(dims)
            dims += table
        buffers = [p.flat.view(np.uint16) if p.flat.dtype == np.float16 else p.flat for p in places]
        self.stop = np.zeros(1, np.int64)
        self.arguments = [
            self.number,
            starts,
            np.array(dims, np.int64),
            self.stop,
            self.program.addresses(),
            self.cycles,
            self.returned,
            *buffers,
            *fields.marks.values(),
            *fields.reads.values(),
        ]

    def _in_pieces(self, run: Loop, first: int) -> int:
        """Run the loop here, in short pieces, so that Python can check for interruptions.

        Return the vertex at which it ended.
        """
        size = PIECE
        while first < self.count:
            begin = perf_counter()
            last = min(self.count, first + size)
            end = run(first, last, *self.arguments)
            if end < last:
                return end
            if perf_counter() - begin < CHECK / 4:
                size *= 4
            first = last
        return first

    def _beside(self, run: Loop, first: int) -> int:
        """Run a possibly endless loop in its own thread, while this thread waits for interruptions.

        Return the vertex at which it ended.
        """
        job = _pool(os.getpid()).submit(run, first, self.count, *self.arguments)
        try:
            while True:
                try:
                    return job.result(CHECK)
                except StillRunning:
                    continue
        except BaseException:
            self.stop[0] = 1
            job.exception()
            self.stop[0] = 0
            raise
