"""Functions that move data within the device: copies in another memory order, and transposition."""

from __future__ import annotations

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.laying import linear
from ipu_teach.poplibs.library import OWN, Rows, library
from ipu_teach.program import Copy, Sequence as Program

__all__ = ["rearrange", "transpose"]


@library
def rearrange(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return a copy of x whose elements are contiguous in memory, in the order of x.

    A view costs nothing until it is read. If a view of scattered elements is read often, copy it
    once with this function. The copy is mapped linearly, and all elements that move to another tile
    are exchanged.
    """
    return _copied(graph, x, prog, debug_context)


def _copied(graph: Graph, x: Tensor, prog: Program, debug_context: str) -> Tensor:
    copy = linear(graph, x.dtype, x.shape, debug_context)
    prog.add(Copy(x, copy))
    return copy


@library
def transpose(graph: Graph, x: Rows, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return a copy of x with its last two dimensions swapped.

    The copy is contiguous in memory and mapped linearly. `tensor.transpose()` returns a view
    instead, and moves no data.
    """
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return _copied(graph, x.dim_shuffle(order), prog, debug_context)
