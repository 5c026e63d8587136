# %% given
"""Mistakes of lesson 10 written otherwise."""

from ipu_course.checking.mistakes import given_to
from ipu_teach import concat
from ipu_teach.poplibs import gcl, poplin, popops
from ipu_teach.program import Copy, Sequence

table, around, chunks, send = (
    given_to("10.5")[name] for name in ("table", "around", "chunks", "send")
)


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


# %% 10.2: by rounding
# like: equal numbers of layers
def cut(costs, ipus):
    each = len(costs) // ipus
    return [i * each for i in range(ipus)]


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


# %% 10.6: with true division
# like: rounded down
def from_where(one, other):
    return int(max(0, (one[0] - other[0]) / (other[1] - one[1]) * 1000))


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


# %% 10.8: by ranges
# like: turned round
def groups(copies, parts):
    every = range(copies * parts)
    return [every[p::parts] for p in range(parts)], [every[c : c + parts] for c in every[::parts]]
