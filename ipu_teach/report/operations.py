"""The run by operation: the total cost of one library call, or of one of the learner's own names.

The steps of a compute set `layer1/mul/reduce` belong to the operation `layer1/mul`; those of a
compute set without a scope belong to an operation of its own name. Copies and the host's transfers
belong to the nearest named program around them, or else to `copies`, `host exchange`, `streaming
memory` or `control`. Every step is in one operation, so the columns add up to the report's totals.
An exception is cycles on several IPUs, which work at the same time: they add up to the sum of all
steps.

`by_module` uses the programs instead, which the front ends name after the modules of a model.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ipu_teach.cost.ledger import control_code_bytes, exchange_code_bytes
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.report.profile import Profile
from ipu_teach.report.table import Table
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.report.report import Report

UNUSED = "never executed"
UPDATE, REST = "update", "no module"
_KINDS = {
    "Copy": "copies",
    "StreamCopy": "host exchange",
    "RemoteCopy": "streaming memory",
    "PrintTensor": "host exchange",
}


@dataclass(frozen=True)
class Operation:
    """One operation, with its costs in the entire run.

    Cycles are modelled. `bytes_received` are bytes copied between tiles. `flops` is -1 if a codelet
    could not be traced. `code_bytes` is the code of codelets, exchanges and control; the code of a
    codelet that several operations use is counted in the first of them. `line` is the learner's
    line that added its vertices.
    """

    name: str
    steps: int
    executions: int
    vertices: int
    cycles: int
    compute_cycles: int
    exchange_cycles: int
    bytes_received: int
    flops: int
    code_bytes: int
    line: str


@dataclass(frozen=True)
class Module(Operation):
    """One module of a model.

    `memory_bytes` is the memory of its variables, its code, and the data that tiles send each other
    in its steps: the sum over all tiles, each at its peak.
    """

    memory_bytes: int


def by_module(report: Report) -> Table[Module]:
    """Return the run by the innermost named programs around its steps, in the order of first steps.

    For a model of a front end, these are its modules or layers, forward and backward. There are
    also "inputs", "outputs", and "update", the optimiser with all of its state. Steps outside named
    programs belong to a module with the first name of their compute set, as in `operations`. The
    last row, "no module", has the remaining memory: pointers, stacks and constants. So each column
    adds up to a total; for memory it is that of `memory.bytes_per_tile`.
    """
    profile = report.profile
    memory = report.memory
    around = _around(profile, UPDATE)
    owner = names(profile, 1)
    members: dict[str, list[int]] = {}
    for number, name in enumerate(owner):
        owner[number] = around.get(profile.leaf(number).step) or name
        members.setdefault(owner[number], []).append(number)
    bytes_by_module = Counter[str]()
    variables = memory.at_fullest()
    for name, size in variables.items():
        whose = UPDATE if name.rpartition(".")[0] in variables else name.partition("/")[0]
        while whose and whose not in members:  # layer.weight belongs to layer
            whose = whose.rpartition(".")[0]
        bytes_by_module[whose or REST] += size
    for place, size in zip(memory.liveness.places, memory.passing_at_fullest, strict=True):
        bytes_by_module[owner[place.step]] += size
    codes = _vertex_code(profile)
    rows = []
    for name, numbers in members.items():
        row = _operation(report, name, numbers, codes)
        rows.append(Module(**vars(row), memory_bytes=row.code_bytes + bytes_by_module[name]))
    code = sum(codes.values()) * report.target.vertex_code_bytes
    remaining = int(memory.bytes_per_tile.sum()) - sum(row.memory_bytes for row in rows)
    return Table([*rows, Module(REST, 0, 0, 0, 0, 0, 0, 0, 0, code, "", remaining)])


def operations(report: Report, depth: int | None = None) -> Table[Operation]:
    """Return the run by library call and by the learner's own names, in the order of first steps.

    With `depth`, operations with the same first `depth` names of their path are one row.
    """
    profile = report.profile
    target = report.target
    members: dict[str, list[int]] = {}
    for number, name in enumerate(names(profile, depth)):
        members.setdefault(name, []).append(number)
    codes = _vertex_code(profile)
    rows = [_operation(report, name, numbers, codes) for name, numbers in members.items()]
    remaining = sum(codes.values()) * target.vertex_code_bytes
    if remaining:
        rows.append(
            Operation(
                UNUSED,
                0,
                executions=0,
                vertices=0,
                cycles=0,
                compute_cycles=0,
                exchange_cycles=0,
                bytes_received=0,
                flops=0,
                code_bytes=remaining,
                line="",
            )
        )
    return Table(rows)


def names(profile: Profile, depth: int | None = None) -> list[str]:
    """Return the name of the operation of each compiled step."""
    if not isinstance(depth, int | None):
        raise InvalidOptionError(
            f"operations() was given the depth {shown(depth)}.",
            next_step="give a whole number, or None.",
        )
    around = _around(profile)
    operation_names = []
    for number, step in enumerate(profile.steps):
        cost = profile.cost(number)
        if step.compute_set >= 0:
            path = cost.name.split("/")
            scope = path[:-1] or path
        else:
            scope = (around.get(number) or _KINDS.get(cost.kind, "control")).split("/")
        operation_names.append("/".join(scope[:depth]))
    return operation_names


def _around(profile: Profile, outermost: str | None = None) -> dict[int, str]:
    """Return the name of the nearest named program around each step that has one.

    Inside a program named `outermost`, that name holds for all steps.
    """
    operation_of: dict[int, str] = {}
    for program in profile.programs:
        waiting = [(program, "")]
        while waiting:
            node, name = waiting.pop()
            if node.step >= 0:
                operation_of.setdefault(node.step, name)
            elif node.kind in ("Sequence", "Block", "Call") and node.name and name != outermost:
                name = node.name
            waiting += [(child, name) for child in reversed(node.children)]
    return operation_of


def _operation(report: Report, name: str, numbers: list[int], codes: Counter[int]) -> Operation:
    profile = report.profile
    target = report.target
    runs = report.executions
    costs = [(int(runs[n]), profile.cost(n)) for n in numbers]
    # a dict, as several steps of an operation may execute the same compute set
    sets = {profile.steps[n].compute_set: profile.parts(n) for n in numbers}
    parts = [part for sets_of_operation in sets.values() for part in sets_of_operation]
    flops = [
        int(runs[n]) * p.flops if p.flops >= 0 else -1 for n in numbers for p in profile.parts(n)
    ]
    code = sum(codes.pop(n, 0) for n in numbers) * target.vertex_code_bytes
    # measured executions of a step are left out, as the code is stored once
    for n in (n for n in numbers if n in profile.own_steps):
        exchange = profile.cost(n).exchange
        step = profile.steps[n]
        tiles = [part.on for part in profile.parts(n)]
        code += int(control_code_bytes(exchange, tiles, step.to_device is not None, target).sum())
        code += sum(int(exchange_code_bytes(t, target).sum()) for t in exchange)
    lines = [p.line for p in parts if p.line] + [
        profile.steps[n].line for n in numbers if profile.steps[n].line
    ]
    return Operation(
        name,
        len(numbers),
        executions=sum(n for n, _ in costs),
        vertices=sum(p.vertices for p in parts),
        cycles=sum(n * cost.cycles for n, cost in costs),
        compute_cycles=sum(n * cost.compute_duration for n, cost in costs),
        exchange_cycles=sum(n * cost.exchange_duration for n, cost in costs),
        bytes_received=sum(n * t.total for n, cost in costs for t in cost.exchange),
        flops=-1 if min(flops, default=0) < 0 else sum(flops),
        code_bytes=int(code),
        line=lines[0] if lines else "",
    )


def _vertex_code(profile: Profile) -> Counter[int]:
    """Return, for each step, on how many tiles it is the first step that needs some code.

    Code is that of a codelet, of copies of contiguous data, or of copies of pieces. Step -1 stands
    for compute sets that no program executes.
    """
    has_code: defaultdict[object, Array] = defaultdict(
        lambda: np.zeros(profile.target.num_tiles, bool)
    )
    code_bytes = Counter[int]()
    needed = list[tuple[object, Array]]()
    executed = [(number, profile.steps[number].compute_set) for number in sorted(profile.own_steps)]
    for number, which in (*executed, *((-1, which) for which in range(len(profile.compute_sets)))):
        needed = [
            ("copy", np.array((t.pieces == 1, t.pieces > 1)))
            for t in (profile.cost(number).exchange if number >= 0 else ())
        ]
        for part in profile.compute_sets[which].parts if which >= 0 else ():
            needed.append((part.codelet, np.isin(np.arange(profile.target.num_tiles), part.on)))
        for kind, on_tiles in needed:
            code_bytes[number] += int((on_tiles & ~has_code[kind]).sum())
            has_code[kind] = has_code[kind] | on_tiles
    return code_bytes
