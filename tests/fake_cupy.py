"""A stand-in for CuPy, so that the engine's GPU path can be tested without a GPU.

Its arrays wrap numpy arrays. To find mistakes, they are stricter than CuPy's: they never convert to
numpy arrays by themselves, do not accept numpy arrays as operands, and no numpy function takes them.

* What CuPy lacks is missing here, too: `vecdot`, reductions by most ufuncs, modes of `take`.
* Indices beyond the end wrap, as in CuPy.
* `waits` records every call that makes the host wait for the device, `uploads` every copy to it.
* What CuPy leaves undefined is an error or poison here: a result that overlaps an operand in part, an
  element that is written twice, a float outside the range of an integer dtype.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

__version__ = "stand-in"
waits: list[str] = []
uploads: list[str] = []


class _Pointer:
    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


def _kept(value: Any) -> Any:
    """Return the numpy value of an operand: an array of the device or a single number.

    :raises TypeError: if it is a numpy array.
    """
    if isinstance(value, ndarray):
        return value._values
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return value


def _unmixed(out: Any, *args: Any) -> None:
    for arg in args:
        if isinstance(arg, ndarray) and np.shares_memory(arg._values, out._values):
            a, b = arg._values, out._values
            same = (
                a.ctypes.data == b.ctypes.data
                and a.shape == b.shape
                and a.strides == b.strides
                and a.dtype == b.dtype
            )
            assert same, "a result lies over an operand in part"


def _put(into: np.ndarray, values: Any, casting: Any, where: Any = True) -> None:
    """Store values; floats outside the range of an integer dtype become 77, as on no processor."""
    source = np.asarray(values)
    if casting == "unsafe" and source.dtype.kind == "f" and into.dtype.kind in "iu":
        bounds = np.iinfo(into.dtype)
        with np.errstate(all="ignore"):
            bad = ~((source > float(bounds.min) - 1) & (source < float(bounds.max) + 1))
            source = np.where(bad, into.dtype.type(77), source.astype(into.dtype))
    np.copyto(into, source, casting, where=where)


def _wrapped(index: Any, length: int) -> Any:
    return index % length if length else index


class ndarray:
    __array_ufunc__ = None

    def __init__(self, values: Any) -> None:
        assert isinstance(values, np.ndarray)
        self._values = values

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_function__(self, fn: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        raise TypeError(f"np.{fn.__name__} on an array of the device")

    shape = property(lambda self: self._values.shape)
    strides = property(lambda self: self._values.strides)
    dtype = property(lambda self: self._values.dtype)
    ndim = property(lambda self: self._values.ndim)
    size = property(lambda self: self._values.size)
    itemsize = property(lambda self: self._values.itemsize)
    nbytes = property(lambda self: self._values.nbytes)
    flags = property(lambda self: self._values.flags)
    data = property(lambda self: _Pointer(self._values.ctypes.data))

    def __len__(self) -> int:
        return len(self._values)

    def reshape(self, *shape: Any) -> ndarray:
        return ndarray(self._values.reshape(*shape))

    def transpose(self, *axes: Any) -> ndarray:
        return ndarray(self._values.transpose(*axes))

    def view(self, dtype: Any) -> ndarray:
        return ndarray(self._values.view(dtype))

    def copy(self) -> ndarray:
        return ndarray(self._values.copy())

    def fill(self, value: Any) -> None:
        self._values.fill(_kept(value))

    def sum(self, axis: Any = None, keepdims: bool = False) -> ndarray:
        return ndarray(np.asarray(self._values.sum(axis=axis, keepdims=keepdims)))

    def max(self, axis: Any = None, keepdims: bool = False) -> ndarray:
        return ndarray(np.asarray(self._values.max(axis=axis, keepdims=keepdims)))

    T = property(lambda self: ndarray(self._values.T))

    def _key(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        found = []
        for axis, part in enumerate(parts):
            if isinstance(part, ndarray):
                assert len(parts) == 1 and part.dtype.kind in "iu", (
                    "an index that makes the host wait, or that this cannot do"
                )
                found.append(_wrapped(part._values, self.shape[axis]))
                continue
            assert not isinstance(part, np.ndarray), "an index that lies on the host"
            found.append(part)
        return tuple(found)

    def __getitem__(self, key: Any) -> ndarray:
        return ndarray(np.asarray(self._values[self._key(key)]))

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray):
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        key = self._key(key)
        if isinstance(key[0], np.ndarray):
            assert np.unique(key[0]).size == key[0].size, "one place is written twice, in any order"
        _unmixed(
            ndarray(np.asarray(self._values[key])), *([value] if isinstance(value, ndarray) else [])
        )
        kept = np.array(self._values[key])
        _put(kept, _kept(value), "unsafe")
        self._values[key] = kept

    def _wait(self, why: str, value: Any) -> Any:
        waits.append(why)
        return value

    def __bool__(self) -> bool:
        return bool(self._wait("bool", self._values))

    def __int__(self) -> int:
        return int(self._wait("int", self._values))

    def __float__(self) -> float:
        return float(self._wait("float", self._values))

    def __ge__(self, other: Any) -> ndarray:
        return ndarray(np.asarray(self._values >= _kept(other)))

    def __add__(self, other: Any) -> ndarray:
        return ndarray(np.asarray(self._values + _kept(other)))

    def __sub__(self, other: Any) -> ndarray:
        return ndarray(np.asarray(self._values - _kept(other)))

    def __mul__(self, other: Any) -> ndarray:
        return ndarray(np.asarray(self._values * _kept(other)))

    def __truediv__(self, other: Any) -> ndarray:
        return ndarray(np.asarray(self._values / _kept(other)))

    def __matmul__(self, other: Any) -> ndarray:
        return matmul(self, other)


class ufunc:
    def __init__(self, fn: np.ufunc) -> None:
        self._fn = fn

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> ndarray:
        found = self._fn(*map(_kept, args), **kwargs)
        if out is None:
            return ndarray(np.asarray(found))
        _unmixed(out, *args)
        np.copyto(out._values, found, "same_kind")
        return out

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("the engine calls the reductions by their names")


_NAMES = """
    add subtract multiply divide floor_divide remainder fmod power negative positive absolute fabs sign sqrt cbrt square
    reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh
    arctanh hypot floor ceil rint trunc maximum minimum fmax fmin copysign equal not_equal less less_equal greater
    greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert left_shift
    right_shift isnan isinf isfinite signbit
"""
for _name in _NAMES.split():
    globals()[_name] = ufunc(getattr(np, _name))


def _reduction(fn: Any, typed: bool) -> Any:
    def reduce(
        a: ndarray, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> ndarray:
        given = {"dtype": dtype} if dtype is not None else {}
        found = np.asarray(fn(a._values, axis=axis, keepdims=keepdims, **given))
        if out is None:
            return ndarray(found)
        assert out.shape == found.shape
        _unmixed(out, a)
        np.copyto(out._values, found, "same_kind")
        return out

    def untyped(a: ndarray, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return reduce(a, axis, None, out, keepdims)

    return reduce if typed else untyped


sum, prod = _reduction(np.sum, True), _reduction(np.prod, True)
amax, amin, all, any = (_reduction(fn, False) for fn in (np.amax, np.amin, np.all, np.any))


def zeros(shape: Any, dtype: Any = float) -> ndarray:
    return ndarray(np.zeros(shape, dtype))


def ones(shape: Any, dtype: Any = float) -> ndarray:
    return ndarray(np.ones(shape, dtype))


def empty(shape: Any, dtype: Any = float) -> ndarray:
    return ndarray(np.full(shape, 77, dtype))


def empty_like(a: ndarray) -> ndarray:
    return empty(a.shape, a.dtype)


def arange(stop: int) -> ndarray:
    return ndarray(np.arange(stop))


def asarray(values: Any) -> ndarray:
    uploads.append("asarray")
    return ndarray(np.array(values))


def asnumpy(values: ndarray) -> Any:
    waits.append("asnumpy")
    return values._values.copy()


def may_share_memory(a: ndarray, b: ndarray) -> bool:
    return np.may_share_memory(a._values, b._values)


def copyto(dst: ndarray, src: Any, casting: str = "same_kind", where: Any = None) -> None:
    _unmixed(dst, src)
    _put(dst._values, _kept(src), casting, True if where is None else where._values)


def take(a: ndarray, indices: ndarray, axis: Any = None, out: Any = None) -> ndarray:
    assert isinstance(indices, ndarray)
    found = np.take(
        a._values, _wrapped(indices._values, a.size if axis is None else a.shape[axis]), axis
    )
    _unmixed(out, a)
    out._values[...] = found
    return out


def clip(a: ndarray, a_min: Any, a_max: Any, out: Any = None) -> ndarray:
    found = np.clip(a._values, _kept(a_min), _kept(a_max))
    _unmixed(out, a, *(v for v in (a_min, a_max) if isinstance(v, ndarray)))
    np.copyto(out._values, found, "same_kind")
    return out


def matmul(a: ndarray, b: ndarray, out: Any = None) -> ndarray:
    found = np.matmul(a._values, b._values)
    if out is None:
        return ndarray(found)
    assert out.shape == found.shape
    _unmixed(out, a, b)
    np.copyto(out._values, found, "same_kind")
    return out


def _as_strided(x: ndarray, shape: Any = None, strides: Any = None) -> ndarray:
    return ndarray(np.lib.stride_tricks.as_strided(x._values, tuple(shape), tuple(strides)))


lib = types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=_as_strided))


class _Device:
    id = 0


cuda = types.SimpleNamespace(
    Device=_Device,
    get_current_stream=lambda: types.SimpleNamespace(
        synchronize=lambda: waits.append("synchronize")
    ),
    runtime=types.SimpleNamespace(getDeviceProperties=lambda number: {"name": b"a stand-in"}),
)
