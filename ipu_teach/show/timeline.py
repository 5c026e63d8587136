"""The view `timeline`: a run on an axis of modelled time that you can zoom into.

At the top are the programs as nested boxes, the outermost program first. Below are a lane for each
tile with its activity, and a strip of the whole run that marks the visible part. A text describes
the chosen superstep and shows the codelet that it executes.

On several IPUs, each IPU has a row with its steps and its waiting, and you choose a stretch instead
of a superstep: a group of supersteps at whose end all IPUs wait for each other. If a run is too
long to be read as a whole, one iteration of a Repeat is visible at first. Two runs are shown one
above the other, on the same scale.
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
from ipu_teach.show.panels import Panels, flame
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
    refuse_at_of_two,
    resting,
    run_of,
    short_name,
    slowest,
    sources,
    state_of,
    step_name,
    titled,
)
from ipu_teach.show.scene import Flame, Mark, Scene, Still, Table, Tape, Track, label, number
from ipu_teach.show.segments import STRETCH, WAIT, IPUStep, LanesOf, Segment, at_work, segments
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

REST = STATES.index(palette.REST)

MOST_STEPS = 3000  # The maximum number of supersteps that are shown.
MOST_OF_IPUS = 12_000  # The maximum of supersteps times IPUs, on several IPUs.
MOST_LANES = 64
MOST_ROWS = 12  # The maximum number of levels of nested programs.
MOST_IPUS = 16  # The maximum number of IPUs that have a row.
MOST_READ = 100  # The maximum number of supersteps that are all visible at first.
MOST_PARTS = 5  # The maximum number of steps in the text about an iteration.
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

    The view shows the run in `report` on an axis of modelled time, with the programs above and the
    tiles below. The run in `other` is shown below it on the same scale. If a single run on one IPU
    has more than 100 supersteps, only one iteration of a Repeat is visible at first, unless
    `blocks` is given. It is the outermost Repeat whose iterations have at most 100 supersteps. A
    key or a button shows the whole run.

    `at` is the superstep at which the picture of one run rests: its number, counted from 0, the
    name of a step, or a kind of phase that takes most of the superstep. By default, the picture
    rests where most of the time goes or, on several IPUs, at the longest waiting of IPUs. The title
    is about that superstep.

    `blocks` is a tile number, or up to eight of them: the blocks that lightweight profiling records
    on these tiles replace the programs. `which` filters these blocks by `block_filter` and
    `program_filter`, which `report.execution.blocks` describes.

    On several IPUs, up to 16 IPUs have a row each with their steps. These rows replace the
    programs. You then choose a stretch: the work of all IPUs until they wait for each other.

    At most 3,000 supersteps are shown. On more than four IPUs, the limit is 12,000 divided by the
    number of IPUs. Fewer are shown if the scene would be larger than 150 kB. If there are more than
    64 tiles, they share 64 lanes: in each phase, the tiles are sorted by their time, and each lane
    shows the mean of several tiles. Programs nested more than 12 levels deep are left out. A note
    below the picture says what is left out.

    :raises InvalidOptionError: if an argument is not a report, if no step in it takes time, or if
        no frame shows `at`. It is also raised if `at` or `blocks` is given with two reports, or if
        a filter is unknown or given without `blocks`. The tiles in `blocks` must be one to eight,
        with at least one profiled block.
    """
    if which and (blocks is None or not which.keys() <= set(WHICH)):
        raise InvalidOptionError(f"""show.timeline() was given {", ".join(sorted(which))}, but it
            takes only the filters {" and ".join(WHICH)}, and only together with blocks=.
            next:  give the tile, blocks=0, and filter its blocks by {", ".join(WHICH)}.""")
    reports = [
        checked(each_run, "timeline") for each_run in (report, report if other is None else other)
    ]
    refuse_at_of_two("timeline", other, at)
    if blocks is not None and other is not None:
        raise InvalidOptionError("""show.timeline() was given blocks= with two reports, but it shows
            blocks of one report only.
            next:  give one report, or leave out blocks=.""")

    def scene(max_steps: int) -> Scene:
        if other is None:
            return linked(_Maker(report, max_steps, blocks, which).scene(at=at), report, ("tiles",))
        return _below(*(_Maker(each_run, max_steps, None, {}).scene(False) for each_run in reports))

    max_steps = min(
        MOST_STEPS, MOST_OF_IPUS // max(each_run.target.num_ipus for each_run in reports)
    )
    return fitting(scene, min(max_steps, max(len(each_run.step_numbers) for each_run in reports)))


def _below(first: Scene, second: Scene) -> Scene:
    """Return the scene of two runs, one above the other, on the scale of the longer run."""
    num_stills = len(first.stills)
    num_frames = len(first.frames)
    num_drawings = len(first.drawings)
    first_cycles = float(first.begins[-1])
    second_cycles = float(second.begins[-1])
    marks = list[Mark]()
    rows = list[tuple[str, ...]]()
    for run_number, (name, scene) in enumerate((("first", first), ("second", second))):
        rows += [(name, *row) for row in scene.table[1]]
        for mark in scene.marks:
            if isinstance(mark, Flame | Tape):
                changes: dict[str, Any] = {"name": mark.name + " of the second" * run_number}
                changes |= {
                    "heading": f"{name} run: {mark.heading}",
                    "span": max(first_cycles, second_cycles),
                }
                if isinstance(mark, Flame) and not mark.timed:
                    changes |= {
                        "first": mark.first + run_number * num_frames,
                        "last": mark.last + run_number * num_frames,
                    }
                marks.append(replace(mark, y=mark.y + run_number * (first.height - 24), **changes))
    second_stills = []
    for still in second.stills:
        place_of = {f"{name} of the second": place for name, place in still.lanes.items()}
        lanes = {name: (n + num_drawings, a, b) for name, (n, a, b) in place_of.items()}
        source = still.source + len(first.sources) if still.source >= 0 else still.source
        second_stills.append(replace(still, lanes=lanes, source=source))
    title = "Both runs take equally long"
    if first_cycles != second_cycles:
        share = 100 * abs(second_cycles - first_cycles) / first_cycles
        comparison = "fewer" if second_cycles < first_cycles else "more"
        title = f"The second run takes {share:.1f} % {comparison} cycles than the first"
    return replace(
        first,
        title=title,
        sentence=f"Two runs on one axis of time. {title}. First: {first.sentence} "
        f"Second: {second.sentence}",
        height=first.height + second.height - 24,
        marks=tuple(marks),
        stills=(*first.stills, *second_stills),
        frames=np.concatenate((first.frames, second.frames + num_stills)),
        table=(("run", *first.table[0]), tuple(rows)),
        drawings=(*first.drawings, *second.drawings),
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
        sources=(*first.sources, *second.sources),
        data={"second": num_frames},
    )


def _short(place: WalkPlace) -> str:
    """Return the text in the box of a program.

    The text consists of the kind and the name of the program. For a compute set, or a Sequence with
    a name, it is only the name.
    """
    named = place.node.kind in ("Execute", "Sequence") and place.node.name
    return place.node.name if named else place.title


def _full_name(report: Report, step: int) -> str:
    """Return the kind and the complete name of a compiled step."""
    cost = report.step_cost(step)
    return f"{cost.kind} {cost.name}".strip()


class _Maker:
    """Builds the scene of the first `steps` supersteps of a run.

    `tiles` are the tiles whose blocks replace the programs, or None. `filters` selects these
    blocks.

    Attributes:
        runs: for each compiled step, how often it ran in these supersteps.
        stretches: the distinct stretches; a stretch is the steps between two syncs of all IPUs.
        order: int64: for each stretch of the run, its index in `stretches`.
    """

    def __init__(self, report: Report, steps: int, tiles: object, filters: dict[str, Any]) -> None:
        self.report = report
        self.steps = min(steps, report.num_steps)
        self._tiles = tiles
        self._filters = filters
        self.several = report.target.num_sets > 1
        self.lanes = LanesOf(report, MOST_LANES)
        numbers, runs = np.unique(report.step_numbers[: self.steps], return_counts=True)
        self.runs = dict(zip(numbers.tolist(), runs.tolist(), strict=True))
        self.stretches, self.order = segments(report, self.steps)
        self.walk = Walk(report, self.steps)
        self._codes: dict[tuple[int, int | None], int] = {}

    def _tape(self) -> Tape:
        """Return the mark with lanes for the tiles over the whole run; many tiles share lanes."""
        count = self.lanes.count
        labels = () if self.lanes.is_sorted else tuple(f"{t}" for t in range(count))
        return Tape(
            "tiles",
            self._heading(),
            count=count,
            labels=labels,
            ends=self.lanes.ends if self.lanes.is_sorted else (),
        )

    def scene(self, alone: bool = True, at: At = None) -> Scene:
        """Return the scene, which rests at `at`. `alone` is False if the view shows two runs."""
        cycles = np.array([stretch.cycles for stretch in self.stretches])
        if not cycles[self.order].any():
            raise no_time("timeline")
        texts: dict[str, int] = {}
        stills = tuple(self._still(place, texts) for place in range(len(self.stretches)))
        lengths = cycles[self.order]
        blocks = (
            None
            if self._tiles is None
            else Blocks(self.report, self._tiles, float(lengths.sum()), self._filters)
        )
        codes = STATES if blocks is None else tuple(dict.fromkeys((*STATES, *blocks.codes)))
        if blocks is None and self.several:
            boxes = self._rows(np.append(0, np.cumsum(lengths)))
        elif blocks is None:
            boxes = self._flame([s for s in self.walk.spans if s.place.depth < MOST_ROWS])
        else:
            boxes = blocks.flame(codes, PITCH)
        poster, title = self._finding()
        if at is not None:
            stills_of_frames = [stills[i] for i in self.order.tolist()]
            poster = resting("timeline", stills_of_frames, self.report, at)
            title = self._title_at(poster, stills_of_frames[poster].label)
        is_alone = alone and blocks is None and not self.several
        window = self._round(poster) if is_alone else None
        panels = Panels()
        panels.put(boxes, left=X)
        panels.below(34)
        panels.put(self._tape(), left=X, high=max(100.0, min(230.0, 15.0 * self.lanes.count)))
        panels.below(34)
        panels.put(Track(), left=X, high=16)
        panels.drawings += [self.lanes.drawing(stretch) for stretch in self.stretches]
        round_text = "" if window is None else self._parts(*window)
        panels.notes += [round_text] * bool(round_text)
        self._notes(panels, blocks)
        return panels.scene(
            "timeline",
            titled(self.report, title + part_of_run(float(lengths.sum()), self.report)),
            self._sentence()
            + (f" {blocks.sentence()}" if blocks is not None else "")
            + f" {round_text}" * bool(round_text),
            foot=24,
            codes=codes,
            stills=stills,
            frames=self.order.astype(np.int64),
            table=self._table() if blocks is None else blocks.table(),
            poster=poster,
            group="stretch" if self.several else "superstep",
            sources=tuple(texts),
            data={} if window is None else {"window": window},
        )

    def _round(self, at: int) -> tuple[int, int] | None:
        """Return `(first, end)`: the range of supersteps that is visible at first, or None.

        The range is an iteration that contains superstep `at`. It belongs to the outermost Repeat
        whose iterations have at most 100 supersteps. None means that the whole run is visible.
        """
        programs = [place for root in self.walk.roots for place in root.walk()]
        bodies = {
            child
            for program in programs
            if program.node.kind.startswith("Repeat")
            for child in program.children
        }
        iterations = [
            (span.first, span.last)
            for span in self.walk.spans
            if span.place in bodies and span.first <= at < span.last <= span.first + MOST_READ
        ]
        return iterations[0] if iterations and len(self.order) > MOST_READ else None

    def _parts(self, first: int, last: int) -> str:
        """Return a text with the percentages of cycles that steps take in an iteration.

        The iteration consists of the supersteps from `first` to `last` - 1. The step with the
        largest percentage comes first.
        """
        spent: Counter[str] = Counter()
        for i in self.order[first:last].tolist():
            cost = self.report.step_cost(self.stretches[i].parts[0].step)
            spent[label(cost.name or cost.kind, 40)] += self.stretches[i].cycles
        total = sum(spent.values())
        shares = [
            f"{name} {100 * cycles / total:.1f} %" for name, cycles in spent.most_common(MOST_PARTS)
        ]
        rest = 100 * sum(cycles for _, cycles in spent.most_common()[MOST_PARTS:]) / total
        shares += [f"all else {rest:.1f} %"] if len(spent) > MOST_PARTS else []
        return (
            f"Shown at first is one round, supersteps {first + 1:,} to {last:,}, {number(total)} "
            f"cycles: {', '.join(shares)}."
        )

    def _flame(self, spans: list[Span]) -> Flame:
        """Return the programs as nested boxes."""
        run_names = {r.first: f"{r.name}: " for r in self.report.runs if r.name}
        labels = [
            (run_names.get(s.first, "") if s.place.depth == 0 else "") + _short(s.place)
            for s in spans
        ]
        codes = [REST if s.place.node.step < 0 else self._code(s.place.node.step) for s in spans]
        boxes = [
            (s.place.depth, s.first, s.last, text, code)
            for s, text, code in zip(spans, labels, codes, strict=True)
        ]
        return flame("programs", "the programs, nested", PITCH, boxes, timed=False)

    def _rows(self, begins: Array) -> Flame:
        """Return the mark with a row for each IPU, which shows its steps and its waiting.

        On a machine with I/O tiles, each of `Target.sets` has a row. `begins` are the cycles at
        which the stretches of the run begin, in order.
        """
        ipus = min(self.report.target.num_sets, MOST_IPUS)
        boxes: list[tuple[int, int, int, str, int]] = []
        for begin, i in zip(begins.tolist(), self.order.tolist(), strict=False):
            stretch = self.stretches[i]
            for part in stretch.parts:
                cost = self.report.step_cost(part.step)
                code = self._code(part.step, part.ipu)
                start_cycle = begin + part.start
                working = np.flatnonzero(at_work(self.report, part.step)).tolist()
                for ipu in working if part.ipu is None else (part.ipu,):
                    boxes += [
                        (ipu, start_cycle, start_cycle + part.cycles, cost.name or cost.kind, code)
                    ] * bool(part.cycles)
            for ipu, start, end, last in stretch.waits:
                title = f"waits for {stretch.names[last]}"
                boxes.append((ipu, begin + start, begin + end, title, WAIT))
        replicas = self.report.replicas
        target = self.report.target
        ipus_each = target.num_ipus // replicas
        each_replica = (
            f"; {counted(ipus_each, 'IPU')} to each of {replicas} replicas" if replicas > 1 else ""
        )
        rows_of = "sets of tiles" if target.io_tiles else "IPUs"
        heading = f"the {rows_of}, each with its steps{each_replica}"
        boxes = [box for box in boxes if box[0] < ipus]
        rows = target.sets[:ipus]
        return flame("programs", heading, PITCH, boxes, timed=True, beside=rows)

    def _code(self, step: int, ipu: int | None = None) -> int:
        """Return the index of the colour of a step, which is the colour of its longest phase."""
        if (step, ipu) not in self._codes:
            self._codes[step, ipu] = state_of(self.report.phases(step, ipu))
        return self._codes[step, ipu]

    def _still(self, place: int, texts: dict[str, int]) -> Still:
        """Return the still of the stretch with index `place`.

        It shows the source of the longest step of the IPU that ends the stretch last. `texts` maps
        the source of each codelet to its index; new texts are added.
        """
        stretch = self.stretches[place]
        is_one_step = len(stretch.parts) == 1
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
        kinds_text = ", ".join(f"{{{kind}}} cycles of {kind}" for kind in values) or "not at work"
        lane = "lane {i} of the sorted tiles" if self.lanes.is_sorted else "tile {i}"
        title, note = (
            self._alone(stretch.parts[0]) if is_one_step else self._meanwhile(stretch, longest)
        )
        return Still(
            title,
            note,
            REST if longest is None else self._code(longest.step, longest.ipu),
            stretch.cycles,
            first=True,
            lanes={"tiles": (place, 0, stretch.cycles)},
            values=values,
            say=f"{lane}: {kinds_text} in this {'superstep' if is_one_step else 'stretch'}",
            source=texts.setdefault(text, len(texts)) if text else -1,
        )

    def _alone(self, part: IPUStep) -> tuple[str, str]:
        """Return `(title, note)` of a stretch that consists of one step."""
        step = part.step
        sets = self.report.target.sets
        prefix = "" if part.ipu is None else f"{sets[part.ipu]}: "
        phases = self.report.phases(step, part.ipu)
        methods = sources(self.report, step)
        note = phase_cycles(phases)
        compute = next((p for p in phases if p.kind == COMPUTE and p.busy is not None), None)
        if compute is not None and compute.busy is not None:
            tiles, several = slowest(compute.busy)
            is_equal = not prefix and compute.busy.min() == compute.busy.max()
            longest = f"{tiles} {'compute' if several else 'computes'} longest"
            note += "; all tiles compute equally long" if is_equal else f"; {longest}"
        if methods:
            note += f"; codelet {', '.join(dict.fromkeys(name for name, _ in methods))}"
        return label(prefix + step_name(self.report, step, 60), 60), note

    def _meanwhile(self, stretch: Segment, longest: IPUStep | None) -> tuple[str, str]:
        """Return `(title, note)` of a stretch in which several IPUs execute different steps."""
        note = "takes no time"
        if longest is not None:
            name = short_name(self.report.step_cost(longest.step).name, 40)
            note = f"{stretch.finish_text()}; {stretch.names[stretch.last]} longest with {name}"
        return stretch.summary, note

    def _heading(self) -> str:
        """Return the heading above the lanes of the tiles."""
        stretch = f"; {STRETCH}" * self.several
        if not self.lanes.is_sorted:
            return f"the tiles, each by its number{stretch}"
        return (
            f"{self.lanes.tiles:,} tiles in {self.lanes.count} lanes, slowest first"
            + ", IPU by IPU" * self.several
            + f"; {self.lanes.mean_text}"
            + stretch
        )

    def _notes(self, panels: Panels, blocks: Blocks | None) -> None:
        """Add the notes about what was left out or merged."""
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
        """Return `(place, title)`: the frame at which the picture rests, and the title.

        The frame is where most of the time goes or, on several IPUs, the longest waiting of IPUs.
        """
        if self.several:
            order = self.order.tolist()
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
            kind, cycles = self._ipu_cycles().most_common(1)[0]
            title = f"{share:.1f} % of the IPUs' time is waiting, "
            title += f"{100 * cycles / ipu_cycles:.1f} % is {kind}"
            return place, f"{title}: {ipu_wait.text(place)}"
        spent_by_name, _ = self._by_name
        worst, cycles = spent_by_name.most_common(1)[0]
        share = 100 * cycles / spent_by_name.total()
        # The picture rests at the first of the longest supersteps of the step `worst`.
        is_worst = [_full_name(self.report, s.parts[0].step) == worst for s in self.stretches]
        lengths = [s.cycles * named for s, named in zip(self.stretches, is_worst, strict=True)]
        place = int(np.argmax(np.array(lengths)[self.order]))
        return place, f"{share:.1f} % of the time goes to {short_name(worst, 48)}"

    def _ipu_cycles(self) -> Counter[str]:
        """Return the cycles in each kind of phase, without waiting, added up over all IPUs."""
        spent = Counter[str]()
        runs = np.bincount(self.order, minlength=len(self.stretches)).tolist()
        for stretch, times in zip(self.stretches, runs, strict=True):
            for span in stretch.spans:
                ipus = 1
                if span.part.ipu is None:
                    ipus = len(stretch.ends) - len(span.part.idle)
                spent[span.phase.kind] += times * ipus * span.phase.cycles
        return spent

    def _title_at(self, place: int, name: str) -> str:
        """Return the title of a picture that rests where the caller chose, with its share of time.

        `place` is the index of the superstep or stretch in the run, and `name` is its title.
        """
        cycles = [stretch.cycles for stretch in self.stretches]
        share = 100 * cycles[int(self.order[place])] / sum(cycles[i] for i in self.order.tolist())
        unit = "Stretch" if self.several else "Superstep"
        return f"{unit} {place + 1:,}, {name}, takes {share:.1f} % of the time"

    @cached_property
    def _by_name(self) -> tuple[Counter[str], Counter[str]]:
        """`(cycles, supersteps)`: two counters, both keyed by the name of a step."""
        spent = Counter[str]()
        supersteps = Counter[str]()
        for step, times in self.runs.items():
            cost = self.report.step_cost(step)
            name = _full_name(self.report, step)
            spent[name] += times * cost.cycles
            supersteps[name] += times
        return spent, supersteps

    def _sentence(self) -> str:
        """Return a sentence about the run that says where most of its time goes."""
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
        """Return the table: a row for each compiled step."""
        report = self.report
        rows = []
        for step, times in self.runs.items():
            cost = report.step_cost(step)
            names = ", ".join(dict.fromkeys(name for name, _ in sources(report, step)))
            cycles = number(cost.cycles), number(times * cost.cycles)
            rows.append((cost.kind, label(cost.name, 48), f"{times:,}", *cycles, names))
        return ("kind", "name", "runs", "cycles of one", "cycles of all", "codelets"), tuple(rows)
