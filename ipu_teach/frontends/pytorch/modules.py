"""Check that a module can be captured, and switch it to eval mode and back."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import torch

from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends.pytorch import private
from ipu_teach.frontends.pytorch.fingerprints import fingerprint
from ipu_teach.frontends.pytorch.mirror import tensors_of


def check_kind(function: str, module: object) -> None:
    """Raise `ModelError` unless `module` is a module of Python code that can be captured.

    `function` is the name of the caller, for the message.
    """
    if isinstance(module, torch.export.ExportedProgram):
        _refuse(function, "an ExportedProgram", "give its module: program.module().")
    if isinstance(module, type) and issubclass(module, torch.nn.Module):
        name = module.__name__
        _refuse(function, f"the class {name}", f"give an object of it: {name}(...).")
    if not isinstance(module, torch.nn.Module):
        advice = "give a torch.nn.Module: a class with __init__ and forward."
        if callable(module):
            advice = "make it a torch.nn.Module: call the function in the forward of a class."
        _refuse(function, shown(module), advice)
    if isinstance(module, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        advice = "give its module, module.module, and options.replicationFactor(n) for replicas."
        _refuse(function, f"a {type(module).__name__}", advice)
    for name, tensor in tensors_of(module).items():
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            advice = "run the module once in plain PyTorch: module(x)."
            _refuse(function, f"a lazy module, whose {name!r} has no shape yet", advice)
    for name, part in module.named_modules():
        submodule = f"a module with {name!r}, " if name else ""
        if isinstance(part, torch.jit.ScriptModule):
            _refuse(
                function,
                f"{submodule}a ScriptModule",
                "give the Python module of which it was made.",
            )
        if private.is_compiled(part):
            advice = "give the module without torch.compile; the kit compiles it for the device."
            _refuse(function, f"{submodule}a module of torch.compile", advice)


def _refuse(function: str, description: str, advice: str) -> NoReturn:
    """Raise `ModelError` about the module that a function has got."""
    raise ModelError(f"{function}() was given {description}.", next_step=advice)


@contextmanager
def in_eval(module: torch.nn.Module) -> Iterator[None]:
    """In a `with` block, put a module and its submodules in eval mode; then restore their modes.

    Raises `ModelError` for a module whose own `eval` or `train` changes more than the modes.
    """
    modes = {part: part.training for part in module.modules()}
    if any(modes.values()) and not _has_plain_eval(module):
        raise ModelError(
            f"{type(module).__name__} is in training mode, but its eval() or train() changes more "
            "than the modes of its submodules.",
            next_step="call module.eval() before, and module.train() after the inferenceModel's "
            "calls.",
        )
    try:
        for part in modes:
            part.training = False
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode


def _has_plain_eval(module: torch.nn.Module) -> bool:
    """Return whether `module.eval()` only sets `training` of all submodules to False."""
    torch_methods = torch.nn.Module.train, torch.nn.Module.eval
    if all((type(part).train, type(part).eval) == torch_methods for part in module.modules()):
        return True
    try:
        module_copy = copy.deepcopy(module)
        before = _without_modes(module_copy)
        module_copy.eval()
        return before == _without_modes(module_copy) and not any(
            p.training for p in module_copy.modules()
        )
    except Exception:  # the learner's copy or eval may fail
        return False


def _without_modes(module: torch.nn.Module) -> Hashable:
    """Return a fingerprint of everything in a module except the modes of its submodules."""
    attributes_by_module = {
        name: {n: v for n, v in private.attributes_of_module(part).items() if n != "training"}
        for name, part in module.named_modules()
    }
    return fingerprint([attributes_by_module, tensors_of(module)])
