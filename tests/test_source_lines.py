"""An error of the compiler or the run quotes the line of the learner's program that made what is
wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from ipu_teach import (
    FLOAT,
    Engine,
    Executable,
    Graph,
    Input,
    IPUModel,
    Output,
    Tensor,
    Vector,
    Vertex,
    compile_graph,
)
from ipu_teach.errors import (
    ComputeSetRaceError,
    GraphConnectionError,
    GraphMemoryAllocationError,
    InvalidTileMappingError,
    IPUTeachError,
    UninitialisedReadError,
)
from ipu_teach.graph.source import caller, file_name, in_words
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Program, Sequence


class Move(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.x


class Bench:
    def __init__(self) -> None:
        self.device = IPUModel(tiles_per_ipu=2, memory_bytes_per_tile=4096).create_device()
        self.graph = Graph(self.device)
        self.cs = self.graph.add_compute_set("cs")

    def variable(self, name: str, length: int = 4) -> Tensor:
        tensor = self.graph.add_variable(FLOAT, length, name)
        self.graph.set_tile_mapping(tensor, 0)
        return tensor

    def error(self, kind: type[IPUTeachError], program: Program | None = None) -> IPUTeachError:
        with pytest.raises(kind) as caught:
            Engine(self.graph, program or Execute(self.cs)).load_and_run(self.device)
        return caught.value


def quoted(function: Callable[..., object], mark: str) -> str:
    """How an error quotes the one line of `function` that ends in the comment `mark`."""
    lines, first = inspect.getsourcelines(function)
    number, text = next(
        (first + i, line.strip())
        for i, line in enumerate(lines)
        if line.rstrip().endswith(f"# {mark}")
    )
    return f"test_source_lines.py, line {number}: {text}"[
        : len(f"test_source_lines.py, line {number}: ") + 100
    ]


def test_an_unmapped_variable() -> None:
    bench = Bench()
    bench.graph.add_variable(FLOAT, 4, "lost")  # here
    error = bench.error(InvalidTileMappingError)
    assert error.line == quoted(test_an_unmapped_variable, "here")
    assert str(error) == (
        f"The variable 'lost' is not mapped to any tile.\n  line:  {error.line}\n  next:  "
        "graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor)."
    )


def test_a_vertex_of_a_loop_and_the_one_after_it() -> None:
    bench = Bench()
    x, out = bench.variable("x"), bench.variable("out")
    bench.graph.set_initial_value(x, 0)
    for i in range(4):
        part = slice(i, i + 1)
        vertex = bench.graph.add_vertex(bench.cs, Move, x=x[part], out=out[part])  # loop
        bench.graph.set_tile_mapping(vertex, 0)
    vertex = bench.graph.add_vertex(bench.cs, Move, x=x[:1], out=out[2:3])  # after
    bench.graph.set_tile_mapping(vertex, 1)
    error = bench.error(ComputeSetRaceError)
    this = test_a_vertex_of_a_loop_and_the_one_after_it
    assert error.line == f"{quoted(this, 'loop')}; and {quoted(this, 'after')}"


def test_two_calls_that_add_in_bulk() -> None:
    bench = Bench()
    x, out = bench.variable("x"), bench.variable("out")
    bench.graph.set_initial_value(x, 0)
    one, place = x[:1].reshape((1, 1)), out[2:3].reshape((1, 1))
    x, out = x.reshape((4, 1)), out.reshape((4, 1))
    bench.graph.add_vertices(bench.cs, Move, 0, x=x, out=out)  # first
    bench.graph.add_vertices(bench.cs, Move, 1, x=one, out=place)  # second
    error, this = bench.error(ComputeSetRaceError), test_two_calls_that_add_in_bulk
    assert error.line == f"{quoted(this, 'first')}; and {quoted(this, 'second')}"


def test_vertices_added_in_bulk() -> None:
    bench = Bench()
    x, out = bench.variable("x"), bench.variable("out")
    pairs = [t.reshape((2, 2)) for t in (x, out)]
    bench.graph.add_vertices(bench.cs, Move, 0, x=pairs[0], out=pairs[1])  # bulk
    error = bench.error(UninitialisedReadError)
    assert error.line == quoted(test_vertices_added_in_bulk, "bulk")


def test_an_unconnected_field_an_unmapped_vertex_and_a_region_too_large() -> None:
    this = test_an_unconnected_field_an_unmapped_vertex_and_a_region_too_large
    bench = Bench()
    vertex = bench.graph.add_vertex(bench.cs, Move, x=bench.variable("x"))  # made
    assert bench.error(GraphConnectionError).line == quoted(this, "made")
    bench.graph.connect(vertex["out"], bench.variable("out"))
    assert bench.error(InvalidTileMappingError).line == quoted(this, "made")
    big = Bench()
    halves = [big.graph.add_variable(FLOAT, 700, name) for name in ("a", "b")]
    for half in halves:
        big.graph.set_tile_mapping(half, [[(0, 350)], [(350, 700)]])
    wide = big.graph.add_vertex(big.cs, Move, x=halves[0], out=halves[1])  # wide
    big.graph.set_tile_mapping(wide, 0)
    assert big.error(GraphMemoryAllocationError).line == quoted(this, "wide")


def test_a_copy() -> None:
    bench = Bench()
    x, out = bench.variable("x"), bench.variable("out")
    copy = Copy(x, out)  # copy
    assert bench.error(UninitialisedReadError, copy).line == quoted(test_a_copy, "copy")


def test_a_library_call_is_quoted_and_not_a_line_of_the_library() -> None:
    bench = Bench()
    x = bench.variable("x")
    program = Sequence()
    popops.add(bench.graph, x, 1, program)  # called
    error = bench.error(UninitialisedReadError, program)
    assert error.line == quoted(
        test_a_library_call_is_quoted_and_not_a_line_of_the_library, "called"
    )


def test_a_saved_executable_no_longer_knows_the_lines() -> None:
    bench = Bench()
    x, out = bench.variable("x"), bench.variable("out")
    bench.graph.set_tile_mapping(bench.graph.add_vertex(bench.cs, Move, x=x, out=out), 0)
    again = Executable.deserialize(
        compile_graph(bench.graph, Execute(bench.cs)).serialize(), codelets=[Move]
    )
    with pytest.raises(UninitialisedReadError) as caught:
        Engine(again).load_and_run(bench.device)
    assert caught.value.line == "" and "line:" not in str(caught.value)


def test_lines_in_words() -> None:
    path, number = caller()
    assert path == __file__ and in_words((path, number)).endswith("path, number = caller()")
    assert (
        in_words(("", 0)) == ""
        and in_words(("/no/such/file.py", 7), ("/no/such/file.py", 7)) == "file.py, line 7"
    )
    assert (
        file_name("/tmp/ipykernel_42/1234.py") == file_name("<ipython-input-3>") == "notebook cell"
    )
    assert np.char.count(in_words((__file__, 1), (__file__, 2)), "; and ") == 1
