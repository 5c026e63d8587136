"""The tiles of the view `bsp` as cells, and the messages between them.

A cell is one tile, or several neighbouring tiles of an IPU.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import counted
from ipu_teach.show.measures import MOST_SPOKES, SMALLEST_LABEL
from ipu_teach.show.panels import grid
from ipu_teach.show.scene import (
    Message,
)
from ipu_teach.target import Target
from ipu_teach.types import Array

# If an exchange has at most this many messages between cells, all of them are drawn.
MOST_MESSAGES = 64
# If it has more messages, this is the maximum number drawn for the slowest cell.
MOST_OF_ONE = 64
SIDE = 264.0  # The side of the square with the tiles.


class CellGrid:
    """The square of cells, each of which stands for `tiles_per_cell` tiles.

    Attributes:
        cell: int64[tiles]: the cell of each tile.
        per_ipu: the number of cells of an IPU.
        count: the number of all cells.
    """

    def __init__(self, target: Target, tiles_per_cell: int) -> None:
        self.tiles_per_cell = tiles_per_cell
        self.has_several = target.num_sets > 1
        self.per_ipu = -(-target.tiles_per_ipu // tiles_per_cell)
        self.count = self.per_ipu * target.num_ipus
        ipu, within = np.divmod(np.arange(target.num_tiles), target.tiles_per_ipu)
        self.cell = ipu * self.per_ipu + within // tiles_per_cell
        self.cell_name = "tile" if tiles_per_cell == 1 else f"group of {tiles_per_cell} tiles"
        self.grid = grid("tiles", target, SIDE, each_ipu=self.per_ipu)

    def longest(self, per_tile: Array) -> Array:
        """Return int64[cells]: the maximum of `per_tile` over the tiles of each cell."""
        longest = np.zeros(self.count, np.int64)
        np.maximum.at(longest, self.cell, per_tile)
        return longest

    def sum(self, per_tile: Array) -> Array:
        """Return int64[cells]: the sum of `per_tile` over the tiles of each cell."""
        return np.bincount(self.cell, per_tile, self.count).astype(np.int64)

    def messages(
        self, transfers: Transfers, busy: Array, tiles: Array
    ) -> tuple[tuple[Message, ...], str]:
        """Return `(messages, summary)`: the messages to draw, and a text about all messages.

        Only messages from tiles in `tiles` (bool[tiles]) count. If there are more than 64 messages
        between cells, only the messages between IPUs and the largest messages of the slowest cell
        are drawn. `busy` has the cycles of each cell.
        """
        if not tiles.all():
            rows = np.flatnonzero(tiles[transfers.source])
            receivers = tuple(transfers.receivers[i] for i in rows.tolist())
            transfers = Transfers(transfers.source[rows], transfers.size[rows], receivers)
        messages = self._between_cells(transfers)
        receiver_counts = [
            len(receivers) for receivers in transfers.receivers if len(receivers) > 1
        ]
        if len(transfers) == 1 and receiver_counts:
            return tuple(messages), f"1 message, heard by {receiver_counts[0]:,} tiles"
        summary = counted(len(transfers), "message")
        if receiver_counts:
            summary += f", {len(receiver_counts):,} of them to several tiles"
        if len(messages) <= MOST_MESSAGES:
            return tuple(messages), summary
        slowest_cell = int(np.argmax(busy))
        # All arrows between IPUs are drawn, because there are only a few of them, and each stands
        # for many messages.
        link_messages = [m for m in messages if self._is_link(m)]
        of_slowest_cell = [
            m
            for m in messages
            if not self._is_link(m) and (slowest_cell == m.source or slowest_cell in m.receivers)
        ]
        of_slowest_cell = sorted(of_slowest_cell, key=lambda m: -m.size)[:MOST_OF_ONE]
        summary += f"; drawn are {len(of_slowest_cell):,} of {self.cell_name} {slowest_cell}"
        if link_messages:
            summary += f" and {counted(len(link_messages), 'arrow')} between IPUs"
        if (
            len(link_messages) + len(of_slowest_cell) > MOST_SPOKES
            and self.grid.side < SMALLEST_LABEL
        ):
            summary += ", a frame for who sends, a dot for who receives"
        return (*link_messages, *of_slowest_cell), summary

    def _between_cells(self, transfers: Transfers) -> list[Message]:
        """Return a message for each combination of a sending cell and a set of receiving cells.

        On several IPUs, all messages from one IPU to another become one message.
        """
        sizes = Counter[tuple[int, bytes]]()
        columns = zip(
            transfers.source.tolist(), transfers.size.tolist(), transfers.receivers, strict=True
        )
        for source_tile, size, tiles in columns:
            source = int(self.cell[source_tile])
            receivers = np.unique(self.cell[tiles])
            if self.has_several:
                ipu = source // self.per_ipu
                ipus = receivers // self.per_ipu
                for remote in np.unique(ipus[ipus != ipu]).tolist():
                    ends = (self._middle(ipu), np.array([self._middle(remote)]).tobytes())
                    sizes[ends] += size
                receivers = receivers[ipus == ipu]
            receivers = receivers[receivers != source]
            if len(receivers):
                sizes[source, receivers.tobytes()] += size
        return [
            Message(source, np.frombuffer(receivers, np.int64), size)
            for (source, receivers), size in sizes.items()
        ]

    def _middle(self, ipu: int) -> int:
        """Return the cell in the middle of an IPU, where its arrows to other IPUs begin and end."""
        columns = int(np.ceil(np.sqrt(self.per_ipu)))
        return ipu * self.per_ipu + (self.per_ipu // columns // 2) * columns + columns // 2

    def _is_link(self, message: Message) -> bool:
        """Return whether a message is sent from one IPU to another."""
        return message.source // self.per_ipu != int(message.receivers[0]) // self.per_ipu
