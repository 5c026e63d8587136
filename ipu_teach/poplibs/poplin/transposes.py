"""Transposes that move data, for tensors that are often read in transposed order."""

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
    """Return x [m, n] as a new tensor [n, m], for any dtype of 2 or 4 bytes.

    `x.transpose()`, by contrast, is a view and moves nothing. The result is divided into blocks of
    complete grains (2 x 2 elements of 4 bytes, 4 x 4 of 2 bytes), one per tile, along its rows
    first. The cycles are those of PopLibs' Transpose2d (popsparse/PerformanceEstimation.hpp).
    Raises `PoplibsError`.
    """
    if x.dtype.size not in (2, 4):
        raise refused(
            f"moves elements of 2 and 4 bytes, but x is {x.dtype.__name__}.",
            x,
            "use the view x.transpose().",
        )
    out = graph.add_variable(x.dtype, (x.shape[1], x.shape[0]), f"{debug_context}/out")
    grain = 4 if x.dtype.size == 2 else 2
    tiles = graph.target.num_tiles
    down, across = (-(-n // grain) for n in out.shape)
    rows = max(1, min(down, tiles))
    columns = max(1, min(across, tiles // rows))
    cuts = [
        [(b * grain, min(e * grain, size)) for b, e in balanced_partition(grains, parts)]
        for size, grains, parts in ((out.shape[0], down, rows), (out.shape[1], across, columns))
    ]
    work = [
        (tile, {"x": x[c0:c1, r0:r1], "out": out[r0:r1, c0:c1]})
        for tile, ((r0, r1), (c0, c1)) in dealt(list(product(*cuts)), tiles)
        if r0 < r1 and c0 < c1
    ]
    codelet = typed(Transpose, [x.dtype], {FLOAT: x.dtype}, "Transpose2D")
    step(graph, prog, debug_context, codelet, work, ["out"])
    return out
