"""Loops over single elements that the planner finds again: which ones, and that not one bit changes."""

from __future__ import annotations

from itertools import count
from random import Random

import numpy as np
import pytest
from codelets import Sum
from graphs import Placed, Space, add, differences, regions, same_bits
from hypothesis import given, settings, strategies as st
from test_exact import DEVICE, RANDOMLY, cut, outcome, run
from test_kernels import StencilLoop

import ipu_teach
from ipu_teach import FLOAT, HALF, INT, InOut, Input, Output, Vector, Vertex
from ipu_teach.compile.trace import Trace
from ipu_teach.compile.tracer import FieldShape, trace_codelet
from ipu_teach.engine import reroll
from ipu_teach.errors import CodeletError
from ipu_teach.program import Execute, Repeat
from ipu_teach.types import DType

# The arguments: a name for the class, the fields' element type. T: elements, N: how many, K by N a matrix.
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
SHAPES: dict[str, tuple[int, ...]] = {"x": (N,), "y": (N,), "m": (K, N), "s": (), "v": (N,), "a": (), "out": (N,), "q": (K, N),
                                      "z": ()}  # fmt: skip
_numbers = count()


def made(body: str, dtype: type[DType]) -> type[Vertex]:
    """A vertex class with these fields and this compute()."""
    indented = "\n".join(f"        {line}" for line in body.splitlines())
    source = f"class Loop{next(_numbers)}(Vertex):{FIELDS.format(T=dtype.__name__)}\n    def compute(self):\n{indented}\n"
    scope = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__} | {"np": np}
    exec(source, scope)
    return next(v for k, v in scope.items() if k.startswith("Loop"))


def shortened(body: str) -> Trace:
    """The codelet's trace after its loops were looked for."""
    shapes: dict[str, FieldShape] = dict(SHAPES)
    return reroll.rerolled(trace_codelet(made(body, FLOAT), shapes, "a vertex", 6))


def kinds_of(body: str) -> list[str]:
    """The kinds of ops that are left of a codelet, but for regions and views."""
    return [op.kind for op in shortened(body).ops if op.kind not in ("region", "view")]


FOUND = {
    "t = 0.0\nfor e in self.x: t += e\nself.z = t": ["chain", "store"],
    "t = 0.0\nfor i in range(9): t += self.x[i] * self.y[8 - i]\nself.z = t": ["ufunc", "chain", "store"],
    "t = self.x[0]\nfor i in range(1, 9): t = np.maximum(t, self.x[i])\nself.z = t": ["read", "chain", "store"],
    "t = 1.0\nfor row in self.m:\n    for e in row: t *= e + self.s\nself.z = t": ["ufunc", "chain", "store"],
    "t = 0.0\nu = 2.0\nfor i in range(9):\n    t += self.x[i]\n    u *= self.y[i]\nself.z = t - u": [
        "chain", "chain", "ufunc", "store"],
    "for i in range(9): self.out[i] = self.x[i] * 2 - self.y[8 - i]": ["ufunc", "ufunc", "store"],
    "for i in range(1, 8): self.out[i] = self.x[i - 1] + self.x[i + 1]": ["ufunc", "store"],
    "for i in range(5):\n    for j in range(9): self.q[i, j] = self.x[j] * self.m[i][8 - j]": ["ufunc", "store"],
    "for i in range(9): self.v[i] = self.v[i] + self.x[i]": ["elementwise", "ufunc", "store"],
    "for i in range(9): self.v[i] += 1": ["elementwise", "ufunc", "store"],
}  # fmt: skip

LEFT = {
    "a running value that is used on the way": "t = 0.0\nfor i in range(9):\n    t += self.x[i]\n    self.out[i] = t",
    "what an earlier round wrote": "for i in range(1, 9): self.v[i] = self.v[i - 1] + self.x[i]",
    "what a later round writes": "for i in range(8): self.v[i] = self.v[i + 1] + self.x[i]",
    "one place, many times": "for i in range(9): self.a = self.x[i] + self.s",
    "a diagonal": "for i in range(5): self.out[i] = self.m[i, i] * self.s",
    "a transposed copy": "for i in range(5):\n    for j in range(5): self.q[i, j] = self.m[j, i] + self.s",
    "another type": "t = np.float64(0.5)\nfor i in range(9): t += self.x[i]\nself.z = t",
    "other numbers in each round": "t = 0.0\nfor i in range(9): t += self.x[i] * i\nself.z = t",
    "the running value on the right": "t = 0.0\nfor i in range(9): t = self.x[i] - t\nself.z = t",
    "a running value in another": "t = 0.0\nu = 0.0\nfor i in range(9):\n    t += self.x[i]\n    u += t\nself.z = u",
}


@pytest.mark.parametrize("body", FOUND)
def test_loops_that_are_found(body: str) -> None:
    assert kinds_of(body) == FOUND[body]


@pytest.mark.parametrize("what", LEFT)
def test_loops_that_are_left_as_they_are(what: str) -> None:
    assert len(kinds_of(LEFT[what])) >= 10 and "chain" not in kinds_of(LEFT[what])


def test_a_stencil_written_as_a_double_loop_becomes_slices() -> None:
    trace = trace_codelet(StencilLoop, {"x": (10, 10), "out": (8, 8)}, "a vertex", 6)
    ops = reroll.rerolled(trace).ops
    assert [op.kind for op in ops if op.kind not in ("region", "view")] == ["ufunc"] * 4 + ["store"]
    assert len(trace.ops) > 64 * 10


@pytest.mark.parametrize("vertices", [1, 2, 3, 40])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_sum_goes_from_the_first_to_the_last(vertices: int, dtype: type) -> None:
    """Against Python's own loop over numpy's numbers, which rounds at each step; also of one vertex alone."""
    x = np.random.default_rng(3).standard_normal((vertices, 37)).astype(dtype) * dtype(100)
    x[1:2] = -0.0
    codelet = Sum if dtype == np.float32 else HalfSum
    expected = np.zeros(vertices, dtype)
    for k, row in enumerate(x):
        total = dtype(0)
        for e in row:
            total = total + e
        expected[k] = total
    assert same_bits(run(codelet, False, x=x, out=np.zeros(vertices)).out, expected)


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
    got = run(FromItsOwn, False, x=x, out=np.full(vertices, -0.0, np.float32)).out
    assert np.all(np.signbit(got))


# --- random loops -----------------------------------------------------------------------------------------------------


def random_loops(rng: Random, floats: bool) -> str:
    """A few loops over single elements, of kinds that are found, and of kinds that are nearly those."""
    lines = ["t = self.s", "u = self.x[0]", "w = 1"]
    for _ in range(rng.randint(1, 2)):
        low, high = rng.randint(0, 2), rng.randint(5, 7)
        step = rng.choice([1, 1, 1, 2])
        plain = rng.choice(["i", "i", "8 - i", "i + 1", "i - 1"])
        elements = [f"self.x[{plain}]", "self.x[i]", "self.y[i]", "self.m[2, i]", "self.m[i % 5][i]", "self.v[i]",
                    "self.v[i - 1]", "self.v[8 - i]", "self.s", "self.a", "2", "self.m.T[i][1]", "self.x[::-1][i]"]  # fmt: skip
        elements += ["0.5", "-1.25"] if floats else ["-3"]
        names = ["e"]
        inner = [f"e = {rng.choice(elements)} {rng.choice('+-*')} {rng.choice(elements[:6])}"]
        for number in range(rng.randint(0, 2)):
            one, other = rng.choice(names + elements), rng.choice(names)
            form = rng.choice(["{0} + {1}", "{0} * {1}", "{0} - {1}", "np.maximum({0}, {1})", "-{1}", "abs({1})",
                               "max({0}, {1})", "np.exp({1} * 0)"])  # fmt: skip
            inner.append(f"f{number} = {form.format(one, other)}")
            names.append(f"f{number}")
        for _ in range(rng.choice([1, 1, 2])):
            name = rng.choice(names + ["self.x[i]"])
            inner.append(rng.choice([
                f"t += {name}", f"t = t + {name}", f"u *= {name}", f"u = np.minimum(u, {name})", f"u = np.maximum(u, {name})",
                f"w += {name}", f"t = {name} + t", f"t -= {name}", f"self.out[i] = {name}", f"self.v[i] = {name}",
                f"self.v[i] += {name}", f"self.q[1, i] = {name}", f"self.q[i // 2][i] = {name}", f"self.out[{plain}] = {name}",
                f"self.a = {name}", "self.out[i] = t", f"t += {name} * t", f"last = {name}",
            ]))  # fmt: skip
        if rng.randrange(3) == 0:
            lines.append(f"for j in range({rng.randint(2, 5)}):")
            body = [f"    for i in range({low + 1}, {high}):"] + [f"        {line}" for line in inner]
            body = [line.replace("self.m[2, i]", "self.m[j, i]").replace("self.q[1, i]", "self.q[j, i]") for line in body]
            lines += body
        else:
            lines += [f"for i in range({low + 1}, {high}, {step}):"] + [f"    {line}" for line in inner]
        lines += rng.choice([[], ["t = t * 2"], ["self.v[3] = t"], ["u = self.v[2]"], ["self.a = e"]])
    return "\n".join([*lines, "self.z = t + u + w"])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(RANDOMLY, max_examples=300)
@given(st.randoms(use_true_random=False))
def test_random_loops_equal_the_vertex_loop(rng: Random) -> None:
    dtype = rng.choice([FLOAT, FLOAT, HALF, INT])
    body = random_loops(rng, dtype is not INT)
    vertices = rng.choice([1, 2, 3, 7, 20])
    codelet = made(body, dtype)
    space = Space(DEVICE, rng)
    fields = {f: regions(rng, space, dtype, s, vertices, codelet.fields[f].written) for f, s in SHAPES.items()}
    compute_set = space.graph.add_compute_set()
    for i in range(vertices):
        add(space, compute_set, Placed(codelet, rng.randrange(3), {f: [views[i]] for f, views in fields.items()}))
    program = Repeat(2, Execute(compute_set))
    with cut(rng), pytest.MonkeyPatch.context() as patch:
        patch.setattr(reroll, "GAIN", rng.choice([1, 1, 4]))
        batched = outcome(space, program, shuffle=rng.choice([None, 1]), threads=rng.choice([1, 1, 3]))
        looped = outcome(space, program, vertex_loop=True)
    if isinstance(looped, CodeletError):
        assert isinstance(batched, CodeletError), body
    else:
        assert not isinstance(batched, CodeletError), body
        assert differences(batched, looped) == [], body


def test_the_random_loops_are_often_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above looks at what it is for."""
    monkeypatch.setattr(reroll, "GAIN", 1)
    chains = wholes = 0
    for seed in range(60):
        try:
            trace = shortened(random_loops(Random(seed), True))
        except CodeletError:  # an index outside of its region
            continue
        chains += any(op.kind == "chain" for op in trace.ops)
        wholes += any(op.kind == "store" and np.ndim(trace.samples[op.args[0].id]) > 0 for op in trace.ops)
    assert chains >= 6 and wholes >= 5
