"""Convert tensors of torch to arrays, and dtypes of torch to those of the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ipu_teach.frontends.pytorch.private import pytree
from ipu_teach.types import BOOL, FLOAT, HALF, INT, Array, DType

DTYPES: dict[torch.dtype, type[DType]] = {
    torch.float32: FLOAT,
    torch.float16: HALF,
    torch.bool: BOOL,
    **dict.fromkeys((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8), INT),
}


def dtype_of(dtype: torch.dtype) -> type[DType] | None:
    """Return the device's dtype for a dtype of torch; None if there is none."""
    return DTYPES.get(dtype)


def array(tensor: torch.Tensor) -> Array:
    """Return the elements of a tensor; the array shares its memory if possible."""
    # `force` is for torch's zeros without memory
    elements: Array = tensor.detach().contiguous().numpy(force=True)
    return elements


def tensor_of(elements: Array, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor with one of torch's dtypes and a copy of the elements."""
    signed = elements.astype(np.int64) if elements.dtype == np.uint32 else elements
    return torch.from_numpy(np.array(signed)).to(dtype)


def tensors_and_form(structure: Any) -> tuple[list[torch.Tensor], Any]:
    """Return the tensors in nested containers, and a form for `fill_form`."""
    flat, spec = pytree.tree_flatten(structure)
    return [v for v in flat if isinstance(v, torch.Tensor)], (flat, spec)


def fill_form(form: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """Return the containers of a form with other tensors."""
    flat, spec = form
    following = iter(tensors)
    values = [next(following) if isinstance(v, torch.Tensor) else v for v in flat]
    return pytree.tree_unflatten(values, spec)
