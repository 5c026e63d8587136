"""Plan how rows are ordered over tiles: `planned` asks the cost model.

Each row is cut into chunks. Each chunk is sorted on a tile of its own, and only its first k
elements matter. Then

* a *tree* merges several neighbouring runs at a time on one tile, until there is one run; or
* a *network* merges pairs of chunks, and leaves the lower half of a pair on one tile and the upper
  half on the other: a bitonic sorting network (Batcher, 1968; PopLibs' BitonicTopK.cpp), of which
  each comparison of two elements is a merge of two sorted chunks (Knuth, volume 3, section 5.3.4).
  All comparisons bring the lower element to the lower number, so any number of chunks will do. Once
  a sorted sequence of chunks holds k elements, the upper one of two such sequences is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.target import Target
from ipu_teach.types import DType

Dtypes = tuple[type[DType], ...]
Step = list[tuple[int, int, bool]]

_FAN_INS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512)


@dataclass(frozen=True)
class SortPlan:
    """A plan, and its modelled cycles.

    `groups`: of rows, each on tiles of its own; `chunks`: of each row, one a tile; `fan_ins`: how
    many runs each stage of a tree merges; `network`: whether a network merges the chunks.
    """

    groups: int
    chunks: int
    fan_ins: tuple[int, ...]
    network: bool
    cycles: int


@dataclass(frozen=True)
class Grid:
    """The tiles for groups of rows: groups are shared out among the IPUs, and those of an IPU
    evenly among its tiles, so that no row crosses from one IPU to another."""

    groups: int
    tiles: int
    tiles_per_ipu: int

    @property
    def per_ipu(self) -> int:
        """The most groups that an IPU has."""
        ipus = -(-self.tiles // self.tiles_per_ipu)
        return max(1, -(-self.groups // ipus))

    @property
    def per_group(self) -> int:
        """The tiles of each group."""
        return max(1, self.tiles_per_ipu // self.per_ipu)

    def tile(self, group: int, part: int, parts: int) -> int:
        """Return the tile of a part of a group that has `parts` of them."""
        ipu, number = divmod(group, self.per_ipu)
        first = ipu * self.tiles_per_ipu + number * self.tiles_per_ipu // self.per_ipu
        return first + part * self.per_group // parts


def grid(groups: int, target: Target) -> Grid:
    """Return the grid for that many groups of rows on the tiles of a target."""
    return Grid(groups, target.num_tiles, min(target.tiles_per_ipu, target.num_tiles))


def network_steps(chunks: int, kept: int) -> Iterator[Step]:
    """Yield the steps of a network on that many sorted chunks, of which the first `kept` matter.

    A step is a list of (lower chunk, upper chunk, whether the upper half is kept as well).
    """
    alive, size = list(range(chunks)), 1
    while size < len(alive):
        discards = size >= kept
        yield [
            (alive[i], alive[i ^ (2 * size - 1)], not discards)
            for i in range(len(alive))
            if i & size == 0 and i ^ (2 * size - 1) < len(alive)
        ]
        distance = size // 2
        if discards:
            alive = [chunk for i, chunk in enumerate(alive) if i & size == 0]
        else:
            size *= 2
        while distance:
            yield [
                (alive[i], alive[i + distance], True)
                for i in range(len(alive) - distance)
                if i & distance == 0
            ]
            distance //= 2


@lru_cache(maxsize=512)
def planned(rows: int, n: int, k: int, tree: Dtypes, network: Dtypes, target: Target) -> SortPlan:
    """Return the cheapest plan for the first `k` of each of `rows` rows of `n` elements.

    `tree` and `network`: the dtypes of what travels in each, keys first.
    """
    plans = [_plan(rows, n, k, chunks, tree, network, target) for chunks in _chunks(n, target)]
    return min((plan for pair in plans for plan in pair), key=lambda plan: plan.cycles)


def _chunks(n: int, target: Target) -> list[int]:
    """Return the numbers of chunks to try: powers of two, halves in between, and all tiles."""
    most = max(1, min(n, target.tiles_per_ipu, target.num_tiles))
    powers = [2**i for i in range(most.bit_length())]
    counts = (c for c in (*powers, *(3 * p // 2 for p in powers), most) if c <= most)
    return sorted({-(-n // -(-n // c)) for c in counts}) if n else [1]


def _plan(
    rows: int, n: int, k: int, chunks: int, tree: Dtypes, network: Dtypes, target: Target
) -> list[SortPlan]:
    ipus = max(1, target.num_tiles // min(target.tiles_per_ipu, target.num_tiles))
    per_ipu = max(1, min(target.tiles_per_ipu, target.num_tiles) // chunks)
    groups = max(1, min(rows, ipus * per_ipu))
    if grid(groups, target).per_group < chunks:
        return []
    block, width = -(-rows // groups), -(-n // chunks)
    step_cycles = _step_cycles(target)

    def stage(columns: int, run: int, dtypes: Dtypes) -> int:
        return step_cycles(block * columns, dtypes) + vertices.sort_rows(
            block, columns, run, k, dtypes, target
        )

    first, run = stage(width, 1, tree), min(k, width)

    @cache
    def merging(runs: int, run: int) -> tuple[int, tuple[int, ...]]:
        if runs <= 1:
            return 0, ()
        options = []
        for fan_in in {min(f, runs) for f in (*_FAN_INS, runs)}:
            rest, more = merging(-(-runs // fan_in), min(k, run * fan_in))
            options.append((stage(fan_in * run, max(run, 1), tree) + rest, (fan_in, *more)))
        return min(options)

    rest, fan_ins = merging(chunks, run)
    plans = [SortPlan(groups, chunks, fan_ins, False, first + rest)]
    if chunks > 1 and k:
        total = step_cycles(block * width, network)
        total += vertices.sort_rows(block, width, 1, k, network, target)
        half = step_cycles(block * run, network)
        half += vertices.merge_runs(block, run, run, network, target)
        kept = -(-k // run)
        total += half * sum(1 for _ in network_steps(chunks, kept))
        plans.append(SortPlan(groups, chunks, (), True, total))
    return plans


def _step_cycles(target: Target) -> Callable[[int, Dtypes], int]:
    begin = target.internal_sync_cycles + target.exchange_latency_cycles

    def cycles(elements: int, dtypes: Dtypes) -> int:
        size = elements * sum(dtype.size for dtype in dtypes)
        return begin + int(exchange_cycles(size, target))

    return cycles
