"""The gradients of an attached module are on the device: reading `parameter.grad` is refused."""

from __future__ import annotations

from typing import Any

import torch

from ipu_teach.errors import ModelError

# what zero_grad() asks of a gradient
_ALLOWED = ("grad_fn", "requires_grad_", "detach_", "zero_", "is_sparse", "device", "dtype")


class DeviceGradient(torch.Tensor):
    """Stands for a gradient that only the device had. Each use raises `ModelError`; `zero_grad` of
    a module or an optimiser passes."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raise `ModelError` unless `zero_grad` asks."""
        name = getattr(func, "__name__", str(func))
        if name == "__get__":  # of a property
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        if name in _ALLOWED or name == "_foreach_zero_":
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise ModelError(
            f"A gradient was used on the host, by {name}. A call of a trainingModel computes the "
            "gradients and updates the parameters on the device, and the gradients stay there.",
            next_step="leave out backward(), gradient clipping and optimizer.step() for this "
            "module; to use them in plain PyTorch, detachFromDevice() first.",
        )

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return "<a gradient on the device>"


def hide(module: torch.nn.Module) -> None:
    """Let each parameter that is trained have such a gradient."""
    for parameter in module.parameters():
        if parameter.requires_grad:
            zeros = torch.zeros(parameter.shape, dtype=parameter.dtype)
            parameter.grad = zeros.as_subclass(DeviceGradient)


def show(module: torch.nn.Module) -> None:
    """Let no parameter have such a gradient: it has none."""
    for parameter in module.parameters():
        if isinstance(parameter.grad, DeviceGradient):
            parameter.grad = None
