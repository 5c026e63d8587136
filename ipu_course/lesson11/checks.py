"""Lesson 11, Numbers: correct results in integers and fractions, and known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise, product as cartesian
from math import floor, sqrt

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.calling import Broken, call, call_made
from ipu_course.checking.comparing import compare, refuse_floats
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import suspects
from ipu_course.checking.programs import graph_of, run_once
from ipu_course.checking.quoting import Number, call_text, name_of, plain, quoted, returned
from ipu_course.checking.trial import linearly
from ipu_course.checking.verdict_panel import Bars
from ipu_course.checking.verdicts import MODELLED, ORDINARY, NotYet, Passed, refusing
from ipu_teach import FLOAT, HALF, QUARTER, QuarterFormat, QuarterMetadata, show
from ipu_teach.errors import shown
from ipu_teach.poplibs import poplin
from ipu_teach.program import Sequence as Steps
from ipu_teach.types import Array, DType, from_quarter, to_quarter
from ipu_teach.types.numbers import fitting_power
from ipu_teach.types.quarter import numbers

F143 = QuarterFormat.F143
F152 = QuarterFormat.F152
# Maps each 8-bit format to (number of mantissa bits, exponent bias).
BITS = {F143: (3, 8), F152: (2, 16)}

# --- 11.1 -----------------------------------------------------------------------------------------

THROWS = 10_000  # The number of samples of each value.
# The maximum error of a mean, in standard deviations. With this limit, a right answer is refused
# about once in 140,000 verdicts.
SIGMAS = 5
# Ordinary values, negative values, subnormal HALF numbers, values that HALF represents exactly, and
# one value just below a power of two, where HALF numbers are closer together than above it.
VALUES = np.array(
    (0.1, 0.70003, 1.0008, 1000.3, 64_990.1, -0.1, -3.14159, -2049.3)
    + (3.3 * 2**-24, -0.2 * 2**-24, 700.75 * 2**-24)
    + (0.375, -2.0, 2.0**-24, 0.0, 1024.0, 1.9997)
)


def halves_around(value: float) -> tuple[Fraction, Fraction]:
    """Return the two HALF numbers nearest to `value`: one at or below it, one at or above it."""
    exact = Fraction(value)
    power = 0
    while abs(exact) >= Fraction(2) ** (power + 1):
        power += 1
    while power > -14 and abs(exact) < Fraction(2) ** power:
        power -= 1
    step = Fraction(2) ** (power - 10)
    return floor(exact / step) * step, -floor(-exact / step) * step


Rounding = Callable[[Array, np.random.Generator], Array]


def _thrown(answer: Rounding, seed: int = 1101) -> Array:
    """Return float64[values, samples]: an answer's roundings of each number in `VALUES`."""
    values = np.repeat(VALUES[:, None], THROWS, axis=1)
    description = f"{name_of(answer)} on an array of shape {values.shape}"
    rounded = call_made(answer, description, values.copy(), np.random.default_rng(seed))
    halves = np.asarray(rounded) if isinstance(rounded, np.ndarray) else np.zeros(0)
    if halves.shape != values.shape or halves.dtype != np.float16:
        shape = (
            f"an array of shape {halves.shape} of {halves.dtype}"
            if isinstance(rounded, np.ndarray)
            else ""
        )
        raise NotYet(
            description,
            shape or returned(rounded, ", which is no array"),
            expected="an array of np.float16, of the shape of values",
            next_step="compute with the whole array at once, and return it as np.float16.",
        )
    return halves.astype(np.float64)


def _chances(answer: Rounding) -> Passed:
    samples = _thrown(answer)
    # Values that HALF represents exactly are checked separately.
    between = VALUES.astype(np.float16) != VALUES

    def rounds_alike(like: Rounding) -> bool:
        drawn = samples[between]
        reference = _thrown(like)[between]
        ends = [{*np.unique(a)} == {*np.unique(b)} for a, b in zip(drawn, reference, strict=True)]
        spread = 8 * np.maximum(drawn.std(axis=1), 1e-300) / sqrt(THROWS)
        off = abs(drawn.mean(axis=1) - reference.mean(axis=1))
        return all(ends) and bool((off <= spread).all())

    def refusal(value: float, actual: str, expected: str, why: str) -> NotYet:
        description = f"{name_of(answer)} on {value:.9g}, {THROWS:,} times"
        advice = "draw the value on a number line, with its two neighbouring halves, and compare."
        landed = samples[VALUES.tolist().index(value)]
        draws = partial(show.formats, VALUES, HALF, coin=value, thrown=landed)
        refused = refusing("11.1", rounds_alike)
        return refused(description, actual, expected, advice, why=why, draws=draws)

    for value, thrown in zip(VALUES.tolist(), samples, strict=True):
        low, high = (float(end) for end in halves_around(value))
        unexpected = thrown[(thrown != low) & (thrown != high)]
        if len(unexpected):
            expected = f"{low:.9g}" + (f" or {high:.9g}" if low != high else "")
            why = (
                "the result must be one of the two neighbouring halves of the value."
                if low != high
                else "the value is already a half, so it must not change."
            )
            raise refusal(value, f"{unexpected[0]:.9g}", expected, why)
        if low == high:
            continue
        up = (value - low) / (high - low)
        share = float((thrown == high).mean())
        if abs(share - up) > SIGMAS * sqrt(up * (1 - up) / THROWS):
            actual = f"{high:.9g} in {100 * share:.1f} % of them"
            why = "on average, the rounded values should equal the value."
            raise refusal(value, actual, f"in about {100 * up:.1f} %", why)
    if np.array_equal(samples[between], _thrown(answer, seed=1102)[between]):
        why = "two generators gave the same results: the random numbers do not come from `rng`."
        raise NotYet(
            f"{name_of(answer)} twice, with two generators",
            "the same halves",
            expected="different halves",
            why=why,
            next_step="use rng.random(values.shape) in each call.",
        )
    words = (
        f"{len(VALUES)} values, {THROWS:,} times each: the mean is right within {SIGMAS} standard "
        "deviations"
    )
    return Passed(words, evidence=[plain(m) for m in np.round(samples.mean(axis=1), 9)])


# --- 11.2 -----------------------------------------------------------------------------------------


def after(step: float, grid: float, times: int) -> tuple[float, float]:
    """Return `(mean, standard deviation)` of the final sum after `times` additions of `step`.

    After each addition, the sum is rounded stochastically to a multiple of `grid`.
    """
    exact = Fraction(step)
    pitch = Fraction(grid)
    up = exact / pitch - floor(exact / pitch)
    return float(times * exact), sqrt(times * pitch**2 * up * (1 - up))


def _refuse_other_pairs(answer: Callable[..., object], case: tuple[float, float, int]) -> None:
    """Raise `NotYet` if an answer returns no pair of numbers, or the root of a negative number."""
    walk = call(answer, *case)
    description = call_text(answer, case)
    if not isinstance(walk, (tuple, list, np.ndarray)) or len(walk) != 2:
        raise NotYet(
            description,
            returned(walk, ""),
            expected="two numbers, the mean and the standard deviation",
            next_step="return both numbers, separated by a comma.",
        )
    spread = walk[1]
    is_nan = isinstance(spread, float) and spread != spread
    if is_nan or isinstance(spread, complex):
        step, grid, _ = case
        why = (
            "the second number is the root of a negative number, but no variance is negative. "
            f"step / grid is {step / grid:g} here, and a probability is from 0 to 1."
        )
        raise NotYet(
            description,
            f"a standard deviation of {shown(spread)}",
            expected=quoted(after(*case)),
            why=why,
            next_step="subtract the whole gaps, and use the remainder as the probability.",
        )


def _walk(answer: Callable[[float, float, int], tuple[float, float]]) -> Passed:
    cases: dict[str, tuple[float, float, int]] = {
        ORDINARY: (0.45, 0.25, 10),
        f"{ORDINARY}, finer": (0.3, 0.0625, 40),
        f"{ORDINARY}, coarse": (0.7, 1.0, 25),
        f"{ORDINARY}, a small step": (0.02, 0.25, 100),
        "one step": (0.45, 0.25, 1),
        "the step is negative": (-0.45, 0.25, 10),
        "the step is a multiple of the grid": (0.75, 0.25, 8),
    }
    with suppress(Broken):  # `compare` looks for the known mistake that explains the error.
        _refuse_other_pairs(answer, cases[ORDINARY])
    steps = (0, 0.1, 0.125, 0.3, 0.5, 0.7, 1, 1.7, 5, -0.3, -2.6)
    more = cartesian(steps, (0.125, 0.5, 1, 4), (1, 2, 7, 100))
    return compare(answer, after, cases, suspects("11.2"), tolerance=1e-9, more=more)


# --- 11.3 -----------------------------------------------------------------------------------------


def decoded(code: int, mantissa_bits: int, bias: int) -> float:
    """Return the value of an 8-bit code; nan for 0x80."""
    if code == 0x80:
        return float("nan")
    exponent, rest = divmod(code & 0x7F, 1 << mantissa_bits)
    steps = rest + (1 << mantissa_bits if exponent else 0)
    size = Fraction(steps) * Fraction(2) ** (max(exponent, 1) - bias - mantissa_bits)
    return float(-size if code & 0x80 else size)


@cache
def _midpoints(form: QuarterFormat) -> frozenset[float]:
    """Return the midpoints between neighbouring numbers of a format, as magnitudes."""
    sizes = [decoded(code, *BITS[form]) for code in range(128)]
    return frozenset((a + b) / 2 for a, b in pairwise(sizes))


@cache
def _to_encode(form: QuarterFormat) -> tuple[float, ...]:
    """Return values to encode: numbers of a format, values between them, and values beyond them.

    The values between them are midpoints of two neighbours, and values close to midpoints. The
    values beyond them are too small or too large for the format.
    """
    sizes = [decoded(code, *BITS[form]) for code in range(128)]
    codes = np.random.default_rng(1103).permutation(120)[:20].tolist()
    ends = [sizes[k] for k in codes]
    ways = [(sizes[k] + sizes[k + 1]) / 2 for k in codes]
    near = [way * (1 + (-1) ** i * 2.0**-30) for i, way in enumerate(ways)]
    odd = [0.0, sizes[1] / 2, sizes[1] * 0.51, sizes[1] * 0.3, sizes[-1] * 1.01, sizes[-1] * 1e4]
    signed = [value * (-1) ** i for i, value in enumerate(ends + ways + near)]
    return (*signed, *odd, *(-value for value in odd))


def _how_special(form: QuarterFormat, value: float) -> tuple[int, bool, float]:
    """Return a sort key: (how special the value is, whether it is negative, its magnitude).

    In the sorted order, ordinary values come first and midpoints last. The values in the middle are
    too large for the format, or smaller than its normal numbers.
    """
    largest, smallest = (decoded(code, *BITS[form]) for code in (127, 1 << BITS[form][0]))
    is_special = not smallest <= abs(value) <= largest
    return 2 if abs(value) in _midpoints(form) else is_special, value < 0, abs(value)


@cache
def encoded(value: float, form: QuarterFormat) -> int:
    """Return the 8-bit code nearest to a value; of two equally near codes, return the even code.

    Values that are too large get the largest code.
    """
    bits, bias = BITS[form]
    remaining = []
    exact = abs(Fraction(value))
    for code in range(128):
        remaining.append((abs(Fraction(decoded(code, bits, bias)) - exact), code % 2, code))
    code = min(remaining)[2]
    return code | 0x80 if value < 0 and code else code


def _bytes(answer: Callable[..., int]) -> Passed:
    cases = sorted(
        ((form, value) for form in BITS for value in _to_encode(form)),
        key=lambda case: _how_special(*case),
    )
    actual = [plain(call(answer, value, *BITS[form])) for form, value in cases]

    def encodes_alike(like: Callable[..., int]) -> bool:
        return all(
            _equal(plain(like(value, *BITS[form])), code)
            for (form, value), code in zip(cases, actual, strict=True)
        )

    for (form, value), code in zip(cases, actual, strict=True):
        right = encoded(value, form)
        description = call_text(answer, (value, *BITS[form]))
        if code == right:
            continue
        why = ""
        if isinstance(code, int) and 0 <= code < 256 and code != 0x80:
            why = f"that code is {decoded(code, *BITS[form]):.6g}."
        elif code == 0x80:
            why = "that code is NaN. np.argmin returns the position of a NaN if there is one."
        advice = (
            "decode all 128 codes of one sign, and choose the code whose number is nearest to this "
            "value."
        )
        rank, *_ = _how_special(form, value)
        if rank == 1:
            special = "larger than the largest" if abs(value) > 1 else "smaller than the smallest"
            normal = "Normal" if why else "normal"
            why = f"{why} {normal} numbers are right, but this value is {special}.".strip()
        if rank == 2:
            halfway = "This" if why else "this"
            why = f"{why} {halfway} value is halfway between two numbers.".strip()
            advice = "if two codes are equally near, return the even one."
        message = "no number" if code is None else f"{code} ({_hex(code)})"
        expected = f"{right} ({_hex(right)}, which is {decoded(right, *BITS[form]):.6g})"
        refused = refusing("11.3", encodes_alike)
        raise refused(description, message, expected, advice, why=why)
    for (form, value), code in zip(cases, actual, strict=True):
        refuse_floats(call_text(answer, (value, *BITS[form])), code)
    return Passed(f"{len(actual)} values in F143 and F152", evidence=actual)


def _equal(first: Number | None, second: Number | None) -> bool:
    """Return whether two numbers are equal; nan equals nan."""
    return bool(first == second) or first != first and second != second


def _hex(code: Number) -> str:
    return f"0x{int(code):02x}" if isinstance(code, int) and 0 <= code < 256 else "no byte"


# --- 11.4 -----------------------------------------------------------------------------------------

PARTS = ("h", "y", "dh", "dw1", "dw2")
LEAST = 0.5  # The smallest allowed standard deviation of a product.
MOST = 2.0  # The largest allowed standard deviation of a product.


@cache
def _layers(batch: int, *widths: int) -> tuple[Array, ...]:
    """Return random arrays (x, w1, w2, dy) for two layers, each with standard deviation 1."""
    draw = np.random.default_rng(1104).standard_normal
    a, b, c = widths
    return draw((batch, a)), draw((a, b)), draw((b, c)), draw((batch, c))


def _products(x: Array, w1: Array, w2: Array, dy: Array) -> tuple[Array, ...]:
    """Return the five products of the forward and backward passes, without scaling factors."""
    h = x @ w1
    dh = dy @ w2.T
    return h, h @ w2, dh, x.T @ dh, h.T @ dy


def _product_of(name: str, layers: Sequence[Array], parts: Sequence[Array]) -> Array:
    """Return the product called `name` without its scaling factor.

    `name` is "h", "y", "dh", "dw1" or "dw2". `layers` is (x, w1, w2, dy). `parts` are the products
    that the answer returned. The answer's own h and dh are used as operands of y, dw1 and dw2.
    """
    x, w1, w2, dy = layers
    h, _, dh, *_ = parts
    operands = {"h": (x, w1), "y": (h, w2), "dh": (dy, w2.T), "dw1": (x.T, dh), "dw2": (h.T, dy)}
    first, second = operands[name]
    return np.asarray(first @ second)


def _scaled(answer: Callable[..., Sequence[Array]]) -> Passed:
    shapes = ((40, 150, 700, 90), (300, 60, 30, 500), (64, 400, 100, 25))
    answers = []
    for shape in shapes:
        layers = _layers(*shape)
        description = (
            f"{name_of(answer)} on {shape[0]} samples, layers of {' -> '.join(map(str, shape[1:]))}"
        )
        scaled = call(answer, *layers)
        parts = [*scaled] if isinstance(scaled, (tuple, list)) else []
        if len(parts) != len(PARTS):
            wanted = f"five arrays: {', '.join(PARTS)}"
            raise NotYet(
                description,
                returned(scaled, ""),
                expected=wanted,
                next_step="return the arrays in this order.",
            )
        answers.append((description, layers, parts))

    def scales_alike(like: Callable[..., Sequence[Array]]) -> bool:
        return all(
            all(np.allclose(a, b) for a, b in zip(like(*layers), parts, strict=True))
            for _, layers, parts in answers
        )

    for description, layers, parts in answers:
        for name, part, right in zip(PARTS, parts, _products(*layers), strict=True):
            actual, expected = _off(name, part, right)
            if actual:
                why = ""
                advice = (
                    "divide this product by np.sqrt(n), where n is the number of terms in its sums."
                )
                if "deviation" not in actual:
                    advice = "return h, y, dh, dw1 and dw2, in that order."
                elif not np.allclose(part, bare := _product_of(name, layers, parts)):
                    factor = float(np.std(bare) / (np.std(part) or 1))
                    if np.allclose(bare, part * factor):
                        why = f"this divides it by {factor:.4g}, the root of {factor**2:.4g}."
                    advice = (
                        "along which dimension does this product add? Count the terms of a sum."
                    )
                raise refusing("11.4", scales_alike)(description, actual, expected, advice, why)
    _refuse_factors_of_data(answer, shapes[0])
    spreads = [float(np.std(part)) for _, _, parts in answers for part in parts]
    low, high = min(spreads), max(spreads)
    words = f"3 pairs of layers: standard deviations from {low:.2f} to {high:.2f}"
    return Passed(words, evidence=[round(s, 6) for s in spreads])


def _refuse_factors_of_data(answer: Callable[..., Sequence[Array]], shape: Sequence[int]) -> None:
    """Raise `NotYet` if a scaling factor depends on the values, instead of only on the shapes."""
    factors = []
    for size in (1, 3):
        layers = [size * part for part in _layers(*shape)]
        pairs = zip(call(answer, *layers), _products(*layers), strict=True)
        factors.append([float((a * b).sum() / (b * b).sum()) for a, b in pairs])
    for name, first, second in zip(PARTS, *factors, strict=True):
        if abs(first - second) > 1e-6 * first:
            raise NotYet(
                f"{name_of(answer)} twice: the second time, all numbers are 3 times as large",
                f"{name}: a factor of {first:.4g}, then of {second:.4g}",
                expected="the same factors, since the shapes are the same",
                why="the factor depends on the numbers, but it should depend only on the shapes.",
                next_step=(
                    "divide this product by np.sqrt(n), where n is the number of terms in its sums."
                ),
            )


def _off(name: str, product: Array, right: Array) -> tuple[str, str]:
    """Return `(actual, expected)` if a product is wrong or its standard deviation is not near 1.

    Otherwise return ("", "").
    """
    if not isinstance(product, np.ndarray) or product.shape != right.shape:
        actual = returned(product, "")
        if isinstance(product, np.ndarray):
            actual = f"shape {product.shape}"
        return f"{name}: {actual}", f"an array of shape {right.shape}"
    spread = float(product.std())
    norms = float(np.linalg.norm(product) * np.linalg.norm(right))
    if not float((product * right).sum()) >= (1 - 1e-9) * norms > 0:
        return f"{name}: another product", "the product of the layer, times one factor"
    if not LEAST <= spread <= MOST:
        return f"{name}: a standard deviation of {spread:.4g}", f"{LEAST} to {MOST:g}"
    return "", ""


# --- 11.5 -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Operands:
    """The operands of a product, and the allowed error as a fraction of the largest result."""

    said: str
    a: Array
    b: Array
    error: float


def _drawn(
    draw: Callable[[tuple[int, int]], Array],
    sizes: tuple[int, int, int],
    size: float = 1.0,
    feature: float = 0.0,
    partner: float = 32.0,
    has_both_signs: bool = False,
) -> tuple[Array, Array]:
    """Return random operands a and b of a product as float16.

    `sizes` is (rows of a, terms of each sum, columns of b). The elements of a are from 0 to `size`,
    and those of b are from 0 to 1. With `has_both_signs`, the elements of both are from -1 to 1. If
    `feature` is not 0, the first term of each sum is `feature * partner`.
    """
    m, k, n = sizes
    a = draw((m, k)) * size
    b = draw((k, n))
    a[0] *= 0.1  # This makes one row of the result smaller.
    if has_both_signs:
        a, b = 2 * a - 1, 2 * b - 1
    if feature:
        a[:, 0] = feature
        b[0] = partner
    return a.astype(np.float16), b.astype(np.float16)


@cache
def _operands() -> tuple[Operands, ...]:
    draw = partial(_drawn, np.random.default_rng(1105).random)
    plain_sizes = (26, 512, 26)
    large = partial(draw, plain_sizes, 0.25, 64)
    negative = partial(draw, plain_sizes, -0.25, -64)
    # If the operands have both signs, an element of the result near 0 has a large relative error.
    both_signs = partial(draw, plain_sizes, has_both_signs=True)
    loose = "one large feature, and a loose limit"
    strict = "one large negative feature, and a strict limit"
    return (
        Operands("plain numbers", *draw(plain_sizes), 0.005),
        Operands("one large feature", *large(), 0.002),
        Operands("a short sum", *draw((39, 64, 26), 0.25, 64), 0.005),
        Operands(loose, *large(), 0.03),
        Operands("small numbers", *draw((26, 512, 39), 2.0**-6), 0.005),
        Operands(
            "small numbers, one feature larger", *draw((26, 768, 26), 2.0**-8, 1, 0.5), 0.0009
        ),
        Operands("numbers of both signs", *both_signs(), 0.002),
        Operands("numbers of both signs, and a loose limit", *both_signs(), 0.01),
        # The limit is between the error of the device and the error of an implementation that
        # rounds once after sixteen products.
        Operands("one large feature, and a looser limit", *large(), 0.006),
        # On the device, the error of HALF is 0.0043 relative to the exact product, and 0.0048
        # relative to the product computed in float16. The limit is between these two errors.
        Operands("one large negative feature", *negative(), 0.0047),
        # In this product, all results are negative, and the error of HALF is too large.
        Operands(strict, *negative(), 0.002),
        # The limit is above the error relative to the mean result, and below 512 * 2**-17.
        Operands("numbers of both signs, and a looser limit", *both_signs(), 0.0035),
    )


@cache
def _near_operands() -> tuple[Operands, ...]:
    """Return products whose allowed error is a little below or a little above the error of HALF.

    Only an answer that measures the error of the product itself decides right in both cases.
    """
    plain, _, short, *_ = _operands()
    return tuple(
        Operands(f"{product.said}, and a limit {side} the error of HALF", product.a, product.b, e)
        for product in (plain, short)
        for side, share in (("just below", 0.97), ("just above", 1.03))
        for e in [share * multiplied(product, HALF)[0]]
    )


@cache
def multiplied(product: Operands, partials: type[DType]) -> tuple[float, int]:
    """Return (error, modelled cycles) of a product on the device.

    The error is relative to the largest result.
    """
    graph = graph_of()
    program = Steps()
    tensors = [graph.add_variable(HALF, part.shape) for part in (product.a, product.b)]
    for tensor, values in zip(tensors, (product.a, product.b), strict=True):
        linearly(graph, tensor)
        graph.set_initial_value(tensor, values)
    out = poplin.mat_mul(graph, tensors[0], tensors[1], program, partials_type=partials)
    graph.create_host_read("out", out)
    engine = run_once(graph, program)
    exact = product.a.astype(np.float64) @ product.b.astype(np.float64)
    off = np.abs(engine.read_tensor("out") - exact).max() / np.abs(exact).max()
    return float(off), int(engine.report.total_cycles)


def _chosen(answer: Callable[[Array, Array, float], type[DType]]) -> Passed:
    operands = (*_operands(), *_near_operands())
    cases = [(p.a, p.b, p.error) for p in operands]
    # Some of the known mistakes can be told apart only with these allowed errors.
    more = [(p.a, p.b, error) for p, error in zip(_operands()[1:3], (0.0019, 0.003), strict=True)]
    actual = [call(answer, *case) for case in cases]

    @cache
    def chosen_for_more() -> list[type[DType]]:
        return [call(answer, *case) for case in more]

    def chooses_alike(like: Callable[[Array, Array, float], type[DType]]) -> bool:
        return all(like(*case) is dtype for case, dtype in zip(cases, actual, strict=True)) and all(
            like(*case) is dtype for case, dtype in zip(more, chosen_for_more(), strict=True)
        )

    refused = refusing("11.5", chooses_alike)
    yours = best = 0
    # The products for which the answer chose FLOAT, although HALF is enough.
    slower = []
    for product, learner_run in zip(operands, actual, strict=True):
        m, k = product.a.shape
        n = product.b.shape[1]
        description = f"{product.said}, {m} x {k} by {k} x {n}, off by {product.error:.2%} at most"
        if learner_run not in (HALF, FLOAT):
            raise NotYet(
                description,
                returned(learner_run, ""),
                expected="HALF or FLOAT",
                next_step="return the dtype.",
            )
        off, cycles = multiplied(product, learner_run)
        if off > product.error:
            message = f"{learner_run.__name__}, which is off by {off:.2%}"
            why = (
                "here sums in HALF are not exact enough: small terms are lost next to a large sum."
            )
            advice = "run the product with HALF, and compute its error."
            wanted = f"{product.error:.2%} at most"
            raise refused(description, message, wanted, advice, why=why)
        yours += cycles
        half_off, half_cycles = multiplied(product, HALF)
        best += half_cycles if half_off <= product.error else multiplied(product, FLOAT)[1]
        if learner_run is FLOAT and half_off <= product.error and half_cycles < cycles:
            slower.append((description, f"HALF, which is off by {half_off:.2%}"))
    bars = Bars(round(1.02 * best), yours, f"{MODELLED} in all")
    if yours > bars.budget:
        why = "here sums in HALF are exact enough, and faster."
        advice = "print the number that your function compares with `error`, for this product."
        description, wanted = slower[0]
        raise refused(description, "FLOAT", wanted, advice, why=why, bars=bars)
    names = [learner_run.__name__ for learner_run in actual]
    return Passed(f"{len(cases)} products", bars, names)


# --- 11.6 -----------------------------------------------------------------------------------------

STEPS = 3
RATE = 0.4
SIZES = (1.0, 2.0**-9, 900.0)  # The factors of the targets, one for each training.
NEAR = 0.1  # The allowed error, relative to the loss in double precision.


class _Wrong(NotYet):
    """Raised if a tensor is converted to 8 bits in a wrong way; it ends the training."""


# A function that returns the new w, called with (w, x, t, rate, function that converts a tensor to
# 8 bits).
Update = Callable[..., Array]


@dataclass
class Descent:
    """An answer's training steps of a linear regression, with the tensors it converted to 8 bits.

    `size` is the factor of the targets.
    """

    answer: Update
    size: float

    def __post_init__(self) -> None:
        draw = np.random.default_rng(1106).standard_normal
        self.x = draw((48, 20))
        self.t = (self.x @ draw((20, 6)) + 0.01 * draw((48, 6))) * self.size
        self.w = draw((20, 6)) * 0.01 * self.size
        # The weights at the beginning of the current step.
        self.now = self.w
        self.weights = list[Array]()
        self.casts = list[tuple[str, QuarterFormat, int]]()
        self.last: tuple[Array, QuarterFormat] | None = None
        self.wrong: NotYet | None = None
        name = name_of(self.answer)
        largest = float(np.abs(self.t).max())
        self.tried = f"{name}, {STEPS} steps, targets of up to {largest:.3g}"
        try:
            for _ in range(STEPS):
                self.weights.append(self._step(self.weights[-1] if self.weights else self.w))
        except _Wrong as wrong:
            self.wrong = wrong

    def _step(self, w: Array) -> Array:
        """Return the weights after one training step of the answer.

        :raises _Wrong: if a tensor was converted in another way than required, or not at all.
        """
        before = len(self.casts)
        self.now = w

        # `call` copies its arguments, including bound methods, but not plain functions. So `eight`
        # is a plain function.
        def eight(values: Array, form: QuarterFormat, scale: int) -> Array:
            return self._eight(values, form, scale)

        operands = (w, self.x, self.t)
        updated = call(self.answer, *operands, RATE, eight)
        if not isinstance(updated, np.ndarray) or updated.shape != w.shape:
            actual = (
                f"shape {updated.shape}"
                if isinstance(updated, np.ndarray)
                else returned(updated, "")
            )
            expected = f"the new w, of shape {w.shape}"
            raise NotYet(self.tried, actual, expected=expected, next_step="return w.")
        converted = [name for name, *_ in self.casts[before:]]
        for name in ("x", "w", "error"):
            if name not in converted and (name != "x" or not before):
                why = "both operands of a product must have 8 bits."
                advice = f"pass {name} through eight() before it is multiplied."
                raise _Wrong(self.tried, f"{name} was not converted to 8 bits", "", why, advice)
        return updated

    def _eight(self, values: Array, form: QuarterFormat, scale: int) -> Array:
        """Return `values` rounded to the 8-bit format `form` with this scale.

        :raises _Wrong: if the exercise asks for another format or scale for these values.
        """
        metadata = QuarterMetadata(form, scale)
        self.last = (values, form)
        name = self.name_of(values)
        self.casts.append((name, form, scale))
        if name == "w" and not any(np.array_equal(values, w) for w in (self.now, self.now.T)):
            why = (
                "a tensor with the shape of w, but other values, was converted. Only x, w and the "
                "error are operands of products."
            )
            advice = "subtract the gradient from w without eight()."
            message = "the gradient, or another tensor, was converted to 8 bits"
            raise _Wrong(self.tried, message, "x, w and the error", why, advice)
        format_wanted = F152 if name == "error" else F143
        if form is not format_wanted:
            actual = f"{name} as {getattr(form, 'name', shown(form))}"
            advice = f"pass the form {format_wanted.name} to eight() for {name}."
            raise _Wrong(self.tried, actual, f"as {format_wanted.name}", "", advice)
        if np.array_equal(values, self.t):
            why = "t is subtracted, not multiplied, so it need not have 8 bits."
            advice = "subtract t without eight()."
            raise _Wrong(self.tried, "t was converted to 8 bits", "x, w and the error", why, advice)
        largest = Fraction(float(np.abs(values).max()))
        right = scale_for(largest, form)
        finer = scale == right - 1 and largest < Fraction(form.grid.limit) * Fraction(2) ** scale
        if scale != right and not finer:
            actual = f"{name}, up to {float(largest):.4g}, with the scale {quoted(scale)}"
            small = scale < right
            other = F143 if form is F152 else F152
            why = "a smaller scale is enough for the largest value, and keeps more small values."
            if small:
                why = "with this scale, the largest value becomes NaN."
            elif scale == scale_for(largest, other):
                why = (
                    f"this is the scale for {other.name}, whose largest number is not that of "
                    f"{form.name}."
                )
            advice = (
                "compute the scale from this tensor in each step: numbers.best_scale(values, "
                f"{form.name})."
            )
            raise _Wrong(self.tried, actual, f"the scale {right}", why, advice)
        return from_quarter(to_quarter(values, metadata), metadata).astype(np.float64)

    def name_of(self, values: Array) -> str:
        """Return the name of the tensor that has the shape of `values` or of its transpose."""
        shapes = {self.x.shape: "x", self.w.shape: "w", self.t.shape: "error"}
        shape = np.shape(values)
        return shapes.get(shape) or shapes.get(shape[::-1], "another tensor")

    def like(self, descent: Descent) -> bool:
        """Return whether another answer gave the same results and converted the same tensors."""
        pairs = zip(self.weights, descent.weights, strict=False)
        same = all(np.allclose(a, b, rtol=1e-9, atol=0, equal_nan=True) for a, b in pairs)
        return same and {*self.casts} == {*descent.casts}

    def loss(self, w: Array) -> float:
        """Return half the mean squared error with the weights `w`."""
        return float(((self.x @ w - self.t) ** 2).mean() / 2)

    @property
    def exact(self) -> float:
        """The loss after the same number of steps, if they are computed in float64."""
        w = self.w
        for _ in range(STEPS):
            w = w - RATE / len(self.x) * self.x.T @ (self.x @ w - self.t)
        return self.loss(w)


def scale_for(largest: Fraction, form: QuarterFormat) -> int:
    """Return the smallest scale at which the magnitude `largest` fits into the 8-bit format."""
    end = Fraction(form.grid.largest)
    return next(s for s in range(-32, 32) if largest <= end * Fraction(2) ** s)


def _refuse_wide(answer: Update, descent: Descent) -> None:
    """Raise `NotYet` if a product uses an original tensor instead of its 8-bit version.

    The answer runs three more steps. In each of them, the conversion to 8 bits replaces one of x, w
    and the error by 0. A product that still depends on this tensor uses the original.
    """

    def step(zero: str) -> tuple[Array, list[tuple[str, Array, Array]]]:
        """Return (new w, converted tensors) of a step in which `zero` becomes 0 in 8 bits.

        Each converted tensor is (name, original, 8-bit version). A tensor that the answer
        transposed is transposed back.
        """
        converted: list[tuple[str, Array, Array]] = []
        shapes = [part.shape for part in (descent.w, descent.x, descent.t)]

        def eight(values: Array, form: QuarterFormat, scale: int) -> Array:
            name = descent.name_of(values)
            metadata = QuarterMetadata(form, scale)
            narrow: Array = from_quarter(to_quarter(values, metadata), metadata).astype(np.float64)
            narrow *= name != zero
            is_transposed = np.shape(values) not in shapes
            wide, rounded = (np.array(a.T if is_transposed else a) for a in (values, narrow))
            converted.append((name, wide, rounded))
            return narrow

        return call(answer, descent.w, descent.x, descent.t, RATE, eight), converted

    for zero, product in (("x", "x @ w"), ("w", "x @ w"), ("error", "")):
        updated, converted = step(zero)
        if zero not in [name for name, *_ in converted]:
            continue  # The answer has converted x in an earlier call.
        errors = [values for name, values, _ in converted if name == "error"]
        rounded = [narrow for name, _, narrow in converted if name == "w" != zero]
        if any(np.allclose(updated, narrow, rtol=1e-9, atol=0) for narrow in rounded):
            raise NotYet(
                descent.tried,
                "the new w is w in 8 bits, minus the step",
                expected="w itself, minus the step",
                why="the returned w was rounded to 8 bits, so small steps are lost.",
                next_step=(
                    "subtract the step from w itself, and convert only the operands of products."
                ),
            )
        is_wide = product and not any(_is_multiple(error, descent.t) for error in errors)
        if not is_wide and zero != "w" and not np.allclose(updated, descent.w, rtol=1e-9, atol=0):
            is_wide, product = True, "x.T @ error"
        if is_wide:
            raise NotYet(
                descent.tried,
                f"{product} uses {zero} without conversion",
                expected=f"{product} of 8-bit numbers",
                why=(
                    f"the product does not use the 8-bit {zero}: it is not 0 if eight() returns "
                    f"zeros for {zero}."
                ),
                next_step=f"multiply the array that eight() returns for {zero}.",
            )


def _is_multiple(values: Array, of: Array) -> bool:
    """Return whether the array `values` is a multiple of the array `of`, except for rounding."""
    norms = float(np.linalg.norm(values) * np.linalg.norm(of))
    return values.shape == of.shape and abs(float((values * of).sum())) >= (1 - 1e-9) * norms > 0


def _in_eight_bits(answer: Update) -> Passed:
    descents = [Descent(answer, size) for size in SIZES]

    def descends_alike(like: Update) -> bool:
        return all(Descent(like, descent.size).like(descent) for descent in descents)

    for learner_run in descents:
        fault = learner_run.wrong
        if fault is None:
            loss = learner_run.loss(learner_run.weights[-1])
            right = learner_run.exact
            if abs(loss - right) <= NEAR * right:
                continue
            fault = NotYet(
                learner_run.tried,
                f"a loss of {loss:.4g}",
                expected=f"{right:.4g}, within {NEAR:.0%}",
                next_step="call step with eight=lambda values, form, scale: values, and compare "
                "its w with w - rate / len(x) * x.T @ (x @ w - t).",
            )
        refused = refusing("11.6", descends_alike)
        message = dict(fault.rows)
        last = learner_run.last
        draws = None
        if last and learner_run.wrong:
            draws = partial(show.formats, last[0], QUARTER[last[1], 0])
        telling = (message[row] for row in ("came", "expected", "next", "why"))
        raise refused(learner_run.tried, *telling, draws=draws)
    _refuse_wide(answer, descents[0])
    words = (
        f"{STEPS} steps at 3 sizes: losses within {NEAR:.0%} of those of wide numbers, and both "
        "products of 8-bit numbers"
    )
    return Passed(
        words,
        evidence=[np.round(descent.weights[-1] / descent.size, 6) for descent in descents],
    )


# Maps the number of mantissa bits of a format to the format's numbers.
NUMBERS = {form.grid.mantissa_bits: numbers(form) for form in QuarterFormat}


LESSON = lesson(
    "11",
    question("11.0", (PredictedValue("to nearest"), PredictedValue("at random, on average"))),
    exercise(
        "11.w1",
        warmups.formula(
            "11.w1",
            lambda value, below, above: (value - below) / (above - below),
            (0.4, 0.25, 0.5),
            (-0.4, -0.5, -0.25),
            (2049.5, 2048, 2050),
            (3, 3, 4),
            more=[
                (0.7, 0.5, 1.1),
                *(
                    (below + part * gap, below, below + gap)
                    for below in (-2, -0.5, 0, 0.25, 0.5, 2048)
                    for gap in (0.25, 0.5, 0.75, 1, 3)
                    for part in (0, 0.125, 0.25, 0.5, 0.875)
                ),
            ],
        ),
    ),
    exercise("11.1", _chances),
    exercise("11.2", _walk),
    question("11.2", (PredictedValue("", "numbers", whole=True, low=0),)),
    exercise(
        "11.w2",
        warmups.formula(
            "11.w2",
            lambda code, bits, bias: float(NUMBERS[bits][code]),
            (0x4D, 3, 8),
            (0x96, 2, 16),
            (0xF9, 3, 8),
            (0x03, 3, 8),
            (0x81, 2, 16),
            (0x7F, 2, 16),
            (0, 3, 8),
            (0x80, 3, 8),
            more=[(code, *bits) for bits in BITS.values() for code in range(256)],
        ),
    ),
    exercise("11.3", _bytes),
    exercise(
        "11.w3",
        warmups.formula(
            "11.w3",
            lambda largest: 2.0 ** fitting_power(largest, 65504),
            (0.013,),
            (3.0,),
            (65504.0,),
            (63.96875,),
            (63.9692,),
            (65504.5,),
            (1e-6,),
            (90_000.0,),
            (300_000.0,),
            more=[
                *((float(largest),) for largest in range(1, 40)),
                *((65504 / 2.0**k * near,) for k in range(-3, 40) for near in (0.9999, 1, 1.0001)),
            ],
        ),
    ),
    exercise("11.4", _scaled),
    question("11.5", (PredictedValue("", "times", low=1, high=4),)),
    exercise("11.5", _chosen),
    exercise("11.6", _in_eight_bits),
)
