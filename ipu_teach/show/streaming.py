"""The view `streaming`: when are transfers hidden behind work, and which rows are on the chip?

The upper lanes show loads, other work and stores on an axis of modelled time. A load is hidden
while there is work in the lane below it. Further down, each row of a remote buffer has a lane with
its transfers, and with the time from each load to the last step that uses the row. The lowest lanes
compare the bytes of the rows that moved with the memory of the tiles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial

import numpy as np

from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Recording, Report
from ipu_teach.show import palette
from ipu_teach.show.palette import NESTED, STATES
from ipu_teach.show.panels import Panels, Piece
from ipu_teach.show.report_facts import checked, state_of, tiles_of
from ipu_teach.show.scene import Scene, Still, label, number
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

MOST_STEPS = 3000  # The maximum number of supersteps that are shown.
MOST_ROWS = 32  # The maximum number of rows that have a lane.
LEFT = 150.0
PITCH = 15.0
HELD = palette.FILL[2].lettered("T", "what the tiles hold")
MOVING = STATES.index(palette.STREAMING)
WAITING = STATES.index(palette.WAIT)


def streaming(given: Report | Recording) -> View:
    """How much of the transfers to and from streaming memory is hidden behind work?

    The view shows the loads, the work and the stores of a run on an axis of modelled time, and when
    each row of its remote buffers is on the chip. A transfer includes its whole superstep, with
    sync and exchange, so it takes longer than the link itself, whose cycles are
    `report.streaming_cycles`. At most 3,000 supersteps and 32 rows are drawn, and fewer supersteps
    if the scene would be larger than 150 kB. If there are more, a note below the picture says so.
    The table has all rows.

    :raises InvalidOptionError: if the argument is neither a report nor a recording, or if nothing
        was copied to or from streaming memory.
    """
    report = checked(given.report if isinstance(given, Recording) else given, "streaming")
    if not report.streaming_bytes:
        raise InvalidOptionError("""show.streaming() was given a run without transfers to or from
            streaming memory.
            next:  copy to or from a remote buffer, which graph.add_remote_buffer creates;
            show.host(report) shows the streams of the host.""")
    return fitting(partial(_scene, _Run(report, MOST_STEPS)), MOST_STEPS)


def merged(intervals: Iterable[tuple[int, int]]) -> Array:
    """Return int64[n, 2]: the union of intervals, as sorted (begin, end) pairs."""
    union: list[list[int]] = []
    for begin, end in sorted(intervals):
        if union and begin <= union[-1][1]:
            union[-1][1] = max(end, union[-1][1])
        elif end > begin:
            union.append([begin, end])
    return np.array(union, np.int64).reshape(-1, 2)


class _Run:
    """The transfers of rows, and other work, in the first `max_steps` supersteps of a run.

    Times are in modelled cycles from the beginning of the run.

    Attributes:
        spans: for each superstep that moves rows, its begin and end.
        lanes: the intervals of loads and those of stores.
        work: the intervals of other work, by the code of its colour.
        total: the end of the last of these supersteps.
        moving: the number of cycles in which rows move.
        hidden: the part of `moving` in which other work is done.
        working: (begin of the first work, end of the last work), or None without work.
        bare: int64[n, 2]: the intervals in which everything waits for a transfer.
        rows: for each (buffer, row), the bars in the lane of the row, each as (code, start,
            length).
        sums: for each (buffer, row), (loads, stores, bytes, cycles of transfers, hidden cycles).
    """

    def __init__(self, report: Report, max_steps: int) -> None:
        self.report = report
        self.spans: dict[int, tuple[int, int]] = {}
        self.lanes: dict[str, list[tuple[int, int]]] = {"loads": [], "stores": []}
        work: dict[int, list[tuple[int, int]]] = defaultdict(list)
        code = cache(lambda step, ipu: state_of(report.phases(step, ipu)))
        self.ends = np.zeros(min(max_steps, len(report.step_numbers)), np.int64)
        for step in report.steps_between(0, max_steps):
            self.ends[step.index] = step.end
            lane = self.lanes["loads" if report.profile.steps[step.step].to_device else "stores"]
            for ipu, start in step.shares:
                end = start + int(report.overlap.lasts[step.step, ipu or 0])
                if step.cost.streaming:
                    lane.append((start, end))
                    first, last = self.spans.get(step.index, (start, end))
                    self.spans[step.index] = min(start, first), max(end, last)
                else:
                    work[code(step.step, ipu)].append((start, end))
        self.total = int(self.ends.max(initial=0))
        self.work = {code: merged(pieces) for code, pieces in work.items()}
        moving, working = (
            merged(pieces)
            for pieces in (self.lanes["loads"] + self.lanes["stores"], sum(work.values(), []))
        )
        edges = np.unique(np.concatenate((moving, working, [[0, self.total]])))
        is_moving, is_working = (
            np.searchsorted(edges_of.ravel(), edges[:-1], "right") % 2 == 1
            for edges_of in (moving, working)
        )
        self.working = (int(working[0, 0]), int(working[-1, 1])) if len(working) else None
        self.moving = int(np.diff(moving).sum())
        self.bare = np.stack((edges[:-1], edges[1:]), 1)[is_moving & ~is_working]
        self._edges = edges
        hidden = np.diff(edges) * (is_moving & is_working)
        # The cycles, before each edge, in which work hides a transfer.
        self._hidden = np.append(0, np.cumsum(hidden))
        self.hidden = int(self._hidden[-1])
        self.rows: dict[tuple[str, int], list[Piece]] = {}
        self.sums: dict[tuple[str, int], list[int]] = {}
        self.moves = [move for move in report.row_moves if move.index in self.spans]
        self.buffers = list(dict.fromkeys(move.what.buffer for move in self.moves))
        self._find_rows()

    def _find_rows(self) -> None:
        """Find the bars in the lane of each row: its transfers, and its time on the chip.

        A row is on the chip from a load until the last step that needs the variable into which it
        is loaded, or until another row is loaded into that variable.
        """
        order = self.report.step_numbers[: len(self.ends)]
        memory = self.report.memory
        steps = np.array([node.step for node in memory.liveness.places])
        # `is_live` maps a variable to bool[steps]: whether it is live in each step. `next_load`
        # maps a variable to the superstep of the next load into it.
        is_live: dict[int, Array] = {}
        next_load: dict[int, int] = {}
        for move in reversed(self.moves):
            begin, end = self.spans[move.index]
            transfer = move.what
            if transfer.variable not in is_live:
                always = memory.liveness.always[transfer.variable]
                live = is_live[transfer.variable] = np.full(len(self.report.profile.steps), always)
                live[steps[memory.liveness.live[:, transfer.variable]]] = True
            is_needed = is_live[transfer.variable][
                order[move.index + 1 : next_load.get(transfer.variable)]
            ]
            uses = len(is_needed) if is_needed.all() else int(np.argmin(is_needed))
            last_use = int(self.ends[move.index + uses])
            code = len(STATES) + self.buffers.index(transfer.buffer) % len(NESTED)
            hidden = round(float(np.diff(np.interp((begin, end), self._edges, self._hidden))[0]))
            for row in move.rows:
                pieces = [(MOVING, begin, end - begin)]
                pieces += [(code, end, last_use - end)] if move.loads and last_use > end else []
                self.rows.setdefault((transfer.buffer, row), [])[:0] = pieces
                sums = self.sums.setdefault((transfer.buffer, row), [0] * 5)
                figures = int(move.loads), int(not move.loads), 0, end - begin, hidden
                sums[:] = [a + b for a, b in zip(sums, figures, strict=True)]
                sums[2] = transfer.bytes // transfer.rows
            next_load |= {transfer.variable: move.index} if move.loads else {}

    @property
    def bytes(self) -> int:
        """The bytes of all rows that move; each row counts once."""
        return sum(sums[2] for sums in self.sums.values())

    def sentence(self) -> str:
        """Return a sentence: how much of the run is transfers, and how much of these is hidden."""
        moving = self.moving
        total = self.total
        subject = "Rows of streaming memory move"
        if self.rows:
            rows = counted(len(self.rows), "row")
            buffers = counted(len(self.buffers), "buffer")
            subject = f"{rows} of {buffers} move, {counted(self.bytes, 'byte')} of streaming memory"
        # No work hides transfers before the first superstep with work, or after the last one.
        first, last = self.working if self.working else (total, total)
        alone = sum(min(b, first) - a for a, b in self.bare.tolist() if a < first)
        alone += sum(b - max(a, last) for a, b in self.bare.tolist() if b > last)
        best = max(total - moving + self.hidden + alone, moving)
        return (
            f"{subject}: {100 * moving / total:.1f} % of {number(total)} modelled cycles is "
            "transfer, "
            f"{self.hidden_text()}; with all of it hidden, except before the first work and after "
            f"the last, the run would take {100 * best / total:.1f} % of its time."
        )

    def hidden_text(self) -> str:
        """Return a text with the fraction of the transfer time that is hidden behind work."""
        if not self.hidden:
            return "none of it hidden behind work"
        if self.hidden == self.moving:
            return "all of it hidden behind work"
        return f"{100 * self.hidden / self.moving:.1f} % of it hidden behind work"


def put_lanes(
    panels: Panels, name: str, heading: str, rows: Mapping[str, list[Piece]], span: int, unit: str
) -> None:
    """Add a panel of lanes to `panels`.

    `rows` maps the label of each lane to its bars, each given as (code of its colour, start,
    length). The description of a lane contains the total length of its bars, except bars of
    waiting.
    """
    say = f"{{label}}: {{long}} {unit}"
    panels.lanes_of(
        name, heading, rows, span, unit, left=LEFT, pitch=PITCH, say=say, without=WAITING
    )


def _put_bytes(panels: Panels, run: _Run, num_codes: int) -> None:
    """Add two lanes: the bytes of the rows that moved, and the bytes on the tiles.

    `num_codes` is the index of the colour of the bytes on the tiles.
    """
    report = run.report
    bytes_moved = run.bytes or report.streaming_bytes
    bytes_on_tiles = int(report.memory.bytes_per_tile.sum())
    limit = report.target.bytes_per_tile * report.target.num_tiles
    sizes = {
        "rows that moved": [(MOVING, 0, bytes_moved)],
        tiles_of(report): [(num_codes, 0, bytes_on_tiles)],
    }
    heading = f"bytes, to scale: the tiles have {limit:,}"
    put_lanes(panels, "bytes", heading, sizes, span=max(bytes_moved, limit), unit="bytes")


def _scene(run: _Run, max_steps: int) -> Scene:
    panels = Panels()
    count = len(run.report.step_numbers)
    panels.first(min(max_steps, len(run.ends)), count, "supersteps")
    end_shown = int(run.ends[:max_steps].max())

    def cut(pieces: Iterable[Piece]) -> list[Piece]:
        """Return the bars, (code, start, length), cut at the end of the shown part of the run."""
        return [(c, a, min(long, end_shown - a)) for c, a, long in pieces if a < end_shown]

    def pieces_of(code: int, pieces: Iterable[tuple[int, int]]) -> list[Piece]:
        return [(code, int(a), int(b - a)) for a, b in pieces]

    work = [piece for code, pieces in run.work.items() for piece in pieces_of(code, pieces)]
    lanes = {
        "loads": cut(pieces_of(MOVING, merged(run.lanes["loads"]))),
        "work": cut([*work, *pieces_of(WAITING, run.bare)]),
        "stores": cut(pieces_of(MOVING, merged(run.lanes["stores"]))),
    }
    heading = "what runs at once; grey: all wait"
    put_lanes(panels, "lanes", heading, lanes, span=end_shown, unit="modelled cycles")
    rows = {f"{label(b, 16)}, row {r:,}": cut(run.rows[b, r]) for b, r in sorted(run.rows)}
    if rows:
        shown_rows = dict(list(rows.items())[:MOST_ROWS])
        panels.first(len(shown_rows), len(rows), "rows", "Lanes have")
        heading = "rows on the chip, from load to last use"
        put_lanes(panels, "rows", heading, shown_rows, span=end_shown, unit="modelled cycles")
    else:
        panels.notes.append(
            "The report's file has an older format, which does not contain the rows that moved."
        )
    colours = [
        replace(
            NESTED[i % len(NESTED)], name=f"row of {label(b, 24)} on the chip", letter=f"{i + 1}"
        )
        for i, b in enumerate(run.buffers[: len(NESTED)])
    ]
    _put_bytes(panels, run, num_codes=len(STATES) + len(colours))
    still = Still("the whole run", run.sentence(), MOVING, 0, first=True, lanes=panels.lanes)
    heads = ("buffer", "row", "loads", "stores", "bytes", "modelled cycles", "hidden cycles")
    return panels.scene(
        "streaming",
        f"{100 * run.moving / run.total:.1f} % of the run is transfer with streaming memory, "
        f"{run.hidden_text()}",
        run.sentence(),
        foot=12,
        codes=(*STATES, *colours, HELD),
        stills=(still,),
        table=(
            heads,
            tuple((b, f"{r:,}", *(f"{n:,}" for n in run.sums[b, r])) for b, r in sorted(run.sums)),
        ),
    )
