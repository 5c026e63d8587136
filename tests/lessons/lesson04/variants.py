# %% given
import numpy as np

from ipu_teach import FLOAT, InOut, Input, Output, Vector, Vertex
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Sequence


class Top(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = np.max(self.x)


class Rise(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out = np.maximum.accumulate(self.x)


class Lift(Vertex):
    tops: Input[Vector[FLOAT]]
    out: InOut[Vector[FLOAT]]

    def compute(self):
        self.out = np.maximum(self.out, np.max(self.tops))


class Half(Vertex):
    one: Input[FLOAT]
    other: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = 0.5 * self.one + 0.5 * self.other


def cuts(n):
    return [n * k // 6 for k in range(7)]


def put(graph, step, codelet, **fields):
    graph.set_tile_mapping(graph.add_vertex(step, codelet, **fields), 0)


def lifted(graph, x, out, seen_by):

    at, tops = cuts(len(x)), graph.add_variable(FLOAT, 6, "tops")
    graph.set_tile_mapping(tops, 0)
    rise, top, lift = (graph.add_compute_set(name) for name in ("rise", "top", "lift"))
    for k in range(6):
        begin, end = at[k], at[k + 1]
        if begin < end:
            put(graph, rise, Rise, x=x[begin:end], out=out[begin:end])
            put(graph, top, Top, x=x[begin:end], out=tops[k])
    for k in range(6):
        seen = [j for j in seen_by(k) if at[j] < at[j + 1]]
        if seen and at[k] < at[k + 1]:
            put(graph, lift, Lift, tops=tops[seen[0] : seen[-1] + 1], out=out[at[k] : at[k + 1]])
    return Sequence(Execute(rise), Execute(top), Execute(lift))


# %% 04.1: with maximum, and a largest of its own
# like: forgets the rows before
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out = np.maximum.accumulate(self.x)


# %% 04.1: the last one into the state
# like: keeps the last number
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    kept: FLOAT = -np.inf

    def compute(self):
        so_far = self.kept
        k = 0
        while k < len(self.x):
            so_far = np.maximum(so_far, self.x[k])
            self.out[k] = so_far
            self.kept = self.x[k]
            k += 1


# %% 04.1: a minimum
# like: the smallest
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    least: FLOAT = np.inf

    def compute(self):
        for k in range(len(self.x)):
            self.least = np.minimum(self.least, self.x[k])
            self.out[k] = self.least


# %% 04.1: a total
# like: still a sum
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    total: FLOAT = 0.0

    def compute(self):
        before = self.total
        for k in range(len(self.x)):
            before = before + self.x[k]
            self.out[k] = before
        self.total = before


# %% 04.1: copies
# like: x as it came
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out = self.x + 0.0


# %% 04.1: one number late
# like: stores too early
class PrefixMax(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    top: FLOAT = -np.inf

    def compute(self):
        now = self.top
        for k in range(len(self.x)):
            self.out[k] = now
            now = np.maximum(now, self.x[k])
        self.top = now


# %% 04.2: pieces by themselves
# like: no merge
def in_six(graph, x, out):
    return lifted(graph, x, out, lambda k: [])


# %% 04.2: lifted by the one before
# like: the neighbour's largest alone
def in_six(graph, x, out):
    return lifted(graph, x, out, lambda k: [k - 1] if k else [])


# %% 04.2: lifted by all
# like: all six largest
def in_six(graph, x, out):
    return lifted(graph, x, out, lambda k: range(6))


# %% 04.2: lifted by all but the one before
# like: one piece late
def in_six(graph, x, out):
    return lifted(graph, x, out, lambda k: range(k - 1) if k > 1 else [])


# %% 04.3: new numbers elsewhere
# like: in a copy that nobody fetches
def repaired(graph, a):
    new, step = graph.clone(a), graph.add_compute_set("halves")
    for i in range(len(a) - 1):
        graph.set_tile_mapping(
            graph.add_vertex(step, Half, one=a[i], other=a[i + 1], out=new[i]), i % 13
        )
    return Sequence(Copy(a, new), Execute(step))


# %% 04.3: by the library, round the end
# like: round the end
def repaired(graph, a):
    old, new, steps = graph.clone(a), graph.clone(a), Sequence()
    steps.add(Copy(a, old))
    step = graph.add_compute_set("halves")
    for i in range(len(a)):
        graph.set_tile_mapping(
            graph.add_vertex(step, Half, one=old[i], other=old[i + 1 - len(a)], out=new[i]), i % 13
        )
    steps.add(Execute(step))
    steps.add(Copy(new, a))
    return steps


# %% 04.3: the old left neighbours
# like: the left neighbour
def repaired(graph, a):
    old, step = graph.clone(a), graph.add_compute_set("halves")
    for i in range(1, len(a)):
        graph.set_tile_mapping(
            graph.add_vertex(step, Half, one=old[i - 1], other=old[i], out=a[i]), i % 13
        )
    return Sequence(Copy(a, old), Execute(step))


# %% 04.3: by slices of the library
# like: twice
def repaired(graph, a):
    program = Sequence()
    for _ in range(2):
        if len(a) > 1:
            old = graph.clone(a)
            program.add(Copy(a, old))
            total = popops.add(graph, old[:-1], old[1:], program)
            popops.mul_in_place(graph, total, 0.5, program)
            program.add(Copy(total, a[:-1]))
    return program
