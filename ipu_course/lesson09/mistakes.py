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
# clause: first all of layer 0
# why:  this counts as if the layers of a micro-batch stood side by side.
# next: multiply the layer by `batches`, the number of rows that each layer has.
def row_of(layer, batch, batches):
    return batch * batches + layer


# %% 09.w1: added up
# clause: there are `batches` micro-batches
# why:  a layer has as many rows as there are micro-batches, and here it has one.
# next: the rows of the layers before: layer times batches.
def row_of(layer, batch, batches):
    return layer + batch


# %% 09.w1: counted from 1
# clause: All are counted from 0.
# why:  rows are counted from 0.
# next: take 1 away: the first micro-batch of layer 0 is in row 0.
def row_of(layer, batch, batches):
    return layer * batches + batch + 1


# %% 09.w1: the other way round
# why:  the layer is multiplied by the number of the micro-batch.
# next: multiply the layer by `batches`, and add the micro-batch.
def row_of(layer, batch, batches):
    return layer * batch + batches


# %% 09.w1: one less
# why:  this is one less: all are counted from 0, so that the first has row 0.
# next: leave the - 1 out.
def row_of(layer, batch, batches):
    return layer * batches + batch - 1


# %% 09.1: the store is forgotten
# clause: adds 1 to the first
# why:  each row is as it was: what changed on the tiles never goes back.
# next: Copy(x, buffer, row) stores it, after the addition.
def add_one(graph, buffer, x, row, rows):
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows, body))
    return program


# %% 09.1: counted before the store
# why:  the number goes up between load and store: each row is stored one row too far.
# next: count when the row is done with.
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
# clause: counted on the device, in a `Repeat`
# why:  row 0 is changed in every turn, and the others never.
# next: both copies take the number in `row`, which goes up by 1 at the end of each turn.
def add_one(graph, buffer, x, row, rows):
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows, body))
    return program


# %% 09.1: goes on where the last run ended
# clause: It may run again
# why:  the number of the last run is in `row` still, so that the second run begins behind the rows.
# next: begin the program, and not the graph, with 0: popops.zero(graph, row, program).
def add_one(graph, buffer, x, row, rows):
    graph.set_initial_value(row, 0)
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    popops.add_in_place(graph, row, 1, body)
    return Repeat(rows, body)


# %% 09.1: from row 1 on
# why:  here the first row is row 1, so that row 0 stays as it was, and the last one is beyond.
# next: rows are counted from 0; count after the store.
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
# why:  the last row is left as it was: the Repeat goes round one time less.
# next: as many turns as there are rows.
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
# clause: so that the program is as small for a million rows
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
# why:  x is loaded before the loop, and each turn adds to it once more: all rows get what grew out
#   of row 0.
# next: load in the body, with the number in `row`.
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
# why:  a turn more reads a row behind the last one, which nobody wrote.
# next: Repeat(rows, body).
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
# clause: A program after which x has gone
# why:  each layer begins with the first input: what one makes never becomes the next one's.
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
# clause: the weights of layer n
# why:  every turn has the weights of layer 0, so that x goes through it again and again.
# next: load in the body, and count `row` up at its end.
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
# why:  the Repeat goes round 8 times, however many layers there are.
# next: Repeat(layers, body).
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
# clause: go through all layers
# why:  the last layer is left out: the Repeat goes round one time less.
# next: as many turns as there are layers.
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
# why:  x gets the products as they are: the tanh of them is missing.
# next: first tanh, then the copy into x.
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
# why:  tanh comes before each product here, and after the last one there is none.
# next: first the product, then tanh of it.
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
# why:  this multiplies by the weights turned round, with rows for columns.
# next: x @ w, with w as it comes.
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
# why:  the first run is right, and at its end `row` stands behind the last layer: there the next
#   run begins.
# next: set `row` to 0 at the beginning of the program, with popops.zero.
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
# clause: One layer's weights may be in memory at a time
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
# not yet: each layer still has vertices and results of its own
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
# why:  the number goes up before the load, so that row 0 is left out, and the last turn asks for a
#   row that is not there.
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
# why:  the layers are products alone here, and tanh comes once, after the last.
# next: each layer ends with tanh: in the body.
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
# not yet: they lie on few tiles
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
# clause: by turns
# why:  this is the time of one IPU, which loads and computes one after the other.
# next: of load and work in one phase only the longer counts.
def by_turns(load, work, layers):
    return layers * (load + work)


# %% 09.w2: as if a load always fitted
# why:  this is right where the work is longer. A longer load is not hidden behind it.
# next: in each phase the longer of the two counts: max(load, work).
def by_turns(load, work, layers):
    return load + layers * work


# %% 09.w2: the last layer, too
# why:  while the last layer computes nothing is loaded any more, so there the work counts alone.
# next: layers - 1 phases have both, and the last has the work.
def by_turns(load, work, layers):
    return load + layers * max(load, work)


# %% 09.w2: without the first load
# clause: the beginning of the first load
# why:  the first load is missing: beside it nothing can go on.
# next: add one load.
def by_turns(load, work, layers):
    return (layers - 1) * max(load, work) + work


# %% 09.w2: the shorter of the two
# why:  this counts the shorter of the two in each turn. Who is done first waits for the other.
# next: max, and not min.
def by_turns(load, work, layers):
    return load + (layers - 1) * min(load, work) + work


# %% 09.w2: a turn for each layer
# why:  this counts a turn for each layer, and the last layer's work besides. The last layer has no
#   load beside it.
# next: load, then layers - 1 turns, then work.
def by_turns(load, work, layers):
    return layers * max(load, work) + work


# %% 09.w2: turns alone
# clause: the end of the last layer
# why:  before the first turn a load has nothing beside it, and after the last one a layer.
# next: load, then layers - 1 turns, then work.
def by_turns(load, work, layers):
    return layers * max(load, work)


# %% 09.3: one after the other
# clause: No load but the first may hold up a layer
# why:  each load begins when the layer before it is over, and its own layer waits for it.
# next: let the load of row n + 1 stand before the crossing of layer n.
def turns(load, compute, cross, layers):
    steps = []
    for n in range(layers):
        steps += [load(n, n % 2), compute(n % 2)]
        if n + 1 < layers:
            steps.append(cross(n % 2))
    return steps


# %% 09.3: into weights in use
# clause: no weights may be overwritten before they were used
# why:  the next row goes to the IPU that computes, over weights that it needs still.
# next: it goes to the other IPU, 1 - n % 2.
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
# why:  all layers compute on IPU 0, and each begins with the first input: what comes out has to
#   cross.
# next: layer n computes on IPU n % 2.
def turns(load, compute, cross, layers):
    steps = []
    for n in range(layers):
        steps += [load(n, 0), compute(0)]
    return steps


# %% 09.3: never crosses
# why:  nothing crosses: IPU 1 has no input.
# next: after each layer but the last, cross(n % 2).
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps.append(load(n + 1, 1 - n % 2))
    return steps


# %% 09.3: crosses too early
# clause: in their order
# why:  the result crosses before it is there.
# next: first compute, then cross.
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        if n + 1 < layers:
            steps += [load(n + 1, 1 - n % 2), cross(n % 2)]
        steps.append(compute(n % 2))
    return steps


# %% 09.3: crosses back
# why:  cross(ipu) takes from that IPU, and here it is the one that has not computed yet.
# next: cross(n % 2) brings what layer n made to the other one.
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps += [load(n + 1, 1 - n % 2), cross(1 - n % 2)]
    return steps


# %% 09.3: the first load is missing
# why:  the first layer computes, and its row was not loaded.
# next: begin with load(0, 0).
def turns(load, compute, cross, layers):
    steps = []
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps += [load(n + 1, 1 - n % 2), cross(n % 2)]
    return steps


# %% 09.3: waits for the copy
# why:  a sync of all after each load makes them wait for it: nothing is left of the overlap.
# next: leave the Sync out. Each IPU waits for its own load by itself.
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
# clause: what comes out stays on the IPU of the last layer
# why:  what the last layer made crosses, too, and nobody needs it there: both are held up.
# next: after the last layer nothing crosses.
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps.append(load(n + 1, 1 - n % 2))
        steps.append(cross(n % 2))
    return steps


# %% 09.3: the same row once more
# clause: with row n
# why:  the row that is loaded is that of the layer which computes just now.
# next: row n + 1.
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
# error in the answer: was given the IPU
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        here = n % 2
        steps.append(compute(here))
        if n + 1 < layers:
            steps += [load(1 - here, n + 1), cross(here)]
    return steps


# %% 09.3: more IPUs than there are
# error in the answer: compute(ipu) was given the IPU 2; there are 0 and 1
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n))
        if n + 1 < layers:
            steps += [load(n + 1, (n + 1) % 2), cross(n)]
    return steps


# %% 09.4: rounded down
# clause: as long as a load, or longer
# why:  this rounds down: so many micro-batches are a little shorter than the load.
# next: round up: 4.1 micro-batches are five.
def factor(load, work):
    return max(1, load // work)


# %% 09.4: rounded down, and 0
# why:  this rounds down: the work is then shorter than the load, and a short load gets 0 of them.
# next: round up, and give at least 1.
def factor(load, work):
    return load // work


# %% 09.4: to the nearest
# why:  this takes the nearest whole number, and half of the time that is too few.
# next: round up.
def factor(load, work):
    return max(1, round(load / work))


# %% 09.4: always one more
# clause: the smallest factor
# why:  where the work fits just so, this takes one too many.
# next: round up, so that a whole number stays what it is.
def factor(load, work):
    return load // work + 1


# %% 09.4: none at all
# clause: there is always one micro-batch
# why:  where nothing is loaded this gives no micro-batch. One there is always.
# next: take the larger of that and 1.
def factor(load, work):
    return -(-load // work)


# %% 09.4: turned round
# why:  this asks how many loads hide the work.
# next: divide the load by the work, and round up.
def factor(load, work):
    return max(1, -(-work // load)) if load else 1


# %% 09.4: not whole
# clause: whole numbers
# why:  a part of a micro-batch cannot be computed.
# next: round up.
def factor(load, work):
    return max(1, load / work)


# %% 09.4: beside the first one
# why:  this counts the micro-batches besides one. The load goes on beside all of them.
# next: leave out what is added.
def factor(load, work):
    return 1 + max(0, -(-load // work))


# %% 09.4: one or two
# why:  of a very long load two micro-batches hide a part.
# next: divide the load by the work, and round up.
def factor(load, work):
    return 1 if load <= work else 2


# %% 09.4: the difference
# why:  this is how many cycles are left over. Asked is how many micro-batches are as long.
# next: divide, and round up.
def factor(load, work):
    return max(1, load - work)


# %% 09.4: twice as many each time
# why:  this doubles until it is enough. The smallest that is enough may lie between.
# next: load / work, rounded up.
def factor(load, work):
    n = 1
    while n * work < load:
        n *= 2
    return n


# %% 09.w3: the tail is lost
# clause: together they hold every number
# why:  rounded down, the shards have no room for the last numbers.
# next: round up, and count the places that are left over.
def shard_of(numbers, replicas):
    return numbers // replicas, numbers % replicas


# %% 09.w3: what is too much
# clause: how many places are left
# why:  the length is right. The second number is what does not fill a place on each; asked is how
#   many places stay empty.
# next: places in all, less numbers.
def shard_of(numbers, replicas):
    return -(-numbers // replicas), numbers % replicas


# %% 09.w3: one more, always
# why:  where the numbers divide evenly, each shard has a place too many.
# next: round up, so that a whole number stays what it is.
def shard_of(numbers, replicas):
    held = numbers // replicas + 1
    return held, held * replicas - numbers


# %% 09.w3: the two changed places
# clause: (how many numbers a shard has room for
# why:  the length comes first, then what is left over.
# next: return held, held * replicas - numbers.
def shard_of(numbers, replicas):
    held = -(-numbers // replicas)
    return held * replicas - numbers, held


# %% 09.w3: to the nearest
# clause: All shards are equally long
# why:  this takes the nearest whole number. Where that is less, some numbers have no place.
# next: round up.
def shard_of(numbers, replicas):
    held = round(numbers / replicas)
    return held, held * replicas - numbers


# %% 09.5: the sum
# clause: plus the mean
# why:  this adds the sum of the four gradients. Asked is the mean.
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
# why:  the weights lose half of the momentum. The half is what remains of the old momentum.
# next: the weights lose a quarter of it: -0.25.
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
# why:  the momentum does not go back: the next step begins with the old one.
# next: Copy(state, buffer), once it is worked out.
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
# why:  the momentum goes back before it is worked out anew.
# next: store it after its half and the mean were added up.
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
# why:  each shard has the gradient of its own replica alone; those of the others count as well.
# next: reduce_scatter adds up all four.
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
# why:  the half of what the momentum was is missing: what is loaded is not used.
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
# why:  the weights grow by the momentum here. They lose it.
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
# why:  the shards are gathered before the mean is in them: the weights move by the old momentum.
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
# why:  each replica updates its own shard, and the others never hear of it: the replicas differ.
# next: all_gather, and every replica takes all of it.
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
# not yet: more comes and goes than one shard for each replica
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
# not yet: nothing of it is in streaming memory
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
# why:  the mean was added first, and then all of it halved. Half is kept of what was there before.
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
# clause: half of what it was
# why:  the old momentum counts whole here, and only half of it should be kept.
# next: popops.mul_in_place(graph, state, 0.5, program), before the mean is added.
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
# clause: equal on all
# why:  only the weights of replica 0 were changed. After a step the replicas differ.
# next: concat(weights), and what all four have gathered.
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
# clause: a transfer joins the step that is open
# why:  here each has a step of its own. Those that leave each other alone share one.
# next: keep what the open step reads and writes, and join it where nothing meets.
def steps_of(transfers):
    return list(range(len(transfers)))


# %% 09.6: by their kind alone
# why:  here all of one kind share a step, whatever they read and write.
# next: one that reads what another wrote has to come later.
def steps_of(transfers):
    steps, kind = [], None
    for its, _, _ in transfers:
        steps.append((steps[-1] if steps else 0) + (its != kind and kind is not None))
        kind = its
    return steps


# %% 09.6: whatever their kind
# clause: or begins the next one
# why:  here a load shares a step with a store, or with a crossing. Those go by other roads, and are
#   steps of their own.
# next: ask for the kind first.
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
# why:  one that reads what another wrote is kept apart, and so it must be; one that writes what
#   another reads, or wrote, is not.
# next: the target may be neither read nor written in the step.
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
# clause: A buffer counts as one place.
# why:  only two that write one place are kept apart here.
# next: a place that one reads and another writes is a meeting, too.
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
# why:  one that writes what another of the step reads joins it here. Nobody knows which comes
#   first.
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
# why:  two transfers that write the same place share a step here. Which of them stays is then open.
# next: a transfer also begins a new step if one of the step writes its target.
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
# why:  two that read the same place are kept apart here. They do not disturb each other.
# next: look for the source among what the step writes alone.
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
# why:  this looks at the one before alone. The step may have others, which it meets.
# next: keep what all transfers of the open step read and write.
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
# why:  the steps are right, and are counted from 1 here.
# next: the first step is 0.
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
# not yet: is not a row of numbers
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
# clause: the number of the step of each transfer
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
# why:  what was read and written in steps that are over still counts here.
# next: empty both sets where a step begins.
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
# why:  a new step begins without what was written before, and still with what was read.
# next: empty both sets where a step begins.
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
# why:  the transfer that begins a step is in it, and what it reads and writes counts, too.
# next: add its places after the sets were emptied.
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
# why:  a transfer goes into an earlier step here, if it could. Steps that are over are not opened
#   again: those between stay in their order.
# next: a transfer joins the step that is open, or begins the next one.
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
