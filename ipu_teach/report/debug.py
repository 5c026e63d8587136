"""The names of a program as a tree: `layer1/mul/reduce` is `reduce` inside `mul` inside `layer1`.

Compute sets, copies inside named programs, and variables hang where their names say. Sums are over
all below.
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
    """One name, with those inside. `steps`: numbers of the compiled steps of exactly this name;
    `variables`: its variables.

    `cycles` (modelled, of the whole run) and `bytes` (of variables) count all that is below too.
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
        """Yield this name and all below, in order."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children.values())


class DebugContexts(Table[DebugNode]):
    """The names at the top; `walk` has all."""

    __slots__ = ()

    def walk(self) -> Table[DebugNode]:
        """Return every name, the outer before the inner."""
        return Table(inner for node in self for inner in node.walk())

    def find(self, pattern: str) -> Table[DebugNode]:
        """Return the names in whose path the regular expression is found. Raises
        `InvalidOptionError`."""
        wanted = expression(pattern, "find()")
        return Table(node for node in self.walk() if wanted.search(node.path))


def debug_contexts(report: Report) -> DebugContexts:
    """Return the names of compute sets and variables as a tree; `.find("layer1")` looks one up."""
    root = DebugNode("", "", -1)
    runs = report.executions.tolist() if report.num_steps else [0] * len(report.profile.steps)
    profile = report.profile
    for number, (operation, step) in enumerate(zip(names(profile), profile.steps, strict=True)):
        cost = profile.cost(number)
        path = cost.name if step.compute_set >= 0 else operation
        for node in _way(root, path):
            node.cycles += runs[number] * cost.cycles
        node.steps.append(number)
    for variable in report.variables:
        for node in _way(root, variable.name):
            node.bytes += variable.bytes
        node.variables.append(variable.name)
    return DebugContexts(root.children.values())


def _way(root: DebugNode, path: str) -> Iterator[DebugNode]:
    """Yield the names from the outermost to the last one of a path."""
    node = root
    for name in path.split("/"):
        inner = node.children.get(name)
        if inner is None:
            full_path = f"{node.path}/{name}" if node.depth >= 0 else name
            inner = node.children[name] = DebugNode(name, full_path, node.depth + 1)
        node = inner
        yield node
