"""What functions give in lanes: Python's own, numpy's on single elements, and those of Python's math module."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ipu_teach.compile.lanes import MATHS
from ipu_teach.engine.lane_values import (
    EXACT,
    LARGEST,
    LaneStop,
    Mixed,
    Weak,
    choose,
    is_lanes,
    is_number,
    spread,
    to_place,
    truth,
)
from ipu_teach.engine.lanes import Field, Lanes

# What numpy, and with it the cost model, calls the functions of math that it knows by another name.
_NUMPYS = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
           "atanh": "arctanh", "pow": "power", "fabs": "absolute"}  # fmt: skip


@dataclass(eq=False)
class CountedByLanes:
    """range(…) whose end differs from lane to lane; it is kept under `name`, where it goes wherever the lanes go."""

    start: int
    name: str


def call(lanes: Lanes, function: Any, args: list[Any], named: dict[str, Any], name: str) -> Any:
    if function in (np.zeros, np.ones, np.empty, np.full):
        if any(is_lanes(v) or isinstance(v, Field) for v in (*args, *named.values())):
            raise LaneStop("an array whose size differs from vertex to vertex")
        one = np.asarray(function(*args, **named))
        return Field(lanes, np.repeat(one[..., None], lanes.home, axis=-1))
    if not any(is_lanes(a) for a in args):
        if function in (max, min) and any(isinstance(a, Field) for a in args):
            return _best(lanes, function, [item for a in args for item in a])
        try:
            return function(*args, **named)
        except LaneStop:
            raise
        except Exception as error:
            raise LaneStop(str(error)) from None
    if function in (max, min) and len(args) > 1:
        return _best(lanes, function, args)
    if function is abs:
        return lanes.compute(np.absolute, *args)
    if function is bool:
        return Weak(truth(args[0]))
    if function is range and not any(is_lanes(a) for a in args[:-1]) and len(args) <= 2:
        return _counted(lanes, args, name)
    if isinstance(function, np.ufunc):
        return _ufunc(lanes, function, args)
    if function is float:
        return _as_float(lanes, args[0])
    if function in MATHS:
        return _maths(lanes, function, args)
    if function is int or (isinstance(function, type) and issubclass(function, np.number)):
        return _converted(lanes, function, args[0])
    raise LaneStop(f"{getattr(function, '__name__', function)}() of a value that depends on data")


def _best(lanes: Lanes, function: Any, items: list[Any]) -> Any:
    """The builtin max or min: keeps the first unless a later one is strictly better, as Python does."""
    best, better = items[0], np.greater if function is max else np.less
    for item in items[1:]:
        if not (is_lanes(item) or is_lanes(best)):
            best = function(best, item)
            continue
        found = truth(lanes.compute(better, item, best))
        wide = (v if is_lanes(v) else spread(v, lanes.width) for v in (item, best))
        best = choose(found, *wide)
        dtype = best.array.dtype if isinstance(best, Weak) else getattr(best, "strong", best).dtype
        lanes.pending += lanes.weigh("where", dtype)
    return best


def _counted(lanes: Lanes, args: list[Any], name: str) -> CountedByLanes:
    stop, start = args[-1], args[0] if len(args) == 2 else 0
    dtype = stop.array.dtype if isinstance(stop, Weak) else getattr(stop, "strong", stop).dtype
    if dtype.kind not in "iu" or not isinstance(start, (int, np.integer)):
        raise LaneStop("a range of what is no whole number")
    lanes.values[name] = stop
    return CountedByLanes(int(start), name)


def _ufunc(lanes: Lanes, function: Any, args: list[Any]) -> Any:
    """numpy's functions make numpy numbers of Python's."""
    if any(isinstance(a, Mixed) for a in args) or not all(is_lanes(a) or is_number(a) for a in args):
        raise LaneStop(f"np.{function.__name__} of what is no number")
    if not any(isinstance(a, (np.ndarray, np.generic)) for a in args):
        args = [a.array if isinstance(a, Weak) else a for a in args]
    return lanes.compute(function, *args)


def _converted(lanes: Lanes, kind: Any, value: Any) -> Any:
    if isinstance(value, Mixed):
        raise LaneStop(f"{kind.__name__}() of numbers of several types")
    lanes.pending += 1
    if kind is int:
        array = to_place(value, np.dtype(np.int64), lanes.mask)
        seen = array if lanes.mask is None else array[lanes.mask]
        bound = max(abs(int(seen.max(initial=0))), abs(int(seen.min(initial=0))))
        if bound > LARGEST:
            raise LaneStop("an integer beyond 62 bits")
        return Weak(array, bound)
    return to_place(value, np.dtype(kind), lanes.mask)


def _doubles(value: Any) -> Any:
    """float(value): in every lane, or the same for all."""
    if isinstance(value, Mixed):
        return np.where(value.tag, _doubles(value.weak), value.strong.astype(np.float64))
    if isinstance(value, Weak):
        if value.bound > EXACT:
            raise LaneStop("a large integer meets a float")
        return value.array.astype(np.float64)
    return value.astype(np.float64) if isinstance(value, np.ndarray) else float(value)


def _as_float(lanes: Lanes, value: Any) -> Weak:
    lanes.pending += 1
    return Weak(_doubles(value))


def _maths(lanes: Lanes, function: Callable[..., Any], args: list[Any]) -> Weak:
    """A function of Python's math module, which computes in double precision, and not as numpy does."""
    if not all(is_lanes(a) or is_number(a) for a in args):
        raise LaneStop(f"math.{function.__name__}() of what is no number")
    doubles = [_doubles(a) for a in args]
    lanes.pending += lanes.weigh(_NUMPYS.get(function.__name__, function.__name__), np.dtype(np.float32))
    working = np.arange(lanes.width) if lanes.mask is None else np.flatnonzero(lanes.mask)
    columns = [(d[working] if isinstance(d, np.ndarray) else np.full(len(working), d)).tolist() for d in doubles]
    try:
        found = [function(*numbers) for numbers in zip(*columns, strict=True)]
    except (ArithmeticError, ValueError) as error:  # what it raises in one of the vertices
        raise LaneStop(str(error)) from None
    whole = np.zeros(lanes.width, np.int64 if function in (math.floor, math.ceil) else np.float64)
    if whole.dtype.kind == "i" and max(map(abs, found), default=0) > LARGEST:
        raise LaneStop("an integer beyond 62 bits")
    whole[working] = found
    return Weak(whole, max(map(abs, found), default=0) if whole.dtype.kind == "i" else 1)


def looked_up(lanes: Lanes, table: list[Any] | tuple[Any, ...], key: Any) -> Weak:
    """An element of a plain list of numbers, in each lane its own."""
    kinds = {type(number) for number in table}
    if isinstance(key, Mixed) or kinds not in ({int}, {float}):
        raise LaneStop("an index into a list of several types")
    index = key.array if isinstance(key, Weak) else key
    if index.dtype.kind not in "iu":
        raise LaneStop("an index that is no whole number")
    bad = (index < -len(table)) | (index >= len(table))
    if np.any(bad if lanes.mask is None else bad & lanes.mask):
        raise LaneStop("an index beyond the end")
    bound = max(map(abs, table)) if kinds == {int} else 1
    if bound > LARGEST:
        raise LaneStop("an integer beyond 62 bits")
    lanes.pending += 1
    return Weak(np.array(table)[np.where(bad, 0, index)], int(bound))
