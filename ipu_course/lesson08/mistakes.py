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
# why:  there it is read for the first time, by its forward.
# next: take the largest of the places.
def last_read(steps, layer):
    return min(place for place, (kind, i) in enumerate(steps) if i == layer)


# %% 08.w1: counted from 1
# clause: counted from 0
# why:  places are counted from 0.
# next: enumerate(steps) does so by itself.
def last_read(steps, layer):
    return max(place for place, (kind, i) in enumerate(steps, 1) if i == layer)


# %% 08.w1: where it is made
# clause: the last step that reads
# why:  there it is made for the last time: by the layer before it.
# next: look for the steps whose layer is `layer`: they read its input.
def last_read(steps, layer):
    makes = [p for p, (kind, i) in enumerate(steps) if kind != "backward" and i + 1 == layer]
    return max(makes, default=0)


# %% 08.w1: its last forward
# why:  there it is read for the last time on the way forward, or in recomputation. Its backward
#   reads it later.
# next: look at the steps of every kind.
def last_read(steps, layer):
    return max(p for p, (kind, i) in enumerate(steps) if i == layer and kind != "backward")


# %% 08.w1: how often
# why:  so many steps read it. Asked is where the last of them stands.
# next: keep the places, and take the largest.
def last_read(steps, layer):
    return sum(i == layer for kind, i in steps)


# %% 08.w1: from the end
# why:  this counts from the end of the list.
# next: len(steps) - 1 less that.
def last_read(steps, layer):
    return [i for _, i in reversed(steps)].index(layer)


# %% 08.w1: one too early
# why:  this is the place before: its own backward reads the input, too.
# next: the backward of the layer is the last one.
def last_read(steps, layer):
    return steps.index(("backward", layer)) - 1


# %% 08.1: only what the step touches
# clause: In memory are what the step reads, what it makes
# why:  only what the step itself reads and makes is counted. What a later step reads is there, too.
# next: go through the list from its end, with a set of what later steps read.
def alive(steps, sizes):
    held = []
    for kind, layer in steps:
        here = {layer} if kind == "backward" else {layer, layer + 1}
        held.append(sum(sizes[i] for i in here if i < len(sizes)))
    return held


# %% 08.1: nothing is ever forgotten
# why:  nothing is ever forgotten here. After its last read an input is not in memory any more.
# next: leave an input out of every step after its last read.
def alive(steps, sizes):
    here, held = {0}, []
    for kind, layer in steps:
        if kind != "backward" and layer + 1 < len(sizes):
            here.add(layer + 1)
        held.append(sum(sizes[i] for i in here))
    return held


# %% 08.1: from first to last
# why:  each is counted from when it is made first to its last read. One that is made anew is not
#   there in between.
# next: go from the last step to the first, and before a step leave out what it makes.
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
# why:  an input is forgotten here once the next one is made. If nobody makes it anew, its backward
#   misses it.
# next: look for the last step that reads it.
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
# why:  the input of layer 0 is missing. It is there from the start, until its backward.
# next: it is made by nobody, and read like the others.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        here = needed | {layer}
        held.append(sum(sizes[i] for i in here if i))
        needed = here if kind == "backward" else here - {layer + 1}
    return held[::-1]


# %% 08.1: the output of the last layer, too
# why:  the last forward also counts what it makes. That is nobody's input, and does not count.
# next: the output of the last layer has no size: add up the inputs of layers alone.
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
# why:  that is how many there are. Asked is their size.
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
# why:  this is what is there after each step. While it runs, what it reads is there still.
# next: add what the step reads.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        held.append(sum(sizes[i] for i in needed))
        needed = needed | {layer} if kind == "backward" else (needed | {layer}) - {layer + 1}
    return held[::-1]


# %% 08.1: before each step
# why:  this is what is there before each step. While it runs, what it makes needs a place.
# next: add up first, then take out what the step makes.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        needed = (needed | {layer}) - (set() if kind == "backward" else {layer + 1})
        held.append(sum(sizes[i] for i in needed))
    return held[::-1]


# %% 08.1: the last step first
# why:  the numbers are right, and their order is turned round.
# next: who goes through a list from its end has to turn the result round.
def alive(steps, sizes):
    needed, held = set(), []
    for kind, layer in reversed(steps):
        here = needed | {layer}
        held.append(sum(sizes[i] for i in here))
        needed = here if kind == "backward" else here - {layer + 1}
    return held


# %% 08.1: the peak alone
# clause: for each step the sizes
# not yet: is not a row of numbers
def alive(steps, sizes):
    return str(max(sizes))


# %% 08.2: the kept one counted twice
# why:  in the most at once a kept input is counted twice: it is the first of its segment.
# next: a segment brings k - 1 inputs besides the kept one.
def price(layers, every):
    return layers // every + every, (layers // every - 1) * (every - 1)


# %% 08.2: the last segment again
# why:  the last segment is computed again here, too. Its inputs are there when backward begins.
# next: count layers / every - 1 segments, each with every - 1 layers.
def price(layers, every):
    return layers // every + every - 1, layers - layers // every


# %% 08.2: the kept ones alone
# why:  the most at once are the kept inputs alone here. While backward goes through a segment, that
#   is there whole.
# next: add the others of one segment.
def price(layers, every):
    return layers // every, (layers // every - 1) * (every - 1)


# %% 08.2: a segment alone
# clause: how many inputs are in memory at once
# why:  the most at once is one segment here. The kept inputs of all others are there, too.
# next: add the kept inputs of the other segments, which are there at the end of the forward.
def price(layers, every):
    return every, (layers // every - 1) * (every - 1)


# %% 08.2: whole segments
# clause: how many layers are computed again
# why:  each segment is computed again whole here. Its first input is kept, so its last layer, which
#   makes the next kept one, need not be computed again.
# next: count k - 1 layers for a segment of k: as many inputs were forgotten.
def price(layers, every):
    return layers // every + every - 1, layers - every


# %% 08.2: from the kept one for each
# why:  each forgotten input is computed from the kept one anew here. On the way to the last of them
#   the others are made, too.
# next: make a segment again once, and go backward through it.
def price(layers, every):
    segments = layers // every
    return segments + every - 1, (segments - 1) * every * (every - 1) // 2


# %% 08.2: all are there
# clause: every k-th input is kept
# why:  the most at once is all of them here, as if nothing were forgotten.
# next: count the kept ones, and one segment.
def price(layers, every):
    return layers, (layers // every - 1) * (every - 1)


# %% 08.2: in the other order
# clause: (the most inputs at once, the layers computed again)
# why:  the two have changed places.
# next: the inputs first, then the layers.
def price(layers, every):
    return (layers // every - 1) * (every - 1), layers // every + every - 1


# %% 08.2: one number
# not yet: one number, 8
def price(layers, every):
    return layers // every + every - 1


# %% 08.2: the larger of the two
# why:  this takes the kept inputs or a segment, whichever is more. Both are there at once.
# next: add them, and count the segment's first input once.
def price(layers, every):
    segments = layers // every
    return max(segments, every), (segments - 1) * (every - 1)


# %% 08.2: two too few
# why:  one is in both, the kept inputs and the segment, and here it is taken off twice.
# next: L / k + k - 1.
def price(layers, every):
    segments = layers // every
    return segments + every - 2, (segments - 1) * (every - 1)


# %% 08.2: one kept layer too many
# why:  the first number is right. Of the layers, the kept ones and the last segment are taken off
#   here, and the input with which that segment begins is in both.
# next: of each segment but the last, all layers but one are computed again.
def price(layers, every):
    segments = layers // every
    return segments + every - 1, layers - segments - every


# %% 08.3: nothing is computed again
# clause: without `recompute`
# why:  nothing is computed again here. What was forgotten in forward is missing in backward.
# next: before a segment goes backward, its inputs have to be made: "recompute".
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    return steps + [("backward", i) for i in reversed(range(layers))]


# %% 08.3: the last segment, too
# clause: whose output is still there
# why:  the last segment is computed again, and all of it is there still. That costs cycles for
#   nothing.
# next: leave out recomputation where a segment ends with the last layer.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: from the kept one for each
# why:  for each backward the way from the kept input is gone anew. What was computed again is there
#   still: cycles grow with the square of a segment.
# next: go that way once for a segment.
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
# why:  here the way is gone from layer 0 on, past inputs that are kept.
# next: begin at the last kept input before the segment.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: all at once, before backward
# why:  everything is computed again before backward begins. So all inputs are in memory once more.
# next: compute a segment again just before it goes backward.
def schedule(layers, keep):
    starts = sorted({0, *keep})
    steps = [("forward", i) for i in range(layers)]
    for start, end in reversed(list(pairwise(starts))):
        steps += [("recompute", i) for i in range(start, end - 1)]
    return steps + [("backward", i) for i in reversed(range(layers))]


# %% 08.3: without layer 0
# clause: The input of layer 0 is kept always.
# why:  what lies before the first of `keep` is a segment, too. The input of layer 0 is there.
# next: let the first segment begin at 0, whether `keep` has it or not.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted(keep)
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps + [("backward", i) for i in reversed(range(starts[0]))]


# %% 08.3: forward through a segment
# why:  within a segment backward goes from its first layer to its last here.
# next: reversed(range(start, end)).
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in range(start, end)]
    return steps


# %% 08.3: the segments from the front
# why:  the segments go backward from the first to the last here. The slope begins at the end of the
#   chain.
# next: turn the list of segments round.
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in pairwise([*starts, layers]):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 1)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: as they come in keep
# clause: an input is forgotten
# why:  the kept layers are taken in the order in which they stand in `keep`.
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
# why:  the last layer of a segment is computed again, too. It makes a kept input, whose backward is
#   done.
# next: end at end - 2: range(start, end - 1).
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: one too few
# why:  the input of a segment's last layer is not made again.
# next: the input of end - 1 is made by layer end - 2: range(start, end - 1).
def schedule(layers, keep):
    steps = [("forward", i) for i in range(layers)]
    starts = sorted({0, *keep})
    for start, end in reversed(list(pairwise([*starts, layers]))):
        if end < layers:
            steps += [("recompute", i) for i in range(start, end - 2)]
        steps += [("backward", i) for i in reversed(range(start, end))]
    return steps


# %% 08.3: called forward
# why:  what is computed again is called "forward" here.
# next: call it "recompute".
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
# clause: and a layer
# not yet: a pair of forward, recompute, backward and a layer from 0 to 6
def schedule(layers, keep):
    return list(range(layers)) + list(reversed(range(layers)))


# %% 08.3: backward alone
# clause: return the list
# why:  the forward is missing: the list begins with the backward.
# next: all layers go forward first.
def schedule(layers, keep):
    steps = []
    for start, end in reversed([*pairwise([*sorted({0, *keep}), layers])]):
        steps += [("recompute", layer) for layer in range(start, end - 1) if end < layers]
        steps += [("backward", layer) for layer in reversed(range(start, end))]
    return steps


# %% 08.3: the library's list
# not yet: the list is the library's
def schedule(layers, keep):
    return [tuple(step) for step in recompute(layers, keep)]


# %% 08.4: evenly spaced
# why:  these are evenly spaced by their number. These layers differ in size.
# next: try other ways, with the sizes in hand.
def place(sizes, k):
    every = -(-len(sizes) // k)
    return list(range(0, len(sizes), every))


# %% 08.4: the smallest
# why:  these inputs are the smallest. What lies between two kept ones must fit, too, and between
#   these it is too much.
# next: ask alive() what a way needs at most.
def place(sizes, k):
    others = sorted(range(1, len(sizes)), key=lambda i: sizes[i])
    return [0, *others[: k - 1]]


# %% 08.4: the largest
# why:  the largest inputs are kept here, all the time. What is kept should be small.
# next: keep few bytes, and let the large ones be made again.
def place(sizes, k):
    others = sorted(range(1, len(sizes)), key=lambda i: -sizes[i])
    return [0, *others[: k - 1]]


# %% 08.4: the first ones
# why:  the first layers are kept, and all that follows is one segment.
# next: cut where the segments become small.
def place(sizes, k):
    return list(range(min(k, len(sizes))))


# %% 08.4: the last ones
# why:  the last layers are kept, and all that stands before them is one segment.
# next: cut where the segments become small.
def place(sizes, k):
    return [0, *range(max(1, len(sizes) - k + 1), len(sizes))]


# %% 08.4: segments of equal size
# why:  all segments are about equally large here. Beside a late one more is kept, and a kept input
#   counts, too.
# next: the most at once is what counts: max(alive(…)).
def place(sizes, k):
    total, keep = sum(sizes), [0]
    for part in range(1, k):
        sums = [sum(sizes[:i]) for i in range(len(sizes))]
        keep.append(min(range(len(sizes)), key=lambda i: abs(sums[i] - total * part / k)))
    return keep


# %% 08.4: kept and largest segment
# why:  this takes all kept inputs and the largest segment together. While an early segment goes
#   backward, the kept inputs after it are gone.
# next: go through the steps: max(alive(schedule(n, keep), sizes)).
def place(sizes, k):
    def guess(keep):
        largest = max(sum(sizes[a + 1 : b]) for a, b in pairwise([*keep, len(sizes)]))
        return sum(sizes[i] for i in keep) + largest

    ways = [[0, *more] for more in combinations(range(1, len(sizes)), min(k, len(sizes)) - 1)]
    return min(ways, key=guess)


# %% 08.4: the sum over all steps
# clause: as little as possible is in memory at the fullest moment
# why:  this makes the sum over all steps least. What has to fit is the fullest of them.
# next: max(alive(…)) in place of sum(alive(…)).
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
# why:  this takes the best layer, and to that the best next one. The best two together may be
#   others.
# next: try whole ways: combinations(range(1, n), k - 1).
def place(sizes, k):
    keep, n = [0], len(sizes)
    while len(keep) < min(k, n):
        others = [i for i in range(1, n) if i not in keep]
        keep.append(min(others, key=lambda i: max(alive(schedule(n, [*keep, i]), sizes))))
    return keep


# %% 08.4: as if all were equal
# clause: are the sizes of the inputs
# why:  this is the best way for layers of one size. These differ.
# next: give alive the sizes.
def place(sizes, k):
    n = len(sizes)
    ways = [[0, *more] for more in combinations(range(1, n), min(k, n) - 1)]
    return min(ways, key=lambda keep: max(alive(schedule(n, keep), [1] * n)))


# %% 08.5: all of them
# why:  all inputs are kept, whatever the room.
# next: compute max(alive(…)) for every spacing, and leave out those above `room`.
def keep_for(layers, room):
    return range(layers)


# %% 08.5: only the first
# why:  only the input of layer 0 is kept, so that the whole chain is one segment: all of it is
#   there when backward begins.
# next: keep some between.
def keep_for(layers, room):
    return [0]


# %% 08.5: as many as there is room for
# why:  as many inputs are kept as there is room for. What is computed again needs room, too.
# next: L / k + k - 1 have to fit, and not L / k.
def keep_for(layers, room):
    return range(0, layers, -(-layers // room))


# %% 08.5: segments as large as the room
# clause: at most `room` inputs may be in memory at once
# why:  the segments are as large as the room. The other kept inputs need some of it, too.
# next: L / k + k - 1 have to fit, and not k.
def keep_for(layers, room):
    return range(0, layers, min(room, layers))


# %% 08.5: the least memory
# clause: compute no more layers again than the best of those
# why:  this is the spacing that needs least memory, near the square root. There is room for more,
#   and then fewer layers are computed again.
# next: of those that fit, take the one that computes least again.
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
# why:  this is the smallest spacing that fits. A larger one may compute less again: if its last
#   segment is longer, more is there still.
# next: try all spacings.
def keep_for(layers, room):
    for k in range(1, layers + 1):
        if max(alive(schedule(layers, range(0, layers, k)), [1] * layers)) <= room:
            return range(0, layers, k)


# %% 08.5: the kept one counted twice
# why:  a kept input is counted twice here, so that spacings which would fit are left out.
# next: max(alive(…)) counts each once.
def keep_for(layers, room):
    for k in range(1, layers + 1):
        if k == 1 and layers <= room or k > 1 and -(-layers // k) + k <= room:
            return range(0, layers, k)
    return range(0, layers, round(layers**0.5))


# %% 08.5: every second, always
# why:  every second input is kept, whatever the room.
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
# clause: The layers whose inputs are kept
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
# why:  this is the largest spacing that fits. A smaller one computes less again.
# next: of those that fit, take the one with the fewest "recompute" steps.
def keep_for(layers, room):
    for k in range(layers, 0, -1):
        if max(alive(schedule(layers, range(0, layers, k)), [1] * layers)) <= room:
            return range(0, layers, k)


# %% 08.5: the square root
# why:  the square root of the number of layers is the spacing that needs least memory, and here
#   there may be more room, or all may fit.
# next: try all spacings.
def keep_for(layers, room):
    return range(0, layers, int(layers**0.5))


# %% 08.5: 08.2's formula for any spacing
# why:  the formula of 08.2 holds where k divides the number of layers. Here it need not.
# next: count: alive(schedule(…)) is right for any spacing.
def keep_for(layers, room):
    best = None
    for k in range(1, layers + 1):
        most, again = layers // k + k - 1, (layers // k - 1) * (k - 1)
        if most <= room and (best is None or again < best[0]):
            best = again, k
    return range(0, layers, best[1])


# %% 08.5: the first by 08.2's formula
# why:  L // k + k - 1 rounds down where k does not divide the number of layers. More inputs than
#   that are in memory.
# next: count: max(alive(schedule(…), …)) is right for any spacing.
def keep_for(layers, room):
    for every in range(1, layers + 1):
        if layers // every + every - 1 <= room:
            return list(range(0, layers, every))


# %% 08.5: room to spare
# why:  a spacing that needs all of the room is left out here, and it fits.
# next: <= room.
def keep_for(layers, room):
    ways = []
    for every in range(1, layers + 1):
        steps = schedule(layers, range(0, layers, every))
        if max(alive(steps, [1] * layers)) < room:
            ways.append((len(steps), every))
    return list(range(0, layers, min(ways)[1])) if ways else [0]


# %% 08.5: spacings up to the root
# why:  only spacings up to the square root of the layers were tried. A larger one may compute fewer
#   layers again.
# next: try all spacings, from 1 to layers.
def keep_for(layers, room):
    ways = []
    for every in range(1, int(layers**0.5) + 1):
        steps = schedule(layers, range(0, layers, every))
        if max(alive(steps, [1] * layers)) <= room:
            ways.append((len(steps), every))
    return list(range(0, layers, min(ways)[1]))


# %% 08.5: only spacings that divide
# error in the answer: it had nothing left to choose from
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
# not yet: who goes back through it drops other numbers
def drop(graph, x, seed, kind, layer, program):
    modifier = layer + 100 if kind == "backward" else layer
    return poprand.dropout(graph, seed, modifier, x, x, 0.5, 2.0, program)


# %% 08.6: the seed is counted on
# not yet: draw with the seed as it is
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
# not yet: layers 0 and 8 drop the same places
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
# not yet: the others count twice
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
# not yet: give `seed` to each draw
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, None, layer, x, x, 0.5, 2.0, program)


# %% 08.6: nothing is returned
# clause: return the tensor
# not yet: is there a `return`?
def drop(graph, x, seed, kind, layer, program):
    poprand.dropout(graph, seed, layer, x, x, 0.5, 2.0, program)
