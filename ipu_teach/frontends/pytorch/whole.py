"""Operations of torch that a capture records as a whole, instead of decomposing them.

There are three kinds:

* Operations with their own lowering, listed in `KEPT` and `KEPT_IF` of the package `rows`. Most of
  them compute gradients, such as the gradient of a ReLU.
* Functions that are replaced by other functions before torch takes gradients, listed in `SPELLED`.
* Functions that `trace_whole` records as a single node `ipu_teach::whole`: the functions in `ROWS`,
  such as an LSTM or cross entropy; `poptorch.custom_op`; and operations that the user lowers. The
  backward pass of such a node is a single node `ipu_teach::whole_backward`, for which
  `Capture.lower` adds the gradients of `frontends.ir`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import sqrt

import torch
from torch.autograd.function import FunctionCtx

from ipu_teach.errors import ModelError, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import OPS, Ir, Op, Value
from ipu_teach.frontends.ir.autodiff import add_gradients
from ipu_teach.frontends.pytorch import private
from ipu_teach.frontends.pytorch.markers import LIBRARY as _library, LOWERINGS
from ipu_teach.frontends.pytorch.private import Argument, Function, Operation, Target, pytree
from ipu_teach.frontends.pytorch.rows.likelihoods import (
    IGNORED,
    class_numbers,
    class_rows,
    count_of,
    mean_of,
)
from ipu_teach.frontends.pytorch.rows.registry import KEPT_IF, concatenate

Tensors = Sequence[torch.Tensor]
WHOLE = "ipu_teach::whole"
BACKWARD = "ipu_teach::whole_backward"
USERS_PREFIX = "lowering "  # The prefix of the names of nodes whose operation the user lowers.

_library.define("whole(Tensor[] inputs, str name, str how, Tensor[] examples) -> Tensor[]")
_library.define("whole_backward(Tensor[] gradients, Tensor[] inputs, Tensor[] outs) -> Tensor[]")


def _like_examples(inputs: Tensors, name: str, how: str, examples: Tensors) -> list[torch.Tensor]:
    """Return empty tensors like `examples`, which have the shapes and dtypes of the results.

    This is torch's implementation of the operation `ipu_teach::whole`.
    """
    return [torch.empty_like(example) for example in examples]


def _like_inputs(gradients: Tensors, inputs: Tensors, outs: Tensors) -> list[torch.Tensor]:
    """Return empty tensors like `inputs`, which have the shapes and dtypes of their gradients.

    This is torch's implementation of the operation `ipu_teach::whole_backward`.
    """
    return [torch.empty_like(value) for value in inputs]


for _name, _shapes in (("whole", _like_examples), ("whole_backward", _like_inputs)):
    _library.impl(_name, _shapes, "CompositeExplicitAutograd")
    torch.library.register_fake(f"ipu_teach::{_name}", _shapes, lib=_library)


def _save(ctx: FunctionCtx, inputs: tuple[Tensors, str, str, Tensors], output: Tensors) -> None:
    """Save the inputs and results of a node `ipu_teach::whole` for its backward pass."""
    ctx.inputs = len(inputs[0])
    ctx.examples = len(inputs[3])
    ctx.save_for_backward(*inputs[0], *output)


def _backward(
    ctx: FunctionCtx, gradients: Sequence[torch.Tensor | None]
) -> tuple[list[torch.Tensor | None], None, None, list[None]]:
    """Return the gradients of the arguments of a node `ipu_teach::whole`.

    The result is `(gradients of the inputs, None, None, [None, …])`, because the other three
    arguments have no gradients. `gradients` are the gradients of the results; None means a gradient
    of 0.
    """
    saved = ctx.saved_tensors
    inputs = saved[: ctx.inputs]
    outs = saved[ctx.inputs :]
    pairs = zip(gradients, outs, strict=True)
    known = [torch.zeros_like(out) if g is None else g for g, out in pairs]
    results = torch.ops.ipu_teach.whole_backward(known, list(inputs), list(outs))
    pairs = zip(results, inputs, strict=True)
    slots = [g if t.is_floating_point() else None for g, t in pairs]
    return slots, None, None, [None] * ctx.examples


torch.library.register_autograd(WHOLE, _backward, setup_context=_save, lib=_library)


@dataclass
class Capture:
    """The data that one capture of a model stores for its nodes `ipu_teach::whole`."""

    # (operation, flattened arguments, structure of the arguments) for each call of a user's
    # operation.
    calls: list[tuple[Operation, list[Argument], pytree.TreeSpec]] = field(default_factory=list)
    # Maps the first result of each node to the operations of `frontends.ir` for this node.
    ops: dict[Value, list[Op]] = field(default_factory=dict)

    def lower(self, graph: Ir, name: str, args: Sequence[Argument]) -> list[Value]:
        """Add the operations of a node `ipu_teach::whole` or `whole_backward` to a graph.

        `name` is the name of the node's operation. Return the results of the node.
        """
        return self._backward(graph, *args) if name == BACKWARD else self._forward(graph, *args)

    def _forward(
        self, graph: Ir, inputs: list[Value], name: str, how: str, examples: list[Value]
    ) -> list[Value]:
        """Add the operations of a node `ipu_teach::whole` to a graph, and return its results."""
        num_ops_before = len(graph.ops)
        with graph.at(part="forward"):
            if name.startswith(USERS_PREFIX):
                outs = self._users_operation(graph, inputs, json.loads(how))
            elif name in ROWS:
                outs = ROWS[name](graph, inputs, *json.loads(how))
            else:
                outs = list(graph.emit(name, *inputs, **json.loads(how)))
        self.ops[outs[0]] = graph.ops[num_ops_before:]
        return outs

    def _users_operation(self, graph: Ir, inputs: list[Value], call_number: int) -> list[Value]:
        """Add the user's operation in `calls[call_number]` to a graph, and return its results."""
        operation, flat_arguments, tree_form = self.calls[call_number]
        values = iter(inputs)
        arguments = [
            next(values) if isinstance(argument, torch.Tensor) else argument
            for argument in flat_arguments
        ]
        args, kwargs = pytree.tree_unflatten(arguments, tree_form)
        result = lower_users_operation(graph, operation, args, kwargs)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def _backward(
        self, graph: Ir, gradients: list[Value], inputs: list[Value], outs: list[Value]
    ) -> list[Value]:
        """Add the operations of a node `ipu_teach::whole_backward`; return the gradients."""
        pairs = zip(outs, gradients, strict=True)
        known_gradients = {out: gradient for out, gradient in pairs if gradient.number != 0}
        add_gradients(
            graph, self.ops[outs[0]], known_gradients, {value for value in inputs if value.floating}
        )
        zeros = (graph.constant(0, value.dtype, value.shape) for value in inputs)
        return [known_gradients.get(value, zero) for value, zero in zip(inputs, zeros, strict=True)]


current: Capture | None = None


@contextmanager
def capture() -> Iterator[Capture]:
    """Yield a new `Capture`, which records the nodes `ipu_teach::whole` in the `with` block."""
    global current
    outer = current
    current = Capture()
    try:
        yield current
    finally:
        current = outer


def trace_whole(name: str, inputs: Tensors, how: Argument, examples: Tensors) -> list[torch.Tensor]:
    """Record one node `ipu_teach::whole`, and return results that are shaped like `examples`.

    `name` is the name of a function in `ROWS` or of an operation of `frontends.ir`, which computes
    the results on the device. `inputs` are the tensors for this function or operation. `how`
    contains its other arguments, as values that JSON can represent.
    """
    results = torch.ops.ipu_teach.whole(list(inputs), name, json.dumps(how), list(examples))
    # The model may change results in place, but the backward pass needs the originals: return
    # copies.
    return [result.clone() for result in results]


def is_users_operation(name: str) -> bool:
    """Return whether an operation belongs to the user's `torch.library` and can be lowered."""
    library, _, plain = name.partition("::")
    is_foreign = bool(library) and library not in ("aten", "prims", "prim", "ipu_teach")
    return is_foreign and (name in LOWERINGS or plain in OPS)


def call_users_operation(
    function: Target, args: Sequence[Argument], kwargs: Mapping[str, Argument]
) -> Argument:
    """Call an operation of the user's `torch.library`, and return its results.

    If torch has no gradient for the operation, it is recorded as a single node `ipu_teach::whole`.
    """
    assert current is not None, "called by a capture"
    operation: Operation = getattr(function, "default", function)
    if private.has_gradient(operation):
        return function(*args, **kwargs)
    flat_arguments, tree_form = pytree.tree_flatten((args, kwargs))
    with torch.no_grad():
        example = function(*args, **kwargs)
    is_tensor = isinstance(example, torch.Tensor)
    tensors = [argument for argument in flat_arguments if isinstance(argument, torch.Tensor)]
    current.calls.append((operation, flat_arguments, tree_form))
    name = operation._schema.name
    call_number = len(current.calls) - 1
    examples = [example] if is_tensor else list(example)
    results = trace_whole(USERS_PREFIX + name, tensors, call_number, examples)
    return results[0] if is_tensor else results


def lower_users_operation(
    graph: Ir,
    operation: Operation,
    args: Sequence[Argument],
    kwargs: Mapping[str, Argument],
) -> Argument:
    """Add an operation of the user's `torch.library` to a graph, and return its result or results.

    If the user has decorated a function with `poptorch.lowering` for this operation, this function
    is called. Otherwise, the operation of `frontends.ir` with the same name is added, with the
    tensors as inputs and all other arguments as attributes.
    """
    name = operation._schema.name
    if name in LOWERINGS:
        return LOWERINGS[name](graph, *args, **kwargs)
    argument_names = (argument.name for argument in operation._schema.arguments)
    arguments = {**dict(zip(argument_names, args, strict=False)), **kwargs}
    values = [
        argument_value for argument_value in arguments.values() if isinstance(argument_value, Value)
    ]
    attributes = {
        argument_name: argument_value
        for argument_name, argument_value in arguments.items()
        if not isinstance(argument_value, Value)
    }
    outs = graph.emit(name.partition("::")[2], *values, **attributes)
    return outs[0] if len(operation._schema.returns) == 1 else list(outs)


# --- operations that are decomposed in some calls -------------------------------------------------


def decompositions(table: Mapping[Target, Function]) -> dict[Target, Function]:
    """Return a copy of `table` without decomposition of the calls that `KEPT_IF` selects.

    `table` maps operations to the functions that decompose them.
    """
    return {
        op: _unless(KEPT_IF[name], spelled) if (name := _plain_name(op)) in KEPT_IF else spelled
        for op, spelled in table.items()
    }


def _plain_name(operation: Operation) -> str:
    """Return the name of an operation without the prefix "aten::"."""
    return str(operation._schema.name).removeprefix("aten::")


def _unless(is_kept: Callable[..., bool], spelled: Function) -> Function:
    """Return a decomposition that calls `spelled` unless `is_kept` is true for the arguments.

    If `is_kept` is true, it returns `NotImplemented`, so that torch does not decompose the call.
    """

    def decomposed(*args: Argument, **kwargs: Argument) -> Argument:
        return NotImplemented if is_kept(*args, **kwargs) else spelled(*args, **kwargs)

    return decomposed


# --- functions that are traced as other functions -------------------------------------------------

SPELLED: dict[Target, Function] = {}
# Functions that add the operations of a node `ipu_teach::whole` to a graph. The keys are the
# arguments `name` of `trace_whole`.
ROWS: dict[str, Callable[..., list[Value]]] = {}


_sdpa = torch.ops.aten.scaled_dot_product_attention.default


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Return softmax(query keyᵀ scale + mask) value, with a single multiplication by `scale`.

    Outside of a capture, torch's own implementation runs. `nn.MultiheadAttention` calls the
    operation from inside torch, where `SPELLED` has no effect. Therefore this function is passed to
    `respell`.
    """
    if current is None or (is_causal and attn_mask is not None):
        args = query, key, value, attn_mask, dropout_p, is_causal
        return private.as_torch_spells(_sdpa, *args, scale=scale, enable_gqa=enable_gqa)
    if enable_gqa:  # grouped queries: several query heads use the same head of keys and values
        key, value = (
            heads.repeat_interleave(query.shape[-3] // heads.shape[-3], -3)
            for heads in (key, value)
        )
    score_factor = 1 / sqrt(query.shape[-1]) if scale is None else scale
    # Compute in FLOAT up to the softmax, because scores may exceed the range of HALF.
    scores = query.float() @ key.float().transpose(-2, -1) * score_factor
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        float_mask = torch.zeros(attn_mask.shape, dtype=scores.dtype)
        attn_mask = float_mask.masked_fill(~attn_mask, float("-inf"))
    if attn_mask is not None:
        scores = scores + attn_mask
    # A mask may exclude all keys of a query, for which safe_softmax returns 0. A causal mask never
    # excludes all keys.
    softmax = torch.softmax if is_causal or attn_mask is None else private.safe_softmax
    weights = softmax(scores, -1).to(value.dtype)
    if dropout_p > 0:
        weights = torch.dropout(weights, dropout_p, True)
    return weights @ value


private.respell(_sdpa, _attention)


RECURRENT = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "tanh", "rnn_relu": "relu"}


def _recurrent(kind: str) -> Function:
    """Return a replacement for torch's recurrent function `kind` that records a single node.

    `kind` is a key of `RECURRENT`, such as "lstm".
    """
    spelled = getattr(torch.ops.aten, kind)

    def traced(*args: Argument) -> Argument:
        """Record a recurrent layer as a single node.

        Packed sequences, and layers that project their state, are left to torch.
        """
        if isinstance(args[3], (list, tuple)):  # x is a torch.nn.utils.rnn.PackedSequence
            return spelled.data(*args)
        x, state, weights, has_biases, layers, p, train, bidirectional, batch_first = args
        states = list(state) if kind == "lstm" else [state]
        directions = 2 if bidirectional else 1
        if x.dim() != 3 or len(weights) != layers * directions * (4 if has_biases else 2):
            return spelled.input(*args)
        width = states[0].shape[-1] * directions
        examples = [x.new_empty((*x.shape[:2], width)), *(s.new_empty(s.shape) for s in states)]
        how = [len(states), has_biases, layers, p if train else 0.0, directions, batch_first]
        return tuple(trace_whole(kind, [x, *states, *weights], how, examples))

    return traced


def _recurrent_rows(kind: str) -> Callable[..., list[Value]]:
    """Return the function that adds a recurrent layer to a graph, as an entry of `ROWS`.

    `kind` is a key of `RECURRENT`, such as "lstm".
    """
    cell = RECURRENT[kind]

    def lowered(
        graph: Ir, inputs: list[Value], count: int, has_biases: bool, layers: int, p: float,
        directions: int, batch_first: bool,
    ) -> list[Value]:  # fmt: skip
        x = inputs[0]
        states = inputs[1 : 1 + count]
        weights = inputs[1 + count :]
        per_cell = 4 if has_biases else 2
        x = ir.transpose(graph, x, 0, 1) if batch_first else x
        last: list[list[Value]] = [[] for _ in states]
        for layer in range(layers):
            outs = []
            for direction in range(directions):
                number = layer * directions + direction
                steps = graph.op("reverse", x, dim=0) if direction else x
                first = [_row(graph, state, number) for state in states]
                cell_weights = weights[number * per_cell : (number + 1) * per_cell]
                y, after = ir.recurrent(graph, cell, steps, first, *cell_weights)
                outs.append(graph.op("reverse", y, dim=0) if direction else y)
                for state_rows, value in zip(last, after, strict=True):
                    state_rows.append(graph.op("reshape", value, shape=(1, *value.shape)))
            x = concatenate(graph, outs, len(x.shape) - 1)
            x = ir.dropout(graph, x, p) if layer + 1 < layers else x
        x = ir.transpose(graph, x, 0, 1) if batch_first else x
        return [x, *(concatenate(graph, state_rows, 0) for state_rows in last)]

    return lowered


def _row(graph: Ir, x: Value, place: int) -> Value:
    """Return `x[place]`, which has one dimension fewer than `x`."""
    part = graph.op("slice", x, dim=0, begin=place, end=place + 1)
    return graph.op("reshape", part, shape=x.shape[1:])


for _kind in RECURRENT:
    SPELLED[private.recurrent(_kind)] = _recurrent(_kind)
    ROWS[_kind] = _recurrent_rows(_kind)


def _cross_entropy(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None,
    size_average: bool | None = None, ignore_index: int = IGNORED, reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:  # fmt: skip
    """Record the cross entropy of class numbers as a single node.

    All other cases, such as class weights and label smoothing, are left to torch.
    """
    for name, value in (("scores", input), ("labels", target)):
        if not isinstance(value, torch.Tensor):
            raise ModelError(f"""cross_entropy() was given {shown(value)} as its {name}, which is
                not a tensor.
                next:  pass tensors: cross_entropy(scores, labels).""")
    has_shares = target.is_floating_point() or weight is not None or label_smoothing
    is_old_style = size_average is not None or reduce is not None
    if has_shares or is_old_style or input.dim() < 2:
        number = {"none": 0, "mean": 1, "sum": 2}[reduction]
        options = number, ignore_index, label_smoothing
        return private.cross_entropy_loss(input, target, weight, *options)
    example = input.new_empty(target.shape if reduction == "none" else ())
    return trace_whole("cross_entropy", [input, target], [reduction, ignore_index], [example])[0]


def _cross_entropy_rows(
    graph: Ir, inputs: list[Value], reduction: str, ignored: int
) -> list[Value]:
    """Add the operations of a cross entropy to a graph, and return a list with the loss.

    `inputs` are the scores [batch, classes, …] and the labels [batch, …], which are class numbers.
    """
    x, labels = inputs
    rows = class_rows(graph, x)
    numbers, is_masked = class_numbers(graph, labels, rows.shape[1], ignored)
    losses, _ = graph.emit("cross_entropy", rows, numbers)
    if reduction == "none":
        loss = graph.op("reshape", losses, shape=labels.shape)
    else:
        loss = ir.reduced(graph, "sum", losses)
    if reduction == "mean":
        loss = mean_of(graph, loss, count_of(graph, numbers, is_masked))
    return [graph.cast(loss, x.dtype)]


SPELLED[torch.nn.functional.cross_entropy] = _cross_entropy
ROWS["cross_entropy"] = _cross_entropy_rows
