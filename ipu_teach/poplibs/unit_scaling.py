"""Unit scaling: factors that keep weights, activations and gradients near a standard deviation of
1, so that narrow floats hold them.

If all operands have a standard deviation of 1, products with sums over k terms have sqrt(k); a
factor of 1 / sqrt(k) brings them back. Forward and backward pass have factors of their own, because
they sum over different dimensions. So halves and 8-bit floats are used in the middle of their range
from the first step, and no loss has to be scaled. Source: Blake, Orr and Luschi, "Unit Scaling:
Out-of-the-Box Low-Precision Training" (arXiv:2303.11257).
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

# range and points of the normal distribution, for sums that approximate integrals
_RANGE, _POINTS = 12.0, 240_001


@dataclass(frozen=True)
class LinearScales:
    """Factors of a linear layer, each for one of its three products.

    `output`: of inputs times weights; `input_gradient`: of the gradient times the weights'
    transpose; `weight_gradient`: of the inputs' transpose times the gradient.
    """

    output: float
    input_gradient: float
    weight_gradient: float


@dataclass(frozen=True)
class NonLinearityScales:
    """Factors of a non-linearity: of its output (less its mean, which no factor moves), and of the
    gradient."""

    output: float
    input_gradient: float


@flagged
def linear_scales(
    batch: int, fan_in: int, fan_out: int, *, constrained: bool = False
) -> LinearScales:
    """Return the factors for inputs [batch, fan_in] and weights [fan_in, fan_out], all with a
    standard deviation of 1.

    With `constrained`, the output and the input's gradient have the same factor, the geometric
    mean. That is needed if the gradient must be exact, and not only up to a factor. Raises
    `PoplibsError` for sizes below 1.
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
    """Return the factors for an elementwise non-linearity whose input and gradient are normally
    distributed with a standard deviation of 1.

    They are computed by adding up the function over the distribution. Raises `PoplibsError` for
    SOFTMAX, whose rows depend on each other, and for unknown names.
    """
    chosen = kind_of(kind)
    if chosen.by_row:
        raise refused(f"""was given {chosen.name}, whose elements depend on each other.
            next:  for softmax of n classes multiply by n: its outputs are about 1 / n.""")
    return _scales(chosen)


@cache
def _scales(kind: NonLinearityType) -> NonLinearityScales:
    x = np.linspace(-_RANGE, _RANGE, _POINTS)
    weight = np.exp(-x * x / 2) / sqrt(2 * pi) * (x[1] - x[0])
    out = FUNCTIONS[kind](x)
    mean = float(weight @ out)
    slope = SLOPES[kind](x if kind.slope_from_input else out, np.ones_like(x))
    return NonLinearityScales(
        1 / sqrt(float(weight @ (out - mean) ** 2)), 1 / sqrt(float(weight @ slope**2))
    )
