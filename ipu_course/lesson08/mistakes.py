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
# why:  indices are counted from 0, and this counts from 1.
# next: use enumerate(steps), which counts from 0.
def last_read(steps, layer):
    return max(place for place, (kind, i) in enumerate(steps, 1) if i == layer)


# %% 08.w1: where it is made
# clause: the last step that reads
# why:  this is the step that computes the input for the last time: a step of the layer before it.
# next: look for the steps whose layer is `layer`: they read its input.
def last_read(steps, layer):
    makes = [p for p, (kind, i) in enumerate(steps) if kind != "backward" and i + 1 == layer]
    return max(makes, default=0)


# %% 08.w1: its last forward
# why:  this is the last read by a forward or recompute step. The backward step of the layer reads
#   the input later.
# next: include the steps of every kind.
def last_read(steps, layer):
    return max(p for p, (kind, i) in enumerate(steps) if i == layer and kind != "backward")


# %% 08.w1: how often
# why:  this is the number of steps that read the input. The exercise asks for the index of the last
#   one.
# next: collect the indices, and return the largest.
def last_read(steps, layer):
    return sum(i == layer for kind, i in steps)


# %% 08.w1: from the end
# why:  this counts the steps from the end of the list.
# next: return len(steps) - 1 - this number.
def last_read(steps, layer):
    return [i for _, i in reversed(steps)].index(layer)


# %% 08.w1: one too early
# why:  this is one step before the last read: the backward step of the layer reads the input, too.
# next: return the index of the layer's backward step.
def last_read(steps, layer):
    return steps.index(("backward", layer)) - 1


# %% 08.1: only what the step touches
# clause: In memory are the input that the step reads, the input that it computes
# why:  this counts only the inputs that the step itself reads and computes. Inputs that a later
#   step reads are also in memory.
# next: go through the list from its end, with a set of the inputs that later steps read.
def alive(steps, sizes):
    held = []
    for kind, layer in steps:
        here = {layer} if kind == "backward" else {layer, layer + 1}
        held.append(sum(sizes[i] for i in here if i < len(sizes)))
    return held


# %% 08.1: nothing is ever forgotten
# why:  no input ever leaves the memory here. An input is no longer in memory after its last read.
# next: leave an input out of every step after its last read.
def alive(steps, sizes):
    here, held = {0}, []
    for kind, layer in steps:
        if kind != "backward" and layer + 1 < len(sizes):
            here.add(layer + 1)
        held.append(sum(sizes[i] for i in here))
    return held


# %% 08.1: from first to last
# why:  this counts each input from its first computation to its last read. An input that is
#   recomputed is not in memory in between.
# next: go from the last step to the first, and take out the input that a step computes before you
#   go on to the step before it.
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
# why:  this discards an input as soon as the next one is computed. If no step recomputes the input,
#   its backward step still needs it.
# next: look for the last step that reads the input.
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
# why:  the input of layer 0 is missing. It is in memory from the start until its backward step.
# next: treat the input of layer 0 like the others: no step computes it, but steps read it.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        here = needed | {layer}
        held.append(sum(sizes[i] for i in here if i))
        needed = here if kind == "backward" else here - {layer + 1}
    return held[::-1]


# %% 08.1: the output of the last layer, too
# why:  the last forward step also counts the output that it computes. That output is nobody's
#   input, and does not count.
# next: add up the inputs of the layers only: the output of the last layer has no entry in `sizes`.
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
# why:  this is the number of inputs in memory. The exercise asks for their total size.
# next: add up sizes[i].
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        here = needed | {layer}
        held.append(len(here))
        needed = here if kind == "backward" else here - {layer + 1}
    return held[::-1]


# %% 08.1: after each step
# clause: is nobody's input, and does not count
# why:  this is the memory after each step. While the step runs, the input that it reads is in
#   memory, too.
# next: add the input that the step reads.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        held.append(sum(sizes[i] for i in needed))
        needed = needed | {layer} if kind == "backward" else (needed | {layer}) - {layer + 1}
    return held[::-1]


# %% 08.1: before each step
# why:  this is the memory before each step. While the step runs, the input that it computes needs
#   memory, too.
# next: add up first, then take out the input that the step computes.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        needed = (needed | {layer}) - (set() if kind == "backward" else {layer + 1})
        held.append(sum(sizes[i] for i in needed))
    return held[::-1]


# %% 08.1: the last step first
# why:  the numbers are right, but in reverse order.
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
# why:  the first number counts one saved input twice: it is also the first input of its segment.
# next: count k - 1 more inputs for the segment.
def price(layers, every):
    return layers // every + every, (layers // every - 1) * (every - 1)


# %% 08.2: the last segment again
# why:  the second number includes the last segment. Its inputs are in memory when the backward pass
#   begins.
# next: count layers / every - 1 segments, with every - 1 layers each.
def price(layers, every):
    return layers // every + every - 1, layers - layers // every


# %% 08.2: the kept ones alone
# why:  the first number has only the saved inputs. While the backward pass goes through a segment,
#   all inputs of that segment are in memory.
# next: add the other inputs of one segment.
def price(layers, every):
    return layers // every, (layers // every - 1) * (every - 1)


# %% 08.2: a segment alone
# clause: How many inputs are in memory at once
# why:  the first number has only the inputs of one segment. The saved inputs of the other segments
#   are in memory, too.
# next: add the saved inputs of the other segments.
def price(layers, every):
    return every, (layers // every - 1) * (every - 1)


# %% 08.2: whole segments
# clause: how many layers are recomputed
# why:  the second number has all layers of a segment. The first input is saved, and the last layer
#   would compute the next saved input, so it is not recomputed.
# next: count k - 1 layers for a segment of k layers: one for each discarded input.
def price(layers, every):
    return layers // every + every - 1, layers - every


# %% 08.2: from the kept one for each
# why:  this recomputes each discarded input separately, from the saved input. On the way to the
#   last one, the others are computed, too.
# next: recompute a segment once, and then go backward through it.
def price(layers, every):
    segments = layers // every
    return segments + every - 1, (segments - 1) * every * (every - 1) // 2


# %% 08.2: all are there
# clause: every k-th input is saved
# why:  the first number has all inputs, as if none were discarded.
# next: count the saved inputs and the other inputs of one segment.
def price(layers, every):
    return layers, (layers // every - 1) * (every - 1)


# %% 08.2: in the other order
# clause: (the most inputs at once, the number of recomputed layers)
# why:  the two numbers are in the wrong order.
# next: return the inputs first, then the layers.
def price(layers, every):
    return (layers // every - 1) * (every - 1), layers // every + every - 1


# %% 08.2: one number
# not yet: one number, 8
def price(layers, every):
    return layers // every + every - 1


# %% 08.2: the larger of the two
# why:  this takes the saved inputs or a segment, whichever is larger. Both are in memory at once.
# next: add them, and count the first input of the segment once.
def price(layers, every):
    segments = layers // every
    return max(segments, every), (segments - 1) * (every - 1)


# %% 08.2: two too few
# why:  one input is both a saved input and part of the segment, and this subtracts it twice.
# next: return L / k + k - 1.
def price(layers, every):
    segments = layers // every
    return segments + every - 2, (segments - 1) * (every - 1)


# %% 08.2: one kept layer too many
# why:  the first number is right. The second one subtracts the saved layers and the last segment,
#   but the first layer of that segment is in both.
# next: count all layers but one in each segment, except in the last segment.
def price(layers, every):
    segments = layers // every
    return segments + every - 1, layers - segments - every


# %% 08.3: nothing is computed again
# clause: without `recompute`
# why:  nothing is recomputed here, so the backward steps miss the inputs that were discarded.
# next: before a segment goes backward, add "recompute" steps for its inputs.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    return steps + [("backward", i) for i in reversed(range(layers))]


# %% 08.3: the last segment, too
# clause: whose output is still in memory
# why:  the last segment is recomputed, but all of its inputs are still in memory. The cycles are
#   wasted.
# next: leave out the recomputation of the segment that ends with the last layer.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: from the kept one for each
# why:  each backward step recomputes everything from the saved input. The inputs from the previous
#   recomputation are still in memory, so the cycles grow with the square of a segment's length.
# next: recompute a segment once.
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
# next: begin with the last saved input before the segment.
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
# why:  everything is recomputed before the backward pass begins, so all inputs are in memory again.
# next: recompute a segment just before its backward steps.
def schedule(layers, keep):
    starts = sorted({0, *keep})
    steps = [("forward", i) for i in range(layers)]
    for start, end in reversed(list(pairwise(starts))):
        steps += [("recompute", i) for i in range(start, end - 1)]
    return steps + [("backward", i) for i in reversed(range(layers))]


# %% 08.3: without layer 0
# clause: The input of layer 0 is always saved.
# why:  the layers before the first one in `keep` are a segment, too. The input of layer 0 is saved.
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
# why:  within a segment, the backward steps go from its first layer to its last.
# next: use reversed(range(start, end)).
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in range(start, end)]
    return steps


# %% 08.3: the segments from the front
# why:  the segments go backward from the first to the last. The gradient starts at the end of the
#   chain.
# next: reverse the list of segments.
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
# next: sort them first.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = [0, *(i for i in keep if i)]
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: one too many
# why:  the last layer of a segment is recomputed, too. It computes a saved input whose backward
#   step is done.
# next: end at layer end - 2: range(start, end - 1).
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
# next: add layer end - 2, which computes the input of layer end - 1: range(start, end - 1).
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 2)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: called forward
# why:  the recomputation steps are called "forward" here.
# next: call them "recompute".
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


# %% 08.4: evenly spaced
# why:  these layers are evenly spaced by number, but the layers differ in size.
# next: try other choices, and compare their memory.
def place(sizes, k):
    every = -(-len(sizes) // k)
    return list(range(0, len(sizes), every))


# %% 08.4: the smallest
# why:  these inputs are the smallest. But the inputs between two saved ones must fit into memory,
#   too, and some of these segments are too large.
# next: compute the memory of a choice with alive().
def place(sizes, k):
    others = sorted(range(1, len(sizes)), key=lambda i: sizes[i])
    return [0, *others[: k - 1]]


# %% 08.4: the largest
# why:  this saves the largest inputs, which then stay in memory all the time.
# next: save small inputs, and recompute the large ones.
def place(sizes, k):
    others = sorted(range(1, len(sizes)), key=lambda i: -sizes[i])
    return [0, *others[: k - 1]]


# %% 08.4: the first ones
# why:  this saves the inputs of the first layers, and all later layers are one segment.
# next: divide the chain so that the segments become small.
def place(sizes, k):
    return list(range(min(k, len(sizes))))


# %% 08.4: the last ones
# why:  this saves the inputs of the last layers, and all layers before them are one segment.
# next: divide the chain so that the segments become small.
def place(sizes, k):
    return [0, *range(max(1, len(sizes) - k + 1), len(sizes))]


# %% 08.4: segments of equal size
# why:  all segments have about the same size. But beside a late segment more inputs are saved, and
#   the saved inputs count, too.
# next: minimise the peak: max(alive(…)).
def place(sizes, k):
    total, keep = sum(sizes), [0]
    for part in range(1, k):
        sums = [sum(sizes[:i]) for i in range(len(sizes))]
        keep.append(min(range(len(sizes)), key=lambda i: abs(sums[i] - total * part / k)))
    return keep


# %% 08.4: kept and largest segment
# why:  this adds all saved inputs to the largest segment. While an early segment goes backward, the
#   saved inputs after it are no longer in memory.
# next: go through the steps: max(alive(schedule(n, keep), sizes)).
def place(sizes, k):
    def guess(keep):
        largest = max(sum(sizes[a + 1 : b]) for a, b in pairwise([*keep, len(sizes)]))
        return sum(sizes[i] for i in keep) + largest

    ways = [[0, *more] for more in combinations(range(1, len(sizes)), min(k, len(sizes)) - 1)]
    return min(ways, key=guess)


# %% 08.4: the sum over all steps
# clause: the peak memory is as low as possible
# why:  this minimises the sum over all steps. The peak has to be as low as possible.
# next: use max(alive(…)) in place of sum(alive(…)).
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
# why:  this chooses the best layer, then the best second layer for it. The best pair may contain
#   neither.
# next: try whole choices: combinations(range(1, n), k - 1).
def place(sizes, k):
    keep, n = [0], len(sizes)
    while len(keep) < min(k, n):
        others = [i for i in range(1, n) if i not in keep]
        keep.append(min(others, key=lambda i: max(alive(schedule(n, [*keep, i]), sizes))))
    return keep


# %% 08.4: as if all were equal
# clause: has the sizes of the inputs
# why:  this is the best choice for layers of equal size. These layers differ.
# next: pass the sizes to alive.
def place(sizes, k):
    n = len(sizes)
    ways = [[0, *more] for more in combinations(range(1, n), min(k, n) - 1)]
    return min(ways, key=lambda keep: max(alive(schedule(n, keep), [1] * n)))


# %% 08.5: all of them
# why:  all inputs are saved, whatever `room` is.
# next: compute max(alive(…)) for every spacing, and leave out those above `room`.
def keep_for(layers, room):
    return range(layers)


# %% 08.5: only the first
# why:  only the input of layer 0 is saved, so the whole chain is one segment, and all of its inputs
#   are in memory when the backward pass begins.
# next: save more inputs.
def keep_for(layers, room):
    return [0]


# %% 08.5: as many as there is room for
# why:  this saves as many inputs as fit. The inputs that are recomputed need memory, too.
# next: make L / k + k - 1 fit, not L / k.
def keep_for(layers, room):
    return range(0, layers, -(-layers // room))


# %% 08.5: segments as large as the room
# clause: at most `room` inputs may be in memory at once
# why:  each segment alone fills the room. The other saved inputs need memory, too.
# next: make L / k + k - 1 fit, not k.
def keep_for(layers, room):
    return range(0, layers, min(room, layers))


# %% 08.5: the least memory
# clause: Recompute no more layers than the best even spacing that fits.
# why:  this spacing needs the least memory, near the square root. A spacing that uses more of the
#   room recomputes fewer layers.
# next: of the spacings that fit, return the one that recomputes least.
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
# why:  this is the smallest spacing that fits. A larger one can recompute less: if its last segment
#   is longer, more inputs are still in memory.
# next: try all spacings.
def keep_for(layers, room):
    for k in range(1, layers + 1):
        if max(alive(schedule(layers, range(0, layers, k)), [1] * layers)) <= room:
            return range(0, layers, k)


# %% 08.5: the kept one counted twice
# why:  this counts a saved input twice, so it rejects spacings that would fit.
# next: use max(alive(…)), which counts each input once.
def keep_for(layers, room):
    for k in range(1, layers + 1):
        if k == 1 and layers <= room or k > 1 and -(-layers // k) + k <= room:
            return range(0, layers, k)
    return range(0, layers, round(layers**0.5))


# %% 08.5: every second, always
# why:  every second input is saved, whatever `room` is.
# next: try the other spacings, too.
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
# why:  this is the largest spacing that fits. A smaller one recomputes less.
# next: of the spacings that fit, take the one with the fewest "recompute" steps.
def keep_for(layers, room):
    for k in range(layers, 0, -1):
        if max(alive(schedule(layers, range(0, layers, k)), [1] * layers)) <= room:
            return range(0, layers, k)


# %% 08.5: the square root
# why:  the square root of the number of layers is the spacing with the least memory. Here there may
#   be more room, and a spacing that recomputes less may fit.
# next: try all spacings.
def keep_for(layers, room):
    return range(0, layers, int(layers**0.5))


# %% 08.5: 08.2's formula for any spacing
# why:  the formula of 08.2 holds if k divides the number of layers. Here it need not.
# next: count with alive(schedule(…)), which is right for any spacing.
def keep_for(layers, room):
    best = None
    for k in range(1, layers + 1):
        most, again = layers // k + k - 1, (layers // k - 1) * (k - 1)
        if most <= room and (best is None or again < best[0]):
            best = again, k
    return range(0, layers, best[1])


# %% 08.5: the first by 08.2's formula
# why:  L // k + k - 1 rounds down if k does not divide the number of layers. Then more inputs than
#   that are in memory.
# next: count with max(alive(schedule(…), …)), which is right for any spacing.
def keep_for(layers, room):
    for every in range(1, layers + 1):
        if layers // every + every - 1 <= room:
            return list(range(0, layers, every))


# %% 08.5: room to spare
# why:  a spacing that needs exactly `room` inputs is left out here, but it fits.
# next: use <= room.
def keep_for(layers, room):
    ways = []
    for every in range(1, layers + 1):
        steps = schedule(layers, range(0, layers, every))
        if max(alive(steps, [1] * layers)) < room:
            ways.append((len(steps), every))
    return list(range(0, layers, min(ways)[1])) if ways else [0]


# %% 08.5: spacings up to the root
# why:  only spacings up to the square root of the number of layers are tried. A larger one may
#   recompute fewer layers.
# next: try all spacings, from 1 to layers.
def keep_for(layers, room):
    ways = []
    for every in range(1, int(layers**0.5) + 1):
        steps = schedule(layers, range(0, layers, every))
        if max(alive(steps, [1] * layers)) <= room:
            ways.append((len(steps), every))
    return list(range(0, layers, min(ways)[1]))


# %% 08.5: only spacings that divide
# error in the answer: the call had no values to choose from
def keep_for(layers, room):
    ways = [
        (len(steps), every)
        for every in range(1, layers + 1)
        if layers % every == 0
        and max(alive(steps := schedule(layers, range(0, layers, every)), [1] * layers)) <= room
    ]
    return list(range(0, layers, min(ways)[1]))


# %% 08.6: a number for each call
# clause: The same layer drops the same
# not yet: recompute 0 drops others than forward 0
calls = []


def drop(graph, x, seed, kind, layer, program):
    calls.append(kind)
    return poprand.dropout(graph, seed, len(calls), x, x, 0.5, 2.0, program)


# %% 08.6: one for all layers
# not yet: one mask for all layers
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, 1, x, x, 0.5, 2.0, program)


# %% 08.6: another one backward
# not yet: the backward step drops other numbers
def drop(graph, x, seed, kind, layer, program):
    modifier = layer + 100 if kind == "backward" else layer
    return poprand.dropout(graph, seed, modifier, x, x, 0.5, 2.0, program)


# %% 08.6: the seed is counted on
# not yet: leave the seed as it is
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
# not yet: layers 0 and 8 drop the same elements
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, layer % 8, x, x, 0.5, 2.0, program)


# %% 08.6: half of the seed
# not yet: another seed drops the same numbers
def drop(graph, x, seed, kind, layer, program):
    from ipu_teach import concat

    half = concat([seed[:1], seed[:1]])
    return poprand.dropout(graph, half, layer, x, x, 0.5, 2.0, program)


# %% 08.6: a little less than half
# not yet: 44.9 % of 14,040 numbers are kept
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, layer, x, x, 0.45, 2.0, program)


# %% 08.6: not doubled
# clause: the others doubled
# not yet: Doubling the others keeps the mean
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, layer, x, x, 0.5, 1.0, program)


# %% 08.6: a quarter is kept
# clause: half of its numbers 0
# not yet: keeps 27 % of the numbers
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, layer, x, x, 0.25, 2.0, program)


# %% 08.6: backward drops nothing
# not yet: backward 2 drops nothing
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
