"""Cycles of vertices that sort, merge and select.

PopLibs sorts rows only with its vertex CompareAndSwapAtDistance, and has no vertex that merges
sorted runs. So these formulas count the instructions that a merging vertex would need.

The inner loop is like that of PopLibs
(lib/popops/codelets/asm/CompareAndSwapAtDistanceKeyVal_float_unsigned.S): it loads a key, compares
it, moves the result of a comparison of floats to the integer registers (`atom`), branches, stores,
and counts. NaN is sorted after all numbers, so the loop ends a run at its first NaN. Six workers
share a merge: each of them finds by bisection where its part of the result begins in the two runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from ipu_teach.cost.vertices.parts import SUPERVISOR_OVERHEAD, ceil_div, is_float, share
from ipu_teach.cost.vertices.popnn import max_class
from ipu_teach.target import Target
from ipu_teach.types import DType

# The cycles in which a vertex reads its pointers and counts. (CompareAndSwapAtDistance takes 22
# cycles for that.)
_START = 20
# To start, a merge loads two pointers, two ends, the two first keys and a count, and branches to
# its loop.
_MERGE_START = 8
# A step of a bisection computes a middle, loads twice, compares, branches, and sets a new end.
_BISECTION = 7
# An insertion finds its place in a sorted list, and updates the list's end and the smallest
# retained key.
_INSERTION = 6


def compare_cycles(dtype: type[DType]) -> int:
    """Return the worker cycles to load a key, compare it and branch."""
    return 3 + is_float(dtype)


def merge_cycles(dtypes: Sequence[type[DType]]) -> int:
    """Return the worker cycles for one element of a merged run.

    `dtypes` are the types of the element's key and of the values that move with the key.
    """
    return 1 + compare_cycles(dtypes[0]) + sum(map(_move_cycles, dtypes)) - _load_cycles(dtypes[0])


def _load_cycles(dtype: type[DType]) -> int:
    return ceil_div(dtype.size, 4)


def _move_cycles(dtype: type[DType]) -> int:
    """Return the worker cycles to load an element and store it.

    Memory is written in words. So to store an element smaller than a word, its word is read,
    changed and written.
    """
    return _load_cycles(dtype) + (3 if dtype.size < 4 else dtype.size // 4)


def merge_runs(
    merges: int, outputs: int, length: int, dtypes: Sequence[type[DType]], target: Target
) -> int:
    """Return the tile cycles of `merges` merges of two sorted runs of at most `length` elements.

    Each merge keeps only the first `outputs` elements of its result.
    """
    workers = target.num_worker_contexts
    per_pair = merge_cycles(dtypes)
    cycles_per_merge = _MERGE_START + outputs * per_pair
    full_rounds, remaining_merges = divmod(merges, workers)
    worker_cycles = full_rounds * cycles_per_merge
    # The workers divide the outputs of all remaining merges evenly. So a worker may do the end of
    # one merge and the beginning of the next.
    if remaining_merges:
        start_cycles = _MERGE_START + _BISECTION * length.bit_length()
        worker_cycles += min(
            cycles_per_merge,
            min(remaining_merges, 2) * start_cycles
            + ceil_div(remaining_merges * outputs, workers) * per_pair,
        )
    return _of_workers(worker_cycles, target)


def sort_rows(
    rows: int, n: int, run: int, k: int, dtypes: Sequence[type[DType]], target: Target
) -> int:
    """Return the tile cycles to find and sort the first `k` elements of each row of `n` elements.

    Each row consists of sorted runs of `run` elements; `run` is 1 if the row is unsorted. The
    result is the cycles of the cheapest of these methods:

    - merging pairs of runs, either round by round on all workers or each row on one worker;
    - inserting each element in order;
    - keeping a list of the first `k` elements while scanning;
    - for one element, PopLibs' search for the largest.
    """
    options = [
        _merge_all(rows, n, run, k=k, dtypes=dtypes, target=target),
        _merge_apart(rows, n, run, k=k, dtypes=dtypes, target=target),
    ]
    if run == 1 and 0 < k < n:
        options.append(_select(rows, n, k, dtypes, target))
    if k == 1 and n:
        options.append(_first(rows, n, dtypes, target))
    return min(options)


def _merge_all(
    rows: int, n: int, run: int, k: int, dtypes: Sequence[type[DType]], target: Target
) -> int:
    runs = max(ceil_div(n, run), 1)
    length = min(run, k)
    total = 0 if runs > 1 else merge_runs(rows, min(n, k), length, dtypes=dtypes, target=target)
    while runs > 1:
        retained = min(k, 2 * length)
        total += merge_runs(rows * (runs // 2), retained, length, dtypes=dtypes, target=target)
        runs = ceil_div(runs, 2)
        length = retained
    return total


def _merge_apart(
    rows: int, n: int, run: int, k: int, dtypes: Sequence[type[DType]], target: Target
) -> int:
    """Return the tile cycles if each worker sorts entire rows, by merging or inserting."""
    workers = target.num_worker_contexts
    per_pair = merge_cycles(dtypes)
    runs = max(ceil_div(n, run), 1)
    length = min(run, k)
    row_cycles = 0
    while runs > 1:
        length = min(k, 2 * length)
        row_cycles += runs // 2 * (_MERGE_START + length * per_pair)
        runs = ceil_div(runs, 2)
    if not row_cycles:
        row_cycles = _MERGE_START + n * per_pair
    elif run == 1:  # On average, half of the elements before an element are larger.
        row_cycles = min(
            row_cycles, n * (compare_cycles(dtypes[0]) + _INSERTION) + n * n // 4 * per_pair
        )
    return _of_workers(ceil_div(rows, workers) * row_cycles, target)


def _select(rows: int, n: int, k: int, dtypes: Sequence[type[DType]], target: Target) -> int:
    """Return the tile cycles to select the first `k` of the `n` elements of each row.

    Each worker scans a row or a part of a row, and keeps a sorted list of the first `k` elements so
    far. The number of insertions is the mean for elements in random order, where element i is
    inserted with probability k / i.
    """
    workers = target.num_worker_contexts
    shares = max(1, workers // rows)
    share_length = ceil_div(n, shares)
    insertions = share_length if share_length <= k else k + int(k * log(share_length / k))
    insertion_cycles = _INSERTION + ceil_div(k, 2) * merge_cycles(dtypes)
    scan_cycles = share_length * compare_cycles(dtypes[0]) + insertions * insertion_cycles
    total = SUPERVISOR_OVERHEAD + workers * (
        _START + ceil_div(rows * shares, workers) * scan_cycles
    )
    if shares > 1:
        total += _merge_all(
            rows,
            shares * min(k, share_length),
            min(k, share_length),
            k=k,
            dtypes=dtypes,
            target=target,
        )
    return total


def _first(rows: int, n: int, dtypes: Sequence[type[DType]], target: Target) -> int:
    """Return the tile cycles of finding each row's largest element, by rows or by parts of rows.

    Each worker searches a row or a part of a row. If rows are divided into parts, one worker then
    selects the best result of each row. The faster of the two ways counts.
    """
    workers = target.num_worker_contexts
    move_cycles = sum(map(_move_cycles, dtypes))
    cycles = workers * ceil_div(rows, workers) * (int(max_class(n)) + move_cycles)
    shares_per_row = workers // rows
    if shares_per_row < 2:
        return SUPERVISOR_OVERHEAD + cycles
    best_cycles = workers * (int(max_class(shares_per_row)) + move_cycles)
    split_cycles = (
        SUPERVISOR_OVERHEAD
        + workers * (int(max_class(ceil_div(n, shares_per_row))) + move_cycles)
        + best_cycles
    )
    return SUPERVISOR_OVERHEAD + min(cycles, split_cycles)


def rank_pair(first: int, second: int, dtype: type[DType], target: Target) -> int:
    """Return the tile cycles to rank each key of two sorted runs among the keys of the other run.

    For each key, a loop over both runs counts the keys in the other run that are smaller. `first`
    and `second` are the lengths of the runs.
    """
    per_pair = compare_cycles(dtype) + 2  # Two more cycles increase and store a count.
    begin = _MERGE_START + _BISECTION * min(first, second).bit_length()
    return _of_workers(begin + share(first + second, target) * per_pair, target)


def sum_ranks(counts: int, n: int, target: Target) -> int:
    """Return the tile cycles to compute the ranks of `n` elements of a sorted run.

    The rank of an element is a sum of its position in its own run, and of the numbers of smaller
    elements in each of `counts` other runs.
    """
    return _of_workers(share(n, target) * (2 * counts + 2), target)


def scatter_run(length: int, slots: int, dtype: type[DType], target: Target) -> int:
    """Return the tile cycles to store sorted elements at their ranks in an output of zeros.

    The output has `slots` elements, and `length` is the number of sorted elements. An element is
    stored only if its rank is within this output.
    """
    fill = share(ceil_div(slots * dtype.size, 8), target)
    moves = share(min(length, slots), target) * (2 + _move_cycles(dtype))
    return _of_workers(fill + _BISECTION * length.bit_length() + moves, target)


def combine_runs(runs: int, n: int, dtype: type[DType], target: Target) -> int:
    """Return the tile cycles to combine `runs` rows of `n` elements by OR.

    In each column, at most one element is not 0.
    """
    return _of_workers(share(ceil_div(n * dtype.size, 4), target) * (2 * runs + 1), target)


def _of_workers(cycles: int, target: Target) -> int:
    """Return the tile cycles of a vertex whose slowest worker takes `cycles` after starting."""
    return SUPERVISOR_OVERHEAD + target.num_worker_contexts * (_START + cycles)
