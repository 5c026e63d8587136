"""Tables of a run by operation: by library call, or by a name that the learner chose.

- The steps of a compute set `layer1/mul/reduce` belong to the operation `layer1/mul`. If the name
  of a compute set has no "/", its steps belong to an operation with the name of the compute set.
- Copies and host transfers belong to the innermost named program around them. Without such a
  program, they belong to `copies`, `host exchange`, `streaming memory` or `control`.

Every step belongs to exactly one operation, so each column adds up to the report's total. The
exception is the column of cycles if there are several IPUs: it adds up to the cycles of all steps,
and this sum is larger than the total, because IPUs work at the same time.

`by_module` groups the steps by named programs instead. In the programs of a front end, these names
are those of the model's modules.
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
    """One operation, with its costs in the entire run. Cycles are modelled.

    - `steps` is the number of compiled steps, and `executions` is how often they ran in total.
    - `vertices` is the number of vertices in the program.
    - `bytes_received` are the bytes that tiles receive from other tiles.
    - `flops` is -1 if the floating-point operations of a codelet could not be counted.
    - `code_bytes` is the size of the code for codelets, exchanges and control. If several
      operations use the same codelet, its code counts only in the first of these operations.
    - `line` is the learner's line that added the first vertices, or the line of the first step.
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
    """One module of a model, with its costs in the entire run.

    `memory_bytes` is the memory of the module's variables, of its code, and of the exchange buffers
    of its steps. The bytes of all tiles are added up, each tile at its own peak.
    """

    memory_bytes: int


def by_module(report: Report) -> Table[Module]:
    """Return a row for each module of a model, in the order of the compiled steps.

    A module is a named program that directly contains steps. For a model of a front end, the named
    programs are its modules or layers, forward and backward, and also "inputs", "outputs", and
    "update". "update" is the optimiser with all of its state.

    A compute set outside all named programs belongs to the module that is the first part of the
    compute set's name. Any other step outside all named programs belongs to "copies", "host
    exchange", "streaming memory" or "control". The last row, "no module", has all remaining memory,
    such as pointers, stacks and constants, so that the memory of all rows adds up to the sum of
    `memory.bytes_per_tile`.
    """
    profile = report.profile
    memory = report.memory
    program_of_step = _around(profile, UPDATE)
    module_of_step = names(profile, 1)
    steps_by_module: dict[str, list[int]] = {}
    for step_number, name in enumerate(module_of_step):
        module_of_step[step_number] = program_of_step.get(profile.leaf(step_number).step) or name
        steps_by_module.setdefault(module_of_step[step_number], []).append(step_number)
    bytes_by_module = Counter[str]()
    variables = memory.at_fullest()
    for name, bytes_held in variables.items():
        module = UPDATE if name.rpartition(".")[0] in variables else name.partition("/")[0]
        # The variable "layer.weight" belongs to the same module as the steps of "layer".
        while module and module not in steps_by_module:
            module = module.rpartition(".")[0]
        bytes_by_module[module or REST] += bytes_held
    for place, bytes_held in zip(memory.liveness.places, memory.passing_at_fullest, strict=True):
        bytes_by_module[module_of_step[place.step]] += bytes_held
    tiles_with_code = _vertex_code(profile)
    rows = []
    for name, step_numbers in steps_by_module.items():
        operation = _operation(report, name, step_numbers, tiles_with_code)
        rows.append(
            Module(**vars(operation), memory_bytes=operation.code_bytes + bytes_by_module[name])
        )
    unused_code_bytes = sum(tiles_with_code.values()) * report.target.vertex_code_bytes
    remaining_bytes = int(memory.bytes_per_tile.sum()) - sum(
        operation.memory_bytes for operation in rows
    )
    return Table(
        [*rows, Module(REST, 0, 0, 0, 0, 0, 0, 0, 0, unused_code_bytes, "", remaining_bytes)]
    )


def operations(report: Report, depth: int | None = None) -> Table[Operation]:
    """Return a row for each operation of a run, in the order of the compiled steps.

    An operation is a library call or a name that the learner chose. If `depth` is given, operations
    whose paths have the same first `depth` names share a row. If there are codelets that no program
    executes, the code of these codelets has a row at the end.

    :raises InvalidOptionError: if `depth` is neither a whole number nor None.
    """
    profile = report.profile
    target = report.target
    steps_by_name: dict[str, list[int]] = {}
    for step_number, name in enumerate(names(profile, depth)):
        steps_by_name.setdefault(name, []).append(step_number)
    tiles_with_code = _vertex_code(profile)
    rows = [
        _operation(report, name, step_numbers, tiles_with_code)
        for name, step_numbers in steps_by_name.items()
    ]
    unused_code_bytes = sum(tiles_with_code.values()) * target.vertex_code_bytes
    if unused_code_bytes:
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
                code_bytes=unused_code_bytes,
                line="",
            )
        )
    return Table(rows)


def names(profile: Profile, depth: int | None = None) -> list[str]:
    """Return the name of the operation of each compiled step.

    A name is a path such as "layer1/mul". If `depth` is given, names have only their first `depth`
    parts.
    """
    if not isinstance(depth, int | None):
        raise InvalidOptionError(
            f"operations() was given the depth {shown(depth)}, which is not a whole number.",
            next_step="give a whole number, such as depth=1, or None for complete names.",
        )
    program_of_step = _around(profile)
    operation_names = []
    for step_number, step in enumerate(profile.steps):
        cost = profile.cost(step_number)
        if step.compute_set >= 0:
            path = cost.name.split("/")
            scope = path[:-1] or path
        else:
            scope = (program_of_step.get(step_number) or _KINDS.get(cost.kind, "control")).split(
                "/"
            )
        operation_names.append("/".join(scope[:depth]))
    return operation_names


def _around(profile: Profile, outermost: str | None = None) -> dict[int, str]:
    """Return a dict that maps each step number to the innermost named program around the step.

    A program is given by its name, and "" means that there is no named program. Programs inside a
    program named `outermost` are ignored, so that its steps get the name `outermost`.
    """
    operation_of: dict[int, str] = {}
    for program in profile.programs:
        nodes_to_visit = [(program, "")]
        while nodes_to_visit:
            node, name = nodes_to_visit.pop()
            if node.step >= 0:
                operation_of.setdefault(node.step, name)
            elif node.kind in ("Sequence", "Block", "Call") and node.name and name != outermost:
                name = node.name
            nodes_to_visit += [(child, name) for child in reversed(node.children)]
    return operation_of


def _operation(
    report: Report, name: str, step_numbers: list[int], tiles_with_code: Counter[int]
) -> Operation:
    profile = report.profile
    target = report.target
    executions = report.executions
    costs = [
        (int(executions[step_number]), profile.cost(step_number)) for step_number in step_numbers
    ]
    # This dict has each compute set once, even if several steps of the operation execute it.
    parts_by_set = {
        profile.steps[step_number].compute_set: profile.parts(step_number)
        for step_number in step_numbers
    }
    vertex_groups = [group for parts_of_set in parts_by_set.values() for group in parts_of_set]
    flops = [
        int(executions[step_number]) * group.flops if group.flops >= 0 else -1
        for step_number in step_numbers
        for group in profile.parts(step_number)
    ]
    code_bytes = (
        sum(tiles_with_code.pop(step_number, 0) for step_number in step_numbers)
        * target.vertex_code_bytes
    )
    # If the cycles of a step depend on data, there is a compiled step for each measurement. All
    # these steps have the same code, so the code counts only for the one that the programs execute.
    for step_number in (
        step_number for step_number in step_numbers if step_number in profile.own_steps
    ):
        exchange = profile.cost(step_number).exchange
        step = profile.steps[step_number]
        tiles_of_parts = [group.on for group in profile.parts(step_number)]
        code_bytes += int(
            control_code_bytes(exchange, tiles_of_parts, step.to_device is not None, target).sum()
        )
        code_bytes += sum(int(exchange_code_bytes(traffic, target).sum()) for traffic in exchange)
    lines = [group.line for group in vertex_groups if group.line] + [
        profile.steps[step_number].line
        for step_number in step_numbers
        if profile.steps[step_number].line
    ]
    return Operation(
        name,
        len(step_numbers),
        executions=sum(times for times, _ in costs),
        vertices=sum(group.vertices for group in vertex_groups),
        cycles=sum(times * cost.cycles for times, cost in costs),
        compute_cycles=sum(times * cost.compute_duration for times, cost in costs),
        exchange_cycles=sum(times * cost.exchange_duration for times, cost in costs),
        bytes_received=sum(
            times * traffic.total for times, cost in costs for traffic in cost.exchange
        ),
        flops=-1 if min(flops, default=0) < 0 else sum(flops),
        code_bytes=int(code_bytes),
        line=lines[0] if lines else "",
    )


def _vertex_code(profile: Profile) -> Counter[int]:
    """Return a Counter that maps each step number to how many pieces of vertex code it adds.

    A step adds a piece of code to a tile if no earlier step needs this piece on the tile. Each
    codelet is one piece of code. Two other pieces are the code for copies of contiguous data and
    the code for copies of several pieces of data. The key -1 is for all compute sets that no
    program executes.
    """
    has_code: defaultdict[object, Array] = defaultdict(
        lambda: np.zeros(profile.target.num_tiles, bool)
    )
    tiles_with_code = Counter[int]()
    code_and_tiles = list[tuple[object, Array]]()
    executed = [
        (step_number, profile.steps[step_number].compute_set)
        for step_number in sorted(profile.own_steps)
    ]
    for step_number, set_number in (
        *executed,
        *((-1, set_number) for set_number in range(len(profile.compute_sets))),
    ):
        code_and_tiles = [
            ("copy", np.array((traffic.pieces == 1, traffic.pieces > 1)))
            for traffic in (profile.cost(step_number).exchange if step_number >= 0 else ())
        ]
        for part in profile.compute_sets[set_number].parts if set_number >= 0 else ():
            code_and_tiles.append(
                (part.codelet, np.isin(np.arange(profile.target.num_tiles), part.on))
            )
        for code, is_needed in code_and_tiles:
            tiles_with_code[step_number] += int((is_needed & ~has_code[code]).sum())
            has_code[code] = has_code[code] | is_needed
    return tiles_with_code
