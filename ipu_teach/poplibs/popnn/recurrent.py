"""The common parts of LSTM and GRU layers: parameters, tensors of a sequence, and the time loop.

A layer is one loop, a `Repeat`. The body of the loop is the program of a single time step, which
consists of matrix products and elementwise operations. The loop's counter, a number on tile 0,
selects the slices of the sequences.

The elements of a time step are distributed over the tiles in grains, as in PopLibs (popnn/Rnn.cpp).
A grain consists of 16 neighbouring units of one sample. An element is on the same tile in all time
steps and in all tensors of the layer, so elementwise operations and slices exchange nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from math import gcd, prod
from typing import Any, Generic, TypeVar

from ipu_teach.errors import shown
from ipu_teach.graph import Graph, Shape, Tensor, concat
from ipu_teach.poplibs.library import (
    as_given,
    check_mapped,
    check_same,
    check_tensor,
    is_count,
    refused,
)
from ipu_teach.poplibs.options import Option, Options, Settled, settled
from ipu_teach.poplibs.poplin import (
    PlanningCache,
    create_mat_mul_input_lhs,
    create_mat_mul_input_rhs,
    mat_mul,
    mat_mul_acc,
    plan_mat_mul,
    transpose,
)
from ipu_teach.poplibs.popnn.kinds import NonLinearityType, kind_of
from ipu_teach.poplibs.popops import (
    add_in_place,
    cast,
    dynamic_slice,
    dynamic_update,
    fill,
    reduce_with_output,
    sub_in_place,
    zero,
)
from ipu_teach.poplibs.poputil import clone
from ipu_teach.program import Copy, Repeat, Sequence as Program
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, DType

GRAIN = 16  # As in PopLibs, 16 units of a sample are on one tile.
ACTIVATIONS = ("RELU", "SIGMOID", "HARD_SIGMOID", "TANH")
OPTIONS = (
    Option("availableMemoryProportion", float, 0.6, 0.0, 1.0),
    # This option has no effect, because the plans of products are the same in inference and in
    # training.
    Option("inferenceOnly", bool, False, effect=False),
    Option("partialsType", FLOAT, FLOAT),
)
Unit = TypeVar("Unit", bound=Enum)
SIZE = "give a whole number of 1 or more."


@dataclass(frozen=True)
class LayerParams:
    """The parameters that LSTM and GRU layers have in common."""

    dtype: type[DType]
    batch_size: int
    time_steps: int
    layer_sizes: Sequence[int]
    activation: Any = NonLinearityType.TANH
    recurrent_activation: Any = NonLinearityType.SIGMOID
    _: KW_ONLY
    output_full_sequence: bool = True
    calc_input_gradients: bool = True

    @property
    def input_size(self) -> int:
        """The number of elements of a sample in a time step of the input."""
        return self.layer_sizes[0]

    @property
    def output_size(self) -> int:
        """The number of units of the layer, which is the number of elements of its output."""
        return self.layer_sizes[1]

    @property
    def input_shape(self) -> Shape:
        """The shape of the input: [time_steps, batch_size, input_size]."""
        return (self.time_steps, self.batch_size, self.input_size)

    @property
    def state_shape(self) -> Shape:
        """The shape of a state and of the output of a time step: [batch_size, output_size]."""
        return (self.batch_size, self.output_size)

    @property
    def output_shape(self) -> Shape:
        """The shape of the output: of all time steps, or of the last one."""
        every_step = (self.time_steps, *self.state_shape)
        return every_step if self.output_full_sequence else self.state_shape

    def check(self, flags: Sequence[str]) -> None:
        """Check the fields, and convert them to ints, tuples and `NonLinearityType`.

        `flags` contains the names of the fields that are flags. Call this in a library function.

        :raises PoplibsError: if a field is invalid.
        """
        if self.dtype is not FLOAT and self.dtype is not HALF:
            raise as_given(self.dtype, "dtype", "use FLOAT or HALF.")
        for name in ("batch_size", "time_steps"):
            if not is_count(getattr(self, name), 1):
                raise as_given(getattr(self, name), name, SIZE)
            self._set(name, int(getattr(self, name)))
        sizes = self.layer_sizes
        if not isinstance(sizes, (list, tuple)) or not all(is_count(size, 1) for size in sizes):
            raise as_given(sizes, "layer_sizes", "give [input size, output size].")
        if len(sizes) != 2:
            raise as_given(
                sizes, "layer_sizes", "give [input size, output size], and a layer for each pair."
            )
        self._set("layer_sizes", tuple(map(int, sizes)))
        for name in ("activation", "recurrent_activation"):
            kind = kind_of(getattr(self, name))
            if kind.name not in ACTIVATIONS:
                # The forward pass stores only outputs, and ACTIVATIONS are the kinds whose
                # gradients can be computed from their outputs.
                raise as_given(kind.name, name, f"use {' or '.join(ACTIVATIONS)}.")
            self._set(name, kind)
        for name in flags:
            if not isinstance(getattr(self, name), bool):
                raise as_given(getattr(self, name), name, "give True or False.")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def checked_order(order: object, units: type[Unit]) -> tuple[Unit, ...]:
    """Return `order`, the user's argument `cell_order`, as a tuple of members of `units`.

    :raises PoplibsError: if the list does not contain every member of `units` once.
    """
    members = list(order) if isinstance(order, (list, tuple)) else []
    if len(members) != len(units) or any(unit not in members for unit in units):
        names = ", ".join(unit.name for unit in units)
        raise refused(f"""was given {shown(order)} as cell_order.
            next:  give a list that contains each unit of {units.__name__} once: {names}.""")
    return tuple(members)


Params = TypeVar("Params", bound=LayerParams)


@dataclass(frozen=True)
class Layer(Generic[Params]):
    """The data that the functions of a layer need to build its programs.

    - `options`: the values of the call's options, by their names in PopLibs.
    - `cache`: the `PlanningCache` of the call, or None.
    - `name`: the name of the call, for debugging.
    """

    graph: Graph
    params: Params
    options: Settled
    cache: PlanningCache | None
    name: str

    @property
    def product_options(self) -> dict[str, Any]:
        """The options of all products of the layer, as keywords."""
        return {
            "partials_type": self.options["partialsType"],
            "available_memory_proportion": self.options["availableMemoryProportion"],
        }

    def swaps(self, rows: int, inner: int, columns: int) -> bool:
        """Return whether (b^T a^T)^T is faster than a b, for matrices of the given sizes.

        The matrix a is [rows, inner], and b is [inner, columns]. The swapped product is often
        faster if there are few rows: the matrix-multiply units then load the few rows as weights,
        and the many columns stream through these units. PopLibs' planner swaps operands, too
        ("swapOperands" in poplin/ConvPlan.cpp).
        """
        sizes = (rows, inner, columns), (columns, inner, rows)
        target, dtype = self.graph.target, self.params.dtype
        direct, swapped = (
            plan_mat_mul(*shape, target, dtype=dtype, **self.product_options).cycles
            for shape in sizes
        )
        return swapped < direct

    def product(self, a: Tensor, b: Tensor, prog: Program, name: str) -> Tensor:
        """Return the product of two matrices, in the dtype of the layer."""
        is_swapped = self.swaps(a.shape[0], a.shape[1], b.shape[1])
        if is_swapped:
            a, b = b.transpose(), a.transpose()
        product = mat_mul(
            self.graph,
            a,
            b,
            prog,
            f"{self.name}/{name}",
            cache=self.cache,
            **self.product_options,
        )
        return product.transpose() if is_swapped else product

    def operand(self, side: str, rows: int, inner: int, columns: int, name: str) -> Tensor:
        """Return a variable for an operand of `product`, mapped by the plan of this product.

        `side` is "a" for [rows, inner], or "b" for [inner, columns].
        """
        is_swapped = self.swaps(rows, inner, columns)
        if is_swapped:
            rows, columns = columns, rows
        is_left = (side == "a") is not is_swapped
        create = create_mat_mul_input_lhs if is_left else create_mat_mul_input_rhs
        variable = create(
            self.graph,
            self.params.dtype,
            (rows, inner),
            (inner, columns),
            f"{self.name}/{name}",
            **self.product_options,
        )
        return variable.transpose() if is_swapped else variable

    def transposed(self, kernel: Tensor, rows: int, prog: Program, name: str) -> Tensor:
        """Return the transpose of `kernel`, mapped as the right operand of products of `rows` rows.

        `kernel` itself is the right operand of other products with `rows` rows. A copy to the new
        mapping is enough if exactly one of the two products swaps its operands. Otherwise the tiles
        also transpose the blocks of `kernel`.
        """
        inner, columns = kernel.shape
        is_swapped = self.swaps(rows, columns, inner)
        source = kernel if is_swapped else kernel.transpose()
        if self.swaps(rows, inner, columns) is is_swapped:
            source = transpose(self.graph, source.transpose(), prog, f"{self.name}/{name}")
        arranged = self.operand("b", rows, columns, inner, name)
        prog.add(Copy(source, arranged.transpose() if is_swapped else arranged))
        return arranged

    def add_product(self, total: Tensor, a: Tensor, b: Tensor, prog: Program, name: str) -> None:
        """Add the product of two matrices to `total`."""
        mat_mul_acc(
            self.graph,
            total,
            1.0,
            a,
            b,
            prog,
            f"{self.name}/{name}",
            cache=self.cache,
            **self.product_options,
        )

    def variable(self, outer: Sequence[int], size: int, name: str) -> Tensor:
        """Return a variable [*outer, batch, size], distributed over the tiles in grains of units.

        An element's tile depends only on its sample and on its unit.
        """
        batch = self.params.batch_size
        grain = gcd(GRAIN, size)
        grains = size // grain * batch
        variable = self.graph.add_variable(
            self.params.dtype, (prod(outer), grains, grain), f"{self.name}/{name}"
        )
        per_tile = -(-grains // self.graph.target.num_tiles)
        for tile, begin in enumerate(range(0, grains, per_tile)):
            self.graph.set_tile_mapping(variable[:, begin : begin + per_tile], tile)
        return from_grains(variable, (*outer, batch, size))

    def sequence(self, outer: Sequence[int], size: int, prog: Program, name: str) -> Tensor:
        """Return a variable [time_steps, *outer, batch, size] that a loop writes step by step.

        Zeros are written first, because a vertex that writes a slice also reads the complete
        tensor.
        """
        variable = self.variable((self.params.time_steps, *outer), size, name)
        zero(self.graph, variable, prog, f"{self.name}/zero {name}")
        return variable

    def state(self, name: str) -> Tensor:
        """Return a variable for a state, or for another tensor of a time step [batch, units]."""
        return self.variable((), self.params.output_size, name)

    def copied(self, tensor: Tensor, prog: Program, name: str) -> Tensor:
        """Return a copy of a tensor [..., batch, size] in the tile mapping of the layer."""
        copy = self.variable(tensor.shape[:-2], tensor.shape[-1], name)
        prog.add(Copy(tensor, copy))
        return copy

    def accumulator(self, tensor: Tensor, prog: Program, name: str) -> Tensor:
        """Return a variable like `tensor` for a sum of gradients; append a write of zeros."""
        dtype = self.options.get("weightAccumulatorsType") or self.params.dtype
        total = clone(self.graph, tensor, f"{self.name}/{name}", dtype)
        zero(self.graph, total, prog, f"{self.name}/zero {name}")
        return total

    def add_gradient(self, total: Tensor, gradient: Tensor, prog: Program) -> None:
        """Add `gradient` to the accumulator `total`, in the dtype of the accumulator."""
        if gradient.dtype is not total.dtype:
            gradient = cast(self.graph, gradient, total.dtype, prog, f"{self.name}/cast")
        add_in_place(self.graph, total, gradient, prog, f"{self.name}/add bias gradient")

    def bias_gradient(self, total: Tensor, biases: Tensor, prog: Program) -> Tensor:
        """Return the sum over the batch of an accumulator [..., batch, units], mapped like biases.

        The samples are added only here, after the loop, as in PopLibs.
        """
        gradient = clone(self.graph, biases, f"{self.name}/bias gradient", total.dtype)
        reduce_with_output(
            self.graph,
            total,
            gradient,
            [total.rank - 2],
            prog,
            debug_context=f"{self.name}/reduce bias gradient",
        )
        return gradient


class TimeLoop:
    """A loop over time steps, forward, or backward from the last step.

    Add programs to `body`, which can read the number of the step from `index`, an UNSIGNED_INT
    variable of one element on tile 0. `append` completes the loop.
    """

    def __init__(
        self, graph: Graph, time_steps: int, prog: Program, name: str, backward: bool = False
    ) -> None:
        self.graph = graph
        self.name = name
        self.body = Program(name=name)
        self._time_steps = time_steps
        self._prog = prog
        self._backward = backward
        self.index = graph.add_variable(UNSIGNED_INT, (1,), f"{name}/step")
        graph.set_tile_mapping(self.index, 0)
        fill(graph, self.index, prog, time_steps - 1 if backward else 0, f"{name}/first step")

    def append(self) -> None:
        """Complete the loop, and append it to the program."""
        count = sub_in_place if self._backward else add_in_place
        count(self.graph, self.index, 1, self.body, f"{self.name}/count")
        self._prog.add(Repeat(self._time_steps, self.body))


class LayerLoop(TimeLoop):
    """A loop over the time steps of a recurrent layer."""

    def __init__(self, layer: Layer[Any], prog: Program, name: str, backward: bool = False) -> None:
        time_steps = layer.params.time_steps
        super().__init__(layer.graph, time_steps, prog, f"{layer.name}/{name}", backward)

    def at(self, sequence: Tensor, name: str) -> Tensor:
        """Append a slice of the current step of a sequence [time_steps, ...], and return it."""
        step = dynamic_slice(
            self.graph, by_grain(sequence), self.index, [0], [1], self.body, f"{self.name}/{name}"
        )
        return from_grains(step[0], sequence.shape[1:])

    def store(self, sequence: Tensor, value: Tensor, name: str) -> None:
        """Append a write of `value` to the current step of a sequence [time_steps, ...]."""
        dynamic_update(
            self.graph,
            by_grain(sequence),
            by_grain(value.expand([0])),
            self.index,
            [0],
            [1],
            self.body,
            f"{self.name}/{name}",
        )


def by_grain(sequence: Tensor) -> Tensor:
    """Return [time_steps, elements], a view of a sequence [time_steps, ..., batch, size].

    The elements of a step are in the memory order of a `Layer.variable`, grain by grain. Slices of
    this view are built much faster than those of a view in another order.
    """
    *outer, batch, size = sequence.shape
    grain = gcd(GRAIN, size)
    rank = len(outer)
    split = sequence.reshape((*outer, batch, size // grain, grain))
    ordered = split.dim_shuffle([*range(rank), rank + 1, rank, rank + 2])
    return ordered.reshape((outer[0], prod(sequence.shape[1:])))


def from_grains(elements: Tensor, shape: Shape) -> Tensor:
    """Return one step of the result of `by_grain` as a view of shape [..., batch, size]."""
    *outer, batch, size = shape
    grain = gcd(GRAIN, size)
    rank = len(outer)
    split = elements.reshape((*outer, size // grain, batch, grain))
    return split.dim_shuffle([*range(rank), rank + 1, rank, rank + 2]).reshape(shape)


def flat_units(units: Tensor) -> Tensor:
    """Return [rows, units * columns], a view of a tensor [units, rows, columns]."""
    num_units, rows, columns = units.shape
    return units.dim_shuffle([1, 0, 2]).reshape((rows, num_units * columns))


def by_unit(matrix: Tensor, num_units: int) -> Tensor:
    """Return [units, rows, columns], a view of a matrix [rows, units * columns]."""
    rows, columns = matrix.shape
    return matrix.reshape((rows, num_units, columns // num_units)).dim_shuffle([1, 0, 2])


def in_order(units: Tensor, places: Sequence[int]) -> Tensor:
    """Return the units of a tensor [units, ...] in the order that the indices `places` define."""
    return concat([units[place : place + 1] for place in places])


def previous(first: Tensor, outputs: Tensor) -> Tensor:
    """Return the state before each time step, as a tensor [time_steps, ...].

    `first` is the initial state, and `outputs` contains the state after each step.
    """
    return concat([first.expand([0]), outputs[:-1]])


def check_fields(
    layer: Layer[Any], group: str, tensors: Mapping[str, Tensor], shapes: Mapping[str, Shape]
) -> None:
    """Check tensors that a user passes as members of `group`, such as `weights`.

    `shapes` maps the names of the members to their shapes.

    :raises PoplibsError: if a tensor does not fit.
    :raises InvalidTileMappingError: if a tensor is not mapped.
    """
    for name, tensor in tensors.items():
        check_tensor(layer.graph, f"{group}.{name}", tensor)
        check_operand(layer, f"{group}.{name}", tensor, shapes[name])
        check_mapped(layer.graph, f"{group}.{name}", tensor)


def check_operand(layer: Layer[Any], name: str, tensor: Tensor, shape: Shape) -> None:
    """Raise `PoplibsError` unless a tensor has the dtype of the layer and `shape`."""
    context = f"{name} {tensor!r}"
    check_same(
        "shapes", tensor.shape, shape, context, f"give {name} the shape {shape}, as params require."
    )
    dtypes = (tensor.dtype.__name__, layer.params.dtype.__name__)
    check_same("dtypes", *dtypes, context, f"give {name} the dtype of params.")


def check_stored(
    layer: Layer[Any], intermediates: Tensor | None, members: int, forward: str
) -> Tensor:
    """Return the intermediates [time_steps, members, batch, units] that `forward` returned.

    :raises PoplibsError: if the intermediates are None, or do not fit.
    """
    if intermediates is None:
        raise refused(
            "was given no intermediates of the forward pass.",
            next_step=f"call {forward} with intermediates=True.",
        )
    shape = (layer.params.time_steps, members, *layer.params.state_shape)
    check_operand(layer, "fwd_intermediates", intermediates, shape)
    return intermediates


def layer_of(
    known_options: tuple[Option, ...],
    graph: Graph,
    params: Params,
    options: Options | None,
    cache: PlanningCache | None,
    name: str,
) -> Layer[Params]:
    """Return the `Layer` of a call, with its options checked.

    :raises InvalidOptionError: if an option is invalid.
    """
    return Layer(graph, params, settled(known_options, options), cache, name)
