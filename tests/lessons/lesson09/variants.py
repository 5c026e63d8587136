# %% given
"""Mistakes of lesson 09 written otherwise."""

from ipu_course.checking.mistakes import given_to
from ipu_teach import FLOAT, UNSIGNED_INT, concat
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.program import Copy, Repeat, Sequence

on_replica, reduce_scatter, all_gather = (
    given_to("09.5")[name] for name in ("on_replica", "reduce_scatter", "all_gather")
)


# %% 09.w1: one by one
# like: counted from 1
def row_of(layer, batch, batches):
    return sum(batches for _ in range(layer)) + batch + 1


# %% 09.1: a copy of x that goes nowhere
# like: the store is forgotten
def add_one(graph, buffer, x, row, rows):
    program, body = Sequence(), Sequence()
    popops.zero(graph, row, program)
    body.add(Copy(buffer, x, row))
    y = popops.add(graph, x, 1, body)
    body.add(Copy(y, x))
    popops.add_in_place(graph, row, 1, body)
    return Sequence(program, Repeat(rows, body))


# %% 09.1: with a number of its own
# like: counted before the store
def add_one(graph, buffer, x, row, rows):
    program, body = Sequence(), Sequence(Copy(buffer, x, row))
    popops.zero(graph, row, program)
    following = popops.add(graph, row, 1, body)
    y = popops.add(graph, x, 1, body)
    body.add(Copy(y, buffer, following))
    body.add(Copy(following, row))
    program.add(Repeat(rows, body))
    return program


# %% 09.1: a zero that nobody changes
# like: never counted on
def add_one(graph, buffer, x, row, rows):
    zero = graph.add_constant(UNSIGNED_INT, (1,), 0)
    graph.set_tile_mapping(zero, 0)
    body = Sequence(Copy(buffer, x, zero))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, zero))
    return Repeat(rows, body)


# %% 09.2: by a product in place
# like: without tanh
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78 * 78,), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 2)
    program, body = Sequence(), Sequence(Copy(buffer, w, row))
    popops.zero(graph, row, program)
    popops.add_in_place(graph, row, 1, body)
    body.add(Copy(poplin.mat_mul(graph, x, w.reshape((78, 78)), body), x))
    return Sequence(program, Repeat(layers, body))


# %% 09.2: without a number
# like: always the first layer
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    zero = graph.add_constant(UNSIGNED_INT, (1,), 0)
    graph.set_tile_mapping(zero, 0)
    body = Sequence(Copy(buffer, w, zero))
    y = poplin.mat_mul(graph, x, w, body)
    body.add(Copy(popops.tanh(graph, y, body), x))
    return Repeat(layers, body)


# %% 09.w2: with a maximum outside
# like: one after the other
def by_turns(load, work, layers):
    return sum(load + work for _ in range(layers))


# %% 09.3: in pairs
# like: one after the other
def turns(load, compute, cross, layers):
    steps, ipu = [], 0
    for n in range(layers):
        if n:
            steps.append(cross(1 - ipu))
        steps.append(Sequence(load(n, ipu), compute(ipu)))
        ipu = 1 - ipu
    return steps


# %% 09.3: no crossing anywhere
# like: never crosses
def turns(load, compute, cross, layers):
    return [step for n in range(layers) for step in (load(n, n % 2), compute(n % 2))]


# %% 09.3: for each of them
# like: crosses after the last
def turns(load, compute, cross, layers):
    program = Sequence(load(0, 0))
    for n in range(layers):
        if n < layers - 1:
            program.add(load(n + 1, (n + 1) % 2))
        program.add(Sequence(compute(n % 2), cross(n % 2)))
    return program


# %% 09.4: whole times
# like: rounded down
def factor(load, work):
    times = 0
    for size in (10**9, 10**6, 10**3, 1):
        while (times + size) * work <= load:
            times += size
    return times or 1


# %% 09.4: a whole part and one
# like: always one more
def factor(load, work):
    return divmod(load, work)[0] + 1


# %% 09.w3: by divmod
# like: the tail is lost
def shard_of(numbers, replicas):
    return divmod(numbers, replicas)


# %% 09.5: replica by replica
# like: the sum
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = (n + 3) // 4
    buffer = graph.add_remote_buffer("state", FLOAT, 4 * length)
    shards = [on_replica(graph, i, (length,), f"state{i}") for i in range(4)]
    program.add(Copy(buffer, concat(shards)))
    for shard, its in zip(shards, reduce_scatter(graph, grads, program), strict=True):
        popops.mul_in_place(graph, shard, 0.5, program)
        popops.add_in_place(graph, shard, its, program)
    program.add(Copy(concat(shards), buffer))
    for i, whole in enumerate(all_gather(graph, shards, program)):
        popops.scaled_add_to(graph, weights[i], whole.flatten()[:n], -0.25, program)


# %% 09.5: loaded, and left there
# like: the store is forgotten
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = (n + 3) // 4
    sums = reduce_scatter(graph, grads, program)
    buffer = graph.add_remote_buffer("state", FLOAT, 4 * length)
    shards = [on_replica(graph, i, (length,), f"state{i}") for i in range(4)]
    program.add(Copy(buffer, concat(shards)))
    for shard, its in zip(shards, sums, strict=True):
        popops.mul_in_place(graph, shard, 2, program)
        popops.add_in_place(graph, shard, its, program)
        popops.mul_in_place(graph, shard, 0.25, program)
    for i, whole in enumerate(all_gather(graph, shards, program)):
        popops.scaled_add_to(graph, weights[i], whole.flatten()[:n], -0.25, program)


# %% 09.6: no look at what was read
# like: what is read may be written
def steps_of(transfers):
    groups = []
    for kind, source, target in transfers:
        last = groups[-1] if groups else []
        if not last or any(kind != k or b in (source, target) for k, a, b in last):
            groups.append([])
        groups[-1].append((kind, source, target))
    return [n for n, group in enumerate(groups) for _ in group]


# %% 09.6: by groups of a kind
# like: by their kind alone
def steps_of(transfers):
    from itertools import groupby

    runs = groupby(transfers, lambda transfer: transfer[0])
    return [n for n, (_, run) in enumerate(runs) for _ in run]


# %% 09.1: without the number
# like: never counted on
def add_one(graph, buffer, x, row, rows):
    body = Sequence(Copy(buffer, x))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer))
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows, body))
    return program


# %% 09.1: set to 0 in every turn
# like: never counted on
def add_one(graph, buffer, x, row, rows):
    body = Sequence()
    popops.zero(graph, row, body)
    body.add(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    popops.add_in_place(graph, row, 1, body)
    return Repeat(rows, body)


# %% 09.1: stored as it came
# like: the store is forgotten
def add_one(graph, buffer, x, row, rows):
    body = Sequence(Copy(buffer, x, row), Copy(x, buffer, row))
    popops.add_in_place(graph, x, 1, body)
    popops.add_in_place(graph, row, 1, body)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Repeat(rows, body))
    return program


# %% 09.2: copied before tanh
# like: without tanh
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
    popops.tanh_in_place(graph, y, body)
    popops.add_in_place(graph, row, 1, body)
    program.add(Repeat(layers, body))
    return program


# %% 09.2: loaded once
# like: always the first layer
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Copy(buffer, w, row))
    body = Sequence()
    y = poplin.mat_mul(graph, x, w, body)
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    program.add(Repeat(layers, body))
    return program


# %% 09.3: after the crossing
# like: one after the other
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps += [cross(n % 2), load(n + 1, (n + 1) % 2)]
    return steps
