"""Transposes that move data.

Such a copy is faster than a view if the transposed order is read often.
"""

from __future__ import annotations

from itertools import product

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.laying import step, typed
from ipu_teach.poplibs.library import OWN, Matrix, library, refused
from ipu_teach.poplibs.placing import balanced_partition, dealt
from ipu_teach.poplibs.poplin.matmul_codelets import Transpose
from ipu_teach.program import Sequence as Program
from ipu_teach.types import FLOAT

__all__ = ["transpose"]


@library
def transpose(graph: Graph, x: Matrix, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return the transpose of x [m, n] as a new tensor [n, m], for any dtype of 2 or 4 bytes.

    To transpose without moving data, use the view `x.transpose()`.

    The result is divided into blocks, one per tile: first its rows are divided, and then, if there
    are enough tiles, its columns. Each side of a block has a multiple of 2 elements if they have 4
    bytes, or of 4 elements if they have 2 bytes, except at the end of a row or column. The cycles
    are those of PopLibs' Transpose2d (popsparse/PerformanceEstimation.hpp).

    :raises PoplibsError: if x is not a matrix, or if its elements do not have 2 or 4 bytes.
    """
    if x.dtype.size not in (2, 4):
        raise refused(
            f"moves elements of 2 and 4 bytes, but x is {x.dtype.__name__}.",
            x,
            "use the view x.transpose().",
        )
    out = graph.add_variable(x.dtype, (x.shape[1], x.shape[0]), f"{debug_context}/out")
    grain_size = 4 if x.dtype.size == 2 else 2
    num_tiles = graph.target.num_tiles
    row_grains, column_grains = (-(-n // grain_size) for n in out.shape)
    row_blocks = max(1, min(row_grains, num_tiles))
    column_blocks = max(1, min(column_grains, num_tiles // row_blocks))
    interval_lists = [
        [
            (begin * grain_size, min(end * grain_size, size))
            for begin, end in balanced_partition(num_grains, num_blocks)
        ]
        for size, num_grains, num_blocks in (
            (out.shape[0], row_grains, row_blocks),
            (out.shape[1], column_grains, column_blocks),
        )
    ]
    edges_by_tile = [
        (
            tile,
            {
                "x": x[column_begin:column_end, row_begin:row_end],
                "out": out[row_begin:row_end, column_begin:column_end],
            },
        )
        for tile, ((row_begin, row_end), (column_begin, column_end)) in dealt(
            list(product(*interval_lists)), num_tiles
        )
        if row_begin < row_end and column_begin < column_end
    ]
    codelet = typed(Transpose, [x.dtype], {FLOAT: x.dtype}, "Transpose2D")
    step(graph, prog, debug_context, codelet, edges_by_tile, ["out"])
    return out
