"""The array module with which the engine computes: numpy, or CuPy on a GPU.

The same plan of array calls runs on both; only the functions that it calls differ. On a GPU, a step
is a queue of kernels and never waits for the host. Copies, + - x /, square roots, comparisons and
integer operations give the same bits as numpy. Sums and matrix products add in another order, so
their results differ slightly from numpy's, as do those of transcendental functions. Work that a GPU
cannot do for all vertices together runs on the host (see `host_fallback`). The CuPy backend follows
CuPy's documentation, and was tested with an imitation of CuPy that lacks the same functions as
CuPy. It has not been run on a device yet.
"""

from __future__ import annotations

import ctypes
import operator
import os
import sys
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from ipu_teach.arguments import Function
from ipu_teach.compile.trace import Arguments, Op, Options, Ref, Trace
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.types import Array

Axis = int | tuple[int, ...] | None
# An argument for a function of the array module: an array or a number.
Operand: TypeAlias = Array | np.generic | bool | int | float
# A call that is made later: (function, arguments). Most of these functions are from the array
# module.
Call = tuple[Function, Arguments]


def run_all(calls: list[Call]) -> None:
    """Execute the calls one after another."""
    for function, args in calls:
        function(*args)


class Backend:
    """The array functions with which the engine computes tile data, here those of numpy.

    A subclass can replace numpy with another array module that has the same functions.
    """

    name = "numpy"
    on_host = True
    # The maximum number of bytes of temporary arrays. With 0, `batch_plan` chooses a number that
    # fits a processor's cache.
    chunk_bytes = 0

    def __init__(self) -> None:
        self.as_strided: Callable[..., Array] = np.lib.stride_tricks.as_strided
        self.zeros: Callable[..., Array] = np.zeros
        self.empty: Callable[..., Array] = np.empty
        self.copyto: Callable[..., None] = np.copyto
        self.take: Callable[..., Array] = np.take
        self.matmul: Callable[..., Array] = np.matmul
        self.vecdot: Callable[..., Array] = np.vecdot
        self.clip: Callable[..., Array] = np.clip
        self.may_share_memory: Callable[..., bool] = np.may_share_memory
        self._rows: dict[Hashable, Array] = {}

    def runs(self, trace: Trace) -> bool:
        """Return whether the backend can run all operations of a trace for many vertices."""
        return True

    def array(self, values: Array | np.generic) -> Any:
        """Return the values of a host array, in memory that kernels can read."""
        return values

    def operand(self, value: Operand) -> Operand:
        """Return the value of an untraced argument, in memory that kernels can read.

        Here, this is `value` itself.
        """
        return value

    def to_host(self, values: Array) -> Array:
        """Wait until tile data are computed, and return a copy of them as a numpy array."""
        host: Array = values.copy()
        return host

    def finish(self) -> None:
        """Wait until all calls have finished."""

    def ufunc(self, fn: np.ufunc, args: Sequence[Operand], out: Array, kwargs: Options) -> Call:
        """Return the call fn(*args, out=out, **kwargs).

        Python numbers among the arguments are converted to arrays here, once, instead of in every
        call. For np.maximum and np.minimum, `_row` does this. For any other function, it is done
        only if all arrays have the same float dtype as `out`.
        """
        if fn in (np.maximum, np.minimum):
            args = [a if isinstance(a, np.ndarray) else self._row(a, out) for a in args]
        elif {getattr(a, "dtype", out.dtype) for a in args} == {
            out.dtype
        } and out.dtype.kind == "f":
            # Convert Python numbers here, once, instead of in every call.
            args = [np.array(a, out.dtype) if isinstance(a, (int, float)) else a for a in args]
        # np.maximum and np.minimum are given `out` by name.
        if kwargs or fn in (np.maximum, np.minimum):
            return partial(fn, out=out, **kwargs), tuple(args)
        return fn, (*args, out)

    def reduction(
        self, fn: np.ufunc, array: Array, axis: Axis, out: Array, keepdims: bool = False
    ) -> Call:
        """Return the call fn.reduce(array, axis, out=out, keepdims=keepdims)."""
        return fn.reduce, (array, axis, None, out, keepdims)

    def _row(self, value: Operand, out: Array) -> Operand:
        """Return an array as long as the last axis of `out`, with `value` in every element.

        numpy's maximum and minimum have no vector form for a single number. `value` is returned
        unchanged if it is an array or has another dtype than `out`, or if `out` has no axes.
        """
        keeps_dtype = (
            isinstance(value, (bool, int, float)) or getattr(value, "dtype", None) == out.dtype
        )
        if not keeps_dtype or np.ndim(value) or not out.ndim:
            return value
        key = (repr(value), type(value), out.dtype)
        length = out.shape[-1]
        if key not in self._rows or len(self._rows[key]) < length:
            self._rows[key] = np.full(length, value, out.dtype)
        return self._rows[key][:length]


REDUCED: dict[np.ufunc, str] = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "amax",
    np.minimum: "amin",
    np.logical_and: "all",
    np.logical_or: "any",
}
GPU_TYPES = "?bhilqBHILQefd"


class CupyBackend(Backend):
    """The array functions on a GPU, from the module `cupy`.

    Memory is allocated on CuPy's current device. CuPy's kernels do not check whether the memory of
    the result overlaps that of an operand. So an operand that partly overlaps the result is copied
    before the call.
    """

    name = "cupy"
    on_host = False
    # Starting a kernel takes microseconds, so all vertices run in one chunk if possible.
    chunk_bytes = 256 * 1024 * 1024

    def __init__(self, cupy: Any) -> None:
        super().__init__()
        self._cupy = cupy
        self.as_strided = cupy.lib.stride_tricks.as_strided
        self.zeros = cupy.zeros
        self.empty = cupy.empty
        self.clip = cupy.clip
        self.may_share_memory = cupy.may_share_memory
        self.copyto = self._copyto
        self.take = self._take
        self.matmul = self._matmul
        self.vecdot = self._vecdot

    def _take(self, array: Array, index: Array, axis: Axis, out: Array, mode: str) -> Array:
        """Gather elements. `mode` is ignored: CuPy lacks it, and all indices are within bounds."""
        gathered: Array = self._cupy.take(array, index, axis, out)
        return gathered

    def _matmul(self, a: Array, b: Array, out: Array) -> Array:
        product: Array = self._cupy.matmul(a, b, out=out)
        return product

    def _vecdot(self, a: Array, b: Array, out: Array) -> Array:
        rows = a[..., None, :]
        columns = b[..., None]
        product: Array = self._cupy.matmul(rows, columns, out=out[..., None, None])
        return product

    def runs(self, trace: Trace) -> bool:
        return all(self._has(op, trace) for op in trace.ops)

    def _has(self, op: Op, trace: Trace) -> bool:
        """Return whether CuPy can run an operation with the same result as numpy."""
        if op.result >= 0 and np.asarray(trace.samples[op.result]).dtype.char not in GPU_TYPES:
            return False
        if op.kind == "store":
            return not op.kwargs and not _cuts(op.args[1], trace.samples[op.args[0].id], trace)
        if op.kind in ("region", "view", "read", "local"):
            return True
        samples = [np.asarray(trace.samples[a.id] if isinstance(a, Ref) else a) for a in op.args]
        if op.kind == "ufunc":
            return isinstance(op.fn, np.ufunc) and hasattr(self._cupy, op.fn.__name__)
        if op.fn is operator.pow:
            return bool(samples[1].dtype.kind == "f" or samples[0].dtype.kind == "f")
        if op.kind == "elementwise" and op.fn is np.copy:
            return not _cuts(op.args[0], trace.samples[op.result], trace)
        if op.kind == "elementwise":
            return op.fn is not np.where or samples[0].dtype == bool
        if op.kind == "reduce":
            return op.fn in REDUCED
        return (
            op.kind == "product"
            and op.fn is np.matmul
            and not op.kwargs
            and {a.ndim for a in samples} <= {1, 2}
        )

    def array(self, values: Array | np.generic) -> Any:
        if isinstance(values, self._cupy.ndarray):
            return values
        return self._cupy.asarray(np.asarray(values))

    def operand(self, value: Operand) -> Operand:
        # Python numbers need no conversion, because CuPy, like numpy, gives them the dtype of the
        # other operand.
        return self.array(value) if isinstance(value, (np.ndarray, np.generic)) else value

    def to_host(self, values: Array) -> Array:
        host: Array = (
            self._cupy.asnumpy(values) if isinstance(values, self._cupy.ndarray) else values
        )
        return host

    def finish(self) -> None:
        self._cupy.cuda.get_current_stream().synchronize()

    def ufunc(self, fn: np.ufunc, args: Sequence[Operand], out: Array, kwargs: Options) -> Call:
        call = partial(getattr(self._cupy, fn.__name__), out=out, **kwargs)
        if any(self._overlap(a, out) for a in args):
            return self._from_copies, (call, args, out)
        return call, tuple(args)

    def reduction(
        self, fn: np.ufunc, array: Array, axis: Axis, out: Array, keepdims: bool = False
    ) -> Call:
        options: Options = {"dtype": out.dtype} if fn in (np.add, np.multiply) else {}
        return partial(
            getattr(self._cupy, REDUCED[fn]), axis=axis, out=out, keepdims=keepdims, **options
        ), (array,)

    def _overlap(self, value: Operand, out: Any) -> bool:
        """Return whether two arrays share memory without being the same view of it."""
        if not isinstance(value, self._cupy.ndarray) or not self.may_share_memory(value, out):
            return False
        is_same_view = (
            value.data.ptr == out.data.ptr
            and value.shape == out.shape
            and value.strides == out.strides
        )
        return not (is_same_view and value.dtype == out.dtype)

    def _from_copies(self, call: Callable[..., object], args: Sequence[Any], out: Array) -> None:
        """Call a function with copies of the operands that overlap the result."""
        call(*(a.copy() if self._overlap(a, out) else a for a in args))

    def _copyto(
        self, to: Array, source: Array, casting: str = "same_kind", where: Array | None = None
    ) -> None:
        source = source.copy() if self._overlap(source, to) else source
        self._cupy.copyto(to, source, casting, where)


def _cuts(value: Operand | Ref, place: Array, trace: Trace) -> bool:
    """Return whether storing `value` in the array `place` converts floats to integers.

    The results of a GPU and a processor differ for floats that are out of the integer's range.
    """
    return (
        isinstance(value, Ref)
        and place.dtype.kind in "iu"
        and np.asarray(trace.samples[value.id]).dtype.kind == "f"
    )


def cuda_devices() -> int:
    """Return the number of CUDA devices that the driver reports, or 0 without a working driver.

    The function imports no large module, and takes less than a millisecond without a driver.
    """
    name = {"win32": "nvcuda.dll", "darwin": ""}.get(sys.platform, "libcuda.so.1")
    if not name:
        return 0
    try:
        driver = ctypes.CDLL(name)
        count = ctypes.c_int(0)
        works = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    # The driver's library does not exist, or it lacks these functions.
    except (OSError, AttributeError):
        return 0
    return count.value if works else 0


def cupy_module() -> tuple[Any, str]:
    """Return (CuPy, description of its device) if its kernels run, or (None, reason).

    Without a driver this takes 0.2 milliseconds and imports nothing. With a driver, CuPy is
    imported, and must add and multiply matrices once, because an import can succeed without a
    device and without the libraries that compile kernels.
    """
    if os.environ.get("IPU_TEACH_GPU") == "0":
        return None, "switched off by IPU_TEACH_GPU=0"
    count = cuda_devices()
    if not count:
        return None, "no CUDA driver or device"
    return _working_cupy(count)


@cache
def _working_cupy(count: int) -> tuple[Any, str]:
    devices = f"{count} CUDA device{'s' if count > 1 else ''}"
    try:
        import cupy
    except ImportError:
        return (
            None,
            f"{devices} seen, but CuPy is not installed: python -m pip install 'cupy-cuda13x[ctk]'",
        )
    try:
        total = int((cupy.arange(3) * 2).sum())
        product = float(
            cupy.matmul(cupy.ones((2, 2), np.float32), cupy.ones((2, 2), np.float32))[0, 0]
        )
        if (total, product) != (6, 2.0):
            return (
                None,
                f"CuPy computes wrong results here: {total} and {product} instead of 6 and 2",
            )
        name = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()
    # The exception may be a CUDARuntimeError, CompileException, DynamicLibNotFoundError or other.
    except Exception as error:
        return (
            None,
            f"{devices} seen, but CuPy does not run: {type(error).__name__}: "
            f"{' '.join(str(error).split())}",
        )
    return cupy, f"CuPy {cupy.__version__} on {name}"


def choose_backend(name: str | None) -> Backend:
    """Return the backend called `name`, or for None the fastest one that runs here.

    The fastest backend is CuPy's if CuPy runs, and otherwise numpy's.

    :raises InvalidOptionError: if there is no such backend, or CuPy does not run on this computer.
    """
    # First convert the name to a string: if it were an array, the result of the comparison would
    # have no truth value.
    if name is not None and shown(name) not in ("'numpy'", "'cupy'"):
        raise InvalidOptionError(f"""Engine was given backend={shown(name)}, which does not exist.
            next:  give "numpy", "cupy", or None, which selects CuPy if it runs and numpy
            otherwise.""")
    if name == "numpy":
        return Backend()
    cupy, why = cupy_module()
    if cupy is not None:
        return CupyBackend(cupy)
    if name == "cupy":
        raise InvalidOptionError(f"""Engine was given backend="cupy", but CuPy does not run here:
            {why}.
            next:  leave backend out, and the engine runs on numpy. `ipu-teach doctor` shows
            what is missing.""")
    return Backend()


@cache
def one_blas_thread() -> Callable[[], AbstractContextManager[object]]:
    """Return a function that creates a context in which numpy's BLAS uses one thread.

    With more threads, many small products in a row become slow. If threadpoolctl is not installed,
    as in a browser, the context has no effect.
    """
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return nullcontext
    return partial(ThreadpoolController().limit, limits=1)
