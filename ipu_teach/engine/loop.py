"""The plain vertex loop: every vertex by itself, in order, on local copies. Slow, and the referee of every faster path."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.groups import Group
from ipu_teach.compile.tracer import failed, located, source_line
from ipu_teach.engine.chance import Chance, StoredHalf
from ipu_teach.engine.floating import FloatingPoint, trapped
from ipu_teach.engine.memory import Memory
from ipu_teach.errors import CodeletError
from ipu_teach.graph.tensor import Layout
from ipu_teach.graph.vertex import VectorList
from ipu_teach.types import HALF, Array


def run_loop(
    group: Group,
    layouts: tuple[Any, ...],
    memory: Memory,
    returned: Array | None = None,
    chance: Chance | None = None,
    floating: FloatingPoint | None = None,
    compute_set: str = "",
) -> None:
    """Run `compute()` of every vertex of `group`. Raises `CodeletError` that names line, vertex and tile.

    `returned`: bool[vertices], receives what each `compute()` returned; nothing counts as true. `chance`: rounds what is
    stored in halves stochastically. `floating`: raises `FloatingPointTrapError`, or stores NaN, where it says so.
    """
    table = group.table
    states = None if chance is None else chance.states()
    overflows: list[str] = []  # since the last store in a half
    stream = np.zeros(2, np.uint64)  # of the worker that runs now
    calls: list[tuple[int, ...]] = [(worker,) for worker, _ in group.workers] or [()]
    for number, row in enumerate(group.rows.tolist()):
        regions: dict[str, Any] = {}
        back: list[tuple[Array, Any, Array]] = []
        for name, declared in table.fields.items():
            flat, offset = memory.flat(declared.dtype), int(table.offsets[name][row])
            layout = layouts[table.layouts[name][row]]
            parts = [(0, layout)] if isinstance(layout, Layout) else layout.parts
            local = []
            for delta, part in parts:
                start = offset + delta
                where: Any = slice(start, start + part.size) if part.contiguous else start + part.positions.reshape(-1)
                array = flat[where].copy().reshape(() if declared.depth == 0 else part.shape)
                array.flags.writeable = declared.written
                if declared.dtype is HALF and (states is not None or floating is not None):
                    array = array.view(StoredHalf)
                    array.state = None if states is None else stream
                    array.overflows = None if floating is None else overflows
                    array.stops = floating is not None and (floating.traps or floating.stops)
                if declared.written:
                    back.append((flat, where, array))
                local.append(array)
            regions[name] = local[0] if isinstance(layout, Layout) else VectorList(local)
        try:
            vertex = table.codelet.bind(regions, max(1, len(group.workers)))
            results = []
            for call in calls:
                if states is not None:
                    stream[...] = states[number][call or 0]
                overflows.clear()
                with nullcontext() if floating is None else floating.watch(overflows):
                    results.append(vertex.compute(*call))
            if returned is not None:
                returned[number] = all(result is None or bool(result) for result in results)
        except CodeletError as error:
            raise located(error, source_line(table.codelet), vertex_name(table, row)) from None
        except Exception as error:
            place = source_line(table.codelet)
            if floating is not None and isinstance(error, FloatingPointError):
                raise trapped(table, row, error, place, compute_set) from error
            raise failed(table.codelet, error, place, vertex_name(table, row)) from error
        for flat, where, array in back:
            flat[where] = array.reshape(-1)
