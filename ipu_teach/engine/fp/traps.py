"""Floating-point exceptions, which stop a run, or store NaN where a half overflows.

Bits in a tile's control register (`graph.registers`) switch the exceptions on. With the bits INV,
DIV0 and OFLO, the run stops at an invalid operation, a division by zero, and an overflow
respectively. With the bit NANOO, a HALF field receives NaN instead of infinity where a half
overflows. `set_floating_point_behaviour` sets these bits while a program runs, and three engine
options set them when it is loaded:

* debug.floatPointOpException: INV, DIV0 and OFLO
* debug.nanOverflowMode: NANOO
* debug.nanOverflowException: NANOO, and in addition the store that overflows stops the run

The simulated exceptions are those that numpy reports, vertex by vertex. They differ from the
chip's:

* An operation that only passes on a NaN operand does not stop the run; on the chip, it does.
* An integer overflow stops the run only if it is in a single integer (not an array), and if the
  vertex has FLOAT or HALF fields and runs by itself. An integer division by zero always stops the
  run.
* If one assignment stores both an exact infinity and an overflow, both become NaN.
* Copies, streams and vertices that draw random numbers are not checked.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

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
from ipu_teach.types.regions import FieldArrays

if TYPE_CHECKING:
    from ipu_teach.engine.site import Site

# After exceptions in this number of consecutive runs, only the plain vertex loop is used.
MOST_ALARMS = 3


@dataclass(frozen=True)
class FloatingPoint:
    """The floating-point exceptions that stop the run on a tile.

    `inv`, `div0` and `oflo` are True if an invalid operation, a division by zero or an overflow
    stops the run. With `nan`, halves that overflow become NaN. With `stops`, such an overflow also
    stops the run.
    """

    inv: bool
    div0: bool
    oflo: bool
    nan: bool
    stops: bool

    @classmethod
    @cache
    def of(cls, bits: int) -> FloatingPoint | None:
        """Return the exceptions that the bits of FP_CTL switch on, or None if there are none."""
        flags = [bool(bits & bit) for bit in (INV, DIV0, OFLO, NANOO, STOP_ON_NANOO)]
        return cls(*flags) if any(flags) else None

    @property
    def looks_at_stores(self) -> bool:
        """Whether an overflow in a store of halves stops the run or becomes NaN."""
        return self.oflo or self.nan

    def watch(self, overflows: list[str]) -> AbstractContextManager[object]:
        """Return a context in which numpy raises errors for exceptions that stop the vertex.

        With `nan` but without `oflo`, an overflow raises no error. Instead, numpy's name of the
        exception is appended to `overflows`, which the next store of halves empties.
        """
        overflow = "ignore"
        if self.oflo:
            overflow = "raise"
        elif self.nan:
            overflow = "call"
        invalid, divide = ("raise" if stops else "ignore" for stops in (self.inv, self.div0))
        settings = {"invalid": invalid, "divide": divide, "over": overflow, "under": "ignore"}

        def note(kind: str, _: int) -> None:
            overflows.append(kind)

        return np.errstate(**settings, call=note)  # type: ignore[arg-type]


class TrapWatch:
    """The floating-point exceptions that stop each vertex of a group.

    They are determined by the bits of the control register FP_CTL on the tile of the vertex.
    """

    def __init__(self, codes: Array) -> None:
        self._codes = codes
        self.kinds = {
            point
            for code in np.unique(codes).tolist()
            if (point := FloatingPoint.of(code)) is not None
        }

    def of(self, number: int) -> FloatingPoint | None:
        """Return the exceptions that stop vertex `number` of the group."""
        return FloatingPoint.of(int(self._codes[number]))


def watch_of(group: Group, registers: Registers) -> TrapWatch | None:
    """Return the exceptions that stop vertices of `group` with the present register values.

    The result is None if there are no such exceptions, or if the vertices do not compute with
    floats.
    """
    if group.is_bulk or not any(
        field.dtype in (FLOAT, HALF) for field in group.table.fields.values()
    ):
        return None
    watch = TrapWatch(registers.behaviour[group.table.tiles[group.rows]])
    return watch if watch.kinds else None


class Guarded:
    """Runs batches of vertices that may trap: a floating-point exception may stop them.

    If numpy reports an exception, the changes of the batches are undone, and the plain vertex loop
    runs instead. The loop raises an error that names the vertex, or stores NaN where necessary, or
    finds that no vertex has an exception. After exceptions in `MOST_ALARMS` consecutive runs, only
    the loop runs.
    """

    def __init__(self, sites: Sequence[Site], calls: list[Call], loops: list[Call]) -> None:
        memory = sites[0].memory
        kinds = {kind for site in sites if site.watch is not None for kind in site.watch.kinds}
        self._raising = {
            "invalid": "raise" if any(trap_kind.inv for trap_kind in kinds) else "ignore",
            "divide": "raise" if any(trap_kind.div0 for trap_kind in kinds) else "ignore",
            "over": "raise" if any(trap_kind.looks_at_stores for trap_kind in kinds) else "ignore",
        }
        self._calls = [
            guarded_call for call in calls for guarded_call in (call, *_alarms_after(call))
        ]
        self._loops = loops
        self._alarms = 0
        written = [span for site in sites for span in spans(site.group, site.graph, written=True)]
        starts, stops = joined(*np.array(written, np.int64).reshape(-1, 2).T)
        self._places: list[Array] = [
            memory.bytes[first_byte:end_byte]
            for first_byte, end_byte in zip(starts.tolist(), stops.tolist(), strict=True)
        ]
        self._saved = [place.copy() for place in self._places]

    def run(self) -> None:
        """Run the batches.

        If numpy reports an exception, undo their changes and run the plain vertex loop instead.
        """
        if self._alarms < MOST_ALARMS:
            for place, saved in zip(self._places, self._saved, strict=True):
                saved[...] = place
            try:
                with np.errstate(**self._raising):  # type: ignore[arg-type]
                    run_all(self._calls)
            except FloatingPointError:
                self._alarms += 1
                for place, saved in zip(self._places, self._saved, strict=True):
                    place[...] = saved
            else:
                self._alarms = 0
                return
        run_all(self._loops)


def alarm(result: Array) -> None:
    """Raise `FloatingPointError` if a result contains an infinity or NaN."""
    if result.dtype.kind == "f" and not np.isfinite(result).all():
        raise FloatingPointError("the result of a numpy call is not finite")


def _alarms_after(call: Call) -> list[Call]:
    """Return calls that check the result of `call`, if numpy may fail to report its exceptions.

    For functions that are not in `ROUNDED`, numpy does not always report an exception when it
    computes an array, although it does so for single numbers.
    """
    function, args = call
    if function is apply:
        return [(alarm, (args[2],))]
    if function is sum_products:  # numpy's einsum reports no exceptions.
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


def trap_error(
    table: FrozenTable,
    row: int,
    error: FloatingPointError,
    line: str,
    compute_set: str,
    values: Mapping[str, tuple[FieldArrays, FieldArrays]],
) -> FloatingPointTrapError:
    """Return the error for a vertex that trapped. It names the fields that its failing line uses.

    `values` describes a run without traps: it maps the name of each written field to (value before
    the run, value after it).
    """
    file = table.codelet.compute.__code__.co_filename
    lines = [
        frame.line or ""
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    fields = [name for name in table.fields if lines and f"self.{name}" in lines[-1]]
    details = f"; fields {', '.join(fields)}" if fields else ""
    written = [*(f for f in fields if f in values), *(f for f in values if f not in fields)]
    details += next(
        (f"; {name}{element}" for name in written if (element := _first_not_finite(*values[name]))),
        "",
    )
    return FloatingPointTrapError(f"""A floating-point exception stopped the run: {error}.
        where: {line}, {vertex_name(table, row)} of compute set {compute_set!r}{details}
        next:  check the inputs of the vertex. To let the run continue with infinity or NaN, leave
        out debug.floatPointOpException and debug.nanOverflowException, or call
        set_floating_point_behaviour before the compute set.""")


def _first_not_finite(before: FieldArrays, after: FieldArrays) -> str:
    """Return the index and value of the first element that has become infinite or NaN, as a string.

    Elements that were infinite before the run are ignored, but elements that were NaN are not. The
    result is "" if there is no such element.
    """
    if isinstance(after, list):
        regions = zip(before, after, strict=True)
        return next(
            (
                f"[{region_number}]{text}"
                for region_number, (region_before, region_after) in enumerate(regions)
                if (text := _first_not_finite(region_before, region_after))
            ),
            "",
        )
    lost_positions = np.argwhere(~np.isfinite(after) & (np.isfinite(before) | np.isnan(before)))
    if not len(lost_positions):
        return ""
    index = tuple(int(region_number) for region_number in lost_positions[0])
    return f"{list(index) if index else ''} becomes {np.asarray(after)[index]}"
