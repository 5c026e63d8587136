"""`Ranking`: joins sorted runs of rows on several tiles, by the ranks of their elements.

The module `sort_plan` explains when a ranking is used instead of a merge.
"""

from __future__ import annotations

from dataclasses import dataclass

from ipu_teach.graph import Graph, Tensor, Vertex
from ipu_teach.poplibs.laying import Edges, put, typed
from ipu_teach.poplibs.placing import balanced_partition, dealt
from ipu_teach.poplibs.popops.sort_plan import Cuts, cuts
from ipu_teach.poplibs.popops.sort_vertices import (
    WORDS,
    CombineRuns,
    K,
    RankPair,
    ScatterRun,
    SumRanks,
)
from ipu_teach.types import UNSIGNED_CHAR, UNSIGNED_INT, UNSIGNED_LONGLONG, UNSIGNED_SHORT

Rows = dict[str, Tensor]  # Maps "keys", and optionally "values", to a tensor [rows, n].
Spans = list[tuple[int, int]]  # Intervals (begin, end) of columns or of rows.

OUTPUTS = {"keys": "out", "values": "picked"}
_BITS = {d.size: d for d in (UNSIGNED_CHAR, UNSIGNED_SHORT, UNSIGNED_INT, UNSIGNED_LONGLONG)}


@dataclass
class Ranking:
    """The compute sets that join sorted runs of rows by ranks, and select `k` elements of each row.

    The rank of an element is its position in the sorted row. The compute sets count the elements
    that come before each element, add these counts to ranks, write each run to the columns of its
    ranks, and combine the runs. If `is_reversed` is true, the selected elements are in reverse
    order.
    """

    graph: Graph
    name: str
    k: int
    largest: bool
    is_reversed: bool

    def __post_init__(self) -> None:
        self.compute_sets = {
            work: self.graph.add_compute_set(f"{self.name}/{work}")
            for work in ("count", "rank", "spread", "combine")
        }

    def join(self, rows: Rows, run_spans: Spans, tiles_of_rows: list[range]) -> Rows:
        """Join sorted runs of each row; return the first k elements of each row.

        `tiles_of_rows` contains the tiles that work on each row.
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
        ranks = self._ranks_of(rows["keys"], run_spans, vertex_cuts, tiles_of_rows)
        results = {}
        for field, tensor in rows.items():
            results[field] = self.graph.add_variable(
                tensor.dtype, (len(tiles_of_rows), num_retained), f"{self.name}/{OUTPUTS[field]}"
            )
            self._place(
                tensor, ranks, results[field], run_spans, vertex_cuts, tiles_of_rows=tiles_of_rows
            )
        return results

    def _ranks_of(
        self, keys: Tensor, run_spans: Spans, vertex_cuts: Cuts, tiles_of_rows: list[range]
    ) -> Tensor:
        """Add the vertices that compute the rank of each key in its row; return the ranks.

        The rank is the number of keys that come before the key in the sorted row. The ranks are
        UNSIGNED_INT and have the shape of `keys`, [rows, n]. The first compute set counts, for each
        key, the keys of every other run that come before it. The second adds these counts to the
        position of the key in its own run.
        """
        num_rows, num_columns = keys.shape
        counts = self.graph.add_variable(
            UNSIGNED_INT, (num_rows, len(run_spans) - 1, num_columns), f"{self.name}/counts"
        )
        ranks = self.graph.add_variable(UNSIGNED_INT, (num_rows, num_columns), f"{self.name}/ranks")
        for row_number, row_tiles in enumerate(tiles_of_rows):
            self._count(keys[row_number], counts[row_number], run_spans, row_tiles)
            self._sum(
                counts[row_number], ranks[row_number], run_spans, vertex_cuts, tiles=row_tiles
            )
        return ranks

    def _place(
        self,
        tensor: Tensor,
        ranks: Tensor,
        result: Tensor,
        run_spans: Spans,
        vertex_cuts: Cuts,
        tiles_of_rows: list[range],
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
                vertex_cuts,
                tiles=row_tiles,
            )
            self._combine(
                spread[row_number],
                result[row_number].reinterpret(bits_dtype),
                vertex_cuts,
                row_tiles,
            )

    def _count(self, keys: Tensor, counts: Tensor, run_spans: Spans, tiles: range) -> None:
        """Add vertices that count, for each key, the keys of every other run that come before it.

        `keys` is one row of n keys, which consists of sorted runs. `counts` is [runs - 1, n]: the
        column of a key contains a count for each run except the key's own run.
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
            self._put("count", tiles[tile_index], codelet, edges, *count_parts)

    def _sum(
        self, counts: Tensor, ranks: Tensor, run_spans: Spans, vertex_cuts: Cuts, tiles: range
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
            self._put("rank", tiles[tile_index], SumRanks, edges, ranks_part)

    def _spread(
        self,
        row_bits: Tensor,
        ranks: Tensor,
        spread: Tensor,
        run_spans: Spans,
        vertex_cuts: Cuts,
        tiles: range,
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
            self._put("spread", tiles[tile_index], codelet, edges, spread_part)

    def _combine(self, spread: Tensor, result: Tensor, vertex_cuts: Cuts, tiles: range) -> None:
        """Add vertices that write the only nonzero element of each column of `spread` to `result`.

        If `is_reversed` is true, the elements of the result are in reverse order.
        """
        name_word = "reversed" if self.is_reversed else ""
        codelet = typed(
            CombineRuns, [spread.dtype, name_word], {K: spread.dtype}, backwards=self.is_reversed
        )
        num_retained = len(result)
        for tile_index, (column_begin, column_end) in dealt(
            balanced_partition(num_retained, vertex_cuts.parts), len(tiles)
        ):
            result_part = (
                result[num_retained - column_end : num_retained - column_begin]
                if self.is_reversed
                else result[column_begin:column_end]
            )
            edges: Edges = {"x": spread[:, column_begin:column_end], "out": result_part}
            self._put("combine", tiles[tile_index], codelet, edges, result_part)

    def _put(
        self, work: str, tile: int, codelet: type[Vertex], edges: Edges, *results: Tensor
    ) -> None:
        """Add a vertex on `tile` to the compute set `work`, such as "combine"; map its results."""
        put(self.graph, self.compute_sets[work], tile, codelet, edges, *results)
