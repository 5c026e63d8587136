"""The picture of streaming memory: every length in it beside the report's own steps, cycle by
cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pages import lane_pieces
from view_programs import streaming_report

from ipu_teach import FLOAT, UNSIGNED_INT, Engine, Graph, IPUModel, Report, show
from ipu_teach.errors import InvalidOptionError
from ipu_teach.program import Copy, Repeat, Sequence

PATTERNS = ("one IPU", "FULL", "SINGLE_PIPELINE")


def cycle_by_cycle(report: Report) -> tuple[Any, Any]:
    """bool[cycles] each: in which rows are moved, and in which anything else is done."""
    moving, working = np.zeros((2, report.total_cycles), bool)
    for step in report.steps():
        for ipu in step.ipus:
            here = moving if step.kind == "RemoteCopy" else working
            here[ipu.start : ipu.start + ipu.cycles] = True
    return moving, working


@pytest.mark.parametrize("which", PATTERNS)
def test_what_is_hidden_is_what_other_work_goes_on_beside(which: str) -> None:
    report = streaming_report(which)
    for one in (report, Report.deserialize(report.serialize())):
        view = show.streaming(one)
        moving, working = cycle_by_cycle(one)
        total, moved, hidden = one.total_cycles, moving.sum(), (moving & working).sum()
        assert (hidden > 0) == (which == "SINGLE_PIPELINE")
        # what moves before the first work, or after the last, cannot be hidden
        busy = np.flatnonzero(working)
        alone = moving[: busy[0]].sum() + moving[busy[-1] + 1 :].sum()
        assert alone > 0
        best = 100 * max(total - moved + hidden + alone, moved) / total
        share = f"{100 * hidden / moved:.1f} %" if hidden else "none"
        assert view.scene.title == (
            f"{100 * moved / total:.1f} % of the run is transfer with streaming memory, {share} of "
            "it hidden behind work"
        )
        assert repr(view) == (
            f"4 rows of 1 buffer move, 10,816 bytes of streaming memory: {100 * moved / total:.1f} "
            f"% of {total:,} modelled cycles is transfer, {share} of it hidden behind work; with all "
            "of it hidden, except before the first work and after the last, the run would take "
            f"{best:.1f} % of its time."
        )
        lanes = lane_pieces(view.scene, "lanes")
        for lane, truth in (("loads", moving), ("stores", moving & False)):
            seen = np.zeros(total, bool)
            for code, begin, end in lanes[lane]:
                assert code == "streaming memory" and not seen[begin:end].any()
                seen[begin:end] = True
            assert np.array_equal(seen, truth)
        waits = np.zeros(total, bool)
        for code, begin, end in lanes["work"]:
            waits[begin:end] |= code == "waiting"
        assert np.array_equal(waits, moving & ~working)


@pytest.mark.parametrize("which", PATTERNS)
def test_a_row_is_on_the_chip_from_its_load_to_its_last_use(which: str) -> None:
    """Its layer's product is the last to read it."""
    report = streaming_report(which)
    steps = report.steps()
    loads = [step for step in steps if step.kind == "RemoteCopy"]
    rows = lane_pieces(show.streaming(report).scene, "rows")
    assert list(rows) == [f"weights, row {row}" for row in range(4)]
    for row, (load, pieces) in enumerate(zip(loads, rows.values(), strict=True)):
        name = "product" if which == "one IPU" else f"product{row % 2}/"
        later = [s for s in steps if s.name.startswith(name) and s.start >= load.end]
        own = later[: len([s for s in steps if s.name.startswith("product")]) // 4]
        assert pieces[0] == ("streaming memory", load.start, load.end)
        assert pieces[1][:2] == ("row of weights on the chip", load.end)
        assert len(pieces) == 2 and pieces[1][2] in [step.end for step in own]
    cells = show.streaming(report).data
    moving, working = cycle_by_cycle(report)
    for row, (load, cell) in enumerate(zip(loads, cells, strict=True)):
        hidden = (moving & working)[load.start : load.end].sum()
        assert tuple(cell.values()) == (
            *("weights", f"{row}", "1", "0", "2,704"),
            f"{load.end - load.start:,}",
            f"{hidden:,}",
        )


def test_rows_that_come_and_go_and_those_of_several_at_a_time() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=3).create_device()
    graph = Graph(device.target)
    buffers = [graph.add_remote_buffer(name, FLOAT, 8, 40) for name in ("a", "b")]
    x = graph.add_variable(FLOAT, (2, 8), "x")
    graph.set_tile_mapping(x, 1)
    rows = graph.add_variable(UNSIGNED_INT, (2,), "rows")
    graph.set_tile_mapping(rows, 0)
    graph.create_host_write("rows", rows)
    graph.set_initial_value(x, 1.0)
    engine = Engine(
        graph, Repeat(2, Sequence(Copy(x, buffers[0], rows), Copy(x, buffers[1], rows)))
    )
    engine.load(device)
    for first in range(0, 40, 2):
        engine.write_tensor("rows", [first, 0])
        engine.run()
    view = show.streaming(engine.report)
    assert repr(view).startswith("40 rows of 2 buffers move, 1,280 bytes of streaming memory: ")
    assert view.scene.notes == ("Lanes have the first 32 of 40 rows.",)
    table = {(row["buffer"], row["row"]): row for row in view.data}
    assert table["a", "0"]["stores"] == "42" and table["b", "38"]["stores"] == "2"
    assert {row["bytes"] for row in view.data} == {"32"} and not lane_pieces(view.scene, "lanes")[
        "loads"
    ]
    sizes = lane_pieces(view.scene, "bytes")
    assert sizes["rows that moved"][0][1:] == (0, 40 * 32)
    held = int(engine.report.memory.bytes_per_tile.sum())
    assert sizes["3 tiles"] == [("what the tiles hold", 0, held)]


def test_a_long_run_is_cut_and_an_older_file_has_no_rows() -> None:
    report = streaming_report("one IPU")
    old = Report.deserialize(report.serialize())
    ran = old._ran  # an older file has no table of rows
    object.__setattr__(ran, "rows", ran.rows[:0])
    scene = show.streaming(old).scene
    assert scene.notes == (
        "The report's file has an older format, which does not contain the rows that moved.",
    )
    assert repr(show.streaming(old)).startswith("Rows of streaming memory move: ")
    device = IPUModel("ipu2", tiles_per_ipu=1).create_device()
    graph = Graph(device)
    buffer, x = graph.add_remote_buffer("b", FLOAT, 1), graph.add_variable(FLOAT, (1,), "x")
    graph.set_tile_mapping(x, 0)
    graph.set_initial_value(x, 0)
    engine = Engine(graph, Repeat(4000, Copy(x, buffer)))
    engine.load(device)
    recording = engine.record(x)
    engine.run()
    scene = show.streaming(recording).scene
    assert scene.notes == ("The picture shows the first 3,000 of 4,000 supersteps.",)
    assert scene.drawings[0].span == 3000 * engine.report.steps(0, 1)[0].cycles


def test_what_has_no_rows_is_refused() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        show.streaming(Report.sample())
    assert str(caught.value) == (
        "show.streaming() was given a run without transfers to or from streaming memory.\n"
        "  next:  copy to or from a remote buffer, which graph.add_remote_buffer creates; "
        "show.host(report) shows the streams of the host."
    )
    with pytest.raises(InvalidOptionError, match="is not a report"):
        show.streaming(3)  # type: ignore[arg-type]
