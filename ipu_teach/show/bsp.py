"""The view `bsp`: a run as supersteps. Every tile syncs, exchanges and computes; the slowest decides when all go on.

On the left the tiles, on the right a lane for each of them with what it does in the current superstep and how long it
waits, below the whole run. Messages are the run's own transfers: one arrow for each sender and set of receivers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_teach.cost.exchange import Traffic
from ipu_teach.cost.phases import COMPUTE, EXCHANGE, HOST, LINKS, SYNC, Phase
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Report
from ipu_teach.show import palette
from ipu_teach.show.facts import checked
from ipu_teach.show.scene import (
    GAP,
    Bar,
    Cells,
    Drawing,
    Flows,
    Lanes,
    Message,
    Scene,
    Still,
    Track,
    label,
    number,
)
from ipu_teach.show.view import View
from ipu_teach.types import Array

CODES = (palette.REST, palette.SYNC, palette.WAIT, palette.EXCHANGE, palette.COMPUTE, palette.LINKS, palette.HOST)
WAIT = CODES.index(palette.WAIT)
CODE = {kind: [c.name for c in CODES].index(kind) for kind in (SYNC, EXCHANGE, COMPUTE, LINKS, HOST)}

MOST_CELLS = 4096  # more tiles are drawn several to a cell
MOST_FRAMES = 3000  # of a run
MOST_BYTES = 150_000  # of a scene
MOST_MESSAGES = 48  # of one exchange, drawn one by one
SIDE = 264.0  # of the square that holds the tiles
LANES_X = 340.0


def bsp(report: Report) -> View:
    """The run in `report` as an animation of its supersteps. Every number in it is modelled.

    A run of more than 3,000 phases is shown up to there, a machine of more than 4,096 tiles with several tiles to a cell,
    and so is one whose scene would be larger than 150 kB; the view says so. Raises `InvalidOptionError` for something that
    is no report or has no step in it.
    """
    checked(report, "bsp")
    each = -(-report.target.num_tiles // MOST_CELLS)
    numbers, runs = np.unique(report.step_numbers, return_counts=True)
    steps = {n: _step(report, n, r) for n, r in zip(numbers.tolist(), runs.tolist(), strict=True)}
    while True:
        scene = _Maker(report, steps, each).scene()
        if len(scene.json()) <= MOST_BYTES or each >= report.target.tiles_per_ipu:
            return View(scene)
        each *= 2


@dataclass(frozen=True, eq=False)
class _Step:
    """One compiled step that ran: its phases, its exchanges and their messages, and how often it ran."""

    name: str
    kind: str
    phases: tuple[Phase, ...]
    exchange: tuple[Traffic, ...]
    transfers: tuple[Transfers, ...]
    cycles: float
    runs: int


def _step(report: Report, number: int, runs: int) -> _Step:
    cost = report.step_cost(number)
    name = label(cost.name, 48)
    return _Step(name, cost.kind, report.phases(number), cost.exchange, report.transfers(number), cost.cycles, runs)


class _Maker:
    """Makes the scene, with `each` tiles to a cell."""

    def __init__(self, report: Report, steps: dict[int, _Step], each: int) -> None:
        self.report, self.steps, self.each = report, steps, each
        target = report.target
        self.per_ipu = -(-target.tiles_per_ipu // each)
        self.count = self.per_ipu * target.num_ipus
        tiles = np.arange(target.num_tiles)
        self.cell = tiles // target.tiles_per_ipu * self.per_ipu + tiles % target.tiles_per_ipu // each
        self.one = "tile" if each == 1 else f"group of {each} tiles"

    def scene(self) -> Scene:
        stills: list[Still] = []
        drawings: list[Drawing] = []
        stills_of: dict[int, list[int]] = {}
        for which, step in self.steps.items():
            if step.phases:
                stills_of[which] = list(range(len(stills), len(stills) + len(step.phases)))
                stills += self._stills(step, len(drawings))
                drawings.append(self._drawing(step))
        if not stills:
            raise InvalidOptionError("""show.bsp() was given a run that takes no modelled time.
                next:  run a program that copies or computes.""")
        frames, notes = self._frames(stills_of)
        if self.each > 1:
            notes.append(f"A cell stands for up to {self.each} tiles: their longest time, and the sum of their bytes.")
        if any("together" in still.note for still in stills):
            notes.append(f"Of more than {MOST_MESSAGES} messages at once, those between the same regions are drawn as one.")
        poster = max(set(frames.tolist()), key=lambda i: (stills[i].code == CODE[COMPUTE], stills[i].cycles))
        return Scene(
            "bsp",
            f"{counted(self.report.num_steps, 'superstep')} on {counted(self.report.target.num_tiles, 'tile')}",
            self._sentence(),
            SIDE + 104,
            CODES,
            self._marks(),
            tuple(stills),
            frames,
            self._table(),
            tuple(drawings),
            int(np.flatnonzero(frames == poster)[0]),
            tuple(notes),
        )

    def _frames(self, stills_of: dict[int, list[int]]) -> tuple[Array, list[str]]:
        """(the still of every phase of the run, in order, up to the last superstep that is shown whole; what was left out)."""
        frames: list[int] = []
        whole = 0
        for which in self.report.step_numbers[:MOST_FRAMES].tolist():
            if len(frames) + len(stills_of.get(which, ())) > MOST_FRAMES:
                break
            frames += stills_of.get(which, ())
            whole += 1
        left = whole < self.report.num_steps
        notes = [f"The picture shows the first {whole:,} of {self.report.num_steps:,} supersteps."] if left else []
        return np.array(frames, np.int64), notes

    def _marks(self) -> tuple[Cells | Lanes | Flows | Track, ...]:
        target = self.report.target
        across, columns = int(np.ceil(np.sqrt(target.num_ipus))), int(np.ceil(np.sqrt(self.per_ipu)))
        side = round(SIDE / (across * columns + GAP * (across - 1)), 3)
        heading = counted(target.num_tiles, "tile") + (f" on {target.num_ipus} IPUs" if target.num_ipus > 1 else "")
        key = np.arange(self.count)
        return (
            Cells("tiles", heading, 16, 34, side, columns, self.count, self.per_ipu, across, key),
            Flows("messages", "tiles"),
            Lanes("lanes", f"the superstep, {self.one} by {self.one}", LANES_X, 34, 704 - LANES_X, SIDE, self.count, key),
            Track(16, SIDE + 56, 688, 22),
        )

    def _stills(self, step: _Step, drawing: int) -> list[Still]:
        found, start = [], 0.0
        for place, phase in enumerate(step.phases):
            code, values = CODE[phase.kind], dict[str, Array]()
            messages: tuple[Message, ...] = ()
            say, note = f"{self.one} {{i}}: {phase.kind}", ""
            channel: tuple[int, float | Array, int] = (code, phase.cycles, code)
            if phase.busy is not None:
                values["busy"] = self._longest(phase.busy)
                say += ", {busy} modelled cycles, then waits {-busy}"
                note = _slowest(phase)
                channel = (code, values["busy"], WAIT)
            if phase.exchange >= 0:
                traffic = step.exchange[phase.exchange]
                values |= {"received": self._sum(traffic.received), "sent": self._sum(traffic.sent)}
                say += "; receives {received} bytes, sends {sent}"
                messages, how = self._messages(step.transfers[phase.exchange])
                note = f"{traffic.total:,} bytes arrive; {how}; {note}"
            found.append(
                Still(
                    f"{phase.kind}: {step.name}" if step.name else phase.kind,
                    note,
                    code,
                    phase.cycles,
                    place == 0,
                    {"tiles": channel},
                    {"lanes": (drawing, start, start + phase.cycles)},
                    {"messages": messages} if messages else {},
                    values,
                    say,
                )
            )
            start += phase.cycles
        return found

    def _drawing(self, step: _Step) -> Drawing:
        bars, start = [], 0.0
        for phase in step.phases:
            end = start + phase.cycles
            length = phase.cycles if phase.busy is None else self._longest(phase.busy)
            bars.append(Bar(CODE[phase.kind], start, length, end, -1 if phase.busy is None else WAIT))
            start = end
        return Drawing(start, tuple(bars), "modelled cycles")

    def _longest(self, per_tile: Array) -> Array:
        """int64[cells]: of each cell the longest time of its tiles."""
        found = np.zeros(self.count, np.int64)
        np.maximum.at(found, self.cell, per_tile)
        return found

    def _sum(self, per_tile: Array) -> Array:
        return np.bincount(self.cell, per_tile, self.count).astype(np.int64)

    def _messages(self, transfers: Transfers) -> tuple[tuple[Message, ...], str]:
        """(the messages between cells, what they are in words). Too many are drawn as one between each two regions."""
        sent: dict[tuple[int, bytes], int] = {}
        region = self.cell if len(transfers) <= MOST_MESSAGES else self._regions()
        for source, size, to in zip(transfers.source.tolist(), transfers.size.tolist(), transfers.receivers, strict=True):
            here, there = int(region[source]), np.unique(region[to])
            there = there[there != here]
            if len(there):
                key = (here, there.tobytes())
                sent[key] = sent.get(key, 0) + size
        if len(sent) > MOST_MESSAGES:  # the largest ones
            sent = dict(sorted(sent.items(), key=lambda item: -item[1])[:MOST_MESSAGES])
        messages = tuple(Message(here, np.frombuffer(to, np.int64), size) for (here, to), size in sent.items())
        many = sum(len(to) > 1 for to in transfers.receivers)
        how = counted(len(transfers), "message") + (f", {many:,} of them to several tiles" if many else "")
        return messages, how + (", drawn together" if len(transfers) > MOST_MESSAGES else "")

    def _regions(self) -> Array:
        """For each tile the cell in the middle of its region: squares of cells, at most 9 to an IPU."""
        columns = int(np.ceil(np.sqrt(self.per_ipu)))
        ipu, within = self.cell // self.per_ipu, self.cell % self.per_ipu
        width = -(-columns // 3)
        column = np.minimum(within % columns // width * width + width // 2, columns - 1)
        row = within // columns // width * width + width // 2
        middle = np.minimum(row * columns + column, self.per_ipu - 1)
        found: Array = ipu * self.per_ipu + middle
        return found

    def _sentence(self) -> str:
        report = self.report
        total, target = report.total_cycles, report.target
        spent: dict[str, float] = {}
        for step in self.steps.values():
            for phase in step.phases:
                spent[phase.kind] = spent.get(phase.kind, 0.0) + step.runs * phase.cycles
        shares = ", ".join(f"{kind} {100 * cycles / total:.1f} %" for kind, cycles in spent.items())
        computing = [s for s in self.steps.values() if any(p.kind == COMPUTE for p in s.phases)]
        worst = ""
        if computing:
            step = max(computing, key=lambda s: s.cycles)
            phase = next(p for p in step.phases if p.kind == COMPUTE)
            worst = f" The longest that computes is {step.name}: {_slowest(phase)}."
        return (
            f"A run of {counted(report.num_steps, 'superstep')} on {counted(target.num_tiles, 'tile')}, "
            f"{number(total)} modelled cycles: {shares}.{worst}"
        )

    def _table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        kinds = [k for k in CODE if any(p.kind == k for s in self.steps.values() for p in s.phases)]
        rows = []
        for step in self.steps.values():
            cycles = [sum(p.cycles for p in step.phases if p.kind == k) for k in kinds]
            compute = [p for p in step.phases if p.kind == COMPUTE]
            slowest = f"{int(np.argmax(compute[0].busy))}" if compute and compute[0].busy is not None else ""
            bytes_ = sum(t.total for t in step.exchange)
            rows.append((step.kind, step.name, f"{step.runs:,}", *map(number, cycles), f"{bytes_:,}", slowest))
        return ("kind", "name", "runs", *(f"{k} cycles" for k in kinds), "bytes received", "slowest tile"), tuple(rows)


def _slowest(phase: Phase) -> str:
    """Which tile a phase waits for, and what share of the tiles' time is waiting."""
    assert phase.busy is not None
    tile, waiting = int(np.argmax(phase.busy)), 1 - float(phase.busy.mean()) / phase.cycles
    if waiting < 0.0005:
        return "all tiles are equally fast"
    share = f"{100 * waiting:.1f} % of the tiles' time is waiting"
    return f"tile {tile} is the slowest, {number(phase.cycles)} modelled cycles; {share}"
