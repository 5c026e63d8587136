"""Trace a codelet's compute() once for each combination of shapes.

If the trace stops, it contains the line and the reason. For the trace, the function compute() is
rebuilt with replacements for `np`, `max`, `min` and a few other builtins. The replacements accept
traced values.
"""

from __future__ import annotations

import builtins
import re
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import DTypeLike

from ipu_teach.arguments import Function
from ipu_teach.compile.matrices import matrix_fault
from ipu_teach.compile.purity import (
    RANDOM,
    Purity,
    enclosed,
    names_of,
    random_state,
    set_random_state,
    stopping,
)
from ipu_teach.compile.trace import (
    Trace,
    Traced,
    TraceStopped,
    Value,
    as_stored,
    local,
    operand,
    place,
    sample_of,
    stack,
    weak_of,
)
from ipu_teach.errors import CodeletError
from ipu_teach.graph.codelet_registry import RegionShape
from ipu_teach.graph.layouts import Shape
from ipu_teach.graph.vertex import Field, VectorList, Vertex
from ipu_teach.types import Array


class _NumpyShim:
    """A replacement for numpy in a traced codelet.

    Its functions zeros, ones, empty, full, eye, array and asarray return traced arrays, because
    every vertex needs its own array. Any use of np.random stops the trace.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __getattr__(self, name: str) -> Any:
        if name in ("zeros", "ones", "empty", "full", "eye"):
            return partial(self._new, getattr(np, name))
        if name == "array":
            return self._array
        if name == "random":
            return RANDOM
        if name == "asarray":
            return self._asarray
        return getattr(np, name)

    def _new(self, make: Callable[..., Array], /, *args: Value, **kwargs: Value) -> Traced:
        return local(self._trace, make(*args, **kwargs))

    def _asarray(self, values: Value, dtype: DTypeLike | None = None) -> Traced | Array:
        return values if _is_array(values, dtype) else self._array(values, dtype)

    def _array(self, values: Value, dtype: DTypeLike | None = None) -> Traced | Array:
        if isinstance(values, Traced):
            result: Traced | Array = values.copy()
        elif isinstance(values, (list, tuple)) and any(
            isinstance(v, (Traced, list, tuple)) for v in values
        ):
            rows = [self._array(v) if isinstance(v, (list, tuple)) else v for v in values]
            result = stack(rows) if any(isinstance(v, Traced) for v in rows) else np.array(values)
        else:
            return local(self._trace, np.array(values, dtype))
        return result.astype(dtype) if dtype is not None else result


def _is_array(values: Value, dtype: DTypeLike | None) -> TypeGuard[Traced]:
    """Return whether np.asarray(values, dtype) would return `values` itself."""
    return isinstance(values, Traced) and values.ndim > 0 and dtype in (None, values.dtype)


def _pick(trace: Trace, better: np.ufunc) -> Function:
    """Return a replacement for the builtin `max` or `min` that accepts traced values.

    `better` is np.greater for max and np.less for min. If several values are equal, the replacement
    returns the first of them, as Python does.
    """

    def pick(*values: Any, **kwargs: Value) -> Any:
        items = list(values[0]) if len(values) == 1 else list(values)
        if kwargs or not any(isinstance(value, Traced) for value in items):
            return getattr(builtins, "max" if better is np.greater else "min")(*values, **kwargs)
        dtypes = {value.dtype for value in items if isinstance(value, (Traced, np.generic))}
        same_type = (
            len(dtypes) == 1
            and dtypes
            == {np.result_type(*dtypes, value) for value in items if not hasattr(value, "dtype")}
            | dtypes
        )
        if not same_type or not all(np.ndim(sample_of(value)) == 0 for value in items):
            raise TraceStopped("max() or min() of values of different types")
        best = items[0]
        for item in items[1:]:
            if not isinstance(item, Traced) and not isinstance(best, Traced):
                best = item if better(item, best) else best
                continue
            weak = tuple(
                number
                for value in (item, best)
                for number in (weak_of(value) or (() if hasattr(value, "dtype") else (value,)))
            )
            if any(
                type(value) is int and not np.can_cast(np.min_scalar_type(value), dtype)
                for value in (item, best)
                for dtype in dtypes
            ):
                raise TraceStopped(
                    f"max() or min() compares {item if type(item) is int else best} with a number "
                    "of a type that cannot represent it"
                )
            is_better = _compared(better, item, best)
            chosen = np.where(
                is_better,
                *(
                    as_stored(value, value.dtype) if weak_of(value) else value
                    for value in (item, best)
                ),
            )[()]  # type: ignore[call-overload, unused-ignore]
            best = Traced(trace, chosen._id, weak)
        return best

    return pick


def _compared(better: np.ufunc, item: Any, best: Any) -> Any:
    """Return numpy's `better(item, best)`, a traced bool.

    :raises TraceStopped: if Python's comparison could give another result in some vertex.
    """
    weak_value, python_value = (best, item) if weak_of(best) else (item, best)
    if not weak_of(weak_value) or hasattr(python_value, "dtype"):
        return better(item, best)
    dtype_type = weak_value.dtype.type
    if any(
        (python_value > possible_number, python_value == possible_number)
        != (
            dtype_type(python_value) > dtype_type(possible_number),
            dtype_type(python_value) == dtype_type(possible_number),
        )
        for possible_number in weak_of(weak_value)
    ):
        raise TraceStopped(f"max() or min() compares {python_value} with a nearly equal number")
    return better(
        *(
            Traced(operand._trace, operand._id) if operand is weak_value else operand
            for operand in (item, best)
        )
    )


def _rebuild(compute: FunctionType, trace: Trace) -> FunctionType:
    """Return a copy of `compute` for the trace, in which some outer objects are replaced.

    numpy, max, min, isinstance, type and print are replaced by versions that accept traced values.
    Random generators and clocks are replaced by objects that stop the trace. The replaced objects
    may be globals, builtins or variables of outer functions.
    """
    shim = _NumpyShim(trace)
    closure = enclosed(compute)

    def in_place_of(value: object) -> object:
        return shim if value is np else stopping(value) or value

    globals_ = dict(compute.__globals__)
    for name in set(names_of(compute.__code__)) & globals_.keys():
        globals_[name] = in_place_of(globals_[name])
    traced: dict[str, object] = {"max": _pick(trace, np.greater), "min": _pick(trace, np.less)}
    # The replacements return what the original functions return for a single vertex.
    traced["isinstance"] = _traced_isinstance
    traced["type"] = _traced_type
    # Nothing is printed during the trace, because the vertices print when they run.
    traced["print"] = _print_nothing
    globals_ = {**traced, **globals_}
    cells = tuple(
        CellType(in_place_of(closure[name])) if name in closure else CellType()
        for name in compute.__code__.co_freevars
    )
    rebuilt = FunctionType(
        compute.__code__, globals_, compute.__name__, compute.__defaults__, cells or None
    )
    rebuilt.__kwdefaults__ = compute.__kwdefaults__
    return rebuilt


def _traced_isinstance(value: Value, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(sample_of(value), kinds)


def _traced_type(value: Value, *rest: Any) -> Any:
    return type(sample_of(value), *rest)


def _print_nothing(*values: Value, **options: Value) -> None:
    pass


_ONE_AT_A_TIME = threading.RLock()
# The maximum number of traces for one combination of shapes. If random numbers were drawn during a
# trace, another thread may have drawn them. The codelet is assumed to draw random numbers only if
# numbers were drawn during every one of these traces.
MOST_TRACES = 8


def is_list(shape: RegionShape) -> bool:
    """Return whether `shape` belongs to a list field: a tuple with the shape of each item."""
    return bool(shape) and isinstance(shape[0], tuple)


def trace_codelet(
    codelet: type[Vertex],
    shapes: dict[str, RegionShape],
    vertex_name: str,
    num_workers: int,
    worker: tuple[int, ...] = (),
) -> Trace:
    """Trace `codelet.compute` for fields of the given shapes.

    If the trace stops, the attribute `stopped` of the result is the line and the reason.
    `vertex_name` is the name of the first vertex with these shapes, used in error messages.
    `num_workers` is the number of workers of a tile. `worker` is a tuple. It contains the id of the
    worker to trace for a MultiVertex, and is () for any other vertex. Only one thread traces at a
    time, because otherwise the side effects of one trace could be attributed to another.

    :raises CodeletError: if the codelet itself is at fault.
    """
    with _ONE_AT_A_TIME:
        initial_state = state_before = random_state()
        for _ in range(MOST_TRACES):
            trace = _traced(codelet, shapes, vertex_name, num_workers=num_workers, worker=worker)
            state_after = random_state()
            if state_after == state_before:
                return trace
            state_before = state_after
        set_random_state(initial_state)
        trace.stopped = trace.stopped or f"{place(codelet)}: {RANDOM.reason}"
        return trace


def _traced(
    codelet: type[Vertex],
    shapes: dict[str, RegionShape],
    vertex_name: str,
    num_workers: int,
    worker: tuple[int, ...],
) -> Trace:
    """Return one trace, without checking whether random numbers are drawn during the trace.

    The arguments are those of `trace_codelet`.
    """
    trace = Trace(codelet)
    regions: dict[str, Traced | list[Traced]] = {}
    for name, declared in codelet.fields.items():
        shape = shapes[name]
        if is_list(shape):
            regions[name] = VectorList(
                _region(trace, declared, part_shape, part)  # type: ignore[arg-type]
                for part, part_shape in enumerate(shape)
            )
        else:
            regions[name] = _region(trace, declared, shape, 0)  # type: ignore[arg-type]
    vertex = codelet.bind(regions, num_workers)
    compute = codelet.compute
    if not isinstance(compute, FunctionType):
        trace.stopped = f"{codelet.__name__}.compute is not a plain function"
        return trace
    num_stops = TraceStopped.raised
    purity = Purity(compute, codelet)
    if purity.printing:
        trace.prints = f"{place(codelet)}: print() shows each vertex's own numbers"
    try:
        if purity.rebinds:
            raise TraceStopped(f"{purity.rebinds} is assigned, and all vertices share it")
        if purity.advances:
            raise TraceStopped(f"{purity.advances} is an iterator, which every vertex advances")
        if purity.printing - {compute}:
            raise TraceStopped("compute() calls a function that prints")
        with np.errstate(all="ignore"):
            result = _rebuild(compute, trace)(vertex, *worker)
            trace.returned = result is None or (
                operand(result) if isinstance(result, Traced) else bool(result)
            )
            trace.check_fixed()
            # These numbers differ if an `except` in the codelet has caught TraceStopped.
            if TraceStopped.raised != num_stops:
                raise TraceStopped("an `except` hides that a value depends on data")
    except TraceStopped as stop:
        trace.stopped = f"{source_line(codelet)}: {stop.reason}"
    except CodeletError as error:
        raise error_at(error, source_line(codelet), vertex_name) from None
    except Exception as error:
        raise compute_error(codelet, error, source_line(codelet), vertex_name) from error
    finally:
        changed = purity.settle()
    if changed and not trace.stopped:
        trace.stopped = f"{place(codelet)}: {changed}"
    return trace


def _region(trace: Trace, declared: Field, shape: Shape, part: int) -> Traced:
    """Record a field, or one region of a list, and return its traced value.

    `part` is the index of the region in its list, or 0.
    """
    sample = np.ones(shape, declared.dtype.numpy)
    sample.flags.writeable = declared.written
    traced = trace.add("region", None, (declared.name, part), {}, sample=sample)
    trace.regions[traced._id] = (declared.name, part)
    if declared.kind == "output":
        trace.written[traced._id] = np.zeros(shape, bool)
    return traced


def source_line(codelet: type[Vertex]) -> str:
    """Return the line of `codelet.compute` that raised the current exception, as text.

    If compute is not a plain function, the result is the name of the codelet.
    """
    compute = codelet.compute
    if not isinstance(compute, FunctionType):
        return codelet.__name__
    line_number = 0
    traceback = sys.exc_info()[2]
    while traceback is not None:
        if traceback.tb_frame.f_code is compute.__code__:
            line_number = traceback.tb_lineno
        traceback = traceback.tb_next
    return place(codelet, line_number)


def error_at(error: CodeletError, line: str, vertex_name: str) -> CodeletError:
    """Return a copy of `error` whose location is the given line and vertex."""
    return CodeletError(error.tried, where=f"{line}, {vertex_name}", next_step=error.next_step)


def compute_error(
    codelet: type[Vertex], error: BaseException, line: str, vertex_name: str
) -> CodeletError:
    """Return the error for an exception in the learner's code, with its line."""
    advice = f"run one vertex by itself with {codelet.__name__}.call(…); a breakpoint stops there."
    if isinstance(error, ValueError) and "read-only" in str(error):
        inputs = ", ".join(repr(f.name) for f in codelet.fields.values() if f.kind == "input")
        advice = f"an Input ({inputs}) is only read; declare it InOut to change it."
    problem = f"{type(error).__name__}: {error}"
    if sizes := re.search(r"^matmul: .+\(size (\d+) is different from (\d+)\)$", str(error)):
        problem = f"{type(error).__name__}: the sides of @ have {sizes[2]} and {sizes[1]} numbers"
        advice = "give both sides of @ equally many numbers. Check whether one side is only a part."
    if "float16 is unsupported in linalg" in str(error):
        problem = "np.linalg has no functions for matrices of HALF"
        advice = "convert the matrix first, as in np.linalg.inv(self.a.astype(np.float32))."
    if isinstance(error, np.linalg.LinAlgError):
        fault, advice = matrix_fault(error, advice)
        problem += fault
    return CodeletError(
        f"{codelet.__name__}.compute() failed: {problem}.",
        where=f"{line}, {vertex_name}",
        next_step=advice,
    )
