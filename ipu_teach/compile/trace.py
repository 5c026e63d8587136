"""Run a codelet once on stand-ins that write down what it does.

`compute()` is called on `Traced` values. Each carries a *sample*: what numpy gives for one vertex,
which fixes shapes, dtypes and memory order by numpy's own rules. Every array operation becomes an
`Op`; the list of them is the kernel that the engine replays for all vertices at once, and the tally
from which the cost model counts cycles.

What depends on data cannot be written down once for all vertices: a branch, a loop count, an index.
There the trace stops with the line and the reason, and the codelet's text is looked at instead
(`scalar`).
"""

from __future__ import annotations

import operator
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from dis import get_instructions
from functools import lru_cache, partial
from types import CodeType
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ipu_teach.compile.weak_scalars import Weak, fits, meets
from ipu_teach.errors import CodeletError
from ipu_teach.graph.source import file_name
from ipu_teach.graph.vertex import Vertex
from ipu_teach.types import Array
from ipu_teach.types.regions import no_size, to_unsigned

NO_VALUE: Any = vars(np)["_NoValue"]  # what numpy hands on for an argument that was not given
# file, line, and instruction: in which code, and where there
CodePosition = tuple[str, int, tuple[str, int]]
MAX_OPS = 20_000  # a longer trace costs more to compile than the vertex loop costs to run
TOO_LONG = f"compute() takes more than {MAX_OPS:,} steps for one vertex"

# Functions that never fail and whose result has a shape that depends on shapes alone; they run
# vertex by vertex inside the kernel.
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
# Functions of one matrix, and numpy's own loops for many of them, which take each by itself.
DENSE = {
    np.linalg.inv: LAPACK.inv,
    np.linalg.solve: LAPACK.solve,
    np.linalg.det: LAPACK.det,
    np.linalg.cholesky: LAPACK.cholesky_lo,
    np.linalg.qr: LAPACK.qr_reduced,
}


def upper(a: Any) -> Any:
    """The second of np.linalg.qr's factors."""
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
# Methods of arrays that are numpy's functions of that name.
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


def layout_independent(ufunc: Any, dtype: Any) -> bool:
    """True if a result's bits depend on its operands' values alone.

    Other functions have a vector form for operands that ascend and do not interleave with the
    result, and a scalar form for the rest, and the two differ in the last bit.
    """
    return (
        dtype.kind != "f" or ufunc in ROUNDED or (ufunc in _ROUNDED_ENOUGH and dtype == np.float32)
    )


item_of = operator.getitem


class TraceStopped(BaseException):
    """The codelet did something that depends on data. No Exception, so that a codelet's own
    `except` does not catch it."""

    raised = 0

    def __init__(self, reason: str) -> None:
        self.reason = reason
        TraceStopped.raised += 1
        super().__init__(reason)


@dataclass(frozen=True)
class Op:
    """One recorded step. `result` is the id of the value it makes, or -1.

    kind: "region" a field; "view" a static view; "read" a copy of one element; "ufunc",
    "elementwise", "reduce", "product", "dense", "each" computations; "local" a new local array;
    "store" a write of args[1] into args[0]. `site`: where in the learner's code.
    """

    kind: str
    fn: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: int
    site: CodePosition


@dataclass
class Trace:
    """A codelet written down: its ops, the sample of every value, and which value is a view of
    which."""

    codelet: type[Vertex]
    ops: list[Op] = field(default_factory=list)
    samples: list[Any] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    regions: dict[int, tuple[str, int]] = field(default_factory=dict)
    # For every view of an Output, which of its elements the codelet has written so far.
    written: dict[int, Array] = field(default_factory=dict)
    # What compute() returned: a value of every vertex, or true or false for all; nothing counts as
    # true.
    returned: Ref | bool = True
    # Plain arrays among the arguments, and what was in them: the kernel reads them when it runs.
    fixed: list[tuple[Array, Array]] = field(default_factory=list)
    stopped: str = ""
    # Set if compute() prints: every vertex is to print its own numbers, one after the other.
    prints: str = ""

    def line(self) -> str:
        """Where in compute() the trace is now."""
        code, frame = self.codelet.compute.__code__, sys._getframe(1)
        while frame.f_code is not code and frame.f_back is not None:
            frame = frame.f_back
        return place(self.codelet, frame.f_lineno)

    def add(
        self,
        kind: str,
        fn: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        sample: Any,
        root: int = -1,
    ) -> Traced:
        """Record an op whose result is `sample`, a view of `root` if that is given."""
        if len(self.ops) >= MAX_OPS:
            raise TraceStopped(TOO_LONG)
        if kind == "each" and isinstance(sample, np.ndarray) and sample.base is not None:
            sample = np.copy(sample)  # in the same order in memory, but a view of nothing
        number = len(self.samples)
        self.samples.append(sample)
        self.roots.append(number if root < 0 else root)
        self.ops.append(Op(kind, fn, args, kwargs, number, _site()))
        self.fixed += [(a, a.copy()) for a in args if kind != "local" and isinstance(a, np.ndarray)]
        return Traced(self, number)

    def store(self, target: Traced, value: Any) -> None:
        """Record a write of `value` into the view `target`."""
        narrowed = (
            isinstance(value, Traced)
            and not isinstance(value._sample, np.ndarray)
            and target.dtype.kind == "i"
        )
        # numpy refuses a single number that a place for signed integers cannot hold; arrays and
        # unsigned ones wrap.
        checked = (
            {"line": self.line()} if narrowed and not np.can_cast(value.dtype, target.dtype) else {}
        )
        self.ops.append(
            Op(
                "store",
                None,
                (Ref(target._id), operand(settled(value, target.dtype))),
                checked,
                -1,
                _site(),
            )
        )
        if isinstance(value, np.ndarray):
            self.fixed.append((value, value.copy()))
        if target._id in self.written:
            self.written[target._id][...] = True

    def check_fixed(self) -> None:
        """Stop if the codelet changed a plain array after it was used."""
        if any(
            not np.array_equal(now, then, equal_nan=now.dtype.kind in "fc")
            for now, then in self.fixed
        ):
            raise TraceStopped("an array of fixed numbers is used and then changed")


def place(codelet: type[Vertex], line: int = 0) -> str:
    """A line of compute() as a person names it, its first if none is given: the last part of the
    file, or the cell."""
    compute = codelet.compute
    code = compute.__code__
    return (
        f"{file_name(code.co_filename)}, line {line or code.co_firstlineno} "
        f"({compute.__qualname__.split('.<locals>.')[-1]})"
    )


_AROUND = ("ipu_teach.compile.", "ipu_teach.graph.", "numpy.")


def _site() -> CodePosition:
    """Where the nearest code is that is the codelet's."""
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__", "").startswith(_AROUND) and frame.f_back is not None:
        frame = frame.f_back
    starts = _starts(frame.f_code)
    at = starts[bisect_right(starts, frame.f_lasti) - 1]
    return frame.f_code.co_filename, frame.f_lineno, (frame.f_code.co_name, at)


@lru_cache(maxsize=1024)
def _starts(code: CodeType) -> list[int]:
    """Where each instruction begins. What follows it is room for what the interpreter learns of it
    while it runs: once it has specialised an instruction, a frame may stand there."""
    return [one.offset for one in get_instructions(code)]


@dataclass(frozen=True)
class Ref:
    """A traced value inside an Op's arguments."""

    id: int


def _refuse_integer_power(base: Any, exponent: Any) -> None:
    if (
        isinstance(exponent, Traced)
        and exponent.dtype.kind in "iu"
        and np.result_type(sample_of(base)).kind in "biu"
    ):
        raise TraceStopped("an integer power, which fails for a negative exponent,")


def is_ref(value: Any, number: int) -> bool:
    """True for the traced value of that number; an array among an Op's arguments compares element
    by element."""
    return isinstance(value, Ref) and value.id == number


def operand(value: Any) -> Any:
    """`value` as an op's argument. What reads an Output must have written it before."""
    if not isinstance(value, Traced):
        return value
    if value._weak:
        raise TraceStopped("a choice of max() or min() between Python's numbers and numpy's")
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
    """The plain numbers that `value` may be; none if it is numpy's in every vertex."""
    found: Weak = getattr(value, "_weak", ())
    return found


def settled(value: Any, dtype: Any) -> Any:
    """`value` where it is put into an element of type `dtype`."""
    if not isinstance(value, (Traced, list, tuple)) and np.dtype(dtype).kind == "u":
        return to_unsigned(value, dtype)
    if not weak_of(value) or not fits(value._weak, value.dtype, dtype):
        return value
    return Traced(value._trace, value._id)


def met(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an operation, as numpy's numbers where they meet one of their type."""
    picked = [arg for arg in args if weak_of(arg)]
    if len({arg.dtype for arg in picked}) != 1 or not meets(
        picked[0].dtype, [arg for arg in args if not weak_of(arg)]
    ):
        return args
    return tuple(Traced(a._trace, a._id) if weak_of(a) else a for a in args)


def sample_of(value: Any) -> Any:
    return value._sample if isinstance(value, Traced) else value


def stop_unless_static(value: Any, what: str) -> None:
    for part in value if isinstance(value, tuple) else (value,):
        ends = (part.start, part.stop, part.step) if isinstance(part, slice) else (part,)
        if any(isinstance(end, Traced) for end in ends):
            raise TraceStopped(f"{what} depends on data")


def _stopping(reason: str) -> Callable[..., Any]:
    """A method that stops the trace."""

    def stop(self: Traced, *args: Any, **kwargs: Any) -> NoReturn:
        raise TraceStopped(reason)

    return stop


class Traced(NDArrayOperatorsMixin):
    """Stands for one value of every vertex. Behaves like the numpy array or number that one vertex
    would see."""

    without_size = ""  # the field's name, if it is laid out as ONE_PTR

    def __init__(self, trace: Trace, number: int, weak: Weak = ()) -> None:
        self._trace = trace
        self._id = number
        self._weak = weak  # the plain numbers that it may be in some vertices, see `weak_scalars`

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
    def dtype(self) -> Any:
        return self._sample.dtype

    def __len__(self) -> int:
        if self.without_size:
            raise no_size(self.without_size)
        return len(self._sample)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    # Indexing and views

    def __getitem__(self, key: Any) -> Any:
        stop_unless_static(key, "an index")
        sample = self._sample[key]
        if not isinstance(self._sample, np.ndarray) and not isinstance(sample, np.ndarray):
            return self  # number[()]
        if not isinstance(sample, np.ndarray):
            operand(self._place(key))
            return self._trace.add("read", item_of, (Ref(self._id), key), {}, sample)
        if sample.size and not np.may_share_memory(sample, self._sample):
            return self._trace.add("each", item_of, (operand(self), key), {}, sample)
        return self._view(item_of, key)

    def _place(self, key: Any) -> Traced:
        """What `key` selects, as a view to write to, also if it is a single element."""
        keys = key if isinstance(key, tuple) else (key,)
        return self._view(item_of, keys if any(k is Ellipsis for k in keys) else (*keys, Ellipsis))

    def __setitem__(self, key: Any, value: Any) -> None:
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
            value = stacked([settled(v, self.dtype) for v in value])
        elif not isinstance(value, Traced):
            value = settled(value, self.dtype)
        target = self._sample[key]
        if (
            isinstance(target, np.ndarray)
            and target.size
            and not np.may_share_memory(target, self._sample)
        ):
            raise TraceStopped("a write to a list of places")
        if isinstance(value, Traced) and _same_place(value._sample, target):
            return  # the second half of `x[a:b] += y`
        # numpy raises here what it would raise there; zeros, because what a sample holds means
        # nothing.
        np.empty(np.shape(target), self.dtype)[...] = (
            np.zeros_like(value._sample) if isinstance(value, Traced) else value
        )
        self._trace.store(self._place(key), value)

    def _set_where(self, mask: Traced, value: Any) -> None:
        """`x[x < 0] = 0`: a single number where a mask is true, which is a choice between it and
        what is there."""
        written = self._trace.written.get(self._id)
        if np.ndim(sample_of(value)) or (written is not None and not written.all()):
            raise TraceStopped("a write to places that depend on data")
        value = settled(value, self.dtype)
        if not isinstance(value, Traced):
            place = np.empty((), self.dtype)
            place[...] = value
            value = place[()]
        elif value.dtype != self.dtype:
            raise TraceStopped("a write of another type to places that depend on data")
        self[...] = np.where(mask, value, self)

    def _view(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Traced:
        sample = fn(self._sample, *args, **kwargs)
        if sample.size and not np.may_share_memory(sample, self._sample):
            return self._trace.add("each", fn, (operand(self), *args), kwargs, sample)
        view = self._trace.add(
            "view", fn, (Ref(self._id), *args), kwargs, sample, self._trace.roots[self._id]
        )
        if self._id in self._trace.written:
            self._trace.written[view._id] = fn(self._trace.written[self._id], *args, **kwargs)
        return view

    @property
    def T(self) -> Any:
        return self._view(np.transpose) if self.ndim > 1 else self

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        stop_unless_static(shape, "a shape")
        return self._view(np.reshape, shape[0] if len(shape) == 1 else shape, **kwargs)

    def transpose(self, *axes: Any) -> Any:
        return self._view(np.transpose, *([axes[0] if len(axes) == 1 else axes] if axes else []))

    def ravel(self, order: str = "C") -> Any:
        return self._view(np.ravel, order)

    def flatten(self, order: str = "C") -> Any:
        return self._view(np.ravel, order).copy()

    def copy(self, order: str = "C") -> Any:
        return self._trace.add(
            "elementwise", np.copy, (operand(self),), {}, self._sample.copy(order)
        )

    def __copy__(self) -> Any:
        return self.copy("K")

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy("K")

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            raise TraceStopped(".astype() with more than a type is not traced")
        sample = self._sample.astype(dtype)
        # what does not fit depends on where in its array it lies
        if sample.dtype.kind == "u" and self.dtype.kind == "f":
            return self._trace.add(
                "each", partial(np.asarray, dtype=dtype), (operand(self),), {}, sample
            )
        return self._trace.add("elementwise", np.copy, (operand(self),), {}, sample)

    # numpy's protocols

    # `**` has paths of its own, for numbers and for small exponents, whose bits differ from
    # np.power's.
    def __pow__(self, other: Any) -> Any:
        return self._power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._power(other, self)

    def __ipow__(self, other: Any) -> Any:
        value = self._power(self, other)
        if not isinstance(self._sample, np.ndarray):
            return value
        self[...] = value
        return self

    def _power(self, base: Any, exponent: Any) -> Any:
        _refuse_integer_power(base, exponent)
        sample = sample_of(base) ** sample_of(exponent)
        kind = "each" if np.ndim(sample) == 0 else "elementwise"
        return self._trace.add(
            kind, operator.pow, tuple(map(operand, met((base, exponent)))), {}, sample
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", (None,))[0]
        if (
            ufunc is np.multiply
            and any(isinstance(i, list) for i in inputs)
            and not self.shape
            and self.dtype.kind in "iu"
        ):
            raise TraceStopped("the length of a list depends on data")
        inputs = tuple(stacked(i) if isinstance(i, (list, tuple)) else i for i in inputs)
        if method == "reduce":
            return self._reduce(ufunc, inputs[0], **kwargs)
        if method not in ("__call__", "accumulate", "outer") or ufunc.nout != 1:
            raise TraceStopped(f"np.{ufunc.__name__}.{method} is not traced")
        kind = "each" if method != "__call__" else "product" if ufunc in PRODUCTS else "ufunc"
        if any(isinstance(v, Traced) for v in kwargs.values()) or (
            kind == "ufunc" and set(kwargs) - {"dtype"}
        ):
            raise TraceStopped(f"np.{ufunc.__name__} with {', '.join(kwargs)} is not traced")
        call = getattr(ufunc, method)
        if ufunc is np.power:
            _refuse_integer_power(*inputs)
        sample = call(*[sample_of(i) for i in inputs], **kwargs)
        args = tuple(map(operand, met(inputs)))
        trace = self._trace
        if isinstance(out, np.ndarray):
            raise TraceStopped("an array made outside compute() is changed in place")
        if out is None or not isinstance(out._sample, np.ndarray):
            return trace.add(kind, call if kind == "each" else ufunc, args, kwargs, sample)
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
            raise TraceStopped(f"np.{ufunc.__name__} into a strided array")
        value = trace.add(kind, call if kind == "each" else ufunc, args, kwargs, sample)
        trace.store(out, value)
        return out

    def _reduce(
        self,
        ufunc: np.ufunc,
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        keepdims: bool = False,
        **rest: Any,
    ) -> Any:
        if any(v is not NO_VALUE for v in rest.values()):
            raise TraceStopped(f"np.{ufunc.__name__}.reduce with {', '.join(rest)} is not traced")
        sample = ufunc.reduce(sample_of(array), axis=axis, dtype=dtype, keepdims=keepdims)
        # A reduction that converts on the way is buffered by numpy in pieces: only the vertex's own
        # call gives its bits.
        converts = np.asarray(sample).dtype != array.dtype and array.dtype.kind == "f"
        if array.ndim == 0 or converts:
            fixed = {"axis": axis, "dtype": dtype, "keepdims": keepdims}
            return self._trace.add("each", ufunc.reduce, (operand(array),), fixed, sample)
        return self._trace.add(
            "reduce", ufunc, (operand(array),), {"axis": axis, "keepdims": keepdims}, sample
        )

    def __array_function__(self, fn: Any, types: Any, args: Any, kwargs: Any) -> Any:
        trace = self._trace
        if fn in VIEWS:
            if isinstance(args[0], Traced):
                return args[0]._view(fn, *args[1:], **kwargs)
            return _refuse(fn)
        if fn in REDUCTIONS and isinstance(args[0], Traced):
            given = {
                k: v
                for k, v in kwargs.items()
                if v is not NO_VALUE and v is not None or k == "axis"
            }
            axis = given.pop("axis", args[1] if len(args) > 1 else None)
            if len(args) <= 2 and set(given) <= {"dtype", "keepdims"}:
                return self._reduce(REDUCTIONS[fn], args[0], axis=axis, **given)
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
        # with which no index is out of range
        taken = fn is np.take and kwargs.get("mode") in ("clip", "wrap")
        if fn not in STATIC_SHAPE | ELEMENTWISE and not taken:
            return _refuse(fn)
        sample = fn(*[sample_of(a) for a in args], **{k: sample_of(v) for k, v in kwargs.items()})
        nested = any(
            isinstance(a, (list, tuple)) and any(isinstance(x, Traced) for x in a) for a in args
        )
        simple = not nested and not any(isinstance(v, Traced) for v in kwargs.values())
        if not simple or isinstance(sample, tuple) or (fn is np.where and len(args) != 3):
            return _refuse(fn)
        if fn in ELEMENTWISE and len(args) == 3 and not kwargs:
            return trace.add("elementwise", fn, tuple(map(operand, met(args))), kwargs, sample)
        if isinstance(sample, np.ndarray) and any(
            np.may_share_memory(sample, sample_of(a)) for a in args
        ):
            raise TraceStopped(f"np.{fn.__name__} gives a view")
        return trace.add("each", fn, tuple(operand(a) for a in args), kwargs, sample)

    # What would need a value

    def __bool__(self) -> bool:
        bool(self._sample)  # numpy raises here what it would raise there
        raise TraceStopped("a branch or a loop condition depends on data")

    __int__ = _stopping("int() of a value that depends on data")
    __float__ = _stopping("float() of a value that depends on data")
    __index__ = _stopping("a count or an index depends on data")
    __round__ = _stopping("round() of a value that depends on data")
    __array__ = _stopping("a value is put into a plain numpy array")
    __format__ = __repr__ = __str__ = _stopping("a value that depends on data is put into a text")
    __hash__ = _stopping("a value that depends on data is looked up")

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return partial(getattr(np, name), self)
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(
                f"'{type(self._sample).__name__}' object has no attribute {name!r}"
            )
        raise TraceStopped(f"the method .{name} is not traced")


def _same_place(a: Any, b: Any) -> bool:
    """True if two samples are the very same view of the same memory."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return False
    return (
        a.shape == b.shape
        and a.strides == b.strides
        and a.__array_interface__["data"] == b.__array_interface__["data"]
    )


def _refuse(fn: Any) -> Any:
    raise TraceStopped(f"np.{getattr(fn, '__name__', fn)} is not traced")


def _dot(trace: Trace, a: Any, b: Any) -> Any:
    """np.dot: as `@` where numpy does the same for both, and else by itself."""
    samples = [np.asarray(sample_of(v)) for v in (a, b)]
    if any(v.ndim == 0 for v in samples):
        return np.multiply(a, b)
    if all(
        (v.flags.c_contiguous or v.flags.f_contiguous) and min(v.shape) > 1 and v.ndim <= 2
        for v in samples
    ):
        return np.matmul(a, b)
    return trace.add("product", np.dot, (operand(a), operand(b)), {}, np.dot(*samples))


def _dense(trace: Trace, fn: Any, args: tuple[Any, ...]) -> Any:
    """A function of a matrix: of its sample, which says nothing of the numbers in it, as of one
    that no such function refuses."""
    matrix, *rest = [np.asarray(sample_of(a)) for a in args]
    if matrix.ndim != 2:
        _refuse(fn)
    found, line = fn(np.eye(*matrix.shape, dtype=matrix.dtype), *rest), {"line": trace.line()}
    if fn is not np.linalg.qr:
        return trace.add("dense", fn, tuple(map(operand, args)), line, found)
    q = trace.add("dense", fn, (operand(args[0]),), line, found[0])
    return type(found)(q, trace.add("dense", upper, (operand(args[0]),), line, found[1]))


def local(trace: Trace, sample: Array) -> Traced:
    """A new array of the vertex's own, filled with what `sample` holds."""
    return trace.add("local", None, (sample.copy(),), {}, sample)


def stacked(values: list[Any] | tuple[Any, ...]) -> Any:
    """A list of values, some of them perhaps traced, as one array."""
    first = next((v for v in values if isinstance(v, Traced)), None)
    if first is None:
        return np.array(values)
    return _join(first._trace, np.stack, (values,), {})


def _join(trace: Trace, fn: Any, args: Any, kwargs: Any) -> Traced:
    """np.stack and its kin: a local array, filled part by part."""
    values = list(args[0])
    for value in values:
        operand(value)
    # full_like and zeros_like keep the order of the axes in memory, by which numpy sums.
    samples = [np.asarray(sample_of(v)) for v in values]
    owner = fn(
        [np.full_like(v, i, dtype=np.int64) for i, v in enumerate(samples)], *args[1:], **kwargs
    )
    within = fn([np.arange(v.size).reshape(v.shape) for v in samples], *args[1:], **kwargs)
    result = local(trace, np.zeros_like(owner, dtype=np.result_type(*samples)))
    for i, value in enumerate(values):
        places = np.argwhere(owner == i)
        if not len(places):
            continue
        low, high = places.min(0), places.max(0) + 1
        box = tuple(slice(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True))
        assert np.array_equal(within[box].reshape(-1), np.arange(len(places)))
        source = (
            value.reshape(within[box].shape) if isinstance(value, Traced) and value.ndim else value
        )
        result[box] = source
    return result
