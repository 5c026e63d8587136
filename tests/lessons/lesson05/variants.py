# %% given
import numpy as np

from ipu_teach import FLOAT, Input, Output, Vector, Vertex
from ipu_teach.poplibs import poplin, poputil
from ipu_teach.program import Execute, Sequence


class Dot(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


class Sum(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x.sum()


# %% 05.1: all but the last row, in bulk
# like: last row dropped
class DotProduct(Vertex):
    row: Input[Vector[FLOAT]]
    column: Input[Vector[FLOAT]]
    product: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i in range(len(self.column)):
            total = total + self.column[i] * self.row[i]
        self.product = total


def one_per_row(graph, matrix, vector, result):
    for tensor in (matrix, result):
        graph.set_tile_mapping(tensor, 0)
    work = graph.add_compute_set()
    for r in range(1, len(matrix)):
        r -= 1
        one = graph.add_vertex(
            work, DotProduct, {"row": matrix[r], "column": vector, "product": result[r]}
        )
        graph.set_tile_mapping(one, r % 13)
    return Sequence(Execute(work))


# %% 05.1: a slice that ends too early
# like: last column dropped
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    work, last = graph.add_compute_set("work"), matrix.shape[1] - 1
    poputil.map_tensor_linearly(graph, matrix)
    poputil.map_tensor_linearly(graph, result)
    for r in range(len(matrix)):
        vertex = graph.add_vertex(
            work, DotProduct, a=matrix[r, :last], b=vector[:last], out=result[r]
        )
        graph.set_tile_mapping(vertex, r * 13 // len(matrix))
    return Execute(work)


# %% 05.1: a sum in one call
# like: the vector is forgotten
class RowSum(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x.sum()


DotProduct = RowSum


def one_per_row(graph, matrix, vector, result):
    work, tiles = graph.add_compute_set("work"), graph.target.num_tiles
    for r in reversed(range(len(matrix))):
        vertex = graph.add_vertex(work, DotProduct, x=matrix[r], out=result[r])
        for part in (matrix[r], result[r], vertex):
            graph.set_tile_mapping(part, r % tiles)
    return Execute(work)


# %% 05.1: reversed by a loop that counts down
# like: the vector backwards
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total, place = 0.0, len(self.a)
        for x in self.b:
            place -= 1
            total += self.a[place] * x
        self.out = total


def one_per_row(graph, matrix, vector, result):
    work, tiles = graph.add_compute_set("work"), graph.target.num_tiles
    for r in range(len(matrix)):
        vertex = graph.add_vertex(work, DotProduct, a=matrix[r], b=vector, out=result[r])
        for part in (matrix[r], result[r], vertex):
            graph.set_tile_mapping(part, r % tiles)
    return Execute(work)


# %% 05.1: the last matrix row first
# like: rows in the wrong order
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i in range(len(self.a)):
            total += self.a[i] * self.b[i]
        self.out = total


def one_per_row(graph, matrix, vector, result):
    work, tiles, last = graph.add_compute_set("work"), graph.target.num_tiles, len(matrix) - 1
    for r in range(len(matrix)):
        vertex = graph.add_vertex(work, DotProduct, a=matrix[last - r], b=vector, out=result[r])
        for part in (matrix[last - r], result[r], vertex):
            graph.set_tile_mapping(part, r % tiles)
    return Execute(work)


# %% 05.2: workers in one line
# like: worker cycles
def planned(rows, cols, pieces, tiles, dot, add):
    most = int(np.ceil(rows * pieces / tiles))
    sums, longest = int(np.ceil(rows / tiles)), int(np.ceil(cols / pieces))
    compute = int(np.ceil(most / 6)) * dot(longest) + int(np.ceil(sums / 6)) * add(pieces)
    return compute + int(np.ceil(most / rows)) * longest + sums * pieces


# %% 05.2: exchange of the pieces is missing
# like: pieces do not travel
def planned(rows, cols, pieces, tiles, dot, add):
    most, sums, longest = (
        (rows * pieces - 1) // tiles + 1,
        (rows - 1) // tiles + 1,
        (cols - 1) // pieces + 1,
    )
    cycles = ((most - 1) // rows + 1) * longest
    cycles += ((most - 1) // 6 + 1) * dot(longest) * 6
    cycles += ((sums - 1) // 6 + 1) * add(pieces) * 6
    return cycles


# %% 05.2: the whole vector goes everywhere
# like: the whole vector
def planned(rows, cols, pieces, tiles, dot, add):
    most, sums, longest = (
        (rows * pieces - 1) // tiles + 1,
        (rows - 1) // tiles + 1,
        (cols - 1) // pieces + 1,
    )
    first = cols + 6 * ((most - 1) // 6 + 1) * dot(longest)
    second = sums * pieces + 6 * ((sums - 1) // 6 + 1) * add(pieces)
    return first + second


# %% 05.2: only the first superstep, part by part
# like: no second superstep
def planned(rows, cols, pieces, tiles, dot, add):
    most, longest = (rows * pieces - 1) // tiles + 1, (cols - 1) // pieces + 1
    cycles = 6 * ((most - 1) // 6 + 1) * dot(longest)
    return cycles + ((most - 1) // rows + 1) * longest


# %% 05.3: pieces of equal width, by a loop over starts
# like: tail dropped
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles, count = matrix.shape, graph.target.num_tiles, pieces or 6
    width = cols // count
    products, sums = graph.add_compute_set("products"), graph.add_compute_set("sums")
    partials = graph.add_variable(FLOAT, (count, rows), "parts")
    graph.set_tile_mapping(matrix, 1)
    graph.set_tile_mapping(partials, 2)
    for row in range(rows):
        for k in range(count):
            begin = k * width
            a, b = matrix[row, begin : begin + width], vector[begin : begin + width]
            graph.set_tile_mapping(
                graph.add_vertex(products, Dot, a=a, b=b, out=partials[k, row]), (row + k) % tiles
            )
        total = graph.add_vertex(sums, Sum, x=partials[:, row], out=result[row])
        graph.set_tile_mapping(total, row % tiles)
        graph.set_tile_mapping(result[row], row % tiles)
    return Sequence(Execute(products), Execute(sums))


# %% 05.4: half of the inner dimension, and columns side by side
# like: half the inner dimension
from ipu_teach import concat


def frugal(graph, a, b, prog):
    inner, middle = len(b) // 2, b.shape[1] // 2
    columns = (b[:inner, :middle], b[:inner, middle:])
    return concat([poplin.mat_mul(graph, a[:, :inner], part, prog) for part in columns], 1)


# %% 05.5: a mean with numpy
# like: the mean of both
def filled(k, n, deep, wide):
    shares = [size / (np.ceil(size / panel) * panel) for size, panel in ((k, deep), (n, wide))]
    return float(np.mean(shares))


# %% 05.5: a loop that counts panels
# like: packed
def filled(k, n, deep, wide):
    panels = 0
    while panels * deep * wide < k * n:
        panels += 1
    return k * n / (panels * deep * wide)


# %% 05.5: a hundredth forgotten
# like: per cent
def filled(k, n, deep, wide):
    panels = (k + deep - 1) // deep * ((n + wide - 1) // wide)
    return k * n / panels / deep / wide * 100.0
