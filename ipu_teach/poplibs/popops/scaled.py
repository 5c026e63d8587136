"""a = a + k b and related operations, in place: one compute set with one vertex a tile, on the
tile's elements of a.

Each product is rounded, then the sum, in a's dtype, to which b is converted first. A factor is a
number, or a tensor of one element that is sent to every tile. Costs: PopLibs' ScaledAdd, with its
operations ADD, SUBTRACT and AXPBY.

If HALF does not hold a factor precisely enough ("scaleFloatToHalfTolerance"), `scaled_add_to`
computes in FLOAT and rounds once; a factor in a FLOAT tensor is checked when the program runs.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, InOut, Input, SupervisorVertex, Tensor, Vector
from ipu_teach.poplibs.laying import scalar, typed
from ipu_teach.poplibs.library import OWN, advised, check_same, library
from ipu_teach.poplibs.options import Option, Options, settled
from ipu_teach.poplibs.popops.elementwise_codelets import per_tile, refuse_quarter
from ipu_teach.poplibs.popops.operands import CAST, check_factor, check_takes
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF

__all__ = ["ScaledAddSpecialisation", "axpby_to", "scaled_add_to", "scaled_subtract_from"]

Factor = Tensor | float
OPTIONS = (
    Option("optimizeForSpeed", bool, False),
    Option("scaleFloatToHalfTolerance", float, 1e-6),
)
A = TypeVar("A")
B = TypeVar("B")
K = TypeVar("K")


@advised("use ScaledAddSpecialisation.DEFAULT or X_MINUS_AX_PLUS_BY.")
class ScaledAddSpecialisation(Enum):
    """The formula of `axpby_to`: DEFAULT ka a + kb b, X_MINUS_AX_PLUS_BY (a - ka a) + kb b."""

    DEFAULT = "DEFAULT"
    X_MINUS_AX_PLUS_BY = "X_MINUS_AX_PLUS_BY"


def _like(a: Any, b: Any) -> Any:
    """b in a's dtype."""
    return b if b.dtype == a.dtype else b.astype(a.dtype)


class _Scaled(SupervisorVertex, Generic[A, B]):
    a: InOut[Vector[A]]
    b: Input[Vector[B]]
    operation: ClassVar[str]
    # the operands are in different memory elements, and are read at the same time
    fast: ClassVar[bool]

    def cycles(self, target: Target) -> int:
        dtype = self.fields["a"].dtype
        kinds = [field.dtype for field in self.fields.values()]
        second_dtype = None if all(kind is dtype for kind in kinds) else FLOAT
        n = len(self.a)
        fast = self.fast
        return int(
            vertices.scaled_add(
                n,
                dtype,
                target,
                other=second_dtype,
                operation=self.operation,
                memory_constrained=fast,
            )
        )


class ScaledAdd(_Scaled[A, B]):
    """a = a + k b."""

    k: A

    def compute(self) -> None:
        self.a += self.k * _like(self.a, self.b)


class ScaledAddTensor(ScaledAdd[A, B]):
    """a = a + k b, for a factor k that is a tensor."""

    k: Input[A]


class ScaledAddWide(_Scaled[A, B]):
    """a = a + k b in FLOAT, rounded once to the halves of a."""

    k: FLOAT

    def compute(self) -> None:
        self.a = self.a.astype(np.float32) + self.k * self.b.astype(np.float32)


class ScaledAddWideTensor(_Scaled[A, B]):
    """a = a + k b, in HALF if k is the same there within the tolerance, else in FLOAT."""

    k: Input[FLOAT]
    tolerance: ClassVar[float]

    def compute(self) -> None:
        half = self.k.astype(np.float16)
        near = np.abs(half.astype(np.float32) - self.k) <= np.float32(self.tolerance) * np.abs(
            self.k
        )
        narrow = self.a + half * self.b.astype(np.float16)
        wide = self.a.astype(np.float32) + self.k * self.b.astype(np.float32)
        self.a = np.where(near, narrow, wide.astype(np.float16))


class ScaledSubtract(_Scaled[A, B]):
    """a = a - k b."""

    k: A

    def compute(self) -> None:
        self.a -= self.k * _like(self.a, self.b)


class ScaledSubtractTensor(ScaledSubtract[A, B]):
    """a = a - k b, for a factor k that is a tensor."""

    k: Input[A]


class AXPBY(_Scaled[A, B]):
    """a = ka a + kb b."""

    ka: A
    kb: A

    def compute(self) -> None:
        self.a = self.ka * self.a + self.kb * _like(self.a, self.b)


class AXPBYTensor(AXPBY[A, B]):
    """a = ka a + kb b, for factors that are tensors."""

    ka: Input[A]
    kb: Input[A]


class XMinusAXPlusBY(AXPBY[A, B]):
    """a = (a - ka a) + kb b. PopLibs estimates it as AXPBY."""

    def compute(self) -> None:
        self.a = (self.a - self.ka * self.a) + self.kb * _like(self.a, self.b)


class XMinusAXPlusBYTensor(XMinusAXPlusBY[A, B]):
    """a = (a - ka a) + kb b, for factors that are tensors. PopLibs estimates it as AXPBY."""

    ka: Input[A]
    kb: Input[A]


@library
def scaled_add_to(
    graph: Graph,
    a: Tensor,
    b: Tensor,
    k: Factor,
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
) -> None:
    """a += k * b for tensors of one shape; b is converted to a's dtype. The product is rounded,
    then the sum.

    `k`: a number, or one element of a's dtype, for an a of HALF also of FLOAT. `options`:
    "optimizeForSpeed" (the operands are read from different memory elements; default False) and
    "scaleFloatToHalfTolerance" (1e-6: where HALF holds k less well than this, a and b of HALF are
    added in FLOAT and rounded once, which is slower).
    """
    chosen = settled(OPTIONS, options)
    _check_pair(a, b)
    wide = a.dtype is HALF and not (isinstance(k, Tensor) and k.dtype is HALF)
    factor = check_factor(graph, "k", k, FLOAT if wide else a.dtype, *((HALF,) if wide else ()))
    tolerance = chosen["scaleFloatToHalfTolerance"]
    base: Any = ScaledAddTensor if isinstance(k, Tensor) else ScaledAdd
    if wide and isinstance(k, Tensor):
        base = ScaledAddWideTensor
    elif wide:
        with np.errstate(over="ignore"):
            half = np.float16(factor)
        base = (
            ScaledAdd
            if abs(float(half) - float(factor)) <= tolerance * abs(float(factor))
            else ScaledAddWide
        )
        factor = factor if base is ScaledAddWide else half
    _put(graph, base, "ADD", a, b, {"k": factor}, chosen, prog, debug_context)


@library
def scaled_subtract_from(
    graph: Graph,
    a: Tensor,
    b: Tensor,
    k: Factor,
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
) -> None:
    """Append a -= k * b; k is a number, or one element of a's dtype. Otherwise like
    `scaled_add_to`, without the tolerance."""
    chosen = settled(OPTIONS, options)
    _check_pair(a, b)
    factor = check_factor(graph, "k", k, a.dtype)
    base = ScaledSubtractTensor if isinstance(k, Tensor) else ScaledSubtract
    _put(graph, base, "SUBTRACT", a, b, {"k": factor}, chosen, prog, debug_context)


@library
def axpby_to(
    graph: Graph,
    a: Tensor,
    ka: Factor,
    b: Tensor,
    kb: Factor,
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
    specialisation: ScaledAddSpecialisation = ScaledAddSpecialisation.DEFAULT,
) -> None:
    """a = ka * a + kb * b; the factors are numbers, or tensors of one element of a's dtype. Each
    step is rounded.

    `specialisation`: X_MINUS_AX_PLUS_BY makes it (a - ka * a) + kb * b. Otherwise as
    `scaled_subtract_from`.
    """
    chosen = settled(OPTIONS, options)
    _check_pair(a, b)
    factors = {name: check_factor(graph, name, k, a.dtype) for name, k in (("ka", ka), ("kb", kb))}
    tensors = any(isinstance(k, Tensor) for k in factors.values())
    if tensors:  # a number next to a tensor becomes a tensor
        for name, k in factors.items():
            factors[name] = scalar(graph, a.dtype, k, f"{debug_context}/{name}")
    usual = specialisation is ScaledAddSpecialisation.DEFAULT
    base: Any = (
        (AXPBYTensor if tensors else AXPBY)
        if usual
        else XMinusAXPlusBYTensor
        if tensors
        else XMinusAXPlusBY
    )
    _put(graph, base, "AXPBY", a, b, factors, chosen, prog, debug_context)


def _check_pair(a: Tensor, b: Tensor) -> None:
    check_takes("a", a)
    check_takes("b", b)
    if {a.dtype, b.dtype} != {FLOAT, HALF}:
        check_same("dtypes", a.dtype, b.dtype, f"{a!r} and {b!r}", CAST)
    check_same(
        "shapes", a.shape, b.shape, f"{a!r} and {b!r}", "slice one, or poputil.broadcast_to_match."
    )
    refuse_quarter("ScaledAdd", a.dtype)


def _put(
    graph: Graph,
    base: Any,
    operation: str,
    a: Tensor,
    b: Tensor,
    factors: dict[str, Any],
    chosen: dict[str, Any],
    prog: Program,
    name: str,
) -> None:
    fixed: dict[str, Any] = {"operation": operation, "fast": chosen["optimizeForSpeed"]}
    words = [*dict.fromkeys((a.dtype, b.dtype)), "fast" * fixed["fast"]]
    if base is ScaledAddWideTensor:
        fixed["tolerance"] = chosen["scaleFloatToHalfTolerance"]
        words.append(f"{fixed['tolerance']:g}")
    vertex = typed(base, words, {A: a.dtype, B: b.dtype}, **fixed)
    per_tile(graph, vertex, a, {"a": a, "b": b}, prog, name, **factors)
