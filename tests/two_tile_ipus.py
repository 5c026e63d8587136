"""Programs on IPUs of two tiles, whose times can be computed by hand."""

from __future__ import annotations

from typing import Any

from ipu_teach import FLOAT, Engine, Graph, InOut, IPUModel, Report, Tensor, Vertex
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence


class Busy(Vertex):
    x: InOut[FLOAT]

    def compute(self) -> None:
        self.x = self.x + 1


class TwoTileMachine:
    """IPUs of two tiles with a number on each, a clock of 1 GHz, and host links of 4 bytes a cycle."""

    def __init__(self, ipus: int = 2, **fields: Any) -> None:
        model = IPUModel(
            tiles_per_ipu=2,
            num_ipus=ipus,
            tile_clock_frequency=1e9,
            host_bytes_per_second=4e9,
            streaming_bytes_per_second=4e9,
            **fields,
        )
        self.device = model.create_device()
        self.graph = Graph(self.device)
        self.numbers = self.variable("numbers", *range(2 * ipus))
        self.graph.set_initial_value(self.numbers, 1)

    def variable(self, name: str, *tiles: int, each: int = 1, dtype: Any = FLOAT) -> Tensor:
        """Return a variable of `each` elements on every one of `tiles`."""
        tensor = self.graph.add_variable(dtype, (len(tiles) * each,), name)
        for i, tile in enumerate(tiles):
            self.graph.set_tile_mapping(tensor[i * each : (i + 1) * each], tile)
        return tensor

    def work(self, name: str, **cycles: int) -> Execute:
        """Return a compute set with one vertex on each of the tiles `t0`, `t1` and so on.

        The values are worker cycles. A tile with one vertex takes six times as many.
        """
        graph = self.numbers.graph
        cs = graph.add_compute_set(name)
        for key, count in cycles.items():
            tile = int(key[1:])
            v = graph.add_vertex(cs, Busy, x=self.numbers[tile])
            graph.set_tile_mapping(v, tile)
            graph.set_perf_estimate(v, count)
        return Execute(cs)

    def run(self, *programs: Program, runs: int = 1, **streams: Any) -> Report:
        """Run the programs; return the report, which must be the same after saving and opening."""
        engine = Engine(self.graph, Sequence(*programs))
        engine.load(self.device)
        for name, values in streams.items():
            engine.connect_stream(name, values)
        for _ in range(runs):
            engine.run()
        opened = Report.deserialize(engine.report.serialize())
        assert times(opened) == times(engine.report) and opened.digest() == engine.report.digest()
        return engine.report


def times(report: Report) -> list[tuple[Any, ...]]:
    """Return for each step its name, and (IPU, start, end) for each IPU that takes part."""
    return [
        (s.name, *((k, i.start, i.start + i.cycles) for k, i in enumerate(s.ipus) if i.cycles))
        for s in report.steps()
    ]


def uneven_ipus() -> Report:
    """Run two iterations of uneven work on two IPUs, and return the report.

    An iteration is 160 cycles on IPU 0 and 400 on IPU 1, an inter-IPU copy of 773 cycles, then 220
    cycles on IPU 0 and 130 on IPU 1.
    """
    machine = TwoTileMachine()
    body = Sequence(
        machine.work("quick", t0=10),
        machine.work("slow", t2=50),
        Copy(machine.numbers[0], machine.numbers[2]),
        machine.work("both", t1=20, t3=5),
    )
    return machine.run(Repeat(2, body))
