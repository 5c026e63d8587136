# %% given
"""Mistakes of lesson 08 written otherwise."""


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
