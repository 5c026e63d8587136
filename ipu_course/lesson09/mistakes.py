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
# why:  this orders the rows by micro-batch first: all layers of a micro-batch are side by side.
# next: multiply the layer by `batches`: the number of rows of each layer.
def row_of(layer, batch, batches):
    return batch * batches + layer


# %% 09.w1: added up
# clause: there are `batches` micro-batches
# why:  each layer has as many rows as there are micro-batches; here it has only one.
# next: skip the rows of the earlier layers: layer times batches.
def row_of(layer, batch, batches):
    return layer + batch


# %% 09.w1: counted from 1
# clause: Layers, micro-batches and rows are counted from 0.
# why:  this counts rows from 1, but the first row is row 0.
# next: subtract 1: the first micro-batch of layer 0 is in row 0.
def row_of(layer, batch, batches):
    return layer * batches + batch + 1


# %% 09.w1: the other way round
# why:  this multiplies the layer by the micro-batch number.
# next: multiply the layer by `batches`, and add the micro-batch.
def row_of(layer, batch, batches):
    return layer * batch + batches


# %% 09.w1: one less
# why:  this is one too small: the first row is row 0.
# next: leave out the - 1.
def row_of(layer, batch, batches):
    return layer * batches + batch - 1


# %% 09.1: the store is forgotten
# clause: Return a program that adds 1 to the first
# why:  the rows are unchanged: the new values stay on the tiles and are never stored.
# next: store them with Copy(x, buffer, row), after the addition.
def add_one(graph, buffer, x, row, rows):
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows, body))
    return program


# %% 09.1: counted before the store
# why:  the row number goes up between load and store, so each row is stored one row too far.
# next: count after the store.
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
# next: add 1 to `row` at the end of the body: both copies read the row number from it.
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
# why:  `row` keeps its value from the last run, so the second run starts past the last row.
# next: set it to 0 in the program, not in the graph: popops.zero(graph, row, program).
def add_one(graph, buffer, x, row, rows):
    graph.set_initial_value(row, 0)
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    popops.add_in_place(graph, row, 1, body)
    return Repeat(rows, body)


# %% 09.1: from row 1 on
# why:  the first row used is row 1, so row 0 is unchanged, and the last one is out of range.
# next: count from 0: add 1 to `row` after the store.
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
# why:  the last row is unchanged: the Repeat has one iteration too few.
# next: use as many iterations as there are rows.
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
# not yet: a program for a million rows would not fit
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
# why:  x is loaded once, before the loop, and every iteration adds 1 to it again: each row gets a
#   value computed from row 0.
# next: load in the body, with the row number in `row`.
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
# why:  one extra iteration reads the row after the last one, which was never written.
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
# why:  every layer starts from the original input: the result of a layer is never passed on.
# next: copy the result into x at the end of the body.
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
# next: load in the body, and add 1 to `row` at its end.
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
# why:  the last layer is missing: the Repeat has one iteration too few.
# next: use as many iterations as there are layers.
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
# why:  x holds the products themselves: tanh is missing.
# next: apply tanh before the copy into x.
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
# why:  this applies tanh before each product, and not after the last one.
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
# next: multiply x @ w, with w as it is loaded.
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
# why:  the first run is right, but `row` then points past the last layer, and the next run starts
#   there.
# next: set `row` to 0 at the start of the program, with popops.zero.
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
# not yet: all layers' weights are in memory
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
# not yet: more than one layer's weights are in memory
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
# why:  the row number goes up before the load, so row 0 is skipped, and the last iteration asks for
#   a row that does not exist.
# next: load first, and count at the end of the body.
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
# next: apply tanh in the body: every layer ends with it.
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


# %% 09.w2: one after the other
# clause: when the two IPUs alternate
# why:  this is the time of a single IPU, which cannot load and compute at the same time.
# next: count only the longer of load and work in each phase.
def by_turns(load, work, layers):
    return layers * (load + work)


# %% 09.w2: as if a load always fitted
# why:  this is right only if the work is longer: a load that is longer than the work is not hidden.
# next: count the longer of the two in each phase: max(load, work).
def by_turns(load, work, layers):
    return load + layers * work


# %% 09.w2: the last layer, too
# why:  nothing is loaded while the last layer computes, so that phase takes only the work.
# next: count layers - 1 phases of max(load, work), and the work of the last layer.
def by_turns(load, work, layers):
    return load + layers * max(load, work)


# %% 09.w2: without the first load
# clause: from the start of the first load
# why:  the first load is missing: nothing can overlap with it.
# next: add one load.
def by_turns(load, work, layers):
    return (layers - 1) * max(load, work) + work


# %% 09.w2: the shorter of the two
# why:  this counts the shorter of the two in each phase, but whichever finishes first waits for the
#   other.
# next: use max instead of min.
def by_turns(load, work, layers):
    return load + (layers - 1) * min(load, work) + work


# %% 09.w2: a turn for each layer
# why:  this counts a phase of max(load, work) for each layer and then the last layer's work again.
#   The last layer overlaps with no load.
# next: add one load, then layers - 1 phases, then the work.
def by_turns(load, work, layers):
    return layers * max(load, work) + work


# %% 09.w2: turns alone
# clause: to the end of the last layer
# why:  nothing overlaps with the first load, or with the last layer.
# next: add one load, then layers - 1 phases, then the work.
def by_turns(load, work, layers):
    return layers * max(load, work)


# %% 09.3: one after the other
# clause: No load except the first may delay a layer
# why:  each load starts when the previous layer is finished, and its own layer waits for it.
# next: put the load of row n + 1 before the cross of layer n.
def turns(load, compute, cross, layers):
    steps = []
    for n in range(layers):
        steps += [load(n, n % 2), compute(n % 2)]
        if n + 1 < layers:
            steps.append(cross(n % 2))
    return steps


# %% 09.3: into weights in use
# clause: no weights may be overwritten before they are used
# why:  the next row goes to the IPU that is computing, and overwrites weights that it still needs.
# next: load it into the other IPU, 1 - n % 2.
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
# why:  all layers compute on IPU 0, and each starts from the original input: no result is copied to
#   the other IPU.
# next: compute layer n on IPU n % 2.
def turns(load, compute, cross, layers):
    steps = []
    for n in range(layers):
        steps += [load(n, 0), compute(0)]
    return steps


# %% 09.3: never crosses
# why:  no result is copied to the other IPU, so IPU 1 has no input.
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
# next: compute first, then cross.
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        if n + 1 < layers:
            steps += [load(n + 1, 1 - n % 2), cross(n % 2)]
        steps.append(compute(n % 2))
    return steps


# %% 09.3: crosses back
# why:  cross(ipu) copies from that IPU, and here that one has not computed yet.
# next: use cross(n % 2), which copies the result of layer n to the other IPU.
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
# why:  the Sync after each load makes all IPUs wait for it, so nothing overlaps.
# next: leave out the Sync: each IPU waits for its own load anyway.
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
# why:  the result of the last layer is copied, too. No layer needs it there, and both IPUs wait for
#   the copy.
# next: do not call cross after the last layer.
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
# why:  this loads the row of the layer that is computing now.
# next: load row n + 1.
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


# %% 09.4: rounded down
# clause: at least as long as a load
# why:  this rounds down: that many micro-batches take slightly less time than the load.
# next: round up: 4.1 micro-batches become 5.
def factor(load, work):
    return max(1, load // work)


# %% 09.4: rounded down, and 0
# why:  this rounds down: the work is then shorter than the load, and a short load gives 0.
# next: round up, and return at least 1.
def factor(load, work):
    return load // work


# %% 09.4: to the nearest
# why:  this rounds to the nearest whole number, which is often too few.
# next: round up.
def factor(load, work):
    return max(1, round(load / work))


# %% 09.4: always one more
# clause: the smallest factor that hides
# why:  when the load is an exact multiple of the work, this is one too many.
# next: round up, which leaves a whole number unchanged.
def factor(load, work):
    return load // work + 1


# %% 09.4: none at all
# clause: there is always at least one micro-batch
# why:  when nothing is loaded, this returns 0, but there is always at least one micro-batch.
# next: return the larger of the result and 1.
def factor(load, work):
    return -(-load // work)


# %% 09.4: turned round
# why:  this computes how many loads hide the work.
# next: divide the load by the work, and round up.
def factor(load, work):
    return max(1, -(-work // load)) if load else 1


# %% 09.4: not whole
# clause: whole numbers
# why:  the number of micro-batches must be whole.
# next: round up.
def factor(load, work):
    return max(1, load / work)


# %% 09.4: beside the first one
# why:  this adds one micro-batch, as if the load could not run beside the first.
# next: leave out the 1 +: the load runs beside all micro-batches.
def factor(load, work):
    return 1 + max(0, -(-load // work))


# %% 09.4: one or two
# why:  two micro-batches hide only part of a very long load.
# next: divide the load by the work, and round up.
def factor(load, work):
    return 1 if load <= work else 2


# %% 09.4: the difference
# why:  this is the number of cycles left over. The exercise asks for a number of micro-batches.
# next: divide, and round up.
def factor(load, work):
    return max(1, load - work)


# %% 09.4: twice as many each time
# why:  this doubles until it is enough, but a number in between may already be enough.
# next: compute load / work, rounded up.
def factor(load, work):
    n = 1
    while n * work < load:
        n *= 2
    return n


# %% 09.w3: the tail is lost
# clause: together they hold every number
# why:  this rounds down, so the shards have no room for the last numbers.
# next: round up, and count the padding.
def shard_of(numbers, replicas):
    return numbers // replicas, numbers % replicas


# %% 09.w3: what is too much
# clause: how many padding elements are there
# why:  the length is right. The second number should be the padding, not the remainder.
# next: subtract the number of elements from the capacity of all shards.
def shard_of(numbers, replicas):
    return -(-numbers // replicas), numbers % replicas


# %% 09.w3: one more, always
# why:  when the numbers divide evenly, each shard is one element too long.
# next: round up, which leaves a whole number unchanged.
def shard_of(numbers, replicas):
    held = numbers // replicas + 1
    return held, held * replicas - numbers


# %% 09.w3: the two changed places
# clause: (the length of a shard
# why:  the two results are in the wrong order: first the length, then the padding.
# next: return held, held * replicas - numbers.
def shard_of(numbers, replicas):
    held = -(-numbers // replicas)
    return held * replicas - numbers, held


# %% 09.w3: to the nearest
# clause: All shards have the same length
# why:  this rounds to the nearest whole number; when that rounds down, some numbers do not fit.
# next: round up.
def shard_of(numbers, replicas):
    held = round(numbers / replicas)
    return held, held * replicas - numbers


# %% 09.5: the sum
# clause: plus the mean
# why:  this adds the sum of the four gradients instead of their mean.
# next: scale by 1 / REPLICAS.
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
# why:  this subtracts half of the momentum from the weights. One half is the part of the old
#   momentum that remains.
# next: subtract a quarter of the momentum: -0.25.
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
# why:  the momentum is never stored, so the next step starts from the old one.
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
# next: store it after halving it and adding the mean.
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
# why:  each shard uses only its own replica's gradient; those of the other replicas count as well.
# next: use reduce_scatter, which adds up all four.
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
# why:  half of the old momentum is missing: the loaded state is not used.
# next: halve the state, then add the mean to it.
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
# next: scale by -0.25.
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
# why:  the shards are gathered before the mean is added, so the weights are updated with the old
#   momentum.
# next: gather last.
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
# why:  each replica updates only its own shard and never sends it, so the replicas differ.
# next: call all_gather, and let every replica use all shards.
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
# not yet: more than one shard per replica is loaded and stored
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
# not yet: none of it is in streaming memory
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
# why:  half of the mean is lost, too: the new momentum is half of (old + mean). Only the old
#   momentum should be halved.
# next: halve the momentum, then add the mean.
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
# why:  the old momentum is added in full; only half of it should be kept.
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
# next: update concat(weights), with what all four replicas gathered.
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
# why:  every transfer gets its own step, but independent transfers of one kind share one.
# next: keep what the current step reads and writes, and join it if nothing conflicts.
def steps_of(transfers):
    return list(range(len(transfers)))


# %% 09.6: by their kind alone
# why:  all transfers of one kind share a step here, whatever they read and write.
# next: start a new step for a transfer that reads what another writes.
def steps_of(transfers):
    steps, kind = [], None
    for its, _, _ in transfers:
        steps.append((steps[-1] if steps else 0) + (its != kind and kind is not None))
        kind = its
    return steps


# %% 09.6: whatever their kind
# clause: or starts the next one
# why:  a load shares a step with a store or a cross here, but only transfers of one kind share one.
# next: compare the kinds first.
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
# why:  a transfer that reads what another writes is separated, which is right; one that writes what
#   another reads or writes is not.
# next: start a new step if the step reads or writes the target.
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
# why:  only two writes to one place are separated here.
# next: treat a read and a write of one place as a conflict, too.
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
# why:  a transfer that writes what another one in the step reads joins it here, but their order is
#   undefined.
# next: look for the target among what the step reads, too.
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
# why:  two transfers that write the same place share a step here. Which of the two values remains
#   is undefined.
# next: start a new step if the current step writes the target.
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
# why:  two reads of one place are separated here, but they do not conflict.
# next: look for the source only among what the step writes.
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
# why:  this compares only with the previous transfer, but the conflict can be with any in the step.
# next: keep what all transfers of the current step read and write.
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
# why:  the steps are right, but are counted from 1.
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
# why:  what earlier steps read and wrote still counts here.
# next: empty both sets when a step starts.
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
# why:  when a new step starts, what was written is cleared, but what was read is not.
# next: empty both sets when a step starts.
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
# why:  the transfer that starts a step belongs to it, so what it reads and writes counts, too.
# next: add its places after emptying the sets.
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
# why:  this puts a transfer into an earlier step when it can. A finished step is never reopened;
#   transfers keep their order.
# next: join the current step, or start the next one.
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
