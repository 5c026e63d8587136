"""Codelets that loop over elements, each with the loop that a person would write for numba.

A handwritten loop checks indices (with numba's `boundscheck`), and marks each element of an Output
when it stores the element. Unlike the engine, it counts no cycles. The call
`by_hand()[codelet](number of vertices, *fields, *marks)` runs the loop: the array of a field has a
row for each vertex, and each Output has a bool array of marks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.codelets import Collatz, DotLoop
from ipu_teach.graph.vertex import InOut, Input, MultiVertex, Output, Vector, Vertex
from ipu_teach.types import BOOL, FLOAT, INT, UNSIGNED_INT, Array

Inputs = Callable[[np.random.Generator, int], dict[str, Array]]


class BFS(Vertex):
    """A step of a breadth-first search: it sets the level of neighbours of the last level.

    The graph is in CSR format.
    """

    start: Input[Vector[INT]]
    edges: Input[Vector[INT]]
    level: InOut[Vector[INT]]
    now: Input[INT]
    changed: Output[INT]

    def compute(self) -> None:
        changed = 0
        for v in range(len(self.level)):
            if self.level[v] == self.now:
                for k in range(self.start[v], self.start[v + 1]):
                    u = self.edges[k]
                    if self.level[u] < 0:
                        self.level[u] = self.now + 1
                        changed += 1
        self.changed = changed


class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self) -> None:
        best = self.x[0]
        for i in range(len(self.x)):
            best = max(best, self.x[i])
            self.y[i] = best


class Mandelbrot(Vertex):
    re: Input[Vector[FLOAT]]
    im: Input[FLOAT]
    count: Output[Vector[INT]]

    def compute(self) -> None:
        for k, cr in enumerate(self.re):
            x = y = 0.0
            n = 0
            while n < 50 and x * x + y * y <= 4.0:
                x, y = x * x - y * y + cr, 2 * x * y + self.im
                n += 1
            self.count[k] = n


class Histogram(Vertex):
    x: Input[Vector[FLOAT]]
    bins: InOut[Vector[INT]]

    def compute(self) -> None:
        for v in self.x:
            b = int(v * len(self.bins))
            if b < 0:
                b = 0
            elif b >= len(self.bins):
                b = len(self.bins) - 1
            self.bins[b] += 1


class SmithWaterman(Vertex):
    a: Input[Vector[INT]]
    b: Input[Vector[INT]]
    h: InOut[Vector[Vector[INT]]]
    best: Output[INT]

    def score(self, x: int, y: int) -> int:
        return 2 if x == y else -1

    def compute(self) -> None:
        best = 0
        for i in range(1, len(self.a) + 1):
            for j in range(1, len(self.b) + 1):
                s = self.h[i - 1][j - 1] + self.score(self.a[i - 1], self.b[j - 1])
                s = max(0, s, self.h[i - 1][j] - 1, self.h[i][j - 1] - 1)
                self.h[i][j] = s
                best = max(best, s)
        self.best = best


class Shed(Vertex):
    """Simulates particles that lose mass in each step while their mass is above a limit."""

    mass: InOut[Vector[FLOAT]]
    limit: Input[FLOAT]
    shed: Output[FLOAT]
    rounds: Output[Vector[INT]]

    def compute(self) -> None:
        total = 0.0
        for i in range(len(self.mass)):
            rounds = 0
            while self.mass[i] > self.limit:
                loss = (self.mass[i] - self.limit) * 0.5 + 0.01
                self.mass[i] -= loss
                total += loss
                rounds += 1
                if rounds == 20:
                    break
            self.rounds[i] = rounds
        self.shed = total


class InsertionSort(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(1, len(self.x)):
            key = self.x[i]
            j = i - 1
            while j >= 0 and self.x[j] > key:
                self.x[j + 1] = self.x[j]
                j -= 1
            self.x[j + 1] = key


class BinarySearch(Vertex):
    x: Input[Vector[INT]]
    wanted: Input[INT]
    found: Output[INT]

    def compute(self) -> None:
        low, high = 0, len(self.x) - 1
        self.found = -1
        while low <= high:
            mid = (low + high) // 2
            if self.x[mid] == self.wanted:
                self.found = mid
                return
            if self.x[mid] < self.wanted:
                low = mid + 1
            else:
                high = mid - 1


class PopCount(Vertex):
    x: Input[Vector[UNSIGNED_INT]]
    y: Output[Vector[INT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            w = self.x[i]
            bits = 0
            while w:
                bits += w & 1
                w >>= 1
            self.y[i] = bits


class Clip(MultiVertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self, worker_id: int) -> None:
        for i in range(worker_id, len(self.x), self.num_workers):
            v = self.x[i]
            if v < 0:
                v = 0
            elif v > 1:
                v = 1.0
            self.y[i] = v


class FirstAbove(Vertex):
    x: Input[Vector[FLOAT]]
    limit: Input[FLOAT]
    where: Output[INT]

    def compute(self) -> None:
        i = 0
        total = 0.0
        while i < len(self.x):
            total += self.x[i]
            if total > self.limit:
                break
            i += 1
        self.where = i


class XorShift(Vertex):
    """Computes a separate random number in each vertex."""

    seed: InOut[UNSIGNED_INT]
    tally: InOut[Vector[INT]]
    out: Output[Vector[UNSIGNED_INT]]

    def compute(self) -> None:
        s = self.seed
        for i in range(len(self.out)):
            s ^= s << 13
            s ^= s >> 17
            s ^= s << 5
            self.out[i] = s
            self.tally[s % len(self.tally)] += 1
        self.seed = s


class Window(Vertex):
    """Computes means around positions that are read from the data."""

    p: Input[Vector[INT]]
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.p)):
            a = max(self.p[i] - 2, 0)
            b = min(self.p[i] + 2, len(self.x) - 1)
            s = 0.0
            for k in range(a, b + 1):
                s += self.x[k]
            self.y[i] = s / (b - a + 1)


class CsrProduct(Vertex):
    start: Input[Vector[INT]]
    col: Input[Vector[INT]]
    val: Input[Vector[FLOAT]]
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for r in range(len(self.y)):
            s = 0.0
            for k in range(self.start[r], self.start[r + 1]):
                s += self.val[k] * self.x[self.col[k]]
            self.y[r] = s


class Median(Vertex):
    """Uses a local array, and a helper function that returns from within a loop."""

    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]
    rank: Output[INT]

    @staticmethod
    def place(t: Array, n: int, v: float) -> int:
        for j in range(n):
            if t[j] > v:
                return j
        return n

    def compute(self) -> None:
        t = np.zeros(len(self.x), np.float32)
        for n, v in enumerate(self.x):
            p = self.place(t, n, v)
            for j in range(n, p, -1):
                t[j] = t[j - 1]
            t[p] = v
        self.out = t[len(self.x) // 2]
        self.rank = self.place(t, len(self.x), 0.25)


class SignChanges(Vertex):
    x: Input[Vector[FLOAT]]
    n: Output[INT]
    same: Output[BOOL]

    def compute(self) -> None:
        count = 0
        last = 0
        for v in self.x:
            if v == 0 or not (-3 < v < 3):
                continue
            s = 1 if v > 0 else -1
            if last and s != last:
                count += 1
            last = s
        self.n = count
        self.same = count == 0


class Life(Vertex):
    """Computes a step of the Game of Life, with rows in variables and conditional writes."""

    old: Input[Vector[Vector[INT]]]
    new: Output[Vector[Vector[INT]]]

    def compute(self) -> None:
        h, w = self.old.shape
        for r in range(1, h - 1):
            row = self.new[r]
            for c in range(1, w - 1):
                n = 0
                for dr in range(-1, 2):
                    for dc in range(-1, 2):
                        if dr or dc:
                            n += self.old[r + dr, c + dc]
                if n == 3 or (n == 2 and self.old[r][c]):
                    row[c] = 1
                elif n > 3:
                    row[c] = 0


class Newton(Vertex):
    x: Input[FLOAT]
    root: Output[FLOAT]
    turns: Output[INT]

    def compute(self) -> None:
        guess = self.x
        for turns in range(30):  # noqa: B007
            better = (guess + self.x / guess) / 2
            if abs(better - guess) < 1e-6:
                break
            guess = better
        self.root = guess
        self.turns = turns


# The functions below return the inputs of the codelets.


def _normal(r: np.random.Generator, *shape: int) -> Array:
    return r.normal(size=shape).astype(np.float32)


def _whole(r: np.random.Generator, low: int, high: int, *shape: int) -> Array:
    return r.integers(low, high, shape).astype(np.int32)


def _graph(r: np.random.Generator, n: int, nodes: int = 9, edges: int = 24) -> tuple[Array, Array]:
    """Return `n` random graphs in CSR format: (offsets [n, nodes + 1], neighbours [n, edges])."""
    start = np.zeros((n, nodes + 1), np.int32)
    start[:, 1:-1] = np.sort(r.integers(0, edges + 1, (n, nodes - 1)), axis=1)
    start[:, -1] = edges
    return start, _whole(r, 0, nodes, n, edges)


def _bfs(r: np.random.Generator, n: int) -> dict[str, Array]:
    start, edges = _graph(r, n)
    return {
        "start": start,
        "edges": edges,
        "level": _whole(r, -1, 3, n, 9),
        "now": _whole(r, 0, 3, n),
    }


def _csr(r: np.random.Generator, n: int) -> dict[str, Array]:
    start, column = _graph(r, n)
    return {"start": start, "col": column, "val": _normal(r, n, 24), "x": _normal(r, n, 9)}


# Maps each codelet to (function that returns its inputs, {Output: shape of one vertex's part}).
CASES: dict[type[Vertex], tuple[Inputs, dict[str, tuple[int, ...]]]] = {
    DotLoop: (lambda r, n: {"a": _normal(r, n, 143), "b": _normal(r, n, 143)}, {"out": ()}),
    BFS: (_bfs, {"changed": ()}),
    PrefixMax: (lambda r, n: {"x": _normal(r, n, 30)}, {"y": (30,)}),
    Collatz: (lambda r, n: {"n": _whole(r, 1, 1000, n)}, {"out": ()}),
    Mandelbrot: (lambda r, n: {"re": _normal(r, n, 12), "im": _normal(r, n)}, {"count": (12,)}),
    Histogram: (
        lambda r, n: {
            "x": r.uniform(-0.2, 1.2, (n, 50)).astype(np.float32),
            "bins": _whole(r, 0, 9, n, 8),
        },
        {},
    ),
    SmithWaterman: (
        lambda r, n: {
            "a": _whole(r, 0, 4, n, 12),
            "b": _whole(r, 0, 4, n, 10),
            "h": np.zeros((n, 13, 11), np.int32),
        },
        {"best": ()},
    ),
    Shed: (
        lambda r, n: {
            "mass": r.exponential(3, (n, 10)).astype(np.float32),
            "limit": r.uniform(0.1, 2, n).astype(np.float32),
        },
        {"shed": (), "rounds": (10,)},
    ),
    InsertionSort: (lambda r, n: {"x": _normal(r, n, 25)}, {}),
    BinarySearch: (
        lambda r, n: {"x": np.sort(_whole(r, 0, 99, n, 40)), "wanted": _whole(r, 0, 99, n)},
        {"found": ()},
    ),
    PopCount: (
        lambda r, n: {
            "x": (r.integers(0, 2**32, (n, 10)) >> r.integers(0, 31, (n, 10))).astype(np.uint32)
        },
        {"y": (10,)},
    ),
    Clip: (lambda r, n: {"x": _normal(r, n, 40)}, {"y": (40,)}),
    FirstAbove: (
        lambda r, n: {"x": _normal(r, n, 50), "limit": r.uniform(0, 9, n).astype(np.float32)},
        {"where": ()},
    ),
    XorShift: (
        lambda r, n: {
            "seed": r.integers(1, 2**32, n).astype(np.uint32),
            "tally": _whole(r, 0, 5, n, 4),
        },
        {"out": (20,)},
    ),
    Window: (lambda r, n: {"p": _whole(r, -2, 20, n, 15), "x": _normal(r, n, 20)}, {"y": (15,)}),
    CsrProduct: (_csr, {"y": (9,)}),
    Median: (lambda r, n: {"x": _normal(r, n, 21)}, {"out": (), "rank": ()}),
    SignChanges: (lambda r, n: {"x": np.round(_normal(r, n, 30) * 2)}, {"n": (), "same": ()}),
    Life: (lambda r, n: {"old": _whole(r, 0, 2, n, 8, 8)}, {"new": (8, 8)}),
    Newton: (
        lambda r, n: {"x": (r.exponential(9, n) + 0.01).astype(np.float32)},
        {"root": (), "turns": ()},
    ),
}


def values(codelet: type[Vertex], r: np.random.Generator, count: int) -> dict[str, Array]:
    """Return the values of all fields for `count` vertices: arrays with a row for each vertex.

    Outputs are 0.
    """
    inputs, shapes = CASES[codelet]
    zeros = {
        name: np.zeros((count, *shape), codelet.fields[name].dtype.numpy)
        for name, shape in shapes.items()
    }
    return {**inputs(r, count), **zeros}


def by_hand() -> dict[type[Vertex], Callable[..., None]]:
    """Return the loops by codelet, which numba compiles when they are first called."""
    from numba import njit

    hand: Any = njit(boundscheck=True, error_model="numpy")
    f = np.float32

    @hand
    def dot(n, a, b, out, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            total = f(0)
            for i in range(a.shape[1]):
                total += a[v, i] * b[v, i]
            out[v] = total
            m[v] = True

    @hand
    def bfs(n, start, edges, level, now, changed, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            found = 0
            for w in range(level.shape[1]):
                if level[v, w] == now[v]:
                    for k in range(start[v, w], start[v, w + 1]):
                        u = edges[v, k]
                        if level[v, u] < 0:
                            level[v, u] = now[v] + 1
                            found += 1
            changed[v] = found
            m[v] = True

    @hand
    def prefix_max(n, x, y, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            best = x[v, 0]
            for i in range(x.shape[1]):
                if x[v, i] > best:
                    best = x[v, i]
                y[v, i] = best
                m[v, i] = True

    @hand
    def collatz(n, x, out, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            k, steps = np.int32(x[v]), 0
            while k != 1:
                k = np.int32(k // 2) if k % 2 == 0 else np.int32(3 * k + 1)
                steps += 1
            out[v] = steps
            m[v] = True

    @hand
    def mandelbrot(n, re, im, count, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            for k in range(re.shape[1]):
                x, y, c, turns = f(0), f(0), re[v, k], 0
                while turns < 50 and x * x + y * y <= f(4):
                    x, y = x * x - y * y + c, f(2) * x * y + im[v]
                    turns += 1
                count[v, k] = turns
                m[v, k] = True

    @hand
    def histogram(n, x, bins):  # type: ignore[no-untyped-def]
        for v in range(n):
            for i in range(x.shape[1]):
                b = int(x[v, i] * f(bins.shape[1]))
                b = 0 if b < 0 else bins.shape[1] - 1 if b >= bins.shape[1] else b
                bins[v, b] += 1

    @hand
    def smith_waterman(n, a, b, h, best, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            most = np.int32(0)
            for i in range(1, a.shape[1] + 1):
                for j in range(1, b.shape[1] + 1):
                    s = np.int32(h[v, i - 1, j - 1] + (2 if a[v, i - 1] == b[v, j - 1] else -1))
                    s = max(
                        np.int32(0), s, np.int32(h[v, i - 1, j] - 1), np.int32(h[v, i, j - 1] - 1)
                    )
                    h[v, i, j] = s
                    most = max(most, s)
            best[v] = most
            m[v] = True

    @hand
    def shed(n, mass, limit, lost, rounds, m1, m2):  # type: ignore[no-untyped-def]
        for v in range(n):
            total = f(0)
            for i in range(mass.shape[1]):
                turns = 0
                while mass[v, i] > limit[v]:
                    loss = (mass[v, i] - limit[v]) * f(0.5) + f(0.01)
                    mass[v, i] -= loss
                    total += loss
                    turns += 1
                    if turns == 20:
                        break
                rounds[v, i] = turns
                m2[v, i] = True
            lost[v] = total
            m1[v] = True

    @hand
    def insertion_sort(n, x):  # type: ignore[no-untyped-def]
        for v in range(n):
            for i in range(1, x.shape[1]):
                key = x[v, i]
                j = i - 1
                while j >= 0 and x[v, j] > key:
                    x[v, j + 1] = x[v, j]
                    j -= 1
                x[v, j + 1] = key

    @hand
    def binary_search(n, x, wanted, found, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            low, high = 0, x.shape[1] - 1
            found[v] = -1
            m[v] = True
            while low <= high:
                mid = (low + high) // 2
                if x[v, mid] == wanted[v]:
                    found[v] = mid
                    break
                if x[v, mid] < wanted[v]:
                    low = mid + 1
                else:
                    high = mid - 1

    @hand
    def pop_count(n, x, y, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            for i in range(x.shape[1]):
                w, bits = x[v, i], np.uint32(0)
                while w:
                    bits += w & np.uint32(1)
                    w >>= np.uint32(1)
                y[v, i] = bits
                m[v, i] = True

    @hand
    def clip(n, x, y, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            for worker in range(6):
                for i in range(worker, x.shape[1], 6):
                    k = x[v, i]
                    y[v, i] = f(0) if k < 0 else f(1) if k > 1 else k
                    m[v, i] = True

    @hand
    def first_above(n, x, limit, where, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            i, total = 0, f(0)
            while i < x.shape[1]:
                total += x[v, i]
                if total > limit[v]:
                    break
                i += 1
            where[v] = i
            m[v] = True

    @hand
    def xor_shift(n, seed, tally, out, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            s = seed[v]
            for i in range(out.shape[1]):
                s ^= np.uint32(s << np.uint32(13))
                s ^= s >> np.uint32(17)
                s ^= np.uint32(s << np.uint32(5))
                out[v, i] = s
                m[v, i] = True
                tally[v, np.int64(s) % tally.shape[1]] += 1
            seed[v] = s

    @hand
    def window(n, p, x, y, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            for i in range(p.shape[1]):
                a, b = max(p[v, i] - 2, 0), min(p[v, i] + 2, x.shape[1] - 1)
                s = f(0)
                for k in range(a, b + 1):
                    s += x[v, k]
                y[v, i] = s / f(b - a + 1)
                m[v, i] = True

    @hand
    def csr_product(n, start, col, val, x, y, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            for r in range(y.shape[1]):
                s = f(0)
                for k in range(start[v, r], start[v, r + 1]):
                    s += val[v, k] * x[v, col[v, k]]
                y[v, r] = s
                m[v, r] = True

    @hand
    def place(t, n, x):  # type: ignore[no-untyped-def]
        for j in range(n):
            if t[j] > x:
                return j
        return n

    @hand
    def median(n, x, out, rank, m1, m2):  # type: ignore[no-untyped-def]
        for v in range(n):
            t = np.zeros(x.shape[1], np.float32)
            for k in range(x.shape[1]):
                p = place(t, k, x[v, k])
                for j in range(k, p, -1):
                    t[j] = t[j - 1]
                t[p] = x[v, k]
            out[v] = t[x.shape[1] // 2]
            rank[v] = place(t, x.shape[1], f(0.25))
            m1[v] = m2[v] = True

    @hand
    def sign_changes(n, x, out, same, m1, m2):  # type: ignore[no-untyped-def]
        for v in range(n):
            count = last = 0
            for i in range(x.shape[1]):
                k = x[v, i]
                if k == 0 or not (-3 < k < 3):
                    continue
                s = 1 if k > 0 else -1
                if last and s != last:
                    count += 1
                last = s
            out[v] = count
            same[v] = count == 0
            m1[v] = m2[v] = True

    @hand
    def life(n, old, new, m):  # type: ignore[no-untyped-def]
        for v in range(n):
            for r in range(1, old.shape[1] - 1):
                for c in range(1, old.shape[2] - 1):
                    k = 0
                    for dr in range(-1, 2):
                        for dc in range(-1, 2):
                            if dr or dc:
                                k += old[v, r + dr, c + dc]
                    if k == 3 or (k == 2 and old[v, r, c]):
                        new[v, r, c] = 1
                        m[v, r, c] = True
                    elif k > 3:
                        new[v, r, c] = 0
                        m[v, r, c] = True

    @hand
    def newton(n, x, root, turns, m1, m2):  # type: ignore[no-untyped-def]
        for v in range(n):
            guess, k = x[v], 0
            for k in range(30):  # noqa: B007
                better = (guess + x[v] / guess) / f(2)
                if abs(better - guess) < f(1e-6):
                    break
                guess = better
            root[v] = guess
            turns[v] = k
            m1[v] = m2[v] = True

    return {
        DotLoop: dot,
        BFS: bfs,
        PrefixMax: prefix_max,
        Collatz: collatz,
        Mandelbrot: mandelbrot,
        Histogram: histogram,
        SmithWaterman: smith_waterman,
        Shed: shed,
        InsertionSort: insertion_sort,
        BinarySearch: binary_search,
        PopCount: pop_count,
        Clip: clip,
        FirstAbove: first_above,
        XorShift: xor_shift,
        Window: window,
        CsrProduct: csr_product,
        Median: median,
        SignChanges: sign_changes,
        Life: life,
        Newton: newton,
    }
