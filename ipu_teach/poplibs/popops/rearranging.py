"""Data moved within the device: copies in another order, and transposition."""

from __future__ import annotations

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.laying import linear
from ipu_teach.poplibs.library import OWN, Rows, library
from ipu_teach.program import Copy, Sequence as Program

__all__ = ["rearrange", "transpose"]


@library
def rearrange(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return a copy of x that is contiguous in memory, in the order of x, and mapped linearly.

    A view costs nothing until it is read. If a view of scattered elements is read often, copy it
    once with this function. All elements that move to another tile are exchanged.
    """
    return _copied(graph, x, prog, debug_context)


def _copied(graph: Graph, x: Tensor, prog: Program, debug_context: str) -> Tensor:
    copy = linear(graph, x.dtype, x.shape, debug_context)
    prog.add(Copy(x, copy))
    return copy


@library
def transpose(graph: Graph, x: Rows, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return a copy of x with the last two dimensions exchanged, contiguous as by `rearrange`.

    The copy is mapped linearly. `tensor.transpose()` is a view instead, and moves nothing.
    """
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return _copied(graph, x.dim_shuffle(order), prog, debug_context)
