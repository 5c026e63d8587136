"""Functions of two tensors: `append` and `same_view`."""

from __future__ import annotations

from ipu_teach.errors import GraphObjectCreationError, TensorCreationError, shown
from ipu_teach.graph.tensor import Tensor, concat


def append(tensor: Tensor, x: Tensor, dim: int = 0) -> Tensor:
    """Return a view of `tensor` with one more entry, `x`, at the end of dimension `dim`.

    The shape of `x` is the shape of `tensor` without dimension `dim`. Raises `TensorCreationError`
    if the shapes do not fit, and `PoplarTypeError` if the dtypes differ.
    """
    for argument in (tensor, x):
        if not isinstance(argument, Tensor):
            raise GraphObjectCreationError(
                f"append() was given {shown(argument)}, which is not a tensor.",
                next_step="give two tensors.",
            )
    axis = tensor._axis(dim)
    wanted = tensor.shape[:axis] + tensor.shape[axis + 1 :]
    if x.shape != wanted:
        raise TensorCreationError(f"""append() along dimension {axis} of shape {tensor.shape} takes
            an entry of shape {wanted}, not {x.shape}.
            where: {tensor!r} and {x!r}
            next:  reshape the entry, or use concat() for several entries at once.""")
    return concat(tensor, x.expand(axis), axis)


def same_view(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are the same view.

    Two tensors are the same view if they have the same elements in the same shape and order, and
    the same dtype and graph.
    """
    for argument in (a, b):
        if not isinstance(argument, Tensor):
            raise GraphObjectCreationError(
                f"same_view() was given {shown(argument)}, which is not a tensor.",
                next_step="give two tensors.",
            )
    return a == b
