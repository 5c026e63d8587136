"""Simulate heat on a plate of 2,048 x 2,048 points for 1,000 steps on a full chip.

The benchmark compares the time with numpy's, and measures the memory. `python -m bench.heat` builds
and runs the program. It prints by how much Python's peak memory rises, as a multiple of the bytes
of a plate.
"""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.kernels import floats
from bench.measure import ROOT, Row, Work
from ipu_teach.device import IPUModel
from ipu_teach.engine import Engine
from ipu_teach.graph import Graph, Input, Output, Vector, Vertex
from ipu_teach.program import Execute, Repeat, Sequence
from ipu_teach.types import FLOAT, Array

SIZE, STEPS = 2048, 1000
# The number of steps in the short run. A step takes as long as in the long run.
FEW = 50
# The plate's inner points are divided into DOWN x ACROSS parts. Each part is computed by its own
# vertex, and each tile has WORKERS vertices.
DOWN, ACROSS, WORKERS = 276, 32, 6
# In each step, a point keeps 0.6 of its heat, and passes 0.1 to each of its four neighbours.
KEPT, PASSED = np.float32(0.6), np.float32(0.1)


class Heat(Vertex):
    """Computes a part of the plate; it reads one more row or column on each side."""

    x: Input[Vector[Vector[FLOAT]]]
    y: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        x = self.x
        beside = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        self.y = x[1:-1, 1:-1] * KEPT + beside * PASSED


def cut(parts: int) -> list[tuple[slice, slice, slice]]:
    """Return three slices for each of `parts` nearly equal parts of the plate along one axis.

    For each part they are (slice stored on the vertex's tile, slice that the vertex reads, slice
    that the vertex computes).
    """
    found = []
    for begin, end in pairwise(np.linspace(1, SIZE - 1, parts + 1).astype(int).tolist()):
        stored = slice(begin if begin > 1 else 0, end if end < SIZE - 1 else SIZE)
        found.append((stored, slice(begin - 1, end + 1), slice(begin, end)))
    return found


def plate(steps: int) -> Engine:
    """Return an engine that alternates between two plates; `steps` must be even.

    The host reads the result as "plate".
    """
    device = IPUModel().create_device()
    graph, there_and_back = Graph(device), Sequence()
    places = [
        (tuple(zip(rows, columns, strict=True)), i // WORKERS * ACROSS + j)
        for i, rows in enumerate(cut(DOWN))
        for j, columns in enumerate(cut(ACROSS))
    ]
    now, then = (graph.add_variable(FLOAT, (SIZE, SIZE), name) for name in ("now", "then"))
    for old, new in ((now, then), (then, now)):
        graph.set_initial_value(old, floats(SIZE, SIZE))
        step = graph.add_compute_set("step")
        for (stored, read, written), tile in places:
            graph.set_tile_mapping(old[stored], tile)
            vertex = graph.add_vertex(step, Heat, x=old[read], y=new[written])
            graph.set_tile_mapping(vertex, tile)
        there_and_back.add(Execute(step))
    graph.create_host_read("plate", now)
    engine = Engine(graph, Repeat(steps // 2, there_and_back), backend="numpy")
    engine.load(device)
    return engine


def in_numpy(now: Array, then: Array, steps: int) -> None:
    """Compute `steps` steps from the plate `now`; `now` and `then` store the results in turn."""
    for _ in range(steps):
        beside = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
        then[1:-1, 1:-1] = now[1:-1, 1:-1] * KEPT + beside * PASSED
        now, then = then, now


def running(steps: int = FEW) -> tuple[Work, Work]:
    """Return two functions to time: `steps` steps in the engine, and the same steps in numpy."""
    warm, other = floats(SIZE, SIZE), floats(SIZE, SIZE)
    return plate(steps).run, lambda: in_numpy(warm, other, steps)


def memory() -> float | str:
    """Return the peak memory of all steps, or the reason why it was not measured.

    The unit is the memory of one plate. The peak is measured in a separate process, without the
    memory of Python and this project.
    """
    words = [sys.executable, "-m", "bench.heat"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout) if done.stdout else "this system does not say how much it was"


def main() -> None:
    """Run all steps, and print their peak memory as a multiple of a plate."""
    status = Path("/proc/self/status")  # The peak in `resource` would include the parent process.
    if status.exists():

        def most() -> int:
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))
            return 1024 * int(found[1]) if found else 0

        before = most()
        plate(STEPS).run()
        print((most() - before) / (4 * SIZE * SIZE))


ROWS = [
    Row("h1", "heat on a plate of 2,048 x 2,048, 1,472 tiles", "numpy", 5, running),
    Row("h2", "the most memory of 1,000 steps of it", "a plate", 10, memory),
]

if __name__ == "__main__":
    main()
