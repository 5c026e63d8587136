"""The partition of a table for many slices at once: `embedding_plan`, and the tensors laid out by
it.

A table of entries by columns is divided into blocks of rows and of columns, and the row numbers
into parts of lookups; a tile has one of each. It receives the whole block, which is spread over the
tiles that share it, and looks up its part of the numbers among those rows. If rows are divided, a
second compute set combines the blocks' results. For an update, every tile receives the updates of
its rows; if lookups are divided, each adds up its own part, and a second compute set adds the parts
to the table. PopLibs plans the same partitions (popops/DynamicSlice.cpp).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

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
from ipu_teach.poplibs.options import Option, Options, settled
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
    # Costs are PopLibs' for the worst case, in which all numbers fall into one worker's rows, in
    # any order.
    Option("indicesDistribution", ("uniform", "onePoint"), "uniform", effect=False),
    Option("indicesAreSorted", bool, False, effect=False),
)


@advised("give what embedding_plan returns.")
@dataclass(frozen=True, repr=False)
class SlicePlan:
    """The partition of a table [entries, columns] of `dtype`: `row_parts` by `column_parts` blocks,
    each on `lookup_parts` tiles of its own.

    `lookups` is the number of slices that it was planned for. `parts` has (label, modelled cycles);
    `table_bytes` and `temporary_bytes` are the bytes of the table, and of temporary data, on the
    fullest tile. Print it, or show it in a notebook.
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
        """Modelled cycles of a slice, and of an update, where the plan is for both."""
        return sum(cycles for _, cycles in self.parts)

    def rows(self) -> list[tuple[int, int]]:
        """Return the (begin, end) of each block of rows."""
        return balanced_partition(self.entries, self.row_parts)

    def blocks(
        self, lookups: int | None = None
    ) -> list[tuple[int, tuple[int, int], tuple[int, int], tuple[int, int]]]:
        """(tile, its rows, its columns, its lookups) of every part, spread evenly over all tiles.
        `lookups`: how many there are, if not as planned."""
        columns = balanced_partition(self.columns, self.column_parts)
        parts = balanced_partition(self.lookups if lookups is None else lookups, self.lookup_parts)
        cuts = list(product(self.rows(), columns, parts))
        return [(tile, *cut) for tile, cut in dealt(cuts, self.num_tiles)]

    def places(self) -> list[tuple[int, tuple[int, int], tuple[int, int]]]:
        """(tile, rows, columns) of the table: a block's rows are dealt to all tiles that share
        it."""
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
            DrawnMatrix("table", self.entries, self.columns, self.column_parts, self.row_parts),
            DrawnMatrix("out", self.lookups, self.columns, self.column_parts, 1),
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
    """Return the best partition of a table [num_entries, output_size] of `dtype` for slices and
    updates of `num_lookups` rows at a time.

    `num_lookups` is a list; the plan is for the largest. `options`: "usedForSlice" and
    "usedForUpdate" (True) select the operations that are costed; "operationForUpdate" is "add",
    "max" or "none"; "planMinimisationTarget" is "memory" (of the fullest tile, the default) or
    "cycles"; "availableMemoryProportion" is the share of a tile for temporary data (no limit by
    default); "indicesDistribution" and "indicesAreSorted" are accepted and change nothing. Raises
    `PoplibsError`, `InvalidOptionError`.
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
    options: tuple[tuple[str, object], ...],
) -> SlicePlan:
    chosen = dict(options)
    needs_all = chosen["usedForUpdate"] and chosen["operationForUpdate"] != "add"
    plans = [
        planned(sizes, dtype, target, rows, columns, chosen, lookups)
        for columns, rows, lookups in _cuts(sizes, target.num_tiles)
        if lookups == 1 or not needs_all
    ]
    share = chosen["availableMemoryProportion"]
    if isinstance(share, float):
        limit = share * target.bytes_per_tile
        plans = [p for p in plans if p.temporary_bytes <= limit] or [
            min(plans, key=lambda p: p.temporary_bytes)
        ]
    if chosen["planMinimisationTarget"] == "cycles":
        return min(plans, key=lambda p: (p.cycles, p.table_bytes + p.temporary_bytes))
    return min(plans, key=lambda p: (p.table_bytes + p.temporary_bytes, p.cycles))


def _cuts(sizes: tuple[int, int, int], tiles: int) -> Iterator[tuple[int, int, int]]:
    """Yield (parts of the columns, of the rows, of the lookups) that have a tile for each block: of
    the lookups some, each a tenth more than the one before."""
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
    """Return the fastest plan for slices, or else for updates by `add`, of a table with any
    mapping, of which `elements_held` elements are on one tile; within a quarter of a tile's memory.
    None if none takes less than `cycles`."""
    chosen: dict[str, object] = {
        "usedForSlice": slices,
        "usedForUpdate": not slices,
        "operationForUpdate": "add",
    }
    limit = target.bytes_per_tile // 4
    best = None
    if cycles <= 2 * _superstep(target):
        return None
    for columns, rows, lookups in _cuts(sizes, target.num_tiles):
        plan = planned(sizes, dtype, target, rows, columns, chosen, lookups, elements_held)
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
    """Return the cycles before the first word arrives on the last tile."""
    return target.internal_sync_cycles + int(arrival_cycles(target).max())


def planned(
    sizes: tuple[int, int, int],
    dtype: type[DType],
    target: Target,
    row_parts: int,
    column_parts: int,
    chosen: dict[str, object],
    lookup_parts: int = 1,
    elements_held: int = 0,
) -> SlicePlan:
    """Return the plan with these numbers of parts, and its costs, as if every element came from
    another tile. With
    `elements_held`, so does the table, of which one tile has that many elements."""
    entries, columns, lookups = sizes
    rows = -(-entries // row_parts)
    wide = -(-columns // column_parts)
    lookups_of_part = -(-lookups // lookup_parts)
    cut = lookup_parts > 1
    superstep = _superstep(target)
    numbers = lookups_of_part * UNSIGNED_INT.size
    moved = lookups_of_part * wide * dtype.size
    block = rows * wide * dtype.size
    brought = block if cut or elements_held else 0
    parts: list[tuple[str, int]] = []
    temporary = numbers + moved + brought

    def travels(label: str, size: int) -> None:
        parts.append((label, superstep + int(exchange_cycles(size, target))))

    if chosen["usedForSlice"]:
        travels("numbers to all blocks", numbers + brought)
        parts.append(("slice", int(vertices.multi_slice(wide, lookups_of_part, dtype, target))))
        if row_parts > 1:
            share = -(-lookups * columns // target.num_tiles)
            travels("results to one", row_parts * share * dtype.size)
            parts.append(
                ("put together", stage_cycles("ADD", share, row_parts, dtype, dtype, target))
            )
            temporary += row_parts * share * dtype.size
    if chosen["usedForUpdate"]:
        operation = chosen["operationForUpdate"]
        travels("updates to all blocks", numbers + moved + (0 if cut else brought))
        carried = FLOAT if cut else dtype
        if operation == "none":
            cycles = vertices.multi_slice(wide, lookups_of_part, dtype, target, update=True)
        else:
            cycles = vertices.multi_update_op(
                wide, lookups_of_part, carried, target, scaled=operation == "add"
            )
        parts.append(("update", int(cycles)))
        if cut:
            share = -(-rows * wide // lookup_parts)
            travels("parts to one", lookup_parts * share * FLOAT.size)
            parts.append(
                ("added up", stage_cycles("ADD", share, lookup_parts, FLOAT, dtype, target))
            )
            temporary += rows * wide * FLOAT.size + lookup_parts * share * FLOAT.size
            if elements_held:
                travels("the table to the sums", elements_held * dtype.size)
        if elements_held:
            travels("back to the table", elements_held * dtype.size)
    return SlicePlan(
        entries,
        columns,
        lookups,
        dtype,
        row_parts,
        column_parts,
        tuple(parts),
        -(-rows // lookup_parts) * wide * dtype.size,
        temporary,
        target.num_tiles,
        lookup_parts,
    )


def check_plan(
    graph: Graph, plan: SlicePlan | None, x: Tensor, along: list[int], lengths: list[int]
) -> None:
    """Raise `PoplibsError` unless the plan, if there is one, is for slices of single rows of x."""
    if plan is not None:
        check_table(graph, plan, x.dtype, x.shape, along)
        if lengths != [1]:
            says = f"was given a plan and the sizes {lengths}."
            raise refused(says, x, "give sizes=[1], or leave the plan out.")


def check_table(
    graph: Graph, plan: SlicePlan, dtype: type[DType], shape: Sequence[int], along: list[int]
) -> None:
    """Raise `PoplibsError` unless the plan is for a table of this dtype and shape, sliced along its
    rows."""
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
    """Return a variable [num_indices, len(dims)] of UNSIGNED_INT for the numbers of slices, mapped
    linearly, whatever the plan."""
    if not isinstance(dims, (list, tuple)) or not is_whole(num_indices) or num_indices < 0:
        raise refused(f"""was given the dimensions {shown(dims)} and {shown(num_indices)} as
            num_indices.
            next:  give a list of dimensions, and a whole number.""")
    return linear(graph, UNSIGNED_INT, (int(num_indices), len(dims)), name)
