# %% given
"""Mistakes of lesson 12 written otherwise."""

import numpy as np

from ipu_course.checking.mistakes import given_to
from ipu_teach import FLOAT, INT, Input, Output, Vector, Vertex
from ipu_teach.poplibs.popsparse import dynamic

dynamic_engine, dense_cycles, sparse_cycles, device = (
    given_to("12.4")[name] for name in ("dynamic_engine", "dense_cycles", "sparse_cycles", "device")
)


# %% 12.w1: two of a slice
# passed: sets of numbers
def blocks_in(offsets, row):
    before, after = offsets[row : row + 2]
    return after - before


# %% 12.1: block by block
# passed: 7 matrices
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
                self.out[i][j] = 0
        row = 0
        for block in range(len(self.columns)):
            while self.offsets[row + 1] <= block:
                row += 1
            for i in range(b):
                for l in range(b):
                    value = self.values[block * b * b + i * b + l]
                    for j in range(n):
                        self.out[row * b + i][j] += value * self.x[self.columns[block] * b + l][j]


# %% 12.1: row by row of out
# passed: 7 matrices
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
            last = self.offsets[r // self.b + 1]
            for j in range(len(self.x[0])):
                self.out[r][j] = 0.0
                for k in range((last - first) * self.b):
                    block = first + k // self.b
                    value = self.values[block * self.b**2 + r % self.b * self.b + k % self.b]
                    self.out[r][j] += value * self.x[self.columns[block] * self.b + k % self.b][j]


# %% 12.1: the other order of loops
# passed: 7 matrices
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        b = self.b
        for j in range(len(self.out[0])):
            for row in range(len(self.out) // b):
                for i in range(b):
                    total = 0.0
                    block = self.offsets[row]
                    while block < self.offsets[row + 1]:
                        for l in range(b):
                            at = self.columns[block] * b + l
                            total += self.x[at][j] * self.values[(block * b + i) * b + l]
                        block += 1
                    self.out[row * b + i][j] = total


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


# %% 12.1: columns beyond the rows of x are left out
# not yet: this special one is wrong: more columns than x has rows
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        b = self.b
        for row in range(len(self.offsets) - 1):
            for i in range(b):
                for j in range(min(len(self.x[0]), len(self.x))):
                    total = 0.0
                    for block in range(self.offsets[row], self.offsets[row + 1]):
                        for k in range(b):
                            total += self.values[(block * b + i) * b + k] * self.x[self.columns[block] * b + k][j]
                    self.out[row * b + i][j] = total


# %% 12.1: odd column left out
# not yet: -2178] next: follow one block by hand
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        b = self.b
        for row in range(len(self.offsets) - 1):
            for i in range(b):
                for j in range(len(self.x[0]) // 2 * 2):
                    total = 0.0
                    for block in range(self.offsets[row], self.offsets[row + 1]):
                        for k in range(b):
                            total += self.values[(block * b + i) * b + k] * self.x[self.columns[block] * b + k][j]
                    self.out[row * b + i][j] = total


# %% 12.1: i * b + k transposed
# like: blocks turned
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        b = self.b
        for row in range(len(self.offsets) - 1):
            for i in range(b):
                for j in range(len(self.x[0])):
                    total = 0.0
                    for block in range(self.offsets[row], self.offsets[row + 1]):
                        for k in range(b):
                            total += self.values[block * b * b + i + k * b] * self.x[self.columns[block] * b + k][j]
                    self.out[row * b + i][j] = total


# %% 12.1: reshape of the whole
# error in the answer: this .reshape() does not run as a scalar loop
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        b = self.b
        values = self.values.reshape(-1, b, b)
        for row in range(len(self.offsets) - 1):
            total = np.zeros((b, len(self.x[0])), np.float32)
            for block in range(self.offsets[row], self.offsets[row + 1]):
                c = self.columns[block]
                total += values[block] @ self.x[c * b : (c + 1) * b]
            self.out[row * b : (row + 1) * b] = total


# %% 12.1: reshape of a slice
# passed: 7 matrices
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        b = self.b
        for row in range(len(self.offsets) - 1):
            self.out[row * b : (row + 1) * b] = 0
            for block in range(self.offsets[row], self.offsets[row + 1]):
                c = self.columns[block]
                values = self.values[block * b * b : (block + 1) * b * b].reshape(b, b)
                self.out[row * b : (row + 1) * b] += values @ self.x[c * b : (c + 1) * b]


# %% 12.2: by halving
# passed: the 5 large ones
def bands(counts, tiles):
    def filled(limit):
        begins, load = [0], 0
        for row, count in enumerate(counts):
            if load + count > limit:
                begins, load = [*begins, row], 0
            load += count
        return begins

    low, high = max(counts), sum(counts)
    while low < high:
        middle = (low + high) // 2
        if len(filled(middle)) <= tiles:
            high = middle
        else:
            low = middle + 1
    found = filled(low)
    return np.array(found + [len(counts)] * (tiles - len(found)))


# %% 12.2: from the end
# passed: the 5 large ones
def bands(counts, tiles):
    for limit in range(max(counts), sum(counts) + 1):
        begins, load = [], 0
        for row in range(len(counts) - 1, -1, -1):
            if load + counts[row] > limit:
                begins.append(row + 1)
                load = 0
            load += counts[row]
        if len(begins) < tiles:
            return [0] * (tiles - len(begins)) + begins[::-1]


# %% 12.2: all ways, part by part
# passed: the 5 large ones
def bands(counts, tiles):
    rows, ends = len(counts), np.concatenate(([0], np.cumsum(counts)))
    best, cuts = ends.astype(float), []
    for _ in range(tiles - 1):
        of = [
            min(range(i + 1), key=lambda k: max(best[k], ends[i] - ends[k])) for i in range(rows + 1)
        ]
        best = np.array([max(best[k], ends[i] - ends[k]) for i, k in enumerate(of)])
        cuts.append(of)
    begins, at = [], rows
    for of in cuts[::-1]:
        at = of[at]
        begins.append(at)
    return [0, *begins[::-1]]


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


# %% 12.2: the tiles without rows first
# passed: the 5 large ones
def bands(counts, tiles):
    def fill(limit):
        begins, load = [0], 0
        for row, blocks in enumerate(counts):
            if load + blocks > limit:
                begins, load = [*begins, row], 0
            load += blocks
        return begins

    limit = max(counts)
    while len(fill(limit)) > tiles:
        limit += 1
    return [0] * (tiles - len(fill(limit))) + fill(limit)


# %% 12.2: bands in floats
# clause: return a list of whole numbers
# not yet: came: [0.0, 4.0, 9.0
def bands(counts, tiles):
    limit = max(counts)
    while True:
        begins, room = [0.0], limit
        for row, blocks in enumerate(counts):
            if blocks > room:
                begins.append(float(row))
                room = limit
            room -= blocks
        if len(begins) <= tiles:
            return begins + [float(len(counts))] * (tiles - len(begins))
        limit += 1


# %% 12.3: the largest of those that are quicker
# passed: sets of numbers
def break_even(size, n, block):
    dense = dense_cycles(size, n)
    densities = [1 / d for d in (2, 4, 8, 16, 32, 64, 128)]
    return max((d for d in densities if sparse_cycles(size, n, block, d) < dense))


# %% 12.3: halved until it pays
# passed: sets of numbers
def break_even(size, n, block):
    density = 0.5
    while sparse_cycles(size, n, block, density) >= dense_cycles(size, n):
        density /= 2
    return density


# %% 12.3: the first of a list
# passed: sets of numbers
def break_even(size, n, block):
    quicker = [
        2.0**-p
        for p in range(1, 8)
        if dense_cycles(size, n) / sparse_cycles(size, n, block, 2.0**-p) > 1
    ]
    return quicker[0]


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


# %% 12.4: counted first
# passed: ten patterns
def products(params, patterns, x):
    engine = dynamic_engine(params)
    found = [None] * len(patterns)
    for number, pattern in enumerate(patterns):
        if pattern.num_blocks <= params.num_blocks:
            partitioner = dynamic.Partitioner(params, FLOAT, device.target)
            meta, values = partitioner.encode(pattern)
            tensors = {"x": x, "meta_info": meta, "nz_values": values}
            for name, array in tensors.items():
                engine.write_tensor(name, array)
            engine.run()
            found[number] = engine.read_tensor("out")
    return found


# %% 12.4: encoded before
# passed: ten patterns
def products(params, patterns, x):
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)

    def encoded(pattern):
        try:
            return partitioner.encode(pattern)
        except PoplibsError:
            return None

    engine = dynamic_engine(params)
    engine.write_tensor("x", x)

    def run(data):
        if data is None:
            return None
        engine.write_tensor("nz_values", data.nz_values)
        engine.write_tensor("meta_info", data.meta_info)
        engine.run()
        return engine.read_tensor("out")

    return tuple(run(data) for data in map(encoded, patterns))


# %% 12.4: as lists
# passed: ten patterns
def products(params, patterns, x):
    engine, found = dynamic_engine(params), []
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    for pattern in patterns:
        try:
            data = partitioner.encode(pattern)
            engine.write_tensor("x", x)
            engine.write_tensor("meta_info", data.meta_info)
            engine.write_tensor("nz_values", data.nz_values)
            engine.run()
            found.append(engine.read_tensor("out").tolist())
        except PoplibsError:
            found += [None]
    return found


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


# %% 12.4: engine and numpy
# not yet: the answer returns 8 products after 0 runs of the engine
def products(params, patterns, x):
    engine = dynamic_engine(params)
    partitioner = dynamic.Partitioner(params, FLOAT, engine.device.target if hasattr(engine, "device") else device.target)
    out = []
    for pattern in patterns:
        try:
            partitioner.encode(pattern)
            out.append(pattern.to_dense() @ x)
        except PoplibsError:
            out.append(None)
    return out


# %% 12.4: engine and numpy, runs ignored
# not yet: a product that was not read from the engine
def products(params, patterns, x):
    engine = dynamic_engine(params)
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    out = []
    engine.write_tensor("x", x)
    for pattern in patterns:
        try:
            data = partitioner.encode(pattern)
            engine.write_tensor("meta_info", data.meta_info)
            engine.write_tensor("nz_values", data.nz_values)
            engine.run()
            out.append(pattern.to_dense() @ x)
        except PoplibsError:
            out.append(None)
    return out


# %% 12.4: partitioner of the lesson
# like: the partitioner of another product
def products(params, patterns, x):
    other = dynamic.MatMulParams.create_with_num_non_zero_values(60, 64, 8, num_nz=60 * 16, block=(4, 4))
    partitioner = dynamic.Partitioner(other, FLOAT, device.target)
    engine = dynamic_engine(params)
    engine.write_tensor("x", x)
    out = []
    for pattern in patterns:
        try:
            data = partitioner.encode(pattern)
        except PoplibsError:
            out.append(None)
            continue
        engine.write_tensor("meta_info", data.meta_info)
        engine.write_tensor("nz_values", data.nz_values)
        engine.run()
        out.append(engine.read_tensor("out"))
    return out


# %% 12.4: generator
# passed: ten patterns
def products(params, patterns, x):
    engine = dynamic_engine(params)
    own = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    for pattern in patterns:
        try:
            data = own.encode(pattern)
        except PoplibsError:
            yield None
            continue
        engine.write_tensor("meta_info", data.meta_info)
        engine.write_tensor("nz_values", data.nz_values)
        engine.run()
        yield engine.read_tensor("out")


# %% 12.4: budget compared by count
# passed: ten patterns
def products(params, patterns, x):
    engine = dynamic_engine(params)
    own = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    result = [None] * len(patterns)
    for i, pattern in enumerate(patterns):
        if pattern.num_nz <= params.num_blocks * 16:
            data = own.encode(pattern)
            engine.write_tensor("meta_info", data.meta_info)
            engine.write_tensor("nz_values", data.nz_values)
            engine.run()
            result[i] = engine.read_tensor("out")
    return result


# %% 12.w2: by numpy
# passed: sets of numbers
def slots(blocks, buckets):
    return int(np.ceil(blocks * 1.3 / buckets))


# %% 12.w2: a third of a block
# like: 0.3 of a block
def slots(blocks, buckets):
    return -int(-(blocks / buckets + 0.3) // 1)


# %% 12.5: block by block
# passed: sets of numbers
def steps(counts, slots):
    held, left, step = [min(c, slots) for c in counts], [c - min(c, slots) for c in counts], 0
    while sum(left) > 0:
        step += 1
        for part in range(len(counts)):
            there = (part - step) % len(counts)
            while left[part] > 0 and held[there] < slots:
                left[part] -= 1
                held[there] += 1
    return step


# %% 12.5: with numpy
# passed: sets of numbers
def steps(counts, slots):
    over = np.maximum(np.array(counts) - slots, 0)
    room = np.maximum(slots - np.array(counts), 0)
    for step in range(len(counts) + 1):
        if not over.any():
            return step
        there = np.roll(room, step + 1)
        take = np.minimum(over, there)
        over, room = over - take, np.roll(there - take, -step - 1)


# %% 12.5: from the buckets' side
# passed: sets of numbers
def steps(counts, slots):
    free = {p: slots - c for p, c in enumerate(counts) if c < slots}
    much = {p: c - slots for p, c in enumerate(counts) if c > slots}
    step = 0
    while much:
        step += 1
        for bucket in list(free):
            part = (bucket + step) % len(counts)
            if part in much:
                taken = min(free[bucket], much[part])
                free[bucket] -= taken
                much[part] -= taken
                if not much[part]:
                    del much[part]
    return step


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


# %% 12.6: by masks
# passed: 13 layers
def prune_and_regrow(there, weights, slopes, moved):
    def ranks(sizes, among):
        placed = np.full(among.shape, among.size)
        placed[among] = np.argsort(np.argsort(sizes[among], kind="stable"))
        return placed

    sizes, wanted = (weights**2).sum((2, 3)), (slopes**2).sum((2, 3))
    after = there & (ranks(sizes, there) >= moved) | ~there & (ranks(-wanted, ~there) < moved)
    return after, np.where(after[:, :, None, None], weights, 0)


# %% 12.6: place by place
# passed: 13 layers
def prune_and_regrow(there, weights, slopes, moved):
    after, kept = there.copy(), weights.copy()
    places = list(np.ndindex(there.shape))
    old = sorted((p for p in places if there[p]), key=lambda p: np.linalg.norm(weights[p]))
    new = sorted((p for p in places if not there[p]), key=lambda p: -np.linalg.norm(slopes[p]))
    for gone, grown in zip(old[:moved], new[:moved], strict=True):
        after[gone], after[grown] = False, True
        kept[gone] = 0
    return after, kept


# %% 12.6: by einsum
# passed: 13 layers
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.einsum("rcij,rcij->rc", weights, weights) + 1e9 * ~there
    wanted = np.einsum("rcij,rcij->rc", slopes, slopes) - 1e9 * there
    go = np.unravel_index(np.argsort(sizes.ravel())[:moved], there.shape)
    come = np.unravel_index(np.argsort(wanted.ravel())[there.size - moved :], there.shape)
    after, kept = np.array(there), np.array(weights)
    after[go] = False
    kept[go] = 0
    after[come] = True
    return after, kept


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


# %% 12.6: a list for the pair
# passed: 13 layers
def prune_and_regrow(there, weights, slopes, moved):
    a, k = there.copy(), weights.copy()
    size = np.where(there, (weights**2).sum((2, 3)), np.inf)
    loud = np.where(there, -np.inf, (slopes**2).sum((2, 3)))
    for at in np.argsort(size, axis=None)[:moved]:
        i, j = np.unravel_index(at, there.shape)
        a[i, j], k[i, j] = False, 0
    for at in np.argsort(-loud, axis=None)[:moved]:
        a[np.unravel_index(at, there.shape)] = True
    return [a, k]


# %% 12.6: abs instead of squares
# like: absolute values
def prune_and_regrow(there, weights, slopes, moved):
    a, k = there.copy(), weights.copy()
    size = np.where(there, np.abs(weights).sum((2, 3)), np.inf)
    loud = np.where(there, -np.inf, np.abs(slopes).sum((2, 3)))
    for at in np.argsort(size, axis=None)[:moved]:
        i, j = np.unravel_index(at, there.shape)
        a[i, j], k[i, j] = False, 0
    for at in np.argsort(-loud, axis=None)[:moved]:
        a[np.unravel_index(at, there.shape)] = True
    return a, k


# %% 12.6: regrowing pruned blocks
# like: grown where it has just gone
def prune_and_regrow(there, weights, slopes, moved):
    a, k = there.copy(), weights.copy()
    size = np.where(there, (weights**2).sum((2, 3)), np.inf)
    for at in np.argsort(size, axis=None)[:moved]:
        i, j = np.unravel_index(at, there.shape)
        a[i, j], k[i, j] = False, 0
    loud = np.where(a, -np.inf, (slopes**2).sum((2, 3)))
    for at in np.argsort(-loud, axis=None)[:moved]:
        a[np.unravel_index(at, there.shape)] = True
    return a, k


# %% 12.6: [-0:]
# like: the last none
def prune_and_regrow(there, weights, slopes, moved):
    a, k = there.copy(), weights.copy()
    size = np.where(there, (weights**2).sum((2, 3)), np.inf)
    loud = np.where(there, -np.inf, (slopes**2).sum((2, 3)))
    for at in np.argsort(size, axis=None)[:moved]:
        i, j = np.unravel_index(at, there.shape)
        a[i, j], k[i, j] = False, 0
    for at in np.argsort(loud, axis=None)[-moved:]:
        a[np.unravel_index(at, there.shape)] = True
    return a, k


# %% 12.6: in place
# not yet: the call changed its argument there
def prune_and_regrow(there, weights, slopes, moved):
    size = np.where(there, (weights**2).sum((2, 3)), np.inf)
    loud = np.where(there, -np.inf, (slopes**2).sum((2, 3)))
    for at in np.argsort(size, axis=None)[:moved]:
        i, j = np.unravel_index(at, there.shape)
        there[i, j], weights[i, j] = False, 0
    for at in np.argsort(-loud, axis=None)[:moved]:
        there[np.unravel_index(at, there.shape)] = True
    return there, weights


# %% 12.6: loud by sign
# like: slopes by sign
def prune_and_regrow(there, weights, slopes, moved):
    present, values = there.copy(), weights.copy()
    sizes = np.where(there, np.square(weights).sum(axis=(2, 3)), np.inf).ravel()
    loud = np.where(there, -np.inf, slopes.sum(axis=(2, 3))).ravel()
    for place in np.argsort(sizes)[:moved]:
        present.flat[place] = False
        values[np.unravel_index(place, there.shape)] = 0
    present.flat[np.argsort(loud)[::-1][:moved]] = True
    return present, values


# %% 12.6: there as integers
# clause: as an array [rows, columns] of bool
# not yet: there is an array of int64
def prune_and_regrow(there, weights, slopes, moved):
    small = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    loud = np.where(there, -1.0, (slopes**2).sum(axis=(2, 3)))
    new, values = there.astype(int), weights.copy()
    for place in np.argsort(small, axis=None)[:moved]:
        new.flat[place] = 0
    for place in np.argsort(-loud, axis=None)[:moved]:
        new.flat[place] = 1
    values[new == 0] = 0
    return new, values


# %% 12.6: there as floats
# not yet: there is an array of float64
def prune_and_regrow(there, weights, slopes, moved):
    small = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    loud = np.where(there, -1.0, (slopes**2).sum(axis=(2, 3)))
    new, values = 1.0 * there, weights.copy()
    new.flat[np.argsort(small, axis=None)[:moved]] = 0
    new.flat[np.argsort(-loud, axis=None)[:moved]] = 1
    return new, values * new[:, :, None, None]


# %% 12.w2: 0.9 more, and cut off
# not yet: slots(37, 12)
def slots(blocks, buckets):
    return int(blocks / buckets * 1.3 + 0.9)


# %% 12.4: as many as the first at most
# not yet: pattern 1: None
def products(params, patterns, x):
    engine = dynamic_engine(params)
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    found = []
    for pattern in patterns:
        if pattern.num_blocks > patterns[0].num_blocks:
            found.append(None)
            continue
        data = partitioner.encode(pattern)
        engine.write_tensor("meta_info", data.meta_info)
        engine.write_tensor("nz_values", data.nz_values)
        engine.run()
        found.append(engine.read_tensor("out"))
    return found


# %% 12.6: all up to a size
# clause: the `moved` smallest
# not yet: 6 blocks gone, and 6 grown
def prune_and_regrow(there, weights, slopes, moved):
    if not moved:
        return there.copy(), weights.copy()
    size = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    loud = np.where(there, -1, (slopes**2).sum(axis=(2, 3)))
    gone = size <= np.sort(size, axis=None)[moved - 1]
    grown = loud >= np.sort(loud, axis=None)[-moved]
    after = (there & ~gone) | grown
    return after, weights * (after & there)[:, :, None, None]


# %% 12.6: the slope where a block is new
# like: new blocks begin with their slope
def prune_and_regrow(there, weights, slopes, moved):
    size = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    loud = np.where(there, -1, (slopes**2).sum(axis=(2, 3)))
    new = there.copy()
    new.flat[np.argsort(size, axis=None)[:moved]] = False
    grown = np.argsort(-loud, axis=None)[:moved]
    new.flat[grown] = True
    w = weights * (new & there)[:, :, None, None]
    w.reshape(-1, *w.shape[2:])[grown] = slopes.reshape(-1, *w.shape[2:])[grown]
    return new, w


# %% 12.4: the partitioner of another product, and no net below
# not yet: the partitioner has other parameters than `params`
def products(params, patterns, x):
    other = dynamic.MatMulParams.create_with_num_non_zero_values(60, 64, 8, 960, (4, 4))
    partitioner = dynamic.Partitioner(other, FLOAT, device.target)
    engine, products = dynamic_engine(params), []
    engine.write_tensor("x", x)
    for pattern in patterns:
        data = partitioner.encode(pattern)
        engine.write_tensor("meta_info", data.meta_info)
        engine.write_tensor("nz_values", data.nz_values)
        engine.run()
        products.append(engine.read_tensor("out"))
    return products


# %% 12.w2: three tenths more of the share
# like: rounded down twice
def slots(blocks, buckets):
    share = blocks // buckets
    return share + 3 * share // 10


# %% 12.w2: a float as it is
# like: not rounded
def slots(blocks, buckets):
    return 1.3 * blocks / buckets


# %% 12.w2: brackets left out
# like: times the buckets
def slots(blocks, buckets):
    return -((-blocks * 13) // 10 * buckets)


# %% 12.w2: 9 more before rounding down
# like: the budget up, then the share down
def slots(blocks, buckets):
    return (13 * blocks + 9) // (10 * buckets)
