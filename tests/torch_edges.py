"""Calls of torch with edge values.

These are 0, -0, ties, NaN, infinities, denormal numbers, negative integers, narrow integers, booleans,
single numbers, and indices from the end. `CASES` has for each name a function and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as f

Case = tuple[Callable[..., Any], tuple[Any, ...]]
NAN, INF = float("nan"), float("inf")
CASES: dict[str, Case] = {}


def case(name: str, function: Callable[..., Any], *tensors: Any) -> None:
    assert name not in CASES, name
    CASES[name] = function, tensors


def floats(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float32)


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, generator=GENERATOR)


def pairs(values: Any, others: Any = None) -> list[Any]:
    grids = torch.meshgrid(values, values if others is None else others, indexing="ij")
    return [grid.reshape(-1) for grid in grids]


GENERATOR = torch.Generator().manual_seed(0)
X = floats(
    0.0, -0.0, NAN, INF, -INF, 1e-40, -1e-40, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1, -1, 3, -3, 7, -7,
    1e-8, 88, -88, 100, -100, 0.49999997, 1e10, -1e10,
)  # fmt: skip
I = torch.tensor([0, 1, -1, 2, -2, 3, -3, 7, -7, 8, -8, 100, -100, 2**31 - 1, -(2**31) + 1])  # noqa: E741
SMALL = torch.tensor([0, 1, -1, 2, -2, 3, -3, 5, -5])
MASK = torch.tensor([True, False, True, True])
ROWS = torch.tensor(
    [
        [1.0, 3, 3, 2], [NAN, 1, 2, NAN], [INF, -INF, 0, INF], [-0.0, 0, -0.0, 0],
        [-INF, -INF, -INF, -INF], [5, 5, 5, 5],
    ]
)  # fmt: skip
TABLE, FIELD, SEVERAL = drawn(3, 4), drawn(2, 3, 5, 7), torch.tensor([2, -1, 0, -3])

# --- elements -------------------------------------------------------------------------------------

for _name in [
    "neg",
    "abs",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "erf",
    "erfc",
    "relu",
    "sigmoid",
    "tanh",
    "floor",
    "ceil",
    "trunc",
    "round",
    "sign",
    "sgn",
    "signbit",
    "reciprocal",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
    "logical_not",
    "atan",
    "asin",
    "acos",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "square",
    "frac",
    "nan_to_num",
    "angle",
]:
    case(_name, getattr(torch, _name), X)
for _name in [
    "silu",
    "gelu",
    "elu",
    "leaky_relu",
    "hardtanh",
    "hardswish",
    "hardsigmoid",
    "softplus",
    "logsigmoid",
    "softsign",
    "selu",
    "celu",
    "relu6",
    "mish",
    "tanhshrink",
    "softshrink",
]:
    case(_name, getattr(f, _name), X)
case("gelu by tanh", lambda x: f.gelu(x, approximate="tanh"), X)
for _name in [
    "neg",
    "abs",
    "sign",
    "bitwise_not",
    "floor",
    "ceil",
    "trunc",
    "round",
    "relu",
    "logical_not",
    "square",
]:
    case(f"{_name} of integers", getattr(torch, _name), I[:-2])
for _name in [
    "add",
    "sub",
    "mul",
    "div",
    "atan2",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "floor_divide",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "copysign",
    "hypot",
    "logaddexp",
    "xlogy",
    "pow",
]:
    case(f"{_name} of two", getattr(torch, _name), *pairs(X))
for _name in ("remainder", "fmod"):  # torch returns NaN for some quotients beyond 2^128
    case(f"{_name} of two", getattr(torch, _name), *pairs(X[X.abs() != X[5]]))
for _name in [
    "maximum",
    "minimum",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
]:
    case(f"{_name} of two integers", getattr(torch, _name), *pairs(I))
for _name in ["remainder", "fmod", "floor_divide"]:
    case(f"{_name} of two integers", getattr(torch, _name), *pairs(I, I[1:]))
for _mode in ("floor", "trunc", None):
    case(f"div {_mode}", lambda a, b, m=_mode: torch.div(a, b, rounding_mode=m), *pairs(X))
    case(f"div {_mode} of integers", lambda a, b, m=_mode: torch.div(a, b, rounding_mode=m),
         *pairs(I, I[1:]))  # fmt: skip
case("pow of two integers", torch.pow, *pairs(SMALL, SMALL.abs()))
for _power in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.5, 4, -3):
    case(f"x ** {_power}", lambda x, p=_power: x**p, X)
for _power in (0, 1, 2, 3, 4, -1.0, 0.5, 2.0):
    case(f"integer ** {_power}", lambda x, p=_power: x**p, SMALL)
for _base in (2, 0, -1):
    case(f"{_base} ** x", lambda x, b=_base: b**x, X)
for _divisor in (3, -3, 2.5, -2.5, INF):
    case(f"x // {_divisor}", lambda x, d=_divisor: x // d, X)
    case(f"x % {_divisor}", lambda x, d=_divisor: x % d, X)
    case(f"fmod {_divisor}", lambda x, d=_divisor: torch.fmod(x, d), X)
for _divisor in (3, -3, 2.5):
    case(f"integer // {_divisor}", lambda x, d=_divisor: x // d, I)
    case(f"integer % {_divisor}", lambda x, d=_divisor: x % d, I)
case("number // and % integers", lambda x: (7 // x, 7 % x, -7 // x), I[1:])
case("integers with floats", lambda x: (x / 2, x + 0.5, x * 2.5, x < 2.5, x == 2.0), I)
case("bits", lambda x: (~x, x ^ 5, x & -5, x | 5, x >> 1, x >> 40), I)
case("shift", lambda x: x << 2, SMALL)
case("shifts of two", lambda a, b: (a << b, a >> b), *pairs(SMALL, SMALL.abs()))
case("clamp", lambda x: (x.clamp(-1, 1), x.clamp(min=0.5), x.clamp_max(0.5), x.clamp(1, -1)), X)
case("clamp of two", lambda a, b: a.clamp(min=b), *pairs(X))
case("clamp of integers", lambda x: (x.clamp(-2, 2), x.clamp(-2.5, 2)), I)
case("where", lambda a, b: torch.where(a > b, a, b), *pairs(X))
case("where with numbers", lambda x: (torch.where(x > 0, x, 0), x.masked_fill(x > 0, 7)), X)
case("where of integers", lambda x: torch.where(x > 0, x, -1), I)
case("comparisons with NaN", lambda a, b: (a < b, a >= b, a != b), *pairs(X))
case("isin", lambda x: torch.isin(x, floats(0, 3, NAN)), X)
case("heaviside", lambda x: torch.heaviside(x, torch.tensor(0.5)), X)
case("lerp", lambda x: torch.lerp(x, x.flip(0), 0.3), X)
case("round to decimals", lambda x: x.round(decimals=2), floats(0.125, 0.375, -0.125, 1.005))
case(
    "single numbers",
    lambda a, b: (a * b, a + b, b * 2.5),
    torch.tensor([1, 2, -3]),
    torch.tensor(2.5),
)
case("to integers", lambda x: x.to(torch.int32), floats(1.9, -1.9, 0.5, -0.5, 1e9))
case("to bool", lambda x: x.bool(), X)
case("to half", lambda x: x.half(), floats(1e-8, 70000, -70000, 1.0005, NAN, INF))
case("bits of floats", lambda x: x.view(torch.int32), drawn(3))
case("floats of bits", lambda x: x.view(torch.float32), torch.tensor([1, -3], dtype=torch.int32))

# --- narrow integers and booleans -----------------------------------------------------------------

NARROW: dict[str, Callable[[Any], Any]] = {
    "x + 100": lambda x: x + 100, "x * 3": lambda x: x * 3, "-x": lambda x: -x, "x - 5": lambda x: x - 5,
    "~x": lambda x: ~x, "sums": lambda x: (x.sum(), x.cumsum(0), x.sum(dtype=x.dtype), x.prod()),
    "x ** 2": lambda x: x**2, "abs": lambda x: x.abs(), "x // 2": lambda x: x // 2, "x % 3": lambda x: x % 3,
    "shifts": lambda x: (x << 3, x >> 1), "to int8": lambda x: (x.int() * 1000).to(torch.int8),
    "to uint8": lambda x: (x.int() * 1000).to(torch.uint8), "compare": lambda x: (x < 300, x == -1),
    "x + x": lambda x: x + x, "x + 1.5": lambda x: x + 1.5, "sort": lambda x: x.sort()[0],
    "clamp": lambda x: x.clamp(-3, 50), "invert and add": lambda x: ~x + 1,
}  # fmt: skip
for _dtype in (torch.int8, torch.uint8, torch.int16):
    _values = [0, 1, 2, 3, 100, 127] + ([] if _dtype == torch.uint8 else [-1, -2, -128])
    for _name, _function in NARROW.items():
        case(f"{_name} of {_dtype}", _function, torch.tensor(_values, dtype=_dtype))
case(
    "booleans", lambda b: (b + b, b * b, b + 1, b * 2.5, b.sum(), ~b, b ^ True, b / 2, b < 1), MASK
)
case("reductions of booleans", lambda b: (b.any(), b.all(), b.max(), b.cumsum(0), b.prod()), MASK)
case("more of booleans", lambda b: (b & 1, b == 1, torch.minimum(b, ~b), b.sort()[0]), MASK)
case("choices of booleans", lambda b: (torch.where(b, 1, 2.5), torch.where(b, False, True)), MASK)

# --- reductions and order -------------------------------------------------------------------------

for _name in [
    "sum",
    "mean",
    "prod",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "max",
    "min",
    "sort",
    "median",
    "cumsum",
    "cumprod",
    "softmax",
    "log_softmax",
    "std",
    "var",
    "any",
    "all",
    "logsumexp",
    "cummax",
    "cummin",
    "nansum",
    "logcumsumexp",
    "nanmedian",
    "nanmean",
]:
    _function = getattr(torch, _name)
    for _dim in (0, 1):
        case(f"{_name} along {_dim}", lambda x, f=_function, d=_dim: f(x, d), ROWS)
for _name in [
    "sum",
    "mean",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "max",
    "min",
    "median",
    "std",
    "var",
    "any",
    "all",
]:
    case(f"{_name} of all", getattr(torch, _name), ROWS)
    case(f"{_name} of a row", getattr(torch, _name), ROWS[:1])
for _name in [
    "sum",
    "mean",
    "prod",
    "amax",
    "argmax",
    "max",
    "median",
    "any",
    "cumsum",
    "sort",
    "cummax",
]:
    _dims = () if _name in ("median", "argmax", "max") else (0,)
    case(
        f"{_name} of a number",
        lambda x, n=_name, d=_dims: getattr(torch, n)(x, *d),
        torch.tensor(2.5),
    )
for _name in ["argmax", "argmin", "max", "min", "median", "sort", "cummax"]:
    _ties = torch.tensor([[3, 1, 3, 1], [-5, -5, 0, 0]])
    case(f"{_name} of integers", lambda x, n=_name: getattr(torch, n)(x, 1), _ties)
case("var by correction", lambda x: (x.var(1, correction=0), x.var(1, correction=5)), drawn(3, 4))
case("var of one", lambda x: (x.var(1), x.var(1, correction=0), x.std(1)), torch.ones(3, 1))
case("topk(3, 1)", lambda x: x.topk(3, 1), ROWS)
case("topk(3, 1, False)", lambda x: x.topk(3, 1, largest=False), ROWS)
case("kthvalue(2, 1)", lambda x: x.kthvalue(2, 1)[0], drawn(3, 4))
case("sort stably", lambda x: x.sort(dim=1, descending=True, stable=True), ROWS)
case("searchsorted", lambda v: torch.searchsorted(floats(1, 2, 2, 5), v), X)
case("bucketize", lambda v: torch.bucketize(v, floats(1, 2, 2, 5), right=True), X)
case("sums of large integers", lambda x: x.cumsum(0), torch.tensor([2**24 + 1, 1, 1, 3]))
case("cumsum behind an infinity", lambda x: x.cumsum(0), floats(1, INF, 2))
case("many halves", lambda x: x.half().cumsum(0), torch.ones(3000))
for _order in (0, 0.5, 1, 1.5, 2, 3, INF, -INF):
    case(f"norm {_order}", lambda a, p=_order: torch.linalg.vector_norm(a, p, 1),
         torch.tensor([[1.0, 2, -2], [0, 0, 0], [3, -1, 0]]))  # fmt: skip
for _order in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF):
    case(f"cdist {_order}", lambda a, b, p=_order: torch.cdist(a, b, p),
         torch.tensor([[1.0, 2], [0, 0], [3, -1]]), torch.tensor([[1.0, 2], [2, 1]]))  # fmt: skip
    case(f"pdist {_order}", lambda a, p=_order: f.pdist(a, p),
         torch.tensor([[1.0, 2], [0, 0], [3, -1], [1, 2]]))  # fmt: skip
case("normalize", lambda a: f.normalize(a, dim=1), torch.tensor([[1.0, 2, -2], [0, 0, 0]]))

# --- pools and layers -----------------------------------------------------------------------------

PICTURE = torch.tensor([[[[1, NAN, 2, 3], [4, 4, 4, -1], [-INF, -INF, INF, 0], [-0.0, 0, 5, 5]]]])
for _sizes in (
    (2, 2, 0, False),
    (3, 2, 1, False),
    (3, 1, 1, False),
    (3, 2, 1, True),
    (2, 3, 1, True),
):
    _k, _s, _p, _c = _sizes
    case(
        f"max_pool {_sizes}",
        lambda x, k=_k, s=_s, p=_p, c=_c: f.max_pool2d(x, k, s, p, 1, c),
        PICTURE,
    )
    case(f"max_pool with places {_sizes}", lambda x, k=_k, s=_s, p=_p, c=_c: f.max_pool2d(
        x, k, s, p, 1, c, return_indices=True), PICTURE)  # fmt: skip
    for _options in ((True, None), (False, None), (True, 3)):
        case(f"avg_pool {_sizes} {_options}", lambda x, k=_k, s=_s, p=_p, c=_c, o=_options: f.avg_pool2d(
            x, k, s, p, c, *o), FIELD)  # fmt: skip
for _size in (1, 2, (2, 5), (3, None)):
    case(f"adaptive average {_size}", lambda x, s=_size: f.adaptive_avg_pool2d(x, s), FIELD)
    case(f"adaptive max {_size}", lambda x, s=_size: f.adaptive_max_pool2d(x, s, True), FIELD)
case("max_pool dilated", lambda x: f.max_pool2d(x, 2, 1, 1, 2), FIELD)
case("max_pool of lines", lambda x: f.max_pool1d(x, 3, 2, 1), drawn(2, 3, 9))
case(
    "pools of volumes",
    lambda x: (f.max_pool3d(x, 2), f.avg_pool3d(x, 2, 1, 1)),
    drawn(1, 2, 4, 4, 4),
)
case(
    "unpool",
    lambda x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2),
    drawn(1, 2, 4, 4),
)
case("conv transposed", lambda x, w: f.conv_transpose2d(x, w, stride=2, output_padding=1),
     drawn(1, 2, 3, 4), drawn(2, 3, 3, 3))  # fmt: skip
case("conv transposed and dilated", lambda x, w: f.conv_transpose2d(
    x, w, stride=2, padding=1, dilation=3, output_padding=2), drawn(1, 2, 3, 4), drawn(2, 3, 2, 2))  # fmt: skip
case(
    "conv of the same size",
    lambda x, w: f.conv2d(x, w, padding="same"),
    drawn(1, 2, 5, 4),
    drawn(3, 2, 2, 3),
)
case("batch norm", lambda x: f.batch_norm(x, None, None, training=True), drawn(4, 3))
case(
    "norms",
    lambda x: (f.group_norm(x, 3), f.instance_norm(x), f.layer_norm(x, (4,))),
    drawn(2, 6, 4),
)
case("norm of equal numbers", lambda x: f.layer_norm(x, (4,)), torch.ones(2, 4))
case(
    "product with infinities",
    lambda a, b: a @ b,
    torch.tensor([[INF, 1], [NAN, 0]]),
    torch.ones(2, 2),
)
case(
    "products of integers",
    lambda a, b: (a @ b, a[0] @ b, a[1] @ a[2], torch.addmm(a @ b, a, b, beta=2, alpha=-3)),
    torch.tensor([[2**14, -3], [7, 0], [-1, 5]]),
    torch.tensor([[4, -1, 2**11], [3, 2, -2]]),
)
case("batches of integers", lambda a, b: (torch.bmm(a, b), torch.einsum("bij,bjk->ik", a, b)),
     torch.arange(12).reshape(2, 2, 3) - 5, torch.arange(12).reshape(2, 3, 2) - 7)  # fmt: skip
case("products of bytes", lambda a: a @ a, torch.tensor([[100, 3], [7, 200]], dtype=torch.uint8))
case("product of nothing", lambda a, b: a @ b, torch.ones(2, 0), torch.ones(0, 3))
case(
    "addmm without beta",
    lambda c, a: torch.addmm(c, a, a, beta=0),
    torch.full((3, 3), NAN),
    drawn(3, 3),
)
case("dropout of none and all", lambda x: (f.dropout(x, 0.0), f.dropout(x, 1.0)), TABLE)
case(
    "smooth l1",
    lambda a, b: f.smooth_l1_loss(a, b),
    floats(0, 1, -1, 2, NAN),
    floats(0, 0, 0, 1, 0),
)

# --- look-ups and views ---------------------------------------------------------------------------


def _written(x: Any, index: Any) -> Any:
    y = x.clone()
    y[index] = 7.0
    return y


case("subscripts", lambda x, i: (x[i], x[i, i], x[[0, -1]]), TABLE, SEVERAL)
case("subscripts apart", lambda x, i: x[i, :, i], drawn(3, 2, 3), SEVERAL)
case("subscripts that are written", _written, TABLE, SEVERAL)


def _masked(*index: Any) -> Callable[..., Any]:
    """Return a function that writes values to `x[index]`; "mask" in the index is its second argument."""

    def write(x: Any, mask: Any, values: Any) -> Any:
        y = x.clone()
        y[tuple(mask if isinstance(item, str) else item for item in index)] = values
        return y

    return write


EVEN = torch.tensor([[True, False, True, False], [False] * 4, [True] * 4])
SEVEN = torch.tensor(7.0)
case("x[x < 0] = 0", lambda x: _masked("mask")(x, x < 0, 0), X)
case("x[isnan] = 0", lambda x: _masked("mask")(x, x.isnan(), 0.0), X)
case("x[mask] = a tensor", _masked("mask"), ROWS[:3], EVEN, SEVEN)
case("x[mask] = x.mean()", lambda x: _masked("mask")(x, x > 0, x.mean()), TABLE)
case("x[mask] = a row", _masked("mask"), ROWS[:3], EVEN[:, 0], floats(1, 2, 3, 4))
case("x[mask] = one row", _masked("mask"), TABLE, EVEN[:, 0], floats(1, 2, 3, 4)[None])
case("x[:, mask] = a column", _masked(slice(None), "mask"), TABLE, EVEN[0], drawn(3, 1))
case("x[..., mask] = a number", _masked(..., "mask"), drawn(2, 3, 4), EVEN[0], SEVEN)
case("x[mask, ..., 1] = a number", _masked("mask", ..., 1), drawn(3, 4, 2), EVEN, SEVEN)
case("x[0, :, None, mask] = a row", _masked(0, slice(None), None, "mask"), drawn(2, 3, 4, 2), EVEN[0],
     floats(1, 2))  # fmt: skip
case("x[mask, 1:] = numbers", _masked("mask", slice(1, None)), TABLE, EVEN[:, 0], drawn(1, 3))
case("x[mask] of integers", lambda x: _masked("mask")(x, x < 0, 2.9), I)
case("x[mask] of booleans", lambda x: _masked("mask")(x, ~x, True), MASK)
case(
    "x[mask] where nothing is true",
    _masked("mask"),
    TABLE,
    torch.zeros(3, 4, dtype=torch.bool),
    SEVEN,
)
for _sum in (False, True):
    case(
        f"index_put with a mask, {_sum}",
        lambda x, m, v, s=_sum: x.index_put((m,), v, s),
        TABLE,
        EVEN[:, 0],
        drawn(4),
    )
case("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), ROWS[:3], EVEN, drawn(12))
case(
    "masked_scatter that broadcasts",
    lambda x, m, s: (x * 1).masked_scatter_(m, s),
    TABLE,
    EVEN[0],
    drawn(20),
)
case(
    "masked_fill",
    lambda x, m, v: (x.masked_fill(m, v), x.masked_fill(x != x, 0)),
    ROWS[:3],
    EVEN,
    SEVEN,
)
case("take", lambda x, i: x.take(i), TABLE, torch.tensor([0, -1, 5]))
case("index_put that adds", lambda x, i, v: x.index_put((i,), v, accumulate=True),
     TABLE, torch.tensor([0, 0, -1]), drawn(3, 4))  # fmt: skip
_places = torch.tensor([[0, 3], [1, 1], [2, 0]])
case("gather", lambda x, i: x.gather(1, i), TABLE, _places)
case("scatter", lambda x, i: x.scatter(1, torch.sort(i).values[:, :1], 9.0), TABLE, _places)
case("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), TABLE, _places, drawn(3, 4))
for _kind in ("sum", "mean", "amax", "amin", "prod"):
    for _self in (True, False):
        case(f"scatter_reduce {_kind} {_self}", lambda x, i, s, k=_kind, n=_self: x.scatter_reduce(
            1, i, s, k, include_self=n), TABLE, _places, drawn(3, 2))  # fmt: skip
        case(f"scatter_reduce {_kind} {_self} of integers", lambda x, i, s, k=_kind, n=_self: (
            x.scatter_reduce(0, i, s, k, include_self=n)), torch.tensor([5, -7, 2, -2]),
            torch.tensor([0, 1, 1, 2]), torch.tensor([-4, 3, -6, 1]))  # fmt: skip
    for _self in (True, False):
        case(f"scatter_reduce {_kind} {_self} of equal numbers", lambda x, i, s, k=_kind, n=_self: (
            x.scatter_reduce(1, i, s, k, include_self=n)), torch.ones(3, 4),
            torch.tensor([[0, 0, 0], [1, 1, 2]]), torch.ones(2, 3))  # fmt: skip
        case(f"scatter_reduce {_kind} {_self} with zeros", lambda x, i, s, k=_kind, n=_self: (
            x.scatter_reduce(0, i, s, k, include_self=n)), floats(1, 0, 2, 0),
            torch.tensor([0, 0, 1, 1, 2, 3]), floats(0, 3, 0, 0, -2, 5))  # fmt: skip
        if _kind != "sum":  # index_add
            case(f"index_reduce {_kind} {_self}", lambda x, i, s, k=_kind, n=_self: x.index_reduce(
                1, i, s, k, include_self=n), TABLE, torch.tensor([2, 0, 2]), drawn(3, 3))  # fmt: skip
for _source in (2.0, drawn(3, 2)):
    case(f"scatter that multiplies, {type(_source).__name__}", lambda x, i, s=_source: x.detach().scatter(
        1, i, s, reduce="multiply"), TABLE, torch.tensor([[1, 1], [0, 3]]))  # fmt: skip
case("scatter_reduce with NaN", lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
     floats(1, 2, NAN, 4), torch.tensor([0, 1, 2, 3]), floats(NAN, 1, 0, INF))  # fmt: skip
case(
    "embedding with padding",
    lambda w, i: f.embedding(i, w, padding_idx=1),
    TABLE,
    torch.tensor([0, 1, 2]),
)
for _mode in ("sum", "mean", "max"):
    case(f"bags by {_mode}", lambda w, i, o, m=_mode: f.embedding_bag(i, w, o, mode=m),
         TABLE, torch.tensor([0, 1, 2, 1, 1]), torch.tensor([0, 2, 2, 4]))  # fmt: skip
    case(f"bags with padding by {_mode}", lambda w, i, m=_mode: f.embedding_bag(
        i, w, mode=m, padding_idx=1), TABLE, torch.tensor([[0, 1], [1, 1], [2, 2]]))  # fmt: skip
case("pad", lambda x: (f.pad(x, (-1, 2, 1, -1), value=3.0), f.pad(x, (1, 1), value=-INF)), TABLE)
case("pad by copies", lambda x: (f.pad(x, (2, 1), mode="reflect"), f.pad(x, (2, 1), mode="replicate"),
     f.pad(x, (2, 1), mode="circular")), TABLE)  # fmt: skip
case("pad of integers", lambda x: f.pad(x, (1, 2), value=5), I)
case("pad of booleans", lambda x: f.pad(x, (1, 2), value=True), MASK)
case("as_strided", lambda x: x.as_strided((2, 3), (1, 2), 1), torch.arange(12.0))
case("triangles", lambda x: (x.tril(), x.triu(1)), torch.full((3, 3), INF))
case("diagonals", lambda x: (x.diagonal(1), x.diag(), torch.diag_embed(x)), TABLE)
case("windows", lambda x: (x.unfold(1, 2, 1), x.roll(1, 1), x.repeat(2, 1, 2)), TABLE)
case(
    "mixed dtypes",
    lambda a, b: (torch.cat([a, b]), torch.stack([a, b])),
    torch.tensor([1, 2]),
    floats(0.5, 1),
)
case("fold", lambda x: f.fold(x, (4, 5), (2, 2)), drawn(1, 8, 12))
case("interpolate", lambda x: f.interpolate(x, scale_factor=2, mode="bilinear"), drawn(1, 2, 3, 4))
for _mode in ("bilinear", "nearest", "bicubic"):
    case(f"grid_sample {_mode}", lambda x, g, m=_mode: f.grid_sample(x, g, m, align_corners=False),
         drawn(1, 2, 3, 4), drawn(1, 2, 3, 2))  # fmt: skip
for _power in (1, 2):
    for _reduction in ("none", "mean", "sum"):
        case(f"multi_margin_loss {_power} {_reduction}", lambda x, w, t, p=_power, r=_reduction: (
            f.multi_margin_loss(x, t, p, 0.5, reduction=r),
            f.multi_margin_loss(x, t, p, weight=w, reduction=r), f.multi_margin_loss(x[0], t[0], p),
            f.multi_margin_loss(x[0, 0], torch.tensor(0), p), f.multi_margin_loss(x[0], t[:1], p)),
            ROWS, floats(1, 0, 2.5, 0.5), torch.tensor([0, 1, 3, 2, 0, 1]))  # fmt: skip
