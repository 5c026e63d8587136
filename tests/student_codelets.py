"""Codelets as students write them, and inputs for each.

They have loops over elements, helpers, local arrays, and slices in branches.
"""

from __future__ import annotations

import math

import numpy as np

from bench import loops
from bench.loops import (  # noqa: F401  (names of this module, too)
    BFS,
    BinarySearch,
    Clip,
    Collatz,
    CsrProduct,
    FirstAbove,
    Histogram,
    InsertionSort,
    Life,
    Mandelbrot,
    Median,
    Newton,
    PopCount,
    PrefixMax,
    Shed,
    SignChanges,
    SmithWaterman,
    Window,
)
from ipu_teach import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    SHORT,
    SIGNED_CHAR,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    UNSIGNED_SHORT,
    InOut,
    Input,
    MultiVertex,
    Output,
    Vector,
    VectorList,
    Vertex,
)

GAIN = 3
TABLE = [2, 0, 1, 5]


class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        acc = 0.0
        for i in range(len(self.a)):
            acc += self.a[i] * self.b[i]
        self.out = acc


class CollatzPython(Vertex):
    """The same with integers of Python."""

    n: Input[INT]
    steps: Output[INT]
    top: Output[LONGLONG]

    def compute(self):
        n = int(self.n)
        steps, top = 0, n
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            top = max(top, n)
            steps += 1
        self.steps = steps
        self.top = top


class HalfSums(Vertex):
    x: Input[Vector[HALF]]
    y: Output[Vector[HALF]]

    def compute(self):
        acc = 0.0
        for i in range(len(self.x)):
            acc += self.x[i] * 0.75
            if acc > 100:
                acc = acc / 3
            self.y[i] = acc


class Lfsr(Vertex):
    """Keeps a random number in a state field."""

    seed: UNSIGNED_INT
    tally: Vector[INT]
    out: Output[Vector[UNSIGNED_INT]]

    def compute(self):
        s = self.seed
        for i in range(len(self.out)):
            s ^= s << 13
            s ^= s >> 17
            s ^= s << 5
            self.out[i] = s
            self.tally[s % len(self.tally)] += 1
        self.seed = s


class Strides(Vertex):
    x: Input[Vector[INT]]
    y: InOut[Vector[INT]]

    def compute(self):
        for i in range(0, len(self.x), 2):
            self.y[i] = self.x[i] * GAIN + TABLE[i % 4]
        for i in range(len(self.x) - 1, 0, -3):
            self.y[i] -= self.x[i] << 1
        for i in reversed(range(3)):
            self.y[-1] += i


class WrapAround(Vertex):
    x: Input[Vector[INT]]
    k: Input[Vector[SHORT]]
    y: Output[Vector[INT]]
    z: Output[Vector[UNSIGNED_CHAR]]

    def compute(self):
        for i, (a, k) in enumerate(zip(self.x, self.k, strict=False)):
            h = a * a * 31 + 7
            h = h ^ (h >> (k % 7))
            h = (h << k) + (-h) // 3 - abs(h) % 11
            self.y[i] = h % -13 if k < 0 else ~h // (k + 5)
            self.z[i] = h & 0x1FF


class Logistic(Vertex):
    x: Input[Vector[FLOAT]]
    h: Input[Vector[HALF]]
    y: Output[Vector[FLOAT]]
    g: Output[Vector[HALF]]

    def compute(self):
        for i in range(len(self.x)):
            e = np.exp(-self.x[i])
            self.y[i] = 1 / (1 + e) + np.sqrt(abs(self.x[i])) * np.tanh(e)
            self.g[i] = np.maximum(np.sin(self.h[i]), np.log(abs(self.h[i]) + 1))


class MathOnes(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            r = math.sqrt(abs(self.x[i]))
            self.y[i] = (
                math.exp(-r) * math.cos(self.x[i]) + math.atan2(r, 2.0) + self.x[i] ** 3 + r**2
            )


class Remainders(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    q: Output[Vector[FLOAT]]
    r: Output[Vector[FLOAT]]
    i: Output[Vector[INT]]

    def compute(self):
        for k in range(len(self.a)):
            self.q[k] = self.a[k] // self.b[k]
            self.r[k] = self.a[k] % self.b[k]
            self.i[k] = self.a[k] * 100


class CountAbove(Vertex):
    """Adds truth values."""

    x: Input[Vector[FLOAT]]
    mean: Input[FLOAT]
    n: Output[INT]
    share: Output[FLOAT]

    def compute(self):
        n = 0
        for v in self.x:
            n += v > self.mean
        self.n = n
        self.share = n / len(self.x)


class Tails(Vertex):
    """Uses views: a loop over a slice, and a row that data chooses."""

    x: Input[Vector[Vector[FLOAT]]]
    which: Input[INT]
    y: Output[Vector[FLOAT]]

    def compute(self):
        row = self.x[self.which]
        for i, v in enumerate(row[1:]):
            self.y[i] = v - row[i]
        self.y[-1] = row[0] + row[-1]


class WorkerSum(MultiVertex):
    """Each worker has an element of its own."""

    x: Input[Vector[INT]]
    part: Output[Vector[INT]]

    def compute(self, worker_id):
        share = (len(self.x) + self.num_workers - 1) // self.num_workers
        first = worker_id * share
        last = min(first + share, len(self.x))
        s = 0
        for i in range(first, last):
            if self.x[i] % 3 != 0:
                s += self.x[i]
        self.part[worker_id] = s


class Racy(MultiVertex):
    x: Input[Vector[INT]]
    most: InOut[INT]

    def compute(self, worker_id):
        for i in range(worker_id, len(self.x), self.num_workers):
            if self.x[i] > self.most:
                self.most = self.x[i]


class Evens(Vertex):
    """Writes under a condition; the other elements keep their values."""

    x: Input[Vector[INT]]
    y: Output[Vector[INT]]
    n: Output[INT]

    def compute(self):
        k = 0
        for v in self.x:
            if v % 2 == 0:
                self.y[k] = v
                k += 1
        self.n = k


class Mixed64(Vertex):
    a: Input[Vector[LONGLONG]]
    b: Input[Vector[SIGNED_CHAR]]
    c: Input[Vector[UNSIGNED_SHORT]]
    y: Output[Vector[LONGLONG]]
    f: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.a)):
            t = self.a[i] * self.b[i] + self.c[i]
            self.y[i] = t // (self.b[i] or 1) - (t >> 3) % 7
            self.f[i] = t / (self.c[i] + 1) if self.c[i] < 30000 else self.b[i] * 0.1


class Smooth(Vertex):
    """Uses slices in a branch that depends on data."""

    x: Input[Vector[FLOAT]]
    flag: Input[INT]
    y: Output[Vector[FLOAT]]
    total: Output[FLOAT]

    def compute(self):
        if self.flag > 0:
            self.y[1:] = self.x[:-1] * 2 + self.x[1:] / 3
            self.y[0] = self.x[0]
        elif self.flag == 0:
            self.y = self.x - 0.1
        self.total = np.sum(self.x) / len(self.x)


class Shift(Vertex):
    """Computes the right side in full before it stores anything."""

    x: InOut[Vector[HALF]]
    times: Input[INT]
    s: Output[HALF]

    def compute(self):
        for _ in range(self.times):
            self.x[1:] = self.x[:-1] + self.x[1:] * 0.5
        self.s = self.x[2:].sum()


class Residual(Vertex):
    """Uses local arrays."""

    x: Input[Vector[FLOAT]]
    h: Input[Vector[HALF]]
    y: InOut[Vector[FLOAT]]
    worst: Output[FLOAT]

    def compute(self):
        d = self.x - self.y
        e = d * self.h * 0.5
        worst = 0.0
        for _i, v in enumerate(e):
            if abs(v) > worst:
                worst = abs(v)
        if worst > 1:
            self.y[:] = self.y + d / worst
        self.y -= self.x[0]
        self.y[2:] *= self.x[2:]
        self.worst = worst


class Relax(Vertex):
    """Uses statements on slices without a loop; a trace can follow them, too."""

    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        self.y[1:] = (self.x[1:] + self.x[:-1]) * 0.5
        self.y[0] = self.x[0]


class Tape(Vertex):
    """Finds the largest number above `least` in each row; -1 stands for a row without one."""

    x: Input[Vector[Vector[FLOAT]]]
    least: Input[FLOAT]
    y: Output[Vector[FLOAT]]
    at: Output[INT]

    def compute(self):
        where = None
        for r, row in enumerate(self.x):
            best = None
            for v in row:
                if v > self.least and (best is None or v > best):
                    best = v
            if best is not None and where is None:
                where = r
            self.y[r] = -1 if best is None else best
        self.at = -1 if where is None else where


class Scaled(Vertex):
    """Writes rows element by element, and as slices."""

    x: InOut[Vector[Vector[FLOAT]]]
    which: Input[INT]

    def compute(self):
        for row in self.x:
            if max(row) > 1:
                row /= max(row)
            else:
                row[0] = 0.5
        self.x[self.which] = self.x[0] + self.x[-1] * 2
        self.x[1][1:3] = 0.25
        self.x[2] += 1


class Heat(Vertex):
    """Computes a time step of heat on a plate, by rows and by rows within rows."""

    old: Input[Vector[Vector[FLOAT]]]
    new: Output[Vector[Vector[FLOAT]]]
    hot: Output[BOOL]

    def compute(self):
        last = len(self.old) - 1
        for i in range(len(self.old)):
            if i == 0 or i == last or self.old[i][0] > 2:
                self.new[i] = self.old[i]
                continue
            self.new[i][1:-1] = (
                self.old[i][:-2] + self.old[i][2:] + self.old[i - 1][1:-1] + self.old[i + 1][1:-1]
            ) / 4
            self.new[i, 0], self.new[i, -1] = self.old[i, 0], self.old[i, -1]
        self.hot = any(max(row) > 2 for row in self.new)


class Kernel(Vertex):
    """Uses a matrix of constants that the class defines."""

    x: Input[Vector[Vector[FLOAT]]]
    y: Output[Vector[Vector[FLOAT]]]
    EDGES = [[0, 1, 0], [1, -4, 1], [0, 1, 0]]

    def compute(self):
        for i in range(1, len(self.x) - 1):
            for j in range(1, len(self.x[0]) - 1):
                total = 0.0
                for di in range(3):
                    for dj in range(3):
                        total += self.EDGES[di][dj] * self.x[i + di - 1, j + dj - 1]
                self.y[i, j] = total if abs(total) > 0.5 else 0


class Steps(Vertex):
    """Walks over a grid by pairs of constants, which data chooses."""

    moves: Input[Vector[INT]]
    seen: InOut[Vector[Vector[INT]]]
    inside: Output[INT]

    def compute(self):
        i, j = 2, 3
        steps = [(0, 1), (1, 0), (0, -1), (-1, 0)]
        around = 0
        for m in self.moves:
            di, dj = steps[m % 4]
            if 0 <= i + di < len(self.seen) and 0 <= j + dj < len(self.seen[0]):
                i, j = i + di, j + dj
            self.seen[i, j] += 1
        for di, dj in ((0, 1), (1, 0)):
            around += self.seen[(i + di) % 5, (j + dj) % 6]
        self.inside = around


class TopThree(Vertex):
    """Keeps a short list in order."""

    x: Input[Vector[FLOAT]]
    best: Output[Vector[FLOAT]]

    def compute(self):
        top = [-1.0] * 3
        for v in self.x:
            if v > top[-1]:
                top[-1] = v
                k = len(top) - 1
                while k > 0 and top[k] > top[k - 1]:
                    top[k], top[k - 1] = top[k - 1], top[k]
                    k -= 1
        for k, v in enumerate(top):
            self.best[k] = v


class EditDistance(Vertex):
    """Uses two rows of a table, which swap their roles."""

    a: Input[Vector[INT]]
    b: Input[Vector[INT]]
    distance: Output[INT]

    def compute(self):
        before = [2 * j - j for j in range(len(self.b) + 1)]
        now = [0] * (len(self.b) + 1)
        for i in range(len(self.a)):
            now[0] = i + 1
            for j in range(len(self.b)):
                cost = 0 if self.a[i] == self.b[j] else 1
                now[j + 1] = min(before[j + 1] + 1, now[j] + 1, before[j] + cost)
            before, now = now, before
        self.distance = before[-1]


class Stack(Vertex):
    """Traverses a tree in arrays, with a stack of fixed size and a grid as a list of lists."""

    left: Input[Vector[INT]]
    right: Input[Vector[INT]]
    value: Input[Vector[FLOAT]]
    total: Output[FLOAT]
    deepest: Output[INT]

    def compute(self):
        stack = [[0] * 2 for _ in range(16)]
        size, total, deepest = 1, 0.0, 0
        while size > 0:
            size -= 1
            node, depth = stack[size]
            total += self.value[node]
            deepest = max(deepest, depth)
            for child in (self.left[node], self.right[node]):
                if child >= 0:
                    stack[size][0] = child
                    stack[size][1] = depth + 1
                    size += 1
        self.total = total
        self.deepest = deepest


class Mirrored(Vertex):
    """Reads and writes slices with steps."""

    x: Input[Vector[FLOAT]]
    step: Input[INT]
    y: InOut[Vector[FLOAT]]
    total: Output[FLOAT]

    def compute(self):
        if self.step > 2:
            self.y[::-1] = self.x * 0.5
        else:
            self.y[1::2] = self.x[-2::-2]
            self.y[::4] += 1
        self.total = np.sum(self.x[:: self.step]) + np.max(self.y[8:2:-3])
        for v in self.x[:: -self.step]:
            self.total = 0 if v > 9 else np.min(self.x[self.step :])


class Rounded(Vertex):
    x: Input[Vector[FLOAT]]
    levels: Input[INT]
    y: Output[Vector[INT]]
    parts: Output[Vector[FLOAT]]

    def compute(self):
        for i, v in enumerate(self.x):
            self.y[i] = round(v * self.levels)
            whole = math.floor(v) if v > 0 else math.ceil(v)
            self.parts[i] = abs(v - whole) + int(v) % 2


class Digits(Vertex):
    """Rounds numbers to decimal digits by round() of Python."""

    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        for i, v in enumerate(self.x):
            self.y[i] = round(float(v), 2) if v > 0 else 0


class Rotated(Vertex):
    """Multiplies a matrix and vectors, and uses arrays of computed numbers."""

    angle: Input[FLOAT]
    x: InOut[Vector[Vector[FLOAT]]]
    mix: Input[Vector[Vector[FLOAT]]]

    def compute(self):
        c, s = np.cos(self.angle), np.sin(self.angle)
        for k in range(len(self.x)):
            p = self.x[k]
            if p[2] > 0:
                p[:] = np.array([c * p[0] - s * p[1], s * p[0] + c * p[1], p[2]])
            else:
                self.x[k] = self.mix @ p
        if self.angle > 1:
            self.x[:3] = self.x[:3] @ self.mix.T


class Fitted(Vertex):
    """Fits a line to points by normal equations, with the solver of numpy."""

    t: Input[Vector[FLOAT]]
    y: Input[Vector[FLOAT]]
    line: Output[Vector[FLOAT]]
    worst: Output[FLOAT]

    def compute(self):
        a = np.zeros((2, 2))
        b = np.zeros(2)
        for t, y in zip(self.t, self.y, strict=True):
            if y > -1:
                row = np.array([1.0, t])
                for i in range(2):
                    b[i] += row[i] * y
                    for j in range(2):
                        a[i, j] += row[i] * row[j]
        a[0, 0] += 0.5
        a[1, 1] += 0.5
        self.line = np.linalg.solve(a, b)
        self.worst = np.linalg.inv(a)[0, 1]


class Sorted(Vertex):
    """Calls functions of full arrays in a branch."""

    x: InOut[Vector[FLOAT]]
    median: Output[FLOAT]

    def compute(self):
        if self.x[0] > 0:
            self.x = np.sort(self.x)
        else:
            self.x = np.where(self.x > 0, np.exp(self.x), 0)
        self.median = np.median(self.x) + self.x.mean()


class Settled(Vertex):
    """Returns from compute() whether it is done."""

    x: InOut[Vector[FLOAT]]
    rounds: InOut[INT]

    def compute(self):
        self.rounds += 1
        for i in range(len(self.x)):
            if self.x[i] > 1:
                self.x[i] = self.x[i] / 2
                return False
        return True


class Horner(Vertex):
    """Uses constants of the class, of the vertex, and a function inside compute()."""

    terms: INT
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]
    far: Output[INT]
    COEFFICIENTS = np.array([0.5, -0.25, 2, 1], np.float32)

    def compute(self):
        def poly(v, last=0.0):
            for k in range(self.terms):
                last = last * v + self.COEFFICIENTS[k]
            return last

        for i in range(len(self.x)):
            self.y[i] = poly(self.x[i]) if abs(self.x[i]) < 1 else poly(1 / self.x[i], last=1.0)
        self.far = sum(1 for v in self.x if abs(v) > 1) + (
            max(range(4), key=lambda k: self.x[k]) in (1, 2)
        )


class Ragged(Vertex):
    """Takes lists of vectors of different lengths."""

    x: Input[VectorList[FLOAT]]
    y: InOut[VectorList[FLOAT]]
    found: Output[VectorList[INT]]
    which: Input[INT]
    total: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i, row in enumerate(self.x):
            for v in row:
                if v > 0:
                    total += v
            if len(row) > 2 and self.which > 2:
                self.found[i][1] = i
        for row in self.y:
            row *= 2
            for j in range(len(row)):
                if row[j] > 0:
                    row[j] -= 1
        last = self.y[self.which % len(self.y)]
        last[-1] = 7
        self.y[0] = self.x[0] + 1
        self.y[1][0] += self.x[self.which % 3][0]
        self.total = total + len(self.x)


class RaggedShares(MultiVertex):
    """Each worker has rows of its own, and reads the first element of all rows."""

    x: InOut[VectorList[FLOAT]]

    def compute(self, worker):
        for i in range(worker, len(self.x), self.num_workers):
            for j in range(len(self.x[i])):
                while self.x[i][j] > 1:
                    self.x[i][j] /= 2
                    if self.x[i][j] > 40:
                        self.x[-1][1] = 0


# --- what each is given

f4, f2, i4 = np.float32, np.float16, np.int32


def tree(r, n, nodes=15):
    """Return a binary tree for each vertex; children have larger numbers than their parent."""
    left, right = np.full((n, nodes), -1, i4), np.full((n, nodes), -1, i4)
    for k in range(n):
        for child in range(1, nodes):
            parent = r.integers(0, child)
            while (side := left if r.random() < 0.5 else right)[k, parent] >= 0:
                parent = r.integers(0, child)
            side[k, parent] = child
    return {
        "left": left,
        "right": right,
        "value": normal(r, n, nodes),
        "total": np.zeros(n, f4),
        "deepest": np.zeros(n, i4),
    }


def normal(r, *s):
    return r.normal(size=s).astype(f4)


def ints(r, a, b, *s):
    return r.integers(a, b, s).astype(i4)


EVERY = [0, -1, 1, 2**31 - 1, -(2**31), 2**30, 12345]


def odd(r, n, k):
    """Return integers of all sizes."""
    x = ints(r, -(2**31), 2**31 - 1, n, k) >> r.integers(0, 31, (n, k)).astype(i4)
    x.reshape(-1)[: len(EVERY)] = EVERY[: x.size]
    return x


def special(x):
    x.reshape(-1)[:6] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-40][: x.size]
    return x


def of_the_benchmark(codelet):
    return lambda r, n: loops.values(codelet, r, n)


CASES = {
    codelet.__name__: of_the_benchmark(codelet)
    for codelet in loops.CASES
    if codelet.__name__ not in ("DotLoop", "XorShift")
}
CASES |= {
    "DotProduct": lambda r, n: {
        "a": normal(r, n, 143),
        "b": normal(r, n, 143),
        "out": np.zeros(n, f4),
    },
    "CollatzPython": lambda r, n: {
        "n": ints(r, 1, 100000, n),
        "steps": np.zeros(n, i4),
        "top": np.zeros(n, np.int64),
    },
    "HalfSums": lambda r, n: {
        "x": (r.normal(size=(n, 60)) * 9 + 5).astype(f2),
        "y": np.zeros((n, 60), f2),
    },
    "Lfsr": lambda r, n: {
        "seed": r.integers(1, 2**32, n).astype(np.uint32),
        "tally": ints(r, 0, 5, n, 4),
        "out": np.zeros((n, 20), np.uint32),
    },
    "Strides": lambda r, n: {"x": odd(r, n, 17), "y": odd(r, n, 17)},
    "WrapAround": lambda r, n: {
        "x": odd(r, n, 30),
        "k": r.integers(-4, 40, (n, 30)).astype(np.int16),
        "y": np.zeros((n, 30), i4),
        "z": np.zeros((n, 30), np.uint8),
    },
    "Logistic": lambda r, n: {
        "x": special(normal(r, n, 20) * 9),
        "h": special((r.normal(size=(n, 20)) * 9).astype(f2)),
        "y": np.zeros((n, 20), f4),
        "g": np.zeros((n, 20), f2),
    },
    "MathOnes": lambda r, n: {"x": normal(r, n, 20) * 3, "y": np.zeros((n, 20), f4)},
    "Remainders": lambda r, n: {
        "a": normal(r, n, 20) * 50,
        "b": np.round(normal(r, n, 20) * 3),
        "q": np.zeros((n, 20), f4),
        "r": np.zeros((n, 20), f4),
        "i": np.zeros((n, 20), i4),
    },
    "CountAbove": lambda r, n: {
        "x": normal(r, n, 30),
        "mean": normal(r, n),
        "n": np.zeros(n, i4),
        "share": np.zeros(n, f4),
    },
    "Tails": lambda r, n: {
        "x": normal(r, n, 5, 9),
        "which": ints(r, -5, 5, n),
        "y": np.zeros((n, 9), f4),
    },
    "WorkerSum": lambda r, n: {"x": ints(r, -99, 99, n, 40), "part": np.zeros((n, 6), i4)},
    "Racy": lambda r, n: {"x": ints(r, -99, 99, n, 40), "most": ints(r, -9, 9, n)},
    "Evens": lambda r, n: {
        "x": ints(r, 0, 99, n, 15),
        "y": np.full((n, 15), -7, i4),
        "n": np.zeros(n, i4),
    },
    "Smooth": lambda r, n: {
        "x": normal(r, n, 33),
        "flag": ints(r, -1, 2, n),
        "y": np.full((n, 33), 9, f4),
        "total": np.zeros(n, f4),
    },
    "Shift": lambda r, n: {
        "x": (r.normal(size=(n, 150)) * 5).astype(f2),
        "times": ints(r, 0, 4, n),
        "s": np.zeros(n, f2),
    },
    "Residual": lambda r, n: {
        "x": normal(r, n, 21),
        "h": (r.normal(size=(n, 21)) * 2).astype(f2),
        "y": normal(r, n, 21),
        "worst": np.zeros(n, f4),
    },
    "Relax": lambda r, n: {"x": normal(r, n, 33), "y": np.full((n, 33), 9, f4)},
    "Tape": lambda r, n: {
        "x": normal(r, n, 4, 7),
        "least": np.abs(normal(r, n)) + 0.5,
        "y": np.zeros((n, 4), f4),
        "at": np.zeros(n),
    },
    "Scaled": lambda r, n: {"x": normal(r, n, 4, 5), "which": ints(r, 0, 4, n)},
    "Heat": lambda r, n: {
        "old": normal(r, n, 6, 7) * 2,
        "new": np.zeros((n, 6, 7), f4),
        "hot": np.zeros(n, bool),
    },
    "Kernel": lambda r, n: {"x": normal(r, n, 5, 6), "y": normal(r, n, 5, 6)},
    "Steps": lambda r, n: {
        "moves": ints(r, 0, 9, n, 12),
        "seen": np.zeros((n, 5, 6), i4),
        "inside": np.zeros(n, i4),
    },
    "TopThree": lambda r, n: {"x": normal(r, n, 20), "best": np.zeros((n, 3), f4)},
    "EditDistance": lambda r, n: {
        "a": ints(r, 0, 3, n, 7),
        "b": ints(r, 0, 3, n, 9),
        "distance": np.zeros(n, i4),
    },
    "Stack": tree,
    "Mirrored": lambda r, n: {
        "x": normal(r, n, 12),
        "step": ints(r, 1, 5, n),
        "y": normal(r, n, 12),
        "total": np.zeros(n, f4),
    },
    "Rounded": lambda r, n: {
        "x": normal(r, n, 15) * 4,
        "levels": ints(r, 1, 9, n),
        "y": np.zeros((n, 15), i4),
        "parts": np.zeros((n, 15), f4),
    },
    "Digits": lambda r, n: {"x": normal(r, n, 8) * 4, "y": np.zeros((n, 8), f4)},
    "Rotated": lambda r, n: {
        "angle": normal(r, n),
        "x": normal(r, n, 6, 3),
        "mix": normal(r, n, 3, 3),
    },
    "Fitted": lambda r, n: {
        "t": normal(r, n, 9),
        "y": normal(r, n, 9),
        "line": np.zeros((n, 2), f4),
        "worst": np.zeros(n, f4),
    },
    "Sorted": lambda r, n: {"x": normal(r, n, 11), "median": np.zeros(n, f4)},
    "Settled": lambda r, n: {"x": normal(r, n, 9), "rounds": np.zeros(n, i4)},
    "Horner": lambda r, n: {
        "terms": ints(r, 0, 5, n),
        "x": normal(r, n, 7),
        "y": np.zeros((n, 7), f4),
        "far": np.zeros(n, i4),
    },
    "Mixed64": lambda r, n: {
        "a": r.integers(-(2**63), 2**63 - 1, (n, 12)),
        "b": r.integers(-128, 128, (n, 12)).astype(np.int8),
        "c": r.integers(0, 2**16, (n, 12)).astype(np.uint16),
        "y": np.zeros((n, 12), np.int64),
        "f": np.zeros((n, 12), f4),
    },
}


# --- what is refused, and what turns out while it runs


class UsesList(Vertex):
    x: Input[Vector[INT]]
    out: Output[INT]

    def compute(self):
        seen = []
        for v in self.x:
            seen.append(v)
        self.out = len(seen)


class UsesFloatIndex(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[FLOAT]

    def compute(self):
        n = len(self.x) / 2
        self.y = self.x[n]


class UsesRecursion(Vertex):
    n: Input[INT]
    y: Output[INT]

    def fact(self, n):
        return 1 if n < 2 else n * self.fact(n - 1)

    def compute(self):
        self.y = self.fact(self.n)


class UsesTry(Vertex):
    x: Input[Vector[INT]]
    y: Output[INT]

    def compute(self):
        try:
            self.y = self.x[9]
        except IndexError:
            self.y = 0


class ReadsOutput(Vertex):
    x: Input[Vector[INT]]
    y: Output[INT]

    def compute(self):
        for v in self.x:
            self.y += v


class WritesInput(Vertex):
    x: Input[Vector[INT]]
    y: Output[INT]

    def compute(self):
        self.x[0] = 1


class TooFar(Vertex):
    x: Input[Vector[INT]]
    at: Input[INT]
    y: InOut[INT]

    def compute(self):
        self.y = 5
        self.y = self.x[self.at]


class Huge(Vertex):
    """Uses integers of Python that grow beyond any dtype."""

    n: Input[INT]
    y: Output[LONGLONG]

    def compute(self):
        f = 1
        for i in range(1, int(self.n) + 1):
            f *= i
        self.y = f % 1000003


class Narrow(Vertex):
    x: Input[Vector[INT]]
    y: Output[Vector[CHAR]]

    def compute(self):
        for i in range(len(self.x)):
            self.y[i] = self.x[i]
