"""Plan how rows are ordered over tiles; `planned` chooses by the cost model.

Each row is divided into chunks. Each chunk is sorted on a different tile, and only its first k
elements matter. Stages then join neighbouring sorted runs into fewer and longer ones, until one is
left:

* A *merge* moves the runs to one tile. It suits few elements.
* A *ranking* takes four steps and many tiles. For every pair of runs, a tile counts for each
  element the elements of the other run that come before it. The sum of an element's counts and its
  position in its run is its rank. Each run is spread by its ranks over blocks of the result, and
  the blocks are combined. (Preparata, New Parallel-Sorting Schemes, IEEE Transactions on Computers,
  1978, sorts by such counts.) A hundred runs are merged in as many steps as two. PopLibs' bitonic
  network (lib/popops/BitonicTopK.cpp) takes log2(n) x (log2(n) + 1) / 2 steps.
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
    """A stage that joins `fan_in` neighbouring runs, by a ranking or by a merge on one tile."""

    fan_in: int
    by_ranks: bool


@dataclass(frozen=True)
class SortPlan:
    """The plan of an ordering.

    The rows are divided into `groups` on different tiles. Each row is divided into `chunks`, one
    per tile, which the stages join. `cycles` are modelled.
    """

    groups: int
    chunks: int
    stages: tuple[Stage, ...]
    cycles: int


@dataclass(frozen=True)
class Grid:
    """The tiles for groups of rows.

    Groups are distributed over the IPUs, and those of an IPU evenly over its tiles, so that no row
    is copied from one IPU to another.
    """

    groups: int
    ipus: int
    tiles_per_ipu: int

    @property
    def groups_per_ipu(self) -> int:
        """The maximum number of groups on an IPU."""
        return max(1, -(-self.groups // self.ipus))

    @property
    def per_group(self) -> int:
        """The number of tiles of each group."""
        return max(1, self.tiles_per_ipu // self.groups_per_ipu)

    def tiles(self, group: int, part: int, parts: int) -> range:
        """Return the tiles of part number `part` of a group that is divided into `parts` parts."""
        ipu, number = divmod(group, self.groups_per_ipu)
        first = ipu * self.tiles_per_ipu + number * self.tiles_per_ipu // self.groups_per_ipu
        begin, end = (first + p * self.per_group // parts for p in (part, part + 1))
        return range(begin, max(end, begin + 1))


@dataclass(frozen=True)
class Cuts:
    """The numbers of vertices that share the steps of a ranking.

    Each pair of runs has a vertex. `sums` vertices add the counts of each run, each run is spread
    over `blocks` blocks of the result, and `parts` vertices combine the blocks.
    """

    sums: int
    blocks: int
    parts: int


def cuts(runs: int, length: int, retained: int, tiles: int, target: Target) -> Cuts:
    """Return the cuts of a ranking of `runs` runs of at most `length` elements on `tiles` tiles.

    `retained` is the length of the result. Each worker has at least one element, if there are
    enough.
    """
    workers = target.num_worker_contexts
    tiles_per_run = max(1, tiles // runs)
    return Cuts(
        min(tiles_per_run, -(-length // workers)),
        min(tiles_per_run, -(-retained // workers)),
        min(tiles, -(-retained // workers)),
    )


def grid(groups: int, target: Target) -> Grid:
    """Return the grid for `groups` groups of rows on the tiles of `target`."""
    return Grid(groups, target.num_ipus, target.tiles_per_ipu)


@lru_cache(maxsize=512)
def planned(rows: int, n: int, k: int, dtypes: Dtypes, target: Target) -> SortPlan:
    """Return the cheapest plan for the first `k` elements of each of `rows` rows of `n` elements.

    `dtypes` are those of the keys and of the values that are moved with them.
    """
    plans = (
        _Planner(rows, n, k, chunks, dtypes=dtypes, target=target).plan()
        for chunks in _chunks(n, target)
    )
    return min((plan for plan in plans if plan), key=lambda plan: plan.cycles)


def _chunks(n: int, target: Target) -> list[int]:
    """Return the numbers of chunks to try: powers of two, midpoints between them, and all tiles."""
    tiles = max(1, min(n, target.tiles_per_ipu))
    powers = [2**i for i in range(tiles.bit_length())]
    counts = (c for c in (*powers, *(3 * p // 2 for p in powers), tiles) if c <= tiles)
    return sorted({-(-n // -(-n // c)) for c in counts})


class _Planner:
    """The modelled cycles of the stages, for one number of chunks."""

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
        width = -(-self.n // self.chunks)
        first = self._merge(width, 1)
        cycles, stages = self.best(self.chunks, min(self.k, width))
        return SortPlan(self.groups, self.chunks, stages, first + cycles)

    def _best(self, runs: int, length: int) -> tuple[int, tuple[Stage, ...]]:
        """Return (cycles, stages) of the cheapest stages for `runs` sorted runs of `length`."""
        if runs == 1:
            return 0, ()
        options = []
        for fan_in in {min(f, runs) for f in (*_FAN_INS, runs)}:
            remaining = -(-runs // fan_in)
            rest, later_cycles = self.best(remaining, min(self.k, length * fan_in))
            cycles = self._merge(fan_in * length, length)
            options.append((cycles + rest, (Stage(fan_in, False), *later_cycles)))
            if self.rows == 1:
                cycles = self._rank(fan_in, length, self.tiles // remaining)
                options.append((cycles + rest, (Stage(fan_in, True), *later_cycles)))
        return min(options, key=lambda option: option[0])

    def _merge(self, columns: int, run: int) -> int:
        size = sum(dtype.size for dtype in self.dtypes)
        sorting = vertices.sort_rows(
            self.rows, columns, run, self.k, dtypes=self.dtypes, target=self.target
        )
        return self._step(self.rows * columns * size) + sorting

    def _rank(self, runs: int, length: int, tiles: int) -> int:
        """Return the cycles of the four steps of a ranking on `tiles` tiles."""
        target = self.target
        retained = min(self.k, runs * length)
        cut = cuts(runs, length, retained, tiles, target=target)
        key = self.dtypes[0]
        size = sum(d.size for d in self.dtypes)
        rank = UNSIGNED_INT.size
        pairs = -(-runs * (runs - 1) // 2 // tiles)
        cycles = self._step(2 * length * key.size * pairs)
        cycles += pairs * vertices.rank_pair(length, length, key, target)
        per_tile = -(-runs * cut.sums // tiles)
        share = -(-length // cut.sums)
        cycles += self._step((runs - 1) * share * rank * per_tile)
        cycles += per_tile * vertices.sum_ranks(runs - 1, share, target)
        per_tile = -(-runs * cut.blocks // tiles)
        slots = -(-retained // cut.blocks)
        cycles += self._step(length * (rank + size) * per_tile)
        cycles += per_tile * sum(
            vertices.scatter_run(length, slots, d, target) for d in self.dtypes
        )
        slots = -(-retained // cut.parts)
        cycles += self._step(runs * slots * size)
        return cycles + sum(vertices.combine_runs(runs, slots, d, target) for d in self.dtypes)

    def _step(self, size: int) -> int:
        """Return the cycles before a compute set whose busiest tile receives `size` bytes."""
        begin = self.target.internal_sync_cycles + self.target.exchange_latency_cycles
        return begin + int(exchange_cycles(size, self.target))
