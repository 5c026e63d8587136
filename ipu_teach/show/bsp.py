"""The view `bsp`: a run as supersteps. Every tile syncs, exchanges and computes; the slowest
decides when all go on.

On the left the tiles, on the right a lane for each of them with what it does in the current
superstep and how long it waits, below the whole run. Of more than 64 tiles the lanes are quantiles:
in each phase the tiles are sorted by their time, so that shares of time are kept. An arrow is a
message that was sent, or several of one sender to the same receivers.

Of several IPUs a frame shows what one of them does in a superstep by itself, or what all do
together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_teach.cost.exchange import Traffic
from ipu_teach.cost.phases import COMPUTE, HOST, Phase
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.flags import flagged
from ipu_teach.report import Recording, Report, Why
from ipu_teach.show import palette
from ipu_teach.show.content import report_of, with_content
from ipu_teach.show.pairs import paired as in_pairs
from ipu_teach.show.palette import STATE, STATES
from ipu_teach.show.panels import ENDS, Panels, grid
from ipu_teach.show.report_facts import (
    because,
    checked,
    ipus_at_work,
    linked,
    sorted_lanes,
    titled,
    waited_for,
)
from ipu_teach.show.scene import (
    Bar,
    Drawing,
    Flows,
    Lanes,
    Message,
    Scene,
    Still,
    Tape,
    Track,
    label,
    number,
)
from ipu_teach.show.segments import IPUStep, LanesOf, Segment, parts, segments
from ipu_teach.show.view import MOST_BYTES, View
from ipu_teach.types import Array

REST, WAIT = STATES.index(palette.REST), STATES.index(palette.WAIT)

MOST_CELLS = 4096  # more tiles are drawn several to a cell
MOST_FRAMES = 3000  # of a run
MOST_OF_TWO = 500  # supersteps of each of two runs
MOST_LANES = 64  # more tiles are sorted
MOST_MESSAGES = 128  # of one exchange, drawn one by one
MOST_TOLD = 16  # phases, or IPUs, in the words of one frame of two runs
MOST_OF_ONE = 64  # of the messages of one tile, drawn where there are more
SIDE = 264.0  # of the square that holds the tiles
LANES_X = 340.0
OVERLAP = (
    "IPUs work at the same time: between transfers of all each goes through its own supersteps, "
    "which stand here one after the other, so that all of them together take more than the {:,} "
    "cycles of the run. show.timeline(report) has them by time."
)
NO_TIME = """show.bsp() was given a run that takes no modelled time.
    next:  run a program that copies or computes."""


@flagged
def bsp(
    run: Report | Recording,
    other: Report | None = None,
    *,
    paired: bool = False,
    why: Why | None = None,
) -> View:
    """The run in a report as an animation of its supersteps; with `other`, two runs above each
    other on one axis of time.

    Of a recording, the words say what of the recorded tensors the messages carry. Every other
    number is modelled. A run of more than 3,000 phases, or of two runs more than 500 supersteps of
    each, is shown up to there, a machine of more than 4,096 tiles with several tiles to a cell, and
    so is one whose scene would be larger than 150 kB; the view says so. `paired`: of two runs each
    tile's two lanes stand below each other. `why`: a chain of causes, `report.why(…)`, whose tiles
    get one colour. Raises `InvalidOptionError` for something that is no report or has no step in
    it, and for pairs without a second run on as many tiles.
    """
    given, told = report_of(run)
    report = checked(given, "bsp")
    if paired and (
        other is None or report.target.num_tiles != checked(other, "bsp").target.num_tiles
    ):
        raise InvalidOptionError("""show.bsp() was asked for lanes in pairs, without a second run on
            as many tiles.
            next:  give it two such runs, or leave out paired=True.""")
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
    while True:
        scene = linked(
            with_content(_made(report, each).scene(), told, frames), report, ("tiles", "lanes")
        )
        if len(scene.json()) <= MOST_BYTES or each >= report.target.tiles_per_ipu:
            return because(View(scene), report, why)
        each *= 2


def _made(report: Report, each: int) -> _Maker:
    checked(report, "bsp")
    numbers, runs = np.unique(report.step_numbers, return_counts=True)
    steps = [
        _step(report, part, r)
        for n, r in zip(numbers.tolist(), runs.tolist(), strict=True)
        for part in parts(report, n)
    ]
    return _Maker(report, steps, each)


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
            phases = [
                phase for part in stretch.parts for phase in report.phases(part.step, part.ipu)
            ]
            busy = [p.busy for p in phases if p.kind == COMPUTE and p.busy is not None]
            values = {"busy": maker.in_lanes(np.sum(busy, axis=0))} if busy else {}
            group = "superstep" if len(stretch.parts) == 1 else "stretch"
            say = f"{maker.lane_name} {{i}} of the {name}" + (
                f": {{busy}} modelled cycles of compute in this {group}" * bool(busy)
            )
            note = ", ".join(f"{p.kind} {number(p.cycles)}" for p in phases)
            code = STATE[max(phases, key=lambda p: p.cycles).kind] if phases else 0
            lanes = {name: (len(panels.drawings), 0.0, stretch.cycles)}
            text = f"{counted(len(stretch.parts), 'part')}, each IPU by itself"
            if len(stretch.parts) == 1:
                step = _step(report, stretch.parts[0], 1)
                text = f"{step.kind} {step.name}"
            elif len(phases) > MOST_TOLD:
                note = ", ".join(
                    f"IPU {ipu} {number(end)}" for ipu, end in enumerate(stretch.ends[:MOST_TOLD])
                )
            title, about = label(f"{name}: {text}", 60), {name: (say, values)}
            other = f"{maker.lane_name} {{i}}"
            stills.append(
                Still(title, note, code, stretch.cycles, True, lanes=lanes, about=about, say=other)
            )
            panels.drawings.append(maker.by_tile.drawing(report, stretch, STATE, WAIT))
        frames += (first_still + which_stretch).tolist()
        panels.first(run, report.num_steps, "supersteps", f"Of the {name} the picture shows")
        heading = (
            f"{name}: {titled(report, counted(report.target.num_tiles, 'tile'))}, "
            f"{number(report.total_cycles)} modelled cycles"
        )
        labels, ends = (
            ((), maker.ends) if maker.is_sorted else (tuple(f"{t}" for t in range(maker.lanes)), ())
        )
        panels.below()
        tape = Tape(name, heading, count=maker.lanes, labels=labels, span=span, ends=ends)
        panels.put(tape, left=64, high=max(80.0, min(180.0, 14.0 * maker.lanes)))
        if maker.is_sorted:
            panels.notes.append(
                sorted_lanes(maker.lanes, report.target.num_tiles, report.target.num_ipus)
            )
        rows += [(name, *row) for row in maker.table(list(STATE))[1]]
    if not any(still.cycles for still in stills):
        raise InvalidOptionError(NO_TIME)
    first, second = (maker.report.total_cycles for maker in makers)
    part = abs(second - first) / first if first else 0.0
    change = (
        f" The second takes {100 * part:.1f} % {'more' if second > first else 'fewer'} cycles than "
        "the first."
        if part
        else ""
    )
    return panels.scene(
        "bsp",
        "Two runs on one axis of time",
        f"Two runs on one axis of time. {makers[0].sentence()} {makers[1].sentence()}{change}",
        foot=24,
        codes=STATES,
        stills=tuple(stills),
        frames=np.array(frames, np.int64),
        poster=len(frames) - 1,
        table=(("report", *makers[0].table(list(STATE))[0]), tuple(rows)),
    )


@dataclass(frozen=True, eq=False)
class _Step:
    """One compiled step that ran, as the IPU `ipu` did it, or (None) all together: its phases, its
    exchanges and their messages, and how often it ran."""

    part: IPUStep
    name: str
    kind: str
    phases: tuple[Phase, ...]
    exchange: tuple[Traffic, ...]
    transfers: tuple[Transfers, ...]
    cycles: float
    runs: int


def _step(report: Report, part: IPUStep, runs: int) -> _Step:
    cost, phases = report.step_cost(part.step), report.phases(part.step, part.ipu)
    name = label(cost.name if part.ipu is None else f"IPU {part.ipu}: {cost.name}", 48)
    return _Step(
        part, name, cost.kind, phases, cost.exchange, report.transfers(part.step), part.cycles, runs
    )


class _Maker:
    """Makes the scene, with `each` tiles to a cell."""

    def __init__(self, report: Report, steps: list[_Step], each: int) -> None:
        self.report, self.steps, self.each = report, steps, each
        target = report.target
        self.several = target.num_ipus > 1
        self.by_tile = LanesOf(report, MOST_LANES)
        self.per_ipu = -(-target.tiles_per_ipu // each)
        self.count = self.per_ipu * target.num_ipus
        tiles = np.arange(target.num_tiles)
        self.cell = (
            tiles // target.tiles_per_ipu * self.per_ipu + tiles % target.tiles_per_ipu // each
        )
        self.one = "tile" if each == 1 else f"group of {each} tiles"
        self.lanes, self.is_sorted = self.by_tile.count, self.by_tile.is_sorted
        self.ends = ("IPU 0", f"IPU {target.num_ipus - 1}") if self.several else ENDS
        self.lane_name = "lane" if self.is_sorted else "tile"
        self.host = any(p.kind == HOST for s in steps for p in s.phases)
        self.moved: dict[int, int] = {}  # by still: the bytes that its messages move

    def scene(self) -> Scene:
        stills: list[Still] = []
        panels = Panels()
        stills_of: dict[int, list[int]] = {}
        for step in self.steps:
            if step.phases:
                stills_of.setdefault(step.part.step, []).extend(
                    range(len(stills), len(stills) + len(step.phases))
                )
                stills += self._stills(step, len(panels.drawings), len(stills))
                panels.drawings.append(self.drawing(step))
                if self.host:
                    panels.drawings.append(_of_host(step))
        if not stills:
            raise InvalidOptionError(NO_TIME)
        frames = self._frames(stills_of, panels)
        self._put(panels)
        if self.each > 1:
            panels.notes.append(
                f"A cell stands for up to {self.each} tiles: their longest time, and the sum of "
                "their bytes."
            )
        if self.is_sorted:
            panels.notes.append(
                sorted_lanes(self.lanes, self.report.target.num_tiles, self.report.target.num_ipus)
            )
        if self.several:
            panels.notes.append(OVERLAP.format(self.report.total_cycles))
        panels.notes.append(
            "Each phase plays equally long, and lanes fill the width in each superstep; the strip "
            "below is to scale."
        )
        poster = max(
            set(frames.tolist()),
            key=lambda i: (
                self.moved.get(i, 0),
                stills[i].code == STATE[COMPUTE],
                stills[i].cycles,
            ),
        )
        steps, tiles = (
            counted(self.report.num_steps, "superstep"),
            counted(self.report.target.num_tiles, "tile"),
        )
        return panels.scene(
            "bsp",
            titled(self.report, f"{steps} on {tiles}"),
            self.sentence(),
            foot=26,
            codes=STATES,
            stills=tuple(stills),
            frames=frames,
            table=self.table(
                [k for k in STATE if any(p.kind == k for s in self.steps for p in s.phases)]
            ),
            poster=int(np.flatnonzero(frames == poster)[0]),
        )

    def _frames(self, stills_of: dict[int, list[int]], panels: Panels) -> Array:
        """The still of every phase of the run, in order, up to the last superstep that is shown
        whole."""
        frames: list[int] = []
        whole = 0
        for which in self.report.step_numbers[:MOST_FRAMES].tolist():
            if len(frames) + len(stills_of.get(which, ())) > MOST_FRAMES:
                break
            frames += stills_of.get(which, ())
            whole += 1
        panels.first(whole, self.report.num_steps, "supersteps")
        return np.array(frames, np.int64)

    def _put(self, panels: Panels) -> None:
        """The tiles, what flies between them, their lanes and the strip."""
        cells, heading = (
            np.arange(self.count),
            "the superstep, slowest first" + ", IPU by IPU" * self.several,
        )
        panels.put(grid("tiles", self.report.target, SIDE, each_ipu=self.per_ipu, key=cells))
        panels.marks.append(Flows("messages", "tiles"))
        if self.is_sorted:
            lanes = Lanes("lanes", heading, count=self.lanes, ends=self.ends)
        else:
            lanes = Lanes("lanes", "the superstep, tile by tile", count=self.lanes, key=cells)
        panels.put(lanes, left=LANES_X, high=SIDE)
        if self.host:
            panels.below(6)
            panels.put(
                Lanes("host", count=1, labels=("host",), say="the host"), left=LANES_X, high=16
            )
        panels.below(24 if self.host else 22)
        panels.put(Track(), high=22)

    def _stills(self, step: _Step, drawing: int, first: int) -> list[Still]:
        found, start = [], 0.0
        own = self.own(step.part.ipu)
        for place, phase in enumerate(step.phases):
            code, values = STATE[phase.kind], dict[str, Array]()
            messages: tuple[Message, ...] = ()
            say, note = f"{self.one} {{i}}: {phase.kind}", ""
            channel: tuple[int | Array, float | Array, int] = (code, phase.cycles, code)
            about: dict[str, tuple[str, dict[str, Array]]] = {}
            at = 1.0
            if phase.busy is not None:
                values["busy"] = self._longest(phase.busy)
                told = ", {busy} modelled cycles" + (
                    ", then waits {-busy}" if own.all() else f" in what IPU {step.part.ipu} does"
                )
                say += told
                note = waited_for(phase, own)
                channel = (code, values["busy"], WAIT)
                if self.is_sorted:
                    lane = "lane {i} of the sorted tiles: " + f"{phase.kind}{told}"
                    about["lanes"] = (lane, {"busy": self.in_lanes(phase.busy)})
            if phase.exchange >= 0:
                traffic = step.exchange[phase.exchange]
                values |= {
                    "received": self._sum(traffic.received * own),
                    "sent": self._sum(traffic.sent * own),
                }
                say += "; receives {received} bytes, sends {sent}"
                messages, how = self._messages(step.transfers[phase.exchange], values["busy"], own)
                total = int(values["received"].sum())
                note = f"{total:,} bytes arrive; {how}; {note}"
                if messages:  # a picture of it is taken while all that take part are at it
                    at = int(values["busy"][values["busy"] > 0].min()) / 2 / phase.cycles
                    self.moved[first + place] = total
            if not own.all():  # other IPUs are at other things meanwhile
                here = self._longest(own.astype(np.int64)) > 0
                channel = (
                    np.where(here, code, REST),
                    np.where(here, channel[1], phase.cycles),
                    WAIT,
                )
                say += f" of IPU {step.part.ipu}" * (phase.busy is None)
            name, drawn = (
                f"{phase.kind}: {step.name}" if step.name else phase.kind,
                ("lanes", "host")[: 1 + self.host],
            )
            lanes = {
                group: (drawing + k, start, start + phase.cycles) for k, group in enumerate(drawn)
            }
            flows = {"messages": messages} if messages else {}
            still = Still(
                name,
                note,
                code,
                phase.cycles,
                place == 0,
                {"tiles": channel},
                lanes,
                flows,
                values,
                say,
                at=at,
                about=about,
            )
            found.append(still)
            start += phase.cycles
        return found

    def own(self, ipu: int | None) -> Array:
        """bool[tiles]: those of an IPU, or of all."""
        target = self.report.target
        return (
            np.arange(target.num_tiles) // target.tiles_per_ipu == ipu
            if ipu is not None
            else np.ones(target.num_tiles, bool)
        )

    def drawing(self, step: _Step) -> Drawing:
        """The phases of a superstep, lane by lane."""
        alone = Segment((step.part,), (step.part.cycles,) * self.report.target.num_ipus)
        return self.by_tile.drawing(self.report, alone, STATE, WAIT)

    def in_lanes(self, per_tile: Array) -> Array:
        """int64[lanes]: of each tile, or of many the quantiles."""
        return self.by_tile.of(per_tile)

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
        if not own.all():
            kept = np.flatnonzero(own[transfers.source])
            receivers = tuple(transfers.receivers[i] for i in kept.tolist())
            transfers = Transfers(transfers.source[kept], transfers.size[kept], receivers)
        sent: dict[tuple[int, bytes], int] = {}
        for source, size, to in zip(
            transfers.source.tolist(), transfers.size.tolist(), transfers.receivers, strict=True
        ):
            here, there = int(self.cell[source]), np.unique(self.cell[to])
            there = there[there != here]
            if len(there):
                key = (here, there.tobytes())
                sent[key] = sent.get(key, 0) + size
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
        slowest = int(np.argmax(busy))
        its = [m for m in messages if slowest == m.source or slowest in m.receivers]
        its = sorted(its, key=lambda m: -m.size)[:MOST_OF_ONE]
        return tuple(its), f"{how}; drawn are {len(its):,} of {self.one} {slowest}"

    def sentence(self) -> str:
        """What the run takes, phase by phase, and the tile that is waited for longest."""
        report = self.report
        total, target = report.total_cycles, report.target
        if self.several:
            return (
                f"A run of {counted(report.num_steps, 'superstep')} on "
                f"{counted(target.num_tiles, 'tile')} of {target.num_ipus} IPUs, {number(total)} "
                f"modelled cycles. {ipus_at_work(report)}"
            )
        spent: dict[str, float] = {}
        for step in self.steps:
            for phase in step.phases:
                spent[phase.kind] = spent.get(phase.kind, 0.0) + step.runs * phase.cycles
        shares = ", ".join(f"{kind} {100 * cycles / total:.1f} %" for kind, cycles in spent.items())
        computing = [s for s in self.steps if any(p.kind == COMPUTE for p in s.phases)]
        worst = ""
        if computing:
            step = max(computing, key=lambda s: s.cycles)
            phase = next(p for p in step.phases if p.kind == COMPUTE)
            worst = f" The longest that computes is {step.name}: {waited_for(phase)}."
        return (
            f"A run of {counted(report.num_steps, 'superstep')} on "
            f"{counted(target.num_tiles, 'tile')}, {number(total)} modelled cycles: "
            f"{shares}.{worst}"
        )

    def table(self, kinds: list[str]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Every step, with its cycles in phases of these kinds."""
        rows = []
        for step in self.steps:
            cycles = [sum(p.cycles for p in step.phases if p.kind == k) for k in kinds]
            compute = [p for p in step.phases if p.kind == COMPUTE]
            slowest = (
                f"{int(np.argmax(compute[0].busy))}"
                if compute and compute[0].busy is not None
                else ""
            )
            bytes_ = sum(int(t.received[self.own(step.part.ipu)].sum()) for t in step.exchange)
            rows.append(
                (
                    step.kind,
                    step.name,
                    f"{step.runs:,}",
                    *map(number, cycles),
                    f"{bytes_:,}",
                    slowest,
                )
            )
        return (
            "kind",
            "name",
            "runs",
            *(f"{k} cycles" for k in kinds),
            "bytes received",
            "slowest tile",
        ), tuple(rows)


def _of_host(step: _Step) -> Drawing:
    """What the host does in a superstep."""
    ends = np.cumsum([p.cycles for p in step.phases])
    bars = [
        Bar(STATE[HOST], float(e - p.cycles), p.cycles, float(e))
        for p, e in zip(step.phases, ends, strict=True)
        if p.kind == HOST
    ]
    return Drawing(float(ends[-1]), tuple(bars), "modelled cycles")
