"""The view `liveness`: what is in memory at every step of the programs, and which variables need to
be.

Above the bytes of all tiles together, below them those of the fullest tile, step by step; under the
curves a lane for each of the largest variables that come and go, with the steps at which they are
live. The steps are the leaves of the programs, each once, however often it runs. Every number is
modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ipu_teach.cost.ledger import BUFFERS, LANDING, VARIABLES
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Report
from ipu_teach.report.query import VariableRow, folded
from ipu_teach.show import palette
from ipu_teach.show.pack import pack
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import checked, linked
from ipu_teach.show.scene import Bar, Curve, Drawing, Lanes, Scene, Series, Still, label
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
ONE, TWO = 3, 4

MOST_STEPS = 2000  # of the programs; more are shown several to a place
MOST_LANES = 12  # variables
MOST_LISTED = 40  # variables below the picture
LISTED = ("Constants", "Vertex state")  # categories of what the list has as variables
MOST_NAMED = 4  # variables in the words for a step
LEFT = 150.0
HIGH = 104.0  # of a curve
PITCH = 15.0  # of a lane


def liveness(report: Report, other: Report | None = None) -> View:
    """Live bytes at every step of the programs in `report`, or those of two reports over each
    other. Nothing need have run.

    Programs of more than 2,000 steps, and fewer of a scene that would be larger than 150 kB, are
    shown several to a place, of which the fullest counts; the view says so. Raises
    `InvalidOptionError` for something that is no report, and for programs without a step.
    """
    runs = [
        _Run(checked(r, "liveness", ran=False))
        for r in (report, *([] if other is None else [other]))
    ]
    if not all(run.places for run in runs):
        raise InvalidOptionError("""show.liveness() was given a report whose programs have no step.
            next:  compile a program that copies or executes something.""")
    return fitting(partial(_scene, runs), MOST_STEPS)


@dataclass(frozen=True, eq=False)
class _Run:
    """One report, with its bytes step by step."""

    report: Report

    @property
    def places(self) -> int:
        """Leaves of the programs."""
        return len(self.report.memory.liveness.places)

    @cached_property
    def names(self) -> list[str]:
        """What each step is."""
        return [label(f"{n.kind} {n.name}".strip(), 48) for n in self.report.memory.liveness.places]

    @cached_property
    def fullest(self) -> Array:
        """int64[places]: the tile that holds most."""
        return self.report.memory.fullest_tile_by_place

    @cached_property
    def bytes(self) -> tuple[Array, Array]:
        """int64[3, places] each, of all tiles and of the fullest, gaps included: always live,
        variables that come and go, buffers."""
        memory = self.report.memory
        path = self.report.target.data_path_width // 8
        with_gaps = -(-memory.size // path) * path
        whole, one = np.zeros((3, self.places), np.int64), np.zeros((3, self.places), np.int64)
        always = memory.always_live_bytes_per_tile
        whole[ALWAYS], one[ALWAYS] = always.sum(), always[self.fullest]
        for place, passing in enumerate(memory.passing):
            for here in passing.values():
                whole[BUFFER, place] += here.sum()
                one[BUFFER, place] += here[self.fullest[place]]
        whole[COMING] = (
            np.array([size for _, size in memory.bytes_by_place()], np.int64) - whole[BUFFER]
        )
        for place, tile in enumerate(self.fullest.tolist()):
            here = memory.tile == tile
            one[COMING, place] = with_gaps[
                here & memory.liveness.live[place, memory.variable]
            ].sum()
            always_here = here & memory.liveness.always[memory.variable]
            one[ALWAYS, place] += (with_gaps - memory.size)[always_here].sum()
        return whole, one

    def peak(self) -> str:
        """When the programs need most, in words."""
        whole, one = (part.sum(axis=0) for part in self.bytes)
        at, worst = int(np.argmax(whole)), int(np.argmax(one))
        always = self.bytes[0][ALWAYS, at]
        text = (
            f"most at step {at + 1} ({self.names[at]}): {whole[at]:,} bytes on all tiles, "
            f"{always:,} of them always live"
        )
        return (
            f"{text}; the fullest tile is {self.fullest[worst]} at step {worst + 1}, with "
            f"{one[worst]:,} bytes"
        )

    @cached_property
    def live(self) -> list[str]:
        """The largest variables that come and go and are live at each step, in words."""
        found = list[str]()
        for place in range(self.places):
            here = self.report.memory.live_at(place)
            sizes = list(here.values())
            groups = folded(list(here), sizes)
            rows = [(name, sum(sizes[i] for i in group)) for name, group in groups]
            found.append(self._named(sorted(rows, key=lambda row: -row[1])))
        return found

    @staticmethod
    def _named(found: list[tuple[str, int]]) -> str:
        named = ", ".join(f"{label(name, 24)} {size:,}" for name, size in found[:MOST_NAMED])
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        return named + more or "none"

    def ranges(self, width: int) -> list[tuple[str, int, list[tuple[int, int]]]]:
        """(name, bytes, the steps from .. up to which it is live) of the largest variables that
        come and go."""
        return [(label(v.name, 20), v.bytes, list(v.ranges)) for v in self.passing[:width]]

    @cached_property
    def passing(self) -> list[VariableRow]:
        """The variables that come and go, the largest first."""
        table = self.report.variables.folded()
        return [v for v in table.largest("bytes", len(table)) if v.bytes and v.ranges]

    def listed(self, each: int, count: int) -> tuple[object, dict[int, list[int]], object]:
        """([name, bytes, the places from .. up to which it is live] of the largest variables and of
        what else is always live, how many more variables are live at a place, with their bytes; the
        buffers of each of `count` places). `each` steps share a place. All together are the bytes
        of a step."""
        rows, less = list[tuple[str, int, list[tuple[int, int]]]](), dict[int, list[int]]()
        for name, here in self.report.memory.bytes_per_tile_by_category.items():
            # constants and the state of vertices are variables by their names
            if here.any() and name not in (VARIABLES, *LISTED, BUFFERS, LANDING):
                always = f"{palette.MEMORY[name].name}, always"
                rows.append((always, int(here.sum()), [(0, -(-self.places // each))]))
        others = len(rows)
        for row in (v for v in self.report.variables.folded().largest("bytes", 10**9) if v.bytes):
            parts = ((0, self.places),) if row.always_live else row.ranges
            places = [(first // each, -(-last // each)) for first, last in parts]
            if parts and len(rows) < MOST_LISTED + others:
                rows.append((label(row.name, 40) + ", always" * row.always_live, row.bytes, places))
                continue
            for place in {place for first, last in places for place in range(first, last)}:
                few, size = less.get(place, (0, 0))
                less[place] = [few + 1, size + row.bytes]
        rows.sort(key=lambda row: -row[1])
        buffers = _together(self.bytes[0][BUFFER], each, count).max(axis=1)
        return rows, less, pack(buffers)


def runs_of(flags: Array) -> list[tuple[int, int]]:
    """(first, the one after the last) of each run of what is true."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _scene(runs: list[_Run], most: int) -> Scene:
    steps = max(run.places for run in runs)
    each = -(-steps // most)
    count = -(-steps // each)
    panels = Panels()
    if each > 1:
        panels.notes.append(
            f"A place stands for {each} steps of the programs and shows the fullest of them."
        )
    lanes = [
        (f"{name} ({'ab'[which]})" if len(runs) > 1 else name, size, parts, which)
        for which, run in enumerate(runs)
        for name, size, parts in run.ranges(MOST_LANES // len(runs))
    ]
    lanes.sort(key=lambda lane: (lane[2][0], -lane[1]))  # by birth
    several = sum(len(run.passing) for run in runs)
    if several > len(lanes):
        panels.notes.append(
            f"{several - len(lanes):,} more that come and go, none of them larger, have no lane of "
            "their own."
        )
    for which, (name, heading) in enumerate(
        (("all tiles", "bytes, all tiles together"), ("fullest tile", _heading(runs)))
    ):
        panels.put(_curve(name, heading, runs, which, each, count), left=LEFT, high=HIGH)
        panels.below()
    panels.below(46)
    if lanes:
        values = {"bytes": np.array([size for _, size, *_ in lanes], np.int64)}
        say = "{label}: {bytes} bytes on all tiles together"
        names = tuple(name for name, *_ in lanes)
        heading = "the largest variables that come and go"
        drawing = Drawing(steps, _lane_bars(lanes, len(runs)), "steps")
        live = Lanes(
            "live", heading, count=len(lanes), labels=names, say=say, values=values, whole=True
        )
        panels.put(live, left=LEFT, high=PITCH * len(lanes), drawing=drawing)
    stills = tuple(_still(runs, place, each, bool(lanes)) for place in range(count))
    whole = np.max(
        [_together(run.bytes[0].sum(axis=0), each, count).max(axis=1) for run in runs], axis=0
    )
    titles = ["Live"] if len(runs) == 1 else ["First report, live", "Second report, live"]
    scene = panels.scene(
        "liveness",
        "What is live, step by step" + (", in two reports" if len(runs) > 1 else ""),
        _sentence(runs),
        foot=22,
        codes=CODES,
        stills=stills,
        frames=np.arange(count),
        table=_table(runs),
        poster=int(np.argmax(whole)),
        group="step",
        data={
            "live": [
                [title, *run.listed(each, count)] for title, run in zip(titles, runs, strict=True)
            ]
        },
    )
    places = enumerate(runs[0].report.memory.liveness.places)
    return (
        scene
        if len(runs) > 1
        else linked(scene, runs[0].report, parts={node.step: i // each for i, node in places})
    )


def _together(values: Array, each: int, count: int) -> Array:
    """int64[count, each]: neighbours that share a place; 0 beyond the last."""
    padded = np.zeros(count * each, np.int64)
    padded[: len(values)] = values
    return padded.reshape(count, each)


def _curve(name: str, heading: str, runs: list[_Run], which: int, each: int, count: int) -> Curve:
    series: list[Series] = []
    limit = 0
    if len(runs) == 1:
        below = np.zeros(count, np.int64)
        order = np.argmax(_together(runs[0].bytes[which].sum(axis=0), each, count), axis=1)
        for code in (ALWAYS, COMING, BUFFER):
            here = _together(runs[0].bytes[which][code], each, count)[np.arange(count), order]
            if here.any():
                series.append(Series(CODES[code].name, code, below + here, below))
                below = below + here
        top = int(below.max())
    else:
        totals = [_together(run.bytes[which].sum(axis=0), each, count).max(axis=1) for run in runs]
        series = [
            Series("first report", ONE, totals[0], np.zeros(count, np.int64)),
            Series("second report", TWO, totals[1], None),
        ]
        top = max(int(t.max()) for t in totals)
    if which == 1:
        limit = runs[0].report.target.bytes_per_tile
    return Curve(
        name,
        heading,
        count=count,
        top=max(1, top),
        unit="bytes",
        series=tuple(series),
        limit=limit,
        named=which == 1,
    )


def _heading(runs: list[_Run]) -> str:
    return f"bytes of the fullest tile, which has {runs[0].report.target.bytes_per_tile:,}"


def _lane_bars(
    lanes: list[tuple[str, int, list[tuple[int, int]], int]], reports: int
) -> tuple[Bar, ...]:
    """The first range of every lane, the second of every lane, and so on."""
    found = []
    code: int | Array = (
        COMING if reports == 1 else np.array([(ONE, TWO)[which] for *_, which in lanes])
    )
    for number in range(max(len(parts) for _, _, parts, _ in lanes)):
        ends = [parts[number] if number < len(parts) else (0, 0) for _, _, parts, _ in lanes]
        start, stop = np.array(ends).T
        found.append(Bar(code, start, stop - start, 0))
    return tuple(found)


def _still(runs: list[_Run], place: int, each: int, lanes: bool) -> Still:
    said, head, steps = [], "", max(run.places for run in runs)
    for which, run in enumerate(runs):
        first = place * each
        if first >= run.places:
            said.append(f"{'ab'[which]} has no such step")
            continue
        totals = run.bytes[0].sum(axis=0)
        at = first + int(np.argmax(totals[first : first + each]))
        tile = int(run.fullest[at])
        words = (
            f"{totals[at]:,} bytes on all tiles, {run.bytes[1][:, at].sum():,} on tile {tile}; "
            f"of what comes and goes: {run.live[at]}"
        )
        said.append(f"{'ab'[which]}: {words}" if len(runs) > 1 else words)
        head = head or run.names[at]
    channel = (
        {"live": (0, float(place * each), float(min(steps, (place + 1) * each)))} if lanes else {}
    )
    return Still(head, "; ".join(said), ALWAYS if len(runs) == 1 else ONE, 0, True, lanes=channel)


def _sentence(runs: list[_Run]) -> str:
    if len(runs) == 1:
        return (
            f"What is live at {counted(runs[0].places, 'step')} of the programs, modelled: "
            f"{runs[0].peak()}."
        )
    said = "; ".join(
        f"{'ab'[which]}, {counted(run.places, 'step')}, needs {run.peak()}"
        for which, run in enumerate(runs)
    )
    peaks = [int(run.bytes[0].sum(axis=0).max()) for run in runs]
    change = f", {100 * (peaks[1] - peaks[0]) / peaks[0]:+.1f} % at the peak" if peaks[0] else ""
    return f"What is live in two reports, modelled: {said}{change}."


def _table(runs: list[_Run]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
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
    found = []
    for i in range(max(run.places for run in runs)):
        cells = [f"{i + 1}"]
        for run in runs:
            there = i < run.places
            cells += (
                [run.names[i], f"{run.bytes[0][:, i].sum():,}", f"{run.bytes[1][:, i].sum():,}"]
                if there
                else ["", "", ""]
            )
        found.append(tuple(cells))
    heads = tuple(
        f"{what} ({which})"
        for which in "ab"
        for what in ("what", "bytes on all tiles", "bytes of the fullest tile")
    )
    return ("step", *heads), tuple(found)
