"""A module of torch as a graph of the IR. The only file that imports torch.

`captured(module, args)` asks `torch.export` for the module's operations, at the level at which a
person writes, and makes each by its line in `aten`. What is the same on every run is worked out
here, once. Beside it stands what must be a part of torch: markers, optimisers, the loader of data.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

from ipu_teach.errors import (
    ModelError,
    NotHereImportError,
    UnknownOperationError,
    did_you_mean,
)
from ipu_teach.frontends.aten import ATEN, DTYPES, IGNORED, VIEWS
from ipu_teach.frontends.ir import OPS, Ir, Unfit, Value
from ipu_teach.graph.source import in_words
from ipu_teach.types import INT, UNSIGNED_INT, DType

try:
    import torch
except ImportError as error:
    raise NotHereImportError(
        "ipu_teach.poptorch takes modules of torch, and torch is not installed: its CPU build is "
        "192 MB to fetch and 754 MB on disk.",
        next_step="python -m pip install torch --index-url https://download.pytorch.org/whl/cpu",
    ) from error

from torch.utils import _pytree as pytree

TORCH = str(Path(torch.__file__).parent)
FRAME = re.compile(r'File "(.+?)", line (\d+)')
RANDOM = torch.Tag.nondeterministic_seeded
SCOPES = tuple(getattr(torch.ops.higher_order, n, None) for n in ("wrap_with_set_grad_enabled", "wrap_with_autocast"))
import os
JOINT = bool(int(os.environ.get("JOINT", "1")))
LOWERINGS: dict[str, Callable[..., Any]] = {}  # of the learner's own


def lowering(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say what an operation of torch becomes: "aten::cumprod", or one of your own made by
    `torch.library`.

        @poptorch.lowering("mine::leaky")
        def leaky(graph, x, slope):                 # values and numbers, in torch's order
            return graph.op("max", x, graph.op("mul", x, slope))

    What it returns is made of operations of `ipu_teach.frontends.ir`, which has their gradients.
    """

    def named(function: Callable[..., Any]) -> Callable[..., Any]:
        LOWERINGS[name] = function
        return function

    return named


# --- what marks a module --------------------------------------------------------------------------

_LIBRARY = torch.library.Library("ipu_teach", "DEF")
_capturing = False


def is_capturing() -> bool:
    """Whether the module runs for its graph."""
    return _capturing


def _define(
    schema: str, run: Callable[..., Any], shape: Callable[..., Any], slope: Any = None
) -> None:
    name = f"ipu_teach::{schema.partition('(')[0]}"
    _LIBRARY.define(schema)
    _LIBRARY.impl(name.partition("::")[2], run, "CompositeExplicitAutograd")
    torch.library.register_fake(name, shape, lib=_LIBRARY)
    if slope is not None:
        torch.library.register_autograd(name, slope, lib=_LIBRARY)


def _printed(x: Any, title: str) -> Any:
    print(f"{title}: {x}")
    return x.clone()


def _given_back(inputs: Any, name: str, attributes: str, examples: Any) -> list[Any]:
    return [torch.empty_like(t) for t in examples]


_define("stage(Tensor(a!) mark, int number) -> ()", lambda t, n: None, lambda t, n: None)
_define(
    "print(Tensor x, str title) -> Tensor",
    _printed,
    lambda x, title: torch.empty_like(x),
    lambda ctx, g: (g, None),
)
_define("keep(Tensor x) -> Tensor", torch.clone, torch.empty_like, lambda ctx, g: g)
_define(
    "custom(Tensor[] inputs, str name, str attributes, Tensor[] examples) -> Tensor[]",
    lambda inputs, name, attributes, examples: [t.clone() for t in examples],
    _given_back,
)


def mark_stage(number: int) -> None:
    """What follows is on that IPU."""
    if _capturing and JOINT:
        from ipu_teach.frontends.pytorch import joint

        joint.current.stage = number
    elif _capturing:
        torch.ops.ipu_teach.stage(torch.zeros(()), number)


def printed(x: Any, title: str) -> Any:
    """x, printed when it is there."""
    return torch.ops.ipu_teach.print(x, title)


def kept(x: Any) -> Any:
    """x, which is not computed again."""
    if JOINT and _capturing:
        from ipu_teach.frontends.pytorch import joint

        joint.current.kept.append(x.detach())
        return x
    return torch.ops.ipu_teach.keep(x)


def custom(inputs: Any, name: str, attributes: dict[str, Any], examples: Any) -> Any:
    """What the operation `name` of the table makes of the inputs; shapes as the examples."""
    if JOINT and _capturing:
        from ipu_teach.frontends.pytorch.whole import whole

        return whole(name, inputs, attributes, examples)
    return torch.ops.ipu_teach.custom(list(inputs), name, json.dumps(attributes), list(examples))


# --- tensors and arrays ---------------------------------------------------------------------------


def dtype_of(dtype: Any) -> type[DType] | None:
    """The device's dtype of one of torch's; None where it has none."""
    return DTYPES.get(str(dtype).removeprefix("torch."))


def check(name: str, tensor: Any) -> None:
    """Raise `ModelError` for what the device cannot have."""
    if tensor.device.type != "cpu":
        raise ModelError(f"""{name!r} lies on {tensor.device}, and the kit reads the CPU's memory.
            next:  bring it there: {"module" if "." in name else name}.cpu().""")
    if dtype_of(tensor.dtype) is None:
        raise ModelError(f"""{name!r} is {tensor.dtype}, which the device does not have.
            next:  make it torch.float32 or torch.float16: module.float(), tensor.float().""")


def leaves(given: Any) -> tuple[list[Any], Any]:
    """The tensors within, and all else as something that `filled` fills."""
    flat, spec = pytree.tree_flatten(given)
    return [v for v in flat if isinstance(v, torch.Tensor)], (flat, spec)


def filled(form: Any, tensors: Sequence[Any]) -> Any:
    """A structure with other tensors in it."""
    flat, spec = form
    more = iter(tensors)
    return pytree.tree_unflatten(
        [next(more) if isinstance(v, torch.Tensor) else v for v in flat], spec
    )


def array(tensor: Any) -> Any:
    """The numbers of a tensor."""
    return tensor.detach().contiguous().numpy(force=True)  # also of torch's lazy zeros


def tensor_of(numbers: Any, dtype: Any) -> Any:
    """A tensor of the host's, of one of torch's dtypes."""
    whole = numbers.astype(np.int64) if numbers.dtype == np.uint32 else numbers
    return torch.from_numpy(np.array(whole)).to(dtype)


# --- capturing ------------------------------------------------------------------------------------


@dataclass
class Captured:
    """A module as a graph. `inputs`: names in the order of the tensors that are given. `outputs`:
    names in the order of what comes back, with torch's dtype; `form` puts them together.
    `trained`: parameters that want a gradient; `buffers` that change; `counters`: whole numbers
    that go on by one with each forward, which the host counts. `kept`: see
    `recomputationCheckpoint`."""

    graph: Ir
    inputs: list[str] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    form: Any = None
    trained: list[Value] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    kept: list[Value] = field(default_factory=list)

    @property
    def loss(self) -> Value:
        """The last output. Raises `ModelError` if it is not one number."""
        last = [self.loss_at] if getattr(self, "loss_at", None) else list(self.outputs)[-1:]
        value = self.graph.outputs[last[0]] if last else None
        if value is None or value.size != 1 or not value.floating:
            raise ModelError(f"""A module that is trained was captured, and the last of what its
                forward returns is {"nothing" if value is None else list(value.shape)}.
                next:  return the loss last, one number: return output, loss.""")
        return value


@contextmanager
def _quiet() -> Iterator[None]:
    """What torch logs and prints of a capture that fails is said again by the error."""
    global _capturing
    fast, before = torch.backends.mha.get_fastpath_enabled(), logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    torch.backends.mha.set_fastpath_enabled(False)
    _capturing = True
    try:
        with warnings.catch_warnings(), torch.enable_grad(), redirect_stderr(StringIO()) as said:
            warnings.simplefilter("ignore")
            yield
        sys.stderr.write(said.getvalue())  # what the module prints
    finally:
        _capturing = False
        torch.backends.mha.set_fastpath_enabled(fast)
        logging.disable(before)


def _own(frames: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """The innermost line that is not torch's or the kit's."""
    kit = str(Path(__file__).parents[1])
    outside = [f for f in frames if not f[0].startswith((TORCH, kit, "<"))]
    return outside[-1] if outside else ("", 0)


def _exported(module: Any, args: Any, kwargs: Any) -> Any:
    try:
        with _quiet():
            return torch.export.export(module, args, kwargs)
    except Exception as error:
        trace = traceback.extract_tb(error.__traceback__)
        line = in_words(_own([(f.filename, f.lineno or 0) for f in trace]))
        text = str(error)
        if "data-dependent" in text or "DataDependent" in type(error).__name__ or "u0" in text:
            raise ModelError(
                f"{type(module).__name__} asks for a number that is on the device, to choose by "
                "it what comes next; a program of the device is written before it runs.",
                line=line,
                next_step="compute both and choose by torch.where(condition, a, b), or decide by "
                "shapes and by numbers of Python's.",
            ) from None
        first = next((t.strip() for t in text.splitlines() if t.strip()), "")
        raise ModelError(
            f"torch could not capture {type(module).__name__}: {type(error).__name__}: {first}",
            line=line,
            next_step="the module must run on tensors of these shapes in plain torch, and use "
            "tensors only by torch's functions.",
        ) from error


def captured(
    module: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    marked: Collection[int] = (),
    training: bool = False,
    scale: float = 1.0,
) -> Captured:
    """A module and an example of what it is called with, a micro-batch, as a graph. `marked`:
    inputs, by their place, that have an `IGNORED` among their class numbers. Raises `ModelError`
    with the module's path and the learner's line."""
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_floating_point() or tensor.device.type != "cpu":
            check(name, tensor)
    for number, tensor in enumerate(leaves((args, kwargs))[0]):
        check(f"input {number}", tensor)
    if JOINT:
        from ipu_teach.frontends.pytorch import joint

        return joint.captured(module, args, kwargs, marked, training, scale)
    return _Capture(_exported(module, args, kwargs), module, marked).made


@cache
def _spellings() -> dict[Any, Any]:
    """Operations of torch's, in others of them; not in those that only its references have."""
    from torch._decomp import decomposition_table

    known = {op: f for op, f in decomposition_table.items() if "_refs" not in f.__module__}
    return known | dict(torch.export.default_decompositions().items())


def _plain(target: Any) -> str:
    """The name of an operation of torch's, as the table has it."""
    return str(target._schema.name).removeprefix("aten::") if hasattr(target, "_schema") else ""


def _changes(node: Any) -> bool:
    """Whether an operation changes a tensor where it lies."""
    return hasattr(node.target, "_schema") and bool(node.target._schema.is_mutable)


class _Capture:
    """The nodes of an exported program, one after the other."""

    def __init__(self, exported: Any, module: Any, marked: Collection[int]) -> None:
        self.exported, self.module, self.marked = exported, module, marked
        self.nodes = list(exported.graph.nodes)
        self.graph = Ir()
        self.made = Captured(self.graph)
        self.values: dict[Any, Any] = {}  # of nodes: Value, torch.Tensor if always the same, …
        self.roots: dict[Any, Any] = {}  # of nodes: what they are a view of
        self.order = {node: i for i, node in enumerate(self.nodes)}
        self.stage, self.path = 0, ""
        both = _named(module)
        self.same = {n: next(k for k, u in both.items() if u is t) for n, t in both.items()}
        for node in self.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._outputs(node.args[0])
            else:
                self.values[node] = getattr(exported.graph_module, node.target, None)
        for value in self.made.trained:
            assert value.name in self.graph.variables, "a parameter is a variable"

    # --- what goes in and out ---

    def _placeholder(self, node: Any) -> None:
        spec = self.exported.graph_signature.input_specs[self.order[node]]
        name, kind = spec.target, spec.kind.name
        if kind == "USER_INPUT":
            like = node.meta.get("val")
            if not isinstance(like, torch.Tensor):  # a number, or None
                self.values[node] = like
                return
            name = node.name
            while name in self.graph.variables:
                name += "_"
            dtype = dtype_of(like.dtype)
            fed = self.graph.input(tuple(like.shape), name, dtype or UNSIGNED_INT)
            fed.ignored = IGNORED if len(self.made.inputs) in self.marked else None
            self.values[node] = fed
            self.made.inputs.append(name)
            return
        source = (
            self.exported.state_dict
            if name in self.exported.state_dict
            else self.exported.constants
        )
        tensor, name = source[name], self.same.get(name, name)
        if name in self.graph.variables:  # one parameter in two places
            self.values[node] = self.graph.variables[name]
            return
        if kind == "CONSTANT_TENSOR" or not tensor.is_floating_point():
            self.values[node] = tensor
            self.roots[node] = name
            return
        self.values[node] = self.graph.variable(array(tensor).copy(), name)
        if kind == "PARAMETER" and tensor.requires_grad:
            self.made.trained.append(self.values[node])

    def _outputs(self, found: Any) -> None:
        flat, spec = [], self.exported.call_spec.out_spec
        for place, node in enumerate(found):
            value = self.values[node] if isinstance(node, torch.fx.Node) else node
            if isinstance(value, torch.Tensor):
                value = self._constant(value)
            if isinstance(value, Value):
                name = f"{place}"
                self.graph.output(name, value)
                self.made.outputs[name] = node.meta["val"].dtype
                value = torch.empty(0)
            flat.append(value)
        self.made.form = flat, spec

    # --- operations ---

    def _call(self, node: Any) -> None:
        stack = node.meta.get("nn_module_stack")
        if stack:
            self.path = list(stack.values())[-1][0].removeprefix("L['self'].")
        line = _own([(f, int(n)) for f, n in FRAME.findall(node.meta.get("stack_trace") or "")])
        with self.graph.at(path=self.path, line=line, stage=self.stage):
            self.values[node] = self._made(node)

    def _seen(self, given: Any) -> Any:
        """An argument of a node: values for nodes, the kit's dtypes for torch's."""
        if isinstance(given, torch.fx.Node):
            return self.values[given]
        if isinstance(given, (list, tuple)):
            return [self._seen(v) for v in given]
        return dtype_of(given) or given if isinstance(given, torch.dtype) else given

    def _made(self, node: Any) -> Any:
        if node.target is getitem:
            source = node.args[0]
            self.roots[node] = self.roots.get(source, source)
            return self.values[source][node.args[1]]
        if node.target in SCOPES:
            return self._scoped(node)
        if not hasattr(node.target, "_schema"):
            raise self._unknown(node.target)
        args, kwargs = self._seen(node.args), {k: self._seen(v) for k, v in node.kwargs.items()}
        schema = node.target._schema
        kit = schema.name.startswith("ipu_teach::")
        if kit and schema.name != "ipu_teach::print":
            return self._mark(schema.name, args)
        within = pytree.tree_leaves((args, kwargs))
        if not any(isinstance(v, Value) for v in within) and RANDOM not in node.target.tags:
            return self._worked_out(node, schema)
        args, kwargs = (
            self._with_constants(args),
            {k: self._with_constants(v) for k, v in kwargs.items()},
        )
        name = schema.name.removeprefix("aten::")
        where = node.kwargs.get("out", node.args[0] if node.args else None)
        before = kwargs.pop("out", args[0] if args else None)
        changes = "out" in node.kwargs or (
            name.endswith("_") and not name.startswith("_") and isinstance(where, torch.fx.Node)
        )
        made = self._row(node.target, name, args, kwargs)
        if name.removesuffix("_") in VIEWS.split() and isinstance(where, torch.fx.Node):
            self.roots[node] = self.roots.get(where, where)
        if changes:
            self._in_place(node, where, before, made)
        return made

    def _with_constants(self, given: Any) -> Any:
        if isinstance(given, torch.Tensor):
            return self._constant(given)
        return [self._with_constants(v) for v in given] if isinstance(given, list) else given

    def _constant(self, tensor: Any) -> Value:
        check("a constant of the module", tensor)
        dtype = dtype_of(tensor.dtype)
        assert dtype is not None, "checked"
        numbers = array(tensor)
        if dtype is UNSIGNED_INT and numbers.size and numbers.min() < 0:
            dtype = INT
        if numbers.size and (numbers == numbers.flat[0]).all():
            return self.graph.constant(numbers.flat[0], dtype, tuple(numbers.shape))
        return self.graph.constant(numbers, dtype)

    def _worked_out(self, node: Any, schema: Any) -> Any:
        """What no input reaches is the same on every run. A buffer of whole numbers that goes on by
        one is the host's to count."""
        where = node.args[0] if node.args else None
        name = self.roots.get(where) if isinstance(where, torch.fx.Node) else None
        if schema.name == "aten::add_" and isinstance(name, str):
            self.made.counters.append(name)
            return self.values[where]
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self.values[n])
        with torch.no_grad():
            return node.target(*args, **kwargs)

    def _mark(self, name: str, args: Any) -> Any:
        if name.endswith("stage"):
            self.stage = args[1]
            return None
        if name.endswith("keep"):
            self.made.kept.append(args[0])
            return args[0]
        inputs, kind, attributes, _ = self._with_constants(args)
        return list(self.graph.emit(kind, *inputs, **json.loads(attributes)))

    def _row(self, target: Any, name: str, args: Any, kwargs: Any) -> Any:
        whole = target._schema.name
        plain = name if name in ATEN else name.removesuffix("_")
        found = LOWERINGS.get(whole) or ATEN.get(plain)
        if found is None and "::" in name and plain.partition("::")[2] in OPS:
            return self._registered(target, plain.partition("::")[2], args, kwargs)
        if found is None:
            return self._decomposed(target, args, kwargs)
        how = {
            k: v
            for k, v in kwargs.items()
            if k not in ("device", "layout", "pin_memory", "memory_format")
        }
        try:
            made = found(self.graph, *args, **how)
            return self._decomposed(target, args, kwargs) if made is NotImplemented else made
        except Unfit as error:
            raise ModelError(
                f"torch's {whole} was asked for as the kit does not do it: {error.why}.",
                **self._place(),
                next_step=error.advice,
            ) from None

    def _place(self) -> dict[str, str]:
        return {
            "where": self.path or type(self.module).__name__,
            "line": in_words(self.graph.here["line"]),
        }

    def _registered(self, target: Any, kind: str, args: Any, kwargs: Any) -> Any:
        """An operation of one's own, by a row of its name: tensors in order, all else by name."""
        named = dict(zip((a.name for a in target._schema.arguments), args, strict=False)) | kwargs
        values = [v for v in named.values() if isinstance(v, Value)]
        more = {k: v for k, v in named.items() if not isinstance(v, Value)}
        made = self.graph.emit(kind, *values, **more)
        return made[0] if len(target._schema.returns) == 1 else list(made)

    def _decomposed(self, target: Any, args: Any, kwargs: Any) -> Any:
        """By torch's own spelling of an operation in simpler ones, those of the table as they are.
        Raises `UnknownOperationError` where there is none."""
        from torch.fx.experimental.proxy_tensor import make_fx

        flat, spec = pytree.tree_flatten((tuple(args), kwargs))
        values = [v for v in flat if isinstance(v, Value)]

        def call(*tensors: Any) -> Any:
            more = iter(tensors)
            whole = [next(more) if isinstance(v, Value) else v for v in flat]
            given, named = pytree.tree_unflatten(whole, spec)
            return target(*given, **named)

        of = {d: torch.empty(0).to(getattr(torch, n)).dtype for n, d in reversed(DTYPES.items())}
        of[INT] = torch.int64
        like = [torch.empty(v.shape, dtype=of[v.dtype]) for v in values]
        known = _spellings()
        table = {op: spelt for op, spelt in known.items() if op is target or _plain(op) not in ATEN}
        try:
            with _quiet():
                simple = make_fx(call, decomposition_table=table, tracing_mode="fake")(*like)
                if any(_changes(node) for node in simple.graph.nodes):
                    still = torch.func.functionalize(simple)  # none of them in place
                    simple = make_fx(still, decomposition_table=table, tracing_mode="fake")(*like)
                inner = simple.graph
        except Exception:
            raise self._unknown(target) from None
        calls = [n for n in inner.nodes if n.op == "call_function"]
        if any(
            n.target._schema.name == target._schema.name for n in calls if n.target is not getitem
        ):
            raise self._unknown(target)
        try:
            return self._within(inner, values)
        except UnknownOperationError:
            raise self._unknown(target) from None

    def _within(self, inner: Any, given: Sequence[Any]) -> Any:
        """What a graph within a node makes of values."""
        before, more = self.values, iter(given)
        self.values = {}
        self.order.update({node: i for i, node in enumerate(inner.nodes)})
        try:
            for node in inner.nodes:
                if node.op == "placeholder":
                    self.values[node] = next(more)
                elif node.op == "call_function":
                    self.values[node] = self._made(node)
                elif node.op == "output":
                    return self._seen(node.args[0])
        finally:
            self.values = before
        return None

    def _scoped(self, node: Any) -> Any:
        """`with torch.no_grad():` or `torch.autocast(…):` in a forward: a graph of its own."""
        start = next(i for i, arg in enumerate(node.args) if isinstance(arg, torch.fx.Node))
        said, (within, *operands) = node.args[:start], node.args[start:]
        if len(said) > 1 and said[0] == "cpu" and said[2]:
            raise ModelError(
                "A part of the module was to choose its dtypes by torch.autocast.",
                **self._place(),
                next_step="say them: module.half() for all of it, or x.to(torch.float16).",
            )
        inner = getattr(self.exported.graph_module, within.target).graph
        made = self._within(inner, [self._seen(v) for v in operands])
        if len(said) > 1 or said[0]:
            return made
        return [
            self.graph.op("stop", v) if isinstance(v, Value) and v.floating else v for v in made
        ]

    def _unknown(self, target: Any) -> UnknownOperationError:
        name = target._schema.name if hasattr(target, "_schema") else str(target)
        return UnknownOperationError(
            f"torch's {name} is not in the table of operations.",
            **self._place(),
            next_step=f"{did_you_mean(name.partition('::')[2], ATEN)}@poptorch.lowering({name!r}) "
            "before a function of (graph, …) says what it becomes.",
        )

    def _in_place(self, node: Any, where: Any, before: Any, made: Any) -> None:
        """What changes a tensor where it lies: those who read it later read what it became."""
        root = self.roots.get(where, where)
        self.roots[node] = root
        if isinstance(before, Value) and before.kind == "variable":
            self.graph.emit("assign", before, made)
            return
        if isinstance(before, Value) and before.kind == "input":
            raise ModelError(
                f"{before.name!r}, which is fed, was changed by {node.target._schema.name}.",
                **self._place(),
                next_step="give the result a name of its own: y = x + 1 in the place of x += 1.",
            )
        for other in self.roots:
            later = (self.order.get(u, -1) > self.order[node] for u in other.users)
            if other not in (node, where) and self.roots[other] is root and any(later):
                raise self._shared(node)
        if root is not where and any(self.order.get(u, -1) > self.order[node] for u in root.users):
            raise self._shared(node)
        self.values[where] = made

    def _shared(self, node: Any) -> ModelError:
        return ModelError(
            f"{node.target._schema.name} changes a tensor that is also seen by another name.",
            **self._place(),
            next_step="make the result a tensor of its own: torch.cat, torch.where, or x = x + 1.",
        )


# --- weights --------------------------------------------------------------------------------------


def _named(module: Any) -> dict[str, Any]:
    """A module's tensors by name; one in two places has two."""
    return dict(
        (
            *module.named_parameters(remove_duplicate=False),
            *module.named_buffers(remove_duplicate=False),
        )
    )


def put_back(module: Any, state: dict[str, Any], counters: Sequence[str], forwards: int) -> None:
    """Write variables into the module's tensors of their names, and count the forwards."""
    named = _named(module)
    with torch.no_grad():
        for name, numbers in state.items():
            named[name].copy_(tensor_of(numbers, named[name].dtype))
        for name in counters:
            named[name] += forwards


def state_of(module: Any, names: Sequence[str]) -> dict[str, Any]:
    """The numbers of a module's tensors, by name."""
    named = _named(module)
    return {name: array(named[name]) for name in names if name in named}
