"""The view `sweep`: the times of several runs as a curve that marks the fastest and the slowest.

The runs are those of one program on several machines, or of several versions of a program. Below
the curve, a bar for each run with a report shows what its average tile does. All times are
modelled.
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
from ipu_teach.show.scene import Painted, Scene, Still, label, number
from ipu_teach.show.shapes import LETTER
from ipu_teach.show.trend import trend
from ipu_teach.show.view import View
from ipu_teach.sweeps import Sweep
from ipu_teach.types import Array

# The keys are the same as those of `Report.proportions`.
PARTS = {
    "compute": palette.COMPUTE,
    "exchange": palette.EXCHANGE,
    "exchange between IPUs": palette.LINKS,
    "host exchange": palette.HOST,
    "streaming memory": palette.STREAMING,
    "sync and waiting": palette.WAIT.lettered("W", "sync and waiting"),
}
MOST = 64  # The maximum number of runs that are shown.
FEW = 6  # The minimum number of runs for which bars may be cut off at the top.
WIDE, HIGH = 652.0, 190.0  # The size of the picture.

# A run is (value on the axis, name of the run, report or number). The last item is None if the
# program of this run does not fit into the memory.
Run = tuple[str, str, Report | float | None]


@checks("parameter", "unit")
def sweep(
    found: Sweep | Mapping[object, Report | float],
    *,
    parameter: str = "",
    unit: str = "modelled cycles",
    weak: bool = False,
) -> View:
    """Which of several runs is quickest, and what takes the time of the slowest?

    `found` is the result of `ipu_teach.sweep`, or a dict of reports by the value in which they
    differ: `show.sweep({16: a, 32: b})`. `parameter` is the name of these values, such as "rows a
    tile". The runs are sorted by the values if all of them are numbers; otherwise, they keep their
    order. Instead of reports, the dict can contain numbers of 0 or more, which are measured in
    `unit`.

    With `weak`, the work is proportional to the number of tiles, so the ideal time is constant.
    Otherwise the work is fixed, and n times the tiles ideally take 1/n of the time. At most 64 runs
    are shown.

    :raises InvalidOptionError: if `found` is neither a sweep nor a dict, or if no run fits. The
        values of a dict must be reports of runs, or numbers of 0 or more.
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
    """Return `run` if it is a report, or the float of `run` if it is a non-negative number.

    :raises InvalidOptionError: if it is neither.
    """
    if not isinstance(run, Real) or isinstance(run, bool):
        return checked(run, "sweep")
    if not isfinite(run) or run < 0:
        raise InvalidOptionError(f"""show.sweep() was given {shown(run)} as a run, which is
            neither a report nor a number of 0 or more.
            next:  give reports, or numbers that are 0 or more.""")
    return float(run)


class _Times:
    """The times of the runs of a sweep, and what the runs spend them on.

    Attributes:
        reports: the runs that are reports, keyed by the index of the run; other runs are numbers.
        times: float[runs]: the time or the number of each run, or -1 if the run does not fit.
        parts: int64[runs, PARTS]: the time that the average tile spends on each part.
        part_names: a dict from the index of each part that occurs to its name.
        valid_runs: the indices of the runs that fit.
        best, worst: the indices of the runs with the smallest and the largest time.
        word_of: a dict from `best` and `worst` to words such as "quickest" and "slowest"; empty if
            all runs take the same time.
        rows: for each run, its name, its time and its parts, as texts.
        descriptions: a sentence about each run.
    """

    def __init__(self, runs: list[Run], unit: str) -> None:
        self.runs = runs
        self.reports = {i: run for i, (*_, run) in enumerate(runs) if isinstance(run, Report)}
        clocks = {report.target.tile_clock_frequency for report in self.reports.values()}
        self.unit = "modelled ns" if len(clocks) > 1 else "modelled cycles" if clocks else unit
        self.times: Array = np.array([run if isinstance(run, float) else -1.0 for *_, run in runs])
        shares = np.zeros((len(runs), len(PARTS)))
        for i, report in self.reports.items():
            self.times[i] = round(
                report.total_cycles
                * (1e9 / report.target.tile_clock_frequency if len(clocks) > 1 else 1)
            )
            shares[i] = [report.proportions[name] for name in PARTS]
        self.valid_runs = np.flatnonzero(self.times >= 0).tolist()
        self.best = min(self.valid_runs, key=self.times.__getitem__)
        self.worst = max(self.valid_runs, key=self.times.__getitem__)
        ends = np.round(np.cumsum(shares, axis=1) * self.times[:, None]).astype(np.int64)
        self.parts = np.diff(ends, axis=1, prepend=0)
        self.part_names = {i: name for i, name in enumerate(PARTS) if self.parts[:, i].any()}
        self._describe()

    def _describe(self) -> None:
        """Set the attributes that contain texts, such as `rows` and `descriptions`."""
        best, worst, times = self.best, self.worst, self.times
        self.best_word, self.worst_word, self.verb = (
            ("quickest", "slowest", "long") if self.reports else ("least", "most", "much")
        )
        is_spread = times[best] < times[worst]
        self.word_of = {best: self.best_word, worst: self.worst_word} if is_spread else {}
        self.rows: list[tuple[str, ...]] = [
            (f"{name}, does not fit", *[""] * (len(PARTS) + 1)) for _, name, _ in self.runs
        ]
        self.descriptions = [f"{name}." for name, *_ in self.rows]
        for i in self.valid_runs:
            split = ", ".join(f"{part} {self.parts[i, k]:,}" for k, part in self.part_names.items())
            row = self.rows[i] = (
                self.runs[i][1] + (f", {self.word_of[i]}" if i in self.word_of else ""),
                _figure(times[i]),
                *map("{:,}".format, self.parts[i].tolist()),
            )
            average = f"; the average tile: {split}" if split else ""
            self.descriptions[i] = f"{row[0]}: {row[1]} {self.unit}{average}."

    def texts(self) -> tuple[str, str]:
        """Return `(headline, note)` about the runs with the smallest and the largest time."""
        best, worst, times = self.best, self.worst, self.times
        if not self.word_of:
            figure = f"{self.rows[best][1]} {self.unit}"
            return f"All runs take the same, {figure}", f"each {figure}"
        ties = [(i, int((times == times[i]).sum()) - 1) for i in (best, worst)]
        fastest, longest_run = (
            self.runs[i][1] + (f" and {n:,} more" if n > 0 else "") for i, n in ties
        )
        ratio = f", {times[worst] / times[best]:.2f} times as {self.verb}" if times[best] else ""
        note = (
            f"{self.best_word} {fastest}, {self.rows[best][1]} {self.unit}; {self.worst_word} "
            f"{longest_run}, {self.rows[worst][1]}{ratio}"
        )
        if not self.reports:
            note += "; figures do not say what limits a run, reports do"
            headline = (
                f"Fewest {self.unit}: {self.rows[best][1]}, with {fastest}; most: "
                f"{self.rows[worst][1]}, with {longest_run}{ratio}"
            )
            return headline, note
        limit = f", {self._limit(worst)}"
        headline = (
            f"Quickest: {fastest}, {self.rows[best][1]} {self.unit}; slowest: {longest_run}"
            f"{ratio}{limit}"
        )
        return headline, note

    def _limit(self, run: int) -> str:
        """Return a phrase: on which part the average tile spends most time, and which percentage.

        The run with the index `run` must be a report.
        """
        largest = max(self.part_names, key=lambda part: int(self.parts[run, part]))
        share = 100 * self.parts[run, largest] / (self.times[run] or 1)
        return f"{share:.0f} % of it {self.part_names[largest]}"

    def ideal(self, weak: bool) -> Array | None:
        """Return float[runs]: the ideal time of each run, or None.

        It is None if all runs have the same number of tiles, or if some runs are not reports. With
        `weak`, the work is proportional to the number of tiles.
        """
        tiles = np.array([r.target.num_tiles for r in self.reports.values()])
        if len(self.reports) != len(self.valid_runs) or len(set(tiles.tolist())) <= 1:
            return None
        ideal = np.zeros(len(self.runs))
        ideal[self.valid_runs] = self.times[self.valid_runs[0]] * (1 if weak else tiles[0] / tiles)
        return ideal


def _drawn(times: _Times, ideal: Array | None, parameter: str) -> Painted:
    """Return the curve of the runs, with a bar for each run below it."""
    # Heights are integers: the times if the runs are reports, and otherwise ten-thousandths of the
    # largest number that is not cut off.
    runs, valid_runs, word_of = times.runs, times.valid_runs, times.word_of
    longest = float(times.times[times.worst])
    # Runs far above the others are cut off, so that the other runs can be compared.
    near = times.times[times.times <= 3 * np.median(times.times[valid_runs])].max()
    tall = longest if longest <= 2 * near or len(valid_runs) < FEW else float(near)
    top = _above(tall)
    scale = 1 if times.reports else 10_000 / (tall or 1)
    heights = np.where(times.times < 0, -1, np.round(times.times * scale)).astype(np.int64)
    cut = {i for i in valid_runs if times.times[i] > top}
    figures = {i: times.rows[i][1] for i in valid_runs}
    # All numbers are written if there is room for them.
    has_room = WIDE / len(runs) > LETTER * max(map(len, figures.values()))
    marked = {
        i: (f"{word_of[i]}, " if i in word_of else "") + figures[i] + (", cut" if i in cut else "")
        for i in dict.fromkeys((*word_of, *cut, *(valid_runs if has_room else ())))
    }
    shapes = trend(
        heights,
        top * scale,
        {i: times.parts[:, i] for i in times.part_names},
        [value for value, *_ in runs],
        marked=marked,
        width=WIDE,
        height=HIGH,
        axis=f"to {_figure(top)} {times.unit}" + ", more is cut" * bool(cut),
        foot=parameter,
        large=word_of,
        ideal=ideal,
    )
    return painted(
        "runs",
        "the line: whole runs" if times.part_names else "",
        WIDE,
        HIGH,
        pictures=[shapes],
        places=side_by_side(len(runs), WIDE, HIGH + 18),
        labels=times.descriptions,
        say="{label}",
    )


def _scene(runs: list[Run], parameter: str, unit: str, notes: tuple[str, ...], weak: bool) -> Scene:
    times = _Times(runs, unit)
    headline, note = times.texts()
    columns = ("run", times.unit, *PARTS) if times.part_names else ("run", times.unit)
    rows = times.rows
    ideal = times.ideal(weak)
    if ideal is not None:
        law = "the same" if weak else "1/n"
        same = "n times the tiles and the work, the same time"
        ideally = same if weak else "n times the tiles, 1/n of the time"
        notes += (f"The pale line is the ideal: {ideally}.",)
        best_ideal = _figure(round(ideal[times.best]))
        note += f"; ideal, {law} from {runs[times.valid_runs[0]][1]}: {best_ideal}"
        rows = [
            (*row, _figure(round(ideal[i])) if i in times.valid_runs else "")
            for i, row in enumerate(rows)
        ]
        columns += (f"ideal, {law}",)
    panels = Panels()
    panels.put(_drawn(times, ideal, parameter), left=34)
    title = f"{counted(len(runs), 'run')} side by side"
    has_parts = bool(times.part_names)
    notes += ("Under the line stands each run as its average tile spends it.",) * has_parts
    return panels.scene(
        "sweep",
        headline,
        f"{title}: {note}.",
        foot=38,
        codes=tuple(PARTS.values()) if has_parts else (palette.PAPER,),
        stills=(Still("the runs", note, 0, 0, first=True),),
        table=(columns, (row[: len(columns)] for row in rows)),
        notes=notes,
    )


def _above(maximum: float) -> float:
    """Return the top of an axis: a round number that is at least 15 % above `maximum`.

    The space above the curve is for labels.
    """
    step = 10.0 ** floor(log10(maximum)) / 2 if maximum else 1.0
    return -(-1.15 * maximum // step) * step or 1.0


def _figure(value: float) -> str:
    """Return a number as text, with four digits if it is small and not an integer."""
    return number(value) if value >= 1000 or float(value).is_integer() else f"{value:.4g}"
