"""a = a + k b and related operations, in place: one compute set with one vertex per tile.

A vertex works on the elements of a that are on its tile. b is converted to the dtype of a. First
each product is rounded to this dtype, and then the sum is rounded. A factor is a number, or a
tensor of one element that is sent to every tile. The cycles are those of PopLibs' ScaledAdd, with
its operations ADD, SUBTRACT and AXPBY.

If a is HALF and HALF does not represent a factor precisely enough (option
"scaleFloatToHalfTolerance"), `scaled_add_to` computes in FLOAT and rounds once. If the factor is a
FLOAT tensor, its precision in HALF is checked when the program runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, InOut, Input, SupervisorVertex, Tensor, Vector, Vertex
from ipu_teach.poplibs.laying import Word, scalar, typed
from ipu_teach.poplibs.library import OWN, advised, check_same, library
from ipu_teach.poplibs.options import Option, Options, Settled, settled
from ipu_teach.poplibs.popops.elementwise_codelets import per_tile, refuse_quarter
from ipu_teach.poplibs.popops.operands import CAST, check_factor, check_takes
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, Array

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
    """The formula of `axpby_to`: DEFAULT (ka a + kb b) or X_MINUS_AX_PLUS_BY (a - ka a + kb b)."""

    DEFAULT = "DEFAULT"
    X_MINUS_AX_PLUS_BY = "X_MINUS_AX_PLUS_BY"


def _like(a: Array, b: Array) -> Array:
    """Return b, converted to the dtype of a."""
    return b if b.dtype == a.dtype else b.astype(a.dtype)


class _Scaled(SupervisorVertex, Generic[A, B]):
    a: InOut[Vector[A]]
    b: Input[Vector[B]]
    operation: ClassVar[str]
    # Whether a and b are in different memory elements, so that both can be read in the same cycle.
    fast: ClassVar[bool]

    def cycles(self, target: Target) -> int:
        dtype = self.fields["a"].dtype
        kinds = [field.dtype for field in self.fields.values()]
        second_dtype = None if all(kind is dtype for kind in kinds) else FLOAT
        return int(
            vertices.scaled_add(
                len(self.a),
                dtype,
                target,
                other=second_dtype,
                operation=self.operation,
                memory_constrained=self.fast,
            )
        )


class ScaledAdd(_Scaled[A, B]):
    """Replace a by a + k b, for a factor k that is a number."""

    k: A

    def compute(self) -> None:
        self.a += self.k * _like(self.a, self.b)


class ScaledAddTensor(ScaledAdd[A, B]):
    """Replace a by a + k b, for a factor k that is a tensor."""

    k: Input[A]


class ScaledAddWide(_Scaled[A, B]):
    """Replace a, which is HALF, by a + k b, computed in FLOAT and rounded once."""

    k: FLOAT

    def compute(self) -> None:
        self.a = self.a.astype(np.float32) + self.k * self.b.astype(np.float32)


class ScaledAddWideTensor(_Scaled[A, B]):
    """Replace a by a + k b, in HALF if HALF represents k within the tolerance, or else in FLOAT."""

    k: Input[FLOAT]
    tolerance: ClassVar[float]

    def compute(self) -> None:
        half_factor = self.k.astype(np.float16)
        is_precise = np.abs(half_factor.astype(np.float32) - self.k) <= np.float32(
            self.tolerance
        ) * np.abs(self.k)
        half_result = self.a + half_factor * self.b.astype(np.float16)
        float_result = self.a.astype(np.float32) + self.k * self.b.astype(np.float32)
        self.a = np.where(is_precise, half_result, float_result.astype(np.float16))


class ScaledSubtract(_Scaled[A, B]):
    """Replace a by a - k b, for a factor k that is a number."""

    k: A

    def compute(self) -> None:
        self.a -= self.k * _like(self.a, self.b)


class ScaledSubtractTensor(ScaledSubtract[A, B]):
    """Replace a by a - k b, for a factor k that is a tensor."""

    k: Input[A]


class AXPBY(_Scaled[A, B]):
    """Replace a by ka a + kb b, for factors that are numbers."""

    ka: A
    kb: A

    def compute(self) -> None:
        self.a = self.ka * self.a + self.kb * _like(self.a, self.b)


class AXPBYTensor(AXPBY[A, B]):
    """Replace a by ka a + kb b, for factors that are tensors."""

    ka: Input[A]
    kb: Input[A]


class XMinusAXPlusBY(AXPBY[A, B]):
    """Replace a by (a - ka a) + kb b, for factors that are numbers, with the cycles of AXPBY."""

    def compute(self) -> None:
        self.a = (self.a - self.ka * self.a) + self.kb * _like(self.a, self.b)


class XMinusAXPlusBYTensor(XMinusAXPlusBY[A, B]):
    """Replace a by (a - ka a) + kb b, for factors that are tensors, with the cycles of AXPBY."""

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
    """Add k * b to a, for tensors of equal shape; b is converted to the dtype of a.

    First the product is rounded, and then the sum is rounded. `k` is a number, or a tensor of one
    element of a's dtype; if a is HALF, the tensor may also be FLOAT. `options` may contain:

    * "optimizeForSpeed" (default False): the model assumes that a and b are in different memory
      elements, so that both are read in the same cycle;
    * "scaleFloatToHalfTolerance" (default 1e-6): if a is HALF, and HALF represents k with a larger
      relative error than this, the sum is computed in FLOAT and rounded once, which is slower.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is wrong.
    """
    valid_options = settled(OPTIONS, options)
    _check_pair(a, b)
    may_be_float = a.dtype is HALF and not (isinstance(k, Tensor) and k.dtype is HALF)
    factor: Tensor | float | np.floating
    factor = check_factor(
        graph, "k", k, FLOAT if may_be_float else a.dtype, *((HALF,) if may_be_float else ())
    )
    base_codelet: type[Vertex] = ScaledAdd
    if isinstance(factor, Tensor):
        base_codelet = ScaledAddWideTensor if may_be_float else ScaledAddTensor
    elif may_be_float:
        with np.errstate(over="ignore"):
            half_factor = np.float16(factor)
        tolerance = valid_options["scaleFloatToHalfTolerance"]
        if abs(float(half_factor) - float(factor)) <= tolerance * abs(float(factor)):
            factor = half_factor
        else:
            base_codelet = ScaledAddWide
    _put(
        graph,
        base_codelet,
        "ADD",
        pair=(a, b),
        factors={"k": factor},
        options=valid_options,
        prog=prog,
        name=debug_context,
    )


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
    """Subtract k * b from a, for tensors of equal shape; b is converted to the dtype of a.

    First the product is rounded, and then the difference is rounded. `k` is a number, or a tensor
    of one element of a's dtype. `options` are those of `scaled_add_to`; "scaleFloatToHalfTolerance"
    has no effect here.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is wrong.
    """
    valid_options = settled(OPTIONS, options)
    _check_pair(a, b)
    factor = check_factor(graph, "k", k, a.dtype)
    base_codelet = ScaledSubtractTensor if isinstance(k, Tensor) else ScaledSubtract
    _put(
        graph,
        base_codelet,
        "SUBTRACT",
        pair=(a, b),
        factors={"k": factor},
        options=valid_options,
        prog=prog,
        name=debug_context,
    )


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
    """Replace a by ka * a + kb * b, rounded after each step, for tensors of equal shape.

    The factors are numbers, or tensors of one element of a's dtype. With the `specialisation`
    X_MINUS_AX_PLUS_BY, the formula is (a - ka * a) + kb * b. `options` are those of
    `scaled_subtract_from`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is wrong.
    """
    valid_options = settled(OPTIONS, options)
    _check_pair(a, b)
    factors = {
        name: check_factor(graph, name, factor, a.dtype)
        for name, factor in (("ka", ka), ("kb", kb))
    }
    has_tensors = any(isinstance(factor, Tensor) for factor in factors.values())
    if has_tensors:  # The codelet takes two tensors, so turn a number into a constant tensor.
        for name, factor in factors.items():
            factors[name] = scalar(graph, a.dtype, factor, f"{debug_context}/{name}")
    base_codelet: type[Vertex]
    if specialisation is ScaledAddSpecialisation.DEFAULT:
        base_codelet = AXPBYTensor if has_tensors else AXPBY
    else:
        base_codelet = XMinusAXPlusBYTensor if has_tensors else XMinusAXPlusBY
    _put(
        graph,
        base_codelet,
        "AXPBY",
        pair=(a, b),
        factors=factors,
        options=valid_options,
        prog=prog,
        name=debug_context,
    )


def _check_pair(a: Tensor, b: Tensor) -> None:
    check_takes("a", a)
    check_takes("b", b)
    if {a.dtype, b.dtype} != {FLOAT, HALF}:
        check_same("dtypes", a.dtype, b.dtype, f"{a!r} and {b!r}", advice=CAST)
    context = f"{a!r} and {b!r}"
    advice = "slice one of them, or use poputil.broadcast_to_match."
    check_same("shapes", a.shape, b.shape, context, advice=advice)
    refuse_quarter("ScaledAdd", a.dtype)


def _put(
    graph: Graph,
    base: type[Vertex],
    operation: str,
    *,
    pair: tuple[Tensor, Tensor],
    factors: Mapping[str, Tensor | float | np.floating],
    options: Settled,
    prog: Program,
    name: str,
) -> None:
    a, b = pair
    is_fast: bool = options["optimizeForSpeed"]
    constants: Settled = {"operation": operation, "fast": is_fast}
    name_words: list[Word] = [*dict.fromkeys((a.dtype, b.dtype)), "fast" if is_fast else ""]
    if base is ScaledAddWideTensor:
        constants["tolerance"] = options["scaleFloatToHalfTolerance"]
        name_words.append(f"{constants['tolerance']:g}")
    codelet = typed(base, name_words, {A: a.dtype, B: b.dtype}, **constants)
    per_tile(graph, codelet, a, {"a": a, "b": b}, prog=prog, name=name, **factors)
