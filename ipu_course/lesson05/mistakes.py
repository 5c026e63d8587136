# %% given
"""Known mistakes of lesson 05; what this file is: mistakes.py."""

from ipu_teach import FLOAT, HALF, Input, Output, Vector, Vertex
from ipu_teach.poplibs import poplin, poputil
from ipu_teach.program import Execute, Sequence


class Loop(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i in range(len(self.a)):
            total += self.a[i] * self.b[i]
        self.out = total


class Dot(Loop):
    def compute(self):
        self.out = self.a @ self.b


class Sum(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x.sum()


def guess(n):
    """Worker cycles of either, as Graphcore's tutorial 6 has them."""
    return 5 + (n + 1) // 2


# %% 05.1: last row dropped
# clause: It has one vertex for each row
# why:  the last row was never multiplied: its place in result is empty.
# next: range(n) goes from 0 to n - 1.
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    poputil.map_tensor_linearly(graph, matrix)
    poputil.map_tensor_linearly(graph, result)
    for row in range(matrix.shape[0] - 1):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        graph.set_tile_mapping(vertex, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: last column dropped
# why:  the last column plays no part.
# next: let the loop go to the end of the row: range(len(self.a)).
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i in range(len(self.a) - 1):
            total += self.a[i] * self.b[i]
        self.out = total


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: nothing is added up
# why:  each row has its last product alone: the others were written over.
# next: add the products up in a variable, and store that once, after the loop.
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        for i in range(len(self.a)):
            self.out = self.a[i] * self.b[i]


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: the vector is forgotten
# why:  these are the sums of the rows: the vector plays no part.
# next: multiply each number of the row by the number of the vector in its place.
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i in range(len(self.a)):
            total += self.a[i]
        self.out = total


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: added, not multiplied
# why:  row and vector were added where they should be multiplied.
# next: a[i] * b[i], added up.
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i in range(len(self.a)):
            total += self.a[i] + self.b[i]
        self.out = total


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: the vector backwards
# why:  the vector is taken from its end.
# next: element i of the row belongs to element i of the vector.
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i in range(len(self.a)):
            total += self.a[i] * self.b[-1 - i]
        self.out = total


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: rows in the wrong order
# why:  the products are right, and stand in the wrong order.
# next: row r belongs into result[r].
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    poputil.map_tensor_linearly(graph, matrix)
    poputil.map_tensor_linearly(graph, result)
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(
            multiply, DotProduct, a=matrix[row], b=vector, out=result[matrix.shape[0] - 1 - row]
        )
        graph.set_tile_mapping(vertex, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: the first row for all
# why:  every row has the product of the first.
# next: give vertex r matrix[r].
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[0], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: last row dropped, and not mapped
# error in the answer: are on no tile
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0] - 1):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: all on tile 0
# clause: dealt out to the tiles as evenly as can be
# not yet: 12 tiles look on
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, 0)
    return Execute(multiply)


# %% 05.1: the last tile has the rest
# clause: as evenly as can be
# not yet: was all given to the last tile
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, min(row // max(matrix.shape[0] // 13, 1), 12))
    return Execute(multiply)


# %% 05.1: the last tile is left out
# not yet: 1 tile has nothing to do
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % (graph.target.num_tiles - 1))
    return Execute(multiply)


# %% 05.1: rounded up
# not yet: the rows of a tile were rounded up
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row // -(-matrix.shape[0] // 13))
    return Execute(multiply)


# %% 05.1: two tiles for all
# not yet: have nothing to do, and wait for it
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % 2)
    return Execute(multiply)


# %% 05.1: the matrix lies elsewhere
# clause: to the tile where it is needed
# not yet: The rest are rows or results
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    poputil.map_tensor_linearly(graph, matrix)
    poputil.map_tensor_linearly(graph, result)
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        graph.set_tile_mapping(vertex, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: a superstep for each row
# not yet: compute sets follow one another
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    program = Sequence()
    for row in range(matrix.shape[0]):
        multiply = graph.add_compute_set("multiply")
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % 13)
        program.add(Execute(multiply))
    return program


# %% 05.1: one vertex for all rows
# clause: It has one vertex for each row
# not yet: so that rows can be dealt out
class Product(Vertex):
    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    vertex = graph.add_vertex(multiply, Product, a=matrix, b=vector, out=result)
    for part in (vertex, matrix, result):
        graph.set_tile_mapping(part, 0)
    return Execute(multiply)


# %% 05.1: += on an Output
# error in the answer: InOut
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        for i in range(len(self.a)):
            self.out += self.a[i] * self.b[i]


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: nothing returned
# clause: which returns the program
# not yet: is there a `return`
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)


# %% 05.1: thirteen tiles, whatever the machine
# clause: for any number of rows and of tiles
# not yet: somewhere 13 stands for the number of tiles
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % 13)
    return Execute(multiply)


# %% 05.1: thirteen tiles at most
# not yet: here no more than 13 have work to do
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % min(13, graph.target.num_tiles))
    return Execute(multiply)


# %% 05.1: the vector moved to tile 0
# clause: the vector stays where it lies
# not yet: where vector lies is given
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    graph.set_tile_mapping(vector, 0)
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: returned, not stored
# clause: Write both halves
# not yet: compute() returns its result, and nobody takes it
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        return self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: cycles without a target
# error in the answer: Slow.cycles() failed
class Slow(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b

    def cycles(self):
        return 1000


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, Slow, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: state that is never reset
# not yet: self.total is state, and state lives from run to run
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]
    total: FLOAT = 0

    def compute(self):
        for i in range(len(self.a)):
            self.total += self.a[i] * self.b[i]
        self.out = self.total


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row * graph.target.num_tiles // matrix.shape[0])
    return Execute(multiply)


# %% 05.2: mean over the tiles
# clause: Estimated tile cycles
# why:  this is the mean over the tiles. The superstep is as long as its fullest tile.
# next: round rows * pieces / tiles and rows / tiles up: -(-a // b).
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = rows * pieces / tiles, rows / tiles, up(cols, pieces)
    comes = up(up(rows * pieces, tiles), rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: rounded down to tiles
# why:  the pieces of a tile were rounded down: some tile has one more, and all wait for it.
# next: round up: -(-a // b).
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = rows * pieces // tiles, rows // tiles, up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: six workers share a vertex
# why:  six workers share no vertex: the seventh costs a whole further round.
# next: multiply the cycles of a vertex by 6 and by the rounds: vertices / 6, rounded up.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = dealt * dot(longest)
    back = summed * pieces
    add_up = summed * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: worker cycles
# why:  these are worker cycles: a worker has its turn in one cycle of six.
# next: multiply the cycles of the busiest worker by 6, in parts 2 and 4.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = up(summed, 6) * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: six times every vertex
# why:  each vertex is counted six times, and the six workers work side by side.
# next: multiply by the rounds, vertices / 6 rounded up, and not by the vertices.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * dealt * dot(longest)
    back = summed * pieces
    add_up = 6 * summed * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: the shortest piece
# clause: with each row cut into `pieces`
# why:  cols // pieces is the shortest piece, and the longest one counts.
# next: round cols / pieces up: -(-cols // pieces).
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), cols // pieces
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: no vector
# why:  the parts of the vector come from other tiles, and the exchange is left out.
# next: add part 1: the length of a part of the vector, times the parts that the tile needs.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = 0
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: the whole vector
# why:  every tile receives the whole vector here. It needs the columns of its pieces alone.
# next: multiply the length of a part by the tile's pieces / rows, rounded up, and not by `pieces`.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = cols
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: a part for each piece
# why:  the same part of the vector is counted once for each piece, and it comes once.
# next: divide the tile's pieces by rows, and round up: that many parts come.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = dealt * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: one part for every tile
# why:  a tile with more than `rows` pieces needs more than one part of the vector.
# next: multiply the length of a part by the fullest tile's pieces / rows, rounded up.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: adding up one row
# why:  a tile adds up several rows, one after another for each worker.
# next: multiply part 4 by the rounds: rows / tiles, rounded up, by six, rounded up.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = pieces
    add_up = 6 * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: the larger of the two
# why:  exchange and compute are taken side by side here. On this machine they come one after
#   another.
# next: add all four parts up.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * add(pieces)
    return max(comes, multiply) + max(back, add_up)


# %% 05.2: the vector beside the products
# why:  the vector comes while the tiles multiply here. On this machine one follows the other.
# next: add all four parts up.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    return max(comes, multiply) + summed * pieces + 6 * up(summed, 6) * add(pieces)


# %% 05.2: dot in place of add
# clause: `dot(n)` and `add(n)`
# why:  sums were given the price of dot products: adding up costs what add says.
# next: use add(pieces) in part 4.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * dot(pieces)
    return comes + multiply + back + add_up


# %% 05.2: Graphcore's guess built in
# why:  it is right by Graphcore's guess, whatever it is given: prices are given as dot and add.
# next: take the worker cycles from dot(…) in part 2 and from add(…) in part 4.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * guess(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * guess(pieces)
    return comes + multiply + back + add_up


# %% 05.2: bytes
# why:  these are bytes: a tile receives four of them in a cycle.
# next: count one cycle for each FLOAT that comes, and not four.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = 4 * up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = 4 * summed * pieces
    add_up = 6 * up(summed, 6) * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: no second superstep
# why:  what comes after is left out: the pieces of each row are added up in a second superstep.
# next: add parts 3 and 4: the pieces that come back, and the sums.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 6 * up(summed, 6) * add(pieces)
    return comes + multiply


# %% 05.2: pieces do not travel
# why:  the pieces have to come to where they are added: the second exchange is left out.
# next: add part 3: `pieces` cycles for each row that the fullest tile adds up.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = 0
    add_up = 6 * up(summed, 6) * add(pieces)
    return comes + multiply + back + add_up


# %% 05.2: no adding up
# why:  the second superstep computes, too: it adds up the pieces of each row.
# next: add part 4: 6 * add(pieces) for each round of six rows.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    back = summed * pieces
    add_up = 0
    return comes + multiply + back + add_up


# %% 05.2: nothing returned
# not yet: is there a `return`
def planned(rows, cols, pieces, tiles, dot, add):
    cycles = 6 * dot(cols)


# %% 05.2: the largest of the four
# why:  that is the largest of the four parts. They come one after another, with a sync between.
# next: add them up.
def planned(rows, cols, pieces, tiles, dot, add):
    def up(a, b):
        return -(-a // b)

    dealt, longest, summed = up(rows * pieces, tiles), up(cols, pieces), up(rows, tiles)
    multiply, add_up = 6 * up(dealt, 6) * dot(longest), 6 * up(summed, 6) * add(pieces)
    return max(up(dealt, rows) * longest, multiply, summed * pieces, add_up)


# %% 05.2: one round
# why:  a tile with more than six pieces works in several rounds, and here each part is one.
# next: 6 * up(dealt, 6) * dot(longest), and the same of the sums.
def planned(rows, cols, pieces, tiles, dot, add):
    def up(a, b):
        return -(-a // b)

    dealt, longest, summed = up(rows * pieces, tiles), up(cols, pieces), up(rows, tiles)
    return up(dealt, rows) * longest + 6 * dot(longest) + summed * pieces + 6 * add(pieces)


# %% 05.2: dot and add changed places
# why:  dot and add have changed places: products were given the price of sums, and sums that of
#   products.
# next: dot(longest) while multiplying, add(pieces) while adding up.
def planned(rows, cols, pieces, tiles, dot, add):
    def up(a, b):
        return -(-a // b)

    dealt, longest, summed = up(rows * pieces, tiles), up(cols, pieces), up(rows, tiles)
    multiply, add_up = 6 * up(dealt, 6) * add(longest), 6 * up(summed, 6) * dot(pieces)
    return up(dealt, rows) * longest + multiply + summed * pieces + add_up


# %% 05.2: whole rows come
# not yet: the vector 2,610, not 18
def planned(rows, cols, pieces, tiles, dot, add):
    def up(a, b):
        return -(-a // b)

    dealt, longest, summed = up(rows * pieces, tiles), up(cols, pieces), up(rows, tiles)
    multiply, add_up = 6 * up(dealt, 6) * dot(longest), 6 * up(summed, 6) * add(pieces)
    return dealt * cols + multiply + summed * pieces + add_up


# %% 05.2: divided, not rounded up
# not yet: the vector 12.86, not 18
def planned(rows, cols, pieces, tiles, dot, add):
    dealt, longest, summed = rows * pieces / tiles, -(-cols // pieces), rows / tiles
    vector_comes = dealt / rows * longest
    return vector_comes + dealt * dot(longest) + summed * pieces + summed * add(pieces)


# %% 05.2: four numbers
# clause: of all four parts together
# why:  these are the four parts, in a row.
# next: add them up.
def planned(rows, cols, pieces, tiles, dot, add):
    dealt, longest, summed = -(-rows * pieces // tiles), -(-cols // pieces), -(-rows // tiles)
    return (
        -(-dealt // rows) * longest,
        6 * -(-dealt // 6) * dot(longest),
        summed * pieces,
        6 * -(-summed // 6) * add(pieces),
    )


# %% 05.2: one round of sums
# why:  the sums have one round of six vertices. A tile with more than six rows needs more rounds.
# next: multiply the price of a sum by the rounds, too: 6 * up(summed, 6) * add(pieces).
def planned(rows, cols, pieces, tiles, dot, add):
    def up(a, b):
        return -(-a // b)

    dealt, longest, summed = up(rows * pieces, tiles), up(cols, pieces), up(rows, tiles)
    multiply, add_up = 6 * up(dealt, 6) * dot(longest), 6 * add(pieces)
    return up(dealt, rows) * longest + multiply + summed * pieces + add_up


# %% 05.3: tail dropped
# why:  the last columns belong to no piece: dividing with // drops what does not come out even.
# next: let piece p begin at p * cols // pieces; then the last one ends at cols.
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    poputil.map_tensor_linearly(graph, matrix)
    for piece in range(pieces):
        columns = slice(piece * (cols // pieces), (piece + 1) * (cols // pieces))
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: the first piece alone
# why:  result holds the first piece of each row alone.
# next: add up all pieces of a row: one vertex for each row of partials.
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row, :1], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: the last piece alone
# why:  result holds the last piece of each row alone.
# next: add up all pieces of a row: one vertex for each row of partials.
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row, pieces - 1 :], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: all but the last piece
# why:  the last piece of each row was left out.
# next: add up all pieces of a row: range(pieces) goes from 0 to pieces - 1.
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(
            add_up, Sum, x=partials[row, : max(pieces - 1, 1)], out=result[row]
        )
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: the beginning of the vector for all
# why:  every piece was multiplied by the beginning of the vector.
# next: piece begin:end of the row belongs to vector[begin:end].
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(
                multiply, Dot, a=part, b=vector[: columns.stop - columns.start], out=product
            )
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: the last row is not added up
# why:  the last row was never multiplied: its place in result is empty.
# next: range(n) goes from 0 to n - 1.
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    poputil.map_tensor_linearly(graph, result)
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows - 1):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: not cut
# clause: with a `Dot` for each piece of each row
# not yet: five of its six workers look on
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 1
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: cut into single numbers
# not yet: each piece is one number
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or cols
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: row by row
# not yet: its pieces are of many columns
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (row * pieces + piece) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: three pieces
# clause: cut as you think best
# not yet: in the last one some look on
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 3
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: far too many
# clause: has a budget of modelled cycles, syncs included
# not yet: eats what is won
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 120
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: the matrix lies elsewhere
# not yet: of the matrix: pieces of it travel, too
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    poputil.map_tensor_linearly(graph, matrix)
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: as many pieces as it likes
# clause: with each row cut into `pieces`
# not yet: cut into as many pieces as the call says
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = min(12, cols)
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: all on tile 0
# not yet: all wait for the fullest
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, 0)
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: added up too early
# error in the answer: which nothing has written
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(add_up), Execute(multiply))


# %% 05.3: one compute set
# clause: Two compute sets
# error in the answer: is written by one vertex and read by another
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = (graph.add_compute_set("all"),) * 2
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Execute(multiply)


# %% 05.3: never added up
# clause: multiply pieces, then add them up
# not yet: nothing was written into result
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Execute(multiply)


# %% 05.3: one number at a time
# not yet: worker cycles for a piece of 86 numbers
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Loop, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: thirteen tiles, whatever the machine
# clause: on any number of tiles
# not yet: somewhere 13 stands for the number of tiles
def in_pieces(graph, matrix, vector, result, pieces=12):
    (rows, cols), tiles = matrix.shape, 13
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: the sums on tile 0
# not yet: all 13 rows are added up on 1 tile
def in_pieces(graph, matrix, vector, result, pieces=12):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, 0)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: a price of its own
# not yet: Cheap has a cycles(self, target) of its own
class Cheap(Dot):
    def compute(self):
        self.out = self.a @ self.b

    def cycles(self):
        return 1


def in_pieces(graph, matrix, vector, result, pieces=12):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Cheap, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: pieces overlap
# why:  neighbouring pieces share a column, which is counted twice.
# next: a piece ends where the next one begins: (p + 1) * cols // pieces.
def in_pieces(graph, matrix, vector, result, pieces=12):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces + 1)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: the products on tile 0
# not yet: have to travel twice
def in_pieces(graph, matrix, vector, result, pieces=12):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    graph.set_tile_mapping(partials, 0)
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: cut in another way
# clause: Piece p is the columns
# not yet: piece p begins at p * cols // pieces
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    width = -(-cols // pieces)
    partials = graph.add_variable(FLOAT, (rows, pieces), "partials")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for piece in range(pieces):
        columns = slice(piece * width, min(cols, (piece + 1) * width))
        for row in range(rows):
            part, product = matrix[row, columns], partials[row, piece]
            vertex = graph.add_vertex(multiply, Dot, a=part, b=vector[columns], out=product)
            for placed in (vertex, part, product):
                graph.set_tile_mapping(placed, (piece * rows + row) * tiles // (rows * pieces))
    for row in range(rows):
        vertex = graph.add_vertex(add_up, Sum, x=partials[row], out=result[row])
        for placed in (vertex, result[row]):
            graph.set_tile_mapping(placed, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: stored by piece, added up by row
# why:  the products are stored piece by piece, but a sum adds them up as if they were stored row by
#   row: it reads products of several rows.
# next: let the sum of row r read products[r::rows].
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 12
    products = graph.add_variable(FLOAT, (rows * pieces,), "products")
    multiply, add_up = graph.add_compute_set("multiply"), graph.add_compute_set("add up")
    for number in range(rows * pieces):
        piece, row = divmod(number, rows)
        part = slice(piece * cols // pieces, (piece + 1) * cols // pieces)
        a = matrix[row, part]
        vertex = graph.add_vertex(multiply, Dot, a=a, b=vector[part], out=products[number])
        for tensor in (vertex, a, products[number]):
            graph.set_tile_mapping(tensor, number * tiles // (rows * pieces))
    for row in range(rows):
        x = products[row * pieces : (row + 1) * pieces]
        vertex = graph.add_vertex(add_up, Sum, x=x, out=result[row])
        for tensor in (vertex, result[row]):
            graph.set_tile_mapping(tensor, row * tiles // rows)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.4: half the inner dimension
# clause: c = a times b
# why:  not all of the inner dimension was multiplied.
# next: the last piece has to end at k.
def frugal(graph, a, b, prog):
    half = a.shape[1] // 2
    return poplin.mat_mul(graph, a[:, :half], b[:half], prog)


# %% 05.4: the second half alone
# why:  only the last piece of the inner dimension is left.
# next: add the products up: mat_mul_acc(graph, c, 1, …).
def frugal(graph, a, b, prog):
    half = a.shape[1] // 2
    poplin.mat_mul(graph, a[:, :half], b[:half], prog)
    return poplin.mat_mul(graph, a[:, half:], b[half:], prog)


# %% 05.4: the fastest plan
# clause: within both budgets
# not yet: that is the fastest plan
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog)


# %% 05.4: not little enough
# clause: in little memory
# not yet: the fullest tile still holds too much. next: cut the inner dimension
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.15)


# %% 05.4: as little as can be
# not yet: fills the tile again
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.0005)


# %% 05.4: too many steps
# clause: within both limits
# not yet: in 16 supersteps
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.01)


# %% 05.4: columns, one after another
# not yet: the columns of b are cut, and each piece needs all of a
from ipu_teach import concat


def frugal(graph, a, b, prog):
    n = b.shape[1]
    parts = [b[:, i * n // 4 : (i + 1) * n // 4] for i in range(4)]
    return concat([poplin.mat_mul(graph, a, part, prog) for part in parts if part.shape[1]], 1)


# %% 05.4: rows, one after another
# not yet: the rows of a are cut, and each piece needs all of b
from ipu_teach import concat


def frugal(graph, a, b, prog):
    m = a.shape[0]
    parts = [a[i * m // 8 : (i + 1) * m // 8] for i in range(8)]
    return concat([poplin.mat_mul(graph, part, b, prog) for part in parts if part.shape[0]], 0)


# %% 05.4: the inner dimension in halves
# not yet: the inner dimension is cut into 2 pieces
def frugal(graph, a, b, prog):
    half = a.shape[1] // 2
    c = poplin.mat_mul(graph, a[:, :half], b[:half], prog)
    poplin.mat_mul_acc(graph, c, 1, a[:, half:], b[half:], prog)
    return c


# %% 05.4: in HALF
# not yet: went through HALF
from ipu_teach.poplibs import popops


def frugal(graph, a, b, prog):
    a, b = popops.cast(graph, a, HALF, prog), popops.cast(graph, b, HALF, prog)
    return poplin.mat_mul(graph, a, b, prog, out_type=FLOAT, partials_type=FLOAT)


# %% 05.4: pieces below each other
# not yet: sets them side by side
from ipu_teach import concat


def frugal(graph, a, b, prog):
    half = b.shape[1] // 2
    parts = b[:, :half], b[:, half : 2 * half]
    return concat([poplin.mat_mul(graph, a, part, prog) for part in parts], 0)


# %% 05.4: pieces in the wrong order
# not yet: in other places
from ipu_teach import concat


def frugal(graph, a, b, prog):
    half = b.shape[1] // 2
    parts = b[:, half:], b[:, :half]
    return concat([poplin.mat_mul(graph, a, part, prog) for part in parts], 1)


# %% 05.4: the program returned
# clause: returns c.
# not yet: a program
def frugal(graph, a, b, prog):
    poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.05)
    return prog


# %% 05.4: nothing returned
# clause: and returns c
# not yet: is there a `return`
def frugal(graph, a, b, prog):
    poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.05)


# %% 05.4: a proportion of bytes
# error in the answer: give a number from 0 to 1
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, available_memory_proportion=80000)


# %% 05.4: HALF to the end
# not yet: became HALF, which ends at 65,504
from ipu_teach import HALF
from ipu_teach.poplibs import popops


def frugal(graph, a, b, prog):
    left, right = popops.cast(graph, a, HALF, prog), popops.cast(graph, b, HALF, prog)
    return poplin.mat_mul(graph, left, right, prog)


# %% 05.4: a factor of 2
# why:  all pieces but the first count twice.
# next: the number in mat_mul_acc is a factor: 1.
def frugal(graph, a, b, prog):
    ends = [i * a.shape[1] // 4 for i in range(5)]
    c = poplin.mat_mul(graph, a[:, : ends[1]], b[: ends[1]], prog)
    for begin, end in zip(ends[1:], ends[2:], strict=False):
        poplin.mat_mul_acc(graph, c, 2, a[:, begin:end], b[begin:end], prog)
    return c


# %% 05.4: taken away
# why:  all pieces but the first are taken away.
# next: the number in mat_mul_acc is a factor: 1.
def frugal(graph, a, b, prog):
    ends = [i * a.shape[1] // 4 for i in range(5)]
    c = poplin.mat_mul(graph, a[:, : ends[1]], b[: ends[1]], prog)
    for begin, end in zip(ends[1:], ends[2:], strict=False):
        poplin.mat_mul_acc(graph, c, -1, a[:, begin:end], b[begin:end], prog)
    return c


# %% 05.4: pieces that overlap
# why:  pieces are as long as k / 4, rounded up, and the last one begins before the one before it
#   has ended.
# next: let the last piece be shorter: it begins where the one before it ends.
def frugal(graph, a, b, prog):
    k = a.shape[1]
    step = -(-k // 4)
    c = poplin.mat_mul(graph, a[:, :step], b[:step], prog)
    for begin in range(step, k, step):
        begin = min(begin, k - step)
        part = slice(begin, begin + step)
        poplin.mat_mul_acc(graph, c, 1, a[:, part], b[part], prog)
    return c


# %% 05.4: the first part twice
# why:  the first part is multiplied, and then added once more in the loop.
# next: begin the loop with the second part.
def frugal(graph, a, b, prog):
    inner = a.shape[1]
    ends = [i * inner // 4 for i in range(5)]
    c = poplin.mat_mul(graph, a[:, : ends[1]], b[: ends[1]], prog)
    for begin, end in zip(ends, ends[1:], strict=False):
        poplin.mat_mul_acc(graph, c, 1, a[:, begin:end], b[begin:end], prog)
    return c


# %% 05.5: one panel at most
# clause: in all panels that k x n weights take
# why:  that is right while the weights fit into one panel. Larger ones take several, and of each
#   all places.
# next: count the panels: k / deep rounded up, times n / wide rounded up.
def filled(k, n, deep, wide):
    return min(1, k * n / (deep * wide))


# %% 05.5: one panel
# why:  a share is never above 1: larger weights take more than one panel.
# next: count the panels: k / deep rounded up, times n / wide rounded up.
def filled(k, n, deep, wide):
    return k * n / (deep * wide)


# %% 05.5: the first panel alone
# why:  this looks at the first panel alone, and weights that reach beyond it are left out.
# next: count the panels: k / deep rounded up, times n / wide rounded up.
def filled(k, n, deep, wide):
    return min(k, deep) * min(n, wide) / (deep * wide)


# %% 05.5: packed
# clause: in all panels that k x n weights take
# why:  places cannot be filled up across panels: a panel that is begun in depth and in width is a
#   whole one.
# next: round up k / deep and n / wide each by itself.
def filled(k, n, deep, wide):
    return k * n / (-(-k * n // (deep * wide)) * deep * wide)


# %% 05.5: mixed up
# clause: `deep` x `wide`
# why:  depth and width are mixed up.
# next: k goes with deep, and n with wide.
def filled(k, n, deep, wide):
    return k * n / (-(-k // wide) * -(-n // deep) * deep * wide)


# %% 05.5: depth alone
# why:  the columns play no part: this is how deep the panels are filled.
# next: multiply by how much of the width is filled.
def filled(k, n, deep, wide):
    return k / (-(-k // deep) * deep)


# %% 05.5: width alone
# why:  the depth plays no part: this is how wide the panels are filled.
# next: multiply by how much of the depth is filled.
def filled(k, n, deep, wide):
    return n / (-(-n // wide) * wide)


# %% 05.5: the mean of both
# clause: Which share of the places in a panel
# why:  this is the mean of both shares. A quarter of the depth in a quarter of the width is a
#   sixteenth.
# next: multiply the two.
def filled(k, n, deep, wide):
    return (k / (-(-k // deep) * deep) + n / (-(-n // wide) * wide)) / 2


# %% 05.5: per cent
# clause: from 0 to 1, in all
# why:  these are per cent.
# next: give a share from 0 to 1.
def filled(k, n, deep, wide):
    return 100 * k * n / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: rounded down
# why:  only panels that are full are counted as used.
# next: every place that holds a weight counts.
def filled(k, n, deep, wide):
    return (k // deep) * (n // wide) * deep * wide / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: one more panel where it fits
# why:  where a panel is just full, this begins a panel that nothing goes into.
# next: -(-a // b) is a / b, rounded up.
def filled(k, n, deep, wide):
    return k * n / ((k // deep + 1) * (n // wide + 1) * deep * wide)


# %% 05.5: rounded to two digits
# not yet: then rounded to 2 digits
def filled(k, n, deep, wide):
    return round(k * n / (-(-k // deep) * -(-n // wide) * deep * wide), 2)


# %% 05.5: panels added
# why:  panels in depth and in width are added, and each of one row of them stands in each column.
# next: multiply the two numbers of panels.
def filled(k, n, deep, wide):
    return k * n / ((-(-k // deep) + -(-n // wide)) * deep * wide)


# %% 05.5: weights added
# why:  k x n weights are a product, and here they were added.
# next: k * n.
def filled(k, n, deep, wide):
    return (k + n) / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: rounded to the nearest
# why:  the number of panels was rounded to the nearest. One that is begun is a whole one.
# next: round up: -(-k // deep).
def filled(k, n, deep, wide):
    return k * n / (max(1, round(k / deep)) * max(1, round(n / wide)) * deep * wide)


# %% 05.5: upside down
# why:  that is how many places there are for a weight. Asked is which share of them holds one.
# next: weights divided by places.
def filled(k, n, deep, wide):
    return -(-k // deep) * -(-n // wide) * deep * wide / (k * n)


# %% 05.5: what stays empty
# why:  this is the share of the places that stay empty.
# next: 1 less that.
def filled(k, n, deep, wide):
    return 1 - k * n / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: the poorer of the two
# why:  this is the smaller of two shares, of the depth and of the width. Both leave places empty.
# next: multiply the two.
def filled(k, n, deep, wide):
    return min(k / (-(-k // deep) * deep), n / (-(-n // wide) * wide))


# %% 05.5: the last panel alone
# why:  this is how full the last panel is. Those before it are fuller.
# next: all weights, by all places of all panels.
def filled(k, n, deep, wide):
    return ((k - 1) % deep + 1) * ((n - 1) % wide + 1) / (deep * wide)


# %% 05.w1: a round for each vertex
# clause: A vertex takes 7 cycles of its worker
# why:  three vertices on six workers are one round: they work side by side.
# next: 6 x 7 cycles for multiplying.
four_parts = 2, 126, 4, 54


# %% 05.w1: the whole vector
# clause: each cut into 4, on 4 tiles
# why:  the vector has 8 numbers, and a tile whose pieces are of one column needs 2 of them.
# next: a part is as long as a piece.
four_parts = 8, 42, 4, 54


# %% 05.w1: worker cycles
# clause: How many cycles of the fullest tile
# why:  these are cycles of a worker, which has its turn in one cycle of six.
# next: times six, for multiplying and for adding up.
four_parts = 2, 7, 4, 9


# %% 05.w1: three of four
# clause: each of the four parts
# not yet: 4 values are asked for
four_parts = 2, 42, 54


# %% 05.w1: a part for each piece
# why:  pieces 0, 1 and 2 are of the same two columns, so that a tile needs one part of the vector.
# next: count a part once for each of the columns' parts that the tile's pieces need.
four_parts = 6, 42, 4, 54


# %% 05.w1: without its own partial result
# why:  the estimate counts all four partial results of a row, the tile's own one among them.
# next: rows of a tile times pieces of a row.
four_parts = 2, 42, 3, 54


# %% 05.w1: a sum for each piece
# why:  a tile adds up one row: one vertex for its four partial results.
# next: 6 x 9 cycles for adding up.
four_parts = 2, 42, 4, 216


# %% 05.w1: bytes
# why:  4 bytes arrive in a cycle: what comes is 2 FLOATs and then 4, a cycle each.
# next: give cycles, for all four.
four_parts = 8, 42, 16, 54


# %% 05.w1: another order
# clause: in their order
# why:  these are the right numbers, in another order.
# next: the vector comes, tiles multiply, pieces come back, tiles add up.
four_parts = 42, 2, 54, 4


# %% 05.w1: six workers share a vertex
# why:  a vertex runs on one worker, which has one cycle of six.
# next: times six: as long as the worker with most to do.
four_parts = 2, 21, 4, 9


# %% 05.w2: the whole row twice
# clause: A program that leaves the products of both halves
# why:  both vertices have the whole row: each half should have a vertex of its own.
# next: row[:half] and vector[:half] for the first, row[half:] and vector[half:] for the second.
def two_halves(graph, row, vector, halves):
    work = graph.add_compute_set("halves")
    for i in range(2):
        vertex = graph.add_vertex(work, Dot, a=row, b=vector, out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: one after the other
# clause: in one compute set
# not yet: two vertices of one compute set work at the same time
def two_halves(graph, row, vector, halves):
    half, program = row.num_elements // 2, Sequence()
    for i, part in enumerate((slice(0, half), slice(half, row.num_elements))):
        work = graph.add_compute_set(f"half {i}")
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[part], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
        program.add(Execute(work))
    return program


# %% 05.w2: the beginning of the vector for both
# clause: `halves[1]` that of the others
# error in the answer: Dot.compute() failed: ValueError: @ was given 4 numbers and 5
def two_halves(graph, row, vector, halves):
    half, work = row.num_elements // 2, graph.add_compute_set("halves")
    for i, part in enumerate((slice(0, half), slice(half, row.num_elements))):
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[: half + 1], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: the halves changed places
# clause: `halves[0]` gets the product
# why:  halves[0] has the product of the second half, and halves[1] that of the first.
# next: the numbers up to `half` go with halves[0].
def two_halves(graph, row, vector, halves):
    half, work = row.num_elements // 2, graph.add_compute_set("halves")
    for i, part in enumerate((slice(half, row.num_elements), slice(half))):
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[part], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: every other number
# why:  one vertex has the numbers at even places, the other those at odd ones.
# next: the first half is row[:half], side by side.
def two_halves(graph, row, vector, halves):
    work = graph.add_compute_set("halves")
    for i in range(2):
        vertex = graph.add_vertex(work, Dot, a=row[i::2], b=vector[i::2], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: the first half rounded up
# why:  of an odd number of numbers, the one in the middle is in the first half here.
# next: row.num_elements // 2 rounds down: the first half is the shorter one.
def two_halves(graph, row, vector, halves):
    half, work = (row.num_elements + 1) // 2, graph.add_compute_set("halves")
    for i, part in enumerate((slice(0, half), slice(half, row.num_elements))):
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[part], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: the last number is lost
# clause: `halves[1]` that of the others
# why:  of an odd number of numbers the last one is in neither half.
# next: let the second one go on to the end: row[half:].
def two_halves(graph, row, vector, halves):
    half, work = row.num_elements // 2, graph.add_compute_set("halves")
    for i in range(2):
        part = slice(i * half, (i + 1) * half)
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[part], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: the first half of the vector for both
# clause: `halves[1]` that of the others
# why:  the second half of the row is multiplied by numbers from the beginning of the vector.
# next: connect the second vertex to the same slice of both: row[half:] and vector[half:].
def two_halves(graph, row, vector, halves):
    half, work = row.num_elements // 2, graph.add_compute_set("halves")
    for i, part in enumerate((row[:half], row[half:])):
        b = vector[: part.num_elements]
        graph.set_tile_mapping(graph.add_vertex(work, Dot, a=part, b=b, out=halves[i]), 0)
    return Execute(work)


# %% 05.w3: the rows
# clause: what does a piece need of a
# why:  each piece of the rows needs all of b, so nearly as much comes for a while as before.
# next: choose the cut whose pieces need a quarter of a and a quarter of b.
which = "rows"


# %% 05.w3: the columns
# clause: Which of the three keeps both limits?
# why:  that saves memory and is too slow: a piece leaves each of 13 tiles four columns, in a panel
#   that is 16 wide.
# next: choose the cut that leaves all columns of b in each piece, and not all of b.
which = "columns"
