"""How a table is cut for many slices at once: `embedding_plan`, and the tensors laid out by it.

A table of entries by columns is cut into blocks of rows and of columns, a block a tile. For a slice
every block looks all numbers up among its own rows, and where rows were cut, a second compute set
puts the blocks' results together. For an update every block takes what is meant for its rows.
PopLibs plans the same cuts; it can also cut the lookups, which is not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import arrival_cycles, exchange_cycles
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.outline import table
from ipu_teach.poplibs import drawing
from ipu_teach.poplibs.drawing import DrawnMatrix
from ipu_teach.poplibs.library import as_given, calling, library, refused
from ipu_teach.poplibs.options import Option, Options, settled
from ipu_teach.poplibs.popops.reduction_vertices import stage_cycles
from ipu_teach.poplibs.poputil import balanced_partition, map_tensor_linearly
from ipu_teach.target import Target
from ipu_teach.types import UNSIGNED_INT, DType, as_dtype

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


@dataclass(frozen=True, repr=False)
class SlicePlan:
    """How a table [entries, columns] of `dtype` is cut: `row_parts` by `column_parts` blocks, each
    on a tile of its own.

    `lookups`: how many slices it was planned for. `parts`: (what, modelled cycles); `table_bytes`
    and `temporary_bytes`: what the fullest tile holds of the table, and beside it for a while.
    Print it, or show it in a notebook.
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

    @property
    def cycles(self) -> int:
        """Modelled cycles of a slice, and of an update, where the plan is for both."""
        return sum(cycles for _, cycles in self.parts)

    def rows(self) -> list[tuple[int, int]]:
        """The (begin, end) of each block of rows."""
        return balanced_partition(self.entries, self.row_parts)

    def blocks(self) -> list[tuple[int, tuple[int, int], tuple[int, int]]]:
        """(tile, its rows, its columns) of every block, spread evenly over all tiles."""
        count = self.row_parts * self.column_parts
        cuts = [
            (r, c) for r in self.rows() for c in balanced_partition(self.columns, self.column_parts)
        ]
        return [(number * self.num_tiles // count, *cut) for number, cut in enumerate(cuts)]

    def __repr__(self) -> str:
        steps = ", ".join(f"{what} {cycles:,}" for what, cycles in self.parts)
        return (
            f"SlicePlan([{self.entries:,}, {self.columns:,}] {self.dtype.__name__}, "
            f"{self.lookups:,} lookups: rows in {self.row_parts:,}, columns in "
            f"{self.column_parts:,}; modelled cycles: {steps}; a tile holds {self.table_bytes:,} "
            f"bytes of the table, and {self.temporary_bytes:,} for a while)"
        )

    def _repr_html_(self) -> str:
        matrices = [
            DrawnMatrix("table", self.entries, self.columns, self.column_parts, self.row_parts),
            DrawnMatrix("out", self.lookups, self.columns, self.column_parts, 1),
        ]
        rows = [(what, f"{cycles:,}") for what, cycles in self.parts]
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
    """The best cut of a table [num_entries, output_size] of `dtype` for slices and updates of
    `num_lookups` rows at a time.

    `num_lookups`: a list; the plan is for the largest. `options`: "usedForSlice" and
    "usedForUpdate" (True), what is costed; "operationForUpdate" ("add", "max" or "none");
    "planMinimisationTarget": "memory" (of the fullest tile, the default) or "cycles";
    "availableMemoryProportion": of a tile, for what is held for a while (no limit by default);
    "indicesDistribution" and "indicesAreSorted" are taken and change nothing. Raises
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
        raise InvalidOptionError(f"""{calling()}() was told that the plan is used for nothing.
            next:  leave usedForSlice or usedForUpdate True.""")
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
    plans = [
        planned(sizes, dtype, target, rows, columns, chosen)
        for columns in _counts(sizes[1], target.num_tiles)
        for rows in _counts(sizes[0], target.num_tiles // columns)
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


def _counts(size: int, most: int) -> list[int]:
    """Every number of parts, up to `most`, that gives smaller blocks than one part less."""
    return sorted(
        {-(-size // -(-size // parts)) for parts in range(1, max(1, min(size, most)) + 1)}
    )


def planned(
    sizes: tuple[int, int, int],
    dtype: type[DType],
    target: Target,
    row_parts: int,
    column_parts: int,
    chosen: dict[str, object],
) -> SlicePlan:
    """The plan with these numbers of blocks, and its costs: as if every element came from another
    tile."""
    entries, columns, lookups = sizes
    rows, wide = -(-entries // row_parts), -(-columns // column_parts)
    superstep = target.internal_sync_cycles + int(arrival_cycles(target).max())
    numbers, moved = lookups * UNSIGNED_INT.size, lookups * wide * dtype.size
    parts: list[tuple[str, int]] = []
    temporary = numbers + moved
    if chosen["usedForSlice"]:
        parts.append(("numbers to all blocks", superstep + int(exchange_cycles(numbers, target))))
        parts.append(("slice", int(vertices.multi_slice(wide, lookups, dtype, target))))
        if row_parts > 1:
            share = -(-lookups * columns // target.num_tiles)
            parts.append(
                (
                    "results to one",
                    superstep + int(exchange_cycles(row_parts * share * dtype.size, target)),
                )
            )
            parts.append(
                ("put together", stage_cycles("ADD", share, row_parts, dtype, dtype, target))
            )
            temporary += row_parts * share * dtype.size
    if chosen["usedForUpdate"]:
        parts.append(
            ("updates to all blocks", superstep + int(exchange_cycles(numbers + moved, target)))
        )
        operation = chosen["operationForUpdate"]
        if operation == "none":
            cycles = vertices.multi_slice(wide, lookups, dtype, target, update=True)
        else:
            cycles = vertices.multi_update_op(
                wide, lookups, dtype, target, scaled=operation == "add"
            )
        parts.append(("update", int(cycles)))
    held = rows * wide * dtype.size
    return SlicePlan(
        entries,
        columns,
        lookups,
        dtype,
        row_parts,
        column_parts,
        tuple(parts),
        held,
        temporary,
        target.num_tiles,
    )


def check_plan(
    graph: Graph, plan: object, x: Tensor, along: list[int], lengths: list[int]
) -> SlicePlan | None:
    """`plan`, if it is for slices of single rows of x; None if there is none. Raises
    `PoplibsError`."""
    if plan is None:
        return None
    if not isinstance(plan, SlicePlan):
        raise as_given(plan, "plan", "give what embedding_plan returns.")
    check_table(graph, plan, x.dtype, x.shape, along)
    if lengths != [1]:
        raise refused(f"was given a plan and the sizes {lengths}.", x, "a plan is for sizes=[1].")
    return plan


def check_table(
    graph: Graph, plan: SlicePlan, dtype: type[DType], shape: Sequence[int], along: list[int]
) -> None:
    """Raise `PoplibsError` unless the plan is for a table of this dtype and shape, sliced along its
    rows."""
    found = (dtype, tuple(shape), along, graph.target.num_tiles)
    if found != (plan.dtype, (plan.entries, plan.columns), [0], plan.num_tiles):
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
    """A variable [num_indices, len(dims)] of UNSIGNED_INT for the numbers of slices, mapped
    linearly, whatever the plan."""
    if not isinstance(dims, (list, tuple)) or not is_whole(num_indices) or num_indices < 0:
        raise refused(f"""was given the dimensions {shown(dims)} and {shown(num_indices)} as
            num_indices.
            next:  give a list of dimensions, and a whole number.""")
    if plan is not None and not isinstance(plan, SlicePlan):
        raise as_given(plan, "plan", "give what embedding_plan returns.")
    made = graph.add_variable(UNSIGNED_INT, (int(num_indices), len(dims)), name)
    map_tensor_linearly(graph, made)
    return made
