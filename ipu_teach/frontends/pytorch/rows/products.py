"""Matrix products and convolutions."""

from __future__ import annotations

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.elementwise import in_dtype
from ipu_teach.frontends.pytorch.rows.registry import Ints, Results, first_elements, reshape, row

# --- matrices -------------------------------------------------------------------------------------


@row("mm", "bmm")
def _product(graph: Ir, results: Results, a: Value, b: Value) -> Value:
    a, b = in_dtype(graph, results, a, b)
    if not a.floating:
        why = f"matrices of {a.dtype.__name__} are not multiplied"
        raise Unfit(why, "x.float() @ y.float().")
    if not a.size or not b.size:
        return graph.constant(0.0, a.dtype, (*a.shape[:-1], b.shape[-1]))
    return _by_transposes(graph, a, b) or graph.op("matmul", a, b)


def _by_transposes(graph: Ir, a: Value, b: Value) -> Value | None:
    """Return a b as the transpose of bᵀ aᵀ if a is the transpose of a matrix; else None.

    It is also None if b is a transpose. torch computes the gradient of weights as such a product.
    In this form, the result has the layout of the weights, whose transpose the forward pass
    multiplies by.
    """
    if len(a.shape) != 2:
        return None
    makers = [next((op for op in reversed(graph.ops) if v in op.outs), None) for v in (a, b)]
    a_transpose, b_transpose = (
        op if op is not None and op.kind == "permute" else None for op in makers
    )
    if a_transpose is None or b_transpose is not None:
        return None
    return ir.turned(graph, graph.op("matmul", ir.turned(graph, b), a_transpose.inputs[0]))


@row("addmm", "baddbmm")
def _addmm(
    graph: Ir, results: Results, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1
) -> Value:
    """Return beta c + alpha a b. If beta is 0, c is not read, and may be NaN."""
    y = _product(graph, results, a, b)
    y = y if alpha == 1 else graph.op("mul", y, alpha)
    if beta == 0:
        return y
    return graph.op("add", y, c if beta == 1 else graph.op("mul", c, beta))


@row("addmv")
def _addmv(
    graph: Ir, results: Results, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1
) -> Value:
    c, b = (reshape(graph, v, (*v.shape, 1)) if v.shape else v for v in (c, b))
    y = _addmm(graph, results, c, a=a, b=b, beta=beta, alpha=alpha)
    return reshape(graph, y, results.shape)


@row("addbmm")
def _addbmm(
    graph: Ir, results: Results, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1
) -> Value:
    """Return beta c + alpha times the sum of a batch of products, computed as one product."""
    count, rows, inner = a.shape
    wide = graph.op("permute", a, dims=(1, 0, 2))
    wide = reshape(graph, wide, (rows, count * inner))
    tall = reshape(graph, b, (count * inner, b.shape[2]))
    return _addmm(graph, results, c, a=wide, b=tall, beta=beta, alpha=alpha)


# --- convolutions ---------------------------------------------------------------------------------


# the sizes of a convolution; the keys are names of attributes of "conv"
Sizes = dict[str, tuple[int, ...]]
# the sizes that determine the positions of elements in a transposed convolution
NAMES = "stride", "lower", "dilation"


def _check_floats(x: Value) -> None:
    """Raise `Unfit` unless x contains floats."""
    if not x.floating:
        raise Unfit(f"a convolution of {x.dtype.__name__}", "x.float() and the weights in float.")


def _sizes(rank: int, stride: Ints, padding: Ints, dilation: Ints) -> Sizes:
    """Return the sizes of a convolution, with one entry for each of `rank` dimensions."""
    return ir.sized(rank, stride=stride, lower=padding, upper=padding, dilation=dilation)


@row("convolution")
def _convolution(
    graph: Ir, results: Results, x: Value, weights: Value, bias: Value | None, stride: Ints,
    padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int,
) -> Value:  # fmt: skip
    _check_floats(x)
    rank = len(weights.shape) - 2
    sizes = _sizes(rank, stride, padding, dilation)
    if not x.size:
        y = graph.constant(0.0, x.dtype, results.shape)
        return y if bias is None else graph.op("add", y, _per_channel(graph, bias, rank))
    if not transposed:
        return ir.conv(graph, x, weights, bias, groups=groups, **sizes)
    y = _transposed(graph, x, weights, results.shape, groups=groups, sizes=sizes)
    return y if bias is None else graph.op("add", y, _per_channel(graph, bias, rank))


def _per_channel(graph: Ir, bias: Value, rank: int) -> Value:
    """Return [channels] as [channels, 1, …], which broadcasts to [batch, channels, *field]."""
    return reshape(graph, bias, (bias.size, *(1,) * rank))


def _reached(x: Value, weights: Value, field: Ints, sizes: Sizes) -> tuple[list[int], Sizes]:
    """Return the part of a transposed convolution's output that x affects, and the sizes for it.

    The upper padding is chosen so that a convolution of this part has exactly the shape of x;
    output padding makes it smaller than the lower padding. Outside of the part, the output is 0.
    """
    reached_shape = []
    upper = []
    for n, kernel, output_length, stride, lower, dilation in zip(
        x.shape[2:], weights.shape[2:], field, *(sizes[k] for k in NAMES), strict=True
    ):
        end = (n - 1) * stride + dilation * (kernel - 1) + 1 - lower
        reached_shape.append(min(output_length, end))
        upper.append(max(end - output_length, 0))
    return reached_shape, {**sizes, "upper": tuple(upper)}


def _transposed(
    graph: Ir, x: Value, weights: Value, shape: Ints, groups: int, sizes: Sizes
) -> Value:
    """Return the transposed convolution of x, in this shape.

    It is the input gradient of a convolution.
    """
    inner, sizes = _reached(x, weights, shape[2:], sizes)
    field = (*shape[:2], *inner)
    y = graph.op("conv_input_grad", x, weights, field=field, groups=groups, **sizes)
    if field == tuple(shape):
        return y
    upper = tuple(n - m for n, m in zip(shape, field, strict=True))
    return graph.op("pad", y, lower=(0,) * len(upper), upper=upper)


@row("convolution_backward")
def _convolution_backward(
    graph: Ir,
    results: Results,
    gradient: Value,
    x: Value,
    weights: Value,
    bias: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    mask: Ints,
) -> list[Value | None]:
    """Return the gradients of x, the weights and the bias, those that `mask` asks for."""
    rank = len(weights.shape) - 2
    sizes = _sizes(rank, stride, padding, dilation)
    by_input = by_weights = by_bias = None
    if not x.size or not gradient.size:
        zeros = [graph.constant(0.0, x.dtype, v.shape) for v in (x, weights)]
        by_input, by_weights = (v if m else None for v, m in zip(zeros, mask, strict=False))
    elif transposed:
        inner, sizes = _reached(x, weights, gradient.shape[2:], sizes)
        part = first_elements(graph, gradient, (*gradient.shape[:2], *inner))
        if mask[0]:
            by_input = graph.op("conv", part, weights, **sizes, groups=groups)
        if mask[1]:
            by_weights = graph.op(
                "conv_weight_grad", x, part, shape=weights.shape, **sizes, groups=groups
            )
    else:
        if mask[0]:
            by_input = graph.op(
                "conv_input_grad", gradient, weights, field=x.shape, **sizes, groups=groups
            )
        if mask[1]:
            by_weights = graph.op(
                "conv_weight_grad", gradient, x, shape=weights.shape, **sizes, groups=groups
            )
    if mask[2]:
        by_bias = graph.op("sum", gradient, dims=(0, *range(2, rank + 2)))
    return [by_input, by_weights, by_bias]
