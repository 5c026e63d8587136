"""Floating-point exceptions: what stops a run, and what a half that overflowed becomes.

The bits of a tile's control register say so (`graph.registers`): INV, DIV0 and OFLO stop the run at
an invalid operation, a division by zero, an overflow; with NANOO, NaN is stored in a HALF field
where halves overflow, instead of infinity. Three options of the engine set them when a program is
loaded, and `set_floating_point_behaviour` while it runs:

- debug.floatPointOpException: INV, DIV0 and OFLO;
- debug.nanOverflowMode: NANOO;
- debug.nanOverflowException: NANOO, and the store stops the run.

What counts is what numpy reports, vertex by vertex. A NaN that is only passed on stops nothing,
where the chip stops. Integers never stop a batch; where vertices with FLOAT or HALF fields run one
by one, a single integer that overflows does, and integers divided by zero do everywhere. Of an
infinity and an overflow stored by one assignment both become NaN. Copies, streams and vertices that
draw random numbers are not looked at.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenTable
from ipu_teach.compile.groups import Group
from ipu_teach.compile.trace import ROUNDED
from ipu_teach.engine.backend import Call, run_all
from ipu_teach.engine.batch.half_products import sum_products
from ipu_teach.engine.batch.kernels import apply
from ipu_teach.engine.host_fallback import spans
from ipu_teach.errors import FloatingPointTrapError
from ipu_teach.graph.registers import DIV0, INV, NANOO, OFLO, STOP_ON_NANOO, Registers
from ipu_teach.graph.tile_map import joined
from ipu_teach.types import FLOAT, HALF, Array

if TYPE_CHECKING:
    from ipu_teach.engine.site import Site

# batches in a row in which something was reported: from then on vertices run one by one
MOST_ALARMS = 3


@dataclass(frozen=True)
class FloatingPoint:
    """What stops on a tile: `inv`, `div0`, `oflo`. `nan`: halves that overflow become NaN; `stops`:
    that stops too."""

    inv: bool
    div0: bool
    oflo: bool
    nan: bool
    stops: bool

    @classmethod
    @cache
    def of(cls, bits: int) -> FloatingPoint | None:
        """What the bits of FP_CTL mean; None for arithmetic that never traps."""
        found = cls(*(bool(bits & bit) for bit in (INV, DIV0, OFLO, NANOO, STOP_ON_NANOO)))
        return found if found != cls(False, False, False, False, False) else None

    @property
    def looks_at_stores(self) -> bool:
        """True if an overflow in a store of halves matters."""
        return self.oflo or self.nan

    def watch(self, overflows: list[str]) -> AbstractContextManager[object]:
        """In here numpy raises `FloatingPointError`, or notes overflows in `overflows`, which
        stores of halves take out."""
        over = "raise" if self.oflo else "call" if self.nan else "ignore"
        invalid, divide = ("raise" if stops else "ignore" for stops in (self.inv, self.div0))
        told = {"invalid": invalid, "divide": divide, "over": over, "under": "ignore"}
        return np.errstate(**told, call=lambda kind, _: overflows.append(kind))  # type: ignore[arg-type]


class TrapWatch:
    """What stops each vertex of a group, by the bits of FP_CTL on its tile."""

    def __init__(self, codes: Array) -> None:
        self._codes = codes
        self.kinds = {
            point
            for code in np.unique(codes).tolist()
            if (point := FloatingPoint.of(code)) is not None
        }

    def of(self, number: int) -> FloatingPoint | None:
        """What stops vertex `number` of the group."""
        return FloatingPoint.of(int(self._codes[number]))


def watch_of(group: Group, registers: Registers) -> TrapWatch | None:
    """What stops vertices of `group`, as numbers behave now; None if nothing does, or if they do
    not compute with floats."""
    if group.at_once or not any(
        field.dtype in (FLOAT, HALF) for field in group.table.fields.values()
    ):
        return None
    watch = TrapWatch(registers.behaviour[group.table.tiles[group.rows]])
    return watch if watch.kinds else None


class Guarded:
    """Batches of vertices that may trap: run them, and where numpy reports something, undo that and
    run the plain loop.

    The loop says which vertex it was, stores NaN where it must, or finds that it was nothing.
    """

    def __init__(self, sites: Sequence[Site], calls: list[Call], loops: list[Call]) -> None:
        memory = sites[0].memory
        kinds = {kind for site in sites if site.watch is not None for kind in site.watch.kinds}
        self._raising = {
            "invalid": "raise" if any(k.inv for k in kinds) else "ignore",
            "divide": "raise" if any(k.div0 for k in kinds) else "ignore",
            "over": "raise" if any(k.looks_at_stores for k in kinds) else "ignore",
        }
        self._calls = [part for call in calls for part in (call, *_looked_at(call))]
        self._loops, self._alarms = loops, 0
        written = [span for site in sites for span in spans(site.group, site.graph, written=True)]
        start, stop = joined(*np.array(written, np.int64).reshape(-1, 2).T)
        self._places: list[Array] = [
            memory.bytes[a:b] for a, b in zip(start.tolist(), stop.tolist(), strict=True)
        ]
        self._kept = [place.copy() for place in self._places]

    def run(self) -> None:
        if self._alarms < MOST_ALARMS:
            for place, kept in zip(self._places, self._kept, strict=True):
                kept[...] = place
            try:
                with np.errstate(**self._raising):  # type: ignore[arg-type]
                    run_all(self._calls)
            except FloatingPointError:
                self._alarms += 1
                for place, kept in zip(self._places, self._kept, strict=True):
                    place[...] = kept
            else:
                self._alarms = 0
                return
        run_all(self._loops)


def alarm(result: Array) -> None:
    """Raise `FloatingPointError` where a result is no finite number."""
    if result.dtype.kind == "f" and not np.isfinite(result).all():
        raise FloatingPointError("a result is not finite")


def _looked_at(call: Call) -> list[Call]:
    """What looks at the result of a call, if that may have something to report and keep silent.

    The vector forms of functions that are not rounded may not report what their forms for single
    numbers do.
    """
    function, args = call
    if function is apply:
        return [(alarm, (args[2],))]
    if function is sum_products:  # numpy's einsum reports nothing
        return [(alarm, (args[3],))]
    if isinstance(function, np.ufunc) and len(args) > function.nin and function not in ROUNDED:
        return [(alarm, (args[function.nin],))]
    if (
        isinstance(function, partial)
        and isinstance(function.func, np.ufunc)
        and function.func not in ROUNDED
    ):
        return [(alarm, (function.keywords["out"],))]
    return []


def trapped(
    table: FrozenTable,
    row: int,
    error: FloatingPointError,
    line: str,
    compute_set: str,
    values: Mapping[str, Any],
) -> FloatingPointTrapError:
    """The error for a vertex that trapped, with those of its fields that stand in the line.

    `values`: (before, after) of its written fields, by name, as they become where nothing stops the
    vertex.
    """
    file = table.codelet.compute.__code__.co_filename
    lines = [
        frame.line or ""
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    fields = [name for name in table.fields if lines and f"self.{name}" in lines[-1]]
    seen = f"; fields {', '.join(fields)}" if fields else ""
    written = [*(f for f in fields if f in values), *(f for f in values if f not in fields)]
    seen += next(
        (f"; {name}{element}" for name in written if (element := _first_lost(*values[name]))), ""
    )
    return FloatingPointTrapError(f"""A floating-point exception stopped the run: {error}.
        where: {line}, {vertex_name(table, row)} of compute set {compute_set!r}{seen}
        next:  look at what the vertex was given; without debug.floatPointOpException and
        debug.nanOverflowException, or with set_floating_point_behaviour ahead of it, the run goes
        on with infinity or NaN.""")


def _first_lost(before: Any, after: Any) -> str:
    """The first element that is no number any more, in words; nothing if all are."""
    if isinstance(after, list):
        parts = zip(before, after, strict=True)
        return next(
            (f"[{i}]{text}" for i, (b, a) in enumerate(parts) if (text := _first_lost(b, a))), ""
        )
    lost = np.argwhere(~np.isfinite(after) & (np.isfinite(before) | np.isnan(before)))
    if not len(lost):
        return ""
    place = tuple(int(i) for i in lost[0])
    return f"{list(place) if place else ''} becomes {np.asarray(after)[place]}"
