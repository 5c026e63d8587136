"""Tests of all elements of a tensor, whose result is a single BOOL."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, Input, Output, SupervisorVertex, Tensor, Vector
from ipu_teach.poplibs.laying import step, typed
from ipu_teach.poplibs.library import OWN, library, refused
from ipu_teach.poplibs.popops.operands import check_takes
from ipu_teach.poplibs.popops.operations import UNARY
from ipu_teach.poplibs.popops.reductions import reduce
from ipu_teach.poplibs.poputil import take, tile_pieces
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import BOOL, FLOAT

__all__ = ["all_true", "has_nan", "has_nan_or_inf"]


class HasNaNOrInf(SupervisorVertex):
    """Set `found` to True if any element of x is NaN or, with `or_inf`, infinite; else to False.

    The cycles are those of PopLibs' HasNaNOrInf1D (popopsCycleEstimators.cpp).
    """

    x: Input[Vector[FLOAT]]
    found: Output[BOOL]
    or_inf: ClassVar[bool]

    def compute(self) -> None:
        self.found = (
            np.any(np.logical_not(np.isfinite(self.x))) if self.or_inf else np.any(np.isnan(self.x))
        )

    def cycles(self, target: Target) -> int:
        return int(
            vertices.has_nan(len(self.x), self.fields["x"].dtype, target, or_inf=self.or_inf)
        )


@library
def all_true(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return a tensor of one BOOL: whether every element of x (BOOL) is true.

    The call adds a reduction by LOGICAL_AND. If x has no elements, the result is true.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    if x.dtype is not BOOL:
        raise refused(
            f"works on BOOL, but x is {x.dtype.__name__}.",
            x,
            "compare first: popops.neq(graph, x, 0, prog).",
        )
    return reduce(
        graph, x, range(x.rank), prog, operation="LOGICAL_AND", debug_context=debug_context
    )


@library
def has_nan(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return a tensor of one BOOL: whether any element of x (FLOAT or HALF) is NaN.

    The call adds a compute set with a vertex per tile, and a reduction of the vertices' results.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    return _some(graph, x, False, prog, name=debug_context)


@library
def has_nan_or_inf(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return a tensor of one BOOL: whether any element of x (FLOAT or HALF) is NaN or infinite.

    The call adds a compute set with a vertex per tile, and a reduction of the vertices' results.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    return _some(graph, x, True, prog, name=debug_context)


def _some(graph: Graph, x: Tensor, or_inf: bool, prog: Program, name: str) -> Tensor:
    check_takes("x", x, UNARY["IS_NAN"])
    flat_x = x.flatten()
    intervals_of_tiles = tile_pieces(graph, x)
    flags = graph.add_variable(BOOL, (len(intervals_of_tiles),), f"{name}/found")
    edges_by_tile = [
        (tile, {"x": take(flat_x, intervals), "found": flags[index]})
        for index, (tile, intervals) in enumerate(intervals_of_tiles)
    ]
    vertex_name = "HasNaNOrInf" if or_inf else "HasNaN"
    codelet = typed(HasNaNOrInf, [x.dtype], {FLOAT: x.dtype}, vertex_name, or_inf=or_inf)
    step(graph, prog, f"{name}/tiles", codelet, work=edges_by_tile, results=["found"])
    return reduce(graph, flags, [0], prog, operation="LOGICAL_OR", debug_context=name)
