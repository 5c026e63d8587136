# %% given
from ipu_teach import FLOAT, Input, Output, Vertex, concat
from ipu_teach.program import Execute, Sequence

TILES = 13


class Double(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = 2 * self.x


class Flip(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = -self.x


class Pair(Vertex):
    left: Input[FLOAT]
    right: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.left + self.right


def place(graph, compute_set, codelet, out, **inputs):
    for i in range(out.num_elements):
        read = {name: x[i] for name, x in inputs.items()}
        vertex = graph.add_vertex(compute_set, codelet, out=out[i], **read)
        graph.set_tile_mapping(vertex, i % TILES)


def neighbours(x):
    return concat([x[1:], x[:1]])


# %% 01.1: the sum for the maximum
# not yet: so only the slowest counts. next:
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return (
        sync
        + max(-(-max(i, o) // 4) for i, o in zip(bytes_in, bytes_out, strict=False))
        + sum(work)
    )


# %% 01.1: no sync
# clause: The sync takes `sync` cycles.
# not yet: the sync is missing
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return max(-(-max(i, o) // 4) for i, o in zip(bytes_in, bytes_out, strict=False)) + max(work)


# %% 01.1: in and out one after the other
# clause: receives bytes_in[t] bytes and sends bytes_out[t] bytes
# not yet: this adds the bytes that a tile receives and sends
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return (
        sync + max(-(-(i + o) // 4) for i, o in zip(bytes_in, bytes_out, strict=False)) + max(work)
    )


# %% 01.1: half a cycle dropped
# not yet: this rounds the exchange down. A started cycle counts: 18 bytes take 5 cycles.
#   next: round
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(bytes_in + bytes_out) // 4 + max(work)


# %% 01.1: half a cycle kept
# clause: all numbers are whole
# not yet: the exchange has a fraction of a cycle
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(bytes_in + bytes_out) / 4 + max(work)


# %% 01.1: bytes as cycles
# not yet: this counts each byte as a cycle
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(bytes_in + bytes_out) + max(work)


# %% 01.1: no barrier between the phases
# why:  this adds exchange and work for each tile, and takes the largest sum. But no tile computes
#   before the slowest exchange has ended.
# next: take the slowest exchange of all tiles, then the longest work of all tiles, and add the two.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(
        w + -(-max(i, o) // 4) for w, i, o in zip(work, bytes_in, bytes_out, strict=False)
    )


# %% 01.1: no barrier, and a fraction kept
# not yet: this takes the largest sum of exchange and work of a tile. But no tile computes before
#   the slowest exchange has ended. And the exchange has a fraction of a cycle
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(w + max(i, o) / 4 for w, i, o in zip(work, bytes_in, bytes_out, strict=True))


# %% 01.1: the bytes of all tiles
# why:  this adds the bytes of all tiles. But all tiles send and receive at the same time.
# next: take the largest number of bytes of a single tile, and divide it by 4, rounded up.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-max(sum(bytes_in), sum(bytes_out)) // 4) + max(work)


# %% 01.1: no return
# clause: return the cycles
# not yet: is there a `return`?
def superstep_cycles(work, bytes_in, bytes_out, sync):
    print(end="") or max(work)


# %% 01.1: text
# not yet: 'fast', which is not a number
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return "fast"


# %% 01.1: not a number
# not yet: nan
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return float("nan")


# %% 01.1: a constant
# not yet: the same number for all arguments
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return 1116


# %% 01.1: changes its argument
# not yet: the call changed its argument work
def superstep_cycles(work, bytes_in, bytes_out, sync):
    work.sort()
    return work[-1] + sync


# %% 01.1: other parameters
# not yet: does not take these arguments
def superstep_cycles(work):
    return max(work)


# %% 01.1: divides by zero
# error in the answer: ZeroDivisionError: division by zero
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sum(work) / (sync - sync)


# %% 01.1: only what comes in
# not yet: this uses only bytes_in
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-max(bytes_in) // 4) + max(work)


# %% 01.1: only what goes out
# not yet: this uses only bytes_out
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-max(bytes_out) // 4) + max(work)


# %% 01.1: two mistakes at once
# not yet: so only the slowest counts. And this rounds the exchange down
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(bytes_in + bytes_out) // 4 + sum(work)


# %% 01.1: a cycle too many
# not yet: 16 bytes take 4 cycles, not 5
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(bytes_in + bytes_out) // 4 + 1 + max(work)


# %% 01.1: nobody can tell by a thousandth
# not yet: 840.0005
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-max(bytes_in + bytes_out) // 4) + max(work) + 0.0005


# %% 01.1: an idle tile stops it
# clause: with some on which most tiles have nothing to do
# not yet: Special in this case: most tiles
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-max(bytes_in + bytes_out) // 4) + (max(work) if min(work) else 0)


# %% 01.1: all that comes in
# not yet: this adds the bytes that all tiles receive
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-sum(bytes_in) // 4) + max(work)


# %% 01.1: all that goes out
# not yet: this adds the bytes that all tiles send
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-sum(bytes_out) // 4) + max(work)


# %% 01.1: the mean work
# clause: Tile t works for work[t] cycles
# why:  this takes the mean of `work`. The superstep ends with its slowest tile.
# next: take max(work).
def superstep_cycles(work, bytes_in, bytes_out, sync):
    exchange = max(-(-max(came, went) // 4) for came, went in zip(bytes_in, bytes_out, strict=True))
    return sync + exchange + sum(work) // len(work)


# %% 01.1: the least work
# why:  this takes the work of the fastest tile. All tiles wait for the slowest one.
# next: take max(work).
def superstep_cycles(work, bytes_in, bytes_out, sync):
    exchange = max(-(-max(came, went) // 4) for came, went in zip(bytes_in, bytes_out, strict=True))
    return sync + exchange + min(work)


# %% 01.1: eight bytes in a cycle
# why:  this divides by 8. A tile sends up to 4 bytes per cycle and receives up to 4, but it cannot
#   send 8.
# next: divide by 4.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    exchange = max(-(-max(came, went) // 8) for came, went in zip(bytes_in, bytes_out, strict=True))
    return sync + exchange + max(work)


# %% 01.1: rounded to the nearest
# why:  this rounds the exchange to the nearest cycle. A started cycle counts as a whole one: 21
#   bytes take 6 cycles.
# next: round the exchange up: -(-bytes // 4), or math.ceil.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + round(max(*bytes_in, *bytes_out) / 4) + max(work)


# %% 01.1: the slowest receiver and the slowest sender
# why:  this adds the slowest receiver and the slowest sender. But all tiles send and receive at the
#   same time.
# next: take the largest number in bytes_in and bytes_out together, and divide it by 4, rounded up.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-max(bytes_in) // 4) + -(-max(bytes_out) // 4) + max(work)


# %% 01.1: the exchange of the tile that works longest
# why:  this counts only the exchange of the tile with the most work. Another tile may have a longer
#   exchange, and all tiles wait for it.
# next: take the largest number in bytes_in and bytes_out together.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    slowest = work.index(max(work))
    return sync + work[slowest] + -(-max(bytes_in[slowest], bytes_out[slowest]) // 4)


# %% 01.1: a sync for each tile
# why:  this counts the sync once for each tile. All tiles share one sync.
# next: add `sync` once.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync * len(work) + -(-max(*bytes_in, *bytes_out) // 4) + max(work)


# %% 01.1: the sync hidden behind the exchange
# why:  this counts only the longer of `sync` and `exchange`. The exchange begins after the sync.
# next: add `sync` and `exchange`.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return max(sync, -(-max(*bytes_in, *bytes_out) // 4)) + max(work)


# %% 01.1: rounded up by round
# why:  if bytes / 4 is an odd number, round(bytes / 4 + 0.5) is one too large: 4 bytes take 1
#   cycle, but round(1.5) is 2.
# next: round the exchange up with -(-bytes // 4), or math.ceil.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + round(max(*bytes_in, *bytes_out) / 4 + 0.5) + max(work)


# %% 01.2: round robin
# clause: the fullest tile has as little work as possible
# why:  this deals the jobs to the tiles like cards, and ignores how long each job is.
# next: keep a list with the load of each tile, and look at it before you place a job.
def balance(jobs, tiles):
    return [i % tiles for i in range(len(jobs))]


# %% 01.2: all on one tile
# why:  all jobs are on tile 0, and the other tiles wait for it.
# next: keep a list with the load of each tile, and look at it before you place a job.
def balance(jobs, tiles):
    return [0] * len(jobs)


# %% 01.2: equally many
# why:  each tile gets about the same number of jobs, but some jobs are much longer than others.
# next: keep a list with the load of each tile, and look at it before you place a job.
def balance(jobs, tiles):
    return [i * tiles // len(jobs) for i in range(len(jobs))]


# %% 01.2: longest first, in a snake
# why:  the longest job comes first, which is right. But the tiles then follow in a fixed order,
#   there and back, whatever work they already have.
# next: choose each tile by its load so far.
def balance(jobs, tiles):
    placed = [0] * len(jobs)
    for place, job in enumerate(sorted(range(len(jobs)), key=lambda job: -jobs[job])):
        turn, tile = divmod(place, tiles)
        placed[job] = tile if turn % 2 == 0 else tiles - 1 - tile
    return placed


# %% 01.2: longest first, in turn
# why:  the longest job comes first, which is right. But the tiles then follow in turn, so the first
#   tiles get the longer job in every round.
# next: choose each tile by its load so far.
def balance(jobs, tiles):
    placed = [0] * len(jobs)
    for place, job in enumerate(sorted(range(len(jobs)), key=lambda job: -jobs[job])):
        placed[job] = place % tiles
    return placed


# %% 01.2: shortest first
# why:  the short jobs are placed first, so the long jobs come at the end and make some tiles much
#   fuller.
# next: place the jobs in another order.
def balance(jobs, tiles):
    load, out = [0] * tiles, [0] * len(jobs)
    for k in sorted(range(len(jobs)), key=lambda k: jobs[k]):
        out[k] = load.index(min(load))
        load[out[k]] += jobs[k]
    return out


# %% 01.2: emptiest tile, given order
# clause: This exercise has a budget of cycles
# why:  each job goes to the emptiest tile, which is right. But a long job that comes late makes its
#   tile much fuller.
# next: place the jobs in another order, so that no long job comes late.
def balance(jobs, tiles):
    load, out = [0] * tiles, []
    for j in jobs:
        out.append(load.index(min(load)))
        load[out[-1]] += j
    return out


# %% 01.2: drops the tail
# clause: a tile number for each job
# not yet: some jobs have no tile
def balance(jobs, tiles):
    return [i % tiles for i in range(len(jobs) // tiles * tiles)]


# %% 01.2: tiles count from 1
# not yet: count the tiles from 0
def balance(jobs, tiles):
    return [i % tiles + 1 for i in range(len(jobs))]


# %% 01.2: no return
# clause: return the list
# not yet: came: nothing: is there a `return`?
def balance(jobs, tiles):
    sorted(jobs)


# %% 01.2: longest first, in sorted order
# clause: in the order of jobs
# not yet: the list is in the order of the sorted
def balance(jobs, tiles):
    load, out = [0] * tiles, []
    for job in sorted(jobs, reverse=True):
        out.append(load.index(min(load)))
        load[out[-1]] += job
    return out


# %% 01.2: the jobs of each tile
# not yet: this looks like a list of jobs for each tile
def balance(jobs, tiles):
    return [[job for job in range(len(jobs)) if job % tiles == tile] for tile in range(tiles)]


# %% 01.2: gaps left open
# not yet: an element is still None
def balance(jobs, tiles):
    out = [None] * len(jobs)
    out[0] = 0
    return out


# %% 01.2: tiles in halves
# not yet: 3.5 for a tile
def balance(jobs, tiles):
    return [3.5 for job in jobs]


# %% 01.3: the busy share
# clause: of all tile-time in which tiles wait
# why:  this is the share of tile-time in which tiles work. The rest is waiting.
# next: subtract this share from 1.
def waiting_share(work):
    return sum(work) / (len(work) * max(work) or 1)


# %% 01.3: the least busy tile's wait
# why:  this uses only the tile with the least work. The other tiles wait for a shorter time.
# next: add up the waiting of all tiles, and divide it by all tile-time: len(work) * max(work).
def waiting_share(work):
    return (max(work) - min(work)) / (max(work) or 1)


# %% 01.3: the work of the slowest
# why:  this divides the work of the slowest tile by all work. Neither of them is waiting.
# next: add up how long each tile waits, and divide by all tile-time: len(work) * max(work).
def waiting_share(work):
    return max(work) / (sum(work) or 1)


# %% 01.3: not divided by the tiles
# why:  this divides the waiting of all tiles by the time of a single tile.
# next: divide by the number of tiles, too: len(work).
def waiting_share(work):
    return sum(max(work) - w for w in work) / (max(work) or 1)


# %% 01.3: waiting to working
# why:  this divides the waiting by the work. The exercise asks for its share of all tile-time,
#   which is waiting and work together.
# next: divide by all tile-time: len(work) * max(work).
def waiting_share(work):
    return sum(max(work) - w for w in work) / (sum(work) or 1)


# %% 01.3: cycles and no share
# why:  these are the cycles in which tiles wait. The exercise asks for a share.
# next: divide by all tile-time: len(work) * max(work).
def waiting_share(work):
    return sum(max(work) - w for w in work)


# %% 01.3: per cent
# clause: from 0 to 1, do tiles spend waiting
# why:  this is in per cent. The exercise asks for a share from 0 to 1.
# next: leave out the factor 100.
def waiting_share(work):
    return 100 * (1 - sum(work) / (len(work) * max(work) or 1)) if max(work) else 0


# %% 01.3: the slowest tile left out
# why:  this leaves the slowest tile out of the number of tiles. Its time is a part of all
#   tile-time, too.
# next: divide by len(work) * max(work).
def waiting_share(work):
    others = len(work) - 1 or 1
    return 1 - sum(work) / (others * max(work)) if max(work) else 0


# %% 01.3: 0 / 0 in numpy
# why:  if no tile has work, this divides 0 by 0.
# next: return 0 if max(work) is 0.
def waiting_share(work):
    import numpy as np

    with np.errstate(all="ignore"):
        return 1 - np.mean(work) / np.max(work)


# %% 01.3: no work at all
# clause: If no tile has work, no tile waits: return 0.
# not yet: if no tile has work, this divides by 0.
def waiting_share(work):
    return 1 - sum(work) / (len(work) * max(work))


# %% 01.3: None for idle tiles
# not yet: ends without a `return`
def waiting_share(work):
    if max(work):
        return 1 - sum(work) / (len(work) * max(work))


# %% 01.3: rounded
# not yet: rounded to 2 digits
def waiting_share(work):
    return round(1 - sum(work) / (len(work) * max(work)), 2) if max(work) else 0


# %% 01.3: in half
# not yet: the method is right: in float64 it gives the right result
def waiting_share(work):
    import numpy as np

    work = np.array(work, np.float16)
    return float(1 - work.mean(dtype=np.float16) / work.max()) if max(work) else 0.0


# %% 01.3: idle is all waiting
# not yet: Special in this case: no tile has work
def waiting_share(work):
    return 1 - sum(work) / (len(work) * max(work)) if max(work) else 1


# %% 01.3: how many wait
# why:  this is the share of tiles that wait at all. But most of them wait for only a part of the
#   time.
# next: add up how many cycles each tile waits, and divide by len(work) * max(work).
def waiting_share(work):
    return sum(cycles < max(work) for cycles in work) / len(work)


# %% 01.3: the mean waiting
# why:  this is the number of cycles that a tile waits on average. The exercise asks for a share.
# next: divide by max(work).
def waiting_share(work):
    return max(work) - sum(work) / len(work)


# %% 01.3: one tile fewer
# why:  this divides by the time of one tile too few. The slowest tile does not wait, but its time
#   is a part of all tile-time.
# next: divide by len(work) * max(work).
def waiting_share(work):
    slowest = max(work)
    if not slowest or len(work) == 1:
        return 0
    return sum(slowest - cycles for cycles in work) / ((len(work) - 1) * slowest)


# %% 01.3: thirteen tiles
# why:  this always counts 13 tiles.
# next: use len(work) as the number of tiles.
def waiting_share(work):
    return 1 - sum(work) / (13 * max(work)) if max(work) else 0


# %% 01.3: the median
# why:  this uses the median of `work` in place of its mean.
# next: use sum(work) / len(work).
from statistics import median


def waiting_share(work):
    return 1 - median(work) / max(work) if max(work) else 0


# %% 01.4: dodges the dependency
# why:  this tensor is computed from `readings`. It must be computed from `doubled`.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, other, Pair, pairs, left=readings, right=neighbours(readings))
    return Sequence(Execute(one), Execute(other))


# %% 01.4: neighbours of flipped
# why:  this tensor is computed from `flipped`. It must be computed from `doubled`.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=flipped, right=neighbours(flipped))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: the left neighbour
# clause: with the same values as three()
# why:  each element of `doubled` is added to its left neighbour. It must be added to its right one.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=concat([doubled[-1:], doubled[:-1]]))
    return Sequence(Execute(one), Execute(other))


# %% 01.4: the right one from readings
# why:  `left` is from `doubled`, but `right` is from `readings`. Both must be from `doubled`.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(readings))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: the left one from readings
# why:  `right` is from `doubled`, but `left` is from `readings`. Both must be from `doubled`.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=readings, right=neighbours(doubled))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: to itself
# why:  each element of `doubled` is added to itself. It must be added to its right neighbour.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=doubled)
    return Sequence(Execute(one), Execute(other))


# %% 01.4: both from the neighbour
# why:  `left` and `right` are both the right neighbour. `left` must be the element itself.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=neighbours(doubled), right=neighbours(doubled))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: doubled once more
# why:  this tensor equals `doubled`: nothing is added to it.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Double, pairs, x=readings)
    return Sequence(Execute(first), Execute(second))


# %% 01.4: copies
# why:  this tensor is a copy of `readings`.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    from ipu_teach.program import Copy

    second = graph.add_compute_set("second")
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Copy(readings, doubled), Copy(readings, flipped), Execute(second))


# %% 01.4: flipped with the wrong codelet
# why:  this tensor is twice `readings`. It must be `readings` with the other sign.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Double, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: doubled with the wrong codelet
# why:  this tensor equals `readings` with the other sign. It must be twice `readings`.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Flip, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: flips the doubled
# why:  this tensor is computed from `doubled`. It must be computed from `readings`.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, other, Flip, flipped, x=doubled)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(one), Execute(other))


# %% 01.4: doubled twice
# why:  this tensor is four times `readings`, because it is doubled twice.
# next: compare its place(…) call with that in three().
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    half = graph.clone(doubled)
    before = graph.add_compute_set("before")
    place(graph, before, Double, half, x=readings)
    place(graph, first, Double, doubled, x=half)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(before), Execute(first), Execute(second))


# %% 01.4: merged across a true dependency
# not yet: a true dependency
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Pair, pairs, left=doubled, right=neighbours(doubled))
    place(graph, other, Flip, flipped, x=readings)
    return Sequence(Execute(one), Execute(other))


# %% 01.4: still three
# clause: *two* supersteps
# not yet: Flip has a superstep of its own
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    place(graph, last, Flip, flipped, x=readings)
    return Sequence(Execute(one), Execute(other), Execute(last))


# %% 01.4: one step left out
# clause: fills `doubled`, `pairs` and `flipped`
# not yet: no vertex in the program writes flipped
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(one), Execute(other))


# %% 01.4: the wrong way round
# not yet: a superstep reads numbers that no earlier superstep writes
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, other, Double, doubled, x=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, one, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(one), Execute(other))


# %% 01.4: no return
# not yet: is there a `return`?
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)


# %% 01.4: a list
# clause: return a program
# not yet: this is a list of several programs
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    return [Execute(one), Execute(other)]


# %% 01.4: twice into one
# not yet: two vertices of a compute set write the same number
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, doubled, x=readings)
    return Execute(one)


# %% 01.4: values put in place
# not yet: doubled: element 0: 1, not
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    graph.set_initial_value(doubled, 1)
    graph.set_initial_value(pairs, 1)
    graph.set_initial_value(flipped, 1)
    return Sequence()


# %% 01.4: the readings flipped
# not yet: the program overwrites `readings`
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    from ipu_teach.program import Copy

    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(one), Execute(other), Copy(flipped, readings))


# %% 01.4: some vertices missing
# not yet: some vertices are missing
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, flipped[:1], x=readings[:1])
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(one), Execute(other))


# %% 01.4: the reading for the neighbour
# not yet: `pairs` is 3 times the reading.
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=readings)
    return Sequence(Execute(first), Execute(second))


# %% 01.5: counted from 1
# clause: counted from 0
# why:  these two numbers are one too large: the first vertex of a compute set has the number 0.
# next: subtract 1 from both numbers.
culprit = ("thirds", 4, 5)


# %% 01.5: counted over all vertices
# clause: the two vertices within it
# why:  these numbers count the vertices of all three compute sets together.
# next: count only the vertices of this compute set, from 0.
culprit = ("thirds", 28, 29)


# %% 01.5: two readers
# clause: Find the race
# not yet: but that is no race
culprit = ("shift", 3, 4)


# %% 01.5: another order is no race
# not yet: each element is written only once
culprit = ("mirror", 0, 12)


# %% 01.5: the right set, the wrong pair
# not yet: these two vertices write different elements
culprit = ("thirds", 0, 1)


# %% 01.5: misspelt
# clause: the name of the compute set
# not yet: did you mean 'thirds'
culprit = ("third", 3, 4)


# %% 01.5: vertices in lists
# clause: one vertex, the other vertex
# not yet: came: ('thirds', [3], [4])
culprit = ("thirds", [3], [4])


# %% 01.5: the set alone
# not yet: came: 'thirds' expected
culprit = "thirds"


# %% 01.5: one vertex twice
# not yet: this is one vertex. A race needs two vertices.
culprit = ("thirds", 3, 3)


# %% 01.5: vertices that are not there
# not yet: thirds has only the vertices 0 to 4
culprit = ("thirds", 9, 10)


# %% 01.w1: bytes as cycles
# why:  this counts a cycle for each byte. A tile sends 4 bytes in a cycle.
# next: divide by 4, and round up.
def message_cycles(size):
    return size


# %% 01.w1: rounded down
# why:  this drops the last, incomplete cycle. A started cycle counts as a whole one.
# next: round up. Python's math module has a function for it.
def message_cycles(size):
    return size // 4


# %% 01.w1: one cycle more
# why:  this always adds a cycle: 16 bytes take 4 cycles, not 5.
# next: add a cycle only if there is a remainder.
def message_cycles(size):
    return size // 4 + 1


# %% 01.w1: multiplied
# clause: at 4 bytes per cycle
# why:  this multiplies. A cycle moves 4 bytes, so there are fewer cycles than bytes.
# next: divide by 4, and round up.
def message_cycles(size):
    return 4 * size


# %% 01.w1: parts of a cycle
# clause: return whole cycles.
# why:  the result has a fraction of a cycle. A started cycle counts as a whole one.
# next: round up to a whole number. Python's math module has a function for it.
def message_cycles(size):
    return size / 4


# %% 01.w1: rounded down, and at least one
# why:  this rounds down. A started cycle counts as a whole one: 18 bytes take 5 cycles.
# next: round up: a remainder counts as a cycle.
def message_cycles(size):
    return max(1, size // 4)


# %% 01.w2: how much it has
# clause: return the number of the tile.
# why:  this is the work of the emptiest tile. The exercise asks for the number of the tile.
# next: return the position of this value in the list: lists have a method for it.
def emptiest(load):
    return min(load)


# %% 01.w2: the fullest
# clause: Which tile has the least work?
# why:  this is the fullest tile.
# next: use min in place of max.
def emptiest(load):
    return load.index(max(load))


# %% 01.w2: the last of those that are equal
# clause: If two have equally little, return the first.
# why:  if two tiles have equally little, this returns the last one.
# next: return the first one: load.index(…) finds it.
def emptiest(load):
    return max(tile for tile, has in enumerate(load) if has == min(load))


# %% 01.w2: an empty one
# error in the answer: 0 is not in list
def emptiest(load):
    return load.index(0)


# %% 01.w2: counted from 1
# why:  this number is one too large: tiles are counted from 0.
# next: return load.index(min(load)), and add nothing.
def emptiest(load):
    return load.index(min(load)) + 1


# %% 01.w1: a half added before rounding
# why:  round() rounds a half to the nearest even number: 12 / 4 + 0.5 is 3.5, and becomes 4.
# next: round up without round(): Python's math module has a function for it.
def message_cycles(size):
    return round(size / 4 + 0.5)


# %% 01.w1: to the nearest
# why:  this rounds to the nearest cycle, so 1 byte takes no cycle. A started cycle counts as a
#   whole one.
# next: round up: a remainder counts as a cycle.
def message_cycles(size):
    return (size + 2) // 4
