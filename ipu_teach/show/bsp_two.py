"""The view `bsp` of two runs: the lanes of both runs on one time axis, one run above the other."""

from __future__ import annotations

import numpy as np

from ipu_teach.cost.phases import COMPUTE
from ipu_teach.errors import counted
from ipu_teach.show.bsp_phases import Phases
from ipu_teach.show.palette import STATE, STATES
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import (
    no_time,
    phase_cycles,
    state_of,
    titled,
)
from ipu_teach.show.scene import (
    Scene,
    Still,
    Tape,
    label,
    number,
)
from ipu_teach.show.segments import (
    Segment,
    segments,
)

MOST_OF_TWO = 500  # The maximum number of supersteps shown of each run.


def two_runs(runs: list[Phases]) -> Scene:
    """Return the scene of two runs on one time axis. The frames of the first run come first.

    A frame is a superstep or, on several IPUs, the steps between two syncs of all IPUs.
    """
    axis_cycles = max(run.report.total_cycles for run in runs)
    stills: list[Still] = []
    frames: list[int] = []
    rows: list[tuple[str, ...]] = []
    panels = Panels()
    for name, run in zip(("first report", "second report"), runs, strict=True):
        report = run.report
        shown = min(MOST_OF_TWO, len(report.step_numbers))
        stretches, order = segments(report, shown)
        frames += (len(stills) + order).tolist()
        for stretch in stretches:
            stills.append(_stretch_still(name, run, stretch, len(panels.drawings)))
            panels.drawings.append(run.by_tile.drawing(stretch))
        panels.first(shown, report.num_steps, "supersteps", f"Of the {name} the picture shows")
        _put_tape(panels, name, run, axis_cycles)
        panels.notes += run.by_tile.notes
        rows += [(name, *row) for row in run.table(list(STATE))[1]]
    if not any(still.cycles for still in stills):
        raise no_time("bsp")
    first, second = (run.report.total_cycles for run in runs)
    share = abs(second - first) / first if first else 0.0
    comparison = "more" if second > first else "fewer"
    change = (
        f" The second takes {100 * share:.1f} % {comparison} cycles than the first."
        if share
        else ""
    )
    panels.notes.insert(0, change.strip() or "Both take equally long.")
    return panels.scene(
        "bsp",
        _compared(first, second),
        f"Two runs on one axis of time. {runs[0].sentence()} {runs[1].sentence()}{change}",
        foot=24,
        codes=STATES,
        stills=tuple(stills),
        frames=np.array(frames, np.int64),
        poster=len(frames) - 1,
        group="stretch" if any(run.has_several for run in runs) else "superstep",
        table=(("report", *runs[0].table(list(STATE))[0]), tuple(rows)),
    )


def _stretch_still(name: str, run: Phases, stretch: Segment, drawing: int) -> Still:
    """Return the still of a stretch of the run called `name`.

    `drawing` is the index of the drawing of the stretch.
    """
    phases = [span.phase for span in stretch.spans]
    busy = run.by_tile.spent(phases, COMPUTE)
    values = {} if busy is None else {"busy": busy}
    is_step = len(stretch.parts) == 1
    say = f"{run.lane_name} {{i}} of the {name}"
    if values:
        group = "superstep" if is_step else "stretch"
        say += f": {{busy}} modelled cycles of compute in this {group}"
    if is_step:
        text = " ".join(run.named(stretch.parts[0]))
    else:
        text = f"{counted(len(stretch.parts), 'part')}, each IPU by itself"
    return Still(
        label=label(f"{name}: {text}", 60),
        note=phase_cycles(phases) if is_step else stretch.ends_text(),
        code=state_of(phases),
        cycles=stretch.cycles,
        first=True,
        lanes={name: (drawing, 0.0, stretch.cycles)},
        about={name: (say, values)},
        say=f"{run.lane_name} {{i}}",
    )


def _put_tape(panels: Panels, name: str, run: Phases, span: int) -> None:
    """Add the lanes of the run called `name` on a time axis of `span` cycles."""
    report = run.report
    heading = (
        f"{name}: {titled(report, counted(report.target.num_tiles, 'tile'))}, "
        f"{number(report.total_cycles)} modelled cycles"
    )
    high = max(80.0, min(180.0, 14.0 * run.lanes))
    ends = run.ends_of(high)
    labels = () if ends else tuple(f"{t}" for t in range(run.lanes))
    panels.below()
    tape = Tape(name, heading, count=run.lanes, labels=labels, span=span, ends=ends)
    panels.put(tape, left=64, high=high)


def _compared(first: float, second: float) -> str:
    """Return a title that says by how much the cycles of two runs, `first` and `second`, differ."""
    if first == second:
        return "Both runs take equally long"
    share = abs(second - first) / first if first else 0.0
    comparison = "more" if second > first else "fewer"
    return f"The second run takes {100 * share:.1f} % {comparison} cycles than the first"
