"""The view `liveness`: the bytes in memory in each step of the programs, and the live variables.

Step by step, the upper curve shows the bytes of all tiles together, and the lower curve shows the
bytes of the fullest tile. Below the curves is a lane for each of the largest variables that are not
always live; its bars are the steps in which the variable is live. A step is a leaf of the program
tree; it is drawn once, no matter how often it runs. On an axis of cycles, the width of a step is
the number of cycles of one execution. All numbers are modelled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from math import ceil

import numpy as np

from ipu_teach._support.flags import checks
from ipu_teach.cost.ledger import BUFFERS, LANDING, VARIABLES
from ipu_teach.errors import InvalidOptionError, counted, did_you_mean, shown
from ipu_teach.graph.variable_table import without_replica
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
    refuse_at_of_two,
    rests,
    short_name,
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
    replace(palette.FIRST, name="first report (a)"),
    replace(palette.SECOND, name="second report (b)"),
)
# `ONE` and `TWO` are the indices in `CODES` of the colours of the first and the second report.
ONE = 3
TWO = 4

# If there are more steps than this, several steps share a column of the axis.
MOST_STEPS = 2000
MOMENTS = 300  # The maximum number of columns of an axis of cycles.
AXES = STEPS, CYCLES = ("steps", "cycles")
MOST_LANES = 12  # The maximum number of variables with a lane.
MOST_LISTED = 40  # The maximum number of variables in the list below the picture.
# The list below the picture has a row for each variable of these categories, not for the category.
LISTED = ("Constants", "Vertex state")
MOST_NAMED = 4  # The maximum number of variables that the text for a step names.
LEFT = 150.0
HIGH = 104.0  # The height of a curve.
PITCH = 15.0  # The height of a lane.


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

    The view shows the live bytes in each step of the programs in `report`, or in the programs of
    two reports on one axis. The programs need not have run. `always=False` leaves out the variables
    that are always live. With `axis="cycles"`, the width of a step is the number of modelled cycles
    of one execution, so that you can compare two programs in time.

    The axis has at most 2,000 columns, or 300 with `axis="cycles"`, and fewer if the scene would be
    larger than 150 kB. If several steps share a column, the column shows the fullest of these
    steps. On an axis of steps, a note below the picture then says how many steps share a column.

    `at` is where the picture of one report rests: the number of a superstep of the run, or the name
    of a step. By default, the picture rests where the most bytes are live.

    :raises InvalidOptionError: if an argument is not a report, if the programs contain no step, if
        the step `at` did not run, or if `axis` is unknown. It is also raised if `at` is given with
        two reports, or if the axis has cycles but no step takes modelled time.
    """
    refuse_at_of_two("liveness", other, at)
    if axis not in AXES:
        raise InvalidOptionError(f"""show.liveness() was given axis={shown(axis)}, which is
            neither "steps" nor "cycles".
            next:  {did_you_mean(axis, AXES)}Give "steps" or "cycles".""")
    runs = [
        _Run(checked(r, "liveness", must_have_run=False), always, axis == CYCLES)
        for r in (report, *([] if other is None else [other]))
    ]
    if not all(run.num_steps for run in runs):
        raise InvalidOptionError("""show.liveness() was given a report whose programs have no step.
            next:  compile a program that copies or executes something.""")
    if not all(run.edges[-1] for run in runs):
        raise no_time("liveness")
    return fitting(partial(_scene, runs, at), MOMENTS if axis == CYCLES else MOST_STEPS)


@dataclass(frozen=True)
class _Named:
    """All variables with the same name, of one replica or of all replicas.

    Attributes:
        name: the name of the variables, without the replica.
        replica: the replica to which the variables belong, such as "1 of 4". It is "" if the graph
            has no replicas, or if the variables of all replicas are live in the same steps.
        count: the number of variables.
        bytes: the maximum over all steps of the total bytes of these variables.
        ranges: (first, end) of each range of steps in which some of these variables are live; `end`
            is the step after the last.
    """

    name: str
    replica: str
    count: int
    bytes: int
    ranges: list[tuple[int, int]]

    @classmethod
    def of(cls, name: str, replica: str, rows: list[VariableRow], num_steps: int) -> _Named:
        """Return the entry for the variables `name` of one replica; "" means all replicas."""
        changes: Array = np.zeros(num_steps + 1, np.int64)
        for row in rows:
            for first, last in row.ranges:
                changes[first] += row.bytes
                changes[last] -= row.bytes
        live_bytes = np.cumsum(changes)
        edges = np.flatnonzero(np.diff((live_bytes > 0).astype(np.int8), prepend=0))
        ranges = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
        return cls(name, replica, len(rows), int(live_bytes.max()), ranges)

    @property
    def text(self) -> str:
        """The name of the variables, as the label of their lane.

        The replica or the number of variables follows the name, even if the name is shortened.
        """
        if not self.replica and self.count == 1:
            return label(self.name, 20)
        count = f" ({self.replica or self.count})"
        return label(self.name, 22 - len(count)) + count


@dataclass(frozen=True, eq=False)
class _Run:
    """The live bytes of one report, step by step.

    Attributes:
        always: whether the bytes of always-live variables are drawn.
        cycles: whether the axis is in cycles rather than in steps.
    """

    report: Report
    always: bool
    cycles: bool

    @property
    def num_steps(self) -> int:
        """The number of steps of the programs."""
        return len(self.report.memory.liveness.places)

    @cached_property
    def names(self) -> list[str]:
        """The kind and name of each step."""
        return [
            short_name(f"{n.kind} {n.name}".strip(), 48) for n in self.report.memory.liveness.places
        ]

    @cached_property
    def fullest(self) -> Array:
        """int64[steps]: the tile with the most bytes in each step."""
        return self.report.memory.fullest_tile_by_place

    @cached_property
    def bytes(self) -> tuple[Array, Array]:
        """`(all, fullest)`, both int64[3, steps]: the bytes of all tiles, and of the fullest tile.

        The three rows are the bytes of always-live variables, of other variables, and of buffers.
        The bytes of the fullest tile include the unused gaps between variables.
        """
        memory = self.report.memory
        path = self.report.target.data_path_width // 8
        size_with_gaps = -(-memory.size // path) * path
        all_tiles = np.zeros((3, self.num_steps), np.int64)
        fullest_tile = np.zeros((3, self.num_steps), np.int64)
        always = memory.always_live_bytes_per_tile
        all_tiles[ALWAYS] = always.sum()
        fullest_tile[ALWAYS] = always[self.fullest]
        for step, passing in enumerate(memory.passing):
            for buffer_bytes in passing.values():
                all_tiles[BUFFER, step] += buffer_bytes.sum()
                fullest_tile[BUFFER, step] += buffer_bytes[self.fullest[step]]
        all_tiles[COMING] = (
            np.array([size for _, size in memory.bytes_by_place()], np.int64) - all_tiles[BUFFER]
        )
        for step, tile in enumerate(self.fullest.tolist()):
            is_on_tile = memory.tile == tile
            fullest_tile[COMING, step] = size_with_gaps[
                is_on_tile & memory.liveness.live[step, memory.variable]
            ].sum()
            always_on_tile = is_on_tile & memory.liveness.always[memory.variable]
            fullest_tile[ALWAYS, step] += (size_with_gaps - memory.size)[always_on_tile].sum()
        return all_tiles, fullest_tile

    def fullest_text(self, step: int) -> str:
        """Return a text with the numbers of the tiles that have the most bytes in a step."""
        memory = self.report.memory
        rows = memory.liveness.live[step, memory.variable]
        per_tile = memory.always_live_bytes_per_tile + sum(memory.passing[step].values())
        per_tile = per_tile + np.bincount(
            memory.tile[rows], memory.size[rows], memory.num_tiles
        ).astype(np.int64)
        return tiles_named(np.flatnonzero(per_tile == per_tile.max()))

    @cached_property
    def codes(self) -> tuple[int, ...]:
        """The indices of the kinds of bytes to draw: COMING, BUFFER and, if `always`, ALWAYS."""
        return (ALWAYS, COMING, BUFFER) if self.always else (COMING, BUFFER)

    @cached_property
    def height(self) -> tuple[Array, Array]:
        """`(all, fullest)`, both int64[steps]: the drawn bytes on all tiles and on the fullest."""
        all_tiles, fullest_tile = (part[list(self.codes)].sum(axis=0) for part in self.bytes)
        return all_tiles, fullest_tile

    @cached_property
    def edges(self) -> Array:
        """int64[steps + 1]: where each step begins on the axis, and the end of the axis.

        Positions are in cycles or, if `cycles` is False, in steps.
        """
        if not self.cycles:
            return np.arange(self.num_steps + 1)
        profile = self.report.profile
        leaves = self.report.memory.liveness.places
        cycles = [profile.cost(number).cycles for number in range(len(profile.steps))]
        # If the cycles of a step depend on data, the largest number of cycles in the run is used.
        for step in np.unique(self.report.step_numbers).tolist():
            cycles[profile.leaf(step).step] = max(cycles[profile.leaf(step).step], cycles[step])
        return np.cumsum([0, *(cycles[leaf.step] for leaf in leaves)])

    def shown(self, curve: int, per_column: float, count: int) -> Array:
        """Return int64[count]: the step that each column of the axis shows; -1 after the last step.

        A column is `per_column` steps or cycles wide. If a column contains several steps, it shows
        the step with the most drawn bytes: on all tiles if `curve` is 0, or on the fullest tile if
        `curve` is 1.
        """
        begins = np.arange(count) * per_column
        begins = begins[begins < self.edges[-1]]
        first = np.searchsorted(self.edges, begins, "right") - 1
        ends_before = np.maximum(first + 1, np.searchsorted(self.edges, begins + per_column - 1e-6))
        ranges = zip(first.tolist(), ends_before.tolist(), strict=True)
        steps = [a + int(np.argmax(self.height[curve][a:b])) for a, b in ranges]
        return np.pad(steps, (0, count - len(steps)), constant_values=-1)

    def peak(self) -> str:
        """Describe in which step all tiles, and the fullest tile, need the most memory."""
        of_all, of_fullest = self.height
        step = int(np.argmax(of_all))
        always = self.bytes[0][ALWAYS, step]
        share = f"{always:,} of them" if self.always else f"without {always:,}"
        step_of_fullest = int(np.argmax(of_fullest))
        tiles = self.fullest_text(step_of_fullest)
        need = "need most, each" if tiles.startswith("tiles") else "needs most,"
        return (
            f"most at step {step + 1} ({self.names[step]}): {of_all[step]:,} bytes on all tiles, "
            f"{share} always live; {tiles} {need} {of_fullest[step_of_fullest]:,} bytes, at step "
            f"{step_of_fullest + 1}"
        )

    @cached_property
    def live(self) -> list[str]:
        """A string for each step: its largest variables that are not always live, with bytes."""
        return [self._largest_text(self._sizes(step)) for step in range(self.num_steps)]

    def largest_at(self, step: int) -> str:
        """Name the two largest variables that are live at a step but not always.

        All buffers of the step together count as one variable. The result is "" if there are no
        such variables.
        """
        sizes = self._sizes(step)
        if buffers := int(self.bytes[0][BUFFER, step]):
            sizes.append(("buffers of the step", buffers))
        sizes.sort(key=lambda row: -row[1])
        return " and ".join(f"{label(name, 32)} {size:,}" for name, size in sizes[:2])

    def _sizes(self, step: int) -> list[tuple[str, int]]:
        """Return (name, bytes) of the variables live at a step but not always, largest first."""
        bytes_by_name = self.report.memory.live_at(step)
        sizes = list(bytes_by_name.values())
        groups = folded(list(bytes_by_name), sizes)
        rows = [(name, sum(sizes[i] for i in group)) for name, group in groups]
        return sorted(rows, key=lambda row: -row[1])

    @staticmethod
    def _largest_text(sizes: list[tuple[str, int]]) -> str:
        """Return a string with the first entries of `sizes` and the number of the other entries.

        An entry is (name of a variable, bytes). Without entries, the string is "none".
        """
        largest = ", ".join(f"{label(name, 24)} {size:,}" for name, size in sizes[:MOST_NAMED])
        rest = ""
        if len(sizes) > MOST_NAMED:
            remaining = sum(size for _, size in sizes[MOST_NAMED:])
            rest = f" and {len(sizes) - MOST_NAMED} more, {remaining:,} bytes"
        return largest + rest or "none"

    def ranges(self, count: int) -> list[tuple[str, int, list[tuple[int, int]]]]:
        """Return the `count` largest variables that are not always live, or all if there are fewer.

        An entry is (label, bytes, ranges of steps).
        """
        return [(lane.text, lane.bytes, lane.ranges) for lane in self.passing[:count]]

    @cached_property
    def passing(self) -> list[_Named]:
        """The variables that are not always live, grouped by name and replica, largest first."""
        rows = [row for row in self.report.variables if row.bytes and row.ranges]
        # Maps (name, replica) to variables. Replicas that are live in the same steps form one
        # group.
        groups: dict[tuple[str, str], list[VariableRow]] = {}
        for _, indices in folded([row.name for row in rows], [row.bytes for row in rows]):
            replicas = [rows[i] for i in indices]
            are_equal = len({row.ranges for row in replicas}) == 1
            for row in replicas:
                name, _ = without_replica(row.name)
                replica = "" if are_equal else row.name.removeprefix(f"{name}, replica ")
                groups.setdefault((name, replica), []).append(row)
        named = [_Named.of(*key, group, self.num_steps) for key, group in groups.items()]
        return sorted(named, key=lambda variables: -variables.bytes)

    def listed(self, per_column: float, count: int) -> tuple[object, dict[int, list[int]], object]:
        """Return `(rows, rest, buffers)` for the list below the picture, which the player shows.

        - rows: [name, bytes, ranges of columns] of each of the largest variables, and of all
          always-live content. Variables of the same name that are live in the same column share a
          row. The name of this row includes the number of variables.
        - rest: a dict that maps a column to [number, bytes] of the variables without a row.
        - buffers: the bytes of buffers in each of `count` columns, packed.

        A column is `per_column` steps or cycles wide. The bytes of a column are the sum of its
        bytes in `rows`, `rest` and `buffers`.
        """
        rows = list[tuple[str, int, list[tuple[int, int]]]]()
        rest = dict[int, list[int]]()
        for category, per_tile in self.report.memory.bytes_per_tile_by_category.items():
            # Constants and vertex state are already listed as variables.
            if per_tile.any() and category not in (VARIABLES, *LISTED, BUFFERS, LANDING):
                always = f"{palette.MEMORY[category].name}, always"
                rows.append((always, int(per_tile.sum()), [(0, count)]))
        # Maps each name to (number of live variables with that name, their total bytes), both
        # int64[columns].
        names: dict[str, tuple[Array, Array]] = {}
        for row in (v for v in self.report.variables.folded().largest("bytes", 10**9) if v.bytes):
            step_ranges = ((0, self.num_steps),) if row.always_live else row.ranges
            is_live: Array = np.zeros(count, np.int64)
            for first, last in step_ranges:
                begin = int(self.edges[first] / per_column + 1e-6)
                is_live[begin : ceil(self.edges[last] / per_column - 1e-6)] = 1
            name = label(row.name, 40) + ", always" * row.always_live
            if name in names or len(names) < MOST_LISTED:
                numbers, sizes = names.get(name, (0, 0))
                names[name] = numbers + is_live, sizes + row.bytes * is_live
                continue
            for column in np.flatnonzero(is_live).tolist():
                num_variables, size = rest.get(column, (0, 0))
                rest[column] = [num_variables + 1, size + row.bytes]
        for name, live in names.items():
            rows += _rows_of(name, *live)
        rows.sort(key=lambda row: -row[1])
        return rows, rest, pack(_at(self.bytes[0][BUFFER], self.shown(0, per_column, count)))


def _rows_of(name: str, numbers: Array, sizes: Array) -> list[tuple[str, int, list[Range]]]:
    """Return `(name, bytes, ranges of columns)` tuples for variables that are all called `name`.

    `numbers` and `sizes` are int64[columns]: the number of these variables that are live in each
    column, and their bytes. The result has a tuple for each distinct pair of number and bytes in
    which the number is above 0.
    """
    pairs = np.stack((numbers, sizes), axis=1)
    edges = [0, *(np.flatnonzero((pairs[1:] != pairs[:-1]).any(axis=1)) + 1).tolist(), len(pairs)]
    ranges_of: dict[tuple[int, int], list[Range]] = {}
    for begin, end in pairwise(edges):
        if numbers[begin]:
            key = int(numbers[begin]), int(sizes[begin])
            ranges_of.setdefault(key, []).append((begin, end))
    base, always, _ = name.partition(", always")
    return [
        (f"{base}, {num_live} of them{always}" if num_live > 1 else name, size, ranges)
        for (num_live, size), ranges in ranges_of.items()
    ]


def _at(values: Array, steps: Array) -> Array:
    """Return the values in the given steps, with 0 for step -1."""
    return np.where(steps < 0, 0, values[steps])


Range = tuple[int, int]  # A range (first column, column after the last).
# A lane (name of a variable, bytes, ranges of steps, index of the run).
Lane = tuple[str, int, list[tuple[int, int]], int]


def _scene(runs: list[_Run], at: At, max_columns: int) -> Scene:
    """Return the scene, whose axis has at most `max_columns` columns."""
    span = max(int(run.edges[-1]) for run in runs)
    cycles = runs[0].cycles
    steps_per_column = -(-span // max_columns)
    per_column = span / max_columns if cycles else float(steps_per_column)
    count = max_columns if cycles else -(-span // steps_per_column)
    panels = Panels()
    if not cycles and steps_per_column > 1:
        panels.notes.append(
            f"A column stands for {steps_per_column} steps of the programs and shows the fullest "
            "of them."
        )
    lanes, left_out = _lanes(runs, panels)
    for which, (name, heading) in enumerate(_headings(runs)):
        curve = _curve(name, heading, runs, which, per_column=per_column, count=count)
        panels.put(curve, left=LEFT, high=HIGH)
        panels.below()
    panels.below(46)
    if lanes:
        _put_lanes(panels, lanes, runs, span, left_out)
    steps_of = np.stack([run.shown(0, per_column, count) for run in runs], axis=1)
    pairs = [tuple(pair) for pair in steps_of.tolist()]
    still_of = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    heights = [
        _at(run.height[0], steps_of_run) for run, steps_of_run in zip(runs, steps_of.T, strict=True)
    ]
    titles = ["Live"] if len(runs) == 1 else ["First report, live", "Second report, live"]
    scene = panels.scene(
        "liveness",
        _title(runs),
        _sentence(runs),
        foot=22,
        codes=CODES,
        stills=tuple(_still(runs, pair, bool(lanes)) for pair in still_of),
        frames=np.array([still_of[pair] for pair in pairs]),
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
    step = int(steps_of[resting.poster, 0])
    title = f"In step {step + 1}, {runs[0].names[step]}, {runs[0].height[0][step]:,} bytes are live"
    return replace(resting, title=title)


def _lanes(runs: list[_Run], panels: Panels) -> tuple[list[Lane], int]:
    """Return `(lanes, left_out)` of the largest variables that are not always live.

    The lanes are sorted by the step in which they begin. `left_out` is the number of variables
    without a lane; if there are such variables, add a note to `panels`.
    """
    lanes = [
        (f"{name} ({'ab'[run_number]})" if len(runs) > 1 else name, size, ranges, run_number)
        for run_number, run in enumerate(runs)
        for name, size, ranges in run.ranges(MOST_LANES // len(runs))
    ]
    lanes.sort(key=lambda lane: (lane[2][0], -lane[1]))
    left_out = sum(len(run.passing) for run in runs) - len(lanes)
    if left_out > 0:
        panels.notes.append(
            f"{left_out:,} more that come and go, none of them larger, have no lane of their own."
        )
    return lanes, max(0, left_out)


def _headings(runs: list[_Run]) -> list[tuple[str, str]]:
    """Return `(name, heading)` of the curve of all tiles, and of the curve of the fullest tile."""
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


def _put_lanes(
    panels: Panels, lanes: list[Lane], runs: list[_Run], span: int, left_out: int
) -> None:
    """Add the panel with a lane for each variable, on an axis of `span` steps or cycles.

    `left_out` variables have no lane.
    """
    drawn = (lane for run in runs for lane in run.passing[: MOST_LANES // len(runs)])
    several_names = any(lane.count > 1 and not lane.replica for lane in drawn)
    live = Lanes(
        "live",
        ("the largest variables that come and go" if left_out else "variables that come and go")
        + f", {len(lanes)} of {len(lanes) + left_out:,}" * bool(left_out)
        + "; (n): n of one name" * several_names,
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
    name: str, heading: str, runs: list[_Run], curve: int, per_column: float, count: int
) -> Curve:
    """Return the curve of the bytes of all tiles (`curve` 0) or of the fullest tile (`curve` 1).

    The curve has `count` columns of `per_column` steps or cycles.
    """
    series: list[Series] = []
    steps_of = [run.shown(curve, per_column, count) for run in runs]
    if len(runs) == 1:
        below: Array = np.zeros(count, np.int64)
        for code in runs[0].codes:
            bytes_drawn = _at(runs[0].bytes[curve][code], steps_of[0])
            if bytes_drawn.any():
                series.append(Series(CODES[code].name, code, below + bytes_drawn, below))
                below = below + bytes_drawn
        top = int(below.max())
    else:
        totals = [_at(run.height[curve], steps) for run, steps in zip(runs, steps_of, strict=True)]
        series = [
            Series(CODES[ONE].name, ONE, totals[0], np.zeros(count, np.int64)),
            Series(CODES[TWO].name, TWO, totals[1], None),
        ]
        top = max(int(t.max()) for t in totals)
    return Curve(
        name,
        heading,
        count=count,
        top=max(1, top),
        unit="bytes",
        series=tuple(series),
        limit=_limit(runs) if curve == 1 and runs[0].always else 0,
        named=curve == 1,
        each=per_column if runs[0].cycles else 0.0,
    )


def _limit(runs: list[_Run]) -> int:
    """Return the bytes of a tile's memory, or the smaller number if two machines differ."""
    return min(run.report.target.bytes_per_tile for run in runs)


def _lane_bars(lanes: list[Lane], runs: list[_Run]) -> tuple[Bar, ...]:
    """Return the bars of the lanes: bar k is the k-th range of steps in which a variable lives.

    A variable with fewer ranges has a bar of length 0.
    """
    bars = []
    code: int | Array = (
        COMING if len(runs) == 1 else np.array([(ONE, TWO)[run_number] for *_, run_number in lanes])
    )
    for k in range(max(len(ranges) for _, _, ranges, _ in lanes)):
        ends = [
            runs[run_number].edges[list(ranges[k])] if k < len(ranges) else (0, 0)
            for _, _, ranges, run_number in lanes
        ]
        start, stop = np.array(ends).T
        bars.append(Bar(code, start, stop - start, 0))
    return tuple(bars)


def _still(runs: list[_Run], steps: tuple[int, ...], lanes: bool) -> Still:
    """Return the still of a column of the axis.

    `steps` has, for each report, the step that is in this column, or -1 if there is none. `lanes`
    says whether the picture has lanes.
    """
    texts = []
    # Maps the name of each step to the first report with such a step: "a" or "b".
    names: dict[str, str] = {}
    spans = [
        (r.edges[step], r.edges[step + 1]) for r, step in zip(runs, steps, strict=True) if step >= 0
    ]
    for run_number, (run, step) in enumerate(zip(runs, steps, strict=True)):
        if step < 0:
            over = "is at its end" if run.cycles else "has no such step"
            texts.append(f"{'ab'[run_number]} {over}")
            continue
        fullest = run.fullest_text(step)
        each = " each" if fullest.startswith("tiles") else ""
        text = (
            f"{run.height[0][step]:,} bytes on all tiles, {run.height[1][step]:,} on {fullest}"
            f"{each}{'' if run.always else ', without what is always live'}; of what comes and "
            f"goes: {run.live[step]}"
        )
        buffers = int(run.bytes[0][BUFFER, step])
        text += f"; buffers of the step {buffers:,}" if buffers else ""
        texts.append(f"{'ab'[run_number]}: {text}" if len(runs) > 1 else text)
        names.setdefault(run.names[step], "ab"[run_number])
    begin, end = float(max(a for a, _ in spans)), float(min(b for _, b in spans))
    bars_of = {"live": (0, begin, end)} if lanes else {}
    name = ", ".join(names)
    if len(runs) > 1 and (len(names) > 1 or min(steps) < 0):
        name = ", ".join(f"{name} ({run})" for name, run in names.items())
    return Still(
        name, "; ".join(texts), ALWAYS if len(runs) == 1 else ONE, 0, first=True, lanes=bars_of
    )


def _title(runs: list[_Run]) -> str:
    """Return the title: the step with the peak of one report, or a comparison of two peaks."""
    peaks = [int(run.height[0].max()) for run in runs]
    if len(runs) == 1:
        height = runs[0].height[0]
        step = int(np.argmax(height))
        steps = tiles_named(np.flatnonzero(height == height[step]) + 1, "step")
        always = 100 * int(runs[0].bytes[0][ALWAYS, step]) / (peaks[0] or 1)
        largest = runs[0].largest_at(step)
        rest = f", {always:.1f} % always live" + f", then {largest}" * bool(largest)
        if not runs[0].always:
            rest = " without what is always live" + f"; the largest: {largest}" * bool(largest)
        first = "first " if steps.startswith("steps") else ""
        return f"Most is live in {steps}, {first}{runs[0].names[step]}: {peaks[0]:,} bytes{rest}"
    change = 100 * abs(peaks[1] - peaks[0]) / peaks[0] if peaks[0] else 0.0
    kind = "memory" if runs[0].always else "memory that comes and goes"
    if not change:
        return f"Both runs need equally much {kind} at their peaks"
    comparison = "more" if peaks[1] > peaks[0] else "less"
    at = [int(np.argmax(run.height[0])) + 1 for run in runs]
    title = (
        f"At its peak the second run needs {change:.1f} % {comparison} {kind} than the first: "
        f"{peaks[1]:,} bytes in its step {at[1]:,}, against {peaks[0]:,} in step {at[0]:,} of the "
        "first"
    )
    fits = [int(run.height[1].max()) <= _limit(runs) for run in runs]
    if runs[0].always and fits[0] != fits[1]:
        title += f"; only the {('first', 'second')[fits[1]]} fits in {_limit(runs):,} bytes a tile"
    return title


def _sentence(runs: list[_Run]) -> str:
    """Return a sentence with the peaks of one report or of two reports."""
    if len(runs) == 1:
        return (
            f"What is live at {counted(runs[0].num_steps, 'step')} of the programs, modelled: "
            f"{runs[0].peak()}."
        )
    texts = "; ".join(
        f"{'ab'[run_number]}, {counted(run.num_steps, 'step')}, needs {run.peak()}"
        for run_number, run in enumerate(runs)
    )
    peaks = [int(run.height[0].max()) for run in runs]
    change = f", {100 * (peaks[1] - peaks[0]) / peaks[0]:+.1f} % at the peak" if peaks[0] else ""
    if runs[0].cycles:
        first, second = (int(run.edges[-1]) for run in runs)
        change += f", {100 * (second - first) / first:+.1f} % of {first:,} modelled cycles"
    return f"What is live in two reports, modelled: {texts}{change}."


def _table(runs: list[_Run]) -> Table:
    """Return the table: a row for each step, with the bytes of one report or of two reports."""
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
            for i in range(run.num_steps)
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
    rows_of_two = []
    for i in range(max(run.num_steps for run in runs)):
        cells = [f"{i + 1}"]
        for run in runs:
            is_inside = i < run.num_steps
            cells += (
                [run.names[i], f"{run.bytes[0][:, i].sum():,}", f"{run.bytes[1][:, i].sum():,}"]
                if is_inside
                else ["", "", ""]
            )
        rows_of_two.append(tuple(cells))
    heads = tuple(
        f"{caption} ({which})"
        for which in "ab"
        for caption in ("what", "bytes on all tiles", "bytes of the fullest tile")
    )
    return ("step", *heads), tuple(rows_of_two)
