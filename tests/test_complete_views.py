"""What a view draws is complete, or says what it leaves out: message by message and byte by byte
beside the report's transfers, on one, two and four IPUs and on replicas."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from all_reduces import all_reduce_report
from view_programs import pipeline_training

from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Report, Vector, Vertex, show
from ipu_teach.cost.phases import LINKS
from ipu_teach.poplibs import gcl
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.report import Recording
from ipu_teach.show import palette
from ipu_teach.show.paint import paint
from ipu_teach.show.scene import Board, Lanes, Matrix, Sheet, Still, Track
from ipu_teach.show.shapes import Boxes, Stroke
from tests.browser.every_view import VIEWS

ROOT = Path(__file__).resolve().parents[1]
Ends = tuple[int, int]  # from a tile to a tile


class Blur(Vertex):
    """The mean of each element and its neighbours, of a stretch of a line."""

    left: Input[Vector[FLOAT]]
    middle: Input[Vector[FLOAT]]
    right: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        padded = np.concatenate((self.left, self.middle, self.right))
        self.out[:] = (padded[:-2] + padded[1:-1] + padded[2:]) / 3


def stencil(tiles: int, floats: int, ipus: int, repeats: int = 3) -> Recording:
    """A line of `floats` elements a tile, each tile beside its neighbours, blurred to and fro."""
    device = IPUModel("ipu2", tiles_per_ipu=tiles // ipus, num_ipus=ipus).create_device()
    graph, n = Graph(device.target), tiles * floats
    lines = [graph.add_variable(FLOAT, (n + 2,), name) for name in ("even", "odd")]
    rng = np.random.default_rng(0)
    for line in lines:
        graph.set_tile_mapping(line[0], 0)
        graph.set_tile_mapping(line[n + 1], tiles - 1)
        graph.set_initial_value(line, rng.normal(size=n + 2))
    body = []
    for here, there in (lines, lines[::-1]):
        blur = graph.add_compute_set("blur")
        for tile in range(tiles):
            first, last = 1 + tile * floats, 1 + (tile + 1) * floats
            graph.set_tile_mapping(here[first:last], tile)
            fields = {"left": here[first - 1 : first], "right": here[last : last + 1]}
            fields |= {"middle": here[first:last], "out": there[first:last]}
            graph.set_tile_mapping(graph.add_vertex(blur, Blur, **fields), tile)
        body.append(Execute(blur))
    engine = Engine(graph, Repeat(repeats, Sequence(*body)))
    recording = engine.record(*lines)
    engine.load(device)
    engine.run()
    return recording


def replicated() -> Recording:
    """An all-reduce over four replicas of two tiles."""
    graph = Graph(IPUModel(num_ipus=4, tiles_per_ipu=2).create_device(), replication_factor=4)
    x, prog = graph.add_variable(FLOAT, (8,), "x"), Sequence()
    graph.set_tile_mapping(x, 0)
    graph.set_initial_value(x, 1.0)
    y = graph.add_variable(FLOAT, (8,), "y")
    graph.set_tile_mapping(y, 1)
    prog.add(Copy(x, y))
    result = gcl.all_reduce_cross_replica(graph, y, "ADD", prog)
    engine = Engine(graph, prog)
    recording = engine.record(x, y, result)
    engine.load(IPUModel(num_ipus=4, tiles_per_ipu=2).create_device())
    engine.run()
    return recording


RECORDED = {
    "64 tiles": lambda: stencil(64, 24, 1),
    "100 tiles": lambda: stencil(100, 7, 1),
    "13 tiles": lambda: stencil(13, 3, 1),
    "2 IPUs": lambda: stencil(16, 24, 2),
    "4 IPUs": lambda: stencil(64, 24, 4),
    "4 replicas": replicated,
}


def sent(report: Report, step: int, number: int) -> Counter[Ends]:
    """The bytes from tile to tile in an exchange of a compiled step."""
    found, transfers = Counter[Ends](), report.transfers(step)[number]
    for source, size, to in zip(
        transfers.source.tolist(), transfers.size.tolist(), transfers.receivers, strict=True
    ):
        for tile in to.tolist():
            found[source, tile] += size
    return found


def exchanges(report: Report, stills: list[Still], frames: list[int]) -> dict[int, tuple[int, int]]:
    """By still of an exchange: the compiled step, and the number of its exchange."""
    found = dict[int, tuple[int, int]]()
    groups = np.cumsum([stills[i].first for i in frames]) - 1
    for frame, i in enumerate(frames):
        step = int(report.step_numbers[groups[frame]])
        for phase in report.phases(step):
            if phase.exchange >= 0 and stills[i].label.startswith(f"{phase.kind}: "):
                found[i] = step, phase.exchange
    return found


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_run_draws_every_message_or_says_how_much_it_leaves_out(name: str) -> None:
    recording = RECORDED[name]()
    report, view = recording.report, show.run(recording)
    assert report is not None
    scene = view.scene
    board = next(m for m in scene.marks if isinstance(m, Board))
    per, seen = report.target.tiles_per_ipu, 0
    for i, (step, number) in exchanges(report, list(scene.stills), scene.frames.tolist()).items():
        still = scene.stills[i]
        links = still.code == next(k for k, c in enumerate(scene.codes) if c.name == LINKS)
        expected = Counter[Ends]()
        for (a, b), size in sent(report, step, number).items():
            if (a // per != b // per) == links:
                expected[(a // per, b // per) if links else (a, b)] += size
        drawn, every = Counter[Ends](), np.array(board.tiles) // (per if links else 1)
        for message in still.flows.get("messages", ()):
            drawn[int(every[message.source]), int(every[message.receivers[0]])] += message.size
        assert not drawn - expected  # nothing that was not sent
        left = (expected - drawn).total()
        said = re.search(r"([\d,]+) of them are not drawn", still.note)
        assert left == (int(said[1].replace(",", "")) if said else 0)
        if not links:  # between tiles with boxes all of it
            boxes = set(board.tiles)
            assert all(drawn[e] == n for e, n in expected.items() if set(e) <= boxes)
        seen += len(drawn)
    assert seen
    if name == "64 tiles":
        assert max(len(s.flows.get("messages", ())) for s in scene.stills) == 126


def test_every_message_of_a_busy_exchange_is_an_arrow() -> None:
    scene = show.run(stencil(64, 24, 1)).scene
    arrows = [s for s in paint(scene, scene.poster) if isinstance(s, Stroke) and s.arrow]
    assert len(arrows) == 126


def test_rounds_are_counted_among_all_that_run() -> None:
    recording = stencil(64, 24, 1, repeats=20)
    scene = show.run(recording).scene
    times = scene.data["times"]
    assert set(times.values()) == {(0, 20)}
    shown = Counter(scene.data["rounds"].get(i) for i in scene.frames.tolist())
    assert 0 < max(shown[leaf] for leaf in times) <= 20


@pytest.mark.parametrize("name", RECORDED)
def test_a_run_of_supersteps_draws_every_message_or_says_which(name: str) -> None:
    report = RECORDED[name]().report
    assert report is not None
    scene = show.bsp(report).scene
    per, several = report.target.tiles_per_ipu, report.target.num_ipus > 1
    drawn, expected = Counter[Ends](), Counter[Ends]()
    for still in scene.stills:
        messages = still.flows.get("messages", ())
        if several:
            for message in messages:
                ipus = {int(t) // per for t in message.receivers} | {message.source // per}
                if len(ipus) > 1:
                    drawn[message.source // per, int(message.receivers[0]) // per] += message.size
            continue
        if not messages:
            continue
        total = int(still.values["received"].sum())
        size = sum(m.size * len(m.receivers) for m in messages)
        assert size == total or "; drawn are " in still.note
        assert still.note.startswith(f"{total:,} bytes arrive; ")
    if several:
        for step in set(report.step_numbers.tolist()):
            for number in range(len(report.transfers(step))):
                for (a, b), size in sent(report, step, number).items():
                    if a // per != b // per:
                        expected[a // per, b // per] += size
        assert drawn.keys() == expected.keys()


@pytest.mark.parametrize("name", RECORDED)
def test_a_matrix_has_every_byte(name: str) -> None:
    report = RECORDED[name]().report
    assert report is not None
    scene = show.exchange(report).scene
    matrix = next(m for m in scene.marks if isinstance(m, Matrix))
    every = Counter(
        tuple(sorted(sent(report, step, number).items()))
        for step in set(report.step_numbers.tolist())
        for number in range(len(report.transfers(step)))
        if len(report.transfers(step)[number])
    )
    assert len(scene.stills) == sum(every.values())
    for still in scene.stills:
        drawn = still.values["bytes"].reshape(matrix.bins, matrix.bins)
        binned = []
        for pairs in every:
            table = np.zeros((matrix.bins, matrix.bins), np.int64)
            for (a, b), size in pairs:
                table[b // matrix.each, a // matrix.each] += size
            binned.append(table)
        assert any(np.array_equal(drawn, table) for table in binned)


@pytest.mark.parametrize("case", RECORDED)
def test_a_run_rests_where_its_title_says_what_moves_and_what_changes(case: str) -> None:
    recording = RECORDED[case]()
    assert recording.report is not None
    scene = show.run(recording).scene
    still = scene.stills[int(scene.frames[scene.poster])]
    messages = [m for m in still.flows["messages"] if m.source >= 0]
    begin = max(f for f in range(scene.poster + 1) if scene.stills[int(scene.frames[f])].first)
    place = sum(scene.stills[int(i)].first for i in scene.frames[: begin + 1]) - 1
    changed = [  # numbers that differ before and after the superstep, counted one by one
        int(element)
        for track in recording.tracks
        for at_place, elements, *_ in track.changes
        if at_place == place
        for element in elements
    ]
    size = sum(message.size for message in messages)
    between = f"{len(messages)} messages, {size:,} bytes, go from "
    assert scene.title.startswith(between), scene.title
    assert f"; then {len(changed):,} numbers change (thick lines" in scene.title
    # the picture at rest marks the cells whose numbers the superstep then changes
    numbers = scene.numbers["board"]
    after = next(
        (f for f, i in enumerate(scene.frames) if f > begin and scene.stills[int(i)].first),
        len(scene.frames),
    )
    drawn = numbers.cell[(numbers.frame >= begin) & (numbers.frame < after)]
    assert len(drawn) and {*drawn.tolist()} <= {*still.touches["board"][1].tolist()}
    undrawn = f"; {len(drawn):,} are drawn)" if len(drawn) < len(changed) else ")"
    assert scene.title.endswith(f"change (thick lines{undrawn}")


def test_a_run_without_messages_says_so_in_its_title() -> None:
    recording = stencil(13, 3, 1)
    scene = show.run(recording, at=0).scene
    assert scene.title.startswith(
        "24 messages, 96 bytes, go from tile to tile in Execute blur; then"
    )
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    x = graph.add_variable(FLOAT, (4,), "x")
    graph.set_tile_mapping(x, 1)
    graph.set_initial_value(x, 1.0)
    y = graph.add_variable(FLOAT, (4,), "y")
    graph.set_tile_mapping(y, 1)
    engine = Engine(graph, Copy(x, y))
    recording = engine.record(x, y)
    engine.load_and_run(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    title = show.run(recording).scene.title
    assert title == "In Copy 'x' to 'y' 4 numbers change (thick lines); none moves between tiles"


@pytest.mark.parametrize("count", [2, 4])
def test_a_ring_has_every_byte_and_says_nothing_that_was_not_followed(count: int) -> None:
    report = all_reduce_report(count, 77, "clockwise_ring", tiles=3)
    view = show.ring(report)
    for row in view.data:
        step = int(report.step_numbers[int(row["superstep"].replace(",", ""))])
        crossing = Counter[Ends]()
        for number in range(len(report.transfers(step))):
            for (a, b), size in sent(report, step, number).items():
                crossing[a // 3, b // 3] += size
        pair = int(row["from IPU"]), int(row["to IPU"])
        rows = [r for r in view.data if r["superstep"] == row["superstep"]]
        same = [r for r in rows if (int(r["from IPU"]), int(r["to IPU"])) == pair]
        assert sum(int(r["bytes"].replace(",", "")) for r in same) == crossing[pair]
        assert row["chunk"]


@pytest.mark.parametrize("repeats", [40, 400])
def test_equal_rounds_have_equal_silhouettes(repeats: int) -> None:
    report = stencil(13, 3, 1, repeats).report
    assert report is not None
    for scene in (show.bsp(report).scene, show.timeline(report).scene):
        track = next(m for m in scene.marks if isinstance(m, Track))
        edges = scene.columns
        assert edges is not None and len(edges) < 400
        boxes = [
            s
            for s in paint(scene, 0)
            if isinstance(s, Boxes)
            and len(s.boxes)
            and track.y - 0.01 <= s.boxes[0, 1] < track.bottom
        ]
        area = sum(float((s.boxes[:, 2] * s.boxes[:, 3]).sum()) for s in boxes)
        assert area == pytest.approx(track.width * track.height, rel=0.01)
        if scene.view != "bsp":
            continue
        # what stands at one place of a round stands there in every round
        period = report.total_cycles / repeats * track.width / report.total_cycles
        for part in np.linspace(0.06, 0.93, 7):
            at = []
            for k in range(1, min(repeats, 30) - 1):
                x = track.x + (k + part) * period
                covering = [
                    (s.code, round(float(b[1]), 1), round(float(b[3]), 1))
                    for s in boxes
                    for b in s.boxes
                    if b[0] <= x < b[0] + b[2]
                ]
                at.append(tuple(sorted(covering)))
            assert len(set(at)) == 1


def test_lanes_of_one_name_and_the_words_sum_the_same_variables() -> None:
    report, _ = pipeline_training("grouped", 4, 8)
    view = show.liveness(report)
    lanes = next(m for m in view.scene.marks if isinstance(m, Lanes))
    sizes = dict(zip(lanes.labels, lanes.values["bytes"].tolist(), strict=True))
    assert len(sizes) == len(lanes.labels)
    smallest = min(sizes.values())
    for row in view.data:
        for name, size in re.findall(r"(\S+) ([\d,]+)(?:,| and|$)", row["live variables"]):
            number = int(size.replace(",", ""))
            shown = [n for label, n in sizes.items() if label.startswith(name[:19])]
            assert number <= max([smallest, *shown])


def test_a_constant_that_was_set_has_no_published_source() -> None:
    usual = show.machine(IPUModel("ipu2").create_device())
    changed = show.machine(IPUModel("ipu2", host_bytes_per_second=1e15).create_device())
    sources: Any = [{row["pipe"]: row["source"] for row in view.data} for view in (usual, changed)]
    assert sources[1]["host"] == "set for this machine" != sources[0]["host"]
    assert {p: s for p, s in sources[0].items() if p != "host"} == {
        p: s for p, s in sources[1].items() if p != "host"
    }


def test_a_slider_keeps_the_axis_so_that_the_barrier_moves() -> None:
    def build(work: int) -> Any:
        device = IPUModel("ipu2", tiles_per_ipu=3).create_device()
        graph = Graph(device.target)
        line = graph.add_variable(FLOAT, (4,), "line")
        graph.set_tile_mapping(line, 0)
        graph.set_initial_value(line, 1.0)
        out = graph.add_variable(FLOAT, (2,), "out")
        graph.set_tile_mapping(out, 0)
        blur = graph.add_compute_set("blur")
        fields = {"left": line[:1], "middle": line[1:3], "right": line[3:]}
        vertex = graph.add_vertex(blur, Blur, **fields, out=out)
        graph.set_tile_mapping(vertex, 0)
        graph.set_perf_estimate(vertex, work)
        engine = Engine(graph, Execute(blur))
        engine.load(device)
        engine.run()
        return show.bsp(engine.report)

    explore = show.explore(build, work=(100, 1500, 100))
    longest = build(1500).scene.drawings[0].span
    lanes = next(m for m in explore.view.scene.marks if isinstance(m, Lanes))
    assert lanes.axis == longest > explore.view.scene.drawings[0].span
    barrier = [
        s.points[0][0]
        for s in paint(explore.view.scene, 0)
        if isinstance(s, Stroke) and s.points[0][0] == s.points[1][0] and s.width == 1.5
    ]
    share = explore.view.scene.drawings[0].span / longest
    assert barrier == [pytest.approx(lanes.x + lanes.width * share)]


def test_each_view_says_its_question_first_and_has_a_finding_as_title() -> None:
    views = [name for name in dir(show) if name in show.__all__]
    asked = [n for n in views if str(getattr(show, n).__doc__).strip().splitlines()[0][-1] == "?"]
    assert {"bsp", "timeline", "run", "exchange", "balance", "program", "memory", "ring"} <= {
        *asked
    }
    for name, make in VIEWS.items():
        scene = make().scene
        first = str(getattr(show, scene.view).__doc__).strip().splitlines()[0]
        assert first.endswith("?") and len(first) <= 100, name
        assert 10 < len(scene.title) <= 150 and not scene.title.endswith("."), scene.title


def test_a_colour_of_a_state_means_that_state_in_every_view() -> None:
    reserved = {
        code.light: code
        for code in (palette.COMPUTE, palette.EXCHANGE, palette.LINKS, palette.HOST)
    }
    others = {  # the same, called by what it is in that view
        palette.COMPUTE.light: {"computed again"},
        palette.EXCHANGE.light: {"exchange between tiles", "moving edges into place"},
        palette.LINKS.light: {"links between IPUs", "over a link between IPUs"},
        palette.HOST.light: {"link to the host"},
    }
    hues = {(code.light, code.pattern) for code in palette.TILES}
    for name, make in VIEWS.items():
        scene = make().scene
        for code in (scene.codes[i] for i in scene.legend):
            state = reserved.get(code.light)
            if state is None or scene.view in ("tiles", "ring", "crossing"):  # hues of tiles, IPUs
                assert state is None or (code.light, code.pattern) in hues
                continue
            assert code.name == state.name or code.name in others[code.light], (name, code)


def test_the_gallery_shows_question_picture_and_answer() -> None:
    page = (ROOT / "docs" / "gallery" / "README.md").read_text("utf-8")
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs/gallery/make_gallery.py")
    assert spec and spec.loader
    spec.loader.exec_module(gallery := importlib.util.module_from_spec(spec))
    views = {name: make() for name, make in gallery.VIEWS.items()}
    assert gallery.with_questions(page, views) == page
    assert page.count("*Question: ") == page.count("*Answer: ") == len(views)


def test_a_tensor_of_two_dimensions_is_an_image_beside_the_tiles() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph = Graph(device.target)
    plate = graph.add_variable(FLOAT, (6, 8), "plate")
    other = graph.add_variable(FLOAT, (6, 8), "other")
    for tile, (i, j) in enumerate(((0, 0), (0, 4), (3, 0), (3, 4))):
        graph.set_tile_mapping(plate[i : i + 3, j : j + 4], tile)
        graph.set_tile_mapping(other[i : i + 3, j : j + 4], 3 - tile)
    values = np.arange(48, dtype=np.float32).reshape(6, 8)
    graph.set_initial_value(plate, values)
    engine = Engine(graph, Sequence(Copy(plate, other), Copy(other, plate)))
    recording = engine.record(plate)
    engine.load(device)
    engine.run()
    scene = show.run(recording).scene
    sheet = next(m for m in scene.marks if isinstance(m, Sheet))
    board = next(m for m in scene.marks if isinstance(m, Board))
    side = min(sheet.width / 8, sheet.height / 6)
    expected = {
        (round(sheet.x + j * side), round(sheet.y + i * side)) for i in range(6) for j in range(8)
    }
    codes = {}
    for shape in paint(scene, scene.poster):
        for box in shape.boxes.tolist() if isinstance(shape, Boxes) else ():
            if box[0] >= sheet.x - 0.1 and box[1] < sheet.bottom and abs(box[2] - side) < 0.01:
                codes[round(box[0]), round(box[1])] = shape.code
    assert codes.keys() == expected
    # each pixel has the colour of the element at its row and column
    bounds = np.array(board.bounds[0])
    for i in range(6):
        for j in range(8):
            step = board.steps + int((values[i, j] >= bounds).sum())
            assert codes[round(sheet.x + j * side), round(sheet.y + i * side)] == step
    assert len(board.rims) == 1 and not set(board.rims) & set(scene.legend)
