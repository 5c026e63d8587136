"""Labels that record the module, source line, stage and pass in which an operation ran."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

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
from ipu_teach.frontends.pytorch.private import (
    Argument,
    Function,
    Target,
    operation_name,
    pytree,
)
from ipu_teach.graph.source import NOWHERE, Line

if TYPE_CHECKING:
    from typing_extensions import Unpack

_TORCH = str(Path(torch.__file__).parent) + os.sep
_PYTHON = str(Path(contextlib.__file__).parent) + os.sep
_PACKAGES = re.compile(r"[\\/](site|dist)-packages[\\/]")
_NOT_THE_USERS = (
    _TORCH,
    str(Path(__file__).parents[2]) + os.sep,
    "<frozen ",
    "<eval_with_key>",
)


def is_torchs(path: str) -> bool:
    """Return whether a file belongs to torch itself, not to another package such as torchvision."""
    return path.startswith(_TORCH)


def is_own(path: str) -> bool:
    """Return whether a file is the user's: not a file of torch, this package or Python itself."""
    is_pythons = path.startswith(_PYTHON) and not _PACKAGES.search(path, len(_PYTHON) - 1)
    return not is_pythons and not path.startswith(_NOT_THE_USERS)


def innermost_line() -> Line:
    """Return the innermost line of the call stack that is in the user's code, as (file, number).

    The user's code is all code outside of torch, this package and Python itself. If there is no
    such line, return `NOWHERE`.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return NOWHERE


@dataclass(frozen=True)
class Label:
    """The place in the user's program where an operation comes from.

    - `path`: the path of the module, such as "encoder.layer1".
    - `line`: the file and line number of the user's code.
    - `stage`: the number of the IPU in a pipeline.
    - `part`: FORWARD or BACKWARD, the pass in which the operation ran.
    """

    path: str = ""
    line: Line = NOWHERE
    stage: int = 0
    part: str = FORWARD


class Changes(TypedDict, total=False):
    """New values for some attributes of a `Label`."""

    path: str
    line: Line
    stage: int
    part: str


class Labels(TorchFunctionMode):  # type: ignore[misc]
    """A torch function mode that labels the operations of a module with their origin.

    While the mode is on, each torch function that the module calls sets `label`, the label of the
    operations that are recorded next. The mode also stores a label for each node of autograd's
    graph, and uses it again in the backward pass. `spellings` maps torch functions to replacements,
    which are called instead. If a replacement returns NotImplemented, torch's function is called.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        marks: Marks,
        spellings: Mapping[Target, Function],
    ) -> None:
        super().__init__()
        self.marks = marks
        self.spellings = spellings
        self.label = Label()
        self._names = {id(part): name for name, part in module.named_modules()}
        self._paths = [""]
        self._of_autograd: dict[torch.autograd.graph.Node, Label] = {}
        self.is_recomputed = False

    def set(self, **changes: Unpack[Changes]) -> None:
        """Change some attributes of `label`, the label of the operations that are recorded next."""
        self.label = replace(self.label, **changes)

    def __torch_function__(
        self,
        func: Target,
        types: Sequence[type],
        args: Sequence[Argument] = (),
        kwargs: Mapping[str, Argument] | None = None,
    ) -> Argument:
        """Call a torch function, or the function that replaces it, with a new label."""
        line = innermost_line()
        if self.label.part == FORWARD:
            self.set(path=self._paths[-1], line=line, stage=self.marks.stage)
        kwargs = kwargs or {}
        if whole.is_users_operation(operation_name(func)):
            self._note_checkpoint()
            result = whole.call_users_operation(func, args, kwargs)
        elif spelling := self.spellings.get(func):
            self._note_checkpoint()
            # Turn the mode on again for the calls in `spelling`, which need labels, too.
            with self:
                result = spelling(*args, **kwargs)
            if result is NotImplemented:
                result = func(*args, **kwargs)
        else:
            result = func(*args, **kwargs)
        self.note(result)
        return result

    def _note_checkpoint(self) -> None:
        """Set `is_recomputed` to True if the current call of a torch function is in a checkpoint.

        The backward pass calls the functions in a `torch.utils.checkpoint` again.
        """
        frame = sys._getframe(2)
        while frame is not None and not self.is_recomputed:
            self.is_recomputed = frame.f_code.co_filename == torch.utils.checkpoint.__file__
            frame = frame.f_back  # type: ignore[assignment]

    def note(self, results: Argument) -> None:
        """Store the current label for each autograd node that computed `results`.

        Nodes that already have a label keep it. Nothing is stored while gradients are disabled:
        calls then create no nodes, and torch refuses to compute the node of a view whose base was
        changed.
        """
        if not torch.is_grad_enabled():
            return
        result_tensors = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
        nodes_to_visit = [t.grad_fn for t in result_tensors]
        while nodes_to_visit:
            node = nodes_to_visit.pop()
            if node is not None and node not in self._of_autograd:
                self._of_autograd[node] = self.label
                nodes_to_visit += [following for following, _ in node.next_functions]

    @contextmanager
    def in_modules(self) -> Iterator[None]:
        """Keep track of the submodule that is running, in a `with` block."""

        def enter(part: torch.nn.Module, args: tuple[Argument, ...]) -> None:
            self._paths.append(self._names.get(id(part), self._paths[-1]))

        def leave(part: torch.nn.Module, args: tuple[Argument, ...], result: Argument) -> None:
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
        """Label backward operations of `loss` like their forward operations, in a `with` block."""
        self.note(loss)
        hooks = []
        visited = set()
        nodes_to_visit = [loss.grad_fn]
        while nodes_to_visit:
            node = nodes_to_visit.pop()
            if node is None or node in visited:
                continue
            visited.add(node)
            label = self._of_autograd.get(node, Label())
            changes = Changes(path=label.path, line=label.line, stage=label.stage)
            hooks.append(node.register_prehook(lambda _, changes=changes: self.set(**changes)))
            nodes_to_visit += [following for following, _ in node.next_functions]
        self.set(part=BACKWARD, path="", line=NOWHERE)
        try:
            yield
        finally:
            self.set(part=FORWARD)
            for hook in hooks:
                hook.remove()

    def forget(self) -> None:
        """Discard the stored autograd nodes, so that the tensors they refer to can be freed."""
        self._of_autograd.clear()
