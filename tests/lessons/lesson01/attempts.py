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


# %% 01.w1: math.ceil
# passed: on 407 fixed sets of numbers
def message_cycles(size):
    import math
    return math.ceil(size / 4)


# %% 01.w1: recursion
# passed: sets of numbers
def message_cycles(size):
    return 0 if size <= 0 else 1 + message_cycles(size - 4)


# %% 01.1: numpy
# passed: on 207 fixed sets of numbers
def superstep_cycles(work, bytes_in, bytes_out, sync):
    import numpy as np
    return np.max(work) + np.ceil(np.maximum(bytes_in, bytes_out) / 4).max() + sync


# %% 01.1: a plain loop
# passed: on 207 fixed sets of numbers
def superstep_cycles(work, bytes_in, bytes_out, sync):
    most = longest = 0
    for w, came, went in zip(work, bytes_in, bytes_out):
        longest = max(longest, w)
        for bytes_ in (came, went):
            cycles, rest = divmod(bytes_, 4)
            most = max(most, cycles + (1 if rest else 0))
    return sync + most + longest


# %% 01.1: fractions
# passed: on 207 fixed sets of numbers
def superstep_cycles(work, bytes_in, bytes_out, sync):
    import math
    from fractions import Fraction
    return Fraction(sync) + math.ceil(Fraction(max(bytes_in + bytes_out), 4)) + max(work)


# %% 01.1: an array without dimensions
# passed: on 207 fixed sets of numbers
def superstep_cycles(work, bytes_in, bytes_out, sync):
    import numpy as np
    return np.array(sync + -(-max(*bytes_in, *bytes_out) // 4) + max(work))


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


# %% 01.1: rounded at the end
# passed: sets of numbers
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return -int(-(sync + max(*bytes_in, *bytes_out) / 4 + max(work)) // 1)


# %% 01.w2: numpy
# passed: on 346 fixed sets of numbers
def emptiest(load):
    import numpy as np
    return np.argsort(load, kind="stable")[0]


# %% 01.w2: begins with a least of 1,000
# not yet: emptiest([2000, 1500]) came: 0 expected: 1
def emptiest(load):
    best, least = 0, 1000
    for tile, cycles in enumerate(load):
        if cycles < least:
            best, least = tile, cycles
    return best


# %% 01.w2: stops where the load rises
# clause: Which tile has the least work?
# not yet: emptiest([5, 9, 3]) came: 0 expected: 2
def emptiest(load):
    tile = 0
    while tile + 1 < len(load) and load[tile + 1] < load[tile]:
        tile += 1
    return tile


# %% 01.2: a heap
# passed: the list with the tightest budget
def balance(jobs, tiles):
    import heapq
    heap = [(0, tile) for tile in range(tiles)]
    placed = {}
    for length, job in sorted(((length, job) for job, length in enumerate(jobs)), reverse=True):
        load, tile = heapq.heappop(heap)
        placed[job] = tile
        heapq.heappush(heap, (load + length, tile))
    return tuple(placed[job] for job in range(len(jobs)))


# %% 01.2: numpy
# passed: the list with the tightest budget
def balance(jobs, tiles):
    import numpy as np
    load, placed = np.zeros(tiles), np.zeros(len(jobs), int)
    for job in np.argsort(jobs)[::-1]:
        placed[job] = load.argmin()
        load[placed[job]] += jobs[job]
    return placed


# %% 01.2: numpy's numbers in a list
# passed: the list with the tightest budget
def balance(jobs, tiles):
    import numpy as np
    load, placed = np.zeros(tiles), [None] * len(jobs)
    for job in np.argsort(jobs)[::-1]:
        placed[job] = np.argmin(load)
        load[placed[job]] += jobs[job]
    return placed


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


# %% 01.2: looked up by length
# not yet: next: try that call in a new cell
def balance(jobs, tiles):
    load, placed = [0] * tiles, [0] * len(jobs)
    for job in sorted(jobs, reverse=True):
        tile = load.index(min(load))
        load[tile] += job
        placed[jobs.index(job)] = tile
    return placed


# %% 01.2: one tile after the other
# not yet: next: try that call in a new cell
def balance(jobs, tiles):
    mean, tile, load, placed = sum(jobs) / tiles, 0, 0, [0] * len(jobs)
    for job in sorted(range(len(jobs)), key=lambda job: -jobs[job]):
        if load + jobs[job] > mean and tile < tiles - 1 and load:
            tile, load = tile + 1, 0
        placed[job] = tile
        load += jobs[job]
    return placed


# %% 01.3: numpy
# passed: on 162 fixed sets of numbers
def waiting_share(work):
    import numpy as np
    work = np.array(work)
    return 0 if not work.any() else np.mean(work.max() - work) / work.max()


# %% 01.3: a plain loop
# passed: on 162 fixed sets of numbers
def waiting_share(work):
    waiting = 0
    for w in work:
        waiting += max(work) - w
    if max(work) == 0:
        return 0
    return waiting / (len(work) * max(work))


# %% 01.3: fractions
# passed: on 162 fixed sets of numbers
def waiting_share(work):
    from fractions import Fraction
    return 1 - Fraction(sum(work), len(work) * (max(work) or 1)) if any(work) else Fraction(0)


# %% 01.3: in single precision
# passed: on 162 fixed sets of numbers
def waiting_share(work):
    import numpy as np
    work = np.array(work, np.float32)
    return 1 - work.mean() / work.max() if work.any() else np.float32(0)


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


# %% 01.3: without the guard
# not yet: if no tile has work, this divides by 0
def waiting_share(work):
    return 1 - sum(work) / (len(work) * max(work))


# %% 01.3: waiting over work
# not yet: this divides the waiting by the work
def waiting_share(work):
    m = max(work)
    return sum(m - w for w in work) / sum(work)


# %% 01.3: share of the largest
# not yet: next: run this call in a new cell
def waiting_share(work):
    return 1 - max(work) / sum(work)


# %% 01.4: flipped in the second
# passed: 2 supersteps in each run
def two(graph, readings, doubled, pairs, flipped):
    one, other = graph.add_compute_set(), graph.add_compute_set()
    place(graph, one, Double, doubled, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    place(graph, other, Flip, flipped, x=readings)
    program = Sequence()
    program.append(Execute(one))
    program.append(Execute(other))
    return program


# %% 01.4: vertices one by one
# passed: 2 supersteps in each run
def two(graph, readings, doubled, pairs, flipped):
    one, other = graph.add_compute_set('one'), graph.add_compute_set('other')
    count = readings.num_elements
    for i in range(count):
        found = [graph.add_vertex(one, Double, x=readings[i], out=doubled[i])]
        found.append(graph.add_vertex(one, Flip, x=readings[i], out=flipped[i]))
        found.append(graph.add_vertex(other, Pair, left=doubled[i], right=doubled[(i + 1) % count], out=pairs[i]))
        for vertex in found:
            graph.set_tile_mapping(vertex, i % 13)
    return Sequence([Execute(one), Execute(other)])


# %% 01.4: with the library
# passed: 2 supersteps in each run
def two(graph, readings, doubled, pairs, flipped):
    one, other = graph.add_compute_set('one'), graph.add_compute_set('other')
    place(graph, one, Pair, doubled, left=readings, right=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Sequence(Execute(one)), Sequence(Execute(other)))


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


# %% 01.4: list of compute sets
# not yet: a compute set is not a program
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return [first, second]


# %% 01.4: sequence of compute sets
# error in the answer: wrap it: Execute(compute_set).
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(first, second)


# %% 01.4: pair of executes
# not yet: put them into a Sequence: Sequence(a, b).
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Execute(first), Execute(second)


# %% 01.4: the first once more
# not yet: a compute set is executed more than once
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(first), Execute(second), Execute(first))


# %% 01.4: all of it twice
# not yet: a compute set is executed more than once
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Repeat(2, Sequence(Execute(first), Execute(second)))


# %% 01.4: the second is not executed
# not yet: let the program execute vertices that write pairs
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Execute(first)


# %% 01.5: the other way round
# passed: the race detector agrees
culprit = ('thirds', 4, 3)


# %% 01.5: a list
# passed: the race detector agrees
culprit = ['thirds', 3, 4]


# %% 01.5: numpy's numbers
# passed: the race detector agrees
import numpy
culprit = ('thirds', *numpy.array([3, 4]))


# %% 01.5: the other way round, as a list
# like: counted from 1
culprit = ["thirds", 5, 4]


# %% 01.5: the other way round
# like: counted over all vertices
culprit = ("thirds", 29, 28)
