"""Make the table in docs/codelets.md from the codelets of the tests.

python docs/make_codelets.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

PAGE = Path(__file__).with_name("codelets.md")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import student_codelets as students  # noqa: E402
from marks import write_between  # noqa: E402
from scalar_vertices import VertexRows, codelet_and_values  # noqa: E402

from ipu_teach.engine.scalar import run as scalar_run  # noqa: E402

# The number of vertices with which each codelet runs.
VERTICES = 5
NAMES = [name for name in students.CASES if name != "Racy"]
COLUMNS = ("runs as", "plain loop", "batch or CPython", "numba")


def row(name: str, *ways: str) -> dict[str, str]:
    """Return {column: cell} for a codelet.

    The cell "runs as" describes how the codelet runs. For each of `ways`, a cell has the cycles of
    the codelet, or a dash if it cannot run in that way.
    """
    vertex_rows = VertexRows(*codelet_and_values(name, VERTICES, 7))
    cells = {}
    for way in ways:
        with (
            scalar_run.chosen("compiled" if way == "numba" else "python"),
            np.errstate(all="ignore"),
        ):
            engine, _ = vertex_rows.run(vertex_loop=way == "plain loop")
        cells[way] = f"{engine.report.cycles_by_codelet()[name]:,.0f}"
        code = engine._machine.compiled.groups[0][0].scalar
        if way == "batch or CPython":
            cells["runs as"] = engine.report.ways()[name].partition(": line")[0]
        elif way == "numba" and (code is None or code.uncompiled):
            cells[way] = "-"
    return cells


def students_table() -> Iterator[str]:
    yield f"| codelet | {' | '.join(COLUMNS)} |"
    yield "|---" * (1 + len(COLUMNS)) + "|"
    for name in NAMES:
        cells = row(name, *COLUMNS[1:])
        yield f"| `{name}` | {' | '.join(cells[column] for column in COLUMNS)} |"


def main() -> None:
    write_between(PAGE, "students", "\n".join(students_table()))


if __name__ == "__main__":
    main()
