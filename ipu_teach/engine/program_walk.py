"""Convert a program's tree to nested functions. Calling the outermost function runs the program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ipu_teach.compile.programs import Node
from ipu_teach.engine.tile_arrays import Memory
from ipu_teach.errors import ApplicationRuntimeError
from ipu_teach.graph.tensor import Tensor
from ipu_teach.types import Array

Action = Callable[[], None]
PredicateReader = Callable[[], int]


def build(
    node: Node, leaf: Callable[[int], Action], predicate: Callable[[Node], PredicateReader]
) -> Action:
    """Return the function that runs `node`.

    `leaf(step)` returns the function that runs a numbered step, and `predicate(node)` returns the
    function that reads a node's predicate.
    """
    if node.step >= 0:
        return leaf(node.step)
    parts = [build(child, leaf, predicate) for child in node.children]
    if node.predicate is None:
        return _repeat(node.count, parts)
    decide = predicate(node)
    if node.kind == "Switch":
        return _switch(node, decide, parts)
    if node.kind == "If":
        return lambda: parts[not decide()]()
    return _while(decide, node.kind == "RepeatWhileTrue", *parts)


def single(memory: Memory, tensor: Tensor, kind: str) -> PredicateReader:
    """Return a function that reads a tensor of one element as an integer.

    In a replicated graph, the tensor has one element per replica. If these elements would have
    different effects on a program of the type `kind`, the function raises
    `ApplicationRuntimeError`.
    """
    if tensor.num_elements > 1:

        def read() -> int:
            values = memory.read(tensor)
            refuse_unequal(values, tensor, kind, values if kind == "Switch" else values != 0)
            return int(values.flat[0])

        return read
    flat = memory.flat(tensor.dtype)
    position = int(tensor.positions().reshape(-1)[0])
    return lambda: int(flat[position])


def refuse_unequal(values: Array, tensor: Tensor, reader: str, compared: Array) -> None:
    """Raise `ApplicationRuntimeError` if the replicas' rows of `compared` differ in any bit.

    The first axis of `compared` numbers the replicas. `values` are the values of `tensor`, and
    `reader` is the name of the program that reads them.
    """
    value_rows, bits = (value_array.reshape(len(values), -1) for value_array in (values, compared))
    bits = bits.view(f"u{bits.itemsize}")
    differing = np.argwhere(bits != bits[:1])
    if len(differing):
        replica, element = differing[0].tolist()
        element_text = "it" if value_rows.shape[1] == 1 else f"element {element:,}"
        raise ApplicationRuntimeError(f"""{reader} reads {tensor.graph.describe(tensor)}, which
            differs between replicas: {element_text} is {value_rows[0, element]} in replica 0 and
            {value_rows[replica, element]} in replica {replica}.
            next:  give all replicas the same value, as gcl.all_reduce_cross_replica does.""")


def _repeat(count: int, actions: list[Action]) -> Action:
    """Return a function that runs all `actions` in order, `count` times.

    `count` is 1 for a Sequence.
    """

    def run() -> None:
        for _ in range(count):
            for action in actions:
                action()

    return run


def _while(predicate: PredicateReader, wanted: bool, condition: Action, body: Action) -> Action:
    """Return a function that runs `body` again and again while the predicate equals `wanted`."""

    def run() -> None:
        condition()
        while bool(predicate()) is wanted:
            body()
            condition()

    return run


def _switch(node: Node, control: PredicateReader, actions: list[Action]) -> Action:
    """Return a function that reads a number with `control`, and runs the case with this number.

    If there is no case with this number, the function runs the default case. If there is no default
    either, it raises `ApplicationRuntimeError` if `node.checked` is true, and otherwise does
    nothing.
    """
    cases = dict(zip(node.cases, actions, strict=False))
    default = actions[-1]

    def run() -> None:
        case = control()
        if case not in cases and node.checked:
            raise ApplicationRuntimeError(f"""A Switch read the number {case}, but has no case
                for it.
                where: its cases are {sorted(cases)}
                next:  add the case, or use a Switch with a default.""")
        cases.get(case, default)()

    return run
