"""Every function of the libraries, in one table: on shapes of one element, of primes, of less than
a tile each, and empty, against numpy in double precision; and what each says when an operand is not a
tensor, of another graph, or on no tile.

A public function that is missing from the table fails the last test.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from libraries import run

from ipu_teach import BOOL, FLOAT, HALF, INT, UNSIGNED_CHAR, UNSIGNED_INT, Graph, IPUModel, Tensor
from ipu_teach.errors import IPUTeachError
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.poplibs.popops import expr, operations
from ipu_teach.program import Sequence
from ipu_teach.types import Array, DType

TILES = 13
SHAPES = {"one": (1, 1), "primes": (17, 7), "fewer than tiles": (2, 3), "empty": (0, 5)}
Shape = tuple[int, int]
Given = list[tuple[Any, type[DType]]]


@dataclass(frozen=True)
class Case:
    """How a function is called: `given(shape)` its operands, `call(graph, prog, *tensors)` the
    results, `wanted(*arrays)`.

    `skip`: shapes that it refuses, with words of the error. `lax`: operands that only say a shape.
    `via`: another library call that the case makes, which may be the one that finds the fault.
    """

    given: Callable[[Shape], Given]
    call: Callable[..., Any]
    wanted: Callable[..., Any]
    tolerance: float = 0.0
    skip: dict[str, str] = field(default_factory=dict)
    lax: tuple[int, ...] = ()
    via: tuple[str, ...] = ()


RNG = np.random.default_rng(0)


def floats(shape: tuple[int, ...], low: float = -2, high: float = 2) -> Array:
    return RNG.uniform(low, high, shape).astype(np.float32)


def wholes(shape: tuple[int, ...], low: int, high: int, dtype: Any = np.int32) -> Array:
    return RNG.integers(low, high, shape).astype(dtype)


def bools(shape: tuple[int, ...]) -> Array:
    return RNG.integers(0, 2, shape).astype(bool)


def one(low: float = -2, high: float = 2) -> Callable[[Shape], Given]:
    return lambda s: [(floats(s, low, high), FLOAT)]


def two(low: float = -2, high: float = 2) -> Callable[[Shape], Given]:
    return lambda s: [(floats(s, low, high), FLOAT), (floats(s, low, high), FLOAT)]


def zero(graph: Graph, like: Tensor, dtype: type[DType] | None = None, shape: Any = None) -> Tensor:
    """A variable that holds zeros."""
    made = graph.add_variable(dtype or like.dtype, like.shape if shape is None else shape)
    poputil.map_tensor_linearly(graph, made)
    graph.set_initial_value(made, 0)
    return made


def new(function: Callable[..., Any], *more: Any, **named: Any) -> Callable[..., Any]:
    """`function(graph, *tensors, *more, prog)` gives a tensor."""
    return lambda graph, prog, *t: function(graph, *t, *more, prog, **named)


def changed(function: Callable[..., Any], *more: Any, **named: Any) -> Callable[..., Any]:
    """`function(graph, *tensors, *more, prog)` changes its first tensor."""

    def call(graph: Graph, prog: Sequence, *t: Tensor) -> Tensor:
        function(graph, *t, *more, prog, **named)
        return t[0]

    return call


def filled(function: Callable[..., Any], dtype: type[DType] | None = None) -> Callable[..., Any]:
    """`function(graph, *tensors, out, prog)` fills an out like its first tensor."""

    def call(graph: Graph, prog: Sequence, *t: Tensor) -> Tensor:
        shape = np.broadcast_shapes(*(x.shape for x in t if isinstance(x, Tensor)))
        out = zero(graph, t[0], dtype, shape)
        function(graph, *t, out, prog)
        return out

    return call


# --- operations on elements -----------------------------------------------------------------------

ERF, GELU = (
    np.vectorize(math.erf, otypes=[float]),
    np.vectorize(lambda v: v * (1 + math.erf(v / 2**0.5)) / 2, otypes=[float]),
)
OF_ONE: dict[str, tuple[Callable[[Array], Any], float, float]] = {
    "abs": (np.abs, -2, 2),
    "asin": (np.arcsin, -1, 1),
    "cbrt": (np.cbrt, -2, 2),
    "ceil": (np.ceil, -9, 9),
    "cos": (np.cos, -2, 2),
    "erf": (ERF, -2, 2),
    "exp": (np.exp, -2, 2),
    "exp2": (np.exp2, -2, 2),
    "expm1": (np.expm1, -2, 2),
    "floor": (np.floor, -9, 9),
    "gelu_erf": (GELU, -2, 2),
    "inv": (lambda x: 1 / x, 0.5, 2),
    "log": (np.log, 0.5, 2),
    "log1p": (np.log1p, 0.5, 2),
    "nearby_int": (np.rint, -9, 9),
    "neg": (np.negative, -2, 2),
    "relu": (lambda x: np.maximum(x, 0), -2, 2),
    "round": (lambda x: np.trunc(x + np.copysign(0.5, x)), -9, 9),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.5, 2),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -2, 2),
    "signum": (np.sign, -2, 2),
    "sin": (np.sin, -2, 2),
    "sqrt": (np.sqrt, 0, 2),
    "square": (np.square, -2, 2),
    "tan": (np.tan, -1, 1),
    "tanh": (np.tanh, -2, 2),
    "trunc": (np.trunc, -9, 9),
    "is_finite": (np.isfinite, -2, 2),
    "is_inf": (np.isinf, -2, 2),
    "is_nan": (np.isnan, -2, 2),
}
OF_TWO: dict[str, tuple[Callable[[Array, Array], Any], float, float]] = {
    "add": (np.add, -2, 2),
    "sub": (np.subtract, -2, 2),
    "mul": (np.multiply, -2, 2),
    "div": (np.divide, 0.5, 2),
    "pow": (np.power, 0.5, 2),
    "rem": (np.fmod, 0.5, 2),
    "max": (np.maximum, -2, 2),
    "min": (np.minimum, -2, 2),
    "atan2": (np.arctan2, 0.5, 2),
    "eq": (np.equal, -2, 2),
    "neq": (np.not_equal, -2, 2),
    "lt": (np.less, -2, 2),
    "lteq": (np.less_equal, -2, 2),
    "gt": (np.greater, -2, 2),
    "gteq": (np.greater_equal, -2, 2),
    "inv_std_dev_to_variance": (lambda a, b: 1 / a**2 - b, 0.5, 2),
    "variance_to_inv_std_dev": (lambda a, b: 1 / np.sqrt(a + b), 0.5, 2),
}
BITS_OF_ONE: dict[str, Callable[[Array], Any]] = {
    "bitwise_not": np.invert,
    "popcount": np.bitwise_count,
    "count_leading_zeros": lambda x: np.vectorize(lambda v: 32 - int(v).bit_length(), otypes=[int])(
        x
    ),
}
BITS_OF_TWO: dict[str, Callable[[Array, Array], Any]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_xnor": lambda a, b: ~(a ^ b),
    "shift_left": lambda a, b: (a << b).astype(np.uint32),
    "shift_right": np.right_shift,
    "shift_right_sign_extend": np.right_shift,
}
TRUTH: dict[str, Callable[..., Any]] = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
}
ASKS = ("eq", "neq", "lt", "lteq", "gt", "gteq", "is_finite", "is_inf", "is_nan")
CASES: dict[str, Case] = {}


def elementwise(
    name: str, given: Callable[[Shape], Given], wanted: Callable[..., Any], asks: bool = False
) -> None:
    """The cases of an operation's three forms."""
    tolerance = 0.0 if asks else 3e-6
    result = BOOL if asks else None
    CASES[f"popops.{name}"] = Case(given, new(getattr(popops, name)), wanted, tolerance)
    CASES[f"popops.{name}_with_output"] = Case(
        given, filled(getattr(popops, f"{name}_with_output"), result), wanted, tolerance
    )
    if hasattr(popops, f"{name}_in_place"):
        bools_first = asks and name not in TRUTH  # in place a question fits into BOOL alone
        own = (lambda s: [(bools(s), BOOL)] * 2) if bools_first else given
        CASES[f"popops.{name}_in_place"] = Case(
            own, changed(getattr(popops, f"{name}_in_place")), wanted, tolerance
        )


for _name, (_wanted, _low, _high) in OF_ONE.items():
    elementwise(_name, one(_low, _high), _wanted, _name in ASKS)
for _name, (_both, _low, _high) in OF_TWO.items():
    elementwise(_name, two(_low, _high), _both, _name in ASKS)
for _name, _wanted in BITS_OF_ONE.items():
    elementwise(_name, lambda s: [(wholes(s, 0, 2**31, np.uint32), UNSIGNED_INT)], _wanted)
for _name, _both in BITS_OF_TWO.items():
    elementwise(
        _name,
        lambda s: [
            (wholes(s, 0, 2**31, np.uint32), UNSIGNED_INT),
            (wholes(s, 0, 9, np.uint32), UNSIGNED_INT),
        ],
        _both,
    )
for _name in ("logical_and", "logical_or"):
    elementwise(_name, lambda s: [(bools(s), BOOL), (bools(s), BOOL)], TRUTH[_name], True)
elementwise("logical_not", lambda s: [(bools(s), BOOL)], np.logical_not, True)


def masked(s: Shape) -> Given:
    return [*two()(s), (bools(s), BOOL)]


def bounded(s: Shape) -> Given:
    return [(floats(s), FLOAT), (floats(s, -1, 0), FLOAT), (floats(s, 0, 1), FLOAT)]


for _suffix, _form in (("", new), ("_in_place", changed), ("_with_output", filled)):
    CASES[f"popops.select{_suffix}"] = Case(
        masked, _form(getattr(popops, f"select{_suffix}")), lambda a, b, m: np.where(m, a, b)
    )
    CASES[f"popops.clamp{_suffix}"] = Case(
        bounded, _form(getattr(popops, f"clamp{_suffix}")), np.clip
    )


def mapped(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(graph: Graph, prog: Sequence, a: Tensor, b: Tensor) -> Tensor:
        expression = expr.Tanh(expr._1 * 2 + expr._2)
        if function is popops.map:
            return popops.map(graph, expression, [a, b], prog)
        if function is popops.map_in_place:
            popops.map_in_place(graph, expression, [a, b], prog)
            return a
        out = zero(graph, a)
        popops.map_with_output(graph, expression, [a, b], out, prog)
        return out

    return call


for _function in (popops.map, popops.map_in_place, popops.map_with_output):
    CASES[f"popops.{_function.__name__}"] = Case(
        two(), mapped(_function), lambda a, b: np.tanh(a * 2 + b), 3e-6, via=("Mul",)
    )


# --- reductions, questions, updates, fills --------------------------------------------------------


def reduced_into(graph: Graph, prog: Sequence, x: Tensor) -> Tensor:
    out = zero(graph, x, None, x.shape[1:])
    popops.reduce_with_output(graph, x, out, [0], prog)
    return out


def reduced_together(graph: Graph, prog: Sequence, x: Tensor, y: Tensor) -> list[Tensor]:
    return popops.reduce_many(
        graph, [popops.SingleReduceOp(x, [0]), popops.SingleReduceOp(y, [1], "SQUARE_ADD")], prog
    )


CASES |= {
    "popops.reduce": Case(one(), new(popops.reduce, [0]), lambda x: x.sum(axis=0), 3e-6),
    "popops.reduce_with_output": Case(one(), reduced_into, lambda x: x.sum(axis=0), 3e-6),
    "popops.reduce_many": Case(
        two(),
        reduced_together,
        lambda x, y: [x.sum(axis=0), (y**2).sum(axis=1)],
        3e-6,
        via=("SingleReduceOp",),
    ),
    "popops.all_true": Case(lambda s: [(bools(s), BOOL)], new(popops.all_true), np.all),
    "popops.has_nan": Case(
        lambda s: [(np.where(bools(s), np.nan, 1).astype(np.float32), FLOAT)],
        new(popops.has_nan),
        lambda x: np.isnan(x).any(),
    ),
    "popops.has_nan_or_inf": Case(
        lambda s: [(np.where(bools(s), np.inf, 1).astype(np.float32), FLOAT)],
        new(popops.has_nan_or_inf),
        lambda x: (~np.isfinite(x)).any(),
    ),
    "popops.scaled_add_to": Case(
        two(), changed(popops.scaled_add_to, 0.5), lambda a, b: a + 0.5 * b, 3e-6
    ),
    "popops.scaled_subtract_from": Case(
        two(), changed(popops.scaled_subtract_from, 0.5), lambda a, b: a - 0.5 * b, 3e-6
    ),
    "popops.axpby_to": Case(
        two(),
        lambda g, p, a, b: popops.axpby_to(g, a, 0.5, b, 2, p) or a,
        lambda a, b: a / 2 + 2 * b,
        3e-6,
    ),
    "popops.cast": Case(one(), new(popops.cast, INT), np.trunc),
    "popops.cast_with_output": Case(
        one(), filled(popops.cast_with_output, HALF), lambda x: x.astype(np.float16)
    ),
    "popops.fill": Case(
        one(), lambda g, p, x: popops.fill(g, x, p, 2.5) or x, lambda x: np.full(x.shape, 2.5)
    ),
    "popops.zero": Case(one(), changed(popops.zero), np.zeros_like),
    "popops.iota": Case(
        lambda s: [(wholes((math.prod(s),), 0, 9), INT)],
        lambda g, p, x: popops.iota(g, x, 3, p) or x,
        lambda x: np.arange(3, 3 + x.size),
    ),
    "popops.encode_one_hot": Case(
        lambda s: [(wholes(s[:1], 0, s[1], np.uint32), UNSIGNED_INT), (floats(s), FLOAT)],
        lambda g, p, i, x: popops.encode_one_hot(g, i, x, p) or x,
        lambda i, x: np.eye(x.shape[1])[i],
    ),
    "popops.pad": Case(
        one(),
        lambda g, p, x: popops.pad(g, x, [1, 0], [0, 2]),
        lambda x: np.pad(x, ((1, 0), (0, 2))),
    ),
    "popops.rearrange": Case(
        one(), lambda g, p, x: popops.rearrange(g, x.transpose(), p), np.transpose
    ),
    "popops.transpose": Case(one(), new(popops.transpose), np.transpose),
    "popops.normalise_image": Case(
        lambda s: [
            (wholes((*s, 3), 0, 255, np.uint8), UNSIGNED_CHAR),
            (floats((3,)), FLOAT),
            (floats((3,)), FLOAT),
        ],
        lambda g, p, i, o, k: popops.normalise_image(g, i, 0.25, o, k, p),
        lambda i, o, k: np.concatenate([(i * 0.25 - o) * k, np.zeros((*i.shape[:-1], 1))], -1),
        3e-5,
    ),
}


# --- slices ---------------------------------------------------------------------------------------


def places(count: int, rows: int, dims: int = 1) -> Array:
    """Row numbers [count, dims], as far as there are rows."""
    return wholes((count, dims), 0, max(rows, 1), np.uint32)


def sliced(s: Shape) -> Given:
    return [(floats(s), FLOAT), (places(1, s[1])[0], UNSIGNED_INT)]


def many(s: Shape) -> Given:
    return [(floats(s), FLOAT), (places(4, s[1]), UNSIGNED_INT)]


def updated(s: Shape) -> Given:
    return [(floats(s), FLOAT), (floats((4, s[0], 1)), FLOAT), (places(4, s[1]), UNSIGNED_INT)]


def update_columns(operation: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def wanted(x: Array, new_: Array, at: Array) -> Array:
        out = x.copy()
        for number, column in zip(at[:, 0], new_, strict=True):
            out[:, number] = operation(out[:, number], column[:, 0])
        return out

    return wanted


def many_updates(function: Callable[..., Any], *scale: Any) -> Callable[..., Any]:
    return lambda g, p, x, new_, at: function(g, x, new_, at, *scale, [1], [1], p) or x


def sliced_into(graph: Graph, prog: Sequence, x: Tensor, at: Tensor) -> Tensor:
    out = zero(graph, x, None, (x.shape[0], 1))
    popops.dynamic_slice_with_output(graph, out, x, at, [1], [1], prog)
    return out


def scattered(graph: Graph, prog: Sequence, x: Tensor, at: Tensor, new_: Tensor) -> Tensor:
    popops.scatter(graph, x, at, new_, 1, [1], [1], [1], prog)
    return x


def scatter_wanted(x: Array, at: Array, new_: Array) -> Array:
    out = x.copy()
    for number, column in zip(at[:, 0], new_, strict=True):
        out[:, number] = column
    return out


def rings(graph: Graph, prog: Sequence, x: Tensor, y: Tensor) -> list[Tensor]:
    ring = popops.CircBuf(graph, FLOAT, 3, x.shape)
    ring.add(x, prog)
    ring.add(y, prog)
    return [ring.prev(0, prog), ring.prev(1, prog), ring.prev(2, prog)]


def planned_table(graph: Graph, prog: Sequence, x: Tensor, at: Tensor) -> Tensor:
    plan = popops.embedding_plan(graph, FLOAT, *x.shape, [4])
    return popops.multi_slice(graph, x, at, [0], [1], prog, plan=plan)


def one_run(s: Shape) -> Given:
    """The first row of one tensor to the last of another."""
    numbers = (1, 0, max(s[0] - 1, 0))
    return [*two()(s), *((np.array([n], np.uint32), UNSIGNED_INT) for n in numbers)]


def made_like_slices(graph: Graph, prog: Sequence, x: Tensor) -> list[Tensor]:
    base = popops.create_sliceable_tensor(graph, FLOAT, x.shape, [1])
    part = popops.create_slice_tensor(graph, base, [1], [1], 2)
    numbers = popops.create_indices_tensor(graph, [1], 2)
    popops.fill(graph, base, prog, 1)
    popops.fill(graph, part, prog, 2)
    popops.fill(graph, numbers, prog, 3)
    return [base, part, numbers]


def made_for_the_host(graph: Graph, prog: Sequence, x: Tensor) -> list[Tensor]:
    indices, rows = popops.create_host_sliceable_tensor(graph, FLOAT, x.shape, True)
    whole = popops.create_host_transferable_tensor(graph, FLOAT, x.shape, False)
    for tensor, number in ((indices, 1), (rows, 2), (whole, 3)):
        popops.fill(graph, tensor, prog, number)
    return [indices, rows, whole]


CASES |= {
    "popops.dynamic_slice": Case(
        sliced, new(popops.dynamic_slice, [1], [1]), lambda x, at: x[:, at]
    ),
    "popops.dynamic_slice_with_output": Case(sliced, sliced_into, lambda x, at: x[:, at]),
    "popops.dynamic_update": Case(
        lambda s: [
            (floats(s), FLOAT),
            (floats((s[0], 1)), FLOAT),
            (places(1, s[1])[0], UNSIGNED_INT),
        ],
        changed(popops.dynamic_update, [1], [1]),
        lambda x, new_, at: np.where(np.arange(x.shape[1]) == at, new_, x),
    ),
    "popops.multi_slice": Case(
        many, new(popops.multi_slice, [1], [1]), lambda x, at: x[:, at[:, 0]].T[:, :, None]
    ),
    "popops.multi_update": Case(
        updated, many_updates(popops.multi_update), update_columns(lambda old, n: n)
    ),
    "popops.multi_update_add": Case(
        updated,
        many_updates(popops.multi_update_add, 0.5),
        update_columns(lambda o, n: o + n / 2),
        3e-6,
    ),
    "popops.multi_update_max": Case(
        updated, many_updates(popops.multi_update_max), update_columns(np.maximum)
    ),
    "popops.embedding_plan": Case(
        lambda s: [(floats(s), FLOAT), (places(4, s[0]), UNSIGNED_INT)],
        planned_table,
        lambda x, at: x[at[:, 0]][:, None],
        skip={"empty": "embedding_plan() was given 0 as num_entries."},
        lax=(0,),
        via=("multi_slice",),
    ),
    "popops.gather": Case(
        many,
        lambda g, p, x, at: popops.gather(g, x, at, 1, [1], [x.shape[0], 1], [1], [1], p),
        lambda x, at: x[:, at[:, 0]].T,
        skip={"empty": "gather() was given [0, 1] as slice_sizes."},
    ),
    "popops.scatter": Case(
        lambda s: [*many(s), (floats((4, s[0])), FLOAT)], scattered, scatter_wanted
    ),
    "popops.select_scalar_from_rows": Case(
        lambda s: [(floats(s), FLOAT), (places(s[0], s[1])[:, 0], UNSIGNED_INT)],
        new(popops.select_scalar_from_rows),
        lambda x, at: x[np.arange(len(x)), at],
    ),
    "popops.update_scalar_in_rows": Case(
        lambda s: [(floats(s), FLOAT), (places(s[0], s[1])[:, 0], UNSIGNED_INT)],
        changed(popops.update_scalar_in_rows),
        lambda x, at: x - (np.arange(x.shape[1]) == at[:, None]),
        3e-6,
    ),
    "popops.sequence_slice": Case(
        one_run,
        lambda g, p, a, b, *runs: popops.sequence_slice(g, a, b, *runs, False, p) or b,
        lambda a, b, *runs: np.concatenate([b[:-1], a[:1]]),
    ),
    "popops.CircBuf": Case(two(), rings, lambda x, y: [y, x, np.zeros_like(x)]),
    "popops.create_sliceable_tensor": Case(
        one(),
        made_like_slices,
        lambda x: [np.ones(x.shape), np.full((2, len(x), 1), 2), np.full((2, 1), 3)],
        lax=(0,),
    ),
    "popops.create_host_sliceable_tensor": Case(
        one(),
        made_for_the_host,
        lambda x: [np.ones(len(x)), np.full(x.shape, 2), np.full(x.shape, 3)],
        lax=(0,),
    ),
}
TOGETHER = {  # functions that the case of another one calls
    "popops.create_slice_tensor": "popops.create_sliceable_tensor",
    "popops.create_indices_tensor": "popops.create_sliceable_tensor",
    "popops.create_host_transferable_tensor": "popops.create_host_sliceable_tensor",
}


# --- order and loops ------------------------------------------------------------------------------

K = popops.TopKParams(1, True, popops.SortOrder.DESCENDING)
EXTREMES = {"arg_max": np.argmax, "arg_min": np.argmin}


def pairs(s: Shape) -> Given:
    return [(floats(s), FLOAT), (wholes(s, 0, 99), INT)]


def along(values: Array, keys: Array) -> Array:
    return np.take_along_axis(values, np.argsort(keys, axis=1, kind="stable"), 1)


def counted(graph: Graph, prog: Sequence, x: Tensor) -> Tensor:
    def body(counter: Tensor) -> Sequence:
        turn = Sequence()
        popops.add_in_place(graph, x, popops.cast(graph, counter, FLOAT, turn), turn)
        return turn

    prog.add(popops.counted_loop(graph, 1, 8, 2, body))
    return x


def counted_to_a_limit(graph: Graph, prog: Sequence, x: Tensor, limit: Tensor) -> Tensor:
    counter, turn = zero(graph, limit), Sequence()
    popops.add_in_place(graph, x, 1, turn)
    prog.add(popops.counted_for_loop(graph, counter, 1, limit, 2, turn))
    return x


CASES |= {
    "popops.sort": Case(one(), new(popops.sort, 1), lambda x: np.sort(x, axis=1)),
    "popops.sort_in_place": Case(
        one(), changed(popops.sort_in_place, 1), lambda x: np.sort(x, axis=1)
    ),
    "popops.sort_key_value": Case(pairs, new(popops.sort_key_value, 1), lambda k, v: along(v, k)),
    "popops.sort_key_value_in_place": Case(
        pairs,
        lambda g, p, k, v: popops.sort_key_value_in_place(g, k, v, 1, p) or [k, v],
        lambda k, v: [np.sort(k, axis=1), along(v, k)],
    ),
    "popops.top_k": Case(
        one(), lambda g, p, x: popops.top_k(g, K, x, p), lambda x: x.max(axis=1, keepdims=True)
    ),
    "popops.top_k_key_value": Case(
        pairs,
        lambda g, p, k, v: popops.top_k_key_value(g, K, k, v, p),
        lambda k, v: [
            k.max(axis=1, keepdims=True),
            np.take_along_axis(v, np.argmax(k, axis=1)[:, None], 1),
        ],
    ),
    "popops.top_k_with_permutation": Case(
        one(),
        lambda g, p, x: popops.top_k_with_permutation(g, K, x, p),
        lambda x: [x.max(axis=1, keepdims=True), np.argmax(x, axis=1)[:, None]],
    ),
    "popops.counted_loop": Case(one(), counted, lambda x: x + 16, 3e-6, via=("add_in_place",)),
    "popops.counted_for_loop": Case(
        lambda s: [*one()(s), (np.int32(6), INT)],
        counted_to_a_limit,
        lambda x, limit: x + 3,
        3e-6,
        via=("add_in_place",),
    ),
}
for _library in ("popops", "popnn"):
    for _name, _place in EXTREMES.items():
        _function, _both = getattr(popops, _name), getattr(popops, f"{_name[4:]}_and_{_name}")
        _best: Any = getattr(np, _name[4:])
        CASES[f"{_library}.{_name}"] = Case(
            one(), new(_function), lambda x, at=_place: at(x, axis=1)
        )
        CASES[f"{_library}.{_name[4:]}_and_{_name}"] = Case(
            one(), new(_both), lambda x, at=_place, best=_best: [best(x, axis=1), at(x, axis=1)]
        )


# --- poputil --------------------------------------------------------------------------------------


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(graph, tensor)` maps a new tensor, which then takes the values of the first."""

    def call(graph: Graph, prog: Sequence, x: Tensor) -> Tensor:
        made = graph.add_variable(x.dtype, x.shape)
        function(graph, made)
        popops.add_with_output(graph, x, 0, made, prog)
        return made

    return call


def by_use(graph: Graph, made: Tensor) -> None:
    uses = poputil.TensorUseTracker(graph.target.num_tiles)
    for row in range(made.shape[0]):
        uses.add(graph, row % TILES, made[row])
    uses.map_tensors_by_use(graph, 1, 1)


def with_bias(graph: Graph, prog: Sequence, x: Tensor) -> Tensor:
    bias = poputil.create_broadcast_operand(graph, x, FLOAT, 1)
    popops.fill(graph, bias, prog, 2)
    return popops.add(graph, x, bias, prog)


def fours(x: Array) -> Array:
    return np.full(x.shape, 4)


def cloned(make: Callable[[Graph, Tensor], Tensor]) -> Callable[..., Any]:
    def call(graph: Graph, prog: Sequence, x: Tensor) -> Tensor:
        made = make(graph, x)
        popops.fill(graph, made, prog, 4)
        return made

    return call


CASES |= {
    "poputil.map_tensor_linearly": Case(
        one(), spread(poputil.map_tensor_linearly), lambda x: x, via=("add_with_output",)
    ),
    "poputil.map_tensor_linearly_with_offset": Case(
        one(),
        spread(lambda g, t: poputil.map_tensor_linearly_with_offset(g, t, 3)),
        lambda x: x,
        via=("add_with_output",),
    ),
    "poputil.calc_linear_tile_mapping": Case(
        one(),
        spread(
            lambda g, t: g.set_tile_mapping(
                t, poputil.calc_linear_tile_mapping(g, t.shape, t.dtype)
            )
        ),
        lambda x: x,
        via=("add_with_output",),
    ),
    "poputil.TensorUseTracker": Case(one(), spread(by_use), lambda x: x, via=("add_with_output",)),
    "poputil.create_broadcast_operand": Case(one(), with_bias, lambda x: x + 2, 3e-6, via=("add",)),
    "poputil.broadcast_to_match": Case(
        lambda s: [(floats(s[1:]), FLOAT), (floats(s), FLOAT)],
        lambda g, p, v, x: popops.add(g, poputil.broadcast_to_match(v, x.shape), x, p),
        np.add,
        3e-6,
        via=("add",),
    ),
    "poputil.expand_to_match_ranks": Case(
        lambda s: [(floats(s[1:]), FLOAT), (floats(s), FLOAT)],
        lambda g, p, v, x: popops.add(g, *poputil.expand_to_match_ranks(v, x), p),
        np.add,
        3e-6,
        via=("add",),
    ),
    "poputil.factor_dims": Case(
        lambda s: [(floats((4 * s[0], 3 * s[1])), FLOAT)],
        lambda g, p, x: popops.neg(
            g, poputil.unfactor_dims(poputil.factor_dims(x, [4, 3], 0), 2, 0), p
        ),
        np.negative,
        via=("neg",),
    ),
    "poputil.duplicate": Case(one(), new(poputil.duplicate), lambda x: x),
    "poputil.clone": Case(
        one(), cloned(lambda g, x: poputil.clone(g, x, "clone")), fours, via=("fill",)
    ),
    "poputil.clone_n": Case(
        one(),
        cloned(lambda g, x: poputil.clone_n(g, x, 2)),
        lambda x: fours(np.stack([x, x])),
        via=("fill",),
    ),
    "poputil.clone_to_ipu": Case(
        one(), cloned(lambda g, x: poputil.clone_to_ipu(g, x, 0)), fours, via=("fill",)
    ),
    "poputil.copy_to_ipu": Case(one(), new(poputil.copy_to_ipu, 0), lambda x: x),
}
TOGETHER["poputil.unfactor_dims"] = "poputil.factor_dims"
# Functions of numbers, or that answer about a mapping: tested in test_poputil.py, test_poplibs.py,
# test_poplin.py and test_convolution.py.
NO_TENSORS = {
    "poputil.balanced_partition",
    "poputil.split_regions",
    "poputil.split_regions_between_workers",
    "poputil.template_vertex",
    "poputil.choose_mapping_offset",
    "poputil.get_tile_imbalance",
    "poputil.dim_is_split_over_tiles",
    "poputil.tile_pieces",
    "poputil.dim_is_split_over_ipus",
    "poputil.take",
    "popops.plan_reduce",
    "popops.reduce_rows",
    "poplin.plan_mat_mul",
    "poplin.plan_convolution",
    "poplin.get_fwd_flops",
    "poplin.get_bwd_flops",
    "poplin.get_wu_flops",
    "poplin.get_fwd_perfect_cycle_count",
    "poplin.mat_mul_report_plan",
    "poplin.mat_mul_grouped_report_plan",
    "popops.add_codelets",
    "poplin.add_codelets",
    "popnn.add_codelets",
}


# --- poplin ---------------------------------------------------------------------------------------


def operands(s: Shape) -> Given:
    return [(floats(s), FLOAT), (floats((s[1], 3)), FLOAT)]


def grouped(s: Shape) -> Given:
    return [(floats((2, *s)), FLOAT), (floats((2, s[1], 3)), FLOAT)]


def accumulated(given: Callable[[Shape], Given]) -> Callable[[Shape], Given]:
    def more(s: Shape) -> Given:
        (a, _), (b, _) = given(s)
        return [(floats((*a.shape[:-1], 3)), FLOAT), (a, FLOAT), (b, FLOAT)]

    return more


def made_for_a_product(rank: str) -> Callable[..., Any]:
    """Operands and results of a product of this shape, filled with ones, multiplied and added
    up."""

    def call(graph: Graph, prog: Sequence, x: Tensor) -> list[Tensor]:
        groups = (2,) if rank else ()
        shapes = (*groups, *x.shape), (*groups, x.shape[1], 3)
        a, b, c = (
            getattr(poplin, f"create_mat_mul_{rank}{what}")(graph, FLOAT, *shapes)
            for what in ("input_lhs", "input_rhs", "output")
        )
        for tensor in (a, b, c):
            popops.fill(graph, tensor, prog, 1)
        (poplin.mat_mul_grouped_acc if rank else poplin.mat_mul_acc)(graph, c, 1, a, b, prog)
        return [a, b, c]

    def wanted(x: Array) -> list[Array]:
        groups = (2,) if rank else ()
        return [
            np.ones((*groups, *x.shape)),
            np.ones((*groups, x.shape[1], 3)),
            np.full((*groups, len(x), 3), 1 + x.shape[1]),
        ]

    return Case(one(), call, wanted, lax=(0,))  # type: ignore[return-value]


def arranged(graph: Graph, prog: Sequence, a: Tensor, b: Tensor) -> Tensor:
    return poplin.mat_mul(
        graph, a, poplin.pre_arrange_mat_mul_input_rhs(graph, a.shape, b, prog), prog
    )


CASES |= {
    "poplin.mat_mul": Case(operands, new(poplin.mat_mul), np.matmul, 3e-6),
    "poplin.mat_mul_grouped": Case(grouped, new(poplin.mat_mul_grouped), np.matmul, 3e-6),
    "poplin.mat_mul_acc": Case(
        accumulated(operands),
        lambda g, p, c, a, b: poplin.mat_mul_acc(g, c, 0.5, a, b, p) or c,
        lambda c, a, b: c + a @ b / 2,
        3e-6,
    ),
    "poplin.mat_mul_grouped_acc": Case(
        accumulated(grouped),
        lambda g, p, c, a, b: poplin.mat_mul_grouped_acc(g, c, 0.5, a, b, p) or c,
        lambda c, a, b: c + a @ b / 2,
        3e-6,
    ),
    "poplin.pre_arrange_mat_mul_input_rhs": Case(
        operands, arranged, np.matmul, 3e-6, via=("mat_mul",)
    ),
    "poplin.transpose": Case(one(), new(poplin.transpose), np.transpose),
}


def layer(s: Shape) -> poplin.ConvParams:
    """A convolution of rows of 3 elements by kernels of 2, to two channels."""
    return poplin.ConvParams(FLOAT, s[0], 3, 2, s[1], 2)


def of_layer(*names: str) -> Callable[[Shape], Given]:
    def given(s: Shape) -> Given:
        shapes = {"x": (*s, 3), "w": (1, 2, s[1], 2), "dy": (s[0], 2, 2), "b": (2,)}
        return [(floats(shapes[name]), FLOAT) for name in names]

    return given


def by_layer(function: Callable[..., Any], *more: Any) -> Callable[..., Any]:
    """`function(graph, *tensors, params, *more, prog)`; what it makes, or else its second
    tensor."""

    def call(graph: Graph, prog: Sequence, *t: Any) -> Tensor:
        shape = next((x.shape for x in t[::-1] if x.shape[2:] == (3,)), None)
        params = layer(shape[:2] if shape else (t[0].shape[0], t[1].shape[2]))
        made: Tensor | None = function(graph, *t, params, *more, prog)
        return t[1] if made is None else made  # type: ignore[no-any-return]

    return call


def windows(x: Array) -> Array:
    return np.stack([x[..., :2], x[..., 1:]], 2)  # [batch, channels, output, place]


def slope(dy: Array, w: Array) -> Array:
    made = np.zeros((len(dy), w.shape[2], 3))
    for i in range(2):
        made[:, :, i : i + 2] += np.einsum("bo,ock->bck", dy[:, :, i], w[0])
    return made


def deltas(dy: Array, x: Array) -> Array:
    return np.einsum("boi,bcik->ock", dy, windows(x))[None]


def made_for_a_layer(graph: Graph, prog: Sequence, x: Tensor) -> list[Tensor]:
    """Ones, where a convolution wants them."""
    params = layer(x.shape[:2])
    made = [poplin.create_input(graph, params), poplin.create_weights(graph, params)]
    made.append(poplin.create_biases(graph, x))
    for tensor in made:
        popops.fill(graph, tensor, prog, 1)
    return made


EMPTY = {"empty": "ConvParams() was given 0 as batch_size."}
CASES |= {
    "poplin.convolution": Case(
        of_layer("x", "w"),
        by_layer(poplin.convolution),
        lambda x, w: np.einsum("bcik,ock->boi", windows(x), w[0]),
        1e-5,
        EMPTY,
    ),
    "poplin.convolution_input_gradient": Case(
        of_layer("dy", "w"), by_layer(poplin.convolution_input_gradient), slope, 1e-5, EMPTY
    ),
    "poplin.calculate_weight_deltas": Case(
        of_layer("dy", "x"), by_layer(poplin.calculate_weight_deltas), deltas, 1e-5, EMPTY
    ),
    "poplin.convolution_weight_update": Case(
        of_layer("dy", "w", "x"),
        by_layer(poplin.convolution_weight_update, -0.5),
        lambda dy, w, x: w - deltas(dy, x) / 2,
        1e-5,
        EMPTY,
        via=("calculate_weight_deltas",),
    ),
    "poplin.convolution_bias_update": Case(
        of_layer("b", "dy"),
        lambda g, p, b, dy: poplin.convolution_bias_update(g, dy, b, -0.5, p) or b,
        lambda b, dy: b - dy.sum((0, 2)) / 2,
        1e-5,
        via=("reduce_with_output",),
    ),
    "poplin.add_bias": Case(
        of_layer("dy", "b"),
        changed(poplin.add_bias),
        lambda dy, b: dy + b[:, None],
        via=("add_in_place",),
    ),
    "poplin.weights_transpose_chans_flip_xy": Case(
        lambda s: [(floats((2, *s, 3)), FLOAT), (floats((2, *s[::-1], 3)), FLOAT)],
        lambda g, p, a, b: poplin.weights_transpose_chans_flip_xy(g, a, b, p) or b,
        lambda a, b: a.transpose(0, 2, 1, 3)[..., ::-1],
    ),
    "poplin.create_input": Case(
        of_layer("x"),
        made_for_a_layer,
        lambda x: [np.ones(x.shape), np.ones((1, 2, x.shape[1], 2)), np.ones(x.shape[1])],
        0.0,
        EMPTY,
        lax=(0,),
    ),
}
TOGETHER |= dict.fromkeys(("poplin.create_weights", "poplin.create_biases"), "poplin.create_input")
for _rank in ("", "grouped_"):
    _first = f"poplin.create_mat_mul_{_rank}input_lhs"
    CASES[_first] = made_for_a_product(_rank)  # type: ignore[assignment]
    TOGETHER |= {f"poplin.create_mat_mul_{_rank}{what}": _first for what in ("input_rhs", "output")}


# --- popnn ----------------------------------------------------------------------------------------


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def probabilities(s: Shape) -> Given:
    return [
        (softmax(floats(s)).astype(np.float32), FLOAT),
        (places(s[0], s[1])[:, 0], UNSIGNED_INT),
    ]


def losses(graph: Graph, prog: Sequence, x: Tensor, labels: Tensor) -> list[Tensor]:
    loss, deltas = zero(graph, x, None, x.shape[:1]), zero(graph, x)
    popnn.calc_loss(graph, x, labels, loss, deltas, prog)
    return [loss, deltas]


def losses_wanted(p: Array, labels: Array) -> list[Array]:
    rows = np.arange(len(p))
    return [-np.log(p[rows, labels]), p - (np.arange(p.shape[1]) == labels[:, None])]


def accuracy(graph: Graph, prog: Sequence, x: Tensor, labels: Tensor) -> Tensor:
    count = zero(graph, labels, INT, ())
    popnn.calc_accuracy(graph, x, labels, count, prog)
    return count


def gradient_of_softmax(y: Array, g: Array) -> Array:
    return np.asarray(y * (g - (g * y).sum(axis=1, keepdims=True)))


SMOOTH: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
}
CASES |= {
    f"popnn.{_n}": Case(one(), new(getattr(popnn, _n)), _f, 3e-6) for _n, _f in SMOOTH.items()
}
CASES |= {
    "popnn.non_linearity": Case(
        one(), lambda g, p, x: popnn.non_linearity(g, "TANH", x, p), np.tanh, 3e-6
    ),
    "popnn.non_linearity_in_place": Case(
        one(), lambda g, p, x: popnn.non_linearity_in_place(g, "SOFTMAX", x, p) or x, softmax, 3e-6
    ),
    "popnn.non_linearity_input_gradient": Case(
        two(),
        lambda g, p, y, d: popnn.non_linearity_input_gradient(g, "TANH", y, d, p),
        lambda y, d: d * (1 - y**2),
        3e-6,
    ),
    "popnn.softmax": Case(one(), new(popnn.softmax), softmax, 3e-6),
    "popnn.softmax_in_place": Case(one(), changed(popnn.softmax_in_place), softmax, 3e-6),
    "popnn.log_softmax": Case(one(), new(popnn.log_softmax), lambda x: np.log(softmax(x)), 3e-6),
    "popnn.softmax_input_gradient": Case(
        two(), new(popnn.softmax_input_gradient), gradient_of_softmax, 1e-5
    ),
    "popnn.calc_loss": Case(probabilities, losses, losses_wanted, 3e-6),
    "popnn.calc_accuracy": Case(
        probabilities, accuracy, lambda p, at: np.sum(np.argmax(p, axis=1) == at)
    ),
}


ANY_DTYPE = {  # of a function, or of one of its operands
    "popops.cast",
    "popops.cast_with_output",
    "popops.zero",
    "popops.encode_one_hot 1",
    "popops.pad",
    "popops.rearrange",
    "popops.transpose",
    "popops.dynamic_slice 0",
    "popops.dynamic_slice_with_output 0",
    "popops.multi_slice 0",
    "popops.gather 0",
    "popops.sort_key_value 1",
    "popops.sort_key_value_in_place 1",
    "popops.top_k_key_value 1",
    "poputil.duplicate",
    "poputil.copy_to_ipu",
}


# --- the tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CASES)
def test_values_on_every_kind_of_shape(name: str, shape: str) -> None:
    case = CASES[name]
    given = case.given(SHAPES[shape])
    if shape in case.skip:
        with pytest.raises(IPUTeachError) as caught:
            run(case.call, *given, tiles=TILES)
        assert str(caught.value).startswith(case.skip[shape])
        return
    results, report = run(case.call, *given, tiles=TILES)
    if shape == "primes":  # what it costs is known, of every vertex
        assert all(ran.cycles > 0 for ran in report.compute_sets) and not report.unknown_codelets
    with np.errstate(all="ignore"):
        wide = [
            x.astype(np.float64) if dtype in (FLOAT, HALF) else np.asarray(x) for x, dtype in given
        ]
        wanted = case.wanted(*wide)
    listed = wanted if isinstance(wanted, list) else [wanted]
    for got, expected in zip(results, listed, strict=True):
        assert got.shape == np.shape(expected)
        np.testing.assert_allclose(
            got.astype(np.float64), expected, rtol=max(case.tolerance, 1e-7), atol=case.tolerance
        )


@pytest.mark.parametrize("name", CASES)
def test_an_operand_that_is_none_is_named(name: str) -> None:
    """In place of each operand in turn: no tensor, a tensor of another graph, and one that lies on
    no tile."""
    case, function = CASES[name], name.split(".")[1]
    names = [
        function,
        *case.via,
        *(n.split(".")[1] for n, other in TOGETHER.items() if other == name),
    ]
    shape = SHAPES["primes"]
    device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    count = len(case.given(shape))
    for number in range(count):
        for kind in ("none", "foreign", "unmapped", "other dtype"):
            graph, other, prog = Graph(device), Graph(device), Sequence()
            tensors: list[Any] = []
            for i, (values, dtype) in enumerate(case.given(shape)):
                where = other if (i, kind) == (number, "foreign") else graph
                if (i, kind) == (number, "other dtype"):
                    dtype = BOOL if dtype is not BOOL else FLOAT
                tensor = where.add_variable(dtype, np.shape(values), f"operand {i}")
                if (i, kind) != (number, "unmapped"):
                    poputil.map_tensor_linearly(where, tensor)
                tensors.append(tensor)
            if kind == "none":
                tensors[number] = None
            if number in case.lax or (
                kind == "other dtype" and (name in ANY_DTYPE or f"{name} {number}" in ANY_DTYPE)
            ):
                continue
            try:
                case.call(graph, prog, *tensors)
            except IPUTeachError as error:
                assert "\n  next:  " in str(error), str(error)
                assert any(f"{n}" in str(error) for n in names), str(error)
            except (AttributeError, TypeError):
                # the case itself asked for its shape
                assert kind == "none", f"{function}: operand {number} is {kind}"
            else:
                raise AssertionError(f"{function}() took operand {number} that is {kind}")


def public(library: ModuleType, name: str) -> list[str]:
    listed = getattr(library, "__all__", None) or [
        n for n in vars(library) if not n.startswith(("_", "check_"))
    ]
    classes = ("CircBuf", "TensorUseTracker")
    return [
        f"{name}.{n}"
        for n in listed
        if (inspect.isfunction(getattr(library, n)) and "poplibs" in getattr(library, n).__module__)
        or n in classes
    ]


def test_every_function_is_in_the_table() -> None:
    libraries = {"popops": popops, "poplin": poplin, "popnn": popnn, "poputil": poputil}
    found = [name for key, library in libraries.items() for name in public(library, key)]
    assert len(found) > 290
    missing = [n for n in found if n not in CASES and n not in TOGETHER and n not in NO_TENSORS]
    assert missing == [], "each needs its case here: CASES, or OF_ONE, OF_TWO and their like"
    assert [n for n in (*CASES, *TOGETHER, *NO_TENSORS) if n not in found] == []
    assert (
        len(operations.OPERATIONS)
        == len(OF_ONE) + len(OF_TWO) + len(BITS_OF_ONE) + len(BITS_OF_TWO) + len(TRUTH) + 2
    )
