# %% given
"""Mistakes of lesson 12 written otherwise."""

import numpy as np

from ipu_course.checking.mistakes import given_to
from ipu_teach import FLOAT, INT, Input, Output, Vector, Vertex
from ipu_teach.poplibs.popsparse import dynamic

dynamic_engine, dense_cycles, sparse_cycles, device = (
    given_to("12.4")[name] for name in ("dynamic_engine", "dense_cycles", "sparse_cycles", "device")
)


# %% 12.1: block by block, each turned
# like: blocks turned
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        b, n = self.b, len(self.out[0])
        for i in range(len(self.out)):
            for j in range(n):
                self.out[i][j] = 0.0
        row = 0
        for block in range(len(self.columns)):
            while self.offsets[row + 1] <= block:
                row += 1
            for i in range(b):
                for k in range(b):
                    value = self.values[block * b * b + i + b * k]
                    for j in range(n):
                        self.out[row * b + i][j] += value * self.x[self.columns[block] * b + k][j]


# %% 12.1: up to the last but one
# like: the last block of a row left out
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        for r in range(len(self.out)):
            first = self.offsets[r // self.b]
            last = self.offsets[r // self.b + 1] - 1
            for j in range(len(self.x[0])):
                self.out[r][j] = 0.0
                for block in range(first, last):
                    for k in range(self.b):
                        value = self.values[block * self.b**2 + r % self.b * self.b + k]
                        self.out[r][j] += value * self.x[self.columns[block] * self.b + k][j]


# %% 12.1: columns of numbers
# like: columns not times b
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        for r in range(len(self.out)):
            for j in range(len(self.x[0])):
                total = 0.0
                for block in range(self.offsets[r // self.b], self.offsets[r // self.b + 1]):
                    for k in range(self.b):
                        value = self.values[block * self.b**2 + r % self.b * self.b + k]
                        total += value * self.x[k + self.columns[block]][j]
                self.out[r][j] = total


# %% 12.2: by numpy
# like: equal rows
def bands(counts, tiles):
    return np.arange(tiles) * len(counts) // tiles


# %% 12.2: a queue
# like: over by one row
def bands(counts, tiles):
    begins, row = [], 0
    for _ in range(tiles):
        begins.append(row)
        load = 0
        while row < len(counts) and load < sum(counts) / tiles:
            load += counts[row]
            row += 1
    return begins


# %% 12.3: by name
# like: one in eight for all
def break_even(size, n, block):
    return 0.125


# %% 12.3: blocks forgotten
# like: single values for all
def break_even(size, n, block):
    return max(
        2**-p for p in range(1, 8) if sparse_cycles(size, n, 1, 2**-p) < dense_cycles(size, n)
    )


# %% 12.3: the least of all
# like: the smallest
def break_even(size, n, block):
    dense = dense_cycles(size, n)
    return min(2**-p for p in range(1, 8) if sparse_cycles(size, n, block, 2**-p) < dense)


# %% 12.4: the pattern written once
# like: values without their places
def products(params, patterns, x):
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine, found, begun = dynamic_engine(params), [], False
    engine.write_tensor("x", x)
    for pattern in patterns:
        if pattern.num_blocks > params.num_blocks:
            found.append(None)
            continue
        meta, values = partitioner.encode(pattern)
        if not begun:
            engine.write_tensor("meta_info", meta)
            begun = True
        engine.write_tensor("nz_values", values)
        engine.run()
        found.append(engine.read_tensor("out"))
    return found


# %% 12.4: skipped
# like: too many are left out
def products(params, patterns, x):
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine, found = dynamic_engine(params), []
    engine.write_tensor("x", x)
    for pattern in [p for p in patterns if p.num_blocks <= params.num_blocks]:
        meta, values = partitioner.encode(pattern)
        engine.write_tensor("meta_info", meta)
        engine.write_tensor("nz_values", values)
        engine.run()
        found.append(engine.read_tensor("out"))
    return found


# %% 12.5: a list of the full ones
# like: the full buckets counted
def steps(counts, slots):
    return len([count for count in counts if slots < count])


# %% 12.5: places behind
# like: the other way round
def steps(counts, slots):
    over = np.maximum(np.array(counts) - slots, 0)
    room = np.maximum(slots - np.array(counts), 0)
    for step in range(len(counts) + 1):
        if not over.any():
            return step
        there = np.roll(room, -step - 1)
        take = np.minimum(over, there)
        over, room = over - take, np.roll(there - take, step + 1)


# %% 12.5: begins with one
# like: its own bucket counted
def steps(counts, slots):
    held, left, step = [min(c, slots) for c in counts], [c - min(c, slots) for c in counts], 1
    while sum(left) > 0:
        for part in range(len(counts)):
            there = (part - step) % len(counts)
            while left[part] > 0 and held[there] < slots:
                left[part] -= 1
                held[there] += 1
        step += 1
    return step


# %% 12.6: place by place, by their sums
# like: pruned by sign
def prune_and_regrow(there, weights, slopes, moved):
    after, kept = there.copy(), weights.copy()
    places = list(np.ndindex(there.shape))
    old = sorted((p for p in places if there[p]), key=lambda p: weights[p].sum())
    new = sorted((p for p in places if not there[p]), key=lambda p: -np.linalg.norm(slopes[p]))
    for gone, grown in zip(old[:moved], new[:moved], strict=True):
        after[gone], after[grown] = False, True
        kept[gone] = 0
    return after, kept


# %% 12.6: place by place, weights forgotten
# like: dead weights kept
def prune_and_regrow(there, weights, slopes, moved):
    after = there.copy()
    places = list(np.ndindex(there.shape))
    old = sorted((p for p in places if there[p]), key=lambda p: np.linalg.norm(weights[p]))
    new = sorted((p for p in places if not there[p]), key=lambda p: -np.linalg.norm(slopes[p]))
    for gone, grown in zip(old[:moved], new[:moved], strict=True):
        after[gone], after[grown] = False, True
    return after, weights.copy()
