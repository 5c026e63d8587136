"""The table of lowering functions by torch's operation names, and helpers for these functions.

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
from ipu_teach.frontends.ir.dimensions import move_dimension
from ipu_teach.frontends.pytorch import private
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, Array, DType

Kind = type[DType]
Ints = Sequence[int]
Dims = Ints | int | None  # None means all dimensions.
Operand = Value | float  # A tensor or a number.
# An argument of a lowering function: a `Value` in place of a tensor, or torch's argument itself.
Argument: TypeAlias = "Operand | torch.dtype | str | Sequence[Argument] | None"
RowFunction = Callable[..., Value | Sequence[Value | None]]
# A dict that maps the means of a norm to (the normalised x, 1 / sqrt(variance + eps)).
Saved = dict[Value, tuple[Value, Value]]
AnyRow = TypeVar("AnyRow", bound=RowFunction)

ROWS: dict[str, RowFunction] = {}
# The names of operations whose functions have the argument `saved`, a dict of type `Saved`.
SAVING: set[str] = set()
# The names of operations that torch must not decompose into simpler operations.
KEPT: set[str] = set()
# Maps the name of an operation to a function. Torch must not decompose a call of the operation if
# the function returns True for the arguments of the call.
KEPT_IF: dict[str, Callable[..., bool]] = {}
# The operations of `frontends.ir` that return random numbers.
DRAWN = ("dropout_mask", "uniform", "normal")
# The names of operations that only move elements. Their results are not wrapped to the width of an
# integer dtype of torch, because the elements already have this width.
MOVES: set[str] = set()


class Drawn:
    """The values of the attribute `modifier` for a graph's random operations.

    `states` contains the state of the random generator for each random node of torch's graph. Nodes
    with equal states get equal modifiers. Therefore, a part of a module that a checkpoint
    recomputes gets the same random numbers again.
    """

    def __init__(self, states: Mapping[torch.fx.Node, Hashable]) -> None:
        self.states = states
        self._numbers: dict[Hashable, list[int]] = {}

    def number(self, graph: Ir, node: torch.fx.Node, draw: int) -> int:
        """Return the attribute `modifier` for a random operation of a node.

        `draw` is the index of the operation among the random operations of the node. A new modifier
        is the number of random operations in the graph, plus 1.
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
    - `shapes`: the shapes of the results.
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
        """Return the value of the attribute `modifier` for the node's next random operation."""
        self._draws += 1
        return self._drawn.number(graph, self.node, self._draws - 1)

    @property
    def dtype(self) -> Kind:
        """The device's dtype of the first result, which the device must support."""
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
    - `kept`: whether torch must not decompose the operations. If it is True, the names are added to
      `KEPT`. It may also be a function that decides for each call; the function is stored in
      `KEPT_IF`.
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
    """Return a value or a number converted to `dtype`, as `torch.Tensor.to` converts it."""
    if dtype is BOOL:
        return as_bool(graph, x)
    if isinstance(x, Value):
        return graph.cast(x, dtype)
    if dtype in (INT, UNSIGNED_INT) and isinstance(x, float) and np.isfinite(x):
        x = int(x)
    return graph.constant(x, dtype)


def number_in(common: torch.dtype, number: Operand) -> Operand:
    """Return `number` as torch stores it in the dtype `common`.

    An integer that is too large for a small integer dtype wraps around.
    """
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
    """Return the part of `x` with the shape `shape` that begins at its first element."""
    for dim, length in enumerate(shape):
        x = slice_dimension(graph, x, dim, end=length)
    return x


def concatenate(graph: Ir, parts: Sequence[Value], dim: int) -> Value:
    """Return the concatenation of `parts` along `dim`, without the parts that have no elements."""
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
    """Return the dimensions of a reduction of `x` as a list of numbers that count from 0.

    If `dim` is None or empty, return all dimensions.
    """
    if not x.shape or dim is None or dim in ([], ()):
        return [*range(len(x.shape))]
    return [d % len(x.shape) for d in ([dim] if isinstance(dim, int) else dim)]


def size_along(x: Value, dim: int) -> int:
    """Return the length of dimension `dim` of `x`; 1 for a scalar."""
    return x.shape[dim] if x.shape else 1


def along_axis(x: Array, rank: int, dim: int) -> Array:
    """Return a vector, reshaped to `rank` dimensions so that it extends along dimension `dim`.

    The other dimensions have the length 1.
    """
    return np.reshape(x, [-1 if d == dim % rank else 1 for d in range(rank)])
