# %% given
"""Known mistakes of lesson 09; what this file is: mistakes.py."""

from ipu_teach import FLOAT, UNSIGNED_INT, concat
from ipu_teach.poplibs import gcl, poplin, popops, poputil
from ipu_teach.program import Copy, Repeat, Sequence

TILES = 13
REPLICAS = 4


def on_replica(graph, i, shape, name):
    """A tensor on one of the IPUs, its last axis spread over the tiles."""
    part = graph.create_virtual_graph(i * TILES, (i + 1) * TILES)
    made = part.add_variable(FLOAT, shape, name)
    length = shape[-1]
    for tile in range(TILES):
        begin, end = length * tile // TILES, length * (tile + 1) // TILES
        if begin < end:
            part.set_tile_mapping(made[..., begin:end], tile)
    return made


def reduce_scatter(graph, tensors, program):
    """The sum of four tensors of n numbers: a shard on each replica, padded with zeros."""
    return gcl.reduce_scatter_within_replica(graph, tensors, "ADD", program)


def all_gather(graph, shards, program):
    """All shards on each replica: four tensors of (4, the length of a shard)."""
    return gcl.all_gather_within_replica(graph, shards, program)


# %% 09.w1: the micro-batches first
# clause: first all micro-batches of layer 0
# why:  this puts all rows of a micro-batch side by side, but all rows of a layer should be side by
#   side.
# next: write down the rows of layers 0, 1 and 2 for three micro-batches, and count them.
def row_of(layer, batch, batches):
    return batch * batches + layer


# %% 09.w1: added up
# clause: there are `batches` micro-batches
# why:  each earlier layer has `batches` rows, but this skips only one row for it.
# next: write down the rows of layers 0, 1 and 2 for three micro-batches, and count them.
def row_of(layer, batch, batches):
    return layer + batch


# %% 09.w1: counted from 1
# clause: Layers, micro-batches and rows are counted from 0.
# why:  this counts the rows from 1, but the first row is row 0.
# next: leave out the + 1.
def row_of(layer, batch, batches):
    return layer * batches + batch + 1


# %% 09.w1: the other way round
# why:  this multiplies the layer by the number of the micro-batch.
# next: multiply the layer by `batches`, and add the number of the micro-batch.
def row_of(layer, batch, batches):
    return layer * batch + batches


# %% 09.w1: one less
# why:  this is one too small: micro-batch 0 of layer 0 is in row 0.
# next: leave out the - 1.
def row_of(layer, batch, batches):
    return layer * batches + batch - 1


# %% 09.1: the store is forgotten
# clause: Return a program that adds 1 to the first
# why:  the rows are unchanged: the new values stay on the tiles and are never stored.
# next: store the new values with Copy(x, buffer, row), after the addition.
def add_one(graph, buffer, x, row, rows):
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows, body))
    return program


# %% 09.1: counted before the store
# why:  `row` goes up between the load and the store, so each row is stored one row too far.
# next: add 1 to `row` after the store.
def add_one(graph, buffer, x, row, rows):
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    popops.add_in_place(graph, row, 1, body)
    body.add(Copy(x, buffer, row))
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows, body))
    return program


# %% 09.1: never counted on
# clause: Count the rows on the device, in a `Repeat`
# why:  every iteration changes row 0, and the other rows are never changed.
# next: set `row` to 0 once, before the Repeat, and add 1 to it at the end of the body: both copies
#   read the row number from it.
def add_one(graph, buffer, x, row, rows):
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows, body))
    return program


# %% 09.1: goes on where the last run ended
# clause: Each time the program runs, it adds 1 again.
# why:  `row` keeps its value from the first run, so the second run starts after the last row.
# next: set `row` to 0 at the start of the program: popops.zero(graph, row, program).
def add_one(graph, buffer, x, row, rows):
    graph.set_initial_value(row, 0)
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    popops.add_in_place(graph, row, 1, body)
    return Repeat(rows, body)


# %% 09.1: from row 1 on
# why:  this starts with row 1, so row 0 is unchanged, and the last iteration uses a row that does
#   not exist.
# next: add 1 to `row` after the store, so that the first iteration uses row 0.
def add_one(graph, buffer, x, row, rows):
    body = Sequence()
    popops.add_in_place(graph, row, 1, body)
    body.add(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows, body))
    return program


# %% 09.1: one turn too few
# why:  the last row is unchanged, since the Repeat has one iteration too few.
# next: write Repeat(rows, body).
def add_one(graph, buffer, x, row, rows):
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows - 1, body))
    return program


# %% 09.1: written down row by row
# clause: so that the program for a million rows is no larger than for one
# not yet: so a program for a million rows would not fit
def add_one(graph, buffer, x, row, rows):
    program = Sequence()
    popops.zero(graph, row, program)
    for _ in range(rows):
        program.add(Copy(buffer, x, row))
        popops.add_in_place(graph, x, 1, program)
        program.add(Copy(x, buffer, row))
        popops.add_in_place(graph, row, 1, program)
    return program


# %% 09.1: nothing is returned
# clause: return the program
# not yet: is there a `return`?
def add_one(graph, buffer, x, row, rows):
    Repeat(rows, Sequence(Copy(buffer, x, row)))


# %% 09.1: loaded once
# why:  x is loaded only once, before the loop, so each row gets a value that is computed from row
#   0.
# next: load in the body: Copy(buffer, x, row).
def add_one(graph, buffer, x, row, rows):
    program, body = Sequence(), Sequence()
    popops.zero(graph, row, program)
    program.add(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    popops.add_in_place(graph, row, 1, body)
    program.add(Repeat(rows, body))
    return program


# %% 09.1: one turn too many
# clause: the first `rows` rows
# why:  one iteration too many reads the row after the last one, which was never written.
# next: write Repeat(rows, body).
def add_one(graph, buffer, x, row, rows):
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows + 1, body))
    return program


# %% 09.2: the result goes nowhere
# clause: Return a program that applies all layers to x.
# why:  `x` still has the original input: no result is copied into x. (`x = y` in Python copies
#   nothing.)
# next: copy the result into x with Copy, at the end of each layer.
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    body = Sequence(Copy(buffer, w, row))
    y = poplin.mat_mul(graph, x, w, body)
    popops.tanh_in_place(graph, y, body)
    popops.add_in_place(graph, row, 1, body)
    program.add(Repeat(layers, body))
    return program


# %% 09.2: always the first layer
# clause: 78 x 78 weights of layer n
# why:  every iteration uses the weights of layer 0.
# next: load in the body, Copy(buffer, w, row), and add 1 to `row` at its end.
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    body = Sequence(Copy(buffer, w, row))
    y = poplin.mat_mul(graph, x, w, body)
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    program.add(Repeat(layers, body))
    return program


# %% 09.2: always eight layers
# why:  the Repeat has 8 iterations, whatever the number of layers.
# next: write Repeat(layers, body).
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    body = Sequence(Copy(buffer, w, row))
    y = poplin.mat_mul(graph, x, w, body)
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(8, body))
    return program


# %% 09.2: one layer too few
# clause: Apply all layers to
# why:  the last layer is missing, since the Repeat has one iteration too few.
# next: write Repeat(layers, body).
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    body = Sequence(Copy(buffer, w, row))
    y = poplin.mat_mul(graph, x, w, body)
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    popops.add_in_place(graph, row, 1, body)
    program.add(Repeat(layers - 1, body))
    return program


# %% 09.2: without tanh
# clause: tanh(x @ w)
# why:  x has the products themselves, since tanh is missing.
# next: apply tanh to the product before the copy into x.
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    body = Sequence(Copy(buffer, w, row))
    y = poplin.mat_mul(graph, x, w, body)
    body.add(Copy(y, x))
    popops.add_in_place(graph, row, 1, body)
    program.add(Repeat(layers, body))
    return program


# %% 09.2: tanh before the product
# why:  this applies tanh before each product, so tanh is missing after the last product.
# next: multiply first, then apply tanh.
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    body = Sequence(Copy(buffer, w, row))
    popops.tanh_in_place(graph, x, body)
    body.add(Copy(poplin.mat_mul(graph, x, w, body), x))
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(layers, body))
    return program


# %% 09.2: turned weights
# why:  this multiplies by the transposed weights.
# next: multiply x by w, without transposing w.
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    body = Sequence(Copy(buffer, w, row))
    y = poplin.mat_mul(graph, x, w.transpose(), body)
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    popops.add_in_place(graph, row, 1, body)
    program.add(Repeat(layers, body))
    return program


# %% 09.2: the number lives on
# why:  the first run is right, but then `row` is past the last layer, and the next run starts
#   there.
# next: set `row` to 0 at the start of the program: popops.zero(graph, row, program).
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    body = Sequence(Copy(buffer, w, row))
    graph.set_initial_value(row, 0)
    y = poplin.mat_mul(graph, x, w, body)
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    popops.add_in_place(graph, row, 1, body)
    return Repeat(layers, body)


# %% 09.2: all rows loaded first
# clause: Only one layer's weights may be in memory at a time
# not yet: the weights of all layers are in memory
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    every = [w, *(graph.clone(w, f"w{n}") for n in range(1, layers))]
    for w in every:
        program.add(Copy(buffer, w, row))
        popops.add_in_place(graph, row, 1, program)
    y = x
    for w in every:
        y = poplin.mat_mul(graph, y, w, program)
        popops.tanh_in_place(graph, y, program)
    program.add(Copy(y, x))
    return program


# %% 09.2: written down layer by layer
# not yet: each layer still has its own vertices
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    for _ in range(layers):
        program.add(Copy(buffer, w, row))
        y = poplin.mat_mul(graph, x, w, program)
        popops.tanh_in_place(graph, y, program)
        program.add(Copy(y, x))
        popops.add_in_place(graph, row, 1, program)
    return program


# %% 09.2: two places for weights
# not yet: the weights of more than one layer are in memory
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    bodies = []
    for place in (w, graph.clone(w, "other")):
        body = Sequence(Copy(buffer, place, row))
        y = poplin.mat_mul(graph, x, place, body)
        popops.tanh_in_place(graph, y, body)
        body.add(Copy(y, x))
        popops.add_in_place(graph, row, 1, body)
        bodies.append(body)
    program.add(Repeat(layers // 2, Sequence(*bodies)))
    if layers % 2:
        program.add(bodies[0])
    return program


# %% 09.2: one row too far
# why:  `row` goes up before the load, so row 0 is skipped, and the last iteration uses a row that
#   does not exist.
# next: load first, and add 1 to `row` at the end of the body.
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    body = Sequence()
    popops.add_in_place(graph, row, 1, body)
    body.add(Copy(buffer, w, row))
    y = poplin.mat_mul(graph, x, w, body)
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    program.add(Repeat(layers, body))
    return program


# %% 09.2: tanh at the end alone
# why:  tanh is applied only once, after the last layer.
# next: apply tanh in the body, after each product.
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    body = Sequence(Copy(buffer, w, row))
    body.add(Copy(poplin.mat_mul(graph, x, w, body), x))
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(layers, body))
    popops.tanh_in_place(graph, x, program)
    return program


# %% 09.2: all weights on one tile
# not yet: they are mapped to few tiles
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    for tensor in (w, row):
        graph.set_tile_mapping(tensor, 0)
    body = Sequence(Copy(buffer, w, row))
    y = poplin.mat_mul(graph, x, w, body)
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(layers, body))
    return program


# %% 09.2: one load too many
# why:  each iteration loads the next row at its end, and the last one asks for a row that does not
#   exist.
# next: load at the start of the body, so that there is one load for each layer.
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program, body = Sequence(), Sequence()
    popops.zero(graph, row, program)
    program.add(Copy(buffer, w, row))
    y = poplin.mat_mul(graph, x, w, body)
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    popops.add_in_place(graph, row, 1, body)
    body.add(Copy(buffer, w, row))
    program.add(Repeat(layers, body))
    return program


# %% 09.2: one place for weights, a product for each layer
# not yet: the program has steps of its own for each layer
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    rows = graph.add_constant(UNSIGNED_INT, (layers,), [*range(layers)])
    for tensor in (w, rows):
        poputil.map_tensor_linearly(graph, tensor)
    program, y = Sequence(), x
    for n in range(layers):
        program.add(Copy(buffer, w.flatten(), rows[n : n + 1]))
        y = poplin.mat_mul(graph, y, w, program)
        popops.tanh_in_place(graph, y, program)
    program.add(Copy(y, x))
    return program


# %% 09.w2: one after the other
# clause: when the two IPUs alternate
# why:  this adds every load and all the work, as if a single IPU did both one after the other.
# next: count only max(load, work) in each of the `layers - 1` phases.
def by_turns(load, work, layers):
    return layers * (load + work)


# %% 09.w2: as if a load always fitted
# why:  this assumes that the work takes longer than the load, but a longer load is not hidden.
# next: count max(load, work) in each of the `layers - 1` phases.
def by_turns(load, work, layers):
    return load + layers * work


# %% 09.w2: the last layer, too
# why:  nothing is loaded while the last layer computes, so its phase takes only the work.
# next: count the work of the last layer separately.
def by_turns(load, work, layers):
    return load + layers * max(load, work)


# %% 09.w2: without the first load
# clause: from the start of the first load
# why:  the first load is missing, although nothing can overlap with it.
# next: add one load before the phases.
def by_turns(load, work, layers):
    return (layers - 1) * max(load, work) + work


# %% 09.w2: the shorter of the two
# why:  this counts the shorter of `load` and `work` in each phase, but the phase ends when both
#   have finished.
# next: use max instead of min.
def by_turns(load, work, layers):
    return load + (layers - 1) * min(load, work) + work


# %% 09.w2: a turn for each layer
# clause: Nothing is loaded while the last layer computes.
# why:  this counts one phase too many: the last layer overlaps with no load.
# next: count in how many of the layers a load and a layer overlap: the last layer computes alone.
def by_turns(load, work, layers):
    return layers * max(load, work) + work


# %% 09.w2: turns alone
# clause: to the end of the last layer
# why:  the first load and the last layer are missing, although nothing overlaps with them.
# next: add the load that comes before all layers, and the layer that comes after all loads.
def by_turns(load, work, layers):
    return layers * max(load, work)


# %% 09.w2: each load as early as it can
# clause: both start at the same time
# why:  here both IPUs load at the start, and then each loads again as soon as its layer is done. In
#   this exercise, each load after the first starts together with the previous layer.
# next: count max(load, work) from the start of one layer to the start of the next.
def by_turns(load, work, layers):
    ready, done = [0, 0], 0
    for n in range(layers):
        done = max(done, ready[n % 2] + load) + work
        ready[n % 2] = done
    return done


# %% 09.3: one after the other
# clause: No load except the first may delay a layer
# why:  each load starts only when the previous layer is finished, so the next layer waits for it.
# next: move each load in front of the cross before it.
def turns(load, compute, cross, layers):
    steps = []
    for n in range(layers):
        steps += [load(n, n % 2), compute(n % 2)]
        if n + 1 < layers:
            steps.append(cross(n % 2))
    return steps


# %% 09.3: into weights in use
# clause: no weights may be overwritten before they are used
# why:  the next row is loaded on the IPU that computes, and overwrites weights that it still needs.
# next: load row n + 1 on the other IPU, 1 - n % 2.
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        if n + 1 < layers:
            steps.append(load(n + 1, n % 2))
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps.append(cross(n % 2))
    return steps


# %% 09.3: all on one IPU
# clause: Layer n computes on IPU n % 2
# why:  all layers compute on IPU 0, and each starts from the original input, since no result is
#   copied.
# next: compute layer n on IPU n % 2, and call cross(n % 2) after it.
def turns(load, compute, cross, layers):
    steps = []
    for n in range(layers):
        steps += [load(n, 0), compute(0)]
    return steps


# %% 09.3: never crosses
# why:  no result is copied to the other IPU, so IPU 1 gets no input.
# next: call cross(n % 2) after each layer except the last.
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps.append(load(n + 1, 1 - n % 2))
    return steps


# %% 09.3: crosses too early
# clause: a list of programs in order
# why:  the result is copied to the other IPU before it is computed.
# next: compute layer n first, and then call cross(n % 2).
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        if n + 1 < layers:
            steps += [load(n + 1, 1 - n % 2), cross(n % 2)]
        steps.append(compute(n % 2))
    return steps


# %% 09.3: crosses back
# why:  cross(ipu) copies from IPU `ipu` to the other one, but here it copies from the IPU that has
#   not computed yet.
# next: call cross(n % 2) after layer n.
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps += [load(n + 1, 1 - n % 2), cross(1 - n % 2)]
    return steps


# %% 09.3: the first load is missing
# why:  the first layer computes before its row is loaded.
# next: start with load(0, 0).
def turns(load, compute, cross, layers):
    steps = []
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps += [load(n + 1, 1 - n % 2), cross(n % 2)]
    return steps


# %% 09.3: waits for the copy
# why:  the Sync after each load makes all IPUs wait for the load, so nothing overlaps.
# next: leave out the Sync: an IPU waits for its own load without it.
from ipu_teach.program import Sync, SyncType


def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        if n + 1 < layers:
            steps += [load(n + 1, 1 - n % 2), Sync(SyncType.GLOBAL)]
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps.append(cross(n % 2))
    return steps


# %% 09.3: crosses after the last
# clause: the final result stays on the IPU of the last layer
# why:  the result of the last layer is copied, too, although no layer needs it on the other IPU.
# next: do not call `cross` after the last layer.
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps.append(load(n + 1, 1 - n % 2))
        steps.append(cross(n % 2))
    return steps


# %% 09.3: the same row once more
# clause: with row n of the weights
# why:  this loads the row of the layer that is computing now, instead of the next row.
# next: load row n + 1 on the other IPU.
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps += [load(n, 1 - n % 2), cross(n % 2)]
    return steps


# %% 09.3: a row that is not there
# error in the answer: row 4
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps += [compute(n % 2), load(n + 1, 1 - n % 2)]
        if n + 1 < layers:
            steps.append(cross(n % 2))
    return steps


# %% 09.3: no programs
# not yet: return the program
def turns(load, compute, cross, layers):
    return layers


# %% 09.3: no calls
# clause: return the list
# not yet: load in the list
def turns(load, compute, cross, layers):
    return [load, compute, cross] * layers


# %% 09.3: arguments exchanged
# error in the answer: got IPU
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        here = n % 2
        steps.append(compute(here))
        if n + 1 < layers:
            steps += [load(1 - here, n + 1), cross(here)]
    return steps


# %% 09.3: more IPUs than there are
# error in the answer: compute(ipu) got IPU 2, but the only IPUs are 0 and 1
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n))
        if n + 1 < layers:
            steps += [load(n + 1, (n + 1) % 2), cross(n)]
    return steps


# %% 09.3: a load between a layer and its cross
# why:  the IPU loads between its layer and the cross, so the cross and the next layer wait for that
#   load.
# next: put each load next to the compute of the other IPU, with no cross between them.
def turns(load, compute, cross, layers):
    steps = [load(n, n) for n in range(min(2, layers))]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 2 < layers:
            steps.append(load(n + 2, n % 2))
        if n + 1 < layers:
            steps.append(cross(n % 2))
    return steps


# %% 09.4: rounded down
# clause: at least as long as a load
# why:  this rounds down, so the micro-batches take less time than the load.
# next: round load / work up: 4.1 micro-batches become 5.
def factor(load, work):
    return max(1, load // work)


# %% 09.4: to the nearest, or none
# why:  this rounds to the nearest whole number, which can be too few micro-batches, and even 0.
# next: round load / work up, and return at least 1.
def factor(load, work):
    return round(load / work)


# %% 09.4: rounded down, and 0
# why:  this rounds down, so the work is shorter than the load, and a short load gives 0
#   micro-batches.
# next: round load / work up, and return at least 1.
def factor(load, work):
    return load // work


# %% 09.4: to the nearest
# why:  this rounds to the nearest whole number, which can be too few micro-batches.
# next: round load / work up.
def factor(load, work):
    return max(1, round(load / work))


# %% 09.4: always one more
# clause: the smallest factor that hides
# why:  if `load` is an exact multiple of `work`, this is one micro-batch too many.
# next: round load / work up, so that a whole number stays unchanged.
def factor(load, work):
    return load // work + 1


# %% 09.4: none at all
# clause: there is always at least one micro-batch
# why:  if nothing is loaded, this returns 0, but there is always at least one micro-batch.
# next: return max(1, …).
def factor(load, work):
    return -(-load // work)


# %% 09.4: turned round
# why:  this divides the work by the load, which gives the loads that hide the work.
# next: divide the load by the work, and round up.
def factor(load, work):
    return max(1, -(-work // load)) if load else 1


# %% 09.4: not whole
# clause: whole numbers
# why:  this is not a whole number, but you cannot use a part of a micro-batch.
# next: round load / work up.
def factor(load, work):
    return max(1, load / work)


# %% 09.4: beside the first one
# why:  this adds one micro-batch, as if the first one could not overlap with the load.
# next: leave out the 1 +.
def factor(load, work):
    return 1 + max(0, -(-load // work))


# %% 09.4: one or two
# why:  this returns at most two micro-batches, but a long load needs more.
# next: divide the load by the work, and round up.
def factor(load, work):
    return 1 if load <= work else 2


# %% 09.4: the difference
# why:  this is the number of cycles that remain, but the exercise asks for a number of
#   micro-batches.
# next: divide the load by the work, and round up.
def factor(load, work):
    return max(1, load - work)


# %% 09.4: twice as many each time
# why:  this doubles the number until it is enough, but a smaller number may be enough, too.
# next: compute load / work, rounded up.
def factor(load, work):
    n = 1
    while n * work < load:
        n *= 2
    return n


# %% 09.w3: the tail is lost
# clause: together they hold every number
# why:  this rounds the length down, so the last numbers are in no shard.
# next: round numbers / replicas up; the padding is what the shards have in addition.
def shard_of(numbers, replicas):
    return numbers // replicas, numbers % replicas


# %% 09.w3: what is too much
# clause: how many padding elements are there
# why:  the length is right, but the second number should be the padding: the elements that have no
#   number.
# next: count the elements of all shards together, and subtract `numbers` from this count.
def shard_of(numbers, replicas):
    return -(-numbers // replicas), numbers % replicas


# %% 09.w3: one more, always
# why:  if the numbers divide evenly, each shard is one element too long.
# next: round numbers / replicas up, so that a whole number stays unchanged.
def shard_of(numbers, replicas):
    held = numbers // replicas + 1
    return held, held * replicas - numbers


# %% 09.w3: the two changed places
# clause: (the length of a shard
# why:  the two results are in the wrong order.
# next: return the length first, and then the padding.
def shard_of(numbers, replicas):
    held = -(-numbers // replicas)
    return held * replicas - numbers, held


# %% 09.w3: to the nearest
# clause: All shards have the same length
# why:  this rounds to the nearest length, but if that rounds down, some numbers do not fit.
# next: round numbers / replicas up.
def shard_of(numbers, replicas):
    held = round(numbers / replicas)
    return held, held * replicas - numbers


# %% 09.w3: the padding of one shard
# clause: in all
# why:  this is the padding if only one shard had padding, but several shards can have it.
# next: count the elements of all shards together, and subtract `numbers` from this count.
def shard_of(numbers, replicas):
    length = -(-numbers // replicas)
    return length, -numbers % length


# %% 09.w3: a length without its remainder
# why:  length - numbers % length is the padding of one shard only, and it is `length`, not 0, if no
#   shard needs padding.
# next: count the elements of all shards together, and subtract `numbers` from this count.
def shard_of(numbers, replicas):
    length = -(-numbers // replicas)
    return length, length - numbers % length


# %% 09.w3: as many as there are replicas
# why:  if `numbers` is a multiple of `replicas`, this adds a padding of `replicas` elements, but no
#   padding is needed.
# next: count the elements of all shards together, and subtract `numbers` from this count.
def shard_of(numbers, replicas):
    return -(-numbers // replicas), replicas - numbers % replicas


# %% 09.5: the sum
# clause: plus the mean
# why:  this adds the sum of the four gradients to the momentum, instead of their mean.
# next: scale the sum by 1 / REPLICAS.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, state, 0.5, program)
    popops.add_in_place(graph, state, concat(sums), program)
    program.add(Copy(state, buffer))
    moved = concat([each.flatten()[:n] for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.5: half of the momentum
# why:  this subtracts half of the momentum from the weights, but the rate is a quarter.
# next: scale the momentum by -0.25.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, state, 0.5, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    program.add(Copy(state, buffer))
    whole = all_gather(graph, shards, program)
    moved = concat([each.flatten()[:n] for each in whole])
    popops.scaled_add_to(graph, concat(weights), moved, -0.5, program)


# %% 09.5: the store is forgotten
# why:  the momentum is never stored, so the next step starts from the old values.
# next: add Copy(state, buffer) after the update.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, state, 0.5, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    moved = concat([each.flatten()[:n] for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.5: stored as it came
# why:  the momentum is stored before it is updated.
# next: store the momentum after you have halved it and added the mean.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    program.add(Copy(state, buffer))
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, state, 0.5, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    moved = concat([each.flatten()[:n] for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.5: one's own gradient alone
# why:  each shard uses only the gradient of its own replica, but the mean is over all four.
# next: use reduce_scatter, which adds up the gradients of all four replicas.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    own = [on_replica(graph, i, (length,), f"own{i}") for i in range(REPLICAS)]
    popops.zero(graph, concat(own), program)
    for i in range(REPLICAS):
        part = grads[i][min(n, i * length) : min(n, (i + 1) * length)]
        if part.num_elements:
            program.add(Copy(part, own[i][: part.num_elements]))
    popops.mul_in_place(graph, state, 0.5, program)
    popops.add_in_place(graph, state, concat(own), program)
    program.add(Copy(state, buffer))
    moved = concat([each.flatten()[:n] for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.5: no momentum
# why:  the new momentum is only the mean gradient: half of the old momentum is missing.
# next: halve the loaded state, and then add the mean to it.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.zero(graph, state, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    program.add(Copy(state, buffer))
    moved = concat([each.flatten()[:n] for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.5: uphill
# clause: a quarter of the momentum
# why:  this adds the momentum to the weights instead of subtracting it.
# next: scale the momentum by -0.25.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, state, 0.5, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    program.add(Copy(state, buffer))
    moved = concat([each.flatten()[:n] for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, 0.25, program)


# %% 09.5: tells before it knows
# why:  the shards are gathered before the mean is added, so the weights use the old momentum.
# next: call all_gather after the mean is added.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    moved = concat([each.flatten()[:n] for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, state, 0.5, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    program.add(Copy(state, buffer))


# %% 09.5: tells nobody
# why:  each replica updates only its own shard of the weights, so the replicas differ.
# next: call all_gather, and update all weights with its result.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, state, 0.5, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    program.add(Copy(state, buffer))
    for i in range(REPLICAS):
        part = weights[i][min(n, i * length) : min(n, (i + 1) * length)]
        if part.num_elements:
            popops.scaled_add_to(graph, part, shards[i][: part.num_elements], -0.25, program)


# %% 09.5: everybody keeps all of it
# clause: in one remote buffer with room for four shards
# not yet: the replicas load and store more than one shard each
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * n)
    state = concat([on_replica(graph, i, (n,), f"momentum{i}") for i in range(REPLICAS)])
    program.add(Copy(buffer, state))
    whole = all_gather(graph, reduce_scatter(graph, grads, program), program)
    popops.mul_in_place(graph, state, 0.5, program)
    mean = concat([each.flatten()[:n] for each in whole])
    popops.scaled_add_to(graph, state, mean, 1 / REPLICAS, program)
    program.add(Copy(state, buffer))
    popops.scaled_add_to(graph, concat(weights), state, -0.25, program)


# %% 09.5: stays on the tiles
# not yet: but it should be in streaming memory
def train(graph, weights, grads, program):
    length = -(-weights[0].num_elements // REPLICAS)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    graph.set_initial_value(concat(shards), 0)
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, concat(shards), 0.5, program)
    popops.scaled_add_to(graph, concat(shards), concat(sums), 1 / REPLICAS, program)
    n = weights[0].num_elements
    moved = concat([each.flatten()[:n] for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.5: the tail is lost
# clause: n need not be a multiple of 4
# error in the answer: (28,) and (32,)
def train(graph, weights, grads, program):
    length = weights[0].num_elements // REPLICAS
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    program.add(Copy(buffer, concat(shards)))
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, concat(shards), 0.5, program)
    popops.scaled_add_to(graph, concat(shards), concat(sums), 1 / REPLICAS, program)
    program.add(Copy(concat(shards), buffer))
    n = weights[0].num_elements
    moved = concat([each.flatten()[:n] for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.5: with its padding
# error in the answer: (116,) and (128,)
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, state, 0.5, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    program.add(Copy(state, buffer))
    moved = concat([each.flatten() for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.5: the gradient halved, too
# why:  the mean is halved, too, but only the old momentum should be halved.
# next: halve the momentum first, and then add the mean.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    popops.mul_in_place(graph, state, 0.5, program)
    program.add(Copy(state, buffer))
    whole = all_gather(graph, shards, program)
    moved = concat([each.flatten()[:n] for each in whole])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.5: nothing is forgotten
# clause: half its old value
# why:  the whole old momentum is kept, but only half of it should be kept.
# next: call popops.mul_in_place(graph, state, 0.5, program) before the mean is added.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    program.add(Copy(state, buffer))
    whole = all_gather(graph, shards, program)
    moved = concat([each.flatten()[:n] for each in whole])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.5: one replica learns
# clause: The weights are equal on all replicas
# why:  only the weights of replica 0 are updated, so the replicas differ after a step.
# next: update concat(weights), the weights of all four replicas.
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, state, 0.5, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    program.add(Copy(state, buffer))
    whole = all_gather(graph, shards, program)
    popops.scaled_add_to(graph, weights[0], whole[0].flatten()[:n], -0.25, program)


# %% 09.6: each alone
# clause: a transfer joins the current step
# why:  every transfer gets its own step, but independent transfers of one kind can share a step.
# next: put a transfer into the current step unless it conflicts with it.
def steps_of(transfers):
    return list(range(len(transfers)))


# %% 09.6: by their kind alone
# why:  all transfers of one kind share a step here, even if one reads what another writes.
# next: start a new step for a transfer that reads what another writes.
def steps_of(transfers):
    steps, kind = [], None
    for its, _, _ in transfers:
        steps.append((steps[-1] if steps else 0) + (its != kind and kind is not None))
        kind = its
    return steps


# %% 09.6: whatever their kind
# clause: or starts the next one
# why:  loads, stores and crosses share a step here, but a step has transfers of only one kind.
# next: start a new step if the kind is not that of the current step.
def steps_of(transfers):
    steps, read, written = [], set(), set()
    for _, source, target in transfers:
        if not steps or source in written or target in read | written:
            steps.append(steps[-1] + 1 if steps else 0)
            read, written = set(), set()
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return steps


# %% 09.6: reads after writes alone
# why:  this starts a new step only for a transfer that reads what the step writes, but writing what
#   the step reads or writes is a conflict, too.
# next: also start a new step if the current step reads or writes the target.
def steps_of(transfers):
    steps, kind, read, written = [], None, set(), set()
    for its, source, target in transfers:
        if its != kind or source in written:
            steps.append(steps[-1] + 1 if steps else 0)
            kind, read, written = its, set(), set()
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return steps


# %% 09.6: writes alone
# clause: A whole buffer counts as one place
# why:  this starts a new step only if two transfers write the same place, but a read and a write
#   conflict, too.
# next: also start a new step if one transfer reads what another writes.
def steps_of(transfers):
    steps, kind, read, written = [], None, set(), set()
    for its, source, target in transfers:
        if its != kind or target in written:
            steps.append(steps[-1] + 1 if steps else 0)
            kind, read, written = its, set(), set()
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return steps


# %% 09.6: what is read may be written
# why:  a transfer that writes what the current step reads joins that step here, but their order is
#   undefined.
# next: also start a new step if the current step reads the target.
def steps_of(transfers):
    steps, kind, read, written = [], None, set(), set()
    for its, source, target in transfers:
        if its != kind or {source, target} & written:
            steps.append(steps[-1] + 1 if steps else 0)
            kind, read, written = its, set(), set()
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return steps


# %% 09.6: two writes share
# why:  two transfers that write the same place share a step here, but then the remaining value is
#   undefined.
# next: also start a new step if the current step writes the target.
def steps_of(transfers):
    steps, kind, read, written = [], None, set(), set()
    for its, source, target in transfers:
        if its != kind or source in written or target in read:
            steps.append(steps[-1] + 1 if steps else 0)
            kind, read, written = its, set(), set()
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return steps


# %% 09.6: two that read one place
# why:  two transfers that read the same place are in different steps here, but two reads do not
#   conflict.
# next: start a new step only if the current step writes the source.
def steps_of(transfers):
    steps, kind, read, written = [], None, set(), set()
    for its, source, target in transfers:
        if its != kind or {source, target} & (read | written):
            steps.append(steps[-1] + 1 if steps else 0)
            kind, read, written = its, set(), set()
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return steps


# %% 09.6: with the one before alone
# why:  this compares only with the previous transfer, but any transfer of the current step can
#   conflict.
# next: keep all places that the current step reads and writes.
def steps_of(transfers):
    steps = []
    for n, (kind, source, target) in enumerate(transfers):
        before, read, written = transfers[n - 1]
        if not n or kind != before or source == written or target in (read, written):
            steps.append(steps[-1] + 1 if n else 0)
        else:
            steps.append(steps[-1])
    return steps


# %% 09.6: counted from 1
# clause: counted from 0
# why:  the steps are right, but the first one has the number 1.
# next: give the first step the number 0.
def steps_of(transfers):
    steps, kind, read, written = [], None, set(), set()
    for its, source, target in transfers:
        if its != kind or source in written or target in read | written:
            steps.append(steps[-1] + 1 if steps else 0)
            kind, read, written = its, set(), set()
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return [step + 1 for step in steps]


# %% 09.6: how many
# not yet: which is not a list or array of numbers
def steps_of(transfers):
    steps, kind, read, written = [], None, set(), set()
    for its, source, target in transfers:
        if its != kind or source in written or target in read | written:
            steps.append(steps[-1] + 1 if steps else 0)
            kind, read, written = its, set(), set()
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return f"{steps[-1] + 1} steps"


# %% 09.6: only the number of steps
# clause: the number of each transfer's step
# not yet: the shape ()
def steps_of(transfers):
    steps, kind, read, written = [], None, set(), set()
    for its, source, target in transfers:
        if its != kind or source in written or target in read | written:
            steps.append(steps[-1] + 1 if steps else 0)
            kind, read, written = its, set(), set()
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return steps[-1] + 1


# %% 09.6: nothing is ever closed
# why:  the places that earlier steps read and wrote still count here.
# next: clear both sets when a new step starts.
def steps_of(transfers):
    steps, kind, read, written = [], None, set(), set()
    for its, source, target in transfers:
        if its != kind or source in written or target in read | written:
            steps.append(steps[-1] + 1 if steps else 0)
            kind = its
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return steps


# %% 09.6: what was read is never forgotten
# why:  when a new step starts, the set of written places is cleared, but not the set of read
#   places.
# next: clear both sets when a new step starts.
def steps_of(transfers):
    steps, kind, read, written = [], None, set(), set()
    for its, source, target in transfers:
        if its != kind or source in written or target in read | written:
            steps.append(steps[-1] + 1 if steps else 0)
            kind, written = its, set()
        else:
            steps.append(steps[-1])
        read.add(source)
        written.add(target)
    return steps


# %% 09.6: without the one that begins
# why:  the transfer that starts a step is not recorded, although it belongs to the step.
# next: clear the sets first, and then add its source and its target.
def steps_of(transfers):
    step, kind, read, written, found = 0, transfers[0][0], set(), set(), []
    for its, source, target in transfers:
        if its != kind or source in written or target in read | written:
            step += 1
            kind, read, written = its, set(), set()
        else:
            read.add(source)
            written.add(target)
        found.append(step)
    return found


# %% 09.6: as early as can be
# why:  this puts a transfer into an earlier step, but the transfers keep their order.
# next: put a transfer only into the current step, or start a new one.
def steps_of(transfers):
    steps = []
    for i, (kind, source, target) in enumerate(transfers):
        before = [
            steps[j] + 1
            for j, (k, s, t) in enumerate(transfers[:i])
            if source == t or target in (s, t) or k != kind
        ]
        steps.append(max(before, default=0))
    return steps
