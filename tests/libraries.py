"""What the tests of PopLibs share: one library call on host arrays, and comparison with numpy in
double precision."""

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
    """(values of what `build(graph, prog, *tensors)` returns, the report). The tensors are mapped
    linearly."""
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph, prog, tensors = Graph(device), Program(), []
    for values, dtype in given:
        tensor = graph.add_variable(dtype, np.shape(values))
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, values)
        tensors.append(tensor)
    built = build(graph, prog, *tensors)
    made = [built] if isinstance(built, Tensor) else list(built)
    for i, tensor in enumerate(made):
        graph.create_host_read(f"result {i}", tensor)
    engine = Engine(graph, prog, options=options or {}, vertex_loop=vertex_loop)
    engine.load(device)
    for _ in range(times):
        engine.run()
    return [engine.read_tensor(f"result {i}") for i in range(len(made))], engine.report


def product(device: Device) -> tuple[Graph, Program]:
    """A product of two matrices of 64 by 64, mapped linearly, as a sweep builds it for each
    machine."""
    graph = Graph(device)
    a, b = (graph.add_variable(FLOAT, (64, 64), name) for name in "ab")
    for tensor in (a, b):
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, 1)
    program = Program()
    poplin.mat_mul(graph, a, b, program)
    return graph, program


def value(build: Callable[..., Built], *given: Given, **how: Any) -> Array:
    """The value of the one tensor that `build` returns."""
    return run(build, *given, **how)[0][0]


def both_ways(build: Callable[..., Built], *given: Given, tiles: int = 13) -> Array:
    """The value, the same in batches and vertex by vertex. Both cost the same, and every vertex
    something that is known."""
    ran = [run(build, *given, tiles=tiles, vertex_loop=loop) for loop in (False, True)]
    (fast, report), (slow, other) = ((found[0], its) for found, its in ran)
    assert fast.dtype == slow.dtype and fast.tobytes() == slow.tobytes()
    assert report.total_cycles == other.total_cycles and not report.unknown_codelets
    return fast


def ulps_of_half(got: Array, wanted: Array) -> Array:
    """How many halves apart `got` (float16) and the rounding of `wanted` (float64) are."""

    def number(x: Array) -> Array:
        bits = np.asarray(x, np.float16).view(np.int16).astype(np.int64)
        return np.where(bits < 0, -32768 - bits, bits)

    return np.abs(number(got) - number(wanted.astype(np.float16)))


def torch() -> Any:
    """PyTorch; where it is missing the test is skipped, with a reason that `IPU_TEACH_REQUIRE` may
    forbid."""
    return pytest.importorskip("torch", reason="the extra torch is not installed")
