"""The view `host`: the transfers between host and device, and the work of the device.

One axis of modelled cycles shows the device, and a lane for each stream with its transfers. If the
times of the host are also modelled, there is also a lane for each host function that the device
waits for. Times that were measured on your computer differ from run to run, so they are only in the
table.
"""

from __future__ import annotations

from collections import Counter

from ipu_teach.cost.phases import HOST, STREAMING
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Report
from ipu_teach.report.host_trace import TO_DEVICE, is_run, is_wait
from ipu_teach.show import palette
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels, Piece
from ipu_teach.show.report_facts import checked
from ipu_teach.show.scene import Scene, Still, Table, label, number
from ipu_teach.show.segments import segments
from ipu_teach.show.view import View, fitting

CODES = (
    *palette.PHASES,
    Code("the device waits for a function", "W", "#bfc5cb", "#69717b", pattern="/"),
)
CODE = {phase.name: i for i, phase in enumerate(palette.PHASES)}
WAITS = len(palette.PHASES)
MOST_STEPS = 512  # The maximum number of supersteps shown.
PITCH = 22.0


def host(report: Report) -> View:
    """How much of a run is transfer with the host?

    The view shows the streams and host transfers of the run in `report` next to the work of the
    device, on one axis of modelled cycles. The table also has the times of the host, which were
    measured on your computer. At most 512 supersteps are shown, and fewer if the scene would be
    larger than 150 kB. If there are more, a note below the picture says so.

    :raises InvalidOptionError: if `report` is not a report, or if nothing was transferred from or
        to the host or streaming memory.
    """
    if not checked(report, "host").host_bytes + report.streaming_bytes:
        raise InvalidOptionError("""show.host() was given a run without transfers between host and
            device.
            next:  run a program with a Copy from or to a stream or a remote buffer;
            show.timeline(report) shows the device alone.""")
    return fitting(lambda max_steps: _scene(report, max_steps), MOST_STEPS)


def _scene(report: Report, max_steps: int) -> Scene:
    """Return the scene of the first `max_steps` supersteps."""
    rows, span = _device(report, max_steps)
    trace = report.host
    panels = Panels()
    panels.first(max_steps, report.num_steps, "supersteps")
    panels.notes += _notes(report)
    panels.lanes_of(
        "device",
        ("all modelled: device, link, host" if trace.modelled else "the device and its links")
        + "; empty: it waits" * (report.target.num_sets > 1),
        rows,
        span,
        "modelled cycles",
        left=190,
        pitch=PITCH,
        say="{label}: {long} modelled cycles, {pieces} times",
    )
    total = report.total_cycles
    links = (
        (HOST, report.host_bytes, "the link", report.host_exchange_cycles),
        (STREAMING, report.streaming_bytes, "that to streaming memory", report.streaming_cycles),
    )
    note = transfers = ", and ".join(
        f"{counted(size, 'byte')} cross {link} in {number(cycles)} of the device's {number(total)} "
        f"modelled cycles, {_share(cycles, total)}"
        for _, size, link, cycles in links
        if size
    )
    longest = max(links, key=lambda link: link[-1])[0]
    sentences = [trace.sentence()] if trace.events else []
    # If the times of the host are modelled, the run includes the waiting for the host's functions.
    starved = trace.starved_share if trace.modelled else 0.0
    share = _share(sum(link[-1] for link in links) * (1 - starved), total)
    memory = " or streaming memory" if report.streaming_bytes else ""
    title = f"{share[:1].upper()}{share[1:]} of the run is transfer with the host{memory}"
    if trace.starved_share:
        clock = "modelled" if trace.modelled else "measured"
        share = f"{100 * trace.starved_share:.1f} %"
        note += f"; the device waits {share} of the {clock} time for functions of the host"
        title += f"; the device waits {share} of the {clock} time for functions of the host"
    return panels.scene(
        "host",
        title,
        " ".join([f"The host beside the device: {transfers}.", *sentences]),
        foot=22,
        codes=CODES,
        stills=(Still("the whole run", note, CODE[longest], 0, first=True, lanes=panels.lanes),),
        table=_table(report),
    )


def _share(cycles: float, total: float) -> str:
    """Return a share of the run as a percentage, or "less than 0.1 %" for a small share."""
    share = 100 * cycles / total
    return "less than 0.1 %" if 0 < share < 0.05 else f"{share:.1f} %"


def _notes(report: Report) -> list[str]:
    """Return a note about how long your computer took for the run, if that was measured."""
    trace = report.host
    if not trace.events:
        return ["The report has no times of the host."]
    runs = [event.duration for event in trace.events if is_run(event)]
    if trace.modelled or not runs:
        return []
    ratio = sum(runs) / report.total_seconds
    times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"
    return [
        "The picture is modelled. To simulate the run, this computer took "
        f"{sum(runs):.3g} s, measured, {times} times as long; report.host has its timeline."
    ]


def _table(report: Report) -> Table:
    """Return the table: a row for each stream, remote buffer and host function.

    Only host functions for which the device waits have a row. Measured times have their own column.
    """
    columns = ["transfers", "bytes", "modelled cycles"]
    columns += ["rows"] if any(step.moves for step in report.profile.steps) else []
    trace = report.host
    measured = Counter[str]()
    if trace.events and not trace.modelled:
        for use in trace.streams():
            direction = "to device" if use.direction == TO_DEVICE else "to host"
            measured[f"{direction}: {label(use.name, 24)}"] += use.seconds  # type: ignore[assignment]
    rows = []
    for name, sums in _sums(report).items():
        cells = [f"{sums[column]:,}" if column in sums else "" for column in columns]
        if measured:
            cells.append(f"{1e6 * measured[name]:,.0f}" if name in measured else "")
        rows.append((name, *cells))
    if measured:
        blanks = [""] * (len(columns) - 1)
        for wait in trace.waiting():
            time = f"{1e6 * wait.seconds:,.0f}"
            rows.append((f"function {label(wait.name, 28)}", f"{wait.calls:,}", *blanks, time))
        columns.append("measured us")
    return ("stream", *columns), tuple(rows)


def _device(report: Report, max_steps: int) -> tuple[dict[str, list[Piece]], int]:
    """Return `(pieces, end)` of the first `max_steps` supersteps; `end` is in cycles.

    `pieces` maps the name of each lane to a (code, start, length) tuple for each of its bars, in
    cycles. The lanes are:

    - the device or, on a machine with several sets of tiles (`Target.sets`), each set;
    - each stream or remote buffer that these supersteps use;
    - the host functions that the device waits for, if the times of the host are modelled.
    """
    names = ["device"] if report.target.num_sets == 1 else list(report.target.sets)
    pieces: dict[str, list[Piece]] = {name: [] for name in names}
    clock = report.target.tile_clock_frequency
    trace = report.host
    now = 0.0
    waits = [event for event in trace.events if trace.modelled and is_wait(event)][::-1]

    def add(lanes: list[str], code: int, start: float, length: float) -> None:
        for name in lanes:
            pieces.setdefault(name, []).append((code, round(start), round(length)))

    stretches, order = segments(report, max_steps)
    for stretch in (stretches[i] for i in order.tolist()):
        while waits and waits[-1].start * clock < now + 0.5:
            wait = waits.pop()
            add([*names, label(wait.name, 28)], WAITS, now, wait.duration * clock)
            now += wait.duration * clock
        for part in stretch.parts:
            start = now + part.start
            for phase in report.phases(part.step, part.ipu):
                lanes = names if part.ipu is None else [names[part.ipu]]
                stream = [_stream(report, part.step)] if phase.kind in (HOST, STREAMING) else []
                add([*lanes, *stream], CODE[phase.kind], start, phase.cycles)
                start += phase.cycles
        now += stretch.cycles
    return pieces, round(now)


def _stream(report: Report, step: int, name: str = "") -> str:
    """Describe a step's transfer: its direction and the name of its stream or remote buffer.

    `name` is the name of the remote buffer. If it is "", the name of the step is used.
    """
    cost = report.step_cost(step)
    loads = report.profile.steps[step].to_device
    direction = "to device" if loads else "to host"
    if cost.streaming:
        direction = "from streaming memory" if loads else "to streaming memory"
    return f"{direction}: {label(name or cost.name, 24)}"


def _sums(report: Report) -> dict[str, Counter[str]]:
    """Sum up the transfers, bytes, cycles and rows of each stream and each remote buffer.

    If several buffers share a step, each buffer gets all cycles of the step.
    """
    sums_of: dict[str, Counter[str]] = {}
    for step, times in enumerate(report.executions.tolist()):
        cost = report.step_cost(step)
        moves = report.profile.steps[step].moves
        buffers = [(m.buffer, m.bytes, m.rows) for m in moves] or [("", cost.host_bytes, 0)]
        for name, size, rows in buffers if times and cost.host_bytes else ():
            sums = {"transfers": 1, "bytes": size, "modelled cycles": cost.host_cycles}
            sums |= {"rows": rows} if rows else {}
            total = sums_of.setdefault(_stream(report, step, name), Counter())
            total.update({column: times * figure for column, figure in sums.items()})
    return sums_of
