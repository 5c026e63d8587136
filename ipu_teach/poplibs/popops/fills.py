"""Tensors that a program fills on the device: with one value, a range of numbers, or one-hot rows.

Each function adds one compute set, with one vertex on every tile that has elements of the tensor.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, Input, Output, SupervisorVertex, Tensor, Vector, Vertex
from ipu_teach.poplibs.laying import beside
from ipu_teach.poplibs.library import (
    OWN,
    AnyNumber,
    Matrix,
    Row,
    check_dtype,
    check_number,
    check_same,
    library,
)
from ipu_teach.poplibs.popops.elementwise_codelets import codelet, per_tile
from ipu_teach.poplibs.popops.operands import check_finite
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT

__all__ = ["MASKED_LABEL_CODE", "encode_one_hot", "fill", "iota", "zero"]

MASKED_LABEL_CODE = 2**32 - 1  # A label that is no class (popops/EncodingConstants.hpp).


class Fill(Vertex):
    """Set every element of `out` to `value`."""

    value: FLOAT
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.value

    def cycles(self, target: Target) -> int:
        return int(vertices.fill(len(self.out), self.fields["out"].dtype))


class Iota(SupervisorVertex):
    """Set each element of `out` to `start` plus its entry in `places`.

    `places` contains the elements' positions in the full tensor. PopLibs' cycle estimate for Iota
    applies to one worker; the model divides the elements between all workers.
    """

    places: Input[Vector[FLOAT]]
    start: FLOAT
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.places + self.start

    def cycles(self, target: Target) -> int:
        num_workers = target.num_worker_contexts
        return num_workers * int(
            vertices.iota([-(-len(self.out) // num_workers)], self.fields["out"].dtype, target)
        )


class EncodeOneHot(SupervisorVertex):
    """Set each element of `out` to `on` if its column is its row's label, and otherwise to `off`.

    `labels` and `classes` contain the label and the column of each element. In the field
    annotations, FLOAT stands for the dtype of the output, and HALF for the dtype of the labels.
    PopLibs' EncodeOneHot writes single elements into rows that were filled before, so its estimate
    (100 cycles per label) contains no cost per element. This vertex writes all elements; for each
    tile, the model counts the cycles to compare two regions of integers.
    """

    labels: Input[Vector[HALF]]
    classes: Input[Vector[HALF]]
    on: FLOAT
    off: FLOAT
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = np.where(self.labels == self.classes, self.on, self.off)

    def cycles(self, target: Target) -> int:
        return int(vertices.binary_op_1d("EQUAL", len(self.out), INT, target))


@library
def fill(
    graph: Graph, x: Tensor, prog: Program, value: AnyNumber, debug_context: str = OWN
) -> None:
    """Write `value` to every element of x.

    For FLOAT and HALF, `value` may be NaN or infinite. x must not have an 8-bit float dtype. The
    modelled cycles are those of PopLibs' Fill, which uses one worker of each tile.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    number = check_number("value", value, x.dtype)
    per_tile(
        graph, codelet(Fill, x.dtype), x, {"out": x}, prog=prog, name=debug_context, value=number
    )


@library
def zero(graph: Graph, x: Tensor, prog: Program, debug_context: str = OWN) -> None:
    """Write 0, or False for BOOL, to every element of x.

    x must not have an 8-bit float dtype. The modelled cycles are those of PopLibs' Fill, which uses
    one worker of each tile.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    fill(graph, x, prog, False if x.dtype is BOOL else 0, debug_context=debug_context)


@library
def iota(graph: Graph, x: Row, start: int, prog: Program, debug_context: str = OWN) -> None:
    """Write `start`, `start` + 1, … to the elements of x, a vector of INT or UNSIGNED_INT.

    Numbers that are too large for the dtype wrap around. The call adds a constant with the position
    of each element, on the element's tile.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    check_dtype("x", x, INT, UNSIGNED_INT)
    first_number = check_number("start", start, x.dtype)
    positions = beside(graph, x, x.dtype, np.arange(x.num_elements), name=f"{debug_context}/places")
    vertex = codelet(Iota, x.dtype)
    operands = {"places": positions, "out": x}
    per_tile(graph, vertex, x, operands, prog=prog, name=debug_context, start=first_number)


@library
def encode_one_hot(
    graph: Graph,
    indices: Row,
    encoded: Matrix,
    prog: Program,
    on: float = 1,
    off: float = 0,
    debug_context: str = OWN,
) -> None:
    """Write `on` to column indices[i] of row i of `encoded` [rows, classes], and `off` elsewhere.

    `indices` [rows] is INT or UNSIGNED_INT. If an index is not the number of a column (such as
    `MASKED_LABEL_CODE`), its whole row is `off`. `encoded` has any dtype except 8-bit floats, and
    keeps its tile mapping; each tile receives the indices of those rows that have elements on the
    tile.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    check_dtype("indices", indices, INT, UNSIGNED_INT)
    rows, classes = encoded.shape
    where = f"indices {indices!r} and encoded {encoded!r}"
    check_same(
        "numbers of rows", indices.shape[0], rows, where, advice="give an index for each row."
    )
    numbers = {n: check_number(n, v, encoded.dtype) for n, v in (("on", on), ("off", off))}
    for argument, number in numbers.items():
        check_finite(argument, number)
    vertex = codelet(EncodeOneHot, encoded.dtype, "", indices.dtype)
    name = f"{debug_context}/classes"
    numbered = beside(graph, encoded, indices.dtype, np.arange(classes), name=name)
    labels = indices.expand([1]).broadcast(classes, 1)
    operands = {"labels": labels, "classes": numbered, "out": encoded}
    per_tile(graph, vertex, encoded, operands, prog=prog, name=debug_context, **numbers)
