"""The view `memory`: what every tile holds at its fullest moment, by category, against the memory
that it has.

Above left the tiles, coloured by how full they are; beside them the fullest, an average and the
emptiest tile against the limit, and what all tiles hold together; below a stack for each tile.
Every number is modelled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.cost.ledger import BUFFERS, LANDING, VARIABLES
from ipu_teach.errors import counted
from ipu_teach.report import Report, Why
from ipu_teach.show import palette
from ipu_teach.show.measures import MOST_RECTANGLES
from ipu_teach.show.pack import pack
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels, grid, painted
from ipu_teach.show.report_facts import because, checked, linked
from ipu_teach.show.scene import Bar, Drawing, Lanes, Scene, Still, Table, label, means, number
from ipu_teach.show.stack import stack_places, stacks as stacks_of
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

MOST_CELLS = 4096  # more tiles are drawn several to a cell
MOST_STACKS = 172  # more tiles are sorted, and share them
MOST_NAMED = 16  # variables of a tile, and fewer of a scene that would be larger than 150 kB
TOPS = (1000, 200, 100, 50, 20, 10, 5, 2, 1)  # thousandths of the limit at which colours end
SIDE = 246.0  # of the square that holds the tiles
WIDE = 688.0  # of all stacks together, at most
MIDDLE = 430.0  # where the lanes beside it begin
SWITCHES = (  # the second is there if there are gaps
    ("m", "Scale to the limit", "scales the bars to the limit and back", False),
    ("g", "Include gaps", "leaves out the gaps and brings them back", True),
)


def memory(report: Report, *, why: Why | None = None) -> View:
    """Which tile is fullest, and what is in its memory?

    What every tile holds at its fullest moment, by category. Nothing need have run.

    The categories are those of `MemoryLedger`, gaps included; variables are told apart by whether
    they are always live. Of a machine of more than 4,096 tiles each cell stands for several, and
    shows the fullest of them. `why`: a chain of causes, `report.why("memory")`, whose tiles get one
    colour. Raises `InvalidOptionError` for something that is no report.
    """
    checked(report, "memory", ran=False)
    view = fitting(
        lambda most: linked(_scene(report, most), report, ("tiles", "stack")), MOST_NAMED, 2
    )
    return because(view, report, why)


def parts(report: Report) -> list[tuple[Code, Array]]:
    """(what, int64[tiles] bytes) of all that some tile holds: first what is always live, gaps
    last."""
    ledger = report.memory
    by_category = ledger.bytes_per_tile_by_category
    always = ledger.always_live_variables_per_tile
    passing = (BUFFERS, LANDING)
    found = [(palette.VARIABLES, always)]
    found += [
        (palette.MEMORY[c], here)
        for c, here in by_category.items()
        if c not in (VARIABLES, *passing)
    ]
    found += [(palette.COMING, by_category[VARIABLES] - always)]
    found += [(palette.MEMORY[c], by_category[c]) for c in passing]
    return [
        (code, here) for code, here in (*found, (palette.GAPS, ledger.gaps_per_tile)) if here.any()
    ]


def _scene(report: Report, most_named: int) -> Scene:
    target, limit = report.target, report.target.bytes_per_tile
    held = parts(report)
    total = np.sum([here for _, here in held], axis=0).astype(np.int64)
    each = -(-target.num_tiles // MOST_CELLS)
    shown = _fullest_of(total, each, target.tiles_per_ipu)  # the tile that each cell shows
    count, most = len(shown), int(total.max())
    # fifths of the limit, or where all tiles are in the first of them, of a part of it
    top = min(t for t in TOPS if min(most, limit) * 1000 <= t * limit)
    fill = np.minimum(np.maximum(-(-5000 * total[shown] // (limit * top)) - 1, 0), 4)
    seen, fill = np.unique(
        np.where(total[shown] > limit, len(palette.FILL) - 1, fill), return_inverse=True
    )
    codes = (*(code for code, _ in held), *(palette.filled(i, top) for i in seen.tolist()))
    fill += len(held)
    order = np.argsort(total, kind="stable")
    ends = {"fullest": int(np.argmax(total)), "emptiest": int(order[0])}
    gauge = np.array(
        [
            [here[ends["fullest"]], round(float(here.mean())), here[ends["emptiest"]]]
            for _, here in held
        ]
    )
    sums = np.array([int(here.sum()) for _, here in held])
    always = report.memory.always_live_bytes_per_tile
    amounts = {"total": total, "always": always} | {
        f"part{i}": here for i, (_, here) in enumerate(held)
    }
    told = "{total} of " + f"{limit:,} bytes, {{always}} of them always live; "
    told += "; ".join(f"{code.name} {{part{i}}}" for i, (code, _) in enumerate(held))
    values = {"tile": shown} | {name: amount[shown] for name, amount in amounts.items()}
    stacks, stacked, about = {name: amount[shown] for name, amount in amounts.items()}, count, {}
    if count > MOST_STACKS:
        stacked = MOST_STACKS
        stacks = {name: means(amount[order[::-1]], stacked) for name, amount in amounts.items()}
        about["stack"] = (f"column {{i}} of the tiles sorted by bytes: a mean of {told}", stacks)
    # Few stacks stand on whole units, which are short to write; many fill the width.
    key, pitch = np.arange(count), WIDE / stacked if stacked > 24 else int(WIDE / stacked)
    panels = Panels()
    panels.notes += _notes(each, stacked, target.num_tiles)
    scale = "the limit" if top == 1000 else f"{top / 10:g} % of the limit"
    heading = f"{counted(target.num_tiles, 'tile')}, in fifths of {scale}"
    cells = grid("tiles", target, SIDE, heading, count // target.num_ipus, key=key)
    panels.put(replace(cells, side=float(int(cells.side))) if count <= MOST_RECTANGLES else cells)
    held_ = gauge.sum(axis=0).tolist()
    labels = tuple(
        f"{name} {n:,}"
        for name, n in zip(
            (f"fullest, tile {ends['fullest']}", "average", f"emptiest, tile {ends['emptiest']}"),
            held_,
            strict=True,
        )
    )
    gauges = Lanes(
        "gauge",
        "the line: a tile's limit",
        count=3,
        labels=labels,
        say="{label} bytes",
        values={"bytes": gauge.sum(axis=0)},
        limit=limit,
    )
    panels.put(
        gauges, left=MIDDLE, high=66, drawing=Drawing(max(limit, most), _beside(gauge), "bytes")
    )
    names = tuple(
        f"{label(code.name, 22)} {n:,}" for (code, _), n in zip(held, sums.tolist(), strict=True)
    )
    values_, say = {"bytes": sums}, "{label} bytes on all tiles together"
    together = Lanes(
        "sums", "all tiles together", count=len(held), labels=names, say=say, values=values_
    )
    bars = Bar(np.arange(len(held)), 0, sums, int(sums.max()))
    panels.put(
        together,
        left=MIDDLE,
        down=100,
        high=SIDE - 100,
        drawing=Drawing(int(sums.max()), (bars,), "bytes"),
    )
    panels.below(46)
    wide, high, bars_ = pitch * stacked, 190.0, [(i, stacks[f"part{i}"]) for i in range(len(held))]
    gaps = held[-1][0] is palette.GAPS
    below = ("tile 0", f"tile {shown[-1]:,}") if stacked == count else ("fullest", "emptiest")
    pictures = tuple(  # as the switches say: without gaps, to the height of all that a tile has
        stacks_of(
            bars_[: len(held) - less], wide, high, top, "bytes", below, limit, stacks["always"]
        )
        for less in range(1 + gaps)
        for top in (most, max(most, limit))
    )
    heading, places = _stack_heading(each, stacked, count), stack_places(stacked, wide, high)
    own: dict[str, Any] = {
        "key": key if stacked == count else None,
        "switches": SWITCHES[: 1 + gaps],
    }
    panels.put(painted("stack", heading, wide, high, pictures, places, **own))
    still = Still(
        "bytes at each tile's fullest moment",
        _note(report, total),
        0,
        0,
        True,
        {"tiles": (fill, 1, int(fill.max()))},
        panels.lanes,
        values=values,
        say=f"tile {{tile}}: {told}",
        about=about,
    )
    return panels.scene(
        "memory",
        _title(report, held, total),
        _sentence(report, held, total),
        foot=24,
        codes=codes,
        stills=(still,),
        table=_table(report, held, total),
        data={"held": _variables(report, shown, most_named)},
    )


def _variables(report: Report, shown: Array, most: int) -> list[object]:
    """[names, the different lists of (name, bytes) by turns with what is left, which of them each
    cell has, the fullest cell]: the largest variables of each tile at its fullest moment."""
    names: dict[str, int] = {}
    kinds: dict[tuple[int, ...], int] = {}
    of = []
    for tile in shown.tolist():
        here = list(report.memory.at_fullest(tile).items())
        listed = [
            part
            for name, size in here[:most]
            for part in (names.setdefault(label(name, 40), len(names)), size)
        ]
        left = here[most:]
        of.append(kinds.setdefault((*listed, len(left), sum(size for _, size in left)), len(kinds)))
    fullest = int(np.argmax(report.memory.held_per_tile[shown]))
    return [list(names), [list(kind) for kind in kinds], pack(np.array(of)), fullest]


def _fullest_of(total: Array, each: int, tiles_per_ipu: int) -> Array:
    """int64[cells]: of every `each` neighbours on an IPU the fullest tile."""
    if each == 1:
        return np.arange(len(total))
    found = []
    for first in range(0, len(total), tiles_per_ipu):
        for begin in range(first, first + tiles_per_ipu, each):
            found.append(
                begin + int(np.argmax(total[begin : min(begin + each, first + tiles_per_ipu)]))
            )
    return np.array(found, np.int64)


def _beside(parts_: Array) -> tuple[Bar, ...]:
    """The bars of lanes, each beginning where the one before it ends. `parts_`: int64[parts,
    lanes]."""
    ends = np.cumsum(parts_, axis=0)
    return tuple(
        Bar(i, end - here, here, 0) for i, (here, end) in enumerate(zip(parts_, ends, strict=True))
    )


def _stack_heading(each: int, columns: int, count: int) -> str:
    if columns < count:
        return "bytes of a tile, fullest first"
    what = "bytes by tile" if each == 1 else f"bytes of the fullest of {each} tiles"
    return what if count > MOST_RECTANGLES else f"{what}; below the line always live"


def _notes(each: int, columns: int, tiles: int) -> list[str]:
    notes = [
        "Bytes are modelled, each tile at its own fullest moment, which may be at different steps. "
        "An average is rounded."
    ]
    if each > 1:
        notes.append(f"A cell stands for up to {each} tiles and shows the fullest of them.")
    if columns == MOST_STACKS:
        notes.append(
            f"The {columns} columns are the tiles sorted by bytes, {number(tiles / columns)} to a "
            "column, which shows a mean."
        )
    return notes


def _note(report: Report, total: Array) -> str:
    fullest, limit = int(np.argmax(total)), report.target.bytes_per_tile
    always = int(report.memory.always_live_bytes_per_tile[fullest])
    over, equal = int((total > limit).sum()), int((total == total[fullest]).sum()) - 1
    more = f", and {equal:,} more are as full" if equal else ""
    text = (
        f"the fullest tile is {fullest}{more}: {int(total[fullest]):,} of {limit:,} bytes "
        f"({100 * total[fullest] / limit:.1f} %), {always:,} always live"
    )
    return text + (f"; {counted(over, 'tile')} over the limit" if over else "")


def _title(report: Report, held: list[tuple[Code, Array]], total: Array) -> str:
    """Which tile is fullest, and of what."""
    fullest, limit = int(np.argmax(total)), report.target.bytes_per_tile
    share = f"{100 * total[fullest] / limit:.1f} % of its memory"
    kind = max(held, key=lambda part: int(part[1][fullest]))[0].name
    if (over := int((total > limit).sum())) > 0:
        return f"{counted(over, 'tile')} over the limit; tile {fullest} needs {share}"
    return f"Tile {fullest} is fullest, {share}: most of it {kind}"


def _sentence(report: Report, held: list[tuple[Code, Array]], total: Array) -> str:
    largest = sorted(held, key=lambda part: -int(part[1].sum()))[:3]
    names = ", ".join(f"{code.name} {int(here.sum()):,}" for code, here in largest)
    return (
        f"The memory of {counted(report.target.num_tiles, 'tile')}, modelled: {int(total.sum()):,} "
        f"bytes, most of all {names}; {_note(report, total)}."
    )


def _table(report: Report, held: list[tuple[Code, Array]], total: Array) -> Table:
    order = np.argsort(-total, kind="stable")
    always = report.memory.always_live_bytes_per_tile
    rows = tuple(
        (f"{t}", f"{total[t]:,}", f"{always[t]:,}", *(f"{here[t]:,}" for _, here in held))
        for t in order.tolist()
    )
    return ("tile", "bytes", "always live", *(code.name for code, _ in held)), rows
