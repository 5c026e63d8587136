"""`Ordering`: adds the compute sets of a plan that orders rows.

A *run* is a sorted group of consecutive columns of a row. Each stage of a plan joins neighbouring
runs to a longer run, by a merge on one tile or by a ranking on several tiles. The module
`sort_plan` explains both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.poplibs.laying import step, typed
from ipu_teach.poplibs.placing import balanced_partition
from ipu_teach.poplibs.popops.ranking import OUTPUTS, Ranking, Rows, Spans
from ipu_teach.poplibs.popops.sort_plan import Grid, Stage, grid, planned
from ipu_teach.poplibs.popops.sort_vertices import WORDS, K, SortRows, SortRowsKV, V
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.types import UNSIGNED_INT, DType


@dataclass
class Ordering:
    """The arguments of a sort or a top_k, which both select `k` elements of each row.

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
        """Join groups of `stage.fan_in` neighbouring runs; return the new rows and the new runs.

        A run is a sorted group of consecutive columns. `run_spans` contains the columns (begin,
        end) of each run, and the second result contains the columns of the new runs.
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
        is_reversed = is_last and self.descending != self.largest
        ranking = Ranking(self.graph, self.name, self.k, self.largest, is_reversed)
        results: dict[str, list[Tensor]] = {field: [] for field in rows}
        for group_number, group_spans in enumerate(run_groups):
            tiles_of_blocks = [
                tile_grid.tiles(block_number, group_number, len(run_groups))
                for block_number in range(len(row_blocks))
            ]
            if len(group_spans) > 1:
                ranked = ranking.join(rows, group_spans, tiles_of_blocks)
            else:
                ranked = {
                    field: tensor[:, slice(*group_spans[0])] for field, tensor in rows.items()
                }
            for field, tensor in ranked.items():
                results[field].append(tensor)
        for compute_set in ranking.compute_sets.values():
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

        For each block of rows and each interval, one tile sorts the interval, in which each group
        of `sorted_length` columns is sorted already. The second result contains, for each input
        interval, the interval (begin, end) of result columns that contains its elements.
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

        Each element of the constant is mapped to the tile that sorts the key at the same position.
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


def _spans(lengths: list[int]) -> Spans:
    """Return consecutive intervals (begin, end) with these lengths; the first begins at 0."""
    bounds = np.cumsum([0, *lengths]).tolist()
    return list(zip(bounds, bounds[1:], strict=False))
