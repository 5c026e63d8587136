"""poplin's convolutions: values and both gradients against torch, what a graph costs beside its
plan, and the words of errors."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from libraries import both_ways, run, torch

from ipu_teach import FLOAT, HALF, INT, Engine, Graph, IPUModel, Tensor
from ipu_teach.cost import rearrange
from ipu_teach.errors import IPUTeachError, NotOfferedError, PoplibsError
from ipu_teach.poplibs import poplin, poputil
from ipu_teach.poplibs.poplin import ConvParams
from ipu_teach.program import Sequence
from ipu_teach.types import Array, DType

IPU2 = IPUModel("ipu2").create_device().target


def drawn(rng: Random) -> ConvParams:
    """A small convolution of one to three dimensions, with everything that a convolution may
    have."""
    rank, groups = rng.choice([1, 2, 2, 3]), rng.choice([1, 1, 2, 3])

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.randint(low, high) for _ in range(rank))

    def flips() -> tuple[bool, ...]:
        return tuple(rng.random() < 0.3 for _ in range(rank))

    while True:
        field, spread = each(1, 6), rng.choice([(1,) * rank, each(1, 3)])
        lower, upper = each(-1, 3), each(-2, 3)
        lengths = [(n - 1) * d + 1 for n, d in zip(field, spread, strict=True)]
        cuts = [max(0, -a) + max(0, -b) for a, b in zip(lower, upper, strict=True)]
        kernel, dilation = each(1, 3), each(1, 2)
        whole = [(n - 1) * d + 1 for n, d in zip(kernel, dilation, strict=True)]
        padded = [n + a + b for n, a, b in zip(lengths, lower, upper, strict=True)]
        sizes = zip(cuts, lengths, whole, padded, strict=True)
        if all(cut <= n and k <= m for cut, n, k, m in sizes):
            break
    return ConvParams(
        rng.choice([FLOAT, HALF]),
        rng.randint(1, 3),
        field,
        kernel,
        groups * rng.randint(1, 4),
        groups * rng.randint(1, 4),
        groups,
        stride=each(1, 3),
        padding_lower=lower,
        padding_upper=upper,
        input_dilation=spread,
        kernel_dilation=dilation,
        flip_input=flips(),
        flip_kernel=flips(),
    )


def by_torch(params: Any, x: Array, weights: Array, dy: Array) -> list[Array]:
    """The output and both gradients, in double precision."""
    library = torch()
    given = [library.tensor(a.astype(np.float64), requires_grad=True) for a in (x, weights)]
    wide = given[0]
    for axis, dilation in enumerate(params.input_dilation, 2):
        shape, place = list(wide.shape), [slice(None)] * wide.ndim
        shape[axis], place[axis] = (shape[axis] - 1) * dilation + 1, slice(None, None, dilation)
        spread = library.zeros(shape, dtype=library.float64)
        spread[tuple(place)] = wide
        wide = spread
    both = zip(params.padding_lower, params.padding_upper, strict=True)
    pads = [n for lower, upper in reversed(list(both)) for n in (lower, upper)]
    wide = library.nn.functional.pad(wide, pads)
    wide = library.flip(wide, [axis for axis, flip in enumerate(params.flip_input, 2) if flip])
    turned = [axis for axis, flip in enumerate(params.flip_kernel, 2) if flip]
    kernel = library.flip(given[1].flatten(0, 1), turned)
    function = getattr(library.nn.functional, f"conv{len(params.kernel)}d")
    out = function(
        wide,
        kernel,
        stride=params.stride,
        dilation=params.kernel_dilation,
        groups=params.num_groups,
    )
    out.backward(library.tensor(dy.astype(np.float64)))
    return [out.detach().numpy(), *(tensor.grad.numpy() for tensor in given)]


@settings(deadline=None, max_examples=40)
@given(st.randoms(use_true_random=False))
def test_a_convolution_and_its_gradients_equal_those_of_torch(rng: Random) -> None:
    """Of whole numbers, whose sums are exact: HALF is what rounds once to it."""
    params = drawn(rng)
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    shapes = params.input_shape, params.weights_shape, params.output_shape
    x, weights, dy = (numbers.integers(-4, 5, s).astype(params.dtype.numpy) for s in shapes)
    short = params.canonicalize()

    def build(graph: Graph, prog: Sequence, x: Tensor, w: Tensor, dy: Tensor) -> list[Tensor]:
        return [
            poplin.convolution(graph, x, w, params, prog),
            poplin.convolution_input_gradient(graph, dy, w, params, prog),
            poplin.calculate_weight_deltas(graph, dy, x, params, prog),
            poplin.convolution(graph, x, w, short, prog),
        ]

    found, _ = run(build, *((a, params.dtype) for a in (x, weights, dy)), tiles=3)
    wanted = by_torch(params, x, weights, dy)
    for got, expected in zip(found, [*wanted, wanted[0]], strict=True):
        assert np.array_equal(got, expected.astype(params.dtype.numpy)), params
    # what two unlike numbers would meet: ones count the products
    assert params.macs == by_torch(params, *(np.ones(s) for s in shapes))[0].sum()
    assert short.macs == params.macs and short.output_shape == params.output_shape
    assert short.canonicalize() == short
    assert params.gradient().output_shape == params.input_shape
    assert poplin.get_fwd_flops(params) == 2 * params.macs == poplin.get_wu_flops(params)
    assert poplin.get_bwd_flops(params) == 2 * params.macs


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_numbers_that_round_do_so_as_products_do(dtype: type[DType]) -> None:
    """And groups, a bias, and every way of running; a transposed convolution is the gradient of
    one."""
    numbers = np.random.default_rng(3)
    params = ConvParams(dtype, 2, (7, 6), (3, 2), 6, 4, 2, stride=2, padding_lower=1)
    x, weights, dy = (
        numbers.standard_normal(shape).astype(dtype.numpy)
        for shape in (params.input_shape, params.weights_shape, params.output_shape)
    )
    bias = numbers.standard_normal(4).astype(dtype.numpy)

    def forward(graph: Graph, prog: Sequence, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        out = poplin.convolution(graph, x, w, params, prog, partials_type=FLOAT)
        poplin.add_bias(graph, out, b, prog)
        return out

    def back(graph: Graph, prog: Sequence, dy: Tensor, w: Tensor) -> Tensor:
        return poplin.convolution(graph, dy, w, params.gradient(), prog, True)

    out, slope, _ = by_torch(params, x, weights, dy)
    near: dict[str, Any] = {"atol": 1e-5 if dtype is FLOAT else 2e-2, "rtol": 2e-3}
    got = both_ways(forward, (x, dtype), (weights, dtype), (bias, dtype))
    np.testing.assert_allclose(got, out + bias[:, None, None], **near)
    got = both_ways(back, (dy, dtype), (weights, dtype))
    np.testing.assert_allclose(got, slope, **near)


def test_a_step_changes_weights_and_biases_in_place() -> None:
    numbers = np.random.default_rng(5)
    params = ConvParams(FLOAT, 3, (5, 5), (3, 3), 2, 4, padding_lower=1, padding_upper=1)
    x, weights, dy = (
        numbers.standard_normal(shape).astype(np.float32)
        for shape in (params.input_shape, params.weights_shape, params.output_shape)
    )

    def build(graph: Graph, prog: Sequence, x: Tensor, w: Tensor, dy: Tensor) -> list[Tensor]:
        bias, turned = (
            poplin.create_biases(graph, dy),
            poplin.create_weights(graph, params.gradient()),
        )
        graph.set_initial_value(bias, 1)
        rate = graph.add_constant(FLOAT, (), -0.5)
        graph.set_tile_mapping(rate, 0)
        poplin.weights_transpose_chans_flip_xy(graph, w, turned, prog)
        poplin.convolution_weight_update(graph, dy, w, x, params, rate, prog)
        poplin.convolution_bias_update(graph, dy, bias, -0.5, prog)
        return [w, bias, turned]

    (stepped, bias, turned), _ = run(build, (x, FLOAT), (weights, FLOAT), (dy, FLOAT))
    slope = by_torch(params, x, weights, dy)[2]
    np.testing.assert_allclose(stepped, weights - slope / 2, atol=1e-5)
    np.testing.assert_allclose(bias, 1 - dy.sum((0, 2, 3)) / 2, atol=1e-5)
    assert np.array_equal(turned, weights[..., ::-1, ::-1].transpose(0, 2, 1, 3, 4))


# --- what it costs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channels", "size", "kernel", "pass_", "planned"),
    [
        (64, 14, 3, "TRAINING_FWD", 4066),
        (64, 14, 3, "TRAINING_WU", 4355),
        (64, 56, 1, "TRAINING_BWD", 5187),
    ],
)
def test_a_layer_on_the_whole_machine_costs_what_its_plan_says(
    channels: int, size: int, kernel: int, pass_: str, planned: int
) -> None:
    pad, field = kernel // 2, (size, size)
    more: dict[str, Any] = {"padding_lower": pad, "padding_upper": pad}
    params = ConvParams(HALF, 4, field, (kernel, kernel), channels, channels, **more)
    plan = poplin.plan_convolution(params, IPU2, pass_)
    device = IPUModel("ipu2").create_device()
    graph, prog = Graph(device), Sequence()
    laid = [graph.add_variable(HALF, (4, *field, channels)) for _ in range(2)]
    for tensor in laid:
        poputil.map_tensor_linearly(graph, tensor)
    x, dy = (tensor.dim_roll(3, 1) for tensor in laid)
    weights = poplin.create_weights(graph, params)
    for tensor in (*laid, weights):
        graph.set_initial_value(tensor, 1)
    if pass_ == "TRAINING_WU":
        poplin.calculate_weight_deltas(graph, dy, x, params, prog)
    elif pass_ == "TRAINING_BWD":
        poplin.convolution_input_gradient(graph, dy, weights, params, prog)
    else:
        poplin.convolution(graph, x, weights, params, prog, plan=plan)
    engine = Engine(graph, prog)
    engine.load_and_run(device)
    assert plan.cycles == planned
    assert engine.report.total_cycles == pytest.approx(plan.cycles, rel=0.05)


def test_what_is_made_for_a_convolution_lies_where_it_is_wanted() -> None:
    """Weights with every kernel, the input with a kernel of one place: less is sent than from
    tensors that are mapped linearly."""

    def cycles(kernel: int, *linear: int) -> int:
        params = ConvParams(FLOAT, 2, (8, 8), (kernel, kernel), 32, 32)
        device = IPUModel("ipu2", tiles_per_ipu=16).create_device()
        graph, prog = Graph(device), Sequence()
        made = poplin.create_input(graph, params, "x"), poplin.create_weights(graph, params, "w")
        for i, tensor in enumerate(made):
            graph.set_initial_value(tensor, 1)
            if i in linear:
                poputil.map_tensor_linearly(graph, tensor)
        poplin.convolution(graph, *made, params, prog)
        engine = Engine(graph, prog)
        engine.load_and_run(device)
        return int(engine.report.total_cycles)

    assert cycles(1) < cycles(1, 0) and cycles(1) < cycles(1, 1)
    assert cycles(3) < cycles(3, 1)


def test_a_stride_costs_its_gradient_no_products_with_zeros() -> None:
    params = ConvParams(HALF, 4, (28, 28), (3, 3), 64, 64, stride=2, padding_lower=1)
    forward, back = (
        poplin.plan_convolution(params, IPU2, which) for which in ("TRAINING_FWD", "TRAINING_BWD")
    )
    assert [plan.k for plan in back.products] == [64, 128, 128, 256]  # 1, 2, 2 and 4 of 9 weights
    assert back.macs == forward.macs == 4 * 14 * 14 * 9 * 64 * 64
    assert back.cycles == sum(plan.cycles for plan in back.products)
    # a kernel of one place meets a quarter of the input, and the rest is zero
    alone = ConvParams(HALF, 4, (28, 28), (1, 1), 64, 64, stride=2)
    assert len(poplin.plan_convolution(alone, IPU2, "TRAINING_BWD").products) == 1


def test_a_plan_says_what_it_makes_of_the_units() -> None:
    params = ConvParams(HALF, 4, (56, 56), (3, 3), 256, 256, padding_lower=1, padding_upper=1)
    plan = poplin.plan_convolution(params, IPU2)
    assert plan.macs == 4 * 56 * 56 * 9 * 256 * 256 > params.macs  # with those of the padding
    assert plan.utilisation == plan.macs / (plan.cycles * 1472 * 32)
    assert repr(plan).startswith(
        "ConvPlan(TRAINING_FWD, 261,152 modelled cycles, 60% of the units' time):\n  MatMulPlan("
    )
    halves = poplin.plan_convolution(params, IPU2, options={"partialsType": "half"})
    assert halves.cycles < plan.cycles and halves.utilisation < 1
    graph = Graph(IPUModel("ipu2").create_device())
    assert poplin.get_fwd_perfect_cycle_count(graph, params) == -(-params.macs // (1472 * 32))
    single = ConvParams(FLOAT, 1, 5, 1, 16, 1472)
    assert poplin.get_fwd_perfect_cycle_count(graph, single) == 5
    cache = poplin.PlanningCache()
    small = ConvParams(HALF, 1, 5, 3, 8, 8)
    x, weights = poplin.create_input(graph, small), poplin.create_weights(graph, small)
    poplin.convolution(graph, x, weights, small, Sequence(), cache=cache)
    assert cache.size == 1


# --- errors ---------------------------------------------------------------------------------------


def some(**changes: Any) -> ConvParams:
    given: dict[str, Any] = {
        "dtype": FLOAT,
        "batch_size": 2,
        "input_field": (6, 6),
        "kernel": (3, 3),
        "in_channels": 4,
        "out_channels": 8,
    }
    return ConvParams(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"kernel": (3, 7)},
            "was given a kernel of 7 for a field of 6 elements in dimension 1, counted with "
            "dilation and padding.\n  next:  use a smaller kernel, or pad the "
            "field.",
        ),
        (
            {"kernel_dilation": 2, "padding_lower": (-2, 0)},
            "was given a kernel of 5 for a field of 4 elements in dimension 0, counted with "
            "dilation and padding.\n  next:  use a smaller kernel, or pad the "
            "field.",
        ),
        (
            {"num_groups": 3},
            "was given in_channels=4 for num_groups=3.\n  next:  give the channels of all groups "
            "together, a multiple of num_groups.",
        ),
        (
            {"num_groups": 4, "out_channels": 6},
            "was given out_channels=6 for num_groups=4.\n  next:  give the channels of all "
            "groups together, a multiple of num_groups.",
        ),
        (
            {"kernel": (3, 3, 3)},
            "was given kernel=(3, 3, 3) for a field of 2 dimensions.\n  next:  give a number, or "
            "a list with a number for each dimension.",
        ),
        (
            {"input_field": ()},
            "was given input_field=() for a field of 0 dimensions.\n  next:  give a number, or a "
            "list with a number for each dimension.",
        ),
        ({"stride": 0}, "was given 0 as stride.\n  next:  give a whole number of 1 or more."),
        (
            {"batch_size": -3},
            "was given -3 as batch_size.\n  next:  give a whole number of 1 or more.",
        ),
        (
            {"input_field": (6, -6)},
            "was given -6 as input_field.\n  next:  give a whole number of 1 or more.",
        ),
        (
            {"padding_lower": float("nan")},
            "was given nan as padding_lower.\n  next:  give a whole number.",
        ),
        ({"kernel": 2.0}, "was given 2.0 as kernel.\n  next:  give a whole number of 1 or more."),
        ({"dtype": INT}, "was given INT as dtype.\n  next:  use FLOAT or HALF."),
        ({"out_type": "half"}, "was given 'half' as out_type.\n  next:  use FLOAT or HALF."),
        ({"flip_kernel": 1}, "was given 1 as flip_kernel.\n  next:  give True or False."),
    ],
)
def test_no_convolution(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(PoplibsError) as caught:
        some(**changes)
    wanted = text if "dtype" not in changes else text.replace("INT as dtype", "INT as out_type")
    assert str(caught.value) in (f"ConvParams() {text}", f"ConvParams() {wanted}")


def refusals(graph: Graph, prog: Sequence) -> list[tuple[Any, str]]:
    params = some()
    x, weights = poplin.create_input(graph, params, "x"), poplin.create_weights(graph, params, "w")
    half = poplin.create_weights(graph, some(dtype=HALF), "h")
    other = poplin.plan_convolution(some(batch_size=1), graph.target)
    huge = some(batch_size=1, kernel=(6, 6), in_channels=1_000_000)
    flat = graph.add_variable(FLOAT, (2, 8), "flat")
    graph.set_tile_mapping(flat, 0)
    convolution = poplin.convolution
    return [
        (
            lambda: convolution(graph, x, weights, some(in_channels=2), prog),
            "convolution() was given two shapes that differ: (2, 4, 6, 6) and (2, 2, 6, 6).\n"
            "  where: x Tensor('x', FLOAT, shape (2, 4, 6, 6))\n"
            "  next:  give x the shape in the params.",
        ),
        (
            lambda: convolution(graph, x, weights, params, prog, True),
            "convolution() was given two shapes that differ: (1, 4, 8, 3, 3) and (1, 8, 4, 3, 3).\n"
            "  where: weights Tensor('w', FLOAT, shape (1, 4, 8, 3, 3))\n"
            "  next:  give weights the shape in the params.",
        ),
        (
            lambda: convolution(graph, x, half, params, prog),
            "convolution() was given two dtypes that differ: HALF and FLOAT.\n"
            "  where: weights Tensor('h', HALF, shape (1, 8, 4, 3, 3))\n"
            "  next:  give weights the dtype in the params, or cast it.",
        ),
        (
            lambda: convolution(graph, x, weights, params, prog, plan=other),
            "convolution() was given a plan for another convolution. The plan is for the pass "
            "TRAINING_FWD, input (1, 4, 6, 6) and weights (1, 8, 4, 3, 3) on 2 tiles. The call has "
            "input (2, 4, 6, 6) and weights (1, 8, 4, 3, 3) on 2 tiles.\n"
            "  next:  plan this convolution: poplin.plan_convolution(params, "
            "graph.target).",
        ),
        (
            lambda: convolution(graph, x, weights, (3, 3), prog),  # type: ignore[arg-type]
            "convolution() was given (3, 3) as params.\n  next:  give a poplin.ConvParams.",
        ),
        (
            lambda: poplin.plan_convolution(huge, graph.target),
            "plan_convolution() cannot partition [1, 36000000] x [36000000, 8]: the smallest "
            "blocks need 2,531,300 bytes of a tile, which has 638,976.\n"
            "  next:  use more tiles, or multiply a part of the rows or columns at a time.",
        ),
        (
            lambda: poplin.plan_convolution(params, graph.target, "BACKWARD"),
            "plan_convolution() was given 'BACKWARD' as pass_.\n"
            "  next:  use INFERENCE_FWD, TRAINING_FWD, TRAINING_BWD or TRAINING_WU.",
        ),
        (
            lambda: poplin.convolution_bias_update(graph, x, flat[0], 1, prog),
            "convolution_bias_update() was given two shapes that differ: (8,) and (4,).\n"
            "  where: biases Tensor(a view of 'flat', FLOAT, shape (8,)) of Tensor('x', FLOAT, shape "
            "(2, 4, 6, 6))\n  next:  give a bias for each channel.",
        ),
        (
            lambda: poplin.convolution_weight_update(
                graph, x, weights, x, params, float("nan"), prog
            ),
            "convolution_weight_update() was given nan as scale.\n"
            "  next:  give a number that is neither NaN nor infinite.",
        ),
        (
            lambda: poplin.weights_transpose_chans_flip_xy(graph, weights, weights, prog),
            "weights_transpose_chans_flip_xy() was given two shapes that differ: "
            "(1, 4, 8, 3, 3) and (1, 8, 4, 3, 3).\n"
            "  where: weights_in Tensor('w', FLOAT, shape (1, 8, 4, 3, 3)) and weights_out "
            "Tensor('w', FLOAT, shape (1, 8, 4, 3, 3))\n"
            "  next:  create weights_out with the two dimensions of channels exchanged.",
        ),
    ]


def test_a_refusal_names_both_numbers_and_leaves_the_graph_alone() -> None:
    graph, prog = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device()), Sequence()
    for call, text in refusals(graph, prog):
        with pytest.raises(IPUTeachError) as caught:
            call()
        assert str(caught.value) == text
    assert not graph.compute_sets and not prog.children()


def test_what_is_not_here_says_what_to_use() -> None:
    with pytest.raises(NotOfferedError) as caught:
        poplin.multiconv  # type: ignore[attr-defined]  # noqa: B018
    assert str(caught.value).endswith(
        "use instead: poplin.convolution of each, one after the other."
    )


@pytest.mark.parametrize("tiles", [1, 13])
def test_moves_on_a_tile_are_counted_a_part_at_a_time(
    tiles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cycles of a graph that gathers many pieces do not depend on how many are counted at
    once."""

    def cycles(limit: int) -> list[float]:
        monkeypatch.setattr(rearrange, "RUNS_AT_A_TIME", limit)
        params = ConvParams(HALF, 2, (7, 6), (3, 3), 4, 6, padding_lower=1, padding_upper=1)
        x = np.ones(params.input_shape, np.float16)
        weights = np.ones(params.weights_shape, np.float16)

        def build(graph: Graph, prog: Sequence, x: Tensor, weights: Tensor) -> Tensor:
            return poplin.convolution(graph, x, weights, params, prog)

        report = run(build, (x, HALF), (weights, HALF), tiles=tiles)[1]
        return [step.cycles for step in report.steps()]

    complete = cycles(1 << 19)
    assert complete == cycles(5) == cycles(64) and sum(complete) > 0
