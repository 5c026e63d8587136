"""Operations that the capture keeps whole, in the forward and in the backward pass.

There are three kinds:

* Operations of torch that the capture does not decompose, because the kit has a row for them: those
  in `KEPT` and `KEPT_IF` of the rows. Most are gradients, such as that of a ReLU.
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
from math import sqrt
from typing import Any

import torch

from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import OPS, Ir, Op, Value
from ipu_teach.frontends.ir.autodiff import add_gradients
from ipu_teach.frontends.pytorch import private
from ipu_teach.frontends.pytorch.markers import LIBRARY as _library, LOWERINGS
from ipu_teach.frontends.pytorch.private import pytree
from ipu_teach.frontends.pytorch.rows.likelihoods import (
    IGNORED,
    class_numbers,
    class_rows,
    count_of,
    mean_of,
)
from ipu_teach.frontends.pytorch.rows.registry import KEPT_IF, concatenated

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
        add_gradients(graph, self.made[outs[0]], grads, {v for v in inputs if v.floating})
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
    results = torch.ops.ipu_teach.whole(list(inputs), name, json.dumps(how), list(examples))
    # The backward pass reads the results as they are here; forward may change its own in place.
    return [result.clone() for result in results]


def is_learners(name: str) -> bool:
    """Whether it names an operation of a library of the learner's that the kit can lower."""
    library, _, plain = name.partition("::")
    is_own = bool(library) and library not in ("aten", "prims", "prim", "ipu_teach")
    return is_own and (name in LOWERINGS or plain in OPS)


def learners(function: Any, args: Any, kwargs: Any) -> Any:
    """Call an operation of the learner's: as one node, unless torch knows its gradient."""
    assert current is not None, "called by a capture"
    operation = getattr(function, "default", function)
    if private.has_gradient(operation):
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


# --- operations that torch decomposes in some calls -----------------------------------------------


def decompositions(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Return a table of decompositions that leaves alone the calls that `KEPT_IF` has rows for."""
    return {
        op: _unless(KEPT_IF[name], spelled) if (name := _plain_name(op)) in KEPT_IF else spelled
        for op, spelled in table.items()
    }


def _plain_name(operation: Any) -> str:
    return str(operation._schema.name).removeprefix("aten::")


def _unless(is_kept: Callable[..., bool], spelled: Callable[..., Any]) -> Callable[..., Any]:
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        return NotImplemented if is_kept(*args, **kwargs) else spelled(*args, **kwargs)

    return decomposed


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
    if current is None or (is_causal and attn_mask is not None):
        args = query, key, value, attn_mask, dropout_p, is_causal
        return private.as_torch_spells(_sdpa, *args, scale=scale, enable_gqa=enable_gqa)
    if enable_gqa:  # several heads of queries share one of keys and values
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    factor = 1 / sqrt(query.shape[-1]) if scale is None else scale
    # halves are FLOAT up to the softmax: their scores may be larger than HALF holds
    scores = query.float() @ key.float().transpose(-2, -1) * factor
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        hidden = torch.zeros(attn_mask.shape, dtype=scores.dtype)
        attn_mask = hidden.masked_fill(~attn_mask, float("-inf"))
    if attn_mask is not None:
        scores = scores + attn_mask
    # a query that sees no key has 0, and with a causal mask each sees one
    softmax = torch.softmax if is_causal or attn_mask is None else private.safe_softmax
    shares = softmax(scores, -1).to(value.dtype)
    if dropout_p > 0:
        shares = torch.dropout(shares, dropout_p, True)
    return shares @ value


private.respell(_sdpa, _attention)


RECURRENT = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "tanh", "rnn_relu": "relu"}


def _recurrent(kind: str) -> Callable[..., Any]:
    spelled = getattr(torch.ops.aten, kind)

    def traced(*args: Any) -> Any:
        """One node for layers of cells, unless a sequence is packed or a state is projected."""
        if isinstance(args[3], (list, tuple)):  # packed: torch.nn.utils.rnn.PackedSequence
            return spelled.data(*args)
        x, state, weights, has_biases, layers, p, train, bidirectional, batch_first = args
        states = list(state) if kind == "lstm" else [state]
        ways = 2 if bidirectional else 1
        if x.dim() != 3 or len(weights) != layers * ways * (4 if has_biases else 2):
            return spelled.input(*args)
        width = states[0].shape[-1] * ways
        examples = [x.new_empty((*x.shape[:2], width)), *(s.new_empty(s.shape) for s in states)]
        how = [len(states), has_biases, layers, p if train else 0.0, ways, batch_first]
        return tuple(whole(kind, [x, *states, *weights], how, examples))

    return traced


def _recurrent_rows(kind: str) -> Callable[..., list[Value]]:
    cell = RECURRENT[kind]

    def lowered(
        graph: Ir, inputs: list[Value], count: int, has_biases: bool, layers: int, p: float,
        ways: int, batch_first: bool,
    ) -> list[Value]:  # fmt: skip
        x, states, weights = inputs[0], inputs[1 : 1 + count], inputs[1 + count :]
        each = 4 if has_biases else 2
        x = ir.transpose(graph, x, 0, 1) if batch_first else x
        last: list[list[Value]] = [[] for _ in states]
        for layer in range(layers):
            outs = []
            for way in range(ways):
                at = layer * ways + way
                seen = graph.op("reverse", x, dim=0) if way else x
                first = [_row(graph, state, at) for state in states]
                own = weights[at * each : (at + 1) * each]
                y, after = ir.recurrent(graph, cell, seen, first, *own)
                outs.append(graph.op("reverse", y, dim=0) if way else y)
                for several, value in zip(last, after, strict=True):
                    several.append(graph.op("reshape", value, shape=(1, *value.shape)))
            x = concatenated(graph, outs, len(x.shape) - 1)
            x = ir.dropout(graph, x, p) if layer + 1 < layers else x
        x = ir.transpose(graph, x, 0, 1) if batch_first else x
        return [x, *(concatenated(graph, several, 0) for several in last)]

    return lowered


def _row(graph: Ir, x: Value, place: int) -> Value:
    part = graph.op("slice", x, dim=0, begin=place, end=place + 1)
    return graph.op("reshape", part, shape=x.shape[1:])


for _kind in RECURRENT:
    SPELLED[private.recurrent(_kind)] = _recurrent(_kind)
    ROWS[_kind] = _recurrent_rows(_kind)


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
    if soft or old or input.dim() < 2:
        number = {"none": 0, "mean": 1, "sum": 2}[reduction]
        return private.cross_entropy_loss(
            input, target, weight, number, ignore_index, label_smoothing
        )
    example = input.new_empty(target.shape if reduction == "none" else ())
    return whole("cross_entropy", [input, target], [reduction, ignore_index], [example])[0]


def _cross_entropy_rows(
    graph: Ir, inputs: list[Value], reduction: str, ignored: int
) -> list[Value]:
    x, labels = inputs
    rows = class_rows(graph, x)
    numbers, is_masked = class_numbers(graph, labels, rows.shape[1], ignored)
    each, _ = graph.emit("cross_entropy", rows, numbers)
    if reduction == "none":
        loss = graph.op("reshape", each, shape=labels.shape)
    else:
        loss = ir.reduced(graph, "sum", each)
    if reduction == "mean":
        loss = mean_of(graph, loss, count_of(graph, numbers, is_masked))
    return [graph.cast(loss, x.dtype)]


SPELLED[torch.nn.functional.cross_entropy] = _cross_entropy
ROWS["cross_entropy"] = _cross_entropy_rows
