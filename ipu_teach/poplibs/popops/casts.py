"""Conversions between dtypes, including 8-bit floats, by PopLibs' Cast1D."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, Input, Output, SupervisorVertex, Tensor, Vector, Vertex
from ipu_teach.graph.registers import ESR, NANOO, RegisterVertex
from ipu_teach.poplibs.laying import typed
from ipu_teach.poplibs.library import OWN, library, refused
from ipu_teach.poplibs.popops.elementwise_codelets import codelet, per_tile
from ipu_teach.poplibs.popops.operands import check_output, result_like
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import (
    FLOAT,
    HALF,
    QUARTER,
    UNSIGNED_CHAR,
    Array,
    DType,
    Overflow,
    as_dtype,
    from_quarter,
    generator,
    to_quarter,
)

__all__ = ["cast", "cast_with_output"]


class Cast1D(SupervisorVertex):
    """Set `out` to x, converted to another dtype.

    In the field annotations, FLOAT stands for the dtype of x, and HALF for the dtype of `out`.
    """

    x: Input[Vector[FLOAT]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = self.x

    def cycles(self, target: Target) -> int:
        return int(
            vertices.cast_1d(len(self.x), self.fields["x"].dtype, self.fields["out"].dtype, target)
        )


class ToQuarter(RegisterVertex):
    """Set `out` to the 8-bit encodings of x in the 8-bit float dtype `quarter`.

    In the field annotations, FLOAT stands for the dtype of x. The tile's control register contains
    two settings: whether numbers that are too large become NaN or the largest number (NANOO), and
    whether rounding is stochastic (ESR). For stochastic rounding, each worker generates random
    words for its share of the elements, as in `poprand`.
    """

    x: Input[Vector[FLOAT]]
    out: Output[Vector[UNSIGNED_CHAR]]
    quarter: ClassVar[type[QUARTER]]

    def compute(self) -> None:
        control = self.registers.behaviour.reshape(self.out.shape[:-1] + (1,))
        words = self._words() if np.any(control & np.uint32(ESR)) else None
        to_largest, to_nan = (
            self._codes(overflow, words, control) for overflow in (Overflow.SATURATE, Overflow.NAN)
        )
        self.out = np.where(control & np.uint32(NANOO), to_nan, to_largest)

    def _words(self) -> Array:
        """Return a random 32-bit word for each element of `out`."""
        generators = self.registers.generators
        num_elements = self.out.shape[-1]
        drawn = generator.draw(generators, -(-num_elements // generators.shape[-2])) >> np.uint64(
            32
        )
        words: Array = (
            drawn.reshape(*drawn.shape[:-2], -1)[..., :num_elements]
            .reshape(self.out.shape)
            .astype(np.uint32)
        )
        return words

    def _codes(self, overflow: Overflow, words: Array | None, control: Array) -> Array:
        nearest = to_quarter(self.x, self.quarter.metadata, overflow=overflow)
        if words is None:
            return nearest
        stochastic = to_quarter(self.x, self.quarter.metadata, words=words, overflow=overflow)
        return np.where(control & np.uint32(ESR), stochastic, nearest)

    def cycles(self, target: Target) -> int:
        return int(vertices.cast_1d(self.x.shape[-1], self.fields["x"].dtype, self.quarter, target))


class FromQuarter(RegisterVertex):
    """Set `out` to the numbers that x encodes in the 8-bit float dtype `quarter`.

    In the field annotations, HALF stands for the dtype of `out`.
    """

    x: Input[Vector[UNSIGNED_CHAR]]
    out: Output[Vector[HALF]]
    quarter: ClassVar[type[QUARTER]]

    def compute(self) -> None:
        self.out = from_quarter(self.x, self.quarter.metadata)

    def cycles(self, target: Target) -> int:
        return int(
            vertices.cast_1d(self.x.shape[-1], self.quarter, self.fields["out"].dtype, target)
        )


@library
def cast(
    graph: Graph, x: Tensor, dtype: type[DType], prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return x converted to `dtype`, with the tile mapping of x.

    Conversions between floats round to the nearest value. Conversions of floats to an integer dtype
    truncate towards zero. If x is a constant or a view that repeats elements, the result is mapped
    linearly.

    Only HALF and FLOAT can be converted to and from an 8-bit float, `QUARTER[format, scale]`. A
    number that is too large for the 8-bit float becomes the largest number that the dtype can
    represent. With the option debug.nanOverflowMode or `FloatingPointBehaviour(nanoo=True)`, it
    becomes NaN instead. Infinities always become NaN. Stochastic rounding, if enabled, applies to
    conversions to HALF and to 8-bit floats.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is wrong, or there is no such
        conversion.
    """
    dtype = as_dtype(dtype, "cast()")
    vertex = _codelet(x, dtype)
    out = result_like(graph, [x], x.shape, dtype, name=debug_context)
    _write(graph, vertex, x, out, prog=prog, name=debug_context)
    return out


@library
def cast_with_output(
    graph: Graph, x: Tensor, out: Tensor, prog: Program, debug_context: str = OWN
) -> None:
    """Convert x to the dtype of `out`, and write the result to `out`, which has the shape of x.

    The docstring of `cast` describes how values are converted.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is wrong, or there is no such
        conversion.
    """
    check_output(out, x.shape, out.dtype)
    _write(graph, _codelet(x, out.dtype), x, out, prog=prog, name=debug_context)


def _codelet(x: Tensor, dtype: type[DType]) -> type[Vertex]:
    if not (issubclass(x.dtype, QUARTER) or issubclass(dtype, QUARTER)):
        return codelet(Cast1D, x.dtype, "", dtype)
    plain_dtype = x.dtype if issubclass(dtype, QUARTER) else dtype
    if plain_dtype not in (HALF, FLOAT):
        raise refused(
            f"cannot convert {x.dtype} to {dtype} in one step.",
            x,
            "cast to HALF or FLOAT first, then cast that result.",
        )
    base, quarter = (ToQuarter, dtype) if issubclass(dtype, QUARTER) else (FromQuarter, x.dtype)
    return typed(
        base,
        [x.dtype, dtype],
        {FLOAT: plain_dtype, HALF: plain_dtype},
        Cast1D.__name__,
        quarter=quarter,
    )


def _write(
    graph: Graph, vertex: type[Vertex], x: Tensor, out: Tensor, prog: Program, name: str
) -> None:
    tensors = {
        field: tensor.reinterpret(UNSIGNED_CHAR) if tensor.has_metadata() else tensor
        for field, tensor in (("x", x), ("out", out))
    }
    per_tile(graph, vertex, tensors["out"], tensors, prog=prog, name=name)
