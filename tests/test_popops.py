"""Operations on elements, expressions and what is made of them, against Python's integers and
numpy's float64."""

from __future__ import annotations

import inspect
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from libraries import value
from poplibs_bench import NUMERIC, RANDOMLY, SHAPES, VIEWS, Bench, as_view, assert_same_bits, sample

from ipu_teach import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    QUARTER,
    SIGNED_CHAR,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    Engine,
    Graph,
    IPUModel,
    Tensor,
)
from ipu_teach.cost.vertices import rates
from ipu_teach.poplibs import popops, poputil
from ipu_teach.poplibs.popops import expr, operations
from ipu_teach.poplibs.popops.fused import loop_cycles
from ipu_teach.program import Copy, Sequence
from ipu_teach.types import Array, DType

WHOLE = (*(d for d in NUMERIC if d not in (FLOAT, HALF)), SIGNED_CHAR)
SEEDS = st.integers(0, 2**32 - 1)


def wide(fn: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python's math for arrays of float64; NaN where it has no result."""

    def each(x: float) -> float:
        try:
            return fn(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return lambda values: np.array([each(v) for v in values.reshape(-1).tolist()]).reshape(
        values.shape
    )


def gelu(x: float) -> float:
    return 0.5 * x * math.erfc(-x / math.sqrt(2)) if abs(x) < 1e30 else (x if x > 0 else 0.0 * x)


def away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x) if math.isfinite(x) else x


# Each function by its name, its operation, and the same in float64, by Python's math where numpy's
# is what the kit uses.
UNARY: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "abs": ("ABSOLUTE", np.abs),
    "asin": ("ASIN", wide(math.asin)),
    "cbrt": ("CBRT", np.cbrt),
    "ceil": ("CEIL", np.ceil),
    "cos": ("COS", wide(math.cos)),
    "erf": ("ERF", wide(math.erf)),
    "exp": ("EXPONENT", wide(math.exp)),
    "exp2": ("EXPONENT2", wide(lambda x: math.pow(2, x))),
    "expm1": ("EXPONENT_MINUS_ONE", wide(math.expm1)),
    "floor": ("FLOOR", np.floor),
    "gelu_erf": ("GELU_ERF", wide(gelu)),
    "inv": ("INVERSE", lambda x: 1 / x),
    "log": ("LOGARITHM", np.log),
    "log1p": ("LOGARITHM_ONE_PLUS", np.log1p),
    "nearby_int": ("NEARBY_INT", np.round),
    "neg": ("NEGATE", lambda x: -x),
    "relu": ("RELU", lambda x: np.where(np.isnan(x), x, np.where(x > 0, x, 0))),
    "round": ("ROUND", wide(away)),
    "rsqrt": ("RSQRT", lambda x: 1 / np.sqrt(x)),
    "sigmoid": ("SIGMOID", lambda x: 0.5 * (1 + np.tanh(0.5 * x))),
    "signum": ("SIGNUM", lambda x: np.where(np.isnan(x), x, (x > 0) * 1.0 - (x < 0) * 1.0)),
    "sin": ("SIN", wide(math.sin)),
    "sqrt": ("SQRT", wide(math.sqrt)),
    "square": ("SQUARE", lambda x: x * x),
    "tan": ("TAN", wide(math.tan)),
    "tanh": ("TANH", wide(math.tanh)),
    "trunc": ("TRUNC", np.trunc),
}
ASKING = {"is_finite": math.isfinite, "is_inf": math.isinf, "is_nan": math.isnan}
NOT_EVERYWHERE = {"sigmoid": -16.0, "gelu_erf": -5.0}  # below, the reference here loses bits itself


def within(got: Array, exact: Array, ulps: float) -> None:
    """Finite results within so many units of their last place; the rest equal."""
    finite = np.isfinite(exact) & np.isfinite(got)
    largest = np.finfo(got.dtype).max
    assert np.array_equal(np.isnan(got), np.isnan(exact))
    assert np.all(
        np.where(np.isnan(exact) | finite | (np.abs(exact) > largest), True, got == exact)
    )
    assert np.all(
        np.abs(got[finite].astype(np.float64) - exact[finite])
        <= ulps * np.spacing(np.abs(exact[finite]).astype(got.dtype))
    )


@pytest.mark.parametrize("name", sorted(UNARY))
def test_every_half_gives_the_exact_result_rounded_once(name: str) -> None:
    """All 65,536 of them, on 13 tiles. At most one unit of the last place off where the reference
    itself is not exact."""
    bench = Bench()
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    out = getattr(popops, name)(bench.graph, bench.variable(x, HALF), bench.prog)
    got = bench.run(out)[0]
    with np.errstate(all="ignore"):
        exact = UNARY[name][1](x.astype(np.float64))
        wanted = exact.astype(np.float16)
    kept = ~(x < NOT_EVERYWHERE.get(name, -np.inf))
    if name in (
        "erf",
        "gelu_erf",
        "sigmoid",
        "cbrt",
        "exp2",
        "log",
        "log1p",
        "expm1",
        "sin",
        "cos",
        "tan",
        "asin",
        "tanh",
        "exp",
    ):
        nans = np.isnan(wanted)
        assert np.array_equal(np.isnan(got)[kept], nans[kept])
        differs = kept & ~nans & (got != wanted)
        near_tie = np.abs(
            exact - (got.astype(np.float64) + wanted.astype(np.float64)) / 2
        ) <= 1e-12 * np.abs(exact)
        assert not np.any(differs & ~near_tie)
    else:
        assert np.array_equal(
            got.view(np.uint16)[~np.isnan(wanted) & (wanted != 0)],
            wanted.view(np.uint16)[~np.isnan(wanted) & (wanted != 0)],
        )
        assert np.array_equal(np.isnan(got), np.isnan(wanted)) and np.all(got[wanted == 0] == 0)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_floats_are_near_the_exact_result(name: str) -> None:
    bench, rng = Bench(), np.random.default_rng(5)
    spread = rng.standard_normal(4001) * 10.0 ** rng.uniform(-6, 1.2, 4001)
    x = np.concatenate(
        [spread, [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 0.49999997, np.inf, -np.inf, np.nan, 3e38, 1e-40]]
    ).astype(np.float32)
    x = x[~(x < NOT_EVERYWHERE.get(name, -np.inf))]
    a = bench.variable(x)
    out = getattr(popops, name)(bench.graph, a, bench.prog)
    getattr(popops, f"{name}_in_place")(bench.graph, a, bench.prog)
    fast, slow = bench.run(out, a), bench.run(out, a, vertex_loop=True)
    with np.errstate(all="ignore"):
        exact = UNARY[name][1](x.astype(np.float64))
    keep = (np.abs(x) < 1e6) | (name not in ("cos", "sin", "tan"))
    within(fast[0][keep], exact[keep], 4)
    for got in (fast[1], *slow):
        assert_same_bits(got, fast[0])


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
@pytest.mark.parametrize("name", sorted(ASKING))
def test_questions_about_floats(name: str, dtype: type[DType]) -> None:
    bench = Bench()
    x = np.array([0, 1, -1, np.inf, -np.inf, np.nan, 65504, 6e-8] * 7, dtype.numpy)
    got = bench.run(getattr(popops, name)(bench.graph, bench.variable(x, dtype), bench.prog))[0]
    assert_same_bits(got, np.array([ASKING[name](v) for v in x.tolist()]))


def wrapped(value: int, dtype: type[DType]) -> int:
    """A Python integer as the dtype holds it."""
    bits = 8 * dtype.size
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.numpy.kind == "i" and value >> (bits - 1) else value


def bits_of(value: int, dtype: type[DType]) -> int:
    return value & ((1 << 8 * dtype.size) - 1)


def quotient(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def raised(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)


WHOLE_UNARY: dict[str, Callable[[int, type[DType]], int]] = {
    "abs": lambda a, d: abs(a),
    "bitwise_not": lambda a, d: ~a,
    "count_leading_zeros": lambda a, d: 8 * d.size - bits_of(a, d).bit_length(),
    "neg": lambda a, d: -a,
    "popcount": lambda a, d: bits_of(a, d).bit_count(),
    "relu": lambda a, d: max(a, 0),
    "signum": lambda a, d: (a > 0) - (a < 0),
    "square": lambda a, d: a * a,
}
WHOLE_BINARY: dict[str, Callable[[int, int, type[DType]], Any]] = {
    "add": lambda a, b, d: a + b,
    "sub": lambda a, b, d: a - b,
    "mul": lambda a, b, d: a * b,
    "div": lambda a, b, d: quotient(a, b),
    "rem": lambda a, b, d: a - quotient(a, b) * b if b else 0,
    "pow": lambda a, b, d: raised(a, b),
    "max": lambda a, b, d: max(a, b),
    "min": lambda a, b, d: min(a, b),
    "bitwise_and": lambda a, b, d: a & b,
    "bitwise_or": lambda a, b, d: a | b,
    "bitwise_xor": lambda a, b, d: a ^ b,
    "bitwise_xnor": lambda a, b, d: ~(a ^ b),
    "shift_left": lambda a, b, d: a << b,
    "shift_right": lambda a, b, d: bits_of(a, d) >> b,
    "shift_right_sign_extend": lambda a, b, d: a >> b,
    "eq": lambda a, b, d: a == b,
    "neq": lambda a, b, d: a != b,
    "lt": lambda a, b, d: a < b,
    "lteq": lambda a, b, d: a <= b,
    "gt": lambda a, b, d: a > b,
    "gteq": lambda a, b, d: a >= b,
}
ASKS = {"eq", "neq", "lt", "lteq", "gt", "gteq"}


def whole_sample(rng: np.random.Generator, count: int, dtype: type[DType]) -> Array:
    bounds = np.iinfo(dtype.numpy)
    anywhere, near = sample(rng, (count,), dtype), rng.integers(0, 9, count).astype(dtype.numpy)
    corners = np.array([bounds.min, bounds.max, 0, 1, bounds.min, bounds.max - 1], dtype.numpy)
    if dtype.numpy.kind == "i":
        near = near - dtype.numpy.type(4)
    return np.concatenate([anywhere, near, corners])


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("name", sorted(WHOLE_UNARY))
def test_integers_of_one_operand_wrap(name: str, dtype: type[DType]) -> None:
    bench = Bench()
    x = whole_sample(np.random.default_rng(1), 61, dtype)
    a = bench.variable(x, dtype)
    out = getattr(popops, name)(bench.graph, a, bench.prog)
    getattr(popops, f"{name}_in_place")(bench.graph, a, bench.prog)
    wanted = np.array(
        [wrapped(WHOLE_UNARY[name](v, dtype), dtype) for v in x.tolist()], dtype.numpy
    )
    for got in (*bench.run(out, a), *bench.run(out, a, vertex_loop=True)):
        assert_same_bits(got, wanted)
    bench.check_mapped(out)


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("name", sorted(WHOLE_BINARY))
def test_integers_of_two_operands_wrap(name: str, dtype: type[DType]) -> None:
    bench, rng = Bench(), np.random.default_rng(2)
    x, y = whole_sample(rng, 41, dtype), rng.permutation(whole_sample(rng, 41, dtype))
    x, y = (
        np.concatenate([x, x[-2:]]),
        np.concatenate([y, y[:0], x[-6:-5] * 0, x[:1] * 0 - dtype.numpy.type(1)]),
    )
    if name.startswith("shift"):
        y = (y % dtype.numpy.type(8 * dtype.size)).astype(dtype.numpy)
    function = getattr(popops, name)
    a, b = bench.variable(x, dtype), bench.variable(y, dtype)
    number = 3
    outs = [
        function(bench.graph, a, b, bench.prog),
        function(bench.graph, a, number, bench.prog),
        function(bench.graph, number, a, bench.prog),
    ]
    pairs = [(x, y), (x, np.full_like(x, number)), (np.full_like(x, number), x)]
    if name.startswith("shift"):
        outs, pairs = outs[:2], pairs[:2]
    if name not in ASKS:
        getattr(popops, f"{name}_in_place")(bench.graph, a, b, bench.prog)
        outs, pairs = [*outs, a], [*pairs, pairs[0]]
    fast, slow = bench.run(*outs), bench.run(*outs, vertex_loop=True)
    for got, loop, (left, right) in zip(fast, slow, pairs, strict=True):
        exact = [
            WHOLE_BINARY[name](p, q, dtype)
            for p, q in zip(left.tolist(), right.tolist(), strict=True)
        ]
        wanted = (
            np.array(exact)
            if name in ASKS
            else np.array([wrapped(v, dtype) for v in exact], dtype.numpy)
        )
        assert_same_bits(got, wanted)
        assert_same_bits(loop, wanted)


def float_power(a: Array, b: Array) -> Array:
    return np.power(a, b)


FLOAT_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rem": np.fmod,
    "pow": float_power,
    "max": np.maximum,
    "min": np.minimum,
    "atan2": np.arctan2,
    "inv_std_dev_to_variance": lambda a, b: 1 / (a * a) - b,
    "variance_to_inv_std_dev": lambda a, b: 1 / np.sqrt(a + b),
    "eq": lambda a, b: a == b,
    "neq": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "lteq": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "gteq": lambda a, b: a >= b,
}


@pytest.mark.parametrize("dtype", [HALF, FLOAT])
@pytest.mark.parametrize("name", sorted(FLOAT_BINARY))
def test_two_floats_against_float64(name: str, dtype: type[DType]) -> None:
    bench, rng = Bench(), np.random.default_rng(3)
    special = np.array(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 6e-8, 65504.0, 2049.0, 1 / 3]
    )
    x = np.concatenate([sample(rng, (1000,), dtype), np.repeat(special, 11).astype(dtype.numpy)])
    y = np.concatenate([sample(rng, (1000,), dtype), np.tile(special, 11).astype(dtype.numpy)])
    a, b = bench.variable(x, dtype), bench.variable(y, dtype)
    got = bench.run(getattr(popops, name)(bench.graph, a, b, bench.prog))[0]
    with np.errstate(all="ignore"):
        exact = FLOAT_BINARY[name](x.astype(np.float64), y.astype(np.float64))
    if name in ASKS:
        assert_same_bits(got, exact)
    elif dtype is HALF:
        with np.errstate(all="ignore"):
            wanted = exact.astype(np.float16)
        # which of two zeros is the larger one is open
        keep = ~((wanted == 0) & (name in ("max", "min")))
        assert_same_bits(got[keep], wanted[keep])
    else:
        within(got, exact, 2)


@pytest.mark.parametrize(
    "name", ["logical_and", "logical_or", "eq", "neq", "lt", "lteq", "gt", "gteq"]
)
def test_truth_tables(name: str) -> None:
    bench = Bench()
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    a, b = bench.variable(x, BOOL), bench.variable(y, BOOL)
    wanted = {"logical_and": x & y, "logical_or": x | y}.get(name)
    wanted = (
        np.array([WHOLE_BINARY[name](int(p), int(q), INT) for p, q in zip(x, y, strict=True)])
        if wanted is None
        else wanted
    )
    out = getattr(popops, name)(bench.graph, a, b, bench.prog)
    getattr(popops, f"{name}_in_place")(bench.graph, a, b, bench.prog)
    for got in bench.run(out, a):
        assert_same_bits(got, wanted)
    assert bench.run(popops.logical_not(bench.graph, b, bench.prog))[0].tolist() == [
        True,
        False,
        True,
        False,
    ]


FORMS = [
    name
    for name in popops.__all__
    if name.endswith("_with_output") and hasattr(popops, name.removesuffix("_with_output"))
]
ELEMENTWISE = [
    n
    for n in FORMS
    if n.split("_with")[0] not in ("cast", "map", "reduce", "select", "clamp", "dynamic_slice")
]


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (13, 7)])
def test_with_output_writes_what_the_new_tensor_holds(name: str, shape: tuple[int, ...]) -> None:
    bench, rng = Bench(5), np.random.default_rng(4)
    plain = getattr(popops, name.removesuffix("_with_output"))
    bools = "logical" in name
    dtype = (
        BOOL if bools else INT if "bitwise" in name or "shift" in name or "count" in name else FLOAT
    )
    x = rng.random(shape) < 0.5 if bools else rng.integers(1, 9, shape).astype(dtype.numpy)
    operands = [bench.variable(x, dtype) for p in inspect.signature(plain).parameters if p in "ab"]
    first = plain(bench.graph, *operands, bench.prog)
    out = bench.graph.add_variable(first.dtype, shape)
    bench.graph.set_tile_mapping(out, 3)
    getattr(popops, name)(bench.graph, *operands, out, bench.prog)
    got = bench.run(first, out)
    assert_same_bits(got[1], got[0])
    bench.check_mapped(first)


def test_every_operation_has_an_estimate_or_one_that_is_assumed() -> None:
    tables = {1: (rates.UNARY, rates.UNARY_IN_PLACE), 2: (rates.BINARY, rates.BROADCAST)}
    assumed = set()
    for operation in (*operations.UNARY.values(), *operations.BINARY.values()):
        for dtype in [d for d in (*NUMERIC, BOOL) if operation.accepts(d)]:
            for table in tables[operation.arity]:
                name, kind = operations.rated(table, operation, dtype)
                operations.find(table, name, kind, "here")
                if name != operation.name:
                    assumed.add(operation.name)
    assert assumed == {"INV_STD_DEV_TO_VARIANCE", "VARIANCE_TO_INV_STD_DEV"}
    assert not any(o.accepts(QUARTER) for o in operations.OPERATIONS.values())


def test_every_function_says_what_it_does() -> None:
    for name in popops.__all__:
        found = getattr(popops, name)
        if callable(found):
            text = inspect.getdoc(found)
            assert text and len(text) > 20, name
            assert text.split("\n\n")[0].rstrip().endswith((".", ":")), name
            if inspect.isfunction(found):
                assert found.__name__ == name
                context = inspect.signature(found).parameters.get("debug_context")
                assert context is None or context.default


# --- expressions ----------------------------------------------------------------------------------

MAPS: dict[str, tuple[expr.Expr, Callable[..., Array]]] = {
    "Add(_1, Mul(_2, 3))": (expr._1 + expr._2 * 3, lambda a, b: a + b * a.dtype.type(3)),
    "Tanh(Sub(_1, _2))": (expr.Tanh(expr._1 - expr._2), lambda a, b: rounded(np.tanh, a - b)),
    "Select(_1, _2, Lt(_1, _2))": (
        expr.Select(expr._1, expr._2, expr._1 < expr._2),
        lambda a, b: np.where(a < b, a, b),
    ),
    "Clamp(_1, -1, Abs(_2))": (
        expr.Clamp(expr._1, -1, abs(expr._2)),
        lambda a, b: np.minimum(np.maximum(a, a.dtype.type(-1)), np.abs(b)),
    ),
    "Divide(1.0, Add(1.0, Exp(Neg(_1))))": (
        1.0 / (1.0 + expr.Exp(-expr._1)),
        lambda a, b: a.dtype.type(1) / (a.dtype.type(1) + rounded(np.exp, -a)),
    ),
    "And(Gte(_1, 0), NotEqual(_2, _1))": (
        expr.And(expr._1 >= 0, expr._2 != expr._1),
        lambda a, b: (a >= 0) & (b != a),
    ),
    "Cast(_1, INT)": (expr.Cast(expr._1, INT), lambda a, b: a.astype(np.int32)),
    "Mul(Cast(_1, FLOAT), 0.1)": (
        expr.Cast(expr._1, FLOAT) * 0.1,
        lambda a, b: a.astype(np.float32) * np.float32(0.1),
    ),
}


def rounded(fn: Any, x: Array) -> Array:
    return fn(x) if x.dtype == np.float32 else fn(x.astype(np.float64)).astype(np.float16)


WITH_OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: 9 - a,
    lambda a, b: 3 * b,
    lambda a, b: a % b,
    lambda a, b: a | b,
    lambda a, b: a ^ b,
    lambda a, b: a & ~b,
    lambda a, b: a << b % 4,
    lambda a, b: a >> 1,
    lambda a, b: a <= b,
    lambda a, b: a > b,
]


def test_operators_mean_what_they_mean_everywhere() -> None:
    a, b = np.array([0, 7, 12, 90, 5], np.int32), np.array([3, 7, 5, 64, 6], np.int32)
    for of in WITH_OPERATORS:
        found = value(
            lambda g, p, x, y, of=of: popops.map(g, of(expr._1, expr._2), [x, y], p),
            (a, INT),
            (b, INT),
        )
        np.testing.assert_array_equal(found, of(a, b))
    found = value(lambda g, p, x: popops.map(g, expr._1**3 / 2, [x], p), (a, FLOAT))
    np.testing.assert_array_equal(found, a.astype(np.float64) ** 3 / 2)


@pytest.mark.parametrize("text", sorted(MAPS))
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (37, 5)])
def test_map_is_its_operations_one_after_the_other(
    text: str, dtype: type[DType], shape: tuple[int, ...]
) -> None:
    bench, rng = Bench(), np.random.default_rng(6)
    expression, wanted = MAPS[text]
    assert str(expression) == text
    x, y = (rng.uniform(-4, 4, shape).astype(dtype.numpy) for _ in range(2))
    a, b = bench.variable(x, dtype), bench.variable(y, dtype)
    out = popops.map(bench.graph, expression, [a, b], bench.prog, "n")
    assert [c.name for c in bench.graph.compute_sets] == ["n"]
    with np.errstate(all="ignore"):
        assert_same_bits(bench.run(out, vertex_loop=True)[0], wanted(x, y))
        assert_same_bits(bench.run(out)[0], wanted(x, y))
    assert bench.report is not None and bench.report.unbatched() == {}
    assert bench.check_mapped(out) == bench.check_mapped(a)
    if shape:
        names = {c.__name__ for cs in bench.graph.compute_sets for c in cs.tables}
        word = dtype.__name__.lower()
        assert names == (
            {f"popops::MapExpression<{text},{word},{word}>"} if 0 not in shape else set()
        )


def trees(depth: int) -> st.SearchStrategy[Any]:
    leaves = st.sampled_from(
        [
            (expr._1, lambda a, b: a),
            (expr._2, lambda a, b: b),
            (expr.Const(5), lambda a, b: np.full_like(a, 5)),
        ]
    )
    if depth == 0:
        return leaves
    below = trees(depth - 1)
    two = st.sampled_from(
        [
            (expr.Add, np.add),
            (expr.Sub, np.subtract),
            (expr.Mul, np.multiply),
            (expr.Max, np.maximum),
            (expr.BitwiseXor, np.bitwise_xor),
        ]
    )

    def join(parts: Any) -> Any:
        (node, ufunc), (left, lv), (right, rv) = parts
        return node(left, right), lambda a, b: ufunc(lv(a, b), rv(a, b))

    return st.one_of(leaves, st.tuples(two, below, below).map(join))


@RANDOMLY
@given(
    trees(4),
    st.sampled_from([INT, UNSIGNED_INT, CHAR, LONGLONG]),
    SHAPES,
    VIEWS,
    st.sampled_from([1, 13]),
    SEEDS,
    st.booleans(),
)
def test_maps_of_any_shape_equal_numpy(
    tree: Any,
    dtype: type[DType],
    shape: tuple[int, ...],
    view: str,
    tiles: int,
    seed: int,
    in_place: bool,
) -> None:
    expression, value = tree
    bench, rng = Bench(tiles), np.random.default_rng(seed)
    x, y = sample(rng, shape, dtype), sample(rng, shape[-1:], dtype)
    a, b = as_view(bench, x, dtype, view), bench.variable(y, dtype)
    if in_place and dtype is not INT:
        popops.map_in_place(bench.graph, expression + expr._1, [a, b], bench.prog)
        out, wanted = a, value(x, np.broadcast_to(y, shape)) + x
    else:
        out = popops.map(bench.graph, expression & expr._1, [a, b], bench.prog)
        wanted = value(x, np.broadcast_to(y, shape)) & x
    assert_same_bits(bench.run(out)[0], np.asarray(wanted, dtype.numpy))


@pytest.mark.parametrize(
    ("expression", "sets"),
    [
        (expr.Tanh(expr._1 * 2 + expr._2), 3),
        (expr.Select(expr._1, expr._2 - 1, expr._1 > expr._2), 3),
        (expr.Clamp(expr.Cast(expr._1, HALF), -0.5, 0.25), 2),
        (expr.Select(1.0, 0.0, expr._1 > 0) + 3.0, 3),
        (expr._1 + (expr.Const(2) * expr.Const(3)), 1),
        (expr._1, 0),
        (expr.Const(2.5), 0),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "shapes", [((7, 5), (5,)), ((5,), (7, 5)), ((0, 5), (5,)), ((), ())], ids=str
)
def test_a_map_without_a_codelet_of_its_own_gives_the_same_bits(
    expression: Any, sets: int, shapes: Any
) -> None:
    rng, bench = np.random.default_rng(9), Bench()
    a, b = (bench.variable(np.asarray(rng.standard_normal(s), np.float32)) for s in shapes)
    apart = {"enable_generate_codelet": False}
    fused = popops.map(bench.graph, expression, [a, b], bench.prog)
    before = len(bench.graph.compute_sets)
    single = popops.map(bench.graph, expression, [a, b], bench.prog, options=apart)
    assert len(bench.graph.compute_sets) - before == sets and single.dtype is fused.dtype
    out = poputil.clone(bench.graph, fused, "out")
    popops.map_with_output(bench.graph, expression, [a, b], out, bench.prog, options=apart)
    outs = [fused, single, out]
    if a.shape == fused.shape and fused.dtype is FLOAT:
        place = bench.variable(np.zeros(a.shape), FLOAT)
        popops.add_in_place(bench.graph, place, a, bench.prog)
        popops.map_in_place(bench.graph, expression, [place, b], bench.prog, options=apart)
        outs.append(place)
    first, *others = bench.run(*outs)
    for other in others:
        assert_same_bits(other, first)


def test_a_fused_expression_is_cheaper_than_its_operations() -> None:
    totals = []
    for fused in (True, False):
        bench = Bench()
        a, b = bench.variable(np.ones(5000)), bench.variable(np.ones(5000))
        if fused:
            popops.map(bench.graph, expr.Relu(expr._1 * expr._2 + 1), [a, b], bench.prog)
        else:
            product = popops.mul(bench.graph, a, b, bench.prog)
            popops.relu(bench.graph, popops.add(bench.graph, product, 1, bench.prog), bench.prog)
        bench.run()
        assert bench.report is not None
        totals.append(bench.report.total_cycles)
    assert totals[0] < totals[1]


# --- select and clamp, scaled additions -----------------------------------------------------------


@RANDOMLY
@given(
    st.sampled_from([FLOAT, HALF, INT, BOOL]),
    SHAPES,
    VIEWS,
    st.sampled_from([1, 13]),
    SEEDS,
    st.sampled_from(["tensor", "number", "row"]),
)
def test_select_and_clamp_equal_numpy(
    dtype: type[DType], shape: tuple[int, ...], view: str, tiles: int, seed: int, other: str
) -> None:
    bench, rng = Bench(tiles), np.random.default_rng(seed)
    draw = (
        (lambda s: rng.random(s) < 0.5)
        if dtype is BOOL
        else (lambda s: rng.integers(-9, 9, s).astype(dtype.numpy))
    )
    x, mask = np.asarray(draw(shape)), np.asarray(rng.random(shape) < 0.5)
    y = (
        dtype.numpy.type(1)
        if other == "number"
        else np.asarray(draw(shape[-1:] if other == "row" else shape))
    )
    a, m = as_view(bench, x, dtype, view), bench.variable(mask, BOOL)
    b: Any = (
        bool(y)
        if other == "number" and dtype is BOOL
        else y.item()
        if other == "number"
        else bench.variable(y, dtype)
    )
    outs = [popops.select(bench.graph, a, b, m, bench.prog)]
    wanted = [np.where(mask, x, y)]
    if dtype is not BOOL:
        outs.append(popops.clamp(bench.graph, a, -3, b, bench.prog))
        wanted.append(np.minimum(np.maximum(x, dtype.numpy.type(-3)), y))
        low = bench.variable(np.full(shape, -3), dtype)
        outs.append(popops.clamp(bench.graph, a, low, b, bench.prog))
        wanted.append(wanted[-1])
    popops.select_in_place(bench.graph, a, b, m, bench.prog)
    for got, expected in zip(bench.run(*outs, a), [*wanted, wanted[0]], strict=True):
        assert_same_bits(got, expected)


@pytest.mark.parametrize("dtype", [FLOAT, HALF, INT])
@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (53,)])
def test_scaled_additions(dtype: type[DType], tensors: bool, shape: tuple[int, ...]) -> None:
    bench, rng = Bench(), np.random.default_rng(8)
    x, y = (np.asarray(rng.integers(-90, 90, shape)).astype(dtype.numpy) for _ in range(2))
    p, q = (dtype.numpy.type(v) for v in ((3, -2) if dtype is INT else (0.3, -1.7)))

    def factor(value: Any) -> Any:
        return bench.variable(value, dtype) if tensors else value.item()

    a, b, c, d = (
        bench.variable(x, dtype),
        bench.variable(x, dtype),
        bench.variable(x, dtype),
        bench.variable(y, dtype),
    )
    popops.scaled_add_to(bench.graph, a, d, factor(p), bench.prog)
    popops.scaled_subtract_from(bench.graph, b, d, factor(p), bench.prog)
    popops.axpby_to(bench.graph, c, factor(p), d, factor(q), bench.prog)
    for got, wanted in zip(bench.run(a, b, c), [x + p * y, x - p * y, p * x + q * y], strict=True):
        assert_same_bits(got, wanted)


def test_a_factor_that_half_does_not_hold_is_kept_in_float() -> None:
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal(53).astype(np.float16) for _ in range(2))
    k = np.float32(-0.3)  # 0.0001 of it is lost in HALF
    narrow, wide = (
        x + np.float16(k) * y,
        (x.astype(np.float32) + k * y.astype(np.float32)).astype(np.float16),
    )
    assert (narrow != wide).any()
    for kind in ("number", "tensor"):
        for tolerance, wanted in ((1e-6, wide), (1e-3, narrow)):
            bench = Bench()
            a, b = bench.variable(x, HALF), bench.variable(y, HALF)
            factor = bench.variable(k, FLOAT) if kind == "tensor" else float(k)
            options = {"scale_float_to_half_tolerance": tolerance}
            popops.scaled_add_to(bench.graph, a, b, factor, bench.prog, options=options)
            assert_same_bits(bench.run(a)[0], wanted)
            assert_same_bits(bench.run(a, vertex_loop=True)[0], wanted)
    bench = Bench()
    a, b = bench.variable(x, HALF), bench.variable(y, HALF)
    popops.scaled_add_to(bench.graph, a, b, 1e5, bench.prog)  # which no half holds
    with np.errstate(over="ignore"):
        assert_same_bits(
            bench.run(a)[0],
            (x.astype(np.float32) + np.float32(1e5) * y.astype(np.float32)).astype(np.float16),
        )


@pytest.mark.parametrize(("a", "b"), [(FLOAT, HALF), (HALF, FLOAT)])
def test_the_second_operand_takes_the_dtype_of_the_first(a: type[DType], b: type[DType]) -> None:
    rng, bench = np.random.default_rng(5), Bench()
    x, y = rng.standard_normal(31).astype(a.numpy), rng.standard_normal(31).astype(b.numpy)
    left, right = bench.variable(x, a), bench.variable(y, b)
    popops.scaled_subtract_from(bench.graph, left, right, 0.5, bench.prog)
    assert_same_bits(bench.run(left)[0], x - a.numpy.type(0.5) * y.astype(a.numpy))


@pytest.mark.parametrize("tensors", [False, True])
def test_the_other_form_of_axpby(tensors: bool) -> None:
    rng, bench = np.random.default_rng(6), Bench()
    x, y = (rng.standard_normal(31).astype(np.float32) for _ in range(2))
    p, q = np.float32(0.1), np.float32(-2)
    a, b = bench.variable(x, FLOAT), bench.variable(y, FLOAT)
    factors = [bench.variable(f, FLOAT) if tensors else f.item() for f in (p, q)]
    kind = popops.ScaledAddSpecialisation.X_MINUS_AX_PLUS_BY
    popops.axpby_to(bench.graph, a, factors[0], b, factors[1], bench.prog, specialisation=kind)
    assert_same_bits(bench.run(a)[0], (x - p * x) + q * y)


# --- fills, questions, margins, loops -------------------------------------------------------------


@pytest.mark.parametrize("dtype", [INT, UNSIGNED_INT])
@pytest.mark.parametrize("count", [0, 1, 2, 101])
def test_iota_counts_and_wraps(dtype: type[DType], count: int) -> None:
    bench = Bench()
    x, y = bench.variable(np.zeros(count), dtype), bench.variable(np.ones(count), dtype)
    start = int(np.iinfo(dtype.numpy).max) - 2
    popops.iota(bench.graph, x, start, bench.prog)
    popops.zero(bench.graph, y, bench.prog)
    wanted = np.array([wrapped(start + i, dtype) for i in range(count)], dtype.numpy)
    got = bench.run(x, y)
    assert_same_bits(got[0], wanted)
    assert_same_bits(got[1], np.zeros(count, dtype.numpy))


@pytest.mark.parametrize("dtype", [FLOAT, HALF, INT, BOOL, UNSIGNED_CHAR])
@pytest.mark.parametrize("labels", [UNSIGNED_INT, INT])
@pytest.mark.parametrize("rows", [0, 1, 17])
def test_one_hot_rows(dtype: type[DType], labels: type[DType], rows: int) -> None:
    bench = Bench()
    numbers = np.arange(rows) * 5 % 8
    encoded = bench.graph.add_variable(dtype, (rows, 7), "encoded")
    bench.graph.set_tile_mapping(encoded, 2)
    on, off = (True, False) if dtype is BOOL else (3, 1)
    popops.encode_one_hot(
        bench.graph, bench.variable(numbers, labels), encoded, bench.prog, on, off
    )
    wanted = [[on if c == n else off for c in range(7)] for n in numbers]
    assert_same_bits(bench.run(encoded)[0], np.array(wanted, dtype.numpy).reshape(rows, 7))


def test_a_masked_label_leaves_its_row_off() -> None:
    bench = Bench()
    encoded = bench.variable(np.ones((2, 3)))
    indices = bench.variable([popops.MASKED_LABEL_CODE, 1], UNSIGNED_INT)
    popops.encode_one_hot(bench.graph, indices, encoded, bench.prog)
    assert bench.run(encoded)[0].tolist() == [[0, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7, 31)])
def test_questions_about_a_whole_tensor(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    for spoiled in (None, *({0, size - 1} if size else set())):
        bench, x, flags = (
            Bench(),
            np.ones(shape, np.float32).reshape(-1),
            np.ones(shape, bool).reshape(-1),
        )
        y = x.copy()
        if spoiled is not None:
            x[spoiled], y[spoiled], flags[spoiled] = np.nan, np.inf, False
        a, b, c = (
            bench.variable(x.reshape(shape)),
            bench.variable(y.reshape(shape)),
            bench.variable(flags.reshape(shape), BOOL),
        )
        answers = [
            popops.has_nan(bench.graph, a, bench.prog),
            popops.has_nan(bench.graph, b, bench.prog),
            popops.has_nan_or_inf(bench.graph, b, bench.prog),
            popops.all_true(bench.graph, c, bench.prog),
        ]
        bad = spoiled is not None
        assert [v.item() for v in bench.run(*answers)] == [bad, False, bad, not bad]


@pytest.mark.parametrize("kind", list(popops.PaddingType))
@pytest.mark.parametrize(
    ("lower", "upper"), [((0, 0), (0, 0)), ((1, 2), (3, 1)), ((0, 3), (0, 0)), ((-1, 1), (2, -2))]
)
def test_pad_is_numpys(
    kind: popops.PaddingType, lower: tuple[int, int], upper: tuple[int, int]
) -> None:
    bench = Bench()
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    padded = popops.pad(bench.graph, bench.variable(x), lower, upper, kind, 7)
    cut = x[max(-lower[0], 0) : 4 - max(-upper[0], 0), max(-lower[1], 0) : 5 - max(-upper[1], 0)]
    margin = [(max(a, 0), max(b, 0)) for a, b in zip(lower, upper, strict=True)]
    extra = {"constant_values": 7} if kind is popops.PaddingType.CONSTANT else {}
    modes: Any = {"CONSTANT": "constant", "EDGE": "edge", "REFLECT": "reflect"}
    out = popops.rearrange(bench.graph, padded, bench.prog)
    assert_same_bits(bench.run(out)[0], np.pad(cut, margin, modes[kind.value], **extra))
    bench.check_mapped(padded)


def test_a_margin_is_spread() -> None:
    """What goes elsewhere leaves by the ways out of many tiles: from one, 48 kB take 6,780
    cycles. A margin of one element lies beside its corner."""
    bench = Bench(64)
    x = np.arange(4096, dtype=np.float32).reshape(64, 64)
    padded = popops.pad(bench.graph, bench.variable(x), [32, 32], [32, 32], value=7)
    spread = bench.variable(np.zeros((128, 128)))
    bench.prog.add(Copy(padded, spread))
    assert_same_bits(bench.run(spread)[0], np.pad(x, 32, constant_values=7))
    assert bench.report is not None and bench.report.total_cycles < 1_100
    row = popops.pad(bench.graph, bench.variable(x)[63], [1], [1])
    assert len(set(bench.check_mapped(row))) == 1


@pytest.mark.parametrize(
    ("begin", "end", "step"), [(0, 1, 1), (4, 5, 3), (0, 10, 1), (5, -5, -2), (3, 3, 1), (-7, 8, 4)]
)
def test_a_counted_loop_counts(begin: int, end: int, step: int) -> None:
    bench = Bench(2)
    total, limit, counter = bench.variable(0, INT), bench.variable(end, INT), bench.variable(0, INT)
    second = bench.variable(0, INT)

    def body(index: Tensor) -> Sequence:
        inside = Sequence()
        popops.add_in_place(bench.graph, total, index, inside)
        return inside

    bench.prog.add(popops.counted_loop(bench.graph, begin, end, step, body))
    inside = Sequence()
    popops.add_in_place(bench.graph, second, counter, inside)
    bench.prog.add(popops.counted_for_loop(bench.graph, counter, begin, limit, step, inside))
    got = bench.run(total, second, counter)
    assert [v.item() for v in got[:2]] == [sum(range(begin, end, step))] * 2
    assert got[2].item() == begin + step * len(range(begin, end, step))


def test_images_become_what_a_model_wants() -> None:
    rng = np.random.default_rng(1)
    for dtype in (FLOAT, HALF):
        bench = Bench()
        image = rng.integers(0, 256, (2, 5, 3))
        offsets, scales = (
            np.array([0.5, 0.4, 0.3]).astype(dtype.numpy),
            np.array([2, 3, 4]).astype(dtype.numpy),
        )
        args = (
            bench.variable(image, UNSIGNED_CHAR),
            1 / 256,
            bench.variable(offsets, dtype),
            bench.variable(scales, dtype),
        )
        out = popops.normalise_image(bench.graph, *args, bench.prog)
        got = bench.run(popops.rearrange(bench.graph, out, bench.prog))[0]
        wanted = (image.astype(dtype.numpy) * dtype.numpy.type(1 / 256) - offsets) * scales
        assert_same_bits(got, np.concatenate([wanted, np.zeros((2, 5, 1), dtype.numpy)], 2))


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (3, 16, 33)])
def test_transpose_moves_the_bytes_that_cross(shape: tuple[int, ...]) -> None:
    bench = Bench()
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    a = bench.variable(x)
    made = popops.transpose(bench.graph, a, bench.prog)
    view = a.dim_shuffle([*range(a.rank - 2), a.rank - 1, a.rank - 2])
    assert_same_bits(bench.run(made)[0], np.swapaxes(x, -1, -2))
    assert made.is_contiguous
    there, here = bench.check_mapped(made), bench.check_mapped(view)
    assert bench.report is not None
    received, sent = bench.report.exchange_bytes_per_tile
    crossing = sum(t != h for t, h in zip(there, here, strict=True))
    assert received.sum() == 4 * crossing and sent.sum() == 4 * crossing


@pytest.mark.parametrize("dtype", [HALF, INT, FLOAT])
def test_cast_with_output(dtype: type[DType]) -> None:
    bench = Bench()
    x = np.linspace(-70, 70, 57, dtype=np.float32)
    out = bench.graph.add_variable(dtype, (57,))
    bench.graph.set_tile_mapping(out, 5)
    popops.cast_with_output(bench.graph, bench.variable(x), out, bench.prog)
    assert_same_bits(bench.run(out)[0], x.astype(dtype.numpy))


def test_the_same_bits_as_a_constant_of_the_expression() -> None:
    """A number travels through the text of a codelet as it is."""
    bench = Bench()
    number = struct.unpack("<f", struct.pack("<I", 0x3DCCCCCD))[0]
    a = bench.variable([1.0])
    out = popops.map(bench.graph, expr._1 * number, [a], bench.prog)
    assert bench.run(out)[0].view(np.uint32)[0] == 0x3DCCCCCD


@pytest.mark.parametrize("tiles", [1, 13, 200])
def test_what_lies_turned_costs_what_it_costs_as_it_lies(tiles: int) -> None:
    """A view with its dimensions in another order is gone through in the order of its memory, and so
    is what is made of it: nothing is moved together first."""

    def cycles(*order: int) -> int:
        device = IPUModel(tiles_per_ipu=tiles).create_device()
        graph, prog = Graph(device), Sequence()
        x = graph.add_variable(FLOAT, (20, 6, 31), "x")
        poputil.map_tensor_linearly(graph, x)
        graph.set_initial_value(x, np.arange(3720).reshape(20, 6, 31) - 1800.0)
        turned = x.dim_shuffle(order)
        halves = popops.cast(graph, turned, HALF, prog)
        popops.add_in_place(graph, turned, popops.cast(graph, halves, FLOAT, prog), prog)
        popops.scaled_add_to(graph, turned, popops.square(graph, turned, prog), 0.5, prog)
        popops.map_in_place(graph, expr._1 * expr._1 + expr._1, [turned], prog)
        graph.create_host_read("made", turned)
        engine = Engine(graph, prog)
        engine.load_and_run(device)
        given = (np.arange(3720).reshape(20, 6, 31) - 1800.0).transpose(order)
        twice = given + given.astype(np.float16).astype(float)
        wanted = (twice + twice**2 / 2) ** 2 + twice + twice**2 / 2
        np.testing.assert_allclose(engine.read_tensor("made"), wanted, rtol=1e-5)
        return engine.report.total_cycles

    assert cycles(0, 1, 2) == cycles(2, 0, 1) == cycles(1, 2, 0)


@pytest.mark.parametrize("elements", [1, 7, 600, 6000])
@pytest.mark.parametrize("source", [HALF, FLOAT, INT, UNSIGNED_CHAR, LONGLONG, BOOL], ids=str)
@pytest.mark.parametrize("destination", [HALF, FLOAT, INT, UNSIGNED_CHAR, BOOL], ids=str)
def test_a_cast_in_a_map_costs_what_the_cast_vertex_costs(
    source: type[DType], destination: type[DType], elements: int
) -> None:
    """Around the loops of six workers, PopLibs counts 120 cycles for Cast1D and 122 for others."""
    if source is destination:
        return
    mapped, alone = Bench(1), Bench(1)
    zeros = np.zeros(elements, source.numpy)
    x = mapped.variable(zeros, source)
    mapped.run(popops.map(mapped.graph, expr.Cast(expr._1, destination), [x], mapped.prog))
    x = alone.variable(zeros, source)
    alone.run(popops.cast(alone.graph, x, destination, alone.prog))
    reports = mapped.report, alone.report
    cycles = [report.total_cycles for report in reports if report is not None]
    assert cycles[0] - cycles[1] == 2


def test_a_map_converts_an_operand_once() -> None:
    """By hand: with loads and stores in its loop, HALF to FLOAT takes a cycle for two elements."""
    target = Bench(1).graph.target
    converted, number = "_1 CAST:FLOAT", f"FLOAT:{(0.5).hex()}"
    start = 19 + 1
    assert loop_cycles(converted, [HALF], FLOAT, 100, target) == start + 50
    product = f"{converted} {number} MULTIPLY@FLOAT"
    assert loop_cycles(product, [HALF], FLOAT, 100, target) == start + 50 + 50 + 50
    narrow = f"{product} CAST:HALF"  # reads two FLOAT a cycle
    assert loop_cycles(narrow, [HALF], HALF, 100, target) == 19 + 2 + 50 + 50 + 50
    both = f"_1 CAST:FLOAT {number} MULTIPLY@FLOAT _1 CAST:FLOAT ADD@FLOAT"
    assert loop_cycles(both, [HALF], FLOAT, 100, target) == start + 5 * 50
    raw = "_1 _1 CAST:FLOAT CAST:HALF ADD@HALF"
    assert loop_cycles(raw, [HALF], HALF, 100, target) == 21 + 13 + 50 + 50 + 25 + 25
    constant = f"{number} CAST:HALF _1 ADD@HALF"
    assert loop_cycles(constant, [HALF], HALF, 100, target) == 13 + 25 + 25
