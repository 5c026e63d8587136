"""Write a report: named values as JSON, and values for each tile, step or message as columns.

The type hints of the records and the constants of this module declare the format. The module
`reader` uses the same declarations.
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
# The maximum number of cells in a table with a row for each step and a column for each tile or
# variable. A laptop can still add up a table of this size.
MOST_CELLS = 2**28
MOST_MESSAGES = 2**22  # The maximum number of messages in an exchange.

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
    """Return the codec of a list with one string for each variable.

    The codec stores the list as a column of indices into a table of strings, whose name is `table`.
    `write` adds a string to the table and returns its index.
    """
    return s.Codec(
        lambda texts, columns: columns.add([write(text, columns) for text in texts]),
        lambda value: tuple(
            value.known[table][number] for number in s.column("variables", below=table).read(value)
        ),
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
    """The lines and texts of a report, which the digest of the report does not include.

    Lines and texts may differ from machine to machine, so they are stored separately.
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
    """The data of a report other than its program and the steps of its run.

    - `kit` is the version of the kit.
    - `settings` are the options of the engine that affect reports.
    - `host` is the activity of the host.
    - `rows` has the numbers of the rows that were copied from or to remote buffers.

    Version 1 of the file format had only `host`.
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
    """Return the contents of a report's file.

    :raises NotOfferedError: if the report is too large.
    """
    columns = s.Columns()
    header = facts(profile, run_log, columns)
    if max(profile.replicas, named_replicas(profile.variables, profile.target)) > 1:
        # The digest does not depend on this number, so that digests of earlier versions stay valid.
        header["replicas"] = profile.replicas
    header["notes"] = NOTES.write(notes_of(profile), columns) | {"texts": columns.table("texts")}
    header["transfers"] = [
        [
            messages(transfers_of_exchange, columns)
            for transfers_of_exchange in profile.transfers(step_number)
        ]
        for step_number in range(len(profile.steps))
    ]
    return REPORT.pack(header | BESIDES.write(besides, columns), columns.arrays())


def digest(profile: Profile, run_log: RunLog) -> str:
    """Return 64 hexadecimal digits, computed from the compiled program, its costs and its run.

    Measured times, paths and lines do not change the digest.
    """
    columns = s.Columns()
    sha = hashlib.sha256(
        json.dumps(facts(profile, run_log, columns), sort_keys=True, allow_nan=False).encode()
    )
    for name, array in columns.arrays().items():
        sha.update(name.encode())
        sha.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return sha.hexdigest()


def _too_large(
    problem: str, *, next_step: str = "save the report of a program for fewer tiles."
) -> NotOfferedError:
    return NotOfferedError(problem, next_step=next_step)


def facts(profile: Profile, run_log: RunLog, columns: s.Columns) -> dict[str, Any]:
    """Return the entries of a file's header that the digest includes.

    The arrays to which these entries refer are added to `columns`.
    """
    live = profile.memory.liveness.live
    num_tiles = profile.target.num_tiles
    variables = profile.variables
    if max(len(profile.steps) * num_tiles, len(live) * num_tiles, live.size) > MOST_CELLS:
        raise _too_large(
            f"A report of {len(profile.steps):,} compiled steps, {num_tiles:,} tiles and "
            f"{len(variables):,} variables is too large to be saved."
        )
    return {
        "target": s.TARGET.write(profile.target, columns),
        "variables": VARIABLES.write(variables, columns),
        "codelets": CODELETS.write(profile.codelets, columns),
        "compute_sets": COMPUTE_SETS.write(profile.compute_sets, columns),
        "steps": STEPS.write(profile.steps, columns),
        "costs": [
            COST.write(profile.cost(step_number), columns)
            | {"codelets": profile.codelet_cycles(step_number)}
            for step_number in range(len(profile.steps))
        ],
        "programs": _programs(profile, columns),
        "nodes": columns.table("nodes"),
        "edges": profile.edges,
        "memory": _memory(profile.memory, columns),
        "run": RUN.write(run_log, columns),
    }


def _programs(profile: Profile, columns: s.Columns) -> list[int]:
    """Return the index of each program's top node in the table of nodes.

    All nodes are added to the table. Equal nodes are stored once, and children come before their
    parents.
    """
    roots = []
    num_nodes = 0
    for program in profile.programs:
        nodes = [node for _, node in program.walk()]
        num_nodes += len(nodes)
        if num_nodes > MOST_NODES:
            raise _too_large(
                f"A report of a program of more than {MOST_NODES:,} nodes is too large to be "
                "saved.",
                next_step="use Repeat for programs that run several times.",
            )
        stored_nodes: dict[ProgramNode, Any] = {}
        for node in reversed(nodes):
            stored_nodes[node] = NODES.write(
                replace(node, children=tuple(stored_nodes[child] for child in node.children)),
                columns,
            )
        roots.append(stored_nodes[program])
    return roots


def _memory(memory: MemoryLedger, columns: s.Columns) -> dict[str, Any]:
    stored_by_step: dict[int, Any] = {}
    for node, bytes_by_category in zip(memory.liveness.places, memory.passing, strict=True):
        stored_by_step[node.step] = stored_by_step.get(node.step) or BY_CATEGORY.write(
            bytes_by_category, columns
        )
    return {
        **LEDGER.write(memory, columns),
        "passing": [[step, stored_by_step[step]] for step in sorted(stored_by_step)],
        "always_live": columns.add(memory.liveness.always.astype(np.uint8)),
        "live": [columns.add(array) for array in live_runs(memory.liveness.live)],
    }


def notes_of(profile: Profile) -> Notes:
    """Return the lines and texts of a profile in the form in which a file stores them."""
    return Notes(
        tuple(variable.line for variable in profile.variables),
        tuple(step.line for step in profile.steps),
        parts=tuple(tuple(part.line for part in c.parts) for c in profile.compute_sets),
        unbatched=tuple(codelet.unbatched for codelet in profile.codelets),
        ways=tuple(codelet.way for codelet in profile.codelets),
        sources=tuple(codelet.sources for codelet in profile.codelets),
        moves=tuple(step.moves for step in profile.steps),
    )


def messages(transfers: Transfers, columns: s.Columns) -> list[Any]:
    """Return the columns of the messages of one exchange, in the form in which a file stores them.

    The columns are the source tiles, the numbers of bytes, the numbers of receivers, and the
    receivers of all messages.
    """
    if len(transfers) > MOST_MESSAGES:
        raise _too_large(
            f"A report with an exchange of {len(transfers):,} messages is too large to be saved."
        )
    receivers = np.concatenate([np.zeros(0, np.int64), *transfers.receivers])
    return [
        columns.add(column)
        for column in (
            transfers.source,
            transfers.size,
            [len(receiving_tiles) for receiving_tiles in transfers.receivers],
            receivers,
        )
    ]
