"""The blocks that lightweight profiling records, as nested boxes on a time axis, tile below tile.

The blocks are a mark of the view `timeline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report import BlockRun, Report
from ipu_teach.show import palette
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import flame
from ipu_teach.show.scene import Flame, Table, label, number

MOST_BLOCKS = 2000
MOST_TILES = 8
HEADS = ("tile", "block", "type", "depth", "from", "to", "modelled cycles")


class Blocks:
    """The profiled blocks of some tiles in the first `total` cycles of a run.

    `tiles` is a tile number or a list of tile numbers, and `which` are the filters of
    `Execution.blocks`.

    :raises InvalidOptionError: if there are no tiles or too many, or if there are no profiled
        blocks on the tiles. The errors of `Execution.blocks` are also raised.
    """

    def __init__(self, report: Report, tiles: object, total: float, which: dict[str, Any]) -> None:
        listed: list[Any] = list(tiles) if isinstance(tiles, (list, tuple, range)) else [tiles]
        if not 1 <= len(listed) <= MOST_TILES or None in listed:
            requested = shown(tiles) if None in listed else counted(len(listed), "tile")
            raise InvalidOptionError(f"""show.timeline() was given {requested}, but blocks= takes 1
                to {MOST_TILES} tile numbers of the machine.
                next:  give one tile, blocks=0, or several, blocks=[0, 3].""")
        blocks_by_tile = [report.execution.blocks(tile, **which) for tile in listed]
        self.tiles = [int(tile) if is_whole(tile) else tile for tile in listed]
        every = [
            [block for block in blocks if block.cycles_from < total] for blocks in blocks_by_tile
        ]
        self.missing = max(0, sum(map(len, every)) - MOST_BLOCKS)
        self.by_tile = [blocks[: MOST_BLOCKS // len(every)] for blocks in every]
        self.all = [block for blocks in self.by_tile for block in blocks]
        if not self.all:
            raise InvalidOptionError(f"""show.timeline() found no profiled blocks on
                {self._where()}.
                next:  put Block around parts of the program, or show all programs with
                program_filter={shown(".")}.""")
        names = dict.fromkeys(block.name for block in self.all)
        hues = dict(zip(names, cycle(palette.NESTED), strict=False))
        self._code = [hues[block.name] for block in self.all]

    @property
    def codes(self) -> tuple[Code, ...]:
        """The distinct codes (colours) of the blocks."""
        return tuple(dict.fromkeys(self._code))

    def flame(self, codes: Sequence[Code], pitch: float) -> Flame:
        """Return a mark of the blocks as nested boxes in rows.

        `codes` lists all colours of the scene. `codes` must contain the colours of the blocks.
        """
        boxes = list[tuple[int, int, int, str, int]]()
        first_row = 0
        colours = iter(self._code)
        for tile, blocks in zip(self.tiles, self.by_tile, strict=True):
            prefix = f"tile {tile}: " if len(self.tiles) > 1 else ""
            for block, colour in zip(blocks, colours, strict=False):
                interval = round(block.cycles_from), round(block.cycles_to)
                boxes.append(
                    (first_row + block.depth, *interval, prefix + block.name, codes.index(colour))
                )
            first_row += 1 + max((block.depth for block in blocks), default=0)
        return flame("blocks", f"the blocks on {self._where()}", pitch, boxes, timed=True)

    def sentence(self) -> str:
        """Return a sentence: the number of blocks, and the block name with the most cycles."""
        spent: dict[str, list[float]] = {}
        for block in self.all:
            spent.setdefault(block.name, []).append(block.cycles)
        worst = max(spent, key=lambda name: sum(spent[name]))
        times = counted(len(spent[worst]), "time")
        return (
            f"{counted(len(self.all), 'block')} on {self._where()}; longest in all is "
            f"{label(worst, 48)}: {number(sum(spent[worst]))} modelled cycles in {times}."
        )

    def table(self) -> Table:
        """Return the table: a row for each block."""
        return HEADS, tuple(map(_row, self.all))

    def _where(self) -> str:
        """Return a string that names the tiles."""
        return f"tile{'s' if len(self.tiles) > 1 else ''} {', '.join(map(str, self.tiles))}"


def _row(block: BlockRun) -> tuple[str, ...]:
    """Return the row of the table for one block."""
    ends = number(block.cycles_from), number(block.cycles_to), number(block.cycles)
    return str(block.tile), label(block.name, 48), block.type, str(block.depth), *ends
