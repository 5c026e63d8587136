"""Operations that the capture keeps whole, with gradients of the kit's own rows.

A scan of an LSTM, `poptorch.custom_op` and a learner's own lowering have no gradient that torch
could spell. Each is one node of torch's graph, `ipu_teach::whole`, and its backward is another,
`ipu_teach::whole_backward`, which the gradients of the rows replace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ipu_teach.frontends import from_torch, ir
from ipu_teach.frontends.aten import ATEN, IGNORED
from ipu_teach.frontends.ir import Ir, Op, Value
from ipu_teach.frontends.ir.autodiff import swept
from ipu_teach.poplibs.popops import MASKED_LABEL_CODE
from ipu_teach.types import UNSIGNED_INT

WHOLE, BACKWARD = "ipu_teach::whole", "ipu_teach::whole_backward"
LEARNERS = "lowering "  # in front of the name of an operation that a learner lowers

_library = from_torch._LIBRARY
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

    calls: list[tuple[list[Any], Any]] = field(default_factory=list)  # of learners' operations
    made: dict[Value, list[Op]] = field(default_factory=dict)  # by the first value they make

    def lower(self, graph: Ir, name: str, args: Sequence[Any]) -> list[Value]:
        """Add the rows of a node `ipu_teach::whole` or `ipu_teach::whole_backward` to a graph."""
        return self._backward(graph, *args) if name == BACKWARD else self._forward(graph, *args)

    def _forward(self, graph: Ir, inputs: list[Value], name: str, how: str, _: Any) -> list[Value]:
        start = len(graph.ops)
        with graph.at(part="forward"):
            if name.startswith(LEARNERS):
                outs = self._learners(graph, name.removeprefix(LEARNERS), inputs, json.loads(how))
            elif name in ROWS:
                outs = ROWS[name](graph, inputs, *json.loads(how))
            else:
                outs = list(graph.emit(name, *inputs, **json.loads(how)))
        self.made[outs[0]] = graph.ops[start:]
        return outs

    def _learners(self, graph: Ir, name: str, inputs: list[Value], number: int) -> list[Value]:
        flat, form = self.calls[number]
        values = iter(inputs)
        arguments = [next(values) if isinstance(v, torch.Tensor) else v for v in flat]
        args, kwargs = pytree.tree_unflatten(arguments, form)
        result = from_torch.LOWERINGS[name](graph, *args, **kwargs)
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


def learners(name: str, function: Any, args: Any, kwargs: Any) -> Any:
    """Trace one node for a torch operation that a learner lowers."""
    assert current is not None, "called by a capture"
    flat, form = pytree.tree_flatten((args, kwargs))
    with torch.no_grad():
        like = function(*args, **kwargs)
    is_tensor = isinstance(like, torch.Tensor)
    tensors = [v for v in flat if isinstance(v, torch.Tensor)]
    current.calls.append((flat, form))
    number = len(current.calls) - 1
    result = whole(LEARNERS + name, tensors, number, [like] if is_tensor else list(like))
    return result[0] if is_tensor else result


# --- what torch calls, and what is traced in its place -------------------------------------------

ROWS: dict[str, Callable[..., list[Value]]] = {}
SPELLED: dict[Any, Callable[..., Any]] = {}


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
    scores = ir.along(graph, "log_softmax", x, 1)
    places = graph.op("reinterpret", labels, dtype=UNSIGNED_INT)
    fed = graph.fed(places)
    if fed is not None and not getattr(fed, "marked", False) and ignored == IGNORED:
        return [ir.nll(graph, scores, places, reduction, None)]
    if fed is not None:
        fed.below, fed.ignored = min(x.shape[1], fed.below or x.shape[1]), ignored
    masked = graph.constant(MASKED_LABEL_CODE, UNSIGNED_INT)
    places = graph.op("select", graph.op("eq", labels, ignored), masked, places)
    return [ir.nll(graph, scores, places, reduction, ignored)]


SPELLED[torch.nn.functional.cross_entropy] = _cross_entropy
ROWS["cross_entropy"] = _cross_entropy_rows
