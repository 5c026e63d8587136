"""Variables: named pieces of a graph's one flat memory, and their initial values."""

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

# The number of bytes in a cache line. Variables start on a cache line, so that every dtype is
# aligned.
ALIGNMENT = 64
# The maximum number of bytes in a graph: more than any machine has, and few enough that no address
# overflows.
MOST_BYTES = 2**48
REPLICA = r", replica (\d+) of (\d+)"  # The pattern at the end of the name of a replica's variable.
_OF = re.compile(f"{REPLICA}$")


@dataclass(frozen=True)
class Variable:
    """A named piece of memory.

    `start` and `stop` are byte addresses in the graph's one flat memory. `state` is True for the
    hidden memory of a codelet's state fields, which is on the tiles of its vertices. `line` is the
    learner's line that added the variable.
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
    """A piece of a variable: `interval` is (begin, end) in elements of the flat variable."""

    var: Variable
    interval: tuple[int, int]


class Variables:
    """The variables of one graph, one after another, and their initial values."""

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
        """Let the addresses of this empty graph begin after the memory of all replicas.

        `below` contains the variables of one replica. The memory of each of `count` replicas is an
        image of the memory of `below`, and the images start `distance` bytes apart.
        """
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
        """Return the description of a new variable at the next free address, without adding it.

        Raises `TensorCreationError` and `PoplarTypeError`.
        """
        kind_name = "constant" if constant else "variable"
        label = name if name is not None else f"{kind_name}{len(self.all)}"
        dtype = as_dtype(dtype, f"The {kind_name} {label!r}")
        checked_shape = as_shape(shape)
        if checked_shape is None:
            raise TensorCreationError(f"""The {kind_name} {label!r} was given the shape
                {shown(shape)}, which is not valid.
                next:  a shape is a tuple of at most {MOST_DIMENSIONS} whole numbers, none negative,
                as in (26, 64).""")
        first_byte = self.memory_bytes
        end_byte = first_byte + prod(checked_shape) * dtype.size
        if (
            first_byte % self._apart + prod(max(length, 1) for length in checked_shape) * dtype.size
            > MOST_BYTES
        ):
            raise TensorCreationError(f"""The {kind_name} {label!r} of shape {shown(checked_shape)}
                is too large.
                where: all tiles of the target together hold
                {target.num_tiles * target.bytes_per_tile:,} bytes; a graph may describe
                {MOST_BYTES:,}
                next:  check the shape: its numbers are lengths, in elements.""")
        return Variable(
            len(self.all),
            label,
            dtype,
            checked_shape,
            start=first_byte,
            stop=end_byte,
            constant=constant,
            line=caller(),
        )

    def add(self, variable: Variable) -> None:
        """Add a variable that `check` returned, at its address."""
        self.memory_bytes = -(-variable.stop // ALIGNMENT) * ALIGNMENT
        self.all.append(variable)
        self._starts.append(variable.start)
        if variable.constant:
            self._constants.append(variable)

    def at(self, byte: int) -> Variable:
        """Return the variable that contains a byte address.

        In the top-level graph of replicas, an address in the memory of any replica belongs to a
        variable of the graph of one replica.
        """
        number = bisect_right(self._starts, byte) - 1
        if number < 0 and self._below is not None:
            return self._below.at(byte % self._apart)
        return self.all[number]

    def map(self) -> TileMap:
        """Return a tile map that contains each byte's variable number in place of its tile."""
        if len(self._map.start) != len(self.all):
            self._map = TileMap(
                np.array(self._starts, np.int64), np.arange(len(self.all), dtype=np.int32)
            )
        return self._map

    def constants_in(self, tensor: Tensor) -> list[Variable]:
        """Return the constants that contain an element of `tensor`."""
        if not tensor.num_elements or not self._constants:
            return []
        lowest, highest = tensor.layout.bounds
        first_constant = bisect_right(
            self._constants, (tensor.offset + lowest) * tensor.dtype.size, key=attrgetter("stop")
        )
        end_constant = bisect_left(
            self._constants,
            (tensor.offset + highest + 1) * tensor.dtype.size,
            key=attrgetter("start"),
        )
        candidates = self._constants[first_constant:end_constant]
        starts, stops = tensor.byte_extent() if candidates else (lowest, highest)
        return [
            constant
            for constant in candidates
            if np.any((starts < constant.stop) & (stops > constant.start))
        ]

    def refuse_constant(self, tensor: Tensor, call: str) -> None:
        """Raise `GraphObjectCreationError` if `call` would write to a constant in `tensor`."""
        for v in self.constants_in(tensor):
            raise GraphObjectCreationError(f"""{call} would write to the constant {v.name!r}.
                where: {tensor!r}
                next:  create the tensor with graph.add_variable, or give its values in
                graph.add_constant.""")

    def describe(self, tensor: Tensor) -> str:
        """Return a tensor's description for error messages, such as "'x'" or "a view of 'x'"."""
        if not self.all and self._below is None:
            return "tensor"
        if tensor.num_elements == 0:
            return "empty tensor"
        lowest, highest = tensor.layout.bounds
        element_bytes = tensor.dtype.size
        first_variable = self.at((tensor.offset + lowest) * element_bytes)
        last_variable = self.at((tensor.offset + highest) * element_bytes)
        name = first_variable.name
        num_replicas = 1
        if first_variable is not last_variable:
            name, num_replicas = without_replica(first_variable.name)
            if num_replicas == 1 or (name, num_replicas) != without_replica(last_variable.name):
                return f"a view of {first_variable.name!r} and others"
        is_complete = tensor.num_elements == prod(first_variable.shape) * num_replicas
        return f"{name!r}" if is_complete else f"a view of {name!r}"


def of_replica(name: str, number: int, count: int) -> str:
    """Return the name of an object in replica `number` of `count`.

    If `count` is 1, return `name` unchanged.
    """
    return f"{name}, replica {number} of {count}" if count > 1 else name


def without_replica(name: str) -> tuple[str, int]:
    """Return the common name of a variable in all replicas, and the number of replicas.

    The number is 1 if the variable belongs to no replica.
    """
    match = _OF.search(name)
    return (name[: match.start()], int(match[2])) if match else (name, 1)


def host_values(values: ArrayLike, dtype: type[DType], shape: Shape, subject: str) -> Array:
    """Return the host values for a tensor of `shape`.

    `values` is one number, which is broadcast without a copy, or an array with a number for each
    element. Raises `TensorCreationError`, which names `subject`.
    """
    array = to_host_array(values, dtype, subject)
    if array.size == prod(shape):
        return array.reshape(shape)
    if array.size == 1:
        return np.broadcast_to(array.reshape(()), shape)
    raise TensorCreationError(f"""{subject} has {prod(shape):,} elements, but was given
        {array.size:,} values.
        next:  give one number for all of them, or one for each.""")
