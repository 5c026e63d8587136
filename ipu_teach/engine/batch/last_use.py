"""When each value of a trace is used last, and whether the memory order of a value matters.

A root is a value that is not a view of another value (see `Trace`). The functions identify a root
by its id.
"""

from __future__ import annotations

import operator
from collections import defaultdict

import numpy as np

from ipu_teach.compile.trace import Op, Ref, Trace, item_of, layout_independent

# The number of ops in a trace from which it is faster to place corresponding numbers of all
# vertices next to each other.
SCALAR_OPS = 4


def last_uses(trace: Trace) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Return (number of the last op that uses each root, numbers of the ops that store into it).

    Both are dicts whose keys are roots. An op that uses a view of a root counts as a use of the
    root. If the vertex returns a value, the last use of its root is `len(trace.ops)`.
    """
    last_op: dict[int, int] = {}
    store_ops: dict[int, list[int]] = defaultdict(list)
    for op_number, op in enumerate(trace.ops):
        results = [op.result] if op.result >= 0 else []
        for value in results + [argument.id for argument in op.args if isinstance(argument, Ref)]:
            last_op[trace.roots[value]] = op_number
        if op.kind == "store":
            store_ops[trace.roots[op.args[0].id]].append(op_number)
    if isinstance(trace.returned, Ref):
        last_op[trace.roots[trace.returned.id]] = len(trace.ops)
    # The result of a read op may be a view of its source, so the source must live as long as this
    # result.
    for op in reversed(trace.ops):
        if op.kind == "read":
            source = trace.roots[op.args[0].id]
            last_op[source] = max(last_op[source], last_op[op.result])
    return last_op, store_ops


def delicate_roots(trace: Trace, exact: bool) -> set[int]:
    """Return the roots for which a different memory order could change the order of a sum."""
    kinds = ("reduce", "product", "each") if exact else ("reduce", "each")
    return {
        trace.roots[a.id]
        for op in trace.ops
        if op.kind in kinds
        for a in op.args
        if isinstance(a, Ref)
    }


def soft_roots(trace: Trace, exact: bool) -> set[int]:
    """Return the roots whose memory order cannot change any bit of any result.

    Only slices, transposes and operations on single elements use these roots. With `exact=False`,
    matrix products may use them too.
    """
    hard: set[int] = set()
    for op in trace.ops:
        if op.kind == "view":
            is_soft = op.fn is item_of or (op.fn is np.transpose and len(op.args) == 1)
        elif op.kind == "ufunc":
            is_soft = layout_independent(op.fn, np.asarray(trace.samples[op.result]).dtype)
        elif op.kind == "elementwise":
            is_soft = op.fn in (np.where, np.copy)
        else:
            is_soft = op.kind in ("read", "store", "region") or (op.kind == "product" and not exact)
        if not is_soft:
            hard |= {trace.roots[a.id] for a in op.args if isinstance(a, Ref)}
            hard.add(trace.roots[op.result])
    return set(trace.roots) - hard


def summed_down(trace: Trace) -> dict[int, int]:
    """Return {root: axis} for roots that are reduced along an axis by adding complete rows.

    A root is included if it is used only by operations on single elements, by operations
    `along_an_axis`, and by reductions over a single axis that is not the last. Such a reduction
    adds row after row, so its bits do not change if rows with the same index, one of each vertex,
    are placed next to each other in memory. This is faster, because numpy then adds them in one
    long loop instead of many short ones.
    """
    hard: set[int] = set()
    axes: dict[int, int] = {}
    shapes: dict[tuple[int, ...], int] = {}
    for op in trace.ops:
        refs = [trace.roots[a.id] for a in op.args if isinstance(a, Ref)]
        if op.kind == "reduce" and _goes_down(trace, op):
            sample = trace.samples[op.args[0].id]
            axis = op.kwargs["axis"] % sample.ndim
            if shapes.setdefault(sample.shape, axis) != axis:
                hard.add(refs[0])
            axes[refs[0]] = axis
        elif op.kind == "ufunc":
            if not layout_independent(op.fn, np.asarray(trace.samples[op.result]).dtype):
                hard.update(refs, [trace.roots[op.result]])
        elif op.kind == "store":
            hard.add(trace.roots[op.args[0].id])
        elif not (op.kind in ("region", "read") or op.fn is np.where or along_an_axis(trace, op)):
            hard.update(refs)
            if op.result >= 0:
                hard.add(trace.roots[op.result])
    for op in trace.ops:
        sample = np.asarray(trace.samples[op.result]) if op.result >= 0 else None
        if sample is not None and sample.flags.c_contiguous and sample.shape in shapes:
            axes[trace.roots[op.result]] = shapes[sample.shape]
    return {root: axis for root, axis in axes.items() if root not in hard}


def _goes_down(trace: Trace, op: Op) -> bool:
    """Return whether a reduction of one vertex's array adds one row after the other."""
    sample = trace.samples[op.args[0].id]
    axis = op.kwargs["axis"]
    return (
        type(axis) is int
        and sample.ndim > 1
        and sample.flags.c_contiguous
        and sample.shape[-1] > 1
        and axis % sample.ndim != sample.ndim - 1
        and sample.shape[axis] > 1
    )


def live_bytes(trace: Trace, last_op: dict[int, int]) -> int:
    """Return the maximum number of bytes that the results of one vertex occupy at the same time."""
    current_bytes = 0
    peak_bytes = 0
    bytes_ending_at: dict[int, int] = defaultdict(int)
    for op_number, op in enumerate(trace.ops):
        if op.kind not in ("region", "view", "read", "store"):
            result_bytes = np.asarray(trace.samples[op.result]).nbytes
            current_bytes += result_bytes
            bytes_ending_at[last_op[op.result]] += result_bytes
        peak_bytes = max(peak_bytes, current_bytes)
        current_bytes -= bytes_ending_at[op_number]
    return peak_bytes


def only_numbers(trace: Trace) -> bool:
    """Return whether a trace has at least SCALAR_OPS operations, all of them on single numbers.

    If so, it is faster to place corresponding numbers of all vertices next to each other.
    """
    work = [op for op in trace.ops if op.kind in ("ufunc", "elementwise")]
    has_only_simple_ops = {op.kind for op in trace.ops} <= {
        "region",
        "view",
        "read",
        "ufunc",
        "elementwise",
        "store",
    }
    samples = [trace.samples[op.result] for op in work]
    samples += [trace.samples[op.args[0].id] for op in trace.ops if op.kind == "store"]
    return (
        has_only_simple_ops
        and len(work) >= SCALAR_OPS
        and all(np.ndim(sample) == 0 for sample in samples)
    )


def alone_or_backwards(trace: Trace, op: Op) -> bool:
    """Return whether numpy could give other bits for many vertices than for a single vertex.

    `op` is elementwise. Other bits are possible for some powers, for a result of a single HALF per
    vertex, and for operands with a negative stride. The op must then be called vertex by vertex.
    """
    result = np.asarray(trace.samples[op.result])
    power = op.fn in (np.power, operator.pow)
    if result.size == 1 and (power or result.dtype == np.float16):
        return True
    # If there is a single exponent, and it is 2, -1 or 0.5, numpy squares, inverts or takes the
    # root instead.
    if power and isinstance(op.args[1], Ref) and np.ndim(trace.samples[op.args[1].id]) == 0:
        return True
    samples = [trace.samples[a.id] for a in op.args if isinstance(a, Ref)]
    return any(stride < 0 for sample in samples for stride in sample.strides)


# numpy functions that give the same bits for a single row as for each row of a contiguous matrix.
_BY_ROWS = {np.argmax, np.argmin, np.argsort, np.cumsum, np.mean, np.sort, np.std, np.var}
_SUMMING = {np.mean, np.std, np.var}


def along_an_axis(trace: Trace, op: Op) -> bool:
    """Return whether one call of an op's function for all vertices certainly gives the same bits.

    The function must be argmax, argmin, or `accumulate` of a ufunc whose bits do not depend on the
    memory layout. The only option must be `axis`, an integer. These functions process the elements
    along this axis in order.
    """
    if op.kind != "each" or len(op.args) != 1 or not isinstance(op.args[0], Ref):
        return False
    if set(op.kwargs) != {"axis"} or type(op.kwargs["axis"]) is not int:
        return False
    running = getattr(op.fn, "__self__", None) if op.fn not in _BY_ROWS else None
    if isinstance(running, np.ufunc) and op.fn == running.accumulate:
        return layout_independent(running, trace.samples[op.args[0].id].dtype)
    return op.fn in (np.argmax, np.argmin)


def by_rows(trace: Trace, op: Op) -> bool:
    """Return whether one call of an op's function for all vertices certainly gives the same bits.

    The call gets a matrix with a row for each vertex. The result is False for functions that were
    not examined. The argument of the op must be a single contiguous row in each vertex.
    """
    value = op.args[0]
    if op.kind != "each" or op.fn not in _BY_ROWS or len(op.args) > 1 or not isinstance(value, Ref):
        return False
    if set(op.kwargs) - {"axis", "ddof"} or op.kwargs.get("axis") not in (None, 0, -1):
        return False
    sample = trace.samples[value.id]
    is_plain_row = (
        isinstance(sample, np.ndarray)
        and sample.ndim == 1
        and sample.size > 0
        and sample.flags.c_contiguous
    )
    # If a sum converts the type, numpy divides it into pieces that do not end where rows end.
    return is_plain_row and (op.fn not in _SUMMING or sample.dtype in (np.float32, np.float64))
