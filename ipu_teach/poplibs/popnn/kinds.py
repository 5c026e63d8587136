"""The non-linearities and their gradients, as functions of FLOAT arrays.

A gradient function has two parameters: the input or output of the non-linearity, and the gradient
of the output. It returns the gradient of the input.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from ipu_teach.errors import did_you_mean, shown
from ipu_teach.poplibs.library import refused
from ipu_teach.poplibs.popops.arithmetic import sigmoid
from ipu_teach.types import Array

__all__ = ["NonLinearityType"]

Function = Callable[[Array], Array]
Slope = Callable[[Array, Array], Array]


class NonLinearityType(Enum):
    """The non-linearities, with PopLibs' names.

    * RELU is max(x, 0), and SIGMOID 1 / (1 + e^-x).
    * HARD_SIGMOID is x / 5 + 1/2, limited to the range from 0 to 1.
    * TANH is the hyperbolic tangent.
    * GELU is x times the probability that a standard normal number is below x, approximated with
      tanh. GELU_ERF computes this probability with the error function.
    * SWISH is x times the sigmoid of x.
    * SOFTMAX computes the probabilities of each row. SOFTMAX_STABLE is the same as SOFTMAX, because
      here SOFTMAX also subtracts the maximum of the row first. SOFTMAX_SCALED computes the
      probabilities times `SOFTMAX_SCALING`, so that small probabilities do not become 0 in HALF.
    """

    RELU = "RELU"
    SIGMOID = "SIGMOID"
    HARD_SIGMOID = "HARD_SIGMOID"
    TANH = "TANH"
    GELU = "GELU"
    GELU_ERF = "GELU_ERF"
    SWISH = "SWISH"
    SOFTMAX = "SOFTMAX"
    SOFTMAX_STABLE = "SOFTMAX_STABLE"
    SOFTMAX_SCALED = "SOFTMAX_SCALED"

    @property
    def by_row(self) -> bool:
        """Whether each element of the result depends on all elements of its row, as in SOFTMAX."""
        return self.name.startswith("SOFTMAX")

    @property
    def slope_from_input(self) -> bool:
        """Whether the gradient is computed from the function's input, instead of its output."""
        return self in (NonLinearityType.GELU, NonLinearityType.GELU_ERF, NonLinearityType.SWISH)


def kind_of(kind: NonLinearityType | str) -> NonLinearityType:
    """Return `kind` as a `NonLinearityType`; it may be the name of a type, in upper or lower case.

    :raises PoplibsError: if there is no such type.
    """
    if isinstance(kind, NonLinearityType):
        return kind
    types_by_name = NonLinearityType.__members__
    if isinstance(kind, str) and kind.upper() in types_by_name:
        return types_by_name[kind.upper()]
    suggestion = did_you_mean(kind, types_by_name) if isinstance(kind, str) else ""
    advice = (
        "popnn.NonLinearityType lists all kinds"
        if suggestion
        else f"use one of {', '.join(types_by_name)}"
    )
    raise refused(f"""was given {shown(kind)} as kind of non-linearity.
        next:  {suggestion}{advice}.""")


_ROOT = np.float32(np.sqrt(2 / np.pi))
_CUBIC = np.float32(0.044715)  # The constant is from Hendrycks and Gimpel, arXiv:1606.08415.
_FLAT = np.float32(1e6)  # If x * x is at least this, the tanh of GELU rounds to 1 or -1.
# The coefficients of Abramowitz and Stegun's formula 7.1.26 for the error function. The error of
# this formula is at most 1.5e-7.
_ERF = tuple(
    np.float32(c) for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
)
_ERF_SCALE = np.float32(0.3275911)


def _tanh_of_gelu(x: Array) -> Array:
    hyperbolic: Array = np.tanh(_ROOT * (x + _CUBIC * (x * x * x)))
    return hyperbolic


def _gelu(x: Array) -> Array:
    result: Array = 0.5 * x * (1 + _tanh_of_gelu(x))
    return result


def _gelu_slope(x: Array, gradient: Array) -> Array:
    hyperbolic = _tanh_of_gelu(x)
    # Limit x * x, because for an infinite x, infinity * 0 would give NaN.
    limited_square = np.minimum(x * x, _FLAT)
    steepness = (1 - hyperbolic * hyperbolic) * _ROOT * (1 + 3 * _CUBIC * limited_square)
    result: Array = gradient * (0.5 * (1 + hyperbolic) + 0.5 * x * steepness)
    return result


def _normal_below(x: Array) -> Array:
    """Return the probability that a standard normal number is below x."""
    scaled_distance = np.absolute(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + _ERF_SCALE * scaled_distance)
    tail: np.float32 | Array = _ERF[0]
    for coefficient in _ERF[1:]:
        tail = tail * t + coefficient
    tail = 0.5 * (tail * t * np.exp(-(scaled_distance * scaled_distance)))
    probability: Array = np.where(x < 0, tail, 1 - tail)
    return probability


def _gelu_erf(x: Array) -> Array:
    result: Array = x * _normal_below(x)
    return result


def _gelu_erf_slope(x: Array, gradient: Array) -> Array:
    density = np.float32(np.sqrt(0.5 / np.pi)) * np.exp(-0.5 * (x * x))
    result: Array = gradient * (_normal_below(x) + x * density)
    return result


def _swish(x: Array) -> Array:
    result: Array = x * sigmoid(x)
    return result


def _swish_slope(x: Array, gradient: Array) -> Array:
    sigmoid_of_x = sigmoid(x)
    result: Array = gradient * (sigmoid_of_x + x * (sigmoid_of_x * (1 - sigmoid_of_x)))
    return result


def _hard_sigmoid(x: Array) -> Array:
    result: Array = np.minimum(np.maximum(np.float32(0.2) * x + np.float32(0.5), 0), 1)
    return result


def _hard_sigmoid_slope(out: Array, gradient: Array) -> Array:
    return np.where((out > 0) & (out < 1), gradient * np.float32(0.2), 0)


def _relu_slope(out: Array, gradient: Array) -> Array:
    # If out is NaN, out <= 0 is false, and the result is the gradient.
    return np.where(out <= 0, 0, gradient)


FUNCTIONS: dict[NonLinearityType, Function] = {
    NonLinearityType.RELU: lambda x: np.maximum(x, 0),
    NonLinearityType.SIGMOID: sigmoid,
    NonLinearityType.HARD_SIGMOID: _hard_sigmoid,
    NonLinearityType.TANH: np.tanh,
    NonLinearityType.GELU: _gelu,
    NonLinearityType.GELU_ERF: _gelu_erf,
    NonLinearityType.SWISH: _swish,
}
SLOPES: dict[NonLinearityType, Slope] = {
    NonLinearityType.RELU: _relu_slope,
    NonLinearityType.SIGMOID: lambda out, gradient: gradient * (out * (1 - out)),
    NonLinearityType.HARD_SIGMOID: _hard_sigmoid_slope,
    NonLinearityType.TANH: lambda out, gradient: gradient * (1 - out * out),
    NonLinearityType.GELU: _gelu_slope,
    NonLinearityType.GELU_ERF: _gelu_erf_slope,
    NonLinearityType.SWISH: _swish_slope,
}
