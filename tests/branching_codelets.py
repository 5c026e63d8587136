"""Codelets whose branches and loops depend on data."""

from __future__ import annotations

import numpy as np

from ipu_teach import FLOAT, INT, InOut, Input, Output, Vector, Vertex


class Costly(Vertex):
    x: InOut[FLOAT]

    def compute(self):
        if self.x > 0:
            self.x = self.x * 2 + 1


class ThreeWays(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            v = self.x[i]
            if v < -0.5:
                self.y[i] = -1.0
            elif v > 0.5:
                self.y[i] = v * v
            else:
                self.y[i] = v / 3


class SelectionSort(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        n = len(self.x)
        for i in range(n):
            least = i
            for j in range(i + 1, n):
                if self.x[j] < self.x[least]:
                    least = j
            t = self.x[i]
            self.x[i] = self.x[least]
            self.x[least] = t


class NestedWhile(Vertex):
    """A while in a while, chained comparisons, `and`, `continue` and `break`."""

    x: Input[Vector[INT]]
    out: Output[Vector[INT]]

    def compute(self):
        k = 0
        while k < len(self.x):
            v = self.x[k]
            k += 1
            if v < 0:
                continue
            count = 0
            while 0 < v <= 1000 and count < 20:
                v = v * 3 - 5
                count += 1
                if v % 7 == 0 or v % 11 == 3:
                    break
            self.out[k - 1] = count * 1000 + v % 1000


class CountTo(Vertex):
    n: Input[INT]
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]
    last: Output[INT]

    def compute(self):
        best = self.x[0]
        k = -1
        for k in range(1, self.n):
            best = max(best, self.x[k])
        self.out = best
        self.last = k


class Returns(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = -1
        for i, value in enumerate(self.x):
            while value > 0:
                if i > 2:
                    self.out = i
                    return
                value -= 1
        self.out = 9 if self.x[0] > self.x[1] else self.x[1]


class Histogram(Vertex):
    x: Input[Vector[INT]]
    out: Output[Vector[INT]]

    def compute(self):
        bins = np.zeros(4, np.int32)
        for value in self.x:
            bins[int(value) % 4] += 1
        for k in range(4):
            self.out[k] = bins[k]


class RowOf(Vertex):
    m: Input[Vector[Vector[FLOAT]]]
    i: Input[Vector[INT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = np.sqrt(abs(self.m[self.i[0], self.i[1]])) + np.float32(self.i[0]) ** 1.5


class Unlikely(Vertex):
    """What fails if it is done without being come to."""

    x: Input[Vector[INT]]
    out: Output[INT]

    def compute(self):
        self.out = 0
        for i in range(len(self.x)):
            d = int(self.x[i])
            if d != 0 and 12 // d > 2:
                self.out = 12 // d + self.x[d % 2]
            elif d < -100:
                raise ValueError("too cold")


class Beyond(Vertex):
    x: Input[Vector[FLOAT]]
    i: Input[INT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x[self.i]


class Guarded(Vertex):
    """Each part to the right would fail or tell lies without the one to the left of it."""

    x: Input[Vector[FLOAT]]
    i: Input[INT]
    out: InOut[INT]

    def compute(self):
        for turn in range(2):
            k = int(self.i) + turn
            if 0 <= k < len(self.x) and self.x[k] > 0:
                self.out += 1
            if k < 0 or k >= len(self.x) or self.x[k] < 0:
                self.out += 10
            if k != 0 and 12 // k > 2:
                self.out += 100
