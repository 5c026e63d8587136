"""The stills of the view `bsp`: the work of the tiles in a phase, or in a part of a phase."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ipu_teach.show.bsp_cells import CellGrid
from ipu_teach.show.bsp_phases import Phases
from ipu_teach.show.palette import STATE
from ipu_teach.show.report_facts import (
    waited_for,
)
from ipu_teach.show.scene import (
    Message,
    Still,
    number,
)
from ipu_teach.show.segments import (
    WAIT,
    Segment,
    Span,
    listed_names,
)
from ipu_teach.types import Array

MOST_TOLD = 16  # The maximum number of groups of IPUs that a note lists.


@dataclass
class _Channels:
    """The fields of a `Still` that depend on the work of the tiles.

    `cells` becomes the entry "tiles" of `Still.cells`, and `messages` becomes the entry "messages"
    of `Still.flows`. The other fields have the same names in `Still`.
    """

    cells: tuple[int | Array, float | Array, int]
    say: str
    note: str = ""
    values: dict[str, Array] = field(default_factory=dict)
    about: dict[str, tuple[str, dict[str, Array]]] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)


class Stills:
    """A builder of the stills of a run's stretches.

    A stretch consists of the consecutive supersteps between two points at which all IPUs wait for
    each other.
    """

    def __init__(self, phases: Phases, cells: CellGrid, lanes: tuple[str, ...]) -> None:
        self.report = phases.report
        self.phases = phases
        self.cells = cells
        # `lanes[k]` is the name of the mark that shows drawing k of a stretch.
        self.lanes = lanes

    def of(self, stretch: Segment, drawing: int) -> list[Still]:
        """Return a still for each frame of a stretch.

        On one IPU, or where all IPUs work together, a frame is a phase. `drawing` is the index, in
        `Scene.drawings`, of the first drawing of the stretch.
        """
        stills = []
        for begin, end in pairwise(self.phases.edges(stretch)):
            stills.append(self._still(stretch, begin, end, drawing))
        return stills

    def _still(self, stretch: Segment, begin: int, end: int, drawing: int) -> Still:
        """Return the still for the part of a stretch from cycle `begin` to cycle `end`.

        Tiles that are in no phase wait. `drawing` is the index, in `Scene.drawings`, of the first
        drawing of the stretch.
        """
        active = self.phases.active(stretch, begin)
        main = self.phases.main(stretch, begin)
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
        # A picture that does not move shows the moment when all senders and receivers are at work.
        if channels.messages:
            busy = channels.values["busy"]
            at = int(busy[busy > 0].min()) / 2 / cycles
        note = channels.note
        if is_partial:
            note = "; ".join(filter(None, (self._meanwhile(active), note)))
            if cycles < phase.cycles:
                note += f". This is a part of that phase, which takes {number(phase.cycles)} cycles"
        _, name = self.phases.named(main.part)
        return Still(
            label=f"{phase.kind}: {name}" if name else phase.kind,
            note=note,
            code=STATE[phase.kind],
            cycles=cycles,
            first=begin == 0,
            cells={"tiles": channels.cells},
            lanes={mark: (drawing + k, begin, end) for k, mark in enumerate(self.lanes)},
            flows={"messages": tuple(channels.messages)} if channels.messages else {},
            values=channels.values,
            say=channels.say,
            at=at,
            about=channels.about,
        )

    def _channels(self, active: list[Span], main: Span, begin: int, cycles: int) -> _Channels:
        """Return the state of each cell, and how long it is busy, in a part of a stretch.

        The part has `cycles` cycles and begins at cycle `begin`. `active` are the phases in
        progress, and `main` is the phase that the still is about.
        """
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
            return _Channels((code, cycles, code), f"{self.cells.cell_name} {{i}}: {kind}")
        busy = self.cells.longest(busy_tiles)
        state: int | Array = code
        if is_partial:
            state = codes[np.unique(self.cells.cell, return_index=True)[1]]
            kind = "at work"
        text = f"{kind}, {{busy}} modelled cycles, then waits {{-busy}}"
        channels = _Channels(
            (state, busy, WAIT), f"{self.cells.cell_name} {{i}}: {text}", values={"busy": busy}
        )
        if self.phases.is_sorted:
            say = f"lane {{i}} of the sorted tiles: {text}"
            channels.about["lanes"] = (say, {"busy": self.phases.by_tile.of(busy_tiles)})
        return channels

    def _add_exchange(self, channels: _Channels, span: Span, is_main: bool) -> None:
        """Add the messages of an exchange to `channels`, and the bytes that each cell transfers.

        `is_main` is whether the still is about this exchange.
        """
        step = span.part.step
        number = span.phase.exchange
        traffic = self.report.step_cost(step).exchange[number]
        values = channels.values
        for name, per_tile in (("received", traffic.received), ("sent", traffic.sent)):
            values[name] = values.get(name, 0) + self.cells.sum(per_tile * span.tiles)
        transfers = self.report.transfers(step)[number]
        drawn, summary = self.cells.messages(transfers, values["busy"], span.tiles)
        channels.messages += drawn
        if is_main:
            arriving = int(traffic.received[span.tiles].sum())
            channels.note = f"{arriving:,} bytes arrive; {summary}; {channels.note}"
        suffix = "; receives {received} bytes, sends {sent}"
        if not channels.say.endswith(suffix):
            channels.say += suffix

    def _meanwhile(self, active: list[Span]) -> str:
        """Describe the work of each IPU, based on the phases that are in progress."""
        names = self.report.target.sets
        set_of_tile = self.report.target.set_of(np.arange(self.report.target.num_tiles))
        # Maps each description of work to the IPUs that do this work.
        ipus_of: dict[str, list[int]] = {}
        for span in active:
            work = f"{span.phase.kind} of {self.phases.name(span.part)}"
            ipus_of.setdefault(work, []).extend(np.unique(set_of_tile[span.tiles]).tolist())
        working = sorted(ipu for ipus in ipus_of.values() for ipu in ipus)
        texts = []
        if len(active) == 1 and len(working) == 1:
            ipus_of.clear()  # The label of the frame already contains this work.
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
