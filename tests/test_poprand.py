"""Random numbers: how they are distributed, within four standard errors, and what they depend
on."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, sqrt
from typing import Any

import numpy as np
import pytest
from libraries import both_ways, run, value

from ipu_teach import FLOAT, HALF, INT, UNSIGNED_INT, Graph, IPUModel, Tensor, get_hw_seeds
from ipu_teach.errors import InvalidTileMappingError, IPUTeachError, PoplibsError
from ipu_teach.poplibs import popops, poprand, poputil
from ipu_teach.program import Sequence
from ipu_teach.types import Array, DType, generator

COUNT = 20_000
Build = Callable[..., Tensor]


def call(name: str, *rest: Any, dtype: type[DType] | None = FLOAT, modifier: int = 5) -> Build:
    """A build of one function, for a seed and a reference. `rest`: what stands between out_type and
    prog."""
    function = getattr(poprand, name)
    kind = () if dtype is None else (dtype,)
    return lambda graph, prog, seed, reference: function(
        graph, seed, modifier, reference, *kind, *rest, prog
    )


def drawn(build: Build, count: int = COUNT, seed: tuple[int, int] = (1, 2), **how: Any) -> Array:
    return value(build, (seed, UNSIGNED_INT), (np.zeros(count), FLOAT), **how)


def near(numbers: Array, mean: float, deviation: float) -> None:
    """Mean and deviation within four standard errors; for the latter those of a normal
    distribution, which are the widest."""
    wide = numbers.astype(np.float64)
    assert abs(wide.mean() - mean) < 4 * deviation / sqrt(len(wide))
    assert abs(wide.std() / deviation - 1) < 4 / sqrt(2 * len(wide))


@pytest.mark.parametrize(
    "build",
    [
        call("uniform", 0, 9, dtype=INT),
        call("normal", 0, 1),
        call("truncated_normal", 0, 1, 2),
        call("log_uniform", 1, 9),
    ],
)
def test_more_numbers_take_longer_to_draw(build: Build) -> None:
    few, many = (
        run(build, ((1, 2), UNSIGNED_INT), (np.zeros(count), FLOAT), tiles=1)[1]
        for count in (50, 5000)
    )
    assert 0 < few.total_cycles < many.total_cycles and not few.unknown_codelets


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_uniform_numbers(dtype: type[DType]) -> None:
    got = drawn(call("uniform", -2, 3, dtype=dtype))
    assert got.dtype == dtype.numpy and got.min() >= -2 and got.max() <= 3
    near(got, 0.5, 5 / sqrt(12))
    filled = np.bincount(
        np.minimum(((got.astype(np.float64) + 2) * 4).astype(int), 19), minlength=20
    )
    assert np.abs(filled - COUNT / 20).max() < 4 * sqrt(COUNT / 20)


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(INT, -2, 3), (UNSIGNED_INT, 0, 1), (INT, -(2**31), 2**31 - 1)]
)
def test_uniform_whole_numbers_reach_both_ends(dtype: type[DType], low: int, high: int) -> None:
    got = drawn(call("uniform", low, high, dtype=dtype))
    assert got.dtype == dtype.numpy and got.min() >= low and got.max() <= high
    choices = high - low + 1
    near(got, (low + high) / 2, sqrt((choices**2 - 1) / 12))
    if choices < 10:
        counts = np.bincount(got.astype(np.int64) - low)
        assert len(counts) == choices and np.abs(counts - COUNT / choices).max() < 4 * sqrt(
            COUNT / choices
        )


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_normal_numbers(dtype: type[DType]) -> None:
    got = drawn(call("normal", 1, 2, dtype=dtype))
    near(got, 1, 2 * sqrt(1023 / 1024))
    # The largest distance from the distribution, with the half step that its grid of 1/32 deviation
    # adds.
    place = np.sort((got.astype(np.float64) - 1) / 2)
    below = np.array([0.5 * (1 + erf(x / sqrt(2))) for x in place])
    assert np.abs(below - (np.arange(COUNT) + 0.5) / COUNT).max() < 1.95 / sqrt(COUNT) + 0.4 / 64


@pytest.mark.parametrize("alpha", [0.5, 1.5, 3])
def test_truncated_normal_numbers(alpha: float) -> None:
    got = drawn(call("truncated_normal", 10, 2, alpha))
    assert np.abs(got - 10).max() <= 2 * alpha * (1 + 1e-6)
    density = np.exp(-(alpha**2) / 2) / sqrt(2 * np.pi)
    inside = erf(alpha / sqrt(2))
    deviation = sqrt(1 - 2 * alpha * density / inside)
    assert abs(got.astype(np.float64).mean() - 10) < 4 * 2 * deviation / sqrt(COUNT)
    assert abs(got.astype(np.float64).std() / (2 * deviation) - 1) < 4 / sqrt(2 * COUNT) + 1 / 32


@pytest.mark.parametrize("probability", [0, 0.1, 0.5, 1])
@pytest.mark.parametrize("dtype", [FLOAT, HALF, INT])
def test_ones_with_a_probability(probability: float, dtype: type[DType]) -> None:
    got = drawn(call("bernoulli", probability, dtype=dtype))
    assert got.dtype == dtype.numpy and set(got.tolist()) <= {0, 1}
    error = sqrt(probability * (1 - probability) / COUNT)
    assert abs(got.astype(np.float64).mean() - probability) <= 4 * error


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_numbers_with_even_logarithms(dtype: type[DType]) -> None:
    got = drawn(call("log_uniform", 0.01, 100, dtype=dtype))
    assert (
        got.dtype == dtype.numpy and got.min() >= np.array(0.01, dtype.numpy) and got.max() <= 100
    )
    logs = np.log(got.astype(np.float64))
    near(logs, 0, 2 * np.log(100) / sqrt(12))
    filled = np.bincount(np.clip(((logs / np.log(100) + 1) * 10).astype(int), 0, 19), minlength=20)
    assert np.abs(filled - COUNT / 20).max() < 4 * sqrt(COUNT / 20)


ALL = {
    "log": call("log_uniform", 1, 2),
    "uniform": call("uniform", -1, 1),
    "normal": call("normal", 0, 1),
    "whole": call("uniform", 0, 9, dtype=INT),
    "truncated": call("truncated_normal", 0, 1, 2),
    "bernoulli": call("bernoulli", 0.5),
}


@pytest.mark.parametrize("name", ALL)
def test_equal_seeds_give_equal_numbers_and_others_do_not(name: str) -> None:
    first = both_ways(ALL[name], ((7, 8), UNSIGNED_INT), (np.zeros(500), FLOAT))
    assert first.tobytes() == drawn(ALL[name], 500, (7, 8)).tobytes()
    for other in ((8, 7), (7, 9)):
        assert first.tobytes() != drawn(ALL[name], 500, other).tobytes()


def test_every_modifier_and_every_worker_has_a_stream_of_its_own() -> None:
    got = [drawn(call("uniform", 0, 1, modifier=m), 3000) for m in (0, 1, 2)]
    assert len(np.unique(np.concatenate(got))) > 0.999 * 9000
    assert abs(np.corrcoef(got)[0, 1]) < 4 / sqrt(3000)


def test_the_numbers_are_those_of_the_generator() -> None:
    got = drawn(call("uniform", 0, 1), 20, (7, 8), tiles=1)
    streams = generator.keyed(7, 8, 5, 0, np.arange(6))
    np.testing.assert_array_equal(got, generator.uniform(streams, 4).reshape(-1)[:20])


def test_a_larger_machine_draws_the_same_for_the_same_layout() -> None:
    def build(graph: Graph, prog: Sequence, seed: Tensor, x: Tensor) -> Tensor:
        for part in range(4):
            graph.set_tile_mapping(x[part * 25 : (part + 1) * 25], part)
        return poprand.normal(graph, seed, 1, x, FLOAT, 0, 1, prog)

    assert drawn(build, 100, tiles=4).tobytes() == drawn(build, 100, tiles=60).tobytes()


@pytest.mark.parametrize("shape", [(0,), (1,), (7, 3), (2, 3, 4)])
@pytest.mark.parametrize("tiles", [1, 13, 200])
def test_shape_and_mapping_are_those_of_the_reference(shape: tuple[int, ...], tiles: int) -> None:
    def build(graph: Graph, prog: Sequence, seed: Tensor, x: Tensor) -> Tensor:
        out = poprand.bernoulli(graph, seed, 3, x, HALF, 0.5, prog)
        assert graph.get_tile_mapping(out) == graph.get_tile_mapping(x)
        return out

    assert (
        value(build, ((1, 2), UNSIGNED_INT), (np.zeros(shape), FLOAT), tiles=tiles).shape == shape
    )


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_dropout_forward_and_backward_drop_the_same(dtype: type[DType]) -> None:
    def build(graph: Graph, prog: Sequence, seed: Tensor, x: Tensor, back: Tensor) -> list[Tensor]:
        return [
            poprand.dropout(graph, seed, 3, x, x, 0.75, 4 / 3, prog, "forward"),
            poprand.dropout(graph, seed, 3, back, x, 0.75, 4 / 3, prog, "backward"),
            poprand.dropout(graph, seed, 4, x, x, 0.75, 4 / 3, prog, "other"),
        ]

    x = np.random.default_rng(1).uniform(1, 2, COUNT).astype(dtype.numpy)
    (out, slope, other), report = run(build, ((3, 4), UNSIGNED_INT), (x, dtype), (2 * x, dtype))
    kept = out != 0
    np.testing.assert_array_equal(kept, slope != 0)
    assert np.any(kept != (other != 0))
    assert abs(kept.mean() - 0.75) < 4 * sqrt(0.75 * 0.25 / COUNT)
    wanted = (x.astype(np.float32) * np.float32(4 / 3)).astype(dtype.numpy)
    np.testing.assert_array_equal(out[kept], wanted[kept])
    assert [c.name for c in report.compute_sets] == ["forward", "backward", "other"]
    assert set(report.vertex_counts()) == {f"poprand::Dropout<{dtype.__name__.lower()}>"}
    assert report.unknown_codelets == ()


@pytest.mark.parametrize("name", ALL)
def test_without_a_seed_the_generators_go_on(name: str) -> None:
    """Two calls draw different numbers; seeding between them makes them the same, and equal to the
    seed's own stream."""
    function = {"log": "log_uniform", "whole": "uniform", "truncated": "truncated_normal"}.get(
        name, name
    )
    kind: type[DType] = INT if name == "whole" else FLOAT
    rest = {
        "log": (1, 2),
        "uniform": (-1, 1),
        "normal": (0, 1),
        "whole": (0, 9),
        "truncated": (0, 1, 2),
    }.get(name, (0.5,))

    def build(graph: Graph, prog: Sequence, seed: Tensor, x: Tensor) -> list[Tensor]:
        def more() -> Tensor:
            out: Tensor = getattr(poprand, function)(graph, None, 0, x, kind, *rest, prog)
            return out

        first, second = more(), more()
        poprand.set_seed(graph, seed, 3, prog)
        third, fourth = more(), more()
        poprand.set_seed(graph, seed, 3, prog)
        fifth = more()
        seeded = getattr(poprand, function)(graph, seed, 3, x, kind, *rest, prog)
        return [first, second, third, fourth, fifth, seeded, more()]

    given: Any = (((3, 4), UNSIGNED_INT), (np.zeros(500), FLOAT))
    got = run(build, *given)[0]
    for a, b in ((0, 1), (1, 2), (2, 3)):
        assert got[a].tobytes() != got[b].tobytes()
    assert got[2].tobytes() == got[4].tobytes() == got[5].tobytes()
    # what is drawn with a seed leaves the generators alone
    assert got[6].tobytes() == got[3].tobytes()
    for a, b in zip(got, run(build, *given, vertex_loop=True)[0], strict=True):
        assert a.tobytes() == b.tobytes()
    others = run(build, *given, options={"prng.seed": 9})[0]
    assert others[0].tobytes() != got[0].tobytes() and others[2].tobytes() == got[2].tobytes()


def test_a_seed_set_for_all_workers_is_that_of_the_stream() -> None:
    """And costs what PopLibs says, on every tile."""

    def build(graph: Graph, prog: Sequence, seed: Tensor) -> Tensor:
        poprand.set_seed(graph, seed, 11, prog)
        return get_hw_seeds(graph, prog)

    (words,), report = run(build, ((5, 6), UNSIGNED_INT), tiles=7)
    states = np.stack([generator.keyed(5, 6, 11, tile, np.arange(6)) for tile in range(7)])
    np.testing.assert_array_equal(words.view("<u8"), states)
    assert [c.name for c in report.compute_sets] == ["set_seed", "get_hw_seeds"]
    assert report.compute_sets[0].cycles_per_tile.tolist() == [14 + 27 * 6] * 7
    flat = states.reshape(-1, 2)
    assert len(np.unique(flat, axis=0)) == 42


def test_a_mask_may_be_smaller_than_what_it_drops() -> None:
    x = np.random.default_rng(1).uniform(1, 2, (400, 30)).astype(np.float32)

    def build(graph: Graph, prog: Sequence, seed: Tensor, x: Tensor) -> list[Tensor]:
        return [
            poprand.shaped_dropout(graph, seed, 3, x, x[:, :1], 0.75, 4 / 3, prog),
            poprand.shaped_dropout(graph, seed, 3, x, x[0], 0.5, 2, prog),
            poprand.dropout(graph, seed, 3, x[:, :1], x[:, :1], 0.75, 4 / 3, prog),
        ]

    (rows, columns, plain), report = run(build, ((3, 4), UNSIGNED_INT), (x, FLOAT))
    kept = rows[:, 0] != 0
    np.testing.assert_array_equal(rows != 0, np.repeat(kept[:, None], 30, axis=1))
    assert abs(kept.mean() - 0.75) < 4 * sqrt(0.75 * 0.25 / 400)
    np.testing.assert_allclose(rows[kept], x[kept] * 4 / 3, rtol=2e-7)
    np.testing.assert_array_equal(columns != 0, np.repeat((columns[0] != 0)[None], 400, axis=0))
    # the mask is that of the same seed, modifier and reference
    np.testing.assert_array_equal(kept, plain[:, 0] != 0)
    assert [c.name for c in report.compute_sets][:2] == ["shaped_dropout/mask", "shaped_dropout"]


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_halves_that_are_drawn_round_by_chance_too(dtype: type[DType]) -> None:
    options = {"prng.enableStochasticRounding": True}
    build = call("uniform", 1, 2, dtype=dtype)
    plain, chance, again = (drawn(build, 3000, options=o) for o in (None, options, options))
    assert chance.tobytes() == again.tobytes()
    assert (chance.tobytes() == plain.tobytes()) is (dtype is FLOAT)
    if dtype is HALF:  # to one of the two neighbours of what is FLOAT without rounding
        exact = drawn(call("uniform", 1, 2), 3000)
        assert np.all(np.abs(chance - exact) < 2.0**-10) and np.all(
            np.abs(plain - exact) <= 2.0**-11
        )
        up = chance > exact
        way = np.mod(exact.astype(np.float64) * 2**10, 1)
        assert abs((up - way).mean()) < 4 * np.sqrt(np.mean(way * (1 - way)) / 3000)


def test_a_program_may_change_the_seed_between_runs() -> None:
    def build(graph: Graph, prog: Sequence, seed: Tensor, x: Tensor) -> Tensor:
        out = poprand.uniform(graph, seed, 0, x, FLOAT, 0, 1, prog)
        popops.add_in_place(graph, seed, 1, prog)
        return out

    once, twice = (drawn(build, 100, times=times) for times in (1, 2))
    assert (
        once.tobytes()
        != twice.tobytes()
        == drawn(call("uniform", 0, 1, modifier=0), 100, (2, 3)).tobytes()
    )


REFUSED = """
poprand.uniform(graph, x, 1, x, FLOAT, 0, 1, prog)
uniform() needs a tensor of two UNSIGNED_INT as seed, but was given 6 of FLOAT.
  where: Tensor('x', FLOAT, shape (6,))
  next:  create the seed with graph.add_variable(UNSIGNED_INT, (2,)) and graph.set_initial_value.

poprand.uniform(graph, seed, 1, x, FLOAT, 1, 0, prog)
uniform() was given min_val 1 and max_val 0.
  next:  give finite bounds, the smaller one as min_val.

poprand.uniform(graph, seed, 1, x, CHAR, 0, 1, prog)
uniform() was given out_type=CHAR.
  next:  use FLOAT, HALF, INT, UNSIGNED_INT.

poprand.log_uniform(graph, seed, 1, x, FLOAT, 0, 1, prog)
log_uniform() was given 0 as min_val.
  next:  give a finite number of 1.17549e-38 or more.

poprand.log_uniform(graph, seed, 1, x, FLOAT, 2, 1, prog)
log_uniform() was given min_val 2 and max_val 1.
  next:  give finite bounds, the smaller one as min_val.

poprand.shaped_dropout(graph, seed, 1, x, x[:2], 0.5, 2, prog)
shaped_dropout() cannot broadcast a mask of shape (2,) over x of shape (6,).
  where: x Tensor('x', FLOAT, shape (6,)) and reference Tensor(a view of 'x', FLOAT, shape (2,))
  next:  give a reference whose last dimensions have the lengths of x, or 1.

poprand.set_seed(graph, x, 1, prog)
set_seed() needs a tensor of two UNSIGNED_INT as master_seed, but was given 6 of FLOAT.
  where: Tensor('x', FLOAT, shape (6,))
  next:  create the seed with graph.add_variable(UNSIGNED_INT, (2,)) and graph.set_initial_value.

poprand.normal(graph, seed, 1, x, INT, 0, 1, prog)
normal() was given out_type=INT.
  next:  use FLOAT, HALF.

poprand.normal(graph, seed, 1, x, FLOAT, 0, -1, prog)
normal() was given -1 as std_dev.
  next:  give a finite number of 0 or more.

poprand.truncated_normal(graph, seed, 1, x, FLOAT, 0, 1, 9, prog)
truncated_normal() was given 9 as alpha.
  next:  give a finite number from 0.1 to 5.8.

poprand.bernoulli(graph, seed, 1, x, FLOAT, 1.5, prog)
bernoulli() was given 1.5 as prob.
  next:  give a finite number from 0 to 1.

poprand.dropout(graph, seed, 1, x, x[:2], 0.5, 2, prog)
dropout() was given two shapes that differ: (6,) and (2,).
  where: x Tensor('x', FLOAT, shape (6,)) and reference Tensor(a view of 'x', FLOAT, shape (2,))
  next:  give x as reference.

poprand.dropout(graph, seed, 1, seed, seed, 0.5, 2, prog)
dropout() works on FLOAT and HALF, but x is UNSIGNED_INT.
  where: Tensor('seed', UNSIGNED_INT, shape (2,))
  next:  cast it with popops.cast.

poprand.uniform(graph, seed, "one", x, FLOAT, 0, 1, prog)
uniform() was given 'one' as seed_modifier.
  next:  give a number.

poprand.uniform(graph, seed, 1, lost, FLOAT, 0, 1, prog)
uniform() was given reference with 6 of its 6 elements not mapped to any tile.
  where: Tensor('lost', FLOAT, shape (6,))
  next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor).
"""
CASES = [tuple(case.split("\n", 1)) for case in REFUSED.strip().split("\n\n")]


@pytest.mark.parametrize(("call", "text"), CASES, ids=[call for call, _ in CASES])
def test_what_is_refused_is_explained_and_changes_nothing(call: str, text: str) -> None:
    from ipu_teach import CHAR

    graph, prog = Graph(IPUModel(tiles_per_ipu=5).create_device()), Sequence()
    names: dict[str, Any] = {
        "graph": graph,
        "prog": prog,
        "poprand": poprand,
        "FLOAT": FLOAT,
        "INT": INT,
        "CHAR": CHAR,
    }
    names["x"], names["seed"] = (
        graph.add_variable(FLOAT, 6, "x"),
        graph.add_variable(UNSIGNED_INT, 2, "seed"),
    )
    for tensor in (names["x"], names["seed"]):
        poputil.map_tensor_linearly(graph, tensor)
    names["lost"] = graph.add_variable(FLOAT, 6, "lost")
    before = len(graph.variables), len(graph.compute_sets), len(prog.programs)
    with pytest.raises(IPUTeachError) as caught:
        eval(call, names)
    assert type(caught.value) is (InvalidTileMappingError if "lost" in call else PoplibsError)
    assert str(caught.value) == text
    assert (len(graph.variables), len(graph.compute_sets), len(prog.programs)) == before
