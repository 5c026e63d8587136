"""Check whether the next call of a module's forward would compute the same results as this call.

A module may store a tensor, a counter or a cache in its attributes. The device repeats the program
that was captured once, so it cannot reproduce such changes. A module that changes its attributes is
therefore traced twice, and the descriptions of the two graphs are compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import torch

from ipu_teach.frontends.pytorch import private
from ipu_teach.frontends.pytorch.private import Argument, pytree
from ipu_teach.frontends.pytorch.trace import JointGraph

_RANDOM = torch.Tag.nondeterministic_seeded


class Description:
    """A description of the operations of a traced graph, to compare two graphs.

    - `effects`: hashes of the results of the graph, of its changes of tensors and of its random
      numbers. They are equal for two graphs that compute the same results.
    - `constants`: a dict of hashes of the values that do not depend on the inputs. The key of a
      value is the address of its fake tensor.

    To describe a second graph, pass the `constants` of the first.
    """

    def __init__(self, joint: JointGraph, constants: Mapping[int, Hashable] | None = None) -> None:
        self.constants: dict[int, Hashable] = {}
        self._constants_before = constants or {}
        self._known: dict[torch.fx.Node, Hashable] = {}
        self._is_constant: dict[torch.fx.Node, bool] = {}
        effects = []
        for node in joint.graph.nodes:
            effects += self._node(joint, node)
        self.effects = tuple(effects)

    def _node(self, joint: JointGraph, node: torch.fx.Node) -> list[Hashable]:
        """Record the hash of a node.

        If the node changes a tensor or draws random numbers, return a list with this hash. For the
        output node, return a list with the description of the results. Otherwise, return [].
        """
        argument_nodes = [
            n for n in pytree.tree_leaves((node.args, node.kwargs)) if n in self._known
        ]
        is_random = node.op == "call_function" and _RANDOM in getattr(node.target, "tags", ())
        self._is_constant[node] = (
            node.op != "placeholder"
            and not is_random
            and all(map(self._is_constant.get, argument_nodes))
        )
        if node.op == "get_attr":
            self._known[node] = self._attribute(joint.constants[str(node.target)])
            return []
        if node.op == "output":
            return [self._argument(node.args)]
        arguments = self._argument(node.args), self._argument(tuple(node.kwargs.items()))
        unique_name = node.name if node.op == "placeholder" or is_random else ""
        self._known[node] = hash((str(node.target), unique_name, arguments))
        if self._is_constant[node]:
            for value in pytree.tree_leaves(node.meta.get("val")):
                if isinstance(value, torch.Tensor):
                    self.constants[value.memory] = self._known[node]
        return [self._known[node]] if private.is_mutable(node.target) or is_random else []

    def _attribute(self, value: Argument) -> Hashable:
        """Return a hash of the elements of a constant tensor, to compare two graphs.

        A fake tensor comes from an earlier graph and has no elements: return the hash of its value
        in that graph. For a constant that is not a tensor, return its `repr`.
        """
        if isinstance(value, private.FakeTensor):
            return self._constants_before.get(private.memory(value), object())
        if isinstance(value, torch.Tensor):
            return hash((value.shape, value.dtype, value.detach().cpu().numpy().tobytes()))
        return repr(value)

    def _argument(self, argument: Argument) -> Hashable:
        """Return a hashable copy of an argument of a node, to compare two graphs.

        A node in the argument is replaced by its hash.
        """
        if isinstance(argument, torch.fx.Node):
            return self._known[argument]
        if isinstance(argument, (list, tuple)):
            return tuple(map(self._argument, argument))
        return repr(argument)
