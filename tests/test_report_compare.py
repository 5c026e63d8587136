"""Two reports side by side: a planted change is found and named. Then traces, CSV, and the
shell."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from small_reports import Twice, chain_report, small_engine

from ipu_course.cli import main
from ipu_teach import FLOAT, HALF, Engine, Graph, InOut, IPUModel, Report, Vector, Vertex
from ipu_teach.errors import InvalidOptionError
from ipu_teach.program import Copy, Execute, Sequence
from ipu_teach.report import chrome_trace, compare


class Grow(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x += 1


class GrowHalf(Vertex):
    x: InOut[Vector[HALF]]

    def compute(self) -> None:
        self.x += 1


def work(split: int = 8, dtype: Any = FLOAT, away: bool = False, extra: bool = False) -> Report:
    """`data` and `other`, each on 8 tiles, incremented by vertices of `split` parts; `away`: `data`
    lies on one tile."""
    device = IPUModel(tiles_per_ipu=8).create_device()
    graph = Graph(device)
    program = Sequence()
    for name in ("data", "other"):
        tensor = graph.add_variable(dtype if name == "data" else FLOAT, 512, name)
        cs = graph.add_compute_set(f"grow {name}")
        parts = split if name == "data" else 8
        for part in range(parts):
            piece = tensor[part * 512 // parts : (part + 1) * 512 // parts]
            graph.set_tile_mapping(piece, 0 if away and name == "data" else part)
            vertex = graph.add_vertex(cs, GrowHalf if piece.dtype is HALF else Grow, x=piece)
            graph.set_tile_mapping(vertex, part)
        program.add(Execute(cs))
        graph.create_host_write(name, tensor)
        if extra and name == "data":
            program.add(Copy(tensor[:256], tensor[256:]))
    engine = Engine(graph, program, strict={"uninitialised": False})
    engine.load_and_run(device)
    return engine.report


def test_a_report_is_the_same_as_itself() -> None:
    found = compare(work(), Report.deserialize(work().serialize()))
    assert not found and list(found.changes) == [] and found.largest is None
    assert str(found) == repr(found) == "The two reports are the same."


@pytest.mark.parametrize(
    ("planted", "aspect", "name", "note"),
    [
        ({"split": 2}, "cycles", "grow data", ""),
        ({"away": True}, "cycles", "grow data", ""),
        ({"away": True}, "variables", "data", "tiles 8 before, 1 after"),
        ({"away": True}, "exchange", "grow data", ""),
        ({"dtype": HALF}, "variables", "data", "dtype FLOAT before, HALF after"),
        ({"dtype": HALF}, "vertices", "Grow", ""),
        ({"extra": True}, "program", "Copy a view of 'data' to a view of 'data'", "only after"),
    ],
)
def test_a_planted_change_is_named_first(
    planted: dict[str, Any], aspect: str, name: str, note: str
) -> None:
    before, after = work(), work(**planted)
    found = compare(before, after)
    first = found.of(aspect)[0]
    assert first.name == name and note in first.note
    assert compare(after, before).of(aspect)[0].change == -first.change
    for change in found.changes:
        assert "other" not in change.name
    if aspect == "cycles":
        assert found.largest == first
        assert (
            first.change
            == after.total_cycles - before.total_cycles
            == found.of("total").named("^cycles$")[0].change
        )


def test_another_machine_is_named() -> None:
    before = chain_report()
    found = compare(before, before.what_if(exchange_bytes_per_cycle=8))
    assert [(c.name, c.before, c.after) for c in found.of("machine")] == [
        ("exchange_bytes_per_cycle", 4, 8)
    ]
    assert not found.of("memory") and found.of("exchange")[0].change < 0


def test_a_comparison_as_text_table_and_page() -> None:
    found = compare(work(), work(away=True))
    lines = str(found).splitlines()
    assert lines[0] == repr(found) == found.sentence()
    assert "The largest effect: cycles of grow data, +" in lines[0] and "cycles:" in lines
    assert all(len(line) <= 120 for line in lines[1:])
    rows = list(csv.DictReader(io.StringIO(found.changes.to_csv())))
    assert len(rows) == len(found.changes) and {row["aspect"] for row in rows} >= {
        "total",
        "cycles",
        "variables",
    }
    page = found._repr_html_()
    assert (
        page.startswith("<div class=ipu-view>")
        and page == compare(work(), work(away=True))._repr_html_()
    )
    with pytest.raises(InvalidOptionError) as caught:
        found.of("colour")
    assert str(caught.value).startswith(
        "A comparison has no aspect 'colour'.\n  next:  choose one of total, machine, cycles, "
    )
    with pytest.raises(InvalidOptionError) as wrong:
        compare(work(), None)  # type: ignore[arg-type]
    assert str(wrong.value) == (
        "compare() was given None, which is not a report.\n  next:  give two reports: "
        "compare(before, after), each from engine.report."
    )


def test_names_are_escaped_in_a_page() -> None:
    device = IPUModel(tiles_per_ipu=1).create_device()
    reports = []
    for length in (2, 4):
        graph = Graph(device)
        graph.set_tile_mapping(graph.add_variable(FLOAT, length, "<script>\x1b[2J"), 0)
        reports.append(Engine(graph, Sequence()).report)
    found = compare(*reports)
    assert "<script>" not in found._repr_html_() and "&lt;script&gt;" in found._repr_html_()
    assert "\x1b" not in str(found)


# --- elsewhere ------------------------------------------------------------------------------------


def test_a_trace_holds_every_step_and_phase() -> None:
    report = chain_report()
    trace = json.loads(chrome_trace(report))
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    scale = 1e6 / report.target.tile_clock_frequency
    rows = defaultdict(float)
    for event in spans:
        rows[event["tid"]] += event["dur"]
        assert event["ts"] >= 0 and event["dur"] > 0
    steps = [e for e in spans if e["tid"] == 1]
    assert [e["name"] for e in steps] == [s.name for s in report.steps()]
    assert rows[1] == pytest.approx(report.total_cycles * scale, abs=0.001) and rows[
        2
    ] == pytest.approx(rows[1])
    busy = (report.compute_cycles_per_tile + report.exchange_cycles_per_tile) * scale
    for tile in range(4):
        assert rows[10 + tile] == pytest.approx(busy[tile], abs=0.001 * len(steps))
    for row in rows:  # in whole nanoseconds, in which nothing overlaps
        ends = [
            (round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000))
            for e in spans
            if e["tid"] == row
        ]
        assert all(a[1] <= b[0] for a, b in zip(ends, ends[1:], strict=False))
    names = {
        e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"
    }
    assert (names[1], names[2]) == ("steps", "phases") and sorted(names)[2:] == [10, 11, 12, 13]
    assert trace["otherData"]["steps_missing"] == 0


def test_a_trace_is_bounded_and_says_so() -> None:
    report = chain_report()
    trace = json.loads(chrome_trace(report, tiles=[1], most_events=20))
    assert len(trace["traceEvents"]) <= 20 and trace["otherData"]["steps_missing"] > 0
    shown = sum(e["ph"] == "X" and e["tid"] == 1 for e in trace["traceEvents"])
    assert shown + trace["otherData"]["steps_missing"] == report.num_steps
    with pytest.raises(
        InvalidOptionError,
        match=r"^chrome_trace\(\) was given tile 4, which does not exist\.\n  next:  give tiles from 0 to 3\.",
    ):
        chrome_trace(report, tiles=[4])


def test_tables_as_text() -> None:
    report = chain_report()
    steps = list(csv.DictReader(io.StringIO(report.execution.steps.to_csv())))
    assert [int(s["cycles"]) for s in steps] == [
        report.step_cost(n).cycles for n in report.step_numbers.tolist()
    ]
    assert len(steps) == report.num_steps
    assert Twice.__name__ in report.vertex_counts()


def test_on_the_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    engine = small_engine()
    engine.run()
    engine.report.save("run.ipureport")
    work().save("a.ipureport")
    work(away=True).save("b.ipureport")
    engine.print_profile_summary(["Execution"], show_execution_steps=True)
    printed = capsys.readouterr().out
    assert main(["report", "run.ipureport", "--sections", "Execution", "--steps"]) == 0
    assert capsys.readouterr().out == printed
    assert main(["report", "compare", "a.ipureport", "b.ipureport"]) == 0
    assert "The largest effect: cycles of grow data" in capsys.readouterr().out
    assert main(["report", "compare", "a.ipureport", "b.ipureport", "--csv"]) == 0
    assert capsys.readouterr().out.startswith("aspect,name,before,after,change,share,note\n")
    assert main(["report", "trace", "run.ipureport", "--tiles", "1"]) == 0
    assert (
        capsys.readouterr().out
        == "run.ipureport.json: open it in ui.perfetto.dev or chrome://tracing\n"
    )
    assert json.loads(Path("run.ipureport.json").read_text())["otherData"]["steps"] == 4
    for name, rows in engine.report.data.items():
        assert main(["report", "run.ipureport", "--csv", name.lower()]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(",".join(rows[0])) and len(
            list(csv.DictReader(io.StringIO(printed)))
        ) == len(rows)
    # there is one
    assert (
        main(["report", "run.ipureport", "--csv", "ipus"]) == 0 and capsys.readouterr().out == "\n"
    )
    assert main(["report", "run.ipureport", "--insights"]) == 0
    assert capsys.readouterr().out.startswith("It fits: the fullest tile, 0, holds ")
    assert main(["report", "gone.ipureport"]) == 1
    assert capsys.readouterr().err.startswith("The file 'gone.ipureport' cannot be read: ")
    with pytest.raises(SystemExit):
        main(["report", "--help"])
    assert "ipu-teach report compare BEFORE AFTER" in capsys.readouterr().out


def test_a_setting_of_the_machine_is_no_effect() -> None:
    report = Report.sample("products")
    faster = 2 * report.target.streaming_bytes_per_second
    other = report.what_if(streaming_bytes_per_second=faster)  # nothing streams
    found = compare(report, other)
    assert [change.name for change in found.changes] == ["streaming_bytes_per_second"]
    assert found.largest is None and "largest effect" not in found.sentence()
