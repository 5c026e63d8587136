"""Functions of arrays that numpy lacks, or computes differently from C: one result for each
element.

They are composed of numpy's own functions, so that a codelet which calls them can be traced once
for all vertices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ipu_teach.types import Array

_LARGEST_ERF = 6.0  # from here on erf is 1 to the last bit of a float64
_ERF_TERMS = 44


def _erf_coefficients() -> list[float]:
    """Return the chebyshev coefficients of erf(x) / x over x squared, from 0 to the square of
    `_LARGEST_ERF`."""
    nodes = np.cos(np.pi * (np.arange(_ERF_TERMS) + 0.5) / _ERF_TERMS)
    places = np.sqrt((nodes + 1) / 2) * _LARGEST_ERF
    values = np.array([math.erf(x) / x for x in places.tolist()])
    terms = np.cos(np.arange(_ERF_TERMS)[:, None] * np.arccos(nodes))
    coefficients: list[float] = (2 / _ERF_TERMS * terms @ values).tolist()
    return [coefficients[0] / 2, *coefficients[1:]]


_ERF = _erf_coefficients()


def erf(x: Any) -> Any:
    """Return the error function of float64 values, to about 1e-13 of the result (Clenshaw's sum of
    Chebyshev polynomials)."""
    near = np.minimum(np.maximum(x, -_LARGEST_ERF), _LARGEST_ERF)
    t = near * near * (2 / _LARGEST_ERF**2) - 1
    b1 = 0.0 * t
    b2 = 0.0 * t
    for coefficient in reversed(_ERF[1:]):
        b1, b2 = 2 * t * b1 - b2 + coefficient, b1
    return near * (t * b1 - b2 + _ERF[0])


def gelu_erf(x: Any) -> Any:
    """Return x times the share of a normal distribution that is below x; float64."""
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)); float64."""
    return 1 / (1 + np.exp(-x))


def rsqrt(x: Any) -> Any:
    """Return 1 / sqrt(x); float64."""
    return 1 / np.sqrt(x)


def round_away(x: Any) -> Any:
    """To the nearest whole number, halves away from zero, as C's round()."""
    truncated = np.trunc(x)
    return np.where(
        np.abs(x - truncated) >= 0.5, truncated + np.copysign(x.dtype.type(1), x), truncated
    )


def divide(a: Any, b: Any) -> Any:
    """Return a / b; of integers cut towards zero, as in C. An integer divided by 0 gives 0."""
    if a.dtype.kind == "f":
        return np.divide(a, b)
    return np.floor_divide(a - np.fmod(a, b), b)


def power(a: Any, b: Any) -> Any:
    """Return a to the power of b. An integer to a negative power is cut towards zero, so that only
    1 and -1 leave anything."""
    if a.dtype.kind == "f":
        return np.power(a, b)
    result = np.ones(a.shape, a.dtype) * np.ones(b.shape, b.dtype)
    base = a * np.ones(b.shape, b.dtype)
    exponent = b
    for _ in range(8 * a.dtype.itemsize - (a.dtype.kind == "i")):  # bit by bit; products wrap
        result = np.where(np.bitwise_and(exponent, b.dtype.type(1)) == 1, result * base, result)
        base = base * base
        exponent = np.right_shift(exponent, b.dtype.type(1))
    if a.dtype.kind == "u":
        return result
    odd = np.bitwise_and(b, b.dtype.type(1)) == 1
    inverse = np.where(
        a == 1, a.dtype.type(1), np.where(a == -1, np.where(odd, a, -a), a.dtype.type(0))
    )
    return np.where(b < 0, inverse, result)


def bitwise_xnor(a: Any, b: Any) -> Any:
    """Return the bits that are equal."""
    return np.invert(np.bitwise_xor(a, b))


def _unsigned(x: Any) -> Any:
    return x.astype(np.dtype(f"u{x.dtype.itemsize}"))


def shift_left(a: Any, b: Any) -> Any:
    """Return a shifted by b bits to the left; 0 if b is as many as a has, or more."""
    return np.left_shift(_unsigned(a), _unsigned(b)).astype(a.dtype)


def shift_right(a: Any, b: Any) -> Any:
    """Return a shifted by b bits to the right; zeros come in, whatever the sign."""
    return np.right_shift(_unsigned(a), _unsigned(b)).astype(a.dtype)


def popcount(x: Any) -> Any:
    """Return how many bits are set."""
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def count_leading_zeros(x: Any) -> Any:
    """Return how many bits, from the highest on, are not set."""
    bits = 8 * x.dtype.itemsize
    filled = _unsigned(x)
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            filled = np.bitwise_or(filled, np.right_shift(filled, filled.dtype.type(step)))
    return (bits - np.bitwise_count(filled).astype(np.int64)).astype(x.dtype)


def inv_std_dev_to_variance(x: Any, epsilon: Any) -> Any:
    """Return 1 / x squared, less epsilon; float64."""
    return 1 / (x * x) - epsilon


def variance_to_inv_std_dev(x: Any, epsilon: Any) -> Any:
    """Return 1 / sqrt(x + epsilon); float64."""
    return 1 / np.sqrt(x + epsilon)


def select(a: Any, b: Any, mask: Array) -> Any:
    """Return a where the mask is true, else b."""
    return np.where(mask, a, b)


def clamp(x: Any, low: Any, high: Any) -> Any:
    """x, but at least low and at most high."""
    return np.minimum(np.maximum(x, low), high)
