"""A run as Chrome's trace events, for Perfetto (ui.perfetto.dev) and chrome://tracing.

One row shows the steps and one row their phases; with several IPUs, there are two rows for each.
Below them each chosen tile has a row for its computing and exchanging, and one for its blocks.
Times are modelled: a microsecond of the trace is one of the modelled clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report.host_trace import HostTrace
from ipu_teach.report.report import Report
from ipu_teach.report.steps import StepRun

MOST_EVENTS = 500_000
MOST_TILES = 16  # the most tiles with their own rows, unless the caller chooses them
HOST, DEVICE = 0, 1  # the numbers of the two processes in the trace
# Rows, two for each set of tiles. Row 0 is not used: Perfetto takes it for the row of the process.
STEPS, PHASES = 1, 2
ROWS = {STEPS: "steps", PHASES: "phases"}
_Event = dict[str, Any]


def chrome_trace(
    report: Report,
    tiles: Iterable[int] | None = None,
    most_events: int = MOST_EVENTS,
    host: bool = False,
    blocks: Iterable[int] = (),
) -> str:
    """Return the run as JSON text.

    - `tiles` get their own rows; by default all tiles of a small machine, or the 16 busiest.
    - `blocks` are tiles that get a row of their blocks, see `report.execution.blocks`.
    - `host` adds the host's events and counters, with their measured times.

    After `most_events` events the trace ends, and says how many steps are missing.
    """
    chosen = _chosen(report, tiles)
    marked = _chosen(report, blocks)
    microseconds = 1e6 / report.target.tile_clock_frequency
    events: list[_Event] = [
        _name("process_name", DEVICE, 0, f"{report.target.ipu_version}, modelled")
    ]
    sets = range(report.target.num_sets)
    tile_row = _tile_row(report)
    for ipu in sets:
        of = f" of {report.ipu_name(ipu)}" if len(sets) > 1 else ""
        events += [
            _name("thread_name", DEVICE, row + 2 * ipu, name + of) for row, name in ROWS.items()
        ]
    events += [_name("thread_name", DEVICE, tile_row + tile, f"tile {tile}") for tile in chosen]
    for tile in marked:
        row = tile_row + report.target.num_tiles + tile
        events.append(_name("thread_name", DEVICE, row, f"blocks of tile {tile}"))
        for b in report.execution.blocks(tile)[: most_events // 2 // len(marked)]:
            details = {"type": b.type, "cycles": b.cycles}
            events.append(
                _span(b.name or b.type, b.type, row, b.cycles_from, b.cycles, microseconds, details)
            )
    shown_steps = 0
    for step in report.steps_between():
        event_list = list(_events(report, step, chosen, microseconds))
        if len(events) + len(event_list) > most_events:
            break
        events += event_list
        shown_steps += 1
    events += _host(report.host) if host else ()
    missing = report.num_steps - shown_steps
    other_data = {
        "steps": report.num_steps,
        "steps_missing": missing,
        "total_cycles": report.total_cycles,
        "modelled": True,
    }
    return json.dumps(
        {"displayTimeUnit": "ns", "otherData": other_data, "traceEvents": events},
        separators=(",", ":"),
    )


def _chosen(report: Report, tiles: Iterable[int] | None) -> list[int]:
    count = report.target.num_tiles
    if tiles is None:
        busy = report.compute_cycles_per_tile + report.exchange_cycles_per_tile
        return sorted(range(count), key=lambda tile: (-int(busy[tile]), tile))[:MOST_TILES]
    listed = list(tiles)
    for tile in listed:
        if not is_whole(tile) or not 0 <= tile < count:
            raise InvalidOptionError(
                f"There is no tile {shown(tile)}.", next_step=f"the tiles are 0 to {count - 1:,}."
            )
    return [int(tile) for tile in dict.fromkeys(listed)]


def _events(report: Report, step: StepRun, tiles: list[int], scale: float) -> Iterator[_Event]:
    row = _tile_row(report)
    for number, start in step.shares:
        phases = report.phases(step.step, number)
        lasts = sum(p.cycles for p in phases)
        at = range(report.target.num_sets) if number is None else (number,)
        details = {"cycles": lasts, "kind": step.kind, "bytes received": step.bytes_received}
        for ipu in at:
            yield _span(
                step.name or step.kind, "step", STEPS + 2 * ipu, start, lasts, scale, details
            )
        for phase in phases:
            named = {"step": step.name}
            for ipu in at:
                yield _span(
                    phase.kind, phase.kind, PHASES + 2 * ipu, start, phase.cycles, scale, named
                )
            for tile in tiles if phase.busy is not None else ():
                assert phase.busy is not None
                if phase.busy[tile]:
                    yield _span(
                        phase.kind,
                        phase.kind,
                        row + tile,
                        start,
                        float(phase.busy[tile]),
                        scale,
                        named,
                    )
            start += phase.cycles


def _tile_row(report: Report) -> int:
    """Return the number of the row of tile 0."""
    return max(10, STEPS + 2 * report.target.num_sets)


def _span(
    name: str,
    kind: str,
    row: int,
    start: float,
    lasts: float,
    scale: float,
    details: dict[str, Any],
    process: int = DEVICE,
) -> _Event:
    """Return the event of an interval on a row.

    `scale` is the number of microseconds in one unit of `start` and `lasts`. An interval of the
    host without duration is an instant.
    """
    # Viewers use whole nanoseconds. Both ends are rounded, so that adjacent intervals stay
    # adjacent, and inner ones stay inside.
    first = round(start * scale * 1000)
    last = round((start + lasts) * scale * 1000)
    event = {
        "name": name,
        "cat": kind,
        "pid": process,
        "tid": row,
        "ts": first / 1000,
        "args": details,
    }
    if last > first or process == DEVICE:
        return {"ph": "X", "dur": (last - first) / 1000, **event}
    return {"ph": "i", "s": "t", **event}


def _name(kind: str, process: int, row: int, name: str) -> _Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": row, "args": {"name": name}}


def _host(host: HostTrace) -> Iterator[_Event]:
    """Yield the events of the host's events and series."""
    yield _name("process_name", HOST, 0, "host, measured")
    for event in host.events:
        moved = {"bytes": event.bytes, "direction": event.direction} if event.direction else {}
        details = {"channel": event.channel, **moved}
        yield _span(
            event.name, event.channel, event.thread, event.start, event.duration, 1e6, details, HOST
        )
    for name, values in host.series().items():
        title = f"{name} [{values[0].unit}]" if values[0].unit else name
        for value in values:
            yield {
                "ph": "C",
                "name": title,
                "pid": HOST,
                "tid": 0,
                "ts": value.time * 1e6,
                "args": {"value": value.value},
            }
