"""The calls of a trace's operations, on the values of many vertices at once.

The bits are those of the plain vertex loop: no sum is reordered, and what numpy computes in another
way for many vertices than for one is called vertex by vertex.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from ipu_teach.compile.trace import ELEMENTWISE, Op, Ref, Trace, layout_independent
from ipu_teach.engine.backend import Call
from ipu_teach.engine.batch.kernels import apply, bits_unless, call_dense, call_each, call_rows
from ipu_teach.engine.batch.last_use import alone_or_backwards, along_an_axis, by_rows
from ipu_teach.engine.batch.products import Products
from ipu_teach.types import Array


class Operations:
    """Appends to `calls`. `values`: by number in the trace, the vertices' axes first, of which
    there are `axes`."""

    def __init__(
        self, xp: Any, trace: Trace, products: Products, calls: list[Call], axes: int
    ) -> None:
        self.xp, self.trace, self.products, self.calls, self.axes = xp, trace, products, calls, axes
        self.values: dict[int, Array] = {}

    def operand(self, value: Any, rank: int) -> Any:
        """An argument with its axes lined up: the vertices' axes first, the value's own axes
        last."""
        if not isinstance(value, Ref):
            return self.xp.operand(value)
        array = self.values[value.id]
        missing = rank - (array.ndim - self.axes)
        return self.within(array, (None,) * missing) if missing > 0 else array

    def within(self, values: Array, key: Any) -> Array:
        """values[key] of every vertex."""
        inside: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)
        result: Array = values[(slice(None),) * self.axes + inside]
        return result

    def compute(self, op: Op, out: Array) -> None:
        """Append what computes the result of `op` into `out`."""
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
            # np.where casts a plain number that does not fit, where an assignment would refuse it.
            one, other = (
                self.xp.array(np.asarray(a).astype(out.dtype)) if type(a) is int else a
                for a in args[1:]
            )
            self.calls.append((self.xp.copyto, (out, other, "unsafe")))
            self.calls.append((self.xp.copyto, (out, one, "unsafe", condition)))
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
        array, sample, axes = self.values[value.id], self.trace.samples[value.id], self.axes
        axis, keepdims = op.kwargs["axis"], op.kwargs["keepdims"]
        reduced = axis if isinstance(axis, tuple) else (axis,)
        if axis is None:
            reduced = tuple(range(sample.ndim))
        if self.xp.on_host and len({a % sample.ndim for a in reduced}) == sample.ndim:
            dense = sample.flags.c_contiguous or sample.flags.f_contiguous
            if not dense or sample.size == 0:
                self._each(op, out)
                return
            # All of the vertex's elements, in the order in which they lie in memory, as numpy sums
            # them.
            lead = array.shape[:axes]
            row = self.xp.as_strided(
                array, (*lead, sample.size), (*array.strides[:axes], sample.itemsize)
            )
            self.calls.append(self.xp.reduction(op.fn, row, axes, out.reshape(lead)))
            return
        shifted = tuple(a % sample.ndim + axes for a in reduced)
        self.calls.append(
            self.xp.reduction(
                op.fn, array, shifted if len(shifted) > 1 else shifted[0], out, keepdims
            )
        )

    def _product(self, op: Op, out: Array) -> None:
        ranks = tuple(
            np.ndim(self.trace.samples[a.id]) if isinstance(a, Ref) else np.ndim(a) for a in op.args
        )
        if op.fn is not np.matmul or op.kwargs or not set(ranks) <= {1, 2}:
            self._each(op, out)
            return
        a, b = (self.operand(value, 0) for value in op.args)
        self.calls += self.products.calls(
            a, b, out, ranks, joins=all(isinstance(value, Ref) for value in op.args)
        )

    def _dense(self, op: Op, out: Array) -> None:
        """A function of matrices, of all of them at once: LAPACK takes each by itself."""
        args = [self.operand(a, 0) for a in op.args]
        vectors = np.ndim(self.trace.samples[op.result]) == 1
        place = self.trace.codelet, op.kwargs["line"]
        self.calls.append((call_dense, (op.fn, args, vectors, out, place, self.who)))

    def who(self, number: int) -> str:
        """The name of a vertex, by its number among these."""
        raise NotImplementedError

    def _each(self, op: Op, out: Array) -> None:
        """Call the function vertex by vertex, on views that lie as the sample did: exact by
        construction."""
        if by_rows(self.trace, op):
            kept = {name: value for name, value in op.kwargs.items() if name != "axis"}
            self.calls.append(
                (call_rows, (partial(op.fn, **kept), self.values[op.args[0].id], out))
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
        args: list[tuple[Any, Any]] = []
        for a in op.args:
            if isinstance(a, Ref):
                # An array of no dimensions stays one: numpy has other paths for numbers, and for a
                # single element whose stride is not that of a row.
                sample, value = self.trace.samples[a.id], self.values[a.id]
                value = np.broadcast_to(value, (*lead, *value.shape[self.axes :]))
                if isinstance(sample, np.ndarray):
                    own = zip(sample.shape, sample.strides, value.strides[self.axes :], strict=True)
                    strides = (
                        *value.strides[: self.axes],
                        *(s if n == 1 else stride for n, s, stride in own),
                    )
                    value = self.xp.as_strided(value, value.shape, strides)
                args.append(((...,) if isinstance(sample, np.ndarray) else (), value))
            else:
                args.append((None, a))
        self.calls.append((call_each, (fn, args, out, self.axes)))


def _or_zero(condition: Array, one: Any, other: Any, out: Array) -> Call | None:
    """Return the call for np.where(condition, one, other) if either is the number 0, else None.

    The bits of a number times 1 or 0 are its own bits, or those of 0. numpy multiplies many at
    once, and copies by a mask one after the other.
    """
    for kept, zero, call in ((one, other, np.multiply), (other, one, bits_unless)):
        plain = isinstance(zero, (int, float, np.number)) and not isinstance(zero, bool)
        if not plain or zero != 0 or np.signbit(zero):
            continue
        if isinstance(kept, np.ndarray) and kept.dtype == out.dtype and out.dtype.kind in "fiu":
            bits = f"u{out.itemsize}"
            return call, (kept.view(bits), condition, out.view(bits))
    return None
