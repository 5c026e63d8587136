"""`show.run`: every number in it is that of a plain loop, and what travels and where it comes from
is what the program says."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import numpy as np
import pytest
from recorded_programs import (
    CELLS,
    TILES,
    halo_recording,
    large_recording,
    merged_copy_recording,
    ring_recording,
    shifted_sums_recording,
    smoothed_by_hand,
    smoothing_program,
)
from two_tile_ipus import TwoTileMachine

from ipu_teach import (
    FLOAT,
    Engine,
    Graph,
    IPUModel,
    show,
)
from ipu_teach.errors import InvalidOptionError
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Copy, Program, Repeat, Sequence
from ipu_teach.report import Recording
from ipu_teach.show import board as drawn
from ipu_teach.show.board import Places, short, value_codes
from ipu_teach.show.pack import pack
from ipu_teach.show.paint import paint, pieces
from ipu_teach.show.scene import Board, Scene
from ipu_teach.show.shapes import Stroke, Words
from ipu_teach.show.svg import svg
from ipu_teach.types import Array
from tests.unpacking import unpack


def smoothed(repeats: int = 5) -> Recording:
    engine, u, v, device = smoothing_program(repeats)
    recording = engine.record(u, v)
    engine.load(device)
    engine.run()
    return recording


def board_of(scene: Scene) -> Board:
    found = scene.mark("board")
    assert isinstance(found, Board)
    return found


def replayed(scene: Scene) -> list[tuple[int, dict[str, str]]]:
    """(superstep, what its cells hold by name) at the end of every superstep, from what travels to
    the browser alone."""
    data = json.loads(scene.json())
    (board,) = (m for m in data["marks"] if m["kind"] == "board")
    (many, whole, end, *others), first, count, *packed = data["numbers"]["board"]
    texts = [f"{size}{end}" for size in unpack(whole, many).tolist()] + others
    frame, cell, text = (unpack(part, count).tolist() for part in packed)
    now = unpack(first, board["count"]).tolist()
    named, index = (unpack(board[key], board["count"]).tolist() for key in ("named", "index"))
    frames, found, k, superstep = unpack(data["frames"][1], data["frames"][0]).tolist(), [], 0, 0
    for f, still in enumerate(frames):
        superstep += data["stills"][still].get("first", 0)
        while k < count and frame[k] == f:
            now[cell[k]] = text[k]
            k += 1
        if f + 1 == len(frames) or "first" in data["stills"][frames[f + 1]]:
            held = {
                f"{board['names'][n]}[{i}]": texts[t]
                for n, i, t in zip(named, index, now, strict=True)
            }
            found.append((superstep, held))
    assert k == count
    return found


def test_every_number_is_that_of_a_plain_loop() -> None:
    scene = show.run(smoothed()).scene
    steps = replayed(scene)
    assert [number for number, _ in steps] == list(range(1, 11))
    for (_, held), (u, v) in zip(steps, smoothed_by_hand(5), strict=True):
        for name, values in (("u", u), ("v", v)):
            for i in range(CELLS):
                assert np.float32(held[f"{name}[{i}]"]) == values[i]  # and the text is its shortest
                assert held[f"{name}[{i}]"] == str(values[i])


def test_the_table_tells_every_change() -> None:
    view = show.run(smoothed())
    before, rows = ([3.0 if i == 4 else 0.0 for i in range(CELLS)], [np.nan] * CELLS), []
    for step, (u, v) in enumerate(smoothed_by_hand(5), start=1):
        for name, old, new in (("u", before[0], u), ("v", before[1], v)):
            for i in range(CELLS):
                if old[i] != new[i]:  # NaN is not equal to anything
                    was = "?" if np.isnan(old[i]) else str(np.float32(old[i]))
                    rows.append((step, i * TILES // CELLS, f"{name}[{i}]", was, str(new[i])))
        before = (u.tolist(), v.tolist())
    told = [
        (int(r["superstep"]), int(r["tile"]), r["element"], r["old"], r["new"]) for r in view.data
    ]
    assert told == rows
    assert repr(view).startswith("The numbers of u and v in 10 supersteps on 4 tiles, ")
    u, v = ([x for step in smoothed_by_hand(5) for x in step[k]] for k in (0, 1))
    said = f"u, {min(u):.6g} to {max(3.0, *u):.6g}; v, {min(v):.6g} to {max(v):.6g}."
    assert f" The picture has {len(rows)} changes of 24 elements. Values: {said}" in repr(view)


@pytest.mark.parametrize("tiles", [4, 64, 130])
def test_the_ranges_of_the_legend_are_those_of_all_recorded_elements(tiles: int) -> None:
    recording = large_recording(tiles, 20 * tiles, 2)
    scene = show.run(recording).scene
    board = board_of(scene)
    for track, rim in zip(recording.tracks, board.rims, strict=True):
        pairs = [(track.first, track.first_written), *(change[2:] for change in track.changes)]
        values = [float(v) for of, known in pairs for v, is_known in zip(of, known, strict=True)
                  if is_known]  # fmt: skip
        span = f"{min(values):.6g} to {max(values):.6g}"
        assert scene.codes[rim].name.endswith(f"(its rim), {span}")
        assert span in scene.sentence
        # the drawn cells' own range is smaller if elements are left out, so it would not pass
    # the curve of an element and the list of its tile have as many digits as the legend
    assert short("104416.0", 66, 6) == "104416" and short("0.36254883", 66, 6) == "0.362549"


def test_a_tensor_without_a_value_and_one_that_never_changes_say_so() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    graph = Graph(device.target)
    x, y, z = (graph.add_variable(FLOAT, (4,), name) for name in "xyz")
    for tensor in (x, y, z):
        graph.set_tile_mapping(tensor, 0)
    graph.set_initial_value(x, 1.0)
    engine = Engine(graph, Copy(x, y))
    recording = engine.record(x, y, z)
    engine.load_and_run(device)
    names = [code.name for code in show.run(recording).scene.codes[-3:]]
    assert names == [
        "x (its rim), always 1",
        "y (its rim), always 1",
        "z (its rim), without a value",
    ]
    # two tensors of a variable are told apart by their elements
    engine = Engine(graph, Copy(x, y))
    recording = engine.record(x[:2], x[2:], y)
    engine.load_and_run(device)
    names = [code.name.partition(" (")[0] for code in show.run(recording).scene.codes[-3:]]
    assert names == ["x[0] to x[1]", "x[2] to x[3]", "y"]


def test_a_copy_that_joins_a_compute_set_says_where_it_comes_from() -> None:
    scene = show.run(merged_copy_recording()).scene
    board, (change,) = board_of(scene), [s for s in scene.stills if s.label.startswith("change: ")]
    assert {
        element(board, cell): origins.how.format(name=board.names[name], index=index, tile=tile)
        for origins in change.origins["board"]
        for cell, name, index, tile in zip(
            origins.cell, origins.name, origins.index, origins.tile, strict=True
        )
    } == {
        "sum": "written by vertex 0 of Sums on tile 2",
        "b[0]": "copied from a[0] on tile 1",
        "b[1]": "copied from a[1] on tile 1",
    }


def test_rows_of_streaming_memory_travel_together() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    graph = Graph(device.target)
    x, y = graph.add_variable(FLOAT, (2,), "x"), graph.add_variable(FLOAT, (2,), "y")
    graph.set_tile_mapping(x, 0)
    graph.set_tile_mapping(y, 1)
    rows, more, out, away = (
        graph.add_remote_buffer(name, FLOAT, 2, 1) for name in ("rows", "more", "out", "away")
    )
    engine = Engine(graph, Sequence(Copy(rows, x), Copy(more, y), Copy(x, out), Copy(y, away)))
    recording = engine.record(x, y)
    engine.load(device)
    engine.copy_to_remote_buffer(np.float32([[1.5, 2]]), "rows")
    engine.copy_to_remote_buffer(np.float32([[3, -4]]), "more")
    engine.run()
    scene = show.run(recording).scene
    board = board_of(scene)
    (change,) = (s for s in scene.stills if s.label.startswith("change: ") and s.origins)
    assert {
        element(board, cell): origins.how.format(name=board.names[name], index=index)
        for origins in change.origins["board"]
        for cell, name, index in zip(origins.cell, origins.name, origins.index, strict=True)
    } == {
        "x[0]": "element 0 of the remote buffer rows",
        "x[1]": "element 1 of the remote buffer rows",
        "y[0]": "element 0 of the remote buffer more",
        "y[1]": "element 1 of the remote buffer more",
    }
    tiles = [*board.tiles, -1]  # -1 is streaming memory
    assert [
        (tiles[m.source], tiles[int(m.receivers[0])], m.size, [element(board, c) for c in m.cells])
        for still in scene.stills
        for m in still.flows.get("messages", ())
        if m.cells is not None
    ] == [
        (-1, 0, 8, ["x[0]", "x[1]"]),
        (-1, 1, 8, ["y[0]", "y[1]"]),
        (0, -1, 8, ["x[0]", "x[1]"]),
        (1, -1, 8, ["y[0]", "y[1]"]),
    ]


def test_what_travels_and_where_it_comes_from() -> None:
    recording, report, _ = halo_recording()
    scene = show.run(recording).scene
    board, numbers = board_of(scene), scene.numbers["board"]
    tiles = [*board.tiles, -1]
    said, came = [], {}
    for frame, number in enumerate(scene.frames.tolist()):
        still = scene.stills[number]
        last = max(
            f
            for f in range(len(scene.frames))
            if sum(scene.stills[n].first for n in scene.frames[: f + 1].tolist())
            == sum(scene.stills[n].first for n in scene.frames[: frame + 1].tolist())
        )
        for message in still.flows.get("messages", ()):
            assert message.cells is not None and 0 < message.end <= still.cycles
            texts = numbers.at(last if message.after else frame)
            carried = [
                f"{board.names[board.named[c]]}[{board.index[c]}]={texts[c]}"
                for c in message.cells.tolist()
            ]
            kind = still.label.split(":")[0]
            said.append(
                (
                    kind,
                    tiles[message.source],
                    tiles[int(message.receivers[0])],
                    message.size,
                    *carried,
                )
            )
        for origins in still.origins.get("board", ()):
            for cell, name, index, tile in zip(
                origins.cell, origins.name, origins.index, origins.tile, strict=True
            ):
                key = f"{board.names[board.named[cell]]}[{board.index[cell]}]"
                came[key] = origins.how.format(name=board.names[name], index=index, tile=tile)
    assert said == [
        ("host exchange", -1, 1, 8, "a[0]=0.75", "a[1]=-2.0"),
        ("exchange", 1, 3, 8, "b[0]=0.75", "b[1]=-2.0"),
        ("exchange", 1, 2, 4, "a[1]=-2.0"),
        ("exchange", 3, 2, 4, "b[0]=0.75"),
        ("exchange", 2, 0, 4, "sum[0]=-1.25"),
    ]
    assert came == {
        "a[0]": "element 0 of the stream in",
        "a[1]": "element 1 of the stream in",
        "b[0]": "copied from a[0] on tile 1",
        "b[1]": "copied from a[1] on tile 1",
        "sum[0]": "written by vertex 0 of Sums on tile 2",
        "count[0]": "written by vertex 0 of Sums on tile 2",
    }
    names = {element(board, c): c for c in range(board.count)}
    work = next(s for s in scene.stills if s.label.startswith("compute: Execute"))
    assert [set(some.tolist()) for some in work.touches["board"]] == [
        {names["a[1]"], names["b[0]"], names["count"]},
        {names["sum"], names["count"]},
    ]
    assert (
        sum(s.cycles for s in (scene.stills[i] for i in scene.frames.tolist()))
        == report.total_cycles
    )
    assert re.search(
        r"line \d+: program: Program = Sequence\(Copy\(stream", "\n".join(scene.sources)
    )
    assert (
        "Sums.compute\n  1  def compute(self) -> None:\n  2      self.out = self.values[0] + "
        "self.values[1]" in scene.sources[-1]
    )


def element(board: Board, cell: int) -> str:
    return board.element(int(board.named[cell]), int(board.index[cell]))


def test_one_tensor_of_several_and_what_is_refused() -> None:
    recording, _, made = halo_recording()
    board = board_of(show.run(recording, made["b"], made["sum"]).scene)
    assert [element(board, c) for c in range(board.count)] == [
        "b[0]",
        "b[1]",
        "sum",
    ] and board.tiles == (0, 3)
    engine, u, v, device = smoothing_program()
    empty = engine.record(u)
    for call, text in (
        (
            lambda: show.run(engine.report),
            "show.run() was given Report(…), which is not a recording",
        ),  # type: ignore[arg-type]
        (lambda: show.run(empty), "show.run() was given a recording in which nothing has run"),
        (lambda: show.run(recording, u), "which is not recorded"),
    ):
        with pytest.raises(InvalidOptionError) as caught:
            call()
        assert text.replace("Report(…)", "") in str(caught.value).replace(repr(engine.report), "")
        assert "\n  next:  " in str(caught.value)


def test_seven_tensors_are_too_many() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    graph = Graph(device.target)
    parts = [graph.add_variable(FLOAT, (1,), f"t{i}") for i in range(7)]
    for part in parts:
        graph.set_tile_mapping(part, 0)
        graph.set_initial_value(part, 1.0)
    engine = Engine(graph, Copy(parts[0], parts[1]))
    recording = engine.record(*parts)
    engine.load(device)
    engine.run()
    with pytest.raises(
        InvalidOptionError,
        match="was given 7 tensors, but it draws at most 6.\n  next:  name the tensors",
    ):
        show.run(recording)


def test_what_the_host_writes_is_a_change_of_its_own() -> None:
    engine, u, _, device = smoothing_program(1)
    engine.load(device)
    recording = engine.record(u)
    # before the first step: it stands there from the beginning
    engine.write_tensor("u", np.arange(CELLS))
    engine.run()
    engine.write_tensor("u", np.full(CELLS, 0.5))
    engine.run()
    scene = show.run(recording).scene
    assert scene.numbers["board"].at(-1) == [str(float(i)) for i in range(CELLS)]
    changes = [scene.stills[i].label for i in scene.frames.tolist() if not scene.stills[i].cycles]
    assert changes == ["change: Copy 'v' to 'u'", "change: the host writes between two runs"]
    assert scene.numbers["board"].at(len(scene.frames) - 1) == ["0.5"] * CELLS


@pytest.mark.parametrize(("tiles", "cells", "repeats"), [(13, 26, 20), (130, 2600, 300)])
def test_a_large_recording_shows_less_and_says_so(tiles: int, cells: int, repeats: int) -> None:
    recording = large_recording(tiles, cells, repeats)
    view = show.run(recording)
    board = board_of(view.scene)
    size = len(view._repr_html_())
    assert board.count <= 512 and len(board.tiles) <= 64
    if tiles == 13:
        assert size <= 60_000
        return
    assert size <= 150_000
    notes = " ".join(view.scene.notes)
    shown = re.search(r"the first (\d+) of 300 supersteps of the recorded run", notes)
    assert (
        shown
        and int(shown[1])
        == sum(view.scene.stills[i].first for i in view.scene.frames.tolist())
        < 300
    )
    assert "Of 130 tiles with such elements, the first 64 are drawn." in notes
    elements = re.search(r"Of ([\d,]+) elements on these tiles (\d+) are drawn", notes)
    assert elements and int(elements[2]) == board.count
    assert (
        int(elements[1].replace(",", ""))
        == 64 * 20 + 64 * 20
        == board.count + int(board.left.sum())
    )


def test_digits_and_colours() -> None:
    assert [short("0.36254883", room) for room in (60, 38, 26, 20, 10)] == [
        "0.3625",
        "0.3625",
        "0.36",
        "0.4",
        "",
    ]
    assert [
        short(text, 44)
        for text in ("123456", "1234567890", "True", "?", "nan", "inf", "-0.5", "1e-08")
    ] == [
        "123456",
        "1e+09",
        "True",
        "?",
        "nan",
        "inf",
        "-0.5",
        "1e-08",
    ]
    assert short("False", 12) == "F"
    board = board_of(show.run(smoothed()).scene)
    assert board.bounds == ((0.75, 1.5, 2.25), (0.375, 0.75, 1.125))  # of u and v
    texts = ["?", "nan", "0.0", "0.74", "0.75", "3.0", "inf", "-inf"]
    texts += ["?"] * (board.count - len(texts) - 2) + ["0.74", "1.2"]
    first = board.steps
    assert value_codes(board, texts).tolist()[-2:] == [first + 1, first + 3]
    assert value_codes(board, texts).tolist()[:8] == [
        board.unwritten,
        board.unwritten + 1,
        first,
        first,
        first + 1,
        first + 3,
        first + 3,
        first,
    ]


def test_of_several_ipus_the_run_lasts_as_long_as_the_run() -> None:
    recording, report = ring_recording()
    scene = show.run(recording).scene
    assert sum(s.cycles for s in (scene.stills[i] for i in scene.frames)) > report.total_cycles
    assert scene.begins[-1] == report.total_cycles and np.all(np.diff(scene.begins) >= 0)
    _, cycles = pieces(scene)
    assert cycles.sum() == report.total_cycles
    assert f" of 3 IPUs, {report.total_cycles:,} modelled cycles." in scene.sentence
    assert json.loads(scene.json())["clock"] == pack(scene.begins)
    # who has no part in a step neither computes in it nor waits
    work = next(s for s in scene.stills if s.label == "compute: Execute work 1")
    code, until, _ = work.cells["board"]
    assert [scene.codes[c].name for c in np.asarray(code)[[0, 6, 12]]] == [
        "not at work",
        "compute",
        "not at work",
    ]
    assert np.asarray(until).tolist() == [work.cycles] * 18 and "equally fast" in work.note


@pytest.mark.parametrize("seed", range(8))
def test_random_runs_of_several_ipus_last_as_long_as_their_reports(seed: int) -> None:
    rng = Random(seed)
    m = TwoTileMachine(ipus := rng.choice([1, 2, 4]))

    def some() -> Program:
        tiles = rng.sample(range(2 * ipus), rng.randint(1, 2 * ipus))
        if len(tiles) > 1 and rng.random() < 0.4:
            return Copy(m.numbers[tiles[0]], m.numbers[tiles[-1]])
        return m.work(f"w{rng.random()}", **{f"t{t}": rng.choice([1, 10, 90]) for t in tiles})

    body = Repeat(rng.randint(1, 3), Sequence(*(some() for _ in range(rng.randint(1, 6)))))
    engine = Engine(m.graph, Sequence(some(), body, some()))
    recording = engine.record(m.numbers)
    engine.load(m.device)
    for _ in range(rng.randint(1, 2)):
        engine.run()
    report, scene = engine.report, show.run(recording).scene
    assert scene.begins[-1] == show.timeline(report).scene.begins[-1] == report.total_cycles
    assert f", {report.total_cycles:,} modelled cycles. " in scene.sentence
    for still in scene.stills:  # what a step takes by itself is not changed
        assert still.cycles >= 0 and (still.cycles or still.label.startswith("change"))
    sent = sum(
        m.size
        for i in scene.frames
        for m in scene.stills[i].flows.get("messages", ())
        if board_of(scene).link(m)
    )
    per = report.target.tiles_per_ipu
    assert sent == sum(
        size
        for step in report.step_numbers.tolist()
        for moved in report.transfers(step)
        for source, size, to in zip(moved.source, moved.size, moved.receivers, strict=True)
        for receiver in to
        if receiver // per != source // per
    )


def test_between_ipus_there_are_links_and_boxes_stand_ipu_by_ipu() -> None:
    recording, _ = ring_recording()
    scene = show.run(recording).scene
    board, copied = board_of(scene), [s for s in scene.stills if s.flows]
    for still in copied:  # three links, each with the bytes of an IPU
        assert still.label.startswith("exchange between IPUs: Copy")
        links = still.flows["messages"]
        assert [
            (board.ipu(m.source), board.ipu(int(m.receivers[0])), m.size, m.count) for m in links
        ] == [(0, 1, 96, 24), (1, 2, 96, 24), (2, 0, 96, 24)]
        assert all(board.link(m) for m in links)
    assert len(copied) == 1 and len(scene.frames) > scene.poster
    words = [s.text for s in paint(scene, scene.poster) if isinstance(s, Words)]
    assert words.count("3 messages, 96 B each") == 1 and {"IPU 0", "IPU 1", "IPU 2"} <= set(words)
    places = Places(board)
    rows = [{places.corner(b)[1] for b in range(18) if board.ipu(b) == ipu} for ipu in range(3)]
    assert max(rows[0]) < min(rows[1]) and max(rows[1]) < min(rows[2])
    assert places.tall == board.height


def test_rounds_are_those_of_a_repeat_and_each_tensor_has_a_scale() -> None:
    recording, _ = ring_recording()
    scene = show.run(recording).scene
    assert {scene.stills[i].label.split(": ")[1] for i in scene.data["rounds"]} == {
        "Execute work 0",
        "Execute work 1",
        "Execute work 2",
        "Copy 'a' to 'b'",
    }
    assert not show.run(halo_recording()[0]).scene.data["rounds"]
    board = board_of(scene)
    assert [len(own) for own in board.bounds] == [6, 6]
    names = [scene.codes[i].name for i in scene.legend]
    assert any(re.fullmatch(r"a \(its rim\), -7 to [\d.e+]+", name) for name in names)
    assert "far below 0" in names


def test_many_messages_are_arrows_and_of_very_many_those_of_the_tile_in_question() -> None:
    for tiles, count, said in ((13, 13, "13 messages, 104 B"), (64, 64, "64 messages, 512 B")):
        scene = show.run(large_recording(tiles, 2 * tiles, 2)).scene
        shapes = list(paint(scene, scene.poster))
        assert sum(isinstance(s, Stroke) and s.arrow for s in shapes) == count
        assert any(isinstance(s, Words) and s.text == said for s in shapes)


def test_cells_stand_in_their_boxes() -> None:
    scene = show.run(large_recording(20, 400, 2)).scene
    board = board_of(scene)
    places = Places(board)
    rows: Array = places.cells()
    for cell, (x, y, wide, high) in enumerate(rows.tolist()):
        left, top = places.corner(int(board.box[cell]))
        assert (
            left < x
            and x + wide <= left + places.wide
            and top + drawn.HEAD <= y
            and y + high <= top + board.high - drawn.FOOT + 4
        )
    assert len({(round(x, 3), round(y, 3)) for x, y, *_ in rows.tolist()}) == board.count
    text = svg(scene)
    assert (
        f"tile {board.tiles[int(board.box[board.focus])]} holds" in text
        and "font-size:11px" in text
        and "font-size:10" not in text
    )


def test_a_vertex_of_a_library_is_told_in_a_sentence_and_its_source_is_not_shown() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph, program = Graph(device), Sequence()
    x = graph.add_variable(FLOAT, (8,), "x")
    poputil.map_tensor_linearly(graph, x)
    graph.set_initial_value(x, 2.0)
    total = popops.reduce(graph, popops.add(graph, x, x, program), [0], program, operation="ADD")
    engine = Engine(graph, program)
    engine.load(device)
    recording = engine.record(x, total)
    engine.run()
    told = "\n".join(show.run(recording).scene.sources)
    said = "Set each element of `out` to `a op b`, where `op` is the operation."
    assert f"popops::BinaryOp1D<ADD,float>: {said}" in told
    assert (
        "<ADD,float>: Reduce the rows of x, first to last, and write the result to `out`." in told
    )
    assert "self" not in told and "def " not in told


def carried_by_hand() -> list[tuple[str, set[str]]]:
    """For each exchange of `handed_on` (a step's name, its lines)."""
    u, found = np.arange(10, dtype=np.float32) / 4, []
    for _ in range(2):
        into = {
            (e // 2, t, "u", e)
            for t in range(5)
            for e in range(max(0, 2 * t - 1), min(10, 2 * t + 3))
            if e // 2 != t
        }
        sums = np.array([u[max(0, 2 * t - 1)] + u[min(10, 2 * t + 3) - 1] for t in range(5)])
        lines = lines_of({(a, b, n, e, float(u[e])) for a, b, n, e in into})
        lines |= lines_of({(e // 2, (e // 2 + 1) % 5, "w", e, float(u[e])) for e in range(10)})
        found += [
            ("add", lines),
            ("add", lines_of({(t, (t + 2) % 5, "s", t, float(sums[t])) for t in range(5)})),
        ]
        u = u[::-1].copy()
        back = {((9 - e) // 2 + 1, e // 2, "u", e, float(u[e])) for e in range(10)}
        found.append(("'u'", lines_of({(a % 5, b, *more) for a, b, *more in back if a % 5 != b})))
    return found


def lines_of(carried: set[Any]) -> set[str]:
    by_pair: dict[tuple[int, int, str], list[str]] = {}
    for source, to, name, element, number in sorted(carried):
        by_pair.setdefault((source, to, name), []).append(f"{name}[{element}] = {number}")
    return {f"{source} to {to}: {', '.join(some)}" for (source, to, _), some in by_pair.items()}


@pytest.mark.parametrize("view", [show.bsp, show.exchange])
def test_messages_say_what_they_carry(view: Any) -> None:
    recording = shifted_sums_recording()
    scene = view(recording).scene
    content, expected = scene.data["content"], carried_by_hand()
    if view is show.exchange:  # each of them the first time
        expected = expected[:3]
    assert len(content) == len(expected)
    for (frame, lines), (name, by_hand_) in zip(content.items(), expected, strict=True):
        assert name in scene.stills[int(scene.frames[int(frame)])].label
        assert set(lines) == by_hand_ and len(lines) == len(by_hand_)
    assert "content" not in view(recording.report).scene.data
    numbers = show.run(recording).scene  # and so do those of the board
    flying = [
        [m for m in s.flows.get("messages", ()) if m.cells is not None] for s in numbers.stills
    ]
    assert [sum(m.count for m in some) for some in flying if some] == [
        sum(line.count(" = ") for line in lines) for _, lines in carried_by_hand()[:3]
    ]
