"""The result of a walk: a sequence of nested operations, which the engine prints as two texts.

Most operations are lines whose text the walk writes. An operation that depends on the target, or on
later parts of the source, gets its text when it is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


class Operation:
    """An operation at one place of the texts."""


@dataclass(frozen=True)
class Line(Operation):
    """A statement of the compiled text, of CPython's text, or of both.

    `watched` replaces CPython's statement in a run that is watched. `tag` is the variable whose
    type the statement records; the statement is not needed if the variable has the same type
    everywhere.
    """

    compiled: str | None
    python: str | None = None
    watched: str | None = None
    tag: str = ""


class Leave(Line):
    """A `break` or a `continue`."""


@dataclass(frozen=True)
class Block(Line):
    """A line with a body. `counter` is the variable of a `for` in the compiled text."""

    body: list[Operation] = field(default_factory=list)
    counter: str = ""

    def all(self) -> Iterator[Operation]:
        """Yield all operations in the body, at any depth."""
        for operation in self.body:
            yield operation
            if isinstance(operation, Block):
                yield from operation.all()


@dataclass(frozen=True)
class Count(Operation):
    """The operation that counts the cycles of straight-line code, by the number of its piece."""

    piece: int


@dataclass(frozen=True)
class CountRegion(Operation):
    """Counts the cycles of an operation on a complete region, by the number of its rate.

    `elements` and `times` are the number of elements and of repetitions, each in the compiled text
    and in CPython's.
    """

    counter: str
    rate: int
    elements: tuple[str, str]
    times: tuple[str, str]


@dataclass(frozen=True)
class Finish(Operation):
    """The end of compute().

    `answer` is its return value in the compiled text and in CPython's, or None if it is always
    true.
    """

    answer: tuple[str, str] | None
