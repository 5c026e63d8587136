"""Stochastic rounding: what codelets store in halves goes up or down by chance (option prng.enableStochasticRounding).

It takes place where a codelet assigns results of single precision or wider to a HALF field. What is a half already stays,
also the results of arithmetic on halves; Python's own numbers, as in the codelet's text, round to nearest. Vertices that
store so run one by one.

Each execution of a vertex, and of each worker of a MultiVertex, has a random stream of its own, which follows from the seed,
the number of the execution since load, the number of the vertex in its compute set, and the worker. No result depends on the
order in which they run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.trace import Ref, Trace
from ipu_teach.graph.vector_layout import OnePtrArray
from ipu_teach.types import HALF, Array, generator, to_half


class Chance:
    """The random streams of one group's vertices. `executions` counts those of all groups of a machine."""

    def __init__(self, seed: int, executions: Iterator[int], group: Group) -> None:
        self._seed, self._executions = seed, executions
        self._vertices = group.table.order[group.rows][:, None]
        self._workers = np.arange(max(1, len(group.workers)))

    def states(self) -> Array:
        """A generator's state for each vertex and worker, for one more execution: uint64 (vertices, workers, 2)."""
        return generator.keyed(self._seed, next(self._executions), self._vertices, self._workers)


class StoredHalf(OnePtrArray):
    """A float16 array, and views of it, that looks at what is stored in it.

    Wider floats are rounded stochastically, with words from `state`. If something was noted in `overflows` since the last
    store, infinities become NaN, or raise `FloatingPointError` if that `stops`. It may be laid out as ONE_PTR, and tells
    its length unless it is.
    """

    state: Array | None = None
    overflows: list[str] | None = None
    stops: bool = False

    def __array_finalize__(self, parent: Any) -> None:
        self.state = getattr(parent, "state", None)
        self.overflows = getattr(parent, "overflows", None)
        self.stops = getattr(parent, "stops", False)

    def __setitem__(self, key: Any, value: Any) -> None:
        given = np.asarray(value)
        if self.state is not None and _wide(value, given.dtype):
            spread = np.empty(np.shape(self[key]), given.dtype)
            spread[...] = given
            words = generator.draw(self.state, spread.size).reshape(spread.shape) >> np.uint64(32)
            value = to_half(spread, words=words.astype(np.uint32))
            if self.overflows is not None and np.any(np.isinf(value) & np.isfinite(spread)):
                self.overflows.append("overflow")
        super().__setitem__(key, value)
        if self.overflows:
            self.overflows.clear()
            plain = self.view(np.ndarray)
            lost = np.isinf(plain[key])
            if self.stops and np.any(lost):
                raise FloatingPointError("overflow encountered in a store of halves")
            plain[key] = np.where(lost, np.float16(np.nan), plain[key])

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        call, outs = getattr(ufunc, method), kwargs.pop("out", ())
        plain = [_plain(i) for i in inputs]
        if len(outs) == 1 and isinstance(outs[0], StoredHalf) and "where" not in kwargs:
            outs[0][...] = call(*plain, **kwargs)
        elif outs:
            call(*plain, out=tuple(_plain(o) for o in outs), **kwargs)
        else:
            return call(*plain, **kwargs)
        return outs[0] if len(outs) == 1 else outs


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, StoredHalf) else value


def rounds(group: Group) -> bool:
    """True if vertices of `group` may store something wider in a half."""
    if not any(field.written and field.dtype is HALF for field in group.table.fields.values()):
        return False
    traces = [trace for _, trace in group.workers] or [group.trace]
    return any(trace.stopped or _narrows(trace) for trace in traces)


def _narrows(trace: Trace) -> bool:
    for op in trace.ops:
        if op.kind == "store" and trace.samples[op.args[0].id].dtype == np.float16:
            value = op.args[1]
            given = trace.samples[value.id] if isinstance(value, Ref) else value
            if _wide(given, np.asarray(given).dtype):
                return True
    return False


def _wide(value: Any, dtype: np.dtype[Any]) -> bool:
    """True for a float wider than half, unless it is Python's own; numpy's float64 is a kind of that."""
    return type(value) is not float and dtype.kind == "f" and dtype.itemsize > 2
