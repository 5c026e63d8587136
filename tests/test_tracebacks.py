"""What a notebook shows of an error: the learner's own lines, in a shell as a kernel has it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHELL = """
import sys, traceback
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in sys.argv[1:]:
    shell.run_cell(cell)
print(len(traceback.extract_tb(sys.last_value.__traceback__)), "frames")
"""
GRAPH = """
from ipu_teach import FLOAT, Engine, Graph, InOut, IPUModel, Vector, Vertex
from ipu_teach.program import Execute

class Divides(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        self.x[0] = 1 / 0

graph = Graph(IPUModel(tiles_per_ipu=2).create_device())
x = graph.add_variable(FLOAT, (4,), "x")
graph.set_tile_mapping(x, 0)
cs = graph.add_compute_set("cs")
graph.set_tile_mapping(graph.add_vertex(cs, Divides, {"x": x}), 1)
"""
BUILD = "def build():\n    return Engine(graph, Execute(cs))\nbuild()"


def shown(*cells: str) -> str:
    """What a shell shows of the error of the last of these cells, without colours, and how many
    frames its traceback has."""
    pytest.importorskip("IPython")
    done = subprocess.run(
        [sys.executable, "-c", SHELL, *cells],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).split("-" * 20)[-1]


def test_a_name_that_the_kit_has_not_is_told_below_the_line_that_imports_it() -> None:
    found = shown("1", "from ipu_teach import Grph")
    line, said = found.split("\n\n")[-2:]
    assert line.endswith("----> 1 from ipu_teach import Grph") and "__init__" not in found
    assert said.startswith(
        "NotHereImportError: ipu_teach has no attribute 'Grph'.\n  next:  did you"
    )


def test_an_error_stands_below_the_learners_own_lines() -> None:
    found = shown(GRAPH, 'graph.add_vertex(cs, Divides, {"y": x})')
    assert re.search(
        r"UnknownFieldError +Traceback \(most recent call last\)\n"
        r"(?:Cell )?In ?\[1\], line 1\n"
        r'-+> 1 graph\.add_vertex\(cs, Divides, \{"y": x\}\)\n'
        r"\n"
        r"UnknownFieldError: Divides has no field 'y'\.\n"
        r"  next:  Its fields are x: InOut\[Vector\[FLOAT\]\]\.\n",
        found,
    ), found
    assert int(found.split()[-2]) > 2  # the traceback itself is whole


def test_what_came_up_in_a_codelet_shows_its_line_too() -> None:
    found = shown(GRAPH, BUILD)
    places = re.findall(r"-+> (\d+ .*)|^(\w+Error): |(\.py)", found, re.MULTILINE)
    assert ["".join(place) for place in places] == [
        "8     self.x[0] = 1 / 0",
        "ZeroDivisionError",
        "3 build()",
        "2     return Engine(graph, Execute(cs))",
        "CodeletError",
    ]


def test_who_wants_all_frames_asks_for_them() -> None:
    found = shown("%xmode Verbose", GRAPH, BUILD)
    assert "engine.py" in found and "tracer.py" in found and "3 build()" in found
