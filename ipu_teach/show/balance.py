"""The view `balance`: why tiles wait, which tile they wait for, and the time of evenly shared work.

The upper lanes show the whole run. In each phase, the tiles are sorted by the time that they work,
so the grey area is the time lost by waiting. The lower lanes show the chosen superstep in the same
form. Next to them are a histogram of the tiles' working times, and a grid of the tiles, whose
colours show how long each tile waits. With several IPUs, there are lanes for each IPU, and
stretches instead of supersteps: groups of supersteps at whose ends the IPUs wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ipu_teach.report import Report, Why
from ipu_teach.report.why import codelets_on
from ipu_teach.show import palette
from ipu_teach.show.palette import STATES, Code
from ipu_teach.show.panels import Panels, grid, painted
from ipu_teach.show.report_facts import (
    At,
    because,
    checked,
    linked,
    longest_wait,
    no_time,
    short_name,
    size_of,
    state_of,
    tiles_named,
    tiles_of,
    titled,
)
from ipu_teach.show.scene import Lanes, Painted, Scene, Still, Tape, label, number
from ipu_teach.show.segments import (
    STRETCH,
    LanesOf,
    Segment,
    Span,
    cuts,
    listed_names,
    segments,
)
from ipu_teach.show.stack import stack_places, stacks
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

FIFTHS = tuple(
    Code(f"waits up to {20 * i + 20} %", f"{i + 1}", fill.light, fill.dark, pattern="")
    for i, fill in enumerate(palette.FILL[:5])
)
LAST = palette.CHOSEN.lettered("!", "the slowest, for which the others wait")
BAR = Code("tiles that take so long", "T", "#009e73", "#1cb288", pattern="")
CODES = (*STATES, *FIFTHS, BAR, LAST)
MOST_STEPS = 500  # The maximum number of supersteps shown of each run.
MOST_LANES = 64
BINS = 24
BARS = 240.0, 84.0  # The width and the height of the histogram.
SAY_BIN = "{n} {n|tile is|tiles are} at work for {label} of the slowest tile's time."
SAY_LANE = "Lane {i} of the sorted tiles: at work {work} modelled cycles."
SAY_TAPE = "Lane {i} of the whole run; grey is the time in which its tiles wait."
SIDE = 110.0


def balance(
    report: Report, other: Report | None = None, *, why: Why | None = None, at: At = None
) -> View:
    """How much of the tiles' time is waiting, and in which superstep is most of it lost?

    The view shows why tiles wait in the run of `report`. With `other`, it shows two runs, one above
    the other, on one time axis. At most 500 supersteps of a run are shown, and fewer if the scene
    would be larger than 150 kB. A note below the picture says what is left out. The time of evenly
    shared work is computed as if every tile took the mean time in each phase.

    `why` is a chain of causes, such as `report.why(…)` returns; the tiles that it mentions are
    drawn in one colour. `at` is the superstep at which the picture rests: its number, counted from
    0, the name of a step, or a kind of phase such as "exchange". By default, the picture rests at
    the step that `why` is about. Without `why`, it rests at the superstep in the picture that loses
    the most cycles over all its executions.

    The title is about the superstep at which the picture rests. But if the picture leaves out a
    superstep that loses more cycles, the title is about that superstep. With two reports and no
    `at`, the title is about both runs.

    :raises InvalidOptionError: if an argument is not a report, if nothing that takes time has run,
        or if no frame shows `at`. It is also raised if `why` is not a chain of causes.
    """
    runs = [_Run(checked(report, "balance"), "first report")]
    if other is not None:
        runs.append(_Run(checked(other, "balance"), "second report"))
    if not all(run.cycles for run in runs):
        raise no_time("balance")
    scene_of = (
        partial(_scene, runs)
        if other
        else lambda max_steps: linked(_scene(runs, max_steps), report, ("tiles of run",))
    )
    scene = fitting(scene_of, MOST_STEPS).scene
    view = because(View(scene), report, why, at)
    if view.scene.poster == scene.poster:
        return view
    still = view.scene.stills[int(view.scene.frames[view.scene.poster])]
    title = f"{still.label}: {still.note.partition(', most')[0]}"
    return View(replace(view.scene, title=titled(report, title)))


@dataclass(frozen=True)
class _Lost:
    """A stretch of a run, with the cycles for which its tiles wait.

    A stretch is a superstep or, on several IPUs, the steps between two syncs of all IPUs. One
    object stands for all equal stretches of the run: `runs` is how often the stretch ran, and
    `mean` is the number of cycles for which the average tile waits in one execution.
    """

    stretch: Segment
    runs: int
    mean: float


class _Run:
    """The waiting of the tiles in the run of a report.

    Attributes:
        group: the noun for a frame, "superstep" or "stretch".
        order: int64: for each stretch of the run, in order, its index in `all`.
        all: the distinct stretches, with their waiting.
        cycles: the cycles of the run.
    """

    def __init__(self, report: Report, name: str) -> None:
        self.report = report
        self.name = name
        self.several = report.target.num_sets > 1
        self.tiles = report.target.num_tiles
        self.group = "stretch" if self.several else "superstep"
        stretches, self.order = segments(report, len(report.step_numbers))
        runs = np.bincount(self.order, minlength=len(stretches)).tolist()
        lost = (float(self.times(stretch)[1].mean()) for stretch in stretches)
        self.all = [_Lost(*entry) for entry in zip(stretches, runs, lost, strict=True)]
        self.cycles = sum(entry.runs * entry.stretch.cycles for entry in self.all)

    def phases(self, stretch: Segment) -> list[tuple[Span, Array]]:
        """Return `(span, cycles)` of each phase of a stretch in which tiles can differ in time.

        `span` is the phase with its tiles, and `cycles` has the cycles of each tile that takes
        part.
        """
        return [(s, s.phase.busy[s.tiles]) for s in stretch.spans if s.phase.busy is not None]

    def times(self, stretch: Segment) -> tuple[Array, Array]:
        """Return `(work, waits)`, both int64[tiles]: the cycles for which tiles work and wait."""
        waits = np.zeros(self.tiles, np.int64)
        set_of_tile = self.report.target.set_of(np.arange(self.tiles))
        for ipu, begin, end, _ in stretch.waits:
            waits[set_of_tile == ipu] += end - begin
        work = np.zeros_like(waits)
        for span, busy in self.phases(stretch):
            work[span.tiles] += busy
            waits[span.tiles] += span.phase.cycles - busy
        return work, waits

    @property
    def waiting(self) -> float:
        """The fraction of the tiles' time that is waiting, from 0 to 1."""
        return sum(lost.runs * lost.mean for lost in self.all) / self.cycles

    def named(self, stretch: Segment) -> tuple[str, str]:
        """Return `(kind, name)` of the step in a stretch, as strings.

        If there are several steps, the kind is "" and the name is the number of steps.
        """
        if len(stretch.steps) != 1:
            return "", stretch.summary
        cost = self.report.step_cost(*stretch.steps)
        return cost.kind, cost.name

    def title(self, stretch: Segment) -> str:
        """Return the kind and the name of the step in a stretch as one string."""
        return " ".join(self.named(stretch)).strip()

    def longest(self, entry: _Lost) -> Span | None:
        """Return the phase of a stretch in which tiles wait most, or None.

        The result is None if no tile waits in a phase, or if the IPUs wait for each other for at
        least as many cycles as the tiles wait in that phase.
        """
        lost_by_phase = [
            (int((s.phase.cycles - busy).sum()), s) for s, busy in self.phases(entry.stretch)
        ]
        most_cycles, span = max(lost_by_phase, key=lambda pair: pair[0], default=(0, None))
        between_ipus = entry.mean * self.tiles - sum(cycles for cycles, _ in lost_by_phase)
        return span if most_cycles > between_ipus else None

    def last_tiles(self, lost: _Lost) -> Array:
        """Return int64: the numbers of the slowest tiles in the phase in which tiles wait most.

        The result is empty in these cases:

        - There is no such phase, or the IPUs wait for each other for at least as many cycles.
        - No tile is at work during the whole phase.
        - At least half of the tiles are equally slow.
        """
        none: Array = np.zeros(0, np.int64)
        span = self.longest(lost)
        if span is None or span.phase.busy is None or span.phase.busy.max() < span.phase.cycles:
            return none
        last: Array = np.flatnonzero(self.tied(lost, span)[0])
        return last if 2 * len(last) < self.tiles else none

    def tied(self, lost: _Lost, longest: Span) -> tuple[Array, int]:
        """Return `(is_slowest, ipus)`: which tiles are the slowest in a phase, on any IPU.

        `is_slowest` is bool[tiles]. `ipus` is the number of IPUs with a phase of the same kind as
        `longest` that begins at the same time and is as long.
        """
        last: Array = np.zeros(self.tiles, bool)
        ipus = 0
        moment = longest.phase.kind, longest.phase.cycles, longest.start
        for span, busy in self.phases(lost.stretch):
            if (span.phase.kind, span.phase.cycles, span.start) == moment:
                last[np.flatnonzero(span.tiles)[busy == busy.max()]] = True
                ipus += 1
        return last, ipus

    def waits_for(self, lost: _Lost) -> str:
        """Return the name of the tile, the tiles or the IPU that the others wait for.

        The result is "" if at least half of the tiles are equally slow, or if no tile waits.
        """
        last = self.last_tiles(lost)
        if len(last):
            return tiles_named(last)
        return "" if self.longest(lost) is not None else self.slowest(lost)

    def slowest(self, lost: _Lost) -> str:
        """Return a text with the tile numbers, or the IPU, that the others wait for.

        It is "" if none waits.
        """
        span = self.longest(lost)
        if span is None:
            wait = longest_wait(lost.stretch)
            return listed_names(wait.last) if wait else ""
        return tiles_named(np.flatnonzero(self.tied(lost, span)[0])).partition(" ")[2]

    def reason(self, lost: _Lost) -> str:
        """Describe the waiting in a stretch: its share of the time, the slowest tile, the reason.

        The description also has the cycles that the stretch would take with evenly shared work.
        """
        stretch = lost.stretch
        cycles = lost.stretch.cycles
        span = self.longest(lost)
        if lost.mean < 0.0005 * cycles:
            return "no tile waits for another" if cycles else "takes no time"
        if span is None or span.phase.busy is None:
            last = max(filter(stretch.lasts, stretch.parts), key=lambda part: part.cycles)
            most = (
                f"for {self.slowest(lost)}, longest with "
                f"{short_name(self.report.step_cost(last.step).name, 40)}; {stretch.finish_text()}"
            )
        else:
            last_tiles, ipus = self.tied(lost, span)
            ipu = span.part.ipu
            whose = f" of {stretch.names[ipu]}" if ipu is not None and ipus == 1 else ""
            takes = "take" if last_tiles.sum() > 1 else "takes"
            most = (
                f"in {span.phase.kind}{whose}: {tiles_named(np.flatnonzero(last_tiles))} {takes} "
                f"{number(span.phase.cycles)}, the median tile "
                f"{number(float(np.median(span.phase.busy[span.tiles])))}{self._cause(span)}"
            )
        return (
            f"{100 * lost.mean / cycles:.1f} % of the tiles' time in this {self.group} is waiting, "
            f"most {most}; at the mean of all tiles it would take "
            f"{number(round(cycles - lost.mean))} instead of {number(cycles)}"
        )

    def _cause(self, span: Span) -> str:
        """Describe the slowest tile of a phase by its bytes or its codelets.

        For an exchange, the description has the bytes that the tile exchanges. For a compute phase,
        it has the codelets that the tile executes and that only few tiles execute.
        """
        assert span.phase.busy is not None
        step = span.part.step
        exchange = span.phase.exchange
        tile = int(span.phase.busy.argmax())
        if exchange >= 0:
            traffic = self.report.step_cost(step).exchange[exchange]
            received, sent = (
                f"{int(a[tile]):,} bytes, the median {int(np.median(a[span.tiles])):,}"
                for a in (traffic.received, traffic.sent)
            )
            return f"; tile {tile} receives {received}, and sends {sent}"
        codelets = codelets_on(self.report, step, tile)[:2]
        names = [f"{name} (on {count:,} of {self.tiles:,} tiles)" for name, count in codelets]
        return f"; tile {tile} executes {' and '.join(names)}" if codelets else ""


class _Shown:
    """The stretches of the runs that are drawn.

    Attributes:
        stills: a still for each stretch.
        frames: the index of the still of each frame.
        entries: for each still, the stretch that it shows.
        lost: for each still, the cycles for which the average tile waits, added up over all
            executions.
        rows: the rows of the table, one for each stretch, including stretches that are not drawn.
    """

    def __init__(self) -> None:
        self.stills = list[Still]()
        self.frames = list[int]()
        self.entries = list[_Lost]()
        self.lost = list[float]()
        self.rows = list[tuple[str, ...]]()

    def add(self, run: _Run, lanes: LanesOf, name: str, max_steps: int, panels: Panels) -> None:
        """Add the stretches in the first `max_steps` supersteps of a run, with their drawings.

        `name` is the name of the run in the picture.
        """
        shown = _shown(run, max_steps, panels)
        still_of = dict.fromkeys(shown, 0)
        for number_of_stretch, entry in enumerate(run.all):
            cycles = entry.stretch.cycles
            kind, title = run.named(entry.stretch)
            waits = 100 * entry.mean / cycles if cycles else 0.0
            executions = f"{entry.runs:,}", number(cycles), f"{waits:.1f} %", run.slowest(entry)
            self.rows.append((run.name, kind, label(title, 48), *executions))
            if number_of_stretch in still_of:
                still_of[number_of_stretch] = len(self.stills)
                self.stills.append(_still(run, entry, name, lanes, index=len(self.stills)))
                panels.drawings.append(lanes.drawing(entry.stretch))
                self.lost.append(entry.runs * entry.mean)
                self.entries.append(entry)
        self.frames += [still_of[number_of_stretch] for number_of_stretch in shown]

    def worst(self) -> list[int]:
        """Return one frame for each still, sorted by waiting in descending order.

        If several frames show the same still, the result contains the first of these frames.
        """
        first_frame = {still: f for f, still in reversed([*enumerate(self.frames)])}
        worst = sorted(first_frame.values())
        worst.sort(key=lambda f: -self.lost[self.frames[f]])
        return worst


def _histograms(stills: list[Still]) -> Painted:
    """Return a mark with a histogram for each still: how many tiles work for how long."""
    longest = [
        max(
            int(v["work"].max())
            for name, (_, v) in still.about.items()
            if name.startswith("tiles of")
        )
        for still in stills
    ]
    bin_width = 100 / BINS
    bar = CODES.index(BAR)
    histograms = [still.about["histogram"][1]["n"] for still in stills]
    pictures = tuple(
        stacks([(bar, num_tiles)], *BARS, int(num_tiles.max()), "tiles", ("0", f"{most:,} cycles"))
        for num_tiles, most in zip(histograms, longest, strict=True)
    )
    shares = tuple(
        f"{number(round(i * bin_width, 1))} to {number(round((i + 1) * bin_width, 1))} %"
        for i in range(BINS)
    )
    heading = "tiles by busy cycles"
    return painted("histogram", heading, *BARS, pictures, stack_places(BINS, *BARS), shares)


def _scene(runs: list[_Run], max_steps: int) -> Scene:
    """Return the scene of one run or of two runs, up to `max_steps` supersteps of each."""
    set_counts = [run.report.target.num_sets for run in runs]
    span = max(run.cycles for run in runs)
    num_rows = int(np.lcm.reduce(set_counts))
    count = max(1, min(MOST_LANES, *(run.tiles for run in runs)) // num_rows) * num_rows
    lanes_of = [LanesOf(run.report, count, count) for run in runs]
    panels = Panels()
    shown_stretches = _Shown()
    for run, lanes in zip(runs, lanes_of, strict=True):
        report = run.report
        name = run.name if len(runs) > 1 else "run"
        shown_stretches.add(run, lanes, name, max_steps, panels)
        heading = (
            f"{100 * run.waiting:.1f} % waiting of {number(run.cycles)} modelled cycles, "
            f"{size_of(report.target)}"
        )
        heading += f"; {lanes.mean_text}" * bool(lanes.mean_text) + f"; {STRETCH}" * run.several
        text = f"{name}: {heading}" if len(runs) > 1 else titled(report, heading)
        tape = Tape(name, text, count=count, span=span, ends=lanes.ends)
        panels.put(tape, left=64, high=100)
        panels.below()
        panels.notes += lanes.notes
    heading = f"the {runs[0].group}, slowest first" + ", IPU by IPU" * runs[0].several
    if len(runs) == 1 and count < runs[0].tiles:
        heading = lanes_of[0].mean_text
    ends = lanes_of[0].ends if len(set(set_counts)) == 1 else ()
    panels.put(Lanes("lanes", heading, count=count, ends=ends), left=64, right=424, high=240)
    panels.put(_histograms(shown_stretches.stills), left=464)
    for i, run in enumerate(runs):
        name, heading = (run.name, run.name) if len(runs) > 1 else ("run", "tiles that wait")
        panels.put(
            grid(f"tiles of {name}", run.report.target, SIDE, heading),
            left=464 + 126 * i,
            down=130 + 10 * run.several,
        )
    stills, frames = shown_stretches.stills, shown_stretches.frames
    worst = shown_stretches.worst()
    return panels.scene(
        "balance",
        _title(runs, *_worst_place(runs[0], worst[0], shown_stretches)),
        _sentence(runs),
        foot=12,
        codes=CODES,
        stills=stills,
        frames=np.array(frames, np.int64),
        poster=worst[0],
        group=runs[0].group,
        data={"worst": worst},
        table=(
            ("report", "kind", "name", "runs", "cycles", "waiting", "slowest tile"),
            shown_stretches.rows,
        ),
    )


def _shown(run: _Run, max_steps: int, panels: Panels) -> list[int]:
    """Return the indices of the stretches within the first `max_steps` supersteps, at least one.

    If some supersteps are left out, add a note to `panels`.
    """
    edges = np.append(cuts(run.report), len(run.report.step_numbers))
    count = max(1, int(np.searchsorted(edges, max_steps, "right")) - 1)
    whose = f"Of the {run.name} the picture shows"
    panels.first(int(edges[: count + 1][-1]), run.report.num_steps, "supersteps", whose)
    return list(map(int, run.order[:count]))


def _still(run: _Run, lost: _Lost, name: str, lanes: LanesOf, index: int) -> Still:
    """Return the still of a stretch of the run called `name`.

    `lost` is the stretch with its waiting, and `index` is the index of its drawing and its
    histogram.
    """
    stretch = lost.stretch
    cycles = lost.stretch.cycles
    work, waits = run.times(lost.stretch)
    code = len(STATES) + np.clip(np.ceil(5 * waits / (cycles or 1)).astype(np.int64) - 1, 0, 4)
    code[run.last_tiles(lost)] = CODES.index(LAST)
    values = {"work": work, "waits": waits}
    where = "" if name == "run" else f"{name}: "
    tiles_mark = f"tiles of {name}"
    say = f"{where}tile {{i}}: at work {{work}} modelled cycles, waits {{waits}}"
    phases_of_last = [s.phase for s in stretch.spans if stretch.lasts(s.part)]
    # The lanes are sorted separately in each phase, so the times of a lane are added up phase by
    # phase.
    busy_of_lane: Array = np.zeros(lanes.count, np.int64)
    for span, times in run.phases(stretch):
        per_tile: Array = np.zeros(run.tiles, np.int64)
        per_tile[span.tiles] = times
        busy_of_lane += lanes.of(per_tile)
    return Still(
        label(f"{where}{run.title(stretch)}", 60),
        run.reason(lost),
        state_of(phases_of_last),
        cycles,
        first=True,
        cells={tiles_mark: (code, cycles or 1, len(STATES))},
        lanes=dict.fromkeys((name, "lanes"), (index, 0, cycles)),
        pictures={"histogram": index},
        say="{label}",
        about={
            tiles_mark: (say, values),
            "lanes": (SAY_LANE, {"work": busy_of_lane}),
            name: (SAY_TAPE, {}),
            "histogram": (SAY_BIN, {"n": _histogram(work)}),
        },
    )


def _histogram(work: Array) -> Array:
    """Return int64[BINS]: the number of tiles in each range of working times.

    The ranges have equal widths, and together they reach from 0 to the longest time in `work`.
    """
    return np.histogram(work, BINS, (0, max(1, float(work.max()))))[0].astype(np.int64)


def _title(runs: list[_Run], place: int, worst: _Lost) -> str:
    """Return the title: the share of waiting and, for a single run, where most of it is lost.

    `worst` is the stretch in which the most cycles are lost, and `place` is its index in the run.
    """
    shares = [f"{100 * run.waiting:.1f} %" for run in runs]
    if len(runs) > 1:
        parts = [
            f", the largest part in {short_name(run.title(worst_of(run).stretch), 30)}"
            * (run.waiting > 0)
            for run in runs
        ]
        return (
            f"Waiting: {shares[0]} of the tiles' time in the first run{parts[0]}; {shares[1]} in "
            f"the second{parts[1]}"
        )
    run = runs[0]
    title = f"{shares[0]} of the tiles' time is waiting"
    if run.waiting <= 0:
        return title
    last = run.waits_for(worst)
    whom = f"for {last} " if last else ""
    name = run.title(worst.stretch)
    where = short_name(name, 40)
    has_namesake = sum(run.title(lost.stretch) == name for lost in run.all) > 1
    is_one_of_several = worst.runs == 1 and len(run.order) > 1
    if run.several or has_namesake or is_one_of_several:
        step = f", {where}" if len(worst.stretch.steps) == 1 else ""
        where = f"{run.group} {place + 1:,}{step}"
    if worst.runs > 1:  # The share is that of all executions, but the picture shows one execution.
        where = f"the {worst.runs:,} executions of {where}"
    part = worst.runs * worst.mean / (run.waiting * run.cycles)
    if part > 0.9995:
        return f"{title}, all of it {whom}in {where}"
    return f"{title}; most is lost {whom}in {where}: {100 * part:.0f} % of the waiting"


def _worst_place(run: _Run, frame: int, shown_stretches: _Shown) -> tuple[int, _Lost]:
    """Return (index in the run, stretch) of the stretch in which most cycles are lost.

    The result is the stretch that `frame` shows, unless the picture leaves out a stretch that loses
    more cycles.
    """
    of_frame = shown_stretches.entries[shown_stretches.frames[frame]]
    of_run = worst_of(run)
    if of_run.runs * of_run.mean <= of_frame.runs * of_frame.mean:
        return frame, of_frame
    index = next(i for i, lost in enumerate(run.all) if lost is of_run)
    return int(np.flatnonzero(run.order == index)[0]), of_run


def worst_of(run: _Run) -> _Lost:
    """Return the stretch of a run with the most waiting, summed over its executions."""
    return max(run.all, key=lambda lost: lost.runs * lost.mean)


def _sentence(runs: list[_Run]) -> str:
    """Return a sentence: the share of waiting in each run, and the stretch with most of it."""
    sentences = []
    for run in runs:
        worst = worst_of(run)
        head = f"{run.name[0].upper()}{run.name[1:]}, " if len(runs) > 1 else ""
        sentences.append(
            f"{head}{number(run.cycles)} modelled cycles on {tiles_of(run.report)}: "
            f"{100 * run.waiting:.1f} % of their time is waiting. Most is lost in "
            f"{label(run.title(worst.stretch), 48)}: {run.reason(worst)}."
        )
    return " ".join(sentences)
