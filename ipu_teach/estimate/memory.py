"""An estimate of the memory used on a tile: variables, live values, and temporary data.

No tensor is mapped to tiles. The bytes of variables and values are means over the tiles of an IPU.
The temporary data of a product are those of the fullest tile in the product's plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ipu_teach.estimate.result import Line, TileMemory
from ipu_teach.frontends.ir.autodiff import STATE
from ipu_teach.frontends.ir.values import BACKWARD, FORWARD, INPUT, MADE, OPS, UPDATE, Ir, Op, Value
from ipu_teach.target import Target

WEIGHTS, OPTIMISER, SUMS = "weights", "optimiser state", "gradient sums"
SAVED, LIVE, TEMPORARY = "saved activations", "other live values", "temporary data of an operation"
CODE = "code and stacks"


@dataclass
class _Peak:
    """The live values and the temporary data at one operation, in bytes per tile.

    `live` are the bytes of all live values, of which `saved` were saved by the forward pass.
    `fixed` are the bytes of live gradients; they do not depend on the size of the micro-batch.
    `temporary` are the bytes of the operation's temporary data.
    """

    op: Op
    live: float = 0.0
    saved: float = 0.0
    temporary: float = 0.0
    fixed: float = 0.0

    @property
    def total(self) -> float:
        return self.live + self.temporary


def plan(
    ir: Ir, target: Target, lines: Sequence[Line], in_flight: Sequence[int]
) -> tuple[TileMemory, ...]:
    """Return the memory used on a tile of each stage, at the operation that needs most memory.

    `lines` are the prices of the operations of `ir`, in the same order. `in_flight` is, for each
    stage, the number of micro-batches whose activations are saved at the same time.
    """
    roots = storage(ir)
    return tuple(
        _stage(
            ir,
            target,
            max(_peaks(ir, target, lines, stage, roots), key=lambda peak: peak.total),
            lines,
            stage,
            in_flight[stage],
        )
        for stage in range(ir.stages)
    )


def _stage(
    ir: Ir, target: Target, peak: _Peak, lines: Sequence[Line], stage: int, in_flight: int
) -> TileMemory:
    uses = _variables(ir, target, stage)
    uses[SAVED] = peak.saved * in_flight
    uses[LIVE] = peak.live - peak.saved
    uses[TEMPORARY] = peak.temporary
    uses[CODE] = _code(target, [line for line in lines if line.stage == stage])
    where = f"{peak.op.part} {peak.op.name}"
    return TileMemory(
        tuple((name, size) for name, size in uses.items() if round(size)),
        where,
        target.bytes_per_tile,
    )


def _code(target: Target, lines: Sequence[Line]) -> float:
    """Return the number of bytes of the stacks, codelets and control code on a tile."""
    codelets = len({(line.kind, line.part) for line in lines if line.supersteps})
    steps = sum(line.supersteps for line in lines)
    return float(
        target.num_worker_contexts * target.worker_stack_bytes
        + target.supervisor_stack_bytes
        + codelets * target.vertex_code_bytes
        + steps * target.control_code_bytes_per_step
    )


def _variables(ir: Ir, target: Target, stage: int) -> dict[str, float]:
    """Return the mean bytes per tile of a stage's variables, by use, without remote variables."""
    state = {v for op in ir.ops if op.kind in STATE for v in op.inputs[3:]}
    sums = {op.inputs[0] for op in ir.ops if op.kind == "accumulate"}
    uses = dict.fromkeys((WEIGHTS, OPTIMISER, SUMS), 0.0)
    for value in ir.variables.values():
        if not value.remote and ir.home(value) == stage:
            use = OPTIMISER if value in state else SUMS if value in sums else WEIGHTS
            uses[use] += _bytes(value, target)
    return uses


def _bytes(value: Value, target: Target) -> float:
    return value.size * value.dtype.size / target.tiles_per_ipu


def storage(ir: Ir) -> Mapping[Value, Value]:
    """Return a dict from each view to the value whose memory it shares."""
    roots: dict[Value, Value] = {}
    for op in ir.ops:
        if OPS[op.kind].view and op.inputs and op.kind not in ("concat", "pad"):
            for out in op.outs:
                roots[out] = roots.get(op.inputs[0], op.inputs[0])
    return roots


def saved(ir: Ir, stage: int, roots: Mapping[Value, Value]) -> set[Value]:
    """Return the inputs and the forward values of a stage that its backward pass reads.

    `roots` is the result of `storage`.
    """
    ops = [op for op in ir.ops if op.stage == stage]
    forward = {v for op in ops if op.part == FORWARD for v in op.outs}
    backward = {roots.get(v, v) for op in ops if op.part == BACKWARD for v in op.inputs}
    return {v for v in backward if v in forward or v.kind == INPUT}


def _peaks(
    ir: Ir, target: Target, lines: Sequence[Line], stage: int, roots: Mapping[Value, Value]
) -> list[_Peak]:
    """Return the bytes of live values and of temporary data at each operation of a stage."""
    ops = [(op, line) for op, line in zip(ir.ops, lines, strict=True) if op.stage == stage]
    last: dict[Value, int] = {}
    for index, (op, _) in enumerate(ops):
        for value in op.inputs:
            last[roots.get(value, value)] = index
    sent = {
        roots.get(value, value)
        for op in ir.ops
        for value in op.inputs
        if op.stage != stage and value.kind == MADE
    }
    kept_values = saved(ir, stage, roots)
    ending: dict[int, list[Value]] = {}
    for value, index in last.items():
        ending.setdefault(index, []).append(value)
    alive = {v for v in ir.inputs.values() if v in last}
    gradients = {
        roots.get(value, value)
        for op in ir.ops
        if op.part == UPDATE or op.kind == "accumulate"
        for value in (*op.inputs, *op.outs)
    }
    peaks = [] if ops else [_Peak(Op("step", (), (), {}))]
    now = _Peak(peaks[0].op if peaks else ops[0][0])

    def change(value: Value, sign: int) -> None:
        size = sign * _bytes(value, target)
        now.live += size
        now.saved += size if value in kept_values else 0.0
        now.fixed += size if value in gradients else 0.0

    for value in alive:
        change(value, 1)
    for index, (op, line) in enumerate(ops):
        for out in op.outs if not OPS[op.kind].view else ():
            if (out in last or out in sent) and out not in alive:
                alive.add(out)
                change(out, 1)
        peaks.append(replace(now, op=op, temporary=line.temporary))
        for value in ending.get(index, ()):
            if value in alive:
                alive.discard(value)
                change(value, -1)
    return peaks


def advice(
    ir: Ir,
    target: Target,
    lines: Sequence[Line],
    in_flight: Sequence[int],
    memory: Sequence[TileMemory],
    samples: int,
) -> str:
    """Return sentences of advice for a model that does not fit, or "" if the model fits.

    One sentence names the choices that would make the model fit. Another names the choices that may
    or may not be enough. `memory` is the result of `plan` with the same arguments, and `samples` is
    the number of samples in a micro-batch. A smaller micro-batch is named only if all operations
    then fit.
    """
    stage = max(memory, key=lambda stage: stage.share)
    if stage.share <= 1:
        return ""
    uses = dict(stage.uses)
    excess = stage.total - stage.limit
    choices, further = [], []
    batch = _largest_batch(ir, target, lines, in_flight, memory, samples)
    if batch:
        choices.append(f"a micro-batch of {batch}")
    if uses.get(OPTIMISER, 0.0) > excess and any(op.part == UPDATE for op in ir.ops):
        choices.append("the optimiser's state in streaming memory")
    recomputes = any(out.name.endswith("/again") for op in ir.ops for out in op.outs)
    if uses.get(SAVED, 0.0) > excess and not recomputes:
        further.append("recomputation")
    if uses.get(TEMPORARY, 0.0) > excess:
        further.append("a smaller available memory proportion")
    sentences = []
    if choices:
        sentences.append(f"It would fit with {' or '.join(choices)}.")
    if further:
        text = " or ".join(further)
        sentences.append(f"{text[:1].upper()}{text[1:]} may be enough.")
    if not sentences:
        return "No single choice is enough: divide the model into more stages."
    return " ".join(sentences)


def _largest_batch(
    ir: Ir,
    target: Target,
    lines: Sequence[Line],
    in_flight: Sequence[int],
    memory: Sequence[TileMemory],
    samples: int,
) -> int:
    """Return the largest micro-batch with which all operations fit, or 0 if there is none.

    The temporary data are assumed to stay as large as in a micro-batch of `samples` samples.
    """
    roots, share = storage(ir), 1.0
    for stage, plan in enumerate(memory):
        always = sum(size for name, size in plan.uses if name not in (SAVED, LIVE, TEMPORARY))
        for peak in _peaks(ir, target, lines, stage, roots):
            room = plan.limit - always - peak.fixed - peak.temporary
            values = peak.live - peak.fixed + peak.saved * (in_flight[stage] - 1)
            if room < values:
                share = min(share, room / values) if values > 0 else 0.0
    return max(0, int(samples * share))
