"""Batches that loop over single elements: which go on as scalar loops, when, and that not one bit
changes."""

from __future__ import annotations

from contextvars import ContextVar
from itertools import count
from random import Random
from typing import Any

import numpy as np
import pytest
from codelets import Sum, executed
from graphs import Placed, Space, add, differences, regions, same_bits
from hypothesis import given, settings, strategies as st
from vertex_loop import DEVICE, RANDOMLY, contents_or_error, run_codelet, small_limits

from ipu_teach import FLOAT, HALF, INT, Graph, InOut, Input, Output, Vector, Vertex
from ipu_teach.compile import compile_programs
from ipu_teach.compile.groups import Group
from ipu_teach.compile.scalar import scalar_code
from ipu_teach.engine import tiers, ways
from ipu_teach.engine.scalar import compiled, run as scalar_run
from ipu_teach.engine.scalar.compiled import numba_is_here
from ipu_teach.engine.scalar.functions import CodeletFunctions
from ipu_teach.engine.scalar.run import ScalarRun
from ipu_teach.engine.tiers import loops_over_elements
from ipu_teach.errors import CodeletError
from ipu_teach.program import Execute, Repeat
from ipu_teach.types import DType

# The arguments: a name for the class, the fields' element type. T: elements, N: how many, K by N a
# matrix.
N, K = 9, 5
FIELDS = """
    x: Input[Vector[{T}]]
    y: Input[Vector[{T}]]
    m: Input[Vector[Vector[{T}]]]
    s: Input[{T}]
    v: InOut[Vector[{T}]]
    a: InOut[{T}]
    out: Output[Vector[{T}]]
    q: Output[Vector[Vector[{T}]]]
    z: Output[{T}]
"""
SHAPES: dict[str, tuple[int, ...]] = {
    "x": (N,),
    "y": (N,),
    "m": (K, N),
    "s": (),
    "v": (N,),
    "a": (),
    "out": (N,),
    "q": (K, N),
    "z": (),
}
_numbers = count()


def made(body: str, dtype: type[DType]) -> type[Vertex]:
    """A vertex class with these fields and this compute()."""
    indented = "\n".join(f"        {line}" for line in body.splitlines())
    source = (
        f"class Loop{next(_numbers)}(Vertex):{FIELDS.format(T=dtype.__name__)}\n    def "
        f"compute(self):\n{indented}\n"
    )
    scope = executed(source, f"/loops/{next(_numbers)}.py", {"np": np})
    return next(v for k, v in scope.items() if k.startswith("Loop"))


@pytest.mark.parametrize("vertices", [1, 2, 3, 40])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_sum_goes_from_the_first_to_the_last(vertices: int, dtype: type) -> None:
    """Against Python's own loop over numpy's numbers, which rounds at each step; also of one vertex
    alone."""
    x = np.random.default_rng(3).standard_normal((vertices, 37)).astype(dtype) * dtype(100)
    x[1:2] = -0.0
    codelet = Sum if dtype == np.float32 else HalfSum
    expected = np.zeros(vertices, dtype)
    for k, row in enumerate(x):
        total = dtype(0)
        for e in row:
            total = total + e
        expected[k] = total
    assert same_bits(run_codelet(codelet, False, x=x, out=np.zeros(vertices)).out, expected)


class HalfSum(Vertex):
    x: Input[Vector[HALF]]
    out: Output[HALF]

    def compute(self) -> None:
        total = 0.0
        for value in self.x:
            total += value
        self.out = total


class FromItsOwn(Vertex):
    x: Input[Vector[FLOAT]]
    out: InOut[FLOAT]

    def compute(self) -> None:
        total = self.out - 0.0
        for value in self.x:
            total += value
        self.out = total


@pytest.mark.parametrize("vertices", [1, 5])
def test_minus_zero_stays_minus_zero(vertices: int) -> None:
    x = np.full((vertices, 8), -0.0, np.float32)
    got = run_codelet(FromItsOwn, False, x=x, out=np.full(vertices, -0.0, np.float32)).out
    assert np.all(np.signbit(got))


# --- random loops ---------------------------------------------------------------------------------


def random_loops(rng: Random, floats: bool) -> str:
    """A few loops over single elements, of kinds that are found, and of kinds that are nearly
    those."""
    lines = ["t = self.s", "u = self.x[0]", "w = 1"]
    for _ in range(rng.randint(1, 2)):
        low, high = rng.randint(0, 2), rng.randint(5, 7)
        step = rng.choice([1, 1, 1, 2])
        plain = rng.choice(["i", "i", "8 - i", "i + 1", "i - 1"])
        elements = [
            f"self.x[{plain}]",
            "self.x[i]",
            "self.y[i]",
            "self.m[2, i]",
            "self.m[i % 5][i]",
            "self.v[i]",
            "self.v[i - 1]",
            "self.v[8 - i]",
            "self.s",
            "self.a",
            "2",
            "self.m.T[i][1]",
            "self.x[::-1][i]",
        ]
        elements += ["0.5", "-1.25"] if floats else ["-3"]
        names = ["e"]
        inner = [f"e = {rng.choice(elements)} {rng.choice('+-*')} {rng.choice(elements[:6])}"]
        for number in range(rng.randint(0, 2)):
            one, other = rng.choice(names + elements), rng.choice(names)
            form = rng.choice(
                [
                    "{0} + {1}",
                    "{0} * {1}",
                    "{0} - {1}",
                    "np.maximum({0}, {1})",
                    "-{1}",
                    "abs({1})",
                    "max({0}, {1})",
                    "np.exp({1} * 0)",
                ]
            )
            inner.append(f"f{number} = {form.format(one, other)}")
            names.append(f"f{number}")
        for _ in range(rng.choice([1, 1, 2])):
            name = rng.choice(names + ["self.x[i]"])
            inner.append(
                rng.choice(
                    [
                        f"t += {name}",
                        f"t = t + {name}",
                        f"u *= {name}",
                        f"u = np.minimum(u, {name})",
                        f"u = np.maximum(u, {name})",
                        f"w += {name}",
                        f"t = {name} + t",
                        f"t -= {name}",
                        f"self.out[i] = {name}",
                        f"self.v[i] = {name}",
                        f"self.v[i] += {name}",
                        f"self.q[1, i] = {name}",
                        f"self.q[i // 2][i] = {name}",
                        f"self.out[{plain}] = {name}",
                        f"self.a = {name}",
                        "self.out[i] = t",
                        f"t += {name} * t",
                        f"last = {name}",
                    ]
                )
            )
        if rng.randrange(3) == 0:
            lines.append(f"for j in range({rng.randint(2, 5)}):")
            body = [f"    for i in range({low + 1}, {high}):"] + [
                f"        {line}" for line in inner
            ]
            body = [
                line.replace("self.m[2, i]", "self.m[j, i]").replace("self.q[1, i]", "self.q[j, i]")
                for line in body
            ]
            lines += body
        else:
            lines += [f"for i in range({low + 1}, {high}, {step}):"] + [
                f"    {line}" for line in inner
            ]
        lines += rng.choice(
            [[], ["t = t * 2"], ["self.v[3] = t"], ["u = self.v[2]"], ["self.a = e"]]
        )
    return "\n".join([*lines, "self.z = t + u + w"])


by_python = ScalarRun._by_python  # runs for compiled loops, too: compiling takes seconds


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(RANDOMLY, max_examples=50)
@given(st.randoms(use_true_random=False))
def test_random_loops_equal_the_vertex_loop(rng: Random) -> None:
    dtype = rng.choice([FLOAT, FLOAT, HALF, INT])
    body = random_loops(rng, dtype is not INT)
    vertices = rng.choice([1, 2, 3, 7, 20])
    codelet = made(body, dtype)
    space = Space(DEVICE, rng)
    fields = {
        f: regions(rng, space, dtype, s, vertices, codelet.fields[f].written)
        for f, s in SHAPES.items()
    }
    compute_set = space.graph.add_compute_set()
    for i in range(vertices):
        add(
            space,
            compute_set,
            Placed(codelet, rng.randrange(3), {f: [views[i]] for f, views in fields.items()}),
        )
    program = Repeat(2, Execute(compute_set))
    with small_limits(rng), pytest.MonkeyPatch.context() as patch:
        if rng.randrange(2):  # the first run is a batch, the second one a scalar loop
            patch.setattr(tiers, "LEAST_OPS", 1)
            patch.setattr(tiers, "LOOK", 0)
            patch.setattr(ScalarRun, "pays", lambda self: True)
            patch.setattr(
                ScalarRun, "_by_compiled", lambda self, first: by_python(self, first, self.count)
            )
            patch.setattr(
                scalar_run, "CHOSEN", ContextVar("chosen", default="python")
            )  # to its end, however slow this machine is just now
        batched = contents_or_error(
            space, program, shuffle=rng.choice([None, 1]), threads=rng.choice([1, 1, 3])
        )
        looped = contents_or_error(space, program, vertex_loop=True)
    if isinstance(looped, CodeletError):
        assert isinstance(batched, CodeletError), body
    else:
        assert not isinstance(batched, CodeletError), body
        assert differences(batched, looped) == [], body


def test_the_random_loops_are_often_scalar_loops() -> None:
    """So that the test above looks at what it is for."""
    taken = 0
    for seed in range(60):
        codelet = made(random_loops(Random(seed), True), FLOAT)
        try:
            group = group_of(codelet)
        except CodeletError:  # an index outside of its region
            continue
        taken += loops_over_elements(group) and not isinstance(scalar_code(codelet), str)
    assert taken >= 10


# --- when they change -----------------------------------------------------------------------------


def group_of(codelet: type[Vertex]) -> Group:
    """The group of one vertex, with fields of `SHAPES`."""
    graph = Graph(DEVICE.target)
    compute_set = graph.add_compute_set()
    tensors = {n: graph.add_variable(f.dtype, SHAPES[n], n) for n, f in codelet.fields.items()}
    vertex = graph.add_vertex(compute_set, codelet, tensors)
    for tensor in tensors.values():
        graph.set_tile_mapping(tensor, 0)
    graph.set_tile_mapping(vertex, 0)
    return compile_programs(graph, [Execute(compute_set)]).groups[0][0]


LOOPS = {
    "t = 0.0\nfor j in range(9):\n    for e in self.x: t += e\nself.z = t": True,
    "for i in range(5):\n    for j in range(9): self.q[i, j] = self.x[j] * self.m[i][8 - j]": True,
    "t = 0.0\nfor e in self.x: t += e\nself.z = t": False,  # few operations
    # on whole rows
    "for i in range(5):\n    for j in range(5): self.q[i] = self.x * self.m[i, j]": False,
    "t = self.x[0]\nfor j in range(9):\n    for e in self.x: t += e\nself.z = t + "
    "np.sum(self.x)": False,
}


@pytest.mark.parametrize("body", LOOPS)
def test_what_is_a_loop_over_elements(body: str) -> None:
    assert loops_over_elements(group_of(made(body, FLOAT))) == LOOPS[body]


class Powers(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        total = self.x - self.x
        for i in range(40):
            total = total * self.x + i
        self.out = total


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways of the runs that are not batches; no time is too short to think of the compiler,
    which takes none."""
    found: list[str] = []
    monkeypatch.setattr(tiers, "LOOK", 0)
    monkeypatch.setattr(CodeletFunctions, "seconds_to_compile", lambda self, text: 1e-9)
    for name in ("_by_python", "_by_compiled"):
        plain = getattr(ScalarRun, name)
        monkeypatch.setattr(
            ScalarRun, name, lambda *given, n=name, p=plain: (found.append(n), p(*given))[1]
        )
    return found


def powers(times: int) -> tuple[Any, Any]:
    """(what a run of so many executions leaves, what it should)."""
    x = np.random.default_rng(1).standard_normal(500).astype(np.float32)
    expected = x - x
    for i in range(40):
        expected = expected * x + np.float32(i)
    ran = run_codelet(Powers, False, times=times, x=x, out=np.zeros(500, np.float32))
    assert ran.report.ways() == {"Powers": "batch"}
    return ran.out, expected


@pytest.mark.skipif(not numba_is_here(), reason="numba is not installed")
def test_a_batch_goes_on_as_the_compiled_loop_where_that_is_quicker(
    runs: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("IPU_TEACH_CACHE", str(tmp_path))
    found, expected = powers(12)
    assert same_bits(found, expected)
    assert len(runs) in (tiers.TRIALS, 11) and set(runs) == {"_by_compiled"}  # as the clock says


def test_a_batch_stays_one_where_nothing_can_be_compiled(
    runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "numba_is_here", lambda: False)
    monkeypatch.setattr(ways, "program_of", CodeletFunctions)  # none that was made before
    found, expected = powers(3)
    assert same_bits(found, expected) and runs == []


def test_a_short_batch_does_not_think_of_the_compiler(
    runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "LOOK", 1e9)
    found, expected = powers(3)
    assert same_bits(found, expected) and runs == []
