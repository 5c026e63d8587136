"""Elementwise array functions that numpy lacks, or computes differently from C.

They consist of numpy's own functions, so that a codelet that calls them can be traced once for all
vertices.
"""

from __future__ import annotations

import math

import numpy as np

from ipu_teach.types import Array

_LARGEST_ERF = 6.0  # For x above this, erf(x) is 1 in float64.
_ERF_TERMS = 44


def _erf_coefficients() -> list[float]:
    """Return the coefficients of a Chebyshev series for erf(x) / x as a function of x squared.

    The interval of x squared is from 0 to the square of `_LARGEST_ERF`.
    """
    nodes = np.cos(np.pi * (np.arange(_ERF_TERMS) + 0.5) / _ERF_TERMS)
    x_values = np.sqrt((nodes + 1) / 2) * _LARGEST_ERF
    values = np.array([math.erf(x) / x for x in x_values.tolist()])
    terms = np.cos(np.arange(_ERF_TERMS)[:, None] * np.arccos(nodes))
    coefficients: list[float] = (2 / _ERF_TERMS * terms @ values).tolist()
    return [coefficients[0] / 2, *coefficients[1:]]


_ERF = _erf_coefficients()


def erf(x: Array) -> Array:
    """Return the error function of float64 values, with a relative error of about 1e-13.

    Clenshaw's algorithm sums the Chebyshev series of erf(x) / x.
    """
    limited_x = np.minimum(np.maximum(x, -_LARGEST_ERF), _LARGEST_ERF)
    t = limited_x * limited_x * (2 / _LARGEST_ERF**2) - 1
    sum_1 = 0.0 * t
    sum_2 = 0.0 * t
    for coefficient in reversed(_ERF[1:]):
        sum_1, sum_2 = 2 * t * sum_1 - sum_2 + coefficient, sum_1
    result: Array = limited_x * (t * sum_1 - sum_2 + _ERF[0])
    return result


def gelu_erf(x: Array) -> Array:
    """Return x times the probability that a standard normal number is below x, in float64."""
    result: Array = 0.5 * x * (1 + erf(x * math.sqrt(0.5)))
    return result


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), in float64."""
    result: Array = 1 / (1 + np.exp(-x))
    return result


def rsqrt(x: Array) -> Array:
    """Return 1 / sqrt(x), in float64."""
    result: Array = 1 / np.sqrt(x)
    return result


def round_away(x: Array) -> Array:
    """Return x, rounded to the nearest integer; halves are rounded away from zero, as in C."""
    truncated = np.trunc(x)
    return np.where(
        np.abs(x - truncated) >= 0.5, truncated + np.copysign(x.dtype.type(1), x), truncated
    )


def divide(a: Array, b: Array) -> Array:
    """Return a / b; integer quotients are truncated towards zero, as in C, and are 0 if b is 0."""
    if a.dtype.kind == "f":
        quotient: Array = np.divide(a, b)
        return quotient
    truncated: Array = np.floor_divide(a - np.fmod(a, b), b)
    return truncated


def power(a: Array, b: Array) -> Array:
    """Return a to the power of b.

    If a and b are integers and b is negative, the result is truncated towards zero: it is 0 unless
    a is 1 or -1.
    """
    if a.dtype.kind == "f":
        powers: Array = np.power(a, b)
        return powers
    result = np.ones(a.shape, a.dtype) * np.ones(b.shape, b.dtype)
    base = a * np.ones(b.shape, b.dtype)
    exponent = b
    # There is one iteration for each bit of b. Products that are too large wrap around.
    for _ in range(8 * a.dtype.itemsize - (a.dtype.kind == "i")):
        result = np.where(np.bitwise_and(exponent, b.dtype.type(1)) == 1, result * base, result)
        base = base * base
        exponent = np.right_shift(exponent, b.dtype.type(1))
    if a.dtype.kind == "u":
        return result
    is_odd = np.bitwise_and(b, b.dtype.type(1)) == 1
    inverse = np.where(
        a == 1, a.dtype.type(1), np.where(a == -1, np.where(is_odd, a, -a), a.dtype.type(0))
    )
    return np.where(b < 0, inverse, result)


def bitwise_xnor(a: Array, b: Array) -> Array:
    """Return an integer whose bits are 1 where the bits of a and b are equal."""
    result: Array = np.invert(np.bitwise_xor(a, b))
    return result


def _unsigned(x: Array) -> Array:
    return x.astype(np.dtype(f"u{x.dtype.itemsize}"))


def shift_left(a: Array, b: Array) -> Array:
    """Return a, shifted left by b bits, or 0 if b is at least the number of bits of a."""
    shifted: Array = np.left_shift(_unsigned(a), _unsigned(b))
    return shifted.astype(a.dtype)


def shift_right(a: Array, b: Array) -> Array:
    """Return a, shifted right by b bits; zeros are shifted in, even if a is negative."""
    shifted: Array = np.right_shift(_unsigned(a), _unsigned(b))
    return shifted.astype(a.dtype)


def popcount(x: Array) -> Array:
    """Return the number of bits of x that are 1."""
    count: Array = np.bitwise_count(_unsigned(x))
    return count.astype(x.dtype)


def count_leading_zeros(x: Array) -> Array:
    """Return the number of leading zeros in the binary form of x."""
    num_bits = 8 * x.dtype.itemsize
    bits_below = _unsigned(x)
    for step in (1, 2, 4, 8, 16, 32):
        if step < num_bits:
            bits_below = np.bitwise_or(
                bits_below, np.right_shift(bits_below, bits_below.dtype.type(step))
            )
    count: Array = num_bits - np.bitwise_count(bits_below).astype(np.int64)
    return count.astype(x.dtype)


def inv_std_dev_to_variance(x: Array, epsilon: Array) -> Array:
    """Return 1 / (x squared) - epsilon, in float64."""
    variance: Array = 1 / (x * x) - epsilon
    return variance


def variance_to_inv_std_dev(x: Array, epsilon: Array) -> Array:
    """Return 1 / sqrt(x + epsilon), in float64."""
    inverse: Array = 1 / np.sqrt(x + epsilon)
    return inverse


def select(a: Array, b: Array, mask: Array) -> Array:
    """Return the elements of a where `mask` is true, and the elements of b elsewhere."""
    return np.where(mask, a, b)


def clamp(x: Array, low: Array, high: Array) -> Array:
    """Return x, limited to the range from `low` to `high`; where `low` > `high`, return `high`."""
    limited: Array = np.minimum(np.maximum(x, low), high)
    return limited
