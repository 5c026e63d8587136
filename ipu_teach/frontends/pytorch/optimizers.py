"""The PyTorch optimisers that the simulated device implements."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from math import inf, isfinite

import torch

from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.pytorch import private
from ipu_teach.frontends.pytorch.private import Argument
from ipu_teach.frontends.session import Group


def _with_loss_scaling(base: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """Return a subclass of a PyTorch optimiser that has the argument `loss_scaling`."""

    class Scaled(base):  # type: ignore[misc]
        """A PyTorch optimiser with the argument `loss_scaling`.

        The loss is multiplied by this factor before the backward pass. A large factor keeps
        gradients in HALF from being rounded to 0.
        """

        def __init__(self, *args: Argument, loss_scaling: float = 1.0, **kwargs: Argument) -> None:
            super().__init__(*args, **kwargs)
            is_number = isinstance(loss_scaling, (int, float)) and type(loss_scaling) is not bool
            if not is_number or not (isfinite(loss_scaling) and loss_scaling > 0):
                raise ModelError(f"""{base.__name__} was given loss_scaling={shown(loss_scaling)},
                    but the scale must be a positive number.
                    next:  pass a positive number, such as loss_scaling=1024.0.""")
            self.loss_scaling = float(loss_scaling)

    Scaled.__name__ = Scaled.__qualname__ = base.__name__
    return Scaled


SGD, Adam, AdamW = map(_with_loss_scaling, (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW))

# Settings that change the result and that the device does not implement.
_REFUSED = ("nesterov", "amsgrad", "maximize", "dampening", "differentiable")
# Settings that the device implements, or that do not change the result.
_KNOWN = (
    *("lr", "momentum", "weight_decay", "betas", "eps", "decoupled_weight_decay"),
    *("foreach", "fused", "capturable"),
)


def groups_of(optimizer: torch.optim.Optimizer, module: torch.nn.Module) -> list[Group]:
    """Return the parameter groups of an optimiser, with the names of the module's parameters.

    :raises ModelError: if the device does not implement the optimiser or a setting, or if no
        parameter of the optimiser belongs to the module.
    """
    _check(optimizer)
    names = {
        id(parameter): parameter_name for parameter_name, parameter in module.named_parameters()
    }
    groups = [_group(optimizer, group, names) for group in optimizer.param_groups]
    if not any(group.names for group in groups):
        raise ModelError(f"""The optimiser {type(optimizer).__name__} contains no parameter of the
            module {type(module).__name__}.
            next:  create the optimiser with this module's parameters:
            poptorch.optim.{type(optimizer).__name__}(module.parameters(), lr=0.01).""")
    private.note_step(optimizer)
    return groups


def adopt(optimizer: torch.optim.Optimizer, old: torch.optim.Optimizer) -> None:
    """Copy the state of `old` to `optimizer`, for parameters that have no state in `optimizer`."""
    if optimizer is old:
        return
    for parameter in (
        group_parameter for group in optimizer.param_groups for group_parameter in group["params"]
    ):
        if old.state.get(parameter) and not optimizer.state.get(parameter):
            optimizer.state[parameter] = copy.deepcopy(old.state[parameter])


def _check(optimizer: torch.optim.Optimizer) -> None:
    """Raise `ModelError` for an optimiser that the device does not implement.

    This includes subclasses with their own `step` and optimisers with hooks.
    """
    known_kinds = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
    base_kind = next(
        (known_kind for known_kind in reversed(known_kinds) if isinstance(optimizer, known_kind)),
        None,
    )
    if base_kind is None:
        name = optimizer if isinstance(optimizer, type) else type(optimizer)
        raise ModelError(f"""The device does not implement the optimiser {shown(name)}.
            next:  use SGD, Adam or AdamW of poptorch.optim or torch.optim.""")
    if inspect.unwrap(type(optimizer).step) is not inspect.unwrap(base_kind.step):
        raise ModelError(f"""{type(optimizer).__name__} defines its own step(), but the device would
            compute the step() of {base_kind.__name__}.
            next:  use SGD, Adam or AdamW of poptorch.optim or torch.optim.""")
    if private.has_step_hooks(optimizer):
        raise ModelError(f"""A hook is registered for step() of {type(optimizer).__name__}, but the
            device computes the step and cannot call the hook.
            next:  call remove() of the hook, and do its work after each call of the
            trainingModel.""")


def _group(
    optimizer: torch.optim.Optimizer, group: Mapping[str, Argument], names: Mapping[int, str]
) -> Group:
    """Return a parameter group of an optimiser as a `Group`.

    `names` maps the `id` of each parameter of the module to the parameter's name.

    :raises ModelError: for a setting that the device does not implement.
    """
    kind = type(optimizer).__name__
    refused = [setting for setting in _REFUSED if group.get(setting)]
    refused += [
        setting
        for setting in optimizer.defaults
        if setting not in (*_KNOWN, *_REFUSED) and group.get(setting)
    ]
    if "dampening" in refused and not group.get("momentum"):
        refused.remove("dampening")  # Dampening has no effect without momentum.
    if refused:
        raise ModelError(f"""{kind} was given {refused[0]}={shown(group.get(refused[0]))}, which the
            device does not implement.
            next:  leave out {refused[0]}.""")
    rate = _number(kind, "lr", group["lr"])
    numbers = {"weight_decay": _number(kind, "weight_decay", group["weight_decay"])}
    if isinstance(optimizer, torch.optim.SGD):
        name = "sgd"
        numbers["momentum"] = _number(kind, "momentum", group["momentum"])
    else:
        decoupled = group.get("decoupled_weight_decay", isinstance(optimizer, torch.optim.AdamW))
        name = "adamw" if decoupled else "adam"
        beta1, beta2 = group["betas"]
        numbers |= {
            "beta1": _number(kind, "betas", beta1),
            "beta2": _number(kind, "betas", beta2),
            "eps": _number(kind, "eps", group["eps"]),
            "scaled_square": True,
        }
    selected = [names[id(parameter)] for parameter in group["params"] if id(parameter) in names]
    return Group(rate, numbers, selected, name)


def _number(optimizer: str, name: str, value: float | torch.Tensor) -> float:
    """Return a setting of an optimiser as a float.

    :raises ModelError: if the setting is not a number in its range.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        raise ModelError(f"""{optimizer} was given {name}={shown(value)}, which is not a number.
            next:  pass a number for {name}.""") from None
    upper_bound = 1.0 if name in ("momentum", "betas") else inf
    if not 0 <= number < upper_bound:
        bounds = "from 0 to below 1" if upper_bound == 1 else "of 0 or more"
        raise ModelError(f"""{optimizer} was given {name}={shown(value)}, which is out of range.
            next:  pass a number {bounds} for {name}.""")
    return number
