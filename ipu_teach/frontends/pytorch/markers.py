"""Marks that a module sets while it is captured: stages, prints, saved tensors, custom operations.

Outside a capture, the module runs in plain torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])
LOWERINGS: dict[str, Callable[..., Any]] = {}  # the learner's lowerings, by torch's names
LIBRARY = torch.library.Library("ipu_teach", "DEF")


@dataclass
class Marks:
    """The marks that the captured module has set so far.

    `stage` is that of the next operations, `kept` has the tensors of `recomputationCheckpoint`, and
    `losses` those that `identity_loss` marked.
    """

    stage: int = 0
    kept: list[torch.Tensor] = field(default_factory=list)
    losses: list[torch.Tensor] = field(default_factory=list)


current: Marks | None = None  # while a module is captured


@contextmanager
def capturing() -> Iterator[Marks]:
    """Begin a capture: in this block, `current` collects the marks of a module."""
    global current
    outer = current
    current = Marks()
    try:
        yield current
    finally:
        current = outer


def is_capturing() -> bool:
    """Return whether a module is being captured, and does not run in plain torch."""
    return current is not None


def lowering(name: str) -> Callable[[Function], Function]:
    """Return a decorator that defines the lowering of an operation of torch, by its name.

    The name is one of torch, such as "aten::cumprod", or one of `torch.library`:

        @poptorch.lowering("mine::leaky")
        def leaky(graph, x, slope):                 # values and numbers, in torch's order
            return graph.op("max", x, graph.op("mul", x, slope))

    The function returns values made by operations of `ipu_teach.frontends.ir`, which have
    gradients.
    """

    def add(function: Function) -> Function:
        LOWERINGS[name] = function
        return function

    return add


def _print(x: torch.Tensor, title: str) -> torch.Tensor:
    print(f"{title}: {x}")
    return x.clone()


LIBRARY.define("print(Tensor x, str title) -> Tensor")
LIBRARY.impl("print", _print, "CompositeExplicitAutograd")
torch.library.register_fake("ipu_teach::print", lambda x, title: torch.empty_like(x), lib=LIBRARY)
torch.library.register_autograd("ipu_teach::print", lambda ctx, g: (g, None), lib=LIBRARY)


def mark_stage(number: int) -> None:
    """Put the operations that follow on the IPU with this number."""
    if current is not None:
        current.stage = number


def print_tensor(x: torch.Tensor, title: str) -> torch.Tensor:
    """Return x, which is printed on each run."""
    result: torch.Tensor = torch.ops.ipu_teach.print(x, title)
    return result


def keep_tensor(x: torch.Tensor) -> torch.Tensor:
    """Return x, which is saved for the backward pass and not recomputed."""
    if current is not None:
        current.kept.append(x.detach())
    return x


def custom_operation(
    inputs: Sequence[torch.Tensor],
    name: str,
    attributes: Mapping[str, Any],
    examples: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """Return the results of the operation `name` of the IR.

    In plain torch, they are copies of the examples.
    """
    if current is None:
        return [t.clone() for t in examples]
    from ipu_teach.frontends.pytorch.whole import trace_whole

    results: list[torch.Tensor] = trace_whole(name, inputs, dict(attributes), examples)
    return results
