# %% given
"""Known mistakes of lesson 08; what this file is: mistakes.py."""

from itertools import combinations, pairwise

import numpy as np

from ipu_teach import FLOAT
from ipu_teach.poplibs import popops, poprand
from ipu_teach.schedules import recompute


def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        here = needed | {layer}
        held.append(sum(sizes[i] for i in here))
        needed = here if kind == "backward" else here - {layer + 1}
    return held[::-1]


def schedule(layers, keep):
    return [tuple(step) for step in recompute(layers, keep)]


# %% 08.w1: the first read
# clause: for the last time
# why:  this is the first read of the input, by the forward step of the layer.
# next: return the largest of the indices.
def last_read(steps, layer):
    return min(place for place, (kind, i) in enumerate(steps) if i == layer)


# %% 08.w1: counted from 1
# clause: counted from 0
# why:  this counts the steps from 1, but indices start at 0.
# next: use enumerate(steps), which counts from 0.
def last_read(steps, layer):
    return max(place for place, (kind, i) in enumerate(steps, 1) if i == layer)


# %% 08.w1: where it is made
# clause: the last step that reads
# why:  this is the last step that computes the input of `layer`: a step of the layer before it.
# next: return the last step whose layer is `layer`: it reads the input.
def last_read(steps, layer):
    makes = [p for p, (kind, i) in enumerate(steps) if kind != "backward" and i + 1 == layer]
    return max(makes, default=0)


# %% 08.w1: its last forward
# why:  this is the last read by a forward or recompute step, but the backward step reads the input
#   later.
# next: include backward steps, too: look only at the layer of a step, not at its kind.
def last_read(steps, layer):
    return max(p for p, (kind, i) in enumerate(steps) if i == layer and kind != "backward")


# %% 08.w1: how often
# why:  this is the number of steps that read the input, but the exercise asks for the index of the
#   last one.
# next: collect the indices of these steps, and return the largest.
def last_read(steps, layer):
    return sum(i == layer for kind, i in steps)


# %% 08.w1: from the end
# why:  this counts the steps from the end of the list, but the index counts from the beginning.
# next: return len(steps) - 1 - this number.
def last_read(steps, layer):
    return [i for _, i in reversed(steps)].index(layer)


# %% 08.w1: one too early
# why:  this is one step before the last read: the layer's backward step also reads the input.
# next: return the index of the layer's backward step.
def last_read(steps, layer):
    return steps.index(("backward", layer)) - 1


# %% 08.w1: its own recompute step
# why:  this is the recompute step of the layer, but its backward step reads the input later.
# next: return the largest index of a step whose layer is `layer`, whatever its kind.
def last_read(steps, layer):
    if ("recompute", layer) in steps:
        return steps.index(("recompute", layer))
    return steps.index(("backward", layer))


# %% 08.w1: the step that recomputes it
# why:  this step computes the input again, but the backward step of `layer` reads it later.
# next: return the largest index of a step whose layer is `layer`, whatever its kind.
def last_read(steps, layer):
    if ("recompute", layer - 1) in steps:
        return steps.index(("recompute", layer - 1))
    return steps.index(("backward", layer))


# %% 08.1: only what the step touches
# clause: In memory are the input that the step reads, the input that it computes
# why:  this counts only the inputs that the step reads or computes, but inputs that a later step
#   reads are in memory, too.
# next: go through the list from its end, with a set of the inputs that later steps read.
def alive(steps, sizes):
    held = []
    for kind, layer in steps:
        here = {layer} if kind == "backward" else {layer, layer + 1}
        held.append(sum(sizes[i] for i in here if i < len(sizes)))
    return held


# %% 08.1: nothing is ever forgotten
# why:  an input stays in memory for ever here, but it can be discarded after its last read.
# next: leave an input out of every step after its last read.
def alive(steps, sizes):
    here, held = {0}, []
    for kind, layer in steps:
        if kind != "backward" and layer + 1 < len(sizes):
            here.add(layer + 1)
        held.append(sum(sizes[i] for i in here))
    return held


# %% 08.1: before it is computed, too
# clause: no step in between computes it again
# why:  this counts every input that a later step reads, even if a step computes it in between.
# next: before you go to the step before it, remove the input that a forward or recompute step
#   computes.
def alive(steps, sizes):
    needed, held = set(), []
    for _, layer in reversed(steps):
        needed = needed | {layer}
        held.append(sum(sizes[i] for i in needed))
    return held[::-1]


# %% 08.1: from first to last
# why:  this counts an input from its first computation to its last read, but an input that is
#   recomputed is not in memory in between.
# next: go from the last step to the first, and remove the input that a step computes before you go
#   to the step before it.
def alive(steps, sizes):
    held = []
    for place in range(len(steps)):
        here = set()
        for layer in range(len(sizes)):
            uses = [p for p, (kind, i) in enumerate(steps) if i == layer]
            makes = [p for p, (k, i) in enumerate(steps) if k != "backward" and i + 1 == layer]
            if (min(makes) if layer else 0) <= place <= max(uses):
                here.add(layer)
        held.append(sum(sizes[i] for i in here))
    return held


# %% 08.1: forgotten after its forward
# why:  this discards an input when the next one is computed, but a backward step may still need it.
# next: keep each input until the last step that reads it.
def alive(steps, sizes):
    made_again = {i + 1 for kind, i in steps if kind == "recompute"}
    here, held = {0}, []
    for kind, layer in steps:
        here.add(layer)
        if kind != "backward" and layer + 1 < len(sizes):
            here.add(layer + 1)
        held.append(sum(sizes[i] for i in here))
        if kind != "recompute" and layer:
            here.discard(layer)
    return held


# %% 08.1: without that of layer 0
# clause: The input of layer 0 is there from the start.
# why:  the input of layer 0 is missing, but it is in memory from the start until its backward step.
# next: count the input of layer 0 from the first step until its backward step.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        here = needed | {layer}
        held.append(sum(sizes[i] for i in here if i))
        needed = here if kind == "backward" else here - {layer + 1}
    return held[::-1]


# %% 08.1: the output of the last layer, too
# why:  the last forward step also counts its output, but this output is not the input of any layer.
# next: add up only the sizes of inputs: the layers 0 to len(sizes) - 1.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        here = needed | {layer}
        makes_output = kind == "forward" and layer == len(sizes) - 1
        held.append(sum(sizes[i] for i in here) + makes_output * sizes[-1])
        needed = here if kind == "backward" else here - {layer + 1}
    return held[::-1]


# %% 08.1: how many, and not how large
# clause: is the size of the input
# why:  this is the number of inputs in memory, but the exercise asks for their total size.
# next: add up sizes[i] of each input i.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        here = needed | {layer}
        held.append(len(here))
        needed = here if kind == "backward" else here - {layer + 1}
    return held[::-1]


# %% 08.1: after each step
# clause: is nobody's input, and does not count
# why:  this is the memory after each step, but while the step runs, the input that it reads is in
#   memory, too.
# next: add the input that the step reads.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        held.append(sum(sizes[i] for i in needed))
        needed = needed | {layer} if kind == "backward" else (needed | {layer}) - {layer + 1}
    return held[::-1]


# %% 08.1: before each step
# why:  this is the memory before each step, but while the step runs, the input that it computes
#   needs memory, too.
# next: add up the sizes first, and then remove the input that the step computes.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        needed = (needed | {layer}) - (set() if kind == "backward" else {layer + 1})
        held.append(sum(sizes[i] for i in needed))
    return held[::-1]


# %% 08.1: the last step first
# why:  the numbers are right, but the last step comes first.
# next: reverse the list before you return it.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        here = needed | {layer}
        held.append(sum(sizes[i] for i in here))
        needed = here if kind == "backward" else here - {layer + 1}
    return held


# %% 08.1: the peak alone
# clause: for each step, the total size of the inputs
# not yet: which is not a list or array of numbers
def alive(steps, sizes):
    return str(max(sizes))


# %% 08.2: the kept one counted twice
# why:  the first number counts one input twice: the first input of the segment is one of the saved
#   inputs.
# next: count the saved inputs, and only k - 1 more inputs of the segment.
def price(layers, every):
    return layers // every + every, (layers // every - 1) * (every - 1)


# %% 08.2: the last segment again
# why:  the second number includes the last segment, but its inputs are still in memory when the
#   backward pass begins.
# next: count the discarded inputs of all segments but the last.
def price(layers, every):
    return layers // every + every - 1, layers - layers // every


# %% 08.2: the kept ones alone
# why:  the first number has only the saved inputs, but all inputs of one segment are in memory,
#   too.
# next: add the other inputs of one segment.
def price(layers, every):
    return layers // every, (layers // every - 1) * (every - 1)


# %% 08.2: a segment alone
# clause: How many inputs are in memory at once
# why:  the first number has only the inputs of one segment, but the saved inputs of the other
#   segments are in memory, too.
# next: add the saved inputs of the other segments.
def price(layers, every):
    return every, (layers // every - 1) * (every - 1)


# %% 08.2: whole segments
# clause: how many layers are recomputed
# why:  the second number counts all layers of a segment, but its last layer computes the next saved
#   input, so it is not recomputed.
# next: count one layer for each discarded input.
def price(layers, every):
    return layers // every + every - 1, layers - every


# %% 08.2: from the kept one for each
# why:  this recomputes the segment again for each discarded input, but one recomputation computes
#   all of them.
# next: count each discarded input once.
def price(layers, every):
    segments = layers // every
    return segments + every - 1, (segments - 1) * every * (every - 1) // 2


# %% 08.2: all are there
# clause: every k-th input is saved
# why:  the first number counts all inputs, as if none were discarded.
# next: count the saved inputs and the other inputs of one segment.
def price(layers, every):
    return layers, (layers // every - 1) * (every - 1)


# %% 08.2: nothing subtracted for the first of a segment
# why:  the first input of a segment is saved, but the first number counts it twice, and the second
#   number recomputes one layer too many in each segment.
# next: take four layers, and save the input of every second layer. Write down all inputs that are
#   stored, and count each of them once.
def price(layers, every):
    return layers // every + every, (layers // every - 1) * every


# %% 08.2: the kept one counted twice, and the last segment again
# why:  the first number counts the first input of the segment twice, and the second number includes
#   the last segment, which is still in memory.
# next: count each saved input once, and leave out the last segment in the second number.
def price(layers, every):
    return layers // every + every, layers - layers // every


# %% 08.2: every layer again
# why:  the second number counts all layers, but the last segment and the last layer of each other
#   segment are not recomputed.
# next: count the discarded inputs of all segments but the last.
def price(layers, every):
    return layers // every + every - 1, layers


# %% 08.2: in the other order
# clause: (the most inputs at once, the number of recomputed layers)
# why:  the two numbers are in the wrong order.
# next: return the number of inputs first, then the number of layers.
def price(layers, every):
    return (layers // every - 1) * (every - 1), layers // every + every - 1


# %% 08.2: one number
# not yet: one number, 8
def price(layers, every):
    return layers // every + every - 1


# %% 08.2: the larger of the two
# why:  this takes the larger of two numbers, the saved inputs and a segment, but both are in memory
#   at the same time.
# next: add the two numbers, and count the first input of the segment once.
def price(layers, every):
    segments = layers // every
    return max(segments, every), (segments - 1) * (every - 1)


# %% 08.2: two too few
# why:  the first input of the segment is subtracted twice.
# next: subtract it once: it is both a saved input and an input of the segment.
def price(layers, every):
    segments = layers // every
    return segments + every - 2, (segments - 1) * (every - 1)


# %% 08.2: one kept layer too many
# why:  the second number subtracts the first layer of the last segment twice: it is a saved layer,
#   too.
# next: count the discarded inputs of all segments but the last.
def price(layers, every):
    segments = layers // every
    return segments + every - 1, layers - segments - every


# %% 08.3: nothing is computed again
# clause: without `recompute`
# why:  nothing is recomputed here, so the backward steps read inputs that were discarded.
# next: add "recompute" steps for a segment just before its backward steps.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    return steps + [("backward", i) for i in reversed(range(layers))]


# %% 08.3: the last segment, too
# clause: whose output is still in memory
# why:  the last segment is recomputed, but all of its inputs are still in memory.
# next: add no "recompute" steps for the segment that ends with the last layer.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: from the kept one for each
# why:  each backward step recomputes its segment again, although the inputs of the first
#   recomputation are still in memory.
# next: recompute a segment once, before all of its backward steps.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for layer in reversed(range(layers)):
        start = max(s for s in starts if s <= layer)
        if start < starts[-1]:
            steps += [("recompute", i) for i in range(start, layer)]
        steps.append(("backward", layer))
    return steps


# %% 08.3: from the very first
# why:  this recomputes from layer 0 on, although later inputs are saved.
# next: begin to recompute at the segment's own saved layer.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: all at once, before backward
# clause: just before the backward steps of that segment
# why:  all segments are recomputed before the backward pass begins, so all inputs are in memory at
#   once.
# next: recompute a segment just before its backward steps.
def schedule(layers, keep):
    starts = sorted({0, *keep})
    steps = [("forward", i) for i in range(layers)]
    for start, end in reversed(list(pairwise(starts))):
        steps += [("recompute", i) for i in range(start, end - 1)]
    return steps + [("backward", i) for i in reversed(range(layers))]


# %% 08.3: without layer 0
# clause: The input of layer 0 is always saved.
# why:  the layers before the first saved layer in `keep` are missing, but they are a segment, too.
# next: let the first segment begin at 0, whether 0 is in `keep` or not.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted(keep)
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps + [("backward", i) for i in reversed(range(starts[0]))]


# %% 08.3: forward through a segment
# why:  within a segment, the backward steps go from its first layer to its last, but the gradient
#   comes from the last layer.
# next: add the backward steps of a segment from its last layer to its first.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in range(start, end)]
    return steps


# %% 08.3: the segments from the front
# why:  the segments go backward from the first to the last, but the gradient starts at the end of
#   the chain.
# next: go through the segments in reverse order.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in pairwise([*starts, layers]):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: as they come in keep
# clause: An input is discarded
# why:  the saved layers are taken in the order of `keep`, which need not be sorted.
# next: put the layers of `keep` into increasing order.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = [0, *(i for i in keep if i)]
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: one too many
# why:  the last layer of a segment is recomputed, too, but it computes the next saved input, which
#   is not needed any more.
# next: end with the layer that computes the last discarded input of the segment.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: one too few
# why:  the input of a segment's last layer is not recomputed.
# next: recompute one layer more: the one that computes the input of the segment's last layer.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 2)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: called forward
# why:  the recomputation steps have the name "forward" here.
# next: give these steps the name "recompute".
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("forward", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: keep is changed
# not yet: the call changed its argument keep
def schedule(layers, keep):
    keep = keep if isinstance(keep, set) else set(keep)
    keep.add(0)
    steps = [("forward", layer) for layer in range(layers)]
    for start, end in reversed([*pairwise([*sorted(keep), layers])]):
        steps += [("recompute", layer) for layer in range(start, end - 1) if end < layers]
        steps += [("backward", layer) for layer in reversed(range(start, end))]
    return steps


# %% 08.3: layers without a kind
# clause: "forward", "recompute" or "backward"
# not yet: a pair of forward, recompute, backward and a layer from 0 to 6
def schedule(layers, keep):
    return list(range(layers)) + list(reversed(range(layers)))


# %% 08.3: backward alone
# clause: return the list
# why:  the forward steps are missing: the list begins with a backward step.
# next: put a forward step for each layer first.
def schedule(layers, keep):
    steps = []
    for start, end in reversed([*pairwise([*sorted({0, *keep}), layers])]):
        steps += [("recompute", layer) for layer in range(start, end - 1) if end < layers]
        steps += [("backward", layer) for layer in reversed(range(start, end))]
    return steps


# %% 08.3: the library's list
# not yet: this list comes from the library
def schedule(layers, keep):
    return [tuple(step) for step in recompute(layers, keep)]


# %% 08.3: only between the layers of keep
# why:  the layers before the first layer in `keep` have no backward step. The input of layer 0 is
#   always saved, so the first segment begins there.
# next: begin with layer 0, and sort the layers: `keep` may also be a list in any order.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = list(keep)
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.4: evenly spaced
# why:  these layers have even spacing, but the inputs of the layers have different sizes.
# next: try all choices of layers, and compare their max(alive(…)).
def place(sizes, k):
    every = -(-len(sizes) // k)
    return list(range(0, len(sizes), every))


# %% 08.4: the smallest
# why:  these are the smallest inputs, but the inputs between two saved ones must also fit into
#   memory.
# next: compare the memory of all choices: max(alive(schedule(n, keep), sizes)).
def place(sizes, k):
    others = sorted(range(1, len(sizes)), key=lambda i: sizes[i])
    return [0, *others[: k - 1]]


# %% 08.4: the largest
# why:  this saves the largest inputs, so they stay in memory until their backward step.
# next: compare the memory of all choices: max(alive(schedule(n, keep), sizes)).
def place(sizes, k):
    others = sorted(range(1, len(sizes)), key=lambda i: -sizes[i])
    return [0, *others[: k - 1]]


# %% 08.4: the first ones
# why:  this saves the inputs of the first layers, so all later layers are one large segment.
# next: compare the memory of all choices: max(alive(schedule(n, keep), sizes)).
def place(sizes, k):
    return list(range(min(k, len(sizes))))


# %% 08.4: the last ones
# why:  this saves the inputs of the last layers, so all layers before them are one large segment.
# next: compare the memory of all choices: max(alive(schedule(n, keep), sizes)).
def place(sizes, k):
    return [0, *range(max(1, len(sizes) - k + 1), len(sizes))]


# %% 08.4: segments of equal size
# why:  all segments have about the same size, but while a late segment goes backward, more inputs
#   are saved than for an early one.
# next: minimise the peak: max(alive(schedule(n, keep), sizes)).
def place(sizes, k):
    total, keep = sum(sizes), [0]
    for part in range(1, k):
        sums = [sum(sizes[:i]) for i in range(len(sizes))]
        keep.append(min(range(len(sizes)), key=lambda i: abs(sums[i] - total * part / k)))
    return keep


# %% 08.4: kept and largest segment
# why:  this adds all saved inputs to the largest segment, but while an early segment goes backward,
#   the saved inputs after it are no longer in memory.
# next: take the largest of the memory after each step: max(alive(schedule(n, keep), sizes)).
def place(sizes, k):
    def guess(keep):
        largest = max(sum(sizes[a + 1 : b]) for a, b in pairwise([*keep, len(sizes)]))
        return sum(sizes[i] for i in keep) + largest

    ways = [[0, *more] for more in combinations(range(1, len(sizes)), min(k, len(sizes)) - 1)]
    return min(ways, key=guess)


# %% 08.4: the sum over all steps
# clause: the peak memory is as low as possible
# why:  this minimises the sum over all steps, but the exercise asks for the lowest peak.
# next: use max(alive(…)) instead of sum(alive(…)).
def place(sizes, k):
    n = len(sizes)
    ways = [[0, *more] for more in combinations(range(1, n), min(k, n) - 1)]
    return min(ways, key=lambda keep: sum(alive(schedule(n, keep), sizes)))


# %% 08.4: one too many
# clause: at most k layers
# not yet: layer 0 counts as one of the k layers
def place(sizes, k):
    n = len(sizes)
    ways = ((0, *way) for way in combinations(range(1, n), min(k, n - 1)))
    return min(ways, key=lambda keep: max(alive(schedule(n, keep), sizes)))


# %% 08.4: sizes instead of layers
# clause: return the layers to keep
# not yet: which names no layers
def place(sizes, k):
    return max(sizes)


# %% 08.4: a layer that is not there
# not yet: layer 12
def place(sizes, k):
    return [0, len(sizes) // 2, len(sizes)]


# %% 08.4: one after another
# why:  this chooses the best layer first, and then the best next layer for it, but the best pair
#   may contain neither.
# next: compare whole choices: combinations(range(1, n), j) for each j below k.
def place(sizes, k):
    keep, n = [0], len(sizes)
    while len(keep) < min(k, n):
        others = [i for i in range(1, n) if i not in keep]
        keep.append(min(others, key=lambda i: max(alive(schedule(n, [*keep, i]), sizes))))
    return keep


# %% 08.4: as if all were equal
# clause: has the sizes of the inputs
# why:  this is the best choice for inputs of equal size, but these inputs differ in size.
# next: pass `sizes` to alive().
def place(sizes, k):
    n = len(sizes)
    ways = [[0, *more] for more in combinations(range(1, n), min(k, n) - 1)]
    return min(ways, key=lambda keep: max(alive(schedule(n, keep), [1] * n)))


# %% 08.4: kept and largest segment, fewer, too
# why:  this adds all saved inputs to the largest segment. While an early segment goes backward, the
#   saved inputs after it are no longer in memory.
# next: go through the steps: the memory of a choice is max(alive(schedule(n, keep), sizes)).
def place(sizes, k):
    def guess(keep):
        largest = max(sum(sizes[a + 1 : b]) for a, b in pairwise([*keep, len(sizes)]))
        return sum(sizes[i] for i in keep) + largest

    rest = range(1, len(sizes))
    ways = [[0, *more] for count in range(k) for more in combinations(rest, count)]
    return min(ways, key=guess)


# %% 08.4: exactly k of them
# clause: at most k layers
# why:  this saves exactly k inputs. All saved inputs are in memory at once, so fewer of them may
#   need less memory.
# next: try choices of 1 to k layers, and return the one with the lowest peak.
def place(sizes, k):
    n = len(sizes)
    ways = [[0, *more] for more in combinations(range(1, n), min(k, n) - 1)]
    return min(ways, key=lambda keep: max(alive(schedule(n, keep), sizes)))


# %% 08.5: all of them
# why:  all inputs are saved, even if they need more than `room`.
# next: leave out each spacing whose max(alive(…)) is above `room`.
def keep_for(layers, room):
    return range(layers)


# %% 08.5: only the first
# why:  only the input of layer 0 is saved, so the whole chain is one segment. Its inputs are all
#   recomputed before its first backward step, and are in memory together.
# next: try all spacings, and leave out those whose max(alive(…)) is above `room`.
def keep_for(layers, room):
    return [0]


# %% 08.5: as many as there is room for
# why:  this saves as many inputs as `room` allows, but the recomputed inputs of a segment need
#   memory, too.
# next: compare max(alive(…)) of each spacing with `room`.
def keep_for(layers, room):
    return range(0, layers, -(-layers // room))


# %% 08.5: segments as large as the room
# clause: at most `room` inputs may be in memory at once
# why:  each segment fills the room by itself, but the saved inputs of the other segments need
#   memory, too.
# next: compare max(alive(…)) of each spacing with `room`.
def keep_for(layers, room):
    return range(0, layers, min(room, layers))


# %% 08.5: the least memory
# clause: Recompute no more layers than the best even spacing that fits.
# why:  this is the spacing with the least memory, but a spacing that uses more of the room
#   recomputes fewer layers.
# next: return the spacing that fits and recomputes the fewest layers.
def keep_for(layers, room):
    spacings = range(1, layers + 1)
    return range(
        0,
        layers,
        min(
            spacings,
            key=lambda k: max(alive(schedule(layers, range(0, layers, k)), [1] * layers)),
        ),
    )


# %% 08.5: the first that fits
# why:  this is the smallest spacing that fits, but a larger one can recompute fewer layers.
# next: return the spacing that fits and recomputes the fewest layers.
def keep_for(layers, room):
    for k in range(1, layers + 1):
        if max(alive(schedule(layers, range(0, layers, k)), [1] * layers)) <= room:
            return range(0, layers, k)


# %% 08.5: the kept one counted twice
# why:  this counts one saved input twice, so it rejects spacings that would fit.
# next: use max(alive(…)), which counts each input once.
def keep_for(layers, room):
    for k in range(1, layers + 1):
        if k == 1 and layers <= room or k > 1 and -(-layers // k) + k <= room:
            return range(0, layers, k)
    return range(0, layers, round(layers**0.5))


# %% 08.5: every second, always
# why:  every second input is saved, even if they need more than `room`.
# next: leave out each spacing whose max(alive(…)) is above `room`.
def keep_for(layers, room):
    return range(0, layers, 2)


# %% 08.5: the spacing alone
# not yet: which names no layers
def keep_for(layers, room):
    for k in range(1, layers + 1):
        if max(alive(schedule(layers, range(0, layers, k)), [1] * layers)) <= room:
            return k


# %% 08.5: the list of steps
# clause: the layers whose inputs are saved
# not yet: layer ('forward', 0)
def keep_for(layers, room):
    for k in range(1, layers + 1):
        steps = schedule(layers, range(0, layers, k))
        if max(alive(steps, [1] * layers)) <= room:
            return steps


# %% 08.5: nothing where all fit
# not yet: nothing: is there a `return`?
def keep_for(layers, room):
    if layers > room:
        return range(0, layers, 3)


# %% 08.5: the largest spacing that fits
# why:  this is the largest spacing that fits, but a smaller one recomputes fewer layers.
# next: return the spacing that fits and recomputes the fewest layers.
def keep_for(layers, room):
    for k in range(layers, 0, -1):
        if max(alive(schedule(layers, range(0, layers, k)), [1] * layers)) <= room:
            return range(0, layers, k)


# %% 08.5: the square root
# why:  this is the spacing with the least memory, but a spacing that uses more of the room can
#   recompute fewer layers.
# next: return the spacing that fits and recomputes the fewest layers.
def keep_for(layers, room):
    return range(0, layers, int(layers**0.5))


# %% 08.5: 08.2's formula for any spacing
# why:  this uses the formula of 08.2, which holds only if the spacing divides the number of layers.
# next: use max(alive(schedule(…), …)), which is right for any spacing.
def keep_for(layers, room):
    best = None
    for k in range(1, layers + 1):
        most, again = layers // k + k - 1, (layers // k - 1) * (k - 1)
        if most <= room and (best is None or again < best[0]):
            best = again, k
    return range(0, layers, best[1])


# %% 08.5: the first by 08.2's formula
# why:  this uses the formula L // k + k - 1 of 08.2, which is too small if k does not divide the
#   number L of layers.
# next: use max(alive(schedule(…), …)), which is right for any spacing.
def keep_for(layers, room):
    for every in range(1, layers + 1):
        if layers // every + every - 1 <= room:
            return list(range(0, layers, every))


# %% 08.5: room to spare
# why:  this leaves out a spacing that needs exactly `room` inputs, but it fits.
# next: compare with <= room.
def keep_for(layers, room):
    ways = []
    for every in range(1, layers + 1):
        steps = schedule(layers, range(0, layers, every))
        if max(alive(steps, [1] * layers)) < room:
            ways.append((len(steps), every))
    return list(range(0, layers, min(ways)[1])) if ways else [0]


# %% 08.5: spacings up to the root
# why:  this tries only spacings up to the square root of the number of layers, but a larger one may
#   recompute fewer layers.
# next: try all spacings from 1 to `layers`.
def keep_for(layers, room):
    ways = []
    for every in range(1, int(layers**0.5) + 1):
        steps = schedule(layers, range(0, layers, every))
        if max(alive(steps, [1] * layers)) <= room:
            ways.append((len(steps), every))
    return list(range(0, layers, min(ways)[1]))


# %% 08.5: only spacings that divide
# error in the answer: it got no items, so there is nothing to choose from
def keep_for(layers, room):
    ways = [
        (len(steps), every)
        for every in range(1, layers + 1)
        if layers % every == 0
        and max(alive(steps := schedule(layers, range(0, layers, every)), [1] * layers)) <= room
    ]
    return list(range(0, layers, min(ways)[1]))


# %% 08.5: only spacings that divide, or layer 0 alone
# why:  only spacings that divide the number of layers are tried. If none of them fits, only layer 0
#   is saved, and that does not fit either.
# next: try all spacings from 1 to `layers`, and count with max(alive(schedule(…), …)).
def keep_for(layers, room):
    def most(every):
        return layers // every + every - 1

    ways = [every for every in range(1, layers + 1) if layers % every == 0 and most(every) <= room]
    every = min(ways or [layers], key=lambda every: (layers // every - 1) * (every - 1))
    return list(range(0, layers, every))


# %% 08.5: 08.2's formula, rounded up
# why:  if k does not divide the number L of layers, the last segment is shorter, so L / k rounded
#   up, plus k - 1, counts one input too many.
# next: use max(alive(schedule(…), …)), which is right for any spacing.
def keep_for(layers, room):
    for every in range(1, layers + 1):
        if -(-layers // every) + every - 1 <= room:
            return list(range(0, layers, every))
    return [0]


# %% 08.6: a number for each call
# clause: The same layer drops the same
# not yet: recompute 0 sets other elements to 0 than forward 0
calls = []


def drop(graph, x, seed, kind, layer, program):
    calls.append(kind)
    return poprand.dropout(graph, seed, len(calls), x, x, 0.5, 2.0, program)


# %% 08.6: one for all layers
# not yet: one mask for all layers
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, 1, x, x, 0.5, 2.0, program)


# %% 08.6: another one backward
# not yet: the backward step sets other elements to 0
def drop(graph, x, seed, kind, layer, program):
    modifier = layer + 100 if kind == "backward" else layer
    return poprand.dropout(graph, seed, modifier, x, x, 0.5, 2.0, program)


# %% 08.6: the seed is counted on
# not yet: pass the seed unchanged
def drop(graph, x, seed, kind, layer, program):
    popops.add_in_place(graph, seed, 1, program)
    return poprand.dropout(graph, seed, layer, x, x, 0.5, 2.0, program)


# %% 08.6: the mask is kept
# clause: Keep no mask from one step to the next
# not yet: the mask is kept in memory
masks = {}


def drop(graph, x, seed, kind, layer, program):
    if (id(graph), layer) not in masks:
        mask = poprand.bernoulli(graph, seed, layer, x, FLOAT, 0.5, program)
        masks[id(graph), layer] = popops.mul(graph, mask, 2.0, program)
    return popops.mul(graph, x, masks[id(graph), layer], program)


# %% 08.6: layers modulo 8
# not yet: layers 0 and 8 set the same elements to 0
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, layer % 8, x, x, 0.5, 2.0, program)


# %% 08.6: half of the seed
# not yet: two seeds set the same elements to 0
def drop(graph, x, seed, kind, layer, program):
    from ipu_teach import concat

    half = concat([seed[:1], seed[:1]])
    return poprand.dropout(graph, half, layer, x, x, 0.5, 2.0, program)


# %% 08.6: a little less than half
# not yet: 44.9 % of 14,040 elements are kept
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, layer, x, x, 0.45, 2.0, program)


# %% 08.6: not doubled
# clause: the others doubled
# not yet: the other half must be doubled to keep the mean
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, layer, x, x, 0.5, 1.0, program)


# %% 08.6: a quarter is kept
# clause: half of its numbers 0
# not yet: keeps 27 % of the elements
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, layer, x, x, 0.25, 2.0, program)


# %% 08.6: backward drops nothing
# not yet: backward 2 sets no element to 0
def drop(graph, x, seed, kind, layer, program):
    if kind == "backward":
        return x
    return poprand.dropout(graph, seed, layer, x, x, 0.5, 2.0, program)


# %% 08.6: chance of the host
# not yet: the same mask for all seeds
def drop(graph, x, seed, kind, layer, program):
    mask = np.random.default_rng(layer).integers(0, 2, x.shape) * 2
    other = graph.add_constant(FLOAT, x.shape, mask, "mask")
    graph.set_tile_mapping(other, graph.get_tile_mapping(x))
    return popops.mul(graph, x, other, program)


# %% 08.6: without the seed
# clause: and other seeds
# not yet: pass `seed` to each draw
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, None, layer, x, x, 0.5, 2.0, program)


# %% 08.6: nothing is returned
# clause: return the tensor
# not yet: is there a `return`?
def drop(graph, x, seed, kind, layer, program):
    poprand.dropout(graph, seed, layer, x, x, 0.5, 2.0, program)
