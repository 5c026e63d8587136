"""The view `streaming`: which row of which remote buffer is on the chip when, and whether its
transfer hides behind other work.

Above, on the axis of modelled time, are loads, other work and stores: a load is hidden if there is
work below it. Then comes a lane for each row, with its transfers, from each load to the last step
that uses it. Below, to scale, are the rows that moved and the memory of the tiles.
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

MOST_STEPS = 3000  # supersteps of the run
MOST_ROWS = 32  # with a lane of their own
LEFT = 150.0
PITCH = 15.0
HELD = palette.FILL[2].lettered("T", "what the tiles hold")
MOVING = STATES.index(palette.STREAMING)
WAITING = STATES.index(palette.WAIT)


def streaming(given: Report | Recording) -> View:
    """How much of the transfers with streaming memory is hidden behind work?

    The view shows loads, work and stores of a run on the axis of modelled time, and which rows of
    its remote buffers are on the chip when. A transfer occupies its whole superstep, with sync and
    exchange, so that it is longer than `report.streaming_cycles`, the link's own. Up to 3,000
    supersteps are shown, fewer if the scene would be larger than 150 kB, and the first 32 rows; the
    view says so, and its table has all rows.

    Raises `InvalidOptionError` if the argument is not a report and no recording, and for a run
    without a remote buffer.
    """
    report = checked(given.report if isinstance(given, Recording) else given, "streaming")
    if not report.streaming_bytes:
        raise InvalidOptionError("""show.streaming() was given a run in which nothing goes to or
            from streaming memory.
            next:  copy from or to a remote buffer, made with graph.add_remote_buffer;
            show.host(report) shows the host's streams.""")
    return fitting(partial(_scene, _Run(report, MOST_STEPS)), MOST_STEPS)


def merged(pieces: Iterable[tuple[int, int]]) -> Array:
    """Return int64[n, 2]: the (begin, end) of the stretches of time that some stretches cover
    together, in order."""
    intervals: list[list[int]] = []
    for begin, end in sorted(pieces):
        if intervals and begin <= intervals[-1][1]:
            intervals[-1][1] = max(end, intervals[-1][1])
        elif end > begin:
            intervals.append([begin, end])
    return np.array(intervals, np.int64).reshape(-1, 2)


class _Run:
    """The times at which the first supersteps of a run move rows, and the work beside the
    transfers."""

    def __init__(self, report: Report, max_pieces: int) -> None:
        self.report = report
        self.spans: dict[
            int, tuple[int, int]
        ] = {}  # the begin and end of each superstep that moves rows
        self.lanes: dict[str, list[tuple[int, int]]] = {"loads": [], "stores": []}
        work: dict[int, list[tuple[int, int]]] = defaultdict(list)  # intervals by code
        code = cache(lambda step, ipu_of_step: state_of(report.phases(step, ipu_of_step)))
        self.ends = np.zeros(min(max_pieces, len(report.step_numbers)), np.int64)
        for step in report.steps_between(0, max_pieces):
            self.ends[step.index] = step.end
            lane = self.lanes["loads" if report.profile.steps[step.step].to_device else "stores"]
            for ipu_of_step, start in step.shares:
                end = start + int(report.overlap.lasts[step.step, ipu_of_step or 0])
                if step.cost.streaming:
                    lane.append((start, end))
                    first, last = self.spans.get(step.index, (start, end))
                    self.spans[step.index] = min(start, first), max(end, last)
                else:
                    work[code(step.step, ipu_of_step)].append((start, end))
        self.total = int(self.ends.max(initial=0))
        self.work = {code: merged(pieces) for code, pieces in work.items()}
        moving, working = (
            merged(pieces)
            for pieces in (self.lanes["loads"] + self.lanes["stores"], sum(work.values(), []))
        )
        edges = np.unique(np.concatenate((moving, working, [[0, self.total]])))
        moves, works = (
            np.searchsorted(p.ravel(), edges[:-1], "right") % 2 == 1 for p in (moving, working)
        )
        self.moving = int(np.diff(moving).sum())
        self.bare = np.stack((edges[:-1], edges[1:]), 1)[moves & ~works]  # all wait for a transfer
        self._edges = edges
        hidden = np.diff(edges) * (moves & works)
        self._hidden = np.append(0, np.cumsum(hidden))  # up to each edge
        self.hidden = int(self._hidden[-1])
        self.rows: dict[tuple[str, int], list[Piece]] = {}
        # for each row: loads, stores, its bytes, modelled cycles of its transfers, and those hidden
        self.sums: dict[tuple[str, int], list[int]] = {}
        self.moves = [move for move in report.row_moves if move.index in self.spans]
        self.buffers = list(dict.fromkeys(move.what.buffer for move in self.moves))
        self._find_rows()

    def _find_rows(self) -> None:
        """The pieces of each row: its transfers, and from a load until its variable is needed no
        more, or loaded anew."""
        order = self.report.step_numbers[: len(self.ends)]
        memory = self.report.memory
        steps = np.array([node.step for node in memory.liveness.places])
        needed: dict[int, Array] = {}  # by variable, bool[steps]: at which it is live
        again: dict[int, int] = {}  # by variable: the superstep that loads it next
        for move in reversed(self.moves):
            begin, end = self.spans[move.index]
            sentence_head = move.what
            if sentence_head.variable not in needed:
                always = memory.liveness.always[sentence_head.variable]
                live = needed[sentence_head.variable] = np.full(
                    len(self.report.profile.steps), always
                )
                live[steps[memory.liveness.live[:, sentence_head.variable]]] = True
            later = needed[sentence_head.variable][
                order[move.index + 1 : again.get(sentence_head.variable)]
            ]
            uses = len(later) if later.all() else int(np.argmin(later))
            until = int(self.ends[move.index + uses])
            code = len(STATES) + self.buffers.index(sentence_head.buffer) % len(NESTED)
            hidden = round(float(np.diff(np.interp((begin, end), self._edges, self._hidden))[0]))
            for row in move.rows:
                pieces = [(MOVING, begin, end - begin)]
                pieces += [(code, end, until - end)] if move.loads and until > end else []
                self.rows.setdefault((sentence_head.buffer, row), [])[:0] = pieces
                sums = self.sums.setdefault((sentence_head.buffer, row), [0] * 5)
                load_facts = int(move.loads), int(not move.loads), 0, end - begin, hidden
                sums[:] = [a + b for a, b in zip(sums, load_facts, strict=True)]
                sums[2] = sentence_head.bytes // sentence_head.rows
            again |= {sentence_head.variable: move.index} if move.loads else {}

    @property
    def bytes(self) -> int:
        """The bytes of all rows that move, each counted once."""
        return sum(sums[2] for sums in self.sums.values())

    def sentence(self) -> str:
        """Return a sentence with the share of the run that is transfer, and the share of that
        which is hidden."""
        moving = self.moving
        total = self.total
        sentence_head = "Rows of streaming memory move"
        if self.rows:
            rows = counted(len(self.rows), "row")
            buffers = counted(len(self.buffers), "buffer")
            sentence_head = (
                f"{rows} of {buffers} move, {counted(self.bytes, 'byte')} of streaming memory"
            )
        best = max(total - moving + self.hidden, moving)
        return (
            f"{sentence_head}: {100 * moving / total:.1f} % of {number(total)} modelled cycles is "
            "transfer, "
            f"of which {100 * self.hidden / moving:.1f} % is hidden behind work; with all of it "
            f"hidden that can be, the run would take {100 * best / total:.1f} % of its time."
        )


def put_lanes(
    panels: Panels, name: str, heading: str, rows: Mapping[str, list[Piece]], span: int, unit: str
) -> None:
    """Put lanes by their labels, with their pieces; the length in their texts leaves waiting
    out."""
    say = f"{{label}}: {{long}} {unit}"
    panels.lanes_of(
        name, heading, rows, span, unit, left=LEFT, pitch=PITCH, say=say, without=WAITING
    )


def _scene(run: _Run, max_pieces: int) -> Scene:
    report = run.report
    panels = Panels()
    count = len(run.report.step_numbers)
    panels.first(min(max_pieces, len(run.ends)), count, "supersteps")
    shown = int(run.ends[:max_pieces].max())

    def cut(pieces: Iterable[Piece]) -> list[Piece]:
        return [(c, a, min(long, shown - a)) for c, a, long in pieces if a < shown]

    def of(code: int, pieces: Iterable[tuple[int, int]]) -> list[Piece]:
        return [(code, int(a), int(b - a)) for a, b in pieces]

    work = [piece for code, pieces in run.work.items() for piece in of(code, pieces)]
    lanes = {
        "loads": cut(of(MOVING, merged(run.lanes["loads"]))),
        "work": cut([*work, *of(WAITING, run.bare)]),
        "stores": cut(of(MOVING, merged(run.lanes["stores"]))),
    }
    heading = "what runs at once; grey: all wait"
    put_lanes(panels, "lanes", heading, lanes, span=shown, unit="modelled cycles")
    rows = {f"{label(b, 16)}, row {r:,}": cut(run.rows[b, r]) for b, r in sorted(run.rows)}
    if rows:
        few = dict(list(rows.items())[:MOST_ROWS])
        panels.first(len(few), len(rows), "rows", "Lanes have")
        heading = "rows on the chip, from load to last use"
        put_lanes(panels, "rows", heading, few, span=shown, unit="modelled cycles")
    else:
        panels.notes.append("Which rows these were is not known: the report's file is older.")
    colours = [
        replace(
            NESTED[i % len(NESTED)], name=f"row of {label(b, 24)} on the chip", letter=f"{i + 1}"
        )
        for i, b in enumerate(run.buffers[: len(NESTED)])
    ]
    num_codes = len(STATES) + len(colours)
    off = run.bytes or report.streaming_bytes
    on = int(report.memory.bytes_per_tile.sum())
    limit = report.target.bytes_per_tile * report.target.num_tiles
    sizes = {"rows that moved": [(MOVING, 0, off)], tiles_of(report): [(num_codes, 0, on)]}
    heading = f"bytes, to scale: the tiles have {limit:,}"
    put_lanes(panels, "bytes", heading, sizes, span=max(off, limit), unit="bytes")
    still = Still("the whole run", run.sentence(), MOVING, 0, first=True, lanes=panels.lanes)
    heads = ("buffer", "row", "loads", "stores", "bytes", "modelled cycles", "hidden cycles")
    return panels.scene(
        "streaming",
        f"{100 * run.moving / run.total:.1f} % of the run is transfer; "
        f"{100 * run.hidden / run.moving:.1f} % of that is hidden behind work",
        run.sentence(),
        foot=12,
        codes=(*STATES, *colours, HELD),
        stills=(still,),
        table=(
            heads,
            tuple((b, f"{r:,}", *(f"{n:,}" for n in run.sums[b, r])) for b, r in sorted(run.sums)),
        ),
    )
