"""Measure the engine on a CUDA GPU with CuPy, compared with plain CuPy and with numpy.

These rows have not been run on a GPU yet. They do the work of w3, w4b and w5a at sizes that fill a
GPU: a product of 4,096 x 4,096 matrices on four chips, a training step on 60,000 pictures on one
chip, and a stencil on 64 chips with 94,208 tiles of 8 x 8 elements.
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

# The matrix product runs on four IPUs. Each vertex computes a block of 64 x 64 elements of the
# result. In one compute set, it multiplies 512 elements of each row by 512 elements of each column.
MATRIX_IPUS, BLOCK, DEEP = 4, 64, 512

# The width and height, in pixels, of a tile's part of a picture.
SIDE = 8

# (number of IPUs, rows, columns), where all tiles of all IPUs are arranged in a grid of
# rows x columns.
Tiles = tuple[int, int, int]

# Maps the name of each workload to the two functions whose times are compared.
Pairs = dict[str, tuple[Work, Work]]

# The number of rows of each matrix, the number of pictures in a batch, and the stencil's grid of
# tiles: 64 IPUs with 94,208 tiles in all.
SIZES: tuple[int, int, Tiles] = (4096, 60_000, (64, 256, 368))


def large_product(left: Array, right: Array, **how: Any) -> Engine:
    """Return an engine that multiplies two square matrices.

    Each vertex computes one block of the result. The right matrix is stored column by column. All
    operands of a block would not fit into a tile, so each compute set multiplies `DEEP` columns of
    `left` by `DEEP` rows of `right`, and adds the product to the result.
    """
    num_rows, chip = len(left), Chip(MATRIX_IPUS)
    num_blocks = num_rows // BLOCK
    a, b, c = (
        chip.variable(name, values)
        for name, values in (("a", left), ("b", right.T), ("c", np.zeros_like(left)))
    )
    steps = []
    for first_deep in range(0, num_rows, DEEP):
        compute_set, deep_slice = (
            chip.graph.add_compute_set(f"from {first_deep}"),
            slice(first_deep, first_deep + DEEP),
        )
        codelet = codelets.MoreBlockProduct if first_deep else codelets.FirstBlockProduct
        for block_row in range(num_blocks):
            for block_column in range(num_blocks):
                rows, columns = (
                    slice(block_row * BLOCK, (block_row + 1) * BLOCK),
                    slice(block_column * BLOCK, (block_column + 1) * BLOCK),
                )
                vertex = chip.graph.add_vertex(
                    compute_set,
                    codelet,
                    a=a[rows, deep_slice],
                    b=b[columns, deep_slice],
                    out=c[rows, columns],
                )
                chip.graph.set_tile_mapping(
                    vertex,
                    (block_row * num_blocks + block_column)
                    * chip.tiles
                    // (num_blocks * num_blocks),
                )
        steps.append(Execute(compute_set))
    return chip.engine(Sequence(*steps), exact=False, **how)


def _with_cupy(pairs: Callable[..., Pairs]) -> Ratios | str:
    """Return a function that measures pairs of workloads, or the reason why CuPy cannot run.

    `pairs` builds the workloads with the sizes `SIZES`. The returned function measures wall-clock
    time, because the processor only waits for the GPU.
    """
    cupy, reason = cupy_module()
    return (
        f"needs a CUDA GPU: {reason}"
        if cupy is None
        else in_turn(pairs(cupy, *SIZES), time.perf_counter)
    )


def _awaited(cupy: Any, call: Work) -> Work:
    """Return a function that calls `call` and then waits until the GPU has finished."""

    def work() -> object:
        result = call()
        cupy.cuda.get_current_stream().synchronize()
        return result

    return work


def beside_cupy(cupy: Any, size: int, batch: int, tiles: Tiles) -> Pairs:
    """Return {workload: (a run of the engine with CuPy, the same computation in plain CuPy)}.

    Both elements of each pair are functions to time.
    """
    left, right = floats(size, size), floats(size, size)
    left_on_device, right_on_device = cupy.asarray(left), cupy.asarray(right)
    product, pictures, one_hot = cupy.empty_like(left_on_device), *pictures_and_labels(batch)
    picture = _picture(tiles)
    plain_works: dict[str, Work] = {
        "w3": lambda: cupy.matmul(left_on_device, right_on_device, out=product),
        "w4": plain_step(pictures, one_hot, cupy),
        "w5": plain_stencil(cupy.asarray(picture)),
    }
    engines = {
        "w3": large_product(left, right, backend="cupy"),
        **_engines(pictures, one_hot, picture, tiles, "cupy"),
    }
    return {name: (engines[name].run, _awaited(cupy, work)) for name, work in plain_works.items()}


def beside_numpy(cupy: Any, size: int, batch: int, tiles: Tiles) -> Pairs:
    """Return {workload: (a run of the engine with CuPy, its run with numpy)}, to be timed.

    The workloads are "w4", a step of logistic regression, and "w5", a stencil.
    """
    pictures, one_hot = pictures_and_labels(batch)
    picture = _picture(tiles)
    on_device, on_host = (
        _engines(pictures, one_hot, picture, tiles, backend) for backend in ("cupy", "numpy")
    )
    return {name: (on_device[name].run, on_host[name].run) for name in on_host}


def _picture(tiles: Tiles) -> Array:
    _, rows_of_tiles, columns_of_tiles = tiles
    return floats(rows_of_tiles * SIDE + 2, columns_of_tiles * SIDE + 2)


def _engines(
    pictures: Array, one_hot: Array, picture: Array, tiles: Tiles, backend: str
) -> dict[str, Engine]:
    num_ipus, rows_of_tiles, columns_of_tiles = tiles
    return {
        "w4": large_step(pictures, one_hot, backend=backend),
        "w5": stencil(
            codelets.Stencil, picture, rows_of_tiles, columns_of_tiles, num_ipus, backend=backend
        ),
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
