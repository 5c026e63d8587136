"""Every error, word for word: what was tried, where, and what to do next.

A text that reads badly here reads badly at night. So the whole of it is compared, and changing one means reading it again.
"""

from __future__ import annotations

import itertools
import pickle
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from lines import without_line

from ipu_teach import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    UNSIGNED_INT,
    Device,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    IPUTeachError,
    Output,
    SupervisorVertex,
    Tensor,
    Vector,
    Vertex,
    concat,
)
from ipu_teach.errors import (
    CodeletError,
    ComputeSetRaceError,
    ControlProgramError,
    DeviceValueError,
    GraphConnectionError,
    GraphMemoryAllocationError,
    GraphObjectCreationError,
    InvalidMachineModelError,
    InvalidOptionError,
    InvalidTileMappingError,
    MissingPerfEstimateError,
    PoplarIndexError,
    PoplarTypeError,
    StreamConnectionError,
    TensorCreationError,
    TensorIOStateError,
    UnknownFieldError,
    UnknownVertexTypeError,
    VertexDefinitionError,
    counted,
    did_you_mean,
    shown,
)
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence, Switch


class Scale(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    factor: FLOAT = 2

    def compute(self) -> None:
        self.out = self.x * self.factor


class Dot(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


class Rows(Vertex):
    rows: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        for i, row in enumerate(self.rows):
            self.out[i] = row


class Bump(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x = self.x + 1


class Biased(Vertex):
    out: Output[FLOAT]
    bias: FLOAT

    def compute(self) -> None:
        self.out = self.bias


class Idle(Vertex):
    x: Input[FLOAT]


class IdleSupervisor(SupervisorVertex):
    x: Input[FLOAT]


class AddsToOutput(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        for value in self.x:
            self.out += value  # mark: adds to output


class AddsToVector(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out += self.x  # mark: adds to vector


class AddsToElement(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out[0] = 1
        self.out[1] += self.x[1]  # mark: adds to element


class WritesInput(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.x = 0  # mark: assigns to input


class WritesInputElement(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.x[0] = 0  # mark: writes input element


class WritesUndeclared(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.outt = self.x  # mark: assigns to undeclared


class ReadsUndeclared(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.y  # mark: reads undeclared


class Misfits(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.x[1:]  # mark: misfits


class MisfitsRagged(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = ((1,), (2, 3))  # mark: misfits ragged


class MisfitsText(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = "many"  # mark: misfits text


class WritesInputLate(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def cycles(self, target: Any) -> int:
        return 1

    def compute(self) -> None:
        if float(self.x[0]) > 0:
            self.x = 0  # mark: assigns late


class Raises(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.x[99]  # mark: raises


class RaisesLate(Vertex):
    """Depends on its data, so that it fails only when it runs."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def cycles(self, target: Any) -> int:
        return 1

    def compute(self) -> None:
        self.out = [1, 2, 3][int(self.x[0])]  # mark: raises late


class Untraced(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = float(f"{self.x[0]}")  # mark: untraced


def line(mark: str) -> int:
    """The number of the line in this file that ends with that mark."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# mark: {mark}"))


class World:
    """A graph of three tiles with a bit of everything, and another graph beside it."""

    def __init__(self) -> None:
        self.device: Any = IPUModel(tiles_per_ipu=3, memory_bytes_per_tile=4096).create_device()
        self.graph: Any = Graph(self.device)
        self.x = self.put(self.graph.add_variable(FLOAT, (4, 3), "x"), 0)
        self.y = self.put(self.graph.add_variable(FLOAT, (4, 3), "y"), 1)
        self.v = self.put(self.graph.add_variable(FLOAT, 3, "v"), 2)
        self.n = self.put(self.graph.add_variable(INT, 3, "n"), 2)
        self.s = self.put(self.graph.add_variable(FLOAT, (), "s"), 2)
        self.k = self.put(self.graph.add_constant(FLOAT, 3, [1, 2, 3], "k"), 2)
        self.cs: Any = self.graph.add_compute_set("cs")
        self.into: Any = self.graph.add_host_to_device_fifo("into", FLOAT, 3)
        self.out: Any = self.graph.add_device_to_host_fifo("out", FLOAT, 3)
        self.graph.create_host_read("read", self.x)
        self.graph.create_host_write("write", self.x)
        self.alien: Any = Graph(self.device)
        self.alien_tensor = self.alien.add_variable(FLOAT, 3, "alien")
        self.alien_set: Any = self.alien.add_compute_set("alien set")
        self.alien_vertex = self.alien.add_vertex(self.alien_set, Bump, x=self.alien_tensor)
        self.alien_range = self.alien.add_vertices(
            self.alien_set, Bump, 0, x=self.alien_tensor.reshape((1, 3))
        )
        self.alien_graph: Any = Graph(self.device)
        self.alien_stream = self.alien.add_host_to_device_fifo("into", FLOAT, 3)

    def put(self, what: Any, tile: int) -> Any:
        self.graph.set_tile_mapping(what, tile)
        return what

    def add(self, codelet: Any, tile: int = 0, **fields: Any) -> Any:
        """A vertex on that tile."""
        return self.put(self.graph.add_vertex(self.cs, codelet, **fields), tile)

    def big(self, length: int, tile: int, dtype: Any = FLOAT) -> Any:
        """One more variable, on that tile."""
        return self.put(self.graph.add_variable(dtype, length, f"more on {tile}"), tile)

    def wide(self, codelet: Any) -> Engine:
        """A vertex that reads from two tiles more than one tile holds."""
        self.add(codelet, x=concat([self.big(1000, 0), self.big(1000, 1)]))
        return self.compile()

    def many(self, codelet: Any, tiles: Any, **fields: Any) -> Any:
        return self.graph.add_vertices(self.cs, codelet, tiles, **fields)

    def compile(self, *programs: Program, **options: Any) -> Engine:
        return Engine(self.graph, list(programs) or Execute(self.cs), **options)

    def engine(self, *programs: Program) -> Engine:
        engine = self.compile(*programs)
        engine.load(self.device)
        return engine

    def fails(self, codelet: Any) -> Engine:
        """An engine for one vertex of a codelet with the fields x and out; out is a single element if declared so."""
        self.add(codelet, x=self.v, out=self.x[0] if codelet.out.depth else self.s)
        return self.compile()


def fed(w: World, source: Any, runs: int = 1) -> None:
    engine = w.engine(Copy(w.into, w.v))
    engine.connect_stream("into", source)
    for _ in range(runs):
        engine.run()


def drained(w: World, sink: Any) -> None:
    engine = w.engine(Copy(w.v, w.out))
    engine.connect_stream("out", sink)
    engine.run()


def frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


def other_clock() -> Any:
    return IPUModel(
        tiles_per_ipu=3, memory_bytes_per_tile=4096, tile_clock_frequency=1e9
    ).create_device()


def single_tile(tile: int) -> None:
    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    graph.set_tile_mapping(graph.add_variable(FLOAT, 3, "v"), tile)


def nested(depth: int, body: Any) -> Any:
    for _ in range(depth):
        body = Repeat(1, body)
    return body


def within_itself() -> Any:
    sequence = Sequence()
    return sequence.add(Repeat(2, sequence))


class Foreign(Program):
    """A program of no kind that the engine knows."""


def check_text(error: IPUTeachError) -> None:
    """What every error has: plain sentences, the next step, and nothing that changes from run to run."""
    text = str(error)
    assert error.tried.endswith(".") and error.next_step.endswith("."), text
    assert "!" not in text and " at 0x" not in text and "\n\n" not in text, text
    assert len(text) < 1200 and "__main__" not in text, text
    lines = [error.tried]
    lines += [f"  where: {error.where}"] if error.where else []
    lines += [f"  line:  {error.line}"] if error.line else []
    assert text.split("\n") == [*lines, f"  next:  {error.next_step}"], text


# --- every error ------------------------------------------------------------------------------------------------------

Case = tuple[str, Callable[[World], Any], type[IPUTeachError], str]

# A backslash continues a line; <mark> is the number of the line that ends with that mark.
# fmt: off
DTYPES_AND_HOST_VALUES: list[Case] = [
    ("np dtype", lambda w: w.graph.add_variable(np.float32, 3, "a"), PoplarTypeError, r"""
        The variable 'a' was given the element type numpy.float32.
          next:  use FLOAT."""),
    ("np half", lambda w: w.graph.add_variable(np.dtype("f2"), 3, "a"), PoplarTypeError, r"""
        The variable 'a' was given the element type dtype('float16').
          next:  use HALF."""),
    ("float64", lambda w: w.graph.add_variable(np.float64, 3, "a"), PoplarTypeError, r"""
        The variable 'a' was given the element type numpy.float64.
          next:  there is no double precision on a tile; use FLOAT."""),
    ("python float", lambda w: w.graph.add_constant(float, 3, 0, "a"), PoplarTypeError, r"""
        The constant 'a' was given the element type float.
          next:  there is no double precision on a tile; use FLOAT."""),
    ("python int", lambda w: w.graph.add_variable(int, 3, "a"), PoplarTypeError, r"""
        The variable 'a' was given the element type int.
          next:  use INT."""),
    ("name of a dtype", lambda w: w.graph.add_variable("float", 3, "a"), PoplarTypeError, r"""
        The variable 'a' was given the element type 'float'.
          next:  write FLOAT without quotes; it is imported from ipu_teach."""),
    ("no dtype", lambda w: w.graph.add_host_to_device_fifo("a", None, 3), PoplarTypeError, r"""
        The stream 'a' was given the element type None.
          next:  use one of FLOAT, HALF, BOOL, CHAR, SIGNED_CHAR, UNSIGNED_CHAR, SHORT, UNSIGNED_SHORT, INT, \
                 UNSIGNED_INT, LONGLONG, UNSIGNED_LONGLONG."""),
    ("dtype called", lambda w: FLOAT(3), PoplarTypeError, r"""
        FLOAT is a dtype and is never instantiated.
          next:  pass the class itself, as in graph.add_variable(FLOAT, (4,)); for a host value use numpy."""),
    ("text", lambda w: w.graph.set_initial_value(w.v, "three"), TensorCreationError, r"""
        'v': 'three' is not a number.
          next:  give numbers that FLOAT holds."""),
    ("objects", lambda w: w.graph.set_initial_value(w.v, [1, None, 3]), TensorCreationError, r"""
        'v': [1, None, 3] holds objects such as NoneType, not numbers.
          next:  give numbers that FLOAT holds."""),
    ("complex", lambda w: w.graph.set_initial_value(w.v, np.ones(3) * 1j), TensorCreationError, r"""
        'v': array([0.+1.j, 0.+1.j, 0.+1.j]) holds values of type complex128, not numbers.
          next:  give numbers that FLOAT holds."""),
    ("ragged", lambda w: w.graph.set_initial_value(w.v, [[1], [2, 3]]), TensorCreationError, r"""
        'v': [[1], [2, 3]] does not form an array.
          next:  give one number, or rows of equal length."""),
    ("not whole", lambda w: w.graph.set_initial_value(w.n, [1, 2.5, 3]), TensorCreationError, r"""
        'n': INT holds whole numbers from -2,147,483,648 to 2,147,483,647; element [1] is 2.5.
          next:  choose another dtype, or round and clip the values first."""),
    ("nan", lambda w: w.graph.set_initial_value(w.n, float("nan")), TensorCreationError, r"""
        'n': INT holds whole numbers from -2,147,483,648 to 2,147,483,647; the value is nan.
          next:  choose another dtype, or round and clip the values first."""),
    ("too large", lambda w: w.graph.add_constant(CHAR, (2, 2), [[1, 2], [3, 400]], "c"), TensorCreationError, r"""
        The constant 'c': CHAR holds whole numbers from -128 to 127; element [1, 1] is 400.
          next:  choose another dtype, or round and clip the values first."""),
    ("negative", lambda w: w.graph.add_constant(UNSIGNED_INT, 1, -1, "c"), TensorCreationError, r"""
        The constant 'c': UNSIGNED_INT holds whole numbers from 0 to 4,294,967,295; the value is -1.
          next:  choose another dtype, or round and clip the values first."""),
    ("beyond half", lambda w: w.graph.add_constant(HALF, 1, 70_000, "c"), TensorCreationError, r"""
        The constant 'c': HALF holds numbers up to 65,504; the value is 70000.
          next:  choose another dtype, or round and clip the values first."""),
    ("beyond float", lambda w: w.graph.set_initial_value(w.s, 1e300), TensorCreationError, r"""
        's': FLOAT holds numbers up to 3.40282e+38; the value is 1e+300.
          next:  choose another dtype, or round and clip the values first."""),
    ("no bool", lambda w: w.graph.add_constant(BOOL, 3, [0, 1, 2], "c"), TensorCreationError, r"""
        The constant 'c': BOOL holds True and False, or 1 and 0; element [2] is 2.
          next:  choose another dtype, or round and clip the values first."""),
    ("a tensor as values", lambda w: w.graph.set_initial_value(w.v, w.k), PoplarTypeError, r"""
        A tensor was used as if it held numbers, but it only names elements in the machine's memory.
          where: Tensor('k', FLOAT, shape (3,))
          next:  to see its values: graph.create_host_read(handle, tensor), then engine.read_tensor(handle) after a run."""),
    ("assigning to a tensor", lambda w: w.v.__setitem__(0, 1), PoplarTypeError, r"""
        A value was assigned to elements of a tensor, but a graph only describes what will run.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give values with graph.set_initial_value(tensor, values), or move them with program.Copy."""),
    ("too few values", lambda w: w.graph.set_initial_value(w.v, [1, 2]), TensorCreationError, r"""
        'v' has 3 elements, but was given 2 values.
          next:  give one number for all of them, or one for each."""),
    ("too many values", lambda w: w.graph.add_constant(FLOAT, (2, 2), range(5), "c"), TensorCreationError, r"""
        The constant 'c' has 4 elements, but was given 5 values.
          next:  give one number for all of them, or one for each."""),
    ("values of a view", lambda w: w.graph.set_initial_value(w.x[0], [1, 2]), TensorCreationError, r"""
        a view of 'x' has 3 elements, but was given 2 values.
          next:  give one number for all of them, or one for each."""),
]

VARIABLES: list[Case] = [
    ("negative shape", lambda w: w.graph.add_variable(FLOAT, (3, -1), "a"), TensorCreationError, r"""
        The variable 'a' was given the shape (3, -1), which is not valid.
          next:  a shape is a tuple of at most 32 whole numbers, none negative, as in (26, 64)."""),
    ("nan shape", lambda w: w.graph.add_variable(FLOAT, (3, float("nan")), "a"), TensorCreationError, r"""
        The variable 'a' was given the shape (3, nan), which is not valid.
          next:  a shape is a tuple of at most 32 whole numbers, none negative, as in (26, 64)."""),
    ("float shape", lambda w: w.graph.add_variable(FLOAT, 2.0, "a"), TensorCreationError, r"""
        The variable 'a' was given the shape 2.0, which is not valid.
          next:  a shape is a tuple of at most 32 whole numbers, none negative, as in (26, 64)."""),
    ("no shape", lambda w: w.graph.add_variable(FLOAT, None), TensorCreationError, r"""
        The variable 'variable6' was given the shape None, which is not valid.
          next:  a shape is a tuple of at most 32 whole numbers, none negative, as in (26, 64)."""),
    ("text shape", lambda w: w.graph.add_variable(FLOAT, "", "a"), TensorCreationError, r"""
        The variable 'a' was given the shape '', which is not valid.
          next:  a shape is a tuple of at most 32 whole numbers, none negative, as in (26, 64)."""),
    ("bool shape", lambda w: w.graph.add_variable(FLOAT, (True, 2), "a"), TensorCreationError, r"""
        The variable 'a' was given the shape (True, 2), which is not valid.
          next:  a shape is a tuple of at most 32 whole numbers, none negative, as in (26, 64)."""),
    ("generator shape", lambda w: w.graph.add_variable(FLOAT, {2, 3}, "a"), TensorCreationError, r"""
        The variable 'a' was given the shape {2, 3}, which is not valid.
          next:  a shape is a tuple of at most 32 whole numbers, none negative, as in (26, 64)."""),
    ("two-dimensional shape", lambda w: w.graph.add_variable(FLOAT, np.ones((2, 2), int), "a"), TensorCreationError, r"""
        The variable 'a' was given the shape array([[1, 1], [1, 1]]), which is not valid.
          next:  a shape is a tuple of at most 32 whole numbers, none negative, as in (26, 64)."""),
    ("many dimensions", lambda w: w.graph.add_variable(FLOAT, (1,) * 33, "a"), TensorCreationError, r"""
        The variable 'a' was given the shape (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, \
        1, …, which is not valid.
          next:  a shape is a tuple of at most 32 whole numbers, none negative, as in (26, 64)."""),
    ("huge", lambda w: w.graph.add_variable(FLOAT, (10**9, 10**9), "a"), TensorCreationError, r"""
        The variable 'a' of shape (1000000000, 1000000000) is too large.
          where: all tiles of the target together hold 12,288 bytes; a graph may describe 281,474,976,710,656
          next:  check the shape: its numbers are lengths, in elements."""),
    ("huge constant", lambda w: w.graph.add_constant(FLOAT, (10**9, 10**9), 0, "a"), TensorCreationError, r"""
        The constant 'a' of shape (1000000000, 1000000000) is too large.
          where: all tiles of the target together hold 12,288 bytes; a graph may describe 281,474,976,710,656
          next:  check the shape: its numbers are lengths, in elements."""),
    ("huge and empty", lambda w: w.graph.add_variable(FLOAT, (10**18, 0), "a"), TensorCreationError, r"""
        The variable 'a' of shape (1000000000000000000, 0) is too large.
          where: all tiles of the target together hold 12,288 bytes; a graph may describe 281,474,976,710,656
          next:  check the shape: its numbers are lengths, in elements."""),
    ("initial value of a constant", lambda w: w.graph.set_initial_value(w.k, 0), GraphObjectCreationError, r"""
        set_initial_value() would write to the constant 'k'.
          where: Tensor('k', FLOAT, shape (3,))
          next:  create the tensor with graph.add_variable, or give its values in graph.add_constant."""),
    ("initial value of an edge", lambda w: w.graph.set_initial_value(w.add(Scale, x=w.v)["x"], 0), GraphConnectionError, r"""
        Scale.x is an edge and has no value of its own.
          where: field 'x' of vertex 0 (Scale) of compute set 'cs'
          next:  set the initial value of the tensor that is connected to it."""),
    ("initial value of nothing", lambda w: w.graph.set_initial_value(3, 0), GraphObjectCreationError, r"""
        set_initial_value() was given 3, which is neither a tensor nor a field.
          next:  give a tensor, or the state of a vertex: vertex["name"]."""),
    ("model for a target", lambda w: Graph(IPUModel(tiles_per_ipu=3)), GraphObjectCreationError, r"""
        Graph() was given IPUModel('ipu2', tiles_per_ipu=3, num_ipus=1), which is not a target.
          next:  give it a target, as in Graph(IPUModel("ipu2").create_device().target)."""),
    ("no target", lambda w: Graph(13), GraphObjectCreationError, r"""
        Graph() was given 13, which is not a target.
          next:  give it a target, as in Graph(IPUModel("ipu2").create_device().target)."""),
    ("no device", lambda w: Device("ipu2"), InvalidMachineModelError, r"""
        Device() was given 'ipu2', which is not a target.
          next:  make a device with IPUModel("ipu2").create_device()."""),
]

VIEWS: list[Case] = [
    ("index", lambda w: w.x[4], PoplarIndexError, r"""
        Index 4 is outside dimension 0, which has 4 elements.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use 0 to 3 in this place; write : here if you mean another dimension."""),
    ("negative index", lambda w: w.x[0, -4], PoplarIndexError, r"""
        Index -4 is outside dimension 1, which has 3 elements.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use 0 to 2 in this place; write : here if you mean another dimension."""),
    ("index of a list", lambda w: concat([w.v, w.k])[6], PoplarIndexError, r"""
        Index 6 is outside dimension 0, which has 6 elements.
          where: Tensor(a view of 'v' and others, FLOAT, shape (6,))
          next:  use 0 to 5."""),
    ("index of nothing", lambda w: w.x[:0][0], PoplarIndexError, r"""
        Index 0 is outside dimension 0, which has 0 elements.
          where: Tensor(empty tensor, FLOAT, shape (0, 3))
          next:  the dimension is empty."""),
    ("index of a scalar", lambda w: w.s[0], PoplarIndexError, r"""
        The index 0 does not fit a tensor of shape ().
          where: Tensor('s', FLOAT, shape ())
          next:  use the tensor without an index: it is a single element."""),
    ("too many indices", lambda w: w.x[0, 0, 0], PoplarIndexError, r"""
        The index (0, 0, 0) does not fit a tensor of shape (4, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  give at most 2 integers or slices, and at most one `...`."""),
    ("two ellipses", lambda w: w.x[..., ...], PoplarIndexError, r"""
        The index (Ellipsis, Ellipsis) does not fit a tensor of shape (4, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  give at most 2 integers or slices, and at most one `...`."""),
    ("index by a list of floats", lambda w: w.x[[0.0, 1.0]], PoplarIndexError, r"""
        A tensor cannot be indexed with [0.0, 1.0].
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use integers, slices, `...` or arrays of integers or bools, all known when the graph is built."""),
    ("index by an array beyond the end", lambda w: w.x[:, np.array([0, 3])], PoplarIndexError, r"""
        Index 3 is outside dimension 1, which has 3 elements.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use 0 to 2 in this place; write : here if you mean another dimension."""),
    ("index by a short mask", lambda w: w.v[np.array([True, False])], PoplarIndexError, r"""
        The index array([ True, False]) does not fit a tensor of shape (3,).
          where: Tensor('v', FLOAT, shape (3,))
          next:  give arrays of indices whose shapes broadcast, or a bool array that has the length of the indexed dimension."""),
    ("index by a name", lambda w: w.x["row"], PoplarIndexError, r"""
        A tensor cannot be indexed with 'row'.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use integers, slices, `...` or arrays of integers or bools, all known when the graph is built."""),
    ("index by None", lambda w: w.x[None], PoplarIndexError, r"""
        A tensor cannot be indexed with None.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use integers, slices, `...` or arrays of integers or bools, all known when the graph is built."""),
    ("index by a float", lambda w: w.v[1.0], PoplarIndexError, r"""
        A tensor cannot be indexed with 1.0.
          where: Tensor('v', FLOAT, shape (3,))
          next:  use integers, slices, `...` or arrays of integers or bools, all known when the graph is built."""),
    ("index by a bool", lambda w: w.v[True], PoplarIndexError, r"""
        A tensor cannot be indexed with True.
          where: Tensor('v', FLOAT, shape (3,))
          next:  use integers, slices, `...` or arrays of integers or bools, all known when the graph is built."""),
    ("slice by floats", lambda w: w.v[0.0:1.5], PoplarIndexError, r"""
        The slice 0.0:1.5 is not valid.
          where: Tensor('v', FLOAT, shape (3,))
          next:  use whole numbers from 0 to 3, and a step that is not 0."""),
    ("slice step", lambda w: w.v[::0], PoplarIndexError, r"""
        The slice ::0 is not valid.
          where: Tensor('v', FLOAT, shape (3,))
          next:  use whole numbers from 0 to 3, and a step that is not 0."""),
    ("slice step float", lambda w: w.v[0:2:0.5], PoplarIndexError, r"""
        The slice 0:2:0.5 is not valid.
          where: Tensor('v', FLOAT, shape (3,))
          next:  use whole numbers from 0 to 3, and a step that is not 0."""),
    ("slice of a list", lambda w: concat([w.v, w.k])["a":], PoplarIndexError, r"""
        The slice 'a': is not valid.
          where: Tensor(a view of 'v' and others, FLOAT, shape (6,))
          next:  use whole numbers from 0 to 6, and a step that is not 0."""),
    ("a condition", lambda w: bool(w.v), DeviceValueError, r"""
        A tensor was used as if it were a number, in a condition: if, while, and, or, not, bool(). It is a name for memory on the device, and has no value while the program is written.
          where: Tensor('v', FLOAT, shape (3,))
          next:  let the device read it: If(tensor, …) and RepeatWhileTrue(condition, tensor, body) accept a tensor as the condition."""),
    ("compared", lambda w: w.s == 0, DeviceValueError, r"""
        A tensor was used as if it were a number, in tensor == 0. It is a name for memory on the device, and has no value while the program is written.
          where: Tensor('s', FLOAT, shape ())
          next:  let the device compare: popops.eq(graph, a, b, program) gives a tensor for If. Or to see its value: graph.create_host_read(handle, tensor), then engine.read_tensor(handle) after a run."""),
    ("calculated with", lambda w: np.float32(2) * w.v, DeviceValueError, r"""
        A tensor was used as if it were a number, in np.float32(2.0) * tensor. It is a name for memory on the device, and has no value while the program is written.
          where: Tensor('v', FLOAT, shape (3,))
          next:  let the device do it: popops.mul(graph, a, b, program) returns a tensor."""),
    ("gone through", lambda w: list(w.x), DeviceValueError, r"""
        A tensor was used as if it were a list, in a for, in, list(), or a, b = tensor. It is a name for memory on the device, and has no value while the program is written.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  index the tensor: for i in range(len(tensor)): tensor[i]. Each tensor[i] is a view, and has no value either."""),
    ("slice()", lambda w: w.x.slice(2, 5), PoplarIndexError, r"""
        slice(2, 5) does not fit dimension 0, which has 4 elements.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use 0 <= begin <= end <= 4."""),
    ("slice() backwards", lambda w: w.x.slice(2, 1, 1), PoplarIndexError, r"""
        slice(2, 1) does not fit dimension 1, which has 3 elements.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use 0 <= begin <= end <= 3."""),
    ("slice() by text", lambda w: w.x.slice("a", "b"), PoplarIndexError, r"""
        slice('a', 'b') does not fit dimension 0, which has 4 elements.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use 0 <= begin <= end <= 4."""),
    ("slice() dimension", lambda w: w.x.slice(0, 1, 2), PoplarIndexError, r"""
        There is no dimension 2 in a tensor of shape (4, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use 0 to 1."""),
    ("slice() of a scalar", lambda w: w.s.slice(0, 1), PoplarIndexError, r"""
        There is no dimension 0 in a tensor of shape ().
          where: Tensor('s', FLOAT, shape ())
          next:  a single element has no dimensions."""),
    ("dim", lambda w: w.x.dim("rows"), PoplarIndexError, r"""
        There is no dimension 'rows' in a tensor of shape (4, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use 0 to 1."""),
    ("length of a scalar", lambda w: len(w.s), PoplarIndexError, r"""
        A tensor of a single element has no length.
          where: Tensor('s', FLOAT, shape ())
          next:  give it a dimension: tensor.reshape(1)."""),
    ("reshape", lambda w: w.x.reshape((5, 3)), TensorCreationError, r"""
        A tensor of shape (4, 3) has 12 elements and cannot take the shape (5, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  give whole numbers, none negative, whose product is the number of elements."""),
    ("reshape to minus one", lambda w: w.x.reshape((-1, 3)), TensorCreationError, r"""
        A tensor of shape (4, 3) has 12 elements and cannot take the shape (-1, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  write the size that -1 stands for in numpy: reshape((4, 3))."""),
    ("reshape to floats", lambda w: w.x.reshape((4.0, 3.0)), TensorCreationError, r"""
        A tensor of shape (4, 3) has 12 elements and cannot take the shape (4.0, 3.0).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  give whole numbers, none negative, whose product is the number of elements."""),
    ("flatten", lambda w: w.x.flatten(1, 3), PoplarIndexError, r"""
        flatten(1, 3) does not fit shape (4, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use 0 <= dim_begin <= dim_end <= 2."""),
    ("flatten backwards", lambda w: w.x.flatten(2, 1), PoplarIndexError, r"""
        flatten(2, 1) does not fit shape (4, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  use 0 <= dim_begin <= dim_end <= 2."""),
    ("dim_shuffle", lambda w: w.x.dim_shuffle((0, 0)), PoplarIndexError, r"""
        dim_shuffle((0, 0)) is not an order of the 2 dimensions of shape (4, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  name each of [0, 1] once."""),
    ("dim_shuffle by floats", lambda w: w.x.dim_shuffle([1.0, 0.0]), PoplarIndexError, r"""
        dim_shuffle([1.0, 0.0]) is not an order of the 2 dimensions of shape (4, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  name each of [0, 1] once."""),
    ("transpose", lambda w: w.v.T, PoplarIndexError, r"""
        transpose() is for matrices, but this tensor has shape (3,).
          where: Tensor('v', FLOAT, shape (3,))
          next:  use dim_shuffle for other ranks."""),
    ("concat nothing", lambda w: concat([]), GraphObjectCreationError, r"""
        concat() was given [], which is not a list of tensors.
          next:  give a list of tensors, as in concat([a, b])."""),
    ("concat one tensor", lambda w: concat(w.v), GraphObjectCreationError, r"""
        concat() was given Tensor('v', FLOAT, shape (3,)), which is not a list of tensors.
          next:  give a list of tensors, as in concat([a, b])."""),
    ("concat other things", lambda w: concat([w.v, [1, 2, 3]]), GraphObjectCreationError, r"""
        concat() was given [Tensor('v', FLOAT, shape (3,)), [1, 2, 3]], which is not a list of tensors.
          next:  give a list of tensors, as in concat([a, b])."""),
    ("concat dtypes", lambda w: concat([w.v, w.n]), PoplarTypeError, r"""
        concat() was given tensors of FLOAT and of INT.
          where: Tensor('v', FLOAT, shape (3,)) and Tensor('n', INT, shape (3,))
          next:  convert one of them with popops.cast: all need the same dtype."""),
    ("concat shapes", lambda w: concat([w.x, w.x.T]), TensorCreationError, r"""
        concat() along dimension 0 joins shapes (4, 3) and (3, 4), which differ in another dimension.
          where: Tensor('x', FLOAT, shape (4, 3)) and Tensor('x', FLOAT, shape (3, 4))
          next:  make the lengths in all other dimensions equal."""),
    ("concat dimension", lambda w: concat([w.v, w.v], 1), PoplarIndexError, r"""
        There is no dimension 1 in a tensor of shape (3,).
          where: Tensor('v', FLOAT, shape (3,))
          next:  there is only number 0."""),
    ("concat scalars", lambda w: concat([w.s, w.s]), PoplarIndexError, r"""
        There is no dimension 0 in a tensor of shape ().
          where: Tensor('s', FLOAT, shape ())
          next:  a single element has no dimensions."""),
    ("concat graphs", lambda w: concat([w.v, w.alien_tensor]), GraphObjectCreationError, r"""
        concat() was given tensors of two graphs.
          where: Tensor('v', FLOAT, shape (3,)) and Tensor('alien', FLOAT, shape (3,))
          next:  use one graph throughout."""),
    ("a view of too many pieces",
     lambda w: w.put(w.graph.add_variable(FLOAT, (10**5, 10**5), "a")[::2, ::2], 0),
     TensorCreationError, r"""
        A view of 2,500,000,000 separate pieces is too large to work with.
          next:  use a smaller tensor: at most 268,435,456 pieces."""),
]

TILE_MAPPING: list[Case] = [
    ("tile too large", lambda w: w.graph.set_tile_mapping(w.v, 3), InvalidTileMappingError, r"""
        There is no tile 3.
          where: Tensor('v', FLOAT, shape (3,))
          next:  use a tile from 0 to 2."""),
    ("tile negative", lambda w: w.graph.set_tile_mapping(w.x[1], -1), InvalidTileMappingError, r"""
        There is no tile -1.
          where: Tensor(a view of 'x', FLOAT, shape (3,))
          next:  use a tile from 0 to 2."""),
    ("tile no int", lambda w: w.graph.set_tile_mapping(w.v, 1.0), InvalidTileMappingError, r"""
        1.0 is not a tile number.
          where: Tensor('v', FLOAT, shape (3,))
          next:  use a tile from 0 to 2."""),
    ("tile a bool", lambda w: w.graph.set_tile_mapping(w.v, True), InvalidTileMappingError, r"""
        True is not a tile number.
          where: Tensor('v', FLOAT, shape (3,))
          next:  use a tile from 0 to 2."""),
    ("tile a name", lambda w: w.graph.set_tile_mapping(w.v, "first"), InvalidTileMappingError, r"""
        'v' was mapped to 'first', which is not a tile mapping.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give a tile number, or for each tile a list of (begin, end) intervals."""),
    ("tile None", lambda w: w.graph.set_tile_mapping(w.v, None), InvalidTileMappingError, r"""
        'v' was mapped to None, which is not a tile mapping.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give a tile number, or for each tile a list of (begin, end) intervals."""),
    ("tile of a vertex", lambda w: w.graph.set_tile_mapping(w.add(Bump, x=w.v), np.int64(7)), InvalidTileMappingError, r"""
        There is no tile 7.
          where: vertex 0 (Bump) of compute set 'cs'
          next:  use a tile from 0 to 2."""),
    ("tile of a vertex None", lambda w: w.graph.set_tile_mapping(w.add(Bump, x=w.v), None), InvalidTileMappingError, r"""
        None is not a tile number.
          where: vertex 0 (Bump) of compute set 'cs'
          next:  use a tile from 0 to 2."""),
    ("tile of a single-tile machine", lambda w: single_tile(1), InvalidTileMappingError, r"""
        There is no tile 1.
          where: Tensor('v', FLOAT, shape (3,))
          next:  use tile 0, the only tile of the target."""),
    ("many tiles", lambda w: w.graph.set_tile_mapping(w.v, [0, 1, 2]), InvalidTileMappingError, r"""
        Tile 0 was given 0, which is not a list of intervals.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give a tile number, or for each tile a list of (begin, end) intervals."""),
    ("too few tiles", lambda w: w.graph.set_tile_mapping(w.v, np.array([0, 1])), InvalidTileMappingError, r"""
        2 tiles were given for the rows of 'v', which has shape (3,).
          where: Tensor('v', FLOAT, shape (3,))
          next:  give one tile for each row of the leading axis, or a single number."""),
    ("a tile of a row too large", lambda w: w.graph.set_tile_mapping(w.v, np.array([0, 1, 7])), InvalidTileMappingError, r"""
        There is no tile 7.
          where: 'v', number 2
          next:  use a tile from 0 to 2."""),
    ("tiles of rows no whole numbers", lambda w: w.graph.set_tile_mapping(w.v, np.ones(3)), InvalidTileMappingError, r"""
        array([1., 1., 1.]) is neither a tile number nor a list of tile numbers.
          where: 'v'
          next:  give whole numbers."""),
    ("mapping nothing", lambda w: w.graph.set_tile_mapping("v", 0), GraphObjectCreationError, r"""
        set_tile_mapping() was given 'v', which cannot be mapped.
          next:  map a tensor or a vertex of this graph."""),
    ("mapping a compute set", lambda w: w.graph.set_tile_mapping(w.cs, 0), GraphObjectCreationError, r"""
        set_tile_mapping() was given ComputeSet('cs', no vertices), which cannot be mapped.
          next:  map a tensor or a vertex of this graph."""),
    ("mapping a foreign tensor", lambda w: w.graph.set_tile_mapping(w.alien_tensor, 0), GraphObjectCreationError, r"""
        Tensor('alien', FLOAT, shape (3,)) is not a tensor of this graph.
          next:  use a tensor that this graph's add_variable or add_constant returned, or a view of one."""),
    ("mapping a foreign vertex", lambda w: w.graph.set_tile_mapping(w.alien_vertex, 0), GraphObjectCreationError, r"""
        set_tile_mapping() was given an object of another graph.
          where: vertex 0 (Bump) of compute set 'alien set'
          next:  use one graph throughout."""),
    ("mapping foreign vertices", lambda w: w.graph.set_tile_mapping(w.alien_range, 0), GraphObjectCreationError, r"""
        set_tile_mapping() was given an object of another graph.
          where: 1 vertex (Bump) of compute set 'alien set'
          next:  use one graph throughout."""),
    ("mapping for too many tiles",
     lambda w: w.graph.set_tile_mapping(w.v, [[(0, 3)], [], [], []]),
     InvalidTileMappingError, r"""
        A mapping for 4 tiles was given, but the target has 3.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give a tile number, or for each tile a list of (begin, end) intervals."""),
    ("mapping without lists", lambda w: w.graph.set_tile_mapping(w.v, [(0, 3)]), InvalidTileMappingError, r"""
        Tile 0 was given 0, which is not an interval of 3 elements.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give a tile number, or for each tile a list of (begin, end) intervals."""),
    ("mapping with a bad interval", lambda w: w.graph.set_tile_mapping(w.v, [[(0, 1)], [(1, 4)]]), InvalidTileMappingError, r"""
        Tile 1 was given (1, 4), which is not an interval of 3 elements.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give a tile number, or for each tile a list of (begin, end) intervals."""),
    ("mapping with a backward interval", lambda w: w.graph.set_tile_mapping(w.v, [[(2, 1)]]), InvalidTileMappingError, r"""
        Tile 0 was given (2, 1), which is not an interval of 3 elements.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give a tile number, or for each tile a list of (begin, end) intervals."""),
    ("mapping with triples", lambda w: w.graph.set_tile_mapping(w.v, [[(0, 1, 2)]]), InvalidTileMappingError, r"""
        Tile 0 was given (0, 1, 2), which is not an interval of 3 elements.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give a tile number, or for each tile a list of (begin, end) intervals."""),
    ("tiles of vertices", lambda w: w.graph.set_tile_mapping(w.many(Bump, 0, x=w.x), [0, 1]), InvalidTileMappingError, r"""
        2 tiles were given for 4 vertices.
          where: 4 vertices (Bump) of compute set 'cs'
          next:  give one tile for all of them, or one for each."""),
    ("tiles of vertices, one bad",
     lambda w: w.graph.set_tile_mapping(w.many(Bump, 0, x=w.x), [0, 1, 2, 3]),
     InvalidTileMappingError, r"""
        There is no tile 3.
          where: 4 vertices (Bump) of compute set 'cs', number 3
          next:  use a tile from 0 to 2."""),
    ("tiles of vertices, floats",
     lambda w: w.graph.set_tile_mapping(w.many(Bump, 0, x=w.x), [0.0, 1, 2, 2]),
     InvalidTileMappingError, r"""
        [0.0, 1, 2, 2] is neither a tile number nor a list of tile numbers.
          where: 4 vertices (Bump) of compute set 'cs'
          next:  give whole numbers."""),
    ("tiles of vertices, ragged",
     lambda w: w.graph.set_tile_mapping(w.many(Bump, 0, x=w.x), [[0], [1, 2]]),
     InvalidTileMappingError, r"""
        [[0], [1, 2]] is neither a tile number nor a list of tile numbers.
          where: 4 vertices (Bump) of compute set 'cs'
          next:  give whole numbers."""),
    ("mapping asked before it is complete",
     lambda w: w.graph.get_tile_mapping(w.graph.add_variable(FLOAT, 1000, "big")),
     InvalidTileMappingError, r"""
        'big' is not mapped to any tile.
          next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor)."""),
    ("mapping asked of a foreign tensor", lambda w: w.graph.get_tile_mapping(w.alien_tensor), GraphObjectCreationError, r"""
        Tensor('alien', FLOAT, shape (3,)) is not a tensor of this graph.
          next:  use a tensor that this graph's add_variable or add_constant returned, or a view of one."""),
    ("unmapped variable", lambda w: (w.graph.add_variable(FLOAT, (2, 5), "lost"), w.compile()), InvalidTileMappingError, r"""
        The variable 'lost' is not mapped to any tile.
          next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor)."""),
    ("unmapped variable with a name like state",
     lambda w: (w.graph.add_variable(FLOAT, 2, "lost (state)"), w.compile()),
     InvalidTileMappingError, r"""
        The variable 'lost (state)' is not mapped to any tile.
          next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor)."""),
    ("partly unmapped variable",
     lambda w: (w.put(w.graph.add_variable(FLOAT, (2, 5), "lost")[:, 1:4], 0), w.compile()),
     InvalidTileMappingError, r"""
        4 of the 10 elements of variable 'lost' are not mapped to any tile.
          where: the first of them is element [0, 0] of 'lost'
          next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor)."""),
    ("unmapped vertex", lambda w: (w.graph.add_vertex(w.cs, Bump, x=w.v), w.compile()), InvalidTileMappingError, r"""
        The vertex of Bump in compute set 'cs' is not mapped to any tile.
          where: vertex 0 (Bump, no tile)
          next:  graph.set_tile_mapping(vertex, tile)."""),
    ("unmapped vertices",
     lambda w: (w.add(Bump, x=w.v), [w.graph.add_vertex(w.cs, Bump, x=w.y[i]) for i in range(4)], w.compile()),
     InvalidTileMappingError, r"""
        4 of the 5 vertices of Bump in compute set 'cs' are not mapped to any tile.
          where: vertex 1 (Bump, no tile)
          next:  graph.set_tile_mapping(vertex, tile)."""),
]

VERTICES: list[Case] = [
    ("no compute set", lambda w: w.graph.add_vertex("cs", Scale), GraphObjectCreationError, r"""
        'cs' is not a compute set of this graph.
          next:  make one with graph.add_compute_set(name), and write add_vertex(compute_set, codelet, …)."""),
    ("foreign compute set", lambda w: w.graph.add_vertex(w.alien_set, Bump), GraphObjectCreationError, r"""
        ComputeSet('alien set', 2 Bump) is not a compute set of this graph.
          next:  make one with graph.add_compute_set(name), and write add_vertex(compute_set, codelet, …)."""),
    ("no codelet", lambda w: w.graph.add_vertex(w.cs, "Scale"), UnknownVertexTypeError, r"""
        There is no codelet 'Scale'.
          next:  add one with graph.add_codelets(…), or give the class itself."""),
    ("no vertex class", lambda w: w.graph.add_vertices(w.cs, Graph, 0), GraphObjectCreationError, r"""
        ipu_teach.graph.graph.Graph is not a vertex class.
          next:  write a class that derives from Vertex, and pass the class."""),
    ("arguments exchanged", lambda w: w.graph.add_vertex(Scale, w.cs), GraphObjectCreationError, r"""
        test_errors.Scale is not a compute set of this graph.
          next:  make one with graph.add_compute_set(name), and write add_vertex(compute_set, codelet, …)."""),
    ("no compute", lambda w: w.graph.add_vertex(w.cs, Idle), VertexDefinitionError, r"""
        Idle has no compute().
          next:  define `def compute(self):` in the class."""),
    ("no compute of a supervisor", lambda w: w.graph.add_vertices(w.cs, IdleSupervisor, 0), VertexDefinitionError, r"""
        IdleSupervisor has no compute().
          next:  define `def compute(self):` in the class."""),
    ("connections no dict", lambda w: w.graph.add_vertex(w.cs, Scale, [w.v]), GraphObjectCreationError, r"""
        add_vertex() was given [Tensor('v', FLOAT, shape (3,))] as its connections, which are not a dict.
          next:  name the fields: add_vertex(compute_set, codelet, a=tensor), or give a dict."""),
    ("unknown field", lambda w: w.add(Scale, x=w.v, outt=w.v), UnknownFieldError, r"""
        Scale has no field 'outt'.
          next:  did you mean 'out'? Its fields are x: Input[Vector[FLOAT]], out: Output[Vector[FLOAT]], factor: FLOAT."""),
    ("unknown field, nothing near", lambda w: w.add(Scale, x=w.v, result=w.v), UnknownFieldError, r"""
        Scale has no field 'result'.
          next:  Its fields are x: Input[Vector[FLOAT]], out: Output[Vector[FLOAT]], factor: FLOAT."""),
    ("unknown field in bulk", lambda w: w.many(Scale, 0, xx=w.x), UnknownFieldError, r"""
        Scale has no field 'xx'.
          next:  did you mean 'x'? Its fields are x: Input[Vector[FLOAT]], out: Output[Vector[FLOAT]], factor: FLOAT."""),
    ("unknown field of a vertex", lambda w: w.add(Scale)["Factor"], UnknownFieldError, r"""
        Scale has no field 'Factor'.
          next:  did you mean 'factor'? Its fields are x: Input[Vector[FLOAT]], out: Output[Vector[FLOAT]], factor: FLOAT."""),
    ("field by number", lambda w: w.add(Scale)[0], UnknownFieldError, r"""
        Scale has no field 0.
          next:  Its fields are x: Input[Vector[FLOAT]], out: Output[Vector[FLOAT]], factor: FLOAT."""),
    ("dtype of an edge", lambda w: w.add(Scale, x=w.n), PoplarTypeError, r"""
        Scale.x holds FLOAT, but was given a tensor of INT.
          where: Tensor('n', INT, shape (3,))
          next:  declare the field with INT, or cast the tensor."""),
    ("shape of an edge", lambda w: w.add(Scale, x=w.x), GraphConnectionError, r"""
        Scale.x is declared as Input[Vector[FLOAT]], which takes one dimension, but was given shape (4, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  index, slice or flatten the tensor, or change the declaration."""),
    ("shape of a scalar edge", lambda w: w.add(Dot, out=w.v), GraphConnectionError, r"""
        Dot.out is declared as Output[FLOAT], which takes a single element, but was given shape (3,).
          where: Tensor('v', FLOAT, shape (3,))
          next:  index, slice or flatten the tensor, or change the declaration."""),
    ("shape of a matrix edge", lambda w: w.add(Rows, rows=w.v), GraphConnectionError, r"""
        Rows.rows is declared as Input[Vector[Vector[FLOAT]]], which takes two dimensions, or a list of vectors, but was \
        given shape (3,).
          where: Tensor('v', FLOAT, shape (3,))
          next:  index, slice or flatten the tensor, or change the declaration."""),
    ("number for an edge", lambda w: w.add(Scale, x=3), GraphConnectionError, r"""
        Scale.x is declared as Input[Vector[FLOAT]], but was given 3.
          next:  connect a tensor."""),
    ("array for an edge", lambda w: w.add(Rows, rows=np.ones(3)), GraphConnectionError, r"""
        Rows.rows is declared as Input[Vector[Vector[FLOAT]]], but was given array([1., 1., 1.]).
          next:  connect a tensor or a list of one-dimensional tensors."""),
    ("list for an edge", lambda w: w.add(Scale, x=[w.v, w.v]), GraphConnectionError, r"""
        Scale.x is declared as Input[Vector[FLOAT]], but was given [Tensor('v', FLOAT, shape (3,)), Tensor('v', FLOAT, \
        shape (3,))].
          next:  connect a tensor."""),
    ("empty list", lambda w: w.add(Rows, rows=[]), GraphConnectionError, r"""
        Rows.rows was given an empty list.
          next:  connect at least one tensor."""),
    ("list with a matrix", lambda w: w.add(Rows, rows=[w.v, w.x]), GraphConnectionError, r"""
        Rows.rows is declared as Input[Vector[Vector[FLOAT]]], which takes two dimensions, or a list of vectors, but was \
        given a list with shape (4, 3).
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  index, slice or flatten the tensor, or change the declaration."""),
    ("list with another dtype", lambda w: w.add(Rows, rows=[w.v, w.n]), PoplarTypeError, r"""
        Rows.rows holds FLOAT, but was given a tensor of INT.
          where: Tensor('n', INT, shape (3,))
          next:  declare the field with INT, or cast the tensor."""),
    ("foreign tensor", lambda w: w.add(Scale, x=w.alien_tensor), GraphConnectionError, r"""
        Scale.x was given a tensor of another graph.
          where: Tensor('alien', FLOAT, shape (3,))
          next:  use one graph throughout."""),
    ("tensor for state", lambda w: w.add(Scale, x=w.v, factor=w.s), GraphConnectionError, r"""
        Scale.factor is a state field, which takes a number, but was given a tensor.
          where: Tensor('s', FLOAT, shape ())
          next:  give a number, or declare the field as Input[FLOAT]."""),
    ("text for state", lambda w: w.add(Scale, x=w.v, factor="two"), TensorCreationError, r"""
        Scale.factor: 'two' is not a number.
          next:  give numbers that FLOAT holds."""),
    ("several values for state", lambda w: w.add(Scale, x=w.v, factor=[1, 2]), GraphObjectCreationError, r"""
        Scale.factor is a state field, a single FLOAT, but was given 2 values.
          next:  give one number; for several, connect a tensor to a field Input[Vector[…]]."""),
    ("connecting to state", lambda w: w.graph.connect(w.add(Scale)["factor"], w.v), GraphConnectionError, r"""
        Scale.factor is a state field, which takes a number, but was given a tensor.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give a number, or declare the field as Input[FLOAT]."""),
    ("connecting nothing", lambda w: w.graph.connect(w.add(Scale)["x"], None), GraphConnectionError, r"""
        Scale.x is declared as Input[Vector[FLOAT]], but was given None.
          next:  connect a tensor."""),
    ("connecting to a tensor", lambda w: w.graph.connect(w.v, w.v), GraphObjectCreationError, r"""
        Tensor('v', FLOAT, shape (3,)) is not a field of a vertex of this graph.
          next:  write vertex["name"], with a vertex that add_vertex of this graph returned."""),
    ("connecting a foreign vertex", lambda w: w.graph.connect(w.alien_vertex["x"], w.v), GraphObjectCreationError, r"""
        field 'x' of vertex 0 (Bump) of compute set 'alien set' is not a field of a vertex of this graph.
          next:  write vertex["name"], with a vertex that add_vertex of this graph returned."""),
    ("unconnected field", lambda w: (w.add(Scale, x=w.v), w.compile()), GraphConnectionError, r"""
        The field 'out' of 1 vertex of Scale is not connected.
          where: vertex 0 (Scale.out, tile 0) of compute set 'cs'
          next:  connect the Output[Vector[FLOAT]] 'out' in add_vertex: out=…."""),
    ("unconnected fields", lambda w: ([w.add(Dot, a=w.v, b=w.v) for _ in range(3)], w.compile()), GraphConnectionError, r"""
        The field 'out' of 3 vertices of Dot is not connected.
          where: vertex 0 (Dot.out, tile 0) of compute set 'cs'
          next:  connect the Output[FLOAT] 'out' in add_vertex: out=…."""),
    ("state without a value", lambda w: (w.add(Biased, out=w.s), w.compile()), GraphConnectionError, r"""
        The state 'bias' of 1 vertex of Biased has no value.
          where: vertex 0 (Biased.bias, tile 0) of compute set 'cs'
          next:  give it a value in add_vertex: bias=…. Or give it a default in the class."""),
    ("vertex number", lambda w: w.many(Bump, 0, x=w.x)[4], PoplarIndexError, r"""
        There is no vertex 4 among 4.
          where: 4 vertices (Bump) of compute set 'cs'
          next:  use a whole number from 0 to 3."""),
    ("vertex number no int", lambda w: w.many(Bump, 0, x=w.x)[1:2], PoplarIndexError, r"""
        There is no vertex slice(1, 2, None) among 4.
          where: 4 vertices (Bump) of compute set 'cs'
          next:  use a whole number from 0 to 3."""),
    ("vertex of none", lambda w: w.many(Bump, [], x=w.x[:0])[0], PoplarIndexError, r"""
        There is no vertex 0 among 0.
          where: 0 vertices (Bump) of compute set 'cs'
          next:  the range is empty."""),
]

VERTICES_IN_BULK: list[Case] = [
    ("bulk lengths", lambda w: w.many(Scale, [0, 1], x=w.x, out=w.y[:3], factor=[1, 2]), GraphObjectCreationError, r"""
        add_vertices() of Scale was given different numbers of vertices: 2 by tiles, 4 by x, 3 by out, 2 by factor.
          next:  give all arguments a first axis of equal length, or of length 1 for what all vertices share. Add other vertices with a second call."""),
    ("bulk list lengths",
     lambda w: w.many(Rows, 0, rows=[w.x, w.y[:2]], out=w.x.reshape((4, 3, 1))),
     GraphObjectCreationError, r"""
        add_vertices() of Rows was given different numbers of vertices: 4 by rows, 2 by rows, 4 by out.
          next:  give all arguments a first axis of equal length, or of length 1 for what all vertices share. Add other vertices with a second call."""),
    ("bulk single element", lambda w: w.many(Dot, 0, out=w.s), GraphConnectionError, r"""
        Dot.out was given a single element in add_vertices(), so it has no axis that numbers the vertices.
          where: Tensor('s', FLOAT, shape ())
          next:  give it a leading axis. All vertices share an axis of length 1: tensor.reshape((1, …))."""),
    ("bulk shape", lambda w: w.many(Scale, 0, x=w.v), GraphConnectionError, r"""
        Scale.x is declared as Input[Vector[FLOAT]], which takes one dimension, but was given shape () for each vertex.
          where: Tensor('v', FLOAT, shape (3,))
          next:  index, slice or flatten the tensor, or change the declaration."""),
    ("bulk scalar", lambda w: w.many(Dot, 0, out=w.x), GraphConnectionError, r"""
        Dot.out is declared as Output[FLOAT], which takes a single element, but was given shape (3,) for each vertex.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  index, slice or flatten the tensor, or change the declaration."""),
    ("bulk dtype", lambda w: w.many(Scale, 0, x=w.n), PoplarTypeError, r"""
        Scale.x holds FLOAT, but was given a tensor of INT.
          where: Tensor('n', INT, shape (3,))
          next:  declare the field with INT, or cast the tensor."""),
    ("bulk number", lambda w: w.many(Scale, 0, x=3), GraphConnectionError, r"""
        Scale.x is declared as Input[Vector[FLOAT]], but was given 3.
          next:  connect a tensor."""),
    ("bulk list", lambda w: w.many(Scale, 0, x=[w.x, w.y]), GraphConnectionError, r"""
        Scale.x is declared as Input[Vector[FLOAT]], but was given [Tensor('x', FLOAT, shape (4, 3)), Tensor('y', FLOAT, \
        shape (4, 3))].
          next:  connect a tensor."""),
    ("bulk list of numbers", lambda w: w.many(Rows, 0, rows=[w.x, 3]), GraphConnectionError, r"""
        Rows.rows is declared as Input[Vector[Vector[FLOAT]]], but was given [Tensor('x', FLOAT, shape (4, 3)), 3].
          next:  connect a tensor, or a list of them."""),
    ("bulk tiles of two dimensions", lambda w: w.many(Bump, [[0, 1], [0, 1]], x=w.x), GraphObjectCreationError, r"""
        add_vertices() of Bump was given tiles of shape (2, 2), which has more than one dimension.
          next:  give one tile for all vertices, or a list with one for each."""),
    ("bulk tile too large", lambda w: w.many(Bump, [0, 1, 2, 3], x=w.x), InvalidTileMappingError, r"""
        There is no tile 3.
          where: add_vertices() of Bump, number 3
          next:  use a tile from 0 to 2."""),
    ("bulk of very many", lambda w: w.many(Bump, 0, x=w.graph.add_variable(FLOAT, (10**9, 1))), GraphObjectCreationError, r"""
        add_vertices() of Bump was asked for 1,000,000,000 vertices.
          next:  add at most 100,000,000; each vertex takes a row of the leading axis."""),
    ("bulk tile none", lambda w: w.many(Bump, None, x=w.x), InvalidTileMappingError, r"""
        None is neither a tile number nor a list of tile numbers.
          where: add_vertices() of Bump
          next:  give whole numbers."""),
    ("bulk tile text", lambda w: w.many(Bump, "0", x=w.x), InvalidTileMappingError, r"""
        '0' is neither a tile number nor a list of tile numbers.
          where: add_vertices() of Bump
          next:  give whole numbers."""),
    ("bulk state matrix", lambda w: w.many(Scale, 0, x=w.x, out=w.y, factor=np.ones((4, 2))), GraphObjectCreationError, r"""
        Scale.factor is a state field, a single FLOAT, but was given 8 values.
          next:  give one number; for several, connect a tensor to a field Input[Vector[…]]."""),
    ("bulk state tensor", lambda w: w.many(Scale, 0, x=w.x, out=w.y, factor=w.v), GraphConnectionError, r"""
        Scale.factor is a state field, which takes a number, but was given a tensor.
          where: Tensor('v', FLOAT, shape (3,))
          next:  give a number, or declare the field as Input[FLOAT]."""),
    ("bulk state text", lambda w: w.many(Scale, 0, x=w.x, out=w.y, factor=["a", "b", "c", "d"]), TensorCreationError, r"""
        Scale.factor: ['a', 'b', 'c', 'd'] holds text, not numbers.
          next:  give numbers that FLOAT holds."""),
]

PERF_ESTIMATES: list[Case] = [
    ("estimate negative", lambda w: w.graph.set_perf_estimate(w.add(Bump, x=w.v), -1), GraphObjectCreationError, r"""
        set_perf_estimate() was given -1 cycles, which is not valid.
          where: vertex 0 (Bump) of compute set 'cs'
          next:  give whole numbers from 0 to 1,000,000,000,000."""),
    ("estimate float", lambda w: w.graph.set_perf_estimate(w.add(Bump, x=w.v), 10.5), GraphObjectCreationError, r"""
        set_perf_estimate() was given 10.5 cycles, which is not valid.
          where: vertex 0 (Bump) of compute set 'cs'
          next:  give whole numbers from 0 to 1,000,000,000,000."""),
    ("estimate huge", lambda w: w.graph.set_perf_estimate(w.add(Bump, x=w.v), 10**30), GraphObjectCreationError, r"""
        set_perf_estimate() was given 1000000000000000000000000000000 cycles, which is not valid.
          where: vertex 0 (Bump) of compute set 'cs'
          next:  give whole numbers from 0 to 1,000,000,000,000."""),
    ("estimate ragged",
     lambda w: w.graph.set_perf_estimate(w.many(Bump, 0, x=w.x), [[1], [2, 3], 4, 5]),
     GraphObjectCreationError, r"""
        set_perf_estimate() was given [[1], [2, 3], 4, 5] cycles, which is not valid.
          where: 4 vertices (Bump) of compute set 'cs'
          next:  give whole numbers from 0 to 1,000,000,000,000."""),
    ("estimate none", lambda w: w.graph.set_perf_estimate(w.add(Bump, x=w.v), None), GraphObjectCreationError, r"""
        set_perf_estimate() was given None cycles, which is not valid.
          where: vertex 0 (Bump) of compute set 'cs'
          next:  give whole numbers from 0 to 1,000,000,000,000."""),
    ("estimate lengths", lambda w: w.graph.set_perf_estimate(w.many(Bump, 0, x=w.x), [1, 2]), GraphObjectCreationError, r"""
        set_perf_estimate() was given 2 values for 4 vertices.
          where: 4 vertices (Bump) of compute set 'cs'
          next:  give one value for all of them, or one for each."""),
    ("estimate of nothing", lambda w: w.graph.set_perf_estimate(w.cs, 10), GraphObjectCreationError, r"""
        set_perf_estimate() was given ComputeSet('cs', no vertices), which is not a vertex.
          next:  give the vertex that add_vertex returned."""),
    ("estimate of a foreign vertex", lambda w: w.graph.set_perf_estimate(w.alien_vertex, 10), GraphObjectCreationError, r"""
        set_perf_estimate() was given an object of another graph.
          where: vertex 0 (Bump) of compute set 'alien set'
          next:  use one graph throughout."""),
    ("missing estimate", lambda w: w.fails(Untraced), MissingPerfEstimateError, r"""
        The cycles of Untraced are unknown: a formatted text does not run as a scalar loop, and its operations cannot be counted.
          where: test_errors.py, line <untraced> (Untraced.compute); vertex 0 (Untraced, tile 0) of compute set 'cs'
          next:  `def cycles(self, target)` in the class, or graph.set_perf_estimate(vertex, cycles). To run it \
                 without a cost: Engine(…, strict=False)."""),
]

RACES: list[Case] = [
    ("two writers", lambda w: (w.add(Bump, x=w.v), w.add(Scale, 1, x=w.k, out=w.v), w.compile()), ComputeSetRaceError, r"""
        In compute set 'cs' element [0] of 'v' is written twice.
          where: vertex 0 (Bump.x, tile 0) and vertex 1 (Scale.out, tile 1)
          next:  give each vertex its own element. Or put the two vertices into two compute sets, one after the other."""),
    ("two writers of a part",
     lambda w: (w.add(Bump, x=w.x.flatten()[:4]), w.add(Bump, 1, x=w.x.flatten()[3:7]), w.compile()),
     ComputeSetRaceError, r"""
        In compute set 'cs' element [1, 0] of 'x' is written twice.
          where: vertex 0 (Bump.x, tile 0) and vertex 1 (Bump.x, tile 1)
          next:  give each vertex its own element. Or put the two vertices into two compute sets, one after the other."""),
    ("reader and writer",
     lambda w: (w.add(Bump, x=w.x[1]), w.add(Scale, 2, x=w.x.flatten()[5:8], out=w.y[0]), w.compile()),
     ComputeSetRaceError, r"""
        In compute set 'cs' element [1, 2] of 'x' is written by one vertex and read by another.
          where: vertex 0 (Bump.x, tile 0) and vertex 1 (Scale.x, tile 2)
          next:  to read the old value, copy it before the compute set, and read the copy. To read the new value, put \
                 the reader into a later compute set."""),
    ("a neighbour in a stencil",
     lambda w: (w.many(Scale, [0, 1, 2], x=w.x[1:], out=w.x[:3]), w.compile()),
     ComputeSetRaceError, r"""
        In compute set 'cs' element [1, 0] of 'x' is written by one vertex and read by another.
          where: vertex 1 (Scale.out, tile 1) and vertex 0 (Scale.x, tile 0)
          next:  to read the old value, copy it before the compute set, and read the copy. To read the new value, put \
                 the reader into a later compute set."""),
    ("own fields overlap", lambda w: (w.add(Scale, x=w.v, out=w.v), w.compile()), ComputeSetRaceError, r"""
        Two fields of one vertex overlap, and one of them is written: 'out' and 'x' share element [0] of 'v'.
          where: vertex 0 (Scale, tile 0) of compute set 'cs'
          next:  use one InOut field for elements that are both read and written. Or copy the elements before the compute set, and connect the other field to the copy."""),
    ("own written fields overlap",
     lambda w: (w.add(Rows, rows=[w.x[0], w.x[1]], out=[w.y[0], w.x.flatten()[2:5]]), w.compile()),
     ComputeSetRaceError, r"""
        Two fields of one vertex overlap, and one of them is written: 'out' and 'rows' share element [0, 2] of 'x'.
          where: vertex 0 (Rows, tile 0) of compute set 'cs'
          next:  use one InOut field for elements that are both read and written. Or copy the elements before the compute set, and connect the other field to the copy."""),
    ("a field overlaps itself", lambda w: (w.add(Rows, rows=w.x, out=[w.y[0], w.y[0]]), w.compile()), ComputeSetRaceError, r"""
        The field 'out' of Rows writes element [0, 0] of 'y' twice.
          where: vertex 0 (Rows.out, tile 0) of compute set 'cs'
          next:  give it tensors in which every element appears once."""),
    ("an aliased view is written", lambda w: (w.add(Bump, x=concat([w.v, w.v])), w.compile()), ComputeSetRaceError, r"""
        The field 'x' of Bump writes a region that contains an element twice.
          where: vertex 0 (Bump.x, tile 0) of compute set 'cs'
          next:  give it a tensor in which every element appears once."""),
    ("a constant is written", lambda w: (w.add(Bump, x=w.k), w.compile()), GraphConnectionError, r"""
        The field 'x' of Bump writes to the constant 'k'.
          where: vertex 0 (Bump.x, tile 0) of compute set 'cs'
          next:  connect a variable, made with graph.add_variable."""),
]

MEMORY: list[Case] = [
    ("tile overflow", lambda w: (w.big(1100, 1), w.big(10, 1, HALF), w.compile(Sequence())), GraphMemoryAllocationError, r"""
        Out of memory: Cannot fit all variable data onto one or more tiles. 1 of 3 tiles holds too much.
          where: the fullest is tile 1: 4,600 of 4,096 bytes. Its variables: 'more on 1' 4,420, 'y' 48. Also: stacks 128.
          next:  spread the variables over more tiles (poputil.map_tensor_linearly), use a smaller dtype, or more tiles."""),
    ("tiles overflow", lambda w: (w.big(1100, 0), w.big(1100, 1), w.compile(Sequence())), GraphMemoryAllocationError, r"""
        Out of memory: Cannot fit all variable data onto one or more tiles. 2 of 3 tiles hold too much.
          where: the fullest is tile 0: 4,576 of 4,096 bytes. Its variables: 'more on 0' 4,400, 'x' 48. Also: stacks 128.
          next:  spread the variables over more tiles (poputil.map_tensor_linearly), use a smaller dtype, or more tiles."""),
    ("a field larger than a tile", lambda w: w.wide(Bump), GraphMemoryAllocationError, r"""
        The field 'x' of Bump takes 8,000 bytes, but a tile has 4,096.
          where: vertex 0 (Bump.x, tile 0) of compute set 'cs'
          next:  give each vertex a smaller part of the tensor, and spread the vertices over the tiles."""),
]

CODELETS: list[Case] = [
    ("adds to an Output", lambda w: w.fails(AddsToOutput), CodeletError, r"""
        AddsToOutput.compute() reads its Output 'out'.
          where: test_errors.py, line <adds to output> (AddsToOutput.compute), vertex 0 (AddsToOutput, tile 0)
          next:  an Output is only written. For +=, declare out: InOut[FLOAT], or add up in a local variable and assign \
                 once."""),
    ("adds to an Output vector", lambda w: w.fails(AddsToVector), CodeletError, r"""
        AddsToVector.compute() reads its Output 'out' before writing it.
          where: test_errors.py, line <adds to vector> (AddsToVector.compute), vertex 0 (AddsToVector, tile 0)
          next:  an Output is only written. For +=, declare out: InOut[Vector[FLOAT]], or add up in a local variable."""),
    ("adds to an element of an Output", lambda w: w.fails(AddsToElement), CodeletError, r"""
        AddsToElement.compute() reads its Output 'out' before writing it.
          where: test_errors.py, line <adds to element> (AddsToElement.compute), vertex 0 (AddsToElement, tile 0)
          next:  an Output is only written. For +=, declare out: InOut[Vector[FLOAT]], or add up in a local variable."""),
    ("assigns to an Input", lambda w: w.fails(WritesInput), CodeletError, r"""
        WritesInput.compute() assigns to its Input 'x'.
          where: test_errors.py, line <assigns to input> (WritesInput.compute), vertex 0 (WritesInput, tile 0)
          next:  an Input is only read; declare x: InOut[Vector[FLOAT]] to change it."""),
    ("assigns to an element of an Input", lambda w: w.fails(WritesInputElement), CodeletError, r"""
        WritesInputElement.compute() failed: ValueError: assignment destination is read-only.
          where: test_errors.py, line <writes input element> (WritesInputElement.compute), vertex 0 (WritesInputElement, \
                 tile 0)
          next:  an Input ('x') is only read; declare it InOut to change it."""),
    ("assigns to an undeclared name", lambda w: w.fails(WritesUndeclared), CodeletError, r"""
        WritesUndeclared.compute() assigns to self.outt, which is not a declared field.
          where: test_errors.py, line <assigns to undeclared> (WritesUndeclared.compute), vertex 0 (WritesUndeclared, \
                 tile 0)
          next:  did you mean 'out'? Use a local variable, or declare it as state in the class."""),
    ("reads an undeclared name", lambda w: w.fails(ReadsUndeclared), CodeletError, r"""
        ReadsUndeclared.compute() reads self.y, which is not a declared field.
          where: test_errors.py, line <reads undeclared> (ReadsUndeclared.compute), vertex 0 (ReadsUndeclared, tile 0)
          next:  Its fields are x: Input[Vector[FLOAT]], out: Output[Vector[FLOAT]]."""),
    ("assigns a value that does not fit", lambda w: w.fails(Misfits), CodeletError, r"""
        Misfits.compute() assigns to 'out' a value that does not fit: the field has shape (3,), the value (2,).
          where: test_errors.py, line <misfits> (Misfits.compute), vertex 0 (Misfits, tile 0)
          next:  assign one number, or as many as the field has."""),
    ("raises", lambda w: w.fails(Raises), CodeletError, r"""
        Raises.compute() failed: IndexError: index 99 is out of bounds for axis 0 with size 3.
          where: test_errors.py, line <raises> (Raises.compute), vertex 0 (Raises, tile 0)
          next:  run one vertex by itself with Raises.call(…); a breakpoint stops there."""),
    ("assigns to an Input when it runs",
     lambda w: (w.graph.set_initial_value(w.v, 1), w.fails(WritesInputLate).load_and_run(w.device)),
     CodeletError, r"""
        WritesInputLate.compute() assigns to its Input 'x'.
          where: test_errors.py, line <assigns late> (WritesInputLate.compute), vertex 0 (WritesInputLate, tile 0)
          next:  an Input is only read; declare x: InOut[Vector[FLOAT]] to change it."""),
    ("assigns ragged rows", lambda w: w.fails(MisfitsRagged), CodeletError, r"""
        MisfitsRagged.compute() assigns to 'out' a value that does not fit: the field has shape (3,) of FLOAT, the value is \
        ((1,), (2, 3)).
          where: test_errors.py, line <misfits ragged> (MisfitsRagged.compute), vertex 0 (MisfitsRagged, tile 0)
          next:  assign one number, or as many as the field has."""),
    ("assigns text", lambda w: w.fails(MisfitsText), CodeletError, r"""
        MisfitsText.compute() assigns to 'out' a value that does not fit: the field has shape (3,) of FLOAT, the value is 'many'.
          where: test_errors.py, line <misfits text> (MisfitsText.compute), vertex 0 (MisfitsText, tile 0)
          next:  assign one number, or as many as the field has."""),
    ("raises when it runs",
     lambda w: (w.graph.set_initial_value(w.v, [7, 8, 9]), w.fails(RaisesLate).load_and_run(w.device)),
     CodeletError, r"""
        RaisesLate.compute() failed: IndexError: list index out of range.
          where: test_errors.py, line <raises late> (RaisesLate.compute), vertex 0 (RaisesLate, tile 0)
          next:  run one vertex by itself with RaisesLate.call(…); a breakpoint stops there."""),
]

PROGRAMS: list[Case] = [
    ("execute a name", lambda w: Execute("cs"), ControlProgramError, r"""
        Execute was given 'cs', which is not a compute set.
          next:  give a compute set made with graph.add_compute_set."""),
    ("execute a program", lambda w: Execute(Sequence()), ControlProgramError, r"""
        Execute was given Sequence(0 programs), which is not a compute set.
          next:  give a compute set made with graph.add_compute_set."""),
    ("sequence of a compute set", lambda w: Sequence(w.cs), ControlProgramError, r"""
        Sequence was given the compute set 'cs'.
          next:  wrap it: Execute(compute_set)."""),
    ("sequence of a class", lambda w: Sequence(Execute), ControlProgramError, r"""
        Sequence was given the class Execute instead of a program.
          next:  create an instance: Execute(…)."""),
    ("sequence of a tensor", lambda w: Sequence(w.v), ControlProgramError, r"""
        Sequence was given Tensor('v', FLOAT, shape (3,)), which is not a program.
          next:  give Execute, Copy, Repeat or Sequence."""),
    ("sequence of text", lambda w: Sequence(""), ControlProgramError, r"""
        Sequence was given '', which is not a program.
          next:  give Execute, Copy, Repeat or Sequence."""),
    ("sequence of nothing", lambda w: Sequence().add(None), ControlProgramError, r"""
        Sequence was given None, which is not a program.
          next:  give Execute, Copy, Repeat or Sequence."""),
    ("sequence of a set", lambda w: Sequence({Execute(w.cs), Execute(w.cs)}), ControlProgramError, r"""
        Sequence got a set of 2 items, but a set has no order.
          next:  write Sequence(first, second), without braces."""),
    ("sequence of a frozen set", lambda w: Sequence(frozenset([Execute(w.cs)])), ControlProgramError, r"""
        Sequence got a set of 1 item, but a set has no order.
          next:  write Sequence(first, second), without braces."""),
    ("a set added", lambda w: Sequence().add({Execute(w.cs)}), ControlProgramError, r"""
        Sequence got a set of 1 item, but a set has no order.
          next:  add one program at a time: .add(first).add(second)."""),
    ("a set of cases", lambda w: Switch(w.n[0], {(0, Execute(w.cs)), (1, Sequence())}), ControlProgramError, r"""
        Switch got a set of 2 items, but a set has no order.
          next:  give a list of pairs: [(0, first), (1, second)]."""),
    ("a name that is no text", lambda w: Repeat(2, Execute(w.cs), 3), ControlProgramError, r"""
        Repeat got the name 3, which is not text.
          next:  give a name in quotes, as in Repeat(10, body, "training"), or leave it out."""),
    ("repeat backwards", lambda w: Repeat(Execute(w.cs), 3), ControlProgramError, r"""
        Repeat was given the count Execute(cs).
          next:  give a whole number from 0 to 1,000,000,000,000, and then the program: Repeat(10, body)."""),
    ("repeat negative", lambda w: Repeat(-1, Execute(w.cs)), ControlProgramError, r"""
        Repeat was given the count -1.
          next:  give a whole number from 0 to 1,000,000,000,000, and then the program: Repeat(10, body)."""),
    ("repeat for ever", lambda w: Repeat(10**30, Execute(w.cs)), ControlProgramError, r"""
        Repeat was given the count 1000000000000000000000000000000.
          next:  give a whole number from 0 to 1,000,000,000,000, and then the program: Repeat(10, body)."""),
    ("repeat float", lambda w: Repeat(2.0, Execute(w.cs)), ControlProgramError, r"""
        Repeat was given the count 2.0.
          next:  give a whole number from 0 to 1,000,000,000,000, and then the program: Repeat(10, body)."""),
    ("repeat a list", lambda w: Repeat(2, [Execute(w.cs)]), ControlProgramError, r"""
        Repeat was given [Execute(cs)], which is not a program.
          next:  give Execute, Copy, Repeat or Sequence."""),
    ("repeat a compute set", lambda w: Repeat(2, w.cs), ControlProgramError, r"""
        Repeat was given the compute set 'cs'.
          next:  wrap it: Execute(compute_set)."""),
    ("copy an array", lambda w: Copy(np.ones(3), w.v), ControlProgramError, r"""
        Copy was given array([1., 1., 1.]), which is neither a tensor nor a stream nor a remote buffer.
          next:  copy between tensors, streams and remote buffers."""),
    ("copy streams", lambda w: Copy(w.into, w.out), ControlProgramError, r"""
        Copy was given two streams.
          where: DataStream('into', host to device, 3 FLOAT) to DataStream('out', device to host, 3 FLOAT)
          next:  copy from the first into a tensor, and from the tensor into the second."""),
    ("copy from an outgoing stream", lambda w: Copy(w.out, w.v), ControlProgramError, r"""
        Copy reads from the stream 'out', which runs from device to host.
          where: DataStream('out', device to host, 3 FLOAT)
          next:  write Copy(tensor, stream), or make the stream with graph.add_host_to_device_fifo."""),
    ("copy to an incoming stream", lambda w: Copy(w.v, w.into), ControlProgramError, r"""
        Copy writes to the stream 'into', which runs from host to device.
          where: DataStream('into', host to device, 3 FLOAT)
          next:  write Copy(stream, tensor), or make the stream with graph.add_device_to_host_fifo."""),
    ("copy dtypes", lambda w: Copy(w.v, w.n), PoplarTypeError, r"""
        Copy was given a source of FLOAT and a destination of INT.
          where: Tensor('v', FLOAT, shape (3,)) to Tensor('n', INT, shape (3,))
          next:  use one dtype for both, or convert with popops.cast first: a copy moves bits as they are."""),
    ("copy stream dtypes", lambda w: Copy(w.into, w.n), PoplarTypeError, r"""
        Copy was given a source of FLOAT and a destination of INT.
          where: DataStream('into', host to device, 3 FLOAT) to Tensor('n', INT, shape (3,))
          next:  use one dtype for both, or convert with popops.cast first: a copy moves bits as they are."""),
    ("copy sizes", lambda w: Copy(w.x, w.v), ControlProgramError, r"""
        Copy was given a source of 12 elements and a destination of 3.
          where: Tensor('x', FLOAT, shape (4, 3)) to Tensor('v', FLOAT, shape (3,))
          next:  make both sides equally long: slice the longer one, or change the size of the stream."""),
    ("copy stream sizes", lambda w: Copy(w.x, w.out), ControlProgramError, r"""
        Copy was given a source of 12 elements and a destination of 3.
          where: Tensor('x', FLOAT, shape (4, 3)) to DataStream('out', device to host, 3 FLOAT)
          next:  make both sides equally long: slice the longer one, or change the size of the stream."""),
    ("copy graphs", lambda w: Copy(w.v, w.alien_tensor), ControlProgramError, r"""
        Copy was given tensors of two graphs.
          where: Tensor('v', FLOAT, shape (3,)) to Tensor('alien', FLOAT, shape (3,))
          next:  use one graph throughout."""),
    ("copy overlap", lambda w: w.compile(Copy(w.x[1:], w.x[:3])), ControlProgramError, r"""
        The two sides of a Copy overlap: both contain element [1, 0] of 'x'.
          where: Copy(a view of 'x' to a view of 'x')
          next:  copy through another variable."""),
    ("copy onto itself", lambda w: w.compile(Sequence(Repeat(2, Copy(w.v, w.v)))), ControlProgramError, r"""
        The two sides of a Copy overlap: both contain element [0] of 'v'.
          where: Copy('v' to 'v')
          next:  copy through another variable."""),
    ("copy to a constant", lambda w: w.compile(Copy(w.v, w.k)), ControlProgramError, r"""
        Copy writes to the constant 'k'.
          where: Copy('v' to 'k')
          next:  copy to a variable, made with graph.add_variable."""),
    ("copy to an aliased view", lambda w: w.compile(Copy(w.x[:2], concat([w.v, w.v]))), ControlProgramError, r"""
        Copy writes to a view that contains an element twice.
          where: Copy(a view of 'x' to a view of 'v')
          next:  copy to a view in which every element appears once."""),
    ("engine of nothing", lambda w: Engine(w.graph, []), ControlProgramError, r"""
        Engine was given [] as its programs, which is neither a program nor a list of at least one.
          next:  give one program, or a list of at least one: Engine(graph, [first, second])."""),
    ("engine of None", lambda w: Engine(w.graph, None), ControlProgramError, r"""
        Engine was given None as its programs, which is neither a program nor a list of at least one.
          next:  give one program, or a list of at least one: Engine(graph, [first, second])."""),
    ("engine of a compute set", lambda w: Engine(w.graph, w.cs), ControlProgramError, r"""
        Engine was given ComputeSet('cs', no vertices) as its programs, which is neither a program nor a list of at \
          least one.
          next:  give one program, or a list of at least one: Engine(graph, [first, second])."""),
    ("engine with arguments exchanged", lambda w: Engine(Execute(w.cs), w.graph), ControlProgramError, r"""
        Engine was given Execute(cs) as its graph, which is not a Graph.
          next:  write Engine(graph, program), in this order."""),
    ("engine with no threads", lambda w: Engine(w.graph, Sequence(), threads=0), InvalidOptionError, r"""
        Engine was given threads=0, which is not a number of threads that it can use.
          next:  give a whole number from 1 to 64."""),
    ("program within itself", lambda w: w.compile(within_itself()), ControlProgramError, r"""
        Sequence(1 program) contains itself.
          next:  build a new Sequence for the inner one."""),
    ("programs nested too deeply", lambda w: w.compile(nested(5000, Execute(w.cs))), ControlProgramError, r"""
        The programs are nested too deeply to compile.
          next:  put programs side by side in one Sequence."""),
    ("program of no kind", lambda w: w.compile(Foreign()), ControlProgramError, r"""
        Foreign() is a program that this engine cannot run.
          next:  use the programs of ipu_teach.program."""),
    ("foreign compute set executed", lambda w: w.compile(Execute(w.alien_set)), GraphObjectCreationError, r"""
        Execute(alien set) runs a compute set of another graph.
          next:  use one graph throughout."""),
    ("foreign tensor copied", lambda w: w.compile(Copy(w.alien_tensor[0], w.alien_tensor[1])), GraphObjectCreationError, r"""
        Copy(a view of 'alien' to a view of 'alien') uses a tensor, stream or remote buffer of another graph.
          next:  use one graph throughout."""),
    ("foreign stream copied", lambda w: w.compile(Copy(w.alien_stream, w.v)), GraphObjectCreationError, r"""
        Copy(into to 'v') uses a tensor, stream or remote buffer of another graph.
          next:  use one graph throughout."""),
]

HANDLES_AND_STREAMS: list[Case] = [
    ("handle no text", lambda w: w.graph.add_host_to_device_fifo(3, FLOAT, 3), GraphObjectCreationError, r"""
        add_host_to_device_fifo() was given the handle 3, which is not text.
          next:  a handle must be a string, as in 'weights'."""),
    ("handle a list", lambda w: w.graph.create_host_read(["x"], w.x), GraphObjectCreationError, r"""
        create_host_read() was given the handle ['x'], which is not text.
          next:  a handle must be a string, as in 'weights'."""),
    ("name no text", lambda w: w.graph.add_variable(FLOAT, 3, 5), GraphObjectCreationError, r"""
        add_variable() was given the name 5, which is not text.
          next:  a name must be a string, as in 'weights'."""),
    ("name of a compute set no text", lambda w: w.graph.add_compute_set(Scale), GraphObjectCreationError, r"""
        add_compute_set() was given the name test_errors.Scale, which is not text.
          next:  a name must be a string, as in 'weights'."""),
    ("handle taken", lambda w: w.graph.add_device_to_host_fifo("into", FLOAT, 3), GraphObjectCreationError, r"""
        There is already a handle 'into'.
          where: DataStream('into', host to device, 3 FLOAT)
          next:  choose another name."""),
    ("host handle taken", lambda w: w.graph.create_host_write("read", w.x), GraphObjectCreationError, r"""
        There is already a handle 'read'.
          where: the handle by which the host reads Tensor('x', FLOAT, shape (4, 3))
          next:  choose another name."""),
    ("stream of nothing", lambda w: w.graph.add_device_to_host_fifo("s", FLOAT, 0), GraphObjectCreationError, r"""
        The stream 's' was given the size 0, which is not valid.
          next:  give the number of elements of one transfer, 1 or more."""),
    ("stream of a shape", lambda w: w.graph.add_device_to_host_fifo("s", FLOAT, (2, 3)), GraphObjectCreationError, r"""
        The stream 's' was given the size (2, 3), which is not valid.
          next:  give the number of elements of one transfer, 1 or more."""),
    ("host write of a constant", lambda w: w.graph.create_host_write("k", w.k), GraphObjectCreationError, r"""
        create_host_write() would write to the constant 'k'.
          where: Tensor('k', FLOAT, shape (3,))
          next:  create the tensor with graph.add_variable, or give its values in graph.add_constant."""),
    ("host read of a name", lambda w: w.graph.create_host_read("s", "x"), GraphObjectCreationError, r"""
        'x' is not a tensor of this graph.
          next:  use a tensor that this graph's add_variable or add_constant returned, or a view of one."""),
    ("host read of a foreign tensor", lambda w: w.graph.create_host_read("s", w.alien_tensor), GraphObjectCreationError, r"""
        Tensor('alien', FLOAT, shape (3,)) is not a tensor of this graph.
          next:  use a tensor that this graph's add_variable or add_constant returned, or a view of one."""),
    ("stream unconnected", lambda w: w.engine(Sequence(Copy(w.into, w.v))).run(), StreamConnectionError, r"""
        The stream 'into' is not connected.
          where: Copy(into to 'v')
          next:  engine.connect_stream('into', …) before run."""),
    ("stream unknown", lambda w: w.engine(Sequence()).connect_stream("intoo", [1]), StreamConnectionError, r"""
        There is no stream 'intoo'.
          next:  did you mean 'into'? The streams are 'into', 'out'."""),
    ("stream unknown, none there",
     lambda w: Engine(w.alien_graph, Sequence()).connect_stream("into", [1]),
     StreamConnectionError, r"""
        There is no stream 'into'.
          next:  add one with graph.add_host_to_device_fifo or graph.add_device_to_host_fifo before you create the engine."""),
    ("stream by object", lambda w: w.engine(Sequence()).connect_stream(w.into, [1]), StreamConnectionError, r"""
        There is no stream DataStream('into', host to device, 3 FLOAT).
          next:  name it by its handle: connect_stream('into', …)."""),
    ("stream size", lambda w: fed(w, np.ones(4)), StreamConnectionError, r"""
        The stream 'into' moves 3 elements in each transfer, but was connected to an array of 4.
          next:  connect 3 elements, or a multiple: each transfer uses the next 3."""),
    ("stream empty", lambda w: fed(w, []), StreamConnectionError, r"""
        The stream 'into' moves 3 elements in each transfer, but was connected to an array of 0.
          next:  connect 3 elements, or a multiple: each transfer uses the next 3."""),
    ("stream text", lambda w: fed(w, "123"), StreamConnectionError, r"""
        The stream 'into' sends data to the device, so it cannot be connected to '123'.
          next:  connect an array, an iterator of arrays, or a function that returns one."""),
    ("stream None", lambda w: fed(w, None), StreamConnectionError, r"""
        The stream 'into' sends data to the device, so it cannot be connected to None.
          next:  connect an array, an iterator of arrays, or a function that returns one."""),
    ("stream tensor", lambda w: fed(w, w.v), StreamConnectionError, r"""
        The stream 'into' sends data to the device, so it cannot be connected to Tensor('v', FLOAT, shape (3,)).
          next:  connect an array, an iterator of arrays, or a function that returns one."""),
    ("stream values", lambda w: fed(w, [1e300, 2, 3]), StreamConnectionError, r"""
        The stream 'into': FLOAT holds numbers up to 3.40282e+38; element [0] is 1e+300.
          next:  choose another dtype, or round and clip the values first."""),
    ("stream ran dry", lambda w: fed(w, iter([[1, 2, 3]]), 2), StreamConnectionError, r"""
        The stream 'into' ran dry: its iterator gave 1 transfer, but the program reads one more.
          next:  give an endless iterator (itertools.cycle), or repeat fewer times."""),
    ("stream never flowed", lambda w: fed(w, iter([])), StreamConnectionError, r"""
        The stream 'into' ran dry: its iterator gave 0 transfers, but the program reads one more.
          next:  give an endless iterator (itertools.cycle), or repeat fewer times."""),
    ("stream iterator size", lambda w: fed(w, iter([[1, 2, 3], [4]]), 2), StreamConnectionError, r"""
        The stream 'into' needs 3 elements for each transfer, but was given 1.
          where: transfer 2 of the iterator
          next:  give arrays of 3 elements, or change the size of the stream."""),
    ("stream iterator values", lambda w: fed(w, iter([["a", "b", "c"]])), StreamConnectionError, r"""
        The stream 'into': ['a', 'b', 'c'] holds text, not numbers.
          where: transfer 1 of the iterator
          next:  give numbers that FLOAT holds."""),
    ("stream function size", lambda w: fed(w, lambda: 5), StreamConnectionError, r"""
        The stream 'into' needs 3 elements for each transfer, but was given 1.
          where: what the connected function returned
          next:  give arrays of 3 elements, or change the size of the stream."""),
    ("stream function None", lambda w: fed(w, lambda: None), StreamConnectionError, r"""
        The stream 'into': None is not a number.
          where: what the connected function returned
          next:  give numbers that FLOAT holds."""),
    ("stream callback",
     lambda w: w.engine(Sequence()).connect_stream_to_callback("into", [1, 2, 3]),
     StreamConnectionError, r"""
        The stream 'into' was given [1, 2, 3], which is not a function.
          next:  give a function; connect arrays, iterators and lists with connect_stream."""),
    ("sink None", lambda w: drained(w, None), StreamConnectionError, r"""
        The stream 'out' sends data to the host, so it cannot be connected to None.
          next:  connect an array to fill, a list to append to, or a function that takes one array."""),
    ("sink tuple", lambda w: drained(w, (1, 2, 3)), StreamConnectionError, r"""
        The stream 'out' sends data to the host, so it cannot be connected to (1, 2, 3).
          next:  connect an array to fill, a list to append to, or a function that takes one array."""),
    ("sink class", lambda w: drained(w, list), StreamConnectionError, r"""
        The stream 'out' sends data to the host, so it cannot be connected to list.
          next:  connect an array to fill, a list to append to, or a function that takes one array."""),
    ("sink function", lambda w: drained(w, lambda: None), StreamConnectionError, r"""
        The stream 'out' was connected to a function that cannot be called with one argument.
          next:  write `def take(values):`, which gets an array."""),
    ("stream function", lambda w: fed(w, lambda first, second: first), StreamConnectionError, r"""
        The stream 'into' was connected to a function that cannot be called with no argument.
          next:  write `def give():`, which returns an array."""),
    ("sink dtype", lambda w: drained(w, np.zeros(3)), StreamConnectionError, r"""
        The stream 'out' has dtype FLOAT, but was connected to an array of float64.
          next:  connect an array of dtype float32: np.empty(3, np.float32)."""),
    ("sink size", lambda w: drained(w, np.zeros(4, np.float32)), StreamConnectionError, r"""
        The stream 'out' moves 3 elements in each transfer, but was connected to an array of 4.
          next:  connect 3 elements, or a multiple: each transfer uses the next 3."""),
    ("sink not contiguous", lambda w: drained(w, np.zeros(6, np.float32)[::2]), StreamConnectionError, r"""
        The stream 'out' was connected to an array that cannot be filled in place: it is not contiguous.
          next:  connect a new array: np.empty(3, np.float32)."""),
    ("sink read-only", lambda w: drained(w, frozen(np.zeros(3, np.float32))), StreamConnectionError, r"""
        The stream 'out' was connected to an array that cannot be filled in place: it is read-only.
          next:  connect a new array: np.empty(3, np.float32)."""),
]

THE_ENGINE: list[Case] = [
    ("run before load", lambda w: w.compile().run(), TensorIOStateError, r"""
        The engine is not loaded on a device.
          next:  call engine.load(device) first."""),
    ("read before load", lambda w: w.compile().read_tensor("read"), TensorIOStateError, r"""
        The engine is not loaded on a device.
          next:  call engine.load(device) first."""),
    ("write before load", lambda w: w.compile().write_tensor("write", np.zeros((4, 3))), TensorIOStateError, r"""
        The engine is not loaded on a device.
          next:  call engine.load(device) first."""),
    ("load no device", lambda w: w.compile().load(IPUModel()), TensorIOStateError, r"""
        load() was given IPUModel('ipu2', tiles_per_ipu=1472, num_ipus=1), which is not a device.
          next:  give it IPUModel(…).create_device()."""),
    ("load another machine", lambda w: w.compile().load(IPUModel(tiles_per_ipu=4).create_device()), TensorIOStateError, r"""
        The engine was compiled for another machine than this device.
          where: tiles_per_ipu: 3 in the graph, 4 on the device
          next:  build the graph for the device: Graph(device.target)."""),
    ("load another clock", lambda w: w.compile().load(other_clock()), TensorIOStateError, r"""
        The engine was compiled for another machine than this device.
          where: tile_clock_frequency: 1330000000.0 in the graph, 1000000000.0 on the device
          next:  build the graph for the device: Graph(device.target)."""),
    ("program number", lambda w: w.engine(Sequence()).run(1), ControlProgramError, r"""
        There is no program 1.
          next:  call run(0), because the engine has only one program."""),
    ("program number of several", lambda w: w.engine(Sequence(), Sequence()).run(-1), ControlProgramError, r"""
        There is no program -1.
          next:  give run() a program number from 0 to 1."""),
    ("program number no int", lambda w: w.engine(Sequence()).run("main"), ControlProgramError, r"""
        There is no program 'main'.
          next:  call run(0), because the engine has only one program."""),
    ("program number a bool", lambda w: w.engine(Sequence()).run(True), ControlProgramError, r"""
        There is no program True.
          next:  call run(0), because the engine has only one program."""),
    ("run a program", lambda w: w.engine(Sequence()).run(Sequence()), ControlProgramError, r"""
        There is no program Sequence(0 programs).
          next:  call run(0), because the engine has only one program."""),
    ("read unknown", lambda w: w.engine(Sequence()).read_tensor("x"), TensorIOStateError, r"""
        The host cannot read under the handle 'x'.
          next:  The handles to read are 'read'; call graph.create_host_read('name', tensor) before you create \
                 the engine."""),
    ("read misspelt", lambda w: w.engine(Sequence()).read_tensor("Read"), TensorIOStateError, r"""
        The host cannot read under the handle 'Read'.
          next:  did you mean 'read'? The handles to read are 'read'; call graph.create_host_read('name', tensor) before you create \
                 the engine."""),
    ("read a handle to write", lambda w: w.engine(Sequence()).read_tensor("write"), TensorIOStateError, r"""
        The host cannot read under the handle 'write'.
          where: 'write' is the handle by which the host writes Tensor('x', FLOAT, shape (4, 3))
          next:  The handles to read are 'read'; call graph.create_host_read('name', tensor) before you create \
                 the engine."""),
    ("write a handle to read", lambda w: w.engine(Sequence()).write_tensor("read", 0), TensorIOStateError, r"""
        The host cannot write under the handle 'read'.
          where: 'read' is the handle by which the host reads Tensor('x', FLOAT, shape (4, 3))
          next:  The handles to write are 'write'; call graph.create_host_write('name', tensor) before you create \
                 the engine."""),
    ("read by tensor", lambda w: w.engine(Sequence()).read_tensor(w.x), TensorIOStateError, r"""
        The host cannot read under the handle Tensor('x', FLOAT, shape (4, 3)).
          next:  The handles to read are 'read'; call graph.create_host_read('name', tensor) before you create \
                 the engine."""),
    ("write size", lambda w: w.engine(Sequence()).write_tensor("write", 0), TensorIOStateError, r"""
        write_tensor('write') was given 1 value for 12 elements.
          where: Tensor('x', FLOAT, shape (4, 3))
          next:  give one value for each element, in the order of the tensor."""),
    ("write values", lambda w: w.engine(Sequence()).write_tensor("write", [["a"] * 3] * 4), TensorIOStateError, r"""
        write_tensor('write'): [['a', 'a', 'a'], ['a', 'a', 'a'], ['a', 'a', 'a'], ['a', 'a', 'a']] holds text, not numbers.
          next:  give numbers that FLOAT holds."""),
]
# fmt: on

ALL = [
    *DTYPES_AND_HOST_VALUES,
    *VARIABLES,
    *VIEWS,
    *TILE_MAPPING,
    *VERTICES,
    *VERTICES_IN_BULK,
    *PERF_ESTIMATES,
    *RACES,
    *MEMORY,
    *CODELETS,
    *PROGRAMS,
    *HANDLES_AND_STREAMS,
    *THE_ENGINE,
]


def spelled_out(text: str) -> str:
    """A text of the tables as the error prints it."""
    joined = re.sub(r" \\\n *", " ", text)
    marked = re.sub(r"line <([^>]+)>", lambda found: f"line {line(found[1])}", joined)
    return textwrap.dedent(marked).strip()


@pytest.mark.parametrize(
    ("call", "kind", "text"), [case[1:] for case in ALL], ids=[case[0] for case in ALL]
)
def test_errors_word_for_word(
    call: Callable[[World], Any], kind: type[IPUTeachError], text: str
) -> None:
    with pytest.raises(IPUTeachError) as caught:
        call(World())
    assert type(caught.value) is kind
    assert without_line(caught.value) == spelled_out(text)
    check_text(caught.value)


def test_names_of_the_cases_differ() -> None:
    assert len({case[0] for case in ALL}) == len(ALL)


def test_overflow_says_how_much_lies_on_every_tile() -> None:
    for call in (lambda w: (w.big(1100, 1), w.compile(Sequence())), lambda w: w.wide(Bump)):
        w = World()
        with pytest.raises(GraphMemoryAllocationError) as caught:
            call(w)
        found: Any = caught.value.bytes_per_tile
        assert found.shape == (3,) and found.dtype == np.int64 and found.sum() > 4400


def test_the_learners_own_exception_is_kept_as_the_cause() -> None:
    with pytest.raises(CodeletError) as caught:
        World().fails(Raises)
    assert isinstance(caught.value.__cause__, IndexError)
    w = World()
    w.graph.set_initial_value(w.v, 7)
    engine = w.fails(RaisesLate)
    engine.load(w.device)
    with pytest.raises(CodeletError) as caught:
        engine.run()
    assert isinstance(caught.value.__cause__, IndexError)


def test_errors_are_found_under_pythons_names_too() -> None:
    w = World()
    with pytest.raises(IndexError):
        w.v[3]
    with pytest.raises(TypeError):
        Copy(w.v, w.n)
    with pytest.raises(AttributeError):
        _ = IPUModel().nonsense
    assert list(w.many(Bump, 0, x=w.x))[-1].row == 3  # iteration ends at an IndexError


def test_an_error_is_written_as_it_is_printed() -> None:
    given = IPUTeachError(f"""The slice {slice(1, 2)!r} of a tensor
        was taken.
        where: 'x' and
            'y'
        line:  lesson.py:3
        next:  take another: as in
        x[1:2].""")
    assert (given.tried, given.where, given.line, given.next_step) == (
        "The slice slice(1, 2, None) of a tensor was taken.",
        "'x' and 'y'",
        "lesson.py:3",
        "take another: as in x[1:2].",
    )
    by_keywords = IPUTeachError(
        given.tried, where=given.where, line=given.line, next_step=given.next_step
    )
    assert str(by_keywords) == str(given)
    assert str(given) == (
        "The slice slice(1, 2, None) of a tensor was taken.\n  where: 'x' and 'y'\n  line:  lesson.py:3\n"
        "  next:  take another: as in x[1:2]."
    )


def test_an_error_may_lack_every_part_but_the_first() -> None:
    nowhere = ""
    assert str(IPUTeachError("It failed.")) == "It failed."
    assert (
        str(IPUTeachError("It failed.\nAnd how.", next_step="go on."))
        == "It failed.\nAnd how.\n  next:  go on."
    )
    assert str(IPUTeachError(f"""It failed.
        where: {nowhere}
        next:  go on.""")) == "It failed.\n  next:  go on."  # fmt: skip


def test_an_error_may_quote_another_of_several_lines() -> None:
    inner = str(IPUTeachError("Inside.", where="there", next_step="do that."))
    outer = IPUTeachError(f"Outside: {inner}", next_step="do this.")
    assert (outer.tried, outer.where, outer.next_step) == (f"Outside: {inner}", "", "do this.")


def test_an_error_comes_back_whole_from_another_process() -> None:
    error = PoplarIndexError("""It failed.
        where: here
        next:  go on.""")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is PoplarIndexError
    assert vars(again) == vars(error) and str(again) == str(error)


def test_values_are_quoted_on_one_short_line() -> None:
    assert shown([1, 2]) == "[1, 2]"
    assert shown(np.arange(4).reshape(2, 2)) == "array([[0, 1], [2, 3]])"
    assert shown("x" * 1000) == "'" + "x" * 78 + "…" and len(shown(list(range(10**5)))) == 80
    assert shown(10**5000) == "<int>"
    assert (
        shown(object()) == "<object object>"
        and shown(np.float32) == "numpy.float32"
        and shown(int) == "int"
    )
    assert counted(1, "tile") == "1 tile" and counted(1472, "tile") == "1,472 tiles"
    assert counted(0, "vertex", "vertices") == "0 vertices"
    assert did_you_mean("numIPUs", ["num_ipus", "tiles_per_ipu"]) == "did you mean 'num_ipus'? "
    assert did_you_mean("weights", ["bias"]) == did_you_mean(None, ["none"]) == ""


# --- garbage ----------------------------------------------------------------------------------------------------------

NAMES = (
    "factor",
    "a",
    "rows",
    "bias",
    "tiles_per_ipu",
    "num_ipus",
    "relative_sync_delay",
    "ipu_version",
    "nonsense",
)


def garbage(w: World, owner: Any) -> list[Any]:
    """Things that somebody might pass by mistake; some are even right. `owner`: the graph that has a huge tensor."""
    huge = owner.add_variable(FLOAT, (10**5, 10**4), "huge")
    return [
        None, True, 0, 1, 2, 3, -1, 7, 10**9, -(10**30), 10**30, 10**5000, 1.5, -0.0, 1e300, float("nan"), float("inf"), 2j,
        "", "x", "cs", "into", "out", "read", "write", "ipu2", "Graph", "AUTO", "FLOAT", *NAMES, b"12", (), [], {}, {1},
        {"x": 1}, (2, 3), (3,), (4, 3), (-1, 3), (10**9, 10**9), (10**18, 0), (0, 5), [[1], [2, 3]], [[(0, 3)]], [[(0, 99)]],
        [1, 2, 3], ["a"], [None], range(3), range(10**12), slice(0, 2), slice(None, None, -1), slice("a"), ..., (..., 0),
        np.zeros(3, np.float32), np.arange(12).reshape(4, 3), np.zeros((2, 0)), np.array(2), np.array(None), np.int64(1),
        np.float16(2), np.array(["a"]), np.array([np.nan]), np.dtype("f4"), np.float32, int, object(), len, lambda: None,
        FLOAT, HALF, INT, BOOL, Scale, Dot, Rows, Bump, Biased, Idle, Vertex, SupervisorVertex, Graph, Tensor,
        w.x, w.x[0], w.x.T, w.y, w.v, w.n, w.s, w.k, w.x[:0], huge, huge.T, huge.T[::2], concat([w.v, w.v]), [w.v, w.k],
        [w.x, w.n], w.alien_tensor, w.alien_vertex, w.alien_range, w.alien_set, w.alien_stream, w.alien, w.graph, w.cs, w.into,
        w.out, w.device, IPUModel(), w.device.target, Execute(w.cs), Copy(w.into, w.v), Copy(w.v, w.out), Sequence(), Execute,
        Repeat(0, Sequence()), [Sequence()], [Copy(w.x, w.y)], iter([[1, 2, 3]]), itertools.count(), Foreign(),
    ]  # fmt: skip


def named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call with the last two arguments under names, the first of which the third last chooses."""

    def call(*args: Any) -> Any:
        *first, name, value, other = args
        return function(
            *first,
            **{name if isinstance(name, str) and name in NAMES else "x": value, "out": other},
        )

    return call


def calls(w: World, engine: Engine) -> list[tuple[int, Callable[..., Any]]]:
    """(number of arguments, function) of every call in the public interface."""
    g, tensors = w.graph, (w.x, w.v, w.s, w.x.T, concat([w.v, w.k]), w.x[:0])
    found: list[tuple[int, Callable[..., Any]]] = [
        (2, g.add_variable), (3, g.add_variable), (3, g.add_constant), (4, g.add_constant), (2, g.set_initial_value),
        (2, g.set_tile_mapping), (2, g.set_tile_mapping), (1, g.get_tile_mapping), (1, g.add_compute_set), (2, g.add_vertex),
        (3, g.add_vertex), (5, named(g.add_vertex)), (5, named(g.add_vertex)), (3, g.add_vertices), (6, named(g.add_vertices)),
        (2, g.connect), (2, g.set_perf_estimate), (3, g.add_host_to_device_fifo), (3, g.add_device_to_host_fifo),
        (2, g.create_host_read), (2, g.create_host_write), (1, Graph), (1, Device), (1, IPUModel), (4, named(IPUModel)),
        (2, lambda name, value: setattr(IPUModel(), name if isinstance(name, str) and name else "x", value)),
        (2, concat), (1, concat), (3, named(lambda **f: Scale.call(**f))), (3, named(lambda **f: Rows.call(**f))),
        (1, Execute), (2, Copy), (2, Repeat), (1, Sequence), (2, Sequence), (1, lambda p: Engine(g, p)), (2, Engine),
        (1, engine.load), (1, engine.run), (2, engine.load_and_run), (2, engine.connect_stream), (1, engine.read_tensor),
        (2, engine.connect_stream_to_callback), (2, engine.write_tensor), (1, engine.report.steps), (2, engine.report.steps),
        (1, lambda field: w.alien_vertex[field]), (1, lambda index: w.alien_range[index]),
        (1, lambda what: g.set_initial_value(w.v, what)), (1, lambda what: g.set_tile_mapping(w.v, what)),
        (1, lambda what: fed(w, what)), (1, lambda what: drained(w, what)),
        (1, lambda what: g.connect(g.add_vertex(w.cs, Scale)["factor"], what)),
        (2, lambda tiles, x: g.add_vertices(w.cs, Bump, tiles, x=x)),
        (2, lambda x, out: g.add_vertex(w.cs, Scale, x=x, out=out)),
        (1, lambda cycles: g.set_perf_estimate(w.add(Bump, x=w.v), cycles)),
        (1, lambda tiles: g.set_tile_mapping(w.many(Bump, 0, x=w.x), tiles)),
    ]  # fmt: skip
    for t in tensors:
        found += [
            (1, t.__getitem__), (2, lambda a, b, t=t: t[a, b]), (2, t.__setitem__), (2, t.slice), (3, t.slice), (1, t.reshape),
            (1, t.flatten), (2, t.flatten), (1, t.dim_shuffle), (1, t.dim), (0, t.transpose), (0, t.__len__),
        ]  # fmt: skip
    return found


def connected(w: World) -> Engine:
    """A loaded engine of two programs, the second of which uses both streams."""
    engine = w.engine(Sequence(), Sequence(Copy(w.into, w.v), Copy(w.v, w.out)))
    engine.connect_stream("into", [1, 2, 3])
    engine.connect_stream("out", [])
    return engine


NUMBERS = st.integers(0, 10**6)


@given(
    st.booleans(),
    st.lists(st.tuples(NUMBERS, st.lists(NUMBERS, min_size=6, max_size=6)), max_size=8),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.filterwarnings("ignore")
def test_nothing_but_our_errors_comes_out(own: bool, steps: list[tuple[int, list[int]]]) -> None:
    """Whatever is passed to whatever: a result, or an error that explains itself. Nothing allocates what it should not."""
    w = World()
    options = calls(w, connected(w))
    things = garbage(w, w.graph if own else w.alien)
    for choice, picks in steps:
        count, function = options[choice % len(options)]
        try:
            result = function(*(things[p % len(things)] for p in picks[:count]))
            assert len(repr(result)) < 10**6
        except IPUTeachError as error:
            check_text(error)
    try:
        w.compile(Sequence(Execute(w.cs), Copy(w.x, w.y))).load_and_run(w.device)
    except IPUTeachError as error:
        check_text(error)
