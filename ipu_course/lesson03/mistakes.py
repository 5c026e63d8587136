# %% given
"""Known mistakes of lesson 03; what this file is: mistakes.py."""

import numpy as np

from ipu_teach import FLOAT, HALF
from ipu_teach.poplibs import popops, poprand
from ipu_teach.poplibs.popops import expr
from ipu_teach.program import Sequence


def one_by_one(graph, x, y, program):
    squares = [popops.mul(graph, part, part, program) for part in (x, y)]
    return popops.sqrt(graph, popops.add(graph, *squares, program), program)


# %% 03.1: the largest of all rows
# why:  the largest of all rows was taken away from each. A row far below it becomes 0 everywhere,
#   and 0 by 0 is no number.
# next: give each row a largest of its own: reduce over [1], and not over [0, 1].
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [0, 1], program, "MAX")
    powers = popops.exp(graph, popops.sub(graph, x, largest, program), program)
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: the mean instead of the largest
# why:  what was taken away from a row is less than its largest number by so much that exp is
#   infinite again.
# next: take the largest number of each row away: popops.reduce(graph, x, [1], program, "MAX").
def softmax(graph, x, program):
    sums = popops.reduce(graph, x, [1], program)
    means = popops.div(graph, sums, x.shape[1], program).reshape((x.shape[0], 1))
    powers = popops.exp(graph, popops.sub(graph, x, means, program), program)
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: nothing taken away
# clause: the check tries numbers around 10,000
# why:  exp(89) is more than a FLOAT can hold and becomes infinite, and infinite by infinite is no
#   number. Small numbers hide it.
# next: take the largest number of a row away from all of the row first: softmax is the same.
def softmax(graph, x, program):
    powers = popops.exp(graph, x, program)
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: the sum instead of the largest
# why:  the sum of each row was taken away. That is harmless where it is small, and not in general.
# next: without a word reduce adds up. The word for the largest is "MAX".
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program)
    powers = popops.exp(
        graph, popops.sub(graph, x, largest.reshape((x.shape[0], 1)), program), program
    )
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: columns
# why:  the columns add up to 1, and not the rows.
# next: reduce over [1]: that goes along a row.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [0], program, "MAX")
    powers = popops.exp(graph, popops.sub(graph, x, largest, program), program)
    totals = popops.reduce(graph, powers, [0], program)
    return popops.div(graph, powers, totals, program)


# %% 03.1: one sum for all
# clause: divided by the sum of these over the row
# why:  all numbers together add up to 1, and not each row.
# next: reduce the powers over [1] alone.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX")
    powers = popops.exp(
        graph, popops.sub(graph, x, largest.reshape((x.shape[0], 1)), program), program
    )
    return popops.div(graph, powers, popops.reduce(graph, powers, [0, 1], program), program)


# %% 03.1: not divided
# why:  these are the powers, and no row adds up to 1: none was divided by its sum.
# next: divide by the sum of each row.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX")
    return popops.exp(
        graph, popops.sub(graph, x, largest.reshape((x.shape[0], 1)), program), program
    )


# %% 03.1: no exp
# clause: each number becomes exp of itself
# why:  there is no exp in it: the numbers themselves were divided by their sum.
# next: exp first, then the sums.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX")
    shifted = popops.sub(graph, x, largest.reshape((x.shape[0], 1)), program)
    totals = popops.reduce(graph, shifted, [1], program)
    return popops.div(graph, shifted, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: signs turned round
# why:  the signs are turned round: the largest number gets the smallest share.
# next: sub(graph, a, b, program) is a - b: the largest comes second.
def softmax(graph, x, program):
    least = popops.reduce(graph, x, [1], program, "MIN")
    powers = popops.exp(
        graph, popops.sub(graph, least.reshape((x.shape[0], 1)), x, program), program
    )
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: cut off below
# not yet: What is special here: they reach the ends of FLOAT
def softmax(graph, x, program):
    x = popops.map(graph, expr.Max(expr._1, -1e30), [x], program)
    largest = popops.reduce(graph, x, [1], program, "MAX").reshape((x.shape[0], 1))
    powers = popops.exp(graph, popops.sub(graph, x, largest, program), program)
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: in place
# clause: stays as it is
# not yet: is changed by the program
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX")
    popops.sub_in_place(graph, x, largest.reshape((x.shape[0], 1)), program)
    powers = popops.exp(graph, x, program)
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: no return
# not yet: is there a `return`?
def softmax(graph, x, program):
    powers = popops.exp(graph, x, program)


# %% 03.1: numpy
# clause: Write it with the calls above
# error in the answer: in np.exp()
def softmax(graph, x, program):
    return np.exp(x) / np.exp(x).sum(axis=1)


# %% 03.1: a row that is no column
# error in the answer: PoplibsError
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX")
    return popops.sub(graph, x, largest, program)


# %% 03.1: the sums alone
# not yet: a call that reduces takes the dimensions
def softmax(graph, x, program):
    return popops.reduce(graph, popops.exp(graph, x, program), [1], program)


# %% 03.1: through logarithms
# not yet: rounding errors are too large
def softmax(graph, x, program):
    logs = popops.reduce(graph, x, [1], program, "LOG_ADD").reshape((x.shape[0], 1))
    return popops.exp(graph, popops.sub(graph, x, logs, program), program)


# %% 03.1: the sum of other powers
# why:  the numerator subtracts the largest number of the row, and the denominator does not.
# next: add up the powers that you divide: reduce them over [1].
def softmax(graph, x, program):
    column = (x.shape[0], 1)
    most = popops.reduce(graph, x, [1], program, "MAX").reshape(column)
    powers = popops.exp(graph, popops.sub(graph, x, most, program), program)
    total = popops.reduce(graph, popops.exp(graph, x, program), [1], program)
    return popops.div(graph, powers, total.reshape(column), program)


# %% 03.1: the sum before exp
# why:  the powers were divided by the sum of the differences, and not by that of the powers.
# next: reduce what exp returned.
def softmax(graph, x, program):
    column = (x.shape[0], 1)
    most = popops.reduce(graph, x, [1], program, "MAX").reshape(column)
    apart = popops.sub(graph, x, most, program)
    total = popops.reduce(graph, apart, [1], program).reshape(column)
    return popops.div(graph, popops.exp(graph, apart, program), total, program)


# %% 03.1: 10,000 taken away
# why:  not one share is a number: 0 by 0 has no value, and infinite by infinite neither.
# next: print the powers and their sums. Powers of x less the largest number of its row are fine.
def softmax(graph, x, program):
    powers = popops.exp(graph, popops.sub(graph, x, 10_000, program), program)
    total = popops.reduce(graph, powers, [1], program).reshape((x.shape[0], 1))
    return popops.div(graph, powers, total, program)


# %% 03.1: divided by the mean
# why:  each row adds up to the number of its columns: the powers were divided by their mean.
# next: divide by their sum.
def softmax(graph, x, program):
    column = (x.shape[0], 1)
    most = popops.reduce(graph, x, [1], program, "MAX").reshape(column)
    powers = popops.exp(graph, popops.sub(graph, x, most, program), program)
    scaled = popops.ReduceParams("ADD", 1 / x.shape[1])
    mean = popops.reduce(graph, powers, [1], program, scaled).reshape(column)
    return popops.div(graph, powers, mean, program)


# %% 03.1: the sum of the column
# clause: divided by the sum of these over the row
# why:  each power is divided by the sum of its column, and not of its row.
# next: reduce the powers over [1], and give the sums the shape (rows, 1).
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX").reshape((x.shape[0], 1))
    powers = popops.exp(graph, popops.sub(graph, x, largest, program), program)
    return popops.div(graph, powers, popops.reduce(graph, powers, [0], program), program)


# %% 03.2: by rows
# clause: the addition moves nothing at all
# not yet: a whole line is on one tile, and a[i, j] and a[j, i] are in different lines
def place(graph, a):
    for i in range(a.shape[0]):
        graph.set_tile_mapping(a[i], i % 13)


# %% 03.2: everything on one tile
# clause: no tile may hold more than twice its even share
# not yet: everything lies on one tile
def place(graph, a):
    graph.set_tile_mapping(a, 0)


# %% 03.2: diagonals of the wrong kind
# clause: of a and a.transpose() moves nothing
# not yet: but i - j is another one
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            graph.set_tile_mapping(a[i, j], (i - j) % graph.target.num_tiles)


# %% 03.2: thirteen tiles, whatever the machine
# clause: Map a square matrix so that the addition moves nothing at all
# error in the answer: There is no tile 7
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            graph.set_tile_mapping(a[i, j], (i + j) % 13)


# %% 03.2: one half
# clause: map each a[i, j]
# not yet: the elements a[i, j] with j > i are on no tile
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(i + 1):
            graph.set_tile_mapping(a[i, j], (i + j) % graph.target.num_tiles)


# %% 03.2: the diagonal alone
# not yet: a[0, 1] is on no tile, the first of 650 such elements
def place(graph, a):
    for i in range(a.shape[0]):
        graph.set_tile_mapping(a[i, i], i % graph.target.num_tiles)


# %% 03.2: the last row alone
# not yet: a[0, 0] is on no tile, the first of 650 such elements
def place(graph, a):
    for i in range(a.shape[0]):
        graph.set_tile_mapping(a[-1, i], i % graph.target.num_tiles)


# %% 03.2: by the smaller of both
# not yet: nothing crosses, and the other tiles wait for the fullest
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            graph.set_tile_mapping(a[i, j], min(i, j) % graph.target.num_tiles)


# %% 03.2: beyond the last tile
# error in the answer: There is no tile 13
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            graph.set_tile_mapping(a[i, j], i + j)


# %% 03.2: another order of counting
# not yet: these two are added to each other
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            graph.set_tile_mapping(a[i, j], (3 * i + j * j) % graph.target.num_tiles)


# %% 03.3: no root
# why:  these are the squares of the lengths: the root is missing.
# next: put expr.Sqrt( ) around it.
def lengths(graph, x, y, program):
    return popops.map(graph, expr._1 * expr._1 + expr._2 * expr._2, [x, y], program)


# %% 03.3: y forgotten
# clause: x * x + y * y
# why:  y plays no part: _1 is the first tensor of the list each time.
# next: _2 stands for the second.
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(expr._1 * expr._1 + expr._1 * expr._1), [x, y], program)


# %% 03.3: the sum of absolute values
# why:  each was squared and rooted by itself, and that gives its absolute value.
# next: add the squares first, and take the root of the sum.
def lengths(graph, x, y, program):
    return popops.map(
        graph, expr.Sqrt(expr._1 * expr._1) + expr.Sqrt(expr._2 * expr._2), [x, y], program
    )


# %% 03.3: added before squared
# why:  x and y were added before they were squared.
# next: square each, then add.
def lengths(graph, x, y, program):
    both = expr._1 + expr._2
    return popops.map(graph, expr.Sqrt(both * both), [x, y], program)


# %% 03.3: a difference
# why:  the squares were taken from each other.
# next: add them.
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(expr._1 * expr._1 - expr._2 * expr._2), [x, y], program)


# %% 03.3: four calls
# clause: with one call
# not yet: each operation is a call of its own
def lengths(graph, x, y, program):
    return one_by_one(graph, x, y, program)


# %% 03.3: the root by itself
# not yet: the right lengths, in 2 compute sets
def lengths(graph, x, y, program):
    squares = popops.map(graph, expr._1 * expr._1 + expr._2 * expr._2, [x, y], program)
    return popops.sqrt(graph, squares, program)


# %% 03.3: not fused
# not yet: the expression was not fused
def lengths(graph, x, y, program):
    length = expr.Sqrt(expr._1 * expr._1 + expr._2 * expr._2)
    return popops.map(graph, length, [x, y], program, options={"enableGenerateCodelet": False})


# %% 03.3: in place
# not yet: x is changed by the program
def lengths(graph, x, y, program):
    popops.map_in_place(graph, expr.Sqrt(expr._1 * expr._1 + expr._2 * expr._2), [x, y], program)
    return x


# %% 03.3: dear powers
# clause: 15 % above a good answer
# not yet: does more for each arrow
def lengths(graph, x, y, program):
    return popops.map(
        graph, expr.Pow(expr.Pow(expr._1, 2.0) + expr.Pow(expr._2, 2.0), 0.5), [x, y], program
    )


# %% 03.3: gathered
# not yet: the lengths could lie there too
def lengths(graph, x, y, program):
    out = graph.add_variable(FLOAT, x.shape, "out")
    graph.set_tile_mapping(out, 0)
    popops.map_with_output(
        graph, expr.Sqrt(expr._1 * expr._1 + expr._2 * expr._2), [x, y], out, program
    )
    return out


# %% 03.3: numpy's root
# error in the answer: write expr.Sqrt( … )
def lengths(graph, x, y, program):
    length = np.sqrt(expr._1 * expr._1 + expr._2 * expr._2)
    return popops.map(graph, length, [x, y], program)


# %% 03.3: multiplied
# why:  the two squares are multiplied. They are added.
# next: _1 * _1 + _2 * _2 under the root.
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(expr._1 * expr._1 * expr._2 * expr._2), [x, y], program)


# %% 03.3: two roots
# why:  each number has a root of its own, and nothing is squared.
# next: one root, of x * x + y * y.
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(expr._1) + expr.Sqrt(expr._2), [x, y], program)


# %% 03.3: doubled, not squared
# clause: x * x + y * y
# why:  each number is doubled, and not squared. Where the sum is below 0, it has no root.
# next: multiply each number by itself: expr._1 * expr._1.
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(2 * expr._1 + 2 * expr._2), [x, y], program)


# %% 03.4: in HALF
# clause: both FLOAT
# why:  the sums were rounded to HALF. Squares of 40 are around 1,600, where a HALF has whole
#   numbers only, and the variance is the small difference of two of them.
# next: let both sums be FLOAT: the last argument of SingleReduceOp, or reduce's out_type.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    both = [popops.SingleReduceOp(x, [0, 1], how) for how in (each, squared)]
    mean, square = popops.reduce_many(graph, both, program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: mean of the rows' variances
# why:  this is the mean of the variances that the rows have by themselves. How far the rows' means
#   are apart is lost.
# next: two sums of everything are enough: of the numbers, and of their squares.
def mean_and_variance(graph, x, program):
    rows, columns = x.shape
    each = popops.ReduceParams("ADD", 1 / columns)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / columns)
    both = [popops.SingleReduceOp(x, [1], how, FLOAT) for how in (each, squared)]
    means, squares = popops.reduce_many(graph, both, program)
    variances = popops.map(graph, expr._2 - expr._1 * expr._1, [means, squares], program)
    overall = popops.ReduceParams("ADD", 1 / rows)
    return [popops.reduce(graph, part, [0], program, overall) for part in (means, variances)]


# %% 03.4: the mean of the squares
# clause: less the square of the mean
# why:  the second is the mean of the squares.
# next: take the square of the mean away from it.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    return popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )


# %% 03.4: turned round
# why:  the variance is below 0: it was taken away the wrong way round.
# next: _1 is the first tensor of the list, _2 the second.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    mean, square = popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )
    return mean, popops.map(graph, expr._1 * expr._1 - expr._2, [mean, square], program)


# %% 03.4: standard deviation
# clause: its variance
# why:  the second is the standard deviation, the root of the variance.
# next: leave the root out.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    mean, square = popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )
    return mean, popops.map(graph, expr.Sqrt(expr._2 - expr._1 * expr._1), [mean, square], program)


# %% 03.4: one less than the count
# why:  it was divided by one less than the count: an estimate from a sample. Asked is the variance
#   of these numbers.
# next: divide by x.num_elements.
def mean_and_variance(graph, x, program):
    count = x.num_elements
    each = popops.ReduceParams("ADD", 1 / count)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / count)
    mean, square = popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )
    factor = count / max(1, count - 1)
    return mean, popops.map(graph, (expr._2 - expr._1 * expr._1) * factor, [mean, square], program)


# %% 03.4: the mean not squared
# why:  the mean was taken away, and not its square.
# next: expr._1 * expr._1
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    mean, square = popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )
    return mean, popops.sub(graph, square, mean, program)


# %% 03.4: sums
# why:  these are made of sums: nothing was divided by the count.
# next: divide by x.num_elements: popops.ReduceParams("ADD", 1 / count).
def mean_and_variance(graph, x, program):
    both = [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in ("ADD", "SQUARE_ADD")]
    mean, square = popops.reduce_many(graph, both, program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: changed places
# why:  the variance came first.
# next: return mean, variance.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    mean, square = popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )
    return popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program), mean


# %% 03.4: squares in HALF
# not yet: rounding errors are too large
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    both = [
        popops.SingleReduceOp(part, [0, 1], each, FLOAT)
        for part in (x, popops.mul(graph, x, x, program))
    ]
    mean, square = popops.reduce_many(graph, both, program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: five compute sets
# clause: four compute sets at most
# not yet: both right, in 5 compute sets
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    mean = popops.reduce(graph, x, [0, 1], program, each, out_type=FLOAT)
    square = popops.reduce(graph, x, [0, 1], program, squared, out_type=FLOAT)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: the count of the example
# why:  the sums are divided by 52, the count of the example above.
# next: divide by x.num_elements.
def mean_and_variance(graph, x, program):
    mean, squares = (
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(word, 1 / 52), FLOAT)
        for word in ("ADD", "SQUARE_ADD")
    )
    mean, squares = popops.reduce_many(graph, [mean, squares], program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, squares], program)


# %% 03.4: the readings gathered
# clause: no more than two numbers from each tile may travel
# not yet: bytes cross
def mean_and_variance(graph, x, program):
    from ipu_teach.program import Copy

    here = graph.add_variable(HALF, x.shape, "here")
    graph.set_tile_mapping(here, 0)
    program.add(Copy(x, here))
    return reference(graph, here, program)


def reference(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    both = [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)]
    mean, square = popops.reduce_many(graph, both, program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: the mean alone
# clause: Return the mean
# not yet: 2 tensors
def mean_and_variance(graph, x, program):
    return popops.reduce(
        graph, x, [0, 1], program, popops.ReduceParams("ADD", 1 / x.num_elements), out_type=FLOAT
    )


# %% 03.4: one reading less below the squares
# why:  the squares are divided by one reading less than the sum is. Both means are of all of them.
# next: divide both sums by x.num_elements.
def mean_and_variance(graph, x, program):
    count = x.num_elements
    ops = [
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams("ADD", 1 / count), FLOAT),
        popops.SingleReduceOp(
            x, [0, 1], popops.ReduceParams("SQUARE_ADD", 1 / max(1, count - 1)), FLOAT
        ),
    ]
    mean, square = popops.reduce_many(graph, ops, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [square, mean], program)


# %% 03.4: divided by the columns
# why:  both sums are divided by the number of columns. There are rows, too.
# next: divide by x.num_elements.
def mean_and_variance(graph, x, program):
    sums = [
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(how, 1 / x.shape[1]), FLOAT)
        for how in ("ADD", "SQUARE_ADD")
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [squares, mean], program)


# %% 03.4: divided by the rows
# why:  both sums are divided by the number of rows. There are columns, too.
# next: divide by x.num_elements.
def mean_and_variance(graph, x, program):
    sums = [
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(how, 1 / x.shape[0]), FLOAT)
        for how in ("ADD", "SQUARE_ADD")
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [squares, mean], program)


# %% 03.4: the squares squared
# why:  the mean of the squares was squared, and the mean was not.
# next: _1 is the first tensor of the list, and _2 the second: square the one that is the mean.
def mean_and_variance(graph, x, program):
    sums = [
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(how, 1 / x.num_elements), FLOAT)
        for how in ("ADD", "SQUARE_ADD")
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [mean, squares], program)


# %% 03.4: 3,250 readings
# why:  both sums are divided by 3,250, as if there were 13 x 250 readings in any x.
# next: divide by x.num_elements.
def mean_and_variance(graph, x, program):
    sums = [
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(how, 1 / 3250), FLOAT)
        for how in ("ADD", "SQUARE_ADD")
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [squares, mean], program)


# %% 03.4: 40 not added again
# why:  the variance is right, and the mean is 40 too small.
# next: add 40 to the mean at the end.
def mean_and_variance(graph, x, program):
    near = popops.sub(graph, x, 40, program)
    sums = [
        popops.SingleReduceOp(near, [0, 1], popops.ReduceParams(how, 1 / x.num_elements), FLOAT)
        for how in ("ADD", "SQUARE_ADD")
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [squares, mean], program)


# %% 03.4: the sum of the squares
# why:  the mean is right, and the squares were added up and not divided.
# next: popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements).
def mean_and_variance(graph, x, program):
    scaled = popops.ReduceParams("ADD", 1 / x.num_elements)
    sums = [
        popops.SingleReduceOp(x, [0, 1], scaled, FLOAT),
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams("SQUARE_ADD"), FLOAT),
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [squares, mean], program)


# %% 03.4: a row for each tile
# why:  both sums are divided by 13 times the number of columns. An x may have fewer rows than 13.
# next: divide by x.num_elements.
def mean_and_variance(graph, x, program):
    count = 13 * x.shape[1]
    mean, squares = (
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(word, 1 / count), FLOAT)
        for word in ("ADD", "SQUARE_ADD")
    )
    mean, squares = popops.reduce_many(graph, [mean, squares], program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, squares], program)


# %% 03.5: not divided
# clause: divided by keep
# why:  what is kept stays as it was, so that the sum of all becomes smaller with every number that
#   is dropped.
# next: divide what is kept by keep.
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.mul(graph, x, mask, program)


# %% 03.5: multiplied by keep
# why:  what is kept was multiplied by keep: it becomes smaller still.
# next: divide by it.
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 * keep, [x, mask], program)


# %% 03.5: the mask
# clause: draw a mask
# why:  this is the mask, and x plays no part.
# next: multiply x by it.
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.div(graph, mask, keep, program)


# %% 03.5: Python's chance
# not yet: the mask does not depend on the seed
def dropout(graph, x, seed, keep, program):
    values = np.random.default_rng(0).random(x.shape) < keep
    mask = graph.add_constant(FLOAT, x.shape, values / keep, "mask")
    graph.set_tile_mapping(mask, 0)
    return popops.mul(graph, x, mask, program)


# %% 03.5: no seed
# clause: The seed is written by the host before each run
# not yet: with the same seed, another mask
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, None, 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: the chance to be dropped
# clause: with the chance `keep`
# not yet: kept and dropped have changed places
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, 1 - keep, program)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: half of them
# not yet: so many draws with a chance of 0.75 come closer to it
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, 0.5, program)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: one draw for a column
# clause: each number
# not yet: one draw was made for several of them
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x[0], FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: nothing is dropped
# clause: and else 0
# not yet: nothing is dropped, whatever the seed
def dropout(graph, x, seed, keep, program):
    return popops.mul(graph, x, 1.0, program)


# %% 03.5: everything is dropped
# not yet: everything is dropped, whatever the seed
def dropout(graph, x, seed, keep, program):
    return popops.mul(graph, x, 0.0, program)


# %% 03.5: two halves with one draw
# not yet: a call with the same seed and the same number draws the same once more
def dropout(graph, x, seed, keep, program):
    from ipu_teach import concat

    half = x.shape[1] // 2
    parts = [x[:, :half], x[:, half : 2 * half], x[:, 2 * half :]]
    masks = [
        poprand.bernoulli(graph, seed, 1, part, FLOAT, keep, program)
        for part in parts
        if part.num_elements
    ]
    mask = concat(masks, 1)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: one draw for two columns
# not yet: one draw was made for several of them
def dropout(graph, x, seed, keep, program):
    rows, half = x.shape[0], -(-x.shape[1] // 2)
    mask = poprand.bernoulli(graph, seed, 1, x[:, :half], FLOAT, keep, program)
    mask = mask.reshape((rows * half, 1)).broadcast(2, 1).reshape((rows, 2 * half))
    mask = mask[:, : x.shape[1]]
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: the mask of a tile for all its rows
# clause: each number
# not yet: of the mask is as 13 rows further expected: about 50 % why: numbers share their fate: one
#   draw was made for several of them
def dropout(graph, x, seed, keep, program):
    from ipu_teach import concat

    tiles = graph.target.num_tiles
    mask = poprand.bernoulli(graph, seed, 1, x[:tiles], FLOAT, keep, program)
    mask = concat([mask[row % tiles].reshape((1, x.shape[1])) for row in range(x.shape[0])], 0)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: half of the mask, mirrored
# not yet: one draw was made for several of them
def dropout(graph, x, seed, keep, program):
    from ipu_teach import concat

    half = -(-x.shape[1] // 2)
    mask = poprand.bernoulli(graph, seed, 1, x[:, :half], FLOAT, keep, program)
    mask = concat([mask, mask[:, : x.shape[1] - half].reverse(1)], 1)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: divided by the mask
# not yet: a mask has 0 where a number is dropped, and it divides
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 / expr._2 / keep, [x, mask], program)


# %% 03.5: divided twice
# why:  it was divided by keep twice.
# next: divide once.
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 / keep / keep, [x, mask], program)


# %% 03.5: divided by the chance to be dropped
# why:  what stays was divided by the chance to be dropped.
# next: divide by keep.
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 / (1 - keep), [x, mask], program)


# %% 03.5: divided by the share that was kept
# not yet: they were divided by that share. keep is 0.75. next: divide by keep
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    mean = popops.ReduceParams("ADD", 1 / x.num_elements)
    share = popops.reduce(graph, mask, list(range(len(x.shape))), program, mean)
    return popops.map(graph, expr._1 * expr._2 / expr._3, [x, mask, share], program)


# %% 03.w1: x itself
# why:  this is x as it was: no call was made with it.
# next: return what popops.exp gives back.
def powers(graph, x, program):
    return x


# %% 03.w1: the root
# clause: with `exp` of each number
# why:  this is the square root.
# next: call popops.exp.
def powers(graph, x, program):
    return popops.sqrt(graph, popops.mul(graph, x, x, program), program)


# %% 03.w1: into a program of its own
# clause: return the tensor
# why:  the call appended to another program than the one that is run, so that nothing is computed.
# next: give it program, and not a new Sequence().
def powers(graph, x, program):
    return popops.exp(graph, x, Sequence())


# %% 03.w1: the square
# why:  these are the squares.
# next: popops.exp.
def powers(graph, x, program):
    return popops.square(graph, x, program)


# %% 03.w1: the sign turned round
# why:  these are the powers of -x.
# next: leave out the minus: popops.exp(graph, x, program).
def powers(graph, x, program):
    return popops.map(graph, expr.Exp(-expr._1), [x], program)


# %% 03.w2: without the one
# clause: and 1 more
# why:  this is twice x, and 1 is missing.
# next: expressions take + as well: 2 * expr._1 + 1.
def twice_and_one(graph, x, program):
    return popops.map(graph, 2 * expr._1, [x], program)


# %% 03.w2: the one first
# why:  1 was added first, and then all of it was doubled.
# next: times before plus, as in Python.
def twice_and_one(graph, x, program):
    return popops.map(graph, 2 * (expr._1 + 1), [x], program)


# %% 03.w2: squared
# clause: twice each number
# why:  x is multiplied by itself, and not by 2.
# next: 2 * expr._1 + 1.
def twice_and_one(graph, x, program):
    return popops.map(graph, expr._1 * expr._1 + 1, [x], program)


# %% 03.w2: one less
# why:  1 is taken away.
# next: 2 * expr._1 + 1.
def twice_and_one(graph, x, program):
    return popops.map(graph, 2 * expr._1 - 1, [x], program)


# %% 03.w3: the largest
# why:  this is the largest of each column.
# next: leave the word out: without one it adds up.
def column_sums(graph, x, program):
    return popops.reduce(graph, x, [0], program, "MAX")


# %% 03.w3: one for each row
# clause: the sum of each *column*
# not yet: a tensor of shape (13,)
def column_sums(graph, x, program):
    return popops.reduce(graph, x, [1], program)


# %% 03.w3: the mean
# why:  these are the means of the columns.
# next: leave them undivided.
def column_sums(graph, x, program):
    sums = popops.reduce(graph, x, [0], program)
    return popops.mul(graph, sums, 1 / x.shape[0], program)


# %% 03.w3: one sum for all
# not yet: that is one number for the whole of x
def column_sums(graph, x, program):
    return popops.reduce(graph, x, [0, 1], program)
