"""Run single calls of PopLibs on host arrays, and compare the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ipu_teach import FLOAT, Device, Engine, Graph, IPUModel, Tensor
from ipu_teach.poplibs import poplin, poputil
from ipu_teach.program import Sequence as Program
from ipu_teach.report import Report
from ipu_teach.types import Array, DType

Given = tuple[Any, type[DType]]
Built = Tensor | Sequence[Tensor]


def run(
    build: Callable[..., Built],
    *given: Given,
    tiles: int = 13,
    times: int = 1,
    options: dict[str, Any] | None = None,
    vertex_loop: bool = False,
) -> tuple[list[Array], Report]:
    """Run the program that `build(graph, prog, *tensors)` appends to `prog`.

    Return the values of the tensors that `build` returns, and the report. `given` has the values and
    the dtype of each tensor; they are mapped linearly.
    """
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device)
    prog = Program()
    tensors: list[Tensor] = []
    for values, dtype in given:
        tensor = graph.add_variable(dtype, np.shape(values))
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, values)
        tensors.append(tensor)
    built = build(graph, prog, *tensors)
    results = [built] if isinstance(built, Tensor) else list(built)
    for i, tensor in enumerate(results):
        graph.create_host_read(f"result {i}", tensor)
    engine = Engine(graph, prog, options=options or {}, vertex_loop=vertex_loop)
    engine.load(device)
    for _ in range(times):
        engine.run()
    return [engine.read_tensor(f"result {i}") for i in range(len(results))], engine.report


def product(device: Device) -> tuple[Graph, Program]:
    """Return a graph and a program with the product of two 64 x 64 matrices, for sweeps."""
    graph = Graph(device)
    a, b = (graph.add_variable(FLOAT, (64, 64), name) for name in "ab")
    for tensor in (a, b):
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, 1)
    program = Program()
    poplin.mat_mul(graph, a, b, program)
    return graph, program


def value(build: Callable[..., Built], *given: Given, **options: Any) -> Array:
    """Return the value of the single tensor that `build` returns; `options` as for `run`."""
    return run(build, *given, **options)[0][0]


def both_ways(build: Callable[..., Built], *given: Given, tiles: int = 13) -> Array:
    """Return the value of a call, after a check that the vertex loop gives the same.

    Bits and cycles are equal, and the cycles of every vertex are known.
    """
    (fast, *_), report = run(build, *given, tiles=tiles)
    (slow, *_), slow_report = run(build, *given, tiles=tiles, vertex_loop=True)
    assert fast.dtype == slow.dtype and fast.tobytes() == slow.tobytes()
    assert report.total_cycles == slow_report.total_cycles and not report.unknown_codelets
    return fast


def ulps_of_half(got: Array, wanted: Array) -> Array:
    """Return the distance of `got` from `wanted` in steps of float16; `wanted` is rounded first."""

    def number(x: Array) -> Array:
        bits = np.asarray(x, np.float16).view(np.int16).astype(np.int64)
        return np.where(bits < 0, -32768 - bits, bits)

    return np.abs(number(got) - number(wanted.astype(np.float16)))


def torch() -> Any:
    """Return PyTorch, or skip the test; `IPU_TEACH_REQUIRE` may forbid the reason."""
    return pytest.importorskip("torch", reason="the extra torch is not installed")
