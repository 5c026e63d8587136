"""Several IPUs, each with a row of steps of its own: times by hand, and against a plain loop over
clocks."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from two_tile_ipus import Busy, TwoTileMachine, times, uneven_ipus

import ipu_course  # noqa: F401  # enters its lessons in what insights advise
from ipu_teach import FLOAT, INT, Engine, Graph, InOut, IPUModel, Report, Vertex, show
from ipu_teach.cost.overlap import Overlap
from ipu_teach.errors import InvalidMachineModelError, NotOfferedError, PoplibsError
from ipu_teach.poplibs import gcl
from ipu_teach.program import (
    Block,
    Copy,
    Execute,
    If,
    PrintTensor,
    Program,
    Repeat,
    RepeatWhileTrue,
    Sequence,
    Switch,
    Sync,
    SyncType,
    WriteUndef,
    cycle_stamp,
)
from ipu_teach.report import chrome_trace
from ipu_teach.report.summary import summary_text
from ipu_teach.show.paint import paint, pieces as pieces_of
from ipu_teach.show.scene import Cells, Flame, Tape
from ipu_teach.show.shapes import Words

INSIDE, TOGETHER = 100, 700  # cycles of a sync: of one IPU, and of two


class Down(Vertex):
    count: InOut[INT]

    def compute(self) -> None:
        self.count = self.count - 1


def test_ipus_do_not_wait_for_each_other_inside() -> None:
    m = TwoTileMachine()
    report = m.run(m.work("a", t0=10), m.work("b", t2=50), m.work("c", t1=20, t3=5))
    assert times(report) == [
        ("a", (0, 0, INSIDE + 60)),
        ("b", (1, 0, INSIDE + 300)),
        ("c", (0, 160, 160 + INSIDE + 120), (1, 400, 400 + INSIDE + 30)),
    ]
    assert report.total_cycles == 530 and [(s.start, s.end) for s in report.steps()] == [
        (0, 160),
        (0, 400),
        (160, 530),
    ]
    assert report.overlap.waits.tolist() == [[0, 150], [0, 0]]
    # What a tile does not work it waits or syncs: 530 less 60, less 120, less 300, less 30.
    assert report.sync_cycles_per_tile.tolist() == [470, 410, 230, 500]
    assert [step.cycles for step in report.steps()] == [160, 400, 220]


def test_a_copy_across_is_one_step_of_all() -> None:
    m = TwoTileMachine()
    report = m.run(
        m.work("a", t0=10), Copy(m.numbers[0], m.numbers[2]), m.work("b", t2=50), m.work("c", t1=1)
    )
    # A word reaches row 0 in 54 cycles, and to turn to its sender takes 3; a link takes 15, which
    # is 15 ns at 1 GHz, and 1 for 4 bytes.
    across = TOGETHER + 54 + 3 + 15 + 1
    assert times(report) == [
        ("a", (0, 0, 160)),
        (
            "a view of 'numbers' to a view of 'numbers'",
            (0, 160, 160 + across),
            (1, 160, 160 + across),
        ),
        ("b", (1, 160 + across, 560 + across)),
        ("c", (0, 160 + across, 266 + across)),
    ]
    assert report.total_cycles == 560 + across
    assert report.overlap.waits.tolist() == [[0, 294], [160, 0]]
    assert report.global_exchange_cycles == 16


def test_a_copy_across_is_work_of_two_and_waiting_of_the_others() -> None:
    m = TwoTileMachine(4)
    report = m.run(m.work("a", t0=10), Copy(m.numbers[0], m.numbers[2]), m.work("b", t2=50))
    across = report.step_cost(1).cycles
    assert [(r.own_cycles, r.shared_cycles, r.waiting_cycles) for r in report.ipus] == [
        (160, across, 400),
        (400, across, 160),
        (0, 0, 560 + across),
        (0, 0, 560 + across),
    ]
    # For IPU 0 wait the three others while it is in a, and two of them in the copy.
    assert report.ipus[0].held_cycles == 3 * 160 + 2 * across
    assert report.ipus[0].held_by == report.step_cost(1).name
    the_time_is_the_runs(report)
    rows = show.timeline(report).scene.mark("programs")
    assert isinstance(rows, Flame)
    idle = {rows.names[k] for k in rows.title[rows.depth > 1].tolist()}
    assert idle == {"waits for IPU 0", "waits for IPU 1"}
    said = [still.note for still in show.bsp(report).scene.stills]
    assert not any("IPU 2" in note or "IPU 3" in note for note in said)
    assert all("wait" in note for note in said)
    assert report.ipus[2].waits_for == 0 and sum(r.held_cycles for r in report.ipus) == sum(
        r.waiting_cycles for r in report.ipus
    )
    opened = Report.deserialize(report.serialize())
    assert opened.ipus == report.ipus


def test_stages_one_after_another_are_each_at_work_a_quarter_of_the_time() -> None:
    m = TwoTileMachine(4)
    stages = [m.work(f"stage {ipu}", **{f"t{2 * ipu}": 1000}) for ipu in range(4)]
    copies = [Copy(m.numbers[2 * ipu], m.numbers[2 * ipu + 2]) for ipu in range(3)]
    order = [step for pair in zip(stages, copies, strict=False) for step in pair]
    report = m.run(*order, stages[3])
    own = INSIDE + 6000
    assert [r.own_cycles for r in report.ipus] == [own] * 4
    assert max(r.busy for r in report.ipus) < 0.29 and min(r.busy for r in report.ipus) > 0.24


def test_an_edge_across_holds_up_all() -> None:
    m = TwoTileMachine(3)
    cs = m.graph.add_compute_set("far")
    v = m.graph.add_vertex(cs, Busy, x=m.numbers[5])
    m.graph.set_tile_mapping(v, 0)
    m.graph.set_perf_estimate(v, 1)
    report = m.run(m.work("a", t2=10), Execute(cs), m.work("b", t0=10, t4=20))
    _, (_, *far), last = times(report)
    assert [ipu for ipu, *_ in far] == [0, 1, 2] and {start for _, start, _ in far} == {160}
    (end,) = {end for *_, end in far}
    assert (
        last == ("b", (0, end, end + 160), (2, end, end + 220)) and report.total_cycles == end + 220
    )


@pytest.mark.parametrize(("tiles", "busiest"), [((0, 2), 256), ((0, 0), 512), ((1, 2, 3), 512)])
def test_each_ipu_has_a_host_link_of_its_own(tiles: tuple[int, ...], busiest: int) -> None:
    """1,024 bytes, a packet, on each of some tiles, at 4 bytes a cycle: what one IPU gets goes over
    its own link."""
    m = TwoTileMachine()
    x = m.graph.add_variable(FLOAT, (len(tiles) * 256,), "x")
    for i, tile in enumerate(tiles):
        m.graph.set_tile_mapping(x[i * 256 : (i + 1) * 256], tile)
    m.graph.create_host_write("write", x)
    stream = m.graph.add_host_to_device_fifo("in", FLOAT, len(tiles) * 256)
    report = m.run(
        m.work("a", t3=10), Copy(stream, x), **{"in": np.zeros(len(tiles) * 256, np.float32)}
    )
    step = report.steps()[1]
    assert (step.start, step.cycles) == (160, TOGETHER + busiest) and step.cost.host_bytes == len(
        tiles
    ) * 1024
    assert all(i.cycles == step.cycles for i in step.ipus)
    halved = report.what_if(host_bytes_per_second=8e9)
    assert halved.steps()[1].cycles == TOGETHER + busiest // 2
    opened = Report.deserialize(report.serialize()).what_if(host_bytes_per_second=8e9)
    assert times(opened) == times(halved) and opened.digest() == halved.digest()


@pytest.mark.parametrize("remote", [False, True])
def test_under_single_pipeline_an_ipu_talks_to_the_host_alone(remote: bool) -> None:
    """1,024 bytes at 4 a cycle come to IPU 1, and 512 to IPU 0, while the other goes on."""
    pattern = "SINGLE_PIPELINE"
    m = TwoTileMachine(sync_pattern=pattern)
    x = [m.variable(f"x{ipu}", 2 * ipu, each=each) for ipu, each in ((0, 128), (1, 256))]
    copies, streams = [], {}
    for ipu, tensor in enumerate(x):
        n = tensor.num_elements
        if remote:
            m.graph.set_initial_value(tensor, 0)
            copies.append(Copy(tensor, m.graph.add_remote_buffer(f"in{ipu}", FLOAT, n)))
        else:
            copies.append(Copy(m.graph.add_host_to_device_fifo(f"in{ipu}", FLOAT, n), tensor))
            streams[f"in{ipu}"] = np.zeros(n, np.float32)
    report = m.run(m.work("a", t0=10), copies[1], m.work("b", t3=5), copies[0], **streams)
    assert times(report) == [
        ("a", (0, 0, 160)),
        ("in1", (1, 0, INSIDE + 256)),
        ("b", (1, 356, 356 + INSIDE + 30)),
        ("in0", (0, 160, 160 + INSIDE + 128)),
    ]
    assert report.total_cycles == 486 and not report.profile.external.any()
    # Only the one that takes part has phases in it, and only its own bytes keep it.
    link = "streaming memory" if remote else "host exchange"
    (_, (host,)) = [[p.cycles for p in report.phases(3, ipu) if p.kind == link] for ipu in (1, 0)]
    assert host == 128 and report.phases(3, 1) == ()
    full = report.what_if(sync_pattern="FULL")
    assert full.total_cycles == 160 + 2 * TOGETHER + 256 + 128 + INSIDE + 30
    opened = Report.deserialize(report.serialize())
    assert opened.target.sync_pattern == pattern
    assert times(opened.what_if(sync_pattern="FULL")) == times(full)
    assert times(Report.deserialize(full.serialize()).what_if(sync_pattern=pattern)) == times(
        report
    )
    # a graph that is not replicated is one replica, whose IPUs are all
    assert times(report.what_if(sync_pattern="REPLICA_AND_LADDER")) == times(full)


def test_under_replica_and_ladder_the_ipus_of_a_replica_talk_to_the_host_together() -> None:
    """Two replicas of two IPUs; 512 bytes at 4 a cycle come to the first IPU of each. IPU 1, which
    is late, holds up its own replica."""
    m = TwoTileMachine(4, sync_pattern="REPLICA_AND_LADDER")
    graph = Graph(m.device, replication_factor=2)
    m.graph = graph.get_top_level_graph()
    m.numbers = m.variable("numbers, replica 1 of 4", *range(8))  # so named by somebody
    m.graph.set_initial_value(m.numbers, 1)
    x = graph.add_variable(FLOAT, (128,), "x")
    graph.set_tile_mapping(x, 0)
    stream = graph.add_host_to_device_fifo("in", FLOAT, 128)
    slow, last = m.work("a", t2=50), m.work("b", t0=10, t6=10)
    report = m.run(slow, Copy(stream, x), last, **{"in": np.zeros(256, np.float32)})
    lasts = TOGETHER + 128  # the sync of two IPUs
    assert times(report) == [
        ("a", (1, 0, 400)),
        ("in", (0, 400, 400 + lasts), (1, 400, 400 + lasts), (2, 0, lasts), (3, 0, lasts)),
        ("b", (0, 1228, 1388), (3, 828, 988)),
    ]
    assert report.total_cycles == 1388 and not report.profile.external.any()
    assert report.overlap.waits.tolist() == [
        [0, 400, 0, 0],
        [lasts + 160, 0, 0, 0],
        [1388 - lasts, 0, 0, 0],
        [1388 - 988, 0, lasts, 0],
    ]
    for ipu in range(4):  # its phases are as long as what it is kept
        assert sum(p.cycles for p in report.phases(1, ipu)) == lasts
    assert report.replicas == 2 and report.ipu_name(1) == "IPU 1, replica 0 of 2"
    opened = Report.deserialize(report.serialize())
    assert opened.replicas == 2
    lone = TwoTileMachine(4)
    lone.graph.set_tile_mapping(lone.graph.add_variable(INT, (), "z, replica 0 of 2"), 0)
    assert Report.deserialize(lone.run(lone.work("a", t0=1)).serialize()).replicas == 1
    of_four = TOGETHER + 30 + 128
    for one in (report, opened):
        full, alone = (one.what_if(sync_pattern=p) for p in ("FULL", "SINGLE_PIPELINE"))
        assert times(full)[1] == ("in", *((ipu, 400, 400 + of_four) for ipu in range(4)))
        assert times(alone)[1] == ("in", (0, 0, INSIDE + 128), (2, 0, INSIDE + 128))
        assert times(
            Report.deserialize(full.serialize()).what_if(sync_pattern="REPLICA_AND_LADDER")
        ) == times(report)


def test_a_transfer_of_several_ipus_keeps_each_for_its_own_share() -> None:
    m = TwoTileMachine(sync_pattern="SINGLE_PIPELINE")
    x = m.variable("x", 0, 1, 2, each=256)
    stream = m.graph.add_host_to_device_fifo("in", FLOAT, 768)
    report = m.run(m.work("a", t3=10), Copy(stream, x), **{"in": np.zeros(768, np.float32)})
    assert times(report)[1] == ("in", (0, 0, INSIDE + 512), (1, 160, 160 + INSIDE + 256))


def test_a_print_and_a_sync_hold_up_all_under_any_pattern() -> None:
    m = TwoTileMachine(sync_pattern="SINGLE_PIPELINE")
    report = m.run(
        PrintTensor(m.numbers[0]), Sync(SyncType.EXTERNAL), Copy(m.numbers[0], m.numbers[3])
    )
    assert report.profile.external.tolist() == [True] * 3


def test_the_pattern_alone_moves_no_figure_of_one_ipu() -> None:
    m = TwoTileMachine(1)
    stream = m.graph.add_host_to_device_fifo("in", FLOAT, 2)
    report = m.run(Copy(stream, m.numbers), m.work("a", t0=10), **{"in": np.ones(2, np.float32)})
    alone = report.what_if(sync_pattern="SINGLE_PIPELINE")
    assert times(alone) == times(report) and alone.total_cycles == report.total_cycles


def test_an_if_tells_all_ipus() -> None:
    m = TwoTileMachine()
    yes = m.graph.add_constant(INT, (1,), 1, "yes")
    m.graph.set_tile_mapping(yes, 0)
    slow, quick, last = m.work("slow", t2=50), m.work("quick", t0=10), m.work("last", t1=10)
    assert times(m.run(slow, quick)) == [("slow", (1, 0, 400)), ("quick", (0, 0, 160))]
    for branch in (If(yes[0], quick, last), Switch(yes[0], {1: quick}, last)):
        assert times(m.run(slow, branch)) == [("slow", (1, 0, 400)), ("quick", (0, 400, 560))]
    # It reads the predicate even where it then does nothing.
    report = m.run(slow, If(yes[0], Sequence(), last), quick)
    assert times(report) == [("slow", (1, 0, 400)), ("quick", (0, 400, 560))]
    assert report.overlap.waits.tolist() == [[0, 400], [160, 0]]


def test_a_while_tells_all_ipus_each_time_and_a_repeat_never() -> None:
    m = TwoTileMachine()
    count = m.variable("count", 0, dtype=INT)
    m.graph.set_initial_value(count, 2)
    down = m.graph.add_compute_set("down")
    v = m.graph.add_vertex(down, Down, count=count[0])
    m.graph.set_tile_mapping(v, 0)
    m.graph.set_perf_estimate(v, 5)
    slow, quick = m.work("slow", t2=50), m.work("quick", t0=10)
    # 100 + 30 on IPU 0, 400 on IPU 1 and 160 on IPU 0; the last decision waits for the last turn's
    # body.
    report = m.run(
        RepeatWhileTrue(Sequence(), count[0], Sequence(slow, quick, Execute(down))), quick
    )
    assert times(report) == [
        ("slow", (1, 0, 400)),
        ("quick", (0, 0, 160)),
        ("down", (0, 160, 290)),
        ("slow", (1, 400, 800)),
        ("quick", (0, 400, 560)),
        ("down", (0, 560, 690)),
        ("quick", (0, 800, 960)),
    ]
    m = TwoTileMachine()
    report = m.run(Repeat(3, Sequence(m.work("slow", t2=50), m.work("quick", t0=10))))
    assert times(report)[4:] == [("slow", (1, 800, 1200)), ("quick", (0, 320, 480))]
    assert report.total_cycles == 1200 and report.overlap.waits.tolist() == [[0, 720], [0, 0]]


def test_syncs_inside_and_outside() -> None:
    m = TwoTileMachine()
    a, b = m.work("a", t0=10), m.work("b", t2=50)
    report = m.run(a, b, Sync(SyncType.INTERNAL), a)
    assert times(report)[2:] == [("INTERNAL", (0, 160, 260), (1, 400, 500)), ("a", (0, 260, 420))]
    for kind in (SyncType.EXTERNAL, SyncType.GLOBAL):
        report = m.run(a, b, Sync(kind), a)
        assert times(report)[2:] == [
            (kind.value, (0, 400, 400 + TOGETHER), (1, 400, 400 + TOGETHER)),
            ("a", (0, 400 + TOGETHER, 560 + TOGETHER)),
        ]


def test_a_run_begins_on_all_ipus_at_once() -> None:
    m = TwoTileMachine()
    report = m.run(m.work("a", t0=10), m.work("b", t2=50), runs=2)
    assert (
        times(report)[2:] == [("a", (0, 400, 560)), ("b", (1, 400, 800))]
        and report.total_cycles == 800
    )
    assert "  2 x           4 steps             800 cycles, 0 of them host copies" in summary_text(
        report, ["Runs"]
    )


def test_what_nobody_does_and_what_all_do() -> None:
    m = TwoTileMachine()
    empty = Execute(m.graph.add_compute_set("empty"))
    report = m.run(m.work("a", t0=10), WriteUndef(m.numbers[3]), empty)
    assert [row[1:] for row in times(report)] == [((0, 0, 160),), (), ((0, 160, 260), (1, 0, 100))]
    assert [(s.start, s.end, s.cycles) for s in report.steps()] == [
        (0, 160, 160),
        (0, 0, 0),
        (0, 260, 100),
    ]
    never = m.run(Repeat(0, empty))
    assert (
        never.total_cycles == 0
        and never.steps() == []
        and never.overlap.waits.tolist() == [[0, 0], [0, 0]]
    )


def test_a_stamp_reads_the_clock_of_its_ipu() -> None:
    m = TwoTileMachine()
    yes = m.graph.add_constant(INT, (1,), 1, "yes")
    m.graph.set_tile_mapping(yes, 0)
    program = Sequence(m.work("a", t0=10), m.work("b", t2=50))
    stamps = [cycle_stamp(m.graph, program, tile) for tile in (0, 2)]
    program.add(If(yes[0], Sequence(), Sequence()))
    stamps.append(cycle_stamp(m.graph, program, 1, SyncType.EXTERNAL))
    for i, stamp in enumerate(stamps):
        m.graph.create_host_read(f"stamp{i}", stamp)
    engine = Engine(m.graph, program)
    engine.load(m.device)
    engine.run()
    # Two internal syncs before the second stamp and the branch.
    assert [engine.read_tensor(f"stamp{i}")[0] for i in range(3)] == [260, 600, 600 + TOGETHER]
    engine.run()
    assert [engine.read_tensor(f"stamp{i}")[0] - 600 - TOGETHER for i in range(3)] == [
        260,
        600,
        600 + TOGETHER,
    ]
    assert engine.report.total_cycles == 2 * (600 + TOGETHER)


def test_blocks_follow_the_clock_of_their_tile() -> None:
    m = TwoTileMachine()
    a, b = m.work("a", t0=10, t1=5), m.work("b", t2=50)
    report = m.run(Block(a, "first"), Block(b, "second"), Block(Sequence(a, b), "third"))
    told = [
        [(x.name, x.cycles_from, x.cycles_to) for x in report.execution.blocks(tile)]
        for tile in (0, 1, 2)
    ]
    assert told[0] == [("first", 0, 160), ("second", 160, 160), ("third", 160, 320)]
    assert told[1] == [("first", 0, 130), ("second", 130, 160), ("third", 160, 320)]
    assert told[2] == [("first", 0, 0), ("second", 0, 400), ("third", 400, 800)]


def test_the_first_of_four_ipus_takes_as_long_as_one_alone() -> None:
    def run(ipus: int) -> Report:
        m = TwoTileMachine(ipus)
        x, y = m.variable("x", 0, 1, each=50), m.variable("y", 1, 0, each=50)
        m.graph.set_initial_value(x, 2)
        m.graph.set_initial_value(y, 2)
        body = Sequence(
            m.work("a", t0=7, t1=9),
            Copy(x, y),
            Copy(y[::2], x[:50]),
            m.work("b", t1=3),
            Sync(SyncType.INTERNAL),
        )
        return m.run(Repeat(3, body))

    one, four = run(1), run(4)
    assert one.total_cycles == four.total_cycles == sum(step.cycles for step in one.steps())
    assert [(s.name, s.cycles, s.ipus[0].start, s.ipus[0].cycles) for s in four.steps()] == [
        (s.name, s.cycles, s.start, s.cycles) for s in one.steps()
    ]
    assert one.overlap.waits.tolist() == [[0]]


def test_the_phases_of_an_ipu_are_its_share_of_a_step() -> None:
    m = TwoTileMachine()
    x, y = m.variable("x", 0, 2, 3, each=40), m.variable("y", 1, 3, 2, each=40)
    m.graph.set_initial_value(x, 2)
    report = m.run(m.work("c", t0=20, t1=9, t3=5), Copy(x, y), Copy(x[:40], y[40:80]))
    for step in report.steps():
        for ipu, share in enumerate(step.ipus):
            found = report.phases(step.step, ipu)
            assert sum(p.cycles for p in found) == share.cycles
            external = bool(report.profile.external[step.step])
            assert external or all(
                p.busy is None or not p.busy.reshape(2, 2)[1 - ipu].any() for p in found
            )
    assert [p.cycles for p in report.phases(0, 1)] == [100, 30] and [
        p.cycles for p in report.phases(0)
    ] == [100, 120]


# --- what reports and pictures say of it ----------------------------------------------------------


def test_a_summary_says_how_much_each_ipu_is_at_work_and_who_holds_up_the_others() -> None:
    report = uneven_ipus()
    # Between the copies "both" and "quick" take 380 cycles on IPU 0, "both" and "slow" 530 on IPU
    # 1.
    assert report.total_cycles == 400 + 773 + 530 + 773 + 220
    found = [
        (r.ipu, r.busy_cycles, r.waiting_cycles, r.waits_for, r.held_cycles, r.held_by)
        for r in report.ipus
    ]
    assert found == [(0, 2306, 390, 1, 90, "both"), (1, 2606, 90, 0, 390, "slow")]
    assert [row.busy for row in report.ipus] == [2306 / 2696, 2606 / 2696] and report.data[
        "IPUs"
    ] == report.ipus.records()
    text = summary_text(report, ["Execution"])
    assert (
        """
  IPU 0 is at work:                                     2,306 (85.5% of total; waits longest for IPU 1)
  IPU 1 is at work:                                     2,606 (96.7% of total; waits longest for IPU 0)
  The others wait longest for:                          IPU 1, 390 cycles of them all; longest is its 'slow'
"""
        in text
    )
    (insight,) = [i for i in report.insights() if i.kind == "IPUs"]
    assert (insight.name, insight.figure, insight.unit, insight.advice) == (
        "IPU 1",
        390,
        "cycles",
        "",
    )
    assert insight.text == (
        "IPU 1 delays the others: they wait for it for 7.2 % of the time of all IPUs, longest while "
        "it executes 'slow'. Working time: IPU 1 97 %, IPU 0 86 % of the run."
    )
    m = TwoTileMachine()
    slow = m.run(m.work("slow", t2=50))
    assert (
        "IPU 0 is at work:                                     0 (0.0% of total; waits longest for "
        "IPU 1)" in summary_text(slow)
    )
    (insight,) = [i for i in slow.insights() if i.kind == "IPUs"]
    assert insight.advice.startswith("give all IPUs equal work") and insight.lesson
    even = TwoTileMachine()
    told = summary_text(even.run(even.work("even", t0=5, t2=5)))
    assert "(100.0% of total; waits for no other IPU)" in told and "none, no IPU waits" in told
    many = TwoTileMachine(18)
    assert "… and 2 more IPUs, see report.ipus" in summary_text(many.run(many.work("a", t0=5)))
    alone = TwoTileMachine(1)
    one = alone.run(alone.work("a", t0=5))
    assert "IPU 0" not in summary_text(one) and "IPUs" not in one.data and one.ipus[0].busy == 1
    assert not [i for i in one.insights() if i.kind == "IPUs"]


def test_a_trace_has_the_clock_of_each_ipu() -> None:
    report = uneven_ipus()
    events = json.loads(chrome_trace(report))["traceEvents"]
    rows = {
        e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"
    }
    spans: dict[str, list[tuple[str, int, int]]] = {}
    for e in events:
        if e["ph"] == "X":  # at 1 GHz a cycle is a nanosecond, and a trace counts in microseconds
            spans.setdefault(rows[e["tid"]], []).append(
                (e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000))
            )
    copy = "a view of 'numbers' to a view of 'numbers'"
    assert spans["steps of IPU 0"][:4] == [
        ("quick", 0, 160),
        (copy, 400, 773),
        ("both", 1173, 220),
        ("quick", 1393, 160),
    ]
    assert spans["steps of IPU 1"][:4] == [
        ("slow", 0, 400),
        (copy, 400, 773),
        ("both", 1173, 130),
        ("slow", 1303, 400),
    ]
    assert spans["phases of IPU 1"][:2] == [("sync", 0, 100), ("compute", 100, 300)]
    assert spans["tile 2"][0] == ("compute", 100, 300) and spans["tile 1"] == [
        ("compute", 1273, 120),
        ("compute", 2576, 120),
    ]
    assert all(
        b[1] >= a[1] + a[2] for row in spans.values() for a, b in zip(row, row[1:], strict=False)
    )


def test_the_timeline_has_a_row_for_each_ipu() -> None:
    report = uneven_ipus()
    scene = show.timeline(report).scene
    flame, tape = scene.mark("programs"), scene.mark("tiles")
    assert isinstance(flame, Flame) and isinstance(tape, Tape) and flame.timed
    boxes = list(
        zip(
            flame.depth.tolist(),
            (flame.names[t] for t in flame.title),
            flame.first.tolist(),
            flame.last.tolist(),
            strict=True,
        )
    )
    assert [box for box in boxes if box[0] == 0][:4] == [
        (0, "quick", 0, 160),
        (0, "waits for IPU 1", 160, 400),
        (0, "a view of 'numbers' to a view of 'numbers'", 400, 1173),
        (0, "both", 1173, 1393),
    ]
    assert (
        flame.rows
        == ("IPU 0", "IPU 1")
        <= tuple(
            s.text for s in paint(scene, 0) if isinstance(s, Words) and s.text.startswith("IPU")
        )
    )
    assert (1, "waits for IPU 0", 2606, 2696) in boxes and max(
        box[3] for box in boxes
    ) == report.total_cycles
    # What is chosen are stretches, each as long as the IPU that takes longest in it.
    assert scene.group == "stretch" and [scene.stills[i].cycles for i in scene.frames] == [
        400,
        773,
        530,
        773,
        220,
    ]
    told = scene.stills[int(scene.frames[2])]
    assert told.note == (
        "IPU 0 finishes after 380, IPU 1 finishes after 530; IPU 1 longest with slow"
    )
    assert told.values["compute"].tolist() == [60, 120, 300, 30]
    # Every lane is filled from the beginning to the end of each stretch, and nothing is drawn over
    # something else.
    for still in scene.stills:
        drawing = scene.drawings[still.lanes["tiles"][0]]
        for lane in range(4):
            pieces = []
            for bar in drawing.bars:
                start, length = (
                    int(v[lane]) if isinstance(v, np.ndarray) else int(v)
                    for v in (bar.start, bar.length)
                )
                pieces += [(start, start + length)] if length else []
                pieces += (
                    [(start + length, int(bar.end))]
                    if bar.rest >= 0 and bar.end > start + length
                    else []
                )
            pieces.sort()
            assert [a for a, _ in pieces] == [0, *(b for _, b in pieces[:-1])] and pieces[-1][
                1
            ] == still.cycles
    assert (
        "IPU 0 85.5 %, IPU 1 96.7 %; in sum, the others wait longest for IPU 1, while it is in slow"
        in scene.sentence
    )
    codes, cycles = pieces_of(scene)
    assert cycles.sum() == report.total_cycles and len(codes) == len(cycles)


def test_the_lanes_of_many_tiles_are_sorted_within_each_ipu() -> None:
    device = IPUModel(num_ipus=2, tiles_per_ipu=50).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, (100,), "x")
    graph.set_initial_value(x, 1)
    cs = graph.add_compute_set("all")
    for tile in range(100):
        graph.set_tile_mapping(x[tile], tile)
        v = graph.add_vertex(cs, Busy, x=x[tile])
        graph.set_tile_mapping(v, tile)
        graph.set_perf_estimate(v, 10 if tile < 50 else 20 + tile)
    engine = Engine(graph, Execute(cs))
    engine.load_and_run(device)
    scene = show.timeline(engine.report).scene
    (still,) = scene.stills
    lanes = still.values["compute"]
    assert (
        len(lanes) == 64 and set(lanes[:32].tolist()) == {60} and np.all(np.diff(lanes[32:]) <= 0)
    )
    assert lanes.sum() / 64 == pytest.approx(engine.report.compute_cycles_per_tile.mean(), abs=0.1)
    tape = scene.mark("tiles")
    assert (
        isinstance(tape, Tape)
        and tape.ends == (("IPU 0", 0.25), ("IPU 1", 0.75))
        and any("of each IPU" in note for note in scene.notes)
    )


def test_a_frame_of_the_animation_is_what_all_ipus_do_meanwhile() -> None:
    report = uneven_ipus()
    view = show.bsp(report)
    rows = [
        (row["name"], row["runs"], row["compute cycles"], row["slowest tile"]) for row in view.data
    ]
    assert ("IPU 0: both", "2", "120", "1") in rows and ("IPU 1: both", "2", "30", "3") in rows
    scene = view.scene
    assert scene.group == "stretch" and sum(scene.stills[i].first for i in scene.frames) == 5
    slow = [s for s in scene.stills if s.label == "compute: IPU 1: slow"]
    assert [s.cycles for s in slow[:2]] == [60, 240]  # until IPU 0 is done, and then
    for still, letters, until in zip(
        slow, ("CCCC", "WWCC"), ([60, 0, 60, 0], [0, 0, 240, 0]), strict=False
    ):
        code, busy, then = still.cells["tiles"]
        assert "".join(scene.codes[c].letter for c in np.asarray(code).tolist()) == letters
        assert np.asarray(busy).tolist() == until and scene.codes[then].name == "waiting"
    assert slow[1].note == (
        "the other waits; in IPU 1 tile 2 is the slowest, 300 modelled cycles; "
        "50.0 % of IPU 1's tiles' time in this phase is waiting: 1 other waits 300 cycles. "
        "This is a part of that phase, which takes 300 cycles"
    )
    last = scene.stills[int(scene.frames[scene.poster])]
    assert last.label == "compute: IPU 1: slow"  # in the longest waiting of IPUs
    assert (
        scene.title
        == "The longest wait: IPU 1 makes 1 other wait 240 cycles in stretch 1, in Execute slow"
    )
    assert {scene.codes[i].name for i in scene.legend} >= {"waiting", "compute", "sync"}
    for place, step in enumerate(report.steps()):  # a step of the run stands in its stretch
        at = show.bsp(report, at=place).scene
        begin = sum(at.stills[i].cycles for i in at.frames[: at.poster])
        end = begin + at.stills[int(at.frames[at.poster])].cycles
        stretch = np.searchsorted(report.overlap.begins, step.start, "right")
        first, last = report.overlap.begins[stretch - 1 : stretch + 1].tolist()
        assert first <= begin < end <= last
    names = scene.mark("tiles")
    assert isinstance(names, Cells) and names.names == ("IPU 0", "IPU 1")
    two = show.bsp(report, report.what_if(global_sync_cycles=0)).scene
    assert [two.stills[i].cycles for i in two.frames] == [
        400,
        773,
        530,
        773,
        220,
        400,
        173,
        530,
        173,
        220,
    ]
    the_time_is_the_runs(report)


def the_time_is_the_runs(report: Report) -> None:
    """What three views draw and say of each tile and IPU, against the steps of the run one by
    one."""
    tiles, total = report.target.num_tiles, report.total_cycles
    ipus, of = report.target.num_sets, report.target.set_of(np.arange(tiles))
    fixed = np.zeros(ipus, np.int64)  # when no tile of an IPU does anything by itself
    work = np.zeros(tiles, np.int64)
    for step in report.steps():
        cost, takes = step.cost, np.ones(ipus, bool)
        if report.profile.external[step.step]:  # whoever has no part in it waits
            takes = report.profile.at_work(step.step)
        for k, one in enumerate(step.ipus):
            fixed[k] += (cost.sync_cycles + cost.global_exchange_cycles + cost.host_cycles) * bool(
                one.cycles and (takes[k] or not takes.any())
            )
            work[of == k] += one.cycles_by_tile * bool(one.cycles)
    waits = total - work - fixed[of]

    scene = show.bsp(report).scene
    spent = {code.name: np.zeros(tiles, np.int64) for code in scene.codes}
    for i in scene.frames.tolist():
        still = scene.stills[i]
        code, until, then = (np.broadcast_to(v, tiles) for v in still.cells["tiles"])
        for tile in range(tiles):
            spent[scene.codes[code[tile]].name][tile] += until[tile]
            spent[scene.codes[then[tile]].name][tile] += still.cycles - until[tile]
    assert np.all(sum(spent.values()) == total) and not spent["not at work"].any()
    assert spent["waiting"].tolist() == waits.tolist()
    assert spent["compute"].tolist() == report.compute_cycles_per_tile.tolist()
    codes, cycles = pieces_of(scene)
    assert cycles.sum() == total and len(scene.frames) == len(codes)
    assert pieces_of(show.timeline(report).scene)[1].sum() == total

    made = show.balance(report)
    share = waits.mean() / total
    assert repr(made).startswith(f"{total:,} modelled cycles on ")
    assert f": {100 * share:.1f} % of their time is waiting" in repr(made)
    stills = [made.scene.stills[i] for i in made.scene.frames.tolist()]
    assert sum(s.cycles for s in stills) == total
    told = [s.about["tiles of run"][1] for s in stills]
    assert sum(t["waits"] for t in told).tolist() == waits.tolist()
    assert sum(t["work"] for t in told).tolist() == work.tolist()
    tape = made.scene.mark("run")
    assert isinstance(tape, Tape) and tape.count % ipus == 0
    drawn = 0.0
    for still in stills:
        for bar in made.scene.drawings[still.lanes["run"][0]].bars:
            begin, long = (np.broadcast_to(v, tape.count) for v in (bar.start, bar.length))
            rest = made.scene.codes[bar.rest].name == "waiting" if bar.rest >= 0 else False
            drawn += (bar.end - begin - long).mean() * rest
            drawn += long.mean() * (made.scene.codes[int(np.max(bar.code))].name == "waiting")
    assert drawn / total == pytest.approx(share, abs=0.5 * len(stills) / total)

    rows = show.program(report).data
    if ipus > 1 and rows:
        busy = [row.busy_cycles for row in report.ipus]
        names = report.target.sets
        assert [int(rows[0][name].replace(",", "")) for name in names] == busy
        assert rows[0]["modelled cycles"] == f"{max(busy):,}"
        assert rows[0]["share"] == f"{100 * max(busy) / total:.1f} %"
        most = [k for k in range(ipus) if busy[k] == max(busy)]
        several = "all" if len(most) == ipus else f"{len(most)} of {ipus}"
        assert rows[0]["longest on"] == (names[most[0]] if len(most) == 1 else several)


def with_io_tiles(ipus: int = 1, **fields: Any) -> TwoTileMachine:
    """The first tile of each IPU is an I/O tile."""
    return TwoTileMachine(ipus, io_tiles=1, **fields)


def test_what_io_tiles_do_alone_holds_up_no_other_tile_until_a_copy_joins_them() -> None:
    m = with_io_tiles()
    a, x, y, b = (m.variable(n, t, each=256) for n, t in zip("axyb", (0, 1, 1, 0), strict=True))
    into, out = (m.graph.add_remote_buffer(name, FLOAT, 256) for name in ("into", "out"))
    m.graph.set_initial_value(a, 1)
    m.graph.set_initial_value(y, 2)
    report = m.run(
        Copy(a, out),
        Copy(out, a),
        m.work("long", t1=100),
        Copy(a, x),
        Copy(y, b),
        Copy(b, into),
        m.work("short", t1=10),
    )
    # 1,024 bytes at 4 a cycle, and the sync of one IPU; both copies between the sets are one step
    joined = INSIDE + 54 + 256
    begin = INSIDE + 600
    assert times(report) == [
        ("out", (0, 0, 356)),
        ("out", (0, 356, 712)),
        ("long", (1, 0, begin)),
        ("2 copies: 'a' to 'x', …", (0, 712, 712 + joined), (1, 712, 712 + joined)),
        ("into", (0, 712 + joined, 712 + joined + 356)),
        ("short", (1, 712 + joined, 712 + joined + 160)),
    ]
    assert report.total_cycles == 712 + joined + 356
    assert [(r.busy_cycles, r.waiting_cycles, r.waits_for) for r in report.ipus] == [
        (3 * 356 + joined, 0, -1),
        (begin + joined + 160, 12 + 196, 0),
    ]
    assert "IPU 0 I/O is at work:" in summary_text(report)
    assert "I/O Tiles per IPU:      1, the first of each" in summary_text(report)
    assert "waits for IPU 0 I/O" in str(show.timeline(report).scene.json())
    names = [
        e["args"]["name"]
        for e in json.loads(chrome_trace(report))["traceEvents"]
        if "args" in e and "name" in e["args"]
    ]
    assert {"steps of IPU 0 I/O", "phases of IPU 0"} <= set(names)
    the_time_is_the_runs(report)
    with pytest.raises(InvalidMachineModelError, match="cannot change io_tiles"):
        report.what_if(io_tiles=0)


def test_there_is_one_link_which_io_tiles_serve() -> None:
    """A transfer of a computing tile is theirs, too: so no two use the link at a time, and what one
    stored the next may load."""
    m = with_io_tiles()
    a, x = (m.variable(name, tile, each=256) for name, tile in (("a", 0), ("x", 1)))
    rows = m.graph.add_remote_buffer("rows", FLOAT, 256)
    m.graph.set_initial_value(a, 1)
    report = m.run(Copy(a, rows), m.work("w", t1=10), Copy(rows, x))
    assert times(report) == [
        ("rows", (0, 0, 356)),
        ("w", (1, 0, 160)),
        ("rows", (0, 356, 712), (1, 356, 712)),
    ]


def test_on_several_ipus_io_tiles_wait_for_io_tiles() -> None:
    for pattern, sync in (("FULL", TOGETHER), ("SINGLE_PIPELINE", INSIDE)):
        m = with_io_tiles(2, sync_pattern=pattern)
        a = m.variable("a", 0, each=256)
        m.graph.set_initial_value(a, 1)
        rows = m.graph.add_remote_buffer("rows", FLOAT, 256)
        report = m.run(
            Copy(a, rows),
            m.work("w", t1=10, t3=90),
            Copy(m.numbers[1], m.numbers[3]),
            m.work("i", t2=1),
        )
        (_, *transfer), (_, *work), (_, *across), (_, inner) = times(report)
        held = [0, 2] if pattern == "FULL" else [0]
        assert transfer == [(k, 0, sync + 256) for k in held]
        assert work == [(1, 0, 160), (3, 0, 640)]
        # What crosses between computing tiles holds up no I/O tile.
        assert [(k, begin) for k, begin, _ in across] == [(1, 640), (3, 640)]
        assert inner[:2] == (2, sync + 256 if pattern == "FULL" else 0)
        the_time_is_the_runs(report)


def test_a_copy_among_io_tiles_goes_with_no_compute_set() -> None:
    m = TwoTileMachine(io_tiles=0)
    wide = IPUModel(tiles_per_ipu=4, io_tiles=2).create_device()
    m.device, m.graph = wide, Graph(wide)
    m.numbers = m.variable("numbers", 0, 1, 2, 3)
    m.graph.set_initial_value(m.numbers, 1)
    n = m.numbers
    report = m.run(m.work("w", t3=10), Copy(n[0], n[1]), Copy(n[2], n[3]))
    assert [len(where) for _, *where in times(report)] == [1, 1, 1]
    assert [where[0] for _, where in times(report)] == [1, 0, 1]


def test_io_tiles_are_the_first_of_each_ipu_and_leave_some() -> None:
    m = TwoTileMachine(2, io_tiles=1)
    assert gcl.per_ipu_tiles(m.graph, 0, 1) == [0, 2] and gcl.per_ipu_tiles(m.graph, 1, 1) == [1, 3]
    aside = m.graph.create_virtual_graph(gcl.per_ipu_tiles(m.graph, 0, 1))
    assert aside.target.num_tiles == 2 and aside.target.io_tiles == 0
    assert m.graph.create_virtual_graph(2, 4).target.sets == ("IPU 0 I/O", "IPU 0")
    for offset, count in ((0, 3), (2, 1), (-1, 1), (0, 0), (0, 1.5), ("a", 1)):
        with pytest.raises(PoplibsError) as caught:
            gcl.per_ipu_tiles(m.graph, offset, count)  # type: ignore[arg-type]
        assert "each IPU has 2 tiles, numbered from 0." in str(caught.value)
    with pytest.raises(NotOfferedError, match="is not published"):
        gcl.get_min_io_tiles(m.graph)
    for count in (2, 3):
        with pytest.raises(InvalidMachineModelError) as refused:
            IPUModel(tiles_per_ipu=2, io_tiles=count)
        assert str(refused.value) == (
            f"A machine with {count} I/O tiles on each IPU has no tiles left to compute: "
            "tiles_per_ipu is 2.\n"
            "  next:  set io_tiles to at most 1, or give each IPU more tiles."
        )
    with pytest.raises(InvalidMachineModelError, match="with 1 I/O tiles on each IPU has no"):
        m.device.create_virtual_device(1)
    with pytest.raises(InvalidMachineModelError, match="'FULL' or 'SINGLE_PIPELINE' or"):
        IPUModel(sync_pattern="HALF")


# --- random rows ----------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False))
def test_clocks_are_those_of_a_plain_loop(rng: Random) -> None:
    ipus, count, length = rng.randint(1, 5), rng.randint(1, 6), rng.choice([0, 1, 2, 30])
    meets = np.full((count, ipus), -1)
    partly = rng.random() < 0.5  # some wait for each other while others go on, as with I/O tiles
    for row in meets:
        if rng.random() < 0.3:
            row[:] = 0
        elif partly:
            row[:] = [rng.randint(-1, ipus - 1) for _ in range(ipus)]
    lasts = np.array(
        [[rng.choice([0, 0, 5, 30, rng.randint(1, 99)]) for _ in range(ipus)] for _ in range(count)]
    )
    for row, numbers in zip(lasts, meets, strict=True):
        for number in set(numbers[numbers >= 0].tolist()):
            row[numbers == number] = row[numbers == number].max()
    order = np.array([rng.randrange(count) for _ in range(length)], np.int64)
    joints = sorted(rng.choices(range(length + 2), k=rng.randrange(4)))
    found = Overlap(order, lasts, meets, joints)

    clocks, waits, began = [0] * ipus, [[0] * ipus for _ in range(ipus)], []

    def meet(*members: int) -> None:
        latest = max(clocks[i] for i in members)
        last = next(i for i in members if clocks[i] == latest)
        for ipu in members:
            waits[ipu][last] += latest - clocks[ipu]
            clocks[ipu] = latest

    for place, step in enumerate(order.tolist()):
        if place in joints or (meets[step] == 0).all():
            meet(*range(ipus))
        for number in set(meets[step].tolist()) - {-1}:
            meet(*np.flatnonzero(meets[step] == number).tolist())
        began.append(clocks[:])
        for ipu in range(ipus):
            clocks[ipu] += int(lasts[step, ipu])
        if (meets[step] == 0).all():
            meet(*range(ipus))
    meet(*range(ipus))
    assert found.total == clocks[0] and found.waits.tolist() == waits
    first = rng.randint(0, length)
    last = rng.randint(first, length)
    assert found.starts(first, last).tolist() == began[first:last]
    busy = lasts[order].sum(axis=0)
    assert (busy + found.waits.sum(axis=1)).tolist() == [found.total] * ipus
    for ipu in range(ipus):
        held = sum(waits[other][ipu] for other in range(ipus))
        assert bool(found.holding(ipu).sum()) == bool(held)
        assert partly or np.all(found.holding(ipu) <= lasts[order].sum(axis=0)[ipu])


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_run_lasts_between_its_longest_chain_and_its_sum(rng: Random) -> None:
    """Steps that need nothing of each other may overlap; those that do may not. A chain follows a
    number from tile to tile."""
    ipus = rng.randint(1, 4)
    each = rng.choice([1, 1, 2])  # sets of tiles an IPU: with I/O tiles each tile has its own clock
    m = TwoTileMachine(ipus, io_tiles=each - 1)
    flag = [m.graph.add_constant(INT, (1,), value, f"flag{value}") for value in (0, 1)]
    for constant in flag:
        m.graph.set_tile_mapping(constant, 0)
    # the tiles that a leaf touches, and their worker cycles
    leaves: dict[Program, dict[int, int]] = {}

    def leaf(number: int) -> Program:
        kind = rng.random()
        tiles = rng.sample(range(2 * ipus), rng.randint(1, 2 * ipus))
        if kind < 0.6:
            made: Program = m.work(f"work{number}", **{f"t{t}": rng.randint(1, 90) for t in tiles})
        elif kind < 0.8 and len(tiles) > 1:
            tiles = tiles[:2]
            made = Copy(m.numbers[tiles[0]], m.numbers[tiles[1]])
        elif kind < 0.9:
            tiles, made = tiles[:1], PrintTensor(m.numbers[tiles[0]])
        else:
            tiles, made = [], Sync(rng.choice([SyncType.INTERNAL, SyncType.EXTERNAL]))
        leaves[made] = dict.fromkeys(tiles, 0)
        return made

    def tree(depth: int) -> tuple[Program, list[Any]]:
        """A program, and its leaves in the order in which they run; None stands for a predicate."""
        kind = rng.random()
        if depth == 0 or kind < 0.4:
            made = [leaf(10 * depth + i + 100 * len(leaves)) for i in range(rng.randint(1, 4))]
            return Sequence(*made), list(made)
        body, ran = tree(depth - 1)
        if kind < 0.6:
            count = rng.randrange(4)
            return Repeat(count, body), ran * count
        other, others = tree(depth - 1)
        if kind < 0.8:
            which = rng.randrange(2)
            return If(flag[which][0], body, other), [None, *(ran if which else others)]
        return Sequence(body, other), [*ran, *others]

    program, ran = tree(3)
    engine = Engine(m.graph, program, merge_copies=False)
    engine.load(m.device)
    engine.run()
    report = engine.report
    steps, clocks = iter(report.steps()), [0] * (each * ipus)
    chain, total = [0] * (2 * ipus), 0
    for made in ran:
        if made is None:
            clocks = [max(clocks)] * len(clocks)
            continue
        step = next(steps)
        share = [i.cycles for i in step.ipus]
        touched = leaves[made]
        across = len({tile // 2 for tile in touched}) > 1 and isinstance(made, Copy)
        together = (
            ipus > 1
            and (across or isinstance(made, PrintTensor))
            or getattr(made, "sync_type", 0) is SyncType.EXTERNAL
        )
        here = {t * each // 2 for t in touched} or set(range(len(clocks)))
        if isinstance(made, PrintTensor):  # the link is served by I/O tiles
            here |= {k - k % each for k in here}
        groups = [[k for k in here if k // each == ipu] for ipu in range(ipus)]
        if together:
            kinds = {k % each for k in here}
            groups = [[k for k in range(len(clocks)) if k % each in kinds]]
            assert all(share[k] == step.cycles for k in groups[0])
            here = set(groups[0])
        for group in filter(None, groups):
            latest = max(clocks[k] for k in group)
            for k in group:
                clocks[k] = latest
        assert {k for k, cycles in enumerate(share) if cycles} == here
        assert max(share) <= step.cycles
        assert [i.start for i in step.ipus] == clocks
        clocks = [clock + cycles for clock, cycles in zip(clocks, share, strict=True)]
        total += step.cycles
        if across or len(touched) == 2 and isinstance(made, Copy):
            source, into = touched
            chain[source], chain[into] = (
                chain[source] + step.cycles,
                max(chain[source], chain[into]) + step.cycles,
            )
        else:
            for t in touched:
                chain[t] += share[t * each // 2]
    assert next(steps, None) is None
    assert report.total_cycles == max(clocks)
    assert max(chain) <= report.total_cycles <= total
    if ipus == each == 1:
        assert report.total_cycles == total
    if total:
        the_time_is_the_runs(report)


class Works(Vertex):
    """Keeps its tile busy for as long as it is told."""

    x: InOut[FLOAT]

    def compute(self) -> None:
        self.x = self.x * 2


def beside_io_tiles(rounds: int = 5, elements: int = 20_000, cycles: int = 9_000) -> Engine:
    """Fifteen tiles compute while one I/O tile takes data from the host: nothing is exchanged."""
    device = IPUModel("ipu2", tiles_per_ipu=16, io_tiles=1).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, (15,), "x")
    buffer = graph.add_variable(FLOAT, (elements,), "buffer")
    graph.set_tile_mapping(buffer, 0)
    work = graph.add_compute_set("work")
    for tile in range(1, 16):
        vertex = graph.add_vertex(work, Works, x=x[tile - 1])
        for mapped in (vertex, x[tile - 1]):
            graph.set_tile_mapping(mapped, tile)
        graph.set_perf_estimate(vertex, cycles)
    graph.set_initial_value(x, 1)
    source = graph.add_host_to_device_fifo("in", FLOAT, elements)
    engine = Engine(graph, Repeat(rounds, Sequence(Copy(source, buffer), Execute(work))))
    engine.load(device)
    engine.connect_stream("in", [0.0] * elements)
    engine.run()
    return engine


def test_hidden_transfers_count_for_the_tiles_that_wait_for_them() -> None:
    report = beside_io_tiles().report
    sync, workers = report.target.internal_sync_cycles, report.target.num_worker_contexts
    (transfer,) = [step for step in report.steps() if step.kind != "Execute"][:1]
    link = transfer.cost.host_cycles
    assert report.total_cycles == 5 * (sync + 9_000 * workers) > 5 * link > 0
    # By hand: the I/O tile serves the link and waits else; fifteen tiles compute and sync.
    assert report.link_cycles_per_tile["host exchange"].tolist() == [5 * link, *[0] * 15]
    assert report.sync_cycles_per_tile.tolist() == [
        report.total_cycles - 5 * link,
        *[5 * sync] * 15,
    ]
    total = report.total_cycles
    assert report.proportions["host exchange"] == pytest.approx(5 * link / 16 / total)
    assert report.proportions["sync and waiting"] == pytest.approx(
        (total - 5 * link + 15 * 5 * sync) / 16 / total
    )
    # The I/O tile has syncs of its own, and waits for the rest.
    apart = (total - 5 * (transfer.cycles)) / 16 / total
    assert str(report.why("waiting").causes[0].text) == (
        f"{100 * apart:.1f} % of the tiles' modelled time is waiting for other tiles."
    )
    balance = next(i for i in report.insights() if i.kind == "balance")
    assert (balance.text, balance.advice) == (
        "In every compute set, all tiles compute equally long.",
        "",
    )


@pytest.mark.parametrize("rate", [2e7, 2e9, 2e12])
def test_no_time_is_negative_at_other_rates(rate: float) -> None:
    report = beside_io_tiles(3, 3_000).report.what_if(
        host_bytes_per_second=rate, streaming_bytes_per_second=rate
    )
    links = sum(report.link_cycles_per_tile.values(), np.zeros(16, np.int64))
    parts = report.compute_cycles_per_tile + report.exchange_cycles_per_tile + links
    assert (report.sync_cycles_per_tile >= 0).all()
    assert (parts + report.sync_cycles_per_tile == report.total_cycles).all()
