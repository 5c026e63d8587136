"""Symbolic tensors, on which the `call` of a user-defined layer computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ipu_teach.arguments import Argument, is_numeric
from ipu_teach.errors import shown
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, DType

if TYPE_CHECKING:
    from ipu_teach.frontends.keras.layers.base import Layer

DTYPE_NAMES: dict[type[DType], str] = {
    FLOAT: "float32",
    HALF: "float16",
    INT: "int32",
    UNSIGNED_INT: "uint32",
    BOOL: "bool",
}


class Operators:
    """The operators of tensors and weights: arithmetic, comparisons and slices."""

    # With None, an operator on a numpy array and a tensor calls the method of this class.
    __array_ufunc__ = None

    def in_graph(self, graph: Ir | None) -> Value:
        """Return this tensor or weight as a value of the graph that is being built."""
        raise NotImplementedError

    def _op(self, kind: str, other: Argument, is_reversed: bool = False) -> Tensor:
        graph, training = graph_of(self, other)
        operands = [raw(graph, self), raw(graph, other, like=self)]
        return Tensor(
            graph, operation(graph, kind, *operands[:: -1 if is_reversed else 1]), training
        )

    def __add__(self, other: Argument) -> Tensor:
        return self._op("add", other)

    def __radd__(self, other: Argument) -> Tensor:
        return self._op("add", other, True)

    def __sub__(self, other: Argument) -> Tensor:
        return self._op("sub", other)

    def __rsub__(self, other: Argument) -> Tensor:
        return self._op("sub", other, True)

    def __mul__(self, other: Argument) -> Tensor:
        return self._op("mul", other)

    def __rmul__(self, other: Argument) -> Tensor:
        return self._op("mul", other, True)

    def __truediv__(self, other: Argument) -> Tensor:
        return self._op("div", other)

    def __rtruediv__(self, other: Argument) -> Tensor:
        return self._op("div", other, True)

    def __pow__(self, other: Argument) -> Tensor:
        return self._op("pow", other)

    def __matmul__(self, other: Argument) -> Tensor:
        return self._op("matmul", other)

    def __rmatmul__(self, other: Argument) -> Tensor:
        return self._op("matmul", other, True)

    def __gt__(self, other: Argument) -> Tensor:
        return self._op("gt", other)

    def __ge__(self, other: Argument) -> Tensor:
        return self._op("gteq", other)

    def __lt__(self, other: Argument) -> Tensor:
        return self._op("lt", other)

    def __le__(self, other: Argument) -> Tensor:
        return self._op("lteq", other)

    def __neg__(self) -> Tensor:
        graph, training = graph_of(self)
        return Tensor(graph, graph.op("neg", raw(graph, self)), training)

    def __abs__(self) -> Tensor:
        graph, training = graph_of(self)
        return Tensor(graph, graph.op("abs", raw(graph, self)), training)

    def __getitem__(self, key: Argument) -> Tensor:
        graph, training = graph_of(self)
        return Tensor(graph, sliced(graph, raw(graph, self), key), training)

    def __bool__(self) -> NoReturn:
        raise _valueless("was used as a condition", "use keras.ops.where(condition, a, b).")

    def __float__(self) -> NoReturn:
        raise _valueless("was converted to a number", "compute with the tensor.")

    def __array__(self, *_: Argument, **__: Argument) -> NoReturn:
        raise _valueless(
            "was passed to numpy", "use the functions of keras.ops, such as keras.ops.exp(x)."
        )

    def __iter__(self) -> NoReturn:
        raise _valueless("was iterated over", "use slices such as x[:, 0].")


class Tensor(Operators):
    """A tensor without elements, with which the `call` of a user's layer builds a graph.

    - `graph`: the graph.
    - `value`: the value of the graph.
    - `training`: whether the graph is for training.
    """

    def __init__(self, graph: Ir, value: Value, training: bool = False) -> None:
        self.graph = graph
        self.value = value
        self.training = training

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, with the batch dimension."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.value.shape)

    @property
    def dtype(self) -> str:
        """The name of the dtype, such as "float32"."""
        return DTYPE_NAMES[self.value.dtype]

    def in_graph(self, graph: Ir | None) -> Value:
        return self.value

    def __repr__(self) -> str:
        return f"<Tensor of shape {list(self.shape)}, {self.dtype}>"


class Weight(Operators):
    """A weight of a layer, as `add_weight` returns it.

    - `layer`: the layer.
    - `name`: the name of the weight within the layer.
    """

    def __init__(self, layer: Layer, name: str) -> None:
        self.layer = layer
        self.name = name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weight."""
        return self.layer.weights[self.name].shape

    def numpy(self) -> Any:
        """Return a copy of the elements that the host has."""
        return np.array(self.layer.weights[self.name])

    def in_graph(self, graph: Ir | None) -> Value:
        return self.layer.in_graph(self.name)

    def __repr__(self) -> str:
        return f"<Weight {self.name} of shape {list(self.shape)}>"


def _valueless(event: str, advice: str) -> Exception:
    return misuse(f"A tensor {event}, but it has elements only while the device runs.", advice)


_context: list[tuple[Ir, bool]] = []  # The graphs to which layers are being added, innermost last.


@contextmanager
def building(graph: Ir, training: bool) -> Iterator[None]:
    """Make weights and numbers in the `with` block belong to `graph`, which is being built."""
    _context.append((graph, training))
    try:
        yield
    finally:
        _context.pop()


def graph_of(*items: Argument) -> tuple[Ir, bool]:
    """Return the graph of the first tensor in `items`, and whether this graph is for training.

    If there is no tensor, return the graph to which a layer is being added.
    """
    for item in items:
        if isinstance(item, Tensor):
            return item.graph, item.training
        if isinstance(item, (list, tuple)):
            with_tensor = [t for t in item if isinstance(t, Tensor)]
            if with_tensor:
                return with_tensor[0].graph, with_tensor[0].training
    if not _context:
        raise misuse(
            "A weight or a number was used outside of call(), where there is no graph.",
            "compute with it in call().",
        )
    return _context[-1]


def raw(graph: Ir, item: Argument, like: Argument = None) -> Value:
    """Return a tensor, weight, number or array as a value of the graph.

    Numbers and arrays become constants of the dtype of `like`, or of FLOAT.

    :raises ModelError: for anything else.
    """
    if isinstance(item, Operators):
        return item.in_graph(graph)
    if isinstance(item, Value):
        return item
    if not is_numeric(item):
        raise misuse(
            f"A function of keras.ops or a layer was given {shown(item)}, which is not a tensor.",
            "pass tensors, weights of the layer, numbers or arrays.",
        )
    dtype = raw(graph, like).dtype if like is not None else FLOAT
    array = np.asarray(item)
    if dtype in (INT, UNSIGNED_INT, BOOL) and array.dtype.kind == "f":
        dtype = FLOAT
    return graph.constant(array, dtype)


def operation(graph: Ir, kind: str, *operands: Value) -> Value:
    """Cast the operands to the dtype of the wider one, and return the result of an operation."""
    order = (HALF, FLOAT) if any(v.floating for v in operands) else (BOOL, UNSIGNED_INT, INT)
    dtype = max((v.dtype for v in operands if v.dtype in order), key=order.index)
    return graph.op(kind, *(graph.cast(v, dtype) for v in operands))


def sliced(graph: Ir, x: Value, key: Argument) -> Value:
    """Return x[key] for integers, slices, ... and None, as in numpy.

    :raises ModelError: for an index of another kind, and for an index that is out of range.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    taken = sum(item is not None and item is not Ellipsis for item in keys)
    if Ellipsis in [k for k in keys if not isinstance(k, Operators)]:
        place = next(i for i, item in enumerate(keys) if item is Ellipsis)
        keys[place : place + 1] = [slice(None)] * (len(x.shape) - taken)
    shape: list[int] = []
    dim = 0
    for item in keys:
        if item is None:
            shape.append(1)
            continue
        if dim >= len(x.shape):
            raise _bad_index(x, key)
        length = x.shape[dim]
        if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            if not -length <= item < length:
                raise _bad_index(x, key)
            x = graph.op("slice", x, dim=dim, begin=int(item) % length, end=int(item) % length + 1)
        elif isinstance(item, slice):
            begin, end, step = item.indices(length)
            x = _range(graph, x, dim, begin=begin, end=end, step=step)
            shape.append(x.shape[dim])
        else:
            raise _bad_index(x, key)
        dim += 1
    return graph.op("reshape", x, shape=(*shape, *x.shape[dim:]))


def _range(graph: Ir, x: Value, dim: int, *, begin: int, end: int, step: int) -> Value:
    """Return the elements begin, begin + step, … of a dimension; `end` is not included."""
    places = range(begin, end, step)
    if step < 0:
        x = graph.op("reverse", x, dim=dim)
        places = range(x.shape[dim] - 1 - begin, x.shape[dim] - 1 - end, -step)
    step_option = {"step": abs(step)} if abs(step) > 1 else {}
    return graph.op(
        "slice", x, dim=dim, begin=places.start, end=max(places.stop, places.start), **step_option
    )


def _bad_index(x: Value, key: Argument) -> Exception:
    return misuse(
        f"A tensor of shape {list(x.shape)} was given the index {shown(key)}.",
        "use integers and slices in range, such as x[:, 0] or x[:, 1:3].",
    )
