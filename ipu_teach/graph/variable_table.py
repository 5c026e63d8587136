"""Variables: named pieces of a graph's one flat memory, and what the host puts into them at
first."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.errors import GraphObjectCreationError, TensorCreationError, shown
from ipu_teach.graph.layouts import MOST_DIMENSIONS, Shape, as_shape
from ipu_teach.graph.source import NOWHERE, Line, caller
from ipu_teach.graph.tile_map import TileMap
from ipu_teach.types import Array, DType, as_dtype, to_host_array

if TYPE_CHECKING:
    from ipu_teach.graph.tensor import Tensor
    from ipu_teach.target import Target

ALIGNMENT = 64  # bytes; a variable starts on a cache line, so that every dtype is aligned in it
# of one graph: more than any machine has, and small enough that no address overflows
MOST_BYTES = 2**48
_OF = re.compile(r", replica (\d+) of (\d+)$")


@dataclass(frozen=True)
class Variable:
    """A named piece of memory: `start` and `stop` are byte addresses in the graph's one flat
    memory.

    `state` marks the hidden memory of a codelet's state fields, which is on the tiles of its
    vertices. `line` is the learner's line that added it.
    """

    id: int
    name: str
    dtype: type[DType]
    shape: Shape
    start: int
    stop: int
    constant: bool
    state: bool = False
    line: Line = field(default=NOWHERE, compare=False)

    def __repr__(self) -> str:
        kind = "Constant" if self.constant else "Variable"
        return (
            f"{kind}({self.name!r}, {self.dtype.__name__}, shape {self.shape}, "
            f"{self.stop - self.start:,} bytes)"
        )


class VariableInterval(NamedTuple):
    """A piece of a variable: `interval` is (begin, end) in elements of the variable seen flat."""

    var: Variable
    interval: tuple[int, int]


class Variables:
    """The variables of one graph, side by side, and the values that some of them are given when an
    engine is loaded."""

    def __init__(self) -> None:
        self.all: list[Variable] = []
        self.initial_values: list[tuple[Tensor, Array]] = []
        self.memory_bytes = 0
        self._starts = array("q")
        self._constants: list[Variable] = []
        self._map = TileMap(np.zeros(0, np.int64), np.zeros(0, np.int32))
        self._below: Variables | None = None
        self._apart = 2 * MOST_BYTES

    def follow(self, below: Variables, distance: int, count: int) -> None:
        """Begin, still empty, above `count` images of the variables `below`, `apart` bytes from
        each other."""
        self._below = below
        self._apart = distance
        self.memory_bytes = distance * count

    def check(
        self,
        target: Target,
        dtype: type[DType],
        shape: int | Sequence[int],
        name: str | None,
        constant: bool,
    ) -> Variable:
        """Return the description of a new variable, at the next free address; nothing is changed
        yet."""
        kind = "constant" if constant else "variable"
        label = name if name is not None else f"{kind}{len(self.all)}"
        dtype = as_dtype(dtype, f"The {kind} {label!r}")
        dims = as_shape(shape)
        if dims is None:
            raise TensorCreationError(f"""The {kind} {label!r} was given the shape {shown(shape)}.
                next:  a shape is a tuple of at most {MOST_DIMENSIONS} whole numbers, none negative,
                as in (26, 64).""")
        start = self.memory_bytes
        stop = start + prod(dims) * dtype.size
        if start % self._apart + prod(max(n, 1) for n in dims) * dtype.size > MOST_BYTES:
            raise TensorCreationError(f"""The {kind} {label!r} of shape {shown(dims)} is too large.
                where: all tiles of the target together hold
                {target.num_tiles * target.bytes_per_tile:,} bytes; a graph may describe
                {MOST_BYTES:,}
                next:  check the shape: its numbers are lengths, in elements.""")
        return Variable(len(self.all), label, dtype, dims, start, stop, constant, line=caller())

    def add(self, variable: Variable) -> None:
        """Give a checked variable its place."""
        self.memory_bytes = -(-variable.stop // ALIGNMENT) * ALIGNMENT
        self.all.append(variable)
        self._starts.append(variable.start)
        if variable.constant:
            self._constants.append(variable)

    def at(self, byte: int) -> Variable:
        """Return the variable that holds a byte address, or has an image there."""
        number = bisect_right(self._starts, byte) - 1
        if number < 0 and self._below is not None:
            return self._below.at(byte % self._apart)
        return self.all[number]

    def map(self) -> TileMap:
        """Return which variable holds which byte, in the form of a tile map with variables' numbers
        for tiles."""
        if len(self._map.start) != len(self.all):
            self._map = TileMap(
                np.array(self._starts, np.int64), np.arange(len(self.all), dtype=np.int32)
            )
        return self._map

    def constants_in(self, tensor: Tensor) -> list[Variable]:
        """Return the constants of which `tensor` holds some element."""
        if not tensor.num_elements or not self._constants:
            return []
        low, high = tensor.layout.bounds
        first = bisect_right(
            self._constants, (tensor.offset + low) * tensor.dtype.size, key=attrgetter("stop")
        )
        end = bisect_left(
            self._constants, (tensor.offset + high + 1) * tensor.dtype.size, key=attrgetter("start")
        )
        near = self._constants[first:end]
        start, stop = tensor.byte_extent() if near else (low, high)
        return [v for v in near if np.any((start < v.stop) & (stop > v.start))]

    def refuse_constant(self, tensor: Tensor, call: str) -> None:
        """Nobody may write to a constant once it is made."""
        for v in self.constants_in(tensor):
            raise GraphObjectCreationError(f"""{call} would write to the constant {v.name!r}.
                where: {tensor!r}
                next:  make it with graph.add_variable, or give its values in
                graph.add_constant.""")

    def describe(self, tensor: Tensor) -> str:
        """Return the tensor in words for an error: its variable, and what part of it."""
        if not self.all and self._below is None:
            return "tensor"
        if tensor.num_elements == 0:
            return "empty tensor"
        low, high = tensor.layout.bounds
        size = tensor.dtype.size
        first = self.at((tensor.offset + low) * size)
        last = self.at((tensor.offset + high) * size)
        name, count = (first.name, 1) if first is last else without_replica(first.name)
        if first is not last and (count == 1 or (name, count) != without_replica(last.name)):
            return f"a view of {first.name!r} and others"
        is_complete = tensor.num_elements == prod(first.shape) * count
        return f"{name!r}" if is_complete else f"a view of {name!r}"


def of_replica(name: str, number: int, count: int) -> str:
    """Return what something is called that is of a replica, if there are several."""
    return f"{name}, replica {number} of {count}" if count > 1 else name


def without_replica(name: str) -> tuple[str, int]:
    """Return (the name that all replicas of a variable have in common, how many there are: 1 where
    it is of no replica)."""
    match = _OF.search(name)
    return (name[: match.start()], int(match[2])) if match else (name, 1)


def host_values(values: ArrayLike, dtype: type[DType], shape: Shape, subject: str) -> Array:
    """Return the host values for a tensor of `shape`: one number, which is spread over it without a
    copy, or one for each element."""
    array = to_host_array(values, dtype, subject)
    if array.size == prod(shape):
        return array.reshape(shape)
    if array.size == 1:
        return np.broadcast_to(array.reshape(()), shape)
    raise TensorCreationError(f"""{subject} has {prod(shape):,} elements and was given
        {array.size:,} values.
        next:  give one number for all of them, or one for each.""")
