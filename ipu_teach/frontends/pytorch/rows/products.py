"""Lowering functions of matrix products and convolutions."""

from __future__ import annotations

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.elementwise import in_dtype
from ipu_teach.frontends.pytorch.rows.registry import Ints, Results, first_elements, reshape, row

# --- matrices -------------------------------------------------------------------------------------


@row("mm", "bmm")
def _product(graph: Ir, results: Results, a: Value, b: Value) -> Value:
    a, b = in_dtype(graph, results, a, b)
    if not a.size or not b.size:
        return graph.constant(0, a.dtype, (*a.shape[:-1], b.shape[-1]))
    if not a.floating:
        return _integer_product(graph, a, b)
    return _by_transposes(graph, a, b) or graph.op("matmul", a, b)


def _integer_product(graph: Ir, a: Value, b: Value) -> Value:
    """Return `a @ b` of integers, as sums of elementwise products.

    The device has no units for matrices of integers.
    """
    columns = reshape(graph, a, (*a.shape, 1))
    rows = reshape(graph, b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return graph.op("sum", graph.op("mul", columns, rows), dims=[len(a.shape) - 1])


def _by_transposes(graph: Ir, a: Value, b: Value) -> Value | None:
    """Return `a @ b`, computed as (bᵀ aᵀ)ᵀ, if only `a` is a transposed matrix; otherwise None.

    torch computes the gradient of a layer's weights as a product whose left operand is transposed.
    If it is computed as (bᵀ aᵀ)ᵀ, the gradient has the same tile mapping as the weights.
    """
    if len(a.shape) != 2:
        return None
    producers = [next((op for op in reversed(graph.ops) if v in op.outs), None) for v in (a, b)]
    a_transpose, b_transpose = (
        op if op is not None and op.kind == "permute" else None for op in producers
    )
    if a_transpose is None or b_transpose is not None:
        return None
    return ir.turned(graph, graph.op("matmul", ir.turned(graph, b), a_transpose.inputs[0]))


@row("addmm", "baddbmm")
def _addmm(
    graph: Ir, results: Results, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1
) -> Value:
    """Return `beta * c + alpha * a @ b`. If `beta` is 0, `c` is not read, so it may contain NaN."""
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
    """Return `beta * c + alpha * s`, where s is the sum of all products `a[i] @ b[i]`.

    The sum is computed as a single product. Its left operand contains the matrices of `a` next to
    each other, and its right operand contains the matrices of `b` below each other.
    """
    batch_size, row_count, column_count = a.shape
    a_side_by_side = graph.op("permute", a, dims=(1, 0, 2))
    a_side_by_side = reshape(graph, a_side_by_side, (row_count, batch_size * column_count))
    b_stacked = reshape(graph, b, (batch_size * column_count, b.shape[2]))
    return _addmm(graph, results, c, a=a_side_by_side, b=b_stacked, beta=beta, alpha=alpha)


# --- convolutions ---------------------------------------------------------------------------------


# Maps attributes of "conv" (the stride, padding and dilation of a convolution) to their values.
Sizes = dict[str, tuple[int, ...]]
# The names of the sizes that determine where a transposed convolution puts elements.
NAMES = "stride", "lower", "dilation"


def _check_floats(x: Value) -> None:
    """Raise `Unfit` if `x` does not contain floats."""
    if not x.floating:
        raise Unfit(
            f"the device computes convolutions only of floats, not of {x.dtype.__name__}",
            "convert the input and the weights with .float().",
        )


def _sizes(rank: int, stride: Ints, padding: Ints, dilation: Ints) -> Sizes:
    """Return a dict of the sizes of a convolution; each size is a tuple with `rank` entries."""
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
    """Return a bias [channels] in a shape that broadcasts to [batch, channels, …].

    `rank` is the number of spatial dimensions.
    """
    return reshape(graph, bias, (bias.size, *(1,) * rank))


def _reached(x: Value, weights: Value, field: Ints, sizes: Sizes) -> tuple[list[int], Sizes]:
    """Return `(lengths, sizes)` for the output of a transposed convolution.

    In dimension d, only the first `lengths[d]` elements of the output depend on `x`; output padding
    may add elements after them. `sizes` is a copy of the argument `sizes` with another upper
    padding. With this padding, the convolution of the first `lengths` elements has exactly the
    shape of `x`.
    """
    reached_shape = []
    upper_padding = []
    for length, kernel, output_length, stride, lower, dilation in zip(
        x.shape[2:], weights.shape[2:], field, *(sizes[k] for k in NAMES), strict=True
    ):
        reached_end = (length - 1) * stride + dilation * (kernel - 1) + 1 - lower
        reached_shape.append(min(output_length, reached_end))
        upper_padding.append(max(reached_end - output_length, 0))
    return reached_shape, {**sizes, "upper": tuple(upper_padding)}


def _transposed(
    graph: Ir, x: Value, weights: Value, shape: Ints, groups: int, sizes: Sizes
) -> Value:
    """Return the transposed convolution of `x` with the shape `shape`.

    It is computed as the gradient of a convolution with respect to its input.
    """
    reached_field, sizes = _reached(x, weights, shape[2:], sizes)
    reached_shape = (*shape[:2], *reached_field)
    y = graph.op("conv_input_grad", x, weights, field=reached_shape, groups=groups, **sizes)
    if reached_shape == tuple(shape):
        return y
    unreached = tuple(n - m for n, m in zip(shape, reached_shape, strict=True))
    return graph.op("pad", y, lower=(0,) * len(unreached), upper=unreached)


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
    """Return [gradient of x, gradient of the weights, gradient of the bias].

    A gradient is None if its entry in `mask` is False.
    """
    rank = len(weights.shape) - 2
    sizes = _sizes(rank, stride, padding, dilation)
    x_grad = weight_grad = bias_grad = None
    if not x.size or not gradient.size:
        zeros = [graph.constant(0.0, x.dtype, v.shape) for v in (x, weights)]
        x_grad, weight_grad = (
            v if is_wanted else None for v, is_wanted in zip(zeros, mask, strict=False)
        )
    elif transposed:
        reached_field, sizes = _reached(x, weights, gradient.shape[2:], sizes)
        reached_gradient = first_elements(graph, gradient, (*gradient.shape[:2], *reached_field))
        if mask[0]:
            x_grad = graph.op("conv", reached_gradient, weights, **sizes, groups=groups)
        if mask[1]:
            weight_grad = graph.op(
                "conv_weight_grad", x, reached_gradient, shape=weights.shape, **sizes, groups=groups
            )
    else:
        if mask[0]:
            x_grad = graph.op(
                "conv_input_grad", gradient, weights, field=x.shape, **sizes, groups=groups
            )
        if mask[1]:
            weight_grad = graph.op(
                "conv_weight_grad", gradient, x, shape=weights.shape, **sizes, groups=groups
            )
    if mask[2]:
        bias_grad = graph.op("sum", gradient, dims=(0, *range(2, rank + 2)))
    return [x_grad, weight_grad, bias_grad]
