"""The view `sweep`: the times of several runs as a curve, with the quickest and the slowest marked.

The runs are one program on several machines, or in several forms. Below the line, each run with a
report is shown as its average tile spends it. Every time is modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, isfinite, log10
from numbers import Real

import numpy as np

from ipu_teach._support.flags import checks
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.report import Report
from ipu_teach.show import palette
from ipu_teach.show.panels import Panels, painted, side_by_side
from ipu_teach.show.report_facts import checked
from ipu_teach.show.scene import Scene, Still, label, number
from ipu_teach.show.shapes import LETTER
from ipu_teach.show.trend import trend
from ipu_teach.show.view import View
from ipu_teach.sweeps import Sweep
from ipu_teach.types import Array

# by the name in `Report.proportions`
PARTS = {
    "compute": palette.COMPUTE,
    "exchange": palette.EXCHANGE,
    "exchange between IPUs": palette.LINKS,
    "host exchange": palette.HOST,
    "streaming memory": palette.STREAMING,
    "sync and waiting": palette.WAIT.lettered("W", "sync and waiting"),
}
MOST = 64  # runs
FEW = 6  # with fewer runs, none is cut off at the top
WIDE, HIGH = 652.0, 190.0  # of the picture

# a run's value on the axis, its name, and its report or its figure; None if it does not fit
Run = tuple[str, str, Report | float | None]


@checks("parameter", "unit")
def sweep(
    found: Sweep | Mapping[object, Report | float],
    *,
    parameter: str = "",
    unit: str = "modelled cycles",
    weak: bool = False,
) -> View:
    """Which of several runs is quickest, and what limits the others?

    The view shows the result of `sweep`, or reports by the value that distinguishes them:
    `show.sweep({16: a, 32: b})`. `parameter` names these values ("rows a tile"). Runs are in the
    order given, or in that of their values if all are numbers. In place of reports there may be
    numbers, in `unit`. With `weak`, a machine of n times the tiles has n times the work, and
    ideally takes as long. Up to 64 runs are shown.

    :raises InvalidOptionError: for another argument, if there is no run, or for a report in which
        nothing has run, unless the sweep says that it does not fit.
    """
    runs: list[Run]
    if isinstance(found, Sweep):
        rows = sorted(
            zip(found.counts, found.reports, found.fits, strict=True), key=lambda row: row[0]
        )
        runs = [
            (f"{n:,}", counted(n, found.what), report if fits and report.num_steps else None)
            for n, report, fits in rows
        ]
        parameter = parameter or f"{found.what}s"
    elif isinstance(found, Mapping):
        keys = list(found)
        if all(isinstance(key, Real) for key in keys):
            keys.sort()
        runs = [
            (label(key, 24), label(f"{parameter} = {key}" if parameter else key, 40), _checked(run))
            for key, run in ((key, found[key]) for key in keys)
        ]
    else:
        raise InvalidOptionError(f"""show.sweep() was given {shown(found)}, which is not a sweep.
            next:  give it sweep(build, num_tiles=[…]), or reports by name: {{"16 rows": a, "32
            rows": b}}.""")
    if all(run is None for *_, run in runs[:MOST]):
        raise InvalidOptionError(
            "show.sweep() was given no run.", next_step="give it at least one report."
        )
    notes = (f"The picture shows {MOST} of {len(runs):,}.",) if len(runs) > MOST else ()
    return View(_scene(runs[:MOST], parameter, unit, notes, weak=weak))


def _checked(run: object) -> Report | float:
    """Return a report or a figure as it was given.

    :raises InvalidOptionError: if it is neither, or a figure below 0.
    """
    if not isinstance(run, Real) or isinstance(run, bool):
        return checked(run, "sweep")
    if not isfinite(run) or run < 0:
        raise InvalidOptionError(f"""show.sweep() was given the figure {shown(run)}.
            next:  give reports, or numbers that are 0 or more.""")
    return float(run)


def _scene(runs: list[Run], parameter: str, unit: str, notes: tuple[str, ...], weak: bool) -> Scene:
    reports = {i: run for i, (*_, run) in enumerate(runs) if isinstance(run, Report)}
    clocks = {report.target.tile_clock_frequency for report in reports.values()}
    unit = "modelled ns" if len(clocks) > 1 else "modelled cycles" if clocks else unit
    times: Array = np.array([run if isinstance(run, float) else -1.0 for *_, run in runs])
    shares = np.zeros((len(runs), len(PARTS)))
    for i, report in reports.items():
        times[i] = round(
            report.total_cycles
            * (1e9 / report.target.tile_clock_frequency if len(clocks) > 1 else 1)
        )
        shares[i] = [report.proportions[name] for name in PARTS]
    valid_runs = np.flatnonzero(times >= 0).tolist()
    best = min(valid_runs, key=times.__getitem__)
    worst = max(valid_runs, key=times.__getitem__)
    parts = np.diff(
        np.round(np.cumsum(shares, axis=1) * times[:, None]).astype(np.int64), axis=1, prepend=0
    )
    part_names = {i: name for i, name in enumerate(PARTS) if parts[:, i].any()}
    best_word, worst_word, verb = (
        ("quickest", "slowest", "long") if reports else ("least", "most", "much")
    )
    word_of = {best: best_word, worst: worst_word} if times[best] < times[worst] else {}
    rows = [(f"{name}, does not fit", *[""] * (len(PARTS) + 1)) for _, name, _ in runs]
    descriptions = [f"{name}." for name, *_ in rows]
    for i in valid_runs:
        split = ", ".join(f"{part} {parts[i, k]:,}" for k, part in part_names.items())
        rows[i] = (
            runs[i][1] + (f", {word_of[i]}" if i in word_of else ""),
            _figure(times[i]),
            *map("{:,}".format, parts[i].tolist()),
        )
        descriptions[i] = (
            f"{rows[i][0]}: {rows[i][1]} {unit}{f'; the average tile: {split}' if split else ''}."
        )
    ties = [(i, int((times == times[i]).sum()) - 1) for i in (best, worst)]
    fastest, longest_run = (runs[i][1] + (f" and {n:,} more" if n > 0 else "") for i, n in ties)
    ratio = f", {times[worst] / times[best]:.2f} times as {verb}" if times[best] else ""
    note = (
        f"{best_word} {fastest}, {rows[best][1]} {unit}; {worst_word} {longest_run}, "
        f"{rows[worst][1]}{ratio}"
        if word_of
        else f"each {rows[best][1]} {unit}"
    )
    # Heights are whole numbers: cycles for reports, and for other figures ten-thousandths of the
    # largest one that is not cut.
    longest = float(times[worst])
    # of several runs, those far above the others are cut off, so that the others can be compared
    near = times[times <= 3 * np.median(times[valid_runs])].max()
    tall = longest if longest <= 2 * near or len(valid_runs) < FEW else float(near)
    top = _above(tall)
    scale = 1 if reports else 10_000 / (tall or 1)
    heights = np.where(times < 0, -1, np.round(times * scale)).astype(np.int64)
    pitch = WIDE / len(runs)
    cut = {i for i in valid_runs if times[i] > top}
    # all figures, if there is room for them
    has_room = pitch > LETTER * max(len(rows[i][1]) for i in valid_runs)
    marked = {
        i: (f"{word_of[i]}, " if i in word_of else "") + rows[i][1] + (", cut" if i in cut else "")
        for i in dict.fromkeys((*word_of, *cut, *(valid_runs if has_room else ())))
    }
    bars = {i: parts[:, i] for i in part_names}
    axis_labels = [value for value, *_ in runs]
    axis = f"to {_figure(top)} {unit}" + ", more is cut" * bool(cut)
    heading = "the line: whole runs" if part_names else ""
    # the ideal time with as many times the tiles
    tiles = np.array([r.target.num_tiles for r in reports.values()])
    ideal: Array | None = None
    law = "the same" if weak else "1/n"
    if len(reports) == len(valid_runs) and len(set(tiles.tolist())) > 1:
        ideal = np.zeros(len(runs))
        ideal[valid_runs] = times[valid_runs[0]] * (1 if weak else tiles[0] / tiles)
        same = "n times the tiles and the work, the same time"
        ideally = same if weak else "n times the tiles, 1/n of the time"
        notes += (f"The pale line is the ideal: {ideally}.",)
        note += f"; ideal, {law} from {runs[valid_runs[0]][1]}: {_figure(round(ideal[best]))}"
        rows = [
            (*row, _figure(round(ideal[i])) if i in valid_runs else "")
            for i, row in enumerate(rows)
        ]
    panels = Panels()
    places = side_by_side(len(runs), WIDE, HIGH + 18)
    shapes = trend(
        heights,
        top * scale,
        bars,
        axis_labels,
        marked=marked,
        width=WIDE,
        height=HIGH,
        axis=axis,
        foot=parameter,
        large=word_of,
        ideal=ideal,
    )
    panels.put(
        painted(
            "runs",
            heading,
            WIDE,
            HIGH,
            pictures=[shapes],
            places=places,
            labels=descriptions,
            say="{label}",
        ),
        left=34,
    )
    columns = ("run", unit, *PARTS) if part_names else ("run", unit)
    columns += (f"ideal, {law}",) if ideal is not None else ()
    title = f"{counted(len(runs), 'run')} side by side"
    headline = f"All runs take the same, {rows[best][1]} {unit}"
    if word_of:
        headline = f"{best_word.capitalize()}: {fastest}; {worst_word}: {longest_run}{ratio}"
    notes += ("Under the line stands each run as its average tile spends it.",) * bool(part_names)
    table = columns, (row[: len(columns)] for row in rows)
    still = Still("the runs", note, 0, 0, first=True)
    codes = tuple(PARTS.values()) if part_names else (palette.PAPER,)
    return panels.scene(
        "sweep",
        headline,
        f"{title}: {note}.",
        foot=38,
        codes=codes,
        stills=(still,),
        table=table,
        notes=notes,
    )


def _above(maximum: float) -> float:
    """Return a round number above the highest point, with room for texts."""
    step = 10.0 ** floor(log10(maximum)) / 2 if maximum else 1.0
    return -(-1.15 * maximum // step) * step or 1.0


def _figure(value: float) -> str:
    """Return a figure as text, with four digits if it is small and not whole."""
    return number(value) if value >= 1000 or float(value).is_integer() else f"{value:.4g}"
