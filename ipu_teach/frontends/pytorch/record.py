"""Record the torch operations that run on fake tensors as the nodes of a graph."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import getitem

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ipu_teach.errors import ModelError
from ipu_teach.frontends.pytorch import private
from ipu_teach.frontends.pytorch.labels import Label
from ipu_teach.frontends.pytorch.private import (
    Argument,
    FakeTensor,
    Function,
    Operation,
    Target,
    WeakTensorKeyDictionary,
    pytree,
)
from ipu_teach.graph.source import Line, in_words

aten = torch.ops.aten
RANDOM = torch.Tag.nondeterministic_seeded


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """A torch dispatch mode that adds each operation that runs to `graph`.

    - `graph`: the recorded graph.
    - `constants`: a dict from the name of each `get_attr` node to its tensor, which no node
      computes.
    - `labels`: the label of each node: the result of `label()` when the node was added.
    - `states`: the state of the random generator for each node that returns random numbers: the
      result of `random_state()` when the node was added. Nodes with equal states return equal
      numbers.

    The argument `label` is a function that returns the label of the operation that is running. The
    argument `table` maps operations to the functions that compute them from other operations.
    """

    def __init__(
        self,
        table: Mapping[Target, Function],
        label: Callable[[], Label],
        random_state: Callable[[], Hashable] = private.next_random_state,
    ) -> None:
        super().__init__()
        self.graph = torch.fx.Graph()
        self.constants: dict[str, torch.Tensor] = {}
        self.labels: dict[torch.fx.Node, Label] = {}
        self.states: dict[torch.fx.Node, Hashable] = {}
        self._table = table
        self._label = label
        self._random_state = random_state
        self._nodes = WeakTensorKeyDictionary()

    def record(
        self, function: Callable[..., Sequence[torch.Tensor]], tensors: Sequence[torch.Tensor]
    ) -> None:
        """Call `function(*tensors)`; record the operations, arguments and results in `graph`."""
        for number, tensor in enumerate(tensors):
            self._note(self.graph.placeholder(f"input_{number}"), tensor)
        with self:
            results = function(*tensors)
        self.graph.output(tuple(map(self._node, results)))
        # The functions `label` and `random_state` may keep tensors alive, so release them.
        self._label = Label
        self._random_state = private.next_random_state
        for node in self.graph.nodes:
            if "like" in node.meta:
                node.meta["val"] = pytree.tree_map_only(_Like, _Like.tensor, node.meta.pop("like"))

    def remaining(self) -> list[Line]:
        """Return the source lines that computed those recorded tensors that are still alive."""
        if not self._fake_nodes():
            return []  # Constant tensors may remain; they are not worth a garbage collection.
        gc.collect()
        return [self.labels[node].line for node in self._fake_nodes()]

    def _fake_nodes(self) -> list[torch.fx.Node]:
        """Return the nodes of those recorded tensors that are still alive but have no elements."""
        return [node for tensor, node in self._nodes.items() if isinstance(tensor, FakeTensor)]

    def __torch_dispatch__(
        self,
        func: Operation,
        types: Sequence[type],
        args: Sequence[Argument] = (),
        kwargs: Mapping[str, Argument] | None = None,
    ) -> Argument:
        """Run an operation, and record it, or record the operations that it consists of."""
        kwargs = kwargs or {}
        if spelling := self._table.get(func):
            with self:
                result = spelling(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if private.is_composite(func):
            with self:
                return private.decomposed(func, args, kwargs)
        if func is aten.lift_fresh.default:  # Later code may change the result.
            func = aten.lift_fresh_copy.default
        result = func(*args, **kwargs)
        if func.namespace == "prim":  # Queries, such as for a tensor's device, are not recorded.
            return result
        if func is aten.detach.default:
            self._nodes[result] = self._node(args[0])
            return result
        inner_args, inner_kwargs = pytree.tree_map_only(
            torch.Tensor, self._node, (tuple(args), kwargs)
        )
        node = self.graph.call_function(func, inner_args, inner_kwargs)
        if RANDOM in func.tags:
            self.states[node] = self._random_state()
        self._note(node, result)
        return result

    def _node(self, tensor: torch.Tensor) -> torch.fx.Node:
        """Return the node that computes a tensor, or a new constant node if there is none."""
        node: torch.fx.Node | None = self._nodes.get(tensor)
        if node is None:
            name = f"constant_{len(self.constants)}"
            self.constants[name] = tensor
            node = self.graph.get_attr(name)
            self._note(node, tensor)
        return node

    def _note(self, node: torch.fx.Node, result: Argument) -> None:
        """Label a node, and store it as the node that computes the tensors in `result`.

        :raises ModelError: if a tensor in `result` is sparse.
        """
        self.labels[node] = label = self._label()
        if isinstance(result, torch.Tensor):
            if result.layout is not torch.strided:
                raise ModelError(
                    f"The operation {node.target} returns a sparse tensor, but the device has only "
                    "dense tensors.",
                    where=label.path,
                    line=in_words(label.line),
                    next_step="use dense tensors: leave out to_sparse() and sparse=True.",
                )
            self._nodes[result] = node
        elif isinstance(result, (list, tuple)):
            for number, element in enumerate(result):
                if isinstance(element, torch.Tensor):
                    self._note(self.graph.call_function(getitem, (node, number)), element)
        node.meta["like"] = pytree.tree_map_only(torch.Tensor, _Like, result)


class _Like:
    """The shape, strides and dtype of a tensor, and the address of its storage.

    The object does not refer to the tensor, so the tensor can be freed.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.memory = private.memory(tensor)
        self.stride = tensor.stride()
        self.offset = tensor.storage_offset()

    def tensor(self) -> torch.Tensor:
        """Return a tensor with the recorded shape, strides, dtype and memory address.

        The tensor is on torch's device "meta", so it has no elements.
        """
        lengths_and_strides = zip(self.shape, self.stride, strict=True)
        last_position = sum(max(length - 1, 0) * step for length, step in lengths_and_strides)
        storage = torch.empty(self.offset + last_position + 1, dtype=self.dtype, device="meta")
        result = storage.as_strided(self.shape, self.stride, self.offset)
        result.memory = self.memory
        return result
