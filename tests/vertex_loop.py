"""Run codelets on rows of numbers, on the fast paths and in the plain vertex loop."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np
import pytest
from graphs import Space, contents
from hypothesis import HealthCheck, settings

from ipu_teach import Engine, Graph, IPUModel, Report, Vertex
from ipu_teach.engine import views
from ipu_teach.engine.batch import across_vertices, batch_plan, chunk, threads
from ipu_teach.errors import CodeletError
from ipu_teach.program import Execute, Program, Repeat
from ipu_teach.types import Array

DEVICE = IPUModel(tiles_per_ipu=3).create_device()
RANDOM = np.random.default_rng(7)
RANDOMLY = settings(deadline=None, suppress_health_check=list(HealthCheck))
Outcome = dict[str, Array] | CodeletError


def normal(*shape: int) -> Array:
    """Return numbers of a standard normal distribution in float32."""
    return RANDOM.standard_normal(shape).astype(np.float32)


class CodeletRun:
    """The values of the fields after a run, by name, and the report of the run."""

    def __init__(self, engine: Engine, names: list[str]) -> None:
        self.values = {name: engine.read_tensor(name) for name in names}
        self.report: Report = engine.report

    def __getattr__(self, name: str) -> Any:
        return self.values[name]


def run_codelet(
    codelet: type[Vertex],
    loop: bool,
    /,
    times: int = 1,
    runs: int = 1,
    strict: bool = True,
    **fields: Any,
) -> CodeletRun:
    """Run one vertex for each row of the arrays in `fields`, and return the values after the run.

    The array of an Output is what memory holds before the run. `loop` chooses the plain vertex
    loop instead of the fast paths.
    """
    graph = Graph(DEVICE.target)
    compute_set = graph.add_compute_set()
    tensors = {}
    for name, values in fields.items():
        values = np.asarray(values)
        tensors[name] = graph.add_variable(codelet.fields[name].dtype, values.shape, name)
        graph.set_initial_value(tensors[name], values)
        graph.set_tile_mapping(tensors[name], 0)
        graph.create_host_read(name, tensors[name])
    count = max(len(np.asarray(v)) for v in fields.values())
    graph.add_vertices(compute_set, codelet, np.arange(count) % 3, **tensors)
    engine = Engine(graph, Repeat(times, Execute(compute_set)), strict=strict, vertex_loop=loop)
    engine.load(DEVICE)
    for _ in range(runs):
        engine.run()
    return CodeletRun(engine, list(fields))


def sequential_sum(values: Array) -> Any:
    """Return the sum in the dtype of `values`, added from first to last."""
    total = values.dtype.type(0)
    for value in values:
        total = values.dtype.type(total + value)
    return total


def line_of(codelet: type[Vertex], text: str) -> int:
    """Return the number of the first line of `compute` that contains `text`."""
    lines, first = inspect.getsourcelines(codelet.compute)
    return first + next(i for i, line in enumerate(lines) if text in line)


def float_bits(values: Any) -> list[int]:
    """Return the bits of the values in float32, as unsigned integers."""
    return np.asarray(values, np.float32).view(np.uint32).tolist()


@contextmanager
def small_limits(rng: Random) -> Iterator[None]:
    """Draw small limits for chunks, contiguous runs and windows.

    With these limits, a few vertices take all paths that a million vertices would.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_plan, "CHUNK_BYTES", rng.choice([1, 300, 4096, 524288]))
        least_run = rng.choice([1, 2, 8, 1000])
        patch.setattr(views, "LEAST_RUN", least_run)
        patch.setattr(across_vertices, "LEAST_RUN", least_run)
        patch.setattr(batch_plan, "LANES", rng.choice([1, 3, 4096]))
        patch.setattr(threads, "LEAST_SHARE", rng.choice([1, 2, 256]))
        patch.setattr(chunk, "WINDOW", rng.choice([1, 4, 16, 1000]))
        yield


def contents_or_error(space: Space, program: Program, **options: Any) -> Outcome:
    """Return the values of all variables after a run, or the error of the codelet that failed."""
    try:
        return contents(space, program, **options)
    except CodeletError as error:
        return error
