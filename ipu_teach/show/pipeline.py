"""The view `pipeline`: the schedule of a pipeline, its bubble, and what each stage stores.

A tick is a time step of the schedule. The bubble consists of the ticks in which a stage has no
work. The boxes show the micro-batch of each stage in each tick. Below are the saved activations of
each stage, and the run on an axis of modelled time, IPU by IPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import numpy as np

from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report import Report
from ipu_teach.schedules import BACKWARD, FORWARD, Ticks, Work, stash
from ipu_teach.show.palette import NESTED, STATES, WAIT
from ipu_teach.show.panels import (
    SMALLEST_ROW,
    Cell,
    Panels,
    Piece,
    boxes_in_rows,
    has_room,
    painted,
)
from ipu_teach.show.report_facts import checked, ipus_at_work, state_of
from ipu_teach.show.scene import Painted, Scene, Still, number
from ipu_teach.show.segments import at_work, listed_names
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Words, rectangles
from ipu_teach.show.streaming import LEFT, MOST_STEPS, WAITING, merged, put_lanes
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

MOST_TICKS = 128
MOST_STAGES = 32
WIDE = 554.0
HIGH = 240.0
NARROWER = 0.47  # A narrow page multiplies the width of boxes by this, but not that of labels.
GOES = {FORWARD: len(STATES), BACKWARD: len(STATES) + 1}
BUBBLE = len(STATES) + 2
HELD = len(STATES) + 3
CODES = (
    *STATES,
    NESTED[1].lettered("F", FORWARD),
    NESTED[0].lettered("B", BACKWARD),
    WAIT.lettered("-", "bubble: no work in this tick"),
    NESTED[2].lettered("H", "micro-batches that a stage holds"),
)


def pipeline(ticks: Iterable[Iterable[tuple[str, int, int]]], report: Report | None = None) -> View:
    """How much of a pipeline's schedule is bubble, and what does each stage hold?

    The view shows the micro-batch on which each stage works in each tick, and how many
    micro-batches each stage stores. `ticks` is the result of `schedules.pipeline_schedule`. With
    the `report` of a run of the pipeline, the view also shows how long each IPU works. At most 128
    ticks, 32 stages and 3,000 supersteps are drawn, and fewer if the scene would be larger than 150
    kB. If there are more, a note below the picture says so. The table has all ticks.

    :raises InvalidOptionError: if `ticks` is malformed, or a stage has two micro-batches in one
        tick.
    """
    every = list[list[Work]]()
    busy = set[tuple[int, int]]()
    with suppress(TypeError):
        every += [[Work(*work) for work in works_of_tick] for works_of_tick in ticks]
    works = [(t, *work) for t, now in enumerate(every) for work in now]
    for t, kind, stage, batch in works:
        if kind not in GOES or not all(is_whole(n) and n >= 0 for n in (stage, batch)):
            works = []
            break
        if (t, stage) in busy:
            raise InvalidOptionError(f"""show.pipeline() was given two steps for stage {stage} in
                tick {t}, but a stage executes one step in a tick.
                next:  move one of the two steps to another tick.""")
        busy.add((t, stage))
    if not works:
        raise InvalidOptionError(f"""show.pipeline() was given {shown(ticks)}, which is not a list
            of ticks.
            next:  give the result of schedules.pipeline_schedule(stages, micro_batches): for each
            tick, a list of ("forward" or "backward", stage, micro-batch).""")
    if report is not None:
        checked(report, "pipeline")
    return fitting(partial(_scene, every, report), MOST_STEPS)


def held(every: Ticks, stages: int) -> Array:
    """Return int64[stages, ticks]: the number of micro-batches that each stage holds.

    A micro-batch is held from its forward to its backward step, including both. Without a backward
    step, it is held only in its forward step.
    """
    stashed = np.zeros((stages, len(every)), np.int64)
    back = {(s, b) for now in every for kind, s, b in now if kind == BACKWARD}
    for t, now in enumerate(every):
        for kind, s, b in now:
            if kind == FORWARD:
                stashed[s, t : None if (s, b) in back else t + 1] += 1
            else:
                stashed[s, t + 1 :] -= 1
    return stashed


def _schedule(shown: Ticks, rows: int, high: float) -> Painted:
    """Return a mark with a row for each of the first `rows` stages, and a box for each tick.

    `shown` are the ticks of the schedule that are drawn, and `high` is the height of a row.
    """
    ticks = len(shown)
    wide = WIDE / ticks
    cells: dict[tuple[int, int], Cell] = {
        (s, t): (s, t, BUBBLE, (), f"tick {t}: stage {s} has no work")
        for s in range(rows)
        for t in range(ticks)
    }
    for t, now in enumerate(shown):
        for kind, s, b in (work for work in now if work.stage < rows):
            long_text = f"{kind[0].upper()}{b}"
            short_text = f"{b}"
            # The long text must also fit on a narrow page.
            fits = len(long_text) * LETTER + 4 < NARROWER * wide
            texts = (long_text, short_text) if fits else (short_text,)
            description = f"tick {t}: stage {s} goes {kind} with micro-batch {b}"
            cells[s, t] = s, t, GOES[kind], texts, description
    has_texts = all(has_room(f"{work.micro_batch}", wide) for now in shown for work in now)
    has_texts = has_texts and high > SMALLEST_ROW
    heading = "the schedule: a column for each tick"
    heading += ", in each box the micro-batch" if has_texts else "; point at a box for its numbers"
    names = [f"stage {s}" for s in range(rows)]
    return boxes_in_rows(
        "ticks", heading, WIDE, high, columns=ticks, rows=names, cells=[*cells.values()]
    )


def _holds(holds: Array, most_held: list[int], high: float) -> Painted:
    """Return the mark whose bars show how many micro-batches each stage holds in each tick.

    `holds` is int[stages, ticks], `most_held` has the maximum of each stage, and `high` is the
    height of a row.
    """
    rows, ticks = holds.shape
    wide = WIDE / ticks
    names = [f"stage {s}" for s in range(rows)]
    unit_height = 0.88 * high / max(most_held)
    row, tick = np.nonzero(holds)
    heights = unit_height * holds[row, tick]
    bars = rectangles(tick * wide, (row + 0.94) * high - heights, wide + 0.2, heights)
    row_texts = [
        Words(-6, (s + 0.45) * high + 4, f"stage {s}: at most {most_held[s]}", 11, anchor="end")
        for s in range(rows)
    ]
    places = rectangles(0, np.arange(rows) * high, WIDE, 0.94 * high)
    picture: list[Shape] = [Boxes(HELD, bars, upright=True), *row_texts]
    heading = "micro-batches that a stage holds, with the one at work"
    say = "{label} holds {n} {n|micro-batch|micro-batches} at most"
    values = {"n": np.array(most_held[:rows])}
    return painted(
        "held",
        heading,
        WIDE,
        high * rows,
        pictures=[picture],
        places=places,
        labels=names,
        say=say,
        values=values,
    )


def _scene(every: Ticks, report: Report | None, max_ticks: int) -> Scene:
    """Return the scene of the first `max_ticks` ticks and the first `max_ticks` supersteps."""
    stages = 1 + max(work.stage for now in every for work in now)
    works = sum(map(len, every))
    most_held = stash(every, stages)
    holds = held(every, stages)
    ticks = min(len(every), max_ticks, MOST_TICKS)
    rows = min(stages, MOST_STAGES)
    panels = Panels()
    panels.first(ticks, len(every), "ticks")
    panels.first(rows, stages, "stages")
    high = min(26.0, HIGH / rows)
    boxes = _schedule(every[:ticks], rows, high)
    panels.put(boxes, left=LEFT)
    panels.below(34)
    mark = _holds(holds[:rows, :ticks], most_held, high)
    panels.put(mark, left=LEFT)
    batches = 1 + max(work.micro_batch for now in every for work in now)
    sentence = (
        f"{counted(stages, 'stage')}, {counted(batches, 'micro-batch', 'micro-batches')}, "
        f"{counted(len(every), 'tick')}: {100 - 100 * works / stages / len(every):.1f} % of the "
        f"boxes are bubble; the stages hold at most {', '.join(map(str, most_held[:rows]))} "
        "micro-batches."
    )
    if report is not None:
        sentence += f" {_run(panels, report, max_ticks)}"
    still = Still("the whole schedule", sentence, BUBBLE, 0, first=True, lanes=panels.lanes)
    return panels.scene(
        "pipeline",
        f"{100 - 100 * works / stages / len(every):.1f} % of the schedule is bubble; "
        f"{_most_held(most_held)}",
        sentence,
        foot=12,
        codes=CODES,
        stills=(still,),
        table=(
            ("tick", "stage", "goes", "micro-batch", "holds"),
            (
                (f"{t}", f"{s}", kind, f"{b}", f"{holds[s, t]}")
                for t, now in enumerate(every)
                for kind, s, b in now
            ),
        ),
    )


def _most_held(most_held: list[int]) -> str:
    """Return a sentence that says which stages hold the most and the fewest micro-batches."""

    def holders(n: int) -> str:
        stages = [f"{stage}" for stage, most in enumerate(most_held) if most == n]
        return f"stage{'s' * (len(stages) > 1)} {listed_names(stages)}"

    most, fewest = max(most_held), min(most_held)
    batches = counted(most, "micro-batch", "micro-batches")
    if most == fewest:
        return f"each stage holds at most {batches}"
    verb = "holds" if most_held.count(most) == 1 else "hold"
    return f"{holders(most)} {verb} at most {batches}, {holders(fewest)} at most {fewest}"


def _run(panels: Panels, report: Report, max_ticks: int) -> str:
    """Put a lane for each IPU, for at most `max_ticks` supersteps.

    Return a sentence with the fraction of the run in which IPUs wait.
    """
    names = report.target.sets
    intervals_of = defaultdict[tuple[int, int], list[tuple[int, int]]](list)
    panels.first(max_ticks, report.num_steps, "supersteps", "The run shows")
    end_shown = 0
    for step in report.steps_between(0, max_ticks):
        end_shown = max(end_shown, step.end)
        for ipu_of_share, start in step.shares:
            code = state_of(report.phases(step.step, ipu_of_share))
            works = at_work(report, step.step)
            end = start + int(report.overlap.lasts[step.step, ipu_of_share or 0])
            for ipu in np.flatnonzero(works).tolist() if ipu_of_share is None else (ipu_of_share,):
                intervals_of[ipu, code].append((start, end))
    lanes = dict[str, list[Piece]]()
    for ipu, name in list(enumerate(names))[:MOST_STAGES]:
        by_code = {
            code: merged(intervals) for (n, code), intervals in intervals_of.items() if n == ipu
        }
        edges = merged(
            [piece for intervals in by_code.values() for piece in intervals.tolist()]
        ).ravel()
        gaps = np.append(np.insert(edges, 0, 0), end_shown).reshape(-1, 2)
        by_code[WAITING] = gaps[gaps[:, 1] > gaps[:, 0]]
        lanes[name] = [
            (c, a, b - a) for c, intervals in by_code.items() for a, b in intervals.tolist()
        ]
    put_lanes(
        panels, "run", "the run; grey: an IPU waits", lanes, span=end_shown, unit="modelled cycles"
    )
    waits = 100 * (1 - float(np.mean([row.busy for row in report.ipus])))
    return (
        f"In its run, {number(report.total_cycles)} modelled cycles, the IPUs wait {waits:.1f} % "
        f"of the time. {ipus_at_work(report)}"
    )
