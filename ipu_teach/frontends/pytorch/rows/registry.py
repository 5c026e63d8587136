"""The table of core ATen operations, by torch's names, and what its rows share.

A row is a function of the graph, the `Results` of torch's node and the node's arguments: values for
tensors, and numbers, lists and None as torch has them. It emits operations of the IR, and returns a
value for each result. torch determines the dtype and the shape of each result, so that no row has
rules of its own for promotion or broadcasting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, DType

Kind = type[DType]
Ints = Sequence[int]
RowFunction = Callable[..., Any]
AnyRow = TypeVar("AnyRow", bound=RowFunction)

ROWS: dict[str, RowFunction] = {}
SAVING: set[str] = set()  # rows with a keyword `saved`: a dict from the forward to the backward
KEPT: set[str] = set()  # rows that torch's decompositions would replace by what differs from it
KEPT_IF: dict[str, Callable[..., bool]] = {}  # and those for some calls, which the function tells
MOVES: set[str] = set()  # rows that only move elements, so that no integer leaves its width


class Results:
    """The results of a node of torch's graph: their dtypes and shapes."""

    def __init__(self, node: Any, dtype_of: Callable[[Any], Kind | None]) -> None:
        found = node.meta.get("val")
        self.node = node
        self.tensors = list(found) if isinstance(found, (list, tuple)) else [found]
        self.dtypes = [dtype_of(t.dtype) if hasattr(t, "dtype") else None for t in self.tensors]
        self.shapes = [tuple(t.shape) if hasattr(t, "shape") else () for t in self.tensors]
        self._dtype_of = dtype_of

    @property
    def dtype(self) -> Any:
        """The dtype of the first result."""
        return self.dtypes[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.shapes[0]

    def example(self, place: int) -> Any:
        """Return the fake tensor, or the number, that torch has for an argument."""
        argument = self.node.args[place]
        return argument.meta["val"] if hasattr(argument, "meta") else argument

    def promoted(self) -> tuple[Any, Kind]:
        """Return the dtype in which torch combines the first two arguments: its own, and the
        device's.

        :raises Unfit: if the device has no such dtype.
        """
        import torch

        common = torch.result_type(self.example(0), self.example(1))
        dtype = self._dtype_of(common)
        if dtype is None:
            raise Unfit(f"it computes in {common}", "make both sides torch.float32: x.float().")
        return common, dtype


def row(
    *names: str,
    saves: bool = False,
    kept: bool | Callable[..., bool] = False,
    moves: bool = False,
) -> Callable[[AnyRow], AnyRow]:
    """Add a row under several names of torch."""

    def add(function: AnyRow) -> AnyRow:
        for name in names:
            ROWS[name] = function
            if callable(kept):
                KEPT_IF[name] = kept
            for is_member, members in ((saves, SAVING), (kept is True, KEPT), (moves, MOVES)):
                if is_member:
                    members.add(name)
        return function

    return add


# --- dtypes ---------------------------------------------------------------------------------------


def as_bool(graph: Ir, x: Any) -> Value:
    """Return whether each element differs from 0; NaN does."""
    if not isinstance(x, Value):
        return graph.constant(bool(x), BOOL)
    if x.dtype is BOOL:
        return x
    if x.number is not None:
        return graph.constant(x.number != 0, BOOL, x.shape)
    return graph.op("neq", x, graph.constant(0, x.dtype))


def as_dtype(graph: Ir, x: Any, dtype: Kind) -> Value:
    """Return a value or a number in a dtype, as torch's `to` converts it."""
    if dtype is BOOL:
        return as_bool(graph, x)
    if isinstance(x, Value):
        return graph.cast(x, dtype)
    if dtype in (INT, UNSIGNED_INT) and isinstance(x, float) and np.isfinite(x):
        x = int(x)
    return graph.constant(x, dtype)


def number_in(common: Any, number: Any) -> Any:
    """Return a number as torch converts it to a narrow integer: wrapped to its width."""
    import torch

    narrow = (torch.uint8, torch.int8, torch.int16)
    if isinstance(number, int) and not isinstance(number, bool) and common in narrow:
        return torch.tensor(number).to(common).item()
    return number


def counted(graph: Ir, x: Value) -> Value:
    """Return x with BOOL as INT, for operations that take numbers."""
    return graph.cast(x, INT) if x.dtype is BOOL else x


def is_float(dtype: Kind) -> bool:
    """Return whether a dtype is FLOAT or HALF."""
    return dtype in (FLOAT, HALF)


# --- shapes ---------------------------------------------------------------------------------------


def reshaped(graph: Ir, x: Value, shape: Ints) -> Value:
    """Return x with another shape of as many elements."""
    return x if tuple(shape) == x.shape else graph.op("reshape", x, shape=tuple(shape))


def expanded(graph: Ir, x: Value, shape: Ints) -> Value:
    """Return x broadcast to a shape."""
    return x if tuple(shape) == x.shape else graph.op("expand", x, shape=tuple(shape))


def permuted(graph: Ir, x: Value, order: Ints) -> Value:
    """Return x with its dimensions in another order."""
    order = tuple(d % len(order) for d in order)
    return x if order == tuple(range(len(order))) else graph.op("permute", x, dims=order)


def moved(graph: Ir, x: Value, source: int, target: int) -> Value:
    """Return x with one dimension moved to another place."""
    rank = len(x.shape)
    order = [d for d in range(rank) if d != source % rank]
    order.insert(target % rank, source % rank)
    return permuted(graph, x, order)


def sliced(
    graph: Ir, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """Return a part of one dimension, with the bounds of a Python slice."""
    size = x.shape[dim]
    begin, stop, _ = slice(start, end).indices(size)
    if (begin, stop, step) == (0, size, 1):
        return x
    more = {} if step == 1 else {"step": step}
    bounds = {"begin": begin, "end": max(begin, stop)}
    return graph.op("slice", x, dim=dim % len(x.shape), **bounds, **more)


def corner(graph: Ir, x: Value, shape: Ints) -> Value:
    """Return the first elements of each dimension, so that the result has a shape."""
    for dim, size in enumerate(shape):
        x = sliced(graph, x, dim, 0, size)
    return x


def concatenated(graph: Ir, parts: Sequence[Value], dim: int) -> Value:
    """Return the parts that have elements, one behind the other."""
    parts = [part for part in parts if part.size] or list(parts[:1])
    return parts[0] if len(parts) == 1 else graph.op("concat", *parts, dim=dim)


def as_rows(graph: Ir, x: Value, dim: int) -> Value:
    """Return x as [rows, n], with one of its dimensions last; a single number is a row of one."""
    last = moved(graph, x, dim, -1) if x.shape else reshaped(graph, x, (1,))
    size = last.shape[-1]
    return reshaped(graph, last, (x.size // max(size, 1), size))


def from_rows(graph: Ir, rows: Value, like: Value, dim: int) -> Value:
    """Return [rows, k] with the dimensions of `like`, of which `dim` has k elements."""
    if not like.shape:
        return reshaped(graph, rows, ())
    shape = [n for d, n in enumerate(like.shape) if d != dim % len(like.shape)]
    return moved(graph, reshaped(graph, rows, (*shape, rows.shape[-1])), -1, dim)


def dimensions(x: Value, dim: Any) -> list[int]:
    """Return the dimensions that a reduction names, or all."""
    if not x.shape or dim is None or dim in ([], ()):
        return [*range(len(x.shape))]
    return [d % len(x.shape) for d in ([dim] if isinstance(dim, int) else dim)]


def size_along(x: Value, dim: int) -> int:
    """Return the size of a dimension; a single number has one element along any."""
    return x.shape[dim] if x.shape else 1


def along_axis(x: Any, rank: int, dim: int) -> Any:
    """Return a numpy vector as an array of some rank that varies along one dimension."""
    return np.reshape(x, [-1 if d == dim % rank else 1 for d in range(rank)])
