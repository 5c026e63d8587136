"""Order rows by a plan: build the compute sets of a tree or of a network of merges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.poplibs.laying import Edges, put, step, typed
from ipu_teach.poplibs.placing import balanced_partition
from ipu_teach.poplibs.popops.sort_plan import Grid, SortPlan, grid, network_steps, planned
from ipu_teach.poplibs.popops.sort_vertices import MERGES, OUTPUTS, SORTS, K, ReverseRows, V
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, DType

Rows = dict[str, Tensor]  # [rows, n] each: "keys", and "places" and "values" where there are any
Spans = list[tuple[int, int]]  # columns, begin and end

_WORDS = {True: "largest", False: "smallest"}


@dataclass
class Ordering:
    """One call: the first `k` elements of rows, from the `largest` on or from the smallest, and in
    `descending` order or ascending."""

    graph: Graph
    prog: Program
    name: str
    k: int
    largest: bool
    descending: bool

    def order(self, rows: Rows, with_places: bool) -> Rows:
        """Return the first k of each row of keys, with their places or values, [rows, k] each."""
        count, n = rows["keys"].shape
        fields = [f for f in OUTPUTS if f in rows or (f == "places" and with_places)]
        if not (count and self.k):
            return {f: self._new(f, rows, (count, self.k)) for f in fields}
        # of equal floats some differ in their bits, so a network needs their places
        needs_places = "values" in rows or rows["keys"].dtype in (FLOAT, HALF)
        network = [f for f in OUTPUTS if f in fields or (f == "places" and needs_places)]
        plan = planned(
            count,
            n,
            self.k,
            tuple(_dtype(f, rows) for f in fields),
            tuple(_dtype(f, rows) for f in network),
            self.graph.target,
        )
        tiles = grid(plan.groups, self.graph.target)
        blocks = balanced_partition(count, plan.groups)
        width = -(-n // plan.chunks)
        spans = [(begin, min(begin + width, n)) for begin in range(0, n, width)]
        travelling = network if plan.network else fields
        if "places" in travelling:
            rows = rows | {"places": self._places(count, n, blocks, spans, tiles)}
        rows = {f: rows[f] for f in travelling}
        by_plan = self._by_network if plan.network else self._by_tree
        results = by_plan(rows, plan, blocks, spans, tiles)
        return {f: results[f] for f in fields}

    # --- a tree of merges ---

    def _by_tree(
        self, rows: Rows, plan: SortPlan, blocks: Spans, spans: Spans, tiles: Grid
    ) -> Rows:
        run = 1
        for number, fan_in in enumerate((1, *plan.fan_ins)):
            groups = [spans[i : i + fan_in] for i in range(0, len(spans), fan_in)]
            inputs = [(group[0][0], group[-1][1]) for group in groups]
            is_last = number == len(plan.fan_ins)
            descending = self.descending if is_last else self.largest
            rows, spans = self._sort(rows, inputs, run, descending, blocks, tiles)
            run = min(self.k, spans[0][1])
        return rows

    def _sort(
        self, rows: Rows, inputs: Spans, run: int, descending: bool, blocks: Spans, tiles: Grid
    ) -> tuple[Rows, Spans]:
        """Return the first k of these columns of each row, side by side, and their new columns."""
        lengths = np.cumsum([0, *(min(self.k, end - begin) for begin, end in inputs)]).tolist()
        spans = list(zip(lengths, lengths[1:], strict=False))
        count = rows["keys"].shape[0]
        results = {f: self._new(f, rows, (count, spans[-1][1])) for f in rows}
        codelet = self._codelet(
            SORTS, rows, run, largest=self.largest, descending=descending, run=run
        )
        work = []
        for group, (first, last) in enumerate(blocks):
            for part, ((begin, end), (start, stop)) in enumerate(zip(inputs, spans, strict=True)):
                edges = {f: t[first:last, begin:end] for f, t in rows.items()}
                edges |= {OUTPUTS[f]: t[first:last, start:stop] for f, t in results.items()}
                work.append((tiles.tile(group, part, len(inputs)), edges))
        step(self.graph, self.prog, self.name, codelet, work, [OUTPUTS[f] for f in rows])
        return results, spans

    # --- a network of merges ---

    def _by_network(
        self, rows: Rows, plan: SortPlan, blocks: Spans, spans: Spans, tiles: Grid
    ) -> Rows:
        sorted_rows, spans = self._sort(rows, spans, 1, self.largest, blocks, tiles)
        # merged chunks alternate between two variables of the same layout
        spare = {f: self.graph.clone(t) for f, t in sorted_rows.items()}
        sides, now = (sorted_rows, spare), [0] * len(spans)
        low, high = (
            self._codelet(MERGES, rows, word, largest=self.largest, upper=word == "upper")
            for word in ("lower", "upper")
        )
        kept = -(-self.k // spans[0][1])
        for number, pairs in enumerate(network_steps(len(spans), kept)):
            into = self.graph.add_compute_set(f"{self.name}/merge{number}")
            for lower, upper, is_upper_kept in pairs:
                for near, far, codelet in ((lower, upper, low), (upper, lower, high)):
                    if near == upper and not is_upper_kept:
                        continue
                    for group, block in enumerate(blocks):
                        edges = _pair(sides, now, block, spans, near, far)
                        tile = tiles.tile(group, near, len(spans))
                        put(self.graph, into, tile, codelet, edges)
                now[lower] ^= 1
                now[upper] ^= is_upper_kept
            self.prog.add(Execute(into))
        parts = {f: [sides[now[c]][f][:, slice(*spans[c])] for c in range(kept)] for f in rows}
        results = {f: concat(parts[f], 1)[:, : self.k] for f in rows}
        if self.descending == self.largest:
            return results
        return self._reversed(results, blocks, spans[:kept], len(spans), tiles)

    def _reversed(self, rows: Rows, blocks: Spans, spans: Spans, chunks: int, tiles: Grid) -> Rows:
        """Return the rows from their end to their beginning, each chunk reversed on its tile."""
        results = {f: self._new(f, rows, t.shape) for f, t in rows.items()}
        into = self.graph.add_compute_set(f"{self.name}/reverse")
        for f, x in rows.items():
            codelet = typed(ReverseRows, [x.dtype], {K: x.dtype})
            for group, (first, last) in enumerate(blocks):
                for part, (begin, end) in enumerate(spans):
                    end = min(end, self.k)
                    out = results[f][first:last, self.k - end : self.k - begin]
                    edges = {"x": x[first:last, begin:end], "out": out}
                    put(self.graph, into, tiles.tile(group, part, chunks), codelet, edges, out)
        self.prog.add(Execute(into))
        return results

    # --- both ---

    def _new(self, field: str, rows: Rows, shape: tuple[int, ...]) -> Tensor:
        return self.graph.add_variable(_dtype(field, rows), shape, f"{self.name}/{OUTPUTS[field]}")

    def _places(self, count: int, n: int, blocks: Spans, spans: Spans, tiles: Grid) -> Tensor:
        """Return [rows, n]: the place of each element in its row, on the tile of its chunk."""
        numbers = np.broadcast_to(np.arange(n), (count, n))
        places = self.graph.add_constant(UNSIGNED_INT, (count, n), numbers, f"{self.name}/places")
        for group, (first, last) in enumerate(blocks):
            for part, (begin, end) in enumerate(spans):
                tile = tiles.tile(group, part, len(spans))
                self.graph.set_tile_mapping(places[first:last, begin:end], tile)
        return places

    def _codelet(self, table: Any, rows: Rows, word: Any, **fixed: Any) -> Any:
        """Return the codelet of a table for the dtypes of these rows."""
        dtypes = {K: rows["keys"].dtype}
        if "values" in rows:
            dtypes[V] = rows["values"].dtype
        order = "reversed" * (fixed.get("descending", self.largest) != self.largest)
        words = [*dtypes.values(), _WORDS[self.largest], order, str(word)]
        return typed(table[tuple(f for f in rows if f != "keys")], words, dtypes, **fixed)


def _dtype(field: str, rows: Rows) -> type[DType]:
    return rows[field].dtype if field in rows else UNSIGNED_INT


def _pair(
    sides: tuple[Rows, Rows], now: list[int], block: tuple[int, int], spans: Spans, near: int,
    far: int,
) -> Edges:  # fmt: skip
    """Return the edges of the vertex that leaves its half of two chunks where `near` is."""
    rows = slice(*block)
    edges = {}
    for f in sides[0]:
        edges[f"near_{f}"] = sides[now[near]][f][rows, slice(*spans[near])]
        edges[f"far_{f}"] = sides[now[far]][f][rows, slice(*spans[far])]
        edges[OUTPUTS[f]] = sides[1 - now[near]][f][rows, slice(*spans[near])]
    return edges
