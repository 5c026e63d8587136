"""The view `host`: what goes between host and device, beside what the device does, and what the
host did meanwhile.

Above, on the modelled axis of cycles, the device and a lane for each stream while its bytes cross;
below, in seconds that were measured, the host's runs, transfers and functions. Measured times
differ from run to run, and so does this picture.
"""

from __future__ import annotations

import numpy as np

from ipu_teach.cost.phases import HOST
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import HostEvent, Report
from ipu_teach.report.host_trace import PREFETCH, is_copy, is_run
from ipu_teach.show import palette
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import checked
from ipu_teach.show.scene import Bar, Drawing, Lanes, Scene, Still, label, number
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

CODES = (
    *palette.PHASES,
    Code("the host runs a program", "R", "#009e73", "#1cb288", "."),
    Code("the device waits for a function", "W", "#bfc5cb", "#69717b", "/"),
    Code("the host does something else", "O", "#7cc4ee", "#2f7aa8", ""),
)
CODE = {phase.name: i for i, phase in enumerate(palette.PHASES)}
RUN, WAITS, OTHER = range(5, 8)
MOST_STEPS = 512  # of the run, and as many events of each of the host's lanes
MOST_LANES = 12
PITCH = 22.0
Piece = tuple[int, int, int]  # code, start, length


def host(report: Report) -> View:
    """Streams and host transfers of the run in `report` beside the device, and the host's own
    times, which are measured.

    The first 512 supersteps are shown, and fewer in a scene that would be larger than 150 kB; the
    view says so. Raises `InvalidOptionError` for something that is no report, or in which nothing
    went between host and device.
    """
    if not checked(report, "host").host_bytes:
        raise InvalidOptionError("""show.host() was given a run in which nothing goes between host
            and device.
            next:  show.timeline(report) shows the device alone; a Copy from or to a stream involves
            the host.""")
    return fitting(lambda most: _scene(report, most), MOST_STEPS)


def _scene(report: Report, most: int) -> Scene:
    device: dict[str, list[Piece]] = {"device": []}
    start = 0
    for step in report.steps_between(0, most):
        for phase in report.phases(step.step):
            device["device"].append((CODE[phase.kind], start, phase.cycles))
            if phase.kind == HOST:
                device.setdefault(_stream(report, step.step), []).append(
                    (CODE[HOST], start, phase.cycles)
                )
            start += phase.cycles
    measured, seconds = _measured(report, most)
    panels = Panels()
    panels.first(most, report.num_steps, "supersteps")
    panels.notes += [] if measured else ["The report has no times of the host."]
    heads = "the device and its link", "the host, measured"
    for which, (rows, span, unit) in enumerate(
        ((device, start, "modelled cycles"), (measured, seconds, "measured us"))
    ):
        if rows:
            long = np.array([sum(piece[2] for piece in pieces) for pieces in rows.values()])
            say = f"{{label}}: {{long}} {unit}, {{pieces}} times"
            values = {"long": long, "pieces": np.array([len(pieces) for pieces in rows.values()])}
            name, drawing = (
                ("device", "host")[which],
                Drawing(span, _bars(list(rows.values())), unit),
            )
            lanes = Lanes(
                name,
                heads[which],
                count=len(rows),
                labels=tuple(rows),
                say=say,
                values=values,
                whole=True,
            )
            panels.below(40)
            panels.put(lanes, left=190, high=PITCH * len(rows), drawing=drawing)
    cycles, total = report.host_exchange_cycles, report.total_cycles
    moved = f"{counted(report.host_bytes, 'byte')} cross the link"
    note = (
        f"{moved} in {number(cycles)} of {number(total)} modelled cycles, "
        f"{100 * cycles / total:.1f} %"
    )
    sums = tuple((name, *(f"{n:,}" for n in sums)) for name, sums in _sums(report).items())
    return panels.scene(
        "host",
        "The host beside the device",
        f"The host beside the device: {note}. {report.host.sentence() if measured else ''}".strip(),
        foot=22,
        codes=CODES,
        stills=(Still("the whole run", note, CODE[HOST], 0, True, lanes=panels.lanes),),
        table=(("stream", "transfers", "bytes", "modelled cycles"), sums),
    )


def _stream(report: Report, step: int) -> str:
    way = "to device" if report.profile.steps[step].to_device else "to host"
    return f"{way}: {label(report.step_cost(step).name, 24)}"


def _sums(report: Report) -> dict[str, tuple[int, int, int]]:
    """(transfers, bytes, modelled cycles) of each stream in the whole run."""
    found: dict[str, tuple[int, int, int]] = {}
    for step, times in enumerate(report.executions.tolist()):
        cost = report.step_cost(step)
        if times and cost.host_bytes:
            ran, size, cycles = found.get(_stream(report, step), (0, 0, 0))
            found[_stream(report, step)] = (
                ran + times,
                size + times * cost.host_bytes,
                cycles + times * cost.host_cycles,
            )
    return found


def _measured(report: Report, most: int) -> tuple[dict[str, list[Piece]], int]:
    """(by name what the host did during its runs, in microseconds since the first of them began,
    how long it took)."""
    events = list(report.host.events)
    runs = [event for event in events if is_run(event)]
    if not runs:
        return {}, 0
    begin, end = runs[0].start, max(event.end for event in runs)
    rows: dict[str, list[Piece]] = {}
    for event in events:
        if begin <= event.start <= end:
            piece = (
                _code(event),
                round(1e6 * (event.start - begin)),
                max(1, round(1e6 * event.duration)),
            )
            rows.setdefault(label(event.name, 28), []).append(piece)
    longest = sorted(rows, key=lambda name: -sum(piece[2] for piece in rows[name]))[:MOST_LANES]
    return {name: pieces[:most] for name, pieces in rows.items() if name in longest}, max(
        1, round(1e6 * (end - begin))
    )


def _code(event: HostEvent) -> int:
    if is_run(event):
        return RUN
    if is_copy(event):
        return CODE[HOST]
    return WAITS if event.channel == "streams" and not event.name.endswith(PREFETCH) else OTHER


def _bars(rows: list[list[Piece]]) -> tuple[Bar, ...]:
    """The first piece of every lane, the second of every lane, and so on."""
    most = max(map(len, rows))
    pieces: Array = np.array([row + [(0, 0, 0)] * (most - len(row)) for row in rows])
    return tuple(Bar(pieces[:, i, 0], pieces[:, i, 1], pieces[:, i, 2], 0) for i in range(most))
