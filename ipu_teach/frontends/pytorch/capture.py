"""A module of torch as a graph of the IR."""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ipu_teach.errors import ModelError
from ipu_teach.frontends.pytorch import failures
from ipu_teach.frontends.pytorch.arguments import Arguments
from ipu_teach.frontends.pytorch.lower import Captured, Lowerer
from ipu_teach.frontends.pytorch.mirror import check_module
from ipu_teach.frontends.pytorch.repeat import Description
from ipu_teach.frontends.pytorch.restore import Snapshot
from ipu_teach.frontends.pytorch.trace import JointGraph, Tracer
from ipu_teach.graph.source import in_words

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
    tracer = Tracer(module, args, kwargs, names)
    joint = _traced(module, tracer, training, scale)
    result = Lowerer(joint, type(module).__name__, {names[i] for i in marked}).lower()
    tracer.labels = joint = None  # type: ignore[assignment] # they hold tensors
    _check_leaks(module, tracer)
    return result


@contextmanager
def _without_log() -> Iterator[None]:
    """Silence torch's log, which reports a forward that fails before the error does."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@_without_log()
def _traced(module: torch.nn.Module, tracer: Tracer, training: bool, scale: float) -> JointGraph:
    snapshot, draws = Snapshot(module), _random_states()
    try:
        joint = tracer.trace(training, scale)
        changed = snapshot.changed()
        is_drawn = _random_states() != draws
        if changed or is_drawn:
            snapshot.restore()
            _check_repeats(module, tracer, changed)
    except Exception as error:
        problem = failures.raised(module, error, tracer.path)
        if problem is error:
            raise
        raise problem from None
    finally:
        snapshot.restore()
    return joint


def _random_states() -> tuple[Any, ...]:
    """Return the states of the random numbers of Python and of numpy."""
    kind, keys, *rest = np.random.get_state()
    return random.getstate(), kind, np.asarray(keys).tobytes(), *rest


def _check_repeats(module: torch.nn.Module, tracer: Tracer, changed: list[str]) -> None:
    """Raise `ModelError` if the second forward of a module computes something else than the first
    one."""
    first = Description(tracer.forward())
    second = Description(tracer.forward(), first.constants)
    if first.effects == second.effects:
        return
    name = type(module).__name__
    if not changed:
        raise ModelError(
            f"{name}.forward computes with random numbers of Python or numpy, which would be the "
            "same in each run: it is captured once.",
            where=name,
            next_step="draw them on the device: torch.rand(()), torch.randn(...), nn.Dropout.",
        )
    listed = ", ".join(map(repr, changed[:4])) + (", ..." if changed[4:] else "")
    raise ModelError(
        f"{name}.forward changes {listed}, and computes something else in its next call; it is "
        "captured once, and these would stay as they are.",
        where=name,
        next_step="keep what changes in a buffer: self.register_buffer('name', torch.zeros(...)), "
        "and change it by self.name.copy_(...) or self.name += 1.",
    )


def _check_leaks(module: torch.nn.Module, tracer: Tracer) -> None:
    """Raise `ModelError` if forward keeps a tensor where the kit cannot take it away again."""
    for recorder in tracer.recorders:
        recorder.constants.clear()
    lines = [line for recorder in tracer.recorders for line in recorder.remaining()]
    if lines:
        raise ModelError(
            f"{type(module).__name__}.forward keeps a tensor outside the module, and a tensor that "
            "is captured has no elements.",
            where=type(module).__name__,
            line=in_words(lines[-1]),
            next_step="return it, or keep it in an attribute: self.last = x, which has its old "
            "value after the capture.",
        )
