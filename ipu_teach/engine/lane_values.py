"""Numbers in lanes: one value for every vertex, of the type that it has in the plain loop.

A numpy array of one axis holds numpy numbers, one a lane. `Weak` holds plain Python numbers, which take the type of the
numpy number they meet. `Mixed` holds a Python number in some lanes and a numpy number in the others: `total = 0.0` in lanes
that have added nothing yet. Anything else is the same for all lanes. Where lanes cannot give what one vertex would, `LaneStop`
hands over to the plain loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ipu_teach.compile.trace import steady
from ipu_teach.compile.weak import PYTHON
from ipu_teach.types import Array

LARGEST = 2**62  # Python's integers have no end; these do
EXACT = 2**53  # above, an integer is no double
_POWERS = {np.power, np.float_power}
_COMPARISONS = {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal}


class LaneStop(Exception):
    """Lanes cannot go on; the plain loop can, or says what is wrong. `line`: of the statement, as a person names it."""

    line = ""


@dataclass(slots=True, eq=False)
class Weak:
    """Python numbers of one kind: an array of int64, float64 or bool. `bound`: no integer in a lane at work is larger."""

    array: Array
    bound: int = 1


@dataclass(slots=True, eq=False)
class Mixed:
    """Python numbers in the lanes of `tag`, numpy numbers in the others. `strong` holds the former as numpy numbers too."""

    strong: Array
    weak: Weak
    tag: Array


Mask = Array | None  # the lanes at work; None: all of them


def is_lanes(value: Any) -> bool:
    """True if `value` may differ from lane to lane."""
    return isinstance(value, (np.ndarray, Weak, Mixed))


def is_number(value: Any) -> bool:
    """True for a number that all lanes share."""
    return isinstance(value, (bool, int, float, np.generic))


def truth(value: Any) -> Any:
    """bool(value): True or False for all lanes, or an array."""
    if isinstance(value, Weak):
        value = value.array
    elif isinstance(value, Mixed):
        return np.where(value.tag, truth(value.weak), truth(value.strong))
    if isinstance(value, np.ndarray):
        return value if value.dtype == np.bool_ else value != 0
    return bool(value)


def calculate(ufunc: Any, args: tuple[Any, ...], mask: Mask) -> Any:
    """`ufunc` of values of which at least one is lanes, with Python's or numpy's rules as the types demand."""
    if any(isinstance(a, Mixed) for a in args):
        return _mixed(ufunc, args, mask)
    weak = [a for a in args if isinstance(a, Weak)]
    if not weak:
        return _strong(ufunc, args, mask)
    dtypes = [a.dtype for a in args if isinstance(a, (np.ndarray, np.generic))]
    if not dtypes:
        return _weak(ufunc, args, mask)
    return _strong(ufunc, tuple(as_strong(a, dtypes[0], mask) if isinstance(a, Weak) else a for a in args), mask)


def _strong(ufunc: Any, args: tuple[Any, ...], mask: Mask) -> Any:
    try:
        result = ufunc(*args)
    except (OverflowError, TypeError, ValueError) as error:
        raise LaneStop(str(error)) from None
    dtype = result.dtype
    if dtype.kind == "f" and (ufunc in _POWERS or (dtype == np.float16 and not steady(ufunc, dtype))):
        return _one_by_one(ufunc, args, result, mask)
    if ufunc in _POWERS:
        raise LaneStop("an integer power")
    return result


def _one_by_one(ufunc: Any, args: tuple[Any, ...], result: Array, mask: Mask) -> Array:
    """numpy has other paths for single numbers here; only they give their bits."""
    function = PYTHON.get(ufunc, ufunc)
    for lane in range(len(result)) if mask is None else np.flatnonzero(mask).tolist():
        result[lane] = function(*(a[lane] if isinstance(a, np.ndarray) else a for a in args))
    return result


def _weak(ufunc: Any, args: tuple[Any, ...], mask: Mask) -> Weak:
    """Python's own arithmetic."""
    arrays = [a.array if isinstance(a, Weak) else a for a in args]
    bounds = [_bound(a) for a in args]
    kinds = {np.asarray(a).dtype.kind for a in arrays}
    floats = "f" in kinds or ufunc is np.divide
    if floats and max(bounds) > EXACT and kinds != {"f"}:
        raise LaneStop("a large integer meets a float")
    if ufunc in _COMPARISONS:
        return Weak(ufunc(*arrays))
    if kinds == {"b"} and ufunc in (np.bitwise_and, np.bitwise_or, np.bitwise_xor):
        return Weak(ufunc(*arrays))
    if ufunc in (np.divide, np.floor_divide, np.remainder):
        divisor = np.asarray(arrays[1])
        if np.any(divisor == 0 if mask is None or divisor.ndim == 0 else (divisor == 0) & mask):
            raise LaneStop("a division by zero")
    if floats:
        if ufunc not in (np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.absolute):
            raise LaneStop(f"{ufunc.__name__} of Python's floats")
        return Weak(ufunc(*(a.astype(np.float64) if isinstance(a, np.ndarray) else float(a) for a in arrays)))
    arrays = [a.astype(np.int64) if isinstance(a, np.ndarray) else int(a) for a in arrays]
    bound = _largest(ufunc, bounds)
    if bound > LARGEST:
        bounds = [_exact_bound(a, mask) for a in arrays]
        bound = _largest(ufunc, bounds)
        if bound > LARGEST:
            raise LaneStop("an integer beyond 62 bits")
    return Weak(ufunc(*arrays), bound)


def _largest(ufunc: Any, bounds: list[int]) -> int:
    if ufunc in (np.add, np.subtract):
        return bounds[0] + bounds[1]
    if ufunc is np.multiply:
        return bounds[0] * bounds[1]
    if ufunc in (np.negative, np.positive, np.absolute, np.floor_divide):
        return bounds[0]
    if ufunc in (np.remainder, np.invert, np.bitwise_and, np.bitwise_or, np.bitwise_xor):
        return 2 * max(bounds) + 1
    raise LaneStop(f"{ufunc.__name__} of Python's integers")


def _bound(value: Any) -> int:
    if isinstance(value, Weak):
        return value.bound
    return abs(value) if isinstance(value, int) else 0


def _exact_bound(array: Any, mask: Mask) -> int:
    if not isinstance(array, np.ndarray):
        return abs(int(array))
    at_work = array if mask is None else array[mask]
    return max(abs(int(at_work.max(initial=0))), abs(int(at_work.min(initial=0))))


def _mixed(ufunc: Any, args: tuple[Any, ...], mask: Mask) -> Any:
    strong = [a.strong if isinstance(a, Mixed) else a for a in args]
    dtypes = {a.dtype for a in strong if isinstance(a, (np.ndarray, np.generic))}
    if len(dtypes) > 1:
        raise LaneStop("numbers of several types in one variable")
    dtype = dtypes.pop()
    strong = [as_strong(a, dtype, mask) if isinstance(a, Weak) else a for a in strong]
    result = _strong(ufunc, tuple(strong), mask)
    if not all(isinstance(a, (Mixed, Weak, bool, int, float)) for a in args):
        return result  # every lane met a numpy number
    tags = [a.tag for a in args if isinstance(a, Mixed)]
    tag = tags[0] if len(tags) == 1 else tags[0] & tags[1]
    python = tag if mask is None else mask & tag
    weak = _weak(ufunc, tuple(a.weak if isinstance(a, Mixed) else a for a in args), python)
    # What Python computes in double precision is not what numpy's numbers give on the way.
    return Mixed(np.where(tag, as_strong(weak, result.dtype, python), result), weak, tag)


def as_strong(value: Weak, dtype: Any, mask: Mask) -> Array:
    """Python numbers as what they become when they meet a numpy number of type `dtype`."""
    array = value.array
    if array.dtype.kind == "b" or dtype.kind == "b" or (array.dtype.kind == "f" and dtype.kind != "f"):
        return array
    if dtype.kind != "f":
        return fitting(array, dtype, mask)
    return array.astype(np.float64).astype(dtype)


def fitting(array: Array, dtype: Any, mask: Mask) -> Array:
    """Numbers as integers of type `dtype`, all of which they fit in the lanes at work."""
    bounds = np.iinfo(dtype)
    whole = np.trunc(array) if array.dtype.kind == "f" else array
    with np.errstate(invalid="ignore"):
        high = float(bounds.max) + 1 if array.dtype.kind == "f" else int(bounds.max) + 1
        if array.dtype.kind == "f":
            bad = ~((whole >= float(bounds.min)) & (whole < high))
        else:
            bad = (whole < int(bounds.min)) | (whole > int(bounds.max))
        if np.any(bad if mask is None else bad & mask):
            raise LaneStop("a number that does not fit into its place")
        return whole.astype(dtype)


def to_place(value: Any, dtype: Any, mask: Mask) -> Any:
    """A value as it is stored in an element of type `dtype`."""
    if isinstance(value, Mixed):
        placed = to_place(value.strong, dtype, mask)
        return np.where(value.tag, to_place(value.weak, dtype, mask), placed)
    python = isinstance(value, Weak)
    if isinstance(value, Weak):
        value = value.array.astype(np.float64) if dtype.kind == "f" else value.array
    if not isinstance(value, np.ndarray):
        try:
            return np.full((), value).astype(dtype) if dtype.kind != "i" and dtype.kind != "u" else _one_place(value, dtype)
        except (OverflowError, ValueError, TypeError) as error:
            raise LaneStop(str(error)) from None
    wraps = dtype.kind == "u" and value.dtype.kind in "iu" and not python
    if dtype.kind in "iu" and value.dtype != dtype and not wraps:
        return fitting(value, dtype, mask)
    return value.astype(dtype, copy=False)


def _one_place(value: Any, dtype: Any) -> Array:
    place = np.zeros((), dtype)
    place[...] = value
    return place


def spread(value: Any, width: int) -> Any:
    """A number that all lanes share, in each of them."""
    if isinstance(value, np.generic):
        return np.full(width, value)
    if isinstance(value, bool):
        return Weak(np.full(width, value))
    if isinstance(value, int):
        if abs(value) > LARGEST:
            raise LaneStop("an integer beyond 62 bits")
        return Weak(np.full(width, value, np.int64), abs(value))
    if isinstance(value, float):
        return Weak(np.full(width, value))
    raise LaneStop(f"a {type(value).__name__} that differs from vertex to vertex")


def choose(mask: Array, new: Any, old: Any) -> Any:
    """`new` in the lanes of `mask`, `old` in the others."""
    if new is old:
        return old
    if isinstance(new, np.ndarray) and isinstance(old, np.ndarray) and new.dtype == old.dtype:
        return np.where(mask, new, old)
    if type(new) is type(old) and isinstance(new, (bool, int)) and new == old:
        return old
    new, old = (v if is_lanes(v) else spread(v, len(mask)) for v in (new, old))
    if isinstance(new, Weak) and isinstance(old, Weak):
        if new.array.dtype != old.array.dtype:
            raise LaneStop("numbers of several types in one variable")
        return Weak(np.where(mask, new.array, old.array), max(new.bound, old.bound))
    parts = [_parts(v, len(mask)) for v in (new, old)]
    dtypes = {strong.dtype for strong, _, _ in parts if strong is not None}
    kinds = {weak.array.dtype for _, weak, _ in parts if weak is not None}
    if len(dtypes) > 1 or len(kinds) > 1:
        raise LaneStop("numbers of several types in one variable")
    dtype, kind = dtypes.pop(), kinds.pop() if kinds else None
    if kind is None:
        return np.where(mask, parts[0][0], parts[1][0])
    if (kind.kind == "b") != (dtype.kind == "b") or (kind.kind == "f" and dtype.kind != "f"):
        raise LaneStop("numbers of several types in one variable")
    strong = [s if s is not None else as_strong(w, dtype, t & (mask if i == 0 else ~mask)) for i, (s, w, t) in enumerate(parts)]
    weak = [w if w is not None else Weak(np.zeros(len(mask), kind), 0) for _, w, _ in parts]
    merged = Weak(np.where(mask, weak[0].array, weak[1].array), max(weak[0].bound, weak[1].bound))
    return Mixed(np.where(mask, strong[0], strong[1]), merged, np.where(mask, parts[0][2], parts[1][2]))


def _parts(value: Any, width: int) -> tuple[Any, Any, Array]:
    """(numpy numbers or None, Python numbers or None, which lanes hold the latter)."""
    if isinstance(value, Mixed):
        return value.strong, value.weak, value.tag
    if isinstance(value, Weak):
        return None, value, np.ones(width, bool)
    return value, None, np.zeros(width, bool)


def take(value: Any, lanes: Array) -> Any:
    """`value` of some lanes only."""
    if isinstance(value, np.ndarray):
        return value[lanes]
    if isinstance(value, Weak):
        return Weak(value.array[lanes], value.bound)
    if isinstance(value, Mixed):
        return Mixed(value.strong[lanes], take(value.weak, lanes), value.tag[lanes])
    return value


def widened(value: Any, lanes: Array, width: int) -> Any:
    """`value` with its lanes put at the places `lanes` of `width` ones; the others hold anything."""
    if isinstance(value, np.ndarray):
        wide = np.zeros(width, value.dtype)
        wide[lanes] = value
        return wide
    if isinstance(value, Weak):
        return Weak(widened(value.array, lanes, width), value.bound)
    if isinstance(value, Mixed):
        return Mixed(widened(value.strong, lanes, width), widened(value.weak, lanes, width), widened(value.tag, lanes, width))
    return value
