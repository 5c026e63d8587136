"""The profile summary of a report as text, with the labels of Poplar's own summary."""

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

KIB = 1024  # The number of bytes in what Poplar's profile calls a kB.
# Maps how the host executed a codelet to the note that the summary adds to the codelet's line.
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
    """Print a summary of `report` to `file`, by default to the standard output.

    `sections` are names of sections: "Target", "Graph", "Memory Usage", "Execution", "Runs" and
    "Cycles by vertex type". By default, all sections are printed, except that "Runs" is printed
    only if there were several runs. Section "Runs" has a line for each combination of program and
    run name, with the total numbers of steps, cycles, and cycles of host copies.

    `show_execution_steps` adds the first hundred steps of the run. `show_var_storage` adds the
    hundred largest variables, with their bytes and tiles. Cycles and times are modelled.

    :raises InvalidOptionError: if `report` is not a report, or if there is no such section.
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
    lines_of_section: dict[str, Callable[[Report], list[str]]] = {
        "Target": _target,
        "Graph": _graph,
        "Memory Usage": _memory,
        "Execution": _execution,
        "Runs": _runs,
        "Cycles by vertex type": _vertex_types,
    }
    section_names = [name for name in lines_of_section if name != "Runs" or len(report.runs) > 1]
    if sections is not None:
        section_names = list(sections) if isinstance(sections, (list, tuple)) else [str(sections)]
    for name in section_names:
        if not isinstance(name, str) or name not in lines_of_section:
            raise InvalidOptionError(f"""The profile has no section {shown(name)}.
                next:  {did_you_mean(name, lines_of_section)}choose from
                {", ".join(lines_of_section)}.""")
    headings = {name: f"{name} (modelled)" for name in ("Runs", "Cycles by vertex type")}
    if report.num_steps == 0 and report.unrecorded_steps:
        lines_of_section |= dict.fromkeys(("Execution", *headings), _unrecorded)
    texts = [
        [
            f"{headings.get(name, name)}:",
            *("  " + line if line else "" for line in lines_of_section[name](report)),
        ]
        for name in section_names
    ]
    if show_var_storage:
        texts.append(_variables(report))
    if show_execution_steps:
        texts.append(_steps(report))
    return "\n\n".join("\n".join(map(plain, lines)) for lines in texts)


def _target(report: Report) -> list[str]:
    target = report.target
    machine_note = f" ({MACHINES[target.machine][0]})" if target.machine else ""
    if target.num_ipus & target.num_ipus - 1:
        machine_note = " (no machine gives so many: they give powers of two)"
    return [
        f"Number of IPUs:         {target.num_ipus:,}{machine_note}",
        f"Tiles per IPU:          {target.tiles_per_ipu:,}",
        *(
            [f"I/O Tiles per IPU:      {target.io_tiles:,}, the first of each"]
            if target.io_tiles > 0
            else []
        ),
        f"Total Tiles:            {target.num_tiles:,}",
        f"Memory Per-Tile:        {target.bytes_per_tile / KIB:,.1f} kB",
        f"Total Memory:           {target.bytes_per_tile * target.num_tiles / KIB**2:,.1f} MB",
        f"Clock Speed (approx):   {target.tile_clock_frequency / 1e6:,.1f} MHz",
    ]


def _graph(report: Report) -> list[str]:
    return [
        f"{'Number of ' + name + ':':<24}{count:>12,}"
        for name, count in report.graph_size().items()
    ]


def _memory(report: Report) -> list[str]:
    memory = report.memory
    bytes_held = memory.held_per_tile
    used_bytes = memory.bytes_per_tile.sum()
    always_live_bytes = memory.always_live_bytes_per_tile.sum()
    fullest = int(np.argmax(bytes_held))
    lines = [
        f"Total for all IPUs:     {used_bytes:>12,} B ({always_live_bytes:,} B always live; "
        "modelled)",
        "  By Data Type:",
    ]
    lines += [
        f"    {name + ':':<20}{num_bytes:>12,} B"
        for name, num_bytes in memory.by_category().items()
        if num_bytes
    ]
    share = 100 * int(bytes_held[fullest]) / report.target.bytes_per_tile
    lines.append(
        f"Fullest tile:           {int(bytes_held[fullest]):>12,} B ({share:.1f}% of tile "
        f"{fullest}, "
        "gaps included)"
    )
    return lines


def _unrecorded(report: Report) -> list[str]:
    """Return a line on the steps that ran while profiling was disabled, or [] if there are none."""
    missing = report.unrecorded_steps
    if not missing:
        return []
    return [f"{counted(missing, 'step')} ran unrecorded, with profiling disabled."]


def _execution(report: Report) -> list[str]:
    if report.num_steps == 0:
        return ["Nothing has run since the engine was loaded."]

    total_cycles = report.total_cycles
    link_cycles = report.link_cycles_per_tile

    def line(label: str, cycles: float) -> str:
        return (
            f"{label:<54}{cycles:,.1f} ({100 * cycles / total_cycles if total_cycles else 0:.1f}% "
            "of total)"
        )

    missing_note = ""
    if report.unknown_codelets:
        missing_note = f"; without {', '.join(report.unknown_codelets)}, of no estimate"
    return [
        f"{'Total cycles:':<54}{total_cycles:,.0f} (approx {report.total_seconds * 1e6:,.1f} "
        f"microseconds, modelled{missing_note})",
        line(
            "Tile average compute cycles (including idle threads):",
            float(report.compute_cycles_per_tile.mean()),
        ),
        line(
            "Tile average compute cycles (excluding idle threads):",
            float(report.active_cycles_per_tile.mean()),
        ),
        line("Tile average IPU exchange cycles:", float(report.exchange_cycles_per_tile.mean())),
        line("Tile average global exchange cycles:", float(link_cycles[LINKS].mean())),
        line("Tile average host exchange cycles:", float(link_cycles[HOST].mean())),
        *[line("Tile average streaming memory cycles:", float(link_cycles[STREAMING].mean()))]
        * bool(report.streaming_bytes),
        line("Tile average sync cycles:", float(report.sync_cycles_per_tile.mean())),
        *_ipus(report),
        f"{'Codelets of your own are priced:':<54}{report.target.codelet_prices}",
        f"{'These cycles rest on:':<54}"
        + ", ".join(f"{name} {100 * share:.1f}%" for name, share in report.grounds.items()),
        *_unrecorded(report),
    ]


def _ipus(report: Report, maximum: int = 16) -> list[str]:
    """Return lines on the work of each IPU, and on the IPU for which the others wait longest.

    At most `maximum` IPUs are listed. The result is empty if there is only one IPU.
    """
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
        longest_text = f"longest is its {row.held_by!r}"
        text = f"{sets[row.ipu]}, {row.held_cycles:,} cycles of them all; {longest_text}"
        answer = text if row.held_cycles else "none, no IPU waits"
        lines.append(f"{'The others wait longest for:':<54}{answer}")
    return lines


def _runs(report: Report, maximum: int = 12) -> list[str]:
    """Return a line for each program and run name, with the numbers of runs, steps and cycles.

    There are at most `maximum` such lines, followed by one more line if some were left out. Steps
    whose order was not recorded are not included.
    """
    # Maps each name to (runs, steps, cycles, cycles of host copies).
    by_name: dict[str, Array] = {}
    step_numbers = report.step_numbers
    host_cycles = np.zeros(len(report.executions), np.int64)
    for step_number in np.flatnonzero(report.executions).tolist():
        cost = report.step_cost(step_number)
        host_cycles[step_number] = 0 if cost.streaming else cost.host_cycles
    for run in report.runs:
        steps_of_run = slice(
            run.first, len(step_numbers) if run.last is None else min(run.last, len(step_numbers))
        )
        _, start_cycles, end_cycles = report.overlap.spans(
            steps_of_run.start, max(steps_of_run.start, steps_of_run.stop)
        )
        totals = by_name.setdefault(
            f"{run.name or 'run'} (program {run.program})", np.zeros(4, np.int64)
        )
        totals += (
            1,
            len(end_cycles),
            end_cycles.max() - start_cycles.min() if len(end_cycles) else 0,
            host_cycles[step_numbers[steps_of_run]].sum(),
        )
    lines = [
        f"{f'{name}:':<40}{f'{num_runs:,} x':>8}{num_steps:>12,} steps{cycles:>16,} cycles, "
        f"{host_copy_cycles:,} of them host copies"
        for name, (num_runs, num_steps, cycles, host_copy_cycles) in by_name.items()
    ]
    return lines[:maximum] + (
        [f"… and {len(lines) - maximum:,} more, see report.runs"] if len(lines) > maximum else []
    )


def _vertex_types(report: Report) -> list[str]:
    way_of_codelet = report.ways()
    by_codelet = report.cycles_by_codelet()
    instances = report.vertex_counts()
    if not by_codelet:
        return ["No vertex has run since the engine was loaded."]
    width = max(28, *(len(name) for name in by_codelet))
    lines = []
    for name, cycles in by_codelet.items():
        cycles_text = "no estimate" if name in report.unknown_codelets else f"{cycles:,}"
        way_note = WAYS.get(way_of_codelet[name], f"  (ran in {way_of_codelet[name]})")
        lines.append(
            f"{name:<{width}}{f'({instances[name]}':>6} instances):{cycles_text:>13}{way_note}"
        )
    return lines


def _variables(report: Report, maximum: int = 100) -> list[str]:
    memory = report.memory
    bytes_by_name = memory.by_variable()
    names = list(bytes_by_name)
    bytes_of_variables = list(bytes_by_name.values())
    groups = folded(names, bytes_of_variables)
    lines = ["Variable storage:"]
    for name, indices in groups[:maximum]:
        bytes_of_group = sum(bytes_of_variables[index] for index in indices)
        tiles = np.unique(np.concatenate([memory.tiles_of(names[index]) for index in indices]))
        place = (
            f"tile {tiles[0]}"
            if len(tiles) == 1
            else f"{len(tiles):,} tiles, {tiles[0]} to {tiles[-1]}"
        )
        lines.append(f"  {name:<32} {bytes_of_group:>12,} B on {place}")
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
    num_recorded = len(report.step_numbers)
    if num_recorded > maximum:
        lines.append(f"  … and {num_recorded - maximum:,} more")
    if report.steps_not_kept:
        lines.append(
            f"  … and {report.steps_not_kept:,} more, which are counted and whose order was not "
            "kept"
        )
    return lines
