"""Stored graphs of well-known networks, for any batch and machine, usable without a framework.

`docs/make_networks.py` captures the forward passes from PyTorch. The batch of a stored graph is
`BATCH`. This is a prime that divides no other size in the networks, so `with_batch` can recognise
and replace it. The weights are not stored: all variables have the initial value 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from ipu_teach.errors import ModelError, ModelLoadError, counted, did_you_mean
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir.attributes import Attribute
from ipu_teach.frontends.ir.values import CONSTANT, Ir, Op, Value

BATCH = 13
FOLDER = Path(__file__).parent / "stored"
# Maps the name of each network to (title, the command's default micro-batch).
NETWORKS: Mapping[str, tuple[str, int]] = {
    "resnet18": ("ResNet-18 on images of 224 x 224", 16),
    "resnet50": ("ResNet-50 on images of 224 x 224", 4),
    "bert-base": ("BERT-Base on 128 tokens, 20 of them masked", 2),
    "bert-large": ("BERT-Large on 128 tokens, 20 of them masked", 1),
    "gpt-small": ("a GPT of 6 layers of 384 features on 128 tokens", 4),
}
LOSS = "loss"
# The blocks of ResNet-50 whose outputs were saved as checkpoints in Graphcore's MLPerf 1.1 run:
# b1/0, b1/2, b2/0, b2/2, b3/0 and b3/3 of its configs.yml, under the names of the stored network.
CHECKPOINTS = "groups.0.0", "groups.0.2", "groups.1.0", "groups.1.2", "groups.2.0", "groups.2.3"


def network(name: str, batch: int) -> Ir:
    """Return the forward pass of a stored network for micro-batches of `batch` samples.

    The graph has an output named "loss".

    :raises ModelError: for an unknown name.
    :raises ModelLoadError: if the stored file is missing or damaged.
    """
    if name not in NETWORKS:
        raise ModelError(f"""There is no stored network {name!r}.
            next:  {did_you_mean(name, NETWORKS)}use one of {", ".join(NETWORKS)}.""")
    return with_batch(_stored(FOLDER / f"{name}.ipumodel"), batch)


@cache
def _stored(path: Path) -> Ir:
    """Return the graph in a file. It is cached, so callers must not change it."""
    try:
        return ir.load(path)
    except ModelLoadError as error:
        raise ModelLoadError(
            f"The stored file of the network {path.stem} is missing or damaged.",
            where=str(path),
            next_step="install ipu_teach again, or use another network.",
        ) from error


def checkpoints(graph: Ir) -> list[Value]:
    """Return the values that Graphcore's ResNet-50 saves instead of recomputing them.

    They are the outputs of the blocks `CHECKPOINTS`, and all values after the last of these blocks.
    `graph` is the stored network "resnet50".
    """
    ends = [n for n, op in enumerate(graph.ops) if op.kind == "relu" and op.path in CHECKPOINTS]
    ops = [graph.ops[n] for n in ends] + list(graph.ops[ends[-1] + 1 :])
    return [value for op in ops for value in op.outs]


def with_batch(graph: Ir, batch: int) -> Ir:
    """Return a copy of `graph` with micro-batches of `batch` samples instead of `BATCH`."""

    def scaled(value: Attribute) -> Attribute:
        if isinstance(value, (list, tuple)):
            return tuple(scaled(item) for item in value)
        is_batch = type(value) is int and value and value % BATCH == 0
        return value // BATCH * batch if is_batch else value

    values: dict[Value, Value] = {}

    def changed(value: Value) -> Value:
        if value not in values:
            initial = value.initial
            shape = value.shape
            if value.kind != "variable":
                shape = tuple(int(size) for size in scaled(value.shape))
            if value.kind == CONSTANT and initial is not None and initial.shape != ():
                initial = np.zeros((), initial.dtype) if shape != value.shape else initial
            values[value] = replace(value, shape=shape, initial=initial)
        return values[value]

    ops = []
    for op in graph.ops:
        attrs = {name: scaled(value) for name, value in op.attrs.items()}
        inputs = tuple(changed(value) for value in op.inputs)
        ops.append(replace(op, inputs=inputs, outs=tuple(map(changed, op.outs)), attrs=attrs))
    named = (graph.variables, graph.inputs, graph.outputs)
    variables, inputs_, outputs = (
        {name: changed(value) for name, value in group.items()} for group in named
    )
    return graph.but(ops=ops, variables=variables, inputs=inputs_, outputs=outputs)


def with_stages(graph: Ir, stages: int, cycles: Sequence[float]) -> Ir:
    """Return a forward pass divided into `stages` stages of about equal cycles.

    `cycles` are the cycles of each operation. A stage begins at the first operation of a module.

    :raises ModelError: if the graph has fewer modules than stages.
    """
    if stages == 1:
        return graph
    modules = list(dict.fromkeys(_module(op) for op in graph.ops))
    if len(modules) < stages:
        raise ModelError(f"""The network has {counted(len(modules), "module")}, which cannot be
            divided into {stages} stages.
            next:  use at most {len(modules)} stages.""")
    totals = dict.fromkeys(modules, 0.0)
    for op, count in zip(graph.ops, cycles, strict=True):
        totals[_module(op)] += count
    limit = sum(totals.values()) / stages
    stage_of, stage, now = {}, 0, 0.0
    for number, module in enumerate(modules):
        remaining = len(modules) - number
        is_full = now + totals[module] / 2 > limit or remaining <= stages - 1 - stage
        if stage < stages - 1 and now and is_full:
            stage, now = stage + 1, 0.0
        stage_of[module] = stage
        now += totals[module]
    ops, highest = [], 0
    for op in graph.ops:
        highest = max(highest, stage_of[_module(op)])
        ops.append(replace(op, stage=highest))
    placed = graph.but(ops=ops)
    homes = [placed.home(op.inputs[0], op.stage) if _is_update(op) else op.stage for op in ops]
    return placed.but(ops=[replace(op, stage=home) for op, home in zip(ops, homes, strict=True)])


def _module(op: Op) -> str:
    """Return the path of an operation's module, cut off after three levels."""
    return ".".join(op.path.split(".")[:3])


def _is_update(op: Op) -> bool:
    return ir.OPS[op.kind].in_place
