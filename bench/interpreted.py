"""Run parts of the workloads in Triton's interpreter.

This is a separate program, because the interpreter is chosen when Triton is imported.
`TRITON_INTERPRET=1 python -m bench.interpreted` prints, for each workload, the seconds of a part
and the fraction of the whole that the part is. Results are checked.

Each Triton program does the work of one vertex, except that in w1 it handles eight whole rows: the
interpreter's time depends on the number of programs, not on the number of elements.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from threadpoolctl import threadpool_limits

from bench.kernels import (
    CLASSES,
    PIXELS,
    RATE,
    SMALL_BATCH,
    SMALL_STEPS,
    TILES,
    WORKERS,
    floats,
    pictures_and_labels,
)

ROWS = 8  # The number of matrix rows that each Triton program multiplies in the workload w1.


def matvec(
    a: Any, b: Any, out: Any, columns: tl.constexpr, wide: tl.constexpr, rows: tl.constexpr
) -> None:
    row, column = tl.program_id(0) * rows + tl.arange(0, rows), tl.arange(0, wide)
    inside = column < columns
    piece = tl.load(a + row[:, None] * columns + column[None, :], mask=inside[None, :], other=0.0)
    tl.store(
        out + row, tl.sum(piece * tl.load(b + column, mask=inside, other=0.0)[None, :], axis=1)
    )


def axpy_relu(x: Any, y: Any, out: Any, size: tl.constexpr, wide: tl.constexpr) -> None:
    inside = tl.arange(0, wide) < size
    place = tl.program_id(0) * size + tl.arange(0, wide)
    value = tl.load(x + place, mask=inside) * 2.5 + tl.load(y + place, mask=inside)
    tl.store(out + place, tl.maximum(value, 0.0), mask=inside)


def product(a: Any, b: Any, out: Any, size: tl.constexpr, block: tl.constexpr) -> None:
    row, column, k = (
        tl.program_id(0) * block + tl.arange(0, block),
        tl.arange(0, block),
        tl.arange(0, size),
    )
    left, right = (
        tl.load(a + row[:, None] * size + k[None, :]),
        tl.load(b + k[:, None] * block + column[None, :]),
    )
    tl.store(out + row[:, None] * block + column[None, :], tl.dot(left, right))


def picture_deltas(
    x: Any,
    weights: Any,
    bias: Any,
    wanted: Any,
    deltas: Any,
    pixels: tl.constexpr,
    wide: tl.constexpr,
    classes: tl.constexpr,
    columns: tl.constexpr,
    rows: tl.constexpr,
) -> None:
    row, k, j = (
        tl.program_id(0) * rows + tl.arange(0, rows),
        tl.arange(0, wide),
        tl.arange(0, columns),
    )
    pictures = tl.load(x + row[:, None] * pixels + k[None, :], mask=k[None, :] < pixels, other=0.0)
    inside = (k[:, None] < pixels) & (j[None, :] < classes)
    scores = tl.dot(
        pictures, tl.load(weights + k[:, None] * classes + j[None, :], mask=inside, other=0.0)
    )
    scores += tl.load(bias + j, mask=j < classes, other=float("-inf"))[None, :]
    e = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    place, inside = row[:, None] * classes + j[None, :], j[None, :] < classes
    share = e / tl.sum(e, axis=1)[:, None]
    tl.store(deltas + place, share - tl.load(wanted + place, mask=inside, other=0.0), mask=inside)


def learn(
    x: Any,
    deltas: Any,
    weights: Any,
    rate: tl.constexpr,
    pixels: tl.constexpr,
    classes: tl.constexpr,
    columns: tl.constexpr,
    batch: tl.constexpr,
    block: tl.constexpr,
) -> None:
    k, j, i = (
        tl.program_id(0) * block + tl.arange(0, block),
        tl.arange(0, columns),
        tl.arange(0, batch),
    )
    turned = tl.load(x + i[None, :] * pixels + k[:, None])
    slopes = tl.dot(
        turned,
        tl.load(deltas + i[:, None] * classes + j[None, :], mask=j[None, :] < classes, other=0.0),
    )
    place, inside = weights + k[:, None] * classes + j[None, :], j[None, :] < classes
    tl.store(place, tl.load(place, mask=inside) - slopes * rate, mask=inside)


def stencil(x: Any, out: Any, side: tl.constexpr, across: tl.constexpr) -> None:
    tile = tl.program_id(0)
    i = tile // across * side + tl.arange(0, side)[:, None]
    j = tile % across * side + tl.arange(0, side)[None, :]
    width = across * side
    here = x + (i + 1) * (width + 2) + j + 1
    near = (
        tl.load(here - width - 2)
        + tl.load(here + width + 2)
        + tl.load(here - 1)
        + tl.load(here + 1)
    )
    tl.store(out + i * width + j, near * 0.25)


def seconds(kernel: Callable[..., None], programs: int, *arrays: Any, **sizes: float) -> float:
    """Return the processor time of `programs` Triton programs, after one program as a warm-up."""
    started = triton.jit(kernel)
    tensors = [torch.from_numpy(array) for array in arrays]
    started[1,](*tensors, **sizes)
    begin = time.process_time()
    started[programs,](*tensors, **sizes)
    return time.process_time() - begin


def _stencil(side: int) -> tuple[float, float]:
    down, across = 2, 46
    picture, out = (
        floats(down * side + 2, across * side + 2),
        np.zeros((down * side, across * side), np.float32),
    )
    taken = seconds(stencil, down * across, picture, out, side=side, across=across)
    near = picture[:-2, 1:-1] + picture[2:, 1:-1] + picture[1:-1, :-2] + picture[1:-1, 2:]
    np.testing.assert_allclose(out, near * np.float32(0.25), rtol=1e-4, atol=1e-6)
    return taken, down * across / (TILES * 10)


def _step() -> tuple[float, float]:
    """Return (seconds, fraction of the whole) for a part of a step of logistic regression.

    Each Triton program handles 16 pictures or 16 pixels. The update of the bias is left out because
    the bias has only 10 elements, compared with 7,840 weights.
    """
    x, labels = pictures_and_labels(SMALL_BATCH)
    weights, bias, deltas = (
        floats(PIXELS, CLASSES),
        floats(CLASSES),
        np.zeros((SMALL_BATCH, CLASSES), np.float32),
    )
    shape_options, learned = {"pixels": PIXELS, "classes": CLASSES, "columns": 16}, weights.copy()
    total_seconds = seconds(
        picture_deltas,
        SMALL_BATCH // 16,
        x,
        weights,
        bias,
        labels,
        deltas,
        wide=1024,
        rows=16,
        **shape_options,
    )
    scores = x @ weights + bias
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = exponentials / exponentials.sum(axis=1, keepdims=True) - labels
    np.testing.assert_allclose(deltas, expected, rtol=1e-3, atol=1e-4)
    total_seconds += seconds(
        learn,
        PIXELS // 16,
        x,
        deltas,
        learned,
        rate=RATE,
        batch=SMALL_BATCH,
        block=16,
        **shape_options,
    )
    # The call to warm up updated the weights of the first 16 pixels, so these are updated twice.
    learning_steps = np.where(np.arange(PIXELS) < 16, 2, 1)[:, None]
    np.testing.assert_allclose(
        learned, weights - learning_steps * RATE * (x.T @ expected), rtol=1e-3, atol=1e-3
    )
    return total_seconds, 1 / SMALL_STEPS


def parts() -> dict[str, tuple[float, float]]:
    """Return {workload: (seconds of a part, fraction of the whole that the part is)}."""
    seconds_and_share: dict[str, tuple[float, float]] = {}
    programs, columns = 125, 1_000
    matrix, vector, result = (
        floats(programs * ROWS, columns),
        floats(columns),
        np.zeros(programs * ROWS, np.float32),
    )
    seconds_and_share["w1a"] = (
        seconds(matvec, programs, matrix, vector, result, columns=columns, wide=1024, rows=ROWS),
        len(matrix) / 10_000,
    )
    np.testing.assert_allclose(result, matrix @ vector, rtol=1e-3, atol=1e-3)
    programs, length = 200, 1_000
    x, y, result = (
        floats(programs * length),
        floats(2 * programs * length)[programs * length :],
        np.zeros(programs * length, np.float32),
    )
    seconds_and_share["w2"] = (
        seconds(axpy_relu, programs, x, y, result, size=length, wide=1024),
        programs / (TILES * WORKERS),
    )
    np.testing.assert_allclose(result, np.maximum(x * np.float32(2.5) + y, 0), rtol=1e-5, atol=1e-6)
    programs, length, block = 32, 1024, 32
    left, right, square = (
        floats(length, length),
        floats(length, block),
        np.zeros((length, block), np.float32),
    )
    product_seconds = seconds(product, programs, left, right, square, size=length, block=block)
    # Triton's interpreter has no option like `exact`, so both rows have the same figure.
    seconds_and_share["w3"] = seconds_and_share["w3x"] = (
        product_seconds,
        programs / (length // block) ** 2,
    )
    np.testing.assert_allclose(square, left @ right, rtol=1e-3, atol=1e-3)
    seconds_and_share["w4a"] = seconds_and_share["w4ax"] = _step()
    return seconds_and_share | {"w5a": _stencil(8), "w5b": _stencil(64)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    with threadpool_limits(1):
        print(json.dumps(parts()))
