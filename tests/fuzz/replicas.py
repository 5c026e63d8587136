"""Compare a replicated random program with as many runs of one replica.

Each replica has its own values and feeds. At the end, they exchange values.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from itertools import count, cycle
from random import Random
from typing import Any

import numpy as np
from engine_parts import peek
from graphs import differences, random_values

from fuzz.compare import WAYS, Outcome, Wrong, built, escaped, leaving, stopped, tensors
from fuzz.writer import Writer
from ipu_teach import Engine
from ipu_teach.types import Array

MACHINE = re.compile(r"num_ipus=(\d+)")
INTO = re.compile(r"(add_host_to_device_fifo\([^()]*)\)")


def program(seed: int) -> list[str]:
    """Return the lines of a program with `COUNT` replicas; `alone` makes it one replica."""
    rng, lines = Random(f"replicas {seed}"), Writer(seed).lines
    replicas = rng.choice([2, 2, 3, 5])
    lines[0] = MACHINE.sub(r"num_ipus=\1 * COUNT", lines[0])
    lines[1] = "graph = Graph(device, COUNT)"
    to = list(range(replicas))
    rng.shuffle(to)
    lines = [f"COUNT = {replicas}", f"MOVES = {dict(enumerate(to))}", *lines]
    for i, line in enumerate(lines):
        if rng.random() < 0.3:
            lines[i] = INTO.sub(r"\1, ReplicatedStreamMode.BROADCAST)", line)
    name = rng.choice([line.split()[0] for line in lines if re.match(r"t\d+ = graph.add", line)])
    lines.append(f"t0 = graph.clone({name}, 't0')")
    lines.append(f"program.add(CrossReplicaCopy({name}, t0, MOVES))")
    return lines


def alone(lines: list[str]) -> list[str]:
    """Return the same program for one replica."""
    return ["COUNT = 1", "MOVES = {0: 0}", *lines[2:]]


def difference(lines: list[str], seed: int, *, merge: bool, way: str) -> tuple[str, Wrong | None]:
    """Return how the program ended, and what is wrong with it, if anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = built(lines)
        replicas = range(names["COUNT"])
        given = dict(_given(names, seed))
        how = {"merge_copies": merge, **WAYS[way]}
        try:
            came = stopped(lambda: _ran(names, _engine(names, given, how), given, None))
            one = built(alone(lines))
            right = [stopped(lambda: _engine(one, given, how))]
            if isinstance(right[0], Engine):
                right = [stopped(lambda r=r: _ran(one, right[0], given, r)) for r in replicas]
        except Exception as error:
            if escaped(error):
                return type(error).__name__, leaving(error)
            raise
    if ":" in came.error:
        return came.error, Wrong("leaves the kit", came.error)
    errors = {each.error for each in right}
    if came.error not in errors or (not came.error and errors != {""}):
        return came.error, Wrong("errors", f"{came.error!r} and alone {sorted(errors)}")
    if came.error:
        return came.error, None
    values = {name: np.stack([each.values[name] for each in right]) for name in came.values}
    values["t0"] = values["t0"][np.argsort([names["MOVES"][r] for r in replicas])]
    for name in differences(came.values, values):
        text = f"{name}: {came.values[name].tolist()}, alone {values[name].tolist()}"
        return "", Wrong("values", text)
    for handle, received in came.drains.items():
        parts = [np.array(each.drains[handle]) for each in right]
        expected = np.stack(parts, axis=1) if parts[0].size else parts[0]
        if differences({handle: np.array(received)}, {handle: expected}):
            return "", Wrong("streams", f"{handle}: {received}, alone {expected.tolist()}")
    if merge:  # in one replica, the last exchange merges with other copies
        return "", None
    tiles = names["graph"].target.num_tiles
    for step, moved in enumerate(came.received[:-1]):  # in the last step, replicas exchange values
        expected = np.concatenate([each.received[step] for each in right])
        if not np.array_equal(moved, expected) or len(moved) != tiles * len(right):
            return "", Wrong("bytes", f"step {step}: {moved}, alone {expected}")
    if any(len(each.received) != len(came.received) for each in right):
        return "", Wrong("steps", f"{len(came.received)} steps, {len(right[0].received)} alone")
    return "", None


def _given(names: dict[str, Any], seed: int) -> Iterator[tuple[str, Array]]:
    """Yield what the host writes to each replica in place of some initial values.

    The other variables stay unwritten.
    """
    rng, graph = Random(seed), names["graph"]
    first = {tensor.offset for tensor, _ in graph.initial_values}
    for name, tensor in tensors(names):
        if tensor.offset in first and name != "t0" and rng.random() < 0.7:
            shape = (names["COUNT"], *tensor.shape)
            yield name, random_values(Random(seed), tensor.dtype, shape)


def _engine(names: dict[str, Any], given: dict[str, Array], how: dict[str, Any]) -> Any:
    for name, tensor in tensors(names):
        names["graph"].create_host_read(name, tensor)
    for name in given:
        names["graph"].create_host_write(f"to {name}", names[name])
    return Engine(names["graph"], names["program"], strict={"estimates": False}, **how)


def _ran(
    names: dict[str, Any], engine: Engine, given: dict[str, Array], replica: int | None
) -> Outcome:
    """Return the outcome of all replicas, or of one alone."""
    graph, feeds, drains = names["graph"], names["feeds"], {}
    engine.load(names["device"])
    for name, values in given.items():
        engine.write_tensor(f"to {name}", values if replica is None else values[replica])
    replicas = list(range(names["COUNT"])) if replica is None else [replica]
    for handle, stream in graph.streams.items():
        if not stream.to_device:
            drains[handle] = []
            engine.connect_stream(handle, drains[handle])
        elif stream.mode.value == "BROADCAST":
            engine.connect_stream(handle, map(feeds[handle].__getitem__, cycle(range(3))))
        else:
            parts = (np.stack([feeds[handle][(k + r) % 3] for r in replicas]) for k in count())
            engine.connect_stream(handle, parts)
    engine.run()
    report = engine.report
    costs = [report.step_cost(number) for number in report.step_numbers.tolist()]
    moved = [np.sum([t.received for t in cost.exchange], axis=0) for cost in costs]
    zero = np.zeros(graph.target.num_tiles * len(replicas), np.int64)
    values = {name: peek(engine, name) for name, _ in tensors(names)}
    return Outcome("", values, drains, [zero + each for each in moved])
