"""The profile summary in Poplar's words, with equal lines for figures that Poplar prints too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TextIO

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.cost.phases import HOST, LINKS, STREAMING
from ipu_teach.errors import InvalidOptionError, counted, did_you_mean, shown
from ipu_teach.report.query import IpuRow, folded
from ipu_teach.report.report import Report
from ipu_teach.report.table import Table, plain
from ipu_teach.target import MACHINES
from ipu_teach.types import Array

KIB = 1024
WAYS = {"batch": "", "scalar": "  (ran as loops over elements)", "loop": "  (ran vertex by vertex)"}


@flagged
def print_profile_summary(
    report: Report,
    sections: Sequence[str] | None = None,
    *,
    show_execution_steps: bool = False,
    show_var_storage: bool = False,
    file: TextIO | None = None,
) -> None:
    """Print a summary of `report`.

    `sections` are some of Target, Graph, Memory Usage, Execution, Runs, and Cycles by vertex type.
    By default all are printed, Runs only if there are several. Runs of the same program and name
    are shown together, with their host copies as a separate figure.

    `show_execution_steps` adds the steps of the run, and `show_var_storage` the variables with
    their bytes and tiles, largest first; at most a hundred of each. Cycles and times are modelled.
    """
    print(
        summary_text(report, sections, show_execution_steps, show_var_storage),
        file=file or sys.stdout,
    )


def summary_text(
    report: Report,
    sections: Sequence[str] | None = None,
    show_execution_steps: bool = False,
    show_var_storage: bool = False,
) -> str:
    """Return the text that `print_profile_summary` prints."""
    if not isinstance(report, Report):
        raise InvalidOptionError(f"""print_profile_summary() was given {shown(report)}, which is not
            a report.
            next:  give it engine.report.""")
    makers: dict[str, Callable[[Report], list[str]]] = {
        "Target": _target,
        "Graph": _graph,
        "Memory Usage": _memory,
        "Execution": _execution,
        "Runs": _runs,
        "Cycles by vertex type": _vertex_types,
    }
    chosen = [name for name in makers if name != "Runs" or len(report.runs) > 1]
    if sections is not None:
        chosen = list(sections) if isinstance(sections, (list, tuple)) else [str(sections)]
    for name in chosen:
        if not isinstance(name, str) or name not in makers:
            raise InvalidOptionError(f"""The profile has no section {shown(name)}.
                next:  {did_you_mean(name, makers)}Its sections are {", ".join(makers)}.""")
    heads = {name: f"{name} (modelled)" for name in ("Runs", "Cycles by vertex type")}
    if report.num_steps == 0 and report.unrecorded_steps:
        makers |= dict.fromkeys(("Execution", *heads), _unrecorded)
    blocks = [
        [
            f"{heads.get(name, name)}:",
            *("  " + line if line else "" for line in makers[name](report)),
        ]
        for name in chosen
    ]
    if show_var_storage:
        blocks.append(_variables(report))
    if show_execution_steps:
        blocks.append(_steps(report))
    return "\n\n".join("\n".join(map(plain, block)) for block in blocks)


def _target(report: Report) -> list[str]:
    t = report.target
    of = f" ({MACHINES[t.machine][0]})" if t.machine else ""
    if t.num_ipus & t.num_ipus - 1:
        of = " (no machine gives so many: they give powers of two)"
    return [
        f"Number of IPUs:         {t.num_ipus:,}{of}",
        f"Tiles per IPU:          {t.tiles_per_ipu:,}",
        *([f"I/O Tiles per IPU:      {t.io_tiles:,}, the first of each"] if t.io_tiles > 0 else []),
        f"Total Tiles:            {t.num_tiles:,}",
        f"Memory Per-Tile:        {t.bytes_per_tile / KIB:,.1f} kB",
        f"Total Memory:           {t.bytes_per_tile * t.num_tiles / KIB**2:,.1f} MB",
        f"Clock Speed (approx):   {t.tile_clock_frequency / 1e6:,.1f} MHz",
    ]


def _graph(report: Report) -> list[str]:
    return [
        f"{'Number of ' + name + ':':<24}{count:>12,}"
        for name, count in report.graph_size().items()
    ]


def _memory(report: Report) -> list[str]:
    memory = report.memory
    bytes_held = memory.held_per_tile
    used = memory.bytes_per_tile.sum()
    always = memory.always_live_bytes_per_tile.sum()
    fullest = int(np.argmax(bytes_held))
    lines = [
        f"Total for all IPUs:     {used:>12,} B ({always:,} B always live; modelled)",
        "  By Data Type:",
    ]
    lines += [
        f"    {name + ':':<20}{size:>12,} B" for name, size in memory.by_category().items() if size
    ]
    share = 100 * int(bytes_held[fullest]) / report.target.bytes_per_tile
    lines.append(
        f"Fullest tile:           {int(bytes_held[fullest]):>12,} B ({share:.1f}% of tile "
        f"{fullest}, "
        "gaps included)"
    )
    return lines


def _unrecorded(report: Report) -> list[str]:
    """Return a line about the steps that are missing from the report, or [] if none is."""
    missing = report.unrecorded_steps
    if not missing:
        return []
    return [f"{counted(missing, 'step')} ran unrecorded, with profiling disabled."]


def _execution(report: Report) -> list[str]:
    if report.num_steps == 0:
        return ["Nothing has run since the engine was loaded."]

    total = report.total_cycles
    links = report.link_cycles_per_tile

    def line(label: str, cycles: float) -> str:
        return f"{label:<54}{cycles:,.1f} ({100 * cycles / total if total else 0:.1f}% of total)"

    without = ""
    if report.unknown_codelets:
        without = f"; without {', '.join(report.unknown_codelets)}, of no estimate"
    return [
        f"{'Total cycles:':<54}{total:,.0f} (approx {report.total_seconds * 1e6:,.1f} "
        f"microseconds, modelled{without})",
        line(
            "Tile average compute cycles (including idle threads):",
            float(report.compute_cycles_per_tile.mean()),
        ),
        line(
            "Tile average compute cycles (excluding idle threads):",
            float(report.active_cycles_per_tile.mean()),
        ),
        line("Tile average IPU exchange cycles:", float(report.exchange_cycles_per_tile.mean())),
        line("Tile average global exchange cycles:", float(links[LINKS].mean())),
        line("Tile average host exchange cycles:", float(links[HOST].mean())),
        *[line("Tile average streaming memory cycles:", float(links[STREAMING].mean()))]
        * bool(report.streaming_bytes),
        line("Tile average sync cycles:", float(report.sync_cycles_per_tile.mean())),
        *_ipus(report),
        f"{'Codelets of your own are priced:':<54}{report.target.codelet_prices}",
        f"{'These cycles rest on:':<54}"
        + ", ".join(f"{name} {100 * share:.1f}%" for name, share in report.grounds.items()),
        *_unrecorded(report),
    ]


def _ipus(report: Report, maximum: int = 16) -> list[str]:
    """Return lines with the work of each of several IPUs, and the one that delays others most."""
    sets = report.target.sets
    rows = report.ipus if len(sets) > 1 else Table[IpuRow]()
    lines = [
        f"{report.ipu_name(row.ipu) + ' is at work:':<54}{row.busy_cycles:,} "
        f"({100 * row.busy:.1f}% of total"
        + (
            f"; waits longest for {sets[row.waits_for]})"
            if row.waiting_cycles
            else "; waits for no other IPU)"
        )
        for row in rows[:maximum]
    ]
    lines += (
        [f"… and {len(rows) - maximum:,} more IPUs, see report.ipus"] if len(rows) > maximum else []
    )
    for row in rows.largest("held_cycles", 1):
        by = f"longest is its {row.held_by!r}"
        text = f"{sets[row.ipu]}, {row.held_cycles:,} cycles of them all; {by}"
        who = text if row.held_cycles else "none, no IPU waits"
        lines.append(f"{'The others wait longest for:':<54}{who}")
    return lines


def _runs(report: Report, maximum: int = 12) -> list[str]:
    """Return lines with the cycles of the runs, by program and name.

    Steps whose order was not kept are not included.
    """
    by_name: dict[str, Array] = {}  # number of runs, steps, cycles, and cycles of host copies
    numbers = report.step_numbers
    host = np.zeros(len(report.executions), np.int64)
    for number in np.flatnonzero(report.executions).tolist():
        cost = report.step_cost(number)
        host[number] = 0 if cost.streaming else cost.host_cycles
    for run in report.runs:
        steps_of_run = slice(
            run.first, len(numbers) if run.last is None else min(run.last, len(numbers))
        )
        _, starts, ends = report.overlap.spans(
            steps_of_run.start, max(steps_of_run.start, steps_of_run.stop)
        )
        row = by_name.setdefault(
            f"{run.name or 'run'} (program {run.program})", np.zeros(4, np.int64)
        )
        row += (
            1,
            len(ends),
            ends.max() - starts.min() if len(ends) else 0,
            host[numbers[steps_of_run]].sum(),
        )
    lines = [
        f"{f'{name}:':<40}{f'{count:,} x':>8}{steps:>12,} steps{cycles:>16,} cycles, {copies:,} of "
        "them host copies"
        for name, (count, steps, cycles, copies) in by_name.items()
    ]
    return lines[:maximum] + (
        [f"… and {len(lines) - maximum:,} more, see report.runs"] if len(lines) > maximum else []
    )


def _vertex_types(report: Report) -> list[str]:
    ways = report.ways()
    by_codelet = report.cycles_by_codelet()
    instances = report.vertex_counts()
    if not by_codelet:
        return ["No vertex has run since the engine was loaded."]
    width = max(28, *(len(name) for name in by_codelet))
    lines = []
    for name, cycles in by_codelet.items():
        value = "no estimate" if name in report.unknown_codelets else f"{cycles:,}"
        way = WAYS.get(ways[name], f"  (ran in {ways[name]})")
        lines.append(f"{name:<{width}}{f'({instances[name]}':>6} instances):{value:>13}{way}")
    return lines


def _variables(report: Report, maximum: int = 100) -> list[str]:
    memory = report.memory
    bytes_held = memory.by_variable()
    names = list(bytes_held)
    sizes = list(bytes_held.values())
    groups = folded(names, sizes)
    lines = ["Variable storage:"]
    for name, rows in groups[:maximum]:
        size = sum(sizes[i] for i in rows)
        tiles = np.unique(np.concatenate([memory.tiles_of(names[i]) for i in rows]))
        where = (
            f"tile {tiles[0]}"
            if len(tiles) == 1
            else f"{len(tiles):,} tiles, {tiles[0]} to {tiles[-1]}"
        )
        lines.append(f"  {name:<32} {size:>12,} B on {where}")
    return lines + ([f"  … and {len(groups) - maximum:,} more"] if len(groups) > maximum else [])


def _steps(report: Report, maximum: int = 100) -> list[str]:
    lines = ["Execution steps (number, start, modelled cycles, kind, name):"]
    if report.num_steps == 0 and report.unrecorded_steps:
        return lines + ["  " + line for line in _unrecorded(report)]
    for step in report.steps(0, maximum):
        lines.append(
            f"  {step.index:>6}  {step.start:>14,.0f}  {step.cycles:>12,.0f}  {step.kind:<10}  "
            f"{step.name}"
        )
    recorded = len(report.step_numbers)
    if recorded > maximum:
        lines.append(f"  … and {recorded - maximum:,} more")
    if report.steps_not_kept:
        lines.append(
            f"  … and {report.steps_not_kept:,} more, which are counted and whose order was not "
            "kept"
        )
    return lines
