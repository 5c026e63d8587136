"""Checks of the operands of elementwise functions, and the tile mapping of their results."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from ipu_teach.errors import PoplibsError
from ipu_teach.graph import Graph, Shape, Tensor
from ipu_teach.graph.mapping import pieces_by_tile
from ipu_teach.poplibs.laying import linear
from ipu_teach.poplibs.library import (
    as_given,
    calling,
    check_mapped,
    check_number,
    check_same,
    check_tensor,
    refused,
)
from ipu_teach.poplibs.placing import in_memory_order
from ipu_teach.poplibs.popops.operations import NUMBERS, ElementwiseOperation
from ipu_teach.poplibs.poputil import BROADCASTING, like
from ipu_teach.types import BOOL, QUARTER, Array, DType

Operand = Tensor | float | int
# A checked operand; a number has already been converted to the dtype of the tensors.
Checked = Tensor | np.generic | Array
CAST = "cast one of them with popops.cast."
GIVE = "give a tensor, or a number."
ORDINALS = ("its first operand", "its second operand", "its third operand")


def check_operand(
    graph: Graph,
    argument: str,
    tensor: Operand,
    operation: ElementwiseOperation | None = None,
) -> Tensor:
    """Return `tensor` if it is a mapped tensor of `graph` whose dtype `operation` accepts.

    Without an operation, any dtype except BOOL is accepted. `argument` is the name of the tensor in
    errors.

    :raises PoplibsError: if `tensor` does not fit.
    :raises InvalidTileMappingError: if it has unmapped elements.
    """
    check_tensor(graph, argument, tensor)
    assert isinstance(tensor, Tensor)
    check_takes(argument, tensor, operation)
    check_mapped(graph, argument, tensor)
    return tensor


def check_takes(
    argument: str, tensor: Tensor, operation: ElementwiseOperation | None = None
) -> None:
    """Raise `PoplibsError` unless `operation` accepts the dtype of `tensor`.

    Without an operation, any dtype except BOOL is accepted. `argument` is the name of the tensor in
    the error.
    """
    allowed = NUMBERS if operation is None else operation.takes
    accepted = tensor.dtype is not BOOL if operation is None else operation.accepts(tensor.dtype)
    # Operands of 8-bit floats pass this check, because the codelets raise a separate error for
    # them.
    if not accepted and not issubclass(tensor.dtype, QUARTER):
        raise refused(
            f"works on {allowed}, but {argument} is {tensor.dtype.__name__}.",
            tensor,
            "cast it with popops.cast.",
        )


def common_shape(tensors: Sequence[Tensor]) -> Shape:
    """Return the shape to which all tensors broadcast.

    :raises PoplibsError: if there is no such shape.
    """
    try:
        return np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    except ValueError:
        shapes = [str(tensor.shape) for tensor in tensors]
        raise PoplibsError(f"""{calling()}() was given shapes {", ".join(shapes[:-1])} and
            {shapes[-1]}, which do not broadcast.
            where: {" and ".join(map(repr, tensors))}
            next:  {BROADCASTING}""") from None


def result_like(
    graph: Graph, tensors: Sequence[Tensor], shape: Shape, dtype: type[DType], name: str
) -> Tensor:
    """Return a new tensor of `shape`, mapped like one of the operands of this shape.

    The operand is the most evenly distributed one, in PopLibs' order of preference
    (popops/ElementWiseUtil.cpp): the operand with the fewest elements on its fullest tile; among
    equals, the operand on the most tiles, then the operand with the fewest regions, then the first
    operand. Constants, and views that repeat elements, are not considered unless `shape` is (). If
    no operand remains, the result is mapped linearly.
    """
    of_shape = [t for t in tensors if t.shape == shape]
    candidates = [t for t in of_shape if t.is_parallel_writeable()]
    if not candidates and shape == ():
        candidates = of_shape[:1]
    if not candidates:
        return linear(graph, dtype, shape, f"{name}/out")
    best = candidates[0]
    if len(candidates) > 1:
        best = min(candidates, key=lambda tensor: _spread(graph, tensor))
    return like(graph, best, f"{name}/out", dtype)


def _spread(graph: Graph, tensor: Tensor) -> tuple[bool, int, int, int]:
    """Return a sort key that is smaller if a tensor is distributed more evenly over the tiles.

    The key is a tuple of four values: whether some elements are unmapped, the number of elements on
    the fullest tile, the negated number of tiles that have elements, and the number of regions.
    """
    ordered = tensor.dim_shuffle(in_memory_order(tensor))
    _, piece_lengths, piece_tiles = pieces_by_tile(ordered, graph.tile_map())
    is_mapped = piece_tiles >= 0
    elements_by_tile = (
        np.bincount(piece_tiles[is_mapped], piece_lengths[is_mapped])
        if is_mapped.any()
        else np.zeros(1)
    )
    return (
        not is_mapped.all(),
        int(elements_by_tile.max()),
        -int((elements_by_tile > 0).sum()),
        len(piece_lengths),
    )


def check_output(out: Tensor, shape: Shape, dtype: type[DType]) -> None:
    """Raise `PoplibsError` unless `out` has this shape and dtype."""
    context = f"out {out!r}"
    check_same("shapes", out.shape, shape, context, advice=f"give an out of shape {shape}.")
    dtypes = out.dtype.__name__, dtype.__name__
    check_same("dtypes", *dtypes, context, advice=f"give an out of {dtype.__name__}.")


def check_factor(
    graph: Graph, argument: str, k: Operand, dtype: type[DType], *wider: type[DType]
) -> Operand:
    """Return the factor `k` as a number of `dtype`, or as a tensor without dimensions.

    A tensor must be mapped, and have one element of `dtype` or of a dtype in `wider`. `argument` is
    the name of the factor in errors.

    :raises PoplibsError: if `k` is not a number, or is a tensor that does not fit.
    :raises TensorCreationError: if `k` is a number that is out of range.
    :raises InvalidTileMappingError: if `k` is an unmapped tensor.
    """
    if not isinstance(k, Tensor):
        number: Operand = check_number(
            argument, k, dtype, "give a number, or a tensor of one element."
        )
        return number
    check_tensor(graph, argument, k)
    if k.dtype not in (dtype, *wider) or k.num_elements != 1:
        allowed = " or ".join(allowed_dtype.__name__ for allowed_dtype in (dtype, *wider))
        raise refused(f"""needs {argument} as a tensor of 1 element of {allowed}, but was given
            {k.num_elements:,} of {k.dtype.__name__}.
            where: {k!r}
            next:  give a number, or a tensor of one element; for a factor per element, use
            popops.mul.""")
    check_mapped(graph, argument, k)
    return k.reshape(())


def check_finite(argument: str, k: Operand) -> None:
    """Raise `PoplibsError` if the factor `k` is a number that is NaN or infinite.

    Such a factor would destroy the values that it updates. If `k` is a tensor, its value is not
    checked. `argument` is the name of the factor in the error.
    """
    if not isinstance(k, Tensor) and not isfinite(k):
        raise as_given(float(k), argument, "give a number that is neither NaN nor infinite.")


def check_in_place(
    graph: Graph, tensor: Tensor, operation: ElementwiseOperation, shape: Shape
) -> None:
    """Raise `PoplibsError` unless the result of `operation` fits into `tensor`, its first operand.

    `shape` is the shape of the result. Its dtype and shape must be those of `tensor`.
    """
    result_dtype = operation.result(tensor.dtype)
    if result_dtype is not tensor.dtype:
        raise refused(f"""cannot write its result, {result_dtype.__name__}, to its first operand,
            {tensor.dtype.__name__}.
            where: {tensor!r}
            next:  use {calling().removesuffix("_in_place")}(), which returns a new tensor.""")
    if tensor.shape != shape:
        raise refused(f"""cannot write its result of shape {shape} to its first operand, which has
            shape {tensor.shape}.
            where: {tensor!r}
            next:  use {calling().removesuffix("_in_place")}(), which returns a new tensor.""")
