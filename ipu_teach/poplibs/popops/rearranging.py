"""Data moved within the machine: a copy in another order, and transposition."""

from __future__ import annotations

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.poputil import check_call, check_mapped, check_tensor, map_tensor_linearly
from ipu_teach.program import Copy, Sequence as Program

__all__ = ["rearrange", "transpose"]


def rearrange(graph: Graph, x: Tensor, prog: Program, debug_context: str = "rearrange") -> Tensor:
    """A copy of x whose elements lie side by side in memory in x's own order, mapped linearly.

    A view costs nothing until somebody reads it; who reads a view of scattered elements often, copies it once. Exchange: every
    element that changes its tile.
    """
    check_call("rearrange", graph, prog, debug_context)
    check_tensor("rearrange", graph, "x", x)
    check_mapped("rearrange", graph, "x", x)
    return _copied(graph, x, prog, debug_context)


def _copied(graph: Graph, x: Tensor, prog: Program, debug_context: str) -> Tensor:
    made = graph.add_variable(x.dtype, x.shape, debug_context)
    map_tensor_linearly(graph, made)
    prog.add(Copy(x, made))
    return made


def transpose(graph: Graph, x: Tensor, prog: Program, debug_context: str = "transpose") -> Tensor:
    """The last two dimensions of x exchanged, in a new tensor that lies in memory in that order. As `rearrange`.

    `tensor.transpose()` is a view and moves nothing.
    """
    check_call("transpose", graph, prog, debug_context)
    check_tensor("transpose", graph, "x", x, tuple(range(2, 10)))
    check_mapped("transpose", graph, "x", x)
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return _copied(graph, x.dim_shuffle(order), prog, debug_context)
