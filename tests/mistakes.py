"""Planted mistakes that people make on a tile machine: the kit's response to each, if there is one.

docs/caught.md is made from this list by docs/make_caught.py. Each function makes the mistake and
runs it; its docstring is the mistake in a sentence.
"""

# There is no `from __future__ import annotations` here: codelets read the types of their fields from
# the annotations themselves.

import threading
import time
from _thread import interrupt_main
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    Engine,
    FloatingPointBehaviour,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Report,
    Tensor,
    Vector,
    Vertex,
    errors,
    program as p,
    set_floating_point_behaviour,
)

TILES = 13
BEFORE, DURING, REPORT, NEVER = "before it runs", "while it runs", "in the report", "not caught"


@dataclass(frozen=True)
class Mistake:
    """A planted mistake: `plant()` makes it and runs it.

    It raises `error`, or the report has an insight of the kind `insight`, with advice. With neither
    it goes unnoticed, and `why` gives the reason and what helps.
    """

    plant: Callable[[], Any]
    when: str
    error: type[Exception] | None = None
    insight: str = ""
    why: str = ""

    @property
    def title(self) -> str:
        """The mistake, in a sentence."""
        return " ".join((self.plant.__doc__ or "").split())

    def said(self) -> str:
        """The first sentence of the error or of the insight; "" if the mistake goes unnoticed.

        It fails if the expected error or insight is missing.
        """
        if self.error is not None:
            try:
                self.plant()
            except self.error as error:
                return str(getattr(error, "tried", error))
            raise AssertionError(f"nothing was raised: {self.title}")
        came = self.plant()
        if not self.insight:
            return ""
        assert isinstance(came, Report)
        (found,) = (row for row in came.insights() if row.kind == self.insight)
        assert found.advice, f"no advice: {found.text}"
        return f"{found.text} {found.advice[0].upper()}{found.advice[1:]}"


MISTAKES: list[Mistake] = []


def caught(when: str, error: type[Exception]) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Mark a mistake that raises `error`."""
    return lambda plant: (MISTAKES.append(Mistake(plant, when, error)), plant)[1]


def seen(insight: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Mark a program that is right but slow, as an insight of the report says."""
    return lambda plant: (MISTAKES.append(Mistake(plant, REPORT, insight=insight)), plant)[1]


def missed(why: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Mark a mistake that goes unnoticed."""
    return lambda plant: (MISTAKES.append(Mistake(plant, NEVER, why=why)), plant)[1]


class Put(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x


class Sum(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x.sum()


class First(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x[0]


class Twice(Vertex):
    x: InOut[Vector[HALF]]

    def compute(self) -> None:
        self.x = self.x * 2


class Bench:
    """A graph on 13 tiles with one compute set."""

    def __init__(self) -> None:
        self.device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
        self.graph = Graph(self.device)
        self.work = self.graph.add_compute_set("work")

    def variable(
        self,
        name: str,
        value: Any = 1,
        dtype: Any = FLOAT,
        shape: tuple[int, ...] = (4,),
        tile: int = 0,
    ) -> Tensor:
        """Return a variable on one tile, with initial values unless `value` is None."""
        tensor = self.graph.add_variable(dtype, shape, name)
        self.graph.set_tile_mapping(tensor, tile)
        if value is not None:
            self.graph.set_initial_value(tensor, value)
        return tensor

    def vertex(self, codelet: type[Vertex], tile: int = 0, **fields: Tensor) -> None:
        self.graph.set_tile_mapping(self.graph.add_vertex(self.work, codelet, **fields), tile)

    def alone(self, codelet: type[Vertex], dtype: Any = FLOAT, value: Any = 1) -> Engine:
        """Run one vertex whose field x is a vector of four elements; return the engine."""
        self.vertex(codelet, x=self.variable("x", value, dtype))
        return self.run()

    def run(self, program: p.Program | None = None) -> Engine:
        """Run a program, by default the compute set; return the engine."""
        engine = Engine(self.graph, program or p.Execute(self.work))
        engine.load(self.device)
        engine.run()
        return engine

    def value(self, tensor: Tensor, program: p.Program | None = None) -> Any:
        """Return the value of a tensor after a run."""
        self.graph.create_host_read("value", tensor)
        return self.run(program).read_tensor("value")


# Races


@caught(BEFORE, errors.ComputeSetRaceError)
def two_write() -> None:
    """Two vertices of a compute set write one element."""
    bench = Bench()
    x, y = bench.variable("x"), bench.variable("y")
    for i in (0, 1):
        bench.vertex(Put, i, x=x[i], out=y[0])
    bench.run()


@caught(BEFORE, errors.ComputeSetRaceError)
def one_reads_what_another_writes() -> None:
    """A vertex reads its neighbour's element while the neighbour writes it."""
    bench = Bench()
    x = bench.variable("x")
    for i in range(3):
        bench.vertex(Put, i, x=x[i], out=x[i + 1])
    bench.run()


@caught(BEFORE, errors.ComputeSetRaceError)
def in_and_out_overlap() -> None:
    """A vertex gets the same element as an Input and as an Output."""
    bench = Bench()
    x = bench.variable("x")
    bench.vertex(Sum, x=x, out=x[0])
    bench.run()


# What was never written, or in the wrong order


@caught(DURING, errors.UninitialisedReadError)
def a_copy_is_missing() -> None:
    """The Copy that fetches the data is missing."""
    bench = Bench()
    x, y = bench.variable("x", None), bench.variable("y")
    bench.vertex(Sum, x=x, out=y[0])
    bench.run()


@caught(DURING, errors.UninitialisedReadError)
def copies_in_the_wrong_order() -> None:
    """Two Copies are in the wrong order, so the first reads unwritten data."""
    bench = Bench()
    x, y, z = (bench.variable(name, value) for name, value in (("x", 1), ("y", None), ("z", None)))
    bench.run(p.Sequence(p.Copy(y, z), p.Copy(x, y)))


@missed(
    "the variable had an older value, and the machine cannot know that you meant another. "
    "Compare with plain numpy. Or leave out initial values that the program should write: then "
    "the first read is an error."
)
def copies_in_the_wrong_order_over_old_values() -> None:
    """The same two Copies, but y already has an older value."""
    bench = Bench()
    x, y, z = (bench.variable(name, value) for name, value in (("x", 1), ("y", 7), ("z", None)))
    assert bench.value(z, p.Sequence(p.Copy(y, z), p.Copy(x, y))).tolist() == [7] * 4


@caught(DURING, errors.UninitialisedReadError)
def an_output_is_stored_in_one_branch_only() -> None:
    """A codelet stores its Output in only one branch of an `if`."""

    class Positive(Vertex):
        x: Input[FLOAT]
        out: Output[FLOAT]

        def compute(self) -> None:
            if self.x > 0:
                self.out = self.x

    bench = Bench()
    x, y, z = bench.variable("x", -1), bench.variable("y", None), bench.variable("z", None)
    bench.vertex(Positive, x=x[0], out=y[0])
    bench.run(p.Sequence(p.Execute(bench.work), p.Copy(y[:1], z[:1])))


# Where things lie


@caught(BEFORE, errors.InvalidTileMappingError)
def a_variable_is_on_no_tile() -> None:
    """A variable is not mapped to a tile."""
    bench = Bench()
    bench.run(p.Copy(bench.variable("x"), bench.graph.add_variable(FLOAT, (4,), "y")))


@caught(BEFORE, errors.InvalidTileMappingError)
def a_vertex_is_on_no_tile() -> None:
    """A vertex is not mapped to a tile."""
    bench = Bench()
    bench.graph.add_vertex(bench.work, Put, x=bench.variable("x")[0], out=bench.variable("y")[0])
    bench.run()


@caught(BEFORE, errors.GraphMemoryAllocationError)
def all_on_one_tile_and_too_large() -> None:
    """All data is mapped to tile 0, and does not fit there."""
    bench = Bench()
    bench.run(
        p.Copy(
            bench.variable("x", shape=(400_000,)),
            bench.variable("y", None, shape=(400_000,), tile=1),
        )
    )


@seen("balance")
def all_on_one_tile() -> Report:
    """All vertices are on tile 0, and the program fits."""
    bench = Bench()
    x, y = bench.variable("x", shape=(TILES, 1_000)), bench.variable("y", shape=(TILES,))
    for i in range(TILES):
        bench.vertex(Sum, x=x[i], out=y[i])
    return bench.run().report


@seen("rearrangement")
def far_from_the_data() -> Report:
    """Each vertex is on a different tile from the row that it reads."""
    bench = Bench()
    x, y = bench.variable("x", shape=(TILES, 1_000)), bench.variable("y", shape=(TILES,))
    for i in range(TILES):
        bench.graph.set_tile_mapping(x[i], i)
        bench.vertex(First, (i + 1) % TILES, x=x[i], out=y[i])
    return bench.run().report


@seen("pieces")
def columns_of_a_matrix_by_rows() -> Report:
    """A vertex reads a column of a matrix that is stored row by row on its tile."""
    bench = Bench()
    x, y = bench.variable("x", shape=(1_000, 12)), bench.variable("y", shape=(12,))
    for i in range(12):
        bench.vertex(Sum, x=x[:, i], out=y[i])
    return bench.run().report


@missed(
    "the model treats every edge as aligned. On the chip the edge is first copied to an aligned "
    "address, or loaded in smaller parts, and both take longer. Begin views of HALF at "
    "multiples of four elements."
)
def an_edge_that_begins_within_a_word() -> None:
    """An edge of HALF begins at an odd element, in the middle of a word."""

    class Double(Vertex):
        x: Input[Vector[HALF]]
        out: Output[Vector[HALF]]

        def compute(self) -> None:
            self.out = self.x * 2

    cycles = []
    for first in (0, 1):
        bench = Bench()
        x, y = bench.variable("x", 1, HALF, (256,)), bench.variable("y", None, HALF, (128,))
        bench.vertex(Double, x=x[first : first + 128], out=y)
        cycles.append(bench.run().report.total_cycles)
    assert cycles[0] == cycles[1]


# Codelets


@caught(DURING, errors.CodeletError)
def an_index_past_the_end() -> None:
    """A loop reads one element past the end of a field."""

    class Differences(Vertex):
        x: InOut[Vector[FLOAT]]

        def compute(self) -> None:
            for i in range(len(self.x)):
                self.x[i] = self.x[i + 1] - self.x[i]

    Bench().alone(Differences)


@missed(
    "Python counts a negative index from the end, and so does the kit. C++ on the chip would "
    "read the memory before the field."
)
def an_index_before_the_beginning() -> None:
    """A loop reads one element before the beginning of a field."""

    class Differences(Vertex):
        x: Input[Vector[FLOAT]]
        out: Output[Vector[FLOAT]]

        def compute(self) -> None:
            for i in range(len(self.x)):
                self.out[i] = self.x[i] - self.x[i - 1]

    bench = Bench()
    out = bench.variable("out", None)
    bench.vertex(Differences, x=bench.variable("x", [1, 2, 4, 8]), out=out)
    assert bench.value(out).tolist() == [-7, 1, 2, 4]


@caught(DURING, errors.CodeletError)
def an_output_is_added_to() -> None:
    """`+=` is used on an Output, whose first value is undefined."""

    class Count(Vertex):
        x: Output[Vector[FLOAT]]

        def compute(self) -> None:
            self.x += 1

    Bench().alone(Count)


@caught(DURING, errors.CodeletError)
def an_input_is_assigned_to() -> None:
    """A codelet assigns to an Input."""

    class Clear(Vertex):
        x: Input[Vector[FLOAT]]

        def compute(self) -> None:
            self.x = 0

    Bench().alone(Clear)


@caught(DURING, errors.CodeletError)
def a_name_that_is_no_field() -> None:
    """A codelet stores a value in an attribute that is not a field."""

    class Remember(Vertex):
        x: InOut[Vector[FLOAT]]

        def compute(self) -> None:
            self.last = self.x[0]

    Bench().alone(Remember)


@caught(BEFORE, errors.MissingPerfEstimateError)
def nobody_knows_what_it_costs() -> None:
    """A codelet calls a function that does not exist on the chip."""

    class Spectrum(Vertex):
        x: InOut[Vector[FLOAT]]

        def compute(self) -> None:
            self.x = np.fft.fft(self.x).real

    Bench().alone(Spectrum)


# Numbers


@missed(
    "the result is infinity by the rules of the type, as on the chip. Look for infinity in the "
    "values, or let the machine stop, as in the next row."
)
def half_overflows() -> None:
    """A product in HALF is larger than 65,504."""
    bench = Bench()
    x = bench.variable("x", 60_000, HALF)
    bench.vertex(Twice, x=x)
    assert np.isinf(bench.value(x)).all()


@caught(DURING, errors.FloatingPointTrapError)
def half_overflows_and_the_machine_looks() -> None:
    """The same product, after `set_floating_point_behaviour`."""
    bench = Bench()
    bench.vertex(Twice, x=bench.variable("x", 60_000, HALF))
    program = p.Sequence()
    set_floating_point_behaviour(bench.graph, program, FloatingPointBehaviour())
    bench.run(p.Sequence(program, p.Execute(bench.work)))


@missed("integers wrap around, as on the chip and in numpy. Count in a wider type, or in FLOAT.")
def a_whole_number_wraps() -> None:
    """A sum of INT is larger than 2,147,483,647."""

    class Double(Vertex):
        x: InOut[Vector[INT]]

        def compute(self) -> None:
            self.x = self.x * 2

    bench = Bench()
    x = bench.variable("x", 2**30, INT)
    bench.vertex(Double, x=x)
    assert bench.value(x).tolist() == [-(2**31)] * 4


# Programs and the host


@caught(BEFORE, errors.DeviceValueError)
def a_python_if_on_a_tensor() -> None:
    """A Python `if` or `while` needs a tensor's value while the program is being written."""
    left = Bench().variable("left", 3)
    while left[0] != 0:
        pass


@missed(
    "a loop may run for any length of time, here and on the chip. Ctrl-C stops it and keeps the "
    "report up to there. In an exercise, `check` stops it after eight seconds."
)
def a_predicate_that_nobody_changes() -> None:
    """Nothing in the body of a `RepeatWhileTrue` changes its predicate."""
    bench = Bench()
    go_on = bench.variable("go on", True, BOOL, (1,))
    begun = time.monotonic()
    threading.Timer(0.3, interrupt_main).start()
    try:
        bench.run(p.RepeatWhileTrue(p.Sequence(), go_on[0], p.Sequence()))
    except KeyboardInterrupt:
        assert time.monotonic() - begun > 0.25
    else:
        raise AssertionError("it ended by itself")


@missed(
    "the work is the same, so nothing is wrong except the length. The program tree has a "
    "hundred rows, and every tile has a hundred calls in its code, which the model does not "
    "count."
)
def a_loop_unrolled_in_python() -> None:
    """A Python `for` adds a superstep a hundred times, instead of a Repeat."""
    bench = Bench()
    bench.vertex(Sum, x=bench.variable("x"), out=bench.variable("y")[0])
    unrolled = bench.run(p.Sequence(*(p.Execute(bench.work) for _ in range(100)))).report
    repeated = bench.run(p.Repeat(100, p.Execute(bench.work))).report
    assert unrolled.total_cycles == repeated.total_cycles
    assert [len(list(report.profile.programs[0].leaves())) for report in (unrolled, repeated)] == [
        100,
        1,
    ]


@caught(BEFORE, errors.ControlProgramError)
def sizes_of_a_copy_differ() -> None:
    """The two sides of a Copy have different sizes."""
    bench = Bench()
    bench.run(p.Copy(bench.variable("x")[:3], bench.variable("y")))


@caught(DURING, errors.StreamConnectionError)
def a_stream_is_not_connected() -> None:
    """A stream is not connected to an array."""
    bench = Bench()
    stream = bench.graph.add_host_to_device_fifo("pixels", FLOAT, 4)
    bench.run(p.Copy(stream, bench.variable("x")))


@seen("proportions")
def the_host_cannot_keep_up() -> Report:
    """All data is sent from the host again in every iteration."""
    bench = Bench()
    x, y = bench.variable("x", shape=(TILES, 1_000)), bench.variable("y", shape=(TILES,))
    stream = bench.graph.add_host_to_device_fifo("pixels", FLOAT, x.num_elements)
    for i in range(TILES):
        bench.graph.set_tile_mapping(x[i], i)
        bench.vertex(Sum, i, x=x[i], out=y[i])
    engine = Engine(bench.graph, p.Repeat(50, p.Sequence(p.Copy(stream, x), p.Execute(bench.work))))
    engine.load(bench.device)
    engine.connect_stream("pixels", np.zeros(x.num_elements, np.float32))
    engine.run()
    return engine.report


@missed(
    "an Engine is a compiled program, so it has the graph as it was at that time. Make a new "
    "Engine."
)
def the_graph_is_changed_too_late() -> None:
    """The graph is changed after the Engine was made from it."""
    bench = Bench()
    x, y = bench.variable("x", 1), bench.variable("y", None)
    bench.graph.create_host_read("y", y)
    engine = Engine(bench.graph, p.Copy(x, y))
    bench.graph.set_initial_value(x, 7)
    engine.load(bench.device)
    engine.run()
    assert engine.read_tensor("y").tolist() == [1] * 4
