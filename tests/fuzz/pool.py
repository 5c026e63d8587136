"""The codelets that random programs are made of: those of the other tests, and some hundreds drawn
once from a seed."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np
from codelets import ALIKE, BRANCHING, SHAPES, random_branching, random_codelet
from graphs import FAMILY, MAY_BE_EMPTY, TAKES_LISTS

from ipu_teach import BOOL, FLOAT, HALF, INT, InOut, Input, MultiVertex, Output, Vector, Vertex
from ipu_teach.types import DType

DRAWN = 120  # of each of the two kinds
# of the codelets, which are the same in every run: another seed makes other programs of them
SEED = 20


class Workers(MultiVertex):
    """Each of six workers has every sixth element, behind a branch."""

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
    """Workers look at neighbours' numbers and store into each other's, where the numbers are so."""

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
    """Stores an element where it is told to."""

    x: Input[Vector[FLOAT]]
    keep: Input[Vector[BOOL]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            if self.keep[i]:
                self.out[i] = self.x[i]


class Refusing(Vertex):
    """Raises errors of its own, and of Python's, where the numbers are so."""

    x: Input[Vector[INT]]
    out: Output[INT]

    def compute(self) -> None:
        if self.x[0] > 30:
            raise ValueError("too many")
        self.out = self.x[self.x[0] % 4]


class CountDown(Vertex):
    """What while loops are made of."""

    left: InOut[INT]
    more: Output[INT]

    def compute(self) -> None:
        self.left = self.left - 1
        self.more = max(self.left, 0)


class Entry(NamedTuple):
    """A codelet under the name that programs have for it, and how large its fields are.

    Of a field: "" is one element, "n" and "k" are lengths that a vertex's fields share, "kn" a
    matrix. `sizes`: what n may be.
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
    """Whether a codelet that was drawn runs at all: some mix types that numpy refuses to mix,
    whatever the numbers are."""
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
    except Exception:  # these numbers do not suit it
        pass
    return True


WORKERS = Entry("Workers", Workers, "", {"x": "n", "out": "n", "runs": "k"}, (1, 5, 6, 13))
OWN = [*[WORKERS] * 4, *map(_by_hand, [Kept, Racing, Refusing] * 6)]
DRAWN_ONES = [entry for entry in map(_drawn, range(2 * DRAWN)) if _works(entry)]
POOL = [*map(_by_hand, FAMILY), *OWN, *DRAWN_ONES]
LISTS = {codelet.__name__ for codelet in TAKES_LISTS}
NAMES = {entry.name: entry.codelet for entry in POOL} | {"CountDown": CountDown}
