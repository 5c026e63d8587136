# %% given
from heapq import heapify, heappop, heappush
from statistics import mean

import numpy as np

from ipu_teach import FLOAT, Input, Output, Vertex, concat
from ipu_teach.program import Copy, Execute, Sequence

TILES = 13


class Sum(Vertex):
    a: Input[FLOAT]
    b: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a + self.b


class Times(Vertex):
    x: Input[FLOAT]
    factor: FLOAT
    out: Output[FLOAT]

    def compute(self):
        self.out = self.factor * self.x


def add_up(graph, name, a, b, out):
    step = graph.add_compute_set(name)
    for i in range(len(out)):
        graph.set_tile_mapping(graph.add_vertex(step, Sum, a=a[i], b=b[i], out=out[i]), i % TILES)
    return step


def multiply(graph, step, x, factor, out):
    for i in range(len(out)):
        graph.set_tile_mapping(
            graph.add_vertex(step, Times, x=x[i], factor=factor, out=out[i]), i % TILES
        )


# %% 01.1: a loop over the tiles
# like: no barrier between the phases
def superstep_cycles(work, bytes_in, bytes_out, sync):
    latest = 0
    for tile in range(len(work)):
        ready = (max(bytes_in[tile], bytes_out[tile]) + 3) // 4
        latest = max(latest, ready + work[tile])
    return latest + sync


# %% 01.1: with numpy
# like: the sum for the maximum
def superstep_cycles(work, bytes_in, bytes_out, sync):
    exchange = int(np.ceil(np.max([bytes_in, bytes_out]) / 4))
    return int(np.sum(work)) + exchange + sync


# %% 01.1: added up in arrays
# like: in and out one after the other
def superstep_cycles(work, bytes_in, bytes_out, sync):
    both = np.array(bytes_in) + np.array(bytes_out)
    return int((both.max() + 3) // 4 + np.max(work) + sync)


# %% 01.1: shifted
# like: half a cycle dropped
def superstep_cycles(work, bytes_in, bytes_out, sync):
    most = 0
    for came, went in zip(bytes_in, bytes_out, strict=True):
        most = max(most, came, went)
    return (most >> 2) + sorted(work)[-1] + sync


# %% 01.2: a counter that goes round
# like: round robin
def balance(jobs, tiles):
    placed, tile = [], 0
    for _ in jobs:
        placed.append(tile)
        tile = 0 if tile + 1 == tiles else tile + 1
    return placed


# %% 01.2: a heap in the given order
# like: emptiest tile, given order
def balance(jobs, tiles):
    heap = [(0, tile) for tile in range(tiles)]
    heapify(heap)
    placed = []
    for job in jobs:
        load, tile = heappop(heap)
        placed.append(tile)
        heappush(heap, (load + job, tile))
    return placed


# %% 01.2: numpy's order
# like: shortest first
def balance(jobs, tiles):
    load, placed = np.zeros(tiles), np.zeros(len(jobs), int)
    for job in np.argsort(jobs, kind="stable"):
        placed[job] = load.argmin()
        load[placed[job]] += jobs[job]
    return placed


# %% 01.3: an average
# like: the busy share
def waiting_share(work):
    return mean(work) / max(work) if any(work) else 0.0


# %% 01.3: the longest wait
# like: the least busy tile's wait
def waiting_share(work):
    low, *_, high = sorted([work[0], *work])
    return 1 - low / high if high else 0


# %% 01.3: in a loop
# like: not divided by the tiles
def waiting_share(work):
    slowest, waiting = max(work), 0
    for busy in work:
        waiting += slowest - busy
    if slowest == 0:
        return 0
    return waiting / slowest


# %% 01.3: one less
# like: the slowest tile left out
def waiting_share(work):
    slowest, tiles = max(work), max(len(work) - 1, 1)
    if not slowest:
        return 0
    return (tiles * slowest - sum(work)) / (tiles * slowest)


# %% 01.3: a hundredth is one
# like: per cent
def waiting_share(work):
    array = np.array(work)
    return float(100 - 100 * array.mean() / array.max()) if array.any() else 0


# %% 01.4: codelets of her own
# like: dodges the dependency
def two(graph, readings, doubled, pairs, flipped):
    first = graph.add_compute_set("at once")
    multiply(graph, first, readings, 2, doubled)
    multiply(graph, first, readings, -1, flipped)
    second = add_up(graph, "then", readings, concat([readings[1:], readings[:1]]), pairs)
    return Sequence(Execute(first), Execute(second))


# %% 01.4: by a copy of the doubled
# like: to itself
def two(graph, readings, doubled, pairs, flipped):
    first = graph.add_compute_set("at once")
    multiply(graph, first, readings, 2, doubled)
    multiply(graph, first, readings, -1, flipped)
    same = graph.clone(doubled)
    return Sequence(
        Execute(first), Copy(doubled, same), Execute(add_up(graph, "then", same, doubled, pairs))
    )


# %% 01.4: neighbours by a roll to the right
# like: the left neighbour
def two(graph, readings, doubled, pairs, flipped):
    first, last = graph.add_compute_set("at once"), len(readings) - 1
    multiply(graph, first, readings, 2, doubled)
    multiply(graph, first, readings, -1, flipped)
    before = concat([doubled[last:], doubled[:last]]) if last else doubled
    return Sequence(Execute(first), Execute(add_up(graph, "then", before, doubled, pairs)))


# %% 01.4: minus the doubled
# like: flips the doubled
def two(graph, readings, doubled, pairs, flipped):
    first = graph.add_compute_set("first")
    multiply(graph, first, readings, 2, doubled)
    multiply(graph, first, readings, -2, flipped)
    return Sequence(
        Execute(first),
        Execute(add_up(graph, "then", doubled, concat([doubled[1:], doubled[:1]]), pairs)),
    )


# %% 01.4: the readings once more
# like: the right one from readings
def two(graph, readings, doubled, pairs, flipped):
    first = graph.add_compute_set("first")
    multiply(graph, first, readings, 2, doubled)
    multiply(graph, first, readings, -1, flipped)
    return Sequence(
        Execute(first),
        Execute(add_up(graph, "then", concat([readings[1:], readings[:1]]), doubled, pairs)),
    )


# %% 01.5: the other way round, as a list
# like: counted from 1
culprit = ["thirds", 5, 4]


# %% 01.5: the other way round
# like: counted over all vertices
culprit = ("thirds", 29, 28)
