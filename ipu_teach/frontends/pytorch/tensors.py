"""Conversions: tensors of torch to arrays and back, and dtypes of torch to those of the device."""

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
    """Return the device's dtype for a dtype of torch, or None if the device has no such dtype."""
    return DTYPES.get(dtype)


def array(tensor: torch.Tensor) -> Array:
    """Return the elements of a tensor; the array shares the tensor's memory if possible."""
    # without `force`, torch's zeros that have no memory would raise an error
    elements: Array = tensor.detach().contiguous().numpy(force=True)
    return elements


def tensor_of(elements: Array, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of torch's dtype `dtype` with a copy of the elements."""
    array_for_torch = elements.astype(np.int64) if elements.dtype == np.uint32 else elements
    return torch.from_numpy(np.array(array_for_torch)).to(dtype)


def tensors_and_form(structure: Argument) -> tuple[list[torch.Tensor], Argument]:
    """Return the tensors in nested containers, and the form that `fill_form` needs."""
    leaves, structure_spec = pytree.tree_flatten(structure)
    return [v for v in leaves if isinstance(v, torch.Tensor)], (leaves, structure_spec)


def fill_form(form: Argument, tensors: Sequence[torch.Tensor]) -> Argument:
    """Return the containers of `form`, in which `tensors` replace the original tensors in order."""
    leaves, structure_spec = form
    following = iter(tensors)
    values = [next(following) if isinstance(v, torch.Tensor) else v for v in leaves]
    return pytree.tree_unflatten(values, structure_spec)
