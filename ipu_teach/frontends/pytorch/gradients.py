"""Placeholders for gradients, because the gradients stay on the device.

Using `parameter.grad`, or calling `backward()` on the loss that an executor returns, raises
`ModelError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import SupportsIndex

import torch

from ipu_teach.errors import ModelError
from ipu_teach.frontends.pytorch import private
from ipu_teach.frontends.pytorch.private import Argument, Target
from ipu_teach.graph.source import caller, in_words

# The torch functions that `zero_grad()` and conversions of modules call.
_ALLOWED = {
    *("grad_fn", "requires_grad", "requires_grad_", "detach_", "zero_", "_foreach_zero_"),
    *("is_sparse", "device", "dtype", "is_leaf", "is_floating_point", "is_complex", "to"),
    *("float", "half", "double", "bfloat16", "cpu", "_has_compatible_shallow_copy_type"),
}


class DeviceGradient(torch.Tensor):  # type: ignore[misc]
    """A placeholder for a gradient that is only on the device.

    Using it raises `ModelError`, except in `zero_grad` and in conversions of a module such as
    `module.half()`.
    """

    @classmethod
    def __torch_function__(
        cls,
        func: Target,
        types: Sequence[type],
        args: Sequence[Argument] = (),
        kwargs: Mapping[str, Argument] | None = None,
    ) -> Argument:
        """Raise `ModelError`, except in functions that `zero_grad` and module conversions call."""
        name = getattr(func, "__name__", str(func))
        if name in ("__get__", "__set__"):  # Name the property, such as "grad".
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        if name in _ALLOWED or (name == "data" and func.__name__ == "__set__"):
            with private.without_subclass():
                result = func(*args, **(kwargs or {}))
            return result.as_subclass(cls) if isinstance(result, torch.Tensor) else result
        raise ModelError(
            f"{name} was called on a gradient of a module that is trained on the device. A call of "
            "the trainingModel computes the gradients and updates the parameters on the device, "
            "so the host has no gradients.",
            next_step="leave out backward(), gradient clipping and optimizer.step(). To train this "
            "module in plain PyTorch, call detachFromDevice() of the trainingModel first.",
        )

    def __repr__(self, **_: Argument) -> str:
        return "<a gradient on the device>"


class DeviceLoss(torch.Tensor):  # type: ignore[misc]
    """The loss that a call of a trainingModel returns: a tensor whose `backward()` raises an error.

    Tensors that are computed from a `DeviceLoss`, copied from it or loaded from a file are plain
    tensors.
    """

    __torch_function__ = private.PLAIN_RESULTS

    def backward(self, *args: Argument, **kwargs: Argument) -> None:
        """Raise `ModelError`, unless the user has set `requires_grad` of the loss."""
        if self.requires_grad:
            super().backward(*args, **kwargs)
            return
        raise ModelError(
            "backward() was called on the loss that a trainingModel returned, but the call of the "
            "trainingModel has already computed the gradients and updated the parameters.",
            line=in_words(caller()),
            next_step="leave out loss.backward() and optimizer.step() for this module.",
        )

    def _plain(self) -> torch.Tensor:
        """Return the loss as an instance of `torch.Tensor`."""
        return self.as_subclass(torch.Tensor)

    def __repr__(self, **options: Argument) -> str:
        text: str = self._plain().__repr__(**options)
        return text

    def __format__(self, spec: str) -> str:
        text: str = self._plain().__format__(spec)
        return text

    def __deepcopy__(self, memo: dict[int, object]) -> torch.Tensor:
        return self._plain().__deepcopy__(memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Argument:
        return self._plain().__reduce_ex__(protocol)


def as_loss(tensor: torch.Tensor) -> torch.Tensor:
    """Return the loss of a call as a `DeviceLoss`, whose `backward()` raises an error."""
    loss: torch.Tensor = private.as_instance(tensor, DeviceLoss)
    return loss


def set_placeholders(module: torch.nn.Module) -> None:
    """Set `parameter.grad` to a `DeviceGradient` for each parameter that requires a gradient."""
    for parameter in module.parameters():
        if parameter.requires_grad and not isinstance(parameter.grad, DeviceGradient):
            zeros = torch.zeros(parameter.shape, dtype=parameter.dtype)
            parameter.grad = zeros.as_subclass(DeviceGradient)


def remove_placeholders(module: torch.nn.Module) -> None:
    """Set `parameter.grad` to None for each parameter whose gradient is a `DeviceGradient`."""
    for parameter in module.parameters():
        if isinstance(parameter.grad, DeviceGradient):
            parameter.grad = None
