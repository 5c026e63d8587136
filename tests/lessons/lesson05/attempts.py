


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


# %% 05.1: a loop, runs of rows
# passed: 6 shapes
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
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row * graph.target.num_tiles // matrix.shape[0])
    return Execute(multiply)


# %% 05.1: numpy's dot, from the last tile on
# passed: 6 shapes
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = np.dot(self.a, self.b)


def one_per_row(graph, matrix, vector, result):
    multiply = graph.add_compute_set("multiply")
    for row in range(matrix.shape[0]):
        vertex = graph.add_vertex(multiply, DotProduct, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, graph.target.num_tiles - 1 - row % graph.target.num_tiles)
    return Execute(multiply)


# %% 05.1: tile by tile, products then a sum
# passed: 6 shapes
class Row(Vertex):
    row: Input[Vector[FLOAT]]
    vector: Input[Vector[FLOAT]]
    product: Output[FLOAT]

    def compute(self):
        self.product = (self.row * self.vector).sum()


def one_per_row(graph, matrix, vector, result):
    rows = matrix.shape[0]
    compute_set = graph.add_compute_set("rows")
    for tile, (begin, end) in enumerate(poputil.balanced_partition(rows, graph.target.num_tiles)):
        for r in range(begin, end):
            v = graph.add_vertex(compute_set, Row, {"row": matrix[r], "vector": vector, "product": result[r]})
            graph.set_tile_mapping(v, tile)
            graph.set_tile_mapping(matrix[r], tile)
            graph.set_tile_mapping(result[r], tile)
    return Sequence(Execute(compute_set))


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


# %% 05.w1: worked out, a list
# passed: each split into 4
four_parts = [1 * (8 // 4), 6 * 1 * 7, 1 * 4, 6 * 1 * 9]


# %% 05.2: math.ceil
# passed: the tutorial's three
from math import ceil


def planned(rows, cols, pieces, tiles, dot, add):

    pieces_per_tile = ceil(rows * pieces / tiles)
    width = ceil(cols / pieces)
    rounds = ceil(pieces_per_tile / 6)
    first = ceil(pieces_per_tile / rows) * width * 4 / 4 + rounds * 6 * dot(width)
    sums = ceil(rows / tiles)
    second = sums * pieces * 4 / 4 + ceil(sums / 6) * 6 * add(pieces)
    return first + second


# %% 05.2: divmod and conditions
# passed: the tutorial's three
def planned(rows, cols, pieces, tiles, dot, add):

    def busiest(things, places):
        whole, rest = divmod(things, places)
        return whole + 1 if rest else whole

    on_tile = busiest(rows * pieces, tiles)
    length = busiest(cols, pieces)
    to_add = busiest(rows, tiles)
    cycles = busiest(on_tile, rows) * length
    cycles += 6 * busiest(on_tile, 6) * dot(length)
    cycles += to_add * pieces
    cycles += 6 * busiest(to_add, 6) * add(pieces)
    return cycles


# %% 05.2: dealt out to tiles
# passed: the tutorial's three
def planned(rows, cols, pieces, tiles, dot, add):

    most = max(len(range(tile, rows * pieces, tiles)) for tile in range(tiles))
    length = (cols + pieces - 1) // pieces
    sums = (rows + tiles - 1) // tiles
    come = ((most + rows - 1) // rows) * length
    return come + (most + 5) // 6 * 6 * dot(length) + sums * pieces + (sums + 5) // 6 * 6 * add(pieces)


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


# %% 05.2: max(vector, multiply)
# like: the vector beside the products
def planned(rows, cols, pieces, tiles, dot, add):
    up = lambda a, b: -(-a // b)
    longest = up(cols, pieces)
    mine = up(rows * pieces, tiles)
    vector = up(mine, rows) * longest
    multiply = 6 * up(mine, 6) * dot(longest)
    r = up(rows, tiles)
    return max(vector, multiply) + r * pieces + 6 * up(r, 6) * add(pieces)


# %% 05.2: both overlapped
# like: the larger of the two
def planned(rows, cols, pieces, tiles, dot, add):
    up = lambda a, b: -(-a // b)
    longest = up(cols, pieces)
    mine = up(rows * pieces, tiles)
    vector = up(mine, rows) * longest
    multiply = 6 * up(mine, 6) * dot(longest)
    r = up(rows, tiles)
    return max(vector, multiply) + max(r * pieces, 6 * up(r, 6) * add(pieces))


# %% 05.w2: by hand
# passed: in two pieces on one tile
def two_halves(graph, row, vector, halves):
    half = len(row) // 2
    work = graph.add_compute_set("halves")
    left = graph.add_vertex(work, Dot, a=row[:half], b=vector[:half], out=halves[0])
    right = graph.add_vertex(work, Dot, a=row[half:], b=vector[half:], out=halves[1])
    graph.set_tile_mapping(left, 0)
    graph.set_tile_mapping(right, 0)
    return Sequence(Execute(work))


# %% 05.w2: the second half on tile 1
# clause: Everything is on tile 0
# not yet: work on tile 1
def two_halves(graph, row, vector, halves):
    half, work = row.num_elements // 2, graph.add_compute_set("halves")
    for i, part in enumerate((slice(0, half), slice(half, row.num_elements))):
        vertex = graph.add_vertex(work, Dot, a=row[part], b=vector[part], out=halves[i])
        graph.set_tile_mapping(vertex, i)
    return Execute(work)


# %% 05.3: twelve
# passed: each split as requested
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
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: six, dealt like cards
# passed: each split as requested
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or 6
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
            graph.set_tile_mapping(placed, row % tiles)
    return Sequence(Execute(multiply), Execute(add_up))


# %% 05.3: columns first, a library's sum
# passed: each split as requested
from ipu_teach.poplibs import popops


def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    if not pieces:
        pieces = 12
    multiply = graph.add_compute_set("multiply")
    partials = graph.add_variable(FLOAT, (pieces, rows), "partials")
    number = 0
    for p, (begin, end) in enumerate(poputil.balanced_partition(cols, pieces)):
        for r in range(rows):
            tile = number * tiles // (rows * pieces)
            v = graph.add_vertex(multiply, Dot, a=matrix[r, begin:end], b=vector[begin:end], out=partials[p, r])
            graph.set_tile_mapping(v, tile)
            graph.set_tile_mapping(matrix[r, begin:end], tile)
            graph.set_tile_mapping(partials[p, r], tile)
            number += 1
    for r in range(rows):
        graph.set_tile_mapping(result[r], r % tiles)
    program = Sequence(Execute(multiply))
    popops.reduce_with_output(graph, partials, result, [0], program)
    return program


# %% 05.3: by the plan and its prices
# passed: each split as requested
def in_pieces(graph, matrix, vector, result, pieces=None):
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or min(range(1, min(cols, 64) + 1), key=lambda p: planned(rows, cols, p, tiles, dot, add))
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


# %% 05.3: the vector moved to tile 0
# clause: the vector stays where it is
# not yet: vector[78] on tile 0
def in_pieces(graph, matrix, vector, result, pieces=None):
    graph.set_tile_mapping(vector, 0)
    (rows, cols), tiles = matrix.shape, graph.target.num_tiles
    pieces = pieces or min(range(1, cols + 1), key=lambda p: planned(rows, cols, p, tiles, guess, guess))
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


# %% 05.w3: a word of another form
# passed: in four pieces
which = ["rows", "columns", "Inner"][-1]


# %% 05.4: another share
# passed: its fullest tile holds
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.03)


# %% 05.4: by the options
# passed: its fullest tile holds
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, options={"availableMemoryProportion": 0.06})


# %% 05.4: four pieces of the inner dimension
# passed: its fullest tile holds
def frugal(graph, a, b, prog):
    k = a.shape[1]
    cuts = [(i * k // 4, (i + 1) * k // 4) for i in range(4)]
    begin, end = cuts[0]
    c = poplin.mat_mul(graph, a[:, begin:end], b[begin:end], prog)
    for begin, end in cuts[1:]:
        poplin.mat_mul_acc(graph, c, 1, a[:, begin:end], b[begin:end], prog)
    return c


# %% 05.4: a plan of one's own
# passed: its fullest tile holds
def frugal(graph, a, b, prog):
    (m, k), n = a.shape, b.shape[1]
    limit = 40_000 / graph.target.bytes_per_tile
    plan = poplin.plan_mat_mul(m, k, n, graph.target, available_memory_proportion=limit)
    return poplin.mat_mul(graph, a, b, prog, plan=plan)


# %% 05.4: half of the inner dimension, and columns side by side
# like: half the inner dimension
from ipu_teach import concat


def frugal(graph, a, b, prog):
    inner, middle = len(b) // 2, b.shape[1] // 2
    columns = (b[:inner, :middle], b[:inner, middle:])
    return concat([poplin.mat_mul(graph, a[:, :inner], part, prog) for part in columns], 1)


# %% 05.4: one option
# passed: on 13 tiles
def frugal(graph, a, b, prog):
    return poplin.mat_mul(graph, a, b, prog, available_memory_proportion=0.05)


# %% 05.4: a remainder of the inner dimension left out
# clause: for matrices of any size
# not yet: the last columns of `a` and the last rows of `b` are not multiplied
def frugal(graph, a, b, prog):
    part = a.shape[1] // 4
    c = poplin.mat_mul(graph, a[:, :part], b[:part], prog)
    for begin in range(part, 4 * part, part):
        piece = slice(begin, begin + part)
        poplin.mat_mul_acc(graph, c, 1, a[:, piece], b[piece], prog)
    return c


# %% 05.5: math.ceil
# passed: filled on 452 fixed sets of numbers
from math import ceil


def filled(k, n, deep, wide):
    return k * n / (ceil(k / deep) * deep * ceil(n / wide) * wide)


# %% 05.5: two shares
# passed: filled on 452 fixed sets of numbers
def filled(k, n, deep, wide):
    def share(size, panel):
        used = size
        while size % panel:
            size += 1
        return used / size

    return share(k, deep) * share(n, wide)


# %% 05.5: an array of places
# passed: filled on 452 fixed sets of numbers
def filled(k, n, deep, wide):
    places = np.zeros(((k + deep - 1) // deep * deep, (n + wide - 1) // wide * wide))
    places[:k, :n] = 1
    return places.mean()


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


# %% 05.1: rounded to the nearest tile
# not yet: tiles whose numbers of vertices differ by one at most next:
class DotProduct(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.a @ self.b


def one_per_row(graph, matrix, vector, result):
    tiles, rows = graph.target.num_tiles, len(matrix)
    work = graph.add_compute_set("rows")
    for row in range(rows):
        tile = min(round(row * tiles / rows), tiles - 1)
        part = graph.add_vertex(work, DotProduct, a=matrix[row], b=vector, out=result[row])
        for thing in (part, matrix[row], result[row]):
            graph.set_tile_mapping(thing, tile)
    return Execute(work)


# %% 05.4: steps of 64 up to 256
# clause: for matrices of any size
# not yet: [6, 300] x [300, 10]
def frugal(graph, a, b, prog):
    c = poplin.mat_mul(graph, a[:, :64], b[:64], prog)
    for begin in range(64, 256, 64):
        part = slice(begin, begin + 64)
        poplin.mat_mul_acc(graph, c, 1, a[:, part], b[part], prog)
    return c


# %% 05.w2: halves by divmod
# like: the first half rounded up
def two_halves(graph, row, vector, halves):
    size = row.num_elements
    middle = sum(divmod(size, 2))
    work = graph.add_compute_set("halves")
    pieces = (row[:middle], vector[:middle]), (row[middle:], vector[middle:])
    for half, (a, b) in zip((halves[0], halves[1]), pieces, strict=True):
        vertex = graph.add_vertex(work, Dot, a=a, b=b, out=half)
        graph.set_tile_mapping(vertex, 0)
    return Execute(work)
