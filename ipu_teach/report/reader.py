"""Read a report from a file, and check every number before it is used as an index or a size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from ipu_teach.compile.programs import Node
from ipu_teach.cost import StepCost
from ipu_teach.cost.ledger import CATEGORIES, MemoryLedger
from ipu_teach.cost.liveness import Liveness
from ipu_teach.cost.model import together
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidMachineModelError
from ipu_teach.report import writer as w
from ipu_teach.report.host_trace import HostTrace
from ipu_teach.report.log import MOST_STEPS, RunLog
from ipu_teach.report.profile import (
    EXTERNAL,
    NO_SYNC,
    ComputeSetFacts,
    Profile,
    ProgramNode,
    VariableFacts,
    named_replicas,
)
from ipu_teach.report.settings import InstrumentationSettings, PoplarVersion
from ipu_teach.saving import schema as s
from ipu_teach.saving.archive import MOST_NODES
from ipu_teach.target import Target, sync_of

# The fields of the target that `what_if` can change in a report from a file, which contains no
# vertices.
RATES = frozenset(
    (
        "exchange_bytes_per_cycle",
        "shared_bus_speedup",
        "exchange_latency_cycles",
        "exchange_cycles_per_row",
        "exchange_rows",
        "relative_sync_delay",
        "min_ipu_sync_delay",
        "auto_sync_delay",
        "global_sync_cycles",
        "sync_pattern",
        "streaming_bytes_per_second",
        "global_sync_seconds_per_hop",
        "host_bytes_per_second",
        "silicon_host_bytes_per_second",
        "link_bytes_per_cycle",
        "rail_bytes_per_cycle",
        "tile_clock_frequency",
        "memory_bytes_per_tile",
        "non_interleaved_bytes_per_tile",
    )
)

T = TypeVar("T")
# The types of the arguments of `Report(...)`, in order.
Read = tuple[Profile, RunLog, HostTrace, InstrumentationSettings, PoplarVersion]


def read(data: bytes) -> Read:
    """Return the arguments for `Report(...)` that are stored in the bytes of a file.

    :raises ReportLoadError: if the bytes are not a valid report.
    """
    return s.load(data, w.REPORT, _report)


@dataclass(eq=False)
class StoredProfile(Profile):
    """The profile of a compiled program that was read from a file.

    `costs`, `cycles` (by codelet) and `messages` have an entry for each compiled step.
    """

    costs: tuple[StepCost, ...]
    cycles: tuple[dict[str, int], ...]
    messages: tuple[tuple[Transfers, ...], ...]

    def cost(self, number: int) -> StepCost:
        return self.costs[number]

    def codelet_cycles(self, number: int) -> dict[str, int]:
        return self.cycles[number]

    def transfers(self, number: int) -> tuple[Transfers, ...]:
        return self.messages[number]

    def at(self, target: Target) -> Profile:
        for field in fields(Target):
            if field.name not in RATES and getattr(target, field.name) != getattr(
                self.target, field.name
            ):
                raise InvalidMachineModelError(f"""what_if() cannot change {field.name} in a report
                    that was read from a file, because the file does not contain the vertices.
                    next:  call engine.report.what_if() in the process that runs the program. For
                    a report from a file, what_if() can change the rates of exchange, sync, host and
                    clock.""")
        sync_cycles = target.internal_sync_cycles
        costs = tuple(
            cost.at(
                target,
                (sync_cycles if step.sync != NO_SYNC else 0)
                + (sync_of(num_synced_ipus, target) if num_synced_ipus else 0),
            )
            for cost, step in zip(self.costs, self.steps, strict=True)
            for num_synced_ipus in (
                together(cost.kind, step.sync == EXTERNAL, target, self.replicas),
            )
        )
        return replace(self, target=target, costs=costs, memory=replace(self.memory, target=target))


def _report(header: s.HeaderValue) -> Read:
    profile = _profile(header)
    run_log = _ran(header["run"])
    besides: w.Besides = w.BESIDES.read(header)
    run_log = replace(run_log, rows=besides.rows)
    return (
        profile,
        run_log,
        besides.host or HostTrace(),
        besides.settings,
        PoplarVersion(besides.kit),
    )


def _profile(header: s.HeaderValue) -> StoredProfile:
    state = header.known
    notes_header = header["notes"]
    target: Target = s.TARGET.read(header["target"])
    state.update(tiles=target.num_tiles, ipus=target.num_ipus, categories=CATEGORIES)
    s.told("texts", s.many(s.TEXT)).read(notes_header["texts"])
    unnoted_variables = w.VARIABLES.read(header["variables"])
    notes: w.Notes = w.NOTES.read(notes_header)
    variables = state["variables"] = _noted(
        header["variables"], unnoted_variables, line=notes.variables
    )
    codelets = _noted(
        header["codelets"],
        _told(header, "codelets", w.CODELETS),
        unbatched=notes.unbatched,
        way=notes.ways,
        sources=notes.sources,
    )
    compute_sets = _compute_sets(header, notes)
    steps = _told(header, "steps", w.STEPS)
    moves = notes.moves or [()] * len(steps)  # Older files (version 4 and below) have no moves.
    steps = _noted(header["steps"], steps, line=notes.steps, moves=moves)
    if len(steps) * target.num_tiles > w.MOST_CELLS:
        header["steps"].fail(f"a list of at most {w.MOST_CELLS // target.num_tiles:,} steps")
    programs = state["programs"] = _programs(header)
    edges = s.whole().read(header["edges"])
    costs = s.many(w.COST).read(header["costs"])
    replicas = _replicas(header, variables, target)
    cycles = tuple(w.CYCLES.read(cost["codelets"]) for cost in header["costs"].items())
    messages = s.many(s.many(s.Codec(w.messages, _messages))).read(header["transfers"])
    names = {codelet.name for codelet in codelets}
    if any(
        not names >= {*cycles_by_name, *cost.unknown}
        for cycles_by_name, cost in zip(cycles, costs, strict=True)
    ):
        header["costs"].fail("a list of costs of the codelets in this report")
    if len(costs) != len(steps) or [len(step_messages) for step_messages in messages] != [
        len(cost.exchange) for cost in costs
    ]:
        header["costs"].fail(f"the costs of {len(steps):,} steps and their exchanges")
    memory = _memory(header["memory"], target)
    return StoredProfile(
        *(target, variables, codelets, compute_sets, steps, programs, memory, edges, replicas),
        *(costs, cycles, messages),
    )


def _told(header: s.HeaderValue, name: str, codec: s.Codec) -> Any:
    """Read the value of `header[name]` with `codec` and return it.

    The value is also stored under `name` in `header.known`, where later checks find it.
    """
    return s.told(name, codec).read(header[name])


def _noted(value: s.HeaderValue, records: Sequence[T], **notes: Sequence[Any]) -> tuple[T, ...]:
    """Return `records`, which were read from `value`, with additional fields.

    `notes` maps the name of each additional field to its values, one for each record.
    """
    if any(len(notes_of_field) != len(records) for notes_of_field in notes.values()):
        value.fail("a list as long as its notes")
    rows = zip(records, *notes.values(), strict=True)
    return tuple(
        replace(record, **dict(zip(notes, notes_of_record, strict=True)))
        for record, *notes_of_record in rows
    )


def _compute_sets(header: s.HeaderValue, notes: w.Notes) -> tuple[ComputeSetFacts, ...]:
    value = header["compute_sets"]
    compute_sets = _told(header, "compute_sets", w.COMPUTE_SETS)
    if len(compute_sets) != len(notes.parts):
        value.fail("a list as long as its notes")
    noted_parts = [
        _noted(value, compute_set.parts, line=lines)
        for compute_set, lines in zip(compute_sets, notes.parts, strict=True)
    ]
    return _noted(value, compute_sets, parts=noted_parts)


def _replicas(header: s.HeaderValue, variables: Sequence[VariableFacts], target: Target) -> int:
    """Return the number of replicas that ran.

    Older files do not contain this number. For an older file, it is computed from the names of the
    variables.
    """
    if "replicas" not in header.value:
        return named_replicas(variables, target)
    num_replicas = header["replicas"].whole(1, target.num_ipus)
    if target.num_ipus % num_replicas:
        header["replicas"].fail(f"a number that shares out {target.num_ipus} IPUs")
    return num_replicas


def _programs(header: s.HeaderValue) -> tuple[ProgramNode, ...]:
    nodes: list[ProgramNode] = []
    size_of_node: dict[ProgramNode, int] = {}
    header.known["nodes"] = nodes
    for value in header["nodes"].items():
        node: ProgramNode = w.NODE.read(value)
        size_of_node[node] = 1 + sum(size_of_node[child] for child in node.children)
        if (
            size_of_node[node] > MOST_NODES
            or node.step >= 0
            and any(child.step >= 0 or child.children for child in node.children)
        ):
            value.fail(f"a program of at most {MOST_NODES:,} nodes")
        nodes.append(node)
    roots: tuple[ProgramNode, ...] = s.numbers(w.NODES).read(header["programs"])
    if sum(size_of_node[root] for root in roots) > MOST_NODES:
        header["programs"].fail(f"a list of programs of at most {MOST_NODES:,} nodes")
    return roots


def _messages(value: s.HeaderValue) -> Transfers:
    source_tiles = s.column(below="tiles").read(value[0])
    message_bytes, num_receivers = (s.column(len(source_tiles)).read(value[i]) for i in (1, 2))
    if (
        len(num_receivers) > w.MOST_MESSAGES
        or len(num_receivers)
        and int(num_receivers.max()) > value.known["tiles"]
    ):
        value.fail(f"a list of at most {w.MOST_MESSAGES:,} messages")
    receiving_tiles = s.column(int(num_receivers.sum()), below="tiles").read(value[3])
    return Transfers(
        source_tiles,
        message_bytes,
        tuple(np.split(receiving_tiles, np.cumsum(num_receivers)[:-1]))
        if len(num_receivers)
        else (),
    )


def _memory(value: s.HeaderValue, target: Target) -> MemoryLedger:
    variables = value.known["variables"]
    programs = value.known["programs"]
    variables_of_rows = value.known["rows"] = s.column(below="variables").read(value["variable"])
    if np.any(np.diff(variables_of_rows) < 0):
        value["variable"].fail("a column of ascending numbers")
    places = tuple(
        Node(leaf.kind, leaf.name, step=leaf.step)
        for program in programs
        for leaf in program.leaves()
    )
    if len(places) * max(len(variables), target.num_tiles) > w.MOST_CELLS:
        value.fail(
            f"a table of at most {w.MOST_CELLS:,} cells: program steps by variables or tiles"
        )
    live_changes = np.zeros((len(places) + 1, len(variables)), np.int8)
    changing_variables = s.column(below="variables").read(value["live"][0])
    for key, sign in (1, 1), (2, -1):
        np.add.at(
            live_changes,
            (
                s.column(len(changing_variables), most=len(places)).read(value["live"][key]),
                changing_variables,
            ),
            sign,
        )
    passing_by_step = dict(
        s.many(s.pair(s.whole(below="steps"), w.BY_CATEGORY)).read(value["passing"])
    )
    is_always_live = s.column("variables", most=1).read(value["always_live"]).astype(bool)
    return MemoryLedger(
        target,
        tuple(facts.name for facts in variables),
        tuple(facts.category for facts in variables),
        passing=tuple(passing_by_step.get(place.step, {}) for place in places),
        liveness=Liveness(
            is_always_live, places, np.cumsum(live_changes, axis=0, dtype=np.int8)[:-1] > 0
        ),
        **w.LEDGER.read(value),
    )


def _ran(value: s.HeaderValue) -> RunLog:
    """Check the log of the run that is stored in `value`, and return it.

    The step numbers in the log must exist in the program, and the order of the steps must agree
    with the numbers of executions.
    """
    step_numbers = s.column(below="steps").read(value["order"])
    counts = s.column().read(value["counts"])
    value.known["ran"] = num_executions = int(counts.sum())
    if (
        len(step_numbers) > MOST_STEPS
        or len(counts) > len(value.known["steps"])
        or num_executions > s.MOST
    ):
        value.fail("a run of the steps of the program")
    counts_in_order = np.bincount(step_numbers, minlength=len(counts))
    if len(counts_in_order) > len(counts) or np.any(counts_in_order > counts):
        value["order"].fail("the order of the steps that are counted")
    run_log: RunLog = w.RUN.read(value)
    return replace(run_log, order=step_numbers.astype(np.int32))
