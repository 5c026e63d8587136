"""Write a run as Chrome's trace events, for Perfetto (ui.perfetto.dev) and chrome://tracing.

Each IPU has a row of steps and a row of phases. Below them, each chosen tile has a row that shows
when it computes and exchanges data. A tile may also have a row that shows its blocks. Times are
modelled: they are cycles divided by the clock frequency of the target, in microseconds.
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

MOST_EVENTS = 500_000  # The maximum number of device events in a trace.
MOST_TILES = 16  # The number of tiles in a trace if the caller does not choose any.
HOST, DEVICE = 0, 1  # The numbers of the two processes in the trace.
# The numbers of two rows of the trace, for the first set of tiles: a row of steps and a row of
# phases. Row 0 stays empty, because Perfetto uses it for the process.
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
    """Return the run as the JSON text of a trace.

    - `tiles` are the tiles that have a row. By default, these are the 16 tiles that compute and
      exchange longest.
    - `blocks` are the tiles with a row of their blocks (see `report.execution.blocks`).
    - If `host` is True, the trace also has the host's events and counters, with their measured
      times.

    The steps in the trace end before the step with which it would have more than `most_events`
    events of the device. The entry "otherData" in the trace has the number of steps that are
    missing for this reason.

    :raises InvalidOptionError: if there is no such tile.
    """
    tiles_shown = _chosen(report, tiles)
    tiles_with_blocks = _chosen(report, blocks)
    microseconds = 1e6 / report.target.tile_clock_frequency
    events: list[_Event] = [
        _name("process_name", DEVICE, 0, f"{report.target.ipu_version}, modelled")
    ]
    set_numbers = range(report.target.num_sets)
    first_tile_row = _tile_row(report)
    for set_number in set_numbers:
        ipu_suffix = f" of {report.ipu_name(set_number)}" if len(set_numbers) > 1 else ""
        events += [
            _name("thread_name", DEVICE, row + 2 * set_number, name + ipu_suffix)
            for row, name in ROWS.items()
        ]
    events += [
        _name("thread_name", DEVICE, first_tile_row + tile, f"tile {tile}") for tile in tiles_shown
    ]
    for tile in tiles_with_blocks:
        row = first_tile_row + report.target.num_tiles + tile
        events.append(_name("thread_name", DEVICE, row, f"blocks of tile {tile}"))
        for block in report.execution.blocks(tile)[: most_events // 2 // len(tiles_with_blocks)]:
            details = {"type": block.type, "cycles": block.cycles}
            events.append(
                _span(
                    block.name or block.type,
                    block.type,
                    row,
                    block.cycles_from,
                    block.cycles,
                    microseconds,
                    details,
                )
            )
    num_steps_shown = 0
    for step in report.steps_between():
        events_of_step = list(_events(report, step, tiles_shown, microseconds))
        if len(events) + len(events_of_step) > most_events:
            break
        events += events_of_step
        num_steps_shown += 1
    events += _host(report.host) if host else ()
    missing_steps = report.num_steps - num_steps_shown
    other_data = {
        "steps": report.num_steps,
        "steps_missing": missing_steps,
        "total_cycles": report.total_cycles,
        "modelled": True,
    }
    return json.dumps(
        {"displayTimeUnit": "ns", "otherData": other_data, "traceEvents": events},
        separators=(",", ":"),
    )


def _chosen(report: Report, tiles: Iterable[int] | None) -> list[int]:
    num_tiles = report.target.num_tiles
    if tiles is None:
        cycles_per_tile = report.compute_cycles_per_tile + report.exchange_cycles_per_tile
        return sorted(range(num_tiles), key=lambda tile: (-int(cycles_per_tile[tile]), tile))[
            :MOST_TILES
        ]
    listed_tiles = list(tiles)
    for tile in listed_tiles:
        if not is_whole(tile) or not 0 <= tile < num_tiles:
            raise InvalidOptionError(
                f"chrome_trace() was given tile {shown(tile)}, which does not exist.",
                next_step=f"give tiles from 0 to {num_tiles - 1:,}.",
            )
    return [int(tile) for tile in dict.fromkeys(listed_tiles)]


def _events(
    report: Report, step: StepRun, tiles: list[int], microseconds: float
) -> Iterator[_Event]:
    first_tile_row = _tile_row(report)
    for set_number, start_cycle in step.shares:
        phases = report.phases(step.step, set_number)
        duration = sum(phase.cycles for phase in phases)
        sets = range(report.target.num_sets) if set_number is None else (set_number,)
        details = {"cycles": duration, "kind": step.kind, "bytes received": step.bytes_received}
        for row_set in sets:
            yield _span(
                step.name or step.kind,
                "step",
                STEPS + 2 * row_set,
                start_cycle,
                duration,
                microseconds,
                details,
            )
        for phase in phases:
            step_name_details = {"step": step.name}
            for row_set in sets:
                yield _span(
                    phase.kind,
                    phase.kind,
                    PHASES + 2 * row_set,
                    start_cycle,
                    phase.cycles,
                    microseconds,
                    step_name_details,
                )
            for tile in tiles if phase.busy is not None else ():
                assert phase.busy is not None
                if phase.busy[tile]:
                    yield _span(
                        phase.kind,
                        phase.kind,
                        first_tile_row + tile,
                        start_cycle,
                        float(phase.busy[tile]),
                        microseconds,
                        step_name_details,
                    )
            start_cycle += phase.cycles


def _tile_row(report: Report) -> int:
    """Return the row number of tile 0 in the trace, which is below the rows of the IPUs."""
    return max(10, STEPS + 2 * report.target.num_sets)


def _span(
    name: str,
    kind: str,
    row: int,
    start: float,
    duration: float,
    microseconds: float,
    details: dict[str, Any],
    process: int = DEVICE,
) -> _Event:
    """Return the trace event for an interval on row `row`.

    `microseconds` is the length of one unit of `start` and `duration`. An interval of the host
    whose duration is 0 becomes an instant.
    """
    # Viewers use whole nanoseconds. The start and the end are rounded, not the duration, so that
    # adjacent intervals stay adjacent, and nested intervals stay nested.
    start_ns = round(start * microseconds * 1000)
    end_ns = round((start + duration) * microseconds * 1000)
    event = {
        "name": name,
        "cat": kind,
        "pid": process,
        "tid": row,
        "ts": start_ns / 1000,
        "args": details,
    }
    if end_ns > start_ns or process == DEVICE:
        return {"ph": "X", "dur": (end_ns - start_ns) / 1000, **event}
    return {"ph": "i", "s": "t", **event}


def _name(kind: str, process: int, row: int, name: str) -> _Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": row, "args": {"name": name}}


def _host(host: HostTrace) -> Iterator[_Event]:
    """Yield the host's trace events: its recorded events, and its counters over time."""
    yield _name("process_name", HOST, 0, "host, measured")
    for event in host.events:
        bytes_details = (
            {"bytes": event.bytes, "direction": event.direction} if event.direction else {}
        )
        details = {"channel": event.channel, **bytes_details}
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
