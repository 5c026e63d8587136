"""The operations into which compute() is translated, nested in the order in which they run.

The engine prints them as Python code and as numba code. Most operations are lines whose text the
translation writes. An operation that depends on the target, or on later parts of the source, gets
its text when it is printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


class Operation:
    """One part of the generated code: a line, a block, a count or the end of compute()."""


@dataclass(frozen=True)
class Line(Operation):
    """A statement of the numba code, of the Python code, or of both.

    `watched` replaces the Python statement when the run is watched (see `observer.watch`). If `tag`
    is not empty, the statement stores the type of a variable in the variable `tag`, and is printed
    only if the variable has several types.
    """

    compiled: str | None
    python: str | None = None
    watched: str | None = None
    tag: str = ""


class Leave(Line):
    """A `break` or a `continue`."""


@dataclass(frozen=True)
class Block(Line):
    """A line with a body, such as a `for`.

    If it is a `for` in the numba code, `counter` is the loop's variable.
    """

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
    """Adds the cycles of a piece of straight-line code.

    `piece` is an index into `ScalarCode.pieces`.
    """

    piece: int


@dataclass(frozen=True)
class CountRegion(Operation):
    """Adds the cycles of an operation on a whole field or array.

    `rate` is an index into `ScalarCode.rates`. `elements` is the number of elements, and `times`
    the number of repetitions, each as (numba expression, Python expression).
    """

    counter: str
    rate: int
    elements: tuple[str, str]
    times: tuple[str, str]


@dataclass(frozen=True)
class Finish(Operation):
    """The end of compute().

    `answer` says whether the return value is true, as (numba expression, Python expression). It is
    None if the return value is always true.
    """

    answer: tuple[str, str] | None
