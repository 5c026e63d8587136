"""What a walk gives: operations, one below the other and within each other. The room above prints
them for CPython and for a compiler.

Most are lines that the walk words itself. What depends on the target, or on what turns out further
down, is named here and worded when it is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


class Operation:
    """Something that is done at a place of the texts."""


@dataclass(frozen=True)
class Line(Operation):
    """A statement of the compiled text, of CPython's, or of both. `watched`: what CPython's says
    instead where somebody watches. `tag`: it gives a variable's type, and is needless where that is
    the same everywhere."""

    compiled: str | None
    python: str | None = None
    watched: str | None = None
    tag: str = ""


class Leave(Line):
    """A `break` or a `continue`."""


@dataclass(frozen=True)
class Block(Line):
    """What stands under a line. `counter`: of a `for` of the compiled text."""

    body: list[Operation] = field(default_factory=list)
    counter: str = ""

    def all(self) -> Iterator[Operation]:
        """What stands under it, also further in."""
        for operation in self.body:
            yield operation
            if isinstance(operation, Block):
                yield from operation.all()


@dataclass(frozen=True)
class Count(Operation):
    """The cycles of a straight piece, by its number."""

    piece: int


@dataclass(frozen=True)
class CountRegion(Operation):
    """The cycles of an operation on a whole region, by the number of its rate: for how many
    elements, and how often, in the compiled text and in CPython's."""

    counter: str
    rate: int
    elements: tuple[str, str]
    times: tuple[str, str]


@dataclass(frozen=True)
class Finish(Operation):
    """compute() is over. `answer`: what it returns, in the compiled text and in CPython's; None
    where that is not no."""

    answer: tuple[str, str] | None
