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
# why:  the last row has no vertex, so its element of `result` is never written.
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
# why:  the loop leaves out the last column.
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
# why:  these are the sums of the rows, since the codelet does not read the vector.
# next: add up self.a[i] * self.b[i].
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
# why:  this adds the numbers of the row and the vector, instead of multiplying them.
# next: add up self.a[i] * self.b[i].
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
# why:  the vector is read from its end to its beginning.
# next: add up self.a[i] * self.b[i], with the same i in both.
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
# why:  the dot products are right, but they are in the wrong elements of `result`.
# next: connect the vertex of row r to out=result[r].
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
# why:  every element of `result` has the product of row 0.
# next: connect the vertex of row r to a=matrix[r].
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
# error in the answer: are not mapped to any tile
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
# not yet: the last tile gets all rows of the remainder
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
# not yet: 1 tile has no vertex
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
# not yet: have no vertex, and must wait for the tile with the most
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
# not yet: The other bytes are rows or results
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
# not yet: since a single vertex runs on only one tile
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
# not yet: the code uses the constant 13 for the number of tiles
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
# not yet: here only 13 of the tiles have vertices
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
# not yet: the tile mapping of `vector` is fixed
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
# not yet: compute() returns its result, but the returned value is lost
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
# not yet: self.total is state, which keeps its value between runs
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
# why:  this uses the mean number of pieces per tile, but a superstep takes as long as its fullest
#   tile.
# next: count the pieces and the rows of the fullest tile: round up.
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
# why:  the number of pieces per tile is rounded down, but the fullest tile has one more, and all
#   tiles wait for it.
# next: divide, and round up: -(-a // b).
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
# why:  this divides each vertex among six workers, but a vertex runs on one worker, so a seventh
#   vertex needs another round.
# next: multiply the cycles of a vertex by 6, and by the number of rounds: vertices / 6, rounded up.
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
# why:  these are worker cycles, but a worker gets only one tile cycle in six.
# next: multiply parts 2 and 4 by 6.
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
# next: multiply by the number of rounds (vertices / 6, rounded up) instead of the number of
#   vertices.
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
# why:  cols // pieces is the length of the shortest piece, but the tiles wait for the longest one.
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
# why:  part 1 is left out: each tile must receive its slices of the vector.
# next: add part 1: the length of a slice, times the number of slices that the fullest tile needs.
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
# why:  every tile receives the whole vector here, but it needs only the columns of its pieces.
# next: multiply the length of a slice by the number of slices that the fullest tile needs.
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
# why:  each piece receives its own slice of the vector, but pieces of the same columns share one
#   slice.
# next: count a slice once for all pieces of the tile that share it.
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
# why:  every tile receives one slice of the vector, but a tile with more than `rows` pieces needs
#   several.
# next: multiply the length of a slice by the number of slices that the fullest tile needs.
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
# why:  parts 3 and 4 count one row per tile, but the fullest tile adds up rows / tiles rows,
#   rounded up.
# next: multiply part 3 by that number of rows, and part 4 by its rounds of six workers.
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
# why:  this lets exchange and compute overlap, but on this machine they follow one another.
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
# why:  this lets the vector arrive while the tiles multiply, but they begin only after the
#   exchange.
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
# why:  part 4 uses the price of a dot product, but the second superstep only adds.
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
# why:  the prices are always Graphcore's guess, but the arguments `dot` and `add` give the prices.
# next: use dot(…) in part 2 and add(…) in part 4.
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
# why:  parts 1 and 3 count bytes, but a tile receives four bytes, one FLOAT, per cycle.
# next: count one cycle for each FLOAT that arrives.
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
# why:  the second superstep, which adds up the products of each row, is left out.
# next: add part 3, the products that arrive, and part 4, the sums.
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
# why:  part 3 is left out: the products must be copied to the tile that adds them up.
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
# why:  part 4 is left out: the second superstep adds up the products of each row.
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
# why:  this is the largest of the four parts, but the parts follow one another.
# next: add up all four parts.
def planned(rows, cols, pieces, tiles, dot, add):
    def up(a, b):
        return -(-a // b)

    dealt, longest, summed = up(rows * pieces, tiles), up(cols, pieces), up(rows, tiles)
    multiply, add_up = 6 * up(dealt, 6) * dot(longest), 6 * up(summed, 6) * add(pieces)
    return max(up(dealt, rows) * longest, multiply, summed * pieces, add_up)


# %% 05.2: one round
# why:  this counts one round of six workers, but a tile with more than six pieces needs several.
# next: multiply part 2 by the rounds of pieces, and part 4 by the rounds of rows: the number on the
#   fullest tile / 6, rounded up.
def planned(rows, cols, pieces, tiles, dot, add):
    def up(a, b):
        return -(-a // b)

    dealt, longest, summed = up(rows * pieces, tiles), up(cols, pieces), up(rows, tiles)
    return up(dealt, rows) * longest + 6 * dot(longest) + summed * pieces + 6 * add(pieces)


# %% 05.2: dot and add changed places
# why:  `dot` and `add` are swapped: part 2 has the price of sums, and part 4 that of dot products.
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
# why:  this returns the four parts as separate numbers.
# next: return the sum of the four parts.
def planned(rows, cols, pieces, tiles, dot, add):
    dealt, longest, summed = -(-rows * pieces // tiles), -(-cols // pieces), -(-rows // tiles)
    return (
        -(-dealt // rows) * longest,
        6 * -(-dealt // 6) * dot(longest),
        summed * pieces,
        6 * -(-summed // 6) * add(pieces),
    )


# %% 05.2: one round of sums
# why:  part 4 counts one round of six workers, but a tile with more than six rows needs several.
# next: multiply part 4 by its rounds of six workers, as in part 2.
def planned(rows, cols, pieces, tiles, dot, add):
    def up(a, b):
        return -(-a // b)

    dealt, longest, summed = up(rows * pieces, tiles), up(cols, pieces), up(rows, tiles)
    multiply, add_up = 6 * up(dealt, 6) * dot(longest), 6 * add(pieces)
    return up(dealt, rows) * longest + multiply + summed * pieces + add_up


# %% 05.3: tail dropped
# why:  the last columns belong to no piece: // drops the remainder of the division.
# next: let piece p go from p * cols // pieces to (p + 1) * cols // pieces; then the last piece ends
#   at cols.
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
# why:  `result` has the product of only the first piece of each row.
# next: add up all pieces of a row: connect the Sum of a row to x=partials[row].
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
# why:  `result` has the product of only the last piece of each row.
# next: add up all pieces of a row: connect the Sum of a row to x=partials[row].
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
# next: add up all pieces of a row: connect the Sum of a row to x=partials[row].
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
# why:  the last row is missing, so its element of `result` is never written.
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
# not yet: five of six workers are idle
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
# not yet: since its pieces cover many columns
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
# clause: your function chooses the number of pieces
# not yet: in the last round some workers are idle
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
# not yet: takes longer than the split saves
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
# not yet: bytes of the matrix, since some pieces are mapped to other tiles
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
# not yet: that the argument `pieces` gives
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
# not yet: all tiles wait for the fullest one
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
# not yet: nothing was written into `result`
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
# not yet: the code uses the constant 13 for the number of tiles
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
# why:  two neighbouring pieces share a column, so its product is added twice.
# next: end piece p where the next piece begins: at (p + 1) * cols // pieces.
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
# not yet: piece p should begin at p * cols // pieces
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
# why:  the products are stored piece by piece, but each sum reads them as if they were stored row
#   by row.
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
# why:  the last columns of `a` and the last rows of `b` are not multiplied.
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
# not yet: the fullest tile still holds too many bytes. next: split the inner dimension
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.15)


# %% 05.4: as little as can be
# not yet: the code for all these steps fills the tile again
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.0005)


# %% 05.4: too many steps
# clause: within both limits
# not yet: fits in 16 supersteps
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.01)


# %% 05.4: columns, one after another
# not yet: the columns of `b` are split, so each piece needs all of `a`
from ipu_teach import concat


def frugal(graph, a, b, prog):
    n = b.shape[1]
    parts = [b[:, i * n // 4 : (i + 1) * n // 4] for i in range(4)]
    return concat([poplin.mat_mul(graph, a, part, prog) for part in parts if part.shape[1]], 1)


# %% 05.4: rows, one after another
# not yet: the rows of `a` are split, so each piece needs all of `b`
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
# not yet: some numbers are converted to HALF, which has only about three digits
from ipu_teach.poplibs import popops


def frugal(graph, a, b, prog):
    a, b = popops.cast(graph, a, HALF, prog), popops.cast(graph, b, HALF, prog)
    return poplin.mat_mul(graph, a, b, prog, out_type=FLOAT, partials_type=FLOAT)


# %% 05.4: the first piece twice
# clause: Append c = a times b
# not yet: the first 64 numbers of the inner dimension are added twice
def frugal(graph, a, b, prog):
    c = poplin.mat_mul(graph, a[:, :64], b[:64], prog)
    for begin in range(0, a.shape[1], 64):
        poplin.mat_mul_acc(graph, c, 1, a[:, begin : begin + 64], b[begin : begin + 64], prog)
    return c


# %% 05.4: pieces below each other
# not yet: puts them side by side
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
# not yet: some numbers are converted to HALF, which ends at 65,504
from ipu_teach import HALF
from ipu_teach.poplibs import popops


def frugal(graph, a, b, prog):
    left, right = popops.cast(graph, a, HALF, prog), popops.cast(graph, b, HALF, prog)
    return poplin.mat_mul(graph, left, right, prog)


# %% 05.4: a factor of 2
# why:  all pieces but the first are added twice: the number in mat_mul_acc is a factor.
# next: call mat_mul_acc with the factor 1.
def frugal(graph, a, b, prog):
    ends = [i * a.shape[1] // 4 for i in range(5)]
    c = poplin.mat_mul(graph, a[:, : ends[1]], b[: ends[1]], prog)
    for begin, end in zip(ends[1:], ends[2:], strict=False):
        poplin.mat_mul_acc(graph, c, 2, a[:, begin:end], b[begin:end], prog)
    return c


# %% 05.4: taken away
# why:  all pieces but the first are subtracted: the number in mat_mul_acc is a factor.
# next: call mat_mul_acc with the factor 1.
def frugal(graph, a, b, prog):
    ends = [i * a.shape[1] // 4 for i in range(5)]
    c = poplin.mat_mul(graph, a[:, : ends[1]], b[: ends[1]], prog)
    for begin, end in zip(ends[1:], ends[2:], strict=False):
        poplin.mat_mul_acc(graph, c, -1, a[:, begin:end], b[begin:end], prog)
    return c


# %% 05.4: pieces that overlap
# why:  the last piece begins before the piece in front of it ends, so some columns are multiplied
#   twice.
# next: begin each piece where the previous one ends, and let the last piece be shorter.
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
# why:  the first piece is multiplied before the loop, and then again in the loop.
# next: begin the loop with the second piece.
def frugal(graph, a, b, prog):
    inner = a.shape[1]
    ends = [i * inner // 4 for i in range(5)]
    c = poplin.mat_mul(graph, a[:, : ends[1]], b[: ends[1]], prog)
    for begin, end in zip(ends, ends[1:], strict=False):
        poplin.mat_mul_acc(graph, c, 1, a[:, begin:end], b[begin:end], prog)
    return c


# %% 05.5: one panel at most
# clause: in all panels they need
# why:  this assumes that all weights fit into one panel, but larger weights need several panels.
# next: count the panels in depth and in width.
def filled(k, n, deep, wide):
    return min(1, k * n / (deep * wide))


# %% 05.5: one panel
# why:  this share can be above 1, since it divides by the places of only one panel.
# next: count the panels in depth and in width.
def filled(k, n, deep, wide):
    return k * n / (deep * wide)


# %% 05.5: the first panel alone
# why:  this counts only the first panel, and leaves out the weights in the others.
# next: count the panels in depth and in width.
def filled(k, n, deep, wide):
    return min(k, deep) * min(n, wide) / (deep * wide)


# %% 05.5: packed
# clause: in all panels they need
# why:  this fills the panels without gaps, but a panel that is partly used still counts as a whole
#   panel.
# next: round k / deep and n / wide up separately.
def filled(k, n, deep, wide):
    return k * n / (-(-k * n // (deep * wide)) * deep * wide)


# %% 05.5: mixed up
# clause: `deep` x `wide`
# why:  depth and width are swapped: k is divided by `wide`, and n by `deep`.
# next: divide k by `deep`, and n by `wide`.
def filled(k, n, deep, wide):
    return k * n / (-(-k // wide) * -(-n // deep) * deep * wide)


# %% 05.5: depth alone
# why:  this uses only the depth k, and ignores the width n.
# next: multiply by the share of the width: n, divided by n rounded up to a multiple of `wide`.
def filled(k, n, deep, wide):
    return k / (-(-k // deep) * deep)


# %% 05.5: width alone
# why:  this uses only the width n, and ignores the depth k.
# next: multiply by the share of the depth: k, divided by k rounded up to a multiple of `deep`.
def filled(k, n, deep, wide):
    return n / (-(-n // wide) * wide)


# %% 05.5: the mean of both
# clause: Which share of the places in a panel
# why:  this is the mean of the share of the depth and the share of the width.
# next: multiply the two shares: a quarter of the depth and a quarter of the width fill a sixteenth.
def filled(k, n, deep, wide):
    return (k / (-(-k // deep) * deep) + n / (-(-n // wide) * wide)) / 2


# %% 05.5: per cent
# clause: from 0 to 1, in all panels
# why:  this is a percentage, but the exercise asks for a share from 0 to 1.
# next: leave out the factor of 100.
def filled(k, n, deep, wide):
    return 100 * k * n / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: rounded down
# why:  this counts only the weights in full panels.
# next: count all weights, k * n, also those in panels that are partly empty.
def filled(k, n, deep, wide):
    return (k // deep) * (n // wide) * deep * wide / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: one more panel where it fits
# why:  if the last panel is exactly full, this counts one empty panel more.
# next: round up with -(-a // b).
def filled(k, n, deep, wide):
    return k * n / ((k // deep + 1) * (n // wide + 1) * deep * wide)


# %% 05.5: rounded to two digits
# not yet: but rounded to 2 digits
def filled(k, n, deep, wide):
    return round(k * n / (-(-k // deep) * -(-n // wide) * deep * wide), 2)


# %% 05.5: panels added
# why:  this adds the numbers of panels in depth and in width, but the panels form a grid.
# next: multiply the two numbers of panels.
def filled(k, n, deep, wide):
    return k * n / ((-(-k // deep) + -(-n // wide)) * deep * wide)


# %% 05.5: weights added
# why:  this uses k + n as the number of weights, but there are k * n weights.
# next: use k * n.
def filled(k, n, deep, wide):
    return (k + n) / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: rounded to the nearest
# why:  the number of panels is rounded to the nearest integer, but a panel that is partly used
#   counts as a whole panel.
# next: round both numbers of panels up.
def filled(k, n, deep, wide):
    return k * n / (max(1, round(k / deep)) * max(1, round(n / wide)) * deep * wide)


# %% 05.5: upside down
# why:  this is the number of places per weight, but the exercise asks for the share of places with
#   a weight.
# next: divide the number of weights by the number of places.
def filled(k, n, deep, wide):
    return -(-k // deep) * -(-n // wide) * deep * wide / (k * n)


# %% 05.5: what stays empty
# clause: Which share of the places has a weight?
# why:  this is the share of the empty places, not of those with a weight.
# next: subtract this share from 1.
def filled(k, n, deep, wide):
    return 1 - k * n / (-(-k // deep) * -(-n // wide) * deep * wide)


# %% 05.5: the poorer of the two
# why:  this is only the smaller share of the two, but gaps in the depth and in the width both leave
#   places empty.
# next: multiply the share of the depth by the share of the width.
def filled(k, n, deep, wide):
    return min(k / (-(-k // deep) * deep), n / (-(-n // wide) * wide))


# %% 05.5: the last panel alone
# why:  this is the share of the last panel, but all panels count.
# next: divide the number of all weights, k * n, by the places of all panels.
def filled(k, n, deep, wide):
    return ((k - 1) % deep + 1) * ((n - 1) % wide + 1) / (deep * wide)


# %% 05.w1: a round for each vertex
# clause: A vertex takes 7 worker cycles for a piece
# why:  this counts a round for each of the three vertices, but they run at the same time, on three
#   of the six workers.
# next: count one round for multiplying: 6 x 7 cycles.
four_parts = 2, 126, 4, 54


# %% 05.w1: the whole vector
# clause: each split into 4 pieces, on 4 tiles
# why:  this counts all 8 numbers of the vector, but the pieces of a tile have the same two columns.
# next: count 2 cycles: the two numbers of the vector that tile 0 needs.
four_parts = 8, 42, 4, 54


# %% 05.w1: worker cycles
# clause: How many cycles does the fullest tile need
# why:  parts 2 and 4 are worker cycles, but a worker gets only one tile cycle in six.
# next: multiply parts 2 and 4 by six.
four_parts = 2, 7, 4, 9


# %% 05.w1: two mistakes at once
# not yet: value 1 of 4 is wrong: 8. next: count 2 cycles
four_parts = 8, 42, 4, 9


# %% 05.w1: three of four
# clause: each of the four parts
# not yet: the exercise asks for 4 values
four_parts = 2, 42, 54


# %% 05.w1: a part for each piece
# why:  this counts a slice of the vector for each of pieces 0, 1 and 2, but they have the same two
#   columns.
# next: count that slice once: 2 cycles.
four_parts = 6, 42, 4, 54


# %% 05.w1: without its own partial result
# why:  this leaves out the product that is already on the tile, but the plan counts all four
#   products of a row.
# next: count 4 cycles for the products that arrive.
four_parts = 2, 42, 3, 54


# %% 05.w1: products for each piece
# why:  this counts four products for each of the three pieces. 3 rows have 3 sums, so none of the 4
#   tiles computes more than one sum, of 4 products.
# next: count the products of a single sum: 4 cycles.
four_parts = 2, 42, 12, 54


# %% 05.w1: a sum for each piece
# why:  this counts a sum for each piece, but one vertex adds up all four products of a row.
# next: count 6 x 9 cycles for adding up.
four_parts = 2, 42, 4, 216


# %% 05.w1: bytes
# why:  parts 1 and 3 are bytes, but a tile receives four bytes, one FLOAT, per cycle.
# next: divide parts 1 and 3 by four.
four_parts = 8, 42, 16, 54


# %% 05.w1: another order
# clause: in order
# why:  the numbers are right, but in another order.
# next: use this order: receive the vector, multiply, receive the products, add up.
four_parts = 42, 2, 54, 4


# %% 05.w1: six workers share a vertex
# why:  this divides the three vertices among six workers, but a vertex runs on one worker, which
#   gets one cycle in six.
# next: multiply the cycles of the busiest worker by six.
four_parts = 2, 21, 4, 9


# %% 05.w2: the whole row twice
# clause: Return a program that writes both dot products
# why:  both vertices get the whole row, but each should get one half.
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
# not yet: only vertices of the same compute set run at the same time
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
# error in the answer: Dot.compute() failed: ValueError: the sides of @ have 4 and 5 numbers
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
# why:  one vertex has the numbers at even indices, and the other those at odd indices.
# next: use contiguous halves: row[:half] and row[half:].
def two_halves(graph, row, vector, halves):
    work = graph.add_compute_set("halves")
    for i in range(2):
        vertex = graph.add_vertex(work, Dot, a=row[i::2], b=vector[i::2], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: the first half rounded up
# why:  in a row of odd length, the first half is the longer one here.
# next: round down: half = row.num_elements // 2.
def two_halves(graph, row, vector, halves):
    half, work = (row.num_elements + 1) // 2, graph.add_compute_set("halves")
    for i, part in enumerate((slice(0, half), slice(half, row.num_elements))):
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[part], out=halves[i])
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)


# %% 05.w2: the last number is lost
# clause: `halves[1]` that of the remaining ones
# why:  in a row of odd length, the last number is in neither half.
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
# why:  the second half of the row is multiplied by the beginning of the vector.
# next: connect the second vertex to the same slice of both: row[half:] and vector[half:].
def two_halves(graph, row, vector, halves):
    half, work = row.num_elements // 2, graph.add_compute_set("halves")
    for i, part in enumerate((row[:half], row[half:])):
        b = vector[: part.num_elements]
        graph.set_tile_mapping(graph.add_vertex(work, Dot, a=part, b=b, out=halves[i]), 0)
    return Execute(work)


# %% 05.w3: the rows
# clause: which part of a does a piece need
# why:  each quarter of the rows of `a` needs all of `b`, so the tiles need nearly as much memory as
#   before.
# next: choose a split in which a piece does not need all of `b`.
which = "rows"


# %% 05.w3: the columns
# clause: Which of the three keeps both limits?
# why:  this saves memory, but it is slow: each of 13 tiles gets four columns, for a unit that is 16
#   columns wide.
# next: choose a split that leaves the blocks as wide as they are.
which = "columns"
