# %% given
"""Mistakes of lesson 08 written otherwise."""


# %% 08.w1: from the end
# passed: sets of numbers
def last_read(steps, layer):
    place = len(steps) - 1
    while steps[place][1] != layer:
        place -= 1
    return place


# %% 08.w1: its backward
# passed: sets of numbers
def last_read(steps, layer):
    return steps.index(("backward", layer))


# %% 08.w1: with numpy
# passed: sets of numbers
def last_read(steps, layer):
    return np.flatnonzero([i == layer for _, i in steps])[-1]


# %% 08.w1: place and one
# like: counted from 1
def last_read(steps, layer):
    place = len(steps)
    while steps[place - 1][1] != layer:
        place -= 1
    return place


# %% 08.w1: its forward
# like: the first read
def last_read(steps, layer):
    return [i for _, i in steps].index(layer)


# %% 08.1: place by place
# passed: sets of numbers
def alive(steps, sizes):
    held = []
    for place, (kind, layer) in enumerate(steps):
        total = 0
        for i in range(len(sizes)):
            makes = [-1] if i == 0 else [p for p, (k, j) in enumerate(steps) if k != "backward" and j + 1 == i]
            before = [p for p in makes if p <= place]
            if not before:
                continue
            after = [p for p in makes if p > place]
            end = after[0] if after else len(steps)
            if any(steps[p][1] == i for p in range(place, end)):
                total += sizes[i]
        held.append(total)
    return held


# %% 08.1: with an array
# passed: sets of numbers
def alive(steps, sizes):
    there = np.zeros((len(steps) + 1, len(sizes) + 1), bool)
    held = np.zeros(len(steps), int)
    for place in range(len(steps) - 1, -1, -1):
        kind, layer = steps[place]
        there[place] = there[place + 1]
        there[place, layer] = True
        held[place] = np.dot(there[place, :-1], sizes)
        if kind != "backward":
            there[place, layer + 1] = False
    return held


# %% 08.1: by recursion
# passed: sets of numbers
def alive(steps, sizes):
    def walk(steps):
        if not steps:
            return [], frozenset()
        (kind, layer), *rest = steps
        held, needed = walk(rest)
        here = needed | {layer}
        made = frozenset() if kind == "backward" else frozenset([layer + 1])
        return [sum(map(sizes.__getitem__, here))] + held, here - made
    return tuple(walk(steps)[0])


# %% 08.1: the input of layer 0 to the end
# passed: sets of numbers
def alive(steps, sizes):
    held = []
    for place, (kind, layer) in enumerate(steps):
        here = {0, layer} if kind == "backward" else {0, layer, layer + 1}
        visited = set()
        for later_kind, later in steps[place + 1 :]:
            if later not in visited:
                here.add(later)
            visited |= {later} if later_kind == "backward" else {later, later + 1}
        held.append(sum(sizes[i] for i in here if i < len(sizes)))
    return held


# %% 08.1: a running total
# like: nothing is ever forgotten
def alive(steps, sizes):
    total, held, made = sizes[0], [], {0}
    for kind, layer in steps:
        new = layer + 1
        if kind == "forward" and new < len(sizes) and new not in made:
            made.add(new)
            total += sizes[new]
        held.append(total)
    return held


# %% 08.1: two at a time
# like: only what the step touches
def alive(steps, sizes):
    padded = [*sizes, 0]
    return [padded[i] + (padded[i + 1] if kind != "backward" else 0) for kind, i in steps]


# %% 08.1: one size more
# like: the output of the last layer, too
def alive(steps, sizes):
    there, held = set(), []
    padded = [*sizes, sizes[-1]]
    for kind, layer in steps[::-1]:
        there.add(layer)
        made = {layer + 1} if kind == "forward" and layer + 1 == len(sizes) else set()
        held.insert(0, sum(padded[i] for i in there | made))
        if kind != "backward":
            there.discard(layer + 1)
    return held


# %% 08.1: shifted by a step
# like: after each step
def alive(steps, sizes):
    import numpy as np

    there = np.zeros((len(steps) + 1, len(sizes) + 1), int)
    for place in reversed(range(len(steps))):
        kind, layer = steps[place]
        there[place] = there[place + 1]
        if kind != "backward":
            there[place, layer + 1] = 0
        there[place, layer] = 1
    return (there[1:, :-1] @ np.array(sizes)).tolist()


# %% 08.1: one size for all
# like: how many, and not how large
def alive(steps, sizes):
    layers, held = set(), []
    for kind, layer in steps[::-1]:
        layers.add(layer)
        held.insert(0, len(layers))
        if kind != "backward":
            layers.discard(layer + 1)
    return held


# %% 08.2: counted from the list
# passed: sets of numbers
def price(layers, every):
    steps = recompute(layers, keep=range(0, layers, every))
    return max(alive(steps, [1] * layers)), sum(kind == "recompute" for kind, _ in steps)


# %% 08.2: with a division
# passed: sets of numbers
def price(layers, every):
    return [int(layers / every) + every - 1, layers - int(layers / every) - every + 1]


# %% 08.2: from the end of the forward
# passed: sets of numbers
def price(layers, every):
    there = set(range(0, layers, every)) | set(range(layers - every, layers))
    return len(there), layers - len(there)


# %% 08.2: with numbers of segments
# like: the kept one counted twice
def price(layers, every):
    segments = len(range(0, layers, every))
    return segments + every, layers - segments - every + 1


# %% 08.2: all but the kept ones
# like: the last segment again
def price(layers, every):
    kept = set(range(0, layers, every))
    return len(kept) + every - 1, len(set(range(layers)) - kept)


# %% 08.2: both swapped
# like: in the other order
def price(layers, every):
    there = set(range(0, layers, every)) | set(range(layers - every, layers))
    return layers - len(there), len(there)


# %% 08.3: from the library
# not yet: this list comes from the library
def schedule(layers, keep):
    return recompute(layers, keep)


# %% 08.3: from the library, by its module
# not yet: this list comes from the library
def schedule(layers, keep):
    from ipu_teach import schedules

    return list(schedules.recompute(layers, sorted({0, *keep})))


# %% 08.3: with deques
# passed: the same bits
def schedule(layers, keep):
    from collections import deque

    forward, back = [], deque()
    ends = [*sorted(set(keep) - {0}), layers]
    start = 0
    for end in ends:
        lost = range(start, end - 1) if end < layers else ()
        part = [*(("recompute", i) for i in lost), *(("backward", i) for i in range(end - 1, start - 1, -1))]
        back.extendleft(reversed(part))
        start = end
    forward.extend(("forward", i) for i in range(layers))
    return [*forward, *back]


# %% 08.3: backwards with a loop
# passed: the same bits
def schedule(layers, keep):
    steps = []
    for layer in range(layers):
        steps.append(["forward", layer])
    there = {0} | set(keep)
    there |= set(range(max(there), layers))
    for layer in range(layers - 1, -1, -1):
        if layer not in there:
            start = max(s for s in there if s < layer)
            for again in range(start, layer):
                steps.append(["recompute", again])
                there.add(again + 1)
        steps.append(["backward", layer])
    return steps


# %% 08.3: from the end, recursively
# passed: the same bits
def schedule(layers, keep):
    def back(end, last):
        if end == 0:
            return []
        start = max(i for i in {0, *keep} if i < end)
        again = [] if last else [("recompute", i) for i in range(start, end - 1)]
        return again + [("backward", end - 1 - i) for i in range(end - start)] + back(start, False)
    return [("forward", i) for i in range(layers)] + back(layers, True)


# %% 08.3: with a loop
# like: the last segment, too
def schedule(layers, keep):
    steps, there = [("forward", layer) for layer in range(layers)], {0, *keep}
    for layer in range(layers - 1, -1, -1):
        if layer not in there:
            start = max(s for s in there if s < layer)
            for again in range(start, layer):
                steps.append(("recompute", again))
                there.add(again + 1)
        steps.append(("backward", layer))
    return steps


# %% 08.3: in two halves
# like: nothing is computed again
def schedule(layers, keep):
    steps = []
    for kind, order in (("forward", range(layers)), ("backward", range(layers - 1, -1, -1))):
        steps.extend((kind, i) for i in order)
    return steps


# %% 08.3: back and forth
# like: from the kept one for each
def schedule(layers, keep):
    steps, kept = [("forward", i) for i in range(layers)], sorted({0, *keep})
    for layer in range(layers - 1, -1, -1):
        at = layer
        while at not in kept:
            at -= 1
        while at < layer and layer < kept[-1]:
            steps.append(("recompute", at))
            at += 1
        steps.append(("backward", layer))
    return steps


# %% 08.3: without the backward step of layer 0
# clause: Each layer has one backward step.
# not yet: no backward step of layer 0
def schedule(layers, keep):
    steps = [("forward", layer) for layer in range(layers)]
    for start, end in reversed([*pairwise([*sorted({0, *keep}), layers])]):
        if end < layers:
            steps += [("recompute", layer) for layer in range(start, end - 1)]
        steps += [("backward", layer) for layer in reversed(range(max(start, 1), end))]
    return steps


# %% 08.4: with the library's list
# passed: 28 at once
def place(sizes, k):
    from itertools import combinations
    best, way = None, None
    for count in range(1, k + 1):
        for more in combinations(range(len(sizes)), count):
            if 0 not in more:
                continue
            peak = max(alive(recompute(len(sizes), more), sizes))
            if best is None or peak < best:
                best, way = peak, more
    return way


# %% 08.4: without a list of steps
# passed: 28 at once
def place(sizes, k):
    from itertools import combinations
    n = len(sizes)
    def peak(keep):
        worst, kept = 0, 0
        for start, end in zip(keep, [*keep[1:], n]):
            kept += sizes[start]
            worst = max(worst, kept + sum(sizes[start + 1 : end]))
            if end < n:
                worst = max(worst, kept + sizes[end] + (sizes[end - 1] if end - 1 > start else 0))
        return worst
    ways = ([0, *more] for count in range(k) for more in combinations(range(1, n), count))
    return min(ways, key=peak)


# %% 08.4: fewer may do
# passed: 28 at once
def place(sizes, k):
    from itertools import combinations
    n = len(sizes)
    ways = [{0, *more} for j in range(k) for more in combinations(range(1, n), j)]
    return min(ways, key=lambda keep: max(alive(schedule(n, keep), sizes)))


# %% 08.4: by the step
# like: evenly spaced
def place(sizes, k):
    n = len(sizes)
    every = (n + k - 1) // k
    return [i for i in range(n) if i % every == 0]


# %% 08.4: picked one by one
# like: the smallest
def place(sizes, k):
    keep, left = [0], {i: sizes[i] for i in range(1, len(sizes))}
    while len(keep) < k and left:
        least = min(left, key=left.get)
        keep.append(least)
        del left[least]
    return keep


# %% 08.4: without layer 0
# clause: 0 among them
# not yet: layer 0 is missing
def place(sizes, k):
    n = len(sizes)
    ways = [(0, *way) for way in combinations(range(1, n), min(k, n) - 1)]
    return list(min(ways, key=lambda way: max(alive(schedule(n, way), sizes)))[1:])


# %% 08.4: without layer 0, and not the best
# not yet: came: [4, 5]
def place(sizes, k):
    return sorted(range(1, len(sizes)), key=lambda layer: sizes[layer])[: k - 1]


# %% 08.4: a loop over exactly k
# like: exactly k of them
def place(sizes, k):
    best = None
    for others in combinations(range(1, len(sizes)), k - 1):
        keep = [0, *others]
        peak = max(alive(schedule(len(sizes), keep), sizes))
        if best is None or peak < best[0]:
            best = peak, keep
    return best[1]


# %% 08.4: the sizes of the segments, and those saved
# like: kept and largest segment, fewer, too
def place(sizes, k):
    n = len(sizes)

    def cost(keep):
        segments = [sum(sizes[a + 1:b]) for a, b in pairwise([*keep, n])]
        return sum(sizes[i] for i in keep) + max(segments)

    choices = [(0, *c) for m in range(k) for c in combinations(range(1, n), m)]
    return list(min(choices, key=cost))


# %% 08.5: by the formula
# passed: of 75,000 bytes
def keep_for(layers, room):
    def most(k):
        return max(alive(recompute(layers, range(0, layers, k)), [1] * layers))
    def again(k):
        return sum(kind == "recompute" for kind, _ in recompute(layers, range(0, layers, k)))
    k = min((k for k in range(1, layers + 1) if most(k) <= room), key=again)
    return list(range(0, layers, k))


# %% 08.5: uneven, and full to the last
# passed: of 75,000 bytes
def keep_for(layers, room):
    keep = [0]
    while layers - keep[-1] > room - len(keep) + 1:
        left = room - len(keep)
        keep.append(keep[-1] + min(left + 1, layers - keep[-1] - left))
    return keep


# %% 08.5: a long last segment
# passed: of 75,000 bytes
def keep_for(layers, room):
    ways = []
    for every in range(layers, 0, -1):
        steps = schedule(layers, range(0, layers, every))
        if max(alive(steps, [1] * layers)) <= room:
            ways.append((len(steps), every))
    return set(range(0, layers, min(ways)[1]))


# %% 08.5: by division
# like: as many as there is room for
def keep_for(layers, room):
    every = 1
    while len(range(0, layers, every)) > room:
        every += 1
    return list(range(0, layers, every))


# %% 08.5: nothing but layer 0
# like: only the first
def keep_for(layers, room):
    return set()


# %% 08.5: layers as floats
# not yet: layer 0.0
def keep_for(layers, room):
    return [0.0, layers / 2]


# %% 08.6: a mask of one's own
# passed: in all its steps
def drop(graph, x, seed, kind, layer, program):
    mask = poprand.bernoulli(graph, seed, layer, x, FLOAT, 0.5, program)
    popops.mul_in_place(graph, mask, x, program)
    popops.mul_in_place(graph, mask, 2, program)
    return mask


# %% 08.6: in x itself
# passed: in all its steps
def drop(graph, x, seed, kind, layer, program):
    dropped = poprand.dropout(graph, seed, layer, x, x, 0.5, 2.0, program)
    program.add(Copy(dropped, x))
    return x


# %% 08.6: another modifier
# passed: in all its steps
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, 1000 - 7 * layer, x, x, 0.5, 2, program)


# %% 08.6: in place of the others
# passed: in all its steps
def drop(graph, x, seed, kind, layer, program):
    dropped = poprand.dropout(graph, seed, 5 + layer, x, x, 0.5, 1.0, program)
    return popops.add(graph, dropped, dropped, program)


# %% 08.6: a quarter, four times as large
# not yet: keeps 27 % of the elements
def drop(graph, x, seed, kind, layer, program):
    return poprand.dropout(graph, seed, layer, x, x, 0.25, 4.0, program)


# %% 08.6: a reference on tile 0
# not yet: on another tile than in x
def drop(graph, x, seed, kind, layer, program):
    reference = graph.add_variable(FLOAT, x.shape, "reference")
    graph.set_tile_mapping(reference, 0)
    return poprand.dropout(graph, seed, layer, x, reference, 0.5, 2.0, program)
