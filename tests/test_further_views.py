"""The views sweep, host, numbers and machine: their figures by hand, by brute force, and from the
report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from all_reduces import all_reduce_report
from hypothesis import given, settings, strategies as st
from pages import option_error

from ipu_course.lesson06 import checks as lesson06
from ipu_teach import FLOAT, HALF, INT, Engine, Graph, InOut, IPUModel, Report, Vertex, show
from ipu_teach.cost.links import link_rate, links_of
from ipu_teach.errors import PoplarTypeError
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.report.host_trace import HostTrace
from ipu_teach.show import palette
from ipu_teach.show.machine import pipes, rate
from ipu_teach.show.numbers import _line
from ipu_teach.show.paint import paint
from ipu_teach.show.panels import Panels
from ipu_teach.show.scene import Lanes, Painted, Still, Zoom
from ipu_teach.show.shapes import Boxes, Stroke, Words
from ipu_teach.sweeps import sweep
from ipu_teach.types import QUARTER, QuarterFormat, QuarterMetadata, from_quarter
from tests.browser import programs
from tests.unpacking import unpack

F143, F152 = QUARTER[QuarterFormat.F143, 0], QUARTER[QuarterFormat.F152, -3]

# --- sweep ----------------------------------------------------------------------------------------


def lengths(scene: Any, drawing: int) -> dict[str, list[int]]:
    """By the name of its code, how long each bar of a drawing is, lane by lane; several of one code
    are summed."""
    mark = [m for m in scene.marks if isinstance(m, Lanes)][drawing]
    found: dict[str, Any] = {}
    for bar in scene.drawings[drawing].bars:
        for lane, (code, length) in enumerate(
            zip(*(np.broadcast_to(v, mark.count) for v in (bar.code, bar.length)), strict=True)
        ):
            row = found.setdefault(scene.codes[int(code)].name, [0] * mark.count)
            row[lane] += int(length)
    return found


@dataclass
class Drawn:
    """What the shapes of a sweep say, in the measure of its axis: places without a point have no
    height."""

    labels: tuple[str, ...]
    heights: dict[int, float]
    parts: dict[str, list[float]]
    top: float
    marked: dict[int, str]
    foot: str
    told: tuple[str, ...]


def trend_of(view: show.View) -> Drawn:
    (mark,) = view.scene.marks
    assert isinstance(mark, Painted)
    shapes, pitch = mark.shown(view.scene.stills[0]), mark.width / mark.count
    words = [s for s in shapes if isinstance(s, Words)]
    top = float(next(w.text for w in words if w.text.startswith("to ")).split()[1].replace(",", ""))
    dots = [s for s in shapes if isinstance(s, Stroke) and s.width in (7, 3.5)]
    middles = [((a[0] + b[0]) / 2, a[1]) for a, b in (dot.points for dot in dots)]
    parts = {
        view.scene.codes[s.code].name: [0.0] * mark.count for s in shapes if isinstance(s, Boxes)
    }
    for shape in shapes:
        for x, _, wide, high in shape.boxes.tolist() if isinstance(shape, Boxes) else ():
            parts[view.scene.codes[shape.code].name][int((x + wide / 2) / pitch)] = (
                high / mark.height * top
            )
    return Drawn(
        tuple(w.text for w in words if w.y == mark.height + 14),
        {int(x / pitch): (1 - y / mark.height) * top for x, y in middles},
        parts,
        top,
        {
            int(next(x for x, y in middles if y - 11 == w.y) / pitch): w.text
            for w in words
            if w.text.split(",")[0] in MARKED and not w.text.endswith(", cut")
        },
        next(w.text for w in words if w.y == mark.height + 29),
        mark.labels,
    )


MARKED = ("quickest", "slowest", "least", "most")


def test_a_sweep_is_a_curve_over_what_each_report_holds() -> None:
    reports = {f"{n} rows": programs.uneven(rows=n) for n in (13, 65, 39)}
    view = show.sweep(reports)
    drawn, totals = trend_of(view).parts, [r.total_cycles for r in reports.values()]
    for i, report in enumerate(reports.values()):
        for name, share in report.proportions.items():
            assert drawn.get(name, [0] * 3)[i] == pytest.approx(share * report.total_cycles, abs=1)
        assert sum(row[i] for row in drawn.values()) == pytest.approx(report.total_cycles)
    trend = trend_of(view)
    assert trend.labels == tuple(reports) and trend.top >= 1.15 * max(totals)
    assert trend.heights == pytest.approx(dict(enumerate(totals)))
    assert trend.marked == {0: f"quickest, {totals[0]:,}", 1: f"slowest, {totals[1]:,}"}
    assert trend.told[
        0
    ] == f"13 rows, quickest: {totals[0]:,} modelled cycles; the average tile: " + (
        ", ".join(f"{name} {round(row[0]):,}" for name, row in drawn.items()) + "."
    )
    assert repr(view) == (
        f"3 runs side by side: quickest 13 rows, {totals[0]:,} modelled cycles; slowest 65 rows, "
        f"{totals[1]:,}, {totals[1] / totals[0]:.2f} times as long."
    )
    assert [row["modelled cycles"] for row in view.data] == [f"{t:,}" for t in totals]


def test_a_sweep_over_numbers_stands_in_their_order() -> None:
    found = {65: programs.uneven(rows=65), 13: programs.uneven(rows=13)}
    trend = trend_of(show.sweep(found, parameter="rows"))
    assert (
        trend.labels == ("13", "65")
        and trend.foot == "rows"
        and trend.told[0].startswith("rows = 13, quickest: ")
    )
    assert trend.heights == pytest.approx({0: found[13].total_cycles, 1: found[65].total_cycles})


def test_a_sweep_of_figures_is_a_line() -> None:
    view = show.sweep({4: 2.5, 1: 10, 2: 4.0, 8: 2.5}, parameter="tiles", unit="ms")
    assert not trend_of(view).parts and trend_of(view).heights == pytest.approx(
        {0: 10, 1: 4, 2: 2.5, 3: 2.5}
    )
    assert (
        repr(view)
        == "4 runs side by side: least tiles = 4 and 1 more, 2.5 ms; most tiles = 1, 10, 4.00 times as much; "
        "figures do not say what limits a run, reports do."
    )
    assert view.data[1] == {"run": "tiles = 2", "ms": "4"} and not view.scene.legend
    assert repr(show.sweep({"a": 0})) == "1 run side by side: each 0 modelled cycles."


def test_a_sweep_draws_its_line_through_its_figures() -> None:
    scene = show.sweep({n: (n - 3) ** 2 + 1 for n in range(1, 7)}).scene
    trend = next(m for m in scene.marks if isinstance(m, Painted))
    lines = [s for s in paint(scene, 0) if isinstance(s, Stroke) and s.width == 2]
    assert len(lines) == 5
    for k, line in enumerate(lines):
        for place, (x, y) in zip((k, k + 1), line.points, strict=True):
            assert x == pytest.approx(trend.x + (place + 0.5) * trend.width / 6)
            assert (trend.y + trend.height - y) / trend.height * 15 == pytest.approx(
                (place - 2) ** 2 + 1
            )


def pale(view: show.View) -> list[tuple[float, float]]:
    """Where the ideal line of a sweep goes through its places, in the measure of its axis."""
    (mark,), top = view.scene.marks, trend_of(view).top
    shapes = mark.shown(view.scene.stills[0])
    lines = [
        s.points for s in shapes if isinstance(s, Stroke) and (s.width, s.role) == (1.5, "line")
    ]
    ends = [lines[0][0], *(line[1] for line in lines)] if lines else []
    return [(x * mark.count / mark.width - 0.5, top * (1 - y / mark.height)) for x, y in ends]


def test_a_sweep_over_tiles_has_the_line_of_what_is_ideal() -> None:
    """As many times the tiles, that part of the time; of one machine there is none."""
    found = {n: programs.uneven(tiles=n, rows=52) for n in (2, 4, 13, 26)}
    view, took = show.sweep(found), [r.total_cycles for r in found.values()]
    wanted = [took[0] * 2 / n for n in found]
    assert trend_of(view).heights == pytest.approx(dict(enumerate(took)))
    assert pale(view) == [pytest.approx(one, abs=1e-6) for one in enumerate(wanted)]
    assert [row["ideal, 1/n"] for row in view.data] == [f"{round(w):,}" for w in wanted]
    best = int(np.argmin(took))
    assert repr(view).endswith(f"; ideal, 1/n from 2: {round(wanted[best]):,}.")
    for plain in (show.sweep({1: 9, 2: 5}), show.sweep(dict.fromkeys((2, 4), found[4]))):
        assert not pale(plain) and "ideal" not in repr(plain)


def test_what_is_far_above_all_others_is_cut_and_says_so() -> None:
    """The valley that a sweep is about is as high as without them."""
    low = {n: 100 + 10 * abs(n - 5) for n in range(1, 9)}
    view = show.sweep(low | {99: 5000, 100: 9000}, unit="ms")
    drawn = trend_of(view)
    assert drawn.top == 200 and drawn.heights == pytest.approx(
        dict(enumerate(low.values())), rel=1e-4
    )
    (mark,) = view.scene.marks
    words = [s.text for s in mark.shown(view.scene.stills[0]) if isinstance(s, Words)]
    assert "most, 9,000, cut" in words and "to 200 ms, more is cut" in words
    assert drawn.told[-1] == "100, most: 9,000 ms." and view.data[-1]["ms"] == "9,000"
    shapes = mark.shown(view.scene.stills[0])
    assert all(y >= 0 for s in shapes if isinstance(s, Stroke) for _, y in s.points)
    tall = programs.uneven(rows=26 * 13)
    bars = trend_of(show.sweep({i: programs.uneven() for i in range(6)} | {9: tall}))
    cut = sum(row[-1] for row in bars.parts.values())
    assert cut == pytest.approx(bars.top) and cut < tall.total_cycles


def test_every_figure_stands_where_there_is_room() -> None:
    for count, named in ((5, True), (40, False)):
        view = show.sweep({n: 1000 + 100 * n for n in range(count)})
        (mark,) = view.scene.marks
        words = [s.text for s in mark.shown(view.scene.stills[0]) if isinstance(s, Words)]
        assert ("1,200" in words) == named and "least, 1,000" in words


def test_a_sweep_of_tiles_says_what_does_not_fit() -> None:
    def build(device: Any) -> Any:
        graph = Graph(device)
        a, b = (
            graph.add_variable(FLOAT, (200_000,), "a"),
            graph.add_variable(FLOAT, (200_000,), "b"),
        )
        graph.set_initial_value(a, 0.0)
        for tensor in (a, b):
            for tile in range(device.target.num_tiles):
                part = 200_000 // device.target.num_tiles
                graph.set_tile_mapping(
                    tensor[
                        tile * part : 200_000
                        if tile + 1 == device.target.num_tiles
                        else (tile + 1) * part
                    ],
                    tile,
                )
        return graph, Copy(a, b)

    found = sweep(build, num_tiles=[1, 4, 8], progress=False)
    view = show.sweep(found)
    trend = trend_of(view)
    assert (
        trend.told[0] == "1 tile, does not fit."
        and trend.labels == ("1", "4", "8")
        and trend.foot == "tiles"
    )
    assert view.data[0] == {"run": "1 tile, does not fit"} | dict.fromkeys(
        list(view.data[0])[1:], ""
    )
    assert trend.heights == pytest.approx(
        {i: r.total_cycles for i, r in enumerate(found.reports[1:], 1)}
    )
    assert sum(isinstance(s, Stroke) and s.width == 2 for s in paint(view.scene, 0)) == 1


def test_machines_of_different_clocks_are_compared_in_time() -> None:
    report = programs.uneven()
    quick = report.what_if(tile_clock_frequency=2 * report.target.tile_clock_frequency)
    view = show.sweep({"ipu2": report, "twice the clock": quick})
    assert list(view.data[0])[1] == "modelled ns"
    assert [int(r["modelled ns"].replace(",", "")) for r in view.data] == [
        round(1e9 * r.total_seconds) for r in (report, quick)
    ]


# --- host -----------------------------------------------------------------------------------------


class One(Vertex):
    """Adds one; how long that takes is set."""

    x: InOut[FLOAT]

    def compute(self) -> None:
        self.x = self.x + 1


def test_the_host_stands_beside_the_device() -> None:
    report = programs.uneven()
    view = show.host(report)
    (device,) = (m for m in view.scene.marks if isinstance(m, Lanes))
    assert device.labels == ("device", "to device: rows")
    drawn = lengths(view.scene, 0)
    spent: dict[str, int] = {}
    for number in report.step_numbers.tolist():
        for phase in report.phases(number):
            spent[phase.kind] = spent.get(phase.kind, 0) + phase.cycles
    assert {name: row[0] for name, row in drawn.items() if row[0]} == spent
    assert (
        drawn["host exchange"] == [report.host_exchange_cycles] * 2
        and view.scene.drawings[0].span == report.total_cycles
    )
    assert repr(view).startswith(
        "The host beside the device: 6,656 bytes cross the link in "
        f"{report.host_exchange_cycles:,} of the device's {report.total_cycles:,} modelled cycles, "
        f"{100 * report.host_exchange_cycles / report.total_cycles:.1f} %. 4 events of"
    )
    assert view.data == [
        {
            "stream": "to device: rows",
            "transfers": "1",
            "bytes": "6,656",
            "modelled cycles": f"{report.host_exchange_cycles:,}",
            "measured us": view.data[0]["measured us"],
        }
    ]
    (copied,) = (e.duration for e in report.host.events if e.name == "rows: StreamCopy")
    measured = float(view.data[0]["measured us"].replace(",", ""))
    assert measured == pytest.approx(1e6 * copied, abs=0.51)


def test_all_that_is_drawn_is_modelled_and_measured_times_are_in_words() -> None:
    report = programs.uneven()
    view = show.host(report)
    assert len(view.scene.drawings) == 1
    assert view.scene.drawings[0].unit == "modelled cycles"
    seconds = sum(e.duration for e in report.host.events if e.name.startswith("run "))
    longer = seconds / (report.total_cycles / 1.33e9)
    (note,) = view.scene.notes
    said = re.search(r"took ([\d.e-]+) s, measured, ([\d,.]+) times as long", note)
    assert said and float(said[1]) == pytest.approx(seconds, rel=0.01)
    assert float(said[2].replace(",", "")) == pytest.approx(longer, rel=0.06)


@pytest.mark.parametrize(("at_once", "share"), [(1, 0.799), (256, 0.147)])
def test_a_device_that_starves_is_drawn_waiting(at_once: int, share: float) -> None:
    """Where the host has the model's clock, all is on one axis, and nothing says that it was
    measured."""

    def feed(disc: lesson06.Disc) -> Iterator[Any]:
        for first in range(0, len(disc), at_once):
            yield from disc.read(first, at_once)

    report = lesson06.on_the_clock(feed, lesson06.Disc(np.zeros((24, lesson06.ROW), np.float32)))
    view = show.host(report)
    (lanes,) = (m for m in view.scene.marks if isinstance(m, Lanes))
    waits = lengths(view.scene, 0)["the device waits for a function"]
    span = view.scene.drawings[0].span
    assert lanes.labels == ("device", "rows: disc.read()", "to device: rows", "to host: settled")
    assert waits[0] == waits[1] and waits[0] / span == pytest.approx(share, abs=0.001)
    assert waits[0] / span == pytest.approx(report.host.starved_share, abs=1e-6)
    assert span == pytest.approx(report.total_cycles + waits[0])
    assert f"the device waits {100 * share:.1f} % of the modelled time" in view.scene.stills[0].note
    said = " ".join([repr(view), lanes.heading, *view.scene.notes, report.host.events[0].name])
    assert "modelled" in repr(view) and "measured" not in said
    back = Report.deserialize(report.serialize())
    assert repr(back.host) == repr(report.host) and back.host.modelled


def test_of_several_ipus_each_has_its_own_clock() -> None:
    device = IPUModel("ipu2", num_ipus=2, tiles_per_ipu=2).create_device()
    graph, programs_ = Graph(device.target), list[Any]()
    for tile, cycles in ((0, 600), (1, 240), (2, 900)):
        compute_set = graph.add_compute_set(f"on tile {tile}")
        x = graph.add_variable(FLOAT, (1,), f"x{tile}")
        vertex = graph.add_vertex(compute_set, One, x=x[0])
        for what in (x, vertex):
            graph.set_tile_mapping(what, tile)
        graph.set_perf_estimate(vertex, cycles)
        stream = graph.add_host_to_device_fifo(f"s{tile}", FLOAT, 1)
        programs_ += [*[Copy(stream, x)] * (tile == 0), Execute(compute_set)]
        graph.set_initial_value(x, 0.0)
    engine = Engine(graph, Repeat(2, Sequence(*programs_)))
    engine.load(device)
    engine.connect_stream("s0", np.ones(1, np.float32))
    engine.run()
    view = show.host(engine.report)
    lanes = next(m for m in view.scene.marks if isinstance(m, Lanes))
    assert lanes.labels == ("IPU 0", "IPU 1", "to device: s0")
    assert view.scene.drawings[0].span == engine.report.total_cycles
    costs = [engine.report.step_cost(n).compute_cycles for n in engine.report.step_numbers]
    computed = [sum(int(cost[own : own + 2].max()) for cost in costs) for own in (0, 2)]
    assert lengths(view.scene, 0)["compute"] == [*computed, 0] and min(computed) > 0


def test_streaming_memory_is_no_host() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    graph = Graph(device.target)
    x = graph.add_variable(FLOAT, (4,), "x")
    graph.set_tile_mapping(x, 1)
    buffer = graph.add_remote_buffer("layers", FLOAT, 4, 1)
    engine = Engine(graph, Sequence(Copy(buffer, x), Copy(x, buffer)), strict=False)
    engine.load(device)
    engine.run()
    lanes = next(m for m in show.host(engine.report).scene.marks if isinstance(m, Lanes))
    assert lanes.labels == (
        "device",
        "from streaming memory: layers",
        "to streaming memory: layers",
    )


def test_a_report_without_the_hosts_times_shows_the_device_alone() -> None:
    report = programs.uneven()
    scene = show.host(Report.deserialize(report.serialize(host=False))).scene
    assert [m.name for m in scene.marks if isinstance(m, Lanes)] == ["device"]
    assert scene.notes == ("The report has no times of the host.",)
    assert isinstance(report.host, HostTrace) and not scene.sentence.endswith("measured")


# --- numbers --------------------------------------------------------------------------------------


def every(dtype: Any) -> Any:
    """All finite numbers of a narrow dtype, by their bits."""
    if dtype is HALF:
        values = np.arange(65536, dtype=np.uint16).view(np.float16).astype(float)
    else:
        values = from_quarter(np.arange(256, dtype=np.uint8), dtype.metadata).astype(float)
    return np.unique(values[np.isfinite(values)])


@settings(max_examples=60)
@given(st.sampled_from([HALF, F143, F152]), st.floats(-70_000, 70_000), st.floats(0, 3))
def test_a_number_line_has_the_numbers_that_there_are(
    dtype: Any, value: float, wide: float
) -> None:
    line, known = _line(dtype, value), every(dtype)
    positive = known[known > 0]
    assert (line.smallest, line.largest) == (positive[0], positive[-1])
    gaps = np.diff(positive)
    # where spacing doubles first
    assert line.normal == positive[np.flatnonzero(gaps > gaps[0])[0]] / 2
    if np.isfinite(line.lands):
        assert line.lands in known and abs(line.lands - value) == np.abs(known - value).min()
    half = wide * line.spacing(value)
    window = value - half, value + half
    inside = known[(known >= window[0]) & (known <= window[1])]
    assert line.within(window, 99) == inside.tolist() and line.many(window) == len(inside)
    wider = value - 40 * half, value + 30 * half
    assert line.many(wider) == ((known >= wider[0]) & (known <= wider[1])).sum()


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_the_spacing_of_singles_is_numpys(value: float) -> None:
    line, held = _line(FLOAT, value), np.float32(abs(value))
    assert line.lands == value
    if 0 < held < np.finfo(np.float32).max:
        assert line.spacing(value) == float(np.nextafter(held, np.float32(np.inf))) - float(held)


def rows_of(view: show.View, which: int) -> list[dict[str, Any]]:
    """Of each row of a picture of number lines, what is said above it, and by the name of a code
    the parts of the width that it has."""
    mark = view.scene.marks[which]
    assert isinstance(mark, Painted)
    pitch = mark.height / mark.count
    shapes = mark.shown(view.scene.stills[0])
    said = [s.text for s in shapes if isinstance(s, Words) and s.y < mark.height]
    found: list[dict[str, Any]] = [{"words": words} for words in said]
    for shape in (s for s in shapes if isinstance(s, Boxes)):
        row = found[int(shape.boxes[0, 1] / pitch)]
        row[view.scene.codes[shape.code].name] = shape.boxes[:, ::2] / mark.width
    return found


def test_where_a_value_lands() -> None:
    view = show.numbers(FLOAT, HALF, F143, value=0.1)
    assert (
        "HALF holds 0.0999755859, off by 2.44e-05, 0.0244 %; the next number is 6.1e-05 further"
        in repr(view)
    )
    assert "QUARTER[F143, 0] holds 0.1015625, off by 0.00156, 1.56 %" in repr(view)
    assert [row["lands"] for row in view.data] == ["0.100000001", "0.0999755859", "0.1015625"]
    reach, around = (rows_of(view, i) for i in (0, 1))
    assert [row["words"] for row in reach] == [
        "FLOAT: 2^-149 to 2^128; 8,388,608 numbers each",
        "HALF: 2^-24 to 2^16; 1,024 numbers each",
        "QUARTER[F143, 0]: 2^-10 to 2^8; 8 numbers each",
    ]
    for row, first, normal, last in zip(
        reach, (-149, -24, -10), (-126, -14, -7), (128, 16, 8), strict=True
    ):
        even, growing = row["evenly spaced, about zero"], row["spacing grows with the number"]
        assert even * 277 == pytest.approx(np.array([[first + 149, normal - first]]))
        assert growing * 277 == pytest.approx(np.array([[normal + 149, last - normal]]))
    # from 0.1 as far as the next number of F143, both ways, FLOAT's are 2^-27 apart
    for row, dtype in zip(around[1:], (HALF, F143), strict=True):
        count = int((np.abs(every(dtype) - 0.1) <= 2**-7).sum())
        assert row["words"].endswith(f": {count} numbers")
    assert around[0]["words"] == f"FLOAT, 1.49e-09 off: {2**21:,} numbers"
    assert "a thousand times as many or more" in around[0]
    assert "numbers too close to draw each" in around[1]
    drawn = around[2]["a number that there is"]
    inside = every(F143)[np.abs(every(F143) - 0.1) <= 2**-7]
    assert drawn.sum(axis=1) - drawn[:, 1] / 2 == pytest.approx((inside - 0.1) * 2**6 + 0.5)
    ticks = [s.text for s in view.scene.marks[0].pictures[0] if isinstance(s, Words)][3:]
    assert ticks == [f"2^{power}" for power in range(-128, 129, 32)]
    assert "F143, 0] cannot hold it, its largest is 240" in repr(show.numbers(F143, value=1000))
    assert "FLOAT holds 0, exactly" in repr(show.numbers(FLOAT, value=0))
    titles = {
        (0.1, FLOAT, HALF, F143): (
            "0.1 becomes 0.1015625 as QUARTER[F143, 0], off by 0.00156, the most of 3 dtypes"
        ),
        (0.1, HALF): "0.1 becomes 0.0999755859 as HALF, off by 2.44e-05",
        (0.1, HALF, HALF): "0.1 becomes 0.0999755859 as HALF and HALF, off by 2.44e-05",  # a tie
        (0.5, FLOAT, F143): "0.5 is a number of FLOAT, QUARTER[F143, 0]",
        (1000.1, FLOAT, HALF, F143): (
            "QUARTER[F143, 0] cannot hold 1000.1; it becomes 1000 as HALF, off by 0.1, the most of "
            "3 dtypes"
        ),
        (1000.0, HALF, F143): "QUARTER[F143, 0] cannot hold 1000; 1000 is a number of HALF",
        (1e6, HALF, F143): "HALF and QUARTER[F143, 0] cannot hold 1000000",
    }
    for (number, *dtypes), title in titles.items():
        assert show.numbers(*dtypes, value=number).scene.title == title  # type: ignore[arg-type]
    around = rows_of(show.numbers(HALF, F143, value=1000.0), 1)
    assert [row["words"].split(":")[0] for row in around] == [
        "HALF, exact",
        "QUARTER[F143, 0], cannot hold it",
    ]
    assert "HALF holds -0.0999755859, off by 2.44e-05" in repr(show.numbers(HALF, value=-0.1))


# --- formats --------------------------------------------------------------------------------------


def of_code(view: show.View, name: str, frame: int, code: str) -> np.ndarray[Any, Any]:
    """The boxes of a code in a frame, but for those of the reaches below."""
    (mark,) = (m for m in view.scene.marks if isinstance(m, Painted) and m.name == name)
    shapes = mark.shown(view.scene.stills[view.scene.frames[frame]])
    rows = [
        s.boxes for s in shapes if isinstance(s, Boxes) and view.scene.codes[s.code].name == code
    ]
    found = np.concatenate([np.zeros((0, 4)), *rows])
    return found[found[:, 1] < 131]


def test_bars_are_values_by_their_power_and_slide_with_the_factor() -> None:
    values = np.array([3.0, 3.5, 5, 200, 0.001, -0.0003, 0])
    view = show.formats(values, F143, HALF)
    assert [still.label for still in view.scene.stills] == [f"times 2^{k}" for k in (0, 1, 2, 3, 0)]
    assert view.scene.poster == 4 and "7 values as QUARTER[F143, 0] 14.3 % become 0" in repr(view)
    bars = {code.name: of_code(view, "values", 0, code.name) for code in view.scene.codes}
    unit = bars["held"][0, 3] / 2  # two values from 2 on, which is the highest bar
    assert [len(bars[code]) for code in bars] == [3, 1, 1, 0, 0]
    assert bars["held"][:, 3] == pytest.approx(np.array([2, 1, 1]) * unit)
    (mark,) = view.scene.marks
    assert isinstance(mark, Painted)
    pitch = mark.places[1, 0]
    places = np.concatenate([of_code(view, "values", 0, c)[:, 0] for c in bars if len(bars[c])])
    powers = [int(mark.labels[int(x // pitch)].split(" ")[0][2:]) for x in places]
    assert powers == [1, 2, 7, -10, -12]
    assert len(of_code(view, "values", 1, "too large")) == 1  # 400
    moved = of_code(view, "values", 2, "held")[:, 0] - bars["held"][:, 0][:2]
    assert moved == pytest.approx([2 * pitch] * 2)
    row = next(r for r in view.data if r["times"] == "2^1" and r["dtype"].startswith("QUARTER"))
    assert (row["become 0"], row["too large"]) == ("0 %", "14.3 %")
    still = view.scene.stills[0].about["values"][1]["n"]
    assert still.sum() == 6 and still.tolist()[int(np.argmax(still))] == 2


def test_the_title_of_formats_says_which_values_are_lost_counted_one_by_one() -> None:
    for values in ([3.0, 0.0001, 250, 300], [2.0**-20, 2.0**-19], [240.0, 0.01]):
        view = show.formats(np.array(values), F143)
        numbers = np.append(every(F143), 0)
        lost = []
        factors = [
            2.0 ** int(label.partition("^")[2])
            for label in (view.scene.stills[0].label, view.scene.stills[view.scene.poster].label)
        ]
        for factor in factors:
            scaled = np.array(values) * factor
            nearest = np.abs(numbers[:, None] - scaled).argmin(axis=0)
            zero = float(100 * (numbers[nearest] == 0).mean())
            large = float(100 * (scaled > 248).mean())  # halfway from 240 to what would be next
            under, over = (f"{share:.3g} %" if share else "none" for share in (zero, large))
            same = under == over == "none"
            words = (
                "none become 0 or too large"
                if same
                else f"{under} become 0, {over} become too large"
            )
            lost.append(words)
        title = f"As QUARTER[F143, 0] {lost[0]}"
        if factors[1] != 1:
            keeps_all = lost[1].startswith("none become 0 or too")
            rest = "it keeps them all" if keeps_all else lost[1]
            title += f"; {view.scene.stills[view.scene.poster].label} {rest}"
        assert view.scene.title == title


def test_values_come_back_from_either_end_by_one_factor() -> None:
    for size, factors in ((2.0**-100, 16), (2.0**90, 17)):
        view = show.formats(np.array([1, 1.5, 0.25]) * size, F143)
        assert "none become 0, none are subnormal, none are too large." in repr(view)
        assert factors <= len(view.scene.stills) <= 22 and len(view._repr_html_()) < 40_000
    assert "times 2^0" in repr(show.formats([0, 0.0], HALF))


def test_a_coin_lands_on_two_numbers_and_is_right_on_average() -> None:
    view = show.formats([1.0], F143, coin=0.4)
    assert "0.4, rounded at random 10,000 times, became 0.40625 in" in repr(view)
    up = int(view.scene.stills[-1].about["coin"][1]["n"][1])
    assert up / 10_000 == pytest.approx(0.8, abs=5 * (0.16 / 10_000) ** 0.5)
    bars = of_code(view, "coin", len(view.scene.frames) - 1, "where throws landed")
    assert bars[:, 3] == pytest.approx(90 * np.array([10_000 - up, up]) / 10_000)
    assert [sum(s.about["coin"][1]["n"]) for s in view.scene.stills] == sorted(
        sum(s.about["coin"][1]["n"]) for s in view.scene.stills
    )
    hers = show.formats([1.0], HALF, coin=-0.1, thrown=[-0.0999755859375] * 3 + [7.0])
    assert "-0.0999756 in 75.0 % of them and -0.100037 in 0.0 %: 1.67502 on average" in repr(hers)


# --- machine --------------------------------------------------------------------------------------


def test_a_machine_is_as_wide_as_its_figures() -> None:
    target = IPUModel("ipu2").create_device().target
    assert pipes(target, 0) == [8 * 1_330_000_000, 4 * 1_330_000_000, 0, 0]
    assert pipes(target, 4) == [
        4 * 1472 * 8 * 1_330_000_000,
        4 * 1472 * 4 * 1_330_000_000,
        round((2 * 61.2 + 2 * 30.6) * 1.33e9),
        32_000_000_000,
    ]
    view = show.machine(target)
    assert (
        "an IPU: 897.0 MiB of memory, modelled memory 15.7 TB/s, exchange 7.83 TB/s, host 8 GB/s"
        in repr(view)
    )
    rows = {(row["machine"], row["pipe"]): row for row in view.data}
    assert (
        len(rows) == 2 + 3 + 3 * 4
        and rows["16 IPUs", "links"]["bandwidth"]
        == rate((8 * 61.2 + 14 * 30.6) * 1.33e9)
        == "1.22 TB/s"
    )
    assert rows["a tile", "exchange"]["figure"] == "5.32 GB/s a tile, each way (4 bytes a cycle)"
    assert rows["a tile", "exchange"]["source"].startswith("derived from tutorial 6: ")
    # of each size a picture, its pipes as wide as their bandwidth
    for level, ipus in enumerate((0, 1, 4, 16, 64)):
        scale, drawn = 24 / max(pipes(target, ipus)), {}
        for shape in paint(view.scene, level):
            if isinstance(shape, Boxes) and shape.code < 4:
                drawn[shape.code] = float(shape.boxes[0, 3])
        assert drawn == {
            i: pytest.approx(max(1, scale * wide), rel=1e-3)
            for i, wide in enumerate(pipes(target, ipus))
            if wide
        }
    zoom = view.scene.marks[0]
    assert (
        isinstance(zoom, Zoom) and zoom.counts == (6, 1472, 4, 16, 64) and len(zoom.told) == 5 * 4
    )
    assert zoom.told[5] == (
        "an IPU, exchange: 7.83 TB/s, modelled; 5.32 GB/s a tile, each way (4 bytes a cycle); derived from "
        "tutorial 6: its planner costs come out only with 4."
    )
    assert zoom.told[2] == "a tile, links: none."


def test_the_link_to_the_host_is_as_wide_as_a_run_finds_it() -> None:
    for ipus in (1, 4):
        device = IPUModel("ipu2", num_ipus=ipus, tiles_per_ipu=4).create_device()
        graph = Graph(device)
        x = graph.add_variable(FLOAT, (ipus * 4, 32768), "x")
        for tile in range(ipus * 4):
            graph.set_tile_mapping(x[tile], tile)
        stream = graph.add_host_to_device_fifo("in", FLOAT, x.num_elements)
        engine = Engine(graph, Copy(stream, x))
        engine.load(device)
        engine.connect_stream("in", np.zeros(x.num_elements, np.float32))
        engine.run()
        seconds = engine.report.total_cycles / device.target.tile_clock_frequency
        assert x.num_elements * 4 / seconds == pytest.approx(
            pipes(device.target, ipus)[3], rel=0.02
        )


def test_a_machine_of_another_size_is_among_them() -> None:
    device = IPUModel("ipu1", num_ipus=2, tiles_per_ipu=10).create_device()
    view = show.machine(device)
    assert {"a tile", "an IPU", "2 IPUs", "4 IPUs", "16 IPUs", "64 IPUs"} == {
        row["machine"] for row in view.data
    }
    poster = view.scene.stills[view.scene.poster]
    assert poster.label == "2 IPUs" and poster.note.startswith("5.0 MiB of memory")


def test_a_machine_of_several_ipus_has_its_links_and_what_a_run_sends_over_them() -> None:
    device = IPUModel("ipu2", machine="m2000", tiles_per_ipu=2).create_device()
    graph = Graph(device)
    far, near = (graph.add_variable(FLOAT, (2, 1000), name) for name in ("far", "near"))
    for tensor, tiles in ((far, (0, 6)), (near, (4, 0))):
        for row, tile in enumerate(tiles):
            graph.set_tile_mapping(tensor[row], tile)
        graph.set_initial_value(tensor[0], 1.0)
    sends = [Repeat(2, Copy(far[0], far[1])), Copy(near[0, :100], near[1, :100])]
    engine = Engine(graph, Sequence(*sends))
    engine.load(device)
    engine.run()
    view = show.machine(engine.report)
    mark = next(m for m in view.scene.marks if isinstance(m, Painted))
    # 4,000 bytes go twice over the rung 0 to 1 and the rail 1 to 3; 400 over the rail 2 to 0
    carries = {(0, 1): (8000, 2 * 66), (1, 3): (8000, 2 * 131), (2, 0): (400, 14)}
    columns = (mark.values[name].tolist() for name in ("from", "to", "bytes", "busy"))
    found = {(a, b): (size, busy) for a, b, size, busy in zip(*columns, strict=True)}
    assert found == {link: carries.get(link, (0, 0)) for link in found} and len(found) == 8
    total = engine.report.total_cycles
    assert view.scene.sentence.endswith(
        " In the run, 3 of 8 links carry 16,400 bytes, if each direction counts as a link; the "
        "busiest is that from IPU "
        f"1 to IPU 3: 8,000 bytes, 262 modelled cycles busy, {26200 / total:.2g} % of the run."
    )
    drawn = {
        tuple(box[:2]): view.scene.codes[shape.code].name
        for shape in mark.pictures[0]
        if isinstance(shape, Boxes)
        for box in shape.boxes.tolist()
    }
    assert mark.heading == (
        "2 rungs (upright) of 81.4 GB/s and 2 rails (level) of 40.7 GB/s; together 244 GB/s, each "
        "way; %: busy, of the run"
    )
    assert ", links 244 GB/s," in view.scene.stills[view.scene.poster].note
    each_way = [link_rate(link, device.target) * 1.33 for link in links_of(device.target)[::2]]
    assert sum(each_way) == pytest.approx(244, abs=0.5)
    names = [drawn[x, y] for x, y in mark.places[:, :2].tolist()]
    busiest, middle, least, none = (
        *(f"a link busy {much} of the busiest's time" for much in ("more than 2/3", "up to 2/3")),
        "a link busy up to 1/3 of the busiest's time",
        "a link that carries nothing",
    )
    told = {(0, 1): middle, (1, 3): busiest, (2, 0): least}
    assert names == [told.get(link, none) for link in found]
    beside = {w.text for w in mark.pictures[0] if isinstance(w, Words) and w.text.endswith("%")}
    assert beside == {f"{100 * busy / total:.2g} %" for _, busy in carries.values()}
    rows = {row["pipe"]: row for row in view.data if row["machine"] == "4 IPUs"}
    assert (
        rows["IPU 1 to IPU 3"]["bandwidth"] == "40.7 GB/s"
        and "assumed half" in (rows["IPU 1 to IPU 3"]["source"])
    )
    quiet = show.machine(programs.uneven()).scene  # of one IPU there are none
    assert not any(isinstance(m, Painted) for m in quiet.marks)
    alone = show.machine(IPUModel("ipu2", machine="pod64").create_device()).scene
    (mark,) = (m for m in alone.marks if isinstance(m, Painted))
    assert mark.count == 2 * (32 + 64) and "A Pod64 of ipu2" in alone.title


# --- bad input ------------------------------------------------------------------------------------


def test_errors() -> None:
    empty = Engine(
        Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target), Sequence()
    ).report
    assert (
        option_error(lambda: show.sweep({}))
        == "show.sweep() was given no run.\n  next:  give it at least one report."
    )
    assert option_error(lambda: show.sweep({3: empty})) == (
        "show.sweep() was given a report in which nothing has run.\n  next:  engine.run(), then "
        "engine.report."
    )
    assert option_error(lambda: show.sweep([1])) == (  # type: ignore[arg-type]
        "show.sweep() was given [1], which is not a sweep.\n"
        '  next:  give it sweep(build, num_tiles=[…]), or reports by name: {"16 rows": a, "32 '
        'rows": b}.'
    )
    assert option_error(lambda: show.sweep({3: float("nan")})) == (
        "show.sweep() was given nan as a run, which is neither a report nor a number of 0 or more.\n"
        "  next:  give reports, or numbers that are 0 or more."
    )
    assert option_error(lambda: show.host(programs.some_wait(3))) == (
        "show.host() was given a run without transfers between host and device.\n  next:  "
        "run a program with a Copy from or to a stream or a remote buffer; "
        "show.timeline(report) shows the device alone."
    )
    assert option_error(lambda: show.host(empty)).startswith(
        "show.host() was given a report in which nothing has run."
    )
    assert option_error(lambda: show.numbers()) == (
        "show.numbers() was given no dtype.\n  next:  give dtypes and a finite number: "
        "show.numbers(FLOAT, HALF, value=0.1)."
    )
    for wrong in (float("nan"), float("inf"), "0.1", True, None):
        assert option_error(lambda wrong=wrong: show.numbers(FLOAT, value=wrong)).startswith(
            f"show.numbers() was given {wrong!r}, which is not a finite number.\n  next:  give dtypes and "
            "a finite number"
        )
    for wrong in (INT, QUARTER, 3, QuarterMetadata()):
        with pytest.raises(PoplarTypeError) as refused:
            show.numbers(FLOAT, wrong)  # type: ignore[arg-type]
        assert re.match(
            r"show\.numbers\(\) was given .*, which is not a floating-point dtype\.\n"
            r"  next:  give FLOAT, HALF, or",
            str(refused.value),
        )
    assert option_error(lambda: show.formats([1.0])) == (
        "show.formats() was given 0 dtypes, but it takes 1 to 4.\n"
        "  next:  give one to 4 dtypes: show.formats(values, HALF)."
    )
    assert "2 of 2 values that are NaN" in option_error(
        lambda: show.formats([np.nan, np.inf], HALF)
    )
    for coin, throws, what in (
        (np.nan, 5, "coin=nan, which is not a finite number"),
        (0.1, 0, "throws=0, which is not a whole number from 1 to 1,000,000"),
    ):
        assert option_error(
            lambda c=coin, n=throws: show.formats([1.0], HALF, coin=c, throws=n)
        ) == (
            f"show.formats() was given {what}.\n"
            "  next:  give a finite number as coin=, and throws= from 1 to 1,000,000."
        )
    for coin in (0.5, 1e6):
        assert option_error(lambda c=coin: show.formats([1.0], HALF, coin=c)).startswith(
            f"show.formats() was given coin={coin}, which is not between two numbers of HALF."
        )
    assert option_error(lambda: show.machine("ipu2")) == (  # type: ignore[arg-type]
        "show.machine() was given 'ipu2', which is not a machine.\n  next:  give a target, a "
        "device or a report: show.machine(device)."
    )


def test_a_shape_is_stored_once_however_many_pictures_have_it() -> None:
    row = np.array([[0, 0, 10, 5], [20, 0, 10, 5.0]])
    boxes, words = Boxes(0, row), Words(0, 14, "below")
    pictures = (boxes, words), (words, boxes, Boxes(1, row)), (words,)
    painted = Painted(
        "p", width=100, height=20, count=1, pictures=pictures, places=np.array([[0, 0, 100, 20]])
    )
    panels = Panels()
    panels.put(painted)
    stills = tuple(Still(f"{k}", "", 0, 0, True, pictures={"p": k}) for k in range(3))
    codes = (palette.COMPUTE, palette.EXCHANGE)
    scene = panels.scene(
        "p", "t", "s", foot=20, codes=codes, stills=stills, frames=np.arange(3), table=((), ())
    )
    data = json.loads(scene.json())
    assert [shape[0] for shape in data["shapes"]] == ["b", "w", "b"]
    both = data["shapes"][2]  # neighbours over the same columns are one shape
    assert both[1] == 2 and both[4] == 0 and both[7] == 1
    assert unpack(both[2], 2).tolist() == [0, 200] and both[3] == 100
    assert [unpack(packed, n).tolist() for n, packed in data["marks"][0]["pictures"]] == [
        [0, 1],
        [1, 2],
        [1],
    ]
    assert [len([s for s in paint(scene, k) if isinstance(s, Boxes)]) for k in range(3)] == [
        1,
        2,
        0,
    ]
    assert scene.legend == [0, 1] and painted.shown(stills[2]) == (words,)


def test_a_heading_of_links_promises_per_cents_only_where_they_are() -> None:
    for ipus in (2, 4, 16):
        scene = show.machine(all_reduce_report(ipus, 160, "clockwise_ring")).scene
        (links,) = (mark for mark in scene.marks if mark.name == "links")
        assert isinstance(links, Painted)
        texts = [s.text for s in links.pictures[0] if isinstance(s, Words) and "%" in s.text]
        assert ("%: busy" in links.heading) == bool(texts)
        assert ("colour: busy" in links.heading) == (not texts)
