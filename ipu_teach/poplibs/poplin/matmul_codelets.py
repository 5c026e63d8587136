"""The codelets of a matrix product: numpy's values, and PopLibs' estimates of its own vertices.

* FLOAT is numpy's `a @ b` in single precision.
* HALF or 8-bit operands with sums of FLOAT ("fp16.32"): each product of two operands is exact in
  single precision, in which the products are added.
* Sums of HALF ("fp16.16"): the units add a panel of the inner dimension (16 HALF, or 32 of 8 bits),
  and between panels the sum is HALF, rounded to nearest. A long sum of HALF therefore loses digits
  that a short one keeps. How the chip rounds within a panel is not published; here it adds in
  single precision.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import InOut, Input, Output, SupervisorVertex, Vector, Vertex
from ipu_teach.poplibs.laying import Word, typed
from ipu_teach.poplibs.poplin.plan import multiply_cycles
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, QUARTER, UNSIGNED_CHAR, DType, from_quarter

# the depth of a panel: input channels of a group in PopLibs' PerformanceEstimation.hpp
HALF_PANEL, QUARTER_PANEL = 16, 32


class ConvPartial(SupervisorVertex):
    """out = a @ b. FLOAT stands for the dtype of the operands, HALF for that of the sums."""

    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[HALF]]]
    method: ClassVar[str]
    wide: ClassVar[bool]

    def compute(self) -> None:
        self.out = self.a @ self.b

    def cycles(self, target: Target) -> int:
        operand = self.fields["a"].dtype
        sums = self.fields["out"].dtype
        (rows, inner), columns = self.a.shape, self.out.shape[1]
        return int(
            multiply_cycles(self.method, rows, inner, columns, operand, sums, target, self.wide)
        )


class ConvPartialMore(ConvPartial):
    """out += a @ b."""

    out: InOut[Vector[Vector[HALF]]]

    def compute(self) -> None:
        self.out += self.a @ self.b


class ConvPartialHalf(ConvPartial):
    """out = a @ b of halves, added in single precision."""

    def compute(self) -> None:
        self.out = self.a.astype(np.float32) @ self.b.astype(np.float32)


class ConvPartialHalfMore(ConvPartialMore):
    """out += a @ b of halves, added in single precision."""

    def compute(self) -> None:
        self.out += self.a.astype(np.float32) @ self.b.astype(np.float32)


class ConvPartialHalfSums(ConvPartial):
    """out = a @ b of halves, with sums that are halves between panels."""

    def compute(self) -> None:
        self.out = _in_panels(
            self.a.astype(np.float32), self.b.astype(np.float32), HALF_PANEL, None
        )


class ConvPartialHalfSumsMore(ConvPartialMore):
    """out += a @ b of halves, with sums that are halves between panels."""

    def compute(self) -> None:
        self.out = _in_panels(
            self.a.astype(np.float32), self.b.astype(np.float32), HALF_PANEL, self.out
        )


class ConvPartialQuarter(SupervisorVertex):
    """out = a @ b of 8-bit floats, given as codes, with sums that are halves between panels."""

    a: Input[Vector[Vector[UNSIGNED_CHAR]]]
    b: Input[Vector[Vector[UNSIGNED_CHAR]]]
    out: Output[Vector[Vector[HALF]]]
    a_type: ClassVar[type[QUARTER]]
    b_type: ClassVar[type[QUARTER]]
    wide: ClassVar[bool]

    def compute(self) -> None:
        self.out = _in_panels(*self.numbers(), QUARTER_PANEL, None)

    def numbers(self) -> tuple[Any, Any]:
        """Return the numbers that the codes of a and b represent."""
        a = from_quarter(self.a, self.a_type.metadata)
        b = self.b
        return a, from_quarter(b, self.b_type.metadata)

    def cycles(self, target: Target) -> int:
        shape = len(self.a), self.a.shape[1], self.out.shape[1]
        return int(vertices.conv_partial_1x1_quarter(*shape, target, interleaved=self.wide))


class ConvPartialQuarterMore(ConvPartialQuarter):
    """out += a @ b of 8-bit floats, given as codes."""

    out: InOut[Vector[Vector[HALF]]]

    def compute(self) -> None:
        self.out = _in_panels(*self.numbers(), QUARTER_PANEL, self.out)


class ReduceAdd(SupervisorVertex):
    """out = the rows of x, added one after the other.

    FLOAT stands for the dtype of the sums, HALF for that of the result.
    """

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[HALF]]
    wide: ClassVar[bool]

    def compute(self) -> None:
        total = self.x[0]
        for i in range(1, len(self.x)):
            total = total + self.x[i]
        self.out = total

    def cycles(self, target: Target) -> int:
        sums = self.fields["x"].dtype
        out = self.fields["out"].dtype
        return int(
            vertices.conv_reduce(
                len(self.out), len(self.x), sums, target, out=out, interleaved=self.wide
            )
        )


class Transpose(SupervisorVertex):
    """out = x with rows and columns exchanged."""

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = self.x.T

    def cycles(self, target: Target) -> int:
        dtype = self.fields["x"].dtype
        grain = 4 if dtype.size == 2 else 2
        # a partial grain counts as a complete one
        rows, columns = (-(-n // grain) * grain for n in self.x.shape)
        return int(vertices.transpose(1, (rows, columns), dtype, target))


class SplitTranspose(Transpose):
    """out = x with rows and columns exchanged, divided over the workers."""

    def cycles(self, target: Target) -> int:
        return int(vertices.split_transpose(self.x.shape, self.fields["x"].dtype, target))


def _in_panels(a: Any, b: Any, depth: int, total: Any) -> Any:
    """Return the product of single-precision arrays, panel by panel, each panel's sum added to a
    half. `total`: halves, or None."""
    for k in range(0, max(1, a.shape[1]), depth):  # a block may be empty, and is 0 then
        panel = a[:, k : k + depth] @ b[k : k + depth]
        total = (panel if total is None else panel + total.astype(np.float32)).astype(np.float16)
    return total


def multiplier(
    method: str, a: type[DType], b: type[DType], sums: type[DType], accumulates: bool, wide: bool
) -> type[Vertex]:
    """Return the vertex for operands and sums of these types. With `accumulates`, it adds to the
    present values; with `wide`, it loads 128 bits."""
    name = "ConvPartialHorizontalMac" if method == "HMAC" else "ConvPartial1x1"
    words: list[Word] = [
        *dict.fromkeys((a, sums)),
        "accumulate" if accumulates else "",
        "128bit" if wide else "",
    ]
    if issubclass(a, QUARTER) and issubclass(b, QUARTER):
        words[1:1] = [b]
        base: type[Vertex] = ConvPartialQuarterMore if accumulates else ConvPartialQuarter
        return typed(base, words, {}, name, a_type=a, b_type=b, wide=wide)
    if a is FLOAT:
        base = ConvPartialMore if accumulates else ConvPartial
    elif sums is FLOAT:
        base = ConvPartialHalfMore if accumulates else ConvPartialHalf
    else:
        base = ConvPartialHalfSumsMore if accumulates else ConvPartialHalfSums
    return typed(base, words, {FLOAT: a, HALF: sums}, name, method=method, wide=wide)


def adder(sums: type[DType], out: type[DType], wide: bool) -> type[Vertex]:
    """Return the codelet that adds partial sums of one dtype to a result of another.

    With `wide`, it reads 128 bits at a time.
    """
    words: list[Word] = [*dict.fromkeys((sums, out)), "128bit" * wide]
    return typed(ReduceAdd, words, {FLOAT: sums, HALF: out}, wide=wide)
