"""Functions that a module may call in forward to set stages, prints, saved tensors and losses.

They have an effect while the module is captured. When the module runs in plain torch, only the
prints have an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import torch

from ipu_teach.frontends.pytorch import private

if TYPE_CHECKING:
    from ipu_teach.frontends.ir.attributes import Attribute

Lowering = TypeVar("Lowering", bound=private.Function)
# Maps torch's name of an operation to the function that the user decorated with `lowering`.
LOWERINGS: dict[str, private.Function] = {}
LIBRARY = torch.library.Library("ipu_teach", "DEF")


@dataclass
class Marks:
    """The settings that the module being captured has made so far.

    - `stage`: the stage (IPU) of the operations that follow.
    - `kept`: the tensors that `recomputationCheckpoint` was given.
    - `losses`: the results of `identity_loss`. A loss is removed when a later loss is computed from
      it.
    """

    stage: int = 0
    kept: list[torch.Tensor] = field(default_factory=list)
    losses: list[torch.Tensor] = field(default_factory=list)


current: Marks | None = None  # This is None while no module is captured.
# Maps the name of each block to its stage, while a module with named stages is captured.
stages: Mapping[object, int] = {}


@contextmanager
def named_stages(stages_of_blocks: Mapping[object, int]) -> Iterator[None]:
    """Set the stages of named blocks for a `with` block."""
    global stages
    outer = stages
    stages = dict(stages_of_blocks)
    try:
        yield
    finally:
        stages = outer


@contextmanager
def capturing() -> Iterator[Marks]:
    """Begin a capture. In the `with` block, `current` collects the settings that a module makes."""
    global current
    outer = current
    current = Marks()
    try:
        yield current
    finally:
        current = outer


def is_capturing() -> bool:
    """Return True while a module is captured, and False while modules run in plain torch."""
    return current is not None


def lowering(name: str) -> Callable[[Lowering], Lowering]:
    """Return a decorator that defines how to compute an operation of torch on the device.

    `name` is torch's name of the operation, such as "aten::cumprod", or the name of an operation
    that was defined with `torch.library`:

        @poptorch.lowering("mine::leaky")
        def leaky(graph, x, slope):                 # the operation's arguments, in torch's order
            return graph.op("max", x, graph.op("mul", x, slope))

    `graph` is an `ipu_teach.frontends.ir.Ir`. Tensors are passed as its values, and numbers as
    Python numbers. The function returns a value that operations of the graph compute. The gradient
    of the operation is computed from the gradients of these operations.
    """

    def add(function: Lowering) -> Lowering:
        LOWERINGS[name] = function
        return function

    return add


def _print(x: torch.Tensor, title: str) -> torch.Tensor:
    """Print a tensor on the host, and return a copy of it."""
    print(f"{title}: {x}")
    return x.clone()


LIBRARY.define("print(Tensor x, str title) -> Tensor")
LIBRARY.impl("print", _print, "CompositeExplicitAutograd")
torch.library.register_fake("ipu_teach::print", lambda x, title: torch.empty_like(x), lib=LIBRARY)
torch.library.register_autograd("ipu_teach::print", lambda ctx, g: (g, None), lib=LIBRARY)


def mark_stage(number: int) -> None:
    """Place the operations that follow on the IPU with this `number` in each replica."""
    if current is not None:
        current.stage = number


def print_tensor(x: torch.Tensor, title: str) -> torch.Tensor:
    """Return `x`, and print `title` and the elements of `x` whenever the operation runs."""
    result: torch.Tensor = torch.ops.ipu_teach.print(x, title)
    return result


def keep_tensor(x: torch.Tensor) -> torch.Tensor:
    """Return `x`, and keep its value in memory for the backward pass instead of recomputing it."""
    if current is not None:
        current.kept.append(x.detach())
    return x


def custom_operation(
    inputs: Sequence[torch.Tensor],
    name: str,
    attributes: Mapping[str, Attribute],
    examples: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """Return the results of the operation `name` in the table of operations of `frontends.ir`.

    In plain torch, return copies of `examples`, because torch does not have the operation.
    """
    if current is None:
        return [t.clone() for t in examples]
    from ipu_teach.frontends.pytorch.whole import trace_whole

    results: list[torch.Tensor] = trace_whole(name, inputs, dict(attributes), examples)
    return results
