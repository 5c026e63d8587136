"""All-reduces within a replica, and the bytes that they send over each link."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ipu_teach import FLOAT, Device, Engine, Graph, IPUModel, Report, Tensor
from ipu_teach.cost.links import route
from ipu_teach.poplibs import gcl, poputil
from ipu_teach.program import Sequence


def tensors_by_ipu(ipus: int, n: int, tensors: int = 1, tiles: int = 13) -> tuple[Graph, Any]:
    """Return a graph, and for each of `tensors` tensors its parts by IPU.

    A part has `n` elements, all equal to the number of its IPU plus 1, mapped to all its tiles.
    """
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=ipus).create_device())
    parts_of = []
    for k in range(tensors):
        parts_of.append([])
        for ipu in range(ipus):
            part = graph.create_virtual_graph(ipu * tiles, (ipu + 1) * tiles)
            tensor = part.add_variable(FLOAT, (n,), f"t{k} on {ipu}")
            poputil.map_tensor_linearly(part, tensor, 1, 1)
            graph.set_initial_value(tensor, float(ipu + 1))
            parts_of[-1].append(tensor)
    return graph, parts_of


def run_and_read(graph: Graph, prog: Sequence, results: list[Tensor]) -> tuple[list[Any], Report]:
    """Run the program; return the values of `results`, and the report."""
    for i, tensor in enumerate(results):
        graph.create_host_read(f"r{i}", tensor)
    engine = Engine(graph, prog)
    engine.load_and_run(Device(graph.target))
    return [engine.read_tensor(f"r{i}") for i in range(len(results))], engine.report


def all_reduce_report(
    ipus: int, n: int, method: str, tensors: int = 1, merged: bool = True, tiles: int = 13
) -> Report:
    """Return the report of an all-reduce in place of the tensors of `tensors_by_ipu`.

    `merged`: one call reduces all tensors, instead of one call each.
    """
    graph, parts_of = tensors_by_ipu(ipus, n, tensors, tiles)
    prog = Sequence()
    for parts in [parts_of] if merged else parts_of:
        gcl.all_reduce_in_place_within_replica(
            graph, parts, "ADD", prog, options={"method": method}
        )
    results, report = run_and_read(graph, prog, [t for parts in parts_of for t in parts])
    assert all(np.all(r == ipus * (ipus + 1) / 2) for r in results)
    return report


def bytes_by_link(report: Report) -> Counter[tuple[int, int]]:
    """Return the bytes sent over each link (from an IPU, to an IPU), added message by message."""
    per_ipu, sizes = report.target.tiles_per_ipu, Counter[tuple[int, int]]()
    for number in report.step_numbers.tolist():
        for sent in report.transfers(number):
            if hasattr(sent, "receivers"):
                for source, size, to in zip(sent.source, sent.size, sent.receivers, strict=True):
                    for ipu in {int(t) // per_ipu for t in to}:
                        for link in route(int(source) // per_ipu, ipu):
                            sizes[link] += int(size)
    return sizes
