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
from programs import replicas
from recorded_programs import Blur, replicated, stencil
from unpacking import unpack
from view_programs import pipeline_training

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, show
from ipu_teach.cost.phases import LINKS
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Copy, Execute, Sequence
from ipu_teach.show import palette
from ipu_teach.show.paint import paint
from ipu_teach.show.report_facts import short_name
from ipu_teach.show.scene import Board, Lanes, Matrix, Painted, Sheet, Still, Track, Tree, Zoom
from ipu_teach.show.segments import at_work
from ipu_teach.show.shapes import Boxes, Stroke, Words
from tests.browser import programs
from tests.browser.every_view import VIEWS

ROOT = Path(__file__).resolve().parents[1]
Ends = tuple[int, int]  # from a tile to a tile


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
        said = re.search(r"([\d,]+)( of them are not| bytes arrive; none is) drawn", still.note)
        assert left == (int(said[1].replace(",", "")) if said else 0)
        if not links:  # between tiles with boxes all of it
            boxes = set(board.tiles)
            assert all(drawn[e] == n for e, n in expected.items() if set(e) <= boxes)
            reason = " drawn: they go from or to tiles without a box; "
            assert (reason in still.note) == (left > 0)
        seen += len(drawn)
    assert seen
    if name == "64 tiles":
        assert max(len(s.flows.get("messages", ())) for s in scene.stills) == 126


def test_a_note_says_why_bytes_are_not_drawn_and_which_message_is_the_largest() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=3).create_device()
    graph = Graph(device.target)
    x, hidden = (graph.add_variable(FLOAT, (3, 5), name) for name in ("x", "hidden"))
    y = graph.add_variable(FLOAT, (3, 10), "y")
    for tile in range(3):
        for tensor in (x, hidden, y):
            graph.set_tile_mapping(tensor[tile], tile)
    graph.set_initial_value(x, 1.0)
    graph.set_initial_value(hidden, 2.0)
    shifts = Copy(x[0, :3], y[1, :3]), Copy(x[1], y[2, :5]), Copy(hidden[0], y[1, 5:])
    engine = Engine(graph, Sequence(*shifts))
    recording = engine.record(x, y, hidden)
    engine.load_and_run(device)
    (note,) = (s.note for s in show.run(recording).scene.stills if s.flows)
    assert note.startswith(
        "52 bytes arrive; 2 messages are drawn, 52 bytes together, the largest of 32, y[1, 0] and 7 "
        "more from tile 0 to tile 1; tile "
    )
    (note,) = (s.note for s in show.run(recording, x).scene.stills if "arrive" in s.note)
    assert note.startswith(
        "52 bytes arrive; none is drawn: they are of tensors that are not shown; tile "
    )


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
    left_out = re.search(r"([\d,]+) of them are not drawn: ", still.note)
    total = size + (int(left_out[1].replace(",", "")) if left_out else 0)
    of_bytes = f"{size:,} of {total:,}" if left_out else f"{size:,}"
    title = re.fullmatch(
        r"(\d+) messages of '([^']+)', ([\d,]+(?: of [\d,]+)?) bytes, go from .*; "
        r"then ([\d,]+) (numbers of '([^']+)'|of its numbers) change.*",
        scene.title,
    )
    assert title, scene.title
    assert title[1] == f"{len(messages)}" and title[3] == of_bytes
    assert title[4] == f"{len(changed):,}"
    # the variables that are named are those of the cells that travel and of those that change
    board = scene.mark("board")
    assert isinstance(board, Board)
    plain = [name.partition(", replica ")[0] for name in board.names]
    travels = {plain[int(board.named[cell])] for m in messages for cell in m.cells}
    assert travels == {title[2]}
    changes = {plain[int(board.named[cell])] for cell in still.touches["board"][1]}
    assert changes == {title[6] or title[2]}
    # the picture at rest marks the cells whose numbers the superstep then changes
    numbers = scene.numbers["board"]
    after = next(
        (f for f, i in enumerate(scene.frames) if f > begin and scene.stills[int(i)].first),
        len(scene.frames),
    )
    drawn = numbers.cell[(numbers.frame >= begin) & (numbers.frame < after)]
    assert len(drawn) and {*drawn.tolist()} <= {*still.touches["board"][1].tolist()}
    undrawn = f", {len(drawn):,} of them drawn" if len(drawn) < len(changed) else ""
    assert scene.title.endswith(f"change{undrawn} (thick lines)")


def test_a_run_without_messages_says_so_in_its_title() -> None:
    recording = stencil(13, 3, 1)
    scene = show.run(recording, at=0).scene
    assert scene.title.startswith(
        "24 messages of 'even', 96 bytes, go from tile to tile in Execute blur; then"
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
    assert title == (
        "In Copy 'x' to 'y' 4 numbers of 'y' change (thick lines); "
        "no drawn number moves between tiles"
    )


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
    assert "host" not in changed.scene.title  # a finding is not about a figure that was set
    assert changed.scene.title.endswith(
        ": the memory of 1,472 tiles together is 2 times as fast as their exchange"
    )
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


def idle_of_stretches(report: Report) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return int64[stretches, IPUs]: the cycles that each IPU waits, from the steps one by one."""
    begins = report.overlap.begins
    idle = np.repeat(np.diff(begins)[:, None], report.target.num_sets, axis=1)
    for step in report.steps():
        works = report.profile.at_work(step.step) if step.cost.global_exchange_cycles else None
        for ipu, share in enumerate(step.ipus):
            if works is None or works[ipu]:
                stretch = int(np.searchsorted(begins, share.start, "right")) - 1
                idle[stretch, ipu] -= share.cycles
    return idle


@pytest.mark.parametrize("name", ["pipeline", "replicas"])
def test_a_title_of_several_ipus_is_about_the_place_at_which_the_picture_rests(name: str) -> None:
    if name == "pipeline":
        report = pipeline_training("grouped", 4, 8)[0]
    else:
        report = replicas.main(4, 6).report
    idle = idle_of_stretches(report)
    assert idle.sum(axis=0).tolist() == [row.waiting_cycles for row in report.ipus]
    for view in (show.bsp(report), show.timeline(report)):
        scene = view.scene
        stills = [scene.stills[i] for i in scene.frames.tolist()]
        place = sum(still.first for still in stills[: scene.poster + 1])
        said = re.search(r"make.? (\d+) others? wait ([\d,]+) cycles in stretch (\d+)", scene.title)
        assert said and int(said[3]) == place, scene.title
        waits = idle[place - 1]
        assert waits.sum() == idle.sum(axis=1).max()  # the longest waiting of the run
        assert (waits > 0).sum() == int(said[1]) and waits.max() == int(said[2].replace(",", ""))
        # who is said to wait is seen waiting, and what is of the run is said to be
        assert "In the whole run, " in scene.sentence
        assert sum(still.cycles for still in stills) == report.total_cycles
    scene = show.bsp(report).scene
    rest = scene.stills[int(scene.frames[scene.poster])]
    codes = np.array([scene.codes[c].name for c in np.asarray(rest.cells["tiles"][0]).tolist()])
    ipu = report.target.set_of(np.arange(report.target.num_tiles))
    assert (codes[(waits > 0)[ipu]] == "waiting").all() and not (codes == "waiting").all()
    for still in scene.stills:  # a frame has its own length, and a phase of another one is told
        longer = re.search(r"a part of that phase, which takes ([\d,]+) cycles", still.note)
        assert not longer or int(longer[1].replace(",", "")) > still.cycles
        share = re.search(r"is the slowest, ([\d,]+) modelled", still.note)
        if share and not longer:
            assert int(share[1].replace(",", "")) <= still.cycles, still.note


def test_a_run_of_several_ipus_that_is_not_shown_to_its_end_says_so_in_the_title() -> None:
    report = pipeline_training("grouped", 8, 24)[0]
    scene = show.bsp(report).scene
    shown = sum(scene.stills[i].cycles for i in scene.frames.tolist())
    assert shown < report.total_cycles
    assert scene.title.endswith(
        f"(there is room for the first {shown:,} of {report.total_cycles:,.0f} cycles)"
    )


@pytest.mark.parametrize("name", ["uneven", "stencil", "pipeline", "replicas"])
def test_the_row_that_the_title_of_a_program_names_is_seen(name: str) -> None:
    if name == "uneven":
        report = programs.uneven()
    elif name == "stencil":
        report = stencil(64, 24, 1).report
    elif name == "pipeline":
        report = pipeline_training("grouped", 4, 8)[0]
    else:
        report = replicas.main(4, 6).report
    scene = show.program(report).scene
    tree = scene.mark("tree")
    assert isinstance(tree, Tree)
    seen = tree.visible()
    rows = scene.table[1]
    share = scene.table[0].index("share")
    shares = [float(row[share].split()[0]) for row in rows]
    if name == "pipeline":  # no step takes much: how many parts are seen, and the largest share
        leaves = [i for i in seen if i + 1 not in seen or tree.depth[i + 1] <= tree.depth[i]]
        count, largest = re.findall(r"[\d.]+", scene.title)
        assert scene.title.startswith("The cycles are spread over ")
        assert int(count) == len(leaves) and float(largest) == max(shares[i] for i in leaves)
        assert not any(shares[i] >= 10 for i, row in enumerate(rows) if "Execute" in row[0])
        return
    named, part = re.fullmatch(r"(.*) takes most, ([\d.]+) %.*", scene.title).groups()  # type: ignore[union-attr]
    kind, name = named.split(" ", 1)  # steps of one name are numbered
    title = re.compile(rf"{kind} (\d+ of \d+: )?{re.escape(name.rstrip('…'))}")
    of_name = [
        i for i, row in enumerate(rows) if title.match(re.sub(r", replica \d+ of \d+", "", row[0]))
    ]
    assert of_name and set(of_name) & set(seen)
    assert sum(shares[i] for i in of_name) == pytest.approx(float(part), abs=0.1)


def test_how_long_tiles_wait_is_said_where_the_question_asks_it() -> None:
    for report in (programs.uneven(), stencil(64, 24, 1).report, programs.some_wait(1472)):
        scene = show.bsp(report).scene
        rest = scene.stills[int(scene.frames[scene.poster])]
        kinds = ("compute", "exchange")
        phase = max(
            (p for s in report.steps() for p in report.phases(s.step) if p.kind in kinds),
            key=lambda p: (p.cycles - p.busy).sum(),
        )
        waits = (phase.cycles - phase.busy)[phase.busy < phase.cycles].tolist()
        assert waits and rest.code == palette.STATE[phase.kind]
        assert (", the exchange of" in scene.title) == (phase.kind == "exchange")
        begun = [scene.stills[i].first for i in scene.frames[: scene.poster + 1].tolist()]
        assert scene.title.startswith("Most waiting: ")
        assert f" in superstep {sum(begun)}" in scene.title
        up_to = "up to " if len(set(waits)) > 1 else ""
        assert f" {len(waits):,} others wait {up_to}{max(waits):,} cycles" in scene.title
        said = (
            f"{min(waits):,} to {max(waits):,} cycles" if up_to else f"{max(waits):,} cycles each"
        )
        share = 100 * sum(waits) / len(phase.busy) / phase.cycles
        assert rest.note.endswith(
            f"; {share:.1f} % of the tiles' time in this phase is waiting: {len(waits):,} others "
            f"wait {said}"
        )


def test_ties_are_said() -> None:
    report = stencil(64, 24, 1).report
    live = show.liveness(report).scene
    # both steps need the same, and so do 62 tiles, which have no end of the line
    assert live.title.startswith("Most is live in steps 1 and 2, first Execute blur: ")
    assert " on tiles 1, 2 and 60 others each; " in live.stills[0].note
    memory = show.memory(report).scene
    assert memory.title.startswith("Tiles 1, 2 and 60 others are fullest, ")
    assert "the fullest are tiles 1, 2 and 60 others: " in memory.sentence
    waiting = show.balance(report).scene
    exchange = next(p for p in report.phases(0) if p.kind == "exchange")
    slowest = np.flatnonzero(exchange.busy == exchange.busy.max()).tolist()
    assert len(slowest) == 4
    said = f"tiles {', '.join(map(str, slowest[:-1]))} and {slowest[-1]}"
    where = "the 3 executions of superstep 1, Execute blur"
    assert (
        f"; most is lost for {said} in {where}: 50 % of the waiting" in waiting.title
        and f"{said} take " in waiting.sentence
    )


def test_a_share_that_is_called_the_largest_part_is_that_part() -> None:
    report = pipeline_training("grouped", 4, 8)[0]
    scene = show.balance(report).scene
    part = float(re.search(r"most is lost .*: (\d+) % of", scene.title)[1])  # type: ignore[index]
    stills = [scene.stills[i] for i in scene.frames.tolist()]
    lost = [still.about["tiles of run"][1]["waits"].sum() for still in stills]
    assert part == round(100 * max(lost) / sum(lost)) < 50
    assert f"in stretch {scene.poster + 1}" in scene.title and lost[scene.poster] == max(lost)


def test_headings_say_that_a_lane_is_a_mean() -> None:
    chip = programs.some_wait(1472)
    views = (show.bsp, "lanes"), (show.balance, "lanes"), (show.balance, "run")
    for view, mark in (*views, (show.timeline, "tiles")):
        # above the means, bsp has a lane of the slowest tile, with the heading of both
        name = "slowest" if view is show.bsp else mark
        heading = view(chip).scene.mark(name).heading
        assert "each lane is the mean of 23 tiles" in heading and "mean" not in (
            view(programs.uneven()).scene.mark(mark).heading
        )


def test_no_tile_waits_where_a_title_says_that_all_take_equally_long() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device())
    x = graph.add_variable(FLOAT, (256,), "x")
    y = graph.add_variable(FLOAT, (256,), "y")
    for tensor in (x, y):
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, 1.0)
    body = Sequence()
    popops.map_in_place(graph, popops.expr.Add(popops.expr._1, popops.expr._2), [x, y], body)
    engine = Engine(graph, body)
    engine.load_and_run(IPUModel("ipu2", tiles_per_ipu=4).create_device())
    for still in show.bsp(engine.report).scene.stills:
        assert "others wait" not in still.note
    assert show.bsp(engine.report).scene.title.startswith("All tiles take equally long")


def test_an_exchange_rests_while_only_its_last_tiles_work() -> None:
    scene = show.bsp(stencil(64, 24, 1).report).scene
    still = scene.stills[int(scene.frames[scene.poster])]
    busy = still.values["busy"]
    at_work = np.flatnonzero(busy > still.at * still.cycles)
    assert at_work.tolist() == np.flatnonzero(busy == busy.max()).tolist() == [44, 45, 46, 47]
    assert scene.title.startswith("Most waiting: tiles 44, 45, 46 and 47 make 60 others wait ")


@pytest.mark.parametrize("name", ["stencil", "replicas", "pipeline"])
def test_the_executions_that_a_share_of_waiting_counts_are_said(name: str) -> None:
    if name == "stencil":
        report = stencil(64, 24, 1).report
    elif name == "pipeline":
        report = pipeline_training("grouped", 4, 8)[0]
    else:
        report = replicas.main(4, 6).report
    scene = show.balance(report).scene
    frames = scene.frames.tolist()
    waits = [scene.stills[i].about["tiles of run"][1]["waits"].sum() for i in frames]
    of_one = waits[scene.poster]
    executions = frames.count(frames[scene.poster])
    said = re.search(r"most is lost .*in (?:the (\d+) executions of )?.*: (\d+) % of", scene.title)
    executed = re.search(r"in the (\d+) executions of ", scene.title)
    assert said and int(executed[1] if executed else 1) == executions
    assert int(said[2]) == round(100 * executions * of_one / sum(waits))


def test_the_shares_of_a_timeline_are_those_of_all_ipus() -> None:
    for report in (pipeline_training("grouped", 4, 8)[0], replicas.main(4, 6).report):
        ipus = report.target.num_ipus
        spent: Counter[str] = Counter()
        for part in report.steps():
            has_part = np.flatnonzero(at_work(report, part.step)).tolist()
            for ipu in has_part:
                for phase in report.phases(part.step, ipu):
                    spent[phase.kind] += phase.cycles
        kind, cycles = spent.most_common(1)[0]
        most = 100 * cycles / (ipus * report.total_cycles)
        share = 100 - 100 * spent.total() / (ipus * report.total_cycles)
        start = f"{share:.1f} % of the IPUs' time is waiting, {most:.1f} % is {kind}: "
        assert share > 1 and show.timeline(report).scene.title.startswith(start)


def test_steps_of_one_name_count_together_on_several_ipus() -> None:
    report = replicas.main(4, 6).report
    scene = show.program(report).scene
    copy = "Copy 'backward/out' to 'inbox'"
    taken = {}
    for name, pattern in (
        ("Execute sum", r"Execute \d of 3: sum"),
        (copy, r"Copy 'backward/out, replica \d of 4' to 'inbox'"),
    ):
        taken[name] = [
            int(row["modelled cycles"].replace(",", ""))
            for row in show.program(report).data
            if re.fullmatch(pattern, row["part"])
        ]
        assert len(taken[name]) == 3
    # copies of a variable's replicas count together, as executions of one name do
    assert sum(taken[copy]) > sum(taken["Execute sum"])
    share = 100 * sum(taken[copy]) / report.total_cycles
    title = f"{copy} takes most, {share:.1f} % of the cycles in 3 steps of this name"
    assert scene.title == title
    assert (
        f"is {copy}: {sum(taken[copy]):,} in 12 runs of 3 steps, {share:.1f} %." in scene.sentence
    )
    # children that overlap: their cycles add up to more than those of the part
    pipeline = show.program(pipeline_training("grouped", 4, 8)[0])
    first, *rows = [int(r["modelled cycles"].replace(",", "")) for r in pipeline.data]
    depths = [int(r["depth"]) for r in pipeline.data][1:]
    assert sum(n for n, depth in zip(rows, depths, strict=True) if depth == 1) > first
    assert pipeline.scene.mark("tree").heading == "program; parts on different IPUs overlap"
    assert "the parts in it can add up to more" in pipeline.scene.stills[0].note
    one = show.program(programs.uneven()).scene
    assert one.mark("tree").heading == "program" and "add up" not in one.stills[0].note


def test_live_variables_of_one_name_have_one_row_with_their_number() -> None:
    report = pipeline_training("grouped", 4, 8)[0]
    scene = show.liveness(report).scene
    [[_, rows, rest, buffers]] = scene.data["live"]
    passing = unpack(buffers, len(scene.frames)).tolist()
    for place in (0, scene.poster, len(scene.frames) - 1):
        live = [row for row in rows if any(a <= place < b for a, b in row[2])]
        base = [name.partition(", ")[0] for name, *_ in live]
        assert len(base) == len(set(base))
        _, others = rest.get(place, (0, 0))
        still = scene.stills[int(scene.frames[place])]
        total = sum(size for _, size, _ in live) + others + passing[place]
        assert still.note.startswith(f"{total:,} bytes on all tiles")
        said = f"; buffers of the step {passing[place]:,}"
        assert still.note.endswith(said) if passing[place] else "buffers" not in still.note
        more = re.search(r"goes: (.*) and \d+ more, ([\d,]+) bytes", still.note)
        if more:
            named = sum(int(n.replace(",", "")) for n in re.findall(r" ([\d,]*\d)(?:,|$)", more[1]))
            coming = total - passing[place] - int(report.memory.always_live_bytes_per_tile.sum())
            assert named + int(more[2].replace(",", "")) == coming
    stored = [
        v.bytes for v in report.variables.live_at(scene.poster) if v.name == "pipeline/stored0"
    ]
    sizes = {name: size for name, size, _ in rows}
    assert sizes[f"pipeline/stored0, {len(stored)} of them"] == sum(stored) and len(stored) > 9


def test_a_stretch_is_explained_where_it_is_counted() -> None:
    several, one = replicas.main(4, 6).report, programs.uneven()
    for view, mark in ((show.bsp, "lanes"), (show.balance, "run"), (show.timeline, "tiles")):
        text = "a stretch is the steps between two syncs of all IPUs"
        assert view(several).scene.mark(mark).heading.endswith(text)
        assert "stretch" not in view(one).scene.mark(mark).heading
        step = ", in Copy to 'inbox'" if view is not show.balance else ", Copy to 'inbox': "
        assert step in view(several).scene.title


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Execute product", "Execute product"),
        ("Copy 'backward/out, replica 3 of 4' to 'inbox'", "Copy to 'inbox'"),
        ("'backward/out, replica 3 of 4' to 'the inbox'", "copy to 'the inbox'"),
        (
            "Copy 6 copies: 'pipeline/stored0' to 'a long name of x', …",
            "Copy 6 copies: 'pipeline/stored0' …",
        ),
        ("Copy a view of 'y' to a view of 'all_reduce/out'", "Copy to a view of 'all_reduce/out'"),
        (f"Copy a view of 'y' to a view of '{30 * 'x'}'", "Copy a view of 'y' …"),
        ("a view of 'y' to a view of 'all_reduce/output'", "copy to a view of 'all_reduce/output'"),
        ("Execute " + 50 * "x", "Execute " + 31 * "x" + "…"),
    ],
)
def test_a_short_name_ends_in_a_word(name: str, shown: str) -> None:
    assert short_name(name, 40) == shown


def test_headings_say_what_a_square_a_lane_and_a_colour_stand_for() -> None:
    chip = programs.some_wait(1472)
    assert show.memory(chip).scene.mark("stack").heading.endswith("each column is 8.6 tiles")
    graph = Graph(IPUModel("ipu2", num_ipus=4).create_device())
    x = graph.add_variable(FLOAT, (5888, 4), "x")
    poputil.map_tensor_linearly(graph, x)
    tiles = show.tiles(x).scene
    assert tiles.mark("elements 0").heading.endswith("; a square is 92 x 1 elements")
    assert tiles.mark("tiles").heading == "5,888 tiles on 4 IPUs; each colour is 736 tiles"
    assert tiles.mark("bytes").heading.endswith("; a lane is 92 tiles")
    graph.set_initial_value(x, 1.0)
    y = graph.clone(x)
    engine = Engine(graph, Copy(x, y))
    engine.load(IPUModel("ipu2", num_ipus=4).create_device())
    engine.run()
    assert show.bsp(engine.report).scene.mark("tiles").heading.endswith("each square is 2 tiles")
    heading = show.memory(engine.report).scene.mark("tiles").heading
    assert heading == "5,888 tiles; each square is the fullest of 2 tiles"


def test_a_machine_says_what_is_of_a_tile_of_an_ipu_and_of_all() -> None:
    device = IPUModel("ipu2", num_ipus=4, tiles_per_ipu=13).create_device()
    scene = show.machine(device).scene
    assert "the memory of 52 tiles together is " in scene.title
    assert scene.title.endswith(" times as fast as 4 host links together")
    zoom = scene.mark("zoom")
    assert isinstance(zoom, Zoom)
    assert [name.endswith("; each bandwidth is that of all together") for name in zoom.names] == [
        False,
        *[True] * 4,
    ]
    units = [figure.partition(";")[0] for figure in zoom.figures]
    assert units == [
        "10.6 GB/s a tile (64 bits a cycle)",
        "5.32 GB/s a tile, each way (4 bytes a cycle)",
        "81.4 GB/s a rung, 40.7 GB/s a rail, each way",
        "8 GB/s an IPU",
    ]


def test_a_share_that_is_not_nothing_is_not_called_0() -> None:
    report = pipeline_training("grouped", 4, 8)[0]
    share = 100 * report.host_exchange_cycles / report.total_cycles
    assert 0 < share < 0.05
    scene = show.host(report).scene
    assert scene.title == "Less than 0.1 % of the run is transfer with the host"
    assert scene.stills[0].note.endswith(" modelled cycles, less than 0.1 %")


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
        palette.COMPUTE.light: {"computed again", "products"},
        palette.EXCHANGE.light: {"exchange between tiles", "moving edges into place"},
        palette.LINKS.light: {"links between IPUs", "over a link between IPUs", "between IPUs"},
        palette.HOST.light: {"link to the host", "host"},
    }
    hues = {(code.light, code.pattern) for code in palette.TILES}
    for name, make in VIEWS.items():
        scene = make().scene
        for code in (scene.codes[i] for i in scene.legend):
            state = reserved.get(code.light)
            if state is None or scene.view in ("tiles", "ring", "crossing"):  # hues of tiles, IPUs
                assert state is None or (code.light, code.pattern) in hues
                continue
            called = code.name.split(": ")[-1]  # The legend may name the panel first.
            assert called == state.name or called in others[code.light], (name, code)


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


@pytest.mark.parametrize("count", [1, 4])
def test_the_histogram_of_working_times_ends_at_the_longest(count: int) -> None:
    """It has the cycles of compute and exchange alone: a sync is no work of a tile."""
    report = replicas.main(count, 6).report if count > 1 else programs.some_wait(64)
    scene = show.balance(report).scene
    (histogram,) = (mark for mark in scene.marks if mark.name == "histogram")
    assert isinstance(histogram, Painted)
    assert histogram.heading == "tiles by busy cycles"
    for still in scene.stills:
        (work,) = (v["work"] for name, (_, v) in still.about.items() if name.startswith("tiles of"))
        words = [
            s.text for s in histogram.pictures[still.pictures["histogram"]] if isinstance(s, Words)
        ]
        assert f"{int(work.max()):,} cycles" in words
