# %% given

from ipu_teach import FLOAT
from ipu_teach.poplibs import popops, poprand
from ipu_teach.poplibs.popops import expr


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
