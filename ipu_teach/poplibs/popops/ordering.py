"""`Ordering`: adds the compute sets of a plan that orders rows.

A *run* is a sorted group of consecutive columns of a row. Each stage of a plan joins neighbouring
runs to a longer run, by a merge on one tile or by a ranking on several tiles. The module
`sort_plan` explains both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_teach.graph import ComputeSet, Graph, Tensor, concat
from ipu_teach.poplibs.laying import Edges, put, step, typed
from ipu_teach.poplibs.placing import balanced_partition, dealt
from ipu_teach.poplibs.popops.sort_plan import Cuts, Grid, Stage, cuts, grid, planned
from ipu_teach.poplibs.popops.sort_vertices import (
    WORDS,
    CombineRuns,
    K,
    RankPair,
    ScatterRun,
    SortRows,
    SortRowsKV,
    SumRanks,
    V,
)
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.types import (
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
    UNSIGNED_SHORT,
    DType,
)

# A dict with the tensor "keys" and optionally the tensor "values", both [rows, n].
Rows = dict[str, Tensor]
# Intervals (begin, end) of columns or of rows.
Spans = list[tuple[int, int]]

OUTPUTS = {"keys": "out", "values": "picked"}
_BITS = {d.size: d for d in (UNSIGNED_CHAR, UNSIGNED_SHORT, UNSIGNED_INT, UNSIGNED_LONGLONG)}


@dataclass
class Ordering:
    """The arguments of a call of sort or top_k, which selects `k` elements of each row.

    If `largest` is true, the k largest elements are selected, and otherwise the k smallest. They
    are returned in descending order if `descending` is true, and otherwise in ascending order.
    """

    graph: Graph
    prog: Program
    name: str
    k: int
    largest: bool
    descending: bool

    def order(self, rows: Rows, with_places: bool) -> Rows:
        """Append the program; return tensors [rows, k] with the selected keys and their values.

        The keys are in order. If `with_places` is true, the values are the positions of the keys in
        their rows.
        """
        num_rows, row_length = rows["keys"].shape
        dtypes = [t.dtype for t in rows.values()]
        if with_places:
            dtypes.append(UNSIGNED_INT)
        if not (num_rows and self.k):
            fields = zip(OUTPUTS, dtypes, strict=False)
            return {field: self._new(field, dtype, (num_rows, self.k)) for field, dtype in fields}
        plan = planned(num_rows, row_length, self.k, tuple(dtypes), target=self.graph.target)
        tile_grid = grid(plan.groups, self.graph.target)
        row_blocks = balanced_partition(num_rows, plan.groups)
        chunk_length = -(-row_length // plan.chunks)
        column_chunks = [
            (begin, min(begin + chunk_length, row_length))
            for begin in range(0, row_length, chunk_length)
        ]
        if with_places:
            rows = rows | {
                "values": self._places(
                    num_rows, row_length, row_blocks, column_chunks, tile_grid=tile_grid
                )
            }
        rows, run_spans = self._merge(
            rows, column_chunks, 1, row_blocks, tile_grid=tile_grid, is_last=len(column_chunks) == 1
        )
        for stage in plan.stages:
            rows, run_spans = self._stage(stage, rows, run_spans, row_blocks, tile_grid=tile_grid)
        return rows

    def _stage(
        self, stage: Stage, rows: Rows, run_spans: Spans, row_blocks: Spans, tile_grid: Grid
    ) -> tuple[Rows, Spans]:
        """Join every `stage.fan_in` neighbouring runs to one run; return the new rows and runs.

        A run is a sorted group of consecutive columns. `run_spans` contains the columns (begin,
        end) of each run, and the second result contains those of the new runs.
        """
        run_groups = [
            run_spans[i : i + stage.fan_in] for i in range(0, len(run_spans), stage.fan_in)
        ]
        is_last = len(run_groups) == 1
        if not stage.by_ranks:
            joined_spans = [(group_spans[0][0], group_spans[-1][1]) for group_spans in run_groups]
            return self._merge(
                rows,
                joined_spans,
                run_spans[0][1],
                row_blocks,
                tile_grid=tile_grid,
                is_last=is_last,
            )
        compute_sets = [self.graph.add_compute_set(f"{self.name}/{step}") for step in _RANKING]
        results: dict[str, list[Tensor]] = {field: [] for field in rows}
        for group_number, group_spans in enumerate(run_groups):
            tiles_of_blocks = [
                tile_grid.tiles(block_number, group_number, len(run_groups))
                for block_number in range(len(row_blocks))
            ]
            if len(group_spans) > 1:
                ranked = self._rank(
                    rows, group_spans, tiles_of_blocks, compute_sets, is_last=is_last
                )
            else:
                ranked = {
                    field: tensor[:, slice(*group_spans[0])] for field, tensor in rows.items()
                }
            for field, tensor in ranked.items():
                results[field].append(tensor)
        for compute_set in compute_sets:
            self.prog.add(Execute(compute_set))
        joined_spans = _spans([tensor.shape[1] for tensor in results["keys"]])
        return {field: concat(tensors, 1) for field, tensors in results.items()}, joined_spans

    # --- merges, each on one tile ---

    def _merge(
        self,
        rows: Rows,
        input_spans: Spans,
        sorted_length: int,
        row_blocks: Spans,
        tile_grid: Grid,
        is_last: bool,
    ) -> tuple[Rows, Spans]:
        """Sort each interval of columns in `input_spans`; return its first k elements.

        For each block of rows, one tile sorts an interval, in which each group of `sorted_length`
        columns is sorted already. The second result contains the interval (begin, end) of columns
        in which the elements of each input interval are returned.
        """
        output_spans = _spans(
            [min(self.k, column_end - column_begin) for column_begin, column_end in input_spans]
        )
        shape = (rows["keys"].shape[0], output_spans[-1][1])
        results = {field: self._new(field, tensor.dtype, shape) for field, tensor in rows.items()}
        descending = self.descending if is_last else self.largest
        dtypes = [tensor.dtype for tensor in rows.values()]
        name_words = [
            *dtypes,
            WORDS[self.largest],
            ("reversed" if descending != self.largest else ""),
        ]
        codelet = typed(
            SortRowsKV if "values" in rows else SortRows,
            [*name_words, f"run={sorted_length}" if sorted_length > 1 else ""],
            dict(zip((K, V), dtypes, strict=False)),
            largest=self.largest,
            descending=descending,
            run=sorted_length,
        )
        edges_by_tile = []
        for block_number, (row_begin, row_end) in enumerate(row_blocks):
            for span_number, ((column_begin, column_end), (out_begin, out_end)) in enumerate(
                zip(input_spans, output_spans, strict=True)
            ):
                edges = {
                    field: tensor[row_begin:row_end, column_begin:column_end]
                    for field, tensor in rows.items()
                }
                edges |= {
                    OUTPUTS[field]: tensor[row_begin:row_end, out_begin:out_end]
                    for field, tensor in results.items()
                }
                edges_by_tile.append(
                    (tile_grid.tiles(block_number, span_number, len(input_spans))[0], edges)
                )
        step(
            self.graph,
            self.prog,
            self.name,
            codelet,
            work=edges_by_tile,
            results=[OUTPUTS[field] for field in rows],
        )
        return results, output_spans

    # --- rankings, on several tiles ---

    def _rank(
        self,
        rows: Rows,
        run_spans: Spans,
        tiles_of_rows: list[range],
        compute_sets: list[ComputeSet],
        is_last: bool,
    ) -> Rows:
        """Join the sorted runs of each row to one run; return its first k elements.

        A run is a sorted group of consecutive columns, and `run_spans` contains the columns (begin,
        end) of each run. `tiles_of_rows` contains the tiles that work on each row. The first two of
        the four compute sets compute the position of each element in the joined run (its rank). The
        last two write the elements to these positions.
        """
        first_column = run_spans[0][0]
        end_column = run_spans[-1][1]
        num_columns = end_column - first_column
        num_retained = min(self.k, num_columns)
        run_spans = [(begin - first_column, end - first_column) for begin, end in run_spans]
        rows = {field: tensor[:, first_column:end_column] for field, tensor in rows.items()}
        vertex_cuts = cuts(
            len(run_spans),
            max(run_end - run_begin for run_begin, run_end in run_spans),
            num_retained,
            len(tiles_of_rows[0]),
            target=self.graph.target,
        )
        ranks = self._ranks_of(
            rows["keys"], run_spans, vertex_cuts, tiles_of_rows, compute_sets=compute_sets[:2]
        )
        results = {}
        for field, tensor in rows.items():
            results[field] = self._new(field, tensor.dtype, (len(tiles_of_rows), num_retained))
            self._place(
                tensor,
                ranks,
                results[field],
                run_spans,
                vertex_cuts=vertex_cuts,
                is_reversed=is_last and self.descending != self.largest,
                tiles_of_rows=tiles_of_rows,
                compute_sets=compute_sets[2:],
            )
        return results

    def _ranks_of(
        self,
        keys: Tensor,
        run_spans: Spans,
        vertex_cuts: Cuts,
        tiles_of_rows: list[range],
        compute_sets: list[ComputeSet],
    ) -> Tensor:
        """Add the vertices that compute the rank of each key in its row; return the ranks.

        The rank is the number of keys that come before the key in the sorted row. The ranks are
        UNSIGNED_INT and have the shape of `keys`, [rows, n]. The first compute set counts, for each
        pair of runs, the keys that come before; the second adds the counts of each key.
        """
        num_rows, num_columns = keys.shape
        counts = self.graph.add_variable(
            UNSIGNED_INT, (num_rows, len(run_spans) - 1, num_columns), f"{self.name}/counts"
        )
        ranks = self.graph.add_variable(UNSIGNED_INT, (num_rows, num_columns), f"{self.name}/ranks")
        for row_number, row_tiles in enumerate(tiles_of_rows):
            self._count(
                keys[row_number],
                counts[row_number],
                run_spans,
                row_tiles,
                compute_set=compute_sets[0],
            )
            self._sum(
                counts[row_number],
                ranks[row_number],
                run_spans,
                vertex_cuts,
                tiles=row_tiles,
                compute_set=compute_sets[1],
            )
        return ranks

    def _place(
        self,
        tensor: Tensor,
        ranks: Tensor,
        result: Tensor,
        run_spans: Spans,
        vertex_cuts: Cuts,
        is_reversed: bool,
        tiles_of_rows: list[range],
        compute_sets: list[ComputeSet],
    ) -> None:
        """Add the vertices that write the elements of `tensor` to `result`, ordered by their ranks.

        For each run, the first compute set writes a row that has the run's elements at the columns
        of their ranks, and 0 elsewhere. The second compute set combines the rows of all runs. If
        `is_reversed` is true, the result is in reverse order.
        """
        bits_dtype = _BITS[tensor.dtype.size]
        num_rows, num_retained = result.shape
        spread = self.graph.add_variable(
            bits_dtype, (num_rows, len(run_spans), num_retained), f"{self.name}/spread"
        )
        for row_number, row_tiles in enumerate(tiles_of_rows):
            self._spread(
                tensor[row_number].reinterpret(bits_dtype),
                ranks[row_number],
                spread[row_number],
                run_spans,
                vertex_cuts=vertex_cuts,
                tiles=row_tiles,
                compute_set=compute_sets[0],
            )
            self._combine(
                spread[row_number],
                result[row_number].reinterpret(bits_dtype),
                vertex_cuts,
                is_reversed,
                tiles=row_tiles,
                compute_set=compute_sets[1],
            )

    def _count(
        self, keys: Tensor, counts: Tensor, run_spans: Spans, tiles: range, compute_set: ComputeSet
    ) -> None:
        """Add vertices that count, for each key, the keys of every other run that come before it.

        `keys` is one row of n keys, which consists of sorted runs. `counts` is [runs - 1, n]: the
        column of a key has a count for each run except the key's own run.
        """
        codelet = typed(
            RankPair, [keys.dtype, WORDS[self.largest]], {K: keys.dtype}, largest=self.largest
        )
        run_pairs = [
            (earlier_run, later_run)
            for later_run in range(len(run_spans))
            for earlier_run in range(later_run)
        ]
        for tile_index, (earlier_run, later_run) in dealt(run_pairs, len(tiles)):
            earlier_columns = slice(*run_spans[earlier_run])
            later_columns = slice(*run_spans[later_run])
            count_parts = counts[later_run - 1, earlier_columns], counts[earlier_run, later_columns]
            edges: Edges = {"first": keys[earlier_columns], "second": keys[later_columns]}
            edges |= {"first_counts": count_parts[0], "second_counts": count_parts[1]}
            put(self.graph, compute_set, tiles[tile_index], codelet, edges, *count_parts)

    def _sum(
        self,
        counts: Tensor,
        ranks: Tensor,
        run_spans: Spans,
        vertex_cuts: Cuts,
        tiles: range,
        compute_set: ComputeSet,
    ) -> None:
        """Add vertices that compute the rank of each key: the sum of its counts plus its position.

        `counts` [runs - 1, n] has a column for each key. The position of a key is its index in its
        own sorted run.
        """
        intervals = [
            (run_begin + column_begin, run_begin + column_end, column_begin)
            for run_begin, run_end in run_spans
            for column_begin, column_end in balanced_partition(
                run_end - run_begin, min(vertex_cuts.sums, run_end - run_begin)
            )
        ]
        for tile_index, (column_begin, column_end, position_in_run) in dealt(intervals, len(tiles)):
            ranks_part = ranks[column_begin:column_end]
            edges: Edges = {
                "counts": counts[:, column_begin:column_end],
                "begin": position_in_run,
                "ranks": ranks_part,
            }
            put(self.graph, compute_set, tiles[tile_index], SumRanks, edges, ranks_part)

    def _spread(
        self,
        row_bits: Tensor,
        ranks: Tensor,
        spread: Tensor,
        run_spans: Spans,
        vertex_cuts: Cuts,
        tiles: range,
        compute_set: ComputeSet,
    ) -> None:
        """Add vertices that write the elements of each run to the columns of their ranks.

        `spread` is [runs, elements of the result]; the row of a run is 0 in all other columns.
        Elements whose rank is beyond the last column are left out.
        """
        codelet = typed(ScatterRun, [row_bits.dtype], {K: row_bits.dtype})
        rank_blocks = balanced_partition(spread.shape[1], vertex_cuts.blocks)
        work = [
            (run_number, run_columns, rank_block)
            for run_number, run_columns in enumerate(run_spans)
            for rank_block in rank_blocks
        ]
        for tile_index, (run_number, run_columns, (rank_begin, rank_end)) in dealt(
            work, len(tiles)
        ):
            spread_part = spread[run_number, rank_begin:rank_end]
            edges: Edges = {"ranks": ranks[slice(*run_columns)], "x": row_bits[slice(*run_columns)]}
            edges |= {"begin": rank_begin, "out": spread_part}
            put(self.graph, compute_set, tiles[tile_index], codelet, edges, spread_part)

    def _combine(
        self,
        spread: Tensor,
        result: Tensor,
        vertex_cuts: Cuts,
        is_reversed: bool,
        tiles: range,
        compute_set: ComputeSet,
    ) -> None:
        """Add vertices that write the only nonzero element of each column of `spread` to `result`.

        If `is_reversed` is true, the elements of the result are in reverse order.
        """
        name_word = "reversed" if is_reversed else ""
        codelet = typed(
            CombineRuns, [spread.dtype, name_word], {K: spread.dtype}, backwards=is_reversed
        )
        num_retained = len(result)
        for tile_index, (column_begin, column_end) in dealt(
            balanced_partition(num_retained, vertex_cuts.parts), len(tiles)
        ):
            result_part = (
                result[num_retained - column_end : num_retained - column_begin]
                if is_reversed
                else result[column_begin:column_end]
            )
            edges: Edges = {"x": spread[:, column_begin:column_end], "out": result_part}
            put(self.graph, compute_set, tiles[tile_index], codelet, edges, result_part)

    # --- variables ---

    def _new(self, field: str, dtype: type[DType], shape: tuple[int, ...]) -> Tensor:
        return self.graph.add_variable(dtype, shape, f"{self.name}/{OUTPUTS[field]}")

    def _places(
        self,
        num_rows: int,
        row_length: int,
        row_blocks: Spans,
        column_chunks: Spans,
        tile_grid: Grid,
    ) -> Tensor:
        """Return a constant [rows, n] that contains the column of each element.

        An element of the constant is on the tile that sorts the element in its position.
        """
        positions = np.broadcast_to(np.arange(row_length), (num_rows, row_length))
        position_tensor = self.graph.add_constant(
            UNSIGNED_INT, (num_rows, row_length), positions, f"{self.name}/places"
        )
        for block_number, (row_begin, row_end) in enumerate(row_blocks):
            for chunk_number, (column_begin, column_end) in enumerate(column_chunks):
                tile = tile_grid.tiles(block_number, chunk_number, len(column_chunks))[0]
                self.graph.set_tile_mapping(
                    position_tensor[row_begin:row_end, column_begin:column_end], tile
                )
        return position_tensor


_RANKING = ("count", "rank", "spread", "combine")


def _spans(lengths: list[int]) -> Spans:
    """Return consecutive intervals (begin, end) with these lengths; the first begins at 0."""
    bounds = np.cumsum([0, *lengths]).tolist()
    return list(zip(bounds, bounds[1:], strict=False))
