"""Run parts of the workloads in Numba's CUDA simulator.

This is a separate program, because the simulator is chosen when Numba is imported.
`NUMBA_ENABLE_CUDASIM=1 python -m bench.simulated` prints, for each workload, the seconds that a
part of the workload takes, and the part's fraction of the whole. It checks the results.
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

# The number of threads in a block.
BLOCK = 32


def dot(a: Any, b: Any, out: Any) -> None:
    row = cuda.grid(1)
    if row < out.size:
        dot_product = np.float32(0)
        for column in range(b.size):
            dot_product += a[row, column] * b[column]
        out[row] = dot_product


def axpy_relu(x: Any, y: Any, out: Any) -> None:
    index = cuda.grid(1)
    if index < out.size:
        value = x[index] * np.float32(2.5) + y[index]
        out[index] = value if value > 0 else 0


def product(a: Any, b: Any, out: Any) -> None:
    result_number = cuda.grid(1)
    row, column = result_number // out.shape[1], result_number % out.shape[1]
    if row < out.shape[0]:
        dot_product = np.float32(0)
        for inner_index in range(a.shape[1]):
            dot_product += a[row, inner_index] * b[inner_index, column]
        out[row, column] = dot_product


def picture_deltas(x: Any, weights: Any, bias: Any, wanted: Any, deltas: Any) -> None:
    """Compute the deltas of one picture per thread.

    They are the softmax of the picture's scores, less its label.
    """
    picture_number = cuda.grid(1)
    if picture_number < deltas.shape[0]:
        highest_score = np.float32(-np.inf)
        for class_number in range(deltas.shape[1]):
            score = bias[class_number]
            for pixel_number in range(x.shape[1]):
                score += x[picture_number, pixel_number] * weights[pixel_number, class_number]
            deltas[picture_number, class_number] = score
            highest_score = max(highest_score, score)
        exp_sum = np.float32(0)
        for class_number in range(deltas.shape[1]):
            deltas[picture_number, class_number] = np.exp(
                deltas[picture_number, class_number] - highest_score
            )
            exp_sum += deltas[picture_number, class_number]
        for class_number in range(deltas.shape[1]):
            deltas[picture_number, class_number] = (
                deltas[picture_number, class_number] / exp_sum
                - wanted[picture_number, class_number]
            )


def learn(x: Any, deltas: Any, weights: Any) -> None:
    """Update one weight per thread."""
    weight_number = cuda.grid(1)
    pixel_number, class_number = weight_number // weights.shape[1], weight_number % weights.shape[1]
    if pixel_number < weights.shape[0]:
        slope = np.float32(0)
        for picture_number in range(x.shape[0]):
            slope += x[picture_number, pixel_number] * deltas[picture_number, class_number]
        weights[pixel_number, class_number] -= slope * np.float32(RATE)


def stencil(x: Any, out: Any) -> None:
    pixel_number = cuda.grid(1)
    row, column = pixel_number // out.shape[1], pixel_number % out.shape[1]
    if row < out.shape[0]:
        neighbour_sum = (
            x[row, column + 1]
            + x[row + 2, column + 1]
            + x[row + 1, column]
            + x[row + 1, column + 2]
        )
        out[row, column] = neighbour_sum * np.float32(0.25)


def collatz(n: Any, out: Any) -> None:
    index = cuda.grid(1)
    if index < out.size:
        current, num_steps = int(n[index]), 0
        while current > 1:
            current = current // 2 if current % 2 == 0 else 3 * current + 1
            num_steps += 1
        out[index] = num_steps


def seconds(kernel: Callable[..., None], *arrays: Array, threads: int = 0) -> float:
    """Return the processor time in seconds that `kernel` takes on `threads` threads.

    Without `threads`, there is one thread for each element of the last array. The time includes
    no compilation, because the simulator runs the Python function itself.
    """
    launch = cuda.jit(kernel)[-(-(threads or arrays[-1].size) // BLOCK), BLOCK]
    begin_time = time.process_time()
    launch(*arrays)
    return time.process_time() - begin_time


# The measured part of a step handles 1 / PART of the pictures, and 1 / PART of the pixels.
PART = 16


def _step() -> tuple[float, float]:
    """Return (seconds, fraction of the whole) for a part of logistic regression.

    The part is a sixteenth of one of the `SMALL_STEPS` steps: the deltas of some pictures, and the
    update of some weights by all pictures. It does not update the biases, which are only 10
    numbers next to 7,840 weights.
    """
    pictures, one_hot = pictures_and_labels(SMALL_BATCH)
    weights, bias, num_pictures, num_pixels = (
        floats(PIXELS, CLASSES),
        floats(CLASSES),
        SMALL_BATCH // PART,
        PIXELS // PART,
    )
    scores = pictures @ weights + bias
    exp_scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected_deltas = exp_scores / exp_scores.sum(axis=1, keepdims=True) - one_hot
    deltas, updated_weights = (
        np.zeros((num_pictures, CLASSES), np.float32),
        weights[:num_pixels].copy(),
    )
    seconds_taken = seconds(
        picture_deltas,
        pictures[:num_pictures],
        weights,
        bias,
        one_hot,
        deltas,
        threads=num_pictures,
    )
    np.testing.assert_allclose(deltas, expected_deltas[:num_pictures], rtol=1e-3, atol=1e-4)
    seconds_taken += seconds(
        learn, np.ascontiguousarray(pictures[:, :num_pixels]), expected_deltas, updated_weights
    )
    np.testing.assert_allclose(
        updated_weights,
        weights[:num_pixels] - RATE * (pictures[:, :num_pixels].T @ expected_deltas),
        rtol=1e-3,
        atol=1e-4,
    )
    return seconds_taken, 1 / PART / SMALL_STEPS


def parts() -> dict[str, tuple[float, float]]:
    """Return {workload: (seconds of a part, fraction of the whole that the part is)}."""
    rows, num_columns, num_elements, side = 128, 143, 2048, 40
    a, b, out = floats(rows, num_columns), floats(num_columns), np.zeros(rows, np.float32)
    found_parts = {"w1b": (seconds(dot, a, b, out), rows * num_columns / 10_000_000)}
    np.testing.assert_allclose(out, a @ b, rtol=1e-3, atol=1e-3)
    x, y, out = (
        floats(num_elements),
        floats(2 * num_elements)[num_elements:],
        np.zeros(num_elements, np.float32),
    )
    found_parts["w2"] = seconds(axpy_relu, x, y, out), num_elements / 8_840_000
    np.testing.assert_allclose(out, np.maximum(x * np.float32(2.5) + y, 0), rtol=1e-6)
    a, b, product_column = floats(rows, SIZE), floats(SIZE, 1), np.zeros((rows, 1), np.float32)
    # The simulator has no option like `exact`, so both rows have the same figure.
    found_parts["w3"] = found_parts["w3x"] = seconds(product, a, b, product_column), rows / SIZE**2
    np.testing.assert_allclose(product_column, a @ b, rtol=1e-3, atol=1e-3)
    found_parts["w4a"] = found_parts["w4ax"] = _step()
    picture, stencil_out = floats(side + 2, side + 2), np.zeros((side, side), np.float32)
    found_parts["w5a"] = seconds(stencil, picture, stencil_out), side * side / (TILES * 64 * 10)
    neighbour_sums = picture[:-2, 1:-1] + picture[2:, 1:-1] + picture[1:-1, :-2] + picture[1:-1, 2:]
    np.testing.assert_allclose(stencil_out, neighbour_sums * np.float32(0.25), rtol=1e-4, atol=1e-6)
    start_numbers = source().integers(1, 100_000, TILES * WORKERS).astype(np.int32)[:256]
    steps = np.zeros(len(start_numbers), np.int32)
    found_parts["w6i"] = (
        seconds(collatz, start_numbers, steps),
        len(start_numbers) / (TILES * WORKERS),
    )
    assert steps.min() >= 0 and steps[start_numbers == 1].sum() == 0
    return found_parts


if __name__ == "__main__":
    print(json.dumps(parts()))
