"""The view `host`: the transfers between host and device, the device's work, and the host's
functions.

Above, on the modelled axis of cycles, are the device and a lane for each stream while its bytes are
transferred. Below, on an axis of its own in measured seconds, are the host's runs, transfers and
functions. Measured times differ from run to run, and so does this picture. If the host's times are
modelled too, everything is on one axis, with the device's waiting.
"""

from __future__ import annotations

from collections import Counter

from ipu_teach.cost.phases import HOST, STREAMING
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import HostEvent, Report
from ipu_teach.report.host_trace import is_copy, is_run, is_wait
from ipu_teach.show import palette
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels, Piece
from ipu_teach.show.report_facts import checked
from ipu_teach.show.scene import Scene, Still, label, number
from ipu_teach.show.segments import segments
from ipu_teach.show.view import View, fitting

CODES = (
    *palette.PHASES,
    Code("the host runs a program", "R", "#009e73", "#1cb288", "."),
    Code("the device waits for a function", "W", "#bfc5cb", "#69717b", "/"),
    palette.BYTES.lettered("O", "the host does something else"),
)
CODE = {phase.name: i for i, phase in enumerate(palette.PHASES)}
RUN, WAITS, OTHER = range(len(palette.PHASES), len(CODES))
MOST_STEPS = 512  # supersteps of the run, and events of each of the host's lanes
MOST_LANES = 12
PITCH = 22.0


def host(report: Report) -> View:
    """How much of a run is transfer with the host?

    The view shows streams and host transfers of the run in `report` beside the device, and the
    host's own times, which are measured. The first 512 supersteps are shown, and fewer if the scene
    would be larger than 150 kB; the view says so.

    Raises `InvalidOptionError` if `report` is not a report, or if nothing was transferred between
    host and device.
    """
    if not checked(report, "host").host_bytes + report.streaming_bytes:
        raise InvalidOptionError("""show.host() was given a run in which nothing goes between host
            and device.
            next:  run a program with a Copy from or to a stream or a remote buffer;
            show.timeline(report) shows the device alone.""")
    return fitting(lambda max_pieces: _scene(report, max_pieces), MOST_STEPS)


def _scene(report: Report, max_pieces: int) -> Scene:
    device, start = _device(report, max_pieces)
    trace = report.host
    clock = report.target.tile_clock_frequency
    measured, seconds = _measured(report, max_pieces)
    panels = Panels()
    panels.first(max_pieces, report.num_steps, "supersteps")
    panels.notes += [] if trace.events else ["The report has no times of the host."]
    heads = "all modelled: device, link, host", ""
    if not trace.modelled:
        longer = seconds * clock / (1e6 * start)
        times = f"{longer:,.0f}" if longer >= 10 else f"{longer:.2g}"
        heads = (
            "the device, if nothing kept it waiting",
            f"the host, measured: {times} times as long",
        )
        if measured:
            panels.notes.append(
                "Two axes: above what the device would take, modelled; below what this computer "
                f"took to simulate it, measured, {times} times as long."
            )
    for which, (rows, span, unit) in enumerate(
        ((device, start, "modelled cycles"), (measured, seconds, "measured us"))
    ):
        if rows:
            say = f"{{label}}: {{long}} {unit}, {{pieces}} times"
            name = ("device", "host")[which]
            panels.lanes_of(name, heads[which], rows, span, unit, left=190, pitch=PITCH, say=say)
    total = report.total_cycles
    links = (
        (HOST, report.host_bytes, "the link", report.host_exchange_cycles),
        (STREAMING, report.streaming_bytes, "that to streaming memory", report.streaming_cycles),
    )
    note = crossing = ", and ".join(
        f"{counted(size, 'byte')} cross {link} in {number(cycles)} of {number(total)} modelled "
        f"cycles, {100 * cycles / total:.1f} %"
        for _, size, link, cycles in links
        if size
    )
    longest = max(links, key=lambda link: link[-1])[0]
    sentences = [trace.sentence()] if trace.events else []
    if trace.starved_share:
        note += (
            f"; the device waits {100 * trace.starved_share:.1f} % of the "
            f"{'modelled' if trace.modelled else 'measured'} time for functions of the host"
        )
    columns = ["transfers", "bytes", "modelled cycles"]
    columns += ["rows"] * any(step.moves for step in report.profile.steps)
    sums = tuple(
        (name, *(f"{sums[column]:,}" if column in sums else "" for column in columns))
        for name, sums in _sums(report).items()
    )
    return panels.scene(
        "host",
        f"{100 * sum(link[-1] for link in links) / total:.1f} % of the run is transfer with the "
        f"host{' or streaming memory' * bool(report.streaming_bytes)}",
        " ".join([f"The host beside the device: {crossing}.", *sentences]),
        foot=22,
        codes=CODES,
        stills=(Still("the whole run", note, CODE[longest], 0, True, lanes=panels.lanes),),
        table=(("stream", *columns), sums),
    )


def _device(report: Report, max_pieces: int) -> tuple[dict[str, list[Piece]], int]:
    """(by name what the device and its link do in the first `most` steps of the run, and for which
    functions it waits where the host's times are modelled; how long it takes), in cycles."""
    names = ["device"] if report.target.num_sets == 1 else list(report.target.sets)
    pieces: dict[str, list[Piece]] = {name: [] for name in names}
    clock = report.target.tile_clock_frequency
    trace = report.host
    now = 0.0
    waits = [event for event in trace.events if trace.modelled and is_wait(event)][::-1]

    def add(rows: list[str], code: int, start: float, long: float) -> None:
        for name in rows:
            pieces.setdefault(name, []).append((code, round(start), round(long)))

    stretches, order = segments(report, max_pieces)
    for stretch in (stretches[i] for i in order.tolist()):
        while waits and waits[-1].start * clock < now + 0.5:
            wait = waits.pop()
            add([*names, label(wait.name, 28)], WAITS, now, wait.duration * clock)
            now += wait.duration * clock
        for part in stretch.parts:
            start = now + part.start
            for phase in report.phases(part.step, part.ipu):
                rows = names if part.ipu is None else [names[part.ipu]]
                stream = [_stream(report, part.step)] if phase.kind in (HOST, STREAMING) else []
                add([*rows, *stream], CODE[phase.kind], start, phase.cycles)
                start += phase.cycles
        now += stretch.cycles
    return pieces, round(now)


def _stream(report: Report, step: int, name: str = "") -> str:
    cost = report.step_cost(step)
    loads = report.profile.steps[step].to_device
    way = "to device" if loads else "to host"
    if cost.streaming:
        way = "from streaming memory" if loads else "to streaming memory"
    return f"{way}: {label(name or cost.name, 24)}"


def _sums(report: Report) -> dict[str, Counter[str]]:
    """Return what went through each stream in the whole run, and with each remote buffer: of
    several that share a step each takes all of its cycles."""
    pieces: dict[str, Counter[str]] = {}
    for step, times in enumerate(report.executions.tolist()):
        cost = report.step_cost(step)
        moves = report.profile.steps[step].moves
        parts = [(m.buffer, m.bytes, m.rows) for m in moves] or [("", cost.host_bytes, 0)]
        for name, size, rows in parts if times and cost.host_bytes else ():
            sums = {"transfers": 1, "bytes": size, "modelled cycles": cost.host_cycles}
            sums |= {"rows": rows} if rows else {}
            use = pieces.setdefault(_stream(report, step, name), Counter())
            use.update({what: times * count for what, count in sums.items()})
    return pieces


def _measured(report: Report, max_pieces: int) -> tuple[dict[str, list[Piece]], int]:
    """(by name what the host did during its runs, in microseconds since the first of them began,
    how long it took)."""
    events = list(report.host.events)
    runs = [event for event in events if is_run(event)]
    if not runs or report.host.modelled:
        return {}, 0
    begin = runs[0].start
    end = max(event.end for event in runs)
    rows: dict[str, list[Piece]] = {}
    for event in events:
        if begin <= event.start <= end:
            start = round(1e6 * (event.start - begin))
            long = max(1, round(1e6 * event.duration))
            rows.setdefault(label(event.name, 28), []).append((_code(event), start, long))
    longest = sorted(rows, key=lambda name: -sum(piece[2] for piece in rows[name]))[:MOST_LANES]
    return {name: pieces[:max_pieces] for name, pieces in rows.items() if name in longest}, max(
        1, round(1e6 * (end - begin))
    )


def _code(event: HostEvent) -> int:
    if is_run(event):
        return RUN
    if is_copy(event):
        return CODE[HOST]
    return WAITS if is_wait(event) else OTHER
