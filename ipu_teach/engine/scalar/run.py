"""Run a scalar loop for every vertex of a group, by CPython's text and by the compiled one.

A run starts with CPython's, vertex by vertex, and watches the processor's time, which no other
program on the machine lengthens. When what is left would take longer than compiling does, the
compiled loop goes on from there: no vertex sees another, so that a run may change hands between two
of them. So it may within one vertex of very many turns, which is put back and begun again.

Where the compiled loop cannot go on with a vertex, that one is put back and CPython's text runs it.
Where that fails, the plain loop does, and raises the learner's own error. An interruption puts back
the fields of all.
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
from typing import Any

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.matrices import NOTED, tell
from ipu_teach.compile.workers import race_of
from ipu_teach.cost.traced import UNIT, UNKNOWN
from ipu_teach.engine.fp.vertex_floats import VertexFloats
from ipu_teach.engine.loop import run_loop
from ipu_teach.engine.scalar.compiled import Loop
from ipu_teach.engine.scalar.fields import Fields
from ipu_teach.engine.scalar.function_text import compiled_text
from ipu_teach.engine.scalar.functions import Caller, program_of
from ipu_teach.engine.site import Site

MOST_VIEWS = 1 << 12  # vertices of which the views of fields are made once and kept
LOOK = 1 << 20  # units of cycles after which a long vertex looks at the clock
FIRST_LOOK = 0.002  # seconds from which on the time of what is left can be told
# how many times as long as compiling takes the short runs of a loop may have taken, all in all
PATIENCE = 1.0
CHECK = 0.05  # seconds between two looks whether somebody interrupts
PIECE = 1024  # vertices of a compiled loop that runs for a while at a time, to begin with
# "python" or "compiled" instead of the clock; see `chosen`
CHOSEN = ContextVar("way of scalar loops", default="")


@contextmanager
def chosen(way: str) -> Iterator[None]:
    """Let scalar loops run by "python" or "compiled", whatever the clock says: for tests, and
    within checks."""
    before = CHOSEN.set(way)
    try:
        yield
    finally:
        CHOSEN.reset(before)


class _Long(BaseException):
    """A vertex takes so long that compiling pays."""


class _Patience:
    """`until` when, by the processor's time, CPython's text may go on with a vertex."""

    until = inf

    def longer(self, cycles: int) -> int:
        """Called now and then at the heads of its loops: after how many cycles to call again."""
        if process_time() > self.until:
            raise _Long
        return cycles + LOOK


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Where compiled loops of a process run: an interruption reaches the main thread, which
    waits."""
    return ThreadPoolExecutor(thread_name_prefix="ipu_teach loop")


class ScalarRun:
    """The vertices of a group, ready to run at a site. What traps or rounds by chance is run by
    CPython's text alone."""

    def __init__(self, site: Site) -> None:
        group = site.group
        assert group.scalar is not None
        self.group, self.site, self.races = group, site, site.how.races and group.scalar.multi
        self.program = program_of(group.scalar, site.target)
        self.plain = site.rounding is None and site.watch is None
        self.fields = Fields(group, group.scalar, site.graph, site.memory, site.defined)
        self.count = len(group.rows)
        self.cycles = np.zeros(self.count, np.int64) if site.cycles is None else site.cycles
        self.returned = np.ones(self.count, bool) if site.returned is None else site.returned
        self.number = max(1, len(group.workers))  # of workers that share a vertex
        self.endless = group.scalar.endless
        self.patience = _Patience()
        self.calls: dict[int, Caller] = {}
        unit = frozenset(name for name, place in self.fields.places.items() if place.unit)
        self.text = compiled_text(group.scalar, site.target, unit, self.number <= 8)
        self.arguments: list[Any] = []  # of the compiled loop, but for its first two

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
            met = fields.race()
            if met is not None:
                raise race_of(self.group, *met)

    def _all(self) -> None:
        begin, first = process_time(), 0
        if not self.pays():
            first = self._by_python(0, self.count, self._wait())
        if first < self.count:
            self._by_compiled(first)
        else:
            self.program.spent += process_time() - begin

    # By CPython

    def pays(self) -> bool:
        """True if the compiled loop need not be waited for, or was worth waiting for long ago."""
        wait = self._wait()
        return wait == 0 or self.program.spent > PATIENCE * wait

    def _wait(self) -> float:
        """Seconds until a compiled loop could run; without end if CPython's text shall go on
        anyway."""
        way = CHOSEN.get()
        if not self.plain or not self.program.compiles or way == "python":
            return inf
        return 0.0 if way else self.program.seconds_to_compile(self.text)

    def _by_python(self, first: int, last: int, wait: float = inf) -> int:
        """Run some vertices. Returns with which a loop that runs after `wait` seconds had better go
        on."""
        begin = process_time()
        look = FIRST_LOOK
        end = first
        calls = self.calls
        counted = self.cycles.data
        self.patience.until, noted = begin + wait, NOTED.odd
        for v in range(first, last):
            try:
                counted[v] = (calls[v] if v in calls else self._call(v))()
                if noted:
                    self._tell(v)
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
        self.returned[first:end][spent < UNKNOWN] = False  # the inverse of what it counted
        np.copyto(
            spent, -(-np.maximum(spent, ~spent) // UNIT) * self.number, where=spent != UNKNOWN
        )
        return end

    def _call(self, v: int) -> Caller:
        """What runs one vertex, made once for the first of them. It gives what was counted; ~ of
        that for an answer of no."""
        numbers = None if self.plain else VertexFloats(self.site, v)
        regions = self.fields.arguments(v, numbers)
        call = self.program.caller(self.number, regions, numbers, LOOK, self.patience.longer)
        if len(self.calls) < MOST_VIEWS:
            self.calls[v] = call
        return call

    def _tell(self, v: int) -> None:
        table, row = self.group.table, int(self.group.rows[v])
        tell(table.codelet, lambda: vertex_name(table, row))

    def _by_referee(self, v: int) -> None:
        """Let the plain loop run a vertex, on what it had before: it says what is wrong."""
        NOTED.odd.clear()
        self.fields.restore(v)
        self.fields.store(self.stored, v)
        self.stored = v + 1
        self.cycles[v] = UNKNOWN
        run_loop(self.site, only=v)

    # By compiled code

    def _by_compiled(self, first: int) -> None:
        """Run the vertices from `first` on; by CPython if they cannot be compiled after all."""
        if not self.arguments:
            self._prepare()
        run = self.program.compiled(self.text, lambda: (0, 0, *self.arguments))
        self.cycles[first:] = 0  # workers look for the slowest of them
        while first < self.count:
            end = (
                first
                if run is None
                else (self._beside if self.endless else self._in_pieces)(run, first)
            )
            if self.number > 1:
                self.cycles[first:end] *= self.number
            if end < self.count:
                self.fields.restore(end)
                end = self._by_python(end, end + 1)
            first = end

    def _prepare(self) -> None:
        fields, count, places = self.fields, self.count, self.fields.places.values()
        starts = (
            np.array([place.offsets for place in places], np.int64)
            .reshape(len(places), count)
            .T.copy()
        )
        dims: list[int] = []
        tables: dict[int, list[int]] = {}  # of lists of vectors: by the place of where they begin
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
        """Run it here, for a while at a time: Python looks for interruptions in between. Returns
        the vertex where it ended."""
        size = PIECE
        while first < self.count:
            begin, last = perf_counter(), min(self.count, first + size)
            end = run(first, last, *self.arguments)
            if end < last:
                return end
            if perf_counter() - begin < CHECK / 4:
                size *= 4
            first = last
        return first

    def _beside(self, run: Loop, first: int) -> int:
        """The same in a thread of its own while this one waits for interruptions: what may be
        endless."""
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
