"""What torch calls an operation, as operations of the IR: a line for each name, in torch's order of
arguments. Nothing here needs torch.

Numbers come as numbers, tensors as values; what is the same on every run is a constant by then. A
name that is not here is spelt out by torch's own decomposition, if that has one.
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


def cast(g: Ir, x: Value, dtype: type[DType]) -> Value:
    """x in that dtype."""
    if x.dtype is dtype:
        return x
    if x.number is not None:
        return g.constant(x.number, dtype, x.shape)
    if x.kind == "constant" and x.initial is not None:
        return g.constant(x.initial, dtype)
    return g.op("cast", x, dtype=dtype)


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
    return [cast(g, v, dtype) if isinstance(v, Value) else g.constant(v, dtype) for v in given]


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
    "multiply": _two("mul"),
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
}
for _name in ("alias", "contiguous", "clone", "lift_fresh_copy", "positive"):
    ATEN[_name] = lambda g, x, **how: x
for _name in ("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range"):
    ATEN[_name] = lambda g, *given, **how: None


@row("add", "sub", "subtract", "rsub")
def _sum(g: Ir, a: Any, b: Any, alpha: float = 1, sign: int = 1) -> Value:
    if alpha != 1:
        b = g.op("mul", *_met(g, b, alpha)) if isinstance(b, Value) else b * alpha
    return g.op("add" if sign > 0 else "sub", *_met(g, a, b))


ATEN["sub"] = ATEN["subtract"] = partial(_sum, sign=-1)
ATEN["rsub"] = lambda g, a, b, alpha=1: _sum(g, b, a, alpha, -1)


@row("div", "divide", "true_divide")
def _quotient(g: Ir, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    y = g.op("div", *_met(g, a, b, at_least=HALF))
    y = g.op(rounding_mode, y) if rounding_mode else y
    whole = _met(g, a, b)[0].dtype
    return cast(g, y, whole) if rounding_mode and whole in (INT, UNSIGNED_INT) else y


ATEN["floor_divide"] = partial(_quotient, rounding_mode="floor")


@row("clamp", "hardtanh", "clip")
def _clamp(g: Ir, x: Value, min: Any = None, max: Any = None) -> Value:
    for kind, bound in (("max", min), ("min", max)):
        x = x if bound is None else g.op(kind, *_met(g, x, bound))
    return x


ATEN["clamp_min"] = lambda g, x, least: _clamp(g, x, least)
ATEN["clamp_max"] = lambda g, x, most: _clamp(g, x, None, most)
ATEN["relu6"] = lambda g, x: _clamp(g, x, 0.0, 6.0)
ATEN["hardsigmoid"] = lambda g, x: g.op("mul", _clamp(g, g.op("add", x, 3.0), 0.0, 6.0), 1 / 6)
ATEN["hardswish"] = lambda g, x: g.op("mul", x, ATEN["hardsigmoid"](g, x))


@row("where")
def _where(g: Ir, mask: Value, a: Any, b: Any) -> Value:
    return g.op("select", cast(g, mask, BOOL), *_met(g, a, b))


ATEN["masked_fill"] = lambda g, x, mask, value: g.op(
    "select",
    mask,
    cast(g, value, x.dtype) if isinstance(value, Value) else g.constant(value, x.dtype),
    x,
)


@row("leaky_relu")
def _leaky(g: Ir, x: Value, slope: float = 0.01) -> Value:
    return _where(g, g.op("gt", x, 0.0), x, g.op("mul", x, slope))  # type: ignore[no-any-return]


@row("elu")
def _elu(g: Ir, x: Value, alpha: float = 1.0, scale: float = 1.0, inner: float = 1.0) -> Value:
    below = g.op("expm1", g.op("mul", g.op("min", x, 0.0), inner))
    y = _where(g, g.op("gt", x, 0.0), x, g.op("mul", below, alpha))
    return g.op("mul", y, scale) if scale != 1 else y


@row("softplus")
def _softplus(g: Ir, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    wide = g.op("mul", x, beta)
    tail = g.op("log1p", g.op("exp", g.op("neg", g.op("abs", wide))))
    return g.op("mul", g.op("add", g.op("max", wide, 0.0), tail), 1 / beta)


ATEN["log_sigmoid"] = lambda g, x: g.op("neg", _softplus(g, g.op("neg", x)))
ATEN["mish"] = lambda g, x: g.op("mul", x, g.op("tanh", _softplus(g, x)))


@row("prelu")
def _prelu(g: Ir, x: Value, slope: Value) -> Value:
    each = (
        g.op("reshape", slope, shape=(-1, *(1,) * (len(x.shape) - 2))) if slope.size > 1 else slope
    )
    return _where(g, g.op("gt", x, 0.0), x, g.op("mul", x, each))  # type: ignore[no-any-return]


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
    "logical_xor": lambda g, a, b: g.op("neq", *(cast(g, cast(g, v, BOOL), INT) for v in (a, b))),
}
ATEN["bitwise_xor"] = ATEN["__xor__"] = ATEN["logical_xor"]


@row("to", "_to_copy", "type_as")
def _to(g: Ir, x: Value, *given: Any, dtype: Any = None, **how: Any) -> Value:
    """By what torch says the dtype is: a dtype, or the tensor whose it is."""
    for each in (dtype, *given):
        if isinstance(each, Value):
            return cast(g, x, each.dtype)
        if isinstance(each, type) and issubclass(each, DType):
            return cast(g, x, each)
    return x


def _full(g: Ir, x: Value, shape: Ints, value: Any, dtype: Any = None) -> Value:
    return g.constant(value, dtype if _is_dtype(dtype) else x.dtype, tuple(shape))


ATEN |= {
    "zeros_like": lambda g, x, dtype=None: _full(g, x, x.shape, 0, dtype),
    "ones_like": lambda g, x, dtype=None: _full(g, x, x.shape, 1, dtype),
    "full_like": lambda g, x, value, dtype=None: _full(g, x, x.shape, value, dtype),
    "new_zeros": lambda g, x, shape, dtype=None: _full(g, x, shape, 0, dtype),
    "new_ones": lambda g, x, shape, dtype=None: _full(g, x, shape, 1, dtype),
    "new_full": lambda g, x, shape, value, dtype=None: _full(g, x, shape, value, dtype),
}


# --- views ----------------------------------------------------------------------------------------


def _reshape(g: Ir, x: Value, shape: Any) -> Value:
    wanted = tuple(shape.shape if isinstance(shape, Value) else shape)
    return x if wanted == x.shape else g.op("reshape", x, shape=wanted)


for _name in ("view", "reshape", "_unsafe_view", "view_as", "reshape_as"):
    ATEN[_name] = lambda g, x, shape: x if _is_dtype(shape) else _reshape(g, x, shape)


def _is_dtype(given: Any) -> bool:
    return isinstance(given, type)


@row("flatten")
def _flatten(g: Ir, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    n = max(len(x.shape), 1)
    a, b = start_dim % n, end_dim % n + 1
    return _reshape(g, x, (*x.shape[:a], prod(x.shape[a:b]), *x.shape[b:]))


@row("unflatten")
def _unflatten(g: Ir, x: Value, dim: int, sizes: Ints) -> Value:
    d = dim % len(x.shape)
    rest = x.shape[d] // max(-prod(sizes), 1) if -1 in sizes else 0
    whole = [rest if n == -1 else n for n in sizes]
    return _reshape(g, x, (*x.shape[:d], *whole, *x.shape[d + 1 :]))


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


ATEN["transpose"] = ATEN["swapaxes"] = ir.transpose
ATEN["mT"] = ATEN["matrix_H"] = ir.turned
ATEN["t"] = ATEN["numpy_T"] = lambda g, x: ir.transpose(g, x, 0, 1) if len(x.shape) > 1 else x
ATEN["permute"] = lambda g, x, dims: g.op("permute", x, dims=tuple(d % len(dims) for d in dims))


def _moved(g: Ir, x: Value, source: int, target: int) -> Value:
    n = len(x.shape)
    order = [d for d in range(n) if d != source % n]
    order.insert(target % n, source % n)
    return x if order == [*range(n)] else g.op("permute", x, dims=tuple(order))


@row("expand", "expand_as", "broadcast_to")
def _expand(g: Ir, x: Value, shape: Any, implicit: bool = False) -> Value:
    wanted = tuple(shape.shape if isinstance(shape, Value) else shape)
    lead = len(wanted) - len(x.shape)
    whole = tuple(x.shape[i - lead] if n == -1 else n for i, n in enumerate(wanted))
    return x if whole == x.shape else g.op("expand", x, shape=whole)


@row("broadcast_tensors")
def _broadcast_tensors(g: Ir, values: Sequence[Value]) -> list[Value]:
    shape = np.broadcast_shapes(*(v.shape for v in values))
    return [_expand(g, v, shape) for v in values]


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


@row("slice_scatter")
def _slice_scatter(
    g: Ir, x: Value, part: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    if step != 1:
        raise Unfit("writing to every other place is not offered", "write to neighbours.")
    begin, stop, _ = slice(start, end).indices(x.shape[dim])
    parts = [_slice(g, x, dim, 0, begin), part, _slice(g, x, dim, stop)]
    return _cat(g, [v for v in parts if v.size], dim)  # type: ignore[no-any-return]


ATEN["select_scatter"] = lambda g, x, part, dim, index: _slice_scatter(
    g, x, _unsqueeze(g, part, dim), dim, index % x.shape[dim], index % x.shape[dim] + 1
)
ATEN["narrow"] = lambda g, x, dim, start, length: _slice(g, x, dim, start, start + length)


@row("split", "split_with_sizes")
def _split(g: Ir, x: Value, size: Any, dim: int = 0) -> list[Value]:
    n = x.shape[dim]
    sizes = size if not isinstance(size, int) else [min(size, n - i) for i in range(0, n, size)]
    return [
        _slice(g, x, dim, end - part, end)
        for part, end in zip(sizes, accumulate(sizes), strict=True)
    ]


ATEN["chunk"] = lambda g, x, chunks, dim=0: _split(g, x, -(-x.shape[dim] // chunks), dim)
ATEN["unbind"] = lambda g, x, dim=0: [_select(g, x, dim, i) for i in range(x.shape[dim])]


@row("cat", "concat", "concatenate")
def _cat(g: Ir, values: Sequence[Value], dim: int = 0) -> Value:
    some = [v for v in values if v.shape != (0,)] or list(values)
    return (
        some[0] if len(some) == 1 else g.op("concat", *_met(g, *some), dim=dim % len(some[0].shape))
    )


ATEN["stack"] = lambda g, values, dim=0: _cat(
    g, [_unsqueeze(g, v, dim % (len(v.shape) + 1)) for v in values], dim
)


@row("repeat")
def _repeat(g: Ir, x: Value, times: Ints) -> Value:
    x = _reshape(g, x, (*(1,) * (len(times) - len(x.shape)), *x.shape))
    for dim, n in enumerate(times):
        x = _cat(g, [x] * n, dim)
    return x


@row("flip")
def _flip(g: Ir, x: Value, dims: Ints) -> Value:
    return reduce(lambda v, d: g.op("reverse", v, dim=d % len(x.shape)), dims, x)


@row("roll")
def _roll(g: Ir, x: Value, shifts: Ints, dims: Ints) -> Value:
    for by, dim in zip(shifts, dims, strict=True):
        at = x.shape[dim] - by % x.shape[dim]
        x = _cat(g, [_slice(g, x, dim, at), _slice(g, x, dim, 0, at)], dim) if by else x
    return x


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


def _triangle(g: Ir, x: Value, diagonal: int, keep: Any) -> Value:
    mask = keep(np.ones(x.shape[-2:], bool), diagonal)
    return g.op("select", g.constant(mask, BOOL), x, g.constant(0, x.dtype))


ATEN["tril"] = lambda g, x, diagonal=0: _triangle(g, x, diagonal, np.tril)
ATEN["triu"] = lambda g, x, diagonal=0: _triangle(g, x, diagonal, np.triu)


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
    y = _moved(
        g,
        _moved(g, x, dim1 % len(x.shape), -1),
        dim2 % len(x.shape) - (dim2 % len(x.shape) > dim1 % len(x.shape)),
        -1,
    )
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
    y = _unflatten(g, _index_select(g, x, dim, at), dim, (len(starts), size))
    return _moved(g, y, dim % len(x.shape) + 1, -1)


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
    x = cast(g, x, dtype or (UNSIGNED_INT if x.dtype is BOOL else x.dtype))
    return ir.reduced(g, "sum", x, _dims(x, dim), keepdim)


@row("mean")
def _mean(g: Ir, x: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    return ir.mean(g, cast(g, x, dtype or x.dtype), _dims(x, dim), keepdim)


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


ATEN["trace"] = lambda g, x: ir.reduced(g, "sum", _diagonal(g, x))
ATEN["argmax"], ATEN["argmin"] = partial(_place, "max"), partial(_place, "min")


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


ATEN["std"] = lambda g, *given, **how: g.op("sqrt", _var(g, *given, **how))


ATEN["var_mean"] = lambda g, x, dim=None, *how, **more: [
    _var(g, x, dim, *how, **more),
    ir.mean(g, x, _dims(x, None if isinstance(dim, bool) else dim), more.get("keepdim", False)),
]


@row("linalg_vector_norm")
def _length(
    g: Ir, x: Value, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    if ord not in (1, 2):
        raise Unfit(f"a norm of the order {ord} is not offered", "choose 1 or 2.")
    each = g.op("abs" if ord == 1 else "square", x)
    total = ir.reduced(g, "sum", each, _dims(x, dim), keepdim)
    return total if ord == 1 else g.op("sqrt", total)


@row("cosine_similarity")
def _cosine(g: Ir, a: Value, b: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    product = ir.reduced(g, "sum", g.op("mul", *_met(g, a, b)), [dim])
    lengths = [g.op("max", _length(g, v, 2, dim), eps) for v in (a, b)]
    return g.op("div", product, g.op("mul", *lengths))


@row("cumsum")
def _cumsum(g: Ir, x: Value, dim: int, dtype: Any = None) -> Value:
    last = _moved(g, cast(g, x, dtype or x.dtype), dim, -1)
    ones = g.constant(np.triu(np.ones((last.shape[-1],) * 2)), last.dtype)
    rows = _reshape(g, last, (-1, last.shape[-1]))
    return _moved(g, _reshape(g, g.op("matmul", rows, ones), last.shape), -1, dim)


def _any(g: Ir, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    count = _sum_over(g, cast(g, cast(g, x, BOOL), UNSIGNED_INT), dim, keepdim)
    return g.op("gt", count, 0)


ATEN["any"] = _any
ATEN["all"] = lambda g, x, *how: g.op(
    "logical_not", _any(g, g.op("logical_not", cast(g, x, BOOL)), *how)
)


def _soft(kind: str) -> Callable[..., Value]:
    def soft(g: Ir, x: Value, dim: int, dtype: Any = None) -> Value:
        return ir.along(g, kind, cast(g, x, dtype if _is_dtype(dtype) else x.dtype), dim)

    return soft


ATEN |= {"softmax": _soft("softmax"), "log_softmax": _soft("log_softmax")}
ATEN |= {"_softmax": ATEN["softmax"], "_log_softmax": ATEN["log_softmax"]}


# --- products -------------------------------------------------------------------------------------


@row("matmul", "mm", "bmm", "mv", "dot", "vdot")
def _matmul(g: Ir, a: Value, b: Value) -> Value:
    a, b = _met(g, a, b)
    left = _unsqueeze(g, a, 0) if len(a.shape) == 1 else a
    right = _unsqueeze(g, b, 1) if len(b.shape) == 1 else b
    y = g.op("matmul", left, right)
    shape = y.shape
    shape = shape[:-1] if len(b.shape) == 1 else shape
    if len(a.shape) == 1:
        shape = (
            *shape[: -1 if len(b.shape) == 1 else -2],
            *shape[len(shape) if len(b.shape) == 1 else -1 :],
        )
    return _reshape(g, y, shape)


@row("linear")
def _linear_layer(g: Ir, x: Value, w: Value, b: Value | None = None) -> Value:
    if len(x.shape) == 1:
        return _reshape(g, ir.linear(g, _unsqueeze(g, x, 0), w, b), (w.shape[0],))
    return ir.linear(g, x, w, b)


@row("addmm", "baddbmm")
def _addmm(g: Ir, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    y = _matmul(g, a, b)
    y = y if alpha == 1 else g.op("mul", y, alpha)
    return g.op("add", y, c if beta == 1 else g.op("mul", c, beta))


# --- convolutions, pools, norms -------------------------------------------------------------------


def _each(given: Any, n: int) -> tuple[int, ...]:
    each = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    return each * n if len(each) == 1 else each


def _batched(n: int, x: Value) -> bool:
    return len(x.shape) == n + 2


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
    if not _batched(n, x):
        y = _conv(n, g, _unsqueeze(g, x, 0), w, b, stride, padding, dilation, groups)
        return _reshape(g, y, y.shape[1:])
    wide = _each(dilation, n)
    if isinstance(padding, str):
        whole = [
            0 if padding == "valid" else d * (k - 1) for d, k in zip(wide, w.shape[2:], strict=True)
        ]
        lower, upper = tuple(t // 2 for t in whole), tuple(t - t // 2 for t in whole)
    else:
        lower = upper = _each(padding, n)
    return ir.conv(g, x, w, b, _each(stride, n), lower, upper, wide, groups)


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
    s, p, more, d = (_each(v, n) for v in (stride, padding, output_padding, dilation))
    field = tuple(
        (x.shape[i + 2] - 1) * s[i] - 2 * p[i] + d[i] * (w.shape[i + 2] - 1) + more[i] + 1
        for i in range(n)
    )
    whole = (x.shape[0], w.shape[1] * groups, *field)
    how: dict[str, Any] = {"stride": s, "lower": p, "upper": p, "dilation": d, "groups": groups}
    y = g.op("conv_input_grad", x, w, field=whole, **how)
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
    if not _batched(n, x):
        y = _pool(kind, n, g, _unsqueeze(g, x, 0), kernel, stride, padding, *others, **how)
        return _reshape(g, y, y.shape[1:])
    names = (
        ("dilation", "ceil_mode")
        if kind == "max_pool"
        else ("ceil_mode", "count_include_pad", "divisor_override")
    )
    asked = {**dict(zip(names, others, strict=False)), **how}
    size, lower = _each(kernel, n), _each(padding, n)
    step = _each(stride, n) if stride else size
    if any(d != 1 for d in _each(asked.get("dilation", 1), n)) or asked.get("divisor_override"):
        raise Unfit(
            "pools with dilation or a divisor of their own are not offered", "leave those out."
        )
    upper = list(lower)
    if asked.get("ceil_mode"):
        for i, (k, s, p) in enumerate(zip(size, step, lower, strict=True)):
            field = x.shape[i + 2]
            count = -(-(field + 2 * p - k) // s) + 1
            count -= (count - 1) * s >= field + p
            upper[i] = max((count - 1) * s + k - field - p, 0)
        if kind == "avg_pool" and tuple(upper) != lower:
            raise Unfit(
                "averages of windows that are cut off are not offered", "choose ceil_mode=False."
            )
    counted = kind == "avg_pool" and bool(asked.get("count_include_pad", True))
    return ir.pool(g, kind, x, size, step, lower, tuple(upper), counted)


def _adaptive(kind: str, n: int, g: Ir, x: Value, size: Any) -> Value:
    field = x.shape[-n:]
    wanted = [f if s is None else s for f, s in zip(field, _each(size, n), strict=True)]
    if any(f % s for f, s in zip(field, wanted, strict=True)):
        raise Unfit(
            f"a field of {list(field)} does not divide into {wanted}",
            "choose a size that divides it.",
        )
    return _pool(kind, n, g, x, [f // s for f, s in zip(field, wanted, strict=True)])


for _n in (1, 2, 3):
    ATEN[f"conv{_n}d"] = partial(_conv, _n)
    ATEN[f"conv_transpose{_n}d"] = partial(_conv_transpose, _n)
    ATEN[f"max_pool{_n}d"] = partial(_pool, "max_pool", _n)
    ATEN[f"avg_pool{_n}d"] = partial(_pool, "avg_pool", _n)
    ATEN[f"adaptive_avg_pool{_n}d"] = partial(_adaptive, "avg_pool", _n)
    ATEN[f"adaptive_max_pool{_n}d"] = lambda g, x, size, n=_n: [
        _adaptive("max_pool", n, g, x, size),
        None,
    ]


@row("batch_norm")
def _batch_norm(
    g: Ir,
    x: Value,
    w: Any,
    b: Any,
    mean: Any,
    var: Any,
    training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Value:
    return ir.batch_norm(g, x, w, b, mean, var, training, momentum, eps)


@row("group_norm")
def _group_norm(
    g: Ir, x: Value, groups: int, w: Any = None, b: Any = None, eps: float = 1e-5, *_: Any
) -> Value:
    return ir.norm(g, "group", x, w, b, eps, groups)


@row("instance_norm")
def _instance_norm(
    g: Ir,
    x: Value,
    w: Any,
    b: Any,
    mean: Any,
    var: Any,
    now: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Value:
    if not now or mean is not None:
        raise Unfit(
            "running statistics of an instance norm are not offered", "track_running_stats=False."
        )
    return ir.norm(g, "instance", x, w, b, eps)


@row("layer_norm")
def _layer_norm(
    g: Ir, x: Value, shape: Ints, w: Any = None, b: Any = None, eps: float = 1e-5, *_: Any
) -> Value:
    size = prod(shape)
    seen = _reshape(g, x, (*x.shape[: len(x.shape) - len(shape)], size))
    gamma, beta = (v if v is None else _reshape(g, v, (size,)) for v in (w, b))
    return _reshape(g, ir.norm(g, "layer", seen, gamma, beta, eps), x.shape)


# --- attention and what goes step by step ---------------------------------------------------------


@row("scaled_dot_product_attention")
def _attention(
    g: Ir,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if enable_gqa:
        raise Unfit("attention with fewer heads of keys is not offered", "repeat keys and values.")
    return ir.attention(g, q, k, v, mask, is_causal, scale, p)


@row("lstm")
def _lstm(
    g: Ir,
    x: Value,
    state: Sequence[Value],
    weights: Sequence[Value],
    biases: bool,
    layers: int,
    p: float,
    train: bool,
    both_ways: bool,
    batch_first: bool,
) -> list[Value]:
    x = ir.transpose(g, x, 0, 1) if batch_first else x
    ways, each = 2 if both_ways else 1, 4 if biases else 2
    last: list[list[Value]] = [[], []]
    for layer in range(layers):
        outs = []
        for way in range(ways):
            at = layer * ways + way
            w, r, *b = weights[at * each : (at + 1) * each]
            h, c = (_select(g, s, 0, at) for s in state)
            seen = g.op("reverse", x, dim=0) if way else x
            y, *now = ir.lstm(g, seen, h, c, w, r, g.op("add", *b) if b else None)
            outs.append(g.op("reverse", y, dim=0) if way else y)
            for kept, value in zip(last, now, strict=True):
                kept.append(_unsqueeze(g, value, 0))
        x = _cat(g, outs, -1)
        x = ir.dropout(g, x, p) if train and layer + 1 < layers else x
    return [ir.transpose(g, x, 0, 1) if batch_first else x, *(_cat(g, kept) for kept in last)]


# --- losses ---------------------------------------------------------------------------------------


def _less(g: Ir, each: Value, reduction: int) -> Value:
    return (
        each
        if reduction == 0
        else ir.mean(g, each)
        if reduction == 1
        else ir.reduced(g, "sum", each)
    )


def _labels(g: Ir, labels: Value, ignore_index: int) -> tuple[Value, int | None]:
    """Class numbers, and which of them does not count: -100 only stands for torch's silence. What
    the host feeds, it checks and marks; other numbers are marked here."""
    if ignore_index == -100:
        return labels, None
    if g.fed(labels) is None:
        number = g.constant(ignore_index % 2**32, UNSIGNED_INT)
        marked = g.constant(MASKED_LABEL_CODE, UNSIGNED_INT)
        labels = g.op("select", g.op("eq", labels, number), marked, labels)
    return labels, ignore_index


def _by_class(loss: Any) -> Callable[..., Value]:
    def by_class(
        g: Ir,
        x: Value,
        labels: Value,
        weight: Value | None = None,
        reduction: int = 1,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> Value:
        labels, ignored = _labels(g, labels, ignore_index)
        dim = 1 if len(x.shape) > 1 else 0
        if weight is None and not label_smoothing and not labels.floating:
            return loss(g, x, labels, REDUCTIONS[reduction - 1], ignored)  # type: ignore[no-any-return]
        if ignored is not None or (weight is not None and (label_smoothing or labels.floating)):
            raise Unfit("several options of this loss together are not offered", "choose one.")
        if weight is not None:
            each = loss(g, x, labels, "none", None)
            shares = g.op("gather", weight, labels)
            each = g.op("mul", each, shares)
            if reduction != 1:
                return _less(g, each, reduction)
            return g.op("div", ir.reduced(g, "sum", each), ir.reduced(g, "sum", shares))
        logs, classes = ir.along(g, "log_softmax", x, dim), x.shape[dim]
        if labels.floating:
            each_class = label_smoothing / classes
            wanted = g.op("add", g.op("mul", labels, 1 - label_smoothing), each_class)
            each = g.op("neg", ir.reduced(g, "sum", g.op("mul", wanted, logs), [dim]))
            rows = g.constant(classes / x.size, x.dtype)
            return (
                g.op("mul", ir.reduced(g, "sum", each), rows)
                if reduction == 1
                else _less(g, each, reduction)
            )
        even = _less(g, g.op("neg", ir.mean(g, logs, [dim])), reduction)
        exact = loss(g, x, labels, REDUCTIONS[reduction - 1], None)
        return g.op(
            "add", g.op("mul", exact, 1 - label_smoothing), g.op("mul", even, label_smoothing)
        )

    return by_class


ATEN["cross_entropy_loss"] = _by_class(ir.cross_entropy)
for _name in ("nll_loss", "nll_loss_nd", "nll_loss2d"):
    ATEN[_name] = _by_class(ir.nll)
ATEN["mse_loss"] = lambda g, x, y, reduction=1: _less(
    g, g.op("square", g.op("sub", *_met(g, x, y))), reduction
)
ATEN["l1_loss"] = lambda g, x, y, reduction=1: _less(
    g, g.op("abs", g.op("sub", *_met(g, x, y))), reduction
)


@row("binary_cross_entropy_with_logits")
def _bce_logits(
    g: Ir, x: Value, y: Value, weight: Any = None, pos: Any = None, reduction: int = 1
) -> Value:
    if pos is not None:
        raise Unfit("weights of positive answers are not offered", "leave pos_weight out.")
    each = ir.binary_cross_entropy(g, x, cast(g, y, x.dtype), "none")
    return _less(g, each if weight is None else g.op("mul", each, weight), reduction)


@row("binary_cross_entropy")
def _bce(g: Ir, x: Value, y: Value, weight: Any = None, reduction: int = 1) -> Value:
    yes, no = (g.op("max", g.op("log", v), -100.0) for v in (x, g.op("sub", *_met(g, 1.0, x))))
    each = g.op("add", g.op("mul", y, yes), g.op("mul", g.op("sub", *_met(g, 1.0, y)), no))
    return _less(g, g.op("neg", each if weight is None else g.op("mul", each, weight)), reduction)


# --- of the kit -----------------------------------------------------------------------------------

ATEN["ipu_teach::print"] = lambda g, x, title: g.op("print", x, title=title)
