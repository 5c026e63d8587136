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
# why:  there is one tick at the end in which no stage is busy.
# next: end with tick batches + stages - 2, in which the last stage has the last micro-batch.
def table(stages, batches):
    ticks = range(batches + stages)
    return [[t - s if 0 <= t - s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.1: no way down
# why:  the table ends when the last micro-batch enters, but it still has to go through the other
#   stages.
# next: add stages - 1 ticks: the staircase down.
def table(stages, batches):
    return [[t - s if 0 <= t - s < batches else -1 for s in range(stages)] for t in range(batches)]


# %% 10.1: two ticks for a step down
# why:  a micro-batch waits for one tick at each stage.
# next: put the micro-batch of stage s in a tick into stage s + 1 in the next tick.
def table(stages, batches):
    ticks = range(batches + 2 * (stages - 1))
    return [[t - 2 * s if 0 <= t - 2 * s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.1: all at once
# why:  all stages have the same micro-batch in a tick. It reaches one stage after the other.
# next: let stage s have it s ticks after stage 0.
def table(stages, batches):
    return [[t] * stages for t in range(batches)]


# %% 10.1: one by one
# why:  only one stage is busy in a tick: this is sharding without a pipeline.
# next: let stage 0 take micro-batch 1 while stage 1 has micro-batch 0.
def table(stages, batches):
    rows = []
    for b in range(batches):
        rows += [[b if s == at else -1 for s in range(stages)] for at in range(stages)]
    return rows


# %% 10.1: the last stage first
# why:  the micro-batches enter at the last stage. The data enter at stage 0.
# next: delay stage s by s ticks, not by stages - 1 - s.
def table(stages, batches):
    late = [stages - 1 - s for s in range(stages)]
    ticks = range(batches + stages - 1)
    return [[t - d if 0 <= t - d < batches else -1 for d in late] for t in ticks]


# %% 10.1: beyond the last
# why:  at the end, micro-batches enter that do not exist.
# next: write -1 if t - s is batches or more.
def table(stages, batches):
    return [[max(-1, t - s) for s in range(stages)] for t in range(batches + stages - 1)]


# %% 10.1: a row for each stage
# clause: a row for each tick
# why:  this has a row for each stage. The exercise asks for a row for each tick.
# next: transpose it: rows are ticks, columns are stages.
def table(stages, batches):
    ticks = range(batches + stages - 1)
    return [[t - s if 0 <= t - s < batches else -1 for t in ticks] for s in range(stages)]


# %% 10.1: counted from 1
# clause: Ticks, stages and micro-batches are counted from 0.
# why:  micro-batches are counted from 1 here.
# next: call the first one micro-batch 0.
def table(stages, batches):
    ticks = range(batches + stages - 1)
    return [[t - s + 1 if 0 <= t - s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.1: nothing is cut off
# clause: or **-1** if it has none
# why:  the table has numbers of micro-batches that do not exist: below 0, and beyond the last one.
# next: write t - s only if it is from 0 to batches - 1, and -1 otherwise.
def table(stages, batches):
    return [[t - s for s in range(stages)] for t in range(batches + stages - 1)]


# %% 10.1: stages and micro-batches
# clause: Return the micro-batch of each stage in each tick
# why:  stages and micro-batches are swapped: a row has a number for each micro-batch.
# next: give a row as many numbers as there are stages, the first argument.
def table(stages, batches):
    ticks = range(batches + stages - 1)
    return [[t - b if 0 <= t - b < stages else -1 for b in range(batches)] for t in ticks]


# %% 10.1: as many ticks as steps of work
# why:  this has batches * stages ticks, as if only one stage worked at a time.
# next: let the stages work at the same time: there are batches + stages - 1 ticks.
def table(stages, batches):
    ticks = range(batches * stages)
    return [[t - s if 0 <= t - s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.2: equal numbers of layers
# clause: the **slowest stage** is as fast as possible
# why:  all IPUs have the same number of layers, but not the same amount of work.
# next: compare the sums of costs.
def cut(costs, ipus):
    return [len(costs) * i // ipus for i in range(ipus)]


# %% 10.2: the rest to the last
# why:  each IPU has len(costs) // ipus layers, and the last IPU also has the remainder.
# next: compare the sums of costs, not the numbers of layers.
def cut(costs, ipus):
    return [i * (len(costs) // ipus) for i in range(ipus)]


# %% 10.2: as soon as there is enough
# why:  this fills each IPU up to its share of the total, and the last IPU gets the rest.
# next: try all choices, and return the best.
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
# why:  this begins a stage at each of the most expensive layers, whatever is between them.
# next: minimise the most expensive stage, not the most expensive layer.
def cut(costs, ipus):
    rest = sorted(range(1, len(costs)), key=lambda layer: -costs[layer])
    return sorted([0, *rest[: ipus - 1]])


# %% 10.2: the least difference
# why:  this minimises the difference between the slowest and the fastest stage. Only the slowest
#   stage sets the pace.
# next: return the choice whose largest sum is smallest.
def cut(costs, ipus):
    def spread(begins):
        sums = [sum(costs[a:b]) for a, b in zip(begins, [*begins[1:], len(costs)], strict=True)]
        return max(sums) - min(sums)

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=spread)


# %% 10.2: the sum of squares
# why:  this minimises the sum of the squares. Then two stages may be slow so that a third is fast;
#   only the slowest stage sets the pace.
# next: return the choice whose largest sum is smallest.
def cut(costs, ipus):
    def squares(begins):
        ends = [*begins[1:], len(costs)]
        return sum(sum(costs[a:b]) ** 2 for a, b in zip(begins, ends, strict=True))

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=squares)


# %% 10.2: the last stage is forgotten
# why:  the sum of the last stage is left out, so that stage gets too many layers.
# next: let the last stage end at len(costs).
def cut(costs, ipus):
    def slowest(begins):
        return max([sum(costs[a:b]) for a, b in zip(begins, begins[1:], strict=False)], default=0)

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=slowest)


# %% 10.2: without the first
# clause: the first IPU begins with layer 0
# not yet: [2, 6, 10] expected: 4 layers, from 0 upwards
def cut(costs, ipus):
    def slowest(begins):
        return max(sum(costs[a:b]) for a, b in zip(begins, [*begins[1:], len(costs)], strict=True))

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=slowest)[1:]


# %% 10.2: how many layers each
# clause: Return the first layer of each IPU
# not yet: [3, 3, 3, 3] expected: 4 layers
def cut(costs, ipus):
    return [len(costs) // ipus] * ipus


# %% 10.w1: the slowest of all in each tick
# clause: the slowest **of those** is done
# why:  each tick takes as long as the slowest of all stages, even if that stage is idle. At the
#   start and at the end, other stages are the slowest busy ones.
# next: for each tick, take the largest cost of the busy stages: those with table(...)[t][s] >= 0.
def pipeline_cycles(costs, batches):
    return (batches + len(costs) - 1) * max(costs)


# %% 10.w1: one tick too many
# why:  this counts one tick too many: there are batches + stages - 1.
# next: check it with one micro-batch: there are as many ticks as stages.
def pipeline_cycles(costs, batches):
    return (batches + len(costs)) * max(costs)


# %% 10.w1: without the way up
# clause: from the first tick to the last
# why:  this ends when the last micro-batch enters. It still has to go through the other stages.
# next: add the ticks in which the last micro-batch goes through the other stages.
def pipeline_cycles(costs, batches):
    return batches * max(costs)


# %% 10.w1: each its own time
# why:  each tick takes only the time of one stage here. The tick ends when the slowest busy stage
#   is done.
# next: take the largest cost of the busy stages in each tick.
def pipeline_cycles(costs, batches):
    return sum(costs) + (batches - 1) * (sum(costs) // len(costs))


# %% 10.w1: one after the other
# clause: How long do `batches` micro-batches take
# why:  this is sharding: each micro-batch waits until the one before has left the last stage.
# next: count the ticks of the pipeline.
def pipeline_cycles(costs, batches):
    return batches * sum(costs)


# %% 10.w1: as soon as its own is there
# clause: all busy stages start together
# why:  a stage starts here as soon as its micro-batch arrives. But all micro-batches move at the
#   end of a tick: at the start, a fast stage behind a slow one waits for the slow one.
# next: go through the ticks, and take the slowest busy stage of each.
def pipeline_cycles(costs, batches):
    return sum(costs) + (batches - 1) * max(costs)


# %% 10.3: one after the other
# why:  a copy comes between the work of two IPUs, and makes both of them wait. So one IPU works
#   while the others wait: this is sharding.
# next: go through the ticks of table(…), and in each tick add all busy stages before any copy.
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
# next: leave out the Sync: the copies synchronise enough.
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
# why:  each stage is followed by its copy, which makes both IPUs wait. So the stages of a tick run
#   one after another.
# next: in a tick, add all busy stages first, and then all copies: these share a step.
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
# why:  the output of a stage is copied at once, over data that the next stage has not read yet.
# next: in a tick, add all stages first, and then all copies.
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
# why:  the results are copied after the last tick. By then the last stage has overwritten its
#   output, so all results are the last one.
# next: copy out[-1] to results[b] at the end of the tick in which the last stage has micro-batch b.
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
# why:  with fewer micro-batches than stages, no tick has all stages busy: the first stages finish
#   before the last ones start. Here some stages work without a micro-batch, or not at all.
# next: let stage s work in tick t if 0 <= t - s < len(samples); that is right for every tick.
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
# why:  the program ends when the last sample has entered, so the last results are never computed.
# next: add stages - 1 more ticks, as table(…) does.
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
# why:  the result of a tick is stored under the number of another micro-batch, so the results are
#   shifted.
# next: use row[-1], the micro-batch of the last stage.
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
# next: use row[0], the number of the sample that enters.
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
# why:  the next sample is copied in after the copies of the tick, so the first stage works on the
#   previous one.
# next: copy the sample in at the start of the tick.
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
# why:  no Copy writes to `results`: the next micro-batch overwrites the output of the last stage.
# next: copy out[-1] to the results of the micro-batch that the last stage has in the tick.
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
# next: add Copy(samples[b], into[0]) at the start of a tick, with b = row[0] if that is not -1.
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
# why:  in the first ticks the later stages work, too, on data that no stage has sent.
# next: add only the stages that have a micro-batch in the tick: those where row[s] is not -1.
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
# why:  this is the number of all micro-batches. It is right only if all forwards come before any
#   backward.
# next: subtract one for each backward.
def stored(ticks, stages):
    kinds = [(kind, s) for tick in ticks for kind, s, _ in tick]
    return [kinds.count(("forward", s)) for s in range(stages)]


# %% 10.4: what is held at the end
# clause: What is the largest number of micro-batches
# why:  this is the count at the end, when nothing is held any more. The exercise asks for the
#   maximum.
# next: keep the largest count of all ticks.
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
# why:  this looks at the count after the tick, when the micro-batch that went backward is already
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
# why:  this counts the work of a tick item by item, in the order of the list. All work of a tick
#   happens at the same time, so the tick holds its backward micro-batch as well as its forward one.
# next: add all forwards of a tick, update the maximum, and then subtract its backwards.
def stored(ticks, stages):
    now, most = [0] * stages, [0] * stages
    for tick in ticks:
        for kind, s, _ in tick:
            now[s] += 1 if kind == "forward" else -1
            most[s] = max(most[s], now[s])
    return most


# %% 10.4: the longest time
# why:  this is the number of ticks for which a micro-batch is held. The exercise asks how many are
#   held at once.
# next: count what a stage holds in each tick, and keep the largest count.
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
# why:  this leaves out the micro-batch that the stage works on. The stage holds that one, too.
# next: count one more.
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
# why:  a backward removes all micro-batches of its stage here. It removes one.
# next: subtract one for each backward.
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
# why:  this counts what all stages hold together, and returns that for each stage.
# next: keep a count for each stage: now[s].
def stored(ticks, stages):
    now = most = 0
    for tick in ticks:
        now += sum(kind == "forward" for kind, _, _ in tick)
        most = max(most, now)
        now -= sum(kind == "backward" for kind, _, _ in tick)
    return [most] * stages


# %% 10.4: the rule of grouped schedules
# clause: The function must work for any schedule
# why:  this is right only for a grouped schedule.
# next: count from the ticks.
def stored(ticks, stages):
    return [2 * (stages - 1 - s) + 1 for s in range(stages)]


# %% 10.4: the rule of interleaved schedules
# why:  this is right only for an interleaved schedule.
# next: count from the ticks.
def stored(ticks, stages):
    return [stages - s for s in range(stages)]


# %% 10.4: never let go
# why:  a backward removes a micro-batch, but here it is still counted.
# next: subtract one for each backward.
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
# why:  a position receives from the position before it, so the chunk number goes down.
# next: compute place - k, modulo many.
def chunk_sent(place, k, many):
    return (place + k) % many


# %% 10.w2: not round
# clause: position 0 comes after the last one
# why:  this returns negative numbers: the chunk numbers wrap around.
# next: take the remainder of a division by many.
def chunk_sent(place, k, many):
    return place - k


# %% 10.w2: always its own
# clause: it sends the chunk that it received in the round before
# why:  a position sends its own chunk only in round 0. Later it sends the chunk that it received.
# next: count down: in round 1, position p sends chunk p - 1.
def chunk_sent(place, k, many):
    return place


# %% 10.w2: one round late
# clause: In round 0, the IPU at position p of the ring sends its chunk p.
# why:  in round 0 position p sends its chunk p.
# next: leave out the 1.
def chunk_sent(place, k, many):
    return (place - k - 1) % many


# %% 10.w2: round once only
# why:  this goes round the ring once only. In a later round the number is still negative, but the
#   chunk numbers wrap around again.
# next: compute place - k, modulo many.
def chunk_sent(place, k, many):
    return place - k if place >= k else place - k + many


# %% 10.5: everything to one
# why:  all IPUs send everything to IPU 0, which sends everything back: its links carry all the
#   data, and the others are idle.
# next: build a ring: each IPU sends a chunk to the next one.
def all_reduce(graph, parts, program):
    first, *others = parts
    inbox = [graph.clone(first) for _ in others]
    send(program, others, inbox)
    for box in inbox:
        popops.add_in_place(graph, first, box, program)
    send(program, [first] * len(others), others)


# %% 10.5: everybody to everybody
# clause: No link may carry more than **2 (R - 1) chunks**
# why:  all IPUs send everything to all others: few rounds, but more on the busiest link than in a
#   ring.
# next: build a ring: each IPU sends a chunk to the next one in each round.
def all_reduce(graph, parts, program):
    others = [[b for b in parts if b is not a] for a in parts]
    boxes = [[graph.clone(a) for _ in those] for a, those in zip(parts, others, strict=True)]
    send(program, sum(others, []), sum(boxes, []))
    for turn in zip(*boxes, strict=True):
        popops.add_in_place(graph, concat(parts), concat(turn), program)


# %% 10.5: in the order of their numbers
# why:  the ring goes through IPUs 0, 1, 2, 3. From 1 to 2 and from 3 to 0 a message uses two links,
#   so the busiest link carries more than one message in a round.
# next: use the order of around(R).
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
# why:  the first half has one round too many: a complete chunk gets one part a second time.
# next: use R - 1 rounds for R positions.
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
# why:  whole tensors move round the ring instead of chunks: each link carries R times as much as
#   necessary.
# next: divide the tensors into chunks, and send one chunk in each round.
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
# why:  the Copy of each position is followed by its addition, so every copy is a step of its own:
#   one link is busy, and the others are idle.
# next: in a round, add one Copy for all positions with send(…), then the additions.
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
# why:  the chunk number goes up with the rounds, so a position does not send on what it has just
#   added, and parts are added twice.
# next: let position p send chunk p - k in round k.
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
# next: send into graph.clone(chunk), and add that to the chunk.
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
# why:  in the second half each position starts with the chunk of its own number, which is not
#   complete.
# next: start with chunk p + 1, which is complete at position p after R - 1 rounds.
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
# why:  each position has one complete chunk, and only a part of the sum in the others.
# next: add R - 1 rounds in which the complete chunks move on.
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
# why:  chunks are sent, but never added: each position has the numbers of a single IPU.
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
# why:  chunks move round the ring, but no position adds its own numbers.
# next: begin with R - 1 rounds in which each position adds the chunk that arrives to its own.
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 1):
        sent = [part[p][(p - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p - k) % R] for p in places])


# %% 10.5: one round too few
# why:  the first half ends one round too early, so each sum lacks one part.
# next: use R - 1 rounds for R positions.
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
# why:  the parts are unchanged: the program has no step.
# next: append copies and additions to `program`.
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
# why:  at that n the first method is not faster yet.
# next: return the next whole number.
def from_where(one, other):
    more, less = one[0] - other[0], other[1] - one[1]
    return max(0, 1000 * more // less)


# %% 10.6: rounded up
# why:  if both cost the same at a whole number, the first method is not faster there yet.
# next: return the smallest whole number above it.
def from_where(one, other):
    more, less = one[0] - other[0], other[1] - one[1]
    return max(0, -(-1000 * more // less))


# %% 10.6: in thousands
# clause: Return the smallest n
# why:  this counts thousands of numbers.
# next: multiply by 1,000: the second figure of a pair is for 1,000 numbers.
def from_where(one, other):
    more, less = one[0] - other[0], other[1] - one[1]
    return max(0, more // less + 1)


# %% 10.6: below 0
# clause: from 0 on
# why:  if the first method is always faster, this n is negative. The smallest n is 0.
# next: return the larger of that and 0.
def from_where(one, other):
    more, less = one[0] - other[0], other[1] - one[1]
    return 1000 * more // less + 1


# %% 10.6: the fixed part alone
# why:  this uses only the fixed part of the first method; the second has a fixed part, too.
# next: subtract the fixed part of the second.
def from_where(one, other):
    return 1000 * one[0] // (other[1] - one[1]) + 1


# %% 10.6: what the second costs
# clause: The first method costs less per number.
# why:  this divides by the second method's cost per number. The first wins back only the difference
#   of the two.
# next: divide by other[1] - one[1].
def from_where(one, other):
    return max(0, 1000 * (one[0] - other[0]) // other[1] + 1)


# %% 10.6: not whole
# why:  n is a whole number: the first one above the point where both cost the same.
# next: round down, and add 1.
def from_where(one, other):
    more, less = one[0] - other[0], other[1] - one[1]
    return max(0, 1000 * more / less)


# %% 10.7: each for itself
# clause: must stay equal in every bit
# why:  no replica communicates: each learns only from its own samples, so the weights become
#   different.
# next: add up the gradients of all replicas before w changes.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: each for itself, with its own mean
# why:  no replica communicates: each learns from the mean of its own samples, so the weights become
#   different.
# next: add up the gradients of all replicas, and divide by the samples of all.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    popops.scaled_add_to(graph, w, slope, -rate / x.shape[0], program)


# %% 10.7: always four replicas
# clause: so that R replicas with b samples each learn
# why:  the number of replicas is the constant 4 here.
# next: use graph.get_replication_factor().
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    popops.scaled_add_to(graph, w, slope, -rate / (4 * x.shape[0]), program)


# %% 10.7: the mean twice
# why:  this takes the mean over the replicas, and then divides by all samples: the step is too
#   small.
# next: add up and divide by all samples, or take the mean and divide by x.shape[0].
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "MEAN", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: its own samples alone
# clause: over all samples of all replicas
# why:  the sum of all gradients is divided by the samples of one replica: the step is too large.
# next: divide by the samples of all replicas.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: the mean of the slopes alone
# why:  this is the mean of the replicas' gradients, and each of them is a sum over its samples.
# next: divide by x.shape[0], too.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "MEAN", program)
    popops.scaled_add_to(graph, w, slope, -rate, program)


# %% 10.7: divided by the features
# why:  x.shape[1] is the number of features of a sample. The samples are the rows of x.
# next: use x.shape[0].
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[1]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: after the step
# why:  the gradients are added up after w has changed: too late for this step.
# next: put the all-reduce before the step.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)


# %% 10.7: the error in place of the slope
# clause: the gradient is `x.T @ error`
# why:  this adds up the errors of all replicas, but each error belongs to another sample.
# next: add up the gradients: they belong to w.
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
# next: scale by a negative number: -rate / samples.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, rate / samples, program)


# %% 10.7: never divided
# clause: rate times the mean gradient
# why:  this uses the sum of the gradients. The exercise asks for the mean over all samples.
# next: divide by the samples of all replicas.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate, program)


# %% 10.7: the weights are added up
# why:  this adds up the weights of all replicas, so each is R times as large.
# next: add up the gradients, or take the mean of the weights.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)
    gcl.all_reduce_in_place_cross_replica(graph, w, "ADD", program)


# %% 10.7: the mean over samples and outputs
# clause: rate times the mean gradient
# why:  the gradient is divided by the number of elements of the error: samples times outputs.
# next: divide by the samples of all replicas alone.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    count = graph.get_replication_factor() * error.num_elements
    popops.scaled_add_to(graph, w, slope, -rate / count, program)


# %% 10.8: turned round
# clause: the groups of one **copy**
# why:  the two kinds are in the wrong order.
# next: return the groups of one copy first.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    columns = [[c * parts + p for c in range(copies)] for p in range(parts)]
    return columns, lines


# %% 10.8: parts first
# why:  this is right for another numbering, in which part 0 of all copies comes first.
# next: let replica c * parts + p have part p of copy c.
def groups(copies, parts):
    lines = [[p * copies + c for p in range(parts)] for c in range(copies)]
    columns = [[p * copies + c for c in range(copies)] for p in range(parts)]
    return lines, columns


# %% 10.8: one kind twice
# clause: the groups of one **part** each
# why:  both lists are the groups of one copy.
# next: put replicas whose numbers differ by `parts` into one group of a part.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    return lines, lines


# %% 10.8: all together
# why:  all replicas are one group of one part here, but each part has its own gradients.
# next: make a group for each part.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    return lines, [list(range(copies * parts))]


# %% 10.8: as many as copies
# why:  the groups of one copy have as many replicas here as there are copies.
# next: put `parts` replicas into each group of one copy.
def groups(copies, parts):
    lines = [[p * copies + c for c in range(copies)] for p in range(parts)]
    columns = [[p * copies + c for p in range(parts)] for c in range(copies)]
    return lines, columns


# %% 10.8: neighbours of one part
# why:  neighbours hold different parts of one copy, not the same part.
# next: put replicas whose numbers differ by `parts` into one group of a part.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    columns = [[p * copies + c for c in range(copies)] for p in range(parts)]
    return lines, columns


# %% 10.8: modulo the copies
# why:  replicas of one part have the same remainder by `parts`; this takes the remainder by
#   `copies`.
# next: use part r % parts of copy r // parts for replica r.
def groups(copies, parts):
    every = range(copies * parts)
    lines = [[r for r in every if r // parts == c] for c in range(copies)]
    return lines, [[r for r in every if r % copies == p] for p in range(parts)]


# %% 10.8: only one kind
# clause: two lists
# not yet: two lists of lists
def groups(copies, parts):
    return [0, 1]
