"""The partition of a table for many slices at once: `embedding_plan`, and tensors mapped by it.

A table of entries by columns is divided into blocks of rows and columns, and the row numbers into
parts of lookups. Each tile has one block and one part. It receives the full block, which is
distributed over the tiles that share it, and looks up its part of the numbers in it. If rows are
divided, a second compute set combines the results of the blocks. For an update, every tile receives
the updates of its rows; if lookups are divided, each tile sums its own part, and a second compute
set adds the sums to the table. PopLibs plans the same partitions (popops/DynamicSlice.cpp).
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
    # PopLibs' costs are those of the worst case, where all numbers are in the rows of one worker;
    # the
    # distribution and order of the numbers change nothing.
    Option("indicesDistribution", ("uniform", "onePoint"), "uniform", effect=False),
    Option("indicesAreSorted", bool, False, effect=False),
)


@advised("give what embedding_plan returns.")
@dataclass(frozen=True, repr=False)
class SlicePlan:
    """The partition of a table [entries, columns] of `dtype` for slices of single rows.

    The table is divided into `row_parts` by `column_parts` blocks, each on `lookup_parts` tiles.
    The plan is for `lookups` slices at a time. `parts` contains (label, modelled cycles).
    `table_bytes` and `temporary_bytes` are the bytes on the fullest tile, of the table and of
    temporary data. Print the plan, or show it in a notebook.
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
        """The modelled cycles of the operations that the plan is for: slice, update or both."""
        return sum(cycles for _, cycles in self.parts)

    def rows(self) -> list[tuple[int, int]]:
        """Return the interval (begin, end) of each block of rows."""
        return balanced_partition(self.entries, self.row_parts)

    def blocks(
        self, lookups: int | None = None
    ) -> list[tuple[int, tuple[int, int], tuple[int, int], tuple[int, int]]]:
        """Return (tile, rows, columns, lookups) of every part, spread evenly over all tiles.

        The last three are intervals (begin, end). `lookups` replaces the planned number.
        """
        columns = balanced_partition(self.columns, self.column_parts)
        parts = balanced_partition(self.lookups if lookups is None else lookups, self.lookup_parts)
        cuts = list(product(self.rows(), columns, parts))
        return [(tile, *cut) for tile, cut in dealt(cuts, self.num_tiles)]

    def places(self) -> list[tuple[int, tuple[int, int], tuple[int, int]]]:
        """Return (tile, rows, columns) of all parts of the table, as intervals (begin, end).

        A block's rows are distributed over all tiles that share the block.
        """
        blocks = self.blocks()
        many = self.lookup_parts
        places = []
        for first in range(0, len(blocks), many):
            _, (begin, end), columns, _ = blocks[first]
            cuts = balanced_partition(end - begin, min(many, end - begin))
            for (tile, *_), (low, high) in zip(blocks[first : first + many], cuts, strict=False):
                places.append((tile, (begin + low, begin + high), columns))
        return places

    def __repr__(self) -> str:
        steps = ", ".join(f"{label} {cycles:,}" for label, cycles in self.parts)
        return (
            f"SlicePlan([{self.entries:,}, {self.columns:,}] {self.dtype.__name__}, "
            f"{self.lookups:,} lookups: rows in {self.row_parts:,}, columns in "
            f"{self.column_parts:,}, lookups in {self.lookup_parts:,}; modelled cycles: {steps}; a "
            f"tile holds {self.table_bytes:,} bytes of the table, and {self.temporary_bytes:,} for "
            f"a while)"
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

    `num_lookups` is a list of numbers of rows per slice or update; the plan is for the largest.
    `options` may contain:

    * "usedForSlice" and "usedForUpdate" (True): the operations whose costs count;
    * "operationForUpdate": "add", "max" or "none";
    * "planMinimisationTarget": "memory" (of the fullest tile, the default) or "cycles";
    * "availableMemoryProportion": the share of a tile for temporary data (no limit by default);
    * "indicesDistribution" and "indicesAreSorted", which change nothing.

    Raises `PoplibsError` and `InvalidOptionError`.
    """
    kind = as_dtype(dtype, f"{calling()}()")
    listed = (
        isinstance(num_lookups, (list, tuple))
        and num_lookups
        and all(is_whole(n) and n > 0 for n in num_lookups)
    )
    for name, size in (("num_entries", num_entries), ("output_size", output_size)):
        if not is_whole(size) or size < 1:
            raise as_given(size, name, "give a whole number of 1 or more.")
    if not listed:
        raise as_given(
            num_lookups, "num_lookups", "give a list of whole numbers of 1 or more, as in [100]."
        )
    chosen = settled(OPTIONS, options)
    if not chosen["usedForSlice"] and not chosen["usedForUpdate"]:
        raise InvalidOptionError(f"""{calling()}() was given False for both usedForSlice and
            usedForUpdate.
            next:  leave one of them True.""")
    sizes = int(num_entries), int(output_size), max(int(n) for n in num_lookups)
    return _best(sizes, kind, graph.target, tuple(chosen.items()))


@lru_cache(maxsize=256)
def _best(
    sizes: tuple[int, int, int],
    dtype: type[DType],
    target: Target,
    options: tuple[tuple[str, Value], ...],
) -> SlicePlan:
    chosen = dict(options)
    needs_all = chosen["usedForUpdate"] and chosen["operationForUpdate"] != "add"
    plans = [
        planned(
            sizes,
            dtype,
            target,
            row_parts=rows,
            column_parts=columns,
            chosen=chosen,
            lookup_parts=lookups,
        )
        for columns, rows, lookups in _cuts(sizes, target.num_tiles)
        if lookups == 1 or not needs_all
    ]
    share = chosen["availableMemoryProportion"]
    if isinstance(share, float):
        limit = share * target.bytes_per_tile
        plans = [p for p in plans if p.temporary_bytes <= limit] or [
            min(plans, key=lambda p: p.temporary_bytes)
        ]

    def memory(plan: SlicePlan) -> int:
        return plan.table_bytes + plan.temporary_bytes

    if chosen["planMinimisationTarget"] == "cycles":
        return min(plans, key=lambda plan: (plan.cycles, memory(plan)))
    return min(plans, key=lambda plan: (memory(plan), plan.cycles))


def _cuts(sizes: tuple[int, int, int], tiles: int) -> Iterator[tuple[int, int, int]]:
    """Yield (parts of columns, parts of rows, parts of lookups) that leave a tile for each block.

    Only some numbers of parts of the lookups are tried, each at least 10 % above the last.
    """
    counts = [1]
    for parts in _counts(sizes[2], tiles):
        if parts >= 1.1 * counts[-1]:
            counts.append(parts)
    for columns in _counts(sizes[1], tiles):
        for rows in _counts(sizes[0], tiles // columns):
            max_parts = min(sizes[2], tiles // (columns * rows))
            for lookups in {*(parts for parts in counts if parts <= max_parts), max_parts}:
                yield columns, rows, lookups


@lru_cache(maxsize=256)
def quicker_plan(
    sizes: tuple[int, int, int],
    dtype: type[DType],
    target: Target,
    slices: bool,
    cycles: int,
    elements_held: int,
) -> SlicePlan | None:
    """Return the fastest plan for a table with any mapping; None if none takes less than `cycles`.

    It is for slices, or else for updates by `add`. `elements_held` elements of the table are on one
    tile. Temporary data is limited to a quarter of a tile's memory.
    """
    chosen: Settled = {
        "usedForSlice": slices,
        "usedForUpdate": not slices,
        "operationForUpdate": "add",
    }
    limit = target.bytes_per_tile // 4
    best = None
    if cycles <= 2 * _superstep(target):
        return None
    for columns, rows, lookups in _cuts(sizes, target.num_tiles):
        plan = planned(
            sizes,
            dtype,
            target,
            row_parts=rows,
            column_parts=columns,
            chosen=chosen,
            lookup_parts=lookups,
            elements_held=elements_held,
        )
        if plan.cycles < cycles and plan.temporary_bytes <= limit:
            best = plan
            cycles = plan.cycles
    return best


@lru_cache(maxsize=4096)
def _counts(size: int, maximum: int) -> list[int]:
    counts: list[int] = sensible_parts(size, maximum).tolist()
    return counts


@lru_cache(maxsize=64)
def _superstep(target: Target) -> int:
    """Return the cycles of a superstep before the first word arrives on the last tile."""
    return target.internal_sync_cycles + int(arrival_cycles(target).max())


class _Share(NamedTuple):
    """The share of a tile: `rows` by `columns` of a table, and `lookups` row numbers."""

    rows: int
    columns: int
    lookups: int
    dtype: type[DType]
    target: Target

    def exchange(self, label: str, size: int) -> tuple[str, int]:
        """Return (label, cycles) for a superstep in which a tile receives `size` bytes."""
        return label, _superstep(self.target) + int(exchange_cycles(size, self.target))


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
    """Return the plan with these numbers of parts, and its costs.

    Every element is assumed to come from another tile. With `elements_held`, that includes the
    table, of which one tile holds that many elements.
    """
    entries, columns, lookups = sizes
    share = _Share(
        rows=-(-entries // row_parts),
        columns=-(-columns // column_parts),
        lookups=-(-lookups // lookup_parts),
        dtype=dtype,
        target=target,
    )
    numbers = share.lookups * UNSIGNED_INT.size
    moved = share.lookups * share.columns * dtype.size
    block = share.rows * share.columns * dtype.size
    brought = block if lookup_parts > 1 or elements_held else 0
    parts: list[tuple[str, int]] = []
    temporary = numbers + moved + brought
    if chosen["usedForSlice"]:
        slice_parts, extra = _slice_parts(share, numbers + brought, lookups * columns, row_parts)
        parts += slice_parts
        temporary += extra
    if chosen["usedForUpdate"]:
        received = numbers + moved + (0 if lookup_parts > 1 else brought)
        update_parts, extra = _update_parts(
            share,
            received,
            lookup_parts,
            operation=chosen["operationForUpdate"],
            held_bytes=elements_held * dtype.size,
        )
        parts += update_parts
        temporary += extra
    return SlicePlan(
        entries=entries,
        columns=columns,
        lookups=lookups,
        dtype=dtype,
        row_parts=row_parts,
        column_parts=column_parts,
        parts=tuple(parts),
        table_bytes=-(-share.rows // lookup_parts) * share.columns * dtype.size,
        temporary_bytes=temporary,
        num_tiles=target.num_tiles,
        lookup_parts=lookup_parts,
    )


def _slice_parts(
    share: _Share, received: int, elements: int, row_parts: int
) -> tuple[list[tuple[str, int]], int]:
    """Return the (label, cycles) of a slice, and the temporary bytes to combine its results.

    A tile receives `received` bytes, and all results have `elements` elements.
    """
    dtype = share.dtype
    target = share.target
    cycles = int(vertices.multi_slice(share.columns, share.lookups, dtype, target))
    parts = [share.exchange("numbers to all blocks", received), ("slice", cycles)]
    if row_parts == 1:
        return parts, 0
    count = -(-elements // target.num_tiles)
    partials = row_parts * count * dtype.size
    cycles = stage_cycles("ADD", count, row_parts, dtype, out=dtype, target=target)
    parts += [share.exchange("results to one", partials), ("put together", cycles)]
    return parts, partials


def _update_parts(
    share: _Share, received: int, lookup_parts: int, operation: str, held_bytes: int
) -> tuple[list[tuple[str, int]], int]:
    """Return the (label, cycles) of an update, and the temporary bytes for partial sums.

    A tile receives `received` bytes. With `held_bytes`, the table itself is moved, of which one
    tile holds that many bytes.
    """
    dtype = share.dtype
    target = share.target
    parts = [share.exchange("updates to all blocks", received)]
    sizes = share.columns, share.lookups
    if operation == "none":
        cycles = int(vertices.multi_slice(*sizes, dtype, target, update=True))
    else:
        carried = FLOAT if lookup_parts > 1 else dtype
        cycles = int(vertices.multi_update_op(*sizes, carried, target, scaled=operation == "add"))
    parts.append(("update", cycles))
    temporary = 0
    if lookup_parts > 1:
        elements = share.rows * share.columns
        count = -(-elements // lookup_parts)
        sums = lookup_parts * count * FLOAT.size
        cycles = stage_cycles("ADD", count, lookup_parts, FLOAT, out=dtype, target=target)
        parts += [share.exchange("parts to one", sums), ("added up", cycles)]
        temporary = elements * FLOAT.size + sums
        if held_bytes:
            parts.append(share.exchange("the table to the sums", held_bytes))
    if held_bytes:
        parts.append(share.exchange("back to the table", held_bytes))
    return parts, temporary


def check_plan(
    graph: Graph, plan: SlicePlan | None, x: Tensor, along: list[int], lengths: list[int]
) -> None:
    """Raise `PoplibsError` unless `plan` is None, or is for slices of single rows of x."""
    if plan is not None:
        check_table(graph, plan, x.dtype, x.shape, along=along)
        if lengths != [1]:
            says = f"was given a plan and the sizes {lengths}."
            raise refused(says, x, "give sizes=[1], or leave the plan out.")


def check_table(
    graph: Graph, plan: SlicePlan, dtype: type[DType], shape: Sequence[int], along: list[int]
) -> None:
    """Raise `PoplibsError` unless `plan` is for rows of a table of this dtype and shape."""
    table_facts = (dtype, tuple(shape), along, graph.target.num_tiles)
    if table_facts != (plan.dtype, (plan.entries, plan.columns), [0], plan.num_tiles):
        raise refused(f"""was given a plan for [{plan.entries:,}, {plan.columns:,}] of
            {plan.dtype.__name__} on {plan.num_tiles:,} tiles, sliced along dimension 0; the tensor
            is {tuple(shape)} of {dtype.__name__} on {graph.target.num_tiles:,}, sliced along
            {along}.
            next:  make a plan for this table: popops.embedding_plan.""")


@library
def create_indices_tensor(
    graph: Graph,
    dims: Sequence[int],
    num_indices: int,
    plan: SlicePlan | None = None,
    name: str = "indices",
) -> Tensor:
    """Return a variable [num_indices, len(dims)] of UNSIGNED_INT for the offsets of slices.

    It is mapped linearly, whatever the plan.
    """
    if not isinstance(dims, (list, tuple)) or not is_whole(num_indices) or num_indices < 0:
        raise refused(f"""was given the dimensions {shown(dims)} and {shown(num_indices)} as
            num_indices.
            next:  give a list of dimensions, and a whole number.""")
    return linear(graph, UNSIGNED_INT, (int(num_indices), len(dims)), name)
