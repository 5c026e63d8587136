# %% given
"""Known mistakes of lesson 04; what this file is: mistakes.py."""

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, InOut, Input, IPUModel, Output, Vector, Vertex
from ipu_teach.program import Copy, Execute, Sequence

TILES = 13
device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()


class Peaks(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        best = self.best
        for i in range(len(self.x)):
            if self.x[i] > best:
                best = self.x[i]
            self.out[i] = best
        self.best = best


class Largest(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        best = -np.inf
        for i in range(len(self.x)):
            if self.x[i] > best:
                best = self.x[i]
        self.out = best


class PrefixFrom(Vertex):
    before: Input[Vector[FLOAT]]
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        best = -np.inf
        for i in range(len(self.before)):
            best = np.maximum(best, self.before[i])
        for i in range(len(self.x)):
            if self.x[i] > best:
                best = self.x[i]
            self.out[i] = best


class Mean(Vertex):
    here: InOut[FLOAT]
    right: Input[FLOAT]

    def compute(self):
        self.here = (self.here + self.right) / 2


def smooth(graph, a):
    means = graph.add_compute_set("means")
    for i in range(a.num_elements - 1):
        vertex = graph.add_vertex(means, Mean, here=a[i], right=a[i + 1])
        graph.set_tile_mapping(vertex, i % TILES)
    return Execute(means)


def run_one(codelet, row):
    """{"x": …, "out": …}: both variables after a run of one vertex of `codelet` on `row`."""
    graph = Graph(device)
    variables = {name: graph.add_variable(FLOAT, (len(row),), name) for name in ("x", "out")}
    compute_set = graph.add_compute_set("test")
    vertex = graph.add_vertex(compute_set, codelet, variables)
    graph.set_tile_mapping(vertex, 0)
    for name, variable in variables.items():
        graph.set_tile_mapping(variable, 0)
        graph.create_host_read(name, variable)
    graph.set_initial_value(variables["x"], row)
    engine = Engine(graph, Execute(compute_set))
    engine.load_and_run(device)
    return {name: engine.read_tensor(name) for name in variables}


# %% 04.1: forgets the rows before
# clause: When the next row comes, it continues
# why:  each row starts again, so the largest number of the earlier rows is lost.
# next: start with self.best, and store the largest number in self.best at the end of the row.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        best = -np.inf
        for i in range(len(self.x)):
            if self.x[i] > best:
                best = self.x[i]
            self.out[i] = best


# %% 04.1: keeps the last number
# clause: the **largest number so far**
# why:  the state keeps the last number for the next row, not the largest.
# next: store the largest number so far in self.best.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        best = self.best
        for i in range(len(self.x)):
            if self.x[i] > best:
                best = self.x[i]
            self.out[i] = best
        self.best = self.x[len(self.x) - 1]


# %% 04.1: suffix maximum
# why:  this is the largest number from each index to the end of the row: the suffix maximum.
# next: loop over x from index 0 to the last index.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        best = -np.inf
        for i in range(len(self.x) - 1, -1, -1):
            if self.x[i] > best:
                best = self.x[i]
            self.out[i] = best


# %% 04.1: stores too early
# why:  self.out[i] is stored before x[i] is compared, so it lacks the number x[i].
# next: compare x[i] with self.best first, and then store self.best in self.out[i].
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        for i in range(len(self.x)):
            self.out[i] = self.best
            if self.x[i] > self.best:
                self.best = self.x[i]


# %% 04.1: stores only what is new
# why:  this stores only at a new largest number, so the elements in between are never written.
# next: store in every iteration of the loop: move the line out of the if.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]
                self.out[i] = self.best


# %% 04.1: the comparison the wrong way round
# why:  self.best never changes: < looks for smaller numbers, and no number is below -inf.
# next: write self.x[i] > self.best.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] < self.best:
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: the smallest
# why:  these are the smallest numbers so far, instead of the largest.
# next: write self.x[i] > self.best, and let `best` begin at -np.inf.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = np.inf

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] < self.best:
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: the farthest from 0
# why:  these are the numbers that are farthest from 0 so far: with abs(), -99 counts as larger than
#   33.
# next: compare the numbers themselves: self.x[i] > self.best.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = 0.0

    def compute(self):
        for i in range(len(self.x)):
            if abs(self.x[i]) > abs(self.best):
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: the largest of the row
# why:  every element has the largest number of the whole row, including later numbers.
# next: loop over x, and store the largest number so far in self.out[i] in each iteration.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        self.out = max(self.x)


# %% 04.1: x as it came
# why:  out is a copy of x, instead of the largest numbers so far.
# next: change self.best only if self.x[i] is larger than self.best.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        for i in range(len(self.x)):
            self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: the neighbour alone
# why:  each number is compared only with the number before it, not with all earlier numbers.
# next: keep the largest number so far in self.best, and compare each number with self.best.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        self.out[0] = self.x[0]
        for i in range(1, len(self.x)):
            self.out[i] = max(self.x[i - 1], self.x[i])


# %% 04.1: the state is a whole number
# why:  the fractions are lost, since the numbers are converted to integers.
# next: store the number as it is: `best` is a FLOAT, so leave out int().
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = int(self.x[i])
            self.out[i] = self.best


# %% 04.1: still a sum
# why:  the numbers are added up, as in RunningSum.
# next: keep the larger of the two numbers instead of the sum.
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = 0

    def compute(self):
        for i in range(len(self.x)):
            self.best += self.x[i]
            self.out[i] = self.best


# %% 04.1: begins at 0
# clause: Numbers may be below 0.
# not yet: the maximum begins at 0, as if
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = 0

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: begins at 0 in each row
# clause: and of all earlier rows
# not yet: instead of the largest number of all earlier rows
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        best = 0.0
        for i in range(len(self.x)):
            best = max(best, self.x[i])
            self.out[i] = best


# %% 04.1: without the last
# not yet: range(n) ends at n - 1
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        for i in range(len(self.x) - 1):
            if self.x[i] > self.best:
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: state that was not declared
# error in the answer: is not a declared field
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: a state far below, but not below all
# not yet: the maximum begins at -12, as if
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -12

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: a state far below all that one thinks of
# not yet: the maximum begins at -1,000,000,000, as if
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -1e9

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: the state is in HALF
# why:  the state `best` is a HALF, which has only about three digits, but these numbers have more.
# next: declare the state with the dtype of x: `best: FLOAT`.
from ipu_teach import HALF


class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: HALF = -np.inf

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: the first 31 numbers
# not yet: from index 31 on, nothing is stored
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        for i in range(min(31, len(self.x))):
            if self.x[i] > self.best:
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: a list that is returned
# not yet: compute() returns its result, but the returned value is lost
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        found = []
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]
            found.append(self.best)
        return found


# %% 04.1: never stored
# not yet: nothing is stored in `out`
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]


# %% 04.1: without self
# not yet: x is a field of PrefixMax, but without self. compute() uses another x
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        for i in range(len(x)):  # noqa: F821
            if x[i] > self.best:  # noqa: F821
                self.best = x[i]  # noqa: F821
            self.out[i] = self.best


# %% 04.1: the output without self
# not yet: out is a field of PrefixMax, but without self. compute() uses another out
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best: FLOAT = -np.inf

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]
            out[i] = self.best  # noqa: F821


# %% 04.1: state without a dtype
# not yet: a constant of the class and not a field
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    best = -99999

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > self.best:
                self.best = self.x[i]
            self.out[i] = self.best


# %% 04.1: not a codelet
# not yet: takes a codelet, but was given
PrefixMax = np.maximum.accumulate


# %% 04.2: no merge
# clause: stores the prefix maximum of `x` in `out`
# why:  each piece starts again, as if no numbers came before it: the merge is missing.
# next: give each piece the largest numbers of the pieces before it: PrefixFrom has a field for
#   them.
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, PrefixFrom, before=most[:0], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: the neighbour's largest alone
# why:  each piece starts with the largest number of the piece just before it, and ignores earlier
#   pieces.
# next: let each piece start from the maximum of all numbers before it.
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(
            prefix,
            PrefixFrom,
            before=most[k - 1 : k] if k else most[:0],
            x=x[piece],
            out=out[piece],
        )
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: its own largest too
# why:  a piece starts with its own largest number, which may come later in the piece.
# next: leave out the piece's own largest number.
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, PrefixFrom, before=most[: k + 1], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: all six largest
# why:  every piece starts with the largest number of all six pieces, also of later ones.
# next: leave out the largest numbers of the piece itself and of later pieces.
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, PrefixFrom, before=most, x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: one piece late
# why:  each piece ignores the largest number of the piece just before it.
# next: let each piece start from the maximum of all numbers before it.
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(
            prefix, PrefixFrom, before=most[: max(k - 1, 0)], x=x[piece], out=out[piece]
        )
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: six codelets with state, without merge and tail
# why:  each piece starts again, as if no numbers came before it: the merge is missing. Also, the
#   last numbers belong to no piece, since // drops the remainder.
# next: let each piece start from the maximum of all numbers before it.
def in_six(graph, x, out):
    n, pieces = x.num_elements // 6, graph.add_compute_set("pieces")
    for i in range(6):
        piece = slice(i * n, (i + 1) * n)
        graph.set_tile_mapping(graph.add_vertex(pieces, Peaks, x=x[piece], out=out[piece]), 0)
    return Execute(pieces)


# %% 04.2: the tail dropped
# clause: need not be a multiple of 6
# why:  the last numbers belong to no piece: // drops the remainder of the division.
# next: let piece k go from k * n // 6 to (k + 1) * n // 6; then the last piece ends at n.
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * (n // 6), (k + 1) * (n // 6))
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, PrefixFrom, before=most[:k], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: vertices with state
# clause: must not depend on earlier runs
# why:  the second run continues from the first one, since state keeps its value, but the two rows
#   are independent.
# next: use codelets without state: Largest and PrefixFrom.
def in_one(graph, x, out):
    whole = graph.add_compute_set("whole")
    graph.set_tile_mapping(graph.add_vertex(whole, Peaks, x=x, out=out), 0)
    return Execute(whole)


def in_six(graph, x, out):
    n = x.num_elements
    return in_one(graph, x, out)


# %% 04.2: one compute set
# why:  a vertex reads or writes what another vertex of the same compute set writes, and their order
#   is not defined.
# next: put the vertices that read the largest numbers into a second compute set, and give each
#   piece its own elements.
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(largest, PrefixFrom, before=most[:k], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Execute(largest)


# %% 04.2: the second first
# why:  a vertex reads a variable that no vertex has written yet.
# next: put the two Executes into the Sequence in the other order: first the vertices that find the
#   largest numbers, then those that read them.
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, PrefixFrom, before=most[:k], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Sequence(Execute(prefix), Execute(largest))


# %% 04.2: one worker
# clause: among the six workers
# not yet: no compute set has more than 1 vertex
def in_six(graph, x, out):
    n = x.num_elements
    whole = graph.add_compute_set("whole")
    empty = graph.add_variable(FLOAT, (0,), "empty")
    graph.set_tile_mapping(graph.add_vertex(whole, PrefixFrom, before=empty, x=x, out=out), 0)
    return Execute(whole)


# %% 04.2: on six tiles
# clause: of tile 0
# not yet: the exercise is about the six workers of tile 0
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, PrefixFrom, before=most[:k], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, k)
        graph.set_tile_mapping(b, k)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: one after another
# not yet: 6 compute sets follow each other
def in_six(graph, x, out):
    n = x.num_elements
    steps, before = Sequence(), out[:0]
    for k in range(6):
        a, b = k * n // 6, (k + 1) * n // 6
        step = graph.add_compute_set(f"step {k}")
        graph.set_tile_mapping(
            graph.add_vertex(step, PrefixFrom, before=before, x=x[a:b], out=out[a:b]), 0
        )
        steps.add(Execute(step))
        before = out[b - 1 : b] if b else out[:0]
    return steps


# %% 04.2: two pieces
# not yet: no compute set has more than 2 vertices
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (2,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(2):
        piece = slice(k * n // 2, (k + 1) * n // 2)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, PrefixFrom, before=most[:k], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: most of it in the first piece
# not yet: make the pieces equally long
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice((k + 4) * n // 10 if k else 0, (k + 5) * n // 10)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, PrefixFrom, before=most[:k], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: too dear a merge
# clause: There is also a budget of cycles
# not yet: each iteration of their loops costs too much
class Slow(Vertex):
    before: Input[Vector[FLOAT]]
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        best = -np.inf
        for b in self.before:
            best = max(best, b)
        for i in range(len(self.x)):
            best = max(best, self.x[i])
            self.out[i] = best


def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, Slow, before=most[:k], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: all before, one number at a time
# not yet: a vertex reads up to 500 numbers before its own piece
def in_six(graph, x, out):
    n, prefix = x.num_elements, graph.add_compute_set("prefix")
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        before = x[: k * n // 6]
        vertex = graph.add_vertex(prefix, PrefixFrom, before=before, x=x[piece], out=out[piece])
        graph.set_tile_mapping(vertex, 0)
    return Execute(prefix)


# %% 04.2: state that goes on
# not yet: the first run is right, but the next one continues from it: state keeps its value
class Going(Vertex):
    before: Input[Vector[FLOAT]]
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    top: FLOAT = -np.inf

    def compute(self):
        for i in range(len(self.before)):
            self.top = np.maximum(self.top, self.before[i])
        for i in range(len(self.x)):
            self.top = np.maximum(self.top, self.x[i])
            self.out[i] = self.top


def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        first = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        second = graph.add_vertex(prefix, Going, before=most[:k], x=x[piece], out=out[piece])
        graph.set_tile_mapping(first, 0)
        graph.set_tile_mapping(second, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.2: no return
# clause: return a program
# not yet: nothing: is there a `return`?
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, PrefixFrom, before=most[:k], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, 0)
    Sequence(Execute(largest), Execute(prefix))


# %% 04.2: a vertex without a tile
# clause: Both are on tile 0
# error in the answer: are not mapped to any tile
def in_six(graph, x, out):
    n = x.num_elements
    largest, prefix = graph.add_compute_set("largest"), graph.add_compute_set("prefix")
    most = graph.add_variable(FLOAT, (6,), "most")
    graph.set_tile_mapping(most, 0)
    for k in range(6):
        piece = slice(k * n // 6, (k + 1) * n // 6)
        a = graph.add_vertex(largest, Largest, x=x[piece], out=most[k])
        b = graph.add_vertex(prefix, PrefixFrom, before=most[:k], x=x[piece], out=out[piece])
        graph.set_tile_mapping(a, 0)
    return Sequence(Execute(largest), Execute(prefix))


# %% 04.3: in a copy that nobody fetches
# why:  the means are not stored in `a`, so `a` still has the old numbers.
# next: connect here= to a[i] and right= to the copy's element i + 1: then each mean is stored in
#   `a`.
def repaired(graph, a):
    old = graph.clone(a)
    means = graph.add_compute_set("means")
    for i in range(a.num_elements - 1):
        vertex = graph.add_vertex(means, Mean, here=old[i], right=a[i + 1])
        graph.set_tile_mapping(vertex, i % TILES)
    return Sequence(Copy(a, old), Execute(means))


# %% 04.3: even places first
# why:  the even indices come first, so the odd ones are averaged with neighbours that are already
#   new.
# next: let right= read from a variable that no vertex changes.
def repaired(graph, a):
    steps = Sequence()
    for places in (range(0, a.num_elements - 1, 2), range(1, a.num_elements - 1, 2)):
        step = graph.add_compute_set()
        for i in places:
            graph.set_tile_mapping(
                graph.add_vertex(step, Mean, here=a[i], right=a[i + 1]), i % TILES
            )
        steps.add(Execute(step))
    return steps


# %% 04.3: odd places first
# why:  the odd indices come first, so the even ones are averaged with neighbours that are already
#   new.
# next: let right= read from a variable that no vertex changes.
def repaired(graph, a):
    steps = Sequence()
    for places in (range(1, a.num_elements - 1, 2), range(0, a.num_elements - 1, 2)):
        step = graph.add_compute_set()
        for i in places:
            graph.set_tile_mapping(
                graph.add_vertex(step, Mean, here=a[i], right=a[i + 1]), i % TILES
            )
        steps.add(Execute(step))
    return steps


# %% 04.3: one by one, from the end
# clause: in any order
# why:  this goes from the last number to the first, so each is averaged with a neighbour that is
#   already new.
# next: let right= read from a variable that no vertex changes.
def repaired(graph, a):
    steps = Sequence()
    for places in ([i] for i in reversed(range(a.num_elements - 1))):
        step = graph.add_compute_set()
        for i in places:
            graph.set_tile_mapping(
                graph.add_vertex(step, Mean, here=a[i], right=a[i + 1]), i % TILES
            )
        steps.add(Execute(step))
    return steps


# %% 04.3: the left neighbour
# clause: with its right neighbour
# why:  each number is averaged with its left neighbour instead of its right one.
# next: use the neighbour at index i + 1.
def repaired(graph, a):
    old = graph.clone(a)
    means = graph.add_compute_set("means")
    for i in range(a.num_elements - 1):
        vertex = graph.add_vertex(means, Mean, here=a[i + 1], right=old[i])
        graph.set_tile_mapping(vertex, i % TILES)
    return Sequence(Copy(a, old), Execute(means))


# %% 04.3: round the end
# why:  the last number is averaged with the first one, but it has no right neighbour and should not
#   change.
# next: add one vertex less: loop over range(a.num_elements - 1).
def repaired(graph, a):
    old = graph.clone(a)
    means = graph.add_compute_set("means")
    for i in range(a.num_elements):
        vertex = graph.add_vertex(means, Mean, here=a[i], right=old[(i + 1) % a.num_elements])
        graph.set_tile_mapping(vertex, i % TILES)
    return Sequence(Copy(a, old), Execute(means))


# %% 04.3: twice
# why:  the numbers are smoothed twice, since the compute set is executed twice.
# next: execute the compute set once.
def repaired(graph, a):
    old = graph.clone(a)
    means = graph.add_compute_set("means")
    for i in range(a.num_elements - 1):
        vertex = graph.add_vertex(means, Mean, here=a[i], right=old[i + 1])
        graph.set_tile_mapping(vertex, i % TILES)
    return Sequence(Copy(a, old), Execute(means), Copy(a, old), Execute(means))


# %% 04.3: as it was
# clause: without a race
# not yet: right if the vertices run in the order in which you added them, and wrong in another
def repaired(graph, a):
    return smooth(graph, a)


# %% 04.3: one by one
# clause: up to four supersteps in total
# not yet: but nothing is parallel either
def repaired(graph, a):
    steps = Sequence()
    for places in ([i] for i in range(a.num_elements - 1)):
        step = graph.add_compute_set()
        for i in places:
            graph.set_tile_mapping(
                graph.add_vertex(step, Mean, here=a[i], right=a[i + 1]), i % TILES
            )
        steps.add(Execute(step))
    return steps


# %% 04.3: never copied
# error in the answer: UninitialisedReadError
def repaired(graph, a):
    old = graph.clone(a)
    means = graph.add_compute_set("means")
    for i in range(a.num_elements - 1):
        vertex = graph.add_vertex(means, Mean, here=a[i], right=old[i + 1])
        graph.set_tile_mapping(vertex, i % TILES)
    return Execute(means)


# %% 04.3: two vertices for one place
# not yet: two vertices write the same number
def repaired(graph, a):
    means = graph.add_compute_set("means")
    old = graph.clone(a)
    for i in range(a.num_elements - 1):
        for _ in range(2):
            graph.set_tile_mapping(graph.add_vertex(means, Mean, here=a[i], right=old[i + 1]), 0)
    return Sequence(Copy(a, old), Execute(means))


# %% 04.3: no return
# not yet: nothing: is there a `return`?
def repaired(graph, a):
    old = graph.clone(a)
    means = graph.add_compute_set("means")
    for i in range(a.num_elements - 1):
        vertex = graph.add_vertex(means, Mean, here=a[i], right=old[i + 1])
        graph.set_tile_mapping(vertex, i % TILES)
    Sequence(Copy(a, old), Execute(means))


# %% 04.3: copied after the work
# why:  `a` is copied after the vertices have run, so they read what the copy had before.
# next: put the Copy before the Execute in the Sequence.
def repaired(graph, a):
    old = graph.clone(a)
    graph.set_initial_value(old, 0)
    means = graph.add_compute_set("means")
    for i in range(a.num_elements - 1):
        vertex = graph.add_vertex(means, Mean, here=a[i], right=old[i + 1])
        graph.set_tile_mapping(vertex, i % TILES)
    return Sequence(Execute(means), Copy(a, old))


# %% 04.3: every third place
# why:  the numbers are computed in three supersteps, so those of the last superstep are averaged
#   with neighbours that are already new.
# next: put all vertices into one compute set, and let right= read a copy of the old numbers.
def repaired(graph, a):
    steps = Sequence()
    for first in range(3):
        step = graph.add_compute_set()
        for i in range(first, a.num_elements - 1, 3):
            vertex = graph.add_vertex(step, Mean, here=a[i], right=a[i + 1])
            graph.set_tile_mapping(vertex, i % TILES)
        steps.add(Execute(step))
    return steps


# %% 04.4: only numbers above 0
# clause: Six were right until
# not yet: begins at 0 instead of the first number
def accepts(codelet):
    for row in ([0.5, 0.25, 0.75, 0.25, 3.5],):
        after = run_one(codelet, row)
        expected = [max(row[: i + 1]) for i in range(len(row))]
        if list(after["out"]) != expected or list(after["x"]) != row:
            return False
    return True


# %% 04.4: far below 0, but not far enough
# not yet: begins at -1,000 instead of the first number
def accepts(codelet):
    for row in ([0.5, -2.25, 0.75, 0.25, 3.5], [-7.5, -9.0, -3.25, -4.0]):
        after = run_one(codelet, row)
        expected = [max(row[: i + 1]) for i in range(len(row))]
        if list(after["out"]) != expected or list(after["x"]) != row:
            return False
    return True


# %% 04.4: only whole numbers
# clause: False for any other
# not yet: fractions are lost
def accepts(codelet):
    for row in ([3, 1, 4, 1, 5], [-7000, -9000, -3000]):
        after = run_one(codelet, row)
        expected = [max(row[: i + 1]) for i in range(len(row))]
        if list(after["out"]) != expected or list(after["x"]) != row:
            return False
    return True


# %% 04.4: the largest in the middle
# not yet: never looks at the last number
def accepts(codelet):
    for row in ([0.5, 2.25, 0.75, 1.25], [-7500.5, -3250.25, -9500.5, -4000.0]):
        after = run_one(codelet, row)
        expected = [max(row[: i + 1]) for i in range(len(row))]
        if list(after["out"]) != expected or list(after["x"]) != row:
            return False
    return True


# %% 04.4: never looks at x
# clause: A right codelet leaves `x` unchanged
# not yet: but changes x
def accepts(codelet):
    for row in ([0.5, -2.25, 0.75, 0.25, 3.5], [-7500.5, -9000.0, -3250.25, -4000.0]):
        after = run_one(codelet, row)
        expected = [max(row[: i + 1]) for i in range(len(row))]
        if list(after["out"]) != expected:
            return False
    return True


# %% 04.4: yes to everything
# clause: Return whether `codelet` computes prefix maxima
# not yet: the test accepts every codelet
def accepts(codelet):
    run_one(codelet, [3, 1, 4])
    return True


# %% 04.4: no to everything
# clause: Two are right
# not yet: the test rejects every codelet, also the right ones
def accepts(codelet):
    for row in ([0.5, -2.25, 0.75, 0.25, 3.5], [-7500.5, -9000.0, -3250.25, -4000.0]):
        after = run_one(codelet, row)
        expected = [max(row[i:]) for i in range(len(row))]
        if list(after["out"]) != expected or list(after["x"]) != row:
            return False
    return True


# %% 04.4: the codelet must say Input
# not yet: compare only values
def accepts(codelet):
    for row in ([0.5, -2.25, 0.75, 0.25, 3.5], [-7500.5, -9000.0, -3250.25, -4000.0]):
        after = run_one(codelet, row)
        expected = [max(row[: i + 1]) for i in range(len(row))]
        if codelet.fields["x"].kind != "input" or list(after["out"]) != expected:
            return False
    return True


# %% 04.4: no return
# clause: return True or False
# not yet: nothing: is there a `return`?
def accepts(codelet):
    for row in ([0.5, -2.25, 0.75, 0.25, 3.5], [-7500.5, -9000.0, -3250.25, -4000.0]):
        after = run_one(codelet, row)
        expected = [max(row[: i + 1]) for i in range(len(row))]
        if list(after["out"]) != expected or list(after["x"]) != row:
            ok = False


# %% 04.4: an array for an answer
# not yet: np.array_equal returns one for the whole array
def accepts(codelet):
    after = run_one(codelet, [0.5, -1.5])
    return after["out"] == [0.5, 0.5]


# %% 04.4: compares lists of arrays
# error in the answer: truth value
def accepts(codelet):
    for row in ([0.5, -2.25, 0.75, 0.25, 3.5], [-7500.5, -9000.0, -3250.25, -4000.0]):
        after = run_one(codelet, row)
        expected = [max(row[: i + 1]) for i in range(len(row))]
        if after["out"] != expected:
            return False
    return True


# %% 04.5: forgets what comes once
# clause: Estimate the worker cycles
# not yet: 7 cycles are missing, at any length
def estimate(length, new):
    return 4 * length + new


# %% 04.5: forgets the start
# not yet: 5 cycles are missing, at any length
def estimate(length, new):
    return 2 + 4 * length + new


# %% 04.5: cycles of the tile
# clause: Return the worker cycles of Peaks
# not yet: leave out the 6
def estimate(length, new):
    return 6 * (7 + 4 * length + new)


# %% 04.5: forgets the new ones
# clause: `new` of them are larger than all before them
# not yet: next: add `new` once
def estimate(length, new):
    return 7 + 4 * length


# %% 04.5: every turn a new one
# not yet: a new largest number is counted in every iteration
def estimate(length, new):
    return 7 + 5 * length


# %% 04.5: in proportion
# not yet: the estimate is proportional to the length
def estimate(length, new):
    return 21 / 3 * length


# %% 04.5: one and the same
# clause: your estimate may be off by 10
# not yet: the estimate is the same for every length
def estimate(length, new):
    return 21


# %% 04.5: comparing is free
# not yet: that is an iteration without a new largest number
def estimate(length, new):
    return 7 + 2 * length + new


# %% 04.5: too much at the start
# not yet: 8 cycles too many, at any length
def estimate(length, new):
    return 15 + 4 * length + new


# %% 04.5: no return
# not yet: nothing: is there a `return`?
def estimate(length, new):
    7 + 4 * length + new


# %% 04.5: no number at all
# not yet: nan, which is no number
def estimate(length, new):
    return float("nan")


# %% 04.5: in words
# clause: return the cycles
# not yet: which is no number
def estimate(length, new):
    return f"{7 + 4 * length + new} cycles"


# %% 04.5: the new ones alone
# not yet: only for new largest numbers, not for all numbers
def estimate(length, new):
    return 7 + 4 * new


# %% 04.5: the old ones
# not yet: for each number that is not a new largest number
def estimate(length, new):
    return 7 + 4 * length + (length - new)


# %% 04.5: shared by six
# not yet: this is divided by six
def estimate(length, new):
    return (7 + 4 * length + new) / 6


# %% 04.w1: doubled
# clause: is half of
# why:  each number is doubled, but out needs half of it.
# next: divide by 2.
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            self.out[i] = 2 * self.x[i]


# %% 04.w1: as it came
# why:  out is a copy of x, but each number should be halved.
# next: divide each number by 2.
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            self.out[i] = self.x[i]


# %% 04.w1: whole numbers
# why:  // rounds down to a whole number, but half of 3 is 1.5.
# next: divide with /.
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            self.out[i] = self.x[i] // 2


# %% 04.w1: without the last
# clause: half of each number of x in out
# why:  the last element is left out.
# next: loop over range(len(self.x)).
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x) - 1):
            self.out[i] = self.x[i] / 2


# %% 04.w1: a name of its own
# why:  nothing is stored in `out`: a name without `self.` is lost when compute() ends.
# next: store each result in self.out[i].
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        out = self.x / 2


# %% 04.w1: three places
# why:  only the first three elements are written, but x can have any length.
# next: loop over range(len(self.x)).
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(3):
            self.out[i] = self.x[i] / 2


# %% 04.w1: without the first
# why:  the first element is left out: indices start at 0.
# next: loop over range(len(self.x)).
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(1, len(self.x)):
            self.out[i] = self.x[i] / 2


# %% 04.w1: half of the places
# why:  the loop ends in the middle of the row, but the exercise asks for half of each number.
# next: loop over range(len(self.x)).
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x) // 2):
            self.out[i] = self.x[i] / 2


# %% 04.w1: from the end
# why:  these are the halves in reverse order.
# next: store half of self.x[i] in self.out[i].
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            self.out[len(self.x) - 1 - i] = self.x[i] / 2


# %% 04.w1: state in every run
# not yet: self.share is state, which keeps its value between runs
class Halves(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    share: FLOAT = 0.5

    def compute(self):
        for i in range(len(self.x)):
            self.out[i] = self.x[i] * self.share
        self.share = self.share / 2


# %% 04.w2: on tile 0
# clause: The vertex is on tile 3, too
# not yet: the vertex is mapped to another tile
def one_vertex(graph, x, out):
    largest = graph.add_compute_set("largest")
    graph.set_tile_mapping(graph.add_vertex(largest, Largest, x=x, out=out), 0)
    return Execute(largest)


# %% 04.w2: without a tile
# error in the answer: is not mapped to any tile
def one_vertex(graph, x, out):
    largest = graph.add_compute_set("largest")
    graph.add_vertex(largest, Largest, x=x, out=out)
    return Execute(largest)


# %% 04.w2: the first number alone
# clause: stores the largest of `x` in `out`
# why:  the vertex gets only one number of x.
# next: connect the whole row: x=x.
def one_vertex(graph, x, out):
    largest = graph.add_compute_set("largest")
    vertex = graph.add_vertex(largest, Largest, x=x[:1], out=out)
    graph.set_tile_mapping(vertex, 3)
    return Execute(largest)


# %% 04.w2: not executed
# clause: return an Execute
# why:  the vertex is in the graph, but no program executes its compute set.
# next: return Execute(compute_set).
def one_vertex(graph, x, out):
    largest = graph.add_compute_set("largest")
    vertex = graph.add_vertex(largest, Largest, x=x, out=out)
    graph.set_tile_mapping(vertex, 3)
    return Sequence()


# %% 04.w2: three numbers
# why:  the vertex gets only the first three numbers.
# next: connect the whole row: x=x.
def one_vertex(graph, x, out):
    compute_set = graph.add_compute_set("largest")
    vertex = graph.add_vertex(compute_set, Largest, x=x[:3], out=out)
    graph.set_tile_mapping(vertex, 3)
    return Execute(compute_set)


# %% 04.w2: every second number
# why:  the vertex gets only every second number.
# next: connect the whole row: x=x.
def one_vertex(graph, x, out):
    compute_set = graph.add_compute_set("largest")
    vertex = graph.add_vertex(compute_set, Largest, x=x[::2], out=out)
    graph.set_tile_mapping(vertex, 3)
    return Execute(compute_set)


# %% 04.w2: the sum
# why:  out is the sum of the row instead of its largest number.
# next: use the codelet Largest in add_vertex.
class Total(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = self.x.sum()


def one_vertex(graph, x, out):
    compute_set = graph.add_compute_set("total")
    vertex = graph.add_vertex(compute_set, Total, x=x, out=out)
    graph.set_tile_mapping(vertex, 3)
    return Execute(compute_set)


# %% 04.w2: the compute set itself
# not yet: a compute set is not a program
def one_vertex(graph, x, out):
    compute_set = graph.add_compute_set("largest")
    graph.set_tile_mapping(graph.add_vertex(compute_set, Largest, x=x, out=out), 3)
    return compute_set


# %% 04.w2: state in every run
# not yet: self.share is state, which keeps its value between runs
class Largest(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]
    share: FLOAT = 1.0

    def compute(self):
        self.out = self.x.max() * self.share
        self.share = self.share / 2


def one_vertex(graph, x, out):
    compute_set = graph.add_compute_set("largest")
    graph.set_tile_mapping(graph.add_vertex(compute_set, Largest, x=x, out=out), 3)
    return Execute(compute_set)


# %% 04.w3: equal pieces
# why:  n // 6 for each piece drops the remainder: the last numbers are in no piece.
# next: multiply first, and divide the product.
def piece(n, k):
    return k * (n // 6), (k + 1) * (n // 6)


# %% 04.w3: where it begins, and how many
# clause: where does it end
# why:  the second number is the length of the piece, but the exercise asks where the piece ends.
# next: return the index at which the next piece begins as the end.
def piece(n, k):
    return k * n // 6, (k + 1) * n // 6 - k * n // 6


# %% 04.w3: with the last
# clause: the end is the index after the last number
# why:  the second number is the index of the last number, but the end is the index after it.
# next: leave out the - 1 of the end.
def piece(n, k):
    return k * n // 6, (k + 1) * n // 6 - 1


# %% 04.w3: rounded up
# clause: of piece k of six
# why:  rounding n / 6 up makes the last piece too short: the lengths differ by more than one.
# next: multiply first, and divide the product with //.
def piece(n, k):
    each = -(-n // 6)
    return min(k * each, n), min((k + 1) * each, n)


# %% 04.w3: the first takes the rest
# clause: six consecutive pieces, whose lengths differ by at most one
# not yet: pieces of 5, 0, 0, 0, 0, 0
def piece(n, k):
    each, rest = divmod(n, 6)
    return k * each + rest * (k > 0), (k + 1) * each + rest


# %% 04.w3: all pieces one too early
# not yet: a piece that ends at 16 or 17 next: write down
def piece(n, k):
    return max(0, k * n // 6 - 1), (k + 1) * n // 6 - 1


# %% 04.w3: a gap of one
# not yet: a piece that begins where the one before it ends
def piece(n, k):
    return k * n // 6 + (k == 3 and n == 97), (k + 1) * n // 6


# %% 04.5: the loop alone
# not yet: each new largest number costs nothing more, and nothing is added once
def estimate(length, new):
    return 4 * length


# %% 04.5: two for a new largest, and less for what is done once
# not yet: the cycles for each number are right. But here each new largest number costs 2 more
def estimate(length, new):
    return 5 + 4 * length + 2 * new
