"""Unit scaling: factors that keep weights, activations and gradients at standard deviation 1.

Suppose that all operands have a standard deviation of 1. A matrix product whose elements are sums
of k terms then has a standard deviation of sqrt(k), and a factor of 1 / sqrt(k) restores 1. The
forward and the backward pass need separate factors, because they sum over different dimensions.
With these factors, HALF and 8-bit values are in the middle of their range from the first training
step on, without loss scaling. Source: Blake, Orr and Luschi, "Unit Scaling: Out-of-the-Box
Low-Precision Training" (arXiv:2303.11257).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import pi, sqrt

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.library import library, refused
from ipu_teach.poplibs.popnn.kinds import FUNCTIONS, SLOPES, NonLinearityType, kind_of

# The numerical integration samples the normal distribution from -_RANGE to _RANGE.
_RANGE = 12.0
_POINTS = 240_001


@dataclass(frozen=True)
class LinearScales:
    """The scaling factors of the three matrix products of a linear layer.

    - `output`: the factor for the inputs times the weights.
    - `input_gradient`: the factor for the output gradient times the transposed weights.
    - `weight_gradient`: the factor for the transposed inputs times the output gradient.
    """

    output: float
    input_gradient: float
    weight_gradient: float


@dataclass(frozen=True)
class NonLinearityScales:
    """The scaling factors of a non-linearity: for its output, and for the gradient of its input.

    `output` brings the standard deviation to 1. The mean of the output is not removed, because a
    factor cannot do that.
    """

    output: float
    input_gradient: float


@flagged
def linear_scales(
    batch: int, fan_in: int, fan_out: int, *, constrained: bool = False
) -> LinearScales:
    """Return the scaling factors of a linear layer with inputs [batch, fan_in].

    The weights are [fan_in, fan_out]. The factors are correct for operands with a standard
    deviation of 1. If `constrained` is true, the output and the input gradient have the same
    factor, the geometric mean of their two factors. Set `constrained` if the gradient must be
    exact, because with different factors it is exact only up to a factor.

    :raises PoplibsError: if a size is below 1.
    """
    for name, size in (("batch", batch), ("fan_in", fan_in), ("fan_out", fan_out)):
        if not is_whole(size) or size < 1:
            raise PoplibsError(f"""linear_scales() was given {shown(size)} as {name}.
                next:  give a whole number of 1 or more.""")
    forward = 1 / sqrt(fan_in)
    backward = 1 / sqrt(fan_out)
    if constrained:
        forward = backward = sqrt(forward * backward)
    return LinearScales(forward, backward, 1 / sqrt(batch))


@library
def non_linearity_scales(kind: NonLinearityType | str) -> NonLinearityScales:
    """Return the scaling factors of a non-linearity for standard normal input and output gradients.

    Numerical integration computes the factors.

    :raises PoplibsError: if `kind` is unknown, or is SOFTMAX or a variant of it, whose elements
        depend on each other.
    """
    valid_kind = kind_of(kind)
    if valid_kind.by_row:
        raise refused(f"""was given {valid_kind.name}, but computes factors only for functions
            that are applied to each element separately.
            next:  scale it yourself: a softmax over n classes returns values of about 1 / n, so
            multiply them by n.""")
    return _scales(valid_kind)


@cache
def _scales(kind: NonLinearityType) -> NonLinearityScales:
    points = np.linspace(-_RANGE, _RANGE, _POINTS)
    probabilities = np.exp(-points * points / 2) / sqrt(2 * pi) * (points[1] - points[0])
    outputs = FUNCTIONS[kind](points)
    mean_output = float(probabilities @ outputs)
    derivatives = SLOPES[kind](points if kind.slope_from_input else outputs, np.ones_like(points))
    return NonLinearityScales(
        1 / sqrt(float(probabilities @ (outputs - mean_output) ** 2)),
        1 / sqrt(float(probabilities @ derivatives**2)),
    )
