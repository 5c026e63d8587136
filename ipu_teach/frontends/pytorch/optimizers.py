"""The optimisers of PyTorch that the device has, and their state on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.from_torch import array, tensor_of
from ipu_teach.frontends.session import Group

def _scaled(base: Any) -> Any:
    class Scaled(base):  # type: ignore[misc]
        """torch's, with `loss_scaling`: gradients of halves are worked out that many times
        larger."""

        def __init__(self, *given: Any, loss_scaling: float = 1.0, **how: Any) -> None:
            super().__init__(*given, **how)
            self.loss_scaling = loss_scaling

    Scaled.__name__ = Scaled.__qualname__ = base.__name__
    return Scaled


SGD, Adam, AdamW = map(_scaled, (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW))
KEPT = {  # by the IR's names, torch's
    "velocity": "momentum_buffer",
    "first": "exp_avg",
    "second": "exp_avg_sq",
    "step": "step",
}


def recipe(optimizer: Any, module: Any) -> tuple[str, list[Group]]:
    """An optimiser of torch's as the IR's kind, and its groups. Raises `ModelError` for what the
    kit's have not."""
    if not isinstance(optimizer, (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)):
        raise ModelError(f"""trainingModel() was given the optimiser {shown(type(optimizer))}.
            next:  give poptorch.optim.SGD, Adam or AdamW, or torch's own of these names.""")
    optimizer._opt_called = True  # its steps are the device's: torch's schedulers ask
    kind = "adamw" if isinstance(optimizer, torch.optim.AdamW) else "adam"
    kind = "sgd" if isinstance(optimizer, torch.optim.SGD) else kind
    names = {id(p): n for n, p in module.named_parameters()}
    groups: list[Group] = []
    for group in optimizer.param_groups:
        if asked := [k for k in ("nesterov", "amsgrad", "maximize", "dampening") if group.get(k)]:
            raise ModelError(f"""{type(optimizer).__name__} was given {asked[0]}, which the kit's
                has not.
                next:  leave {asked[0]} out.""")
        numbers = {"weight_decay": group["weight_decay"]}
        if kind == "sgd":
            numbers |= {"momentum": group["momentum"]}
        else:
            numbers |= {"beta1": group["betas"][0], "beta2": group["betas"][1], "eps": group["eps"]}
        mine = [names[id(p)] for p in group["params"] if id(p) in names]
        groups.append(Group(float(group["lr"]), numbers, mine))
    return kind, groups


def kept_by(optimizer: Any, module: Any) -> dict[str, Any]:
    """What an optimiser has of earlier steps, by the IR's names of variables."""
    found = {}
    for name, parameter in module.named_parameters():
        state = optimizer.state.get(parameter, {})
        for ours, theirs in KEPT.items():
            if state.get(theirs) is not None:
                found[f"{name}.{ours}"] = np.asarray(
                    array(torch.as_tensor(state[theirs])), np.float32
                )
    return found


def keep_by(optimizer: Any, module: Any, state: dict[str, Any]) -> None:
    """Write what the device's optimiser has into torch's, as its own steps would."""
    for name, parameter in module.named_parameters():
        for ours, theirs in KEPT.items():
            if f"{name}.{ours}" in state:
                numbers = tensor_of(state[f"{name}.{ours}"], torch.float32)
                optimizer.state[parameter][theirs] = numbers
