# %% given
"""Known mistakes of lesson 02; what this file is: mistakes.py."""

from ipu_teach import FLOAT
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, If, Repeat, RepeatWhileFalse, RepeatWhileTrue, Sequence


# %% 02.1: ignores the grain
# clause: All elements of a grain must be on one tile
# not yet: tiles have equal numbers of elements
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    for t in range(tiles):
        b, e = t * n // tiles, (t + 1) * n // tiles
        if b < e:
            graph.set_tile_mapping(flat[b:e], t)


# %% 02.1: leaves a tail
# not yet: the last elements are not mapped to any tile
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    each = max(n // grain // tiles, 1) * grain
    for t in range(tiles):
        b, e = t * each, min((t + 1) * each, n // grain * grain or n)
        if b < e:
            graph.set_tile_mapping(flat[b:e], t)


# %% 02.1: rounds up
# clause: the numbers of grains on any two tiles differ by at most one
# not yet: rounded up, so the first tiles use up the grains
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    each = -(-n // grain // tiles) * grain or grain
    for t in range(tiles):
        b, e = t * each, min((t + 1) * each, n)
        if b < e:
            graph.set_tile_mapping(flat[b:e], t)


# %% 02.1: all on one tile
# not yet: all elements are on one tile
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    graph.set_tile_mapping(flat, 0)


# %% 02.1: deals the grains out in turn
# clause: Keep the elements in the order of
# not yet: the elements are not in order
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    for g in range(-(-n // grain)):
        graph.set_tile_mapping(flat[g * grain : min((g + 1) * grain, n)], g % tiles)


# %% 02.1: maps nothing
# not yet: 101 elements not mapped to any tile
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    len(flat)


# %% 02.1: one tile too many
# error in the answer: There is no tile 13.
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    graph.set_tile_mapping(flat, tiles)


# %% 02.1: the short grain first
# clause: only the last grain may have fewer elements than `grain`
# not yet: tile 0 holds elements 0 to 4
def map_linearly(graph, tensor, grain):
    n, tiles, flat = tensor.num_elements, graph.target.num_tiles, tensor.flatten()
    grains, short = -(-n // grain), -n % grain
    for t in range(tiles):
        b, e = (max(g * grain - short, 0) for g in (t * grains // tiles, (t + 1) * grains // tiles))
        graph.set_tile_mapping(flat[b:e], t)


# %% 02.1: rows for elements
# clause: Keep the elements in the order of `tensor.flatten()`
# why:  `tensor` has two dimensions, so tensor[a:b] selects rows, not elements.
# next: map tensor.flatten()[a:b].
def map_linearly(graph, tensor, grain):
    tiles, count = graph.target.num_tiles, tensor.num_elements
    grains = -(-count // grain)
    for tile in range(tiles):
        begin, end = (grain * (t * grains // tiles) for t in (tile, tile + 1))
        if begin < end:
            graph.set_tile_mapping(tensor[begin : min(end, count)], tile)


# %% 02.1: fails for a single element
# clause: a tensor of any shape
# not yet: Special in this case: there is one element
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
# why:  the program contains a single iteration and does not repeat it, so one engine.run()
#   processes one number.
# next: let the device run the program of one iteration `count` times.
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
# why:  the results are the incoming numbers themselves, because the program sets the total to 0 in
#   every iteration.
# next: write the 0 only once, before the first iteration.
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
# why:  Repeat runs more iterations than there are numbers.
# next: let the loop run once for each number.
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
# why:  only the last sum is sent, because the Copy into `sums` is after the loop instead of inside
#   it.
# next: send the total in every iteration.
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    return Sequence(Repeat(count, one), Copy(total, sums))


# %% 02.2: nothing is sent
# clause: sends the sum so far to the stream `sums`
# why:  the program sends nothing: it has no Copy into the stream `sums`.
# next: end the body of the loop with Copy(total, sums).
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    return Repeat(count, one)


# %% 02.2: the number is sent
# clause: it sends the sum of all numbers so far
# why:  the results are the incoming numbers themselves, without the earlier numbers.
# next: change the total with popops.add_in_place, and send the total.
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence(Copy(numbers, number))
    popops.add_in_place(graph, total, number, one)
    one.append(Copy(number, sums))
    return Repeat(count, one)


# %% 02.2: fetched once
# why:  every iteration adds the same number, because the program fetches a number only once.
# next: fetch a number in every iteration.
def running_sum(graph, numbers, sums, count):
    number, total = (graph.add_variable(FLOAT, (1,), name) for name in ("number", "total"))
    for variable in (number, total):
        graph.set_tile_mapping(variable, 0)
    graph.set_initial_value(total, 0)
    one = Sequence()
    popops.add_in_place(graph, total, number, one)
    one.append(Copy(total, sums))
    return Sequence(Copy(numbers, number), Repeat(count, one))


# %% 02.2: sent too early
# why:  each sum is sent one iteration too late, because the program sends the total before it adds
#   the number.
# next: put Copy(total, sums) after the addition.
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
# why:  the total stays 0: no operation of the program changes it.
# next: let popops.add_in_place change the total: it changes the first of its two tensors.
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
# why:  the sums are right, but the last one is missing: the loop has one iteration too few.
# next: let the loop run once for each number.
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
# why:  the program subtracts the numbers instead of adding them.
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
# why:  every sum is twice as large as it should be, because the program adds each number twice.
# next: append the addition to the body only once.
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
# why:  only the last sum is sent: a Python loop appends the additions, and the Copy into `sums` is
#   after this loop.
# next: write the program of one iteration, which also sends the total, and let the device repeat
#   it.
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
# clause: must have the same size for any `count`
# not yet: a Python loop appends every iteration
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
# clause: A total that starts at 0
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
# not yet: rounding loses too many digits.
#   next: add up and divide in FLOAT
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
# not yet: print the tensor that you send, with PrintTensor directly before its Copy
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
# why:  `b` has the same tiles as `a`, but in the element order of `b`. The target of row i of `a`
#   is column i of `b`.
# next: give the mapping to b.transpose(), which has the shape of `a`.
def place_beside(graph, a, b):
    graph.set_tile_mapping(b, graph.get_tile_mapping(a))


# %% 02.3: an interval for a row
# clause: somebody else chose the tiles of its rows
# not yet: neighbouring rows on the same tile share one interval
def place_beside(graph, a, b):
    for tile, intervals in enumerate(graph.get_tile_mapping(a)):
        for begin, _ in intervals:
            graph.set_tile_mapping(b[:, begin // a.shape[1]], tile)


# %% 02.3: linear
# clause: sends nothing
# why:  this puts column i of `b` on tile i, as if row i of `a` were on tile i. But row i of `a` can
#   be on any tile.
# next: use graph.get_tile_mapping(a): it returns the tiles of `a`.
def place_beside(graph, a, b):
    for i in range(b.num_elements):
        graph.set_tile_mapping(b.flatten()[i], i % 13)


# %% 02.3: b on one tile
# clause: the budget is 0
# not yet: all of `b` is on one tile
def place_beside(graph, a, b):
    graph.set_tile_mapping(b, 0)


# %% 02.3: a moved
# clause: Do the same Copy
# not yet: your function changed the mapping of `a`
def place_beside(graph, a, b):
    graph.set_tile_mapping(a, 0)
    graph.set_tile_mapping(b, 0)


# %% 02.3: half of b
# clause: You map all of `b`.
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
# error in the answer: The variable 'b' is not mapped to any tile
def place_beside(graph, a, b):
    b.transpose()


# %% 02.3: a row of b for each row of a
# why:  this takes row i of `b` for row i of `a`, and `b` has no row with that number. Row i of `a`
#   is copied into column i of `b`.
# next: map the columns: b[:, i] goes to the tile of a[i].
def place_beside(graph, a, b):
    for i in range(len(a)):
        for tile, pieces in enumerate(graph.get_tile_mapping(a[i])):
            if pieces:
                graph.set_tile_mapping(b[i], tile)


# %% 02.3: rows of b beside rows of a
# why:  row i of `b` is on the tile of row i of `a`. But row i of `a` is copied into column i of
#   `b`.
# next: map the columns of `b`: b[:, i] must be on the tile of a[i].
def place_beside(graph, a, b):
    mapping = [graph.get_tile_mapping(a[i]) for i in range(len(a))]
    tiles = [next(tile for tile, pieces in enumerate(row) if pieces) for row in mapping]
    for i in range(len(b)):
        graph.set_tile_mapping(b[i], tiles[i % len(tiles)])


# %% 02.4: looks too late
# clause: until `left` is 0
# why:  the program counts once before it looks at `left` for the first time, so a countdown from 0
#   is wrong.
# next: put the subtraction and the addition into the body: the loop runs it only after it has
#   looked at `left`.
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return Sequence(tick, RepeatWhileTrue(Sequence(), left, tick))


# %% 02.4: endless
# why:  the loop looks at a number that never becomes 0.
# next: use `left` as the predicate, and subtract 1 from `left` in every iteration.
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileTrue(Sequence(), left, tick)


# %% 02.4: counts up
# clause: subtracts 1 from `left`
# why:  RepeatWhileFalse continues while `left` is 0, but `left` is not 0 at the start.
# next: use RepeatWhileTrue: it continues while `left` is not 0.
from ipu_teach.program import RepeatWhileFalse


def countdown(graph, left, ticks):
    tick = Sequence()
    popops.add_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileFalse(Sequence(), left, tick)


# %% 02.4: nobody counts
# clause: adds 1 to `ticks`
# why:  `left` becomes 0, but `ticks` stays 0.
# next: append popops.add_in_place(graph, ticks, 1, body) to the body of the loop.
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    return RepeatWhileTrue(Sequence(), left, tick)


# %% 02.4: counts one more
# clause: counts the iterations in
# why:  `ticks` is one too high in each run.
# next: add 1 to `ticks` only in the body of the loop.
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    more = Sequence()
    popops.add_in_place(graph, ticks, 1, more)
    return Sequence(RepeatWhileTrue(Sequence(), left, tick), more)


# %% 02.4: nothing is done
# why:  `left` and `ticks` do not change: the program never runs the subtraction and the addition.
# next: put both operations into the body of the loop.
def countdown(graph, left, ticks):
    return Sequence()


# %% 02.4: while it is 0
# why:  RepeatWhileFalse continues while `left` is 0, but `left` is not 0 at the start.
# next: use RepeatWhileTrue: it continues while `left` is not 0.
from ipu_teach.program import RepeatWhileFalse


def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileFalse(Sequence(), left, tick)


# %% 02.4: takes away before it looks
# why:  `ticks` is one too low in each run: the last iteration is not counted.
# next: subtract from `left` and add to `ticks` in the same body, so that every iteration is
#   counted.
def countdown(graph, left, ticks):
    take, tick = Sequence(), Sequence()
    popops.sub_in_place(graph, left, 1, take)
    popops.add_in_place(graph, ticks, 1, tick)
    return RepeatWhileTrue(take, left, tick)


# %% 02.4: adds left
# why:  each iteration adds `left` to `ticks` instead of 1.
# next: add 1 to `ticks`.
def countdown(graph, left, ticks):
    one = Sequence()
    popops.add_in_place(graph, ticks, left, one)
    popops.sub_in_place(graph, left, 1, one)
    return RepeatWhileTrue(Sequence(), left, one)


# %% 02.4: adds what is left after the subtraction
# why:  each iteration adds `left` to `ticks` instead of 1.
# next: add 1 to `ticks`.
def countdown(graph, left, ticks):
    one = Sequence()
    popops.sub_in_place(graph, left, 1, one)
    popops.add_in_place(graph, ticks, left, one)
    return RepeatWhileTrue(Sequence(), left, one)


# %% 02.4: counts twice
# why:  each iteration adds 2 to `ticks` instead of 1.
# next: append the addition of 1 to `ticks` only once.
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 2, tick)
    return RepeatWhileTrue(Sequence(), left, tick)


# %% 02.4: a fixed Repeat
# not yet: the number of iterations is fixed
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


# %% 02.4: Repeat with the tensor
# not yet: Repeat needs the number of iterations while you write the program
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    return Repeat(left, tick)


# %% 02.4: looks in Python
# not yet: while left: why: Python would look at `left` only once
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    while left:
        tick = Sequence(tick, tick)
    return tick


# %% 02.4: compares in Python
# not yet: if left != 0: why: Python would look at `left` only once
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    if left != 0:
        return Repeat(10, tick)


# %% 02.4: as many Ifs as it takes
# clause: compiled once, and then runs with several numbers
# not yet: ends by a decision of the device
def countdown(graph, left, ticks):
    tick = Sequence()
    popops.sub_in_place(graph, left, 1, tick)
    popops.add_in_place(graph, ticks, 1, tick)
    from ipu_teach.program import If as Only

    return Repeat(1000, Only(left, tick))


# %% 02.4: Ifs for small numbers
# not yet: the smaller countdowns are right
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
# why:  the program subtracts 1 from `left` before it looks at `left`. A countdown from 0 then sees
#   -1, and never ends.
# next: move both operations to the argument that runs only after the look at `left`.
def countdown(graph, left, ticks):
    condition = Sequence()
    popops.sub_in_place(graph, left, 1, condition)
    popops.add_in_place(graph, ticks, 1, condition)
    return RepeatWhileTrue(condition, left, Sequence())


# %% 02.5: always mapped
# clause: With `mapped=False` the first error must occur
# not yet: in this case the error must occur
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: always written
# clause: with `written=False` the second one
# not yet: in this case the error must occur
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    graph.set_initial_value(source, values)
    if mapped:
        graph.set_tile_mapping(source, 0)
    return Copy(source, target)


# %% 02.5: never mapped
# not yet: a different error occurred
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: never written
# clause: If both are true, the program must work
# not yet: no error may occur
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if mapped:
        graph.set_tile_mapping(source, 0)
    return Copy(source, target)


# %% 02.5: mapped as a whole or not at all
# clause: If not mapped, source is on no tile
# not yet: target is not mapped to any tile, either
def copying(graph, source, target, values, mapped, written):
    if mapped:
        for tensor in (source, target):
            graph.set_tile_mapping(tensor, 0)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: copies backwards
# clause: copies `source` into `target`
# not yet: the elements are in reverse order
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source.reverse(), target)


# %% 02.5: raises the errors itself
# not yet: occurs in your function itself
def copying(graph, source, target, values, mapped, written):
    from ipu_teach.errors import InvalidTileMappingError, UninitialisedReadError

    if not mapped:
        raise InvalidTileMappingError("source is not mapped to any tile")
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
# clause: if not written, nothing is written into source
# not yet: but not from a copy of `source`
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
# not yet: but not from a copy of `source`
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
# clause: If both are true, the program must work
# not yet: came: InvalidTileMappingError: The variable 'target'
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(source, 0)
    if mapped:
        graph.set_tile_mapping(target, 1)
    if written:
        graph.set_initial_value(source, values)
    return Copy(source, target)


# %% 02.5: zeros for the values
# clause: source has the values `values`
# not yet: source is filled with 0 instead of
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 1)
    if mapped:
        graph.set_tile_mapping(source, 0)
    if written:
        graph.set_initial_value(source, 0)
    return Copy(source, target)


# %% 02.5: zeros if not written
# clause: if not written, nothing is written into source
# not yet: nothing may be written into source, but it is filled with 0
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 0)
    if mapped:
        graph.set_tile_mapping(source, 0)
    graph.set_initial_value(source, values if written else [0] * len(values))
    return Copy(source, target)


# %% 02.5: no copy without a tile
# not yet: always return Copy(source, target)
def copying(graph, source, target, values, mapped, written):
    graph.set_tile_mapping(target, 0)
    program = Sequence()
    if mapped:
        graph.set_tile_mapping(source, 0)
        program.add(Copy(source, target))
    if written:
        graph.set_initial_value(source, values)
    return program


# %% 02.w1: each remaining element
# why:  this counts each remaining element as a grain. Together they are one grain, the last one.
# next: round the quotient up.
def grains_of(count, grain):
    return count // grain + count % grain


# %% 02.w1: without the last
# clause: The last grain may have fewer elements.
# why:  this does not count the last grain if it has fewer elements than the others.
# next: round the quotient up.
def grains_of(count, grain):
    return count // grain


# %% 02.w1: one more in any case
# why:  if `count` is a multiple of `grain`, this counts one grain too many: 8 elements are 2 grains
#   of 4.
# next: add 1 only if there is a remainder.
def grains_of(count, grain):
    return count // grain + 1


# %% 02.w1: parts of a grain
# clause: How many grains
# why:  the result is not a whole number. A grain with fewer elements counts as one grain.
# next: round the quotient up.
def grains_of(count, grain):
    return count / grain


# %% 02.w1: rounded to the nearest
# why:  this rounds to the nearest whole number. But a last grain with few elements counts as one
#   grain, too.
# next: round the quotient up.
def grains_of(count, grain):
    return round(count / grain)


# %% 02.w1: the rest
# why:  this is the number of elements in the last grain. The exercise asks for the number of
#   grains.
# next: divide `count` by `grain`, and round up.
def grains_of(count, grain):
    return count % grain


# %% 02.w1: a half added before round()
# clause: How many grains
# why:  0.5 was added before round(). Where no grain is short, the sum is halfway between two whole
#   numbers, and round() takes the even one of the two.
# next: round up without floats, as in 01.w1.
def grains_of(count, grain):
    return round(count / grain + 0.5)


# %% 02.w1: nearly one added
# why:  0.9 was added, and the rest cut off. That is too little for a short grain with less than a
#   tenth of its elements.
# next: round up without floats, as in 01.w1.
def grains_of(count, grain):
    return int(count / grain + 0.9)


# %% 02.w2: the column
# why:  i is the column of this element in `a`. The exercise asks for a tile.
# next: find the row of `a` from which b[i, j] gets its number, and look up the tile of that row.
def source_tile(rows, i, j):
    return i


# %% 02.w2: the row of b
# clause: from which b[i, j] gets its number
# why:  this is the tile of row i of `a`. But b[i, j] gets a[j, i], which is in row j.
# next: look up the tile of the row from which the number comes.
def source_tile(rows, i, j):
    return rows[i]


# %% 02.w2: the row itself
# why:  this is the number of the row. The exercise asks for the tile of this row.
# next: look up the row in the list `rows`.
def source_tile(rows, i, j):
    return j


# %% 02.w2: both added
# why:  this adds the tiles of two rows, and the sum is not the tile of either of them.
# next: look up a single row: b[i, j] gets a[j, i], which is in row j.
def source_tile(rows, i, j):
    return rows[i] + rows[j]


# %% 02.w3: without a look
# clause: If `left` is 0, it must stay 0
# why:  the program always subtracts 1, so 0 becomes -1.
# next: use the subtraction as the first program of an If, whose predicate is `left`.
def one_less(graph, left):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    return body


# %% 02.w3: exchanged programs
# clause: unless left is 0
# why:  the two programs of If are exchanged: this subtracts 1 only from 0.
# next: put the subtraction first: If runs the first program if the predicate is not 0.
def one_less(graph, left):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    return If(left, Sequence(), body)


# %% 02.w3: until it is 0
# clause: Write a program that subtracts 1 from `left` **once**
# why:  the program makes `left` 0, whatever it was, but it should subtract 1 only once.
# next: use If, which looks at `left` once, and subtract 1 in its first program.
def one_less(graph, left):
    body = Sequence()
    popops.sub_in_place(graph, left, 1, body)
    return RepeatWhileTrue(Sequence(), left, body)


# %% 02.w3: looks in Python
# clause: But the host writes the number later, and only the machine sees it
# not yet: if left: why: Python would look at `left` only once
def one_less(graph, left):
    body = Sequence()
    if left:
        popops.sub_in_place(graph, left, 1, body)
    return body


# %% 02.w3: repeats as often as left says
# not yet: for _ in range(left): why: Python would look at `left` only once
def one_less(graph, left):
    body = Sequence()
    for _ in range(left):
        popops.sub_in_place(graph, left, 1, body)
    return body


# %% 02.w3: adds
# clause: subtracts 1 from
# why:  the program adds 1 instead of subtracting 1.
# next: use popops.sub_in_place(graph, left, 1, body).
def one_less(graph, left):
    body = Sequence()
    popops.add_in_place(graph, left, 1, body)
    return If(left, body, Sequence())


# %% 02.w3: the difference is not stored
# why:  `left` does not change: popops.sub stores the difference in another tensor.
# next: use popops.sub_in_place, which stores it in `left`.
def one_less(graph, left):
    body = Sequence()
    popops.sub(graph, left, 1, body)
    return If(left, body, Sequence())


# %% 02.w3: two taken away
# why:  the program subtracts 2.
# next: append popops.sub_in_place(graph, left, 1, body) only once.
def one_less(graph, left):
    body = Sequence()
    for _ in range(2):
        popops.sub_in_place(graph, left, 1, body)
    return If(left, body, Sequence())
