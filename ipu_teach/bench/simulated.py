"""Parts of the workloads in Numba's CUDA simulator. A program of its own: the simulator is chosen when Numba is imported.

    NUMBA_ENABLE_CUDASIM=1 python -m ipu_teach.bench.simulated

prints, for each workload, the seconds that a part took and the share of the whole that it is. Results are checked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda

from ipu_teach.bench.kernels import TILES, WORKERS, floats, source
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


def seconds(kernel: Callable[..., None], *arrays: Array) -> float:
    """Of the processor, for one thread for each element of the last array."""
    started = cuda.jit(kernel)[-(-arrays[-1].size // BLOCK), BLOCK]
    begin = time.process_time()
    started(*arrays)
    return time.process_time() - begin


def parts() -> dict[str, tuple[float, float]]:
    """By workload: seconds of the part, and its share of the whole."""
    rows, length, count, side = 128, 143, 2048, 40
    a, b, out = floats(rows, length), floats(length), np.zeros(rows, np.float32)
    found = {"w1b": (seconds(dot, a, b, out), rows * length / 10_000_000)}
    np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-3)
    x, y, out = floats(count), floats(2 * count)[count:], np.zeros(count, np.float32)
    found["w2"] = seconds(axpy_relu, x, y, out), count / 8_840_000
    np.testing.assert_allclose(out, np.maximum(x * np.float32(2.5) + y, 0), rtol=1e-6)
    picture, out = floats(side + 2, side + 2), np.zeros((side, side), np.float32)
    found["w5a"] = seconds(stencil, picture, out), side * side / (TILES * 64 * 10)
    near = picture[:-2, 1:-1] + picture[2:, 1:-1] + picture[1:-1, :-2] + picture[1:-1, 2:]
    np.testing.assert_allclose(out, near * np.float32(0.25), rtol=1e-4, atol=1e-6)
    numbers = source().integers(1, 100_000, TILES * WORKERS).astype(np.int32)[:256]
    steps = np.zeros(len(numbers), np.int32)
    found["w6i"] = seconds(collatz, numbers, steps), len(numbers) / (TILES * WORKERS)
    assert steps.min() >= 0 and steps[numbers == 1].sum() == 0
    return found


if __name__ == "__main__":
    print(json.dumps(parts()))
