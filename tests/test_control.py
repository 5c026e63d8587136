"""Control flow on the device: loops and branches that look at what has just been written, and what
they cost."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ipu_teach import (
    BOOL,
    FLOAT,
    INT,
    UNSIGNED_INT,
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
from ipu_teach.errors import ApplicationRuntimeError, ControlProgramError, GraphObjectCreationError
from ipu_teach.program import (
    Abort,
    AbortOnCondition,
    Block,
    Call,
    Copy,
    ErrorProgram,
    Execute,
    If,
    PrintTensor,
    PrintTensorFmt,
    Program,
    Repeat,
    RepeatWhileFalse,
    RepeatWhileTrue,
    Sequence,
    Switch,
    Sync,
    SyncType,
    WriteUndef,
    cycle_count,
    cycle_stamp,
)
from ipu_teach.types import Array


class Add(Vertex):
    x: InOut[INT]
    step: INT = 1

    def compute(self) -> None:
        self.x += self.step


class Below(Vertex):
    x: Input[INT]
    limit: INT
    yes: Output[BOOL]

    def compute(self) -> None:
        self.yes = self.x < self.limit


class Machine:
    """A graph with integer variables x and y, a BOOL, and programs that add to them."""

    def __init__(self, **initial: int) -> None:
        self.device = IPUModel(tiles_per_ipu=3).create_device()
        self.graph = Graph(self.device)
        self.numbers = {name: self.variable(INT, name, initial.get(name, 0)) for name in ("x", "y")}
        self.flag = self.variable(BOOL, "flag", False)

    def variable(self, dtype: type, name: str, value: object) -> Tensor:
        tensor = self.graph.add_variable(dtype, (), name)
        self.graph.set_tile_mapping(tensor, 0)
        self.graph.set_initial_value(tensor, value)  # type: ignore[arg-type]
        self.graph.create_host_read(name, tensor)
        return tensor

    def add(self, name: str, step: int = 1) -> Program:
        cs = self.graph.add_compute_set(f"add {step} to {name}")
        self.graph.set_tile_mapping(
            self.graph.add_vertex(cs, Add, x=self.numbers[name], step=step), 1
        )
        return Execute(cs)

    def below(self, name: str, limit: int) -> Program:
        cs = self.graph.add_compute_set(f"{name} below {limit}")
        vertex = self.graph.add_vertex(cs, Below, x=self.numbers[name], limit=limit, yes=self.flag)
        self.graph.set_tile_mapping(vertex, 2)
        return Execute(cs)

    def run(self, program: Program, *, vertex_loop: bool = False) -> Engine:
        engine = Engine(self.graph, program, vertex_loop=vertex_loop)
        engine.load_and_run(self.device)
        return engine

    def values(self, program: Program) -> tuple[int, int]:
        found = []
        for loop in (False, True):
            engine = self.run(program, vertex_loop=loop)
            found.append((int(engine.read_tensor("x")), int(engine.read_tensor("y"))))
        assert found[0] == found[1]
        return found[0]


@pytest.mark.parametrize(("start", "limit"), [(0, 5), (5, 5), (9, 5), (-3, 1)])
def test_repeat_while_true_counts_up_to_its_limit(start: int, limit: int) -> None:
    m = Machine(x=start)
    assert m.values(RepeatWhileTrue(m.below("x", limit), m.flag, m.add("x"))) == (
        max(start, limit),
        0,
    )


def test_repeat_while_false_stops_when_the_condition_holds() -> None:
    m = Machine(x=10)
    assert m.values(RepeatWhileFalse(m.below("x", 4), m.flag, m.add("x", -2))) == (2, 0)


@pytest.mark.parametrize(("start", "expected"), [(1, (1, 10)), (7, (7, 100))])
def test_if_takes_one_branch(start: int, expected: tuple[int, int]) -> None:
    m = Machine(x=start)
    assert (
        m.values(Sequence(m.below("x", 5), If(m.flag, m.add("y", 10), m.add("y", 100)))) == expected
    )


def test_if_without_an_else_does_nothing() -> None:
    m = Machine(x=9)
    assert m.values(Sequence(m.below("x", 5), If(m.flag, m.add("y", 10)))) == (9, 0)


@pytest.mark.parametrize(("control", "y"), [(0, 1), (3, 10), (-2, 100), (8, 1000)])
def test_switch_takes_the_case_that_fits(control: int, y: int) -> None:
    m = Machine(x=control)
    switch = Switch(
        m.numbers["x"], [(0, m.add("y", 1)), (3, m.add("y", 10))], m.add("y", 1000)
    ).add(-2, m.add("y", 100))
    assert m.values(switch) == (control, y)


def test_switch_with_bounds_checking_stops_the_run() -> None:
    m = Machine(x=4)
    with pytest.raises(ApplicationRuntimeError) as error:
        m.run(Switch.switch_with_bounds_checking(m.numbers["x"], {0: m.add("y"), 2: m.add("y")}))
    assert str(error.value) == (
        "A Switch read the number 4, but has no case for it.\n"
        "  where: its cases are [0, 2]\n"
        "  next:  add the case, or use a Switch with a default."
    )


def test_a_default_that_is_promised_to_be_unreachable_is_checked() -> None:
    m = Machine(x=2)
    switch = Switch.switch_with_unreachable_default(m.numbers["x"], [(2, m.add("y", 5))])
    assert m.values(switch) == (2, 5)
    with pytest.raises(
        ApplicationRuntimeError, match="A Switch read the number 2, but has no case for it."
    ):
        m.run(Switch.switch_with_unreachable_default(m.numbers["x"], [(1, m.add("y"))]))


def test_a_function_is_called_from_several_places() -> None:
    m = Machine()
    bump = m.graph.add_function(Sequence(m.add("x"), m.add("y", 2)))
    assert m.values(Sequence(Call(bump), Repeat(3, Call(bump)), Block(Call(bump), "last"))) == (
        5,
        10,
    )


def test_a_function_that_calls_itself_is_refused() -> None:
    m = Machine()
    body = Sequence()
    body.add(Call(m.graph.add_function(body, "loop")))
    with pytest.raises(ControlProgramError, match="contains itself"):
        m.run(body)


def test_abort_and_its_kin_say_why() -> None:
    m = Machine(x=1)
    with pytest.raises(ApplicationRuntimeError) as error:
        m.run(Sequence(m.add("x"), Abort("enough")))
    assert str(error.value) == "The program stopped itself: enough."
    with pytest.raises(ApplicationRuntimeError) as error:
        m.run(Sequence(m.below("x", 5), AbortOnCondition(m.flag, "x is small")))
    assert (
        str(error.value) == "The program stopped itself: x is small.\n  where: 'flag' is not zero"
    )
    assert m.values(Sequence(m.below("x", 0), AbortOnCondition(m.flag))) == (1, 0)


def test_an_error_program_runs_its_program_first() -> None:
    m = Machine(x=3)
    engine = Engine(m.graph, ErrorProgram("bad x", PrintTensor("x", m.numbers["x"])))
    engine.load(m.device)
    out = io.StringIO()
    engine.set_print_tensor_stream(out)
    with pytest.raises(ApplicationRuntimeError, match="bad x"):
        engine.run()
    assert out.getvalue() == "x: 3\n"


def printed(values: Array, fmt: PrintTensorFmt | None = None) -> str:
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    tensor = graph.add_variable(
        FLOAT if values.dtype.kind == "f" else UNSIGNED_INT, values.shape, "v"
    )
    graph.set_tile_mapping(tensor, 0)
    graph.set_initial_value(tensor, values)
    engine = Engine(graph, PrintTensor("v", tensor, fmt))
    out = io.StringIO()
    engine.set_print_tensor_stream(out)
    engine.load_and_run(device)
    return out.getvalue()


def test_print_tensor_writes_seven_decimals() -> None:
    assert printed(np.array([1, 1.5, 2, 2.5])) == "v: [1.0000000 1.5000000 2.0000000 2.5000000]\n"
    assert (
        printed(np.array([[0.0, 1], [1.5, 2]]))
        == "v: [[0.0000000 1.0000000]\n [1.5000000 2.0000000]]\n"
    )
    assert printed(np.arange(3)) == "v: [0 1 2]\n"
    fmt = PrintTensorFmt(digits=2, separator=", ", open_bracket="{", close_bracket="}")
    assert printed(np.array([1, 2.5]), fmt) == "v: {1.00, 2.50}\n"


def test_print_tensor_leaves_out_the_middle_of_a_long_one() -> None:
    text = printed(np.arange(5000), PrintTensorFmt(edge_items=2))
    assert text == "v: [   0    1 ... 4998 4999]\n"


def test_without_a_stream_it_prints_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    m = Machine(x=7)
    m.run(PrintTensor(m.numbers["x"]))
    assert capsys.readouterr().err == "x: 7\n"


def test_cycle_count_equals_the_steps_between() -> None:
    m = Machine()
    body = Sequence(m.add("x"), Repeat(4, m.add("y")))
    count = cycle_count(m.graph, body, 2)
    m.graph.create_host_read("count", count)
    engine = m.run(Sequence(m.add("x"), body))
    low, high = engine.read_tensor("count").tolist()
    steps = engine.report.steps()
    inside = [s for s in steps if s.kind == "Execute"][1:]
    assert len(inside) == 5 and low + (high << 32) == sum(s.cycles for s in inside)


def test_cycle_stamps_grow() -> None:
    m = Machine()
    program = Sequence()
    stamps = [cycle_stamp(m.graph, program, 0) for _ in range(2)]
    for i, stamp in enumerate(stamps):
        m.graph.create_host_read(f"stamp{i}", stamp)
    engine = m.run(program)
    first, second = (int(engine.read_tensor(f"stamp{i}")[0]) for i in range(2))
    assert second - first == m.device.target.internal_sync_cycles


def test_syncs_cost_what_the_target_says() -> None:
    m = Machine()
    target = m.device.target
    for kind, cycles in (
        (SyncType.INTERNAL, target.internal_sync_cycles),
        (SyncType.EXTERNAL, target.internal_sync_cycles + target.global_sync_cycles),
        (SyncType.GLOBAL, target.internal_sync_cycles + target.global_sync_cycles),
    ):
        assert m.run(Sync(kind)).report.total_cycles == cycles


def test_execute_answers_with_the_and_of_all_vertices() -> None:
    class Positive(Vertex):
        x: Input[FLOAT]
        seen: Output[FLOAT]

        def compute(self) -> bool:
            self.seen = self.x
            return self.x > 0  # type: ignore[no-any-return]

    class Silent(Vertex):
        x: Input[Vector[FLOAT]]
        seen: Output[FLOAT]

        def compute(self) -> None:
            self.seen = self.x[0]

    for values, expected in (([1, 2, 3], True), ([1, -2, 3], False)):
        for loop in (False, True):
            device = IPUModel(tiles_per_ipu=2).create_device()
            graph = Graph(device)
            x = graph.add_variable(FLOAT, (3,), "x")
            seen = graph.add_variable(FLOAT, (4,), "seen")
            out = graph.add_variable(BOOL, (), "out")
            for tensor in (x, seen, out):
                graph.set_tile_mapping(tensor, 0)
            graph.set_initial_value(x, values)
            graph.create_host_read("out", out)
            cs = graph.add_compute_set("positive")
            for i in range(3):
                graph.set_tile_mapping(graph.add_vertex(cs, Positive, x=x[i], seen=seen[i]), i % 2)
            graph.set_tile_mapping(graph.add_vertex(cs, Silent, x=x, seen=seen[3]), 1)
            engine = Engine(graph, Execute(cs, out), vertex_loop=loop)
            engine.load_and_run(device)
            assert bool(engine.read_tensor("out")) is expected


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda m: If(m.graph.add_variable(INT, 2), Sequence()),
            "If was given 2 elements of INT as its predicate.",
        ),
        (
            lambda m: AbortOnCondition(m.graph.add_variable(FLOAT, 1)),
            "AbortOnCondition was given 1 element of FLOAT as its predicate.",
        ),
        (
            lambda m: If(True, Sequence()),
            "If was given True as its predicate, which is not a tensor.",
        ),
        (lambda m: If(m.flag, None), "If was given None, which is not a program."),
        (
            lambda m: Switch(m.flag, []),
            "Switch was given 1 element of BOOL as its control.",
        ),
        (
            lambda m: Switch(m.numbers["x"], [(0, Sequence()), (0, Sequence())]),
            "Switch was given the case 0 twice.",
        ),
        (
            lambda m: Switch(m.numbers["x"], 3),
            "Switch was given the cases 3, which are not pairs of a number and a program.",
        ),
        (
            lambda m: Call(Sequence()),
            "Call was given Sequence(0 programs), which is not a function of a graph.",
        ),
        (lambda m: PrintTensor("only a title"), "PrintTensor was given 'only a title'."),
        (lambda m: WriteUndef(3), "WriteUndef was given 3, which is not a tensor."),
        (lambda m: Sync("INTERNAL"), "Sync was given 'INTERNAL', which is not a SyncType."),
        (
            lambda m: cycle_count(m.graph, m.add("x"), 0),
            "cycle_count was given Execute(add 1 to x), which is not a Sequence.",
        ),
    ],
)
def test_a_malformed_program_is_refused_when_it_is_made(make, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ControlProgramError) as error:
        make(Machine())
    assert str(error.value).splitlines()[0] == text


def test_a_number_that_is_no_predicate_is_to_be_compared() -> None:
    m = Machine()
    for tensor, advice in (
        (
            m.graph.add_variable(FLOAT, 1),
            "compare the tensor with a number, for example with popops.gt. The dtype ",
        ),
        (
            m.graph.add_variable(FLOAT, 2),
            "select one element, such as tensor[0]. The dtype must be one of BOOL, INT,",
        ),
    ):
        with pytest.raises(ControlProgramError) as error:
            RepeatWhileTrue(Sequence(), tensor, Sequence())
        assert f"\n  next:  {advice}" in str(error.value)
    assert "next:" in str(error.value)


def test_a_predicate_of_another_graph_is_refused() -> None:
    m, other = Machine(), Machine()
    with pytest.raises(GraphObjectCreationError, match="another graph"):
        m.run(If(other.flag, m.add("x")))


def test_without_arguments_nothing_has_an_address() -> None:
    m = Machine()
    programs = [
        RepeatWhileTrue(Sequence(), m.flag, m.add("x")),
        If(m.flag, Sequence()),
        Switch(m.numbers["x"]),
        Sync(),
        Abort("a"),
        AbortOnCondition(m.flag),
        ErrorProgram("e", Sequence()),
        PrintTensor(m.flag),
        WriteUndef(m.flag),
        Block(Sync(), "b"),
    ]
    for program in programs:
        assert not re.search(r"0x[0-9a-f]{6}", repr(program)) and repr(program).startswith(
            type(program).__name__
        )


# Random programs against a plain interpreter of the same tree.


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> tuple:  # type: ignore[type-arg]
    kinds = (
        ["add"]
        if depth == 0
        else ["add", "add", "sequence", "repeat", "if", "while", "switch", "call"]
    )
    kind = draw(st.sampled_from(kinds))
    name = draw(st.sampled_from(["x", "y"]))
    sub = trees(depth - 1) if depth else st.nothing()
    if kind == "add":
        return ("add", name, draw(st.integers(-3, 3)))
    if kind == "sequence":
        return ("sequence", draw(st.lists(sub, max_size=3)))
    if kind == "repeat":
        return ("repeat", draw(st.integers(0, 3)), draw(sub))
    if kind == "if":
        return ("if", name, draw(st.integers(-2, 4)), draw(sub), draw(sub))
    if kind == "while":
        return ("while", name, draw(st.integers(-2, 6)))
    if kind == "switch":
        return (
            "switch",
            name,
            draw(
                st.lists(st.tuples(st.integers(-2, 4), sub), max_size=3, unique_by=lambda c: c[0])
            ),
            draw(sub),
        )
    return ("call", draw(sub))


def interpret(tree: tuple, values: dict[str, int]) -> None:  # type: ignore[type-arg]
    kind, *rest = tree
    if kind == "add":
        values[rest[0]] += rest[1]
    elif kind == "sequence":
        for part in rest[0]:
            interpret(part, values)
    elif kind == "repeat":
        for _ in range(rest[0]):
            interpret(rest[1], values)
    elif kind == "if":
        interpret(rest[2] if values[rest[0]] < rest[1] else rest[3], values)
    elif kind == "while":
        values[rest[0]] = max(values[rest[0]], rest[1])
    elif kind == "switch":
        interpret(dict(rest[1]).get(values[rest[0]], rest[2]), values)
    else:
        interpret(rest[0], values)
        interpret(rest[0], values)


def build(tree: tuple, m: Machine) -> Program:  # type: ignore[type-arg]
    kind, *rest = tree
    if kind == "add":
        return m.add(rest[0], rest[1])
    if kind == "sequence":
        return Sequence([build(part, m) for part in rest[0]])
    if kind == "repeat":
        return Repeat(rest[0], build(rest[1], m))
    if kind == "if":
        return Sequence(m.below(rest[0], rest[1]), If(m.flag, build(rest[2], m), build(rest[3], m)))
    if kind == "while":
        return RepeatWhileTrue(m.below(rest[0], rest[1]), m.flag, m.add(rest[0]))
    if kind == "switch":
        return Switch(m.numbers[rest[0]], [(n, build(t, m)) for n, t in rest[1]], build(rest[2], m))
    function = m.graph.add_function(build(rest[0], m))
    return Sequence(Call(function), Call(function))


@settings(max_examples=60)
@given(trees())
def test_random_programs_do_what_a_plain_interpreter_does(tree: tuple) -> None:  # type: ignore[type-arg]
    values = {"x": 0, "y": 0}
    interpret(tree, values)
    m = Machine()
    assert m.values(build(tree, m)) == (values["x"], values["y"])


def test_copies_inside_a_branch_happen_only_there() -> None:
    m = Machine(x=8, y=1)
    program = Sequence(m.below("y", 5), If(m.flag, Copy(m.numbers["x"], m.numbers["y"])))
    assert m.values(program) == (8, 8)


def test_programs_take_poplars_name_as_their_last_argument() -> None:
    device = IPUModel(tiles_per_ipu=2).create_device()
    graph = Graph(device)
    x, y = (graph.add_variable(INT, (1,), name) for name in "xy")
    flag = graph.add_variable(BOOL, (1,), "flag")
    for tensor in (x, y, flag):
        graph.set_tile_mapping(tensor, 0)
        graph.set_initial_value(tensor, 0)
    work = Copy(x, y, name="move")
    named = [
        Repeat(3, work, "training"),
        If(flag, work, None, "choice"),
        RepeatWhileTrue(Sequence(), flag, work, "search"),
        Switch(x, [(0, work)], None, "branches"),
        Call(graph.add_function(work), "update"),
        WriteUndef(y, "forget"),
        Sync(SyncType.INTERNAL, "barrier"),
    ]
    engine = Engine(graph, Sequence(*named))
    (root,) = engine.executable.compiled.programs
    assert [child.name for child in root.children] == [
        "training: Repeat 3",
        "choice: If",
        "search: RepeatWhileTrue",
        "branches: Switch",
        "update: function0",
        "forget",
        "barrier",
    ]
    assert root.children[0].children[0].name == "move"
