"""Capture a module of torch as a graph of `frontends.ir`."""

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
from ipu_teach.frontends.pytorch.private import Argument
from ipu_teach.frontends.pytorch.repeat import Description
from ipu_teach.frontends.pytorch.restore import Snapshot
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
    """Return the graph of a module, captured while it is called with example arguments.

    `marked` are the positions, among the tensors in the arguments, of inputs that may contain the
    label that a loss ignores. With `training`, the graph includes the gradients of the loss, times
    `scale`. The module is restored to its state before the call.

    :raises ModelError: if the module cannot be captured; the error has the path of the submodule
        and the learner's line.
    """
    check_module(module)
    kwargs = dict(kwargs or {})
    names = list(Arguments(module, args, kwargs).tensors)
    tracer = Tracer(module, args, kwargs, names)
    joint = _traced(module, tracer, training, scale)
    result = Lowerer(joint, type(module).__name__, {names[i] for i in marked}).lower()
    # both refer to tensors, which would look like leaks
    tracer.labels = joint = None  # type: ignore[assignment]
    _check_leaks(module, tracer)
    return result


@contextmanager
def _without_log() -> Iterator[None]:
    """Silence torch's log in a `with` block.

    The log would report a failure of forward before the kit's own error does.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@_without_log()
def _traced(module: torch.nn.Module, tracer: Tracer, training: bool, scale: float) -> JointGraph:
    """Trace a module, and undo its changes of attributes and random states.

    Raises `ModelError` if the module would compute something else in its next forward.
    """
    snapshot = Snapshot(module)
    draws = _random_states()
    try:
        joint = tracer.trace(training, scale)
        changed = snapshot.changed()
        is_drawn = _random_states() != draws
        if changed or is_drawn:
            snapshot.restore()
            _check_repeats(module, tracer, changed)
    except Exception as error:
        problem = failures.error_to_raise(module, error, tracer.path)
        if problem is error:
            raise
        raise problem from None
    finally:
        snapshot.restore()
    return joint


def _random_states() -> tuple[Hashable, ...]:
    """Return the states of the random generators of Python and numpy, in comparable form."""
    kind, keys, *rest = np.random.get_state()
    return random.getstate(), kind, np.asarray(keys).tobytes(), *rest


def _check_repeats(module: torch.nn.Module, tracer: Tracer, changed: list[str]) -> None:
    """Raise `ModelError` if a second forward computes something else than the first.

    `changed` are the names of the attributes that the first forward has changed.
    """
    first = Description(tracer.forward())
    second = Description(tracer.forward(), first.constants)
    if first.effects == second.effects:
        return
    name = type(module).__name__
    if not changed:
        raise ModelError(
            f"{name}.forward computes with random numbers of Python or numpy. They would be the "
            "same in each run, because it is captured only once.",
            where=name,
            next_step="draw them on the device: torch.rand(()), torch.randn(...), nn.Dropout.",
        )
    listed = ", ".join(map(repr, changed[:4])) + (", ..." if changed[4:] else "")
    raise ModelError(
        f"{name}.forward changes {listed}, so that its next call computes something else; but it "
        "is captured only once, and the change would be lost.",
        where=name,
        next_step="use a buffer for what changes: self.register_buffer('name', torch.zeros(...)), "
        "and change it by self.name.copy_(...) or self.name += 1.",
    )


def _check_leaks(module: torch.nn.Module, tracer: Tracer) -> None:
    """Raise `ModelError` if forward keeps a tensor where the kit cannot restore the old value."""
    for recorder in tracer.recorders:
        recorder.constants.clear()
    lines = [line for recorder in tracer.recorders for line in recorder.remaining()]
    if lines:
        raise ModelError(
            f"{type(module).__name__}.forward keeps a tensor outside the module, but tensors have "
            "no elements during the capture.",
            where=type(module).__name__,
            line=in_words(lines[-1]),
            next_step="return it, or keep it in an attribute, self.last = x, which the capture "
            "sets back to its old value.",
        )
