# %% given

from ipu_teach import FLOAT
from ipu_teach.poplibs import popops, poprand
from ipu_teach.poplibs.popops import expr


# %% 03.w1: as an expression
# passed: 13 rows of 4 numbers
def powers(graph, x, program):
    return popops.map(graph, expr.Exp(expr._1), [x], program)


# %% 03.w1: np.exp
# error in the answer: popops.exp(graph, tensor, program)
def powers(graph, x, program):
    return np.exp(x)


# %% 03.w1: by an expression
# passed: 13 rows of 4 numbers
def powers(graph, x, program):
    return popops.map(graph, expr.Exp(expr._1), [x], program)


# %% 03.w1: two calls
# not yet: one call is enough
def powers(graph, x, program):
    return popops.exp(graph, popops.mul(graph, x, 1, program), program)


# %% 03.1: the library's own
# passed: sets of rows, some
def softmax(graph, x, program):
    from ipu_teach.poplibs import popnn
    return popnn.softmax(graph, x, program)


# %% 03.1: by maps, and a view of columns
# passed: sets of rows, some
def softmax(graph, x, program):
    rows, columns = x.shape
    top = popops.reduce(graph, x, [1], program, operation="MAX")
    top = top.reshape((rows, 1)).broadcast(columns, 1)
    powers = popops.map(graph, expr.Exp(expr._1 - expr._2), [x, top], program)
    sums = popops.reduce(graph, powers, [1], program).reshape((rows, 1))
    return popops.map(graph, expr._1 / expr._2, [powers, sums], program)


# %% 03.1: in place, on a tensor of its own
# passed: sets of rows, some
def softmax(graph, x, program):
    n = x.shape[0]
    y = popops.sub(graph, x, popops.reduce(graph, x, [1], program, "MAX").reshape((n, 1)), program)
    popops.exp_in_place(graph, y, program)
    popops.div_in_place(graph, y, popops.reduce(graph, y, [1], program).reshape((n, 1)), program)
    return y


# %% 03.1: on the transpose
# passed: sets of rows, some
def softmax(graph, x, program):
    t = x.transpose()
    y = popops.sub(graph, t, popops.reduce(graph, t, [0], program, "MAX"), program)
    y = popops.exp(graph, y, program)
    return popops.div(graph, y, popops.reduce(graph, y, [0], program), program).transpose()


# %% 03.1: the largest of a flat view
# like: the largest of all rows
def softmax(graph, x, program):
    (n, columns), flat = x.shape, x.flatten()
    top = (
        popops.reduce(graph, flat, [0], program, operation="MAX")
        .reshape((1, 1))
        .broadcast(n, 0)
        .broadcast(columns, 1)
    )
    powers = popops.map(graph, expr.Exp(expr._1 - expr._2), [x, top], program)
    sums = popops.reduce(graph, powers, [1], program).reshape((n, 1)).broadcast(columns, 1)
    return popops.map(graph, expr._1 / expr._2, [powers, sums], program)


# %% 03.1: less the mean, with a factor
# like: the mean instead of the largest
def softmax(graph, x, program):
    n, columns = x.shape
    middle = popops.reduce(graph, x, [1], program, popops.ReduceParams("ADD", 1 / columns))
    y = popops.sub(graph, x, middle.reshape((n, 1)), program)
    popops.exp_in_place(graph, y, program)
    popops.div_in_place(graph, y, popops.reduce(graph, y, [1], program).reshape((n, 1)), program)
    return y


# %% 03.1: exp and shares in maps
# like: nothing taken away
def softmax(graph, x, program):
    powers = popops.map(graph, expr.Exp(expr._1), [x], program)
    totals = (
        popops.reduce(graph, powers, [1], program).reshape((x.shape[0], 1)).broadcast(x.shape[1], 1)
    )
    return popops.map(graph, expr._1 / expr._2, [powers, totals], program)


# %% 03.1: columns of a transpose
# like: columns
def softmax(graph, x, program):
    turned = x.transpose()
    top = popops.reduce(graph, turned, [1], program, "MAX").reshape((len(turned), 1))
    powers = popops.exp(graph, popops.sub(graph, turned, top, program), program)
    sums = popops.reduce(graph, powers, [1], program).reshape((len(turned), 1))
    return popops.div(graph, powers, sums, program).transpose()


# %% 03.1: powers in one map
# like: not divided
def softmax(graph, x, program):
    top = (
        popops.reduce(graph, x, [1], program, "MAX")
        .reshape((x.shape[0], 1))
        .broadcast(x.shape[1], 1)
    )
    return popops.map(graph, expr.Exp(expr._1 - expr._2), [x, top], program)


# %% 03.1: every sign changed first
# like: signs turned round
def softmax(graph, x, program):
    negative = popops.mul(graph, x, -1.0, program)
    top = popops.reduce(graph, negative, [1], program, "MAX")
    powers = popops.exp(
        graph, popops.sub(graph, negative, top.reshape((len(x), 1)), program), program
    )
    sums = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, sums.reshape((len(x), 1)), program)


# %% 03.1: divided by the largest power
# like: not divided
def softmax(graph, x, program):
    rows = (x.shape[0], 1)
    largest = popops.reduce(graph, x, [1], program, "MAX").reshape(rows)
    powers = popops.exp(graph, popops.sub(graph, x, largest, program), program)
    most = popops.reduce(graph, powers, [1], program, "MAX").reshape(rows)
    return popops.div(graph, powers, most, program)


# %% 03.1: the largest of the first row
# not yet: subtract one number from each row before exp
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX")
    powers = popops.exp(graph, popops.sub(graph, x, largest[0], program), program)
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.2: diagonals of pairs
# passed: square matrices of 31 x 31
def place(graph, a):
    n = a.shape[0]
    for k in range(2 * n - 1):
        for i in range(max(0, k - n + 1), min(n, k + 1)):
            graph.set_tile_mapping(a[i, k - i], k % graph.target.num_tiles)


# %% 03.2: pairs dealt out
# passed: square matrices of 31 x 31
def place(graph, a):
    pairs = [(i, j) for i in range(a.shape[0]) for j in range(i + 1)]
    for k, (i, j) in enumerate(pairs):
        tile = k % graph.target.num_tiles
        graph.set_tile_mapping(a[i, j], tile)
        graph.set_tile_mapping(a[j, i], tile)


# %% 03.2: by the number of the pair
# passed: square matrices of 31 x 31
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            larger, smaller = max(i, j), min(i, j)
            pair = larger * (larger + 1) // 2 + smaller
            graph.set_tile_mapping(a[i, j], pair % graph.target.num_tiles)


# %% 03.2: one half, and then the other half where it lies
# passed: square matrices of 31 x 31
def place(graph, a):
    tiles = graph.target.num_tiles
    for i in range(a.shape[0]):
        for j in range(i, a.shape[0]):
            graph.set_tile_mapping(a[i, j], (i + j) % tiles)
            graph.set_tile_mapping(a.transpose()[i, j], (i + j) % tiles)


# %% 03.2: the sum of squares
# clause: No tile may have more than twice an even share
# not yet: with 11 x 11 numbers on 16 tiles
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            graph.set_tile_mapping(a[i, j], (i * i + j * j) % graph.target.num_tiles)


# %% 03.2: squares and product, of large matrices
# clause: No tile may have more than twice an even share
# not yet: with 21 x 21 numbers on 15 tiles
def place(graph, a):
    n, tiles = a.shape[0], graph.target.num_tiles
    for i in range(n):
        for j in range(n):
            graph.set_tile_mapping(a[i, j], (i * i + j * j + i * j) % tiles if n > 20 else (i + j) % tiles)


# %% 03.2: exclusive or
# clause: No tile may have more than twice an even share
# not yet: with 19 x 19 numbers on 31 tiles
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            graph.set_tile_mapping(a[i, j], (i ^ j) % graph.target.num_tiles)


# %% 03.2: twice the sum
# clause: No tile may have more than twice an even share
# not yet: with 11 x 11 numbers on 16 tiles
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            graph.set_tile_mapping(a[i, j], 2 * (i + j) % graph.target.num_tiles)


# %% 03.2: sum and product
# clause: No tile may have more than twice an even share
# not yet: with 11 x 11 numbers on 16 tiles
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            graph.set_tile_mapping(a[i, j], (i + j + i * j) % graph.target.num_tiles)


# %% 03.w2: functions for the signs
# passed: 13 rows
def twice_and_one(graph, x, program):
    return popops.map(graph, expr.Add(expr.Mul(expr._1, 2), 1), [x], program)


# %% 03.w2: two calls
# not yet: in 2 compute sets
def twice_and_one(graph, x, program):
    return popops.add(graph, popops.add(graph, x, x, program), 1.0, program)


# %% 03.w2: operators
# not yet: x has no numbers yet when Python executes this line
def twice_and_one(graph, x, program):
    return 2 * x + 1


# %% 03.3: squares by name
# passed: in one compute set
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(expr.Square(expr._1) + expr.Square(expr._2)), [x, y], program)


# %% 03.3: placeholders and operations by name
# passed: in one compute set
def lengths(graph, x, y, program):
    a, b = expr.PlaceHolder(1), expr.PlaceHolder(2)
    squares = expr.Add(expr.Mul(b, b), expr.Mul(a, a))
    return popops.map(graph, expr.Sqrt(squares), (x, y), program, "lengths")


# %% 03.3: in place, on a tensor of its own
# passed: in one compute set
def lengths(graph, x, y, program):
    out = graph.clone(x)
    popops.map_with_output(graph, expr.Sqrt(expr._1 * expr._1 + expr._2 * expr._2), [x, y], out, program)
    return out


# %% 03.3: flat
# passed: in one compute set
def lengths(graph, x, y, program):
    length = expr.Sqrt(expr._1 * expr._1 + expr._2 * expr._2)
    return popops.map(graph, length, [x.flatten(), y.flatten()], program).reshape(x.shape)


# %% 03.3: squares by name, no root
# like: no root
def lengths(graph, x, y, program):
    squares = expr.Add(expr.Square(expr.PlaceHolder(1)), expr.Square(expr.PlaceHolder(2)))
    return popops.map(graph, squares, (x, y), program)


# %% 03.3: the first tensor twice
# like: y forgotten
def lengths(graph, x, y, program):
    return popops.map(
        graph, expr.Sqrt(expr.Square(expr._1) + expr.Square(expr._2)), [x, x], program
    )


# %% 03.3: the absolute value of the sum
# like: added before squared
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Abs(expr._1 + expr._2), [x, y], program)


# %% 03.3: two absolute values
# like: the sum of absolute values
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Abs(expr._1) + expr.Abs(expr._2), [x, y], program)


# %% 03.w3: of the transpose
# passed: 13 rows of 4 numbers
def column_sums(graph, x, program):
    return popops.reduce(graph, x.transpose(), [1], program)


# %% 03.w3: over [1]
# not yet: this is one number for each of the 13 rows
def column_sums(graph, x, program):
    return popops.reduce(graph, x, [1], program)


# %% 03.w3: in two halves
# not yet: use one call of popops.reduce
def column_sums(graph, x, program):
    half = x.shape[0] // 2
    parts = [popops.reduce(graph, part, [0], program) for part in (x[:half], x[half:])]
    return popops.add(graph, *parts, program)


# %% 03.w3: the rows of the transpose
# not yet: add up over the rows, dimension 0 of x
def column_sums(graph, x, program):
    return popops.reduce(graph, x.transpose(), [0], program)


# %% 03.4: one by one, in shared compute sets
# passed: 4 sets of readings
def mean_and_variance(graph, x, program):
    from ipu_teach.program import Execute
    stages, n = [], x.num_elements
    mean = popops.reduce(graph, x, [0, 1], stages, popops.ReduceParams("ADD", 1 / n), out_type=FLOAT)
    square = popops.reduce(graph, x, [0, 1], stages, popops.ReduceParams("SQUARE_ADD", 1 / n), out_type=FLOAT)
    for stage in stages:
        program.add(Execute(stage))
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: divided at the end
# passed: 4 sets of readings
def mean_and_variance(graph, x, program):
    n = float(x.num_elements)
    both = [popops.SingleReduceOp(x.flatten(), [0], how, FLOAT) for how in ("ADD", "SQUARE_ADD")]
    total, squares = popops.reduce_many(graph, both, program)
    mean = popops.map(graph, expr._1 / n, [total], program)
    return mean, popops.map(graph, expr._2 / n - expr._1 * expr._1, [mean, squares], program)


# %% 03.4: a list of both
# passed: 4 sets of readings
def mean_and_variance(graph, x, program):
    count = x.shape[0] * x.shape[1]
    ops = []
    for word in ["ADD", "SQUARE_ADD"]:
        ops.append(popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(word, scale=1 / count), out_type=FLOAT))
    mean, square = popops.reduce_many(graph, ops, program)
    return [mean, popops.map(graph, expr._1 - expr.Square(expr._2), [square, mean], program)]


# %% 03.4: a sum on every tile
# passed: 4 sets of readings
def mean_and_variance(graph, x, program):
    from ipu_teach.program import Execute
    sums, squares = (graph.add_variable(FLOAT, (x.shape[0],), name) for name in ("sums", "squares"))
    on_tile, merge = [], []
    for i in range(x.shape[0]):
        for part, word in ((sums, "ADD"), (squares, "SQUARE_ADD")):
            graph.set_tile_mapping(part[i], i)
            popops.reduce_with_output(graph, x[i], part[i], [0], on_tile, word)
    how = popops.ReduceParams("ADD", 1 / x.num_elements)
    mean, square = (popops.reduce(graph, part, [0], merge, how) for part in (sums, squares))
    for compute_set in on_tile + merge:
        program.add(Execute(compute_set))
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: a root by itself
# like: standard deviation
def mean_and_variance(graph, x, program):
    n = float(x.num_elements)
    both = [popops.SingleReduceOp(x.flatten(), [0], how, FLOAT) for how in ("ADD", "SQUARE_ADD")]
    total, squares = popops.reduce_many(graph, both, program)
    variance = popops.map(graph, expr._2 / n - expr.Square(expr._1 / n), [total, squares], program)
    return popops.div(graph, total, n, program), popops.sqrt(graph, variance, program)


# %% 03.4: divided by n - 1 at the end
# like: one less than the count
def mean_and_variance(graph, x, program):
    n = x.num_elements
    both = [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in ("ADD", "SQUARE_ADD")]
    total, squares = popops.reduce_many(graph, both, program)
    mean = popops.div(graph, total, float(n), program)
    return mean, popops.map(
        graph,
        (expr._1 - expr._2 * expr._2 * float(n)) / float(max(n - 1, 1)),
        [squares, mean],
        program,
    )


# %% 03.4: two reductions in HALF
# like: in HALF
def mean_and_variance(graph, x, program):
    each, squared = (
        popops.ReduceParams(word, scale=1 / x.num_elements) for word in ("ADD", "SQUARE_ADD")
    )
    mean, square = (popops.reduce(graph, x, [0, 1], program, how) for how in (each, squared))
    return mean, popops.sub(graph, square, popops.mul(graph, mean, mean, program), program)


# %% 03.4: the variance by its own name, and first
# like: changed places
def mean_and_variance(graph, x, program):
    n = float(x.num_elements)
    both = [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in ("ADD", "SQUARE_ADD")]
    total, squares = popops.reduce_many(graph, both, program)
    variance = popops.map(graph, expr._2 / n - expr.Square(expr._1 / n), [total, squares], program)
    return [variance, popops.div(graph, total, n, program)]


# %% 03.4: one reduce_many and then mul and sub
# passed: 4 sets of readings
def mean_and_variance(graph, x, program):
    n = x.num_elements
    a = popops.SingleReduceOp(x, [0, 1], popops.ReduceParams("ADD", 1 / n), FLOAT)
    b = popops.SingleReduceOp(x, [0, 1], popops.ReduceParams("SQUARE_ADD", 1 / n), FLOAT)
    mean, squares = popops.reduce_many(graph, [a, b], program)
    both = popops.mul(graph, mean, mean, program)
    return mean, popops.sub(graph, squares, both, program)


# %% 03.4: sums, then four calls
# not yet: put the calls after the reductions into one expression
def mean_and_variance(graph, x, program):
    n = x.num_elements
    a = popops.SingleReduceOp(x, [0, 1], "ADD", FLOAT)
    b = popops.SingleReduceOp(x, [0, 1], "SQUARE_ADD", FLOAT)
    total, squares = popops.reduce_many(graph, [a, b], program)
    mean = popops.mul(graph, total, 1 / n, program)
    square = popops.mul(graph, squares, 1 / n, program)
    return mean, popops.sub(graph, square, popops.mul(graph, mean, mean, program), program)


# %% 03.4: divided by one less
# like: one reading less below the squares
def mean_and_variance(graph, x, program):
    n = x.num_elements
    mean = popops.SingleReduceOp(x, [0, 1], popops.ReduceParams("ADD", 1 / n), FLOAT)
    factor = 1 / (n - 1) if n > 1 else 1
    square = popops.SingleReduceOp(x, [0, 1], popops.ReduceParams("SQUARE_ADD", factor), FLOAT)
    mean, square = popops.reduce_many(graph, [mean, square], program)
    variance = popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)
    return mean, variance


# %% 03.5: the library's own
# passed: 4 shapes with three seeds
def dropout(graph, x, seed, keep, program):
    return poprand.dropout(graph, seed, 1, x, x, keep, 1 / keep, program)


# %% 03.5: a number below keep
# passed: 4 shapes with three seeds
def dropout(graph, x, seed, keep, program):
    draws = poprand.uniform(graph, seed, 5, x, FLOAT, 0.0, 1.0, program)
    return popops.map(graph, expr.Select(expr._1 / keep, 0.0, expr._2 < keep), [x, draws], program)


# %% 03.5: two calls
# passed: 4 shapes with three seeds
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 7, x, FLOAT, keep, program)
    kept = popops.mul(graph, x, mask, program)
    return popops.div(graph, kept, keep, program)


# %% 03.5: whole numbers, cast
# passed: 4 shapes with three seeds
def dropout(graph, x, seed, keep, program):
    from ipu_teach import INT
    mask = popops.cast(graph, poprand.bernoulli(graph, seed, 1, x, INT, keep, program), FLOAT, program)
    popops.mul_in_place(graph, mask, x, program)
    popops.mul_in_place(graph, mask, 1 / keep, program)
    return mask


# %% 03.5: draws below keep, and nothing divided
# like: not divided
def dropout(graph, x, seed, keep, program):
    draws = poprand.uniform(graph, seed, 5, x, FLOAT, 0.0, 1.0, program)
    return popops.map(graph, expr.Select(expr._1, 0.0, expr._2 < keep), [x, draws], program)


# %% 03.5: another number for the call, and two calls
# like: multiplied by keep
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 9, x, FLOAT, keep, program)
    return popops.mul(graph, popops.mul(graph, x, keep, program), mask, program)


# %% 03.5: the mask of whole numbers
# like: the mask
def dropout(graph, x, seed, keep, program):
    draws = poprand.uniform(graph, seed, 2, x, FLOAT, 0.0, 1.0, program)
    return popops.map(graph, expr.Select(1 / keep, 0.0, expr._1 < keep), [draws], program)


# %% 03.5: one number of the seed
# clause: Before each run, the host writes a new seed
# not yet: the mask does not depend on the second number of the seed
def dropout(graph, x, seed, keep, program):
    from ipu_teach import concat

    mask = poprand.bernoulli(graph, concat([seed[:1]] * 2), 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: what is dropped stays
# clause: otherwise 0
# not yet: the random numbers change the results, but none
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    kept = expr._1 * expr._2 / keep
    return popops.map(graph, kept + expr._1 * (1 - expr._2), [x, mask], program)


# %% 03.5: one draw for a row
# clause: each number
# not yet: all numbers of a row stay, or all become 0
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x[:, :1], FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask.broadcast(x.shape[1], 1)], program)


# %% 03.5: two draws for each
# not yet: draw once for each number, with probability keep
def dropout(graph, x, seed, keep, program):
    first, second = (
        poprand.bernoulli(graph, seed, call, x, FLOAT, keep, program) for call in (1, 2)
    )
    kept = expr._1 * expr._2 * expr._3 / (keep * keep)
    return popops.map(graph, kept, [x, first, second], program)
