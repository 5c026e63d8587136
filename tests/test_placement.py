"""On which tiles the results of elementwise operations and gradients are, where an operand is a view
that repeats elements, as the gradient behind a mean, or is on few tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ipu_teach.golden.programs import profile
from libraries import run

from ipu_teach import FLOAT, HALF, INT, Graph, IPUModel, Tensor
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.poplibs.popops import expr
from ipu_teach.program import Sequence
from ipu_teach.types import DType

BATCH, CHANNELS, SIDE = 4, 8, 6
SHAPE = (BATCH, CHANNELS, SIDE, SIDE)
TILES = 16
EVEN = BATCH * CHANNELS * SIDE * SIDE // TILES


class Operands:
    """Activations that are spread evenly, with the channels innermost, and gradients of the same
    shape: a view that repeats one element for each sample and channel."""

    def __init__(self, dtype: type[DType] = FLOAT) -> None:
        device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
        self.graph, self.prog = Graph(device), Sequence()
        self.dtype = dtype
        stored = self.new((BATCH, SIDE, SIDE, CHANNELS), "activations")
        self.x = stored.dim_roll(3, 1)
        means = self.graph.add_variable(dtype, (BATCH, CHANNELS), "means")
        poputil.map_tensor_linearly(self.graph, means)
        self.view = poputil.broadcast_to_match(means.reshape((BATCH, CHANNELS, 1, 1)), SHAPE)

    def new(self, shape: tuple[int, ...], name: str, dtype: type[DType] | None = None) -> Tensor:
        tensor = self.graph.add_variable(dtype or self.dtype, shape, name)
        poputil.map_tensor_linearly(self.graph, tensor, 1)
        return tensor

    def row(self, count: int = CHANNELS) -> Tensor:
        return self.new((count,), "row", FLOAT)

    def on_one_tile(self) -> Tensor:
        tensor = self.graph.add_variable(self.dtype, SHAPE, "one tile")
        self.graph.set_tile_mapping(tensor, 3)
        return tensor

    def fullest(self, tensor: Tensor) -> int:
        mapping = self.graph.get_tile_mapping(tensor)
        return max(sum(end - begin for begin, end in pieces) for pieces in mapping)

    def tiles_of(self, tensor: Tensor) -> Any:
        places = tensor.positions() * tensor.dtype.size
        return self.graph.tile_map().at(places)


def mean_gradient(kind: Any, count: int) -> Callable[[Operands], Tensor]:
    """The gradient at the input of a norm whose output gradient is the repeating view."""

    def gradient(o: Operands) -> Tensor:
        rows = o.row(count), o.row()
        if kind is popnn.bn:
            return popnn.bn.batch_norm_gradients(o.graph, o.x, o.view, *rows, o.prog)
        name = {popnn.gn: "group", popnn.ln: "layer", popnn.in_: "instance"}[kind]
        call: Callable[..., Tensor] = getattr(kind, f"{name}_norm_gradients")
        return call(o.graph, o.x, o.view, *rows, o.prog)

    return gradient


def is_positive(o: Operands) -> Tensor:
    return popops.gt(o.graph, o.x, 0.0, o.prog)


ELEMENTWISE: dict[str, Callable[[Operands], Tensor]] = {
    "add": lambda o: popops.add(o.graph, o.view, o.x, o.prog),
    "mul": lambda o: popops.mul(o.graph, o.view, o.view, o.prog),
    "neg": lambda o: popops.neg(o.graph, o.view, o.prog),
    "map": lambda o: popops.map(o.graph, expr._1 * expr._2, [o.view, o.x], o.prog),
    "select": lambda o: popops.select(o.graph, o.view, o.view, is_positive(o), o.prog),
    "clamp": lambda o: popops.clamp(o.graph, o.view, 0.0, 1.0, o.prog),
    "cast": lambda o: popops.cast(o.graph, o.view, INT, o.prog),
    "relu": lambda o: popnn.relu(o.graph, o.view, o.prog),
    "few tiles": lambda o: popops.add(o.graph, o.on_one_tile(), o.x, o.prog),
}
GRADIENTS: dict[str, Callable[[Operands], Tensor]] = {
    **{
        kind: lambda o, kind=kind: popnn.non_linearity_input_gradient(  # type: ignore[misc]
            o.graph, kind, o.x, o.view, o.prog
        )
        for kind in ("RELU", "SIGMOID", "TANH", "GELU", "GELU_ERF", "SWISH", "HARD_SIGMOID")
    },
    "batch norm": mean_gradient(popnn.bn, CHANNELS),
    "group norm": mean_gradient(popnn.gn, 2 * BATCH),
    "layer norm": mean_gradient(popnn.ln, BATCH),
    "instance norm": mean_gradient(popnn.in_, CHANNELS * BATCH),
}


@pytest.mark.parametrize("name", [*ELEMENTWISE, *GRADIENTS])
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_no_result_follows_a_repeating_view(name: str, dtype: type[DType]) -> None:
    o = Operands(dtype)
    result = {**ELEMENTWISE, **GRADIENTS}[name](o)
    assert o.fullest(o.view) >= 4 * EVEN, "the view is on few tiles, or shows nothing"
    assert o.fullest(result) <= 2 * EVEN


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_on_the_tiles_of_the_activations(name: str) -> None:
    o = Operands()
    result = GRADIENTS[name](o)
    np.testing.assert_array_equal(o.tiles_of(result), o.tiles_of(o.x))


def test_pools_and_losses_spread_their_gradients() -> None:
    o = Operands()
    params = popnn.pooling.PoolParams(
        "AVG", SHAPE[2:], (2, 2), (2, 2), (0, 0), (0, 0), CHANNELS, BATCH, FLOAT
    )
    pooled = o.view[:, :, ::2, ::2]
    nothing: Any = None
    gradient = popnn.pooling.pool_input_gradient(o.graph, params, nothing, nothing, pooled, o.prog)
    assert o.fullest(gradient) <= 2 * EVEN
    rows = o.x.dim_roll(1, 3).reshape((BATCH * SIDE * SIDE, CHANNELS))
    view = o.view.dim_roll(1, 3).reshape(rows.shape)
    gradient = popnn.softmax_input_gradient(o.graph, rows, view, o.prog)
    assert o.fullest(gradient) <= 2 * EVEN


def test_a_constant_does_not_decide_where_a_result_is() -> None:
    o = Operands()
    ones = o.graph.add_constant(FLOAT, SHAPE, 1.0)
    poputil.map_tensor_linearly(o.graph, ones, 1)
    result = popops.mul(o.graph, ones, o.x, o.prog)
    np.testing.assert_array_equal(o.tiles_of(result), o.tiles_of(o.x))


def test_of_two_equal_operands_the_first_decides() -> None:
    o = Operands()
    plain = o.new(SHAPE, "plain")
    for pair in ((o.x, plain), (plain, o.x)):
        result = popops.add(o.graph, *pair, o.prog)
        np.testing.assert_array_equal(o.tiles_of(result), o.tiles_of(pair[0]))


def test_a_scalar_constant_keeps_its_tile() -> None:
    o = Operands()
    constant = o.graph.add_constant(FLOAT, (), 2.0)
    o.graph.set_tile_mapping(constant, 5)
    assert o.tiles_of(popops.sqrt(o.graph, constant, o.prog)) == 5


def test_values_of_a_gradient_from_a_repeating_view() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5, 4)).astype(np.float32)
    x[0, 0] = 0, -0.0, np.inf, -1
    means = rng.standard_normal((3, 1, 1)).astype(np.float32)

    def build(graph: Graph, prog: Sequence, act: Tensor, means: Tensor) -> Tensor:
        view = poputil.broadcast_to_match(means, act.shape)
        return popnn.non_linearity_input_gradient(graph, "RELU", act, view, prog)

    (result,), _ = run(build, (x, FLOAT), (means, FLOAT))
    expected = np.where(x > 0, np.broadcast_to(means, x.shape), np.float32(0))
    np.testing.assert_array_equal(result, expected)


def test_gradients_of_two_strided_convolutions_are_added_in_the_order_in_which_they_lie() -> None:
    """Both are views interleaved of several products; element by element each would be gathered."""
    o = Operands(HALF)
    gradients = []
    for kernel in (3, 1):
        field, size, pad = (8, 8), (kernel, kernel), (kernel // 2,) * 2
        how: dict[str, Any] = {"padding_lower": pad, "padding_upper": pad, "stride": (2, 2)}
        params = poplin.ConvParams(HALF, BATCH, field, size, 16, 16, **how)
        weights = poplin.create_weights(o.graph, params)
        dy = o.new((BATCH, 4, 4, 16), "dy").dim_roll(3, 1)
        gradients.append(poplin.convolution_input_gradient(o.graph, dy, weights, params, o.prog))
    assert all(gradient.layout.strides is None for gradient in gradients)
    total = popops.add(o.graph, gradients[0], gradients[1], o.prog, "total")
    strides = total.layout.strides
    assert strides is not None and strides[1] == 1, "channels are innermost in both"
    assert strides[0] == max(strides), "and samples outermost"
    steps = [step for step in profile(o.graph, o.prog).steps() if "total" in step.name]
    whole = BATCH * 16 * 64 // TILES
    assert steps[0].cycles < 100 * whole // 16 + 1000, "a piece of 16 channels, not an element"
