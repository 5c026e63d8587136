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
# clause: The program has one vertex for each row
# why:  the last row is never multiplied, so its element of result is empty.
# next: loop over range(matrix.shape[0]): it ends with the last row.
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
# why:  the last column is left out.
# next: loop to the end of the row: range(len(self.a)).
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
# why:  each product overwrites the one before, so out is the last product.
# next: add up the products in a variable, and store it in self.out after the loop.
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
# why:  these are the sums of the rows: the vector is not used.
# next: multiply each number of the row by the number of the vector at the same index.
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
# why:  this adds the row and the vector instead of multiplying them.
# next: add up a[i] * b[i].
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
# why:  the vector is read from its end.
# next: multiply element i of the row by element i of the vector.
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
# why:  the products are right, but in the wrong order.
# next: connect the vertex of row r to result[r].
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
# why:  every row has the product of the first row.
# next: connect the vertex of row r to matrix[r].
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
# clause: over the tiles as evenly as possible
# not yet: 12 tiles are idle
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
# clause: as evenly as possible
# not yet: all goes to the last tile
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
# not yet: the number of rows per tile is rounded up
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
# clause: The program has one vertex for each row
# not yet: so that rows can be distributed
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
# not yet: the answer uses 13 as the number of tiles
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
# not yet: here only 13 of them have work
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
# clause: The vector stays where it is
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
# clause: Write two things
# not yet: compute() returns its result, which is ignored
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
# clause: The program may run more than once.
# not yet: self.total is state, which is kept from run to run
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
# clause: Estimate the tile cycles
# why:  this is the mean over the tiles. A superstep takes as long as its fullest tile.
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
# why:  the number of pieces per tile is rounded down, but some tiles have one more, and all tiles
#   wait for them.
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
# why:  this divides a vertex among six workers. A vertex runs on one worker, so the seventh vertex
#   needs another round.
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
# why:  these are worker cycles. A worker gets one cycle in six.
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
# why:  each vertex is counted six times, but the six workers run at the same time.
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
# clause: with each row split into `pieces`
# why:  cols // pieces is the shortest piece, but the longest one decides.
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
# why:  the exchange of the vector is left out.
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
# why:  every tile receives the whole vector here, but a tile needs only the columns of its pieces.
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
# why:  the same part of the vector is counted once per piece, but it arrives only once.
# next: divide the tile's pieces by rows, and round up: that many parts arrive.
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
# why:  this adds up one row per tile, but a tile can have several.
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
# why:  this assumes that exchange and compute overlap. On this machine they follow one another.
# next: add up all four parts.
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
# why:  this assumes that the vector arrives while the tiles multiply. On this machine multiplying
#   begins after the exchange.
# next: add up all four parts.
def planned(rows, cols, pieces, tiles, dot, add):

    def up(a, b):
        return -(-a // b)

    dealt, summed, longest = up(rows * pieces, tiles), up(rows, tiles), up(cols, pieces)
    comes = up(dealt, rows) * longest
    multiply = 6 * up(dealt, 6) * dot(longest)
    return max(comes, multiply) + summed * pieces + 6 * up(summed, 6) * add(pieces)


# %% 05.2: dot in place of add
# clause: `dot(n)` and `add(n)`
# why:  the sums have the price of dot products.
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
# why:  the price is always Graphcore's guess. The function gets its prices as dot and add.
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
# why:  these are bytes: a tile receives four of them per cycle.
# next: count one cycle for each FLOAT that arrives, not four.
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
# why:  the second superstep is left out: it adds up the products of each row.
# next: add parts 3 and 4: the products that arrive, and the sums.
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
# why:  the second exchange is left out: the products are copied to the tile that adds them up.
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
# why:  the second superstep also computes: it adds up the products of each row.
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
# why:  this is the largest of the four parts. They follow one another.
# next: add up all four parts.
def planned(rows, cols, pieces, tiles, dot, add):
    def up(a, b):
        return -(-a // b)

    dealt, longest, summed = up(rows * pieces, tiles), up(cols, pieces), up(rows, tiles)
    multiply, add_up = 6 * up(dealt, 6) * dot(longest), 6 * up(summed, 6) * add(pieces)
    return max(up(dealt, rows) * longest, multiply, summed * pieces, add_up)


# %% 05.2: one round
# why:  a tile with more than six pieces needs several rounds, but here each part has one.
# next: multiply by the rounds: 6 * up(pieces on the tile, 6) * dot(longest), and the same for the
#   sums.
def planned(rows, cols, pieces, tiles, dot, add):
    def up(a, b):
        return -(-a // b)

    dealt, longest, summed = up(rows * pieces, tiles), up(cols, pieces), up(rows, tiles)
    return up(dealt, rows) * longest + 6 * dot(longest) + summed * pieces + 6 * add(pieces)


# %% 05.2: dot and add changed places
# why:  dot and add are swapped: products have the price of sums, and sums that of products.
# next: use dot(longest) in part 2 and add(pieces) in part 4.
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
# clause: return the sum of all four parts
# why:  these are the four parts, as separate numbers.
# next: return their sum.
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
# why:  the last columns belong to no piece: // drops the remainder of the division.
# next: let piece p begin at p * cols // pieces; then the last piece ends at cols.
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
# clause: The second adds up, with a `Sum` for each row
# why:  result has only the first piece of each row.
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
# why:  result has only the last piece of each row.
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
# why:  the last piece of each row is left out.
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
# why:  every piece is multiplied by the beginning of the vector.
# next: multiply columns begin:end of the row by vector[begin:end].
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
# why:  the last row is never multiplied, so its element of result is empty.
# next: loop over range(matrix.shape[0]): it ends with the last row.
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
# not yet: five of its six workers are idle
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
# clause: choose the number yourself
# not yet: in the last round some are idle
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
# not yet: takes the time that is saved
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
# not yet: of the matrix: its pieces are copied, too
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
# clause: with each row split into `pieces`
# not yet: as the call says
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
# clause: Write the program with two compute sets
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
# not yet: the answer uses 13 as the number of tiles
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
# why:  neighbouring pieces share a column, so it is counted twice.
# next: end a piece where the next one begins: (p + 1) * cols // pieces.
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
# not yet: are copied twice
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
# clause: Piece p has the columns
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
# clause: Append c = a times b
# why:  not all of the inner dimension is multiplied.
# next: let the last piece end at a.shape[1].
def frugal(graph, a, b, prog):
    half = a.shape[1] // 2
    return poplin.mat_mul(graph, a[:, :half], b[:half], prog)


# %% 05.4: the second half alone
# why:  the result has only the last piece of the inner dimension.
# next: add up the products: mat_mul_acc(graph, c, 1, …).
def frugal(graph, a, b, prog):
    half = a.shape[1] // 2
    poplin.mat_mul(graph, a[:, :half], b[:half], prog)
    return poplin.mat_mul(graph, a[:, half:], b[half:], prog)


# %% 05.4: the fastest plan
# clause: within both limits
# not yet: this is the fastest plan
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog)


# %% 05.4: not little enough
# clause: with little memory
# not yet: the fullest tile still holds too much. next: split the inner dimension
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
# not yet: the columns of b are split, and each piece needs all of a
from ipu_teach import concat


def frugal(graph, a, b, prog):
    n = b.shape[1]
    parts = [b[:, i * n // 4 : (i + 1) * n // 4] for i in range(4)]
    return concat([poplin.mat_mul(graph, a, part, prog) for part in parts if part.shape[1]], 1)


# %% 05.4: rows, one after another
# not yet: the rows of a are split, and each piece needs all of b
from ipu_teach import concat


def frugal(graph, a, b, prog):
    m = a.shape[0]
    parts = [a[i * m // 8 : (i + 1) * m // 8] for i in range(8)]
    return concat([poplin.mat_mul(graph, part, b, prog) for part in parts if part.shape[0]], 0)


# %% 05.4: the inner dimension in halves
# not yet: the inner dimension is split into 2 pieces
def frugal(graph, a, b, prog):
    half = a.shape[1] // 2
    c = poplin.mat_mul(graph, a[:, :half], b[:half], prog)
    poplin.mat_mul_acc(graph, c, 1, a[:, half:], b[half:], prog)
    return c


# %% 05.4: in HALF
# not yet: converted to HALF
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
# not yet: in other positions
from ipu_teach import concat


def frugal(graph, a, b, prog):
    half = b.shape[1] // 2
    parts = b[:, half:], b[:, :half]
    return concat([poplin.mat_mul(graph, a, part, prog) for part in parts], 1)


# %% 05.4: the program returned
# clause: return c.
# not yet: a program
def frugal(graph, a, b, prog):
    poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.05)
    return prog


# %% 05.4: nothing returned
# clause: return c
# not yet: is there a `return`
def frugal(graph, a, b, prog):
    poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.05)


# %% 05.4: a proportion of bytes
# error in the answer: give a number from 0 to 1
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, available_memory_proportion=80000)


# %% 05.4: HALF to the end
# not yet: converted to HALF, whose largest value is 65,504
from ipu_teach import HALF
from ipu_teach.poplibs import popops


def frugal(graph, a, b, prog):
    left, right = popops.cast(graph, a, HALF, prog), popops.cast(graph, b, HALF, prog)
    return poplin.mat_mul(graph, left, right, prog)


# %% 05.4: a factor of 2
# why:  all pieces but the first count twice: the number in mat_mul_acc is a factor.
# next: use the factor 1.
def frugal(graph, a, b, prog):
    ends = [i * a.shape[1] // 4 for i in range(5)]
    c = poplin.mat_mul(graph, a[:, : ends[1]], b[: ends[1]], prog)
    for begin, end in zip(ends[1:], ends[2:], strict=False):
        poplin.mat_mul_acc(graph, c, 2, a[:, begin:end], b[begin:end], prog)
    return c


# %% 05.4: taken away
# why:  all pieces but the first are subtracted: the number in mat_mul_acc is a factor.
# next: use the factor 1.
def frugal(graph, a, b, prog):
    ends = [i * a.shape[1] // 4 for i in range(5)]
    c = poplin.mat_mul(graph, a[:, : ends[1]], b[: ends[1]], prog)
    for begin, end in zip(ends[1:], ends[2:], strict=False):
        poplin.mat_mul_acc(graph, c, -1, a[:, begin:end], b[begin:end], prog)
    return c


# %% 05.4: pieces that overlap
# why:  the length of a piece is k / 4 rounded up, and the last piece begins before the previous one
#   ends.
# next: let the last piece be shorter: begin it where the previous one ends.
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
# why:  the first part is multiplied, and then added again in the loop.
# next: begin the loop with the second part.
def frugal(graph, a, b, prog):
    inner = a.shape[1]
    ends = [i * inner // 4 for i in range(5)]
    c = poplin.mat_mul(graph, a[:, : ends[1]], b[: ends[1]], prog)
    for begin, end in zip(ends, ends[1:], strict=False):
        poplin.mat_mul_acc(graph, c, 1, a[:, begin:end], b[begin:end], prog)
    return c


# %% 05.5: one panel at most
# clause: in all panels they need
# why:  this is right only if the weights fit into one panel. Larger weights need several, and all
#   places of each count.
# next: count the panels: k / deep rounded up, times n / wide rounded up.
def filled(k, n, deep, wide):
    return min(1, k * n / (deep * wide))


# %% 05.5: one panel
# why:  a share is never above 1: larger weights need more than one panel.
# next: count the panels: k / deep rounded up, times n / wide rounded up.
def filled(k, n, deep, wide):
    return k * n / (deep * wide)


# %% 05.5: the first panel alone
# why:  this looks only at the first panel, and leaves out the weights in the others.
# next: count the panels: k / deep rounded up, times n / wide rounded up.
def filled(k, n, deep, wide):
    return min(k, deep) * min(n, wide) / (deep * wide)


# %% 05.5: packed
# clause: in all panels they need
# why:  this fills the panels without gaps. But a panel that is partly used in depth or in width
#   counts as a whole panel.
# next: round up k / deep and n / wide separately.
def filled(k, n, deep, wide):
    return k * n / (-(-k * n // (deep * wide)) * deep * wide)


# %% 05.5: mixed up
# clause: `deep` x `wide`
# why:  depth and width are swapped.
# next: divide k by deep, and n by wide.
def filled(k, n, deep, wide):
    return k * n / (-(-k // wide) * -(-n // deep) * deep * wide)


# %% 05.5: depth alone
# why:  the columns are not used: this is the share of the depth.
# next: multiply by the share of the width.
def filled(k, n, deep, wide):
    return k / (-(-k // deep) * deep)


# %% 05.5: width alone
# why:  the depth is not used: this is the share of the width.
# next: multiply by the share of the depth.
def filled(k, n, deep, wide):
    return n / (-(-n // wide) * wide)


# %% 05.5: the mean of both
# clause: Which share of the places in a panel
# why:  this is the mean of both shares. A quarter of the depth in a quarter of the width is a
#   sixteenth.
# next: multiply the two shares.
def filled(k, n, deep, wide):
    return (k / (-(-k // deep) * deep) + n / (-(-n // wide) * wide)) / 2


# %% 05.5: per cent
# clause: from 0 to 1, in all panels
# why:  this is a percentage.
# next: return a share from 0 to 1.
def filled(k, n, deep, wide):
    return 100 * k * n / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: rounded down
# why:  this counts only panels that are full.
# next: count all weights, also those in panels that are partly empty: k * n.
def filled(k, n, deep, wide):
    return (k // deep) * (n // wide) * deep * wide / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: one more panel where it fits
# why:  if a panel is exactly full, this adds an empty one.
# next: use -(-a // b): it is a / b, rounded up.
def filled(k, n, deep, wide):
    return k * n / ((k // deep + 1) * (n // wide + 1) * deep * wide)


# %% 05.5: rounded to two digits
# not yet: then rounded to 2 digits
def filled(k, n, deep, wide):
    return round(k * n / (-(-k // deep) * -(-n // wide) * deep * wide), 2)


# %% 05.5: panels added
# why:  this adds the numbers of panels in depth and in width. Panels form a grid.
# next: multiply the two numbers of panels.
def filled(k, n, deep, wide):
    return k * n / ((-(-k // deep) + -(-n // wide)) * deep * wide)


# %% 05.5: weights added
# why:  this adds k and n. The number of weights is their product.
# next: use k * n.
def filled(k, n, deep, wide):
    return (k + n) / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: rounded to the nearest
# why:  the number of panels is rounded to the nearest integer. A panel that is partly used is a
#   whole panel.
# next: round up: -(-k // deep).
def filled(k, n, deep, wide):
    return k * n / (max(1, round(k / deep)) * max(1, round(n / wide)) * deep * wide)


# %% 05.5: upside down
# why:  this is the number of places per weight. The exercise asks for the share of places that have
#   a weight.
# next: divide the weights by the places.
def filled(k, n, deep, wide):
    return -(-k // deep) * -(-n // wide) * deep * wide / (k * n)


# %% 05.5: what stays empty
# clause: Which share of the places has a weight?
# why:  this is the share of the places that are empty.
# next: subtract it from 1.
def filled(k, n, deep, wide):
    return 1 - k * n / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: the poorer of the two
# why:  this is the smaller of two shares, that of the depth and that of the width. Both leave
#   places empty.
# next: multiply the two shares.
def filled(k, n, deep, wide):
    return min(k / (-(-k // deep) * deep), n / (-(-n // wide) * wide))


# %% 05.5: the last panel alone
# why:  this is the share of the last panel. The panels before it are fuller.
# next: divide all weights by all places of all panels.
def filled(k, n, deep, wide):
    return ((k - 1) % deep + 1) * ((n - 1) % wide + 1) / (deep * wide)


# %% 05.w1: a round for each vertex
# clause: A vertex takes 7 worker cycles for a piece
# why:  three vertices on six workers are one round: they run at the same time.
# next: count 6 x 7 cycles for multiplying.
four_parts = 2, 126, 4, 54


# %% 05.w1: the whole vector
# clause: each split into 4 pieces, on 4 tiles
# why:  the vector has 8 numbers, but the pieces of a tile are of the same two columns, so it needs
#   2 of them.
# next: count one part of the vector, as long as a piece.
four_parts = 8, 42, 4, 54


# %% 05.w1: worker cycles
# clause: How many cycles does the fullest tile need
# why:  these are worker cycles. A worker gets one cycle in six.
# next: multiply by six, in parts 2 and 4.
four_parts = 2, 7, 4, 9


# %% 05.w1: three of four
# clause: each of the four parts
# not yet: 4 values are asked for
four_parts = 2, 42, 54


# %% 05.w1: a part for each piece
# why:  pieces 0, 1 and 2 are of the same two columns, so the tile needs one part of the vector.
# next: count that part once.
four_parts = 6, 42, 4, 54


# %% 05.w1: without its own partial result
# why:  the plan counts all four products of a row, also the one that is on the tile already.
# next: multiply the rows of a tile by the pieces of a row.
four_parts = 2, 42, 3, 54


# %% 05.w1: a sum for each piece
# why:  a tile adds up one row, with one vertex for its four products.
# next: count 6 x 9 cycles for adding up.
four_parts = 2, 42, 4, 216


# %% 05.w1: bytes
# why:  these are bytes in parts 1 and 3. The tile receives 2 and 4 FLOATs, and each takes one
#   cycle.
# next: give cycles for all four parts.
four_parts = 8, 42, 16, 54


# %% 05.w1: another order
# clause: in order
# why:  the numbers are right, but in another order.
# next: use this order: receive the vector, multiply, receive the products, add up.
four_parts = 42, 2, 54, 4


# %% 05.w1: six workers share a vertex
# why:  this divides the three vertices among six workers. A vertex runs on one worker, which gets
#   one cycle in six.
# next: multiply the cycles of the busiest worker by six.
four_parts = 2, 21, 4, 9


# %% 05.w2: the whole row twice
# clause: Return a program that writes both dot products
# why:  both vertices get the whole row. Each half needs its own vertex.
# next: connect row[:half] and vector[:half] to the first vertex, row[half:] and vector[half:] to
#   the second.
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
# clause: `halves[1]` that of the remaining ones
# error in the answer: Dot.compute() failed: ValueError: @ was given 4 numbers and 5
def two_halves(graph, row, vector, halves):
    half, work = row.num_elements // 2, graph.add_compute_set("halves")
    for i, part in enumerate((slice(0, half), slice(half, row.num_elements))):
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[: half + 1], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: the halves changed places
# clause: `halves[0]` gets the dot product
# why:  halves[0] has the product of the second half, and halves[1] that of the first.
# next: connect row[:half] and vector[:half] to the vertex of halves[0].
def two_halves(graph, row, vector, halves):
    half, work = row.num_elements // 2, graph.add_compute_set("halves")
    for i, part in enumerate((slice(half, row.num_elements), slice(half))):
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[part], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: every other number
# why:  one vertex has the numbers at even indices, the other those at odd ones.
# next: use contiguous halves: row[:half] and row[half:].
def two_halves(graph, row, vector, halves):
    work = graph.add_compute_set("halves")
    for i in range(2):
        vertex = graph.add_vertex(work, Dot, a=row[i::2], b=vector[i::2], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: the first half rounded up
# why:  if the row has an odd length, the first half is the longer one here.
# next: round down, with row.num_elements // 2: the first half is the shorter one.
def two_halves(graph, row, vector, halves):
    half, work = (row.num_elements + 1) // 2, graph.add_compute_set("halves")
    for i, part in enumerate((slice(0, half), slice(half, row.num_elements))):
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[part], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: the last number is lost
# clause: `halves[1]` that of the remaining ones
# why:  if the row has an odd length, the last number is in neither half.
# next: let the second half end at the end of the row: row[half:].
def two_halves(graph, row, vector, halves):
    half, work = row.num_elements // 2, graph.add_compute_set("halves")
    for i in range(2):
        part = slice(i * half, (i + 1) * half)
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[part], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: the first half of the vector for both
# clause: `halves[1]` that of the remaining
# why:  the second half of the row is multiplied by numbers from the beginning of the vector.
# next: connect the second vertex to the same slice of both: row[half:] and vector[half:].
def two_halves(graph, row, vector, halves):
    half, work = row.num_elements // 2, graph.add_compute_set("halves")
    for i, part in enumerate((row[:half], row[half:])):
        b = vector[: part.num_elements]
        graph.set_tile_mapping(graph.add_vertex(work, Dot, a=part, b=b, out=halves[i]), 0)
    return Execute(work)


# %% 05.w3: the rows
# clause: which part of a does a piece need
# why:  each piece of the rows needs all of b, so it needs nearly as much memory as before.
# next: choose the split whose pieces need a quarter of a and a quarter of b.
which = "rows"


# %% 05.w3: the columns
# clause: Which of the three keeps both limits?
# why:  this saves memory, but is too slow: each of 13 tiles gets four columns, in a unit that is 16
#   wide.
# next: choose the split that needs only a quarter of b, but keeps all of its columns.
which = "columns"
