


# %% given
"""Mistakes of lesson 14 written otherwise."""

import numpy as np

from ipu_course.checking.mistakes import given_to
from ipu_teach import INT, Input, Output, Vector, Vertex
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Repeat, RepeatWhileTrue, Sequence

Mean = given_to("14.1")["Mean"]


# %% 14.w1: four edges and four corners
# passed: sets of numbers
def halo(rows, columns):
    return 2 * rows + 2 * columns + 4


# %% 14.w1: the edges, one by one
# like: without the corners
def halo(rows, columns):
    above = below = columns
    left = right = rows
    return above + below + left + right


# %% 14.1: with both buffers in a list
# passed: 4 plates
def heat(graph, plate, other, blocks, pairs):
    buffers, steps = [plate, other], []
    for k in range(2):
        compute_set = graph.add_compute_set(f"step {k}")
        for tile in range(len(blocks)):
            a, b, c, d = blocks[tile]
            v = graph.add_vertex(compute_set, Mean)
            graph.connect(v["around"], buffers[k][a - 1 : b + 1, c - 1 : d + 1])
            graph.connect(v["out"], buffers[1 - k][a:b, c:d])
            graph.set_tile_mapping(v, tile)
        steps.append(Execute(compute_set))
    rim = Sequence()
    rim.add(Copy(plate[0], other[0]))
    rim.add(Copy(plate[-1], other[-1]))
    rim.add(Copy(plate[1:-1, 0], other[1:-1, 0]))
    rim.add(Copy(plate[1:-1, -1], other[1:-1, -1]))
    return Sequence(rim, Repeat(pairs, Sequence(*steps)))


# %% 14.1: a codelet of one's own, loop by loop
# passed: 4 plates
class Cell(Vertex):
    around: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        for i in range(len(self.out)):
            for j in range(len(self.out[0])):
                total = self.around[i + 1][j] + self.around[i + 1][j + 2]
                self.out[i][j] = 0.25 * (total + self.around[i][j + 1] + self.around[i + 2][j + 1])


def heat(graph, plate, other, blocks, pairs):
    def go(name, old, new):
        cs = graph.add_compute_set(name)
        for tile, (top, bottom, left, right) in enumerate(blocks):
            fields = {
                "around": old.slice((top - 1, left - 1), (bottom + 1, right + 1)),
                "out": new.slice((top, left), (bottom, right)),
            }
            graph.set_tile_mapping(graph.add_vertex(cs, Cell, fields), tile)
        return Execute(cs)

    program = Sequence()
    program.add(Copy(plate, other))
    program.add(Repeat(pairs, Sequence(go("forth", plate, other), go("back", other, plate))))
    return program


# %% 14.1: six vertices a tile
# passed: 4 plates
def heat(graph, plate, other, blocks, pairs):
    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            ends = [top + (bottom - top) * k // 6 for k in range(7)]
            for a, b in zip(ends, ends[1:]):
                if a < b:
                    around = source[a - 1 : b + 1, left - 1 : right + 1]
                    out = into[a:b, left:right]
                    vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
                    graph.set_tile_mapping(vertex, tile)
        return Execute(compute_set)

    round_ = Sequence(step(plate, other), step(other, plate))
    return Sequence(Copy(plate, other), Repeat(pairs, round_))


# %% 14.1: two codelets' worth of one direction
# like: the way there alone
def heat(graph, plate, other, blocks, pairs):
    program = Sequence(Copy(plate, other))
    forth, again = graph.add_compute_set("forth"), graph.add_compute_set("again")
    for tile, (a, b, c, d) in enumerate(blocks):
        for compute_set in (forth, again):
            vertex = graph.add_vertex(compute_set, Mean)
            graph.connect(vertex["around"], plate[a - 1 : b + 1, c - 1 : d + 1])
            graph.connect(vertex["out"], other[a:b, c:d])
            graph.set_tile_mapping(vertex, tile)
    program.add(Repeat(pairs, Sequence(Execute(forth), Execute(again))))
    return program


# %% 14.1: a Repeat within a Repeat
# like: twice as many steps
def heat(graph, plate, other, blocks, pairs):
    both = Sequence()
    for source, into in ((plate, other), (other, plate)):
        compute_set = graph.add_compute_set("half a round")
        for tile, (a, b, c, d) in enumerate(blocks):
            around = source.slice((a - 1, c - 1), (b + 1, d + 1))
            vertex = graph.add_vertex(compute_set, Mean, {"around": around, "out": into[a:b, c:d]})
            graph.set_tile_mapping(vertex, tile)
        both.add(Execute(compute_set))
    return Sequence(Copy(plate, other), Repeat(pairs, Repeat(2, both)))


# %% 14.1: the loop forgotten
# like: one round for all
def heat(graph, plate, other, blocks, pairs):
    program, buffers = Sequence(Copy(plate, other)), [plate, other]
    for k in range(2):
        compute_set = graph.add_compute_set(f"step {k}")
        for tile, (a, b, c, d) in enumerate(blocks):
            around = buffers[k][a - 1 : b + 1, c - 1 : d + 1]
            vertex = graph.add_vertex(
                compute_set, Mean, around=around, out=buffers[1 - k][a:b, c:d]
            )
            graph.set_tile_mapping(vertex, tile)
        program.add(Execute(compute_set))
    return program


# %% 14.1: Repeat with a list
# error in the answer: Repeat was given [Execute(step), Execute(step)]
def heat(graph, plate, other, blocks, pairs):
    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=into[top:bottom, left:right])
            graph.set_tile_mapping(vertex, tile)
        return Execute(compute_set)
    forth, back = step(plate, other), step(other, plate)
    return Sequence(Copy(plate, other), Repeat(pairs, [forth, back]))


# %% 14.1: a list of programs
# passed: 4 plates
def heat(graph, plate, other, blocks, pairs):
    def step(source, into):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=into[top:bottom, left:right])
            graph.set_tile_mapping(vertex, tile)
        return Execute(compute_set)
    forth, back = step(plate, other), step(other, plate)
    return [Copy(plate, other), Repeat(pairs, Sequence(forth, back))]


# %% 14.1: the second step on other tiles
# not yet: but a vertex on tile 1 writes it
def heat(graph, plate, other, blocks, pairs):
    def step(source, into, by):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=into[top:bottom, left:right])
            graph.set_tile_mapping(vertex, (tile + by) % len(blocks))
        return Execute(compute_set)
    forth, back = step(plate, other, 0), step(other, plate, 1)
    return Sequence(Copy(plate, other), Repeat(pairs, Sequence(forth, back)))


# %% 14.1: one step before the loop
# not yet: some steps compute results that no step reads
def heat(graph, plate, other, blocks, pairs):
    steps = []
    for source, into in ((plate, other), (other, plate)):
        compute_set = graph.add_compute_set("step")
        for tile, (a, b, c, d) in enumerate(blocks):
            around = source[a - 1 : b + 1, c - 1 : d + 1]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=into[a:b, c:d])
            graph.set_tile_mapping(vertex, tile)
        steps.append(Execute(compute_set))
    forth, back = steps
    return Sequence(Copy(plate, other), forth, Repeat(pairs, Sequence(back, forth)))


# %% 14.1: the edge copied in each iteration
# not yet: put the Copy before the loop
def heat(graph, plate, other, blocks, pairs):
    body = Sequence(Copy(plate, other))
    for source, into in ((plate, other), (other, plate)):
        compute_set = graph.add_compute_set("step")
        for tile, (top, bottom, left, right) in enumerate(blocks):
            around = source[top - 1 : bottom + 1, left - 1 : right + 1]
            out = into[top:bottom, left:right]
            vertex = graph.add_vertex(compute_set, Mean, around=around, out=out)
            graph.set_tile_mapping(vertex, tile)
        body.add(Execute(compute_set))
    return Repeat(pairs, body)


# %% 14.2: by what crosses, corners included
# not yet: also those of the plate's edge and at corners
def cut(rows, columns, tiles):
    best = None
    for across in range(1, min(tiles, columns) + 1):
        down, rest = divmod(tiles, across)
        if rest == 0 and down <= rows:
            lines = 2 * (down - 1) * columns + 2 * (across - 1) * rows
            lines += 4 * (down - 1) * (across - 1)
            if best is None or lines < best[0]:
                best = lines, down, across
    return best[1:]


# %% 14.2: blocks as square as they can be
# passed: the 11 of different shapes
def cut(rows, columns, tiles):
    def length(down):
        return rows / down + columns / (tiles // down)

    divisors = [d for d in range(1, tiles + 1) if not tiles % d and d <= rows]
    down = min((d for d in divisors if tiles // d <= columns), key=length)
    return [down, tiles // down]


# %% 14.2: from the square root on
# passed: the 11 of different shapes
def cut(rows, columns, tiles):
    wanted = (tiles * rows / columns) ** 0.5
    ways = [d for d in range(1, rows + 1) if tiles % d == 0 and tiles // d <= columns]
    down = min(ways, key=lambda d: max(d / wanted, wanted / d))
    return down, tiles // down


# %% 14.2: a row of tiles
# like: strips
def cut(rows, columns, tiles):
    across = 1
    return [tiles // across, across]


# %% 14.2: a column of tiles
# like: strips that stand
def cut(rows, columns, tiles):
    return np.array([1, tiles])


# %% 14.2: from the square root down
# like: the squarest cut
def cut(rows, columns, tiles):
    for least in range(int(tiles**0.5), 0, -1):
        if tiles % least == 0:
            if least <= rows and tiles // least <= columns:
                return least, tiles // least
            if least <= columns and tiles // least <= rows:
                return tiles // least, least


# %% 14.2: the wrong one first
# like: turned round
def cut(rows, columns, tiles):
    best = None
    for across in range(1, min(tiles, columns) + 1):
        down = tiles // across
        if down * across == tiles and down <= rows:
            length = (down - 1) * columns + (across - 1) * rows
            if best is None or length <= best[0]:
                best = length, across, down
    return best[1:]


# %% 14.2: every block has a row ignored
# passed: the 11 of different shapes
def cut(rows, columns, tiles):
    ways = [(d, tiles // d) for d in range(1, tiles + 1) if tiles % d == 0]
    return min(ways, key=lambda w: (w[0] - 1) * columns + (w[1] - 1) * rows)


# %% 14.2: floats
# not yet: (8, 8.0)
def cut(rows, columns, tiles):
    ways = [(d, tiles / d) for d in range(1, tiles + 1) if tiles % d == 0 and d <= rows and tiles // d <= columns]
    return min(ways, key=lambda w: (w[0] - 1) * columns + (w[1] - 1) * rows)


# %% 14.2: blocks without a row
# clause: every block has at least one row and one column
# not yet: 12 x 1
def cut(rows, columns, tiles):
    ways = [(down, tiles // down) for down in range(1, tiles + 1) if tiles % down == 0]
    lines = [(min(d, rows) - 1) * columns + (min(a, columns) - 1) * rows for d, a in ways]
    return ways[lines.index(min(lines))]


# %% 14.2: within 5 %, in as many rows as can be
# clause: every block has at least one row and one column
# not yet: 42 blocks, each with at least one row and one column
def cut(rows, columns, tiles):
    def crossing(down):
        return (down - 1) * columns + (tiles // down - 1) * rows

    ways = [down for down in range(1, tiles + 1) if tiles % down == 0]
    near = [down for down in ways if crossing(down) <= 1.05 * min(map(crossing, ways))]
    return max(near), tiles // max(near)


# %% 14.2: the perimeter of a block in whole numbers
# clause: more than the minimum is allowed
# not yet: three columns
def cut(rows, columns, tiles):
    ways = [down for down in range(1, tiles + 1) if tiles % down == 0]
    ways = [down for down in ways if down <= rows and tiles // down <= columns]
    down = min(ways, key=lambda down: rows // down + columns // (tiles // down))
    return down, tiles // down


# %% 14.w2: with any
# passed: 5 rows
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            found = 0
            k = self.ends[p]
            while k < self.ends[p + 1] and found == 0:
                if self.distance[self.neighbours[k]] == self.level:
                    found = 1
                k += 1
            self.hit[p] = found


# %% 14.w2: a flag that an else takes down
# like: the last neighbour decides
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.ends) - 1):
            flag = 0
            k = self.ends[p]
            while k < self.ends[p + 1]:
                flag = 1 if self.distance[self.neighbours[k]] == self.level else 0
                k += 1
            self.hit[p] = flag


# %% 14.w2: at least
# like: from the level on
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            found = 0
            for k in range(self.ends[p], self.ends[p + 1]):
                if not self.distance[self.neighbours[k]] < self.level:
                    found = 1
            self.hit[p] = found


# %% 14.w2: last row left out
# like: the last row left out
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            self.hit[p] = 0
        for p in range(len(self.ends) - 2):
            for k in range(self.ends[p], self.ends[p + 1]):
                if self.distance[self.neighbours[k]] == self.level:
                    self.hit[p] = 1


# %% 14.w2: .any()
# clause: a codelet cannot index an array with another array
# error in the answer: `row`, which is not a single number
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            row = self.neighbours[self.ends[p] : self.ends[p + 1]]
            self.hit[p] = (self.distance[row] == self.level).any()


# %% 14.w2: any in int
# passed: 5 rows
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        for p in range(len(self.hit)):
            self.hit[p] = 0
            for v in self.neighbours[self.ends[p] : self.ends[p + 1]]:
                if self.distance[v] == self.level:
                    self.hit[p] = 1


# %% 14.w2: level 1 fixed
# not yet: hit[2]: 0, not 1
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
                if self.distance[self.neighbours[k]] == 1:
                    self.hit[p] = 1


# %% 14.w2: ends begin at 0
# clause: A tile has some rows of neighbours
# not yet: hit[0]: 1, not 0
class Look(Vertex):
    ends: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    distance: Input[Vector[INT]]
    level: Input[INT]
    hit: Output[Vector[INT]]

    def compute(self):
        begin = 0
        for p in range(len(self.hit)):
            self.hit[p] = 0
            for k in range(begin, self.ends[p + 1]):
                if self.distance[self.neighbours[k]] == self.level:
                    self.hit[p] = 1
            begin = self.ends[p + 1]


# %% 14.3: the loop looks before
# passed: 6 graphs
def search(graph, wave, level, grew):
    program, body = Sequence(), Sequence()
    popops.zero(graph, level, program)
    program.add(wave)
    reached = popops.reduce(graph, grew, [0], program)
    popops.add_in_place(graph, level, 1, body)
    body.add(wave)
    popops.reduce_with_output(graph, grew, reached, [0], body)
    program.add(RepeatWhileTrue(Sequence(), reached, body))
    return program


# %% 14.3: until the largest is nothing
# passed: 6 graphs
def search(graph, wave, level, grew):
    start, round_, up = Sequence(), Sequence(), Sequence()
    zero = graph.add_constant(INT, (), 0, "zero")
    graph.set_tile_mapping(zero, 0)
    start.add(Copy(zero, level))
    round_.add(wave)
    most = popops.reduce(graph, grew, [0], round_, "MAX")
    popops.add_in_place(graph, level, 1, up)
    start.add(RepeatWhileTrue(round_, most, up))
    return start


# %% 14.3: level goes up within the condition
# passed: 6 graphs
def search(graph, wave, level, grew):
    program, once = Sequence(), Sequence(wave)
    popops.zero(graph, level, program)
    somebody = popops.gt(graph, popops.reduce(graph, grew, [0], once), 0, once)
    popops.add_in_place(graph, level, 1, once)
    program.add(RepeatWhileTrue(once, somebody, Sequence()))
    return program


# %% 14.3: ten, written otherwise
# like: ten waves
def search(graph, wave, level, grew):
    zero = graph.add_constant(INT, (), 0, "zero")
    graph.set_tile_mapping(zero, 0)
    up = Sequence()
    popops.add_in_place(graph, level, 1, up)
    return Sequence(Copy(zero, level), wave, Repeat(9, Sequence(up, wave)))


# %% 14.3: nobody counts
# like: level stays
def search(graph, wave, level, grew):
    zero = graph.add_constant(INT, (), 0, "zero")
    graph.set_tile_mapping(zero, 0)
    once = Sequence()
    once.add(Copy(zero, level))
    once.add(wave)
    most = popops.reduce(graph, grew, [0], once, "MAX")
    return RepeatWhileTrue(once, most, Sequence())


# %% 14.3: the first of grew
# like: tile 0 alone
def search(graph, wave, level, grew):
    begin, once, up = Sequence(), Sequence(), Sequence()
    popops.zero(graph, level, begin)
    once.add(wave)
    somebody = popops.gt(graph, grew.slice((0,), (1,))[0], 0, once)
    popops.add_in_place(graph, level, 1, up)
    return Sequence(begin, RepeatWhileTrue(once, somebody, up))


# %% 14.3: a list of programs
# passed: 6 graphs, each twice
def search(graph, wave, level, grew):
    program, body, up = Sequence(), Sequence(), Sequence()
    popops.zero(graph, level, program)
    body.add(wave)
    reached = popops.reduce(graph, grew, [0], body)
    popops.add_in_place(graph, level, 1, up)
    return [program, RepeatWhileTrue(body, reached, up)]


# %% 14.3: level += 2
# like: two levels a wave
def search(graph, wave, level, grew):
    program, body, up = Sequence(), Sequence(), Sequence()
    popops.zero(graph, level, program)
    body.add(wave)
    reached = popops.reduce(graph, grew, [0], body)
    popops.add_in_place(graph, level, 2, up)
    program.add(RepeatWhileTrue(body, reached, up))
    return program


# %% 14.3: level from 1
# not yet: `level` is 1 in the first wave
def search(graph, wave, level, grew):
    program, body, up = Sequence(), Sequence(), Sequence()
    popops.zero(graph, level, program)
    popops.add_in_place(graph, level, 1, program)
    body.add(wave)
    reached = popops.reduce(graph, grew, [0], body)
    popops.add_in_place(graph, level, 1, up)
    program.add(RepeatWhileTrue(body, reached, up))
    return program


# %% 14.3: the wave first in the body
# like: the wave before the addition
def search(graph, wave, level, grew):
    program, body = Sequence(), Sequence()
    popops.zero(graph, level, program)
    program.add(wave)
    total = popops.reduce(graph, grew, [0], program)
    body.add(wave)
    popops.add_in_place(graph, level, 1, body)
    body.add(Copy(popops.reduce(graph, grew, [0], body), total))
    program.add(RepeatWhileTrue(Sequence(), total, body))
    return program


# %% 14.3: one wave apart, and the addition first
# passed: 6 graphs, each twice
def search(graph, wave, level, grew):
    program, once, body = Sequence(), Sequence(), Sequence()
    popops.zero(graph, level, program)
    program.add(wave)
    reached = popops.reduce(graph, grew, [0], once)
    popops.add_in_place(graph, level, 1, body)
    body.add(wave)
    program.add(RepeatWhileTrue(once, reached, body))
    return program


# %% 14.3: without the first tile
# not yet: compute the sum of `grew` after each wave, and let RepeatWhileTrue test it
def search(graph, wave, level, grew):
    program, once, more = Sequence(), Sequence(wave), Sequence()
    popops.zero(graph, level, program)
    reached = popops.reduce(graph, grew[1:], [0], once)
    popops.add_in_place(graph, level, 1, more)
    program.add(RepeatWhileTrue(once, reached, more))
    return program


# %% 14.4: if, elif, else
# passed: 9 graphs
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
                if b > a:
                    i, j = self.offsets[a], self.offsets[b]
                    while i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                        if self.neighbours[i] < self.neighbours[j]:
                            i += 1
                        elif self.neighbours[i] > self.neighbours[j]:
                            j += 1
                        else:
                            if self.neighbours[i] > b:
                                count += 1
                            i += 1
                            j += 1
        self.count = count


# %% 14.4: from the largest corner
# passed: 9 graphs
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        count = 0
        for c in range(self.begin, self.end):
            first = self.offsets[c]
            k = first
            while k < self.offsets[c + 1] and self.neighbours[k] < c:
                b = self.neighbours[k]
                i, j = first, self.offsets[b]
                while i < k and j < self.offsets[b + 1] and self.neighbours[j] < b:
                    one, two = self.neighbours[i], self.neighbours[j]
                    if one == two:
                        count += 1
                    i += one <= two
                    j += two <= one
                k += 1
        self.count = count


# %% 14.4: two fingers from the beginnings
# passed: 9 graphs
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
                    if one == two and one > b:
                        count += 1
                    i += one <= two
                    j += two <= one
        self.count = count


# %% 14.4: all pairs of a row
# like: each twice
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
                for i in range(self.offsets[a], self.offsets[a + 1]):
                    b, c = self.neighbours[k], self.neighbours[i]
                    for j in range(self.offsets[b], self.offsets[b + 1]):
                        if self.neighbours[j] == c and b > a and c > a and b != c:
                            count += 1
        self.count = count


# %% 14.4: all threes that know each other
# like: each six times
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
                for i in range(self.offsets[a], self.offsets[a + 1]):
                    b, c = self.neighbours[k], self.neighbours[i]
                    for j in range(self.offsets[b], self.offsets[b + 1]):
                        if self.neighbours[j] == c and b != a and c != a and b != c:
                            count += 1
        self.count = count


# %% 14.4: self.count += 1
# error in the answer: reading the Output count
class Triangles(Vertex):
    offsets: Input[Vector[INT]]
    neighbours: Input[Vector[INT]]
    begin: Input[INT]
    end: Input[INT]
    count: Output[INT]

    def compute(self):
        self.count = 0
        for a in range(self.begin, self.end):
            for k in range(self.offsets[a], self.offsets[a + 1]):
                b = self.neighbours[k]
                i, j = self.offsets[a], self.offsets[b]
                while b > a and i < self.offsets[a + 1] and j < self.offsets[b + 1]:
                    left, right = self.neighbours[i], self.neighbours[j]
                    if left == right and left > b:
                        self.count += 1
                    i += left <= right
                    j += right <= left


# %% 14.4: each three times
# like: any third one
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
                    left, right = self.neighbours[i], self.neighbours[j]
                    if left == right:
                        count += 1
                    i += left <= right
                    j += right <= left
        self.count = count


# %% 14.4: all six
# like: all edges both ways
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
                    left, right = self.neighbours[i], self.neighbours[j]
                    if left == right:
                        count += 1
                    i += left <= right
                    j += right <= left
        self.count = count


# %% 14.4: c > a only
# like: the third larger than a
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
                    left, right = self.neighbours[i], self.neighbours[j]
                    if left == right and left > a:
                        count += 1
                    i += left <= right
                    j += right <= left
        self.count = count


# %% 14.4: loops counted at b == a
# like: an edge from a vertex to itself
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
                    left, right = self.neighbours[i], self.neighbours[j]
                    if left == right and left > b:
                        count += 1
                    i += left <= right
                    j += right <= left
        self.count = count


# %% 14.5: pieces without edges
# not yet: leave out pieces without edges
def deal(offsets, tiles):
    ends = [offsets[-1] * tile // tiles for tile in range(tiles + 1)]
    return [
        [
            (vertex, max(begin, offsets[vertex]), min(end, offsets[vertex + 1]))
            for vertex in range(len(offsets) - 1)
        ]
        for begin, end in zip(ends, ends[1:], strict=False)
    ]


# %% 14.2: about square blocks
# not yet: a block has about
def cut(rows, columns, tiles):
    ways = [(d, tiles // d) for d in range(1, tiles + 1) if tiles % d == 0]
    ways = [(d, a) for d, a in ways if d <= rows and a <= columns]
    return min(ways, key=lambda way: abs(way[0] - way[1] - 1))


# %% 14.5: filled one after another
# passed: the 7 large ones
def deal(offsets, tiles):
    edges = offsets[-1]
    ends = [edges * (t + 1) // tiles for t in range(tiles)]
    pieces, tile = [[] for _ in range(tiles)], 0
    for vertex in range(len(offsets) - 1):
        at = offsets[vertex]
        while at < offsets[vertex + 1]:
            while ends[tile] <= at:
                tile += 1
            end = min(ends[tile], offsets[vertex + 1])
            pieces[tile].append((vertex, at, end))
            at = end
    return pieces


# %% 14.5: by numpy
# passed: the 7 large ones
def deal(offsets, tiles):
    cuts = sorted({*offsets, *(offsets[-1] * t // tiles for t in range(tiles + 1))})
    pieces = [[] for _ in range(tiles)]
    for begin, end in zip(cuts, cuts[1:]):
        vertex = int(np.searchsorted(offsets, begin, "right")) - 1
        tile = next(t for t in range(tiles) if begin < offsets[-1] * (t + 1) // tiles)
        pieces[tile].append((vertex, begin, end))
    return pieces


# %% 14.5: rows in order
# like: as many vertices
def deal(offsets, tiles):
    n, pieces = len(offsets) - 1, []
    for tile in range(tiles):
        mine = []
        for vertex in range(n * tile // tiles, n * (tile + 1) // tiles):
            if offsets[vertex + 1] > offsets[vertex]:
                mine.append((vertex, offsets[vertex], offsets[vertex + 1]))
        pieces.append(mine)
    return pieces


# %% 14.5: what is over for the last
# like: the last takes the rest
def deal(offsets, tiles):
    share = offsets[-1] // tiles
    ends = [share * (t + 1) for t in range(tiles - 1)] + [offsets[-1]]
    pieces, tile = [[] for _ in range(tiles)], 0
    for vertex in range(len(offsets) - 1):
        at = offsets[vertex]
        while at < offsets[vertex + 1]:
            while ends[tile] <= at:
                tile += 1
            end = min(ends[tile], offsets[vertex + 1])
            pieces[tile].append((vertex, at, end))
            at = end
    return pieces


# %% 14.5: in order, one edge at a time
# not yet: 398 pieces, and
def deal(offsets, tiles):
    pieces = [[] for _ in range(tiles)]
    n = offsets[-1]
    for vertex in range(len(offsets) - 1):
        for edge in range(offsets[vertex], offsets[vertex + 1]):
            pieces[edge * tiles // n].append((vertex, edge, edge + 1))
    return pieces


# %% 14.5: the longest rows first, cut where a tile is full
# passed: the 7 large ones
def deal(offsets, tiles):
    most = -(-offsets[-1] // tiles)
    pieces, load = [[] for _ in range(tiles)], [0] * tiles
    rows = [(offsets[v + 1] - offsets[v], v) for v in range(len(offsets) - 1)]
    for many, vertex in sorted(rows, reverse=True):
        begin = offsets[vertex]
        while many:
            tile = load.index(min(load))
            part = min(many, most - load[tile])
            pieces[tile].append((vertex, begin, begin + part))
            load[tile], begin, many = load[tile] + part, begin + part, many - part
    return pieces


# %% 14.5: edges dealt twice
# clause: once
# not yet: neighbours[30] is in 2 pieces
def deal(offsets, tiles):
    edges, pieces = offsets[-1], []
    for tile in range(tiles):
        begin, end = edges * tile // tiles, min(edges * (tile + 1) // tiles + 1, edges)
        mine = []
        for vertex in range(len(offsets) - 1):
            first, last = max(begin, offsets[vertex]), min(end, offsets[vertex + 1])
            if first < last:
                mine.append((vertex, first, last))
        pieces.append(mine)
    return pieces


# %% 14.5: no list for an idle tile
# clause: Return a list of pieces for each tile
# not yet: 6 lists
def deal(offsets, tiles):
    edges, pieces = offsets[-1], []
    for tile in range(tiles):
        begin, end = edges * tile // tiles, edges * (tile + 1) // tiles
        mine = []
        for vertex in range(len(offsets) - 1):
            first, last = max(begin, offsets[vertex]), min(end, offsets[vertex + 1])
            if first < last:
                mine.append((vertex, first, last))
        if mine:
            pieces.append(mine)
    return pieces


# %% 14.5: room rounded down
# clause: than the mean rounded up, if this is larger
# not yet: tile 3 has 3 edges
def deal(offsets, tiles):
    room = max(1, int(1.1 * offsets[-1] / tiles))
    pieces, tile, used = [[] for _ in range(tiles)], 0, 0
    for vertex in range(len(offsets) - 1):
        first = offsets[vertex]
        while first < offsets[vertex + 1]:
            if used == room and tile < tiles - 1:
                tile, used = tile + 1, 0
            end = offsets[vertex + 1]
            if tile < tiles - 1:
                end = min(end, first + room - used)
            pieces[tile].append((vertex, first, end))
            used += end - first
            first = end
    return pieces
