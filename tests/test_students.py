"""Codelets as learners write them: each gives the bits of the plain vertex loop, and the report
says in words how it ran."""

from __future__ import annotations

import math
from itertools import count

import numpy as np
import pytest
from codelets import executed
from graphs import same_bits
from vertex_loop import run_codelet

from ipu_teach import Vertex

HEAD = """
class Student(Vertex):
    x: Input[Vector[FLOAT]]
    n: Input[INT]
    y: InOut[Vector[FLOAT]]
    out: Output[FLOAT]
    GAIN = 2.5
    WEIGHTS = [0.25, 0.5, 0.25]

    def relu(self, v):
        return v if v > 0 else 0.0

    def between(self, v, low=-1, high=1.0):
        if v < low:
            return low
        return high if v > high else v

    def compute(self):
"""
BODY_LINE = HEAD.count("\n") + 1  # the first line of the body of compute()
SCALE = 3.0
_numbers = count()


def doubled(v):
    return v * 2 + 1


def clamped(v):
    if v > 1:
        return 1.0
    return v


# How it runs, words of the reason, and the text of compute().
CASES = {
    "a vectorised line": ("batch", "", "self.y = self.x * self.GAIN"),
    "a loop over elements": (
        "batch",
        "",
        "for i in range(len(self.x)):\n    self.y[i] = self.x[i] * self.WEIGHTS[i % 3]",
    ),
    "enumerate and zip": (
        "batch",
        "",
        "for i, (a, b) in enumerate(zip(self.x, self.y)):\n    self.y[i] = a * b",
    ),
    "range with a step": ("batch", "", "for i in range(0, len(self.x), 2):\n    self.y[i] = i"),
    "a helper": ("batch", "", "self.y = doubled(self.x)"),
    "a nested function": (
        "batch",
        "",
        "def f(v): return max(-1.0, min(1.0, v))\nfor i in range(8): self.y[i] = f(self.x[i])",
    ),
    "recursion on a length": (
        "batch",
        "",
        "def total(i): return 0.0 if i == len(self.x) else self.x[i] + total(i + 1)\nself.out = "
        "total(0)",
    ),
    "a comprehension": ("batch", "", "self.out = sum([v * v for v in self.x])"),
    "a generator": ("batch", "", "self.out = sum(v * v for v in self.x)"),
    "a list that grows": (
        "batch",
        "",
        "got = []\nfor v in self.x: got.append(v * 2)\nself.y = got",
    ),
    "relu with max": ("batch", "", "for i in range(len(self.x)): self.y[i] = max(0.0, self.x[i])"),
    "relu with a mask": ("batch", "", "self.y[self.y < 0] = 0"),
    "relu with where": ("batch", "", "self.y = np.where(self.x > 0, self.x, 0)"),
    "argmax": ("batch", "", "self.out = np.argmax(self.x)"),
    "sort": ("batch", "", "self.y = np.sort(self.x)"),
    "mean and deviation": ("batch", "", "self.y = (self.x - np.mean(self.x)) / np.std(self.x)"),
    "concatenate": ("batch", "", "self.y = np.concatenate([self.x[1:], self.x[:1]])"),
    "try around a division": (
        "batch",
        "",
        "try:\n    self.out = 1 / self.x[0]\nexcept ZeroDivisionError:\n    self.out = 0",
    ),
    "an if around slices": (
        "scalar",
        "a branch",
        "if self.n > 3: self.y[1:] = self.x[:-1]\nelse: self.y *= 2",
    ),
    "if np.any": ("scalar", "a branch", "if np.any(self.x > 1): self.out = 1\nelse: self.out = 0"),
    "a while on data": (
        "scalar",
        "a loop condition",
        "v = self.x[0]\nk = 0\nwhile v > 1:\n    v = v / 2\n    k += 1\nself.out = k",
    ),
    "len() in a condition": (
        "scalar",
        "a loop condition",
        "i = 0\nwhile i < len(self.x) and self.x[i] > -1: i += 1\nself.out = i",
    ),
    "an early return": (
        "scalar",
        "a branch",
        "for i in range(len(self.x)):\n    if self.x[i] < 0:\n        self.out = i\n        "
        "return\nself.out = -1",
    ),
    "a count from data": (
        "scalar",
        "a count",
        "total = 0\nfor i in range(self.n): total += i\nself.out = total",
    ),
    "math.sqrt": (
        "scalar",
        "float()",
        "total = 0.0\nfor v in self.x: total += v * v\nself.out = math.sqrt(total)",
    ),
    "a class attribute behind a branch": (
        "scalar",
        "a branch",
        "for i in range(8):\n    self.y[i] = self.GAIN * self.x[i] if self.x[i] > 0 else "
        "self.WEIGHTS[i % 3]",
    ),
    "a closure behind a branch": (
        "scalar",
        "a branch",
        "for i in range(8):\n    if self.x[i] > SCALE: self.y[i] = SCALE",
    ),
    "a helper with a branch": (
        "scalar",
        "a branch",
        "for i in range(8): self.y[i] = clamped(self.x[i])",
    ),
    "a method with a branch": (
        "scalar",
        "a branch",
        "for i in range(8): self.y[i] = self.relu(self.x[i])",
    ),
    "recursion on data": (
        "loop",
        "f(), which calls itself, does",
        "def f(v): return 0 if v < 1 else 1 + f(v / 2)\nself.out = f(self.x[0])",
    ),
    "a slice behind a branch": (
        "scalar",
        "a branch",
        "for i in range(8):\n    if self.x[i] > 1:\n        self.y[i:] = 0\n        break\n    "
        "self.y[i] = self.x[i]",
    ),
    "a slice of a length from data": (
        "scalar",
        "an index depends on data",
        "self.out = np.sum(self.x[: self.n % 8])",
    ),
    "a list that grows behind a branch": (
        "loop",
        "a list that grows",
        "got = []\nfor v in self.x:\n    if v > 0: got.append(v)\nself.out = len(got)",
    ),
    "a comprehension with an if": (
        "scalar",
        "a branch",
        "self.out = sum([v for v in self.x if v > 0])",
    ),
    "any of a generator": (
        "scalar",
        "a branch",
        "self.out = 1 if any(v > 1 for v in self.x) else 0",
    ),
    "all of a generator": (
        "scalar",
        "a branch",
        "self.out = 1 if all(v < 2 for v in self.x) and self.n > 2 else 0",
    ),
    "a sum with an if": (
        "scalar",
        "a branch",
        "self.out = sum(i * v for i, v in enumerate(self.x) if v > 0)",
    ),
    "a sum in a branch": (
        "scalar",
        "a branch",
        "for i in range(8):\n    if self.y[i] > 0: self.y[i] = sum(self.x[k] for k in range(i)) + "
        "i",
    ),
    "a name that a generator has, too": (
        "scalar",
        "a branch",
        "v = 3\nt = sum(v for v in self.x if v > 0)\nself.out = t + v",
    ),
    "the largest behind a branch": (
        "scalar",
        "a branch",
        "self.out = max(self.x) if self.n > 3 else min(abs(v) for v in self.x)",
    ),
    "what only an earlier turn assigns": (
        "scalar",
        "a branch",
        "for i in range(8):\n    if i > 0 and self.x[i] > 0: self.y[i] = last\n    last = "
        "self.x[i] * 2",
    ),
    "default and named arguments": (
        "scalar",
        "a branch",
        "for i in range(8): self.y[i] = self.between(self.x[i], high=2)",
    ),
    "a sum of Python's own floats": (
        "scalar",
        "a branch",
        "self.out = sum(float(v) for v in self.x if v > 0)",
    ),
    "sorted": ("loop", "sorted() does not run", "self.y = sorted(self.x)"),
    "a formatted text": ("loop", "put into a text", "self.out = len(f'{self.x[0]:.2f}')"),
    "a print of a value": (
        "loop",
        "print() shows",
        "print(self.x[0], file=io.StringIO())\nself.out = 1",
    ),
    "a dict": (
        "loop",
        "a dict does not run",
        "seen = {}\nfor v in self.x: seen[int(v)] = 1\nself.out = len(seen)",
    ),
    "a match": (
        "loop",
        "a match does not run",
        "match int(self.n):\n    case 0: self.y += 1\n    case _: self.y *= 2",
    ),
    "in": (
        "loop",
        "`in` does not run as a scalar loop (write any(v == a for v in …) instead)",
        "self.out = 1 if 3 in self.x else 0",
    ),
    "in some numbers": (
        "scalar",
        "a branch",
        "self.out = 1 if self.n in (1, 2, 5) else 2 if self.n not in (3, 4) else 0",
    ),
    "a list of a length from data": (
        "scalar",
        "the length of a list depends on data",
        "t = [self.x[0]] * self.n\nself.out = len(t) + sum(v for v in t)",
    ),
    "an inner function": (
        "scalar",
        "a branch",
        "t = self.x[0]\ndef f(v, gain=2): return v * gain if v > t else t\nfor i in range(8): "
        "self.y[i] = f(self.x[i], i)",
    ),
    "a lambda": (
        "scalar",
        "a branch",
        "f = lambda v: v if v > 0 else -v / 2\nfor i in range(8): self.y[i] = f(self.x[i])",
    ),
    "the largest by a key": (
        "scalar",
        "a branch",
        "k = max(range(8), key=lambda i: abs(self.x[i]))\nself.out = max((v for v in self.x if v > "
        "1), default=k)",
    ),
    "a walrus": (
        "scalar",
        "a loop condition",
        "i = 0\nwhile (v := self.x[i]) < 1 and i < 7: i += 1\nself.out = v",
    ),
    "a mask behind a branch": (
        "loop",
        "`self.y < 0`, which is not a single number, does not run as a scalar loop (write np.where(…) "
        "instead)",
        "if self.n > 3: self.y[self.y < 0] = 0",
    ),
    "where behind a branch": (
        f"CPython alone: line {BODY_LINE}, np.where",
        "a branch",
        "if self.n > 3: self.y = np.where(self.y < 0, 0, self.y)",
    ),
    "sort behind a branch": (
        f"CPython alone: line {BODY_LINE}, np.sort",
        "a branch",
        "if self.n > 3: self.y = np.sort(self.x)\nself.out = np.median(self.x) + np.argmax(self.y)",
    ),
    "numpy's methods": (
        f"CPython alone: line {BODY_LINE}, self.x.clip",
        "a branch",
        "if self.n > 3: self.y = self.x.clip(-1, 1)\nself.out = self.x.max() + self.x.mean() + "
        "self.x.sum()",
    ),
}


def student(body: str) -> type[Vertex]:
    """A vertex class with that compute(), whose text can be had as if it stood in a file."""
    import io

    source = HEAD + "\n".join(f"        {line}" for line in body.splitlines()) + "\n"
    names = {
        "np": np,
        "math": math,
        "io": io,
        "doubled": doubled,
        "clamped": clamped,
        "SCALE": SCALE,
        "__name__": "student",
    }
    found: type[Vertex] = executed(source, f"student_{next(_numbers)}.py", names)["Student"]
    return found


@pytest.mark.parametrize("name", CASES)
def test_how_a_students_codelet_runs(name: str) -> None:
    way, words, body = CASES[name]
    codelet = student(body)
    source = np.random.default_rng(len(name))
    x, y = ((source.standard_normal((90, 8)) * 2).astype(np.float32) for _ in "xy")
    fields = {"x": x, "n": source.integers(0, 8, 90), "y": y, "out": np.zeros(90)}
    fast, slow = (run_codelet(codelet, loop, strict=False, **fields) for loop in (False, True))
    for field in fields:
        assert same_bits(fast.values[field], slow.values[field]), field
    assert fast.report.cycles_by_codelet() == slow.report.cycles_by_codelet()
    assert way == "loop" or fast.report.unknown_codelets == slow.report.unknown_codelets == ()
    reason = fast.report.unbatched().get("Student", "")
    assert fast.report.ways() == {"Student": way}, reason
    assert words in reason
    assert (
        not reason
        or "student_" in reason
        and ", line " in reason
        and "(Student.compute): " in reason
    )
