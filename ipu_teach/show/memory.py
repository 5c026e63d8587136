"""The view `memory`: the bytes in each tile's memory when it is fullest, by category.

At the top left are the tiles, coloured by how full they are. Next to the tiles are lanes for the
fullest, an average and the emptiest tile, with the limit. Lanes with the sums over all tiles
follow. Below is a stack of categories for each tile. All numbers are modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ipu_teach.cost.ledger import BUFFERS, LANDING, VARIABLES
from ipu_teach.errors import counted
from ipu_teach.report import Report, Why
from ipu_teach.show import palette
from ipu_teach.show.measures import MOST_RECTANGLES
from ipu_teach.show.pack import pack
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels, grid, painted
from ipu_teach.show.report_facts import because, checked, linked, tiles_named
from ipu_teach.show.scene import Bar, Drawing, Lanes, Scene, Still, Table, label, means, number
from ipu_teach.show.stack import stack_places, stacks as stacks_of
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

# If there are more tiles than this, a cell stands for several tiles.
MOST_CELLS = 4096
# If there are more cells than this, tiles are sorted, and each stack stands for several tiles.
MOST_STACKS = 172
# The maximum number of variables listed for a tile; fewer if the scene would exceed 150 kB.
MOST_NAMED = 16
# The possible ends of the colour scale, in thousandths of the limit.
TOPS = (1000, 200, 100, 50, 20, 10, 5, 2, 1)
SIDE = 246.0  # The side of the square with the tiles.
WIDE = 688.0  # The maximum width of all stacks together.
SHORTER = {palette.COMING.name: "temporary variables"}
MIDDLE = 476.0  # The x coordinate at which the lanes beside the square of tiles begin.
# A switch is (key, title, effect, whether it is on initially). The second switch exists only if
# there are gaps.
SWITCHES = (
    ("m", "Scale to the limit", "scales the bars to the limit and back", False),
    ("g", "Include gaps", "leaves out the gaps and brings them back", True),
)


def memory(report: Report, *, why: Why | None = None) -> View:
    """Which tile is fullest, and what is in its memory?

    The view shows every tile at the moment when its memory is fullest. The program need not have
    run.

    The categories are those of `MemoryLedger`, including gaps; always-live variables are a separate
    category. On a machine of more than 4,096 tiles, each cell stands for several tiles and shows
    the fullest of them. `why` is a chain of causes, such as `report.why("memory")` returns; the
    tiles that it mentions are drawn in one colour.

    :raises InvalidOptionError: if `report` is not a report, or if `why` is not a chain of causes.
    """
    checked(report, "memory", must_have_run=False)

    def scene(most_named: int) -> Scene:
        return linked(_MemoryScene(report).scene(most_named), report, ("tiles", "stack"))

    return because(fitting(scene, MOST_NAMED, 2), report, why)


def parts(report: Report) -> list[tuple[Code, Array]]:
    """Return `(category, bytes)` for each category that occurs; `bytes` is int64[tiles].

    Always-live categories come first, and gaps come last.
    """
    ledger = report.memory
    by_category = ledger.bytes_per_tile_by_category
    always = ledger.always_live_variables_per_tile
    passing = (BUFFERS, LANDING)
    categories = [(palette.VARIABLES, always)]
    categories += [
        (palette.MEMORY[name], per_tile)
        for name, per_tile in by_category.items()
        if name not in (VARIABLES, *passing)
    ]
    categories += [(palette.COMING, by_category[VARIABLES] - always)]
    categories += [(palette.MEMORY[name], by_category[name]) for name in passing]
    categories += [(palette.GAPS, ledger.gaps_per_tile)]
    return [(code, per_tile) for code, per_tile in categories if per_tile.any()]


@dataclass(frozen=True, eq=False)
class _Columns:
    """The columns of the stacked bar chart, in which each column is divided by category.

    If `is_sorted` is False, a column stands for a cell of the grid, and shows the bytes of the
    fullest tile in this cell. If `is_sorted` is True, the tiles are sorted by their bytes and
    divided into groups of about equal size, and a column shows the mean bytes of a group. `amounts`
    maps "total", "always", and "part0", "part1", … (one for each category) to the bytes of each
    column.
    """

    count: int
    pitch: float
    amounts: Mapping[str, Array]
    is_sorted: bool


class _MemoryScene:
    """The memory of a report, from which the scene is built.

    Attributes:
        parts: (category, int64[tiles] bytes) of each category.
        total: int64[tiles]: the sum of the bytes over all categories.
        tiles_per_cell: the number of neighbouring tiles for which a cell stands.
        shown: int64[cells]: the fullest tile of each cell.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.target = report.target
        self.limit = report.target.bytes_per_tile
        self.parts = parts(report)
        self.total: Array = np.sum([per_tile for _, per_tile in self.parts], axis=0)
        self.total = self.total.astype(np.int64)
        self.tiles_per_cell = -(-self.target.num_tiles // MOST_CELLS)
        self.shown = _fullest_of(self.total, self.tiles_per_cell, self.target.tiles_per_ipu)
        self.maximum = int(self.total.max())
        # The colour scale ends at the smallest value of `TOPS` that no tile exceeds. If a tile
        # exceeds the limit, it ends at the limit. Each colour stands for a fifth of the scale.
        self.top = min(t for t in TOPS if min(self.maximum, self.limit) * 1000 <= t * self.limit)

    def scene(self, most_named: int) -> Scene:
        """Return the scene. It lists at most `most_named` variables of a tile."""
        amounts = {"total": self.total, "always": self.report.memory.always_live_bytes_per_tile}
        amounts |= {f"part{i}": per_tile for i, (_, per_tile) in enumerate(self.parts)}
        description = "{total} of " + f"{self.limit:,} bytes, {{always}} of them always live; "
        description += "; ".join(
            f"{code.name} {{part{i}}}" for i, (code, _) in enumerate(self.parts)
        )
        columns = self._columns(amounts)
        about = {}
        if columns.is_sorted:
            column_text = f"column {{i}} of the tiles sorted by bytes: a mean of {description}"
            about["stack"] = (column_text, columns.amounts)
        panels = Panels()
        panels.notes += _notes(self.tiles_per_cell, columns.count, self.target.num_tiles)
        self._put_tiles(panels)
        self._put_gauges(panels)
        self._put_sums(panels)
        panels.below(46)
        self._put_stacks(panels, columns)
        fill_codes, fill = self._fill()
        still = Still(
            label="bytes at each tile's fullest moment",
            note=_note(self.report, self.total),
            code=0,
            cycles=0,
            first=True,
            cells={"tiles": (fill, 1, int(fill.max()))},
            lanes=panels.lanes,
            values={"tile": self.shown} | {n: amount[self.shown] for n, amount in amounts.items()},
            say=f"tile {{tile}}: {description}",
            about=about,
        )
        return panels.scene(
            "memory",
            _title(self.report, self.parts, self.total),
            _sentence(self.report, self.parts, self.total),
            foot=24,
            codes=(*(code for code, _ in self.parts), *fill_codes),
            stills=(still,),
            table=_table(self.report, self.parts, self.total),
            data={"held": _variables(self.report, self.shown, most_named)},
        )

    def _fill(self) -> tuple[tuple[Code, ...], Array]:
        """Return `(codes, fill)`: the colours for how full cells are, and the code of each cell.

        `codes` are the colours that occur. `fill` is int64[cells] with indices in `Scene.codes`, in
        which the categories of bytes come before these colours.
        """
        total = self.total[self.shown]
        fifth = np.minimum(np.maximum(-(-5000 * total // (self.limit * self.top)) - 1, 0), 4)
        fifth = np.where(total > self.limit, len(palette.FILL) - 1, fifth)
        used, inverse = np.unique(fifth, return_inverse=True)
        codes = tuple(palette.filled(i, self.top) for i in used.tolist())
        return codes, inverse + len(self.parts)

    def _columns(self, amounts: Mapping[str, Array]) -> _Columns:
        """Return the columns of the stacks: cells or, if there are many, groups of sorted tiles."""
        count = len(self.shown)
        is_sorted = count > MOST_STACKS
        if is_sorted:
            count = MOST_STACKS
            fullest_first = np.argsort(self.total, kind="stable")[::-1]
            columns = {n: means(amount[fullest_first], count) for n, amount in amounts.items()}
        else:
            columns = {n: amount[self.shown] for n, amount in amounts.items()}
        # If there are only a few stacks, the distance between them is an integer, which makes the
        # file shorter. If there are many stacks, they fill the width.
        pitch = WIDE / count if count > 24 else int(WIDE / count)
        return _Columns(count, pitch, columns, is_sorted)

    def _put_tiles(self, panels: Panels) -> None:
        """Add the tiles, coloured by how full they are."""
        count = len(self.shown)
        heading = f"{counted(self.target.num_tiles, 'tile')}, by their share of the limit"
        if self.tiles_per_cell > 1:
            heading = f"{self.target.num_tiles:,} tiles; each square is the fullest of "
            heading += f"{self.tiles_per_cell} tiles"
        cells_per_ipu = count // self.target.num_ipus
        key = np.arange(count)
        cells = grid("tiles", self.target, SIDE, heading, each_ipu=cells_per_ipu, key=key)
        if count <= MOST_RECTANGLES:
            cells = replace(cells, side=float(int(cells.side)))
        panels.put(cells)

    def _put_gauges(self, panels: Panels) -> None:
        """Add three lanes: the content of the fullest, an average and the emptiest tile."""
        fullest = int(np.argmax(self.total))
        emptiest = int(np.argsort(self.total, kind="stable")[0])
        gauge = np.array(
            [
                [per_tile[fullest], round(float(per_tile.mean())), per_tile[emptiest]]
                for _, per_tile in self.parts
            ]
        )
        sums = gauge.sum(axis=0)
        names = (f"fullest, tile {fullest}", "average", f"emptiest, tile {emptiest}")
        lanes = Lanes(
            "gauge",
            "line: a tile's limit",
            count=3,
            labels=tuple(f"{name}: {n:,}" for name, n in zip(names, sums.tolist(), strict=True)),
            say="{label} bytes",
            values={"bytes": sums},
            limit=self.limit,
        )
        drawing = Drawing(max(self.limit, self.maximum), _end_to_end(gauge), "bytes")
        panels.put(lanes, left=MIDDLE, high=66, drawing=drawing)

    def _put_sums(self, panels: Panels) -> None:
        """Add a lane for each category, with the sum of its bytes over all tiles."""
        sums = np.array([int(per_tile.sum()) for _, per_tile in self.parts])
        count = len(sums)
        lanes = Lanes(
            "sums",
            "all tiles together",
            count=count,
            labels=tuple(
                f"{label(SHORTER.get(code.name, code.name), 22)} {n:,}"
                for (code, _), n in zip(self.parts, sums.tolist(), strict=True)
            ),
            say="{label} bytes on all tiles together",
            values={"bytes": sums},
        )
        bars = Bar(np.arange(count), 0, sums, int(sums.max()))
        drawing = Drawing(int(sums.max()), (bars,), "bytes")
        panels.put(lanes, left=MIDDLE, down=100, high=SIDE - 100, drawing=drawing)

    def _put_stacks(self, panels: Panels, columns: _Columns) -> None:
        """Add the mark with a stack of categories for each column.

        The mark has a picture for each combination of the switches.
        """
        wide = columns.pitch * columns.count
        high = 190.0
        bars = [(i, columns.amounts[f"part{i}"]) for i in range(len(self.parts))]
        has_gaps = self.parts[-1][0] is palette.GAPS
        if columns.is_sorted:
            ends = ("fullest", "emptiest")
        else:
            ends = ("tile 0", f"tile {self.shown[-1]:,}")
        pictures = tuple(
            stacks_of(
                bars[: len(bars) - left_out],
                width=wide,
                height=high,
                top=top,
                unit="bytes",
                ends=ends,
                limit=self.limit,
                level=columns.amounts["always"],
            )
            for left_out in range(1 + has_gaps)
            for top in (self.maximum, max(self.maximum, self.limit))
        )
        mark = painted(
            "stack",
            _stack_heading(
                self.tiles_per_cell, columns.count, len(self.shown), self.target.num_tiles
            ),
            wide,
            high,
            pictures=pictures,
            places=stack_places(columns.count, wide, high),
            key=None if columns.is_sorted else np.arange(columns.count),
            switches=SWITCHES[: 1 + has_gaps],
        )
        panels.put(mark)


def _variables(report: Report, shown: Array, maximum: int) -> list[object]:
    """Return the largest variables of each tile when its memory is fullest, for the player.

    The result is [names, distinct lists, the index of each cell's list (packed), the fullest cell].
    A list has, for each of at most `maximum` variables, the index of its name followed by its
    bytes. At the end of the list are the number and the bytes of the other variables.
    """
    names: dict[str, int] = {}
    lists: dict[tuple[int, ...], int] = {}
    list_of = []
    for tile in shown.tolist():
        variables = list(report.memory.at_fullest(tile).items())
        listed = [
            part
            for name, size in variables[:maximum]
            for part in (names.setdefault(label(name, 40), len(names)), size)
        ]
        rest = variables[maximum:]
        entry = (*listed, len(rest), sum(size for _, size in rest))
        list_of.append(lists.setdefault(entry, len(lists)))
    fullest = int(np.argmax(report.memory.held_per_tile[shown]))
    return [list(names), [list(entry) for entry in lists], pack(np.array(list_of)), fullest]


def _fullest_of(total: Array, tiles_per_cell: int, tiles_per_ipu: int) -> Array:
    """Return int64[cells]: for each cell, the number of its fullest tile.

    A cell stands for `tiles_per_cell` neighbouring tiles of one IPU.
    """
    if tiles_per_cell == 1:
        return np.arange(len(total))
    fullest = []
    for first in range(0, len(total), tiles_per_ipu):
        for begin in range(first, first + tiles_per_ipu, tiles_per_cell):
            end = min(begin + tiles_per_cell, first + tiles_per_ipu)
            fullest.append(begin + int(np.argmax(total[begin:end])))
    return np.array(fullest, np.int64)


def _end_to_end(lengths: Array) -> tuple[Bar, ...]:
    """Return the bars of lanes: bar k of a lane begins where bar k - 1 ends.

    `lengths` is int64[bars, lanes].
    """
    ends = np.cumsum(lengths, axis=0)
    return tuple(
        Bar(code, end - length, length, 0)
        for code, (length, end) in enumerate(zip(lengths, ends, strict=True))
    )


def _stack_heading(tiles_per_cell: int, columns: int, cells: int, tiles: int) -> str:
    """Return the heading of the stacks, which says what a column stands for."""
    if columns < cells:
        return f"bytes of a tile, fullest first; each column is {number(tiles / columns)} tiles"
    if tiles_per_cell == 1:
        heading = "bytes by tile"
    else:
        heading = f"bytes of the fullest of {tiles_per_cell} tiles"
    heading += ", to the scale of the fullest"
    return heading if cells > MOST_RECTANGLES else f"{heading}; below the line always live"


def _notes(tiles_per_cell: int, columns: int, tiles: int) -> list[str]:
    """Return notes about tiles that share a cell or a stack."""
    notes = [
        "Bytes are modelled, each tile at its own fullest moment, which may be at different steps. "
        "An average is rounded."
    ]
    if tiles_per_cell > 1:
        notes.append(
            f"A cell stands for up to {tiles_per_cell} tiles and shows the fullest of them."
        )
    if columns == MOST_STACKS:
        notes.append(
            f"The {columns} columns are the tiles sorted by bytes, {number(tiles / columns)} to a "
            "column, which shows a mean."
        )
    return notes


def _note(report: Report, total: Array) -> str:
    """Describe the fullest tile, and say how many tiles are over the limit."""
    fullest = int(np.argmax(total))
    limit = report.target.bytes_per_tile
    always = int(report.memory.always_live_bytes_per_tile[fullest])
    over = int((total > limit).sum())
    tiles = np.flatnonzero(total == total[fullest])
    who = f"the fullest tile is {fullest}"
    if len(tiles) > 1:
        who = f"the fullest are {tiles_named(tiles)}"
    text = (
        f"{who}: {int(total[fullest]):,} of {limit:,} bytes "
        f"({100 * total[fullest] / limit:.1f} %), {always:,} always live"
    )
    text += f" on tile {fullest}" if len(tiles) > 1 else ""
    return text + (f"; {counted(over, 'tile')} over the limit" if over else "")


def _title(report: Report, categories: list[tuple[Code, Array]], total: Array) -> str:
    """Return the title: the fullest tile, and its largest category."""
    fullest = int(np.argmax(total))
    limit = report.target.bytes_per_tile
    share = f"{100 * total[fullest] / limit:.1f} %"
    largest, largest_bytes = max(categories, key=lambda part: int(part[1][fullest]))
    if (over := int((total > limit).sum())) > 0:
        return f"{counted(over, 'tile')} over the limit; tile {fullest} needs {share} of its memory"
    tiles = np.flatnonzero(total == total[fullest])
    verb, whose = ("are", "their") if len(tiles) > 1 else ("is", "its")
    part = f"{100 * largest_bytes[fullest] / total[fullest]:.0f} %"
    who = tiles_named(tiles)
    return (
        f"{who[:1].upper()}{who[1:]} {verb} fullest, {int(total[fullest]):,} bytes, {share} of "
        f"{whose} memory; the largest part, {part}, is {largest.name}"
    )


def _sentence(report: Report, categories: list[tuple[Code, Array]], total: Array) -> str:
    """Return the sentence: the bytes of all tiles, the largest categories, the fullest tile."""
    largest = sorted(categories, key=lambda part: -int(part[1].sum()))[:3]
    names = ", ".join(f"{code.name} {int(per_tile.sum()):,}" for code, per_tile in largest)
    return (
        f"The memory of {counted(report.target.num_tiles, 'tile')}, modelled: {int(total.sum()):,} "
        f"bytes; the largest parts are {names}; {_note(report, total)}."
    )


def _table(report: Report, categories: list[tuple[Code, Array]], total: Array) -> Table:
    """Return the table: a row for each tile, fullest first, with its bytes by category."""
    order = np.argsort(-total, kind="stable")
    always = report.memory.always_live_bytes_per_tile
    rows = tuple(
        (f"{t}", f"{total[t]:,}", f"{always[t]:,}", *(f"{sizes[t]:,}" for _, sizes in categories))
        for t in order.tolist()
    )
    return ("tile", "bytes", "always live", *(code.name for code, _ in categories)), rows
