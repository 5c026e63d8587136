"""Run a codelet once with values that record, and list its operations.

`compute()` is called with `Traced` values. Each `Traced` value has a *sample*: numpy's result for
one vertex. The sample determines shapes, dtypes and memory order by numpy's own rules. Every array
operation becomes an `Op`. The list of ops is the kernel: the engine replays it for all vertices
together, and the cost model counts its cycles.

Branches, loop counts and indices that depend on data cannot be recorded once for all vertices. The
trace then stops with the line and the reason, and the codelet's source is translated instead
(`scalar`).
"""

from __future__ import annotations

import operator
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from dis import get_instructions
from functools import lru_cache, partial
from types import CodeType
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike, DTypeLike

from ipu_teach.arguments import Function
from ipu_teach.compile.weak_scalars import Weak, are_promoted, fits
from ipu_teach.errors import CodeletError
from ipu_teach.graph.source import file_name
from ipu_teach.graph.vertex import Vertex
from ipu_teach.types import Array
from ipu_teach.types.regions import no_size, to_unsigned
from ipu_teach.types.rounding import AnyDType

Sample: TypeAlias = Array | np.generic
Value: TypeAlias = "Traced | ArrayLike"  # An argument of a traced function.
# The arguments of a numpy function, which may be anything that a codelet passes to numpy.
Arguments: TypeAlias = tuple[Any, ...]
Options: TypeAlias = dict[str, Any]
NO_VALUE: Any = vars(np)["_NoValue"]  # numpy uses this object for a missing argument.
# A position in the code: (file, line, (name of the code object, offset of the instruction)).
CodePosition = tuple[str, int, tuple[str, int]]
# The maximum number of ops, because compiling a longer trace would take more time than the vertex
# loop.
MAX_OPS = 20_000
TOO_LONG = f"compute() takes more than {MAX_OPS:,} steps for one vertex"

# Functions that never fail, and whose result has a shape that depends only on the arguments'
# shapes. The kernel calls these functions vertex by vertex, unless one call for all vertices gives
# the same bits.
STATIC_SHAPE = {
    np.argmax,
    np.argmin,
    np.argsort,
    np.convolve,
    np.correlate,
    np.cross,
    np.cumprod,
    np.cumsum,
    np.diff,
    np.einsum,
    np.interp,
    np.kron,
    np.linalg.norm,
    np.max,
    np.mean,
    np.median,
    np.min,
    np.outer,
    np.prod,
    np.ptp,
    np.roll,
    np.searchsorted,
    np.sort,
    np.std,
    np.sum,
    np.tensordot,
    np.tile,
    np.trace,
    np.tril,
    np.triu,
    np.var,
    np.any,
    np.all,
    np.inner,
    np.vdot,
    np.clip,
    np.round,
    np.nan_to_num,
    np.pad,
    np.percentile,
    np.quantile,
}
ELEMENTWISE = {np.where, np.clip}
LAPACK = vars(np.linalg)["_umath_linalg"]
# Maps functions of one matrix to the loops of numpy that apply them to a series of matrices.
DENSE = {
    np.linalg.inv: LAPACK.inv,
    np.linalg.solve: LAPACK.solve,
    np.linalg.det: LAPACK.det,
    np.linalg.cholesky: LAPACK.cholesky_lo,
    np.linalg.qr: LAPACK.qr_reduced,
}


def upper(a: Array) -> Any:
    """Return R, the second factor of np.linalg.qr."""
    return np.linalg.qr(a, mode="r")


REDUCTIONS = {
    np.sum: np.add,
    np.prod: np.multiply,
    np.max: np.maximum,
    np.min: np.minimum,
    np.any: np.logical_or,
    np.all: np.logical_and,
}
PRODUCTS = {np.matmul, np.vecdot, np.matvec, np.vecmat}
VIEWS = {
    np.reshape,
    np.transpose,
    np.ravel,
    np.expand_dims,
    np.squeeze,
    np.swapaxes,
    np.moveaxis,
    np.atleast_1d,
    np.broadcast_to,
}
# Methods of arrays that do the same as the numpy function of the same name.
METHODS = {
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "clip",
    "cumprod",
    "cumsum",
    "dot",
    "max",
    "mean",
    "min",
    "prod",
    "round",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "trace",
    "var",
}
ROUNDED = {
    np.add,
    np.subtract,
    np.multiply,
    np.divide,
    np.negative,
    np.positive,
    np.absolute,
    np.fabs,
    np.sqrt,
    np.square,
    np.reciprocal,
    np.floor,
    np.ceil,
    np.rint,
    np.trunc,
    np.sign,
    np.maximum,
    np.minimum,
    np.fmax,
    np.fmin,
    np.copysign,
    np.floor_divide,
    np.remainder,
    np.fmod,
}
_ROUNDED_ENOUGH = {np.exp, np.log, np.sin, np.cos, np.tanh}


def layout_independent(ufunc: Function, dtype: AnyDType) -> bool:
    """Return whether `ufunc` gives the same bits for every memory layout of its operands.

    `dtype` is the dtype of the result. For some float functions, numpy has two loops: a vector loop
    for some memory layouts, and a scalar loop for all others. The results of these loops can differ
    in the last bit. The result is False for every function that may have two such loops.
    """
    return (
        dtype.kind != "f" or ufunc in ROUNDED or (ufunc in _ROUNDED_ENOUGH and dtype == np.float32)
    )


item_of = operator.getitem


class TraceStopped(BaseException):
    """Raised when a codelet does something that cannot be traced, such as a branch on data.

    The class is not derived from Exception, so a codelet's own `except Exception` does not catch
    it.
    """

    raised = 0

    def __init__(self, reason: str) -> None:
        self.reason = reason
        TraceStopped.raised += 1
        super().__init__(reason)


@dataclass(frozen=True)
class Op:
    """One recorded operation of a codelet.

    `args` are the arguments, with a `Ref` for each traced one. `result` is the id of the value that
    the operation produces, or -1 for a store. `site` is the position of the operation in the
    learner's code. `kind` is one of these:

    * "region": the array of a field
    * "view": a view with the same index or shape in every vertex
    * "read": a copy of one element
    * "ufunc", "elementwise", "reduce", "product", "dense": a call of a numpy function
    * "each": a call of a function that is called for each vertex separately, unless one call for
      all vertices gives the same bits
    * "local": a new local array
    * "store": a write of args[1] into the view args[0]
    """

    kind: str
    fn: Any
    args: Arguments
    kwargs: Options
    result: int
    site: CodePosition


@dataclass
class Trace:
    """The operations that a codelet performs, recorded during one call of compute().

    A value is identified by its id, which is an index into `samples` and `roots`. A sample is
    numpy's result for one vertex. The root of a view is the id of the value that owns the memory of
    the view. Any other value is its own root. A region is the array of a field. `regions` maps the
    id of each region to (name of the field, index in the list). The index is 0 if the field is not
    a list.
    """

    codelet: type[Vertex]
    ops: list[Op] = field(default_factory=list)
    samples: list[Any] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    regions: dict[int, tuple[str, int]] = field(default_factory=dict)
    # For each view of an Output: which elements the codelet has written so far.
    written: dict[int, Array] = field(default_factory=dict)
    # The result of compute(): a traced value, or True or False if the result is the same for all
    # vertices. None counts as True.
    returned: Ref | bool = True
    # The plain arrays among the arguments, each with a copy that shows whether it was changed. The
    # kernel reads these arrays when it runs, so they must not change.
    fixed: list[tuple[Array, Array]] = field(default_factory=list)
    stopped: str = ""
    # The reason why the vertices run one by one, if compute() prints, or else "".
    prints: str = ""

    def line(self) -> str:
        """Return the line of compute() that is being executed, as text."""
        code = self.codelet.compute.__code__
        frame = sys._getframe(1)
        while frame.f_code is not code and frame.f_back is not None:
            frame = frame.f_back
        return place(self.codelet, frame.f_lineno)

    def add(
        self,
        kind: str,
        fn: Function | None,
        args: Arguments,
        kwargs: Options,
        sample: Sample,
        root: int = -1,
    ) -> Traced:
        """Record an operation, and return its result as a traced value.

        `sample` is the result for one vertex. If the result is a view of another value, `root` is
        the id of this value, otherwise -1.

        :raises TraceStopped: if there are already `MAX_OPS` operations.
        """
        if len(self.ops) >= MAX_OPS:
            raise TraceStopped(TOO_LONG)
        if kind == "each" and isinstance(sample, np.ndarray) and sample.base is not None:
            # np.copy gives the sample its own memory, with the same memory order.
            sample = np.copy(sample)
        value_id = len(self.samples)
        self.samples.append(sample)
        self.roots.append(value_id if root < 0 else root)
        self.ops.append(Op(kind, fn, args, kwargs, result=value_id, site=_site()))
        self.fixed += [
            (argument, argument.copy())
            for argument in args
            if kind != "local" and isinstance(argument, np.ndarray)
        ]
        return Traced(self, value_id)

    def store(self, target: Traced, value: Any) -> None:
        """Record a write of `value` into the view `target`."""
        narrowed = (
            isinstance(value, Traced)
            and not isinstance(value._sample, np.ndarray)
            and target.dtype.kind == "i"
        )
        # If a signed integer element cannot contain a scalar, numpy raises an error. Arrays and
        # unsigned integers wrap around.
        checked = (
            {"line": self.line()} if narrowed and not np.can_cast(value.dtype, target.dtype) else {}
        )
        self.ops.append(
            Op(
                "store",
                None,
                (Ref(target._id), operand(as_stored(value, target.dtype))),
                checked,
                result=-1,
                site=_site(),
            )
        )
        if isinstance(value, np.ndarray):
            self.fixed.append((value, value.copy()))
        if target._id in self.written:
            self.written[target._id][...] = True

    def check_fixed(self) -> None:
        """Stop the trace if the codelet changed a plain array after it had used the array."""
        if any(
            not np.array_equal(array, original, equal_nan=array.dtype.kind in "fc")
            for array, original in self.fixed
        ):
            raise TraceStopped("a plain numpy array is used and then changed")


def place(codelet: type[Vertex], line: int = 0) -> str:
    """Return a line of compute() as text, with the file or notebook cell, and the function.

    `line` is a line number in the file. 0 means the first line of compute().
    """
    compute = codelet.compute
    code = compute.__code__
    return (
        f"{file_name(code.co_filename)}, line {line or code.co_firstlineno} "
        f"({compute.__qualname__.split('.<locals>.')[-1]})"
    )


_AROUND = ("ipu_teach.compile.", "ipu_teach.graph.", "numpy.")


def _site() -> CodePosition:
    """Return the position in the codelet's code that called the current operation.

    The position is in the innermost caller that belongs neither to numpy nor to the kit's modules.
    """
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__", "").startswith(_AROUND) and frame.f_back is not None:
        frame = frame.f_back
    starts = _starts(frame.f_code)
    at = starts[bisect_right(starts, frame.f_lasti) - 1]
    return frame.f_code.co_filename, frame.f_lineno, (frame.f_code.co_name, at)


@lru_cache(maxsize=1024)
def _starts(code: CodeType) -> list[int]:
    """Return the byte offset of each instruction of `code`, in ascending order.

    A frame's offset may be inside the inline cache that follows an instruction, so callers round it
    down to one of these offsets.
    """
    return [instruction.offset for instruction in get_instructions(code)]


@dataclass(frozen=True)
class Ref:
    """A reference to a traced value, used in the arguments of an `Op`."""

    id: int


def _refuse_integer_power(base: Value, exponent: Value) -> None:
    """Stop the trace at a power of integers whose exponent depends on data."""
    if (
        isinstance(exponent, Traced)
        and exponent.dtype.kind in "iu"
        and np.result_type(sample_of(base)).kind in "biu"
    ):
        raise TraceStopped("an integer power has an exponent that depends on data")


def is_ref(value: Ref | Value, number: int) -> bool:
    """Return whether `value` is a `Ref` to the traced value whose id is `number`.

    The operator `==` would be wrong here, because `value` may be an array, and arrays are compared
    element by element.
    """
    return isinstance(value, Ref) and value.id == number


def operand(value: Any) -> Any:
    """Return `value` as an `Op` stores its arguments: a `Ref` if `value` is traced.

    :raises CodeletError: if `value` is an Output that the codelet has not completely written yet.
    :raises TraceStopped: if `value` is a Python number in some vertices only (see `weak_scalars`).
    """
    if not isinstance(value, Traced):
        return value
    if value._weak:
        raise TraceStopped("max() or min() is a Python number in some vertices only")
    written = value._trace.written.get(value._id)
    if written is not None and not written.all():
        trace = value._trace
        declared = trace.codelet.fields[trace.regions[trace.roots[value._id]][0]]
        raise CodeletError(f"""{trace.codelet.__name__}.compute() reads its Output {declared.name!r}
            before writing it.
            next:  an Output is only written. For +=, declare {declared.name}:
            {declared.declaration().replace("Output", "InOut", 1)}, or add up in a local
            variable.""")
    return Ref(value._id)


def weak_of(value: Any) -> Weak:
    """Return the Python numbers that `value` may be in some vertices (see `weak_scalars`).

    The result is () if `value` is not traced, or is a numpy number or array in every vertex.
    """
    numbers: Weak = getattr(value, "_weak", ())
    return numbers


def as_stored(value: Any, dtype: AnyDType) -> Any:
    """Return `value`, converted as numpy converts it for a store into an element of `dtype`.

    A plain number wraps around if `dtype` is unsigned. If a traced value is a Python number in some
    vertices (see `weak_scalars`), it is treated as a numpy number, unless this could change the
    stored bits.
    """
    if not isinstance(value, (Traced, list, tuple)) and np.dtype(dtype).kind == "u":
        return to_unsigned(value, dtype)
    if not weak_of(value) or not fits(value._weak, value.dtype, dtype):
        return value
    return Traced(value._trace, value._id)


def promote_weak(args: Arguments) -> Arguments:
    """Return the arguments of an operation, with weak numbers treated as numpy numbers if possible.

    A weak number is a traced value that is a Python number in some vertices (see `weak_scalars`).
    It is treated as a numpy number if all these conditions hold:

    * all weak numbers have the same dtype
    * another argument also has this dtype
    * every other numpy argument has this dtype or bool

    Otherwise, `args` is returned unchanged.
    """
    weak = [arg for arg in args if weak_of(arg)]
    others = [arg for arg in args if not weak_of(arg)]
    if len({arg.dtype for arg in weak}) != 1 or not are_promoted(weak[0].dtype, others):
        return args
    return tuple(Traced(a._trace, a._id) if weak_of(a) else a for a in args)


def sample_of(value: Any) -> Any:
    """Return the sample of a traced value, or any other value itself.

    The sample is numpy's result for one vertex.
    """
    return value._sample if isinstance(value, Traced) else value


def stop_unless_static(value: Any, subject: str) -> None:
    """Stop the trace if an index or a shape contains traced values.

    `subject` is what the reason calls the index or shape, such as "an index".
    """
    for index in value if isinstance(value, tuple) else (value,):
        bounds = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
        if any(isinstance(bound, Traced) for bound in bounds):
            raise TraceStopped(f"{subject} depends on data")


def _stopping(reason: str) -> Callable[..., NoReturn]:
    """Return a method that stops the trace with `reason`."""

    def stop(self: Traced, *args: Value, **kwargs: Value) -> NoReturn:
        raise TraceStopped(reason)

    return stop


class Traced(NDArrayOperatorsMixin):
    """An array or number in compute() that represents the values of all vertices.

    It behaves like the numpy array or number of a single vertex, and records every operation on it.
    """

    without_size = ""  # The name of a field with the layout ONE_PTR, or "".

    def __init__(self, trace: Trace, number: int, weak: Weak = ()) -> None:
        self._trace = trace
        self._id = number
        # The plain numbers that the value may be in some vertices (see `weak_scalars`).
        self._weak = weak

    @property
    def _sample(self) -> Any:
        return self._trace.samples[self._id]

    @property
    def _writable(self) -> bool:
        return isinstance(self._sample, np.ndarray) and self._sample.flags.writeable

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self._sample)

    @property
    def ndim(self) -> int:
        return np.ndim(self._sample)

    @property
    def size(self) -> int:
        return int(np.size(self._sample))

    @property
    def dtype(self) -> AnyDType:
        dtype: AnyDType = self._sample.dtype
        return dtype

    def __len__(self) -> int:
        if self.without_size:
            raise no_size(self.without_size)
        return len(self._sample)

    def __iter__(self) -> Iterator[Traced]:
        return (self[i] for i in range(len(self)))

    # Methods for indexing and views

    def __getitem__(self, key: Any) -> Traced:
        stop_unless_static(key, "an index")
        sample = self._sample[key]
        if not isinstance(self._sample, np.ndarray) and not isinstance(sample, np.ndarray):
            return self  # Indexing a number with () returns the number itself.
        if not isinstance(sample, np.ndarray):
            operand(self._place(key))
            return self._trace.add("read", item_of, (Ref(self._id), key), {}, sample=sample)
        if sample.size and not np.may_share_memory(sample, self._sample):
            return self._trace.add("each", item_of, (operand(self), key), {}, sample=sample)
        return self._view(item_of, key)

    def _place(self, key: Any) -> Traced:
        """Return a view of the elements that `key` selects.

        The view of a single element has the shape ().
        """
        keys = key if isinstance(key, tuple) else (key,)
        return self._view(item_of, keys if any(k is Ellipsis for k in keys) else (*keys, Ellipsis))

    def __setitem__(self, key: Any, value: Value) -> None:
        if (
            isinstance(key, Traced)
            and key.dtype == bool
            and key.shape == self.shape
            and self.ndim
            and self._writable
        ):
            self._set_where(key, value)
            return
        stop_unless_static(key, "an index")
        if not self._writable:
            raise ValueError("assignment destination is read-only")
        if isinstance(value, (list, tuple)):
            value = stack([as_stored(v, self.dtype) for v in value])
        elif not isinstance(value, Traced):
            value = as_stored(value, self.dtype)
        target = self._sample[key]
        if (
            isinstance(target, np.ndarray)
            and target.size
            and not np.may_share_memory(target, self._sample)
        ):
            raise TraceStopped("a list of indices selects the elements that are assigned")
        if isinstance(value, Traced) and _same_place(value._sample, target):
            return  # numpy has already stored the result of `x[a:b] += y` in this view.
        # Assign to an array of the same shape, so that numpy raises its usual errors. The value is
        # replaced by zeros if it is traced, because the values of a sample have no meaning.
        np.empty(np.shape(target), self.dtype)[...] = (
            np.zeros_like(value._sample) if isinstance(value, Traced) else value
        )
        self._trace.store(self._place(key), value)

    def _set_where(self, mask: Traced, value: Value) -> None:
        """Record an assignment with a mask, such as `x[x < 0] = 0`.

        The assignment is recorded as a store into all elements. Where the mask is True, it stores
        `value`, and elsewhere the present element.
        """
        written = self._trace.written.get(self._id)
        if np.ndim(sample_of(value)) or (written is not None and not written.all()):
            raise TraceStopped("a write to positions that depend on data")
        value = as_stored(value, self.dtype)
        if not isinstance(value, Traced):
            element = np.empty((), self.dtype)
            element[...] = value
            value = element[()]
        elif value.dtype != self.dtype:
            raise TraceStopped("an assignment with a mask stores a value of another type")
        self[...] = np.where(mask, value, self)

    def _view(self, fn: Function, *args: Value, **kwargs: Value) -> Traced:
        sample = fn(self._sample, *args, **kwargs)
        if sample.size and not np.may_share_memory(sample, self._sample):
            return self._trace.add("each", fn, (operand(self), *args), kwargs, sample=sample)
        view = self._trace.add(
            "view",
            fn,
            (Ref(self._id), *args),
            kwargs,
            sample=sample,
            root=self._trace.roots[self._id],
        )
        if self._id in self._trace.written:
            self._trace.written[view._id] = fn(self._trace.written[self._id], *args, **kwargs)
        return view

    @property
    def T(self) -> Traced:
        return self._view(np.transpose) if self.ndim > 1 else self

    def reshape(self, *shape: int | tuple[int, ...], **kwargs: str) -> Traced:
        stop_unless_static(shape, "a shape")
        return self._view(np.reshape, shape[0] if len(shape) == 1 else shape, **kwargs)

    def transpose(self, *axes: int | tuple[int, ...]) -> Traced:
        if not axes:
            return self._view(np.transpose)
        return self._view(np.transpose, axes[0] if len(axes) == 1 else axes)

    def ravel(self, order: str = "C") -> Traced:
        return self._view(np.ravel, order)

    def flatten(self, order: str = "C") -> Traced:
        return self._view(np.ravel, order).copy()

    def copy(self, order: str = "C") -> Traced:
        return self._trace.add(
            "elementwise", np.copy, (operand(self),), {}, sample=self._sample.copy(order)
        )

    def __copy__(self) -> Traced:
        return self.copy("K")

    def __deepcopy__(self, memo: object) -> Traced:
        return self.copy("K")

    def astype(self, dtype: DTypeLike, *args: Value, **kwargs: Value) -> Traced:
        if args or kwargs:
            raise TraceStopped(".astype() has other arguments than the type")
        sample = self._sample.astype(dtype)
        # For a value out of range, numpy's result depends on the position in the array.
        if sample.dtype.kind == "u" and self.dtype.kind == "f":
            return self._trace.add(
                "each", partial(np.asarray, dtype=dtype), (operand(self),), {}, sample=sample
            )
        return self._trace.add("elementwise", np.copy, (operand(self),), {}, sample=sample)

    # Methods that numpy calls for operators and functions

    # For `**` with numbers or small exponents, numpy has special code, which gives other bits than
    # np.power.
    def __pow__(self, other: Value) -> Traced:
        return self._power(self, other)

    def __rpow__(self, other: Value) -> Traced:
        return self._power(other, self)

    def __ipow__(self, other: Value) -> Traced:
        value = self._power(self, other)
        if not isinstance(self._sample, np.ndarray):
            return value
        self[...] = value
        return self

    def _power(self, base: Value, exponent: Value) -> Traced:
        _refuse_integer_power(base, exponent)
        sample = sample_of(base) ** sample_of(exponent)
        kind = "each" if np.ndim(sample) == 0 else "elementwise"
        return self._trace.add(
            kind,
            operator.pow,
            tuple(map(operand, promote_weak((base, exponent)))),
            {},
            sample=sample,
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", (None,))[0]
        if (
            ufunc is np.multiply
            and any(isinstance(input_value, list) for input_value in inputs)
            and not self.shape
            and self.dtype.kind in "iu"
        ):
            raise TraceStopped("the length of a list depends on data")
        inputs = tuple(
            stack(input_value) if isinstance(input_value, (list, tuple)) else input_value
            for input_value in inputs
        )
        if method == "reduce":
            return self._reduce(ufunc, inputs[0], **kwargs)
        if method not in ("__call__", "accumulate", "outer") or ufunc.nout != 1:
            raise TraceStopped(f"np.{ufunc.__name__}.{method} cannot be traced")
        kind = "product" if ufunc in PRODUCTS else "ufunc"
        if method != "__call__":
            kind = "each"
        if any(isinstance(option, Traced) for option in kwargs.values()) or (
            kind == "ufunc" and set(kwargs) - {"dtype"}
        ):
            raise TraceStopped(
                f"np.{ufunc.__name__} with the argument {', '.join(kwargs)} cannot be traced"
            )
        call = getattr(ufunc, method)
        if ufunc is np.power:
            _refuse_integer_power(*inputs)
        sample = call(*[sample_of(input_value) for input_value in inputs], **kwargs)
        args = tuple(map(operand, promote_weak(inputs)))
        trace = self._trace
        if isinstance(out, np.ndarray):
            raise TraceStopped("an array made outside compute() is changed in place")
        if out is None or not isinstance(out._sample, np.ndarray):
            return trace.add(kind, call if kind == "each" else ufunc, args, kwargs, sample=sample)
        if not out._writable:
            raise ValueError("output array is read-only")
        if np.shape(sample) != out.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {out.shape} for result shape "
                f"{np.shape(sample)}"
            )
        if not np.can_cast(np.asarray(sample).dtype, out.dtype, "same_kind"):
            raise TypeError(
                f"cannot cast the result of {ufunc.__name__} from {sample.dtype} to {out.dtype} in "
                "place"
            )
        if (
            kind == "ufunc"
            and not out._sample.flags.c_contiguous
            and not layout_independent(ufunc, out.dtype)
        ):
            raise TraceStopped(f"np.{ufunc.__name__} stores its result in a strided array")
        value = trace.add(kind, call if kind == "each" else ufunc, args, kwargs, sample=sample)
        trace.store(out, value)
        return out

    def _reduce(
        self,
        ufunc: np.ufunc,
        array: Traced,
        axis: int | tuple[int, ...] | None = 0,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        **rest: Value,
    ) -> Traced:
        if any(v is not NO_VALUE for v in rest.values()):
            raise TraceStopped(
                f"np.{ufunc.__name__}.reduce with {', '.join(rest)} cannot be traced"
            )
        sample = ufunc.reduce(sample_of(array), axis=axis, dtype=dtype, keepdims=keepdims)
        # For a reduction that converts the dtype, numpy divides the array among several buffers. So
        # only a separate call for each vertex gives the same bits.
        converts = np.asarray(sample).dtype != array.dtype and array.dtype.kind == "f"
        if array.ndim == 0 or converts:
            fixed = {"axis": axis, "dtype": dtype, "keepdims": keepdims}
            return self._trace.add("each", ufunc.reduce, (operand(array),), fixed, sample=sample)
        return self._trace.add(
            "reduce", ufunc, (operand(array),), {"axis": axis, "keepdims": keepdims}, sample=sample
        )

    def __array_function__(
        self, fn: Function, types: Iterable[type], args: Arguments, kwargs: Options
    ) -> Any:
        trace = self._trace
        if fn in VIEWS:
            if isinstance(args[0], Traced):
                return args[0]._view(fn, *args[1:], **kwargs)
            return _refuse(fn)
        if fn in REDUCTIONS and isinstance(args[0], Traced):
            options = {
                option: option_value
                for option, option_value in kwargs.items()
                if option_value is not NO_VALUE and option_value is not None or option == "axis"
            }
            axis = options.pop("axis", args[1] if len(args) > 1 else None)
            if len(args) <= 2 and set(options) <= {"dtype", "keepdims"}:
                return self._reduce(REDUCTIONS[fn], args[0], axis=axis, **options)
        if fn is np.dot and len(args) == 2 and not kwargs:
            return _dot(trace, *args)
        if fn in (np.stack, np.concatenate, np.vstack, np.hstack) and set(kwargs) <= {"axis"}:
            return _join(trace, fn, args, kwargs)
        if fn in (np.zeros_like, np.ones_like, np.empty_like, np.full_like):
            sample = fn(sample_of(args[0]), *args[1:], **kwargs)
            return local(trace, sample)
        if fn is np.copy:
            return (
                args[0].copy(*args[1:], **kwargs) if len(args) > 1 or kwargs else args[0].copy("K")
            )
        if fn in DENSE and not kwargs:
            return _dense(trace, fn, args)
        # With one of these modes, np.take accepts all indices.
        is_bounded = fn is np.take and kwargs.get("mode") in ("clip", "wrap")
        if fn not in STATIC_SHAPE | ELEMENTWISE and not is_bounded:
            return _refuse(fn)
        sample = fn(
            *[sample_of(argument) for argument in args],
            **{option: sample_of(option_value) for option, option_value in kwargs.items()},
        )
        nested = any(
            isinstance(argument, (list, tuple))
            and any(isinstance(nested_value, Traced) for nested_value in argument)
            for argument in args
        )
        simple = not nested and not any(
            isinstance(option_value, Traced) for option_value in kwargs.values()
        )
        if not simple or isinstance(sample, tuple) or (fn is np.where and len(args) != 3):
            return _refuse(fn)
        if fn in ELEMENTWISE and len(args) == 3 and not kwargs:
            return trace.add(
                "elementwise", fn, tuple(map(operand, promote_weak(args))), kwargs, sample=sample
            )
        if isinstance(sample, np.ndarray) and any(
            np.may_share_memory(sample, sample_of(argument)) for argument in args
        ):
            raise TraceStopped(f"np.{fn.__name__} returns a view of its argument")
        return trace.add(
            "each", fn, tuple(operand(argument) for argument in args), kwargs, sample=sample
        )

    # Conversions stop the trace, because they would need the value of each vertex.

    def __bool__(self) -> bool:
        bool(self._sample)  # For an array of several elements, numpy raises its own error.
        raise TraceStopped("a branch or a loop condition depends on data")

    __int__ = _stopping("int() of a value that depends on data")
    __float__ = _stopping("float() of a value that depends on data")
    __index__ = _stopping("a count or an index depends on data")
    __round__ = _stopping("round() of a value that depends on data")
    __array__ = _stopping("a value is put into a plain numpy array")
    __format__ = __repr__ = __str__ = _stopping("a value that depends on data is put into a text")
    __hash__ = _stopping("a value that depends on data is looked up")

    def __getattr__(self, name: str) -> Function:
        if name in METHODS:
            return partial(getattr(np, name), self)
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(
                f"'{type(self._sample).__name__}' object has no attribute {name!r}"
            )
        raise TraceStopped(f"the array method .{name}() cannot be traced")


def _same_place(a: Sample, b: Sample) -> bool:
    """Return whether two samples are views of the same elements in the same memory."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return False
    return (
        a.shape == b.shape
        and a.strides == b.strides
        and a.__array_interface__["data"] == b.__array_interface__["data"]
    )


def _refuse(fn: Function) -> NoReturn:
    """Stop the trace at a call of a function that cannot be traced."""
    raise TraceStopped(f"np.{getattr(fn, '__name__', fn)} cannot be traced")


def _dot(trace: Trace, a: Value, b: Value) -> Any:
    """Record np.dot of two values.

    If a value has no axes, np.multiply is recorded. If numpy computes np.dot and `@` in the same
    way, `@` is recorded. Otherwise, np.dot is recorded.
    """
    samples = [np.asarray(sample_of(sample_value)) for sample_value in (a, b)]
    if any(sample_value.ndim == 0 for sample_value in samples):
        return np.multiply(a, b)
    if all(
        (sample_value.flags.c_contiguous or sample_value.flags.f_contiguous)
        and min(sample_value.shape) > 1
        and sample_value.ndim <= 2
        for sample_value in samples
    ):
        return np.matmul(a, b)
    return trace.add("product", np.dot, (operand(a), operand(b)), {}, sample=np.dot(*samples))


def _dense(trace: Trace, fn: Function, args: Arguments) -> Any:
    """Record a call of a function of np.linalg, such as np.linalg.inv.

    The sample of the result is computed from the identity matrix, because the function could refuse
    the sample of the argument, whose values have no meaning.
    """
    matrix, *other_operands = [np.asarray(sample_of(argument)) for argument in args]
    if matrix.ndim != 2:
        _refuse(fn)
    result = fn(np.eye(*matrix.shape, dtype=matrix.dtype), *other_operands)
    line_option = {"line": trace.line()}
    if fn is not np.linalg.qr:
        return trace.add("dense", fn, tuple(map(operand, args)), line_option, sample=result)
    q = trace.add("dense", fn, (operand(args[0]),), line_option, sample=result[0])
    return type(result)(
        q, trace.add("dense", upper, (operand(args[0]),), line_option, sample=result[1])
    )


def local(trace: Trace, sample: Array) -> Traced:
    """Record a new local array that has the values of `sample`, and return it as a traced value."""
    return trace.add("local", None, (sample.copy(),), {}, sample=sample)


def stack(values: list[Value] | tuple[Value, ...]) -> Any:
    """Return the values stacked along a new first axis; the result is traced if a value is."""
    first = next((v for v in values if isinstance(v, Traced)), None)
    if first is None:
        return np.array(values)
    return _join(first._trace, np.stack, (values,), {})


def _join(trace: Trace, fn: Function, args: Arguments, kwargs: Options) -> Traced:
    """Record np.stack, np.concatenate, np.vstack or np.hstack as stores into a local array."""
    values = list(args[0])
    for value in values:
        operand(value)
    # full_like keeps the memory order of the axes, on which the order of numpy's sums depends.
    samples = [np.asarray(sample_of(sample)) for sample in values]
    owner = fn(
        [
            np.full_like(sample, value_number, dtype=np.int64)
            for value_number, sample in enumerate(samples)
        ],
        *args[1:],
        **kwargs,
    )
    position_in_value = fn(
        [np.arange(sample.size).reshape(sample.shape) for sample in samples], *args[1:], **kwargs
    )
    result = local(trace, np.zeros_like(owner, dtype=np.result_type(*samples)))
    for value_number, value in enumerate(values):
        positions = np.argwhere(owner == value_number)
        if not len(positions):
            continue
        box_start = positions.min(0)
        box_stop = positions.max(0) + 1
        box = tuple(
            slice(axis_start, axis_stop)
            for axis_start, axis_stop in zip(box_start.tolist(), box_stop.tolist(), strict=True)
        )
        assert np.array_equal(position_in_value[box].reshape(-1), np.arange(len(positions)))
        stored_value = (
            value.reshape(position_in_value[box].shape)
            if isinstance(value, Traced) and value.ndim
            else value
        )
        result[box] = stored_value
    return result
