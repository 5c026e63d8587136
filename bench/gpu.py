"""Rows that need a CUDA GPU: the engine on CuPy, compared with CuPy alone and with numpy.

They have not been run on a device yet. The work is that of w3, w4b and w5a at sizes that fill a
GPU: a product of 4,096 x 4,096 matrices on four chips, a step on 60,000 pictures on one chip, and a
stencil on 64 chips, 94,208 tiles of 8 x 8.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench import codelets
from bench.kernels import (
    Chip,
    floats,
    large_step,
    pictures_and_labels,
    plain_stencil,
    plain_step,
    stencil,
)
from bench.measure import Ratios, Row, Work, in_turn
from ipu_teach.engine import Engine
from ipu_teach.engine.backend import cupy_module
from ipu_teach.program import Execute, Sequence
from ipu_teach.types import Array

# each vertex has a block of the result, and multiplies this many elements of its rows at once
MATRIX_IPUS, BLOCK, DEEP = 4, 64, 512
SIDE = 8  # pixels on a side of a tile's part of a picture

Tiles = tuple[int, int, int]  # IPUs, and the rows and columns of their tiles
Pairs = dict[str, tuple[Work, Work]]

# sizes of the matrices, the batch and the pictures; 94,208 tiles
SIZES: tuple[int, int, Tiles] = (4096, 60_000, (64, 256, 368))


def large_product(left: Array, right: Array, **how: Any) -> Engine:
    """Return a product of square matrices in square blocks, one vertex per block; the right one is
    stored column by column.

    All operands of a block of the result would not fit into a tile, so each compute set multiplies
    `DEEP` columns of `left` by `DEEP` rows of `right`, and adds to the previous result.
    """
    size, chip = len(left), Chip(MATRIX_IPUS)
    n = size // BLOCK
    a, b, c = (
        chip.variable(name, values)
        for name, values in (("a", left), ("b", right.T), ("c", np.zeros_like(left)))
    )
    steps = []
    for begin in range(0, size, DEEP):
        compute_set, deep = chip.graph.add_compute_set(f"from {begin}"), slice(begin, begin + DEEP)
        codelet = codelets.MoreBlockProduct if begin else codelets.FirstBlockProduct
        for i in range(n):
            for j in range(n):
                rows, columns = slice(i * BLOCK, (i + 1) * BLOCK), slice(j * BLOCK, (j + 1) * BLOCK)
                vertex = chip.graph.add_vertex(
                    compute_set, codelet, a=a[rows, deep], b=b[columns, deep], out=c[rows, columns]
                )
                chip.graph.set_tile_mapping(vertex, (i * n + j) * chip.tiles // (n * n))
        steps.append(Execute(compute_set))
    return chip.engine(Sequence(*steps), exact=False, **how)


def _with_cupy(pairs: Callable[..., Pairs]) -> Ratios | str:
    """Return a round of the pairs at their full sizes.

    It uses wall-clock time, because the processor only waits.
    """
    cupy, why = cupy_module()
    return (
        f"needs a CUDA GPU: {why}"
        if cupy is None
        else in_turn(pairs(cupy, *SIZES), time.perf_counter)
    )


def _awaited(cupy: Any, call: Work) -> Work:
    """Return `call` with a wait for the device to finish."""

    def work() -> object:
        result = call()
        cupy.cuda.get_current_stream().synchronize()
        return result

    return work


def beside_cupy(cupy: Any, size: int, batch: int, tiles: Tiles) -> Pairs:
    """Return each workload on the engine with CuPy, and the same computation in plain CuPy."""
    left, right = floats(size, size), floats(size, size)
    a, b = cupy.asarray(left), cupy.asarray(right)
    product, x, wanted = cupy.empty_like(a), *pictures_and_labels(batch)
    picture = _picture(tiles)
    plain: dict[str, Work] = {
        "w3": lambda: cupy.matmul(a, b, out=product),
        "w4": plain_step(x, wanted, cupy),
        "w5": plain_stencil(cupy.asarray(picture)),
    }
    ours = {
        "w3": large_product(left, right, backend="cupy"),
        **_engines(x, wanted, picture, tiles, "cupy"),
    }
    return {name: (ours[name].run, _awaited(cupy, call)) for name, call in plain.items()}


def beside_numpy(cupy: Any, size: int, batch: int, tiles: Tiles) -> Pairs:
    """Return the last two workloads on the engine with CuPy, and on the engine with numpy."""
    x, wanted = pictures_and_labels(batch)
    picture = _picture(tiles)
    device, host = (_engines(x, wanted, picture, tiles, backend) for backend in ("cupy", "numpy"))
    return {name: (device[name].run, host[name].run) for name in host}


def _picture(tiles: Tiles) -> Array:
    _, down, across = tiles
    return floats(down * SIDE + 2, across * SIDE + 2)


def _engines(
    x: Array, wanted: Array, picture: Array, tiles: Tiles, backend: str
) -> dict[str, Engine]:
    num_ipus, down, across = tiles
    return {
        "w4": large_step(x, wanted, backend=backend),
        "w5": stencil(codelets.Stencil, picture, down, across, num_ipus, backend=backend),
    }


ROWS = [
    Row(
        "g1",
        "w3 at 4,096, w4b and w5a on 64 IPUs, on a GPU, the worst",
        "plain CuPy",
        1.5,
        lambda: _with_cupy(beside_cupy),
    ),
    Row(
        "g2",
        "the last two on a GPU, the worse",
        "the engine on numpy",
        0.1,
        lambda: _with_cupy(beside_numpy),
    ),
]
