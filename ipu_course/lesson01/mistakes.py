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
# clause: sync is how many cycles the meeting takes
# not yet: the sync is missing
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return max(-(-max(i, o) // 4) for i, o in zip(bytes_in, bytes_out, strict=False)) + max(work)


# %% 01.1: in and out one after the other
# clause: bytes_in[t] and bytes_out[t] is what it receives and sends
# not yet: what a tile receives and what it sends were added up
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return (
        sync + max(-(-(i + o) // 4) for i, o in zip(bytes_in, bytes_out, strict=False)) + max(work)
    )


# %% 01.1: half a cycle dropped
# not yet: some bytes were dropped: 18 bytes are 4 cycles and a half, and there is no half cycle.
#   next: round
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(bytes_in + bytes_out) // 4 + max(work)


# %% 01.1: half a cycle kept
# clause: whole numbers
# not yet: a part of a cycle came out
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(bytes_in + bytes_out) / 4 + max(work)


# %% 01.1: bytes as cycles
# not yet: bytes were counted as cycles
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(bytes_in + bytes_out) + max(work)


# %% 01.1: no barrier between the phases
# why:  the two phases were added up tile by tile, as if a tile could compute while another still
#   exchanges.
# next: take the slowest exchange of all tiles, then the slowest work of all tiles, and add the two.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(
        w + -(-max(i, o) // 4) for w, i, o in zip(work, bytes_in, bytes_out, strict=False)
    )


# %% 01.1: the bytes of all tiles
# why:  the bytes of all tiles were added up. Each tile has a way in and a way out of its own.
# next: take the largest number of bytes of a single tile, and divide that by 4, rounded up.
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
# not yet: only bytes_in was looked at
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-max(bytes_in) // 4) + max(work)


# %% 01.1: only what goes out
# not yet: only bytes_out was looked at
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-max(bytes_out) // 4) + max(work)


# %% 01.1: two mistakes at once
# not yet: so only the slowest counts. And some bytes were dropped
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + max(bytes_in + bytes_out) // 4 + sum(work)


# %% 01.1: a cycle too many
# not yet: 16 bytes are 4 cycles, and not 5
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
# not yet: what all tiles receive was added up
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-sum(bytes_in) // 4) + max(work)


# %% 01.1: all that goes out
# not yet: what all tiles send was added up
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-sum(bytes_out) // 4) + max(work)


# %% 01.1: the mean work
# clause: work[t] is how many cycles tile t computes
# why:  the work of all tiles was averaged. The superstep ends with the slowest.
# next: max(work).
def superstep_cycles(work, bytes_in, bytes_out, sync):
    exchange = max(-(-max(came, went) // 4) for came, went in zip(bytes_in, bytes_out, strict=True))
    return sync + exchange + sum(work) // len(work)


# %% 01.1: the least work
# why:  this waits for the quickest tile. All wait for the slowest.
# next: max(work).
def superstep_cycles(work, bytes_in, bytes_out, sync):
    exchange = max(-(-max(came, went) // 4) for came, went in zip(bytes_in, bytes_out, strict=True))
    return sync + exchange + min(work)


# %% 01.1: eight bytes in a cycle
# why:  8 bytes were sent in a cycle. A tile sends 4 and receives 4, and neither can help the other.
# next: divide by 4.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    exchange = max(-(-max(came, went) // 8) for came, went in zip(bytes_in, bytes_out, strict=True))
    return sync + exchange + max(work)


# %% 01.1: rounded to the nearest
# why:  the exchange was rounded to the nearest cycle: 21 bytes are 5 cycles and a quarter, and a
#   cycle that has begun is paid in full.
# next: round the exchange up: -(-bytes // 4), or math.ceil.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + round(max(*bytes_in, *bytes_out) / 4) + max(work)


# %% 01.1: the slowest receiver and the slowest sender
# why:  the slowest receiver and the slowest sender were added up. All tiles send and receive at the
#   same time.
# next: take the largest number in bytes_in and bytes_out together, and divide it by 4, rounded up.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync + -(-max(bytes_in) // 4) + -(-max(bytes_out) // 4) + max(work)


# %% 01.1: the exchange of the tile that works longest
# why:  only the exchange of the tile that works longest was counted. All tiles wait for the slowest
#   exchange, whichever tile has it.
# next: take the largest number in bytes_in and bytes_out together.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    slowest = work.index(max(work))
    return sync + work[slowest] + -(-max(bytes_in[slowest], bytes_out[slowest]) // 4)


# %% 01.1: a sync for each tile
# why:  the sync was counted once for each tile. All tiles meet in one sync.
# next: add sync once.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return sync * len(work) + -(-max(*bytes_in, *bytes_out) // 4) + max(work)


# %% 01.1: the sync hidden behind the exchange
# why:  of sync and exchange only the longer one was counted. The exchange begins after the sync.
# next: add the two.
def superstep_cycles(work, bytes_in, bytes_out, sync):
    return max(sync, -(-max(*bytes_in, *bytes_out) // 4)) + max(work)


# %% 01.2: round robin
# clause: the fullest tile works as little as possible
# why:  this deals the jobs out in turn, however long each is.
# next: place the longest job first, each on the tile that has least so far.
def balance(jobs, tiles):
    return [i % tiles for i in range(len(jobs))]


# %% 01.2: all on one tile
# why:  everything is on tile 0, and the other tiles wait for it.
# next: place the longest job first, each on the tile that has least so far.
def balance(jobs, tiles):
    return [0] * len(jobs)


# %% 01.2: equally many
# why:  each tile gets equally many jobs. Equally many are not equally long.
# next: place the longest job first, each on the tile that has least so far.
def balance(jobs, tiles):
    return [i * tiles // len(jobs) for i in range(len(jobs))]


# %% 01.2: longest first, in a snake
# why:  longest first is right, and then they are dealt in a fixed order, there and back: nobody
#   looks at what the tiles have by then.
# next: give each job to the tile that has least so far.
def balance(jobs, tiles):
    placed = [0] * len(jobs)
    for place, job in enumerate(sorted(range(len(jobs)), key=lambda job: -jobs[job])):
        turn, tile = divmod(place, tiles)
        placed[job] = tile if turn % 2 == 0 else tiles - 1 - tile
    return placed


# %% 01.2: longest first, in turn
# why:  longest first is right, and then they are dealt round and round: the first tiles get the
#   longer one every time.
# next: give each job to the tile that has least so far.
def balance(jobs, tiles):
    placed = [0] * len(jobs)
    for place, job in enumerate(sorted(range(len(jobs)), key=lambda job: -jobs[job])):
        placed[job] = place % tiles
    return placed


# %% 01.2: shortest first
# why:  the short jobs were placed first, and the long ones stick out.
# next: place the longest job first, each on the tile that has least so far.
def balance(jobs, tiles):
    load, out = [0] * tiles, [0] * len(jobs)
    for k in sorted(range(len(jobs)), key=lambda k: jobs[k]):
        out[k] = load.index(min(load))
        load[out[k]] += jobs[k]
    return out


# %% 01.2: emptiest tile, given order
# clause: marked on cost
# why:  each job goes to the emptiest tile, and yet a long one may come last.
# next: place the longest job first, each on the tile that has least so far.
def balance(jobs, tiles):
    load, out = [0] * tiles, []
    for j in jobs:
        out.append(load.index(min(load)))
        load[out[-1]] += j
    return out


# %% 01.2: drops the tail
# clause: A tile number for each job
# not yet: a job without a tile
def balance(jobs, tiles):
    return [i % tiles for i in range(len(jobs) // tiles * tiles)]


# %% 01.2: tiles count from 1
# not yet: tiles count from 0
def balance(jobs, tiles):
    return [i % tiles + 1 for i in range(len(jobs))]


# %% 01.2: no return
# clause: return the list
# not yet: came: nothing: is there a `return`?
def balance(jobs, tiles):
    sorted(jobs)


# %% 01.2: longest first, in sorted order
# clause: in the order of jobs
# not yet: in that order, and not in the order of jobs
def balance(jobs, tiles):
    load, out = [0] * tiles, []
    for job in sorted(jobs, reverse=True):
        out.append(load.index(min(load)))
        load[out[-1]] += job
    return out


# %% 01.2: the jobs of each tile
# not yet: this looks like the jobs of each tile
def balance(jobs, tiles):
    return [[job for job in range(len(jobs)) if job % tiles == tile] for tile in range(tiles)]


# %% 01.2: gaps left open
# not yet: None stands where no tile was put in
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
# why:  this is the share of the time in which tiles work. The rest is waiting.
# next: subtract it from 1.
def waiting_share(work):
    return sum(work) / (len(work) * max(work) or 1)


# %% 01.3: the least busy tile's wait
# why:  this is what the least busy tile waits. The others wait less.
# next: add up what every tile waits, and divide by all tile-time: tiles times the slowest.
def waiting_share(work):
    return (max(work) - min(work)) / (max(work) or 1)


# %% 01.3: not divided by the tiles
# why:  waiting was added up over all tiles, and divided by the time of one.
# next: divide by the number of tiles too.
def waiting_share(work):
    return sum(max(work) - w for w in work) / (max(work) or 1)


# %% 01.3: waiting to working
# why:  this compares waiting with working. Asked is its share of everything, waiting and working
#   together.
# next: divide by tiles times the slowest.
def waiting_share(work):
    return sum(max(work) - w for w in work) / (sum(work) or 1)


# %% 01.3: cycles and no share
# why:  these are the cycles in which tiles wait, and not yet a share of all.
# next: divide by all tile-time: tiles times the slowest.
def waiting_share(work):
    return sum(max(work) - w for w in work)


# %% 01.3: per cent
# clause: from 0 to 1, is waiting
# why:  these are per cent. Asked is a share from 0 to 1.
# next: do not multiply by 100.
def waiting_share(work):
    return 100 * (1 - sum(work) / (len(work) * max(work) or 1)) if max(work) else 0


# %% 01.3: the slowest tile left out
# why:  the slowest tile was left out of the tile-time. It is paid for like the others.
# next: divide by all tiles times the slowest.
def waiting_share(work):
    others = len(work) - 1 or 1
    return 1 - sum(work) / (others * max(work)) if max(work) else 0


# %% 01.3: 0 / 0 in numpy
# why:  0 was divided by 0: no tile has work, so that there is no tile-time to have a share of.
# next: return 0 in this case.
def waiting_share(work):
    import numpy as np

    with np.errstate(all="ignore"):
        return 1 - np.mean(work) / np.max(work)


# %% 01.3: no work at all
# clause: If no tile has work, nobody waits: 0.
# error in the answer: ZeroDivisionError
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
# why:  this is the share of tiles that wait at all. They do not wait all the time.
# next: add up how long each waits.
def waiting_share(work):
    return sum(cycles < max(work) for cycles in work) / len(work)


# %% 01.3: the mean waiting
# why:  these are the cycles that a tile waits on average. Asked is a share.
# next: divide by the slowest.
def waiting_share(work):
    return max(work) - sum(work) / len(work)


# %% 01.3: one tile fewer
# why:  one tile fewer was counted: the slowest tile does not wait, but its time is tile-time, too.
# next: divide by len(work) times the slowest.
def waiting_share(work):
    slowest = max(work)
    if not slowest or len(work) == 1:
        return 0
    return sum(slowest - cycles for cycles in work) / ((len(work) - 1) * slowest)


# %% 01.3: thirteen tiles
# why:  this counts thirteen tiles, whatever the machine has.
# next: len(work) is the number of tiles.
def waiting_share(work):
    return 1 - sum(work) / (13 * max(work)) if max(work) else 0


# %% 01.3: the median
# why:  this uses the median of the work in place of its mean.
# next: sum(work) / len(work).
from statistics import median


def waiting_share(work):
    return 1 - median(work) / max(work) if max(work) else 0


# %% 01.4: dodges the dependency
# why:  it was made from readings, and not from doubled.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, other, Pair, pairs, left=readings, right=neighbours(readings))
    return Sequence(Execute(one), Execute(other))


# %% 01.4: neighbours of flipped
# why:  it was made from flipped, and not from doubled.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=flipped, right=neighbours(flipped))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: the left neighbour
# clause: The same values as three() gives
# why:  each was added to its left neighbour's, and not to its right one's.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=concat([doubled[-1:], doubled[:-1]]))
    return Sequence(Execute(one), Execute(other))


# %% 01.4: the right one from readings
# why:  left comes from doubled, and right from readings.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(readings))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: the left one from readings
# why:  right comes from doubled, and left from readings.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=readings, right=neighbours(doubled))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: to itself
# why:  each was added to itself, and not to its right neighbour's.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=doubled)
    return Sequence(Execute(one), Execute(other))


# %% 01.4: both from the neighbour
# why:  both come from the right neighbour.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=neighbours(doubled), right=neighbours(doubled))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: doubled once more
# why:  it is the same as doubled: nothing was added.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Double, pairs, x=readings)
    return Sequence(Execute(first), Execute(second))


# %% 01.4: copies
# why:  it is the same as readings.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    from ipu_teach.program import Copy

    second = graph.add_compute_set("second")
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Copy(readings, doubled), Copy(readings, flipped), Execute(second))


# %% 01.4: flipped with the wrong codelet
# why:  it is twice readings, as doubled is to be.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Double, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: doubled with the wrong codelet
# why:  it is readings with the signs turned, as flipped is to be.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Flip, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(first), Execute(second))


# %% 01.4: flips the doubled
# why:  it was made from doubled, and not from readings.
# next: compare what it reads with the three supersteps.
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, other, Flip, flipped, x=doubled)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(one), Execute(other))


# %% 01.4: doubled twice
# why:  it was doubled twice.
# next: compare what it reads with the three supersteps.
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
# not yet: do not need each other
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    place(graph, last, Flip, flipped, x=readings)
    return Sequence(Execute(one), Execute(other), Execute(last))


# %% 01.4: one step left out
# clause: fills `doubled`, `pairs` and `flipped`
# not yet: merging supersteps keeps all
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    return Sequence(Execute(one), Execute(other))


# %% 01.4: the wrong way round
# not yet: was not written by then
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
# not yet: those are programs of their own
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, flipped, x=readings)
    place(graph, other, Pair, pairs, left=doubled, right=neighbours(doubled))
    return [Execute(one), Execute(other)]


# %% 01.4: twice into one
# not yet: two vertices write the same number
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    place(graph, one, Double, doubled, x=readings)
    place(graph, one, Flip, doubled, x=readings)
    return Execute(one)


# %% 01.4: values put in place
# not yet: doubled: 1 at 0
def two(graph, readings, doubled, pairs, flipped):
    one, other, last = (graph.add_compute_set(n) for n in ("one", "other", "last"))
    graph.set_initial_value(doubled, 1)
    graph.set_initial_value(pairs, 1)
    graph.set_initial_value(flipped, 1)
    return Sequence()


# %% 01.4: the readings flipped
# not yet: the readings were overwritten
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
# not yet: it holds 3 times the reading.
def two(graph, readings, doubled, pairs, flipped):
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    place(graph, first, Double, doubled, x=readings)
    place(graph, first, Flip, flipped, x=readings)
    place(graph, second, Pair, pairs, left=doubled, right=readings)
    return Sequence(Execute(first), Execute(second))


# %% 01.5: counted from 1
# clause: counted from 0
# why:  these count from 1.
# next: the first vertex of a compute set is number 0.
culprit = ("thirds", 4, 5)


# %% 01.5: counted over all vertices
# clause: the two vertices within it
# why:  these count the vertices of all three compute sets.
# next: count within the compute set, from 0.
culprit = ("thirds", 28, 29)


# %% 01.5: two readers
# clause: the race
# not yet: reading together is no race
culprit = ("shift", 3, 4)


# %% 01.5: another order is no race
# not yet: each element is written once
culprit = ("mirror", 0, 12)


# %% 01.5: the right set, the wrong pair
# not yet: these two write different elements
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
# not yet: a race takes two
culprit = ("thirds", 3, 3)


# %% 01.5: vertices that are not there
# not yet: thirds has the vertices 0 to 4
culprit = ("thirds", 9, 10)


# %% 01.w1: rounded down
# why:  a cycle that has begun is paid in full, and this drops it.
# next: round up: -(-size // 4), or math.ceil(size / 4).
def message_cycles(size):
    return size // 4


# %% 01.w1: one cycle more
# why:  a cycle was added in any case: 16 bytes are 4 cycles, and not 5.
# next: round up only what does not come out even.
def message_cycles(size):
    return size // 4 + 1


# %% 01.w1: multiplied
# clause: 4 in a cycle
# why:  4 bytes go in a cycle, so there are fewer cycles than bytes.
# next: divide.
def message_cycles(size):
    return 4 * size


# %% 01.w1: parts of a cycle
# clause: return whole cycles.
# why:  a part of a cycle came out. One that has begun is paid in full.
# next: round up: -(-size // 4).
def message_cycles(size):
    return size / 4


# %% 01.w1: rounded down, and at least one
# why:  a cycle that has begun is paid in full: 18 bytes are 5 cycles.
# next: round up: -(-size // 4).
def message_cycles(size):
    return max(1, size // 4)


# %% 01.w2: how much it has
# clause: return the number of the tile.
# why:  this is what the emptiest tile has. Asked is which tile that is.
# next: load.index( ) says where a number stands.
def emptiest(load):
    return min(load)


# %% 01.w2: the fullest
# clause: Which tile has least?
# why:  this is the fullest tile.
# next: take the smallest of load.
def emptiest(load):
    return load.index(max(load))


# %% 01.w2: the last of those that are equal
# clause: Of two that are equal, the first.
# why:  of two that are equal this takes the last.
# next: the first: load.index( ) finds that.
def emptiest(load):
    return max(tile for tile, has in enumerate(load) if has == min(load))


# %% 01.w2: an empty one
# error in the answer: 0 is not in list
def emptiest(load):
    return load.index(0)


# %% 01.w2: counted from 1
# why:  tiles are counted from 0, and this is one more.
# next: return load.index(min(load)), with nothing added.
def emptiest(load):
    return load.index(min(load)) + 1


# %% 01.w1: a half added before rounding
# why:  round() takes a half to the even number beside it: 12 / 4 + 0.5 is 3.5, and becomes 4.
# next: round up: -(-size // 4), or math.ceil(size / 4).
def message_cycles(size):
    return round(size / 4 + 0.5)


# %% 01.w1: to the nearest
# why:  this rounds to the nearest cycle, so that one byte alone takes none. A cycle that has begun
#   is paid in full.
# next: round up: -(-size // 4).
def message_cycles(size):
    return (size + 2) // 4
