"""The array calls for the operations of a trace, each for many vertices together.

They give the same bits as the plain vertex loop: no sum is reordered, and if numpy computes an
operation differently for many vertices, it is called vertex by vertex.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from ipu_teach.compile.trace import ELEMENTWISE, Op, Ref, Trace, layout_independent
from ipu_teach.engine.backend import Backend, Call, Operand
from ipu_teach.engine.batch.kernels import (
    Argument,
    apply,
    bits_unless,
    call_dense,
    call_each,
    call_rows,
)
from ipu_teach.engine.batch.last_use import alone_or_backwards, along_an_axis, by_rows
from ipu_teach.engine.batch.products import Products
from ipu_teach.types import Array


class Operations:
    """Appends the array calls for operations to the list `calls`.

    `values` maps the id of each value in the trace to its array. The first `axes` axes of each
    array are those of the vertices.
    """

    def __init__(
        self, xp: Backend, trace: Trace, products: Products, calls: list[Call], axes: int
    ) -> None:
        self.xp = xp
        self.trace = trace
        self.products = products
        self.calls = calls
        self.axes = axes
        self.values: dict[int, Array] = {}

    def operand(self, value: Any, rank: int) -> Any:
        """Return the array of an op's argument: the vertices' axes, followed by the value's axes.

        Axes of length 1 are inserted, so that the value has at least `rank` axes. An argument that
        is not traced is the same for all vertices, so its array has no vertex axes.
        """
        if not isinstance(value, Ref):
            return self.xp.operand(value)
        array = self.values[value.id]
        missing = rank - (array.ndim - self.axes)
        return self.within(array, (None,) * missing) if missing > 0 else array

    def within(self, values: Array, key: Any) -> Array:
        """Return an array with `value[key]` for the value of every vertex."""
        inside = key if isinstance(key, tuple) else (key,)
        result: Array = values[(slice(None),) * self.axes + inside]
        return result

    def compute(self, op: Op, out: Array) -> None:
        """Append the calls that compute the result of `op` into `out`."""
        kinds = {
            "ufunc": self._ufunc,
            "elementwise": self._elementwise,
            "reduce": self._reduce,
            "product": self._product,
            "dense": self._dense,
        }
        if op.kind == "local":
            self.calls.append((self.xp.copyto, (out, self.xp.operand(op.args[0]))))
        elif op.fn is operator.pow and not self.xp.on_host:
            self.calls.append(self.xp.ufunc(np.power, self._lined_up(op, out), out, {}))
        else:
            kinds.get(op.kind, self._each)(op, out)

    def _lined_up(self, op: Op, out: Array) -> list[Any]:
        """Return the arrays of an op's arguments, in a shape that broadcasts to `out`."""
        return [self.operand(a, out.ndim - self.axes) for a in op.args]

    def _ufunc(self, op: Op, out: Array) -> None:
        if (
            self.xp.on_host
            and not layout_independent(op.fn, out.dtype)
            and alone_or_backwards(self.trace, op)
        ):
            self._each(op, out)
        else:
            self.calls.append(self.xp.ufunc(op.fn, self._lined_up(op, out), out, op.kwargs))

    def _elementwise(self, op: Op, out: Array) -> None:
        args = self._lined_up(op, out)
        if op.fn is np.where:
            condition = (
                args[0]
                if isinstance(op.args[0], Ref)
                else self.xp.array(np.asarray(op.args[0], bool))
            )
            if getattr(condition, "dtype", None) != np.bool_:
                self._each(op, out)
                return
            if self.xp.on_host and (call := _or_zero(condition, args[1], args[2], out)) is not None:
                self.calls.append(call)
                return
            # np.where converts a Python integer that does not fit the dtype, whereas an assignment
            # would raise an error.
            chosen, alternative = (
                self.xp.array(np.asarray(a).astype(out.dtype)) if type(a) is int else a
                for a in args[1:]
            )
            self.calls.append((self.xp.copyto, (out, alternative, "unsafe")))
            self.calls.append((self.xp.copyto, (out, chosen, "unsafe", condition)))
        elif op.fn in ELEMENTWISE:
            self.calls.append((self.xp.clip, (self.xp.array(args[0]), *args[1:], out)))
        elif op.fn is operator.pow and alone_or_backwards(self.trace, op):
            self._each(op, out)
        elif op.fn is operator.pow:
            self.calls.append((apply, (op.fn, args, out)))
        else:
            self.calls.append((self.xp.copyto, (out, args[0], "unsafe")))

    def _reduce(self, op: Op, out: Array) -> None:
        (value,) = op.args
        array = self.values[value.id]
        sample = self.trace.samples[value.id]
        axes = self.axes
        axis = op.kwargs["axis"]
        keepdims = op.kwargs["keepdims"]
        reduced = axis if isinstance(axis, tuple) else (axis,)
        if axis is None:
            reduced = tuple(range(sample.ndim))
        if self.xp.on_host and len({a % sample.ndim for a in reduced}) == sample.ndim:
            dense = sample.flags.c_contiguous or sample.flags.f_contiguous
            if not dense or sample.size == 0:
                self._each(op, out)
                return
            # `row` has all elements of a vertex in a single axis, in memory order, which is the
            # order in which numpy sums them.
            lead = array.shape[:axes]
            row = self.xp.as_strided(
                array, (*lead, sample.size), (*array.strides[:axes], sample.itemsize)
            )
            self.calls.append(self.xp.reduction(op.fn, row, axes, out.reshape(lead)))
            return
        shifted = tuple(a % sample.ndim + axes for a in reduced)
        self.calls.append(
            self.xp.reduction(
                op.fn,
                array,
                shifted if len(shifted) > 1 else shifted[0],
                out=out,
                keepdims=keepdims,
            )
        )

    def _product(self, op: Op, out: Array) -> None:
        ranks = tuple(
            np.ndim(self.trace.samples[left.id]) if isinstance(left, Ref) else np.ndim(left)
            for left in op.args
        )
        if op.fn is not np.matmul or op.kwargs or not set(ranks) <= {1, 2}:
            self._each(op, out)
            return
        left, right = (self.operand(value, 0) for value in op.args)
        self.calls += self.products.calls(
            left, right, out, ranks, joins=all(isinstance(value, Ref) for value in op.args)
        )

    def _dense(self, op: Op, out: Array) -> None:
        """Append a call of a function of matrices, such as np.linalg.inv, for all vertices.

        LAPACK processes each matrix separately.
        """
        args = [self.operand(argument, 0) for argument in op.args]
        are_vectors = np.ndim(self.trace.samples[op.result]) == 1
        codelet_and_line = self.trace.codelet, op.kwargs["line"]
        self.calls.append(
            (call_dense, (op.fn, args, are_vectors, out, codelet_and_line, self.vertex_name))
        )

    def vertex_name(self, number: int) -> str:
        """Return the name of vertex `number` of these vertices."""
        raise NotImplementedError

    def _each(self, op: Op, out: Array) -> None:
        """Append calls with the same bits as a separate call of the op's function for each vertex.

        A single call for all vertices is used if it certainly gives these bits.
        """
        if by_rows(self.trace, op):
            options = {name: value for name, value in op.kwargs.items() if name != "axis"}
            self.calls.append(
                (call_rows, (partial(op.fn, **options), self.values[op.args[0].id], out))
            )
            return
        fn = (
            partial(op.fn.reduce, **op.kwargs)
            if op.kind == "reduce"
            else partial(op.fn, **op.kwargs)
        )
        lead = out.shape[: self.axes]
        if self.xp.on_host and along_an_axis(self.trace, op):
            value = self.values[op.args[0].id]
            shape = value.shape[self.axes :]
            axis = op.kwargs["axis"] % len(shape) + self.axes
            value = np.broadcast_to(value, (*lead, *shape))
            self.calls.append((partial(op.fn, axis=axis, out=out), (value,)))
            return
        args: list[Argument] = []
        for argument in op.args:
            if isinstance(argument, Ref):
                # A 0-d array must stay a 0-d array, because numpy may compute differently with a
                # scalar, or with a single element whose stride is not that of a row.
                sample = self.trace.samples[argument.id]
                value = self.values[argument.id]
                value = np.broadcast_to(value, (*lead, *value.shape[self.axes :]))
                if isinstance(sample, np.ndarray):
                    axes_of_value = zip(
                        sample.shape, sample.strides, value.strides[self.axes :], strict=True
                    )
                    strides = (
                        *value.strides[: self.axes],
                        *(
                            sample_stride if axis_length == 1 else stride
                            for axis_length, sample_stride, stride in axes_of_value
                        ),
                    )
                    value = self.xp.as_strided(value, value.shape, strides)
                args.append(((...,) if isinstance(sample, np.ndarray) else (), value))
            else:
                args.append((None, argument))
        self.calls.append((call_each, (fn, args, out, self.axes)))


def _or_zero(condition: Array, if_true: Operand, if_false: Operand, out: Array) -> Call | None:
    """Return a fast call for np.where(condition, if_true, if_false) if one of the two is 0.

    The call multiplies the bits of the other value, as integers, by the condition or its negation.
    This is faster, because numpy multiplies many numbers at once, but copies by a mask one by one.
    The result is None if neither value is the plain number 0, or if the other value is not an array
    with the dtype of `out`.
    """
    for retained, zero, call in (
        (if_true, if_false, np.multiply),
        (if_false, if_true, bits_unless),
    ):
        is_plain_number = isinstance(zero, (int, float, np.number)) and not isinstance(zero, bool)
        if not is_plain_number or zero != 0 or np.signbit(zero):
            continue
        if (
            isinstance(retained, np.ndarray)
            and retained.dtype == out.dtype
            and out.dtype.kind in "fiu"
        ):
            integer_type = f"u{out.itemsize}"
            return call, (retained.view(integer_type), condition, out.view(integer_type))
    return None
