"""The profile of a small program, worked out by hand and compared line by line."""

from __future__ import annotations

import inspect
import io
import math
import re
from typing import Any

import pytest
from lines import without_line
from small_reports import Work, small_engine

from ipu_teach import (
    FLOAT,
    HALF,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Report,
    Vector,
    Vertex,
    print_profile_summary,
)
from ipu_teach.errors import InvalidOptionError, MissingPerfEstimateError, PoplarIndexError
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.target import COUNTED, GIVEN, GRAPHCORE


class Untraced(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = math.sqrt(self.x[1]) if sorted(self.x) else 0


# By hand, in cycles:
#
#   step            sync  exchange                      compute: tile 0           tile 1            host     sum
#   stream to x      100                                                                            32/4=8   108
#   work             100  32 B of x to tile 1: 54+32/4  7 of 10: 2 rounds, 6*20   1 of 30: 6*30                100+62+180=342
#   x to y           100  32 B of x to tile 1: 62                                                            162
#   x to z           100                                32 B in a piece: 6*(36+44.5+32/8/6), up to 492       592
#                                                                                                    total: 1,204
#
#   The stream is one packet, all of it for tile 0: it goes straight there. A tile's first word
#   comes after 54 cycles.
#   compute, idle threads included: tile 0 120+492, tile 1 180; excluded: tile 0 70+326, as four
#     workers copy, tile 1 30
#   rests on: Graphcore's model: 62+62, and 492 of a copy; our counting: 4 syncs; given with the
#     program: 180, and the host's 8
#   exchange: tile 0 sends for 8+8, tile 1 is done after 62+62; host 8; sync, the rest:
#     1204-396-70-8 = 730 on average
#
# Bytes. Always live: x, which the second program reads without writing it; the constant; and what
# belongs to the vertices.
#
#                 tile 0                                tile 1
#   variables     x 32                                  half 4
#   state         7 vertices of 4                       1 of 4
#   pointers      7 of 12: x has address and length     1 of 12
#   vertex code   440, and 440 of what copies to z      440
#   exchange      a SEND for the work, one for y: 8,    3 instructions to turn to tile 0, twice: 24
#                 and a vertex that copies to z: 12
#   control       4 steps of 16                         52: in the last it only syncs, 4
#   stacks        6 x 512 + 128                         3,200
#   headers       the stream's packet 4
#   together      4,312                                 3,736
#
# The others come and go: in the work out, 28 and 4, and 32 on tile 1 for the x that it reads; in
# the copies y, 32 on tile 1, then z, 32 on tile 0. So the fullest moment of tile 0 is the copy to
# z, 4,344; that of tile 1 the work, 3,772.
SUMMARY = """\
Target:
  Number of IPUs:         1
  Tiles per IPU:          2
  Total Tiles:            2
  Memory Per-Tile:        8.0 kB
  Total Memory:           0.0 MB
  Clock Speed (approx):   1,000.0 MHz

Graph:
  Number of vertices:                8
  Number of edges:                  16
  Number of variables:               5
  Number of compute sets:            1

Memory Usage:
  Total for all IPUs:            8,116 B (8,048 B always live; modelled)
    By Data Type:
      Variables:                    68 B
      Constants:                     4 B
      Vertex state:                 32 B
      Edge pointers:                96 B
      Vertex code:               1,320 B
      Exchange code:                44 B
      Control code:                116 B
      Stacks:                    6,400 B
      Host packet headers:           4 B
      Exchange buffers:             32 B
  Fullest tile:                  4,348 B (53.1% of tile 0, gaps included)

Execution:
  Total cycles:                                         1,204 (approx 1.2 microseconds, modelled)
  Tile average compute cycles (including idle threads): 396.0 (32.9% of total)
  Tile average compute cycles (excluding idle threads): 213.0 (17.7% of total)
  Tile average IPU exchange cycles:                     70.0 (5.8% of total)
  Tile average global exchange cycles:                  0.0 (0.0% of total)
  Tile average host exchange cycles:                    8.0 (0.7% of total)
  Tile average sync cycles:                             730.0 (60.6% of total)
  Codelets of your own are priced:                      compiled
  These cycles rest on:                                 Graphcore's model or formulas 51.2%, our counting 33.2%, figures given \
with the program 15.6%

Cycles by vertex type (modelled):
  Work                            (8 instances):          100
"""

STEPS = """
Execution steps (number, start, modelled cycles, kind, name):
       0               0           108  StreamCopy  in
       1             108           342  Execute     work
       2             450           162  Copy        'x' to 'y'
       3             612           592  Copy        'x' to 'z'
"""


def printed(engine: Engine, *args: Any, **kwargs: Any) -> str:
    out = io.StringIO()
    print_profile_summary(engine.report, *args, file=out, **kwargs)
    return out.getvalue()


def test_the_summary_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    engine = small_engine()
    engine.run()
    assert printed(engine) == SUMMARY
    assert printed(engine, show_execution_steps=True) == SUMMARY + STEPS
    engine.print_profile_summary()
    assert capsys.readouterr().out == SUMMARY
    engine.print_profile_summary(["Execution"], show_execution_steps=True)
    assert (
        capsys.readouterr().out
        == SUMMARY[SUMMARY.index("Execution:") : SUMMARY.index("\nCycles by")] + STEPS
    )


def test_sections() -> None:
    engine = small_engine()
    engine.run()
    blocks = SUMMARY.split("\n\n")
    names = ["Target", "Graph", "Memory Usage", "Execution", "Cycles by vertex type"]
    for name, block in zip(names, blocks, strict=True):
        assert printed(engine, name) == printed(engine, [name]) == block.rstrip("\n") + "\n"
    assert printed(engine, ("Execution", "Target")) == blocks[3] + "\n\n" + blocks[0] + "\n"
    assert printed(engine, []) == "\n"


def test_runs_have_a_section_where_there_are_several() -> None:
    engine = small_engine()
    assert printed(engine, "Runs") == "Runs (modelled):\n"
    engine.run()
    engine.run(1, "alone")
    engine.run()
    # 108 + 342 + 162 + 592 cycles, and of each stream copy 8 that are the host's.
    runs = (
        f"Runs (modelled):\n  {'run (program 0):':<40}     2 x           8 steps           2,408 "
        f"cycles, 16 of them host copies\n  {'alone (program 1):':<40}     1 x           1 "
        "steps             342 cycles, 0 of them host copies\n"
    )
    assert printed(engine, "Runs") == runs and "\n\n" + runs + "\nCycles by vertex type" in printed(
        engine
    )
    assert "Runs (modelled)" in engine.report._repr_html_()
    for number in range(12):
        engine.run(1, f"{number}")
    assert printed(engine, "Runs").splitlines()[-1] == "  … and 2 more, see report.runs"
    engine.reset_execution_profile()
    engine.disable_execution_profiling()
    engine.run()
    assert (
        printed(engine, "Runs")
        == "Runs (modelled):\n  4 steps ran unrecorded, with profiling disabled.\n"
    )


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        (
            "execution",
            "The profile has no section 'execution'.\n  next:  did you mean 'Execution'? choose "
            "from ",
        ),
        (
            ["Graph", "Memory"],
            "The profile has no section 'Memory'.\n  next:  did you mean 'Memory Usage'? choose "
            "from ",
        ),
        ([None], "The profile has no section None.\n  next:  choose from "),
        (5, "The profile has no section '5'.\n  next:  choose from "),
    ],
)
def test_unknown_sections(sections: Any, text: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        small_engine().print_profile_summary(sections)
    assert (
        str(caught.value)
        == text + "Target, Graph, Memory Usage, Execution, Runs, Cycles by vertex type."
    )


def test_only_a_report_can_be_printed() -> None:
    engine: Any = small_engine()
    with pytest.raises(InvalidOptionError) as caught:
        print_profile_summary(engine)
    assert str(caught.value) == (
        "print_profile_summary() was given Engine(2 programs, loaded, 0 steps run), which is not a "
        "report.\n  next:  give it engine.report."
    )


def test_before_anything_ran() -> None:
    engine = small_engine()
    assert printed(engine, ["Execution", "Cycles by vertex type"]) == (
        "Execution:\n  Nothing has run since the engine was loaded.\n\n"
        "Cycles by vertex type (modelled):\n  No vertex has run since the engine was loaded.\n"
    )
    report = engine.report
    assert repr(report) == "Report(0 steps, 0 modelled cycles, 2 tiles of ipu2)"
    assert (
        report.total_cycles == 0
        and report.steps() == []
        and report.compute_cycles_per_tile.tolist() == [0, 0]
    )
    assert report.exchange_bytes_per_tile[0].tolist() == [0, 0] and report.cycles_by_codelet() == {}


def test_the_report_as_data() -> None:
    engine = small_engine()
    engine.run()
    engine.run(1)
    report = engine.report
    assert repr(report) == "Report(5 steps, 1,546 modelled cycles, 2 tiles of ipu2)"
    assert report.total_cycles == 1204 + 342 and report.total_seconds == pytest.approx(1546e-9)
    assert report.compute_cycles_per_tile.tolist() == [732, 360]
    assert report.active_cycles_per_tile.tolist() == [466, 60]
    assert report.exchange_cycles_per_tile.tolist() == [24, 186]
    received, sent = report.exchange_bytes_per_tile
    assert received.tolist() == [0, 96] and sent.tolist() == [96, 0]
    assert (
        report.host_bytes == 32
        and report.host_exchange_cycles == 8
        and report.global_exchange_cycles == 0
    )
    assert report.sync_cycles_per_tile.tolist() == [1546 - 732 - 24 - 8, 1546 - 360 - 186 - 8]
    assert report.memory.bytes_per_tile.tolist() == [4344, 3772]
    assert report.vertex_counts() == {"Work": 8} and report.cycles_by_codelet() == {"Work": 200}
    assert report.graph_size() == {"vertices": 8, "edges": 16, "variables": 5, "compute sets": 1}
    assert report.unknown_codelets == () and report.unbatched() == {}
    assert report.target is engine.report.target
    (profile,) = report.compute_sets
    assert (profile.name, profile.executions, profile.vertices) == ("work", 2, {"Work": 8})
    assert profile.cycles_per_tile.tolist() == [120, 180] and profile.balance == pytest.approx(
        150 / 180
    )


def test_steps_of_the_run() -> None:
    engine = small_engine()
    engine.run()
    report = engine.report
    found = [(s.index, s.kind, s.name, s.start, s.cycles) for s in report.steps()]
    assert found == [
        (0, "StreamCopy", "in", 0, 108),
        (1, "Execute", "work", 108, 342),
        (2, "Copy", "'x' to 'y'", 450, 162),
        (3, "Copy", "'x' to 'z'", 612, 592),
    ]
    assert [s.index for s in report.steps(1, 3)] == [1, 2] and report.steps(1, 3)[0].start == 108
    assert [s.index for s in report.steps(3, 99)] == [3] and report.steps(9) == []
    for bounds in ((-1,), (0, -1), (0.5,), (0, True)):
        with pytest.raises(PoplarIndexError) as caught:
            report.steps(*bounds)  # type: ignore[arg-type]
        assert str(caught.value).endswith(
            f" was called on a report of 4 steps, but {bounds[-1]} is not an index.\n  next:  give "
            "whole numbers from 0, as in report.steps(0, 10)."
        )


def test_only_the_first_hundred_steps_are_printed() -> None:
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    a, b = graph.add_variable(FLOAT, 2, "a"), graph.add_constant(FLOAT, 2, 1, "b")
    graph.set_tile_mapping(a, 0)
    graph.set_tile_mapping(b, 0)
    engine = Engine(graph, Repeat(1234, Copy(b, a)))
    engine.load_and_run(device)
    lines = printed(engine, [], show_execution_steps=True).splitlines()
    # 100 cycles of sync, and 8 bytes moved inside the tile by one of six workers, in 36, 44.5 and 1
    # for each 8 bytes.
    assert lines[100] == "      99          58,014           586  Copy        'b' to 'a'"
    assert lines[101:] == ["  … and 1,134 more"]


def untraced_engine(**options: Any) -> Engine:
    """Three vertices of Untraced on tile 1, and one of Work on tile 0."""
    device = IPUModel(tiles_per_ipu=2).create_device()
    graph = Graph(device)
    x, out = graph.add_variable(FLOAT, 2, "x"), graph.add_variable(FLOAT, 4, "out")
    graph.set_tile_mapping(x, 0)
    graph.set_tile_mapping(out, 0)
    cs = graph.add_compute_set("roots")
    graph.add_vertices(cs, Untraced, 1, x=x.reshape((1, 2)), out=out[:3])
    graph.set_tile_mapping(graph.add_vertex(cs, Work, x=x, out=out[3]), 0)
    graph.set_initial_value(x, [4, 9])
    graph.create_host_read("out", out)
    engine = Engine(graph, Execute(cs), **options)
    engine.load_and_run(device)
    return engine


LINE = inspect.getsourcelines(Untraced)[1] + 5


def test_a_codelet_of_unknown_cost_is_said_to_have_no_estimate() -> None:
    engine = untraced_engine(strict=False)
    assert engine.read_tensor("out").tolist() == [3, 3, 3, 8]
    report = engine.report
    assert report.unknown_codelets == ("Untraced",)
    assert report.unbatched() == {
        "Untraced": (
            f"test_report.py, line {LINE} (Untraced.compute): a branch or a loop condition depends "
            "on data; sorted() does not run as a scalar loop (write np.sort(…) instead)"
        )
    }
    assert report.cycles_by_codelet()["Untraced"] == 0 < report.cycles_by_codelet()["Work"]
    lines = printed(engine, "Cycles by vertex type").splitlines()
    assert lines[0] == "Cycles by vertex type (modelled):"
    assert (
        f"  {'Untraced':<28}    (3 instances):{'no estimate':>13}  (ran vertex by vertex)" in lines
    )
    total = printed(engine, "Execution").splitlines()[1]
    assert total.endswith(" microseconds, modelled; without Untraced, of no estimate)")
    engine.run(0, "again")
    page = (
        re.sub(r"<[^>]+>", "", report._repr_html_()),
        re.sub(r"<[^>]+>", "", engine.report._repr_html_()),
    )
    for shown in page:
        assert (
            "modelled; without Untraced, of no estimate)" in shown
            and "(ran vertex by vertex)" in shown
        )
    assert (
        "Runs (modelled)" not in page[0]
        and "again (program 0):" in page[1].partition("Runs (modelled)")[2]
    )
    assert [line for line in lines if line.startswith(f"  {'Work':<28}    (1 instances):")]


def test_strict_engines_refuse_it() -> None:
    with pytest.raises(MissingPerfEstimateError) as caught:
        untraced_engine()
    assert without_line(caught.value) == (
        "The cycles of Untraced are unknown: sorted() does not run as a scalar loop, and its "
        f"operations cannot be counted.\n  where: test_report.py, line {LINE} (Untraced.compute); vertex "
        "0 (Untraced, tile 1) of compute set 'roots'\n  next:  write np.sort(…) instead, or `def "
        "cycles(self, target)` in the class, or graph.set_perf_estimate(vertex, cycles). To run it without a "
        "cost: Engine(…, strict=False)."
    )


def test_arrays_of_a_report_cannot_be_changed_through_it() -> None:
    engine = small_engine()
    engine.run()
    report: Report = engine.report
    report.compute_cycles_per_tile[:] = 0  # a sum made for this caller
    assert report.compute_cycles_per_tile.tolist() == [612, 180]


def test_variables_with_their_bytes_and_tiles() -> None:
    device = IPUModel(tiles_per_ipu=4).create_device()
    graph = Graph(device)
    wide, narrow = graph.add_variable(FLOAT, 8, "wide"), graph.add_variable(HALF, 3, "narrow")
    graph.set_tile_mapping(wide, [[(0, 2)], [], [(2, 8)]])
    graph.set_tile_mapping(narrow, 3)
    engine = Engine(graph, Sequence())
    out = io.StringIO()
    print_profile_summary(engine.report, [], show_var_storage=True, file=out)
    assert out.getvalue() == (
        "Variable storage:\n"
        "  wide                                       32 B on 2 tiles, 0 to 2\n"
        "  narrow                                      6 B on tile 3\n"
    )
    for i in range(120):
        graph.set_tile_mapping(graph.add_variable(FLOAT, 1, f"v{i}"), 0)
    text = io.StringIO()
    print_profile_summary(Engine(graph, Sequence()).report, [], show_var_storage=True, file=text)
    assert len(text.getvalue().splitlines()) == 102 and text.getvalue().endswith(
        "  … and 22 more\n"
    )


class Doubled(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x = self.x * 2


def test_what_the_cycles_rest_on() -> None:
    """A codelet of one's own and one of the library, on two tiles: 100 for a sync are assumed, the
    host's rate is tut6's."""
    device = IPUModel(tiles_per_ipu=2).create_device()
    graph = Graph(device)
    x, y = graph.add_variable(FLOAT, 8, "x"), graph.add_variable(FLOAT, 8, "y")
    for tensor, tile in ((x, 0), (y, 1)):
        graph.set_tile_mapping(tensor, tile)
        graph.set_initial_value(tensor, 1)
    cs = graph.add_compute_set("both")
    graph.set_tile_mapping(graph.add_vertex(cs, Doubled, x=x), 0)
    known = graph.add_vertex(cs, Doubled, x=y)
    graph.set_tile_mapping(known, 1)
    prog = Sequence(Execute(cs))
    popops.add(graph, x, x, prog)
    engine = Engine(graph, prog)
    engine.load_and_run(device)
    own, library = (c.cost.compute_duration for c in engine.report.compute_sets)
    total = 200 + own + library
    assert engine.report.grounds == {GRAPHCORE: library / total, COUNTED: (200 + own) / total}
    assert Report.deserialize(engine.report.serialize()).grounds == engine.report.grounds
    faster = engine.report.what_if(auto_sync_delay=50).grounds
    assert faster == {
        GRAPHCORE: library / (total - 100),
        COUNTED: own / (total - 100),
        GIVEN: 100 / (total - 100),
    }


class Uncounted(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x[0] = len({float(v) for v in self.x})


def test_vertices_without_an_estimate_are_a_share_of_those_that_ran() -> None:
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, (4, 2), "x")
    graph.set_tile_mapping(x, 0)
    graph.set_initial_value(x, 1)
    cs = graph.add_compute_set("both")
    for row, codelet in enumerate((Doubled, Doubled, Doubled, Uncounted)):
        graph.set_tile_mapping(graph.add_vertex(cs, codelet, x=x[row]), 0)
    engine = Engine(graph, Execute(cs), strict={"estimates": False})
    engine.load_and_run(device)
    assert engine.report.grounds == {COUNTED: 1.0, "no estimate": 0.25}
