"""The table of lowering functions by torch's operation names, and helpers of these functions.

A lowering function has the arguments `(graph, results, *arguments)`: the graph to extend, the
`Results` of torch's node, and the arguments of the node. It gets a `Value` for each tensor, and
numbers, lists and None as in torch. It adds operations to the graph, and returns a value for each
result. The dtype and shape of each result come from torch, so a lowering function needs no rules
for promotion or broadcasting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import torch

from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch import private
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, Array, DType

Kind = type[DType]
Ints = Sequence[int]
Dims = Ints | int | None  # None means all dimensions
Operand = Value | float  # a tensor or a number
# An argument of a lowering function: a `Value` for a tensor, and otherwise as in torch.
Argument: TypeAlias = "Operand | torch.dtype | str | Sequence[Argument] | None"
RowFunction = Callable[..., Value | Sequence[Value | None]]
# The key is the means of a norm. The value is (the normalised x, 1 / sqrt(variance + eps)).
Saved = dict[Value, tuple[Value, Value]]
AnyRow = TypeVar("AnyRow", bound=RowFunction)

ROWS: dict[str, RowFunction] = {}
# The names of operations whose functions have the argument `saved`, a dict of type `Saved`.
SAVING: set[str] = set()
# The names of operations that torch must not decompose into simpler operations.
KEPT: set[str] = set()
# Functions by operation name. If the function of an operation returns True for the arguments of a
# call, torch must not decompose the call.
KEPT_IF: dict[str, Callable[..., bool]] = {}
# The random operations of `frontends.ir`.
DRAWN = ("dropout_mask", "uniform", "normal")
# The names of operations that only move elements. Their results are not wrapped to the width of
# torch's integer dtypes, because the elements already have this width.
MOVES: set[str] = set()


class Drawn:
    """The numbers of the random draws of a graph: the attribute `modifier` of their operations.

    `states` contains the state from which each node of torch's graph draws. Nodes with equal states
    get equal numbers, so that a part of a module which a checkpoint computes again draws the same
    random numbers again.
    """

    def __init__(self, states: Mapping[torch.fx.Node, Hashable]) -> None:
        self.states = states
        self._numbers: dict[Hashable, list[int]] = {}

    def number(self, graph: Ir, node: torch.fx.Node, draw: int) -> int:
        """Return the number of the draw `draw` of a node, which draws several times in order.

        A new number is the number of random operations in the graph, plus 1.
        """
        numbers = self._numbers.setdefault(self.states.get(node, node), [])
        if draw == len(numbers):
            numbers.append(sum(op.kind in DRAWN for op in graph.ops) + 1)
        return numbers[draw]


class Results:
    """The dtypes and shapes of the results of a node of torch's graph.

    - `node`: the node.
    - `tensors`: torch's fake tensors, which have a shape but no elements.
    - `dtypes`: the dtypes on the device, or None for a dtype that the device does not support.
    - `shapes`: the shapes.
    """

    def __init__(
        self,
        node: torch.fx.Node,
        dtype_of: Callable[[torch.dtype], Kind | None],
        drawn: Drawn,
    ) -> None:
        fake_result = node.meta.get("val")
        self.node = node
        self.tensors = (
            list(fake_result) if isinstance(fake_result, (list, tuple)) else [fake_result]
        )
        self.dtypes = [dtype_of(t.dtype) if hasattr(t, "dtype") else None for t in self.tensors]
        self.shapes = [tuple(t.shape) if hasattr(t, "shape") else () for t in self.tensors]
        self._dtype_of = dtype_of
        self._drawn = drawn
        self._draws = 0

    def next_draw(self, graph: Ir) -> int:
        """Return the number of the node's next random draw."""
        self._draws += 1
        return self._drawn.number(graph, self.node, self._draws - 1)

    @property
    def dtype(self) -> Kind:
        """The device's dtype of the first result.

        The caller has checked that the device supports the dtype.
        """
        dtype = self.dtypes[0]
        assert dtype is not None, "the lowering refuses other dtypes"
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.shapes[0]

    def example(self, place: int) -> private.Argument:
        """Return argument number `place` of the node: a fake tensor, or a number."""
        argument = self.node.args[place]
        return argument.meta["val"] if hasattr(argument, "meta") else argument

    def promoted(self) -> tuple[torch.dtype, Kind]:
        """Return `(torch dtype, device dtype)`: the dtype to which the first two arguments promote.

        :raises Unfit: if the device does not support this dtype.
        """
        common = torch.result_type(self.example(0), self.example(1))
        dtype = self._dtype_of(common)
        if dtype is None:
            raise Unfit(
                f"the result would be computed in {common}, which the device does not support",
                "convert both operands to torch.float32: x.float().",
            )
        return common, dtype


def row(
    *names: str,
    saves: bool = False,
    kept: bool | Callable[..., bool] = False,
    moves: bool = False,
) -> Callable[[AnyRow], AnyRow]:
    """Return a decorator that registers a lowering function for several torch operations.

    - `saves`: whether the function has the argument `saved`. The names are added to `SAVING`.
    - `kept`: whether torch must not decompose the operations. True adds the names to `KEPT`. A
      function, which decides for each call, is stored in `KEPT_IF`.
    - `moves`: whether the operations only move elements. The names are added to `MOVES`.
    """

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


def as_bool(graph: Ir, x: Operand) -> Value:
    """Return a BOOL value: False where `x` is 0, and True elsewhere, also where `x` is NaN."""
    if not isinstance(x, Value):
        return graph.constant(bool(x), BOOL)
    if x.dtype is BOOL:
        return x
    if x.number is not None:
        return graph.constant(x.number != 0, BOOL, x.shape)
    return graph.op("neq", x, graph.constant(0, x.dtype))


def as_dtype(graph: Ir, x: Operand, dtype: Kind) -> Value:
    """Return a value or a number in the dtype `dtype`, converted as `torch.Tensor.to` does."""
    if dtype is BOOL:
        return as_bool(graph, x)
    if isinstance(x, Value):
        return graph.cast(x, dtype)
    if dtype in (INT, UNSIGNED_INT) and isinstance(x, float) and np.isfinite(x):
        x = int(x)
    return graph.constant(x, dtype)


def number_in(common: torch.dtype, number: Operand) -> Operand:
    """Return `number` as torch stores it in the dtype `common`: small integer types wrap."""
    narrow = (torch.uint8, torch.int8, torch.int16)
    if isinstance(number, int) and not isinstance(number, bool) and common in narrow:
        wrapped: int = torch.tensor(number).to(common).item()
        return wrapped
    return number


def numeric(graph: Ir, x: Value) -> Value:
    """Return `x`, with BOOL converted to INT, for operations that do not accept BOOL."""
    return graph.cast(x, INT) if x.dtype is BOOL else x


def is_float(dtype: Kind) -> bool:
    """Return whether a dtype is FLOAT or HALF."""
    return dtype in (FLOAT, HALF)


# --- shapes ---------------------------------------------------------------------------------------


def reshape(graph: Ir, x: Value, shape: Ints) -> Value:
    """Return `x` with the shape `shape`, which has the same number of elements."""
    return x if tuple(shape) == x.shape else graph.op("reshape", x, shape=tuple(shape))


def expand(graph: Ir, x: Value, shape: Ints) -> Value:
    """Return `x` broadcast to `shape`."""
    return x if tuple(shape) == x.shape else graph.op("expand", x, shape=tuple(shape))


def permute(graph: Ir, x: Value, order: Ints) -> Value:
    """Return `x` with its dimensions in the order `order`."""
    order = tuple(d % len(order) for d in order)
    return x if order == tuple(range(len(order))) else graph.op("permute", x, dims=order)


def move_dimension(graph: Ir, x: Value, source: int, target: int) -> Value:
    """Return `x` with dimension `source` moved to position `target`."""
    rank = len(x.shape)
    order = [d for d in range(rank) if d != source % rank]
    order.insert(target % rank, source % rank)
    return permute(graph, x, order)


def slice_dimension(
    graph: Ir,
    x: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """Return the part of `x` that the slice `start:end:step` selects along dimension `dim`."""
    length = x.shape[dim]
    begin, stop, _ = slice(start, end).indices(length)
    if (begin, stop, step) == (0, length, 1):
        return x
    attributes = {"begin": begin, "end": max(begin, stop)}
    if step != 1:
        attributes["step"] = step
    return graph.op("slice", x, dim=dim % len(x.shape), **attributes)


def first_elements(graph: Ir, x: Value, shape: Ints) -> Value:
    """Return the first `shape[d]` elements of `x` along each dimension d."""
    for dim, length in enumerate(shape):
        x = slice_dimension(graph, x, dim, end=length)
    return x


def concatenate(graph: Ir, parts: Sequence[Value], dim: int) -> Value:
    """Return the concatenation of `parts` along `dim`; parts without elements are left out."""
    parts = [part for part in parts if part.size] or list(parts[:1])
    return parts[0] if len(parts) == 1 else graph.op("concat", *parts, dim=dim)


def as_rows(graph: Ir, x: Value, dim: int) -> Value:
    """Return `x` as [rows, n], where n is the length of `dim`. A scalar becomes [1, 1]."""
    dim_last = move_dimension(graph, x, dim, -1) if x.shape else reshape(graph, x, (1,))
    row_length = dim_last.shape[-1]
    return reshape(graph, dim_last, (x.size // max(row_length, 1), row_length))


def from_rows(graph: Ir, rows: Value, like: Value, dim: int) -> Value:
    """Undo `as_rows`: return `rows` [rows, k] in the shape of `like` with length k along `dim`."""
    if not like.shape:
        return reshape(graph, rows, ())
    other_lengths = [n for d, n in enumerate(like.shape) if d != dim % len(like.shape)]
    return move_dimension(graph, reshape(graph, rows, (*other_lengths, rows.shape[-1])), -1, dim)


def dimensions(x: Value, dim: Dims) -> list[int]:
    """Return the dimensions of a reduction of `x` as a list of numbers from 0.

    If `dim` is None or empty, return all dimensions.
    """
    if not x.shape or dim is None or dim in ([], ()):
        return [*range(len(x.shape))]
    return [d % len(x.shape) for d in ([dim] if isinstance(dim, int) else dim)]


def size_along(x: Value, dim: int) -> int:
    """Return the length of dimension `dim` of `x`; 1 for a scalar."""
    return x.shape[dim] if x.shape else 1


def along_axis(x: Array, rank: int, dim: int) -> Array:
    """Return a vector as an array of `rank` dimensions, of length 1 except dimension `dim`."""
    return np.reshape(x, [-1 if d == dim % rank else 1 for d in range(rank)])
