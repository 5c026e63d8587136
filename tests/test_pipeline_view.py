"""The picture of a pipeline: its boxes beside the schedule, what it holds beside a set that grows
and shrinks, and the lanes of its run beside the report's own sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pages import lane_pieces
from view_programs import pipeline_training

from ipu_teach import show
from ipu_teach.errors import InvalidOptionError
from ipu_teach.schedules import GROUPED, INTERLEAVED, SEQUENTIAL, pipeline_schedule
from ipu_teach.show.scene import Painted
from ipu_teach.show.shapes import Boxes, Words
from ipu_teach.show.view import View


def painted(view: View, name: str, ticks: int) -> tuple[Painted, dict[tuple[int, int], Any], float]:
    """A picture, and of each (stage, tick) the boxes in it, as (name of the code, height in
    rows)."""
    mark = view.scene.mark(name)
    assert isinstance(mark, Painted)
    rows = len([s for s in mark.pictures[0] if isinstance(s, Words) and s.anchor == "end"])
    wide, high, found = mark.width / ticks, mark.height / rows, {}
    for shape in mark.pictures[0]:
        if isinstance(shape, Boxes):
            for x, y, _, tall in shape.boxes.tolist():
                key = int((y + tall / 2) / high), round(x / wide)
                assert key not in found
                found[key] = view.scene.codes[shape.code].name, tall / high
    return mark, found, high


@pytest.mark.parametrize(
    ("schedule", "stages", "batches"),
    [(GROUPED, 4, 8), (INTERLEAVED, 3, 7), (SEQUENTIAL, 3, 2), (GROUPED, 16, 32)],
)
def test_a_box_for_each_stage_and_tick_and_what_it_holds(
    schedule: str, stages: int, batches: int
) -> None:
    ticks = pipeline_schedule(stages, batches, schedule)
    view = show.pipeline(ticks)
    mark, boxes, high = painted(view, "ticks", len(ticks))
    does = {(s, t): (kind, b) for t, now in enumerate(ticks) for kind, s, b in now}
    assert boxes.keys() == {(s, t) for s in range(stages) for t in range(len(ticks))}
    for key, (name, _) in boxes.items():
        assert name == (does[key][0] if key in does else "bubble: no work in this tick")
    wide = mark.width / len(ticks)
    for words in mark.pictures[0]:
        if isinstance(words, Words) and words.anchor == "middle":
            kind, b = does[int(words.y / high), int(words.x / wide)]
            assert words.text in (f"{b}", f"{kind[0].upper()}{b}")
    # a set for each stage of what came forward and has not gone back
    held, most, seen = [set[int]() for _ in range(stages)], [0] * stages, dict[Any, int]()
    for t, now in enumerate(ticks):
        for kind, s, b in now:
            held[s] |= {b} if kind == "forward" else set()
        seen |= {(s, t): len(own) for s, own in enumerate(held) if own}
        most = [max(a, len(own)) for a, own in zip(most, held, strict=True)]
        for kind, s, b in now:
            held[s] -= {b} if kind == "backward" else set()
    _, bars, _ = painted(view, "held", len(ticks))
    unit = bars[0, 0][1]
    assert {key: round(tall / unit) for key, (_, tall) in bars.items()} == seen
    idle = 100 * (stages - 1) / (batches + stages - 1)
    idle = {SEQUENTIAL: 100 - 100 / stages, INTERLEAVED: idle}.get(schedule, idle)
    listed = ", ".join(map(str, most))
    assert repr(view) == (
        f"{stages} stages, {batches} micro-batches, {len(ticks)} ticks: {idle:.1f} % of the boxes "
        f"are bubble; the stages hold at most {listed} micro-batches."
    )
    assert [tuple(row.values()) for row in view.data] == [
        (f"{t}", f"{s}", kind, f"{b}", f"{seen[s, t]}")
        for t, now in enumerate(ticks)
        for kind, s, b in now
    ]


@pytest.mark.parametrize("stages", [2, 4])
def test_the_lanes_of_its_run_are_the_time_that_each_ipu_works(stages: int) -> None:
    report, view = pipeline_training(INTERLEAVED, stages, 8)
    lanes, total = lane_pieces(view.scene, "run"), report.total_cycles
    assert list(lanes) == [f"IPU {i}" for i in range(stages)]
    for row, pieces in zip(report.ipus, lanes.values(), strict=True):
        ends = sorted((begin, end) for _, begin, end in pieces)
        assert [0, *(end for _, end in ends)] == [*(begin for begin, _ in ends), total]
        works = sum(end - begin for name, begin, end in pieces if name != "waiting")
        assert works == row.own_cycles + row.shared_cycles
    waits = 100 - 100 * np.mean([row.busy for row in report.ipus])
    assert f"In its run, {total:,} modelled cycles, the IPUs wait {waits:.1f} % of" in repr(view)


def test_a_long_schedule_is_cut_and_says_so() -> None:
    view = show.pipeline(pipeline_schedule(40, 100))
    ticks, stages = view.scene.notes
    assert (
        ticks.endswith("of 278 ticks.") and stages == "The picture shows the first 32 of 40 stages."
    )
    assert len(view.data) == 2 * 40 * 100 and len(view.scene.json()) <= 150_000
    # where nothing goes back nothing is stored
    assert {
        row["holds"] for row in show.pipeline(pipeline_schedule(4, 5, training=False)).data
    } == {"1"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            (3,),
            "show.pipeline() was given 3, which is not a list of ticks.\n  next:  give the result of",
        ),
        (([],), "show.pipeline() was given [], which is not a list of ticks."),
        (([[("sideways", 0, 0)]],), "which is not a list of ticks."),
        (([[("forward", -1, 0)]],), "which is not a list of ticks."),
        (
            ([[("forward", 1, 0), ("backward", 1, 3)]],),
            "two steps for stage 1 in tick 0, but a stage executes one step in a tick.\n  next:  move one of",
        ),
        (([[("forward", 0, 0)]], 3), "show.pipeline() was given 3, which is not a report."),
    ],
)
def test_what_is_no_schedule_is_refused(given: Any, words: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        show.pipeline(*given)
    assert words in str(caught.value)


def test_a_heading_promises_numbers_in_boxes_only_where_they_are() -> None:
    for stages, batches in ((4, 8), (16, 32), (32, 64), (2, 60)):
        scene = show.pipeline(pipeline_schedule(stages, batches)).scene
        (ticks,) = (mark for mark in scene.marks if mark.name == "ticks")
        assert isinstance(ticks, Painted)
        inside = [s for s in ticks.pictures[0] if isinstance(s, Words) and isinstance(s.ink, int)]
        works = sum(map(len, pipeline_schedule(stages, batches)))
        assert ("in each box the micro-batch" in ticks.heading) == (len(inside) == works)
        assert ("point at a box" in ticks.heading) == (len(inside) < works)
