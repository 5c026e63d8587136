"""Capture a PyTorch module: run it once, and record its operations as a graph of `frontends.ir`."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch

from ipu_teach.errors import ModelError
from ipu_teach.frontends.pytorch import failures
from ipu_teach.frontends.pytorch.arguments import Arguments
from ipu_teach.frontends.pytorch.lower import Captured, Lowerer
from ipu_teach.frontends.pytorch.mirror import check_module
from ipu_teach.frontends.pytorch.private import Argument, parameter_lists
from ipu_teach.frontends.pytorch.repeat import Description
from ipu_teach.frontends.pytorch.restore import ModuleSnapshot
from ipu_teach.frontends.pytorch.trace import JointGraph, Tracer
from ipu_teach.graph.source import in_words

__all__ = ["Captured", "capture_module"]


def capture_module(
    module: torch.nn.Module,
    args: tuple[Argument, ...],
    kwargs: Mapping[str, Argument] | None = None,
    marked: Collection[int] = (),
    training: bool = False,
    scale: float = 1.0,
) -> Captured:
    """Return the graph of a module, captured while the module is called with example arguments.

    Some inputs may contain the label that a loss ignores. `marked` contains their positions among
    the tensors in the arguments. If `training`, the graph includes the gradients of the loss,
    multiplied by `scale`. The capture restores the module to its state before the call.

    :raises ModelError: if the module cannot be captured. The error names the submodule and the line
        of the user's code.
    """
    check_module(module)
    kwargs = dict(kwargs or {})
    names = list(Arguments(module, args, kwargs).tensors)
    tracer = Tracer(module, args, kwargs, names)
    joint_graph = _traced(module, tracer, training, scale)
    captured = Lowerer(joint_graph, type(module).__name__, {names[i] for i in marked}).lower()
    # Release recorded tensors, which `_check_leaks` would otherwise report.
    tracer.labels = joint_graph = None  # type: ignore[assignment]
    _check_leaks(module, tracer)
    return captured


@contextmanager
def _without_log() -> Iterator[None]:
    """Silence torch's log in a `with` block.

    Without this, torch would log a failure of forward before `capture_module` raises its own error.
    """
    previous_level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(previous_level)


@_without_log()
def _traced(module: torch.nn.Module, tracer: Tracer, training: bool, scale: float) -> JointGraph:
    """Return the torch graph of a module, and undo the changes that its forward made to attributes.

    :raises ModelError: if the next call of forward would compute something else.
    """
    snapshot = ModuleSnapshot(module)
    random_states = _random_states()
    try:
        joint_graph = tracer.trace(training, scale)
        by_torch = parameter_lists(module)
        changed_names = [name for name in snapshot.changed() if name not in by_torch]
        is_drawn = _random_states() != random_states
        if changed_names or is_drawn:
            snapshot.restore()
            _check_repeats(module, tracer, changed_names)
    except Exception as error:
        error_to_raise = failures.error_to_raise(module, error, tracer.path)
        if error_to_raise is error:
            raise
        raise error_to_raise from None
    finally:
        snapshot.restore()
    return joint_graph


def _random_states() -> tuple[Hashable, ...]:
    """Return the states of Python's and numpy's random generators, to compare with ==."""
    kind, keys, *rest = np.random.get_state()
    return random.getstate(), kind, np.asarray(keys).tobytes(), *rest


def _check_repeats(module: torch.nn.Module, tracer: Tracer, changed_names: list[str]) -> None:
    """Raise `ModelError` if a second forward computes something else than the first forward.

    `changed_names` are the names of the attributes that forward has changed.
    """
    first_run = Description(tracer.forward())
    second_run = Description(tracer.forward(), first_run.constants)
    if first_run.effects == second_run.effects:
        return
    name = type(module).__name__
    if not changed_names:
        raise ModelError(
            f"{name}.forward uses random numbers of Python or numpy. They would be the same in "
            "every run, because forward is captured only once.",
            where=name,
            next_step="use torch's random numbers, which the device computes in every run: "
            "torch.rand(()), torch.randn(...) or nn.Dropout.",
        )
    listed = ", ".join(map(repr, changed_names[:4])) + (", ..." if changed_names[4:] else "")
    raise ModelError(
        f"{name}.forward changes {listed}, on which the result of its next call depends. But "
        "forward is captured only once, so the change would be lost.",
        where=name,
        next_step="store the changing value in a buffer: call self.register_buffer('name', "
        "torch.zeros(())) in __init__, and self.name.copy_(...) or self.name += 1 in forward.",
    )


def _check_leaks(module: torch.nn.Module, tracer: Tracer) -> None:
    """Raise `ModelError` if forward has stored a tensor where a `ModuleSnapshot` cannot undo it."""
    for recorder in tracer.recorders:
        recorder.constants.clear()
    lines = [line for recorder in tracer.recorders for line in recorder.remaining()]
    if lines:
        raise ModelError(
            f"{type(module).__name__}.forward stores a tensor outside the module, but tensors have "
            "no elements while forward is captured.",
            where=type(module).__name__,
            line=in_words(lines[-1]),
            next_step="return the tensor from forward, or store it in an attribute of the module "
            "(self.last = x), whose old value the capture restores.",
        )
