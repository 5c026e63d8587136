# %% given
"""Mistakes of lesson 14 written otherwise."""

import numpy as np

from ipu_course.checking.mistakes import given_to
from ipu_teach import INT, Input, Output, Vector, Vertex
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Repeat, RepeatWhileTrue, Sequence

Mean = given_to("14.1")["Mean"]


# %% 14.w1: the edges, one by one
# like: without the corners
def halo(rows, columns):
    above = below = columns
    left = right = rows
    return above + below + left + right


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
