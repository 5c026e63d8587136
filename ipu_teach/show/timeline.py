"""The view `timeline`: the run on the axis of modelled time, to zoom into.

Above are the programs as nested boxes, the outermost on top; below, a lane for each tile with its
activity; last the whole run, with the part that is shown. The words describe the chosen superstep,
and show the codelet that it executes.

On several IPUs a row for each shows its steps and its waiting. The unit of choice is then a
stretch: the work of all IPUs until they wait for each other. If the whole run would be a bar code,
one round of a Repeat is shown at first. Two runs are shown below each other, on one scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ipu_teach.cost.phases import COMPUTE, EXCHANGE
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Report
from ipu_teach.report.walk import Span, Walk, WalkPlace
from ipu_teach.show import palette
from ipu_teach.show.blocks import Blocks
from ipu_teach.show.palette import STATES
from ipu_teach.show.panels import ENDS, Panels, flame
from ipu_teach.show.report_facts import (
    At,
    checked,
    ipus_at_work,
    linked,
    longest_wait_of,
    no_time,
    no_wait_title,
    numbered,
    part_of_run,
    phase_cycles,
    resting,
    run_of,
    seen_whole,
    slowest,
    sources,
    state_of,
    step_name,
    titled,
)
from ipu_teach.show.scene import Flame, Mark, Scene, Still, Table, Tape, Track, label, number
from ipu_teach.show.segments import WAIT, IPUStep, LanesOf, Segment, at_work, segments
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

REST = STATES.index(palette.REST)

MOST_STEPS = 3000  # of a run
MOST_OF_IPUS = 12_000  # steps of IPUs, where there are several
MOST_LANES = 64
MOST_ROWS = 12  # of nested programs
MOST_IPUS = 16  # with a row of their own
MOST_READ = 100  # supersteps of a run that is shown as a whole at first
MOST_PARTS = 5  # of a round, in words
X = 64.0
PITCH = 17.0
WHICH = ("block_filter", "program_filter")


def timeline(
    report: Report,
    other: Report | None = None,
    *,
    blocks: int | Sequence[int] | None = None,
    at: At = None,
    **which: Any,
) -> View:
    """Where in a run does the time go?

    The view shows the run in `report` on the axis of modelled time, with the programs above it and
    the tiles below; and below that the run in `other`, on the same scale. A run of more than 100
    supersteps is shown as a whole at a key or a button, and at first in one round of its outermost
    Repeat that is not longer than that.

    `at` is where the picture of one run rests, as for `show.bsp`; a kind of phase means a superstep
    that spends most of its time in it. By default it rests where most of the time goes. `blocks` is
    a tile, or up to eight: their blocks replace the programs, as lightweight profiling has them.
    `which` picks them as in `report.execution.blocks`: `block_filter` and `program_filter`.

    On several IPUs each has a row with its steps in place of the programs, up to 16 of them, and
    the unit of choice is a stretch: the work of all IPUs until they wait for each other.

    Up to 3,000 supersteps are shown, on more than four IPUs 12,000 divided by their number, and
    fewer if the scene would be larger than 150 kB. More than 64 tiles share 64 lanes, in each phase
    sorted by their time, of which a lane shows a mean. Programs nested more than 12 deep are shown
    up to there. The view says so.

    Raises `InvalidOptionError` if an argument is not a report, or if no step in it takes time.
    """
    if which and (blocks is None or not which.keys() <= set(WHICH)):
        raise InvalidOptionError(f"""show.timeline() was given {", ".join(sorted(which))}.
            next:  say whose blocks, blocks=0, and pick them with {", ".join(WHICH)}.""")
    reports = [
        checked(first_end, "timeline") for first_end in (report, report if other is None else other)
    ]
    seen_whole("timeline", other, at)
    if blocks is not None and other is not None:
        raise InvalidOptionError("""show.timeline() was given blocks of two reports.
            next:  give it one report, or leave blocks out.""")

    def scene(max_steps: int) -> Scene:
        if other is None:
            return linked(_Maker(report, max_steps, blocks, which).scene(at=at), report, ("tiles",))
        return _below(
            *(_Maker(report_of, max_steps, None, {}).scene(False) for report_of in reports)
        )

    max_steps = min(
        MOST_STEPS, MOST_OF_IPUS // max(report_of.target.num_ipus for report_of in reports)
    )
    return fitting(scene, min(max_steps, max(len(report_of.step_numbers) for report_of in reports)))


def _below(first: Scene, second: Scene) -> Scene:
    """Return two runs, one below the other, on the scale of the longer one."""
    stills = len(first.stills)
    count = len(first.frames)
    drawings = len(first.drawings)
    first_end = float(first.begins[-1])
    two = float(second.begins[-1])
    marks = list[Mark]()
    rows = list[tuple[str, ...]]()
    for which, (name, scene) in enumerate((("first", first), ("second", second))):
        rows += [(name, *row) for row in scene.table[1]]
        for mark in scene.marks:
            if isinstance(mark, Flame | Tape):
                changes: dict[str, Any] = {"name": mark.name + " of the second" * which}
                changes |= {"heading": f"{name} run: {mark.heading}", "span": max(first_end, two)}
                if isinstance(mark, Flame) and not mark.timed:
                    changes |= {
                        "first": mark.first + which * count,
                        "last": mark.last + which * count,
                    }
                marks.append(replace(mark, y=mark.y + which * (first.height - 24), **changes))
    moved = []
    for still in second.stills:
        named = {f"{name} of the second": place for name, place in still.lanes.items()}
        lanes = {name: (n + drawings, a, b) for name, (n, a, b) in named.items()}
        source = still.source + len(first.sources) if still.source >= 0 else still.source
        moved.append(replace(still, lanes=lanes, source=source))
    comparison = "fewer" if two <= first_end else "more"
    change = f"takes {abs(100 - 100 * two / first_end):.1f} % {comparison} cycles than the first"
    title = "Both runs take equally long" if first_end == two else f"The second run {change}"
    return replace(
        first,
        title=title,
        sentence=f"Two runs on one axis of time: the second {change}. First: {first.sentence} "
        f"Second: {second.sentence}",
        height=first.height + second.height - 24,
        marks=tuple(marks),
        stills=(*first.stills, *moved),
        frames=np.concatenate((first.frames, second.frames + stills)),
        table=(("run", *first.table[0]), tuple(rows)),
        drawings=(*first.drawings, *second.drawings),
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
        sources=(*first.sources, *second.sources),
        data={"second": count},
    )


def _short(place: WalkPlace) -> str:
    """Return a compute set has its colour, and of what has a name of one's own, a module's say,
    that is enough."""
    named = place.node.kind in ("Execute", "Sequence") and place.node.name
    return place.node.name if named else place.title


def _full_name(report: Report, step: int) -> str:
    """Return the kind and the name of a compiled step, not shortened."""
    cost = report.step_cost(step)
    return f"{cost.kind} {cost.name}".strip()


class _Maker:
    """Makes the scene of the first `steps` supersteps."""

    def __init__(self, report: Report, steps: int, tiles: object, which: dict[str, Any]) -> None:
        self.report = report
        self.steps = min(steps, report.num_steps)
        self._tiles = tiles
        self._which = which
        self.several = report.target.num_sets > 1
        self.lanes = LanesOf(report, MOST_LANES)
        numbers, runs = np.unique(report.step_numbers[: self.steps], return_counts=True)
        # the number of executions of each step
        self.runs = dict(zip(numbers.tolist(), runs.tolist(), strict=True))
        self.stretches, self.which = segments(report, self.steps)
        self.walk = Walk(report, self.steps)
        self._codes: dict[tuple[int, int | None], int] = {}

    def scene(self, alone: bool = True, at: At = None) -> Scene:
        cycles = np.array([stretch.cycles for stretch in self.stretches])
        if not cycles[self.which].any():
            raise no_time("timeline")
        texts: dict[str, int] = {}
        stills = tuple(self._still(place, texts) for place in range(len(self.stretches)))
        total = cycles[self.which]
        blocks = (
            None
            if self._tiles is None
            else Blocks(self.report, self._tiles, float(total.sum()), self._which)
        )
        codes = STATES if blocks is None else tuple(dict.fromkeys((*STATES, *blocks.codes)))
        if blocks is None and self.several:
            nested = self._rows(np.append(0, np.cumsum(total)))
        elif blocks is None:
            nested = self._flame([s for s in self.walk.spans if s.place.depth < MOST_ROWS])
        else:
            nested = blocks.flame(codes, PITCH)
        poster, title = self._finding()
        if at is not None:
            moments = [stills[which] for which in self.which.tolist()]
            poster = resting("timeline", moments, self.report, at)
            title = self._title_at(poster, moments[poster].label)
        alone = alone and blocks is None and not self.several
        window = self._round(poster) if alone else None
        panels = Panels()
        count = self.lanes.count
        labels = () if self.lanes.is_sorted else tuple(f"{t}" for t in range(count))
        sets = self.report.target.sets
        ends = (sets[0], sets[-1]) if self.several else ENDS
        tape = Tape(
            "tiles",
            self._heading(),
            count=count,
            labels=labels,
            ends=ends if self.lanes.is_sorted else (),
        )
        panels.put(nested, left=X)
        panels.below(34)
        panels.put(tape, left=X, high=max(100.0, min(230.0, 15.0 * count)))
        panels.below(34)
        panels.put(Track(), left=X, high=16)
        panels.drawings += [self.lanes.drawing(stretch) for stretch in self.stretches]
        round_ = "" if window is None else self._parts(*window)
        panels.notes += [round_] * bool(round_)
        self._notes(panels, blocks)
        return panels.scene(
            "timeline",
            titled(self.report, title + part_of_run(float(total.sum()), self.report)),
            self._sentence()
            + (f" {blocks.sentence()}" if blocks is not None else "")
            + f" {round_}" * bool(round_),
            foot=24,
            codes=codes,
            stills=stills,
            frames=self.which.astype(np.int64),
            table=self._table() if blocks is None else blocks.table(),
            poster=poster,
            group="stretch" if self.several else "superstep",
            sources=tuple(texts),
            data={} if window is None else {"window": window},
        )

    def _round(self, at: int) -> tuple[int, int] | None:
        """Return the supersteps of a round of a Repeat in which one of them is, where all are too
        many to read: of the outermost that are not."""
        places = [place for root in self.walk.roots for place in root.walk()]
        loops = {child for p in places if p.node.kind.startswith("Repeat") for child in p.children}
        boxes = [
            (span.first, span.last)
            for span in self.walk.spans
            if span.place in loops and span.first <= at < span.last <= span.first + MOST_READ
        ]
        return boxes[0] if boxes and len(self.which) > MOST_READ else None

    def _parts(self, first: int, last: int) -> str:
        """Return what some supersteps consist of, the longest first."""
        spent: Counter[str] = Counter()
        for which in self.which[first:last].tolist():
            cost = self.report.step_cost(self.stretches[which].parts[0].step)
            spent[label(cost.name or cost.kind, 40)] += self.stretches[which].cycles
        total = sum(spent.values())
        parts_said = [
            f"{name} {100 * c / total:.1f} %" for name, c in spent.most_common(MOST_PARTS)
        ]
        rest = 100 * sum(c for _, c in spent.most_common()[MOST_PARTS:]) / total
        parts_said += [f"all else {rest:.1f} %"] if len(spent) > MOST_PARTS else []
        return (
            f"Shown at first is one round, supersteps {first + 1:,} to {last:,}, {number(total)} "
            f"cycles: {', '.join(parts_said)}."
        )

    def _flame(self, spans: list[Span]) -> Flame:
        runs = {r.first: f"{r.name}: " for r in self.report.runs if r.name}
        labels = [
            (runs.get(s.first, "") if s.place.depth == 0 else "") + _short(s.place) for s in spans
        ]
        codes = [REST if s.place.node.step < 0 else self._code(s.place.node.step) for s in spans]
        boxes = [
            (s.place.depth, s.first, s.last, label_text, code)
            for s, label_text, code in zip(spans, labels, codes, strict=True)
        ]
        return flame("programs", "the programs, nested", PITCH, boxes, timed=False)

    def _rows(self, begins: Array) -> Flame:
        """Return a row for each IPU, or each of its sets of tiles: its steps, and for which other
        one it waits. `begins`: of each stretch of the run, in order."""
        ipus = min(self.report.target.num_sets, MOST_IPUS)
        boxes: list[tuple[int, int, int, str, int]] = []
        for begin, which in zip(begins.tolist(), self.which.tolist(), strict=False):
            stretch = self.stretches[which]
            for part in stretch.parts:
                cost = self.report.step_cost(part.step)
                code = self._code(part.step, part.ipu)
                at = begin + part.start
                set_name = np.flatnonzero(at_work(self.report, part.step)).tolist()
                for ipu in set_name if part.ipu is None else (part.ipu,):
                    boxes += [(ipu, at, at + part.cycles, cost.name or cost.kind, code)] * bool(
                        part.cycles
                    )
            for ipu, start, until, last in stretch.waits:
                title = f"waits for {stretch.names[last]}"
                boxes.append((ipu, begin + start, begin + until, title, WAIT))
        replicas = self.report.replicas
        target = self.report.target
        ipus_each = target.num_ipus // replicas
        of = f"; {counted(ipus_each, 'IPU')} to each of {replicas} replicas" if replicas > 1 else ""
        heading = f"the {'sets of tiles' if target.io_tiles else 'IPUs'}, each with its steps{of}"
        boxes = [box for box in boxes if box[0] < ipus]
        rows = target.sets[:ipus]
        return flame("programs", heading, PITCH, boxes, timed=True, beside=rows)

    def _code(self, step: int, ipu: int | None = None) -> int:
        """Return the colour of a step: that of its longest phase."""
        if (step, ipu) not in self._codes:
            self._codes[step, ipu] = state_of(self.report.phases(step, ipu))
        return self._codes[step, ipu]

    def _still(self, place: int, texts: dict[str, int]) -> Still:
        """Return a stretch; the codelet that is shown is of the longest step of the last IPU."""
        stretch = self.stretches[place]
        alone = len(stretch.parts) == 1
        longest = max(
            filter(stretch.lasts, stretch.parts), key=lambda part: part.cycles, default=None
        )
        methods = () if longest is None else sources(self.report, longest.step)
        text = "\n\n".join(numbered(name, source) for name, source in methods)
        phases = [p for part in stretch.parts for p in self.report.phases(part.step, part.ipu)]
        values: dict[str, Array] = {}
        for kind in (COMPUTE, EXCHANGE):
            busy = self.lanes.spent(phases, kind)
            values |= {} if busy is None else {kind: busy}
        parts_said = ", ".join(f"{{{kind}}} cycles of {kind}" for kind in values) or "not at work"
        lane = "lane {i} of the sorted tiles" if self.lanes.is_sorted else "tile {i}"
        title, note = self._alone(stretch.parts[0]) if alone else self._meanwhile(stretch, longest)
        return Still(
            title,
            note,
            REST if longest is None else self._code(longest.step, longest.ipu),
            stretch.cycles,
            first=True,
            lanes={"tiles": (place, 0, stretch.cycles)},
            values=values,
            say=f"{lane}: {parts_said} in this {'superstep' if alone else 'stretch'}",
            source=texts.setdefault(text, len(texts)) if text else -1,
        )

    def _alone(self, part: IPUStep) -> tuple[str, str]:
        """Return (title, note) of one step."""
        step = part.step
        sets = self.report.target.sets
        set_name = "" if part.ipu is None else f"{sets[part.ipu]}: "
        phases = self.report.phases(step, part.ipu)
        methods = sources(self.report, step)
        note = phase_cycles(phases)
        compute = next((p for p in phases if p.kind == COMPUTE and p.busy is not None), None)
        if compute is not None and compute.busy is not None:
            who, many = slowest(compute.busy)
            equal = not set_name and compute.busy.min() == compute.busy.max()
            longest = f"{who} {'compute' if many else 'computes'} longest"
            note += "; all tiles compute equally long" if equal else f"; {longest}"
        if methods:
            note += f"; codelet {', '.join(dict.fromkeys(name for name, _ in methods))}"
        return label(set_name + step_name(self.report, step, 60), 60), note

    def _meanwhile(self, stretch: Segment, longest: IPUStep | None) -> tuple[str, str]:
        """Return (title, note) of what several IPUs do in a stretch."""
        note = "takes no time"
        if longest is not None:
            name = label(self.report.step_cost(longest.step).name, 40)
            note = f"{stretch.finish_text()}; {stretch.names[stretch.last]} longest with {name}"
        return stretch.summary, note

    def _heading(self) -> str:
        if not self.lanes.is_sorted:
            return "the tiles, each by its number"
        return (
            f"{self.lanes.tiles:,} tiles in {self.lanes.count} lanes, slowest first"
            + ", IPU by IPU" * self.several
        )

    def _notes(self, panels: Panels, blocks: Blocks | None) -> None:
        """Return notes on the parts that were left out or merged."""
        notes = panels.notes
        if blocks is not None and blocks.missing:
            notes.append(f"{counted(blocks.missing, 'more block')} of these tiles are left out.")
        panels.first(self.steps, self.report.num_steps, "supersteps")
        notes += self.lanes.notes
        ipus = self.report.target.num_sets
        if self.several:
            notes.append(
                "The strip of the whole run shows in each stretch the IPU that takes longest; the "
                "rows show them all."
            )
        if self.several and blocks is None and ipus > MOST_IPUS:
            notes.append(f"The rows are those of the first {MOST_IPUS} of {ipus} IPUs.")
        if (
            blocks is None
            and not self.several
            and any(s.place.depth >= MOST_ROWS for s in self.walk.spans)
        ):
            notes.append(f"Programs nested more than {MOST_ROWS} deep are left out.")

    def _finding(self) -> tuple[int, str]:
        """Return (the place at which the picture rests, a title about that place).

        It is where most of the time goes; on several IPUs, in the longest waiting of IPUs.
        """
        if self.several:
            order = self.which.tolist()
            wait = longest_wait_of(self.stretches, order)
            if wait is None:
                spent = np.array([stretch.cycles for stretch in self.stretches])
                spent = spent * np.bincount(order, minlength=len(spent))
                return order.index(int(np.argmax(spent))), no_wait_title(self.report)
            place, ipu_wait = wait
            waited = [sum(end - begin for _, begin, end, _ in s.waits) for s in self.stretches]
            lengths = [stretch.cycles for stretch in self.stretches]
            ipu_cycles = self.report.target.num_sets * sum(lengths[i] for i in order)
            share = 100 * sum(waited[i] for i in order) / ipu_cycles
            return place, f"{share:.1f} % of the IPUs' time is waiting: {ipu_wait.text(place)}"
        spent_by_name, _ = self._by_name
        worst, cycles = spent_by_name.most_common(1)[0]
        share = 100 * cycles / spent_by_name.total()
        # the longest superstep of the steps of that name, and its first occurrence
        is_worst = [_full_name(self.report, s.parts[0].step) == worst for s in self.stretches]
        lengths = [s.cycles * named for s, named in zip(self.stretches, is_worst, strict=True)]
        place = int(np.argmax(np.array(lengths)[self.which]))
        return place, f"{share:.1f} % of the time goes to {label(worst, 48)}"

    def _title_at(self, place: int, name: str) -> str:
        """Return the title of a picture that rests at a chosen place: its share of the time."""
        cycles = [stretch.cycles for stretch in self.stretches]
        share = 100 * cycles[int(self.which[place])] / sum(cycles[i] for i in self.which.tolist())
        unit = "Stretch" if self.several else "Superstep"
        return f"{unit} {place + 1:,}, {name}, takes {share:.1f} % of the time"

    @cached_property
    def _by_name(self) -> tuple[Counter[str], Counter[str]]:
        """The cycles and the supersteps of all steps with one name, by that name."""
        spent = Counter[str]()
        supersteps = Counter[str]()
        for step, times in self.runs.items():
            cost = self.report.step_cost(step)
            name = _full_name(self.report, step)
            spent[name] += times * cost.cycles
            supersteps[name] += times
        return spent, supersteps

    def _sentence(self) -> str:
        report = self.report
        if self.several:
            return f"{run_of(report)}. {ipus_at_work(report)}"
        spent, supersteps = self._by_name
        worst, cycles = spent.most_common(1)[0]
        part = self.steps < report.num_steps
        where = f"In the first {self.steps:,}, the" if part else "The"
        return (
            f"{run_of(report)}. {where} largest part of the time goes to {label(worst, 48)}: "
            f"{number(cycles)} in {counted(supersteps[worst], 'superstep')}, "
            f"{100 * cycles / spent.total():.1f} %."
        )

    def _table(self) -> Table:
        report = self.report
        rows = []
        for step, times in self.runs.items():
            cost = report.step_cost(step)
            names = ", ".join(dict.fromkeys(name for name, _ in sources(report, step)))
            cycles = number(cost.cycles), number(times * cost.cycles)
            rows.append((cost.kind, label(cost.name, 48), f"{times:,}", *cycles, names))
        return ("kind", "name", "runs", "cycles of one", "cycles of all", "codelets"), tuple(rows)
