"""What somebody types who has written Poplar in C++: taken as it is, or answered by the line to
write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu_teach
from ipu_teach import (
    FLOAT,
    HALF,
    DeviceManager,
    Engine,
    Graph,
    Input,
    IPUModel,
    MultiVertex,
    Output,
    TargetType,
    Vector,
    VectorLayout,
    Vertex,
)
from ipu_teach.errors import (
    FileLoadError,
    GraphObjectCreationError,
    InvalidMachineModelError,
    IPUTeachError,
    PoplarIndexError,
    PoplibsError,
    UnknownNameError,
    VertexDefinitionError,
)
from ipu_teach.graph.vertex import _RESERVED
from ipu_teach.poplibs import poplin, popops, poprand
from ipu_teach.program import Copy, Execute, Sequence, cycle_count

ROOT = Path(__file__).resolve().parents[1]


class World:
    """A graph of two matrices and a vector."""

    def __init__(self) -> None:
        self.device = IPUModel(tiles_per_ipu=4).create_device()
        self.graph = Graph(self.device)
        self.a, self.b = (self.graph.add_variable(FLOAT, (8, 8), name) for name in "ab")
        self.out = self.graph.add_variable(FLOAT, 8, "out")
        for tensor in (self.a, self.b, self.out):
            self.graph.set_tile_mapping(tensor, 0)
        self.prog = Sequence()


ADD: Any = popops.ReduceParams("ADD")
ORDERS: list[tuple[Callable[[Any], object], str]] = [
    (
        lambda w: poplin.mat_mul(w.graph, w.a, w.b, w.prog, FLOAT),
        "mat_mul(graph, a, b, prog, out_type=FLOAT)",
    ),
    (
        lambda w: poplin.mat_mul(w.graph, w.a, w.b, w.prog, HALF, "product", {}),
        "mat_mul(graph, a, b, prog, debug_context='product', out_type=HALF, options=options)",
    ),
    (
        lambda w: popops.reduce(w.graph, w.a, FLOAT, [0], ADD, w.prog),
        "reduce(graph, x, [0], prog, operation=ReduceParams(operation='ADD', scale=None, "
        "update=False), out_type=FLOAT)",
    ),
    (
        lambda w: popops.reduce(w.graph, w.a, [0], "MAX", w.prog),
        "reduce(graph, x, [0], prog, operation='MAX')",
    ),
    (
        lambda w: popops.reduce_with_output(w.graph, w.a, w.out, [0], ADD, w.prog),
        "reduce_with_output(graph, x, out, [0], prog, operation=ReduceParams(operation='ADD', "
        "scale=None, update=False))",
    ),
    (
        lambda w: popops.reduce_many(w.graph, [popops.SingleReduceOp(w.a, [0])], [w.out], w.prog),
        "reduce_many(graph, operations, prog, outputs=outputs)",
    ),
    (
        lambda w: popops.add(w.graph, w.a, w.b, "sum", w.prog),
        "add(graph, a, b, prog, debug_context='sum')",
    ),
]


@pytest.mark.parametrize(("call", "line"), ORDERS, ids=[line for _, line in ORDERS])
def test_arguments_in_the_order_of_cpp_are_answered_by_the_line_to_write(
    call: Callable[[World], object], line: str
) -> None:
    world = World()
    with pytest.raises(PoplibsError) as caught:
        call(world)
    name = line.partition("(")[0]
    assert caught.value.tried == f"{name}() was given its arguments in another order."
    assert caught.value.next_step == f"write {line}."
    assert world.graph.num_vertices == 0 and not world.prog.programs


def test_what_belongs_nowhere_is_refused_as_it_stands() -> None:
    w: Any = World()
    with pytest.raises(PoplibsError) as caught:
        popops.reduce(w.graph, w.a, [0], None)
    assert str(caught.value).startswith("reduce() was given None as prog.")
    with pytest.raises(PoplibsError, match=r"mat_mul\(\) was given Sequence\(0 programs\) as deb"):
        poplin.mat_mul(w.graph, w.a, w.b, w.prog, w.prog, w.prog, w.prog, w.prog)


GETTER = " Most getters are properties here, without brackets."
NAMES: list[tuple[Callable[[Any], object], str]] = [
    (
        lambda w: popops.addInPlace,
        "popops has no attribute 'addInPlace'.\n  next:  did you mean 'add_in_place'?",
    ),
    (
        lambda w: poplin.matMul,
        "poplin has no attribute 'matMul'.\n  next:  did you mean 'mat_mul'?",
    ),
    (
        lambda w: w.graph.addVariable,
        "Graph has no attribute 'addVariable'.\n  next:  did you mean 'add_variable'?",
    ),
    (
        lambda w: IPUModel().createDevice,
        "IPUModel has no attribute 'createDevice'.\n  next:  did you mean 'create_device'?",
    ),
    (
        lambda w: DeviceManager().getDevices,
        "DeviceManager has no attribute 'getDevices'.\n  next:  did you mean 'get_devices'?",
    ),
    (
        lambda w: DeviceManager().get_num_devices(),
        "DeviceManager has no attribute 'get_num_devices'.\n  next:  did you mean 'num_devices'?"
        + GETTER,
    ),
    (
        lambda w: w.device.get_target(),
        "Device has no attribute 'get_target'.\n  next:  did you mean 'target'?" + GETTER,
    ),
    (
        lambda w: w.device.target.getNumTiles(),
        "Target has no attribute 'getNumTiles'.\n  next:  did you mean 'num_tiles'?" + GETTER,
    ),
    (
        lambda w: poprand.setSeed,
        "poprand has no attribute 'setSeed'.\n  next:  did you mean 'set_seed'?",
    ),
    (
        lambda w: Copy(w.a, w.b).getChildren,
        "Copy has no attribute 'getChildren'.\n  next:  did you mean 'children'?" + GETTER,
    ),
]


@pytest.mark.parametrize(("call", "text"), NAMES, ids=[text.split("'")[1] for _, text in NAMES])
def test_names_of_cpp_are_answered_by_ours(call: Callable[[World], object], text: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        call(World())
    assert str(caught.value) == text


def test_what_python_can_take_as_poplar_does_is_taken() -> None:
    w: Any = World()
    assert popops.Operation.ADD == "ADD" and popops.ReduceParams(
        popops.Operation.MAX
    ) == popops.ReduceParams("MAX")
    (made,) = popops.reduce_many(w.graph, [(w.a, [0], popops.Operation.MAX)], w.prog)
    assert made.shape == (8,)
    w.graph.create_host_write("in", w.a, True)
    w.graph.create_host_read("a", w.a, True)
    stamp = cycle_count(w.graph, Sequence(Execute(w.graph.add_compute_set())), 0, "measured")
    assert w.graph.describe(stamp) == "'measured'"


class Sums(Vertex):
    x: Input[Vector[FLOAT, VectorLayout.ONE_PTR]]
    parts: Input[Vector[Vector[FLOAT]]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x.sum() + sum(part.sum() for part in self.parts)


def test_what_the_pages_say_of_fields_and_handles() -> None:
    """Names that are taken, lengths of lists, layouts in brackets, one name for one thing, and what
    is appended to a list."""
    pages = [
        (ROOT / "docs" / name).read_text(encoding="utf-8")
        for name in ("coming-from-poplar.md", "poplar.md")
    ]
    for page in pages:
        for name in _RESERVED:
            assert f"`{name}`" in page, name
        assert (
            "`input`" in page
            and "set_field_size" in page
            and "num_workers" in page
            and "VectorLayout" in page
        )
    assert "memory constraints" in pages[0] and "poplar::constraint" in pages[1]
    for base, name in (*((Vertex, name) for name in _RESERVED), (MultiVertex, "num_workers")):
        with pytest.raises(VertexDefinitionError, match=f"declares a field '{name}'"):
            type(
                "Taken",
                (base,),
                {
                    "__annotations__": {name: "Input[FLOAT]"},
                    "compute": lambda self, *worker_id: None,
                },
            )

    w: Any = World()
    cs = w.graph.add_compute_set("cs")
    vertex = w.graph.add_vertex(cs, Sums, x=w.out, out=w.a[0, 0])
    w.graph.set_tile_mapping(vertex, 0)
    w.graph.set_field_size(vertex["parts"], 2)
    for number in range(2):
        w.graph.connect(vertex["parts"][number], w.b[number])
    for tensor, value in ((w.a, 0), (w.b, 2), (w.out, 1)):
        w.graph.set_initial_value(tensor, value)
    w.graph.create_host_write("a", w.a)
    with pytest.raises(GraphObjectCreationError, match="There is already a handle 'a'"):
        w.graph.create_host_read("a", w.a)
    stream = w.graph.add_device_to_host_fifo("drain", FLOAT, 64)
    engine = Engine(w.graph, Sequence(Execute(cs), Copy(w.a, stream), Copy(w.b.flatten(), stream)))
    received: list[Any] = []
    engine.connect_stream("drain", received)
    engine.load_and_run(w.device)
    assert [array.shape for array in received] == [(8, 8), (64,)] and received[0][
        0, 0
    ] == 8 + 2 * 8 * 2


def test_negative_indices_and_lists_of_them_are_taken_as_numpy_takes_them() -> None:
    w: Any = World()
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    w.graph.set_initial_value(w.a, values)
    ids = [3, -1, 3]
    for name, tensor in (
        ("row", w.a[-1]),
        ("rows", w.a[ids]),
        ("cell", w.a[-2, -3:]),
        ("last", w.a.slice(6, 8, dim=-1)),
    ):
        w.graph.create_host_read(name, tensor)
    engine = Engine(w.graph, Sequence())
    engine.load(w.device)
    for name, expected in (
        ("row", values[-1]),
        ("rows", values[ids]),
        ("cell", values[-2, -3:]),
        ("last", values[:, 6:]),
    ):
        np.testing.assert_array_equal(engine.read_tensor(name), expected)
    for call in (lambda: w.a.index(-1), lambda: w.a.slice(-2, 1)):
        with pytest.raises(PoplarIndexError):
            call()


def test_a_file_of_cpp_is_answered(tmp_path: Any) -> None:
    for given in (["spread.cpp"], "spread.cpp"):
        with pytest.raises(FileLoadError) as caught:
            World().graph.add_codelets(given)
        assert caught.value.tried == "'spread.cpp' is not a Python file."
        assert str(caught.value.next_step).startswith(
            "write the codelet in Python, as a class that derives from Vertex"
        )


def test_a_manager_lends_as_many_ipus_as_a_model_has() -> None:
    manager = DeviceManager()
    for count in (1, 3, 6, 16, 64):
        (device,) = manager.get_devices(TargetType.IPU_MODEL, count)
        assert device.target.num_ipus == count == IPUModel(num_ipus=count).target.num_ipus
        assert manager.get_devices(TargetType.IPU_MODEL, count) == [device]
    for wrong in (0, -1, 1.5, "2"):
        with pytest.raises(InvalidMachineModelError):
            manager.get_devices(TargetType.IPU_MODEL, wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidMachineModelError):
            IPUModel(num_ipus=wrong)


def test_libraries_and_views_are_found_in_the_package() -> None:
    from ipu_teach import show

    assert getattr(ipu_teach, "show") is show and getattr(ipu_teach, "poplibs").popops is popops  # noqa: B009
    with pytest.raises(IPUTeachError, match="did you mean 'sweep'"):
        getattr(ipu_teach, "sweeep")  # noqa: B009
