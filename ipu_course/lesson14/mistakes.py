# %% given
"""Known mistakes of lesson 14; what this file is: mistakes.py."""

from ipu_teach import FLOAT, INT, Input, Output, Vector, Vertex, concat
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Repeat, RepeatWhileTrue, Sequence


class Mean(Vertex):
    """Each number of a block becomes the mean of its four neighbours."""

    around: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        here = self.around
        above, below = here[:-2, 1:-1], here[2:, 1:-1]
        left, right = here[1:-1, :-2], here[1:-1, 2:]
        self.out = (left + right + above + below) / 4


# %% 14.w1: without the corners
# clause: Count the corners, although no mean needs them.
# why:  this leaves out the four corners, but the slice includes them.
# next: count all numbers of the larger slice, and subtract those of the block.
def halo(rows, columns):
    return 2 * rows + 2 * columns


# %% 14.w1: the whole slice
# clause: on **other tiles**
# why:  this is the number of all elements of the slice, but the block's own elements are already on
#   the tile.
# next: subtract rows * columns.
def halo(rows, columns):
    return (rows + 2) * (columns + 2)


# %% 14.w1: larger by one in all
# why:  this slice has one more row and one more column, but it should have one more on each side.
# next: use rows + 2 and columns + 2.
def halo(rows, columns):
    return (rows + 1) * (columns + 1) - rows * columns


# %% 14.1: in place
# error in the answer: RaceError
def heat(graph, plate, other, blocks, pairs):
    compute_set = graph.add_compute_set("step")
    for tile, (top, bottom, left, right) in enumerate(blocks):
        around = plate[top - 1 : bottom + 1, left - 1 : right + 1]
        vertex = graph.add_vertex(
            compute_set, Mean, around=around, out=plate[top:bottom, left:right]
        )
        graph.set_tile_mapping(vertex, tile)
    return Repeat(2 * pairs, Execute(compute_set))


# %% 14.1: other without a rim
# clause: including its edge
# error in the answer: UninitialisedReadError
def heat(graph, plate, other, blocks, pairs):
    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, tile)
        return Execute(compute_set)

    return Repeat(pairs, Sequence(step(plate, other), step(other, plate)))


# %% 14.1: copied back in each step
# clause: steps to other and back
# not yet: the Copy in the loop moves the whole plate in each iteration
def heat(graph, plate, other, blocks, pairs):
    compute_set = graph.add_compute_set("step")
    for tile, (top, bottom, left, right) in enumerate(blocks):
        around = plate[top - 1 : bottom + 1, left - 1 : right + 1]
        out = other[top:bottom, left:right]
        vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
        graph.set_tile_mapping(vertex, tile)
    step = Sequence(Execute(compute_set), Copy(other, plate))
    return Sequence(Copy(plate, other), Repeat(2 * pairs, step))


# %% 14.1: the way there alone
# clause: starts and ends in `plate`
# why:  each step reads `plate` and writes `other`, so `plate` never changes.
# next: let the second step of an iteration read `other` and write `plate`.
def heat(graph, plate, other, blocks, pairs):
    compute_set = graph.add_compute_set("step")
    for tile, (top, bottom, left, right) in enumerate(blocks):
        around = plate[top - 1 : bottom + 1, left - 1 : right + 1]
        out = other[top:bottom, left:right]
        vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
        graph.set_tile_mapping(vertex, tile)
    return Sequence(Copy(plate, other), Repeat(2 * pairs, Execute(compute_set)))


# %% 14.1: twice as many steps
# clause: `2 * pairs` steps
# why:  these are 4 * pairs steps, since each iteration has two steps.
# next: use Repeat(pairs, …) instead of Repeat(2 * pairs, …).
def heat(graph, plate, other, blocks, pairs):
    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, tile)
        return Execute(compute_set)

    forth, back = step(plate, other), step(other, plate)
    return Sequence(Copy(plate, other), Repeat(2 * pairs, Sequence(forth, back)))


# %% 14.1: a step too many
# not yet: some steps compute results that no step reads
def heat(graph, plate, other, blocks, pairs):
    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, tile)
        return Execute(compute_set)

    forth, back = step(plate, other), step(other, plate)
    return Sequence(Copy(plate, other), forth, Repeat(pairs, Sequence(back, forth)))


# %% 14.1: one round for all
# clause: `pairs` times
# why:  the program has two steps, but it should have 2 * pairs.
# next: put both steps into a Repeat(pairs, …).
def heat(graph, plate, other, blocks, pairs):
    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, tile)
        return Execute(compute_set)

    return Sequence(Copy(plate, other), step(plate, other), step(other, plate))


# %% 14.1: the halo on one side
# why:  the slice begins at the block itself, so the halo above and on the left is missing.
# next: use source[top - 1 : bottom + 1, left - 1 : right + 1].
def heat(graph, plate, other, blocks, pairs):
    rows, columns = plate.shape

    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            first, begin = min(top, rows - 2 - bottom + top), min(left, columns - 2 - right + left)
            around = source[first : first + bottom - top + 2, begin : begin + right - left + 2]
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, tile)
        return Execute(compute_set)

    forth, back = step(plate, other), step(other, plate)
    return Sequence(Copy(plate, other), Repeat(pairs, Sequence(forth, back)))


# %% 14.1: all blocks as large as the first
# clause: blocks need not have the same size
# why:  all blocks get the size of the first, so some numbers of a larger block are never computed.
# next: use `top`, `bottom`, `left` and `right` of each block.
def heat(graph, plate, other, blocks, pairs):
    high, wide = blocks[0][1] - blocks[0][0], blocks[0][3] - blocks[0][2]

    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            bottom, right = min(bottom, top + high), min(right, left + wide)
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, tile)
        return Execute(compute_set)

    forth, back = step(plate, other), step(other, plate)
    return Sequence(Copy(plate, other), Repeat(pairs, Sequence(forth, back)))


# %% 14.1: blocks that know nothing of each other
# why:  each block reads its halo from the start values, so it never gets the results of its
#   neighbours.
# next: let each step read the slice with its halo from the buffer that the step before has written.
def heat(graph, plate, other, blocks, pairs):
    first, third = (graph.add_variable(FLOAT, plate.shape, name) for name in ("first", "third"))
    copies = Sequence()
    for tensor in (first, third):
        graph.set_tile_mapping(tensor, 0)
        copies.add(Copy(plate, tensor))
    forth, back = graph.add_compute_set("forth"), graph.add_compute_set("back")
    for tile, (top, bottom, left, right) in enumerate(blocks):
        for compute_set, source, into in ((forth, plate, other), (back, other, plate)):
            ring = first.slice((top - 1, left - 1), (bottom + 1, right + 1))
            middle = source[top:bottom, left:right]
            level = concat([ring[1:-1, :1], middle, ring[1:-1, -1:]], 1)
            around = concat([ring[:1], level, ring[-1:]], 0)
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, tile)
    return Sequence(copies, Repeat(pairs, Sequence(Execute(forth), Execute(back))))


# %% 14.1: on the next tile
# clause: and is computed on that tile
# not yet: but a vertex on tile 1 writes it
def heat(graph, plate, other, blocks, pairs):
    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, (tile + 1) % len(blocks))
        return Execute(compute_set)

    forth, back = step(plate, other), step(other, plate)
    return Sequence(Copy(plate, other), Repeat(pairs, Sequence(forth, back)))


# %% 14.1: written down step by step
# clause: The size of the program must not depend on `pairs`
# not yet: a Python loop adds every step to the program
def heat(graph, plate, other, blocks, pairs):
    program = Sequence(Copy(plate, other))
    for _ in range(pairs):
        for source, into in ((plate, other), (other, plate)):
            compute_set = graph.add_compute_set("step")
            for tile, (top, bottom, left, right) in enumerate(blocks):
                around = source[top - 1 : bottom + 1, left - 1 : right + 1]
                out = into[top:bottom, left:right]
                vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
                graph.set_tile_mapping(vertex, tile)
            program.add(Execute(compute_set))
    return program


# %% 14.1: all on tile 0
# not yet: a block should be computed on the tile that has it
def heat(graph, plate, other, blocks, pairs):
    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for top, bottom, left, right in blocks:
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, 0)
        return Execute(compute_set)

    forth, back = step(plate, other), step(other, plate)
    return Sequence(Copy(plate, other), Repeat(pairs, Sequence(forth, back)))


# %% 14.1: other begins with zeros
# clause: including its edge
# why:  the edge of `other` is 0 here, but no step writes it: it has to be the edge of `plate`.
# next: copy `plate` to `other` once, before the loop.
def heat(graph, plate, other, blocks, pairs):
    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, tile)
        return Execute(compute_set)

    program = Sequence()
    popops.zero(graph, other, program)
    program.add(Repeat(pairs, Sequence(step(plate, other), step(other, plate))))
    return program


# %% 14.2: strips
# why:  these are strips of whole rows, one for each tile, which have long boundaries.
# next: try every `down` that divides tiles, and return the division in which the tiles fetch the
#   fewest numbers.
def cut(rows, columns, tiles):
    return tiles, 1


# %% 14.2: strips that stand
# why:  these are strips of whole columns, one for each tile, which have long boundaries.
# next: try every `down` that divides tiles, and return the division in which the tiles fetch the
#   fewest numbers.
def cut(rows, columns, tiles):
    return 1, tiles


# %% 14.2: strips along the longer side
# clause: more than the minimum is allowed
# why:  this tries only strips of whole rows or whole columns.
# next: try every `down` that divides tiles, and return the division in which the tiles fetch the
#   fewest numbers.
def cut(rows, columns, tiles):
    return (1, tiles) if columns >= tiles and columns > rows else (tiles, 1)


# %% 14.2: the squarest cut
# clause: all tiles together fetch as little as possible
# why:  `down` and `across` are as equal as possible, so on a wide plate the blocks are wide, too.
# next: try every `down` that divides tiles, and return the division in which the tiles fetch the
#   fewest numbers.
def cut(rows, columns, tiles):
    ways = [(d, tiles // d) for d in range(1, tiles + 1) if tiles % d == 0]
    ways = [(d, a) for d, a in ways if d <= rows and a <= columns]
    return min(ways, key=lambda way: abs(way[0] - way[1]))


# %% 14.2: turned round
# clause: `down` parts from top to bottom and `across` parts from left to right
# why:  `down` and `across` are swapped: `down` must divide the rows of the plate into parts.
# next: return (down, across), with the number of parts from top to bottom first.
def cut(rows, columns, tiles):
    ways = [(d, tiles // d) for d in range(1, tiles + 1) if tiles % d == 0]
    ways = [(d, a) for d, a in ways if d <= rows and a <= columns]
    down, across = min(ways, key=lambda way: (way[0] - 1) * columns + (way[1] - 1) * rows)
    return across, down


# %% 14.2: lines of the wrong length
# why:  this uses the number of rows as the length of the `down - 1` boundaries, but these go from
#   side to side.
# next: multiply `down - 1` by `columns`, and `across - 1` by `rows`.
def cut(rows, columns, tiles):
    ways = [(d, tiles // d) for d in range(1, tiles + 1) if tiles % d == 0]
    ways = [(d, a) for d, a in ways if d <= rows and a <= columns]
    return min(ways, key=lambda way: (way[0] - 1) * rows + (way[1] - 1) * columns)


# %% 14.2: the square root
# clause: **exactly** `tiles`
# why:  `down` is the square root of tiles, rounded, which need not divide tiles.
# next: try every `down` that divides tiles, and return the division in which the tiles fetch the
#   fewest numbers.
def cut(rows, columns, tiles):
    down = round(tiles**0.5)
    return down, tiles // down


# %% 14.2: without the rim
# clause: all tiles together fetch as little as possible
# why:  a boundary also goes through the rim of the plate at both ends, and this does not count
#   these numbers.
# next: add 4 for each boundary: 4 * (down - 1) + 4 * (across - 1).
def cut(rows, columns, tiles):
    def fetched(way):
        down, across = way
        return 2 * (down - 1) * columns + 2 * (across - 1) * rows + 4 * (down - 1) * (across - 1)

    ways = [(down, tiles // down) for down in range(1, tiles + 1) if not tiles % down]
    return min((way for way in ways if way[0] <= rows and way[1] <= columns), key=fetched)


# %% 14.w2: a row without hits not written
# clause: and 0 otherwise
# why:  a row without a neighbour at this level is never written.
# next: write 0 for each row before the loop over its neighbours.
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            for k in range(self.ends[p], self.ends[p + 1]):
                if self.distance[self.neighbours[k]] == self.level:
                    self.hit[p] = 1


# %% 14.w2: up to the level
# clause: -1 means that a vertex has none yet
# why:  this also counts neighbours at a smaller distance, or without a distance.
# next: compare with ==: distance[neighbours[k]] == level.
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            self.hit[p] = 0
            for k in range(self.ends[p], self.ends[p + 1]):
                if self.distance[self.neighbours[k]] <= self.level:
                    self.hit[p] = 1


# %% 14.w2: from the level on
# clause: exactly the distance `level`
# why:  this also counts neighbours at a larger distance.
# next: compare with ==: distance[neighbours[k]] == level.
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            self.hit[p] = 0
            for k in range(self.ends[p], self.ends[p + 1]):
                if self.distance[self.neighbours[k]] >= self.level:
                    self.hit[p] = 1


# %% 14.w2: the last row left out
# clause: write all of self.hit
# why:  the loop leaves out the last row, so its hit is always 0.
# next: loop over range(len(self.hit)).
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            self.hit[p] = 0
        for p in range(len(self.hit) - 1):
            for k in range(self.ends[p], self.ends[p + 1]):
                if self.distance[self.neighbours[k]] == self.level:
                    self.hit[p] = 1


# %% 14.w2: the last neighbour left out
# clause: row `p` is `neighbours[ends[p]:ends[p + 1]]`
# why:  the loop leaves out the last neighbour of each row.
# next: use range(self.ends[p], self.ends[p + 1]).
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            self.hit[p] = 0
            for k in range(self.ends[p], self.ends[p + 1] - 1):
                if self.distance[self.neighbours[k]] == self.level:
                    self.hit[p] = 1


# %% 14.w2: the number of the neighbour
# why:  this compares the number of the neighbour with `level`, instead of its distance.
# next: use self.distance[self.neighbours[k]].
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            self.hit[p] = 0
            for k in range(self.ends[p], self.ends[p + 1]):
                if self.neighbours[k] == self.level:
                    self.hit[p] = 1


# %% 14.w2: the last neighbour decides
# clause: Does one of the neighbours in the row have
# why:  a later neighbour overwrites the result of an earlier one, so only the last one counts.
# next: write 0 once, before the loop over the neighbours.
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            self.hit[p] = 0
            for k in range(self.ends[p], self.ends[p + 1]):
                if self.distance[self.neighbours[k]] == self.level:
                    self.hit[p] = 1
                else:
                    self.hit[p] = 0


# %% 14.w2: how many
# clause: Write 1 into `hit[p]` if so
# why:  this is the number of neighbours at this level, but the exercise asks whether there is one.
# next: write 1 instead of adding 1.
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            self.hit[p] = 0
            for k in range(self.ends[p], self.ends[p + 1]):
                if self.distance[self.neighbours[k]] == self.level:
                    self.hit[p] += 1


# %% 14.w2: from 0 up to the level
# why:  nearer neighbours count here, too: all with a distance from 0 up to the level.
# next: compare the distance with ==.
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            hit = 0
            for k in range(self.ends[p], self.ends[p + 1]):
                if 0 <= self.distance[self.neighbours[k]] <= self.level:
                    hit = 1
            self.hit[p] = hit


# %% 14.w2: from the start of neighbours
# why:  this subtracts ends[0], but `ends` has indices of `neighbours` already.
# next: use `ends` as it is.
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            self.hit[p] = 0
            for k in range(self.ends[p] - self.ends[0], self.ends[p + 1] - self.ends[0]):
                if self.distance[self.neighbours[k]] == self.level:
                    self.hit[p] = 1


# %% 14.w2: all neighbours, from the first
# clause: `ends[0]` may be larger than 0
# why:  this takes the neighbours before ends[0] as a part of row 0, but they are in no row.
# next: use range(self.ends[p], self.ends[p + 1]) for row p.
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        self.hit = 0
        row = 0
        for k in range(len(self.neighbours)):
            while k >= self.ends[row + 1]:
                row += 1
            if self.distance[self.neighbours[k]] == self.level:
                self.hit[row] = 1


# %% 14.3: two levels a wave
# why:  `level` grows by 2 after each wave, but the next wave is at distance 1 more.
# next: add 1 to `level` after each wave.
def search(graph, wave, level, grew):
    program, once, up = Sequence(), Sequence(wave), Sequence()
    popops.zero(graph, level, program)
    reached = popops.reduce(graph, grew, [0], once)
    popops.add_in_place(graph, level, 2, up)
    program.add(RepeatWhileTrue(once, reached, up))
    return program


# %% 14.3: the wave before the addition
# why:  the second wave also runs at level 0, since the loop runs the wave before it adds 1.
# next: put the addition before the wave in the body of the loop.
def search(graph, wave, level, grew):
    program, once, body = Sequence(), Sequence(), Sequence()
    popops.zero(graph, level, program)
    program.add(wave)
    reached = popops.reduce(graph, grew, [0], once)
    body.add(wave)
    popops.add_in_place(graph, level, 1, body)
    program.add(RepeatWhileTrue(once, reached, body))
    return program


# %% 14.3: ten waves
# clause: let the **device** repeat waves until a wave reaches no vertex
# why:  this always runs ten waves, which is too few for a long path.
# next: use RepeatWhileTrue with the sum of `grew` instead of ten iterations.
def search(graph, wave, level, grew):
    program, once = Sequence(), Sequence(wave)
    popops.zero(graph, level, program)
    popops.add_in_place(graph, level, 1, once)
    program.add(Repeat(10, once))
    return program


# %% 14.3: a hundred waves
# clause: and no longer
# why:  this always runs a hundred waves, although nearly all of them reach no vertex.
# next: use RepeatWhileTrue with the sum of `grew` instead of a hundred iterations.
def search(graph, wave, level, grew):
    program, once = Sequence(), Sequence(wave)
    popops.zero(graph, level, program)
    popops.add_in_place(graph, level, 1, once)
    program.add(Repeat(100, once))
    return program


# %% 14.3: level stays
# why:  `level` is always 0, so after the first wave no vertex has a neighbour at this level.
# next: append popops.add_in_place(graph, level, 1, …) to the body of the loop.
def search(graph, wave, level, grew):
    program, once = Sequence(), Sequence(wave)
    popops.zero(graph, level, program)
    reached = popops.reduce(graph, grew, [0], once)
    program.add(RepeatWhileTrue(once, reached, Sequence()))
    return program


# %% 14.3: level goes up first
# why:  `level` is 1 in the first wave, but no vertex is at distance 1 yet.
# next: add 1 after the first wave.
def search(graph, wave, level, grew):
    program, once = Sequence(), Sequence()
    popops.zero(graph, level, program)
    popops.add_in_place(graph, level, 1, once)
    once.add(wave)
    reached = popops.reduce(graph, grew, [0], once)
    program.add(RepeatWhileTrue(once, reached, Sequence()))
    return program


# %% 14.3: tile 0 alone
# why:  the loop tests only grew[0], so it ends when tile 0 reaches no vertex.
# next: test popops.reduce(graph, grew, [0], …), the sum over all tiles.
def search(graph, wave, level, grew):
    program, body = Sequence(), Sequence()
    popops.zero(graph, level, program)
    popops.add_in_place(graph, level, 1, body)
    program.add(RepeatWhileTrue(wave, grew[0], body))
    return program


# %% 14.3: until somebody is reached
# clause: a loop that the device ends
# why:  the loop continues while no vertex is reached, but it should continue while one is.
# next: pass the sum of `grew` to RepeatWhileTrue, which continues while it is not 0.
def search(graph, wave, level, grew):
    program, once, body = Sequence(), Sequence(wave), Sequence()
    popops.zero(graph, level, program)
    reached = popops.reduce(graph, grew, [0], once)
    nobody = popops.eq(graph, reached, 0, once)
    popops.add_in_place(graph, level, 1, body)
    program.add(RepeatWhileTrue(once, nobody, body))
    return program


# %% 14.3: while all tiles grow
# why:  the loop tests the smallest number of `grew`, so it ends when a single tile reaches no
#   vertex.
# next: test popops.reduce(graph, grew, [0], …), the sum over all tiles.
def search(graph, wave, level, grew):
    program, once, body = Sequence(), Sequence(wave), Sequence()
    popops.zero(graph, level, program)
    fewest = popops.reduce(graph, grew, [0], once, "MIN")
    popops.add_in_place(graph, level, 1, body)
    program.add(RepeatWhileTrue(once, fewest, body))
    return program


# %% 14.3: level is not set back
# clause: The program may be run again
# why:  `level` is set to 0 only once, so the second search starts at the last level of the first.
# next: set `level` to 0 in the program, before the loop: popops.zero.
def search(graph, wave, level, grew):
    graph.set_initial_value(level, 0)
    once, body = Sequence(wave), Sequence()
    reached = popops.reduce(graph, grew, [0], once)
    popops.add_in_place(graph, level, 1, body)
    return RepeatWhileTrue(once, reached, body)


# %% 14.3: level is never written
# clause: Start with `level` 0
# why:  the first wave reads `level`, but nothing has set it.
# next: set `level` to 0 before the loop: popops.zero(graph, level, program).
def search(graph, wave, level, grew):
    once, body = Sequence(wave), Sequence()
    reached = popops.reduce(graph, grew, [0], once)
    popops.add_in_place(graph, level, 1, body)
    return RepeatWhileTrue(once, reached, body)


# %% 14.3: the sum in the body
# why:  RepeatWhileTrue tests the sum before the body, so nothing has written the sum at the first
#   test.
# next: put the wave and the sum into the condition, the first argument of RepeatWhileTrue.
def search(graph, wave, level, grew):
    start, body = Sequence(), Sequence(wave)
    popops.zero(graph, level, start)
    reached = popops.reduce(graph, grew, [0], body)
    popops.add_in_place(graph, level, 1, body)
    return Sequence(start, RepeatWhileTrue(Sequence(), reached, body))


# %% 14.3: a sum that starts at 1
# why:  the sum is 0 after the first search, so the second search ends before its first wave.
# next: put the wave and the sum into the condition, the first argument of RepeatWhileTrue. Then the
#   sum needs no initial value.
def search(graph, wave, level, grew):
    start, body = Sequence(), Sequence()
    popops.zero(graph, level, start)
    popops.add_in_place(graph, level, 1, body)
    first = Sequence(wave)
    reached = popops.reduce(graph, grew, [0], first)
    graph.set_initial_value(reached, 1)
    return Sequence(start, RepeatWhileTrue(Sequence(), reached, Sequence(first, body)))


# %% 14.3: the sum without the wave
# why:  the condition adds up `grew` before the first wave, so nothing has written `grew` yet.
# next: put the wave before the sum, into the condition of RepeatWhileTrue.
def search(graph, wave, level, grew):
    start, condition, body = Sequence(), Sequence(), Sequence(wave)
    popops.zero(graph, level, start)
    reached = popops.reduce(graph, grew, [0], condition)
    popops.add_in_place(graph, level, 1, body)
    return Sequence(start, RepeatWhileTrue(condition, reached, body))


# %% 14.4: each six times
# clause: write self.count
# why:  each triangle is counted six times, since its three vertices are used in every order.
# next: count the third vertex only if it is larger than `b`, and use `b` only if it is larger than
#   `a`.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = self.offsets[a], self.offsets[b]
                while a != b and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two and one != a and one != b:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.4: each three times
# clause: **each triangle is counted once**
# why:  each triangle is counted three times, since only two of its vertices are in ascending order.
# next: let a triangle count only if a, b and the third vertex are in ascending order.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = self.offsets[a], self.offsets[b]
                while b > a and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two and one != a and one != b:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.4: any third one
# why:  each triangle is counted three times, since only two of its vertices are in ascending order.
# next: let a triangle count only if a, b and the third vertex are in ascending order.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = self.offsets[a], self.offsets[b]
                while b > a and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.4: all edges both ways
# why:  each triangle is counted six times, since each edge is used in both directions with any
#   third vertex.
# next: count the third vertex only if it is larger than `b`, and use `b` only if it is larger than
#   `a`.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = self.offsets[a], self.offsets[b]
                while i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.4: the third larger than a
# why:  the third vertex needs only to be larger than `a`, so `b` and the third vertex can be
#   swapped or equal.
# next: count the third vertex only if it is larger than `b`.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = self.offsets[a], self.offsets[b]
                while b > a and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two and one > a:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.4: an edge from a vertex to itself
# why:  `b` can be equal to `a`, so an edge from a vertex to itself counts as a triangle.
# next: use `b` only if b > a, not b >= a.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = self.offsets[a], self.offsets[b]
                while b >= a and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two and one > b:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.4: each twice
# why:  each triangle is counted twice, since b and the third vertex can be swapped.
# next: count the third vertex only if it is larger than `b`.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = self.offsets[a], self.offsets[b]
                while b > a and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two and one > a and one != b:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.4: loops are triangles
# clause: that makes no triangle
# why:  a vertex that is its own neighbour is counted as two corners of a triangle.
# next: count the third vertex only if it is larger than `b`, and use `b` only if it is larger than
#   `a`.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = self.offsets[a], self.offsets[b]
                while b >= a and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two and one >= b:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.4: both fingers always go on
# why:  both indices move in every step, so only numbers at equal positions are compared.
# next: move only the index of the smaller number, and move both if the numbers are equal.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = self.offsets[a], self.offsets[b]
                while b > a and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    if self.neighbours[i] == self.neighbours[j] and self.neighbours[i] > b:
                        count += 1
                    i += 1
                    j += 1
        self.count = count


# %% 14.4: within the tile's own vertices
# clause: handles the graph
# why:  only triangles with all three corners on one tile are counted.
# next: use `begin` and `end` only for the smallest corner, `a`.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = k + 1, self.offsets[b]
                while a < b < self.end and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two and b < one < self.end:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.4: whole rows
# clause: A search of a whole row for each number of the other row exceeds it
# not yet: the count is right, but the vertices read far more numbers than two sorted rows need.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                for i in range(self.offsets[a], self.offsets[a + 1]):
                    for j in range(self.offsets[b], self.offsets[b + 1]):
                        c = self.neighbours[i]
                        if c == self.neighbours[j] and a < b and b < c:
                            count += 1
        self.count = count


# %% 14.4: the count is state
# not yet: self.total is state, which keeps its value between runs
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]
    total: INT = 0

    def compute(self):
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                if b > a:
                    i, j = self.offsets[a], self.offsets[b]
                    while i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                        c, d = self.neighbours[i], self.neighbours[j]
                        if c == d and c > b:
                            self.total += 1
                        if c <= d:
                            i += 1
                        if d <= c:
                            j += 1
        self.count = self.total


# %% 14.4: divided by three on each tile
# why:  each triangle is counted three times, but not always on the same tile. The division on each
#   tile rounds a count that is no multiple of 3 down.
# next: require that the third vertex is larger than `b`, and leave out the division.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        total = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                if b > a:
                    i, j = self.offsets[a], self.offsets[b]
                    while i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                        u, v = self.neighbours[i], self.neighbours[j]
                        if u == v and u != a and u != b:
                            total += 1
                        if u <= v:
                            i += 1
                        if v <= u:
                            j += 1
        self.count = total // 3


# %% 14.4: b for the third one
# clause: that makes no triangle
# why:  if b is its own neighbour, b also counts as the third vertex, but a triangle has three
#   different vertices.
# next: count the third vertex only if it is larger than b.
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = k, self.offsets[b]
                while b > a and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.5: as many vertices
# clause: Distribute the edges
# why:  each tile has about the same number of whole rows, but one row can have nearly all edges.
# next: give each tile the same number of edges, and cut a row where a tile is full.
def deal(offsets, tiles):
    n = len(offsets) - 1
    rows = [(v, offsets[v], offsets[v + 1]) for v in range(n) if offsets[v] < offsets[v + 1]]
    return [
        [row for row in rows if n * t // tiles <= row[0] < n * (t + 1) // tiles]
        for t in range(tiles)
    ]


# %% 14.5: whole rows, the emptiest tile first
# clause: If you cut a row only where a tile is full, there are few pieces
# why:  each row goes as a whole to the tile with the fewest edges, so the long row of a hub is on
#   one tile.
# next: cut a row where a tile is full.
def deal(offsets, tiles):
    pieces, load = [[] for _ in range(tiles)], [0] * tiles
    for vertex in range(len(offsets) - 1):
        tile, (first, end) = load.index(min(load)), offsets[vertex : vertex + 2]
        if first < end:
            pieces[tile].append((vertex, first, end))
            load[tile] += end - first
    return pieces


# %% 14.5: the last takes the rest
# clause: No tile may have more edges than 1.1 times the mean
# why:  each tile has the mean rounded down, so the last tile also gets the remainder.
# next: give tile t the edges from edges * t // tiles to edges * (t + 1) // tiles.
def deal(offsets, tiles):
    edges, pieces = offsets[-1], []
    share = edges // tiles
    for tile in range(tiles):
        begin, end = share * tile, share * (tile + 1) if tile < tiles - 1 else edges
        mine = []
        for vertex in range(len(offsets) - 1):
            first, last = max(begin, offsets[vertex]), min(end, offsets[vertex + 1])
            if first < last:
                mine.append((vertex, first, last))
        pieces.append(mine)
    return pieces


# %% 14.5: pieces over the end of a row
# clause: Each piece is a part of the row of that vertex
# why:  each tile has one piece, which continues into the rows of other vertices.
# next: end a piece at the end of its row, and begin a new piece for the next row.
def deal(offsets, tiles):
    edges, pieces = offsets[-1], []
    for tile in range(tiles):
        begin, end = edges * tile // tiles, edges * (tile + 1) // tiles
        vertex = max(v for v in range(len(offsets) - 1) if offsets[v] <= begin)
        pieces.append([(vertex, begin, end)] if begin < end else [])
    return pieces


# %% 14.5: every row on every tile
# why:  every row is cut into equal shares for the tiles. If a row has fewer edges than there are
#   tiles, the last tiles get them, and over many rows this adds up.
# next: give tile t the edges from edges * t // tiles to edges * (t + 1) // tiles.
def deal(offsets, tiles):
    pieces = [[] for _ in range(tiles)]
    for vertex in range(len(offsets) - 1):
        first, many = offsets[vertex], offsets[vertex + 1] - offsets[vertex]
        for tile in range(tiles):
            begin, end = first + many * tile // tiles, first + many * (tile + 1) // tiles
            if begin < end:
                pieces[tile].append((vertex, begin, end))
    return pieces


# %% 14.5: edge by edge
# clause: at most 1.6 times the modelled cycles of a wave with these few pieces
# not yet: 398 pieces, and
def deal(offsets, tiles):
    pieces, tile = [[] for _ in range(tiles)], 0
    for vertex in range(len(offsets) - 1):
        for edge in range(offsets[vertex], offsets[vertex + 1]):
            pieces[tile].append((vertex, edge, edge + 1))
            tile = (tile + 1) % tiles
    return pieces


# %% 14.5: the hub is dealt out, the others are not
# why:  only the longest row is cut, but other long rows can fill a tile, too.
# next: give tile t the edges from edges * t // tiles to edges * (t + 1) // tiles.
def deal(offsets, tiles):
    n = len(offsets) - 1
    many = [offsets[v + 1] - offsets[v] for v in range(n)]
    hub, pieces = many.index(max(many)), []
    for t in range(tiles):
        begin = offsets[hub] + many[hub] * t // tiles
        end = offsets[hub] + many[hub] * (t + 1) // tiles
        mine = [(hub, begin, end)] if begin < end else []
        for v in range(n * t // tiles, n * (t + 1) // tiles):
            if v != hub and many[v]:
                mine.append((v, offsets[v], offsets[v + 1]))
        pieces.append(mine)
    return pieces


# %% 14.5: an edge lost at each cut
# clause: All pieces together have each edge of `neighbours`
# why:  the last edge of each tile is in no piece: `end` is the edge after the last one of the
#   piece.
# next: let a tile end where the next tile begins: edges * (t + 1) // tiles.
def deal(offsets, tiles):
    edges, pieces = offsets[-1], []
    for tile in range(tiles):
        begin, end = edges * tile // tiles, edges * (tile + 1) // tiles - 1
        mine = []
        for vertex in range(len(offsets) - 1):
            first, last = max(begin, offsets[vertex]), min(end, offsets[vertex + 1])
            if first < last:
                mine.append((vertex, first, last))
        pieces.append(mine)
    return pieces


# %% 14.5: 1.1 times the mean, rounded
# clause: than 1.1 times the mean
# why:  each tile is filled up to 1.1 times the mean, rounded to the nearest whole number. That may
#   be above 1.1 times the mean, which is the limit.
# next: fill a tile up to edges * (t + 1) // tiles.
def deal(offsets, tiles):
    cap = max(1, round(1.1 * offsets[-1] / tiles))
    out, tile, load = [[] for _ in range(tiles)], 0, 0
    for v in range(len(offsets) - 1):
        first = offsets[v]
        while first < offsets[v + 1]:
            if load == cap:
                tile, load = tile + 1, 0
            end = min(offsets[v + 1], first + cap - load)
            out[tile].append((v, first, end))
            load += end - first
            first = end
    return out


# %% 14.5: every row on every tile, in turn
# why:  each row is cut into as many pieces as there are tiles. The pieces of a row differ by one
#   edge, and over all rows these differences add up.
# next: go through all edges from the first to the last, and cut a row only where a tile is full.
def deal(offsets, tiles):
    out = [[] for _ in range(tiles)]
    for v in range(len(offsets) - 1):
        first, n = offsets[v], offsets[v + 1] - offsets[v]
        for t in range(tiles):
            a, b = first + n * t // tiles, first + n * (t + 1) // tiles
            if a < b:
                out[(t + v) % tiles].append((v, a, b))
    return out


# %% 14.5: one edge or more, and the last takes the rest
# why:  each tile has the mean rounded down, or 1 if that is larger, and the last tile gets the
#   rest.
# next: end tile t at edges * (t + 1) // tiles, which distributes the remainder.
def deal(offsets, tiles):
    edges, out = offsets[-1], [[] for _ in range(tiles)]
    size = max(1, edges // tiles)
    for v in range(len(offsets) - 1):
        first = offsets[v]
        while first < offsets[v + 1]:
            t = min(first // size, tiles - 1)
            end = min(offsets[v + 1], edges if t == tiles - 1 else (t + 1) * size)
            out[t].append((v, first, end))
            first = end
    return out
