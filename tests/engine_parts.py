"""Parts inside an engine that tests look at: this module alone knows their private names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu_teach import Engine
from ipu_teach.engine.machine import Machine
from ipu_teach.types import Array


def machine_of(engine: Engine) -> Machine:
    """Return the machine of a loaded engine, with its memory and its log."""
    machine = engine._machine
    assert machine is not None, "the engine is not loaded"
    return machine


def peek(engine: Engine, handle: str) -> Array:
    """Return what `engine.read_tensor` returns, without an error for unwritten elements."""
    return engine._peek(handle)


def written_bytes(engine: Engine) -> Array:
    """Return bool[memory bytes]: whether each byte is written. The engine must check reads."""
    defined = machine_of(engine)._defined
    assert defined is not None, "the engine does not check reads"
    return defined.defined


def measured_cycles(engine: Engine) -> Array | None:
    """Return the cycles of the vertices in a run, or None if the text of the codelet decides them.

    The program has one codelet, and executes it at least once.
    """
    by_step = machine_of(engine)._cycles.values()
    return next((cycles for groups in by_step for cycles, _ in groups.values()), None)


def step_action(engine: Engine, number: int = 0) -> Callable[[], Any]:
    """Return the function that executes a step on the machine, without a record of it."""
    return machine_of(engine)._actions[number]
