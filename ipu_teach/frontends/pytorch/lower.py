"""Translate a functional graph of torch into a graph of `frontends.ir`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from operator import getitem

import torch

from ipu_teach.errors import ModelError, UnknownOperationError, did_you_mean
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.ir.simplify import fuse_updates, simplify
from ipu_teach.frontends.ir.values import BACKWARD, FORWARD, Op, Swaps
from ipu_teach.frontends.pytorch import advice, private, whole
from ipu_teach.frontends.pytorch.labels import Label
from ipu_teach.frontends.pytorch.markers import LOWERINGS
from ipu_teach.frontends.pytorch.private import Argument, pytree
from ipu_teach.frontends.pytorch.record import RANDOM
from ipu_teach.frontends.pytorch.rows import ROWS, SAVING, Drawn, Results, Saved, wrap_to_width
from ipu_teach.frontends.pytorch.tensors import array, dtype_of
from ipu_teach.frontends.pytorch.trace import JointGraph
from ipu_teach.graph.source import NOWHERE, in_words
from ipu_teach.types import INT

aten = torch.ops.aten
# Operations whose names begin with these prefixes only check their arguments.
_CHECKS = ("_assert", "sym_constrain", "_linalg_check_errors")
# Operations whose names begin with these prefixes return uninitialised elements.
_UNWRITTEN = ("empty", "new_empty")
# Operations that fill their result with a number. None means that an argument contains the number.
_FILLED = {"full": None, "full_like": None, "zeros_like": 0, "ones_like": 1, "scalar_tensor": None}
# The keyword arguments of torch operations that have no effect on the device. The dtype is an
# exception: it is read from `Results` instead.
_IGNORED_KEYWORDS = (
    "device",
    "layout",
    "pin_memory",
    "memory_format",
    "dtype",
    "generator",
    "non_blocking",
)
_RESERVED = ("seed", "rate")  # `frontends.ir` adds variables with these names.


@dataclass
class Captured:
    """A captured module: its graph, and the relation between the graph and the module.

    - `graph`: the forward pass. At its end are the assignments to the variables that forward
      changes.
    - `backward`: the operations of the backward pass.
    - `grads`: the gradient of each parameter that has a gradient.
    - `inputs`: the names of the inputs, in the order of the tensors among the arguments.
    - `outputs`: a dict from the name of each output to its torch dtype, in the order of the
      outputs.
    - `form`: the structure of forward's result, for `tensors.fill_form`.
    - `loss_at`: the name of the output that is the loss, or None.
    - `trained`: the parameters that require a gradient.
    - `counters`: the names of integer buffers that each forward increases by 1. The host updates
      them.
    - `kept`: the values that the user saved with `recomputationCheckpoint`.
    """

    graph: Ir
    backward: list[Op] = field(default_factory=list)
    grads: dict[Value, Value] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: dict[str, torch.dtype] = field(default_factory=dict)
    form: Argument = None
    loss_at: str | None = None
    trained: list[Value] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    kept: list[Value] = field(default_factory=list)


class Lowerer:
    """The translation of one torch graph into a graph of `frontends.ir`.

    `name` is the class of the module, which is used in error messages. `marked` contains the names
    of the inputs that may contain the label that a loss ignores.
    """

    def __init__(self, joint: JointGraph, name: str, marked: Collection[str]) -> None:
        self.joint = joint
        self.name = name
        self.marked = marked
        self.graph = Ir()
        self.captured = Captured(self.graph, form=joint.form)
        self.nodes = list(joint.graph.nodes)
        # The result of each node: a value, a constant tensor, a list of these, or None.
        self.values: dict[torch.fx.Node, Argument] = {}
        self.variables: dict[torch.fx.Node, Value] = {}
        self.saved: Saved = {}
        self.drawn = Drawn(joint.states_of_draws)
        self.swaps: Swaps = {}
        *_, output = self.nodes
        returned_nodes = iter(output.args[0])
        self.outputs = [next(returned_nodes) for _ in joint.outputs]
        self.gradients = {name: next(returned_nodes) for name in joint.gradients}
        self.assigned = {name: next(returned_nodes) for name in joint.assigned}
        self.kept = list(returned_nodes)
        self.changes = {
            copy_node.args[0]: copy_node.args[1]
            for copy_node in self.nodes
            if copy_node.op == "call_function" and copy_node.target is aten.copy_.default
        }

    def lower(self) -> Captured:
        """Return the module as a graph of `frontends.ir`.

        :raises ModelError: for an operation or a dtype that the device does not support. The error
            names the module and the line of the user's code.
        """
        placeholders = [graph_node for graph_node in self.nodes if graph_node.op == "placeholder"]
        names = list(self.joint.states)
        for name, node in zip(names, placeholders, strict=False):
            self._state(name, node)
        for name, node in zip(self.joint.inputs, placeholders[len(names) :], strict=True):
            self._input(name, node)
        for node in self.nodes:
            if node.op == "get_attr":
                self.values[node] = self.joint.constants[node.target]
            elif node.op == "call_function" and node not in self.values:
                self.values[node] = self._result(node)
        self.swaps = simplify(self.graph)
        self._end()
        return self.captured

    # --- placeholders ---

    def _state(self, name: str, node: torch.fx.Node) -> None:
        """Add a parameter or buffer to the graph as a variable.

        An integer or BOOL buffer that forward never changes becomes a constant. The host updates an
        integer buffer that only counts forward passes.
        """
        tensor = self.joint.states[name]
        change = self.changes.get(node)
        if change is not None and self._is_counter(node, change, tensor):
            self.captured.counters.append(name)
            self.values[node] = tensor
            self.values[change] = None
            return
        is_changed = change is not None or name in self.assigned
        if not is_changed and not tensor.is_floating_point():
            self.values[node] = tensor
            return
        variable = self.graph.variable(array(tensor).copy(), name, dtype_of(tensor.dtype))
        self.variables[node] = self.values[node] = variable
        if isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad:
            self.captured.trained.append(variable)

    def _is_counter(self, node: torch.fx.Node, change: torch.fx.Node, tensor: torch.Tensor) -> bool:
        """Return whether an integer buffer is a counter of forward passes, as in a batch norm.

        Forward adds 1 to a counter and does not read it otherwise. `node` is the buffer, and
        `change` is the node that computes its new value.
        """
        return (
            not tensor.is_floating_point()
            and change.target is aten.add.Tensor
            and change.args == (node, 1)
            and not change.kwargs
            and len(node.users) == 2
            and len(change.users) == 1
        )

    def _input(self, name: str, node: torch.fx.Node) -> None:
        """Add an input to the graph. Append "_" to its name until the name is unique."""
        example = node.meta["val"]
        used_names = {*self.graph.variables, *self.graph.inputs, *_RESERVED}
        unique = name
        while unique in used_names:
            unique += "_"
        dtype = dtype_of(example.dtype) or INT
        value = self.graph.input(tuple(example.shape), unique, dtype)
        value.marked = name in self.marked
        self.values[node] = value
        self.captured.inputs.append(unique)

    # --- operations ---

    def _result(self, node: torch.fx.Node) -> Argument:
        """Add the operations of a torch node to the graph, and return the node's result.

        If all arguments of the node are constants, and it draws no random numbers, torch computes
        the result immediately.
        """
        if node.target is getitem:
            source = self._read(node.args[0])
            return None if source is None else source[node.args[1]]
        label = self.joint.labels.get(node, Label())
        name = private.operation_name(node.target).removeprefix("aten::")
        if node.target is aten.copy_.default or name.startswith(_CHECKS):
            return None
        if name.startswith(_UNWRITTEN):
            return _zeros(node)
        with self.graph.at(path=label.path, line=label.line, stage=label.stage, part=label.part):
            args = [self._read(argument) for argument in node.args]
            kwargs = {keyword: self._read(argument) for keyword, argument in node.kwargs.items()}
            has_values = any(
                isinstance(argument, Value) for argument in pytree.tree_leaves((args, kwargs))
            )
            if has_values and _is_empty(node):
                return _zeros(node)
            if not has_values and RANDOM not in node.target.tags:
                with torch.no_grad():
                    return node.target(*args, **kwargs)
            return self._lowered(node, name, self._lift(args), self._lift(kwargs))

    def _lowered(
        self,
        node: torch.fx.Node,
        name: str,
        args: list[Argument],
        kwargs: dict[str, Argument],
    ) -> Argument:
        """Add the operations of a torch node to the graph, and return the node's result.

        :raises ModelError: if the node cannot be lowered, or if the result's shape or dtype differs
            from torch's result.
        """
        results = Results(node, dtype_of, self.drawn)
        has_generator = kwargs.get("generator") is not None
        kwargs = {
            keyword: argument
            for keyword, argument in kwargs.items()
            if keyword not in _IGNORED_KEYWORDS
        }
        try:
            if has_generator:
                raise Unfit(
                    "it was given a generator, but the device has its own seed",
                    "leave generator out, and set the device's seed: options.randomSeed(0).",
                )
            for tensor, dtype in zip(results.tensors, results.dtypes, strict=True):
                if dtype is None and tensor is not None:
                    raise Unfit(
                        f"the result has the dtype {tensor.dtype}, which the device does not "
                        "support",
                        advice.for_dtype(tensor.dtype),
                    )
            value = self._emitted(node, name, results=results, args=args, kwargs=kwargs)
        except Unfit as error:
            raise ModelError(
                f"torch's operation {private.operation_name(node.target)} cannot run on the "
                f"device: {error.why}.",
                **self._place(),
                next_step=f"{error.advice}{advice.hint(name)}",
            ) from None
        if isinstance(value, Value):
            value = wrap_to_width(self.graph, name, results, value)
        for result, dtype, shape in zip(
            _listed(value), results.dtypes, results.shapes, strict=False
        ):
            if isinstance(result, Value) and (result.dtype, result.shape) != (dtype, shape):
                raise ModelError(
                    f"The lowering of {private.operation_name(node.target)} returned {result!r}, "
                    f"but torch's result is {getattr(dtype, '__name__', dtype)}{list(shape)}.",
                    **self._place(),
                    next_step="return values with torch's shapes and dtypes from the function that "
                    "is decorated with @poptorch.lowering, or use another operation.",
                )
        return value

    def _emitted(
        self,
        node: torch.fx.Node,
        name: str,
        results: Results,
        args: list[Argument],
        kwargs: dict[str, Argument],
    ) -> Argument:
        """Add the operations of a torch node to the graph, and return the node's value or values.

        :raises UnknownOperationError: if neither this package nor the user defines how to lower the
            operation.
        """
        full_name = private.operation_name(node.target)
        if full_name in LOWERINGS or whole.is_users_operation(full_name):
            return whole.lower_users_operation(self.graph, node.target, args, kwargs)
        if full_name == "ipu_teach::print":
            return self.graph.op("print", args[0], title=args[1])
        if full_name in (whole.WHOLE, whole.BACKWARD):
            return self.joint.calls.lower(self.graph, full_name, args)
        if name in _FILLED:
            return self._filled(name, results, args)
        if name in ROWS:
            saved = {"saved": self.saved} if name in SAVING else {}
            return ROWS[name](self.graph, results, *args, **kwargs, **saved)
        general = (
            f"{did_you_mean(name.rpartition('::')[2], ROWS, 0.8)}compute the result with other "
            f"operations of torch, or define the operation with @poptorch.lowering({full_name!r})."
        )
        raise UnknownOperationError(
            f"The device does not implement torch's operation {full_name}.",
            **self._place(),
            next_step=(advice.next_step(name) or general) + advice.hint(name),
        )

    def _filled(self, name: str, results: Results, args: list[Argument]) -> Value:
        """Return the result of an operation such as `torch.full`, whose elements are all equal.

        The result is a constant, unless the device computes the number.
        """
        number: Argument = _FILLED[name]
        if number is None:
            number = args[0] if name == "scalar_tensor" else args[1]
        if isinstance(number, Value):
            number = self.graph.cast(number, results.dtype)
            return self.graph.op("expand", number, shape=results.shape)
        return self.graph.constant(number, results.dtype, results.shape)

    def _place(self) -> dict[str, str]:
        """Return the module and line of the current operation, as keyword arguments of an error."""
        context = self.graph.context
        return {"where": context["path"] or self.name, "line": in_words(context["line"])}

    # --- values ---

    def _read(self, argument: Argument) -> Argument:
        """Return `argument` with each torch node replaced by its value, also in lists and tuples.

        If forward changes a variable, the node's value is a copy from before the change.
        """
        if isinstance(argument, torch.fx.Node):
            if argument in self.variables and self._is_changed(argument):
                self._read_before_change(argument)
            return self.values[argument]
        if isinstance(argument, (list, tuple)):
            return [self._read(v) for v in argument]
        return argument

    def _is_changed(self, node: torch.fx.Node) -> bool:
        """Return whether forward changes the variable of this node."""
        return node in self.changes or self.variables[node].name in self.assigned

    def _read_before_change(self, node: torch.fx.Node) -> None:
        """Copy a variable that forward changes, so that operations can read its old value."""
        if self.values[node] is self.variables[node]:
            with self.graph.at(part=FORWARD):
                self.values[node] = self.graph.op("copy", self.variables[node])

    def _lift(self, argument: Argument) -> Argument:
        """Return `argument` with each tensor replaced by a constant, also in lists and dicts."""
        if isinstance(argument, torch.Tensor):
            return self._constant(argument)
        if isinstance(argument, list):
            return [self._lift(v) for v in argument]
        if isinstance(argument, dict):
            return {n: self._lift(v) for n, v in argument.items()}
        return argument

    def _constant(self, tensor: torch.Tensor) -> Value:
        """Return a tensor as a constant of the graph.

        :raises ModelError: if the device does not support the tensor's dtype.
        """
        dtype = dtype_of(tensor.dtype)
        if dtype is None:
            raise ModelError(
                f"A constant of the module has the dtype {tensor.dtype}, which the device does not "
                "support.",
                **self._place(),
                next_step="convert the constant to torch.float32: tensor.float().",
            )
        elements = array(tensor)
        if elements.size and (elements == elements.flat[0]).all():
            return self.graph.constant(elements.flat[0], dtype, tuple(elements.shape))
        return self.graph.constant(elements, dtype)

    def _final(self, node: Argument) -> Value:
        """Return the value in the simplified graph that belongs to a node or a constant."""
        value = self.values[node] if isinstance(node, torch.fx.Node) else node
        if isinstance(value, torch.Tensor):
            with self.graph.at(path="", line=NOWHERE):
                return self._constant(value)
        lowered: Value = value
        return self.swaps.get(lowered, lowered)

    # --- the end of the graph ---

    def _end(self) -> None:
        """Add the assignments to variables, the outputs and the gradients to the captured graph."""
        graph = self.graph
        captured = self.captured
        graph.ops = _with_parts(graph.ops)
        captured.backward = [op for op in graph.ops if op.part == BACKWARD]
        captured.grads = {
            graph.variables[parameter_name]: self._final(item)
            for parameter_name, item in self.gradients.items()
        }
        captured.kept = [item for item in map(self._final, self.kept) if item.kind == "made"]
        forward = [op for op in graph.ops if op.part != BACKWARD]
        stages_of_variables = {
            item: op.stage for op in graph.ops for item in op.inputs if item.kind == "variable"
        }
        graph.ops = forward
        for variable, node in self._assignments():
            value = self._final(node)
            path = variable.name.rpartition(".")[0]
            stage = stages_of_variables.get(variable, 0)
            if value is not variable:
                with graph.at(path=path, line=NOWHERE, stage=stage, part=FORWARD):
                    graph.emit("assign", variable, graph.cast(value, variable.dtype))
        positions = [
            position
            for position, item in enumerate(self.joint.form[0])
            if isinstance(item, torch.Tensor)
        ]
        for output_position, node, dtype in zip(
            positions, self.outputs, self.joint.outputs, strict=True
        ):
            graph.output(f"{output_position}", self._final(node))
            captured.outputs[f"{output_position}"] = dtype
        if self.joint.loss is not None:
            captured.loss_at = f"{positions[self.joint.loss]}"
        self._fuse_updates()

    def _assignments(self) -> list[tuple[Value, torch.fx.Node]]:
        """Return `(variable, node of its new value)` for each variable that forward changes."""
        changed = [
            (self.variables[changed_node], new_node)
            for changed_node, new_node in self.changes.items()
            if changed_node in self.variables
        ]
        return changed + [
            (self.graph.variables[changed_node], new_node)
            for changed_node, new_node in self.assigned.items()
        ]

    def _fuse_updates(self) -> None:
        """Merge the operations of running means, and remove copies that are not needed.

        Values that the gradients or `recomputationCheckpoint` need later stay in the graph.
        """
        outputs = self.graph.outputs
        read_later = (*self.captured.grads.values(), *self.captured.kept)
        self.graph.outputs = outputs | {
            f"later {number}": saved_value for number, saved_value in enumerate(read_later)
        }
        fuse_updates(self.graph, self.captured.backward)
        self.graph.outputs = outputs


def _with_parts(ops: list[Op]) -> list[Op]:
    """Return the operations; those that depend on backward values become part of the backward pass.

    torch runs some operations of the backward pass after its hooks have stopped labelling them, so
    they still have the label of a forward operation.
    """
    backward_values: set[Value] = set()
    ops_with_parts = []
    for op in ops:
        if op.part == BACKWARD or not backward_values.isdisjoint(op.inputs):
            op = replace(op, part=BACKWARD)
            backward_values.update(op.outs)
        ops_with_parts.append(op)
    return ops_with_parts


def _listed(value: Argument) -> list[Argument]:
    """Return one value, or a list or tuple of values, as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _examples(node: torch.fx.Node) -> list[torch.Tensor]:
    """Return the fake tensors that have the shapes and dtypes of a node's results."""
    return [
        example
        for example in pytree.tree_leaves(node.meta.get("val"))
        if isinstance(example, torch.Tensor)
    ]


def _is_empty(node: torch.fx.Node) -> bool:
    """Return whether all results of a node are empty tensors."""
    examples = _examples(node)
    return bool(examples) and not any(example.numel() for example in examples)


def _zeros(node: torch.fx.Node) -> torch.Tensor | list[torch.Tensor]:
    """Return a tensor or a list of tensors of zeros, with the shapes of a node's results."""
    zeros = [torch.zeros(example.shape, dtype=example.dtype) for example in _examples(node)]
    return zeros if isinstance(node.meta["val"], (list, tuple)) else zeros[0]
