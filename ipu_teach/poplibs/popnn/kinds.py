"""The non-linearities and their gradients, as functions of single-precision arrays."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from ipu_teach.errors import did_you_mean, shown
from ipu_teach.poplibs.library import refused
from ipu_teach.poplibs.popops.arithmetic import sigmoid

__all__ = ["NonLinearityType"]

Function = Callable[[Any], Any]
Slope = Callable[[Any, Any], Any]


class NonLinearityType(Enum):
    """The non-linearities, under PopLibs' names.

    RELU max(x, 0). SIGMOID 1 / (1 + e^-x). HARD_SIGMOID x / 5 + 1/2, kept between 0 and 1. TANH.
    GELU x times the normal distribution up to x, by its approximation with tanh; GELU_ERF the same
    by the error function. SWISH x sigmoid(x). SOFTMAX probabilities of each row, and SOFTMAX_STABLE
    the same: here the largest is always subtracted first. SOFTMAX_SCALED those times
    `SOFTMAX_SCALING`, so that small ones do not vanish in HALF.
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
        """Whether the elements of a row depend on each other."""
        return self.name.startswith("SOFTMAX")

    @property
    def slope_from_input(self) -> bool:
        """Whether the gradient is computed from the input; for the others it is computed from the
        output."""
        return self in (NonLinearityType.GELU, NonLinearityType.GELU_ERF, NonLinearityType.SWISH)


def kind_of(kind: object) -> NonLinearityType:
    """Return `given`, or the type of that name. Raises `PoplibsError`."""
    if isinstance(kind, NonLinearityType):
        return kind
    known = NonLinearityType.__members__
    if isinstance(kind, str) and kind.upper() in known:
        return known[kind.upper()]
    meant = did_you_mean(kind, known) if isinstance(kind, str) else ""
    all_of_them = (
        "popnn.NonLinearityType lists them all" if meant else f"use one of {', '.join(known)}"
    )
    raise refused(f"""was given {shown(kind)} as its non-linearity.
        next:  {meant}{all_of_them}.""")


_ROOT = np.float32(np.sqrt(2 / np.pi))
_CUBIC = np.float32(0.044715)  # Hendrycks and Gimpel, arXiv:1606.08415
_FLAT = np.float32(1e6)  # the square of an x beyond which tanh is 1 or -1
# Abramowitz and Stegun, 7.1.26: within 1.5e-7.
_ERF = tuple(
    np.float32(c) for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
)
_ERF_SCALE = np.float32(0.3275911)


def _inner(x: Any) -> Any:
    return np.tanh(_ROOT * (x + _CUBIC * (x * x * x)))


def _gelu_slope(x: Any, gradient: Any) -> Any:
    bend = _inner(x)
    squared = np.minimum(x * x, _FLAT)  # no infinity, which times a slope of 0 is NaN
    steepness = (1 - bend * bend) * _ROOT * (1 + 3 * _CUBIC * squared)
    return gradient * (0.5 * (1 + bend) + 0.5 * x * steepness)


def _normal_below(x: Any) -> Any:
    """Return the share of the normal distribution below x."""
    away = np.absolute(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + _ERF_SCALE * away)
    tail = _ERF[0]
    for coefficient in _ERF[1:]:
        tail = tail * t + coefficient
    tail = 0.5 * (tail * t * np.exp(-(away * away)))
    return np.where(x < 0, tail, 1 - tail)


def _gelu_erf_slope(x: Any, gradient: Any) -> Any:
    density = np.float32(np.sqrt(0.5 / np.pi)) * np.exp(-0.5 * (x * x))
    return gradient * (_normal_below(x) + x * density)


def _swish_slope(x: Any, gradient: Any) -> Any:
    part = sigmoid(x)
    return gradient * (part + x * (part * (1 - part)))


FUNCTIONS: dict[NonLinearityType, Function] = {
    NonLinearityType.RELU: lambda x: np.maximum(x, 0),
    NonLinearityType.SIGMOID: sigmoid,
    NonLinearityType.HARD_SIGMOID: lambda x: np.minimum(
        np.maximum(np.float32(0.2) * x + np.float32(0.5), 0), 1
    ),
    NonLinearityType.TANH: np.tanh,
    NonLinearityType.GELU: lambda x: 0.5 * x * (1 + _inner(x)),
    NonLinearityType.GELU_ERF: lambda x: x * _normal_below(x),
    NonLinearityType.SWISH: lambda x: x * sigmoid(x),
}
SLOPES: dict[NonLinearityType, Slope] = {
    NonLinearityType.RELU: lambda out, gradient: np.where(out <= 0, 0, gradient),  # also of NaN
    NonLinearityType.SIGMOID: lambda out, gradient: gradient * (out * (1 - out)),
    NonLinearityType.HARD_SIGMOID: lambda out, gradient: np.where(
        (out > 0) & (out < 1), gradient * np.float32(0.2), 0
    ),
    NonLinearityType.TANH: lambda out, gradient: gradient * (1 - out * out),
    NonLinearityType.GELU: _gelu_slope,
    NonLinearityType.GELU_ERF: _gelu_erf_slope,
    NonLinearityType.SWISH: _swish_slope,
}
