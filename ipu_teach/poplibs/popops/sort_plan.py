"""Plans for ordering rows on several tiles; `planned` chooses a plan by the cost model.

Each row is divided into chunks. Each chunk is sorted on a different tile, which retains only the
first k elements. A sorted group of elements is called a *run*. Stages join neighbouring runs to
fewer and longer runs, until a single run remains:

* A *merge* moves the runs to one tile. It is suitable for few elements.
* A *ranking* takes four steps and many tiles. For every pair of runs, a tile counts, for each
  element, how many elements of the other run come before it. The rank of an element is the sum of
  its counts and its position in its run. Then the elements of each run are written to the positions
  of their ranks, in blocks of the result, and the blocks are combined. (Preparata, New
  Parallel-Sorting Schemes, IEEE Transactions on Computers, 1978, sorts by such counts.) The number
  of steps does not depend on the number of runs. PopLibs' bitonic network
  (lib/popops/BitonicTopK.cpp) takes log2(n) x (log2(n) + 1) / 2 steps for n elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.target import Target
from ipu_teach.types import UNSIGNED_INT, DType

Dtypes = tuple[type[DType], ...]

_FAN_INS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@dataclass(frozen=True)
class Stage:
    """A stage that joins `fan_in` neighbouring runs (sorted groups of elements) to one run.

    If `by_ranks` is true, several tiles compute the rank of each element, which is its position in
    the result. Otherwise one tile merges the runs.
    """

    fan_in: int
    by_ranks: bool


@dataclass(frozen=True)
class SortPlan:
    """A plan for sorting rows, or for selecting their first elements.

    The rows are divided into `groups` groups, which are sorted on different tiles. Each row is
    divided into `chunks` chunks; each chunk is sorted on one tile, and the `stages` join the sorted
    chunks. `cycles` is the number of modelled cycles.
    """

    groups: int
    chunks: int
    stages: tuple[Stage, ...]
    cycles: int


@dataclass(frozen=True)
class Grid:
    """The tiles on which the rows are sorted.

    The rows are divided into `groups` groups. The groups are distributed over the IPUs, and the
    groups of an IPU evenly over its tiles, so that no row is copied from one IPU to another.
    """

    groups: int
    ipus: int
    tiles_per_ipu: int

    @property
    def groups_per_ipu(self) -> int:
        """The number of row groups on the IPU that has the most groups."""
        return max(1, -(-self.groups // self.ipus))

    @property
    def per_group(self) -> int:
        """The number of tiles that sort a group of rows."""
        return max(1, self.tiles_per_ipu // self.groups_per_ipu)

    def tiles(self, group: int, part: int, parts: int) -> range:
        """Return the tiles of part `part` of group `group`; both numbers begin at 0.

        The tiles of a group are divided into `parts` parts.
        """
        ipu, group_in_ipu = divmod(group, self.groups_per_ipu)
        first_tile = (
            ipu * self.tiles_per_ipu + group_in_ipu * self.tiles_per_ipu // self.groups_per_ipu
        )
        begin, end = (
            first_tile + part_number * self.per_group // parts for part_number in (part, part + 1)
        )
        return range(begin, max(end, begin + 1))


@dataclass(frozen=True)
class Cuts:
    """The numbers of vertices in the steps of a ranking.

    A ranking joins runs, which are sorted groups of elements. In the first step, there is a vertex
    for each pair of runs. It counts, for each element, how many elements of the other run come
    before this element. In the second step, there are `sums` vertices for each run, which add
    the counts of its elements. In the third step, there are `blocks` vertices for each run, which
    write its elements to blocks of the result. In the last step, `parts` vertices combine the
    blocks of all runs.
    """

    sums: int
    blocks: int
    parts: int


def cuts(runs: int, length: int, retained: int, tiles: int, target: Target) -> Cuts:
    """Return the numbers of vertices for a ranking that joins `runs` sorted runs on `tiles` tiles.

    A run has at most `length` elements, and the result has `retained` elements. The numbers are
    limited, so that a vertex has at least about as many elements as its tile has workers.
    """
    num_workers = target.num_worker_contexts
    tiles_per_run = max(1, tiles // runs)
    return Cuts(
        min(tiles_per_run, -(-length // num_workers)),
        min(tiles_per_run, -(-retained // num_workers)),
        min(tiles, -(-retained // num_workers)),
    )


def grid(groups: int, target: Target) -> Grid:
    """Return the tiles on which `groups` groups of rows are sorted, as a `Grid`."""
    return Grid(groups, target.num_ipus, target.tiles_per_ipu)


@lru_cache(maxsize=512)
def planned(rows: int, n: int, k: int, dtypes: Dtypes, target: Target) -> SortPlan:
    """Return the cheapest plan for the first `k` elements in each of `rows` rows of `n` elements.

    `dtypes` is a tuple that contains the dtype of the keys and, if there are values that move with
    the keys, the dtype of the values.
    """
    plans = (
        _Planner(rows, n, k, chunks, dtypes=dtypes, target=target).plan()
        for chunks in _chunks(n, target)
    )
    return min((plan for plan in plans if plan), key=lambda plan: plan.cycles)


def _chunks(n: int, target: Target) -> list[int]:
    """Return the numbers of chunks to compare, ascending.

    The candidates are the powers of 2, the midpoints between them, and the limit itself. The limit
    is the number of tiles of an IPU, or `n` if `n` is less. With some candidates, the last chunks
    would be empty, because all chunks except the last one have the same length. Such a candidate is
    replaced by its number of nonempty chunks.
    """
    num_tiles = max(1, min(n, target.tiles_per_ipu))
    powers_of_two = [2**i for i in range(num_tiles.bit_length())]
    chunk_counts = (
        count
        for count in (*powers_of_two, *(3 * power // 2 for power in powers_of_two), num_tiles)
        if count <= num_tiles
    )
    return sorted({-(-n // -(-n // count)) for count in chunk_counts})


class _Planner:
    """A search for the cheapest stages for a given number of chunks."""

    def __init__(
        self, rows: int, n: int, k: int, chunks: int, dtypes: Dtypes, target: Target
    ) -> None:
        self.n = n
        self.k = k
        self.chunks = chunks
        self.dtypes = dtypes
        self.target = target
        self.groups = min(rows, target.num_ipus * max(1, target.tiles_per_ipu // chunks))
        self.rows = -(-rows // self.groups)
        self.tiles = grid(self.groups, target).per_group
        self.best = cache(self._best)

    def plan(self) -> SortPlan | None:
        """Return the cheapest plan, or None if a group has fewer tiles than chunks."""
        if self.tiles < self.chunks:
            return None
        chunk_length = -(-self.n // self.chunks)
        first_cycles = self._merge(chunk_length, 1)
        cycles, stages = self.best(self.chunks, min(self.k, chunk_length))
        return SortPlan(self.groups, self.chunks, stages, first_cycles + cycles)

    def _best(self, runs: int, length: int) -> tuple[int, tuple[Stage, ...]]:
        """Return `(cycles, stages)` of the cheapest stages that join `runs` runs to a single run.

        A run is a sorted group of `length` elements.
        """
        if runs == 1:
            return 0, ()
        choices = []
        for fan_in in {min(fan, runs) for fan in (*_FAN_INS, runs)}:
            remaining_runs = -(-runs // fan_in)
            later_cycles, later_stages = self.best(remaining_runs, min(self.k, length * fan_in))
            cycles = self._merge(fan_in * length, length)
            choices.append((cycles + later_cycles, (Stage(fan_in, False), *later_stages)))
            if self.rows == 1:
                cycles = self._rank(fan_in, length, self.tiles // remaining_runs)
                choices.append((cycles + later_cycles, (Stage(fan_in, True), *later_stages)))
        return min(choices, key=lambda option: option[0])

    def _merge(self, columns: int, run: int) -> int:
        element_bytes = sum(dtype.size for dtype in self.dtypes)
        sorting = vertices.sort_rows(
            self.rows, columns, run, self.k, dtypes=self.dtypes, target=self.target
        )
        return self._step(self.rows * columns * element_bytes) + sorting

    def _rank(self, runs: int, length: int, tiles: int) -> int:
        """Return the cycles in which `tiles` tiles join sorted runs by ranks.

        There are `runs` runs of `length` elements. The rank of an element is its position in the
        result.
        """
        target = self.target
        num_retained = min(self.k, runs * length)
        vertex_cuts = cuts(runs, length, num_retained, tiles, target=target)
        key_dtype = self.dtypes[0]
        element_bytes = sum(dtype.size for dtype in self.dtypes)
        rank_bytes = UNSIGNED_INT.size
        pairs_per_tile = -(-runs * (runs - 1) // 2 // tiles)
        cycles = self._step(2 * length * key_dtype.size * pairs_per_tile)
        cycles += pairs_per_tile * vertices.rank_pair(length, length, key_dtype, target)
        vertices_per_tile = -(-runs * vertex_cuts.sums // tiles)
        elements_per_vertex = -(-length // vertex_cuts.sums)
        cycles += self._step((runs - 1) * elements_per_vertex * rank_bytes * vertices_per_tile)
        cycles += vertices_per_tile * vertices.sum_ranks(runs - 1, elements_per_vertex, target)
        vertices_per_tile = -(-runs * vertex_cuts.blocks // tiles)
        ranks_per_vertex = -(-num_retained // vertex_cuts.blocks)
        cycles += self._step(length * (rank_bytes + element_bytes) * vertices_per_tile)
        cycles += vertices_per_tile * sum(
            vertices.scatter_run(length, ranks_per_vertex, dtype, target) for dtype in self.dtypes
        )
        ranks_per_vertex = -(-num_retained // vertex_cuts.parts)
        cycles += self._step(runs * ranks_per_vertex * element_bytes)
        return cycles + sum(
            vertices.combine_runs(runs, ranks_per_vertex, dtype, target) for dtype in self.dtypes
        )

    def _step(self, received_bytes: int) -> int:
        """Return the cycles of a sync and of an exchange of `received_bytes` bytes per tile."""
        start_cycles = self.target.internal_sync_cycles + self.target.exchange_latency_cycles
        return start_cycles + int(exchange_cycles(received_bytes, self.target))
