"""The contiguous runs of elements in many layouts at once, as arrays.

A run is a series of elements that are adjacent in memory. If vertex fields are connected to
irregular tensor elements, each connection has its own layout. So a graph can have as many layouts
as vertices. A loop over layouts would then be slow. Instead, these functions process all layouts
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ipu_teach.graph.layouts import Layout, ListLayout
from ipu_teach.graph.tile_map import distinct, expand, order_of
from ipu_teach.types import Array


@dataclass(frozen=True, eq=False)
class Runs:
    """The contiguous runs of elements in several layouts, in one table.

    The runs of layout i have the indices from `pointers[i]` to before `pointers[i + 1]` in `start`
    (relative to the layout's first element) and `length`.
    """

    pointers: Array
    start: Array
    length: Array

    @property
    def count(self) -> Array:
        """The number of contiguous runs in each layout: int64[layouts]."""
        counts: Array = np.diff(self.pointers)
        return counts


@dataclass(frozen=True, eq=False)
class Parts:
    """A table of the regions in several layouts, in order, with one row per region.

    A region is one item of a list field's layout, or the complete layout of any other field.
    `owner` is the index of the layout that contains the region. `offset` is the start of the
    region, relative to the first element of that layout. `index` is the index in `layouts` of the
    region's own layout.
    """

    owner: Array
    offset: Array
    index: Array
    layouts: list[Layout]


def parts_of(layouts: Iterable[Layout | ListLayout]) -> Parts:
    """Return the regions of `layouts`; regions of the same layout have the same `index`."""
    regions = [
        (owner, offset, part)
        for owner, layout in enumerate(layouts)
        for offset, part in layout.parts
    ]
    distinct_layouts = {part.id: part for _, _, part in regions}
    index_of_layout = {layout_id: position for position, layout_id in enumerate(distinct_layouts)}
    columns = np.array(
        [(owner, offset, index_of_layout[part.id]) for owner, offset, part in regions], np.int64
    )
    owners, offsets, indices = columns.reshape(-1, 3).T
    return Parts(owners, offsets, indices, list(distinct_layouts.values()))


def touched_runs(layouts: Sequence[Layout | ListLayout]) -> Runs:
    """Return the contiguous runs of elements that each layout covers.

    If a layout has several regions, the runs of the first region come first, then the runs of the
    second, and so on. In each region, every element is in only one run, and the runs ascend.
    """
    parts = parts_of(layouts)
    runs = _runs(
        parts.layouts,
        [layout.listed is not None for layout in parts.layouts],
        distinct,
        lambda layout: layout.extent,
    )
    part, run = expand(runs.pointers[parts.index], runs.count[parts.index])
    return Runs(
        pointers_of(np.bincount(parts.owner[part], minlength=len(layouts))),
        parts.offset[part] + runs.start[run],
        runs.length[run],
    )


def ordered_runs(layouts: Sequence[Layout]) -> Runs:
    """Return the contiguous runs of elements in each layout, in the order of the layout's elements.

    If a layout contains an element several times, only the first occurrence counts.
    """
    return _runs(
        layouts,
        [layout.listed is not None or layout.aliased for layout in layouts],
        _first_occurrences,
        lambda layout: layout.runs,
    )


def pointers_of(counts: Array) -> Array:
    """Return where each of several consecutive groups starts, and where the last group ends.

    `counts` has the sizes of the groups. The result has one number more than `counts`.
    """
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def _runs(
    layouts: Sequence[Layout],
    is_listed: Sequence[bool],
    keys_of: Callable[[Array], Array],
    strided: Callable[[Layout], tuple[Array, Array]],
) -> Runs:
    """Return the contiguous runs of elements in each layout.

    For a layout with `is_listed`, `keys_of(positions)` removes repeated positions and puts the
    others in the order of the runs. For any other layout, `strided(layout)` returns the runs'
    (starts, lengths).
    """
    listed_indices = np.flatnonzero(is_listed)
    positions_by_list = [layouts[i].positions.reshape(-1) for i in listed_indices.tolist()]
    layout_of_run, run_starts, run_lengths = _listed_runs(positions_by_list, keys_of)
    strided_indices = np.flatnonzero(~np.array(is_listed, bool))
    strided_runs = [strided(layouts[i]) for i in strided_indices.tolist()]
    if strided_runs:
        owner_of_strided = np.repeat(
            strided_indices, [len(starts_of_layout) for starts_of_layout, _ in strided_runs]
        )
        layout_of_run = np.concatenate((listed_indices[layout_of_run], owner_of_strided))
        order = order_of(layout_of_run)
        layout_of_run = layout_of_run[order]
        run_starts = np.concatenate(
            (run_starts, *(starts_of_layout for starts_of_layout, _ in strided_runs))
        )[order]
        run_lengths = np.concatenate(
            (run_lengths, *(lengths_of_layout for _, lengths_of_layout in strided_runs))
        )[order]
    return Runs(
        pointers_of(np.bincount(layout_of_run, minlength=len(layouts))), run_starts, run_lengths
    )


def _listed_runs(
    positions: list[Array], keys_of: Callable[[Array], Array]
) -> tuple[Array, Array, Array]:
    """Return (list index, start, length) of each series of consecutive positions in several lists.

    Each of the three is an array with one element per series. `keys_of(numbers)` removes repeated
    numbers and puts the others in the order in which the series are formed.
    """
    if not positions:
        return (np.zeros(0, np.int64),) * 3
    all_positions = np.concatenate(positions)
    list_index = np.repeat(np.arange(len(positions)), [len(listed) for listed in positions])
    # Shift each list into a separate range of numbers, with a gap of one number before the next
    # range. Then no run of consecutive numbers continues into the next list.
    lowest = all_positions.min(initial=0)
    numbers_per_list = np.ptp(all_positions) + 2 if len(all_positions) else 1
    sorted_keys = keys_of(list_index * numbers_per_list + all_positions - lowest)
    run_firsts = np.flatnonzero(np.append(True, np.diff(sorted_keys) != 1)[: len(sorted_keys)])
    list_index, run_starts = np.divmod(sorted_keys[run_firsts], numbers_per_list)
    return list_index, run_starts + lowest, np.diff(np.append(run_firsts, len(sorted_keys)))


def _first_occurrences(keys: Array) -> Array:
    """Return the distinct keys, in the order in which they first occur."""
    order = np.argsort(keys, kind="stable")
    is_first = np.ones(len(keys), bool)
    is_first[order[1:][np.diff(keys[order]) == 0]] = False
    first: Array = keys[is_first]
    return first
