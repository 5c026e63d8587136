# %% given
"""Mistakes of lesson 09 written otherwise."""

from ipu_course.checking.mistakes import given_to
from ipu_teach import FLOAT, UNSIGNED_INT, concat
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.program import Copy, Repeat, Sequence

on_replica, reduce_scatter, all_gather = (
    given_to("09.5")[name] for name in ("on_replica", "reduce_scatter", "all_gather")
)


# %% 09.w1: with numpy
# passed: sets of numbers
def row_of(layer, batch, batches):
    return np.ravel_multi_index((layer, batch), (layer + 1, batches))


# %% 09.w1: one by one
# like: counted from 1
def row_of(layer, batch, batches):
    return sum(batches for _ in range(layer)) + batch + 1


# %% 09.1: counted by a sum of its own
# passed: run twice
def add_one(graph, buffer, x, row, rows):
    one = graph.add_constant(UNSIGNED_INT, (1,), 1)
    graph.set_tile_mapping(one, 3)
    program, body = Sequence(), Sequence()
    popops.zero(graph, row, program)
    body.add(Copy(buffer, x, row))
    y = popops.add(graph, x, 1, body)
    body.add(Copy(y, buffer, row))
    popops.add_in_place(graph, row, one, body)
    return Sequence(program, Repeat(rows, body))


# %% 09.1: set back at the end
# passed: run twice
def add_one(graph, buffer, x, row, rows):
    graph.set_initial_value(row, 0)
    body = Sequence(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    popops.add_in_place(graph, row, 1, body)
    program = Sequence(Repeat(rows, body))
    popops.zero(graph, row, program)
    return program


# %% 09.1: from the last row to the first
# passed: run twice
def add_one(graph, buffer, x, row, rows):
    last = graph.add_constant(UNSIGNED_INT, (1,), rows)
    graph.set_tile_mapping(last, 0)
    body = Sequence()
    popops.sub_in_place(graph, row, 1, body)
    body.add(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    return [Copy(last, row), Repeat(rows, body)]


# %% 09.1: counted down
# passed: 5, 11 and 1 rows
def add_one(graph, buffer, x, row, rows):
    program, body = Sequence(), Sequence()
    popops.zero(graph, row, program)
    popops.add_in_place(graph, row, rows, program)
    popops.sub_in_place(graph, row, 1, body)
    body.add(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    return Sequence(program, Repeat(rows, body))


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


# %% 09.1: zero in every turn
# like: never counted on
def add_one(graph, buffer, x, row, rows):
    body = Sequence()
    popops.zero(graph, row, body)
    body.add(Copy(buffer, x, row))
    popops.add_in_place(graph, x, 1, body)
    body.add(Copy(x, buffer, row))
    popops.add_in_place(graph, row, 1, body)
    return Repeat(rows, body)


# %% 09.2: a new tensor for tanh
# passed: which take the same amount of memory
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78 * 78,), "weights here")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "number")
    graph.set_tile_mapping(row, 5)
    program, body = Sequence(), Sequence()
    popops.zero(graph, row, program)
    body.add(Copy(buffer, w, row))
    popops.add_in_place(graph, row, 1, body)
    y = poplin.mat_mul(graph, x, w.reshape((78, 78)), body)
    body.add(Copy(popops.tanh(graph, y, body), x))
    program.add(Repeat(layers, body))
    return program


# %% 09.2: the product turned on its side
# passed: which take the same amount of memory
def deep(graph, buffer, x, layers):
    flat = graph.add_variable(FLOAT, (78 * 78,), "flat")
    poputil.map_tensor_linearly(graph, flat)
    w = flat.reshape((78, 78))
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 12)
    body = Sequence(Copy(buffer, flat, row))
    y = poplin.mat_mul(graph, w.transpose(), x.transpose(), body).transpose()
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    popops.add_in_place(graph, row, 1, body)
    start = Sequence()
    popops.zero(graph, row, start)
    return Sequence(start, Repeat(layers, body))


# %% 09.2: the first layer apart
# passed: which take the same amount of memory
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    body = Sequence()
    y = poplin.mat_mul(graph, x, w, body)
    popops.tanh_in_place(graph, y, body)
    body.add(Copy(y, x))
    next_row = Sequence()
    popops.add_in_place(graph, row, 1, next_row)
    program = Sequence()
    popops.zero(graph, row, program)
    program.add(Copy(buffer, w, row))
    program.add(body)
    program.add(Repeat(layers - 1, Sequence(next_row, Copy(buffer, w, row), body)))
    return program


# %% 09.2: tanh in x
# passed: which take the same amount of memory
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78, 78), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 0)
    program = Sequence()
    popops.zero(graph, row, program)
    body = Sequence(Copy(buffer, w, row))
    body.add(Copy(poplin.mat_mul(graph, x, w, body), x))
    popops.tanh_in_place(graph, x, body)
    popops.add_in_place(graph, row, 1, body)
    program.add(Repeat(layers, body))
    return program


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


# %% 09.2: eight, as in the picture
# like: always eight layers
def deep(graph, buffer, x, layers):
    w = graph.add_variable(FLOAT, (78 * 78,), "w")
    poputil.map_tensor_linearly(graph, w)
    row = graph.add_variable(UNSIGNED_INT, (1,), "row")
    graph.set_tile_mapping(row, 1)
    program, body = Sequence(), Sequence(Copy(buffer, w, row))
    popops.zero(graph, row, program)
    y = poplin.mat_mul(graph, x, w.reshape((78, 78)), body)
    body.add(Copy(popops.tanh(graph, y, body), x))
    popops.add_in_place(graph, row, 1, body)
    program.add(Repeat(8, body))
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


# %% 09.w2: phase by phase
# passed: sets of numbers
def by_turns(load, work, layers):
    cycles = load
    for _ in range(layers - 1):
        cycles += max(load, work)
    return cycles + work


# %% 09.w2: with a maximum outside
# like: one after the other
def by_turns(load, work, layers):
    return sum(load + work for _ in range(layers))


# %% 09.3: the load before the layer
# passed: each layer uses its own row
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers - 1):
        steps += [load(n + 1, (n + 1) % 2), compute(n % 2), cross(n % 2)]
    return steps + [compute((layers - 1) % 2)]


# %% 09.3: two rows at the beginning
# passed: each layer uses its own row
def turns(load, compute, cross, layers):
    steps = [load(n, n) for n in range(min(2, layers))]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps.append(cross(n % 2))
        if n + 2 < layers:
            steps.append(load(n + 2, n % 2))
    return steps


# %% 09.3: step by step, with yield
# passed: each layer uses its own row
def turns(load, compute, cross, layers):
    yield load(0, 0)
    for n in range(layers):
        yield compute(n % 2)
        if n + 1 < layers:
            yield load(n + 1, (n + 1) % 2)
            yield cross(n % 2)


# %% 09.3: as a generator expression
# passed: each layer uses its own row
def turns(load, compute, cross, layers):
    def tick(n):
        last = n == layers - 1
        return [compute(n % 2)] + ([] if last else [load(n + 1, (n + 1) % 2), cross(n % 2)])

    return (step for part in [[load(0, 0)], *map(tick, range(layers))] for step in part)


# %% 09.3: yield, and the load too late
# like: one after the other
def turns(load, compute, cross, layers):
    for n in range(layers):
        yield load(n, n % 2)
        yield compute(n % 2)
        if n + 1 < layers:
            yield cross(n % 2)


# %% 09.3: as one program
# passed: each layer uses its own row
def turns(load, compute, cross, layers):
    program, ipu = Sequence(load(0, 0)), 0
    for n in range(1, layers):
        program.add(Sequence(compute(ipu), load(n, 1 - ipu)))
        program.add(cross(ipu))
        ipu = 1 - ipu
    program.add(compute(ipu))
    return program


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


# %% 09.3: after the crossing
# like: one after the other
def turns(load, compute, cross, layers):
    steps = [load(0, 0)]
    for n in range(layers):
        steps.append(compute(n % 2))
        if n + 1 < layers:
            steps += [cross(n % 2), load(n + 1, (n + 1) % 2)]
    return steps


# %% 09.4: by trying
# passed: sets of numbers
def factor(load, work):
    return load // work + (load % work > 0) if load else 1


# %% 09.4: with numpy
# passed: sets of numbers
def factor(load, work):
    return int(np.ceil(load / work)) or 1


# %% 09.4: with divmod
# passed: sets of numbers
def factor(load, work):
    whole, rest = divmod(max(load, 1), work)
    return whole + bool(rest)


# %% 09.4: in a loop
# passed: sets of numbers
def factor(load, work):
    n = 1
    while n * work < load:
        n += 1
    return n


# %% 09.4: whole times
# like: rounded down
def factor(load, work):
    times = 0
    for size in (10**9, 10**6, 10**3, 1):
        while (times + size) * work <= load:
            times += size
    return times or 1


# %% 09.4: int of the ratio
# like: rounded down, and 0
def factor(load, work):
    return int(load / work)


# %% 09.4: a whole part and one
# like: always one more
def factor(load, work):
    return divmod(load, work)[0] + 1


# %% 09.w3: with numpy
# passed: sets of numbers
def shard_of(numbers, replicas):
    held = int(np.ceil(numbers / replicas))
    return [held, -numbers % replicas]


# %% 09.w3: by divmod
# like: the tail is lost
def shard_of(numbers, replicas):
    return divmod(numbers, replicas)


# %% 09.5: the weights are gathered
# passed: all replicas are correct
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    buffer = graph.add_remote_buffer("m", FLOAT, REPLICAS * length)
    state = [on_replica(graph, i, (length,), f"m{i}") for i in range(REPLICAS)]
    mine = [on_replica(graph, i, (length,), f"mine{i}") for i in range(REPLICAS)]
    popops.zero(graph, concat(mine), program)
    for i in range(REPLICAS):
        part = weights[i][min(n, i * length) : min(n, (i + 1) * length)]
        if part.num_elements:
            program.add(Copy(part, mine[i][: part.num_elements]))
    program.add(Copy(buffer, concat(state)))
    mean = concat(reduce_scatter(graph, grads, program))
    popops.mul_in_place(graph, mean, 0.25, program)
    popops.mul_in_place(graph, concat(state), 0.5, program)
    popops.add_in_place(graph, concat(state), mean, program)
    popops.scaled_add_to(graph, concat(mine), concat(state), -0.25, program)
    for w, whole in zip(weights, all_gather(graph, mine, program)):
        program.add(Copy(whole.flatten()[:n], w))
    program.add(Copy(concat(state), buffer))


# %% 09.5: a row for each replica
# passed: all replicas are correct
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = (n + REPLICAS - 1) // REPLICAS
    buffer = graph.add_remote_buffer("momentum", FLOAT, length, repeats=REPLICAS)
    rows = graph.add_constant(UNSIGNED_INT, (REPLICAS,), list(range(REPLICAS)))
    graph.set_tile_mapping(rows, 0)
    shards = [on_replica(graph, i, (length,), f"shard{i}") for i in range(REPLICAS)]
    for i in range(REPLICAS):
        program.add(Copy(buffer, shards[i], rows[i : i + 1]))
    sums = reduce_scatter(graph, grads, program)
    for shard, its in zip(shards, sums):
        popops.mul_in_place(graph, shard, 0.5, program)
        popops.scaled_add_to(graph, shard, its, 0.25, program)
    for i in range(REPLICAS):
        program.add(Copy(shards[i], buffer, rows[i : i + 1]))
    for i, whole in enumerate(all_gather(graph, shards, program)):
        popops.scaled_add_to(graph, weights[i], whole.flatten()[:n], -0.25, program)


# %% 09.5: a buffer for each replica
# passed: all replicas are correct
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    sums = reduce_scatter(graph, grads, program)
    shards = []
    for i in range(REPLICAS):
        buffer = graph.add_remote_buffer(f"momentum{i}", FLOAT, length)
        shard = on_replica(graph, i, (length,), f"shard{i}")
        program.add(Copy(buffer, shard))
        popops.mul_in_place(graph, shard, 2, program)
        popops.add_in_place(graph, shard, sums[i], program)
        popops.mul_in_place(graph, shard, 0.25, program)
        shards.append(shard)
        program.add(Copy(shard, buffer))
    for i, whole in enumerate(all_gather(graph, shards, program)):
        popops.scaled_add_to(graph, weights[i], whole.flatten()[:n], -0.25, program)


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


# %% 09.5: a buffer that nothing uses
# clause: Keep the momentum in one remote buffer with room for four shards
# not yet: four shards need only 32 elements
def train(graph, weights, grads, program):
    n = weights[0].num_elements
    length = -(-n // REPLICAS)
    graph.add_remote_buffer("spare", FLOAT, length, REPLICAS)
    buffer = graph.add_remote_buffer("momentum", FLOAT, REPLICAS * length)
    shards = [on_replica(graph, i, (length,), f"momentum{i}") for i in range(REPLICAS)]
    state = concat(shards)
    program.add(Copy(buffer, state))
    sums = reduce_scatter(graph, grads, program)
    popops.mul_in_place(graph, state, 0.5, program)
    popops.scaled_add_to(graph, state, concat(sums), 1 / REPLICAS, program)
    program.add(Copy(state, buffer))
    moved = concat([each.flatten()[:n] for each in all_gather(graph, shards, program)])
    popops.scaled_add_to(graph, concat(weights), moved, -0.25, program)


# %% 09.6: with groups
# passed: sets of numbers
def steps_of(transfers):
    groups = []
    for kind, source, target in transfers:
        last = groups[-1] if groups else []
        apart = any(
            kind != other or target in (a, b) or source == b for other, a, b in last
        )
        if apart or not last:
            groups.append([])
        groups[-1].append((kind, source, target))
    return [n for n, group in enumerate(groups) for _ in group]


# %% 09.6: from its first on
# passed: sets of numbers
def steps_of(transfers):
    found, first = [], 0
    for n, (kind, source, target) in enumerate(transfers):
        for other, a, b in transfers[first:n]:
            if other != kind or b == source or b == target or a == target:
                first = n
        found.append(found[-1] + (first == n) if found else 0)
    return tuple(found)


# %% 09.6: as an array
# passed: sets of numbers
def steps_of(transfers):
    begins, start = np.zeros(len(transfers), int), 0
    for n in range(1, len(transfers)):
        kind, source, target = transfers[n]
        kinds, sources, targets = map(set, zip(*transfers[start:n]))
        if kinds != {kind} or source in targets or target in sources | targets:
            begins[n], start = 1, n
    return np.cumsum(begins)


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


# %% 09.6: steps as floats
# not yet: a count, a position or a code is an integer
def steps_of(transfers):
    steps = np.zeros(len(transfers))
    kind, read, written, number = None, set(), set(), 0
    for place, (this, source, target) in enumerate(transfers):
        if kind is not None and (this != kind or source in written or target in written | read):
            number, read, written = number + 1, set(), set()
        kind = this
        read.add(source)
        written.add(target)
        steps[place] = number
    return steps


# %% 09.4: 0.99 more, and cut off
# clause: at least as long as a load
# not yet: Special in this case: `load` is one cycle more than `work`.
def factor(load, work):
    return max(1, int(load / work + 0.99))


# %% 09.w3: 0.9 more, and cut off
# not yet: shard_of(201, 200)
def shard_of(numbers, replicas):
    length = int(numbers / replicas + 0.9)
    return length, length * replicas - numbers
