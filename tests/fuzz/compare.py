"""Run the lines of a program on the judge and on every way of the engine, and say where they
differ."""

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
# as batched, with loops over elements compiled from the start: some seconds for each codelet, once
COMPILED = "compiled"


class Outcome(NamedTuple):
    """The error that stopped a run, "" if none; values by name, what came from streams, bytes that
    tiles received, cycles."""

    error: str
    values: dict[str, Any] = {}
    drains: dict[str, list[Any]] = {}
    received: list[dict[int, int]] = []
    cycles: list[Any] = []


def built(lines: list[str]) -> dict[str, Any]:
    """What the lines build. Raises what they raise."""
    names = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__} | vars(programs) | NAMES
    names |= {"Random": Random, "random_values": random_values, "np": np}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own, of a program that is spoiled
        exec("\n".join(lines), names)
    return names


def stopped(run: Callable[[], Outcome]) -> Outcome:
    """What a run gives, or the error that stopped it: the kit's by name, any other with its
    text."""
    try:
        return run()
    except IPUTeachError as error:
        return Outcome("CodeletError" if isinstance(error, CodeletError) else type(error).__name__)
    except Exception as error:
        return Outcome(f"{type(error).__name__}: {error}")


def escaped(error: Exception) -> bool:
    """True if something in the kit raised `error`, which is not the kit's own."""
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
    """Let loops over elements run in the way that has this name, where it is one of theirs."""
    with scalar_run.chosen(way if way in ("python", COMPILED) else scalar_run.CHOSEN.get()):
        yield


def ran_by(way: str, names: dict[str, Any], executable: Executable) -> Outcome:
    """`ran`, in one of `WAYS` or `COMPILED`."""
    with chosen(way):
        return ran(names, executable, WAYS.get(way, {}))


def tensors(names: dict[str, Any]) -> list[tuple[str, Tensor]]:
    return [
        (name, value)
        for name, value in names.items()
        if name[0] == "t" and isinstance(value, Tensor)
    ]


class Wrong(NamedTuple):
    """What is not as the judge says: `kind` in a few words without figures, and all of it."""

    kind: str
    text: str


def difference(lines: list[str], *ways: str, spoiled: bool = False) -> tuple[str, Wrong | None]:
    """(how the program ended, what is wrong with it if anything). Raises what building it raises.

    Of a `spoiled` program only this is wrong: that what is not the kit's own leaves it, and that
    its ways differ.
    """
    try:
        names = built(lines)
        for name in ("device", "graph", "program", "feeds"):
            names[name]  # a KeyError, where a line is missing
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
    """What is wrong with an error, if it is not the kit's own and came from there."""
    return (
        Wrong(f"{type(error).__name__} leaves the kit", "".join(traceback.format_exception(error)))
        if escaped(error)
        else None
    )


def _refused(error: Exception, spoiled: bool) -> tuple[str, Wrong | None]:
    """A program that cannot be built or compiled. Raises the error, if it is as it should be and
    the program is not spoiled."""
    wrong = leaving(error)
    if wrong is None and not spoiled:
        raise error
    return type(error).__name__, wrong


def _difference(right: Outcome, came: Outcome) -> Wrong | None:
    if ":" in came.error:
        return Wrong(f"{came.error.partition(':')[0]} leaves the kit", came.error)
    # What a codelet raises comes to the judge as it is, and from the kit as CodeletError.
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
