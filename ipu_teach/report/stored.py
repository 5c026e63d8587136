"""A report read from a file. Nothing in the file is trusted: every number is checked against what it points into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from ipu_teach.archive import MOST_NODES, Part, unpack
from ipu_teach.compile.programs import Node
from ipu_teach.cost import StepCost
from ipu_teach.cost.exchange import Traffic
from ipu_teach.cost.host import host_cycles
from ipu_teach.cost.liveness import Liveness
from ipu_teach.cost.memory import CATEGORIES, MemoryLedger
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidMachineModelError, IPUTeachError, ReportLoadError, shown
from ipu_teach.graph.layouts import MOST_DIMENSIONS
from ipu_teach.report.host_trace import HostTrace
from ipu_teach.report.log import MOST_RUNS, MOST_STEPS, ProgramRun, Ran
from ipu_teach.report.profile import (
    EXTERNAL,
    NO_SYNC,
    CodeletFacts,
    ComputeSetFacts,
    Profile,
    ProgramNode,
    StepFacts,
    VariableFacts,
    VertexFacts,
)
from ipu_teach.report.settings import InstrumentationSettings, PoplarVersion
from ipu_teach.report.written import COLUMNS, MOST_CELLS, MOST_MESSAGES, MOST_NUMBERS, REPORT, TRAFFIC
from ipu_teach.target import Target, make_target
from ipu_teach.types import Array

MOST = 2**56  # of any one number: sums of many stay numbers
# Fields of a machine that can change without the vertices at hand.
RATES = frozenset((
    "exchange_bytes_per_cycle", "shared_bus_speedup", "exchange_latency_cycles", "exchange_cycles_per_row", "exchange_rows",
    "relative_sync_delay", "min_ipu_sync_delay", "auto_sync_delay", "global_sync_cycles", "global_sync_seconds_per_hop",
    "host_bytes_per_second", "silicon_host_bytes_per_second", "link_bytes_per_cycle", "rail_bytes_per_cycle",
    "tile_clock_frequency", "memory_bytes_per_tile", "non_interleaved_bytes_per_tile",
))  # fmt: skip

T = TypeVar("T")


@dataclass(frozen=True)
class Read:
    """What a file holds, in the order in which a `Report` takes it. The first version had no settings and no `kit`."""

    profile: Profile
    ran: Ran
    host: HostTrace
    settings: InstrumentationSettings
    kit: PoplarVersion


def read(data: bytes) -> Read:
    """The report in a file. Raises `ReportLoadError`."""
    header, arrays = unpack(data, REPORT)
    try:
        reader, version = _Reader(header, arrays), header.whole("version", 1, REPORT.version)
        profile = reader.profile()
        return Read(
            profile,
            reader.ran(len(profile.steps), len(profile.programs)),
            HostTrace.read(header["host"], version),
            InstrumentationSettings.read(header["settings"]) if version > 1 else InstrumentationSettings(),
            PoplarVersion(header.text("kit") if version > 1 else "0.0.0"),
        )
    except ReportLoadError:
        raise
    except IPUTeachError as error:
        raise ReportLoadError(f"The report is damaged: {error.tried}", where=error.where, next_step="save it again.") from error
    except Exception as error:  # what slipped through the checks is damage too
        raise ReportLoadError(f"""The report is damaged: {type(error).__name__}: {shown(str(error))}.
            next:  save it again.""") from error


class StoredProfile(Profile):
    """What a file says of a compiled program."""

    def __init__(
        self,
        target: Target,
        facts: dict[str, Any],
        costs: tuple[StepCost, ...],
        cycles: tuple[dict[str, int], ...],
        messages: tuple[tuple[tuple[Array, ...], ...], ...],
        memory: MemoryLedger,
    ) -> None:
        self.target = target
        self._facts, self._costs, self._cycles, self._messages, self._memory = facts, costs, cycles, messages, memory

    @property
    def variables(self) -> tuple[VariableFacts, ...]:
        return self._facts["variables"]  # type: ignore[no-any-return]

    @property
    def codelets(self) -> tuple[CodeletFacts, ...]:
        return self._facts["codelets"]  # type: ignore[no-any-return]

    @property
    def compute_sets(self) -> tuple[ComputeSetFacts, ...]:
        return self._facts["compute_sets"]  # type: ignore[no-any-return]

    @property
    def steps(self) -> tuple[StepFacts, ...]:
        return self._facts["steps"]  # type: ignore[no-any-return]

    @property
    def programs(self) -> tuple[ProgramNode, ...]:
        return self._facts["programs"]  # type: ignore[no-any-return]

    @property
    def edges(self) -> int:
        return self._facts["edges"]  # type: ignore[no-any-return]

    @property
    def memory(self) -> MemoryLedger:
        return self._memory

    def cost(self, number: int) -> StepCost:
        return self._costs[number]

    def codelet_cycles(self, number: int) -> dict[str, int]:
        return self._cycles[number]

    def transfers(self, number: int) -> tuple[Transfers, ...]:
        return tuple(
            Transfers(source, size, tuple(np.split(to, np.cumsum(count)[:-1])) if len(count) else ())
            for source, size, count, to in self._messages[number]
        )

    def at(self, target: Target) -> Profile:
        for field in fields(Target):
            if field.name not in RATES and getattr(target, field.name) != getattr(self.target, field.name):
                raise InvalidMachineModelError(f"""what_if() cannot change {field.name} in a report that was read from a file:
                    the vertices are not in it.
                    next:  ask the report of the engine that ran it; a file answers for the rates of exchange, sync, host and
                    clock.""")
        costs = tuple(_recosted(cost, step.sync, target) for cost, step in zip(self._costs, self.steps, strict=True))
        memory = replace(self._memory, target=target)
        return StoredProfile(target, self._facts, costs, self._cycles, self._messages, memory)


def _recosted(cost: StepCost, sync: int, target: Target) -> StepCost:
    """The same step with its exchanges, sync and host's transfer at the rates of `target`."""
    per_tile = [t.tile_cycles(target) for t in cost.exchange]
    external = target.external_sync_cycles if sync == EXTERNAL else 0
    return replace(
        cost,
        sync_cycles=0 if sync == NO_SYNC else target.internal_sync_cycles + external,
        exchange_cycles=np.sum(per_tile, axis=0) if per_tile else cost.exchange_cycles,
        exchange_duration=sum(int(c.max(initial=0)) for c in per_tile),
        global_exchange_cycles=sum(t.link_cycles(target) for t in cost.exchange),
        host_cycles=host_cycles(cost.host_bytes, target),
    )


class _Reader:
    def __init__(self, header: Part, arrays: dict[str, Array]) -> None:
        self.header = header
        self.arrays = {kind: arrays[kind] for kind in COLUMNS if kind in arrays}
        for kind, array in self.arrays.items():
            if array.dtype != COLUMNS[kind]:
                header.fail(f"beside {kind}.npy of {COLUMNS[kind]}")
        target = header["target"]
        self.target = make_target(target.text("version"), **{name: p.value for name, p in target.entries("fields")})
        self.tiles = self.target.num_tiles
        self._made: dict[tuple[str, int, int], Array] = {}
        self._numbers_left = MOST_NUMBERS

    def column(self, part: Part, key: str | int, count: int | None, least: int = 0, most: int = MOST) -> Array:
        """int64[count], each number from `least` to `most`: a column of the file. Any number of them if `count` is None."""
        place = part[key]
        kind, length = place.text(0), place.whole(2, 0, MOST_NUMBERS)
        if count is not None and length != count:
            place.fail(f"a column of {count:,} numbers")
        if kind == "=":
            if count is None:
                self._charge(place, length)
            return np.broadcast_to(np.int64(place.whole(1, least, most)), (length,))
        stored = self.arrays.get(kind)
        if stored is None:
            place.fail("a column of this file")
        start = place.whole(1, 0, len(stored))
        if start + length > len(stored):
            place.fail("a column that ends within the file")
        place_in_file = (kind, start, length)
        if place_in_file not in self._made:
            self._charge(place, length)
            self._made[place_in_file] = stored[start : start + length].astype(np.int64)
            self._made[place_in_file].flags.writeable = False
        found = self._made[place_in_file]
        if length and (int(found.min()) < least or int(found.max()) > most):
            place.fail(f"a column of numbers from {least:,} to {most:,}")
        return found

    def _charge(self, place: Part, length: int) -> None:
        """Columns may overlap in the file, so that it could ask for more numbers than it holds."""
        self._numbers_left -= length
        if self._numbers_left < 0:
            place.fail(f"one of the first {MOST_NUMBERS:,} numbers of a report")

    def listed(self, part: Part, key: str | int, make: Callable[[Part], T]) -> tuple[T, ...]:
        """The entries of a list, each made into something."""
        inner = part[key]
        if not isinstance(inner.value, list):
            inner.fail("a list")
        return tuple(make(inner[i]) for i in range(len(inner.value)))

    def profile(self) -> StoredProfile:
        header = self.header
        notes = header["notes"]
        texts = self.listed(notes, "texts", _text)
        facts: dict[str, Any] = {"variables": self._variables(texts), "codelets": self._codelets()}
        facts["compute_sets"] = self._compute_sets(texts, len(facts["codelets"]))
        facts["steps"] = self._steps(texts, len(facts["compute_sets"]))
        count = len(facts["steps"])
        if count * self.tiles > MOST_CELLS:
            header["steps"].fail(f"a list of at most {MOST_CELLS // self.tiles:,} steps")
        facts["programs"] = self._programs(count)
        facts["edges"] = header.whole("edges", 0, MOST)
        costs = self.listed(header, "costs", self._cost)
        cycles = self.listed(header, "costs", lambda p: {name: p["codelets"].whole(name, 0, MOST)
                                                         for name, _ in p.entries("codelets")})  # fmt: skip
        messages = self.listed(header, "transfers", self._messages)
        known = {codelet.name for codelet in facts["codelets"]}
        if any(not known >= {*named, *cost.unknown} for named, cost in zip(cycles, costs, strict=True)):
            header["costs"].fail("a list of costs of the codelets")
        if len(costs) != count or [len(m) for m in messages] != [len(c.exchange) for c in costs]:
            header["costs"].fail(f"the costs of {count:,} steps and their exchanges")
        memory = self._memory(facts["variables"], facts["programs"], count)
        return StoredProfile(self.target, facts, costs, cycles, messages, memory)

    def _variables(self, texts: tuple[str, ...]) -> tuple[VariableFacts, ...]:
        part, lines = self.header["variables"], self.header["notes"]
        names, dtypes = self.listed(part, 0, _text), self.listed(part, 1, _text)
        shapes = self.listed(part, 2, lambda p: _numbers(p, MOST, MOST_DIMENSIONS))
        category = self.column(part, 3, len(names), 0, len(CATEGORIES) - 1).tolist()
        line = self.column(lines, "variables", len(names), 0, len(texts) - 1).tolist()
        if not len(names) == len(dtypes) == len(shapes):
            part.fail("a table of variables")
        rows = zip(names, dtypes, shapes, category, line, strict=True)
        return tuple(VariableFacts(n, d, s, CATEGORIES[c], texts[i]) for n, d, s, c, i in rows)

    def _codelets(self) -> tuple[CodeletFacts, ...]:
        header, notes = self.header, self.header["notes"]
        reasons, ways = self.listed(notes, "unbatched", _text), self.listed(notes, "ways", _text)
        sources = self.listed(notes, "sources", _pairs)
        made = self.listed(
            header,
            "codelets",
            lambda p: CodeletFacts(p.text(0), p.text(1), self.listed(p, 2, lambda f: (f.text(0), f.text(1)))),
        )
        if not len(made) == len(reasons) == len(ways) == len(sources):
            header["codelets"].fail("a list with its notes")
        rows = zip(made, reasons, ways, sources, strict=True)
        return tuple(replace(c, unbatched=u, way=w, sources=s) for c, u, w, s in rows)

    def _compute_sets(self, texts: tuple[str, ...], codelets: int) -> tuple[ComputeSetFacts, ...]:
        def runs(part: Part) -> tuple[int, int]:
            return part.whole(0, 0, self.tiles - 1), part.whole(1, 1, self.tiles)

        def vertices(part: Part) -> VertexFacts:
            return VertexFacts(
                part.whole(0, 0, codelets - 1), part.whole(1, 0, MOST), part.whole(2, -1, MOST), self.listed(part, 3, runs)
            )

        made = self.listed(self.header, "compute_sets", lambda p: ComputeSetFacts(p.text(0), self.listed(p, 1, vertices)))
        lines = self.listed(self.header["notes"], "parts", lambda p: _numbers(p, len(texts) - 1, MOST_NODES))
        if [len(c.parts) for c in made] != [len(found) for found in lines]:
            self.header["compute_sets"].fail("a list with its notes")
        return tuple(
            replace(c, parts=tuple(replace(p, line=texts[i]) for p, i in zip(c.parts, found, strict=True)))
            for c, found in zip(made, lines, strict=True)
        )

    def _steps(self, texts: tuple[str, ...], compute_sets: int) -> tuple[StepFacts, ...]:
        def step(part: Part) -> StepFacts:
            way = None if part[2].value is None else part.flag(2)
            return StepFacts(part.whole(0, -1, compute_sets - 1), part.whole(1, 0, 2), way)

        made = self.listed(self.header, "steps", step)
        lines = _numbers(self.header["notes"]["steps"], len(texts) - 1, MOST_NODES)
        if len(lines) != len(made):
            self.header["steps"].fail("a list with its notes")
        return tuple(replace(s, line=texts[i]) for s, i in zip(made, lines, strict=True))

    def _programs(self, steps: int) -> tuple[ProgramNode, ...]:
        made: list[ProgramNode] = []
        sizes: list[int] = []
        for part in self.header.items("nodes"):
            children = _numbers(part[6], len(made) - 1, MOST_NODES)
            sizes.append(1 + sum(sizes[child] for child in children))
            step = part.whole(2, -1, steps - 1)
            if sizes[-1] > MOST_NODES or step >= 0 and children:
                part.fail(f"a program of at most {MOST_NODES:,} parts")
            cases = part.numbers(5, -(2**63), 2**63, MOST_NODES)
            count = part.whole(3, 0, 2**63)
            below = tuple(made[child] for child in children)
            made.append(ProgramNode(part.text(0), part.text(1), step, count, part.text(4), cases, below))
        roots = _numbers(self.header["programs"], len(made) - 1, MOST_NODES)
        if sum(sizes[root] for root in roots) > MOST_NODES:
            self.header["programs"].fail(f"programs of at most {MOST_NODES:,} parts")
        return tuple(made[root] for root in roots)

    def _cost(self, part: Part) -> StepCost:
        exchange = tuple(self._traffic(p) for p in part.items("exchange"))
        return StepCost(
            part.text("kind"),
            part.text("name"),
            part.whole("sync", 0, MOST),
            exchange,
            self.column(part, "exchange_cycles", self.tiles),
            part.whole("exchange_duration", 0, MOST),
            part.whole("global", 0, MOST),
            self.column(part, "compute", self.tiles),
            self.column(part, "active", self.tiles),
            part.real("host", 0, 1e18),
            part.whole("host_bytes", 0, MOST),
            self.listed(part, "unknown", _text),
        )

    def _traffic(self, part: Part) -> Traffic:
        ipus = self.target.num_ipus
        sizes = {"link_received": ipus, "link_sent": ipus, "links": ipus**2}
        found = {name: self.column(part, name, sizes.get(name, self.tiles)) for name in TRAFFIC}
        found["links"] = found["links"].reshape(ipus, ipus)
        return Traffic(**found)

    def _messages(self, part: Part) -> tuple[tuple[Array, ...], ...]:
        if not isinstance(part.value, list):
            part.fail("a list")
        found = []
        for number in range(len(part.value)):
            source = self.column(part[number], 0, None, 0, self.tiles - 1)
            size, count = (self.column(part[number], i, len(source), 0, MOST) for i in (1, 2))
            if len(count) > MOST_MESSAGES or len(count) and int(count.max()) > self.tiles:
                part[number].fail(f"a list of at most {MOST_MESSAGES:,} messages")
            to = self.column(part[number], 3, int(count.sum()), 0, self.tiles - 1)
            found.append((source, size, count, to))
        return tuple(found)

    def _memory(self, variables: tuple[VariableFacts, ...], programs: tuple[ProgramNode, ...], steps: int) -> MemoryLedger:
        part, count = self.header["memory"], len(variables)
        variable = self.column(part, "variable", None, 0, count - 1)
        if np.any(np.diff(variable) < 0):
            part["variable"].fail("a column of ascending numbers")
        places = tuple(Node(leaf.kind, leaf.name, step=leaf.step) for program in programs for leaf in program.leaves())
        if len(places) * max(count, self.tiles) > MOST_CELLS:
            part.fail(f"a table of at most {MOST_CELLS:,} places and variables, or places and tiles")
        change = np.zeros((len(places) + 1, count), np.int8)
        who = self.column(part["live"], 0, None, 0, count - 1)
        start, stop = (self.column(part["live"], i, len(who), 0, len(places)) for i in (1, 2))
        np.add.at(change, (start, who), 1)
        np.add.at(change, (stop, who), -1)
        live = np.cumsum(change, axis=0, dtype=np.int8)[:-1] > 0
        passing: dict[int, dict[str, Array]] = {}
        for entry in part.items("passing"):
            passing[entry.whole(0, 0, steps - 1)] = self._by_category(entry, 1)
        return MemoryLedger(
            self.target,
            tuple(v.name for v in variables),
            tuple(v.category for v in variables),
            self.column(part, "tile", len(variable), 0, self.tiles - 1),
            variable,
            self.column(part, "size", len(variable)),
            self._by_category(part, "always"),
            tuple(passing.get(place.step, {}) for place in places),
            Liveness(self.column(part, "always_live", count, 0, 1).astype(bool), places, live),
        )

    def _by_category(self, part: Part, key: str | int) -> dict[str, Array]:
        inner = part[key]
        if not isinstance(inner.value, dict) or not set(inner.value) <= set(CATEGORIES):
            inner.fail("bytes by category")
        return {category: self.column(inner, category, self.tiles) for category in inner.value}

    def ran(self, steps: int, programs: int) -> Ran:
        """What ran, checked against the numbers of steps and programs."""
        part = self.header["run"]
        order = self.column(part, "order", None, 0, steps - 1)
        counts = self.column(part, "counts", None)
        total = int(counts.sum())
        if len(order) > MOST_STEPS or len(counts) > steps or total > MOST:
            part.fail("a run of the steps of the program")
        known = np.bincount(order, minlength=len(counts))
        if len(known) > len(counts) or np.any(known > counts):
            part["order"].fail("the order of the steps that are counted")

        def run(entry: Part) -> ProgramRun:
            first = entry.whole(2, 0, total)
            last = None if entry[3].value is None else entry.whole(3, first, total)
            return ProgramRun(entry.whole(0, 0, programs - 1), entry.text(1), first, last)

        runs = self.listed(part, "runs", run)
        if len(runs) > MOST_RUNS:
            part["runs"].fail(f"a list of at most {MOST_RUNS:,} runs")
        left_out = part.whole("runs_left_out", 0, MOST)
        return Ran(order.astype(np.int32), counts, runs, part.whole("unrecorded", 0, MOST), left_out)


def _text(part: Part) -> str:
    return part.value if isinstance(part.value, str) else part.fail("text")


def _pairs(part: Part) -> tuple[tuple[str, str], ...]:
    """A list of pairs of texts."""
    if not isinstance(part.value, list):
        part.fail("a list")
    return tuple((part[i].text(0), part[i].text(1)) for i in range(len(part.value)))


def _numbers(part: Part, most: int, longest: int) -> tuple[int, ...]:
    """A list of whole numbers from 0 to `most`."""
    if not isinstance(part.value, list) or len(part.value) > longest:
        part.fail(f"a list of at most {longest:,} numbers")
    return tuple(part.whole(i, 0, most) for i in range(len(part.value)))
