"""The same run at other rates, and the same program on machines of other sizes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from brute_force import RANDOMLY, random_device, random_space
from codelets import Sum
from graphs import Space, random_copy, random_superstep, random_vector
from hypothesis import given, settings, strategies as st
from libraries import product

from ipu_teach import (
    FLOAT,
    Device,
    Engine,
    Executable,
    Graph,
    InOut,
    IPUModel,
    MultiVertex,
    Output,
    Report,
    Vector,
    Vertex,
    compile_graph,
    sweep,
)
from ipu_teach.errors import InvalidMachineModelError, InvalidOptionError, UnknownMachineFieldError
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence
from ipu_teach.report.summary import summary_text


def random_engine(rng: Random) -> Engine:
    """A random program that has run: compute sets, copies and a stream, some of them repeated."""
    device = random_device(rng, relative_sync_delay=rng.choice(["AUTO", "NO_DELAY"]))
    space = random_space(rng, device)
    leaves: list[Program] = [
        Execute(random_superstep(rng, space).compute_set) for _ in range(rng.randint(1, 3))
    ]
    leaves += [random_copy(rng, space)[0] for _ in range(rng.randrange(3))]
    into = random_vector(rng, space, FLOAT, rng.randint(1, 9), frozenset())
    stream = space.graph.add_host_to_device_fifo("in", FLOAT, into.tensor.num_elements)
    leaves.append(Copy(stream, into.tensor))
    engine = Engine(
        space.graph, Sequence(leaves[0], Repeat(rng.randint(1, 3), Sequence(*leaves))), strict=False
    )
    engine.load(device)
    engine.connect_stream("in", np.zeros(into.tensor.num_elements, np.float32))
    engine.run()
    return engine


def totals(report: Report) -> Any:
    arrays = (
        report.compute_cycles_per_tile,
        report.active_cycles_per_tile,
        report.exchange_cycles_per_tile,
        report.sync_cycles_per_tile,
        *report.exchange_bytes_per_tile,
        report.memory.bytes_per_tile,
    )
    sums = (
        report.total_cycles,
        report.host_exchange_cycles,
        report.global_exchange_cycles,
        report.host_bytes,
    )
    return (
        [a.tolist() for a in arrays],
        sums,
        [(s.kind, s.name, s.start, s.cycles) for s in report.steps()],
    )


@settings(RANDOMLY, max_examples=40)
@given(st.randoms(use_true_random=False))
def test_nothing_changed_is_the_same_report(rng: Random) -> None:
    report = random_engine(rng).report
    before = totals(report)
    assert totals(report.what_if()) == before == totals(report)
    slower = report.what_if(exchange_bytes_per_cycle=1, host_bytes_per_second=1e6)
    assert totals(report) == before
    # There and back again.
    target = report.target
    back = slower.what_if(
        exchange_bytes_per_cycle=target.exchange_bytes_per_cycle,
        host_bytes_per_second=target.host_bytes_per_second,
    )
    assert totals(back) == before and back.target == target


@settings(RANDOMLY, max_examples=30)
@given(st.randoms(use_true_random=False))
def test_the_phases_of_every_tile_are_the_total(rng: Random) -> None:
    report = random_engine(rng).report
    total = sum(step.cycles for step in report.steps())
    assert (
        report.total_cycles == total
        if report.target.num_ipus == 1
        else report.total_cycles <= total
    )
    for step in report.steps():
        cost = step.cost
        device = (
            cost.sync_cycles
            + cost.exchange_duration
            + cost.global_exchange_cycles
            + cost.compute_duration
        )
        assert step.cycles == device + cost.host_cycles
        assert np.all(cost.exchange_cycles <= cost.exchange_duration)
        phases = [found.tile_cycles(report.target) for found in cost.exchange]
        # words that left, and 54 cycles on their way
        last = [max(t.sent) / 4 + 54 if t.total else 0 for t in cost.exchange]
        assert cost.exchange_duration >= sum(
            max(int(phase.max()), word) for phase, word in zip(phases, last, strict=True)
        )
        assert np.array_equal(
            cost.exchange_cycles, sum(phases, np.zeros(report.target.num_tiles, np.int64))
        )
    by_tile = (
        report.compute_cycles_per_tile
        + report.exchange_cycles_per_tile
        + report.sync_cycles_per_tile
    )
    links = sum(report.link_cycles_per_tile.values(), np.zeros_like(by_tile))
    assert (by_tile + links == report.total_cycles).all()
    assert (report.sync_cycles_per_tile >= 0).all() and sum(report.proportions.values()) == (
        pytest.approx(1 if report.total_cycles else 0)
    )


FASTER: dict[str, Any] = {
    "exchange_bytes_per_cycle": 8,
    "host_bytes_per_second": 20.2e9,
    "link_bytes_per_cycle": 1e6,
    "rail_bytes_per_cycle": 1e6,
    "memcpy_bytes_per_cycle": 16,
    "min_ipu_sync_delay": 0,
    "auto_sync_delay": 0,
    "relative_sync_delay": "NO_DELAY",
    "global_sync_cycles": 0,
    "exchange_latency_cycles": 0,
    "exchange_cycles_per_row": 0,
    "exchange_setup_instructions": 0,
    "shared_bus_speedup": 4,
    "data_path_width": 128,
    "global_sync_seconds_per_hop": 0.0,
}


@settings(RANDOMLY, max_examples=60)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(FASTER)))
def test_a_faster_rate_never_makes_a_step_slower(rng: Random, field: str) -> None:
    report = random_engine(rng).report
    quick = report.what_if(**{field: FASTER[field]})
    for before, after in zip(report.steps(), quick.steps(), strict=True):
        assert after.cycles <= before.cycles
    assert quick.total_cycles <= report.total_cycles
    assert quick.total_seconds <= report.total_seconds


def test_a_wider_exchange_by_hand() -> None:
    """400 bytes to one tile: 54 + 100 cycles at 4 bytes a cycle, 54 + 50 at 8; and at twice the
    clock, half the time."""
    space = Space(IPUModel(tiles_per_ipu=2).create_device(), Random(0))
    x, y = space.variable(FLOAT, (100,)), space.variable(FLOAT, (100,))
    space.map(x, 0)
    space.map(y, 1)
    engine = Engine(space.graph, Copy(x.tensor, y.tensor))
    engine.load_and_run(space.device)
    report = engine.report
    assert report.total_cycles == 100 + 154
    assert report.what_if(exchange_bytes_per_cycle=8).total_cycles == 100 + 104
    assert report.what_if(relative_sync_delay="NO_DELAY").total_cycles == 154
    quick = report.what_if(tile_clock_frequency=2 * report.target.tile_clock_frequency)
    assert quick.total_cycles == 254 and quick.total_seconds == pytest.approx(
        report.total_seconds / 2
    )
    assert report.what_if(memory_bytes_per_tile=200).target.bytes_per_tile == 200


class Halves(MultiVertex):
    """Each worker writes its share of the vector."""

    out: Output[Vector[FLOAT]]

    def compute(self, worker_id: int) -> None:
        for i in range(worker_id, len(self.out), self.num_workers):
            self.out[i] = 1


def test_workers_divide_their_work_anew() -> None:
    """12 elements: 6 workers store 2 each, 12 store one, 3 store 4. 5 cycles to start; a worker
    issues every so many; and the supervisor launches them in 11."""
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    out = graph.add_variable(FLOAT, 12, "out")
    x, total = graph.add_constant(FLOAT, 8, 1), graph.add_variable(FLOAT, 4)
    for tensor in (out, x, total):
        graph.set_tile_mapping(tensor, 0)
    divided, shared = graph.add_compute_set("divided"), graph.add_compute_set("shared")
    graph.set_tile_mapping(graph.add_vertex(divided, Halves, out=out), 0)
    for i in range(4):
        v = graph.add_vertex(shared, Sum, x=x, out=total[i])
        graph.set_tile_mapping(v, 0)
        graph.set_perf_estimate(v, 10)
    engine = Engine(graph, Sequence(Execute(divided), Execute(shared)))
    engine.load_and_run(device)

    def cycles(report: Report) -> list[int]:
        return [int(profile.cycles_per_tile[0]) for profile in report.compute_sets]

    assert cycles(engine.report) == [6 * (5 + 2) + 11, 6 * 10]
    assert cycles(engine.report.what_if(num_worker_contexts=12)) == [12 * (5 + 1) + 11, 12 * 10]
    assert cycles(engine.report.what_if(num_worker_contexts=3)) == [3 * (5 + 4) + 11, 3 * 20]
    assert cycles(engine.report) == [53, 60]


@pytest.mark.parametrize("name", ["num_tiles", "tiles_per_ipu", "num_ipus"])
def test_another_size_is_refused(name: str) -> None:
    report = random_engine(Random(3)).report
    with pytest.raises(InvalidMachineModelError) as caught:
        report.what_if(**{name: 4})
    assert str(caught.value) == (
        f"what_if() cannot change {name}: the program was compiled for "
        f"{getattr(report.target, name)}.\n  next:  call sweep(build, num_tiles=[…]), which "
        "compiles for each number of tiles."
    )


def test_other_changes_that_are_refused() -> None:
    report = random_engine(Random(3)).report
    with pytest.raises(InvalidMachineModelError) as caught:
        report.what_if(host_packet_bytes=64)
    assert str(caught.value) == (
        "what_if() cannot change host_packet_bytes: the program was compiled for 1,024.\n"
        "  next:  compile the program for another machine: IPUModel('ipu2', host_packet_bytes=…)."
    )
    with pytest.raises(UnknownMachineFieldError) as unknown:
        report.what_if(exchange_bytes_per_cycles=8)
    assert str(unknown.value).startswith(
        "A machine has no field 'exchange_bytes_per_cycles'.\n  next:  did you mean "
        "'exchange_bytes_per_cycle'? "
    )
    with pytest.raises(InvalidMachineModelError) as value:
        report.what_if(tile_clock_frequency=0)
    assert str(value.value).startswith(
        "A model cannot have tile_clock_frequency = 0.\n  next:  give a number from 1 to "
    )


# --- sizes ----------------------------------------------------------------------------------------


def test_a_sweep_builds_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    found = sweep(product, num_tiles=[1, 4, 16], relative_sync_delay="NO_DELAY")
    assert found.num_tiles == (1, 4, 16) and len(found) == 3 and found.fits == (True,) * 3
    assert [r.target.num_tiles for r in found.reports] == [1, 4, 16] == [n for n, _ in found]
    for count, report in found:
        device = IPUModel(tiles_per_ipu=count, relative_sync_delay="NO_DELAY").create_device()
        engine = Engine(*product(device))
        engine.load_and_run(device)
        assert totals(report) == totals(engine.report)
    one, four, sixteen = found.rows()
    assert one[0] == "1" and one[-1] == "1.00x" and sixteen[0] == "16"
    assert four[1] == f"{found.reports[1].total_cycles:,.0f}"
    assert float(sixteen[-1][:-1]) == pytest.approx(
        found.reports[0].total_cycles / found.reports[2].total_cycles, abs=0.01
    )
    lines = repr(found).splitlines()
    assert (
        lines[0].split("  ")[0] == "tiles"
        and len(lines) == 4
        and lines[3].lstrip().startswith("16")
    )
    page = found._repr_html_()
    assert page.count("<tr>") == 4 and '<th scope="row">16</th>' in page and "Modelled" in page
    assert capsys.readouterr().out == ""


def test_what_a_sweep_may_be_given() -> None:
    def engine(device: Device) -> Engine:
        return Engine(*product(device))

    def executable(device: Device) -> Executable:
        return compile_graph(*product(device))

    def report(device: Device) -> Report:
        made = engine(device)
        made.load_and_run(device)
        return made.report

    def ran_twice(device: Device) -> Engine:
        made = engine(device)
        made.load_and_run(device)
        made.run()
        return made

    once = [
        totals(sweep(build, [2], progress=False).reports[0])
        for build in (product, engine, executable, report)
    ]
    assert once[0] == once[1] == once[2] == once[3]
    twice = sweep(ran_twice, (2,), progress=False, version="bow")
    assert (
        twice.reports[0].num_steps == 2 * len(once[0][2])
        and twice.reports[0].target.ipu_version == "bow"
    )


def test_a_size_that_does_not_fit_is_a_row() -> None:
    found = sweep(product, [1, 64], memory_bytes_per_tile=20_000, progress=False)
    assert found.fits == (False, True)
    small, large = found.rows()
    assert small[1] == "does not fit" and small[-1] == "" and large[-1] == "1.00x"
    assert float(small[-2][:-1]) > 100 and found.reports[0].num_steps == 0
    assert "does not fit" in repr(found)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            (3, [1]),
            "sweep() was given 3, which is not a function.\n  next:  give a function of a device that "
            "returns (graph, program) or an Engine.",
        ),
        (
            (product, []),
            "sweep() was given [] as the numbers of tiles.\n  next:  give a list of whole numbers "
            "from 1, as in num_tiles=[13, 46, 1472].",
        ),
        ((product, [0]), "sweep() was given [0] as the numbers of tiles.\n"),
        ((product, 13), "sweep() was given 13 as the numbers of tiles.\n"),
        ((product, {13}), "sweep() was given {13} as the numbers of tiles.\n"),
        ((product, [True]), "sweep() was given [True] as the numbers of tiles.\n"),
        (
            (lambda device: 5, [1]),
            "The function given to sweep() returned 5.\n  next:  return (graph, program), an "
            "Engine, an Executable or a Report.",
        ),
    ],
)
def test_bad_sweeps(arguments: tuple[Any, Any], text: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        sweep(*arguments, progress=False)
    assert str(caught.value).startswith(text)


class Scaled(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x = self.x * 2 + self.x


class ScaledIf(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        if self.x[0] == 1:
            self.x = self.x * 2 + self.x


COMPILED, BY_HAND = {"codelet_prices": "compiled"}, {"codelet_prices": "by hand"}


def scaled(codelet: type[Vertex]) -> tuple[Graph, Execute, Device]:
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, 40, "x")
    graph.set_initial_value(x, 1)
    graph.set_tile_mapping(x, 0)
    compute_set = graph.add_compute_set("scaled")
    graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, x=x), 0)
    return graph, Execute(compute_set), device


def test_codelets_of_ones_own_at_two_prices() -> None:
    """20 data paths: compiled 5 + 6 for the loop + a load, a product, a sum, a store each; by hand
    the product alone."""
    graph, program, device = scaled(Scaled)

    def found(engine: Engine) -> tuple[int, Report]:
        engine.load_and_run(device)
        assert "Codelets of your own are priced:" in summary_text(engine.report, ["Execution"])
        assert summary_text(engine.report).count(engine.report.target.codelet_prices) == 1
        return engine.report.compute_sets[0].cost.compute_duration, engine.report

    compiled, report = found(Engine(graph, program))
    by_hand, other = found(Engine(graph, program, BY_HAND))
    assert (compiled, by_hand) == (6 * (5 + 6 + 20 * 4), 6 * (5 + 20))
    assert report.what_if(**BY_HAND).digest() == other.digest() != report.digest()
    assert report.what_if(**BY_HAND).what_if(**COMPILED).digest() == report.digest()
    saved = compile_graph(graph, program, BY_HAND).serialize()
    opened = Executable.deserialize(saved, codelets=[Scaled])
    assert found(Engine(opened))[0] == by_hand
    assert found(Engine(opened, COMPILED))[0] == compiled
    assert Report.deserialize(other.serialize()).target.codelet_prices == "by hand"


def test_cycles_that_were_counted_in_a_run_keep_their_prices() -> None:
    graph, program, device = scaled(ScaledIf)
    engine = Engine(graph, program)
    engine.load_and_run(device)
    assert engine.report.total_cycles > 0
    with pytest.raises(InvalidMachineModelError) as caught:
        engine.report.what_if(**BY_HAND)
    assert str(caught.value) == (
        "what_if() cannot change codelet_prices in this report, because cycles depend on data and "
        "were counted during the run.\n  next:  run the program again: Engine(graph, program, "
        "options={\"codelet_prices\": 'by hand'})."
    )
