"""The plain vertex loop: it runs each vertex by itself, in order, on local copies.

This loop is slow, and is the reference for every faster way of running vertices.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from typing import TypeAlias

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.matrices import NOTED, warn_of_noted
from ipu_teach.compile.tracer import compute_error, error_at, source_line
from ipu_teach.engine.fp.traps import trap_error
from ipu_teach.engine.fp.vertex_floats import VertexFloats
from ipu_teach.engine.scalar.count import Counting
from ipu_teach.engine.site import Site
from ipu_teach.errors import CodeletError
from ipu_teach.graph.tensor import Layout
from ipu_teach.graph.vertex import VectorList
from ipu_teach.types import Array
from ipu_teach.types.regions import FieldArrays

Positions: TypeAlias = slice | Array  # An index into the flat memory.
# A list of values to write later: (memory, positions in it, values).
Back = list[tuple[Array, Positions, Array]]


def run_loop(site: Site, count: Counting | None = None, only_vertex: int | None = None) -> None:
    """Run `compute()` of every vertex of a group, one after another.

    If `site` has `rounding`, stores into halves are rounded stochastically. If `site` has `watch`,
    floating-point exceptions raise `FloatingPointTrapError` or store NaN. With `count`, the scalar
    loop of each vertex also runs, on copies of its regions, to count cycles and accesses. With
    `only_vertex`, only the vertex with this index in the group runs.

    :raises CodeletError: if compute() fails; the error names the line, the vertex and the tile.
    """
    group = site.group
    is_plain = site.rounding is None and site.watch is None
    overwritten: Back = []  # The old values of all elements that the vertices have written so far.
    for vertex_number in range(len(group.rows)) if only_vertex is None else (only_vertex,):
        row = int(group.rows[vertex_number])
        vertex_floats = None if is_plain else VertexFloats(site, vertex_number)
        vertex = _Vertex(site, row, vertex_floats)
        twin = None if count is None else _Vertex(site, row, vertex_floats)
        try:
            answer = site.interrupts.within(vertex.run)
            if site.returned is not None:
                site.returned[vertex_number] = answer
        except KeyboardInterrupt:
            _write(reversed(overwritten))
            raise
        except CodeletError as error:
            raise error_at(
                error, source_line(group.table.codelet), vertex_name(group.table, row)
            ) from None
        except Exception as error:
            line_text = source_line(group.table.codelet)
            if (
                vertex_floats is not None
                and vertex_floats.traps is not None
                and isinstance(error, FloatingPointError)
            ):
                values = _untrapped(_Vertex(site, row, None))
                raise trap_error(
                    group.table,
                    row,
                    error,
                    line=line_text,
                    compute_set=site.compute_set,
                    values=values,
                ) from error
            raise compute_error(
                group.table.codelet, error, line_text, vertex_name(group.table, row)
            ) from error
        if count is not None and twin is not None:
            count.vertex(vertex_number, twin.regions, twin.places, vertex_floats)
            if NOTED.faults:
                warn_of_noted(group.table.codelet, partial(vertex_name, group.table, row))
        overwritten += [
            (flat, positions, flat[positions].copy()) for flat, positions, _ in vertex.back
        ]
        _write(vertex.back)


def _write(back: Iterable[tuple[Array, Positions, Array]]) -> None:
    """Write the values of each (memory, positions, values) in `back` to these positions."""
    for flat, where, array in back:
        flat[where] = array.reshape(-1)


class _Vertex:
    """A vertex with local copies of its regions.

    After the vertex has run, `back` contains the values to write to memory.
    """

    def __init__(self, site: Site, row: int, numbers: VertexFloats | None) -> None:
        self.table = site.group.table
        self.workers: list[tuple[int, ...]] = [(worker,) for worker, _ in site.group.workers] or [
            ()
        ]
        self.numbers = numbers
        self.regions: dict[str, FieldArrays] = {}
        # Maps the name of each field to the positions of its arrays in memory.
        self.places: dict[str, list[Positions]] = {}
        self.back: Back = []
        for name, declared in self.table.fields.items():
            flat = site.memory.flat(declared.dtype)
            offset = int(self.table.offsets[name][row])
            layout = site.graph.layouts[self.table.layouts[name][row]]
            part_arrays = []
            for part_offset, part in layout.parts:
                part_start = offset + part_offset
                positions: Positions = (
                    slice(part_start, part_start + part.size)
                    if part.contiguous
                    else part_start + part.positions.reshape(-1)
                )
                array = flat[positions].copy().reshape(() if declared.depth == 0 else part.shape)
                array.flags.writeable = declared.written
                array = array if numbers is None else numbers.stored(array)
                if declared.written:
                    self.back.append((flat, positions, array))
                self.places.setdefault(name, []).append(positions)
                part_arrays.append(array)
            self.regions[name] = (
                part_arrays[0] if isinstance(layout, Layout) else VectorList(part_arrays)
            )

    def run(self) -> bool:
        """Call compute() for each worker, and return whether all calls returned true or None."""
        vertex = self.table.codelet.bind(self.regions, len(self.workers))
        results = []
        for worker in self.workers:
            with nullcontext() if self.numbers is None else self.numbers.begin(*worker or (0,)):
                results.append(vertex.compute(*worker))
        return all(result is None or bool(result) for result in results)


def _untrapped(vertex: _Vertex) -> dict[str, tuple[FieldArrays, FieldArrays]]:
    """Return the written fields' values before and after a run without traps.

    The result maps the name of each written field to (value before, value after). It is empty if
    compute() fails.
    """
    written = {
        name: region for name, region in vertex.regions.items() if vertex.table.fields[name].written
    }
    before = {
        n: [np.array(p) for p in r] if isinstance(r, list) else np.array(r)
        for n, r in written.items()
    }
    try:
        with np.errstate(all="ignore"):
            vertex.run()
    except Exception:
        return {}
    return {name: (before[name], region) for name, region in written.items()}
