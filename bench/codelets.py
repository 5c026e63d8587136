"""Define the codelets of the benchmark's workloads."""

from __future__ import annotations

import numpy as np

from ipu_teach.graph.vertex import InOut, Input, Output, Vector, Vertex
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT


class Dot(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


class DotLoop(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        total = 0.0
        for i in range(len(self.a)):
            total += self.a[i] * self.b[i]
        self.out = total


class Sum(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = np.sum(self.x)


class SumLoop(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        total = 0.0
        for value in self.x:
            total += value
        self.out = total


class AxpyRelu(Vertex):
    x: Input[Vector[FLOAT]]
    y: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = np.maximum(self.x * 2.5 + self.y, 0)


class BlockProduct(Vertex):
    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = self.a @ self.b


class FirstBlockProduct(Vertex):
    """Multiplies rows of a matrix by columns of another matrix, which is stored by rows."""

    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = self.a @ self.b.T


class MoreBlockProduct(Vertex):
    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    out: InOut[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out += self.a @ self.b.T


class Layer(Vertex):
    x: Input[Vector[Vector[FLOAT]]]
    w: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = np.tanh(self.x @ self.w)


class RowDeltas(Vertex):
    """Computes the deltas of one picture: the softmax of its scores minus the label."""

    x: Input[Vector[FLOAT]]
    weights: Input[Vector[Vector[FLOAT]]]
    bias: Input[Vector[FLOAT]]
    wanted: Input[Vector[FLOAT]]
    deltas: Output[Vector[FLOAT]]

    def compute(self) -> None:
        scores = self.x @ self.weights + self.bias
        e = np.exp(scores - np.max(scores))
        self.deltas = e / np.sum(e) - self.wanted


class BlockDeltas(Vertex):
    """Computes the deltas of several pictures: the softmax of their scores minus the labels."""

    x: Input[Vector[Vector[FLOAT]]]
    weights: Input[Vector[Vector[FLOAT]]]
    bias: Input[Vector[FLOAT]]
    wanted: Input[Vector[Vector[FLOAT]]]
    deltas: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        scores = self.x @ self.weights + self.bias
        e = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        self.deltas = e / np.sum(e, axis=1, keepdims=True) - self.wanted


class Slopes(Vertex):
    x: Input[Vector[Vector[FLOAT]]]
    deltas: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = self.x.T @ self.deltas


class SlopesAndBias(Vertex):
    x: Input[Vector[Vector[FLOAT]]]
    deltas: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]
    bias: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.x.T @ self.deltas
        self.bias = np.sum(self.deltas, axis=0)


class ColumnSums(Vertex):
    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = np.sum(self.x, axis=0)


class Learn(Vertex):
    weights: InOut[Vector[FLOAT]]
    slopes: Input[Vector[FLOAT]]
    rate: FLOAT = 0.1  # type: ignore[assignment]

    def compute(self) -> None:
        self.weights -= self.slopes * self.rate


class LearnSums(Vertex):
    weights: InOut[Vector[FLOAT]]
    slopes: Input[Vector[Vector[FLOAT]]]
    rate: FLOAT = 0.1  # type: ignore[assignment]

    def compute(self) -> None:
        self.weights -= np.sum(self.slopes, axis=0) * self.rate


class Stencil(Vertex):
    """Computes the mean of four neighbours; `x` has one more row and column on each side."""

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        x = self.x
        self.out = (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.25


class StencilLoop(Vertex):
    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        rows, columns = self.out.shape
        for i in range(rows):
            for j in range(columns):
                around = (
                    self.x[i, j + 1]
                    + self.x[i + 2, j + 1]
                    + self.x[i + 1, j]
                    + self.x[i + 1, j + 2]
                )
                self.out[i, j] = around * 0.25


class Collatz(Vertex):
    n: Input[INT]
    out: Output[INT]

    def compute(self) -> None:
        n = self.n
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n //= 2
            else:
                n = 3 * n + 1
            steps += 1
        self.out = steps


class FirstPast(Vertex):
    """Finds the position at which a running sum exceeds the limit."""

    x: Input[Vector[FLOAT]]
    limit: Input[FLOAT]
    out: Output[UNSIGNED_INT]

    def compute(self) -> None:
        total = 0.0
        self.out = len(self.x)
        for i in range(len(self.x)):
            total += self.x[i]
            if total > self.limit:
                self.out = i
                break


class Relax(Vertex):
    """Computes one relaxation step on a piece of a line of numbers.

    The vertex also reads the ends of the neighbouring pieces.
    """

    left: Input[FLOAT]
    right: Input[FLOAT]
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x[0] = (self.left + self.x[0]) * 0.5
        self.x[-1] = (self.x[-1] + self.right) * 0.5
