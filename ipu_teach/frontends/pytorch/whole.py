"""Operations that the capture keeps whole, in the forward and in the backward pass.

There are three kinds:

* `LOWERED`: operations of torch that the capture does not decompose, because the kit has a row for
  them. Most are gradients, as of a ReLU. `decompositions` leaves them out of torch's tables.
* `SPELLED`: functions of torch that are traced as something else, before torch takes gradients.
* `ROWS`, and all that `whole` traces: an LSTM, cross entropy, `poptorch.custom_op` and a learner's
  own lowering. Each is one node of torch's graph, `ipu_teach::whole`, and its backward is another,
  `ipu_teach::whole_backward`, for which `Capture.lower` adds the gradients of the kit's rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isclose, sqrt
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.aten import ATEN, IGNORED
from ipu_teach.frontends.ir import OPS, Ir, Op, Unfit, Value
from ipu_teach.frontends.ir.autodiff import swept
from ipu_teach.frontends.pytorch.markers import LIBRARY as _library
from ipu_teach.frontends.pytorch.markers import LOWERINGS
from ipu_teach.poplibs.popops import MASKED_LABEL_CODE
from ipu_teach.types import FLOAT, HALF, INT, UNSIGNED_INT

WHOLE, BACKWARD = "ipu_teach::whole", "ipu_teach::whole_backward"
LEARNERS = "lowering "  # in front of the name of an operation that a learner lowers

_library.define("whole(Tensor[] inputs, str name, str how, Tensor[] examples) -> Tensor[]")
_library.define("whole_backward(Tensor[] gradients, Tensor[] inputs, Tensor[] outs) -> Tensor[]")


def _like_examples(inputs: Any, name: str, how: str, examples: Any) -> Any:
    return [torch.empty_like(t) for t in examples]


def _like_inputs(gradients: Any, inputs: Any, outs: Any) -> Any:
    return [torch.empty_like(t) for t in inputs]


for _name, _shapes in (("whole", _like_examples), ("whole_backward", _like_inputs)):
    _library.impl(_name, _shapes, "CompositeExplicitAutograd")
    torch.library.register_fake(f"ipu_teach::{_name}", _shapes, lib=_library)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.inputs, ctx.examples = len(inputs[0]), len(inputs[3])
    ctx.save_for_backward(*inputs[0], *output)


def _backward(ctx: Any, gradients: Any) -> Any:
    saved = ctx.saved_tensors
    inputs, outs = saved[: ctx.inputs], saved[ctx.inputs :]
    pairs = zip(gradients, outs, strict=True)
    known = [torch.zeros_like(out) if g is None else g for g, out in pairs]
    results = torch.ops.ipu_teach.whole_backward(known, list(inputs), list(outs))
    pairs = zip(results, inputs, strict=True)
    slots = [g if t.is_floating_point() else None for g, t in pairs]
    return slots, None, None, [None] * ctx.examples


torch.library.register_autograd(WHOLE, _backward, setup_context=_save, lib=_library)


@dataclass
class Capture:
    """The operations that one capture keeps whole."""

    calls: list[tuple[Any, list[Any], Any]] = field(default_factory=list)  # of learners' operations
    made: dict[Value, list[Op]] = field(default_factory=dict)  # by the first value they make

    def lower(self, graph: Ir, name: str, args: Sequence[Any]) -> list[Value]:
        """Add the rows of a node `ipu_teach::whole` or `ipu_teach::whole_backward` to a graph."""
        return self._backward(graph, *args) if name == BACKWARD else self._forward(graph, *args)

    def _forward(self, graph: Ir, inputs: list[Value], name: str, how: str, _: Any) -> list[Value]:
        start = len(graph.ops)
        with graph.at(part="forward"):
            if name.startswith(LEARNERS):
                outs = self._learners(graph, inputs, json.loads(how))
            elif name in ROWS:
                outs = ROWS[name](graph, inputs, *json.loads(how))
            else:
                outs = list(graph.emit(name, *inputs, **json.loads(how)))
        self.made[outs[0]] = graph.ops[start:]
        return outs

    def _learners(self, graph: Ir, inputs: list[Value], number: int) -> list[Value]:
        operation, flat, form = self.calls[number]
        values = iter(inputs)
        arguments = [next(values) if isinstance(v, torch.Tensor) else v for v in flat]
        args, kwargs = pytree.tree_unflatten(arguments, form)
        result = lower_learners(graph, operation, args, kwargs)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def _backward(
        self, graph: Ir, gradients: list[Value], inputs: list[Value], outs: list[Value]
    ) -> list[Value]:
        pairs = zip(outs, gradients, strict=True)
        grads = {out: g for out, g in pairs if g.number != 0}
        swept(graph, self.made[outs[0]], grads, {v for v in inputs if v.floating})
        zeros = (graph.constant(0, v.dtype, v.shape) for v in inputs)
        return [grads.get(v, zero) for v, zero in zip(inputs, zeros, strict=True)]


current: Capture | None = None


@contextmanager
def capture() -> Iterator[Capture]:
    """Begin a capture: what is kept whole within is recorded in the result."""
    global current
    before, current = current, Capture()
    try:
        yield current
    finally:
        current = before


def whole(name: str, inputs: Any, how: Any, examples: Any) -> Any:
    """Trace one node for a row, or a function of `ROWS`; `how` is what JSON can hold."""
    return torch.ops.ipu_teach.whole(list(inputs), name, json.dumps(how), list(examples))


def is_learners(name: str) -> bool:
    """Whether it names an operation of a library of the learner's that the kit can lower."""
    library, _, plain = name.partition("::")
    is_own = bool(library) and library not in ("aten", "prims", "prim", "ipu_teach")
    return is_own and (name in LOWERINGS or plain in OPS)


def learners(function: Any, args: Any, kwargs: Any) -> Any:
    """Call an operation of the learner's: as one node, unless torch knows its gradient."""
    assert current is not None, "called by a capture"
    operation = getattr(function, "default", function)
    if _has_gradient(operation):
        return function(*args, **kwargs)
    flat, form = pytree.tree_flatten((args, kwargs))
    with torch.no_grad():
        like = function(*args, **kwargs)
    is_tensor = isinstance(like, torch.Tensor)
    tensors = [v for v in flat if isinstance(v, torch.Tensor)]
    current.calls.append((operation, flat, form))
    name, number = operation._schema.name, len(current.calls) - 1
    result = whole(LEARNERS + name, tensors, number, [like] if is_tensor else list(like))
    return result[0] if is_tensor else result


def _has_gradient(operation: Any) -> bool:
    """Whether `register_autograd` has been called for an operation."""
    name = operation._schema.name
    defined = torch._library.custom_ops.OPDEFS.get(name)
    if defined is not None:
        return defined._backward_fn is not None
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "Autograd"))


def lower_learners(graph: Ir, operation: Any, args: Any, kwargs: Any) -> Any:
    """Add what a learner's `lowering` makes of an operation, or the row that has its name: its
    tensors in order, and all else by name."""
    name = operation._schema.name
    if name in LOWERINGS:
        return LOWERINGS[name](graph, *args, **kwargs)
    names = (argument.name for argument in operation._schema.arguments)
    named = dict(zip(names, args, strict=False)) | kwargs
    values = [v for v in named.values() if isinstance(v, Value)]
    numbers = {k: v for k, v in named.items() if not isinstance(v, Value)}
    outs = graph.emit(name.partition("::")[2], *values, **numbers)
    return outs[0] if len(operation._schema.returns) == 1 else list(outs)


# --- operations that torch does not decompose -----------------------------------------------------

LOWERED: dict[str, Callable[..., Any]] = {}  # (graph, what torch says of the node, *arguments)
NAMES = {
    "native_layer_norm", "native_layer_norm_backward", "native_group_norm",
    "native_group_norm_backward", "native_batch_norm_backward", "silu", "silu_backward", "gelu",
    "_native_batch_norm_legit_functional", "gelu_backward",
}  # fmt: skip


def lowered(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what these operations of torch become."""

    def registered(function: Callable[..., Any]) -> Callable[..., Any]:
        LOWERED.update(dict.fromkeys(names, function))
        NAMES.update(names)
        return function

    return registered


def decompositions(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Return a table of decompositions without the operations that are kept whole."""
    kept: dict[Any, Callable[..., Any]] = {}
    for op, spelled in table.items():
        name = op._schema.name.removeprefix("aten::")
        if name in PLAIN:
            kept[op] = _unless(PLAIN[name], spelled)
        elif name not in NAMES:
            kept[op] = spelled
    return kept


def _unless(is_plain: Callable[..., bool], spelled: Callable[..., Any]) -> Callable[..., Any]:
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        return NotImplemented if is_plain(*args, **kwargs) else spelled(*args, **kwargs)

    return decomposed


@lowered("threshold_backward")
def _threshold_backward(g: Ir, told: Any, d: Value, y: Value, threshold: float) -> Value:
    if threshold == 0 and y.floating:
        return g.op("non_linearity_grad", y, d, kind="RELU")
    return g.op("select", g.op("lteq", y, threshold), g.constant(0, d.dtype, d.shape), d)


def _by_output(kind: str) -> Callable[..., Value]:
    return lambda g, told, d, y: g.op("non_linearity_grad", y, d, kind=kind)


lowered("sigmoid_backward")(_by_output("SIGMOID"))
lowered("tanh_backward")(_by_output("TANH"))


def _at_the_end(g: Ir, x: Value, dim: int) -> Value:
    """Exchange a dimension and the last one."""
    rank = len(x.shape)
    return x if rank < 2 or dim % rank == rank - 1 else ir.transpose(g, x, dim, -1)


@lowered("_softmax_backward_data")
def _softmax_backward(g: Ir, told: Any, d: Value, y: Value, dim: int, dtype: Any) -> Value:
    if not y.shape:
        return g.constant(0, told.dtype, ())
    by_x = g.op("softmax_grad", _at_the_end(g, y, dim), _at_the_end(g, d, dim))
    return g.cast(_at_the_end(g, by_x, dim), told.dtype)


@lowered("_log_softmax_backward_data")
def _log_softmax_backward(g: Ir, told: Any, d: Value, y: Value, dim: int, dtype: Any) -> Value:
    total = ir.reduced(g, "sum", d, [dim] if d.shape else [], keep=True)
    by_x = g.op("sub", d, g.op("mul", g.op("exp", y), total))
    return g.cast(by_x, told.dtype)


@lowered("slice_backward")
def _slice_backward(
    g: Ir, told: Any, d: Value, sizes: Any, dim: int, start: int, end: int, step: int
) -> Value:
    axis = dim % len(sizes)
    begin, stop, _ = slice(start, end).indices(sizes[axis])
    stop = max(begin, stop)
    if step != 1:
        how = {"dim": axis, "begin": begin, "end": stop, "step": step}
        return g.op("put", d, shape=tuple(sizes), **how)
    lower, upper = [0] * len(sizes), [0] * len(sizes)
    lower[axis], upper[axis] = begin, sizes[axis] - stop
    return g.op("pad", d, lower=tuple(lower), upper=tuple(upper)) if any(lower + upper) else d


@lowered("select_backward")
def _select_backward(g: Ir, told: Any, d: Value, sizes: Any, dim: int, index: int) -> Value:
    axis, at = dim % len(sizes), index % sizes[dim]
    row = g.op("reshape", d, shape=(*sizes[:axis], 1, *sizes[axis + 1 :]))
    result: Value = _slice_backward(g, told, row, sizes, axis, at, at + 1, 1)
    return result


@lowered("native_dropout_backward")
def _dropout_backward(g: Ir, told: Any, d: Value, kept: Value, scale: float) -> Value:
    """The forward's mask has the scale in it: multiply by that, where it is there."""
    maker = g.maker()
    ask = maker.get(kept)
    if ask is not None and ask.kind == "gt" and ask.inputs[0] in maker:
        mask = ask.inputs[0]
        drawn = maker[mask]
        is_scaled = drawn.kind == "dropout_mask" and isclose(scale * drawn.attrs["keep"], 1)
        if is_scaled and mask.dtype is d.dtype:
            return g.op("mul", d, mask)
    return g.op("mul", g.op("mul", d, g.cast(kept, d.dtype)), scale)


@lowered("embedding_dense_backward")
def _embedding_backward(
    g: Ir, told: Any, d: Value, index: Value, rows: int, padding: int, by_frequency: bool
) -> Value:
    if padding >= 0:
        mask = g.op("reshape", g.op("eq", index, padding), shape=(*index.shape, 1))
        d = g.op("select", mask, g.constant(0, d.dtype, ()), d)
    places = g.op("reinterpret", index, dtype=UNSIGNED_INT) if index.dtype is INT else index
    return g.op("scatter", places, d, shape=told.shape)


@lowered("mm")
def _product(g: Ir, told: Any, a: Value, b: Value) -> Value:
    """Multiply matrices. torch takes the gradient of weights as the transpose of one tensor times
    another; the product of the transposes, transposed, lies as the weights do."""
    if told.dtype not in (FLOAT, HALF):
        raise Unfit("whole numbers are not multiplied as matrices", "x.float() @ y.float().")
    a, b = g.cast(a, told.dtype), g.cast(b, told.dtype)
    maker = g.maker()
    is_turned = [v in maker and maker[v].kind == "permute" for v in (a, b)]
    if is_turned == [True, False]:
        return ir.turned(g, g.op("matmul", ir.turned(g, b), maker[a].inputs[0]))
    return g.op("matmul", a, b)


# --- negative log likelihood ----------------------------------------------------------------------


def _class_rows(g: Ir, x: Value) -> Value:
    """[batch, classes, …] or [classes] as [rows, classes]."""
    if len(x.shape) > 2:
        x = g.op("permute", x, dims=(0, *range(2, len(x.shape)), 1))
    return x if len(x.shape) == 2 else g.op("reshape", x, shape=(-1, x.shape[-1]))


def _class_numbers(g: Ir, labels: Value, classes: int, ignored: int) -> tuple[Value, bool]:
    """Class numbers as UNSIGNED_INT [rows], and whether some may count for no loss.

    The host checks the class numbers that it feeds. Of those, `IGNORED` is expected only where the
    host has fed one.
    """
    rows = g.op("reshape", labels, shape=(labels.size,)) if len(labels.shape) != 1 else labels
    numbers = g.op("reinterpret", rows, dtype=UNSIGNED_INT) if rows.dtype is INT else rows
    fed = g.fed(numbers)
    if fed is not None:
        fed.below = classes if fed.below is None else min(classes, fed.below)
        if ignored == IGNORED and not getattr(fed, "marked", False):
            return numbers, False
        fed.ignored = ignored
    masked = g.constant(MASKED_LABEL_CODE, UNSIGNED_INT)
    return g.op("select", g.op("eq", rows, ignored), masked, numbers), True


def _counted(g: Ir, numbers: Value, is_masked: bool) -> Value:
    """How many class numbers count, FLOAT."""
    if not is_masked:
        return g.constant(float(numbers.size), FLOAT, ())
    masked = g.constant(MASKED_LABEL_CODE, UNSIGNED_INT, numbers.shape)
    return ir.reduced(g, "sum", g.op("cast", g.op("neq", numbers, masked), dtype=FLOAT))


def _mean(g: Ir, total: Value, count: Value) -> Value:
    """total / count, NaN for a count of 0; there the gradient of the total is 0, not NaN."""
    if count.number is not None:
        return g.op("mul", total, 1 / count.number)
    mean = g.op("div", total, g.op("max", count, 1.0))
    empty = g.op("eq", count, 0.0)
    return g.op("select", empty, g.constant(float("nan"), total.dtype, total.shape), mean)


def _has_no_weights(x: Any, target: Any, weight: Any, *others: Any) -> bool:
    return weight is None


def _has_no_weights_backward(d: Any, x: Any, target: Any, weight: Any, *others: Any) -> bool:
    return weight is None


@lowered("nll_loss_forward", "nll_loss2d_forward")
def _nll(
    g: Ir, told: Any, x: Value, labels: Value, weight: None, reduction: int, ignored: int
) -> list[Value]:
    rows = _class_rows(g, x)
    numbers, is_masked = _class_numbers(g, labels, rows.shape[1], ignored)
    count = _counted(g, numbers, is_masked)
    each = g.op("neg", g.cast(g.op("pick", rows, numbers), FLOAT))
    weights = g.cast(count, told.dtypes[1])
    if reduction == 0:
        loss = g.op("reshape", each, shape=told.shape) if each.shape != told.shape else each
        return [g.cast(loss, told.dtype), g.constant(0, told.dtypes[1], ())]
    total = ir.reduced(g, "sum", each)
    return [g.cast(_mean(g, total, count) if reduction == 1 else total, told.dtype), weights]


@lowered("nll_loss_backward", "nll_loss2d_backward")
def _nll_backward(
    g: Ir, told: Any, d: Value, x: Value, labels: Value, weight: None, reduction: int,
    ignored: int, weights: Value,
) -> Value:  # fmt: skip
    rows = _class_rows(g, x)
    numbers, is_masked = _class_numbers(g, labels, rows.shape[1], ignored)
    d = g.cast(d, FLOAT)
    if reduction == 1:
        count = _counted(g, numbers, is_masked)
        number = count.number
        d = (
            g.op("div", d, g.op("max", count, 1.0))
            if number is None
            else g.op("mul", d, 1 / number)
        )
    each = g.op("neg", g.op("reshape", d, shape=(-1, 1) if reduction == 0 else (1, 1)))
    hot = g.op("one_hot", numbers, classes=rows.shape[1], dtype=FLOAT)
    by_rows = g.op("mul", hot, each)
    if len(x.shape) > 2:
        moved = (x.shape[0], *x.shape[2:], x.shape[1])
        back = (0, len(moved) - 1, *range(1, len(moved) - 1))
        by_rows = g.op("permute", g.op("reshape", by_rows, shape=moved), dims=back)
    elif by_rows.shape != x.shape:
        by_rows = g.op("reshape", by_rows, shape=x.shape)
    return g.cast(by_rows, told.dtype)


PLAIN: dict[str, Callable[..., bool]] = {  # which calls are kept whole; others are decomposed
    "nll_loss_forward": _has_no_weights,
    "nll_loss2d_forward": _has_no_weights,
    "nll_loss_backward": _has_no_weights_backward,
    "nll_loss2d_backward": _has_no_weights_backward,
    "embedding_dense_backward": lambda d, i, rows, padding, by_frequency: not by_frequency,
}


# --- functions that are traced as something else --------------------------------------------------

SPELLED: dict[Any, Callable[..., Any]] = {}
ROWS: dict[str, Callable[..., list[Value]]] = {}  # by the name that `whole` was given


_sdpa = torch.ops.aten.scaled_dot_product_attention.default


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """softmax(query keyᵀ scale + mask) value, with one product by `scale`, in a capture.

    It is registered for the operation, not in `SPELLED`, because `nn.MultiheadAttention` calls it
    within another function of torch.
    """
    if current is None or enable_gqa or (is_causal and attn_mask is not None):
        args = attn_mask, dropout_p, is_causal
        return _sdpa.decompose(query, key, value, *args, scale=scale, enable_gqa=enable_gqa)
    factor = 1 / sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        hidden = torch.zeros(attn_mask.shape, dtype=scores.dtype)
        attn_mask = hidden.masked_fill(~attn_mask, float("-inf"))
    if attn_mask is not None:
        scores = scores + attn_mask
    # a query that sees no key has 0, and with a causal mask each sees one
    softmax = torch.softmax if is_causal or attn_mask is None else torch._safe_softmax
    shares = softmax(scores, -1)
    if dropout_p > 0:
        shares = torch.dropout(shares, dropout_p, True)
    return shares @ value


_sdpa.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)(_attention)


def _recurrent(kind: str) -> Callable[..., Any]:
    def traced(
        x: Any, state: Any, weights: Any, has_biases: bool, layers: int, p: float, train: bool,
        bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        states = list(state) if kind == "lstm" else [state]
        if x.dim() != 3:
            raise NotImplementedError
        width = states[0].shape[-1] * (2 if bidirectional else 1)
        examples = [x.new_empty((*x.shape[:2], width)), *(s.new_empty(s.shape) for s in states)]
        how = [len(states), has_biases, layers, p, bool(train), bidirectional, batch_first]
        return tuple(whole(kind, [x, *states, *weights], how, examples))

    def lowered(graph: Ir, inputs: list[Value], states: int, *how: Any) -> list[Value]:
        x, state, weights = inputs[0], inputs[1 : 1 + states], inputs[1 + states :]
        result = ATEN[kind](graph, x, state if kind == "lstm" else state[0], weights, *how)
        return list(result)

    ROWS[kind] = lowered
    return traced


for _kind in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    SPELLED[getattr(torch._VF, _kind)] = _recurrent(_kind)


def _cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Any = None,
    ignore_index: int = IGNORED, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    for name, value in (("scores", input), ("labels", target)):
        if not isinstance(value, torch.Tensor):
            raise ModelError(f"""cross_entropy() was given {shown(value)} as its {name}.
                next:  give a tensor.""")
    soft = target.is_floating_point() or weight is not None or label_smoothing
    old = size_average is not None or reduce is not None
    if soft or old or input.dim() < 2 or input.dtype == torch.float16:
        number = {"none": 0, "mean": 1, "sum": 2}[reduction]
        return torch._C._nn.cross_entropy_loss(
            input, target, weight, number, ignore_index, label_smoothing
        )
    example = input.new_empty(target.shape if reduction == "none" else ())
    return whole("cross_entropy", [input, target], [reduction, ignore_index], [example])[0]


def _cross_entropy_rows(
    graph: Ir, inputs: list[Value], reduction: str, ignored: int
) -> list[Value]:
    x, labels = inputs
    rows = _class_rows(graph, x)
    numbers, is_masked = _class_numbers(graph, labels, rows.shape[1], ignored)
    each, _ = graph.emit("cross_entropy", rows, numbers)
    if reduction == "none":
        return [graph.op("reshape", each, shape=labels.shape)]
    total = ir.reduced(graph, "sum", each)
    return (
        [_mean(graph, total, _counted(graph, numbers, is_masked))]
        if reduction == "mean"
        else [total]
    )


SPELLED[torch.nn.functional.cross_entropy] = _cross_entropy
ROWS["cross_entropy"] = _cross_entropy_rows
