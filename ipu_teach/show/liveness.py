"""The view `liveness`: the content of memory at every step of the programs, and the variables that
are needed.

Above are the bytes of all tiles together, below them those of the fullest tile, step by step. Under
the curves is a lane for each of the largest variables that are not always live, with the steps at
which they are. The steps are the leaves of the programs, each once, however often it runs; on an
axis of cycles each is as wide as one execution of it takes. Every number is modelled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil

import numpy as np

from ipu_teach._support.flags import checks
from ipu_teach.cost.ledger import BUFFERS, LANDING, VARIABLES
from ipu_teach.errors import InvalidOptionError, counted, did_you_mean, shown
from ipu_teach.report import Report
from ipu_teach.report.query import VariableRow, folded
from ipu_teach.show import palette
from ipu_teach.show.pack import pack
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import (
    At,
    checked,
    linked,
    no_time,
    rests,
    seen_whole,
    tiles_named,
)
from ipu_teach.show.scene import Bar, Curve, Drawing, Lanes, Scene, Series, Still, Table, label
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

ALWAYS, COMING, BUFFER = range(3)
CODES = (
    palette.STEADY,
    palette.COMING.lettered("V"),
    palette.MEMORY[BUFFERS].lettered("B", "buffers of a step"),
    palette.FIRST,
    palette.SECOND,
)
ONE = 3
TWO = 4

MOST_STEPS = 2000  # of the programs; more are shown several to a place
MOMENTS = 300  # of an axis of cycles
AXES = STEPS, CYCLES = ("steps", "cycles")
MOST_LANES = 12  # variables
MOST_LISTED = 40  # variables below the picture
LISTED = ("Constants", "Vertex state")  # categories of what the list has as variables
MOST_NAMED = 4  # variables in the words for a step
LEFT = 150.0
HIGH = 104.0  # height of a curve
PITCH = 15.0  # of a lane


@checks("axis")
def liveness(
    report: Report,
    other: Report | None = None,
    *,
    at: At = None,
    always: bool = True,
    axis: str = STEPS,
) -> View:
    """In which step is most memory needed, and by which variables?

    The view shows the live bytes at every step of the programs in `report`, or those of two reports
    in one picture. Nothing needs to have run. `always=False` leaves out the variables that are
    always live. `axis="cycles"` makes a step as wide as the modelled cycles of one execution, so
    that two programs can be compared in time.

    Programs of more than 2,000 steps, and of fewer if the scene would be larger than 150 kB, are
    shown with several steps at a place, of which the fullest counts; the view says so. `at` is
    where the picture of one report rests, the number of a superstep of the run or the name of its
    step; by default where most bytes are live.

    Raises `InvalidOptionError` if an argument is not a report, for programs without a step, for a
    step that did not run, and for another axis.
    """
    seen_whole("liveness", other, at)
    if axis not in AXES:
        raise InvalidOptionError(f"""show.liveness() was given axis={shown(axis)}.
            next:  {did_you_mean(axis, AXES)}Give "steps" or "cycles".""")
    runs = [
        _Run(checked(r, "liveness", must_have_run=False), always, axis == CYCLES)
        for r in (report, *([] if other is None else [other]))
    ]
    if not all(run.places for run in runs):
        raise InvalidOptionError("""show.liveness() was given a report whose programs have no step.
            next:  compile a program that copies or executes something.""")
    if not all(run.edges[-1] for run in runs):
        raise no_time("liveness")
    return fitting(partial(_scene, runs, at), MOMENTS if axis == CYCLES else MOST_STEPS)


@dataclass(frozen=True)
class _Named:
    """The variables of one name: their most bytes at one step, and the ranges of steps at which
    some of them are live."""

    name: str
    bytes: int
    ranges: list[tuple[int, int]]

    @classmethod
    def of(cls, name: str, rows: list[VariableRow], places: int) -> _Named:
        """Return the variables of one name as one entry."""
        change: Array = np.zeros(places + 1, np.int64)
        for row in rows:
            for first, last in row.ranges:
                change[first] += row.bytes
                change[last] -= row.bytes
        live = np.cumsum(change)
        edges = np.flatnonzero(np.diff((live > 0).astype(np.int8), prepend=0))
        ranges = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
        called = f"{name}, {len(rows)} of them" if len(rows) > 1 else name
        return cls(called, int(live.max()), ranges)


@dataclass(frozen=True, eq=False)
class _Run:
    """The bytes of one report by step, with or without those that are always live, on an axis of
    steps or of cycles."""

    report: Report
    always: bool
    cycles: bool

    @property
    def places(self) -> int:
        """The number of leaves of the programs."""
        return len(self.report.memory.liveness.places)

    @cached_property
    def names(self) -> list[str]:
        """The kind and name of each step."""
        return [label(f"{n.kind} {n.name}".strip(), 48) for n in self.report.memory.liveness.places]

    @cached_property
    def fullest(self) -> Array:
        """int64[places]: the tile with the most bytes at each step."""
        return self.report.memory.fullest_tile_by_place

    @cached_property
    def bytes(self) -> tuple[Array, Array]:
        """Two int64[3, places], of all tiles and of the fullest tile: the bytes that are always
        live, of variables that come and go, and of buffers. Gaps are included."""
        memory = self.report.memory
        path = self.report.target.data_path_width // 8
        with_gaps = -(-memory.size // path) * path
        all_bytes = np.zeros((3, self.places), np.int64)
        passing_bytes = np.zeros((3, self.places), np.int64)
        always = memory.always_live_bytes_per_tile
        all_bytes[ALWAYS] = always.sum()
        passing_bytes[ALWAYS] = always[self.fullest]
        for place, passing in enumerate(memory.passing):
            for bytes_of in passing.values():
                all_bytes[BUFFER, place] += bytes_of.sum()
                passing_bytes[BUFFER, place] += bytes_of[self.fullest[place]]
        all_bytes[COMING] = (
            np.array([size for _, size in memory.bytes_by_place()], np.int64) - all_bytes[BUFFER]
        )
        for place, tile in enumerate(self.fullest.tolist()):
            bytes_of = memory.tile == tile
            passing_bytes[COMING, place] = with_gaps[
                bytes_of & memory.liveness.live[place, memory.variable]
            ].sum()
            always_here = bytes_of & memory.liveness.always[memory.variable]
            passing_bytes[ALWAYS, place] += (with_gaps - memory.size)[always_here].sum()
        return all_bytes, passing_bytes

    def fullest_text(self, place: int) -> str:
        """Return the tiles that have the most bytes at a step, as a text."""
        memory = self.report.memory
        rows = memory.liveness.live[place, memory.variable]
        per_tile = memory.always_live_bytes_per_tile + sum(memory.passing[place].values())
        per_tile = per_tile + np.bincount(
            memory.tile[rows], memory.size[rows], memory.num_tiles
        ).astype(np.int64)
        return tiles_named(np.flatnonzero(per_tile == per_tile.max()))

    @cached_property
    def codes(self) -> tuple[int, ...]:
        """The codes of the bytes that are drawn."""
        return (ALWAYS, COMING, BUFFER) if self.always else (COMING, BUFFER)

    @cached_property
    def height(self) -> tuple[Array, Array]:
        """Two int64[places], of all tiles and of the fullest tile: the bytes that are drawn."""
        all_bytes, passing_bytes = (part[list(self.codes)].sum(axis=0) for part in self.bytes)
        return all_bytes, passing_bytes

    @cached_property
    def edges(self) -> Array:
        """int64[places + 1]: the position on the axis at which each step begins, and the end."""
        if not self.cycles:
            return np.arange(self.places + 1)
        profile = self.report.profile
        places = self.report.memory.liveness.places
        cycles = [profile.cost(number).cycles for number in range(len(profile.steps))]
        for step in np.unique(self.report.step_numbers).tolist():  # or as they were measured in it
            cycles[profile.leaf(step).step] = max(cycles[profile.leaf(step).step], cycles[step])
        return np.cumsum([0, *(cycles[place.step] for place in places)])

    def shown(self, which: int, per_column: float, count: int) -> Array:
        """Return int64[count]: the step that each place of the axis shows; -1 after the last. Of
        several steps at a place, it is the one with the most bytes, of all tiles (`which` 0)
        or of the fullest tile (1)."""
        begin = np.arange(count) * per_column
        begin = begin[begin < self.edges[-1]]
        first = np.searchsorted(self.edges, begin, "right") - 1
        last = np.maximum(first + 1, np.searchsorted(self.edges, begin + per_column - 1e-6))
        ends = zip(first.tolist(), last.tolist(), strict=True)
        positions = [a + int(np.argmax(self.height[which][a:b])) for a, b in ends]
        return np.pad(positions, (0, count - len(positions)), constant_values=-1)

    def peak(self) -> str:
        """Return a text with the steps at which all tiles, and the fullest tile, need most."""
        all_bytes, passing_bytes = self.height
        at = int(np.argmax(all_bytes))
        worst = int(np.argmax(passing_bytes))
        always = self.bytes[0][ALWAYS, at]
        text = (
            f"most at step {at + 1} ({self.names[at]}): {all_bytes[at]:,} bytes on all tiles, "
            + (
                f"{always:,} of them always live"
                if self.always
                else f"without {always:,} always live"
            )
        )
        return (
            f"{text}; the fullest tile is {self.fullest[worst]} at step {worst + 1}, with "
            f"{passing_bytes[worst]:,} bytes"
        )

    @cached_property
    def live(self) -> list[str]:
        """The largest variables that come and go, with their bytes, as a text for each step."""
        positions = list[str]()
        for place in range(self.places):
            bytes_of = self.report.memory.live_at(place)
            sizes = list(bytes_of.values())
            groups = folded(list(bytes_of), sizes)
            rows = [(name, sum(sizes[i] for i in group)) for name, group in groups]
            positions.append(self._named(sorted(rows, key=lambda row: -row[1])))
        return positions

    @staticmethod
    def _named(positions: list[tuple[str, int]]) -> str:
        named = ", ".join(f"{label(name, 24)} {size:,}" for name, size in positions[:MOST_NAMED])
        rest = f" and {len(positions) - MOST_NAMED} more" if len(positions) > MOST_NAMED else ""
        return named + rest or "none"

    def ranges(self, width: int) -> list[tuple[str, int, list[tuple[int, int]]]]:
        """Return (name, bytes, ranges of steps) of the `width` largest variables that come and
        go."""
        return [(label(lane.name, 20), lane.bytes, lane.ranges) for lane in self.passing[:width]]

    @cached_property
    def passing(self) -> list[_Named]:
        """The variables that come and go, by name, the largest first."""
        groups: dict[str, list[VariableRow]] = {}
        for row in self.report.variables.folded():
            if row.bytes and row.ranges:
                groups.setdefault(row.name, []).append(row)
        named = [_Named.of(name, rows, self.places) for name, rows in groups.items()]
        return sorted(named, key=lambda passing_bytes: -passing_bytes.bytes)

    def listed(self, per_column: float, count: int) -> tuple[object, dict[int, list[int]], object]:
        """Return the list below the picture, for the player: [name, bytes, ranges of places] of
        the largest variables and of all else that is always live; by place, the number and
        the bytes of further variables; the bytes of buffers at each of `count` places. A
        place is `per_column` wide. The bytes of a step are the sum of all."""
        rows = list[tuple[str, int, list[tuple[int, int]]]]()
        less = dict[int, list[int]]()
        for name, bytes_of in self.report.memory.bytes_per_tile_by_category.items():
            # constants and the state of vertices are variables by their names
            if bytes_of.any() and name not in (VARIABLES, *LISTED, BUFFERS, LANDING):
                always = f"{palette.MEMORY[name].name}, always"
                rows.append((always, int(bytes_of.sum()), [(0, count)]))
        others = len(rows)
        for row in (v for v in self.report.variables.folded().largest("bytes", 10**9) if v.bytes):
            parts = ((0, self.places),) if row.always_live else row.ranges
            places = [
                (
                    int(self.edges[first] / per_column + 1e-6),
                    ceil(self.edges[last] / per_column - 1e-6),
                )
                for first, last in parts
            ]
            called = label(row.name, 40) + ", always" * row.always_live
            same_row = next((i for i, r in enumerate(rows) if (r[0], r[2]) == (called, places)), -1)
            if same_row >= 0:  # variables of one name, live at the same time
                rows[same_row] = (called, rows[same_row][1] + row.bytes, places)
                continue
            if parts and len(rows) < MOST_LISTED + others:
                rows.append((called, row.bytes, places))
                continue
            for place in {place for first, last in places for place in range(first, last)}:
                few, size = less.get(place, (0, 0))
                less[place] = [few + 1, size + row.bytes]
        rows.sort(key=lambda row: -row[1])
        return rows, less, pack(_at(self.bytes[0][BUFFER], self.shown(0, per_column, count)))


def _at(values: Array, steps: Array) -> Array:
    """Return the values at some steps; 0 for step -1."""
    return np.where(steps < 0, 0, values[steps])


# name, bytes, ranges of steps, number of its run
Lane = tuple[str, int, list[tuple[int, int]], int]


def _scene(runs: list[_Run], at: At, max_places: int) -> Scene:
    """Return the scene, with at most `max_places` places on its axis."""
    span = max(int(run.edges[-1]) for run in runs)
    cycles = runs[0].cycles
    steps = -(-span // max_places)  # at a place
    per_column = span / max_places if cycles else float(steps)
    count = max_places if cycles else -(-span // steps)
    panels = Panels()
    if not cycles and steps > 1:
        panels.notes.append(
            f"A place stands for {steps} steps of the programs and shows the fullest of them."
        )
    lanes = _lanes(runs, panels)
    for which, (name, heading) in enumerate(_headings(runs)):
        curve = _curve(name, heading, runs, which, per_column=per_column, count=count)
        panels.put(curve, left=LEFT, high=HIGH)
        panels.below()
    panels.below(46)
    if lanes:
        _put_lanes(panels, lanes, runs, span)
    places_of = np.stack([run.shown(0, per_column, count) for run in runs], axis=1)
    pairs = [tuple(pair) for pair in places_of.tolist()]
    places = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}  # the distinct pairs
    heights = [
        _at(run.height[0], places_of_run)
        for run, places_of_run in zip(runs, places_of.T, strict=True)
    ]
    titles = ["Live"] if len(runs) == 1 else ["First report, live", "Second report, live"]
    scene = panels.scene(
        "liveness",
        _title(runs),
        _sentence(runs),
        foot=22,
        codes=CODES,
        stills=tuple(_still(runs, at_once, bool(lanes)) for at_once in places),
        frames=np.array([places[pair] for pair in pairs]),
        table=_table(runs),
        poster=int(np.argmax(np.max(heights, axis=0))),
        group="moment" if cycles else "step",
        data={
            "live": [
                [title, *run.listed(per_column, count)]
                for title, run in zip(titles, runs, strict=True)
            ]
        },
    )
    if len(runs) > 1:
        return scene
    report = runs[0].report
    leaves = enumerate(report.memory.liveness.places)
    begins = {node.step: min(count - 1, int(runs[0].edges[i] / per_column)) for i, node in leaves}
    resting = rests(linked(scene, report, parts=begins), report, at, parts=begins)
    if at is None:
        return resting
    place = int(places_of[resting.poster, 0])
    title = (
        f"In step {place + 1}, {runs[0].names[place]}, {runs[0].height[0][place]:,} bytes are live"
    )
    return replace(resting, title=title)


def _lanes(runs: list[_Run], panels: Panels) -> list[Lane]:
    """Return the lanes of the largest variables that come and go, in the order in which they begin
    to live. Add a note if there are more variables."""
    lanes = [
        (f"{name} ({'ab'[which]})" if len(runs) > 1 else name, size, parts, which)
        for which, run in enumerate(runs)
        for name, size, parts in run.ranges(MOST_LANES // len(runs))
    ]
    lanes.sort(key=lambda lane: (lane[2][0], -lane[1]))
    left_out = sum(len(run.passing) for run in runs) - len(lanes)
    if left_out > 0:
        panels.notes.append(
            f"{left_out:,} more that come and go, none of them larger, have no lane of their own."
        )
    return lanes


def _headings(runs: list[_Run]) -> list[tuple[str, str]]:
    """Return (name, heading) of the curves of all tiles and of the fullest tile."""
    everything = "bytes of all tiles together"
    fullest = "bytes of the fullest tile"
    if not runs[0].always:
        rest = ", of what comes and goes"
        return [("all tiles", everything + rest), ("fullest tile", fullest + rest)]
    limits = [run.report.target.bytes_per_tile for run in runs]
    if limits[0] == limits[-1]:
        fullest += f", which has {limits[0]:,}"
    else:
        owner = "second" if limits[-1] < limits[0] else "first"
        fullest += f"; line: the {owner} run's limit, {min(limits):,}"
    return [("all tiles", everything), ("fullest tile", fullest)]


def _put_lanes(panels: Panels, lanes: list[Lane], runs: list[_Run], span: int) -> None:
    """Put a lane for each variable, on an axis of `span` steps or cycles."""
    live = Lanes(
        "live",
        "the largest variables that come and go",
        count=len(lanes),
        labels=tuple(name for name, *_ in lanes),
        say="{label}: {bytes} bytes on all tiles together",
        values={"bytes": np.array([size for _, size, *_ in lanes], np.int64)},
        whole=True,
    )
    drawing = Drawing(
        span, _lane_bars(lanes, runs), "modelled cycles" if runs[0].cycles else "steps"
    )
    panels.put(live, left=LEFT, high=PITCH * len(lanes), drawing=drawing)


def _curve(
    name: str, heading: str, runs: list[_Run], which: int, per_column: float, count: int
) -> Curve:
    series: list[Series] = []
    at = [run.shown(which, per_column, count) for run in runs]
    if len(runs) == 1:
        below: Array = np.zeros(count, np.int64)
        for code in runs[0].codes:
            bytes_of = _at(runs[0].bytes[which][code], at[0])
            if bytes_of.any():
                series.append(Series(CODES[code].name, code, below + bytes_of, below))
                below = below + bytes_of
        top = int(below.max())
    else:
        totals = [_at(run.height[which], steps) for run, steps in zip(runs, at, strict=True)]
        series = [
            Series("first report", ONE, totals[0], np.zeros(count, np.int64)),
            Series("second report", TWO, totals[1], None),
        ]
        top = max(int(t.max()) for t in totals)
    return Curve(
        name,
        heading,
        count=count,
        top=max(1, top),
        unit="bytes",
        series=tuple(series),
        limit=_limit(runs) if which == 1 and runs[0].always else 0,
        named=which == 1,
        each=per_column if runs[0].cycles else 0.0,
    )


def _limit(runs: list[_Run]) -> int:
    """Return the bytes of a tile; of two machines, the bytes of the smaller one."""
    return min(run.report.target.bytes_per_tile for run in runs)


def _lane_bars(lanes: list[Lane], runs: list[_Run]) -> tuple[Bar, ...]:
    """Return the bars of the lanes: bar k has the k-th range of every lane."""
    positions = []
    code: int | Array = (
        COMING if len(runs) == 1 else np.array([(ONE, TWO)[which] for *_, which in lanes])
    )
    for number in range(max(len(parts) for _, _, parts, _ in lanes)):
        ends = [
            runs[which].edges[list(parts[number])] if number < len(parts) else (0, 0)
            for _, _, parts, which in lanes
        ]
        start, stop = np.array(ends).T
        positions.append(Bar(code, start, stop - start, 0))
    return tuple(positions)


def _still(runs: list[_Run], steps: tuple[int, ...], lanes: bool) -> Still:
    """Return the still of a place on the axis. `steps` has the step of each report there; -1 if
    the report has none."""
    parts = []
    head = ""
    spans = [(r.edges[at], r.edges[at + 1]) for r, at in zip(runs, steps, strict=True) if at >= 0]
    for which, (run, at) in enumerate(zip(runs, steps, strict=True)):
        if at < 0:
            over = "is at its end" if run.cycles else "has no such step"
            parts.append(f"{'ab'[which]} {over}")
            continue
        fullest = run.fullest_text(at)
        each = " each" if fullest.startswith("tiles") else ""
        words = (
            f"{run.height[0][at]:,} bytes on all tiles, {run.height[1][at]:,} on {fullest}{each}"
            f"{'' if run.always else ', without what is always live'}; of what comes and goes: "
            f"{run.live[at]}"
        )
        parts.append(f"{'ab'[which]}: {words}" if len(runs) > 1 else words)
        head = head or run.names[at]
    begin, end = float(max(a for a, _ in spans)), float(min(b for _, b in spans))
    channel = {"live": (0, begin, end)} if lanes else {}
    return Still(
        head, "; ".join(parts), ALWAYS if len(runs) == 1 else ONE, 0, first=True, lanes=channel
    )


def _title(runs: list[_Run]) -> str:
    peaks = [int(run.height[0].max()) for run in runs]
    if len(runs) == 1:
        height = runs[0].height[0]
        at = int(np.argmax(height))
        steps = tiles_named(np.flatnonzero(height == height[at]) + 1, "step")
        always = 100 * int(runs[0].bytes[0][ALWAYS, at]) / (peaks[0] or 1)
        rest = f", {always:.1f} % of them always live"
        if not runs[0].always:
            rest = " beside what is always live"
        first = "first " if steps.startswith("steps") else ""
        return f"Most is live in {steps}, {first}{runs[0].names[at]}: {peaks[0]:,} bytes{rest}"
    change = 100 * abs(peaks[1] - peaks[0]) / peaks[0] if peaks[0] else 0.0
    kind = "memory" if runs[0].always else "memory that comes and goes"
    if not change:
        return f"Both runs need equally much {kind} at their peaks"
    comparison = "more" if peaks[1] > peaks[0] else "less"
    title = f"At its peak the second run needs {change:.1f} % {comparison} {kind} than the first"
    fits = [int(run.height[1].max()) <= _limit(runs) for run in runs]
    if runs[0].always and fits[0] != fits[1]:
        title += f"; only the {('first', 'second')[fits[1]]} fits in {_limit(runs):,} bytes a tile"
    return title


def _sentence(runs: list[_Run]) -> str:
    if len(runs) == 1:
        return (
            f"What is live at {counted(runs[0].places, 'step')} of the programs, modelled: "
            f"{runs[0].peak()}."
        )
    parts = "; ".join(
        f"{'ab'[which]}, {counted(run.places, 'step')}, needs {run.peak()}"
        for which, run in enumerate(runs)
    )
    peaks = [int(run.height[0].max()) for run in runs]
    change = f", {100 * (peaks[1] - peaks[0]) / peaks[0]:+.1f} % at the peak" if peaks[0] else ""
    if runs[0].cycles:
        a, b = (int(run.edges[-1]) for run in runs)
        change += f", {100 * (b - a) / a:+.1f} % of {a:,} modelled cycles"
    return f"What is live in two reports, modelled: {parts}{change}."


def _table(runs: list[_Run]) -> Table:
    if len(runs) == 1:
        run = runs[0]
        rows = tuple(
            (
                f"{i + 1}",
                run.names[i],
                *(f"{run.bytes[0][code, i]:,}" for code in (ALWAYS, COMING, BUFFER)),
                f"{run.fullest[i]}",
                f"{run.bytes[1][:, i].sum():,}",
                run.live[i],
            )
            for i in range(run.places)
        )
        return (
            "step",
            "what",
            "always live",
            "variables that come and go",
            "buffers",
            "fullest tile",
            "bytes there",
            "live variables",
        ), rows
    positions = []
    for i in range(max(run.places for run in runs)):
        cells = [f"{i + 1}"]
        for run in runs:
            is_inside = i < run.places
            cells += (
                [run.names[i], f"{run.bytes[0][:, i].sum():,}", f"{run.bytes[1][:, i].sum():,}"]
                if is_inside
                else ["", "", ""]
            )
        positions.append(tuple(cells))
    heads = tuple(
        f"{caption} ({which})"
        for which in "ab"
        for caption in ("what", "bytes on all tiles", "bytes of the fullest tile")
    )
    return ("step", *heads), tuple(positions)
