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
# clause: How many blocks are in row
# why:  this is the number of blocks before the row.
# next: subtract it from the number of blocks before the next row.
def blocks_in(offsets, row):
    return offsets[row]


# %% 12.w1: how many up to it
# why:  this is the number of blocks from the first row up to this one.
# next: subtract the blocks of the rows before.
def blocks_in(offsets, row):
    return offsets[row + 1]


# %% 12.w1: the row before
# why:  this is the number of blocks of the row before.
# next: use offsets[row], where this row begins.
def blocks_in(offsets, row):
    return offsets[row] - offsets[row - 1]


# %% 12.1: a row without blocks is left out
# clause: write all of self.out.
# why:  a row without blocks is never written, so its output is undefined.
# next: write its zeros: a total that starts at 0 does that.
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
# clause: Now write the product itself
# why:  each block is transposed: it is read column by column.
# next: use number i * b + k of the block for number k of its row i.
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
# why:  a column of blocks is used as a row of x. Column c is multiplied with rows c * b to c * b +
#   b - 1.
# next: multiply the column by b.
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
# why:  each row of blocks is written as if it gave one row of out: the rows overwrite each other,
#   and the last ones are never written.
# next: write rows r * b to r * b + b - 1 for row r of blocks.
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
# next: end the range at offsets[row + 1], where the next row begins.
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
# why:  the total continues from one row to the next.
# next: start it at 0 for each number of out.
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
# why:  only the diagonal of each block is multiplied.
# next: multiply all b numbers of a block's row, each with its own row of x.
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
# why:  each block of a row overwrites the sum of the blocks before it: out is set to 0 for every
#   block.
# next: set each number of out to 0 once, before the loop over blocks.
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
# clause: A **row without blocks** gives zeros
# why:  products are added to out, which was never written: an output starts undefined.
# next: write 0 into each number of out first, or add into a total.
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
# next: use all columns of out, which are those of x: len(self.out[0]).
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
# not yet: self.row is state, which is kept from run to run
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
# clause: at most **1.1 times** as many blocks
# why:  each tile has the same number of rows, but rows have different numbers of blocks.
# next: add up blocks, and begin a new tile when it is full.
def bands(counts, tiles):
    return [tile * len(counts) // tiles for tile in range(tiles)]


# %% 12.2: over by one row
# why:  each tile takes rows until it reaches the mean, so it exceeds the mean by up to a row; the
#   last tiles get the rest.
# next: before you add a row, check whether it still fits.
def bands(counts, tiles):
    mean, begins, load = sum(counts) / tiles, [0], 0
    for row, count in enumerate(counts):
        load += count
        if load >= mean and len(begins) < tiles:
            begins.append(row + 1)
            load = 0
    return begins + [len(counts)] * (tiles - len(begins))


# %% 12.2: the last takes the rest
# why:  no tile may exceed the mean here, and the last tile gets everything that does not fit.
# next: raise the limit until everything fits.
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
# why:  the rows were sorted first, so these are bands of the sorted rows.
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
# clause: The first number is 0
# why:  these are the last rows of the tiles.
# next: return where each tile begins: at 0, and then where the one before it ended.
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
# next: return len(counts) for each tile without rows.
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
# clause: Return the first row of each tile
# why:  these are the numbers of rows of the tiles. The exercise asks for the first row of each.
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
# why:  the result is the same for all sizes. It depends on block and size.
# next: compare the two plans.
def break_even(size, n, block):
    return 1 / 8


# %% 12.3: one in sixteen for all
# why:  the result is the same for all sizes.
# next: compare the two plans: sparse_cycles and dense_cycles.
def break_even(size, n, block):
    return 1 / 16


# %% 12.3: single values for all
# why:  this always plans single values, whatever the block is.
# next: pass block to sparse_cycles.
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, 1, 2**-power) < dense_cycles(size, n):
            return 2**-power


# %% 12.3: multiplications alone
# clause: Use `dense_cycles` and `sparse_cycles`.
# why:  this compares multiplications. Half of the multiplications do not take half of the time.
# next: compare the two plans, which include the exchange and how well the units are used.
def break_even(size, n, block):
    return 1 / 2


# %% 12.3: beside FLOAT
# clause: both of halves
# why:  a sparse product of halves is compared with a dense product of FLOAT, which takes several
#   times as long.
# next: use halves for both.
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, block, 2**-power) < dense_cycles(size, n, FLOAT):
            return 2**-power


# %% 12.3: the smallest
# clause: the **largest** density
# why:  this is the smallest density at which sparse is faster.
# next: start with the largest, and stop at the first that is faster.
def break_even(size, n, block):
    for power in range(7, 0, -1):
        if sparse_cycles(size, n, block, 2**-power) < dense_cycles(size, n):
            return 2**-power


# %% 12.3: where dense is quicker
# clause: takes fewer cycles than the dense one
# why:  this is the largest density at which the dense product is faster.
# next: reverse the comparison.
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, block, 2**-power) > dense_cycles(size, n):
            return 2**-power


# %% 12.3: non-zeros a cycle
# why:  this compares rates: kept values per cycle with all values per cycle of the dense product.
#   But both compute the same result.
# next: compare cycles.
def break_even(size, n, block):
    for power in range(1, 8):
        density = 2**-power
        if density / sparse_cycles(size, n, block, density) > 1 / dense_cycles(size, n):
            return density
    return 0


# %% 12.3: where most is won
# why:  this is the density at which the gain is largest.
# next: return the largest density with any gain.
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
# why:  the search starts at 1/4, so 1/2 is never tried.
# next: start with 1 / 2.
def break_even(size, n, block):
    density = 1 / 4
    while sparse_cycles(size, n, block, density) >= dense_cycles(size, n):
        density /= 2
    return density


# %% 12.3: in proportion
# why:  the cycles at 1/16 are scaled to the other densities, but cycles are not proportional to the
#   density.
# next: call sparse_cycles for each density.
def break_even(size, n, block):
    ratio = dense_cycles(size, n) / sparse_cycles(size, n, block, 1 / 16)
    return max(2**-power for power in range(1, 8) if 16 * 2**-power < ratio)


# %% 12.3: one step too far
# why:  at this density the dense product is faster: the loop goes one step too far.
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
# clause: Multiply each of `patterns` by `x`
# why:  the values are written, but not their positions: these are still the first pattern's.
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
# why:  the positions are written, but the values are still the first pattern's.
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
# clause: for a pattern that exceeds the budget
# why:  blocks beyond the budget were dropped, so this is the product of another matrix.
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
# clause: **None** for a pattern
# why:  a pattern beyond the budget has no entry, so all later entries are shifted.
# next: append None for it.
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
# why:  this stops at the first pattern beyond the budget, although more patterns follow.
# next: use continue, not break.
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
# why:  for a pattern beyond the budget, this appends the previous product again.
# next: append None if encode() raises PoplibsError.
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
# why:  the budget is as large as the whole matrix, so the buckets have room for every block, with
#   the memory and the time of a dense product.
# next: use `params` unchanged for the engine and the partitioner.
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
# why:  no pattern was encoded: the partitioner was made with other parameters than `params`, and
#   refuses all of these patterns.
# next: make dynamic.Partitioner(params, FLOAT, device.target) from the argument `params`.
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
# not yet: the device did not compute all of them
def products(params, patterns, x):
    dynamic_engine(params)
    return [
        pattern.to_dense() @ x if pattern.num_blocks <= params.num_blocks else None
        for pattern in patterns
    ]


# %% 12.4: no net below
# clause: exceeds the budget
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
# clause: 1.3 times the even share
# why:  this is only the even share.
# next: multiply it by 1.3.
def slots(blocks, buckets):
    return -(-blocks // buckets)


# %% 12.w2: down to a whole number
# clause: rounded up to a whole number
# why:  this rounds down, so not all blocks have room.
# next: round up: -(-a // b), or np.ceil.
def slots(blocks, buckets):
    return blocks * 13 // (10 * buckets)


# %% 12.w2: rounded twice
# why:  the even share is rounded up first, and then the result again.
# next: round once, at the end.
def slots(blocks, buckets):
    return int(np.ceil(-(-blocks // buckets) * 1.3))


# %% 12.w2: 0.3 of a block
# why:  this adds 0.3 of a block. The exercise adds 0.3 of the even share.
# next: multiply by 1.3.
def slots(blocks, buckets):
    return int(np.ceil(blocks / buckets + 0.3))


# %% 12.5: blocks too many
# why:  this is the number of extra blocks in the fullest part. Many of them can move at once.
# next: let a part fill all the room of one bucket in a step, not the room of one block.
def steps(counts, slots):
    return max(0, max(counts) - slots)


# %% 12.5: the full buckets counted
# why:  this is the number of parts with too many blocks. They all spill in the same step.
# next: return the largest distance over which blocks spill.
def steps(counts, slots):
    return sum(count > slots for count in counts)


# %% 12.5: none
# why:  this is 0 for all patterns. Blocks that spilled are in another part's bucket, which has to
#   move.
# next: trace one step by hand, with two lists.
def steps(counts, slots):
    return 0


# %% 12.5: all blocks over all room
# clause: until no block is left
# why:  this divides all blocks by the room of a bucket, as if the pattern were even.
# next: keep the blocks left of each part in a list, and the room of each bucket in another.
def steps(counts, slots):
    return sum(counts) // slots


# %% 12.5: the fullest part over a bucket
# clause: every bucket has room for
# why:  this is the number of buckets that the fullest part needs, as if the buckets before it were
#   empty.
# next: subtract only the room that these buckets have left.
def steps(counts, slots):
    return -(-max(counts) // slots) - 1


# %% 12.5: to both sides
# why:  blocks spill to both sides here, but the buckets move in one direction.
# next: use only positions before the part.
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
# why:  filling a part's own bucket is counted as a step. Nothing has to move for it.
# next: start with 0.
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
# why:  blocks spill to the positions after the part.
# next: use the positions before it: (part - step) % parts.
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
# why:  each part places all its blocks before the next part begins. In each step, all parts use one
#   position each, so a nearer part comes first.
# next: put the loop over steps outside, and the loop over parts inside.
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
# why:  only the fullest part spills here, into empty room. The other parts spill, too, and use some
#   of it.
# next: keep the blocks left of every part.
def steps(counts, slots):
    part = counts.index(max(counts))
    left, step = counts[part] - slots, 0
    while left > 0:
        step += 1
        left -= max(0, slots - counts[part - step])
    return step


# %% 12.6: grown where it was pruned
# clause: where there was **no block before**
# why:  removed blocks are added again at once, with their old weights.
# next: choose new positions with the old `there`, before anything is removed.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    wanted = np.where(after, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: the count drifts
# clause: Return new arrays
# why:  this takes the largest gradients of all blocks, and some of those blocks are already
#   present. So fewer are added than removed.
# next: choose only positions without a block.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    wanted = (slopes**2).sum(axis=(2, 3))
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: nothing grows
# clause: add the same number of new blocks
# why:  blocks are removed, and none are added.
# next: add as many blocks as you remove.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    kept[~after] = 0
    return after, kept


# %% 12.6: dead weights kept
# clause: of removed blocks are 0
# why:  the pattern is right, but removed blocks keep their weights. If such a block were added
#   again, it would start with its old weights.
# next: set the weights of removed blocks to 0.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after = there.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    return after, weights.copy()


# %% 12.6: pruned by sign
# why:  values are added up with their signs, so large negative blocks are removed first.
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
# why:  gradients are added up with their signs, so a block of large gradients that cancel counts as
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
# why:  a block is judged by its largest value alone.
# next: add up the squares of all its values.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).max(axis=(2, 3)), np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).max(axis=(2, 3)))
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: the largest go
# clause: Remove the
# why:  the largest blocks are removed.
# next: sort in the other order.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), -np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(-sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: new blocks begin with a step
# clause: The weights of new and of removed blocks are 0
# why:  new blocks start with a step along the gradient.
# next: set their weights to 0: the next training step changes them.
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
# why:  missing blocks count as the smallest, so almost no block is removed.
# next: give positions without a block the size np.inf.
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
# next: use (weights ** 2).sum(axis=(2, 3)).
def prune_and_regrow(there, weights, slopes, moved):
    present, values = there.copy(), weights.copy()
    sizes = np.where(there, np.abs(weights).sum(axis=(2, 3)), np.inf)
    loud = np.where(there, -np.inf, np.abs(slopes).sum(axis=(2, 3)))
    gone = np.unravel_index(np.argsort(sizes, axis=None)[:moved], there.shape)
    new = np.unravel_index(np.argsort(-loud, axis=None)[:moved], there.shape)
    present[gone], present[new], values[gone] = False, True, 0
    return present, values


# %% 12.6: grown where it has just gone
# why:  a block that was just removed may be added again: this looks for positions after the
#   removal.
# next: choose positions with the old `there`.
def prune_and_regrow(there, weights, slopes, moved):
    present, values = there.copy(), weights.copy()
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    gone = np.unravel_index(np.argsort(sizes, axis=None)[:moved], there.shape)
    present[gone], values[gone] = False, 0
    loud = np.where(present, -np.inf, (slopes**2).sum(axis=(2, 3)))
    present[np.unravel_index(np.argsort(-loud, axis=None)[:moved], there.shape)] = True
    return present, values


# %% 12.6: the last none
# why:  this is right while something moves. For moved = 0, [-0:] is the whole list.
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
# clause: The weights of new and of removed blocks are 0
# why:  a new block has the numbers of its gradient. It has to start with 0.
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
