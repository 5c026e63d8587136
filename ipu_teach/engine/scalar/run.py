"""Run the scalar loop of every vertex of a group, with the Python code or with the numba code.

A run starts with the numba code if it is compiled already. Otherwise, it starts with the Python
code, vertex by vertex, and measures the processor time. (Unlike wall time, processor time does not
depend on other programs on the machine.) If the remaining vertices would take longer than
compiling, the numba code continues from there. Vertices are independent, so a run may switch to the
numba code between two vertices. It may also switch within a vertex of very many iterations, which
is then restored and started again.

If the numba code cannot continue with a vertex, that vertex is restored and the Python code runs
it. If the Python code fails too, the plain vertex loop runs the vertex, and raises the learner's
own error. If a run is interrupted, the fields of all vertices are restored.
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

# The maximum number of vertices for which the views of fields are cached.
MOST_VIEWS = 1 << 12
# The number of units of 1/16 cycle after which a long vertex checks the time.
LOOK = 1 << 20
FIRST_LOOK = 0.002  # The seconds after which the remaining time can be estimated.
# The maximum total time of a loop's short runs in Python, as a multiple of the compiling time.
PATIENCE = 1.0
CHECK = 0.05  # The time between two checks for an interruption, in seconds.
PIECE = 1024  # The number of vertices in the first call of a compiled loop.
# Which code runs: "python" or "compiled", or "" to decide by measuring time. See `chosen`.
CHOSEN = ContextVar("way of scalar loops", default="")


@contextmanager
def chosen(way: str) -> Iterator[None]:
    """Return a context in which scalar loops run only as "python" or only as "compiled" code.

    Tests use it, so that the code that runs does not depend on processor time.
    """
    before = CHOSEN.set(way)
    try:
        yield
    finally:
        CHOSEN.reset(before)


class _Long(BaseException):
    """Raised when a vertex takes so long that compiling its loop is worthwhile."""


class _Patience:
    """The time limit of the Python code.

    `until` is the processor time at which the Python code stops, even within a vertex.
    """

    until = inf

    def longer(self, cycles: int) -> int:
        """Return the number of cycles at which the vertex's loops must call this method again.

        `cycles` is the number of cycles that the vertex has counted so far. Both numbers are in
        units of 1/16 cycle.

        :raises _Long: if the processor time has reached `until`.
        """
        if process_time() > self.until:
            raise _Long
        return cycles + LOOK


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the process's thread pool for compiled loops.

    Python delivers an interruption to the main thread, which waits for the pool meanwhile.
    """
    return ThreadPoolExecutor(thread_name_prefix="ipu_teach loop")


class ScalarRun:
    """The scalar loop of a group's vertices, ready to run.

    Vertices with traps or stochastic rounding always run with the Python code.
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
        # `number` is the number of workers that share a vertex.
        self.number = max(1, len(group.workers))
        self.endless = group.scalar.endless
        self.patience = _Patience()
        self.calls: dict[int, Caller] = {}
        unit_stride_fields = frozenset(
            name for name, place in self.fields.places.items() if place.unit
        )
        self.text = compiled_text(group.scalar, site.target, unit_stride_fields, self.number <= 8)
        # The arguments of the compiled loop, except the first two.
        self.arguments: list[int | Array] = []

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
        """Run the first vertices with the Python code and the remaining ones with the numba code.

        How many vertices each code runs depends on the time that compiling takes.
        """
        begin_seconds = process_time()
        first_vertex = 0
        if not self.pays():
            first_vertex = self._by_python(0, self.count, self._wait())
        if first_vertex < self.count:
            self._by_compiled(first_vertex)
        else:
            self.program.spent += process_time() - begin_seconds

    # Methods that run the Python code

    def pays(self) -> bool:
        """Return whether to run the numba code at once.

        The numba code runs at once if it is compiled already, or if earlier runs took long enough
        to make compiling worthwhile.
        """
        wait = self._wait()
        return wait == 0 or self.program.spent > PATIENCE * wait

    def _wait(self) -> float:
        """Return the CPU seconds until the numba code could run, or infinity if it may not run."""
        way = CHOSEN.get()
        if not self.plain or not self.program.compiles or way == "python":
            return inf
        return 0.0 if way else self.program.seconds_to_compile(self.text)

    def _by_python(self, first_vertex: int, end_vertex: int, wait_seconds: float = inf) -> int:
        """Run the vertices from `first_vertex` to before `end_vertex` by the Python code.

        `wait_seconds` is the processor time until the numba code could run. If the remaining
        vertices are expected to take longer than that, the Python code stops early. Return the
        first vertex that did not run, or `end_vertex`.
        """
        begin_seconds = process_time()
        next_look = FIRST_LOOK
        num_run = first_vertex
        call_of_vertex = self.calls
        counted = self.cycles.data
        self.patience.until = begin_seconds + wait_seconds
        noted_faults = NOTED.faults
        for vertex in range(first_vertex, end_vertex):
            try:
                counted[vertex] = (
                    call_of_vertex[vertex] if vertex in call_of_vertex else self._call(vertex)
                )()
                if noted_faults:
                    self._warn(vertex)
            except _Long:
                self.fields.restore(vertex)
                break
            except Exception:
                self._by_referee(vertex)
            num_run = vertex + 1
            if wait_seconds < inf and (elapsed := process_time() - begin_seconds) > next_look:
                if elapsed / (num_run - first_vertex) * (end_vertex - num_run) > wait_seconds:
                    break
                next_look = 1.5 * elapsed
        counts = self.cycles[first_vertex:num_run]
        # The number of cycles of a vertex is inverted (~) if compute() returned false.
        self.returned[first_vertex:num_run][counts < UNKNOWN] = False
        np.copyto(
            counts, -(-np.maximum(counts, ~counts) // UNIT) * self.number, where=counts != UNKNOWN
        )
        return num_run

    def _call(self, v: int) -> Caller:
        """Return the function that runs vertex `v` by the Python code.

        It returns the vertex's cycles in units of 1/16 cycle, inverted (~) if compute() returns
        false. The functions of the first `MOST_VIEWS` vertices are cached.
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
        """Show the warnings about unsuitable matrices that were noted while vertex `v` ran."""
        table = self.group.table
        row = int(self.group.rows[v])
        warn_of_noted(table.codelet, lambda: vertex_name(table, row))

    def _by_referee(self, v: int) -> None:
        """Restore vertex `v` and let the plain vertex loop run it.

        That loop raises the learner's error.
        """
        NOTED.faults.clear()
        self.fields.restore(v)
        self.fields.store(self.stored, v)
        self.stored = v + 1
        self.cycles[v] = UNKNOWN
        run_loop(self.site, only_vertex=v)

    # Methods that run the numba code

    def _by_compiled(self, first_vertex: int) -> None:
        """Run the vertices from `first_vertex` on by the numba code.

        If the numba code cannot continue with a vertex, the Python code runs this vertex. If numba
        cannot compile the code, the Python code runs all vertices.
        """
        if not self.arguments:
            self._prepare()
        compiled_loop = self.program.compiled(self.text, lambda: (0, 0, *self.arguments))
        # Each worker stores the maximum of its own cycles and the vertex's cycles so far.
        self.cycles[first_vertex:] = 0
        while first_vertex < self.count:
            if compiled_loop is None:
                stopped_at = first_vertex
            elif self.endless:
                stopped_at = self._beside(compiled_loop, first_vertex)
            else:
                stopped_at = self._in_pieces(compiled_loop, first_vertex)
            if self.number > 1:
                self.cycles[first_vertex:stopped_at] *= self.number
            if stopped_at < self.count:
                self.fields.restore(stopped_at)
                stopped_at = self._by_python(stopped_at, stopped_at + 1)
            first_vertex = stopped_at

    def _prepare(self) -> None:
        """Build the arguments of the numba code's function `run`, except `first` and `last`."""
        fields = self.fields
        num_vertices = self.count
        places = self.fields.places.values()
        starts = (
            np.array([place.offsets for place in places], np.int64)
            .reshape(len(places), num_vertices)
            .T.copy()
        )
        dimensions: list[int] = []
        # Contains the pairs (start, length) of the vectors in each list of vectors. The key is the
        # position in `dimensions` at which the index of the list's first pair is stored.
        tables: dict[int, list[int]] = {}
        for place in places:
            dimensions += [length_or_step for axis in place.dims for length_or_step in axis]
            if place.rows:
                tables[len(dimensions)] = [
                    length_or_step for row in place.rows for length_or_step in row
                ]
                dimensions.append(0)
        for dims_index, list_rows in tables.items():
            dimensions[dims_index] = len(dimensions)
            dimensions += list_rows
        buffers = [
            field_place.flat.view(np.uint16)
            if field_place.flat.dtype == np.float16
            else field_place.flat
            for field_place in places
        ]
        self.stop = np.zeros(1, np.int64)
        self.arguments = [
            self.number,
            starts,
            np.array(dimensions, np.int64),
            self.stop,
            self.program.addresses(),
            self.cycles,
            self.returned,
            *buffers,
            *fields.marks.values(),
            *fields.reads.values(),
        ]

    def _in_pieces(self, run: Loop, first_vertex: int) -> int:
        """Run the loop in this thread, in short pieces, so that Python can check for interruptions.

        Return the vertex at which the loop ended.
        """
        num_vertices = PIECE
        while first_vertex < self.count:
            begin_seconds = perf_counter()
            end_vertex = min(self.count, first_vertex + num_vertices)
            stopped_at = run(first_vertex, end_vertex, *self.arguments)
            if stopped_at < end_vertex:
                return stopped_at
            if perf_counter() - begin_seconds < CHECK / 4:
                num_vertices *= 4
            first_vertex = end_vertex
        return first_vertex

    def _beside(self, run: Loop, first_vertex: int) -> int:
        """Run a possibly endless loop in another thread, while this thread waits for interruptions.

        Return the vertex at which the loop ended.
        """
        job = _pool(os.getpid()).submit(run, first_vertex, self.count, *self.arguments)
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
