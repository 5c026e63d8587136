"""Where each node of a recorded graph comes from: module, line, stage and part."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.utils.checkpoint
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode

from ipu_teach.frontends.ir.values import BACKWARD, FORWARD
from ipu_teach.frontends.pytorch import whole
from ipu_teach.frontends.pytorch.markers import Marks
from ipu_teach.frontends.pytorch.private import operation_name, pytree
from ipu_teach.graph.source import NOWHERE, Line

_TORCH = str(Path(torch.__file__).parent) + os.sep
_PYTHON = str(Path(contextlib.__file__).parent) + os.sep
_PACKAGES = re.compile(r"[\\/](site|dist)-packages[\\/]")
_NOT_THE_LEARNERS = (
    _TORCH,
    str(Path(__file__).parents[2]) + os.sep,
    "<frozen ",
    "<eval_with_key>",
)


def is_torchs(path: str) -> bool:
    """Whether a file is torch's; those of torchvision and the like are not."""
    return path.startswith(_TORCH)


def is_own(path: str) -> bool:
    """Whether a file is neither torch's, nor the kit's, nor Python's own."""
    is_pythons = path.startswith(_PYTHON) and not _PACKAGES.search(path, len(_PYTHON) - 1)
    return not is_pythons and not path.startswith(_NOT_THE_LEARNERS)


def innermost_line() -> Line:
    """Return the innermost line outside torch and the kit that is being run."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return NOWHERE


@dataclass(frozen=True)
class Label:
    """Where a node comes from."""

    path: str = ""
    line: Line = NOWHERE
    stage: int = 0
    part: str = FORWARD


class Labels(TorchFunctionMode):  # type: ignore[misc]
    """Follow where the operations of a module come from, while this mode is on.

    Each function of torch that the module calls changes `label`, which the nodes that follow get.
    The nodes of autograd are recorded with their label, which the nodes of the backward pass
    get. `spellings`: functions to call in the place of torch's. `operations`: the same for
    operations by name, called with the operation in front of its arguments.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        marks: Marks,
        spellings: Mapping[Any, Callable[..., Any]],
    ) -> None:
        super().__init__()
        self.marks, self.spellings = marks, spellings
        self.label = Label()
        self._names = {id(part): name for name, part in module.named_modules()}
        self._paths = [""]
        self._of_autograd: dict[Any, Label] = {}
        self.is_recomputed = False

    def set(self, **changes: Any) -> None:
        """Change the label for the nodes that follow."""
        self.label = replace(self.label, **changes)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call a function of torch, or what stands for it, under its own label."""
        line = innermost_line()
        if self.label.part == FORWARD:
            self.set(path=self._paths[-1], line=line, stage=self.marks.stage)
        kwargs = kwargs or {}
        if whole.is_learners(operation_name(func)):
            self._note_checkpoint()
            result = whole.learners(func, args, kwargs)
        elif spelling := self.spellings.get(func):
            self._note_checkpoint()
            with self:  # labels the functions that the spelling calls
                result = spelling(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        self.note(result)
        return result

    def _note_checkpoint(self) -> None:
        """Remember that a checkpoint will call a function again for which another one stands."""
        frame = sys._getframe(2)
        while frame is not None and not self.is_recomputed:
            self.is_recomputed = frame.f_code.co_filename == torch.utils.checkpoint.__file__
            frame = frame.f_back  # type: ignore[assignment]

    def note(self, results: Any) -> None:
        """Label the nodes of autograd that made the results, unless they have a label."""
        tensors = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
        waiting = [t.grad_fn for t in tensors]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in self._of_autograd:
                self._of_autograd[node] = self.label
                waiting += [following for following, _ in node.next_functions]

    @contextmanager
    def in_modules(self) -> Iterator[None]:
        """Follow which module runs."""

        def enter(part: torch.nn.Module, args: Any) -> None:
            self._paths.append(self._names.get(id(part), self._paths[-1]))

        def leave(part: torch.nn.Module, args: Any, result: Any) -> None:
            self.note(result)
            self._paths.pop()

        hooks = [
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    def in_backward(self, loss: torch.Tensor) -> Iterator[None]:
        """Label what the gradients of `loss` add, by the forward operations they belong to."""
        self.note(loss)
        hooks = []
        seen, waiting = set(), [loss.grad_fn]
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            label = self._of_autograd.get(node, Label())
            changes = {"path": label.path, "line": label.line, "stage": label.stage}
            hooks.append(node.register_prehook(lambda _, changes=changes: self.set(**changes)))
            waiting += [following for following, _ in node.next_functions]
        self.set(part=BACKWARD, path="", line=NOWHERE)
        try:
            yield
        finally:
            self.set(part=FORWARD)
            for hook in hooks:
                hook.remove()

    def forget(self) -> None:
        """Release the tensors that the nodes of autograd hold."""
        self._of_autograd.clear()
