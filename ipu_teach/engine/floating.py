"""Floating-point exceptions: what stops a run, and what a half that overflowed becomes.

The chip's FP_CTL register has a bit for each (https://github.com/graphcore/ipu_assembly_support). Here three options of the
engine stand for them, for all of its runs:

- debug.floatPointOpException: an invalid operation, a division by zero or an overflow stops the run (INV, DIV0, OFLO);
- debug.nanOverflowMode: where halves overflow, NaN is stored in a HALF field instead of infinity (NANOO);
- debug.nanOverflowException: the same, and the store stops the run.

Vertices with FLOAT or HALF fields then run one by one: slow, but right. What counts is what numpy reports. A NaN that is only
passed on stops nothing, where the chip stops; in a vertex with FLOAT or HALF fields, a single integer that overflows, or
integers divided by zero, stop the run too. Of an infinity and an overflow stored by one assignment both become NaN. Copies
and streams compute nothing and are not looked at.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenTable
from ipu_teach.compile.groups import Group
from ipu_teach.errors import FloatingPointTrapError
from ipu_teach.types import FLOAT, HALF


@dataclass(frozen=True)
class FloatingPoint:
    """`traps`: invalid operations, divisions by zero and overflows stop. `stops`: only halves that overflow do."""

    traps: bool
    stops: bool

    @classmethod
    def of(cls, options: Mapping[str, object]) -> FloatingPoint | None:
        """What an engine's options ask for; None for arithmetic that never traps."""
        traps, stops, nan = (
            bool(options[f"debug.{name}"]) for name in ("floatPointOpException", "nanOverflowException", "nanOverflowMode")
        )
        return cls(traps, stops) if traps or stops or nan else None

    def watch(self, overflows: list[str]) -> AbstractContextManager[object]:
        """In here numpy raises `FloatingPointError`, or notes overflows in `overflows`, which stores of halves take out."""
        if self.traps:
            return np.errstate(invalid="raise", divide="raise", over="raise")
        return np.errstate(over="call", call=lambda kind, _: overflows.append(kind))


def computes(group: Group) -> bool:
    """True if vertices of `group` have floating-point fields."""
    return any(field.dtype in (FLOAT, HALF) for field in group.table.fields.values())


def trapped(table: FrozenTable, row: int, error: FloatingPointError, line: str, compute_set: str) -> FloatingPointTrapError:
    """The error for a vertex that trapped, with those of its fields that stand in the line."""
    file = table.codelet.compute.__code__.co_filename
    lines = [frame.line or "" for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    fields = [name for name in table.fields if lines and f"self.{name}" in lines[-1]]
    seen = f"; fields {', '.join(fields)}" if fields else ""
    return FloatingPointTrapError(
        f"A floating-point exception stopped the run: {error}.",
        where=f"{line}, {vertex_name(table, row)} of compute set {compute_set!r}{seen}",
        next_step="look at what the vertex was given; without debug.floatPointOpException and debug.nanOverflowException the "
        "run goes on with infinity or NaN.",
    )
