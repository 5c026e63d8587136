"""Compare the cost of popops' sorting and selecting with programs of custom codelets.

The figures are ratios of modelled cycles, so they are the same on every machine. The programs only
order distinct keys without NaN, which is easier than the work of popops:

* `first_of`: from 5 to 5,000 vertices each sort a part of the keys and keep the first k. A tree of
  further vertices does the same with these results, several at a time.
* `by_counts`: every key is compared with every other, and placed according to its rank.
* `by_network`: a bitonic network over the tiles, each step of which is one vector operation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.measure import Ratios, Row
from ipu_teach import (
    FLOAT,
    INT,
    Engine,
    Graph,
    Input,
    IPUModel,
    MultiVertex,
    Output,
    Tensor,
    Vector,
    Vertex,
    concat,
)
from ipu_teach.graph.vertex_table import FieldValue
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Execute, Sequence

TILES = 1472
Work = list[tuple[type[Vertex], dict[str, FieldValue], Tensor, int]]


class SortFirst(Vertex):
    """Sorts the smallest elements of `x` into `out`."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = np.sort(self.x)[: len(self.out)]


class Smallest(Vertex):
    """Stores the smallest element of `x` in `out`."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out[0] = np.min(self.x)


class Count(Vertex):
    """Counts for each key of one block how many keys of another block are smaller."""

    keys: Input[Vector[FLOAT]]
    x: Input[Vector[FLOAT]]
    counts: Output[Vector[INT]]

    def compute(self) -> None:
        for i in range(len(self.keys)):
            self.counts[i] = np.sum(self.x < self.keys[i])


class AddCounts(Vertex):
    """Stores the sum of the counts of each key in `ranks`."""

    parts: Input[Vector[Vector[INT]]]
    out: Output[Vector[INT]]

    def compute(self) -> None:
        self.out = np.sum(self.parts, axis=0)


class Put(Vertex):
    """Stores keys in `out`, in order of rank; the first element of `out` has the rank `begin`.

    An element of `out` is 0 if another vertex has the key of this rank.
    """

    ranks: Input[Vector[INT]]
    x: Input[Vector[FLOAT]]
    begin: INT
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.out)):
            self.out[i] = 0
        for i in range(len(self.x)):
            slot = self.ranks[i] - self.begin
            if slot >= 0 and slot < len(self.out):
                self.out[slot] = self.x[i]


class AddKeys(Vertex):
    """Stores the sum of each column in `out`; each column has at most one number other than 0."""

    parts: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = np.sum(self.parts, axis=0)


class Lower(MultiVertex):
    """Stores the smaller number of each pair in `out`."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self, worker_id: int) -> None:
        n = len(self.out)
        begin, end = worker_id * n // 6, (worker_id + 1) * n // 6
        self.out[begin:end] = np.minimum(self.a[begin:end], self.b[begin:end])


class Upper(MultiVertex):
    """Stores the larger number of each pair in `out`."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self, worker_id: int) -> None:
        n = len(self.out)
        begin, end = worker_id * n // 6, (worker_id + 1) * n // 6
        self.out[begin:end] = np.maximum(self.a[begin:end], self.b[begin:end])


class Program:
    """A graph with `n` numbers, mapped linearly, that finds the first `k` in sorted order."""

    def __init__(self, n: int) -> None:
        self.device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
        self.graph, self.prog = Graph(self.device), Sequence()
        self.x = self.graph.add_variable(FLOAT, (n,), "x")
        poputil.map_tensor_linearly(self.graph, self.x)

    def step(self, name: str, work: Work) -> None:
        """Add a compute set; `work` has (codelet, edges, output, tile) for each vertex."""
        into = self.graph.add_compute_set(name)
        for codelet, edges, out, tile in work:
            self.graph.set_tile_mapping(self.graph.add_vertex(into, codelet, edges), tile)
            self.graph.set_tile_mapping(out, tile)
        self.prog.add(Execute(into))

    def cycles(self, out: Tensor) -> int:
        """Run the program on random numbers, check the result, and return the cycles.

        :raises AssertionError: if the result is wrong.
        """
        self.graph.create_host_write("x", self.x)
        self.graph.create_host_read("out", out)
        engine = Engine(self.graph, self.prog)
        engine.load(self.device)
        x = np.random.default_rng(0).standard_normal(self.x.shape).astype(np.float32)
        engine.write_tensor("x", x)
        engine.run()
        assert np.array_equal(engine.read_tensor("out"), np.sort(x)[: len(out)])
        return int(engine.report.total_cycles)


def parts_of(n: int, parts: int) -> list[tuple[int, int]]:
    """Return `(begin, end)` of each of `parts` nearly equal parts of `n` elements."""
    return [(i * n // parts, (i + 1) * n // parts) for i in range(parts)]


def by_popops(n: int, k: int) -> int:
    """Return the cycles of popops.top_k."""
    program = Program(n)
    params = popops.TopKParams(k, False, popops.SortOrder.ASCENDING)
    return program.cycles(popops.top_k(program.graph, params, program.x, program.prog))


def first_of(n: int, k: int, vertices: tuple[int, ...]) -> int:
    """Return the cycles of a tree that selects the first `k` of `n` keys.

    `vertices` are the numbers of vertices in the steps before the last one.
    """
    program = Program(n)
    x, groups = program.x, parts_of(n, vertices[0])
    for step, following in enumerate((*vertices[1:], 1, 0)):
        result_bounds = np.cumsum([0, *(min(k, end - begin) for begin, end in groups)]).tolist()
        result = program.graph.add_variable(FLOAT, (result_bounds[-1],), f"first{step}")
        work: Work = []
        for group_number, (begin, end) in enumerate(groups):
            result_part = result[result_bounds[group_number] : result_bounds[group_number + 1]]
            codelet = SortFirst if k > 1 else Smallest
            work.append(
                (
                    codelet,
                    {"x": x[begin:end], "out": result_part},
                    result_part,
                    group_number * TILES // len(groups),
                )
            )
        program.step(f"step{step}", work)
        x, num_groups = result, len(groups)
        groups = (
            [
                (result_bounds[begin_group], result_bounds[end_group])
                for begin_group, end_group in parts_of(num_groups, following)
            ]
            if following
            else []
        )
    return program.cycles(x)


def by_counts(n: int, queries: int, blocks: int, slots: int) -> int:
    """Return the cycles of sorting `n` keys by comparing each key with all.

    The keys are divided in two ways: into `queries` parts, and into `blocks` parts. A vertex
    compares the keys of one part of the first kind with those of one part of the second kind. The
    vertices that place the keys divide the result into `slots` parts.
    """
    program = Program(n)
    graph, x = program.graph, program.x
    counts, ranks = graph.add_variable(INT, (blocks, n)), graph.add_variable(INT, (n,))
    spread, result = graph.add_variable(FLOAT, (blocks, n)), graph.add_variable(FLOAT, (n,))
    key_ranges, result_ranges = parts_of(n, blocks), parts_of(n, min(n, 3 * TILES))

    def add_step(name: str, work: list[tuple[type[Vertex], dict[str, FieldValue], Tensor]]) -> None:
        program.step(
            name, [(*item, number * TILES // len(work)) for number, item in enumerate(work)]
        )

    add_step(
        "count",
        [
            (
                Count,
                {
                    "keys": x[begin:end],
                    "x": x[key_begin:key_end],
                    "counts": counts[block, begin:end],
                },
                counts[block, begin:end],
            )
            for begin, end in parts_of(n, queries)
            for block, (key_begin, key_end) in enumerate(key_ranges)
        ],
    )
    add_step(
        "add",
        [
            (AddCounts, {"parts": counts[:, begin:end], "out": ranks[begin:end]}, ranks[begin:end])
            for begin, end in result_ranges
        ],
    )
    add_step(
        "put",
        [
            (
                Put,
                {
                    "ranks": ranks[key_begin:key_end],
                    "x": x[key_begin:key_end],
                    "begin": begin,
                    "out": spread[block, begin:end],
                },
                spread[block, begin:end],
            )
            for block, (key_begin, key_end) in enumerate(key_ranges)
            for begin, end in parts_of(n, slots)
        ],
    )
    add_step(
        "out",
        [
            (AddKeys, {"parts": spread[:, begin:end], "out": result[begin:end]}, result[begin:end])
            for begin, end in result_ranges
        ],
    )
    return program.cycles(result)


def by_network(n: int, chunks: int) -> int:
    """Return the cycles of sorting `n` keys by a bitonic network on `chunks` chunks.

    `chunks` is a power of two that divides `n`.
    """
    program = Program(n)
    graph, width = program.graph, n // chunks
    sides = [graph.add_variable(FLOAT, (chunks, width), f"side{chunk}") for chunk in (0, 1)]
    tile_of_chunk, current = [chunk * TILES // chunks for chunk in range(chunks)], 0

    def sort(name: str, x: Tensor) -> None:
        other_side = sides[1 - current]
        program.step(
            name,
            [
                (
                    SortFirst,
                    {"x": x[chunk], "out": other_side[chunk]},
                    other_side[chunk],
                    tile_of_chunk[chunk],
                )
                for chunk in range(chunks)
            ],
        )

    def compare(name: str, distance: int, is_first: bool) -> None:
        x, other_side = sides[current], sides[1 - current]
        vertices: Work = []
        for chunk in range(chunks):
            lower_chunk, upper_chunk = min(chunk, chunk ^ distance), max(chunk, chunk ^ distance)
            pair = x[lower_chunk], x[upper_chunk].reverse(0) if is_first else x[upper_chunk]
            codelet = Lower if chunk == lower_chunk else Upper
            vertices.append(
                (
                    codelet,
                    {"a": pair[0], "b": pair[1], "out": other_side[chunk]},
                    other_side[chunk],
                    tile_of_chunk[chunk],
                )
            )
        program.step(name, vertices)

    sort("sort", program.x.reshape((chunks, width)))
    merged_chunks, current = 1, 1
    while merged_chunks < chunks:
        for distance in (
            2 * merged_chunks - 1,
            *(merged_chunks >> chunk for chunk in range(1, merged_chunks.bit_length())),
        ):
            compare(f"merge{merged_chunks}.{distance}", distance, distance == 2 * merged_chunks - 1)
            current = 1 - current
        sort(f"sort{merged_chunks}", sides[current])
        merged_chunks, current = 2 * merged_chunks, 1 - current
    return program.cycles(concat([sides[current][chunk] for chunk in range(chunks)], 0))


# Maps each (n, k) to the program with the fewest cycles. Programs with other numbers of vertices,
# blocks or chunks were also tried.
PROGRAMS: dict[tuple[int, int], Callable[[], int]] = {
    (1_000, 1): lambda: first_of(1_000, 1, (71, 8)),
    (1_000, 5): lambda: first_of(1_000, 5, (33, 6)),
    (1_000, 50): lambda: first_of(1_000, 50, (5,)),
    (1_000, 1_000): lambda: by_counts(1_000, 64, 100, 64),
    (20_480, 1): lambda: first_of(20_480, 1, (1000, 100, 10)),
    (20_480, 5): lambda: first_of(20_480, 5, (1000, 250, 63, 16, 4)),
    (20_480, 50): lambda: first_of(20_480, 50, (147, 49, 17, 6, 2)),
    (20_480, 20_480): lambda: by_network(20_480, 1024),
    (102_400, 5): lambda: first_of(102_400, 5, (5000, 834, 139, 24, 4)),
    (102_400, 50): lambda: first_of(102_400, 50, (735, 184, 46, 12, 3)),
    (102_400, 102_400): lambda: by_network(102_400, 1024),
}


def ordering() -> Ratios:
    """Return a function that measures {(n, k): popops' cycles relative to the program's}."""
    return lambda: {
        f"{k:,} of {n:,}": by_popops(n, k) / program() for (n, k), program in PROGRAMS.items()
    }


ROWS = [
    Row(
        "o1",
        "modelled cycles of popops.top_k, 1 to all of 1,000 to 102,400 numbers",
        "of a program of one's own",
        2,
        ordering,
        most_rounds=1,
    )
]
