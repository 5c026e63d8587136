"""The codelets of a matrix product, with numpy's values and PopLibs' estimates of the cycles.

* FLOAT: the values are those of numpy's `a @ b` in single precision.
* HALF operands with sums of FLOAT ("fp16.32"): products are exact in single precision, and are
  added in single precision.
* Sums of HALF ("fp16.16"), for operands of HALF or 8 bits: the units add the products of one panel
  at a time. A panel consists of 16 HALF or 32 8-bit elements of the inner dimension. After each
  panel, the sum is rounded to the nearest HALF, so a long sum loses more digits than a short one.
  How the chip rounds within a panel is not published; here the products of a panel are added in
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

# The number of inner elements in a panel. PopLibs calls it the input channels per group
# (PerformanceEstimation.hpp).
HALF_PANEL, QUARTER_PANEL = 16, 32


class ConvPartial(SupervisorVertex):
    """Set `out` to a @ b.

    In the field annotations, FLOAT stands for the dtype of the operands, and HALF for the dtype of
    the sums; `typed` replaces both.
    """

    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[HALF]]]
    method: ClassVar[str]
    wide: ClassVar[bool]

    def compute(self) -> None:
        self.out = self.a @ self.b

    def cycles(self, target: Target) -> int:
        operand_dtype = self.fields["a"].dtype
        sums_dtype = self.fields["out"].dtype
        (num_rows, inner_size), num_columns = self.a.shape, self.out.shape[1]
        return int(
            multiply_cycles(
                self.method,
                num_rows,
                inner_size,
                num_columns,
                operand_dtype,
                sums_dtype,
                target,
                self.wide,
            )
        )


class ConvPartialMore(ConvPartial):
    """Add a @ b to `out`."""

    out: InOut[Vector[Vector[HALF]]]

    def compute(self) -> None:
        self.out += self.a @ self.b


class ConvPartialHalf(ConvPartial):
    """Set `out` to a @ b for HALF operands whose products are added in single precision."""

    def compute(self) -> None:
        self.out = self.a.astype(np.float32) @ self.b.astype(np.float32)


class ConvPartialHalfMore(ConvPartialMore):
    """Add a @ b to `out` for HALF operands whose products are added in single precision."""

    def compute(self) -> None:
        self.out += self.a.astype(np.float32) @ self.b.astype(np.float32)


class ConvPartialHalfSums(ConvPartial):
    """Set `out` to a @ b for HALF operands; sums are rounded to HALF after every 16 products."""

    def compute(self) -> None:
        self.out = _in_panels(
            self.a.astype(np.float32), self.b.astype(np.float32), HALF_PANEL, None
        )


class ConvPartialHalfSumsMore(ConvPartialMore):
    """Add a @ b to `out` for HALF operands; sums are rounded to HALF after every 16 products."""

    def compute(self) -> None:
        self.out = _in_panels(
            self.a.astype(np.float32), self.b.astype(np.float32), HALF_PANEL, self.out
        )


class ConvPartialQuarter(SupervisorVertex):
    """Set `out` to a @ b for 8-bit floats; the sums are rounded to HALF after every 32 products.

    a and b contain the bytes that encode the 8-bit floats.
    """

    a: Input[Vector[Vector[UNSIGNED_CHAR]]]
    b: Input[Vector[Vector[UNSIGNED_CHAR]]]
    out: Output[Vector[Vector[HALF]]]
    a_type: ClassVar[type[QUARTER]]
    b_type: ClassVar[type[QUARTER]]
    wide: ClassVar[bool]

    def compute(self) -> None:
        self.out = _in_panels(*self.numbers(), QUARTER_PANEL, None)

    def numbers(self) -> tuple[Any, Any]:
        """Return the decoded operands `(a, b)`: the numbers that their bytes represent."""
        a = from_quarter(self.a, self.a_type.metadata)
        b = self.b
        return a, from_quarter(b, self.b_type.metadata)

    def cycles(self, target: Target) -> int:
        shape = len(self.a), self.a.shape[1], self.out.shape[1]
        return int(vertices.conv_partial_1x1_quarter(*shape, target, interleaved=self.wide))


class ConvPartialQuarterMore(ConvPartialQuarter):
    """Add a @ b to `out` for 8-bit floats; the sums are rounded to HALF after every 32 products."""

    out: InOut[Vector[Vector[HALF]]]

    def compute(self) -> None:
        self.out = _in_panels(*self.numbers(), QUARTER_PANEL, self.out)


class ReduceAdd(SupervisorVertex):
    """Set `out` to the sum of the rows of x, added from the first row to the last.

    In the field annotations, FLOAT stands for the dtype of x, and HALF for the dtype of the result;
    `typed` replaces both.
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
        sums_dtype = self.fields["x"].dtype
        out_dtype = self.fields["out"].dtype
        return int(
            vertices.conv_reduce(
                len(self.out), len(self.x), sums_dtype, target, out=out_dtype, interleaved=self.wide
            )
        )


class Transpose(SupervisorVertex):
    """Set `out` to the transpose of x, computed by one worker."""

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = self.x.T

    def cycles(self, target: Target) -> int:
        dtype = self.fields["x"].dtype
        grain_size = 4 if dtype.size == 2 else 2
        # A worker moves complete grains (blocks of grain_size x grain_size elements), so an
        # incomplete grain takes as long as a complete one.
        num_rows, num_columns = (-(-size // grain_size) * grain_size for size in self.x.shape)
        return int(vertices.transpose(1, (num_rows, num_columns), dtype, target))


class SplitTranspose(Transpose):
    """Set `out` to the transpose of x, computed by all workers of the tile."""

    def cycles(self, target: Target) -> int:
        return int(vertices.split_transpose(self.x.shape, self.fields["x"].dtype, target))


def _in_panels(a: Any, b: Any, depth: int, total: Any) -> Any:
    """Return `total` + a @ b as float16, rounded after every `depth` products.

    a and b are float32 arrays. The products of `depth` successive inner elements (a panel) are
    added in float32 before the sum is rounded. `total` is a float16 array, or None for 0.
    """
    # If the block has no inner elements, the loop runs once, and the result is 0.
    for panel_begin in range(0, max(1, a.shape[1]), depth):
        panel_sums = a[:, panel_begin : panel_begin + depth] @ b[panel_begin : panel_begin + depth]
        total = (panel_sums if total is None else panel_sums + total.astype(np.float32)).astype(
            np.float16
        )
    return total


def multiplier(
    method: str, a: type[DType], b: type[DType], sums: type[DType], accumulates: bool, wide: bool
) -> type[Vertex]:
    """Return the codelet that multiplies operands of the dtypes a and b.

    `sums` is the dtype of the sums, and `method` is "AMP" or "HMAC". With `accumulates`, the
    codelet adds to the values in `out`. With `wide`, it loads 128 bits of weights per cycle.
    """
    name = "ConvPartialHorizontalMac" if method == "HMAC" else "ConvPartial1x1"
    name_words: list[Word] = [
        *dict.fromkeys((a, sums)),
        "accumulate" if accumulates else "",
        "128bit" if wide else "",
    ]
    if issubclass(a, QUARTER) and issubclass(b, QUARTER):
        name_words[1:1] = [b]
        base_codelet: type[Vertex] = ConvPartialQuarterMore if accumulates else ConvPartialQuarter
        return typed(base_codelet, name_words, {}, name, a_type=a, b_type=b, wide=wide)
    if a is FLOAT:
        base_codelet = ConvPartialMore if accumulates else ConvPartial
    elif sums is FLOAT:
        base_codelet = ConvPartialHalfMore if accumulates else ConvPartialHalf
    else:
        base_codelet = ConvPartialHalfSumsMore if accumulates else ConvPartialHalfSums
    return typed(base_codelet, name_words, {FLOAT: a, HALF: sums}, name, method=method, wide=wide)


def adder(sums: type[DType], out: type[DType], wide: bool) -> type[Vertex]:
    """Return the codelet that adds partial sums of the dtype `sums` to a result of the dtype `out`.

    With `wide`, it reads 128 bits of partial sums per cycle.
    """
    name_words: list[Word] = [*dict.fromkeys((sums, out)), "128bit" * wide]
    return typed(ReduceAdd, name_words, {FLOAT: sums, HALF: out}, wide=wide)
