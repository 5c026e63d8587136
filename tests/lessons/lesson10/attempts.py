


# %% given
"""Mistakes of lesson 10 written otherwise."""

from ipu_course.checking.mistakes import given_to
from ipu_teach import concat
from ipu_teach.poplibs import gcl, poplin, popops
from ipu_teach.program import Copy, Sequence

table, around, chunks, send = (
    given_to("10.5")[name] for name in ("table", "around", "chunks", "send")
)


# %% 10.1: an array that is filled
# passed: sets of numbers
def table(stages, batches):
    rows = np.full((batches + stages - 1, stages), -1)
    for b in range(batches):
        for s in range(stages):
            rows[b + s, s] = b
    return rows


# %% 10.1: row from row
# passed: sets of numbers
def table(stages, batches):
    row, rows = [-1] * stages, []
    for t in range(batches + stages - 1):
        row = [t if t < batches else -1, *row[:-1]]
        rows.append(row)
    return rows


# %% 10.1: from a schedule of the library
# passed: sets of numbers
def table(stages, batches):
    rows = [[-1] * stages for _ in range(batches + stages - 1)]
    for tick, now in enumerate(rows):
        for s in range(stages):
            if tick >= s and tick - s in range(batches):
                now[s] = tick - s
    return tuple(map(tuple, rows))


# %% 10.1: an array without its end
# like: no way down
def table(stages, batches):
    rows = [[-1] * stages for _ in range(batches)]
    for t, row in enumerate(rows):
        for s in range(min(t + 1, stages)):
            row[s] = t - s
    return rows


# %% 10.1: one more row, of nothing
# like: one tick too many
def table(stages, batches):
    row, rows = [-1] * stages, []
    for t in range(batches + stages):
        row = [t if t < batches else -1, *row[:-1]]
        rows.append(row)
    return rows


# %% 10.1: nobody stops coming
# like: beyond the last
def table(stages, batches):
    row, rows = [-1] * stages, []
    for t in range(batches + stages - 1):
        row = [t, *row[:-1]]
        rows.append(row)
    return rows


# %% 10.1: an array of floats
# clause: Ticks, stages and micro-batches are counted from 0.
# not yet: a count, a position or a code is an integer
def table(stages, batches):
    rows = np.full((batches + stages - 1, stages), -1.0)
    for stage in range(stages):
        rows[stage : stage + batches, stage] = np.arange(batches)
    return rows


# %% 10.1: floats in lists
# not yet: came: [[0.0, -1.0, -1.0, -1.0]
def table(stages, batches):
    ticks = range(stages + batches - 1)
    return [[float(t - s) if 0 <= t - s < batches else -1.0 for s in range(stages)] for t in ticks]


# %% 10.2: the least limit
# passed: 10 of the slowest
def cut(costs, ipus):
    for limit in range(max(costs), sum(costs) + 1):
        begins, room = [0], limit
        for layer, cost in enumerate(costs):
            if cost > room:
                begins.append(layer)
                room = limit
            room -= cost
        if len(begins) <= ipus:
            spare = [layer for layer in range(1, len(costs)) if layer not in begins]
            return sorted(begins + spare[: ipus - len(begins)])


# %% 10.2: by recursion
# passed: 10 of the slowest
def cut(costs, ipus, first=0):
    def best(first, left):
        if left == 1:
            return sum(costs[first:]), [first]
        ways = []
        for second in range(first + 1, len(costs) - left + 2):
            slowest, begins = best(second, left - 1)
            ways.append((max(slowest, sum(costs[first:second])), [first, *begins]))
        return min(ways)

    return best(0, ipus)[1]


# %% 10.2: an array of layers
# passed: 10 of the slowest
def cut(costs, ipus):
    ends = np.cumsum([0, *costs])
    ways = [(0, *w, len(costs)) for w in combinations(range(1, len(costs)), ipus - 1)]
    return np.array(min(ways, key=lambda way: max(np.diff(ends[list(way)])))[:-1])


# %% 10.2: the least sum of squares
# like: the sum of squares
def cut(costs, ipus):
    ends = np.cumsum([0, *costs])
    ways = [(0, *w, len(costs)) for w in combinations(range(1, len(costs)), ipus - 1)]
    return list(min(ways, key=lambda way: np.square(np.diff(ends[list(way)])).sum())[:-1])


# %% 10.2: by rounding
# like: the rest to the last
def cut(costs, ipus):
    each = len(costs) // ipus
    return [i * each for i in range(ipus)]


# %% 10.2: layers in equal parts
# like: equal numbers of layers
def cut(costs, ipus):
    return [int(i * len(costs) / ipus) for i in range(ipus)]


# %% 10.2: the best cut in floats
# not yet: came: [0.0, 2.0, 6.0, 10.0]
def cut(costs, ipus):
    def slowest(begins):
        ends = [*begins[1:], len(costs)]
        return max(sum(costs[a:b]) for a, b in zip(begins, ends))

    ways = ([0, *inner] for inner in combinations(range(1, len(costs)), ipus - 1))
    return [float(begin) for begin in min(ways, key=slowest)]


# %% 10.w1: by the table
# passed: sets of numbers
def pipeline_cycles(costs, batches):
    rows = table(len(costs), batches)
    return sum(max(c for c, b in zip(costs, row) if b >= 0) for row in rows)


# %% 10.w1: by a slice for each tick
# passed: sets of numbers
def pipeline_cycles(costs, batches):
    total = 0
    for tick in range(batches + len(costs) - 1):
        first = max(0, tick - batches + 1)
        total += max(costs[first : tick + 1])
    return total


# %% 10.w1: by a loop over the ticks
# like: the slowest of all in each tick
def pipeline_cycles(costs, batches):
    return sum(max(costs) for _ in range(batches)) + max(costs) * (len(costs) - 1)


# %% 10.3: one copy a tick
# passed: 4 with 8
def pipeline(stages, into, out, samples, results):
    program, S, M = Sequence(name="pipeline"), len(stages), len(samples)
    for t in range(M + S - 1):
        if t < M:
            program.add(Copy(samples[t], into[0]))
        busy = [s for s in range(S) if 0 <= t - s < M]
        for s in busy:
            program.add(stages[s])
        ends = [into[s + 1] if s + 1 < S else results[t - s] for s in busy]
        program.add(Copy(concat([out[s] for s in busy]), concat(ends)))
    return program


# %% 10.3: a list of programs
# passed: 4 with 8
def pipeline(stages, into, out, samples, results):
    steps = []
    for row in table(len(stages), len(samples)):
        moves = []
        for s, b in enumerate(row):
            if b >= 0:
                steps += [Copy(samples[b], into[0])] if s == 0 else []
                steps.append(stages[s])
                to = results[b] if s + 1 == len(stages) else into[s + 1]
                moves.append(Copy(out[s], to))
        steps += moves
    return steps


# %% 10.3: the next sample comes with the copies
# passed: 4 with 8
def pipeline(stages, into, out, samples, results):
    S, M = len(stages), len(samples)
    program = Sequence(Copy(samples[0], into[0]))
    for t in range(M + S - 1):
        busy = [s for s in range(S) if 0 <= t - s < M]
        work = Sequence()
        for s in reversed(busy):
            work.add(stages[s])
        moves = [Copy(out[s], into[s + 1] if s + 1 < S else results[t - s]) for s in busy]
        if t + 1 < M:
            moves.append(Copy(samples[t + 1], into[0]))
        program.add(Sequence(work, *moves))
    return program


# %% 10.3: a loop in a loop
# like: one after the other
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for b in range(len(samples)):
        program.add(Copy(samples[b], into[0]))
        for s in range(last + 1):
            program.add(stages[s])
            program.add(Copy(out[s], results[b] if s == last else into[s + 1]))
    return program


# %% 10.3: from the last stage on
# like: one after the other
def pipeline(stages, into, out, samples, results):
    steps, last = [], len(stages) - 1
    for row in table(len(stages), len(samples)):
        if row[0] >= 0:
            steps.append(Copy(samples[row[0]], into[0]))
        for s in range(last, -1, -1):
            if row[s] >= 0:
                to = results[row[s]] if s == last else into[s + 1]
                steps += [stages[s], Copy(out[s], to)]
    return steps


# %% 10.3: up, full, down
# passed: 4 with 8
def pipeline(stages, into, out, samples, results):
    program, S, M = Sequence(), len(stages), len(samples)

    def tick(t, busy):
        if 0 in busy:
            program.add(Copy(samples[t], into[0]))
        for s in busy:
            program.add(stages[s])
        for s in busy:
            program.add(Copy(out[s], into[s + 1] if s + 1 < S else results[t - s]))

    for t in range(S - 1):
        tick(t, [s for s in range(t + 1) if t - s < M])
    for t in range(S - 1, M + S - 1):
        tick(t, [s for s in range(S) if t - s < M])
    return program


# %% 10.3: the results in a loop behind it
# like: the results at the end
def pipeline(stages, into, out, samples, results):
    steps, S = [], len(stages)
    for t, row in enumerate(table(S, len(samples))):
        busy = [s for s in range(S) if row[s] >= 0]
        steps += [Copy(samples[t], into[0])] if 0 in busy else []
        steps += [stages[s] for s in busy]
        steps += [Copy(out[s], into[s + 1]) for s in busy if s + 1 < S]
    return Sequence(*steps, *(Copy(out[-1], result) for result in results))


# %% 10.3: ends with the samples
# like: no way down
def pipeline(stages, into, out, samples, results):
    program, S = Sequence(), len(stages)
    for t in range(len(samples)):
        busy = [s for s in range(S) if s <= t]
        program.add(Copy(samples[t], into[0]))
        program.add(Sequence(*(stages[s] for s in busy)))
        for s in busy:
            program.add(Copy(out[s], into[s + 1] if s + 1 < S else results[t - s]))
    return program


# %% 10.4: by the ticks of each
# passed: sets of numbers
def stored(ticks, stages):
    begin, end = {}, {}
    for t, tick in enumerate(ticks):
        for kind, s, b in tick:
            (begin if kind == "forward" else end)[s, b] = t
    spans = [[(begin[k], end[k]) for k in begin if k[0] == s] for s in range(stages)]
    return [
        max(sum(a <= t <= z for a, z in one) for t in range(len(ticks))) for one in spans
    ]


# %% 10.4: with sets
# passed: sets of numbers
def stored(ticks, stages):
    most, held = [0] * stages, [set() for _ in range(stages)]
    for tick in ticks:
        for kind, s, b in tick:
            if kind == "forward":
                held[s].add(b)
        for s in range(stages):
            most[s] = max(most[s], len(held[s]))
        for kind, s, b in tick:
            if kind == "backward":
                held[s].remove(b)
    return tuple(most)


# %% 10.4: an array of changes
# passed: sets of numbers
def stored(ticks, stages):
    change = np.zeros((stages, len(ticks) + 1), int)
    for t, tick in enumerate(ticks):
        for kind, s, _ in tick:
            change[s, t if kind == "forward" else t + 1] += 1 if kind == "forward" else -1
    return change.cumsum(axis=1).max(axis=1)


# %% 10.4: begins again after a backward
# like: all go at the first backward
def stored(ticks, stages):
    most, held = [0] * stages, [set() for _ in range(stages)]
    for tick in ticks:
        for kind, s, b in tick:
            if kind == "forward":
                held[s].add(b)
        most = [max(m, len(h)) for m, h in zip(most, held)]
        for s in {s for kind, s, _ in tick if kind == "backward"}:
            held[s].clear()
    return most


# %% 10.4: what has come and not gone, less one
# like: without the one at work
def stored(ticks, stages):
    most, held = [0] * stages, [set() for _ in range(stages)]
    for tick in ticks:
        for kind, s, b in tick:
            if kind == "forward":
                most[s] = max(most[s], len(held[s]))
                held[s].add(b)
        for kind, s, b in tick:
            if kind == "backward":
                held[s].discard(b)
    return most


# %% 10.4: how many each had
# like: as many as there are
def stored(ticks, stages):
    seen = [set() for _ in range(stages)]
    for tick in ticks:
        for _, s, b in tick:
            seen[s].add(b)
    return [len(one) for one in seen]


# %% 10.w2: step by step
# passed: sets of numbers
def chunk_sent(place, k, many):
    for _ in range(k):
        place = place - 1 if place else many - 1
    return place


# %% 10.5: the other way round
# passed: all IPUs have the sums
def all_reduce(graph, parts, program):
    R = len(parts)
    ring = [chunks(parts[ipu], R) for ipu in reversed(around(R))]
    for k in range(R - 1):
        turns = [(p, (p + 1) % R, (p - k) % R) for p in range(R)]
        inbox = [graph.clone(ring[q][c]) for p, q, c in turns]
        send(program, [ring[p][c] for p, q, c in turns], inbox)
        popops.add_in_place(
            graph, concat([ring[q][c] for p, q, c in turns]), concat(inbox), program
        )
    for k in range(R - 1):
        turns = [(p, (p + 1) % R, (p + 1 - k) % R) for p in range(R)]
        send(program, [ring[p][c] for p, q, c in turns], [ring[q][c] for p, q, c in turns])


# %% 10.5: at home in its own place
# passed: all IPUs have the sums
def all_reduce(graph, parts, program):
    R = len(parts)
    ring = [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 1):
        of = [(p - k - 1) % R for p in range(R)]
        mine = [ring[(p + 1) % R][of[p]] for p in range(R)]
        inbox = [graph.clone(each, "inbox") for each in mine]
        for p in range(R):
            if mine[p].num_elements:
                program.add(Copy(ring[p][of[p]], inbox[p]))
        popops.add_in_place(graph, concat(mine), concat(inbox), program)
    for k in range(R - 1):
        send(
            program,
            [ring[p][(p - k) % R] for p in range(R)],
            [ring[(p + 1) % R][(p - k) % R] for p in range(R)],
        )


# %% 10.5: one inbox for all rounds
# passed: all IPUs have the sums
def all_reduce(graph, parts, program):
    R, n = len(parts), parts[0].num_elements
    part = [chunks(parts[ipu], R) for ipu in around(R)]
    inbox = [graph.clone(each[-1]) for each in part]  # the last chunk is the longest
    for k in range(2 * R - 2):
        first = k < R - 1
        c = [(p - k + (0 if first else R)) % R for p in range(R)]
        ends = [part[(p + 1) % R][c[p]] for p in range(R)]
        if first:
            to = [inbox[(p + 1) % R][: ends[p].num_elements] for p in range(R)]
            send(program, [part[p][c[p]] for p in range(R)], to)
            popops.add_in_place(graph, concat(ends), concat(to), program)
        else:
            send(program, [part[p][c[p]] for p in range(R)], ends)


# %% 10.5: by the library
# passed: all IPUs have the sums
def all_reduce(graph, parts, program):
    gcl.all_reduce_in_place_within_replica(graph, parts, "ADD", program)


# %% 10.5: by the library, and copied
# passed: all IPUs have the sums
def all_reduce(graph, parts, program):
    totals = gcl.all_reduce_within_replica(graph, parts, "ADD", program)
    program.add(Copy(concat(totals), concat(parts)))


# %% 10.5: by the library's ring
# passed: all IPUs have the sums
def all_reduce(graph, parts, program):
    ring = {"method": "clockwise_ring"}
    gcl.all_reduce_in_place_within_replica(graph, parts, "ADD", program, options=ring)


# %% 10.5: by the library's two halves
# passed: all IPUs have the sums
def all_reduce(graph, parts, program):
    n = parts[0].num_elements
    shards = gcl.reduce_scatter_within_replica(graph, parts, "ADD", program)
    for part, total in zip(parts, gcl.all_gather_within_replica(graph, shards, program)):
        program.add(Copy(total.flatten()[:n], part))


# %% 10.5: chunks walk, and nobody adds
# like: nothing is added
def all_reduce(graph, parts, program):
    R = len(parts)
    ring = [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(2 * R - 2):
        for_good = k >= R - 1
        of = [(p - k + for_good * R) % R for p in range(R)]
        ends = [ring[(p + 1) % R][of[p]] for p in range(R)]
        to = ends if for_good else [graph.clone(end) for end in ends]
        send(program, [ring[p][of[p]] for p in range(R)], to)


# %% 10.5: everything comes to IPU 0, copy by copy
# like: everything to one
def all_reduce(graph, parts, program):
    boxes = [graph.clone(parts[0]) for _ in parts[1:]]
    for box, part in zip(boxes, parts[1:], strict=True):
        program.add(Copy(part, box))
    for box in boxes:
        popops.add_in_place(graph, parts[0], box, program)
    for part in parts[1:]:
        program.add(Copy(parts[0], part))


# %% 10.5: without walking home
# like: the second half is missing
def all_reduce(graph, parts, program):
    R = len(parts)
    ring = [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(1, R):
        to = [(p + 1) % R for p in range(R)]
        c = [(p - k + 1) % R for p in range(R)]
        boxes = [graph.clone(ring[to[p]][c[p]], "box") for p in range(R)]
        send(program, [ring[p][c[p]] for p in range(R)], boxes)
        mine = concat([ring[to[p]][c[p]] for p in range(R)])
        popops.add_in_place(graph, mine, concat(boxes), program)


# %% 10.5: equal chunks alone
# clause: n need not be a multiple of R
# not yet: parts[0][28]: 66
def all_reduce(graph, parts, program):
    R = len(parts)
    size = parts[0].num_elements // R
    places = range(R)
    part = [[parts[ipu][size * k : size * (k + 1)] for k in places] for ipu in around(R)]
    for k in range(R - 1):
        sent = [part[p][(p - k) % R] for p in places]
        mine = [part[(p + 1) % R][(p - k) % R] for p in places]
        inbox = [graph.clone(each) for each in mine]
        send(program, sent, inbox)
        popops.add_in_place(graph, concat(mine), concat(inbox), program)
    for k in range(R - 1):
        sent = [part[p][(p + 1 - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p + 1 - k) % R] for p in places])


# %% 10.6: with a division and a floor
# passed: sets of numbers
def from_where(one, other):
    at = 1000 * (one[0] - other[0]) // (other[1] - one[1])
    return at + 1 if at >= 0 else 0


# %% 10.6: by halves
# passed: sets of numbers
def from_where(one, other):
    low, high = 0, 1_000_000
    while low < high:
        n = (low + high) // 2
        if 1000 * one[0] + one[1] * n < 1000 * other[0] + other[1] * n:
            high = n
        else:
            low = n + 1
    return low


# %% 10.6: with fractions
# passed: sets of numbers
def from_where(one, other):
    import math
    from fractions import Fraction

    if one[0] < other[0]:
        return 0
    return math.floor(Fraction(1000 * (one[0] - other[0]), other[1] - one[1])) + 1


# %% 10.6: with true division
# like: rounded down
def from_where(one, other):
    return int(max(0, (one[0] - other[0]) / (other[1] - one[1]) * 1000))


# %% 10.7: the mean of means
# passed: w has the same bits on all replicas
def step(graph, w, x, t, rate, program):
    y = poplin.mat_mul(graph, x, w, program)
    error = popops.sub(graph, y, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    mean = gcl.all_reduce_cross_replica(graph, slope, "MEAN", program)
    popops.scaled_add_to(graph, w, mean, -rate / x.shape[0], program)


# %% 10.7: the mean of the weights
# passed: w has the same bits on all replicas
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    popops.scaled_add_to(graph, w, slope, -rate / x.shape[0], program)
    gcl.all_reduce_in_place_cross_replica(graph, w, "MEAN", program)


# %% 10.7: each scales its own
# passed: w has the same bits on all replicas
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    popops.mul_in_place(
        graph, error, rate / (x.shape[0] * graph.get_replication_factor()), program
    )
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    popops.sub_in_place(graph, w, slope, program)


# %% 10.7: no word to the others
# like: each for itself, with its own mean
def step(graph, w, x, t, rate, program):
    error = popops.sub(graph, poplin.mat_mul(graph, x, w, program), t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    popops.mul_in_place(graph, slope, rate / x.shape[0], program)
    popops.sub_in_place(graph, w, slope, program)


# %% 10.7: a quarter of each
# like: always four replicas
def step(graph, w, x, t, rate, program):
    error = popops.sub(graph, poplin.mat_mul(graph, x, w, program), t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    total = gcl.all_reduce_cross_replica(graph, slope, "ADD", program)
    popops.scaled_add_to(graph, w, total, -0.25 * rate / x.shape[0], program)


# %% 10.7: by a sum of its own
# like: each for itself
def step(graph, w, x, t, rate, program):
    error = popops.sub(graph, poplin.mat_mul(graph, x, w, program), t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    popops.mul_in_place(graph, slope, rate / x.shape[0] / graph.get_replication_factor(), program)
    popops.sub_in_place(graph, w, slope, program)


# %% 10.7: scaled before
# like: its own samples alone
def step(graph, w, x, t, rate, program):
    error = popops.sub(graph, poplin.mat_mul(graph, x, w, program), t, program)
    popops.mul_in_place(graph, error, 1 / x.shape[0], program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    total = gcl.all_reduce_cross_replica(graph, slope, "ADD", program)
    popops.scaled_add_to(graph, w, total, -rate, program)


# %% 10.7: the error turned round
# clause: The error is `x @ w - t`
# not yet: this adds the gradient to w
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    error = popops.sub(graph, t, error, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: a program returned
# clause: Append a training step to the program
# not yet: w[0, 0] on replica 0: -1.075
def step(graph, w, x, t, rate, program):
    program = Sequence()
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)
    return program


# %% 10.8: a table
# passed: machines, of 1 to 25 replicas
def groups(copies, parts):
    numbers = np.arange(copies * parts).reshape(copies, parts)
    return numbers, numbers.T


# %% 10.8: as the library has them
# passed: machines, of 1 to 25 replicas
def groups(copies, parts):
    kinds = gcl.CommGroupType
    one = gcl.CommGroup(kinds.CONSECUTIVE, parts).of(copies * parts)
    return one, gcl.CommGroup(kinds.ORTHOGONAL, copies).of(copies * parts)


# %% 10.8: ranges, in any order
# passed: machines, of 1 to 25 replicas
def groups(copies, parts):
    every = range(copies * parts)
    return (
        [every[c : c + parts] for c in reversed(every[::parts])],
        [every[p::parts] for p in range(parts)],
    )


# %% 10.8: by ranges
# like: turned round
def groups(copies, parts):
    every = range(copies * parts)
    return [every[p::parts] for p in range(parts)], [every[c : c + parts] for c in every[::parts]]


# %% 10.8: replicas as floats
# not yet: replicas have integers as their numbers
def groups(copies, parts):
    table = np.linspace(0, copies * parts - 1, copies * parts).reshape(copies, parts)
    return table.tolist(), table.T.tolist()


# %% 10.8: one kind alone
# clause: Return two lists of groups
# not yet: return two lists of lists
def groups(copies, parts):
    return [[copy * parts + part for part in range(parts)] for copy in range(copies)]


# %% 10.6: cut off toward 0
# clause: from 0 on
# not yet: Special in this case: the first method is always faster, by a few cycles.
def from_where(one, other):
    return max(0, int((one[0] - other[0]) * 1000 / (other[1] - one[1])) + 1)


# %% 10.2: at equal shares of the sum
# not yet: the last layer is 2: an IPU that begins with 3 has no layer.
import numpy as np


def cut(costs, ipus):
    before = np.cumsum([0, *costs])
    return [int(np.searchsorted(before, before[-1] * k / ipus)) for k in range(ipus)]


# %% 10.4: all that came while one was there
# not yet: Special in this case: the last micro-batch goes backward first.
def stored(ticks, stages):
    most = [0] * stages
    for s in range(stages):
        for b in {w[2] for tick in ticks for w in tick}:
            first, last = (
                next(t for t, tick in enumerate(ticks) if (kind, s, b) in map(tuple, tick))
                for kind in ("forward", "backward")
            )
            came = [w for tick in ticks[first : last + 1] for w in tick]
            most[s] = max(most[s], sum(w[0] == "forward" and w[1] == s for w in came))
    return most
