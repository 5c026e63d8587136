# %% given
"""Known mistakes of lesson 10; what this file is: mistakes.py."""

from itertools import combinations

from ipu_teach import concat
from ipu_teach.poplibs import gcl, poplin, popops
from ipu_teach.program import Copy, Sequence

TILES = 13


def table(stages, batches):
    """By tick and stage the micro-batch at work, or -1."""
    ticks = range(batches + stages - 1)
    return [[t - s if 0 <= t - s < batches else -1 for s in range(stages)] for t in ticks]


def around(many):
    """IPUs in the order of the ring."""
    return [*range(0, many, 2), *reversed(range(1, many, 2))]


def chunks(tensor, many):
    """A tensor in so many pieces, one after the other."""
    n = tensor.num_elements
    return [tensor[n * c // many : n * (c + 1) // many] for c in range(many)]


def send(program, sent, received):
    """All at once: each of `sent` to that of `received`."""
    program.add(Copy(concat(sent), concat(received)))


# %% 10.1: one tick too many
# clause: from the first to the last tick in which a stage is busy
# why:  the last tick has no busy stage.
# next: end with the tick in which the last stage has the last micro-batch.
def table(stages, batches):
    ticks = range(batches + stages)
    return [[t - s if 0 <= t - s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.1: no way down
# why:  the table ends when the last micro-batch enters, but this one still has to go through the
#   other stages.
# next: end with the tick in which the last stage has the last micro-batch.
def table(stages, batches):
    return [[t - s if 0 <= t - s < batches else -1 for s in range(stages)] for t in range(batches)]


# %% 10.1: two ticks for a step down
# why:  a micro-batch waits for one tick before each stage.
# next: put micro-batch t - s into stage s in tick t.
def table(stages, batches):
    ticks = range(batches + 2 * (stages - 1))
    return [[t - 2 * s if 0 <= t - 2 * s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.1: all at once
# why:  all stages have the same micro-batch in a tick, but a micro-batch reaches one stage after
#   the other.
# next: put micro-batch t - s into stage s in tick t.
def table(stages, batches):
    return [[t] * stages for t in range(batches)]


# %% 10.1: one by one
# why:  only one stage is busy in a tick, which is sharding without a pipeline.
# next: put micro-batch t - s into stage s in tick t: then stage 0 has micro-batch 1 while stage 1
#   has micro-batch 0.
def table(stages, batches):
    rows = []
    for b in range(batches):
        rows += [[b if s == at else -1 for s in range(stages)] for at in range(stages)]
    return rows


# %% 10.1: the last stage first
# why:  the micro-batches enter at the last stage, but they should enter at stage 0.
# next: put micro-batch t - s into stage s in tick t.
def table(stages, batches):
    late = [stages - 1 - s for s in range(stages)]
    ticks = range(batches + stages - 1)
    return [[t - d if 0 <= t - d < batches else -1 for d in late] for t in ticks]


# %% 10.1: beyond the last
# why:  at the end, stages have micro-batches that do not exist.
# next: write -1 if t - s is `batches` or more.
def table(stages, batches):
    return [[max(-1, t - s) for s in range(stages)] for t in range(batches + stages - 1)]


# %% 10.1: a row for each stage
# clause: a row for each tick
# why:  this has a row for each stage, but the exercise asks for a row for each tick.
# next: transpose the table: rows are ticks, columns are stages.
def table(stages, batches):
    ticks = range(batches + stages - 1)
    return [[t - s if 0 <= t - s < batches else -1 for t in ticks] for s in range(stages)]


# %% 10.1: counted from 1
# clause: Ticks, stages and micro-batches are counted from 0.
# why:  the micro-batches are counted from 1, but the first one is micro-batch 0.
# next: write t - s, without adding 1.
def table(stages, batches):
    ticks = range(batches + stages - 1)
    return [[t - s + 1 if 0 <= t - s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.1: nothing is cut off
# clause: or **-1** if it has none
# why:  the table has micro-batches that do not exist: numbers below 0, and beyond the last one.
# next: write t - s only if it is from 0 to batches - 1, and -1 otherwise.
def table(stages, batches):
    return [[t - s for s in range(stages)] for t in range(batches + stages - 1)]


# %% 10.1: stages and micro-batches
# clause: Return the micro-batch of each stage in each tick
# why:  stages and micro-batches are swapped: a row has a number for each micro-batch.
# next: write `stages` numbers into each row: the first argument.
def table(stages, batches):
    ticks = range(batches + stages - 1)
    return [[t - b if 0 <= t - b < stages else -1 for b in range(batches)] for t in ticks]


# %% 10.1: as many ticks as steps of work
# why:  this has `batches * stages` ticks, as if only one stage worked at a time.
# next: end with the tick in which the last stage has the last micro-batch: the stages work at the
#   same time.
def table(stages, batches):
    ticks = range(batches * stages)
    return [[t - s if 0 <= t - s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.2: equal numbers of layers
# clause: the **slowest stage** is as fast as possible
# why:  all IPUs have the same number of layers, but not the same sum of costs.
# next: try all choices, and return the one whose largest sum of costs is smallest.
def cut(costs, ipus):
    return [len(costs) * i // ipus for i in range(ipus)]


# %% 10.2: the rest to the last
# why:  each IPU has len(costs) // ipus layers, and the last one also the remainder, whatever the
#   layers cost.
# next: try all choices, and return the one whose largest sum of costs is smallest.
def cut(costs, ipus):
    return [i * (len(costs) // ipus) for i in range(ipus)]


# %% 10.2: as soon as there is enough
# why:  this fills each IPU up to its share of the total cost, so the last IPU can get too much or
#   too little.
# next: try all choices, and return the one whose largest sum of costs is smallest.
def cut(costs, ipus):
    share, begins, sum_so_far = sum(costs) / ipus, [0], 0
    for layer, cost in enumerate(costs):
        if sum_so_far >= share and len(begins) < ipus:
            begins.append(layer)
            sum_so_far = 0
        sum_so_far += cost
    while len(begins) < ipus:
        begins.append(max(set(range(1, len(costs))) - set(begins)))
        begins.sort()
    return begins


# %% 10.2: before the dearest layers
# why:  this begins a stage at each of the most expensive layers, whatever the layers between them
#   cost.
# next: try all choices, and return the one whose largest sum of costs is smallest.
def cut(costs, ipus):
    rest = sorted(range(1, len(costs)), key=lambda layer: -costs[layer])
    return sorted([0, *rest[: ipus - 1]])


# %% 10.2: the least difference
# why:  this minimises the difference between the slowest and the fastest stage, but only the
#   slowest stage sets the pace.
# next: try all choices, and return the one whose largest sum of costs is smallest.
def cut(costs, ipus):
    def spread(begins):
        sums = [sum(costs[a:b]) for a, b in zip(begins, [*begins[1:], len(costs)], strict=True)]
        return max(sums) - min(sums)

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=spread)


# %% 10.2: the sum of squares
# why:  this minimises the sum of the squares of all stages, but only the slowest stage sets the
#   pace.
# next: try all choices, and return the one whose largest sum of costs is smallest.
def cut(costs, ipus):
    def squares(begins):
        ends = [*begins[1:], len(costs)]
        return sum(sum(costs[a:b]) ** 2 for a, b in zip(begins, ends, strict=True))

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=squares)


# %% 10.2: the last stage is forgotten
# why:  the sum of the last stage is left out, so this stage gets too many layers.
# next: let the last stage end at len(costs) when you compute the sums.
def cut(costs, ipus):
    def slowest(begins):
        return max([sum(costs[a:b]) for a, b in zip(begins, begins[1:], strict=False)], default=0)

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=slowest)


# %% 10.2: without the first
# clause: the first IPU begins with layer 0
# not yet: [2, 6, 10] expected: 4 first layers: 0 first
def cut(costs, ipus):
    def slowest(begins):
        return max(sum(costs[a:b]) for a, b in zip(begins, [*begins[1:], len(costs)], strict=True))

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=slowest)[1:]


# %% 10.2: how many layers each
# clause: Return the first layer of each IPU
# not yet: [3, 3, 3, 3] expected: 4 first layers
def cut(costs, ipus):
    return [len(costs) // ipus] * ipus


# %% 10.w1: the slowest of all in each tick
# clause: the slowest **of those** is done
# why:  each tick takes as long as the slowest of all stages, even in ticks in which that stage is
#   idle.
# next: for each tick, add the largest cost of the busy stages: those with table(…)[t][s] >= 0.
def pipeline_cycles(costs, batches):
    return (batches + len(costs) - 1) * max(costs)


# %% 10.w1: one tick too many
# why:  this counts one tick too many.
# next: count batches + len(costs) - 1 ticks.
def pipeline_cycles(costs, batches):
    return (batches + len(costs)) * max(costs)


# %% 10.w1: without the way up
# clause: from the first tick to the last
# why:  this leaves out ticks: the last micro-batch still has to go through the other stages.
# next: count batches + len(costs) - 1 ticks.
def pipeline_cycles(costs, batches):
    return batches * max(costs)


# %% 10.w1: each its own time
# why:  this adds the mean cost of a stage for each further micro-batch, but a tick takes as long as
#   its slowest busy stage.
# next: for each tick, add the largest cost of the busy stages: those with table(…)[t][s] >= 0.
def pipeline_cycles(costs, batches):
    return sum(costs) + (batches - 1) * (sum(costs) // len(costs))


# %% 10.w1: one after the other
# clause: How long do `batches` micro-batches take
# why:  this is sharding: a micro-batch starts only when the one before it has left the last stage.
# next: for each tick, add the largest cost of the busy stages: those with table(…)[t][s] >= 0.
def pipeline_cycles(costs, batches):
    return batches * sum(costs)


# %% 10.w1: as soon as its own is there
# clause: all busy stages start together
# why:  this lets a stage start as soon as its micro-batch arrives, but all micro-batches move
#   together at the end of a tick.
# next: for each tick, add the largest cost of the busy stages: those with table(…)[t][s] >= 0.
def pipeline_cycles(costs, batches):
    return sum(costs) + (batches - 1) * max(costs)


# %% 10.3: one after the other
# why:  a copy after each stage makes the next IPU wait, so only one IPU works at a time: this is
#   sharding.
# next: go through the ticks of table(…): in each tick, add all busy stages first, and then all
#   copies.
def pipeline(stages, into, out, samples, results):
    program = Sequence()
    for sample, result in zip(samples, results, strict=True):
        program.add(Copy(sample, into[0]))
        for stage, left, to in zip(stages, out, [*into[1:], result], strict=True):
            program.add(stage)
            program.add(Copy(left, to))
    return program


# %% 10.3: all wait in between
# clause: can compute at the same time
# why:  a Sync after each stage makes all IPUs wait, so no two stages run at the same time.
# next: leave out the Sync: the copies synchronise the IPUs.
from ipu_teach.program import Sync, SyncType


def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        busy = [s for s, b in enumerate(row) if b >= 0]
        if row[0] >= 0:
            program.add(Copy(samples[row[0]], into[0]))
        for s in busy:
            program.add(stages[s])
            program.add(Sync(SyncType.GLOBAL))
        for s in busy:
            program.add(Copy(out[s], into[s + 1] if s < last else results[row[s]]))
    return program


# %% 10.3: each copy behind its stage
# clause: consecutive copies share a step
# why:  each stage is followed by its copy, which makes both IPUs wait, so the stages of a tick run
#   one after another.
# next: in each tick, add all busy stages first, and then all copies, which share a step.
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        for s in reversed(range(last + 1)):
            if row[s] >= 0:
                if s == 0:
                    program.add(Copy(samples[row[0]], into[0]))
                program.add(stages[s])
                program.add(Copy(out[s], into[s + 1] if s < last else results[row[s]]))
    return program


# %% 10.3: passed on before it is read
# why:  the output of a stage is copied at once, and overwrites data that the next stage has not
#   read yet.
# next: in each tick, add all stages first, and then all copies.
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        busy = [s for s, b in enumerate(row) if b >= 0]
        if row[0] >= 0:
            program.add(Copy(samples[row[0]], into[0]))
        for s in busy:
            program.add(stages[s])
            program.add(Copy(out[s], into[s + 1] if s < last else results[row[s]]))
    return program


# %% 10.3: the results at the end
# why:  the results are copied after the last tick, when the last stage has overwritten all earlier
#   outputs.
# next: in each tick in which the last stage has a micro-batch b, add Copy(out[-1], results[b]).
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        busy = [s for s, b in enumerate(row) if b >= 0]
        if row[0] >= 0:
            program.add(Copy(samples[row[0]], into[0]))
        for s in busy:
            program.add(stages[s])
        for s in busy:
            if s < last:
                program.add(Copy(out[s], into[s + 1]))
    for result in results:
        program.add(Copy(out[last], result))
    return program


# %% 10.3: the way down begins before the way up ends
# clause: Return the program of all micro-batches
# why:  with fewer micro-batches than stages, some stages work here without a micro-batch, or do not
#   work at all.
# next: let stage s work in tick t if 0 <= t - s < len(samples).
def pipeline(stages, into, out, samples, results):
    program, last, batches = Sequence(), len(stages) - 1, len(samples)
    for t in range(batches + last):
        if t < last:
            busy = list(range(max(0, t - batches + 1), t + 1))
        else:
            busy = [s for s in range(last + 1) if t < batches or s > t - batches]
        if t >= batches and t < last:
            busy = [*range(t - batches + 1, last + 1)]
        if 0 in busy:
            program.add(Copy(samples[t], into[0]))
        for s in busy:
            program.add(stages[s])
        for s in busy:
            number = min(max(t - s, 0), batches - 1)
            program.add(Copy(out[s], into[s + 1] if s < last else results[number]))
    return program


# %% 10.3: no way down
# why:  the program ends when the last sample enters, so the last results are never computed.
# next: go through all rows of table(…), also the last `stages - 1` ticks.
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples))[: len(samples)]:
        busy = [s for s, b in enumerate(row) if b >= 0]
        if row[0] >= 0:
            program.add(Copy(samples[row[0]], into[0]))
        for s in busy:
            program.add(stages[s])
        for s in busy:
            program.add(Copy(out[s], into[s + 1] if s < last else results[row[s]]))
    return program


# %% 10.3: results by tick
# clause: the output of the last stage goes to `results[b]`
# why:  each result is stored under the number of another micro-batch.
# next: store the result in results[row[-1]]: row[-1] is the micro-batch of the last stage.
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        busy = [s for s, b in enumerate(row) if b >= 0]
        if row[0] >= 0:
            program.add(Copy(samples[row[0]], into[0]))
        for s in busy:
            program.add(stages[s])
        for s in busy:
            program.add(Copy(out[s], into[s + 1] if s < last else results[row[s] - 1]))
    return program


# %% 10.3: always the first sample
# clause: `samples[b]` goes into stage 0
# why:  sample 0 enters the first stage in every tick.
# next: copy samples[row[0]] into the first stage: row[0] is the micro-batch that enters.
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        busy = [s for s, b in enumerate(row) if b >= 0]
        if row[0] >= 0:
            program.add(Copy(samples[0], into[0]))
        for s in busy:
            program.add(stages[s])
        for s in busy:
            program.add(Copy(out[s], into[s + 1] if s < last else results[row[s]]))
    return program


# %% 10.3: the sample overtakes
# why:  the sample is copied in after the stages of its tick, so the first stage works on the
#   previous sample.
# next: add the copy of the sample at the start of the tick, before the stages.
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        busy = [s for s, b in enumerate(row) if b >= 0]
        for s in busy:
            program.add(stages[s])
        for s in busy:
            program.add(Copy(out[s], into[s + 1] if s < last else results[row[s]]))
        if row[0] >= 0:
            program.add(Copy(samples[row[0]], into[0]))
    return program


# %% 10.3: nothing comes out
# why:  no Copy writes to `results`, so each result is overwritten by the next micro-batch.
# next: in each tick in which the last stage has a micro-batch b, add Copy(out[-1], results[b]).
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        busy = [s for s, b in enumerate(row) if b >= 0]
        if row[0] >= 0:
            program.add(Copy(samples[row[0]], into[0]))
        for s in busy:
            program.add(stages[s])
        for s in busy:
            if s < last:
                program.add(Copy(out[s], into[s + 1]))
    return program


# %% 10.3: nothing comes in
# why:  no sample is copied into the first stage, so it reads unwritten memory.
# next: at the start of each tick, add Copy(samples[b], into[0]) with b = row[0], if b is not -1.
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        busy = [s for s, b in enumerate(row) if b >= 0]
        for s in busy:
            program.add(stages[s])
        for s in busy:
            program.add(Copy(out[s], into[s + 1] if s < last else results[row[s]]))
    return program


# %% 10.3: all stages in every tick
# why:  in the first ticks, later stages work on data that no stage has sent.
# next: add only the stages s of the tick whose row[s] is not -1.
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        if row[0] >= 0:
            program.add(Copy(samples[row[0]], into[0]))
        for stage in stages:
            program.add(stage)
        for s, b in enumerate(row):
            if s < last or b >= 0:
                program.add(Copy(out[s], into[s + 1] if s < last else results[b]))
    return program


# %% 10.3: nothing is returned
# clause: Return the program of the pipeline
# not yet: is there a `return`?
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        busy = [s for s, b in enumerate(row) if b >= 0]
        if row[0] >= 0:
            program.add(Copy(samples[row[0]], into[0]))
        for s in busy:
            program.add(stages[s])
        for s in busy:
            program.add(Copy(out[s], into[s + 1] if s < last else results[row[s]]))


# %% 10.3: results of ticks without one
# why:  a result is copied in every tick, also when the last stage has no micro-batch. Then row[-1]
#   is -1, and in the first ticks the output of the last stage is not computed yet.
# next: add the copy into results[row[-1]] only if row[-1] is not -1.
def pipeline(stages, into, out, samples, results):
    program, last = Sequence(), len(stages) - 1
    for row in table(len(stages), len(samples)):
        if row[0] >= 0:
            program.add(Copy(samples[row[0]], into[0]))
        for s in range(last + 1):
            if row[s] >= 0:
                program.add(stages[s])
        for s in range(last):
            if row[s] >= 0:
                program.add(Copy(out[s], into[s + 1]))
        program.add(Copy(out[last], results[row[last]]))
    return program


# %% 10.4: as many as there are
# why:  this is the number of all micro-batches, but each backward removes one from its stage.
# next: subtract one micro-batch for each backward.
def stored(ticks, stages):
    kinds = [(kind, s) for tick in ticks for kind, s, _ in tick]
    return [kinds.count(("forward", s)) for s in range(stages)]


# %% 10.4: what is held at the end
# clause: What is the largest number of micro-batches
# why:  this is the count at the end, when no micro-batch is held any more.
# next: keep the largest count of all ticks for each stage.
def stored(ticks, stages):
    now, most = [0] * stages, [0] * stages
    for tick in ticks:
        for kind, s, _ in tick:
            now[s] += kind == "forward"
        most = [max(most[s], now[s]) for s in range(stages)]
        for kind, s, _ in tick:
            now[s] -= kind == "backward"
    return now


# %% 10.4: looked at after the tick
# why:  this takes the maximum after the backwards of a tick, when their micro-batches are already
#   gone.
# next: update the maximum after the forwards of a tick, and before its backwards.
def stored(ticks, stages):
    now, most = [0] * stages, [0] * stages
    for tick in ticks:
        for kind, s, _ in tick:
            now[s] += 1 if kind == "forward" else -1
        most = [max(most[s], now[s]) for s in range(stages)]
    return most


# %% 10.4: in the order of the list
# why:  this counts the work of a tick in the order of the list, but all work of a tick happens at
#   the same time.
# next: add all forwards of a tick, update the maximum, and then subtract its backwards.
def stored(ticks, stages):
    now, most = [0] * stages, [0] * stages
    for tick in ticks:
        for kind, s, _ in tick:
            now[s] += 1 if kind == "forward" else -1
            most[s] = max(most[s], now[s])
    return most


# %% 10.4: the longest time
# why:  this is the number of ticks for which a micro-batch is held, but the exercise asks for the
#   number of micro-batches held at the same time.
# next: count the micro-batches that a stage holds in each tick, and keep the largest count.
def stored(ticks, stages):
    begin, longest = {}, [0] * stages
    for t, tick in enumerate(ticks):
        for kind, s, b in tick:
            if kind == "forward":
                begin[s, b] = t
    for t, tick in enumerate(ticks):
        for kind, s, b in tick:
            if kind == "backward":
                longest[s] = max(longest[s], t - begin[s, b] + 1)
    return longest


# %% 10.4: without the one at work
# clause: **both included**
# why:  this leaves out one micro-batch: the stage also holds the one that it works on.
# next: add 1 for the micro-batch that the stage works on.
def stored(ticks, stages):
    now, most = [0] * stages, [0] * stages
    for tick in ticks:
        for kind, s, _ in tick:
            now[s] += kind == "forward"
        most = [max(most[s], now[s]) for s in range(stages)]
        for kind, s, _ in tick:
            now[s] -= kind == "backward"
    return [each - 1 for each in most]


# %% 10.4: all go at the first backward
# why:  a backward removes all micro-batches of its stage here, but it should remove one.
# next: subtract one micro-batch for each backward.
def stored(ticks, stages):
    now, most = [0] * stages, [0] * stages
    for tick in ticks:
        for kind, s, _ in tick:
            now[s] += kind == "forward"
        most = [max(most[s], now[s]) for s in range(stages)]
        for kind, s, _ in tick:
            if kind == "backward":
                now[s] = 0
    return most


# %% 10.4: all stages together
# clause: Return, for each stage
# why:  each stage gets the count of all stages together.
# next: keep a separate count for each stage s.
def stored(ticks, stages):
    now = most = 0
    for tick in ticks:
        now += sum(kind == "forward" for kind, _, _ in tick)
        most = max(most, now)
        now -= sum(kind == "backward" for kind, _, _ in tick)
    return [most] * stages


# %% 10.4: the rule of grouped schedules
# clause: The function must work for any schedule
# why:  this formula is right only for grouped schedules, but the ticks may follow another schedule.
# next: count forwards and backwards in `ticks`.
def stored(ticks, stages):
    return [2 * (stages - 1 - s) + 1 for s in range(stages)]


# %% 10.4: the rule of interleaved schedules
# why:  this formula is right only for interleaved schedules, but the ticks may follow another
#   schedule.
# next: count forwards and backwards in `ticks`.
def stored(ticks, stages):
    return [stages - s for s in range(stages)]


# %% 10.4: never let go
# why:  a backward does not reduce the count here, but it removes a micro-batch.
# next: subtract one micro-batch for each backward.
def stored(ticks, stages):
    now, most = [0] * stages, [0] * stages
    for tick in ticks:
        for kind, s, _ in tick:
            now[s] += kind == "forward"
        most = [max(most[s], now[s]) for s in range(stages)]
        for kind, s, _ in tick:
            now[s] += kind == "backward"
    return most


# %% 10.4: from the first to the last that is held
# clause: use only the ticks
# why:  this works out the count from the numbers of the micro-batches, as if their passes were in
#   the order 0, 1, 2. A schedule may have any order.
# next: add one for each forward of a stage, and subtract one for each backward.
def stored(ticks, stages):
    most, first, last = [0] * stages, [0] * stages, [-1] * stages
    for tick in ticks:
        for kind, s, b in tick:
            if kind == "forward":
                last[s] = b
        most = [max(most[s], last[s] - first[s] + 1) for s in range(stages)]
        for kind, s, b in tick:
            if kind == "backward":
                first[s] = b + 1
    return most


# %% 10.w2: the other way round
# clause: Which chunk does a position send
# why:  this counts up, but a position sends on the chunk from the position before it, so the number
#   goes down.
# next: write down the chunks that positions 0 and 1 send in rounds 0 to 2, on a ring of 4.
def chunk_sent(place, k, many):
    return (place + k) % many


# %% 10.w2: not round
# clause: position 0 comes after the last one
# why:  this can return a negative number, but the chunk numbers wrap around.
# next: write down the chunks that positions 0 and 1 send in rounds 0 to 2, on a ring of 4.
def chunk_sent(place, k, many):
    return place - k


# %% 10.w2: always its own
# clause: it sends the chunk that it received in the round before
# why:  a position sends its own chunk only in round 0; later it sends the chunk that it has
#   received.
# next: write down the chunks that positions 0 and 1 send in rounds 0 to 2, on a ring of 4.
def chunk_sent(place, k, many):
    return place


# %% 10.w2: one round late
# clause: In round 0, the IPU at position p of the ring sends its chunk p.
# why:  in round 0 position p should send chunk p, but here the number is off by 1.
# next: write down the chunks that positions 0 and 1 send in rounds 0 to 2, on a ring of 4.
def chunk_sent(place, k, many):
    return (place - k - 1) % many


# %% 10.w2: round once only
# why:  this goes round the ring once only. In a later round the number is still negative, but the
#   chunk numbers wrap around again.
# next: write down the chunks that positions 0 and 1 send in rounds 0 to 2, on a ring of 4.
def chunk_sent(place, k, many):
    return place - k if place >= k else place - k + many


# %% 10.5: everything to one
# why:  all IPUs send everything to IPU 0 and back, so its links carry all the bytes, and the other
#   links are idle.
# next: build a ring: in each round, each IPU sends one chunk to the next IPU of around(R).
def all_reduce(graph, parts, program):
    first, *others = parts
    inbox = [graph.clone(first) for _ in others]
    send(program, others, inbox)
    for box in inbox:
        popops.add_in_place(graph, first, box, program)
    send(program, [first] * len(others), others)


# %% 10.5: everybody to everybody
# clause: No link may carry more than **2 (R - 1) chunks**
# why:  all IPUs send everything to all others, so the busiest link carries more bytes than in a
#   ring.
# next: build a ring: in each round, each IPU sends one chunk to the next IPU of around(R).
def all_reduce(graph, parts, program):
    others = [[b for b in parts if b is not a] for a in parts]
    boxes = [[graph.clone(a) for _ in those] for a, those in zip(parts, others, strict=True)]
    send(program, sum(others, []), sum(boxes, []))
    for turn in zip(*boxes, strict=True):
        popops.add_in_place(graph, concat(parts), concat(turn), program)


# %% 10.5: in the order of their numbers
# why:  the ring goes through IPUs 0, 1, 2, 3, but from 1 to 2 and from 3 to 0 a message needs two
#   links, so one link carries several messages.
# next: use the order of around(R) for the ring.
def all_reduce(graph, parts, program):
    R = len(parts)
    places = range(R)
    part = [chunks(parts[ipu], R) for ipu in places]
    for k in range(R - 1):
        sent = [part[p][(p - k) % R] for p in places]
        mine = [part[(p + 1) % R][(p - k) % R] for p in places]
        inbox = [graph.clone(each) for each in mine]
        send(program, sent, inbox)
        popops.add_in_place(graph, concat(mine), concat(inbox), program)
    for k in range(R - 1):
        sent = [part[p][(p + 1 - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p + 1 - k) % R] for p in places])


# %% 10.5: one round too many
# why:  the first half has one round too many, so one part is added twice to a complete chunk.
# next: use R - 1 rounds in the first half, where R is the number of IPUs.
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R):
        sent = [part[p][(p - k) % R] for p in places]
        mine = [part[(p + 1) % R][(p - k) % R] for p in places]
        inbox = [graph.clone(each) for each in mine]
        send(program, sent, inbox)
        popops.add_in_place(graph, concat(mine), concat(inbox), program)
    for k in range(R - 1):
        sent = [part[p][(p + 1 - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p + 1 - k) % R] for p in places])


# %% 10.5: whole tensors walk
# why:  whole tensors move round the ring instead of chunks, so each link carries R times as many
#   bytes as necessary.
# next: divide each tensor into R chunks, and send one chunk in each round.
def all_reduce(graph, parts, program):
    R = len(parts)
    ring = [parts[ipu] for ipu in around(R)]
    total = [graph.clone(each) for each in ring]
    program.add(Copy(concat(ring), concat(total)))
    for _ in range(R - 1):
        inbox = [graph.clone(each) for each in ring]
        send(program, [ring[p] for p in range(R)], [inbox[(p + 1) % R] for p in range(R)])
        program.add(Copy(concat(inbox), concat(ring)))
        popops.add_in_place(graph, concat(total), concat(ring), program)
    program.add(Copy(concat(total), concat(ring)))


# %% 10.5: place by place
# clause: all IPUs send at the same time
# why:  the Copy of each position is followed by its addition, so every copy is a separate step, in
#   which only one link is busy.
# next: in each round, add one Copy for all positions with send(…), and then the additions.
def all_reduce(graph, parts, program):
    R = len(parts)
    part = [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 1):
        for p in range(R):
            mine = part[(p + 1) % R][(p - k) % R]
            inbox = graph.clone(mine)
            program.add(Copy(part[p][(p - k) % R], inbox))
            popops.add_in_place(graph, mine, inbox, program)
    for k in range(R - 1):
        for p in range(R):
            sent = part[p][(p + 1 - k) % R]
            program.add(Copy(sent, part[(p + 1) % R][(p + 1 - k) % R]))


# %% 10.5: each chunk the other way
# why:  the chunk number goes up with the rounds, so parts are added twice.
# next: let position p send chunk (p - k) % R in round k.
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 1):
        sent = [part[p][(p + k) % R] for p in places]
        mine = [part[(p + 1) % R][(p + k) % R] for p in places]
        inbox = [graph.clone(each) for each in mine]
        send(program, sent, inbox)
        popops.add_in_place(graph, concat(mine), concat(inbox), program)
    for k in range(R - 1):
        sent = [part[p][(p + 1 - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p + 1 - k) % R] for p in places])


# %% 10.5: over its own chunk
# why:  the chunk that arrives overwrites the chunk to which it should be added.
# next: send into a copy, graph.clone(chunk), and add this copy to the chunk.
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 1):
        sent = [part[p][(p - k) % R] for p in places]
        mine = [part[(p + 1) % R][(p - k) % R] for p in places]
        send(program, sent, mine)
        popops.add_in_place(graph, concat(mine), concat(sent), program)
    for k in range(R - 1):
        sent = [part[p][(p + 1 - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p + 1 - k) % R] for p in places])


# %% 10.5: gathers the wrong chunk
# why:  in the second half, position p starts with chunk p, which is not complete.
# next: start the second half with chunk (p + 1) % R, which is complete at position p.
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 1):
        sent = [part[p][(p - k) % R] for p in places]
        mine = [part[(p + 1) % R][(p - k) % R] for p in places]
        inbox = [graph.clone(each) for each in mine]
        send(program, sent, inbox)
        popops.add_in_place(graph, concat(mine), concat(inbox), program)
    for k in range(R - 1):
        sent = [part[p][(p - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p - k) % R] for p in places])


# %% 10.5: the second half is missing
# clause: each part becomes the sum of all parts
# why:  each position has one complete chunk, but the other chunks have only a part of the sum.
# next: add R - 1 rounds that send the complete chunks on.
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 1):
        sent = [part[p][(p - k) % R] for p in places]
        mine = [part[(p + 1) % R][(p - k) % R] for p in places]
        inbox = [graph.clone(each) for each in mine]
        send(program, sent, inbox)
        popops.add_in_place(graph, concat(mine), concat(inbox), program)


# %% 10.5: nothing is added
# clause: afterwards each of `parts` has the sum of all `parts`
# why:  the chunks are sent, but never added, so each position has the numbers of a single IPU.
# next: in each round of the first half, add popops.add_in_place(graph, concat(target),
#   concat(inbox), program).
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 1):
        sent = [part[p][(p - k) % R] for p in places]
        mine = [part[(p + 1) % R][(p - k) % R] for p in places]
        send(program, sent, [graph.clone(each) for each in mine])
    for k in range(R - 1):
        sent = [part[p][(p + 1 - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p + 1 - k) % R] for p in places])


# %% 10.5: the first half is missing
# why:  chunks move round the ring, but no position adds its own numbers to them.
# next: begin with R - 1 rounds in which each position adds the chunk that arrives to its own chunk.
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 1):
        sent = [part[p][(p - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p - k) % R] for p in places])


# %% 10.5: one round too few
# why:  the first half ends one round too early, so each sum lacks one part.
# next: use R - 1 rounds in the first half, where R is the number of IPUs.
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 2):
        sent = [part[p][(p - k) % R] for p in places]
        mine = [part[(p + 1) % R][(p - k) % R] for p in places]
        inbox = [graph.clone(each) for each in mine]
        send(program, sent, inbox)
        popops.add_in_place(graph, concat(mine), concat(inbox), program)
    for k in range(R - 1):
        sent = [part[p][(p + 1 - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p + 1 - k) % R] for p in places])


# %% 10.5: nothing is sent
# why:  the parts are unchanged: no step of the program writes to them.
# next: append copies and additions that write to the parts.
def all_reduce(graph, parts, program):
    ring = [parts[ipu] for ipu in around(len(parts))]
    return [sum(range(len(part))) for part in ring]


# %% 10.5: the second half adds, too
# why:  the second half adds, too. There, complete chunks move on, and each position already has a
#   part of their sum.
# next: in the second half, send the chunks into the target itself, and add nothing.
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(2 * (R - 1)):
        sent = [part[p][(p - k) % R] for p in places]
        goal = [part[(p + 1) % R][(p - k) % R] for p in places]
        inbox = [graph.clone(each) for each in goal]
        send(program, sent, inbox)
        popops.add_in_place(graph, concat(goal), concat(inbox), program)


# %% 10.6: rounded down
# clause: **fewer** cycles
# why:  at this n, the first method is not faster yet.
# next: return the next whole number.
def from_where(one, other):
    return max(0, 1000 * (one[0] - other[0]) // (other[1] - one[1]))


# %% 10.6: rounded down, and below 0
# why:  at this n, the first method is not faster yet; and n may not be negative.
# next: return the next whole number, and at least 0.
def from_where(one, other):
    return 1000 * (one[0] - other[0]) // (other[1] - one[1])


# %% 10.6: rounded up, and 1 added
# why:  if both methods cost the same between two whole numbers, this returns one number too many.
# next: round down before you add 1.
def from_where(one, other):
    return max(0, 1 - 1000 * (other[0] - one[0]) // (other[1] - one[1]))


# %% 10.6: rounded up
# why:  if both methods cost the same at a whole number, this returns that number, but the first
#   method is not faster there.
# next: round down, and add 1.
def from_where(one, other):
    return max(0, -(1000 * (other[0] - one[0]) // (other[1] - one[1])))


# %% 10.6: in thousands
# clause: Return the smallest n
# why:  this is n in thousands of numbers.
# next: multiply by 1,000: the second value of a pair is the cost of 1,000 numbers.
def from_where(one, other):
    return max(0, (one[0] - other[0]) // (other[1] - one[1]) + 1)


# %% 10.6: in thousands, and below 0
# why:  this is n in thousands of numbers, and it can be negative.
# next: multiply by 1,000, since the second value of a pair is the cost of 1,000 numbers, and return
#   at least 0.
def from_where(one, other):
    return (one[0] - other[0]) // (other[1] - one[1]) + 1


# %% 10.6: below 0
# clause: from 0 on
# why:  if the first method is always faster, this is negative, but n is at least 0.
# next: return max(0, …).
def from_where(one, other):
    return 1000 * (one[0] - other[0]) // (other[1] - one[1]) + 1


# %% 10.6: the fixed part alone
# why:  this uses only the fixed cost of the first method, but the second method also has one.
# next: use the difference one[0] - other[0].
def from_where(one, other):
    return 1000 * one[0] // (other[1] - one[1]) + 1


# %% 10.6: what the second costs
# clause: The first method costs less per number.
# why:  this divides by the second method's cost per 1,000 numbers, but the first method saves only
#   the difference.
# next: divide by other[1] - one[1].
def from_where(one, other):
    return max(0, 1000 * (one[0] - other[0]) // other[1] + 1)


# %% 10.6: not whole
# why:  this is not a whole number, but n must be one.
# next: round down, and add 1.
def from_where(one, other):
    return max(0, 1000 * (one[0] - other[0]) / (other[1] - one[1]))


# %% 10.7: each for itself
# clause: must stay equal in every bit
# why:  no replica communicates, so each one learns only from its own samples.
# next: add up the gradients of all replicas with an all-reduce before w changes.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: each for itself, with its own mean
# why:  no replica communicates, so each one learns from the mean of only its own samples.
# next: add up the gradients of all replicas with an all-reduce, and divide by the samples of all
#   replicas.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    popops.scaled_add_to(graph, w, slope, -rate / x.shape[0], program)


# %% 10.7: always four replicas
# clause: so that R replicas with b samples each learn
# why:  the number of replicas is the constant 4 here, but it can differ.
# next: use graph.get_replication_factor() instead of 4.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    popops.scaled_add_to(graph, w, slope, -rate / (4 * x.shape[0]), program)


# %% 10.7: the mean twice
# why:  this takes the mean over the replicas and divides by all samples, so the step is too small.
# next: use the sum over the replicas with this division, or divide the mean by x.shape[0].
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "MEAN", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: its own samples alone
# clause: over all samples of all replicas
# why:  the sum of all gradients is divided by the samples of one replica, so the step is too large.
# next: divide by the number of samples of all replicas together.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: the mean of the slopes alone
# why:  this is the mean of the replicas' gradients, but each of them is still a sum over samples.
# next: divide by x.shape[0], too.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "MEAN", program)
    popops.scaled_add_to(graph, w, slope, -rate, program)


# %% 10.7: divided by the features
# why:  this divides by x.shape[1], the number of features, but the samples are the rows of x.
# next: use x.shape[0], the number of samples.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[1]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: after the step
# why:  the gradients are added up after w has changed, which is too late for this step.
# next: put the all-reduce before the update of w.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)


# %% 10.7: the error in place of the slope
# clause: the gradient is `x.T @ error`
# why:  this adds up the errors of all replicas, but each error belongs to other samples.
# next: add up the gradients instead: x.transpose() times the error.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    gcl.all_reduce_in_place_cross_replica(graph, error, "ADD", program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: uphill
# clause: Subtract from `w`
# why:  this adds the gradient to w instead of subtracting it.
# next: scale the gradient by -rate / samples.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, rate / samples, program)


# %% 10.7: never divided
# clause: rate times the mean gradient
# why:  this uses the sum of the gradients, but the exercise asks for the mean over all samples.
# next: divide by the number of samples of all replicas together.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate, program)


# %% 10.7: the weights are added up
# why:  this adds up the weights of all replicas, so they are R times as large, where R is the
#   number of replicas.
# next: add up the gradients instead of the weights.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)
    gcl.all_reduce_in_place_cross_replica(graph, w, "ADD", program)


# %% 10.7: the mean over samples and outputs
# clause: rate times the mean gradient
# why:  the gradient is divided by samples times outputs, but it should be divided by the samples
#   only.
# next: divide by the number of samples of all replicas together.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    count = graph.get_replication_factor() * error.num_elements
    popops.scaled_add_to(graph, w, slope, -rate / count, program)


# %% 10.8: turned round
# clause: a group for each **copy** of the model
# why:  the two lists are in the wrong order.
# next: return the list with a group for each copy first.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    columns = [[c * parts + p for c in range(copies)] for p in range(parts)]
    return columns, lines


# %% 10.8: parts first
# why:  this is right for another numbering, in which all copies of part 0 have the first numbers.
# next: give replica c * parts + p the part p of copy c.
def groups(copies, parts):
    lines = [[p * copies + c for p in range(parts)] for c in range(copies)]
    columns = [[p * copies + c for c in range(copies)] for p in range(parts)]
    return lines, columns


# %% 10.8: one kind twice
# clause: a group for each **part**
# why:  both lists have the groups of the copies.
# next: put replicas whose numbers differ by a multiple of `parts` into the group of a part.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    return lines, lines


# %% 10.8: all together
# why:  the second list has one group of all replicas, but each part needs its own group.
# next: make a group for each part: replicas whose numbers differ by a multiple of `parts`.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    return lines, [list(range(copies * parts))]


# %% 10.8: as many as copies
# why:  the group of a copy has `copies` replicas here, but it should have `parts` replicas.
# next: put `parts` replicas into the group of each copy.
def groups(copies, parts):
    lines = [[p * copies + c for c in range(copies)] for p in range(parts)]
    columns = [[p * copies + c for p in range(parts)] for c in range(copies)]
    return lines, columns


# %% 10.8: neighbours of one part
# why:  this puts neighbours into a group of one part, but neighbours have different parts of one
#   copy.
# next: put replicas whose numbers differ by a multiple of `parts` into one group of a part.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    columns = [[p * copies + c for c in range(copies)] for p in range(parts)]
    return lines, columns


# %% 10.8: modulo the copies
# why:  this groups replicas by the remainder r % copies, but replicas of one part have equal r %
#   parts.
# next: give replica r the part r % parts of the copy r // parts.
def groups(copies, parts):
    every = range(copies * parts)
    lines = [[r for r in every if r // parts == c] for c in range(copies)]
    return lines, [[r for r in every if r % copies == p] for p in range(parts)]


# %% 10.8: only one kind
# clause: two lists
# not yet: two lists of lists
def groups(copies, parts):
    return [0, 1]
