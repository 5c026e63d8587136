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
# clause: from the first to the last at which anybody is at work
# why:  there is a tick at the end in which nobody has anything.
# next: the last stage is through with the last micro-batch in tick batches + stages - 2.
def table(stages, batches):
    ticks = range(batches + stages)
    return [[t - s if 0 <= t - s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.1: no way down
# why:  it ends when the last micro-batch has come in, and the others still have to get out.
# next: stages - 1 ticks more: the staircase down.
def table(stages, batches):
    return [[t - s if 0 <= t - s < batches else -1 for s in range(stages)] for t in range(batches)]


# %% 10.1: two ticks for a step down
# why:  a micro-batch waits for a tick at each stage.
# next: what is in stage s in a tick is in stage s + 1 in the next one.
def table(stages, batches):
    ticks = range(batches + 2 * (stages - 1))
    return [[t - 2 * s if 0 <= t - 2 * s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.1: all at once
# why:  all stages have the same micro-batch in a tick. It comes to one after the other.
# next: stage s has it s ticks after the first one.
def table(stages, batches):
    return [[t] * stages for t in range(batches)]


# %% 10.1: one by one
# why:  only one stage is at work in a tick: this is sharding, without a pipeline.
# next: while stage 1 has micro-batch 0, stage 0 takes the next one.
def table(stages, batches):
    rows = []
    for b in range(batches):
        rows += [[b if s == at else -1 for s in range(stages)] for at in range(stages)]
    return rows


# %% 10.1: the last stage first
# why:  it goes up from the last stage. The data come in at the first.
# next: stage s begins s ticks late, and not stages - 1 - s.
def table(stages, batches):
    late = [stages - 1 - s for s in range(stages)]
    ticks = range(batches + stages - 1)
    return [[t - d if 0 <= t - d < batches else -1 for d in late] for t in ticks]


# %% 10.1: beyond the last
# why:  a micro-batch that is not there comes in while the last ones go out.
# next: where t - s is batches or more, it is -1.
def table(stages, batches):
    return [[max(-1, t - s) for s in range(stages)] for t in range(batches + stages - 1)]


# %% 10.1: a row for each stage
# clause: a row for each tick
# why:  this has a row for each stage, and asked is a row for each tick.
# next: turn it round: rows are ticks, columns are stages.
def table(stages, batches):
    ticks = range(batches + stages - 1)
    return [[t - s if 0 <= t - s < batches else -1 for t in ticks] for s in range(stages)]


# %% 10.1: counted from 1
# clause: All are counted from 0.
# why:  micro-batches are counted from 1 here.
# next: the first one is micro-batch 0.
def table(stages, batches):
    ticks = range(batches + stages - 1)
    return [[t - s + 1 if 0 <= t - s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.1: nothing is cut off
# clause: or **-1** for none
# why:  there are numbers in it of micro-batches that do not exist, below 0 and beyond the last one.
# next: t - s is a micro-batch only from 0 to batches - 1; else write -1.
def table(stages, batches):
    return [[t - s for s in range(stages)] for t in range(batches + stages - 1)]


# %% 10.1: stages and micro-batches
# clause: By tick and stage
# why:  stages and micro-batches have changed places: rows have a number for each micro-batch.
# next: a row has as many numbers as there are stages, the first argument.
def table(stages, batches):
    ticks = range(batches + stages - 1)
    return [[t - b if 0 <= t - b < stages else -1 for b in range(batches)] for t in ticks]


# %% 10.1: as many ticks as steps of work
# why:  this has a tick for each step of work, batches * stages of them, as if one stage worked at a
#   time.
# next: stages work beside each other: count the ticks in your drawing.
def table(stages, batches):
    ticks = range(batches * stages)
    return [[t - s if 0 <= t - s < batches else -1 for s in range(stages)] for t in ticks]


# %% 10.2: equal numbers of layers
# clause: the **slowest stage** is as quick as it can be
# why:  all IPUs have equally many layers, and not equally much to do.
# next: it is the sum of costs that counts.
def cut(costs, ipus):
    return [len(costs) * i // ipus for i in range(ipus)]


# %% 10.2: the rest to the last
# why:  each IPU has len(costs) // ipus layers, and the last one has the rest besides.
# next: it is the sum of costs that counts, and not the number of layers.
def cut(costs, ipus):
    return [i * (len(costs) // ipus) for i in range(ipus)]


# %% 10.2: as soon as there is enough
# why:  this goes on until an IPU has its share of the whole, and what is left over is the last
#   one's.
# next: try all ways to cut, and keep the best.
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
# why:  this cuts before the dearest layers, whatever stands between them.
# next: what counts is the dearest stage, not the dearest layer.
def cut(costs, ipus):
    rest = sorted(range(1, len(costs)), key=lambda layer: -costs[layer])
    return sorted([0, *rest[: ipus - 1]])


# %% 10.2: the least difference
# why:  this makes the difference between the slowest and the quickest stage small. The pace is set
#   by the slowest alone.
# next: take the way whose largest sum is the smallest.
def cut(costs, ipus):
    def spread(begins):
        sums = [sum(costs[a:b]) for a, b in zip(begins, [*begins[1:], len(costs)], strict=True)]
        return max(sums) - min(sums)

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=spread)


# %% 10.2: the sum of squares
# why:  this makes the sum of the squares small. Two stages may then be long, so that a third is
#   short; the pace is set by the slowest alone.
# next: take the way whose largest sum is the smallest.
def cut(costs, ipus):
    def squares(begins):
        ends = [*begins[1:], len(costs)]
        return sum(sum(costs[a:b]) ** 2 for a, b in zip(begins, ends, strict=True))

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=squares)


# %% 10.2: the last stage is forgotten
# why:  the sum of the last stage is left out, so that it gets too much.
# next: the last stage ends at len(costs).
def cut(costs, ipus):
    def slowest(begins):
        return max([sum(costs[a:b]) for a, b in zip(begins, begins[1:], strict=False)], default=0)

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=slowest)


# %% 10.2: without the first
# clause: the first begins with layer 0
# not yet: [2, 6, 10] expected: 4 layers, from 0 upwards
def cut(costs, ipus):
    def slowest(begins):
        return max(sum(costs[a:b]) for a, b in zip(begins, [*begins[1:], len(costs)], strict=True))

    ways = combinations(range(1, len(costs)), ipus - 1)
    return min(([0, *way] for way in ways), key=slowest)[1:]


# %% 10.2: how many layers each
# clause: The layer with which each IPU begins
# not yet: [3, 3, 3, 3] expected: 4 layers
def cut(costs, ipus):
    return [len(costs) // ipus] * ipus


# %% 10.w1: the slowest of all in each tick
# clause: the slowest **of those** is done
# why:  each tick takes as long as the slowest stage of all, also when that stage has nothing to do.
#   On the way up and on the way down, other stages are the slowest.
# next: for each tick, take the largest of the stages at work: those with table(...)[t][s] >= 0.
def pipeline_cycles(costs, batches):
    return (batches + len(costs) - 1) * max(costs)


# %% 10.w1: one tick too many
# why:  there are batches + stages - 1 ticks, and here is one more.
# next: with one micro-batch there are as many ticks as stages.
def pipeline_cycles(costs, batches):
    return (batches + len(costs)) * max(costs)


# %% 10.w1: without the way up
# clause: from the first tick to the last
# why:  the last micro-batch comes in in tick batches - 1, and has to go through all stages still.
# next: add the ticks in which it goes through the further stages.
def pipeline_cycles(costs, batches):
    return batches * max(costs)


# %% 10.w1: each its own time
# why:  this takes each tick as long as its own stage. All wait for the slowest at work.
# next: a tick lasts as long as the slowest stage at work in it.
def pipeline_cycles(costs, batches):
    return sum(costs) + (batches - 1) * (sum(costs) // len(costs))


# %% 10.w1: one after the other
# clause: How long do `batches` micro-batches take
# why:  this is sharding: each micro-batch waits until the one before is through.
# next: count the ticks of the pipeline.
def pipeline_cycles(costs, batches):
    return batches * sum(costs)


# %% 10.w1: as soon as its own is there
# clause: All stages at work in a tick begin together
# why:  here a stage begins as soon as its micro-batch is there. But at the end of a tick all move
#   on together: on the way up, a quick stage behind a slow one waits for the slow one.
# next: go through the ticks, and take the slowest stage at work in each.
def pipeline_cycles(costs, batches):
    return sum(costs) + (batches - 1) * max(costs)


# %% 10.3: one after the other
# why:  between the work of two IPUs stands a copy, for which both must meet: so one works, and the
#   others wait. That is sharding.
# next: go through the ticks of table(…), and in each through all stages that are at work.
def pipeline(stages, into, out, samples, results):
    program = Sequence()
    for sample, result in zip(samples, results, strict=True):
        program.add(Copy(sample, into[0]))
        for stage, left, to in zip(stages, out, [*into[1:], result], strict=True):
            program.add(stage)
            program.add(Copy(left, to))
    return program


# %% 10.3: all wait in between
# clause: may compute at the same time
# why:  a sync of all after each stage lets nobody work beside another one.
# next: leave the Sync out: the copies are meetings enough.
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
# clause: copies that stand side by side share one
# why:  each stage is followed by its copy. For a copy both IPUs meet, so the stage before it begins
#   only when that is over: in each tick one IPU works after another.
# next: in a tick first all stages at work, then all copies: these share a step.
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
# why:  what a stage leaves goes on at once, over what the next stage has not read yet.
# next: in a tick first all stages, then all copies.
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
# why:  the results are copied when all is over. By then the last stage has left one micro-batch
#   over the other, and all results are the last one.
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
# clause: The program of all micro-batches
# why:  with fewer micro-batches than stages, no tick has all stages at work: the first stages are
#   done before the last ones begin. Here some stages work without a micro-batch, or not at all.
# next: in tick t stage s works if 0 <= t - s < len(samples); that holds for every tick.
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
# why:  the program ends when the last sample has come in: the results behind it were never made.
# next: go on for stages - 1 ticks more, as table(…) does.
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
# clause: what the last stage leaves goes to `results[b]`
# why:  what comes out in a tick is stored by the number of another micro-batch: the results are
#   shifted.
# next: row[-1] is the micro-batch that the last stage has.
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
# why:  each tick gives sample 0 to the first stage.
# next: row[0] says which one comes in.
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
# why:  the next sample comes in after the copies, and the first stage works on the one before: it
#   is one behind.
# next: what comes in stands at the beginning of the tick.
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
# why:  no Copy goes to `results`: what the last stage leaves is overwritten by the next one.
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
# why:  no sample is copied into the first stage: it reads what nobody wrote.
# next: Copy(samples[b], into[0]) at the beginning of a tick, with b = row[0] where that is not -1.
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
# why:  in the first ticks the later stages work, too, on what nobody has sent them yet.
# next: in a tick add the stages alone that have a micro-batch: where row[s] is not -1.
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


# %% 10.4: as many as there are
# why:  all micro-batches, on each stage: this is right only where all go forward before any goes
#   backward.
# next: a backward lets one go.
def stored(ticks, stages):
    kinds = [(kind, s) for tick in ticks for kind, s, _ in tick]
    return [kinds.count(("forward", s)) for s in range(stages)]


# %% 10.4: what is held at the end
# clause: at most
# why:  at the end nothing is held any more. Asked is the most on the way.
# next: keep the largest that it ever was.
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
# why:  this looks when the tick is over, and then what went backward in it is gone already.
# next: look after the forwards of a tick, and before its backwards.
def stored(ticks, stages):
    now, most = [0] * stages, [0] * stages
    for tick in ticks:
        for kind, s, _ in tick:
            now[s] += 1 if kind == "forward" else -1
        most = [max(most[s], now[s]) for s in range(stages)]
    return most


# %% 10.4: in the order of the list
# why:  this counts the works of a tick one after another, as they are listed. All of a tick happen
#   at once: the tick holds its backward micro-batch as well as its forward one.
# next: count all forwards of a tick, look, and then take its backwards away.
def stored(ticks, stages):
    now, most = [0] * stages, [0] * stages
    for tick in ticks:
        for kind, s, _ in tick:
            now[s] += 1 if kind == "forward" else -1
            most[s] = max(most[s], now[s])
    return most


# %% 10.4: the longest time
# why:  this is for how many ticks a micro-batch is held. Asked is how many are held at once.
# next: count what a stage holds, tick by tick, and keep the largest count.
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
# why:  these are those that a stage stores besides the one at work. It is held, too.
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
# why:  here a backward lets all micro-batches of its stage go. It lets one go.
# next: take one away for each backward.
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
# clause: For each stage
# why:  this counts what all stages hold, and gives it to each.
# next: a count for each stage: now[s].
def stored(ticks, stages):
    now = most = 0
    for tick in ticks:
        now += sum(kind == "forward" for kind, _, _ in tick)
        most = max(most, now)
        now -= sum(kind == "backward" for kind, _, _ in tick)
    return [most] * stages


# %% 10.4: the rule of grouped schedules
# clause: Whatever the schedule is
# why:  that is so for a grouped schedule, and for no other.
# next: count: the ticks say it.
def stored(ticks, stages):
    return [2 * (stages - 1 - s) + 1 for s in range(stages)]


# %% 10.4: the rule of interleaved schedules
# why:  that is so for an interleaved schedule, and for no other.
# next: count: the ticks say it.
def stored(ticks, stages):
    return [stages - s for s in range(stages)]


# %% 10.4: never let go
# why:  a backward lets its micro-batch go, and here it is counted on.
# next: take one away for each backward.
def stored(ticks, stages):
    now, most = [0] * stages, [0] * stages
    for tick in ticks:
        for kind, s, _ in tick:
            now[s] += kind == "forward"
        most = [max(most[s], now[s]) for s in range(stages)]
        for kind, s, _ in tick:
            now[s] += kind == "backward"
    return most


# %% 10.w2: the other way round
# clause: Which chunk does a place send
# why:  what came in comes from the place before, so the number goes down.
# next: place - k, and round.
def chunk_sent(place, k, many):
    return (place + k) % many


# %% 10.w2: not round
# clause: place 0 comes after the last one
# why:  this gives numbers below 0: chunks go round, too.
# next: take what remains, divided by many.
def chunk_sent(place, k, many):
    return place - k


# %% 10.w2: always its own
# clause: it sends on the chunk that came in the round before
# why:  a place sends its own chunk once, in round 0. Then it sends what came.
# next: what came in round 0 to place p is chunk p - 1.
def chunk_sent(place, k, many):
    return place


# %% 10.w2: one round late
# clause: In round 0 place p of the ring sends its chunk p.
# why:  in round 0 place p sends its chunk p.
# next: leave out the 1.
def chunk_sent(place, k, many):
    return (place - k - 1) % many


# %% 10.5: everything to one
# why:  all send all they have to IPU 0, and it sends all back: its links carry everything, and the
#   others wait.
# next: a ring: each sends a chunk to the next one.
def all_reduce(graph, parts, program):
    first, *others = parts
    inbox = [graph.clone(first) for _ in others]
    send(program, others, inbox)
    for box in inbox:
        popops.add_in_place(graph, first, box, program)
    send(program, [first] * len(others), others)


# %% 10.5: everybody to everybody
# clause: Over the busiest link no more may go than **2 (R - 1) chunks**
# why:  all send all they have to everybody: few rounds, and half as much again on the busiest
#   link.
# next: a ring: a chunk to the next one, in each round.
def all_reduce(graph, parts, program):
    others = [[b for b in parts if b is not a] for a in parts]
    boxes = [[graph.clone(a) for _ in those] for a, those in zip(parts, others, strict=True)]
    send(program, sum(others, []), sum(boxes, []))
    for turn in zip(*boxes, strict=True):
        popops.add_in_place(graph, concat(parts), concat(turn), program)


# %% 10.5: in the order of their numbers
# why:  the ring goes 0, 1, 2, 3: from 1 to 2 and from 3 to 0 a message takes two links, so that the
#   busiest link carries more than one message in a round.
# next: go round by around(R).
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
# why:  the first half goes once more round: what is whole already gets a part a second time.
# next: R - 1 rounds for R places.
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
# why:  whole tensors go round, where a chunk would do: each link carries R times as much as it has
#   to.
# next: cut into chunks, and send one in each round.
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
# clause: all IPUs send at once
# why:  after the Copy of each place stands its addition, so that copies are steps by themselves:
#   in each one link is at work, and the others wait.
# next: in a round first one Copy for all places, as send(…) makes it, then the additions.
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
# why:  the numbers of the chunks go up with the rounds: what was added is not what is sent on, and
#   is added twice.
# next: in round k place p sends chunk p - k.
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
# why:  what comes in is written over the chunk that it should be added to.
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
# why:  in the second half each place begins with a chunk that is not whole: that of its own
#   number.
# next: after R - 1 rounds place p has the whole of chunk p + 1.
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
# clause: each part becomes the sum of all of them
# why:  each place has one whole chunk, and of the others a part of the sum.
# next: R - 1 more rounds, in which whole chunks walk on.
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
# clause: Leave the sum of all `parts` in each of them
# why:  chunks are sent, and nothing adds them up: each place has numbers of one IPU.
# next: in each round of the first half popops.add_in_place(graph, concat(mine), concat(inbox),
#   program).
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
# why:  chunks walk round, and no place adds its own to them.
# next: first R - 1 rounds in which each place adds what comes to its own chunk.
def all_reduce(graph, parts, program):
    R = len(parts)
    places, part = range(R), [chunks(parts[ipu], R) for ipu in around(R)]
    for k in range(R - 1):
        sent = [part[p][(p - k) % R] for p in places]
        send(program, sent, [part[(p + 1) % R][(p - k) % R] for p in places])


# %% 10.5: one round too few
# why:  the first half ends a round too early, so that in each sum one part is missing.
# next: R - 1 rounds for R places.
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
# why:  each part is as it was: the program has no step.
# next: append to `program`: send, and add.
def all_reduce(graph, parts, program):
    ring = [parts[ipu] for ipu in around(len(parts))]
    return [sum(range(len(part))) for part in ring]


# %% 10.6: rounded down
# clause: **fewer** cycles
# why:  at that n the first is not quicker yet.
# next: the next whole number.
def from_where(one, other):
    more, less = one[0] - other[0], other[1] - one[1]
    return max(0, 1000 * more // less)


# %% 10.6: rounded up
# why:  where both cost the same, the first is not quicker yet.
# next: the smallest whole number above it.
def from_where(one, other):
    more, less = one[0] - other[0], other[1] - one[1]
    return max(0, -(-1000 * more // less))


# %% 10.6: in thousands
# clause: The smallest n
# why:  this counts in thousands of numbers.
# next: each is for 1,000 numbers: multiply by 1,000.
def from_where(one, other):
    more, less = one[0] - other[0], other[1] - one[1]
    return max(0, more // less + 1)


# %% 10.6: below 0
# clause: from 0 on
# why:  where the first is quicker at once, n would be negative. It is 0 then.
# next: take the larger of that and 0.
def from_where(one, other):
    more, less = one[0] - other[0], other[1] - one[1]
    return 1000 * more // less + 1


# %% 10.6: the fixed part alone
# why:  this divides the fixed part of the first by what it saves for each number; the second has a
#   fixed part, too.
# next: it is the difference of the two that must be won back.
def from_where(one, other):
    return 1000 * one[0] // (other[1] - one[1]) + 1


# %% 10.6: what the second costs
# clause: The first costs less for each number.
# why:  this divides by what the second costs for each number; what is won is the difference.
# next: other[1] - one[1].
def from_where(one, other):
    return max(0, 1000 * (one[0] - other[0]) // other[1] + 1)


# %% 10.6: not whole
# why:  n is a whole number, the first one above where the lines meet.
# next: round down, and add 1.
def from_where(one, other):
    more, less = one[0] - other[0], other[1] - one[1]
    return max(0, 1000 * more / less)


# %% 10.7: each for itself
# clause: must stay so in every bit
# why:  nobody hears of the others: each replica learns from its own samples alone, and they drift
#   apart.
# next: make the slope the sum of all replicas', before w changes.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: each for itself, with its own mean
# why:  nothing is sent between the replicas: each learns from the mean of its own samples alone,
#   and they drift apart.
# next: add up the gradients of all replicas, and divide by the samples of all.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    popops.scaled_add_to(graph, w, slope, -rate / x.shape[0], program)


# %% 10.7: always four replicas
# clause: so that R replicas with b samples each learn
# why:  a 4 is written where the number of replicas should be.
# next: ask the graph: graph.get_replication_factor().
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    popops.scaled_add_to(graph, w, slope, -rate / (4 * x.shape[0]), program)


# %% 10.7: the mean twice
# why:  the mean over the replicas is taken, and then it is divided by all samples: the step is too
#   short.
# next: add up, and divide by all; or take the mean, and divide by x.shape[0].
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "MEAN", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: its own samples alone
# clause: of all samples of all replicas
# why:  the sum of all slopes is divided by the samples of one replica: the step is too long.
# next: divide by the samples of all.
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
# why:  x.shape[1] is how many features a sample has. The samples are the rows of x.
# next: x.shape[0].
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[1]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: after the step
# why:  the slopes are added up when w has changed already: too late for this step.
# next: first the all-reduce, then the step.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)


# %% 10.7: the error in place of the slope
# clause: the slope is `x.T @ error`
# why:  the errors of all are added up, and each belongs to another sample.
# next: what is added up is the slope, which is of w.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    gcl.all_reduce_in_place_cross_replica(graph, error, "ADD", program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)


# %% 10.7: uphill
# clause: Let `w` lose
# why:  w goes up the slope.
# next: take rate times the slope away: scale by a number below 0.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, rate / samples, program)


# %% 10.7: never divided
# clause: rate times the mean slope
# why:  this is the slope of the sum. Asked is the mean of all samples.
# next: divide by the samples of all replicas.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    gcl.all_reduce_in_place_cross_replica(graph, slope, "ADD", program)
    samples = graph.get_replication_factor() * x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate, program)


# %% 10.7: the weights are added up
# why:  the weights of all replicas are added up, and each is R times as large.
# next: add up the slopes; or take the mean of the weights.
def step(graph, w, x, t, rate, program):
    error = poplin.mat_mul(graph, x, w, program)
    popops.sub_in_place(graph, error, t, program)
    slope = poplin.mat_mul(graph, x.transpose(), error, program)
    samples = x.shape[0]
    popops.scaled_add_to(graph, w, slope, -rate / samples, program)
    gcl.all_reduce_in_place_cross_replica(graph, w, "ADD", program)


# %% 10.7: the mean over samples and outputs
# clause: rate times the mean slope
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
# why:  the two kinds have changed places.
# next: first the groups of one copy each.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    columns = [[c * parts + p for c in range(copies)] for p in range(parts)]
    return columns, lines


# %% 10.8: parts first
# why:  this is for replicas that stand in another order: first part 0 of all copies.
# next: replica c * parts + p has part p of copy c.
def groups(copies, parts):
    lines = [[p * copies + c for p in range(parts)] for c in range(copies)]
    columns = [[p * copies + c for c in range(copies)] for p in range(parts)]
    return lines, columns


# %% 10.8: one kind twice
# clause: the groups of one **part** each
# why:  both are the groups of one copy.
# next: replicas of one part stand parts apart.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    return lines, lines


# %% 10.8: all together
# why:  all replicas are one group of one part; but each part has slopes of its own.
# next: a group for each part.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    return lines, [list(range(copies * parts))]


# %% 10.8: as many as copies
# why:  groups of one copy have here as many replicas as there are copies.
# next: a copy is parts replicas.
def groups(copies, parts):
    lines = [[p * copies + c for c in range(copies)] for p in range(parts)]
    columns = [[p * copies + c for p in range(parts)] for c in range(copies)]
    return lines, columns


# %% 10.8: neighbours of one part
# why:  neighbours hold different parts of one copy, and not the same part.
# next: replicas of one part stand parts apart.
def groups(copies, parts):
    lines = [[c * parts + p for p in range(parts)] for c in range(copies)]
    columns = [[p * copies + c for c in range(copies)] for p in range(parts)]
    return lines, columns


# %% 10.8: modulo the copies
# why:  replicas of one part are those with the same remainder by parts, and here by copies.
# next: replica r has part r % parts of copy r // parts.
def groups(copies, parts):
    every = range(copies * parts)
    lines = [[r for r in every if r // parts == c] for c in range(copies)]
    return lines, [[r for r in every if r % copies == p] for p in range(parts)]


# %% 10.8: only one kind
# clause: two lists
# not yet: two lists of lists
def groups(copies, parts):
    return [0, 1]
