"""The views timeline, memory, liveness and program: their numbers are the report's, and they keep
the contract of all views."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import SVG, Tags, contrast, option_error

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, Tensor, concat, show
from ipu_teach.errors import InvalidOptionError
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence
from ipu_teach.report.log import RunLog
from ipu_teach.report.walk import Walk
from ipu_teach.show import palette
from ipu_teach.show.exchange import pattern
from ipu_teach.show.memory import parts
from ipu_teach.show.paint import bar_width, caption, paint
from ipu_teach.show.report_facts import sources
from ipu_teach.show.scene import Cells, Curve, Flame, Lanes, Matrix, Painted, Tape, Tree
from ipu_teach.show.shapes import Boxes, Outline, Raster, Stroke, Words
from ipu_teach.show.svg import svg
from ipu_teach.show.view import View
from tests.browser import programs
from tests.unpacking import unpack

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("timeline", "memory", "liveness", "program")


def view(name: str, report: Report) -> View:
    made: View = getattr(show, name)(report)
    return made


# --- the programs and what ran of them ------------------------------------------------------------


def test_every_part_of_a_program_ran_as_often_as_the_device_counted() -> None:
    report, counted = programs.branching()
    places = [p for root in Walk(report).roots for p in root.walk()]
    for name, times in counted.items():
        assert (
            sum(p.runs for p in places if p.node.kind == "Execute" and p.node.name == name) == times
        ), name
    titles = {p.title: p for p in places}
    assert (
        titles["RepeatWhileTrue 'left'"].runs == 2 and titles["condition: Execute down"].runs == 10
    )
    assert titles["If 'odd'"].runs == 8 and titles["then: Execute uneven"].runs == 4
    assert titles["case 0: Execute zero"].runs == titles["default: Execute one"].runs == 4


@pytest.mark.parametrize("most", [None, 10**6])
def test_the_cycles_of_the_parts_add_up(most: int | None) -> None:
    for report in (programs.uneven(), programs.branching()[0]):
        walk = Walk(report, most)
        assert walk.unplaced == 0
        assert sum(root.cycles for root in walk.roots) == pytest.approx(report.total_cycles)
        for place in (p for root in walk.roots for p in root.walk()):
            if place.children:
                assert place.cycles == pytest.approx(sum(c.cycles for c in place.children))


def test_spans_are_the_steps_of_the_run_nested() -> None:
    report, _ = programs.branching()
    walk = Walk(report, 10**6)
    leaves = [s for s in walk.spans if s.place.node.step >= 0]
    assert [s.place.node.step for s in leaves] == report.step_numbers.tolist()
    assert [s.first for s in leaves] == list(range(report.num_steps))
    # each lies within the nearest one above that is less deep
    for i, span in enumerate(walk.spans):
        around = next(
            (s for s in reversed(walk.spans[:i]) if s.place.depth == span.place.depth - 1), None
        )
        assert (around is None) == (span.place.depth == 0)
        if around is not None:
            assert (
                around.first <= span.first < span.last <= around.last
                and span.place in around.place.children
            )


def test_a_run_that_stopped_half_way_is_followed_to_there() -> None:
    report = programs.uneven(repeats=50)
    short = Report(
        report.profile,
        RunLog(
            report.step_numbers[:40].copy(), np.bincount(report.step_numbers[:40]).astype(np.int64)
        ),
    )
    for walk in (Walk(short), Walk(short, 40)):
        assert walk.unplaced == 0 and sum(root.cycles for root in walk.roots) == pytest.approx(
            short.total_cycles
        )
        places = {p.title: p.runs for root in walk.roots for p in root.walk()}
        assert places["Execute total"] == 20 and places["Execute everywhere"] == 19


def test_runs_of_several_programs_are_told_apart() -> None:
    report = two_programs()
    first, second = Walk(report).roots
    assert (first.runs, second.runs) == (1, 2)
    assert [r["runs"] for r in show.program(report).data if r["part"].startswith("Execute")] == [
        "1",
        "6",
    ]


def two_programs() -> Report:
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    graph = Graph(device.target)
    values, out = graph.add_variable(FLOAT, (4,), "values"), graph.add_variable(FLOAT, (), "out")
    graph.set_tile_mapping(values, 0)
    graph.set_tile_mapping(out, 1)
    graph.set_initial_value(values, 1.0)
    one, two = graph.add_compute_set("one"), graph.add_compute_set("two")
    for compute_set in (one, two):
        graph.set_tile_mapping(
            graph.add_vertex(compute_set, programs.Total, values=values, out=out), 1
        )
    engine = Engine(graph, [Execute(one), Repeat(3, Execute(two))])
    engine.load(device)
    for number in (1, 0, 1):
        engine.run(number)
    return engine.report


def test_sources_are_named_by_class_and_method() -> None:
    report = programs.uneven()
    step = next(n for n in report.step_numbers.tolist() if report.step_cost(n).name == "total")
    text = "def compute(self) -> None:\n    self.out = np.sum(self.values)"
    assert sources(report, step) == (("Total.compute", text),)
    assert (
        sources(
            report,
            next(
                n for n in report.step_numbers.tolist() if report.step_cost(n).kind == "StreamCopy"
            ),
        )
        == ()
    )


# --- timeline -------------------------------------------------------------------------------------


def test_the_timeline_is_the_run() -> None:
    report = programs.uneven()
    scene = show.timeline(report).scene
    stills = [scene.stills[i] for i in scene.frames.tolist()]
    assert [s.cycles for s in stills] == [step.cycles for step in report.steps()]
    assert [s.label for s in stills] == [f"{step.kind} {step.name}" for step in report.steps()]
    flame, tape, _ = scene.marks
    assert isinstance(flame, Flame) and isinstance(tape, Tape)
    boxes = [
        (flame.names[t], d, a, b)
        for t, d, a, b in zip(flame.title, flame.depth, flame.first, flame.last, strict=True)
    ]
    assert boxes[:4] == [
        ("Sequence", 0, 0, 7),
        ("Copy rows to 'matrix'", 1, 0, 1),
        ("Repeat 3", 1, 1, 7),
        ("Sequence", 2, 1, 3),
    ]
    assert [b for b in boxes if b[1] == 3] == [
        (n, 3, 1 + i, 2 + i) for i, n in enumerate(["total", "everywhere"] * 3)
    ]
    total = next(s for s in scene.stills if s.label == "Execute total")
    profile = next(c for c in report.compute_sets if c.name == "total")
    assert total.values["compute"].tolist() == profile.cycles_per_tile.tolist()
    assert scene.sources == (
        "Total.compute\n  1  def compute(self) -> None:\n  2      self.out = np.sum(self.values)",
    )
    assert total.source == 0 and "codelet Total.compute" in total.note


def test_the_timeline_says_where_the_time_goes() -> None:
    report = programs.uneven()
    most = 3 * next(c for c in report.compute_sets if c.name == "everywhere").cycles
    assert most > report.step_cost(0).cycles and type(most) is int
    assert repr(show.timeline(report)) == (
        f"A run of 7 supersteps on 13 tiles, {report.total_cycles:,} modelled cycles. The "
        f"largest part of the time goes to Execute everywhere: {most:,} in 3 supersteps, "
        f"{100 * most / report.total_cycles:.1f} %."
    )
    rows = {row["name"]: row for row in show.timeline(report).data}
    assert rows["total"]["runs"] == "3" and rows["total"]["codelets"] == "Total.compute"
    assert rows["total"]["cycles of all"] == f"{3 * int(rows['total']['cycles of one']):,}"


def test_a_long_timeline_rests_on_a_round() -> None:
    report = programs.uneven(repeats=100)
    scene = show.timeline(report).scene
    first, last = scene.data["window"]
    names = [report.step_cost(n).name for n in report.step_numbers[first:last].tolist()]
    assert sorted(names) == ["everywhere", "total"] and first <= scene.poster < last
    each = {c.name: c.cycles for c in report.compute_sets}
    told = [f"{n} {100 * c / sum(each.values()):.1f} %" for n, c in each.items()]
    told.sort(key=lambda text: -float(text.split()[1]))
    assert (
        f"Shown at first is one round, supersteps {first + 1} to {last}, "
        f"{sum(each.values()):,} cycles: {', '.join(told)}." in scene.notes[0]
    )
    assert scene.notes[0] in scene.sentence
    # and so does the picture: the boxes of two supersteps fill the width
    flame = scene.mark("programs")
    assert isinstance(flame, Flame)
    row = flame.y + 3 * flame.pitch
    boxes = [s for s in paint(scene, scene.poster) if isinstance(s, Boxes)]
    wide = sorted(float(b[2]) for s in boxes for b in s.boxes if abs(b[1] - row) < 1 and b[2] > 1)
    share = np.array(sorted(each.values())) / sum(each.values())
    assert np.array(wide) == pytest.approx(share * flame.width, abs=1)
    assert "window" not in show.timeline(programs.uneven()).scene.data


def test_two_timelines_stand_on_one_scale() -> None:
    first, second = programs.uneven(), programs.uneven(rows=39, repeats=5)
    scene = show.timeline(first, second).scene
    assert scene.begins[-1] == first.total_cycles + second.total_cycles
    shapes = list(paint(scene, scene.poster))
    for name, report in (("programs", first), ("programs of the second", second)):
        flame = scene.mark(name)
        assert isinstance(flame, Flame)
        boxes = [b for s in shapes if isinstance(s, Boxes) for b in s.boxes.tolist()]
        [outer] = [b for b in boxes if b[1] == flame.y]  # all of its run
        share = report.total_cycles / second.total_cycles
        assert outer[0] == flame.x and outer[2] == pytest.approx(share * flame.width, abs=1)
    more = 100 * second.total_cycles / first.total_cycles - 100
    assert scene.sentence.startswith(
        f"Two runs on one axis of time. The second run takes {more:.1f} % more cycles than the first. "
    )
    assert show.timeline(first).scene.sentence in scene.sentence
    assert {row[0] for row in scene.table[1]} == {"first", "second"}
    assert option_error(lambda: show.timeline(first, second, blocks=0)) == (
        "show.timeline() was given blocks= with two reports, but it shows blocks of one report "
        "only.\n  next:  give one report, or leave out blocks=."
    )


def test_many_tiles_share_lanes() -> None:
    report = programs.uneven(tiles=1472, rows=2944)
    view_ = show.timeline(report)
    tape = view_.scene.marks[1]
    assert (
        isinstance(tape, Tape)
        and tape.count == 64
        and tape.ends == (("slowest", 0), ("fastest", 1))
    )
    total = next(s for s in view_.scene.stills if s.label == "Execute total")
    profile = next(c for c in report.compute_sets if c.name == "total")
    ranked = np.sort(profile.cycles_per_tile)[::-1].reshape(64, 23)
    assert np.abs(total.values["compute"] - ranked.mean(axis=1)).max() <= 1
    assert view_.scene.notes[0].startswith(
        "The 64 lanes are the tiles sorted by time, in each phase anew, 23 to a lane, "
    )


def test_a_long_run_is_cut_and_deep_programs_too() -> None:
    report = programs.uneven(tiles=2, rows=2, repeats=2_000)
    scene = show.timeline(report).scene
    assert len(scene.frames) <= 3_000 and len(scene.json()) <= 150_000
    assert f"The picture shows the first {len(scene.frames):,} of 4,001 supersteps." in scene.notes
    assert (
        f"In the first {len(scene.frames):,}, the largest part of the time goes to"
        in scene.sentence
    )
    flame = scene.marks[0]
    assert isinstance(flame, Flame) and flame.last.max() == len(scene.frames)
    graph, a, b = two_variables()
    nested: Program = Copy(a, b)
    for _ in range(20):
        nested = Sequence(nested)
    notes = show.timeline(run(graph, nested)).scene.notes
    assert notes == ("Programs nested more than 12 deep are left out.",)


def two_variables() -> tuple[Graph, Tensor, Tensor]:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target)
    a, b = (graph.add_variable(FLOAT, (8,), name) for name in "ab")
    graph.set_tile_mapping(a, 0)
    graph.set_tile_mapping(b, 1)
    graph.set_initial_value(a, 0.0)
    return graph, a, b


def run(graph: Graph, program: Program) -> Report:
    engine = Engine(graph, program)
    engine.load(IPUModel("ipu2", tiles_per_ipu=graph.target.num_tiles).create_device())
    engine.run()
    return engine.report


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiles", [1, 13, 1472])
def test_the_memory_adds_up(tiles: int) -> None:
    report = programs.uneven(tiles=tiles, rows=2 * tiles)
    scene, ledger = show.memory(report).scene, report.memory
    [still] = scene.stills
    names = [code.name for code, _ in parts(report)]
    held = {name: np.broadcast_to(still.values[f"part{i}"], tiles) for i, name in enumerate(names)}
    assert np.sum(list(held.values()), axis=0).tolist() == still.values["total"].tolist()
    assert still.values["total"].tolist() == (ledger.bytes_per_tile + ledger.gaps_per_tile).tolist()
    for tile in {0, tiles // 2, tiles - 1}:
        here = ledger.by_category(tile)
        assert {n.lower(): v for n, v in here.items() if v and n != "Variables"} == {
            n: int(v[tile])
            for n, v in held.items()
            if v[tile] and "variables" not in n and n != "gaps"
        }
        assert here["Variables"] == sum(int(v[tile]) for n, v in held.items() if "variables" in n)
    # What is always live is known from elsewhere: the ledger sums variables and categories by
    # themselves.
    passing = {"variables that come and go", "exchange buffers", "host buffers", "gaps"}
    steady = sum(v for n, v in held.items() if n not in passing)
    assert np.asarray(steady).tolist() == ledger.always_live_bytes_per_tile.tolist()


@pytest.mark.parametrize("tiles", [13, 64, 100, 171, 1472])
def test_the_stacks_reach_as_far_as_what_grows_with_the_page(tiles: int) -> None:
    stack = show.memory(programs.uneven(tiles=tiles, rows=2 * tiles)).scene.mark("stack")
    assert isinstance(stack, Painted)
    assert 660 < stack.x + stack.width <= 704  # as layout.js asks


@pytest.mark.parametrize("tiles", [1, 13, 1472])
def test_the_variables_of_a_tile_are_listed(tiles: int) -> None:
    report = programs.uneven(tiles=tiles, rows=2 * tiles)
    names, kinds, packed, fullest = show.memory(report).scene.data["held"]
    assert fullest == int(report.memory.held_per_tile.argmax())
    for tile, kind in enumerate(unpack(packed, tiles).tolist()):
        *listed, few, left = kinds[kind]
        expected = report.memory.at_fullest(tile)
        assert {
            names[i]: size for i, size in zip(listed[::2], listed[1::2], strict=True)
        } == expected
        assert (few, left) == (0, 0)


def test_of_many_variables_on_a_tile_the_largest_are_listed() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target)
    for i in range(20):
        graph.set_tile_mapping(graph.add_variable(FLOAT, (100 + i,), f"part {i}"), 0)
    names, kinds, _, _ = show.memory(Engine(graph, Sequence()).report).scene.data["held"]
    assert names == [f"part {i}" for i in range(19, 3, -1)]
    assert kinds[0][-2:] == [4, 4 * (100 + 101 + 102 + 103)] and kinds[1] == [0, 0]


def test_the_memory_names_the_fullest_tile_and_the_limit() -> None:
    report = programs.uneven()
    used = report.memory.bytes_per_tile + report.memory.gaps_per_tile
    fullest = int(used.argmax())
    always = int(report.memory.always_live_bytes_per_tile[fullest])
    share = 100 * used[fullest] / 638976
    first, second, *others = np.flatnonzero(used == used.max()).tolist()
    assert first == fullest and len(others) > 2
    ties = f"tiles {first}, {second} and {len(others)} others"
    text = (
        f"the fullest are {ties}: {used[fullest]:,} of 638,976 bytes ({share:.1f} %), "
        f"{always:,} always live on tile {fullest}"
    )
    largest = max(report.memory.bytes_per_tile_by_category.values(), key=lambda b: int(b[fullest]))
    part = f"the largest part, {100 * largest[fullest] / used[fullest]:.0f} %, is "
    assert (
        f"{ties} are fullest, {used[fullest]:,} bytes, {share:.1f} % of their memory; {part}"
        in (show.memory(report).scene.title.replace("Tiles", "tiles"))
    )
    view_ = show.memory(report)
    assert repr(view_).endswith(text + ".") and view_.scene.stills[0].note == text
    assert repr(view_).startswith(
        f"The memory of 13 tiles, modelled: {int(used.sum()):,} bytes; the largest parts are stacks "
    )
    assert view_.data[0]["tile"] == f"{fullest}" and view_.data[0]["bytes"] == f"{used[fullest]:,}"
    assert len(view_.data) == 13


def unequal() -> View:
    """Four tiles, one of them over its limit."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device().target)
    for tile, kib in enumerate((10, 100, 300, 700)):
        graph.set_tile_mapping(graph.add_variable(FLOAT, (kib * 256,), f"part {tile}"), tile)
    return show.memory(Engine(graph, Sequence(), options={"debug.allowOutOfMemory": "true"}).report)


def test_tiles_are_coloured_by_fifths_of_the_limit_and_those_over_it_apart() -> None:
    view_ = unequal()
    code = np.broadcast_to(view_.scene.stills[0].cells["tiles"][0], 4)
    assert [view_.scene.codes[int(c)].letter for c in code] == ["1", "1", "3", "!"]
    assert {view_.scene.codes[c].name for c in view_.scene.legend} == {
        "up to 20 % of the limit",
        "up to 60 % of the limit",
        "over the limit",
    }
    assert "1 tile over the limit" in repr(view_)
    stack = view_.scene.marks[-1]
    assert isinstance(stack, Painted)
    assert any(
        isinstance(s, Words) and s.text == "limit 638,976"
        for s in stack.shown(view_.scene.stills[0])
    )


@pytest.mark.parametrize("tiles", [1, 13, 1472])
def test_the_map_of_a_machine_that_is_nearly_empty_tells_its_tiles_apart(tiles: int) -> None:
    """Fifths of the smallest part of the limit that its fullest tile is within, and says so."""
    report = programs.uneven(tiles=tiles, rows=2 * tiles)
    scene, held = show.memory(report).scene, report.memory.held_per_tile
    limit, share = report.target.bytes_per_tile, held.max() / report.target.bytes_per_tile
    top = min(t for t in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2) if share <= t)
    cells = scene.marks[0]
    assert isinstance(cells, Cells) and cells.heading.endswith(", by their share of the limit")
    steps = {f"up to {100 * top * k / 5:g} % of the limit" for k in range(1, 6)}
    assert {code.name for code in scene.codes if "% of the limit" in code.name} <= steps
    code = np.broadcast_to(scene.stills[0].cells["tiles"][0], tiles)
    for tile, number in enumerate(code.tolist()):
        name = scene.codes[number].name
        most = float(name.removeprefix("up to ").removesuffix(" % of the limit")) / 100
        assert most - top / 5 - 1e-9 < held[tile] / limit <= most + 1e-9
    assert len(set(code.tolist())) > 1 or tiles == 1


def test_a_tile_over_its_limit_goes_past_the_line() -> None:
    scene = unequal().scene
    gauge = scene.mark("gauge")
    assert isinstance(gauge, Lanes) and gauge.limit == 638_976
    # a poster has room for what says so, beside the end of the axis
    axis = f"{int(scene.drawings[0].span):,} bytes"
    assert gauge.heading == "line: a tile's limit"
    assert 6.6 * len(gauge.heading + axis) < gauge.width
    number, start, stop = scene.stills[0].lanes["gauge"]
    assert stop == scene.drawings[number].span > gauge.limit  # all of it is drawn, live too
    shapes = list(paint(scene, 0))
    line = gauge.x + gauge.width * gauge.limit / stop
    assert any(
        isinstance(s, Stroke) and s.points[0][0] == s.points[1][0] == pytest.approx(line)
        for s in shapes
    )


def test_many_ipus_show_the_fullest_of_several_tiles() -> None:
    graph = Graph(IPUModel("ipu2", num_ipus=4).create_device().target)
    heavy = graph.add_variable(FLOAT, (1000,), "heavy")
    graph.set_tile_mapping(heavy, 3)
    scene = show.memory(Engine(graph, Sequence()).report).scene
    cells = scene.marks[0]
    assert isinstance(cells, Cells) and cells.count == 2944
    assert scene.stills[0].values["tile"][1] == 3 and any(
        "up to 2 tiles" in note for note in scene.notes
    )


@pytest.mark.parametrize("tiles", [13, 64, 400, 1472])
def test_stacks_have_the_shares_that_the_words_say(tiles: int) -> None:
    report = programs.uneven(tiles=tiles, rows=2 * tiles)
    scene = show.memory(report).scene
    stack, held = scene.marks[-1], parts(report)
    assert isinstance(stack, Painted) and stack.count == min(tiles, 172)
    told = next(
        s.text
        for s in stack.shown(scene.stills[0])
        if isinstance(s, Words) and s.text.startswith("to ")
    )
    span = float(told.split()[1].replace(",", ""))
    scale, area = stack.height / span, dict.fromkeys((code.name for code, _ in held), 0.0)
    for shape in paint(scene, 0):
        if isinstance(shape, Boxes) and shape.upright:
            area[scene.codes[shape.code].name] += float(shape.boxes[:, 3].sum()) / scale
        if isinstance(shape, Raster) and shape.y == stack.y:
            for code in np.unique(shape.codes[shape.codes >= 0]).tolist():
                area[scene.codes[code].name] += (
                    float((shape.codes == code).sum()) / shape.codes.shape[0] * span
                )
    sums = {
        name: int(np.asarray(scene.stills[0].values[f"part{i}"]).sum())
        for i, name in enumerate(area)
    }
    whole = sum(sums.values())
    for name, size in sums.items():
        assert area[name] * tiles / stack.count == pytest.approx(size, abs=0.002 * whole), name


# --- liveness -------------------------------------------------------------------------------------


def by_hand(report: Report) -> tuple[list[int], list[int], list[int]]:
    """(bytes of all tiles, the fullest tile, its bytes with gaps) at every step, variable by
    variable and tile by tile."""
    ledger = report.memory
    whole, tile, most = [], [], []
    for place, passing in enumerate(ledger.passing):
        here = [int(v) for v in ledger.always_live_bytes_per_tile]
        for row in range(len(ledger.tile)):
            if ledger.liveness.live[place, ledger.variable[row]]:
                here[ledger.tile[row]] += int(ledger.size[row])
        for part in passing.values():
            here = [a + int(b) for a, b in zip(here, part, strict=True)]
        whole.append(sum(here))
        tile.append(here.index(max(here)))
        gaps = [
            -int(ledger.size[row]) % 8
            for row in range(len(ledger.tile))
            if ledger.tile[row] == tile[-1]
            and (
                ledger.liveness.live[place, ledger.variable[row]]
                or ledger.liveness.always[ledger.variable[row]]
            )
        ]
        most.append(max(here) + sum(gaps))
    return whole, tile, most


@pytest.mark.parametrize("which", ["uneven", "branching"])
def test_the_curves_are_the_ledgers(which: str) -> None:
    report = programs.uneven() if which == "uneven" else programs.branching()[0]
    view_ = show.liveness(report)
    whole, tile, most = by_hand(report)
    all_tiles, fullest = view_.scene.marks[:2]
    assert isinstance(all_tiles, Curve) and isinstance(fullest, Curve)
    assert (
        all_tiles.series[-1].values.tolist() == whole and fullest.series[-1].values.tolist() == most
    )
    assert [row["fullest tile"] for row in view_.data] == [str(t) for t in tile]
    assert [row["bytes there"] for row in view_.data] == [f"{b:,}" for b in most]
    for row, total in zip(view_.data, whole, strict=True):
        parts = [
            int(row[k].replace(",", ""))
            for k in ("always live", "variables that come and go", "buffers")
        ]
        assert sum(parts) == total
    peak = max(whole)
    assert f"most at step {whole.index(peak) + 1} (" in repr(
        view_
    ) and f"{peak:,} bytes on all tiles" in repr(view_)


def test_the_lanes_are_the_live_ranges() -> None:
    report = programs.uneven()
    scene, ledger = show.liveness(report).scene, report.memory
    lanes = next(m for m in scene.marks if isinstance(m, Lanes))
    for lane, name in enumerate(lanes.labels):
        live = ledger.liveness.live[:, ledger.names.index(name)]
        drawn = np.zeros(len(live), bool)
        for bar in scene.drawings[0].bars:
            start, length = (
                np.broadcast_to(bar.start, lanes.count)[lane],
                np.broadcast_to(bar.length, lanes.count)[lane],
            )
            drawn[int(start) : int(start + length)] = True
        assert drawn.tolist() == live.tolist(), name
    assert lanes.labels == ("matrix", "sums", "totals")
    assert "matrix 6,656, sums 104" in scene.stills[1].note


def test_two_reports_over_each_other() -> None:
    small, large = programs.uneven(), programs.uneven(rows=39)
    view_ = show.liveness(small, large)
    a, b = max(by_hand(small)[0]), max(by_hand(large)[0])
    assert repr(view_).endswith(f", {100 * (b - a) / a:+.1f} % at the peak.")
    curve = view_.scene.marks[0]
    assert isinstance(curve, Curve) and [s.values.max() for s in curve.series] == [a, b]
    # an area and a line: not by colour alone
    assert curve.series[0].base is not None and curve.series[1].base is None
    assert view_.data[0]["bytes on all tiles (b)"] == f"{by_hand(large)[0][0]:,}"
    without = show.liveness(large, at="everywhere", always=False).scene
    step = without.stills[int(without.frames[without.poster])]
    passing = by_hand(large)[0][2] - int(large.memory.always_live_bytes_per_tile.sum())
    assert f"{passing:,} bytes on all tiles, " in step.note and f"{passing:,} " in without.title
    assert "without what is always live" in step.note
    longer = show.liveness(small, programs.branching()[0])
    assert (
        "a has no such step" in longer.scene.stills[-1].note and longer.data[-1]["what (a)"] == ""
    )
    # a step that has different names in the two reports, or is in one only, says whose name it is
    for still, row in zip(longer.scene.stills, longer.data, strict=True):
        a, b = row["what (a)"], row["what (b)"]
        assert still.label == (a if a == b else ", ".join([f"{a} (a)"] * bool(a) + [f"{b} (b)"]))
    assert [s.name for s in curve.series] == ["first report (a)", "second report (b)"]
    assert f"{b_peak(view_)} bytes in its step " in view_.scene.title
    assert " of the first" in view_.scene.title


def b_peak(view_: View) -> str:
    """The largest number of bytes of the second report."""
    peak = max(int(row["bytes on all tiles (b)"].replace(",", "")) for row in view_.data)
    return f"{peak:,}"


def test_a_heading_says_how_many_variables_have_a_lane() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    names = [graph.add_variable(FLOAT, (4,), f"v{i}") for i in range(16)]
    for tensor in names:
        graph.set_tile_mapping(tensor, 0)
    first = graph.add_constant(FLOAT, (4,), 1.0)
    graph.set_tile_mapping(first, 0)
    report = run(graph, Sequence(*map(Copy, [first, *names], names)))
    scene = show.liveness(report).scene
    lanes = scene.mark("live")
    assert isinstance(lanes, Lanes)
    left_out = re.search(r"([\d,]+) more that come and go", str(scene.notes))
    assert lanes.heading.startswith("the largest variables that come and go, 12 of ")
    assert left_out and lanes.heading == (
        f"the largest variables that come and go, 12 of {12 + int(left_out[1])}"
    )


@pytest.mark.parametrize("always", [True, False])
def test_on_an_axis_of_cycles_steps_are_as_wide_as_they_take(always: bool) -> None:
    """Each once, however often it ran."""
    reports = programs.uneven(), programs.uneven(rows=39)
    view_ = show.liveness(*reports, always=always, axis="cycles")
    once = [list({s.step: s.cycles for s in report.steps()}.values()) for report in reports]
    small, large = map(sum, once)
    curve, each = view_.scene.marks[0], large / 300
    assert isinstance(curve, Curve) and curve.count == len(view_.scene.frames) == 300
    assert curve.each == each and ("of what comes and goes" in curve.heading) == (not always)
    for report, cycles, series in zip(reports, once, curve.series, strict=True):
        whole = np.array(by_hand(report)[0])
        whole -= 0 if always else int(report.memory.always_live_bytes_per_tile.sum())
        at = np.pad(np.repeat(whole, cycles), (0, large - sum(cycles)))  # cycle by cycle
        for place, drawn in enumerate(series.values.tolist()):
            inside = at[int(np.ceil(place * each)) : int((place + 1) * each)]
            touched = at[int(place * each) : int(np.ceil((place + 1) * each))]
            assert inside.max() <= drawn <= touched.max()
    more = f"{100 * (large - small) / small:+.1f} % of {small:,} modelled cycles."
    assert repr(view_).endswith(f"at the peak, {more}")
    last = view_.scene.stills[int(view_.scene.frames[-1])]
    assert last.note.startswith("a is at its end; b: ")
    kind = "memory" if always else "memory that comes and goes"
    same = show.liveness(reports[0], reports[0], always=always, axis="cycles").scene
    assert same.title == f"Both runs need equally much {kind} at their peaks"
    alone = show.liveness(reports[0], always=always, axis="cycles").scene
    (lanes,) = (m for m in alone.marks if isinstance(m, Lanes))
    edges = np.cumsum([0, *once[0]])
    for lane, name in enumerate(lanes.labels):
        row = next(v for v in reports[0].variables if v.name == name)
        bars = [(int(b.start[lane]), int(b.length[lane])) for b in alone.drawings[0].bars]  # type: ignore[index]
        assert [(a, a + long) for a, long in bars if long] == [
            (int(edges[a]), int(edges[b])) for a, b in row.ranges
        ]
    words = [s.text for s in paint(alone, 0) if isinstance(s, Words)]
    assert any(w.partition(" ")[0] == "0" for w in words) and not any("…" in w for w in words)
    assert f"{small:,} modelled cycles" in words


def test_long_programs_share_places() -> None:
    graph, a, b = two_variables()
    report = run(graph, Sequence(*(Copy(*((b, a) if i % 2 else (a, b))) for i in range(2_500))))
    scene = show.liveness(report).scene
    assert len(scene.json()) <= 150_000
    each = -(-2_500 // len(scene.frames))
    assert (
        scene.notes[0]
        == f"A column stands for {each} steps of the programs and shows the fullest of them."
    )
    curve = scene.marks[0]
    assert isinstance(curve, Curve) and curve.series[-1].values.max() == max(by_hand(report)[0])
    assert len(show.liveness(report).data) == 2_500


def listed_by_hand(report: Report, place: int) -> dict[str, int]:
    """The live variables of a step with their bytes, from the report's table, and what else is
    there."""
    found = {v.name: v.bytes for v in report.variables.live_at(place) if v.bytes}
    named = ("Variables", "Constants", "Vertex state", "Exchange buffers", "Host buffers")
    for name, size in report.memory.by_category().items():
        found |= {name.lower(): size} if size and name not in named else {}
    return found


@pytest.mark.parametrize("which", ["uneven", "chain"])
def test_the_list_of_live_variables_is_the_reports(which: str) -> None:
    report = programs.uneven() if which == "uneven" else programs.branching()[0]
    scene = show.liveness(report).scene
    [[title, rows, less, buffers]] = scene.data["live"]
    assert title == "Live" and not less
    whole, passing = by_hand(report)[0], unpack(buffers, len(scene.frames)).tolist()
    for place in range(len(scene.frames)):
        here = {
            name.removesuffix(", always"): size
            for name, size, parts in rows
            if any(a <= place < b for a, b in parts)
        }
        assert here == listed_by_hand(report, place)
        assert sum(here.values()) + passing[place] == whole[place]
        assert passing[place] == sum(int(p.sum()) for p in report.memory.passing[place].values())
    sizes = [size for _, size, _ in rows]
    assert sizes == sorted(sizes, reverse=True)
    two = show.liveness(report, report).scene.data["live"]
    assert [name for name, *_ in two] == ["First report, live", "Second report, live"]


def test_lanes_stand_in_the_order_of_their_births() -> None:
    """Forward and back again through layers of one size: a triangle, whatever their names are."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target)
    layers = [graph.add_variable(FLOAT, (64,), f"layer{i}") for i in (2, 10, 1, 11, 3, 9)]
    for layer in layers:
        graph.set_tile_mapping(layer, 0)
    graph.set_initial_value(layers[0], 0.0)
    there, back = list(pairwise(layers)), list(pairwise(layers[::-1]))
    view_ = show.liveness(run(graph, Sequence(*(Copy(a, b) for a, b in there + back))))
    (live,) = (m for m in view_.scene.marks if isinstance(m, Lanes))
    births = [int(v) for v in view_.scene.drawings[0].bars[0].start]
    names = tuple(f"layer{i}" for i in (10, 1, 11, 3, 9))  # the first is always live
    assert live.labels == names != tuple(sorted(names)) and births == [0, 1, 2, 3, 4]


def test_of_many_variables_the_others_are_summed() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target)
    parts = [graph.add_variable(FLOAT, (100 + i,), f"part {i}") for i in range(60)]
    for part in parts:
        graph.set_tile_mapping(part, 0)
        graph.set_initial_value(part, 0.0)
    report = Engine(graph, Sequence(Copy(parts[0][:9], parts[1][:9]))).report
    scene = show.liveness(report).scene
    [[_, rows, less, _]] = scene.data["live"]
    parts_ = [row[:2] for row in rows if row[0].startswith("part ")]
    assert len(parts_) == 40 and parts_[0] == ("part 59, always", 4 * 159)
    assert less == {0: [20, 4 * sum(100 + i for i in range(20))]}


def test_steps_have_names_on_the_axis() -> None:
    scene = show.liveness(programs.uneven()).scene
    words = [s for s in paint(scene, 0) if isinstance(s, Words)]
    assert [w.text for w in words if w.text[:2] in ("1 ", "2 ", "3 ")] == [
        "1 rows to 'matrix'",
        "2 total",
        "3 everywhere",
        "3 steps",
    ]


# --- program --------------------------------------------------------------------------------------


def test_the_tree_says_runs_cycles_and_shares() -> None:
    report = programs.uneven()
    view_ = show.program(report)
    rows = {row["part"]: row for row in view_.data}
    profile = next(c for c in report.compute_sets if c.name == "total")
    cycles = profile.executions * profile.cost.cycles
    assert rows["Execute total"] == {
        "part": "Execute total",
        "depth": "3",
        "runs": "3",
        "modelled cycles": f"{cycles:,.0f}",
        "share": f"{100 * cycles / report.total_cycles:.1f} %",
        **{
            kind: f"{3 * sum(p.cycles for p in report.phases(step.step) if p.kind == kind):,}"
            for step in report.steps()[1:2]
            for kind in ("sync", "exchange", "compute", "host exchange")
        },
    }
    assert rows["Repeat 3"]["runs"] == "1" and [r["depth"] for r in view_.data] == [
        "0",
        "1",
        "1",
        "2",
        "3",
        "3",
    ]
    everywhere = next(c for c in report.compute_sets if c.name == "everywhere")
    assert f"{3 * everywhere.cycles:,} in 3 runs" in repr(view_)


def test_bars_of_the_tree_are_split_by_what_takes_the_time() -> None:
    report = programs.uneven()
    scene = show.program(report).scene
    tree = scene.marks[0]
    assert isinstance(tree, Tree)
    boxes = {s.code: s.boxes for s in paint(scene, 0) if isinstance(s, Boxes)}
    assert {scene.codes[code].name for code in boxes} == {
        "sync",
        "exchange",
        "compute",
        "host exchange",
    }
    for row, title in enumerate(tree.labels):
        steps = [
            s for s in report.steps() if title.startswith(("Sequence", "Repeat")) or s.name in title
        ]
        steps = steps[1:] if row in (2, 3) else steps  # the loop begins after the stream's copy
        for code, drawn in boxes.items():
            cycles = sum(
                p.cycles
                for s in steps
                for p in report.phases(s.step)
                if p.kind == scene.codes[code].name
            )
            here = drawn[np.isclose(drawn[:, 1], tree.y + (row + 0.2) * tree.pitch)]
            share = cycles / report.total_cycles
            assert here[:, 2].sum() / bar_width(tree) == pytest.approx(share, abs=0.001)


def test_where_cycles_depend_on_data_the_split_is_what_was_measured() -> None:
    report, _ = programs.branching()
    tree = show.program(report).scene.marks[0]
    assert isinstance(tree, Tree)
    spent: dict[str, float] = {}
    for number in report.step_numbers.tolist():
        for phase in report.phases(number):
            spent[phase.kind] = spent.get(phase.kind, 0) + 1000 * phase.cycles / report.total_cycles
    names = [code.name for code in show.program(report).scene.codes]
    assert {names[int(code)]: part[0] for code, part in tree.parts.items()} == pytest.approx(
        spent, abs=1
    )


def test_a_program_that_has_not_run_is_a_tree_all_the_same() -> None:
    graph, a, b = two_variables()
    view_ = show.program(Engine(graph, Repeat(4, Copy(a, b))).report)
    assert (
        repr(view_) == "1 program of 2 parts, 0 modelled cycles: nothing that takes time has run."
    )
    assert [row["runs"] for row in view_.data] == ["0", "0"]


def test_large_trees_are_folded_and_cut() -> None:
    graph, a, b = two_variables()
    wide = run(graph, Sequence(*(Sequence(Copy(a, b), Copy(b, a)) for _ in range(400))))
    view_ = show.program(wide)
    tree = view_.scene.marks[0]
    # 400 below: folded at first
    assert isinstance(tree, Tree) and tree.count == 1000 and tree.visible() == [0]
    assert view_.scene.notes == ("The picture shows the first 1,000 of 1,201 parts.",)
    assert len(view_._repr_html_()) < 150_000
    graph, a, b = two_variables()
    few = show.program(
        run(graph, Sequence(*(Sequence(Copy(a, b)) for _ in range(20))))
    ).scene.marks[0]
    # one level is open, the next would be too many; and the step that the title names is seen
    assert isinstance(few, Tree) and len(few.visible()) == 22


# --- exchange -------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiles", [13, 64, 1472])
def test_the_matrix_is_what_was_sent(tiles: int) -> None:
    report = programs.uneven(tiles=tiles, rows=2 * tiles)
    scene = show.exchange(report).scene
    matrix = scene.marks[0]
    each = -(-tiles // 64)
    assert isinstance(matrix, Matrix) and (matrix.each, matrix.bins) == (each, -(-tiles // each))
    expected = []
    for number in np.unique(report.step_numbers).tolist():
        for sent, traffic in zip(
            report.transfers(number), report.step_cost(number).exchange, strict=True
        ):
            sizes, messages = np.zeros((2, matrix.bins, matrix.bins), np.int64)
            for source, size, receivers in zip(
                sent.source.tolist(), sent.size.tolist(), sent.receivers, strict=True
            ):
                for to in receivers.tolist():
                    sizes[to // each, source // each] += size
                    messages[to // each, source // each] += 1
            if sizes.any():
                expected.append((sizes, messages, traffic))
    assert len(expected) == len(scene.stills) == 3
    for still, (sizes, messages, traffic) in zip(scene.stills, expected, strict=True):
        assert still.values["bytes"].tolist() == sizes.reshape(-1).tolist()
        assert still.values["messages"].tolist() == messages.reshape(-1).tolist()
        out, into = (
            np.asarray(bar.length) for bar in scene.drawings[still.lanes["matrix"][0]].bars
        )
        edges = np.arange(0, tiles, each)
        assert into.tolist() == np.add.reduceat(traffic.received, edges).tolist()
        assert out.tolist() == sizes.sum(axis=0).tolist()  # where they arrive, as the matrix has it
        codes = np.broadcast_to(still.cells["matrix"][0], matrix.count)
        for code in np.unique(codes).tolist():
            here = still.values["bytes"][codes == code]
            words = scene.codes[code].name
            assert (
                here.max() == 0
                if words == "nothing"
                else here.max() <= int(words.split()[2].replace(",", ""))
            ), words
            assert code == 0 or here.min() > (
                0 if code == 1 else int(scene.codes[code - 1].name.split()[2].replace(",", ""))
            )
    runs = [1, 3, 3]  # of the copy from the host, and of each step of the loop
    most = max(range(3), key=lambda i: runs[i] * int(scene.stills[i].values["bytes"].sum()))
    assert scene.poster == most
    note = scene.stills[most].note.split(":")[0]
    assert repr(show.exchange(report)).lower().startswith(note)
    arriving = int(scene.stills[most].values["bytes"].sum())
    assert scene.title == f"{arriving:,} bytes, {note.replace(', ', ': ', 1)}"


def test_two_exchanges_can_share_a_scale_of_colours() -> None:
    report = programs.uneven()
    own, shared = show.exchange(report).scene, show.exchange(report, largest=100_000).scene
    names = [code.name for code in shared.codes if code.name.startswith("up to")]
    assert names[-1] == "up to 100,000 bytes" and names != [
        code.name for code in own.codes if code.name.startswith("up to")
    ]
    least = show.exchange(report, largest=1).scene  # less than the most that is drawn
    assert [c.name for c in least.codes] == [c.name for c in own.codes]
    for wrong in (0, -4, 2.5, "80"):
        with pytest.raises(InvalidOptionError, match="was given largest="):
            show.exchange(report, largest=wrong)  # type: ignore[arg-type]


def test_a_picture_that_rests_elsewhere_has_the_title_of_that_place() -> None:
    report = programs.uneven()
    for at in ("everywhere", 0):
        exchange = show.exchange(report, at=at).scene
        rest = exchange.stills[int(exchange.frames[exchange.poster])]
        note = rest.note.split(":")[0].replace(", ", ": ", 1)
        assert exchange.title == f"{int(rest.values['bytes'].sum()):,} bytes, {note}"
    scene = show.bsp(report, at="exchange").scene
    still = scene.stills[int(scene.frames[scene.poster])]
    assert scene.title.lower().startswith(still.label.lower())
    assert "bytes arrive" in scene.title
    for view_ in (show.bsp, show.balance, show.timeline):  # another place than by default
        usual, chosen = view_(report).scene, view_(report, at=4).scene
        still = chosen.stills[int(chosen.frames[chosen.poster])]
        assert chosen.poster != usual.poster and chosen.title != usual.title
        assert still.label.lower() in chosen.title.lower()
    live = show.liveness(report, at="everywhere").scene
    assert live.title.startswith("In step 3, Execute everywhere, ")
    assert f", {by_hand(report)[0][2]:,} bytes are live" in live.title


PATTERNS = {
    "one pair": [(0, 4)],
    "one to many": [(3, t) for t in range(9) if t != 3],
    "many to one": [(t, 3) for t in range(9) if t != 3],
    "neighbours": [(t, t + d) for t in range(9) for d in (-1, 1) if 0 <= t + d < 9],
    "shift": [(t, t + 5) for t in range(8)],
    "all to all": [(s, t) for s in range(6) for t in range(6) if s != t],
    "ring": [(t, (t + 16) % 64) for t in range(64)],
    "one to one": [(t, (7 * t + 3) % 40) for t in range(40) if t != (7 * t + 3) % 40],
    "fan-out": [(t // 2, t) for t in range(2, 12)],
    "fan-in": [(t, t // 2) for t in range(2, 12)],
    "many to many": [(t, (m * t + 3) % 40) for t in range(40) for m in (7, 11)],
}
CLOCKWISE = [32, 0, 48, 16]  # by IPU: the first tile of the next one
# What else has the name, and what is said of it.
LIKEWISE = [
    ("ring", 64, lambda t: [(t + 1) % 64], "send to the tile 1 further on, all round"),
    ("ring", 64, lambda t: [(t + 32) % 64], "send to the tile 32 further on, all round"),
    ("ring", 64, lambda t: [(t - 1) % 64, (t + 1) % 64], "to the tiles next to them, all round"),
    ("neighbours", 64, lambda t: [t - 1 if t else 63, (t + 1) % 63], "except for 4 pairs"),
    ("neighbours", 64, lambda t: [d for d in (t - 8, t + 8) if 0 <= d < 64], "the tiles 8 away"),
    (
        "neighbours",
        64,
        lambda t: [d for d in (t - 16, t + 16) if 0 <= d < 64],
        "to the tiles at the same places on the IPUs next to theirs",
    ),
    (
        "shift",
        64,
        lambda t: [t + 16] if t < 48 else [],
        "to the tile at the same place on the next IPU",
    ),
    (
        "shift",
        64,
        lambda t: [t - 16] if t > 15 else [],
        "to the tile at the same place on the previous IPU",
    ),
    (
        "shift",
        64,
        lambda t: [t - 32] if t > 31 else [],
        "to the tile at the same place 2 IPUs further back",
    ),
    ("ring over IPUs 0, 1, 2, 3", 64, lambda t: [(t + 16) % 64], "each IPU sends to the next one"),
    (
        "ring over IPUs 0, 2, 3, 1",
        64,
        lambda t: [CLOCKWISE[t // 16] + t % 16],
        "each IPU sends to the next one",
    ),
    (
        "ring over IPUs 0, 2, 3, 1, both ways",
        64,
        lambda t: [CLOCKWISE[t // 16] + 3, 16 * CLOCKWISE.index(t // 16 * 16) + 5],
        "each IPU sends to both its neighbours",
    ),
    ("all to all", 5, lambda t: {*range(5)} - {t}, "each of 5 tiles sends to all others"),
    # Patterns that a rule fits only nearly claim nothing.
    (
        "many to many",
        13,
        lambda t: [10, 11] if t == 12 else {*range(12)} - {t},
        "13 tiles send to 12 tiles, each to 2 to 11 of them",
    ),
    ("many to many", 6, lambda t: {*range(6)} - {t, 5 - t}, "each to 4 of them"),
    ("many to many", 9, lambda t: [t - 1 if t % 2 else t + 1, 0], "each to 1 or 2 of them"),
    ("one to one", 8, lambda t: [t + 1] if t % 2 == 0 else [t - 1] if t == 5 else [], "from two"),
]


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_has_a_name(name: str) -> None:
    source, to = np.array(PATTERNS[name]).T
    assert pattern(source, to)[0] == name
    # several messages between two tiles are one pair
    assert pattern(np.repeat(source, 2), np.repeat(to, 2))[0] == name


@pytest.mark.parametrize(("name", "tiles", "hear", "words"), LIKEWISE)
def test_patterns_that_go_round_or_have_an_odd_message(
    name: str, tiles: int, hear: Any, words: str
) -> None:
    source, to = np.array([(t, h) for t in range(tiles) for h in hear(t)]).T
    found = pattern(source, to, 16 if "IPU" in name + words else 0)
    assert found[0] == name and found[1].endswith(words), found


def sent_to_many() -> Report:
    """Tile 0 sends 20 bytes to five tiles, and tile 1 sends 20 to tile 2."""
    device = IPUModel("ipu2", tiles_per_ipu=6).create_device()
    graph = Graph(device)
    a = graph.add_variable(FLOAT, (2, 5), "a")
    b = graph.add_variable(FLOAT, (6,), "b")
    graph.set_initial_value(a, 1.0)
    for t in range(2):
        graph.set_tile_mapping(a[t], t)
    compute_set = graph.add_compute_set("all")
    for t in range(6):
        graph.set_tile_mapping(b[t], t)
        read = concat([a[0], a[1]]) if t == 2 else a[0]
        vertex = graph.add_vertex(compute_set, programs.Total, values=read, out=b[t])
        graph.set_tile_mapping(vertex, t)
    return run(graph, Execute(compute_set))


def test_messages_are_told_beside_the_pairs_of_tiles() -> None:
    # what three others hear is one message, and what the next one hears besides another
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph = Graph(device)
    a, b = graph.add_variable(FLOAT, (4, 2), "a"), graph.add_variable(FLOAT, (4,), "b")
    graph.set_initial_value(a, 1.0)
    compute_set = graph.add_compute_set("all")
    for t in range(4):
        own = concat([a[:, 0], a[(t + 1) % 4, 1:2]])
        vertex = graph.add_vertex(compute_set, programs.Total, values=own, out=b[t])
        for part in (a[t], b[t], vertex):
            graph.set_tile_mapping(part, t)
    note = show.exchange(run(graph, Execute(compute_set))).scene.stills[0].note
    assert (
        "64 bytes arrive from 8 messages (32 bytes together, some to several tiles), between 12 pairs of "
        "tiles; most are sent by 4 tiles, 16 each, and received by 4 tiles, 16 each;"
    ) in note


def test_all_figures_of_an_exchange_count_the_bytes_that_arrive() -> None:
    scene = show.exchange(sent_to_many()).scene
    still = scene.stills[scene.poster]
    table = np.asarray(still.values["bytes"]).reshape(6, 6)
    delivered, received = (np.asarray(bar.length) for bar in scene.drawings[0].bars)
    assert delivered.tolist() == table.sum(axis=0).tolist() == [100, 20, 0, 0, 0, 0]
    assert received.tolist() == table.sum(axis=1).tolist() == [0, 20, 40, 20, 20, 20]
    assert (
        "120 bytes arrive from 2 messages (40 bytes together, some to several tiles)" in still.note
    )
    assert "most are sent by tile 0, 100, and received by tile 2, 40;" in still.note
    words = [s.text for s in paint(scene, scene.poster) if isinstance(s, Words)]
    assert words.count("20 out") == 5  # of tile 0, whose bar is their sum


def test_the_partners_are_those_of_the_busiest_tile() -> None:
    report = programs.uneven()
    scene = show.exchange(report).scene
    frame = next(f for f, s in enumerate(scene.stills) if "everywhere" in s.label)
    words = [s.text for s in paint(scene, frame) if isinstance(s, Words)]
    assert "bytes between tile 0 and others" in words
    assert words.count("256 out") == 12
    arrows = [s for s in paint(scene, frame) if isinstance(s, Stroke) and s.arrow]
    assert len(arrows) == 12
    chip = show.exchange(programs.uneven(tiles=1472, rows=2944)).scene
    words = [s.text for s in paint(chip, len(chip.frames) - 1) if isinstance(s, Words)]
    assert "and 51 others" in words and "0 to 22" in words


def ring_of(ipus: int, tiles: int) -> Report:
    """Every tile sends to the same one of the next IPU, and that to the next one of its own."""
    device = IPUModel("ipu2", num_ipus=ipus, tiles_per_ipu=tiles).create_device()
    graph, count = Graph(device), ipus * tiles
    a, b, c = (graph.add_variable(FLOAT, (count,), name) for name in "abc")
    graph.set_initial_value(a, 1.0)
    for t in range(count):
        graph.set_tile_mapping(a[t], t)
        other = (t + tiles) % count
        graph.set_tile_mapping(b[t], other)
        graph.set_tile_mapping(c[t], other - other % tiles + (other + 1) % tiles)
    engine = Engine(graph, Sequence(Copy(a, b), Copy(b, c)))
    engine.load(device)
    engine.run()
    return engine.report


@pytest.mark.parametrize(("ipus", "tiles"), [(4, 16), (3, 101), (1, 13)])
def test_what_goes_over_links_is_drawn_and_said(ipus: int, tiles: int) -> None:
    scene = show.exchange(ring_of(ipus, tiles)).scene
    matrix = scene.marks[0]
    assert isinstance(matrix, Matrix) and (ipus == 1 or tiles % matrix.each == 0)
    for frame, still in enumerate(scene.stills):
        shapes = [*paint(scene, frame)]
        rims = [s.points.tolist() for s in shapes if isinstance(s, Outline) and len(s.points) == 5]
        pipes = [s for s in shapes if isinstance(s, Outline) and len(s.points) == 2]
        names = [s.text for s in shapes if isinstance(s, Words) and s.x < matrix.x]
        if ipus == 1:
            assert not rims and not pipes and " over links" not in still.note
            continue
        block = matrix.width / ipus
        over = [[k, (k + 1) % ipus] for k in range(ipus)] if frame == 0 else []
        assert sorted([x, y] for (x, y), *_ in rims) == [
            [pytest.approx(matrix.x + s * block), pytest.approx(matrix.y + to * block)]
            for s, to in over
        ]
        assert len(pipes) == (2 if over else 0)  # of the tile in the middle: one in, one out
        assert (", all over links between IPUs;" in still.note) == bool(over)
        assert names == [f"IPU {k}" for k in range(ipus)]
        told = [s.text for s in shapes if isinstance(s, Words) and s.x > matrix.x + 300]
        assert "of IPU 0 and others" in told[0]
        if over:  # its partners are of the IPUs before and after
            assert {f"IPU {ipus - 1}", "IPU 1"} <= {*told}


@pytest.mark.parametrize("tiles", [5, 13, 64, 1472])
def test_arrows_between_partners_leave_their_labels_free(tiles: int) -> None:
    scene = show.exchange(programs.uneven(tiles=tiles, rows=2 * tiles)).scene
    for frame in range(len(scene.frames)):
        shapes = [*paint(scene, frame)]
        words = [s for s in shapes if isinstance(s, Words) and s.x > scene.marks[0].x + 300]
        for arrow in (s for s in shapes if isinstance(s, Stroke) and s.arrow):
            (x, y), (u, v) = arrow.points
            for part in np.linspace(0, 1, 101):
                across, down = x + part * (u - x), y + part * (v - y)
                for said in words:
                    wide = 0.52 * said.size * len(said.text)
                    left = said.x - wide * {"start": 0, "middle": 0.5, "end": 1}[said.anchor]
                    assert not (left < across < left + wide and said.y - 8 < down < said.y), said


def test_who_sends_most_is_one_or_several() -> None:
    notes = {s.label.split(",")[0]: s.note for s in show.exchange(programs.uneven()).scene.stills}
    assert notes["Execute everywhere"] == (
        "one to many, tile 0 sends to 12 tiles: 3,072 bytes arrive from 1 message of 256 bytes to "
        "several tiles; most are sent by tile 0, 3,072, and received by 12 tiles, 256 each; tile 12 "
        "is the slowest"
    )


def test_many_exchanges_are_cut() -> None:
    graph, a, b = two_variables()
    scene = show.exchange(
        run(graph, Sequence(*(Copy(a[: 1 + i % 8], b[: 1 + i % 8]) for i in range(50))))
    ).scene
    assert len(scene.frames) == 40
    assert "The picture shows the 40 of 50 exchanges in which most bytes arrive." in scene.notes


# --- balance --------------------------------------------------------------------------------------


def waiting_of(report: Report) -> float:
    """The share of the tiles' time that is waiting, step by step."""
    lost = 0.0
    for number in report.step_numbers.tolist():
        lost += sum(
            float((p.cycles - p.busy).mean()) for p in report.phases(number) if p.busy is not None
        )
    return lost / report.total_cycles


@pytest.mark.parametrize("tiles", [13, 64, 1472])
def test_the_balance_is_the_reports(tiles: int) -> None:
    report = programs.some_wait(tiles)
    made = show.balance(report)
    scene, [still] = made.scene, made.scene.stills
    share = waiting_of(report)
    assert f"{100 * share:.1f} % of their time is waiting" in repr(made) and share > 0.5
    phases = report.phases(int(report.step_numbers[0]))
    worst = next(p for p in phases if p.kind == "compute")
    assert worst.busy is not None
    with_work = (tiles + 2) // 3
    first, *ties = [t for t, busy in enumerate(worst.busy.tolist()) if busy == worst.cycles]
    who = f"tile {first} takes "
    if ties:
        named = [first, *ties] if len(ties) < 4 else [first, ties[0]]
        rest = f"{len(ties) - 1} others" if len(ties) >= 4 else named.pop()
        who = f"tiles {', '.join(map(str, named))} and {rest} take "
    assert still.note == (
        f"{100 * share:.1f} % of the tiles' time in this superstep is waiting, most in compute: "
        f"{who}{int(worst.cycles):,}, the median tile 0; tile {first} executes Total (on "
        f"{with_work:,} of {tiles:,} tiles); at the mean of all tiles it would take "
        f"{round(report.total_cycles * (1 - share)):,} instead of {report.total_cycles:,.0f}"
    )
    tape = scene.marks[0]
    assert isinstance(tape, Tape)
    if tiles == 1472:  # drawn as one box under all, and the bars over it
        boxes = [
            s
            for s in paint(scene, 0)
            if isinstance(s, Boxes) and tape.y <= s.boxes[0, 1] < tape.y + tape.height
        ]
        names = [scene.codes[s.code].name for s in boxes]
        area = {
            n: sum(
                float((s.boxes[:, 2] * s.boxes[:, 3]).sum())
                for s, m in zip(boxes, names, strict=True)
                if m == n
            )
            for n in names
        }
        whole = tape.width * tape.height
        assert 1 - (area["sync"] + area["exchange"] + area["compute"]) / whole == pytest.approx(
            share, abs=0.003
        )
    waits = still.about["tiles of run"][1]["waits"]
    assert waits.mean() == pytest.approx(share * report.total_cycles, abs=1)
    code = np.broadcast_to(still.cells["tiles of run"][0], tiles)
    letters = [scene.codes[c].letter for c in code.tolist()]
    fifths = [f"{max(1, int(np.ceil(5 * w / report.total_cycles - 1e-9)))}" for w in waits.tolist()]
    for tile in (first, *ties):  # those for which the others wait
        fifths[tile] = "!"
    assert letters == fifths
    last = who.partition(" take")[0]
    assert scene.title.endswith(f"waiting, all of it for {last} in Execute some work")
    histogram = still.about["histogram"][1]["n"]
    assert histogram.sum() == tiles and histogram[-1] >= 1


def test_two_balances_share_one_axis() -> None:
    first, second = programs.uneven(repeats=2), programs.uneven(rows=39, repeats=4)
    made = show.balance(first, second)
    tapes = [m for m in made.scene.marks if isinstance(m, Tape)]
    assert [t.span for t in tapes] == [second.total_cycles] * 2
    for report in (first, second):
        assert f"{100 * waiting_of(report):.1f} % of their time is waiting" in repr(made)
    lost = [float(row["waiting"].split()[0]) for row in made.data]
    assert lost[int(made.scene.frames[made.scene.poster])] > 0


def test_the_title_names_a_superstep_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, a, b = two_variables()
    program = Sequence()
    for name, cycles in (("short", 100), ("middle", 200), ("long", 50_000)):
        compute_set = graph.add_compute_set(name)
        vertex = graph.add_vertex(compute_set, programs.Total, values=a[:4], out=b[7])
        graph.set_tile_mapping(vertex, 0)
        graph.set_perf_estimate(vertex, cycles)
        program.add(Execute(compute_set))
    report = run(graph, program)
    monkeypatch.setattr(sys.modules["ipu_teach.show.balance"], "MOST_STEPS", 2)
    made = show.balance(report)
    assert "in superstep 3, Execute long" in made.scene.title
    assert "middle" in made.scene.stills[int(made.scene.frames[made.scene.poster])].label


def test_balanced_work_is_said() -> None:
    graph, a, b = two_variables()
    compute_set = graph.add_compute_set("even")
    for tile, (values, out) in enumerate(((a[:4], a[7]), (b[:4], b[7]))):
        graph.set_tile_mapping(
            graph.add_vertex(compute_set, programs.Total, values=values, out=out), tile
        )
    graph.set_initial_value(b, 0.0)
    report = run(graph, Execute(compute_set))
    assert show.balance(report).scene.stills[0].note == "no tile waits for another"
    assert "0.0 % of their time is waiting" in repr(show.balance(report))


# --- the contract ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", (*NAMES, "exchange", "balance"))
def test_a_view_is_a_picture_a_table_and_a_player(name: str) -> None:
    made = view(name, programs.uneven())
    found = Tags(made._repr_html_())
    [image] = found.tags["img"]
    assert image["alt"] == repr(made) and str(image["src"]).startswith("data:image/svg+xml,<svg ")
    assert "Show as table" in found.texts and len(found.tags["tr"]) == min(24, len(made.data)) + 1
    [script] = found.tags["script"]
    assert not script and "http" not in made._repr_html_().replace(SVG, "")
    assert "id" not in {key for tags in found.tags.values() for tag in tags for key in tag}
    text = repr(made)
    assert "0x" not in text and "\n" not in text and len(re.findall(r"\d", text)) >= 3
    assert "modelled" in text


@pytest.mark.parametrize(
    "name",
    ["</script><script>alert(1)</script>", "\"quoted\" & 'so'", "😀\n\x00", "long " * 2_000, ""],
)
def test_any_name_is_text(name: str) -> None:
    report = programs.uneven(name=name)
    for made in (
        *(view(n, report) for n in (*NAMES, "exchange", "balance")),
        show.liveness(report, report),
    ):
        page = made._repr_html_()
        assert len(Tags(page).tags["script"]) == 1 and len(page) < 80_000
        assert "<script>alert" not in page and "<script>" not in svg(made.scene)


def hashes() -> list[str]:
    report, branching = programs.uneven(), programs.branching()[0]
    made = [view(n, r) for n in NAMES for r in (report, branching)] + [
        show.liveness(report, branching),
        show.exchange(report),
        show.balance(report),
    ]
    return [hashlib.sha256((v._repr_html_() + repr(v)).encode()).hexdigest() for v in made]


def test_the_same_bytes_in_another_process() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\nfrom test_more_views import hashes\nprint(*hashes())"
    there = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert there.stdout.split() == hashes()


def test_sizes() -> None:
    small, large = programs.uneven(), programs.uneven(tiles=1472, rows=2944, repeats=100)
    for name in (*NAMES, "exchange", "balance"):
        assert len(view(name, small)._repr_html_()) <= 33_000, name
        assert len(view(name, large)._repr_html_()) <= 150_000, name


# What matplotlib paints for png goes into pdf and gif too, whatever the view.
@pytest.mark.parametrize(
    ("ending", "name"),
    [
        *product(["html", "svg", "png"], (*NAMES, "exchange", "balance")),
        *product(["pdf", "gif"], ["exchange"]),
    ],
)
def test_save(name: str, ending: str, tmp_path: Path) -> None:
    made = view(name, programs.uneven(tiles=3, rows=3, repeats=1))
    first = made.save(tmp_path / f"a.{ending}").read_bytes()
    assert first[:5] in (b"<!doc", b"<svg ", b"\x89PNG\r", b"%PDF-", b"GIF89")
    if ending != "gif":
        assert made.save(tmp_path / f"b.{ending}").read_bytes() == first


@pytest.mark.parametrize("repeats", [3, 200])
def test_the_lanes_of_the_timeline_have_the_shares_of_the_run(repeats: int) -> None:
    """However short the pieces are: bar by bar, or as a raster where there are many."""
    report = programs.uneven(tiles=64, rows=128, repeats=repeats)
    scene = replace(show.timeline(report).scene, data={})  # the whole of it
    tape = scene.marks[1]
    assert isinstance(tape, Tape)
    truth: dict[str, float] = {}
    for number in report.step_numbers.tolist():
        for phase in report.phases(number):
            busy = phase.cycles if phase.busy is None else float(phase.busy.mean())
            truth[phase.kind] = truth.get(phase.kind, 0.0) + busy / report.total_cycles
            truth["waiting"] = (
                truth.get("waiting", 0.0) + (phase.cycles - busy) / report.total_cycles
            )
    [raster] = [s for s in paint(scene, 0) if isinstance(s, Raster) and s.y == tape.y]
    drawn = {
        scene.codes[c].name: float((raster.codes == c).mean())
        for c in np.unique(raster.codes).tolist()
    }
    assert drawn == pytest.approx(truth, abs=0.004)


def test_all_tiles_equal_is_said() -> None:
    notes = [still.note for still in show.timeline(programs.uneven()).scene.stills]
    assert any("; all tiles compute equally long; " in note for note in notes)
    assert any("tile 0 computes longest" in note for note in notes)  # the sums of uneven rows


def test_names_are_whole_enough_or_left_out() -> None:
    """A box of 20 equal rounds has no room for its name, and no letter of it."""
    shapes = paint(show.timeline(programs.uneven(repeats=20)).scene, 0)
    words = [s.text for s in shapes if isinstance(s, Words)]
    assert "Repeat 20" in words and not any(len(w) < 5 and w.endswith("…") for w in words)


def test_captions_are_whole() -> None:
    report = programs.uneven(tiles=1472, rows=2944)
    scene = show.bsp(report).scene
    said = " ".join(s.text for s in caption(scene, scene.poster) if isinstance(s, Words))
    assert scene.stills[int(scene.frames[scene.poster])].note in said


def test_words_can_be_read_on_everything_and_no_two_parts_look_alike() -> None:
    codes = [*palette.MEMORY.values(), palette.VARIABLES, palette.COMING, palette.GAPS]
    for code in (*codes, *palette.FILL, palette.STEADY, palette.FIRST, palette.SECOND):
        for colour in (code.light, code.dark):
            assert contrast(palette.ink_on(colour), colour) >= 4.5, code.name
    assert len({(c.light, c.pattern) for c in codes}) == len({c.name for c in codes}) == len(codes)
    assert (
        len({c.letter for c in palette.FILL})
        == len({c.light for c in palette.FILL})
        == len(palette.FILL)
    )


# --- bad input ------------------------------------------------------------------------------------


def without_time() -> Report:
    """Of a compute set without a vertex, on a machine whose sync takes no time."""
    device = IPUModel("ipu2", tiles_per_ipu=2, auto_sync_delay=0).create_device()
    graph = Graph(device.target)
    engine = Engine(graph, Execute(graph.add_compute_set("nothing")))
    engine.load(device)
    engine.run()
    return engine.report


def test_errors() -> None:
    empty = Engine(
        Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target), Sequence()
    ).report
    calls: dict[str, Callable[..., View]] = {name: getattr(show, name) for name in NAMES}
    for name, call in calls.items():
        for wrong in (7, None, "report"):
            assert option_error(lambda call=call, wrong=wrong: call(wrong)) == (
                f"show.{name}() was given {wrong!r}, which is not a report.\n  next:  give it "
                "engine.report."
            )
    assert option_error(lambda: show.liveness(programs.uneven(), 7)) == (  # type: ignore[arg-type]
        "show.liveness() was given 7, which is not a report.\n  next:  give it engine.report."
    )
    assert (
        option_error(lambda: show.exchange(7))
        == "show.exchange() was given 7, which is not a report.\n  next:  give it engine.report."
    )  # type: ignore[arg-type]
    graph, a, _ = two_variables()
    assert option_error(lambda: show.exchange(run(graph, Copy(a[:4], a[4:])))) == (
        "show.exchange() was given a run in which no tile sends data to another tile.\n  next:  "
        "run a program whose vertices read elements of other tiles; show.tiles(tensor) shows "
        "the tile of each element."
    )
    assert option_error(lambda: show.balance(programs.uneven(), 7)) == (  # type: ignore[arg-type]
        "show.balance() was given 7, which is not a report.\n  next:  give it engine.report."
    )
    assert option_error(lambda: show.timeline(empty)) == (
        "show.timeline() was given a report in which nothing has run.\n  next:  engine.run(), then "
        "engine.report."
    )
    for view in (show.balance, show.bsp, show.timeline):
        assert option_error(partial(view, without_time())) == (
            f"show.{view.__name__}() was given a run that takes no modelled time.\n  next:  run a "
            "program that copies or computes."
        )
    assert option_error(lambda: show.liveness(without_time(), axis="cycles")) == (
        "show.liveness() was given a run that takes no modelled time.\n  next:  run a program that "
        "copies or computes."
    )
    assert option_error(lambda: show.liveness(programs.uneven(), axis="cycle")) == (
        'show.liveness() was given axis=\'cycle\', which is neither "steps" nor "cycles".\n'
        '  next:  did you mean \'cycles\'? Give "steps" or "cycles".'
    )
    assert option_error(lambda: show.liveness(empty)) == (
        "show.liveness() was given a report whose programs have no step.\n"
        "  next:  compile a program that copies or executes something."
    )
    with pytest.raises(InvalidOptionError):
        show.memory(None)  # type: ignore[arg-type]


def test_a_report_from_a_file_is_drawn_the_same(tmp_path: Path) -> None:
    for report in (programs.uneven(), programs.branching()[0]):
        report.save(tmp_path / "a.report")
        again = Report.open(tmp_path / "a.report")
        for name in NAMES:
            assert view(name, again)._repr_html_() == view(name, report)._repr_html_(), name
