"""The partition of a table for many slices at once: `embedding_plan`, and tensors mapped by it.

A table [entries, columns] is divided into blocks of rows and columns. A *lookup* is the number of a
row that is read or updated. The lookups are divided into parts. Each tile works on one block and
one part of the lookups. The tiles with the same block divide its storage between them.

For a slice, each of these tiles receives the complete block and one part of the lookups, and looks
up this part. If the rows of the table are divided, a second compute set combines the results of the
blocks. For an update, every tile receives the updates of its rows. If the lookups are divided, each
tile sums its own part, and a second compute set adds the sums to the table. PopLibs plans the same
partitions (popops/DynamicSlice.cpp).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import arrival_cycles, exchange_cycles
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.outline import table
from ipu_teach.poplibs import drawing
from ipu_teach.poplibs.drawing import DrawnMatrix
from ipu_teach.poplibs.laying import linear
from ipu_teach.poplibs.library import advised, as_given, calling, library, refused
from ipu_teach.poplibs.options import Option, Options, Settled, Value, settled
from ipu_teach.poplibs.placing import balanced_partition, dealt, sensible_parts
from ipu_teach.poplibs.popops.reduction_vertices import stage_cycles
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, UNSIGNED_INT, DType, as_dtype

__all__ = ["SlicePlan", "create_indices_tensor", "embedding_plan"]

OPTIONS = (
    Option("usedForSlice", bool, True),
    Option("usedForUpdate", bool, True),
    Option("operationForUpdate", ("none", "add", "max"), "add"),
    Option("availableMemoryProportion", float),
    Option("planMinimisationTarget", ("memory", "cycles"), "memory"),
    # These options have no effect, because PopLibs' estimate is for the worst case, in which one
    # worker updates all rows: the distribution and the order of the row numbers then make no
    # difference.
    Option("indicesDistribution", ("uniform", "onePoint"), "uniform", effect=False),
    Option("indicesAreSorted", bool, False, effect=False),
)


@advised("give what embedding_plan returns.")
@dataclass(frozen=True, repr=False)
class SlicePlan:
    """The partition of a table [entries, columns] for reading and updating single rows.

    The table is divided into `row_parts` x `column_parts` blocks, and `lookup_parts` tiles work on
    each block. The plan is for reading or updating `lookups` rows at a time. `parts` contains pairs
    (label, modelled cycles), one for each step. `table_bytes` and `temporary_bytes` are the bytes
    of the table and of temporary data on the fullest tile. To see the plan, print it or show it in
    a notebook.
    """

    entries: int
    columns: int
    lookups: int
    dtype: type[DType]
    row_parts: int
    column_parts: int
    parts: tuple[tuple[str, int], ...]
    table_bytes: int
    temporary_bytes: int
    num_tiles: int
    lookup_parts: int = 1

    @property
    def cycles(self) -> int:
        """The modelled cycles of a slice, an update, or both, depending on the plan's options."""
        return sum(cycles for _, cycles in self.parts)

    def rows(self) -> list[tuple[int, int]]:
        """Return the intervals (begin, end) into which the rows of the table are divided."""
        return balanced_partition(self.entries, self.row_parts)

    def blocks(
        self, lookups: int | None = None
    ) -> list[tuple[int, tuple[int, int], tuple[int, int], tuple[int, int]]]:
        """Return a tuple (tile, rows, columns, lookups) for every tile that works on a block.

        Rows, columns and lookups are intervals (begin, end). A lookup is the index of a row that is
        read or updated. The argument `lookups` is the total number of lookups, by default that of
        the plan. The tiles are distributed evenly over the machine.
        """
        column_intervals = balanced_partition(self.columns, self.column_parts)
        lookup_intervals = balanced_partition(
            self.lookups if lookups is None else lookups, self.lookup_parts
        )
        intervals = list(product(self.rows(), column_intervals, lookup_intervals))
        return [(tile, *block) for tile, block in dealt(intervals, self.num_tiles)]

    def places(self) -> list[tuple[int, tuple[int, int], tuple[int, int]]]:
        """Return a tuple (tile, rows, columns) for each tile: the part of the table that it stores.

        Rows and columns are intervals (begin, end). The rows of a block are distributed over all
        tiles that work on the block.
        """
        blocks = self.blocks()
        tiles_per_block = self.lookup_parts
        parts_of_table = []
        for first_block in range(0, len(blocks), tiles_per_block):
            _, (row_begin, row_end), columns, _ = blocks[first_block]
            shares = balanced_partition(
                row_end - row_begin, min(tiles_per_block, row_end - row_begin)
            )
            for (tile, *_), (share_begin, share_end) in zip(
                blocks[first_block : first_block + tiles_per_block], shares, strict=False
            ):
                parts_of_table.append(
                    (tile, (row_begin + share_begin, row_begin + share_end), columns)
                )
        return parts_of_table

    def __repr__(self) -> str:
        part_texts = ", ".join(f"{label} {cycles:,}" for label, cycles in self.parts)
        return (
            f"SlicePlan([{self.entries:,}, {self.columns:,}] {self.dtype.__name__}, "
            f"{self.lookups:,} lookups: rows in {self.row_parts:,}, columns in "
            f"{self.column_parts:,}, lookups in {self.lookup_parts:,}; modelled cycles: "
            f"{part_texts}; a tile holds {self.table_bytes:,} bytes of the table, and "
            f"{self.temporary_bytes:,} for a while)"
        )

    def _repr_html_(self) -> str:
        matrices = [
            DrawnMatrix(
                "table", self.entries, self.columns, self.column_parts, down=self.row_parts
            ),
            DrawnMatrix("out", self.lookups, self.columns, self.column_parts, down=1),
        ]
        rows = [(label, f"{cycles:,}") for label, cycles in self.parts]
        return drawing.row(matrices, repr(self)) + table(
            repr(self), ("part", "modelled cycles"), rows, "parts"
        )


@library
def embedding_plan(
    graph: Graph,
    dtype: type[DType],
    num_entries: int,
    output_size: int,
    num_lookups: Sequence[int],
    options: Options | None = None,
) -> SlicePlan:
    """Return the best partition of a table [num_entries, output_size] of `dtype` for many slices.

    `num_lookups` is a list that contains, for each slice or update, the number of rows that it
    reads or writes. The plan is for the largest number. `options` may contain:

    * "usedForSlice" and "usedForUpdate" (both True by default): which operations the plan is for;
    * "operationForUpdate": "add" (the default), "max" or "none";
    * "planMinimisationTarget": "memory" (the bytes on the fullest tile, the default) or "cycles";
    * "availableMemoryProportion": the limit for temporary data, as a fraction of a tile's memory
      (no limit by default);
    * "indicesDistribution" and "indicesAreSorted", which have no effect.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises InvalidOptionError: if an option is wrong.
    """
    table_dtype = as_dtype(dtype, f"{calling()}()")
    is_list_valid = (
        isinstance(num_lookups, (list, tuple))
        and num_lookups
        and all(is_whole(count) and count > 0 for count in num_lookups)
    )
    for name, size in (("num_entries", num_entries), ("output_size", output_size)):
        if not is_whole(size) or size < 1:
            raise as_given(size, name, "give a whole number of 1 or more.")
    if not is_list_valid:
        raise as_given(
            num_lookups, "num_lookups", "give a list of whole numbers, each 1 or more, as in [100]."
        )
    settled_options = settled(OPTIONS, options)
    if not settled_options["usedForSlice"] and not settled_options["usedForUpdate"]:
        raise InvalidOptionError(f"""{calling()}() was given False for both usedForSlice and
            usedForUpdate.
            next:  leave one of them True.""")
    plan_sizes = int(num_entries), int(output_size), max(int(count) for count in num_lookups)
    return _best(plan_sizes, table_dtype, graph.target, tuple(settled_options.items()))


@lru_cache(maxsize=256)
def _best(
    sizes: tuple[int, int, int],
    dtype: type[DType],
    target: Target,
    options: tuple[tuple[str, Value], ...],
) -> SlicePlan:
    settled_options = dict(options)
    must_see_all = (
        settled_options["usedForUpdate"] and settled_options["operationForUpdate"] != "add"
    )
    plans = [
        planned(
            sizes,
            dtype,
            target,
            row_parts=row_parts,
            column_parts=column_parts,
            chosen=settled_options,
            lookup_parts=lookup_parts,
        )
        for column_parts, row_parts, lookup_parts in _cuts(sizes, target.num_tiles)
        if lookup_parts == 1 or not must_see_all
    ]
    memory_proportion = settled_options["availableMemoryProportion"]
    if isinstance(memory_proportion, float):
        byte_limit = memory_proportion * target.bytes_per_tile
        plans = [candidate for candidate in plans if candidate.temporary_bytes <= byte_limit] or [
            min(plans, key=lambda candidate: candidate.temporary_bytes)
        ]

    def memory(plan: SlicePlan) -> int:
        return plan.table_bytes + plan.temporary_bytes

    if settled_options["planMinimisationTarget"] == "cycles":
        return min(plans, key=lambda plan: (plan.cycles, memory(plan)))
    return min(plans, key=lambda plan: (memory(plan), plan.cycles))


def _cuts(sizes: tuple[int, int, int], num_tiles: int) -> Iterator[tuple[int, int, int]]:
    """Yield `(column_parts, row_parts, lookup_parts)` for each partition to compare.

    `sizes` is (rows of the table, columns of the table, rows that are read or updated at a time). A
    partition has at most one part per tile. For `lookup_parts`, only some numbers are compared:
    numbers that are each at least 10 % larger than the previous one, and the greatest possible
    number.
    """
    lookup_choices = [1]
    for count in _counts(sizes[2], num_tiles):
        if count >= 1.1 * lookup_choices[-1]:
            lookup_choices.append(count)
    for column_parts in _counts(sizes[1], num_tiles):
        for row_parts in _counts(sizes[0], num_tiles // column_parts):
            max_parts = min(sizes[2], num_tiles // (column_parts * row_parts))
            for lookup_parts in {
                *(count for count in lookup_choices if count <= max_parts),
                max_parts,
            }:
                yield column_parts, row_parts, lookup_parts


@lru_cache(maxsize=256)
def quicker_plan(
    sizes: tuple[int, int, int],
    dtype: type[DType],
    target: Target,
    slices: bool,
    cycles: int,
    elements_held: int,
) -> SlicePlan | None:
    """Return the fastest plan that takes fewer than `cycles` cycles, or None if there is none.

    The plan is for a table with any tile mapping, and `elements_held` is the number of the table's
    elements on the fullest tile. `sizes` is (rows of the table, columns of the table, rows that are
    read or updated at a time). The plan is for slices or, if `slices` is false, for updates by
    addition. The temporary data of the plan takes at most a quarter of a tile's memory. If `cycles`
    is at most the number of cycles of two empty supersteps, return None without a search.
    """
    options: Settled = {
        "usedForSlice": slices,
        "usedForUpdate": not slices,
        "operationForUpdate": "add",
    }
    byte_limit = target.bytes_per_tile // 4
    best_plan = None
    if cycles <= 2 * _superstep(target):
        return None
    for column_parts, row_parts, lookup_parts in _cuts(sizes, target.num_tiles):
        plan = planned(
            sizes,
            dtype,
            target,
            row_parts=row_parts,
            column_parts=column_parts,
            chosen=options,
            lookup_parts=lookup_parts,
            elements_held=elements_held,
        )
        if plan.cycles < cycles and plan.temporary_bytes <= byte_limit:
            best_plan = plan
            cycles = plan.cycles
    return best_plan


@lru_cache(maxsize=4096)
def _counts(size: int, maximum: int) -> list[int]:
    counts: list[int] = sensible_parts(size, maximum).tolist()
    return counts


@lru_cache(maxsize=64)
def _superstep(target: Target) -> int:
    """Return the cycles of a superstep without compute: a sync, and the latency of an exchange.

    The latency is the time until data has reached the most distant tile.
    """
    return target.internal_sync_cycles + int(arrival_cycles(target).max())


class _Share(NamedTuple):
    """The work of one tile, which reads or updates `lookups` rows of a block [rows, columns]."""

    rows: int
    columns: int
    lookups: int
    dtype: type[DType]
    target: Target

    def exchange(self, label: str, num_bytes: int) -> tuple[str, int]:
        """Return `(label, cycles)` of an exchange in which a tile receives `num_bytes` bytes.

        The cycles include the sync before the exchange.
        """
        return label, _superstep(self.target) + int(exchange_cycles(num_bytes, self.target))


def planned(
    sizes: tuple[int, int, int],
    dtype: type[DType],
    target: Target,
    row_parts: int,
    column_parts: int,
    chosen: Settled,
    lookup_parts: int = 1,
    elements_held: int = 0,
) -> SlicePlan:
    """Return the plan that divides a table into these numbers of parts, with its modelled costs.

    `sizes` is (rows of the table, columns of the table, rows that are read or updated at a time).
    `chosen` contains the options of `embedding_plan`. The model assumes that the row indices and
    the updates come from other tiles. If `elements_held` is 0, the table is mapped by the plan.
    Otherwise the table also comes from other tiles, and `elements_held` is the number of its
    elements on the fullest of these tiles.
    """
    entries, columns, lookups = sizes
    share = _Share(
        rows=-(-entries // row_parts),
        columns=-(-columns // column_parts),
        lookups=-(-lookups // lookup_parts),
        dtype=dtype,
        target=target,
    )
    number_bytes = share.lookups * UNSIGNED_INT.size
    row_bytes = share.lookups * share.columns * dtype.size
    block_bytes = share.rows * share.columns * dtype.size
    received_block_bytes = block_bytes if lookup_parts > 1 or elements_held else 0
    parts: list[tuple[str, int]] = []
    temporary_bytes = number_bytes + row_bytes + received_block_bytes
    if chosen["usedForSlice"]:
        slice_parts, extra_bytes = _slice_parts(
            share, number_bytes + received_block_bytes, lookups * columns, row_parts
        )
        parts += slice_parts
        temporary_bytes += extra_bytes
    if chosen["usedForUpdate"]:
        received_bytes = (
            number_bytes + row_bytes + (0 if lookup_parts > 1 else received_block_bytes)
        )
        update_parts, extra_bytes = _update_parts(
            share,
            received_bytes,
            lookup_parts,
            operation=chosen["operationForUpdate"],
            held_bytes=elements_held * dtype.size,
        )
        parts += update_parts
        temporary_bytes += extra_bytes
    return SlicePlan(
        entries=entries,
        columns=columns,
        lookups=lookups,
        dtype=dtype,
        row_parts=row_parts,
        column_parts=column_parts,
        parts=tuple(parts),
        table_bytes=-(-share.rows // lookup_parts) * share.columns * dtype.size,
        temporary_bytes=temporary_bytes,
        num_tiles=target.num_tiles,
        lookup_parts=lookup_parts,
    )


def _slice_parts(
    share: _Share, received_bytes: int, num_elements: int, row_parts: int
) -> tuple[list[tuple[str, int]], int]:
    """Return `(parts, temporary_bytes)` of a slice, for the tile that computes the most.

    `parts` contains a pair (label, cycles) for each step of the slice. `share` describes what the
    tile computes, and `received_bytes` is the number of bytes that it receives. The complete result
    has `num_elements` elements. The rows of the table are divided into `row_parts` parts.
    """
    dtype = share.dtype
    target = share.target
    cycles = int(vertices.multi_slice(share.columns, share.lookups, dtype, target))
    parts = [share.exchange("numbers to all blocks", received_bytes), ("slice", cycles)]
    if row_parts == 1:
        return parts, 0
    elements_per_tile = -(-num_elements // target.num_tiles)
    partial_bytes = row_parts * elements_per_tile * dtype.size
    cycles = stage_cycles("ADD", elements_per_tile, row_parts, dtype, out=dtype, target=target)
    parts += [share.exchange("results to one", partial_bytes), ("put together", cycles)]
    return parts, partial_bytes


def _update_parts(
    share: _Share, received_bytes: int, lookup_parts: int, operation: str, held_bytes: int
) -> tuple[list[tuple[str, int]], int]:
    """Return `(parts, temporary_bytes)` of an update, for the tile that computes the most.

    `parts` contains a pair (label, cycles) for each step of the update. `share` describes what the
    tile computes, and `received_bytes` is the number of bytes that it receives. If `held_bytes` is
    not 0, the table itself is moved, too, and `held_bytes` is the number of the table's bytes on
    the fullest tile.
    """
    dtype = share.dtype
    target = share.target
    parts = [share.exchange("updates to all blocks", received_bytes)]
    share_sizes = share.columns, share.lookups
    if operation == "none":
        cycles = int(vertices.multi_slice(*share_sizes, dtype, target, update=True))
    else:
        sums_dtype = FLOAT if lookup_parts > 1 else dtype
        cycles = int(
            vertices.multi_update_op(*share_sizes, sums_dtype, target, scaled=operation == "add")
        )
    parts.append(("update", cycles))
    temporary_bytes = 0
    if lookup_parts > 1:
        elements_per_block = share.rows * share.columns
        elements_per_tile = -(-elements_per_block // lookup_parts)
        sum_bytes = lookup_parts * elements_per_tile * FLOAT.size
        cycles = stage_cycles(
            "ADD", elements_per_tile, lookup_parts, FLOAT, out=dtype, target=target
        )
        parts += [share.exchange("parts to one", sum_bytes), ("added up", cycles)]
        temporary_bytes = elements_per_block * FLOAT.size + sum_bytes
        if held_bytes:
            parts.append(share.exchange("the table to the sums", held_bytes))
    if held_bytes:
        parts.append(share.exchange("back to the table", held_bytes))
    return parts, temporary_bytes


def check_plan(
    graph: Graph, plan: SlicePlan | None, x: Tensor, along: list[int], lengths: list[int]
) -> None:
    """Raise `PoplibsError` unless `plan` is None or is a plan for slices of single rows of x."""
    if plan is not None:
        check_table(graph, plan, x.dtype, x.shape, along=along)
        if lengths != [1]:
            problem = f"was given a plan and the sizes {lengths}."
            raise refused(problem, x, "give sizes=[1], or leave the plan out.")


def check_table(
    graph: Graph, plan: SlicePlan, dtype: type[DType], shape: Sequence[int], along: list[int]
) -> None:
    """Raise `PoplibsError` unless `plan` is for rows of a table of this dtype and shape.

    `along` contains the sliced dimensions.
    """
    table_facts = (dtype, tuple(shape), along, graph.target.num_tiles)
    if table_facts != (plan.dtype, (plan.entries, plan.columns), [0], plan.num_tiles):
        raise refused(f"""was given a plan for another table. The plan is for a
            {plan.dtype.__name__} table of shape {(plan.entries, plan.columns)} on
            {plan.num_tiles:,} tiles, sliced along dimensions [0]. The table is a {dtype.__name__}
            tensor of shape {tuple(shape)} on {graph.target.num_tiles:,} tiles, sliced along
            dimensions {along}.
            next:  create a plan for this table with popops.embedding_plan.""")


@library
def create_indices_tensor(
    graph: Graph,
    dims: Sequence[int],
    num_indices: int,
    plan: SlicePlan | None = None,
    name: str = "indices",
) -> Tensor:
    """Return a variable [num_indices, len(dims)] of UNSIGNED_INT for the offsets of slices.

    The variable is mapped linearly; `plan` has no effect.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    if not isinstance(dims, (list, tuple)) or not is_whole(num_indices) or num_indices < 0:
        raise refused(f"""was given dims={shown(dims)} and num_indices={shown(num_indices)}.
            next:  give a list of dimensions, and a whole number of 0 or more as num_indices.""")
    return linear(graph, UNSIGNED_INT, (int(num_indices), len(dims)), name)
