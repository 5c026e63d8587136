"""Run parts of the workloads in Numba's CUDA simulator, as a separate program, because the
simulator is chosen when Numba is imported.

`NUMBA_ENABLE_CUDASIM=1 python -m bench.simulated` prints, for each workload, the seconds of a part
and its share of the whole. Results are checked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from bench.kernels import (
    CLASSES,
    PIXELS,
    RATE,
    SIZE,
    SMALL_BATCH,
    SMALL_STEPS,
    TILES,
    WORKERS,
    floats,
    pictures_and_labels,
    source,
)
from ipu_teach.types import Array

BLOCK = 32  # threads


def dot(a: Any, b: Any, out: Any) -> None:
    row = cuda.grid(1)
    if row < out.size:
        total = np.float32(0)
        for i in range(b.size):
            total += a[row, i] * b[i]
        out[row] = total


def axpy_relu(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        value = x[i] * np.float32(2.5) + y[i]
        out[i] = value if value > 0 else 0


def product(a: Any, b: Any, out: Any) -> None:
    place = cuda.grid(1)
    i, j = place // out.shape[1], place % out.shape[1]
    if i < out.shape[0]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        out[i, j] = total


def picture_deltas(x: Any, weights: Any, bias: Any, wanted: Any, deltas: Any) -> None:
    """Compute the deltas of one picture per thread: its scores, their softmax, and its difference
    from the label."""
    i = cuda.grid(1)
    if i < deltas.shape[0]:
        highest = np.float32(-np.inf)
        for j in range(deltas.shape[1]):
            score = bias[j]
            for k in range(x.shape[1]):
                score += x[i, k] * weights[k, j]
            deltas[i, j] = score
            highest = max(highest, score)
        total = np.float32(0)
        for j in range(deltas.shape[1]):
            deltas[i, j] = np.exp(deltas[i, j] - highest)
            total += deltas[i, j]
        for j in range(deltas.shape[1]):
            deltas[i, j] = deltas[i, j] / total - wanted[i, j]


def learn(x: Any, deltas: Any, weights: Any) -> None:
    """Update one weight per thread."""
    place = cuda.grid(1)
    k, j = place // weights.shape[1], place % weights.shape[1]
    if k < weights.shape[0]:
        slope = np.float32(0)
        for i in range(x.shape[0]):
            slope += x[i, k] * deltas[i, j]
        weights[k, j] -= slope * np.float32(RATE)


def stencil(x: Any, out: Any) -> None:
    place = cuda.grid(1)
    i, j = place // out.shape[1], place % out.shape[1]
    if i < out.shape[0]:
        near = x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]
        out[i, j] = near * np.float32(0.25)


def collatz(n: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        value, steps = int(n[i]), 0
        while value > 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            steps += 1
        out[i] = steps


def seconds(kernel: Callable[..., None], *arrays: Array, threads: int = 0) -> float:
    """Return the processor time for `threads` threads, or for one per element of the last array."""
    started = cuda.jit(kernel)[-(-(threads or arrays[-1].size) // BLOCK), BLOCK]
    begin = time.process_time()
    started(*arrays)
    return time.process_time() - begin


PART = 16  # the part is 1 / PART of the pictures, and of the pixels


def _step() -> tuple[float, float]:
    """Return (seconds of the part, its share) for a sixteenth of a step of logistic regression.

    The part is the deltas of some pictures, and the update of some weights by all pictures. The
    bias, 10 numbers next to 7,840, is left out of the update.
    """
    x, wanted = pictures_and_labels(SMALL_BATCH)
    weights, bias, some, few = (
        floats(PIXELS, CLASSES),
        floats(CLASSES),
        SMALL_BATCH // PART,
        PIXELS // PART,
    )
    scores = x @ weights + bias
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = e / e.sum(axis=1, keepdims=True) - wanted
    deltas, learnt = np.zeros((some, CLASSES), np.float32), weights[:few].copy()
    taken = seconds(picture_deltas, x[:some], weights, bias, wanted, deltas, threads=some)
    np.testing.assert_allclose(deltas, expected[:some], rtol=1e-3, atol=1e-4)
    taken += seconds(learn, np.ascontiguousarray(x[:, :few]), expected, learnt)
    np.testing.assert_allclose(
        learnt, weights[:few] - RATE * (x[:, :few].T @ expected), rtol=1e-3, atol=1e-4
    )
    return taken, 1 / PART / SMALL_STEPS


def parts() -> dict[str, tuple[float, float]]:
    """Return for each workload the seconds of the part, and its share of the whole."""
    rows, length, count, side = 128, 143, 2048, 40
    a, b, out = floats(rows, length), floats(length), np.zeros(rows, np.float32)
    found = {"w1b": (seconds(dot, a, b, out), rows * length / 10_000_000)}
    np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-3)
    x, y, out = floats(count), floats(2 * count)[count:], np.zeros(count, np.float32)
    found["w2"] = seconds(axpy_relu, x, y, out), count / 8_840_000
    np.testing.assert_allclose(out, np.maximum(x * np.float32(2.5) + y, 0), rtol=1e-6)
    a, b, column = floats(rows, SIZE), floats(SIZE, 1), np.zeros((rows, 1), np.float32)
    # `exact` has no meaning for this peer
    found["w3"] = found["w3x"] = seconds(product, a, b, column), rows / SIZE**2
    np.testing.assert_allclose(column, a @ b, rtol=1e-3, atol=1e-3)
    found["w4a"] = found["w4ax"] = _step()
    picture, drawn = floats(side + 2, side + 2), np.zeros((side, side), np.float32)
    found["w5a"] = seconds(stencil, picture, drawn), side * side / (TILES * 64 * 10)
    near = picture[:-2, 1:-1] + picture[2:, 1:-1] + picture[1:-1, :-2] + picture[1:-1, 2:]
    np.testing.assert_allclose(drawn, near * np.float32(0.25), rtol=1e-4, atol=1e-6)
    numbers = source().integers(1, 100_000, TILES * WORKERS).astype(np.int32)[:256]
    steps = np.zeros(len(numbers), np.int32)
    found["w6i"] = seconds(collatz, numbers, steps), len(numbers) / (TILES * WORKERS)
    assert steps.min() >= 0 and steps[numbers == 1].sum() == 0
    return found


if __name__ == "__main__":
    print(json.dumps(parts()))
