"""Conversions of tensors and dtypes between torch and the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ipu_teach.frontends.pytorch.private import Argument, pytree
from ipu_teach.types import BOOL, FLOAT, HALF, INT, Array, DType

DTYPES: dict[torch.dtype, type[DType]] = {
    torch.float32: FLOAT,
    torch.float16: HALF,
    torch.bool: BOOL,
    **dict.fromkeys((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8), INT),
}


def dtype_of(dtype: torch.dtype) -> type[DType] | None:
    """Return the device's dtype for a torch dtype, or None if the device does not support it."""
    return DTYPES.get(dtype)


def array(tensor: torch.Tensor) -> Array:
    """Return a tensor's elements as a numpy array, which shares the tensor's memory if possible."""
    # `force` is needed for zeros that torch stores without memory.
    elements: Array = tensor.detach().contiguous().numpy(force=True)
    return elements


def tensor_of(elements: Array, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of the torch dtype `dtype` with a copy of the elements."""
    array_for_torch = elements.astype(np.int64) if elements.dtype == np.uint32 else elements
    return torch.from_numpy(np.array(array_for_torch)).to(dtype)


def tensors_and_form(structure: Argument) -> tuple[list[torch.Tensor], Argument]:
    """Return `(tensors, form)`: the tensors in nested containers, and the containers around them.

    `form` is the argument of `fill_form`, which puts other tensors into the same containers.
    """
    leaves, structure_spec = pytree.tree_flatten(structure)
    return [v for v in leaves if isinstance(v, torch.Tensor)], (leaves, structure_spec)


def fill_form(form: Argument, tensors: Sequence[torch.Tensor]) -> Argument:
    """Return the nested containers of `form`, with `tensors` in place of the original tensors.

    `form` is a result of `tensors_and_form`, and `tensors` are in the same order as there.
    """
    leaves, structure_spec = form
    following = iter(tensors)
    values = [next(following) if isinstance(v, torch.Tensor) else v for v in leaves]
    return pytree.tree_unflatten(values, structure_spec)
