"""Run a codelet once on stand-ins that write down what it does.

`compute()` is called on `Traced` values. Each carries a *sample*: what numpy gives for one vertex, which fixes shapes,
dtypes and memory order by numpy's own rules. Every array operation becomes an `Op`; the list of them is the kernel that the
engine replays for all vertices at once, and the tally from which the cost model counts cycles.

What depends on data cannot be written down once for all vertices: a branch, a loop count, an index. There the trace stops
with the line and the reason, and the engine runs that codelet vertex by vertex.
"""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ipu_teach.errors import CodeletError
from ipu_teach.graph.vertex import Field, VectorList, Vertex
from ipu_teach.types import Array

MAX_OPS = 20_000  # a longer trace costs more to compile than the vertex loop costs to run

# Functions whose result has a shape that depends on shapes alone; they run vertex by vertex inside the kernel.
STATIC_SHAPE = {
    np.argmax, np.argmin, np.argsort, np.average, np.convolve, np.correlate, np.cross, np.cumprod, np.cumsum, np.diff,
    np.einsum, np.interp, np.kron, np.linalg.det, np.linalg.inv, np.linalg.norm, np.linalg.solve, np.max,
    np.mean, np.median, np.min, np.outer, np.prod, np.ptp, np.roll, np.searchsorted, np.sort, np.std, np.sum,
    np.tensordot, np.tile, np.trace, np.tril, np.triu, np.var, np.any, np.all, np.dot, np.inner, np.vdot, np.clip,
    np.round, np.nan_to_num,
}  # fmt: skip
ELEMENTWISE = {np.where, np.clip}
REDUCTIONS = {np.sum: np.add, np.prod: np.multiply, np.max: np.maximum, np.min: np.minimum,
              np.any: np.logical_or, np.all: np.logical_and}  # fmt: skip
PRODUCTS = {np.matmul, np.vecdot, np.matvec, np.vecmat}
VIEWS = {np.reshape, np.transpose, np.ravel, np.expand_dims, np.squeeze, np.swapaxes, np.moveaxis, np.atleast_1d,
         np.broadcast_to}  # fmt: skip


class TraceStopped(BaseException):
    """The codelet did something that depends on data. No Exception, so that a codelet's own `except` cannot hide it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True)
class Op:
    """One recorded step. `result` is the id of the value it makes, or -1.

    kind: "region" a field; "view" a static view; "read" a copy of one element; "ufunc", "elementwise", "reduce",
    "product", "each" computations; "local" a new local array; "store" a write of args[1] into args[0].
    """

    kind: str
    fn: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: int


@dataclass
class Trace:
    """A codelet written down: its ops, the sample of every value, and which value is a view of which."""

    codelet: type[Vertex]
    ops: list[Op] = field(default_factory=list)
    samples: list[Any] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    regions: dict[int, tuple[str, int]] = field(default_factory=dict)
    # For every view of an Output, which of its elements the codelet has written so far.
    written: dict[int, Array] = field(default_factory=dict)
    stopped: str = ""

    def add(self, kind: str, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], sample: Any, root: int = -1) -> Traced:
        """Record an op whose result is `sample`, a view of `root` if that is given."""
        if len(self.ops) >= MAX_OPS:
            raise TraceStopped(f"compute() takes more than {MAX_OPS:,} steps for one vertex")
        if root < 0 and isinstance(sample, np.ndarray) and sample.base is not None and kind != "region":
            raise TraceStopped(f"np.{getattr(fn, '__name__', fn)} gives a view")
        number = len(self.samples)
        self.samples.append(sample)
        self.roots.append(number if root < 0 else root)
        self.ops.append(Op(kind, fn, args, kwargs, number))
        return Traced(self, number)

    def store(self, place: Traced, value: Any) -> None:
        """Record a write of `value` into the view `place`."""
        self.ops.append(Op("store", None, (Ref(place._id), _operand(value)), {}, -1))
        if place._id in self.written:
            self.written[place._id][...] = True


@dataclass(frozen=True)
class Ref:
    """A traced value inside an Op's arguments."""

    id: int


def _operand(value: Any) -> Any:
    """`value` as an op's argument. What reads an Output must have written it before."""
    if not isinstance(value, Traced):
        return value
    written = value._trace.written.get(value._id)
    if written is not None and not written.all():
        trace = value._trace
        declared = trace.codelet.fields[trace.regions[trace.roots[value._id]][0]]
        raise CodeletError(
            f"{trace.codelet.__name__}.compute() reads its Output {declared.name!r} before writing it.",
            next_step=f"an Output is only written. For +=, declare {declared.name}: "
            f"{declared.declaration().replace('Output', 'InOut', 1)}, or add up in a local variable.",
        )
    return Ref(value._id)


def _sample(value: Any) -> Any:
    return value._sample if isinstance(value, Traced) else value


def stop_unless_static(value: Any, what: str) -> None:
    parts = value if isinstance(value, tuple) else (value,)
    for part in parts:
        if isinstance(part, Traced):
            raise TraceStopped(f"{what} depends on data")
        if isinstance(part, slice) and any(isinstance(p, Traced) for p in (part.start, part.stop, part.step)):
            raise TraceStopped(f"{what} depends on data")


class Traced(NDArrayOperatorsMixin):
    """Stands for one value of every vertex. Behaves like the numpy array or number that one vertex would see."""

    __hash__ = object.__hash__

    def __init__(self, trace: Trace, number: int) -> None:
        self._trace = trace
        self._id = number

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
        return len(self._sample)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    # Indexing and views

    def __getitem__(self, key: Any) -> Any:
        stop_unless_static(key, "an index")
        sample = self._sample[key]
        if not isinstance(sample, np.ndarray):
            _operand(self._place(key))
            return self._trace.add("read", _getitem, (Ref(self._id), key), {}, sample)
        if sample.size and not np.may_share_memory(sample, self._sample):
            return self._trace.add("each", _getitem, (_operand(self), key), {}, sample)
        return self._view(_getitem, key)

    def _place(self, key: Any) -> Traced:
        """What `key` selects, as a view to write to, also if it is a single element."""
        keys = key if isinstance(key, tuple) else (key,)
        return self._view(_getitem, keys if any(k is Ellipsis for k in keys) else (*keys, Ellipsis))

    def __setitem__(self, key: Any, value: Any) -> None:
        stop_unless_static(key, "an index")
        if not self._writable:
            raise ValueError("assignment destination is read-only")
        value = _stack(value) if isinstance(value, list) else value
        target = self._sample[key]
        if isinstance(target, np.ndarray) and target.size and not np.may_share_memory(target, self._sample):
            raise TraceStopped("a write to a list of places")
        if isinstance(value, Traced) and _same_place(value._sample, target):
            return  # the second half of `x[a:b] += y`
        np.empty(np.shape(target), self.dtype)[...] = _sample(value)  # numpy raises here what it would raise there
        self._trace.store(self._place(key), value)

    def _view(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Traced:
        sample = fn(self._sample, *args, **kwargs)
        if sample.size and not np.may_share_memory(sample, self._sample):
            return self._trace.add("each", fn, (_operand(self), *args), kwargs, sample)
        view = self._trace.add("view", fn, (Ref(self._id), *args), kwargs, sample, self._trace.roots[self._id])
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

    def ravel(self) -> Any:
        return self._view(np.ravel)

    def flatten(self) -> Any:
        return self._view(np.ravel).copy()

    def copy(self) -> Any:
        return self._trace.add("elementwise", np.copy, (_operand(self),), {}, self._sample.copy())

    def astype(self, dtype: Any) -> Any:
        return self._trace.add("elementwise", np.copy, (_operand(self),), {}, self._sample.astype(dtype))

    # Reductions and the like, as methods

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return np.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Any:
        return np.prod(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        return np.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        return np.min(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Any:
        return np.mean(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        return np.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        return np.all(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: Any = None) -> Any:
        return np.argmax(self, axis=axis)

    def argmin(self, axis: Any = None) -> Any:
        return np.argmin(self, axis=axis)

    def dot(self, other: Any) -> Any:
        return np.dot(self, other)

    # numpy's protocols

    # `**` has paths of its own, for numbers and for small exponents, whose bits differ from np.power's.
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
        sample = _sample(base) ** _sample(exponent)
        kind = "elementwise" if isinstance(sample, np.ndarray) else "each"
        return self._trace.add(kind, operator.pow, (_operand(base), _operand(exponent)), {}, sample)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", (None,))[0]
        if any(isinstance(i, list) for i in inputs):
            inputs = tuple(_stack(i) if isinstance(i, list) else i for i in inputs)
        if method == "reduce":
            return self._reduce(ufunc, inputs[0], **kwargs)
        if method not in ("__call__", "accumulate", "outer") or ufunc.nout != 1:
            raise TraceStopped(f"np.{ufunc.__name__}.{method} is not traced")
        samples = [_sample(i) for i in inputs]
        call = getattr(ufunc, method)
        sample = call(*samples, **{k: _sample(v) for k, v in kwargs.items()})
        if any(isinstance(v, Traced) for v in kwargs.values()):
            raise TraceStopped(f"np.{ufunc.__name__} with a traced keyword is not traced")
        args = tuple(_operand(i) for i in inputs)
        kind = "each" if method != "__call__" else "product" if ufunc in PRODUCTS else "ufunc"
        trace = self._trace
        if kind == "ufunc" and set(kwargs) - {"dtype"}:
            raise TraceStopped(f"np.{ufunc.__name__} with {', '.join(kwargs)} is not traced")
        if out is None or not isinstance(out, Traced) or not isinstance(out._sample, np.ndarray):
            return trace.add(kind, call if kind == "each" else ufunc, args, kwargs, sample)
        if not out._writable:
            raise ValueError("output array is read-only")
        if np.shape(sample) != out.shape:
            raise ValueError(f"non-broadcastable output operand with shape {out.shape} for result shape {np.shape(sample)}")
        if not np.can_cast(np.asarray(sample).dtype, out.dtype, "same_kind"):
            raise TypeError(f"cannot cast the result of {ufunc.__name__} from {sample.dtype} to {out.dtype} in place")
        value = trace.add(kind, call if kind == "each" else ufunc, args, kwargs, sample)
        trace.store(out, value)
        return out

    def _reduce(
        self, ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **rest: Any
    ) -> Any:
        if any(v is not np._NoValue for v in rest.values()):
            raise TraceStopped(f"np.{ufunc.__name__}.reduce with {', '.join(rest)} is not traced")
        sample = ufunc.reduce(_sample(array), axis=axis, dtype=dtype, keepdims=keepdims)
        # A reduction that converts on the way is buffered by numpy in pieces: only the vertex's own call gives its bits.
        converts = np.asarray(sample).dtype != array.dtype and array.dtype.kind == "f"
        if array.ndim == 0 or converts:
            fixed = {"axis": axis, "dtype": dtype, "keepdims": keepdims}
            return self._trace.add("each", ufunc.reduce, (_operand(array),), fixed, sample)
        return self._trace.add("reduce", ufunc, (_operand(array),), {"axis": axis, "keepdims": keepdims}, sample)

    def __array_function__(self, fn: Any, types: Any, args: Any, kwargs: Any) -> Any:
        trace = self._trace
        if fn in VIEWS:
            return args[0]._view(fn, *args[1:], **kwargs) if isinstance(args[0], Traced) else _refuse(fn)
        if fn in REDUCTIONS and isinstance(args[0], Traced):
            given = {k: v for k, v in kwargs.items() if v is not np._NoValue and v is not None or k == "axis"}
            axis = given.pop("axis", args[1] if len(args) > 1 else None)
            if len(args) <= 2 and set(given) <= {"dtype", "keepdims"}:
                return self._reduce(REDUCTIONS[fn], args[0], axis=axis, **given)
        if fn is np.dot and len(args) == 2:
            return _dot(*args)
        if fn in (np.stack, np.concatenate, np.vstack, np.hstack):
            return _join(trace, fn, args, kwargs)
        if fn in (np.zeros_like, np.ones_like, np.empty_like, np.full_like):
            sample = fn(_sample(args[0]), *args[1:], **kwargs)
            return _local(trace, sample)
        if fn is np.copy:
            return args[0].copy()
        sample = fn(*[_sample(a) for a in args], **{k: _sample(v) for k, v in kwargs.items()})
        nested = any(isinstance(a, (list, tuple)) and any(isinstance(x, Traced) for x in a) for a in args)
        simple = not nested and not any(isinstance(v, Traced) for v in kwargs.values())
        if not simple or isinstance(sample, tuple) or (fn is np.where and len(args) != 3):
            return _refuse(fn)
        if fn in ELEMENTWISE and len(args) == 3 and not kwargs:
            return trace.add("elementwise", fn, tuple(_operand(a) for a in args), kwargs, sample)
        if fn in STATIC_SHAPE:
            return trace.add("each", fn, tuple(_operand(a) for a in args), kwargs, sample)
        return _refuse(fn)

    # What would need a value

    def __bool__(self) -> bool:
        raise TraceStopped("a branch or a loop condition depends on data")

    def __int__(self) -> int:
        raise TraceStopped("int() of a value that depends on data")

    def __float__(self) -> float:
        raise TraceStopped("float() of a value that depends on data")

    def __index__(self) -> int:
        raise TraceStopped("a count or an index depends on data")

    def __round__(self, digits: int = 0) -> Any:
        raise TraceStopped("round() of a value that depends on data")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TraceStopped("a value is put into a plain numpy array")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'{type(self._sample).__name__}' object has no attribute {name!r}")
        raise TraceStopped(f"the method .{name} is not traced")

    def __repr__(self) -> str:
        return f"<one {self.dtype} value of shape {self.shape} for every vertex>"


def _getitem(array: Any, key: Any) -> Any:
    return array[key]


def _same_place(a: Any, b: Any) -> bool:
    """True if two samples are the very same view of the same memory."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return False
    return a.shape == b.shape and a.strides == b.strides and a.__array_interface__["data"] == b.__array_interface__["data"]


def _refuse(fn: Any) -> Any:
    raise TraceStopped(f"np.{getattr(fn, '__name__', fn)} is not traced")


def _dot(a: Any, b: Any) -> Any:
    if np.ndim(_sample(a)) and np.ndim(_sample(b)) and max(np.ndim(_sample(a)), np.ndim(_sample(b))) <= 2:
        return np.matmul(a, b)
    return np.multiply(a, b)


def _local(trace: Trace, sample: Array) -> Traced:
    """A new array of the vertex's own, filled with what `sample` holds."""
    return trace.add("local", None, (sample.copy(),), {}, sample)


def _stack(values: list[Any]) -> Any:
    """A list with traced values in it, as one array."""
    first = next((v for v in values if isinstance(v, Traced)), None)
    if first is None:
        return values
    return _join(first._trace, np.stack, (values,), {})


def _join(trace: Trace, fn: Any, args: Any, kwargs: Any) -> Traced:
    """np.stack and its kin: a local array, filled part by part."""
    values = list(args[0])
    marks = [np.full(np.shape(_sample(v)), i) for i, v in enumerate(values)]
    owner = fn(marks, *args[1:], **kwargs)
    within = fn([np.arange(m.size).reshape(m.shape) for m in marks], *args[1:], **kwargs)
    dtype = np.result_type(*[_sample(v) for v in values])
    result = _local(trace, np.zeros(owner.shape, dtype))
    for i, value in enumerate(values):
        places = np.argwhere(owner == i)
        if not len(places):
            continue
        low, high = places.min(0), places.max(0) + 1
        box = tuple(slice(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True))
        assert np.array_equal(within[box].reshape(-1), np.arange(len(places)))
        source = value.reshape(within[box].shape) if isinstance(value, Traced) and value.ndim else value
        result[box] = source
    return result


class _NumpyShim:
    """numpy as a traced codelet sees it: new arrays get one copy for each vertex."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __getattr__(self, name: str) -> Any:
        if name in ("zeros", "ones", "empty", "full", "eye"):
            make = getattr(np, name)
            return lambda *args, **kwargs: _local(self._trace, make(*args, **kwargs))
        if name in ("array", "asarray"):
            return self._array
        return getattr(np, name)

    def _array(self, values: Any, dtype: Any = None) -> Any:
        if isinstance(values, Traced):
            result = values.copy()
        elif isinstance(values, (list, tuple)) and any(isinstance(v, (Traced, list, tuple)) for v in values):
            rows = [self._array(v) if isinstance(v, (list, tuple)) else v for v in values]
            result = _stack(rows) if any(isinstance(v, Traced) for v in rows) else np.array(values)
        else:
            return _local(self._trace, np.array(values, dtype))
        return result.astype(dtype) if dtype is not None else result


def _pick(better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The builtin max or min: keeps the first unless a later one is strictly better, as Python does."""

    def chosen(*values: Any, **kwargs: Any) -> Any:
        items = list(values[0]) if len(values) == 1 else list(values)
        traced = {v.dtype for v in items if isinstance(v, Traced)}
        if kwargs or not traced:
            return getattr(builtins, "max" if better is np.greater else "min")(*values, **kwargs)
        floats = any(isinstance(v, float) for v in items)
        if len(traced) > 1 or (floats and next(iter(traced)).kind != "f") or not all(np.ndim(_sample(v)) == 0 for v in items):
            raise TraceStopped("max() or min() of values of different types")
        best = items[0]
        for item in items[1:]:
            best = np.where(better(item, best), item, best)[()]
        return best

    return chosen


def _rebuilt(compute: FunctionType, trace: Trace) -> FunctionType:
    """`compute` with numpy, max and min replaced by their traced forms, wherever it got them from."""
    shim = _NumpyShim(trace)
    globals_ = dict(compute.__globals__)
    for name, value in compute.__globals__.items():
        if isinstance(value, ModuleType) and value is np:
            globals_[name] = shim
    for name, better in (("max", np.greater), ("min", np.less)):
        if name not in globals_:
            globals_[name] = _pick(better)
    cells = []
    for cell in compute.__closure__ or ():
        try:
            cells.append(CellType(shim) if cell.cell_contents is np else cell)
        except ValueError:
            cells.append(cell)
    rebuilt = FunctionType(compute.__code__, globals_, compute.__name__, compute.__defaults__, tuple(cells) or None)
    rebuilt.__kwdefaults__ = compute.__kwdefaults__
    return rebuilt


Shape = tuple[int, ...]
FieldShape = Shape | tuple[Shape, ...]


def is_list(shape: FieldShape) -> bool:
    """True for a field that holds a list of regions, each with its own shape."""
    return bool(shape) and isinstance(shape[0], tuple)


def trace_codelet(codelet: type[Vertex], shapes: dict[str, FieldShape], who: str) -> Trace:
    """Trace `codelet.compute` for fields of the given shapes. Where it cannot, `stopped` says line and reason.

    Raises `CodeletError`, which names `who` (the first vertex of these shapes), if the codelet itself is at fault.
    """
    trace = Trace(codelet)
    regions: dict[str, Any] = {}
    for name, declared in codelet.fields.items():
        shape = shapes[name]
        if is_list(shape):
            regions[name] = VectorList(_region(trace, declared, s, k) for k, s in enumerate(shape))  # type: ignore[arg-type]
        else:
            regions[name] = _region(trace, declared, shape, 0)  # type: ignore[arg-type]
    vertex = codelet.bind(regions)
    compute = _plain_function(codelet)
    if compute is None:
        trace.stopped = f"{codelet.__name__}.compute is no plain function"
        return trace
    try:
        with np.errstate(all="ignore"):
            _rebuilt(compute, trace)(vertex)
    except TraceStopped as stop:
        trace.stopped = f"{_line(compute)}: {stop.reason}"
    except CodeletError as error:
        raise located(error, _line(compute), who) from None
    except Exception as error:
        raise failed(codelet, error, _line(compute), who) from error
    return trace


def _region(trace: Trace, declared: Field, shape: Shape, part: int) -> Traced:
    sample = np.ones(shape, declared.dtype.numpy)
    sample.flags.writeable = declared.written
    traced = trace.add("region", None, (declared.name, part), {}, sample)
    trace.regions[traced._id] = (declared.name, part)
    if declared.kind == "output":
        trace.written[traced._id] = np.zeros(shape, bool)
    return traced


def _plain_function(codelet: type[Vertex]) -> FunctionType | None:
    compute = codelet.compute
    return compute if isinstance(compute, FunctionType) else None


def _line(compute: FunctionType) -> str:
    """The line of `compute`, or of what it called in the same file, where the current exception came up."""
    code, line = compute.__code__, compute.__code__.co_firstlineno
    step = sys.exc_info()[2]
    while step is not None:
        if step.tb_frame.f_code is code:
            line = step.tb_lineno
        step = step.tb_next
    return f"{_file(code.co_filename)}, line {line} ({compute.__qualname__.split('.<locals>.')[-1]})"


def _file(path: str) -> str:
    """A file as a person names it: its last part, or the notebook's cell."""
    return "notebook cell" if "ipykernel" in path or path.startswith("<") else path.replace("\\", "/").rsplit("/", 1)[-1]


def source_line(codelet: type[Vertex]) -> str:
    """Where the current exception came up in `codelet.compute`."""
    compute = _plain_function(codelet)
    return _line(compute) if compute is not None else codelet.__name__


def located(error: CodeletError, place: str, who: str) -> CodeletError:
    """A codelet error raised by a field, with line and vertex added."""
    return CodeletError(error.tried, where=f"{place}, {who}", next_step=error.next_step)


def failed(codelet: type[Vertex], error: BaseException, place: str, who: str) -> CodeletError:
    """An exception of the learner's own code, as an error that says where it happened."""
    advice = f"run one vertex by itself with {codelet.__name__}.call(…); a breakpoint stops there."
    if isinstance(error, ValueError) and "read-only" in str(error):
        inputs = ", ".join(repr(f.name) for f in codelet.fields.values() if f.kind == "input")
        advice = f"an Input ({inputs}) is only read; declare it InOut to change it."
    return CodeletError(
        f"{codelet.__name__}.compute() failed: {type(error).__name__}: {error}.", where=f"{place}, {who}", next_step=advice
    )
