"""Questions to a report, against sums and sets that are worked out one element at a time."""

from __future__ import annotations

import csv
import io
import sys
import types
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from brute_force import random_device, random_space
from graphs import random_superstep
from hypothesis import HealthCheck, given, settings, strategies as st
from programs import tut4
from small_reports import Twice, chain_report, small_engine

import ipu_teach
from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report
from ipu_teach.errors import InvalidOptionError, NotOfferedError, PoplarIndexError, UnknownNameError
from ipu_teach.program import Copy, Execute, Sequence
from ipu_teach.report.settings import PoplarVersion

RANDOMLY = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=30)


@pytest.fixture(params=[False, True], ids=["live", "opened"])
def report(request: pytest.FixtureRequest) -> Report:
    found = chain_report()
    return Report.deserialize(found.serialize()) if request.param else found


def test_variables_and_where_they_are_live(report: Report) -> None:
    rows = report.variables
    assert [(v.name, v.bytes, v.tiles, v.always_live, v.first, v.last) for v in rows] == [
        ("a", 64, 1, True, -1, -1),
        ("b", 64, 1, False, 0, 1),
        ("c", 64, 1, False, 1, 2),
        ("d", 64, 1, True, -1, -1),
    ]
    assert [v.name for v in rows.live_at(0)] == ["a", "b", "d"] and [
        v.name for v in rows.live_at(1)
    ] == ["a", "b", "c", "d"]
    assert (
        rows[0].line.startswith("small_reports.py, line ")
        and "graph.add_variable(FLOAT, 16, name)" in rows[0].line
    )
    curve = report.compilation.liveness_program_steps
    assert [(s.type, s.name, list(s.variables)) for s in curve] == [
        ("Execute", "layer0/twice0", ["b"]),
        ("Execute", "layer0/twice1", ["b", "c"]),
        ("Execute", "layer1/twice2", ["c"]),
    ]
    # Twice 0, 1 and 2 are on tiles 0, 1 and 2, what they read and write on tile 1.
    assert [s.bytes for s in curve] == [64 + 2 * 64, 128, 64 + 2 * 64]


def test_compilation_by_libpvas_names(report: Report) -> None:
    compilation = report.compilation
    assert compilation.compute_sets == report.compute_sets and len(compilation.compute_sets)
    assert compilation.target.num_tiles == len(compilation.tiles) == 4
    graph = compilation.graph
    assert (graph.num_vertices, graph.num_edges, graph.num_vars, graph.num_compute_sets) == (
        3,
        6,
        4,
        3,
    )
    for number, tile in enumerate(compilation.tiles):
        total = tile.memory.total
        assert (
            total.excluding_gaps
            == report.memory.bytes_per_tile[number]
            == sum(tile.memory.category.values())
        )
        assert total.including_gaps - total.excluding_gaps == report.memory.gaps_per_tile[number]
        assert (
            tile.memory.always_live_bytes + tile.memory.not_always_live_bytes
            == total.excluding_gaps
        )
    assert list(compilation.tiles[1].memory.variables) and compilation.tiles[-1].number == 3
    with pytest.raises(PoplarIndexError) as caught:
        compilation.tiles[4]
    assert str(caught.value) == "There is no tile 4.\n  next:  give a number from 0 to 3."


def test_a_visitor_sees_the_tree_in_order(report: Report) -> None:
    class Visitor:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def visit_repeat(self, node: Any) -> None:
            self.seen.append(f"repeat {node.count}")

        def visit_execute(self, node: Any) -> None:
            self.seen.append(node.name)

        def visit(self, node: Any) -> None:
            self.seen.append(node.type)

    (program,) = report.compilation.programs
    visitor = Visitor()
    program.accept(visitor)
    assert visitor.seen == [
        "repeat 3",
        "Sequence",
        "layer0/twice0",
        "layer0/twice1",
        "layer1/twice2",
    ]
    visitor.visit_repeat = lambda node: visitor.seen.clear() or False  # type: ignore[method-assign]
    program.accept(visitor)
    assert visitor.seen == []
    assert [(depth, node.kind) for depth, node in program.walk()][:3] == [
        (0, "Repeat"),
        (1, "Sequence"),
        (2, "Execute"),
    ]


def test_execution_steps(report: Report) -> None:
    steps = report.execution.steps
    assert len(steps) == 9 and [s.name for s in steps[:2]] == ["layer0/twice0", "layer0/twice1"]
    assert steps[-1].end == report.execution.total_cycles and steps[4].start == steps[3].end
    assert [s.index for s in steps] == list(range(9))
    (ipu,) = steps[1].ipus
    assert (
        ipu.cycles == steps[1].cycles
        and ipu.cycles_by_tile.tolist()[0] == 0 < ipu.cycles_by_tile[1]
    )
    assert (steps[1].active_tiles, steps[1].balance, steps[1].bytes_received) == (1, 0.25, 0)
    rows = list(csv.DictReader(io.StringIO(steps.to_csv())))
    assert [row["name"] for row in rows] == [s.name for s in steps] and float(
        rows[-1]["end"]
    ) == steps[-1].end


def test_operations_add_up(report: Report) -> None:
    found = report.operations()
    assert [o.name for o in found] == ["layer0", "layer1"]
    assert [(o.steps, o.executions, o.vertices) for o in found] == [(2, 6, 2), (1, 3, 1)]
    # A product and a sum for each of 16 elements.
    assert [o.flops for o in found] == [6 * 32, 3 * 32]
    assert found[0].line.startswith("small_reports.py, line ")
    adds_up(report)


def adds_up(report: Report) -> None:
    found = report.operations()
    memory = report.memory.by_category()
    code = memory["Vertex code"] + memory["Exchange code"] + memory["Control code"]
    assert sum(o.code_bytes for o in found) == code
    each = [
        times * report.step_cost(number).cycles
        for number, times in enumerate(report.executions.tolist())
    ]
    assert sum(o.cycles for o in found) == sum(each)
    # several IPUs work at the same time
    assert report.target.num_ipus > 1 or sum(each) == report.total_cycles
    assert sum(o.bytes_received for o in found) == int(report.exchange_bytes_per_tile[0].sum())
    assert sum(o.executions for o in found) == report.num_steps
    assert sum(o.steps for o in found) == len(report.profile.steps)
    modules = report.by_module()
    for column in ("steps", "executions", "vertices", "cycles", "bytes_received", "code_bytes"):
        assert sum(getattr(m, column) for m in modules) == sum(getattr(o, column) for o in found)
    assert sum(m.memory_bytes for m in modules) == report.memory.bytes_per_tile.sum()
    assert modules[-1].memory_bytes >= memory["Edge pointers"] + memory["Stacks"]


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_operations_of_random_programs_add_up(rng: Random) -> None:
    space = random_space(rng, random_device(rng))
    sets = [random_superstep(rng, space).compute_set for _ in range(3)]
    engine = Engine(
        space.graph, [Sequence(Execute(sets[0]), Execute(sets[1])), Execute(sets[0])], strict=False
    )
    engine.load(space.device)
    engine.run(0)
    engine.run(1)
    adds_up(engine.report)


def test_operations_by_library_call() -> None:
    shapes = [(90, 60), (60, 30), (30, 20)]
    _, report, _ = tut4.main([np.ones(shape, np.float32) for shape in shapes])
    assert [o.name for o in report.operations()] == ["host exchange", "m4", "m5"]
    assert report.operations().named("^m").records()[0]["name"] == "m4"
    adds_up(report)


def test_copies_belong_to_the_named_program_around_them() -> None:
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    a, b = (graph.add_variable(FLOAT, 2, name) for name in "ab")
    graph.set_tile_mapping(a, 0)
    graph.set_tile_mapping(b, 0)
    program = Sequence(Copy(a, b), Sequence(Copy(b, a), name="back"))
    engine = Engine(graph, program, strict=False)
    engine.load_and_run(device)
    assert [(o.name, o.steps) for o in engine.report.operations()] == [("copies", 1), ("back", 1)]


def test_tables(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = report.variables
    assert repr(rows) == (
        "Table of 4 rows: name, dtype, shape, category, bytes, tiles, always_live, first, "
        "last, line"
    )
    assert [v.name for v in rows.named("[ab]")] == ["a", "b"] and len(
        rows.where(lambda v: v.always_live)
    ) == 2
    assert report.compute_sets.largest("cycles", 1)[0].cycles == max(
        c.cycles for c in report.compute_sets
    )
    assert (
        rows.to_csv().splitlines()[0]
        == "name,dtype,shape,category,bytes,tiles,always_live,first,last,line"
    )
    with pytest.raises(
        InvalidOptionError,
        match=r"^The table has no column 'weight'\.\n  next:  choose one of name, dtype, ",
    ):
        rows.largest("weight")
    with pytest.raises(
        InvalidOptionError, match=r"^named\(\) was given '\(', which is not a regular expression: "
    ):
        rows.named("(")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(NotOfferedError) as caught:
        rows.to_dataframe()
    assert str(caught.value) == (
        "to_dataframe() needs pandas, which is not installed.\n  next:  install pandas, or use "
        "records() or to_csv()."
    )

    class DataFrame:
        @classmethod
        def from_records(cls, records: list[dict[str, Any]], columns: list[str]) -> list[list[Any]]:
            return [[record[c] for c in columns] for record in records]

    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=DataFrame))
    assert (
        rows.to_dataframe()[0][:2] == ["a", "FLOAT"]
        and len(report.execution.steps.to_dataframe()) == 9
    )


def test_sources_are_named_by_class_and_method() -> None:
    report = chain_report()
    (name,) = [n for n in report.sources if n.startswith("Twice.")]
    assert name == "Twice.compute" and report.sources[name].splitlines() == [
        "def compute(self) -> None:",
        "    self.out = self.x * 2 + 1",
    ]
    (codelet,) = report.profile.codelets
    assert codelet.fields == (("x", "Input[Vector[FLOAT]]"), ("out", "Output[Vector[FLOAT]]"))
    assert "/" not in "".join(report.sources)


def test_state_is_a_variable_of_its_own() -> None:
    report = small_engine().report
    assert [v.name for v in report.variables if v.category == "Vertex state"] == ["Work.k (state)"]


def test_exchanges_by_tile_and_message(report: Report) -> None:
    # a to d lie on tile 1: what twice0 on tile 0 and twice2 on tile 2 read comes from there, and
    # what they write goes back.
    found = report.exchanges
    assert [(e.name, e.executions, e.bytes_received, e.link_bytes) for e in found] == [
        ("layer0/twice0", 3, 128, 0),
        ("layer1/twice2", 3, 128, 0),
    ]
    assert found[0].received.tolist() == found[0].sent.tolist() == [64, 64, 0, 0]
    there, back = found[0].messages
    assert (there.source.tolist(), there.size.tolist(), there.receivers[0].tolist()) == (
        [1],
        [64],
        [0],
    )
    assert (back.source.tolist(), back.size.tolist(), back.receivers[0].tolist()) == (
        [0],
        [64],
        [1],
    )
    total = sum(e.executions * e.bytes_received for e in found)
    assert total == int(report.exchange_bytes_per_tile[0].sum())


def test_more_of_libpvas_names(report: Report, tmp_path: Path) -> None:
    compilation, target = report.compilation, report.compilation.target
    assert target.clock_frequency == target.tile_clock_frequency and target.type == "IPU_MODEL"
    assert (
        target.total_memory == target.num_ipus * target.bytes_per_ipu == 4 * target.bytes_per_tile
    )
    assert [tile.number for tile in compilation.ipus[0]] == [0, 1, 2, 3]
    assert [v.name for v in compilation.always_live_variables] == ["a", "d"]
    place = compilation.liveness_program_steps[1]
    assert (place.program.name, place.program.type) == ("layer0/twice1", "Execute")
    assert (place.not_always_live_memory.bytes, place.not_always_live_memory.variables) == (
        128,
        {"b": 64, "c": 64},
    )
    step = report.execution.steps[1]
    assert place.cycles == step.cycles
    assert step.program is report.profile.leaf(step.step) and step.program.name == "layer0/twice1"
    assert (
        step.all_cycles == sum(ipu.cycles for ipu in step.ipus) == step.cycles
        and step.vertex_types == "Twice x 1"
    )
    assert str(report.poplar_version) == ipu_teach.__version__
    version = PoplarVersion("1.20.3+local")
    assert (version.string, version.major, version.minor, version.point) == (
        "1.20.3+local",
        1,
        20,
        3,
    )
    assert PoplarVersion("odd").major == 0
    report.save(tmp_path / "run.ipureport")
    assert ipu_teach.open_report(tmp_path / "run.ipureport").digest() == report.digest()
    with pytest.raises(FileNotFoundError) as caught:
        ipu_teach.open_report(tmp_path / "gone.ipureport")
    assert str(caught.value).endswith(
        "No such file or directory.\n  next:  give the path of a file that Report.save wrote."
    )
    with pytest.raises(NotOfferedError) as second:
        ipu_teach.open_report(tmp_path / "run.ipureport", "debug.cbor")
    assert str(second.value) == (
        "open_report() was given a second file, 'debug.cbor'.\n"
        "  next:  give one path: open_report(path). Names and lines are in the report itself."
    )


def test_libpvas_visitor(report: Report) -> None:
    class Visitor:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def visit_on_tile_execute(self, node: Any) -> None:
            self.seen.append(node.name)

    visitor = Visitor()
    for step in report.execution.steps:
        step.program.accept(visitor)
    assert visitor.seen == ["layer0/twice0", "layer0/twice1", "layer1/twice2"] * 3


def test_names_as_a_tree(report: Report) -> None:
    layer0, layer1, *variables = report.debug_contexts
    assert (layer0.path, [c.path for c in layer0.children.values()]) == (
        "layer0",
        ["layer0/twice0", "layer0/twice1"],
    )
    assert layer0.cycles + layer1.cycles == report.total_cycles and layer0.steps == []
    assert [v.name for v in variables] == ["a", "b", "c", "d"] and sum(
        v.bytes for v in variables
    ) == 4 * 64
    (found,) = report.debug_contexts.find("twice1$")
    assert found.cycles == report.execution.steps[1].cycles * 3 and (found.depth, found.steps) == (
        1,
        [1],
    )


def test_proportions_add_up_to_one(report: Report) -> None:
    assert sum(report.proportions.values()) == pytest.approx(1)
    assert (
        report.proportions["compute"] == report.compute_cycles_per_tile.mean() / report.total_cycles
    )
    assert set(report.data) == {
        "Insights",
        "Liveness",
        "Variables",
        "Operations",
        "Compute sets",
        "Exchanges",
        "Steps",
    }
    assert len(report.data["Steps"]) == 9 and report.data["Variables"][0]["name"] == "a"
    assert Report.sample("too_large").proportions["compute"] == 0


def test_tiles_that_are_half_full_are_named_fullest_first() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device())
    limit = graph.target.bytes_per_tile
    for tile, share in enumerate((0.3, 0.55, 0.7, 0.45)):
        large = graph.add_variable(FLOAT, (int(share * limit / 4),), f"large{tile}")
        graph.set_tile_mapping(large, tile)
    engine = Engine(graph, Sequence())
    full = [i for i in engine.report.insights() if i.kind == "full tile"]
    assert [i.name for i in full] == ["tile 2", "tile 1"]
    assert full[0].text.endswith(
        f"its largest variable is 'large2', {4 * int(0.7 * limit / 4):,} bytes."
    )


def test_what_stands_out(report: Report) -> None:
    found = {i.kind: i for i in report.insights()}
    assert (
        found["fit"].name == "tile 1"
        and found["fit"].figure == report.compilation.tiles[1].memory.total.including_gaps
    )
    assert "full tile" not in found  # none is half full
    # One of four tiles is at work in each compute set.
    assert found["balance"].figure == 0.25 and found["balance"].advice.startswith(
        "give all tiles equal work"
    )
    # Three quarters of 6 x (5 to start, 6 for the loop, 8 paths: a load, a product, a sum, a
    # store); it speaks from a tenth on.
    waiting = 3 * 0.75 * 6 * (5 + 6 + 4 * 8) / report.total_cycles
    assert f"the waiting is {100 * waiting:.1f} % of the run" in found["balance"].text
    slower = {i.kind: i for i in report.what_if(auto_sync_delay=1000).insights()}
    assert not slower["balance"].advice
    assert found["rearrangement"].figure == 3 * 128 and found["always live"].figure == 64
    assert found["proportions"].figure == max(report.proportions.values())
    assert report.insights().data == report.insights().records() == report.data["Insights"]


def test_what_stands_out_of_a_program_that_does_not_fit() -> None:
    report = Report.sample("too_large")
    first = report.insights()[0]
    over = report.memory.bytes_per_tile + report.memory.gaps_per_tile > report.target.bytes_per_tile
    assert (first.kind, first.figure, first.name) == (
        "out of memory",
        over.sum(),
        f"tile {int(np.argmax(over))}",
    )
    assert (
        "Most of it is 'everything' with 800,000 bytes" in first.text
        and "spread 'everything'" in first.advice
    )
    skew = next(i for i in report.insights() if i.kind == "skew")
    held = report.memory.bytes_per_tile + report.memory.gaps_per_tile
    assert skew.figure == held.max() / held.mean() and skew.advice


def test_the_advice_is_about_what_can_be_the_cause() -> None:
    device = IPUModel(tiles_per_ipu=2, memory_bytes_per_tile=20_000).create_device()
    graph = Graph(device)
    small = graph.add_variable(FLOAT, 112, "small")  # 448 bytes
    out = graph.add_variable(FLOAT, (3_000, 1), "out")
    for tensor in (small, out[1_500:]):
        graph.set_tile_mapping(tensor, 0)
    graph.set_tile_mapping(out[:1_500], 1)
    work = graph.add_compute_set("work")
    for element in range(3_000):
        graph.set_tile_mapping(graph.add_vertex(work, Twice, x=small[:1], out=out[element]), 0)
    report = Engine(graph, Execute(work), {"debug.allowOutOfMemory": True}).report
    first = report.insights()[0]
    part, size = max(report.memory.by_category(0).items(), key=lambda item: item[1])
    assert size > 6_000 and f"Most of it is {part.lower()} with {size:,} bytes" in first.text
    assert (
        first.advice
        == "use fewer vertices and copies: each of them needs code, pointers and buffers."
    )

    graph = Graph(device)
    large = graph.add_variable(FLOAT, (2, 10_000), "large")
    graph.set_tile_mapping(large, np.array([0, 1]))
    report = Engine(graph, Sequence(), {"debug.allowOutOfMemory": True}).report
    first = report.insights()[0]
    assert (
        first.advice
        == "use more tiles or IPUs, because no tile has space left; use a smaller dtype, or free "
        "the memory earlier."
    )


def test_a_dataframe_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is missing: pip install pandas")
    report = chain_report()
    for table in (
        report.variables,
        report.compute_sets,
        report.operations(),
        report.exchanges,
        report.insights(),
        report.compilation.liveness_program_steps,
        report.execution.blocks(),
        report.host.events,
    ):
        frame = table.to_dataframe()
        assert (
            isinstance(frame, pandas.DataFrame)
            and list(frame.columns) == list(table.columns)
            and len(frame) == len(table)
        )
    steps = report.execution.steps.to_dataframe()
    assert steps.cycles.sum() == report.total_cycles and steps.groupby(
        "name"
    ).cycles.count().to_dict() == {
        "layer0/twice0": 3,
        "layer0/twice1": 3,
        "layer1/twice2": 3,
    }
    variables = report.variables.to_dataframe()
    assert variables["bytes"].sum() == 4 * 64 and variables.always_live.tolist() == [
        True,
        False,
        False,
        True,
    ]


def test_what_a_table_and_a_tile_have_not() -> None:
    report = chain_report()
    none = report.variables.where(lambda row: False)
    with pytest.raises(PoplarIndexError, match=r"^There is no row 0 in this table\.") as caught:
        none[0]
    assert "test first whether the table has rows" in caught.value.next_step
    with pytest.raises(PoplarIndexError, match=r"^There is no row 99 in this table\."):
        report.variables[99]
    assert report.variables[0] is report.variables[-len(report.variables)]
    unrun = Engine(Graph(IPUModel(tiles_per_ipu=4).create_device()), Sequence()).report
    with pytest.raises(PoplarIndexError, match="There is no step 0") as caught:
        unrun.execution.steps[0]
    assert "run the engine first" in caught.value.next_step
    with pytest.raises(UnknownNameError, match="TileMemory has no attribute 'bytes'"):
        _ = report.compilation.tiles[0].memory.bytes
