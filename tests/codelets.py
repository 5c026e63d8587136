"""Codelets that several tests use, and generators of random ones."""

from __future__ import annotations

import linecache
import math
from collections.abc import Mapping
from itertools import count
from random import Random
from typing import Any

import numpy as np

import ipu_teach
from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    UNSIGNED_INT,
    InOut,
    Input,
    Output,
    SupervisorVertex,
    Vector,
    Vertex,
)
from ipu_teach.types import DType


class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


class Sum(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for value in self.x:
            total += value
        self.out = total


class PairwiseSum(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = np.sum(self.x)


class Largest(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = np.max(self.x)


class Axpy(Vertex):
    x: Input[Vector[FLOAT]]
    y: InOut[Vector[FLOAT]]
    a: FLOAT = 2.5

    def compute(self):
        self.y += self.a * self.x


class Increment(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        self.x += 1


class Swap(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        t = self.x[0]
        self.x[0] = self.x[1]
        self.x[1] = t


class Evens(Vertex):
    """Writes every other element, and leaves the others unchanged."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out[::2] = self.x[::2] * 10


class Softmax(Vertex):
    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        e = np.exp(self.x - np.max(self.x, axis=1, keepdims=True))
        self.out = e / np.sum(e, axis=1, keepdims=True)


class SumOfParts(Vertex):
    """Sums a list of vectors of any lengths, or a matrix."""

    parts: Input[Vector[Vector[FLOAT]]]
    out: Output[FLOAT]

    def compute(self):
        total = np.float32(0)
        for part in self.parts:
            total += np.sum(part)
        self.out = total


class AddToParts(Vertex):
    parts: InOut[Vector[Vector[FLOAT]]]
    x: Input[FLOAT]

    def compute(self):
        for part in self.parts:
            part += self.x
        self.parts[0] = self.parts[0] * 2


class Counter(Vertex):
    """Counts its runs in a state field, and outputs the count."""

    out: Output[FLOAT]
    runs: FLOAT = 0

    def compute(self):
        self.runs += 1
        self.out = self.runs


class IntegerMix(Vertex):
    a: Input[Vector[INT]]
    b: InOut[Vector[INT]]

    def compute(self):
        self.b = self.b * 65537 + self.a
        self.b[0] += self.a[-1]


class HalfScale(Vertex):
    x: Input[Vector[HALF]]
    out: Output[Vector[HALF]]

    def compute(self):
        self.out = self.x * 3 + 1


class FlipWhereNegative(Vertex):
    """Has a branch that depends on data."""

    x: InOut[FLOAT]

    def compute(self):
        if self.x < 0:
            self.x = -self.x


class Gather(Vertex):
    """Has an index that depends on data."""

    x: Input[Vector[FLOAT]]
    i: Input[INT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x[self.i]


class SuperScale(SupervisorVertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        self.x *= 2


class AllPositive(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[BOOL]

    def compute(self):
        self.out = np.all(self.x > 0)


# --- random codelets
# --------------------------------------------------------------------------------------------------
#
# A random program without loops over fixed fields. In the templates, v is a vector of n elements, u
# one of k elements, m a k x n matrix and s a number.

SHAPES = {"x": "n", "v": "n", "u": "k", "m": "kn", "w": "n", "q": "kn", "s": "", "y": "n", "z": ""}

FIELDS = """
    x: Input[Vector[{T}]]
    v: Input[Vector[{T}]]
    u: Input[Vector[{T}]]
    m: Input[Vector[Vector[{T}]]]
    w: InOut[Vector[{T}]]
    q: InOut[Vector[Vector[{T}]]]
    s: InOut[{T}]
    y: Output[Vector[{T}]]
    z: Output[{T}]
    k: {T} = 1
"""

FLOAT_VECTORS = """
{v} + {v}; {v} * {s}; {v} - {v} * {v}; {v} / ({v} * {v} + 1); np.exp(-np.abs({v})); np.exp2(np.clip({v}, -4, 4))
np.log1p(np.abs({v})); np.sqrt(np.abs({v})); np.tanh({v}); np.sin({v}); np.arctan2({v}, {v}); np.power(np.abs({v}), {s})
np.expm1(-np.abs({v}[::-1])); np.cbrt({v}); np.arcsin({v}); {v} ** 2; {v} ** 3; np.abs({v}) ** 0.5; np.abs({v}) ** {s}
np.abs({v}) ** {v}; 2.0 ** {v}; {v}[::-1]; {m}[0]; {m}[-1]; {m}[:, ::-1][0]; np.where({v} > {s}, {v}, {v}); {s} / {v}
np.where({v} > {v}, {s}, {v}); np.maximum({v}, {s}); np.minimum({v}, {v}); {m}.sum(axis=0); np.max({m}, axis=0)
np.mean({m}, axis=0); {m}.T @ {u}; {u} @ {m}; {u} @ {m}[:, ::-1]; np.cumsum({v}); np.sort({v}); {v}.astype(np.float16)
{v}.astype(np.float32); np.stack([{v}, {v}]).sum(axis=0); np.concatenate([{v}[1:], {v}[:1]]); -{v}; {v}.copy()
np.clip({v}, -1.0, 2.5); np.float32(0.1) * {v}; np.sqrt(2) * {v}; np.full_like({v}, 0.25); {v} % 3; {v} // 2
np.dot({u}, {m}); {m}.T.sum(axis=1); np.array({v}); np.asarray({v}); np.roll({v}, 1); {v}.reshape(-1); np.log2(np.abs({v}))
np.linalg.inv(np.tanh({m}.T.astype(np.float32) @ {m}.astype(np.float32)) + np.float32(2.5) * np.eye(len({v}), dtype=np.float32))[0]
{m}.T[:, 0]; np.concatenate([{v}, {v}])[::2]; {v} * np.arange(len({v})); np.where({v} > 0, {v}, 0); np.diff({v}, prepend=0)
"""
FLOAT_PARTS = """
{m} @ {v}; {m}.sum(axis=1); np.mean({m}, axis=1); {m}[:, 0]; {m}.max(axis=1); np.argmax({m}, axis=1); {m}[::-1] @ {v}
{m}[:, ::2].sum(axis=1); np.dot({m}, {v}); {m}[:, ::2] @ {v}[::2]; {u} * {u}; np.exp2(-np.abs({u})); {u} + {s}; {u}[::-1]
{m}[:, -1]; np.stack([{u}, {u}]).T.sum(axis=1); ({m} @ {m}.T)[0]; np.array([{s}, 1.0])[0] * {u}
"""
FLOAT_MATRICES = """
{m} * {v}; {m} + {u}[:, None]; np.exp(-np.abs({m})); {m} - {m}.max(axis=1, keepdims=True); ({m}.T * {s}).T; {m}[::-1]
np.where({m} > 0, {m}, 0); {m} * {m}; {m} @ ({m}.T @ {m}); np.outer({u}, {v}); {m}.reshape(-1)[::-1].reshape({m}.shape)
np.stack([{m}, {m}]).sum(axis=0); ({m}.T + {u}).T; np.abs({m}) ** 0.5; np.exp2(-np.abs({m}.T)).T; np.copy({m}.T).T
"""
FLOAT_NUMBERS = """
{v}[0]; {v}[-1]; {m}[0, 0]; np.sum({v}); {v} @ {v}; {v} @ {v}[::-1]; np.max({v}); np.mean({v}); {s} * {s} + {s}; abs({s})
max({s}, {s}); min({v}[0], {v}[-1]); np.tanh({s}); np.exp2(-abs({s})); abs({s}) ** 0.5; {s} ** 2; {s} ** 3; np.sum({m})
np.sum({m}.T); sum({v}); np.dot({v}, {v}); np.prod({v}); {v}[::2].sum(); {v}[::-1].sum(); np.where({s} > {s}, {s}, {s})
np.std({v}); self.k; self.s; {s} / {s}; abs({s}) ** {s}; np.sum({m}[:, ::2]); np.sum(np.copy({m}.T)); np.log10(np.abs({s}))
np.array([{s}, 1.0, {s}]).sum(); np.concatenate([{m}.T, {m}.T]).sum(); np.exp(-abs({s})); np.cbrt({s}); np.arcsin({s})
np.power(abs({s}), {s}); np.linalg.norm({v}); ({v} * {v}).sum(); ({m} * {m}).sum(); ({m}.T * {u}).sum(); {s} % 3; {s} // 2
np.asarray({v})[0]; np.hstack([{v}, {u}]).sum(); np.sum({v}, keepdims=True)[0]; np.min({m})
np.linalg.det({m}.T.astype(np.float32) @ {m}.astype(np.float32)); np.linalg.det(np.array([[{s}, 1.5], [{s}, {s}]], np.float32))
"""
INTEGER_VECTORS = """
{v} + {v}; {v} * {s}; {v} - {v} * {v}; {v} // 3; {v} % 7; {v} // ({v} | 1); {v} & {v}; {v} | 5; {v} ^ {v}; {v} << 3
{v} >> 1; np.abs({v}); -{v}; ~{v}; np.maximum({v}, {s}); np.where({v} > {v}, {v}, {s}); {m}.sum(axis=0); {m}.T @ {u}; {v}[::-1]
np.clip({v}, -100, 100); np.cumsum({v}); np.sort({v}); {m}[-1]; np.concatenate([{v}[1:], {v}[:1]]); {v} ** 2; {v} * 1000003
{v}.astype(np.int16); {v}.astype(np.float32); np.sign({v}); np.sqrt(np.abs({v}))
"""
INTEGER_PARTS = (
    "{m} @ {v}; {m}.sum(axis=1); {m}[:, 0]; {m}.max(axis=1); {u} * {u}; {u} + {s}; np.argmin({m}, "
    "axis=1)"
)
INTEGER_MATRICES = (
    "{m} * {v}; {m} + {u}[:, None]; {m}[::-1]; np.where({m} > 0, {m}, 0); {m} % 5; {m} - "
    "{m}.T[0][:, None]"
)
INTEGER_NUMBERS = """
{v}[0]; {v}[-1]; np.sum({v}); {v} @ {v}; np.max({v}); {s} * {s} + {s}; abs({s}); max({v}[0], {v}[-1]); sum({v}); self.k
{s} // ({s} | 1); {s} % 5; np.sum({m}); {m}[0, 0]; {s} << 2; np.prod({v}); self.s; {s} ** 2; {s} / 7; np.any({v} > 3) * 2
"""
TRUTH_VECTORS = """
{v} & {v}; {v} | {s}; {v} ^ {v}; ~{v}; {v} == {v}; {v} != {s}; {v} < {v}; np.logical_and({v}, {v}); {m}.any(axis=0); {m}[0]
np.where({v}, {v}, {v}[::-1]); np.logical_not({v}); {m}.all(axis=0); {v}[::-1]; {v}.astype(np.int32) > 0; np.roll({v}, 1)
{v} + {v}; {v} * {s}; np.concatenate([{v}[1:], {v}[:1]]); np.logical_or.accumulate({v}); np.maximum({v}, {v}); {v}.copy()
"""
TRUTH_PARTS = (
    "{m}.any(axis=1); {m}.all(axis=1); {m}[:, 0]; {u} ^ {u}; {u} & {s}; {m} @ {v}; np.argmax({m}, "
    "axis=1)"
)
TRUTH_MATRICES = (
    "{m} & {v}; {m} | {u}[:, None]; {m}[::-1]; ~{m}; {m} == {m}.T[0][:, None]; np.where({m}, {m}, "
    "{v})"
)
TRUTH_NUMBERS = """
{v}[0]; {v}[-1]; np.any({v}); np.all({v}); {s} & {s}; {s} | {v}[0]; np.sum({v}) > 2; {v} @ {v}; self.k; np.logical_not({s})
max({v}[0], {v}[-1]); {m}[0, 0] ^ {s}; np.logical_xor.reduce({v}); np.count_nonzero({v}) > 1; {s} == {v}[0]; self.s
"""
STATEMENTS = """
self.w += {v}; self.w[0] = {s}; self.w[1:] = {v}[:-1]; self.w[:] = {v}; self.w[::2] *= {s}; self.w = {v}; self.s = {s}
self.s += {s}; self.k = self.k * {s}; self.y = {v}; self.y[0] = {s}; self.z = {s}; self.y[:1] = {v}[:1]; self.q += {m}
self.q[0] = {v}; self.q[:, 0] = {u}; self.q = {m}; self.q[-1][::-1] = {v}; self.w[0], self.w[-1] = self.w[-1], self.w[0]
self.w[1:] += self.w[:-1]; self.w = self.w[::-1]; self.q[:] = {s}; self.w[-1:] = {s}; self.s = {v}[:1]; self.q.T[0] = {u}
self.q *= 2; self.w -= 1
self.w[{v} > {s}] = {s}; self.q[self.q < {v}] = 2; self.y[{v} == {v}] = 1; self.w[:] = {v} * self.w[0]
self.q[0] = {v} * self.q[0, 0]; self.y[::-1] = {v}
"""
BLOCKS = [
    "acc = {s}\nfor i in range(len({v})):\n    acc = acc + {v}[i] * {v}[i]\nself.z = acc",
    "for i in range(1, len(self.w)):\n    self.w[i] += self.w[i - 1]",
    "a = np.zeros(len({v}), {v}.dtype)\na[0] = {s}\na += self.w\na[1:] = a[:-1]\nself.w = a",
    "a = self.w[1:]\na += {s}\nself.s = self.w[0]",
    "a = self.w[0]\na += 1\nself.s = a",
    "a = {v} * {v}\nb = a[::2]\nb += {s}\nself.y = a",
    "a = np.ones_like({m})\na[0] *= {v}\na[:, -1] = {u}\nself.q = a",
    "a = {v} + {v}\nself.w[:] = a\nself.w *= {s}\nself.y = a",
    "self.y[0] = {s}\nfor i in range(1, len(self.y)):\n    self.y[i] = {v}[i] + {s}",
    "self.z = -max({s}, 0) * 3\nself.s = min({s}, 1, {s})",
]
BRANCHES = [
    "if {s} > {s}:",
    "if {s}:",
    "if np.any({v} > {s}):",
    "if {v}[0] < {v}[-1] and {s} != {s}:",
    "if not {s} <= 0 or {v}[-1]:",
]


def _split(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(";")]


TEMPLATES = {
    "f": {
        "v": _split(FLOAT_VECTORS),
        "u": _split(FLOAT_PARTS),
        "m": _split(FLOAT_MATRICES),
        "s": _split(FLOAT_NUMBERS),
    },
    "i": {
        "v": _split(INTEGER_VECTORS),
        "u": _split(INTEGER_PARTS),
        "m": _split(INTEGER_MATRICES),
        "s": _split(INTEGER_NUMBERS),
    },
    "b": {
        "v": _split(TRUTH_VECTORS),
        "u": _split(TRUTH_PARTS),
        "m": _split(TRUTH_MATRICES),
        "s": _split(TRUTH_NUMBERS),
    },
}
TEMPLATES["u"] = TEMPLATES["i"]
ALIKE = {FLOAT: HALF, HALF: FLOAT, INT: UNSIGNED_INT, UNSIGNED_INT: INT, BOOL: BOOL}


def random_codelet(
    rng: Random, dtype: type[DType], length: int, constants: bool = True
) -> tuple[type[Vertex], str]:
    """Return a vertex class with the fields of `SHAPES`, and its source.

    compute() has `length` random statements, some of them in a branch. One field in eight has the
    other width of the dtype, or the other signedness. `constants`: the source contains numbers.
    """
    templates = TEMPLATES[dtype.numpy.kind]
    values = {
        "v": ["self.x", "self.v", "self.w"],
        "u": ["self.u"],
        "m": ["self.m", "self.q"],
        "s": ["self.s", "self.k"],
    }

    if constants:
        values["s"] += ["2", "3"] + (["0.5", "-1.25"] if dtype.numpy.kind == "f" else [])

    def fill(template: str) -> str:
        while "{" in template:
            at = template.index("{")
            template = template[:at] + rng.choice(values[template[at + 1]]) + template[at + 3 :]
        return template

    lines = []
    for number in range(length):
        action = rng.randrange(9)
        if action == 0:
            lines += fill(rng.choice(BLOCKS)).splitlines()
        elif action == 8:
            lines += [fill(rng.choice(BRANCHES)), f"    {fill(rng.choice(_split(STATEMENTS)))}"]
            if rng.randrange(2):
                lines += ["else:", f"    {fill(rng.choice(_split(STATEMENTS)))}"]
        elif action <= 2:
            lines.append(fill(rng.choice(_split(STATEMENTS))))
        else:
            kind = rng.choice("vvvumsss")
            lines.append(f"{kind}{number} = {fill(rng.choice(templates[kind]))}")
            # New names are in the list twice, so that they are used more often than old ones.
            values[kind] += [f"{kind}{number}"] * 2
    lines += [
        fill("self.w = {v}"),
        fill("self.z = {s}"),
        fill("self.q[0] = {v}"),
        fill("self.y[:1] = {v}[:1]"),
    ]
    body = "\n        ".join(lines)
    types = iter(
        ALIKE[dtype] if rng.randrange(8) == 0 else dtype for _ in range(FIELDS.count("{T}"))
    )
    fields = (
        "".join(part + next(types).__name__ for part in FIELDS.split("{T}")[:-1])
        + FIELDS.split("{T}")[-1]
    )
    source = f"class Random(Vertex):{fields}\n    def compute(self):\n        {body}\n"
    scope = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__} | {"np": np}
    exec(source, scope)
    return scope["Random"], source


ELEMENTWISE = {
    "f": """{v} + {v}; {v} * {s}; {v} - {v} * {v}; {v} / ({v} * {v} + 1); np.sqrt(np.abs({v})); np.maximum({v}, {s}); -{v}
        np.minimum({v}, {v}); {s} / {v}; np.exp(-np.abs({v})); {v} % 3; {v} // 2; np.abs({v}); np.floor({v}); {v} > {s}""",
    "i": """{v} + {v}; {v} * {s}; {v} - {v} * {v}; {v} // 3; {v} % 7; {v} & {v}; {v} | 5; {v} ^ {v}; {v} << 3; np.abs({v}); -{v}
        np.maximum({v}, {s}); ~{v}; np.sign({v}); {v} // ({v} | 1); {v} > {v}""",
    "b": (
        "{v} & {v}; {v} | {v}; {v} ^ {v}; ~{v}; {v} == {v}; np.logical_and({v}, {v}); {v} + {v}; "
        "np.maximum({v}, {v})"
    ),
}
ELEMENTWISE["u"] = ELEMENTWISE["i"]


def random_elementwise(rng: Random, dtype: type[DType], length: int) -> tuple[type[Vertex], str]:
    """Return a vertex class of elementwise operations on vectors x, v, w and y, and its source."""
    kind = dtype.numpy.kind
    vectors, numbers = (
        ["self.x", "self.v", "self.w"],
        {"f": ["2", "0.5", "-1.25"], "b": ["True"]}.get(kind, ["2", "3"]),
    )
    lines = []
    for number in range(length):
        text = rng.choice(_split(ELEMENTWISE[kind]))
        while "{" in text:
            at = text.index("{")
            text = (
                text[:at] + rng.choice(vectors if text[at + 1] == "v" else numbers) + text[at + 3 :]
            )
        lines.append(f"v{number} = {text}")
        vectors += [f"v{number}"] * 2
        if rng.randrange(3) == 0:
            lines.append(
                rng.choice(
                    ["self.w = {}", "self.w[:] = {}", "self.y = {}", "self.w += self.x"]
                ).format(rng.choice(vectors))
            )
    body = "\n        ".join([*lines, f"self.y = {rng.choice(vectors)}"])
    types = [rng.choice([dtype, dtype, dtype, ALIKE[dtype]]).__name__ for _ in "xvwy"]
    kinds = zip("xvwy", ("Input", "Input", "InOut", "Output"), types, strict=True)
    fields = "\n    ".join(f"{name}: {edge}[Vector[{t}]]" for name, edge, t in kinds)
    source = f"class Random(Vertex):\n    {fields}\n\n    def compute(self):\n        {body}\n"
    scope = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__} | {"np": np}
    exec(source, scope)
    return scope["Random"], source


# --- random codelets with branches
# ------------------------------------------------------------------------------------
#
# Only single numbers: a, b, c are any numbers, p and q are integers, of Python or of numpy.

BRANCHING = {"x": "n", "i": "n", "w": "n", "s": "", "y": "n", "z": "", "t": ""}

BRANCHING_FIELDS = """
    x: Input[Vector[{X}]]
    i: Input[Vector[INT]]
    w: InOut[Vector[{T}]]
    s: InOut[{T}]
    y: Output[Vector[{T}]]
    z: Output[{T}]
    t: InOut[INT]
"""
_numbers = count()


def random_branching(
    rng: Random, dtype: type[DType], length: int, size: int, given: type[DType] | None = None
) -> tuple[type[Vertex], str]:
    """Return a vertex class of nested branches and loops, and its source.

    It has the fields of `BRANCHING`, with vectors of `size` elements. `given` is the dtype of the
    field x, if it differs from `dtype`.
    """
    floats = dtype.numpy.kind == "f"
    fresh = count()

    def whole(deep: int) -> str:
        if deep == 0 or rng.randrange(3) == 0:
            simple = [
                "p",
                "q",
                "p",
                "q",
                "self.t",
                f"self.i[{rng.randrange(size)}]",
                str(rng.randrange(-3, 9)),
            ]
            return rng.choice(simple)
        one, two = whole(deep - 1), whole(deep - 1)
        if rng.randrange(6) == 0:
            return f"({one} if {test(0)} else {two})"
        forms = [
            f"({one} + {two})",
            f"({one} - {two})",
            f"{one} % 7",
            f"({one} // 3)",
            f"abs({one})",
            f"{one} * 2",
        ]
        forms += [
            f"self.STEPS[({one}) % 3]",
            f"math.floor(({one}) / 4)",
            f"sum(1 for v in self.x if v > {number(0)})",
        ]
        forms += [
            "-1 if e is None else 2",
            f"max(range({size}), key=lambda j: self.x[j])",
            f"round({one} / 4)",
        ]
        return rng.choice([*forms, f"max({one}, {two})"])

    def number(deep: int) -> str:
        if deep == 0 or rng.randrange(4) == 0:
            simple = [
                "a",
                "b",
                "c",
                "a",
                "b",
                "self.s",
                f"self.x[{place()}]",
                f"self.w[{place()}]",
                "2",
                "-1",
            ]
            return rng.choice([*simple, *(["0.5", "0.1"] if floats else [])])
        one, two = number(deep - 1), number(deep - 1)
        # Python's integers grow without limit, and squares soon become long.
        factor = rng.choice([f"self.x[{place()}]", "3", "-2"])
        if rng.randrange(6) == 0:
            return f"({one} if {test(0)} else {two})"
        forms = [
            f"({one} + {two})",
            f"({one} - {two})",
            f"{one} * {factor}",
            f"-{one}",
            f"abs({one})",
            f"max({one}, {two})",
        ]
        if floats and rng.randrange(6) == 0:
            forms = [
                f"float({one})",
                f"math.sqrt(abs({one}))",
                f"math.exp(-abs({one}))",
                f"TABLE[({whole(0)}) % 3]",
                f"math.atan2({one}, {two})",
                f"np.linalg.det(np.array([[{one}, 2], [{two}, 0.5]], np.float32).reshape(2, -1).T)",
                f"np.linalg.inv(np.array([[({one}) ** 2 + 1, 0.5], [-1, 2]], np.float32))[0, 1]",
            ]
        forms += [
            f"t[{place()} % 3]",
            f"self.w[::{rng.choice([1, 2, -1, -2])}][0]",
            f"max(self.x[j] for j in range({size}))",
        ]
        return rng.choice(
            [*forms, f"min({one}, {two})", f"{one} / (abs({two}) + 1)" if floats else f"{one} // 5"]
        )

    def place() -> str:
        return rng.choice(
            [
                str(rng.randrange(size)),
                str(-rng.randint(1, size)),
                f"p % {size}",
                f"(p + q) % {size}",
            ]
        )

    def test(deep: int) -> str:
        side, order = (
            (whole if rng.randrange(3) == 0 else number),
            rng.choice(["<", "<=", ">", ">=", "==", "!="]),
        )
        plain = f"{side(deep)} {order} {side(deep)}"
        if deep == 0:
            return plain
        form = rng.randrange(6)
        if form == 0:
            return f"{number(1)} < {number(1)} <= {number(0)}"
        if form == 1:
            return f"not {test(deep - 1)}"
        return plain if form > 3 else f"{plain} {'and' if form == 2 else 'or'} {test(deep - 1)}"

    def block(deep: int, indent: str, in_loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(rng.randint(1, 3)):
            action = rng.randrange(11 if deep else 7)
            if action <= 1:
                lines.append(f"{indent}{rng.choice('abc')} = {number(2)}")
            elif action == 2:
                lines.append(f"{indent}{rng.choice('abc')} {rng.choice('+-')}= {number(1)}")
            elif action == 3:
                lines.append(f"{indent}{rng.choice('pq')} = {whole(2)}")
            elif action == 4:
                lines.append(f"{indent}self.{rng.choice('wwy')}[{place()}] = {number(1)}")
            elif action == 5:
                filled = [
                    f"t[{place()} % 3] = {number(1)}",
                    f"self.w[::{rng.choice([2, -1])}] = {number(0)}",
                    "e = None",
                ]
                filled += [
                    f"if e is None or {test(0)}: e = {number(0)}",
                    f"t = [{number(0)}, {number(0)}, b]",
                    "t, u = u, t",
                ]
                lines.append(
                    indent + rng.choice([*filled, *[f"self.{rng.choice('sz')} = {number(1)}"] * 6])
                )
            elif action == 6:
                lines.append(
                    f"{indent}self.t = {whole(1)}"
                    if not in_loop or rng.randrange(3)
                    else f"{indent}if {test(1)}: {rng.choice(['break', 'continue', 'return'])}"
                )
            elif action <= 8:
                lines += [f"{indent}if {test(1)}:", *block(deep - 1, indent + "    ", in_loop)]
                if rng.randrange(2):
                    lines += [
                        f"{indent}elif {test(1)}:",
                        *block(deep - 1, indent + "    ", in_loop),
                    ]
                if rng.randrange(2):
                    lines += [f"{indent}else:", *block(deep - 1, indent + "    ", in_loop)]
            elif action == 9:
                name = f"k{next(fresh)}"
                over = rng.choice(
                    [
                        f"range({size})",
                        f"range({whole(1)} % 5)",
                        "self.x",
                        f"range(1, {rng.randint(1, 4)})",
                    ]
                )
                lines += [f"{indent}for {name} in {over}:", *block(deep - 1, indent + "    ", True)]
                lines.append(
                    f"{indent}    {rng.choice('ab')} += {name}"
                    if rng.randrange(2)
                    else f"{indent}    q += 1"
                )
            else:
                name = f"n{next(fresh)}"
                lines += [
                    f"{indent}{name} = 0",
                    f"{indent}while {name} < 4 and ({test(1)}):",
                    f"{indent}    {name} += 1",
                ]
                lines += block(deep - 1, indent + "    ", True)
        return lines

    start = [
        "a = self.s",
        f"b = {rng.choice(['0', 'self.x[0]', '0.0' if floats else '1'])}",
        "c = self.w[-1]",
        f"p = {rng.choice(['0', 'self.t', 'int(self.i[0])'])}",
        "q = 1",
        "e = None",
        "t, u = [0] * 3, [c for _ in range(3)]",
    ]
    body = [f"        {line}" for line in start]
    for _ in range(length):
        body += block(2, "        ", False)
    body += [
        "        self.z = a",
        "        self.w[0] = b",
        "        self.t = q",
        "        self.y[0] = c",
    ]
    text = "\n".join(body)
    fields = BRANCHING_FIELDS.format(T=dtype.__name__, X=(given or dtype).__name__)
    source = (
        f"class Branching(Vertex):{fields}    STEPS = (3, -1, 7)\n\n    def "
        f"compute(self):\n{text}\n"
    )
    return branching(source), source


def branching(source: str) -> type[Vertex]:
    """Return the class that a source of `random_branching` defines."""
    names = {"np": np, "math": math, "TABLE": [0.1, 2.5, -3.0], "__name__": "random_codelet"}
    found: type[Vertex] = executed(source, f"<random codelet {next(_numbers)}>", names)["Branching"]
    return found


def executed(source: str, file: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Execute a source with the names of the kit and `names`; return all names after it.

    `inspect` and tracebacks find its text as that of `file`.
    """
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__} | dict(names)
    exec(compile(source, file, "exec"), scope)
    return scope
