"""Run the lines of a program on the judge and on every path of the engine, and compare."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import graphs
import numpy as np
from engine_parts import peek
from graphs import differences, random_values
from judge import Judge

import ipu_teach
from fuzz.costs import laws
from fuzz.pool import NAMES
from ipu_teach import Engine, Executable, Tensor, compile_graph, program as programs
from ipu_teach.engine.scalar import run as scalar_run
from ipu_teach.errors import CodeletError, IPUTeachError

KIT = Path(ipu_teach.__file__).parent
WAYS: dict[str, dict[str, Any]] = {
    "batched": {},
    "vertex_loop": {"vertex_loop": True},
    "shuffled": {"shuffle": 5},
    "threads": {"threads": 3},
}
# As "batched", with loops over elements compiled from the start. This takes seconds per codelet, once.
COMPILED = "compiled"


class Outcome(NamedTuple):
    """The end of a run: the error that stopped it ("" if none), values by name, and more.

    These are the arrays that came from streams, the bytes that tiles received, and the cycles.
    """

    error: str
    values: dict[str, Any] = {}
    drains: dict[str, list[Any]] = {}
    received: list[dict[int, int]] = []
    cycles: list[Any] = []


def built(lines: list[str]) -> dict[str, Any]:
    """Return the names that the lines define. Raise the errors that they raise."""
    names = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__} | vars(programs) | NAMES
    names |= {"Random": Random, "random_values": random_values, "np": np}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of Python about a spoiled program
        exec("\n".join(lines), names)
    return names


def stopped(run: Callable[[], Outcome]) -> Outcome:
    """Return the outcome of `run`, or that of the error that stopped it.

    Errors of the kit are given by name, all others with their message.
    """
    try:
        return run()
    except IPUTeachError as error:
        return Outcome("CodeletError" if isinstance(error, CodeletError) else type(error).__name__)
    except Exception as error:
        return Outcome(f"{type(error).__name__}: {error}")


def escaped(error: Exception) -> bool:
    """Return whether code of the kit raised `error`, although it is not an error of the kit."""
    frames = [] if isinstance(error, IPUTeachError) else traceback.extract_tb(error.__traceback__)
    return any(Path(frame.filename).is_relative_to(KIT) for frame in frames)


def judged(names: dict[str, Any]) -> Outcome:
    judge = Judge(
        names["graph"], {handle: cycle(arrays) for handle, arrays in names["feeds"].items()}
    )
    judge.run(names["program"])
    values = {name: judge.read(tensor) for name, tensor in tensors(names)}
    return Outcome("", values, judge.drains, [received for _, received in judge.steps])


def ran(names: dict[str, Any], executable: Executable, how: dict[str, Any]) -> Outcome:
    graph, drains = names["graph"], {}
    engine = Engine(executable, **how)
    engine.load(names["device"])
    for handle, stream in graph.streams.items():
        if stream.to_device:
            engine.connect_stream(handle, cycle(names["feeds"][handle]))
        else:
            drains[handle] = received = []
            engine.connect_stream(
                handle, lambda array, received=received: received.append(array.copy())
            )
    engine.run()
    report = engine.report
    if not how and (broken := next(laws(report), None)):
        raise AssertionError(broken)
    costs = [report.step_cost(number) for number in report.step_numbers.tolist()]
    moved = [
        np.add.reduce([t.received for t in cost.exchange]).tolist()
        for cost in costs
        if cost.exchange and not cost.host_bytes
    ]
    values = {name: peek(engine, name) for name, _ in tensors(names)}
    kept = {handle: arrays for handle, arrays in drains.items() if arrays}
    return Outcome(
        "",
        values,
        kept,
        [{t: n for t, n in enumerate(step) if n} for step in moved],
        [c.cycles for c in costs],
    )


@contextmanager
def chosen(way: str) -> Iterator[None]:
    """Let loops over elements run as `way` says, if it is one of their ways."""
    with scalar_run.chosen(way if way in ("python", COMPILED) else scalar_run.CHOSEN.get()):
        yield


def ran_by(way: str, names: dict[str, Any], executable: Executable) -> Outcome:
    """Return the outcome of `ran`, in one of `WAYS` or `COMPILED`."""
    with chosen(way):
        return ran(names, executable, WAYS.get(way, {}))


def tensors(names: dict[str, Any]) -> list[tuple[str, Tensor]]:
    return [
        (name, value)
        for name, value in names.items()
        if name[0] == "t" and isinstance(value, Tensor)
    ]


class Wrong(NamedTuple):
    """A difference from the judge: `kind` in a few words without numbers, and the full text."""

    kind: str
    text: str


def difference(lines: list[str], *ways: str, spoiled: bool = False) -> tuple[str, Wrong | None]:
    """Return how the program ended, and what is wrong with it, if anything.

    Building it may raise an error. A `spoiled` program must end with an error of the kit, the
    same on all paths; nothing else of it is compared.
    """
    try:
        names = built(lines)
        for name in ("device", "graph", "program", "feeds"):
            names[name]  # raises a KeyError if a line is missing
        for name, tensor in tensors(names):
            names["graph"].create_host_read(name, tensor)
    except Exception as error:
        return _refused(error, spoiled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = stopped(lambda: judged(names))
        try:
            executable, merged = (
                compile_graph(
                    names["graph"],
                    names["program"],
                    strict={"estimates": False},
                    merge_copies=merge,
                )
                for merge in (False, True)
            )
        except Exception as error:
            if spoiled or escaped(error):
                return _refused(error, spoiled)
            found = {
                "compiling": Outcome(
                    "CodeletError" if isinstance(error, CodeletError) else type(error).__name__
                )
            }
        else:
            found = {way: stopped(lambda way=way: ran_by(way, names, executable)) for way in ways}
            # What copies bring together is counted once, so that of merged ones values alone are
            # compared.
            plain = next(iter(found.values()))
            came = stopped(lambda: ran(names, merged, {}))._replace(
                received=plain.received, cycles=plain.cycles
            )
            # What a copy brings ahead of a compute set it reads there, too: of two mistakes its own
            # is then told first.
            both = came.error == "UninitialisedReadError" and plain.error in (
                "ComputeSetRaceError",
                "CodeletError",
            )
            found["merged"] = came._replace(error=plain.error) if both else came
    first = next(iter(found.values()), right)
    for way, came in found.items():
        wrong = _difference(first if spoiled and (right.error or came.error) else right, came)
        if wrong is not None:
            return right.error, Wrong(f"{way}: {wrong.kind}", f"{way}: {wrong.text}")
    counted = {way: came.cycles for way, came in found.items() if not came.error}
    if any(cycles != next(iter(counted.values())) for cycles in counted.values()):
        return right.error, Wrong("cycles", f"cycles: {counted}")
    return first.error, None


def leaving(error: Exception) -> Wrong | None:
    """Return what is wrong with an error: that it left the kit, but is not one of its own."""
    return (
        Wrong(f"{type(error).__name__} leaves the kit", "".join(traceback.format_exception(error)))
        if escaped(error)
        else None
    )


def _refused(error: Exception, spoiled: bool) -> tuple[str, Wrong | None]:
    """Return how a program ends that cannot be built or compiled.

    Raise the error again if it is one of the kit's and the program is not spoiled.
    """
    wrong = leaving(error)
    if wrong is None and not spoiled:
        raise error
    return type(error).__name__, wrong


def _difference(right: Outcome, came: Outcome) -> Wrong | None:
    if ":" in came.error:
        return Wrong(f"{came.error.partition(':')[0]} leaves the kit", came.error)
    # The judge passes on the error of a codelet; the kit raises CodeletError instead.
    if right.error != came.error and not (":" in right.error and came.error == "CodeletError"):
        judged_for = right.error.partition(":")[0] or "nothing"
        kind = (
            f"stopped by {came.error.partition(':')[0] or 'nothing'}, and by the judge for "
            f"{judged_for}"
        )
        return Wrong(kind, f"{kind} ({came.error}; {right.error})")
    if right.error:
        return None
    for name in differences(came.values, right.values):
        return Wrong(
            "values",
            f"values of {name}: {came.values[name].tolist()}, and by the judge "
            f"{right.values[name].tolist()}",
        )
    if came.drains.keys() != right.drains.keys():
        return Wrong(
            "streams", f"streams: {list(came.drains)}, and by the judge {list(right.drains)}"
        )
    for handle, arrays in came.drains.items():
        expected = right.drains[handle]
        if len(arrays) != len(expected) or not all(map(graphs.same_bits, arrays, expected)):
            return Wrong("stream", f"stream {handle}: {arrays}, and by the judge {expected}")
    if came.received != right.received:
        return Wrong("bytes", f"bytes: {came.received}, and by the judge {right.received}")
    return None
