"""The view `balance`: why tiles wait, for whom, and what evenly shared work would take.

Above the whole run, in each phase with its tiles sorted by their time, so that the grey area is the
time that is lost. Below the chosen superstep the same way, how many tiles take how long, and where
on the machine those are that wait.

Of several IPUs each superstep is shown for itself, as if they all did it together; the view says
so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from ipu_teach.cost.phases import Phase
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Report, Why
from ipu_teach.report.why import codelets_on, lost, lost_in
from ipu_teach.show import palette
from ipu_teach.show.palette import STATE, STATES, Code
from ipu_teach.show.panels import ENDS, Panels, grid
from ipu_teach.show.report_facts import because, checked, linked, sorted_lanes, titled
from ipu_teach.show.scene import (
    Bar,
    Drawing,
    Lanes,
    Painted,
    Scene,
    Still,
    Tape,
    label,
    number,
    quantiles,
)
from ipu_teach.show.stack import stack_places, stacks
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

WAIT = STATES.index(palette.WAIT)
FIFTHS = tuple(
    Code(f"waits up to {20 * i + 20} %", f"{i + 1}", fill.light, fill.dark, "")
    for i, fill in enumerate(palette.FILL[:5])
)
CODES = (*STATES, *FIFTHS, Code("tiles that take so long", "T", "#009e73", "#1cb288", ""))
MOST_STEPS = 500  # of each run
MOST_LANES = 64
BINS = 24
BARS = 240.0, 84.0  # width and height of the bins
SAY_BIN = "{n} {n|tile is|tiles are} at work for {label} of the slowest tile's time."
SIDE = 110.0
TOGETHER = (
    "Each superstep is drawn as if all IPUs did it together, one superstep after the other. They "
    "do not wait for each other in every one, and the run takes {} modelled cycles: "
    "show.timeline(report) has it by time, with what IPUs wait for."
)


def balance(report: Report, other: Report | None = None, *, why: Why | None = None) -> View:
    """Why tiles wait in the run of `report`; with `other`, in two runs above each other on one axis
    of time.

    Up to 500 supersteps of a run are shown, and fewer in a scene that would be larger than 150 kB;
    the view says so. What even work would take is the mean of the tiles, phase by phase. `why`: a
    chain of causes, `report.why(…)`, whose tiles get one colour. Raises `InvalidOptionError` for
    something that is no report, or in which nothing has run that takes time.
    """
    runs = [_Run(checked(report, "balance"), "first report")]
    if other is not None:
        runs.append(_Run(checked(other, "balance"), "second report"))
    if not all(run.cycles for run in runs):
        raise InvalidOptionError("""show.balance() was given a run that takes no modelled time.
            next:  run a program that copies or computes.""")
    scene_of = (
        partial(_scene, runs)
        if other
        else lambda most: linked(_scene(runs, most), report, ("tiles of run",))
    )
    return because(fitting(scene_of, MOST_STEPS), report, why)


@dataclass(frozen=True, eq=False)
class _Run:
    report: Report
    name: str

    @property
    def steps(self) -> list[tuple[int, int]]:
        """(number, runs) of each compiled step that ran."""
        numbers, runs = np.unique(self.report.step_numbers, return_counts=True)
        return list(zip(numbers.tolist(), runs.tolist(), strict=True))

    @property
    def cycles(self) -> int:
        """Cycles of all supersteps: those of the run, on one IPU."""
        return sum(runs * self.report.step_cost(step).cycles for step, runs in self.steps)

    @property
    def waiting(self) -> float:
        """The share of the tiles' time in all supersteps that is waiting."""
        return sum(runs * lost_in(self.report, step) for step, runs in self.steps) / self.cycles

    def slowest(self, step: int) -> str:
        """The tile for which most time is lost in a superstep, "" if none is."""
        worst = max(self.report.phases(step), key=lost, default=None)
        return (
            f"{int(np.argmax(worst.busy))}"
            if worst is not None and worst.busy is not None and lost(worst)
            else ""
        )

    def told(self, step: int) -> str:
        """Whom the tiles of a superstep wait for, why, and what even work would take."""
        cost, phases = self.report.step_cost(step), self.report.phases(step)
        worst = max(phases, key=lost)
        if worst.busy is None or lost(worst) < 0.0005 * cost.cycles:
            return "no tile waits for another"
        tile, middle = int(np.argmax(worst.busy)), float(np.median(worst.busy))
        share = 100 * lost_in(self.report, step) / cost.cycles
        return (
            f"{share:.1f} % of the tiles' time is waiting, most in {worst.kind}: tile {tile} takes "
            f"{number(worst.cycles)}, the median tile "
            f"{number(middle)}{self._cause(step, worst, tile)}; shared evenly, the superstep would "
            f"take {number(round(cost.cycles - lost_in(self.report, step)))} instead of "
            f"{number(cost.cycles)}"
        )

    def _cause(self, step: int, phase: Phase, tile: int) -> str:
        """What the figures show of why a tile is the slowest."""
        if phase.exchange >= 0:
            traffic = self.report.step_cost(step).exchange[phase.exchange]
            received, sent = (
                f"{int(a[tile]):,} bytes, the median {int(np.median(a)):,}"
                for a in (traffic.received, traffic.sent)
            )
            return f"; it receives {received}, and sends {sent}"
        said = [f"{name} on {many:,}" for name, many in codelets_on(self.report, step, tile)[:2]]
        return (
            f"; it executes {' and '.join(said)} of {self.report.target.num_tiles:,} tiles"
            if said
            else ""
        )


def _scene(runs: list[_Run], most: int) -> Scene:
    span, count = (
        max(run.cycles for run in runs),
        min(MOST_LANES, *(run.report.target.num_tiles for run in runs)),
    )
    stills: list[Still] = []
    frames: list[int] = []
    panels, rows, histograms = Panels(), list[tuple[str, ...]](), list[Array]()
    for run in runs:
        report, tiles = run.report, run.report.target.num_tiles
        name = run.name if len(runs) > 1 else "run"
        of = {}
        for step, times in run.steps:
            of[step] = len(stills)
            histograms.append(_histogram(report.phases(step)))
            stills.append(_still(run, step, name, histograms[-1], len(stills)))
            panels.drawings.append(_drawing(report.phases(step), count))
            cost = report.step_cost(step)
            waits = 100 * lost_in(run.report, step) / cost.cycles if cost.cycles else 0.0
            ran = f"{times:,}", number(cost.cycles), f"{waits:.1f} %", run.slowest(step)
            rows.append((run.name, cost.kind, label(cost.name, 48), *ran))
        taken = report.step_numbers[:most].tolist()
        frames += [of[step] for step in taken]
        panels.first(
            len(taken), report.num_steps, "supersteps", f"Of the {run.name} the picture shows"
        )
        heading = (
            f"{counted(tiles, 'tile')}, {number(run.cycles)} modelled cycles, "
            f"{100 * run.waiting:.1f} % waiting"
        )
        if report.target.num_ipus > 1:
            panels.notes.append(TOGETHER.format(number(report.total_cycles)))
        text = f"{name}: {heading}" if len(runs) > 1 else titled(report, heading)
        panels.put(Tape(name, text, count=count, span=span, ends=ENDS), left=64, high=100)
        panels.below()
        if count < tiles:
            panels.notes.append(sorted_lanes(count, tiles))
    lanes = Lanes("lanes", "the superstep, slowest first", count=count, ends=ENDS)
    panels.put(lanes, left=64, right=424, high=240)
    ends, each = ("0", "the slowest"), 100 / BINS
    pictures = tuple(
        stacks([(len(CODES) - 1, many)], *BARS, int(many.max()), "tiles", ends)
        for many in histograms
    )
    shares = tuple(
        f"{number(round(i * each, 1))} to {number(round((i + 1) * each, 1))} %" for i in range(BINS)
    )
    bars = Painted(
        "histogram",
        "tiles by their time at work",
        width=BARS[0],
        height=BARS[1],
        count=BINS,
        pictures=pictures,
        labels=shares,
        places=stack_places(BINS, *BARS),
    )
    panels.put(bars, left=464)
    for i, run in enumerate(runs):
        name, heading = (run.name, run.name) if len(runs) > 1 else ("run", "tiles that wait")
        panels.put(
            grid(f"tiles of {name}", run.report.target, SIDE, heading), left=464 + 126 * i, down=130
        )
    worst = [lost_in(run.report, s) for run in runs for s, _ in run.steps]
    return panels.scene(
        "balance",
        "Why tiles wait" + (", in two runs" if len(runs) > 1 else ""),
        _sentence(runs),
        foot=12,
        codes=CODES,
        stills=tuple(stills),
        frames=np.array(frames, np.int64),
        poster=max(range(len(frames)), key=lambda f: worst[frames[f]]),
        table=(
            ("report", "kind", "name", "runs", "cycles", "waiting", "slowest tile"),
            tuple(rows),
        ),
    )


def _still(run: _Run, step: int, name: str, histogram: Array, number_of: int) -> Still:
    report = run.report
    cost, phases = report.step_cost(step), report.phases(step)
    tiles = report.target.num_tiles
    waits = np.sum([p.cycles - p.busy for p in phases if p.busy is not None], axis=0) + np.zeros(
        tiles
    )
    work = np.sum([p.busy for p in phases if p.busy is not None], axis=0) + np.zeros(tiles)
    code = len(STATES) + np.clip(np.ceil(5 * waits / (cost.cycles or 1)).astype(np.int64) - 1, 0, 4)
    values = {"work": work.astype(np.int64), "waits": np.round(waits).astype(np.int64)}
    where = "" if name == "run" else f"{name}: "
    grid = f"tiles of {name}"
    say = f"{where}tile {{i}}: at work {{work}} modelled cycles, waits {{waits}}"
    long = STATE[max(phases, key=lambda p: p.cycles).kind] if phases else 0
    return Still(
        label(f"{where}{cost.kind} {cost.name}".strip(), 60),
        run.told(step) if phases else "takes no time",
        long,
        cost.cycles,
        True,
        {grid: (code, cost.cycles or 1, len(STATES))},
        dict.fromkeys((name, "lanes"), (number_of, 0, cost.cycles)),
        pictures={"histogram": number_of},
        say="{label}",
        about={grid: (say, values), "histogram": (SAY_BIN, {"n": histogram})},
    )


def _drawing(phases: tuple[Phase, ...], count: int) -> Drawing:
    bars, start = [], 0.0
    for phase in phases:
        end = start + phase.cycles
        length = phase.cycles if phase.busy is None else quantiles(phase.busy, count)
        bars.append(Bar(STATE[phase.kind], start, length, end, -1 if phase.busy is None else WAIT))
        start = end
    return Drawing(start, tuple(bars), "modelled cycles")


def _histogram(phases: tuple[Phase, ...]) -> Array:
    """int64[BINS]: how many tiles are at work how long in a superstep, in equal parts up to the
    slowest."""
    busy = [p.busy for p in phases if p.busy is not None]
    work = np.sum(busy, axis=0) if busy else np.zeros(1)
    return np.histogram(work, BINS, (0, max(1, float(work.max()))))[0].astype(np.int64)


def _sentence(runs: list[_Run]) -> str:
    said = []
    for run in runs:
        worst = max(run.steps, key=lambda one: one[1] * lost_in(run.report, one[0]))[0]
        cost = run.report.step_cost(worst)
        head = f"{run.name[0].upper()}{run.name[1:]}, " if len(runs) > 1 else ""
        tiles = counted(run.report.target.num_tiles, "tile")
        of = "in supersteps, each for itself, " if run.report.target.num_ipus > 1 else ""
        said.append(
            f"{head}{number(run.cycles)} modelled cycles {of}on {tiles}: {100 * run.waiting:.1f} % "
            "of their time is waiting. Most is lost in "
            f"{label(f'{cost.kind} {cost.name}'.strip(), 48)}: {run.told(worst)}."
        )
    return " ".join(said)
