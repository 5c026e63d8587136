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
# why:  this is the number of blocks before the row, not in the row.
# next: subtract this from the number of blocks before the next row.
def blocks_in(offsets, row):
    return offsets[row]


# %% 12.w1: how many up to it
# why:  this is the number of blocks from the first row up to this one.
# next: subtract the blocks of the rows before it.
def blocks_in(offsets, row):
    return offsets[row + 1]


# %% 12.w1: the row before
# why:  this is the number of blocks of the previous row.
# next: use the offset of the next row instead of the row before.
def blocks_in(offsets, row):
    return offsets[row] - offsets[row - 1]


# %% 12.w1: the row before, or none
# why:  this is the number of blocks of the previous row, and 0 for row 0.
# next: use the offset of the next row instead of the row before.
def blocks_in(offsets, row):
    return offsets[row] - offsets[row - 1] if row else offsets[0]


# %% 12.1: a row without blocks is left out
# clause: write all of self.out.
# why:  a row without blocks is never written, so its output is undefined.
# next: write zeros for a row without blocks: start a total at 0 for every number of `out`.
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
# why:  each block is read column by column, which transposes it.
# next: use values[(block * b + i) * b + k] for number k of row i.
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
# why:  a block in column c is multiplied by rows c, c + 1, … of x, but it needs rows c * b to c * b
#   + b - 1.
# next: use row columns[block] * b + k of x for number k of a block's row.
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
# why:  row r of blocks is written into rows r + i of `out`, so the rows overwrite each other.
# next: write row i of this row of blocks into row r * b + i of `out`.
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
# next: set the total to 0 for each number of `out`.
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
# next: loop over all k below b for each row i of a block.
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
# why:  out is set to 0 for every block, so each block overwrites the sum of the blocks before it.
# next: set each number of `out` to 0 once, before the loop over blocks.
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
# why:  the products are added to out before anything is written there, but an output starts
#   undefined.
# next: add the products into a total that starts at 0, and store it in out.
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
# why:  only the first b columns of `out` are written.
# next: loop over all columns of `out`: range(len(self.out[0])).
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
# not yet: self.row is state, which keeps its value between runs
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


# %% 12.1: blocks b values apart
# why:  the blocks are taken b values apart, but each block has b * b values.
# next: start block k at value k * b * b.
class BlockRows(Vertex):
    values: Input[Vector[FLOAT]]
    offsets: Input[Vector[INT]]
    columns: Input[Vector[INT]]
    x: Input[Vector[Vector[FLOAT]]]
    b: Input[INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        b = self.b
        self.out = 0
        for row in range(len(self.offsets) - 1):
            for k in range(self.offsets[row], self.offsets[row + 1]):
                block = self.values[k * b : k * b + b * b].reshape(b, b)
                c = self.columns[k] * b
                self.out[row * b : row * b + b] += block @ self.x[c : c + b]


# %% 12.2: equal rows
# clause: at most **1.1 times** as many blocks
# why:  each tile has the same number of rows, but the rows have different numbers of blocks.
# next: count the blocks of a tile, and begin the next tile when it is full.
def bands(counts, tiles):
    return [tile * len(counts) // tiles for tile in range(tiles)]


# %% 12.2: over by one row
# why:  a tile takes rows until it has reached the mean, so it can exceed the mean by almost a whole
#   row.
# next: begin the next tile if a row would exceed the limit.
def bands(counts, tiles):
    mean, begins, load = sum(counts) / tiles, [0], 0
    for row, count in enumerate(counts):
        load += count
        if load >= mean and len(begins) < tiles:
            begins.append(row + 1)
            load = 0
    return begins + [len(counts)] * (tiles - len(begins))


# %% 12.2: the last takes the rest
# why:  the other tiles stop at a limit that is too low, so the last tile gets all rows that do not
#   fit.
# next: raise the limit until all rows fit on the tiles.
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
# next: use `counts` in its own order, without sorting.
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
# why:  this returns the ends of the tiles, but the exercise asks for their first rows.
# next: return 0 for the first tile, and for each other tile the end of the tile before it.
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
# next: append len(counts) for each tile without rows.
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
# why:  these are the numbers of rows of the tiles, but the exercise asks for the first row of each.
# next: return the sum of the rows of all tiles before it.
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
# why:  the result is 1/8 for all sizes, but it depends on `size`, `n` and `block`.
# next: for each density from 1 / 2 down, compare sparse_cycles(…) with dense_cycles(…), and return
#   the first density at which sparse takes fewer cycles.
def break_even(size, n, block):
    return 1 / 8


# %% 12.3: one in sixteen for all
# why:  the result is 1/16 for all sizes, but it depends on `size`, `n` and `block`.
# next: for each density from 1 / 2 down, compare sparse_cycles(…) with dense_cycles(…), and return
#   the first density at which sparse takes fewer cycles.
def break_even(size, n, block):
    return 1 / 16


# %% 12.3: single values for all
# why:  this always plans single values, and ignores the argument `block`.
# next: pass `block` to sparse_cycles: sparse_cycles(size, n, block, density).
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, 1, 2**-power) < dense_cycles(size, n):
            return 2**-power


# %% 12.3: multiplications alone
# clause: Use `dense_cycles` and `sparse_cycles`.
# why:  this always returns 1/2, as if a sparse product with half of the multiplications were
#   faster.
# next: for each density from 1 / 2 down, compare sparse_cycles(…) with dense_cycles(…), and return
#   the first density at which sparse takes fewer cycles.
def break_even(size, n, block):
    return 1 / 2


# %% 12.3: beside FLOAT
# clause: products are of halves
# why:  the dense product has the dtype FLOAT here, but the sparse one has HALF, which is faster.
# next: call dense_cycles(size, n), which uses HALF.
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, block, 2**-power) < dense_cycles(size, n, FLOAT):
            return 2**-power


# %% 12.3: the smallest
# clause: the **largest** density
# why:  this is the smallest density at which sparse is faster, but the exercise asks for the
#   largest.
# next: start with 1 / 2, and go to smaller densities.
def break_even(size, n, block):
    for power in range(7, 0, -1):
        if sparse_cycles(size, n, block, 2**-power) < dense_cycles(size, n):
            return 2**-power


# %% 12.3: where dense is quicker
# clause: takes fewer cycles than the dense one
# why:  this is the largest density at which the dense product is faster.
# next: return the first density at which sparse takes fewer cycles: compare with <.
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, block, 2**-power) > dense_cycles(size, n):
            return 2**-power


# %% 12.3: non-zeros a cycle
# why:  this compares values per cycle, but a sparse product has fewer values for the same result.
# next: compare the cycles of both products.
def break_even(size, n, block):
    for power in range(1, 8):
        density = 2**-power
        if density / sparse_cycles(size, n, block, density) > 1 / dense_cycles(size, n):
            return density
    return 0


# %% 12.3: where most is won
# why:  this is the density at which sparse saves most, but the exercise asks for the largest
#   density at which it is faster.
# next: start with 1 / 2, and return the first density at which sparse takes fewer cycles.
def break_even(size, n, block):
    found = {2**-p: sparse_cycles(size, n, block, 2**-p) for p in range(1, 8)}
    best = min(found, key=found.get)
    return best if found[best] < dense_cycles(size, n) else 0


# %% 12.3: the reciprocal
# why:  this is 1 / density.
# next: return the density itself, such as 1 / 4.
def break_even(size, n, block):
    for power in range(1, 8):
        if sparse_cycles(size, n, block, 2**-power) < dense_cycles(size, n):
            return 2**power


# %% 12.3: from a quarter on
# why:  the search starts at 1/4, so 1/2 is never tried.
# next: start the search with 1 / 2.
def break_even(size, n, block):
    density = 1 / 4
    while sparse_cycles(size, n, block, density) >= dense_cycles(size, n):
        density /= 2
    return density


# %% 12.3: in proportion
# why:  this assumes that the cycles are proportional to the density, but they are not.
# next: call sparse_cycles for each density.
def break_even(size, n, block):
    ratio = dense_cycles(size, n) / sparse_cycles(size, n, block, 1 / 16)
    return max(2**-power for power in range(1, 8) if 16 * 2**-power < ratio)


# %% 12.3: one step too far
# why:  at this density sparse is not faster: the loop goes one step too far.
# next: return half of this density.
def break_even(size, n, block):
    density = 1 / 128
    while density <= 1 / 2 and sparse_cycles(size, n, block, density) < dense_cycles(size, n):
        density *= 2
    return density


# %% 12.3: size and n swapped
# why:  dense_cycles gets `n` and `size` in the wrong order: this is right only if both are equal.
# next: call dense_cycles(size, n).
def break_even(size, n, block):
    dense = dense_cycles(n, size)
    return max(2**-p for p in range(1, 8) if sparse_cycles(size, n, block, 2**-p) < dense)


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
# why:  meta_info is always that of the first pattern, so the values are in wrong positions.
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
# why:  nz_values is always that of the first pattern.
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
# why:  blocks beyond the budget are dropped, so this is the product of another matrix.
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
# why:  a pattern beyond the budget has no entry in the list, so all later entries are shifted.
# next: append None for a pattern beyond the budget.
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
# why:  this stops at the first pattern beyond the budget, but more patterns follow.
# next: use continue instead of break.
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
# why:  this budget is as large as the whole matrix, so the product needs the memory and the time of
#   a dense one.
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
# clause: so the function must create its own partitioner
# why:  the partitioner was created with other parameters than `params`, so it refuses all of these
#   patterns.
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
# not yet: put try: … except PoplibsError: around encode(), and append None in the except
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
# why:  this is only the even share, without the extra room of 0.3.
# next: multiply the even share by 1.3 before you round up.
def slots(blocks, buckets):
    return -(-blocks // buckets)


# %% 12.w2: down to a whole number
# clause: rounded up to a whole number
# why:  this rounds down, so some blocks have no room.
# next: round up: a fraction of a block needs room for a whole block.
def slots(blocks, buckets):
    return blocks * 13 // (10 * buckets)


# %% 12.w2: to nearest
# why:  this rounds to the nearest whole number, but the exercise asks to round up.
# next: round up: a fraction of a block needs room for a whole block.
def slots(blocks, buckets):
    return round(1.3 * blocks / buckets)


# %% 12.w2: rounded twice
# why:  this rounds up twice, before and after the factor 1.3.
# next: round up only once, at the end.
def slots(blocks, buckets):
    return int(np.ceil(-(-blocks // buckets) * 1.3))


# %% 12.w2: 0.3 of a block
# why:  this adds 0.3 of one block, but the extra room is 0.3 of the even share.
# next: multiply the even share by 1.3.
def slots(blocks, buckets):
    return int(np.ceil(blocks / buckets + 0.3))


# %% 12.w2: always one more
# why:  this adds 1 also if the product is a whole number.
# next: round up: a whole number stays as it is.
def slots(blocks, buckets):
    return blocks * 13 // (10 * buckets) + 1


# %% 12.w2: with floats
# clause: Compute with whole numbers only
# not yet: 1.3 is no exact float
def slots(blocks, buckets):
    return int(np.ceil(blocks / buckets * 1.3))


# %% 12.5: blocks too many
# why:  this is the number of blocks that do not fit in the fullest part, but many blocks can move
#   in one step.
# next: in each step, let a part place as many blocks as its bucket has room for.
def steps(counts, slots):
    return max(0, max(counts) - slots)


# %% 12.5: the full buckets counted
# why:  this is the number of parts with too many blocks, but all parts place blocks in the same
#   step.
# next: count the steps while any part has blocks left.
def steps(counts, slots):
    return sum(count > slots for count in counts)


# %% 12.5: none
# why:  this is always 0, but a block in another part's bucket needs at least one step.
# next: count the steps while any part has blocks left.
def steps(counts, slots):
    return 0


# %% 12.5: all blocks over all room
# clause: until no block is left
# why:  this divides the number of all blocks by the room of one bucket, as if the parts were even.
# next: keep two lists: the blocks left of each part, and the room in each bucket.
def steps(counts, slots):
    return sum(counts) // slots


# %% 12.5: the fullest part over a bucket
# clause: every bucket has room for
# why:  this assumes that the other buckets are empty, but they contain blocks of their own parts.
# next: subtract from each bucket's room the blocks of its own part.
def steps(counts, slots):
    return -(-max(counts) // slots) - 1


# %% 12.5: to both sides
# why:  blocks go to buckets on both sides here, but the buckets move in one direction.
# next: in step s, let part p use only bucket (p - s) % parts.
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
# why:  this counts one step for the part's own bucket, but nothing has to move there.
# next: start to count at 0.
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
# why:  blocks go to the buckets after the part, but the buckets come from the positions before it.
# next: in step s, let part p use bucket (p - s) % parts.
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
# why:  here each part places all its blocks before the next part begins, but all parts should
#   place blocks in every step.
# next: put the loop over steps outside, and the loop over parts inside it.
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
# why:  only the fullest part places blocks here, but the other parts also use the room.
# next: keep the blocks left of every part in a list.
def steps(counts, slots):
    part = counts.index(max(counts))
    left, step = counts[part] - slots, 0
    while left > 0:
        step += 1
        left -= max(0, slots - counts[part - step])
    return step


# %% 12.5: no ring
# why:  the first parts have no positions before them here. The parts form a ring: the last part is
#   before the first one.
# next: count positions modulo len(counts): (part - step) % len(counts).
def steps(counts, slots):
    left = [max(c - slots, 0) for c in counts]
    room = [max(slots - c, 0) for c in counts]
    step = 0
    while any(left) and step < len(counts):
        step += 1
        for part in range(step, len(counts)):
            moved = min(left[part], room[part - step])
            left[part] -= moved
            room[part - step] -= moved
    return step


# %% 12.6: grown where it was pruned
# clause: where there was **no block before**
# why:  a removed block is added again at once, with its old weights.
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
# why:  this adds the blocks with the largest gradients, but some of them are already present, so
#   fewer blocks are added than removed.
# next: choose only positions where there was no block: give the others -np.inf.
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
# why:  blocks are removed, but none are added.
# next: add `moved` blocks at the positions with the largest gradients.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    kept[~after] = 0
    return after, kept


# %% 12.6: dead weights kept
# clause: of removed blocks are 0
# why:  the pattern is right, but removed blocks keep their weights.
# next: set the weights of removed blocks to 0.
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after = there.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    return after, weights.copy()


# %% 12.6: pruned by sign
# why:  the weights of a block are added up with their signs, so a block of large negative weights
#   counts as small.
# next: add up squares: (weights ** 2).sum(axis=(2, 3)).
def prune_and_regrow(there, weights, slopes, moved):
    sizes = np.where(there, weights.sum(axis=(2, 3)), np.inf)
    wanted = np.where(there, -np.inf, (slopes**2).sum(axis=(2, 3)))
    after, kept = there.copy(), weights.copy()
    after.flat[np.argsort(sizes, axis=None)[:moved]] = False
    after.flat[np.argsort(-wanted, axis=None)[:moved]] = True
    kept[~after] = 0
    return after, kept


# %% 12.6: slopes by sign
# why:  the gradients of a block are added up with their signs, so large gradients that cancel count
#   as small.
# next: add up squares: (grads ** 2).sum(axis=(2, 3)).
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
# why:  the size of a block is only its largest value here.
# next: add up the squares of all values of a block.
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
# why:  the largest blocks are removed, instead of the smallest.
# next: sort the sizes in ascending order, with np.inf where there is no block.
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
# why:  new blocks start with a step along the gradient, but they should start with 0.
# next: set the weights of new blocks to 0.
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
# why:  positions without a block have the size 0 and come first, so almost no block is removed.
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
# why:  this adds up absolute values, but the exercise asks for squares.
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
# why:  the new positions are chosen after the removal, so a removed block can be added again at
#   once.
# next: choose the new positions with the old `there`, before anything is removed.
def prune_and_regrow(there, weights, slopes, moved):
    present, values = there.copy(), weights.copy()
    sizes = np.where(there, (weights**2).sum(axis=(2, 3)), np.inf)
    gone = np.unravel_index(np.argsort(sizes, axis=None)[:moved], there.shape)
    present[gone], values[gone] = False, 0
    loud = np.where(present, -np.inf, (slopes**2).sum(axis=(2, 3)))
    present[np.unravel_index(np.argsort(-loud, axis=None)[:moved], there.shape)] = True
    return present, values


# %% 12.6: the last none
# why:  for moved = 0 this adds all blocks, because [-0:] is the whole array.
# next: take the first elements of the other order: np.argsort(-sizes, axis=None)[:moved].
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
# why:  new blocks start with their gradient, but they should start with 0.
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


# %% 12.w2: not rounded
# why:  this is 1.3 times the even share, but it is not rounded up to a whole number.
# next: round it up with -(-a // b).
def slots(blocks, buckets):
    return 13 * blocks / (10 * buckets)


# %% 12.w2: the even share rounded down first
# why:  this rounds the even share down before it multiplies, which loses a part of a block.
# next: multiply first, and round up once, at the end.
def slots(blocks, buckets):
    return -(-(blocks // buckets) * 13 // 10)


# %% 12.w2: rounded down twice
# why:  this rounds down twice: first the even share, and then 1.3 times this share.
# next: multiply first, and round up once, at the end.
def slots(blocks, buckets):
    return blocks // buckets * 13 // 10


# %% 12.w2: rounded down twice, and one more
# why:  this rounds down twice and adds 1, which is not the same as rounding up.
# next: multiply first, and round up once, at the end.
def slots(blocks, buckets):
    return blocks // buckets * 13 // 10 + 1


# %% 12.w2: up, then down
# why:  this rounds the even share up, and then rounds 1.3 times this share down.
# next: multiply first, and round up once, at the end.
def slots(blocks, buckets):
    return -(-blocks // buckets) * 13 // 10


# %% 12.w2: the budget up, then the share down
# why:  this rounds 1.3 times the budget up, and then rounds the share of a bucket down.
# next: divide by 10 * buckets in one step, and round up.
def slots(blocks, buckets):
    return -(-13 * blocks // 10) // buckets


# %% 12.w2: times the buckets
# why:  Python computes // and * from left to right, so this multiplies by `buckets`.
# next: put 10 * buckets into brackets.
def slots(blocks, buckets):
    return -(-13 * blocks // 10 * buckets)


# %% 12.w2: room for all
# why:  this is 1.3 times the whole budget, but a bucket gets only its share of it.
# next: divide by `buckets`, too.
def slots(blocks, buckets):
    return -(-13 * blocks // 10)


# %% 12.w2: the extra room alone
# why:  this is only the extra room of 0.3 times the even share, without the share itself.
# next: multiply by 13 instead of 3.
def slots(blocks, buckets):
    return -(-3 * blocks // (10 * buckets))


# %% 12.w2: buckets - 1 more before rounding down
# why:  adding buckets - 1 rounds up only if the divisor is `buckets`, but here it is 10 * buckets.
# next: add the divisor minus 1, or round up with -(-a // b).
def slots(blocks, buckets):
    return (13 * blocks + buckets - 1) // (10 * buckets)


# %% 12.w2: buckets - 1 more before rounding down
# why:  adding buckets - 1 rounds up only if the divisor is `buckets`, but here it is 10 * buckets.
# next: add the divisor minus 1, or round up with -(-a // b).
def slots(blocks, buckets):
    return (13 * blocks + buckets - 1) // (10 * buckets)
