"""The view `bsp`: an animation of the supersteps of a run.

Every tile syncs, exchanges and computes, and the slowest tile decides when all tiles continue. The
left panel shows the tiles. The right panel has a lane for each tile, which shows the tile's phases
and its waiting in the current superstep. The strip below shows the whole run. On a machine of more
than 64 tiles, the lanes are quantiles: in each phase, the tiles are sorted by their time, so the
lanes still show which share of the time tiles work and wait. An arrow stands for one message, or
for several messages from one sender to the same receivers.

On several IPUs, a stretch is the steps between two syncs of all IPUs. A stretch is divided into
frames wherever an IPU begins or ends a phase. All frames together last as long as the run. An arrow
from one IPU to another stands for all messages between them in this direction.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.cost.phases import COMPUTE, EXCHANGE, HOST, STREAMING, SYNC
from ipu_teach.errors import InvalidOptionError
from ipu_teach.report import Recording, Report, Why
from ipu_teach.show.bsp_cells import SIDE, CellGrid
from ipu_teach.show.bsp_phases import MOST_FRAMES, Phases
from ipu_teach.show.bsp_stills import Stills
from ipu_teach.show.bsp_two import two_runs
from ipu_teach.show.content import Carried, report_of, with_content
from ipu_teach.show.pairs import paired as in_pairs
from ipu_teach.show.palette import STATE, STATES
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import (
    At,
    because,
    checked,
    cycles_by_kind,
    linked,
    longest_wait_of,
    no_time,
    part_of_run,
    refuse_at_of_two,
    short_name,
    titled,
    waits_title,
)
from ipu_teach.show.scene import (
    Bar,
    Drawing,
    Flows,
    Lanes,
    Scene,
    Still,
    Track,
)
from ipu_teach.show.segments import (
    STRETCH,
    Segment,
    Span,
    cuts,
)
from ipu_teach.show.view import MOST_BYTES, View
from ipu_teach.types import Array

BEYOND = {HOST: "host", STREAMING: "streaming memory"}
MOST_CELLS = 4096  # With more tiles than this, a cell stands for several tiles.
# For a run of several IPUs, the scene is first built with at most FIRST_FRAMES frames. If the run
# has more than MANY_FRAMES frames, each frame is a phase of the IPU that ends the stretch last, so
# that more of the run is shown. If the scene is too large, frames are left out until FEW_FRAMES
# remain. Only if it is still too large do tiles share cells.
FIRST_FRAMES = 256
MANY_FRAMES = 384
FEW_FRAMES = 100
# If phases begin or end at more different cycles of a stretch than this, only the phases of one IPU
# become frames.
MOST_EDGES = 96
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
    """Which tile makes the others wait most, in which superstep, and for how long?

    The view is an animation of the supersteps of a run. With `other`, it shows two runs, one above
    the other, on one time axis. If `run` is a recording, the view also lists the recorded elements
    in each message. All other numbers are modelled.

    At most 3,000 phases of one run, or 500 supersteps of each of two runs, are shown. On a machine
    of more than 4,096 tiles, or if the scene would be larger than 150 kB, a cell stands for several
    tiles. A note below the picture says what is left out.

    `paired` puts the lanes of the same tile in two runs next to each other. `why` is a chain of
    causes, such as `report.why(…)` returns; the tiles that it mentions are drawn in one colour.
    `at` is the superstep at which the picture of one run rests: its number, counted from 0, the
    name of a step, or a kind of phase such as "exchange".

    By default, the picture rests in the compute or exchange phase in which the waiting of all tiles
    adds up to the most cycles. If no tile waits, it rests in the longest compute phase. On several
    IPUs, it rests where the waiting of the IPUs adds up to the most cycles. The title is about that
    frame.

    :raises InvalidOptionError: if `run` or `other` is not a report, contains no step or takes no
        modelled time, or if no frame shows `at`. It is also raised if `paired` is given without a
        second run on the same number of tiles, if `at` is given with two runs, or if `why` is not a
        chain of causes.
    """
    shown_run, contents = report_of(run)
    report = checked(shown_run, "bsp")
    if paired and (
        other is None or report.target.num_tiles != checked(other, "bsp").target.num_tiles
    ):
        raise InvalidOptionError("""show.bsp() was given paired=True, but no second run on the same
            number of tiles.
            next:  give two such runs, show.bsp(first, second, paired=True), or leave out
            paired=True.""")
    refuse_at_of_two("bsp", other, at)
    if other is not None:
        runs = [Phases(checked(compared, "bsp"), MOST_EDGES) for compared in (report, other)]
        scene = two_runs(runs)
        return because(View(in_pairs(scene) if paired else scene), report, why)
    scene = _fitted(report, contents)
    view = because(View(scene), report, why, at)
    if at is None and view.scene.poster == scene.poster:
        return view
    still = view.scene.stills[int(view.scene.frames[view.scene.poster])]
    finding = still.note.partition("; tile")[0]
    # For a phase without messages, the title has only the first part of the note.
    if not still.flows:
        finding = finding.partition("; ")[0]
    title = f"{still.label[:1].upper()}{still.label[1:]}: {finding}"
    return View(replace(view.scene, title=titled(report, title)))


def _fitted(report: Report, contents: Carried) -> Scene:
    """Return the scene of one run, with fewer frames or larger cells if it would be too large.

    `contents` are the recorded elements in the messages.
    """
    target = report.target
    has_several = target.num_ipus > 1
    tiles_per_cell = -(-target.num_tiles // MOST_CELLS)
    # Maps each frame to (index of the superstep in the run, index of the exchange in its step).
    frames: dict[int, tuple[int, int]] = {}
    if contents and not has_several:
        order = enumerate(report.step_numbers.tolist())
        frames = dict(
            enumerate((place, phase.exchange) for place, n in order for phase in report.phases(n))
        )
    phases = Phases(report, MOST_EDGES)
    if has_several and phases.is_cut(MANY_FRAMES):
        phases.merge_frames()
    max_frames = FIRST_FRAMES if has_several else MOST_FRAMES
    while True:
        scene = with_content(_Builder(phases, tiles_per_cell).scene(max_frames), contents, frames)
        scene = linked(scene, report, ("tiles", "lanes"))
        size = len(scene.json())
        shown = len(scene.frames)
        if (
            size <= MOST_BYTES
            and has_several
            and max_frames == FIRST_FRAMES
            and phases.is_cut(max_frames)
        ):
            max_frames = min(MOST_FRAMES, int(0.9 * shown * MOST_BYTES / size))
            if max_frames > FIRST_FRAMES:  # The scene is small enough for more frames.
                continue
        if size <= MOST_BYTES:
            return scene
        if has_several and shown > FEW_FRAMES and max_frames > FEW_FRAMES:
            # The tiles are the main part of the picture, so frames are left out first.
            max_frames = max(FEW_FRAMES, int(0.9 * min(max_frames, shown) * MOST_BYTES / size))
        elif tiles_per_cell < target.tiles_per_ipu:
            tiles_per_cell *= 2
        else:
            return scene


def axis_of(view: View) -> float:
    """Return the cycles of the longest time axis of a `bsp` view; 0 if it has no lanes."""
    axes = [
        max(mark.axis, *(float(d.span) for d in view.scene.drawings))
        for mark in view.scene.marks
        if isinstance(mark, Lanes) and view.scene.view == "bsp"
    ]
    return max(axes, default=0.0)


def with_axis(view: View, axis: float) -> View:
    """Return the view; if it is a `bsp` view, change its lanes to show `axis` cycles."""
    if not axis_of(view) or axis <= 0:
        return view
    marks = tuple(
        replace(mark, axis=axis) if isinstance(mark, Lanes) else mark for mark in view.scene.marks
    )
    return View(replace(view.scene, marks=marks))


def _late(still: Still) -> Still:
    """Return a copy of a still that rests at a moment when only its slowest cells are at work."""
    busy = still.values.get("busy", np.zeros(0, np.int64))
    if not still.flows or busy.min() == busy.max():
        return still
    last_but_one = busy[busy < busy.max()].max()
    return replace(still, at=float(last_but_one + busy.max()) / 2 / still.cycles)


class _Builder:
    """A builder of a run's scene, in which each cell stands for `tiles_per_cell` tiles.

    Attributes:
        beyond: a list that contains "host" and "streaming memory", each only if the run exchanges
            data with it.
    """

    def __init__(self, phases: Phases, tiles_per_cell: int) -> None:
        self.report = phases.report
        self.phases = phases
        self.cells = CellGrid(self.report.target, tiles_per_cell)
        self.beyond = [BEYOND[kind] for kind in phases.kinds if kind in BEYOND]
        # If lanes are means over several tiles, the slowest tile has an additional lane for itself.
        self.has_slowest = self.phases.is_sorted and not self.phases.has_several
        names = ["slowest"] * self.has_slowest + ["host"] * bool(self.beyond)
        self.stills = Stills(phases, self.cells, ("lanes", *names))

    def scene(self, max_frames: int = MOST_FRAMES) -> Scene:
        """Return the scene, with at most `max_frames` frames."""
        stills: list[Still] = []
        panels = Panels()
        stills_of: list[range] = []  # The indices of the stills of each stretch.
        for stretch in self.phases.stretches[: self._shown_stretches(max_frames)]:
            added = self.stills.of(stretch, len(panels.drawings))
            stills_of.append(range(len(stills), len(stills) + len(added)))
            stills += added
            panels.drawings.append(self.phases.by_tile.drawing(stretch))
            if self.has_slowest:
                panels.drawings.append(self._as_lane(stretch, STATE))
            if self.beyond:
                panels.drawings.append(self._as_lane(stretch, BEYOND))
        if not stills:
            raise no_time("bsp")
        frames = self._frames(stills_of, panels, max_frames)
        poster, title = self._finding(stills, stills_of, frames)
        if not any(stretch.waits for stretch in self.phases.stretches):
            stills[frames[poster]] = _late(stills[frames[poster]])
        shown = sum(stills[i].cycles for i in frames.tolist())
        title += part_of_run(shown, self.report)
        self._put(panels)
        self._add_notes(panels, any(still.flows for still in stills))
        return panels.scene(
            "bsp",
            titled(self.report, title),
            self.phases.sentence(),
            foot=26,
            codes=STATES,
            stills=tuple(stills),
            frames=frames,
            table=self.phases.table(self.phases.kinds),
            poster=poster,
            group=self.phases.group,
        )

    def _shown_stretches(self, max_frames: int) -> int:
        """Return how many stretches must be drawn for the first `max_frames` frames, at least 1.

        The drawn stretches are the first entries of `phases.stretches`, in which all equal
        stretches of the run share one entry.
        """
        sizes = [len(self.phases.edges(stretch)) - 1 for stretch in self.phases.stretches]
        frames = np.cumsum([sizes[i] for i in self.phases.order.tolist()])
        shown = self.phases.order[: max(1, int(np.searchsorted(frames, max_frames, "right")))]
        return 1 + max(shown.tolist(), default=0)

    def _finding(
        self, stills: list[Still], stills_of: list[range], frames: Array
    ) -> tuple[int, str]:
        """Return `(poster, title)`: the frame at which the picture rests, and a title about it.

        The frame is the end of the longest waiting of IPUs. If no IPU waits, the frame is the phase
        in which tiles wait most. If no tile waits either, it is the longest compute phase.
        `stills_of` has the indices of the stills of each stretch.
        """
        numbers: list[int] = frames.tolist()

        firsts = [frame for frame, i in enumerate(numbers) if stills[i].first]
        wait = longest_wait_of(self.phases.stretches, self.phases.order[: len(firsts)].tolist())
        if self.phases.has_several and wait is not None:
            place, ipu_wait = wait
            edges = self.phases.edges(self.phases.stretches[int(self.phases.order[place])])
            last = max(k for k, begin in enumerate(edges[:-1]) if begin < ipu_wait.end)
            is_cut = len(firsts) < len(self.phases.order)
            return firsts[place] + last, (
                f"The longest wait{' drawn' * is_cut}: {ipu_wait.text(place)}"
            )

        waits = {still: self._lost_in(still, stills_of) for still in set(numbers)}

        def rank(frame: int) -> tuple[int, bool, bool, float]:
            still = stills[numbers[frame]]
            is_compute = still.code == STATE[COMPUTE]
            return waits[numbers[frame]], is_compute, still.code != STATE[SYNC], still.cycles

        frame = max(range(len(numbers)), key=rank)
        group = sum(stills[i].first for i in numbers[: frame + 1]) if rank(frame)[0] else 0
        return frame, self._title(stills_of, numbers[frame], group)

    def _lost_in(self, number: int, stills_of: list[range]) -> int:
        """Return the cycles for which tiles wait in the phase of a still, added up over the tiles.

        `number` is the index of the still. The result is 0 for a phase that is neither compute nor
        exchange.
        """
        span = self._span_of(number, stills_of)
        phase = span.phase
        if phase.busy is None or phase.kind not in (COMPUTE, EXCHANGE):
            return 0
        return int((phase.cycles - phase.busy[span.tiles]).sum())

    def _span_of(self, number: int, stills_of: list[range]) -> Span:
        """Return the phase that the still with index `number` shows."""
        which = next(i for i, numbers in enumerate(stills_of) if number in numbers)
        stretch = self.phases.stretches[which]
        return self.phases.main(
            stretch, self.phases.edges(stretch)[number - stills_of[which].start]
        )

    def _title(self, stills_of: list[range], number: int, group: int) -> str:
        """Return a title about the still with index `number`: which tiles make others wait.

        If the phase of the still is neither compute nor exchange, the title is about the kind of
        phase that takes most of the run. `group` is the 1-based position of the superstep in the
        run. If `group` is 0, the title has no position.
        """
        main = self._span_of(number, stills_of)
        if main.phase.busy is not None and main.phase.kind in (COMPUTE, EXCHANGE):
            name = short_name(self.report.step_cost(main.part.step).name, 48)
            is_copy = "'" in name  # The names of copies contain quotes.
            name = name if is_copy else f"{name!r}" * bool(name)
            if name.startswith(("'", "a view of ")) and is_copy and " to " in name:
                name = f"the copy of {name}"
            title = waits_title(main.phase, main.tiles)
            if main.phase.kind == EXCHANGE:
                name = "the exchange" + f" of {name}" * bool(name)
            elif is_copy:
                name = f"the compute phase of {name}"
            if not group:
                return title + f" in {name}" * bool(name)
            where = f" in {self.phases.group} {group:,}" + f", {name}" * bool(name)
            return f"Most waiting: {title[:1].lower()}{title[1:]}{where}"
        kind, cycles = cycles_by_kind(self.report).most_common(1)[0]
        share = 100 * cycles / self.report.total_cycles
        return f"{kind.capitalize()} takes {share:.1f} % of the run; no tile computes"

    def _frames(self, stills_of: list[range], panels: Panels, max_frames: int) -> Array:
        """Return int64[frames]: the index of the still of each frame.

        There are at most `max_frames` frames, unless the first stretch alone has more: its frames
        are all included. A stretch is shown completely or not at all. If supersteps are left out,
        add a note to `panels`.
        """
        frames: list[int] = []
        shown = len(self.report.step_numbers[:MOST_FRAMES])
        for place, i in enumerate(self.phases.order.tolist()):
            if i >= len(stills_of) or (frames and len(frames) + len(stills_of[i]) > max_frames):
                shown = int(cuts(self.report)[place])
                break
            frames += stills_of[i]
        panels.first(shown, self.report.num_steps, "supersteps")
        return np.array(frames, np.int64)

    def _put(self, panels: Panels) -> None:
        """Add the marks: the tiles, their messages, the lanes and the strip of the run."""
        cells = np.arange(self.cells.count)
        panels.put(replace(self.cells.grid, key=cells))
        panels.marks.append(Flows("messages", "tiles"))
        ends = self.phases.ends_of(SIDE)
        down = 0
        if self.has_slowest:
            heading = f"the slowest tile of each phase; below, {self.phases.by_tile.mean_text}"
            say = "the slowest tile of each phase"
            mark = Lanes("slowest", heading, count=1, labels=("slowest",), say=say)
            panels.put(mark, left=LANES_X, high=20)
            down, ends, heading = 26, (("means", 0.0), ("fastest", 1.0)), ""
        elif self.phases.is_sorted:
            heading = f"slowest first in each IPU, {self.phases.by_tile.mean_text}"
        else:
            heading = f"the {self.phases.group}, tile by tile"
        heading += f"; {STRETCH}" * self.phases.has_several
        if not self.phases.is_sorted:
            lanes = Lanes("lanes", heading, count=self.phases.lanes, key=cells, ends=ends)
        else:
            lanes = Lanes("lanes", heading, count=self.phases.lanes, ends=ends)
        panels.put(lanes, left=LANES_X, down=down, high=SIDE - down)
        if self.beyond:
            say = " and ".join(self.beyond).replace("host", "the host")
            panels.below(6)
            mark = Lanes("host", count=1, labels=(", ".join(self.beyond),), say=say)
            panels.put(mark, left=LANES_X, high=16)
        panels.below(24 if self.beyond else 22)
        panels.put(Track(), high=22)

    def _add_notes(self, panels: Panels, has_messages: bool) -> None:
        """Add the notes that say what the picture merges or leaves out."""
        if self.cells.tiles_per_cell > 1:
            panels.notes.append(
                f"A cell stands for up to {self.cells.tiles_per_cell} tiles: their longest time, "
                "and the sum of their bytes."
            )
        panels.notes += self.phases.by_tile.notes
        if any(len(stretch.spans) >= self.phases.max_edges for stretch in self.phases.stretches):
            stretch = "a stretch of many phases" if self.phases.max_edges else "each stretch"
            panels.notes.append(
                f"In {stretch} a frame is a phase of the IPU that the others wait for; the lanes "
                "show all phases."
            )
        if self.report.target.num_ipus > 1 and has_messages:
            panels.notes.append(BETWEEN)
        panels.notes.append(
            "Each phase plays equally long, and lanes fill the width in each "
            f"{self.phases.group}, unless several pictures share an axis; the strip below is to "
            "scale."
        )

    def _as_lane(self, stretch: Segment, kinds: Container[str]) -> Drawing:
        """Return a drawing with one lane, which shows the phases of a stretch to scale.

        Only phases whose kind is in `kinds` are drawn.
        """
        bars = [
            Bar(STATE[s.phase.kind], s.start, s.phase.cycles, s.start + s.phase.cycles)
            for s in stretch.spans
            if s.phase.kind in kinds
        ]
        return Drawing(stretch.cycles, tuple(bars), "modelled cycles")
