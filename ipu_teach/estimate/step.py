"""The estimate of a step: operations, host transfers, pipeline and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.cost.host_transfers import host_cycles
from ipu_teach.cost.links import link_cycles
from ipu_teach.cost.rearrange import copy_cycles
from ipu_teach.device import Device
from ipu_teach.errors import ModelError, counted
from ipu_teach.estimate import memory
from ipu_teach.estimate.links import Replicas
from ipu_teach.estimate.prices import PRICES
from ipu_teach.estimate.pricing import Pricer
from ipu_teach.estimate.result import Estimate, Line
from ipu_teach.frontends.ir.snapshots import with_snapshots
from ipu_teach.frontends.ir.values import BACKWARD, FORWARD, OPS, UPDATE, Ir, Value
from ipu_teach.poplibs.options import Options
from ipu_teach.schedules import (
    BACKWARD as BACKWARD_WORK,
    SEQUENTIAL,
    Ticks,
    Work,
    pipeline_schedule,
    stash,
)
from ipu_teach.target import FULL, Target
from ipu_teach.types import UNSIGNED_CHAR

# The name of the line (row of the estimate) for the conversion of inputs that arrive as bytes.
FROM_BYTES = "cast of 8-bit input"
BETWEEN_STAGES = "copy to another stage"
STORED = "copy of saved activations"


@dataclass(frozen=True)
class Transfers:
    """The host transfers of a micro-batch or of an update.

    `received` and `sent` map each stage to a list with the number of bytes of each transferred
    value.
    """

    received: Mapping[int, list[int]]
    sent: Mapping[int, list[int]]

    def cycles(self, links: Replicas, stage: int | None = None, sent: bool | None = None) -> float:
        """Return the cycles of the transfers of `stage`, one after the other.

        If `stage` is None, the transfers of all stages are counted. If `sent` is True, only
        transfers to the host are counted; if it is False, only transfers from the host; if it is
        None, both.
        """
        target, total = links.target, 0.0
        for is_sent, by_stage in ((False, self.received), (True, self.sent)):
            for at, sizes in by_stage.items():
                if stage in (None, at) and sent in (None, is_sent):
                    for size in sizes:
                        packet = min(size, target.host_packet_bytes)
                        total += host_cycles([size], target) + links.sync
                        total += float(exchange_cycles(packet, target))
        return total


def estimated(
    step: Ir, target: Target | Device, options: Options | None, byte_inputs: bool
) -> Estimate:
    """Return the estimate of a step. The parameters and the errors are those of `ir.estimate`."""
    machine = target.target if isinstance(target, Device) else target
    needed = step.stages * step.replicas
    if needed > machine.num_ipus:
        raise ModelError(f"""The graph has {counted(step.stages, "stage")} and
            {counted(step.replicas, "replica")}, so it needs {needed:,} IPUs, but the machine has
            {counted(machine.num_ipus, "IPU")}.
            next:  use a machine with enough IPUs: IPUModel("ipu2", num_ipus={needed}).""")
    ir = with_snapshots(step)
    links = Replicas(machine, ir.replicas, ir.stages)
    pricer = Pricer(PRICES, machine, links, options)
    lines = priced(ir, pricer)
    extra = _from_bytes(ir, pricer) if byte_inputs else []
    extra += _between_stages(ir, links)
    extra += _stored(ir, pricer) if ir.schedule else []
    per_batch, per_update = _transfers(ir, 1 if byte_inputs else 0)
    ticks = _ticks(ir)
    samples = next((value.shape[0] for value in ir.inputs.values() if value.shape), 1)
    stored = stash(ticks, ir.stages) if ticks else [1] * ir.stages
    tile_memory = memory.plan(ir, pricer.target, lines, stored)
    update_lines = [line for line in lines if line.part == UPDATE]
    return Estimate(
        lines=(*lines, *extra),
        target=pricer.target,
        samples=samples,
        accumulation=ir.accumulation,
        replicas=ir.replicas,
        micro_batches=_micro_batches(ir, [*lines, *extra], links, per_batch, ticks),
        host=ir.accumulation * per_batch.cycles(links) + per_update.cycles(links),
        update=_slowest(update_lines, ir.stages) + per_update.cycles(links),
        memory=tile_memory,
        advice=memory.advice(ir, pricer.target, lines, stored, tile_memory, samples),
    )


def priced(ir: Ir, pricer: Pricer) -> list[Line]:
    """Return a `Line` with the price of each operation of a graph, in order."""
    fetched: set[Value] = set()
    section: tuple[str, int, int] | None = None
    lines = []
    for op in ir.ops:
        op_section = (op.part, op.phase, op.stage)
        # As in `Lowering`, a remote variable is fetched once for each part, phase and stage. In the
        # update, it is fetched for each operation.
        if op_section != section or op.part == UPDATE:
            fetched.clear()
        section = op_section
        pricer.line = Line(op.path, op.kind, op.part, op.stage, op.where)
        remote = [value for value in op.inputs if value.remote]
        is_store = op.kind == "assign" and op.inputs[0] in remote
        for value in remote[1:] if is_store else remote:
            if value not in fetched:
                _stream(pricer, value)
                fetched.add(value)
        if not is_store:
            pricer.add(op)
        for value in remote if OPS[op.kind].in_place else ():
            if value in fetched or is_store:
                _stream(pricer, value)
        lines.append(pricer.line)
    return lines


def _stream(pricer: Pricer, value: Value) -> None:
    """Add a transfer of `value` between the tiles and streaming memory."""
    num_bytes = value.size * value.dtype.size
    pricer.superstep(0, min(num_bytes, pricer.target.host_packet_bytes))
    pricer.line.streaming += host_cycles([num_bytes], pricer.target, streaming=True)


# --- inputs, outputs, stages ----------------------------------------------------------------------


def _transfers(ir: Ir, float_bytes: int) -> tuple[Transfers, Transfers]:
    """Return the host transfers of a micro-batch, and those of an update.

    `float_bytes` is the size of an element of a float input, in bytes; 0 stands for the size of its
    dtype.
    """
    maker = ir.maker()
    received: list[dict[int, list[int]]] = [{}, {}]
    sent: list[dict[int, list[int]]] = [{}, {}]
    for value in ir.inputs.values():
        size = value.size * (float_bytes if float_bytes and value.floating else value.dtype.size)
        for stage in {op.stage for op in ir.ops if value in op.inputs}:
            received[0].setdefault(stage, []).append(size)
    for value in ir.outputs.values():
        op = maker.get(value)
        is_update = op is not None and op.part == UPDATE
        stage = op.stage if op else 0
        sent[is_update].setdefault(stage, []).append(value.size * value.dtype.size)
    return Transfers(received[0], sent[0]), Transfers(received[1], sent[1])


def _from_bytes(ir: Ir, pricer: Pricer) -> list[Line]:
    """Return a line for the conversion of each float input that arrives as bytes."""
    lines = []
    for value in ir.inputs.values():
        if value.floating:
            pricer.line = Line("", FROM_BYTES, FORWARD, shapes=repr(value))
            count = pricer.elements(value)
            cycles = vertices.cast_1d(count, UNSIGNED_CHAR, value.dtype, pricer.target)
            pricer.superstep(float(cycles))
            lines.append(pricer.line)
    return lines


def _between_stages(ir: Ir, links: Replicas) -> list[Line]:
    """Return a line for each value that a stage sends to another stage."""
    maker, lines = ir.maker(), []
    pairs = {
        (value, op.stage): maker[value]
        for op in ir.ops
        for value in op.inputs
        if value in maker and maker[value].stage != op.stage
    }
    for (value, stage), op in pairs.items():
        flows = np.zeros((links.target.num_ipus,) * 2, np.int64)
        for first in range(0, links.target.num_ipus, links.stages):
            flows[first + op.stage, first + stage] = value.size * value.dtype.size
        line = Line(op.path, BETWEEN_STAGES, op.part, op.stage, repr(value))
        line.links, line.sync, line.supersteps = link_cycles(flows, links.target), links.sync, 1
        lines.append(line)
    return lines


def _stored(ir: Ir, pricer: Pricer) -> list[Line]:
    """Return lines for the copies of a pipeline's saved activations to and from the stash."""
    lines, roots = [], memory.storage(ir)
    for stage in range(ir.stages):
        values = memory.saved(ir, stage, roots)
        sizes = [pricer.elements(value) * value.dtype.size for value in values]
        cycles, _ = copy_cycles(np.array(len(values)), np.array(sum(sizes)), pricer.target)
        for part in (FORWARD, BACKWARD) if values else ():
            pricer.line = Line("", STORED, part, stage)
            pricer.superstep(float(cycles))
            lines.append(pricer.line)
    return lines


# --- time -----------------------------------------------------------------------------------------


def _slowest(lines: Sequence[Line], stages: int) -> float:
    """Return the cycles of the slowest stage, because all stages work in parallel."""
    by_stage = [0.0] * stages
    for line in lines:
        by_stage[line.stage] += line.cycles
    return max(by_stage)


def _ticks(ir: Ir) -> Ticks:
    """Return the ticks of the pipeline, or [] if the stages work one after the other."""
    if not ir.schedule or ir.schedule == SEQUENTIAL:
        return []
    is_training = any(op.part == BACKWARD for op in ir.ops)
    return pipeline_schedule(ir.stages, ir.accumulation, ir.schedule, is_training)


def _micro_batches(
    ir: Ir, lines: Sequence[Line], links: Replicas, transfers: Transfers, ticks: Ticks
) -> float:
    """Return the cycles of all micro-batches of an update, including their host transfers.

    A tick of a pipeline lasts as long as its slowest stage.
    """
    cycles = {(stage, part): 0.0 for stage in range(ir.stages) for part in (FORWARD, BACKWARD)}
    for line in lines:
        if line.part != UPDATE:
            cycles[line.stage, line.part] += line.cycles
    if not ticks:
        return ir.accumulation * (sum(cycles.values()) + transfers.cycles(links))
    is_full = links.target.sync_pattern == FULL
    return sum(_tick(tick, cycles, links, transfers, is_full) for tick in ticks)


def _tick(
    tick: Sequence[Work],
    cycles: Mapping[tuple[int, str], float],
    links: Replicas,
    transfers: Transfers,
    is_full: bool,
) -> float:
    """Return the cycles of a tick. If `is_full`, all stages wait for each host transfer.

    `cycles` maps (stage, part) to the cycles of a stage without its host transfers.
    """
    clocks = [0.0] * links.stages

    def transfer(stage: int, sent: bool) -> None:
        duration = transfers.cycles(links, stage, sent)
        if duration and is_full:
            clocks[:] = [max(clocks) + duration] * len(clocks)
        else:
            clocks[stage] += duration

    for work in sorted(tick, key=lambda work: work.stage):
        is_backward = work.kind == BACKWARD_WORK
        if not is_backward:
            transfer(work.stage, False)
        clocks[work.stage] += cycles[work.stage, BACKWARD if is_backward else FORWARD]
        if not is_backward:
            transfer(work.stage, True)
    return max(clocks)
