"""Check that a module can be captured, and put a module in eval mode for a while."""

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


def plain(module: torch.nn.Module | torch.export.ExportedProgram) -> torch.nn.Module:
    """Return `module` unchanged, or the module that an exported program contains."""
    return module.module() if isinstance(module, torch.export.ExportedProgram) else module


def check_kind(function: str, module: object) -> None:
    """Raise `ModelError` unless `module` is a module of Python code that can be captured.

    `function` is the name of the caller, for the error's message.
    """
    if isinstance(module, type) and issubclass(module, torch.nn.Module):
        name = module.__name__
        _refuse(function, f"the class {name}", f"pass an instance of the class: {name}(...).")
    if not isinstance(module, torch.nn.Module):
        advice = "pass an instance of a subclass of torch.nn.Module."
        if callable(module):
            advice = "define a subclass of torch.nn.Module whose forward calls this function."
        _refuse(function, f"{shown(module)}, which is not a torch.nn.Module", advice)
    if isinstance(module, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        advice = "pass module.module, and set options.replicationFactor(n) to train n replicas."
        _refuse(function, f"a {type(module).__name__}", advice)
    for name, tensor in tensors_of(module).items():
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            advice = "run the module once in plain PyTorch: module(x)."
            _refuse(function, f"a lazy module, whose tensor {name!r} has no shape yet", advice)
    for name, part in module.named_modules():
        submodule = f"a module whose submodule {name!r} is " if name else ""
        if isinstance(part, torch.jit.ScriptModule):
            _refuse(
                function,
                f"{submodule}a ScriptModule",
                "pass the Python module that torch.jit.script or torch.jit.trace was given.",
            )
        if private.is_compiled(part):
            advice = f"pass the module without torch.compile: {function} compiles it itself."
            _refuse(function, f"{submodule}a module compiled by torch.compile", advice)


def _refuse(function: str, description: str, advice: str) -> NoReturn:
    """Raise a `ModelError` that says that `function` was given an object that it does not accept.

    `description` describes the object, and `advice` is the next step of the error.
    """
    raise ModelError(f"{function}() was given {description}.", next_step=advice)


@contextmanager
def in_eval(module: torch.nn.Module) -> Iterator[None]:
    """Put a module and its submodules in eval mode for a `with` block, then restore their modes.

    :raises ModelError: if the module is in training mode, and its own `eval` or `train` changes
        more than the modes.
    """
    modes = {part: part.training for part in module.modules()}
    if any(modes.values()) and not _has_plain_eval(module):
        raise ModelError(
            f"{type(module).__name__} is in training mode, but its eval() or train() changes more "
            "than the modes of its submodules.",
            next_step="call module.eval() before you call the inferenceModel, and module.train() "
            "after it.",
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
    except Exception:  # The user's __deepcopy__ or eval() may fail.
        return False


def _without_modes(module: torch.nn.Module) -> Hashable:
    """Return a fingerprint of a module that does not depend on the modes of its submodules."""
    attributes_by_module = {
        name: {n: v for n, v in private.attributes_of_module(part).items() if n != "training"}
        for name, part in module.named_modules()
    }
    return fingerprint([attributes_by_module, tensors_of(module)])
