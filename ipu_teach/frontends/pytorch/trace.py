"""Record the forward and the backward pass of a module as one functional graph of torch.

The module and its backward pass run on fake tensors, which have shapes and dtypes but no elements,
and each operation of torch becomes a node of the graph. If operations change tensors in place, the
graph is recorded a second time. In the second graph, these operations return new tensors, and the
changes of parameters and buffers are at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cache
from operator import getitem

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ipu_teach.errors import ModelError
from ipu_teach.frontends.pytorch import branches, losses, masks, private, respelled, whole
from ipu_teach.frontends.pytorch.arguments import refuse_hidden_outputs
from ipu_teach.frontends.pytorch.labels import Label, Labels, innermost_line
from ipu_teach.frontends.pytorch.markers import LOWERINGS, Marks, capturing
from ipu_teach.frontends.pytorch.private import Argument, Function, Target, pytree
from ipu_teach.frontends.pytorch.record import Recorder
from ipu_teach.frontends.pytorch.rows import KEPT
from ipu_teach.graph.source import NOWHERE, in_words

_RESULT = torch.empty(0)  # Stands for a tensor in the stored output of forward.


def _set_data(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Copy `value` into `tensor`: the replacement for the assignment `tensor.data = value`.

    Unlike the assignment, the copy can be traced.

    :raises ModelError: if the shapes or the dtypes differ.
    """
    if tensor.shape != value.shape or tensor.dtype != value.dtype:
        raise ModelError(
            f"The assignment to tensor.data changes the tensor from {list(tensor.shape)} "
            f"{tensor.dtype} to {list(value.shape)} {value.dtype}, but the shape and dtype of a "
            "tensor on the device are fixed.",
            line=in_words(innermost_line()),
            next_step="assign the new value to a variable instead: y = value.",
        )
    tensor.detach().copy_(value)


_SPELLINGS = {
    **masks.MASKED,
    **respelled.RESPELLED,
    **whole.SPELLED,
    torch.Tensor.data.__set__: _set_data,
}


@dataclass
class JointGraph:
    """A functional graph of torch that contains a forward pass and a backward pass.

    The placeholders of the graph are the parameters and buffers in `states`, followed by the
    inputs. A parameter that has several names is listed under its first name. The graph returns, in
    this order: the outputs, the gradients of the parameters that `gradients` names, the new values
    of the buffers and parameters that `assigned` names, and the tensors that the user saved for the
    backward pass. A node with the operation `copy_` writes a new value to a placeholder.
    """

    states: dict[str, torch.Tensor]
    inputs: list[str]
    calls: whole.Capture  # the operations that are not decomposed
    graph: torch.fx.Graph = None
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    labels: dict[torch.fx.Node, Label] = field(default_factory=dict)
    # The state of the random generator for each node that returns random numbers.
    states_of_draws: dict[torch.fx.Node, Hashable] = field(default_factory=dict)
    outputs: list[torch.dtype] = field(default_factory=list)
    # The flattened output of forward, with `_RESULT` in place of each tensor, and the structure of
    # the output.
    form: tuple[list[Argument], pytree.TreeSpec] = ([], None)
    gradients: list[str] = field(default_factory=list)
    assigned: list[str] = field(default_factory=list)
    loss: int | None = None  # the position of the loss in `outputs`


class Tracer:
    """The tracer of one module.

    `args` and `kwargs` are example arguments, and `names` are the names of the tensors in these
    arguments.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        args: tuple[Argument, ...],
        kwargs: Mapping[str, Argument],
        names: list[str],
    ) -> None:
        self.module = module
        self.names = names
        self.parameters = dict(module.named_parameters(remove_duplicate=False))
        buffers = dict(module.named_buffers(remove_duplicate=False))
        tensors = {**self.parameters, **buffers}
        self.first_name: dict[str, str] = {}  # Maps the names of a tensor to its first name.
        by_identity: dict[int, str] = {}
        modules = dict(module.named_modules(remove_duplicate=False))
        slots = set()
        for name, tensor in tensors.items():
            # If a submodule has two names, so do its attributes. Only the first name is kept,
            # because functional_call does not restore an attribute that it gets under two names.
            path, _, attribute = name.rpartition(".")
            slot = id(modules[path]), attribute
            if slot not in slots:
                slots.add(slot)
                self.first_name[name] = by_identity.setdefault(id(tensor), name)
        self.states = {name: tensors[name] for name in by_identity.values()}
        self.trained = [
            tensor_name
            for tensor_name, state in self.states.items()
            if tensor_name in self.parameters and state.requires_grad
        ]
        self._flat, self._spec = pytree.tree_flatten((args, dict(kwargs)))
        self._places = [
            position
            for position, argument in enumerate(self._flat)
            if isinstance(argument, torch.Tensor)
        ]
        self.fake = private.fake_mode()
        self.labels: Labels | None = None
        self.recorders: list[Recorder] = []

    @property
    def path(self) -> str:
        """The path of the submodule that ran last."""
        return "" if self.labels is None else self.labels.label.path

    def trace(self, training: bool, scale: float) -> JointGraph:
        """Return the graph of the module, with the gradients of `scale * loss` if `training`.

        :raises ModelError: if a trained module returns no loss, or if a module changes its inputs
            or a constant tensor in place.
        """
        joint = self._run(training, scale)
        self._check_changes(joint)
        nodes = joint.graph.nodes
        if any(private.is_mutable(n.target) for n in nodes if n.op == "call_function"):
            self._functionalise(joint)
        return joint

    def forward(self) -> JointGraph:
        """Return the graph of the module's forward pass, for the module's current state."""
        return self._run(training=False, scale=1.0)

    def _run(self, training: bool, scale: float) -> JointGraph:
        """Return the graph of the module, in which operations may change tensors in place."""
        with ExitStack() as stack:
            marks = stack.enter_context(capturing())
            calls = stack.enter_context(whole.capture())
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            stack.enter_context(private.without_mkldnn())
            stack.enter_context(_without_fast_attention())
            stack.enter_context(branches.conditions_computed())
            self.labels = labels = Labels(self.module, marks, _SPELLINGS)
            joint = JointGraph(self.states, self.names, calls)
            function = self._function(joint, labels, marks, scale if training else None)
            stack.enter_context(private.own_random_numbers())
            self._record(joint, function, lambda: labels.label, lambda: self._drawn(labels.label))
            labels.forget()
        return joint

    def _record(
        self,
        joint: JointGraph,
        function: Callable[..., list[torch.Tensor]],
        label: Callable[[], Label],
        random_state: Callable[[], Hashable],
    ) -> None:
        """Record the torch operations that `function` runs, and store their graph in `joint`.

        `function` is called with the module's parameters, buffers and inputs, as fake tensors.
        `label` returns the label of the operation that is running. `random_state` returns the state
        of the random generator for this operation.
        """
        tensors = [*self.states.values(), *(self._flat[position] for position in self._places)]
        fakes = [private.fake_of(self.fake, tensor) for tensor in tensors]
        recorder = Recorder(_table(), label, random_state)
        self.recorders.append(recorder)
        with private.tracing_on(self.fake):
            recorder.record(function, fakes)
        joint.graph = recorder.graph
        joint.constants = recorder.constants
        joint.labels = recorder.labels
        joint.states_of_draws = recorder.states

    def _drawn(self, label: Label) -> Hashable:
        """Return the state of torch's random generator, which determines the next random numbers.

        A checkpoint restores the state before it computes a part of the module again.

        :raises ModelError: if forward has set the seed of the generator.
        """
        if torch.initial_seed() != private.CAPTURE_SEED:
            raise ModelError(
                f"{type(self.module).__name__}.forward sets the seed of torch's random numbers, "
                "but the device draws random numbers from its own seed.",
                where=label.path or type(self.module).__name__,
                line=in_words(label.line),
                next_step="leave torch.manual_seed out of forward, and set the seed of the device "
                "once: options.randomSeed(0).",
            )
        return private.next_random_state()

    def _function(
        self, joint: JointGraph, labels: Labels, marks: Marks, scale: float | None
    ) -> Callable[..., list[torch.Tensor]]:
        """Return the function whose operations are recorded: the forward and the backward pass.

        Its arguments are the parameters and buffers, then the inputs. If `scale` is None, there is
        no backward pass.
        """

        def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
            """Return a list: the outputs, the gradients, the new states, and the saved tensors.

            The new states are the values of parameters and buffers to which forward has assigned
            new tensors.
            """
            states = dict(zip(self.states, tensors, strict=False))
            self._require_gradients(states)
            values = list(self._flat)
            for position, tensor in zip(self._places, tensors[len(states) :], strict=True):
                values[position] = tensor
            args, kwargs = pytree.tree_unflatten(values, self._spec)
            named = {
                f"module.{state_name}": states[first_names]
                for state_name, first_names in self.first_name.items()
            }
            step = _Step(self.module, joint, labels, marks=marks, scale=scale)
            # The backward pass is a part of `step`, so it also runs inside functional_call. It may
            # run a checkpoint's forward pass again, which needs the parameters in `named`.
            outputs = torch.func.functional_call(step, named, args, kwargs)
            gradients = {
                state_name: states[state_name].grad
                for state_name in self.trained
                if states[state_name].grad is not None
            }
            first_names = self.first_name
            states_after = {
                state_name.removeprefix("module."): state for state_name, state in named.items()
            }
            assigned = {
                first_names[state_name]: state
                for state_name, state in states_after.items()
                if state is not states[first_names[state_name]]
            }
            joint.gradients = list(gradients)
            joint.assigned = list(assigned)
            results = [*outputs, *gradients.values(), *assigned.values()]
            labels.set(line=NOWHERE, stage=0)
            return [*(state.detach() for state in results if state is not None), *marks.kept]

        return function

    def _require_gradients(self, states: Mapping[str, torch.Tensor]) -> None:
        """Make the trained parameters require gradients, and register their gradient hooks."""
        for name in self.trained:
            states[name].requires_grad_(True)
            for hook in private.gradient_hooks(self.states[name]):
                states[name].register_hook(hook)
            for hook in private.accumulation_hooks(self.states[name]):
                states[name].register_post_accumulate_grad_hook(hook)

    def _check_changes(self, joint: JointGraph) -> None:
        """Raise `ModelError` if the graph changes an input or a constant tensor in place.

        A constant tensor is neither a parameter nor a buffer.
        """
        nodes = list(joint.graph.nodes)
        labels = joint.labels
        placeholders = [graph_node for graph_node in nodes if graph_node.op == "placeholder"]
        inputs = dict(zip(placeholders[len(self.states) :], self.names, strict=True))
        for node in nodes:
            if node.op != "call_function" or not private.is_mutable(node.target):
                continue
            for written_node in private.written_arguments(node):
                root = _root(written_node)
                if root in inputs:
                    name = inputs[root]
                    self._refuse_change(
                        labels[node],
                        f"The operation {private.operation_name(node.target)} changes the input "
                        f"{name!r} in place, but inputs cannot be changed on the device.",
                        "assign the result to a new name: y = x + 1 instead of x += 1.",
                    )
                if root is not None and root.op == "get_attr":
                    self._refuse_change(
                        labels[node],
                        f"The operation {private.operation_name(node.target)} changes a tensor in "
                        "place that is neither a parameter nor a buffer of the module.",
                        "make the tensor a buffer: self.register_buffer('name', tensor).",
                    )

    def _refuse_change(self, label: Label, problem: str, advice: str) -> None:
        """Raise a `ModelError` that names the module and the line in `label`."""
        where = label.path or type(self.module).__name__
        raise ModelError(problem, where=where, line=in_words(label.line), next_step=advice)

    def _functionalise(self, joint: JointGraph) -> None:
        """Record the graph again, without operations that change tensors in place.

        They are replaced by operations that return new tensors. The only exception is `copy_`: at
        the end of the new graph, it writes the changed values to the parameters and buffers.
        """
        run = _Rerun(joint)
        with torch.no_grad():
            self._record(joint, torch.func.functionalize(run), lambda: run.label, run.random_state)


class _Step(torch.nn.Module):  # type: ignore[misc]
    """A module's forward pass, followed by its backward pass if `scale` is not None."""

    def __init__(
        self,
        module: torch.nn.Module,
        joint: JointGraph,
        labels: Labels,
        *,
        marks: Marks,
        scale: float | None,
    ) -> None:
        super().__init__()
        self.module = module
        self.joint = joint
        self.labels = labels
        self.marks = marks
        self.scale = scale

    def forward(self, *args: Argument, **kwargs: Argument) -> list[torch.Tensor]:
        """Return the tensors among the module's outputs."""
        joint = self.joint
        labels = self.labels
        with torch.enable_grad():
            with labels, labels.in_modules():
                result = self.module(*args, **kwargs)
            flat_outputs, spec = pytree.tree_flatten(result)
            outputs = [output for output in flat_outputs if isinstance(output, torch.Tensor)]
            refuse_hidden_outputs(type(self.module).__name__, flat_outputs)
            if self.scale is not None:
                loss = self._loss(outputs)
                joint.loss = next(
                    (
                        position
                        for position, output_tensor in enumerate(outputs)
                        if output_tensor is loss
                    ),
                    None,
                )
                self._backward(loss, self.scale)
        joint.outputs = [output_tensor.dtype for output_tensor in outputs]
        joint.form = (
            [_RESULT if isinstance(output, torch.Tensor) else output for output in flat_outputs],
            spec,
        )
        return outputs

    def _loss(self, outputs: list[torch.Tensor]) -> torch.Tensor:
        """Return the marked loss, or the last output if no loss is marked.

        :raises ModelError: if the loss is not a single float.
        """
        loss = losses.final_loss(self.marks.losses)
        if loss is None and outputs:
            loss = outputs[-1]
        if loss is None or loss.numel() != 1 or not loss.is_floating_point():
            kind = "nothing" if loss is None else f"{list(loss.shape)} {str(loss.dtype)[6:]}"
            raise ModelError(f"""A trainingModel needs a loss, which must be a single float, but the
                last output of {type(self.module).__name__}.forward is {kind}.
                next:  return the loss last: return output, loss.""")
        result: torch.Tensor = loss
        return result

    def _backward(self, loss: torch.Tensor, scale: float) -> None:
        """Run the backward pass of `scale * loss`.

        Its operations get the labels of the forward operations whose gradients they compute.
        """
        if not loss.requires_grad:
            return
        with self.labels.in_backward(loss):
            # Pass the gradient edge of `loss`, because torch then keeps its modes on during the
            # backward pass. If the tensor `loss` were passed, torch would turn its modes off.
            edge = torch.autograd.graph.get_gradient_edge(loss)
            gradient = torch.full_like(loss, scale)
            with self.labels if self.labels.is_recomputed else nullcontext():
                torch.autograd.backward(edge, gradient)


class _Rerun:
    """A callable that runs the operations of a recorded graph again.

    `label` is the label of the node that is running.
    """

    def __init__(self, joint: JointGraph) -> None:
        self.graph = joint.graph
        self.constants = joint.constants
        self.labels = joint.labels
        self.states = joint.states_of_draws
        self.label = Label()
        self._state: Hashable = None

    def random_state(self) -> Hashable:
        """Return the recorded state of the random generator for the node that is running."""
        return self._state

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Run the recorded graph, and return its results.

        `tensors` are the parameters, buffers and inputs of the graph.
        """
        inputs = iter(tensors)
        values: dict[torch.fx.Node, Argument] = {}
        for node in self.graph.nodes:
            self.label = self.labels.get(node, self.label)
            self._state = self.states.get(node)
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "get_attr":
                values[node] = self.constants[node.target]
            else:
                args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
                if node.op == "output":
                    break
                values[node] = node.target(*args, **kwargs)
        results: list[torch.Tensor] = list(args[0])
        return results


def _root(node: torch.fx.Node) -> torch.fx.Node | None:
    """Return the node whose result owns the memory of the result of `node`.

    A view shares the memory of another node's result. Return None if the memory may come from
    several nodes.
    """
    while isinstance(node, torch.fx.Node) and node.op == "call_function":
        if node.target is not getitem and not private.returns_alias(node.target):
            return node
        node = node.args[0]
        if isinstance(node, (list, tuple)):
            return None
    return node if isinstance(node, torch.fx.Node) else None


def _without_fast_attention() -> ExitStack:
    """Turn off torch's fast path for attention until the returned stack is closed."""
    stack = ExitStack()
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    stack.callback(torch.backends.mha.set_fastpath_enabled, enabled)
    return stack


def _table() -> dict[Target, Function]:
    """Return torch's decomposition table, without the operations that must not be decomposed.

    A decomposition is a function that computes an operation from other operations. The table has
    none for the operations that the user lowers with `poptorch.lowering`, nor for those in `KEPT`.
    """
    return _table_without(frozenset(LOWERINGS))


@cache
def _table_without(names: frozenset[str]) -> dict[Target, Function]:
    """Return torch's decomposition table, without the operations in `names` and in `KEPT`."""
    # "detach" is not decomposed either: with its decomposition, results that autograd saves would
    # refer to themselves and would never be freed.
    names |= {f"aten::{name}" for name in (*KEPT, "detach")}
    table = torch.export.default_decompositions().items()
    decompositions = {
        op: decomposition for op, decomposition in table if private.operation_name(op) not in names
    }
    # The device has no operation for a tensor of zeros to which torch gives no memory.
    decompositions[torch.ops.aten._efficientzerotensor.default] = _zeros
    return whole.decompositions(decompositions)


def _zeros(size: Sequence[int], dtype: torch.dtype | None = None, **_: Argument) -> torch.Tensor:
    """Return a tensor of zeros that has its own memory."""
    return torch.zeros(size, dtype=dtype)
