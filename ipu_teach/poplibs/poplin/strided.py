"""Operands of a product whose rows are strided in memory, such as transposed views.

Suppose that all elements of a strided row are on the tile that multiplies the row. The tile would
have to copy them one by one to a contiguous region: it would gather the row. Two methods avoid this
without changing any value:

* Other tiles multiply the blocks: all tile numbers are increased by the same number, the rotation.
  A row that is received from another tile is contiguous on arrival.
* If no rotation avoids all gathering, tiles transpose the blocks first, as PopLibs does between the
  passes of a fully connected layer.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from ipu_teach.cost.rearrange import copy_cycles
from ipu_teach.cost.vertices import transpose_grain
from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.laying import put, typed
from ipu_teach.poplibs.poplin.matmul_codelets import SplitTranspose
from ipu_teach.poplibs.poplin.plan import MatMulPlan, transpose_cycles
from ipu_teach.poplibs.poputil import balanced_partition
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.types import FLOAT, Array

# A pair: the index of the step of the inner dimension, and the index of the step of the columns.
Steps = tuple[int, int]
# The arrays (rotations, tiles, sizes) that `Strided._gathered` returns.
Gathered = tuple[Array, Array, Array]


def tiles_of(plan: MatMulPlan, num_tiles: int) -> Array:
    """Return int64[group blocks, row blocks, column blocks, inner blocks]: the tile of each block.

    The blocks are distributed evenly over `num_tiles` tiles.
    """
    tile_numbers = np.arange(plan.num_blocks) * num_tiles // plan.num_blocks
    return tile_numbers.reshape(
        plan.group_blocks, plan.row_blocks, plan.column_blocks, plan.inner_blocks
    )


class Strided:
    """The operands a [groups, m, k] and b [groups, k, n] of a product, arranged to avoid gathering.

    A tile gathers a row if it has all elements of the row, but not contiguously. `tiles` is an
    array int64[group blocks, row blocks, column blocks, inner blocks] with the tile that multiplies
    each block. If this avoids gathering, the constructor increases all tile numbers by the same
    number. The attribute `tiles` contains the result.
    """

    def __init__(self, graph: Graph, plan: MatMulPlan, a: Tensor, b: Tensor, tiles: Array) -> None:
        self.graph = graph
        self.plan = plan
        self.a = a
        self.b = b
        self.tiles = tiles
        self._transposed: list[str] = []
        self._copies: dict[str, Tensor] = {}
        self._done: set[tuple[str, tuple[int, ...]]] = set()
        gathered = {side: self._gathered(side) for side in ("a", "b") if not self._in_order(side)}
        rotation, cycles = self._best_rotation(gathered)
        sides = [side for side in gathered if self._can_transpose(side)]
        if sides and cycles > transpose_cycles(plan, graph.target, sides):
            self._transposed = sides
            other_operands = {side: rows for side, rows in gathered.items() if side not in sides}
            rotation, _ = self._best_rotation(other_operands)
        self.tiles = (tiles + rotation) % graph.target.num_tiles

    def _best_rotation(self, gathered: dict[str, Gathered]) -> tuple[int, int]:
        """Return `(rotation, cycles)` for the rotation with which tiles gather the fewest elements.

        A rotation is a number that is added to the number of each block's tile. `cycles` are the
        cycles of the tile that takes longest to gather its elements. `gathered` maps the names of
        the operands to the results of `_gathered`. If nothing is gathered without a rotation, the
        result is (0, 0). If several rotations are equally good, the first one is chosen, in an
        order that begins with half of the number of tiles.
        """
        target = self.graph.target
        num_tiles = target.num_tiles
        if not gathered:
            return 0, 0
        rotations, owner_tiles, row_sizes = map(
            np.concatenate, zip(*gathered.values(), strict=True)
        )
        elements_by_rotation = np.bincount(rotations, row_sizes, num_tiles)
        if not elements_by_rotation[0]:
            return 0, 0
        rotation_order = (np.arange(num_tiles) + num_tiles // 2) % num_tiles
        best_rotation = int(rotation_order[np.argmin(elements_by_rotation[rotation_order])])
        is_best = rotations == best_rotation
        elements_by_tile = np.bincount(owner_tiles[is_best], row_sizes[is_best], num_tiles).astype(
            np.int64
        )
        cycles, _ = copy_cycles(elements_by_tile, elements_by_tile * self.a.dtype.size, target)
        return best_rotation, int(cycles.max())

    def operands(self, steps: Steps, prog: Program, name: str) -> tuple[Tensor, Tensor]:
        """Return the operands `(a, b)` for a step; append the transposes that they need to `prog`.

        `steps` is (index of the step of the inner dimension, index of the step of the columns).
        """
        operands = {"a": self.a, "b": self.b} | self._copies
        needed = [
            (side, key)
            for side in self._transposed
            if (key := (side, steps if side == "b" else steps[:1])) not in self._done
        ]
        if not needed:
            return operands["a"], operands["b"]
        compute_set = self.graph.add_compute_set(name)
        for side, key in needed:
            self._done.add(key)
            operand = self._operand(side)
            if side not in self._copies:
                variable = self.graph.add_variable(operand.dtype, operand.shape, f"{name}/{side}")
                self._copies[side] = operands[side] = variable
            codelet = typed(SplitTranspose, [operand.dtype], {FLOAT: operand.dtype})
            for tile, block in self._shares(side, steps):
                source = operand[block]
                out = operands[side][block]
                self.graph.set_tile_mapping(out, tile)
                for group in range(out.shape[0]):
                    edges = {"x": source[group].transpose(), "out": out[group]}
                    put(self.graph, compute_set, tile, codelet, edges)
        prog.add(Execute(compute_set))
        return operands["a"], operands["b"]

    def _operand(self, side: str) -> Tensor:
        return self.a if side == "a" else self.b

    def _in_order(self, side: str) -> bool:
        strides = self._operand(side).layout.strides
        return strides is not None and strides[-1] == 1

    def _can_transpose(self, side: str) -> bool:
        operand = self._operand(side)
        strides = operand.layout.strides
        return strides is not None and strides[-2] == 1 and operand.dtype.size in (2, 4)

    def _blocks(self, side: str, steps: Steps) -> tuple[list[tuple[int, int]], ...]:
        """Return the intervals of an operand's blocks: lists for groups, rows and columns.

        `side` is "a" or "b". `steps` is (index of the step of the inner dimension, index of the
        step of the columns). The lists divide only the part of the operand that these steps
        multiply.
        """
        plan, (inner_step, column_step) = self.plan, steps
        inner = plan.inner(inner_step)
        if side == "a":
            return plan.groups(), plan.rows(), inner
        return plan.groups(), inner, plan.columns(column_step)

    def _users(self, side: str) -> Array:
        """Return int64[groups, rows, columns, tiles]: the tiles that use each block of an operand.

        `side` is "a" or "b". The first three dimensions count blocks of this operand.
        """
        axes = (0, 1, 3, 2) if side == "a" else (0, 3, 2, 1)
        users: Array = self.tiles.transpose(axes)
        return users

    def _shares(self, side: str, steps: Steps) -> list[tuple[int, tuple[slice, slice, slice]]]:
        """Return a pair `(tile, slices)` for each part of an operand that a tile transposes.

        `slices` select the part from the operand `side`, "a" or "b". The tiles that use a block
        divide its rows between them. `steps` is (number of the step of the inner dimension, number
        of the step of the columns).
        """
        shares = []
        users = self._users(side)
        grain = transpose_grain(self._operand(side).dtype)
        for (group_index, (group_begin, group_end)), (row_index, (row_begin, row_end)), (
            column_index,
            (column_begin, column_end),
        ) in product(*map(enumerate, self._blocks(side, steps))):
            tiles = users[group_index, row_index, column_index].tolist()
            grain_intervals = balanced_partition(-(-(row_end - row_begin) // grain), len(tiles))
            for tile, (grain_begin, grain_end) in zip(tiles, grain_intervals, strict=True):
                share_begin = row_begin + grain_begin * grain
                share_end = min(row_begin + grain_end * grain, row_end)
                if (
                    share_begin < share_end
                    and column_begin < column_end
                    and group_begin < group_end
                ):
                    shares.append(
                        (
                            tile,
                            (
                                slice(group_begin, group_end),
                                slice(share_begin, share_end),
                                slice(column_begin, column_end),
                            ),
                        )
                    )
        return shares

    def _gathered(self, side: str) -> Gathered:
        """Return `(rotations, tiles, sizes)`: the rows that tiles would gather, for all rotations.

        A rotation is a number that is added to the number of each block's tile. A row is gathered
        if the tile that multiplies it has all its elements, but not contiguously. The arrays have
        an entry for each pair of such a row and a block that uses it. `rotations` contains the
        rotation with which the block is on the row's tile, `tiles` this tile, and `sizes` the
        number of elements in the row.
        """
        plan = self.plan
        num_tiles = self.graph.target.num_tiles
        no_rows: Array = np.zeros(0, np.int64)
        gathered = [(no_rows, no_rows, no_rows)]
        column_steps = plan.column_steps if side == "b" else 1
        users = self._users(side)
        for steps in product(range(plan.inner_steps), range(column_steps)):
            groups, rows, columns = self._blocks(side, steps)
            block_of_row = np.repeat(np.arange(len(rows)), [end - begin for begin, end in rows])
            for (group_index, (group_begin, group_end)), (
                column_index,
                (column_begin, column_end),
            ) in product(enumerate(groups), enumerate(columns)):
                if column_end - column_begin < 2 or group_begin == group_end:
                    continue
                column_block = self._operand(side)[
                    group_begin:group_end, rows[0][0] : rows[-1][1], column_begin:column_end
                ]
                row_numbers, owner_tiles = self._complete(column_block)
                rotations = (
                    owner_tiles[:, None]
                    - users[group_index, block_of_row[row_numbers], column_index]
                ) % num_tiles
                rotation_owners = np.broadcast_to(owner_tiles[:, None], rotations.shape).reshape(-1)
                rotation_sizes = np.full(rotation_owners.shape, column_end - column_begin)
                gathered.append((rotations.reshape(-1), rotation_owners, rotation_sizes))
        rotations, owner_tiles, row_sizes = map(np.concatenate, zip(*gathered, strict=True))
        return rotations, owner_tiles, row_sizes

    def _complete(self, column_block: Tensor) -> tuple[Array, Array]:
        """Return `(rows, tiles)`: the rows that are on a single tile but not contiguous there.

        `column_block` is [groups, rows, columns]: all rows of some columns of an operand. `rows`
        contains the indices of the rows, and `tiles` the tile of each row.
        """
        tile_map = self.graph.tile_map()
        element_bytes = column_block.dtype.size
        first_tiles, last_tiles = (
            tile_map.at(column_block[..., i].positions() * element_bytes) for i in (0, -1)
        )
        group_numbers, row_numbers = np.nonzero((first_tiles == last_tiles) & (first_tiles >= 0))
        strides = column_block.layout.strides
        if strides is None:
            positions = column_block.positions()[group_numbers, row_numbers]
        else:
            first_positions = column_block[..., 0].positions()[group_numbers, row_numbers]
            positions = first_positions[:, None] + strides[-1] * np.arange(column_block.shape[-1])
        owner_tiles = first_tiles[group_numbers, row_numbers]
        is_gathered = (tile_map.at(positions * element_bytes) == owner_tiles[:, None]).all(1)
        is_gathered &= (np.diff(positions) != 1).any(1)
        return row_numbers[is_gathered], owner_tiles[is_gathered].astype(np.int64)
