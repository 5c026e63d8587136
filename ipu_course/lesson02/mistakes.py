# %% given
"""Known mistakes of lesson 02; what this file is: mistakes.py."""

from ipu_teach import FLOAT
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Repeat, RepeatWhileFalse, RepeatWhileTrue, Sequence


# %% 02.1: ignores the grain
# clause: A grain must not be cut
# not yet: tiles got equal numbers of elements
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    for t in range(tiles):
        b, e = t * n // tiles, (t + 1) * n // tiles
        if b < e:
            graph.set_tile_mapping(flat[b:e], t)


# %% 02.1: leaves a tail
# not yet: the tail was left
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    each = max(n // grain // tiles, 1) * grain
    for t in range(tiles):
        b, e = t * each, min((t + 1) * each, n // grain * grain or n)
        if b < e:
            graph.set_tile_mapping(flat[b:e], t)


# %% 02.1: rounds up
# clause: no tile may hold more than one grain more than another
# not yet: rounded up, so the first tiles take all
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    each = -(-n // grain // tiles) * grain or grain
    for t in range(tiles):
        b, e = t * each, min((t + 1) * each, n)
        if b < e:
            graph.set_tile_mapping(flat[b:e], t)


# %% 02.1: all on one tile
# not yet: everything lies on one tile
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    graph.set_tile_mapping(flat, 0)


# %% 02.1: deals the grains out in turn
# clause: Element order is that of
# not yet: the pieces follow each other
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    for g in range(-(-n // grain)):
        graph.set_tile_mapping(flat[g * grain : min((g + 1) * grain, n)], g % tiles)


# %% 02.1: maps nothing
# not yet: 101 elements on no tile
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    len(flat)


# %% 02.1: one tile too many
# error in the answer: There is no tile 13.
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    graph.set_tile_mapping(flat, tiles)


# %% 02.1: the short grain first
# clause: except that the last may be short
# not yet: tile 0 holds elements 0 to 4
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    grains, short = -(-n // grain), -n % grain
    for t in range(tiles):
        b, e = (max(g * grain - short, 0) for g in (t * grains // tiles, (t + 1) * grains // tiles))
        graph.set_tile_mapping(flat[b:e], t)


# %% 02.1: rows for elements
# clause: Element order is that of `tensor.flatten()`
# why:  tensor[a:b] of two dimensions are rows a to b - 1, and not elements.
# next: map tensor.flatten()[a:b].
def map_linearly(graph, tensor, grain):
    tiles, count = graph.target.num_tiles, tensor.num_elements
    grains = -(-count // grain)
    for tile in range(tiles):
        begin, end = (grain * (t * grains // tiles) for t in (tile, tile + 1))
        if begin < end:
            graph.set_tile_mapping(tensor[begin : min(end, count)], tile)


# %% 02.1: fails for a single element
# clause: of any shape
# not yet: special here: there is one element
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    grains = -(-n // grain)
    for t in range(tiles):
        if n > 1:
            graph.set_tile_mapping(
                flat[t * grains // tiles * grain : (t + 1) * grains // tiles * grain], t
            )


# %% 02.1: always 13 tiles
# clause: to each of graph.target.num_tiles tiles
# error in the answer: use a tile from 0 to 3
def map_linearly(graph, tensor, grain):
    n, flat = tensor.num_elements, tensor.flatten()
    grains = -(-n // grain)
    for t in range(13):
        graph.set_tile_mapping(flat[t * grains // 13 * grain : (t + 1) * grains // 13 * grain], t)


# %% 02.2: the loop on the host
# clause: in *one*
# why:  the program does one round, and nothing in it repeats: somebody would have to call run again
#   and again.
# next: put the round into Repeat(count, …).
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.add(Copy(total, sums))
    return one


# %% 02.2: 0 in every round
# why:  what came are the numbers themselves: the total begins at 0 in every round.
# next: write the 0 once, before the Repeat: graph.set_initial_value(total, 0).
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    zero = graph.add_constant(FLOAT, (1,), 0)
    graph.set_tile_mapping(zero, 0)
    one = Sequence(Copy(zero, total), Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.add(Copy(total, sums))
    return Repeat(count, one)


# %% 02.2: one round too many
# why:  Repeat asks for more rounds than there are numbers.
# next: repeat it count times.
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.add(Copy(total, sums))
    return Repeat(count + 1, one)


# %% 02.2: only the last sum
# clause: For every number that comes in
# why:  only the last sum came: the Copy into sums stands after the loop, and not in it.
# next: put it into the round, after the addition.
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    return Sequence(Repeat(count, one), Copy(total, sums))


# %% 02.2: nothing is sent
# clause: to the stream `sums`
# why:  nothing in the program sends: there is no Copy into the stream sums.
# next: end a round with Copy(total, sums).
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    return Repeat(count, one)


# %% 02.2: the number is sent
# clause: the sum of all so far goes out
# why:  what came are the numbers themselves: what is sent has nothing of the rounds before in it.
# next: end a round with popops.add_in_place(graph, total, number, round) and Copy(total, sums).
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.append(Copy(number, sums))
    return Repeat(count, one)


# %% 02.2: sent too early
# why:  each sum comes a round late: it is sent before the number is added.
# next: send it after the addition.
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    one.append(Copy(total, sums))
    popops.add_in_place(graph, total, number, one)
    return Repeat(count, one)


# %% 02.2: added to the number
# why:  the total stays 0: nothing is added to it.
# next: add_in_place(graph, total, number, round) changes total.
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, number, total, one)
    one.append(Copy(total, sums))
    return Repeat(count, one)


# %% 02.2: one round too few
# why:  what came is right, and the last round is missing.
# next: repeat it count times.
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.append(Copy(total, sums))
    return Repeat(count - 1, one)


# %% 02.2: subtracts
# why:  the numbers are taken away, and not added.
# next: use popops.add_in_place.
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.sub_in_place(graph, total, number, one)
    one.append(Copy(total, sums))
    return Repeat(count, one)


# %% 02.2: adds twice
# why:  every sum is twice what it should be: each number is added twice.
# next: append the addition once.
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    popops.add_in_place(graph, total, number, one)
    one.append(Copy(total, sums))
    return Repeat(count, one)


# %% 02.2: fetched in a Python loop, sent once
# why:  only the last sum came: a Python loop wrote the rounds down, and the Copy into sums stands
#   after it.
# next: write one round down, with its Copy into sums, and say Repeat(count, round).
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    program = Sequence()
    for _ in range(count):
        program.add(Copy(numbers, number))
        popops.add_in_place(graph, total, number, program)
    return program.add(Copy(total, sums))


# %% 02.2: every round written down
# clause: must not grow with the count
# not yet: a Python loop wrote every round down
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.add(Copy(total, sums))
    return Sequence([one] * count)


# %% 02.2: no 0 at all
# clause: the total has to begin at 0
# error in the answer: UninitialisedReadError
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.add(Copy(total, sums))
    return Repeat(count, one)


# %% 02.2: begins at 1
# not yet: every sum is off by 1
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 1)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.add(Copy(total, sums))
    return Repeat(count, one)


# %% 02.2: no return
# clause: return the program
# not yet: is there a `return`?
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.add(Copy(total, sums))


# %% 02.2: adds in Python
# error in the answer: in tensor += Tensor
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    total += number
    one.append(Copy(total, sums))
    return Repeat(count, one)


# %% 02.2: the total in HALF
# not yet: computed in float64 it is right: the formula is right, but rounding errors are too large.
#   next: find where the numbers get a narrow type
def running_sum(graph, numbers, sums, count):
    from ipu_teach import HALF

    number, total = (
        graph.add_variable(FLOAT, (1,), "number"),
        graph.add_variable(HALF, (1,), "total"),
    )
    graph.set_tile_mapping(number, 0)
    graph.set_tile_mapping(total, 0)
    graph.set_initial_value(total, 0)
    one_round = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, popops.cast(graph, number, HALF, one_round), one_round)
    one_round.add(Copy(popops.cast(graph, total, FLOAT, one_round), sums))
    return Repeat(count, one_round)


# %% 02.2: each sum a little too large
# not yet: at the end of the round, and run it for 3, 1, 4
def running_sum(graph, numbers, sums, count):
    number, total = (
        graph.add_variable(FLOAT, (1,), "number"),
        graph.add_variable(FLOAT, (1,), "total"),
    )
    graph.set_tile_mapping(number, 0)
    graph.set_tile_mapping(total, 0)
    graph.set_initial_value(total, 0)
    one_round = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one_round)
    popops.mul_in_place(graph, total, 1.001, one_round)
    one_round.add(Copy(total, sums))
    return Repeat(count, one_round)


# %% 02.3: b in its own order
# why:  b has the same tiles as a, in b's own order. But row i of a is column i of b.
# next: b.transpose() has the shape of a. Map that view.
def place_beside(graph, a, b):
    graph.set_tile_mapping(b, graph.get_tile_mapping(a))


# %% 02.3: an interval for a row
# clause: rows are on tiles of somebody else
# not yet: neighbouring rows that lie on one tile are one interval
def place_beside(graph, a, b):
    for tile, intervals in enumerate(graph.get_tile_mapping(a)):
        for begin, _ in intervals:
            graph.set_tile_mapping(b[:, begin // a.shape[1]], tile)


# %% 02.3: linear
# clause: sends nothing
# why:  column i of b lies on tile i, as if row i of a were on tile i. Somebody else has chosen its
#   tile.
# next: ask where a lies: graph.get_tile_mapping(a), or its rows one by one.
def place_beside(graph, a, b):
    for i in range(b.num_elements):
        graph.set_tile_mapping(b.flatten()[i], i % 13)


# %% 02.3: b on one tile
# clause: the budget is 0
# not yet: everything has to come there
def place_beside(graph, a, b):
    graph.set_tile_mapping(b, 0)


# %% 02.3: a moved
# clause: The same Copy
# not yet: a was moved
def place_beside(graph, a, b):
    graph.set_tile_mapping(a, 0)
    graph.set_tile_mapping(b, 0)


# %% 02.3: half of b
# clause: You place `b`.
# error in the answer: 39 of the 52 elements
def place_beside(graph, a, b):
    graph.set_tile_mapping(b[0], 0)


# %% 02.3: two tiles changed round
# not yet: receives a[
def place_beside(graph, a, b):
    graph.set_tile_mapping(
        b.transpose(), [graph.get_tile_mapping(a)[t ^ 1 if t < 12 else t] for t in range(13)]
    )


# %% 02.3: nothing is mapped
# clause: map b.
# error in the answer: The variable 'b' is on no tile
def place_beside(graph, a, b):
    b.transpose()


# %% 02.3: rows of b beside rows of a
# why:  row i of b is on the tile of row i of a. But row i of a is copied into column i of b.
# next: map the columns: b[:, i] goes to the tile of a[i].
def place_beside(graph, a, b):
    mapping = [graph.get_tile_mapping(a[i]) for i in range(len(a))]
    tiles = [next(tile for tile, pieces in enumerate(row) if pieces) for row in mapping]
    for i in range(len(b)):
        graph.set_tile_mapping(b[i], tiles[i % len(tiles)])


# %% 02.4: looks too late
# clause: until nothing is left
# why:  the first tick comes before the first look, so a countdown from 0 goes wrong.
# next: put the round into the body, which runs only after a look at left.
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return Sequence(tick, RepeatWhileTrue(Sequence(), left, tick))


# %% 02.4: endless
# why:  what the loop looks at never becomes 0.
# next: take 1 from left in every round.
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileTrue(Sequence(), left, tick)


# %% 02.4: counts up
# clause: takes 1 from `left`
# why:  RepeatWhileFalse goes on while left is 0, and here it is not.
# next: use RepeatWhileTrue.
from ipu_teach.program import RepeatWhileFalse


def countdown(graph, left, ticks):
    tick = Sequence()
    popops.add_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileFalse(Sequence(), left, tick)


# %% 02.4: nobody counts
# clause: adds 1 to `ticks`
# why:  left goes down, and nobody counts.
# next: add 1 to ticks in every round.
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    return RepeatWhileTrue(Sequence(), left, tick)


# %% 02.4: counts one more
# clause: counts the rounds in
# why:  there is one tick too many each time.
# next: count within the round, and nowhere else.
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    more = Sequence()
    popops.add_in_place(graph, ticks, 1, more)
    return Sequence(RepeatWhileTrue(Sequence(), left, tick), more)


# %% 02.4: nothing is done
# why:  nothing was done at all: no round comes to pass.
# next: put the round into the body of the loop, and let the loop look at left.
def countdown(graph, left, ticks):
    return Sequence()


# %% 02.4: while it is 0
# why:  RepeatWhileFalse goes on while left is 0, and here it is not.
# next: use RepeatWhileTrue.
from ipu_teach.program import RepeatWhileFalse


def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileFalse(Sequence(), left, tick)


# %% 02.4: takes away before it looks
# why:  one tick is missing each time.
# next: count in every round, the last one too.
def countdown(graph, left, ticks):
    take, tick = Sequence(), Sequence()
    popops.sub_in_place(graph, left, 1, take)
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileTrue(take, left, tick)


# %% 02.4: counts twice
# why:  each round counts twice.
# next: add 1 to ticks once in a round.
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 2, tick)
    return RepeatWhileTrue(Sequence(), left, tick)


# %% 02.4: a fixed Repeat
# not yet: was fixed when the program was written
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return Repeat(10, tick)


# %% 02.4: no return
# clause: return a program
# not yet: is there a `return`?
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)


# %% 02.4: looks in Python
# clause: only the machine sees it
# not yet: while left: why: Python would look once
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    while left:
        tick = Sequence(tick, tick)
    return tick


# %% 02.4: compares in Python
# not yet: if left != 0: why: Python would look once
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    if left != 0:
        return Repeat(10, tick)


# %% 02.4: as many Ifs as it takes
# clause: compiled once and then tried with several numbers
# not yet: repeats for as long as the device says
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    from ipu_teach.program import If as Only

    return Repeat(1000, Only(left, tick))


# %% 02.4: Ifs for small numbers
# not yet: the smaller ones are right
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    from ipu_teach.program import If as Only

    return Sequence([Only(left, tick) for _ in range(20)])


# %% 02.4: takes away in Python
# error in the answer: popops.sub_in_place(graph, tensor, other, program)
def countdown(graph, left, ticks):
    left -= 1
    return RepeatWhileTrue(Sequence(), left, Sequence())


# %% 02.4: two programs are enough
# error in the answer: call it as RepeatWhileTrue(condition, predicate, body), in this order
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileTrue(left, tick)


# %% 02.4: a call without its program
# error in the answer: TypeError: popops.sub_in_place() was not given
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1)
    popops.add_in_place(graph, ticks, 1)
    return RepeatWhileTrue(Sequence(), left, tick)


# %% 02.4: taken away before each look
# why:  this subtracts 1 before each look, so that 0 becomes -1, and the loop never ends.
# next: let the condition be an empty Sequence(), and do both in the body.
def countdown(graph, left, ticks):
    condition = Sequence()
    popops.sub_in_place(graph, left, 1, condition)
    popops.add_in_place(graph, ticks, 1, condition)
    return RepeatWhileTrue(condition, left, Sequence())


# %% 02.5: always mapped
# clause: With `mapped=False` it must end in the first error
# not yet: source has no tile, and the machine
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: always written
# clause: with `written=False` in the second
# not yet: nothing was written into source, and
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    graph.set_initial_value(source, values)
    if mapped:
        graph.set_tile_mapping(source, 0)
    return Copy(source, target)


# %% 02.5: never mapped
# not yet: another error came
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: never written
# clause: with both true it must work
# not yet: with both done, neither error may come
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if mapped:
        graph.set_tile_mapping(source, 0)
    return Copy(source, target)


# %% 02.5: mapped as a whole or not at all
# clause: If not mapped, source has no tile
# not yet: target has no tile, either
def copying(graph, source, target, values, mapped, written):
    if mapped:
        for tensor in (source, target):
            graph.set_tile_mapping(tensor, 0)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: copies backwards
# clause: copies `source` into `target`
# not yet: the order is turned round
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source.reverse(), target)


# %% 02.5: raises the errors itself
# not yet: comes from your function itself
def copying(graph, source, target, values, mapped, written):
    from ipu_teach.errors import InvalidTileMappingError, UninitialisedReadError

    if not mapped:
        raise InvalidTileMappingError("source is on no tile")
    if not written:
        raise UninitialisedReadError("nothing was written into source")
    graph.set_tile_mapping(target, 1)
    graph.set_tile_mapping(source, 0)
    graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: the wrong way round
# not yet: reads element [0] of 'target'
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(target, values)
    return Copy(target, source)


# %% 02.5: the values put in place
# clause: if not written, nothing is in it
# not yet: and not because of a copy
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if not (mapped and written):
        return Copying(source, target, graph, values, written)
    graph.set_initial_value(target, values)
    graph.set_initial_value(source, values)
    return Copy(target, source)


def Copying(source, target, graph, values, written):
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: the values copied past source
# not yet: and not because of a copy
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if not (mapped and written):
        return Copying(source, target, graph, values, written)
    graph.set_initial_value(source, values)
    held = graph.add_constant(FLOAT, 7, values, "held")
    graph.set_tile_mapping(held, 1)
    return Copy(held, target)


def Copying(source, target, graph, values, written):
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: target left unmapped
# clause: map target
# not yet: came: InvalidTileMappingError: The variable 'target'
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(source, 0)
    if mapped:
        graph.set_tile_mapping(target, 1)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: zeros for the values
# clause: source holds `values`
# not yet: source was filled with 0 in place of
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(source, 0)
    return Copy(source, target)


# %% 02.5: no copy without a tile
# not yet: return Copy(source, target) in any case
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 0)
    program = Sequence()
    if mapped:
        graph.set_tile_mapping(source, 0)
        program.add(Copy(source, target))
    if written:
        graph.set_initial_value(source, values)
    return program


# %% 02.w1: without the last
# clause: The last may be short.
# why:  the last, short grain was left out.
# next: round up: -(-count // grain).
def grains_of(count, grain):
    return count // grain


# %% 02.w1: one more in any case
# why:  where it comes out even, there is no short grain: 8 elements are 2 grains of 4.
# next: round up only what does not come out even.
def grains_of(count, grain):
    return count // grain + 1


# %% 02.w1: parts of a grain
# clause: How many grains
# why:  a part of a grain came out. A short one is a grain all the same.
# next: round up: -(-count // grain).
def grains_of(count, grain):
    return count / grain


# %% 02.w1: rounded to the nearest
# why:  it was rounded to the nearest, and a short grain is a grain all the same.
# next: round up: -(-count // grain).
def grains_of(count, grain):
    return round(count / grain)


# %% 02.w1: the rest
# why:  this is how many elements the short grain has.
# next: divide, and round up.
def grains_of(count, grain):
    return count % grain


# %% 02.w2: the row of b
# clause: from which b[i, j] gets its number
# why:  this is where row i of a lies. b[i, j] gets a[j, i], which is in row j.
# next: look up the row of a that b[i, j] gets its number from: j.
def source_tile(rows, i, j):
    return rows[i]


# %% 02.w2: the row itself
# why:  this is the number of the row, and not the tile on which it lies.
# next: look it up in rows.
def source_tile(rows, i, j):
    return j


# %% 02.w2: both added
# why:  the tiles of two rows were added, which is the number of no tile in particular.
# next: look up one row alone: b[i, j] gets a[j, i], of row j.
def source_tile(rows, i, j):
    return rows[i] + rows[j]


# %% 02.w3: once
# why:  it is done once, and not again and again.
# next: put it into RepeatWhileTrue, as its body.
def to_zero(graph, left):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    return body


# %% 02.w3: three times
# not yet: it is done 3 times, whatever left holds
def to_zero(graph, left):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    return Repeat(3, body)


# %% 02.w3: counts up
# clause: takes 1 from it
# why:  it adds 1, and goes away from 0.
# next: popops.sub_in_place(graph, left, 1, body).
def to_zero(graph, left):
    body = Sequence()
    popops.add_in_place(graph, left, 1, body)
    return RepeatWhileTrue(Sequence(), left, body)


# %% 02.w3: while it is 0
# clause: until it is 0
# why:  this goes on while left is 0, and stops at any other number.
# next: RepeatWhileTrue(Sequence(), left, body).
from ipu_teach.program import RepeatWhileFalse


def to_zero(graph, left):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    return RepeatWhileFalse(Sequence(), left, body)


# %% 02.w3: a large number of times
# clause: however large it is
# not yet: it is done 1000 times, whatever left holds
def to_zero(graph, left):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    return Repeat(1000, body)


# %% 02.w3: takes away before it looks
# why:  1 is taken away before each look, so that 0 becomes -1, and it never stops.
# next: let the condition be an empty Sequence(), and take away in the body.
def to_zero(graph, left):
    condition = Sequence()
    popops.sub_in_place(graph, left, 1, condition)
    return RepeatWhileTrue(condition, left, Sequence())


# %% 02.w3: two taken away
# why:  a round takes 2 away, and from 3 it passes 0 by.
# next: append popops.sub_in_place(graph, left, 1, body) once.
def to_zero(graph, left):
    body = Sequence()
    for _ in range(2):
        popops.sub_in_place(graph, left, 1, body)
    return RepeatWhileTrue(Sequence(), left, body)
