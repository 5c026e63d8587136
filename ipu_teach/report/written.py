"""A report written down: JSON for what has names, columns of numbers for what there is by tile, step or message.

`stored` reads it back. Columns take the smallest whole numbers that hold them, equal ones are stored once, and one that is
the same number throughout is stored as that number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from ipu_teach.archive import MOST_NODES, Format
from ipu_teach.cost import StepCost
from ipu_teach.cost.exchange import Traffic
from ipu_teach.cost.memory import CATEGORIES, MemoryLedger
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import NotOfferedError, ReportLoadError, ReportNotFoundError
from ipu_teach.report.log import Ran
from ipu_teach.report.profile import Profile
from ipu_teach.report.query import live_runs
from ipu_teach.types import Array

REPORT = Format("report", 2, "Report.save", ReportLoadError, ReportNotFoundError)
TRAFFIC = tuple(f.name for f in fields(Traffic))
MOST_CELLS = 2**28  # places of the programs times tiles or variables: what a laptop can still sum up
MOST_NUMBERS = 2**27  # in the columns of a report, all together: 1 GB
MOST_MESSAGES = 2**22  # of one exchange
COLUMNS: dict[str, np.dtype[Any]] = {
    "u1": np.dtype(np.uint8),
    "u2": np.dtype(np.uint16),
    "u4": np.dtype(np.uint32),
    "i8": np.dtype(np.int64),
}


def serialize(profile: Profile, ran: Ran, besides: Mapping[str, Any]) -> bytes:
    """The file of a report. `besides`: what belongs to no digest, such as the host's events. Raises `NotOfferedError`."""
    writer = _Writer(profile, ran)
    header = writer.facts()
    header["notes"] = writer.notes()
    header["transfers"] = writer.transfers()
    return REPORT.pack({**header, **besides}, writer.columns.arrays())


def digest(profile: Profile, ran: Ran) -> str:
    """64 hexadecimal digits that say what was compiled, what it costs and what ran; no time, path or line goes into it."""
    writer = _Writer(profile, ran)
    found = hashlib.sha256(json.dumps(writer.facts(), sort_keys=True, allow_nan=False).encode())
    for name, array in writer.columns.arrays().items():
        found.update(name.encode())
        found.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return found.hexdigest()


class Columns:
    """Arrays of numbers end to end, by the size of their numbers. `add` returns where one lies: (kind, place, length)."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Array]] = {kind: [] for kind in COLUMNS}
        self._size = dict.fromkeys(COLUMNS, 0)
        self._known: dict[tuple[str, bytes], int] = {}

    def add(self, values: Iterable[Any]) -> list[Any]:
        array = np.asarray(values).reshape(-1)
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if low == high:
            return ["=", low, array.size]
        kind = next(k for k, dtype in COLUMNS.items() if low >= np.iinfo(dtype).min and high <= np.iinfo(dtype).max)
        narrow = np.ascontiguousarray(array, COLUMNS[kind])
        key = (kind, hashlib.sha256(narrow.tobytes()).digest())
        if key not in self._known:
            self._known[key] = self._size[kind]
            self._parts[kind].append(narrow)
            self._size[kind] += array.size
        return [kind, self._known[key], array.size]

    def arrays(self) -> dict[str, Array]:
        """One array for each kind."""
        return {k: np.concatenate([np.zeros(0, COLUMNS[k]), *parts]) for k, parts in self._parts.items()}


class _Writer:
    def __init__(self, profile: Profile, ran: Ran) -> None:
        self.profile, self.ran = profile, ran
        self.columns = Columns()
        self.nodes: list[list[Any]] = []

    def facts(self) -> dict[str, Any]:
        """All that a digest covers."""
        profile, ran, add = self.profile, self.ran, self.columns.add
        live, tiles = profile.memory.liveness.live, profile.target.num_tiles
        if max(len(profile.steps) * tiles, len(live) * tiles, live.size) > MOST_CELLS:
            raise NotOfferedError(f"""Saving a report of {len(profile.steps):,} compiled steps, {profile.target.num_tiles:,}
                tiles and {len(profile.variables):,} variables is not offered by this kit.
                next:  save one of a smaller machine.""")
        target = asdict(profile.target)
        return {
            "target": {"version": target.pop("ipu_version"), "fields": target},
            "variables": [
                [v.name for v in profile.variables],
                [v.dtype for v in profile.variables],
                [list(v.shape) for v in profile.variables],
                add([CATEGORIES.index(v.category) for v in profile.variables]),
            ],
            "codelets": [[c.name, c.context, [list(f) for f in c.fields]] for c in profile.codelets],
            "compute_sets": [
                [c.name, [[p.codelet, p.vertices, p.flops, [list(t) for t in p.tiles]] for p in c.parts]]
                for c in profile.compute_sets
            ],
            "steps": [[s.compute_set, s.sync, s.to_device] for s in profile.steps],
            "costs": [self._cost(number) for number in range(len(profile.steps))],
            "programs": self._programs(),
            "nodes": self.nodes,
            "edges": profile.edges,
            "memory": self._memory(profile.memory),
            "run": {
                "order": add(ran.order),
                "counts": add(ran.counts),
                "runs": [[r.program, r.name, r.first, r.last] for r in ran.runs],
                "unrecorded": ran.unrecorded,
                "runs_left_out": ran.runs_left_out,
            },
        }

    def _cost(self, number: int) -> dict[str, Any]:
        cost: StepCost = self.profile.cost(number)
        add = self.columns.add
        return {
            "kind": cost.kind,
            "name": cost.name,
            "sync": cost.sync_cycles,
            "exchange": [{name: add(getattr(t, name)) for name in TRAFFIC} for t in cost.exchange],
            "exchange_cycles": add(cost.exchange_cycles),
            "exchange_duration": cost.exchange_duration,
            "global": cost.global_exchange_cycles,
            "compute": add(cost.compute_cycles),
            "active": add(cost.active_cycles),
            "host": cost.host_cycles,
            "host_bytes": cost.host_bytes,
            "unknown": list(cost.unknown),
            "codelets": self.profile.codelet_cycles(number),
        }

    def _programs(self) -> list[int]:
        """The numbers of the programs in `nodes`, where equal ones stand once and children come first."""
        numbers: dict[Any, int] = {}
        roots = []
        parts = 0
        for program in self.profile.programs:
            order = [node for _, node in program.walk()]
            parts += len(order)
            if parts > MOST_NODES:
                raise NotOfferedError(f"""Saving a report of a program of more than {MOST_NODES:,} parts is not offered by this
                    kit.
                    next:  use Repeat for what runs often.""")
            found: dict[int, int] = {}
            for node in reversed(order):
                children = [found[id(child)] for child in node.children]
                entry = [node.kind, node.name, node.step, node.count, node.predicate, list(node.cases), children]
                key = json.dumps(entry)
                if key not in numbers:
                    numbers[key] = len(self.nodes)
                    self.nodes.append(entry)
                found[id(node)] = numbers[key]
            roots.append(found[id(program)])
        return roots

    def _memory(self, memory: MemoryLedger) -> dict[str, Any]:
        add, live = self.columns.add, memory.liveness.live
        passing: dict[int, dict[str, Any]] = {}
        for node, here in zip(memory.liveness.places, memory.passing, strict=True):
            if node.step not in passing:
                passing[node.step] = {category: add(array) for category, array in here.items()}
        return {
            "tile": add(memory.tile),
            "variable": add(memory.variable),
            "size": add(memory.size),
            "always": {category: add(array) for category, array in memory.always.items()},
            "passing": [[step, passing[step]] for step in sorted(passing)],
            "always_live": add(memory.liveness.always.astype(np.uint8)),
            "live": [add(part) for part in live_runs(live)],
        }

    def notes(self) -> dict[str, Any]:
        """Lines and texts, which may differ from machine to machine."""
        profile = self.profile
        texts: dict[str, int] = {}

        def number(text: str) -> int:
            return texts.setdefault(text, len(texts))

        return {
            "variables": self.columns.add([number(v.line) for v in profile.variables]),
            "steps": [number(s.line) for s in profile.steps],
            "parts": [[number(p.line) for p in c.parts] for c in profile.compute_sets],
            "unbatched": [c.unbatched for c in profile.codelets],
            "ways": [c.way for c in profile.codelets],
            "sources": [[list(source) for source in c.sources] for c in profile.codelets],
            "texts": list(texts),
        }

    def transfers(self) -> list[Any]:
        """The messages of every exchange of every step."""
        return [[self._messages(t) for t in self.profile.transfers(number)] for number in range(len(self.profile.steps))]

    def _messages(self, transfers: Transfers) -> list[Any]:
        if len(transfers) > MOST_MESSAGES:
            raise NotOfferedError(f"""Saving a report with an exchange of {len(transfers):,} messages is not offered by this
                kit.
                next:  save one of a smaller machine.""")
        add, to = self.columns.add, transfers.receivers
        receivers = np.concatenate([np.zeros(0, np.int64), *to])
        return [add(transfers.source), add(transfers.size), add([len(t) for t in to]), add(receivers)]
