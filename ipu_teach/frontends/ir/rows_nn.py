"""Definitions (`Row`) of matrix products, convolutions, pools, norms, look-ups and losses."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ipu_teach.arguments import checked
from ipu_teach.frontends.ir import rows as r
from ipu_teach.frontends.ir.lowering import Lowering
from ipu_teach.frontends.ir.rows import (
    InputGrads,
    Ints,
    check_dtypes,
    library_call,
    like_input,
    like_operand,
    require,
    unbroadcast,
)
from ipu_teach.frontends.ir.values import OPS, Ir, Op, Out, Row, Value, misuse
from ipu_teach.graph import Tensor
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.poplibs.popnn.softmax_loss import softmax_cross_entropy
from ipu_teach.poplibs.popops import expr
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT, DType

if TYPE_CHECKING:
    from typing_extensions import Unpack


# --- products -------------------------------------------------------------------------------------


def _matmul_shape(a: Value, b: Value) -> Out:
    check_dtypes(a, b)
    r.floats(a)
    is_valid = min(len(a.shape), len(b.shape)) > 1 and a.shape[-1] == b.shape[-2]
    why = f"the shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied"
    require(is_valid, why, "pass tensors of shapes [..., m, k] and [..., k, n].")
    why = f"the last dimension of {list(a.shape)} is empty"
    require(a.shape[-1] > 0, why, "pass a tensor with elements.")
    batch = r.pair(Value(a.shape[:-2], a.dtype), Value(b.shape[:-2], a.dtype)).shape
    return Out((*batch, a.shape[-2], b.shape[-1]), a.dtype)


def _matmul(low: Lowering, a: Tensor, b: Tensor) -> Tensor:
    """Return the result of "matmul": one matrix product if `b` is a matrix, else a grouped product.

    If an operand has no elements, the result is a constant of zeros.
    """
    shape = low.op.outs[0].shape
    if not a.num_elements or not b.num_elements:
        return low.constant(low.op.outs[0].dtype, shape, 0.0)
    if b.rank == 2:
        a_rows = a.reshape((a.num_elements // a.shape[-1], a.shape[-1]))
        return low.call(poplin.mat_mul, a_rows, b, options=low.options).reshape(shape)
    a, b = (
        poputil.broadcast_to_match(t, (*shape[:-2], *t.shape[-2:])).flatten(0, len(shape) - 2)
        for t in (a, b)
    )
    return low.call(poplin.mat_mul_grouped, a, b, options=low.options).reshape(shape)


def _matmul_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    a, b = op.inputs
    a_grad = unbroadcast(ir, ir.op("matmul", g, turned(ir, b)), a.shape)
    if len(b.shape) == 2 < len(a.shape):
        a, g = (ir.op("reshape", v, shape=(-1, v.shape[-1])) for v in (a, g))
    return [a_grad, unbroadcast(ir, ir.op("matmul", turned(ir, a), g), b.shape)]


def _matmul_lays(low: Lowering, op: Op, place: int) -> Tensor | None:
    """Return a new variable for input `place`, with the tile mapping that poplin prefers.

    Return None if an operand has no elements, or if the batch dimensions broadcast.
    """
    a, b = op.inputs
    is_grouped = len(b.shape) > 2
    if not a.size or not b.size or (is_grouped and a.shape[:-2] != b.shape[:-2]):
        return None
    grouped = "grouped_" if is_grouped else ""
    make = getattr(poplin, f"create_mat_mul_{grouped}input_{'rhs' if place else 'lhs'}")
    batch = (prod(b.shape[:-2]),) if is_grouped else ()
    a_shape = (*batch, a.size // prod((*batch, a.shape[-1])), a.shape[-1])
    b_shape = (*batch, *b.shape[-2:])
    operand: Tensor = make(
        low.graph,
        a.dtype,
        a_shape,
        b_shape,
        name=low.variable_name,
        options=low.options,
    )
    return operand.reshape(op.inputs[place].shape)


@checked(misuse)
def transpose(ir: Ir, x: Value, a: int, b: int) -> Value:
    """Return `x` with the dimensions `a` and `b` exchanged.

    :raises ModelError: for a dimension that `x` does not have.
    """
    order = [*range(len(x.shape))]
    for dim in (a, b):
        if not -len(order) <= dim < len(order):
            raise misuse(
                f"transpose() was given the dimension {dim}, which {x!r} does not have.",
                f"use dimensions from {-len(order)} to {len(order) - 1}."
                if order
                else "pass a value with dimensions.",
            )
    order[a], order[b] = order[b], order[a]
    return ir.op("permute", x, dims=tuple(order))


@checked(misuse)
def turned(ir: Ir, x: Value) -> Value:
    """Return `x` with its last two dimensions exchanged.

    :raises ModelError: if `x` has fewer than two dimensions.
    """
    return transpose(ir, x, -1, -2)


OPS["matmul"] = Row(_matmul_shape, _matmul, _matmul_grad, lays=_matmul_lays)


# --- convolutions ---------------------------------------------------------------------------------


class ConvSizes(TypedDict):
    """The attributes of a convolution. Sequences have an entry for each spatial dimension."""

    stride: Ints
    lower: Ints
    upper: Ints
    dilation: Ints
    groups: int


def _params(
    x: Value | Tensor,
    w: Value | Tensor,
    stride: Ints,
    lower: Ints,
    upper: Ints,
    dilation: Ints,
    groups: int,
) -> poplin.ConvParams:
    """Return poplin's parameters of a convolution.

    `x` is [batch, channels, *spatial dimensions], and the weights `w` are [out channels, channels /
    groups, *kernel].
    """
    return poplin.ConvParams(
        dtype=x.dtype,
        batch_size=x.shape[0],
        input_field=x.shape[2:],
        kernel=w.shape[2:],
        in_channels=x.shape[1],
        out_channels=w.shape[0],
        num_groups=groups,
        stride=stride,
        padding_lower=lower,
        padding_upper=upper,
        kernel_dilation=dilation,
    )


def _conv_shape(x: Value, w: Value, **attrs: Unpack[ConvSizes]) -> Out:
    check_dtypes(x, w)
    r.floats(x)
    advice = "pass x [batch, channels, *field] and weights [out, channels / groups, *kernel]."
    shapes = f"x {list(x.shape)} and the weights {list(w.shape)}"
    is_valid = len(x.shape) == len(w.shape) > 2
    require(is_valid, f"{shapes} do not have the same number of dimensions, 3 or more", advice)
    why = f"{shapes} do not have the same number of channels in {attrs['groups']} groups"
    require(x.shape[1] == w.shape[1] * attrs["groups"], why, advice)
    return Out(_params(x, w, **attrs).output_shape, x.dtype)


def _conv(low: Lowering, x: Tensor, w: Tensor, **attrs: Unpack[ConvSizes]) -> Tensor:
    params = _params(x, w, **attrs)
    weights = w.reshape(params.weights_shape)
    return low.call(poplin.convolution, x, weights, params, options=low.options)


def _conv_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    x, w = op.inputs
    x_grad = ir.op("conv_input_grad", g, w, field=x.shape, **op.attrs)
    return [x_grad, ir.op("conv_weight_grad", g, x, shape=w.shape, **op.attrs)]


def _conv_lays(low: Lowering, op: Op, place: int) -> Tensor:
    params = _params(op.inputs[0], op.inputs[1], **op.attrs)
    make = poplin.create_weights if place else poplin.create_input
    operand = make(low.graph, params, low.variable_name, options=low.options)
    return operand.reshape(op.inputs[place].shape)


def _input_grad_shape(g: Value, w: Value, field: Ints, **attrs: Unpack[ConvSizes]) -> Out:
    expected = list(_params(Value(tuple(field), g.dtype), w, **attrs).output_shape)
    why = f"the gradient has the shape {list(g.shape)}, but the convolution's result {expected}"
    require(expected == list(g.shape), why, "pass a gradient with the shape of the result.")
    return Out(tuple(field), g.dtype)


def _input_grad(
    low: Lowering, g: Tensor, w: Tensor, field: Ints, **attrs: Unpack[ConvSizes]
) -> Tensor:
    params = _params(Value(tuple(field), g.dtype), w, **attrs)
    weights = w.reshape(params.weights_shape)
    return low.call(poplin.convolution_input_gradient, g, weights, params, options=low.options)


def _input_grad_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    y, w = op.inputs
    attrs = {k: v for k, v in op.attrs.items() if k != "field"}
    y_grad = ir.op("conv", g, w, **attrs)
    return [y_grad, ir.op("conv_weight_grad", y, g, shape=w.shape, **attrs)]


def _weight_grad(
    low: Lowering, g: Tensor, x: Tensor, shape: Ints, **attrs: Unpack[ConvSizes]
) -> Tensor:
    params = _params(x, Value(tuple(shape), g.dtype), **attrs)
    weight_grads = low.call(poplin.calculate_weight_deltas, g, x, params, options=low.options)
    return weight_grads.reshape(tuple(shape))


OPS |= {
    "conv": Row(_conv_shape, _conv, _conv_grad, lays=_conv_lays),
    "conv_input_grad": Row(_input_grad_shape, _input_grad, _input_grad_grad),
    "conv_weight_grad": Row(lambda g, x, **attrs: r.with_shape(g, **attrs), _weight_grad),
}


# --- pools ----------------------------------------------------------------------------------------

MAX_FIELD = 4096  # The maximum length of a spatial dimension of a pool.


class PoolSizes(TypedDict):
    """The attributes of a pool. Each sequence has an entry for each spatial dimension."""

    kernel: Ints
    stride: Ints
    lower: Ints
    upper: Ints


def _pool(
    kind: str, x: Value | Tensor, kernel: Ints, stride: Ints, lower: Ints, upper: Ints
) -> popnn.pooling.PoolParams:
    """Return popnn's parameters of a pool over x [batch, channels, *field].

    The field consists of the spatial dimensions. `kind` is "MAX" or "AVG".

    :raises Unfit: if a dimension of the field or of the kernel is longer than MAX_FIELD.
    """
    field = x.shape[2:]
    why = f"a dimension of the field {list(field)} or the kernel {list(kernel)} is too long"
    advice = f"pool dimensions of at most {MAX_FIELD:,} elements."
    require(max(*field, *kernel) <= MAX_FIELD, why, advice)
    return popnn.pooling.PoolParams(
        kind=kind,
        input_field=field,
        kernel=tuple(kernel),
        stride=tuple(stride),
        padding_lower=tuple(lower),
        padding_upper=tuple(upper),
        channels=x.shape[1],
        batch_size=x.shape[0],
        dtype=x.dtype,
    )


def _pool_row(kind: str, grad: Callable[..., InputGrads]) -> Row:
    """Return the definition of a pool; `kind` is "MAX" or "AVG"."""

    def shape(x: Value, **attrs: Unpack[PoolSizes]) -> Out:
        return Out(_pool(kind, x, **attrs).output_shape, x.dtype)

    def lower(low: Lowering, x: Tensor, **attrs: Unpack[PoolSizes]) -> Tensor:
        return low.call(popnn.pooling.pool, _pool(kind, x, **attrs), x)

    return Row(shape, lower, grad)


def _grad_of_max_pool(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [ir.op("max_pool_grad", op.inputs[0], op.outs[0], g, **op.attrs)]


def _grad_of_avg_pool(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [ir.op("avg_pool_grad", g, shape=op.inputs[0].shape, **op.attrs)]


def _max_pool_grad(
    low: Lowering, x: Tensor, y: Tensor, g: Tensor, **attrs: Unpack[PoolSizes]
) -> Tensor:
    params = _pool("MAX", x, **attrs)
    return low.call(popnn.pooling.pool_input_gradient, params, x, y, g, ties="first")


def _avg_pool_grad(low: Lowering, g: Tensor, shape: Ints, **attrs: Unpack[PoolSizes]) -> Tensor:
    params = _pool("AVG", Value(tuple(shape), g.dtype), **attrs)
    return low.call(popnn.pooling.pool_input_gradient, params, None, None, g)


OPS |= {
    "max_pool": _pool_row("MAX", _grad_of_max_pool),
    "max_pool_grad": Row(like_input(0), _max_pool_grad),
    "avg_pool": _pool_row("AVG", _grad_of_avg_pool),
    "avg_pool_grad": Row(r.with_shape, _avg_pool_grad),
}


# --- norms ----------------------------------------------------------------------------------------
# In the operations of norms, x is [batch, channels, …], and gamma and beta are [channels]. Means
# and inverse standard deviations have the dtype of x. The gradients of gamma and beta are FLOAT.

NORMS: dict[str, ModuleType] = {
    "batch": popnn.bn,
    "group": popnn.gn,
    "instance": popnn.in_,
    "layer": popnn.ln,
}


def _norm_call(
    low: Lowering, kind: str, name: str, *operands: Tensor | float, **options: int | str
) -> tuple[Tensor, ...]:
    """Call popnn's function `name` for a kind of norm, and return its results as a tuple.

    For example, the kind "group" and the name "gradients" select `popnn.gn.group_norm_gradients`.
    """
    function_name = f"{kind}_{name}" if name == "normalise" else f"{kind}_norm_{name}"
    if kind == "group" and name != "param_gradients":
        # With "correct", a group consists of neighbouring channels.
        options["grouping"] = "correct"
    function: Callable[..., Tensor | tuple[Tensor, ...]] = getattr(NORMS[kind], function_name)
    results = low.call(function, *operands, **options)
    return (results,) if isinstance(results, Tensor) else results


def _norm_shape(
    x: Value, gamma: Value, beta: Value, kind: str, eps: float, groups: int = 1
) -> list[Out]:
    """Return a list with the `Out` of each result of a norm.

    The results are y, the normalised x, the means, and the inverse standard deviations.
    """
    r.floats(x)
    why = f"there is no norm of the kind {kind!r}"
    require(kind in NORMS, why, f"use one of the kinds {', '.join(NORMS)}.")
    is_valid = len(x.shape) > 1 and x.shape[1:2] == gamma.shape == beta.shape
    why = f"x {list(x.shape)}, gamma {list(gamma.shape)} and beta {list(beta.shape)} do not fit"
    require(is_valid, why, "pass x [batch, channels, …], gamma [channels] and beta [channels].")
    batch, channels = x.shape[:2]
    groups_per_sample = {"group": groups, "instance": channels, "layer": 1}.get(kind, 0)
    why = f"{channels} channels cannot be divided into {groups} equal groups"
    divides = not groups_per_sample or channels % groups_per_sample == 0
    require(divides, why, f"use a number of groups that divides {channels}.")
    statistics_count = batch * groups_per_sample if groups_per_sample else channels
    statistics_out = Out((statistics_count,), x.dtype)
    return [like_operand(x), like_operand(x), statistics_out, statistics_out]


def _norm(
    low: Lowering, x: Tensor, gamma: Tensor, beta: Tensor, kind: str, eps: float, groups: int = 1
) -> list[Tensor]:
    options = {"num_groups": groups} if kind == "group" else {}
    means, inverse_deviations = _norm_call(
        low, kind, "statistics", x, eps, stable_algo=True, **options
    )
    y, whitened = _norm_call(low, kind, "normalise", x, gamma, beta, means, inverse_deviations)
    return [y, whitened, means, inverse_deviations]


def _lower_norm_grad(low: Lowering, *operands: Tensor, kind: str) -> Tensor:
    (gradient,) = _norm_call(low, kind, "gradients", *operands)
    return gradient


def _norm_param_grad_shape(whitened: Value, g: Value, kind: str) -> list[Out]:
    return [Out(whitened.shape[1:2], FLOAT)] * 2


def _lower_norm_param_grad(
    low: Lowering, whitened: Tensor, g: Tensor, kind: str
) -> tuple[Tensor, Tensor]:
    gamma_grad, beta_grad = _norm_call(low, kind, "param_gradients", whitened, g)
    return gamma_grad, beta_grad


def _to_variance(low: Lowering, x: Tensor, eps: float) -> Tensor:
    return low.call(popops.inv_std_dev_to_variance, x, eps)


def _to_inv_std_dev(low: Lowering, x: Tensor, eps: float) -> Tensor:
    return low.call(popops.variance_to_inv_std_dev, x, eps)


def _norm_grad(ir: Ir, op: Op, g: Value, *others: Value | None) -> InputGrads:
    _, gamma, beta = op.inputs
    _, whitened, _, inverse_deviations = op.outs
    kind = op.attrs["kind"]
    param_grads = ir.emit("norm_param_grad", whitened, g, kind=kind)
    x_grad = ir.op("norm_grad", whitened, g, inverse_deviations, gamma, kind=kind)
    grads_and_parameters = zip(param_grads, (gamma, beta), strict=True)
    return [x_grad, *(ir.cast(grad, value.dtype) for grad, value in grads_and_parameters)]


OPS |= {
    "norm": Row(_norm_shape, _norm, _norm_grad),
    "norm_grad": Row(like_input(0), _lower_norm_grad),
    "norm_param_grad": Row(
        _norm_param_grad_shape,
        _lower_norm_param_grad,
    ),
    # The input of "to_variance" is 1 / sqrt(variance + eps). Variances get no gradient.
    "to_variance": Row(
        lambda x, eps: like_operand(x),
        _to_variance,
        r.no_gradients,
    ),
    "to_inv_std_dev": Row(
        lambda x, eps: like_operand(x),
        _to_inv_std_dev,
        r.no_gradients,
    ),
}


# --- look-ups -------------------------------------------------------------------------------------


def _check_indices(index: Value) -> None:
    """Raise `Unfit` if `index` does not contain integers."""
    why = f"the index is {index.dtype.__name__}"
    require(index.dtype in (UNSIGNED_INT, INT), why, "pass an index of the dtype UNSIGNED_INT.")


def _gather_shape(x: Value, index: Value) -> Out:
    _check_indices(index)
    require(len(x.shape) > 0, "a scalar has no rows", "pass a tensor [rows, …].")
    is_valid = x.shape[0] > 0 or not index.size
    require(is_valid, f"x {list(x.shape)} has no rows", "pass a tensor with rows.")
    return Out((*index.shape, *x.shape[1:]), x.dtype)


def _gather(low: Lowering, x: Tensor, index: Tensor) -> Tensor:
    x_rows = x.reshape((len(x), prod(x.shape[1:])))
    row_numbers = index.reshape((index.num_elements, 1))
    gathered = low.call(popops.multi_slice, x_rows, row_numbers, [0], [1])
    return gathered.reshape((*index.shape, *x.shape[1:]))


def _sliceable(low: Lowering, dtype: type[DType], shape: Ints, name: str) -> Tensor:
    """Return a variable of this shape, mapped by popops for slices of its first dimension."""
    matrix_shape = shape[0], prod(shape[1:])
    variable = popops.create_sliceable_tensor(
        low.graph, dtype, matrix_shape, [0], debug_context=name
    )
    return variable.reshape(tuple(shape))


def _gather_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [ir.op("scatter", op.inputs[1], g, shape=op.inputs[0].shape), None]


def _gather_lays(low: Lowering, op: Op, place: int) -> Tensor | None:
    if place:
        return None
    return _sliceable(low, op.inputs[0].dtype, op.inputs[0].shape, low.variable_name)


def _add_rows(low: Lowering, into: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    """Add each row of `updates` to the row of `into` that `index` selects, and return `into`."""
    update_count = index.num_elements
    width = prod(into.shape[1:])
    matrix = into.reshape((len(into), width))
    operands = updates.reshape((update_count, 1, width)), index.reshape((update_count, 1)), 1.0
    low.call(popops.multi_update_add, matrix, *operands, [0], [1])
    return into


def _scatter_shape(index: Value, updates: Value, shape: Ints) -> Out:
    return r.with_shape(updates, shape)


def _scatter(low: Lowering, index: Tensor, updates: Tensor, shape: Ints) -> Tensor:
    zeros = _sliceable(low, updates.dtype, shape, f"{low.name}/out")
    low.call(popops.zero, zeros)
    return _add_rows(low, zeros, index, updates)


def _scatter_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [None, ir.op("gather", g, op.inputs[0])]


def _scatter_add_shape(x: Value, index: Value, updates: Value) -> Out:
    check_dtypes(x, updates)
    _check_indices(index)
    expected = [*index.shape, *x.shape[1:]]
    why = f"the updates have the shape {list(updates.shape)} instead of {expected}"
    require(list(updates.shape) == expected, why, "pass an update for each number in the index.")
    return like_operand(x)


def _scatter_add(low: Lowering, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    return _add_rows(low, low.call(poputil.duplicate, x), index, updates)


def _scatter_add_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [g, None, ir.op("gather", g, op.inputs[1])]


def _scatter_with(call: Callable[..., None]) -> Callable[..., Tensor]:
    """Return a `lower` function that writes rows to a copy of its first tensor x.

    The `lower` function returns the copy. `call` writes the rows; it is a function of popops with
    the parameters of `multi_update`.
    """

    def lower(low: Lowering, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
        into = low.call(poputil.duplicate, x)
        count = index.num_elements
        width = prod(into.shape[1:])
        operands = updates.reshape((count, 1, width)), index.reshape((count, 1))
        low.call(call, into.reshape((len(into), width)), *operands, [0], [1])
        return into

    return lower


def _scatter_set_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    """Return [gradient of x, None, gradient of the updates] for the operation "scatter_set".

    The operation replaces rows of x by updates. A replaced row of x has the gradient 0. If a row is
    replaced several times, only its last update has a gradient.
    """
    _, index, updates = op.inputs
    update_count = index.size
    other_axes = (1,) * (len(op.inputs[0].shape) - 1)
    row_count = op.inputs[0].shape[0]
    update_numbers = ir.constant(np.arange(1, update_count + 1).reshape(index.shape), FLOAT)
    zeros = ir.constant(0.0, FLOAT, (row_count, 1))
    number_column = ir.op("reshape", update_numbers, shape=(*index.shape, 1))
    last_update = ir.op("scatter_max", zeros, index, number_column)
    is_last = ir.op("eq", ir.op("gather", last_update, index), number_column)
    is_last = ir.op("reshape", is_last, shape=(*index.shape, *other_axes))
    is_untouched = ir.op("reshape", ir.op("eq", last_update, 0.0), shape=(row_count, *other_axes))
    no_grad = ir.constant(0.0, g.dtype)
    update_grads = ir.op("gather", g, index)
    return [
        ir.op("select", is_untouched, g, no_grad),
        None,
        ir.op("select", is_last, update_grads, no_grad),
    ]


def _scatter_max_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    """Return [gradient of x, None, gradient of the updates] for the operation "scatter_max".

    As in torch's scatter_reduce, the gradient of a maximum is divided equally among the elements of
    x and of the updates that equal the maximum.
    """
    x, index, updates = op.inputs
    result = op.outs[0]
    x_is_maximum = ir.op("cast", ir.op("eq", x, result), dtype=g.dtype)
    update_is_maximum = ir.op(
        "cast", ir.op("eq", updates, ir.op("gather", result, index)), dtype=g.dtype
    )
    maximum_count = ir.op("max", ir.op("scatter_add", x_is_maximum, index, update_is_maximum), 1.0)
    share = ir.op("div", g, maximum_count)
    update_grads = ir.op("mul", update_is_maximum, ir.op("gather", share, index))
    return [ir.op("mul", x_is_maximum, share), None, update_grads]


def _pick_shape(x: Value, index: Value) -> Out:
    _check_indices(index)
    is_valid = len(x.shape) == 2 and index.shape == x.shape[:1]
    why = f"x {list(x.shape)} and the index {list(index.shape)} do not fit"
    require(is_valid, why, "pass x [rows, columns] and an index [rows].")
    return Out(index.shape, r.floats(r.with_rows(x)).dtype)


def _pick_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    x, index = op.inputs
    is_picked = ir.op("one_hot", index, classes=x.shape[1], dtype=x.dtype)
    return [ir.op("mul", is_picked, ir.op("reshape", g, shape=(-1, 1))), None]


OPS |= {
    "gather": Row(
        _gather_shape,
        _gather,
        _gather_grad,
        lays=_gather_lays,
    ),
    "scatter": Row(
        _scatter_shape,
        _scatter,
        _scatter_grad,
    ),
    "scatter_add": Row(
        _scatter_add_shape,
        _scatter_add,
        _scatter_add_grad,
    ),
    "scatter_set": Row(_scatter_add_shape, _scatter_with(popops.multi_update), _scatter_set_grad),
    "scatter_max": Row(
        _scatter_add_shape, _scatter_with(popops.multi_update_max), _scatter_max_grad
    ),
    "pick": Row(_pick_shape, library_call(popops.select_scalar_from_rows), _pick_grad),
}


# --- softmax and losses ---------------------------------------------------------------------------


def _as_rows(x: Tensor) -> Tensor:
    """Return `x` as a matrix whose rows are the vectors along the last dimension of `x`."""
    return x.reshape((x.num_elements // x.shape[-1], x.shape[-1]))


def _by_rows(call: Callable[..., Tensor], grad: Callable[..., InputGrads]) -> Row:
    """Return the definition of an operation along the last dimension of a tensor.

    `call` computes the operation for each row of a matrix.
    """

    def shape(x: Value) -> Out:
        return r.floats(r.with_rows(x))

    def lower(low: Lowering, x: Tensor) -> Tensor:
        return low.call(call, _as_rows(x)).reshape(x.shape)

    return Row(shape, lower, grad)


def _softmax_grad(low: Lowering, y: Tensor, g: Tensor) -> Tensor:
    probability_rows = _as_rows(y)
    row_grads = _as_rows(g)
    call = popnn.non_linearity_input_gradient
    return low.call(call, "SOFTMAX", probability_rows, row_grads).reshape(y.shape)


def _grad_of_softmax(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [ir.op("softmax_grad", op.outs[0], g)]


def _log_softmax_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    row_sums = ir.op("sum", g, dims=[len(g.shape) - 1])
    row_sum_column = ir.op("reshape", row_sums, shape=(*g.shape[:-1], 1))
    return [ir.op("sub", g, ir.op("mul", ir.op("exp", op.outs[0]), row_sum_column))]


def _cross_entropy_shape(x: Value, labels: Value) -> list[Out]:
    _pick_shape(x, labels)
    return [Out(labels.shape, FLOAT), Out(r.floats(x).shape, FLOAT)]


def _cross_entropy_grad(ir: Ir, op: Op, g: Value, other: Value | None) -> InputGrads:
    grad_column = ir.op("reshape", g, shape=(*g.shape, 1))
    return [ir.cast(ir.op("mul", op.outs[1], grad_column), op.inputs[0].dtype), None]


def _binary_cross_entropy_shape(x: Value, y: Value) -> Out:
    return Out(r.floats(Value(r.pair(x, y).shape, x.dtype)).shape, FLOAT)


def _binary_cross_entropy(x: expr.Expr, y: expr.Expr) -> expr.Expr:
    """Return the expression of the binary cross entropy of the score `x` and the target `y`.

    The form max(x, 0) - x y + log(1 + exp(-|x|)) neither overflows nor loses digits: if y is 1 or
    0, max(x, 0) - x y is |x| or 0.
    """
    return expr.Max(x, 0.0) - x * y + expr.Log1p(expr.Exp(-expr.Abs(x)))


def _binary_cross_entropy_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    x, y = (ir.cast(v, FLOAT) for v in op.inputs)
    x_grad = ir.op("mul", g, ir.op("sub", ir.op("sigmoid", x), y))
    y_grad = ir.op("neg", ir.op("mul", g, x))
    grads = [unbroadcast(ir, v, op.inputs[n].shape) for n, v in enumerate((x_grad, y_grad))]
    return [v and ir.cast(v, op.inputs[n].dtype) for n, v in enumerate(grads)]


OPS |= {
    "softmax": _by_rows(popnn.softmax, _grad_of_softmax),
    "softmax_grad": Row(like_input(0), _softmax_grad),
    "log_softmax": _by_rows(popnn.log_softmax, _log_softmax_grad),
    "cross_entropy": Row(
        _cross_entropy_shape, library_call(softmax_cross_entropy), _cross_entropy_grad
    ),
    "binary_cross_entropy": Row(
        _binary_cross_entropy_shape, r.fused_call(_binary_cross_entropy), _binary_cross_entropy_grad
    ),
}
