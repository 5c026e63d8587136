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
# why:  this subtracts the largest number of all rows from each row. A row with much smaller numbers
#   then has only powers of 0, and 0 divided by 0 is not a number.
# next: find the largest number of each row separately.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [0, 1], program, "MAX")
    powers = popops.exp(graph, popops.sub(graph, x, largest, program), program)
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: the mean instead of the largest
# why:  this subtracts the mean of each row. The largest number of a row can be so far above the
#   mean that exp is still infinite.
# next: subtract a number of the row that is at least as large as all others.
def softmax(graph, x, program):
    sums = popops.reduce(graph, x, [1], program)
    means = popops.div(graph, sums, x.shape[1], program).reshape((x.shape[0], 1))
    powers = popops.exp(graph, popops.sub(graph, x, means, program), program)
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: nothing taken away
# clause: the check tries numbers around 10,000
# why:  exp(89) is larger than every FLOAT, so it becomes infinite, and infinity divided by infinity
#   is not a number. With small numbers the program works.
# next: subtract one number from each row before exp, so that exp stays finite.
def softmax(graph, x, program):
    powers = popops.exp(graph, x, program)
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: the sum instead of the largest
# why:  this subtracts the sum of each row, because popops.reduce adds up if you name no operation.
#   A sum can be far from the numbers of the row.
# next: name the operation in the call of popops.reduce, so that it does not add up.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program)
    powers = popops.exp(
        graph, popops.sub(graph, x, largest.reshape((x.shape[0], 1)), program), program
    )
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: columns
# why:  the columns of the result add up to 1, but the rows should.
# next: reduce over [1]: this adds up each row.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [0], program, "MAX")
    powers = popops.exp(graph, popops.sub(graph, x, largest, program), program)
    totals = popops.reduce(graph, powers, [0], program)
    return popops.div(graph, powers, totals, program)


# %% 03.1: one sum for all
# clause: divided by the sum of exp over all numbers of the row
# why:  all numbers of the result together add up to 1, but each row should.
# next: add up the powers of each row separately.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX")
    powers = popops.exp(
        graph, popops.sub(graph, x, largest.reshape((x.shape[0], 1)), program), program
    )
    return popops.div(graph, powers, popops.reduce(graph, powers, [0, 1], program), program)


# %% 03.1: not divided
# why:  these are the powers: they are not divided by their sum.
# next: divide each power by the sum of the powers in its row.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX")
    return popops.exp(
        graph, popops.sub(graph, x, largest.reshape((x.shape[0], 1)), program), program
    )


# %% 03.1: no exp
# clause: each share is exp of the number
# why:  this divides the numbers themselves by their sum. exp is missing.
# next: take exp first, and then add up the powers.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX")
    shifted = popops.sub(graph, x, largest.reshape((x.shape[0], 1)), program)
    totals = popops.reduce(graph, shifted, [1], program)
    return popops.div(graph, shifted, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: signs turned round
# why:  the signs are exchanged, so the largest number gets the smallest share.
# next: call sub(graph, x, largest, program): it computes x - largest.
def softmax(graph, x, program):
    least = popops.reduce(graph, x, [1], program, "MIN")
    powers = popops.exp(
        graph, popops.sub(graph, least.reshape((x.shape[0], 1)), x, program), program
    )
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: cut off below
# not yet: This input is special: the numbers reach the ends of FLOAT
def softmax(graph, x, program):
    x = popops.map(graph, expr.Max(expr._1, -1e30), [x], program)
    largest = popops.reduce(graph, x, [1], program, "MAX").reshape((x.shape[0], 1))
    powers = popops.exp(graph, popops.sub(graph, x, largest, program), program)
    totals = popops.reduce(graph, powers, [1], program)
    return popops.div(graph, powers, totals.reshape((x.shape[0], 1)), program)


# %% 03.1: in place
# clause: do not change x
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
# not yet: popops.reduce removes the dimensions
def softmax(graph, x, program):
    return popops.reduce(graph, popops.exp(graph, x, program), [1], program)


# %% 03.1: through logarithms
# not yet: rounding loses too many digits
def softmax(graph, x, program):
    logs = popops.reduce(graph, x, [1], program, "LOG_ADD").reshape((x.shape[0], 1))
    return popops.exp(graph, popops.sub(graph, x, logs, program), program)


# %% 03.1: the sum of other powers
# why:  the powers in the numerator subtract the largest number of the row, but the powers in the
#   denominator do not.
# next: add up the same powers that you divide: reduce them over [1].
def softmax(graph, x, program):
    column = (x.shape[0], 1)
    most = popops.reduce(graph, x, [1], program, "MAX").reshape(column)
    powers = popops.exp(graph, popops.sub(graph, x, most, program), program)
    total = popops.reduce(graph, popops.exp(graph, x, program), [1], program)
    return popops.div(graph, powers, total.reshape(column), program)


# %% 03.1: the sum before exp
# why:  this divides the powers by the sum of the differences instead of the sum of the powers.
# next: reduce the tensor that exp returned.
def softmax(graph, x, program):
    column = (x.shape[0], 1)
    most = popops.reduce(graph, x, [1], program, "MAX").reshape(column)
    apart = popops.sub(graph, x, most, program)
    total = popops.reduce(graph, apart, [1], program).reshape(column)
    return popops.div(graph, popops.exp(graph, apart, program), total, program)


# %% 03.1: 10,000 taken away
# why:  this subtracts 10,000 from every row. If the numbers of a row are far from 10,000, exp is 0
#   or infinite, and the quotient is not a number.
# next: subtract a number that depends on the row.
def softmax(graph, x, program):
    powers = popops.exp(graph, popops.sub(graph, x, 10_000, program), program)
    total = popops.reduce(graph, powers, [1], program).reshape((x.shape[0], 1))
    return popops.div(graph, powers, total, program)


# %% 03.1: divided by the mean
# why:  each row adds up to its number of columns, because this divides the powers by their mean.
# next: divide the powers by their sum.
def softmax(graph, x, program):
    column = (x.shape[0], 1)
    most = popops.reduce(graph, x, [1], program, "MAX").reshape(column)
    powers = popops.exp(graph, popops.sub(graph, x, most, program), program)
    scaled = popops.ReduceParams("ADD", 1 / x.shape[1])
    mean = popops.reduce(graph, powers, [1], program, scaled).reshape(column)
    return popops.div(graph, powers, mean, program)


# %% 03.1: the sum of the column
# clause: divided by the sum of exp over all numbers of the row
# why:  this divides each power by the sum of its column instead of the sum of its row.
# next: reduce over the other dimension.
def softmax(graph, x, program):
    largest = popops.reduce(graph, x, [1], program, "MAX").reshape((x.shape[0], 1))
    powers = popops.exp(graph, popops.sub(graph, x, largest, program), program)
    return popops.div(graph, powers, popops.reduce(graph, powers, [0], program), program)


# %% 03.2: by rows
# clause: the addition sends nothing at all
# not yet: each row (or column) is on one tile
def place(graph, a):
    for i in range(a.shape[0]):
        graph.set_tile_mapping(a[i], i % 13)


# %% 03.2: everything on one tile
# clause: No tile may have more than twice an even share
# not yet: all numbers are on one tile
def place(graph, a):
    graph.set_tile_mapping(a, 0)


# %% 03.2: diagonals of the wrong kind
# clause: of a and a.transpose() sends nothing
# not yet: But for a[j, i] the difference is i - j
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            graph.set_tile_mapping(a[i, j], (i - j) % graph.target.num_tiles)


# %% 03.2: thirteen tiles, whatever the machine
# clause: Map a square matrix so that the addition sends nothing at all
# error in the answer: There is no tile 7
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            graph.set_tile_mapping(a[i, j], (i + j) % 13)


# %% 03.2: one half
# clause: map each a[i, j]
# not yet: the elements a[i, j] with j > i are not mapped to any tile
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(i + 1):
            graph.set_tile_mapping(a[i, j], (i + j) % graph.target.num_tiles)


# %% 03.2: the diagonal alone
# not yet: a[0, 1] is not mapped to any tile, the first of 650 such elements
def place(graph, a):
    for i in range(a.shape[0]):
        graph.set_tile_mapping(a[i, i], i % graph.target.num_tiles)


# %% 03.2: the last row alone
# not yet: a[0, 0] is not mapped to any tile, the first of 650 such elements
def place(graph, a):
    for i in range(a.shape[0]):
        graph.set_tile_mapping(a[-1, i], i % graph.target.num_tiles)


# %% 03.2: by the smaller of both
# not yet: nothing is sent, but some tiles have many more
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
# not yet: the addition adds these two elements
def place(graph, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            graph.set_tile_mapping(a[i, j], (3 * i + j * j) % graph.target.num_tiles)


# %% 03.3: no root
# why:  these are the squares of the lengths: the root is missing.
# next: put expr.Sqrt( ) around the sum.
def lengths(graph, x, y, program):
    return popops.map(graph, expr._1 * expr._1 + expr._2 * expr._2, [x, y], program)


# %% 03.3: y forgotten
# clause: x * x + y * y
# why:  y has no effect: the expression uses _1, the first tensor of the list, in both products.
# next: square the second tensor of the list, too.
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(expr._1 * expr._1 + expr._1 * expr._1), [x, y], program)


# %% 03.3: the sum of absolute values
# why:  this takes the root of each square before it adds, which gives the sum of the absolute
#   values.
# next: add the squares first, and then take one root of the sum.
def lengths(graph, x, y, program):
    return popops.map(
        graph, expr.Sqrt(expr._1 * expr._1) + expr.Sqrt(expr._2 * expr._2), [x, y], program
    )


# %% 03.3: added before squared
# why:  this adds x and y before it squares.
# next: square x and y first, and then add the squares.
def lengths(graph, x, y, program):
    both = expr._1 + expr._2
    return popops.map(graph, expr.Sqrt(both * both), [x, y], program)


# %% 03.3: a difference
# why:  this subtracts one square from the other.
# next: add the squares.
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(expr._1 * expr._1 - expr._2 * expr._2), [x, y], program)


# %% 03.3: four calls
# clause: with one call
# not yet: each operation is a separate call
def lengths(graph, x, y, program):
    return one_by_one(graph, x, y, program)


# %% 03.3: the root by itself
# not yet: the right lengths, in 2 compute sets
def lengths(graph, x, y, program):
    squares = popops.map(graph, expr._1 * expr._1 + expr._2 * expr._2, [x, y], program)
    return popops.sqrt(graph, squares, program)


# %% 03.3: not fused
# not yet: the expression is not fused
def lengths(graph, x, y, program):
    length = expr.Sqrt(expr._1 * expr._1 + expr._2 * expr._2)
    return popops.map(graph, length, [x, y], program, options={"enableGenerateCodelet": False})


# %% 03.3: in place
# not yet: x is changed by the program
def lengths(graph, x, y, program):
    popops.map_in_place(graph, expr.Sqrt(expr._1 * expr._1 + expr._2 * expr._2), [x, y], program)
    return x


# %% 03.3: dear powers
# clause: 15 % more than a good answer
# not yet: does more work for each arrow
def lengths(graph, x, y, program):
    return popops.map(
        graph, expr.Pow(expr.Pow(expr._1, 2.0) + expr.Pow(expr._2, 2.0), 0.5), [x, y], program
    )


# %% 03.3: gathered
# not yet: row i of the lengths could be there, too
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
# why:  this multiplies the two squares instead of adding them.
# next: take the root of the sum of the two squares.
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(expr._1 * expr._1 * expr._2 * expr._2), [x, y], program)


# %% 03.3: two roots
# why:  this adds the roots of x and y, and squares nothing.
# next: take one root, of the sum of the two squares.
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(expr._1) + expr.Sqrt(expr._2), [x, y], program)


# %% 03.3: doubled, not squared
# clause: x * x + y * y
# why:  this doubles each number instead of squaring it. If the sum is negative, it has no root.
# next: multiply each number by itself: expr._1 * expr._1.
def lengths(graph, x, y, program):
    return popops.map(graph, expr.Sqrt(2 * expr._1 + 2 * expr._2), [x, y], program)


# %% 03.4: in HALF
# clause: both FLOAT
# why:  the sums are rounded to HALF. Squares of 40 are around 1,600, and there HALF has only whole
#   numbers, so the variance, a small difference of two such numbers, is wrong.
# next: compute both sums in FLOAT: FLOAT is the last argument of SingleReduceOp, and out_type of
#   popops.reduce.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    both = [popops.SingleReduceOp(x, [0, 1], how) for how in (each, squared)]
    mean, square = popops.reduce_many(graph, both, program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: two sums in HALF
# not yet: in float64 the result is right, but HALF ends at 65,504, and a sum is larger.
def mean_and_variance(graph, x, program):
    count = x.num_elements
    mean = popops.div(graph, popops.reduce(graph, x, [0, 1], program), count, program)
    squares = popops.reduce(graph, popops.mul(graph, x, x, program), [0, 1], program)
    square = popops.div(graph, squares, count, program)
    return mean, popops.sub(graph, square, popops.mul(graph, mean, mean, program), program)


# %% 03.4: one of two in HALF
# not yet: one operand of this operation is FLOAT, and another one is still HALF
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    both = [popops.SingleReduceOp(x, [0, 1], each, FLOAT)]
    both.append(popops.SingleReduceOp(x, [0, 1], squared))
    mean, square = popops.reduce_many(graph, both, program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: mean of the rows' variances
# why:  this is the mean of the variances of the rows. It leaves out how far the means of the rows
#   are apart.
# next: compute two sums over all readings: the sum of the readings, and the sum of their squares.
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
# clause: minus the square of the mean
# why:  the second tensor is the mean of the squares.
# next: subtract the square of the mean from it.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    return popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )


# %% 03.4: turned round
# why:  the variance is negative: the two terms of the difference are exchanged.
# next: subtract the square of the mean from the mean of the squares. In the expression, _1 is the
#   first tensor of your list and _2 the second.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    mean, square = popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )
    return mean, popops.map(graph, expr._1 * expr._1 - expr._2, [mean, square], program)


# %% 03.4: standard deviation
# clause: its variance
# why:  the second tensor is the standard deviation, the root of the variance.
# next: leave out the root.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    mean, square = popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )
    return mean, popops.map(graph, expr.Sqrt(expr._2 - expr._1 * expr._1), [mean, square], program)


# %% 03.4: one less than the count
# why:  this divides by one less than the number of readings, which estimates a variance from a
#   sample. The exercise asks for the variance of these readings.
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
# why:  this subtracts the mean instead of its square.
# next: square the mean: expr._1 * expr._1, if the mean is the first tensor of your list.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    mean, square = popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )
    return mean, popops.sub(graph, square, mean, program)


# %% 03.4: sums
# why:  this uses the sums without dividing them by the number of readings.
# next: divide both sums by the number of readings: ReduceParams takes a factor.
def mean_and_variance(graph, x, program):
    both = [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in ("ADD", "SQUARE_ADD")]
    mean, square = popops.reduce_many(graph, both, program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: changed places
# why:  the two tensors are in the wrong order: the variance is first.
# next: return mean, variance.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    mean, square = popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0, 1], how, FLOAT) for how in (each, squared)], program
    )
    return popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program), mean


# %% 03.4: squares in HALF
# why:  the squares are rounded to HALF before they are added up: the product of two HALF tensors is
#   a HALF tensor.
# next: let the reduction square the readings: one of its operations adds up squares.
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    both = [
        popops.SingleReduceOp(part, [0, 1], each, FLOAT)
        for part in (x, popops.mul(graph, x, x, program))
    ]
    mean, square = popops.reduce_many(graph, both, program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: five compute sets
# clause: at most four compute sets
# not yet: both results are right, in 5 compute sets
def mean_and_variance(graph, x, program):
    each = popops.ReduceParams("ADD", 1 / x.num_elements)
    squared = popops.ReduceParams("SQUARE_ADD", 1 / x.num_elements)
    mean = popops.reduce(graph, x, [0, 1], program, each, out_type=FLOAT)
    square = popops.reduce(graph, x, [0, 1], program, squared, out_type=FLOAT)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, square], program)


# %% 03.4: the count of the example
# why:  this divides the sums by 52, the number of elements in the example of the text.
# next: divide both sums by x.num_elements.
def mean_and_variance(graph, x, program):
    mean, squares = (
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(word, 1 / 52), FLOAT)
        for word in ("ADD", "SQUARE_ADD")
    )
    mean, squares = popops.reduce_many(graph, [mean, squares], program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, squares], program)


# %% 03.4: the readings gathered
# clause: send at most two numbers from each tile
# not yet: bytes are sent
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
# why:  this divides the sum of squares by one less than the number of readings. Both means are
#   means of all readings.
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
# why:  this divides both sums by the number of columns. The number of readings is rows times
#   columns.
# next: divide both sums by x.num_elements.
def mean_and_variance(graph, x, program):
    sums = [
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(how, 1 / x.shape[1]), FLOAT)
        for how in ("ADD", "SQUARE_ADD")
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [squares, mean], program)


# %% 03.4: divided by the rows
# why:  this divides both sums by the number of rows. The number of readings is rows times columns.
# next: divide both sums by x.num_elements.
def mean_and_variance(graph, x, program):
    sums = [
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(how, 1 / x.shape[0]), FLOAT)
        for how in ("ADD", "SQUARE_ADD")
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [squares, mean], program)


# %% 03.4: the squares squared
# why:  this squares the mean of the squares instead of the mean.
# next: square the mean. In the expression, _1 is the first tensor of your list and _2 the second.
def mean_and_variance(graph, x, program):
    sums = [
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(how, 1 / x.num_elements), FLOAT)
        for how in ("ADD", "SQUARE_ADD")
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [mean, squares], program)


# %% 03.4: 3,250 readings
# why:  this divides both sums by 3,250, as if every x had 13 x 250 readings.
# next: divide both sums by x.num_elements.
def mean_and_variance(graph, x, program):
    sums = [
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(how, 1 / 3250), FLOAT)
        for how in ("ADD", "SQUARE_ADD")
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [squares, mean], program)


# %% 03.4: 40 not added again
# why:  the variance is right, but the mean is too small by 40, the number that you subtracted from
#   the readings.
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
# why:  the mean is right, but the sum of squares is not divided by the number of readings.
# next: divide the sum of squares by the number of readings, too.
def mean_and_variance(graph, x, program):
    scaled = popops.ReduceParams("ADD", 1 / x.num_elements)
    sums = [
        popops.SingleReduceOp(x, [0, 1], scaled, FLOAT),
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams("SQUARE_ADD"), FLOAT),
    ]
    mean, squares = popops.reduce_many(graph, sums, program)
    return mean, popops.map(graph, expr._1 - expr._2 * expr._2, [squares, mean], program)


# %% 03.4: a row for each tile
# why:  this divides both sums by 13 times the number of columns. But x can have fewer than 13 rows.
# next: divide both sums by x.num_elements.
def mean_and_variance(graph, x, program):
    count = 13 * x.shape[1]
    mean, squares = (
        popops.SingleReduceOp(x, [0, 1], popops.ReduceParams(word, 1 / count), FLOAT)
        for word in ("ADD", "SQUARE_ADD")
    )
    mean, squares = popops.reduce_many(graph, [mean, squares], program)
    return mean, popops.map(graph, expr._2 - expr._1 * expr._1, [mean, squares], program)


# %% 03.5: not divided
# clause: divided by `keep`
# why:  the numbers that stay are unchanged, so the mean becomes smaller with every number that
#   becomes 0.
# next: divide the numbers that stay by `keep`.
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.mul(graph, x, mask, program)


# %% 03.5: multiplied by keep
# why:  this multiplies the numbers that stay by `keep`, so they become even smaller.
# next: divide by `keep`.
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 * keep, [x, mask], program)


# %% 03.5: the mask
# clause: create a mask
# why:  this is the mask, without x.
# next: multiply x by the mask.
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
# clause: Before each run, the host writes a new seed
# not yet: with the same seed, another mask
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, None, 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: the chance to be dropped
# clause: with probability `keep`
# not yet: the numbers that should stay become 0
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, 1 - keep, program)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: half of them
# not yet: stay with probability 0.75, their share is near 75 %
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, 0.5, program)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: one draw for a column
# clause: each number
# not yet: several numbers share one random decision
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x[0], FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: nothing is dropped
# clause: otherwise 0
# not yet: every number stays, for every seed
def dropout(graph, x, seed, keep, program):
    return popops.mul(graph, x, 1.0, program)


# %% 03.5: everything is dropped
# not yet: every number becomes 0, for every seed
def dropout(graph, x, seed, keep, program):
    return popops.mul(graph, x, 0.0, program)


# %% 03.5: two halves with one draw
# not yet: two calls with the same seed and the same number draw
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
# not yet: several numbers share one random decision
def dropout(graph, x, seed, keep, program):
    rows, half = x.shape[0], -(-x.shape[1] // 2)
    mask = poprand.bernoulli(graph, seed, 1, x[:, :half], FLOAT, keep, program)
    mask = mask.reshape((rows * half, 1)).broadcast(2, 1).reshape((rows, 2 * half))
    mask = mask[:, : x.shape[1]]
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: the mask of a tile for all its rows
# clause: each number
# not yet: of the mask equals the mask 13 rows further expected: about 50 % why: several numbers
#   share one random decision
def dropout(graph, x, seed, keep, program):
    from ipu_teach import concat

    tiles = graph.target.num_tiles
    mask = poprand.bernoulli(graph, seed, 1, x[:tiles], FLOAT, keep, program)
    mask = concat([mask[row % tiles].reshape((1, x.shape[1])) for row in range(x.shape[0])], 0)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: half of the mask, mirrored
# not yet: several numbers share one random decision
def dropout(graph, x, seed, keep, program):
    from ipu_teach import concat

    half = -(-x.shape[1] // 2)
    mask = poprand.bernoulli(graph, seed, 1, x[:, :half], FLOAT, keep, program)
    mask = concat([mask, mask[:, : x.shape[1] - half].reverse(1)], 1)
    return popops.map(graph, expr._1 * expr._2 / keep, [x, mask], program)


# %% 03.5: divided by the mask
# not yet: the program divides by the mask
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 / expr._2 / keep, [x, mask], program)


# %% 03.5: divided twice
# why:  this divides by `keep` twice.
# next: divide by `keep` only once.
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 / keep / keep, [x, mask], program)


# %% 03.5: divided by the chance to be dropped
# why:  this divides by the probability that a number becomes 0.
# next: divide by `keep`, the probability that a number stays.
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    return popops.map(graph, expr._1 * expr._2 / (1 - keep), [x, mask], program)


# %% 03.5: divided by the share that was kept
# not yet: that stayed in this run. `keep` is 0.75. next: divide by `keep`
def dropout(graph, x, seed, keep, program):
    mask = poprand.bernoulli(graph, seed, 1, x, FLOAT, keep, program)
    mean = popops.ReduceParams("ADD", 1 / x.num_elements)
    share = popops.reduce(graph, mask, list(range(len(x.shape))), program, mean)
    return popops.map(graph, expr._1 * expr._2 / expr._3, [x, mask, share], program)


# %% 03.w1: x itself
# why:  this is x without any change.
# next: return the tensor that popops.exp returns.
def powers(graph, x, program):
    return x


# %% 03.w1: the root
# clause: with `exp` of each number
# why:  this is the square root of x.
# next: call popops.exp.
def powers(graph, x, program):
    return popops.sqrt(graph, popops.mul(graph, x, x, program), program)


# %% 03.w1: into a program of its own
# clause: return the tensor
# why:  the call appends to a new Sequence instead of `program`, so the machine never computes it.
# next: pass `program` to the call instead of a new Sequence().
def powers(graph, x, program):
    return popops.exp(graph, x, Sequence())


# %% 03.w1: the square
# why:  these are the squares of x.
# next: call popops.exp.
def powers(graph, x, program):
    return popops.square(graph, x, program)


# %% 03.w1: the sign turned round
# why:  this is exp of -x.
# next: leave out the minus.
def powers(graph, x, program):
    return popops.map(graph, expr.Exp(-expr._1), [x], program)


# %% 03.w2: without the one
# clause: plus 1
# why:  this is twice x: the 1 is missing.
# next: add 1 in the expression.
def twice_and_one(graph, x, program):
    return popops.map(graph, 2 * expr._1, [x], program)


# %% 03.w2: the one first
# why:  this adds 1 first and then doubles the sum.
# next: double first, and then add 1.
def twice_and_one(graph, x, program):
    return popops.map(graph, 2 * (expr._1 + 1), [x], program)


# %% 03.w2: operators on the tensor
# not yet: x has no numbers yet when Python executes this line
def twice_and_one(graph, x, program):
    return 2 * x + 1


# %% 03.w2: squared
# clause: twice each number
# why:  this multiplies x by itself instead of 2.
# next: multiply expr._1 by 2.
def twice_and_one(graph, x, program):
    return popops.map(graph, expr._1 * expr._1 + 1, [x], program)


# %% 03.w2: one less
# why:  this subtracts 1 instead of adding 1.
# next: add 1 in the expression.
def twice_and_one(graph, x, program):
    return popops.map(graph, 2 * expr._1 - 1, [x], program)


# %% 03.w3: the largest
# why:  these are the largest numbers of the columns.
# next: leave out the name of the operation: popops.reduce then adds up.
def column_sums(graph, x, program):
    return popops.reduce(graph, x, [0], program, "MAX")


# %% 03.w3: one for each row
# clause: the sum of each *column*
# not yet: a tensor of shape (13,)
def column_sums(graph, x, program):
    return popops.reduce(graph, x, [1], program)


# %% 03.w3: the mean
# why:  these are the means of the columns.
# next: return the sums without dividing them.
def column_sums(graph, x, program):
    sums = popops.reduce(graph, x, [0], program)
    return popops.mul(graph, sums, 1 / x.shape[0], program)


# %% 03.w3: one sum for all
# not yet: this is one number for all of x
def column_sums(graph, x, program):
    return popops.reduce(graph, x, [0, 1], program)
