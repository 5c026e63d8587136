# %% given
"""Known mistakes of lesson 12; what this file is: mistakes.py."""

from functools import cache

import numpy as np

from ipu_teach import FLOAT, HALF, INT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex
from ipu_teach.errors import PoplibsError
from ipu_teach.poplibs import poplin
from ipu_teach.poplibs.popsparse import COOMatrix, dynamic, static
from ipu_teach.program import Sequence

device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
chip = IPUModel("bow").create_device().target


@cache
def dense_cycles(size, n, dtype=HALF):
    """Modelled cycles of [size, size] x [size, n]."""
    return poplin.plan_mat_mul(size, size, n, chip, dtype=dtype, partials_type=dtype).cycles


@cache
def sparse_cycles(size, n, block, density, dtype=HALF):
    """The same where that share of the blocks is there, evenly."""
    side = size // block
    places = np.arange(0, side * side, round(1 / density))
    shape, values = (size, size), np.zeros((len(places), block, block), np.float16)
    csr = COOMatrix(shape, places // side, places % side, values, (block, block)).to_csr()
    plan = static.plan_sparse_dense(csr, n, chip, dtype=dtype, partials_type=dtype)
    return plan.cycles


def dynamic_engine(params):
    """An engine, on a device of its own, that multiplies any pattern within the budget."""
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph, program = Graph(device), Sequence()
    sparse = dynamic.create_sparse_dense_mat_mul_lhs(graph, FLOAT, params)
    x = dynamic.create_sparse_dense_mat_mul_rhs(graph, FLOAT, params)
    out = dynamic.sparse_dense_mat_mul(graph, sparse, x, program)
    tensors = {"meta_info": sparse.meta_info, "nz_values": sparse.nz_values, "x": x}
    for name, tensor in tensors.items():
        graph.create_host_write(name, tensor)
    graph.create_host_read("out", out)
    engine = Engine(graph, program)
    engine.load(device)
    return engine


# %% 12.w1: how many before
# clause: How many blocks has row
# why:  this is how many stand before the row.
# next: take it from how many stand before the next one.
def blocks_in(offsets, row):
    return offsets[row]


# %% 12.w1: how many up to it
# why:  this is how many there are from the first row on, up to this one.
# next: take away those of the rows before.
def blocks_in(offsets, row):
    return offsets[row + 1]


# %% 12.w1: the row before
# why:  this is the row before.
# next: offsets[row] is where this row begins.
def blocks_in(offsets, row):
    return offsets[row] - offsets[row - 1]


# %% 12.1: a row without blocks is left out
# clause: write all of self.out.
# why:  a row without blocks is left out, and nobody else writes it: what is there is undefined.
# next: write its zeros. A total that begins at 0 does that by itself.
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
            if self.offsets[row] < self.offsets[row + 1]:
                for i in range(b):
                    for j in range(len(self.out[0])):
                        total = 0.0
                        for block in range(self.offsets[row], self.offsets[row + 1]):
                            for k in range(b):
                                value = self.values[(block * b + i) * b + k]
                                total += value * self.x[self.columns[block] * b + k][j]
                        self.out[row * b + i][j] = total


# %% 12.1: blocks turned
# clause: the product itself
# why:  each block is turned: it is read column by column.
# next: number k of row i of a block is number i * b + k of it.
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
                for j in range(len(self.out[0])):
                    total = 0.0
                    for block in range(self.offsets[row], self.offsets[row + 1]):
                        for k in range(b):
                            value = self.values[(block * b + k) * b + i]
                            total += value * self.x[self.columns[block] * b + k][j]
                    self.out[row * b + i][j] = total


# %% 12.1: columns not times b
# clause: with blocks of `b` x `b`
# why:  a column of blocks is taken for a row of x. Column c meets rows c * b to c * b + b - 1.
# next: times b.
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
                for j in range(len(self.out[0])):
                    total = 0.0
                    for block in range(self.offsets[row], self.offsets[row + 1]):
                        for k in range(b):
                            value = self.values[(block * b + i) * b + k]
                            total += value * self.x[self.columns[block] + k][j]
                    self.out[row * b + i][j] = total


# %% 12.1: rows not times b
# why:  rows of blocks are written one below the other, as if each made one row of out: they write
#   over each other, and the last rows are never written.
# next: row r of blocks makes the rows r * b to r * b + b - 1.
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
                for j in range(len(self.out[0])):
                    total = 0.0
                    for block in range(self.offsets[row], self.offsets[row + 1]):
                        for k in range(b):
                            value = self.values[(block * b + i) * b + k]
                            total += value * self.x[self.columns[block] * b + k][j]
                    self.out[row + i][j] = total


# %% 12.1: the last block of a row left out
# why:  the last block of each row is left out.
# next: offsets[row + 1] is where the next row begins, and a range ends before it.
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
                for j in range(len(self.out[0])):
                    total = 0.0
                    for block in range(self.offsets[row], self.offsets[row + 1] - 1):
                        for k in range(b):
                            value = self.values[(block * b + i) * b + k]
                            total += value * self.x[self.columns[block] * b + k][j]
                    self.out[row * b + i][j] = total


# %% 12.1: one total for all rows
# why:  the total goes on from row to row.
# next: begin it at 0 for each number of out.
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
            for i in range(b):
                total = 0.0
                for row in range(len(self.offsets) - 1):
                    for block in range(self.offsets[row], self.offsets[row + 1]):
                        for k in range(b):
                            value = self.values[(block * b + i) * b + k]
                            total += value * self.x[self.columns[block] * b + k][j]
                    self.out[row * b + i][j] = total


# %% 12.1: the diagonal of blocks alone
# why:  of each block only the diagonal is multiplied.
# next: a row of a block has b numbers, and each meets a row of x of its own.
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
                for j in range(len(self.out[0])):
                    total = 0.0
                    for block in range(self.offsets[row], self.offsets[row + 1]):
                        value = self.values[(block * b + i) * b + i]
                        total += value * self.x[self.columns[block] * b + i][j]
                    self.out[row * b + i][j] = total


# %% 12.1: each block writes over the one before
# why:  each block of a row writes over what the ones before it made: out is set to 0 once a block.
# next: begin at 0 once for each number of out, before the loop over blocks.
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
            if self.offsets[row] == self.offsets[row + 1]:
                for i in range(b):
                    for j in range(len(self.out[0])):
                        self.out[row * b + i][j] = 0.0
            for block in range(self.offsets[row], self.offsets[row + 1]):
                for i in range(b):
                    for j in range(len(self.out[0])):
                        self.out[row * b + i][j] = 0.0
                        for k in range(b):
                            value = self.values[(block * b + i) * b + k]
                            self.out[row * b + i][j] += (
                                value * self.x[self.columns[block] * b + k][j]
                            )


# %% 12.1: added to what nobody wrote
# clause: A **row without blocks** makes zeros
# why:  products are added to out, and nothing was written there before: an output begins undefined.
# next: write a 0 into each number of out first, or add up in a total.
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
            for block in range(self.offsets[row], self.offsets[row + 1]):
                for i in range(b):
                    for j in range(len(self.out[0])):
                        for k in range(b):
                            value = self.values[(block * b + i) * b + k]
                            self.out[row * b + i][j] += (
                                value * self.x[self.columns[block] * b + k][j]
                            )


# %% 12.1: b columns of out
# clause: any number of columns
# why:  only the first b columns of out are written.
# next: out has as many columns as x: len(self.out[0]).
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
                for j in range(min(b, len(self.out[0]))):
                    total = 0.0
                    for block in range(self.offsets[row], self.offsets[row + 1]):
                        for k in range(b):
                            value = self.values[(block * b + i) * b + k]
                            total += value * self.x[self.columns[block] * b + k][j]
                    self.out[row * b + i][j] = total


# %% 12.1: the row is state
# not yet: self.row is state, and state lives from run to run
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]
    row: INT = 0

    def compute(self):
        b, n = self.b, len(self.out[0])
        for i in range(len(self.out)):
            for j in range(n):
                self.out[i][j] = 0
        for block in range(len(self.columns)):
            while self.offsets[self.row + 1] <= block:
                self.row += 1
            for i in range(b):
                for k in range(b):
                    value = self.values[block * b * b + i * b + k]
                    for j in range(n):
                        x = self.x[self.columns[block] * b + k][j]
                        self.out[self.row * b + i][j] += value * x


# %% 12.2: equal rows
# clause: no more than **1.1 times** as many blocks
# why:  these are equal numbers of rows, and rows have different numbers of blocks.
# next: add up blocks, and begin a new tile when it is full.
def bands(counts, tiles):
    return [tile * len(counts) // tiles for tile in range(tiles)]


# %% 12.2: over by one row
# why:  each tile goes on until it has reached the mean, and so it is over it by nearly a row; the
#   last ones get what is left.
# next: ask before a row is taken whether it still fits.
def bands(counts, tiles):
    mean, begins, load = sum(counts) / tiles, [0], 0
    for row, count in enumerate(counts):
        load += count
        if load >= mean and len(begins) < tiles:
            begins.append(row + 1)
            load = 0
    return begins + [len(counts)] * (tiles - len(begins))


# %% 12.2: the last takes the rest
# why:  no tile may be over the mean, and what does not fit anywhere is the last one's.
# next: the mean cannot be kept by all: raise the limit until everything fits.
def bands(counts, tiles):
    limit, begins, load = max(max(counts), sum(counts) // tiles), [0], 0
    for row, count in enumerate(counts):
        if load + count > limit and len(begins) < tiles:
            begins.append(row)
            load = 0
        load += count
    return begins + [len(counts)] * (tiles - len(begins))


# %% 12.2: sorted first
# clause: **in order**
# why:  the rows were sorted first, and these are bands of the sorted ones.
# next: keep them in order: row i is counts[i].
def bands(counts, tiles):
    counts = sorted(counts)
    limit = max(counts)
    while True:
        begins, load = [0], 0
        for row, count in enumerate(counts):
            if load + count > limit:
                begins.append(row)
                load = 0
            load += count
        if len(begins) <= tiles:
            return begins + [len(counts)] * (tiles - len(begins))
        limit += 1


# %% 12.2: ends
# clause: the first is 0
# why:  these are the rows with which tiles end.
# next: a tile begins where the one before it ended, and the first at 0.
def bands(counts, tiles):
    limit = max(counts)
    while True:
        begins, load = [0], 0
        for row, count in enumerate(counts):
            if load + count > limit:
                begins.append(row)
                load = 0
            load += count
        if len(begins) <= tiles:
            return begins[1:] + [len(counts)] * (tiles - len(begins) + 1)
        limit += 1


# %% 12.2: fewer tiles than there are
# why:  there are fewer numbers than tiles.
# next: a tile that gets nothing has one, too: len(counts).
def bands(counts, tiles):
    limit = max(counts)
    while True:
        begins, load = [0], 0
        for row, count in enumerate(counts):
            if load + count > limit:
                begins.append(row)
                load = 0
            load += count
        if len(begins) <= tiles:
            return begins
        limit += 1


# %% 12.2: rows of each
# clause: The first row of each tile
# why:  these are numbers of rows, and asked is where each tile begins.
# next: add them up.
def bands(counts, tiles):
    limit = max(counts)
    while True:
        begins, load = [0], 0
        for row, count in enumerate(counts):
            if load + count > limit:
                begins.append(row)
                load = 0
            load += count
        if len(begins) <= tiles:
            ends = begins + [len(counts)] * (tiles - len(begins) + 1)
            return [b - a for a, b in zip(ends, ends[1:], strict=False)]
        limit += 1


# %% 12.3: one in eight for all
# why:  it is the same for all. That is a rule of thumb, and it depends on block and size.
# next: ask the two plans.
def break_even(size, n, block):
    return 1 / 8


# %% 12.3: one in sixteen for all
# why:  it is the same for all, as a rule of thumb.
# next: ask the two plans: sparse_cycles and dense_cycles.
def break_even(size, n, block):
    return 1 / 16


# %% 12.3: single values for all
# why:  it is worked out for single values, whatever the block is.
# next: hand block on to sparse_cycles.
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, 1, 2**-power) < dense_cycles(size, n):
            return 2**-power


# %% 12.3: multiplications alone
# clause: Use `dense_cycles` and `sparse_cycles`.
# why:  half of the multiplications are not half of the time.
# next: ask the two plans; they count what is sent, and how well the units are filled.
def break_even(size, n, block):
    return 1 / 2


# %% 12.3: beside FLOAT
# clause: both of halves
# why:  sparse halves are compared with a dense product of FLOAT, which takes several times as
#   long.
# next: compare like with like: both of halves.
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, block, 2**-power) < dense_cycles(size, n, FLOAT):
            return 2**-power


# %% 12.3: the smallest
# clause: the **largest** density
# why:  this is the smallest density at which sparse is quicker.
# next: begin with the largest, and stop at the first.
def break_even(size, n, block):
    for power in range(7, 0, -1):
        if sparse_cycles(size, n, block, 2**-power) < dense_cycles(size, n):
            return 2**-power


# %% 12.3: where dense is quicker
# clause: takes fewer cycles than the dense one
# why:  this is the largest density at which the dense product is quicker.
# next: turn the comparison round.
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, block, 2**-power) > dense_cycles(size, n):
            return 2**-power


# %% 12.3: non-zeros a cycle
# why:  rates are compared, of values that are there to all that a dense product multiplies, zeros
#   too. But both have the same result to deliver.
# next: compare cycles.
def break_even(size, n, block):
    for power in range(1, 8):
        density = 2**-power
        if density / sparse_cycles(size, n, block, density) > 1 / dense_cycles(size, n):
            return density
    return 0


# %% 12.3: where most is won
# why:  this is where most is won.
# next: asked is the largest density at which anything is.
def break_even(size, n, block):
    found = {2**-p: sparse_cycles(size, n, block, 2**-p) for p in range(1, 8)}
    best = min(found, key=found.get)
    return best if found[best] < dense_cycles(size, n) else 0


# %% 12.3: the reciprocal
# why:  this is 1 divided by the density.
# next: return the density itself, such as 1 / 4.
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, block, 2**-power) < dense_cycles(size, n):
            return 2**power


# %% 12.3: from a quarter on
# why:  the search begins at 1/4, so that 1/2 is never tried.
# next: begin with 1 / 2.
def break_even(size, n, block):
    density = 1 / 4
    while sparse_cycles(size, n, block, density) >= dense_cycles(size, n):
        density /= 2
    return density


# %% 12.3: in proportion
# why:  the cycles at 1/16 were scaled to the other densities. They do not shrink in proportion.
# next: call sparse_cycles for each density.
def break_even(size, n, block):
    ratio = dense_cycles(size, n) / sparse_cycles(size, n, block, 1 / 16)
    return max(2**-power for power in range(1, 8) if 16 * 2**-power < ratio)


# %% 12.3: one step too far
# why:  at this density the dense product is already the quicker one: the loop goes a step too far.
# next: return the density before it, which is half as large.
def break_even(size, n, block):
    density = 1 / 128
    while density <= 1 / 2 and sparse_cycles(size, n, block, density) < dense_cycles(size, n):
        density *= 2
    return density


# %% 12.4: an engine each
# clause: on **one** engine
# not yet: 8 engines compiled
def products(params, patterns, x):
    found = []
    for pattern in patterns:
        if pattern.num_blocks <= params.num_blocks:
            engine = dynamic_engine(params)
            data = dynamic.Partitioner(params, FLOAT, device.target).encode(pattern)
            engine.write_tensor("x", x)
            engine.write_tensor("meta_info", data.meta_info)
            engine.write_tensor("nz_values", data.nz_values)
            engine.run()
            found.append(engine.read_tensor("out"))
        else:
            found.append(None)
    return found


# %% 12.4: values without their places
# clause: Multiply each of `patterns` with `x`
# why:  the values were written, and not where they belong: the places are still the first
#   pattern's.
# next: write meta_info for each pattern: engine.write_tensor("meta_info", data.meta_info).
def products(params, patterns, x):
    engine, found = dynamic_engine(params), []
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    engine.write_tensor("meta_info", partitioner.encode(patterns[0]).meta_info)
    for pattern in patterns:
        fits = pattern.num_blocks <= params.num_blocks
        if fits:
            data = partitioner.encode(pattern)
            engine.write_tensor("nz_values", data.nz_values)
            engine.run()
        found.append(engine.read_tensor("out") if fits else None)
    return found


# %% 12.4: places without their values
# why:  the places were written, and the values are still the first pattern's.
# next: write nz_values for each pattern: engine.write_tensor("nz_values", data.nz_values).
def products(params, patterns, x):
    engine, found = dynamic_engine(params), []
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    engine.write_tensor("nz_values", partitioner.encode(patterns[0]).nz_values)
    for pattern in patterns:
        fits = pattern.num_blocks <= params.num_blocks
        if fits:
            data = partitioner.encode(pattern)
            engine.write_tensor("meta_info", data.meta_info)
            engine.run()
        found.append(engine.read_tensor("out") if fits else None)
    return found


# %% 12.4: too many are cut off
# clause: that the budget does not hold
# why:  blocks beyond the budget were dropped, and the product is that of another matrix.
# next: append None for a pattern that encode() refuses, and drop no block.
def products(params, patterns, x):
    engine, found = dynamic_engine(params), []
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    for pattern in patterns:
        coo, most = pattern.to_coo(), params.num_blocks
        places = coo.rows[:most], coo.columns[:most]
        cut = COOMatrix(coo.shape, *places, coo.values[:most], coo.block).to_csr()
        data = partitioner.encode(cut)
        engine.write_tensor("meta_info", data.meta_info)
        engine.write_tensor("nz_values", data.nz_values)
        engine.run()
        found.append(engine.read_tensor("out"))
    return found


# %% 12.4: too many are left out
# clause: **None** in the place of a pattern
# why:  a pattern beyond the budget has no entry, and all behind it move up.
# next: append None in its place.
def products(params, patterns, x):
    engine, found = dynamic_engine(params), []
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    for pattern in patterns:
        if pattern.num_blocks <= params.num_blocks:
            data = partitioner.encode(pattern)
            engine.write_tensor("meta_info", data.meta_info)
            engine.write_tensor("nz_values", data.nz_values)
            engine.run()
            found.append(engine.read_tensor("out"))
    return found


# %% 12.4: stops at too many
# clause: `pattern @ x` for each
# why:  it stops at the first pattern beyond the budget. Others come behind it.
# next: go on with the next one: continue, and not break.
def products(params, patterns, x):
    engine, found = dynamic_engine(params), []
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    for pattern in patterns:
        if pattern.num_blocks > params.num_blocks:
            break
        data = partitioner.encode(pattern)
        engine.write_tensor("meta_info", data.meta_info)
        engine.write_tensor("nz_values", data.nz_values)
        engine.run()
        found.append(engine.read_tensor("out"))
    return found


# %% 12.4: once more what was before
# why:  where the budget does not hold a pattern, the product of the one before stands again.
# next: append None where encode() raises PoplibsError.
def products(params, patterns, x):
    engine, found = dynamic_engine(params), []
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    for pattern in patterns:
        if pattern.num_blocks <= params.num_blocks:
            data = partitioner.encode(pattern)
            engine.write_tensor("meta_info", data.meta_info)
            engine.write_tensor("nz_values", data.nz_values)
            engine.run()
        found.append(engine.read_tensor("out"))
    return found


# %% 12.4: a budget for all that there could be
# why:  the budget was made as large as the whole matrix. Then buckets have room for every block,
#   in the memory and the time of a dense product.
# next: make the engine and the partitioner from `params` as they are.
def products(params, patterns, x):
    params = dynamic.MatMulParams.create_with_nz_ratio(
        params.m, params.k, params.n, 1, params.block
    )
    engine, found = dynamic_engine(params), []
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    for pattern in patterns:
        data = partitioner.encode(pattern)
        engine.write_tensor("meta_info", data.meta_info)
        engine.write_tensor("nz_values", data.nz_values)
        engine.run()
        found.append(engine.read_tensor("out"))
    return found


# %% 12.4: the partitioner of another product
# why:  no pattern was encoded: the partitioner was made with other parameters than `params`, and it
#   refuses all of these patterns.
# next: make dynamic.Partitioner(params, FLOAT, device.target) from the params that you were given.
def products(params, patterns, x):
    other = dynamic.MatMulParams.create_with_num_non_zero_values(60, 64, 8, 960, (4, 4))
    engine, found = dynamic_engine(params), []
    partitioner = dynamic.Partitioner(other, FLOAT, device.target)
    engine.write_tensor("x", x)
    for pattern in patterns:
        try:
            data = partitioner.encode(pattern)
        except PoplibsError:
            found.append(None)
            continue
        engine.write_tensor("meta_info", data.meta_info)
        engine.write_tensor("nz_values", data.nz_values)
        engine.run()
        found.append(engine.read_tensor("out"))
    return found


# %% 12.4: numpy multiplies
# not yet: not all of them are the device's
def products(params, patterns, x):
    dynamic_engine(params)
    return [
        pattern.to_dense() @ x if pattern.num_blocks <= params.num_blocks else None
        for pattern in patterns
    ]


# %% 12.4: no net below
# clause: the budget does not hold
# not yet: catch PoplibsError around encode(), and append None there
def products(params, patterns, x):
    engine, found = dynamic_engine(params), []
    partitioner = dynamic.Partitioner(params, FLOAT, device.target)
    engine.write_tensor("x", x)
    for pattern in patterns:
        data = partitioner.encode(pattern)
        engine.write_tensor("meta_info", data.meta_info)
        engine.write_tensor("nz_values", data.nz_values)
        engine.run()
        found.append(engine.read_tensor("out"))
    return found


# %% 12.w2: without the 0.3
# clause: 0.3 of it more
# why:  this is the even share alone.
# next: 0.3 of it more.
def slots(blocks, buckets):
    return -(-blocks // buckets)


# %% 12.w2: down to a whole number
# clause: rounded up to a whole number
# why:  it is rounded down, and then not everything has room.
# next: up: -(-a // b), or np.ceil.
def slots(blocks, buckets):
    return blocks * 13 // (10 * buckets)


# %% 12.w2: rounded twice
# why:  the even share is rounded up first, and then once more.
# next: round once, at the end.
def slots(blocks, buckets):
    return int(np.ceil(-(-blocks // buckets) * 1.3))


# %% 12.w2: 0.3 of a block
# why:  0.3 of a block is added, and asked is 0.3 of the even share.
# next: times 1.3.
def slots(blocks, buckets):
    return int(np.ceil(blocks / buckets + 0.3))


# %% 12.5: blocks too many
# why:  this is how many blocks are too many in the fullest part. Many of them travel together.
# next: in a step a part fills all the room of one bucket, and not the room of one block.
def steps(counts, slots):
    return max(0, max(counts) - slots)


# %% 12.5: the full buckets counted
# why:  this is how many parts have too many. They all spill in the same step.
# next: return the number of places that the farthest blocks travel.
def steps(counts, slots):
    return sum(count > slots for count in counts)


# %% 12.5: none
# why:  it is 0 for all. Blocks that have spilled lie in another's bucket, which has to come
#   round.
# next: follow one step by hand, with two lists.
def steps(counts, slots):
    return 0


# %% 12.5: all blocks over all room
# clause: until nothing is left
# why:  this is all blocks over the room of a bucket, as if they lay evenly.
# next: keep what is left of each part in a list, and the room of each bucket in another.
def steps(counts, slots):
    return sum(counts) // slots


# %% 12.5: the fullest part over a bucket
# clause: every bucket room for
# why:  this is how many buckets the fullest part needs, as if those before it were empty.
# next: they have blocks of their own: take away only the room that they have.
def steps(counts, slots):
    return -(-max(counts) // slots) - 1


# %% 12.5: to both sides
# why:  what spills goes to both sides here, and buckets go round one way.
# next: look at places before the part alone.
def steps(counts, slots):
    left = [max(0, count - slots) for count in counts]
    room = [max(0, slots - count) for count in counts]
    step = 0
    while any(left):
        step += 1
        for part in range(len(counts)):
            for there in ((part - step) % len(counts), (part + step) % len(counts)):
                fits = min(left[part], room[there])
                left[part] -= fits
                room[there] -= fits
    return step


# %% 12.5: its own bucket counted
# why:  filling the own bucket is counted as a step. Nothing has to travel for it.
# next: begin with 0.
def steps(counts, slots):
    left = [max(0, count - slots) for count in counts]
    room = [max(0, slots - count) for count in counts]
    step = 0
    while any(left):
        step += 1
        for part in range(len(counts)):
            fits = min(left[part], room[part - step])
            left[part] -= fits
            room[part - step] -= fits
    return step + 1


# %% 12.5: the other way round
# why:  what spills goes to the places behind the part.
# next: before it: (part - step) % parts.
def steps(counts, slots):
    left = [max(0, count - slots) for count in counts]
    room = [max(0, slots - count) for count in counts]
    step = 0
    while any(left):
        step += 1
        for part in range(len(counts)):
            there = (part + step) % len(counts)
            fits = min(left[part], room[there])
            left[part] -= fits
            room[there] -= fits
    return step


# %% 12.5: part by part
# why:  each part looks for room to the end before the next one begins. All look one step at a
#   time, and the nearer one is first.
# next: steps outside, parts inside.
def steps(counts, slots):
    left = [max(0, count - slots) for count in counts]
    room = [max(0, slots - count) for count in counts]
    most = 0
    for part in range(len(counts)):
        step = 0
        while left[part]:
            step += 1
            fits = min(left[part], room[part - step])
            left[part] -= fits
            room[part - step] -= fits
        most = max(most, step)
    return most


# %% 12.5: the fullest alone
# why:  only the fullest part spills here, into empty room. The others spill, too, and take it.
# next: keep what is left of every part.
def steps(counts, slots):
    part = counts.index(max(counts))
    left, step = counts[part] - slots, 0
    while left > 0:
        step += 1
        left -= max(0, slots - counts[part - step])
    return step


# %% 12.6: grown where it was pruned
# clause: where there was **none before**
# why:  blocks grow again where they have just gone, with the weights that they had.
# next: look for places in the old `there`, before anything is taken away.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    wanted = np.where(after, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: the count drifts
# clause: both new
# why:  the largest slopes of all blocks were taken, and some of those blocks were there already.
#   So fewer grow than go.
# next: let only places count where none was.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    wanted = (slopes**2).sum(axis=(2, 3))
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: nothing grows
# clause: let as many grow
# why:  blocks go, and none grow.
# next: as many as go grow elsewhere.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    kept[~after] = 0
    return after, kept


# %% 12.6: dead weights kept
# clause: so is what has gone
# why:  the pattern is right, and the weights of blocks that are gone are still there. Where such
#   a block comes back, it would begin with what it had.
# next: set them to 0.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after = there.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    return after, weights.copy()


# %% 12.6: pruned by sign
# why:  values are added up with their signs, so that large blocks that are negative go first.
# next: add up squares.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, weights.sum(axis=(2, 3)), np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: slopes by sign
# why:  this adds gradients with their signs, so a block of large gradients that cancel counts as
#   small.
# next: add up the squares of the gradients.
def prune_and_regrow(there, weights, slopes, moved):
    present, values = there.copy(), weights.copy()
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    loud = np.where(there, -np.inf, slopes.sum(axis=(2, 3)))
    gone = np.unravel_index(np.argsort(sizes, axis=None)[:moved], there.shape)
    new = np.unravel_index(np.argsort(-loud, axis=None)[:moved], there.shape)
    present[gone], present[new], values[gone] = False, True, 0
    return present, values


# %% 12.6: by the largest value of a block
# clause: the **sum of the squares**
# why:  a block is judged by one of its values, the largest.
# next: add up the squares of all of them.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).max(axis=(2, 3)), np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).max(axis=(2, 3)))
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: the largest go
# clause: Take away the
# why:  the largest blocks go.
# next: sort the other way.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), -np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(-sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: new blocks begin with a step
# clause: New blocks begin with 0
# why:  new blocks begin with what the slopes say.
# next: with 0: the next step of training moves them.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    kept[after & ~there] = -slopes[after & ~there]
    return after, kept


# %% 12.6: blocks of zeros go first
# why:  the places where no block is count as the smallest, and so hardly anything goes.
# next: give places without a block a size of np.inf.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = (weights**2).sum(axis=(2, 3))
    wanted = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: absolute values
# why:  this adds up absolute values. The exercise asks for squares, in which one large value counts
#   more than several small ones.
# next: (weights ** 2).sum(axis=(2, 3)).
def prune_and_regrow(there, weights, slopes, moved):
    present, values = there.copy(), weights.copy()
    sizes = np.where(there, np.abs(weights).sum(axis=(2, 3)), np.inf)
    loud = np.where(there, -np.inf, np.abs(slopes).sum(axis=(2, 3)))
    gone = np.unravel_index(np.argsort(sizes, axis=None)[:moved], there.shape)
    new = np.unravel_index(np.argsort(-loud, axis=None)[:moved], there.shape)
    present[gone], present[new], values[gone] = False, True, 0
    return present, values


# %% 12.6: grown where it has just gone
# why:  a block that has just gone may grow again here: this looks for places after it took the
#   smallest away.
# next: look for places in the old `there`.
def prune_and_regrow(there, weights, slopes, moved):
    present, values = there.copy(), weights.copy()
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    gone = np.unravel_index(np.argsort(sizes, axis=None)[:moved], there.shape)
    present[gone], values[gone] = False, 0
    loud = np.where(present, -np.inf, (slopes**2).sum(axis=(2, 3)))
    present[np.unravel_index(np.argsort(-loud, axis=None)[:moved], there.shape)] = True
    return present, values


# %% 12.6: the last none
# why:  it is right while something moves. The last 0 of a list are not [-0:]: that is all of it.
# next: take the first ones of the other order: np.argsort(-sizes, axis=None)[:moved].
def prune_and_regrow(there, weights, slopes, moved):
    present, values = there.copy(), weights.copy()
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    loud = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    gone = np.unravel_index(np.argsort(sizes, axis=None)[:moved], there.shape)
    new = np.unravel_index(np.argsort(loud, axis=None)[-moved:], there.shape)
    present[gone], present[new], values[gone] = False, True, 0
    return present, values


# %% 12.6: new blocks begin with their slope
# clause: New blocks begin with 0
# why:  a new block has the numbers of its gradient. It begins with 0.
# next: set the weights of new blocks to 0.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after = there.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept = np.where((after & ~there)[:, :, None, None], slopes, weights)
    kept[~after] = 0
    return after, kept
