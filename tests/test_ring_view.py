"""The picture of a ring: who sends what to whom, and where it began, beside the places that a chunk
comes by as the published methods say; bytes beside those counted message by message."""

from __future__ import annotations

from typing import Any

import pytest
from all_reduces import all_reduce_report, bytes_by_link, run_and_read, tensors_by_ipu
from recorded_programs import round_trip_recording
from view_programs import pipeline_training

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, show
from ipu_teach.errors import InvalidOptionError
from ipu_teach.poplibs import gcl
from ipu_teach.program import Repeat, Sequence
from ipu_teach.show.scene import Painted
from ipu_teach.show.shapes import Boxes, Stroke

RINGS = {2: [0, 1], 3: [0, 2, 1], 4: [0, 2, 3, 1], 6: [0, 2, 4, 5, 3, 1]}
Message = tuple[int, int, int, int, str]  # round, from, to, where it began, "complete" or ""


def walks(count: int, method: str) -> set[Message]:
    """What goes where, by the places of the ring."""
    ring, found = RINGS[count], set[Message]()
    one, other = {
        "clockwise_ring": (count - 1, 0),
        "bidirectional_ring_pair": (count - 1, count - 1),
        "meet_in_middle_ring": ((count - 1) // 2, count // 2),
    }[method]
    for home in range(count):
        for turn, hops in ((1, one), (-1, other)):
            for k in range(hops):  # the pieces of a chunk walk home, then the sum goes to all
                start = home - turn * hops
                a, b = (ring[(start + turn * n) % count] for n in (k, k + 1))
                found.add((k + 1, a, b, ring[start % count], ""))
                a, b = (ring[(home + turn * n) % count] for n in (k, k + 1))
                found.add((max(one, other) + k + 1, a, b, ring[home], "complete"))
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
    names = "round", "from IPU", "to IPU", "began on IPU"
    assert sorted(tuple(int(row[name]) for name in names) for row in view.data) == sorted(
        (k + 1, ring[p], ring[(p + 1) % 4], ring[p - k]) for k in range(3) for p in range(4)
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
        (6, "bidirectional_ring_pair"),
    ],
)
def test_chunks_walk_as_the_method_says_and_keep_where_they_began(count: int, method: str) -> None:
    report = all_reduce_report(count, 780, method, tiles=13 if count < 6 else 2)
    view, links = show.ring(report), bytes_by_link(report)
    names = "round", "from IPU", "to IPU", "began on IPU"
    told = [(*(int(row[name]) for name in names), row["sum"]) for row in view.data]
    assert len(told) == len(set(told)) and set(told) == walks(count, method)
    total = sum(int(row["bytes"].replace(",", "")) for row in view.data)
    hops = 4 if count == 3 else count  # of 2 to 1 there are two
    assert total * hops == sum(links.values()) * count
    assert f"carry {sum(links.values()):,} bytes in all" in repr(view)
    assert f", {max(links.values()):,}; the rounds take" in repr(view)
    steps = {int(row["superstep"]): row["cycles"] for row in view.data}
    assert steps == {s.index: f"{s.cycles:,}" for s in report.steps() if s.kind == "Copy"}
    if count > 3:
        listed = ", ".join(map(str, RINGS[count]))
        both = ", both ways" * (method != "clockwise_ring")
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
    assert seen == sorted((k, began) for k, _, _, began, _ in told)
    for k in range(rounds):
        boxes = [s for s in ring.pictures[k] if isinstance(s, Boxes) and s.code < count]
        assert sorted((k + 1, s.code) for s in boxes) == [one for one in seen if one[0] == k + 1]


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
    complete = {int(row["round"]) for row in view.data if row["sum"]}
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
        "show.ring() was given a run without a ring: there is no superstep in which each IPU "
        "that takes part sends to as many IPUs as it receives from.\n  next:  show.exchange(report) shows what "
        "crosses between IPUs."
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
            "show.ring() was given a run in which no IPU sends to another.\n  next:  "
            'gcl.all_reduce_within_replica(graph, tensors, "ADD", prog) on several IPUs does; '
            "show.exchange(report) shows the messages between tiles.",
        ),
    ],
)
def test_what_has_no_rounds_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        show.ring(given)
    assert str(caught.value).startswith(words)
