"""Graph functions: a body that is built once, and copies in and out around each use of it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu_teach import (
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
from ipu_teach.errors import PoplibsError
from ipu_teach.poplibs import popops, poputil
from ipu_teach.poplibs.poputil import graphfn
from ipu_teach.program import Execute, Sequence
from ipu_teach.types import Array


class Step(Vertex):
    """c += a; b = c * a."""

    a: Input[Vector[FLOAT]]
    b: Output[Vector[FLOAT]]
    c: InOut[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.a)):
            self.c[i] += self.a[i]
            self.b[i] = self.c[i] * self.a[i]


def message(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


class World:
    def __init__(self) -> None:
        self.device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
        self.graph = Graph(self.device.target)
        self.prog = Sequence()
        self.built = 0
        self.alien = Graph(self.device.target)

    def variable(
        self,
        name: str,
        value: float | None = None,
        shape: tuple[int, ...] = (5,),
        dtype: Any = FLOAT,
    ) -> Tensor:
        tensor = self.graph.add_variable(dtype, shape, name)
        poputil.map_tensor_linearly(self.graph, tensor, 1, 1)
        if value is not None:
            self.graph.set_initial_value(
                tensor, np.arange(tensor.num_elements).reshape(shape) + value
            )
        return tensor

    def step(self, args: list[Any], prog: Sequence) -> None:
        self.built += 1
        cs = self.graph.add_compute_set("step")
        v = self.graph.add_vertex(cs, Step, a=args[0], b=args[1], c=args[2])
        self.graph.set_tile_mapping(v, 3)
        prog.add(Execute(cs))

    def values(self, *tensors: Tensor, **options: Any) -> list[Array]:
        for number, tensor in enumerate(tensors):
            self.graph.create_host_read(str(number), tensor)
        engine = Engine(self.graph, self.prog, **options)
        engine.load(self.device)
        engine.run()
        return [engine.read_tensor(str(number)) for number in range(len(tensors))]


@pytest.fixture
def w() -> World:
    return World()


@pytest.mark.parametrize("vertex_loop", [False, True])
def test_a_void_function_on_three_sets_of_tensors(w: World, vertex_loop: bool) -> None:
    a, b, c = w.variable("a"), w.variable("b"), w.variable("c")
    for tensor in (a, b, c):
        w.graph.set_initial_value(tensor, -7.0)
    signature = [graphfn.input(a, "a"), graphfn.output(b, "b"), graphfn.inout(c, "c")]
    step = graphfn.VoidFunction(w.graph, signature, w.step, "step")
    assert repr(step) == "VoidFunction(input('a'), output('b'), inout('c'))"
    sets = [
        (w.variable(f"x{i}", 10 * i), w.variable(f"y{i}"), w.variable(f"z{i}", i)) for i in range(3)
    ]
    for several in sets:
        step(several, w.prog)
    step(sets[1], w.prog)
    assert w.built == 1 and len(w.graph.compute_sets) == 1 and w.graph.num_vertices == 1
    found = w.values(*(t for several in sets for t in several), a, b, c, vertex_loop=vertex_loop)
    for i in range(3):
        x, z = np.arange(5, dtype=np.float32) + 10 * i, np.arange(5, dtype=np.float32) + i
        for _ in range(2 if i == 1 else 1):
            z = z + x
            y = z * x
        for got, wanted in zip(found[3 * i : 3 * i + 3], (x, y, z), strict=True):
            np.testing.assert_array_equal(got, wanted)
    for untouched in found[9:]:  # the signature's own tensors are models only
        np.testing.assert_array_equal(untouched, np.full(5, -7, np.float32))


def test_an_inlined_function_builds_its_body_at_each_call(w: World) -> None:
    a, b, c = w.variable("a"), w.variable("b"), w.variable("c")
    signature = [graphfn.input(a, "a"), graphfn.output(b, "b"), graphfn.inout(c, "c")]
    step = graphfn.VoidFunction(w.graph, signature, w.step, "step", inlined=True)
    assert w.built == 0
    sets = [
        (w.variable(f"x{i}", 10 * i), w.variable(f"y{i}"), w.variable(f"z{i}", i)) for i in range(2)
    ]
    for several in sets:
        step(several, w.prog)
    assert w.built == 2 and w.graph.num_vertices == 2
    found = w.values(*(t for several in sets for t in several))
    for i in range(2):
        x, z = np.arange(5, dtype=np.float32) + 10 * i, np.arange(5, dtype=np.float32) + i
        for got, wanted in zip(found[3 * i : 3 * i + 3], (x, (z + x) * x, z + x), strict=True):
            np.testing.assert_array_equal(got, wanted)
    other = World()
    x = other.variable("x", 10)

    def plus_one(args: Any, prog: Sequence) -> Tensor:
        return popops.add(other.graph, args[0], 1, prog)

    plus = graphfn.TensorFunction(other.graph, [graphfn.input(x)], plus_one, inlined=True)
    np.testing.assert_array_equal(other.values(plus([x], other.prog))[0], np.arange(5) + 11)
    with pytest.raises(PoplibsError, match="two shapes that differ"):
        step([w.variable("short", shape=(4,)), *sets[0][1:]], w.prog)


def test_the_clones_lie_where_the_signature_does_and_bear_its_names(w: World) -> None:
    a = w.variable("a", shape=(8,))
    seen: list[Tensor] = []
    graphfn.VoidFunction(
        w.graph, [graphfn.input(a, "x")], lambda args, prog: seen.extend(args), "layer"
    )
    assert w.graph.get_tile_mapping(seen[0]) == w.graph.get_tile_mapping(a)
    assert repr(seen[0]) == "Tensor('layer/x', FLOAT, shape (8,))"


def test_a_tensor_function_hands_out_a_new_tensor_each_time(w: World) -> None:
    x = w.variable("x", 0.5, (2, 3))
    function = graphfn.TensorFunction(
        w.graph, [graphfn.input(x)], lambda args, prog: popops.add(w.graph, args[0], 1, prog)
    )
    sets = len(w.graph.compute_sets)
    once = function([x], w.prog)
    twice = function([once], w.prog)
    assert len(w.graph.compute_sets) == sets
    first, second = w.values(once, twice)
    values = np.arange(6, dtype=np.float32).reshape(2, 3) + np.float32(0.5)
    np.testing.assert_array_equal(first, values + 1)
    np.testing.assert_array_equal(second, values + 2)


@pytest.mark.parametrize("inlined", [False, True])
def test_a_created_argument_takes_the_place_of_none(w: World, inlined: bool) -> None:
    x = w.variable("x", 1)

    def double(args: list[Any], prog: Sequence) -> None:
        args[1] = popops.mul(w.graph, args[0], 2, prog)

    function = graphfn.VoidFunction(
        w.graph, [graphfn.input(x, "x"), graphfn.created("twice")], double, inlined=inlined
    )
    args: list[Any] = [x, None]
    function(args, w.prog)
    mine, other = w.variable("mine"), w.variable("other")
    function([args[1], mine], w.prog)
    function((mine, other), w.prog)
    with pytest.raises(PoplibsError, match=r"two shapes that differ: \(5,\) and \(4,\)"):
        function([x, w.variable("short", shape=(4,))], w.prog)
    made, given, from_tuple = w.values(args[1], mine, other)
    np.testing.assert_array_equal(made, 2 * np.arange(1, 6))
    np.testing.assert_array_equal(given, 4 * np.arange(1, 6))
    np.testing.assert_array_equal(from_tuple, 8 * np.arange(1, 6))


def test_a_program_function_returns_what_to_run(w: World) -> None:
    x, y = w.variable("x", 1), w.variable("y", 2)

    def double(args: list[Any]) -> Sequence:
        body = Sequence()
        popops.mul_in_place(w.graph, args[0], 2, body)
        return body

    function = graphfn.ProgramFunction(w.graph, [graphfn.inout(x)], double)
    w.prog.add(function([x])).add(function([y])).add(function([y]))
    first, second = w.values(x, y)
    np.testing.assert_array_equal(first, 2 * np.arange(1, 6))
    np.testing.assert_array_equal(second, 4 * np.arange(2, 7))


def made(w: World) -> graphfn.VoidFunction:
    signature = [graphfn.input(w.variable("a"), "a"), graphfn.created("made")]
    return graphfn.VoidFunction(w.graph, signature, lambda args, prog: args.__setitem__(1, args[0]))


def built(w: World, fn: Any, kind: Any = graphfn.VoidFunction) -> Any:
    return kind(w.graph, [graphfn.input(w.variable("a"), "a"), graphfn.created("made")], fn)


REFUSED: list[tuple[str, Callable[[World], Any], str]] = [
    (
        "no tensor",
        lambda w: graphfn.input("a"),
        """
        input() was given 'a'.
          next:  give a tensor with the shape and dtype that the calls will use.""",
    ),
    (
        "no name",
        lambda w: graphfn.created(w.variable("a")),
        """
        created() was given the name Tensor('a', FLOAT, shape (5,)).
          next:  a name must be a string in quotes.""",
    ),
    (
        "no graph",
        lambda w: graphfn.VoidFunction(w.prog, [], print),
        """
        VoidFunction() was given Sequence(0 programs) as its graph.
          next:  give a Graph as the first argument.""",
    ),
    (
        "no signature",
        lambda w: graphfn.TensorFunction(w.graph, [w.variable("a")], print),
        """
        TensorFunction() was given the signature [Tensor('a', FLOAT, shape (5,))].
          next:  give a list of arguments: [input(x, "x"), output(y, "y")].""",
    ),
    (
        "no function",
        lambda w: graphfn.VoidFunction(w.graph, [], w.prog),
        """
        VoidFunction() was given Sequence(0 programs) as its function.
          next:  give a function.""",
    ),
    (
        "another graph",
        lambda w: graphfn.VoidFunction(w.alien, [graphfn.input(w.variable("a"))], print),
        """
        VoidFunction() was given a tensor of another graph as argument0.
          where: Tensor('a', FLOAT, shape (5,))
          next:  use one graph throughout.""",
    ),
    (
        "created nothing",
        lambda w: built(w, lambda args, prog: None),
        """
        The function of VoidFunction left the created argument 'made' without a tensor.
          next:  store a tensor there: args[1] = tensor.""",
    ),
    (
        "replaced an input",
        lambda w: built(w, lambda args, prog: args.__setitem__(slice(2), [w.variable("b")] * 2)),
        """
        The function of VoidFunction replaced its argument 'a', which is declared as input().
          next:  append a program that writes to the tensor in the list, or declare the argument as created().""",
    ),
    (
        "changed the list",
        lambda w: built(w, lambda args, prog: args.pop()),
        """
        The function of VoidFunction changed the length of its list of arguments from 2 to 1.
          next:  change only the entries of created arguments: args[2] = tensor.""",
    ),
    (
        "created no tensor",
        lambda w: built(w, lambda args, prog: args.__setitem__(1, 4)),
        """
        VoidFunction() was given 4 as made.
          next:  give a tensor.""",
    ),
    (
        "no result",
        lambda w: built(w, lambda args, prog: None, graphfn.TensorFunction),
        """
        The function of TensorFunction returned None.
          next:  return the tensor that holds the result, or use VoidFunction.""",
    ),
    (
        "no program",
        lambda w: built(w, lambda args: None, graphfn.ProgramFunction),
        """
        The function of ProgramFunction returned None.
          next:  return a program, such as a Sequence, or use VoidFunction.""",
    ),
    (
        "arity",
        lambda w: made(w)([w.variable("x")], w.prog),
        """
        VoidFunction takes 2 arguments, but was given 1 argument.
          where: its signature is [input('a'), created('made')]
          next:  give a list with a tensor for each argument. For an argument declared as created(), the list may contain None.""",
    ),
    (
        "no list",
        lambda w: made(w)(w.variable("x"), w.prog),
        """
        VoidFunction takes 2 arguments, but was given Tensor('x', FLOAT, shape (5,)).
          where: its signature is [input('a'), created('made')]
          next:  give a list with a tensor for each argument. For an argument declared as created(), the list may contain None.""",
    ),
    (
        "a tuple",
        lambda w: made(w)((w.variable("x"), None), w.prog),
        """
        VoidFunction cannot store the new tensor 'made' in its arguments, because they are a tuple.
          next:  give a list with None in the place of the new tensor.""",
    ),
    (
        "none",
        lambda w: made(w)([None, None], w.prog),
        """
        VoidFunction() was given None as a.
          next:  give a tensor.""",
    ),
    (
        "shape",
        lambda w: made(w)([w.variable("x", shape=(5, 1)), None], w.prog),
        """
        VoidFunction() was given two shapes that differ: (5,) and (5, 1).
          where: argument 'a'
          next:  create another function for this shape and dtype; a function has only one of each.""",
    ),
    (
        "dtype",
        lambda w: made(w)([w.variable("x", dtype=INT), None], w.prog),
        """
        VoidFunction() was given two dtypes that differ: FLOAT and INT.
          where: argument 'a'
          next:  create another function for this shape and dtype; a function has only one of each.""",
    ),
    (
        "no prog",
        lambda w: made(w)([w.variable("x"), None], w.graph),
        """
        VoidFunction() was given Graph(3 variables, 0 compute sets, 0 vertices) as prog.
          next:  give a Sequence; the call appends to it.""",
    ),
]


@pytest.mark.parametrize(("make", "text"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_every_refusal(w: World, make: Callable[[World], Any], text: str) -> None:
    with pytest.raises(PoplibsError) as error:
        make(w)
    assert str(error.value) == message(text)
    assert w.prog.programs == []
