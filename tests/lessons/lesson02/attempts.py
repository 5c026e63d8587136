# %% given
from ipu_teach import FLOAT, INT, InOut, Input, Vertex
from ipu_teach.poplibs import popops
from ipu_teach.program import (
    Copy,
    Execute,
    If,
    Repeat,
    RepeatWhileFalse,
    RepeatWhileTrue,
    Sequence,
)


class Add(Vertex):
    x: Input[FLOAT]
    total: InOut[FLOAT]

    def compute(self):
        self.total += self.x


def on_tile(graph, tile, *names, dtype=FLOAT):
    made = [graph.add_variable(dtype, (1,), name) for name in names]
    for tensor in made:
        graph.set_tile_mapping(tensor, tile)
    return made


def added(graph, x, total):
    step = graph.add_compute_set("add")
    vertex = graph.add_vertex(step, Add, x=x[0], total=total[0])
    graph.set_tile_mapping(vertex, 5)
    return Execute(step)


# %% 02.w1: as often as it fits, and the rest
# passed: on 562 fixed sets of numbers
def grains_of(count, grain):
    return len(range(0, count, grain))


# %% 02.w1: at least one grain
# not yet: grains_of(0, 4) came: 1 expected: 0
def grains_of(count, grain):
    return max(1, -(-count // grain))


# %% 02.1: past the end
# passed: 81 variables
def map_linearly(graph, tensor, grain):
    flat, tiles = tensor.flatten(), graph.target.num_tiles
    grains = -(-tensor.num_elements // grain)
    for tile in range(tiles):
        graph.set_tile_mapping(flat[tile * grains // tiles * grain : (tile + 1) * grains // tiles * grain], tile)


# %% 02.1: divmod
# passed: 81 variables
def map_linearly(graph, tensor, grain):
    flat, begin = tensor.flatten(), 0
    each, rest = divmod((tensor.num_elements + grain - 1) // grain, graph.target.num_tiles)
    for tile in range(graph.target.num_tiles):
        end = begin + (each + (tile < rest)) * grain
        graph.set_tile_mapping(flat[begin:end], tile)
        begin = end


# %% 02.1: grain by grain
# passed: 81 variables
def map_linearly(graph, tensor, grain):
    flat, tiles = tensor.flatten(), graph.target.num_tiles
    grains = -(-tensor.num_elements // grain)
    for number in range(grains):
        graph.set_tile_mapping(flat[number * grain : (number + 1) * grain], number * tiles // grains if grains > tiles else number)


# %% 02.2: appended, on two tiles
# passed: with a program of constant size
def running_sum(graph, numbers, sums, count):
    number, total = graph.add_variable(FLOAT, (), "number"), graph.add_variable(FLOAT, (), "total")
    graph.set_tile_mapping(number, 3)
    graph.set_tile_mapping(total, 5)
    graph.set_initial_value(total, 0.0)
    body = Sequence()
    body.append(Copy(numbers, number))
    popops.add_in_place(graph, total, number, body)
    body.append(Copy(total, sums))
    return Repeat(count, body)


# %% 02.2: a constant, copied once
# passed: with a program of constant size
def running_sum(graph, numbers, sums, count):
    number, total = graph.add_variable(FLOAT, (1,), "number"), graph.add_variable(FLOAT, (1,), "total")
    zero = graph.add_constant(FLOAT, (1,), 0)
    for variable in (number, total, zero):
        graph.set_tile_mapping(variable, 0)
    body = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, body)
    return Sequence(Copy(zero, total), Repeat(count, Sequence(body, Copy(total, sums))))


# %% 02.2: a sum that is copied back
# passed: with a program of constant size
def running_sum(graph, numbers, sums, count):
    number, total = graph.add_variable(FLOAT, (1,), "numbers"), graph.add_variable(FLOAT, (1,), "sums")
    graph.set_tile_mapping(number, 0)
    graph.set_tile_mapping(total, 0)
    graph.set_initial_value(total, 0)
    body = Sequence(Copy(numbers, number))
    new = popops.add(graph, total, number, body)
    body.add(Copy(new, total)).add(Copy(total, sums))
    return Repeat(count, body)


# %% 02.2: no Repeat
# like: the loop on the host
def running_sum(graph, numbers, sums, count):
    came, so_far = on_tile(graph, 5, "came", "so far")
    graph.set_initial_value(so_far, 0.0)
    return Sequence(Copy(numbers, came), added(graph, came, so_far), Copy(so_far, sums))


# %% 02.2: zeros copied in each round
# like: 0 in every round
def running_sum(graph, numbers, sums, count):
    came, so_far, zero = on_tile(graph, 5, "came", "so far", "zero")
    graph.set_initial_value(zero, 0.0)
    body = Sequence(
        Copy(zero, so_far), Copy(numbers, came), added(graph, came, so_far), Copy(so_far, sums)
    )
    return Repeat(count, body)


# %% 02.2: up to count
# like: one round too many
def running_sum(graph, numbers, sums, count):
    came, so_far = on_tile(graph, 5, "came", "so far")
    graph.set_initial_value(so_far, 0.0)
    body = Sequence(Copy(numbers, came), added(graph, came, so_far), Copy(so_far, sums))
    return Sequence(Repeat(count, body), body)


# %% 02.2: its own codelet, sent after the loop
# like: only the last sum
def running_sum(graph, numbers, sums, count):
    came, so_far = on_tile(graph, 5, "came", "so far")
    graph.set_initial_value(so_far, 0.0)
    body = Sequence(Copy(numbers, came), added(graph, came, so_far))
    return Sequence(Repeat(count, body), Copy(so_far, sums))


# %% 02.2: what came goes out
# like: the number is sent
def running_sum(graph, numbers, sums, count):
    came, so_far = on_tile(graph, 5, "came", "so far")
    graph.set_initial_value(so_far, 0.0)
    body = Sequence(Copy(numbers, came), added(graph, came, so_far))
    body.add(Copy(came, sums))
    return Repeat(count, body)


# %% 02.2: sent before it is added
# like: sent too early
def running_sum(graph, numbers, sums, count):
    came, so_far = on_tile(graph, 5, "came", "so far")
    graph.set_initial_value(so_far, 0.0)
    return Repeat(
        count, Sequence(Copy(numbers, came), Copy(so_far, sums), added(graph, came, so_far))
    )


# %% 02.2: with a total mapped by hand
# like: subtracts
def running_sum(graph, numbers, sums, count):
    incoming, total = on_tile(graph, 3, "incoming", "so far")
    graph.set_initial_value(total, 0)
    body = Sequence()
    body.add(Copy(numbers, incoming))
    difference = popops.sub(graph, total, incoming, body)
    body.add(Copy(difference, total))
    body.add(Copy(total, sums))
    return Sequence(Repeat(count, body))


# %% 02.2: added in a Repeat of its own
# like: adds twice
def running_sum(graph, numbers, sums, count):
    came, so_far = on_tile(graph, 5, "came", "so far")
    graph.set_initial_value(so_far, 0.0)
    body = Sequence(Copy(numbers, came), Repeat(2, added(graph, came, so_far)))
    body.add(Copy(so_far, sums))
    return Repeat(count, body)


# %% 02.2: the total added to the number, which is sent
# like: the number is sent
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, number, total, one)
    one.add(Copy(number, sums))
    return Repeat(count, one)


# %% 02.2: a sum that never comes back
# like: the number is sent
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    one.add(Copy(popops.add(graph, total, number, one), sums))
    return Repeat(count, one)


# %% 02.2: the first before the loop
# not yet: 6 of 7 sums next: count the numbers that the program fetches and the sums that it sends
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.add(Copy(total, sums))
    return Sequence(Copy(numbers, total), Repeat(count - 1, one))


# %% 02.w2: numpy's transpose
# passed: on 404 fixed sets of numbers
def source_tile(rows, i, j):
    return np.tile(rows, (len(rows) + i, 1))[i][j]


# %% 02.3: row by row
# passed: 5 fixed matrices
def place_beside(graph, a, b):
    for tile, pieces in enumerate(graph.get_tile_mapping(a)):
        for begin, end in pieces:
            graph.set_tile_mapping(b.transpose().flatten()[begin:end], tile)


# %% 02.3: element by element
# passed: 5 fixed matrices
def place_beside(graph, a, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            (tile,) = [t for t, pieces in enumerate(graph.get_tile_mapping(a[i, j])) if pieces]
            graph.set_tile_mapping(b[j, i], tile)


# %% 02.3: columns
# passed: 5 fixed matrices
def place_beside(graph, a, b):
    for i in range(a.shape[0]):
        tile = next(t for t, pieces in enumerate(graph.get_tile_mapping(a[i])) if pieces)
        graph.set_tile_mapping(b[:, i], tile)


# %% 02.3: tile by tile
# like: b in its own order
def place_beside(graph, a, b):
    for tile, pieces in enumerate(graph.get_tile_mapping(a)):
        for begin, end in pieces:
            graph.set_tile_mapping(b.flatten()[begin:end], tile)


# %% 02.w3: without the second program
# passed: left from 3, 7, 0 and 1
def one_less(graph, left):
    once = Sequence()
    popops.add_in_place(graph, left, -1, once)
    return Sequence(If(left, once))


# %% 02.w3: greater than 0
# passed: left from 3, 7, 0 and 1
def one_less(graph, left):
    program, body = Sequence(), Sequence()
    positive = popops.gt(graph, left, 0, program)
    popops.sub_in_place(graph, left, 1, body)
    program.add(If(positive, body, Sequence()))
    return program


# %% 02.w3: always 0
# like: until it is 0
def one_less(graph, left):
    zero = graph.add_constant(INT, left.shape, 0, "zero")
    graph.set_tile_mapping(zero, 0)
    return Copy(zero, left)


# %% 02.w3: by the larger of two
# not yet: the program always computes the same, without a decision on the device
def one_less(graph, left):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    popops.max_in_place(graph, left, 0, body)
    return body


# %% 02.w3: a zero at once, if it is not 0
# like: until it is 0
def one_less(graph, left):
    zero = graph.add_constant(INT, (), 0)
    graph.set_tile_mapping(zero, 0)
    return If(left, Copy(zero, left), Sequence())


# %% 02.4: a question asked beforehand
# passed: all with one compiled program
def countdown(graph, left, ticks):
    asked, tick = Sequence(), Sequence()
    more = popops.gt(graph, left, 0, asked)
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileTrue(asked, more, tick)


# %% 02.4: while it is false
# passed: all with one compiled program
def countdown(graph, left, ticks):
    from ipu_teach.program import RepeatWhileFalse
    asked, tick = Sequence(), Sequence()
    over = popops.eq(graph, left, 0, asked)
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileFalse(asked, over, tick)


# %% 02.4: with constants and a stream of its own
# passed: all with one compiled program
def countdown(graph, left, ticks):
    one = graph.add_constant(INT, (), 1)
    graph.set_tile_mapping(one, 0)
    tick = Sequence()
    popops.sub_in_place(graph, left, one, tick)
    popops.add_in_place(graph, ticks, one, tick)
    return Sequence([RepeatWhileTrue(Sequence(), left, tick)])


# %% 02.4: a tick at the head
# like: looks too late
def countdown(graph, left, ticks):
    body = Sequence()
    popops.add_in_place(graph, ticks, 1, body)
    popops.sub_in_place(graph, left, 1, body)
    first = Sequence()
    popops.add_in_place(graph, ticks, 1, first)
    popops.sub_in_place(graph, left, 1, first)
    return Sequence(first, RepeatWhileTrue(Sequence(), left, body))


# %% 02.4: nothing is taken away
# like: endless
def countdown(graph, left, ticks):
    body = Sequence()
    one = graph.add_constant(INT, (), 1, "one")
    graph.set_tile_mapping(one, 0)
    popops.add_in_place(graph, ticks, one, body)
    return Sequence(RepeatWhileTrue(Sequence(), left, body))


# %% 02.4: nobody writes ticks
# like: nobody counts
def countdown(graph, left, ticks):
    one = graph.add_constant(INT, (), 1, "one")
    graph.set_tile_mapping(one, 0)
    body, seen = Sequence(), graph.clone(ticks)
    graph.set_initial_value(seen, 0)
    popops.sub_in_place(graph, left, one, body)
    popops.add_in_place(graph, seen, one, body)
    return RepeatWhileTrue(Sequence(), left, body)


# %% 02.4: the other loop, with a sequence around it
# like: while it is 0
def countdown(graph, left, ticks):
    body = Sequence()
    popops.add_in_place(graph, ticks, 1, body)
    popops.sub_in_place(graph, left, 1, body)
    return Sequence(RepeatWhileFalse(Sequence(), left, body))


# %% 02.4: twice a tick
# like: counts twice
def countdown(graph, left, ticks):
    body = Sequence()
    for _ in range(2):
        popops.add_in_place(graph, ticks, 1, body)
    popops.sub_in_place(graph, left, 1, body)
    return RepeatWhileTrue(Sequence(), left, body)


# %% 02.4: ticks at once
# not yet: expected: 1,001 ticks
def countdown(graph, left, ticks):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    return Sequence(Copy(left, ticks), RepeatWhileTrue(Sequence(), left, body))


# %% 02.4: a comparison before each round
# passed: all with one compiled program
def countdown(graph, left, ticks):
    look, body = Sequence(), Sequence()
    more = popops.gt(graph, left, 0, look)
    popops.sub_in_place(graph, left, 1, body)
    popops.add_in_place(graph, ticks, 1, body)
    return RepeatWhileTrue(look, more, body)


# %% 02.4: all of it in one round
# clause: counts the iterations in
# not yet: 2,000 subtracted from `left` in 1 iteration
def countdown(graph, left, ticks):
    zero = graph.add_constant(INT, (), 0, "zero")
    graph.set_tile_mapping(zero, 0)
    return RepeatWhileTrue(Sequence(), left, Sequence(Copy(left, ticks), Copy(zero, left)))


# %% 02.4: one tick after the loop
# not yet: next: print `left` and `ticks` in each iteration
def countdown(graph, left, ticks):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    program = Sequence(RepeatWhileTrue(Sequence(), left, body))
    popops.add_in_place(graph, ticks, 1, program)
    return program


# %% 02.4: 64 rounds that look
# not yet: needs more iterations than the program has
def countdown(graph, left, ticks):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    popops.add_in_place(graph, ticks, 1, body)
    return Repeat(64, If(left, body, Sequence()))


# %% 02.5: every element on its tile
# passed: each of the two errors
def copying(graph, source, target, values, mapped, written):
    for i in range(source.num_elements):
        graph.set_tile_mapping(target[i], i)
        if mapped:
            graph.set_tile_mapping(source[i], i + 1)
    if written:
        graph.set_initial_value(source, list(values))
    return Sequence(Copy(source, target))


# %% 02.5: in two halves
# passed: each of the two errors
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 0)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(source, tuple(values))
    return Sequence(Copy(source[:3], target[:3]), Copy(source[3:99], target[3:99]))


# %% 02.5: only a part unmapped
# clause: If not mapped, source is on no tile
# not yet: no part of `source` may be mapped
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 2)
    graph.set_tile_mapping(source if mapped else source[1:], 3)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: filled within the program
# passed: each of the two errors
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if mapped:
        graph.set_tile_mapping(source, 0)
    program = Sequence()
    if written:
        held = graph.add_constant(FLOAT, 7, values, "held")
        graph.set_tile_mapping(held, 0)
        program.add(Copy(held, source))
    program.add(Copy(source, target))
    return program


# %% 02.5: set_initial_value(source, 0)
# not yet: if written is true, call graph.set_initial_value(source, values).
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 0)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(source, 0)
    return Copy(source, target)


# %% 02.5: the other way
# not yet: this copies `target` into `source`
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 0)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(source, values)
    return Copy(target, source)


# %% 02.5: numbers of its own
# not yet: `target` is a copy of `source`, but `source` has other numbers
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 0)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(source, range(source.num_elements))
    return Copy(source, target)


# %% 02.5: all but the last written
# clause: if not written, nothing is written into source
# not yet: no part of `source` may be written
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 0)
    if mapped:
        graph.set_tile_mapping(source, 0)
    graph.set_initial_value(
        source if written else source[:-1], values if written else values[:-1]
    )
    return Copy(source, target)


# %% 02.5: written only if mapped, too
# passed: each of the two errors
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 0)
    if mapped:
        graph.set_tile_mapping(source, 0)
        if written:
            graph.set_initial_value(source, values)
    return Copy(source, target)
