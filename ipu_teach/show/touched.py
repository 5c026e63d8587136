"""The elements of one variable that some vertices of a compute set read and write.

The picture has a row for each vertex. The course's checks show it if an answer is about races or
contains a race.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu_teach.graph import Graph
from ipu_teach.graph.compute_set import ComputeSet
from ipu_teach.graph.variable_table import Variable
from ipu_teach.report.compiled import runs_of
from ipu_teach.show import palette
from ipu_teach.show.panels import Panels
from ipu_teach.show.scene import Cells, Still, label
from ipu_teach.show.view import View
from ipu_teach.types import Array

CODES = (
    palette.REST.lettered("", "not touched"),
    palette.SO.lettered("r", "reads"),
    palette.OTHERWISE.lettered("w", "writes"),
    palette.CHOSEN.lettered("b", "reads and writes"),
)
READS, WRITES = 1, 2  # An element that is read and written has the sum, 3.
MOST = 24  # The maximum number of elements in a row.


def touched(graph: Graph, compute_set: ComputeSet, vertices: Sequence[int]) -> View | None:
    """Return a view of the elements of one variable that given vertices read and write, or None.

    `vertices` are the indices of the vertices in the compute set. If the vertices use several
    variables, the view shows one on which they conflict. If there is no conflict, the view shows a
    variable of which all vertices use the same element, or else a variable that any vertex writes.
    The result is None if the vertices use no variable.
    """
    candidates = [
        ((clash.any(), all_touch.any(), np.any(wrote)), v.name, rows, clash)
        for v in graph.variables
        for rows in [[_uses(graph, compute_set, k, v) for k in vertices]]
        for all_touch in [np.all(rows, axis=0)]
        for wrote in [np.bitwise_or.reduce(rows) & WRITES > 0]
        for clash in [all_touch & wrote]
        if np.any(rows)
    ]
    if not candidates:
        return None
    _, name, rows, clash = max(candidates, key=lambda candidate: candidate[0])
    touching = np.flatnonzero(clash if clash.any() else np.any(rows, axis=0))
    first = max(0, min(int(touching[0]) - MOST // 2, len(clash) - MOST))
    panels = Panels()
    channels = {}
    words = []
    where = np.arange(first, min(first + MOST, len(clash)))
    if len(where) < len(clash):
        panels.notes.append(f"The picture shows {len(where)} of {len(clash):,} elements.")
    count = len(where)
    table = []
    title = f"Elements of {label(name, 24)} that the vertices read and write"
    same: dict[str, Any] = {"columns": count, "count": count, "block": count, "key": where}
    same |= {"side": min(30.0, 688 / count), "labels": tuple(map(str, where))}
    for k, row in zip(vertices, rows, strict=True):
        mark = f"vertex {k}"
        say = f"element {{element}} of {label(name, 24)}, {mark}"
        panels.put(Cells(mark, mark, say=say, values={"element": where}, **same))
        panels.below(34)
        channels[mark] = (row[where], 1, 0)
        uses = (f"{CODES[c].name} {_ranges(row == c)}" for c in (1, 2, 3) if np.any(row == c))
        words.append(f"{mark} {' and '.join(uses) or 'touches nothing'}")
        table.append((f"{k}", _ranges(row & READS > 0), _ranges(row & WRITES > 0)))
    note = (
        f"Both touch {_ranges(clash)}, and at least one of them writes there."
        if clash.any()
        else "Neither vertex writes an element that the other reads or writes."
    )
    scene = panels.scene(
        "touched",
        note.rstrip("."),
        f"{title} in compute set {label(compute_set.name, 24)}: {'; '.join(words)}. {note}",
        foot=-14,
        codes=CODES,
        stills=(Still(title, note, 0, 0, first=True, cells=channels),),
        table=(("vertex", "reads", "writes"), tuple(table)),
    )
    return View(scene)


def _uses(graph: Graph, compute_set: ComputeSet, vertex: int, variable: Variable) -> Array:
    """Return int64[elements]: READS, WRITES, both or 0 for each element of a variable."""
    size = variable.dtype.size
    uses = np.zeros(int(np.prod(variable.shape)), np.int64)
    for table in compute_set.tables.values():
        for row in np.flatnonzero(np.array(table.order) == vertex).tolist():
            for name, field in table.edges.items():
                number = table.layouts[name][row]
                for delta, part in graph.layouts[number].parts if number >= 0 else ():
                    at = table.offsets[name][row] + delta + part.positions.reshape(-1)
                    at = (at * field.dtype.size - variable.start) // size
                    at = at[(at >= 0) & (at < len(uses))]
                    uses[at] |= READS if field.kind != "output" else 0
                    uses[at] |= WRITES if field.written else 0
    return uses


def _ranges(which: Array) -> str:
    """Return a text with the indices of the true entries, such as "3 to 6, 9"."""
    runs = runs_of(np.flatnonzero(which))
    return ", ".join(f"{a} to {a + n - 1}" if n > 1 else f"{a}" for a, n in runs) or "none"
