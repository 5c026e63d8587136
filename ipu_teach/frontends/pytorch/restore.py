"""Restore a module to its state before the capture.

A module's forward may store tensors, count its calls, or append to lists. During the capture, the
stored tensors have no elements, so these changes have to be undone. A `ModuleSnapshot` records all
objects that the module's code can reach, reports changes and undoes them. These objects are:

- the attributes of all submodules and of their classes;
- the containers and objects in these attributes;
- the global and enclosing variables of methods and hooks.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ipu_teach._support.snapshot import Named, Snapshot
from ipu_teach.frontends.pytorch.private import accumulation_hooks, gradient_hooks

_LARGEST = 1 << 24  # The maximum number of bytes of an array that is copied.


class ModuleSnapshot(Snapshot):
    """The state of the Python objects that a module's code can reach."""

    # The users of a module do not see these attributes, so they do not appear in errors.
    hidden_attributes = ("_modules", "_parameters", "_buffers")

    def __init__(self, module: torch.nn.Module) -> None:
        tensors = [*module.parameters(), *module.buffers()]
        hooks = [h for t in tensors for h in (*gradient_hooks(t), *accumulation_hooks(t))]
        super().__init__([*(("", hook) for hook in hooks), ("", module)], _LARGEST)

    def visit(self, name: str, value: object) -> Iterable[Named]:
        if isinstance(value, torch.Tensor):
            return ()
        if isinstance(value, torch.nn.Module):  # Modules of torch itself have state, too.
            return self.visit_object(name, value)
        return super().visit(name, value)
