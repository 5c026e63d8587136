"""`counted_loop` and `counted_for_loop`: loops with a counter that the body can read."""

from __future__ import annotations

from collections.abc import Callable

from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.library import OWN, as_given, check_name, library, refused
from ipu_teach.poplibs.popops.elementwise import add_in_place, gt, lt
from ipu_teach.poplibs.popops.fills import fill
from ipu_teach.program import Program, Repeat, RepeatWhileTrue, Sequence as Steps
from ipu_teach.types import INT, UNSIGNED_INT

__all__ = ["counted_for_loop", "counted_loop"]

Body = Callable[[Tensor], Program]


@library
def counted_loop(
    graph: Graph, begin: int, end: int, step: int, body: Body, debug_context: str = OWN
) -> Steps:
    """Return a program that runs `body(counter)` for the counter values of a range.

    As in Python's `range`, the values are begin, begin + step, and so on, without `end`. `counter`
    is an INT of one element on tile 0, which the body may read but must not write. `body` is called
    once, immediately, and returns a program. Each iteration costs an addition on tile 0.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is wrong, or if the step is 0 or
        leads away from `end`.
    """
    check_name(debug_context)
    for name, argument in (("begin", begin), ("end", end), ("step", step)):
        if not is_whole(argument) or not -(2**31) <= int(argument) < 2**31:
            raise as_given(argument, name, "give a whole number from -2**31 to 2**31 - 1.")
    if step == 0 or (end - begin) * step < 0:
        raise refused(f"""was given begin={begin}, end={end} and step={step}.
            next:  give a step above 0 if end is above begin, and below 0 if end is below begin.""")
    if not callable(body):
        raise as_given(body, "body", "give a function of the counter that returns a program.")
    counter = graph.add_variable(INT, (), f"{debug_context}/counter")
    graph.set_tile_mapping(counter, 0)
    iteration = Steps(_body_program(body, counter))
    add_in_place(graph, counter, step, iteration, debug_context=f"{debug_context}/count")
    loop = Steps(name=debug_context)
    fill(graph, counter, loop, begin, debug_context=f"{debug_context}/begin")
    return loop.add(Repeat(-((begin - end) // step), iteration))


@library
def counted_for_loop(
    graph: Graph,
    counter: Tensor,
    begin: int,
    limit: Tensor,
    step: int,
    body: Program,
    debug_context: str = OWN,
) -> Steps:
    """Return a program that runs `body` for the values of `counter` from `begin` up to `limit`.

    The counter is increased by `step` after each iteration. The loop ends when the counter reaches
    or passes `limit`, without an iteration for `limit` itself; a negative `step` counts down.
    `counter` and `limit` are tensors of one element, both INT or both UNSIGNED_INT. The limit is
    read before every iteration, so the program may compute and change it.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    check_name(debug_context)
    for tensor in (counter, limit):
        if (
            tensor.num_elements != 1
            or tensor.dtype not in (INT, UNSIGNED_INT)
            or tensor.dtype is not counter.dtype
        ):
            raise refused(f"""needs tensors of one element as counter and limit, both INT or both
                UNSIGNED_INT.
                where: counter {counter!r} and limit {limit!r}
                next:  create both tensors with graph.add_variable(INT, ()).""")
    is_signed = counter.dtype is INT
    for name, argument in (("begin", begin), ("step", step)):
        is_valid = is_whole(argument) and (
            -(2**31) <= int(argument) < 2**31 if is_signed else 0 <= int(argument) < 2**32
        )
        if not is_valid or (name == "step" and argument == 0):
            raise as_given(
                argument,
                name,
                f"give a whole number in the range of {counter.dtype.__name__}; step must not be "
                "0.",
            )
    if not isinstance(body, Program):
        raise as_given(body, "body", "give a program, such as a Sequence.")
    counter_scalar = counter.reshape(())
    limit_scalar = limit.reshape(())
    condition = Steps()
    iteration = Steps(body)
    loop = Steps(name=debug_context)
    compare = lt if step > 0 else gt
    continues = compare(
        graph, counter_scalar, limit_scalar, condition, debug_context=f"{debug_context}/test"
    )
    add_in_place(graph, counter_scalar, step, iteration, debug_context=f"{debug_context}/count")
    fill(graph, counter_scalar, loop, begin, debug_context=f"{debug_context}/begin")
    return loop.add(RepeatWhileTrue(condition, continues, iteration))


def _body_program(body: Body, counter: Tensor) -> Program:
    steps = body(counter)
    if not isinstance(steps, Program):
        raise PoplibsError(f"""The body of counted_loop() returned {shown(steps)}.
            next:  return a program, such as a Sequence.""")
    return steps
