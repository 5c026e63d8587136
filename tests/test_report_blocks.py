"""Blocks on the timeline of a tile, against cycles added up by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from damage import parts, whole

from ipu_teach import (
    FLOAT,
    INT,
    Engine,
    Executable,
    Graph,
    InOut,
    IPUModel,
    Output,
    Report,
    Vertex,
    show,
)
from ipu_teach.errors import InvalidOptionError, PoplarIndexError
from ipu_teach.program import (
    Block,
    Call,
    Copy,
    Execute,
    Program,
    Repeat,
    RepeatWhileTrue,
    Sequence,
    Switch,
)
from ipu_teach.report import chrome_trace
from ipu_teach.show.scene import Flame

SYNC = 100


class Busy(Vertex):
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = 1.0


class Down(Vertex):
    count: InOut[INT]
    left: Output[INT]

    def compute(self) -> None:
        self.left = self.count > 0
        self.count = self.count - 1


class Spin(Vertex):
    """Takes longer the larger its number is."""

    count: InOut[INT]

    def compute(self) -> None:
        total = 0
        while total < self.count * 10:
            total += 1
        self.count = self.count + 1


class Machine:
    """Two tiles and 100 cycles a sync, a clock of 1 GHz and a host link of 4 bytes a cycle."""

    def __init__(self) -> None:
        model = IPUModel(tiles_per_ipu=2, tile_clock_frequency=1e9, host_bytes_per_second=4e9)
        self.device = model.create_device()
        self.graph = Graph(self.device)
        self.sync = self.device.target.internal_sync_cycles

    def work(self, name: str, first: int, second: int) -> Execute:
        """A vertex on each tile, with these worker cycles: a tile with one vertex is busy six times
        as long."""
        cs = self.graph.add_compute_set(name)
        for tile, cycles in enumerate((first, second)):
            out = self.graph.add_variable(FLOAT, (), f"{name}{tile}")
            vertex = self.graph.add_vertex(cs, Busy, out=out)
            self.graph.set_tile_mapping(out, tile)
            self.graph.set_tile_mapping(vertex, tile)
            self.graph.set_perf_estimate(vertex, cycles)
        return Execute(cs)

    def run(self, program: Program) -> Report:
        engine = Engine(self.graph, program)
        engine.load_and_run(self.device)
        return engine.report


def told(report: Report, tile: int, **how: object) -> list[tuple[str, int, float, float]]:
    return [
        (b.name, b.depth, b.cycles_from, b.cycles_to) for b in report.execution.blocks(tile, **how)
    ]  # type: ignore[arg-type]


def nested() -> tuple[Machine, Report]:
    m = Machine()
    a, b = m.work("a", 10, 20), m.work("b", 30, 5)
    report = m.run(
        Sequence(a, Block(Sequence(a, Block(b, "inner")), "outer"), Repeat(2, Block(a, "again")))
    )
    return m, report


@pytest.mark.parametrize("opened", [False, True], ids=["live", "opened"])
def test_blocks_begin_and_end_when_the_tile_has_done_its_share(opened: bool) -> None:
    m, report = nested()
    report = Report.deserialize(report.serialize()) if opened else report
    assert m.sync == SYNC
    # The steps a, a, b, a, a last 100 + 120, twice, 100 + 180, and 220 twice again: they begin at
    # 0, 220, 440, 720, 940.
    assert told(report, 0) == [
        ("outer", 0, 100 + 60, 440 + 100 + 180),
        ("inner", 1, 220 + 100 + 60, 440 + 100 + 180),
        ("again", 0, 720, 720 + 160),
        ("again", 0, 880, 940 + 160),
    ]
    assert told(report, 1) == [
        ("outer", 0, 220, 440 + 100 + 30),
        ("inner", 1, 440, 440 + 100 + 30),
        ("again", 0, 570, 940),
        ("again", 0, 940, 1160),
    ]
    outer, inner, *_ = found = report.execution.blocks(1)
    assert outer.blocks == (inner,) and inner.blocks == () and outer.program.name == "outer"
    assert {(b.type, b.program.type) for b in found} == {("Block", "Block")}
    assert found.columns == ("name", "type", "depth", "cycles_from", "cycles_to", "cycles", "tile")
    assert {b.tile for b in found} == {1}
    assert found.records()[1]["cycles"] == inner.cycles == 130


def test_filters() -> None:
    _, report = nested()
    assert [b.name for b in report.execution.blocks(0, "^a|inn")] == ["inner", "again", "again"]
    assert [b.depth for b in report.execution.blocks(0, "inn")] == [0]
    with pytest.raises(InvalidOptionError) as caught:
        report.execution.blocks(0, "(")
    assert str(caught.value).startswith(
        "blocks() was given '(', which is not a regular expression: "
    )
    with pytest.raises(PoplarIndexError) as wrong:
        report.execution.blocks(2)
    assert (
        str(wrong.value)
        == "blocks() was given tile 2, which does not exist.\n  next:  give a tile from 0 to 1."
    )


def test_a_filter_makes_blocks_of_other_programs() -> None:
    m = Machine()
    report = m.run(
        Repeat(2, Sequence(m.work("one", 1, 1), Sequence(m.work("two", 2, 2), name="around")))
    )
    assert report.execution.blocks() == ()
    found = report.execution.blocks(0, program_filter="^(two|around)$")
    assert [(b.name, b.type, b.depth) for b in found] == [
        ("around", "Block", 0),
        ("two", "Block", 1),
    ] * 2
    assert found[0].blocks == (found[1],) and found[0].cycles == found[1].cycles == 100 + 12


def test_what_the_options_say_is_what_blocks_gives() -> None:
    m = Machine()
    program = Sequence(
        m.work("op", 10, 10),
        Block(m.work("other", 1, 1), "stage"),
        Block(m.work("last", 1, 1), "end"),
    )
    options = {
        "profiler.blocks.filter": "^st",
        "profiler.programs.filter": "op",
        "profiler.blocks.tile": 1,
    }
    engine = Engine(m.graph, program, options)
    engine.load_and_run(m.device)
    report = engine.report
    settings = report.instrumentation_settings
    assert (settings.block_filter, settings.program_filter, settings.block_tile) == ("^st", "op", 1)
    for one in (report, Report.deserialize(report.serialize())):
        assert [(b.name, b.type, b.tile) for b in one.execution.blocks()] == [
            ("op", "Block", 1),
            ("stage", "Block", 1),
        ]
        assert [b.name for b in one.execution.blocks(0, ".", "")] == ["stage", "end"]
        assert one.instrumentation_settings == settings
    with pytest.raises(InvalidOptionError) as caught:
        Engine(m.graph, program, {"profiler.blocks.filter": "("})
    assert str(caught.value).startswith(
        "The engine option 'profiler.blocks.filter' was given '(', which is not a regular exp"
    )


def test_a_pattern_in_a_file_is_never_run() -> None:
    m = Machine()
    engine = Engine(m.graph, Block(m.work("op", 1, 1), "a" * 40), {"profiler.blocks.filter": "a"})
    engine.load_and_run(m.device)
    header, arrays = parts(engine.report.serialize())
    header["settings"]["block_filter"] = "(a|a)+!"
    report = Report.deserialize(whole(header, arrays))
    assert report.instrumentation_settings.block_filter == "(a|a)+!"
    assert [b.name for b in report.execution.blocks()] == ["a" * 40]


def test_a_block_around_stream_copies_begins_and_ends_with_them() -> None:
    m = Machine()
    x = m.graph.add_variable(FLOAT, 8, "x")
    m.graph.set_tile_mapping(x, 1)
    into = m.graph.add_host_to_device_fifo("into", FLOAT, 8)
    out = m.graph.add_device_to_host_fifo("out", FLOAT, 8)
    engine = Engine(
        m.graph,
        Sequence(Block(Copy(into, x), "in"), m.work("a", 10, 20), Block(Copy(x, out), "out")),
    )
    engine.load(m.device)
    engine.connect_stream("into", np.arange(8.0))
    engine.connect_stream("out", [])
    engine.run()
    # 32 bytes at 4 a cycle, which keep both tiles until they are over, as every sync of 100 does.
    assert told(engine.report, 1) == [
        ("in", 0, 0, 108),
        ("out", 0, 108 + 100 + 120, 108 + 220 + 108),
    ]
    assert told(engine.report, 0) == [
        ("in", 0, 0, 108),
        ("out", 0, 108 + 100 + 60, 108 + 220 + 108),
    ]


def growth(times: int) -> Report:
    """A loop that runs as often as its data say."""
    m = Machine()
    count, left = m.graph.add_variable(INT, (), "count"), m.graph.add_variable(INT, (), "left")
    m.graph.set_initial_value(count, times)
    down = m.graph.add_compute_set("down")
    for what in (count, left, m.graph.add_vertex(down, Down, count=count, left=left)):
        m.graph.set_tile_mapping(what, 0)
    return m.run(
        Block(RepeatWhileTrue(Execute(down), left, Block(m.work("a", 600, 1), "body")), "loop")
    )


def test_a_block_grows_with_the_count_of_its_loop() -> None:
    lengths: list[float] = []
    for times in range(1, 6):
        found = growth(times).execution.blocks(0)
        assert [b.name for b in found] == ["loop"] + ["body"] * times
        lengths.append(found[0].cycles)
    slope, before = np.polyfit(range(1, 6), lengths, 1)
    assert np.allclose(lengths, before + slope * np.arange(1, 6), rtol=0, atol=1e-6)
    assert slope > 100 + 3600 and before > 0
    residual = np.array(lengths) - (before + slope * np.arange(1, 6))
    assert 1 - (residual**2).sum() / ((lengths - np.mean(lengths)) ** 2).sum() > 0.999


def test_blocks_whose_cycles_depend_on_data() -> None:
    m = Machine()
    count = m.graph.add_variable(INT, (), "count")
    m.graph.set_initial_value(count, 1)
    cs = m.graph.add_compute_set("spin")
    for what in (count, m.graph.add_vertex(cs, Spin, count=count)):
        m.graph.set_tile_mapping(what, 0)
    report = m.run(Repeat(5, Block(Execute(cs), "op")))
    found = report.execution.blocks(0)
    assert len(found) == 5 and sum(b.cycles for b in found) == report.total_cycles
    assert np.ptp(np.diff([b.cycles for b in found])) == 0 and found[1].cycles > found[0].cycles
    assert told(Report.deserialize(report.serialize()), 0) == told(report, 0)


def test_blocks_in_functions_branches_and_saved_executables() -> None:
    m = Machine()
    number = m.graph.add_variable(INT, (), "number")
    m.graph.set_tile_mapping(number, 0)
    m.graph.set_initial_value(number, 3)
    a, b = m.work("a", 1, 1), m.work("b", 1, 1)
    function = m.graph.add_function(Block(b, "called"))
    program = Sequence(
        Switch(number, {3: Block(a, "three")}, Block(b, "other")), Call(function), Call(function)
    )
    engine = Engine(m.graph, program)
    saved = Engine(Executable.deserialize(engine.executable.serialize(), [Busy]))
    for one in (engine, saved):
        one.load_and_run(m.device)
        one.run()
    assert [b.name for b in engine.report.execution.blocks(0)] == ["three", "called", "called"] * 2
    assert told(saved.report, 1) == told(engine.report, 1)
    # A run begins on all tiles at once, however early one of them was done with the run before.
    assert engine.report.execution.blocks(1)[3].cycles_from == engine.report.total_cycles / 2


def test_blocks_in_a_chrome_trace() -> None:
    _, report = nested()
    events = json.loads(chrome_trace(report, tiles=[], blocks=[1, 0]))["traceEvents"]
    rows = {
        e["tid"]: e["args"]["name"]
        for e in events
        if e["ph"] == "M" and e["args"]["name"].startswith("blocks")
    }
    assert list(rows.values()) == ["blocks of tile 1", "blocks of tile 0"]
    for tid, name in rows.items():
        spans = [e for e in events if e["tid"] == tid and e["ph"] == "X"]
        found = [(e["name"], e["cat"], e["ts"], e["dur"], e["args"]["cycles"]) for e in spans]
        # At 1 GHz a cycle is a nanosecond, and a trace counts in microseconds.
        assert found == [
            (b.name, "Block", b.cycles_from / 1000, b.cycles / 1000, b.cycles)
            for b in report.execution.blocks(int(name[-1]))
        ]
    assert "blocks of" not in chrome_trace(report)
    with pytest.raises(InvalidOptionError):
        chrome_trace(report, blocks=[2])


def test_blocks_on_the_axis_of_time() -> None:
    _, report = nested()
    view = show.timeline(report, blocks=[0, 1])
    flame = view.scene.mark("blocks")
    assert isinstance(flame, Flame) and flame.timed and flame.heading == "the blocks on tiles 0, 1"
    both = [b for tile in (0, 1) for b in report.execution.blocks(tile)]
    assert flame.first.tolist() == [b.cycles_from for b in both] and flame.last.tolist() == [
        b.cycles_to for b in both
    ]
    # The rows of tile 1 are below the two of tile 0.
    assert flame.depth.tolist() == [b.depth + 2 * b.tile for b in both]
    assert [flame.names[t] for t in flame.title.tolist()] == [
        f"tile {b.tile}: {b.name}" for b in both
    ]
    codes = {
        b.name: view.scene.codes[c].light for b, c in zip(both, flame.code.tolist(), strict=True)
    }
    assert len(set(codes.values())) == len(codes) == 3  # each name has a colour of its own
    assert [float(row["modelled cycles"].replace(",", "")) for row in view.data] == [
        b.cycles for b in both
    ]
    assert (
        repr(view).endswith(
            "8 blocks on tiles 0, 1; longest in all is again: 970 modelled cycles in 4 times."
        )
        and sum(b.cycles for b in both if b.name == "again") == 970
    )
    picked = show.timeline(report, blocks=0, block_filter="inner", program_filter="^a$")
    assert [row["block"] for row in picked.data] == [
        b.name for b in report.execution.blocks(0, "inner", "^a$")
    ]
    assert (
        show.timeline(Report.deserialize(report.serialize()), blocks=[0, 1]).html() == view.html()
    )


def test_what_timeline_does_not_take() -> None:
    _, report = nested()
    none = "give one tile, blocks=0, or several, blocks=[0, 3]."
    kinds = "give the tile, blocks=0, and filter its blocks by block_filter, program_filter."
    missing = (
        "but it takes only the filters block_filter and program_filter, and only together with "
        "blocks="
    )
    numbers = "but blocks= takes 1 to 8 tile numbers of the machine"
    for how, text in (
        ({"blocks": []}, f"show.timeline() was given 0 tiles, {numbers}.\n  next:  {none}"),
        (
            {"blocks": [None]},
            f"show.timeline() was given [None], {numbers}.\n  next:  {none}",
        ),
        (
            {"block_filter": "a"},
            f"show.timeline() was given block_filter, {missing}.\n  next:  {kinds}",
        ),
        ({"blocks": 0, "odd": 1}, f"show.timeline() was given odd, {missing}.\n  next:  {kinds}"),
        (
            {"blocks": 0, "block_filter": "z"},
            "show.timeline() found no profiled blocks on tile 0.\n  next:  put Block around parts of "
            "the program, or show all programs with program_filter='.'.",
        ),
    ):
        with pytest.raises(InvalidOptionError) as caught:
            show.timeline(report, **how)  # type: ignore[arg-type]
        assert str(caught.value) == text
    with pytest.raises(PoplarIndexError):
        show.timeline(report, blocks="all")  # type: ignore[arg-type]
