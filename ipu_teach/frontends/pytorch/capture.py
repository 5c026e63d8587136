"""A module of torch as a graph of the IR."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from ipu_teach.frontends.pytorch import failures
from ipu_teach.frontends.pytorch.arguments import Arguments
from ipu_teach.frontends.pytorch.lower import Captured, Lowerer
from ipu_teach.frontends.pytorch.mirror import check_module
from ipu_teach.frontends.pytorch.restore import Snapshot
from ipu_teach.frontends.pytorch.trace import JointGraph, Tracer

__all__ = ["Captured", "captured"]


def captured(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    marked: Collection[int] = (),
    training: bool = False,
    scale: float = 1.0,
) -> Captured:
    """Return a module, called with an example of its arguments, as a graph.

    `marked`: inputs, by their place, with class numbers that count for no loss. If `training`, with
    the gradients of the loss times `scale`. The module is left as it was.

    :raises ModelError: with the module's path and the learner's line, for what cannot be captured.
    """
    check_module(module)
    kwargs = dict(kwargs or {})
    names = list(Arguments(module, args, kwargs).tensors)
    joint = _traced(module, args, kwargs, names, training, scale)
    return Lowerer(joint, type(module).__name__, {names[i] for i in marked}).lower()


def _traced(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    names: list[str],
    training: bool,
    scale: float,
) -> JointGraph:
    snapshot = Snapshot(module)
    tracer = Tracer(module, args, kwargs, names)
    try:
        return tracer.trace(training, scale)
    except Exception as error:
        problem = failures.raised(module, error, tracer.path)
        if problem is error:
            raise
        raise problem from None
    finally:
        snapshot.restore()
