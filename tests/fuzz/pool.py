"""The codelets of random programs: those of other tests, and some hundreds from a fixed seed."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np
from codelets import ALIKE, BRANCHING, SHAPES, random_branching, random_codelet
from graphs import FAMILY, MAY_BE_EMPTY, TAKES_LISTS

from ipu_teach import BOOL, FLOAT, HALF, INT, InOut, Input, MultiVertex, Output, Vector, Vertex
from ipu_teach.types import DType

DRAWN = 120  # codelets of each of the two kinds
# The seed of the codelets; they are the same in every run, and programs combine them.
SEED = 20


class Workers(MultiVertex):
    """Each of six workers handles every sixth element, in a branch."""

    x: Input[Vector[HALF]]
    out: Output[Vector[HALF]]
    runs: InOut[Vector[INT]]
    bias: HALF = 0.5

    def compute(self, worker_id: int) -> None:
        for i in range(worker_id, len(self.x), self.num_workers):
            if self.x[i] > -1:
                self.out[i] = self.x[i] * 2 + self.bias
        if worker_id == 0:
            self.runs += 1


class Racing(MultiVertex):
    """Depending on the data, workers read the numbers of their neighbours and store to them."""

    x: Input[Vector[INT]]
    w: InOut[Vector[INT]]

    def compute(self, worker_id: int) -> None:
        for i in range(worker_id, len(self.x), self.num_workers):
            if self.x[i] > 45:
                self.w[0] = self.x[i]
            elif self.x[i] < -45:
                self.w[i] += self.w[i - 1]
            else:
                self.w[i] = self.x[i]


class Kept(Vertex):
    """Stores an element at a given index."""

    x: Input[Vector[FLOAT]]
    keep: Input[Vector[BOOL]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            if self.keep[i]:
                self.out[i] = self.x[i]


class Refusing(Vertex):
    """Depending on the data, raises errors of its own or of Python."""

    x: Input[Vector[INT]]
    out: Output[INT]

    def compute(self) -> None:
        if self.x[0] > 30:
            raise ValueError("too many")
        self.out = self.x[self.x[0] % 4]


class CountDown(Vertex):
    """Counts down, to end while loops."""

    left: InOut[INT]
    more: Output[INT]

    def compute(self) -> None:
        self.left = self.left - 1
        self.more = max(self.left, 0)


class Entry(NamedTuple):
    """A codelet, the name that programs use for it, and the sizes of its fields.

    The size of a field is "" for one element, "n" or "k" for lengths that the fields of a vertex
    share, or "kn" for a matrix. `sizes` are the possible values of n.
    """

    name: str
    codelet: type[Vertex]
    source: str
    fields: dict[str, str]
    sizes: tuple[int, ...]


def _by_hand(codelet: type[Vertex]) -> Entry:
    fields = {
        name: ("", "n", "kn")[f.depth] for name, f in codelet.fields.items() if f.kind != "state"
    }
    sizes = (0, 1, 2, 3, 5, 8, 13) if codelet in MAY_BE_EMPTY else (2, 3, 5, 8, 13)
    return Entry(codelet.__name__, codelet, "", fields, sizes)


def _drawn(number: int) -> Entry:
    rng = Random(SEED * 10**6 + number)
    dtype: type[DType] = rng.choice(list(ALIKE))
    if number < DRAWN:
        codelet, source = random_codelet(rng, dtype, rng.randint(1, 8))
        return Entry(f"array_{number}", codelet, source, SHAPES, (1, 2, 3, 8, 17))
    size = rng.choice([1, 2, 5])
    dtype = rng.choice([FLOAT, HALF, INT])
    codelet, source = random_branching(rng, dtype, rng.randint(1, 3), size)
    return Entry(f"scalar_{number}", codelet, source, BRANCHING, (size,))


def _works(entry: Entry) -> bool:
    """Return whether a random codelet runs at all; some mix types that numpy refuses to mix."""
    n = entry.sizes[-1]
    shapes: dict[str, tuple[int, ...]] = {"": (), "n": (n,), "k": (2,), "kn": (2, n)}
    kinds = {name: entry.codelet.fields[name].kind for name in entry.fields}
    given = {
        name: np.ones(shapes[size])
        for name, size in entry.fields.items()
        if kinds[name] != "output"
    }
    outputs = {
        name: shapes[size]
        for name, size in entry.fields.items()
        if kinds[name] == "output" and size
    }
    try:
        entry.codelet.call(
            **given,
            **{name: shape[0] if len(shape) == 1 else shape for name, shape in outputs.items()},
        )
    except TypeError:
        return False
    except Exception:  # the numbers do not fit the codelet
        pass
    return True


WORKERS = Entry("Workers", Workers, "", {"x": "n", "out": "n", "runs": "k"}, (1, 5, 6, 13))
OWN = [*[WORKERS] * 4, *map(_by_hand, [Kept, Racing, Refusing] * 6)]
DRAWN_ONES = [entry for entry in map(_drawn, range(2 * DRAWN)) if _works(entry)]
POOL = [*map(_by_hand, FAMILY), *OWN, *DRAWN_ONES]
LISTS = {codelet.__name__ for codelet in TAKES_LISTS}
NAMES = {entry.name: entry.codelet for entry in POOL} | {"CountDown": CountDown}
