"""The views: their numbers are the report's, their messages the transfers', and their bytes the
same every time."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from pages import SVG, Tags, contrast, option_error

from bench import browser
from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, show
from ipu_teach.errors import InvalidOptionError, NotHereImportError
from ipu_teach.poplibs import poputil
from ipu_teach.program import Copy, Sequence
from ipu_teach.show import palette
from ipu_teach.show.measures import GAP
from ipu_teach.show.pack import pack
from ipu_teach.show.paint import cell_codes, headline_height, paint
from ipu_teach.show.png import indexed_png
from ipu_teach.show.scene import Cells, Flame, Lanes, Scene, Still, Tape, Track, quantiles
from ipu_teach.show.shapes import Boxes, Raster, Stroke, Words
from ipu_teach.show.svg import dashed, raster_png, svg
from ipu_teach.show.tiles import bytes_by_tile
from ipu_teach.show.view import View, compressed, own_script, player
from ipu_teach.types import Array
from tests.browser import programs
from tests.four_programs import pipeline, product
from tests.unpacking import unpack

ROOT = Path(__file__).resolve().parents[1]
NODE = shutil.which("node")
ENV = dict(os.environ)

# --- numbers as text ------------------------------------------------------------------------------

INTEGERS = st.integers(-(2**40), 2**40)


@given(
    st.one_of(
        st.lists(INTEGERS),
        st.lists(st.integers(0, 3)),
        st.builds(lambda some, n: some * n, st.lists(INTEGERS), st.integers(1, 30)),
        st.builds(range, st.integers(-9, 9), st.integers(0, 99)),
    )
)
def test_what_is_packed_can_be_unpacked(values: list[int]) -> None:
    assert unpack(pack(np.array(values, np.int64)), len(values)).tolist() == list(values)


def test_pack_takes_the_shortest_form() -> None:
    assert pack(np.full(1000, 7)) == 7
    assert pack(np.repeat([3, 4], 500)) == "3*500,4*500"
    assert pack(np.arange(0, 4000, 4)) == "d0,4*999"
    assert pack(np.tile(np.arange(16), 13)) == "d0,12(1*15,-15,)1*15"
    rng = np.random.default_rng(0)
    noise = rng.integers(1000, 2024, 1472)
    packed = pack(noise)
    assert isinstance(packed, str) and packed.startswith("b") and len(packed) <= 1472 * 10 / 6 + 20
    assert pack(np.zeros(0, np.int64)) == ""


def test_the_player_unpacks_what_python_packed() -> None:
    rng = np.random.default_rng(1)
    cases = [
        rng.integers(-(2**30), 2**45, 50),
        np.arange(9) * 3,
        np.array([5, 5, 5, 2]),
        rng.integers(0, 2, 99),
        np.full(3, 8),
        np.tile([9, 5, 5, 7], 8),
        np.tile(np.arange(16), 13),
    ]
    source = player().split("function inkOn")[0]
    script = f"{source};console.log(JSON.stringify({json.dumps([[pack(c), len(c)] for c in cases])}.map(([t,n])=>[...unpack(t,n)])))"
    if not NODE:
        pytest.skip("node is missing; the browser tests cover the same")
    node = subprocess.run([NODE, "-e", script], capture_output=True, text=True, check=True)
    assert json.loads(node.stdout) == [c.tolist() for c in cases]


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (128, 160), (700, 701)])
def test_a_png_holds_one_pixel_a_value(shape: tuple[int, int]) -> None:
    import io

    from matplotlib.image import imread

    codes = np.random.default_rng(2).integers(0, 3, shape)
    colours = ["#000000", "#ff8000", "#ffffff"]
    pixels = imread(io.BytesIO(indexed_png(codes, colours)), format="png")[:, :, :3]
    expected = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours])[codes] / 255
    assert np.allclose(pixels, expected, atol=1e-6)


# --- colours --------------------------------------------------------------------------------------


def test_words_can_be_read_on_everything() -> None:
    for theme in (palette.LIGHT, palette.DARK):
        assert (
            contrast(theme["ink"], theme["paper"]) > 7
            and contrast(theme["soft"], theme["paper"]) > 4.5
        )
    for code in (*show.bsp(programs.uneven()).scene.codes, *palette.HUES):
        for colour in (code.light, code.dark):
            assert contrast(palette.ink_on(colour), colour) >= 4.5, code.name


def test_no_two_meanings_share_a_letter_or_both_colour_and_pattern() -> None:
    codes = [c for c in show.bsp(programs.uneven()).scene.codes if c.letter]
    assert len({c.letter for c in codes}) == len(codes)
    assert len({(c.light, c.pattern) for c in codes}) == len(codes) == len({c.light for c in codes})
    blocks = show.timeline(programs.branching()[0], blocks=0).scene
    nested = {blocks.codes[c] for c in blocks.mark("blocks").code.tolist()}  # type: ignore[union-attr]
    assert nested and not {c.light for c in nested} & {c.light for c in palette.STATES}
    assert len({c.light for c in palette.NESTED} | {c.light for c in palette.STATES}) == 14


def test_the_player_has_the_inks_of_the_palette() -> None:
    source = player()
    for theme in (palette.LIGHT, palette.DARK):
        assert ",".join(f'{name}:"{colour}"' for name, colour in theme.items()) in source


# --- the view of a run ----------------------------------------------------------------------------


def frames_of(report: Report) -> list[tuple[str, float]]:
    """(kind, cycles) of every phase of the run, from the report."""
    return [(p.kind, p.cycles) for n in report.step_numbers.tolist() for p in report.phases(n)]


@pytest.mark.parametrize("tiles", [1, 2, 13, 1472])
def test_frames_are_the_phases_of_the_run(tiles: int) -> None:
    report = programs.uneven(tiles=tiles, rows=2 * tiles)
    scene = show.bsp(report).scene
    stills = [scene.stills[i] for i in scene.frames.tolist()]
    assert [(s.label.split(":")[0], s.cycles) for s in stills] == frames_of(report)
    assert sum(s.cycles for s in stills) == pytest.approx(report.total_cycles)
    assert sum(s.first for s in stills) == len(report.step_numbers)
    repeats = len(scene.frames) / len(scene.stills)
    assert repeats > 1  # what repeats is stored once


def test_the_channels_are_the_reports_arrays() -> None:
    report = programs.uneven()
    scene = show.bsp(report).scene
    step = next(n for n in report.step_numbers.tolist() if report.step_cost(n).name == "everywhere")
    cost = report.step_cost(step)
    compute = next(s for s in scene.stills if s.label == "compute: everywhere")
    exchange = next(s for s in scene.stills if s.label == "exchange: everywhere")
    assert compute.values["busy"].tolist() == cost.compute_cycles.tolist()
    assert exchange.values["received"].tolist() == cost.exchange[0].received.tolist()
    assert exchange.values["sent"].tolist() == cost.exchange[0].sent.tolist()
    [message] = exchange.flows["messages"]  # the vector goes from tile 0 to all others: sent once
    assert (message.source, message.size, message.receivers.tolist()) == (
        0,
        256,
        list(range(1, 13)),
    )


def test_the_sentence_names_total_shares_and_the_slowest_tile() -> None:
    report = programs.uneven()
    text = repr(show.bsp(report))
    assert text.startswith(
        f"A run of 7 supersteps on 13 tiles, {report.total_cycles:,} modelled cycles: "
    )
    compute = sum(c for k, c in frames_of(report) if k == "compute")
    assert f"compute {100 * compute / report.total_cycles:.1f} %" in text
    assert "0x" not in text and "\n" not in text


def test_the_table_says_every_step() -> None:
    report = programs.uneven()
    rows = {row["name"]: row for row in show.bsp(report).data}
    assert rows["total"]["runs"] == "3"
    profile = next(c for c in report.compute_sets if c.name == "total")
    assert rows["total"]["compute cycles"] == f"{profile.cost.compute_duration:,}"
    assert rows["total"]["slowest tile"] == f"{int(profile.cycles_per_tile.argmax())}"


def arrows_of(scene: Scene, still: Still) -> list[tuple[int, int, list[int]]]:
    """(from, bytes, to) of every message that a still draws."""
    return [(m.source, m.size, m.receivers.tolist()) for m in still.flows["messages"]]


def scattered(tiles: int) -> Report:
    """An element goes from every tile to another."""
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device.target)
    a, b = graph.add_variable(FLOAT, (tiles,), "a"), graph.add_variable(FLOAT, (tiles,), "b")
    for i in range(tiles):
        graph.set_tile_mapping(a[i], i)
        graph.set_tile_mapping(b[i], (i * 7 + 3) % tiles)
    graph.set_initial_value(a, 0.0)
    engine = Engine(graph, Sequence(Copy(a, b)))
    engine.load(device)
    engine.run()
    return engine.report


@pytest.mark.parametrize("tiles", [13, 64, 400])
def test_an_arrow_is_a_message_that_was_sent(tiles: int) -> None:
    report = scattered(tiles)
    scene = show.bsp(report).scene
    still = next(s for s in scene.stills if s.flows)
    compiled = report.transfers(int(report.step_numbers[0]))[0]
    sent = list(
        zip(
            compiled.source.tolist(),
            compiled.size.tolist(),
            [r.tolist() for r in compiled.receivers],
            strict=True,
        )
    )
    drawn = arrows_of(scene, still)
    if tiles < 400:
        assert sorted(drawn) == sorted(sent)
        return
    slowest = int(np.argmax(report.phases(int(report.step_numbers[0]))[1].busy))  # type: ignore[arg-type]
    assert sorted(drawn) == sorted(m for m in sent if m[0] == slowest or slowest in m[2])
    assert f"{len(sent):,} messages; drawn are {len(drawn)} of tile {slowest}; " in still.note


@pytest.mark.parametrize("tiles", [13, 64])
def test_heads_of_arrows_are_outside_tiles_and_numbers_above_them(tiles: int) -> None:
    scene = show.bsp(scattered(tiles), at="exchange").scene
    cells = scene.marks[0]
    assert isinstance(cells, Cells)
    shapes = list(paint(scene, scene.poster))
    lines = [i for i, s in enumerate(shapes) if isinstance(s, Stroke) and s.arrow]
    names = [i for i, s in enumerate(shapes) if isinstance(s, Words) and isinstance(s.ink, int)]
    assert lines and max(lines) < min(names)
    x, y = cells.place(np.arange(tiles))
    side = cells.side * 0.94
    for line in (shapes[i] for i in lines):
        u, v = line.points[-1]  # type: ignore[union-attr]
        assert not ((x < u) & (u < x + side) & (y < v) & (v < y + side)).any()


def test_an_exchange_is_seen_while_all_that_take_part_are_at_it() -> None:
    scene = show.bsp(scattered(13), at="exchange").scene
    still = scene.stills[int(scene.frames[scene.poster])]
    assert still.flows
    assert 0 < still.at < 1
    cells = scene.marks[0]
    assert isinstance(cells, Cells)
    names = [scene.codes[c].name for c in cell_codes(cells, still, still.at).tolist()]
    taking = {m.source for m in still.flows["messages"]} | {
        int(t) for m in still.flows["messages"] for t in m.receivers
    }
    assert {i for i, name in enumerate(names) if name == "exchange"} == taking
    exchange = scene.stills.index(still)
    assert all(s.at == 1 for s in scene.stills if not s.flows)
    assert svg(scene, int(np.flatnonzero(scene.frames == exchange)[0])).count("marker-end") == len(
        still.flows["messages"]
    )


def test_a_picture_rests_where_its_question_is_answered_or_where_one_asks() -> None:
    report = programs.uneven()
    steps = report.steps()

    def rest(view: View) -> tuple[int, str]:
        """The superstep at which it rests, and the words of that frame."""
        scene = view.scene
        stills = [scene.stills[i] for i in scene.frames[: scene.poster + 1].tolist()]
        return sum(still.first for still in stills) - 1, stills[-1].label

    phases = [(k, p) for k, s in enumerate(steps) for p in report.phases(s.step)]
    waits = [
        (int((p.cycles - p.busy).sum()), p.kind == "compute", p.cycles, -k, p.kind)
        for k, p in phases
        if p.busy is not None and p.kind in ("compute", "exchange")
    ]
    *_, first, kind = max(waits)
    label = f"{kind}: {steps[-first].name}"
    place, shown = rest(show.bsp(report))
    assert place == -first and label.startswith(shown.removesuffix("…"))
    assert rest(show.bsp(report, at=4)) == (4, f"compute: {steps[4].name}")
    place = next(k for k, step in enumerate(steps) if step.name == "everywhere")
    assert rest(show.bsp(report, at="everywhere"))[0] == place
    exchange = max((p.cycles, -k) for k, p in phases if p.kind == "exchange")
    assert rest(show.bsp(report, at="exchange"))[0] == -exchange[1]
    assert rest(show.balance(report, at=5))[0] == 5
    assert rest(show.timeline(report, at=2)) == (2, f"Execute {steps[2].name}")
    assert rest(show.timeline(report, at="everywhere"))[0] == place
    # frames of these are exchanges and steps of programs: each is there once, however often it runs
    assert "everywhere" in rest(show.exchange(report, at=4))[1]
    for at in (place, place + 2, "everywhere"):
        assert rest(show.liveness(report, at=at))[1] == "Execute everywhere"
    ran = product()  # from the host, dots, to the host
    assert rest(show.run(ran.recording, at="dots")) == (1, "compute: Execute dots")
    assert rest(show.run(ran.recording, at=2))[0] == 2
    with pytest.raises(InvalidOptionError, match="from 0 on, or the name of a step[.]"):
        show.liveness(report, at="compute")
    wrong = [lambda: show.bsp(report, at=7), lambda: show.bsp(report, at=-1)]
    wrong.append(lambda: show.bsp(report, at=[1]))  # type: ignore[arg-type]
    for call, text in zip(wrong, ("7", "-1", "[1]"), strict=True):
        assert option_error(call) == (
            f"show.bsp() was given at={text}, which the picture does not show.\n  next:  give the "
            'number of a superstep, from 0 on, the name of a step, or a kind of phase, say "exchange".'
        )
    assert "did you mean 'everywhere'? " in option_error(
        lambda: show.balance(report, at="evrywhere")
    )
    for name in ("bsp", "timeline", "liveness"):
        assert option_error(partial(getattr(show, name), report, report, at=1)) == (
            f"show.{name}() was given at= and two runs, but at= selects a superstep of a single run.\n"
            "  next:  leave out at=, or give one run."
        )


def test_one_message_to_many_says_to_how_many() -> None:
    scene = show.bsp(programs.uneven()).scene
    assert next(s for s in scene.stills if s.label == "exchange: everywhere").note.startswith(
        "3,072 bytes arrive; 1 message, heard by 12 tiles; "
    )


# --- shares ---------------------------------------------------------------------------------------

EVERY = [13, 64, 1472]


def waiting_in_words(still: Still) -> float:
    found = re.search(r"([\d.]+) % of the tiles' time in this phase is waiting", still.note)
    return float(found[1]) / 100 if found else 0.0


def waiting_drawn(
    boxes: list[tuple[int, Array]], wait: int, lanes: Lanes, left: float, right: float
) -> float:
    """The share of lanes from `left` to `right` that has a code which is drawn under all others."""
    under = [
        b
        for code, parts in boxes
        for b in parts
        if code == wait and b[0] < right - 0.01 and b[0] + b[2] > left + 0.01
    ]
    if not under:
        return 0.0
    found = np.concatenate([parts for code, parts in boxes if code != wait])
    wide = np.minimum(found[:, 0] + found[:, 2], right) - np.maximum(found[:, 0], left)
    # a box is as high as its lanes, without their rims
    covered = np.round(found[:, 3] / (lanes.height / lanes.count)).clip(1)
    return 1 - float((np.clip(wide, 0, None) * covered).sum() / ((right - left) * lanes.count))


@pytest.mark.parametrize("tiles", EVERY)
def test_lanes_have_the_shares_that_the_words_say(tiles: int) -> None:
    """Of every phase, the part of the lanes that waits is the part of the tiles' time that does."""
    scene = show.bsp(programs.some_wait(tiles)).scene
    lanes, wait = scene.mark("lanes"), [c.name for c in scene.codes].index("waiting")
    assert isinstance(lanes, Lanes) and lanes.count == min(64, tiles)
    waits = []
    for frame, number in enumerate(scene.frames.tolist()):
        still = scene.stills[number]
        drawing, start, stop = still.lanes["lanes"]
        scale = lanes.width / scene.drawings[drawing].span
        shapes = [s for s in paint(scene, frame, is_whole=True) if isinstance(s, Boxes)]
        inside = [
            (s.boxes[:, 0] >= lanes.x)
            & (s.boxes[:, 1] >= lanes.y - 0.5)
            & (s.boxes[:, 1] < lanes.y + lanes.height)
            for s in shapes
        ]
        boxes = [(s.code, s.boxes[at]) for s, at in zip(shapes, inside, strict=True)]
        left, right = lanes.x + start * scale, lanes.x + stop * scale
        share = waiting_drawn(boxes, wait, lanes, left, right)
        assert share == pytest.approx(waiting_in_words(still), abs=0.003)
        waits.append(share)
    assert max(waits) > 0.6


@pytest.mark.parametrize("tiles", EVERY)
@pytest.mark.parametrize("name", ["bsp", "timeline"])
def test_a_png_has_the_shares_that_the_words_say(tiles: int, name: str, tmp_path: Path) -> None:
    from matplotlib.image import imread

    view = getattr(show, name)(programs.some_wait(tiles))
    scene = view.scene
    frame = len(scene.frames) - 1
    phase = programs.the_wait(scene, name)
    pixels = imread(view.save(tmp_path / "a.png", frame=frame, width=1440))[:, :, :3]
    pixels = pixels[round(2 * headline_height(scene)) :]  # below the title
    assert programs.waiting_seen(pixels, scene, phase, 2.0) == pytest.approx(
        phase.waiting, abs=0.02
    )


@pytest.mark.parametrize("repeats", [3, 400])
def test_the_strip_of_a_run_has_the_shares_of_its_phases(repeats: int) -> None:
    report = programs.uneven(repeats=repeats)
    total: dict[str, float] = defaultdict(float)
    for kind, cycles in frames_of(report):
        total[kind] += cycles / report.total_cycles
    for scene in (show.bsp(report).scene, show.timeline(report).scene):
        track = next(m for m in scene.marks if isinstance(m, Track))
        if len(frames_of(report)) <= 64:
            boxes = [
                s for s in paint(scene, 0) if isinstance(s, Boxes) and s.boxes[0, 1] == track.y
            ]
            drawn = {scene.codes[b.code].name: b.boxes[:, 2].sum() / track.width for b in boxes}
        else:
            strip = [
                s
                for s in paint(scene, 0)
                if isinstance(s, Boxes) and len(s.boxes) and track.y <= s.boxes[0, 1] < track.bottom
            ]
            area = track.width * track.height
            drawn = defaultdict(float)
            for one in strip:
                name = scene.codes[one.code].name
                drawn[name] += float((one.boxes[:, 2] * one.boxes[:, 3]).sum()) / area
        assert drawn == pytest.approx(dict(total), abs=0.002)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=200), st.integers(1, 70))
def test_means_keep_the_sum(values: list[int], count: int) -> None:
    found = quantiles(np.array(values), count)
    assert abs(found.sum() * len(values) / count - sum(values)) <= len(values) / count
    assert np.all(np.diff(found) <= 2)


def test_two_runs_share_one_axis() -> None:
    first, second = programs.uneven(repeats=2), programs.uneven(rows=39, repeats=4)
    view = show.bsp(first, second)
    tapes = [m for m in view.scene.marks if isinstance(m, Tape)]
    assert [t.span for t in tapes] == [second.total_cycles] * 2 and len(
        {(t.x, t.width) for t in tapes}
    ) == 1
    shapes = [s for s in paint(view.scene, 0) if isinstance(s, Boxes)]
    for tape, report in zip(tapes, (first, second), strict=True):
        boxes = np.concatenate([s.boxes for s in shapes])
        inside = boxes[(boxes[:, 1] >= tape.y) & (boxes[:, 1] < tape.y + tape.height)]
        reach = (inside[:, 0] + inside[:, 2]).max() - tape.x
        assert reach == pytest.approx(
            tape.width * report.total_cycles / second.total_cycles, abs=0.01
        )
    part = 100 * (second.total_cycles / first.total_cycles - 1)
    assert repr(view).endswith(f"The second takes {part:.1f} % more cycles than the first.")
    assert {row["report"] for row in view.data} == {"first report", "second report"}


@pytest.mark.parametrize(("tiles", "repeats"), [(13, 1), (13, 40), (70, 2)])
def test_lanes_of_two_runs_stand_in_pairs(tiles: int, repeats: int) -> None:
    """What is drawn in lane 2k is tile k of one run, in lane 2k + 1 tile k of the other, as when
    they stand apart."""
    both = programs.uneven(tiles, 2 * tiles, repeats), programs.uneven(tiles, 3 * tiles, repeats)
    apart, paired = show.bsp(*both).scene, show.bsp(*both, paired=True).scene
    spent = [drawn_in_lanes(scene) for scene in (apart, paired)]
    lanes = min(64, tiles)
    assert len(spent[0][0]) == lanes and len(spent[1][0]) == 2 * lanes
    for which in range(2):
        for k in range(lanes):
            one, other = spent[0][which][k], spent[1][which][2 * k + which]
            assert other == pytest.approx(one, abs=0.5) and not spent[1][which][2 * k + 1 - which]
    first, second = (m for m in paired.marks if isinstance(m, Tape))
    assert (first.x, first.y, first.height) == (second.x, second.y, second.height) and first.labels[
        :3
    ] == ("0 a", "0 b", "1 a")
    say, values = paired.stills[-1].about["first report"]
    busy = [p.busy for p in both[1].phases(int(both[1].step_numbers[-1])) if p.kind == "compute"][0]
    expected = quantiles(busy, lanes) if tiles > lanes else busy
    assert values["busy"][1::2].tolist() == expected.tolist() and set(
        values["busy"][::2].tolist()
    ) == {-1}
    assert say.startswith("lane {label}: " if tiles > lanes else "tile {label}: ")
    spent_by = [
        {(s.kind, s.name): s.cycles for s in sorted(report.steps(), key=lambda s: s.name)}
        for report in both
    ]
    more = {
        name: repeats_of(name, both[0]) * (spent_by[1][name] - c) for name, c in spent_by[0].items()
    }
    most = " ".join(max(more, key=lambda name: abs(more[name])))
    assert apart.table == paired.table
    assert paired.sentence.startswith(f"{apart.sentence} {most} differs most: ")
    rests = paired.stills[int(paired.frames[paired.poster])]
    assert rests.label == f"second report: {most}" and paired.notes[0] in paired.sentence
    above = [s for s in paint(paired, 0) if isinstance(s, Words) and s.y < first.y and s.text]
    words = [s.text for s in above if s.ink == "ink"]
    assert repeats > 1 or words == [s.name for report in both for s in report.steps()]


def repeats_of(name: tuple[str, str], report: Report) -> int:
    return sum((step.kind, step.name) == name for step in report.steps())


def drawn_in_lanes(scene: Scene) -> list[list[dict[int, float]]]:
    """By tape and lane, how wide each code is drawn, of all boxes and rasters."""
    found = []
    for tape in [m for m in scene.marks if isinstance(m, Tape)]:
        alone = replace(scene, marks=(tape,))
        pitch, spent = (
            tape.height / tape.count,
            [defaultdict[int, float](float) for _ in range(tape.count)],
        )
        for shape in paint(alone, 0):
            if isinstance(shape, Raster):
                high = shape.height / len(shape.codes)
                for row, codes in enumerate(shape.codes):
                    for code in codes.tolist():
                        lane = round((shape.y + row * high - tape.y) / pitch)
                        spent[lane][code] += shape.width / len(codes)
            for _, y, wide, high in shape.boxes.tolist() if isinstance(shape, Boxes) else ():
                for lane in range(round((y - tape.y) / pitch), round((y + high - tape.y) / pitch)):
                    spent[lane][shape.code] += wide  # type: ignore[union-attr]
        found.append([dict(lane) for lane in spent])
    return found


def test_rasters_have_the_colours_of_both_themes() -> None:
    scene = show.bsp(programs.some_wait(1472)).scene
    light, dark = (raster_png(np.array([[0, 1, -1]]), scene.codes, dark) for dark in (False, True))
    assert (
        bytes.fromhex(scene.codes[1].light[1:]) in light
        and bytes.fromhex(palette.LIGHT["paper"][1:]) in light
    )
    assert (
        bytes.fromhex(scene.codes[1].dark[1:]) in dark
        and bytes.fromhex(palette.DARK["paper"][1:]) in dark
    )
    text = svg(scene)
    assert text.count('<image class="w"') == text.count('<image class="d"') == 1
    assert ".d{display:inline}.w{display:none}" in text


def test_the_host_has_a_lane_where_it_takes_part() -> None:
    scene = show.bsp(programs.uneven()).scene
    host, codes = scene.mark("host"), [c.name for c in scene.codes]
    assert isinstance(host, Lanes) and host.labels == ("host",)
    spent = [
        sum(float(b.length) for b in scene.drawings[s.lanes["host"][0]].bars)
        for s in scene.stills
        if s.first
    ]
    assert [c > 0 for c in spent] == [True, False, False]
    assert all(b.code == codes.index("host exchange") for d in scene.drawings[1::2] for b in d.bars)
    assert "host" not in {getattr(m, "name", "") for m in show.bsp(scattered(13)).scene.marks}


def test_a_run_keeps_its_name() -> None:
    report = programs.uneven(called="training")
    assert (
        show.bsp(report).scene.title
        == "training: Most waiting: tiles 4 and 5 make 11 others wait up to 314 cycles in superstep "
        "1, the exchange of 'rows'"
    )
    assert show.program(report).data[0]["part"] == "training: Sequence"
    flame = show.timeline(report).scene.marks[0]
    assert isinstance(flame, Flame) and flame.names[0] == "training: Sequence"


def test_a_long_run_is_cut_and_says_so() -> None:
    view = show.bsp(programs.uneven(tiles=2, rows=2, repeats=2_000))
    assert len(view.scene.frames) <= 3_000
    assert (
        view.scene.notes[0].startswith("The picture shows the first ")
        and "of 4,001 supersteps" in view.scene.notes[0]
    )
    assert view.scene.notes[0] in view._repr_html_().replace("&#x27;", "'")


def test_many_ipus_are_drawn_several_tiles_to_a_cell() -> None:
    device = IPUModel("ipu2", num_ipus=4).create_device()
    graph = Graph(device.target)
    a, b = graph.add_variable(FLOAT, (5888,), "a"), graph.add_variable(FLOAT, (5888,), "b")
    graph.set_tile_mapping(a, 0)
    for i in range(5888):
        graph.set_tile_mapping(b[i], i)
    graph.set_initial_value(a, 0.0)
    engine = Engine(graph, Sequence(Copy(a, b)))
    engine.load(device)
    engine.run()
    scene = show.bsp(engine.report).scene
    cells = scene.marks[0]
    assert (
        isinstance(cells, Cells)
        and cells.count == 2944
        and any("up to 2 tiles" in note for note in scene.notes)
    )
    cost = engine.report.step_cost(int(engine.report.step_numbers[0]))
    exchange = next(s for s in scene.stills if s.values.keys() >= {"received"})
    assert exchange.values["received"].sum() == cost.exchange[0].total
    assert (
        exchange.values["received"][5]
        == cost.exchange[0].received[10] + cost.exchange[0].received[11]
    )


def test_sizes() -> None:
    assert browser.kilobytes(show.bsp(programs.uneven())) <= 30
    # 200 supersteps, 8 of them distinct, on the whole chip
    assert browser.kilobytes(browser.whole_chip()) <= 150
    # without the script, which is the same for every run: data, poster and table
    view = show.run(product().recording)
    script = base64.b64encode(compressed("run"))
    assert len(view.html()) - len(script) <= 15_000


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 7), st.integers(1, 12)), min_size=1),
    st.booleans(),
)
def test_boxes_in_a_row_are_dashes(rows: list[tuple[int, int, int]], upright: bool) -> None:
    """What the dashes of each line cover, against the boxes."""
    boxes = np.array(
        [
            [x + 1.37 * n * k, 3 * row, 0.9 * n, 2]
            for row, (x, n, many) in enumerate(rows)
            for k in range(many)
        ]
    )
    boxes = boxes[:, [1, 0, 3, 2]] if upright else boxes
    found = []
    for dash, lines in dashed(Boxes(0, boxes, upright=upright)).items():
        on, off = map(float, re.findall(r"[\d.]+", dash)) if dash else (np.inf, 0.0)
        for line in lines:
            at, long, along = 0.0, line[2 + upright], int(upright)
            while at < long - 0.3:
                one = line.copy()
                one[along], one[2 + along] = line[along] + at, min(on, long - at)
                found.append(one)
                at += on + off
    assert len(found) == len(boxes)
    key = [1 - int(upright), int(upright)]
    found.sort(key=lambda box: [box[k] for k in key])
    np.testing.assert_allclose(found, boxes, atol=0.3)


STATIC = ROOT / "ipu_teach" / "show" / "static"


def test_scripts_travel_as_their_sources_compressed() -> None:
    """What `make_scripts.py` would make anew is nothing, and what travels is the sources without
    their comments."""
    made = subprocess.run(
        [sys.executable, STATIC / "make_scripts.py", "--check"], capture_output=True, text=True
    )
    assert (made.returncode, made.stdout) == (0, ""), "python ipu_teach/show/static/make_scripts.py"
    code, measures = {}, (STATIC / "measures.js").read_text(encoding="utf-8")
    numbers = dict(re.findall(r"^  ([A-Z_]+) = ([\d.]+)[,;]$", measures, re.MULTILINE))
    for path in STATIC.glob("*.js"):
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        lines = [line for line in lines if line and not line.startswith("//")]
        assert len("\n".join(lines).encode()) <= (27_000 if path.stem == "player" else 10_000), (
            path.name
        )
        text = "\n".join(re.sub(r"  // .*", "", line) for line in lines)
        if path.stem == "measures":  # its numbers travel where they are used
            text = text[text.index("const INKS") :]
        else:
            for name, number in numbers.items():
                text = re.sub(rf"(?<![.\w]){name}(?![\w:])", number, text)
        code[path.stem] = words_of(text)
    shared = code.pop("measures") + code.pop("layout") + code.pop("link") + code.pop("player")
    assert words_of(player()) == shared
    stored = code.pop("stored")
    assert all(
        words_of(own_script(name)) == stored + code.pop(name) for name in ("widget", "puzzle")
    )
    assert own_script("tiles") == ""
    shared_by = {
        "tree": ("program", "code", "turns", "tile"),
        "content": ("bsp", "exchange"),
        "messages": ("run",),
        "board": ("run",),
        "range": ("timeline",),
    }
    for also, views in {
        **shared_by,
        "tape": ("bsp", "balance"),
        "flows": ("bsp", "run"),
        "painted": ("machine", "memory", "balance"),
    }.items():
        part = code[also] if also == "painted" else code.pop(also)
        for view in views:
            code[view] = part + code[view]
    for view, lines in code.items():
        assert words_of(gzip.decompress(compressed(view)).decode("utf-8")) == shared + lines


def words_of(script: str) -> str:
    """What is left of a script without spaces."""
    return "".join(script.split())


def test_scripts_lose_comments_and_spaces_and_no_text() -> None:
    spec = importlib.util.spec_from_file_location("make_scripts", STATIC / "make_scripts.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for text, short in (
        ("let a = { b: 1 };  // one , two", "let a={b:1};"),
        ('  say("a , b", c - 1);\n\n  // a `word`\n', 'say("a , b",c - 1);'),
        (
            "const t = `a , ${x ? `b , c` : { d: 1 } } = e`;",
            "const t=`a , ${x?`b , c`:{d:1}} = e`;",
        ),
        (
            "s.replace(/[/ ,] = (\\w+)/g, (_, w) => w / 2 / c)",
            "s.replace(/[/ ,] = (\\w+)/g,(_,w)=>w / 2 / c)",
        ),
        ("`one ,\n  two`\n+ ++ b", "`one ,\n  two`\n+ ++ b"),
        ("a = { b: /^( |c)$/ , d: e + f + +g % h }", "a={b:/^( |c)$/,d:e+f + +g%h}"),
    ):
        assert module.squeezed(text) == short


# --- the view of tiles ----------------------------------------------------------------------------


def test_every_element_shows_its_tile() -> None:
    matrix = programs.by_rows()
    view = show.tiles(matrix, matrix.transpose())
    first, second = view.scene.marks[:2]
    assert isinstance(first, Cells) and isinstance(second, Cells)
    assert first.values["tile"].reshape(8, 12).tolist() == [[row // 2] * 12 for row in range(8)]
    assert (
        second.values["tile"].reshape(12, 8).T.tolist()
        == first.values["tile"].reshape(8, 12).tolist()
    )
    assert first.same is not None and second.same is not None
    assert second.same.reshape(12, 8).T.tolist() == first.same.reshape(8, 12).tolist()
    assert repr(view).endswith("384 bytes on 4 tiles, 96 each")


@pytest.mark.parametrize(
    ("tiles", "ipus", "shape", "headings"),
    [
        (13, 1, (8, 8), ("x, 8 x 8 FLOAT", "13 tiles", "bytes, tile by tile")),
        (
            64,
            1,
            (8, 8),
            (
                "x, 8 x 8 FLOAT",
                "64 tiles; each colour is 8 tiles, odd ones shaded",
                "bytes, tile by tile",
            ),
        ),
        (
            128,
            2,
            (256, 200),
            (
                "x, 256 x 200 FLOAT; a square is 4 x 4 elements",
                "128 tiles on 2 IPUs; each colour is 16 tiles",
                "bytes of a tile, fullest first; a lane is 2 tiles",
            ),
        ),
    ],
)
def test_headings_say_what_a_square_a_colour_and_a_lane_are(
    tiles: int, ipus: int, shape: tuple[int, ...], headings: tuple[str, ...]
) -> None:
    device = IPUModel("ipu2", tiles_per_ipu=tiles // ipus, num_ipus=ipus).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, shape, "x")
    poputil.map_tensor_linearly(graph, x)
    scene = show.tiles(x).scene
    cells, squares, lanes = scene.marks
    assert (cells.heading, squares.heading, lanes.heading) == headings
    # counted: elements of the largest square, tiles of the largest colour, tiles of a lane
    assert isinstance(cells, Cells) and isinstance(lanes, Lanes)
    rows, columns = (len(np.unique(cells.values[name])) for name in ("i0", "i1"))
    per_square = (-(-shape[0] // rows), -(-shape[1] // columns))
    said = re.search(r"square is (\d+) x (\d+)", cells.heading)
    assert per_square == (tuple(map(int, said.groups())) if said else (1, 1))
    colours, per_colour = palette.of_tiles(tiles)
    said = re.search(r"colour is (\d+)", squares.heading)
    assert per_colour == -(-tiles // len(colours)) == (int(said[1]) if said else 1)
    said = re.search(r"lane is (\d+)", lanes.heading)
    assert tiles / lanes.count == (int(said[1]) if said else 1)


def test_a_tensor_of_all_replicas_is_not_named_after_the_first() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=2, num_ipus=4).create_device()
    graph = Graph(device, replication_factor=4)
    x = graph.add_variable(FLOAT, (8,), "x")
    graph.set_tile_mapping(x, 0)
    graph.set_initial_value(x, 1.0)
    y = graph.add_variable(FLOAT, (8,), "y")
    graph.set_tile_mapping(y, 0)
    engine = Engine(graph, Copy(x, y))
    recording = engine.record(x, y)
    engine.load_and_run(device)
    view = show.tiles(recording.tracks[0].tensor)
    assert view.scene.title == (
        "x of 4 replicas is on 4 of 8 tiles, 32 bytes each; each row is on a tile of its own"
    )


def test_bytes_are_counted_once_however_often_they_are_shown() -> None:
    matrix = programs.by_rows()
    both = bytes_by_tile([matrix, matrix.transpose(), matrix[3]])
    assert both.tolist() == [96, 96, 96, 96] + [0] * 9


def test_unmapped_elements_are_said() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device().target)
    loose = graph.add_variable(FLOAT, (5,), "loose")
    view = show.tiles(loose)
    cells = view.scene.marks[0]
    assert isinstance(cells, Cells) and cells.labels == ("?",) * 5
    assert repr(view) == "Where loose lives: loose, 5 FLOAT; none of it is on a tile yet"


def test_views_are_named_as_they_were_passed() -> None:
    matrix = programs.by_rows()
    named = {
        "matrix": matrix,
        "matrix.transpose()": matrix.transpose(),
        "matrix[3]": matrix[3],
        "matrix[2:4]": matrix[2:4],
        "matrix.reshape((4, 24))": matrix.reshape((4, 24)),
        "a view of matrix": matrix[:, 1:3],
    }
    for name, tensor in named.items():
        assert show.tiles(tensor).scene.title.startswith(f"{name} is on ")


@pytest.mark.parametrize("tiles", [7, 13, 64, 1472])
def test_no_two_tiles_look_alike_but_neighbours(tiles: int) -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=tiles).create_device().target)
    tensor = graph.add_variable(FLOAT, (tiles,), "tensor")
    for tile in range(tiles):
        graph.set_tile_mapping(tensor[tile], tile)
    scene = show.tiles(tensor).scene
    code = scene.stills[0].cells["tiles"][0]
    looks = [
        (scene.codes[c].light, scene.codes[c].pattern)
        for c in np.broadcast_to(code, tiles).tolist()
    ]
    if tiles <= 14:
        assert len(set(looks)) == tiles and scene.legend == []
        for is_dark in (False, True):  # small cells have no pattern
            assert len({scene.codes[c].colour(is_dark) for c in set(code.tolist())}) == tiles
    else:  # ranges of neighbours, each named in the legend; odd tiles have a shade of the colour
        ranges = sum("tiles " in scene.codes[c].name for c in scene.legend if c > 2)
        ways = [looks] if tiles > 64 else [looks[::2], looks[1::2]]
        for way in ways:
            runs = sum(a != b for a, b in zip(way, way[1:], strict=False)) + 1
            assert runs == len(set(way)) == ranges
        assert len(set(looks)) == ranges * len(ways)
    sizes = np.broadcast_to(scene.drawings[0].bars[0].length, 64 if tiles > 64 else tiles)
    assert sizes.mean() == pytest.approx(4)


@pytest.mark.parametrize(
    "shape", [(), (1,), (7,), (4097,), (3, 4, 5), (200, 300), (1, 100_000), (10_000, 1_000)]
)
def test_any_shape_is_drawn(shape: tuple[int, ...]) -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device().target)
    tensor = graph.add_variable(FLOAT, shape, "tensor")
    graph.set_tile_mapping(tensor, 3)
    view = show.tiles(tensor)
    cells = view.scene.marks[0]
    assert (
        isinstance(cells, Cells)
        and 1 <= cells.count <= 64 * 64
        and set(cells.values["tile"].tolist()) == {3}
    )
    assert (tensor.num_elements > cells.count) == bool(view.scene.notes)
    lanes = view.scene.marks[-1]
    assert isinstance(lanes, Lanes) and len(view._repr_html_()) < 150_000


# Of each shape: which dimension is the channels, which two a sheet, and how many are side by side.
SHEETS = {
    (2, 6, 6, 3): (3, (1, 2), 3),  # pictures, their colours last
    (2, 4, 6, 5): (1, (2, 3), 4),
    (6, 5, 7): (0, (1, 2), 3),  # in two rows there is more room
    (4, 3, 3, 3): (1, (2, 3), 3),  # kernels: the last is not a smaller than the one before
    (5, 9, 8, 1): (3, (1, 2), 5),  # of one channel the pictures stand side by side
}


@pytest.mark.parametrize("shape", SHEETS)
def test_three_and_four_dimensions_are_sheets_side_by_side(shape: tuple[int, ...]) -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device().target)
    tensor = graph.add_variable(FLOAT, shape, "image")
    for tile, part in enumerate(tensor.flatten()[i::13] for i in range(13)):
        graph.set_tile_mapping(part, tile)
    cells = show.tiles(tensor).scene.marks[0]
    channels, (down, across), beside = SHEETS[shape]
    assert isinstance(cells, Cells) and cells.across == beside
    x, y = cells.place(np.arange(cells.count))
    index = [cells.values[f"i{axis}"] for axis in range(len(shape))]
    flat = np.ravel_multi_index(index, shape)
    assert sorted(flat.tolist()) == [*range(tensor.num_elements)]
    assert (cells.values["tile"] == flat % 13).all()
    # within a sheet a step of either dimension is a cell; to the next channel it is a sheet
    rest = [np.array(i) for a, i in enumerate(index) if a not in (down, across)]
    for at in {*zip(*(i.tolist() for i in rest), strict=True)}:
        own = np.logical_and.reduce([i == k for i, k in zip(rest, at, strict=True)])
        left, top = x[own] - cells.side * index[across][own], y[own] - cells.side * index[down][own]
        assert np.ptp(left) < 1e-6 and np.ptp(top) < 1e-6
        if channels >= 0 and shape[channels] > 1:
            place = at[[a for a in range(len(shape)) if a not in (down, across)].index(channels)]
            wide = cells.side * (shape[across] + GAP)
            assert (
                left[0] == pytest.approx(16 + place % beside * wide)
                and f"{shape[down]} x" in cells.heading
            )


def test_the_legend_has_what_is_used_and_no_more() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=64).create_device().target)
    tensor = graph.add_variable(FLOAT, (16,), "tensor")
    for tile in range(16):
        graph.set_tile_mapping(tensor[tile], tile)
    scene = show.tiles(tensor).scene
    assert [scene.codes[c].name for c in scene.legend] == [
        "tiles without any of it",
        "tiles 0 to 7",
        "tiles 8 to 15",
    ]
    # one line, which takes most, and two of six workers
    scene = show.tile(product().report, 0).scene
    named = {scene.codes[c].name for c in scene.legend}
    assert "line" not in named and named >= {"line that takes most", "Dot"}
    # and several IPUs have each its name, and each copy round the ring
    ran = pipeline()
    graph = Graph(IPUModel("ipu2", num_ipus=4, tiles_per_ipu=16).create_device().target)
    tensor = graph.add_variable(FLOAT, (4,), "tensor")
    assert show.tiles(tensor).scene.mark("bytes").ends == (
        *(("IPU 0", 0.125), ("IPU 1", 0.375)),
        *(("IPU 2", 0.625), ("IPU 3", 0.875)),
    )
    tree = show.program(ran.report).scene.mark("tree")
    assert {f"Copy {k} of 3" for k in (1, 2, 3)} <= {text.split(":")[0] for text in tree.labels}


# --- the contract ---------------------------------------------------------------------------------


def views() -> list[View]:
    matrix = programs.by_rows()
    return [show.bsp(programs.uneven()), show.tiles(matrix), show.tiles(matrix, matrix.transpose())]


@pytest.mark.parametrize("which", range(3))
def test_a_view_is_a_picture_a_table_and_a_player(which: int) -> None:
    view = views()[which]
    found = Tags(view._repr_html_())
    [image] = found.tags["img"]
    assert image["alt"] == repr(view) and str(image["src"]).startswith("data:image/svg+xml,<svg ")
    assert "Show as table" in found.texts and len(found.tags["tr"]) == len(view.data) + 1
    [script] = found.tags["script"]
    assert not script  # no src: nothing is fetched
    assert "id" not in {name for tags in found.tags.values() for tag in tags for name in tag}
    assert "http" not in view._repr_html_().replace(SVG, "")


@pytest.mark.parametrize(
    "name",
    ["</script><script>alert(1)</script>", "\"quoted\" & 'so'", "😀\n\x00", "long " * 2_000, ""],
)
def test_any_name_is_text(name: str) -> None:
    for view in (show.bsp(programs.uneven(name=name)), show.tiles(programs.by_rows(name))):
        page = view._repr_html_()
        assert len(Tags(page).tags["script"]) == 1 and len(page) < 60_000
        assert "<script>alert" not in page
        assert "<script>" not in svg(view.scene)


def hashes() -> list[str]:
    return [hashlib.sha256(v._repr_html_().encode()).hexdigest() for v in views()]


def test_the_same_bytes_in_another_process() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\nfrom test_views import hashes\nprint(*hashes())"
    here = hashes()
    for seed in ("0", "1"):
        there = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            env={**ENV, "PYTHONHASHSEED": seed},
        )
        assert there.stdout.split() == here


@pytest.mark.parametrize("ending", ["html", "svg", "png", "pdf", "gif"])
def test_save(ending: str, tmp_path: Path) -> None:
    view = show.tiles(programs.by_rows())
    first = view.save(tmp_path / f"a.{ending}")
    assert first.read_bytes()[:5] in (b"<!doc", b"<svg ", b"\x89PNG\r", b"%PDF-", b"GIF89")
    assert view.save(tmp_path / f"b.{ending}").read_bytes() == first.read_bytes()


def test_a_gif_begins_with_the_poster_and_then_moves(tmp_path: Path) -> None:
    from PIL import Image

    view = show.bsp(programs.uneven(tiles=2, rows=2, repeats=1))
    with Image.open(view.save(tmp_path / "run.png", width=720)) as still:
        poster = np.asarray(still.convert("RGB"), dtype=float)
    differences, times = [], []
    with Image.open(view.save(tmp_path / "run.gif")) as picture:
        assert getattr(picture, "n_frames", 1) > 8
        for number in (0, 1):
            picture.seek(number)
            pixels = np.asarray(picture.convert("RGB"), dtype=float)
            differences.append(np.abs(pixels - poster).mean())
            times.append(picture.info["duration"])
    assert differences[0] < 1 < 4 < differences[1], differences
    assert times[0] >= 1000 > 5 * times[1]


@pytest.mark.parametrize(
    "name", sorted(path.name for path in (ROOT / "docs" / "gallery").glob("*.svg"))
)
def test_the_gallery_is_what_its_script_makes(name: str) -> None:
    folder = ROOT / "docs" / "gallery"
    spec = importlib.util.spec_from_file_location("make_gallery", folder / "make_gallery.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert svg(module.VIEWS[name]().scene) == (folder / name).read_text(encoding="utf-8")
    assert name in module.VIEWS
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert f"]({name})" in page
    for alt, target in re.findall(r"!\[(.*?)\]\((.*?)\)", page):
        assert len(alt) > 20 and (folder / target).is_file()


def test_the_readme_opens_with_a_run_that_moves() -> None:
    """One picture for light pages and one for dark ones: five seconds, at most 400 pixels high."""
    from PIL import Image, ImageSequence

    text = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## ")[0]
    (picture,) = re.findall(r"(?s)<picture>.*</picture>", text)
    (alt,), (height,) = re.findall('alt="(.*?)"', picture), re.findall('height="(.*?)"', picture)
    assert len(alt) > 60 and int(height) <= 400
    targets = re.findall(r'="(\S+\.gif)"', picture)
    assert ["dark" in target for target in targets] == [True, False]
    for target in targets:
        assert (ROOT / target).stat().st_size < 500_000
        with Image.open(ROOT / target) as image:
            durations = [frame.info["duration"] for frame in ImageSequence.Iterator(image)]
            assert image.width == 720 and len(durations) > 20 and sum(durations) <= 5_000


# --- bad input ------------------------------------------------------------------------------------


def test_errors() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device().target)
    empty = graph.add_variable(FLOAT, (0,), "empty")
    view = show.tiles(programs.by_rows())
    engine = Engine(graph, Sequence())
    engine.load(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    assert (
        option_error(lambda: show.bsp(7))
        == "show.bsp() was given 7, which is not a report.\n  next:  give it engine.report."
    )  # type: ignore[arg-type]
    assert option_error(lambda: show.bsp(engine.report)) == (
        "show.bsp() was given a report in which nothing has run.\n  next:  engine.run(), then "
        "engine.report."
    )
    assert option_error(lambda: show.tiles("a")) == (  # type: ignore[arg-type]
        "show.tiles() was given 'a', which is not a tensor.\n  next:  give it a variable of a graph, "
        "or a view of one."
    )
    assert "which has no elements.\n  next:  give a tensor that has elements." in option_error(
        lambda: show.tiles(empty)
    )
    assert option_error(lambda: show.tiles(programs.by_rows(), programs.by_rows())) == (
        "show.tiles() was given tensors of two graphs.\n  next:  show them in two pictures."
    )
    for others in ((), (programs.uneven(tiles=2, rows=2),)):
        assert option_error(
            lambda others=others: show.bsp(programs.uneven(), *others, paired=True)
        ) == (
            "show.bsp() was given paired=True, but no second run on the same number of tiles.\n"
            "  next:  give two such runs, show.bsp(first, second, paired=True), or leave out "
            "paired=True."
        )
    assert option_error(lambda: view.save("a.doc")) == (
        "save() was given 'a.doc', whose ending is not a format.\n  next:  End it with one of "
        ".html, .svg, .png, .pdf, .gif."
    )
    assert (
        option_error(lambda: view.save("a.svg", frame=3))
        == "save() was given frame=3, which is not a frame of this picture.\n"
        "  next:  give a whole number from 0 to 0."
    )
    for wrong in (99, 1.5, True, "wide"):
        assert option_error(lambda wrong=wrong: view.save("a.png", width=wrong)).endswith(
            ".\n  next:  give a whole number of pixels from 100 to 10,000."
        )
    assert option_error(lambda: show.explore(lambda: view)) == (
        "explore() was given no setting, so it has no slider to show.\n"
        "  next:  give a parameter of the function with its range: "
        "explore(build, work=(1, 10))."
    )
    for wrong in ((3, 3), (1,), [1], "abc", 5, (1, 2, 0), (1, 2, 3, 4), ("a", "b")):
        assert option_error(lambda wrong=wrong: show.explore(lambda n: view, n=wrong)).endswith(
            "next:  give (lowest, highest), (lowest, highest, step), or a list of at least two "
            "choices."
        )
    assert option_error(lambda: show.explore(lambda n: n, n=(1, 2))) == (  # type: ignore[arg-type,return-value]
        "The function that explore() calls returned 1, which is not a view.\n"
        "  next:  return a view from it, such as show.bsp(engine.report)."
    )


def test_explore_shows_the_first_setting_and_says_what_moves() -> None:
    seen = []

    def build(rows: int, kind: str) -> View:
        seen.append((rows, kind))
        return show.tiles(programs.by_rows())

    made = show.explore(build, rows=(4, 8, 2), kind=["a", "b"])
    # the first setting, and the other ends of both, whose findings are told
    assert seen == [(4, "a"), (8, "a"), (4, "b")]
    title = made.view.scene.title
    settings = ("rows = 4", "rows = 8", "kind = a", "kind = b")
    ends = "; ".join(f"with {setting}: {title}" for setting in settings)
    assert f"W{ends[1:]}." in repr(made) and f"W{ends[1:]}." in unescape(made.html())
    assert repr(made).endswith("Where a kernel runs, sliders change rows (4 to 8), kind (a, b).")


def test_a_slider_begins_where_the_function_does() -> None:
    seen = []

    def build(rows: int = 6, kind: str = "b", other: int = 1) -> View:
        seen.append((rows, kind, other))
        return show.tiles(programs.by_rows())

    show.explore(build, rows=(4, 8, 2), kind=["a", "b"])
    assert seen == [(6, "b", 1), (4, "b", 1), (8, "b", 1), (6, "a", 1)]
    assert option_error(lambda: show.explore(build, rows=(10, 20))) == (
        "explore() was given (10, 20) for the setting 'rows', which does not contain the default "
        "6 of that parameter.\n"
        "  next:  extend the setting so that it contains 6, or change the default."
    )


def test_sliders_rebuild_and_errors_are_shown() -> None:
    pytest.importorskip("anywidget", reason="the extra lab is not installed")
    from ipu_teach.show.bsp import axis_of, with_axis
    from ipu_teach.show.explore import widget

    def build(rows: int) -> View:
        if rows == 3:
            raise InvalidOptionError("Three rows <are> too many.", next_step="take two.")
        return show.bsp(programs.uneven(tiles=2, rows=rows))

    box = widget(build, {"rows": (1, 3)}, {"rows": 1}, build(1))
    slider, trouble, shown = box.children
    before = shown.scene
    slider.value = 2
    longer = build(2)
    assert shown.scene != before
    assert shown.scene == with_axis(longer, axis_of(longer)).scene.json()
    slider.value = 3
    assert "Three rows &lt;are&gt; too many." in trouble.value and "take two." in trouble.value
    slider.value = 1
    # the shorter superstep stays on the axis of the longer one
    assert trouble.value == ""
    assert shown.scene == with_axis(build(1), axis_of(longer)).scene.json() != before


def test_without_matplotlib_a_png_is_refused_and_an_svg_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = show.timeline(Report.sample("products"))
    monkeypatch.delitem(sys.modules, "ipu_teach.show.mpl", raising=False)
    monkeypatch.delattr(show, "mpl", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [name for name in sys.modules if name.startswith("matplotlib.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(NotHereImportError) as error:
        view.save(tmp_path / "run.png")
    assert str(error.value) == (
        "save() draws a png with matplotlib, and matplotlib is not installed.\n"
        "  next:  python -m pip install matplotlib, or save an svg or html file."
    )
    assert view.save(tmp_path / "run.svg").exists()


def test_a_title_says_how_rows_columns_or_elements_are_divided_among_tiles() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=16).create_device())

    def told(rows: int, columns: int, tile: Callable[[int, int], int]) -> str:
        x = graph.add_variable(FLOAT, (rows, columns), "x")
        for i in range(rows):
            for j in range(columns):
                graph.set_tile_mapping(x[i, j], tile(i, j))
        title = show.tiles(x).scene.title
        # of the transpose the same is said of the other dimension
        turned = show.tiles(x.transpose()).scene.title.partition("; ")[2]
        said = str(title.partition("; ")[2])
        if said.startswith("each"):
            here, there = ("row", "column") if "row" in said else ("column", "row")
            assert turned == said.replace(here, there)
        return said

    assert told(3, 8, lambda i, j: j) == "each column is on the tile of its number"
    assert told(3, 8, lambda i, j: j + 5) == "each column is on the tile of its number + 5"
    assert told(5, 2, lambda i, j: (3 * i) % 16) == "each row is on a tile of its own"
    # 2 elements a tile, across the ends of rows
    by_two = told(4, 3, lambda i, j: (3 * i + j) // 2)
    assert by_two == "row by row, tile 0 has the first 2 elements"
    assert told(4, 4, lambda i, j: (i + j) % 3) == ""  # no simple rule
    assert told(4, 4, lambda i, j: i % 2) == ""  # two rows share a tile
