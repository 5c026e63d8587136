"""Write a report: JSON for named values, columns of numbers for values by tile, step or message.

`reader` uses the same declarations: the type hints of the records, and this module.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from ipu_teach.cost import StepCost
from ipu_teach.cost.ledger import CATEGORIES, MemoryLedger
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import NotOfferedError, ReportLoadError, ReportNotFoundError
from ipu_teach.graph.layouts import MOST_DIMENSIONS
from ipu_teach.report.host_trace import HOST, HostTrace
from ipu_teach.report.log import RunLog
from ipu_teach.report.profile import (
    CodeletFacts,
    ComputeSetFacts,
    Profile,
    ProgramNode,
    RowsMoved,
    StepFacts,
    VariableFacts,
    is_way,
    named_replicas,
)
from ipu_teach.report.query import live_runs
from ipu_teach.report.settings import InstrumentationSettings
from ipu_teach.saving import schema as s
from ipu_teach.saving.archive import MOST_NODES, Format
from ipu_teach.types import Array

REPORT = Format(
    "report", 5, writer="Report.save", error=ReportLoadError, missing=ReportNotFoundError
)
# the limit of places of the programs times tiles or variables, which a laptop can still sum
MOST_CELLS = 2**28
MOST_MESSAGES = 2**22  # the most messages of one exchange

CODELETS = s.many(s.row(CodeletFacts))
COMPUTE_SETS = s.many(s.row(ComputeSetFacts))
STEPS = s.many(s.row(StepFacts))
COST = s.keyed(StepCost)
CYCLES = s.named(s.whole())
RUN = s.keyed(RunLog)
NODE = s.row(ProgramNode)
NODES = s.once("nodes", NODE)
BY_CATEGORY = s.named(s.column("tiles"), CATEGORIES, "bytes by category")
LEDGER = s.keyed(
    dict,
    tile=s.column("rows", below="tiles"),
    variable=s.column("rows", below="variables"),
    size=s.column("rows"),
    always=BY_CATEGORY,
)
LINES = s.numbers(s.ONCE)


def _numbered(write: Callable[[str, s.Columns], int], table: str) -> s.Codec:
    """Return the codec of a text for each variable, stored as a column of numbers in `table`."""
    return s.Codec(
        lambda v, out: out.add([write(x, out) for x in v]),
        lambda p: tuple(p.known[table][i] for i in s.column("variables", below=table).read(p)),
    )


VARIABLES = s.by_column(
    VariableFacts,
    "a table of variables",
    name=s.told("variables", s.many(s.TEXT)),
    dtype=s.many(s.TEXT),
    shape=s.many(s.numbers(longest=MOST_DIMENSIONS)),
    category=_numbered(lambda c, _: CATEGORIES.index(c), "categories"),
)


@dataclass(frozen=True)
class Notes:
    """Lines and texts, which may differ from machine to machine.

    They are separate because no digest includes them.
    """

    variables: Annotated[tuple[str, ...], _numbered(s.ONCE.write, "texts")]
    steps: Annotated[tuple[str, ...], LINES]
    parts: tuple[Annotated[tuple[str, ...], LINES], ...]
    unbatched: tuple[str, ...]
    ways: tuple[Annotated[str, s.checked(s.TEXT, is_way, "how a codelet runs")], ...]
    sources: tuple[tuple[tuple[str, str], ...], ...]
    moves: Annotated[tuple[tuple[RowsMoved, ...], ...], s.since(5)] = ()


@dataclass(frozen=True)
class Besides:
    """The parts of a report besides the program.

    They are the version of the kit, the settings, the host's activity, and the rows that remote
    buffers moved. Version 1 of the file had only the host's activity.
    """

    kit: Annotated[str, s.since(2)] = "0.0.0"
    settings: Annotated[InstrumentationSettings, s.keyed(InstrumentationSettings), s.since(2)] = (
        InstrumentationSettings()
    )
    host: Annotated[HostTrace | None, s.maybe(HOST)] = None
    rows: Annotated[Array, s.column(), s.since(5)] = field(
        default_factory=lambda: np.zeros(0, np.int64)
    )


NOTES = s.keyed(Notes)
BESIDES = s.keyed(Besides)


def serialize(profile: Profile, run_log: RunLog, besides: Besides) -> bytes:
    """Return the contents of the file of a report. Raises `NotOfferedError`."""
    out = s.Columns()
    header = facts(profile, run_log, out)
    if max(profile.replicas, named_replicas(profile.variables, profile.target)) > 1:
        # no digest includes it, so that digests of earlier versions still hold
        header["replicas"] = profile.replicas
    header["notes"] = NOTES.write(notes_of(profile), out) | {"texts": out.table("texts")}
    header["transfers"] = [
        [messages(t, out) for t in profile.transfers(n)] for n in range(len(profile.steps))
    ]
    return REPORT.pack(header | BESIDES.write(besides, out), out.arrays())


def digest(profile: Profile, run_log: RunLog) -> str:
    """Return 64 hexadecimal digits for the compiled program, its costs and the steps that ran.

    Times, paths and lines are not included.
    """
    out = s.Columns()
    sha = hashlib.sha256(
        json.dumps(facts(profile, run_log, out), sort_keys=True, allow_nan=False).encode()
    )
    for name, array in out.arrays().items():
        sha.update(name.encode())
        sha.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return sha.hexdigest()


def _too_large(subject: str, advice: str = "save one of a smaller machine.") -> NotOfferedError:
    return NotOfferedError(
        f"Saving a report {subject} is not offered by this kit.", next_step=advice
    )


def facts(profile: Profile, run_log: RunLog, out: s.Columns) -> dict[str, Any]:
    """Return the parts of a report that its digest includes."""
    live = profile.memory.liveness.live
    tiles = profile.target.num_tiles
    known = profile.variables
    if max(len(profile.steps) * tiles, len(live) * tiles, live.size) > MOST_CELLS:
        raise _too_large(
            f"of {len(profile.steps):,} compiled steps, {tiles:,} tiles and {len(known):,} "
            "variables"
        )
    return {
        "target": s.TARGET.write(profile.target, out),
        "variables": VARIABLES.write(known, out),
        "codelets": CODELETS.write(profile.codelets, out),
        "compute_sets": COMPUTE_SETS.write(profile.compute_sets, out),
        "steps": STEPS.write(profile.steps, out),
        "costs": [
            COST.write(profile.cost(n), out) | {"codelets": profile.codelet_cycles(n)}
            for n in range(len(profile.steps))
        ],
        "programs": _programs(profile, out),
        "nodes": out.table("nodes"),
        "edges": profile.edges,
        "memory": _memory(profile.memory, out),
        "run": RUN.write(run_log, out),
    }


def _programs(profile: Profile, out: s.Columns) -> list[int]:
    """Return the numbers of the programs among all their nodes.

    Equal nodes are stored once, and children come before their parents.
    """
    roots = []
    parts = 0
    for program in profile.programs:
        order = [node for _, node in program.walk()]
        parts += len(order)
        if parts > MOST_NODES:
            raise _too_large(
                f"of a program of more than {MOST_NODES:,} parts", "use Repeat for what runs often."
            )
        written: dict[ProgramNode, Any] = {}
        for node in reversed(order):
            written[node] = NODES.write(
                replace(node, children=tuple(written[child] for child in node.children)), out
            )
        roots.append(written[program])
    return roots


def _memory(memory: MemoryLedger, out: s.Columns) -> dict[str, Any]:
    passing: dict[int, Any] = {}
    for node, passing_bytes in zip(memory.liveness.places, memory.passing, strict=True):
        passing[node.step] = passing.get(node.step) or BY_CATEGORY.write(passing_bytes, out)
    return {
        **LEDGER.write(memory, out),
        "passing": [[step, passing[step]] for step in sorted(passing)],
        "always_live": out.add(memory.liveness.always.astype(np.uint8)),
        "live": [out.add(part) for part in live_runs(memory.liveness.live)],
    }


def notes_of(profile: Profile) -> Notes:
    """Return the lines and texts of a report."""
    return Notes(
        tuple(v.line for v in profile.variables),
        tuple(s.line for s in profile.steps),
        parts=tuple(tuple(p.line for p in c.parts) for c in profile.compute_sets),
        unbatched=tuple(c.unbatched for c in profile.codelets),
        ways=tuple(c.way for c in profile.codelets),
        sources=tuple(c.sources for c in profile.codelets),
        moves=tuple(s.moves for s in profile.steps),
    )


def messages(transfers: Transfers, out: s.Columns) -> list[Any]:
    """Return the messages of one exchange as columns."""
    if len(transfers) > MOST_MESSAGES:
        raise _too_large(f"with an exchange of {len(transfers):,} messages")
    receivers = np.concatenate([np.zeros(0, np.int64), *transfers.receivers])
    return [
        out.add(part)
        for part in (
            transfers.source,
            transfers.size,
            [len(t) for t in transfers.receivers],
            receivers,
        )
    ]
