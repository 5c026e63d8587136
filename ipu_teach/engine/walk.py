"""From a program's tree to nested functions: calling the outermost one runs the program."""

from __future__ import annotations

from collections.abc import Callable

from ipu_teach.compile.programs import Node
from ipu_teach.engine.memory import Memory
from ipu_teach.errors import ApplicationRuntimeError
from ipu_teach.graph.tensor import Tensor

Action = Callable[[], None]


Reader = Callable[[], int]


def build(node: Node, leaf: Callable[[int], Action], predicate: Callable[[Node], Reader]) -> Action:
    """The function that runs `node`.

    `leaf(step)` gives the function that runs a numbered step, `predicate(node)` the one that reads what decides for a node.
    """
    if node.step >= 0:
        return leaf(node.step)
    parts = [build(child, leaf, predicate) for child in node.children]
    if node.kind == "If":
        return _if(predicate(node), *parts)
    if node.kind == "Switch":
        return _switch(node, predicate(node), parts)
    if node.kind in ("RepeatWhileTrue", "RepeatWhileFalse"):
        return _while(predicate(node), node.kind == "RepeatWhileTrue", *parts)
    if node.kind == "Repeat":
        return _repeat(node.count, parts[0])
    return _sequence(parts)


def single(memory: Memory, tensor: Tensor) -> Reader:
    """A function that reads a tensor of one element as a whole number."""
    place = memory.flat(tensor.dtype)
    position = int(tensor.positions().reshape(-1)[0])
    return lambda: int(place[position])


def _sequence(parts: list[Action]) -> Action:
    def run() -> None:
        for part in parts:
            part()

    return run


def _repeat(count: int, body: Action) -> Action:
    def run() -> None:
        for _ in range(count):
            body()

    return run


def _while(predicate: Reader, wanted: bool, condition: Action, body: Action) -> Action:
    def run() -> None:
        condition()
        while bool(predicate()) is wanted:
            body()
            condition()

    return run


def _if(predicate: Reader, then: Action, otherwise: Action) -> Action:
    def run() -> None:
        if predicate():
            then()
        else:
            otherwise()

    return run


def _switch(node: Node, control: Reader, parts: list[Action]) -> Action:
    cases = dict(zip(node.cases, parts, strict=False))
    default = parts[-1]

    def run() -> None:
        number = control()
        if number not in cases and node.checked:
            raise ApplicationRuntimeError(f"""A Switch came to {number}, and has no such case.
                where: its cases are {sorted(cases)}
                next:  add the case, or use a Switch with a default.""")
        cases.get(number, default)()

    return run
