"""The view `bsp`: a run as supersteps. Every tile syncs, exchanges and computes; the slowest
decides when all go on.

On the left the tiles, on the right a lane for each of them with what it does in the current
superstep and how long it waits, below the whole run. Of more than 64 tiles the lanes are quantiles:
in each phase the tiles are sorted by their time, so that shares of time are kept. An arrow is a
message that was sent, or several of one sender to the same receivers.

Of several IPUs a frame is a part of a stretch, from where one of them begins a phase to where the
next does; together the frames last as long as the run. Between IPUs one arrow stands for all
messages from one to another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.cost.phases import COMPUTE, HOST, STREAMING, SYNC
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Recording, Report, Why
from ipu_teach.show.content import report_of, with_content
from ipu_teach.show.measures import MOST_SPOKES, SMALLEST_LABEL
from ipu_teach.show.pairs import paired as in_pairs
from ipu_teach.show.palette import STATE, STATES
from ipu_teach.show.panels import Panels, grid
from ipu_teach.show.report_facts import (
    At,
    because,
    checked,
    ipus_at_work,
    ipus_title,
    linked,
    no_time,
    phase_cycles,
    run_of,
    seen_whole,
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
    WAIT,
    IPUStep,
    LanesOf,
    Segment,
    Span,
    cuts,
    parts,
    segments,
)
from ipu_teach.show.view import MOST_BYTES, View
from ipu_teach.types import Array

BEYOND = {HOST: "host", STREAMING: "streaming memory"}
MOST_CELLS = 4096  # more tiles are drawn several to a cell
MOST_FRAMES = 3000  # of a run
# of a run of several IPUs: as many as are tried first, and those before tiles share cells
FIRST_FRAMES, FEW_FRAMES = 256, 100
MOST_EDGES = 96  # of a stretch; a longer one has the phases of one IPU
MOST_OF_TWO = 500  # supersteps of each of two runs
MOST_LANES = 64  # more tiles are sorted
MOST_MESSAGES = 64  # of one exchange, drawn one by one
MOST_TOLD = 16  # phases, or IPUs, in the words of one frame
MOST_OF_ONE = 64  # of the messages of one tile, drawn where there are more
SIDE = 264.0  # of the square that holds the tiles
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

    The run in a report as an animation of its supersteps; with `other`, two runs above each
    other on one axis of time.

    Of a recording, the words say what of the recorded tensors the messages carry. Every other
    number is modelled. A run of more than 3,000 phases, or of two runs more than 500 supersteps of
    each, is shown up to there, a machine of more than 4,096 tiles with several tiles to a cell, and
    so is one whose scene would be larger than 150 kB; the view says so. `paired`: of two runs each
    tile's two lanes stand below each other. `why`: a chain of causes, `report.why(…)`, whose tiles
    get one colour. `at`: where the picture of one run rests, the number of a superstep from 0 on,
    the name of a step, or a kind of phase, say "exchange"; left out, it is the end of the phase
    that computes longest, of several IPUs of the longest stretch. Raises `InvalidOptionError` for
    something that is no report or has no step in it, for pairs without a second run on as many
    tiles, and for a step that the picture does not show.
    """
    given, told = report_of(run)
    report = checked(given, "bsp")
    if paired and (
        other is None or report.target.num_tiles != checked(other, "bsp").target.num_tiles
    ):
        raise InvalidOptionError("""show.bsp() was asked for lanes in pairs, without a second run on
            as many tiles.
            next:  give it two such runs, or leave out paired=True.""")
    seen_whole("bsp", other, at)
    if other is not None:
        scene = _two([_made(report, 1), _made(other, 1)])
        return because(View(in_pairs(scene) if paired else scene), report, why)
    each = -(-report.target.num_tiles // MOST_CELLS)
    frames: dict[int, tuple[int, int]] = {}
    if told and report.target.num_ipus == 1:
        order = enumerate(report.step_numbers.tolist())
        frames = dict(
            enumerate((place, phase.exchange) for place, n in order for phase in report.phases(n))
        )
    several = report.target.num_ipus > 1
    maker, most = _made(report, each), FIRST_FRAMES if several else MOST_FRAMES
    while True:
        scene = linked(with_content(maker.scene(most), told, frames), report, ("tiles", "lanes"))
        size, shown = len(scene.json()), len(scene.frames)
        if size <= MOST_BYTES and several and most == FIRST_FRAMES and maker.is_cut(most):
            most = min(MOST_FRAMES, int(0.9 * shown * MOST_BYTES / size))
            if most > FIRST_FRAMES:  # there is room for more
                continue
        if size <= MOST_BYTES:
            break
        if several and shown > FEW_FRAMES and most > FEW_FRAMES:
            # the tiles stay: what they do is the picture
            most = max(FEW_FRAMES, int(0.9 * min(most, shown) * MOST_BYTES / size))
        elif each < report.target.tiles_per_ipu:
            each *= 2
            maker = _made(report, each)
        else:
            break
    return because(View(scene), report, why, at)


def axis_of(view: View) -> float:
    """The longest of the axes of time that lanes of one superstep have in turn, 0 without lanes."""
    axes = [
        max(mark.axis, *(float(d.span) for d in view.scene.drawings))
        for mark in view.scene.marks
        if isinstance(mark, Lanes) and view.scene.view == "bsp"
    ]
    return max(axes, default=0.0)


def with_axis(view: View, axis: float) -> View:
    """The view with lanes whose whole width is `axis`, where it has lanes of one superstep."""
    if not axis_of(view) or axis <= 0:
        return view
    marks = tuple(
        replace(mark, axis=axis) if isinstance(mark, Lanes) else mark for mark in view.scene.marks
    )
    return View(replace(view.scene, marks=marks))


def _made(report: Report, each: int) -> _Maker:
    return _Maker(checked(report, "bsp"), each)


def _two(makers: list[_Maker]) -> Scene:
    """Two runs as tapes on one axis, a frame for each superstep, first those of one."""
    span = max(maker.report.total_cycles for maker in makers)
    stills: list[Still] = []
    frames: list[int] = []
    panels, rows = Panels(), list[tuple[str, ...]]()
    for which, maker in enumerate(makers):
        name, report = ("first report", "second report")[which], maker.report
        first_still, run = len(stills), min(MOST_OF_TWO, len(report.step_numbers))
        found, which_stretch = segments(report, run)
        for stretch in found:
            phases = [span.phase for span in stretch.spans]
            busy = maker.by_tile.spent(phases, COMPUTE)
            values = {} if busy is None else {"busy": busy}
            group = "superstep" if len(stretch.parts) == 1 else "stretch"
            say = f"{maker.lane_name} {{i}} of the {name}" + (
                f": {{busy}} modelled cycles of compute in this {group}" * bool(values)
            )
            note, code = phase_cycles(phases), state_of(phases)
            lanes = {name: (len(panels.drawings), 0.0, stretch.cycles)}
            text = f"{counted(len(stretch.parts), 'part')}, each IPU by itself"
            if len(stretch.parts) == 1:
                text = " ".join(maker.named(stretch.parts[0]))
            else:
                note = stretch.told()
            title, about = label(f"{name}: {text}", 60), {name: (say, values)}
            other = f"{maker.lane_name} {{i}}"
            stills.append(
                Still(title, note, code, stretch.cycles, True, lanes=lanes, about=about, say=other)
            )
            panels.drawings.append(maker.by_tile.drawing(stretch))
        frames += (first_still + which_stretch).tolist()
        panels.first(run, report.num_steps, "supersteps", f"Of the {name} the picture shows")
        heading = (
            f"{name}: {titled(report, counted(report.target.num_tiles, 'tile'))}, "
            f"{number(report.total_cycles)} modelled cycles"
        )
        high = max(80.0, min(180.0, 14.0 * maker.lanes))
        ends = maker.ends_of(high)
        labels = () if ends else tuple(f"{t}" for t in range(maker.lanes))
        panels.below()
        tape = Tape(name, heading, count=maker.lanes, labels=labels, span=span, ends=ends)
        panels.put(tape, left=64, high=high)
        panels.notes += maker.by_tile.notes
        rows += [(name, *row) for row in maker.table(list(STATE))[1]]
    if not any(still.cycles for still in stills):
        raise no_time("bsp")
    first, second = (maker.report.total_cycles for maker in makers)
    part = abs(second - first) / first if first else 0.0
    change = (
        f" The second takes {100 * part:.1f} % {'more' if second > first else 'fewer'} cycles than "
        "the first."
        if part
        else ""
    )
    panels.notes.insert(0, change.strip() or "Both take equally long.")
    return panels.scene(
        "bsp",
        _compared(first, second),
        f"Two runs on one axis of time. {makers[0].sentence()} {makers[1].sentence()}{change}",
        foot=24,
        codes=STATES,
        stills=tuple(stills),
        frames=np.array(frames, np.int64),
        poster=len(frames) - 1,
        group="stretch" if any(maker.several for maker in makers) else "superstep",
        table=(("report", *makers[0].table(list(STATE))[0]), tuple(rows)),
    )


def _compared(first: float, second: float) -> str:
    """Two runs beside each other, as a title."""
    if first == second:
        return "Both runs take equally long"
    share = abs(second - first) / first if first else 0.0
    more = "more" if second > first else "fewer"
    return f"The second run takes {100 * share:.1f} % {more} cycles than the first"


class _Maker:
    """Makes the scene, with `each` tiles to a cell."""

    def __init__(self, report: Report, each: int) -> None:
        self.report, self.each = report, each
        numbers, runs = np.unique(report.step_numbers, return_counts=True)
        self.ran = [  # (what an IPU or all did, how often, its phases)
            (part, times, report.phases(n, part.ipu))
            for n, times in zip(numbers.tolist(), runs.tolist(), strict=True)
            for part in parts(report, n)
        ]
        self.stretches, self.which = segments(report, min(MOST_FRAMES, len(report.step_numbers)))
        self._edges_of = dict[Segment, list[int]]()
        target = report.target
        self.several = target.num_sets > 1
        self.group = "stretch" if self.several else "superstep"
        self.by_tile = LanesOf(report, MOST_LANES)
        self.per_ipu = -(-target.tiles_per_ipu // each)
        self.count = self.per_ipu * target.num_ipus
        ipu, within = np.divmod(np.arange(target.num_tiles), target.tiles_per_ipu)
        self.cell = ipu * self.per_ipu + within // each
        self.one = "tile" if each == 1 else f"group of {each} tiles"
        self.lanes, self.is_sorted = self.by_tile.count, self.by_tile.is_sorted
        self.lane_name = "lane" if self.is_sorted else "tile"
        self.grid = grid("tiles", target, SIDE, each_ipu=self.per_ipu)
        self.kinds = [k for k in STATE if any(p.kind == k for *_, own in self.ran for p in own)]
        self.beyond = [BEYOND[k] for k in self.kinds if k in BEYOND]  # what the device talks to

    def scene(self, most: int = MOST_FRAMES) -> Scene:
        """The picture, of at most so many frames."""
        stills: list[Still] = []
        panels = Panels()
        of: list[range] = []  # by stretch, its stills
        for stretch in self.stretches[: self._few(most)]:
            made = self._stills(stretch, len(panels.drawings))
            of.append(range(len(stills), len(stills) + len(made)))
            stills += made
            panels.drawings.append(self.by_tile.drawing(stretch))
            if self.beyond:
                panels.drawings.append(self._of_host(stretch))
        if not stills:
            raise no_time("bsp")
        frames = self._frames(of, panels, most)
        # It rests in the phase that computes longest, or at the end of the longest stretch.
        lasts = [
            stretch.cycles if self.several else stills[i].cycles
            for stretch, own in zip(self.stretches, of, strict=False)
            for i in own
        ]
        codes = [still.code for still in stills]
        chosen = max(
            dict.fromkeys(frames.tolist()),
            key=lambda i: (codes[i] == STATE[COMPUTE], codes[i] != STATE[SYNC], lasts[i]),
        )
        if self.several:
            chosen = self._longest_wait(of, set(frames.tolist()))
        self._put(panels)
        if self.each > 1:
            panels.notes.append(
                f"A cell stands for up to {self.each} tiles: their longest time, and the sum of "
                "their bytes."
            )
        panels.notes += self.by_tile.notes
        if any(len(stretch.spans) >= MOST_EDGES for stretch in self.stretches):
            panels.notes.append(
                "In a stretch of many phases a frame is a phase of the IPU that the others wait "
                "for; the lanes show all phases."
            )
        if self.report.target.num_ipus > 1 and any(still.flows for still in stills):
            panels.notes.append(BETWEEN)
        panels.notes.append(
            "Each phase plays equally long, and lanes fill the width in each "
            f"{self.group}; the strip below is to scale."
        )
        return panels.scene(
            "bsp",
            titled(self.report, self._title()),
            self.sentence(),
            foot=26,
            codes=STATES,
            stills=tuple(stills),
            frames=frames,
            table=self.table(self.kinds),
            poster=int(np.flatnonzero(frames == chosen)[0]),
            group=self.group,
        )

    def _few(self, most: int) -> int:
        """How many of the different stretches come up in the first `most` frames; at least one."""
        sizes = [len(self._edges(stretch)) - 1 for stretch in self.stretches]
        frames = np.cumsum([sizes[which] for which in self.which.tolist()])
        shown = self.which[: max(1, int(np.searchsorted(frames, most, "right")))]
        return 1 + max(shown.tolist(), default=0)

    def is_cut(self, most: int) -> bool:
        """Whether the run has more than `most` frames."""
        return sum(len(self._edges(self.stretches[i])) - 1 for i in self.which.tolist()) > most

    def _longest_wait(self, of: list[range], shown: set[int]) -> int:
        """The still at the end of the longest stretch that ends with the IPU that makes the others
        wait longest."""
        held = self.report.ipus.largest("held_cycles", 1)[0]
        ends = [
            (stretch.last == held.ipu, stretch.cycles, -own[-1])
            for stretch, own in zip(self.stretches, of, strict=False)
            if own and own[-1] in shown
        ]
        return -max(ends)[2]

    def _frames(self, of: list[range], panels: Panels, most: int) -> Array:
        """The still of every phase of the run, in order, up to the last stretch that is shown
        whole."""
        frames: list[int] = []
        report, shown = self.report, len(self.report.step_numbers[:MOST_FRAMES])
        for place, which in enumerate(self.which.tolist()):
            if which >= len(of) or frames and len(frames) + len(of[which]) > most:
                shown = int(cuts(report)[place])
                break
            frames += of[which]
        panels.first(shown, report.num_steps, "supersteps")
        return np.array(frames, np.int64)

    def ends_of(self, high: float) -> tuple[str, ...]:
        """The words beside lanes that are so high together, where no lane has its number."""
        narrow = self.several and high / self.lanes < SMALLEST_LABEL * 0.7
        return self.by_tile.ends if self.is_sorted or narrow else ()

    def _put(self, panels: Panels) -> None:
        """The tiles, what flies between them, their lanes and the strip."""
        cells = np.arange(self.count)
        heading = f"the {self.group}, slowest first" + ", IPU by IPU" * self.several
        panels.put(replace(self.grid, key=cells))
        panels.marks.append(Flows("messages", "tiles"))
        if self.is_sorted:
            lanes = Lanes("lanes", heading, count=self.lanes, ends=self.ends_of(SIDE))
        else:
            heading, ends = f"the {self.group}, tile by tile", self.ends_of(SIDE)
            lanes = Lanes("lanes", heading, count=self.lanes, key=cells, ends=ends)
        panels.put(lanes, left=LANES_X, high=SIDE)
        if self.beyond:
            name, said = ", ".join(self.beyond), " and ".join(self.beyond)
            said = said.replace("host", "the host")
            panels.below(6)
            panels.put(Lanes("host", count=1, labels=(name,), say=said), left=LANES_X, high=16)
        panels.below(24 if self.beyond else 22)
        panels.put(Track(), high=22)

    def _stills(self, stretch: Segment, drawing: int) -> list[Still]:
        """A still for each part of a stretch in which no IPU begins or ends a phase: on one IPU, or
        where all work together, for each phase."""
        found, stills = stretch.spans, list[Still]()
        for begin, end in pairwise(self._edges(stretch)):
            here = [s for s in found if s.start <= begin < s.start + s.phase.cycles]
            stills.append(self._still(here, begin, end, stretch, drawing))
        return stills

    def _edges(self, stretch: Segment) -> list[int]:
        """When the frames of a stretch begin, and its end."""
        if stretch not in self._edges_of:
            spans = stretch.spans
            edges = {0, *(s.start + s.phase.cycles for s in spans)}
            if len(edges) > MOST_EDGES:
                last = [s for s in spans if stretch.lasts(s.part)]
                edges = {0, stretch.cycles, *(s.start + s.phase.cycles for s in last)}
            self._edges_of[stretch] = sorted(edges)
        return self._edges_of[stretch]

    def _still(
        self, here: list[Span], begin: int, end: int, stretch: Segment, drawing: int
    ) -> Still:
        """What some tiles do from cycle `begin` to `end` of a stretch; the others wait."""
        main = next((span for span in here if stretch.lasts(span.part)), here[0])
        phase, cycles, own = main.phase, end - begin, main.part.ipu is not None
        apart = own or not main.own.all()
        done: Array = np.zeros(self.report.target.num_tiles, np.int64)
        codes = np.full(len(done), WAIT)
        for span in here:
            busy = span.phase.cycles if span.phase.busy is None else span.phase.busy
            done = np.where(span.own, np.clip(span.start + busy - begin, 0, cycles), done)
            codes[span.own] = STATE[span.phase.kind]
        code = STATE[phase.kind]
        values: dict[str, Array] = {}
        say = f"{self.one} {{i}}: {phase.kind}"
        channel: tuple[int | Array, float | Array, int] = (code, cycles, code)
        about: dict[str, tuple[str, dict[str, Array]]] = {}
        note, at = "", 1.0
        messages: list[Message] = []
        if apart or phase.busy is not None:
            values["busy"] = self._longest(done)
            told = ", {busy} modelled cycles, then waits {-busy}"
            kind = "at work" if apart else phase.kind
            say = f"{self.one} {{i}}: {kind}{told}"
            kept = codes[np.unique(self.cell, return_index=True)[1]] if apart else code
            channel = (kept, values["busy"], WAIT)
            if self.is_sorted:
                lane = f"lane {{i}} of the sorted tiles: {kind}{told}"
                about["lanes"] = (lane, {"busy": self.by_tile.of(done)})
        if phase.busy is not None:
            note = f"in {stretch.names[main.part.ipu or 0]} " * own + waited_for(phase, main.own)
        for span in (one for one in here if one.phase.exchange >= 0):
            step, number = span.part.step, span.phase.exchange
            traffic = self.report.step_cost(step).exchange[number]
            for name, bytes_ in (("received", traffic.received), ("sent", traffic.sent)):
                values[name] = values.get(name, 0) + self._sum(bytes_ * span.own)
            drawn, how = self._messages(
                self.report.transfers(step)[number], values["busy"], span.own
            )
            messages += drawn
            if span is main:
                note = f"{int(traffic.received[span.own].sum()):,} bytes arrive; {how}; {note}"
        if "sent" in values:
            say += "; receives {received} bytes, sends {sent}"
        if messages:  # a picture of it is taken while all that take part are at it
            at = int(values["busy"][values["busy"] > 0].min()) / 2 / cycles
        if apart:
            note = self._meanwhile(here) + f"; {note}" * bool(note)
        _, name = self.named(main.part)
        drawn_in = ("lanes", "host")[: 1 + bool(self.beyond)]
        return Still(
            f"{phase.kind}: {name}" if name else phase.kind,
            note,
            code,
            cycles,
            begin == 0,
            {"tiles": channel},
            {group: (drawing + k, begin, end) for k, group in enumerate(drawn_in)},
            {"messages": tuple(messages)} if messages else {},
            values,
            say,
            at=at,
            about=about,
        )

    def _meanwhile(self, here: list[Span]) -> str:
        """What the IPUs that are at work do at some time."""
        ipus = self.report.target.sets
        of = self.report.target.set_of(np.arange(self.report.target.num_tiles))
        does = {
            ipu: f"{span.phase.kind} of {self._name(span.part)}"
            for span in here
            for ipu in np.unique(of[span.own]).tolist()
        }
        told = list(does.items())[:MOST_TOLD]
        said = [f"{ipus[i]}: {work}" for i, work in told]
        said += [f"{len(does) - len(told)} more at work"] * (len(does) > len(told))
        idle = len(ipus) - len(does)
        waits = ["the other waits" if idle == 1 else f"the other {idle} wait"]
        return ", ".join(said + waits * (idle > 0))

    def named(self, part: IPUStep) -> tuple[str, str]:
        """(kind, name) of a step, the name after that of the IPU that does it by itself."""
        own = "" if part.ipu is None else f"{self.report.target.sets[part.ipu]}: "
        return self.report.step_cost(part.step).kind, label(own + self._name(part), 48)

    def _name(self, part: IPUStep) -> str:
        return label(self.report.step_cost(part.step).name, 48)

    def _middle(self, ipu: int) -> int:
        """The cell in the middle of an IPU, from which its arrows go."""
        columns = int(np.ceil(np.sqrt(self.per_ipu)))
        return ipu * self.per_ipu + (self.per_ipu // columns // 2) * columns + columns // 2

    def _longest(self, per_tile: Array) -> Array:
        """int64[cells]: of each cell the longest time of its tiles."""
        found = np.zeros(self.count, np.int64)
        np.maximum.at(found, self.cell, per_tile)
        return found

    def _sum(self, per_tile: Array) -> Array:
        return np.bincount(self.cell, per_tile, self.count).astype(np.int64)

    def _messages(
        self, transfers: Transfers, busy: Array, own: Array
    ) -> tuple[tuple[Message, ...], str]:
        """(the messages between cells, what they are in words), of the tiles that are `own`. Of too
        many, those of the slowest cell are drawn."""
        if not own.all():  # those of one IPU
            kept = np.flatnonzero(own[transfers.source])
            receivers = tuple(transfers.receivers[i] for i in kept.tolist())
            transfers = Transfers(transfers.source[kept], transfers.size[kept], receivers)
        sent = Counter[tuple[int, bytes]]()
        for source, size, to in zip(
            transfers.source.tolist(), transfers.size.tolist(), transfers.receivers, strict=True
        ):
            here, there = int(self.cell[source]), np.unique(self.cell[to])
            if self.several:
                ipu, ipus = here // self.per_ipu, there // self.per_ipu
                for other in np.unique(ipus[ipus != ipu]).tolist():
                    sent[self._middle(ipu), np.array([self._middle(other)]).tobytes()] += size
                there = there[ipus == ipu]
            there = there[there != here]
            if len(there):
                sent[here, there.tobytes()] += size
        messages = [
            Message(here, np.frombuffer(to, np.int64), size) for (here, to), size in sent.items()
        ]
        many = [len(to) for to in transfers.receivers if len(to) > 1]
        if len(transfers) == 1 and many:
            return tuple(messages), f"1 message, heard by {many[0]:,} tiles"
        how = counted(len(transfers), "message") + (
            f", {len(many):,} of them to several tiles" if many else ""
        )
        if len(messages) <= MOST_MESSAGES:
            return tuple(messages), how
        chosen = int(np.argmax(busy))
        links = [m for m in messages if self._is_link(m)]  # few, and each stands for many
        its = [m for m in messages if chosen == m.source or chosen in m.receivers]
        its = [m for m in its if not self._is_link(m)]
        its = links + sorted(its, key=lambda m: -m.size)[:MOST_OF_ONE]
        between = f" and {counted(len(links), 'arrow')} between IPUs" * bool(links)
        how += f"; drawn are {len(its) - len(links):,} of {self.one} {chosen}{between}"
        if len(its) > MOST_SPOKES and self.grid.side < SMALLEST_LABEL:
            how += ", a frame for who sends, a dot for who receives"
        return tuple(its), how

    def _title(self) -> str:
        """Which tiles, or which IPU, make the others wait."""
        if self.several:
            return ipus_title(self.report)
        computing = [(p, part) for part, _, own in self.ran for p in own if p.kind == COMPUTE]
        if computing:
            phase, part = max(computing, key=lambda pair: pair[0].cycles)
            name = self._name(part)
            return waits_title(phase) + f" in {name!r}" * bool(name)
        spent = Counter[str]()
        for _, times, own in self.ran:
            for phase in own:
                spent[phase.kind] += times * phase.cycles
        kind, cycles = spent.most_common(1)[0]
        share = 100 * cycles / self.report.total_cycles
        return f"{kind.capitalize()} takes {share:.1f} % of the run; no tile computes"

    def _is_link(self, message: Message) -> bool:
        """Whether an arrow goes from one IPU to another."""
        return message.source // self.per_ipu != int(message.receivers[0]) // self.per_ipu

    def sentence(self) -> str:
        """What the run takes, phase by phase, and the tile that is waited for longest."""
        report = self.report
        total = report.total_cycles
        if self.several:
            return f"{run_of(report)}. {ipus_at_work(report)}"
        spent = Counter[str]()
        for _, times, own in self.ran:
            for phase in own:
                spent[phase.kind] += times * phase.cycles
        shares = ", ".join(f"{kind} {100 * cycles / total:.1f} %" for kind, cycles in spent.items())
        found = [(p, part) for part, _, own in self.ran for p in own if p.kind == COMPUTE]
        worst = ""
        if found:
            phase, part = max(found, key=lambda one: one[0].cycles)
            worst = f" The longest that computes is {self.named(part)[1]}: {waited_for(phase)}."
        return f"{run_of(report)}: {shares}.{worst}"

    def table(self, kinds: list[str]) -> Table:
        """Every step, with its cycles in phases of these kinds."""
        rows = []
        for part, times, own in self.ran:
            cycles = [sum(p.cycles for p in own if p.kind == k) for k in kinds]
            busy = next((p.busy for p in own if p.kind == COMPUTE), None)
            who = "" if busy is None else slowest(busy)[0].removeprefix("tile ")
            of = self.report.target.set_of(np.arange(len(self.cell)))
            mine = (of == part.ipu) | (part.ipu is None)
            exchanges = self.report.step_cost(part.step).exchange
            arrived = sum(int(traffic.received[mine].sum()) for traffic in exchanges)
            ran = f"{times:,}", *map(number, cycles), f"{arrived:,}", who
            rows.append((*self.named(part), *ran))
        return (
            "kind",
            "name",
            "runs",
            *(f"{k} cycles" for k in kinds),
            "bytes received",
            "slowest tile",
        ), tuple(rows)

    def _of_host(self, stretch: Segment) -> Drawing:
        """What the host and streaming memory do in a stretch."""
        found = [s for s in stretch.spans if s.phase.kind in BEYOND]
        bars = [
            Bar(STATE[s.phase.kind], s.start, s.phase.cycles, s.start + s.phase.cycles)
            for s in found
        ]
        return Drawing(stretch.cycles, tuple(bars), "modelled cycles")
