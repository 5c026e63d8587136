"""The names of a program as a tree: `layer1/mul/reduce` is `reduce` inside `mul` inside `layer1`.

The tree contains the names of compute sets, of operations that copy, and of variables. The cycles
and bytes of a node include the cycles and bytes of all nodes below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ipu_teach.report.operations import names
from ipu_teach.report.table import Table, expression

if TYPE_CHECKING:
    from ipu_teach.report.report import Report


@dataclass(eq=False)
class DebugNode:
    """One name in the tree of names, with the names directly inside it in `children`.

    - `path` is the full name, such as "layer1/mul". `depth` is the number of names before the last
      one in the path: 1 for "layer1/mul".
    - `steps` are the numbers of the compiled steps whose path is exactly this one, and `variables`
      are the names of the variables with exactly this path.
    - `cycles` are modelled cycles of the entire run, and `bytes` is the size of variables. Both
      include the cycles and bytes of all names inside this one.
    """

    COLUMNS: ClassVar = ("path", "depth", "steps", "cycles", "bytes")

    name: str
    path: str
    depth: int
    children: dict[str, DebugNode] = field(default_factory=dict, repr=False)
    steps: list[int] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    cycles: float = 0.0
    bytes: int = 0

    def walk(self) -> Iterator[DebugNode]:
        """Yield this node and all nodes below it; each node comes before its children."""
        nodes_to_visit = [self]
        while nodes_to_visit:
            node = nodes_to_visit.pop()
            yield node
            nodes_to_visit += reversed(node.children.values())


class DebugContexts(Table[DebugNode]):
    """A table of the top-level names of a program; `walk` returns the names at all levels."""

    __slots__ = ()

    def walk(self) -> Table[DebugNode]:
        """Return the names at all levels; each name comes before the names inside it."""
        return Table(below for node in self for below in node.walk())

    def find(self, pattern: str) -> Table[DebugNode]:
        """Return the names whose path contains a match of the regular expression `pattern`.

        :raises InvalidOptionError: if `pattern` is not a regular expression.
        """
        regex = expression(pattern, "find()")
        return Table(node for node in self.walk() if regex.search(node.path))


def debug_contexts(report: Report) -> DebugContexts:
    """Return the names of compute sets, copies and variables as a tree.

    For example, `report.debug_contexts.find("layer1")` searches the tree. All cycles are 0 if
    nothing has run.
    """
    root = DebugNode("", "", -1)
    executions = report.executions.tolist() if report.num_steps else [0] * len(report.profile.steps)
    profile = report.profile
    for step_number, (operation, step) in enumerate(
        zip(names(profile), profile.steps, strict=True)
    ):
        cost = profile.cost(step_number)
        path = cost.name if step.compute_set >= 0 else operation
        for node in _way(root, path):
            node.cycles += executions[step_number] * cost.cycles
        node.steps.append(step_number)
    for variable in report.variables:
        for node in _way(root, variable.name):
            node.bytes += variable.bytes
        node.variables.append(variable.name)
    return DebugContexts(root.children.values())


def _way(root: DebugNode, path: str) -> Iterator[DebugNode]:
    """Yield the nodes on a path below `root`, the outermost first. Missing nodes are created."""
    node = root
    for name in path.split("/"):
        child = node.children.get(name)
        if child is None:
            full_path = f"{node.path}/{name}" if node.depth >= 0 else name
            child = node.children[name] = DebugNode(name, full_path, node.depth + 1)
        node = child
        yield node
