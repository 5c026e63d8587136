"""Strict mode: reading what nothing has written is an error that names the reader and the
element."""

from __future__ import annotations

import numpy as np
import pytest
from engine_parts import peek
from hypothesis import given, settings, strategies as st
from lines import without_line

from ipu_teach import (
    BOOL,
    FLOAT,
    INT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Tensor,
    Vector,
    Vertex,
)
from ipu_teach.device import Device
from ipu_teach.errors import (
    CodeletError,
    ComputeSetRaceError,
    InvalidOptionError,
    UninitialisedReadError,
)
from ipu_teach.program import (
    AbortOnCondition,
    Copy,
    Execute,
    If,
    PrintTensor,
    Program,
    Repeat,
    Sequence,
    WriteUndef,
)

NEXT = (
    "  next:  write it first: a Copy, a compute set, graph.set_initial_value, or "
    "Engine.write_tensor."
)


class Move(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.x


class First(Vertex):
    """Writes only the first element of its Output."""

    x: Input[FLOAT]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out[0] = self.x


class Both(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x += 1


def graph_of(**lengths: int) -> tuple[Graph, dict[str, Tensor]]:
    graph = Graph(IPUModel(tiles_per_ipu=4).create_device())
    tensors = {name: graph.add_variable(FLOAT, (n,), name) for name, n in lengths.items()}
    for i, (name, tensor) in enumerate(tensors.items()):
        graph.set_tile_mapping(tensor, i)
        graph.create_host_read(name, tensor)
    return graph, tensors


def vertex(graph: Graph, codelet: type[Vertex], tile: int = 3, **edges: Tensor) -> Program:
    cs = graph.add_compute_set("work")
    graph.set_tile_mapping(graph.add_vertex(cs, codelet, **edges), tile)
    return Execute(cs)


def run(graph: Graph, program: Program, **options: object) -> Engine:

    engine = Engine(graph, program, **options)  # type: ignore[arg-type]
    engine.load_and_run(Device(graph.target))
    return engine


def test_a_vertex_that_reads_unwritten_memory_is_named() -> None:
    graph, t = graph_of(a=4, b=4)
    graph.set_initial_value(t["a"][:2], 1)
    with pytest.raises(UninitialisedReadError) as error:
        run(graph, vertex(graph, Move, x=t["a"], out=t["b"]))
    assert without_line(error.value) == (
        "Move reads element [2] of 'a', which nothing has written.\n"
        "  where: vertex 0 (Move.x, tile 3) of compute set 'work'\n" + NEXT
    )


def test_so_are_inouts_copies_prints_and_predicates() -> None:
    graph, t = graph_of(a=4, b=4)
    with pytest.raises(UninitialisedReadError, match=r"Both reads element \[0\] of 'a'"):
        run(graph, vertex(graph, Both, x=t["a"]))
    with pytest.raises(UninitialisedReadError) as error:
        run(graph, Copy(t["a"], t["b"]))
    assert (
        without_line(error.value)
        == "Copy to 'b' reads element [0] of 'a', which nothing has written.\n" + NEXT
    )
    with pytest.raises(UninitialisedReadError, match=r"PrintTensor\('a'\) reads"):
        run(graph, PrintTensor("a", t["a"]))
    flag = graph.add_variable(BOOL, (), "flag")
    graph.set_tile_mapping(flag, 0)
    with pytest.raises(UninitialisedReadError, match=r"If looks at element \[0\] of 'flag'"):
        run(graph, If(flag, Sequence()))
    with pytest.raises(
        UninitialisedReadError, match=r"AbortOnCondition looks at element \[0\] of 'flag'"
    ):
        run(graph, AbortOnCondition(flag))


def test_what_a_codelet_stores_is_defined_and_no_more() -> None:
    graph, t = graph_of(a=1, b=3, c=1, d=3)
    graph.set_initial_value(t["a"], 5)
    first = vertex(graph, First, x=t["a"][0], out=t["b"])
    engine = run(graph, Sequence(first, Copy(t["b"][:1], t["c"])))
    assert engine.read_tensor("c").tolist() == [5]
    with pytest.raises(UninitialisedReadError, match=r"reads element \[1\] of 'b'"):
        run(graph, Sequence(first, Copy(t["b"], t["d"])))


def test_an_earlier_step_defines_for_a_later_one_and_not_the_reverse() -> None:
    graph, t = graph_of(a=4, b=4, c=4)
    graph.set_initial_value(t["a"], 1)
    move, back = (
        vertex(graph, Move, x=t["a"], out=t["b"]),
        vertex(graph, Move, x=t["b"], out=t["c"]),
    )
    assert run(graph, Sequence(move, back)).read_tensor("c").tolist() == [1] * 4
    with pytest.raises(UninitialisedReadError, match="of 'b'"):
        run(graph, Sequence(back, move))
    # In a loop the second round could read what the first wrote; the first round may not.
    with pytest.raises(UninitialisedReadError, match="of 'b'"):
        run(graph, Repeat(2, Sequence(back, move)))


def test_write_undef_takes_definedness_away_until_the_next_write() -> None:
    graph, t = graph_of(a=4, b=4, c=4)
    graph.set_initial_value(t["a"], 1)
    graph.set_initial_value(t["c"], 2)
    move = vertex(graph, Move, x=t["a"], out=t["b"])
    assert (
        run(graph, Sequence(move, WriteUndef(t["a"]), Copy(t["c"], t["a"]), move))
        .read_tensor("b")
        .tolist()
        == [2] * 4
    )
    with pytest.raises(UninitialisedReadError, match="Move reads element"):
        run(graph, Sequence(move, WriteUndef(t["a"][1:2]), move))
    with pytest.raises(UninitialisedReadError, match="Move reads element"):
        run(graph, Repeat(2, Sequence(move, WriteUndef(t["a"]))))
    poisoned = run(graph, Sequence(move, WriteUndef(t["b"])))
    with pytest.raises(UninitialisedReadError, match="reads element .* of .b., which nothing"):
        poisoned.read_tensor("b")
    assert np.isnan(peek(poisoned, "b")).all()


def test_a_host_write_defines() -> None:
    graph, t = graph_of(a=4, b=4)
    graph.create_host_write("in", t["a"])
    engine = Engine(graph, vertex(graph, Move, x=t["a"], out=t["b"]))

    engine.load(Device(graph.target))
    with pytest.raises(UninitialisedReadError):
        engine.run()
    engine.write_tensor("in", [1, 2, 3, 4])
    engine.run()
    assert engine.read_tensor("b").tolist() == [1, 2, 3, 4]


def test_unwritten_memory_is_poisoned() -> None:
    graph, _ = graph_of(a=2)
    n = graph.add_variable(INT, (2,), "n")
    flag = graph.add_variable(BOOL, (1,), "flag")
    for tensor, name in ((n, "n"), (flag, "flag")):
        graph.set_tile_mapping(tensor, 0)
        graph.create_host_read(name, tensor)
    engine = run(graph, Sequence(), strict=False)
    assert np.isnan(engine.read_tensor("a")).all()
    assert engine.read_tensor("n").tolist() == [-(2**31)] * 2
    assert engine.read_tensor("flag").tolist() == [True]


def test_each_check_can_be_switched_off_by_itself() -> None:
    graph, t = graph_of(a=4, b=4)
    program = vertex(graph, Move, x=t["a"], out=t["b"])
    for strict in (False, {"uninitialised": False}):
        assert np.isnan(run(graph, program, strict=strict).read_tensor("b")).all()
    with pytest.raises(UninitialisedReadError):
        run(graph, program, strict={"races": False, "estimates": False})
    with pytest.raises(InvalidOptionError) as error:
        run(graph, program, strict={"speed": False})
    assert str(error.value) == (
        "strict was given {'speed': False}, which is neither a bool nor a dict of known checks.\n"
        '  next:  give True, False, or a dict such as {"races": False}; the checks are races, '
        "uninitialised, estimates."
    )


def test_a_race_that_is_let_pass_runs_in_vertex_order() -> None:
    graph, t = graph_of(a=1, b=1, c=1)
    graph.set_initial_value(t["a"], 1)
    graph.set_initial_value(t["b"], 2)
    cs = graph.add_compute_set("race")
    for name in ("a", "b"):
        graph.set_tile_mapping(graph.add_vertex(cs, Move, x=t[name], out=t["c"]), 0)
    with pytest.raises(ComputeSetRaceError):
        run(graph, Execute(cs))
    engine = run(graph, Execute(cs), strict={"races": False})
    assert engine.read_tensor("c").tolist() == [2]
    assert engine.report.unbatched() == {
        "Move": "In compute set 'race' element [0] of 'c' is written twice."
    }


@settings(max_examples=100)
@given(st.data())
def test_random_programs_against_one_bit_an_element(data: st.DataObject) -> None:
    """A plain interpreter keeps a bool for each element; the engine must stop at the same step, or
    not at all.

    What is not written at the end is NaN, and nothing else. The three tensors are variables, or
    parts of one.
    """
    length = data.draw(st.integers(1, 6))
    names = ["a", "b", "c"]
    if data.draw(st.booleans()):
        graph, t = graph_of(**dict.fromkeys(names, length))
    else:
        graph, whole = graph_of(whole=3 * length)
        t = {name: whole["whole"][i * length : (i + 1) * length] for i, name in enumerate(names)}
        for name in names:
            graph.create_host_read(name, t[name])
    known = {name: [False] * length for name in names}
    for name in names:
        if data.draw(st.integers(0, 3)):
            graph.set_initial_value(t[name], 1)
            known[name] = [True] * length
    steps: list[Program] = []
    # what is read; what is written, or no longer so
    does: list[tuple[str, range, str, range, bool]] = []
    for _ in range(data.draw(st.integers(1, 6))):
        kind = data.draw(
            st.sampled_from(["move", "move", "first", "both", "copy", "undef", "undef"])
        )
        x, y = data.draw(st.permutations(names))[:2]
        low = data.draw(st.integers(0, length - 1))
        high = data.draw(st.integers(low + 1, length))
        some = range(low, high)
        if kind == "move":
            steps.append(vertex(graph, Move, x=t[x][low:high], out=t[y][low:high]))
        elif kind == "first":
            some = range(low, low + 1)
            steps.append(vertex(graph, First, x=t[x][low], out=t[y][low:high]))
        elif kind == "both":
            y = x
            steps.append(vertex(graph, Both, x=t[x][low:high]))
        elif kind == "copy":
            steps.append(Copy(t[x][low:high], t[y][low:high]))
        else:
            steps.append(WriteUndef(t[x][low:high]))
        does.append((x, range(0), x, some, False) if kind == "undef" else (x, some, y, some, True))
    rounds = data.draw(st.integers(1, 3))
    ran = 0
    for reads, read, writes, written, value in does * rounds:
        if not all(known[reads][i] for i in read):
            break
        ran += 1
        for i in written:
            known[writes][i] = value
    for loop in (False, True):
        engine = Engine(
            graph, Repeat(rounds, Sequence(steps)), vertex_loop=loop, merge_copies=False
        )
        engine.load(Device(graph.target))
        if ran < rounds * len(steps):
            with pytest.raises(UninitialisedReadError):
                engine.run()
        else:
            engine.run()
        assert engine.report.num_steps == ran
        for name in names:
            assert (~np.isnan(peek(engine, name))).tolist() == known[name]
            if all(known[name]):
                assert np.array_equal(engine.read_tensor(name), peek(engine, name))
            else:
                with pytest.raises(UninitialisedReadError):
                    engine.read_tensor(name)


class Refusing(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            self.out[i] = self.x[i] / self.x[0] if self.x[0] > 1 else self.x[len(self.x)]


@pytest.mark.parametrize("loop", [False, True])
def test_nobody_sees_what_a_write_undef_left_for_later(loop: bool) -> None:
    """It waits for a step that stores all anew; but not for the host, and not for a step that comes
    to no end."""
    graph, t = graph_of(a=4, b=4)
    graph.set_initial_value(t["a"], 1)
    graph.set_initial_value(t["b"], 2)
    graph.create_host_write("in", t["b"])
    stream = graph.add_host_to_device_fifo("seen", FLOAT, 4)
    seen: list[list[float]] = []
    engine = Engine(
        graph,
        Sequence(WriteUndef(t["b"]), Copy(stream, t["a"]), Copy(t["b"], t["a"])),
        vertex_loop=loop,
    )

    def look() -> np.ndarray:
        seen.append(peek(engine, "b").tolist())
        engine.write_tensor("in", np.arange(4))
        return np.ones(4, np.float32)

    engine.connect_stream("seen", look)
    engine.load_and_run(Device(graph.target))
    assert np.isnan(seen[0]).all() and engine.read_tensor("a").tolist() == [0, 1, 2, 3]
    work = vertex(graph, Refusing, x=t["a"], out=t["b"])
    engine = Engine(graph, Sequence(WriteUndef(t["b"]), work), vertex_loop=loop)
    engine.load(Device(graph.target))
    with pytest.raises(CodeletError):
        engine.run()
    assert np.isnan(peek(engine, "b")).all()
