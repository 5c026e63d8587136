"""Chains of causes: their figures by hand, from programs whose cycles and bytes one can count."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import Tags

from ipu_teach import (
    FLOAT,
    INT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Report,
    Vector,
    Vertex,
    show,
)
from ipu_teach.errors import GraphMemoryAllocationError, InvalidOptionError, PoplarIndexError
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.report import Why
from ipu_teach.show.report_facts import CAUSE
from ipu_teach.show.scene import Cells
from tests.browser import programs


class Busy(Vertex):
    """Adds one; how long that takes is set."""

    value: InOut[FLOAT]

    def compute(self) -> None:
        self.value = self.value + 1


def crowded(rounds: int = 1, cycles: int = 100) -> Report:
    """Six vertices on each of nine tiles, and nine on the last, of 100 cycles each: six workers
    take two turns there."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=10).create_device().target)
    values = graph.add_variable(FLOAT, (63,), "values")
    graph.set_initial_value(values, 0.0)
    work = graph.add_compute_set("work")
    for i in range(63):
        tile = min(i // 6, 9)
        graph.set_tile_mapping(values[i], tile)
        vertex = graph.add_vertex(work, Busy, value=values[i])  # crowded
        graph.set_tile_mapping(vertex, tile)
        graph.set_perf_estimate(vertex, cycles if tile else cycles // 2)
    return ran(graph, Repeat(rounds, Execute(work)))


def test_workers_without_a_vertex_are_counted() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target)
    values = graph.add_variable(FLOAT, (4,), "values")
    graph.set_initial_value(values, 0.0)
    work = graph.add_compute_set("work")
    graph.set_tile_mapping(values, 0)
    for i in range(4):
        vertex = graph.add_vertex(work, Busy, value=values[i])
        graph.set_tile_mapping(vertex, 0)
        graph.set_perf_estimate(vertex, 50)
    assert texts(ran(graph, Execute(work)).why(0))[3] == (
        "6 workers share the vertices, and 2 workers have no vertex. Each worker runs in every 6th "
        "cycle of the tile, and the busiest needs 50 such cycles."
    )


def ran(graph: Graph, program: Any) -> Report:
    engine = Engine(graph, program)
    engine.load(IPUModel("ipu2", tiles_per_ipu=graph.target.num_tiles).create_device())
    engine.run()
    return engine.report


def texts(chain: Why) -> list[str]:
    return [cause.text for cause in chain.causes]


HERE = Path(__file__).read_text(encoding="utf-8").splitlines()
LINE = next(i for i, line in enumerate(HERE, 1) if line.endswith("# crowded"))


def test_a_step_is_long_because_a_tile_has_more_vertices() -> None:
    report = crowded()
    chain, sync = report.why(0), report.target.internal_sync_cycles
    assert repr(chain).splitlines() == [
        "Why step 0 takes so long:",
        f"  1. Execute 'work' takes {sync + 1200:,} modelled cycles: compute is 1,200 of them.",
        "  2. It lasts until its slowest tile is done: tile 9 takes 1,200 cycles, and the median "
        "tile 600.",
        "  3. Tile 9 executes 9 vertices of Busy; the median tile has 6.",
        "  4. 6 workers share the vertices. Each worker runs in every 6th cycle of the tile, and the "
        "busiest needs 200 such cycles.",
        f"  5. This work is added by test_why.py, line {LINE}: {HERE[LINE - 1].strip()}.",
        f"  6. It is on tile 9 because of test_why.py, line {LINE + 1}: "
        "graph.set_tile_mapping(vertex, tile).",
    ]
    assert chain.tiles == (9,) and chain.causes[-2].line.startswith(
        f"test_why.py, line {LINE}: vertex = "
    )
    assert texts(report.why("work")) == texts(report.why(report.steps()[0])) == texts(chain)


def test_of_several_lines_that_map_vertices_the_latest_counts() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device())
    work, values = graph.add_compute_set("work"), graph.add_variable(FLOAT, (8,), "values")
    graph.set_tile_mapping(values, 0)
    graph.set_initial_value(values, 1)
    vertices = [graph.add_vertex(work, Busy, value=values[i]) for i in range(6)]
    for vertex in vertices:
        graph.set_perf_estimate(vertex, 60)
        graph.set_tile_mapping(vertex, 0)  # first
    more = graph.add_vertices(work, Busy, [1, 1], value=values[6:])
    graph.set_perf_estimate(more, 60)
    for vertex in (vertices[5], vertices[1], vertices[0]):  # in no order
        graph.set_tile_mapping(vertex, 2)  # later
    found = ran(graph, Execute(work)).profile.lines_on
    placed = {tile: found(0, tile)[1].rpartition("#")[2].strip() for tile in range(3)}
    # whoever adds many says where: one line does both
    assert placed == {0: "first", 1: "", 2: "later"}
    graph.set_tile_mapping(more, [3, 3])  # all at once
    assert ran(graph, Execute(work)).profile.lines_on(0, 3)[1].endswith("# all at once")


def test_the_run_and_its_waiting() -> None:
    report = crowded(rounds=5)
    total = 5 * (report.target.internal_sync_cycles + 1200)
    # Tile 0 works 300, eight tiles 600, tile 9 works 1,200: on average they wait (900 + 8 x 600) /
    # 10.
    share = f"{100 * 5 * 570 / total:.1f} %"
    assert (
        texts(report.why())[0]
        == f"Execute 'work' takes {total // 5:,} modelled cycles: compute is 1,200 of them."
    )
    assert texts(report.why("waiting"))[:3] == [
        f"{share} of the tiles' modelled time is waiting for other tiles.",
        f"Most of it, {share} of all time, is spent in Execute 'work', which ran 5 times.",
        "It lasts until its slowest tile is done: tile 9 takes 1,200 cycles, and the median tile "
        "600.",
    ]
    assert texts(report.why(tile=0))[:2] == [
        f"Tile 0 waits for other tiles for 4,500 of {total:,} modelled cycles.",
        "It waits longest in Execute 'work', which ran 5 times, where it finishes its compute "
        "after 300 cycles.",
    ]
    assert report.why(tile=0).tiles == (0, 9)
    assert (
        texts(report.why(3, tile=0))[0]
        == f"Tile 0 waits for other tiles for 900 of {total // 5:,} modelled cycles."
    )
    assert texts(report.why(tile=9)) == [
        f"Tile 9 waits for other tiles for 0 of {total:,} modelled cycles."
    ]


def test_a_longer_vertex_is_a_cause_and_one_as_long_is_none() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=3).create_device().target)
    values, out = graph.add_variable(FLOAT, (3,), "values"), graph.add_compute_set("work")
    graph.set_initial_value(values, 0.0)
    for tile, cycles in enumerate((40, 50, 900)):
        graph.set_tile_mapping(values[tile], tile)
        vertex = graph.add_vertex(out, Busy, value=values[tile])
        graph.set_tile_mapping(vertex, tile)
        graph.set_perf_estimate(vertex, cycles)
    assert texts(ran(graph, Execute(out)).why("work"))[2] == (
        "Tile 2 executes 1 vertex of Busy; its longest vertex takes 900 cycles, and that of the "
        "median tile 50."
    )
    assert (
        texts(crowded(cycles=0).why(0))[1]
        == "A sync takes equally long after any work, and all tiles wait."
    )


def test_an_exchange_is_long_because_a_tile_receives_most() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=5).create_device().target)
    source, to = (
        graph.add_variable(FLOAT, (5, 400), "source"),
        graph.add_variable(FLOAT, (900,), "to"),
    )
    graph.set_initial_value(source, 1.0)
    for tile in range(5):
        graph.set_tile_mapping(source[tile], tile)
    graph.set_tile_mapping(to, 4)
    report = ran(graph, Copy(source.flatten()[:900], to))
    chain = report.why(0)
    assert (
        texts(chain)[2]
        == "It receives 3,600 bytes, and the median tile 0. Most of its bytes, 1,600, come from tile "
        "0."
    )
    assert texts(chain)[1].startswith("It lasts until its slowest tile is done: tile 4 takes ")
    assert chain.tiles == (0, 4) and texts(chain)[3].startswith(
        "This data movement is caused by test_why.py, line "
    )


def test_the_host_is_a_cause() -> None:
    chain = programs.uneven().why(0)
    assert (
        texts(chain)[1] == f"{26 * 64 * 4:,} bytes cross the link to the host, and all tiles wait."
    )


def too_large() -> Graph:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device().target)
    for tile, kib in enumerate((10, 100, 300, 700)):
        # too large
        graph.set_tile_mapping(graph.add_variable(FLOAT, (kib * 256,), f"part {tile}"), tile)
    return graph


def test_why_memory_is_full() -> None:
    with pytest.raises(GraphMemoryAllocationError) as caught:
        Engine(too_large(), Sequence())
    line = next(i for i, text in enumerate(HERE, 2) if text.endswith("# too large"))
    chain = caught.value.why()
    assert texts(chain)[:3] == [
        "Tile 3 holds 716,928 of 638,976 bytes, 77,952 more than it has; the median tile holds "
        "204,928.",
        "Most of it is 'part 3': 716,800 bytes. In total, 'part 3' has 716,800 bytes on 1 of 4 "
        "tiles.",
        "It is live from the first step to the last of the programs.",
    ]
    assert texts(chain)[3].startswith(f"It is added by test_why.py, line {line}: ")
    assert chain.question == "Why tile 3 is as full as it is:" and chain.tiles == (3,)
    report = caught.value.report
    assert texts(report.why(caught.value)) == texts(report.why("memory")) == texts(chain)
    assert (
        texts(report.why("memory", tile=0))[0]
        == "Tile 0 holds 10,368 of 638,976 bytes; the median tile holds 204,928."
    )
    assert texts(crowded().why("memory"))[1].startswith("Most of it is for stacks: ")


def test_an_error_without_a_report_says_so() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        GraphMemoryAllocationError("The remote buffers take too much.").why()
    assert str(caught.value) == (
        "This error has no report, because it stopped the compiler.\n  next:  read its text: print(error)."
    )


@pytest.mark.parametrize(
    "report", [crowded(3), programs.uneven(), programs.some_wait(64), programs.branching()[0]]
)
def test_every_figure_of_a_chain_is_the_reports(report: Report) -> None:
    """The cycles that a chain names for a phase, a tile and the median are those of the report's
    phases."""
    for index, step in enumerate(report.steps()[:12]):
        chain = report.why(index)
        phases = report.phases(step.step)
        longest = max(phases, key=lambda p: p.cycles)
        found = re.match(
            r".* takes ([\d,]+) modelled cycles: (.+) is ([\d,]+) of them\.$", texts(chain)[0]
        )
        assert found and (found[1], found[2], found[3]) == (
            f"{step.cycles:,}",
            longest.kind,
            f"{longest.cycles:,}",
        )
        slowest = re.match(
            r".* tile (\d+) takes ([\d,]+) cycles, and the median tile ([\d,.]+)\.$",
            texts(chain)[1],
        )
        if slowest:
            busy = longest.busy
            assert busy is not None and busy[int(slowest[1])] == busy.max() == float(
                slowest[2].replace(",", "")
            )
            assert float(slowest[3].replace(",", "")) == np.median(busy) < busy.max()
        elif longest.busy is not None:
            assert longest.busy.min() == longest.busy.max() and texts(chain)[1].startswith(
                "All tiles take "
            )
        assert chain.step == step.step and all(
            0 <= tile < report.target.num_tiles for tile in chain.tiles
        )


def test_a_report_from_a_file_says_what_it_knows(tmp_path: Path) -> None:
    report = crowded()
    report.save(tmp_path / "a.ipureport")
    chain = Report.open(tmp_path / "a.ipureport").why(0)
    assert texts(chain)[:2] == texts(report.why(0))[:2]
    assert texts(chain)[2:] == ["Tile 9 executes Busy, which is on 10 of 10 tiles."]


def test_a_chain_on_a_page_is_a_list() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target)
    big = graph.add_variable(FLOAT, (90_000,), "<b>big\x1b")
    graph.set_tile_mapping(big, 1)
    report = Engine(graph, Sequence()).report
    page = report.why("memory")._repr_html_()
    found = Tags(page)
    assert (
        len(found.tags["ol"]) == 1
        and len(found.tags["li"]) == len(report.why("memory").causes) >= 3
    )
    assert "<b>" not in page and "\x1b" not in repr(report.why("memory"))


@pytest.mark.parametrize("name", ["bsp", "balance", "memory"])
def test_views_draw_the_members_of_a_chain_in_one_colour(name: str) -> None:
    report = programs.uneven()
    chain = report.why("memory") if name == "memory" else report.why("waiting")
    plain, view = getattr(show, name)(report), getattr(show, name)(report, why=chain)
    scene = view.scene
    cause = scene.codes.index(CAUSE)
    grids = [m for m in scene.marks if isinstance(m, Cells)]
    assert grids and cause in scene.legend and chain.tiles
    for still, before in zip(scene.stills, plain.scene.stills, strict=True):
        for grid in grids:
            code, until, _ = still.cells[grid.name]
            codes = np.broadcast_to(code, 13)
            assert np.flatnonzero(codes == cause).tolist() == list(chain.tiles)
            others = codes != cause
            assert (
                codes[others].tolist()
                == np.broadcast_to(before.cells[grid.name][0], 13)[others].tolist()
            )
            assert np.broadcast_to(until, 13)[~others].min() >= still.cycles
    assert chain.question in scene.notes[-1] and chain.causes[-1].text[:60] in scene.notes[-1]
    if name == "bsp":  # the picture stops in the longest phase of the step that the chain is about
        assert scene.stills[int(scene.frames[scene.poster])].label == "compute: total"


def test_errors() -> None:
    report = crowded()
    empty = Engine(
        Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target), Sequence()
    ).report
    cases: list[tuple[Any, type[Exception], str]] = [
        (
            lambda: empty.why(),
            InvalidOptionError,
            "why() was called on a report in which nothing has run.\n  next:  call engine.run(), "
            "then engine.report.why(). Without a run, only report.why('memory') has an answer.",
        ),
        (
            lambda: report.why(7),
            PoplarIndexError,
            "why() was given step 7, which does not exist.\n  next:  give a step from 0 to 0.",
        ),
        (
            lambda: report.why(-1),
            PoplarIndexError,
            "why() was given step -1, which does not exist.\n  next:  give a step from 0 to 0.",
        ),
        (
            lambda: report.why(tile=10),
            PoplarIndexError,
            "why() was given tile 10, which does not exist.\n  next:  give a tile from 0 to 9.",
        ),
        (
            lambda: report.why(tile="4"),
            PoplarIndexError,
            "why() was given tile '4', which does not exist.\n  next:  give a tile from 0 to 9.",
        ),  # type: ignore[arg-type]
        (
            lambda: report.why("wrok"),
            InvalidOptionError,
            "why() was given 'wrok', which it cannot explain.\n  next:  did you mean 'work'? give the number of a step, its "
            "name, a step of report.steps(), 'waiting', 'memory', or a "
            "GraphMemoryAllocationError.",
        ),
        (
            lambda: report.why(1.5),
            InvalidOptionError,
            "why() was given 1.5, which it cannot explain.\n  next:  give the number of a step, its name, ",
        ),
        (
            lambda: report.why(np.zeros(3)),
            InvalidOptionError,
            "why() was given array([0., 0., 0.]), which it cannot explain.\n  next:  give the number",
        ),
        (
            lambda: show.bsp(report, why=3),  # type: ignore[arg-type]
            InvalidOptionError,
            "show.bsp() was given why=3, which is not a chain of causes.\n  next:  give "
            "report.why(…), of the same report.",
        ),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value).startswith(text) and type(caught.value) is kind


class UsesTable(Vertex):
    """Adds the first number of a table."""

    table: Input[Vector[FLOAT]]
    out: InOut[FLOAT]

    def compute(self) -> None:
        self.out = self.out + self.table[0]


def test_many_small_constants_fill_a_tile_together() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=1).create_device())
    out, program = graph.add_variable(FLOAT, (), "out"), Sequence()
    graph.set_tile_mapping(out, 0)
    graph.set_initial_value(out, 0)
    for number in range(400):
        table = graph.add_constant(FLOAT, (500,), range(500), f"table{number}")  # made
        step = graph.add_compute_set(f"step{number}")
        vertex = graph.add_vertex(step, UsesTable, table=table, out=out)
        for mapped in (table, vertex):
            graph.set_tile_mapping(mapped, 0)
        program.add(Execute(step))
    with pytest.raises(GraphMemoryAllocationError) as caught:
        Engine(graph, program)
    assert "Its variables: 'out' 4. Also: constants 800,000 (400 of them)," in str(caught.value)
    first, second, third = caught.value.why().causes
    assert first.text.startswith("Tile 0 holds ")
    assert second.text == (
        "Most of it is 400 constants: 800,000 bytes. The largest, 'table0', takes 2,000."
    )
    assert third.text.startswith("400 of them, 800,000 bytes, are added by test_why.py, line ")
    assert third.line.endswith("# made")


def test_exchange_buffers_are_named_by_the_step_that_fills_them() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device())
    work, out = graph.add_compute_set("gather"), graph.add_variable(FLOAT, (3,), "out")
    graph.set_tile_mapping(out, 0)
    graph.set_initial_value(out, 0)
    for tile in (1, 2, 3):
        far = graph.add_variable(FLOAT, (60_000,), f"far{tile}")
        graph.set_tile_mapping(far, tile)
        graph.set_initial_value(far, 1)
        vertex = graph.add_vertex(work, UsesTable, table=far, out=out[tile - 1])  # fills
        graph.set_tile_mapping(vertex, 0)
    with pytest.raises(GraphMemoryAllocationError) as caught:
        Engine(graph, Execute(work))
    _, second, third = caught.value.why().causes
    assert second.text == (
        "Most of it is for exchange buffers: 720,000 bytes, while Execute 'gather' runs."
    )
    assert third.text.startswith("This data movement is caused by test_why.py, line ")
    assert third.line.endswith("# fills")


class CountUp(Vertex):
    """Takes as many turns as its number says, and adds seven to it."""

    n: InOut[INT]

    def compute(self) -> None:
        k = 0
        while k < self.n:
            k += 1
        self.n = k + 7


def test_executions_whose_cycles_depend_on_data_count_together() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device())
    numbers, work = graph.add_variable(INT, (4,), "numbers"), graph.add_compute_set("count")
    for tile in range(4):
        vertex = graph.add_vertex(work, CountUp, n=numbers[tile])
        graph.set_tile_mapping(vertex, tile)
        graph.set_tile_mapping(numbers[tile], tile)
    graph.set_initial_value(numbers, 5)
    report = ran(graph, Repeat(20, Execute(work)))
    cycles = [step.cycles for step in report.steps()]
    assert len(set(cycles)) == 20 and sum(cycles) == report.total_cycles
    total, longest = f"{report.total_cycles:,}", f"{max(cycles):,}"
    assert texts(report.why())[:2] == [
        f"The run takes {total} modelled cycles: {total} of them are spent in Execute 'count', which "
        "ran 20 times.",
        f"Its cycles depend on data: in 1 of 20 executions it takes {longest} modelled cycles: "
        f"compute is {max(cycles) - report.target.internal_sync_cycles:,} of them.",
    ]
    assert (
        texts(report.why(tile=0))[0]
        == f"Tile 0 waits for other tiles for 0 of {total} modelled cycles."
    )
    saved = Report.deserialize(report.serialize())
    assert texts(saved.why())[:2] == texts(report.why())[:2]


def test_a_run_of_many_small_steps_says_that_none_dominates() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    values = graph.add_variable(FLOAT, (200,), "values")
    graph.set_tile_mapping(values, 0)
    graph.set_initial_value(values, 0.0)
    program = Sequence()
    for number in range(200):
        step = graph.add_compute_set(f"step{number}")
        vertex = graph.add_vertex(step, Busy, value=values[number])
        graph.set_tile_mapping(vertex, 0)
        graph.set_perf_estimate(vertex, 2)
        program.add(Execute(step))
    report = ran(graph, program)
    sync, compute = report.target.internal_sync_cycles, 2 * report.target.num_worker_contexts
    assert sync > compute and report.total_cycles == 200 * (sync + compute)
    assert texts(report.why()) == [
        f"The run takes {200 * (sync + compute):,} modelled cycles, and none of its 200 steps "
        f"dominates: the longest, Execute 'step0', takes {sync + compute} of them.",
        f"Over all steps, sync takes most: {200 * sync:,} cycles "
        f"({100 * sync / (sync + compute):.1f} %), on average {sync} in each of 200 executions.",
    ]


class Total(Vertex):
    """Adds its number to the sum a hundred times."""

    n: Input[INT]
    out: InOut[INT]

    def compute(self) -> None:
        total = 0
        for _ in range(100):
            total += self.n
        self.out = total + self.out


@pytest.mark.parametrize("order", ["alone", "copy after", "copy before", "two after", "two before"])
def test_work_of_a_fused_step_is_given_by_its_vertices(order: str) -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device())
    x, y, z = (graph.add_variable(INT, (4,), name) for name in "xyz")
    work = graph.add_compute_set("sum")
    for tile in range(4):
        vertex = graph.add_vertex(work, Total, n=x[tile], out=z[tile])  # given
        for mapped in (vertex, x[tile], y[tile], z[tile]):
            graph.set_tile_mapping(mapped, tile)  # placed
    for tensor in (x, y, z):
        graph.set_initial_value(tensor, 5)
    add, around, back = Execute(work), Copy(x[[1, 2, 3, 0]], y), Copy(y, x)
    body = {
        "alone": Sequence(add),
        "copy after": Sequence(add, around),
        "copy before": Sequence(around, add),
        "two after": Sequence(add, around, back),
        "two before": Sequence(around, back, add),
    }[order]
    chain = ran(graph, Repeat(3, body)).why()
    assert chain.causes[-2].line.endswith("# given")
    assert chain.causes[-1].text.startswith("It is on tile 0 because of ")
    assert chain.causes[-1].line.endswith("# placed")


@pytest.mark.parametrize("far", [True, False])
def test_what_moves_in_a_fused_step_is_named_by_the_copy_that_moves_most(far: bool) -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device())
    large, into = (graph.add_variable(INT, (4, 4000), name) for name in ("large", "into"))
    few, other = (graph.add_variable(INT, (4,), name) for name in ("few", "other"))
    work = graph.add_compute_set("sum")
    for tensor in (large, into, few, other):
        graph.set_initial_value(tensor, 1)
    for tile in range(4):
        vertex = graph.add_vertex(work, Total, n=few[(tile + 1) % 4], out=other[tile])
        for mapped in (vertex, few[tile], other[tile], large[tile], into[tile]):
            graph.set_tile_mapping(mapped, tile)
    rotated = large[[1, 2, 3, 0]] if far else large[:, ::-1]
    copy = Copy(rotated, into)  # moves most
    report = ran(graph, Sequence(Execute(work), copy))
    assert report.num_steps == 1  # merged
    chain = report.why()
    assert any(cause.line.endswith("# moves most") for cause in chain.causes)
    assert not any("because of" in cause.text for cause in chain.causes)
