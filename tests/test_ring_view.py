"""The view `ring`, compared with a plain loop of each algorithm, message by message.

The loop follows every element by its position in the tensor. Bytes are compared with those counted
message by message.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from all_reduces import all_reduce_report, bytes_by_link, run_and_read, tensors_by_ipu
from recorded_programs import round_trip_recording
from view_programs import pipeline_training

from ipu_teach import (
    FLOAT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Report,
    Tensor,
    Vector,
    Vertex,
    show,
)
from ipu_teach.errors import InvalidOptionError
from ipu_teach.poplibs import gcl
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.show.scene import Painted
from ipu_teach.show.shapes import Boxes, Stroke, Words
from ipu_teach.show.view import View

RINGS = {
    2: [0, 1],
    3: [0, 2, 1],
    4: [0, 2, 3, 1],
    6: [0, 2, 4, 5, 3, 1],
    8: [0, 2, 4, 6, 7, 5, 3, 1],
}
# round, from, to, chunk, IPUs in its sum, where it began (-1: the sum is complete), elements
Message = tuple[int, int, int, int, int, int, int]


def messages_of(count: int, method: str, elements: int) -> set[Message]:
    """Return the messages of an all-reduce of `elements` numbers on `count` IPUs.

    A plain loop over rounds and IPUs; all chunks have the same size. What an IPU has of an element is (the IPUs whose numbers are
    in it, where it began).
    """
    ring = RINGS[count]
    paths = {  # (part of a chunk, direction, hops)
        "clockwise_ring": [(0, 1, count - 1)],
        "anticlockwise_ring": [(0, -1, count - 1)],
        "bidirectional_ring_pair": [(0, 1, count - 1), (1, -1, count - 1)],
        "meet_in_middle_ring": [(0, 1, (count - 1) // 2), (0, -1, count // 2)],
    }[method]
    parts = 1 + max(part for part, *_ in paths)
    rounds = max(hops for *_, hops in paths)

    def region(chunk: int, part: int) -> range:
        begin, end = elements * chunk // count, elements * (chunk + 1) // count
        return range(
            begin + (end - begin) * part // parts, begin + (end - begin) * (part + 1) // parts
        )

    has = [{e: (frozenset({ipu}), ipu) for e in range(elements)} for ipu in range(count)]
    sent = Counter[tuple[int, int, int, int, int, int]]()
    for k in range(2 * rounds):
        arrived = []
        for part, turn, hops in paths:
            for at, home in enumerate(ring) if k % rounds < hops else ():
                first = at - turn * (hops - k) if k < rounds else at + turn * (k - rounds)
                source, target = (ring[(first + turn * n) % count] for n in (0, 1))
                for element in region(home, part):
                    ipus, began = has[source][element]
                    is_sum = len(ipus) == count
                    began = -1 if is_sum else began
                    sent[k + 1, source, target, home, len(ipus), began] += 1
                    arrived.append((target, element, ipus, began))
        for target, element, ipus, began in arrived:
            own_ipus, _ = has[target][element]
            assert k >= rounds or not ipus & own_ipus
            has[target][element] = (ipus | own_ipus, began)
    assert all(len(ipus) == count for own in has for ipus, _ in own.values())
    return {(*key, number) for key, number in sent.items()}


def messages_in(view: View, count: int) -> list[Message]:
    """Return the messages in the table of a view of FLOAT numbers on `count` IPUs."""
    found = []
    for row in view.data:
        a, b, c, d = (int(row[name]) for name in ("round", "from IPU", "to IPU", "chunk"))
        ipus = count if row["sum"] == "complete" else int(row["sum"].removesuffix(f" of {count}"))
        began = int(row["began on IPU"] or -1)
        found.append((a, b, c, d, ipus, began, int(row["bytes"].replace(",", "")) // 4))
    return found


def test_a_chunk_of_a_reduce_scatter_keeps_where_it_began_and_arrows_are_lines() -> None:
    graph = Graph(IPUModel(num_ipus=4, tiles_per_ipu=2).create_device(), replication_factor=4)
    x, prog = graph.add_variable(FLOAT, (64,), "x"), Sequence()
    graph.set_tile_mapping(x, 0)
    graph.set_initial_value(x, 1)
    way = {"method": "clockwise_ring"}
    gcl.reduce_scatter_cross_replica(graph, x, "ADD", prog, options=way)
    engine = Engine(graph, prog)
    engine.load(IPUModel(num_ipus=4, tiles_per_ipu=2).create_device())
    engine.run()
    view, ring = show.ring(engine.report), RINGS[4]
    names = "round", "from IPU", "to IPU", "began on IPU", "chunk"
    assert sorted(tuple(int(row[name]) for name in names) for row in view.data) == sorted(
        (k + 1, ring[p], ring[(p + 1) % 4], ring[p - k], ring[p - k - 1])
        for k in range(3)
        for p in range(4)
    )
    mark = view.scene.mark("ring")
    assert isinstance(mark, Painted)
    arrows = [s for some in mark.pictures for s in some if isinstance(s, Stroke)]
    # what is thicker is a dot, which a narrow page does not press with the rest
    assert len(arrows) == 12 and all(arrow.arrow and arrow.width <= 3 for arrow in arrows)


@pytest.mark.parametrize(
    ("count", "method"),
    [
        (2, "clockwise_ring"),
        (3, "clockwise_ring"),
        (4, "clockwise_ring"),
        (4, "meet_in_middle_ring"),
        (6, "meet_in_middle_ring"),
        (4, "anticlockwise_ring"),
        (6, "bidirectional_ring_pair"),
        (8, "clockwise_ring"),
        (8, "bidirectional_ring_pair"),
        (8, "meet_in_middle_ring"),
    ],
)
def test_chunks_move_as_in_a_plain_loop_and_keep_their_number(count: int, method: str) -> None:
    report = all_reduce_report(count, 624, method, tiles=13 if count < 6 else 2)
    view, links = show.ring(report), bytes_by_link(report)
    told = messages_in(view, count)
    assert sorted(told) == sorted(messages_of(count, method, 624))
    total = sum(int(row["bytes"].replace(",", "")) for row in view.data)
    hops = 4 if count == 3 else count  # from IPU 2 to IPU 1 of three there are two links
    assert total * hops == sum(links.values()) * count
    assert f"carry {sum(links.values()):,} bytes in all" in repr(view)
    assert f", {max(links.values()):,}; the rounds take" in repr(view)
    steps = {int(row["superstep"]): row["cycles"] for row in view.data}
    assert steps == {s.index: f"{s.cycles:,}" for s in report.steps() if s.kind == "Copy"}
    if count > 3:
        listed = ", ".join(map(str, RINGS[count]))
        both = ", both ways" * ("clockwise_ring" not in method)
        if method == "anticlockwise_ring":
            listed = "0, 1, 3, 2"
        assert f"rounds round the ring IPU {listed}{both}: an IPU" in repr(view)
    # the picture of all rounds, and of each round, has these colours and no others
    mark, ring = view.scene.mark("rounds"), view.scene.mark("ring")
    assert isinstance(mark, Painted) and isinstance(ring, Painted)
    wide, rounds = mark.width / len(view.scene.frames), len(view.scene.frames)
    seen = sorted(
        (round(x / wide) + 1, shape.code)
        for shape in mark.pictures[0]
        if isinstance(shape, Boxes)
        for x in shape.boxes[:, 0].tolist()
    )
    assert seen == sorted((k, chunk) for k, _, _, chunk, *_ in told)
    for k in range(rounds):
        boxes = [s for s in ring.pictures[k] if isinstance(s, Boxes) and s.code < count]
        assert sorted((k + 1, s.code) for s in boxes) == [one for one in seen if one[0] == k + 1]
    names = {view.scene.codes[i].name for i in view.scene.legend}
    assert names == {f"chunk {i}" for i in range(count)}


@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_chunks_of_replicas_move_as_in_a_plain_loop_and_keep_their_number(replicas: int) -> None:
    device = IPUModel(num_ipus=replicas, tiles_per_ipu=2).create_device()
    graph = Graph(device, replication_factor=replicas)
    x = graph.add_variable(FLOAT, (48,), "x")
    prog = Sequence()
    graph.set_tile_mapping(x[:24], 0)
    graph.set_tile_mapping(x[24:], 1)
    graph.set_initial_value(x, 1)
    way = {"method": "clockwise_ring"}
    gcl.all_reduce_in_place_cross_replica(graph, x, "ADD", prog, options=way)
    engine = Engine(graph, prog)
    engine.load_and_run(device)
    told = messages_in(show.ring(engine.report), replicas)
    assert sorted(told) == sorted(messages_of(replicas, "clockwise_ring", 48))


class Add(Vertex):
    into: InOut[Vector[FLOAT]]
    addend: Input[Vector[FLOAT]]

    def compute(self) -> None:
        self.into = self.into + self.addend


def test_a_ring_written_by_hand_keeps_its_chunks_which_their_sizes_tell_apart() -> None:
    # Place p sends chunk p first, so its chunk is not the one that it completes.
    begins = [0, 2, 6, 12, 20]  # chunk c has 2 * (c + 1) numbers
    ring = RINGS[4]
    graph, (tensors,) = tensors_by_ipu(4, begins[-1], tiles=3)
    prog = Sequence()

    def chunk_at(place: int, chunk: int) -> Tensor:
        return tensors[ring[place % 4]][begins[chunk % 4] : begins[chunk % 4 + 1]]

    inboxes = []
    for place in range(4):
        inboxes.append(graph.add_variable(FLOAT, (8,), f"inbox {place}"))
        graph.set_tile_mapping(inboxes[-1], 3 * ring[place])
    expected = []
    for k in range(6):
        move = Sequence()
        adds = graph.add_compute_set(f"add {k}")
        for place in range(4):
            chunk = (place - k + (k > 2)) % 4
            size = begins[chunk + 1] - begins[chunk]
            source = chunk_at(place, (place - k) if k < 3 else (place + 4 - k))
            sent = source.num_elements
            number = (place - k) % 4 if k < 3 else (place + 4 - k) % 4
            assert size > 0 and sent == 2 * (number + 1)
            target = chunk_at(place + 1, number)
            if k < 3:
                box = inboxes[(place + 1) % 4][:sent]
                move.add(Copy(source, box))
                vertex = graph.add_vertex(adds, Add, into=target, addend=box)
                graph.set_tile_mapping(vertex, 3 * ring[(place + 1) % 4])
            else:
                move.add(Copy(source, target))
            parts = k + 1 if k < 3 else 4
            began = ring[(place - k) % 4] if k < 3 else -1
            expected.append((k + 1, ring[place], ring[(place + 1) % 4], number, parts, began, sent))
        prog.add(move)
        if k < 3:
            prog.add(Execute(adds))
    values, report = run_and_read(graph, prog, tensors)
    assert all((value == 10).all() for value in values)
    view = show.ring(report)
    assert sorted(messages_in(view, 4)) == sorted(expected)
    assert view.scene.title.startswith("After round 3 the sums are complete, one chunk on each IPU")


def test_the_heading_explains_the_texts_in_boxes_and_a_note_the_frames() -> None:
    scene = show.ring(all_reduce_report(4, 520, "clockwise_ring")).scene
    mark = scene.mark("rounds")
    assert isinstance(mark, Painted)
    example = re.fullmatch(
        r"all rounds; ((\d): 3/4): chunk (\d), the sum of 3 of 4 IPUs", mark.heading
    )
    assert example and example[2] == example[3]
    assert example[1] in {s.text for s in mark.pictures[0] if isinstance(s, Words)}
    assert "A frame marks a complete sum, to which all IPUs have added." in scene.notes
    assert "frame" not in mark.heading and len(set(scene.notes)) == len(scene.notes)
    fractions = [s.text for s in mark.pictures[0] if isinstance(s, Words) and "/" in s.text]
    assert Counter(f.split(": ")[1] for f in fractions) == {"1/4": 4, "2/4": 4, "3/4": 4, "4/4": 12}
    rounds = [s.text for s in mark.pictures[0] if isinstance(s, Words) and "round" in s.text]
    assert rounds == [f"round {k}" for k in range(1, 7)]
    scene = show.ring(all_reduce_report(8, 624, "clockwise_ring", tiles=2)).scene
    mark = scene.mark("rounds")
    assert isinstance(mark, Painted)
    assert mark.heading == "all rounds; 7/8: the sum of 7 of 8 IPUs"  # the boxes are narrower
    in_middle = [s for s in mark.pictures[0] if isinstance(s, Words) and s.anchor == "middle"]
    in_boxes = {s.text for s in in_middle if isinstance(s.ink, int)}
    assert in_boxes == {f"{i}/8" for i in range(1, 9)}
    columns = [s.text for s in in_middle if s.ink == "ink"]
    assert columns == [f"{k}" for k in range(1, 15)]  # no room for "round"


def test_data_that_is_not_summed_has_the_colour_of_the_ipu_on_which_it_began() -> None:
    graph, (tensors,) = tensors_by_ipu(4, 52)
    prog = Sequence()
    result = gcl.all_gather_within_replica(graph, tensors, prog)
    view = show.ring(run_and_read(graph, prog, result)[1])
    assert {view.scene.codes[i].name for i in view.scene.legend} == {
        f"data from IPU {i}" for i in range(4)
    }
    assert all(row["chunk"] == "" and row["sum"] == "1 of 4" for row in view.data)
    ring = RINGS[4]
    first = {(row["from IPU"], row["began on IPU"]) for row in view.data if row["round"] == "1"}
    assert first == {(f"{i}", f"{i}") for i in ring}


def test_the_next_collective_begins_anew() -> None:
    graph, (tensors,) = tensors_by_ipu(4, 520)
    prog = Sequence()
    for method in ("clockwise_ring", "meet_in_middle_ring"):
        gcl.all_reduce_in_place_within_replica(
            graph, tensors, "ADD", prog, options={"method": method}
        )
    _, report = run_and_read(graph, Repeat(8, prog), tensors)
    view = show.ring(report)
    for k in (1, 7, 11, 17):
        rows = [row for row in view.data if row["round"] == f"{k}"]
        assert rows and all(row["from IPU"] == row["began on IPU"] for row in rows)
    assert "The picture shows the first 32 of 80 rounds." in view.scene.notes
    complete = {int(row["round"]) for row in view.data if row["sum"] == "complete"}
    assert complete == {10 * n + k for n in range(8) for k in (4, 5, 6, 9, 10)}
    assert (
        "then the IPUs compute all_reduce_in_place_within_replica/round0"
        in view.scene.stills[0].note
    )
    assert "compute" not in view.scene.stills[5].note


def test_a_pipeline_has_no_ring() -> None:
    report = pipeline_training("grouped", 4, 8)[0]
    with pytest.raises(InvalidOptionError) as caught:
        show.ring(report)
    assert str(caught.value) == (
        "show.ring() was given a run without a ring. In a ring, each IPU receives from as many "
        "IPUs as it sends to, and no superstep of this run is like that.\n"
        "  next:  show the messages between IPUs with show.exchange(report)."
    )


def test_between_rounds_ipus_compute_a_compute_set_and_no_copy() -> None:
    report = all_reduce_report(4, 520, "clockwise_ring")
    names = {step.name for step in report.steps() if step.kind == "Execute"}
    for still in show.ring(report).scene.stills:
        _, found, name = still.note.partition("then the IPUs compute ")
        assert not found or name in names


def test_all_to_all_has_no_ring_and_a_recording_is_taken() -> None:
    graph, (tensors,) = tensors_by_ipu(4, 8)
    made = gcl.all_to_all_within_replica(graph, tensors, prog := Sequence())
    report = run_and_read(graph, prog, made)[1]
    view = show.ring(report)
    assert repr(view).startswith("1 round of IPUs: an IPU sends another at most 8 bytes a round.")
    assert {(row["from IPU"], row["to IPU"]) for row in view.data} == {
        (f"{a}", f"{b}") for a in range(4) for b in range(4) if a != b
    }
    links = bytes_by_link(report)
    assert f"{len(links)} links carry {sum(links.values())} bytes in all" in repr(view)
    given = round_trip_recording(False, 4)
    assert show.ring(given).data == show.ring(given.report).data


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "show.ring() was given 3, which is not a report."),
        (
            Report.sample(),
            "show.ring() was given a run in which no IPU sends data to another IPU.\n  next:  run a "
            'collective such as gcl.all_reduce_within_replica(graph, tensors, "ADD", prog) on '
            "several IPUs; "
            "show.exchange(report) shows the messages between tiles.",
        ),
    ],
)
def test_what_has_no_rounds_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        show.ring(given)
    assert str(caught.value).startswith(words)


def test_with_many_ipus_the_chunks_of_a_round_are_in_its_text_and_arrows_have_heads() -> None:
    scene = show.ring(all_reduce_report(16, 160, "clockwise_ring")).scene
    by_round: dict[int, set[tuple[str, str, str]]] = {}
    heads = scene.table[0]
    number, source, to, chunk = (heads.index(n) for n in ("round", "from IPU", "to IPU", "chunk"))
    for row in scene.table[1]:
        by_round.setdefault(int(row[number]), set()).add((row[source], row[to], row[chunk]))
    for k, still in enumerate(scene.stills, start=1):
        told = set(re.findall(r"IPU (\d+) to IPU (\d+): \d+ bytes of chunk (\d+)", still.note))
        told |= {(a, b, c) for c, a, b in re.findall(r"(\d+) from (\d+) to (\d+)", still.note)}
        assert told == by_round[k] and len(told) == 16
    (ring,) = (mark for mark in scene.marks if mark.name == "ring")
    assert isinstance(ring, Painted)
    for picture in ring.pictures:
        arrows = [s for s in picture if isinstance(s, Stroke) and s.arrow]
        assert len(arrows) == 16
        boxes = [box for s in picture if isinstance(s, Boxes) for box in s.boxes.tolist()]
        for arrow in arrows:  # no box covers the head of an arrow
            x, y = arrow.points[-1]
            assert not any(a < x < a + w and b < y < b + h for a, b, w, h in boxes)
    (rounds,) = (mark for mark in scene.marks if mark.name == "rounds")
    assert isinstance(rounds, Painted)
    assert rounds.heading == (
        "all rounds: chunks by colour, and by number where there is room; frame: complete sum"
    )
    numbers = [
        s.text for s in rounds.pictures[0] if isinstance(s, Words) and isinstance(s.ink, int)
    ]
    assert len(numbers) == 16 * 30 and {*numbers} == {f"{n}" for n in range(16)}
    assert any(isinstance(s, Words) and s.text == "round" for s in rounds.pictures[0])
