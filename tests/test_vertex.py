"""What a learner writes: vertex classes, their fields, and one vertex run by hand."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import ipu_teach
from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    UNSIGNED_CHAR,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    SupervisorVertex,
    Target,
    Vector,
    Vertex,
)
from ipu_teach.errors import (
    CodeletError,
    UndeclaredNameError,
    UnknownFieldError,
    VertexDefinitionError,
)
from ipu_teach.graph.vertex import Field
from ipu_teach.program import Execute


class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


class Everything(Vertex):
    """One field of every kind."""

    scalar: Input[FLOAT]
    vector: Input[Vector[HALF]]
    matrix: Input[Vector[Vector[INT]]]
    rows: Input[Vector[Vector[FLOAT]]]
    count: InOut[INT]
    total: InOut[Vector[FLOAT]]
    one: Output[BOOL]
    many: Output[Vector[UNSIGNED_CHAR]]
    table: Output[Vector[Vector[FLOAT]]]
    lists: Output[Vector[Vector[FLOAT]]]
    scale: FLOAT = 0.5
    note: ClassVar[str] = "class variables are not fields"

    def compute(self) -> None:
        self.one = self.scalar > 0
        self.many = 255
        self.many[0] = self.matrix[1, 2]
        self.table = self.scale
        self.table[0] = self.vector
        self.lists[0] = 1
        self.lists[1] = self.rows[1]
        self.total += self.rows[0].sum()
        self.count = self.count + len(self.rows[1])
        self.scale = self.scale * 2


# --- declarations ---------------------------------------------------------------------------------


def test_fields_are_parsed() -> None:
    assert list(Everything.fields.values()) == [
        Field("scalar", "input", FLOAT, 0),
        Field("vector", "input", HALF, 1),
        Field("matrix", "input", INT, 2),
        Field("rows", "input", FLOAT, 2),
        Field("count", "inout", INT, 0),
        Field("total", "inout", FLOAT, 1),
        Field("one", "output", BOOL, 0),
        Field("many", "output", UNSIGNED_CHAR, 1),
        Field("table", "output", FLOAT, 2),
        Field("lists", "output", FLOAT, 2),
        Field("scale", "state", FLOAT, 0, 0.5),
    ]
    assert [f.declaration() for f in Everything.fields.values()] == [
        "Input[FLOAT]",
        "Input[Vector[HALF]]",
        "Input[Vector[Vector[INT]]]",
        "Input[Vector[Vector[FLOAT]]]",
        "InOut[INT]",
        "InOut[Vector[FLOAT]]",
        "Output[BOOL]",
        "Output[Vector[UNSIGNED_CHAR]]",
        "Output[Vector[Vector[FLOAT]]]",
        "Output[Vector[Vector[FLOAT]]]",
        "FLOAT",
    ]
    assert DotProduct.a == Field("a", "input", FLOAT, 1)
    assert Vertex.fields == {} and SupervisorVertex.fields == {}


def test_string_annotations_of_a_module() -> None:
    source = """
        from __future__ import annotations
        import ipu_teach as kit
        from ipu_teach import FLOAT, Input, Output, Vector, Vertex
        class Add(Vertex):
            a: Input[Vector[FLOAT]]
            b: "Input[FLOAT]"
            out: kit.Output[kit.Vector[kit.FLOAT]]
            bias: FLOAT = 1
            def compute(self):
                self.out = self.a + self.b + self.bias
    """
    module: dict[str, Any] = {"__name__": "lesson"}
    exec(textwrap.dedent(source), module)
    add = module["Add"]
    assert [f.declaration() for f in add.fields.values()] == [
        "Input[Vector[FLOAT]]",
        "Input[FLOAT]",
        "Output[Vector[FLOAT]]",
        "FLOAT",
    ]
    assert add.call(a=[1, 2], b=3, out=2).tolist() == [5, 6]


def test_string_annotations_of_a_local_class() -> None:
    from ipu_teach import FLOAT as NUMBER

    Edge = Input  # names that only this function knows

    class Local(Vertex):
        x: Edge[Vector[NUMBER]]
        out: Output[NUMBER]

        def compute(self) -> None:
            self.out = self.x[0]

    assert isinstance(vars(Local)["__annotations__"]["x"], str)
    assert Local.call(x=[4, 5]) == 4
    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    x, out = graph.add_variable(FLOAT, 2), graph.add_variable(FLOAT, ())
    graph.set_initial_value(x, [6, 7])
    cs = graph.add_compute_set()
    for tensor in (x, out, graph.add_vertex(cs, Local, x=x, out=out)):
        graph.set_tile_mapping(tensor, 0)
    graph.create_host_read("out", out)
    engine = Engine(graph, Execute(cs))
    engine.load_and_run(IPUModel(tiles_per_ipu=1).create_device())
    assert engine.read_tensor("out") == 6


def test_fields_are_inherited() -> None:
    class Base(Vertex):
        x: Input[FLOAT]
        out: Output[FLOAT]
        k: FLOAT = 2

        def compute(self) -> None:
            self.out = self.f(self.x) * self.k

        def f(self, value: Any) -> Any:
            return value

    class Squared(Base):
        k = 10.0  # a new default

        def f(self, value: Any) -> Any:
            return value * value

    class Integer(Base):
        x: Input[INT]
        offset: INT = 0

    class Mixed(Squared, Integer):
        pass

    assert Base.call(x=3) == 6 and Squared.call(x=3) == 90 and Squared.call(x=3, k=1) == 9
    assert Integer.fields["x"].dtype is INT and Base.fields["x"].dtype is FLOAT
    assert list(Integer.fields) == ["x", "out", "k", "offset"]
    assert (
        Mixed.fields["k"].default == 10
        and Mixed.fields["x"].dtype is INT
        and "offset" in Mixed.fields
    )
    assert Mixed.call(x=3) == 90


def bad(name: str, annotation: Any, **body: Any) -> Callable[[], Any]:
    """A call that defines the class Bad with that field."""

    def define() -> Any:
        return type(
            "Bad",
            (Vertex,),
            {"__annotations__": {name: annotation}, "compute": lambda self: None, **body},
        )

    return define


FIELDS = (
    "  next:  write Input[T], Output[T] or InOut[T], where T is a dtype such as FLOAT, "
    "Vector[FLOAT] or Vector[Vector[FLOAT]]; or a bare dtype, or Vector[FLOAT], for state."
)


@pytest.mark.parametrize(
    ("define", "text"),
    [
        (bad("x", float), f"Bad.x is declared as float, which is not a field.\n{FIELDS}"),
        (
            bad("x", Input[float]),
            f"Bad.x is declared as Input[float], which is not a field.\n{FIELDS}",
        ),
        (bad("x", Input), f"Bad.x is declared as Input, which is not a field.\n{FIELDS}"),
        (
            bad("x", Vector[Vector[FLOAT]]),
            f"Bad.x is declared as Vector[Vector[FLOAT]], which is not a field.\n{FIELDS}",
        ),
        (
            bad("x", Output[Vector[Vector[Vector[FLOAT]]]]),
            "Bad.x is declared as Output[Vector[Vector[Vector[FLOAT]]]], which is not a "
            f"field.\n{FIELDS}",
        ),
        (
            bad("x", "Input[FLOAT"),
            "Bad.x: the annotation 'Input[FLOAT' cannot be read: '[' was never closed (<string>, "
            "line 1).\n  next:  import the names that it uses before the class.",
        ),
        (
            bad("x", "Inptu[FLOAT]"),
            "Bad.x: the annotation 'Inptu[FLOAT]' cannot be read: name 'Inptu' is not defined."
            "\n  next:  import the names that it uses before the class.",
        ),
        (
            bad("compute", Input[FLOAT]),
            "Bad declares a field 'compute', but the kit uses this name itself.\n"
            "  next:  choose another name.",
        ),
        (
            bad("call", FLOAT),
            "Bad declares a field 'call', but the kit uses this name itself.\n"
            "  next:  choose another name.",
        ),
        (
            bad("_x", Input[FLOAT]),
            "Bad declares a field '_x', whose name begins with an underscore.\n"
            "  next:  let its name start with a letter.",
        ),
        (
            bad("x", Input[FLOAT], x=3),
            "Bad.x is declared as Input[FLOAT] and set to 3, but only state has a default.\n"
            "  next:  connect a tensor that holds the value.",
        ),
        (
            bad("x", INT, x=0.5),
            "Bad.x: INT holds whole numbers from -2,147,483,648 to 2,147,483,647; the value is "
            "0.5.\n  next:  choose another dtype, or round and clip the values first.",
        ),
        (
            bad("x", FLOAT, x=[1, 2]),
            "Bad.x is set to [1, 2], but its declaration is for a single number.\n"
            "  next:  give one number; for several, declare Vector[FLOAT].",
        ),
        (
            bad("x", FLOAT, compute=lambda self: (yield)),
            "Bad.compute is not a plain method.\n  next:  write `def compute(self):`, without yield "
            "and async.",
        ),
        (
            bad("x", FLOAT, cycles=5),
            "Bad.cycles is not a plain method.\n  next:  write `def cycles(self, target):`, without "
            "yield and async.",
        ),
    ],
)
def test_bad_declarations(define: Callable[[], Any], text: str) -> None:
    with pytest.raises(VertexDefinitionError) as caught:
        define()
    assert str(caught.value) == text


def test_private_annotations_are_left_alone() -> None:
    class Quiet(Vertex):
        _table: list[int]
        x: Output[FLOAT]

        def compute(self) -> None:
            self.x = 1

    assert list(Quiet.fields) == ["x"] and Quiet.call() == 1


# --- one vertex by hand ---------------------------------------------------------------------------


def test_call_with_every_kind_of_field() -> None:
    found = Everything.call(
        scalar=2,
        vector=[1, 2.5],
        matrix=[[1, 2, 3], [4, 5, 6]],
        rows=[[1.0, 2], [3]],
        count=7,
        total=np.zeros(2),
        many=3,
        table=(2, 2),
        lists=[3, 1],
    )
    assert list(found) == ["count", "total", "one", "many", "table", "lists"]
    assert found["count"] == 8 and isinstance(found["count"], np.int32)
    assert found["total"].tolist() == [3, 3] and found["total"].dtype == np.float32
    assert found["one"] is np.True_
    assert found["many"].tolist() == [6, 255, 255] and found["many"].dtype == np.uint8
    assert found["table"].tolist() == [[1, 2.5], [0.5, 0.5]]
    assert [row.tolist() for row in found["lists"]] == [[1, 1, 1], [3]]


def test_call_rounds_to_the_fields_dtype() -> None:
    class Third(Vertex):
        x: Input[HALF]
        out: Output[HALF]

        def compute(self) -> None:
            self.out = self.x / np.float16(3)

    assert Third.call(x=1) == np.float16(1) / np.float16(3)


def test_call_leaves_the_callers_arrays_alone() -> None:
    class Clear(Vertex):
        x: InOut[Vector[FLOAT]]

        def compute(self) -> None:
            self.x[0] = 0

    mine = np.ones(3, np.float32)
    assert Clear.call(x=mine).tolist() == [0, 1, 1]
    assert mine.tolist() == [1, 1, 1]


def test_call_shows_what_was_not_written() -> None:
    class Half(Vertex):
        f: Output[Vector[FLOAT]]
        i: Output[Vector[INT]]
        b: Output[Vector[BOOL]]

        def compute(self) -> None:
            self.f[0], self.i[0], self.b[0] = 1, 2, False

    found = Half.call(f=2, i=2, b=2)
    assert (
        str(found["f"]) == "[ 1. nan]"
        and found["i"].tolist() == [2, -(2**31)]
        and found["b"].tolist() == [False, True]
    )


def test_call_takes_an_output_that_holds_something() -> None:
    class Second(Vertex):
        x: Output[Vector[FLOAT]]

        def compute(self) -> None:
            self.x[1] = 9

    assert Second.call(x=np.zeros(3)).tolist() == [0, 9, 0]


def test_call_of_a_vertex_without_outputs() -> None:
    class Quiet(Vertex):
        x: Input[FLOAT]

        def compute(self) -> None:
            pass

    assert Quiet.call(x=1) == {}


def test_the_learners_own_exception_comes_through_call() -> None:
    class Fails(Vertex):
        out: Output[FLOAT]

        def compute(self) -> None:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="^mine$"):
        Fails.call()


class Setter(Vertex):
    """Does to its fields what `deed` says."""

    inp: Input[Vector[FLOAT]]
    one: Input[FLOAT]
    out: Output[FLOAT]
    vec: Output[Vector[FLOAT]]
    rows: Output[Vector[Vector[FLOAT]]]
    deed: ClassVar[Callable[[Any], None]]

    def compute(self) -> None:
        type(self).deed(self)


def iadd(name: str, value: Any) -> Callable[[Any], None]:
    def deed(self: Any) -> None:
        setattr(
            self,
            name,
            getattr(self, name).__iadd__(value) if name == "vec" else getattr(self, name) + value,
        )

    return deed


def assign(name: str, value: Any) -> Callable[[Any], None]:
    return lambda self: setattr(self, name, value)


LISTED = (
    "inp: Input[Vector[FLOAT]], one: Input[FLOAT], out: Output[FLOAT], vec: Output[Vector[FLOAT]]"
)


@pytest.mark.parametrize(
    ("deed", "text"),
    [
        (
            assign("inp", 1),
            "Setter.compute() assigns to its Input 'inp'.\n"
            "  next:  an Input is only read; declare inp: InOut[Vector[FLOAT]] to change it.",
        ),
        (
            assign("one", 1),
            "Setter.compute() assigns to its Input 'one'.\n"
            "  next:  an Input is only read; declare one: InOut[FLOAT] to change it.",
        ),
        (
            iadd("out", 1),
            "Setter.compute() reads its Output 'out'.\n  next:  an Output is only written. For +=, "
            "declare out: InOut[FLOAT], or add up in a local variable and assign once.",
        ),
        (
            iadd("vec", 1),
            "Setter.compute() changes its Output 'vec' in place.\n"
            "  next:  an Output is only written. For +=, declare vec: InOut[Vector[FLOAT]].",
        ),
        (
            assign("vecc", 1),
            "Setter.compute() assigns to self.vecc, which is not a declared field.\n  next:  did you "
            "mean 'vec'? Use a local variable, or declare it as state in the class.",
        ),
        (
            assign("total", 1),
            "Setter.compute() assigns to self.total, which is not a declared field.\n"
            "  next:  Use a local variable, or declare it as state in the class.",
        ),
        (
            lambda self: self.onne,
            "Setter.compute() reads self.onne, which is not a declared field.\n  next:  did you mean "
            f"'one'? Its fields are {LISTED}, rows: Output[Vector[Vector[FLOAT]]].",
        ),
        (
            assign("vec", [1, 2, 3]),
            "Setter.compute() assigns to 'vec' a value that does not fit: the field has shape (4,), the "
            "value (3,).\n  next:  assign one number, or as many as the field has.",
        ),
        (
            assign("out", [1, 2]),
            "Setter.compute() assigns to 'out' a value that does not fit: the field has shape (), the "
            "value (2,).\n  next:  assign one number, or as many as the field has.",
        ),
        (
            assign("rows", [[1]]),
            "Setter.compute() assigns to 'rows' a value that does not fit: the field is a list of 2 "
            "vectors; the value is [[1]].\n  next:  assign one number, or as many as the field "
            "has.",
        ),
        (
            assign("rows", 5),
            "Setter.compute() assigns to 'rows' a value that does not fit: the field is a list of 2 "
            "vectors; the value is 5.\n  next:  assign one number, or as many as the field has.",
        ),
        (
            assign("rows", 2.5),
            "Setter.compute() assigns to 'rows' a value that does not fit: the field is a list of 2 "
            "vectors; the value is 2.5.\n  next:  assign one number, or as many as the field has.",
        ),
    ],
)
def test_what_compute_may_not_do(
    deed: Callable[[Any], None], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Setter, "deed", staticmethod(deed), raising=False)
    with pytest.raises(CodeletError) as caught:
        Setter.call(inp=[1], one=2, vec=4, rows=[1, 2])
    assert str(caught.value) == text
    assert isinstance(caught.value, AttributeError) == isinstance(caught.value, UndeclaredNameError)


class Counts(Vertex):
    x: Input[FLOAT]
    n: Output[Vector[INT]]

    def compute(self) -> None:
        self.n = self.x


@pytest.mark.parametrize(("x", "error"), [(np.nan, ValueError), (np.inf, OverflowError)])
def test_what_is_no_whole_number_is_no_matter_of_shapes(x: float, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"cannot convert float (NaN|infinity) to integer$"):
        Counts.call(x=x, n=2)


def test_an_input_vector_is_read_only() -> None:
    class Writes(Vertex):
        x: Input[Vector[FLOAT]]
        rows: Input[Vector[Vector[FLOAT]]]

        def compute(self) -> None:
            with pytest.raises(ValueError, match="read-only"):
                self.x[0] = 1
            with pytest.raises(ValueError, match="read-only"):
                self.rows[1][0] = 1

    Writes.call(x=[1, 2], rows=[[1], [2, 3]])


ALL: dict[str, Any] = {
    "scalar": 2,
    "vector": [1, 2.5],
    "matrix": [[1] * 3] * 2,
    "rows": [[1.0, 2], [3]],
    "count": 7,
    "total": [0, 0],
    "many": 3,
    "table": (2, 2),
    "lists": [3, 1],
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"scalar": None},
            "Everything.call() was given no value for 'scalar'.\n"
            "  next:  pass scalar=…, declared as Input[FLOAT].",
        ),
        (
            {"scalar": [1]},
            "Everything.call(): 'scalar' is declared as Input[FLOAT], but was given shape (1,).\n"
            "  next:  give a single number.",
        ),
        (
            {"vector": 3},
            "Everything.call(): 'vector' is declared as Input[Vector[HALF]], but was given shape "
            "().\n  next:  give a one-dimensional array.",
        ),
        (
            {"matrix": [1, 2]},
            "Everything.call(): 'matrix' is declared as Input[Vector[Vector[INT]]], but was given "
            "shape (2,).\n  next:  give a two-dimensional array, or a list of one-dimensional "
            "ones.",
        ),
        (
            {"matrix": [[1.5]]},
            "Everything.call(), matrix: INT holds whole numbers from -2,147,483,648 to "
            "2,147,483,647; element [0] is 1.5.\n  next:  choose another dtype, or round and clip "
            "the values first.",
        ),
        (
            {"rows": [[1], [[2, 3]]]},
            "Everything.call(), rows: [[1], [[2, 3]]] does not form an array.\n"
            "  next:  give one number, or rows of equal length.",
        ),
        (
            {"vector": "text"},
            "Everything.call(), vector: 'text' is not a number.\n"
            "  next:  give numbers that HALF holds.",
        ),
        (
            {"vector": [1e6]},
            "Everything.call(), vector: HALF holds numbers up to 65,504; element [0] is "
            "1000000.0.\n  next:  choose another dtype, or round and clip the values first.",
        ),
        (
            {"one": True},
            "Everything.call() was given True for its Output 'one'.\n"
            "  next:  a single-element Output takes nothing; leave one=… out.",
        ),
        (
            {"many": None},
            "Everything.call() needs the size of its Output 'many'.\n  next:  pass it by name, as "
            "in many=4.",
        ),
        (
            {"many": -1},
            "Everything.call() was given the size -1 for its Output 'many'.\n"
            "  next:  pass it by name, as in many=4.",
        ),
        (
            {"many": (2, 3)},
            "Everything.call() was given the size (2, 3) for its Output 'many'.\n"
            "  next:  pass it by name, as in many=4.",
        ),
        (
            {"many": 10**12},
            "Everything.call() was given the size 1000000000000 for its Output 'many'.\n"
            "  next:  pass it by name, as in many=4.",
        ),
        (
            {"table": 4},
            "Everything.call() was given the size 4 for its Output 'table'.\n"
            "  next:  pass it by name, as in table=(2, 3), or [2, 3] for a list of vectors.",
        ),
        (
            {"table": None},
            "Everything.call() needs the size of its Output 'table'.\n"
            "  next:  pass it by name, as in table=(2, 3), or [2, 3] for a list of vectors.",
        ),
    ],
)
def test_wrong_calls(change: dict[str, Any], text: str) -> None:
    with pytest.raises(CodeletError) as caught:
        Everything.call(**{k: v for k, v in {**ALL, **change}.items() if v is not None})
    assert str(caught.value) == text


def test_call_with_an_unknown_field() -> None:
    with pytest.raises(UnknownFieldError) as caught:
        DotProduct.call(a=[1], c=[1])
    assert str(caught.value) == (
        "DotProduct has no field 'c'.\n  next:  Its fields are a: Input[Vector[FLOAT]], b: "
        "Input[Vector[FLOAT]], out: Output[FLOAT]."
    )


def test_a_vertex_is_not_made_by_calling_its_class() -> None:
    with pytest.raises(VertexDefinitionError) as caught:
        DotProduct()
    assert str(caught.value) == (
        "DotProduct() was called, but only a graph makes vertices.\n"
        "  next:  graph.add_vertex(compute_set, DotProduct, …). To try the class: "
        "DotProduct.call(…)."
    )


def test_a_vertex_needs_compute() -> None:
    class Nothing(Vertex):
        x: Input[FLOAT]

    for kind in (Nothing, SupervisorVertex):
        with pytest.raises(VertexDefinitionError) as caught:
            kind.call(x=1)
        assert str(caught.value) == (
            f"{kind.__name__} has no compute().\n  next:  define `def compute(self):` in the class."
        )


# --- costs ----------------------------------------------------------------------------------------


def cycles_of(codelet: type[Vertex], tiles: int = 2, vertices: int = 1) -> Any:
    device = IPUModel(tiles_per_ipu=tiles).create_device()
    graph = Graph(device)
    cs = graph.add_compute_set("cs")
    for _ in range(vertices):
        x, out = graph.add_variable(FLOAT, 10), graph.add_variable(FLOAT, ())
        for what in (x, out, graph.add_vertex(cs, codelet, x=x, out=out)):
            graph.set_tile_mapping(what, 0)
        graph.set_initial_value(x, np.arange(10))
    engine = Engine(graph, Execute(cs))
    engine.load_and_run(device)
    return engine.report.compute_sets[0].cycles_per_tile.tolist()


class Worker(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def cycles(self, target: Target) -> int:
        return 100 + len(self.x) * target.num_worker_contexts

    def compute(self) -> None:
        self.out = self.x[0]


class Alone(SupervisorVertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def cycles(self, target: Target) -> int:
        return 100 + len(self.x)

    def compute(self) -> None:
        self.out = self.x[0]


def test_cycles_of_a_worker_and_of_a_supervisor() -> None:
    assert cycles_of(Worker) == [6 * 160, 0]
    assert cycles_of(Worker, vertices=7) == [2 * 6 * 160, 0]
    assert cycles_of(Alone) == [110, 0]
    assert cycles_of(Alone, vertices=7) == [7 * 110, 0]
    assert Worker.context == "worker" and Alone.context == "supervisor"


# --- type checkers --------------------------------------------------------------------------------

LESSON = """
from typing import Any

import numpy as np

from ipu_teach import (
    FLOAT, INT, Engine, Graph, InOut, Input, IPUModel, Output, SupervisorVertex, Target, Vector, Vertex, concat,
)
from ipu_teach.program import Copy, Execute, Repeat, Sequence


class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


class Loop(Vertex):
    rows: Input[Vector[Vector[FLOAT]]]
    count: InOut[INT]
    out: Output[Vector[FLOAT]]
    bias: FLOAT

    def compute(self) -> None:
        total = np.float32(0)
        for value in self.rows[0]:
            total += value * self.bias
        self.out[0] = total
        self.count += 1
        self.bias = 0.5


class Alone(SupervisorVertex):
    x: Input[Vector[FLOAT]]

    def cycles(self, target: Target) -> int:
        return len(self.x) // target.get_vector_width(FLOAT)

    def compute(self) -> None:
        pass


model = IPUModel("ipu2", tiles_per_ipu=13)
model.num_ipus = 2
device = model.create_device()
graph = Graph(device.target)
matrix = graph.add_variable(FLOAT, (26, 64), "matrix")
vector = graph.add_constant(FLOAT, 64, np.arange(64.0))
result = graph.add_variable(FLOAT, [26])
stream = graph.add_host_to_device_fifo("in", FLOAT, 26 * 64)
graph.set_tile_mapping(concat([matrix.flatten(), vector]), 0)
cs = graph.add_compute_set("dot")
for row in range(26):
    v = graph.add_vertex(cs, DotProduct, a=matrix[row], b=vector, out=result[row])
    graph.set_tile_mapping(v, row // 2)
graph.set_initial_value(v["out"], 1)
graph.add_vertices(cs, DotProduct, [0, 1], a=matrix[:2], b=vector.reshape((1, 64)), out=result[:2])
engine = Engine(graph, [Sequence(Copy(stream, matrix), Execute(cs)), Repeat(2, Execute(cs))])
engine.load(device)
engine.connect_stream("in", np.zeros((26, 64)))
engine.run(1)
best: Any = DotProduct.call(a=[1, 2], b=[3, 4])
shape: tuple[int, ...] = matrix.T.shape
"""

WRONG = (
    LESSON
    + """
DotProduct.undeclared
graph.add_variable(float, 3)
matrix + 1
def show(v: DotProduct) -> None:
    print(v.vetcor)
"""
)


def mypy(path: Path, source: str) -> tuple[int, str]:
    path.write_text(source, encoding="utf-8")
    options = [
        "--strict",
        "--no-error-summary",
        "--follow-imports=silent",
        "--cache-dir",
        str(path.parent / "cache"),
    ]
    env = dict(os.environ, MYPYPATH=str(Path(ipu_teach.__file__).parents[1]), NO_COLOR="1")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, path.name],
        cwd=path.parent,
        env=env,
        text=True,
        capture_output=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_mypy_accepts_a_learners_file_and_sees_its_slips(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    assert mypy(tmp_path / "lesson.py", LESSON) == (0, "")
    status, text = mypy(tmp_path / "wrong.py", WRONG)
    assert status == 1
    assert [line.rsplit("[", 1)[1] for line in text.splitlines()] == [
        "attr-defined]",
        "arg-type]",
        "operator]",
        "attr-defined]",
    ]


def test_a_base_that_does_nothing_cannot_be_left_to_compute() -> None:
    class Idle(Vertex):
        x: InOut[FLOAT]

    class Leaves(Idle):
        def compute(self) -> None:
            super().compute()

    with pytest.raises(VertexDefinitionError) as caught:
        Leaves.call(x=1.0)
    assert (
        str(caught.value)
        == "Leaves has no compute().\n  next:  define `def compute(self):` in the class."
    )
