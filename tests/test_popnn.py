"""Non-linearities, softmax, losses and the largest class: numpy in double precision, finite
differences, and torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from libraries import both_ways, run, torch, ulps_of_half, value
from poplibs_bench import Bench, assert_same_bits

from ipu_teach import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, Device, Engine, Graph, IPUModel, Tensor
from ipu_teach.errors import InvalidTileMappingError, IPUTeachError, PoplibsError
from ipu_teach.poplibs import popnn, popops, poputil
from ipu_teach.poplibs.popnn.softmax_loss import softmax_cross_entropy
from ipu_teach.poplibs.popops.fills import MASKED_LABEL_CODE
from ipu_teach.program import Sequence
from ipu_teach.types import Array, DType

RANDOMLY = settings(
    deadline=None, derandomize=True, max_examples=25, suppress_health_check=list(HealthCheck)
)
KINDS = [k for k in popnn.NonLinearityType if not k.by_row]


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def sigmoid(x: Array) -> Array:
    return np.asarray(0.5 + 0.5 * np.tanh(x / 2))


def normal_below(x: Array) -> Array:
    return np.vectorize(lambda v: 0.5 * (1 + erf(v / np.sqrt(2))), otypes=[np.float64])(x)


WANTED: dict[str, Callable[[Array], Array]] = {
    "RELU": lambda x: np.maximum(x, 0),
    "SIGMOID": sigmoid,
    "HARD_SIGMOID": lambda x: np.clip(x / 5 + 0.5, 0, 1),
    "TANH": np.tanh,
    "GELU": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "GELU_ERF": lambda x: x * normal_below(x),
    "SWISH": lambda x: x * sigmoid(x),
    "SOFTMAX": softmax,
    "SOFTMAX_STABLE": softmax,
}


def spread(shape: tuple[int, ...], seed: int, dtype: type[DType]) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype.numpy)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
@settings(RANDOMLY, max_examples=8)
@given(
    st.sampled_from([(0,), (1,), (13,), (7, 31), (2, 3, 5), (200,)]),
    st.sampled_from([1, 13, 200]),
    st.integers(0, 9),
)
def test_non_linearities_equal_numpy(
    kind: popnn.NonLinearityType, shape: tuple[int, ...], tiles: int, seed: int
) -> None:
    for dtype in (FLOAT, HALF):
        x = spread(shape, seed, dtype)
        wanted = WANTED[kind.name](x.astype(np.float64))
        got = both_ways(
            lambda graph, prog, t: popnn.non_linearity(graph, kind, t, prog),
            (x, dtype),
            tiles=tiles,
        )
        if dtype is FLOAT:
            np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-6)
        else:
            close = (
                np.abs(got - wanted)
                <= np.maximum(2.0**-11 * np.abs(wanted), 2.0**-25) * 1.02 + 1e-6
            )
            assert np.all(close)

        def in_place(graph: Graph, prog: Sequence, t: Tensor) -> Tensor:
            popnn.non_linearity_in_place(graph, kind.name.lower(), t, prog)
            return t

        (same,), report = run(in_place, (x, dtype), tiles=tiles)
        assert (
            same.tobytes() == got.tobytes()
            and report.total_cycles > 0
            and not report.unknown_codelets
        )


@pytest.mark.parametrize("kind", ["RELU", "SIGMOID", "HARD_SIGMOID", "TANH", "SWISH"])
def test_half_is_the_rounding_of_double(kind: str) -> None:
    """Every half between -8 and 8: single precision in between moves at most one in a hundred to
    the neighbour."""
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    x = x[np.abs(x) <= 8]
    got = value(lambda graph, prog, t: popnn.non_linearity(graph, kind, t, prog), (x, HALF))
    away = ulps_of_half(got, WANTED[kind](x.astype(np.float64)))
    assert away.max() <= 1 and np.mean(away > 0) < 0.01


def slope_of(function: Callable[[Array], Array], x: Array, gradient: Array) -> Array:
    """Central differences of the sum of gradient times function(x), in double precision, element by
    element."""
    step, slope = 1e-6, np.empty_like(x)
    for i in np.ndindex(*x.shape):
        nudge = np.zeros_like(x)
        nudge[i] = step
        slope[i] = np.sum(gradient * (function(x + nudge) - function(x - nudge))) / (2 * step)
    return slope


WITH_GRADIENT = [
    k for k in popnn.NonLinearityType if k is not popnn.NonLinearityType.SOFTMAX_SCALED
]


@pytest.mark.parametrize("kind", WITH_GRADIENT, ids=lambda k: k.name)
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7)])
def test_gradients_equal_finite_differences(
    kind: popnn.NonLinearityType, dtype: type[DType], shape: tuple[int, int]
) -> None:
    x, gradient = spread(shape, 1, dtype), spread(shape, 2, dtype)

    def build(graph: Graph, prog: Sequence, t: Tensor, back: Tensor) -> Tensor:
        out = popnn.non_linearity(graph, kind, t, prog)
        act = t if kind.slope_from_input else out
        return popnn.non_linearity_input_gradient(graph, kind, act, back, prog)

    got = both_ways(build, (x, dtype), (gradient, dtype))
    wanted = slope_of(WANTED[kind.name], x.astype(np.float64), gradient.astype(np.float64))
    np.testing.assert_allclose(
        got, wanted, rtol=1e-4, atol=2e-5
    ) if dtype is FLOAT else np.testing.assert_allclose(got, wanted, rtol=4e-3, atol=8e-3)


@pytest.mark.parametrize("kind", WITH_GRADIENT, ids=lambda k: k.name)
def test_non_linearities_and_gradients_equal_those_of_torch(kind: popnn.NonLinearityType) -> None:
    library = torch()
    functional = library.nn.functional
    theirs = {
        "RELU": functional.relu,
        "SIGMOID": library.sigmoid,
        "TANH": library.tanh,
        "SWISH": functional.silu,
        "HARD_SIGMOID": lambda t: (t / 5 + 0.5).clamp(0, 1),
        "GELU_ERF": functional.gelu,
        "GELU": lambda t: functional.gelu(t, approximate="tanh"),
        "SOFTMAX": lambda t: functional.softmax(t, 1),
        "SOFTMAX_STABLE": lambda t: functional.softmax(t, 1),
    }
    x, gradient = spread((9, 11), 3, FLOAT), spread((9, 11), 4, FLOAT)

    def build(graph: Graph, prog: Sequence, t: Tensor, back: Tensor) -> list[Tensor]:
        out = popnn.non_linearity(graph, kind, t, prog)
        return [
            out,
            popnn.non_linearity_input_gradient(
                graph, kind, t if kind.slope_from_input else out, back, prog
            ),
        ]

    (out, slope), _ = run(build, (x, FLOAT), (gradient, FLOAT))
    leaf = library.from_numpy(x.copy()).requires_grad_()
    result = theirs[kind.name](leaf)
    result.backward(library.from_numpy(gradient))
    np.testing.assert_allclose(out, result.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slope, leaf.grad.numpy(), rtol=1e-4, atol=2e-5)


@RANDOMLY
@given(
    st.sampled_from([1, 2, 13, 31]),
    st.sampled_from([1, 2, 7, 40]),
    st.sampled_from([1, 13]),
    st.sampled_from([FLOAT, HALF]),
)
def test_softmax_and_its_logarithm(
    batch: int, classes: int, tiles: int, dtype: type[DType]
) -> None:
    x = spread((batch, classes), batch, dtype)
    wanted = softmax(x.astype(np.float64))
    got = both_ways(lambda graph, prog, t: popnn.softmax(graph, t, prog), (x, dtype), tiles=tiles)
    np.testing.assert_allclose(got, wanted, rtol=2e-6 if dtype is FLOAT else 2.0**-10, atol=1e-7)
    got = both_ways(
        lambda graph, prog, t: popnn.log_softmax(graph, t, prog), (x, dtype), tiles=tiles
    )
    np.testing.assert_allclose(
        got, np.log(wanted), rtol=2e-6 if dtype is FLOAT else 2.0**-10, atol=3e-6
    )


def test_the_logarithm_does_not_underflow_and_softmax_does() -> None:
    x = np.array([[0, -200]])
    assert value(lambda graph, prog, t: popnn.softmax(graph, t, prog), (x, FLOAT)).tolist() == [
        [1, 0]
    ]
    assert value(lambda graph, prog, t: popnn.log_softmax(graph, t, prog), (x, FLOAT)).tolist() == [
        [0, -200]
    ]


def losses(dtype: type[DType], **options: Any) -> Callable[..., list[Tensor]]:
    def build(graph: Graph, prog: Sequence, outputs: Tensor, expected: Tensor) -> list[Tensor]:
        loss = graph.add_variable(FLOAT, outputs.shape[:1], "loss")
        deltas = graph.add_variable(dtype, outputs.shape, "deltas")
        for tensor in (loss, deltas):
            poputil.map_tensor_linearly(graph, tensor)
        popnn.calc_loss(graph, outputs, expected, loss, deltas, prog, **options)
        return [loss, deltas]

    return build


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
@pytest.mark.parametrize("shape", [(1, 1), (6, 5), (31, 2)])
def test_sum_squared_loss_and_its_slope(dtype: type[DType], shape: tuple[int, int]) -> None:
    x, expected = spread(shape, 1, dtype), spread(shape, 2, dtype)
    build = losses(dtype, loss_type="SUM_SQUARED_LOSS", deltas_scale=8)
    (loss, deltas), report = run(build, (x, dtype), (expected, dtype))
    assert all(ran.cycles > 0 for ran in report.compute_sets) and not report.unknown_codelets
    wide = x.astype(np.float64) - expected
    np.testing.assert_allclose(loss, 0.5 * (wide**2).sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(deltas, 8 * wide, rtol=1e-6 if dtype is FLOAT else 2.0**-10)


def test_losses_and_their_slopes_equal_those_of_torch() -> None:
    library = torch()
    x, labels = spread((9, 5), 5, FLOAT), np.random.default_rng(6).integers(0, 5, 9)

    def build(graph: Graph, prog: Sequence, scores: Tensor, expected: Tensor) -> list[Tensor]:
        return losses(FLOAT)(graph, prog, popnn.softmax(graph, scores, prog), expected)

    (loss, deltas), _ = run(build, (x, FLOAT), (labels.astype(np.uint32), UNSIGNED_INT))
    leaf = library.from_numpy(x.copy()).requires_grad_()
    theirs = library.nn.functional.cross_entropy(leaf, library.from_numpy(labels), reduction="none")
    theirs.sum().backward()
    np.testing.assert_allclose(loss, theirs.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deltas, leaf.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_masked_rows_teach_nothing_and_the_scale_is_of_the_deltas_alone() -> None:
    p = softmax(spread((4, 3), 7, FLOAT)).astype(np.float32)
    labels = np.array([0, popnn.MASKED_LABEL_CODE, 2, popnn.MASKED_LABEL_CODE], np.uint32)
    (loss, deltas), _ = run(losses(FLOAT), (p, FLOAT), (labels, UNSIGNED_INT))
    (same, scaled), _ = run(losses(FLOAT, deltas_scale=1024), (p, FLOAT), (labels, UNSIGNED_INT))
    assert loss[[1, 3]].tolist() == [0, 0] and not deltas[[1, 3]].any()
    np.testing.assert_allclose(loss[[0, 2]], -np.log(p[[0, 2], [0, 2]]), rtol=1e-6)
    np.testing.assert_array_equal(same, loss)
    np.testing.assert_array_equal(scaled, deltas * 1024)


def test_scaled_deltas_of_half_do_not_vanish() -> None:
    p = np.array([[1 - 2.0**-11, 0]], np.float16)
    p[0, 1] = 2.0**-24
    labels = np.array([0], np.uint32)
    (_, plain), _ = run(losses(HALF), (p, HALF), (labels, UNSIGNED_INT))
    (_, scaled), _ = run(losses(HALF, deltas_scale=2.0**15), (p, HALF), (labels, UNSIGNED_INT))
    assert plain[0, 1] == 2.0**-24 and scaled[0, 1] == 2.0**-9 and scaled[0, 0] == -16


def scaled_loss(dtype: type[DType], tensors: bool, scale: float) -> Any:
    """Loss, deltas and count of correct answers of logits, by SOFTMAX_SCALED; the factors are
    numbers, or tensors."""

    def build(graph: Graph, prog: Sequence, t: Tensor, labels: Tensor) -> list[Tensor]:
        out = popnn.non_linearity(graph, "SOFTMAX_SCALED", t, prog)
        made = [
            graph.add_variable(d, s) for d, s in ((FLOAT, t.shape[:1]), (dtype, t.shape), (INT, ()))
        ]
        for tensor in made:
            poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(made[2], 0)
        factors: list[Any] = [scale, popnn.SOFTMAX_SCALING]
        if tensors:
            factors = [graph.add_constant(FLOAT, (), f) for f in factors]
            for factor in factors:
                graph.set_tile_mapping(factor, 1)
        loss, deltas, correct = made
        popnn.calc_loss(
            graph,
            out,
            labels,
            loss,
            deltas,
            prog,
            deltas_scale=factors[0],
            model_output_scaling=factors[1],
            num_correct=correct,
        )
        return [out, *made]

    return build


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_scaled_deltas_over_their_scale_are_the_deltas(
    dtype: type[DType], tensors: bool, scale: float
) -> None:
    x = spread((7, 5), 8, dtype)
    labels = np.array([0, 1, popnn.MASKED_LABEL_CODE, 4, 4, 2, 9], np.uint32)
    (out, loss, deltas, correct), _ = run(
        scaled_loss(dtype, tensors, scale), (x, dtype), (labels, UNSIGNED_INT)
    )
    p = softmax(x.astype(np.float64))
    bit = 2.0**-23 if dtype is FLOAT else 2.0**-10
    np.testing.assert_allclose(out, p * popnn.SOFTMAX_SCALING, rtol=8 * bit)
    kept = np.array([0, 1, 3, 4, 5])
    rows = labels[kept].astype(int)
    np.testing.assert_allclose(loss[kept], -np.log(p[kept, rows]), rtol=1e-5, atol=4 * bit)
    wanted = p.copy()
    wanted[kept, rows] -= 1
    wanted[2] = 0
    np.testing.assert_allclose(deltas / scale, wanted, rtol=4 * bit, atol=2 * bit)
    assert correct == np.sum(np.argmax(p, axis=1) == labels)


def test_scaled_probabilities_of_half_do_not_vanish() -> None:
    x = np.array([[0, -18.0]], np.float16)  # e^-18 is less than half of the smallest half
    small = np.exp(np.float64(-18))
    (plain,), _ = run(lambda graph, prog, t: popnn.softmax(graph, t, prog), (x, HALF))
    (out, _, deltas, _), _ = run(
        scaled_loss(HALF, False, 1024.0), (x, HALF), (np.array([0], np.uint32), UNSIGNED_INT)
    )
    assert plain[0, 1] == 0
    np.testing.assert_allclose(out[0, 1], small * popnn.SOFTMAX_SCALING, rtol=2e-3)
    np.testing.assert_allclose(deltas[0, 1], small * 1024, rtol=2e-3)


def test_the_scaled_loss_and_its_slope_equal_those_of_torch() -> None:
    library = torch()
    x, labels = spread((9, 11), 3, FLOAT), np.arange(9, dtype=np.uint32)
    (_, loss, deltas, _), _ = run(
        scaled_loss(FLOAT, False, 16.0), (x, FLOAT), (labels, UNSIGNED_INT)
    )
    leaf = library.from_numpy(x.copy()).requires_grad_()
    theirs = library.nn.functional.cross_entropy(
        leaf, library.from_numpy(labels.astype(np.int64)), reduction="none"
    )
    theirs.sum().backward()
    np.testing.assert_allclose(loss, theirs.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deltas / 16, leaf.grad.numpy(), rtol=1e-4, atol=1e-6)


@RANDOMLY
@given(
    st.sampled_from([1, 7, 31]),
    st.sampled_from([1, 2, 13]),
    st.sampled_from([1, 13]),
    st.sampled_from([FLOAT, HALF]),
)
def test_the_largest_and_the_smallest_class(
    batch: int, classes: int, tiles: int, dtype: type[DType]
) -> None:
    x = np.random.default_rng(batch).integers(-2, 3, (batch, classes))  # with ties
    got = both_ways(lambda graph, prog, t: popnn.arg_max(graph, t, prog), (x, dtype), tiles=tiles)
    assert got.dtype == np.uint32 and got.tolist() == [row.tolist().index(max(row)) for row in x]
    got = both_ways(lambda graph, prog, t: popnn.arg_min(graph, t, prog), (x, dtype), tiles=tiles)
    assert got.tolist() == [row.tolist().index(min(row)) for row in x]


def test_the_places_are_the_same_in_popnn_and_popops() -> None:
    for name in ("arg_max", "arg_min", "max_and_arg_max", "min_and_arg_min"):
        assert getattr(popnn, name) is getattr(popops, name)


def test_names_that_a_profile_shows() -> None:
    def build(graph: Graph, prog: Sequence, x: Tensor) -> Tensor:
        act = popnn.gelu(graph, x, prog, "act")
        popnn.non_linearity_input_gradient(graph, "GELU", x, act, prog, "back")
        return popnn.log_softmax(graph, act, prog, "log")

    _, report = run(build, (np.ones((3, 4)), HALF))
    assert [c.name for c in report.compute_sets] == ["act", "back", "log"]
    names = {
        "popnn::NonLinearity1D<half,GELU>",
        "popnn::NonLinearityGrad1D<half,GELU>",
        "popnn::LogSoftmax<half>",
    }
    assert set(report.vertex_counts()) == names
    assert report.unknown_codelets == () and report.unbatched() == {}


REFUSED = """
popnn.non_linearity(graph, "RELUX", x, prog)
non_linearity() was given 'RELUX' as kind of non-linearity.
  next:  did you mean 'RELU'? popnn.NonLinearityType lists all kinds.

popnn.non_linearity(graph, 3, x, prog)
non_linearity() was given 3 as kind of non-linearity.
  next:  use one of RELU, SIGMOID, HARD_SIGMOID, TANH, GELU, GELU_ERF, SWISH, SOFTMAX, SOFTMAX_STABLE, SOFTMAX_SCALED.

popnn.non_linearity_in_place(graph, "RELU", flag, prog)
non_linearity_in_place() works on FLOAT and HALF, but x is BOOL.
  where: Tensor('flag', BOOL, shape (4, 3))
  next:  cast it with popops.cast.

popnn.relu(graph, lost, prog)
relu() was given x with 12 of its 12 elements not mapped to any tile.
  where: Tensor('lost', FLOAT, shape (4, 3))
  next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor).

popnn.non_linearity_input_gradient(graph, "TANH", x, x[:2], prog)
non_linearity_input_gradient() was given two shapes that differ: (4, 3) and (2, 3).
  where: act Tensor('x', FLOAT, shape (4, 3)) and out_gradient Tensor(a view of 'x', FLOAT, shape (2, 3))
  next:  give the output or the input of the forward call as act.

popnn.non_linearity_input_gradient(graph, "SOFTMAX", x, h, prog)
softmax_input_gradient() was given two dtypes that differ: FLOAT and HALF.
  where: out Tensor('x', FLOAT, shape (4, 3)) and out_gradient Tensor('h', HALF, shape (4, 3))
  next:  cast one of them with popops.cast.

popnn.calc_loss(graph, x, labels, loss, x, prog, loss_type="HINGE")
calc_loss() was given 'HINGE' as loss_type.
  next:  use CROSS_ENTROPY_LOSS or SUM_SQUARED_LOSS.

popnn.calc_loss(graph, x, x[:2], loss, x, prog, loss_type="SUM_SQUARED_LOSS")
calc_loss() was given two shapes that differ: (2, 3) and (4, 3).
  where: expected Tensor(a view of 'x', FLOAT, shape (2, 3)) and model_outputs Tensor('x', FLOAT, shape (4, 3))
  next:  give expected the shape of model_outputs.

popnn.calc_loss(graph, x, labels, loss, x, prog, deltas_scale="big")
calc_loss() was given 'big' as deltas_scale.
  next:  give a number, or a tensor of one element.

popnn.calc_loss(graph, x, labels, loss, x, prog, model_output_scaling=0)
calc_loss() was given 0 as model_output_scaling.
  next:  give a number above 0, such as popnn.SOFTMAX_SCALING.

popnn.calc_loss(graph, x, x, loss, x, prog, loss_type="SUM_SQUARED_LOSS", model_output_scaling=2)
calc_loss() cannot use model_output_scaling, or a tensor as deltas_scale, with SUM_SQUARED_LOSS.
  next:  give deltas_scale as a number, without model_output_scaling.

popnn.non_linearity_input_gradient(graph, "SOFTMAX_SCALED", x, x, prog)
non_linearity_input_gradient() cannot compute the gradient of SOFTMAX_SCALED.
  next:  use calc_loss with model_output_scaling=popnn.SOFTMAX_SCALING; it writes the gradient of softmax's input.

popnn.calc_loss(graph, h, labels, h[:, 0], h, prog)
calc_loss() works on FLOAT, but loss is HALF.
  where: Tensor(a view of 'h', HALF, shape (4,))
  next:  cast it with popops.cast.

"""
CASES = [tuple(case.split("\n", 1)) for case in REFUSED.strip().split("\n\n")]


@pytest.mark.parametrize(("call", "text"), CASES, ids=[call for call, _ in CASES])
def test_what_is_refused_is_explained_and_changes_nothing(call: str, text: str) -> None:
    graph, prog = Graph(IPUModel(tiles_per_ipu=5).create_device()), Sequence()
    names: dict[str, Any] = {"graph": graph, "prog": prog, "popnn": popnn}
    shapes: tuple[tuple[str, type[DType], tuple[int, ...]], ...] = (
        ("x", FLOAT, (4, 3)),
        ("h", HALF, (4, 3)),
        ("flag", BOOL, (4, 3)),
        ("labels", UNSIGNED_INT, (4,)),
        ("loss", FLOAT, (4,)),
    )
    for name, dtype, shape in shapes:
        names[name] = graph.add_variable(dtype, shape, name)
        poputil.map_tensor_linearly(graph, names[name])
    names["lost"] = graph.add_variable(FLOAT, (4, 3), "lost")
    before = len(graph.variables), len(graph.compute_sets), len(prog.programs)
    with pytest.raises(IPUTeachError) as caught:
        eval(call, names)
    assert type(caught.value) is (InvalidTileMappingError if "lost" in call else PoplibsError)
    assert str(caught.value) == text
    assert (len(graph.variables), len(graph.compute_sets), len(prog.programs)) == before


@pytest.mark.parametrize(("dtype", "added"), [(FLOAT, 1.17549435e-38), (HALF, 2.0**-24)])
@pytest.mark.parametrize("scaling", [1.0, 512.0])
def test_the_loss_of_a_probability_of_0_ends_where_poplibs_ends(
    dtype: Any, added: float, scaling: float
) -> None:
    """PopLibs adds the smallest number of the dtype before the logarithm."""
    graph, prog = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device()), Sequence()
    outputs = np.array([[0, 1.0], [2.0**-24, 1], [0.25, 0.75]]) * scaling
    tensors = [graph.add_variable(*t) for t in ((dtype, (3, 2)), (UNSIGNED_INT, (3,)))]
    tensors += [graph.add_variable(FLOAT, (3,)), graph.add_variable(dtype, (3, 2))]
    for tensor in tensors:
        graph.set_tile_mapping(tensor, 0)
    x, labels, loss, deltas = tensors
    graph.set_initial_value(x, outputs)
    graph.set_initial_value(labels, [0, 0, 0])
    popnn.calc_loss(graph, x, labels, loss, deltas, prog, model_output_scaling=scaling)
    graph.create_host_read("loss", loss)
    engine = Engine(graph, prog)
    engine.load(Device(graph.target))
    engine.run()
    expected = np.log(scaling) - np.log(outputs[:, 0] + added)
    np.testing.assert_allclose(engine.read_tensor("loss"), expected, 2e-6)


def cross_entropy_of(
    scores: Array, labels: Array, dtype: type[DType], tiles: int, vertex_loop: bool = False
) -> tuple[Array, Array, int]:
    """The loss, its gradient and the modelled cycles."""
    bench = Bench(tiles)
    x, y = bench.variable(scores, dtype), bench.variable(labels, UNSIGNED_INT)
    outputs = softmax_cross_entropy(bench.graph, x, y, bench.prog)
    loss, deltas = bench.run(*outputs, vertex_loop=vertex_loop)
    assert bench.report is not None
    return loss, deltas, int(bench.report.total_cycles)


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
@pytest.mark.parametrize(
    ("rows", "classes", "tiles"), [(9, 700, 13), (1, 50, 1), (9, 2, 1), (9, 257, 64), (300, 40, 13)]
)
def test_cross_entropy_of_long_rows_on_several_workers(
    dtype: type[DType], rows: int, classes: int, tiles: int
) -> None:
    """Against float64: with masked labels, labels that are not a class, infinite scores and NaN."""
    random = np.random.default_rng(rows + classes)
    scores = (5 * random.standard_normal((rows, classes))).astype(dtype.numpy)
    labels = random.integers(0, classes, rows).astype(np.uint32)
    if rows > 8:
        scores[0, : classes // 2] = -np.inf
        scores[1], scores[2, -1], scores[3], scores[4, 0] = -np.inf, np.inf, 60000, np.nan
        labels[0], labels[5], labels[6] = classes - 1, MASKED_LABEL_CODE, classes
        scores[7, 1], labels[7] = -np.inf, 1
    loss, deltas, _ = cross_entropy_of(scores, labels, dtype, tiles)
    exact = scores.astype(np.float64)
    hit = labels[:, None] == np.arange(classes)
    with np.errstate(invalid="ignore"):
        shifted = exact - exact.max(axis=1, keepdims=True)
        total = np.exp(shifted).sum(axis=1)
        is_masked = labels == MASKED_LABEL_CODE
        picked = np.where(hit.any(axis=1), np.where(hit, shifted, 0).sum(axis=1), np.nan)
        losses = np.where(is_masked, 0, np.log(total) - picked)
        shares = np.exp(shifted) / total[:, None]
    gradient = np.where(is_masked[:, None], 0 * shares, shares - hit)
    np.testing.assert_allclose(loss, losses, 2e-6, 2e-6)
    np.testing.assert_allclose(deltas, gradient, 1e-5, 1e-6)
    again = cross_entropy_of(scores, labels, dtype, tiles, vertex_loop=True)
    assert_same_bits(again[0], loss)
    assert_same_bits(again[1], deltas)


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
def test_the_cycles_of_cross_entropy_follow_the_elements_of_a_worker(dtype: type[DType]) -> None:
    """A fixed cost aside, the chip takes four rows of 12,000 classes as it takes 4,000 of 12."""
    many, few = (
        cross_entropy_of(np.zeros((rows, 48_000 // rows)), np.zeros(rows), dtype, 64)[2]
        for rows in (4_000, 4)
    )
    assert few < 2 * many
    short = cross_entropy_of(np.zeros((64, 10)), np.zeros(64), dtype, 64)[2]
    assert short < cross_entropy_of(np.zeros((64, 400)), np.zeros(64), dtype, 64)[2] < 30 * short


LONG_ROWS = [(9, 700, 13), (1, 60, 1), (9, 257, 64), (39, 100, 13)]


def softmax_of(x: Tensor, graph: Graph, prog: Sequence, kind: str) -> Tensor:
    """The softmax of x, its logarithm, or `kind` of non-linearity, in place for "IN_PLACE"."""
    if kind == "LOG":
        return popnn.log_softmax(graph, x, prog)
    if kind == "IN_PLACE":
        popnn.softmax_in_place(graph, x, prog)
        return x
    return popnn.non_linearity(graph, kind, x, prog)


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
@pytest.mark.parametrize("kind", ["SOFTMAX", "SOFTMAX_SCALED", "IN_PLACE", "LOG"])
@pytest.mark.parametrize(("rows", "classes", "tiles"), LONG_ROWS)
def test_softmax_of_long_rows_on_several_workers(
    kind: str, dtype: type[DType], rows: int, classes: int, tiles: int
) -> None:
    """Against float64: with infinite scores, rows of nothing else, and NaN."""
    x = spread((rows, classes), rows + classes, dtype)
    if rows > 8:
        x[0, : classes // 2] = -np.inf
        x[1], x[2, -1], x[3], x[4, 0] = -np.inf, np.inf, 60000, np.nan
    got = both_ways(
        lambda graph, prog, t: softmax_of(t, graph, prog, kind), (x, dtype), tiles=tiles
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        wanted = softmax(x.astype(np.float64))
        if kind == "LOG":
            exact = x.astype(np.float64)
            shifted = exact - exact.max(axis=1, keepdims=True)
            wanted = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    if kind == "SOFTMAX_SCALED":
        wanted = wanted * popnn.SOFTMAX_SCALING
    rtol = 3e-6 if dtype is FLOAT else 2.0**-10
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=3e-6 if kind == "LOG" else 1e-7)


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
@pytest.mark.parametrize(("rows", "classes", "tiles"), LONG_ROWS)
def test_the_gradient_of_softmax_of_long_rows(
    dtype: type[DType], rows: int, classes: int, tiles: int
) -> None:
    y = softmax(spread((rows, classes), 1, FLOAT)).astype(dtype.numpy)
    gradient = spread((rows, classes), 2, dtype)
    got = both_ways(
        lambda graph, prog, y, g: popnn.non_linearity_input_gradient(graph, "SOFTMAX", y, g, prog),
        (y, dtype),
        (gradient, dtype),
        tiles=tiles,
    )
    p, g = y.astype(np.float64), gradient.astype(np.float64)
    wanted = p * (g - (g * p).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(got, wanted, rtol=1e-5 if dtype is FLOAT else 2.0**-9, atol=2e-7)


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize(("rows", "classes", "tiles"), LONG_ROWS)
def test_the_loss_of_long_rows_on_several_workers(
    tensors: bool, dtype: type[DType], rows: int, classes: int, tiles: int
) -> None:
    """Every bit of a plain loop over the rows in single precision: no sum has more than one term.
    With masked labels, labels that are not a class, and NaN."""
    random = np.random.default_rng(rows * classes)
    p = softmax(3 * random.standard_normal((rows, classes))).astype(dtype.numpy)
    labels = random.integers(0, classes, rows).astype(np.uint32)
    if rows > 8:
        labels[:4] = MASKED_LABEL_CODE, classes, classes - 1, 0
        p[4, labels[4]], p[5, (labels[5] + 1) % classes], p[6] = np.nan, np.nan, 0
    scale = np.float32(0.3)
    added = np.float32(2.0**-24 if dtype is HALF else np.finfo(np.float32).tiny)

    def build(graph: Graph, prog: Sequence, outputs: Tensor, expected: Tensor) -> list[Tensor]:
        factor: Any = float(scale)
        if tensors:
            factor = graph.add_constant(FLOAT, (), float(scale))
            graph.set_tile_mapping(factor, 0)
        return losses(dtype, deltas_scale=factor)(graph, prog, outputs, expected)

    (loss, deltas), report = run(build, (p, dtype), (labels, UNSIGNED_INT), tiles=tiles)
    (slow, slow_deltas), other = run(
        build, (p, dtype), (labels, UNSIGNED_INT), tiles=tiles, vertex_loop=True
    )
    assert_same_bits(slow, loss)
    assert_same_bits(slow_deltas, deltas)
    assert report.total_cycles == other.total_cycles and not report.unknown_codelets
    for row, label in enumerate(labels.tolist()):
        wide = p[row].astype(np.float32)
        hit = np.arange(classes) == label
        wanted = -np.log(np.float32(wide[label] if label < classes else 0) + added)
        errors = (wide - hit.astype(np.float32)) * scale
        if label == MASKED_LABEL_CODE:
            wanted, errors = np.float32(0), np.zeros(classes, np.float32)
        assert_same_bits(loss[row : row + 1], np.array([wanted], np.float32))
        assert_same_bits(deltas[row], errors.astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
def test_the_squared_loss_of_long_rows(dtype: type[DType]) -> None:
    x, expected = spread((5, 900), 1, dtype), spread((5, 900), 2, dtype)
    build = losses(dtype, loss_type="SUM_SQUARED_LOSS", deltas_scale=8)
    (loss, deltas), report = run(build, (x, dtype), (expected, dtype))
    assert any("sums" in cs.name for cs in report.compute_sets)
    wide = x.astype(np.float64) - expected
    np.testing.assert_allclose(loss, 0.5 * (wide**2).sum(axis=1), rtol=2e-6)
    single = (x.astype(np.float32) - expected.astype(np.float32)) * np.float32(8)
    assert_same_bits(deltas, single.astype(dtype.numpy))


def call_by_row(name: str, dtype: type[DType]) -> Callable[..., list[Tensor]]:
    """Build one of the functions that work on rows, from a matrix of probabilities."""

    def build(graph: Graph, prog: Sequence, x: Tensor) -> list[Tensor]:
        if name == "gradient":
            return [popnn.non_linearity_input_gradient(graph, "SOFTMAX", x, x, prog)]
        if name == "loss":
            labels = graph.add_variable(UNSIGNED_INT, x.shape[:1], "labels")
            poputil.map_tensor_linearly(graph, labels)
            graph.set_initial_value(labels, 0)
            return losses(dtype)(graph, prog, x, labels)
        return [softmax_of(x, graph, prog, name)]

    return build


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
@pytest.mark.parametrize("name", ["SOFTMAX", "IN_PLACE", "LOG", "gradient", "loss"])
def test_parts_of_rows_take_fewer_cycles_than_whole_rows(
    name: str, dtype: type[DType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random shapes and machines: built, parts are at most a twentieth slower than whole rows; and
    four rows of 12,000 classes take about as long as 4,000 of 12."""

    def cycles(rows: int, classes: int, tiles: int) -> int:
        x = (np.full((rows, classes), 1 / classes), dtype)
        return int(run(call_by_row(name, dtype), x, tiles=tiles)[1].total_cycles)

    random = np.random.default_rng(3)
    draws = [(n, int(20 * 2 ** random.uniform(0, 4)), t) for n, t in ((1, 1), (5, 4), (30, 13))]
    parts = [cycles(*draw) for draw in draws]
    few, many = (cycles(rows, 48_000 // rows, 64) for rows in (4, 4_000))
    assert few < 2 * many
    for module in ("softmax", "loss"):
        monkeypatch.setattr(
            sys.modules[f"ipu_teach.poplibs.popnn.{module}"], "best_parts", lambda *_: 1
        )
    whole = [cycles(*draw) for draw in draws]
    assert all(a <= 1.05 * b for a, b in zip(parts, whole, strict=True)) and parts != whole
    assert cycles(4, 12_000, 64) > 20 * few
