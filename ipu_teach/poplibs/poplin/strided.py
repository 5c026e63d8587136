"""Operands of a product whose rows are strided, such as those of a transposed view.

A tile that holds such a row of its block completely would gather it one element at a time, by
PopLibs' copies within a tile. There are two ways to avoid that, neither of which changes a value:

* The blocks are assigned to other tiles. Data from other tiles arrives in order, as the plan
  assumes.
* If no rotation of the tiles avoids all gathering, tiles transpose the blocks first, as PopLibs
  does between the passes of a fully connected layer.
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

Steps = tuple[int, int]  # numbers of a step of the inner dimension, and of the columns
# for each row: the rotation that would gather it, its tile, and its elements
Gathered = tuple[Array, Array, Array]


def tiles_of(plan: MatMulPlan, num_tiles: int) -> Array:
    """Return the tile of each block, spread evenly: int64[groups, rows, columns, inner]."""
    numbers = np.arange(plan.num_blocks) * num_tiles // plan.num_blocks
    return numbers.reshape(
        plan.group_blocks, plan.row_blocks, plan.column_blocks, plan.inner_blocks
    )


class Strided:
    """The operands a [groups, m, k] and b [groups, k, n] of a product, arranged to avoid gathering.

    `tiles` are the tiles that multiply their blocks: int64[groups, rows, columns, inner].
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
            rest = {side: rows for side, rows in gathered.items() if side not in sides}
            rotation, _ = self._best_rotation(rest)
        self.tiles = (tiles + rotation) % graph.target.num_tiles

    def _best_rotation(self, gathered: dict[str, Gathered]) -> tuple[int, int]:
        """Return (rotation, cycles): the rotation of the tiles with the fewest gathered elements.

        The cycles are those of gathering. The rotation is 0 if nothing is gathered without one.
        Among equally good rotations, it is the first from half of the tiles on.
        """
        target = self.graph.target
        count = target.num_tiles
        if not gathered:
            return 0, 0
        rotation, owner, size = map(np.concatenate, zip(*gathered.values(), strict=True))
        total = np.bincount(rotation, size, count)
        if not total[0]:
            return 0, 0
        order = (np.arange(count) + count // 2) % count
        best = int(order[np.argmin(total[order])])
        selected = rotation == best
        pieces = np.bincount(owner[selected], size[selected], count).astype(np.int64)
        cycles, _ = copy_cycles(pieces, pieces * self.a.dtype.size, target)
        return best, int(cycles.max())

    def operands(self, steps: Steps, prog: Program, name: str) -> tuple[Tensor, Tensor]:
        """Return both operands for a step of the plan, with its blocks transposed if needed."""
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
        """Return the intervals of the groups, the rows and the columns of an operand in a step."""
        plan, (inner_step, column_step) = self.plan, steps
        inner = plan.inner(inner_step)
        if side == "a":
            return plan.groups(), plan.rows(), inner
        return plan.groups(), inner, plan.columns(column_step)

    def _users(self, side: str) -> Array:
        """Return the tiles that use each block of an operand: [groups, rows, columns, users]."""
        axes = (0, 1, 3, 2) if side == "a" else (0, 3, 2, 1)
        users: Array = self.tiles.transpose(axes)
        return users

    def _shares(self, side: str, steps: Steps) -> list[tuple[int, tuple[slice, slice, slice]]]:
        """Return (tile, part of the operand) for all parts that tiles transpose.

        The rows of a block are divided over the tiles that use it.
        """
        shares = []
        users = self._users(side)
        grain = transpose_grain(self._operand(side).dtype)
        for (g, (g0, g1)), (r, (r0, r1)), (c, (c0, c1)) in product(
            *map(enumerate, self._blocks(side, steps))
        ):
            tiles = users[g, r, c].tolist()
            grains = balanced_partition(-(-(r1 - r0) // grain), len(tiles))
            for tile, (begin, end) in zip(tiles, grains, strict=True):
                low = r0 + begin * grain
                high = min(r0 + end * grain, r1)
                if low < high and c0 < c1 and g0 < g1:
                    shares.append((tile, (slice(g0, g1), slice(low, high), slice(c0, c1))))
        return shares

    def _gathered(self, side: str) -> Gathered:
        """Return the strided rows that are complete on a tile.

        Each has the rotation of the tiles by which that tile would gather it.
        """
        plan = self.plan
        count = self.graph.target.num_tiles
        none: Array = np.zeros(0, np.int64)
        gathered = [(none, none, none)]
        column_steps = plan.column_steps if side == "b" else 1
        users = self._users(side)
        for steps in product(range(plan.inner_steps), range(column_steps)):
            groups, rows, columns = self._blocks(side, steps)
            of_row = np.repeat(np.arange(len(rows)), [end - begin for begin, end in rows])
            for (g, (g0, g1)), (c, (c0, c1)) in product(enumerate(groups), enumerate(columns)):
                if c1 - c0 < 2 or g0 == g1:
                    continue
                part = self._operand(side)[g0:g1, rows[0][0] : rows[-1][1], c0:c1]
                row, owner = self._complete(part)
                rotation = (owner[:, None] - users[g, of_row[row], c]) % count
                owners = np.broadcast_to(owner[:, None], rotation.shape).reshape(-1)
                sizes = np.full(owners.shape, c1 - c0)
                gathered.append((rotation.reshape(-1), owners, sizes))
        rotation, owner, size = map(np.concatenate, zip(*gathered, strict=True))
        return rotation, owner, size

    def _complete(self, part: Tensor) -> tuple[Array, Array]:
        """Return (row, tile) of the rows of a part that are on one tile, but not contiguous."""
        tile_map = self.graph.tile_map()
        size = part.dtype.size
        first, last = (tile_map.at(part[..., i].positions() * size) for i in (0, -1))
        group, row = np.nonzero((first == last) & (first >= 0))
        strides = part.layout.strides
        if strides is None:
            places = part.positions()[group, row]
        else:
            begin = part[..., 0].positions()[group, row]
            places = begin[:, None] + strides[-1] * np.arange(part.shape[-1])
        owner = first[group, row]
        complete = (tile_map.at(places * size) == owner[:, None]).all(1)
        complete &= (np.diff(places) != 1).any(1)
        return row[complete], owner[complete].astype(np.int64)
