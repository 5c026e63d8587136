"""Pooling and norms: beside torch, on every way of the engine, over replicas; and what is
refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz.layers import draw_norm, draw_pool, norm_differs, placed, pool_differs, ran
from libraries import torch

from ipu_teach import FLOAT, HALF, INT, Device, Engine, Graph, IPUModel, Tensor
from ipu_teach.errors import NotOfferedError, PoplibsError
from ipu_teach.poplibs import gcl, popnn, poputil
from ipu_teach.poplibs.popnn import bn, gn, in_, ln, pooling
from ipu_teach.program import Sequence
from ipu_teach.types import Array


@pytest.mark.parametrize("seed", range(24))
def test_pooling_is_torchs(seed: int) -> None:
    torch()
    assert not pool_differs(draw_pool(seed), vertex_loop=seed % 4 == 0)


@pytest.mark.parametrize("seed", range(16))
def test_norms_are_torchs(seed: int) -> None:
    torch()
    assert not norm_differs(draw_norm(seed), vertex_loop=seed % 8 == 0)


@pytest.mark.parametrize("seed", range(6))
def test_on_the_stand_in_for_a_gpu_they_are_as_near(seed: int, stand_in: Any) -> None:
    """1e-5 of the largest element in FLOAT and 2^-9 in HALF, four times that for norms."""
    torch()
    drawn = draw_pool(100 + seed)
    assert not pool_differs(drawn, backend="cupy")
    if not seed:
        assert not norm_differs(draw_norm(100), backend="cupy")


def pooled(
    kind: str,
    x: Any,
    kernel: int,
    stride: int,
    padding: int = 0,
    dtype: Any = FLOAT,
    dy: Any = None,
    **rule: Any,
) -> tuple[Array, Array]:
    """(pooled, gradient) of one row, for the output's gradients `dy`, or 1, 2, 3 …"""
    values = np.reshape(x, (1, 1, -1)).astype(dtype.numpy)
    sides = [padding], [padding]
    params = pooling.PoolParams(kind, values.shape[2:], [kernel], [stride], *sides, 1, 1, dtype)
    slopes = np.arange(1.0, params.output_field[0] + 1) if dy is None else np.asarray(dy)
    slopes = slopes.reshape(params.output_shape)

    def build(graph: Graph, prog: Sequence) -> list[Tensor]:
        given = placed(graph, values.shape, dtype, False, values)
        slope = placed(graph, slopes.shape, dtype, False, slopes)
        out = pooling.pool(graph, params, given, prog)
        both = (given, out) if kind == "MAX" else (None, None)
        return [out, pooling.pool_input_gradient(graph, params, *both, slope, prog, **rule)]

    out, gradient = ran(2, build)
    return out.ravel(), gradient.ravel()


def test_windows_overlap_ties_are_shared_and_padding_is_never_the_largest() -> None:
    row = [5, 5, 1, 5]
    assert [a.tolist() for a in pooled("MAX", row, 2, 1)] == [[5, 5, 5], [1, 3, 0, 3]]
    assert pooled("MAX", row, 2, 1, use_scaled_gradient=True)[1].tolist() == [0.5, 2.5, 0, 3]
    assert pooled("MAX", row, 2, 1, ties="first")[1].tolist() == [1, 2, 0, 3]
    assert pooled("MAX", [-3, -1], 2, 2, 1)[0].tolist() == [-3, -1]
    # two places of the outer windows lie within the row, three of the others
    out, gradient = pooled("AVG", [2, 4, 6, 12], 3, 1, 1)
    assert out.tolist() == [3, 4, pytest.approx(22 / 3), 9]
    np.testing.assert_allclose(gradient, [1 / 2 + 2 / 3, 1 / 2 + 2 / 3 + 1, 2 / 3 + 1 + 2, 3], 1e-6)
    assert pooled("SUM", [2, 4, 6, 12], 3, 1, 1)[0].tolist() == [6, 12, 22, 18]
    assert np.isnan(pooled("MAX", [1, np.nan, 3, 2], 2, 2)[0]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("AVG", {}),
        ("SUM", {}),
        ("MAX", {}),
        ("MAX", {"use_scaled_gradient": True}),
        ("MAX", {"ties": "first"}),
    ],
)
def test_pooling_of_halves_is_rounded_once(kind: str, rule: dict[str, Any]) -> None:
    """Windows of 3 that overlap, with equal elements among them, beside a loop in float64."""
    rng = np.random.default_rng(3)
    x, dy = (rng.normal(size=n).astype(np.float16) for n in (42, 40))
    x[::2] = x[:9] = x[0]
    out, gradient = np.zeros(40), np.zeros(42)
    for i in range(40):
        window, divisor = x[i : i + 3].astype(np.float64), 3 if kind == "AVG" else 1
        out[i] = window.max() if kind == "MAX" else window.sum() / divisor
        shares = np.ones(3) / divisor
        if kind == "MAX":
            shares = 1.0 * (window == window.max())
            if "ties" in rule:
                shares = 1.0 * (np.arange(3) == window.argmax())
            elif rule:
                shares /= shares.sum()
        gradient[i : i + 3] += shares * dy[i]
    actual = pooled(kind, x, 3, 1, dtype=HALF, dy=dy, **rule)
    for values, expected in zip(actual, (out, gradient), strict=True):
        np.testing.assert_array_equal(values, expected.astype(np.float16))


@pytest.mark.parametrize(("replicas", "together"), [(1, None), (3, None), (4, 2)])
@pytest.mark.parametrize("stable", [True, False])
def test_statistics_over_replicas_are_those_of_the_joined_batch(
    replicas: int, together: int | None, stable: bool
) -> None:
    """Within 2e-6: the sums are added up in another order. Gradients, too."""
    rng, shape = np.random.default_rng(replicas), (2, 3, 4)
    x, dy = rng.standard_normal((2, replicas, *shape)).astype(np.float32)
    gamma = np.array([0.5, 2, -1], np.float32)
    target = IPUModel("ipu2", tiles_per_ipu=4, num_ipus=replicas).target
    graph, prog = Graph(target, replicas), Sequence()
    given, slope = (placed(graph, shape, FLOAT, False, np.zeros(shape)) for _ in "xd")
    factor = placed(graph, (3,), FLOAT, False, gamma)
    size = None if together is None else together * shape[0]
    mean, inverse = bn.distributed_batch_norm_statistics(
        graph, given, 1e-3, prog, norm_batch_size=size, stable_algo=stable
    )
    white = bn.batch_norm_whiten(graph, given, mean, inverse, prog)
    gradient = bn.distributed_batch_norm_gradients(
        graph, white, slope, inverse, factor, prog, norm_batch_size=size
    )
    results = mean, inverse, gradient
    graph.create_host_write("x", given)
    graph.create_host_write("dy", slope)
    for i, tensor in enumerate(results):
        graph.create_host_read(f"{i}", tensor)
    engine = Engine(graph, prog)
    engine.load(Device(target))
    engine.write_tensor("x", x if replicas > 1 else x[0])
    engine.write_tensor("dy", dy if replicas > 1 else dy[0])
    engine.run()
    got = [engine.read_tensor(f"{i}").reshape(replicas, *results[i].shape) for i in range(3)]
    many = together or replicas
    for first in range(0, replicas, many):
        part = slice(first, first + many)
        whole = np.moveaxis(x[part].astype(np.float64), 2, 0).reshape(3, -1)
        joined = np.moveaxis(dy[part].astype(np.float64), 2, 0).reshape(3, -1)
        root = 1 / np.sqrt(whole.var(1) + 1e-3)
        hat = (whole - whole.mean(1)[:, None]) * root[:, None]
        s = joined * gamma[:, None]
        want = (s - s.mean(1)[:, None] - hat * (s * hat).mean(1)[:, None]) * root[:, None]
        for r in range(first, first + many):
            np.testing.assert_allclose(got[0][r], whole.mean(1), atol=2e-6)
            np.testing.assert_allclose(got[1][r], root, rtol=2e-6)
        found = np.moveaxis(got[2][part], 2, 0).reshape(3, -1)
        np.testing.assert_allclose(found, want, atol=1e-5)


def test_a_callback_of_ones_own_adds_up_and_what_it_gives_is_looked_at() -> None:
    graph, prog = Graph(IPUModel("ipu2", tiles_per_ipu=2, num_ipus=2).target, 2), Sequence()
    x, seen = placed(graph, (2, 3, 4), FLOAT, False, np.zeros((2, 3, 4))), []

    def add(graph: Graph, tensors: list[Tensor], prog: Sequence, many: int, name: str) -> Any:
        seen.append((len(tensors), many, name))
        return gcl.all_reduce_cross_replica(graph, tensors, "ADD", prog)

    call = bn.distributed_batch_norm_statistics
    call(graph, x, 1e-3, prog, reduce_callback=add, debug_context="d")
    assert seen == [(2, 2, "d/mean")]
    for how, text in (
        (
            {"reduce_callback": lambda *given: None},
            "distributed_batch_norm_statistics() was given None as the result of reduce_callback.\n"
            "  next:  return a list of sums, with the shapes of the tensors.",
        ),
        (
            {"norm_batch_size": 3},
            "distributed_batch_norm_statistics() was given 3 as norm_batch_size, for 2 samples on "
            "each of 2 replicas.\n  where: Tensor('variable0', FLOAT, shape (2, 3, 4))\n"
            "  next:  norm_batch_size must be 2 times a divisor of 2.",
        ),
    ):
        with pytest.raises(PoplibsError) as caught:
            call(graph, x, 1e-3, prog, **how)
        assert str(caught.value) == text


def test_gamma_and_beta_take_a_step() -> None:
    rows = [np.array(v, np.float32) for v in ([1, 2], [3, 4], [10, 20], [30, 40])]

    def build(graph: Graph, prog: Sequence) -> list[Tensor]:
        each = [placed(graph, (2,), FLOAT, False, v) for v in rows]
        in_.instance_norm_param_update(graph, *each[:2], -0.5, *each[2:], prog)
        return each[2:]

    assert [v.tolist() for v in ran(2, build)] == [[9.5, 19], [28.5, 38]]


GOOD: dict[str, Any] = {
    "kind": "MAX",
    "input_field": (6, 5),
    "kernel": (2, 3),
    "stride": (1, 2),
    "padding_lower": (0, 1),
    "padding_upper": (0, 1),
    "channels": 4,
    "batch_size": 2,
    "dtype": FLOAT,
}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"kernel": (2, 8)},
            "a kernel of 8 in dimension 1 of the field, which has 7 elements with its padding.\n"
            "  next:  make the kernel smaller, or pad the field.",
        ),
        ({"stride": (0, 2)}, "stride (0, 2).\n  next:  give numbers of 1 or more."),
        ({"input_field": (6, -5)}, "input_field (6, -5).\n  next:  give numbers of 1 or more."),
        (
            {"kernel": (2, 3, 1)},
            "kernel (2, 3, 1), but the field has 2 dimensions.\n  next:  give a number for "
            "each dimension.",
        ),
        (
            {"padding_upper": (0, 3), "stride": (1, 1)},
            "padding (1, 3) in dimension 1 of the field, with a kernel of 3: some windows "
            "contain only padding.\n  next:  give padding that is smaller than the kernel.",
        ),
        (
            {"padding_lower": (-6, 0)},
            "padding (-6, 0) in dimension 0 of the field, which removes all elements of the field.\n"
            "  next:  keep at least one of the 6 elements of the field.",
        ),
        ({"dtype": INT}, "dtype INT.\n  next:  use FLOAT or HALF."),
        ({"kind": "MEAN"}, "kind 'MEAN'.\n  next:  use MAX, AVG, SUM."),
        ({"channels": 0}, "channels 0.\n  next:  give channels as a whole number of 1 or more."),
        (
            {"stride": 2},
            "stride 2.\n  next:  give a list with a whole number for each dimension of the field.",
        ),
    ],
)
def test_parameters_of_pooling_that_cannot_be_are_refused(changes: Any, text: str) -> None:
    with pytest.raises(PoplibsError) as caught:
        pooling.PoolParams(**{**GOOD, **changes})
    assert str(caught.value) == f"PoolParams() was given {text}"


Call = Callable[[Graph, Tensor, Tensor, Sequence], object]
PARAMS = pooling.PoolParams(**GOOD)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda g, x, c, p: pooling.pool(g, PARAMS, x[0], p),
            ["needs x with 4 dimensions; it has 3"],
        ),
        (
            lambda g, x, c, p: pooling.pool(g, PARAMS, x[:1], p),
            [
                "two shapes that differ: (1, 4, 6, 5) and (2, 4, 6, 5)",
                "give x the shape params.input_shape.",
            ],
        ),
        (
            lambda g, x, c, p: pooling.pool(g, pooling.PoolParams(**{**GOOD, "dtype": HALF}), x, p),
            ["two dtypes that differ: FLOAT and HALF", "cast x with popops.cast"],
        ),
        (
            lambda g, x, c, p: pooling.pool_input_gradient(g, PARAMS, x, x, x, p),
            [
                "two shapes that differ: (2, 4, 6, 5) and (2, 4, 5, 3)",
                "give dy the shape params.output_shape.",
            ],
        ),
        (
            lambda g, x, c, p: gn.group_norm_statistics(g, x, 1e-3, p, 3),
            [
                "group_norm_statistics() was given 3 groups for 4 channels.",
                "divides the number of channels",
            ],
        ),
        (
            lambda g, x, c, p: gn.group_norm_whiten(g, x, c[:3], c[:3], p),
            ["needs mean with 2 elements, one for each group, but mean has 3."],
        ),
        (
            lambda g, x, c, p: bn.batch_norm_statistics(g, x, -1e-3, p),
            ["batch_norm_statistics() was given -0.001 as eps.", "a number of 0 or more"],
        ),
        (
            lambda g, x, c, p: bn.batch_norm_statistics(g, c, 1e-3, p),
            ["batch_norm_statistics() needs x with 2 to 9 dimensions", "it has 1"],
        ),
        (
            lambda g, x, c, p: ln.layer_normalise(g, x, c[:3], c, c[:2], c[:2], p),
            [
                "layer_normalise() needs gamma with 4 elements, one for each channel, but gamma has 3."
            ],
        ),
        (
            lambda g, x, c, p: bn.batch_norm_gradients(g, x, x[:1], c, c, p),
            ["two shapes that differ: (1, 4, 6, 5) and (2, 4, 6, 5)"],
        ),
        (
            lambda g, x, c, p: in_.instance_norm_statistics(g, x[..., :1, :1], 1e-3, p, True),
            [
                "cannot estimate an unbiased variance from 1 element, because the estimate would "
                "divide by 0."
            ],
        ),
        (
            lambda g, x, c, p: gn.group_norm_statistics(g, x, 1e-3, p, 2, grouping="torch"),
            ["was given 'torch' as grouping.", "'strided' or 'correct'"],
        ),
    ],
)
def test_calls_that_make_no_sense_are_refused(call: Call, words: list[str]) -> None:
    graph, prog = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device()), Sequence()
    x, c = graph.add_variable(FLOAT, (2, 4, 6, 5), "x"), graph.add_variable(FLOAT, 4, "c")
    for tensor in (x, c):
        poputil.map_tensor_linearly(graph, tensor)
    with pytest.raises(PoplibsError) as caught:
        call(graph, x, c, prog)
    assert all(part in str(caught.value) for part in words), str(caught.value)
    assert not prog.children()


def test_rules_for_ties_are_looked_at() -> None:
    graph, prog = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device()), Sequence()
    x, y = (placed(graph, s, FLOAT, False, np.zeros(s)) for s in ((2, 4, 6, 5), (2, 4, 5, 3)))
    call = pooling.pool_input_gradient
    for how, text in (
        ({"ties": "last"}, "was given 'last' as ties.\n  next:  give 'all' or 'first'."),
        (
            {"ties": "first", "use_scaled_gradient": True},
            "was given both use_scaled_gradient and ties='first'.\n"
            "  next:  give use_scaled_gradient to share the gradient between equal elements, or "
            "ties='first' to give it to the first.",
        ),
    ):
        with pytest.raises(PoplibsError) as caught:
            call(graph, PARAMS, x, y, y, prog, **how)
        assert str(caught.value) == f"pool_input_gradient() {text}"
    average = pooling.PoolParams(**{**GOOD, "kind": "AVG"})
    with pytest.raises(PoplibsError) as caught:
        call(graph, average, x, y, y, prog)
    assert str(caught.value) == (
        "pool_input_gradient() was given x, pooled, use_scaled_gradient or ties for AVG pooling, but "
        "only MAX uses them.\n"
        "  next:  give None for x and pooled, and leave out use_scaled_gradient and ties."
    )


def test_other_names_for_them_say_which_to_use() -> None:
    for name, instead in (
        (
            "batch_norm",
            "pooling, bn (batch), gn (group), ln (layer) and in_ (instance), modules of popnn.",
        ),
        ("rnn", "popops and poplin, of which they can be composed."),
    ):
        with pytest.raises(NotOfferedError) as caught:
            getattr(popnn, name)
        assert str(caught.value) == (
            f"popnn.{name} is not offered by this kit.\n  next:  use instead: {instead}"
        )


def half_norm(kind: str, values: dict[str, Any], dtype: Any, partials: Any) -> list[Array]:
    """Statistics, output, whitened x, and the gradients of gamma, beta and x, of a norm."""
    module, name = {"bn": (bn, "batch"), "gn": (gn, "group"), "ln": (ln, "layer")}[kind]
    more: dict[str, Any] = {"grouping": "correct"} if kind == "gn" else {}

    def build(graph: Graph, prog: Sequence) -> list[Tensor]:
        x, dy, gamma, beta = (
            placed(graph, v.shape, dtype, False, v.astype(dtype.numpy)) for v in values.values()
        )

        def call(what: str, *args: Any, **named: Any) -> Any:
            return getattr(module, f"{name}_{what}")(graph, *args, prog, **named)

        groups = {"num_groups": 2} if kind == "gn" else {}
        mean, inverse = call("norm_statistics", x, 1e-3, stable_algo=True, **groups, **more)
        out, white = call("normalise", x, gamma, beta, mean, inverse, **more)
        assert {mean.dtype, inverse.dtype, out.dtype, white.dtype} == {dtype}
        by_gamma, by_beta = call("norm_param_gradients", white, dy, partials_type=partials)
        assert by_gamma.dtype is by_beta.dtype is FLOAT
        by_x = call("norm_gradients", white, dy, inverse, gamma, partials_type=partials, **more)
        assert by_x.dtype is dtype
        return [mean, inverse, out, white, by_gamma, by_beta, by_x]

    return ran(13, build)


def norm_in_double(kind: str, values: dict[str, Any]) -> list[Array]:
    """The same in float64, with numpy."""
    x, dy, gamma, beta = (v.astype(np.float64) for v in values.values())
    groups = {"bn": 0, "gn": 2, "ln": 1}[kind]

    def rows(a: Array) -> Array:
        return a.reshape(len(a) * groups, -1) if groups else np.moveaxis(a, 1, 0).reshape(8, -1)

    def back(a: Array) -> Array:
        moved = (x.shape[1], len(x), *x.shape[2:])
        return a.reshape(x.shape) if groups else np.moveaxis(a.reshape(moved), 0, 1)

    column = (1, -1, 1)
    mean, inverse = rows(x).mean(1), 1 / np.sqrt(rows(x).var(1) + 1e-3)
    white = (rows(x) - mean[:, None]) * inverse[:, None]
    slope = rows(dy * gamma.reshape(column))
    by_x = slope - slope.mean(1)[:, None] - white * (slope * white).mean(1)[:, None]
    out = back(white) * gamma.reshape(column) + beta.reshape(column)
    by_gamma, by_beta = ((dy * factor).sum((0, 2)) for factor in (back(white), 1))
    return [mean, inverse, out, back(white), by_gamma, by_beta, back(by_x * inverse[:, None])]


@pytest.mark.parametrize("partials", [FLOAT, HALF])
@pytest.mark.parametrize("kind", ["bn", "gn", "ln"])
def test_norms_of_half_round_as_often_as_poplibs_and_stay_near(kind: str, partials: Any) -> None:
    """Each value has seen at most a dozen roundings to HALF, of 2^-11 of the largest."""
    random = np.random.default_rng(5)
    shape = 6, 8, 10
    values = {
        "x": random.standard_normal(shape) * 3 + 2,
        "dy": random.standard_normal(shape),
        "gamma": random.standard_normal(8),
        "beta": random.standard_normal(8),
    }
    values = {name: v.astype(np.float16) for name, v in values.items()}
    actual = half_norm(kind, values, HALF, partials)
    for result, expected in zip(actual, norm_in_double(kind, values), strict=True):
        scale = max(1, np.abs(expected).max())
        np.testing.assert_allclose(result, expected, 0, 12 * 2.0**-11 * scale)


def test_large_gradients_of_half_overflow_only_where_products_are_half() -> None:
    random = np.random.default_rng(6)
    values = {
        "x": random.standard_normal((3, 8, 8)),
        "dy": random.choice([-30_000.0, 30_000.0], (3, 8, 8)),
        "gamma": np.ones(8),
        "beta": np.zeros(8),
    }
    values = {name: v.astype(np.float16) for name, v in values.items()}
    expected = norm_in_double("ln", values)[-3:]
    wide = half_norm("ln", values, HALF, FLOAT)[-3:]
    for result, exact in zip(wide, expected, strict=True):
        np.testing.assert_allclose(result, exact, 0, 2.0**-9 * np.abs(exact).max())
    assert not np.isfinite(half_norm("ln", values, HALF, HALF)[-3]).all()


@pytest.mark.parametrize("kind", ["bn", "gn", "ln"])
def test_partials_of_a_norms_gradients_are_float_or_half(kind: str) -> None:
    values = {n: np.ones(s) for n, s in (("x", (2, 8, 3)), ("dy", (2, 8, 3)), ("g", 8), ("b", 8))}
    with pytest.raises(PoplibsError) as caught:
        half_norm(kind, values, FLOAT, "half")
    assert "param_gradients() was given 'half' as partials_type." in str(caught.value)
    assert "next:  give FLOAT or HALF." in str(caught.value)
