"""What torch calls an operation, as operations of the IR: a line for each name, in torch's order of
arguments. Nothing here needs torch.

Numbers come as numbers, tensors as values; what is the same on every run is a constant by then. A
name that is not here, or whose line returns NotImplemented, is spelt out in those that are by
torch's own decomposition, if that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import accumulate
from math import log, prod
from typing import Any

import numpy as np

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.ir.composed import REDUCTIONS
from ipu_teach.poplibs.popops import MASKED_LABEL_CODE
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, DType

Ints = Sequence[int]
ATEN: dict[str, Callable[..., Any]] = {}
DTYPES: dict[str, type[DType]] = {
    "float32": FLOAT,
    "float16": HALF,
    "bool": BOOL,
    **dict.fromkeys(("int64", "int32", "int16", "uint8"), UNSIGNED_INT),
}
import os

if int(os.environ.get("JOINT", "1")):
    DTYPES |= dict.fromkeys(("int64", "int32", "int16", "int8", "uint8"), INT)
IGNORED = -100  # the class number that counts for no loss where nothing is said
ORDER = (BOOL, UNSIGNED_INT, INT, HALF, FLOAT)  # two that meet become the later one
VIEWS = """view reshape view_as reshape_as flatten unflatten unsqueeze squeeze transpose t permute
    movedim expand expand_as select slice narrow split split_with_sizes chunk unbind contiguous
    detach alias to"""


def row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function says what these names of torch become."""

    def named(function: Callable[..., Any]) -> Callable[..., Any]:
        ATEN.update(dict.fromkeys(names, function))
        return function

    return named


# --- dtypes that meet -----------------------------------------------------------------------------


def _met(g: Ir, *given: Any, at_least: type[DType] = BOOL) -> list[Any]:
    """Values and numbers, all in the dtype in which torch would compute."""
    found = {v.dtype for v in given if isinstance(v, Value)} | {at_least}
    wide = {v.dtype for v in given if isinstance(v, Value) and v.shape} & {FLOAT, HALF}
    dtype = max(wide or found, key=ORDER.index)
    if at_least is HALF and not any(v.floating for v in given if isinstance(v, Value)):
        dtype = FLOAT
    numbers = [v for v in given if not isinstance(v, Value)]
    if any(isinstance(v, float) for v in numbers) and dtype not in (FLOAT, HALF):
        dtype = FLOAT
    if dtype is BOOL and any(type(v) is int for v in numbers):
        dtype = UNSIGNED_INT
    if dtype is UNSIGNED_INT and any(v < 0 for v in numbers):
        dtype = INT
    return [g.cast(v, dtype) if isinstance(v, Value) else g.constant(v, dtype) for v in given]


def _two(kind: str, at_least: type[DType] = BOOL) -> Callable[..., Value]:
    return lambda g, a, b: g.op(kind, *_met(g, a, b, at_least=at_least))


def _one(kind: str) -> Callable[..., Value]:
    return lambda g, x: g.op(kind, *_met(g, x, at_least=HALF))


def _plain(kind: str) -> Callable[..., Value]:
    return lambda g, x: g.op(kind, x)


SAME = "neg abs floor ceil round trunc square is_nan logical_not"
FLOATS = "exp expm1 log log1p sqrt rsqrt sin cos erf relu sigmoid tanh silu"
ATEN |= {name: _plain(name) for name in SAME.split()}
ATEN |= {name: _one(name) for name in FLOATS.split()}
ATEN |= {
    "mul": _two("mul"),
    "pow": lambda g, a, b: g.op("square", a) if b in (2, 2.0) else g.op("pow", *_met(g, a, b)),
    "maximum": _two("max"),
    "minimum": _two("min"),
    "atan2": _two("atan2"),
    "reciprocal": _one("inv"),
    "sign": _plain("signum"),
    "sgn": _plain("signum"),
    "isnan": _plain("is_nan"),
    "isfinite": _plain("is_finite"),
    "bitwise_not": _plain("logical_not"),
    "bitwise_and": _two("logical_and"),
    "bitwise_or": _two("logical_or"),
    "logical_and": _two("logical_and"),
    "logical_or": _two("logical_or"),
    **{a: _two(b) for a, b in {"eq": "eq", "ne": "neq", "lt": "lt", "gt": "gt"}.items()},
    "le": _two("lteq"),
    "ge": _two("gteq"),
    "gelu": lambda g, x, approximate="none": g.op(
        "gelu_tanh" if approximate == "tanh" else "gelu", x
    ),
    "dropout": lambda g, x, p, train: ir.dropout(g, x, p) if train else x,
    "detach": lambda g, x: g.op("stop", x),
    "copy": lambda g, x, y, *how: _expand(g, g.cast(y, x.dtype), x.shape),
}
for _name in ("alias", "contiguous", "clone", "lift_fresh_copy", "positive"):
    ATEN[_name] = lambda g, x, **how: x
for _name in ("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range"):
    ATEN[_name] = lambda g, *given, **how: None


@row("add")
def _sum(g: Ir, a: Any, b: Any, alpha: float = 1, sign: int = 1) -> Value:
    if alpha != 1:
        b = g.op("mul", *_met(g, b, alpha)) if isinstance(b, Value) else b * alpha
    return g.op("add" if sign > 0 else "sub", *_met(g, a, b))


ATEN["sub"] = partial(_sum, sign=-1)


@row("div")
def _quotient(g: Ir, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    y = g.op("div", *_met(g, a, b, at_least=HALF))
    y = g.op(rounding_mode, y) if rounding_mode else y
    whole = _met(g, a, b)[0].dtype
    return g.cast(y, whole) if rounding_mode and whole in (INT, UNSIGNED_INT) else y


@row("clamp", "hardtanh")
def _clamp(g: Ir, x: Value, min: Any = None, max: Any = None) -> Value:
    for ask, bound in (("lt", min), ("gt", max)):
        if bound is not None:  # at a bound x itself is taken, and has the gradient
            x, limit = _met(g, x, bound)
            x = g.op("select", g.op(ask, x, limit), limit, x)
    return x


@row("where")
def _where(g: Ir, mask: Value, a: Any, b: Any) -> Value:
    return g.op("select", g.cast(mask, BOOL), *_met(g, a, b))


ATEN["leaky_relu"] = lambda g, x, slope=0.01: _where(
    g, g.op("gt", x, 0.0), x, g.op("mul", x, slope)
)


@row("elu")
def _elu(g: Ir, x: Value, alpha: float = 1.0, scale: float = 1.0, inner: float = 1.0) -> Value:
    capped = _where(g, g.op("gt", x, 0.0), 0.0, x)
    below = g.op("expm1", g.op("mul", capped, inner))
    y = _where(g, g.op("gt", x, 0.0), x, g.op("mul", below, alpha))
    return g.op("mul", y, scale) if scale != 1 else y


ATEN["softplus"] = ir.softplus
ATEN["log_sigmoid"] = lambda g, x: g.op("neg", g.op("softplus", g.op("neg", x)))


@row("remainder", "fmod")
def _rest(g: Ir, a: Any, b: Any, toward: str = "floor") -> Value:
    a, b = _met(g, a, b)
    if not a.floating:
        return g.op("rem", a, b)
    return g.op("sub", a, g.op("mul", b, g.op(toward, g.op("div", a, b))))


def _scaled(kind: str, by: float) -> Callable[..., Value]:
    return lambda g, x: g.op("mul", g.op(kind, *_met(g, x, at_least=HALF)), by)


def _of_exp(sign: str) -> Callable[..., Value]:
    return lambda g, x: g.op("mul", g.op(sign, g.op("exp", x), g.op("exp", g.op("neg", x))), 0.5)


ATEN |= {
    "fmod": partial(_rest, toward="trunc"),
    "log2": _scaled("log", 1 / log(2)),
    "log10": _scaled("log", 1 / log(10)),
    "exp2": lambda g, x: g.op("exp", g.op("mul", x, log(2))),
    "erfc": lambda g, x: g.op("sub", *_met(g, 1.0, g.op("erf", x))),
    "tan": lambda g, x: g.op("div", g.op("sin", x), g.op("cos", x)),
    "atan": lambda g, x: g.op("atan2", *_met(g, x, 1.0)),
    "sinh": _of_exp("sub"),
    "cosh": _of_exp("add"),
    "logical_xor": lambda g, a, b: g.op("neq", *(g.cast(g.cast(v, BOOL), INT) for v in (a, b))),
}


ATEN["bitwise_xor"] = ATEN["__xor__"] = ATEN["logical_xor"]


@row("to", "_to_copy")
def _to(g: Ir, x: Value, *given: Any, dtype: Any = None, **how: Any) -> Value:
    """By what torch says the dtype is: a dtype, or the tensor whose it is."""
    for each in (dtype, *given):
        if isinstance(each, Value):
            return g.cast(x, each.dtype)
        if isinstance(each, type) and issubclass(each, DType):
            return g.cast(x, each)
    return x


@row("full_like")
def _full(g: Ir, x: Value, value: Any, dtype: Any = None) -> Value:
    return g.constant(value, dtype if _is_dtype(dtype) else x.dtype, x.shape)


ATEN["zeros_like"] = lambda g, x, dtype=None: _full(g, x, 0, dtype)
ATEN["ones_like"] = lambda g, x, dtype=None: _full(g, x, 1, dtype)


# --- views ----------------------------------------------------------------------------------------


def _reshape(g: Ir, x: Value, shape: Ints) -> Value:
    return x if tuple(shape) == x.shape else g.op("reshape", x, shape=tuple(shape))


for _name in ("view", "reshape", "_unsafe_view"):
    ATEN[_name] = lambda g, x, shape: x if _is_dtype(shape) else _reshape(g, x, shape)


def _is_dtype(given: Any) -> bool:
    return isinstance(given, type)


@row("flatten")
def _flatten(g: Ir, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    n = max(len(x.shape), 1)
    a, b = start_dim % n, end_dim % n + 1
    return _reshape(g, x, (*x.shape[:a], prod(x.shape[a:b]), *x.shape[b:]))


@row("unsqueeze")
def _unsqueeze(g: Ir, x: Value, dim: int) -> Value:
    d = dim % (len(x.shape) + 1)
    return _reshape(g, x, (*x.shape[:d], 1, *x.shape[d:]))


@row("squeeze")
def _squeeze(g: Ir, x: Value, dim: Any = None) -> Value:
    n = max(len(x.shape), 1)
    gone = {*range(n)} if dim is None else {d % n for d in ([dim] if type(dim) is int else dim)}
    kept = tuple(s for i, s in enumerate(x.shape) if s != 1 or i not in gone)
    return _reshape(g, x, kept)


ATEN["transpose"] = ir.transpose
ATEN["t"] = lambda g, x: ir.transpose(g, x, 0, 1) if len(x.shape) > 1 else x
ATEN["permute"] = lambda g, x, dims: g.op("permute", x, dims=tuple(d % len(dims) for d in dims))


def _moved(g: Ir, x: Value, source: int, target: int) -> Value:
    n = len(x.shape)
    order = [d for d in range(n) if d != source % n]
    order.insert(target % n, source % n)
    return x if order == [*range(n)] else g.op("permute", x, dims=tuple(order))


@row("expand")
def _expand(g: Ir, x: Value, shape: Ints, implicit: bool = False) -> Value:
    lead = len(shape) - len(x.shape)
    whole = tuple(x.shape[i - lead] if n == -1 else n for i, n in enumerate(shape))
    return x if whole == x.shape else g.op("expand", x, shape=whole)


@row("slice")
def _slice(
    g: Ir, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    n = x.shape[dim]
    begin, stop, _ = slice(start, end).indices(n)
    if (begin, stop, step) == (0, n, 1):
        return x
    more = {} if step == 1 else {"step": step}
    return g.op("slice", x, dim=dim % len(x.shape), begin=begin, end=max(begin, stop), **more)


@row("select")
def _select(g: Ir, x: Value, dim: int, index: int) -> Value:
    d = dim % len(x.shape)
    at = index % x.shape[d]
    return _reshape(g, _slice(g, x, d, at, at + 1), (*x.shape[:d], *x.shape[d + 1 :]))


@row("split", "split_with_sizes")
def _split(g: Ir, x: Value, size: Any, dim: int = 0) -> list[Value]:
    n = x.shape[dim]
    sizes = size if not isinstance(size, int) else [min(size, n - i) for i in range(0, n, size)]
    return [
        _slice(g, x, dim, end - part, end)
        for part, end in zip(sizes, accumulate(sizes), strict=True)
    ]


@row("cat")
def _cat(g: Ir, values: Sequence[Value], dim: int = 0) -> Value:
    some = [v for v in values if v.shape != (0,)] or list(values)
    return (
        some[0] if len(some) == 1 else g.op("concat", *_met(g, *some), dim=dim % len(some[0].shape))
    )


@row("repeat")
def _repeat(g: Ir, x: Value, times: Ints) -> Value:
    x = _reshape(g, x, (*(1,) * (len(times) - len(x.shape)), *x.shape))
    return reduce(lambda v, each: _cat(g, [v] * each[1], each[0]), enumerate(times), x)


@row("flip")
def _flip(g: Ir, x: Value, dims: Ints) -> Value:
    return reduce(lambda v, d: g.op("reverse", v, dim=d % len(x.shape)), dims, x)


@row("pad", "constant_pad_nd")
def _pad(
    g: Ir, x: Value, margins: Ints, mode: str = "constant", value: float | None = 0.0
) -> Value:
    if mode != "constant" and any(margins):
        raise Unfit(
            f"padding by {mode!r} is not offered", "pad with a constant, or by concatenation."
        )
    pairs = [(0, 0)] * (len(x.shape) - len(margins) // 2)
    pairs += [(margins[i], margins[i + 1]) for i in range(0, len(margins), 2)][::-1]
    for dim, (low, high) in enumerate(pairs):
        x = _slice(g, x, dim, max(-low, 0), x.shape[dim] - max(-high, 0))
    lower, upper = (tuple(max(p[i], 0) for p in pairs) for i in (0, 1))
    if not any((*lower, *upper)):
        return x
    return g.op("pad", x, lower=lower, upper=upper, value=float(value or 0.0))


# --- look-ups -------------------------------------------------------------------------------------


def _numbers(g: Ir, index: Value, n: int) -> Value:
    """Indices into n rows, none of them negative."""
    if index.dtype is BOOL:
        raise Unfit(
            "how many a mask chooses depends on its values", "use torch.where, or multiply."
        )
    if index.kind == "constant" and index.initial is not None:
        return g.constant(np.asarray(index.initial, np.int64) % n, UNSIGNED_INT, index.shape)
    return g.classes(index, n)


def _flat_rows(g: Ir, x: Value, n: int) -> Value:
    return _reshape(g, x, (prod(x.shape[:n]), *x.shape[n:]))


def _linear(g: Ir, indices: Sequence[Value], sizes: Ints) -> Value:
    """Several indices as one into what they count, the last one quickest."""
    whole = _numbers(g, indices[0], sizes[0])
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        whole = g.op("add", g.op("mul", whole, size), _numbers(g, index, size))
    return whole


@row("index", "_unsafe_index")
def _index(g: Ir, x: Value, indices: Sequence[Value | None]) -> Value:
    asked = [i for i, v in enumerate(indices) if v is not None]
    given = [v for v in indices if v is not None]
    first, n = asked[0], len(asked)
    if asked != [*range(first, first + n)]:
        raise Unfit("its indices do not stand side by side", "index one dimension after the other.")
    order = [*asked, *(d for d in range(len(x.shape)) if d not in asked)]
    seen = g.op("permute", x, dims=tuple(order)) if first else x
    where = _linear(g, given, [x.shape[d] for d in asked])
    y = g.op("gather", _flat_rows(g, seen, n), where)
    k = len(where.shape)
    back = [*range(k, k + first), *range(k), *range(k + first, len(y.shape))]
    return g.op("permute", y, dims=tuple(back)) if first else y


@row("index_select")
def _index_select(g: Ir, x: Value, dim: int, index: Value) -> Value:
    y = g.op("gather", _moved(g, x, dim, 0), _numbers(g, index, x.shape[dim]))
    return _moved(g, y, 0, dim)


@row("index_add")
def _index_add(g: Ir, x: Value, dim: int, index: Value, source: Value, alpha: float = 1) -> Value:
    updates = _moved(g, source if alpha == 1 else g.op("mul", source, alpha), dim, 0)
    where = _numbers(g, index, x.shape[dim])
    return _moved(g, g.op("scatter_add", _moved(g, x, dim, 0), where, updates), 0, dim)


def _places(g: Ir, x: Value, dim: int, index: Value) -> Value:
    """Where the elements lie that torch's gather takes."""
    grids = np.indices(index.shape, np.uint32, sparse=True)
    all_of = [
        index
        if d == dim % len(x.shape)
        else g.constant(np.broadcast_to(i, index.shape), UNSIGNED_INT)
        for d, i in enumerate(grids)
    ]
    return _reshape(g, _linear(g, all_of, x.shape), (index.size,))


@row("gather")
def _gather(g: Ir, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    rows = g.op("gather", _reshape(g, x, (x.size, 1)), _places(g, x, dim, index))
    return _reshape(g, rows, index.shape)


@row("diagonal")
def _diagonal(g: Ir, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    a, b = dim1 % len(x.shape), dim2 % len(x.shape)
    y = _moved(g, _moved(g, x, a, -1), b - (b > a), -1)
    rows, columns = y.shape[-2:]
    n = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    at = g.constant(
        (np.arange(n) - min(offset, 0)) * columns + np.arange(n) + max(offset, 0), UNSIGNED_INT
    )
    return _index_select(g, _reshape(g, y, (*y.shape[:-2], rows * columns)), -1, at)  # type: ignore[no-any-return]


@row("unfold")
def _unfold(g: Ir, x: Value, dim: int, size: int, step: int) -> Value:
    starts = np.arange(0, x.shape[dim] - size + 1, step)
    at = g.constant((starts[:, None] + np.arange(size)).reshape(-1), UNSIGNED_INT)
    d, y = dim % len(x.shape), _index_select(g, x, dim, at)
    y = _reshape(g, y, (*x.shape[:d], len(starts), size, *x.shape[d + 1 :]))
    return _moved(g, y, d + 1, -1)


@row("scatter_add")
def _scatter_add(g: Ir, x: Value, dim: int, index: Value, source: Value) -> Value:
    for d, n in enumerate(index.shape):
        source = _slice(g, source, d, 0, n)
    updates = _reshape(g, source, (index.size, 1))
    rows = _reshape(g, x, (x.size, 1))
    return _reshape(g, g.op("scatter_add", rows, _places(g, x, dim, index), updates), x.shape)


@row("embedding")
def _embedding(g: Ir, table: Value, index: Value, padding: int = -1, *others: bool) -> Value:
    y = ir.embedding(g, table, index)
    if padding < 0:
        return y
    still = _unsqueeze(g, g.op("eq", index, padding), -1)
    return g.op("select", still, g.op("stop", y), y)


@row("one_hot")
def _one_hot(g: Ir, index: Value, classes: int = -1) -> Value:
    if classes < 0:
        raise Unfit("how many classes there are depends on the numbers", "give num_classes.")
    return g.op("one_hot", g.classes(index, classes), classes=classes, dtype=UNSIGNED_INT)


# --- reductions -----------------------------------------------------------------------------------


def _dims(x: Value, dim: Any) -> list[int]:
    if dim is None or dim == []:
        return [*range(len(x.shape))]
    return [dim] if isinstance(dim, int) else list(dim)


@row("sum")
def _sum_over(g: Ir, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    x = g.cast(x, dtype or (UNSIGNED_INT if x.dtype is BOOL else x.dtype))
    return ir.reduced(g, "sum", x, _dims(x, dim), keepdim)


@row("mean")
def _mean(g: Ir, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    return ir.mean(g, g.cast(x, dtype or x.dtype), _dims(x, dim), keepdim)


def _reducing(kind: str) -> Callable[..., Value]:
    return lambda g, x, dim=None, keepdim=False: ir.reduced(g, kind, x, _dims(x, dim), keepdim)


ATEN |= {
    "amax": _reducing("reduce_max"),
    "amin": _reducing("reduce_min"),
    "prod": _reducing("reduce_prod"),
}


def _best(kind: str, g: Ir, x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """torch's max: of all, of two tensors, or along a dimension with the places."""
    if dim is None:
        return ir.reduced(g, f"reduce_{kind}", x)
    if isinstance(dim, Value):
        return g.op(kind, *_met(g, x, dim))
    last = _moved(g, x, dim, -1)
    rows = _reshape(g, last, (-1, last.shape[-1])) if len(x.shape) != 2 else last
    place = g.op(f"arg_{kind}", rows)
    value = g.op("pick", rows, place)
    d = dim % len(x.shape)
    shape = (*x.shape[:d], *((1,) if keepdim else ()), *x.shape[d + 1 :])
    return [_reshape(g, v, shape) for v in (value, place)]


ATEN["max"], ATEN["min"] = partial(_best, "max"), partial(_best, "min")


def _place(kind: str, g: Ir, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    if dim is None:
        return g.op(f"arg_{kind}", _reshape(g, x, (x.size,)))
    y = g.op(f"arg_{kind}", _moved(g, x, dim, -1))
    return _unsqueeze(g, y, dim) if keepdim else y


ATEN["argmax"], ATEN["argmin"] = partial(_place, "max"), partial(_place, "min")


@row("topk")
def _topk(
    g: Ir, x: Value, k: int, dim: int = -1, largest: bool = True, ordered: bool = True
) -> list[Value]:
    """The largest first, whether that is asked for or not; of those that are alike the first."""
    made = g.emit("top_k", _moved(g, x, dim, -1), k=k, largest=largest)
    return [_moved(g, v, -1, dim) for v in made]


@row("sort")
def _sort(g: Ir, x: Value, dim: int = -1, descending: bool = False, **_: bool) -> list[Value]:
    return _topk(g, x, x.shape[dim], dim, descending)  # type: ignore[no-any-return]


@row("argsort")
def _argsort(g: Ir, *given: Any, **how: Any) -> Value:
    return _sort(g, *given, **how)[1]  # type: ignore[no-any-return]


@row("var")
def _var(
    g: Ir,
    x: Value,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Value:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    dims = _dims(x, dim)
    total = ir.reduced(
        g, "sum", g.op("square", g.op("sub", x, ir.mean(g, x, dims, True))), dims, keepdim
    )
    count = x.size / total.size - (int(unbiased) if correction is None else correction)
    return g.op("mul", total, 1 / count)


ATEN["var_mean"] = lambda g, x, dim=None, *how, **more: [
    _var(g, x, dim, *how, **more),
    ir.mean(g, x, _dims(x, None if isinstance(dim, bool) else dim), more.get("keepdim", False)),
]
ATEN["std"] = lambda g, *given, **how: g.op("sqrt", _var(g, *given, **how))


@row("linalg_vector_norm")
def _length(
    g: Ir, x: Value, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    if ord not in (1, 2):
        raise Unfit(f"a norm of the order {ord} is not offered", "choose 1 or 2.")
    each = g.op("abs" if ord == 1 else "square", x)
    total = ir.reduced(g, "sum", each, _dims(x, dim), keepdim)
    return total if ord == 1 else g.op("sqrt", total)


@row("cumsum")
def _cumsum(g: Ir, x: Value, dim: int, dtype: Any = None) -> Value:
    last = _moved(g, g.cast(x, dtype or x.dtype), dim, -1)
    ones = g.constant(np.triu(np.ones((last.shape[-1],) * 2)), last.dtype)
    rows = _reshape(g, last, (-1, last.shape[-1]))
    return _moved(g, _reshape(g, g.op("matmul", rows, ones), last.shape), -1, dim)


def _any(g: Ir, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    count = _sum_over(g, g.cast(g.cast(x, BOOL), UNSIGNED_INT), dim, keepdim)
    return g.op("gt", count, 0)


ATEN["any"] = _any
ATEN["all"] = lambda g, x, *how: g.op(
    "logical_not", _any(g, g.op("logical_not", g.cast(x, BOOL)), *how)
)


def _soft(kind: str) -> Callable[..., Value]:
    def soft(g: Ir, x: Value, dim: int, dtype: Any = None) -> Value:
        return ir.along(g, kind, g.cast(x, dtype if _is_dtype(dtype) else x.dtype), dim)

    return soft


ATEN |= {"softmax": _soft("softmax"), "log_softmax": _soft("log_softmax")}
ATEN |= {"_softmax": ATEN["softmax"], "_log_softmax": ATEN["log_softmax"]}


# --- products -------------------------------------------------------------------------------------


@row("matmul", "mm", "bmm")
def _matmul(g: Ir, a: Value, b: Value) -> Value:
    a, b = _met(g, a, b)
    left = _unsqueeze(g, a, 0) if len(a.shape) == 1 else a
    right = _unsqueeze(g, b, 1) if len(b.shape) == 1 else b
    y = g.op("matmul", left, right)
    rows = y.shape[-2:-1] if left is a else ()
    return _reshape(g, y, (*y.shape[:-2], *rows, *(y.shape[-1:] if right is b else ())))


@row("linear")
def _linear_layer(g: Ir, x: Value, w: Value, b: Value | None = None) -> Any:
    return ir.linear(g, x, w, b) if len(x.shape) > 1 else NotImplemented


# --- convolutions, pools, norms -------------------------------------------------------------------


def _fields(n: int, call: Any) -> Callable[..., Value]:
    """Of one sample as well as of a batch of them."""

    def fields(g: Ir, x: Value, *given: Any, **how: Any) -> Value:
        if len(x.shape) == n + 2:
            return call(n, g, x, *given, **how)  # type: ignore[no-any-return]
        y = call(n, g, _unsqueeze(g, x, 0), *given, **how)
        return _reshape(g, y, y.shape[1:])

    return fields


def _conv(
    n: int,
    g: Ir,
    x: Value,
    w: Value,
    b: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Value:
    how = ir.sized(n, stride=stride, dilation=dilation, lower=0, upper=0)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(how["dilation"], w.shape[2:], strict=True)]
        how |= {"lower": tuple(t // 2 for t in total), "upper": tuple(t - t // 2 for t in total)}
    elif padding != "valid":
        how |= ir.sized(n, lower=padding, upper=padding)
    return ir.conv(g, x, w, b, groups=groups, **how)


def _conv_transpose(
    n: int,
    g: Ir,
    x: Value,
    w: Value,
    b: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Value:
    how = ir.sized(n, stride=stride, lower=padding, upper=padding, dilation=dilation)
    s, p, _, d, more = *how.values(), ir.sized(n, more=output_padding)["more"]
    field = tuple(
        (x.shape[i + 2] - 1) * s[i] - 2 * p[i] + d[i] * (w.shape[i + 2] - 1) + more[i] + 1
        for i in range(n)
    )
    whole = (x.shape[0], w.shape[1] * groups, *field)
    y = g.op("conv_input_grad", x, w, field=whole, groups=groups, **how)
    return y if b is None else g.op("add", y, _reshape(g, b, (b.size, *(1,) * n)))


def _pool(
    kind: str,
    n: int,
    g: Ir,
    x: Value,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    *others: Any,
    **how: Any,
) -> Value:
    """Others: of max dilation and ceil_mode; of avg ceil_mode, count_include_pad, divisor."""
    more = ("count_include_pad", "divisor_override")
    names = ("dilation", "ceil_mode") if kind == "max_pool" else ("ceil_mode", *more)
    asked = {**dict(zip(names, others, strict=False)), **how}
    each = ir.sized(n, kernel=kernel, stride=stride or kernel, lower=padding, upper=padding)
    wide = any(d != 1 for d in ir.sized(n, d=asked.get("dilation", 1))["d"])
    if wide or asked.get("divisor_override"):
        why = "pools with dilation or a divisor of their own are not offered"
        raise Unfit(why, "leave those out.")
    if asked.get("ceil_mode"):
        sizes = zip(x.shape[-n:], *each.values(), strict=True)
        each["upper"] = tuple(_to_the_end(*size) for size in sizes)
        if kind == "avg_pool" and each["upper"] != each["lower"]:
            why = "averages of windows that are cut off are not offered"
            raise Unfit(why, "choose ceil_mode=False.")
    counted = kind == "avg_pool" and bool(asked.get("count_include_pad", True))
    return ir.pool(g, kind, x, count_padding=counted, **each)


def _to_the_end(field: int, kernel: int, stride: int, lower: int, upper: int) -> int:
    """The margin behind a field with which its last window is whole."""
    count = -(-(field + lower + upper - kernel) // stride) + 1
    count -= (count - 1) * stride >= field + lower
    return max((count - 1) * stride + kernel - field - lower, 0)


def _with_none(call: Callable[..., Value], *given: Any) -> list[Value | None]:
    """What torch returns with places, which are not offered."""
    return [call(*given), None]


def _adaptive(kind: str, n: int, g: Ir, x: Value, size: Any) -> Value:
    field = x.shape[-n:]
    wanted = [
        f if s is None else s for f, s in zip(field, ir.sized(n, size=size)["size"], strict=True)
    ]
    if any(f % s for f, s in zip(field, wanted, strict=True)):
        why = f"a field of {list(field)} does not divide into {wanted}"
        raise Unfit(why, "choose a size that divides it.")
    return _pool(kind, n, g, x, [f // s for f, s in zip(field, wanted, strict=True)])


for _n in (1, 2, 3):
    ATEN[f"conv{_n}d"] = _fields(_n, _conv)
    ATEN[f"conv_transpose{_n}d"] = _fields(_n, _conv_transpose)
    for _kind in ("max", "avg"):
        ATEN[f"{_kind}_pool{_n}d"] = _fields(_n, partial(_pool, f"{_kind}_pool"))
        ATEN[f"adaptive_{_kind}_pool{_n}d"] = _fields(_n, partial(_adaptive, f"{_kind}_pool"))
    ATEN[f"adaptive_max_pool{_n}d"] = partial(_with_none, ATEN[f"adaptive_max_pool{_n}d"])


ATEN["batch_norm"] = lambda g, *given: ir.batch_norm(g, *given[:8])  # all but cudnn's switch


ATEN["group_norm"] = lambda g, x, groups, w=None, b=None, eps=1e-5, *_: ir.norm(
    g, "group", x, w, b, eps, groups
)


ATEN["instance_norm"] = lambda g, x, w, b, mean, var, now, momentum, eps, *_: (
    ir.norm(g, "instance", x, w, b, eps) if now and mean is None else NotImplemented
)


@row("layer_norm")
def _layer_norm(
    g: Ir, x: Value, shape: Ints, w: Any = None, b: Any = None, eps: float = 1e-5, *_: Any
) -> Value:
    size = prod(shape)
    seen = _reshape(g, x, (*x.shape[: len(x.shape) - len(shape)], size))
    gamma, beta = (v if v is None else _reshape(g, v, (size,)) for v in (w, b))
    return _reshape(g, ir.norm(g, "layer", seen, gamma, beta, eps), x.shape)


# --- attention and what goes step by step ---------------------------------------------------------


ATEN["scaled_dot_product_attention"] = (
    lambda g, q, k, v, mask=None, p=0.0, is_causal=False, scale=None, enable_gqa=False: (
        NotImplemented if enable_gqa else ir.attention(g, q, k, v, mask, is_causal, scale, p)
    )
)


def _recurrent(
    kind: str,
    g: Ir,
    x: Value,
    state: Any,
    weights: Sequence[Value],
    biases: bool,
    layers: int,
    p: float,
    train: bool,
    both_ways: bool,
    batch_first: bool,
) -> Any:
    states = state if kind == "lstm" else [state]
    ways, each = 2 if both_ways else 1, 4 if biases else 2
    if len(weights) != layers * ways * each:
        raise Unfit("a state that is projected is not offered", "leave proj_size out.")
    x = ir.transpose(g, x, 0, 1) if batch_first else x
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(layers):
        outs = []
        for way in range(ways):
            at = layer * ways + way
            seen = g.op("reverse", x, dim=0) if way else x
            before = [_select(g, s, 0, at) for s in states]
            y, now = ir.recurrent(g, kind, seen, before, *weights[at * each : (at + 1) * each])
            outs.append(g.op("reverse", y, dim=0) if way else y)
            for kept, value in zip(last, now, strict=True):
                kept.append(_unsqueeze(g, value, 0))
        x = _cat(g, outs, -1)
        x = ir.dropout(g, x, p) if train and layer + 1 < layers else x
    return [ir.transpose(g, x, 0, 1) if batch_first else x, *(_cat(g, kept) for kept in last)]


for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    ATEN[_name] = partial(_recurrent, _name.removeprefix("rnn_"))


# --- losses ---------------------------------------------------------------------------------------


def _by_class(loss: Any) -> Callable[..., Any]:
    def by_class(
        g: Ir,
        x: Value,
        labels: Value,
        weight: Value | None = None,
        reduction: int = 1,
        ignore_index: int = IGNORED,
        label_smoothing: float = 0.0,
    ) -> Any:
        if labels.floating:
            return NotImplemented
        if weight is not None or label_smoothing:
            g.classes(labels, x.shape[min(1, len(x.shape) - 1)])
            return NotImplemented
        labels, ignored = _labels(g, labels, ignore_index)
        return loss(g, x, labels, REDUCTIONS[reduction - 1], ignored)

    return by_class


def _labels(g: Ir, labels: Value, ignore_index: int) -> tuple[Value, int | None]:
    """Class numbers, and which of them does not count. What the host feeds, it checks and marks;
    other numbers are marked here. -100 is what torch has where nothing is said: rows are counted
    only where the host has fed one (`captured` says so), and always of what is made here."""
    fed = g.fed(labels)
    if fed is not None and ignore_index == IGNORED != fed.ignored:
        return labels, None
    if fed is None:
        number = g.constant(ignore_index % 2**32, UNSIGNED_INT)
        marked = g.constant(MASKED_LABEL_CODE, UNSIGNED_INT)
        labels = g.op("select", g.op("eq", labels, number), marked, labels)
    return labels, ignore_index


ATEN["cross_entropy_loss"] = _by_class(ir.cross_entropy)
for _name in ("nll_loss", "nll_loss_nd", "nll_loss2d"):
    ATEN[_name] = _by_class(ir.nll)


# --- of the kit -----------------------------------------------------------------------------------

ATEN["ipu_teach::print"] = lambda g, x, title: g.op("print", x, title=title)
