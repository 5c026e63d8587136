"""Unit scaling keeps every tensor of a network near a deviation of 1, forward and backward, in
halves."""

from __future__ import annotations

import numpy as np
import pytest
from libraries import run

from ipu_teach import HALF, Graph, Tensor
from ipu_teach.errors import PoplibsError
from ipu_teach.poplibs import poplin, popnn, popops, unit_scaling
from ipu_teach.program import Sequence

KINDS = [k for k in popnn.NonLinearityType if not k.by_row]


def test_the_factors_of_relu_in_closed_form() -> None:
    """Half of a normal distribution: E x = 1 / sqrt(2 pi) and E x^2 = 1/2; the slope is 1 half of
    the time."""
    scales = unit_scaling.non_linearity_scales("RELU")
    assert scales.output == pytest.approx(np.sqrt(2 / (1 - 1 / np.pi)), rel=1e-4)
    assert scales.input_gradient == pytest.approx(np.sqrt(2), rel=1e-4)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_factors_bring_samples_to_a_deviation_of_one(kind: popnn.NonLinearityType) -> None:
    rng, count = np.random.default_rng(1), 20_000
    x, gradient = (rng.standard_normal(count).astype(np.float16) for _ in range(2))

    def build(graph: Graph, prog: Sequence, t: Tensor, back: Tensor) -> list[Tensor]:
        out = popnn.non_linearity(graph, kind, t, prog)
        return [
            out,
            popnn.non_linearity_input_gradient(
                graph, kind, t if kind.slope_from_input else out, back, prog
            ),
        ]

    (out, slope), _ = run(build, (x, HALF), (gradient, HALF))
    scales = unit_scaling.non_linearity_scales(kind)
    assert out.astype(float).std() * scales.output == pytest.approx(1, abs=0.04)
    assert slope.astype(float).std() * scales.input_gradient == pytest.approx(1, abs=0.04)


def test_every_tensor_of_two_layers_stays_near_one() -> None:
    batch, sizes = 64, (96, 160, 48)
    rng = np.random.default_rng(2)
    given = [
        (rng.standard_normal(s).astype(np.float16), HALF)
        for s in ((batch, sizes[0]), (sizes[0], sizes[1]), (sizes[1], sizes[2]), (batch, sizes[2]))
    ]
    first, second = (
        unit_scaling.linear_scales(batch, a, b) for a, b in zip(sizes[:-1], sizes[1:], strict=True)
    )
    bend = unit_scaling.non_linearity_scales("GELU")

    def build(
        graph: Graph, prog: Sequence, x: Tensor, w1: Tensor, w2: Tensor, back: Tensor
    ) -> list[Tensor]:
        def product(a: Tensor, b: Tensor, factor: float) -> Tensor:
            return popops.mul(graph, poplin.mat_mul(graph, a, b, prog), factor, prog)

        hidden = product(x, w1, first.output)
        act = popops.mul(graph, popnn.gelu(graph, hidden, prog), bend.output, prog)
        out = product(act, w2, second.output)
        act_slope = product(back, w2.transpose(), second.input_gradient)
        hidden_slope = popnn.non_linearity_input_gradient(graph, "GELU", hidden, act_slope, prog)
        hidden_slope = popops.mul(graph, hidden_slope, bend.input_gradient, prog)
        return [
            hidden,
            act,
            out,
            act_slope,
            hidden_slope,
            product(act.transpose(), back, second.weight_gradient),
            product(x.transpose(), hidden_slope, first.weight_gradient),
            product(hidden_slope, w1.transpose(), first.input_gradient),
        ]

    tensors, _ = run(build, *given)
    deviations = [t.astype(float).std() for t in tensors]
    assert min(deviations) > 0.5 and max(deviations) < 2


def test_the_constrained_factor_is_one_for_both_ways() -> None:
    scales = unit_scaling.linear_scales(10, 16, 64, constrained=True)
    assert scales.output == scales.input_gradient == pytest.approx(1 / np.sqrt(32))
    assert scales.weight_gradient == pytest.approx(1 / np.sqrt(10))


def test_what_is_refused_is_explained() -> None:
    with pytest.raises(PoplibsError) as caught:
        unit_scaling.linear_scales(1, 0, 3)
    assert (
        str(caught.value)
        == "linear_scales() was given 0 as fan_in.\n  next:  give a whole number of 1 or more."
    )
    with pytest.raises(PoplibsError) as caught:
        unit_scaling.non_linearity_scales("SOFTMAX")
    assert str(caught.value) == (
        "non_linearity_scales() was given SOFTMAX, but computes factors only for functions that "
        "are applied to each element separately.\n"
        "  next:  scale it yourself: a softmax over n classes returns values of about 1 / n, so "
        "multiply them by n."
    )
