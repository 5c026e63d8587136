"""a = a + k b and its kin, in place: one compute set with one vertex a tile, on the elements of a that lie there.

Each product is rounded, then the sum, in a's dtype. A factor is a number, or a tensor of one element that is sent to every
tile. Costs: PopLibs' ScaledAdd, with its operations ADD, SUBTRACT and AXPBY.
"""

from __future__ import annotations

from typing import Any

from ipu_teach.cost import vertices
from ipu_teach.errors import PoplibsError
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.vertex import InOut, Input, SupervisorVertex, Vector
from ipu_teach.poplibs.popops.codelets import codelet, per_tile
from ipu_teach.poplibs.popops.operands import CAST, check_operand
from ipu_teach.poplibs.poputil import check_call, check_mapped, check_number, check_same
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT

Factor = Tensor | float


class ScaledAdd(SupervisorVertex):
    """a = a + k b."""

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    k: FLOAT

    def compute(self) -> None:
        self.a += self.k * self.b

    def cycles(self, target: Target) -> int:
        return int(vertices.scaled_add(len(self.a), self.fields["a"].dtype, target))


class ScaledAddTensor(SupervisorVertex):
    """a = a + k b, for a factor k that is a tensor."""

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    k: Input[FLOAT]

    def compute(self) -> None:
        self.a += self.k * self.b

    def cycles(self, target: Target) -> int:
        return int(vertices.scaled_add(len(self.a), self.fields["a"].dtype, target))


class ScaledSubtract(SupervisorVertex):
    """a = a - k b."""

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    k: FLOAT

    def compute(self) -> None:
        self.a -= self.k * self.b

    def cycles(self, target: Target) -> int:
        return int(vertices.scaled_add(len(self.a), self.fields["a"].dtype, target, operation="SUBTRACT"))


class ScaledSubtractTensor(SupervisorVertex):
    """a = a - k b, for a factor k that is a tensor."""

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    k: Input[FLOAT]

    def compute(self) -> None:
        self.a -= self.k * self.b

    def cycles(self, target: Target) -> int:
        return int(vertices.scaled_add(len(self.a), self.fields["a"].dtype, target, operation="SUBTRACT"))


class AXPBY(SupervisorVertex):
    """a = ka a + kb b."""

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    ka: FLOAT
    kb: FLOAT

    def compute(self) -> None:
        self.a = self.ka * self.a + self.kb * self.b

    def cycles(self, target: Target) -> int:
        return int(vertices.scaled_add(len(self.a), self.fields["a"].dtype, target, operation="AXPBY"))


class AXPBYTensor(SupervisorVertex):
    """a = ka a + kb b, for factors that are tensors."""

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    ka: Input[FLOAT]
    kb: Input[FLOAT]

    def compute(self) -> None:
        self.a = self.ka * self.a + self.kb * self.b

    def cycles(self, target: Target) -> int:
        return int(vertices.scaled_add(len(self.a), self.fields["a"].dtype, target, operation="AXPBY"))


def scaled_add_to(graph: Graph, a: Tensor, b: Tensor, k: Factor, prog: Program, debug_context: str = "scaled_add_to") -> None:
    """a += k * b; k is a number, or one element. Same shape and dtype. The product is rounded, then the sum."""
    _scaled("scaled_add_to", graph, a, b, {"k": k}, (ScaledAdd, ScaledAddTensor), prog, debug_context)


def scaled_subtract_from(
    graph: Graph, a: Tensor, b: Tensor, k: Factor, prog: Program, debug_context: str = "scaled_subtract_from"
) -> None:
    """a -= k * b; k is a number, or one element. Same shape and dtype. The product is rounded, then the difference."""
    _scaled("scaled_subtract_from", graph, a, b, {"k": k}, (ScaledSubtract, ScaledSubtractTensor), prog, debug_context)


def axpby_to(
    graph: Graph, a: Tensor, ka: Factor, b: Tensor, kb: Factor, prog: Program, debug_context: str = "axpby_to"
) -> None:
    """a = ka * a + kb * b; the factors are two numbers, or two tensors of one element. Each step is rounded."""
    _scaled("axpby_to", graph, a, b, {"ka": ka, "kb": kb}, (AXPBY, AXPBYTensor), prog, debug_context)


def _scaled(
    function: str,
    graph: Graph,
    a: Tensor,
    b: Tensor,
    factors: dict[str, Any],
    bases: tuple[Any, Any],
    prog: Program,
    name: str,
) -> None:
    check_call(function, graph, prog, name)
    check_operand(function, graph, "a", a)
    check_operand(function, graph, "b", b)
    check_same(function, "dtypes", a.dtype, b.dtype, f"{a!r} and {b!r}", CAST)
    check_same(function, "shapes", a.shape, b.shape, f"{a!r} and {b!r}", "slice one, or poputil.broadcast_to_match.")
    tensors = {field: k for field, k in factors.items() if isinstance(k, Tensor)}
    for field, k in tensors.items():
        check_operand(function, graph, field, k)
        check_same(function, "dtypes", a.dtype, k.dtype, f"{a!r} and {field} {k!r}", CAST)
        if k.num_elements != 1:
            raise PoplibsError(
                f"{function}() wants one element as {field}; it was given {k.num_elements:,}.",
                where=repr(k),
                next_step="give a number, or a tensor of one element; for a factor each, popops.mul and popops.add.",
            )
        check_mapped(function, graph, field, k)
    numbers = {
        field: check_number(function, field, k, a.dtype, "give a number, or a tensor of one element.")
        for field, k in factors.items()
        if field not in tensors
    }
    if not tensors:
        per_tile(graph, codelet(bases[0], a.dtype), a, {"a": a, "b": b}, prog, name, **numbers)
        return
    for field, number in numbers.items():  # beside a tensor, a number becomes one
        tensors[field] = graph.add_constant(a.dtype, (), number, f"{name}/{field}")
        graph.set_tile_mapping(tensors[field], 0)
    single = {field: k.reshape(()) for field, k in tensors.items()}
    per_tile(graph, codelet(bases[1], a.dtype), a, {"a": a, "b": b}, prog, name, **single)
