"""Questions about a whole tensor: the answer is one BOOL, made by operations on each element and a reduction."""

from __future__ import annotations

from ipu_teach.errors import PoplibsError
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.tensor import Tensor
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.fused import map as fused_map
from ipu_teach.poplibs.popops.operands import check_operand
from ipu_teach.poplibs.popops.operations import UNARY
from ipu_teach.poplibs.popops.reductions import reduce
from ipu_teach.poplibs.poputil import check_call, check_mapped, check_tensor
from ipu_teach.program import Sequence as Program
from ipu_teach.types import BOOL


def all_true(graph: Graph, x: Tensor, prog: Program, debug_context: str = "all_true") -> Tensor:
    """Whether every element of x (BOOL) is true: one BOOL, a reduction by LOGICAL_AND. Of no elements: true."""
    check_call("all_true", graph, prog, debug_context)
    check_tensor("all_true", graph, "x", x)
    if x.dtype is not BOOL:
        raise PoplibsError(
            f"all_true() works on BOOL; x is {x.dtype.__name__}.",
            where=repr(x),
            next_step="ask a question first: popops.neq(graph, x, 0, prog).",
        )
    check_mapped("all_true", graph, "x", x)
    return reduce(graph, x, range(x.rank), prog, "LOGICAL_AND", debug_context)


def has_nan(graph: Graph, x: Tensor, prog: Program, debug_context: str = "has_nan") -> Tensor:
    """Whether some element of x (FLOAT or HALF) is NaN: one BOOL. A compute set for the elements, and a reduction."""
    return _some("has_nan", graph, x, expr.IsNaN(expr._1), prog, debug_context)


def has_nan_or_inf(graph: Graph, x: Tensor, prog: Program, debug_context: str = "has_nan_or_inf") -> Tensor:
    """Whether some element of x (FLOAT or HALF) is NaN or infinite: one BOOL. As `has_nan`."""
    return _some("has_nan_or_inf", graph, x, expr.Not(expr.IsFinite(expr._1)), prog, debug_context)


def _some(function: str, graph: Graph, x: Tensor, question: expr.Expr, prog: Program, name: str) -> Tensor:
    check_call(function, graph, prog, name)
    check_operand(function, graph, "x", x, UNARY["IS_NAN"])
    answers = fused_map(graph, question, [x], prog, f"{name}/elements")
    return reduce(graph, answers, range(x.rank), prog, "LOGICAL_OR", name)
