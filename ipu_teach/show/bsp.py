"""The view `bsp`: a run as an animation of its supersteps.

Every tile syncs, exchanges and computes, and the slowest tile decides when all continue. The left
panel shows the tiles. The right panel has a lane for each tile, which shows its phases in the
current superstep and how long it waits. The strip below is the whole run. On a machine of more than
64 tiles, the lanes are quantiles: in each phase the tiles are sorted by their time, so the shares
of time stay the same. An arrow is a message, or several messages of one sender to the same
receivers.

On several IPUs, a frame is a part of a stretch: it begins when an IPU begins a phase, and ends when
the next IPU does. Together the frames last as long as the run. Between IPUs, one arrow stands for
all messages from one IPU to another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.cost.phases import COMPUTE, EXCHANGE, HOST, STREAMING, SYNC, Phase
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Recording, Report, Why
from ipu_teach.show.content import Carried, report_of, with_content
from ipu_teach.show.measures import MOST_SPOKES, SMALLEST_LABEL
from ipu_teach.show.pairs import paired as in_pairs
from ipu_teach.show.palette import STATE, STATES
from ipu_teach.show.panels import Panels, grid
from ipu_teach.show.report_facts import (
    At,
    because,
    checked,
    cycles_by_kind,
    ipus_at_work,
    linked,
    longest_wait_of,
    no_time,
    part_of_run,
    phase_cycles,
    refuse_at_of_two,
    run_of,
    short_name,
    slowest,
    state_of,
    titled,
    waited_for,
    waits_title,
)
from ipu_teach.show.scene import (
    Bar,
    Drawing,
    Flows,
    Lanes,
    Message,
    Scene,
    Still,
    Table,
    Tape,
    Track,
    label,
    number,
)
from ipu_teach.show.segments import (
    STRETCH,
    WAIT,
    IPUStep,
    LanesOf,
    Segment,
    Span,
    cuts,
    listed_names,
    parts,
    segments,
)
from ipu_teach.show.view import MOST_BYTES, View
from ipu_teach.types import Array

BEYOND = {HOST: "host", STREAMING: "streaming memory"}
MOST_CELLS = 4096  # on a machine of more tiles, a cell stands for several tiles
MOST_FRAMES = 3000  # of a run
# A run of several IPUs is first tried with FIRST_FRAMES. If it has more than MANY_FRAMES, each
# frame is a phase of the IPU that ends the stretch last, so that more of the run is shown. If the
# scene is too large, frames are left out down to FEW_FRAMES, and only then do tiles share cells.
FIRST_FRAMES = 256
MANY_FRAMES = 384
FEW_FRAMES = 100
MOST_EDGES = 96  # A stretch with more begins and ends of phases has the phases of one IPU.
MOST_OF_TWO = 500  # supersteps of each of two runs.
MOST_LANES = 64  # on a machine of more tiles, the lanes are sorted
MOST_MESSAGES = 64  # of one exchange that are all drawn
MOST_TOLD = 16  # phases, or IPUs, in the note of a frame
MOST_OF_ONE = 64  # messages of one tile, drawn if there are more than MOST_MESSAGES
SIDE = 264.0  # of the square with the tiles
LANES_X = 340.0
BETWEEN = "An arrow from one IPU to another stands for all messages between them."


@flagged
def bsp(
    run: Report | Recording,
    other: Report | None = None,
    *,
    paired: bool = False,
    why: Why | None = None,
    at: At = None,
) -> View:
    """Which tile makes the others wait in each superstep, and for how long?

    The view is an animation of the supersteps of a run; with `other`, it shows two runs above each
    other on one axis of time. If `run` is a recording, the view also lists the recorded elements
    that messages carry. Every other number is modelled.

    A run is shown up to 3,000 phases, and two runs up to 500 supersteps each. On a machine of more
    than 4,096 tiles, or if the scene would be larger than 150 kB, a cell stands for several tiles.
    The view says so.

    `paired` puts the lanes of a tile in two runs below each other. `why` is a chain of causes,
    `report.why(…)`; its tiles get one colour. `at` is where the picture of one run rests: the
    number of a superstep from 0 on, the name of a step, or a kind of phase such as "exchange". By
    default it rests in the compute or exchange phase with the most waiting of tiles, or if no tile
    waits, in the longest compute phase. On several IPUs, it rests in the longest waiting of IPUs.
    Waiting is the sum over those that wait. The title is about the place at which the picture
    rests.

    :raises InvalidOptionError: if `run` or `other` is not a report or contains no step, if `paired`
        comes without a second run on as many tiles, or if the picture does not show `at`.
    """
    shown_run, contents = report_of(run)
    report = checked(shown_run, "bsp")
    if paired and (
        other is None or report.target.num_tiles != checked(other, "bsp").target.num_tiles
    ):
        raise InvalidOptionError("""show.bsp() was asked for lanes in pairs, but was not given a
            second run on as many tiles.
            next:  give it two such runs, or leave out paired=True.""")
    refuse_at_of_two("bsp", other, at)
    if other is not None:
        scene = _two([_builder(report, 1), _builder(other, 1)])
        return because(View(in_pairs(scene) if paired else scene), report, why)
    scene = _fitted(report, contents)
    view = because(View(scene), report, why, at)
    if at is None and view.scene.poster == scene.poster:
        return view
    still = view.scene.stills[int(view.scene.frames[view.scene.poster])]
    finding = still.note.partition("; tile")[0]
    if not still.flows:  # without the share that is waiting
        finding = finding.partition("; ")[0]
    title = f"{still.label[:1].upper()}{still.label[1:]}: {finding}"
    return View(replace(view.scene, title=titled(report, title)))


def _fitted(report: Report, contents: Carried) -> Scene:
    """Return the scene of one run, with fewer frames or larger cells if it would be too large."""
    target = report.target
    has_several = target.num_ipus > 1
    tiles_per_cell = -(-target.num_tiles // MOST_CELLS)
    # for each frame, the superstep of the run and the number of the exchange
    frames: dict[int, tuple[int, int]] = {}
    if contents and not has_several:
        order = enumerate(report.step_numbers.tolist())
        frames = dict(
            enumerate((place, phase.exchange) for place, n in order for phase in report.phases(n))
        )
    builder = _builder(report, tiles_per_cell)
    if has_several and builder.is_cut(MANY_FRAMES):
        builder.merge_frames()
    max_frames = FIRST_FRAMES if has_several else MOST_FRAMES
    while True:
        scene = with_content(builder.scene(max_frames), contents, frames)
        scene = linked(scene, report, ("tiles", "lanes"))
        size = len(scene.json())
        shown = len(scene.frames)
        if (
            size <= MOST_BYTES
            and has_several
            and max_frames == FIRST_FRAMES
            and builder.is_cut(max_frames)
        ):
            max_frames = min(MOST_FRAMES, int(0.9 * shown * MOST_BYTES / size))
            if max_frames > FIRST_FRAMES:  # there is room for more
                continue
        if size <= MOST_BYTES:
            return scene
        if has_several and shown > FEW_FRAMES and max_frames > FEW_FRAMES:
            # leave out frames before tiles, because the tiles are the picture
            max_frames = max(FEW_FRAMES, int(0.9 * min(max_frames, shown) * MOST_BYTES / size))
        elif tiles_per_cell < target.tiles_per_ipu:
            tiles_per_cell *= 2
            builder = _builder(report, tiles_per_cell, builder.max_edges)
        else:
            return scene


def axis_of(view: View) -> float:
    """Return the longest time axis of the lanes of a `bsp` view, in cycles; 0 without lanes."""
    axes = [
        max(mark.axis, *(float(d.span) for d in view.scene.drawings))
        for mark in view.scene.marks
        if isinstance(mark, Lanes) and view.scene.view == "bsp"
    ]
    return max(axes, default=0.0)


def with_axis(view: View, axis: float) -> View:
    """Return the view with `axis` cycles to the width of its lanes, if it has lanes."""
    if not axis_of(view) or axis <= 0:
        return view
    marks = tuple(
        replace(mark, axis=axis) if isinstance(mark, Lanes) else mark for mark in view.scene.marks
    )
    return View(replace(view.scene, marks=marks))


def _builder(report: Report, tiles_per_cell: int, max_edges: int = MOST_EDGES) -> _Builder:
    return _Builder(checked(report, "bsp"), tiles_per_cell, max_edges)


def _two(builders: list[_Builder]) -> Scene:
    """Return two runs as tapes on one axis; frames are supersteps, those of the first run first."""
    axis_cycles = max(builder.report.total_cycles for builder in builders)
    stills: list[Still] = []
    frames: list[int] = []
    rows: list[tuple[str, ...]] = []
    panels = Panels()
    for name, builder in zip(("first report", "second report"), builders, strict=True):
        report = builder.report
        shown = min(MOST_OF_TWO, len(report.step_numbers))
        stretches, order = segments(report, shown)
        frames += (len(stills) + order).tolist()
        for stretch in stretches:
            stills.append(_stretch_still(name, builder, stretch, len(panels.drawings)))
            panels.drawings.append(builder.by_tile.drawing(stretch))
        panels.first(shown, report.num_steps, "supersteps", f"Of the {name} the picture shows")
        _put_tape(panels, name, builder, axis_cycles)
        panels.notes += builder.by_tile.notes
        rows += [(name, *row) for row in builder.table(list(STATE))[1]]
    if not any(still.cycles for still in stills):
        raise no_time("bsp")
    first, second = (builder.report.total_cycles for builder in builders)
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
        f"Two runs on one axis of time. {builders[0].sentence()} {builders[1].sentence()}{change}",
        foot=24,
        codes=STATES,
        stills=tuple(stills),
        frames=np.array(frames, np.int64),
        poster=len(frames) - 1,
        group="stretch" if any(builder.has_several for builder in builders) else "superstep",
        table=(("report", *builders[0].table(list(STATE))[0]), tuple(rows)),
    )


def _stretch_still(name: str, builder: _Builder, stretch: Segment, drawing: int) -> Still:
    """Return the still of a stretch of the run `name`, whose bars are drawing number `drawing`."""
    phases = [span.phase for span in stretch.spans]
    busy = builder.by_tile.spent(phases, COMPUTE)
    values = {} if busy is None else {"busy": busy}
    is_step = len(stretch.parts) == 1
    say = f"{builder.lane_name} {{i}} of the {name}"
    if values:
        group = "superstep" if is_step else "stretch"
        say += f": {{busy}} modelled cycles of compute in this {group}"
    if is_step:
        text = " ".join(builder.named(stretch.parts[0]))
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
        say=f"{builder.lane_name} {{i}}",
    )


def _put_tape(panels: Panels, name: str, builder: _Builder, span: int) -> None:
    """Put the lanes of one of two runs, on an axis of `span` cycles."""
    report = builder.report
    heading = (
        f"{name}: {titled(report, counted(report.target.num_tiles, 'tile'))}, "
        f"{number(report.total_cycles)} modelled cycles"
    )
    high = max(80.0, min(180.0, 14.0 * builder.lanes))
    ends = builder.ends_of(high)
    labels = () if ends else tuple(f"{t}" for t in range(builder.lanes))
    panels.below()
    tape = Tape(name, heading, count=builder.lanes, labels=labels, span=span, ends=ends)
    panels.put(tape, left=64, high=high)


def _compared(first: float, second: float) -> str:
    """Return the title of two runs: how much longer the second takes."""
    if first == second:
        return "Both runs take equally long"
    share = abs(second - first) / first if first else 0.0
    comparison = "more" if second > first else "fewer"
    return f"The second run takes {100 * share:.1f} % {comparison} cycles than the first"


class _Executed(NamedTuple):
    """A step, the number of times it ran, and its phases; on several IPUs the part of one IPU."""

    part: IPUStep
    times: int
    phases: Sequence[Phase]


def _late(still: Still) -> Still:
    """Return the still of a phase at rest when only its last cells are still at work."""
    busy = still.values.get("busy", np.zeros(0, np.int64))
    if not still.flows or busy.min() == busy.max():
        return still
    last_but_one = busy[busy < busy.max()].max()
    return replace(still, at=float(last_but_one + busy.max()) / 2 / still.cycles)


@dataclass
class _Channels:
    """The fields of a still that depend on the tiles; see `Still` for their meaning."""

    cells: tuple[int | Array, float | Array, int]
    say: str
    note: str = ""
    values: dict[str, Array] = field(default_factory=dict)
    about: dict[str, tuple[str, dict[str, Array]]] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)


class _Builder:
    """Builds the scene of a run, with `tiles_per_cell` tiles to a cell.

    A stretch with more than `max_edges` begins and ends of phases has a frame for each phase of the
    IPU that ends it last.

    Attributes:
        executed: every compiled step that ran, or on several IPUs the part of each.
        stretches, order: the distinct stretches, and their numbers in the order of the run.
        cell: int64[tiles]: the cell of each tile.
        kinds: the kinds of phases that occur.
        beyond: the names of those outside the device with which it exchanges data.
    """

    def __init__(self, report: Report, tiles_per_cell: int, max_edges: int) -> None:
        self.report = report
        self.tiles_per_cell = tiles_per_cell
        self.max_edges = max_edges
        numbers, runs = np.unique(report.step_numbers, return_counts=True)
        self.executed = [
            _Executed(part, times, report.phases(n, part.ipu))
            for n, times in zip(numbers.tolist(), runs.tolist(), strict=True)
            for part in parts(report, n)
        ]
        self.stretches, self.order = segments(report, min(MOST_FRAMES, len(report.step_numbers)))
        self._edges_of: dict[Segment, list[int]] = {}
        target = report.target
        self.has_several = target.num_sets > 1
        self.group = "stretch" if self.has_several else "superstep"
        self.by_tile = LanesOf(report, MOST_LANES)
        self.per_ipu = -(-target.tiles_per_ipu // tiles_per_cell)
        self.count = self.per_ipu * target.num_ipus
        ipu, within = np.divmod(np.arange(target.num_tiles), target.tiles_per_ipu)
        self.cell = ipu * self.per_ipu + within // tiles_per_cell
        self.cell_name = "tile" if tiles_per_cell == 1 else f"group of {tiles_per_cell} tiles"
        self.lanes = self.by_tile.count
        self.is_sorted = self.by_tile.is_sorted
        self.lane_name = "lane" if self.is_sorted else "tile"
        self.grid = grid("tiles", target, SIDE, each_ipu=self.per_ipu)
        occurring = {phase.kind for step in self.executed for phase in step.phases}
        self.kinds = [kind for kind in STATE if kind in occurring]
        self.beyond = [BEYOND[kind] for kind in self.kinds if kind in BEYOND]

    def scene(self, max_frames: int = MOST_FRAMES) -> Scene:
        """Return the scene, with at most `max_frames` frames."""
        stills: list[Still] = []
        panels = Panels()
        stills_of: list[range] = []  # for each stretch
        for stretch in self.stretches[: self._shown_stretches(max_frames)]:
            added = self._stills(stretch, len(panels.drawings))
            stills_of.append(range(len(stills), len(stills) + len(added)))
            stills += added
            panels.drawings.append(self.by_tile.drawing(stretch))
            if self.beyond:
                panels.drawings.append(self._of_host(stretch))
        if not stills:
            raise no_time("bsp")
        frames = self._frames(stills_of, panels, max_frames)
        poster, title = self._finding(stills, stills_of, frames)
        if not any(stretch.waits for stretch in self.stretches):
            stills[frames[poster]] = _late(stills[frames[poster]])
        shown = sum(stills[i].cycles for i in frames.tolist())
        title += part_of_run(shown, self.report)
        self._put(panels)
        self._add_notes(panels, any(still.flows for still in stills))
        return panels.scene(
            "bsp",
            titled(self.report, title),
            self.sentence(),
            foot=26,
            codes=STATES,
            stills=tuple(stills),
            frames=frames,
            table=self.table(self.kinds),
            poster=poster,
            group=self.group,
        )

    def _shown_stretches(self, max_frames: int) -> int:
        """Return how many distinct stretches occur in the first `max_frames` frames; at least 1."""
        sizes = [len(self._edges(stretch)) - 1 for stretch in self.stretches]
        frames = np.cumsum([sizes[i] for i in self.order.tolist()])
        shown = self.order[: max(1, int(np.searchsorted(frames, max_frames, "right")))]
        return 1 + max(shown.tolist(), default=0)

    def merge_frames(self) -> None:
        """Make each frame a phase of the IPU that ends its stretch last."""
        self.max_edges = 0
        self._edges_of.clear()

    def is_cut(self, max_frames: int) -> bool:
        """Return whether the run has more than `max_frames` frames."""
        return (
            sum(len(self._edges(self.stretches[i])) - 1 for i in self.order.tolist()) > max_frames
        )

    def _finding(
        self, stills: list[Still], stills_of: list[range], frames: Array
    ) -> tuple[int, str]:
        """Return (the frame at which the picture rests, a title about that frame).

        It is at the end of the longest waiting of IPUs, else in the phase with the most waiting of
        tiles, else in the longest compute phase.
        """
        numbers: list[int] = frames.tolist()

        firsts = [frame for frame, i in enumerate(numbers) if stills[i].first]
        wait = longest_wait_of(self.stretches, self.order[: len(firsts)].tolist())
        if self.has_several and wait is not None:
            place, ipu_wait = wait
            edges = self._edges(self.stretches[int(self.order[place])])
            last = max(k for k, begin in enumerate(edges[:-1]) if begin < ipu_wait.end)
            return firsts[place] + last, ipu_wait.text(place)

        waits = {still: self._lost_in(still, stills_of) for still in set(numbers)}

        def rank(frame: int) -> tuple[int, bool, bool, float]:
            still = stills[numbers[frame]]
            is_compute = still.code == STATE[COMPUTE]
            return waits[numbers[frame]], is_compute, still.code != STATE[SYNC], still.cycles

        frame = max(range(len(numbers)), key=rank)
        return frame, self._title(stills_of, numbers[frame])

    def _lost_in(self, number: int, stills_of: list[range]) -> int:
        """Return the sum of the cycles for which tiles wait in the phase of still `number`; 0 if it
        is neither compute nor exchange."""
        span = self._span_of(number, stills_of)
        phase = span.phase
        if phase.busy is None or phase.kind not in (COMPUTE, EXCHANGE):
            return 0
        return int((phase.cycles - phase.busy[span.tiles]).sum())

    def _span_of(self, number: int, stills_of: list[range]) -> Span:
        """Return the phase that still `number` is about."""
        which = next(i for i, numbers in enumerate(stills_of) if number in numbers)
        stretch = self.stretches[which]
        return self._main(stretch, self._edges(stretch)[number - stills_of[which].start])

    def _title(self, stills_of: list[range], number: int) -> str:
        """Return a title about still `number`: which tiles make how many others wait, or what the
        tiles do."""
        main = self._span_of(number, stills_of)
        if main.phase.busy is not None and main.phase.kind in (COMPUTE, EXCHANGE):
            name = short_name(self.report.step_cost(main.part.step).name, 48)
            name = name if "'" in name else f"{name!r}" * bool(name)  # copies have names in quotes
            title = waits_title(main.phase, main.tiles)
            if main.phase.kind == EXCHANGE:
                return f"{title} in the exchange" + f" of {name}" * bool(name)
            return title + f" in {name}" * bool(name)
        kind, cycles = cycles_by_kind(self.report).most_common(1)[0]
        share = 100 * cycles / self.report.total_cycles
        return f"{kind.capitalize()} takes {share:.1f} % of the run; no tile computes"

    def _active(self, stretch: Segment, begin: int) -> list[Span]:
        """Return the phases that tiles are in at cycle `begin` of a stretch."""
        return [s for s in stretch.spans if s.start <= begin < s.start + s.phase.cycles]

    def _main(self, stretch: Segment, begin: int) -> Span:
        """Return the phase that a frame beginning at cycle `begin` is about.

        It is the one of the IPU that ends the stretch last, if that IPU is at work.
        """
        active = self._active(stretch, begin)
        return next((span for span in active if stretch.lasts(span.part)), active[0])

    def _frames(self, stills_of: list[range], panels: Panels, max_frames: int) -> Array:
        """Return the still of every frame, up to the last stretch that is completely shown."""
        frames: list[int] = []
        shown = len(self.report.step_numbers[:MOST_FRAMES])
        for place, i in enumerate(self.order.tolist()):
            if i >= len(stills_of) or (frames and len(frames) + len(stills_of[i]) > max_frames):
                shown = int(cuts(self.report)[place])
                break
            frames += stills_of[i]
        panels.first(shown, self.report.num_steps, "supersteps")
        return np.array(frames, np.int64)

    def ends_of(self, high: float) -> tuple[str, ...]:
        """Return the texts beside lanes of this total height; () if each lane has its number."""
        is_narrow = self.has_several and high / self.lanes < SMALLEST_LABEL * 0.7
        return self.by_tile.ends if self.is_sorted or is_narrow else ()

    def _put(self, panels: Panels) -> None:
        """Put the tiles, the messages between them, their lanes and the strip."""
        cells = np.arange(self.count)
        panels.put(replace(self.grid, key=cells))
        panels.marks.append(Flows("messages", "tiles"))
        ends = self.ends_of(SIDE)
        if self.is_sorted:
            in_each = " in each IPU" if self.has_several else ""
            heading = f"slowest first{in_each}, {self.by_tile.mean_text}"
        else:
            heading = f"the {self.group}, tile by tile"
        heading += f"; {STRETCH}" * self.has_several
        if not self.is_sorted:
            lanes = Lanes("lanes", heading, count=self.lanes, key=cells, ends=ends)
        else:
            lanes = Lanes("lanes", heading, count=self.lanes, ends=ends)
        panels.put(lanes, left=LANES_X, high=SIDE)
        if self.beyond:
            say = " and ".join(self.beyond).replace("host", "the host")
            panels.below(6)
            mark = Lanes("host", count=1, labels=(", ".join(self.beyond),), say=say)
            panels.put(mark, left=LANES_X, high=16)
        panels.below(24 if self.beyond else 22)
        panels.put(Track(), high=22)

    def _add_notes(self, panels: Panels, has_messages: bool) -> None:
        """Add the notes on what was merged or left out."""
        if self.tiles_per_cell > 1:
            panels.notes.append(
                f"A cell stands for up to {self.tiles_per_cell} tiles: their longest time, and the "
                "sum of their bytes."
            )
        panels.notes += self.by_tile.notes
        if any(len(stretch.spans) >= self.max_edges for stretch in self.stretches):
            stretch = "a stretch of many phases" if self.max_edges else "each stretch"
            panels.notes.append(
                f"In {stretch} a frame is a phase of the IPU that the others wait for; the lanes "
                "show all phases."
            )
        if self.report.target.num_ipus > 1 and has_messages:
            panels.notes.append(BETWEEN)
        panels.notes.append(
            "Each phase plays equally long, and lanes fill the width in each "
            f"{self.group}; the strip below is to scale."
        )

    def _stills(self, stretch: Segment, drawing: int) -> list[Still]:
        """Return a still for each part of a stretch in which no IPU begins or ends a phase.

        On one IPU, or where all IPUs work together, each part is a phase.
        """
        stills = []
        for begin, end in pairwise(self._edges(stretch)):
            stills.append(self._still(stretch, begin, end, drawing))
        return stills

    def _edges(self, stretch: Segment) -> list[int]:
        """Return the cycles at which the frames of a stretch begin, and its end."""
        if stretch not in self._edges_of:
            spans = stretch.spans
            edges = {0, *(s.start + s.phase.cycles for s in spans)}
            if len(edges) > self.max_edges:
                last = [s for s in spans if stretch.lasts(s.part)]
                edges = {0, stretch.cycles, *(s.start + s.phase.cycles for s in last)}
            self._edges_of[stretch] = sorted(edges)
        return self._edges_of[stretch]

    def _still(self, stretch: Segment, begin: int, end: int, drawing: int) -> Still:
        """Return the still from cycle `begin` to `end` of a stretch; `drawing` is the number of
        the stretch's drawing. Tiles that are in no phase wait."""
        active = self._active(stretch, begin)
        main = self._main(stretch, begin)
        phase = main.phase
        cycles = end - begin
        is_partial = main.part.ipu is not None or not main.tiles.all()
        channels = self._channels(active, main, begin, cycles)
        note = ""
        if phase.busy is not None and main.part.ipu is not None:
            name = stretch.names[main.part.ipu]
            whose = f"{name}'s tiles' time"
            note = f"in {name} {waited_for(phase, main.tiles, whose)}"
        elif phase.busy is not None:
            note = waited_for(phase, main.tiles)
        channels.note = note
        for span in active:
            if span.phase.exchange >= 0:
                self._add_exchange(channels, span, span is main)
        at = 1.0
        if channels.messages:  # the poster is drawn while all senders and receivers are at work
            busy = channels.values["busy"]
            at = int(busy[busy > 0].min()) / 2 / cycles
        note = channels.note
        if is_partial:
            note = "; ".join(filter(None, (self._meanwhile(active), note)))
            if cycles < phase.cycles:
                note += f". This is a part of that phase, which takes {number(phase.cycles)} cycles"
        _, name = self.named(main.part)
        groups = ("lanes", "host") if self.beyond else ("lanes",)
        return Still(
            label=f"{phase.kind}: {name}" if name else phase.kind,
            note=note,
            code=STATE[phase.kind],
            cycles=cycles,
            first=begin == 0,
            cells={"tiles": channels.cells},
            lanes={group: (drawing + k, begin, end) for k, group in enumerate(groups)},
            flows={"messages": tuple(channels.messages)} if channels.messages else {},
            values=channels.values,
            say=channels.say,
            at=at,
            about=channels.about,
        )

    def _channels(self, active: list[Span], main: Span, begin: int, cycles: int) -> _Channels:
        """Return the states of the tiles, and how long each is busy, from cycle `begin` on."""
        busy_tiles: Array = np.zeros(self.report.target.num_tiles, np.int64)
        codes = np.full(len(busy_tiles), WAIT)
        for span in active:
            busy = span.phase.cycles if span.phase.busy is None else span.phase.busy
            remaining = np.clip(span.start + busy - begin, 0, cycles)
            busy_tiles = np.where(span.tiles, remaining, busy_tiles)
            codes[span.tiles] = STATE[span.phase.kind]
        kind = main.phase.kind
        code = STATE[kind]
        is_partial = main.part.ipu is not None or not main.tiles.all()
        if not is_partial and main.phase.busy is None:
            return _Channels((code, cycles, code), f"{self.cell_name} {{i}}: {kind}")
        busy = self._longest(busy_tiles)
        state: int | Array = code
        if is_partial:
            state = codes[np.unique(self.cell, return_index=True)[1]]
            kind = "at work"
        text = f"{kind}, {{busy}} modelled cycles, then waits {{-busy}}"
        channels = _Channels(
            (state, busy, WAIT), f"{self.cell_name} {{i}}: {text}", values={"busy": busy}
        )
        if self.is_sorted:
            say = f"lane {{i}} of the sorted tiles: {text}"
            channels.about["lanes"] = (say, {"busy": self.by_tile.of(busy_tiles)})
        return channels

    def _add_exchange(self, channels: _Channels, span: Span, is_main: bool) -> None:
        """Add the messages of an exchange, and the bytes that each cell sends and receives."""
        step = span.part.step
        number = span.phase.exchange
        traffic = self.report.step_cost(step).exchange[number]
        values = channels.values
        for name, per_tile in (("received", traffic.received), ("sent", traffic.sent)):
            values[name] = values.get(name, 0) + self._sum(per_tile * span.tiles)
        transfers = self.report.transfers(step)[number]
        drawn, summary = self._messages(transfers, values["busy"], span.tiles)
        channels.messages += drawn
        if is_main:
            arriving = int(traffic.received[span.tiles].sum())
            channels.note = f"{arriving:,} bytes arrive; {summary}; {channels.note}"
        suffix = "; receives {received} bytes, sends {sent}"
        if not channels.say.endswith(suffix):
            channels.say += suffix

    def _meanwhile(self, active: list[Span]) -> str:
        """Return a description of the work of each IPU at some time."""
        names = self.report.target.sets
        set_of_tile = self.report.target.set_of(np.arange(self.report.target.num_tiles))
        ipus_of: dict[str, list[int]] = {}  # the numbers of the IPUs that do the same work
        for span in active:
            work = f"{span.phase.kind} of {self._name(span.part)}"
            ipus_of.setdefault(work, []).extend(np.unique(set_of_tile[span.tiles]).tolist())
        working = sorted(ipu for ipus in ipus_of.values() for ipu in ipus)
        texts = []
        if len(active) == 1 and len(working) == 1:
            ipus_of.clear()  # the label of the frame tells that work
        for work, ipus in list(ipus_of.items())[:MOST_TOLD]:
            who = listed_names([names[ipu] for ipu in sorted(ipus)])
            texts.append(f"{'all IPUs' if len(ipus) == len(names) > 1 else who}: {work}")
        untold = sum(len(ipus) for ipus in list(ipus_of.values())[MOST_TOLD:])
        if untold:
            texts.append(f"{untold} more at work")
        idle = len(names) - len(working)
        if idle > 0:
            texts.append("the other waits" if idle == 1 else f"the other {idle} wait")
        return ", ".join(texts)

    def named(self, part: IPUStep) -> tuple[str, str]:
        """Return (kind, name) of a step, with the IPU's name first if one IPU executes it."""
        prefix = "" if part.ipu is None else f"{self.report.target.sets[part.ipu]}: "
        return self.report.step_cost(part.step).kind, label(prefix + self._name(part), 48)

    def _name(self, part: IPUStep) -> str:
        return label(self.report.step_cost(part.step).name, 48)

    def _middle(self, ipu: int) -> int:
        """Return the cell in the middle of an IPU, where its arrows begin."""
        columns = int(np.ceil(np.sqrt(self.per_ipu)))
        return ipu * self.per_ipu + (self.per_ipu // columns // 2) * columns + columns // 2

    def _longest(self, per_tile: Array) -> Array:
        """Return int64[cells]: the longest time among the tiles of each cell."""
        longest = np.zeros(self.count, np.int64)
        np.maximum.at(longest, self.cell, per_tile)
        return longest

    def _sum(self, per_tile: Array) -> Array:
        """Return int64[cells]: the sum over the tiles of each cell."""
        return np.bincount(self.cell, per_tile, self.count).astype(np.int64)

    def _messages(
        self, transfers: Transfers, busy: Array, tiles: Array
    ) -> tuple[tuple[Message, ...], str]:
        """Return (the messages between cells that are drawn, a summary of all).

        Only messages that `tiles` (bool[tiles]) send are included. If there are too many, those of
        the slowest cell are drawn.
        """
        if not tiles.all():
            rows = np.flatnonzero(tiles[transfers.source])
            receivers = tuple(transfers.receivers[i] for i in rows.tolist())
            transfers = Transfers(transfers.source[rows], transfers.size[rows], receivers)
        messages = self._between_cells(transfers)
        receiver_counts = [
            len(receivers) for receivers in transfers.receivers if len(receivers) > 1
        ]
        if len(transfers) == 1 and receiver_counts:
            return tuple(messages), f"1 message, heard by {receiver_counts[0]:,} tiles"
        summary = counted(len(transfers), "message")
        if receiver_counts:
            summary += f", {len(receiver_counts):,} of them to several tiles"
        if len(messages) <= MOST_MESSAGES:
            return tuple(messages), summary
        slowest_cell = int(np.argmax(busy))
        link_messages = [
            m for m in messages if self._is_link(m)
        ]  # few, and each stands for many messages
        of_slowest_cell = [
            m
            for m in messages
            if not self._is_link(m) and (slowest_cell == m.source or slowest_cell in m.receivers)
        ]
        of_slowest_cell = sorted(of_slowest_cell, key=lambda m: -m.size)[:MOST_OF_ONE]
        summary += f"; drawn are {len(of_slowest_cell):,} of {self.cell_name} {slowest_cell}"
        if link_messages:
            summary += f" and {counted(len(link_messages), 'arrow')} between IPUs"
        if (
            len(link_messages) + len(of_slowest_cell) > MOST_SPOKES
            and self.grid.side < SMALLEST_LABEL
        ):
            summary += ", a frame for who sends, a dot for who receives"
        return (*link_messages, *of_slowest_cell), summary

    def _between_cells(self, transfers: Transfers) -> list[Message]:
        """Return a message for each sender and set of receivers, as cells.

        On several IPUs, all messages from one IPU to another are one message.
        """
        sizes = Counter[tuple[int, bytes]]()
        columns = zip(
            transfers.source.tolist(), transfers.size.tolist(), transfers.receivers, strict=True
        )
        for source_tile, size, tiles in columns:
            source = int(self.cell[source_tile])
            receivers = np.unique(self.cell[tiles])
            if self.has_several:
                ipu = source // self.per_ipu
                ipus = receivers // self.per_ipu
                for remote in np.unique(ipus[ipus != ipu]).tolist():
                    ends = (self._middle(ipu), np.array([self._middle(remote)]).tobytes())
                    sizes[ends] += size
                receivers = receivers[ipus == ipu]
            receivers = receivers[receivers != source]
            if len(receivers):
                sizes[source, receivers.tobytes()] += size
        return [
            Message(source, np.frombuffer(receivers, np.int64), size)
            for (source, receivers), size in sizes.items()
        ]

    def _longest_phase(self) -> tuple[Phase, IPUStep] | None:
        """Return the longest compute phase with its step, or None if nothing computes."""
        computing = [
            (phase, step.part)
            for step in self.executed
            for phase in step.phases
            if phase.kind == COMPUTE
        ]
        return max(computing, key=lambda pair: pair[0].cycles) if computing else None

    def _is_link(self, message: Message) -> bool:
        """Return whether a message goes from one IPU to another."""
        return message.source // self.per_ipu != int(message.receivers[0]) // self.per_ipu

    def sentence(self) -> str:
        """Return the sentence: the share of each kind of phase, and the longest compute phase."""
        report = self.report
        total = report.total_cycles
        if self.has_several:
            return f"{run_of(report)}. {ipus_at_work(report)}"
        shares = ", ".join(
            f"{kind} {100 * cycles / total:.1f} %"
            for kind, cycles in cycles_by_kind(report).items()
        )
        worst = ""
        if longest := self._longest_phase():
            phase, part = longest
            worst = f" The longest that computes is {self.named(part)[1]}: {waited_for(phase)}."
        return f"{run_of(report)}: {shares}.{worst}"

    def table(self, kinds: list[str]) -> Table:
        """Return the table: every step, with its cycles in phases of these kinds."""
        rows = []
        set_of_tile = self.report.target.set_of(np.arange(len(self.cell)))
        for part, times, phases in self.executed:
            cycles = [sum(p.cycles for p in phases if p.kind == kind) for kind in kinds]
            busy = next((p.busy for p in phases if p.kind == COMPUTE), None)
            slowest_tile = "" if busy is None else slowest(busy)[0].partition(" ")[2]
            tiles = (set_of_tile == part.ipu) | (part.ipu is None)
            exchanges = self.report.step_cost(part.step).exchange
            received = sum(int(traffic.received[tiles].sum()) for traffic in exchanges)
            row = (f"{times:,}", *map(number, cycles), f"{received:,}", slowest_tile)
            rows.append((*self.named(part), *row))
        cycle_headings = [f"{kind} cycles" for kind in kinds]
        headings = ("kind", "name", "runs", *cycle_headings, "bytes received", "slowest tile")
        return headings, tuple(rows)

    def _of_host(self, stretch: Segment) -> Drawing:
        """Return the host and streaming-memory phases of a stretch, as one lane."""
        bars = [
            Bar(STATE[s.phase.kind], s.start, s.phase.cycles, s.start + s.phase.cycles)
            for s in stretch.spans
            if s.phase.kind in BEYOND
        ]
        return Drawing(stretch.cycles, tuple(bars), "modelled cycles")
