# %% given
from ipu_teach import FLOAT, INT, InOut, Input, Vertex
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Repeat, RepeatWhileFalse, RepeatWhileTrue, Sequence


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


# %% 02.3: tile by tile
# like: b in its own order
def place_beside(graph, a, b):
    for tile, pieces in enumerate(graph.get_tile_mapping(a)):
        for begin, end in pieces:
            graph.set_tile_mapping(b.flatten()[begin:end], tile)


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
