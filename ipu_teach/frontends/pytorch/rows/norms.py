"""Lowering functions of batch, layer and group norms and of their gradients.

The function of a norm stores values in the dict `saved`, with the norm's means as the key. Torch
passes the same means to the gradient operation, whose lowering function reads the values from
`saved`.
"""

from __future__ import annotations

from math import prod

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.registry import Ints, Results, Saved, reshape, row
from ipu_teach.types import FLOAT


def _check(x: Value, eps: float) -> None:
    """Raise `Unfit` if `eps` is negative or `x` has no elements."""
    if eps < 0:
        raise Unfit(f"eps is {eps}", "use an eps of at least 0, such as 1e-5.")
    if not x.size:
        raise Unfit("the input has no elements", "leave out the norm of empty tensors.")


def _norm_results(
    graph: Ir,
    kind: str,
    x: Value,
    *,
    gamma: Value | None,
    beta: Value | None,
    eps: float,
    groups: int | None = None,
) -> tuple[Value, ...]:
    """Return `(y, whitened, means, inverse_deviations)` of a norm of `x`.

    `y` is the result of the norm, `whitened` is the normalised `x` before the scale `gamma` and the
    shift `beta`, and the inverse deviations are 1 / sqrt(variance + eps).
    """
    _check(x, eps)
    channels = x.shape[1]
    scale = graph.constant(1.0, x.dtype, (channels,)) if gamma is None else gamma
    shift = graph.constant(0.0, x.dtype, (channels,)) if beta is None else beta
    scale, shift = (graph.cast(v, x.dtype) for v in (scale, shift))
    options = {} if groups is None else {"groups": groups}
    return graph.emit("norm", x, scale, shift, kind=kind, eps=eps, **options)


def _statistics(
    graph: Ir, results: Results, means: Value, inverse_deviations: Value
) -> list[Value]:
    """Return [means, inverse deviations] as torch's results 1 and 2, in their shapes and dtypes."""
    return [
        graph.cast(reshape(graph, v, results.shapes[i]), results.dtypes[i] or v.dtype)
        for i, v in ((1, means), (2, inverse_deviations))
    ]


def _zeros(
    graph: Ir, mask: Ints, *likes: tuple[Value | None, tuple[int, ...]]
) -> list[Value | None]:
    """Return a list with the gradients of a norm of a tensor without elements: zeros, or None.

    A gradient is None if its entry in `mask` is False. `likes` contains a pair (value, shape) for
    each gradient. The gradient has this shape and the dtype of the value, or FLOAT if the value is
    None.
    """
    zeros = [graph.constant(0.0, FLOAT if v is None else v.dtype, shape) for v, shape in likes]
    return [v if is_wanted else None for v, is_wanted in zip(zeros, mask, strict=True)]


def _gradients(
    graph: Ir,
    kind: str,
    gradient: Value,
    mask: Ints,
    *,
    whitened: Value,
    inverse_deviations: Value,
    gamma: Value | None,
) -> list[Value | None]:
    """Return [gradient of x, gradient of gamma, gradient of beta] of a norm.

    A gradient is None if its entry in `mask` is False. `whitened` is x, normalised to the mean 0
    and the variance 1.
    """
    x_grad = gamma_grad = beta_grad = None
    if mask[0]:
        ones = graph.constant(1.0, gradient.dtype, (gradient.shape[1],))
        scale = ones if gamma is None else graph.cast(gamma, gradient.dtype)
        x_grad = graph.op("norm_grad", whitened, gradient, inverse_deviations, scale, kind=kind)
    if any(mask[1:]):
        dtype = gradient.dtype if gamma is None else gamma.dtype
        param_grads = graph.emit("norm_param_grad", whitened, gradient, kind=kind)
        gamma_grad, beta_grad = (graph.cast(v, dtype) for v in param_grads)
    return [x_grad, gamma_grad if mask[1] else None, beta_grad if mask[2] else None]


# --- batch norm -----------------------------------------------------------------------------------


def _blended(graph: Ir, old: Value, new: Value, momentum: float) -> Value:
    """Return old * (1 - momentum) + new * momentum."""
    old_part = graph.op("mul", old, 1 - momentum)
    return graph.op("add", old_part, graph.op("mul", graph.cast(new, old.dtype), momentum))


@row("_native_batch_norm_legit_functional", saves=True, kept=True)
def _batch_norm(
    graph: Ir,
    results: Results,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    mean: Value,
    var: Value,
    training: bool,
    momentum: float,
    eps: float,
    saved: Saved,
) -> list[Value | None]:
    """Return [norm, means, inverse deviations, new running mean, new running variance].

    In training, the norm uses the mean and variance of the batch. The new running statistics are
    weighted means of the batch's statistics and `mean` and `var`. Outside of training, the norm
    uses `mean` and `var`, the second and third result are empty, and `mean` and `var` are returned
    unchanged.
    """
    if not training:
        empty = graph.constant(0.0, mean.dtype, (0,))
        y = _with_statistics(graph, x, gamma, beta, mean=mean, var=var, eps=eps)
        return [y, empty, empty, mean, var]
    y, whitened, batch_means, inverse_deviations = _norm_results(
        graph, "batch", x, gamma=gamma, beta=beta, eps=eps
    )
    means_out, deviations_out = _statistics(graph, results, batch_means, inverse_deviations)
    saved[means_out] = whitened, inverse_deviations
    elements_per_channel = x.size // x.shape[1]
    batch_variances = graph.op("to_variance", graph.cast(inverse_deviations, FLOAT), eps=eps)
    unbiased_variances = graph.op(
        "mul", batch_variances, elements_per_channel / max(elements_per_channel - 1, 1)
    )
    running = (
        graph.cast(v, d or v.dtype) for v, d in zip((mean, var), results.dtypes[3:], strict=True)
    )
    blended = (
        _blended(graph, *v, momentum)
        for v in zip(running, (batch_means, unbiased_variances), strict=True)
    )
    return [y, means_out, deviations_out, *blended]


def _with_statistics(
    graph: Ir,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    *,
    mean: Value,
    var: Value,
    eps: float,
) -> Value:
    """Return the batch norm of `x` for the given mean and variance."""
    _check(x, eps)
    gamma, beta = (v if v is None else graph.cast(v, x.dtype) for v in (gamma, beta))
    return ir.batch_norm(
        graph,
        x,
        gamma,
        beta,
        running_mean=mean,
        running_var=var,
        training=False,
        momentum=0.0,
        eps=eps,
    )


@row("_native_batch_norm_legit_no_stats", "_native_batch_norm_legit", saves=True)
def _batch_norm_alone(
    graph: Ir,
    results: Results,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    saved: Saved,
) -> list[Value]:
    """Return [norm, means, inverse deviations] of a batch norm without running statistics."""
    y, whitened, means, inverse_deviations = _norm_results(
        graph, "batch", x, gamma=gamma, beta=beta, eps=eps
    )
    means_out, deviations_out = _statistics(graph, results, means, inverse_deviations)
    saved[means_out] = whitened, inverse_deviations
    return [y, means_out, deviations_out]


@row("_native_batch_norm_legit_no_training")
def _batch_norm_evaluated(
    graph: Ir,
    results: Results,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    mean: Value,
    var: Value,
    momentum: float,
    eps: float,
) -> list[Value]:
    empty = graph.constant(0.0, mean.dtype, (0,))
    y = _with_statistics(graph, x, gamma, beta, mean=mean, var=var, eps=eps)
    return [y, empty, empty]


@row("native_batch_norm_backward", saves=True, kept=True)
def _batch_norm_backward(
    graph: Ir,
    results: Results,
    gradient: Value,
    x: Value,
    gamma: Value | None,
    mean: Value,
    var: Value,
    average: Value,
    inverse: Value,
    training: bool,
    eps: float,
    mask: Ints,
    saved: Saved,
) -> list[Value | None]:
    if training:
        whitened, inverse = saved[average]
        return _gradients(
            graph,
            "batch",
            gradient,
            mask,
            whitened=whitened,
            inverse_deviations=inverse,
            gamma=gamma,
        )
    x_grad = gamma_grad = beta_grad = None
    channel_shape = (x.shape[1], *(1,) * (len(x.shape) - 2))
    other_dims = (0, *range(2, len(x.shape)))
    running_inverse = graph.cast(graph.op("to_inv_std_dev", var, eps=eps), x.dtype)
    if mask[0]:
        scale = (
            running_inverse
            if gamma is None
            else graph.op("mul", running_inverse, graph.cast(gamma, x.dtype))
        )
        x_grad = graph.op("mul", gradient, reshape(graph, scale, channel_shape))
    if mask[1]:
        centred = graph.op("sub", x, reshape(graph, graph.cast(mean, x.dtype), channel_shape))
        whitened = graph.op("mul", centred, reshape(graph, running_inverse, channel_shape))
        gamma_grad = graph.op("sum", graph.op("mul", gradient, whitened), dims=other_dims)
    if mask[2]:
        beta_grad = graph.op("sum", gradient, dims=other_dims)
    dtype = x.dtype if gamma is None else gamma.dtype
    return [x_grad, *(v if v is None else graph.cast(v, dtype) for v in (gamma_grad, beta_grad))]


# --- layer and group norm -------------------------------------------------------------------------


@row("native_layer_norm", saves=True, kept=True)
def _layer_norm(
    graph: Ir,
    results: Results,
    x: Value,
    shape: Ints,
    gamma: Value | None,
    beta: Value | None,
    eps: float,
    saved: Saved,
) -> list[Value]:
    row_length = prod(shape)
    rows = reshape(graph, x, (x.size // max(row_length, 1), row_length))
    gamma, beta = (v if v is None else reshape(graph, v, (row_length,)) for v in (gamma, beta))
    y, whitened, means, inverse_deviations = _norm_results(
        graph, "layer", rows, gamma=gamma, beta=beta, eps=eps
    )
    means_out, deviations_out = _statistics(graph, results, means, inverse_deviations)
    saved[means_out] = whitened, inverse_deviations
    return [reshape(graph, y, x.shape), means_out, deviations_out]


@row("native_layer_norm_backward", saves=True, kept=True)
def _layer_norm_backward(
    graph: Ir,
    results: Results,
    gradient: Value,
    x: Value,
    shape: Ints,
    mean: Value,
    inverse: Value,
    gamma: Value | None,
    beta: Value | None,
    mask: Ints,
    saved: Saved,
) -> list[Value | None]:
    if not x.size:
        of_parameters = (gamma, tuple(shape)), (beta, tuple(shape))
        return _zeros(graph, mask, (x, x.shape), *of_parameters)
    whitened, inverse = saved[mean]
    row_length = prod(shape)
    gradient_rows = reshape(graph, gradient, whitened.shape)
    gamma_row = gamma if gamma is None else reshape(graph, gamma, (row_length,))
    grads = _gradients(
        graph,
        "layer",
        gradient_rows,
        mask,
        whitened=whitened,
        inverse_deviations=inverse,
        gamma=gamma_row,
    )
    grad_shapes = x.shape, tuple(shape), tuple(shape)
    return [
        v if v is None else reshape(graph, v, s) for v, s in zip(grads, grad_shapes, strict=True)
    ]


@row("native_group_norm", saves=True, kept=True)
def _group_norm(
    graph: Ir,
    results: Results,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    batch: int,
    channels: int,
    field: int,
    groups: int,
    eps: float,
    saved: Saved,
) -> list[Value]:
    y, whitened, means, inverse_deviations = _norm_results(
        graph, "group", x, gamma=gamma, beta=beta, eps=eps, groups=groups
    )
    means_out, deviations_out = _statistics(graph, results, means, inverse_deviations)
    saved[means_out] = whitened, inverse_deviations
    return [y, means_out, deviations_out]


@row("native_group_norm_backward", saves=True, kept=True)
def _group_norm_backward(
    graph: Ir,
    results: Results,
    gradient: Value,
    x: Value,
    mean: Value,
    inverse: Value,
    gamma: Value | None,
    batch: int,
    channels: int,
    field: int,
    groups: int,
    mask: Ints,
    saved: Saved,
) -> list[Value | None]:
    if not x.size:
        of_parameters = [(gamma, (channels,))] * 2
        return _zeros(graph, mask, (x, x.shape), *of_parameters)
    whitened, inverse = saved[mean]
    return _gradients(
        graph, "group", gradient, mask, whitened=whitened, inverse_deviations=inverse, gamma=gamma
    )
