"""Order rows by a plan: build the compute sets of its merges and rankings."""

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

Rows = dict[str, Tensor]  # [rows, n] each: "keys", and "values" if there are any
Spans = list[tuple[int, int]]  # intervals (begin, end) of columns or rows

OUTPUTS = {"keys": "out", "values": "picked"}
_BITS = {d.size: d for d in (UNSIGNED_CHAR, UNSIGNED_SHORT, UNSIGNED_INT, UNSIGNED_LONGLONG)}


@dataclass
class Ordering:
    """One call: the first `k` elements of each row, from the `largest` or from the smallest on.

    The result is in `descending` or ascending order.
    """

    graph: Graph
    prog: Program
    name: str
    k: int
    largest: bool
    descending: bool

    def order(self, rows: Rows, with_places: bool) -> Rows:
        """Return the first k elements of each row of keys and values, [rows, k] each.

        With `with_places`, the values are the positions of the keys in their rows.
        """
        count, n = rows["keys"].shape
        dtypes = [t.dtype for t in rows.values()]
        if with_places:
            dtypes.append(UNSIGNED_INT)
        if not (count and self.k):
            fields = zip(OUTPUTS, dtypes, strict=False)
            return {f: self._new(f, dtype, (count, self.k)) for f, dtype in fields}
        plan = planned(count, n, self.k, tuple(dtypes), target=self.graph.target)
        tiles = grid(plan.groups, self.graph.target)
        blocks = balanced_partition(count, plan.groups)
        width = -(-n // plan.chunks)
        chunks = [(begin, min(begin + width, n)) for begin in range(0, n, width)]
        if with_places:
            rows = rows | {"values": self._places(count, n, blocks, chunks, tiles=tiles)}
        rows, runs = self._merge(rows, chunks, 1, blocks, tiles=tiles, is_last=len(chunks) == 1)
        for stage in plan.stages:
            rows, runs = self._stage(stage, rows, runs, blocks, tiles=tiles)
        return rows

    def _stage(
        self, stage: Stage, rows: Rows, runs: Spans, blocks: Spans, tiles: Grid
    ) -> tuple[Rows, Spans]:
        """Join neighbouring sorted runs by a stage; return the longer runs and their columns."""
        neighbours = [runs[i : i + stage.fan_in] for i in range(0, len(runs), stage.fan_in)]
        is_last = len(neighbours) == 1
        if not stage.by_ranks:
            spans = [(group[0][0], group[-1][1]) for group in neighbours]
            return self._merge(rows, spans, runs[0][1], blocks, tiles=tiles, is_last=is_last)
        steps = [self.graph.add_compute_set(f"{self.name}/{step}") for step in _RANKING]
        results: dict[str, list[Tensor]] = {f: [] for f in rows}
        for part, group in enumerate(neighbours):
            places = [tiles.tiles(row, part, len(neighbours)) for row in range(len(blocks))]
            if len(group) > 1:
                ranked = self._rank(rows, group, places, steps, is_last=is_last)
            else:
                ranked = {f: t[:, slice(*group[0])] for f, t in rows.items()}
            for f, t in ranked.items():
                results[f].append(t)
        for into in steps:
            self.prog.add(Execute(into))
        spans = _spans([t.shape[1] for t in results["keys"]])
        return {f: concat(parts, 1) for f, parts in results.items()}, spans

    # --- on one tile ---

    def _merge(
        self, rows: Rows, inputs: Spans, run: int, blocks: Spans, tiles: Grid, is_last: bool
    ) -> tuple[Rows, Spans]:
        """Sort each interval of columns in `inputs`; return the first k elements and their columns.

        Every `run` columns are in order already. Each row's interval is sorted on one tile.
        """
        spans = _spans([min(self.k, end - begin) for begin, end in inputs])
        shape = (rows["keys"].shape[0], spans[-1][1])
        results = {f: self._new(f, t.dtype, shape) for f, t in rows.items()}
        descending = self.descending if is_last else self.largest
        dtypes = [t.dtype for t in rows.values()]
        words = [*dtypes, WORDS[self.largest], ("reversed" if descending != self.largest else "")]
        codelet = typed(
            SortRowsKV if "values" in rows else SortRows,
            [*words, f"run={run}" if run > 1 else ""],
            dict(zip((K, V), dtypes, strict=False)),
            largest=self.largest,
            descending=descending,
            run=run,
        )
        work = []
        for group, (first, last) in enumerate(blocks):
            for part, ((begin, end), (start, stop)) in enumerate(zip(inputs, spans, strict=True)):
                edges = {f: t[first:last, begin:end] for f, t in rows.items()}
                edges |= {OUTPUTS[f]: t[first:last, start:stop] for f, t in results.items()}
                work.append((tiles.tiles(group, part, len(inputs))[0], edges))
        step(
            self.graph, self.prog, self.name, codelet, work=work, results=[OUTPUTS[f] for f in rows]
        )
        return results, spans

    # --- by ranks ---

    def _rank(
        self, rows: Rows, runs: Spans, places: list[range], steps: list[ComputeSet], is_last: bool
    ) -> Rows:
        """Merge the `runs` of each row by ranks, on its tiles `places`; return k elements."""
        begin = runs[0][0]
        length = max(end - begin for begin, end in runs)
        total = runs[-1][1] - begin
        retained = min(self.k, total)
        runs = [(start - begin, end - begin) for start, end in runs]
        rows = {f: t[:, begin : begin + total] for f, t in rows.items()}
        cut = cuts(len(runs), length, retained, len(places[0]), target=self.graph.target)
        counts = self.graph.add_variable(
            UNSIGNED_INT, (len(places), len(runs) - 1, total), f"{self.name}/counts"
        )
        ranks = self._new_ranks(len(places), total)
        backwards = is_last and self.descending != self.largest
        for row, tiles in enumerate(places):
            self._count(rows["keys"][row], counts[row], runs, tiles, into=steps[0])
            self._sum(counts[row], ranks[row], runs, cut, tiles=tiles, into=steps[1])
        results = {}
        for f, t in rows.items():
            bits = _BITS[t.dtype.size]
            out = self._new(f, t.dtype, (len(places), retained))
            spread = self.graph.add_variable(
                bits, (len(places), len(runs), retained), f"{self.name}/spread"
            )
            for row, tiles in enumerate(places):
                x = t[row].reinterpret(bits)
                result = out[row].reinterpret(bits)
                self._spread(x, ranks[row], spread[row], runs, cut=cut, tiles=tiles, into=steps[2])
                self._combine(spread[row], result, cut, backwards, tiles=tiles, into=steps[3])
            results[f] = out
        return results

    def _count(
        self, keys: Tensor, counts: Tensor, runs: Spans, tiles: range, into: ComputeSet
    ) -> None:
        """Count, for each element of a run, the elements of every other run that come before it.

        `counts` is [runs - 1, n], with a row for each of the other runs.
        """
        codelet = typed(
            RankPair, [keys.dtype, WORDS[self.largest]], {K: keys.dtype}, largest=self.largest
        )
        pairs = [(i, j) for j in range(len(runs)) for i in range(j)]
        for place, (i, j) in dealt(pairs, len(tiles)):
            first = slice(*runs[i])
            second = slice(*runs[j])
            outs = counts[j - 1, first], counts[i, second]
            edges: Edges = {"first": keys[first], "second": keys[second]}
            edges |= {"first_counts": outs[0], "second_counts": outs[1]}
            put(self.graph, into, tiles[place], codelet, edges, *outs)

    def _sum(
        self,
        counts: Tensor,
        ranks: Tensor,
        runs: Spans,
        cut: Cuts,
        tiles: range,
        into: ComputeSet,
    ) -> None:
        """Compute the rank of each element from its counts and its position in its run."""
        work = [
            (begin + start, begin + stop, start)
            for begin, end in runs
            for start, stop in balanced_partition(end - begin, min(cut.sums, end - begin))
        ]
        for place, (start, stop, number) in dealt(work, len(tiles)):
            out = ranks[start:stop]
            edges: Edges = {"counts": counts[:, start:stop], "begin": number, "ranks": out}
            put(self.graph, into, tiles[place], SumRanks, edges, out)

    def _spread(
        self,
        x: Tensor,
        ranks: Tensor,
        spread: Tensor,
        runs: Spans,
        cut: Cuts,
        tiles: range,
        into: ComputeSet,
    ) -> None:
        """Write the elements of each run to the columns of their ranks, and 0 to the others.

        `spread` is [runs, retained elements].
        """
        codelet = typed(ScatterRun, [x.dtype], {K: x.dtype})
        slots = balanced_partition(spread.shape[1], cut.blocks)
        work = [(run, span, block) for run, span in enumerate(runs) for block in slots]
        for place, (run, span, (begin, end)) in dealt(work, len(tiles)):
            out = spread[run, begin:end]
            edges: Edges = {"ranks": ranks[slice(*span)], "x": x[slice(*span)]}
            edges |= {"begin": begin, "out": out}
            put(self.graph, into, tiles[place], codelet, edges, out)

    def _combine(
        self,
        spread: Tensor,
        result: Tensor,
        cut: Cuts,
        backwards: bool,
        tiles: range,
        into: ComputeSet,
    ) -> None:
        """Combine the rows of `spread` into `result`, in reverse order if `backwards`."""
        word = "reversed" if backwards else ""
        codelet = typed(CombineRuns, [spread.dtype, word], {K: spread.dtype}, backwards=backwards)
        retained = len(result)
        for place, (begin, end) in dealt(balanced_partition(retained, cut.parts), len(tiles)):
            out = result[retained - end : retained - begin] if backwards else result[begin:end]
            edges: Edges = {"x": spread[:, begin:end], "out": out}
            put(self.graph, into, tiles[place], codelet, edges, out)

    # --- variables ---

    def _new(self, field: str, dtype: type[DType], shape: tuple[int, ...]) -> Tensor:
        return self.graph.add_variable(dtype, shape, f"{self.name}/{OUTPUTS[field]}")

    def _new_ranks(self, count: int, total: int) -> Tensor:
        return self.graph.add_variable(UNSIGNED_INT, (count, total), f"{self.name}/ranks")

    def _places(self, count: int, n: int, blocks: Spans, chunks: Spans, tiles: Grid) -> Tensor:
        """Return [rows, n]: the position of each element in its row, on the tile of its chunk."""
        numbers = np.broadcast_to(np.arange(n), (count, n))
        places = self.graph.add_constant(UNSIGNED_INT, (count, n), numbers, f"{self.name}/places")
        for group, (first, last) in enumerate(blocks):
            for part, (begin, end) in enumerate(chunks):
                tile = tiles.tiles(group, part, len(chunks))[0]
                self.graph.set_tile_mapping(places[first:last, begin:end], tile)
        return places


_RANKING = ("count", "rank", "spread", "combine")


def _spans(lengths: list[int]) -> Spans:
    """Return the intervals of columns of parts with these lengths, side by side."""
    ends = np.cumsum([0, *lengths]).tolist()
    return list(zip(ends, ends[1:], strict=False))
