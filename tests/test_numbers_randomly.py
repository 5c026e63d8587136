"""Rounding by chance, traps and NaN on overflow: batches, forks and lanes give what the plain
vertex loop gives.

Random codelets, values and layouts, with random options: every bit of memory is compared, or the
text of the error.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from random import Random
from typing import Any

import graphs
import numpy as np
import pytest
from codelets import BRANCHING, SHAPES, random_branching, random_codelet
from graphs import (
    Placed,
    Space,
    add,
    contents,
    differences,
    random_fields,
    random_values,
    regions,
    same_bits,
)
from hypothesis import HealthCheck, given, settings, strategies as st
from vertex_loop import small_limits

from ipu_teach import (
    FLOAT,
    HALF,
    INT,
    FloatingPointBehaviour,
    Input,
    IPUModel,
    MultiVertex,
    Output,
    Vector,
    Vertex,
    set_floating_point_behaviour,
)
from ipu_teach.engine.batch import half_products
from ipu_teach.errors import CodeletError, FloatingPointTrapError
from ipu_teach.program import Execute, Repeat, Sequence
from ipu_teach.types import Array, DType

RANDOMLY = settings(deadline=None, suppress_health_check=list(HealthCheck))
DEVICE = IPUModel(tiles_per_ipu=3).create_device()


def random_options(rng: Random) -> dict[str, Any]:
    return {
        "prng.enableStochasticRounding": rng.random() < 0.6,
        "prng.seed": rng.randrange(3),
        "debug.floatPointOpException": rng.random() < 0.2,
        "debug.nanOverflowMode": rng.random() < 0.3,
        "debug.nanOverflowException": rng.random() < 0.1,
    }


def random_behaviour(rng: Random) -> FloatingPointBehaviour:
    return FloatingPointBehaviour(*(rng.random() < p for p in (0.1, 0.1, 0.1, 0.6, 0.3)))


def small_values(rng: Random, dtype: type[DType], shape: Several[int]) -> Array:
    values = random_values(rng, dtype, shape)
    return np.clip(values, -50, 50) if dtype is INT else values


def outcome(space: Space, program: Any, **how: Any) -> Any:
    """All of memory after a run, or the error that ended it."""
    try:
        return contents(space, program, **how)
    except FloatingPointTrapError as error:
        return str(error)
    except CodeletError:
        return CodeletError


def compared(
    rng: Random,
    space: Space,
    codelet: type[Vertex],
    fields: dict[str, Any],
    count: int,
    source: str,
) -> None:
    """Run vertices of `codelet` twice over, with a behaviour of their own on some tile, both
    ways."""
    compute_set = space.graph.add_compute_set("random")
    for i in range(count):
        add(
            space,
            compute_set,
            Placed(codelet, rng.randrange(3), {f: [views[i]] for f, views in fields.items()}),
        )
    program = Sequence(Execute(compute_set))
    if rng.randrange(3) == 0:
        set_floating_point_behaviour(
            space.graph, program, random_behaviour(rng), rng.choice([None, 0, 1, 2])
        )
    program.add(Repeat(2, Execute(compute_set)))
    options = random_options(rng)
    with small_limits(rng):
        fast = outcome(
            space,
            program,
            options=options,
            shuffle=rng.choice([None, None, 1]),
            threads=rng.choice([1, 1, 3]),
        )
        slow = outcome(space, program, options=options, vertex_loop=True)
    if isinstance(fast, dict) and isinstance(slow, dict):
        assert differences(fast, slow) == [], source
    # several may trap, and the order decides which is named
    elif not (isinstance(fast, str) and isinstance(slow, str)):
        assert type(fast) is type(slow) and fast == slow, (source, fast, slow)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(RANDOMLY, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_random_codelets(rng: Random) -> None:
    dtype = rng.choice([FLOAT, HALF, HALF, HALF])
    codelet, source = random_codelet(
        rng, dtype, rng.randrange(1, 9), constants=False
    )  # what has no data in it is computed when a codelet is traced
    n, k, count = rng.choice([0, 1, 2, 3, 8, 17]), rng.choice([1, 2, 5]), rng.choice([1, 2, 7, 20])
    sizes: dict[str, tuple[int, ...]] = {"n": (n,), "k": (k,), "kn": (k, n), "": ()}
    shapes, space = {name: sizes[size] for name, size in SHAPES.items()}, Space(DEVICE, rng)
    compared(rng, space, codelet, random_fields(rng, space, codelet, shapes, count), count, source)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(RANDOMLY, max_examples=20)
@given(st.randoms(use_true_random=False))
def test_random_branches(rng: Random) -> None:
    """In scalar loops, from singles into halves.

    Whole numbers are small: where they overflow as single numbers, numpy reports that of the plain
    loop alone.
    """
    size, count = rng.choice([1, 2, 5]), rng.choice([1, 7, 70, 200])
    codelet, source = random_branching(
        rng, HALF, rng.randint(1, 3), size, rng.choice([FLOAT, FLOAT, HALF])
    )
    space, fields = Space(DEVICE, rng), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "random_values", small_values)
        for name, kind in BRANCHING.items():
            dtype: type[DType] = codelet.fields[name].dtype
            fields[name] = regions(
                rng, space, dtype, (size,) if kind else (), count, codelet.fields[name].written
            )
    compared(rng, space, codelet, fields, count, source)


class Shares(MultiVertex):
    """Each worker stores its part, in two ways."""

    x: Input[Vector[FLOAT]]
    a: Output[Vector[HALF]]
    b: Output[Vector[HALF]]

    def compute(self, worker: int) -> None:
        for i in range(worker, len(self.x), self.num_workers):
            self.a[i] = self.x[i]
        self.b[worker :: self.num_workers] = self.x[worker :: self.num_workers] * np.float32(3)


class Rows(Vertex):
    """A matrix that is written row by row, turned, in part, and twice."""

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[HALF]]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            self.out[i] = self.x[i] / 3
        self.out.T[:] = self.x.T / 7
        self.out[1:] += self.x[:-1]
        self.out[0, ::2] = 0.1


@pytest.mark.parametrize("codelet", [Shares, Rows])
@settings(RANDOMLY, max_examples=25)
@given(st.randoms(use_true_random=False))
def test_workers_and_rows(codelet: type[Vertex], rng: Random) -> None:
    n, k, count = rng.choice([1, 2, 7, 13]), rng.choice([1, 2, 5]), rng.choice([1, 2, 7, 20])
    space, fields = Space(DEVICE, rng), {}
    for name, field in codelet.fields.items():
        fields[name] = regions(
            rng, space, field.dtype, (n,) if field.depth == 1 else (k, n), count, field.written
        )
    compared(rng, space, codelet, fields, count, codelet.__name__)


@settings(RANDOMLY, max_examples=300)
@given(st.randoms(use_true_random=False))
def test_products_of_halves_have_the_bits_of_numpys_own(rng: Random) -> None:
    """For any number of vertices, shared operands, orders in memory, sizes, zeros of both signs,
    infinities and NaN."""
    lead = (
        tuple(rng.randint(1, 4) for _ in range(rng.randrange(4)))
        if rng.randrange(3)
        else (rng.choice([1, 2, 30, 100]),)
    )
    m, k, n = (rng.choice([0, 1, 1, 2, 3, 5, 16, 17, 40]) for _ in range(3))
    source = np.random.default_rng(rng.randrange(2**16))

    def operand(*shape: int) -> Array:
        own = tuple(1 if rng.random() < 0.3 else length for length in lead)
        values = source.standard_normal((*own, *shape)) * rng.choice([1, 100, 1e-4])
        if rng.randrange(3) == 0:
            values = np.where(
                source.random(values.shape) < 0.05,
                rng.choice([0, -0.0, np.inf, np.nan, 6e4]),
                values,
            )
        narrow = values.astype(np.float16)
        return (
            narrow
            if rng.randrange(3)
            else np.ascontiguousarray(narrow.swapaxes(-1, -2)).swapaxes(-1, -2)
        )

    left, right = operand(m, k), operand(k, n)
    wanted, got = np.empty((*lead, m, n), np.float16), np.full((*lead, m, n), 7, np.float16)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(half_products, "BLOCK_BYTES", rng.choice([64, 2000, 2**19]))
        patch.setattr(half_products, "LONG", rng.choice([2, 16]))
        wanted[...] = left @ right
        for function, args in half_products.HalfProducts(exact=True).calls(left, right, got):
            function(*args)
    assert same_bits(got, wanted)


def test_products_of_halves_that_are_not_exact_are_close() -> None:
    """BLAS adds in another order: half of a half's last place, and 2**-24 of the sum of all sizes
    for each term."""
    rng = np.random.default_rng(1)
    left, right = (
        rng.standard_normal(shape).astype(np.float16) for shape in ((5, 7, 300), (5, 300, 9))
    )
    got = np.empty((5, 7, 9), np.float16)
    for function, args in half_products.HalfProducts(exact=False).calls(left, right, got):
        function(*args)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    sizes = abs(left).astype(np.float64) @ abs(right).astype(np.float64)
    assert np.all(np.abs(got - exact) <= 2.0**-11 * np.abs(exact) + 300 * 2.0**-24 * sizes)
